"""A verdict is the last line, exactly; everything else is a failure with a name."""

from __future__ import annotations

import math
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiltyard.judge.llm import Reply, Stop
from tiltyard.judge.verdicts import VerdictLabel
from tiltyard.judge.verdicts.reading import read_label, read_probabilities, read_reply, read_verdict_line

READABLE = [
    ("VERDICT: A", VerdictLabel.A),
    ("VERDICT: B", VerdictLabel.B),
    ("VERDICT: TIE", VerdictLabel.TIE),
    ("verdict: a", VerdictLabel.A),
    ("Verdict: Tie", VerdictLabel.TIE),
    ("VERDICT:B", VerdictLabel.B),
    ("VERDICT : B", VerdictLabel.B),
    ("**VERDICT: A**", VerdictLabel.A),
    ("**VERDICT:** B", VerdictLabel.B),
    ("VERDICT: **TIE**", VerdictLabel.TIE),
    ("__VERDICT: A__", VerdictLabel.A),
    ("`VERDICT: B`", VerdictLabel.B),
    ("### VERDICT: A", VerdictLabel.A),
    ("VERDICT: A.", VerdictLabel.A),
    ("VERDICT: [B]", VerdictLabel.B),
    ("VERDICT： A", VerdictLabel.A),
    ("Both are fine.\n\nVERDICT: TIE\n\n  \n", VerdictLabel.TIE),
    ("I first thought VERDICT: A.\nVERDICT: B", VerdictLabel.B),
    ("VERDICT: A\nOn reflection:\nVERDICT: B", VerdictLabel.B),
    ("Windows.\r\nVERDICT: A\r\n", VerdictLabel.A),
]

UNREADABLE = [
    "",
    "   \n\n",
    "A",
    "VERDICT",
    "VERDICT:",
    "VERDICT: C",
    "VERDICT: AB",
    "VERDICT: A or B",
    "VERDICT: A and B are equal",
    "VERDICT: A because it is longer",
    "VERDICT: not A",
    "VERDICT: 8.5",
    "VERDICT: BOTH",
    "My VERDICT: A",
    "The answer says VERDICT: A",
    '"VERDICT: A"',
    "> VERDICT: A",
    "“VERDICT: A”",
    "VERDICT: A\nI hope that helps!",
    "VERDICT: A\n\nVERDICT: maybe",
    "Answer A is better than answer B.",
    "[[A]]",
    "NOVERDICT: A",
    "VERDICT: TIE or A",
    "VERDICT: Tıe",
    "{'VERDICT': 'A'}",
    *(
        f"The answer ends with{end}VERDICT: A"
        for end in ("\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\x1c", "\x1e", "\r")
    ),
]


@pytest.mark.parametrize(("text", "said"), READABLE)
def test_a_verdict_line_is_read(text: str, said: VerdictLabel) -> None:
    assert read_verdict_line(text) is said


@pytest.mark.parametrize("text", UNREADABLE)
def test_anything_else_is_no_verdict(text: str) -> None:
    assert read_verdict_line(text) is None


@given(st.text(), st.sampled_from([VerdictLabel.A, VerdictLabel.B, VerdictLabel.TIE]))
def test_whatever_goes_before_the_last_line_decides_nothing(reasoning: str, said: VerdictLabel) -> None:
    assert read_verdict_line(f"{reasoning}\nVERDICT: {said.value}") is said


@given(st.text(), st.sampled_from(["A", "B", "TIE"]), st.text(min_size=1).filter(str.strip))
def test_a_verdict_above_the_last_line_does_not_count(before: str, word: str, last: str) -> None:
    found = read_verdict_line(f"{before}\nVERDICT: {word}\n{last}")
    assert found is read_verdict_line(last)


@given(st.text())
def test_no_text_breaks_the_reader(text: str) -> None:
    assert read_verdict_line(text) in (None, VerdictLabel.A, VerdictLabel.B, VerdictLabel.TIE)
    assert read_label(text) in (None, VerdictLabel.A, VerdictLabel.B, VerdictLabel.TIE)


