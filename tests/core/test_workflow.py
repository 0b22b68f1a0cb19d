"""Workflows as the vectors tell them: which definitions are taken, and how a position moves through them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from marathon.core.courses.workflow import (
    MOST_LEVELS,
    MOST_PHASES,
    Position,
    Segment,
    Workflow,
    WorkflowInvalid,
    advance,
    breadcrumb,
    current,
    enter,
    locate,
    loop,
    parse_workflow,
    places,
    recorded_path,
    validate,
)
from marathon.store.definitions import load_workflows
from tests.core.making import RPI, library, workflow

# release: prepare, then a review of two phases, then publish; nested: references to references, first and last.
NESTED = library(
    workflow("release", "prepare", "@review", "publish"),
    workflow("review", "static", "manual"),
    workflow("outer", "first", "@middle"),
    workflow("middle", "@inner", "@inner"),
    workflow("inner", "deep", "deeper"),
)


def at(*segments: tuple[str, int], steps: int = 0) -> Position:
    return Position(tuple(Segment(*segment) for segment in segments), steps)


# Vector 1


def test_a_normal_advance_goes_one_on_and_leaves_its_input_alone() -> None:
    before = at(("review", 0), steps=4)
    assert advance(NESTED, before) == (at(("review", 1), steps=5), False)
    assert before == at(("review", 0), steps=4)


# Vector 2


def test_advancing_onto_a_reference_enters_it_in_one_step() -> None:
    after, over = advance(NESTED, at(("release", 0)))
    assert (after, over) == (at(("release", 1), ("review", 0), steps=1), False)
    assert current(NESTED, after).id == "static"


# Vector 3


def test_a_reference_to_a_reference_is_entered_two_levels_deep_in_one_step() -> None:
    after, over = advance(NESTED, at(("outer", 0)))
    assert (after, over) == (at(("outer", 1), ("middle", 0), ("inner", 0), steps=1), False)


# Vector 4


def test_the_last_phase_of_a_child_goes_on_in_the_parent() -> None:
    after, over = advance(NESTED, at(("release", 1), ("review", 1), steps=2))
    assert (after, over) == (at(("release", 2), steps=3), False)


def test_leaving_a_child_can_enter_the_next_one() -> None:
    after, over = advance(NESTED, at(("outer", 1), ("middle", 0), ("inner", 1), steps=2))
    assert (after, over) == (at(("outer", 1), ("middle", 1), ("inner", 0), steps=3), False)


def test_the_end_of_the_last_child_cascades_to_the_root_and_keeps_the_path() -> None:
    last = at(("outer", 1), ("middle", 1), ("inner", 1), steps=9)
    assert advance(NESTED, last) == (at(*last.path, steps=10), True)


def test_the_end_of_the_root_keeps_the_path() -> None:
    assert advance(NESTED, at(("release", 2), steps=3)) == (at(("release", 2), steps=4), True)


# Vector 5


def test_a_new_task_is_already_inside_a_leading_reference() -> None:
    assert enter(NESTED, "middle") == at(("middle", 0), ("inner", 0))
    assert enter(NESTED, "release") == at(("release", 0))


# Vector 6


def test_looping_starts_only_the_innermost_workflow_again() -> None:
    assert loop(NESTED, at(("release", 1), ("review", 1), steps=2)) == at(("release", 1), ("review", 0), steps=3)


def test_looping_enters_a_leading_reference() -> None:
    definitions = library(workflow("top", "@inner", "end"), workflow("inner", "deep"))
    assert loop(definitions, at(("top", 1), steps=1)) == at(("top", 0), ("inner", 0), steps=2)


@pytest.mark.parametrize(("outer", "inner", "allowed"), [(True, False, False), (False, True, True)])
def test_only_the_innermost_setting_allows_looping(outer: bool, inner: bool, allowed: bool) -> None:
    definitions = library(
        workflow("top", "@inner", loopable=outer), workflow("inner", "deep", "deeper", loopable=inner)
    )
    position = at(("top", 0), ("inner", 1))
    if allowed:
        assert loop(definitions, position).path == at(("top", 0), ("inner", 0)).path
    else:
        with pytest.raises(WorkflowInvalid, match="'inner' does not allow looping"):
            loop(definitions, position)


# Vector 7


def test_a_cycle_a_missing_reference_and_whoever_refers_to_them_are_refused_by_name() -> None:
    found = library(
        workflow("circle", "start", "@round"),
        workflow("round", "@circle"),
        workflow("selfish", "@selfish"),
        workflow("dangling", "@nowhere"),
        workflow("follower", "@dangling"),
        workflow("follows-broken", "a", "@broken"),
        workflow("good", "a", "@better"),
        workflow("better", "b"),
    )
    good, bad = validate(found, {"broken": "phases: twice"})
    assert set(good) == {"good", "better"}
    assert bad == {
        "broken": "phases: twice",
        "circle": "it refers to itself: circle > round > circle",
        "round": "it refers to itself: round > circle > round",
        "selfish": "it refers to itself: selfish > selfish",
        "dangling": "it refers to 'nowhere', which is not there",
        "follower": "it refers to 'dangling', which is refused",
        "follows-broken": "it refers to 'broken', which is refused",
    }


PHASE = {"id": "a", "name": "A", "brief": "Do it."}
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "a phase id twice": ({"phases": [PHASE, PHASE]}, "phase id 'a' is there twice"),
    "no phases": ({"phases": []}, "phases: "),
    "phases that are no list": ({"phases": "a"}, "phases: "),
    "a phase that is no table": ({"phases": ["a"]}, "phases.0: "),
    "no name": ({"name": None}, "name: "),
    "no brief": ({"phases": [{"id": "a", "name": "A"}]}, "phases.0.brief: it is missing"),
    "an output outside": ({"phases": [{**PHASE, "output": "../result.md"}]}, "phases.0.output: "),
    "an absolute output": ({"phases": [{**PHASE, "output": "/tmp/result.md"}]}, "phases.0.output: "),
    "a hidden output": ({"phases": [{**PHASE, "output": ".marathon"}]}, "phases.0.output: "),
    "an output with a newline": ({"phases": [{**PHASE, "output": "a.md\n"}]}, "phases.0.output: "),
    "an output the runner keeps": ({"phases": [{**PHASE, "output": "STATE.json"}]}, "'STATE.json' is reserved"),
    "the human's file as output": ({"phases": [{**PHASE, "output": "human.md"}]}, "'human.md' is reserved"),
    "something to read outside": ({"phases": [{**PHASE, "reads": ["a.md", "../../x"]}]}, "phases.0.reads.1: "),
    "the phase id done": ({"phases": [{**PHASE, "id": "done"}]}, "'done' is reserved"),
    "a phase id in capitals": ({"phases": [{**PHASE, "id": "A"}]}, "phases.0.id: "),
    "a gate that is no truth value": ({"phases": [{**PHASE, "gate": "yes"}]}, "phases.0.gate: "),
    "an unknown setting": ({"colour": "red"}, "colour: "),
    "an unknown setting of a phase": ({"phases": [{**PHASE, "colour": "pi"}]}, "phases.0.colour: "),
    "a reference outside": ({"phases": [PHASE, {"workflow": "../other"}]}, "phases.1.workflow: "),
    "a reference that is a phase too": ({"phases": [{**PHASE, "workflow": "other"}]}, "phases.0.id: "),
    "an escape sequence in a name": ({"name": "\x1b[31mred"}, "name: "),
    "a newline in a phase's name": ({"phases": [{**PHASE, "name": "a\nb"}]}, "phases.0.name: "),
    "an escape sequence as the emoji": ({"phases": [{**PHASE, "emoji": "\x1b]0;x\x07"}]}, "phases.0.emoji: "),
    "another key than its folder's": ({"key": "other"}, "key: it has to be 'mine'"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_definition_that_cannot_be_used_is_refused_with_the_place_and_the_reason(case: str) -> None:
    changes, reason = REFUSED[case]
    with pytest.raises(WorkflowInvalid) as refused:
        parse_workflow("mine", {"name": "Mine", "phases": [PHASE], **changes})
    assert reason in str(refused.value)


def test_an_endlessly_nested_definition_is_refused() -> None:
    nested: dict[str, Any] = {}
    for _ in range(5000):
        nested = {"a": nested}
    with pytest.raises(WorkflowInvalid, match="deep: there is no such setting"):
        parse_workflow("mine", {"name": "Mine", "phases": [PHASE], "deep": nested})


def test_a_key_that_is_no_plain_name_is_refused() -> None:
    with pytest.raises(WorkflowInvalid, match="key: "):
        parse_workflow("../mine", {"name": "Mine", "phases": [PHASE]})


def write_workflow(folder: Path, key: str, text: str) -> None:
    (folder / key).mkdir(parents=True)
    (folder / key / "workflow.toml").write_text(text)


TOML = """name = "{name}"
[[phases]]
id = "a"
name = "A"
{brief}
"""


def toml(name: str, brief: str = 'brief = "Do it."') -> str:
    return TOML.format(name=name, brief=brief)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    return tmp_path / "home"


@pytest.mark.usefixtures("home")
def test_refused_definitions_on_disk_leave_the_others_usable(tmp_path: Path) -> None:
    folder = tmp_path / ".marathon" / "workflows"
    (tmp_path / "secret.md").write_text("not for the agent")
    write_workflow(folder, "good", toml("Good", 'brief_file = "brief.md"'))
    (folder / "good" / "brief.md").write_text("The brief.")
    write_workflow(folder, "outside", toml("Outside", 'brief_file = "../../../secret.md"'))
    write_workflow(folder, "linked", toml("Linked", 'brief_file = "brief.md"'))
    (folder / "linked" / "brief.md").symlink_to(tmp_path / "secret.md")
    write_workflow(folder, "absent", toml("Absent", 'brief_file = "brief.md"'))
    write_workflow(folder, "twice", toml("Twice") + toml("Twice").partition("\n")[2])
    write_workflow(folder, "broken", "name = ")
    write_workflow(folder, "follower", 'name = "F"\n[[phases]]\nworkflow = "outside"\n')
    found = load_workflows(tmp_path)
    assert set(found.workflows) == {"fix", "good", "loop", "rpi"}
    assert places(found.workflows, "good")[0][1].brief == "The brief."
    assert set(found.refused) == {"outside", "linked", "absent", "twice", "broken", "follower"}
    assert "outside of the workflow's folder" in found.refused["outside"]
    assert "outside of the workflow's folder" in found.refused["linked"]
    assert "cannot be read" in found.refused["absent"]
    assert "'a' is there twice" in found.refused["twice"]
    assert "'outside', which is refused" in found.refused["follower"]


# Vector 8


def test_the_project_wins_over_the_user_and_the_user_over_the_built_in(tmp_path: Path, home: Path) -> None:
    project = tmp_path / "project"
    users = home / ".config" / "pi-marathon" / "workflows"
    assert load_workflows(project).workflows["rpi"].name == "Marathon"
    write_workflow(users, "rpi", toml("The user's"))
    write_workflow(users, "mine", toml("The user's"))
    assert load_workflows(project).workflows["rpi"].name == "The user's"
    write_workflow(project / ".marathon" / "workflows", "rpi", toml("The project's"))
    found = load_workflows(project)
    names = {key: one.name for key, one in found.workflows.items()}
    assert names == {"fix": "Fix", "loop": "Loop", "rpi": "The project's", "mine": "The user's"}
    assert found.sources == {"fix": "built-in", "loop": "built-in", "rpi": "project", "mine": "user"}


@pytest.mark.usefixtures("home")
def test_a_refused_definition_of_the_project_does_not_uncover_the_one_below_it(tmp_path: Path) -> None:
    write_workflow(tmp_path / ".marathon" / "workflows", "rpi", 'name = "Broken"\n')
    found = load_workflows(tmp_path)
    assert "rpi" not in found.workflows
    assert "rpi" in found.refused


# Vector 10


def test_the_breadcrumb_names_every_level_and_counts_below_the_root() -> None:
    definitions = library(
        workflow("release", "prepare", "@review", "publish", name="Release Pipeline"),
        workflow("review", {"id": "static", "name": "Static Analysis", "emoji": "🔍"}, "manual", name="Code Review"),
    )
    inside = at(("release", 1), ("review", 0))
    assert breadcrumb(definitions, inside) == "Release Pipeline > Code Review [2/3] > 🔍 Static Analysis [1/2]"
    assert breadcrumb(definitions, at(("release", 2))) == "Release Pipeline > Publish [3/3]"


# Vector 11


def old_record(*path: tuple[str, int], **more: object) -> dict[str, object]:
    segments = [{"workflowKey": key, "phaseIndex": index} for key, index in path]
    return {"active": True, "workflowKey": "rpi", "currentPath": segments, "globalStepCount": 2, **more}


def test_an_old_record_with_only_an_index_is_a_path_of_one() -> None:
    assert recorded_path({"workflowKey": "rpi", "currentPhaseIndex": 2, "active": True}) == at(("rpi", 2)).path


def test_a_recorded_path_is_read_back() -> None:
    written = json.loads(json.dumps(old_record(("release", 1), ("review", 0))))
    assert recorded_path(written) == at(("release", 1), ("review", 0)).path


@pytest.mark.parametrize("record", [{}, {"workflowKey": "rpi"}, {"currentPath": "/home"}, {"currentPhaseIndex": 0}])
def test_what_is_no_such_record_is_left_alone(record: dict[str, Any]) -> None:
    assert recorded_path(record) is None


@pytest.mark.parametrize(
    "changed",
    [
        *({"currentPath": []}, {"currentPath": None}, {"currentPath": "rpi"}, {"currentPath": {"rpi": 0}}),
        *({"currentPath": ["rpi"]}, {"currentPath": [["rpi", 0]]}, {"currentPath": [{"workflowKey": "rpi"}]}),
        *({"currentPath": [{"workflowKey": "rpi", "phaseIndex": bad}]} for bad in (-1, True, "0", 0.5, None)),
        *({"currentPath": [{"workflowKey": bad, "phaseIndex": 0}]} for bad in ("", None, 3, "../x")),
        *({"workflowKey": None}, {"workflowKey": ""}, {"currentPath": [], "currentPhaseIndex": 0}),
    ],
    ids=str,
)
def test_an_empty_or_malformed_path_is_refused_not_guessed(changed: dict[str, Any]) -> None:
    with pytest.raises(WorkflowInvalid, match=r"^(currentPath|workflowKey)"):
        recorded_path({**old_record(("rpi", 0)), **changed})


@pytest.mark.parametrize("index", [-1, True, "0", None, 1.5])
def test_a_malformed_index_is_refused_not_guessed(index: object) -> None:
    with pytest.raises(WorkflowInvalid):
        recorded_path({"workflowKey": "rpi", "currentPhaseIndex": index})


@pytest.mark.parametrize(
    "position",
    [
        at(),
        at(("rpi", 3)),
        at(("rpi", -1)),
        at(("gone", 0)),
        at(("release", 1)),
        at(("release", 0), ("review", 0)),
        at(("release", 1), ("inner", 0)),
        at(("release", 1), ("review", 2)),
    ],
)
def test_a_position_that_fits_no_definition_is_refused_with_a_reason(position: Position) -> None:
    for use in (current, advance, breadcrumb):
        with pytest.raises(WorkflowInvalid, match=r"."):
            use({**NESTED, **RPI}, position)


# Finding a phase by its id


@pytest.mark.parametrize(
    ("phase", "near", "found"),
    [
        ("research", at(("rpi", 2)), at(("rpi", 0))),
        ("implement", at(("rpi", 0)), at(("rpi", 2))),
        ("plan", at(("rpi", 1)), at(("rpi", 1))),
        ("publish", at(("rpi", 0)), None),
    ],
)
def test_a_phase_is_found_by_its_id(phase: str, near: Position, found: Position | None) -> None:
    assert locate(RPI, "rpi", phase, near.path) == (found.path if found else None)


def test_of_two_phases_of_one_name_the_last_before_here_is_meant() -> None:
    first, second = (at(("middle", place), ("inner", 0)).path for place in (0, 1))
    assert locate(NESTED, "middle", "deep", at(("middle", 0), ("inner", 1)).path) == first
    assert locate(NESTED, "middle", "deep", at(("middle", 1), ("inner", 1)).path) == second
    assert locate(NESTED, "middle", "deeper", at(("middle", 0), ("inner", 0)).path) == (
        at(("middle", 0), ("inner", 1)).path
    )


def test_the_built_in_workflow_is_research_plan_implement_with_two_reviews() -> None:
    phases = [phase for _, phase in places(RPI, "rpi")]
    assert [(phase.id, phase.output, phase.gate, phase.repeats) for phase in phases] == [
        ("research", "research.md", True, False),
        ("plan", "plan.md", True, False),
        ("implement", "result.md", False, True),
    ]


def chain(length: int) -> dict[str, Workflow]:
    """w0 has a phase; each of the others refers to the one before it."""
    phases = [[PHASE], *([{"workflow": f"w{level - 1}"}] for level in range(1, length))]
    return library(*(parse_workflow(f"w{level}", {"name": "W", "phases": each}) for level, each in enumerate(phases)))


def test_a_definition_that_unfolds_without_end_is_refused_before_anyone_walks_it() -> None:
    leaf = parse_workflow("w0", {"name": "W", "phases": [PHASE]})
    doubled = [
        parse_workflow(f"w{level}", {"name": "W", "phases": [{"workflow": f"w{level - 1}"}] * 2})
        for level in range(1, 40)
    ]
    good, bad = validate({workflow.key: workflow for workflow in [leaf, *doubled]})
    assert len(good) == 9
    assert bad["w9"] == bad["w39"] == f"it unfolds into more than {MOST_PHASES} phases"


@pytest.mark.parametrize("length", [500, 1000])
def test_an_endless_chain_of_references_is_refused_by_name_and_the_others_are_kept(length: int) -> None:
    other = workflow("other", "a")
    good, bad = validate({"other": other, **chain(length)})
    assert good["other"] == other
    assert len(good) == 1 + MOST_LEVELS
    too_deep = f"its references are more than {MOST_LEVELS} levels deep"
    assert bad[f"w{MOST_LEVELS}"] == bad[f"w{length - 1}"] == too_deep
    deepest = f"w{MOST_LEVELS - 1}"
    assert len(enter(good, deepest).path) == MOST_LEVELS
    assert [phase.id for _, phase in places(good, deepest)] == ["a"]


def test_a_circle_of_hundreds_is_refused_in_a_readable_sentence() -> None:
    last = workflow("w0", "@w599")
    good, bad = validate({**chain(600), "w0": last})
    assert good == {}
    assert bad["w5"] == f"its references are more than {MOST_LEVELS} levels deep"


def test_a_workflow_that_leads_to_a_circle_is_refused_with_the_name_of_its_reference() -> None:
    found = library(workflow("before", "@circle"), workflow("circle", "@round"), workflow("round", "a", "@circle"))
    assert validate(found)[1]["before"] == "it refers to 'circle', which is refused"
