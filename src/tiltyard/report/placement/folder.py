"""A placement's run folder as one frozen record, in the same form as other reports: prompts, answers, judgments."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec

from tiltyard.bank import Prompt
from tiltyard.battles import Outcome
from tiltyard.boards import EloReport, Leaderboard, RatingEntry
from tiltyard.errors import BattleError, RunFolderError
from tiltyard.judging.records import Judgment
from tiltyard.judging.run_folder import again, read_lines, read_object, require
from tiltyard.placement.folder import PlacementText
from tiltyard.placement.manifest import PlacementManifest
from tiltyard.placement.sampling import Panel
from tiltyard.report.boards import as_leaderboard
from tiltyard.report.run import (
    Dimension,
    JudgedBattle,
    Run,
    check_texts,
    converted,
    keep_answers,
    read_board,
    read_judged,
)

PLACE = "tiltyard place"
"""The command that writes such a folder."""

UNKNOWN_LANGUAGE = "language unknown"


class HumanDecided(Judgment, frozen=True, kw_only=True):
    """One line of `calibration.jsonl`: a judgment of a battle that people decided too."""

    human_winner: str


Heard = tuple[str, str]
"""What people said of a battle (`one`, `tie`, `both bad`) and what the judge did (`same`, `other`, `tie`, …)."""


@dataclass(frozen=True, eq=False)
class Placement:
    """Everything a placement's report shows. `run` holds the judged battles; their dimension is the rubric's."""

    run: Run
    """The judged battles; their dimension is the rubric's."""
    manifest: PlacementManifest
    """What it says about itself."""
    report: EloReport
    """Its ratings file."""
    panel: Panel
    """Which battles were judged."""
    against_people: Mapping[Heard, int]
    """Counts of the judge's label by people's label."""

    @property
    def model(self) -> str:
        """The model that was placed."""
        return self.manifest.model

    @property
    def dimension(self) -> str:
        """What was judged."""
        return self.manifest.rubric.dimension

    @cached_property
    def board(self) -> Leaderboard:
        """The whole board."""
        return as_leaderboard(self.report)

    @cached_property
    def entry(self) -> RatingEntry:
        """The model's line on the board."""
        return self.board[self.model]

    @cached_property
    def entries(self) -> Mapping[str, RatingEntry]:
        """Every line of the board by its model."""
        return {entry.model: entry for entry in self.board}

    def rating(self, name: str) -> float | None:
        """The rating of a model, if it is on the board."""
        return self.entries[name].rating if name in self.entries else None

    def opponent(self, battle: JudgedBattle) -> str:
        """The model's opponent in a battle."""
        return battle.entrant_b if battle.entrant_a == self.model else battle.entrant_a

    def language(self, battle: JudgedBattle) -> str:
        """The language of the question."""
        return self.run.prompts[battle.prompt_id].source


def read_placement(folder: str | Path) -> Placement:
    """Read a finished placement; a missing or incomplete file is one clear error.

    Parameters:
        folder: The folder of a placement.
    """
    folder = Path(folder)
    path = require(folder / "manifest.json", folder, PLACE)
    manifest: PlacementManifest = converted(path, PlacementManifest, PLACE)
    report = read_board(require(folder / "elo_ratings.json", folder, PLACE), PLACE)
    if manifest.model not in [entry.model for entry in report.ratings]:
        raise RunFolderError(f"{folder / 'elo_ratings.json'}: no rating of {manifest.model}. {again(PLACE)}")
    panel: Panel = converted(require(folder / "panel.json", folder, PLACE), Panel, PLACE)
    require(folder / "battles.jsonl", folder, PLACE)
    run = _run(folder, read_object(path, PLACE), manifest, report)
    people = _against_people(folder) if manifest.calibration is not None else Counter()
    return Placement(run=run, manifest=manifest, report=report, panel=panel, against_people=people)


def _run(folder: Path, raw: Mapping[str, Any], manifest: PlacementManifest, report: EloReport) -> Run:
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


def _against_people(folder: Path) -> Counter[Heard]:
    """Counts of the judge's label by people's label."""
    path = require(folder / "calibration.jsonl", folder, PLACE)
    decoder = msgspec.json.Decoder(HumanDecided)
    counts: Counter[Heard] = Counter()
    for place, line in read_lines(path, decoder, PLACE):
        try:
            counts[_heard(line, Outcome.from_label(line.human_winner))] += 1
        except BattleError as error:
            raise RunFolderError(f"{path}:{place.number}: {error}. {again(PLACE)}") from None
    return counts


def _heard(line: HumanDecided, human: Outcome) -> Heard:
    people = {Outcome.TIE: "tie", Outcome.BOTH_BAD: "both bad"}.get(human, "one")
    chosen = {Outcome.A: line.entrant_a, Outcome.B: line.entrant_b}.get(human)
    if line.status != "ok":
        return people, "failed"
    if line.winner is None:
        return people, "changed" if line.inconsistent else "tie"
    if chosen is None:
        return people, "one"
    return people, "same" if line.winner == chosen else "other"
