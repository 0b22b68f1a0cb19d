"""What a Python file's functions are called, what they lack, and whether a test may call them."""

import ast
from collections.abc import Iterator
from typing import NamedTuple

from marathon.agents.rehearsal.harmless import harmless_functions
from marathon.agents.rehearsal.samples import sample_calls

Definition = ast.FunctionDef | ast.AsyncFunctionDef


class Function(NamedTuple):
    path: str
    name: str
    line: int
    documented: bool
    hinted: bool
    callable_in_a_test: bool

    @property
    def bare_name(self) -> str:
        return self.name.rpartition(".")[2]


def functions(path: str, tree: ast.Module) -> list[Function]:
    """The public functions and methods of a module, in the order they stand in it."""
    harmless = harmless_functions(tree)
    return [
        Function(
            path,
            name,
            node.lineno,
            documented=ast.get_docstring(node) is not None,
            hinted=_is_hinted(node, is_method="." in name),
            callable_in_a_test=name in harmless and bool(sample_calls(node)),
        )
        for name, node in public_definitions(tree)
    ]


def public_definitions(tree: ast.Module) -> Iterator[tuple[str, Definition]]:
    """Module level functions, and methods as Class.method; what begins with an underscore is private."""
    for node in tree.body:
        if isinstance(node, Definition) and _is_public(node):
            yield node.name, node
        elif isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            for member in node.body:
                if isinstance(member, Definition) and _is_public(member):
                    yield f"{node.name}.{member.name}", member


def arguments(node: Definition, is_method: bool) -> list[ast.arg]:
    """What a caller hands in: every argument but self or cls."""
    given = node.args
    every = [*given.posonlyargs, *given.args]
    if is_method and not any(_decorator(each) == "staticmethod" for each in node.decorator_list):
        every = every[1:]
    stars = [given.vararg] if given.vararg else []
    return [*every, *stars, *given.kwonlyargs, *([given.kwarg] if given.kwarg else [])]


def _is_public(node: Definition) -> bool:
    # An overload or a setter shares its name with the function that carries the docstring.
    shadows = {"overload", "setter", "deleter"}
    return not node.name.startswith("_") and not any(_decorator(each) in shadows for each in node.decorator_list)


def _decorator(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def _is_hinted(node: Definition, is_method: bool) -> bool:
    return node.returns is not None and all(each.annotation for each in arguments(node, is_method))
