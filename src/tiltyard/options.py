"""Every option once: its name, type, default and meaning.

A function takes the fields of a struct as keyword arguments (`accepts_options`). Command-line options, the arguments of
agents' tools and the reference pages are made from the same fields, so a new option is a new field here and the place
that uses it.
"""

import inspect
import textwrap
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from functools import cache, partial, wraps
from pathlib import Path
from typing import (
    Any,
    Concatenate,
    Generic,
    Literal,
    NamedTuple,
    ParamSpec,
    TypeVar,
    get_args,
    get_origin,
    get_type_hints,
    overload,
)

from tiltyard.errors import OptionError, OptionValue

Method = Literal["bt", "elo", "elo-perm", "glicko2", "winrate"]
"""`bt`, `elo`, `elo-perm`, `glicko2` or `winrate`."""
Ties = Literal["davidson", "rao-kupper", "half", "drop"]
"""`davidson`, `rao-kupper`, `half` or `drop`."""
Interval = Literal["sandwich", "bootstrap", "none"]
"""`sandwich`, `bootstrap` or `none`."""
BothBad = Literal["separate", "half", "drop"]
"""`separate`, `half` or `drop`."""
Inconsistent = Literal["tie", "drop"]
"""`tie` or `drop`."""
OnBad = Literal["error", "skip"]
"""`error` or `skip`."""
Decider = Literal["human", "llm-judge"]
"""`human` or `llm-judge`."""
Engine = Literal["duckdb", "spark"]
"""`duckdb` or `spark`."""
MissingRule = Literal["ignore", "worst"]
"""`ignore` or `worst`."""

BATTLES, METHOD, INTERVALS, ELO, OTHER = "Which battles", "Method", "Intervals", "Elo", "Options"
GOAL, ASSUMED, PRICE, SCORES = "Goal", "Assumptions", "Price", "Scores"

WIDTH = 116


class Help(NamedTuple):
    """What an option means, and how front ends show it."""

    text: str
    default: str = ""
    """What an option that is not given stands for, where its default does not say it."""
    of: str = ""
    """The methods that have it, where not all do."""
    group: str = OTHER
    flag: str = ""
    """Its name on the command line, where that is another."""
    metavar: str = ""
    daily: bool = False
    """Whether `--help` shows it; `--help-all` shows every option."""
    least: int | None = None
    """The smallest number that it may be."""
    in_memory: bool = False
    """Whether only functions have it: no word on a command line is such a value."""


def option(value: Any, text: str, default: str = "", of: str = "", group: str = OTHER, **more: Any) -> Any:
    """A field of a struct of options: its default value, and the rest of its `Help`."""
    return field(default=value, metadata=about(text, default, of, group, **more))


def about(*texts: Any, **more: Any) -> dict[str, Help]:
    """The metadata of an option's field: alone where it has no default and must be given."""
    return {"help": Help(*texts, **more)}


_daily = partial(option, daily=True)
_of_battles = partial(option, group=BATTLES)


class Option(NamedTuple):
    """A field of a struct of options."""

    name: str
    type: Any
    default: Any
    help: Help

    @property
    def notes(self) -> str:
        """The methods that it belongs to, and what it is if it is not given, in parentheses."""
        default = self.help.default
        if not default and self.default not in (None, False, ()):
            default = str(self.default)
        notes = [self.help.of] if self.help.of else []
        notes += [f"default: {default}"] if default else []
        return f" ({'; '.join(notes)})" if notes else ""

    @property
    def flag(self) -> str:
        """Its name on the command line."""
        return self.help.flag or f"--{self.name.replace('_', '-')}"

    @property
    def choices(self) -> tuple[Any, ...]:
        """The values that it may have, where its type lists them."""
        return tuple(_choices(self.type))


def _choices(kind: Any) -> Iterator[Any]:
    if get_origin(kind) is Literal:
        yield from get_args(kind)
    elif any(get_origin(part) is Literal for part in get_args(kind)):
        yield from (None for part in get_args(kind) if part is type(None))
        for part in get_args(kind):
            yield from _choices(part)


@cache
def options_of(*kinds: Any) -> dict[str, Option]:
    """The options of structs by name."""
    options: dict[str, Option] = {}
    for kind in kinds:
        types = get_type_hints(kind)
        for one in fields(kind):
            if "help" in one.metadata:
                default = None if one.default is MISSING else one.default
                options.setdefault(one.name, Option(one.name, types[one.name], default, one.metadata["help"]))
    if "method" in options:
        return options
    return {name: option._replace(help=option.help._replace(of="")) for name, option in options.items()}


def check_choice(option: str, value: object, allowed: tuple[object, ...]) -> None:
    """Refuse a value that an option does not know."""
    if value not in allowed:
        known = ", ".join("none" if choice is None else str(choice) for choice in allowed)
        raise OptionError(f"{option} is {value!r}: expected one of {known}.")


