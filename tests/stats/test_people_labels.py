"""People's labels correct a judge: what must hold exactly, and how often intervals hold in simulated worlds."""

from __future__ import annotations

import numpy as np
import pytest

from oracles.labelled_worlds import LabelledWorld, hold
from tests.records import replace
from tests.sizes import size
from tiltyard.stats import HALF, Comparisons, LabelledMatchups, count_pairs, fit_with_people, sandwich
from tiltyard.stats.bradley_terry import fit
from tiltyard.stats.tie_models import DAVIDSON

STYLE = LabelledWorld("style", models=5, prompts=60, labels=120, link=0.8, style=0.6)


def drawn(world: LabelledWorld = STYLE, seed: int = 1) -> LabelledMatchups:
    return world.draw(np.random.default_rng(seed))


def as_rows(data: LabelledMatchups) -> Comparisons:
    on = data.matchup
    return Comparisons(
        data.n_models,
        data.first[on],
        data.second[on],
        data.said.argmax(axis=1).astype(np.int8),
        np.ones(len(on)),
        clusters=(data.prompt[on],),
    )


@pytest.mark.parametrize("tie_model", [DAVIDSON, HALF])
def test_without_the_judge_it_is_the_plain_fit_of_the_labels(tie_model):
    data = drawn()
    rows = as_rows(data)
    counted = count_pairs(rows)
    plain = fit(counted.cells, tie_model)
    found = fit_with_people(data, tie_model, weight=0.0)
    assert found.fit.parameters.strength == pytest.approx(plain.parameters.strength, abs=1e-8)
    ratio = found.covariance.variances() / sandwich(plain, rows, counted).variances()
    assert ratio == pytest.approx(1.0, abs=0.12)  # the mean number of labels a prompt is divided out, otherwise equal


def test_two_prompts_without_the_judge_have_the_errors_of_the_plain_fit():
    data = replace(drawn(), prompt=drawn().prompt % 2)
    rows = as_rows(data)
    counted = count_pairs(rows)
    expected = sandwich(fit(counted.cells, DAVIDSON), rows, counted).variances()
    assert fit_with_people(data, DAVIDSON, weight=0.0).covariance.variances() == pytest.approx(expected, rel=1e-6)


def test_a_judge_who_is_people_is_fitted_as_if_all_were_labelled():
    data = drawn()
    twin = replace(data, said=data.judged[data.matchup])
    found = fit_with_people(twin, DAVIDSON, weight=1.0)
    everything = np.arange(len(data.first))
    every = replace(data, matchup=everything, said=data.judged, weight=np.ones(len(everything)))
    full = fit_with_people(every, DAVIDSON, weight=0.0)
    assert found.fit.parameters.strength == pytest.approx(full.fit.parameters.strength, abs=1e-7)


def test_where_everything_is_labelled_the_judge_changes_nothing():
    data = drawn(replace(STYLE, labels=600))
    alone, with_judge = (fit_with_people(data, DAVIDSON, weight=weight) for weight in (0.0, 1.0))
    assert with_judge.fit.parameters.strength == pytest.approx(alone.fit.parameters.strength, abs=1e-8)
    assert with_judge.covariance.variances() == pytest.approx(alone.covariance.variances(), rel=1e-6)
    assert fit_with_people(data, DAVIDSON).weight == 0.0


def test_a_judge_without_information_gets_hardly_any_weight_and_a_good_one_much():
    useless = fit_with_people(drawn(replace(STYLE, link=0.0, slope=0.0, style=0.0)), DAVIDSON)
    good = fit_with_people(drawn(replace(STYLE, link=0.95, style=0.0)), DAVIDSON)
    assert useless.weight < 0.2
    assert useless.information_from_people > 0.9
    assert good.weight > 0.6
    assert good.information_from_people < 0.6


def test_errors_are_those_of_leaving_each_prompt_out():
    data = drawn(replace(STYLE, models=4, prompts=20, labels=80))
    found = fit_with_people(data, DAVIDSON, weight=0.6)
    moves = []
    for prompt in range(20):
        kept, labels = data.prompt != prompt, data.prompt[data.matchup] != prompt
        place = np.cumsum(kept) - 1
        without = replace(
            data,
            first=data.first[kept],
            second=data.second[kept],
            prompt=data.prompt[kept],
            judged=data.judged[kept],
            matchup=place[data.matchup[labels]],
            said=data.said[labels],
            weight=data.weight[labels],
        )
        moves.append(fit_with_people(without, DAVIDSON, weight=0.6).fit.parameters.strength)
    away = np.array(moves) - found.fit.parameters.strength
    refitted = (away**2).sum(axis=0) * 19 / 20
    assert found.covariance.variances() == pytest.approx(refitted, rel=0.06)


def test_several_people_on_a_matchup_count_as_one_label():
    data = drawn()
    again = np.repeat(np.arange(len(data.matchup)), 3)
    tripled = replace(data, matchup=data.matchup[again], said=data.said[again], weight=data.weight[again] / 3.0)
    once, thrice = fit_with_people(data, DAVIDSON), fit_with_people(tripled, DAVIDSON)
    assert thrice.weight == pytest.approx(once.weight)
    assert thrice.covariance.variances() == pytest.approx(once.covariance.variances(), rel=1e-9)


def test_both_bad_labels_keep_their_place_in_the_draw():
    """Matchups on which people find both bad are part of the draw: only their outcome says nothing."""
    data = drawn(replace(STYLE, labels=200))
    bad = np.zeros(len(data.matchup), dtype=bool)
    bad[::4] = True
    found = fit_with_people(replace(data, said=np.where(bad[:, None], 0.0, data.said)), DAVIDSON)
    assert np.isfinite(found.fit.parameters.strength).all()
    assert found.covariance.variances().sum() > fit_with_people(data, DAVIDSON).covariance.variances().sum()


def test_people_are_covered_where_the_judge_alone_is_not():
    held = hold(replace(STYLE, models=4, prompts=40, labels=100), size(25, soak=60))
    assert held.corrected >= 0.9
    assert held.judge < 0.7
    assert held.ratio <= 1.02


@pytest.mark.soak
@pytest.mark.parametrize(
    "world",
    [
        LabelledWorld("good", link=0.9),
        LabelledWorld("style", link=0.6, style=0.6),
        LabelledWorld("style, few labels", link=0.6, style=0.6, labels=60),
        LabelledWorld("useless", link=0.0, slope=0.0),
        LabelledWorld("compressing", link=0.8, slope=0.3),
        LabelledWorld("whole prompts", link=0.8, style=0.6, whole_prompts=True),
        LabelledWorld("8 voters", link=0.8, style=0.6, labels=400, voters=8),
        LabelledWorld("three each", link=0.8, style=0.6, labels=100, people_each=3, voters=30),
        LabelledWorld("12 models", models=12, link=0.8, style=0.6, labels=200),
        LabelledWorld("equal models", link=0.8, style=0.6, strength_range=0.0),
        LabelledWorld("both bad where the judge is biased", link=0.8, style=1.2, labels=300, both_bad=0.6),
        LabelledWorld("one voter has 40 %", link=0.8, style=0.6, labels=300, voters=25, dominant=0.4),
    ],
    ids=lambda world: world.name,
)
def test_people_are_covered_in_every_world(world):
    held = hold(world, 400)
    assert held.corrected >= 0.94
    assert held.ratio <= 1.02
    assert held.ranks >= 0.94
    assert held.differences >= 0.93
    if world.style or world.slope < 1.0:
        assert held.judge < 0.7
