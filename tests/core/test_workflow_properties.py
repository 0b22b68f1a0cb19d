"""What holds for every set of definitions, not only for those somebody thought of."""

from __future__ import annotations

import contextlib
import copy

from hypothesis import given
from hypothesis import strategies as st

from marathon.core.courses.workflow import (
    Reference,
    Workflow,
    WorkflowInvalid,
    advance,
    breadcrumb,
    current,
    enter,
    locate,
    loop,
    places,
    validate,
)
from tests.core.making import thorough
from tests.core.strategies import any_definitions, sound_definitions


def references(workflow: Workflow) -> list[str]:
    return [entry.workflow for entry in workflow.phases if isinstance(entry, Reference)]


def concrete(definitions: dict[str, Workflow], key: str) -> list[str]:
    """The phases below a workflow by plain recursion: what the stack has to agree with."""
    found: list[str] = []
    for entry in definitions[key].phases:
        found += concrete(definitions, entry.workflow) if isinstance(entry, Reference) else [entry.id]
    return found


def reaches_itself(found: dict[str, Workflow], key: str) -> bool:
    seen: set[str] = set()
    ahead = references(found[key])
    while ahead:
        other = ahead.pop()
        if other not in seen and other in found:
            seen.add(other)
            ahead += references(found[other])
    return key in seen


@thorough
@given(any_definitions())
def test_what_is_kept_has_no_cycle_and_no_dangling_reference(found: dict[str, Workflow]) -> None:
    before = copy.deepcopy(found)
    good, bad = validate(found)
    assert found == before
    assert set(good) | set(bad) == set(found)
    assert not set(good) & set(bad)
    for key, workflow in good.items():
        assert set(references(workflow)) <= set(good)
        assert not reaches_itself(found, key)
        assert places(good, key), "it can be walked to its end"
    for key in bad:
        in_a_cycle = reaches_itself(found, key)
        assert in_a_cycle or not set(references(found[key])) <= set(good), f"{key} is refused for nothing"


@thorough
@given(sound_definitions())
def test_advancing_visits_every_phase_in_order_and_ends(definitions: dict[str, Workflow]) -> None:
    key = next(iter(definitions))
    visited, position, over = [], enter(definitions, key), False
    while not over:
        visited.append(current(definitions, position).id)
        before = copy.deepcopy(position)
        after, over = advance(definitions, position)
        assert position == before
        assert after.steps == position.steps + 1
        assert len(visited) <= 1000
        position = after
    assert visited == concrete(definitions, key)
    assert [phase.id for _, phase in places(definitions, key)] == visited


@thorough
@given(sound_definitions(), st.data())
def test_looping_changes_only_the_innermost_level(definitions: dict[str, Workflow], data: st.DataObject) -> None:
    key = next(iter(definitions))
    path, _ = data.draw(st.sampled_from(places(definitions, key)))
    position = enter(definitions, key)._replace(path=path, steps=data.draw(st.integers(0, 9)))
    innermost = definitions[path[-1].workflow]
    try:
        after = loop(definitions, position)
    except WorkflowInvalid:
        assert not innermost.loopable
        return
    assert innermost.loopable
    assert after.steps == position.steps + 1
    assert after.path[: len(path) - 1] == path[:-1]
    assert after.path[len(path) - 1] == (innermost.key, 0)
    current(definitions, after)


@thorough
@given(sound_definitions(), st.data())
def test_every_phase_can_be_found_and_named(definitions: dict[str, Workflow], data: st.DataObject) -> None:
    key = next(iter(definitions))
    all_places = places(definitions, key)
    near, _ = data.draw(st.sampled_from(all_places))
    for path, phase in all_places:
        found = locate(definitions, key, phase.id, near)
        assert found is not None
        assert current(definitions, enter(definitions, key)._replace(path=found)).id == phase.id
        if path == near:
            assert found == near
        crumb = breadcrumb(definitions, enter(definitions, key)._replace(path=path))
        assert crumb.count(" > ") == len(path)
        assert crumb.startswith(definitions[key].name)


@thorough
@given(sound_definitions(), sound_definitions(), st.data())
def test_a_position_in_changed_definitions_fits_or_is_refused(
    before: dict[str, Workflow], after: dict[str, Workflow], data: st.DataObject
) -> None:
    key = next(iter(before))
    path, _ = data.draw(st.sampled_from(places(before, key)))
    position = enter(before, key)._replace(path=path)
    for use in (current, advance, breadcrumb):
        with contextlib.suppress(WorkflowInvalid):
            use(after, position)
