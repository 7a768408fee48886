"""What is wrong with a row, in words: `RowProblem`; and all bad rows of a source: `BadRows`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tiltyard.battles.inputs import to_utf_8
from tiltyard.battles.layout import STRICT_NUMBERS, WRONG, Field, FieldKind, Layout, read_label, read_number, read_time
from tiltyard.battles.outcome import OUTCOME_LABELS, SOURCE_LABELS
from tiltyard.battles.settle import LEAST_WEIGHT, MOST_WEIGHT, Reason
from tiltyard.battles.winners import side_of
from tiltyard.errors import BadRow

EXPECTED = {
    FieldKind.NAME: "text",
    FieldKind.WINNER: "text, 1 or 2",
    FieldKind.TEXT: "text or a number",
    FieldKind.FLAG: "true or false",
    FieldKind.NUMBER: "a finite number",
    FieldKind.TIME: "seconds since 1970 or an ISO date and time",
}
SKIP_ADVICE = 'Correct the row, or leave such rows out with on_bad="skip"'
WORD_ADVICE = (
    'Correct the row, say what the word means (map={"winner:WORD": "model_a"}), or leave such rows out with '
    'on_bad="skip"'
)


def without_options(error: Exception) -> str:
    """A message about a row, for those who cannot give options of reading: the row is to be corrected."""
    return str(error).replace(SKIP_ADVICE, "Correct the row").replace(WORD_ADVICE, "Correct the row")


@dataclass(frozen=True, slots=True)
class RowProblem:
    """One bad row: why, where, and what it holds."""

    reason: Reason
    where: str
    detail: str

    def error(self) -> BadRow:
        """The error that stops reading at this row."""
        advice = f"{WORD_ADVICE if self.reason is Reason.UNKNOWN_WINNER else SKIP_ADVICE}."
        if self.reason is Reason.MISSING_SOURCE:
            advice = (
                f"Say who decided with default_source=... ({' or '.join(SOURCE_LABELS)}), or {SKIP_ADVICE.lower()}."
            )
        if self.reason is Reason.NOT_UTF8:
            name = self.where.rpartition(":")[0]
            advice = f"{to_utf_8('WINDOWS-1252', name)} (if it is Latin-1); or {SKIP_ADVICE.lower()}."
        return BadRow(self.reason.label, self.where, self.detail, advice)


@dataclass(slots=True)
class BadRows:
    """The bad rows of a source: how many by reason, and the first few of each; `odd` is what else to look at."""

    examples_each: int = 3
    counts: dict[Reason, int] = field(default_factory=dict)
    examples: dict[Reason, list[RowProblem]] = field(default_factory=dict)
    odd: list[str] = field(default_factory=list)

    def wants(self, reason: Reason) -> bool:
        """Whether to keep another example of a reason."""
        return len(self.examples.get(reason, ())) < self.examples_each

    def add(self, problem: RowProblem) -> None:
        """Keep a problem as an example."""
        self.examples.setdefault(problem.reason, []).append(problem)

    def count(self, reason: Reason, rows: int = 1) -> None:
        """Count bad rows."""
        self.counts[reason] = self.counts.get(reason, 0) + rows

    @property
    def skipped(self) -> dict[str, int]:
        """The counts by the reasons' names."""
        return {reason.label: count for reason, count in sorted(self.counts.items())}


