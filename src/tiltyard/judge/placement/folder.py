"""The folder of a placement: its files, its manifest as records, and the ratings computed from nothing but them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from tiltyard.analysis.boards import (
    DEFAULT_INPUT,
    Leaderboard,
    RatingEntry,
    RatingsFile,
    as_table,
    rate_with,
    read_for,
    start_hashing,
    whole,
)
from tiltyard.data.battles import BattleTable, Opened, Outcome, Source, concat, read_battles, write_battles
from tiltyard.errors import RatingError, RunFolderError
from tiltyard.files import write_arrays, write_json, write_lines, write_text
from tiltyard.judge.placement.plan import PlacementPlan
from tiltyard.judge.placement.rating import (
    HumanBoard,
    NewModelRating,
    Recipe,
    calibration_rows,
    judge_scale,
    rate_new_model,
)
from tiltyard.judge.placement.robustness import FamilyCheck, Sensitivity, check_families, sensitivity
from tiltyard.judge.placement.rounds import NO_ANSWER, CalibrationLine, JudgeCalibration, PanelResult, judged_battles
from tiltyard.judge.placement.sampling import Panel, read_panel, text_hash
from tiltyard.judge.verdicts import (
    MOST_INCONSISTENT,
    AnyJudgment,
    Check,
    Judgment,
    Remade,
    again,
    measure_bias,
    read_lines,
    read_object,
    read_record,
    require,
    resettled,
)
from tiltyard.stats import POINTS_PER_LOGIT, Estimate, JudgeScale, ScaledPlacement, share


class ArenaFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The human battles among which the model is placed."""

    name: str
    files: tuple[str, ...]
    sha256: dict[str, str]
    """Hashes of the files."""
    human_battles: float
    models: int
    questions: int
    with_text: int
    """Answers whose text is known."""


class RubricFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What the judge was asked to judge by."""

    dimension: str
    version: str


class Looks(msgspec.Struct, frozen=True, kw_only=True):
    """The planned number of looks at the estimate, and what would have ended the judging early."""

    planned: int
    """Looks at which the run may stop."""
    sizes: tuple[int, ...]
    """Battles of each round."""
    critical: float | None = None
    """Pocock's constant, if a run may stop on its rank."""
    until: str | None = None
    """The stopping rule."""


class Round(msgspec.Struct, frozen=True, kw_only=True):
    """The estimate after a round; null where its battles did not allow a rating yet."""

    round: int
    battles: int
    """All that were judged until then."""
    rating: float | None = None
    ci_low: float | None = None
    ci_high: float | None = None
    rank_low: int | None = None
    rank_high: int | None = None

    @classmethod
    def of(cls, number: int, battles: int, entry: RatingEntry | None) -> Round:
        names = ("rating", "ci_low", "ci_high", "rank_low", "rank_high") if entry is not None else ()
        return cls(round=number, battles=battles, **{name: getattr(entry, name) for name in names})


class JudgedFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Outcomes of the judged battles; a failed one is in no other count."""

    battles: int
    wins: float
    """Won by the new model."""
    losses: float
    ties: float
    """With the inconsistent ones."""
    inconsistent: int
    """Changed with the order."""
    failed: int
    failed_by: dict[str, int]
    """Why, by name."""
    no_answer: dict[str, str]
    """Questions that the new model did not answer (20 at most), and why."""


class Flips(msgspec.Struct, frozen=True, kw_only=True):
    """How often the verdict changed with the order of the answers; null if no battle has two readable verdicts."""

    share: float | None
    low: float | None
    high: float | None
    n: int
    """Battles it is based on."""

    @classmethod
    def of(cls, rate: Estimate) -> Flips:
        return cls(share=rate.value, low=rate.low, high=rate.high, n=rate.n)

    def check(self) -> Check:
        changed = round((self.share or 0.0) * self.n)
        why = f"{changed} of {self.n} verdicts changed with the order of the answers"
        if passed := (self.share or 0.0) <= MOST_INCONSISTENT:
            return Check("judge consistent", passed, why)
        return Check("judge consistent", passed, f"{why}: this place says more about the judge than about the model")


class JudgeAgainstPeople(msgspec.Struct, frozen=True, kw_only=True):
    """The judge's calibration: its scale against people's, and what that adds to the variance, in rating points."""

    asked: int | UnsetType = UNSET
    """Battles the judge was asked about; in the manifest alone, as are `agreement` and `flips`."""
    compared: int
    """Battles behind it."""
    models: int
    """Models in them."""
    slope: float
    """β: the judge's logits for one of people's."""
    slope_low: float | None = None
    slope_high: float | None = None
    slot_points: float
    """γ: the advantage of the first slot, in points of the judge's scale."""
    tau_points: float
    """τ: spread of its bias for or against single models, in points of the judge's scale."""
    floor_points: float
    """τ/β: in people's points; more battles do not lower it."""
    variance_points2: dict[str, float]
    """Parts of the variance: `sampling` of questions and battles, `idiosyncrasy` (bias for or against single models),
    `slope`, and `anchors` (people's own uncertainty)."""
    warnings: tuple[str, ...]
    agreement: Estimate | UnsetType = UNSET
    """With people, where neither says tie."""
    flips: Flips | UnsetType | None = UNSET


