"""The folder of a run, made again from its verdicts: battles, ratings, counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from tiltyard.bank import Prompt
from tiltyard.errors import RunFolderError
from tiltyard.files import copy_file, write_json
from tiltyard.judging.judge import (
    JudgingResult,
    JudgingStats,
    PanelVerdicts,
    Verdicts,
    judged_answers,
    panel_name,
    settled,
)
from tiltyard.judging.panel import panel_members, study_panel
from tiltyard.judging.plan import Case, CaseImages, JudgingPlan, Rubric, scores_of
from tiltyard.judging.records import Judgment, Matchup, Verdict, prompt_columns
from tiltyard.judging.run_folder import Remade, read_lines, read_object, read_record, require
from tiltyard.judging.scoring import Scoring, make_scoring
from tiltyard.llm.provider import parse_model_name
from tiltyard.tournament.artifacts import JUDGE_PROMPTS, MatchLine, RunManifest, write_panel_battles
from tiltyard.tournament.config import EloSettings, wrong_elo
from tiltyard.tournament.plan import MatchList
from tiltyard.tournament.rounds import ROUNDS_FILE, RoundsFile
from tiltyard.tournament.run import rate_all, run_results
from tiltyard.tournament.scoring import ANSWERS_FOLDER, RESULTS_FILE, AnswerLine, DimensionScores, rate_scores
from tiltyard.tournament.summary import answers_check, gate
from tiltyard.types import FileStem

Line = TypeVar("Line")

KEPT_FILES = ("matches/matches.jsonl", JUDGE_PROMPTS, "usage.json", ROUNDS_FILE)
"""Files that verdicts do not give."""

FOLLOWS = (*EloSettings.__struct_fields__, "pairs", "answers", "results")
"""What of a run's manifest its verdicts give, or is a rule by which they were rated; all else is its maker's word."""

OTHER_WORDS = ("verdicts on canaries",)


CaseVerdicts = list[tuple[Verdict, ...]]
"""The verdicts of one judge, by case."""


class KeptJudge:
    """A judge of a run that is over, of which its verdicts are left."""

    def __init__(
        self, name: str, recorded: Mapping[str, CaseVerdicts], manifest: RunManifest, scored: Collection[str]
    ) -> None:
        self.name = name
        self._recorded = recorded
        given = [one for dimension in recorded.keys() - scored for row in recorded[dimension] for one in row]
        stated = bool(manifest.results and manifest.results.both_orders)
        self.both_orders = any(one.position_swap for one in given) if given else stated
        self.stats = {}
        for dimension, rows in recorded.items():
            questions = len(rows) * (manifest.repeats or 1) * (2 if self.both_orders and dimension not in scored else 1)
            self.stats[dimension] = JudgingStats(
                cases=len(rows),
                questions=questions,
                failures=Counter(one.verdict.value for row in rows for one in row if not one.verdict.readable),
                missing=questions - sum(map(len, rows)),
            )

    def verdicts(self, dimension: str, place: int) -> tuple[Verdict, ...]:
        return self._recorded[dimension][place]

    async def judge(self, *_: Any) -> Verdicts:
        return self

    async def aclose(self) -> None:
        """Does nothing."""


def remake(folder: Path, out: Path) -> Remade:
    """Make every file of a run again from its matches and verdicts."""
    manifest = read_record(require(folder / "manifest.json", folder), RunManifest)
    if manifest.results is None:
        raise RunFolderError(f"{folder} has not finished. Finish it with `tiltyard run`, then verify.")
    for name in KEPT_FILES:
        if (folder / name).is_file():
            copy_file(folder / name, out / name)
    cases: dict[str, list[Case]] = {name: [] for name in manifest.dimensions if manifest.task != "scores"}
    cases |= read_cases(folder)
    names = [str(parse_model_name(one)) for one in panel_members(manifest.judge_model) or (manifest.judge_model,)]
    combine = manifest.combine or None
    recorded = {
        name: _by_judge(
            [one.raw for one in _lines(folder / "verdicts" / f"{name}.jsonl", Judgment)], own, names, combine
        )
        for name, own in cases.items()
    }
    scoring = _scoring(folder)
    answers = {name: _lines(folder / ANSWERS_FOLDER / f"{name}.jsonl", AnswerLine) for name in scoring}
    alone = {
        name: [
            Case(
                Matchup(prompt_id=one.prompt_id, dimension=scores_of(name), entrant_a=one.entrant, entrant_b=""),
                Prompt(prompt_id=one.prompt_id, text=one.prompt),
                one.response,
                "",
            )
            for one in lines
        ]
        for name, lines in answers.items()
    }
    recorded |= {
        scores_of(name): _by_judge([one.raw for one in lines], alone[name], names, None)
        for name, lines in answers.items()
    }
    scored = {scores_of(name): how for name, how in scoring.items()}
    judges = [
        KeptJudge(name, {dimension: rows[place] for dimension, rows in recorded.items()}, manifest, scored)
        for place, name in enumerate(names)
    ]
    rubrics = {name: Rubric(name.removesuffix(scores_of("")), "", "") for name in recorded}
    judging_plan = JudgingPlan(
        rubrics, {**cases, **{scores_of(name): own for name, own in alone.items()}}, scoring=scored
    )
    judged = _judged(judging_plan, judges, combine)
    rounds = None
    if (folder / ROUNDS_FILE).is_file():
        rounds = msgspec.convert(read_object(folder / ROUNDS_FILE), RoundsFile)
    elo = EloSettings(**{name: getattr(manifest, name) for name in EloSettings.__struct_fields__})
    for problem in wrong_elo(elo):
        raise RunFolderError(f"{folder}: {problem}")
    baseline = manifest.opponents.baseline if manifest.opponents else None
    columns = {case.prompt.prompt_id: prompt_columns(case.prompt) for own in cases.values() for case in own}
    standings = rate_all(
        judged, elo, out, cases=cases, columns=columns, baseline=baseline, rounds=rounds, entrants=manifest.entrants
    )
    write_panel_battles(out, judged.panel, list(standings), columns)
    matches = MatchList(
        cases,
        manifest.cells.present,
        manifest.cells.expected,
        unanswered=manifest.dropped.unanswered or {},
        answers=alone,
    )
    canaries = manifest.results.canaries or {}
    usage = read_object(folder / "usage.json") if scoring else {}
    scores = rate_scores(out, judged, scoring, matches, usage, None)
    complete = answers_check(matches.cells_present, matches.cells_expected, manifest.entrants_without_answers or [])
    known_answers = msgspec.to_builtins(canaries)
    checks = gate(complete, judged, standings, known_answers, scores.dimensions) if manifest.mode == "pilot" else []
    results = run_results(judged, standings, study_panel(judging_plan, judged), canaries, checks, None)
    results = msgspec.structs.replace(results, calibration=manifest.results.calibration)
    made = msgspec.structs.replace(
        manifest,
        pairs={name: len(own) for name, own in cases.items()},
        answers={name: len(own) for name, own in alone.items()} or msgspec.UNSET,
        results=results,
    )
    write_json(out / "manifest.json", msgspec.to_builtins(made))
    calibrated = [f"ratings/calibrated/{name}.json" for name in manifest.results.calibration or ()]
    not_made = sorted(name for name in calibrated if (folder / name).is_file())
    if scoring and (canaries or b'"people' in (folder / RESULTS_FILE).read_bytes()):
        not_made.append(RESULTS_FILE)
    for name in not_made:
        copy_file(folder / name, out / name)
    rules = {**msgspec.to_builtins(elo), "baseline": baseline, "combine": combine, "repeats": manifest.repeats or None}
    rules |= {f"scores of {name}": f"{how.scale.name} {how.criteria or ''}" for name, how in scoring.items()}
    return Remade(
        verdicts=sum(len(row) for own in recorded.values() for rows in own for row in rows),
        rules=", ".join(f"{name} {value}" for name, value in rules.items() if value is not None),
        not_made=not_made,
    )


def _lines(path: Path, kind: type[Line]) -> list[Line]:
    return [one for _, one in read_lines(require(path, path.parents[1]), msgspec.json.Decoder(kind))]


def _scoring(folder: Path) -> dict[str, Scoring]:
    if not (folder / RESULTS_FILE).is_file():
        return {}
    stated = msgspec.convert(read_object(folder / RESULTS_FILE), dict[FileStem, DimensionScores])
    result = {}
    for name, one in stated.items():
        weights = {criterion: weight for criterion, weight in one.criteria.items() if weight is not None}
        result[name] = make_scoring(one.scale, weights or tuple(one.criteria))
    return result


def _by_judge(
    raw: Sequence[tuple[Verdict, ...]], cases: Sequence[Case], names: Sequence[str], combine: str | None
) -> list[CaseVerdicts]:
    """By judge and case, the verdicts; those of nobody who was asked are refused.

    The maker of a model may be spelt in capitals; the cache of verdicts does not tell them apart.
    """
    known = [name.casefold() for name in names]
    each = len(names) if combine == "rows" else 1
    if len(raw) != each * len(cases):
        raise RunFolderError(f"there are {len(raw):,} judgments, and there have to be {each * len(cases):,}.")
    result: list[CaseVerdicts] = [[] for _ in names]
    for place, case in enumerate(cases):
        own = [verdict for line in raw[place * each : (place + 1) * each] for verdict in line]
        strange = next((one.judge_model for one in own if one.judge_model.casefold() not in known), None)
        if strange is not None:
            raise RunFolderError(f"{case.matchup.prompt_id} has a verdict of {strange}, who is not the judge.")
        for judge, name in enumerate(known):
            result[judge].append(tuple(one for one in own if one.judge_model.casefold() == name))
    return result


def _judged(plan: JudgingPlan, judges: Sequence[KeptJudge], combine: Any) -> JudgingResult:
    both = all(judge.both_orders for judge in judges)
    panel = None if combine is None else PanelVerdicts(judges, judges, plan, combine)
    verdicts, judge = panel or judges[0], judges[0]
    return JudgingResult(
        judge.name if panel is None else panel_name(panel.members),
        both,
        {
            name: settled(plan, judge, name, both_orders=both)[0] if panel is None else panel.judgments(name)
            for name in plan.pair_dimensions
        },
        {},
        verdicts.stats,
        panel,
        {name: judged_answers(plan, verdicts, name, judge) for name in plan.scoring},
    )


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
