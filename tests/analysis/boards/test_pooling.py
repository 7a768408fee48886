"""`pool`: a category's ratings are pulled towards the model's over all, by as much as the battles say."""

from __future__ import annotations

import json

import numpy as np
import pytest
from msgspec import structs
from tests.records import replace

import tiltyard as ty
from oracles.categories import CategoryWorld, against_truth, compare
from tiltyard.analysis.boards import BradleyTerry, Selection, rate_by
from tiltyard.analysis.boards.rating import InputOptions
from tiltyard.data.battles import Codes, concat
from tiltyard.errors import NotConnected, OptionError, RatingError, TooLarge
from tiltyard.stats import TIE_MODELS, Comparisons, count_pairs, covariance_within, fit_pooled
from tiltyard.stats.bradley_terry import StrengthPrior

PLAIN = BradleyTerry(misfit=False)


def battle(a: str, b: str, winner: str = "model_a", category: str = "x", **more) -> dict[str, str]:
    return {"model_a": a, "model_b": b, "winner": winner, "source": "human", "category": category, **more}


def test_categories_that_differ_little_gain_and_intervals_hold():
    found = compare(CategoryWorld("alike", between=0.2), 3, 1)
    assert found.pooled < 0.6 * found.apart
    assert found.intervals >= 0.94


def test_categories_that_differ_much_lose_nothing():
    found = compare(CategoryWorld("apart", models=6, battles=300, between=1.5), 3, 2)
    assert found.pooled < 1.02 * found.apart
    assert found.worst < 1.1
    assert found.sd == pytest.approx(1.5, abs=0.4)
    assert found.intervals >= 0.9  # 90 of them: 0.95 over 100 runs


def test_a_voter_who_votes_in_all_categories_is_one_voter():
    """Voters' tastes move a model in all categories alike: intervals know, and do not take it for no difference."""
    world = CategoryWorld("voters", models=6, categories=3, battles=250, voters=30, between=0.4)
    found = compare(world, 3, 3)
    assert found.intervals >= 0.9
    assert found.sd > 0.15


@pytest.mark.soak
@pytest.mark.parametrize(
    "world",
    [
        CategoryWorld("alike", between=0.0),
        CategoryWorld("apart", battles=200, between=1.5),
        CategoryWorld("sizes", battles=(1500, 400, 150, 60, 30)),
        CategoryWorld("two", categories=2, battles=300),
        CategoryWorld("prompts", battles=400, prompts=20),
        CategoryWorld("few prompts", battles=300, prompts=4),
        CategoryWorld("voters", battles=400, voters=40),
        CategoryWorld("one voter", battles=400, voters=60, dominant=0.3),
        CategoryWorld("both", battles=400, prompts=20, voters=40),
    ],
    ids=lambda world: world.name,
)
def test_soak_intervals_and_errors(world):
    found = compare(world, 60, 11)
    assert found.intervals >= 0.94
    assert found.ranks >= 0.94
    assert found.pooled < found.apart


def test_every_model_is_pulled_between_its_own_rating_and_that_over_all():
    """Two categories of equal size: the mean of pooled strengths is the model's over all, which lies between them."""
    _, table = CategoryWorld("two", models=5, categories=2, battles=400, between=0.4).draw(np.random.default_rng(4))
    apart, pooled = rate_by(table, "category", PLAIN), rate_by(table, "category", PLAIN, pool=True)
    for name in table.models:
        separate = [board[name].rating for board in apart.values()]
        together = [board[name].rating for board in pooled.values()]
        assert min(separate) - 5.0 < min(together) <= max(together) < max(separate) + 5.0
        over_all = [board[name].extra["rating_over_all"] for board in pooled.values()]
        assert over_all[0] == pytest.approx(over_all[1])
        assert np.mean(together) == pytest.approx(over_all[0])


def test_the_same_battles_in_every_category_are_the_whole_board_in_each():
    _, table = CategoryWorld("one", models=5, categories=1, battles=300).draw(np.random.default_rng(5))
    whole = PLAIN.fit(table)
    copies = [
        replace(table, columns={"category": Codes(table.columns["category"].codes + k, ("a", "b"))}) for k in (0, 1)
    ]
    boards = rate_by(concat(copies), "category", PLAIN, pool=True)
    for board in boards.values():
        assert "pool: no model's strength differs by category beyond chance" in board.remarks[1]
        for name in table.models:
            assert board[name].rating == pytest.approx(whole[name].rating, abs=0.1)


def test_a_category_that_is_nearly_all_is_hardly_moved_by_the_others():
    world = CategoryWorld("sizes", models=6, categories=2, battles=(4000, 40), between=0.4)
    _, table = world.draw(np.random.default_rng(6))
    apart, pooled = (rate_by(table, "category", PLAIN, pool=pool, leave_out=lambda _: None) for pool in (False, True))
    large, small = sorted(pooled, key=lambda value: -pooled[value].n_battles)
    for name in table.models:
        assert pooled[large][name].rating == pytest.approx(apart[large][name].rating, abs=3.0)
    spread = np.std([pooled[small][name].rating - pooled[large][name].rating for name in pooled[small].models])
    alone = np.std([apart[small][name].rating - apart[large][name].rating for name in apart[small].models])
    assert spread < alone


