"""Thoughts before an answer end where their closing tag stands, and nowhere else."""

from __future__ import annotations

import pytest

from tiltyard.judge.llm import answer_start


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("A", "A"),
        ("", ""),
        ("<think>B is worse</think>A", "A"),
        ("\n<think>\nB\n</think>\n\nA", "\n\nA"),
        ("<THINKING>so</Thinking> A", " A"),
        ("<think>one</think><think>two</think>A", "A"),
        ("<think>he wrote </thinking> here</think>A", "A"),
        ("I say <think>aloud</think>", "I say <think>aloud</think>"),
        ("<thinker>A", "<thinker>A"),
        ("<think>VERDICT: A", None),
        ("<think>a</think><think>VERDICT: A", None),
        ("<thinking>VERDICT: A</think>", None),
    ],
)
def test_the_answer_begins_behind_leading_thoughts(text: str, answer: str | None) -> None:
    start = answer_start(text)
    assert (None if start is None else text[start:]) == answer