class PlacementMode(msgspec.Struct, frozen=True):
    """How a placement is rated."""

    mode: str
    """`joint`, `fixed` or `calibrated`."""
    overall_level: float
    """Confidence level of all looks together."""


class PlacementFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What the ratings file of a placement says beside what every ratings file does."""

    placement: PlacementMode
    calibration: JudgeAgainstPeople | UnsetType = UNSET
    sensitivity: Sensitivity
    """What a style bias that nothing measured would do."""
    families: FamilyCheck | UnsetType = UNSET


class LeaveOneOut(msgspec.Struct, frozen=True, kw_only=True):
    """People's own rating of the placed model, which the placement did not use."""

    human_rating: float
    human_ci_low: float | None = None
    human_ci_high: float | None = None
    human_battles: float
    human_rank: int
    error: float
    """The placed rating minus people's."""
    covered: bool
    """Whether the interval contains people's rating."""


class Information(msgspec.Struct, frozen=True, kw_only=True):
    """The information of a judged battle, as a share of the best possible."""

    per_battle: float
    limit: float
    """The same for battles against random opponents."""


class PanelFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Which battles were chosen, and how."""

    fingerprint: str
    sampling: str
    battles: int
    opponents: int
    questions: int


class StartedManifest(msgspec.Struct, frozen=True, kw_only=True):
    """What is known when a placement starts: settings, inputs and seeds."""

    kind: str
    """`placement`."""
    arena: ArenaFacts
    model: str
    """The new model."""
    model_source: str
    """`--model` as given."""
    judge_model: str
    """The judge."""
    rubric: RubricFacts
    options: dict[str, Any]
    """Every option: see [settings](python/judge.placement.md)."""
    recipe: Recipe
    rate_command: str | None
    """The command that reproduces the ratings of a joint fit."""
    seed: int
    """Of sampling, sides and bootstrap."""
    both_orders: bool
    """Whether both orders were judged."""
    looks: Looks
    started_at: str
    """UTC."""
    finished_at: str | None = None
    """Null until it is finished; everything below `versions` is written then."""
    versions: dict[str, str]
    """The versions of Tiltyard and Python."""


class PlacementManifest(StartedManifest, frozen=True, kw_only=True):
    """`manifest.json` of a placement: inputs, written when it starts, and results, from `rounds` on."""

    rounds: tuple[Round, ...]
    stopped: str
    """Why it ended."""
    judged: JudgedFacts
    flips: Flips | None = None
    gate: tuple[Check, ...] = ()
    """What speaks against the placement itself: NO-GO where a check did not pass, as with a pilot."""
    calibration: JudgeAgainstPeople | None = None
    leave_one_out: LeaveOneOut | None = None
    information: Information
    panel: PanelFacts
    sensitivity: Sensitivity
    families: FamilyCheck | None = None

    @property
    def scale(self) -> str:
        return JUDGE_SCALE if self.calibration is None else PEOPLE_SCALE


PEOPLE_SCALE = "on people's scale (calibrated)"
JUDGE_SCALE = "on the judge's scale (sampling error only: does not cover judge bias)"


PLACE = "tiltyard place"
"""The command that writes the folder."""


class PlacementText(msgspec.Struct, frozen=True, kw_only=True):
    """A line of `texts.jsonl`: the texts of a judged battle."""

    question_id: str
    opponent: str
    language: str | None
    prompt: str
    """What was asked."""
    model_answer: str
    opponent_answer: str


def write_evidence(
    folder: Path, plan: PlacementPlan, result: PanelResult, calibration: JudgeCalibration | None
) -> None:
    """The files that ratings are computed from: battles, verdicts, calibration; and the texts beside them."""
    write_lines(folder / "verdicts.jsonl", result.judgments)
    write_lines(
        folder / "texts.jsonl",
        (
            PlacementText(
                question_id=battle.planned.question_id,
                opponent=battle.planned.opponent,
                language=battle.exchange.language,
                prompt=battle.exchange.prompt,
                model_answer=battle.answer,
                opponent_answer=battle.exchange.answer,
            )
            for battle in result.battles
            if battle.answer is not None
        ),
    )
    if calibration is not None:
        write_lines(folder / "calibration.jsonl", calibration.lines)
    write_battles(folder / "battles.jsonl", concat([judged_battles(result.judgments), plan.human]))


class FolderRatings(msgspec.Struct, frozen=True, eq=False):
    """The result of rating a folder: the board, the joint fit (the same for a plain run), and the ratings report."""

    board: Leaderboard
    joint: Leaderboard
    rating: NewModelRating
    report: RatingsFile
    facts: PlacementFacts

    def render(self, format: str = "table") -> str:
        """The board as `table`, `json` (`elo_ratings.json`), `csv`, `md` or `latex`."""
        return self.report.to_json() if format == "json" else self.board.render(format)


def rate_folder(folder: Path, recipe: Recipe) -> FolderRatings:
    """The ratings of a placement, from its battles and verdicts alone.

    Parameters:
        folder: The folder of a placement.
        recipe: How it is rated.
    """
    path = folder / "battles.jsonl"
    opened, estimator = Opened(path), recipe.estimator()
    came_from = start_hashing(opened)
    joint = rate_with(estimator, read_for(estimator, opened, DEFAULT_INPUT))
    origin = came_from()
    joint = replace(joint, settings=msgspec.structs.replace(joint.settings, **origin))
    battles = read_battles(opened)
    people = HumanBoard.of(battles.take(battles.source == Source.HUMAN.code).compact(), recipe.anchor)
    judgments = read_judgments(folder, "verdicts.jsonl")
    scale, families = None, None
    if recipe.mode == "calibrated":
        calibration = read_judgments(folder, "calibration.jsonl")
        scale = judge_scale(people, calibration)
        if recipe.families:
            rows = calibration_rows(calibration, people)
            families = check_families(people.anchors, people.models, rows, recipe.families, recipe.overall_level)
    rating = rate_new_model(recipe, people, battles, judgments, scale)
    if recipe.mode == "joint":
        board = replace(joint, remarks=(*joint.remarks, f"{recipe.model}: judge's scale, sampling error only"))
    else:
        plain = joint[recipe.model]
        extra = {
            "judge_scale_rating": plain.rating,
            "judge_scale_ci_low": plain.ci_low,
            "judge_scale_ci_high": plain.ci_high,
        }
        placed = replace(rating.entry, extra={**rating.entry.extra, **extra})
        entries = tuple(placed if entry.model == recipe.model else entry for entry in rating.board)
        board = replace(
            rating.board, entries=entries, settings=msgspec.structs.replace(rating.board.settings, **origin)
        )
    report = RatingsFile.of(board, arena=recipe.arena, model=recipe.model, judge_model=recipe.judge_model)
    floor = 0.0 if scale is None else POINTS_PER_LOGIT * scale.floor
    measured: JudgeAgainstPeople | UnsetType = UNSET
    if rating.scaled is not None and scale is not None:
        measured = _calibration(scale, rating.scaled, recipe.overall_level)
    facts = PlacementFacts(
        placement=PlacementMode(recipe.mode, recipe.overall_level),
        calibration=measured,
        sensitivity=sensitivity(board, recipe.model, recipe.sensitivity, floor),
        families=UNSET if families is None else families,
    )
    further = msgspec.to_builtins(facts, enc_hook=float)
    report = replace(report, further=further, n_bootstraps=recipe.bootstraps, seed=recipe.seed)
    return FolderRatings(board, joint, rating, report, facts)


def _calibration(scale: JudgeScale, scaled: ScaledPlacement, level: float) -> JudgeAgainstPeople:
    """The calibration's results in rating points."""
    low, high = scale.slope_interval(level)
    parts = ("sampling", "idiosyncrasy", "slope", "anchors")
    return JudgeAgainstPeople(
        compared=scale.n_battles,
        models=scale.n_models,
        slope=scale.slope,
        slope_low=low,
        slope_high=high,
        slot_points=POINTS_PER_LOGIT * scale.slot,
        tau_points=POINTS_PER_LOGIT * scale.tau,
        floor_points=POINTS_PER_LOGIT * scale.floor,
        variance_points2={name: POINTS_PER_LOGIT**2 * getattr(scaled.variance, name) for name in parts},
        warnings=tuple(dict.fromkeys([*scale.warnings, *scaled.warnings])),
    )