def test_a_line_made_to_slow_the_reader_down_does_not() -> None:
    started = time.process_time()
    assert read_verdict_line("VERDICT: A" + "*" * 200_000 + "x") is None
    assert time.process_time() - started < 2


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (Reply(text="VERDICT: A"), VerdictLabel.A),
        (Reply(text="no idea"), VerdictLabel.UNPARSED),
        (Reply(text=""), VerdictLabel.UNPARSED),
        (Reply(text="VERDICT: A", stop=Stop.LENGTH), VerdictLabel.TRUNCATED),
        (Reply(text="VERDICT: A", stop=Stop.REFUSAL), VerdictLabel.REFUSED),
        (Reply(error="expired"), VerdictLabel.ERROR),
        (Reply(text="<think>VERDICT: B\n</think>VERDICT: A"), VerdictLabel.A),
        (Reply(text="<think>So.</think>\nA is better.\nVERDICT: A"), VerdictLabel.A),
        (Reply(text="<think>So.\nVERDICT: A"), VerdictLabel.UNPARSED),
        (Reply(text="<think>So.\nVERDICT: A", stop=Stop.LENGTH), VerdictLabel.TRUNCATED),
        (Reply(text="<think>So.</think>\nVERDICT: A", stop=Stop.LENGTH), VerdictLabel.TRUNCATED),
        (Reply(text="VERDICT: A", error="errored: overloaded_error"), VerdictLabel.ERROR),
    ],
)
def test_a_reply_is_read_or_named(reply: Reply, said: VerdictLabel) -> None:
    reading = read_reply(reply)
    assert reading.label is said
    assert (reading.why is None) == said.readable


CHOICES = ("A", "B", "TIE")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("A", VerdictLabel.A),
        (" b. ", VerdictLabel.B),
        ("**TIE**", VerdictLabel.TIE),
        ("A B", None),
        ("VERDICT: A", None),
        ("", None),
        ("C", None),
        ("<think>B? No, A.</think>\n\nA", VerdictLabel.A),
        ("<think>\nA", None),
    ],
)
def test_a_one_word_reply_is_the_word_alone(text: str, said: VerdictLabel | None) -> None:
    assert read_reply(Reply(text=text), CHOICES).label is (said or VerdictLabel.UNPARSED)
    assert "<think>" in text or read_label(text) is said


def test_the_third_option_of_a_multiple_choice_is_a_tie() -> None:
    options = ("A", "B", "C")
    assert [read_label(text, options) for text in ("a", "B)", "C")] == [
        VerdictLabel.A,
        VerdictLabel.B,
        VerdictLabel.TIE,
    ]
    assert [read_label(text, options) for text in ("TIE", "D")] == [None, None]
    reading = read_reply(Reply(text="C", choice_probabilities={"A": 0.3, "B": 0.1, "C": 0.6}), options)
    assert (reading.label, reading.score_a) == (VerdictLabel.TIE, pytest.approx(0.6))
    assert read_reply(Reply(text="A", choice_probabilities={"TIE": 1.0}), options).label is VerdictLabel.UNPARSED


@pytest.mark.parametrize(
    ("chances", "said", "score_a"),
    [
        ({"A": 0.7, "B": 0.2, "TIE": 0.1}, VerdictLabel.A, 0.75),
        ({"A": 0.1, "B": 0.6, "TIE": 0.3}, VerdictLabel.B, 0.25),
        ({"A": 0.2, "B": 0.3, "TIE": 0.5}, VerdictLabel.TIE, 0.45),
        ({"A": 0.2, "B": 0.6}, VerdictLabel.B, 0.25),
        ({"A": 0.5, "B": 0.5}, VerdictLabel.TIE, 0.5),
        ({"A": 0.4, "TIE": 0.4, "B": 0.2}, VerdictLabel.TIE, 0.6),
    ],
)
def test_probabilities_give_the_likeliest_word_and_a_soft_score(
    chances: dict[str, float], said: VerdictLabel, score_a: float
) -> None:
    reading = read_reply(Reply(text="A", choice_probabilities=chances), CHOICES)
    assert reading.label is said
    assert reading.score_a == pytest.approx(score_a)
    assert reading.choice_mass == pytest.approx(sum(chances.values()))