def test_what_a_category_alone_cannot_say_is_bounded_by_the_others_and_noted():
    """Unbeaten here, or in two groups that never met here: both have ratings with whole intervals."""
    rows = [battle(a, b, w, "x") for a in "abcd" for b in "abcd" if a != b for w in ("model_a", "model_b", "tie")]
    rows += [battle("a", "b", category="y"), battle("a", "b", "tie", "y")]
    rows += [battle("c", "d", category="y"), battle("d", "c", category="y")]
    rows += [battle("a", "b", category="z"), battle("b", "c", category="z"), battle("c", "b", category="z")]
    boards = rate_by(rows, "category", BradleyTerry(), pool=True)
    assert boards["z"]["a"].note == "unbeaten here: only its battles elsewhere bound it above (pool)"
    assert all(None not in (entry.ci_low, entry.ci_high) for board in boards.values() for entry in board)
    assert "fit not checked: groups of models never met here" in boards["y"].remarks
    rows += [battle("new", "a", category="x"), battle("new", "b", category="z")]
    new = rate_by(rows, "category", BradleyTerry(), pool=True)["x"]["new"]
    assert new.ci_high is None
    assert new.ci_low is not None
    assert new.note == "unbeaten; kept finite by half a win and half a loss; no upper bound"


def test_groups_that_never_met_anywhere_are_named_or_left_out():
    rows = [battle(a, b, w, c) for a, b in ("ab", "cd") for w in ("model_a", "model_b") for c in "xy"]
    rows += [battle("a", "e", w, "x") for w in ("model_a", "model_b")]
    with pytest.raises(NotConnected, match="never met the largest"):
        rate_by(rows, "category", PLAIN, pool=True)
    boards = rate_by(rows, "category", replace(PLAIN, only_connected=True), pool=True)
    assert {value: sorted(board.models) for value, board in boards.items()} == {"x": ["a", "b", "e"], "y": ["a", "b"]}
    assert boards["y"].left_out == {"model outside the largest connected group": 2.0}


def test_ties_of_a_small_category_are_read_as_those_of_the_largest():
    _, table = CategoryWorld("ties", models=4, categories=1, battles=400).draw(np.random.default_rng(7))
    rows = [
        battle(f"m{a:02d}", f"m{b:02d}", ("model_a", "model_b", "tie")[w], "large")
        for a, b, w in zip(table.model_a, table.model_b, table.outcome, strict=True)
    ]
    rows += [battle("m00", "m01", category="small"), battle("m02", "m03", "tie", "small")]
    boards = rate_by(rows, "category", PLAIN, pool=True)
    ties = [board.details.tie_parameters["all"] for board in boards.values()]
    assert ties[0] == ties[1]
    rows.append(battle("m00", "m01", "tie", category="draws"))
    said: list[ty.TiltyardError] = []
    assert list(rate_by(rows, "category", PLAIN, pool=True, leave_out=said.append)) == ["large", "small"]
    assert [str(error) for error in said] == [
        "no board: category draws: every battle is a tie: there is nothing to tell the models apart by."
    ]
    with pytest.raises(RatingError, match="category draws: every battle is a tie"):
        rate_by(rows, "category", PLAIN, pool=True)


def test_anchors_soft_outcomes_and_filters_go_with_it_and_the_file_says_what_was_done():
    world = CategoryWorld("small", models=4, categories=3, battles=120)
    truth, table = world.draw(np.random.default_rng(8))
    boards = rate_by(table, "category", replace(PLAIN, anchor=("m01", 1200.0)), pool=True)
    for board in boards.values():
        assert board["m01"].ci_low == board["m01"].rating == board["m01"].ci_high == pytest.approx(1200.0)
        assert board["m01"].extra["rating_over_all"] == pytest.approx(1200.0)
        record = json.loads(board.to_json())["pool"]
        assert (record["by"], record["categories"]) == ("category", 3)
        assert record["sd"] > 0.0
        assert record["dispersion"] == 1.0
    assert len(against_truth(rate_by(table, "category", PLAIN, pool=True), truth)) == 3
    rng = np.random.default_rng(9)
    soft = replace(table, outcome=np.zeros_like(table.outcome), score_a=0.4 + 0.2 * rng.random(len(table)))
    assert next(iter(rate_by(soft, "category", PLAIN, pool=True).values())).settings.tie_model == "half"
    rare = replace(PLAIN, selection=Selection(min_battles=58))
    shown = [len(board) for board in rate_by(table, "category", rare, pool=True).values()]
    assert min(shown) < 4


def test_clusters_are_those_of_all_categories_and_counted_in_each():
    world = CategoryWorld("prompts", models=4, categories=2, battles=200, prompts=8)
    _, table = world.draw(np.random.default_rng(10))
    for board in rate_by(table, "category", PLAIN, pool=True).values():
        (prompts,) = board.settings.interval.clusters
        assert (prompts.column, prompts.count) == ("question_id", 8.0)
        assert board.settings.interval.degrees_of_freedom[0] > 1.5
    by_prompt = rate_by(table, "question_id", PLAIN, pool=True, leave_out=lambda _: None)
    for board in by_prompt.values():
        assert board.settings.interval.cluster is None
        assert "the intervals of each board are for its own prompt alone" in board.remarks


