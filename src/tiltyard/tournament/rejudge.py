"""A finished run judged again: the same matchups, another judge, and what changed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import aclosing
from pathlib import Path
from typing import Any

import msgspec

from tiltyard.boards import EloReport
from tiltyard.errors import ConfigError, OptionError, RunFolderError, TiltyardError
from tiltyard.files import file_sha256, write_json
from tiltyard.judging.judge import Judge, judge
from tiltyard.judging.plan import Case, CaseImages, JudgingPlan, Rubric
from tiltyard.judging.records import Judgment, Matchup, prompt_columns
from tiltyard.judging.run_folder import again, read_lines, read_object, require, usage_report
from tiltyard.llm.asking import AskingParts, Watch
from tiltyard.tournament.artifacts import MatchLine
from tiltyard.tournament.config import EloSettings, OpponentSettings, load_setup
from tiltyard.tournament.ratings import DimensionRatings
from tiltyard.tournament.run import Notice, asking_parts, make_judge, rate_all

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


class Job(msgspec.Struct, frozen=True):
    """A re-judging, ready to be quoted and run."""

    source: Path
    folder: Path
    judge_before: str
    before: Mapping[str, Before]
    judging_plan: JudgingPlan
    judge: Judge
    asking: AskingParts
    elo: EloSettings
    baseline: str | None = None


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


def prepare(run: Path, judge_model: str, *, out: Path | None, budget_usd: float | None, notice: Notice) -> Job:
    """Read a run folder and prepare the other judge. The rubrics must be those of the run."""
    manifest = _read_manifest(run)
    folder = out or run / "rejudged" / judge_model.replace("/", "_")
    if folder.resolve() == run.resolve():
        raise OptionError(f"{folder} is the run itself; choose another folder.")
    setup = load_setup(manifest.config_path)
    rubrics = {name: Rubric.load(name, path) for name, path in setup.rubric_paths.items()}
    judging_plan = JudgingPlan(rubrics, read_cases(run))
    for dimension, path in setup.rubric_paths.items():
        if not _is_rubric_of(run, manifest, rubrics[dimension], path):
            raise ConfigError(f"{path} has changed since the run {run}: two judges must judge by the same rubric.")
    before = {dimension: read_before(run, dimension) for dimension in judging_plan.dimensions}
    asking = asking_parts(setup, notice, budget_usd=budget_usd, max_batch=None)
    elo = msgspec.structs.replace(setup.config.elo, n_perms=manifest.n_perms, shuffle_seed=manifest.shuffle_seed)
    other = make_judge(setup, judge_model, asking)
    return Job(run, folder, manifest.judge_model, before, judging_plan, other, asking, elo, manifest.opponents.baseline)


def _read_manifest(run: Path) -> _Manifest:
    path = require(run / "manifest.json", run)
    try:
        return msgspec.convert(read_object(path), _Manifest)
    except msgspec.ValidationError as error:
        raise RunFolderError(f"{path}: not the manifest of a run ({error}). {again()}") from None


def read_cases(run: Path) -> dict[str, list[Case]]:
    """The matches of a run, with the texts that were judged."""
    cases: dict[str, list[Case]] = {}
    path = require(run / "matches" / "matches.jsonl", run)
    for _, row in read_lines(path, msgspec.json.Decoder(MatchLine)):
        matchup = Matchup(
            prompt_id=row.prompt_id, dimension=row.dimension, entrant_a=row.entrant_a, entrant_b=row.entrant_b
        )
        images = CaseImages(row.prompt_images, row.images_a, row.images_b)
        cases.setdefault(row.dimension, []).append(Case(matchup, row.prompt, row.response_a, row.response_b, images))
    return cases


def read_before(run: Path, dimension: str) -> Before:
    """The verdicts of a run's judge in one dimension."""
    return _winners(_settled(run, dimension))


def _settled(run: Path, dimension: str) -> Iterator[_Settled]:
    path = require(run / "verdicts" / f"{dimension}.jsonl", run)
    return (line for _, line in read_lines(path, msgspec.json.Decoder(_Settled)))


def _is_rubric_of(run: Path, manifest: _Manifest, rubric: Rubric, path: Path) -> bool:
    """Whether a run judged by this rubric: by its fingerprint, or by its version in a run without fingerprints."""
    if manifest.sha256 is not None:
        return manifest.sha256.rubrics.get(rubric.dimension) == file_sha256(path)
    if not (run / "verdicts" / f"{rubric.dimension}.jsonl").is_file():
        return True  # nothing was judged by it, or `read_before` says that the file is missing
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


async def rejudge(job: Job, *, watch: Watch | None = None) -> tuple[ChangedRun, Mapping[str, DimensionRatings]]:
    """Judge, rate, write the new folder, and compare it with the old one."""
    job.folder.mkdir(parents=True, exist_ok=True)
    async with aclosing(job.judge):
        judged = await judge(job.judging_plan, job.judge, single_order=True, watch=watch)
    cases = job.judging_plan.cases
    columns = {case.prompt.prompt_id: prompt_columns(case.prompt) for rows in cases.values() for case in rows}
    standings = rate_all(judged, job.elo, job.folder, cases=cases, columns=columns, baseline=job.baseline)
    write_json(job.folder / "usage.json", usage_report(judged, job.asking.prices))
    changed = ChangedRun(
        run=str(job.source),
        judge_before=job.judge_before,
        judge_after=judged.judge_model,
        dimensions={
            dimension: _change(job, list(judgments), standings[dimension])
            for dimension, judgments in judged.judgments.items()
        },
    )
    write_json(job.folder / "changes.json", msgspec.to_builtins(changed))
    return changed, standings


def _change(job: Job, after: list[Judgment], standing: DimensionRatings) -> Change:
    before = job.before[standing.dimension]
    pairs = [(before[match], new) for match, new in _winners(after).items() if match in before]
    return Change(
        judgments=len(after),
        compared=len(pairs),
        same=sum(old == new for old, new in pairs),
        winner_changed=sum(old is not None and new is not None and old != new for old, new in pairs),
        winner_to_none=sum(old is not None and new is None for old, new in pairs),
        none_to_winner=sum(old is None and new is not None for old, new in pairs),
        ranks=_ranks(job.source / "ratings" / f"{standing.dimension}.json", standing),
    )


def _ranks(path: Path, standing: DimensionRatings) -> dict[str, Any] | None:
    if standing.board is None or not path.exists():
        return None
    try:
        return standing.board.changes_since(EloReport.read(path)).to_dict()
    except TiltyardError:
        return None


def change_lines(changed: ChangedRun, standings: Mapping[str, DimensionRatings]) -> list[str]:
    """What changed, as text."""
    lines = []
    for dimension, change in changed.dimensions.items():
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
        habits = standings[dimension].habits
        if habits.unreliable:
            lines.append(f"  {habits.lines()[0]}")
    return lines
