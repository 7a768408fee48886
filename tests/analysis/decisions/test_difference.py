"""The difference of two models: the numbers against an anchored board, closed forms, and a known truth."""

from __future__ import annotations

import math

import numpy as np
import pytest
from decision_rows import battle, field
from hypothesis import given
from hypothesis import strategies as st
from tests.analysis.decisions.planned_worlds import PlannedWorld
from tests.sizes import size

import tiltyard as ty
from tiltyard.analysis.decisions.contrast import Contrast
from tiltyard.errors import OptionError, RatingError
from tiltyard.stats import POINTS_PER_LOGIT


def test_it_is_the_interval_of_a_board_anchored_at_the_old_model():
    rows = field(1)
    found = ty.compare("v2", "v1", battles=rows)
    entry = ty.rate(rows, anchor=("v1", 0.0))["v2"]
    assert (found.difference, found.low, found.high) == pytest.approx((entry.rating, entry.ci_low, entry.ci_high))


def test_the_other_way_round_it_is_the_same_with_the_other_sign():
    rows = field(2)
    one, other = ty.compare("v2", "v1", battles=rows), ty.compare("v1", "v2", battles=rows)
    assert one.low is not None
    assert one.high is not None
    assert (other.difference, other.low, other.high) == pytest.approx((-one.difference, -one.high, -one.low))
    assert one.probability_better == pytest.approx(1.0 - (other.probability_better or 0.0))
    assert one.estimate.win_rate == pytest.approx(1.0 - other.estimate.win_rate)
    assert one.estimate.win_rate_low == pytest.approx(1.0 - (other.estimate.win_rate_high or 0.0))
    assert [prompt.net for prompt in one.prompts] == [-prompt.net for prompt in other.prompts]


def test_two_models_alone_have_their_plain_win_rate_and_the_log_odds_of_it():
    rows = [battle("new", "old", "model_a", f"q{i}") for i in range(30)]
    rows += [battle("old", "new", "model_a", f"r{i}") for i in range(18)]
    found = ty.compare("new", "old", battles=rows)
    assert found.direct is not None
    assert (found.direct.wins, found.direct.losses, found.direct.ties) == (30, 18, 0)
    assert found.estimate.win_rate == 30 / 48
    assert found.difference == pytest.approx(POINTS_PER_LOGIT * math.log(30 / 18))
    error = math.sqrt(1 / 30 + 1 / 18)
    assert found.contrast.variance == pytest.approx(error**2, rel=0.05)
    assert found.n_prompts == 48
    assert found.n_voters is None
    assert found.sentence.endswith("; 48 battles on 48 prompts.")


def test_repeating_every_verdict_does_not_make_it_surer():
    rows = [row for row in field(3) if {row["model_a"], row["model_b"]} == {"v1", "v2"}]
    once, thrice = ty.compare("v2", "v1", battles=rows), ty.compare("v2", "v1", battles=rows * 3)
    assert thrice.probability_better == pytest.approx(once.probability_better, abs=0.01)
    assert ty.compare("v2", "v1", battles=rows * 3, cluster="none").contrast.error < 0.7 * once.contrast.error


def test_models_that_never_met_are_compared_through_the_field():
    rows = [row for row in field(4) if {row["model_a"], row["model_b"]} != {"v1", "v2"}]
    found = ty.compare("v2", "v1", battles=rows)
    assert found.direct is None
    assert found.to_dict()["direct"] is None
    assert "none between the two" in found.sentence
    assert "never met" in str(found)


def test_ties_and_both_bad_are_shown_and_both_bad_moves_nothing():
    rows = [row for row in field(5) if {row["model_a"], row["model_b"]} == {"v1", "v2"}]
    bad = [battle("v2", "v1", "tie (bothbad)", f"q{i}") for i in range(7)]
    plain, more = ty.compare("v2", "v1", battles=rows), ty.compare("v2", "v1", battles=rows + bad)
    assert more.difference == plain.difference
    assert more.n_battles == plain.n_battles
    assert more.direct is not None
    assert more.direct.both_bad == 7
    assert "7 both bad" in str(more)


@pytest.mark.parametrize("won", [1, 3, 40])
def test_a_model_that_never_lost_has_no_upper_end_and_no_certainty(won):
    found = ty.compare("new", "old", battles=[battle("new", "old", "model_a", f"q{i}") for i in range(won)])
    assert found.high is None
    assert found.estimate.win_rate == 1.0
    assert found.probability_better is None or found.probability_better < 1.0 - 0.5 ** (won + 3)
    if won == 1:
        assert found.low is None or found.low < -300
    if won == 40:
        assert found.low is not None
        assert found.low > 0
        assert "better" in found.sentence
        assert "or more" in found.sentence


