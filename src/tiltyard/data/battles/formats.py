"""Battle formats of other tools (`FORMATS`), spellings of a winner, and columns under other names (`map`).

A format says where each of our columns is in a foreign file, how its winners are spelled, how its preference number
becomes `score_a`, and who decides where the row does not say. Nothing else knows a foreign format.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterable, Mapping

import msgspec
import numpy as np
from numpy.typing import NDArray

from tiltyard.data.battles.battle import (
    FLAGS,
    OPTIONAL_FIELDS,
    OUTCOME_LABELS,
    SOURCE_LABELS,
    Outcome,
    Source,
    other_slot,
)
from tiltyard.errors import BattleError, OptionError, OptionValue

SIDE_NOUNS = (
    *("model", "assistant", "response", "answer", "output", "completion", "option", "candidate", "system", "side"),
    *("player", "choice"),
)
"""Words that may stand before a side: `Assistant A`, `response_1`."""

_SIDES = {"a": Outcome.A, "1": Outcome.A, "b": Outcome.B, "2": Outcome.B}

SPELLINGS: dict[str, Outcome] = {
    **_SIDES,
    **{f"{noun}{blank}{side}": _SIDES[side] for noun in SIDE_NOUNS for blank in (" ", "") for side in _SIDES},
    **dict.fromkeys(("1.0", "left", "first", "[[a]]", "[a]", "a>b", "a>>b", "b<a", "b<<a"), Outcome.A),
    **dict.fromkeys(("2.0", "right", "second", "[[b]]", "[b]", "b>a", "b>>a", "a<b", "a<<b"), Outcome.B),
    **dict.fromkeys(("tie", "tied", "draw", "equal", "same", "=", "a=b", "b=a", "[[c]]", "[[tie]]"), Outcome.TIE),
    **dict.fromkeys(("both good", "bothgood", "tie (bothgood)", "tie (both good)", "[[a=b]]"), Outcome.TIE),
    **{f"[[{words}]]": Outcome.A for words in ("a>b", "a>>b")},
    **{f"[[{words}]]": Outcome.B for words in ("b>a", "b>>a")},
    **dict.fromkeys(("both bad", "bothbad", "tie (bothbad)", "tie (both bad)", "both are bad"), Outcome.BOTH_BAD),
}
"""Every spelling of an outcome that is read in plain files, in lower case and with blanks for `_` and `-`."""

ZEROS = ("0", "0.0")
"""Numbers that could mean either side, or a tie."""


def side_of(text: str) -> Outcome | None:
    """The outcome that a spelling stands for, or None when it is none of the list."""
    return SPELLINGS.get(" ".join(re.sub("(?<=[a-z])[_-]+(?=[a-z0-9])", " ", text.casefold()).split()))


def is_numeral(text: str) -> bool:
    """True for a number, which names a side only by convention."""
    return text.strip() in (*ZEROS, "1", "1.0", "2", "2.0")


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

LIKELY_CLUSTERS = {
    "prompt": (
        *("item", "item_id", "example", "example_id", "sample", "sample_id", "case", "case_id", "task", "task_id"),
        *("test_id", "query", "query_id", "input", "input_id", "scenario", "conversation", "conversation_id"),
        *("document", "document_id", "doc_id"),
    ),
    "voter": (
        *("worker", "worker_id", "rater_id", "annotator_id", "labeler", "labeller", "labeler_id", "evaluator"),
        *("evaluator_id", "reviewer", "reviewer_id", "participant", "participant_id", "expert", "person", "email"),
    ),
}
"""Usual other names of the columns of prompts and voters: they are suggested, never taken unasked."""
LIKELY_DIMENSIONS = ("aspect", "criterion", "criteria", "metric", "rubric", "attribute", "facet", "quality_dimension")
"""Usual other names of the column of dimensions, likewise."""


def likely_dimension(header: Iterable[str]) -> str | None:
    """The column of a header that may name the dimension."""
    return next((name for name in header if _plain(name) in map(_plain, LIKELY_DIMENSIONS)), None)


def likely_clusters(header: Iterable[str]) -> dict[str, str]:
    """The columns of a header that may name the prompt or the voter, by what they may name."""
    plain = {_plain(name): name for name in reversed(list(header))}
    found = {
        ours: [plain[_plain(name)] for name in names if _plain(name) in plain]
        for ours, names in LIKELY_CLUSTERS.items()
    }
    return {ours: names[0] for ours, names in found.items() if names}


class ColumnMap(msgspec.Struct, frozen=True):
    """A mapping after its check: `columns` lead from ours to theirs, `words` from a winner's word to its outcome."""

    columns: tuple[tuple[str, str], ...] = ()
    words: tuple[tuple[str, Outcome], ...] = ()

    def __bool__(self) -> bool:
        return bool(self.columns or self.words)

    @property
    def targets(self) -> tuple[str, ...]:
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
            outcome, word = side_of(value), key.removeprefix(WINNER_WORD)
            if outcome is None or not word:
                expected = f"winner:WORD and what it means, one of {', '.join(OUTCOME_LABELS)}"
                raise OptionError(f"map: {key} is {value!r}: expected {expected}")
            words[word] = outcome
            continue
        ours = OTHER_NAMES.get(key, key)
        if ours in columns:
            raise OptionError(f"map: {ours} is filled twice, from {columns[ours]!r} and {value!r}. Leave one out.")
        is_half = len(ours) > 2 and ours[-2:] in ("_a", "_b") and ours != "score_b"
        if ours not in TARGETS and not is_half:
            close = difflib.get_close_matches(ours, (*TARGETS, *OTHER_NAMES), 1)
            hint = f" Did you mean {close[0]}?" if close else ""
            raise OptionError(
                f"map: {key} is none of our columns.{hint} They are prompt, {', '.join(TARGETS)}, and pairs of numbers "
                "such as len_a and len_b; the name of the column in your file comes second."
            )
        columns[ours] = value
    return ColumnMap(tuple(columns.items()), tuple(words.items()))


