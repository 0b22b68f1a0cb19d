"""Writing missing docstrings into a Python source, so that nothing else about it changes."""

import ast
from collections.abc import Iterable

from marathon.agents.rehearsal.functions import Definition, public_definitions
from marathon.agents.rehearsal.wording import describe

LONGEST_LINE = 100


def document(source: str, names: Iterable[str]) -> str:
    """The source with a docstring in each named function that has none.

    What would not come out as the same program is left as it was.
    """
    if "\r" in source.replace("\r\n", ""):
        return source
    for name in names:
        documented = _document_one(source, name)
        if documented is not None and _same_program(source, documented):
            source = documented
    return source


def undocumented(source: str, names: Iterable[str]) -> list[str]:
    """Those of the names that are there and have no docstring."""
    found = {name: node for name, node in public_definitions(ast.parse(source)) if not ast.get_docstring(node)}
    return [name for name in names if name in found]


def _document_one(source: str, name: str) -> str | None:
    for found, node in public_definitions(ast.parse(source)):
        if found == name and ast.get_docstring(node) is None:
            return _insert(source, node, describe(node, is_method="." in name))
    return None


def _insert(source: str, node: Definition, description: str) -> str:
    newline = "\r\n" if "\r\n" in source else "\n"
    lines = source.split("\n")
    first = node.body[0]
    start = min([first.lineno, *(each.lineno for each in getattr(first, "decorator_list", []))]) - 1
    line = lines[start].encode()
    before, rest = line[: first.col_offset].decode(), line[first.col_offset :].decode()
    if before.strip() and start == first.lineno - 1:
        # The body stands on the line of its signature: it moves to a line of its own.
        indent = before[: len(before) - len(before.lstrip())] + "    "
        lines[start] = before.rstrip() + ("\r" if newline == "\r\n" else "")
        lines[start + 1 : start + 1] = [*_literal(description, indent, newline), indent + rest]
    else:
        indent = lines[start][: len(lines[start]) - len(lines[start].lstrip())]
        while not lines[start - 1].strip() or lines[start - 1].lstrip().startswith("#"):
            start -= 1  # A comment on the body stands below the docstring.
        lines[start:start] = _literal(description, indent, newline)
    return "\n".join(lines)


def _literal(description: str, indent: str, newline: str) -> list[str]:
    """The docstring's lines; a long one breaks after its first clause."""
    if len(indent) + len(description) + 6 <= LONGEST_LINE:
        text = [f'{indent}"""{description}"""']
    else:
        summary, _, rest = description.partition(", given ")
        text = [f'{indent}"""{summary.rstrip(".")}.', "", f"{indent}Given {rest}", f'{indent}"""']
    return [line + newline[:-1] for line in text]


def _same_program(before: str, after: str) -> bool:
    try:
        return _bare(before) == _bare(after)
    except SyntaxError:
        return False


def _bare(source: str) -> str:
    """The program without its functions' docstrings."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, Definition) and ast.get_docstring(node) is not None:
            node.body = node.body[1:]
    return ast.dump(tree)