@dataclass(frozen=True, kw_only=True)
class Options:
    """A struct of options: words that are not among an option's choices are refused."""

    def __post_init__(self) -> None:
        kind: Any = type(self)
        for option in options_of(kind).values():
            value, least = getattr(self, option.name), option.help.least
            if isinstance(value, str) and option.type in (Path, Path | None):
                object.__setattr__(self, option.name, Path(value))
            if option.choices:
                check_choice(option.name, value, option.choices)
            elif least is not None and value is not None and value < least:
                raise OptionError(f"{option.name} is {value}: it must be {least} or more.")

    def part(self, kind: type["OptionsT"]) -> "OptionsT":
        """The same values in a smaller struct."""
        mine = {field.name for field in fields(self)}
        return kind(**{field.name: getattr(self, field.name) for field in fields(kind) if field.name in mine})

    def given(self) -> dict[str, Any]:
        """The options that are not as they are by default."""
        kind: Any = type(self)
        values = {name: (getattr(self, name), option.default) for name, option in options_of(kind).items()}
        return {name: value for name, (value, default) in values.items() if not _is_default(value, default)}

    def refuse(self, names: Collection[str], *why: str | OptionValue) -> None:
        """Refuse options that have no effect here: the message is the option's name, and why."""
        for name in self.given():
            if name in names:
                raise OptionError(OptionValue(name, None), *why)


def _is_default(value: Any, default: Any) -> bool:
    if isinstance(value, tuple | list | dict) and not value:
        return not default
    return value is default or (isinstance(value, str | int | float | tuple) and value == default)


OptionsT = TypeVar("OptionsT", bound=Options)
P = ParamSpec("P")
A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
R = TypeVar("R")


class accepts_options(Generic[P, OptionsT]):  # noqa: N801 - a decorator
    """A function of a struct of options, called with the struct's fields as keyword arguments.

    Its signature and its docstring list them. None, for any of them, is the same as leaving it out.
    """

    def __init__(self, kind: Callable[P, OptionsT]) -> None:
        self.kind: Any = kind

    @overload
    def __call__(self, function: Callable[[OptionsT], R]) -> Callable[P, R]: ...
    @overload
    def __call__(self, function: Callable[[A, OptionsT], R]) -> Callable[Concatenate[A, P], R]: ...
    @overload
    def __call__(self, function: Callable[[A, B, OptionsT], R]) -> Callable[Concatenate[A, B, P], R]: ...
    @overload
    def __call__(self, function: Callable[[A, B, C, OptionsT], R]) -> Callable[Concatenate[A, B, C, P], R]: ...
    def __call__(self, function: Any) -> Any:
        own = inspect.signature(function)
        *first, _ = own.parameters.values()
        plain = get_type_hints(self.kind)
        listed = [one.replace(annotation=plain[one.name]) for one in inspect.signature(self.kind).parameters.values()]
        names = [one.name for one in first]

        @wraps(function)
        def called(*args: Any, **given: Any) -> Any:
            mine = {name: given.pop(name) for name in names if name in given}
            options = {name: value for name, value in given.items() if value is not None}
            return function(*args, **mine, options=self.kind(**options))

        called.__signature__ = own.replace(parameters=[*first, *listed])  # type: ignore[attr-defined]
        called.__doc__ = explained(function.__doc__, options_of(self.kind))
        return called


def callable_alone(function: Callable[..., R]) -> Callable[..., R]:
    """The same function; type checkers know what it returns, and not that its first arguments may be left out."""
    return function


def explained(text: str | None, options: Mapping[str, Option]) -> str:
    """A docstring with a list of parameters, to which options are added that it does not have yet."""
    text = inspect.cleandoc(text or "")
    lines = [] if "Parameters:" in text.splitlines() else ["", "Parameters:"]
    wrapper = textwrap.TextWrapper(WIDTH, initial_indent=" " * 4, subsequent_indent=" " * 8, break_on_hyphens=False)
    lines += [wrapper.fill(f"{name}: {option.help.text}{option.notes}") for name, option in options.items()]
    return "\n".join([text, *lines])


def explains(**texts: str) -> Callable[[type[R]], type[R]]:
    """A class whose docstring lists its fields: options by their own texts, others by these."""

    def decorate(kind: Any) -> Any:
        known = {name: option.help.text for name, option in options_of(kind, RateOptions).items()} | texts
        listed = {field.name: Option(field.name, None, None, Help(known[field.name])) for field in fields(kind)}
        kind.__doc__ = explained(kind.__doc__, listed)
        return kind

    return decorate


@dataclass(frozen=True, kw_only=True)
class ReadingOptions(Options):
    """How battles are read."""

    format: str = _of_battles(
        "auto",
        "Format of the battles: auto, tiltyard, lmarena, comparia, evalica, alpaca_eval, judgearena, arena-hard, "
        "winner-loser; logs of inspect, promptfoo, lm-eval, mt-bench, verdicts, deepeval, langfuse, "
        "phoenix, otel, open-webui; or the name of a reader that plugs in.",
        flag="--from",
        metavar="FORMAT",
        daily=True,
    )
    map: Mapping[str, str] | None = _of_battles(
        None,
        "A column under another name, ours first: winner=choice, prompt=question; or what a word in the winner's "
        "column means: winner:0=model_b.",
        metavar="OURS=THEIRS",
        daily=True,
    )
    where: str | None = _of_battles(
        None, "Only rows that satisfy this SQL expression over the file's own columns.", metavar="SQL"
    )
    default_source: Decider | None = _of_battles(None, "Who decided where a row does not say.")
    on_bad: OnBad = _of_battles("error", "Stop at the first bad row, or skip and count bad rows.", daily=True)
    tie_band: float | None = _of_battles(
        None, "For logs with scores: a tie is a difference of scores that is not larger.", default="0"
    )


