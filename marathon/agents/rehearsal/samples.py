"""Plain values to call a function with, guessed from its annotations or the names of its arguments."""

import ast

Value = str | int | float | bool | list[str] | list[int]

# Per type: an ordinary value, an empty one, and a small one.
VALUES: dict[str, tuple[Value, Value, Value]] = {
    "str": ("The quick brown fox", "", "one"),
    "int": (7, 0, 1),
    "float": (2.5, 0.0, 1.0),
    "bool": (True, False, True),
    "list[str]": (["pear", "apple", "fig"], [], ["one"]),
    "list[int]": ([3, 1, 2], [], [1]),
}
LABELS = ("ordinary", "empty", "small")
NAMES = {
    "str": ("text", "string", "s", "word", "name", "line", "sentence", "title", "value", "prefix", "suffix"),
    "int": ("n", "number", "count", "size", "limit", "width", "height", "length", "a", "b", "x", "y"),
    "list[str]": ("words", "items", "lines", "names"),
    "list[int]": ("numbers", "values"),
}
_ALIASES = {
    "Iterable[str]": "list[str]",
    "Sequence[str]": "list[str]",
    "Iterable[int]": "list[int]",
    "Sequence[int]": "list[int]",
}


def sample_calls(node: ast.FunctionDef | ast.AsyncFunctionDef) -> dict[str, list[Value]]:
    """Positional arguments per label; empty where an argument cannot be guessed or there is none."""
    given = node.args
    keyword_only = [arg for arg, default in zip(given.kwonlyargs, given.kw_defaults, strict=True) if default is None]
    if isinstance(node, ast.AsyncFunctionDef) or keyword_only:
        return {}
    positional = [*given.posonlyargs, *given.args]
    required = positional[: len(positional) - len(given.defaults)]
    # A function with defaults only is called with its first argument, so that there is something to vary.
    kinds = [_kind(argument) for argument in required or positional[:1]]
    if not kinds or any(kind is None for kind in kinds):
        return {}
    return {label: [VALUES[kind][at] for kind in kinds if kind] for at, label in enumerate(LABELS)}


def _kind(argument: ast.arg) -> str | None:
    if argument.annotation is not None:
        written = ast.unparse(argument.annotation).removesuffix(" | None")
        kind = _ALIASES.get(written, written)
        return kind if kind in VALUES else None
    return next((kind for kind, names in NAMES.items() if argument.arg in names), None)
