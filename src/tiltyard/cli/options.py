"""How structs of options become options of commands, and what `--help` shows of them."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import wraps
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import typer
from typer.core import TyperCommand, TyperGroup

from tiltyard.cli.output import as_flag, say
from tiltyard.errors import OptionError, OptionValue
from tiltyard.options import ASSUMED, BATTLES, ELO, GOAL, INTERVALS, METHOD, OTHER, PRICE, SCORES, Option, options_of

Command = Callable[..., None]
TYPES = {
    "<path>": "FILE",
    "<str>": "TEXT",
    "<list[str]>": "TEXT",
    "<list[float]>": "N",
    "<list[int]>": "N",
    "<int>": "N",
    "<int range>": "N",
    "<float>": "N",
    "<float range>": "N",
    "<": "",
    ">": "",
}
"""How types of values are shown, in place of Typer's names for them."""
GROUPS = (GOAL, METHOD, INTERVALS, BATTLES, SCORES, ELO, ASSUMED, PRICE, OTHER)
PURPOSES = {
    name: purpose
    for purpose, names in {
        "What is judged": "mode arena model config languages n-battles entrant until in",
        "The judge": "judge judge-model rubric calibrate skip-judging batch header timeout repeats",
        "Output": "format out output-dir plot by show markdown junit recompute title",
        "Cost": "yes budget dry-run prices requests-per-minute tokens-per-minute max-batch",
        "The site": "db host port workers url policy phase",
    }.items()
    for name in names.split()
}
"""What options are for, where their structs do not say it."""
FilesArgument = Annotated[
    list[str],
    typer.Argument(
        metavar="FILES", help="Files, folders or globs of battles (JSONL, CSV, TSV, Parquet; - for standard input)."
    ),
]


class App(typer.Typer):
    """A group of commands, each with `--help-all` where `--help` does not show every option."""

    def command(self, name: str | None = None, **more: Any) -> Callable[[Any], Any]:
        """Register a command."""
        return super().command(name, cls=_Command, **more)


class ArenaApp(App):
    """Commands that work where the extra of live arenas is installed, but for those that say they do not need it."""

    def command(self, name: str | None = None, *, needs_extra: bool = True, **more: Any) -> Callable[[Any], Any]:
        """Register a command."""
        register = super().command(name, **more)

        def decorate(command: Command) -> Command:
            @wraps(command)
            def run(**arguments: Any) -> None:
                from tiltyard.verbs.places import need_arena

                need_arena()
                command(**arguments)

            return register(run if needs_extra else command)  # type: ignore[no-any-return]

        return decorate


def daily_first(*names: str) -> type[TyperGroup]:
    """A group of commands whose help begins with these; each has its first clause beside it."""

    class Commands(TyperGroup):
        def format_commands(self, ctx: Any, formatter: Any) -> None:
            there = {name: self.get_command(ctx, name) for name in self.list_commands(ctx)}
            texts = {name: re.split(r"[.;:](?:\s|$)", one.help or "")[0] for name, one in there.items() if one}
            for title, some in (("Every day", names), ("And", [name for name in texts if name not in names])):
                with formatter.section(title):
                    formatter.write_dl([(name, " ".join(texts[name].split())) for name in some])

    return Commands


