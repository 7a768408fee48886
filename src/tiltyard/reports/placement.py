"""The report of a placement: its run folder as one record, what is counted of it, and the values of its template."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec

from tiltyard.analysis.boards import Leaderboard, RatingEntry, RatingsFile, footnotes, headline, interval_head
from tiltyard.data.bank import Prompt
from tiltyard.data.battles import Outcome
from tiltyard.errors import BattleError, RunFolderError
from tiltyard.judge.placement import CalibrationLine, Panel, PlacementManifest, PlacementText
from tiltyard.judge.verdicts import again, read_lines, read_object, read_record, require
from tiltyard.render import Scale, package_text
from tiltyard.reports.front import weak_points
from tiltyard.reports.run import (
    Dimension,
    JudgedBattle,
    Run,
    check_texts,
    grouped,
    keep_answers,
    read_board,
    read_judged,
)
from tiltyard.reports.sections import Behaviour, as_leaderboard, behaviour, board_view, share_interval, source_address
from tiltyard.reports.site_map import Here
from tiltyard.stats import POINTS_PER_LOGIT, normal_quantile

PLACE = "tiltyard place"
"""The command that writes such a folder."""

UNKNOWN_LANGUAGE = "language unknown"


Heard = tuple[str, str]
"""What people said of a battle (`one`, `tie`, `both bad`) and what the judge did (`same`, `other`, `tie`, …)."""


@dataclass(frozen=True, eq=False)
class Placement:
    """Everything a placement's report shows. `run` holds the judged battles; their dimension is the rubric's."""

    run: Run
    manifest: PlacementManifest
    report: RatingsFile
    panel: Panel
    against_people: Mapping[Heard, int]
    """Counts of the judge's label by people's label."""

    @property
    def model(self) -> str:
        return self.manifest.model

    @property
    def dimension(self) -> str:
        return self.manifest.rubric.dimension

    @cached_property
    def board(self) -> Leaderboard:
        return as_leaderboard(self.report)

    @cached_property
    def entry(self) -> RatingEntry:
        return self.board[self.model]

    @cached_property
    def entries(self) -> Mapping[str, RatingEntry]:
        return {entry.model: entry for entry in self.board}

    def rating(self, name: str) -> float | None:
        return self.entries[name].rating if name in self.entries else None

    def opponent(self, battle: JudgedBattle) -> str:
        return battle.entrant_b if battle.entrant_a == self.model else battle.entrant_a

    def language(self, battle: JudgedBattle) -> str:
        return self.run.prompts[battle.prompt_id].source


def read_placement(folder: str | Path) -> Placement:
    """Read a finished placement; a missing or incomplete file is one clear error."""
    folder = Path(folder)
    path = require(folder / "manifest.json", folder, PLACE)
    manifest = read_record(path, PlacementManifest, PLACE)
    report = read_board(require(folder / "elo_ratings.json", folder, PLACE), PLACE)
    if manifest.model not in [entry.model for entry in report.ratings]:
        raise RunFolderError(f"{folder / 'elo_ratings.json'}: no rating of {manifest.model}. {again(PLACE)}")
    panel = read_record(require(folder / "panel.json", folder, PLACE), Panel, PLACE)
    require(folder / "battles.jsonl", folder, PLACE)
    run = _run(folder, read_object(path, PLACE), manifest, report)
    people: Counter[Heard] = Counter()
    if manifest.calibration is not None:
        path = require(folder / "calibration.jsonl", folder, PLACE)
        for place, line in read_lines(path, msgspec.json.Decoder(CalibrationLine), PLACE):
            try:
                people[_heard(line, Outcome(line.human_winner))] += 1
            except BattleError as error:
                raise RunFolderError(f"{path}:{place.number}: {error}. {again(PLACE)}") from None
    return Placement(run=run, manifest=manifest, report=report, panel=panel, against_people=people)


def _run(folder: Path, raw: Mapping[str, Any], manifest: PlacementManifest, report: RatingsFile) -> Run:
    """The judged battles as a run of one dimension, with the placed model first and its opponents by their rating."""
    prompts, answers = _texts(require(folder / "texts.jsonl", folder, PLACE), manifest.model)
    path, model = require(folder / "verdicts.jsonl", folder, PLACE), manifest.model
    battles = read_judged({manifest.rubric.dimension: path}, folder, PLACE)
    for battle in battles:
        if model not in battle.entrants:
            met = " and ".join(battle.entrants)
            raise RunFolderError(f"{path}:{battle.line.number}: a battle of {met}, not of {model}. {again(PLACE)}")
    check_texts(battles, prompts, answers, "texts.jsonl", PLACE)
    names = {name for battle in battles for name in battle.entrants}
    rated = [entry.model for entry in report.ratings if entry.model in names]
    usage = folder / "usage.json"
    decisive = sum(battle.winner is not None for battle in battles)
    return Run(
        folder=folder,
        manifest=raw,
        usage=read_object(usage, PLACE) if usage.is_file() else None,
        default_k=0.0,
        entrants=tuple(dict.fromkeys([model, *rated, *sorted(names)])),
        dimensions=(Dimension(manifest.rubric.dimension, decisive, report),),
        prompts=prompts,
        answers=answers,
        battles=battles,
    )


def _texts(path: Path, model: str) -> tuple[dict[str, Prompt], dict[tuple[str, str], str]]:
    """Every question and every answer once. The language takes the place of a prompt's source."""
    prompts: dict[str, Prompt] = {}
    answers: dict[tuple[str, str], str] = {}
    for place, line in read_lines(path, msgspec.json.Decoder(PlacementText), PLACE):
        texts = {model: line.model_answer, line.opponent: line.opponent_answer}
        keep_answers(answers, line.question_id, texts, f"{path}:{place.number}", PLACE)
        language = line.language or UNKNOWN_LANGUAGE
        prompts.setdefault(line.question_id, Prompt(prompt_id=line.question_id, text=line.prompt, source=language))
    return prompts, answers


