"""`rejudge`: the matchups of a finished run, judged by another judge, and what changed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from tiltyard.analysis.boards import RatingsFile
from tiltyard.errors import ConfigError, OptionError, RunFolderError, TiltyardError
from tiltyard.files import file_sha256, write_json
from tiltyard.judge.tournament import (
    DimensionRatings,
    OpponentSettings,
    asking_parts,
    load_setup,
    make_judge,
    rate_all,
    read_cases,
)
from tiltyard.judge.verdicts import (
    Judge,
    JudgingPlan,
    JudgingResult,
    Judgment,
    Rubric,
    again,
    judge,
    panel_name,
    prompt_columns,
    read_lines,
    read_object,
    require,
    usage_report,
)
from tiltyard.options import RejudgeOptions, accepts_options
from tiltyard.verbs.asking import judging_quote, to_end


@dataclass(frozen=True)
class RejudgedRun:
    """A run judged by another judge."""

    folder: Path
    """The folder of the new run."""
    changes: ChangedRun
    """What changed, by dimension."""
    standings: Mapping[str, DimensionRatings]
    """The new ratings, by dimension."""

    def __str__(self) -> str:
        lines = []
        for dimension, change in self.changes.dimensions.items():
            failed = change.judgments - change.compared
            lines.append(
                f"{dimension}: {change.same:,} of {change.compared:,} judgments the same; "
                f"{change.winner_changed:,} other winner, {change.winner_to_none:,} no longer decided, "
                f"{change.none_to_winner:,} newly decided"
                + (f"; {failed:,} cannot be compared, since a judge failed" if failed else "")
            )
            if change.ranks is not None:
                moved = [row for row in change.ranks["changes"] if row["places_gained"]]
                moves = ", ".join(f"{row['model']} {row['rank_before']}→{row['rank_after']}" for row in moved)
                lines.append(f"  ranks: Kendall τ {change.ranks['kendall_tau']:.3f}; {moves or 'nobody moved'}")
            habits = self.standings[dimension].habits
            if habits.unreliable:
                lines.append(f"  {habits.lines()[0]}")
        return "\n".join(lines)


@accepts_options(RejudgeOptions)
def rejudge(folder: str | Path, options: RejudgeOptions) -> RejudgedRun:
    """Judge the matchups of a finished run by another judge, and say what changed: verdicts, ratings, ranks.

    Parameters:
        folder: The folder of a finished run.
    """
    judges = [options.judge_model] if isinstance(options.judge_model, str) else options.judge_model
    name = panel_name(judges) if len(judges) > 1 else judges[0]
    first = Path(folder)
    manifest = _read_manifest(first)
    out = options.out or first / "rejudged" / name.replace("/", "_")
    if out.resolve() == first.resolve():
        raise OptionError(f"{out} is the run itself; choose another folder.")
    setup = load_setup(manifest.config_path)
    rubrics = {name: Rubric.load(name, path) for name, path in setup.rubric_paths.items()}
    judging_plan = JudgingPlan(rubrics, read_cases(first))
    for dimension, path in setup.rubric_paths.items():
        if not _is_rubric_of(first, manifest, rubrics[dimension], path):
            raise ConfigError(f"{path} has changed since the run {first}: two judges must judge by the same rubric.")
    before = {dimension: _winners(_settled(first, dimension)) for dimension in judging_plan.dimensions}
    asking = asking_parts(setup, options.note, budget_usd=options.budget_usd, max_batch=None)
    other = make_judge(setup, name, asking)
    judging_quote(other, judging_plan, asking.prices).agree(other.name, options)
    out.mkdir(parents=True, exist_ok=True)
    options.progress.begin(out)
    judged = to_end(_judge(judging_plan, other, options))
    cases = judging_plan.cases
    columns = {case.prompt.prompt_id: prompt_columns(case.prompt) for rows in cases.values() for case in rows}
    elo = msgspec.structs.replace(setup.config.elo, n_perms=manifest.n_perms, shuffle_seed=manifest.shuffle_seed)
    standings = rate_all(judged, elo, out, cases=cases, columns=columns, baseline=manifest.opponents.baseline)
    write_json(out / "usage.json", usage_report(judged, asking.prices))
    changes = ChangedRun(
        run=str(first),
        judge_before=manifest.judge_model,
        judge_after=judged.judge_model,
        dimensions={
            dimension: _change(first, before[dimension], list(judgments), standings[dimension])
            for dimension, judgments in judged.judgments.items()
        },
    )
    write_json(out / "changes.json", msgspec.to_builtins(changes))
    return RejudgedRun(out, changes, standings)


async def _judge(judging_plan: JudgingPlan, other: Judge, options: RejudgeOptions) -> JudgingResult:
    async with aclosing(other):
        return await judge(judging_plan, other, single_order=True, watch=options.progress.watch)


Before = dict[tuple[str, str, str], str | None]
"""The winners of a dimension's successful judgments, by prompt and both entrants."""


