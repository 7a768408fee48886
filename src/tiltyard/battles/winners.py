"""How winners are spelled in plain files: `side_of`, and the list that it reads.

A spelling is read without regard to case; between words, `_`, `-` and blanks are the same. Names of models are not in
the list: a row's winner may be the name of one of its two models as well.
"""

from __future__ import annotations

import re

from tiltyard.battles.outcome import Outcome

SIDE_NOUNS = (
    *("model", "assistant", "response", "answer", "output", "completion", "option", "candidate", "system", "side"),
    *("player", "choice"),
)
"""Words that may stand before a side: `Assistant A`, `response_1`."""

_SIDES = {"a": Outcome.A, "1": Outcome.A, "b": Outcome.B, "2": Outcome.B}

SPELLINGS: dict[str, Outcome] = {
    **_SIDES,
    **{f"{noun} {side}": outcome for noun in SIDE_NOUNS for side, outcome in _SIDES.items()},
    **{f"{noun}{side}": outcome for noun in SIDE_NOUNS for side, outcome in _SIDES.items()},
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
