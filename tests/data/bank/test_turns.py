"""Several turns as one text."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tiltyard.data.bank import show_turns


def test_several_turns_are_numbered_and_apart() -> None:
    assert show_turns(["Hello.", "A line.\nAnother."]) == "Turn 1:\nHello.\n\nTurn 2:\nA line.\nAnother."


@given(st.text())
def test_a_single_turn_is_the_plain_text(text: str) -> None:
    assert show_turns([text]) == text
