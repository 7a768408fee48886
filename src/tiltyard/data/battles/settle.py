"""From raw columns to battles: every rule about a row, applied to whole columns at once.

Both readers end here, so a rule is written once. A rule looks at the distinct labels of a column or at an array of
numbers, never at one row at a time.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping, Sequence
from typing import Self

import msgspec
import numpy as np
from numpy.typing import NDArray

from tiltyard.data.battles.battle import Outcome, Source
from tiltyard.data.battles.formats import OWN_WINNERS, ZEROS, is_numeral, side_of
from tiltyard.data.battles.layout import CORE, WRONG, CellText, Field, FieldKind, Layout, read_label
from tiltyard.data.battles.table import MISSING, BattleTable, Codes, Column, HashedLabels, Int8s
from tiltyard.errors import BattleError, OptionValue
from tiltyard.types import AnyInts, Bools, Floats, Int32s, Scalar, looked_up, occurring, pieces

WRONG_CODE = -2
"""The code of a value whose type does not fit its field."""
UNKNOWN_CODE = -3
"""The code of a winner or source that is none of the known ones."""
AMBIGUOUS_CODE = -4
"""The code of a winner that names one side, and whose name the model on the other side bears."""

UNSCORED_CODE = -5
"""The code of an outcome that is read from a score, where there is none."""

LEAST_WEIGHT, MOST_WEIGHT = 1e-6, 1e9
"""A weight is how many equal battles a row stands for: none, or so many. Beyond, sums lose the other rows."""


class Reason(enum.IntEnum):
    """Why a row is not a battle. A row with several faults is counted under the first."""

    label: str
    """The name under which such rows are reported and counted."""

    def __new__(cls, code: int, label: str = "") -> Self:
        reason = int.__new__(cls, code)
        reason._value_, reason.label = code, label
        return reason

    FINE = 0, "fine"
    WRONG_TYPE = 1, "wrong type"
    MISSING_MODEL = 2, "missing model name"
    SELF_BATTLE = 3, "model against itself"
    MISSING_WINNER = 4, "missing winner"
    UNKNOWN_WINNER = 5, "unknown winner"
    AMBIGUOUS_WINNER = 6, "ambiguous winner"
    MISSING_SOURCE = 7, "missing source"
    UNKNOWN_SOURCE = 8, "unknown source"
    BAD_WEIGHT = 9, "bad weight"
    MISSING_SCORE = 10, "missing score"
    BAD_SCORE = 11, "score out of range"
    CONTRADICTION = 12, "score contradicts winner"
    INCONSISTENT_WINNER = 13, "inconsistent but not a tie"
    BROKEN_LINE = 14, "broken line"
    WRONG_LENGTH = 15, "wrong number of cells"
    NOT_UTF8 = 16, "not UTF-8 text"


class LabelColumn(msgspec.Struct, frozen=True):
    """A column through its distinct values.

    Row i holds `values[codes[i]]`, or nothing where the code is `MISSING` or `len(values)`.
    """

    codes: AnyInts
    values: Sequence[object]


class RawBatch(msgspec.Struct, frozen=True):
    """Rows of a source, column by column, before any rule was applied.

    `labels`, `numbers` (NaN = missing, infinite = no number) and `hashed` (texts of which only hashes are known) are
    keyed by field name.
    `count` says how many equal rows each row stands for, and `total` what their weights add up to, where they differ.
    """

    n_rows: int
    labels: Mapping[str, LabelColumn]
    numbers: Mapping[str, Floats]
    hashed: Mapping[str, Codes] = msgspec.field(default_factory=dict)
    count: Floats | None = None
    total: Floats | None = None


class Settled(msgspec.Struct, frozen=True):
    """A batch after the rules: the battles of its good rows, and the reason of every row (0 = fine)."""

    table: BattleTable
    reasons: NDArray[np.int8]
    count: Floats | None

    def counts(self) -> dict[Reason, int]:
        """How many rows of the source are bad, by reason."""
        bad = np.flatnonzero(self.reasons)
        weights = np.ones(len(bad)) if self.count is None else self.count[bad]
        sums = np.bincount(self.reasons[bad], weights=weights, minlength=len(Reason))
        return {reason: int(sums[reason]) for reason in Reason if reason and sums[reason]}

    @property
    def skipped(self) -> dict[str, int]:
        return {reason.label: count for reason, count in self.counts().items()}


def validate_rows(batch: RawBatch, layout: Layout) -> Settled:
    """Apply every rule to a batch."""
    readings = {
        field.name: _read_column(batch.labels[field.name], field)
        for field in layout.labels
        if field.name in batch.labels
    }
    models, model_a, model_b = _models(readings)
    source = _source(readings.get("source"), layout, batch.n_rows)
    score, outcome = _score_and_outcome(readings.get("winner"), source, batch, layout)
    if layout.format.winner_is_a_name:
        outcome = _outcome_by_name(readings, models, model_a, model_b)
    elif layout.format.any_spelling and layout.format.preference is None and "winner" in readings:
        outcome = _outcome_in_any_spelling(*readings["winner"], (models, model_a, model_b), layout)
    weight: Floats = np.broadcast_to(1.0, batch.n_rows)  # one number for all where the source gives none
    if "weight" in batch.numbers:
        weight = np.where(np.isnan(batch.numbers["weight"]), 1.0, batch.numbers["weight"])
    reasons = np.zeros(batch.n_rows, dtype=np.int8)
    every = RowCodes(model_a, model_b, outcome, source, weight, score)
    for piece in pieces(batch.n_rows):
        read = {name: (codes[piece], texts) for name, (codes, texts) in readings.items()}
        numbers = [batch.numbers[field.name][piece] for field in layout.numbers]
        found = reasons[piece]
        for reason, rows in _rules(read, numbers, layout, every.rows(piece)):
            if rows.any():
                found[rows & (found == Reason.FINE)] = reason

    good: Bools | slice = slice(None) if not reasons.any() else reasons == Reason.FINE
    soft = None if score is None else score[good].copy()
    if soft is not None:  # where it says no more than the outcome, there is none
        soft[(soft == 0.0) | (soft == 0.5) | (soft == 1.0)] = np.nan
        soft = None if np.isnan(soft).all() else soft
    counted = weight if batch.count is None else weight * batch.count
    table = BattleTable(
        models=models,
        model_a=model_a[good],
        model_b=model_b[good],
        outcome=outcome[good],
        source=source[good],
        weight=(counted if batch.total is None else batch.total)[good],
        score_a=soft,
        columns=_columns(readings, batch, layout, good),
        rows=batch.count[good] if batch.count is not None and (weight == 0.0).any() else None,
    )
    return Settled(table if isinstance(good, slice) else table.compact(), reasons, batch.count)


class RowCodes(msgspec.Struct, frozen=True):
    """What the rules look at; the codes may be those of missing, wrong or unknown values."""

    model_a: Int32s
    model_b: Int32s
    outcome: Int8s
    source: Int8s
    weight: Floats
    score: Floats | None

    def rows(self, piece: slice) -> RowCodes:
        codes = (self.model_a[piece], self.model_b[piece], self.outcome[piece], self.source[piece])
        return RowCodes(*codes, self.weight[piece], None if self.score is None else self.score[piece])


def _rules(
    readings: Mapping[str, Readings], numbers: Sequence[Floats], layout: Layout, row: RowCodes
) -> Iterator[tuple[Reason, Bools]]:
    """Each reason with the rows it holds for, the first to count first."""
    wrong = np.zeros(len(row.weight), dtype=bool)
    for codes, _ in readings.values():
        wrong |= codes == WRONG_CODE
    for column in numbers:
        wrong |= np.isinf(column)
    yield Reason.WRONG_TYPE, wrong
    yield Reason.MISSING_MODEL, (row.model_a == MISSING) | (row.model_b == MISSING)
    yield Reason.SELF_BATTLE, row.model_a == row.model_b
    yield Reason.MISSING_WINNER, row.outcome == MISSING
    yield Reason.UNKNOWN_WINNER, row.outcome == UNKNOWN_CODE
    yield Reason.AMBIGUOUS_WINNER, row.outcome == AMBIGUOUS_CODE
    yield Reason.MISSING_SOURCE, row.source == MISSING
    yield Reason.UNKNOWN_SOURCE, row.source == UNKNOWN_CODE
    yield Reason.BAD_WEIGHT, (row.weight != 0.0) & ((row.weight < LEAST_WEIGHT) | (row.weight > MOST_WEIGHT))
    if row.score is not None:
        if layout.format.preference is not None:
            yield Reason.MISSING_SCORE, row.outcome == UNSCORED_CODE
        yield Reason.BAD_SCORE, (row.score < 0.0) | (row.score > 1.0)
        if layout.format.preference is None:
            against_a = (row.outcome == Outcome.A.code) & (row.score <= 0.5)
            against_b = (row.outcome == Outcome.B.code) & (row.score >= 0.5)
            decided = (row.score == 0.0) | (row.score == 1.0)  # a tie may lean, but not all the way
            yield Reason.CONTRADICTION, against_a | against_b | ((row.outcome >= Outcome.TIE.code) & decided)
    if "inconsistent" in readings:
        flags, texts = readings["inconsistent"]
        yield Reason.INCONSISTENT_WINNER, _flag_is_on(flags, texts) & (row.outcome != Outcome.TIE.code)


Readings = tuple[AnyInts, tuple[str, ...]]


def _read_column(column: LabelColumn, field: Field) -> Readings:
    """The codes of a column over its sorted texts; missing and wrong values have their own codes."""
    read: list[CellText] = [read_label(value, field.kind) for value in column.values]
    texts = tuple(sorted({text for text in read if isinstance(text, str)}))
    place = {text: code for code, text in enumerate(texts)}
    recode: AnyInts = np.empty(len(read) + 1, dtype=np.int8 if len(texts) < 100 else np.int32)
    recode[-1] = MISSING
    for at, text in enumerate(read):
        recode[at] = place[text] if isinstance(text, str) else WRONG_CODE if text is WRONG else MISSING
    return looked_up(recode, column.codes), texts


def _models(readings: Mapping[str, Readings]) -> tuple[tuple[str, ...], Int32s, Int32s]:
    (codes_a, texts_a), (codes_b, texts_b) = readings["model_a"], readings["model_b"]
    if texts_a == texts_b:
        return texts_a, codes_a.astype(np.int32, copy=False), codes_b.astype(np.int32, copy=False)
    models = tuple(sorted({*texts_a, *texts_b}))
    place = {name: code for code, name in enumerate(models)}
    return models, _recoded(codes_a, texts_a, place, np.int32), _recoded(codes_b, texts_b, place, np.int32)


def _recoded(codes: AnyInts, texts: Sequence[str], place: Mapping[str, int], kind: type[Scalar]) -> NDArray[Scalar]:
    """Codes over `texts` turned into codes over `place`, with `UNKNOWN_CODE` for texts that have no place."""
    recode = [place.get(text, UNKNOWN_CODE) for text in texts]
    return looked_up(np.array([*recode, WRONG_CODE, MISSING], dtype=kind), codes)


def _source(reading: Readings | None, layout: Layout, n_rows: int) -> Int8s:
    default = MISSING if layout.default_source is None else layout.default_source.code
    if reading is None:
        return np.full(n_rows, default, dtype=np.int8)
    codes = _recoded(*reading, {source.value: source.code for source in Source}, np.int8)
    codes[codes == MISSING] = default
    return codes


def _score_and_outcome(
    winner: Readings | None, source: Int8s, batch: RawBatch, layout: Layout
) -> tuple[Floats | None, Int8s]:
    """The soft outcome where there is one, and the outcome: from the winner's spelling, else from the score."""
    score = batch.numbers.get("score_a")
    if layout.format.preference is not None and score is not None:
        score = layout.format.preference.score_a(score)
        by_score = np.full(batch.n_rows, Outcome.TIE.code, dtype=np.int8)
        by_score[score > 0.5] = Outcome.A.code
        by_score[score < 0.5] = Outcome.B.code
        by_score[np.isnan(score)] = UNSCORED_CODE
        if winner is not None:
            _beside_score(by_score, winner, source)
        return score, by_score
    if layout.format.always is not None or winner is None:
        return score, np.full(batch.n_rows, (layout.format.always or Outcome.A).code, dtype=np.int8)
    spelled = {text: outcome.code for text, outcome in layout.format.winners.items()}
    return score, _recoded(*winner, spelled, np.int8)


