"""The gate: what each verdict needs, error rates with known truth, and the files it writes."""

from __future__ import annotations

import json
from xml.etree import ElementTree

import numpy as np
import pytest
from decision_rows import battle, field
from tests.records import replace
from tests.sizes import size

import tiltyard as ty
from oracles.gates import ESTIMATOR, GateWorld, asked_after_every_prompt, shares
from tiltyard.analysis.decisions.contrast import Contrast, contrast
from tiltyard.analysis.decisions.gate import decide, times_needed
from tiltyard.analysis.decisions.missing import Cases
from tiltyard.errors import OptionError
from tiltyard.stats import POINTS_PER_LOGIT


def known(points: float, error: float, *, degrees: float = 1e6) -> Contrast:
    variance = (error / POINTS_PER_LOGIT) ** 2
    return Contrast(points / POINTS_PER_LOGIT, variance, 0.0, degrees, clustered=True, battles=500)


@pytest.mark.parametrize(
    ("points", "error", "margin", "verdict"),
    [
        (25, 10, 30, "better"),
        (15, 10, 30, "not_worse"),
        (0, 10, 30, "not_worse"),
        (-10, 10, 30, "not_worse"),
        (-25, 10, 30, "worse"),
        (-25, 10, 60, "not_worse"),  # surely worse, and surely not by more than the margin
        (-25, 40, 30, "unknown"),
        (17, 10, 0, "not_worse"),  # one-sided above zero, two-sided not
        (0, 10, 0, "unknown"),
    ],
)
def test_verdicts(points, error, margin, verdict):
    assert decide(Cases.of(known(points, error)), margin, 0.05)[0] == verdict


def test_the_ends_are_where_the_quantiles_say():
    """Better from 1.960 standard errors on, not worse from 1.645 above minus the margin."""
    assert decide(Cases.of(known(19.7, 10)), 30, 0.05)[0] == "better"
    assert decide(Cases.of(known(19.5, 10)), 30, 0.05)[0] == "not_worse"
    assert decide(Cases.of(known(-13.4, 10)), 30, 0.05)[0] == "not_worse"
    assert decide(Cases.of(known(-13.6, 10)), 30, 0.05)[0] == "unknown"
    assert decide(Cases.of(known(-19.7, 10)), 0, 0.05)[0] == "worse"


def test_without_enough_prompts_it_cannot_tell():
    assert decide(Cases.of(known(500, 10, degrees=0.0)), 30, 0.05) == ("unknown", None)


def test_how_sure_one_is_in_the_worst_case_is_its_own_mirror():
    """One half beside 80 % is one half, and one half beside 20 % is too; 60 % beside 40 % says nothing."""

    def sure(*points: float) -> float | None:
        against, one, in_favour = sorted(points)
        return Cases(*(known(points, 10) for points in (one, against, in_favour))).probability_better

    assert (sure(0, 4, 8), sure(-8, -4, 0)) == (0.5, 0.5)
    assert sure(-2, 1, 2) is None
    assert sure(2, 4, 8) == pytest.approx(known(2, 10).probability_above())
    for points in np.random.default_rng(1).integers(-3, 4, (200, 3)):
        one, other = sure(*points), sure(*-points)
        assert one == (None if other is None else pytest.approx(1 - other))


def test_certainty_under_anytime_is_that_of_the_interval():
    """97.5 % sure where the lower end of the 95 % interval at any time is 0, for battles as for scores."""
    one = known(60, 20)
    low, _ = one.ends(0.95, anytime=True)
    assert one.probability_above(low, anytime=True) == pytest.approx(0.975, abs=1e-6)
    assert one.probability_above(anytime=True) < one.probability_above()
    assert one.probability_above(60, anytime=True) == 0.5
    assert replace(one, battles=19).probability_above(anytime=True) is None, "no interval before the first look"


@pytest.mark.parametrize(
    "world",
    [
        GateWorld(10, 4, 1.5),
        pytest.param(GateWorld(30, 2, 1.0), marks=pytest.mark.soak),
        GateWorld(30, 2, 1.0, zipf=1.0),
    ],
)
def test_equal_models_are_seldom_called_better_or_worse(world):
    found = shares(world, size(70, soak=3000))
    slack = size(0.056, soak=0.01)
    assert found["better"] <= 0.025 + slack
    assert found["worse"] <= 0.025 + slack
    assert found["better"] + found["not_worse"] <= 0.05 + 1.5 * slack  # with margin 0 both pass


def test_a_model_that_is_worse_by_the_margin_seldom_passes():
    found = shares(GateWorld(40, 1, 0.0, gap=-100.0), size(80, soak=3000), margin=100.0)
    assert found["better"] + found["not_worse"] <= 0.05 + size(0.073, soak=0.01)


