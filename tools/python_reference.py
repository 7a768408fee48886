"""The manual's pages about Python, made from signatures and docstrings when the manual is built."""

from __future__ import annotations

import enum
import inspect
import re
import sys
import textwrap
from functools import cache
from importlib import import_module
from typing import Any

from settings_reference import attribute_docs, meanings, table

FURTHER = {
    "tiltyard.judge.llm": """provider.ModelName provider.parse_model_name providers.make_provider provider.Provider
        provider.BatchProvider providers.scripted.ScriptedProvider prices.PriceTable prices.Price asking.AskingSettings
        asking.Budget provider.Request provider.Reply provider.Usage asking.Ask runner.ask_all""",
    "tiltyard.stats": """proportions.Estimate proportions.share proportions.cohen_kappa proportions.wilson
        calibration.calibration""",
    "tiltyard.judge.tournament": "config.load_setup config.Config ratings.rate_dimension ratings.EloLine",
    "tiltyard.judge.placement": """plan.PlaceOptions rating.Recipe folder.read_recipe folder.rate_folder folder.remake
        sampling.read_panel stopping.Until stopping.critical""",
    "tiltyard.arena": """rules.policy.Policy rules.policy.read_policy writing.service.Arena
        study.board.live_board study.board.LiveBoard study.board.BoardRow study.offline.offline_board
        study.offline.OfflineRow simulation.simulate simulation.SimulationSettings simulation.SimulationResult
        store.Store audit.verify.verify rules.voting.NotYours rules.voting.ChoiceDiffers rules.voting.Gone
        rules.voting.TooLate rules.voting.NoVote rules.voting.NothingToRender rules.reasons.BadReason
        rules.voting.NotInvited rules.voting.NothingLeft rules.voting.ReviewClosed rules.voting.TooBusy
        rules.voting.TooMany study.publication.badge study.publication.confidence_percent
        study.publication.publication study.coverage.prompt_coverage study.coverage.consistency
        matchmaking.fairness.exposure_targets study.churn.top_churn""",
    "tiltyard.site": "settings.SiteSettings app.create_app serving.serve",
    "tiltyard.errors": """TiltyardError BattleError BadRow NoBattles ScoreError RatingError NotConnected
        NotConverged TooLarge BankError ConfigError JudgingError ModelError TryLater Refused QuestionRefused
        BudgetReached RunFolderError OptionError MissingExtra ArenaError StoreError""",
}
"""The public names of modules that export none themselves."""
EXPORTING = """tiltyard tiltyard.data.battles tiltyard.analysis.boards tiltyard.data.bank tiltyard.judge.verdicts
    tiltyard.analysis.decisions"""
MODULES = (*EXPORTING.split(), *FURTHER)
TYPES = {
    "tiltyard.data.battles.reading": "BattleData",
    "tiltyard.data.battles.writing": "Battles",
    "tiltyard.data.battles.inputs": "PathLike",
    "tiltyard.data.battles.table": "Column",
    "tiltyard.analysis.boards.rating": "Estimator",
    "tiltyard.options": "OnBad Method Ties Interval BothBad Inconsistent",
    "tiltyard.judge.verdicts.reading": "ReplyForm",
    "tiltyard.judge.verdicts.questions": "Orders",
    "tiltyard.judge.verdicts.verdicts": "OnVerdict",
    "tiltyard.judge.llm.asking": "Watch",
}
"""Names that signatures use for types, by the module that defines them."""