@dataclass(frozen=True, kw_only=True)
class InputOptions(ReadingOptions):
    """How battles are read, and by what."""

    engine: Engine = _of_battles(
        "duckdb",
        "What counts the battles: DuckDB here, or Spark where they are (s3a://, hdfs://, …).",
        of="bt, winrate",
    )


@dataclass(frozen=True, kw_only=True)
class SelectionOptions(Options):
    """Which battles count."""

    source: Decider | None = _of_battles(None, "Only battles decided by people, or by a judge.")
    dimension: str | None = _of_battles(None, "Only battles of this dimension.", metavar="NAME", daily=True)
    both_bad: BothBad = _of_battles(
        "separate", "Battles in which both answers were bad: counted beside the rating, rated as ties, or left out."
    )
    inconsistent: Inconsistent = _of_battles("tie", "Judgments whose two orders disagreed: rated as ties, or left out.")


@dataclass(frozen=True, kw_only=True)
class BattleOptions(ReadingOptions, SelectionOptions):
    """How battles are read, and which of them count."""


@dataclass(frozen=True, kw_only=True)
class FitOptions(Options):
    """How ties are read, and what makes battles dependent."""

    ties: Ties | None = option(
        None, "How ties are read: by one of two models of ties, as half a win, or left out.", "davidson", "bt", METHOD
    )
    cluster: str | None = option(
        None,
        "What makes battles dependent: prompt, voter, `prompt,voter`, other columns by name, or none.",
        default="each of prompt and voter that is known",
        group=INTERVALS,
        metavar="COLUMNS",
    )


@dataclass(frozen=True, kw_only=True)
class LevelOptions(FitOptions):
    """Those, and how sure intervals are."""

    level: float | None = option(None, "Confidence level.", default="0.95", group=INTERVALS)


min_battles_option = partial(_of_battles, text="Leave out models with fewer battles.", metavar="N")
_control = partial(
    _daily,
    None,
    "Style columns to control for: `len` reads len_a and len_b. Not for a feature that is part of what makes an "
    "answer good.",
    of="bt",
    group=METHOD,
    metavar="COLUMN,…",
)


@dataclass(frozen=True, kw_only=True)
class RateOptions(BattleOptions, InputOptions, LevelOptions):
    """Options of `rate`: those of the battles, and those of every method; None is the method's own default."""

    method: Method = _daily(
        "bt", "Bradley–Terry, Elo in order, Elo averaged over shuffles, Glicko-2, or win rates.", group=METHOD
    )
    evaluated: str | None = option(
        None, "The model under test: its entry has source `evaluated`.", group=METHOD, metavar="MODEL"
    )
    anchor: tuple[str, float] | None = _daily(
        None,
        "Pin a model to a rating. Intervals are then those of the difference from it.",
        default="the mean is 1000",
        of="bt",
        group=METHOD,
        metavar="MODEL=RATING",
    )
    control: Sequence[str] | None = _control()
    slot: bool | None = option(
        None, "Fit the advantage of the first side.", "only with style control, on votes", "bt", METHOD
    )
    shrink: bool | None = option(
        None,
        "Pull ratings towards the mean, by as much as the results say: for few battles a model. Intervals are then "
        "not for a model picked because it is extreme.",
        "",
        "bt",
        METHOD,
    )
    only_connected: bool | None = option(None, "Where groups of models never met, rate the largest.", "", "bt", METHOD)
    robustness: bool | None = option(
        None, "For each neighbouring pair, find how few battles would have to go for the two to swap.", "", "bt", METHOD
    )
    misfit: bool | None = option(
        None, "Check how well the model describes the battles; reads their times.", "yes", "bt", METHOD
    )
    ci: Interval | Literal["sampling"] | None = option(
        None,
        "How intervals are made. They hold if results did not decide who met whom.",
        "sandwich; elo-perm: sampling",
        "bt, elo-perm",
        INTERVALS,
    )
    rounds: int | None = option(None, "Bootstrap rounds; only with ci bootstrap.", "1000", "bt", INTERVALS)
    anytime: bool | None = option(
        None, "Ranges of places that hold however often you look while battles come in; wider.", "", "bt", INTERVALS
    )
    seed: int | None = option(
        None,
        "Seed of all that is drawn: bootstrap rounds, shuffles, signs in the check of the fit, and standard errors "
        "above 2,000 models. Where none of these is, no seed changes anything.",
        "0",
        "bt, elo-perm",
        INTERVALS,
    )
    k: float | None = option(None, "Points at stake in a battle.", "16", "elo, elo-perm", ELO)
    initial_rating: float | None = option(None, "Where every model starts.", "1400", "elo, elo-perm", ELO)
    n_perms: int | None = option(None, "Shuffles.", "500, fewer above 100,000 battles", "elo-perm", ELO)
    k_sweep: Sequence[float] | None = option(
        None, "Further K, on the same shuffles.", "1,4,8,16,32", "elo-perm", ELO, metavar="K,…"
    )
    min_battles: float = min_battles_option(0)
    people: Any = option(
        None,
        "People's labels on a random draw of the judged matchups: battles, matched by prompt and the two models. "
        "They correct the judge's ratings, and put them on people's scale.",
        of="bt",
        group=METHOD,
        metavar="FILE",
    )


