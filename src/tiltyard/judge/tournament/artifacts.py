"""The files of a run folder, each written whole or not at all, and the manifest.

The manifest says what ran, on what, with which seeds. It is written when a run starts and completed when it ends.
"""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypedDict

import msgspec
import numpy as np

from tiltyard.analysis.boards import start_hashing
from tiltyard.data.bank import EarlierTurn, Image, PlainValue, Prompt, responses_path
from tiltyard.data.battles import Battle
from tiltyard.files import file_sha256, write_arrays, write_json, write_lines, write_text
from tiltyard.judge.llm import PYTHON, parse_model_name
from tiltyard.judge.tournament.config import Mode, OpponentSettings, Task
from tiltyard.judge.tournament.plan import MatchList, RunPlan, TranscriptCounts
from tiltyard.judge.tournament.ratings import DimensionRatings, EloLine, JudgeHabits, PairTally
from tiltyard.judge.verdicts import (
    TEMPLATE_VERSION,
    Case,
    Check,
    Combine,
    JudgingResult,
    Judgment,
    MissedCanary,
    PanelStudy,
    PanelVerdicts,
    VerdictLabel,
    panel_members,
    prompt_template,
    scores_of,
    to_battle,
    versions,
)
from tiltyard.types import FileStem

JUDGE_PROMPTS = "judge_prompts.json"
"""The file with the texts that judges were sent."""


class EloResults(msgspec.Struct, frozen=True, kw_only=True):
    """`elo_results.json`: permutation Elo over the decisive judgments, by dimension and entrant."""

    default_k: float
    """K of `primary`."""
    primary: dict[FileStem, dict[str, EloLine]]
    k_sensitivity: dict[FileStem, dict[str, dict[str, EloLine]]]
    """By dimension, every K of the sweep and entrant, without sampling intervals."""
    n_decisive_matches: dict[str, int]


class SentPrompt(msgspec.Struct, frozen=True, kw_only=True):
    """What some judges are sent around the prompt and the answers."""

    judges: list[str]
    system: str
    """The system text in full."""
    user: str
    """The user's text, with names in braces for the material."""


class DimensionPrompts(msgspec.Struct, frozen=True, kw_only=True):
    """The rubric of a dimension, in full, and what is sent; a recorded judge was sent texts that nobody here knows."""

    rubric_version: str
    rubric: str
    sent: list[SentPrompt]


class JudgePrompts(msgspec.Struct, frozen=True, kw_only=True):
    """`judge_prompts.json`: what the judges are sent, by dimension."""

    template_version: str
    """Version of Tiltyard's own texts."""
    dimensions: dict[str, DimensionPrompts]


OF_PROMPT = ("source", "subject", "gold_answer", "expected_behavior", "tags", "language")
"""What a match says of its prompt by the same names."""


