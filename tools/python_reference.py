"""Write `docs/reference/python.md` and a page for each module from signatures and docstrings.

A test fails when a page is not up to date.

What a parameter means is read from the `Parameters:` list of the docstring, or from the text below the field.
"""

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

from settings_reference import attribute_docs, parameter_docs, table

PAGE = Path(__file__).parent.parent / "docs" / "reference" / "python.md"
FOLDER = PAGE.with_suffix("")
"""Where the page of each module is."""
WIDTH = 100
SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z`“(])")
NO_DEFAULT = inspect.Parameter.empty

HEAD = """# Python

Every public name, on a page for each module: what it is, its parameters, their defaults. The pages are made from the
code by `make docs`. `import tiltyard as ty` gives the names of the first page and loads nothing heavy until they are
used; the others come from their own module. What is not here may change without notice.

How to use them is shown in [ratings](../ratings.md#in-python), [battles](../battles.md) and [judging](../judging.md).
"""

IMPORT_THEM = "The package exports nothing itself: import from the modules named here."
MODULES = (
    "tiltyard",
    "tiltyard.battles",
    "tiltyard.boards",
    "tiltyard.bank",
    "tiltyard.judging",
    "tiltyard.llm",
    "tiltyard.validity",
    "tiltyard.decisions",
    "tiltyard.tournament",
    "tiltyard.placement",
    "tiltyard.arena",
    "tiltyard.report",
    "tiltyard.web",
)
FURTHER = {
    "tiltyard.llm": [
        "provider.ModelName",
        "provider.parse_model_name",
        "providers.make_provider",
        "provider.Provider",
        "provider.BatchProvider",
        "providers.scripted.ScriptedProvider",
        "prices.PriceTable",
        "prices.Price",
        "asking.AskingSettings",
        "asking.Budget",
        "provider.Request",
        "provider.Reply",
        "provider.Usage",
        "asking.Ask",
        "runner.ask_all",
    ],
    "tiltyard.validity": [
        "agreement.Estimate",
        "agreement.share",
        "agreement.cohen_kappa",
        "agreement.wilson",
        "publication.badge",
        "publication.confidence_percent",
        "coverage.prompt_coverage",
        "coverage.consistency",
        "calibration.calibration",
        "publication.publication",
        "fairness.exposure_targets",
        "churn.top_churn",
    ],
    "tiltyard.tournament": ["config.load_setup", "config.Config", "ratings.rate_dimension", "ratings.EloLine"],
    "tiltyard.placement": [
        "options.PlaceOptions",
        "rating.Recipe",
        "folder.read_recipe",
        "folder.rate_folder",
        "folder.recompute",
        "panel.read_panel",
        "stopping.Until",
        "stopping.critical",
    ],
    "tiltyard.arena": [
        "policy.Policy",
        "policy.read_policy",
        "service.Arena",
        "board.live_board",
        "board.LiveBoard",
        "board.BoardRow",
        "offline.offline_board",
        "offline.OfflineRow",
        "simulation.simulate",
        "simulation.SimulationSettings",
        "simulation.SimulationResult",
        "store.Store",
        "store.verify.verify",
    ],
    "tiltyard.web": ["settings.SiteSettings", "app.create_app", "serving.serve"],
}
"""The public names of packages that export none themselves."""

TYPES = {
    "BattleData": "tiltyard.battles.reading",
    "Battles": "tiltyard.battles.writing",
    "PathLike": "tiltyard.battles.inputs",
    "Column": "tiltyard.battles.table",
    "OnBad": "tiltyard.options",
    "Method": "tiltyard.options",
    "Estimator": "tiltyard.boards.inputs",
    "Ties": "tiltyard.options",
    "Interval": "tiltyard.options",
    "BothBad": "tiltyard.options",
    "Inconsistent": "tiltyard.options",
    "ReplyForm": "tiltyard.judging.reading",
    "Orders": "tiltyard.judging.language_model",
    "OnVerdict": "tiltyard.judging.judge",
    "Watch": "tiltyard.llm.asking",
}
"""Names of types that signatures use, and where they are defined; `Floats` and its like are NumPy arrays."""


@dataclass(frozen=True)
class Parameter:
    """One parameter or field: its name as it is written, its type, its default."""

    name: str
    kind: str
    default: Any


def pages() -> dict[Path, str]:
    """The text of every page: the overview, and one for each module."""
    texts: dict[Path, str] = {}
    explained: list[Any] = []
    rows = []
    for module, (text, names) in sections().items():
        own = [name for name in names if public(module, name) not in explained]
        explained += [public(module, name) for name in own]
        path = FOLDER / f"{module.rpartition('.')[2]}.md"
        texts[path] = _module_page(module, text, own, [name for name in names if name not in own])
        shown = ", ".join(f"[`{name}`](python/{path.name}#{anchor(name)})" for name in own)
        rows.append((f"[`{module}`](python/{path.name})", first_sentence(text), shown))
    types = [(f"`{name}`", _module_docs(module)[name]) for name, module in TYPES.items()]
    types.append(("`Floats`", "A NumPy array of floats; `Ints`, `Int32s`, `Int8s`, `Bools` likewise."))
    overview = [HEAD, table("module | what it is about | names", rows), "## Names of types\n"]
    texts[PAGE] = "\n".join([*overview, "Names that signatures use for types:\n", table("name | what", types)])
    return texts


def _module_page(module: str, text: str, own: list[str], elsewhere: list[str]) -> str:
    parts = [f"# `{module}`\n\n{text} [All modules](../python.md).\n"]
    if elsewhere:
        parts.append(f"Also here, explained elsewhere: {', '.join(f'`{name}`' for name in elsewhere)}.\n")
    return "\n".join([*parts, *(entry(module, name) for name in own)])


def anchor(name: str) -> str:
    """Where a name is on its page: how the manual's site names the heading."""
    return re.sub(r"[^\w-]", "", name.lower())


def sections() -> dict[str, tuple[str, list[str]]]:
    """By module of the page: what it is about, and its names (dotted below a package that exports none itself)."""
    found = {}
    for module in MODULES:
        package = import_module(module)
        text = " ".join((package.__doc__ or "").split("\n\n")[0].split())
        exported = list(getattr(package, "__all__", []))
        found[module] = (text, exported) if exported else (f"{text} {IMPORT_THEM}", FURTHER[module])
    return found


def public(module: str, name: str) -> Any:
    """The thing that a name of a section stands for."""
    inner, _, last = name.rpartition(".")
    return getattr(import_module(f"{module}.{inner}" if inner else module), last)


def entry(module: str, name: str) -> str:
    """One name: signature, what it is, parameters, methods."""
    thing, last = public(module, name), name.rpartition(".")[2]
    title = f"## `{name}`\n"
    if not callable(thing):
        return f"{title}\n{_constant(module, last, thing)}\n"
    parts = [title, f"```text\n{signature(last, thing)}\n```\n", text_of(thing) + "\n"]
    if _is_enum(thing):
        parts.append(table("member | value", [(f"`{m.name}`", f"`{m.value!r}`") for m in thing]))
    else:
        rows = [(f"`{p.name}`", f"`{p.kind}`", _default(p.default), meaning(thing, p.name)) for p in parameters(thing)]
        parts += [table("parameter | type | default | meaning", rows)] if rows else []
    methods = methods_of(thing) if inspect.isclass(thing) else {}
    if methods:
        parts.append(table("method | gives", [(f"`{shown}`", first_sentence(doc)) for shown, doc in methods.items()]))
    return "\n".join(parts)


def _constant(module: str, name: str, value: Any) -> str:
    short = repr(value)
    shown = f"Value: `{short}`." if len(short) <= 2 * WIDTH else f"A {type(value).__name__} of {len(value)}."
    return f"{_constant_doc(module, name)} {shown}"


def _constant_doc(module: str, name: str) -> str:
    """The text below a constant, in the module of the package that defines it."""
    inside = (found for found in sorted(sys.modules) if found.startswith(f"{module}."))
    return next(docs[name] for found in inside if name in (docs := _module_docs(found)))


@cache
def _module_docs(module: str) -> dict[str, str]:
    return attribute_docs(inspect.getsource(import_module(module)))


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
    """The docstring without its list of parameters, and without line breaks in its paragraphs."""
    paragraphs = (inspect.getdoc(thing) or "").split("\n\n")
    return "\n\n".join(" ".join(part.split()) for part in paragraphs if not part.startswith("Parameters:"))


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


def meaning(thing: Any, name: str) -> str:
    """What a parameter means: what its docstring lists, or what the class says below the field."""
    return parameter_docs(thing).get(name) or (_field_docs(thing).get(name, "") if inspect.isclass(thing) else "")


@cache
def _field_docs(kind: type) -> dict[str, str]:
    return attribute_docs(inspect.getsource(kind))


def unexplained() -> list[str]:
    """Parameters of the page that nobody has explained."""
    return [
        f"{name}.{p.name}"
        for name, thing in _with_parameters()
        for p in parameters(thing)
        if not meaning(thing, p.name)
    ]


def stale() -> list[str]:
    """Words in docstrings about parameters that are not there."""
    found = []
    for name, thing in _with_parameters():
        known = {p.name for p in parameters(thing)}
        found += [f"{name}.{listed}" for listed in parameter_docs(thing) if listed not in known]
    return found


def _with_parameters() -> list[tuple[str, Any]]:
    named = [(name, public(module, name)) for module, (_, names) in sections().items() for name in names]
    return [(name, thing) for name, thing in named if callable(thing) and not _is_enum(thing)]


if __name__ == "__main__":
    for problem in (*unexplained(), *stale()):
        sys.stderr.write(f"no words for, or words for nothing: {problem}\n")
    made = pages()
    for left in {*FOLDER.glob("*.md")} - {*made}:
        left.unlink()
    for path, text in made.items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    sys.stdout.write(f"wrote {PAGE.name} and {len(made) - 1} pages of modules\n")
