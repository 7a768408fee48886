"""People and a judged run: sheets for them to label, and boards that their labels correct."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from tiltyard.analysis.boards import BradleyTerry, Leaderboard, RatingsFile, Selection, as_table, rate_with_people
from tiltyard.data.battles import (
    SIDES,
    Opened,
    SheetDraw,
    SheetKey,
    SheetMatchup,
    draw_matchups,
    from_spreadsheet,
    is_sheet,
    read_battles,
    read_filled_rows,
)
from tiltyard.errors import BadRow, NoBattles, OptionError, OptionValue, TiltyardError
from tiltyard.files import write_lines, write_text
from tiltyard.judge.tournament.artifacts import MatchLine, calibrated_path
from tiltyard.judge.verdicts import read_lines, require

SPREADSHEET_CODE = ("=", "+", "-", "@", "\t", "\r")
"""How a text begins that spreadsheets take for a formula; it gets an apostrophe before it."""


class DrawnSheet(msgspec.Struct, frozen=True):
    """A sheet that was written: how many matchups of how many were drawn, of which dimension, one of `several`."""

    drawn: int
    judged: int
    dimension: str
    several: bool


def write_sheet(
    folder: Path, out: Path, *, n: int, seed: int = 0, dimension: str | None = None, new_salt: bytes
) -> DrawnSheet:
    """Draw judged matchups of a run at random and write them as a sheet to fill in: JSON Lines, or CSV by its suffix.

    `dimension` may be None where the run has one. `new_salt` is what to hash with if no sheet was drawn from the folder
    before; nobody else may know it.
    """
    if out.suffix.lower() not in (".jsonl", ".csv"):
        raise OptionError(f"{out.name}: a label sheet is written as .jsonl or .csv. End the name in one of these.")
    judged = read_battles(require(folder / "battles.jsonl", folder), columns=["question_id", "dimension"])
    parts = dict(judged.split("dimension"))
    chosen = next(iter(parts)) if dimension is None and len(parts) == 1 else dimension
    if chosen not in parts:
        what = "has several dimensions" if dimension is None else f"has no dimension {dimension!r}"
        raise OptionError(f"the run {what}: choose ", OptionValue("dimension"), f" among {', '.join(parts)}.")
    shown, of = draw_matchups(parts[chosen], n, np.random.default_rng(seed), chosen)
    key = SheetKey.of_folder(folder) or SheetKey(new_salt)
    rows = _rows(folder, shown, key)
    key.with_draw(SheetDraw(of, tuple(row["label_id"] for row in rows))).write(folder)
    if out.suffix.lower() == ".csv":
        text = io.StringIO()
        names = dict.fromkeys(name for row in sorted(rows, key=len, reverse=True) for name in row)
        writer = csv.DictWriter(text, list(names), lineterminator="\n", restval="")
        writer.writeheader()
        for row in rows:
            cells = ((name, f"'{cell}" if cell.startswith(SPREADSHEET_CODE) else cell) for name, cell in row.items())
            writer.writerow(dict(cells))
        write_text(out, text.getvalue(), new_folder=False)
    else:
        write_lines(out, rows)
    return DrawnSheet(len(rows), len(parts[chosen]), chosen, len(parts) > 1)


def _rows(folder: Path, shown: list[SheetMatchup], key: SheetKey) -> list[dict[str, str]]:
    wanted = {(one.dimension, one.prompt_id, *sorted((one.first, one.second))): one for one in shown}
    rows: dict[SheetMatchup, dict[str, str]] = {}
    lines = read_lines(require(folder / "matches" / "matches.jsonl", folder), msgspec.json.Decoder(MatchLine))
    for _, line in lines:
        one = wanted.get((line.dimension, line.prompt_id, *sorted((line.entrant_a, line.entrant_b))))
        if one is None:
            continue
        if line.images_a or line.images_b:
            raise OptionError(
                f"the answers to {line.prompt_id} hold images, which a sheet of texts cannot show without telling "
                "whose they are. Let people vote in an arena, or draw from a run of text answers."
            )
        answers = {line.entrant_a: line.response_a, line.entrant_b: line.response_b}
        images = [f"[image: {image.url or image.path}]" for image in line.prompt_images]
        told = {"gold_answer": line.gold_answer, "expected_behavior": line.expected_behavior}
        rows[one] = {
            "label_id": key.label_id(one),
            "dimension": one.dimension,
            "prompt": "\n".join([line.prompt.whole_text, *images]),
            **{name: text for name, text in told.items() if text},
            "model_a": SIDES[0],
            "model_b": SIDES[1],
            "response_a": answers[one.first],
            "response_b": answers[one.second],
            "winner": "",
            "voter": "",
        }
    return [rows[one] for one in shown if one in rows]


class CalibratedBoard(msgspec.Struct, frozen=True, eq=False):
    """A dimension's board on people's scale, or why there is none."""

    board: Leaderboard | None
    missing: str | None = None

    def text(self) -> str:
        return f"no board: {self.missing}" if self.board is None else as_table(self.board)

    def record(self) -> dict[str, Any]:
        if self.board is None:
            return {"missing": self.missing}
        return {"people": msgspec.to_builtins(self.board.details.people)}


def check_label_file(path: Path) -> None:
    """Refuse a file of labels that cannot be read, before anything is asked."""
    labels = from_spreadsheet(Opened(path))
    try:
        if is_sheet(labels):
            read_filled_rows(labels)
        else:
            read_battles(labels, default_source="human")
    except BadRow as error:
        raise OptionError(_about_row(error)) from None
    except NoBattles:
        return  # a sheet that nobody has filled in yet: the run goes on, and says that it has no board by people


def calibrate_run(
    folder: Path, labels: Path, dimensions: Iterable[str], judge_model: str
) -> dict[str, CalibratedBoard]:
    """Correct every dimension's board by people's labels, and write it as `ratings/calibrated/<dimension>.json`.

    A dimension whose labels are missing or too few has a reason instead of a board; the run goes on.
    """
    boards = {}
    for dimension in dimensions:
        estimator = BradleyTerry(only_connected=True, selection=Selection(dimension=dimension))
        try:
            board = rate_with_people(estimator, folder / "battles.jsonl", labels)
        except TiltyardError as error:
            boards[dimension] = CalibratedBoard(None, _about_row(error) if isinstance(error, BadRow) else str(error))
            continue
        boards[dimension] = CalibratedBoard(board)
        report = RatingsFile.of(board, arena=dimension, judge_model=judge_model)
        write_text(calibrated_path(folder, dimension), report.to_json())
    return boards


def _about_row(error: BadRow) -> str:
    """What is wrong with a label, without the options of reading, which a run does not have."""
    return f"{error.where}: {error.reason}: {error.detail}. Correct the row."
