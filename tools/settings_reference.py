"""Tables that the manual takes from the code when it is built: a line `::: NAME` of a page becomes one.

`::: tiltyard.arena.rules.policy.Policy` lists the fields of a struct, also those inside it,
`::: tiltyard.judge.llm.journal.Record`
the structs of a union, `::: tiltyard.arena.rules.kept.KEPT` what is kept about visitors,
`::: tiltyard.stats.elo K_MAX` constants of a module. What a field or constant means is the
text below it, or its line in the `Parameters:` of its class.
"""

from __future__ import annotations

import ast
import inspect
import re
from functools import cache
from importlib import import_module
from itertools import pairwise
from typing import TYPE_CHECKING, Any, get_args, get_origin

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

MARK = re.compile(r"^(?:::: .+\n)+", re.MULTILINE)
LISTED = re.compile(r"    (\w+): ")


def filled(markdown: str) -> str:
    """A page with a table in place of the lines `::: NAME` that follow each other."""
    return MARK.sub(lambda mark: _table(mark[0].splitlines()) + "\n", markdown)


def _table(lines: list[str]) -> str:
    name, *constants = lines[0].split()[1:]
    if not constants:
        module, _, kind = name.rpartition(".")
        thing = getattr(import_module(module), kind)
        if isinstance(thing, tuple):
            return table("what | why | until when", [kept.row() for kept in thing])
        if kinds := get_args(thing):
            return table("kind | fields | what it says", [_kind(one) for one in kinds])
        return table("setting | default | meaning", _fields(thing))
    rows = [row for line in lines for row in _constants(*line.split()[1:])]
    return table("constant | value | why", rows)


def _constants(module: str, *names: str) -> list[tuple[str, str, str]]:
    code = import_module(module)
    docs = attribute_docs(code.__name__)
    return [(f"`{module}.{name}`", written(getattr(code, name)), docs[name]) for name in names]


def _kind(kind: Any) -> tuple[str, str, str]:
    """A row of a union of tagged structs: the tag, the fields as they are written, the docstring."""
    fields = ", ".join(f"`{name}`" for name in kind.__struct_encode_fields__)
    return f"`{kind.__struct_config__.tag}`", fields, " ".join((inspect.getdoc(kind) or "").split())


def _fields(kind: Any, prefix: str = "") -> Iterator[tuple[str, str, str]]:
    """Rows of a struct and of the structs in it, under dotted names."""
    said = meanings(kind)
    for field in msgspec.structs.fields(kind):
        parts = [part for part in (field.type, *get_args(field.type)) if isinstance(part, type)]
        inside = next((part for part in parts if issubclass(part, msgspec.Struct)), None)
        if inside is not None:
            many = {tuple: "[]", dict: ".<name>"}.get(get_origin(field.type), "")
            yield from _fields(inside, f"{prefix}{field.name}{many}.")
        else:
            made = field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory()
            yield f"`{prefix}{field.name}`", "required" if field.required else written(made), said[field.name]


def written(value: Any) -> str:
    """A default as a settings file would hold it; a dash is none."""
    if value is None:
        return "–"
    if isinstance(value, str):
        return f"`{value}`" if value else '`""`'
    return f"`{msgspec.json.encode(value).decode()}`"


@cache
def _parsed(module: str) -> ast.Module:
    return ast.parse(inspect.getsource(import_module(module)))


@cache
def attribute_docs(module: str, name: str = "") -> dict[str, str]:
    """The texts that stand below the constants of a module, or the fields of its class of this name, by name."""
    body = _parsed(module).body
    if name:
        classes = (node for node in ast.walk(_parsed(module)) if isinstance(node, ast.ClassDef))
        body = next((node.body for node in classes if node.name == name), [])
    found: dict[str, str] = {}
    for before, after in pairwise(body):
        if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant) and isinstance(after.value.value, str):
            targets = before.targets if isinstance(before, ast.Assign) else [getattr(before, "target", None)]
            found |= {t.id: " ".join(after.value.value.split()) for t in targets if isinstance(t, ast.Name)}
    return found


def parameter_docs(thing: Any) -> dict[str, str]:
    """The `Parameters:` list of a docstring, `name: meaning` one below the other, by name."""
    lines = (inspect.getdoc(thing) or "").splitlines()
    found: dict[str, str] = {}
    name = ""
    for line in lines[lines.index("Parameters:") + 1 :] if "Parameters:" in lines else ():
        if not line.startswith("    "):
            break
        if match := LISTED.match(line):
            name = match[1]
        found[name] = f"{found[name]} {line.strip()}" if name in found else line.strip().removeprefix(f"{name}: ")
    return found


@cache
def meanings(kind: Any) -> dict[str, str]:
    """What each parameter of a function or field of a class means; a class has those of what it is made from too."""
    if not inspect.isclass(kind):
        return parameter_docs(kind)
    found: dict[str, str] = {}
    for part in reversed(kind.__mro__):
        found |= parameter_docs(part)
    return found | attribute_docs(kind.__module__, kind.__name__)


def table(head: str, rows: Iterable[tuple[str, ...]]) -> str:
    """A Markdown table."""
    lines = [f"| {head} |", "|" + "---|" * len(head.split(" | "))]
    return "\n".join([*lines, *("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows)])
