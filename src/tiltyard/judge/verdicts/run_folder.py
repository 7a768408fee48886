"""What judged runs share: the judge by its name, and the names, times, usage and reading of their folders."""

from __future__ import annotations

import json
import platform
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import reduce
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from tiltyard.errors import OptionError, Refused, RunFolderError
from tiltyard.judge.llm import (
    PYTHON,
    AskingParts,
    PriceTable,
    Reply,
    Request,
    Usage,
    add_costs,
    load_env,
    make_provider,
    parse_model_name,
)
from tiltyard.judge.verdicts.function import FunctionJudge, JudgeFunction, import_function
from tiltyard.judge.verdicts.language_model import LanguageModelJudge
from tiltyard.judge.verdicts.panel import panel_members
from tiltyard.judge.verdicts.questions import JudgeSettings
from tiltyard.judge.verdicts.recorded import RecordedJudge
from tiltyard.judge.verdicts.records import JudgedAnswer, Judgment, Matchup, Verdict, settle
from tiltyard.judge.verdicts.verdicts import Judge, JudgingResult, JudgingStats, add_stats

Clock = Callable[[], datetime]
"""Returns the current time."""

AnyJudgment = TypeVar("AnyJudgment", bound=Judgment)
Record = TypeVar("Record")

RUN = "tiltyard run"
"""The command that writes a tournament's folder; every reader here accepts another one."""


def utc_now() -> datetime:
    """The current time, unless another clock is passed in."""
    return datetime.now(UTC)


def iso_time(now: Clock) -> str:
    """The time as written in manifests."""
    return now().isoformat(timespec="seconds")


def time_stamp(now: Clock) -> str:
    """The time as used in folder names."""
    return now().strftime("%Y%m%d_%H%M%S")


def new_folder(folder: Path) -> Path:
    """The folder, or the first free one of `<folder>-2`, `<folder>-3`, … if another run began in the same second."""
    free, copies = folder, 1
    while free.exists():
        copies += 1
        free = folder.with_name(f"{folder.name}-{copies}")
    return free


def versions() -> dict[str, str]:
    """What a manifest says about the program that wrote it."""
    from tiltyard import __version__

    return {"tiltyard": __version__, "python": platform.python_version()}


def again(command: str = RUN) -> str:
    """Advice for a file that is incomplete or unexpected."""
    return f"Write it again with `{command}`, which asks no question twice."


def require(path: Path, folder: Path, command: str = RUN) -> Path:
    """The path of a file that a finished run has."""
    if not folder.is_dir():
        raise RunFolderError(f"there is no run folder {folder}. Check the path.")
    if not path.is_file():
        raise RunFolderError(
            f"{folder} has no {path.relative_to(folder).as_posix()}: not a run folder, or its run has not finished. "
            f"Finish it with `{command}`, then report again."
        )
    return path


def read_object(path: Path, command: str = RUN) -> dict[str, Any]:
    """The JSON object in a file."""
    try:
        value = json.loads(path.read_bytes())
    except OSError as error:
        raise RunFolderError(f"cannot read {path}: {error.strerror}.") from None
    except (ValueError, RecursionError) as error:
        raise RunFolderError(f"{path}: torn or not JSON ({error}). {again(command)}") from None
    if not isinstance(value, dict):
        raise RunFolderError(f"{path}: expected one JSON object, found {type(value).__name__}. {again(command)}")
    return value


def read_record(path: Path, kind: type[Record], command: str = RUN) -> Record:
    """The JSON object in a file as a record."""
    try:
        return msgspec.convert(read_object(path, command), kind)
    except msgspec.ValidationError as error:
        raise RunFolderError(f"{path}: {error}. {again(command)}") from None


class LineSpan(msgspec.Struct, frozen=True, gc=False):
    """The position of one line: its number and its byte range."""

    number: int
    start: int
    end: int


def read_lines(path: Path, decoder: msgspec.json.Decoder[Any], command: str = RUN) -> Iterator[tuple[LineSpan, Any]]:
    """Every record of a JSON Lines file with its position; an incomplete or wrong line is an error that names it."""
    start = 0
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            place = LineSpan(number, start, start + len(line))
            start = place.end
            if line.strip():
                yield place, decode(line, decoder, path, number, command)


def decode(line: bytes, decoder: msgspec.json.Decoder[Any], path: Path, number: int, command: str = RUN) -> Any:
    """One record."""
    try:
        return decoder.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        what = "not what a run writes there" if isinstance(error, msgspec.ValidationError) else "torn or not JSON"
        raise RunFolderError(f"{path}:{number}: {what} ({error}). {again(command)}") from None


class Remade(msgspec.Struct, frozen=True, kw_only=True):
    """A folder that was made again from its verdicts."""

    verdicts: int
    rules: str
    """How they were rated, in words."""
    names: Sequence[Collection[str]]
    """Names of each kind, of which no two may look alike: models, dimensions."""
    not_made: Sequence[str] = ()
    """Files that could not be made, because what they follow from is not in the folder."""


