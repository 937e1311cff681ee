"""What code does, as text: two pieces of it with the same meaning give the same numbers.

Comments, docstrings, annotations, labels and the places of files are left out.
"""

import ast
import sys
from collections.abc import Iterable, Iterator
from functools import cache

from pilotstudy import extensions
from pilotstudy.networks.catalogue import LIBRARIES
from pilotstudy.runs.compiled import compiled


@cache
def meaning(code: str) -> str:
    """What a module does, as text: its syntax tree without what changes nothing."""
    return _text(_Bare().visit(ast.parse(code)))


DOCUMENTED = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


class _Bare(ast.NodeTransformer):
    """Takes away docstrings, the annotations of functions, imports from the package, and, of our own files, the entries
    of arms.
    """

    ENTRIES = ("ORDER", "SPACE")

    def __init__(self, *, ours: bool = True):
        self.ours = ours

    def visit(self, node: ast.AST) -> ast.AST:
        super().generic_visit(node)
        if isinstance(node, ast.Module) and self.ours:
            node.body = [each for each in node.body if not self._is_entry(each)]
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node, clean=False):
            node.body = node.body[1:]
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            node.returns = None
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            node.decorator_list = [each for each in node.decorator_list if not declares(each)]
        if isinstance(node, ast.arg):
            node.annotation = None
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("pilotstudy"):
            node.module, node.names = "pilotstudy", [alias for alias in node.names if alias.asname]
        return node

    def _is_entry(self, node: ast.stmt) -> bool:
        """Whether it declares arms: what counts of that is in `declared`."""
        if isinstance(node, ast.FunctionDef | ast.For | ast.Expr):
            calls = (each for each in ast.walk(node) if isinstance(each, ast.Call))
            return any(_calls(call, "arm") or _calls(call, "declare") for call in calls)
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        return any(isinstance(target, ast.Name) and target.id in self.ENTRIES for target in targets)


DECLARING = ("arm", "network", "metric")


def declares(node: ast.expr) -> bool:
    """Whether it is a call that declares an arm, a network or a metric: `arm(..)`, `pilotstudy.arm(..)`."""
    return any(_calls(node, name) for name in DECLARING)


def _calls(node: ast.expr, name: str) -> bool:
    if not isinstance(node, ast.Call):
        return False
    function = node.func
    return (function.id if isinstance(function, ast.Name) else getattr(function, "attr", "")) == name


def _text(node: object) -> str:
    """Like `ast.dump`, but the same in every version of Python: what is empty is left out."""
    if isinstance(node, ast.AST):
        fields = ((name, value) for name, value in ast.iter_fields(node) if name not in ("ctx", "kind", "type_comment"))
        inside = ", ".join(f"{name}={_text(value)}" for name, value in fields if value not in (None, []))
        return f"{type(node).__name__}({inside})"
    if isinstance(node, list):
        return f"[{', '.join(map(_text, node))}]"
    return repr(node)


# Code that users bring: of their files, no more than what a trial's arm or network needs


def meaning_of(module: str, name: str) -> str:
    """What a class or function of a user's module does, with all that it needs of that module and of other files."""
    if module in LIBRARIES:
        return f"{module} {name}"  # its version
    if extensions.text_of(module) is None:
        return compiled(module, name)
    reached: dict[str, str] = {}  # by module
    waiting = [(module, name)]
    while waiting:
        each, wanted = waiting.pop()
        text = extensions.text_of(each)
        if each not in reached and text is not None:
            reached[each], imported = _needed(text, wanted)
            waiting += [(other, "") for other in _followed(each, imported)]
    return "\n".join([reached.pop(module), *(f"{each} {text}" for each, text in sorted(reached.items()))])


@cache
def _needed(text: str, name: str) -> tuple[str, tuple[tuple[int, str], ...]]:
    """Of a file, what a name needs, or all where it is not to be found there; and what that imports."""
    statements = ast.parse(text).body
    needed = _reached(statements, name)
    whole = ast.Module([statement for n, statement in enumerate(statements) if n in needed], [])
    imported = dict.fromkeys(each for node in ast.walk(whole) for each in _imported(node))
    return _text(_Bare(ours=False).visit(whole)), tuple(imported)


