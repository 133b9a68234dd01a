"""
Mutants of a module: copies of its syntax tree that differ from it in one place, as a mistake of a person would.

Not touched: docstrings, annotations, decorators, protocols, what is logged, casts, and texts of several words.
"""

import ast
import copy
from collections.abc import Iterator
from dataclasses import dataclass

_COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip
_ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult,
}  # fmt: skip
_SKIPPED_FIELDS = {"annotation", "returns", "decorator_list", "type_params", "bases"}
_REASONS = "Reason"


@dataclass(frozen=True, slots=True)
class Mutant:
    """One change of a module. Text without lines names it in lists that outlive other changes of the module."""

    module: str
    """Path below the package."""
    function: str
    """The outermost function around it, or the class, qualified; empty for the module itself."""
    is_import: bool
    """Whether the place is run when the module is imported."""
    line: int
    change: str
    number: int
    """Of the place and its alternative, in the order of the walk."""

    @property
    def name(self) -> str:
        return f"{self.module}: {self.function or 'module'}: {self.change}"


@dataclass(frozen=True, slots=True)
class _Place:
    node: ast.AST
    instead: ast.AST | None
    """None removes a statement."""
    function: str
    is_import: bool


class _Places(ast.NodeVisitor):
    """Every place that can be changed, with the nodes that may stand there instead."""

    def __init__(self) -> None:
        self.found: list[_Place] = []
        self._names: list[str] = []
        self._is_import = True

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        if any(isinstance(base, ast.Name) and base.id == "Protocol" for base in node.bases):
            return
        if self._is_import:
            self._names.append(node.name)
            self.generic_visit(node)
            self._names.pop()

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        if not self._is_import:
            self.generic_visit(node)
            return
        self._names.append(node.name)
        self.generic_visit(node.args)
        self._is_import = False
        for statement in node.body:
            if not _is_left_alone(statement):
                self._offer(statement)
                self.visit(statement)
        self._is_import = True
        self._names.pop()

    visit_AsyncFunctionDef = visit_FunctionDef  # noqa: N815

    def generic_visit(self, node: ast.AST) -> None:
        for name, value in ast.iter_fields(node):
            if name in _SKIPPED_FIELDS:
                continue
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST) and not _is_left_alone(child):
                    self._offer(child)
                    self.visit(child)

    def _offer(self, node: ast.AST) -> None:
        where = ".".join(self._names)
        self.found += [_Place(node, instead, where, self._is_import) for instead in _alternatives(node)]


def _is_left_alone(node: ast.AST) -> bool:
    if isinstance(node, ast.Call) and ast.unparse(node.func) == "cast":
        return True
    if isinstance(node, ast.JoinedStr | ast.Import | ast.ImportFrom):
        return True
    if isinstance(node, ast.If) and ast.unparse(node.test) == "__name__ == '__main__'":
        return True
    value = node.value if isinstance(node, ast.Expr) else node
    if isinstance(value, ast.Constant) and value is not node:
        return True  # a docstring
    return isinstance(value, ast.Call) and ast.unparse(value.func).startswith("_log.")


def _alternatives(node: ast.AST) -> Iterator[ast.AST | None]:
    match node:
        case ast.Compare(ops=[op]) if type(op) in _COMPARISONS:
            yield _with(node, ops=[_COMPARISONS[type(op)]()])
        case ast.BoolOp(op=op):
            yield _with(node, op=ast.Or() if isinstance(op, ast.And) else ast.And())
        case ast.UnaryOp(op=ast.Not()):
            yield node.operand
        case ast.BinOp(op=op) if type(op) in _ARITHMETIC:
            yield _with(node, op=_ARITHMETIC[type(op)]())
        case ast.If() | ast.IfExp() | ast.While():
            yield _with(node, test=ast.UnaryOp(ast.Not(), node.test))
        case ast.Constant(value=bool(value)):
            yield _with(node, value=not value)
        case ast.Constant(value=int(value)):
            yield _with(node, value=value + 1)
            yield _with(node, value=value - 1)
        case ast.Constant(value=float(value)):  # seconds
            yield _with(node, value=0.0 if value else 1.0)
            yield _with(node, value=value * 100 if value else 100.0)
        case ast.Constant(value=str(value)) if value and " " not in value:
            yield _with(node, value=f"not {value}")
        case ast.Attribute(value=ast.Name(id=name)) if name == _REASONS:
            yield _with(node, attr="POD_FAILED" if node.attr != "POD_FAILED" else "CRASH_LOOP")
        case ast.Expr(value=ast.Call()) | ast.Raise() | ast.AugAssign() | ast.Continue() | ast.Break():
            yield None
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            yield None
        case ast.Call(keywords=keywords):
            for keyword in keywords:
                if keyword.arg:
                    yield _with(node, keywords=[each for each in keywords if each is not keyword])


def _with(node: ast.AST, **fields: object) -> ast.AST:
    changed = copy.copy(node)
    for name, value in fields.items():
        setattr(changed, name, value)
    return changed


class _Replacement(ast.NodeTransformer):
    def __init__(self, node: ast.AST, instead: ast.AST | None) -> None:
        self._node, self._instead = node, instead

    def visit(self, node: ast.AST) -> ast.AST:
        if node is not self._node:
            return self.generic_visit(node)
        return ast.copy_location(self._instead or ast.Pass(), node)


def mutants_of(source: str, module: str) -> list[Mutant]:
    """Every mutant of a module's text."""
    found = []
    for number, place in enumerate(_places(ast.parse(source))):
        change = f"{_short(place.node)} -> {_short(place.instead) if place.instead else 'removed'}"
        line = getattr(place.node, "lineno", 0)
        found.append(Mutant(module, place.function, place.is_import, line, change, number))
    return found


def mutated(source: str, number: int) -> ast.Module:
    """The syntax tree of the mutant with that number."""
    tree = ast.parse(source)
    place = _places(tree)[number]
    changed = _Replacement(place.node, place.instead).visit(tree)
    assert isinstance(changed, ast.Module)
    return ast.fix_missing_locations(changed)


def _places(tree: ast.Module) -> list[_Place]:
    places = _Places()
    places.generic_visit(tree)
    return places.found


def _short(node: ast.AST) -> str:
    text = ast.unparse(node)
    return text.partition("\n")[0] if isinstance(node, ast.If | ast.While) else " ".join(text.split())