def _heard(line: CalibrationLine, human: Outcome) -> Heard:
    people = {Outcome.TIE: "tie", Outcome.BOTH_BAD: "both bad"}.get(human, "one")
    chosen = {Outcome.A: line.entrant_a, Outcome.B: line.entrant_b}.get(human)
    if line.status != "ok":
        return people, "failed"
    if line.winner is None:
        return people, "changed" if line.inconsistent else "tie"
    if chosen is None:
        return people, "one"
    return people, "same" if line.winner == chosen else "other"


OUTCOMES = ("won", "lost", "tie", "inconsistent", "failed")


def outcome(model: str, battle: JudgedBattle) -> str:
    """The outcome of a battle for the model, one of `OUTCOMES`."""
    if battle.settled and battle.winner is not None:
        return "won" if battle.winner == model else "lost"
    return battle.outcome


class Results(msgspec.Struct, frozen=True):
    """Outcomes counted from the model's side. An inconsistent battle is also a tie; a failed one is not counted."""

    won: int
    lost: int
    tied: int
    inconsistent: int
    failed: int
    expected_sum: float | None
    """The sum of the expected scores of the settled battles; None if an opponent has no rating."""

    @property
    def n(self) -> int:
        return self.won + self.lost + self.tied

    @property
    def score(self) -> float | None:
        return (self.won + 0.5 * self.tied) / self.n if self.n else None

    @property
    def interval(self) -> tuple[float, float] | None:
        """Wilson's interval of the score: a little too wide where there are ties, never too narrow."""
        return share_interval(self.won + 0.5 * self.tied, self.n)

    @property
    def expected(self) -> float | None:
        return self.expected_sum / self.n if self.n and self.expected_sum is not None else None


def count_results(placed: Placement, battles: Iterable[JudgedBattle]) -> Results:
    """These battles, counted."""
    counts = dict.fromkeys(OUTCOMES, 0)
    expected: float | None = 0.0
    for battle in battles:
        counts[outcome(placed.model, battle)] += 1
        if battle.settled and expected is not None:
            one = expected_score(placed, placed.opponent(battle))
            expected = None if one is None else expected + one
    tied = counts["tie"] + counts["inconsistent"]
    return Results(counts["won"], counts["lost"], tied, counts["inconsistent"], counts["failed"], expected)


