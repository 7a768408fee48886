"""A verdict is the last line, exactly; everything else is a failure with a name."""

from __future__ import annotations

import math
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiltyard.judging.reading import read_label, read_probabilities, read_reply, read_verdict_line
from tiltyard.judging.records import Said
from tiltyard.llm.records import Reply, Stop

READABLE = [
    ("VERDICT: A", Said.A),
    ("VERDICT: B", Said.B),
    ("VERDICT: TIE", Said.TIE),
    ("verdict: a", Said.A),
    ("Verdict: Tie", Said.TIE),
    ("VERDICT:B", Said.B),
    ("VERDICT : B", Said.B),
    ("**VERDICT: A**", Said.A),
    ("**VERDICT:** B", Said.B),
    ("VERDICT: **TIE**", Said.TIE),
    ("__VERDICT: A__", Said.A),
    ("`VERDICT: B`", Said.B),
    ("### VERDICT: A", Said.A),
    ("VERDICT: A.", Said.A),
    ("VERDICT: [B]", Said.B),
    ("VERDICT： A", Said.A),
    ("Both are fine.\n\nVERDICT: TIE\n\n  \n", Said.TIE),
    ("I first thought VERDICT: A.\nVERDICT: B", Said.B),
    ("VERDICT: A\nOn reflection:\nVERDICT: B", Said.B),
    ("Windows.\r\nVERDICT: A\r\n", Said.A),
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
def test_a_verdict_line_is_read(text: str, said: Said) -> None:
    assert read_verdict_line(text) is said


@pytest.mark.parametrize("text", UNREADABLE)
def test_anything_else_is_no_verdict(text: str) -> None:
    assert read_verdict_line(text) is None


@given(st.text(), st.sampled_from([Said.A, Said.B, Said.TIE]))
def test_whatever_goes_before_the_last_line_decides_nothing(reasoning: str, said: Said) -> None:
    assert read_verdict_line(f"{reasoning}\nVERDICT: {said.value}") is said


@given(st.text(), st.sampled_from(["A", "B", "TIE"]), st.text(min_size=1).filter(str.strip))
def test_a_verdict_above_the_last_line_does_not_count(before: str, word: str, last: str) -> None:
    found = read_verdict_line(f"{before}\nVERDICT: {word}\n{last}")
    assert found is read_verdict_line(last)


@given(st.text())
def test_no_text_breaks_the_reader(text: str) -> None:
    assert read_verdict_line(text) in (None, Said.A, Said.B, Said.TIE)
    assert read_label(text) in (None, Said.A, Said.B, Said.TIE)


def test_a_line_made_to_slow_the_reader_down_does_not() -> None:
    started = time.perf_counter()
    assert read_verdict_line("VERDICT: A" + "*" * 200_000 + "x") is None
    assert time.perf_counter() - started < 0.5


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (Reply(text="VERDICT: A"), Said.A),
        (Reply(text="no idea"), Said.UNPARSED),
        (Reply(text=""), Said.UNPARSED),
        (Reply(text="VERDICT: A", stop=Stop.LENGTH), Said.TRUNCATED),
        (Reply(text="VERDICT: A", stop=Stop.REFUSAL), Said.REFUSED),
        (Reply(error="expired"), Said.ERROR),
        (Reply(text="<think>VERDICT: B\n</think>VERDICT: A"), Said.A),
        (Reply(text="<think>So.</think>\nA is better.\nVERDICT: A"), Said.A),
        (Reply(text="<think>So.\nVERDICT: A"), Said.UNPARSED),
        (Reply(text="<think>So.\nVERDICT: A", stop=Stop.LENGTH), Said.TRUNCATED),
        (Reply(text="<think>So.</think>\nVERDICT: A", stop=Stop.LENGTH), Said.TRUNCATED),
        (Reply(text="VERDICT: A", error="errored: overloaded_error"), Said.ERROR),
    ],
)
def test_a_reply_is_read_or_named(reply: Reply, said: Said) -> None:
    reading = read_reply(reply)
    assert reading.said is said
    assert (reading.why is None) == said.readable


CHOICES = ("A", "B", "TIE")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("A", Said.A),
        (" b. ", Said.B),
        ("**TIE**", Said.TIE),
        ("A B", None),
        ("VERDICT: A", None),
        ("", None),
        ("C", None),
        ("<think>B? No, A.</think>\n\nA", Said.A),
        ("<think>\nA", None),
    ],
)
def test_a_one_word_reply_is_the_word_alone(text: str, said: Said | None) -> None:
    assert read_reply(Reply(text=text), CHOICES).said is (said or Said.UNPARSED)
    assert "<think>" in text or read_label(text) is said


