"""What a restart with feedback would leave behind."""

from __future__ import annotations

from marathon.core.courses.base import Course
from marathon.core.courses.workflow import WorkflowInvalid
from marathon.core.life import Life
from marathon.core.text import counted


def left_behind(life: Life, course: Course) -> str:
    """The sentence for the question, such as: implement is not finished; 3 of 5 steps are done. Restart from research?

    Empty if nothing is under way: a task that is over, or still in the phase where a restart begins.
    """
    if not life.begun or life.finished or life.cancelled or life.restart:
        return ""
    try:
        first = course.restart(life).phase
    except WorkflowInvalid:
        return ""
    if first == life.phase:
        return ""
    ticked, boxes = life.steps or (0, 0)
    sessions = counted(life.iteration, "session is", "sessions are")
    done = f"{ticked} of {counted(boxes, 'step is', 'steps are')}" if boxes else sessions
    return f"{life.phase} is not finished; {done} done. Restart from {first}?"