Direction = Literal["lower", "higher"]
"""`lower` or `higher`."""


def directions(scores: Sequence[str] | None) -> dict[str, set[str]]:
    """The columns or metrics that are named, each with what is said of which way is better.

    Only the last part is a direction: a column whose own name is `x:lower` is named `x:lower:higher`.
    """
    said: dict[str, set[str]] = {}
    for text in scores or ():
        name, _, last = text.rpartition(":")
        known = last in get_args(Direction)
        said.setdefault(name if known else text, set()).update([last] if known else [])
    return said


@dataclass(frozen=True, kw_only=True)
class ScoreOptions(Options):
    """How scores are read, where answers have scores and no winner."""

    score: Sequence[str] | None = _daily(
        None,
        "The column of scores, or the metric of a log: any that holds numbers, or true and false. A last `:lower` "
        "or `:higher` says which is better: latency_s:lower.",
        default="score, correct, passed, …, or the only one; higher is better, unless it is called like seconds, "
        "latency, cost or tokens",
        group=SCORES,
        metavar="COLUMN[:lower]",
    )
    bounds: Sequence[float] | None = option(
        None,
        "The lowest and the highest possible score.",
        default="0,1 where every score is 0 or 1; 0,100 of a metric called percent; else unknown",
        group=SCORES,
        metavar="LOW,HIGH",
    )
    scale: Literal["linear", "log"] = option(
        "linear",
        "Compare means, or with log typical ratios: geometric means of scores above 0, and margins such as 1.1x, a "
        "tenth more or less.",
        group=SCORES,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.score, str):
            raise OptionError("score is a list of columns, not one text")
        for name, said in directions(self.score).items():
            if len(said) > 1:
                chosen = [OptionValue("score", [f"{name}:{one}"]) for one in sorted(said, reverse=True)]
                raise OptionError(chosen[0], " and ", chosen[1], " say two things of one metric: leave one out.")
        if self.bounds is not None and (len(self.bounds) != 2 or not self.bounds[0] < self.bounds[1]):
            raise OptionError(
                f"bounds is {','.join(f'{end:g}' for end in self.bounds)}: expected LOW,HIGH, such as 1,5."
            )


_slot = partial(
    option,
    None,
    "Fit the advantage of the first side; without it the order of a row says nothing of who was shown first.",
    default="fit it where sides were uneven",
    group=METHOD,
)


@dataclass(frozen=True, kw_only=True)
class SideOptions(Options):
    """What sides mean."""

    slot: bool | None = _slot()


@dataclass(frozen=True, kw_only=True)
class ScoreBoardOptions(ReadingOptions, ScoreOptions):
    """Options of a board of mean scores."""

    level: float = option(0.95, "Confidence level.", group=INTERVALS)
    cluster: str | None = option(
        None, "A column of prompts that depend on each other.", "each prompt alone", group=INTERVALS, metavar="COLUMN"
    )
    missing: MissingRule = option(
        "worst",
        "Answers that are missing from a board of mean scores: its places and intervals hold whatever they would "
        "have scored; or with ignore, if they are missing by chance.",
        group=SCORES,
    )


@dataclass(frozen=True, kw_only=True)
class VerbOptions(Options):
    """What every verb is handed."""

    notify: Callable[[str], None] | None = option(
        None, "Called with what is worth saying while it works.", in_memory=True
    )

    def note(self, text: str) -> None:
        """Say it to whoever asked for it."""
        if self.notify is not None:
            self.notify(text)


@dataclass(frozen=True, kw_only=True)
class BoardOptions(VerbOptions, RateOptions, ScoreBoardOptions):
    """Options of the verb `rate`: those of boards of ratings, and of boards of mean scores."""

    by: str | None = _daily(
        None,
        "One leaderboard per value of this column; a value that cannot be rated is named and left out.",
        metavar="COLUMN",
    )
    pool: bool = option(
        False,
        "With by: pull each board's ratings towards the model's over all values, by as much as the results say: "
        "for values with few battles.",
        of="bt",
    )
    compare: Any = option(
        None, "Compare with this ratings file: agreement of the orders, and who moved.", metavar="FILE"
    )
    as_battles: bool = option(
        False,
        "Of scores: make battles, in which the higher score wins, and rate these. Right for grades without a unit; "
        "it forgets by how much one is better.",
    )


_battles = partial(
    _daily,
    None,
    "Where the models met: battle files, a run folder, a review, or an arena's database URL; or a file of scores.",
    default="none: what stands first is two runs, files of scores or boards; a plan is made from assumptions",
    flag="--in",
    metavar="PLACE",
)


