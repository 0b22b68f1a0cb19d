"""What --help and status cost, in bare Python starts."""

from __future__ import annotations

from bench.counts import Counts
from bench.row import Row, Target
from bench.scratch import BARE, DIRECT, LAUNCHER, ROOT, Scratch, least_work

HELP, STATUS = ("--help",), ("status", "finished")


def measure(scratch: Scratch, counts: Counts) -> list[Row]:
    scratch.finished_task("finished")
    commands = {"bare": BARE, "help": (*DIRECT, *HELP), "status": (*DIRECT, *STATUS)}
    if _launcher_is_ready():
        commands |= {"launched help": (*LAUNCHER, *HELP), "launched status": (*LAUNCHER, *STATUS)}
    else:
        scratch.notes.append("bin/pi-marathon was left out: .venv was not made by it, and it would set it up first.")
    least = {name: 1000 * seconds for name, seconds in least_work(scratch, commands, counts.starts).items()}

    def row(name: str, key: str, at_most: float | None = None) -> Row:
        target = None if at_most is None else Target("ratio", at_most)
        return Row(name, least[key], "ms cpu", least["bare"], "python -c pass", target)

    rows = [row("--help", "help", 6), row("status", "status", 15)]
    if "launched help" in least:
        rows += [row("bin/pi-marathon --help", "launched help"), row("bin/pi-marathon status", "launched status")]
    return rows


def _launcher_is_ready() -> bool:
    """As bin/setup.sh sees it."""
    pins, installed = ROOT / "requirements.txt", ROOT / ".venv" / "pi-marathon" / "requirements.txt"
    return installed.exists() and installed.read_bytes() == pins.read_bytes()