class MatchLine(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A line of `matches/matches.jsonl`: one match, with everything the judge is shown."""

    dimension: FileStem
    prompt_id: str
    entrant_a: str
    """First by the order of the file."""
    entrant_b: str
    prompt_text: str
    source: str | None
    subject: str | msgspec.UnsetType | None = msgspec.UNSET
    """Absent in the files of programs that know no subjects."""
    gold_answer: str | None
    expected_behavior: str | None
    response_a: str
    response_b: str
    tags: tuple[str, ...] = ()
    language: str = ""
    prompt_columns: dict[str, PlainValue] = {}
    """The further columns of the bank."""
    prompt_system: str | None = None
    prompt_turns: tuple[EarlierTurn, ...] = ()
    prompt_images: tuple[Image, ...] = ()
    images_a: tuple[Image, ...] = ()
    images_b: tuple[Image, ...] = ()

    @classmethod
    def of(cls, match: Case) -> MatchLine:
        prompt, matchup = match.prompt, match.matchup
        return cls(
            dimension=matchup.dimension,
            prompt_id=matchup.prompt_id,
            entrant_a=matchup.entrant_a,
            entrant_b=matchup.entrant_b,
            prompt_text=prompt.text,
            **{name: getattr(prompt, name) for name in OF_PROMPT},
            response_a=match.response_a,
            response_b=match.response_b,
            prompt_columns=prompt.columns,
            prompt_system=prompt.system or None,
            prompt_turns=prompt.turns,
            prompt_images=match.images.prompt,
            images_a=match.images.answer_a,
            images_b=match.images.answer_b,
        )

    @property
    def prompt(self) -> Prompt:
        """The prompt of the match, without its images."""
        stated = {name: value for name in OF_PROMPT if (value := getattr(self, name)) not in (None, msgspec.UNSET)}
        return Prompt(
            prompt_id=self.prompt_id,
            text=self.prompt_text,
            **stated,
            columns=self.prompt_columns,
            system=self.prompt_system,
            turns=self.prompt_turns,
        )


def write_matches(folder: Path, matches: MatchList) -> None:
    """`matches/matches.jsonl`: one line per match, with everything the judge is shown."""
    rows = (MatchLine.of(match) for cases in matches.by_dimension.values() for match in cases)
    write_lines(folder / "matches" / "matches.jsonl", rows)


def write_judge_prompts(folder: Path, plan: RunPlan) -> None:
    """`judge_prompts.json`: by dimension, the rubric, and the texts that each judge is sent around the material."""
    judge = plan.setup.config.judge
    listed = {member.model: member for member in judge.members}
    dimensions = {}
    for rubric in plan.rubrics:
        how = plan.setup.scoring.get(rubric.dimension)
        kinds = {rubric.dimension: False} if judge.task != "scores" else {}
        kinds |= {scores_of(rubric.dimension): True} if how is not None else {}
        for key, alone in kinds.items():
            sent: dict[tuple[str, str], list[str]] = {}
            for name in panel_members(plan.judge_model) or (plan.judge_model,):
                if parse_model_name(name).provider not in ("recorded", PYTHON):
                    own = listed.get(name)
                    reply = judge.reply if own is None or own.reply is None else own.reply
                    template = (
                        prompt_template(rubric, reply, scoring=how)
                        if alone and how is not None
                        else prompt_template(rubric, reply, grades=judge.grades)
                    )
                    sent.setdefault(template, []).append(name)
            dimensions[key] = DimensionPrompts(
                rubric_version=rubric.version,
                rubric=rubric.text,
                sent=[SentPrompt(judges=names, system=system, user=user) for (system, user), names in sent.items()],
            )
    prompts = JudgePrompts(template_version=TEMPLATE_VERSION, dimensions=dimensions)
    write_json(folder / JUDGE_PROMPTS, msgspec.to_builtins(prompts))


def write_verdicts(folder: Path, dimension: str, judgments: Sequence[Judgment]) -> None:
    """`verdicts/<dimension>.jsonl`: one line per judgment with both raw verdicts, forward first."""
    write_lines(folder / "verdicts" / f"{dimension}.jsonl", judgments)


def write_standings(
    folder: Path,
    standings: Mapping[str, DimensionRatings],
    default_k: float,
    columns: Mapping[str, Mapping[str, PlainValue]] | None = None,
) -> None:
    """Elo results and traces, win rates, battles, and a Bradley–Terry board per dimension.

    `columns` is what the battles say about their prompts, by prompt.
    """
    elo = EloResults(
        default_k=default_k,
        primary={dimension: dict(standing.elo) for dimension, standing in standings.items()},
        k_sensitivity={
            dimension: {str(float(k)): dict(by_entrant) for k, by_entrant in standing.sweep.items()}
            for dimension, standing in standings.items()
        },
        n_decisive_matches={dimension: standing.n_decisive for dimension, standing in standings.items()},
    )
    write_json(folder / "elo_results.json", msgspec.to_builtins(elo))
    traces = {}
    for dimension, standing in standings.items():
        if standing.elo:
            traces[f"{dimension}__data"] = standing.traces
            traces[f"{dimension}__entrants"] = np.array(standing.entrants)
    if traces:
        write_arrays(folder / "elo_per_perm.npz", traces)
    else:
        (folder / "elo_per_perm.npz").unlink(missing_ok=True)
    rates = io.StringIO()
    writer = csv.writer(rates, lineterminator="\n")
    writer.writerow(PairTally.__struct_fields__)
    for standing in standings.values():
        writer.writerows(msgspec.structs.astuple(pair) for pair in standing.pairs)
    write_text(folder / "pairwise_winrates.csv", rates.getvalue())
    battles = (battle for standing in standings.values() for battle in standing.battles)
    write_lines(folder / "battles.jsonl", _battle_rows(battles, columns or {}))
    against = {name: standing.against for name, standing in standings.items() if standing.against is not None}
    if against:
        write_json(folder / "baseline.json", msgspec.to_builtins(against))
    else:
        (folder / "baseline.json").unlink(missing_ok=True)
    rated = any(standing.board is not None for standing in standings.values())
    # A run in which nothing was settled has an empty battle file, without a source.
    came_from = start_hashing(folder / "battles.jsonl")() if rated else {}
    for dimension, standing in standings.items():
        path = folder / "ratings" / f"{dimension}.json"
        if standing.board is None:
            path.unlink(missing_ok=True)
            continue
        write_text(path, replace(standing.board, further=came_from).to_json())


def _battle_rows(
    battles: Iterable[Battle], columns: Mapping[str, Mapping[str, PlainValue]]
) -> Iterator[dict[str, Any]]:
    """Battles as they are written, with what the bank says about their prompts."""
    for battle in battles:
        style = {name: int(value) for name, value in battle.controls.items()}
        yield {**battle.to_dict(), **style, **columns.get(battle.question_id or "", {})}


def write_panel_battles(
    folder: Path,
    panel: PanelVerdicts | None,
    dimensions: Sequence[str],
    columns: Mapping[str, Mapping[str, PlainValue]],
) -> None:
    """`panel/battles.jsonl`: the battles that each judge of a panel alone would make; none for a single judge."""
    path = folder / "panel" / "battles.jsonl"
    if panel is None:
        path.unlink(missing_ok=True)
        return
    battles = (
        battle
        for dimension in dimensions
        for judgments in panel.member_judgments(dimension)
        for judgment in judgments
        if (battle := to_battle(judgment)) is not None
    )
    write_lines(path, _battle_rows(battles, columns))


def calibrated_path(folder: Path, dimension: str) -> Path:
    """Where a dimension's board on people's scale is."""
    return folder / "ratings" / "calibrated" / f"{dimension}.json"


def forget_other_dimensions(folder: Path, dimensions: Collection[str]) -> None:
    """Remove the verdicts and boards of dimensions that this run does not have: the folder held another run before.

    Boards that people's labels correct are removed too: they are made anew from the labels.
    """
    for path in folder.glob("ratings/calibrated/*.json"):
        path.unlink()
    for path in (*folder.glob("ratings/*.json"), *folder.glob("verdicts/*.jsonl")):
        if path.stem not in dimensions:
            path.unlink()


LONGEST_REASON = 300


class Counts(msgspec.Struct, frozen=True):
    """Judgments, failed verdicts (by name) and missing verdicts."""

    judgments: int
    failed_verdicts: Counter[str]
    missing_verdicts: int


def own_counts(judged: JudgingResult, dimension: str) -> Counts:
    """The counts of a dimension without its canaries: failures on those say nothing about the matches."""
    stats = judged.stats[dimension]
    canaries = judged.canaries.get(dimension, ())
    asked = len(canaries) * (2 if dimension in judged.answers else 1)  # where answers are scored alone, two are one
    heard = [verdict for judgment in canaries for verdict in judgment.raw]
    failed = Counter(stats.failures)
    failed.subtract(verdict.verdict.value for verdict in heard if not verdict.verdict.readable)
    per_case = stats.questions // max(1, stats.cases)
    missing = per_case * asked - len(heard) if judged.both_orders else 0
    return Counts(stats.cases - asked, +failed, stats.missing - missing)


class FailedQuestion(msgspec.Struct, frozen=True):
    """A question that ended without a verdict. `entrant_a` was shown first, unless `position_swap`."""

    prompt_id: str
    entrant_a: str
    entrant_b: str
    position_swap: bool
    """Whether entrant_b's answer was shown first."""
    verdict: str
    """The name of the failure."""
    error: str
    """Why; for `error`, with the provider's message. For others the reply is in the report."""


def failed_questions(judged: JudgingResult, dimension: str, *, most: int) -> list[FailedQuestion]:
    """The first questions of a dimension that ended without a verdict, with the provider's reason if there is one.

    Where none failed, no verdict is read.
    """
    if not own_counts(judged, dimension).failed_verdicts:
        return []
    failed: list[FailedQuestion] = []
    for judgment in judged.judgments[dimension]:
        for verdict in judgment.raw:
            if len(failed) == most:
                return failed
            if not verdict.verdict.readable:
                label, why = verdict.verdict, verdict.error or verdict.verdict.value
                words = " ".join(verdict.reasoning.split()) if label is VerdictLabel.ERROR else ""
                why = f"{why}: {words[:LONGEST_REASON]}" if words else why
                who = judgment.prompt_id, judgment.entrant_a, judgment.entrant_b
                failed.append(FailedQuestion(*who, verdict.position_swap, label.value, why))
    return failed


MOST_NAMED = 20
"""How many failed questions of a dimension the manifest names; the verdict files have them all."""


class AnswerCells(msgspec.Struct, frozen=True, kw_only=True):
    """How many of the answers (one per entrant and prompt) are there."""

    present: int
    """Answers there are."""
    expected: int
    """Answers there should be."""


class DroppedPrompts(msgspec.Struct, frozen=True, kw_only=True):
    """What a run could not judge, and why."""

    prompts_without_every_answer: list[str]
    """Prompts that not every entrant answered."""
    answers_missing: dict[str, int]
    """How many answers each entrant lacks."""
    unanswered: dict[str, dict[str, list[str]]] | msgspec.UnsetType = msgspec.UNSET
    """By dimension and entrant, the prompts that it did not answer; where there are some."""
    prompts_without_gold_answer: dict[str, int]
    """By dimension, the prompts skipped because they have no gold answer."""


class InputHashes(msgspec.Struct, frozen=True, kw_only=True):
    """SHA-256 of everything that a run read."""

    config: str
    """Hash of the tournament file."""
    bank: str
    """Hash of the bank."""
    rubrics: dict[str, str]
    """Hash of each rubric, by dimension."""
    responses: dict[str, str]
    """Hash of each response file, by entrant."""


class DimensionResults(msgspec.Struct, frozen=True, kw_only=True):
    """The judgments of one dimension."""

    judgments: int
    settled: int
    """Those that make a battle."""
    decisive: int
    """Those with a winner."""
    inconsistent: int
    """Those that changed with the order."""
    failed_verdicts: dict[str, int]
    missing_verdicts: int
    """Verdicts never given."""
    failed_questions: list[FailedQuestion]
    """The first 20 questions that ended without a verdict."""
    bradley_terry: str
    """`ok`, or why there is no board."""
    habits: JudgeHabits


class CanaryKind(TypedDict):
    """The canaries of one kind."""

    kind: str
    asked: int
    right: int
    fooled: int
    undecided: int
    failed: int


class CanaryResults(TypedDict):
    """How the judge did on pairs with a known better answer."""

    asked: int
    right: int
    """In both orders."""
    missed: list[MissedCanary]
    """Those that count against the judge."""
    kinds: list[CanaryKind]


class PanelResults(TypedDict):
    """What the judges of a panel agree on."""

    judges: list[str]
    combine: str
    dimensions: dict[str, PanelStudy]


class RunResults(msgspec.Struct, frozen=True, kw_only=True):
    """What is only known at the end of a run."""

    both_orders: bool
    """Whether every match was judged in both orders."""
    dimensions: dict[str, DimensionResults]
    panel: PanelResults | msgspec.UnsetType = msgspec.UNSET
    canaries: dict[str, CanaryResults] | msgspec.UnsetType = msgspec.UNSET
    calibration: dict[FileStem, dict[str, Any]] | msgspec.UnsetType = msgspec.UNSET
    """`people`, as in a calibrated ratings file, or why there is no corrected board: `missing`."""
    gate: list[Check] | msgspec.UnsetType = msgspec.UNSET
    """The go or no-go of a pilot."""


class RunManifest(msgspec.Struct, frozen=True, kw_only=True):
    """`manifest.json` of a run, written when it starts and completed when it ends; what is not set is not written."""

    title: str | msgspec.UnsetType = msgspec.UNSET
    """The title of the tournament file."""
    note: str | msgspec.UnsetType = msgspec.UNSET
    """The note of the tournament file."""
    mode: Mode
    """`pilot` or `headline`."""
    config_path: str
    """The tournament file."""
    judge_model: str
    """The judge, or the panel by the names of its judges."""
    combine: Combine | msgspec.UnsetType = msgspec.UNSET
    """How the votes of a panel become battles: `majority`, `weight` or `rows`."""
    repeats: int | msgspec.UnsetType = msgspec.UNSET
    """How often every question was asked, if more than once."""
    task: Task | msgspec.UnsetType = msgspec.UNSET
    """`scores` or `both` where answers were scored alone; absent for pairs."""
    entrants: list[str]
    """The entrants, in the order of the file."""
    entrants_without_answers: list[str] | msgspec.UnsetType = msgspec.UNSET
    """Entrants of the file that were left out because they have no answers."""
    opponents: OpponentSettings | msgspec.UnsetType = msgspec.UNSET
    """The baseline that all others were judged against, if there was one."""
    dimensions: list[FileStem]
    """What was judged, in the order of the file."""
    bank_size: int
    """Prompts of the bank."""
    selected_prompt_count: int
    """Prompts of this run."""
    n_perms: int
    """Shuffles of permutation Elo."""
    shuffle_seed: int
    """Their seed."""
    initial_rating: float
    """Where permutation Elo starts every entrant."""
    default_k: float
    """Its points at stake."""
    k_factor_sweep: tuple[float, ...]
    """Further K values on the same shuffles."""
    pilot_seed: int
    """Seed of the pilot's draw."""
    started_at: str
    """When the run started, UTC."""
    finished_at: str | None
    """When it ended, UTC; null while it runs, or if it was interrupted."""
    limit_pairs: int | None
    """At most so many pairs a dimension were judged, or null."""
    skip_judging: bool
    """Whether only verdicts that were there before were used."""
    until: str | msgspec.UnsetType = msgspec.UNSET
    """What adaptive rounds went on for."""
    selected_prompts: list[str]
    """Ids of the prompts."""
    pairs: dict[str, int]
    """Matches by dimension."""
    answers: dict[str, int] | msgspec.UnsetType = msgspec.UNSET
    """Answers that were scored, by dimension."""
    cells: AnswerCells
    """How many of the answers are there."""
    dropped: DroppedPrompts
    """What could not be judged."""
    transcripts: TranscriptCounts | msgspec.UnsetType = msgspec.UNSET
    """Answers of agents that were shown as steps, and what was cut of them."""
    rubric_versions: dict[str, str]
    """Version of each rubric, by dimension."""
    sha256: InputHashes
    """Hashes of everything that was read."""
    versions: dict[str, str]
    """The versions of Tiltyard and Python."""
    results: RunResults | None
    """What is only known at the end; null until then."""


def manifest(
    plan: RunPlan, *, started_at: str, finished_at: str | None, results: RunResults | None = None
) -> dict[str, Any]:
    """The manifest of a run; `results` is what is only known at the end."""
    setup, matches, judge = plan.setup, plan.matches, plan.setup.config.judge
    unset = msgspec.UNSET
    manifest = RunManifest(
        title=setup.config.title or unset,
        note=setup.config.note or unset,
        mode=plan.options.mode,
        config_path=str(setup.path),
        judge_model=plan.judge_model,
        combine=judge.combine if panel_members(plan.judge_model) else unset,
        repeats=judge.repeats if judge.repeats > 1 else unset,
        task=judge.task if judge.task != "pairs" else unset,
        entrants=list(setup.entrant_ids),
        entrants_without_answers=list(plan.left_out) or unset,
        opponents=OpponentSettings(baseline=plan.baseline) if plan.baseline is not None else unset,
        dimensions=[rubric.dimension for rubric in plan.rubrics],
        bank_size=len(plan.bank),
        selected_prompt_count=len(plan.selected),
        **msgspec.structs.asdict(plan.elo),
        pilot_seed=setup.config.prompts.pilot_seed,
        started_at=started_at,
        finished_at=finished_at,
        limit_pairs=plan.options.limit_pairs,
        skip_judging=plan.options.skip_judging,
        until=str(plan.rounds.goal) if plan.rounds is not None else unset,
        selected_prompts=[prompt.prompt_id for prompt in plan.selected],
        pairs={dimension: len(cases) for dimension, cases in matches.by_dimension.items()},
        answers={dimension: len(cases) for dimension, cases in matches.answers.items()} or unset,
        cells=AnswerCells(present=matches.cells_present, expected=matches.cells_expected),
        dropped=DroppedPrompts(
            prompts_without_every_answer=list(matches.dropped_prompts),
            answers_missing=dict(matches.missing_cells),
            unanswered={
                dimension: {name: list(prompts) for name, prompts in own.items()}
                for dimension, own in matches.unanswered.items()
            }
            or unset,
            prompts_without_gold_answer=dict(matches.without_gold),
        ),
        transcripts=plan.transcripts or unset,
        rubric_versions={rubric.dimension: rubric.version for rubric in plan.rubrics},
        sha256=InputHashes(
            config=file_sha256(setup.path),
            bank=file_sha256(setup.bank_path),
            rubrics={dimension: file_sha256(path) for dimension, path in setup.rubric_paths.items()},
            responses={name: file_sha256(responses_path(setup.responses_dir, name)) for name in setup.entrant_ids},
        ),
        versions=versions(),
        results=results,
    )
    return dict(msgspec.to_builtins(manifest))


def dimension_results(judged: JudgingResult, standing: DimensionRatings) -> DimensionResults:
    """Judgments, failures and battles of a dimension."""
    counts = own_counts(judged, standing.dimension)
    return DimensionResults(
        judgments=counts.judgments,
        settled=sum(pair.a_wins + pair.b_wins + pair.ties for pair in standing.pairs),
        decisive=standing.n_decisive,
        inconsistent=sum(pair.inconsistent for pair in standing.pairs),
        failed_verdicts=dict(counts.failed_verdicts),
        missing_verdicts=counts.missing_verdicts,
        failed_questions=failed_questions(judged, standing.dimension, most=MOST_NAMED),
        bradley_terry=standing.board_missing or "ok",
        habits=standing.habits,
    )