@dataclass(frozen=True, kw_only=True)
class ComparisonOptions(VerbOptions, BattleOptions, FitOptions, ScoreOptions):
    """What comparing and a gate have in common."""

    battles: Sequence[Any] | Any = _battles()
    picked_from: int | None = option(
        None,
        "How many candidates the new one was picked from because it was the best of them: what is claimed then "
        "holds for the best of so many.",
        default="1, picked for another reason",
        group=INTERVALS,
        metavar="K",
        least=1,
    )
    anytime: bool = option(
        False, "Intervals that hold however often you look while battles come in; wider.", group=INTERVALS
    )
    slot: bool | None = _slot()
    control: Sequence[str] | None = _control()
    anyway: bool = _of_battles(False, "Compare runs of different judges or rubrics too.", daily=True)
    unchanged: Sequence[str] | None = _of_battles(
        None,
        "An entrant that is the same in both runs; changes are measured from these.",
        default="what the run folders say",
        metavar="ENTRANT",
    )
    texts: Mapping[str, str] | None = option(
        None,
        "Texts of prompts by id, shown with the prompts that decide it.",
        default="those of a run folder",
        in_memory=True,
    )


@dataclass(frozen=True, kw_only=True)
class CompareOptions(ComparisonOptions, LevelOptions):
    """Options of `compare`."""

    missing: MissingRule = _of_battles(
        "ignore",
        "Matchups of a run that have no verdict, and answers without a score: left out; or with worst, what is "
        "claimed holds however they would have been decided.",
    )
    by: Sequence[str] | None = _of_battles(
        None, "Also by the values of this column.", default="dimension and category", metavar="COLUMN", daily=True
    )


@dataclass(frozen=True, kw_only=True)
class GateRule(Options):
    """The rule of a gate over a difference."""

    margin: str | float | None = _daily(
        None,
        "By how much the new one may be worse: rating points (30 is about 54 : 46), 2pp of shares, or a number in "
        "the unit of the scores, with scale log 1.1x.",
        default="30, or 2pp",
        metavar="N",
    )
    alpha: float = _daily(0.05, "Error rate: how often equal models may be called better or worse.")
    by: str | None = _daily(None, "Judge each value of this column too: one that is worse fails.", metavar="COLUMN")
    missing: MissingRule = _of_battles(
        "worst",
        "Matchups of a run that have no verdict, and answers without a score: with worst the verdict holds however "
        "they would have been decided, or it is `unknown`; with ignore they are left out.",
        daily=True,
    )
    pool_dimensions: bool = _daily(
        False,
        "One verdict on all dimensions together; otherwise each has its own where there are several, and one that "
        "is worse fails.",
    )


@dataclass(frozen=True, kw_only=True)
class GateOptions(ComparisonOptions, GateRule):
    """Options of `gate`."""

    model: str | None = option(
        None, "Which entrant, where two runs are compared.", default="the one with new answers", metavar="ENTRANT"
    )


@dataclass(frozen=True, kw_only=True)
class GoalOptions(Options):
    """What a plan is to show, and how surely."""

    power: float = option(0.8, "The chance of the wanted verdict, if the difference is as assumed.", group=GOAL)
    alpha: float = option(0.05, "The error rate: how often equal models may be called different.", group=GOAL)
    one_sided: bool = option(False, "Look for `better` only. (--margin is one-sided anyway)", group=GOAL)
    margin: str | float | None = option(
        None,
        "Plan for a gate: the new model is to pass as not worse by more than this: points, 2pp of shares, or a "
        "number in the unit of the scores.",
        group=GOAL,
        metavar="N",
    )
    anytime: bool = option(False, "Plan for intervals that hold however often you look; more data.", group=GOAL)


@dataclass(frozen=True, kw_only=True)
class AssumedOptions(Options):
    """What is assumed where there are no battles."""

    people: bool = option(False, "People vote; no judge is asked.", group=ASSUMED)
    tie_rate: float | None = option(None, "Share of battles that equal models tie.", "0.15", group=ASSUMED)
    flip_rate: float | None = option(
        None,
        "Share of verdicts that change with the order of the answers, and become ties.",
        "0.15; people: none",
        group=ASSUMED,
    )
    spread: float | None = option(
        None,
        "How much a model's strength varies from prompt to prompt: standard deviation in logits.",
        "1",
        group=ASSUMED,
    )
    repeats: int | None = option(
        None, "Verdicts of each pair on each prompt, or votes of each voter on it.", "1", group=ASSUMED
    )
    models: int | None = option(None, "Models that all meet each other on every prompt.", "2", group=ASSUMED)


@dataclass(frozen=True, kw_only=True)
class PriceOptions(Options):
    """What a call of the judge costs."""

    judge: str | None = option(None, "The judge, for its price.", "that of the run folder", group=PRICE)
    prompt_tokens: int | None = option(None, "Tokens of a prompt.", "150", group=PRICE)
    answer_tokens: int | None = option(None, "Tokens of one answer; a call has two.", "400", group=PRICE)
    rubric_tokens: int | None = option(None, "Tokens of the rubric.", "500", group=PRICE)
    reply_tokens: int | None = option(
        None, "Tokens of the judge's reply.", "250; a run folder knows all four", group=PRICE
    )
    prices: Path | None = option(
        None, "A price file (JSON or YAML) that adds models to those whose price is known.", metavar="FILE"
    )