def suggestion(
    missing: Collection[str], header: Collection[str], mapped: ColumnMap = NO_MAP
) -> tuple[str | OptionValue, ...]:
    """A question that names, for each missing column, the column of the header that it may be.

    Empty unless each is found: a mapping that lacks one cannot be used, and its other guesses are doubtful.
    """
    taken = {theirs for _, theirs in mapped.columns} | set(TARGETS)
    guesses: dict[str, str] = {}
    for ours in missing:
        likely = _likely(ours, [name for name in header if name not in taken and name not in guesses.values()])
        if likely is not None:
            guesses[ours] = likely
    return ("Did you mean ", OptionValue("map", guesses), "?") if guesses and len(guesses) == len(missing) else ()


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


def _plain(name: str) -> str:
    return "".join(letter for letter in name.casefold() if letter.isalnum())


OWN_PAIR = ("model_a", "model_b", "score_a")
"""Columns that end in `_a` or `_b` like a pair of style columns, but are not one."""

OWN_WINNERS = {outcome.value: outcome for outcome in Outcome}


class Preference(msgspec.Struct, frozen=True):
    """How a foreign number becomes `score_a`: `shift + scale * number`, except that those in `draws` are draws."""

    scale: float
    shift: float
    draws: tuple[float, ...] = ()

    def score_a(self, numbers: NDArray[np.float64]) -> NDArray[np.float64]:
        scores = self.shift + self.scale * numbers
        return np.where(np.isin(numbers, self.draws), 0.5, scores) if self.draws else scores