def explain(reason: Reason, row: Mapping[str, Any], layout: Layout) -> str:
    """What makes a row bad, by the source's own column names."""
    if reason is Reason.WRONG_TYPE:
        return _wrong_type(row, layout)
    if reason is Reason.SELF_BATTLE:
        model_a, model_b = (layout.field(name) for name in ("model_a", "model_b"))
        return f"{_names(model_a)} and {_names(model_b)} are both {shown(_value(row, model_a))}"
    if reason is Reason.MISSING_MODEL:
        fields = [layout.field(name) for name in ("model_a", "model_b")]
        empty = next((field for field in fields if not str(_value(row, field) or "").strip()), fields[0])
        return f"{_names(empty)} is {shown(_value(row, empty))}"
    if reason in (Reason.MISSING_WINNER, Reason.UNKNOWN_WINNER):
        winner = layout.field("winner")
        return f"{_names(winner)} is {shown(_value(row, winner))}{_expected_winner(row, layout)}"
    if reason is Reason.AMBIGUOUS_WINNER:
        return _ambiguous(row, layout)
    if reason in (Reason.MISSING_SOURCE, Reason.UNKNOWN_SOURCE):
        source = layout.field("source")
        return f"{_names(source)} is {shown(_value(row, source))}, expected {' or '.join(SOURCE_LABELS)}"
    if reason is Reason.BAD_WEIGHT:
        weight = shown(_value(row, layout.field("weight")))
        return f"weight is {weight}, expected 0 or from {LEAST_WEIGHT:.6f} to {MOST_WEIGHT:,.0f}, a number of battles"
    score, winner = layout.field("score_a"), layout.field("winner")
    if reason is Reason.CONTRADICTION:
        return f"winner is {shown(_value(row, winner))} but {_names(score)} is {shown(_value(row, score))} (1 = A won)"
    if reason is Reason.INCONSISTENT_WINNER:
        return f"inconsistent is true but winner is {shown(_value(row, winner))}, expected tie"
    return f"{_names(score)} is {shown(_value(row, score))}, expected {_score_range(layout)}"


def shown(value: object) -> str:
    """A value for a message, shortened; `missing` when there is none."""
    if value is None:
        return "missing"
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def value_of(row: Mapping[str, Any], field: Field) -> Any:
    """The value of a field in a row of the source."""
    value = row.get(field.raw.top)
    if field.raw.inner is None:
        return value
    if isinstance(field.raw.inner, int):
        return value[field.raw.inner] if isinstance(value, list) and len(value) > field.raw.inner else None
    return value.get(field.raw.inner) if isinstance(value, Mapping) else None


def _value(row: Mapping[str, Any], field: Field | None) -> Any:
    return None if field is None else value_of(row, field)


def _names(field: Field | None) -> str:
    if field is None:
        return "source"
    return field.raw.name


def _expected_winner(row: Mapping[str, Any], layout: Layout) -> str:
    """What the winner's column should hold."""
    if not layout.format.winner_is_a_name:
        words = list(layout.format.winners)
        if layout.format.any_spelling:
            words = [word for word in words if word in OUTCOME_LABELS or side_of(word) is None]
            words += [shown(_value(row, layout.field(name))) for name in ("model_a", "model_b")]
        return f", expected {', '.join(words)}"
    is_tie = layout.field("is_tie")
    if read_label(_value(row, is_tie), FieldKind.FLAG) == "true":
        return f" though {_names(is_tie)} is {shown(_value(row, is_tie))}"
    models = [shown(_value(row, layout.field(name))) for name in ("model_a", "model_b")]
    return f", expected {models[0]} or {models[1]}" + ("" if is_tie is None else f", or {_names(is_tie)} true")


def _ambiguous(row: Mapping[str, Any], layout: Layout) -> str:
    """Which side a winner means as a word, and on which side the model of that name is."""
    winner = layout.field("winner")
    text = str(_value(row, winner))
    meant = layout.format.winners.get(text, side_of(text))
    side = "A" if text == str(_value(row, layout.field("model_a"))) else "B"
    word = "?" if meant is None else meant.label
    return (
        f"{_names(winner)} is {shown(text)}, which means {word}, and is the name of the model on side {side}. "
        'Write model_a or model_b, or say what the word means with map={"winner:WORD": "model_a"}'
    )


def _score_range(layout: Layout) -> str:
    preference = layout.format.preference
    if preference is None:
        return "a number from 0 to 1"
    ends = sorted(((0.0 - preference.shift) / preference.scale, (1.0 - preference.shift) / preference.scale))
    return f"a number from {ends[0] + 0.0:g} to {ends[1] + 0.0:g}"


def _wrong_type(row: Mapping[str, Any], layout: Layout) -> str:
    from_text = layout.header.cells == "text"
    for item in layout.fields:
        value = value_of(row, item)
        if item.kind.is_label:
            wrong = read_label(value, item.kind) is WRONG
        elif item.kind is FieldKind.TIME:
            wrong = read_time(value, from_text=from_text) == float("inf")
        else:
            wrong = read_number(value, from_text=from_text, strict=item.name in STRICT_NUMBERS) == float("inf")
        if wrong:
            return f"{item.raw.name} is {shown(value)}, expected {EXPECTED[item.kind]}"
    return "a value of the wrong type"
