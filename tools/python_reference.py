"""Write `docs/reference/python.md` from signatures and docstrings; a test fails when the page is not up to date."""

from __future__ import annotations

import dataclasses
import enum
import inspect
import re
import sys
import textwrap
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import python_words as words
import settings_words
from settings_reference import attribute_docs, option_helps, table

PAGE = Path(__file__).parent.parent / "docs" / "reference" / "python.md"
WIDTH = 100
SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z`“(])")
NO_DEFAULT = inspect.Parameter.empty

HEAD = """# Python

Every public name: what it is, its parameters, their defaults. This page is made from the code by `make docs`.
`import tiltyard as ty` gives the names of the first section and loads nothing heavy until they are used; the others
come from their own module. What is not on this page may change without notice.

How to use them is shown in [ratings](../ratings.md#in-python), [battles](../battles.md) and [judging](../judging.md).
"""


@dataclass(frozen=True)
class Parameter:
    """One parameter or field: its name as it is written, its type, its default."""

    name: str
    kind: str
    default: Any


def reference() -> str:
    """The page's text."""
    parts, seen = [HEAD], {}
    for module, (text, names) in sections().items():
        own = [name for name in names if public(module, name) not in seen.values()]
        parts.append(f"## `{module}`\n\n{text}\n")
        elsewhere = [f"`{name}`" for name in names if name not in own]
        if elsewhere:
            parts.append(f"Also here: {', '.join(elsewhere)}.\n")
        for name in own:
            seen[f"{module}.{name}"] = public(module, name)
            parts.append(entry(module, name))
    rows = [(f"`{name}`", text) for name, text in words.TYPES.items()]
    return "\n".join([*parts, "## Names of types\n", words.TYPES_TEXT, table("name | what", rows)])


def sections() -> dict[str, tuple[str, list[str]]]:
    """By module of the page: what it is about, and its names (dotted below a package that exports none itself)."""
    found = {}
    for module, text in words.MODULES.items():
        exported = list(getattr(import_module(module), "__all__", []))
        found[module] = (text, exported or words.FURTHER[module])
    return found


def public(module: str, name: str) -> Any:
    """The thing that a name of a section stands for."""
    inner, _, last = name.rpartition(".")
    return getattr(import_module(f"{module}.{inner}" if inner else module), last)


def entry(module: str, name: str) -> str:
    """One name: signature, what it is, parameters, methods."""
    thing, last = public(module, name), name.rpartition(".")[2]
    title = f"### `{name}`\n"
    if not callable(thing):
        return f"{title}\n{_constant(last, thing)}\n"
    parts = [title, f"```text\n{signature(last, thing)}\n```\n", text_of(thing) + "\n"]
    if _is_enum(thing):
        parts.append(table("member | value", [(f"`{m.name}`", f"`{m.value!r}`") for m in thing]))
    else:
        rows = [(f"`{p.name}`", f"`{p.kind}`", _default(p.default), meaning(last, thing, p)) for p in parameters(thing)]
        parts += [table("parameter | type | default | meaning", rows)] if rows else []
    methods = methods_of(thing) if inspect.isclass(thing) else {}
    if methods:
        parts.append(table("method | gives", [(f"`{shown}`", first_sentence(doc)) for shown, doc in methods.items()]))
    return "\n".join(parts)


def _constant(name: str, value: Any) -> str:
    short = repr(value)
    shown = f"Value: `{short}`." if len(short) <= 2 * WIDTH else f"A {type(value).__name__} of {len(value)}."
    return f"{words.CONSTANTS[name]} {shown}"


def signature(name: str, thing: Any) -> str:
    """The call on one line, or its parameters on lines of their own where that is too long."""
    if _is_enum(thing) or getattr(thing, "_is_protocol", False):
        return f"class {name}" + (" (enumeration)" if _is_enum(thing) else " (protocol)")
    if inspect.isclass(thing) and issubclass(thing, Exception):
        return f"class {name}({thing.__mro__[1].__name__})"
    called = [_shown_parameter(p) for p in _signature_parameters(thing)]
    result = "" if inspect.isclass(thing) else f" -> {_type(inspect.signature(thing).return_annotation)}"
    prefix = "class " if inspect.isclass(thing) else "async " if inspect.iscoroutinefunction(thing) else ""
    whole = f"{prefix}{name}({', '.join(called)}){result}"
    if len(whole) <= WIDTH:
        return whole
    filler = textwrap.TextWrapper(WIDTH - 20, initial_indent="    ", subsequent_indent="    ", break_on_hyphens=False)
    inside = filler.fill(", ".join(called))
    return f"{prefix}{name}(\n{inside},\n){result}"


def _signature_parameters(thing: Any) -> list[inspect.Parameter | None]:
    """The parameters of a call, `None` standing for the star after which they are named."""
    found: list[inspect.Parameter | None] = []
    for parameter in _called_with(thing):
        if parameter.kind is parameter.KEYWORD_ONLY and not any(p is None or p.kind is p.VAR_POSITIONAL for p in found):
            found.append(None)
        found.append(parameter)
    return found


def _called_with(thing: Any) -> list[inspect.Parameter]:
    """The parameters of a function or class; none for an error, which is built from its message."""
    if inspect.isclass(thing) and issubclass(thing, Exception):
        return []
    return list(inspect.signature(thing).parameters.values())


def _shown_parameter(parameter: inspect.Parameter | None) -> str:
    if parameter is None:
        return "*"
    star = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
    default = parameter.default
    if default is NO_DEFAULT:
        return star + parameter.name
    return f"{parameter.name}={_short(default)}"


def _short(value: Any) -> str:
    """A default as it would be written in a call; a made one (a factory's, a settings object) as an ellipsis."""
    if inspect.isfunction(value) or inspect.isbuiltin(value):
        return str(value.__name__)
    if isinstance(value, Path):
        return repr(str(value))
    if isinstance(value, enum.Enum):
        return f"{type(value).__name__}.{value.name}"
    if isinstance(value, tuple):
        parts = ", ".join(map(_short, value))
        return f"({parts},)" if len(value) == 1 else f"({parts})"
    return repr(value) if isinstance(value, str | int | float | bool | type(None)) else "…"


def _default(value: Any) -> str:
    return "" if value is NO_DEFAULT else f"`{_short(value)}`"


def parameters(thing: Any) -> list[Parameter]:
    """The parameters of a function, or the fields that a class is built from."""
    if inspect.isclass(thing) and getattr(thing, "_is_protocol", False):
        return []
    factories = _made_defaults(thing)
    return [Parameter(p.name, _type(p.annotation), factories.get(p.name, p.default)) for p in _called_with(thing)]


def _made_defaults(thing: Any) -> dict[str, Any]:
    if not dataclasses.is_dataclass(thing):
        return {}
    made = [field for field in dataclasses.fields(thing) if field.default_factory is not dataclasses.MISSING]
    return {field.name: field.default_factory() for field in made}


def _type(annotation: Any) -> str:
    if annotation is NO_DEFAULT:
        return "Any"
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    short = re.sub(r"\b(?:tiltyard|collections|typing|pathlib|numpy|msgspec)(?:\.\w+)*\.(?=\w)", "", text)
    return short.replace(" | ", " or ")  # a bar would end the cell of a table


def text_of(thing: Any) -> str:
    """The docstring, without line breaks in its paragraphs and without what the table of parameters says again."""
    names = {p.name for p in parameters(thing)} if not _is_enum(thing) else set()
    first, *rest = [" ".join(part.split()) for part in (inspect.getdoc(thing) or "").split("\n\n")]
    kept = [[part for part in SENTENCE_END.split(text) if not _is_about(part, names)] for text in rest]
    return "\n\n".join([first, *(" ".join(parts) for parts in kept if parts)])


def _is_about(sentence: str, names: set[str]) -> bool:
    match = re.match(r"`(\w+)", sentence)
    return match is not None and match[1] in names


