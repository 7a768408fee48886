"""Columns under other names: what `map` may say, and what to suggest where a column is missing.

A mapping names our column first and theirs second: `{"winner": "choice"}`. `{"winner:0": "model_b"}` says what a word
in the winner's column means.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from tiltyard.battles.battle import OPTIONAL_FIELDS
from tiltyard.battles.outcome import OUTCOME_LABELS, Outcome
from tiltyard.battles.winners import side_of
from tiltyard.errors import OptionError

OTHER_NAMES = {"prompt": "question_id", "prompt_id": "question_id", "judge": "judge_model", "rater": "voter"}
"""Other words for our columns that a mapping may use."""

TARGETS = ("model_a", "model_b", "winner", "source", "score_a", "weight", *OPTIONAL_FIELDS)
"""Our columns that a mapping may fill, besides pairs of numbers such as `len_a` and `len_b`."""

WINNER_WORD = "winner:"
"""How a key begins that says what a word in the winner's column means."""

LIKELY = {
    "model_a": (
        *("model_1", "model1", "modela", "model_left", "left_model", "left", "assistant_a", "system_a", "first_model"),
        *("model_a_name", "name_a", "generator_1", "candidate_a", "player_a"),
    ),
    "model_b": (
        *("model_2", "model2", "modelb", "model_right", "right_model", "right", "assistant_b", "system_b"),
        *("second_model", "model_b_name", "name_b", "generator_2", "candidate_b", "player_b"),
    ),
    "winner": (
        *("choice", "preferred", "preference", "vote", "verdict", "chosen", "result", "outcome", "better"),
        *("selected", "label", "judgment", "judgement", "decision", "won", "preferred_model", "chosen_model"),
    ),
}
"""Usual other names of the required columns, the likeliest first: they are suggested, never taken unasked."""


@dataclass(frozen=True, slots=True)
class ColumnMap:
    """A mapping after its check: `columns` lead from ours to theirs, `words` from a winner's word to its outcome."""

    columns: tuple[tuple[str, str], ...] = ()
    words: tuple[tuple[str, Outcome], ...] = ()

    def __bool__(self) -> bool:
        return bool(self.columns or self.words)

    @property
    def targets(self) -> tuple[str, ...]:
        """Our columns that have another name in the source."""
        return tuple(ours for ours, _ in self.columns)


NO_MAP = ColumnMap()


def read_map(given: Mapping[str, str] | None) -> ColumnMap:
    """The mapping that a caller gave, checked as far as it can be without the source."""
    columns: dict[str, str] = {}
    words: dict[str, Outcome] = {}
    for key, value in (given or {}).items():
        if not isinstance(key, str) or not isinstance(value, str) or not value:
            raise OptionError(f"map: {key!r} leads to {value!r}: expected the name of a column of the source")
        if key.startswith(WINNER_WORD):
            words[key.removeprefix(WINNER_WORD)] = _meaning(key, value)
            continue
        ours = OTHER_NAMES.get(key, key)
        if ours in columns:
            raise OptionError(f"map: {ours} is filled twice, from {columns[ours]!r} and {value!r}. Leave one out.")
        columns[_target(key, ours)] = value
    return ColumnMap(tuple(columns.items()), tuple(words.items()))


def _target(key: str, ours: str) -> str:
    is_half = len(ours) > 2 and ours[-2:] in ("_a", "_b") and ours != "score_b"
    if ours in TARGETS or is_half:
        return ours
    close = difflib.get_close_matches(ours, (*TARGETS, *OTHER_NAMES), 1)
    hint = f" Did you mean {close[0]}?" if close else ""
    raise OptionError(
        f"map: {key} is none of our columns.{hint} They are prompt, {', '.join(TARGETS)}, and pairs of numbers such as "
        "len_a and len_b; the name of the column in your file comes second."
    )


def _meaning(key: str, value: str) -> Outcome:
    outcome = side_of(value)
    if outcome is None or not key.removeprefix(WINNER_WORD):
        raise OptionError(
            f"map: {key} is {value!r}: expected winner:WORD and what it means, one of {', '.join(OUTCOME_LABELS)}"
        )
    return outcome


