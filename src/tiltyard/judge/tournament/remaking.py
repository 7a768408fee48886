"""The folder of a run, made again from its verdicts: battles, ratings, counts."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from tiltyard.data.bank import Prompt
from tiltyard.errors import RunFolderError
from tiltyard.files import copy_file, write_json
from tiltyard.judge.llm import AskingParts, PriceTable, parse_model_name
from tiltyard.judge.tournament.artifacts import (
    JUDGE_PROMPTS,
    JudgePrompts,
    MatchLine,
    RunManifest,
    write_matches,
    write_panel_battles,
)
from tiltyard.judge.tournament.config import EloSettings, wrong_elo
from tiltyard.judge.tournament.plan import MatchList, every_pair
from tiltyard.judge.tournament.rounds import ROUNDS_FILE, RoundsFile, RoundsResult, judge_in_rounds, rounds_file
from tiltyard.judge.tournament.run import answers_check, gate, rate_all, run_results
from tiltyard.judge.tournament.scoring import ANSWERS_FOLDER, RESULTS_FILE, AnswerLine, DimensionScores, rate_scores
from tiltyard.judge.verdicts import (
    Case,
    CaseImages,
    Judge,
    JudgingOptions,
    JudgingPlan,
    JudgingStats,
    Judgment,
    LazySequence,
    Matchup,
    PanelJudge,
    Remade,
    RoundGoal,
    RoundSettings,
    Rubric,
    Verdict,
    Verdicts,
    judge,
    make_scoring,
    panel_members,
    prompt_columns,
    read_lines,
    read_object,
    read_record,
    require,
    scores_of,
    study_panel,
)
from tiltyard.types import FileStem

Line = TypeVar("Line")
Result = TypeVar("Result")

FOLLOWS = (*EloSettings.__struct_fields__, "pairs", "answers", "results")
"""What of a run's manifest its verdicts give, or is a rule by which they were rated; all else is its maker's word."""

OTHER_WORDS = ("canaries", "matches/matches.jsonl", "texts in scores/", JUDGE_PROMPTS, "usage.json")

CaseVerdicts = dict[Matchup, tuple[Verdict, ...]]
"""The verdicts of one judge, by case."""


class KeptJudge:
    """A judge of a run that is over, of which its verdicts are left."""

    def __init__(self, name: str, recorded: CaseVerdicts, repeats: int, *, both_orders: bool) -> None:
        self.name = name
        self.recorded = recorded
        self.repeats = repeats
        self.both_orders = both_orders or any(one.position_swap for row in recorded.values() for one in row)

    async def judge(self, plan: JudgingPlan, _: JudgingOptions) -> Verdicts:
        return KeptVerdicts(self, plan)

    async def aclose(self) -> None:
        """Does nothing."""


class KeptVerdicts:
    """What is left of a judge's verdicts on a plan."""

    def __init__(self, judge: KeptJudge, plan: JudgingPlan) -> None:
        self._recorded = judge.recorded
        self._plan = plan
        self.stats = {}
        for dimension in plan.dimensions:
            rows = [self._recorded.get(case.matchup, ()) for case in plan.cases.get(dimension, ())]
            orders = 2 if judge.both_orders and dimension not in plan.scoring else 1
            questions = len(rows) * judge.repeats * orders
            self.stats[dimension] = JudgingStats(
                cases=len(rows),
                questions=questions,
                failures=Counter(one.verdict.value for row in rows for one in row if not one.verdict.readable),
                missing=questions - sum(map(len, rows)),
            )

    def verdicts(self, dimension: str, place: int) -> tuple[Verdict, ...]:
        matchup = self._plan.cases[dimension][place].matchup
        if matchup not in self._recorded:
            who = f"{matchup.entrant_a} and {matchup.entrant_b} on {matchup.prompt_id}"
            raise RunFolderError(f"{dimension}: the rounds ask about {who}, which has no verdict.")
        return self._recorded[matchup]