def _is_enum(thing: Any) -> bool:
    return inspect.isclass(thing) and issubclass(thing, enum.Enum)


def first_sentence(text: str) -> str:
    """The first sentence of a docstring."""
    return SENTENCE_END.split(" ".join(text.split()))[0]


def methods_of(kind: type) -> dict[str, str]:
    """The public methods and properties of a class, as they are called, with their docstrings."""
    found = {}
    for name in dir(kind):
        raw = inspect.getattr_static(kind, name)
        function = raw.fget if isinstance(raw, property) else getattr(raw, "__func__", raw)
        if name.startswith("_") or not inspect.isfunction(function) or not _ours(function):
            continue
        if isinstance(raw, property):
            found[f".{name}"] = inspect.getdoc(raw) or ""
            continue
        inside = [p for p in _signature_parameters(function) if p is None or p.name not in ("self", "cls")]
        start = f"{kind.__name__}." if isinstance(raw, classmethod | staticmethod) else "."
        start = f"await {start}" if inspect.iscoroutinefunction(function) else start
        found[f"{start}{name}({', '.join(_shown_parameter(p) for p in inside)})"] = inspect.getdoc(function) or ""
    return found


def _ours(function: Any) -> bool:
    return str(function.__module__).startswith("tiltyard")


def meaning(name: str, thing: Any, parameter: Parameter) -> str:
    """What a parameter means: our own words, what the code says below the field, or what the docstring says of it."""
    said = words.PARAMETERS.get(f"{name}.{parameter.name}") or _setting_words().get(name, {}).get(parameter.name)
    if said is None and inspect.isclass(thing):
        said = _field_docs(thing).get(parameter.name)
    sentences = _mentioning(thing, parameter.name)
    about = [part for part in sentences if part.startswith(f"`{parameter.name}")]
    return said or _about(about, parameter.name) or words.ANYWHERE.get(parameter.name) or " ".join(sentences[:1])


