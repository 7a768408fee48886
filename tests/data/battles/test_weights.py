"""A weight is how many equal battles a row stands for: one that cannot be is named by its row."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from battle_rows import write_raw

import tiltyard as ty
from tiltyard.data.battles import read_battles
from tiltyard.errors import BadRow, NotConverged, RatingError

ROWS = [
    {"model_a": "otter", "model_b": "heron", "winner": winner, "source": "human", "weight": 1.0}
    for winner in ("model_a", "model_b", "tie", "model_a")
]


@pytest.mark.parametrize("weight", [1e300, 1e-300, 1e12, -1.0])
@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_a_weight_that_no_number_of_battles_has_is_named_by_its_row(tmp_path: Path, kind: str, weight: float) -> None:
    path = write_raw(tmp_path / f"battles.{kind}", [*ROWS, ROWS[0] | {"weight": weight}])
    with pytest.raises(BadRow, match=r"bad weight: .*expected 0 or from 0\.000001 to 1,000,000,000") as caught:
        ty.rate(path)
    assert re.search(r":6|row 5|:5", str(caught.value))
    assert read_battles(path, on_bad="skip", counted=True).n_battles == 4


@pytest.mark.parametrize("weight", [1e-6, 1e6, 1e9])
def test_weights_at_the_ends_of_the_range_are_rated(weight: float) -> None:
    board = ty.rate([row | {"weight": weight} for row in ROWS])
    assert board.n_battles == pytest.approx(4 * weight)


def test_weights_that_cannot_be_played_one_by_one_are_refused_before_memory_is_taken() -> None:
    with pytest.raises(RatingError, match="add up to 4,000,000,000 battles"):
        ty.rate([row | {"weight": 1e9} for row in ROWS], method="elo")


def test_a_row_that_outweighs_all_others_is_hinted_at() -> None:
    pairs = [(a, b, winner) for a in "abc" for b in "def" for winner in ("model_a", "model_b", "tie")]
    rows = [{"model_a": a, "model_b": b, "winner": winner, "source": "human"} for a, b, winner in pairs]
    with pytest.raises(NotConverged, match="one row's weight exceeds all others by far"):
        ty.rate([rows[0] | {"weight": 1e9}, *rows[1:]])
