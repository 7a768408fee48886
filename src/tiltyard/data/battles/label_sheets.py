"""Sheets for people to label: a random draw of judged matchups without names, and the way back from filled-in sheets.

A sheet has one row per matchup: the prompt, answers A and B in random order, and an empty `winner`. Who wrote them is
behind `label_id`, a keyed hash of prompt, dimension and the two models: only who has the folder with the salt
(`labelling.json`) can tell. Nothing else has to be kept, and a sheet can be filled in by several people.
"""

from __future__ import annotations

import codecs
import csv
import hashlib
import io
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tiltyard.data.battles.battle import Source
from tiltyard.data.battles.reading import BattleData, Opened, find_problems, peek, read_battles
from tiltyard.data.battles.table import MISSING, BattleTable, Codes
from tiltyard.errors import BattleError, NoBattles, OptionError
from tiltyard.files import write_json

KEY_FILE = "labelling.json"
"""The file of a run folder that holds the salt of its sheets."""

SHEET_COLUMN = "label_id"
"""The column by which a sheet is recognised."""

ID_AS_PROMPT = {"question_id": SHEET_COLUMN}
SIDES = ("A", "B")
FILLED = "coalesce(trim(cast(winner AS varchar)), '') <> ''"
NOT_FILLED = "coalesce(trim(cast(winner AS varchar)), '') = ''"


@dataclass(frozen=True, slots=True, order=True)
class SheetMatchup:
    """One matchup as a person sees it: answer A is by `first`."""

    dimension: str
    prompt_id: str
    first: str
    second: str


@dataclass(frozen=True, slots=True)
class SheetDraw:
    """A draw: the `label_id`s of a sheet in its order, which is random, and how many matchups there were."""

    of: int
    label_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SheetKey:
    """What tells `label_id`s: a salt; and what was drawn with it."""

    salt: bytes
    draws: tuple[SheetDraw, ...] = ()

    @classmethod
    def of_folder(cls, folder: Path) -> SheetKey | None:
        """The key of a run folder; None if no sheet was drawn from it."""
        path = folder / KEY_FILE
        if not path.is_file():
            return None
        try:
            kept = json.loads(path.read_text(encoding="utf-8"))
            draws = [SheetDraw(int(one["of"]), tuple(map(str, one["label_ids"]))) for one in kept.get("draws", ())]
            return cls(bytes.fromhex(kept["salt"]), tuple(draws))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise BattleError(f"{path}: torn, or not the key of label sheets ({error}). Draw a new sheet.") from None

    def write(self, folder: Path) -> None:
        note = "tells who wrote the answers of label sheets: keep it from those who label"
        draws = [{"of": one.of, "label_ids": list(one.label_ids)} for one in self.draws]
        write_json(folder / KEY_FILE, {"note": note, "salt": self.salt.hex(), "draws": draws})

    def with_draw(self, draw: SheetDraw) -> SheetKey:
        return replace(self, draws=tuple(dict.fromkeys([*self.draws, draw])))

    def drawn(self, label_ids: Sequence[str]) -> dict[str, tuple[int, int, int]]:
        """Of labelled rows the draw that they came from, their place in it and how many it was of.

        A row that was drawn twice counts once: where it is one of the first rows of a draw that are all labelled, else
        for the draw that has more of these rows.
        """
        labelled, found = set(label_ids), dict[str, tuple[int, int, int]]()
        draws = sorted(enumerate(self.draws), key=lambda one: -len(labelled.intersection(one[1].label_ids)))
        for whole in (False, True):
            for number, draw in draws:
                order = [one for one in draw.label_ids if found.get(one, (number,))[0] == number]
                for place, label_id in enumerate(order, start=1):
                    if label_id in labelled:
                        found[label_id] = (number, place, draw.of)
                    elif not whole:
                        break
        return found

    def label_id(self, shown: SheetMatchup) -> str:
        text = json.dumps([shown.dimension, shown.prompt_id, shown.first, shown.second], ensure_ascii=False)
        return hashlib.blake2b(text.encode("utf-8"), key=self.salt, digest_size=8).hexdigest()


