"""Ratings that others published, reproduced from the same counts."""

from __future__ import annotations

import csv
import json
import math

import numpy as np
import pytest

from tiltyard.ratings.bradley_terry import fit
from tiltyard.ratings.comparisons import Comparisons, count_pairs
from tiltyard.ratings.intervals import sandwich
from tiltyard.ratings.tie_models import DAVIDSON, HALF


@pytest.fixture(scope="module")
def vectors(real_data):
    return json.loads((real_data / "vectors" / "vectors.json").read_text())


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


def test_wikipedias_example(vectors):
    example = vectors["bradley_terry_wikipedia"]
    counts: dict = {}
    for pair, number in example["wins"].items():
        winner, loser = pair.split(">")
        counts[winner, loser] = (number, 0)
    models, result = fitted(counts)
    # Strengths are centred in logarithms, so their geometric mean is 1, as published.
    for name, strength in zip(models, result.parameters.strength, strict=True):
        assert math.exp(strength) == pytest.approx(example["p_geomean1"][name], rel=example["rtol"])


def read_counts(path, first, second, won, lost):
    with path.open() as file:
        return {(row[first], row[second]): (int(row[won]), int(row[lost])) for row in csv.DictReader(file)}


def test_citations_between_journals(vectors, real_data):
    counts = read_counts(real_data / "paired" / "citations.csv", "a", "b", "a_wins", "b_wins")
    models, result = fitted(counts)
    published = vectors["citations"]
    difference, _ = against(models, result, published["ref"])
    for name, value in published["coef"].items():
        assert difference[name] == pytest.approx(value, abs=6e-5)
    assert deviance(models, result, counts) == pytest.approx(published["residual_deviance"], abs=6e-4)
    nothing = {pair: sum(pair_counts) * math.log(2) for pair, pair_counts in counts.items()}
    saturated = -(result.log_likelihood + deviance(models, result, counts) / 2)
    assert 2 * (sum(nothing.values()) - saturated) == pytest.approx(published["null_deviance"], abs=0.5)


def baseball(real_data):
    return read_counts(real_data / "paired" / "baseball1987.csv", "home", "away", "home_wins", "away_wins")


def test_baseball_1987_coefficients_and_standard_errors(vectors, real_data):
    counts = baseball(real_data)
    models, result = fitted(counts)
    published = vectors["baseball1987"]
    difference, error = against(models, result, published["ref"])
    for name in published["coef"]:
        assert difference[name] == pytest.approx(published["coef"][name], abs=6e-5)
        assert error[name] == pytest.approx(published["se"][name], abs=6e-5)
    assert deviance(models, result, counts) == pytest.approx(published["residual_deviance"], abs=6e-4)


AT_HOME = {
    # Agresti (2002), section 10.6; printed to four digits by BradleyTerry2 (tests/baseball.Rout.save).
    "Boston": (1.1438, 0.3378),
    "Cleveland": (0.7047, 0.3350),
    "Detroit": (1.4754, 0.3446),
    "Milwaukee": (1.6196, 0.3474),
    "New York": (1.2813, 0.3404),
    "Toronto": (1.3271, 0.3403),
}


def test_baseball_1987_with_the_home_advantage_as_slot_term(real_data):
    counts = baseball(real_data)
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


def test_where_the_model_holds_the_sandwich_is_near_fishers_errors(real_data):
    _, rows = results(baseball(real_data))
    counted = count_pairs(rows)
    result = fit(counted.cells, HALF)
    covariance = sandwich(result, rows, counted)
    ratio = np.sqrt(np.diag(covariance.matrix) / np.diag(covariance.fisher))
    assert ratio.min() > 0.9
    assert ratio.max() < 1.1
    assert covariance.clusters == rows.weight.sum() == 273


@pytest.mark.parametrize("number", [1, 2])
def test_the_cycles_of_choix(real_data, number):
    case = json.loads((real_data / "vectors" / f"testcase-pairwise-{number}.json").read_text())
    winner, loser = np.array(case["data"]).T
    n = len(winner)
    rows = Comparisons(case["n_items"], winner, loser, np.zeros(n, dtype=np.int8), np.ones(n))
    for ties in (HALF, DAVIDSON):
        strength = fit(count_pairs(rows).cells, ties).parameters.strength
        np.testing.assert_allclose(strength, case["ml_est"], atol=1e-8)