@dataclass(frozen=True, kw_only=True)
class PlanOptions(
    VerbOptions, GoalOptions, BattleOptions, FitOptions, SideOptions, ScoreOptions, AssumedOptions, PriceOptions
):
    """Options of `plan`."""

    battles: Sequence[Any] | Any = _battles()
    top: int | None = _daily(None, "How many more battles it takes to separate this many models at the top.")
    differences: Sequence[str | float] | None = _daily(
        None,
        "A true difference in rating points, 2pp of shares, or a number in the unit of the scores.",
        default="5, 10, 20, 50; 1pp to 10pp; 0 with a margin",
        flag="--difference",
        metavar="N",
    )
    prompts: Sequence[int] = option((), "Also say which difference this many prompts (or voters) show.", metavar="N")


class ProgressListener:
    """Is told how far a verb is that asks models: a subclass overrides what it wants to hear."""

    def begin(self, folder: Path) -> None:
        """What is asked from now on belongs to this folder: an interrupted run goes on in it."""

    def watch(self, step: Any) -> None:
        """Some questions were answered from a cache, sent, answered, or failed."""

    def verdict(self, matchup: Any, verdict: Any) -> None:
        """A judge's verdict on a matchup is there."""


NOBODY = ProgressListener()


@dataclass(frozen=True, kw_only=True)
class AskingOptions(VerbOptions):
    """What a verb is handed that asks models."""

    confirm: Callable[[str], None] | None = option(
        None, "Called with a question before models are asked, which costs money; raises to stop.", in_memory=True
    )
    progress: ProgressListener = option(NOBODY, "Is told how far it is.", in_memory=True)

    def agree(self, question: str) -> None:
        """Have somebody agree to it, if anybody is to be asked."""
        if self.confirm is not None:
            self.confirm(question)


explains()(InputOptions)


_budget_usd = partial(_daily, None, "Stop before this many USD are spent.", flag="--budget", least=0)


@dataclass(frozen=True, kw_only=True)
class InitOptions(VerbOptions):
    """Options of `init`."""

    answers: Sequence[str] = _daily(
        (),
        "Answers: .jsonl, .json, .csv, or a folder with one file per prompt; NAME=FILE names the model.",
        metavar="FILE",
    )
    prompts: Path | None = _daily(None, "The prompts, if the answer files do not hold them.")
    map: Mapping[str, str] | None = _daily(
        None,
        "Which column holds what: id, prompt, model, answer, gold, expected, source, subject.",
        metavar="FIELD=COLUMN",
    )
    judge: str | None = _daily(None, "Who judges: claude-…, gpt-…, local/…, provider/model.", metavar="NAME")
    base_url: str | None = _daily(None, "Address of a local/… judge's server.")
    rubric: Path | None = _daily(None, "Your rubric, in place of a general one.")
    arena: bool = _daily(False, "Make the start of a live arena instead.")
    choose: Callable[[str, Sequence[str]], str | None] | None = option(
        None, "Asks a person a question with its usual answers; None makes what is missing an error.", in_memory=True
    )


@dataclass(frozen=True, kw_only=True)
class PublishOptions(VerbOptions, ReadingOptions):
    """Options of `publish`."""

    title: str | None = _daily(None, "What the site is called.", "the name of the source")
    url: str = _daily("", "Where the folder will be served (https://…), for shared pictures, feed and commands.")
    texts: bool = _daily(False, "Publish the texts of prompts too, where the source allows it.")
    ties: Ties = _daily("davidson", "How ties are read.")
    anchor: tuple[str, float] | None = _daily(
        None, "Pin a model to a rating.", "the mean is 1000", metavar="MODEL=RATING"
    )
    min_battles: float = min_battles_option(0.0)
    only_connected: bool = option(False, "Where groups of models never met, publish the largest.")
    pictures: bool | None = option(
        None, "Whether pictures to share are drawn.", "where the address is known and Pillow is there", in_memory=True
    )


@dataclass(frozen=True, kw_only=True)
class VerifyOptions(VerbOptions):
    """Options of `verify`: what a reader kept of what is checked, somewhere else."""

    head: Sequence[str] | None = _daily(None, "A head that was kept, or a file of heads.", metavar="HASH@N|@FILE")
    key: Sequence[str] | None = _daily(None, "Heads must be signed by this public key.", metavar="KEY|@FILE")
    receipt: Sequence[str] | None = _daily(
        None, "Your own vote: it must be there, and be your choice.", metavar="ID[=CHOICE]"
    )
    fingerprint: str | None = _daily(
        None, "The fingerprint of a published folder that you kept: it must be the same.", metavar="SHA256"
    )
    besides: Sequence[str] | None = _daily(
        None, "A file in the folder that is the host's, such as CNAME, or a folder of such.", metavar="PATH"
    )