def write_ratings(folder: Path, rated: FolderRatings) -> None:
    """`elo_ratings.json`, `bootstrap_ratings.npz` and `leaderboard.txt`."""
    rated.report.write(folder / "elo_ratings.json")
    rounds = rated.joint.arrays.get("bootstrap_ratings")
    if rounds is not None:
        arrays = {"ratings": rounds, "models": rated.joint.arrays["models"]}
        write_arrays(folder / "bootstrap_ratings.npz", arrays, compressed=True)
    write_text(folder / "leaderboard.txt", as_table(rated.board) + "\n")


def read_judgments(folder: Path, name: str) -> list[Judgment]:
    """The judgments of a file of a placement."""
    path = require(folder / name, folder, PLACE)
    return [judgment for _, judgment in read_lines(path, msgspec.json.Decoder(Judgment), PLACE)]


def read_recipe(folder: Path) -> Recipe:
    """The recipe of a folder's ratings.

    Parameters:
        folder: The folder of a placement.
    """
    path = require(folder / "manifest.json", folder, PLACE)
    manifest = read_object(path, PLACE)
    if manifest.get("kind") != "placement":
        raise RunFolderError(f"{folder} is not the folder of a placement. Give one that `tiltyard place` wrote.")
    try:
        return msgspec.convert(manifest.get("recipe"), Recipe)
    except msgspec.ValidationError as error:
        raise RunFolderError(f"{path}: without its recipe ({error}). {again(PLACE)}") from None


