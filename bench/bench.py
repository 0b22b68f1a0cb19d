"""What bin/bench starts: takes the figures, shows them and keeps them as JSON."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

if __name__ == "__main__":
    # From the checkout's root, so that `bench` is this folder and `marathon` is the one measured.
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

import psutil

from bench import background, lanes, listing, page, sessions, waits
from bench.row import Row, summary
from bench.scratch import Scratch

GROUPS = {
    "start": waits.starts,
    "gap": sessions.between,
    "share": sessions.during,
    "gate": waits.gate,
    "comments": waits.comments,
    "memory": sessions.after,
    "loops": lanes.loops,
    "list": listing.tasks,
    "background": background.background,
    "page": page.page,
}
RESULTS = Path(__file__).resolve().parent / "results.json"
# Kept on disk even where /tmp is memory, in which a synced write would cost nothing.
ON_DISK = Path("/var/tmp")


def main(args: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser("bin/bench", description="Figures against the bars of the project.")
    parser.add_argument("--only", action="append", choices=GROUPS, help="only this group; may be given again")
    parser.add_argument("--quick", action="store_true", help="just enough to see that it works; the figures say little")
    parser.add_argument("--strict", action="store_true", help="exit 1 if a bar is missed")
    parser.add_argument("--out", type=Path, default=RESULTS, metavar="FILE", help="the JSON file")
    parser.add_argument("--dir", type=Path, metavar="DIR", help="where to work: its disk is measured; made if missing")
    options = parser.parse_args(args)
    folder = options.dir or (ON_DISK if ON_DISK.is_dir() else Path(tempfile.gettempdir()))
    folder.mkdir(parents=True, exist_ok=True)
    machine = _machine(folder)
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="pi-marathon-bench-", dir=folder) as made:
        for name in options.only or GROUPS:
            print(f"measuring: {name} ...", file=sys.stderr, flush=True)
            rows += GROUPS[name](Scratch(Path(made), full=not options.quick))
    report = {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "quick": options.quick,
        "machine": machine,
        "rows": [row.facts() for row in rows],
        "summary": summary(rows),
    }
    options.out.write_text(json.dumps(report, indent=2) + "\n")
    print(", ".join(f"{name} {value}" for name, value in machine.items()))
    for row in rows:
        _show(row)
    print(f"{summary(rows)}; kept in {options.out}")
    return int(options.strict and not all(row.ok for row in rows))


def _machine(folder: Path) -> dict[str, object]:
    """On what, and beside what, the figures were taken: without it they say little."""
    mounts = [each for each in psutil.disk_partitions(all=True) if folder.resolve().is_relative_to(each.mountpoint)]
    return {
        "cores": psutil.cpu_count(),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()}",
        "filesystem": max(mounts, key=lambda each: len(each.mountpoint)).fstype if mounts else "unknown",
        "load": [round(average, 2) for average in os.getloadavg()],
    }


def _show(row: Row) -> None:
    value, bar = f"{row.value:.3g} {row.unit}".rstrip(), f"<= {row.at_most:g} {row.unit}".rstrip()
    print(f"{'ok' if row.ok else 'MISSED':7}{row.name:42}{value:>11}   {bar}\n{'':9}{row.about}")


if __name__ == "__main__":
    sys.exit(main())