@explains()
@dataclass(frozen=True, kw_only=True)
class RunOptions(Options):
    """What one run of a tournament changes; None keeps the config's value."""

    mode: Literal["pilot", "headline"] = _daily(
        "headline", "A stratified subset judged by the pilot model, or the whole bank by the headline model."
    )
    output_dir: Path | None = _daily(None, "Folder of the run.", "runs/<mode>_<UTC time>", metavar="DIR")
    judge_model: Sequence[str] | str | None = _daily(None, "Another judge than the config's; several are a panel.")
    skip_judging: bool = _daily(False, "Ask nothing; rate what the cache already holds.")
    labels_path: Path | None = _daily(
        None,
        "People's labels on some matchups (battles, or a filled-in label sheet) correct the boards.",
        flag="--calibrate",
    )
    until: str | None = _daily(
        None,
        "Judge in adaptive rounds until this is known: top, order, width:POINTS, budget or budget:CALLS; all "
        "judges everything.",
        default="the config's rounds.until, or all",
        metavar="GOAL",
    )
    budget_usd: float | None = _budget_usd()
    combine: Literal["majority", "weight", "rows"] | None = option(
        None, "How the votes of a panel become battles.", default="the config's, majority"
    )
    repeats: int | None = option(None, "How many times every question is asked.", default="the config's, 1", least=1)
    n_perms: int | None = option(None, "Shuffles of permutation Elo.", least=2)
    limit_pairs: int | None = option(
        None, "Only N pairs of each dimension: prompt by prompt, all pairs of each.", least=1
    )
    retry_failed: bool = option(False, "Ask again what failed for good in an earlier run.")
    max_batch: int | None = option(None, "Requests per batch.", least=1)

    @property
    def judges(self) -> Sequence[str]:
        """The judges that are named."""
        return (self.judge_model,) if isinstance(self.judge_model, str) else self.judge_model or ()


@dataclass(frozen=True, kw_only=True)
class ServerOptions(AskingOptions):
    """How models are asked where no tournament file says it."""

    budget_usd: float | None = _budget_usd()
    prices: Path | None = option(None, "A price file (JSON or YAML) that adds models to those whose price is known.")
    header: Sequence[str] | None = option(
        None,
        "A further header for the judge's server, such as a gateway; ${NAME} in it is that variable of the "
        "environment or of .env.",
        metavar="'NAME: VALUE'",
    )
    timeout_seconds: float | None = option(None, "How long one request may take in all.", "600")
    requests_per_minute: float | None = option(None, "Direct calls per minute, at most.")
    tokens_per_minute: float | None = option(None, "Tokens of direct calls and their replies per minute, at most.")


@dataclass(frozen=True, kw_only=True)
class JudgeCheckOptions(ServerOptions):
    """Options of `judge_check`."""

    judge_model: Sequence[str] = field(
        metadata=about(
            "The judge: anthropic/…, openai/…, gemini/…, ollama/…, local/…, scripted/FILE or recorded/FILE; or each "
            "judge of a panel.",
            daily=True,
        )
    )
    rubric: Path | None = _daily(None, "The rubric it judges by.", "a general one")
    cache_dir: Path = _daily(Path("judgments"), "Where verdicts are kept between runs.", metavar="PATH")
    base_url: str | None = option(None, "Address of a compatible server, for local/…, vllm/… and others of one's own.")
    reply: Literal["reasoned", "label", "choice", "json", "tool"] = _daily(
        "reasoned",
        "Ask for a comparison, for one word, for a letter (a multiple choice, for small judges), for a JSON "
        "object, or for a tool call.",
    )
    grades: bool = option(False, "Ask by how much an answer is better: A>>B, A>B, A=B, B>A or B>>A.")
    min_choice_mass: float = option(
        0.5, "Minimum total probability of the allowed words, if the server gives probabilities."
    )
    single_order: bool = option(False, "Accept a recording of one order only; there is then no flip rate.")
    own: str | None = option(None, "The entrant that is the judge itself, for self-preference.", "by its name")


@dataclass(frozen=True, kw_only=True)
class RejudgeOptions(AskingOptions):
    """Options of `rejudge`."""

    judge_model: Sequence[str] = field(metadata=about("The other judge; several are a panel.", daily=True))
    out: Path | None = _daily(None, "Folder of the new run.", "RUN_DIR/rejudged/<judge>", metavar="PATH")
    budget_usd: float | None = _budget_usd()


@dataclass(frozen=True, kw_only=True)
class GenerateOptions(AskingOptions):
    """Options of `generate`."""

    entrant: Sequence[str] | None = _daily(None, "Only this entrant.", metavar="TEXT")
    budget_usd: float | None = _budget_usd()


@dataclass(frozen=True, kw_only=True)
class TournamentOptions(AskingOptions, RunOptions):
    """Options of the verb `run`."""

    dry_run: bool = _daily(False, "Only say what would be asked and what that costs; needs no key.")
    judge: Callable[..., Any] | None = option(
        None,
        "Who judges instead of the config's judge: `async def judge(question)` that returns `A`, `B`, `TIE` or a "
        "score, or `question.verdict(…)`. What it raises before its first answer ends the run; later it is a "
        "failed verdict, not a tie.",
        in_memory=True,
    )


