"""Takes the figures, shows them as a table and keeps them as JSON."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench import checks, gap, hooks, lists, machine, memory, pi_flood, pi_next, pi_share, starts
from bench.counts import FULL, QUICK, Counts
from bench.row import Row, exit_code, summary
from bench.scratch import Scratch

GROUPS: dict[str, Callable[[Scratch, Counts], list[Row]]] = {
    "start": starts.measure,
    "hook": hooks.measure,
    "check": checks.measure,
    "gap": gap.measure,
    "memory": memory.measure,
    "list": lists.measure,
    "pi-share": pi_share.measure,
    "pi-next": pi_next.measure,
    "pi-flood": pi_flood.measure,
}
RESULTS = Path(__file__).resolve().parent / "results.json"
# Kept on disk even where /tmp is memory, in which a durable write would cost nothing.
ON_DISK = Path("/var/tmp")


def main(args: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(args)
    counts = QUICK if options.quick else FULL
    report, rows = _measured(options.only or list(GROUPS), counts, options.dir)
    _show(report, rows)
    options.out.write_text(json.dumps(report, indent=2) + "\n")
    print(f"{report['summary']}; kept in {options.out}")
    return exit_code(rows, strict=options.strict)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("bin/bench", description="Figures as ratios, all taken in one run.")
    parser.add_argument("--only", action="append", choices=GROUPS, help="only this group; may be given again")
    parser.add_argument("--quick", action="store_true", help="just enough to see that it works; the figures say little")
    parser.add_argument("--strict", action="store_true", help="exit 1 if a target is missed")
    parser.add_argument("--out", type=Path, default=RESULTS, metavar="FILE", help="the JSON file")
    parser.add_argument(
        "--dir", type=Path, metavar="DIR", help="where to work: its filesystem is the one measured; made if missing"
    )
    return parser


def _measured(groups: Sequence[str], counts: Counts, where: Path | None) -> tuple[dict[str, Any], list[Row]]:
    folder = where or (ON_DISK if ON_DISK.is_dir() else None)
    if where:
        where.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="pi-marathon-bench-", dir=folder) as made:
        scratch = Scratch(Path(made))
        facts = machine.facts(scratch.project)
        rows: list[Row] = []
        for name in groups:
            print(f"measuring: {name} ...", file=sys.stderr, flush=True)
            rows += GROUPS[name](scratch, counts)
        after = machine.load()
    report = {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "quick": counts is QUICK,
        "machine": {**facts, "load_after": after},
        "rows": [row.facts() for row in rows],
        "notes": scratch.notes,
        "summary": summary(rows),
    }
    return report, rows


def _show(report: dict[str, Any], rows: list[Row]) -> None:
    # Loaded this late, so that the process that starts all the others is a small one.
    from rich.console import Console
    from rich.table import Table

    facts = report["machine"]
    load = f"load {facts['load'][0]:g} before, {facts['load_after'][0]:g} after"
    about = f"{facts['cores']} cores, Python {facts['python']}, {facts['filesystem']}, {load}"
    table = Table(title=about, title_justify="left", title_style="")
    for heading in ("figure", "value", "against", "ratio", "target", ""):
        table.add_column(heading, justify="right" if heading in ("value", "ratio", "target") else "left")
    for row in rows:
        ratio = "" if row.ratio is None or (row.target and row.target.of == "value") else f"{row.ratio:.2f} x"
        sign = {True: "ok", False: "MISSED", None: ""}[row.ok]
        against = f"{row.against}: {row.baseline:.4g} {row.unit}".rstrip()
        table.add_row(row.name, f"{row.value:.4g} {row.unit}".rstrip(), against, ratio, str(row.target or ""), sign)
    console = Console()
    console.print(table)
    for note in report["notes"]:
        console.print(note, markup=False)