def expected_score(placed: Placement, opponent: str) -> float | None:
    """The chance to win and half that to tie, by the board's ratings and its model of the judge's ties.

    A calibrated rating is on people's scale, but the battles are on the judge's: its slope and slot advantage convert
    between them, and a battle judged in both orders scores the average of its two verdicts.
    """
    if opponent not in placed.entries:
        return None
    delta = (placed.entry.rating - placed.entries[opponent].rating) / POINTS_PER_LOGIT
    scale = placed.report.further.get("calibration")
    if scale is not None:
        slot = scale["slot_points"] / POINTS_PER_LOGIT
        return 0.5 * (_share(scale["slope"] * delta + slot) + _share(scale["slope"] * delta - slot))
    parameters = placed.report.details.tie_parameters or {}
    tie = parameters.get("llm-judge", parameters.get("all"))
    model = placed.report.settings.tie_model
    if tie is not None and model == "davidson":
        up = math.exp(0.5 * delta)
        return (up + 0.5 * tie) / (up + 1.0 / up + tie)
    if tie is not None and model == "rao-kupper":
        return 0.5 * (1.0 + _share(delta - math.log(tie)) - _share(-delta - math.log(tie)))
    return _share(delta)


def _share(logit: float) -> float:
    return 0.5 * (1.0 + math.tanh(0.5 * logit))


def disagreements(placed: Placement) -> list[str]:
    """A sentence for every number that disagrees with the files it was computed from; none if all is well."""
    counted, judged, entry = count_results(placed, placed.run.battles), placed.manifest.judged, placed.entry
    pairs = {
        "wins": (judged.wins, counted.won),
        "losses": (judged.losses, counted.lost),
        "ties": (judged.ties, counted.tied),
        "inconsistent battles": (judged.inconsistent, counted.inconsistent),
        "failed battles": (judged.failed, counted.failed),
    }
    lines = [
        f"manifest.json counts {written:,} {what}, the verdicts {seen:,}"
        for what, (written, seen) in pairs.items()
        if written != seen
    ]
    dropped = counted.inconsistent if placed.report.settings.inconsistent == "drop" else 0
    written, seen = [entry.wins, entry.losses, entry.ties], [counted.won, counted.lost, counted.tied - dropped]
    if written != seen:
        lines.append(f"the board gives {entry.model} (won, lost, tied) {written}, the verdicts {seen}")
    flips, flipped = placed.manifest.flips, behaviour(placed.run.battles).flips
    if flips is not None and flips.share is not None and flipped.value is not None:
        equal = math.isclose(flips.share, flipped.value, rel_tol=1e-9, abs_tol=1e-12)
        if flips.n != flipped.n or not equal:
            lines.append(
                f"manifest.json has {flips.share:.3f} of {flips.n:,} changed, the verdicts {flipped.hits:,} of "
                f"{flipped.n:,}"
            )
    if placed.manifest.rounds:  # the last round and the board are the same estimate
        last = placed.manifest.rounds[-1].rating
        known = [value for value in (entry.rating, entry.extra.get("judge_scale_rating")) if value is not None]
        if last is None:
            lines.append(f"the last round has no rating, the board {entry.rating:.1f}")
        elif not any(math.isclose(last, value, rel_tol=0.0, abs_tol=0.05) for value in known):
            lines.append(f"the last round has {last:.1f}, the board {entry.rating:.1f}")
    if placed.panel.fingerprint != placed.manifest.panel.fingerprint:
        lines.append("panel.json has another fingerprint than manifest.json")
    planned = {(battle.question_id, battle.opponent) for battle in placed.panel.battles}
    found = {(battle.prompt_id, placed.opponent(battle)) for battle in placed.run.battles}
    if planned - found:
        lines.append(f"{len(planned - found):,} battles of panel.json have no line in verdicts.jsonl")
    if found - planned:
        lines.append(f"{len(found - planned):,} battles of verdicts.jsonl are not in panel.json")
    return lines


AROUND, ENDS = 8, 2
"""Places above and below the model that the picture shows, and those at the top and at the bottom of the board."""

MOST_ROUNDS = 24
OF_EACH = 2
"""Examples of each outcome."""

UNMEASURED = "the interval is for sampling error only: how the judge differs from people was not measured"

Reading = tuple[str, float, float | None, float | None]
"""What it is, the rating, and the two ends of its interval."""

Group = tuple[str, str, float | None, Results, Behaviour]
"""The battles with an opponent or in a language: its name, its address, its rating, and what is counted."""


