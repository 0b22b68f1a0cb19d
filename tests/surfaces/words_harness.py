"""Asks for words on the terminal it is started on, as often as told, and prints what came of it."""

from __future__ import annotations

import sys
from pathlib import Path

from marathon.process.signals import Interrupted, Signals
from marathon.surfaces.text_prompt import ask_text


def main() -> None:
    draft, times = Path(sys.argv[1]), int(sys.argv[2])
    with Signals() as signals:
        try:
            for _ in range(times):
                print(f"<said {ask_text('Feedback:', draft, signals)!r}>", flush=True)
        except Interrupted as end:
            print(f"<interrupted {end}>", flush=True)
            sys.exit(128 + end.signum)
        except EOFError:
            print("<end of input>", flush=True)
            sys.exit(3)


if __name__ == "__main__":
    main()
