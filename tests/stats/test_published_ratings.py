"""Ratings that others published, reproduced from the same counts: a handful of numbers each, with their source."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tiltyard.stats import HALF, Comparisons, count_pairs, sandwich
from tiltyard.stats.bradley_terry import fit
from tiltyard.stats.tie_models import DAVIDSON

# The worked example of Wikipedia's article on the Bradley–Terry model: wins, and strengths of geometric mean 1.
WIKIPEDIA_WINS = {"AB": 2, "BA": 3, "AD": 1, "DA": 4, "BC": 5, "CB": 3, "CD": 1, "DC": 3}
WIKIPEDIA_STRENGTHS = {"A": 0.640, "B": 1.043, "C": 0.660, "D": 2.270}

# Citations between four journals of statistics, 1987 to 1989: Stigler (1994), Statistical Science 9:94, and Agresti
# (2002), Categorical Data Analysis, section 10.6. How often the first was cited by the second, and the reverse.
CITATIONS = {
    ("Biometrika", "Comm Statist"): (730, 33),
    ("Biometrika", "JASA"): (498, 320),
    ("Biometrika", "JRSS-B"): (221, 284),
    ("Comm Statist", "JASA"): (68, 813),
    ("Comm Statist", "JRSS-B"): (17, 276),
    ("JASA", "JRSS-B"): (142, 325),
}
# Printed by the vignette of BradleyTerry2, against Biometrika.
CITATIONS_COEFFICIENTS = {"Comm Statist": -2.9491, "JASA": -0.4796, "JRSS-B": 0.2690}

# The American League's eastern division, 1987: Agresti (2002), Table 10.10. A row is a home team, its cells are games
# won and lost at home against the teams in the same order.
BASEBALL_1987 = {
    "Milwaukee": "- 4-3 4-2 4-3 6-1 4-2 6-0",
    "Detroit": "3-3 - 4-2 4-3 6-0 6-1 4-3",
    "Toronto": "2-5 4-3 - 2-4 4-3 4-2 6-0",
    "New York": "3-3 5-1 2-5 - 4-3 4-2 6-1",
    "Boston": "5-1 2-5 3-3 4-2 - 5-2 6-0",
    "Cleveland": "2-5 3-3 3-4 4-3 4-2 - 2-4",
    "Baltimore": "2-5 1-5 1-6 2-4 1-6 3-4 -",
}
# Agresti (2002), section 10.6; printed to four digits by BradleyTerry2: against Baltimore, with standard errors.
BASEBALL_COEFFICIENTS = {
    "Boston": (1.1077, 0.3339),
    "Cleveland": (0.6839, 0.3319),
    "Detroit": (1.4364, 0.3396),
    "Milwaukee": (1.5814, 0.3433),
    "New York": (1.2476, 0.3359),
    "Toronto": (1.2945, 0.3367),
}

# Cycles and their maximum-likelihood strengths: the test cases of choix.
CYCLES = [
    ([(0, 1), (1, 2), (2, 0)], [0.0, 0.0, 0.0]),
    ([(0, 1), (0, 1), (1, 2), (2, 0)], [0.419617624, -0.419617624, 0.0]),
]


def results(counts):
    """(models, rows) of {(first, second): (first won, second won)}."""
    models = sorted({name for pair in counts for name in pair})
    code = {name: at for at, name in enumerate(models)}
    lines = [
        (code[first], code[second], result, number)
        for (first, second), pair in counts.items()
        for result, number in enumerate(pair)
        if number
    ]
    first, second, result, weight = (np.array(column) for column in zip(*lines, strict=True))
    return models, Comparisons(len(models), first, second, result.astype(np.int8), weight.astype(np.float64))


def fitted(counts, *, slot=False, ties=HALF):
    models, rows = results(counts)
    return models, fit(count_pairs(rows, slot=slot).cells, ties)


def against(models, fit_result, reference):
    """Differences to a reference model with their Fisher standard errors."""
    ref = models.index(reference)
    strength, cov = fit_result.parameters.strength, fit_result.inverse_information()
    difference = {name: strength[at] - strength[ref] for at, name in enumerate(models) if at != ref}
    error = {
        name: math.sqrt(cov[at, at] + cov[ref, ref] - 2 * cov[at, ref]) for at, name in enumerate(models) if at != ref
    }
    return difference, error


def deviance(models, fit_result, counts):
    """Twice the log-likelihood lost against a model with one chance per row of the data."""
    slot = fit_result.parameters.coefficient[0] if len(fit_result.parameters.coefficient) else 0.0
    strength = dict(zip(models, fit_result.parameters.strength, strict=True))
    total = 0.0
    for (first, second), (won, lost) in counts.items():
        p = 1 / (1 + math.exp(strength[second] - strength[first] - slot))
        observed = won / (won + lost)
        total += 2 * sum(
            n * math.log(share / chance) for n, share, chance in ((won, observed, p), (lost, 1 - observed, 1 - p)) if n
        )
    return total


def test_wikipedias_example():
    models, result = fitted({tuple(pair): (number, 0) for pair, number in WIKIPEDIA_WINS.items()})
    # Strengths are centred in logarithms, so their geometric mean is 1, as published.
    for name, strength in zip(models, result.parameters.strength, strict=True):
        assert math.exp(strength) == pytest.approx(WIKIPEDIA_STRENGTHS[name], rel=1e-3)


def test_citations_between_journals():
    counts = CITATIONS
    models, result = fitted(counts)
    difference, _ = against(models, result, "Biometrika")
    for name, value in CITATIONS_COEFFICIENTS.items():
        assert difference[name] == pytest.approx(value, abs=6e-5)
    assert deviance(models, result, counts) == pytest.approx(4.293, abs=6e-4)
    nothing = {pair: sum(pair_counts) * math.log(2) for pair, pair_counts in counts.items()}
    saturated = -(result.log_likelihood + deviance(models, result, counts) / 2)
    assert 2 * (sum(nothing.values()) - saturated) == pytest.approx(1925, abs=0.5)


def baseball():
    return {
        (home, away): tuple(map(int, games.split("-")))
        for home, row in BASEBALL_1987.items()
        for away, games in zip(BASEBALL_1987, row.split(), strict=True)
        if home != away
    }


def test_baseball_1987_coefficients_and_standard_errors():
    counts = baseball()
    models, result = fitted(counts)
    difference, error = against(models, result, "Baltimore")
    for name, (coefficient, standard_error) in BASEBALL_COEFFICIENTS.items():
        assert difference[name] == pytest.approx(coefficient, abs=6e-5)
        assert error[name] == pytest.approx(standard_error, abs=6e-5)
    assert deviance(models, result, counts) == pytest.approx(44.053, abs=6e-4)


AT_HOME = {
    # Agresti (2002), section 10.6; printed to four digits by BradleyTerry2 (tests/baseball.Rout.save).
    "Boston": (1.1438, 0.3378),
    "Cleveland": (0.7047, 0.3350),
    "Detroit": (1.4754, 0.3446),
    "Milwaukee": (1.6196, 0.3474),
    "New York": (1.2813, 0.3404),
    "Toronto": (1.3271, 0.3403),
}


def test_baseball_1987_with_the_home_advantage_as_slot_term():
    counts = baseball()
    models, result = fitted(counts, slot=True)
    difference, error = against(models, result, "Baltimore")
    for name, (coefficient, standard_error) in AT_HOME.items():
        assert difference[name] == pytest.approx(coefficient, abs=6e-5)
        assert error[name] == pytest.approx(standard_error, abs=6e-5)
    home = result.inverse_information()[len(models), len(models)]
    assert result.parameters.coefficient[0] == pytest.approx(0.3023, abs=6e-5)
    assert math.sqrt(home) == pytest.approx(0.1309, abs=6e-5)
    assert deviance(models, result, counts) == pytest.approx(38.643, abs=6e-4)
    # Agresti's Table 10.11, last column: abilities that sum to 1.
    worth = np.sort(np.exp(result.parameters.strength))
    np.testing.assert_allclose(worth / worth.sum(), [0.044, 0.088, 0.137, 0.157, 0.164, 0.190, 0.220], atol=6e-4)


def test_where_the_model_holds_the_sandwich_is_near_fishers_errors():
    _, rows = results(baseball())
    counted = count_pairs(rows)
    result = fit(counted.cells, HALF)
    covariance = sandwich(result, rows, counted)
    ratio = np.sqrt(np.diag(covariance.matrix) / np.diag(covariance.fisher))
    assert ratio.min() > 0.9
    assert ratio.max() < 1.1
    assert rows.weight.sum() == 273
    assert covariance.ways == ()


@pytest.mark.parametrize(("wins", "expected"), CYCLES)
def test_the_cycles_of_choix(wins, expected):
    winner, loser = np.array(wins).T
    n = len(winner)
    rows = Comparisons(len(expected), winner, loser, np.zeros(n, dtype=np.int8), np.ones(n))
    for ties in (HALF, DAVIDSON):
        strength = fit(count_pairs(rows).cells, ties).parameters.strength
        np.testing.assert_allclose(strength, expected, atol=1e-8)