def test_a_models_degrees_of_freedom_are_its_effective_prompts_over_all_categories_less_one():
    """Models 0 and 1 meet on six prompts in both categories, 1 and 2 on four in one; 0 and 2 twice on no prompt."""
    first = np.array([0, 3] * 6 + [1] * 4 + [3, 3])  # category x: 0, 1, 2; category y: 3, 4, 5
    second = np.array([1, 4] * 6 + [2] * 4 + [5, 5])
    prompt = np.array([number for number in range(6) for _ in "xy"] + [6, 7, 8, 9, -1, -1])
    result = np.array([0, 0, 1, 1] * 3 + [0, 1] * 3, dtype=np.int8)
    rows = Comparisons(6, first, second, result, np.ones(18), clusters=(prompt,))
    pooled = fit_pooled(rows, count_pairs(rows), TIE_MODELS["half"], np.tile(np.arange(3), 2), np.repeat([0, 1], 3))
    squares = [6 * 2**2 + 2, 6 * 2**2 + 4, 4 + 2]
    expected = [battles**2 / square - 1.0 for battles, square in zip([14, 16, 6], squares, strict=True)]
    assert pooled.model_degrees == pytest.approx(expected * 2)


def test_with_a_known_spread_of_categories_variances_are_those_of_the_posterior():
    """What sampling and the pull add up to by Bayes's rule: the inverse of the battles' information and the prior's."""
    world = CategoryWorld("small", models=4, categories=2, battles=(300, 30), between=0.4)
    _, table = world.draw(np.random.default_rng(12))
    category = table.columns["category"].codes
    first, second = 4 * category + table.model_a, 4 * category + table.model_b
    rows = Comparisons(8, first, second, table.outcome, np.ones(len(table)))
    pooled = fit_pooled(rows, count_pairs(rows), TIE_MODELS["half"], np.tile(np.arange(4), 2), np.repeat([0, 1], 4))
    prior = structs.replace(pooled.shrunk.fit.prior, spread=1.0 / pooled.shrunk.fit.prior.precision)
    known = structs.replace(
        pooled, shrunk=structs.replace(pooled.shrunk, fit=structs.replace(pooled.shrunk.fit, prior=prior))
    )
    centre = np.eye(4) - 0.25
    for ids in (np.arange(4), np.arange(4, 8)):
        posterior = centre @ pooled.inverse[np.ix_(ids, ids)] @ centre
        assert covariance_within(known, ids, ()).fisher == pytest.approx(posterior, abs=1e-9)
        assert (np.diag(covariance_within(pooled, ids, ()).fisher) > np.diag(posterior)).all()


@pytest.mark.parametrize(
    "options",
    [
        {"ci": "none"},
        {"ci": "bootstrap"},
        {"robustness": True},
        {"anytime": True},
        {"shrink": True},
        {"control": ("len",)},
        {"slot": True},
    ],
)
def test_what_does_not_go_with_it_is_refused(options):
    with pytest.raises(OptionError, match='pool goes with ci="sandwich" alone: leave out'):
        rate_by([], "category", BradleyTerry(**options), pool=True)


def test_other_methods_other_engines_and_single_categories_are_refused(monkeypatch):
    with pytest.raises(OptionError, match='pool goes with method="bt" alone'):
        rate_by([], "category", ty.Elo(), pool=True)
    with pytest.raises(OptionError, match=r"pool .*duckdb"):
        rate_by([], "category", PLAIN, InputOptions(engine="spark"), pool=True)
    rows = [battle("a", "b", w) for w in ("model_a", "model_b")]
    with pytest.raises(RatingError, match="at least 2 values of category, and 1 can be rated"):
        rate_by(rows, "category", PLAIN, pool=True)
    monkeypatch.setattr("tiltyard.analysis.boards.pooling.MOST_STRENGTHS", 3)
    with pytest.raises(TooLarge, match="4 pairs of a category and a model"):
        rate_by([*rows, *(battle("a", "b", w, "y") for w in ("model_a", "model_b"))], "category", PLAIN, pool=True)


def test_the_prior_pulls_each_model_towards_its_mean():
    prior = StrengthPrior(2.0, 0.5, np.array([0, 1, 0, 2, 1, 0]))
    strength = np.array([1.0, 4.0, 2.0, 7.0, 6.0, 3.0])
    np.testing.assert_allclose(prior.times(strength), 2.0 * np.array([-1.0, -1.0, 0.0, 0.0, 1.0, 1.0]))
    assert prior.log_density(strength) == pytest.approx(-(1.0 + 1.0 + 0.0 + 0.0 + 1.0 + 1.0))
    np.testing.assert_allclose(prior.times(np.eye(6)) @ strength, prior.times(strength), atol=1e-12)
    assert prior.log_density(strength + 100.0) == pytest.approx(prior.log_density(strength))
