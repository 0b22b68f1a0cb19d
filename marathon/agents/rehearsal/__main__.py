"""The rehearsal agent's entry: one session, one phase, and one place where trouble becomes a sentence."""

import io
import sys
import warnings
from collections.abc import Callable

from marathon.agents.rehearsal import implement, other, plan, research
from marathon.agents.rehearsal.session import Session, Trouble, from_environment

PHASES: dict[str, Callable[[Session], None]] = {
    "research": research.run,
    "plan": plan.run,
    "implement": implement.run,
}


def main() -> int:
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
    # Odd escapes in the code that is read are the project's affair.
    warnings.simplefilter("ignore")
    try:
        session = from_environment()
        PHASES.get(session.phase, other.run)(session)
    except (Trouble, OSError) as trouble:
        print(f"rehearsal agent: {trouble}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
