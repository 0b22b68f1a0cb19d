"""A sentence about a function, from its name and its arguments."""

import ast

from marathon.agents.rehearsal.functions import Definition, arguments

_VERBS_LISTED = """
add apply ask build calculate call check clean clear close collect compare compute convert copy
count create decode delete describe drop encode ensure extract fetch fill filter find fix flatten
format generate get give group handle init insert join keep list load log look make mark merge move
normalise normalize open parse pick play prepare print process put read remove rename render replace
report reset resolve reverse run save scan search select send set shorten show shuffle sort split
start stop store strip sum swap take test tidy trim truncate turn update validate walk wrap write
"""
VERBS = frozenset(_VERBS_LISTED.split())
QUESTIONS = frozenset({"is", "are", "has", "can", "should", "must"})


def describe(node: Definition, is_method: bool) -> str:
    """One sentence that is true of any function of this name, with what it is given."""
    given = [_described(argument, node) for argument in arguments(node, is_method)]
    subject = given[0] if given and " " not in given[0] else ""
    others = given[1:] if subject else given
    verb, *rest = node.name.split("_")
    if verb in QUESTIONS and rest:
        return _sentence(f"Tell whether {subject or 'it'} {verb} {' '.join(rest)}", others)
    if verb == "to" and rest:
        return _sentence(f"Convert {subject or 'it'} to {' '.join(rest)}", others)
    if node.name == "main":
        return _sentence("Run the program", given)
    if verb in VERBS and rest:
        return _sentence(f"{verb.capitalize()} {' '.join(rest)}", given)
    if verb in VERBS:
        return _sentence(f"{verb.capitalize()} {subject}".rstrip(), others)
    return _sentence(f"{_opening(node)} {' '.join([verb, *rest])}{f' of {subject}' if subject else ''}", others)


def _opening(node: Definition) -> str:
    inner = list(ast.walk(node))
    if any(isinstance(each, ast.Yield | ast.YieldFrom) for each in inner):
        return "Yield the"
    if any(isinstance(each, ast.Return) and each.value is not None for each in inner):
        return "Return the"
    return "Do the"


def _sentence(start: str, given: list[str]) -> str:
    if not given:
        return f"{start}."
    listed = given[0] if len(given) == 1 else f"{', '.join(given[:-1])} and {given[-1]}"
    return f"{start}, given {listed}."


def _described(argument: ast.arg, node: Definition) -> str:
    """The argument's name, and its default where that is plain enough to be read."""
    default = _defaults(node).get(argument.arg)
    if isinstance(default, ast.Constant) and isinstance(default.value, int | float | bool | None):
        return f"{argument.arg} ({default.value} by default)"
    return argument.arg


def _defaults(node: Definition) -> dict[str, ast.expr | None]:
    positional = [*node.args.posonlyargs, *node.args.args]
    late = positional[len(positional) - len(node.args.defaults) :]
    by_position = dict(zip((each.arg for each in late), node.args.defaults, strict=True))
    by_keyword = dict(zip((each.arg for each in node.args.kwonlyargs), node.args.kw_defaults, strict=True))
    return {**by_position, **by_keyword}