def test_the_third_option_of_a_multiple_choice_is_a_tie() -> None:
    options = ("A", "B", "C")
    assert [read_label(text, options) for text in ("a", "B)", "C")] == [Said.A, Said.B, Said.TIE]
    assert [read_label(text, options) for text in ("TIE", "D")] == [None, None]
    reading = read_reply(Reply(text="C", choice_probabilities={"A": 0.3, "B": 0.1, "C": 0.6}), options)
    assert (reading.said, reading.score_a) == (Said.TIE, pytest.approx(0.6))
    assert read_reply(Reply(text="A", choice_probabilities={"TIE": 1.0}), options).said is Said.UNPARSED


@pytest.mark.parametrize(
    ("chances", "said", "score_a"),
    [
        ({"A": 0.7, "B": 0.2, "TIE": 0.1}, Said.A, 0.75),
        ({"A": 0.1, "B": 0.6, "TIE": 0.3}, Said.B, 0.25),
        ({"A": 0.2, "B": 0.3, "TIE": 0.5}, Said.TIE, 0.45),
        ({"A": 0.2, "B": 0.6}, Said.B, 0.25),
        ({"A": 0.5, "B": 0.5}, Said.TIE, 0.5),
        ({"A": 0.4, "TIE": 0.4, "B": 0.2}, Said.TIE, 0.6),
    ],
)
def test_probabilities_give_the_likeliest_word_and_a_soft_score(
    chances: dict[str, float], said: Said, score_a: float
) -> None:
    reading = read_reply(Reply(text="A", stop=Stop.LENGTH, choice_probabilities=chances), CHOICES)
    assert reading.said is said
    assert reading.score_a == pytest.approx(score_a)
    assert reading.choice_mass == pytest.approx(sum(chances.values()))


def test_words_that_were_never_likely_are_no_verdict_and_the_reason_names_how_likely() -> None:
    sorry = Reply(text="Sorry", choice_probabilities={"A": math.exp(-14), "B": math.exp(-17), "TIE": 0.0})
    reading = read_reply(sorry, CHOICES)
    assert (reading.said, reading.score_a, reading.choice_mass) == (
        Said.UNPARSED,
        None,
        pytest.approx(8.7e-7, rel=0.01),
    )
    assert reading.why == "the allowed answers have a probability of 0.00 together; a verdict needs 0.50"
    nearly = Reply(text="A", choice_probabilities={"A": 0.3, "B": 0.1, "TIE": 0.0999})
    assert "a probability of 0.49 together" in str(read_reply(nearly, CHOICES).why)
    enough = Reply(text="A", choice_probabilities={"A": 0.3, "B": 0.1, "TIE": 0.1})
    assert read_reply(enough, CHOICES).said is Said.A
    assert read_reply(nearly, CHOICES, min_choice_mass=0.4).said is Said.A
    assert read_reply(enough, CHOICES, min_choice_mass=0.6).said is Said.UNPARSED
    assert (
        read_reply(Reply(text="A", choice_probabilities={"A": 0.0}), CHOICES, min_choice_mass=0).said is Said.UNPARSED
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("A", Said.A),  # one token was allowed, and it was the answer
        (" A\n", Said.A),
        ("<think>B? No.</think> A", Said.A),
        ("", Said.TRUNCATED),
        ("T", Said.TRUNCATED),
        ("A is better because", Said.TRUNCATED),
        ("Sorry", Said.TRUNCATED),
        ("<think>\nA", Said.TRUNCATED),
        ("<think>\nHm.</think>", Said.TRUNCATED),
    ],
)
def test_a_reply_that_was_cut_off_counts_only_as_one_whole_word_with_probabilities(text: str, said: Said) -> None:
    sure = {"A": 0.9, "B": 0.1, "TIE": 0.0}
    assert read_reply(Reply(text=text, stop=Stop.LENGTH, choice_probabilities=sure), CHOICES).said is said
    assert read_reply(Reply(text=text, stop=Stop.LENGTH), CHOICES).said is Said.TRUNCATED


@pytest.mark.parametrize("chances", [{"C": 1.0}, {"A": 0.0}, {"A": math.nan}, {"A": math.inf}, {"A": 2.0, "B": -1.0}])
def test_probabilities_that_are_none_are_unparsed(chances: dict[str, float]) -> None:
    assert read_probabilities(chances).said is Said.UNPARSED


chance = st.floats(0, 1)


@given(chance, chance, chance)
def test_exchanging_the_slots_exchanges_word_and_score(a: float, b: float, tie: float) -> None:
    one = read_probabilities({"A": a, "B": b, "TIE": tie})
    other = read_probabilities({"A": b, "B": a, "TIE": tie})
    assert one.said is other.said.other_slot
    if one.score_a is not None and other.score_a is not None:
        assert one.score_a + other.score_a == pytest.approx(1)