class _Hashes(msgspec.Struct, frozen=True):
    rubrics: dict[str, str]


class _Manifest(msgspec.Struct, frozen=True):
    """The part of a run's manifest that re-judging needs."""

    config_path: str
    judge_model: str
    n_perms: int
    shuffle_seed: int
    sha256: _Hashes | None = None
    opponents: OpponentSettings = OpponentSettings()


class _Raw(msgspec.Struct, frozen=True):
    rubric_version: str = ""


class _Settled(msgspec.Struct, frozen=True):
    """The part of a judgment that a comparison needs."""

    prompt_id: str
    entrant_a: str
    entrant_b: str
    winner: str | None
    status: str = "ok"
    raw: tuple[_Raw, ...] = ()


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """What another judge changed in one dimension."""

    judgments: int
    """Judgments of the other judge."""
    compared: int
    """Settled by both."""
    same: int
    winner_changed: int
    """Another winner."""
    winner_to_none: int
    """No longer decided."""
    none_to_winner: int
    """Newly decided."""
    ranks: dict[str, Any] | None
    """The Bradley–Terry boards, where both exist: the fields of [board comparison](#board-comparison)."""


class ChangedRun(msgspec.Struct, frozen=True, kw_only=True):
    """`changes.json` of a re-judged run: what another judge changed."""

    run: str
    """The first run."""
    judge_before: str
    judge_after: str
    dimensions: dict[str, Change]


def _read_manifest(run: Path) -> _Manifest:
    path = require(run / "manifest.json", run)
    try:
        return msgspec.convert(read_object(path), _Manifest)
    except msgspec.ValidationError as error:
        raise RunFolderError(f"{path}: not the manifest of a run ({error}). {again()}") from None


def _settled(run: Path, dimension: str) -> Iterator[_Settled]:
    path = require(run / "verdicts" / f"{dimension}.jsonl", run)
    return (line for _, line in read_lines(path, msgspec.json.Decoder(_Settled)))


def _is_rubric_of(run: Path, manifest: _Manifest, rubric: Rubric, path: Path) -> bool:
    """Whether a run judged by this rubric: by its fingerprint, or by its version in a run without fingerprints."""
    if manifest.sha256 is not None:
        return manifest.sha256.rubrics.get(rubric.dimension) == file_sha256(path)
    if not (run / "verdicts" / f"{rubric.dimension}.jsonl").is_file():
        return True  # nothing was judged by it, or `_settled` says that the file is missing
    judged = _settled(run, rubric.dimension)
    return {one.rubric_version for judgment in judged for one in judgment.raw} <= {rubric.version}


def _winners(judgments: Iterable[_Settled | Judgment]) -> Before:
    """The winner of each match, that most judges name where every judge of a panel has a judgment of its own."""
    named: dict[tuple[str, str, str], Counter[str | None]] = {}
    for one in judgments:
        if one.status == "ok":
            named.setdefault((one.prompt_id, one.entrant_a, one.entrant_b), Counter())[one.winner] += 1
    winners: Before = {}
    for match, counts in named.items():
        (first, most), (_, next_most) = [*counts.most_common(2), (None, 0)][:2]
        winners[match] = first if most > next_most else None
    return winners


def _change(run: Path, before: Before, after: list[Judgment], standing: DimensionRatings) -> Change:
    pairs = [(before[match], new) for match, new in _winners(after).items() if match in before]
    return Change(
        judgments=len(after),
        compared=len(pairs),
        same=sum(old == new for old, new in pairs),
        winner_changed=sum(old is not None and new is not None and old != new for old, new in pairs),
        winner_to_none=sum(old is not None and new is None for old, new in pairs),
        none_to_winner=sum(old is None and new is not None for old, new in pairs),
        ranks=_ranks(run / "ratings" / f"{standing.dimension}.json", standing),
    )


def _ranks(path: Path, standing: DimensionRatings) -> dict[str, Any] | None:
    if standing.board is None or not path.exists():
        return None
    try:
        return standing.board.changes_since(RatingsFile.read(path)).to_dict()
    except TiltyardError:
        return None
