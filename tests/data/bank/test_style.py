"""The style of an answer in numbers."""

from __future__ import annotations

import pytest

from tiltyard.data.bank import AnswerStyles, measure_style


@pytest.mark.parametrize(
    ("text", "headings", "lists", "bold"),
    [
        ("", 0, 0, 0),
        ("# One\ntext\n### Two\n#hashtag\n####### seven is none", 2, 0, 0),
        ("- a\n  * b\n+ c\n1. d\n2) e\n-not one\n1.5 is a number", 0, 5, 0),
        ("**yes** and __also__, but snake__case__name and ** not ** this", 0, 0, 2),
        ("**a\nb**", 0, 0, 0),
        ("before\n```python\n# no heading\n- no list\n**kwargs**\n```\n# after", 1, 0, 0),
        ("~~~\n# open to the end\n- a", 0, 0, 0),
        ("**Title**\n\n- **one**: two\n", 0, 1, 2),
    ],
)
def test_headings_lists_and_bold_passages_are_counted_outside_code(
    text: str, headings: int, lists: int, bold: int
) -> None:
    assert measure_style(text) == (len(text), headings, lists, bold)


def test_an_answer_is_measured_once() -> None:
    styles, looked_at = AnswerStyles(), []

    def text() -> str:
        looked_at.append(1)
        return "# A\n**b**"

    places = [
        styles.place("otter", "p1", text),
        styles.place("heron", "p1", lambda: "c"),
        styles.place("otter", "p1", text),
    ]
    assert places == [0, 1, 0]
    assert len(looked_at) == 1
    assert styles.table().tolist() == [[9, 1, 0, 1], [1, 0, 0, 0]]


def test_a_long_line_without_an_end_is_measured_in_time() -> None:
    """Stars and backquotes without a partner must not make the search quadratic."""
    assert measure_style("**a " * 50_000)[0] == 200_000
    assert measure_style("```\n" * 20_000)[1:] == (0, 0, 0)
    assert measure_style("- " * 50_000)[2] == 1
