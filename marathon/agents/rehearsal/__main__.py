"""The rehearsal agent's entry: one session, one phase, and one place where trouble becomes a sentence."""

import sys
from collections.abc import Callable

from marathon.agents.rehearsal import implement, plan, research
from marathon.agents.rehearsal.files import leave_state, write_text
from marathon.agents.rehearsal.session import Session, Trouble, from_environment


def unknown_phase(session: Session) -> None:
    """A phase of another workflow: leave an honest note where the prompt says the output goes."""
    target = session.output()
    if target is not None:
        write_text(
            target, f"# {session.phase}\n\nThe rehearsal agent knows no such phase; it left this note and no work.\n"
        )
    session.say(f"{session.phase} is not a phase I know")
    leave_state(session, "paused", session.phase, f"{session.phase}: nothing but a note was written")


PHASES: dict[str, Callable[[Session], None]] = {
    "research": research.run,
    "plan": plan.run,
    "implement": implement.run,
}


def main() -> int:
    try:
        session = from_environment()
        PHASES.get(session.phase, unknown_phase)(session)
    except (Trouble, OSError) as trouble:
        print(f"rehearsal agent: {trouble}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
