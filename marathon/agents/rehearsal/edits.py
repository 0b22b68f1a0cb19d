"""The two edits this agent makes: docstrings where there are none, and a small unit test."""

import ast
import re
from collections.abc import Iterable

from marathon.agents.rehearsal.survey import Definition, public_functions


def document(source: str, names: Iterable[str]) -> str:
    """The source with a docstring in each named function that has none; anything else about it stays as it was."""
    for name in names:
        node = next((each for each in public_functions(source) if each.name == name), None)
        if node is not None and ast.get_docstring(node) is None:
            documented = _with_docstring(source, node)
            if _same_program(source, documented):
                source = documented
    return source


def describe(node: Definition) -> str:
    """One sentence that is true of any function of this name, with what it is given."""
    words = node.name.replace("_", " ").capitalize()
    given = [argument.arg for argument in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
    return f"{words}{f', given {_listed(given)}' if given else ''}."


def unit_test(module: str, node: Definition) -> str:
    """A test that calls nothing: the function is there, documented, and takes what it took when this was written."""
    given = [argument.arg for argument in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
    title = "".join(part.capitalize() for part in node.name.split("_"))
    return (
        f'"""What {module}.{node.name} promises its callers."""\n\nimport inspect\nimport unittest\n\n'
        f"from {module} import {node.name}\n\n\nclass {title}Test(unittest.TestCase):\n"
        f"    def test_it_is_documented(self) -> None:\n        self.assertTrue({node.name}.__doc__)\n\n"
        f"    def test_it_takes_what_it_always_took(self) -> None:\n"
        f"        self.assertEqual(list(inspect.signature({node.name}).parameters), {given!r})\n"
    )


def module_of(path: str) -> str:
    return re.sub(r"(^|/)src/", "", path.removesuffix(".py")).replace("/", ".")


def _with_docstring(source: str, node: Definition) -> str:
    """On a line of its own above the body; a comment on the body stays below it."""
    lines = source.split("\n")
    start = node.body[0].lineno - 1
    indent = re.match(r"\s*", lines[start])
    while start > node.lineno and lines[start - 1].lstrip().startswith("#"):
        start -= 1
    lines.insert(start, f'{indent[0] if indent else ""}"""{describe(node)}"""')
    return "\n".join(lines)


def _same_program(before: str, after: str) -> bool:
    try:
        trees = [ast.parse(before), ast.parse(after)]
    except SyntaxError:
        return False
    for node in [each for tree in trees for each in ast.walk(tree)]:
        if isinstance(node, Definition) and ast.get_docstring(node) is not None:
            node.body = node.body[1:]
    return ast.dump(trees[0]) == ast.dump(trees[1])


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