class _Command(TyperCommand):
    """A command whose `--help` is short; `--help-all` shows every option, by group."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if "--help-all" in args:
            rare = self._rare()
            for parameter in rare:
                parameter.hidden = False
            ctx.meta["all"] = True
            say(self.get_help(ctx))
            for parameter in rare:
                parameter.hidden = True
            ctx.exit()
        return super().parse_args(ctx, args)

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        return [piece.replace("{", "").replace("}", "") for piece in super().collect_usage_pieces(ctx)]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        groups: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is None:
                continue
            names, text = record
            for word, shown in TYPES.items():
                names = names.replace(word, shown)
            group = getattr(parameter, "rich_help_panel", None)
            if group in (None, OTHER):
                group = PURPOSES.get(parameter.opts[-1].lstrip("-"))
            if parameter.param_type_name == "argument":
                group, names = "Arguments", parameter.metavar or str(parameter.name).upper()
            groups.setdefault(group or "Options", []).append((names.strip(), text))
        purposes = list(dict.fromkeys(PURPOSES.values()))
        order = ["Arguments", *(group for group in groups if group not in (*purposes, "Options")), *purposes, "Options"]
        for group in dict.fromkeys(order):
            if group in groups:
                with formatter.section(group):
                    formatter.write_dl(groups[group])

    def format_epilog(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002
        if self._rare():
            formatter.write(f"\n--help-all shows {len(self._rare())} more options.\n")

    def _rare(self) -> list[Any]:
        return [parameter for parameter in self.params if getattr(parameter, "hidden", False)]


def rare(default: Any, *names: str, **more: Any) -> Any:
    """A `typer.Option` that only `--help-all` shows."""
    return typer.Option(default, *names, hidden=True, **more)


def with_options(
    *structs: type, leave_out: Collection[str] = (), daily: Collection[str] | None = None
) -> Callable[[Command], Command]:
    """Give a command the options of structs, after its arguments: it gets those that were given as `given`.

    `daily` are those that `--help` shows, where they are not those of the structs.
    """
    known = [
        option for name, option in options_of(*structs).items() if not option.help.in_memory and name not in leave_out
    ]
    shown = {option.name for option in known if option.help.daily} if daily is None else set(daily)
    known.sort(key=lambda option: (GROUPS.index(option.help.group), option.name not in shown))
    options = {option.name: option for option in known}

    def decorate(command: Command) -> Command:
        signature = inspect.signature(command, eval_str=True)
        own = [one for one in signature.parameters.values() if one.name != "given"]
        made = [_parameter(option, option.name in shown) for option in known]
        first = [one for one in own if one.kind is not one.KEYWORD_ONLY]
        last = [one for one in own if one.kind is one.KEYWORD_ONLY]

        @wraps(command)
        def run(**arguments: Any) -> None:
            words = {name: arguments.pop(_named(name)) for name in options}
            given = {name: _value(options[name], word) for name, word in words.items() if word is not None}
            command(**arguments, given=given)

        keyword = [one.replace(kind=one.KEYWORD_ONLY) for one in (*made, *last)]
        run.__signature__ = signature.replace(parameters=[*first, *keyword])  # type: ignore[attr-defined]
        run.__annotations__ = {one.name: one.annotation for one in (*first, *keyword)}
        return run

    return decorate


def _parameter(option: Option, daily: bool) -> inspect.Parameter:
    """The option as Typer reads it: None where it is not given, so that the library's defaults hold."""
    kind, spelling = _bare(option.type), option.flag
    shown: dict[str, Any] = {"hidden": not daily, "rich_help_panel": option.help.group, "show_default": False}
    accepted: Any = bool if kind is bool else kind if kind in (int, float) else str
    if kind is bool and option.help.default:
        spelling = f"{spelling}/--no-{spelling[2:]}"
    elif option.choices:
        words = tuple(one for one in option.choices if one is not None)
        accepted, shown["metavar"] = Literal[words], "|".join(words)
    elif kind in (Mapping, Sequence):
        accepted = list[int] if int in _parts(option.type) else list[str]
    if kind is not bool and not option.choices:
        names = {int: "N", float: "N", Path: "FILE"}
        shown["metavar"] = option.help.metavar or names.get(kind, "TEXT")
    if option.help.least is not None:
        shown["min"] = option.help.least
    again = " May be given again." if kind is Mapping or (kind is Sequence and not _has_commas(option)) else ""
    text = f"{option.help.text}{again}{option.notes}"
    annotation = Annotated[accepted | None, typer.Option(spelling, help=text, **shown)]
    return inspect.Parameter(_named(option.name), inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


def _named(option: str) -> str:
    """An option's name beside those of the command itself, such as its own `format`."""
    return f"struct_{option}"


def _bare(kind: Any) -> Any:
    """A type without None and without what it holds; of several, the first."""
    inner = get_args(kind)[0] if get_origin(kind) in (Union, UnionType) else kind
    return get_origin(inner) or inner


def _parts(kind: Any) -> tuple[Any, ...]:
    """What a list holds."""
    return get_args(get_args(kind)[0] if get_origin(kind) in (Union, UnionType) else kind)


def _has_commas(option: Option) -> bool:
    """Whether several values of a list may stand between commas."""
    return "," in option.help.metavar


def _value(option: Option, word: Any) -> Any:
    """The option's value from what was typed."""
    kind = _bare(option.type)
    if kind is Mapping:
        return read_pairs(word, option.help.metavar)
    if kind is tuple:
        return read_anchor(word)
    if kind is Path:
        return Path(word)
    if Path in get_args(option.type):
        return tuple(Path(one) for one in word)
    if kind is Sequence and _has_commas(option):
        parts = split_names(word)
        numbers = float in _parts(option.type)
        return tuple(_number(part, option, ",".join(word)) for part in parts) if numbers else tuple(parts)
    return word


def split_names(given: Iterable[str] | None) -> list[str]:
    """What was given between commas, or one by one."""
    return [part.strip() for text in given or () for part in text.split(",") if part.strip()]


def _number(part: str, option: Option, word: str) -> float:
    try:
        return float(part)
    except ValueError:
        raise OptionError(
            f"{as_flag(OptionValue(option.name))} is {word!r}: expected numbers with commas, such as 1,4,8,16,32."
        ) from None


def read_anchor(text: str) -> tuple[str, float]:
    """MODEL=RATING; the model's name may hold equal signs itself."""
    model, equals, rating = text.rpartition("=")
    try:
        if not equals or not model:
            raise ValueError
        return model, float(rating)
    except ValueError:
        raise OptionError(f"--anchor is {text!r}: expected MODEL=RATING, such as gpt-4=1200.") from None


def read_pairs(given: list[str] | None, shape: str = "OURS=THEIRS") -> dict[str, str]:
    """The values of `--map` as the library's `map`: OURS=THEIRS; the name of their column may hold equal signs."""
    mapped: dict[str, str] = {}
    for text in given or ():
        ours, equals, theirs = text.partition("=")
        ours = ours.strip()
        if not equals or not ours or not theirs.strip():
            example = "winner=choice or prompt=question" if shape == "OURS=THEIRS" else "answer=reply"
            raise OptionError(f"--map is {text!r}: expected {shape}, such as {example}.")
        if mapped.setdefault(ours, theirs) != theirs:
            raise OptionError(f"--map gives {ours} twice: {mapped[ours]} and {theirs}. Leave one out.")
    return mapped
