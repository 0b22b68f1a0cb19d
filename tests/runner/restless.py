"""A marathon of a course that never comes to rest: each step is a remark. Says when it is under way."""

from __future__ import annotations

import sys

from marathon.core.budgets import Limits
from marathon.core.courses.base import Course
from marathon.core.courses.where import Where
from marathon.core.courses.workflow import Phase
from marathon.core.life import Life
from marathon.core.records import Begun, Remark, SessionEnded
from marathon.core.steps import Note, Step
from tests.support.inside import Start, run
from tests.support.mortal import Life as RunnerLife
from tests.support.witness import Witness


class Restless(Course):
    name = "restless"
    work = Phase(id="work", name="Work", brief="-")

    def begin(self) -> Begun:
        return Begun(course=self.name, phase="work")

    def where(self, life: Life) -> Where:
        return Where(self.work, phases=("work",), breadcrumb="Work")

    def session(self, life: Life, guidance: tuple[str, ...]) -> Step:
        print("a step", flush=True)
        return Note(Remark(text="and one more"))

    def judge(self, life: Life, ended: SessionEnded, limits: Limits) -> Step | None:
        return None


if __name__ == "__main__":
    witness = Witness("flat")
    try:
        life = RunnerLife(witness.folder, None)
        start = Start(witness.agent([], life), witness.ask([]), life, lambda event: None)
        code = run(witness.place, start, Restless()).code
    finally:
        witness.close()
    sys.exit(code)