def _beside_score(outcome: Int8s, winner: Readings, source: Int8s) -> None:
    """Put into `outcome` what a winner beside a score tells: that both were bad, or who won where there is no score.

    A judge's row without a score is an unread verdict, though it says `tie`; a person's tie is one.
    """
    codes, texts = winner
    sides = {text: side.code for text in texts if (side := side_of(text)) is not None}
    named = _recoded(codes, texts, sides, np.int8)
    unscored = outcome == UNSCORED_CODE
    outcome[(named == Outcome.BOTH_BAD.code) & ((outcome == Outcome.TIE.code) | unscored)] = Outcome.BOTH_BAD.code
    decided = (named == Outcome.A.code) | (named == Outcome.B.code)
    decided |= (named == Outcome.TIE.code) & (source == Source.HUMAN.code)
    outcome[decided & unscored] = named[decided & unscored]


def _outcome_by_name(
    readings: Mapping[str, Readings], models: Sequence[str], model_a: Int32s, model_b: Int32s
) -> Int8s:
    """The outcome where the winner is named: a tie names no winner and has its flag set."""
    named = _recoded(*readings["winner"], {name: code for code, name in enumerate(models)}, np.int32)
    tied = _flag_is_on(*readings["is_tie"]) if "is_tie" in readings else np.zeros(len(named), dtype=bool)
    outcome = np.full(len(named), UNKNOWN_CODE, dtype=np.int8)
    outcome[named == MISSING] = MISSING
    outcome[(named == MISSING) & tied] = Outcome.TIE.code
    outcome[(named == model_a) & (named >= 0) & ~tied] = Outcome.A.code
    outcome[(named == model_b) & (named >= 0) & ~tied] = Outcome.B.code
    return outcome