def suggestion(missing: Collection[str], header: Collection[str], mapped: ColumnMap = NO_MAP) -> str:
    """A question that names, for each missing column, the column of the header that it may be.

    Empty unless each is found: a mapping that lacks one cannot be used, and its other guesses are doubtful.

    Parameters:
        missing: Our columns that the header does not have.
        header: The source's own columns.
        mapped: What was mapped already: those columns are not suggested again.
    """
    taken = {theirs for _, theirs in mapped.columns} | set(TARGETS)
    found: dict[str, str] = {}
    for ours in missing:
        likely = _likely(ours, [name for name in header if name not in taken and name not in found.values()])
        if likely is not None:
            found[ours] = likely
    if len(found) < len(missing):
        found = _by_values(missing, header, mapped)
    pairs = ", ".join(f'"{ours}": "{theirs}"' for ours, theirs in found.items())
    return f"Did you mean map={{{pairs}}}?" if found else ""


def _likely(ours: str, names: list[str]) -> str | None:
    """The name that most likely is one of our columns: a usual one, else one that is spelled almost the same."""
    plain = {_plain(name): name for name in reversed(names)}
    for other in (ours, *LIKELY.get(ours, ())):
        if _plain(other) in plain:
            return plain[_plain(other)]
    other_half = {"a": "b", "b": "a"}.get(ours[-1])
    for close in difflib.get_close_matches(_plain(ours), plain, 3, cutoff=0.75):
        if not (ours.startswith("model_") and close.endswith(other_half or "")):
            return plain[close]
    if ours != "winner":
        return None
    return next((name for name in names if any(word in name.lower() for word in ("winner", "prefer", "verdict"))), None)


def _by_values(missing: Collection[str], header: Collection[str], mapped: ColumnMap) -> dict[str, str]:
    """The missing ones of models and winner, by what columns hold: two with the same names, and one that names winners.

    Empty unless every missing column is found.
    """
    sample: Sequence[Mapping[str, object]] = getattr(header, "sample", ())
    columns = {name: [str(row.get(name) or "").strip() for row in sample] for name in header}
    columns = {name: values for name, values in columns.items() if any(values)}
    needed = ("model_a", "model_b", "winner")
    known = {ours: theirs for ours, theirs in mapped.columns if ours in needed and theirs in columns}
    known |= {ours: ours for ours in needed if ours not in missing and ours not in known and ours in columns}
    free = [name for name in columns if name not in known.values() and name not in TARGETS]
    sides = [[known[ours]] if ours in known else free for ours in needed[:2]]
    for one, other in ((one, other) for one in sides[0] for other in sides[1]):
        if one != other and _are_opponents(columns[one], columns[other]):
            rest = [name for name in ([known["winner"]] if "winner" in known else free) if name not in (one, other)]
            winners = [name for name in rest if _name_winners(columns[name], columns[one], columns[other])]
            winners = winners or _numbers_of_sides(columns, rest)
            if winners:
                found = {"model_a": one, "model_b": other, "winner": winners[0]}
                return {ours: theirs for ours, theirs in found.items() if ours in missing}
    return {}


def _numbers_of_sides(columns: Mapping[str, list[str]], names: list[str]) -> list[str]:
    """The one column of some that holds 1 and 2 and nothing else; none where several do."""
    found = [name for name in names if {side_of(word) for word in columns[name] if word} == {Outcome.A, Outcome.B}]
    return found if len(found) == 1 else []


def _are_opponents(one: list[str], other: list[str]) -> bool:
    """Whether two columns hold largely the same values, and never the same one in a row."""
    values, others = set(one) - {""}, set(other) - {""}
    shared = len(values & others)
    if shared == 0 or 2 * shared < len(values | others):
        return False
    return all(a != b for a, b in zip(one, other, strict=True) if a)


def _name_winners(winners: list[str], one: list[str], other: list[str]) -> bool:
    """Whether each value of a column is one of the row's two names, or a usual word for a side or a tie."""
    rows = [(word, a, b) for word, a, b in zip(winners, one, other, strict=True) if word]
    named = any(word in (a, b) or not word.isdigit() for word, a, b in rows)
    return named and all(word in (a, b) or side_of(word) is not None for word, a, b in rows)


def _plain(name: str) -> str:
    return "".join(letter for letter in name.casefold() if letter.isalnum())