class Format(msgspec.Struct, frozen=True):
    """One format of battles.

    `columns` names, for each of our columns, where it may be in the foreign file (the first one present counts; a
    dot reaches into a nested value, `.0` to the first of a list). The outcome comes from `winners` (the spellings of
    the `winner` column), from `preference` (the number in the column of `score_a`), or is `always` the same; with
    `winner_is_a_name`, the `winner` column names the model that won, and the flag `is_tie` says that neither did. With
    `any_spelling`, the usual other spellings of `winners` are read too, and the names of the two models; beside a
    `preference`, the winner tells what the number cannot: that both were bad, or who won where there is none. A header
    with a column of `unless` is not recognised as this format, though it may be named. With `in_order`, side A was
    shown first in every row.
    """

    name: str
    columns: Mapping[str, tuple[str, ...]]
    default_source: Source | None
    winners: Mapping[str, Outcome] = msgspec.field(default_factory=dict)
    preference: Preference | None = None
    always: Outcome | None = None
    winner_is_a_name: bool = False
    any_spelling: bool = False
    unless: tuple[str, ...] = ()
    in_order: bool = False

    @property
    def required(self) -> tuple[str, ...]:
        """Our columns without which a row of this format is not a battle."""
        if self.preference is not None:
            return ("model_a", "model_b", "score_a")
        return ("model_a", "model_b") if self.always is not None else ("model_a", "model_b", "winner")

    def find(self, column: str, header: Collection[str]) -> str | None:
        return next((name for name in self.columns.get(column, ()) if name in header), None)

    def fits(self, header: Collection[str]) -> bool:
        """True when a header has all this format requires and nothing it rules out."""
        wanted = (*self.required, "source") if self.default_source is None else self.required
        return not self.lacking(header, wanted) and not set(self.unless) & set(header)

    def lacking(self, header: Collection[str], wanted: Iterable[str] | None = None) -> list[str]:
        """The wanted columns (by default the required ones) that a header does not have."""
        return [column for column in wanted or self.required if self.find(column, header) is None]

    def refuses(self, mapped: ColumnMap) -> str | None:
        """A column of a mapping that this format would ignore, because its outcome comes from elsewhere."""
        has_words = bool(self.winners) or self.winner_is_a_name
        if (not has_words or self.preference is not None) and ("winner" in mapped.targets or mapped.words):
            return "winner"
        return "score_a" if self.preference is not None and "score_a" in mapped.targets else None

    def mapped(self, mapped: ColumnMap) -> Format:
        """This format with some columns under other names, and with further words for winners."""
        if not mapped:
            return self
        columns = dict(self.columns) | {ours: (theirs,) for ours, theirs in mapped.columns}
        return msgspec.structs.replace(self, columns=columns, winners={**self.winners, **dict(mapped.words)})


PROMPT_COLUMNS = ("question_id", "prompt_id", "prompt", "question", "instruction")
"""Columns that say which prompt a battle was about; the first one present counts."""

VOTER_COLUMNS = ("voter", "voter_id", "user_id", "user", "rater", "annotator", "session_id")
"""Columns that say who decided a battle; the first one present counts."""


def _same(*names: str) -> dict[str, tuple[str, ...]]:
    return {name: (name,) for name in names}


_OWN = _same(
    *("model_a", "model_b", "winner", "source", "score_a", "weight", "judge_model", "dimension"),
    *("category", "language", "timestamp", "battle_id", *FLAGS),
) | {"question_id": PROMPT_COLUMNS, "voter": VOTER_COLUMNS}

_ALPACA = {
    "score_a": ("preference",),
    "question_id": ("idx", *PROMPT_COLUMNS),
    "judge_model": ("annotator",),
    "category": ("dataset",),
}