def remake(folder: Path, out: Path) -> Remade:
    """Make every file of a run again from its matches and verdicts."""
    manifest = read_record(require(folder / "manifest.json", folder), RunManifest)
    if manifest.results is None:
        raise RunFolderError(f"{folder} has not finished. Finish it with `tiltyard run`, then verify.")
    usage = read_object(require(folder / "usage.json", folder))
    write_json(out / "usage.json", usage)
    prompts = read_record(require(folder / JUDGE_PROMPTS, folder), JudgePrompts)
    write_json(out / JUDGE_PROMPTS, prompts)
    cases: dict[str, Sequence[Case]] = {name: [] for name in manifest.dimensions if manifest.task != "scores"}
    cases |= read_cases(folder)
    names = [str(parse_model_name(one)) for one in panel_members(manifest.judge_model) or (manifest.judge_model,)]
    recorded: dict[str, CaseVerdicts] = {name.casefold(): {} for name in names}
    each = len(names) if manifest.combine == "rows" else 1
    for name, own in cases.items():
        lines = _lines(folder / "verdicts" / f"{name}.jsonl", Judgment)
        _record(recorded, [one.raw for one in lines], own, each)
    scoring = {}
    if (folder / RESULTS_FILE).is_file():
        stated = msgspec.convert(read_object(folder / RESULTS_FILE), dict[FileStem, DimensionScores])
        for name, scores in stated.items():
            weights = {criterion: weight for criterion, weight in scores.criteria.items() if weight is not None}
            scoring[name] = make_scoring(scores.scale, weights or tuple(scores.criteria))
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
    for name, scored in answers.items():
        _record(recorded, [one.raw for one in scored], alone[name], 1)
    repeats, both = manifest.repeats or 1, manifest.results.both_orders
    judges = [KeptJudge(name, recorded[name.casefold()], repeats, both_orders=both) for name in names]
    chosen: Judge = judges[0]
    if manifest.combine:
        chosen = PanelJudge(judges, folder=out, asking=AskingParts(prices=PriceTable({}, "")), combine=manifest.combine)
    singles = {scores_of(name): own for name, own in alone.items()}
    rubrics = {name: Rubric(name.removesuffix(scores_of("")), "", "") for name in (*cases, *singles)}
    how_scored = {scores_of(name): how for name, how in scoring.items()}
    judging_plan = JudgingPlan(rubrics, {**cases, **singles}, scoring=how_scored)
    rounds = None
    if (folder / ROUNDS_FILE).is_file():
        rounds = read_record(folder / ROUNDS_FILE, RoundsFile)
        went = _now(_rounds_again(rounds, manifest, judging_plan, chosen, out))
        judging_plan, judged, cases = went.judging_plan, went.judged, dict(went.judging_plan.cases)
        rounds = rounds_file(went.settings, went.dimensions)
    else:
        judged = _now(judge(judging_plan, chosen, single_order=True))
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
    write_matches(out, matches)
    canaries = manifest.results.canaries or {}
    rated = rate_scores(out, judged, scoring, matches, usage, None)
    complete = answers_check(matches.cells_present, matches.cells_expected, manifest.entrants_without_answers or [])
    known_answers = msgspec.to_builtins(canaries)
    checks = gate(complete, judged, standings, known_answers, rated.dimensions) if manifest.mode == "pilot" else []
    results = run_results(judged, standings, study_panel(judging_plan, judged), canaries, checks, None)
    results = msgspec.structs.replace(results, calibration=manifest.results.calibration)
    made = msgspec.structs.replace(
        manifest,
        pairs={name: len(own) for name, own in cases.items()},
        answers={name: len(own) for name, own in alone.items()} or msgspec.UNSET,
        until=rounds.until if rounds else msgspec.UNSET,
        results=results,
    )
    write_json(out / "manifest.json", msgspec.to_builtins(made))
    not_made = sorted(f"ratings/calibrated/{name}.json" for name in manifest.results.calibration or ())
    if scoring and b'"people' in (folder / RESULTS_FILE).read_bytes():
        not_made.append(RESULTS_FILE)
    for name in not_made:
        if (folder / name).is_file():
            copy_file(folder / name, out / name)
    rules = {**msgspec.to_builtins(elo), "baseline": baseline, "combine": manifest.combine or None}
    looks = rounds and f"{rounds.until} (level {rounds.level}, at most {rounds.planned_looks})"
    rules |= {"repeats": manifest.repeats or None, "rounds until": looks, "orders": 1 + judged.both_orders}
    asked = [case.matchup for own in (*cases.values(), *alone.values()) for case in own]
    models = {name for one in asked for name in (one.entrant_a, one.entrant_b) if name} | {*manifest.entrants}
    rules |= {f"scores of {name}": f"{how.scale.name} {how.criteria or ''}" for name, how in scoring.items()}
    return Remade(
        verdicts=sum(len(row) for own in recorded.values() for row in own.values()),
        rules=", ".join(f"{name} {value}" for name, value in rules.items() if value is not None),
        names=(models, {*cases, *alone, *manifest.dimensions}),
        not_made=not_made,
    )