EMPTY = inspect.Parameter.empty
SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z`“(])")


def names_of(module: str) -> list[str]:
    """The public names of a module, dotted where they come from a module inside it."""
    return FURTHER[module].split() if module in FURTHER else list(import_module(module).__all__)


def public(module: str, name: str) -> Any:
    """The thing that a name stands for."""
    inner, _, last = name.rpartition(".")
    return getattr(import_module(f"{module}.{inner}" if inner else module), last)


@cache
def pages() -> dict[str, str]:
    """The pages by path below `docs/`: one for each module. A name that several export is on the first one's page."""
    made: dict[str, str] = {}
    seen: list[Any] = []
    for module in MODULES:
        own = [name for name in names_of(module) if public(module, name) not in seen]
        seen += [public(module, name) for name in own]
        title = f"# `{module}`\n\n{_about(module)} [All modules](../python.md).\n"
        made[_path(module)] = "\n".join([title, *(entry(module, name) for name in own)])
    return made


def overview() -> str:
    """Every module with its names, and the names of types."""
    rows = [(f"[`{m}`]({_path(m).removeprefix('reference/')})", _about(m), _listed(m)) for m in MODULES]
    types = [(f"`{n}`", attribute_docs(module)[n]) for module, names in TYPES.items() for n in names.split()]
    return f"{table('module | what it is about | names', rows)}\n\n{table('type | what it is', types)}"


def _path(module: str) -> str:
    return f"reference/python/{module.removeprefix('tiltyard.')}.md"


def _about(module: str) -> str:
    return first_sentence((import_module(module).__doc__ or "").split("\n\n")[0])


def _listed(module: str) -> str:
    return ", ".join(f"`{name}`" for name in names_of(module))


def entry(module: str, name: str) -> str:
    """One name: how it is called, what it is, its parameters, its methods."""
    thing, last = public(module, name), name.rpartition(".")[2]
    parts = [f"## `{name}`", f"```text\n{signature(last, thing)}\n```", text_of(thing)]
    if not callable(thing):
        return f"## `{name}`\n\n{_constant_doc(module, last)}\n"
    if _is(thing, enum.Enum):
        parts.append(table("member | value", [(f"`{m.name}`", f"`{m.value!r}`") for m in thing]))
    elif called := parameters(thing):
        said = meanings(thing)
        rows = [(f"`{p.name}`", f"`{_type(p.annotation)}`", _default(p), said.get(p.name, "")) for p in called]
        parts.append(table("parameter | type | default | meaning", rows))
    if methods := methods_of(thing):
        parts.append(table("method | gives", [(f"`{call}`", first_sentence(doc)) for call, doc in methods.items()]))
    return "\n\n".join(parts) + "\n"


def _constant_doc(module: str, name: str) -> str:
    """The text below a constant, in the module of the package that defines it."""
    inside = [found for found in sorted(sys.modules) if found.startswith(f"{module}.")]
    return next(docs[name] for found in inside if name in (docs := attribute_docs(found)))


def _is(thing: Any, kind: type) -> bool:
    return inspect.isclass(thing) and issubclass(thing, kind)


def parameters(thing: Any) -> list[inspect.Parameter]:
    """The parameters of a function or class; none for an error, an enumeration or a protocol, which nobody builds."""
    if not callable(thing) or _is(thing, (Exception, enum.Enum)) or getattr(thing, "_is_protocol", False):
        return []
    return list(inspect.signature(thing).parameters.values())


class _Plain(str):
    """Text that is shown as it is in a signature."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def signature(name: str, thing: Any) -> str:
    """The call, without types."""
    if inspect.isclass(thing) and not parameters(thing):
        return f"class {name}({thing.__mro__[1].__name__})"
    if not callable(thing):
        return name
    result = EMPTY if inspect.isclass(thing) else inspect.signature(thing).return_annotation
    start = "class " if inspect.isclass(thing) else "async " if inspect.iscoroutinefunction(thing) else ""
    called = inspect.Signature([_untyped(p) for p in parameters(thing)], __validate_parameters__=False)
    arrow = "" if result is EMPTY else f" -> {_type(result)}"
    return textwrap.fill(f"{start}{name}{called}{arrow}", 90, subsequent_indent="    ", break_on_hyphens=False)


def _untyped(parameter: inspect.Parameter) -> inspect.Parameter:
    default = parameter.default if parameter.default is EMPTY else _Plain(_short(parameter.default))
    return parameter.replace(annotation=EMPTY, default=default)


def _default(parameter: inspect.Parameter) -> str:
    return "" if parameter.default is EMPTY else f"`{_short(parameter.default)}`"


def _short(value: Any) -> str:
    """A default as it would be written in a call; anything made is an ellipsis."""
    if isinstance(value, enum.Enum):
        return str(value.name)
    plain = isinstance(value, str | int | float | bool | tuple | type(None))
    simple = plain and len(repr(value)) < 60 and not re.search(r"<|\w\(", repr(value))
    return repr(value) if simple else getattr(value, "__name__", "…")


def _type(annotation: Any) -> str:
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    return re.sub(r"\b(?:tiltyard|collections|typing|pathlib|numpy|msgspec)(?:\.\w+)*\.(?=\w)", "", text)


def text_of(thing: Any) -> str:
    """The docstring without its list of parameters, and without line breaks in its paragraphs."""
    paragraphs = (inspect.getdoc(thing) or "").split("\n\n")
    return "\n\n".join(" ".join(part.split()) for part in paragraphs if not part.startswith("Parameters:"))


def first_sentence(text: str) -> str:
    """The first sentence of a docstring."""
    return SENTENCE_END.split(" ".join(text.split()))[0]


def methods_of(kind: Any) -> dict[str, str]:
    """The public methods and properties of a class, as they are called, with their docstrings."""
    found = {}
    for name in dir(kind) if inspect.isclass(kind) else ():
        raw = inspect.getattr_static(kind, name)
        function = raw.fget if isinstance(raw, property) else getattr(raw, "__func__", raw)
        if name.startswith("_") or not inspect.isfunction(function) or not function.__module__.startswith("tiltyard"):
            continue
        bound = [_untyped(p) for p in inspect.signature(function).parameters.values() if p.name not in ("self", "cls")]
        call = "" if isinstance(raw, property) else str(inspect.Signature(bound, __validate_parameters__=False))
        found[f".{name}{call}"] = inspect.getdoc(function) or ""
    return found