def test_words_that_were_never_likely_are_no_verdict_and_the_reason_names_how_likely() -> None:
    sorry = Reply(text="Sorry", choice_probabilities={"A": math.exp(-14), "B": math.exp(-17), "TIE": 0.0})
    reading = read_reply(sorry, CHOICES)
    assert (reading.label, reading.score_a, reading.choice_mass) == (
        VerdictLabel.UNPARSED,
        None,
        pytest.approx(8.7e-7, rel=0.01),
    )
    assert reading.why == "the allowed answers have a probability of 0.00 together; a verdict needs 0.50"
    nearly = Reply(text="A", choice_probabilities={"A": 0.3, "B": 0.1, "TIE": 0.0999})
    assert "a probability of 0.49 together" in str(read_reply(nearly, CHOICES).why)
    enough = Reply(text="A", choice_probabilities={"A": 0.3, "B": 0.1, "TIE": 0.1})
    assert read_reply(enough, CHOICES).label is VerdictLabel.A
    assert read_reply(nearly, CHOICES, min_choice_mass=0.4).label is VerdictLabel.A
    assert read_reply(enough, CHOICES, min_choice_mass=0.6).label is VerdictLabel.UNPARSED
    assert (
        read_reply(Reply(text="A", choice_probabilities={"A": 0.0}), CHOICES, min_choice_mass=0).label
        is VerdictLabel.UNPARSED
    )


@pytest.mark.parametrize("text", ["A", " A\n", "<think>B? No.</think> A", "", "T", "A is better because", "<think>\nA"])
def test_a_reply_that_was_cut_off_is_no_verdict_with_probabilities_or_without(text: str) -> None:
    for chances in (None, {"A": 0.9, "B": 0.1, "TIE": 0.0}):
        reply = Reply(text=text, stop=Stop.LENGTH, choice_probabilities=chances)
        assert read_reply(reply, CHOICES).label is VerdictLabel.TRUNCATED


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("A", VerdictLabel.A),
        (" **a**.\n", VerdictLabel.A),
        ("(A)", VerdictLabel.A),
        ("“A”!", VerdictLabel.A),
        ("A .", VerdictLabel.A),
        ("A<|im_end|>", VerdictLabel.A),
        ("A </s>\n", VerdictLabel.A),
        ("A<｜end▁of▁sentence｜>", VerdictLabel.A),
        ("<think>B?</think>A", VerdictLabel.A),
        ("A better answer is B.", None),
        ("A\nB", None),
        ("A B", None),
        ("A, B", None),
        ("A/B", None),
        ("A>B", None),
        ("A <B>", None),
        ("A?", None),
        ("not A", None),
        ("A1", None),
        ("A" + " " * 200, None),
    ],
)
def test_a_choice_with_probabilities_is_that_and_nothing_after_it(text: str, said: VerdictLabel | None) -> None:
    """The first token says A whatever follows it."""
    reading = read_reply(Reply(text=text, choice_probabilities={"A": 0.9, "B": 0.1, "TIE": 0.0}), CHOICES)
    assert reading.label is (said or VerdictLabel.UNPARSED)
    assert reading.score_a == (None if said is None else pytest.approx(0.9))
    assert read_reply(Reply(text=text), CHOICES).label is reading.label, "and without them too"


@pytest.mark.parametrize("chances", [{"C": 1.0}, {"A": 0.0}, {"A": math.nan}, {"A": math.inf}, {"A": 2.0, "B": -1.0}])
def test_probabilities_that_are_none_are_unparsed(chances: dict[str, float]) -> None:
    assert read_probabilities(chances).label is VerdictLabel.UNPARSED


chance = st.floats(0, 1)


@given(chance, chance, chance)
def test_exchanging_the_slots_exchanges_word_and_score(a: float, b: float, tie: float) -> None:
    one = read_probabilities({"A": a, "B": b, "TIE": tie})
    other = read_probabilities({"A": b, "B": a, "TIE": tie})
    assert one.label is other.label.other_slot
    if one.score_a is not None and other.score_a is not None:
        assert one.score_a + other.score_a == pytest.approx(1)
