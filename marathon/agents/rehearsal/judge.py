"""Judges the criteria that no command can check, as far as a walk through the project can tell."""

import re
from collections.abc import Mapping
from typing import Any

from marathon.agents.rehearsal.heed import asks, spared
from marathon.agents.rehearsal.session import Session
from marathon.agents.rehearsal.survey import Function, survey

_ASKED = re.compile(r"^These you judge yourself.*\n\n((?:> .*\n)+)", re.MULTILINE)


def judgements(session: Session) -> Mapping[str, Any]:
    """The fields of STATE.json that hold a verdict and its evidence for every criterion the prompt names."""
    asked = _ASKED.search(session.prompt)
    names = [line.removeprefix("> ") for line in asked[1].splitlines()] if asked else []
    found = survey(session.project, session.task)
    left_alone = spared([session.read("human.md"), *(ask.text for ask in asks(session.prompt))], found)
    looked_at = [each for each in found.functions if not {each.path, each.name} & left_alone]
    verdicts = {name: _judge(name, looked_at, left_alone) for name in names}
    for name, (met, evidence) in verdicts.items():
        session.say(f"{'met' if met else 'not met'}: {name} ({evidence})")
    return {
        "criteriaStatus": {name: met for name, (met, _) in verdicts.items()},
        "criteriaEvidence": {name: evidence for name, (_, evidence) in verdicts.items()},
    }


def _judge(name: str, functions: list[Function], left_alone: set[str]) -> tuple[bool, str]:
    spoken_of = {word for word in ("docstring", "test") if word in name.lower()}
    if not spoken_of:
        return False, "nothing this agent can judge"
    lacking = [
        each.name
        for each in functions
        if ("docstring" in spoken_of and not each.documented) or ("test" in spoken_of and not each.tested)
    ]
    if lacking:
        return False, f"not so for {', '.join(lacking)}"
    but = f"; left alone as the human said: {', '.join(sorted(left_alone))}" if left_alone else ""
    return True, f"looked at {len(functions)} public functions, all of them have it{but}"