FORMATS: tuple[Format, ...] = (
    Format(
        "judgearena",
        _OWN | {"score_a": ("pref",)},
        Source.LLM_JUDGE,
        preference=Preference(scale=-1.0, shift=1.0),
        any_spelling=True,
    ),
    Format("tiltyard", _OWN, None, winners=OWN_WINNERS, any_spelling=True),
    Format(
        "lmarena",
        _same("model_a", "model_b", "winner", "category", "language", "weight")
        | {
            "question_id": (*PROMPT_COLUMNS, "conversation_id", "id"),
            "voter": (*VOTER_COLUMNS, "judge"),
            "timestamp": ("timestamp", "tstamp"),
            "battle_id": ("battle_id",),
            "len_a": ("len_a", "conv_metadata.sum_assistant_a_tokens"),
            "len_b": ("len_b", "conv_metadata.sum_assistant_b_tokens"),
        },
        Source.HUMAN,
        winners=OWN_WINNERS | dict.fromkeys(("both_bad", "bothbad", "both bad"), Outcome.BOTH_BAD),
        any_spelling=True,
        unless=("judge_model", "dimension", "score_a", "inconsistent"),
    ),
    Format(
        "comparia",
        {
            "model_a": ("model_a_name",),
            "model_b": ("model_b_name",),
            "winner": ("chosen_model_name",),
            "is_tie": ("both_equal",),
            "question_id": (*PROMPT_COLUMNS, "conversation_pair_id", "id"),
            "voter": VOTER_COLUMNS,
            "language": ("language", "languages.0"),
            "timestamp": ("timestamp", "tstamp"),
            "len_a": ("total_conv_a_output_tokens",),
            "len_b": ("total_conv_b_output_tokens",),
        },
        Source.HUMAN,
        winner_is_a_name=True,
        in_order=True,
    ),
    Format(
        "arena-hard",
        _same("model_a", "model_b", "category", "language", "timestamp", "weight")
        | {
            "winner": ("verdict", "label", "score", "judgment", "winner"),
            "question_id": (*PROMPT_COLUMNS, "uid"),
            "judge_model": ("judge_model", "judge"),
        },
        Source.LLM_JUDGE,
        winners={
            word: SPELLINGS[word.lower()]
            for word in ("A>>B", "A>B", "A=B", "B=A", "B>A", "B>>A", "A<B", "A<<B", "B<A", "B<<A")
        },
        unless=("winner",),
    ),
    Format(
        "evalica",
        _same("winner", "category", "language", "timestamp", "weight")
        | {"model_a": ("left",), "model_b": ("right",), "question_id": PROMPT_COLUMNS, "voter": VOTER_COLUMNS},
        Source.HUMAN,
        winners={"left": Outcome.A, "right": Outcome.B, "tie": Outcome.TIE},
    ),
    Format(
        "alpaca_eval",
        _ALPACA
        | {"model_a": ("model",), "model_b": ("baseline",), "len_a": ("len_model",), "len_b": ("len_baseline",)},
        Source.LLM_JUDGE,
        preference=Preference(scale=1.0, shift=-1.0),
    ),
    Format(
        "alpaca_eval",
        _ALPACA | {"model_a": ("generator_1",), "model_b": ("generator_2",)},
        Source.LLM_JUDGE,
        preference=Preference(scale=-1.0, shift=2.0, draws=(0.0,)),
    ),
    Format(
        "winner-loser",
        _same("category", "language", "timestamp", "weight")
        | {"model_a": ("winner",), "model_b": ("loser",), "question_id": PROMPT_COLUMNS, "voter": VOTER_COLUMNS},
        Source.HUMAN,
        always=Outcome.A,
    ),
)
"""Every format, in the order in which a header is tried against them."""


def log_format(name: str) -> Format:
    """The format of the battle rows that are made of a log."""
    source = Source.HUMAN if name == "open-webui" else Source.LLM_JUDGE
    return Format(name, _OWN, source, winners=OWN_WINNERS)


LOG_FORMATS = (
    *("inspect", "promptfoo", "lm-eval", "mt-bench", "verdicts", "deepeval", "langfuse", "phoenix", "otel"),
    "open-webui",
)
"""Logs of other tools, recognised by their contents: `log_readers` makes battle rows of them."""

FORMAT_NAMES = tuple(dict.fromkeys((*(known.name for known in FORMATS), *LOG_FORMATS)))
"""The formats of battle files that are read, in the order in which they are tried, and of logs."""


def named(name: str, header: Collection[str], where: str, mapped: ColumnMap = NO_MAP) -> Format:
    """The format of that name, in the variant that fits the header best."""
    variants = [known for known in FORMATS if known.name == name]
    if not variants:
        raise OptionError(f"unknown format {name!r}: expected auto or one of {', '.join(FORMAT_NAMES)}")
    refused = variants[0].refuses(mapped)
    if refused is not None:
        raise OptionError(
            f"map: a {name} file has no {refused} to map. Leave it out, or leave ", OptionValue("format"), " out."
        )
    check_mapped(mapped, header, where)
    variants = [variant.mapped(mapped) for variant in variants]
    if fitting := [variant for variant in variants if not variant.lacking(header)]:
        return fitting[0]
    lacking = [" or ".join(variants[0].columns[column]) for column in variants[0].lacking(header)]
    hint = suggestion(variants[0].lacking(header), header, mapped)
    raise BattleError(
        f"{where}: not a {name} file: no column {', '.join(lacking)}. It has {listed(header)}. ",
        *(hint or ("Name the right format (", OptionValue("format"), ").")),
    )