@explains()
@dataclass(frozen=True, kw_only=True)
class PlaceOptions(Options):
    """The settings of one placement."""

    arena: Sequence[Path] = field(
        metadata=about("Human battles with conversations (Parquet, JSONL, CSV).", metavar="FILE", daily=True)
    )
    model: str = field(
        metadata=about("The new model: provider/model, or a file of its answers (prompt_id = question_id).", daily=True)
    )
    judge: str = field(
        metadata=about(
            "The judge: anthropic/…, openai/…, gemini/…, ollama/…, local/…, scripted/FILE or recorded/FILE.", daily=True
        )
    )
    name: str | None = option(None, "The new model's name on the board.", default="as the model says")
    n_battles: int = _daily(100, "Battles to judge at most.", least=1)
    bootstraps: int = option(1000, "Bootstrap rounds over prompts; 0 means sandwich intervals.", least=0)
    seed: int = option(0, "Seed of sampling, sides and bootstrap.", least=0)
    languages: Sequence[str] = option((), "Only battles in these languages (en,fr).", metavar="LANGUAGE,…")
    per_language: int | None = option(None, "At most N judged battles per language.", least=1)
    min_opponent_battles: int = option(500, "Human battles that an opponent must have.", least=1)
    rubric: Path | None = _daily(None, "The rubric to judge by.", default="a general one")
    sampling: Literal["informative", "random", "head"] = option(
        "informative", "How opponents and questions are chosen; informative shrinks the interval fastest."
    )
    panel: Path | None = option(None, "Judge exactly the battles of an earlier run's panel.json.")
    until: str | None = _daily(
        None, "Stop when the interval is this narrow in points (80), or in places (rank:5).", metavar="WIDTH"
    )
    looks: int = option(5, "Rounds: after each, opponents are chosen again and the run may stop.", least=1)
    turns: Literal["first", "all"] = option("first", "The first turn of a conversation, or all of it.")
    swap: Literal["both", "random"] = option("both", "Judge both orders, or one at random.")
    calibrate: int = _daily(
        0, "Ask the judge about N battles that people decided, and widen the interval by what it shows.", least=0
    )
    families: Path | None = option(
        None,
        "Families of the models (CSV model,family or JSON): checks the calibration on each as if it were unseen.",
        default="the maker in names like maker/model",
    )
    fixed_anchors: bool = option(False, "Hold people's ratings fixed; fit only the new model.")
    leave_one_out: bool = option(False, "Place a model of the arena by the judge alone, and compare with people.")
    anchor: tuple[str, float] | None = option(None, "Pin a model of the arena to a rating.", metavar="MODEL=RATING")
    inline_human: bool = option(True, "Save human battles one by one, not as counts by pair.", default="yes")
    prompts: Path | None = option(
        None, "Prompt bank with the texts of the questions, for battles without conversations."
    )
    answers: Path | None = option(None, "Opponents' answers: a response file, or a folder of responses_<model>.jsonl.")
    on_bad: OnBad = option("error", "Stop at a bad row of the arena, or skip and count it.")
    map: Mapping[str, str] | None = option(
        None,
        "A column of the arena under another name (winner=choice, prompt=question, conversation_a=left).",
        metavar="OURS=THEIRS",
    )
    out: Path = _daily(Path("placements"), "Where the folder of the run goes.", metavar="DIR")
    cache_dir: Path = option(Path("judgments"), "Where verdicts and answers are kept between runs.", metavar="DIR")
    base_url: str | None = option(None, "Address of the judge's server, for local/…, vllm/… and others of one's own.")
    model_base_url: str | None = option(
        None,
        "Address of the new model's server.",
        default="for local/… and the judge's kind of server, that of the judge",
    )
    max_tokens: int = option(1024, "How long an answer of the new model may be.", least=1)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.fixed_anchors and self.calibrate:
            fixed = OptionValue("fixed_anchors", None)
            raise OptionError("a calibration holds people's ratings fixed already: leave ", fixed, " out.")
        if self.families is not None and not self.calibrate:
            families, calibrate = OptionValue("families", None), OptionValue("calibrate", None)
            raise OptionError(families, " check a calibration, and there is none. Add ", calibrate, ", such as 300.")
        if self.panel is not None and self.per_language is not None:
            limit = OptionValue("per_language", None)
            raise OptionError("a saved panel says which battles are judged: leave ", limit, " out.")
        if self.bootstraps == 1:
            raise OptionError("1 bootstrap round says nothing about spread. Take at least 2, better 1000, or 0.")
        if self.anchor is not None and self.anchor[0] == self.name:
            raise OptionError("the new model cannot be the anchor: its rating is what is asked. Pin another model.")


@dataclass(frozen=True, kw_only=True)
class PlacementOptions(ServerOptions, PlaceOptions):
    """Options of the verb `place`."""

    batch: bool = option(False, "Ask in batches at half price, however few the questions are.")
    dry_run: bool = _daily(False, "Say what would be asked and what it would cost; ask nothing.")