def test_ties_alone_say_that_nothing_tells_them_apart():
    with pytest.raises(ty.TiltyardError, match="every battle is a tie"):
        ty.compare("new", "old", battles=[battle("new", "old", "tie", f"q{i}") for i in range(9)])


def test_one_prompt_gives_a_number_but_no_sureness():
    rows = [battle("new", "old", winner, "q") for winner in ["model_a"] * 8 + ["model_b"] * 4]
    rows += [battle("new", "old", "model_b", "r")]
    found = ty.compare("new", "old", battles=rows)
    assert found.low is None
    assert found.high is None
    assert found.probability_better is None
    assert found.sentence.startswith("cannot tell new from old")
    assert "too few prompts" in str(found)


def test_parts_hold_at_once_so_they_are_wider_than_alone():
    rows = field(6)
    found = ty.compare("v2", "v1", battles=rows)
    assert [(part.column, part.value) for part in found.parts] == [("category", "chat"), ("category", "code")]
    alone = ty.compare("v2", "v1", battles=[row for row in rows if row["category"] == "chat"], level=0.975)
    part = found.parts[0].estimate
    assert part is not None
    assert (part.low, part.high) == pytest.approx((alone.low, alone.high))


def test_a_category_without_one_of_them_says_why():
    rows = [*field(7), battle("v1", "top", "model_a", "z", category="verse")]
    parts = {part.value: part for part in ty.compare("v2", "v1", battles=rows).parts}
    assert parts["verse"].estimate is None
    assert "no battle of 'v2'" in (parts["verse"].reason or "")


def test_the_prompts_that_decide_it_come_with_their_texts():
    rows = [battle("v2", "v1", "model_b", "lost")] * 3 + [battle("v1", "v2", "model_b", "won")] * 2
    rows += [battle("v2", "v1", "tie", f"t{i}") for i in range(5)]
    found = ty.compare("v2", "v1", battles=rows, texts={"lost": "Why is the sky blue?"})
    by = {prompt.prompt: prompt for prompt in found.prompts}
    assert (by["lost"].wins, by["lost"].losses) == (0, 3)
    assert by["lost"].new_score == 0.0
    assert (by["won"].wins, by["won"].losses) == (2, 0)
    assert by["won"].change == 1.0
    text = str(found)
    assert text.index("lost most") < text.index("Why is the sky blue?") < text.index("won most")


def test_battles_between_the_two_that_contradict_the_field_are_mentioned():
    rows = []
    for i in range(150):
        rows += [battle("v2", "base", "model_a" if i % 4 else "model_b", f"a{i}")]
        rows += [battle("v1", "base", "model_a" if i % 4 == 0 else "model_b", f"b{i}")]
    for i in range(60):
        rows += [battle("v1", "v2", "model_a" if i % 4 else "model_b", f"c{i}")]
    assert any("more apart than" in remark for remark in ty.compare("v2", "v1", battles=rows).remarks)
    assert not any("more apart than" in remark for remark in ty.compare("v2", "v1", battles=field(8)).remarks)


def test_errors_name_what_there_is():
    rows = field(9, prompts=5)
    with pytest.raises(OptionError, match=r"no battle of 'v3'. The models are base, top, v1, v2."):
        ty.compare("v3", "v1", battles=rows)
    with pytest.raises(OptionError, match="compared with itself"):
        ty.compare("v1", "v1", battles=rows)
    with pytest.raises(RatingError, match="v2 and v1 never met, and no chain of battles joins them"):
        ty.compare("v2", "v1", battles=[battle("v1", "a", "model_a"), battle("v2", "b", "model_a")])


@given(
    value=st.floats(-3, 3),
    variance=st.floats(1e-4, 4),
    own=st.sampled_from([0.0, 0.02, 0.5]),
    degrees=st.floats(1.5, 500),
    level=st.floats(0.5, 0.999),
)
def test_the_interval_excludes_zero_exactly_when_the_probability_says_so(value, variance, own, degrees, level):
    found = Contrast(value, variance, own, degrees, clustered=True, battles=50)
    low, high = found.ends(level)
    probability = found.probability_above()
    assert low is not None
    assert high is not None
    assert probability is not None
    if abs(probability - 0.5) > 1e-6 and min(abs(low), abs(high)) > 1e-6:
        assert (low > 0 or high < 0) == (abs(probability - 0.5) > 0.5 * level)