def recognise(header: Collection[str], where: str, mapped: ColumnMap = NO_MAP) -> Format:
    """The first format that a header fits; our own may lack `source` (`check_source`).

    A mapped column counts as one of that name: `map={"score_a": …}` rules out the formats that a column `score_a` does.
    """
    check_mapped(mapped, header, where)
    for known in FORMATS:
        if known.refuses(mapped) is None and not set(known.unless) & set(mapped.targets):
            candidate = known.mapped(mapped)
            if candidate.fits(header):
                return candidate
    own = next(known for known in FORMATS if known.name == "tiltyard").mapped(mapped)
    if own.lacking(header):
        raise BattleError(f"{where}: ", *_unrecognised(own, header, mapped))
    return own


def check_source(spelling: Format, header: Collection[str], where: str, mapped: ColumnMap) -> None:
    """Refuse a format that does not say who decides where rows do not either."""
    if spelling.default_source is None and spelling.lacking(header, ["source"]):
        raise BattleError(f"{where}: ", *_unrecognised(spelling, header, mapped))


def _unrecognised(own: Format, header: Collection[str], mapped: ColumnMap) -> tuple[str | OptionValue, ...]:
    if wrongly_separated(header):
        return (wrongly_separated(header),)
    missing = own.lacking(header, (*own.required, "source"))
    hint = suggestion([name for name in missing if name != "source"], header, mapped)
    if missing == ["source"]:
        hint = ("Say who decided with ", OptionValue("default_source"), f" ({' or '.join(SOURCE_LABELS)}).")
    what = "no known battle format" if len(missing) == 4 and not hint else f"a battle file needs {', '.join(missing)}"
    if hint and missing != ["source"]:
        what = f"no column {', '.join(name for name in missing if name != 'source')}"
    return (
        f"{what}. ",
        *((*hint, " ") if hint else ()),
        f"Its columns are {listed(header)}; known formats are {', '.join(FORMAT_NAMES)}. Name one (",
        OptionValue("format"),
        "), or rename the columns (",
        OptionValue("map"),
        ").",
    )


def check_mapped(mapped: ColumnMap, header: Collection[str], where: str) -> None:
    """Refuse a mapping to a column that the source does not have, or to one half of a pair."""
    for ours, theirs in mapped.columns:
        if theirs not in header:
            if wrongly_separated(header):
                raise BattleError(f"{where}: {wrongly_separated(header)}")
            close = difflib.get_close_matches(theirs, header, 1)
            hint = (" Did you mean ", OptionValue("map", {ours: close[0]}), "?") if close else ()
            raise OptionError(
                f"{where} has no column {theirs!r} for {ours}.", *hint, f" Its columns are {listed(header)}."
            )
        other = other_slot(ours)
        if other != ours and ours not in OWN_PAIR and other not in header and other not in mapped.targets:
            raise OptionError(f"map: {ours} needs {other} beside it: a pair of numbers is controlled for. Map both.")


def wrongly_separated(header: Collection[str]) -> str:
    """What to do about a header that is one name because its columns are not separated by commas; else nothing."""
    (only, *others) = header or [""]
    signs = [word for sign, word in ((";", "semicolons"), ("\t", "tabs"), ("|", "bars")) if only.count(sign) > 1]
    if others or not signs:
        return ""
    return f"its columns are separated by {signs[0]}, not by commas. Save it as CSV with commas, or as .tsv with tabs."


def listed(names: Iterable[str]) -> str:
    """Names for a message, shortened when there are many."""
    names = list(names)
    return (", ".join(names[:20]) + (f" and {len(names) - 20} more" if len(names) > 20 else "")) or "none"