@cache
def _setting_words() -> dict[str, dict[str, str]]:
    """The words of the page of settings, for classes that are settings."""
    policy = {name: f"{text.removeprefix('=')}".strip() for name, (text, _) in settings_words.POLICY.items()}
    return {
        "PlaceOptions": option_helps("place") | settings_words.PLACEMENT_ONLY,
        "Policy": {name: text for name, text in policy.items() if text and "." not in name},
        "SimulationSettings": settings_words.SIMULATION,
        "AskingSettings": {name: text for name, text in settings_words.ASKING.items() if text},
        "JudgeSettings": settings_words.JUDGE,
        "SiteSettings": settings_words.SITE,
    }


@cache
def _field_docs(kind: type) -> dict[str, str]:
    return attribute_docs(inspect.getsource(kind))


def _mentioning(thing: Any, name: str) -> list[str]:
    """The sentences of the docstring that mention the parameter in code quotes."""
    text = " ".join((inspect.getdoc(thing) or "").split())
    return [part for part in SENTENCE_END.split(text) if re.search(rf"`{name}\b[^`]*`", part)]


def _about(sentences: list[str], name: str) -> str:
    """The sentences, without the name at their beginning."""
    text = " ".join(sentences[:2])
    plain = re.sub(rf"^`{name}`(?:: | is | are | holds )", "", text)
    return plain[:1].upper() + plain[1:]


def unexplained() -> list[str]:
    """Parameters of the page that nobody has explained."""
    found = []
    for module, (_, names) in sections().items():
        for name in names:
            thing, last = public(module, name), name.rpartition(".")[2]
            if callable(thing) and not _is_enum(thing):
                found += [f"{last}.{p.name}" for p in parameters(thing) if not meaning(last, thing, p)]
    return list(dict.fromkeys(found))


def stale() -> list[str]:
    """Words about parameters that are not there."""
    known = set()
    for module, (_, names) in sections().items():
        for name in names:
            thing = public(module, name)
            if callable(thing) and not _is_enum(thing):
                known |= {f"{name.rpartition('.')[2]}.{p.name}" for p in parameters(thing)}
    return sorted(set(words.PARAMETERS) - known)


if __name__ == "__main__":
    for problem in (*unexplained(), *stale()):
        sys.stderr.write(f"no words for, or words for nothing: {problem}\n")
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(reference(), encoding="utf-8")
    sys.stdout.write(f"wrote {PAGE.name}\n")
