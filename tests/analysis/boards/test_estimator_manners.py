"""Estimators in scikit-learn's manners, with and without scikit-learn."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from board_rows import arena, assert_same_board

import tiltyard as ty
from tiltyard.analysis.boards import METHODS, Selection
from tiltyard.errors import OptionError

BUILT = {
    "bt": ty.BradleyTerry(ties="half", anchor=("a", 1200.0), selection=Selection(source="human")),
    "elo": ty.Elo(k=24.0),
    "elo-perm": ty.PermutationElo(n_perms=20, k_sweep=(4.0, 8.0)),
    "glicko2": ty.Glicko2(level=0.9),
    "winrate": ty.WinRate(evaluated="b"),
}
FEW, MANY = arena(1, n=120), arena(2, n=300)


def test_every_method_is_under_test() -> None:
    assert set(BUILT) == set(METHODS)


@pytest.mark.parametrize("method", BUILT)
def test_a_clone_has_the_same_parameters_and_the_same_board(method: str) -> None:
    base = pytest.importorskip("sklearn.base", reason="clone is scikit-learn's")
    estimator = BUILT[method]
    twin = base.clone(estimator)
    assert twin is not estimator
    assert twin.get_params() == estimator.get_params()
    assert_same_board(twin.fit(FEW), estimator.fit(FEW), tolerance=0.0)


@pytest.mark.parametrize("method", BUILT)
def test_an_estimator_is_built_again_from_its_parameters(method: str) -> None:
    estimator = BUILT[method]
    assert type(estimator)(**estimator.get_params(deep=False)) == estimator
    assert pickle.loads(pickle.dumps(estimator)) == estimator


@pytest.mark.parametrize("method", BUILT)
def test_what_is_shown_names_every_parameter(method: str) -> None:
    shown = repr(BUILT[method])
    assert shown.startswith(type(BUILT[method]).__name__ + "(")
    for name, value in BUILT[method].get_params(deep=False).items():
        assert f"{name}={value!r}" in shown


@pytest.mark.parametrize("method", BUILT)
def test_a_second_fit_forgets_the_first(method: str) -> None:
    estimator = METHODS[method]()
    fresh = METHODS[method]().fit(FEW)
    estimator.fit(MANY)
    assert_same_board(estimator.fit(FEW), fresh, tolerance=0.0)
    assert estimator == METHODS[method]()


@pytest.mark.parametrize("method", BUILT)
def test_fit_reads_what_read_battles_reads(method: str) -> None:
    estimator = METHODS[method]()
    assert_same_board(estimator.fit(FEW), estimator.fit(ty.read_battles(FEW)), tolerance=0.0)


def test_parameters_are_changed_by_name_and_the_estimator_is_given_back() -> None:
    estimator = ty.BradleyTerry()
    assert estimator.set_params(ties="half", selection__both_bad="half", selection__min_battles=5) is estimator
    assert estimator == ty.BradleyTerry(ties="half", selection=Selection(both_bad="half", min_battles=5))
    assert estimator.get_params()["selection__min_battles"] == 5
    glicko = ty.Glicko2().set_params(parameters__tau=0.7)
    assert glicko.parameters.tau == 0.7


def test_a_whole_parameter_and_a_part_of_it_may_be_set_together() -> None:
    estimator = ty.WinRate().set_params(selection__min_battles=3, selection=Selection(source="human"))
    assert estimator.selection == Selection(source="human", min_battles=3)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"tie": "half"}, "BradleyTerry has no parameter 'tie': it has ties, ci,"),
        ({"selection__sauce": "human"}, "has no parameter 'selection__sauce'"),
        ({"level": 95}, "level is 95"),
        ({"selection__source": "robot"}, "source is 'robot'"),
    ],
)
def test_a_wrong_parameter_changes_nothing(wrong: dict[str, Any], says: str) -> None:
    estimator = ty.BradleyTerry()
    with pytest.raises(OptionError, match=says.replace("(", r"\(")):
        estimator.set_params(rounds=50, **wrong)
    assert estimator == ty.BradleyTerry()


def test_a_grid_of_parameters_can_be_gone_through() -> None:
    selection = pytest.importorskip("sklearn.model_selection", reason="the grid is scikit-learn's")
    grid = selection.ParameterGrid({"ties": ["davidson", "half"], "selection__both_bad": ["separate", "drop"]})
    boards = [ty.BradleyTerry(ci="none").set_params(**point).fit(FEW) for point in grid]
    assert len({board.settings.tie_model + board.settings.both_bad for board in boards}) == 4


def test_every_chart_is_an_altair_object() -> None:
    altair = pytest.importorskip("altair", reason="plots need the [plot] extra")
    chart = ty.rate(FEW).plot()
    assert isinstance(chart, altair.TopLevelMixin)
    assert isinstance(chart.properties(width=300), altair.LayerChart)