def _lines(path: Path, kind: type[Line]) -> list[Line]:
    return [one for _, one in read_lines(require(path, path.parents[1]), msgspec.json.Decoder(kind))]


def _record(
    recorded: Mapping[str, CaseVerdicts], raw: Sequence[tuple[Verdict, ...]], cases: Sequence[Case], each: int
) -> None:
    """Sort verdicts by judge and case, of which each has so many lines; those of nobody who was asked are refused.

    The maker of a model may be spelt in capitals; the cache of verdicts does not tell them apart.
    """
    if len(raw) != each * len(cases):
        raise RunFolderError(f"there are {len(raw):,} judgments, and there have to be {each * len(cases):,}.")
    for place, case in enumerate(cases):
        own = [verdict for line in raw[place * each : (place + 1) * each] for verdict in line]
        strange = next((one.judge_model for one in own if one.judge_model.casefold() not in recorded), None)
        if strange is not None:
            raise RunFolderError(f"{case.matchup.prompt_id} has a verdict of {strange}, who is not the judge.")
        for name, mine in recorded.items():
            if case.matchup in mine:
                raise RunFolderError(f"{case.matchup.prompt_id} of {case.matchup.dimension} is there twice.")
            mine[case.matchup] = tuple(one for one in own if one.judge_model.casefold() == name)


async def _rounds_again(
    stated: RoundsFile, manifest: RunManifest, kept: JudgingPlan, chosen: Judge, out: Path
) -> RoundsResult:
    """The rounds of a run, gone through again: they choose what was judged, and decide what they decided."""
    settings = RoundSettings(
        goal=RoundGoal.parse(stated.until),
        opponents=stated.opponents,
        prompts=stated.prompts_per_round,
        maximum=stated.planned_looks,
        level=stated.level,
        seed=stated.seed,
    )
    known = {case.matchup: case for cases in kept.cases.values() for case in cases}

    def design(dimension: str) -> Sequence[Case]:
        possible = set(stated.dimensions[dimension].prompts)
        prompts = [one for one in manifest.selected_prompts if one in possible]
        pairs = every_pair(manifest.entrants, prompts, limit_pairs=manifest.limit_pairs)

        def case(number: int) -> Case:
            prompt, a, b = pairs[number]
            matchup = Matchup(prompt_id=prompt, dimension=dimension, entrant_a=a, entrant_b=b)
            return known.get(matchup) or Case(matchup, Prompt(prompt_id=prompt, text=""), "", "")

        return LazySequence(len(pairs), case)

    plan = JudgingPlan(kept.rubrics, {name: design(name) for name in manifest.dimensions})
    return await judge_in_rounds(settings, plan, manifest.entrants, chosen, out, skip_judging=manifest.skip_judging)


def _now(work: Coroutine[Any, Any, Result]) -> Result:
    """What the work comes to, in a thread of its own: in this one a loop may be running."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, work).result()


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