def _imported(node: ast.AST) -> list[tuple[int, str]]:
    """What it imports, with the number of dots before it: modules, or names in them."""
    if isinstance(node, ast.Import):
        return [(0, alias.name) for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        base = [node.module] if node.module else []
        return [(node.level, ".".join([*base, *last])) for last in ([], *([alias.name] for alias in node.names))]
    return []


def _followed(module: str, imported: Iterable[tuple[int, str]]) -> Iterator[str]:
    """Those imports that are of the user's own: files of the study, and of the same package."""
    package = (getattr(sys.modules.get(module), "__package__", "") or "").split(".")
    for level, name in imported:
        parent = package[: len(package) - level + 1] if level else []
        other = ".".join([*parent, *filter(None, [name])])
        if extensions.is_from_file(other) or other.split(".")[0] == module.split(".")[0]:
            yield other


def _reached(statements: list[ast.stmt], name: str) -> set[int]:
    """The places of those top-level statements that a name depends on, and of all that do something by themselves."""
    names_of = [set(_bound(statement)) for statement in statements]
    if not any(name in names for names in names_of) or _hides_needs(statements):
        return set(range(len(statements)))
    acting = set(_acting(statements))
    reached, waiting = set(acting), [name]
    known: set[str] = set()
    for n in acting:
        waiting += _used(statements[n])
    while waiting:
        wanted = waiting.pop()
        if wanted in known:
            continue
        known.add(wanted)
        for n, names in enumerate(names_of):
            if wanted in names and n not in reached:
                reached.add(n)
                waiting += _used(statements[n])
    return reached


LOOKING_UP = {"eval", "exec", "globals"}  # by these, code needs what it does not name


def _hides_needs(statements: list[ast.stmt]) -> bool:
    """Whether code may need what it does not name: what it looks up, or classes that their base class keeps."""
    nodes = [node for statement in statements for node in ast.walk(statement)]
    hooks = (isinstance(node, ast.FunctionDef) and node.name == "__init_subclass__" for node in nodes)
    return any(hooks) or any(isinstance(node, ast.Name) and node.id in LOOKING_UP for node in nodes)


def _acting(statements: list[ast.stmt]) -> Iterator[int]:
    """The places of those that may change what others have bound, as a decorator may that keeps what it is given.

    What declares arms, networks and metrics changes nothing, nor what a script does with its study and its run.
    """
    harmless, given = set(PLAIN), set[str]()  # what may be called; studies and runs
    for n, statement in enumerate(statements):
        bound = set(_bound(statement))
        gives = isinstance(statement, ast.Assign) and _is_of_run(statement.value, harmless, given)
        harmless -= bound
        given = given | bound if gives else given - bound
        if isinstance(statement, ast.Import | ast.ImportFrom):
            harmless |= set(_from_pilotstudy(statement))
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            acts = not all(map(declares, statement.decorator_list))
        else:
            acts = _changes(statement, harmless | given)
        if acts:
            yield n


PLAIN = {"dict", "float", "int", "len", "list", "print", "range", "repr", "set", "str", "tuple"}
OF_RUNS = {"Study", "Run", "load"}


def _changes(statement: ast.stmt, harmless: set[str]) -> bool:
    """Whether it changes something in place, binds names that it does not say, or calls anything but these."""
    for node in ast.walk(statement):
        if isinstance(node, ast.Call) and not declares(node) and _names_of(node)[0] not in harmless:
            return True
        if isinstance(node, ast.alias) and node.name == "*":
            return True
        if isinstance(node, ast.AugAssign | ast.Delete | ast.With | ast.AsyncWith):
            return True
        if isinstance(node, ast.Attribute | ast.Subscript) and isinstance(node.ctx, ast.Store):
            return True
    return False


def _is_of_run(node: ast.expr, harmless: set[str], given: set[str]) -> bool:
    """Whether its value is a study, a run, or something of theirs."""
    first, *rest = _names_of(node)
    return first in given or (first in harmless and not OF_RUNS.isdisjoint([first, *rest]))


def _names_of(node: ast.expr) -> list[str]:
    """Of `pilotstudy.load(..).table`: pilotstudy, load, table. The first is empty where it is no name."""
    match node:
        case ast.Attribute():
            return [*_names_of(node.value), node.attr]
        case ast.Call():
            return _names_of(node.func)
        case ast.Subscript():
            return _names_of(node.value)
    return [node.id if isinstance(node, ast.Name) else ""]


def _from_pilotstudy(statement: ast.Import | ast.ImportFrom) -> Iterator[str]:
    """The names that it gives to pilotstudy and to what is in it."""
    for alias in statement.names:
        source = alias.name if isinstance(statement, ast.Import) else statement.module or ""
        if source.split(".")[0] == "pilotstudy":
            yield alias.asname or alias.name.split(".")[0]


def _bound(statement: ast.stmt) -> Iterator[str]:
    """The names that a statement gives a meaning to."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield statement.name
    else:
        for node in ast.walk(statement):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                yield node.id
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                yield node.name
            elif isinstance(node, ast.Import | ast.ImportFrom):
                yield from (alias.asname or alias.name.split(".")[0] for alias in node.names if alias.name != "*")


def _used(statement: ast.stmt) -> list[str]:
    return [node.id for node in ast.walk(statement) if isinstance(node, ast.Name)]