def panel_results(
    judgments: Sequence[Judgment], rated: FolderRatings, panel: Panel, *, both_orders: bool, no_answer: dict[str, str]
) -> dict[str, Any]:
    """What the manifest says of the judgments of a panel, failed ones included, and of their ratings."""
    unanswered = len(panel.battles) - len(judgments)
    failed: Counter[str] = Counter({NO_ANSWER: unanswered} if unanswered else {})
    for judgment in judgments:
        if judgment.status != "ok":
            failed[next((one.verdict.value for one in judgment.raw if not one.verdict.readable), "missing")] += 1
    entry, flips = rated.rating.entry, flips_of(judgments, both_orders=both_orders)
    return {
        "judged": JudgedFacts(
            battles=sum(judgment.status == "ok" for judgment in judgments),
            wins=whole(entry.wins),
            losses=whole(entry.losses),
            ties=whole(entry.ties),
            inconsistent=sum(judgment.inconsistent for judgment in judgments),
            failed=failed.total(),
            failed_by=dict(failed),
            no_answer=no_answer,
        ),
        "flips": flips,
        "gate": () if flips is None or flips.share is None else (flips.check(),),
        "panel": PanelFacts(
            fingerprint=panel.fingerprint,
            sampling=panel.sampling,
            battles=len(panel.battles),
            opponents=len({planned.opponent for planned in panel.battles}),
            questions=len({planned.question_id for planned in panel.battles}),
        ),
        "sensitivity": rated.facts.sensitivity,
        "families": rated.facts.families or None,
    }


