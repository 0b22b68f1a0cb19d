"""Which functions of a module may be called to see what they do: those that can only compute.

Judged by reading: a few builtins, modules and methods are known to have no effects; all else may have some.
"""

import ast

_BUILTINS_LISTED = """
abs all any bool chr dict divmod enumerate filter float frozenset int isinstance len list map max
min ord range repr reversed round set slice sorted str sum tuple zip ValueError TypeError KeyError
IndexError LookupError ZeroDivisionError ArithmeticError
"""
BUILTINS = frozenset(_BUILTINS_LISTED.split())
_MODULES_LISTED = """
re math string collections itertools functools operator statistics textwrap unicodedata
"""
MODULES = frozenset(_MODULES_LISTED.split())
_METHODS_LISTED = """
add append capitalize casefold center copy count difference endswith extend find findall finditer
format fullmatch get group groups index insert intersection isalnum isalpha isdigit islower
isnumeric isspace istitle isupper items join keys ljust lower lstrip match most_common partition pop
removeprefix removesuffix replace reverse rfind rindex rjust rpartition rsplit rstrip search
setdefault sort split splitlines startswith strip sub swapcase title translate union update upper
values zfill
"""
METHODS = frozenset(_METHODS_LISTED.split())
_EFFECTS = ast.Global | ast.Nonlocal | ast.Import | ast.ImportFrom | ast.With | ast.Await | ast.Yield | ast.YieldFrom


def harmless_functions(tree: ast.Module) -> set[str]:
    """Names of module level functions that only compute, in a module that can be imported without effects."""
    definitions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    safe = {name for name, node in definitions.items() if not node.decorator_list}
    imported, known = _imports(tree)
    # Begin with all and strike out until nothing changes, so that functions may call each other.
    while True:
        kept = {name for name in safe if _only_computes(definitions[name], safe, imported, known)}
        if kept == safe:
            break
        safe = kept
    quiet = all(_is_quiet(node, safe, imported, known) for node in tree.body)
    return safe if quiet else set()


def _imports(tree: ast.Module) -> tuple[set[str], set[str]]:
    """Every imported name, and those among them that come from a module known to be harmless."""
    imported: set[str] = set()
    known: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                name = (alias.asname or alias.name).partition(".")[0]
                imported.add(name)
                known |= {name} & ({name} if alias.name in MODULES else set())
        elif isinstance(node, ast.ImportFrom):
            names = {alias.asname or alias.name for alias in node.names}
            imported |= names
            if node.level == 0 and node.module in MODULES:
                known |= names
    return imported, known


def _only_computes(node: ast.AST, safe: set[str], imported: set[str], known: set[str]) -> bool:
    for inner in ast.walk(node):
        if isinstance(inner, _EFFECTS):
            return False
        if isinstance(inner, ast.Call) and not _is_harmless_call(inner.func, safe, imported, known):
            return False
    return True


def _is_harmless_call(called: ast.expr, safe: set[str], imported: set[str], known: set[str]) -> bool:
    if isinstance(called, ast.Name):
        return called.id in (known if called.id in imported else safe | BUILTINS)
    if not isinstance(called, ast.Attribute):
        return False
    owner = called.value
    if isinstance(owner, ast.Name) and owner.id in imported:
        return owner.id in known
    return called.attr in METHODS


def _is_quiet(node: ast.stmt, safe: set[str], imported: set[str], known: set[str]) -> bool:
    """Whether a module level statement only defines something, or is kept for running as a program."""
    match node:
        case ast.Import() | ast.ImportFrom() | ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            return True
        case ast.Assign() | ast.AnnAssign() | ast.Expr():
            return _only_computes(node, safe, imported, known)
        case ast.If(test=ast.Compare(left=ast.Name(id="__name__"))) | ast.If(test=ast.Name(id="TYPE_CHECKING")):
            return True
        case _:
            return False