def resettled(one: AnyJudgment, *, both_orders: bool) -> AnyJudgment:
    """A judge's judgment as its verdicts settle it."""
    matchup = Matchup(
        prompt_id=one.prompt_id, dimension=one.dimension, entrant_a=one.entrant_a, entrant_b=one.entrant_b
    )
    settled = settle(matchup, one.raw, both_orders=both_orders)
    return msgspec.structs.replace(one, winner=settled.winner, inconsistent=settled.inconsistent, status=settled.status)


def usage_report(judged: JudgingResult, prices: PriceTable) -> dict[str, Any]:
    """The usage of judging a run, canaries included; `cost_usd` is null if a price is unknown.

    `replies_without_usage` were paid for, but the provider did not state their tokens: no other figure includes them.
    Tokens and cost are those of this command. Those under `verdicts` cover all verdicts of the run, whichever command
    asked for them: after a crash or a second run, the first figures are smaller. `failed` counts, by name, the queries
    that ended without a verdict.
    """
    added = reduce(add_stats, judged.stats.values(), JudgingStats(0, 0))
    report: dict[str, Any] = {
        "judge_model": judged.judge_model,
        "dimensions": {
            name: {**_counts(stats), "verdicts": _kept(_verdicts(judged, name), prices)}
            for name, stats in judged.stats.items()
        },
        "total": _counts(added),
    }
    if judged.panel is not None:
        report["judges"] = {
            judge: {
                name: {**_counts(stats), "verdicts": _kept(_verdicts(judged, name, judge), prices)}
                for name, stats in by_dimension.items()
            }
            for judge, by_dimension in judged.panel.member_stats.items()
        }
    return report


def _verdicts(judged: JudgingResult, dimension: str, judge: str | None = None) -> Iterator[Verdict]:
    """All verdicts of a dimension, or those of one judge, canaries included; a provider may be spelt in capitals."""
    settled = judged.judgments.get(dimension, ()), judged.canaries.get(dimension, ())
    for each in chain[Judgment | JudgedAnswer](*settled, judged.answers.get(dimension, ())):
        for verdict in each.raw:
            if judge is None or verdict.judge_model.casefold() == judge.casefold():
                yield verdict


def _counts(stats: JudgingStats) -> dict[str, Any]:
    return {
        "queries": stats.questions,
        "cache_hits": stats.cache_hits,
        "fresh_calls": stats.fresh_calls,
        **msgspec.structs.asdict(stats.usage),
        "cost_usd": stats.cost,
        "replies_without_usage": stats.replies_without_usage,
        "failed": dict(stats.failures),
    }


def _kept(verdicts: Iterable[Verdict], prices: PriceTable) -> dict[str, Any]:
    usage, count, without_usage = Usage(), 0, 0
    cost: float | None = 0.0
    for verdict in verdicts:
        stated = verdict.usage
        count += 1
        without_usage += stated is None
        usage += stated or Usage()
        cost = add_costs(cost, prices.cost(verdict.judge_model, stated or Usage(), verdict.batched))
    return {
        "count": count,
        **msgspec.structs.asdict(usage),
        "cost_usd": cost,
        "replies_without_usage": without_usage,
    }


def judge_by_name(
    settings: JudgeSettings,
    *,
    folder: Path,
    asking: AskingParts,
    base_url: str | None = None,
    look_in: Sequence[Path] = (Path(),),
    silent: bool = False,
    functions: bool | JudgeFunction = False,
) -> Judge:
    """The judge that `settings.model` names: a language model, a function, or a file of recorded verdicts.

    A language model keeps its verdicts and batches in `folder`. Files and `.env` are looked up in the folders of
    `look_in`, in order. A `silent` judge is for runs that ask nothing: it needs neither key nor SDK, and only reads its
    cache. A file of recorded verdicts uses only the name from the settings. `functions` says whether `python:…` may be
    imported, which is never so for a name that somebody else brings; or it is the function itself.
    """
    if panel_members(settings.model):
        raise OptionError(f"{settings.model}: only tournaments are judged by a panel. Name one judge.")
    name = parse_model_name(settings.model)
    if name.provider == "recorded":
        places = list(dict.fromkeys(folder / name.model for folder in look_in))
        for place in places:
            if place.exists():
                return RecordedJudge(place)
        raise OptionError(f"recorded/{name.model}: there is no {' and no '.join(map(str, places))}. Check the path.")
    if name.provider == PYTHON:
        if functions is False:
            raise OptionError(
                f"{name} is code: only `tiltyard run` and `tiltyard.run` import a judge, never from a "
                "config that an agent or a published folder brings."
            )
        function = import_function(name.model, look_in) if functions is True else functions
        return FunctionJudge(function, settings, folder=folder, asking=asking)
    provider = (
        SilentProvider(name.provider)
        if silent
        else make_provider(
            name,
            base_url=base_url,
            env=load_env(look_in),
            folders=look_in,
            headers=asking.headers,
            timeout_seconds=asking.settings.timeout_seconds,
        )
    )
    known = replace(settings, model=name.model, name=str(name))
    return LanguageModelJudge(provider, known, folder=folder, asking=asking)


class SilentProvider:
    """Stands in for a provider in a run that asks nothing."""

    def __init__(self, name: str) -> None:
        self.name = name

    async def ask(self, request: Request) -> Reply:
        raise Refused(f"{self.name}/{request.model} is not asked anything in this run.")

    async def aclose(self) -> None:
        """Does nothing: there is no connection to close."""
