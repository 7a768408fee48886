"""The small mistakes that `mutate.py` makes: a boundary moved, a sign turned, a condition dropped, a mean for a median.

`mutations(module, source)` lists every mistake that one source allows, each with its place, its text before and after,
and a number by which `mutated` makes that source. What no test could notice is left alone: docstrings, annotations,
decorators, imports, what an error or a log line says; and shapes of arrays, where a mistake is noticed at once.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator


class Place(NamedTuple):
    """Where a node is: its parent, the field, the position in that field if it is a list; and what it is part of."""

    parent: ast.AST
    field: str
    position: int | None
    around: ast.AST
    """The nearest call, comparison or other whole thing, which tells a reader what a number is for."""


def _both_ways(*pairs: tuple[Any, Any]) -> dict[Any, Any]:
    return {one: other for pair in pairs for one, other in (pair, pair[::-1])}


COMPARISONS = _both_ways(
    (ast.Lt, ast.LtE), (ast.Gt, ast.GtE), (ast.Eq, ast.NotEq), (ast.Is, ast.IsNot), (ast.In, ast.NotIn)
)
ARITHMETIC = _both_ways((ast.Add, ast.Sub), (ast.Mult, ast.Div), (ast.BitAnd, ast.BitOr))
ARITHMETIC |= {ast.FloorDiv: ast.Mult, ast.Mod: ast.FloorDiv, ast.Pow: ast.Mult}
FUNCTIONS = _both_ways(("min", "max"), ("any", "all"), ("floor", "ceil"), ("fmean", "median")) | {"sorted": "list"}
METHODS = _both_ways(
    ("min", "max"), ("minimum", "maximum"), ("argmin", "argmax"), ("any", "all"), ("floor", "ceil"), ("mean", "median")
)
DROPPED_KEYWORDS = {"key", "reverse", "axis", "keepdims", "minlength", "kind", "side", "ddof", "weights", "start"}
LEFT_ALONE = {"annotation", "returns", "decorator_list", "bases", "type_comment", "exc", "cause"}
LOGS = {"_log", "log", "logger", "logging", "warnings"}


@dataclass(frozen=True, slots=True)
class Mutation:
    """One mistake: where it is, what was there, and what is there instead."""

    module: str
    number: int
    """Its place among the mistakes of its module."""
    line: int
    function: str
    """`function` or `Class.method`; empty for what runs when the module is imported."""
    text: str
    """The source line, which stays the same when lines move."""
    before: str
    after: str

    @property
    def name(self) -> str:
        """What `--again` takes."""
        return f"{self.module}#{self.number}"

    @property
    def key(self) -> tuple[str, ...]:
        """What names it when lines have moved."""
        return self.module, self.function, self.text, self.before, self.after

    def __str__(self) -> str:
        return f"{self.module}:{self.line}  {_short(self.before)} → {_short(self.after)}"


def mutations(module: str, source: str) -> list[Mutation]:
    """Every mistake that can be made in a source, in its order."""
    made, lines = [], source.splitlines()
    for number, (place, node, other, function) in enumerate(_changes(ast.parse(source))):
        shown = place.around if isinstance(node, ast.Constant) else node
        before, after = ast.unparse(shown), ast.unparse(other) if shown is node else _with(place, other, shown)
        line: int = getattr(node, "lineno", 1)
        made.append(Mutation(module, number, line, function, lines[line - 1].strip(), before, after))
    return made


def mutated(source: str, number: int) -> str:
    """The source with one mistake in it."""
    tree = ast.parse(source)
    place, _, other, _ = next(islice(_changes(tree), number, None))
    return _with(place, other, tree)


def _with(place: Place, other: ast.AST, shown: ast.AST) -> str:
    """The text of a tree, or a part of it, with another node at a place; the tree stays as it is."""
    parent, field, position, _ = place
    kept = getattr(parent, field)
    setattr(parent, field, other if position is None else [*kept[:position], other, *kept[position + 1 :]])
    try:
        return ast.unparse(shown)
    finally:
        setattr(parent, field, kept)


def _changes(tree: ast.AST) -> Iterator[tuple[Place, ast.AST, ast.AST, str]]:
    """Every place with something that can stand there instead, and the function around it."""
    for place, node, function in _places(tree, tree, "", is_function=False):
        if isinstance(node, ast.BinOp) and not function:
            continue  # mostly unions of types
        if isinstance(node, ast.Assign) and function.endswith("__init__"):
            continue  # whatever is built without its parts fails at once
        for other in (*_other_statements(node), *_other_expressions(node)):
            yield place, node, other, function


def _places(
    node: ast.AST, around: ast.AST, function: str, *, is_function: bool
) -> Iterator[tuple[Place, ast.AST, str]]:
    """Everything below a node that may be changed, with its place and the outermost function it is in."""
    if isinstance(node, ast.stmt | ast.Call | ast.Compare | ast.BinOp | ast.BoolOp | ast.IfExp):
        around = node
    for field, value in ast.iter_fields(node):
        if field in LEFT_ALONE or _is_shape(node, field):
            continue
        for index, child in enumerate(value) if isinstance(value, list) else ((None, value),):
            if not isinstance(child, ast.AST) or _says_nothing(child):
                continue
            within, inside = function, is_function
            if isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and not is_function:
                within = f"{function}.{child.name}".lstrip(".")
                inside = not isinstance(child, ast.ClassDef)
            yield Place(node, field, index, around), child, within if inside else ""
            yield from _places(child, around, within, is_function=inside)


def _is_shape(node: ast.AST, field: str) -> bool:
    """Whether a part is about the form of a value, so that another number there fails at once or means the same."""
    match node, field:
        case ast.ClassDef(), "keywords":
            return True
        case ast.Subscript(value=ast.Call(func=ast.Attribute(attr="nonzero"))), "slice":
            return True
        case ast.Call(func=ast.Attribute(attr="reshape")), "args":
            return True
    return False


def _says_nothing(node: ast.AST) -> bool:
    """Whether no test could notice a change here: words, types, logs, and what only a type checker runs."""
    match node:
        case ast.Expr(value=ast.Constant()) | ast.Import() | ast.ImportFrom() | ast.Assert() | ast.JoinedStr():
            return True
        case ast.If(test=ast.Name(id="TYPE_CHECKING")):
            return True
        case ast.keyword(arg="strict" | "detail" | "frozen" | "slots"):
            return True
        case ast.Call(func=ast.Attribute(value=ast.Name(id=name))) if name in LOGS:
            return True
        case ast.Call(func=ast.Name(id="print" | "cast" | "TypeVar")):
            return True
        case ast.Expr(value=value):
            return _says_nothing(value)
    return False


def _other_statements(node: ast.AST) -> Iterator[ast.AST]:
    """Left out: a call, an addition, something kept, a guard that leaves early. And a loop that ends instead."""
    match node:
        case ast.Expr(value=ast.Call() | ast.Await()) | ast.AugAssign() | ast.Delete():
            yield ast.Pass()
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            yield ast.Pass()
        case ast.If(orelse=[], body=[ast.Return() | ast.Raise() | ast.Continue() | ast.Break()]):
            yield ast.Pass()
        case ast.Continue():
            yield ast.Break()
        case ast.Break():
            yield ast.Continue()


def _other_expressions(node: ast.AST) -> Iterator[ast.AST]:
    match node:
        case ast.Compare(left=left, ops=[operator, *more], comparators=right) if type(operator) in COMPARISONS:
            yield ast.Compare(left, [COMPARISONS[type(operator)](), *more], right)
        case ast.BinOp(left=left, op=operator, right=right) if type(operator) in ARITHMETIC:
            if not (_is_text_or_list(left) or _is_text_or_list(right)):
                yield ast.BinOp(left, ARITHMETIC[type(operator)](), right)
        case ast.BoolOp(op=operator, values=values):
            yield ast.BoolOp(ast.Or() if isinstance(operator, ast.And) else ast.And(), values)
            for left_out in range(len(values)):
                kept = values[:left_out] + values[left_out + 1 :]
                yield ast.BoolOp(operator, kept) if len(kept) > 1 else kept[0]
        case ast.UnaryOp(op=ast.Not() | ast.USub(), operand=operand):
            yield operand
        case ast.Constant(value=bool() as truth):
            yield ast.Constant(not truth)
        case ast.Constant(value=int() as whole) if abs(whole) <= 1000:
            yield ast.Constant(whole + 1)
            yield ast.Constant(whole - 1) if whole else ast.UnaryOp(ast.USub(), ast.Constant(1))
        case ast.IfExp(body=body, orelse=orelse):
            yield body
            yield orelse
        case ast.Call():
            yield from _other_calls(node)


def _other_calls(call: ast.Call) -> Iterator[ast.AST]:
    """Another function, a keyword left out, or a part left out of a text that is encoded (hashed, signed, sent)."""
    match call.func:
        case ast.Name(id=name) if name in FUNCTIONS:
            yield ast.Call(ast.Name(FUNCTIONS[name], ast.Load()), call.args, call.keywords if name != "sorted" else [])
        case ast.Attribute(value=value, attr=name) if name in METHODS:
            yield ast.Call(ast.Attribute(value, METHODS[name], ast.Load()), call.args, call.keywords)
        case ast.Attribute(value=ast.JoinedStr(values=parts), attr="encode"):
            for index, part in enumerate(parts):
                if isinstance(part, ast.FormattedValue):
                    less = ast.JoinedStr(parts[:index] + parts[index + 1 :])
                    yield ast.Call(ast.Attribute(less, "encode", ast.Load()), call.args, call.keywords)
    for index, keyword in enumerate(call.keywords):
        if keyword.arg in DROPPED_KEYWORDS:
            yield ast.Call(call.func, call.args, call.keywords[:index] + call.keywords[index + 1 :])


def _is_text_or_list(node: ast.AST) -> bool:
    """Whether arithmetic with it would fail at once."""
    return isinstance(node, ast.List | ast.Tuple | ast.JoinedStr | ast.ListComp) or (
        isinstance(node, ast.Constant) and isinstance(node.value, str | bytes)
    )


def _short(text: str, most: int = 110) -> str:
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[: most - 1]}…"
