"""Who can be compared with whom, against walks written out, and when a tie parameter is finite."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oracles.plain_bradley_terry import FIRST, SECOND, TIE, Row, as_comparisons
from tests.sizes import size
from tiltyard.errors import NotConverged
from tiltyard.stats import HALF, Reach, bounded, count_pairs, fit_bounded, graph, islands, reach, ties_bounded
from tiltyard.stats.bradley_terry import fit
from tiltyard.stats.graph import half_win_prior, open_ends_of_a_lone_core
from tiltyard.stats.tie_models import DAVIDSON, RAO_KUPPER

steady = settings(max_examples=size(40, soak=300))


def cells_of(rows, models):
    return count_pairs(as_comparisons(rows, models)).cells


def walk(start, steps):
    """Everything that can be walked to, start included."""
    seen, todo = {start}, [start]
    while todo:
        here = todo.pop()
        for there in steps.get(here, set()) - seen:
            seen.add(there)
            todo.append(there)
    return seen


def beats(rows):
    """{model: those it beat or tied with}."""
    steps: dict[int, set[int]] = {}
    for row in rows:
        if row.result in (FIRST, TIE):
            steps.setdefault(row.first, set()).add(row.second)
        if row.result in (SECOND, TIE):
            steps.setdefault(row.second, set()).add(row.first)
    return steps


@st.composite
def battles(draw, models=5, most=12):
    n = draw(st.integers(1, most))
    rows = []
    for _ in range(n):
        first = draw(st.integers(0, models - 1))
        second = draw(st.integers(0, models - 1).filter(lambda code, first=first: code != first))
        rows.append(Row(first, second, draw(st.sampled_from([FIRST, SECOND, TIE]))))
    return rows


@given(battles())
@steady
def test_islands_are_what_can_be_walked_to(rows):
    steps: dict[int, set[int]] = {}
    for row in rows:
        steps.setdefault(row.first, set()).add(row.second)
        steps.setdefault(row.second, set()).add(row.first)
    expected = {frozenset(walk(model, steps)) for model in range(5)}
    found = islands(cells_of(rows, 5))
    assert {frozenset(group.tolist()) for group in found} == expected
    assert [len(group) for group in found] == sorted((len(group) for group in expected), reverse=True)


def test_a_pair_whose_count_is_zero_has_not_met():
    cells = cells_of([Row(0, 1, FIRST), Row(1, 2, FIRST)], 3)
    emptied = cells.with_counts(cells.counts * np.array([[1.0], [0.0]]))
    assert [group.tolist() for group in islands(emptied)] == [[0, 1], [2]]


@given(battles())
@steady
def test_reach_follows_from_walks_along_wins(rows):
    cells = cells_of(rows, 5)
    if len(islands(cells)) > 1:
        return
    state = reach(cells)
    steps = beats(rows)
    down = {model: walk(model, steps) for model in range(5)}
    strong = {model: frozenset(other for other in down[model] if model in down[other]) for model in range(5)}
    core = {model for model in range(5) if state[model] == Reach.HELD}
    # The held models are one strongly joined group, and no other is larger.
    assert core == strong[min(core)]
    assert len(core) == max(map(len, strong.values()))
    inside = min(core)
    for model in set(range(5)) - core:
        above, below = inside in down[model], model in down[inside]
        expected = {(True, False): Reach.UNBEATEN, (False, True): Reach.WINLESS, (False, False): Reach.APART}
        assert state[model] == expected[above, below]


@given(battles())
@steady
def test_the_prior_gives_half_a_win_and_half_a_loss_in_all_and_makes_everybody_held(rows):
    cells = cells_of(rows, 5)
    if len(islands(cells)) > 1:
        return
    state = reach(cells)
    prior = half_win_prior(cells, state)
    loose = np.flatnonzero(state != Reach.HELD)
    first, counts = prior.first[len(cells) :], prior.counts[len(cells) :]
    won, lost = (np.bincount(first, counts[:, column], 5) for column in (0, 1))
    for model in range(5):
        share = 0.5 if model in loose else 0.0
        assert won[model] == pytest.approx(share)
        assert lost[model] == pytest.approx(share)
    assert (reach(bounded(cells)[0]) == Reach.HELD).all()
    assert np.isfinite(fit(bounded(cells)[0], HALF).parameters.strength).all()


def test_a_group_that_never_lost_to_the_rest_is_unbeaten_as_a_group():
    # 0 and 1 beat each other, 2, 3 and 4 go round; 0 beat 2 once: the pair is unbeaten, nobody alone is.
    rows = [Row(0, 1, FIRST), Row(1, 0, FIRST), Row(2, 3, FIRST), Row(3, 4, FIRST), Row(4, 2, FIRST), Row(0, 2, FIRST)]
    assert reach(cells_of(rows, 5)).tolist() == [Reach.UNBEATEN] * 2 + [Reach.HELD] * 3


def test_a_tie_is_a_step_both_ways():
    rows = [Row(0, 1, FIRST), Row(0, 1, TIE)]
    assert (reach(cells_of(rows, 2)) == Reach.HELD).all()


def test_wins_that_never_contradict_each_other_let_ties_run_away():
    # One win and five ties of one pair: a wider gap with more ties is always likelier.
    rows = [Row(0, 1, FIRST)] + [Row(0, 1, TIE)] * 5
    assert not ties_bounded(cells_of(rows, 2))
    assert ties_bounded(cells_of([*rows, Row(1, 0, FIRST)], 2))


def test_a_tie_across_two_levels_bounds_the_ties():
    # 0 > 1 > 2 with a tie of 0 and 1 can be levelled; a tie of 0 and 2, two levels apart, cannot.
    chain = [Row(0, 1, FIRST), Row(1, 2, FIRST), Row(0, 1, TIE), Row(1, 2, TIE)]
    assert not ties_bounded(cells_of(chain, 3))
    assert ties_bounded(cells_of([*chain, Row(0, 2, TIE)], 3))


def test_one_sources_cycle_bounds_the_others_ties_too():
    # Source 0 says that 0, 1 and 2 are level (a cycle); source 1 has one win and one tie of 0 and 1.
    cycle = [Row(0, 1, FIRST), Row(1, 2, FIRST), Row(2, 0, FIRST), Row(0, 1, TIE)]
    other = [Row(0, 1, FIRST, group=1), Row(0, 1, TIE, group=1)]
    assert ties_bounded(cells_of(cycle + other, 3))
    assert not ties_bounded(cells_of([Row(0, 1, FIRST, group=0), *other], 2))


@pytest.mark.parametrize("model", [DAVIDSON, RAO_KUPPER], ids=lambda model: model.name)
@given(rows=battles(models=4, most=10))
@settings(max_examples=size(25, soak=200))
def test_the_fit_settles_near_when_ties_are_bounded_and_is_refused_when_they_are_not(model, rows):
    cells = cells_of(rows, 4)
    decided = cells.counts[:, :2].sum() > 0
    if len(islands(cells)) > 1 or not decided:
        return
    held, _ = bounded(cells)
    if ties_bounded(held):
        result, _ = fit_bounded(cells, model)
        assert np.ptp(result.parameters.strength) < 15
        return
    with pytest.raises(NotConverged, match="no finite best value"):
        fit_bounded(cells, model)
    # It was right to refuse: left alone, the search walks on until rounding stops it, odds of millions to one away.
    try:
        strengths = fit(held, model).parameters.strength
    except NotConverged:
        return
    assert np.ptp(strengths) > 15


@pytest.mark.parametrize(
    ("result", "opened"), [(FIRST, Reach.UNBEATEN), (SECOND, Reach.WINLESS)], ids=["never lost", "never won"]
)
def test_a_model_that_alone_is_held_is_open_where_it_never_lost_or_never_won(result, opened):
    """Model 0 met 1 and 2 and won both, or lost both: nothing bounds it on that side. One of each bounds both sides."""
    state = np.array([Reach.HELD, Reach.WINLESS, Reach.WINLESS], dtype=np.int8)
    one_sided = cells_of([Row(0, 1, result), Row(0, 2, result)], 3)
    assert open_ends_of_a_lone_core(one_sided, state).tolist() == [opened, Reach.WINLESS, Reach.WINLESS]
    both = cells_of([Row(0, 1, FIRST), Row(0, 2, SECOND)], 3)
    assert open_ends_of_a_lone_core(both, state).tolist() == state.tolist()
    two_held = np.array([Reach.HELD, Reach.HELD, Reach.WINLESS], dtype=np.int8)
    assert open_ends_of_a_lone_core(one_sided, two_held).tolist() == two_held.tolist()


@pytest.mark.parametrize("seed", range(30))
def test_few_models_have_the_components_that_scipy_finds(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 14))
    source, target = rng.integers(0, n, (2, int(rng.integers(1, 30))))
    source, target = source[source != target], target[source != target]
    few = graph.strong_components(n, source, target)
    monkeypatch.setattr(graph, "FEW_MODELS", -1)
    scipys = graph.strong_components(n, source, target)
    assert len(set(zip(few, scipys, strict=True))) == len(set(few)) == len(set(scipys))
    assert (few[source] >= few[target]).all()  # numbered from the losing end