def _outcome_in_any_spelling(
    codes: AnyInts, texts: Sequence[str], sides: tuple[Sequence[str], Int32s, Int32s], layout: Layout
) -> Int8s:
    """The outcome where the winner is a side in any usual spelling, or the name of one of the row's two models.

    A word that means one side, and is the name of the model on the other, is ambiguous. Only in our own rows, which say
    who decided, our four words always mean the side.
    """
    models, model_a, model_b = sides
    known = layout.format.winners
    explained = any(is_numeral(word) for word in known)  # then numbers that are not mean nothing
    usual = {text: side_of(text) for text in texts if not (explained and is_numeral(text))}
    place = {text: side.code for text, side in (usual | {**known}).items() if side is not None}
    outcome = _recoded(codes, texts, place, np.int8)
    certain = set(known) if layout.format.default_source is None else {*known} - {*OWN_WINNERS}
    names = {name: code for code, name in enumerate(models) if name not in certain}
    if names.keys() & set(texts):
        named = _recoded(codes, texts, names, np.int32)
        for model, side in ((model_a, Outcome.A.code), (model_b, Outcome.B.code)):
            is_named = (named == model) & (named >= 0)
            clash = is_named & (outcome >= 0) & (outcome != side)
            outcome[is_named] = side
            outcome[clash] = AMBIGUOUS_CODE
    zeros = [code for code, text in enumerate(texts) if text.strip() in ZEROS]
    if zeros and (np.isin(codes, zeros) & (outcome == UNKNOWN_CODE)).any():  # then a 1 may be either side as well
        field = layout.field("winner")
        column = field.raw.name if field else "winner"
        raise BattleError(
            f"{layout.name}: {column} is {texts[zeros[0]]} in some rows, which may mean either side or a tie. "
            "Say what the numbers mean, such as ",
            OptionValue("map", {"winner:0": "model_a", "winner:1": "model_b"}),
            ".",
        )
    return outcome