def test_peeking_after_every_prompt_does_not_make_false_alarms():
    """In these two worlds whoever peeks with the rule for a single look calls one of two equals worse."""
    for seed in (18, 36):
        table = GateWorld(30, 1, 1.0).draw(np.random.default_rng([seed, 9]))
        assert asked_after_every_prompt(table, 0.0, first=13)[0] == "unknown"
        assert asked_after_every_prompt(table, 0.0, anytime=False, first=13)[0] == "worse"


@pytest.mark.soak
def test_peeking_after_every_prompt_seldom_makes_a_false_alarm():
    found = shares(GateWorld(30, 1, 1.0), 400, peek=True, anytime=True)
    assert found["better"] + found["worse"] <= 0.05


def test_a_clear_difference_is_seen_long_before_the_end():
    table = GateWorld(160, 1, 0.5, gap=250.0).draw(np.random.default_rng(4))
    verdict, seen = asked_after_every_prompt(table, 30.0, first=20)
    assert verdict in ("better", "not_worse")
    assert seen <= 80


def test_the_size_it_asks_for_gives_the_power_it_promises():
    """Equal models at the size that `times_needed` names pass in about 80 % of cases."""
    margin, prompts = 80.0, 40
    rng = np.random.default_rng(5)
    times = [
        times_needed(contrast(ESTIMATOR.solve(GateWorld(prompts, 1, 0.8).draw(rng)), "new", "old"), margin, 0.05)
        for _ in range(15)
    ]
    needed = round(prompts * float(np.median([t for t in times if t is not None])))
    found = shares(GateWorld(needed, 1, 0.8), size(80, soak=2000), margin=margin, seed=6)
    assert found["better"] + found["not_worse"] == pytest.approx(0.8, abs=size(0.134, soak=0.05))


def test_a_category_that_is_worse_fails_the_whole():
    rows = []
    for i in range(200):
        good = i % 2 == 0
        rows.append(battle("v2", "v1", "model_a" if good or i % 10 == 1 else "model_b", f"q{i}", category="ab"[i % 2]))
    found = ty.compare("v2", "v1", battles=rows)
    assert found.gate().verdict == "not_worse" or found.gate().verdict == "better"
    result = found.gate(by="category")
    assert result.verdict == "worse"
    assert {part.value: part.verdict for part in result.parts} == {"a": "better", "b": "worse"}
    assert result.sentence.startswith("fail: v2 is worse than v1 in b")


def test_with_categories_the_error_rate_is_shared():
    rows = field(1)
    plain, shared = (
        ty.compare("v2", "v1", battles=rows).gate(),
        ty.compare("v2", "v1", battles=rows).gate(by="category"),
    )
    assert plain.level == pytest.approx(0.95)
    assert (plain.low, plain.high) == (plain.difference.low, plain.difference.high)
    assert shared.level == pytest.approx(1 - 0.05 / 3)
    assert shared.difference.level == 0.95  # what is shown beside it keeps its own level, and says so
    assert (shared.low, shared.high) != (shared.difference.low, shared.difference.high)
    assert "the gate looks at the 98.3 % interval" in shared.render()
    assert "α is shared among 3 verdicts" in shared.render("md")
    with pytest.raises(OptionError, match="no column 'topic'"):
        ty.compare("v2", "v1", battles=rows).gate(by="topic")


def test_it_writes_what_a_pull_request_needs():
    result = ty.compare("v2", "v1", battles=field(2, gap=2.0), texts={"q1": "A | pipe\nand a line"}).gate()
    assert result.verdict == "better"
    assert result.passed
    contents = json.loads(result.to_json())
    assert contents["verdict"] == "better"
    assert contents["comparison"]["new"] == "v2"
    assert contents["margin_win_rate"] == pytest.approx(0.457, abs=0.001)
    assert contents["sentence"] in result.render()
    text = result.render("md")
    assert text.startswith("## ✅ v2 against v1\n\n**pass: v2 is better than v1")
    assert "| pipe" not in text.replace("\\|", "")


@pytest.mark.parametrize("names", [("v2", "v1"), ("v<2>&\x07", "v1")])
def test_junit_is_well_formed_whatever_the_names(names):
    rows = [battle(names[0], names[1], "model_b", f"q{i}") for i in range(40)]
    rows += [battle(names[0], names[1], "model_a", f"p{i}") for i in range(4)]
    result = ty.compare(*names, battles=rows).gate()
    suite = ElementTree.fromstring(result.render("junit"))
    assert (suite.get("tests"), suite.get("failures")) == ("1", "1")
    failure = suite.find("testcase/failure")
    assert failure is not None
    assert failure.get("type") == "worse"


@pytest.mark.parametrize(
    ("option", "value"), [("margin", -1.0), ("margin", float("nan")), ("alpha", 1e-300), ("alpha", 0.7)]
)
def test_odd_numbers_are_refused(option, value):
    with pytest.raises(OptionError, match=option):
        ty.compare("v2", "v1", battles=field(3)).gate(**{option: value})