def test_probabilities_are_p_values_under_equal_models():
    """A/A: prompts with tastes, several verdicts a prompt. One in ten is below 0.1, and one in ten above 0.9."""
    n = size(40, soak=3000)
    runs = (PlannedWorld(0.0, spread=1.0, models=4).draw(30, np.random.default_rng(1000 + i)) for i in range(n))
    found = [ty.compare("m00", "m01", battles=table, by=()).probability_better for table in runs]
    below, above = np.mean([p < 0.1 for p in found]), np.mean([p > 0.9 for p in found])
    margin = 3.5 * math.sqrt(0.1 * 0.9 / n)
    assert below < 0.1 + margin
    assert above < 0.1 + margin
    assert below + above > 0.2 - 2 * margin


def test_few_prompts_are_said_to_be_few():
    rows = [battle("v2", "v1", "model_a" if i % 3 else "model_b", f"q{i % 4}") for i in range(80)]
    found = ty.compare("v2", "v1", battles=rows)
    assert "v2: rough interval: its battles come from few prompts (effectively 4.0)" in found.remarks
    assert not any("rough interval" in remark for remark in ty.compare("v2", "v1", battles=field(10)).remarks)


def test_a_name_is_never_markup():
    name = "<b>|x|</b>&\nnew line"
    found = ty.compare(
        name, "v1", battles=[battle(name, "v1", "model_a" if i % 3 else "model_b", f"q{i}") for i in range(30)]
    )
    text = found.render("md")
    assert "<b>" not in text
    assert all(line.count("|") - line.count("\\|") in (7, 8) for line in text.splitlines() if line.startswith("|"))
    assert "<b>" not in found._repr_html_()


def test_models_that_nothing_joins_to_the_two_are_left_out_and_counted():
    rows = field(11)
    found = ty.compare("v2", "v1", battles=[*rows, battle("island", "other island", "model_a", "q1")])
    assert found.difference == pytest.approx(ty.compare("v2", "v1", battles=rows).difference)
    assert "left out: 2 models that no chain of battles joins to the two" in found.remarks


@pytest.mark.parametrize(
    ("prompts", "voters", "said"),
    [(1, 1, "for this one prompt, "), (3, 300, "for these 3 prompts, "), (200, 3, "for these 3 voters, ")],
)
def test_an_answer_for_a_few_prompts_or_voters_alone_says_so_first(prompts, voters, said):
    rows = [
        battle("v2", "v1", "model_b" if i % 3 == 0 else "model_a", f"q{i % prompts}", voter=f"v{i % voters}")
        for i in range(300)
    ]
    found = ty.compare("v2", "v1", battles=rows)
    assert found.sentence.startswith(said)
    assert found.to_dict()["only_for"] == said[4:-2]
    gate = found.gate()
    assert gate.verdict == "unknown"  # a few are not the next ones
    assert gate.needed is None
    assert f"cannot tell: {said[4:-2]} cannot stand for others" in gate.sentence
    decided = ty.compare("v2", "v1", battles=rows, cluster="none")  # the user's own decision
    assert decided.only_for is None
    assert decided.gate().verdict == "better"


def test_judges_and_people_together_are_mentioned():
    rows = [{**row, "source": "human" if i % 2 else "llm-judge"} for i, row in enumerate(field(12))]
    assert any("taken together" in remark for remark in ty.compare("v2", "v1", battles=rows).remarks)
    assert not any(
        "taken together" in remark for remark in ty.compare("v2", "v1", battles=rows, source="human").remarks
    )


def test_without_ties_the_mean_result_of_a_difference_is_the_chance_to_win():
    """30 of 40 won: log odds ln 3, 191 points, and a mean result of 0.75, whatever the model of ties."""
    rows = [
        {"model_a": "v2", "model_b": "v1", "winner": "model_b" if i % 4 == 0 else "model_a", "source": "llm-judge"}
        | {"question_id": f"p{i}"}
        for i in range(40)
    ]
    for ties in ("davidson", "rao-kupper", "half"):
        found = ty.compare("v2", "v1", battles=rows, ties=ties)
        assert found.estimate.win_rate == pytest.approx(0.75)
        assert found.direct.estimate.win_rate == pytest.approx(0.75)