def draw_matchups(
    judged: BattleTable, n: int, rng: np.random.Generator, dimension: str = ""
) -> tuple[list[SheetMatchup], int]:
    """A random draw of n judged matchups, by pair of models, in random order and with random sides; and of how many."""
    prompt = judged.text_column("question_id")
    m = len(judged.models)
    low, high = np.minimum(judged.model_a, judged.model_b), np.maximum(judged.model_a, judged.model_b)
    pair = low.astype(np.int64) * m + high
    named = prompt.codes != MISSING
    keys = np.unique(prompt.codes[named].astype(np.int64) * m * m + pair[named])
    chosen = keys[_stratified(keys % (m * m), min(n, len(keys)), rng)]
    turned = rng.random(len(chosen)) < 0.5
    rows = []
    for key, turn in zip(chosen.tolist(), turned.tolist(), strict=True):
        code, both = divmod(key, m * m)
        names = [judged.models[both // m], judged.models[both % m]]
        first, second = reversed(names) if turn else names
        rows.append(SheetMatchup(dimension, prompt.labels[code], first, second))
    return rows, len(keys)


def _stratified(stratum: NDArray[np.int64], n: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """N rows at random, each stratum in proportion; what does not divide evenly is drawn too."""
    values, sizes = np.unique(stratum, return_counts=True)
    share = n * sizes / len(stratum)
    places = np.floor(share).astype(np.int64)
    left = n - int(places.sum())
    if left:
        part = share - places
        places[rng.choice(len(values), left, replace=False, p=part / part.sum())] += 1
    picked = [
        rng.choice(np.flatnonzero(stratum == value), count, replace=False)
        for value, count in zip(values.tolist(), places.tolist(), strict=True)
    ]
    return rng.permutation(np.concatenate(picked))


def from_spreadsheet(people: Opened) -> Opened:
    """The rows of sheets that a spreadsheet saved its own way: semicolons or tabs, UTF-16 or Windows-1252.

    Whatever is no such sheet is given back as it is.
    """
    if not isinstance(people.data, str | Path):
        return people
    given = Path(people.data)
    files = sorted(given.glob("*.csv")) if given.is_dir() else [given] if given.suffix.lower() == ".csv" else []
    texts = [_decoded(file.read_bytes()) for file in files if file.is_file()]
    if not any(foreign or _delimiter(text) != "," for text, foreign in texts):
        return people
    read = (csv.DictReader(io.StringIO(text), delimiter=_delimiter(text), restkey="") for text, _ in texts)
    return Opened([{name: cell for name, cell in row.items() if name} for rows in read for row in rows])


def _decoded(data: bytes) -> tuple[str, bool]:
    """The text of a sheet without its mark of byte order, and whether it is anything but UTF-8."""
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        text, foreign = data.decode("utf-16", "replace"), True
    else:
        try:
            text, foreign = data.decode("utf-8-sig"), False
        except UnicodeDecodeError:
            text, foreign = data.decode("cp1252", "replace"), True
    return (text.partition("\n")[2] if text.startswith("sep=") else text), foreign


def _delimiter(text: str) -> str:
    """What separates the columns of a sheet; a comma for whatever is no sheet."""
    head = text.partition("\n")[0].rstrip("\r")
    names = {mark: head.replace('"', "").split(mark) for mark in (";", "\t")}
    return next((mark for mark, cells in names.items() if SHEET_COLUMN in cells and len(cells) > 1), ",")


def is_sheet(people: BattleData) -> bool:
    """Whether labels are a filled-in sheet rather than battles."""
    return SHEET_COLUMN in peek(people, default_source="human").raw_columns


def find_key(battles: BattleData) -> SheetKey:
    """The key of the folder that battles came from: a run folder, or a file in one."""
    for path in Opened.of(battles).paths:
        folder = Path(path) if Path(path).is_dir() else Path(path).parent
        if (key := SheetKey.of_folder(folder)) is not None:
            return key
    raise OptionError(
        f"the labels are a sheet without names, and no {KEY_FILE} is beside the judged battles to tell whose answers "
        "they are about. Give the run folder that the sheet was drawn from."
    )


def read_filled_rows(people: BattleData, on_bad: Literal["error", "skip"] = "error") -> BattleTable:
    """The rows of a sheet that have a winner, by their `label_id`."""
    try:
        return read_battles(people, where=FILLED, default_source="human", map=ID_AS_PROMPT, on_bad=on_bad)
    except NoBattles:
        raise NoBattles("no row of the label sheet has a winner: A, B, tie or both bad.") from None


def read_sheet(
    people: BattleData, judged: BattleTable, key: SheetKey, on_bad: Literal["error", "skip"] = "error"
) -> BattleTable:
    """A filled-in sheet as battles; rows without a winner are counted as skipped."""
    sheet = read_filled_rows(people, on_bad)
    _, empty = find_problems(people, where=NOT_FILLED, default_source="human", map=ID_AS_PROMPT, examples_each=0)
    possible = {key.label_id(matchup): matchup for matchup in _possible(judged)}
    ids = sheet.text_column("question_id")
    known = np.array([text in possible for text in ids.labels])[ids.codes]
    if not known.any():
        raise NoBattles(
            f"none of the {len(sheet):,} labels of the sheet is about a matchup of this run: was the sheet drawn from "
            "another folder?"
        )
    skipped = {**sheet.skipped, "not filled in": sum(empty.counts.values()), "not of this run": int((~known).sum())}
    sheet = sheet.take(known)
    label_ids = [ids.labels[code] for code in ids.codes[known].tolist()]
    matchups = [possible[label_id] for label_id in label_ids]
    drawn = key.drawn(label_ids)
    places = [drawn.get(label_id, (MISSING, math.nan, math.nan)) for label_id in label_ids]
    draws = np.array(places, dtype=np.float64).reshape(-1, 3)
    columns: dict[str, Any] = {
        "question_id": Codes.of([matchup.prompt_id for matchup in matchups]),
        "draw": Codes.of([f"{number:g}" for number in draws[:, 0]]),
        "draw_place": draws[:, 1],
        "draw_of": draws[:, 2],
    }
    if any(matchup.dimension for matchup in matchups):
        columns["dimension"] = Codes.of([matchup.dimension for matchup in matchups])
    if "voter" in sheet.columns:
        columns["voter"] = sheet.text_column("voter")
    code = {name: place for place, name in enumerate(judged.models)}
    first = np.array([code[matchup.first] for matchup in matchups], dtype=np.int32)
    second = np.array([code[matchup.second] for matchup in matchups], dtype=np.int32)
    straight = sheet.model_a == sheet.models.index(SIDES[0])
    return replace(
        sheet,
        models=judged.models,
        model_a=np.where(straight, first, second),
        model_b=np.where(straight, second, first),
        source=np.full(len(sheet), Source.HUMAN.code, dtype=np.int8),
        columns=columns,
        skipped={reason: n for reason, n in skipped.items() if n},
    )


def _possible(judged: BattleTable) -> set[SheetMatchup]:
    n, models = len(judged), judged.models
    dimensions = judged.text_column("dimension").texts() if "dimension" in judged.columns else [None] * n
    prompts = judged.text_column("question_id").texts()
    matchups = set()
    for prompt, what, a, b in zip(prompts, dimensions, judged.model_a.tolist(), judged.model_b.tolist(), strict=True):
        if prompt is not None:
            matchups.add(SheetMatchup(what or "", prompt, models[a], models[b]))
            matchups.add(SheetMatchup(what or "", prompt, models[b], models[a]))
    return matchups