def flips_of(judgments: Sequence[Judgment], *, both_orders: bool) -> Flips | None:
    """How often verdicts changed with the order of the answers; None where one order was judged."""
    return Flips.of(measure_bias(list(judgments)).flip_rate) if both_orders else None


def against_people(rated: FolderRatings, lines: Sequence[CalibrationLine], *, both_orders: bool) -> JudgeAgainstPeople:
    """What the manifest says of the judge's calibration; it agrees with people where neither says tie."""
    decided = [line for line in lines if line.winner is not None and line.human_winner != Outcome.TIE.value]
    agrees = [line.human_winner == ("model_a" if line.winner == line.entrant_a else "model_b") for line in decided]
    assert rated.facts.calibration
    return msgspec.structs.replace(
        rated.facts.calibration,
        asked=len(lines),
        agreement=share(agrees, [line.prompt_id for line in decided]),
        flips=flips_of(lines, both_orders=both_orders),
    )


def write_manifest(folder: Path, manifest: StartedManifest) -> None:
    """`manifest.json`; a rating may be one of NumPy's floats."""
    write_json(folder / "manifest.json", msgspec.to_builtins(manifest, enc_hook=float))


FOLLOWS = ("rounds", "gate", "rate_command", "judged", "flips", "calibration", "panel", "sensitivity", "families")
"""What of a placement's manifest its verdicts give; all else is its maker's word."""

OTHER_WORDS = ("why questions have no answer", "after how many battles it was rated", "texts.jsonl", "usage.json")


def remake(folder: Path, out: Path) -> Remade:
    """Make every file of a placement again from its verdicts, people's battles and its recipe.

    Parameters:
        folder: The folder of a placement.
        out: An empty folder.
    """
    path = require(folder / "manifest.json", folder, PLACE)
    recipe = read_recipe(folder)
    manifest = read_record(path, PlacementManifest, PLACE)
    both, panel = manifest.both_orders, read_panel(require(folder / "panel.json", folder, PLACE))
    judgments = [_settled(one, recipe, both_orders=both) for one in read_judgments(folder, "verdicts.jsonl")]
    write_lines(out / "verdicts.jsonl", judgments)
    lines = read_lines(require(folder / "texts.jsonl", folder, PLACE), msgspec.json.Decoder(PlacementText), PLACE)
    texts = [one for _, one in lines]
    _check_panel(folder, panel, judgments, texts, manifest)
    write_lines(out / "texts.jsonl", texts)
    panel = msgspec.structs.replace(panel, arena=recipe.arena, arena_sha256=manifest.arena.sha256, seed=manifest.seed)
    write_json(out / "panel.json", msgspec.to_builtins(panel))
    human = read_battles(folder / "battles.jsonl")
    human = human.take(human.source == Source.HUMAN.code).compact()
    write_battles(out / "battles.jsonl", concat([judged_battles(judgments), human]))
    calibration: list[CalibrationLine] = []
    if recipe.mode == "calibrated":
        path = require(folder / "calibration.jsonl", folder, PLACE)
        lines = read_lines(path, msgspec.json.Decoder(CalibrationLine))
        calibration = [msgspec.structs.replace(_settled(one, recipe, both_orders=both), weight=1) for _, one in lines]
        _check_people(path, calibration, human, manifest.rubric.dimension)
        write_lines(out / "calibration.jsonl", calibration)
    write_json(out / "usage.json", read_object(require(folder / "usage.json", folder, PLACE), PLACE))
    rated = rate_folder(out, recipe)
    write_ratings(out, rated)
    people, alone, rounds = HumanBoard.of(human, recipe.anchor), manifest.leave_one_out, []
    settled = [one for one in judgments if one.status == "ok"]
    looks = [one.battles for one in manifest.rounds[: len(panel.battles)]][:-1]
    for number, end in enumerate([*looks, len(settled)], start=1):
        entry, part = None, settled[:end]
        with suppress(RatingError):
            battles = concat([judged_battles(part), human])
            entry = rate_new_model(recipe, people, battles, part, rated.rating.scale).entry
        rounds.append(Round.of(number, len(part), entry))
    manifest = msgspec.structs.replace(
        manifest,
        leave_one_out=alone and msgspec.structs.replace(alone, human_battles=whole(alone.human_battles)),
        model=recipe.model,
        judge_model=recipe.judge_model,
        rounds=tuple(rounds),
        rate_command=recipe.rate_command("battles.jsonl") if recipe.mode == "joint" else None,
        arena=msgspec.structs.replace(manifest.arena, name=recipe.arena, human_battles=whole(human.n_battles)),
        calibration=against_people(rated, calibration, both_orders=both) if calibration else None,
        **panel_results(judgments, rated, panel, both_orders=both, no_answer=manifest.judged.no_answer),
    )
    write_manifest(out, manifest)
    rules = ", ".join(f"{name} {value}" for name, value in msgspec.to_builtins(recipe).items() if value is not None)
    verdicts = sum(len(one.raw) for one in (*judgments, *calibration))
    return Remade(verdicts=verdicts, rules=rules, names=({*human.models, recipe.model},))