def _flag_is_on(flags: AnyInts, texts: Sequence[str]) -> Bools:
    is_on = np.array([text == "true" for text in texts] + [False, False], dtype=np.bool_)
    return looked_up(is_on, flags)


def _columns(
    readings: Mapping[str, Readings], batch: RawBatch, layout: Layout, good: Bools | slice
) -> dict[str, Column]:
    """The optional columns of the good rows; a column without any value is left out."""
    columns: dict[str, Column] = {}
    for item in layout.fields:
        if item.name in CORE:
            continue
        if item.name in batch.hashed:
            column = _used_codes(batch.hashed[item.name], good)
            if len(column.labels):
                columns[item.name] = column
        elif item.name in batch.numbers:
            numbers = batch.numbers[item.name][good]
            if not np.isnan(numbers).all():
                columns[item.name] = numbers
        elif item.kind is FieldKind.FLAG:
            on = _flag_is_on(*readings[item.name])[good]
            if on.any():
                columns[item.name] = on.astype(np.float64)
        else:
            codes, texts = readings[item.name]
            column = _used_codes(Codes(codes.astype(np.int32, copy=False), texts), good)
            if column.labels:
                columns[item.name] = column
    if layout.format.always is not None:
        columns["winner_first"] = np.ones(batch.n_rows)[good]
    elif layout.format.in_order:
        columns["one_order"] = np.ones(batch.n_rows)[good]
    return columns


def _used_codes(column: Codes, good: Bools | slice) -> Codes:
    """The column of the good rows, over only the labels that appear in them."""
    if isinstance(good, slice):
        return column
    codes = column.codes[good]
    used = occurring(codes, len(column.labels) + 1)
    used[-1] = False
    new = np.cumsum(used, dtype=np.int32) - np.int32(1)
    new[-1] = MISSING
    labels, kept = column.labels, np.flatnonzero(used)
    some = (
        HashedLabels(labels.hashes[kept])
        if isinstance(labels, HashedLabels)
        else tuple(labels[at] for at in kept.tolist())
    )
    return Codes(looked_up(new, codes), some)
