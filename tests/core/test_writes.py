"""What is said of what changed where a phase may not write."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from marathon.agents.acp_reading import tool_called
from marathon.agents.codex import called
from marathon.core.courses.workflow import Phase
from marathon.core.events import Event, ToolCalled, ToolEnded, paths_written
from marathon.core.records import Writes
from marathon.core.writes import rule, together, told, told_agent, without

FIRST = Writes(files=["a.py", "b.py"], count=2, tree="t1", by_agent=["b.py"])
SECOND = Writes(files=["b.py", "c.py"], count=2, tree="t2", commit="c2" * 20, was="c1" * 20, commits=1)
CODEX = called({"type": "fileChange", "id": "1", "changes": [{"path": "a.py"}, {"path": "b, c.py"}]})
ACP = tool_called({"id": "1", "kind": "edit", "locations": [{"path": "a.py"}, {"path": "b.py"}]})
assert CODEX


@pytest.mark.parametrize(
    ("event", "paths"),
    [
        (ToolCalled("1", "write", {"path": "a.py", "content": "x"}), {"a.py"}),  # pi
        (ToolCalled("1", "Edit", {"file_path": "/p/a.py"}), {"/p/a.py"}),  # Claude
        (ToolCalled("1", "NotebookEdit", {"notebook_path": "/p/a.ipynb"}), {"/p/a.ipynb"}),
        (CODEX, {"a.py", "b", "c.py", "a.py, b, c.py"}),
        (ACP, {"a.py", "b.py", "a.py, b.py"}),
        (ToolCalled("1", "read", {"path": "a.py"}), set()),
        (ToolCalled("1", "bash", {"command": "echo > a.py", "path": 7}), set()),
    ],
)
def test_the_paths_that_writing_tools_name(event: Event, paths: set[str]) -> None:
    assert paths_written([event]) == paths
    assert paths_written([event, ToolEnded("1", "write", failed=True)]) == set()
    assert paths_written([event, ToolEnded("1", "write")]) == paths


def test_several_sessions_of_a_phase_are_told_as_one() -> None:
    undone = Writes(files=["x.py"], count=1, patch="p")
    found = together([("research", FIRST), ("look", undone), ("research", SECOND)])
    assert [phase for phase, _ in found] == ["look", "research"]
    said = told("research", found[1][1], "task")
    assert said == (
        "3 files and 1 commit changed while research ran; they may be yours: a.py, b.py, c.py, c1c1c1c1c1c1 → "
        "c2c2c2c2c2c2. Tool calls of the agent wrote b.py; what its shell commands wrote is not known."
    )


def test_the_agent_is_told_of_what_is_left_and_what_a_human_undid() -> None:
    plan = Phase(id="plan", name="Plan", brief="b", writes="task")
    left = without(FIRST, ["b.py", "other.py"], "")
    assert (left.files, left.count, left.by_agent, left.undone) == (["a.py"], 1, [], ["b.py"])
    said = "1 file changed while research ran (a.py). It was kept, because it may be the human's."
    assert told_agent("research", left, plan) == f"{said} The human undid: b.py. Plan may not write there."
    nothing = without(left, ["a.py"], "")
    assert told_agent("research", nothing, plan) == "The human undid: b.py, a.py. Plan may not write there."


def test_what_was_undone_in_a_worktree_is_not_for_a_human_to_undo() -> None:
    undone = Writes(files=["x.py"], count=1, patch="p")
    assert without(undone, ["x.py"], "c") == undone
    assert without(SECOND, [], "c2" * 20) == replace(SECOND, commit="", was="", commits=0)


@pytest.mark.parametrize(
    ("writes", "only"),
    [
        ("project", None),
        ("task", "write only in `docs/x/`."),
        ("none", "write only `docs/x/plan.md` and `docs/x/task.md` and `docs/x/STATE.json`."),
    ],
)
def test_an_agent_is_told_where_its_phase_may_write(writes: Any, only: str | None) -> None:
    phase = Phase(id="plan", name="Plan", brief="b", output="plan.md", checklist="task.md", writes=writes)
    said = rule(phase, "docs/x")
    assert said == "" if only is None else only in said