def _settled(one: AnyJudgment, recipe: Recipe, both_orders: bool) -> AnyJudgment:
    strange = next((verdict.judge_model for verdict in one.raw if verdict.judge_model != recipe.judge_model), None)
    if strange is not None:
        raise RunFolderError(
            f"{one.prompt_id}: the verdict is of {strange}, and the judge of this placement {recipe.judge_model}."
        )
    return resettled(one, both_orders=both_orders)


def _check_panel(
    folder: Path,
    panel: Panel,
    judgments: Sequence[Judgment],
    texts: Sequence[PlacementText],
    manifest: PlacementManifest,
) -> None:
    """Refuse judgments on other battles than those that were chosen, and texts that are not theirs."""
    planned, answered = iter(panel.battles), []
    for one in judgments:
        for battle in planned:
            sides = [manifest.recipe.model, battle.opponent]
            shown = sides if battle.first == "model" else sides[::-1]
            if (battle.question_id, *shown) == (one.prompt_id, one.entrant_a, one.entrant_b):
                answered.append((battle.question_id, battle.opponent, battle.sha256))
                break
        else:
            raise RunFolderError(
                f"{folder / 'verdicts.jsonl'}: {one.prompt_id}, {one.entrant_a} – {one.entrant_b} is not at its place "
                "in panel.json."
            )
        if one.dimension != manifest.rubric.dimension:
            raise RunFolderError(
                f"{folder / 'verdicts.jsonl'}: {one.dimension} was judged, not {manifest.rubric.dimension}."
            )
    if answered != [(one.question_id, one.opponent, text_hash(one.prompt, one.opponent_answer)) for one in texts]:
        raise RunFolderError(f"{folder / 'texts.jsonl'} has not the texts that panel.json names for these verdicts.")


def _check_people(path: Path, lines: Sequence[CalibrationLine], human: BattleTable, dimension: str) -> None:
    """Refuse decisions that are not among people's battles; where these are counts, they name no question."""
    questions = human.text_column("question_id").texts()
    counts = {*questions} == {None}
    asked = {None if counts else line.prompt_id for line in lines}
    known = {
        (question, *names, outcome)
        for table in (human, human.swapped())
        for question, a, b, code in zip(questions, table.model_a, table.model_b, table.outcome, strict=True)
        if question in asked
        for names, outcome in [((table.models[a], table.models[b]), Outcome.of_code(code).value)]
    }
    for number, line in enumerate(lines, start=1):
        question = None if counts else line.prompt_id
        if (question, line.entrant_a, line.entrant_b, line.human_winner) not in known or line.dimension != dimension:
            raise RunFolderError(
                f"{path}:{number}: people did not decide so on {line.prompt_id}, {line.entrant_a} – {line.entrant_b}."
            )