def placement_values(placed: Placement) -> dict[str, Any]:
    """What the pages of a placement show."""
    board, wrong, calibration = placed.board, disagreements(placed), placed.manifest.calibration
    n, place = len(board), board.entries.index(placed.entry)
    wanted = {*range(ENDS), *range(place - AROUND, place + AROUND + 1), *range(n - ENDS, n)}
    places = [i for i in range(n) if i in wanted or {i - 1, i + 1} <= wanted]  # a gap of one is filled
    return {
        "title": f"{placed.model} among human battles: {placed.manifest.arena.name}",
        "outcomes": OUTCOMES,
        "style": package_text("tiltyard.reports", "placement.css"),
        "script": package_text("tiltyard.reports", "placement.js"),
        "placed": placed,
        "manifest": placed.manifest,
        "disagreements": wrong,
        "weak": weak_points(placed.run, {}, wrong, calibration.warnings if calibration else [UNMEASURED]),
        "level": interval_head(board.settings),
        "half_width": normal_quantile(0.95),
        "board": board_view(board, places, placed.entry),
        "headline": headline(board),
        "notes": footnotes(board),
        "scale_of": scale_of,
        "count_results": count_results,
        "outcome_for": outcome,
        "shown_rounds": shown_rounds,
        "opponents_of": opponents,
        "languages_of": languages,
        "habits_of": habits,
        "surprising": surprising,
    }


def scale_of(lines: Sequence[Reading]) -> Scale:
    """A scale that holds all readings."""
    return Scale.of([end for _, *ends in lines for end in ends if end is not None])


def shown_rounds(placed: Placement) -> dict[str, Any] | None:
    """The rounds that are drawn, evenly spaced with the first and the last, and a scale for them."""
    rounds = [line for line in placed.manifest.rounds if line.rating is not None]
    if not rounds:
        return None
    most = min(len(rounds), MOST_ROUNDS)
    shown = [rounds[round((len(rounds) - 1) * i / max(most - 1, 1))] for i in range(most)]
    own, last = placed.entry.extra.get("judge_scale_rating"), rounds[-1].rating or 0.0
    return {
        "rows": shown,
        "scale": Scale.of([e for one in shown for e in (one.rating, one.ci_low, one.ci_high) if e is not None]),
        "last": last,
        "n": len(rounds),
        "on_judges_scale": own is not None and abs(last - own) < abs(last - placed.entry.rating),
    }


def opponents(here: Here, placed: Placement) -> list[Group]:
    """Every opponent, best first, with its rating and its battles with the model."""
    groups = grouped(placed.run.battles, placed.opponent)
    return [
        (
            name,
            here.pair(placed.dimension, placed.model, name),
            placed.rating(name),
            count_results(placed, groups[name]),
            behaviour(groups[name]),
        )
        for name in placed.run.entrants
        if name in groups
    ]


def languages(here: Here, placed: Placement) -> list[Group]:
    """The same by the language of the question, where a language is known."""
    groups = grouped(placed.run.battles, placed.language)
    if set(groups) <= {UNKNOWN_LANGUAGE}:
        return []
    ordered = sorted(groups.items(), key=lambda group: (-len(group[1]), group[0]))
    return [
        (name, source_address(here, name), None, count_results(placed, battles), behaviour(battles))
        for name, battles in ordered
    ]


def habits(placed: Placement) -> list[tuple[str, list[tuple[str, Behaviour, str]]]]:
    """The judge's habits: overall, and by language where there are several."""
    groups = [("", [("all judgments", behaviour(placed.run.battles), "")])]
    by_language = [(name, behaviour(some), "") for name, some in grouped(placed.run.battles, placed.language).items()]
    if len(by_language) > 1:
        groups.append(("by language", sorted(by_language, key=lambda one: (-one[1].first_slot.n, one[0]))))
    return groups


def surprising(placed: Placement, kind: str) -> list[JudgedBattle]:
    """The least likely battles of an outcome, of different opponents."""
    happened = {"won": 1.0, "lost": 0.0}.get(kind, 0.5)

    def likely(battle: JudgedBattle) -> float:
        expected = expected_score(placed, placed.opponent(battle))
        return 1.0 if expected is None else 1.0 - abs(happened - expected)

    chosen: dict[str, JudgedBattle] = {}
    for battle in sorted((b for b in placed.run.battles if outcome(placed.model, b) == kind), key=likely):
        chosen.setdefault(placed.opponent(battle), battle)
    return list(chosen.values())[:OF_EACH]
