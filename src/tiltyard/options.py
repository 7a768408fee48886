"""Every option once: its name, type, default and meaning.

A function takes the fields of a struct as keyword arguments (`accepts_options`). Command-line options, the arguments of
agents' tools and the reference pages are made from the same fields, so a new option is a new field here and the place
that uses it.
"""

import inspect
import textwrap
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from functools import cache, partial, wraps
from pathlib import Path
from typing import (
    Annotated,
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
    group: str = BATTLES
    flag: str = ""
    """Its name on the command line, where that is another."""
    metavar: str = ""
    daily: bool = False
    """Whether `--help` shows it; `--help-all` shows every option."""
    least: int | None = None
    """The smallest number that it may be."""
    in_memory: bool = False
    """Whether only functions have it: no word on a command line is such a value."""


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
        types = get_type_hints(kind, include_extras=True)
        for field in fields(kind):
            inner, *more = get_args(types[field.name]) if hasattr(types[field.name], "__metadata__") else (None,)
            text = next((one for one in more if isinstance(one, Help)), None)
            if text is not None:
                default = None if field.default is MISSING else field.default
                options.setdefault(field.name, Option(field.name, inner, default, text))
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

    format: Annotated[
        str,
        Help(
            "Format of the battles: auto, tiltyard, lmarena, comparia, evalica, alpaca_eval, judgearena, arena-hard, "
            "winner-loser; logs of inspect, promptfoo, lm-eval, mt-bench, verdicts, deepeval, langfuse, "
            "phoenix, otel, open-webui; or the name of a reader that plugs in.",
            flag="--from",
            metavar="FORMAT",
            daily=True,
        ),
    ] = "auto"
    map: Annotated[
        Mapping[str, str] | None,
        Help(
            "A column under another name, ours first: winner=choice, prompt=question; or what a word in the winner's "
            "column means: winner:0=model_b.",
            metavar="OURS=THEIRS",
            daily=True,
        ),
    ] = None
    where: Annotated[
        str | None, Help("Only rows that satisfy this SQL expression over the file's own columns.", metavar="SQL")
    ] = None
    default_source: Annotated[Decider | None, Help("Who decided where a row does not say.")] = None
    on_bad: Annotated[OnBad, Help("Stop at the first bad row, or skip and count bad rows.", daily=True)] = "error"
    tie_band: Annotated[
        float | None, Help("For logs with scores: a tie is a difference of scores that is not larger.", default="0")
    ] = None


@dataclass(frozen=True, kw_only=True)
class InputOptions(ReadingOptions):
    """How battles are read, and by what."""

    engine: Annotated[
        Engine,
        Help("What counts the battles: DuckDB here, or Spark where they are (s3a://, hdfs://, …).", of="bt, winrate"),
    ] = "duckdb"


@dataclass(frozen=True, kw_only=True)
class SelectionOptions(Options):
    """Which battles count."""

    source: Annotated[Decider | None, Help("Only battles decided by people, or by a judge.")] = None
    dimension: Annotated[str | None, Help("Only battles of this dimension.", metavar="NAME", daily=True)] = None
    both_bad: Annotated[
        BothBad, Help("Battles in which both answers were bad: counted beside the rating, rated as ties, or left out.")
    ] = "separate"
    inconsistent: Annotated[Inconsistent, Help("Judgments whose two orders disagreed: rated as ties, or left out.")] = (
        "tie"
    )


@dataclass(frozen=True, kw_only=True)
class BattleOptions(ReadingOptions, SelectionOptions):
    """How battles are read, and which of them count."""


@dataclass(frozen=True, kw_only=True)
class FitOptions(Options):
    """How ties are read, and what makes battles dependent."""

    ties: Annotated[
        Ties | None,
        Help("How ties are read: by one of two models of ties, as half a win, or left out.", "davidson", "bt", METHOD),
    ] = None
    cluster: Annotated[
        str | None,
        Help(
            "What makes battles dependent: prompt, voter, `prompt,voter`, other columns by name, or none.",
            default="each of prompt and voter that is known",
            group=INTERVALS,
            metavar="COLUMNS",
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class LevelOptions(FitOptions):
    """Those, and how sure intervals are."""

    level: Annotated[float | None, Help("Confidence level.", default="0.95", group=INTERVALS)] = None


MinBattles = Annotated[float, Help("Leave out models with fewer battles.", metavar="N")]
Control = Annotated[
    Sequence[str] | None,
    Help(
        "Style columns to control for: `len` reads len_a and len_b. Not for a feature that is part of what makes an "
        "answer good.",
        of="bt",
        group=METHOD,
        metavar="COLUMN,…",
        daily=True,
    ),
]


@dataclass(frozen=True, kw_only=True)
class RateOptions(BattleOptions, InputOptions, LevelOptions):
    """Options of `rate`: those of the battles, and those of every method; None is the method's own default."""

    method: Annotated[
        Method,
        Help(
            "Bradley–Terry, Elo in order, Elo averaged over shuffles, Glicko-2, or win rates.", group=METHOD, daily=True
        ),
    ] = "bt"
    evaluated: Annotated[
        str | None, Help("The model under test: its entry has source `evaluated`.", group=METHOD, metavar="MODEL")
    ] = None
    anchor: Annotated[
        tuple[str, float] | None,
        Help(
            "Pin a model to a rating. Intervals are then those of the difference from it.",
            default="the mean is 1000",
            of="bt",
            group=METHOD,
            metavar="MODEL=RATING",
            daily=True,
        ),
    ] = None
    control: Control = None
    slot: Annotated[
        bool | None, Help("Fit the advantage of the first side.", "only with style control, on votes", "bt", METHOD)
    ] = None
    shrink: Annotated[
        bool | None,
        Help(
            "Pull ratings towards the mean, by as much as the results say: for few battles a model. Intervals are then "
            "not for a model picked because it is extreme.",
            "",
            "bt",
            METHOD,
        ),
    ] = None
    only_connected: Annotated[
        bool | None, Help("Where groups of models never met, rate the largest.", "", "bt", METHOD)
    ] = None
    robustness: Annotated[
        bool | None,
        Help(
            "For each neighbouring pair, find how few battles would have to go for the two to swap.", "", "bt", METHOD
        ),
    ] = None
    misfit: Annotated[
        bool | None, Help("Check how well the model describes the battles; reads their times.", "yes", "bt", METHOD)
    ] = None
    ci: Annotated[
        Interval | Literal["sampling"] | None,
        Help(
            "How intervals are made. They hold if results did not decide who met whom.",
            "sandwich; elo-perm: sampling",
            "bt, elo-perm",
            INTERVALS,
        ),
    ] = None
    rounds: Annotated[int | None, Help("Bootstrap rounds; only with ci bootstrap.", "1000", "bt", INTERVALS)] = None
    anytime: Annotated[
        bool | None,
        Help("Ranges of places that hold however often you look while battles come in; wider.", "", "bt", INTERVALS),
    ] = None
    seed: Annotated[
        int | None,
        Help(
            "Seed of all that is drawn: bootstrap rounds, shuffles, signs in the check of the fit, and standard errors "
            "above 2,000 models. Where none of these is, no seed changes anything.",
            "0",
            "bt, elo-perm",
            INTERVALS,
        ),
    ] = None
    k: Annotated[float | None, Help("Points at stake in a battle.", "16", "elo, elo-perm", ELO)] = None
    initial_rating: Annotated[float | None, Help("Where every model starts.", "1400", "elo, elo-perm", ELO)] = None
    n_perms: Annotated[int | None, Help("Shuffles.", "500, fewer above 100,000 battles", "elo-perm", ELO)] = None
    k_sweep: Annotated[
        Sequence[float] | None, Help("Further K, on the same shuffles.", "1,4,8,16,32", "elo-perm", ELO, metavar="K,…")
    ] = None
    min_battles: MinBattles = 0
    people: Annotated[
        Any,
        Help(
            "People's labels on a random draw of the judged matchups: battles, matched by prompt and the two models. "
            "They correct the judge's ratings, and put them on people's scale.",
            of="bt",
            group=METHOD,
            metavar="FILE",
        ),
    ] = None


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

    score: Annotated[
        Sequence[str] | None,
        Help(
            "The column of scores, or the metric of a log: any that holds numbers, or true and false. A last `:lower` "
            "or `:higher` says which is better: latency_s:lower.",
            default="score, correct, passed, …, or the only one; higher is better, unless it is called like seconds, "
            "latency, cost or tokens",
            group=SCORES,
            metavar="COLUMN[:lower]",
            daily=True,
        ),
    ] = None
    bounds: Annotated[
        Sequence[float] | None,
        Help(
            "The lowest and the highest possible score.",
            default="0,1 where every score is 0 or 1; 0,100 of a metric called percent; else unknown",
            group=SCORES,
            metavar="LOW,HIGH",
        ),
    ] = None
    scale: Annotated[
        Literal["linear", "log"],
        Help(
            "Compare means, or with log typical ratios: geometric means of scores above 0, and margins such as 1.1x, a "
            "tenth more or less.",
            group=SCORES,
        ),
    ] = "linear"

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


Slot = Annotated[
    bool | None,
    Help(
        "Fit the advantage of the first side; without it the order of a row says nothing of who was shown first.",
        default="fit it where sides were uneven",
        group=METHOD,
    ),
]


@dataclass(frozen=True, kw_only=True)
class SideOptions(Options):
    """What sides mean."""

    slot: Slot = None


@dataclass(frozen=True, kw_only=True)
class ScoreBoardOptions(ReadingOptions, ScoreOptions):
    """Options of a board of mean scores."""

    level: Annotated[float, Help("Confidence level.", group=INTERVALS)] = 0.95
    cluster: Annotated[
        str | None,
        Help("A column of prompts that depend on each other.", "each prompt alone", group=INTERVALS, metavar="COLUMN"),
    ] = None
    missing: Annotated[
        MissingRule,
        Help(
            "Answers that are missing from a board of mean scores: its places and intervals hold whatever they would "
            "have scored; or with ignore, if they are missing by chance.",
            group=SCORES,
        ),
    ] = "worst"


@dataclass(frozen=True, kw_only=True)
class VerbOptions(Options):
    """What every verb is handed."""

    notify: Annotated[
        Callable[[str], None] | None, Help("Called with what is worth saying while it works.", in_memory=True)
    ] = None

    def note(self, text: str) -> None:
        """Say it to whoever asked for it."""
        if self.notify is not None:
            self.notify(text)


@dataclass(frozen=True, kw_only=True)
class BoardOptions(VerbOptions, RateOptions, ScoreBoardOptions):
    """Options of the verb `rate`: those of boards of ratings, and of boards of mean scores."""

    by: Annotated[
        str | None,
        Help(
            "One leaderboard per value of this column; a value that cannot be rated is named and left out.",
            group=OTHER,
            metavar="COLUMN",
            daily=True,
        ),
    ] = None
    pool: Annotated[
        bool,
        Help(
            "With by: pull each board's ratings towards the model's over all values, by as much as the results say: "
            "for values with few battles.",
            of="bt",
            group=OTHER,
        ),
    ] = False
    compare: Annotated[
        Any,
        Help("Compare with this ratings file: agreement of the orders, and who moved.", group=OTHER, metavar="FILE"),
    ] = None
    as_battles: Annotated[
        bool,
        Help(
            "Of scores: make battles, in which the higher score wins, and rate these. Right for grades without a unit; "
            "it forgets by how much one is better.",
            group=OTHER,
        ),
    ] = False


Battles = Annotated[
    Sequence[Any] | Any,
    Help(
        "Where the models met: battle files, a run folder, a review, or an arena's database URL; or a file of scores.",
        default="none: what stands first is two runs, files of scores or boards; a plan is made from assumptions",
        group=OTHER,
        flag="--in",
        metavar="PLACE",
        daily=True,
    ),
]


@dataclass(frozen=True, kw_only=True)
class ComparisonOptions(VerbOptions, BattleOptions, FitOptions, ScoreOptions):
    """What comparing and a gate have in common."""

    battles: Battles = None
    picked_from: Annotated[
        int | None,
        Help(
            "How many candidates the new one was picked from because it was the best of them: what is claimed then "
            "holds for the best of so many.",
            default="1, picked for another reason",
            group=INTERVALS,
            metavar="K",
            least=1,
        ),
    ] = None
    anytime: Annotated[
        bool, Help("Intervals that hold however often you look while battles come in; wider.", group=INTERVALS)
    ] = False
    slot: Slot = None
    control: Control = None
    anyway: Annotated[bool, Help("Compare runs of different judges or rubrics too.", daily=True)] = False
    unchanged: Annotated[
        Sequence[str] | None,
        Help(
            "An entrant that is the same in both runs; changes are measured from these.",
            default="what the run folders say",
            metavar="ENTRANT",
        ),
    ] = None
    texts: Annotated[
        Mapping[str, str] | None,
        Help(
            "Texts of prompts by id, shown with the prompts that decide it.",
            default="those of a run folder",
            in_memory=True,
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class CompareOptions(ComparisonOptions, LevelOptions):
    """Options of `compare`."""

    missing: Annotated[
        MissingRule,
        Help(
            "Matchups of a run that have no verdict, and answers without a score: left out; or with worst, what is "
            "claimed holds however they would have been decided."
        ),
    ] = "ignore"
    by: Annotated[
        Sequence[str] | None,
        Help("Also by the values of this column.", default="dimension and category", metavar="COLUMN", daily=True),
    ] = None


@dataclass(frozen=True, kw_only=True)
class GateRule(Options):
    """The rule of a gate over a difference."""

    margin: Annotated[
        str | float | None,
        Help(
            "By how much the new one may be worse: rating points (30 is about 54 : 46), 2pp of shares, or a number in "
            "the unit of the scores, with scale log 1.1x.",
            default="30, or 2pp",
            group=OTHER,
            metavar="N",
            daily=True,
        ),
    ] = None
    alpha: Annotated[
        float, Help("Error rate: how often equal models may be called better or worse.", group=OTHER, daily=True)
    ] = 0.05
    by: Annotated[
        str | None,
        Help(
            "Judge each value of this column too: one that is worse fails.", group=OTHER, metavar="COLUMN", daily=True
        ),
    ] = None
    missing: Annotated[
        MissingRule,
        Help(
            "Matchups of a run that have no verdict, and answers without a score: with worst the verdict holds however "
            "they would have been decided, or it is `unknown`; with ignore they are left out.",
            daily=True,
        ),
    ] = "worst"
    pool_dimensions: Annotated[
        bool,
        Help(
            "One verdict on all dimensions together; otherwise each has its own where there are several, and one that "
            "is worse fails.",
            group=OTHER,
            daily=True,
        ),
    ] = False


@dataclass(frozen=True, kw_only=True)
class GateOptions(ComparisonOptions, GateRule):
    """Options of `gate`."""

    model: Annotated[
        str | None,
        Help(
            "Which entrant, where two runs are compared.",
            default="the one with new answers",
            group=OTHER,
            metavar="ENTRANT",
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class GoalOptions(Options):
    """What a plan is to show, and how surely."""

    power: Annotated[float, Help("The chance of the wanted verdict, if the difference is as assumed.", group=GOAL)] = (
        0.8
    )
    alpha: Annotated[float, Help("The error rate: how often equal models may be called different.", group=GOAL)] = 0.05
    one_sided: Annotated[bool, Help("Look for `better` only. (--margin is one-sided anyway)", group=GOAL)] = False
    margin: Annotated[
        str | float | None,
        Help(
            "Plan for a gate: the new model is to pass as not worse by more than this: points, 2pp of shares, or a "
            "number in the unit of the scores.",
            group=GOAL,
            metavar="N",
        ),
    ] = None
    anytime: Annotated[bool, Help("Plan for intervals that hold however often you look; more data.", group=GOAL)] = (
        False
    )


@dataclass(frozen=True, kw_only=True)
class AssumedOptions(Options):
    """What is assumed where there are no battles."""

    people: Annotated[bool, Help("People vote; no judge is asked.", group=ASSUMED)] = False
    tie_rate: Annotated[float | None, Help("Share of battles that equal models tie.", "0.15", group=ASSUMED)] = None
    flip_rate: Annotated[
        float | None,
        Help(
            "Share of verdicts that change with the order of the answers, and become ties.",
            "0.15; people: none",
            group=ASSUMED,
        ),
    ] = None
    spread: Annotated[
        float | None,
        Help(
            "How much a model's strength varies from prompt to prompt: standard deviation in logits.",
            "1",
            group=ASSUMED,
        ),
    ] = None
    repeats: Annotated[
        int | None, Help("Verdicts of each pair on each prompt, or votes of each voter on it.", "1", group=ASSUMED)
    ] = None
    models: Annotated[int | None, Help("Models that all meet each other on every prompt.", "2", group=ASSUMED)] = None


@dataclass(frozen=True, kw_only=True)
class PriceOptions(Options):
    """What a call of the judge costs."""

    judge: Annotated[str | None, Help("The judge, for its price.", "that of the run folder", group=PRICE)] = None
    prompt_tokens: Annotated[int | None, Help("Tokens of a prompt.", "150", group=PRICE)] = None
    answer_tokens: Annotated[int | None, Help("Tokens of one answer; a call has two.", "400", group=PRICE)] = None
    rubric_tokens: Annotated[int | None, Help("Tokens of the rubric.", "500", group=PRICE)] = None
    reply_tokens: Annotated[
        int | None, Help("Tokens of the judge's reply.", "250; a run folder knows all four", group=PRICE)
    ] = None
    prices: Annotated[
        Path | None,
        Help(
            "A price file (JSON or YAML) that adds models to those whose price is known.", group=OTHER, metavar="FILE"
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class PlanOptions(
    VerbOptions, GoalOptions, BattleOptions, FitOptions, SideOptions, ScoreOptions, AssumedOptions, PriceOptions
):
    """Options of `plan`."""

    battles: Battles = None
    top: Annotated[
        int | None,
        Help("How many more battles it takes to separate this many models at the top.", group=OTHER, daily=True),
    ] = None
    differences: Annotated[
        Sequence[str | float] | None,
        Help(
            "A true difference in rating points, 2pp of shares, or a number in the unit of the scores.",
            default="5, 10, 20, 50; 1pp to 10pp; 0 with a margin",
            group=OTHER,
            flag="--difference",
            metavar="N",
            daily=True,
        ),
    ] = None
    prompts: Annotated[
        Sequence[int], Help("Also say which difference this many prompts (or voters) show.", group=OTHER, metavar="N")
    ] = ()


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

    confirm: Annotated[
        Callable[[str], None] | None,
        Help("Called with a question before models are asked, which costs money; raises to stop.", in_memory=True),
    ] = None
    progress: Annotated[ProgressListener, Help("Is told how far it is.", in_memory=True)] = NOBODY

    def agree(self, question: str) -> None:
        """Have somebody agree to it, if anybody is to be asked."""
        if self.confirm is not None:
            self.confirm(question)


explains()(InputOptions)


_help = partial(Help, group=OTHER)
_daily = partial(_help, daily=True)
BudgetUsd = Annotated[float | None, _daily("Stop before this many USD are spent.", flag="--budget", least=0)]


@dataclass(frozen=True, kw_only=True)
class InitOptions(VerbOptions):
    """Options of `init`."""

    answers: Annotated[
        Sequence[str],
        _daily(
            "Answers: .jsonl, .json, .csv, or a folder with one file per prompt; NAME=FILE names the model.",
            metavar="FILE",
        ),
    ] = ()
    prompts: Annotated[Path | None, _daily("The prompts, if the answer files do not hold them.")] = None
    map: Annotated[
        Mapping[str, str] | None,
        _daily(
            "Which column holds what: id, prompt, model, answer, gold, expected, source, subject.",
            metavar="FIELD=COLUMN",
        ),
    ] = None
    judge: Annotated[str | None, _daily("Who judges: claude-…, gpt-…, local/…, provider/model.", metavar="NAME")] = None
    base_url: Annotated[str | None, _daily("Address of a local/… judge's server.")] = None
    rubric: Annotated[Path | None, _daily("Your rubric, in place of a general one.")] = None
    arena: Annotated[bool, _daily("Make the start of a live arena instead.")] = False
    choose: Annotated[
        Callable[[str, Sequence[str]], str | None] | None,
        Help("Asks a person a question with its usual answers; None makes what is missing an error.", in_memory=True),
    ] = None


@dataclass(frozen=True, kw_only=True)
class PublishOptions(VerbOptions, ReadingOptions):
    """Options of `publish`."""

    title: Annotated[str | None, _daily("What the site is called.", "the name of the source")] = None
    url: Annotated[
        str, _daily("Where the folder will be served (https://…), for shared pictures, feed and commands.")
    ] = ""
    texts: Annotated[bool, _daily("Publish the texts of prompts too, where the source allows it.")] = False
    ties: Annotated[Ties, _daily("How ties are read.")] = "davidson"
    anchor: Annotated[
        tuple[str, float] | None, _daily("Pin a model to a rating.", "the mean is 1000", metavar="MODEL=RATING")
    ] = None
    min_battles: MinBattles = 0.0
    only_connected: Annotated[bool, _help("Where groups of models never met, publish the largest.")] = False
    pictures: Annotated[
        bool | None,
        Help("Whether pictures to share are drawn.", "where the address is known and Pillow is there", in_memory=True),
    ] = None


@dataclass(frozen=True, kw_only=True)
class VerifyOptions(VerbOptions):
    """Options of `verify`: what a reader kept of what is checked, somewhere else."""

    head: Annotated[
        Sequence[str] | None, _daily("A head that was kept, or a file of heads.", metavar="HASH@N|@FILE")
    ] = None
    key: Annotated[Sequence[str] | None, _daily("Heads must be signed by this public key.", metavar="KEY|@FILE")] = None
    receipt: Annotated[
        Sequence[str] | None, _daily("Your own vote: it must be there, and be your choice.", metavar="ID[=CHOICE]")
    ] = None
    fingerprint: Annotated[
        str | None,
        _daily("The fingerprint of a published folder that you kept: it must be the same.", metavar="SHA256"),
    ] = None
    besides: Annotated[
        Sequence[str] | None,
        _daily("A file in the folder that is the host's, such as CNAME, or a folder of such.", metavar="PATH"),
    ] = None


@explains()
@dataclass(frozen=True, kw_only=True)
class RunOptions(Options):
    """What one run of a tournament changes; None keeps the config's value."""

    mode: Annotated[
        Literal["pilot", "headline"],
        _daily("A stratified subset judged by the pilot model, or the whole bank by the headline model."),
    ] = "headline"
    output_dir: Annotated[Path | None, _daily("Folder of the run.", "runs/<mode>_<UTC time>", metavar="DIR")] = None
    judge_model: Annotated[
        Sequence[str] | str | None, _daily("Another judge than the config's; several are a panel.")
    ] = None
    skip_judging: Annotated[bool, _daily("Ask nothing; rate what the cache already holds.")] = False
    labels_path: Annotated[
        Path | None,
        _daily(
            "People's labels on some matchups (battles, or a filled-in label sheet) correct the boards.",
            flag="--calibrate",
        ),
    ] = None
    until: Annotated[
        str | None,
        _daily(
            "Judge in adaptive rounds until this is known: top, order, width:POINTS, budget or budget:CALLS; all "
            "judges everything.",
            default="the config's rounds.until, or all",
            metavar="GOAL",
        ),
    ] = None
    budget_usd: BudgetUsd = None
    combine: Annotated[
        Literal["majority", "weight", "rows"] | None,
        _help("How the votes of a panel become battles.", default="the config's, majority"),
    ] = None
    repeats: Annotated[
        int | None, _help("How many times every question is asked.", default="the config's, 1", least=1)
    ] = None
    n_perms: Annotated[int | None, _help("Shuffles of permutation Elo.", least=2)] = None
    limit_pairs: Annotated[
        int | None, _help("Only N pairs of each dimension: prompt by prompt, all pairs of each.", least=1)
    ] = None
    retry_failed: Annotated[bool, _help("Ask again what failed for good in an earlier run.")] = False
    max_batch: Annotated[int | None, _help("Requests per batch.", least=1)] = None

    @property
    def judges(self) -> Sequence[str]:
        """The judges that are named."""
        return (self.judge_model,) if isinstance(self.judge_model, str) else self.judge_model or ()


@dataclass(frozen=True, kw_only=True)
class ServerOptions(AskingOptions):
    """How models are asked where no tournament file says it."""

    budget_usd: BudgetUsd = None
    prices: Annotated[
        Path | None, _help("A price file (JSON or YAML) that adds models to those whose price is known.")
    ] = None
    header: Annotated[
        Sequence[str] | None,
        _help(
            "A further header for the judge's server, such as a gateway; ${NAME} in it is that variable of the "
            "environment or of .env.",
            metavar="'NAME: VALUE'",
        ),
    ] = None
    timeout_seconds: Annotated[float | None, _help("How long one request may take in all.", "600")] = None
    requests_per_minute: Annotated[float | None, _help("Direct calls per minute, at most.")] = None
    tokens_per_minute: Annotated[
        float | None, _help("Tokens of direct calls and their replies per minute, at most.")
    ] = None


@dataclass(frozen=True, kw_only=True)
class JudgeCheckOptions(ServerOptions):
    """Options of `judge_check`."""

    judge_model: Annotated[
        Sequence[str],
        _daily(
            "The judge: anthropic/…, openai/…, gemini/…, ollama/…, local/…, scripted/FILE or recorded/FILE; or each "
            "judge of a panel."
        ),
    ]
    rubric: Annotated[Path | None, _daily("The rubric it judges by.", "a general one")] = None
    cache_dir: Annotated[Path, _daily("Where verdicts are kept between runs.", metavar="PATH")] = Path("judgments")
    base_url: Annotated[
        str | None, _help("Address of a compatible server, for local/…, vllm/… and others of one's own.")
    ] = None
    reply: Annotated[
        Literal["reasoned", "label", "choice", "json", "tool"],
        _daily(
            "Ask for a comparison, for one word, for a letter (a multiple choice, for small judges), for a JSON "
            "object, or for a tool call."
        ),
    ] = "reasoned"
    grades: Annotated[bool, _help("Ask by how much an answer is better: A>>B, A>B, A=B, B>A or B>>A.")] = False
    min_choice_mass: Annotated[
        float, _help("Minimum total probability of the allowed words, if the server gives probabilities.")
    ] = 0.5
    single_order: Annotated[bool, _help("Accept a recording of one order only; there is then no flip rate.")] = False
    own: Annotated[str | None, _help("The entrant that is the judge itself, for self-preference.", "by its name")] = (
        None
    )


@dataclass(frozen=True, kw_only=True)
class RejudgeOptions(AskingOptions):
    """Options of `rejudge`."""

    judge_model: Annotated[Sequence[str], _daily("The other judge; several are a panel.")]
    out: Annotated[Path | None, _daily("Folder of the new run.", "RUN_DIR/rejudged/<judge>", metavar="PATH")] = None
    budget_usd: BudgetUsd = None


@dataclass(frozen=True, kw_only=True)
class GenerateOptions(AskingOptions):
    """Options of `generate`."""

    entrant: Annotated[Sequence[str] | None, _daily("Only this entrant.", metavar="TEXT")] = None
    budget_usd: BudgetUsd = None


@dataclass(frozen=True, kw_only=True)
class TournamentOptions(AskingOptions, RunOptions):
    """Options of the verb `run`."""

    dry_run: Annotated[bool, _daily("Only say what would be asked and what that costs; needs no key.")] = False
    judge: Annotated[
        Callable[..., Any] | None,
        Help(
            "Who judges instead of the config's judge: `async def judge(question)` that returns `A`, `B`, `TIE` or a "
            "score, or `question.verdict(…)`. What it raises before its first answer ends the run; later it is a "
            "failed verdict, not a tie.",
            in_memory=True,
        ),
    ] = None


@explains()
@dataclass(frozen=True, kw_only=True)
class PlaceOptions(Options):
    """The settings of one placement."""

    arena: Annotated[Sequence[Path], _daily("Human battles with conversations (Parquet, JSONL, CSV).", metavar="FILE")]
    model: Annotated[str, _daily("The new model: provider/model, or a file of its answers (prompt_id = question_id).")]
    judge: Annotated[
        str, _daily("The judge: anthropic/…, openai/…, gemini/…, ollama/…, local/…, scripted/FILE or recorded/FILE.")
    ]
    name: Annotated[str | None, _help("The new model's name on the board.", default="as the model says")] = None
    n_battles: Annotated[int, _daily("Battles to judge at most.", least=1)] = 100
    bootstraps: Annotated[int, _help("Bootstrap rounds over prompts; 0 means sandwich intervals.", least=0)] = 1000
    seed: Annotated[int, _help("Seed of sampling, sides and bootstrap.", least=0)] = 0
    languages: Annotated[Sequence[str], _help("Only battles in these languages (en,fr).", metavar="LANGUAGE,…")] = ()
    per_language: Annotated[int | None, _help("At most N judged battles per language.", least=1)] = None
    min_opponent_battles: Annotated[int, _help("Human battles that an opponent must have.", least=1)] = 500
    rubric: Annotated[Path | None, _daily("The rubric to judge by.", default="a general one")] = None
    sampling: Annotated[
        Literal["informative", "random", "head"],
        _help("How opponents and questions are chosen; informative shrinks the interval fastest."),
    ] = "informative"
    panel: Annotated[Path | None, _help("Judge exactly the battles of an earlier run's panel.json.")] = None
    until: Annotated[
        str | None,
        _daily("Stop when the interval is this narrow in points (80), or in places (rank:5).", metavar="WIDTH"),
    ] = None
    looks: Annotated[int, _help("Rounds: after each, opponents are chosen again and the run may stop.", least=1)] = 5
    turns: Annotated[Literal["first", "all"], _help("The first turn of a conversation, or all of it.")] = "first"
    swap: Annotated[Literal["both", "random"], _help("Judge both orders, or one at random.")] = "both"
    calibrate: Annotated[
        int,
        _daily("Ask the judge about N battles that people decided, and widen the interval by what it shows.", least=0),
    ] = 0
    families: Annotated[
        Path | None,
        _help(
            "Families of the models (CSV model,family or JSON): checks the calibration on each as if it were unseen.",
            default="the maker in names like maker/model",
        ),
    ] = None
    fixed_anchors: Annotated[bool, _help("Hold people's ratings fixed; fit only the new model.")] = False
    leave_one_out: Annotated[bool, _help("Place a model of the arena by the judge alone, and compare with people.")] = (
        False
    )
    anchor: Annotated[
        tuple[str, float] | None, _help("Pin a model of the arena to a rating.", metavar="MODEL=RATING")
    ] = None
    inline_human: Annotated[bool, _help("Save human battles one by one, not as counts by pair.", default="yes")] = True
    prompts: Annotated[
        Path | None, _help("Prompt bank with the texts of the questions, for battles without conversations.")
    ] = None
    answers: Annotated[
        Path | None, _help("Opponents' answers: a response file, or a folder of responses_<model>.jsonl.")
    ] = None
    on_bad: Annotated[OnBad, _help("Stop at a bad row of the arena, or skip and count it.")] = "error"
    map: Annotated[
        Mapping[str, str] | None,
        _help(
            "A column of the arena under another name (winner=choice, prompt=question, conversation_a=left).",
            metavar="OURS=THEIRS",
        ),
    ] = None
    out: Annotated[Path, _daily("Where the folder of the run goes.", metavar="DIR")] = Path("placements")
    cache_dir: Annotated[Path, _help("Where verdicts and answers are kept between runs.", metavar="DIR")] = Path(
        "judgments"
    )
    base_url: Annotated[
        str | None, _help("Address of the judge's server, for local/…, vllm/… and others of one's own.")
    ] = None
    model_base_url: Annotated[
        str | None,
        _help(
            "Address of the new model's server.",
            default="for local/… and the judge's kind of server, that of the judge",
        ),
    ] = None
    max_tokens: Annotated[int, _help("How long an answer of the new model may be.", least=1)] = 1024

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

    batch: Annotated[bool, _help("Ask in batches at half price, however few the questions are.")] = False
    dry_run: Annotated[bool, _daily("Say what would be asked and what it would cost; ask nothing.")] = False
