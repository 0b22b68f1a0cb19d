"""The scripted agent of `demo --loop`. In each session it tries the next proposal that its prompt does not name.

It stands for a foreign program, as the rehearsal agent does. Some of its proposals are worse, wrong or cheat.
"""

import json
import os
import sys
import time
from pathlib import Path

PROPOSALS = Path(__file__).resolve().parent / "loop" / "proposals"


def main() -> None:
    prompt, task = sys.stdin.read(), Path(os.environ["MARATHON_TASK_DIR"])
    note = "I know of nothing else to try."
    for path in sorted(PROPOSALS.glob("*.txt")):
        idea, _, edit = path.read_text(encoding="utf-8").partition("\n=== ")
        if idea not in prompt:
            name, _, text = edit.partition("\n")
            Path(name).write_text(text, encoding="utf-8")
            note = idea
            _say(f"editing {name}")
            break
    _say(note)
    proposal = {"state": "running", "phase": "iterate", "note": note}
    (task / "STATE.json").write_text(json.dumps(proposal, indent=2) + "\n", encoding="utf-8")


def _say(line: str) -> None:
    print(line, flush=True)
    time.sleep(float(os.environ.get("MARATHON_REHEARSAL_PACE") or 0))


if __name__ == "__main__":
    main()
