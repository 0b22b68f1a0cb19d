"""The courses there are: a line each."""

from __future__ import annotations

from collections.abc import Callable

from marathon.core.courses.base import Course
from marathon.core.courses.measured import MeasuredLoop
from marathon.core.courses.phases import Phases
from marathon.core.courses.workflow import Definitions

COURSES: dict[str, Callable[[Definitions, str], Course]] = {
    Phases.name: Phases,
    MeasuredLoop.name: MeasuredLoop,
}
DEFAULT = Phases.name
