"""Boards of mean scores: missing answers, clusters, and ranges of places that hold."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tiltyard.analysis.decisions import ScoreBoard, score_boards
from tiltyard.analysis.decisions.score_board import score_board
from tiltyard.data.battles import Codes
from tiltyard.data.scores import ScoreTable, read_scores
from tiltyard.data.scores.table import ModelScores
from tiltyard.errors import OptionError
from tiltyard.stats import ScoreEffects
from tiltyard.types import Floats, Ints


def rows(scores: Any, **columns: Any) -> list[dict[str, Any]]:
    """A row of each model (m0, m1, …) and prompt; None: without a score, absent: not asked."""
    return [
        {"model": f"m{m}", "id": f"q{n}", "score": value, **{name: column[n] for name, column in columns.items()}}
        for m, some in enumerate(scores)
        for n, value in enumerate(some)
        if value != "absent"
    ]


def board_of(scores: Any, bounds: tuple[float, float] | None = None, **options: Any) -> ScoreBoard:
    (table,) = read_scores(rows(scores), bounds=bounds)
    return score_board(table, **options)


def quick_board(scores: Floats, documents: Ints | None = None, **options: Any) -> ScoreBoard:
    """The board of scores of 0 and 1 as (models, prompts), NaN where there is none, without a reader."""
    models = {
        f"m{m}": ModelScores(
            np.arange(len(some)),
            some,
            (~np.isnan(some)).astype(int),
            some * np.nan,
            np.isnan(some).astype(int),
            0.0,
            1.0,
        )
        for m, some in enumerate(scores)
    }
    prompts = tuple(f"q{n}" for n in range(scores.shape[1]))
    columns = {} if documents is None else {"document": Codes(documents.astype(np.int32), ("d",) * 20)}
    table = ScoreTable("score", models, prompts, columns, "default", False, True, (0.0, 1.0), ())
    return score_board(table, **options)


def places(board: ScoreBoard) -> dict[str, tuple[int, int, int]]:
    return {one.model: (one.rank, one.rank_low, one.rank_high) for one in board.entries}


def test_a_board_with_every_answer_has_neither_the_column_nor_a_note() -> None:
    board = board_of([[1, 0] * 20, [0, 1] * 20])
    assert "missing" not in str(board) + board.csv() + board.to_json()
    assert len(board.notes) == 1


def test_missing_answers_are_counted_by_model() -> None:
    """m1: one empty answer and one prompt that it was not asked, of 40; m0 has every answer."""
    board = board_of([[1, 0] * 20, [None, *([0, 1] * 19), "absent"]])
    assert {one.model: one.missing for one in board.entries} == {"m0": 0.0, "m1": 2 / 40}
    assert "5.0 %" in str(board)
    assert "answers are missing" in board.notes[1]
    assert json.loads(board.to_json())["scores"][0]["missing"] in (0.0, 0.05)
    assert board.csv().splitlines()[0].endswith(",n_prompts,missing")


def test_an_answer_without_a_score_among_repeats_counts_as_its_part() -> None:
    again = [{"model": m, "id": n, "epoch": k, "score": n % 2} for m in "ab" for n in range(10) for k in range(4)]
    again[0]["score"] = None
    (table,) = read_scores(again)
    assert {one.model: one.missing for one in score_board(table).entries} == {"a": 0.25 / 10, "b": 0.0}


def test_places_hold_whatever_missing_answers_would_have_scored() -> None:
    """All right against 30 of 60: with 12 of 60 answers missing m0 is ahead by .3 at worst, with 30 by nothing."""
    weak = [1, 0] * 30
    certain = board_of([[None] * 12 + [1] * 48, weak])
    assert places(certain) == {"m0": (1, 1, 1), "m1": (2, 2, 2)}
    assert certain.entries[0].low is not None
    assert certain.entries[0].low < 0.8 <= certain.entries[0].mean
    doubtful = [[None] * 30 + [1] * 30, weak]
    assert places(board_of(doubtful)) == {"m0": (1, 1, 2), "m1": (2, 1, 2)}
    assert places(board_of(doubtful, missing="ignore")) == {"m0": (1, 1, 1), "m1": (2, 2, 2)}


def test_less_is_better_turns_the_ends_of_the_scale_round() -> None:
    seconds = [[None] * 12 + [0.0] * 48, [1.0, 0.0] * 30]
    (table,) = read_scores(rows(seconds), score=["score:lower"], bounds=(0, 1))
    assert places(score_board(table)) == {"m0": (1, 1, 1), "m1": (2, 2, 2)}
    (table,) = read_scores(rows([[None] * 30 + [0.0] * 30, [1.0, 0.0] * 30]), score=["score:lower"], bounds=(0, 1))
    assert places(score_board(table)) == {"m0": (1, 1, 2), "m1": (2, 1, 2)}


def test_without_bounds_a_model_with_missing_answers_could_be_anywhere() -> None:
    grades = [
        [3.0 + n % 3 for n in range(40)],
        [1.0 + n % 3 for n in range(40)],
        [None] + [9.0 + n % 3 for n in range(39)],
    ]
    board = board_of(grades)
    assert places(board) == {"m2": (1, 1, 3), "m0": (2, 1, 2), "m1": (3, 2, 3)}
    assert board.entries[0].low is None
    assert "could hold any place (m2)" in board.notes[3]
    assert "bounds=" in board.notes[3]
    assert places(board_of(grades, bounds=(0, 12)))["m2"] == (1, 1, 1)
    assert "scored (0 to 12)" in board_of(grades, bounds=(0, 12)).notes[2]
    assert places(board_of(grades, missing="ignore"))["m2"] == (1, 1, 1)


def test_a_model_that_was_asked_only_the_easy_half_gains_nothing() -> None:
    """Easy prompts give 1.0, hard ones 0.2, and m0 is .1 worse: its own mean is .9, on all prompts .5."""
    easy, hard = [0.9, 1.0] * 10, [0.1, 0.2] * 10
    whole = [value + 0.1 for value in easy + hard]
    board = board_of([[*easy, *["absent"] * 20], whole, whole], bounds=(0, 1.1))
    assert places(board)["m0"][0] == 3
    worst = next(one for one in board.entries if one.model == "m0")
    assert worst.mean == pytest.approx(0.55)
    assert worst.n_prompts == 20
    assert worst.missing == 0.5


def test_a_mean_that_no_score_could_reach_is_not_printed() -> None:
    """m0 is .2 better on hard prompts and was asked no others; the fit would give it 1.2 on the easy ones."""
    board = board_of([[None] * 20 + [0.2, 0.2] * 10, [1.0] * 20 + [0.0] * 20, [1.0] * 20 + [0.0] * 20], (0, 1))
    first = board.entries[0]
    assert (first.model, first.mean) == ("m0", pytest.approx(0.6))
    assert first.low is not None
    assert first.high is not None
    assert first.low <= first.mean <= first.high


def test_a_printed_rank_lies_in_its_range_and_a_mean_in_its_interval() -> None:
    rng = np.random.default_rng(0)
    for _ in range(150):
        n_models, n_prompts = rng.integers(2, 6), rng.integers(4, 30)
        ease = np.sort(rng.random(n_prompts))
        scores = (rng.random((n_models, n_prompts)) < ease + rng.normal(0, 0.3, (n_models, 1))).astype(float)
        scores[rng.random(scores.shape) < rng.choice([0.05, 0.3, 0.7])] = np.nan
        scores[0, n_prompts // 2 :] = np.nan
        scores[:, 0] = 1.0
        for rule in ("worst", "ignore"):
            for one in quick_board(scores, missing=rule).entries:
                assert one.rank_low <= one.rank <= one.rank_high
                if one.low is None or one.high is None:
                    assert (rule, one.n_prompts) == ("ignore", 1)
                else:
                    assert one.low - 1e-12 <= one.mean <= one.high + 1e-12


def test_a_test_that_contradicts_the_means_tells_nothing_apart() -> None:
    """m0 was asked hard prompts: .78 there, where m1 has .9 and m2 0; on easy ones both have 1.

    The fit gives m0 the larger effect, but more than 1 on easy prompts: kept within the scale, its mean is .89, that of
    m1 .95.
    """
    jitter = np.random.default_rng(2).normal(0, 0.02, (3, 400))
    scores = np.array([[1.0, 0.78], [1.0, 0.88], [1.0, 0.04]]).repeat(200, axis=1) - np.abs(jitter)
    scores[0, :200] = np.nan
    effects = ScoreEffects.of(scores)
    assert (effects.difference(0, 1, 1.0).ends(0.95)[0] or 0.0) > 0.0
    assert places(quick_board(scores, missing="ignore")) == {"m1": (1, 1, 2), "m0": (2, 1, 2), "m2": (3, 3, 3)}


def test_a_model_without_any_score_is_named() -> None:
    board = board_of([[None] * 10, [1, 0] * 5, [0, 1] * 5])
    assert [one.model for one in board.entries] == ["m1", "m2"]
    assert board.notes[-1] == "left out, because no answer has a score: m0"
    assert board.entries[0].low is not None


def test_models_that_nothing_joins_are_not_told_apart() -> None:
    apart = [[1] * 30 + ["absent"] * 30, ["absent"] * 30 + [0] * 30]
    for rule in ("worst", "ignore"):
        assert {one[1:] for one in places(board_of(apart, missing=rule)).values()} == {(1, 2)}


def test_a_board_counts_by_cluster_and_names_a_column_that_could_be_one() -> None:
    """Each document is all right or all wrong: 7 of 10 against 5 says little, 140 of 200 against 100 a lot."""
    documents = [f"d{n // 20}" for n in range(200)]
    data = rows([[int(n // 20 < 7) for n in range(200)], [int(n // 20 < 5) for n in range(200)]], document=documents)
    (plain,) = score_boards(data)
    assert places(plain) == {"m0": (1, 1, 1), "m1": (2, 2, 2)}
    assert "200 prompts share 10 values of document" in plain.notes[-1]
    (clustered,) = score_boards(data, cluster="document")
    assert places(clustered) == {"m0": (1, 1, 2), "m1": (2, 1, 2)}
    assert clustered.notes[0].startswith("95 % intervals by document")
    assert len(clustered.notes) == 1
    with pytest.raises(OptionError, match="no column 'page'"):
        score_boards(data, cluster="page")
    with pytest.raises(OptionError, match="about battles"):
        score_boards(data, tie_band=0.1)


def unlike_losses(rng: np.random.Generator) -> ScoreBoard:
    """Three equal models; a quarter of the first one's wrong answers have no score."""
    scores = (rng.random((3, 200)) < rng.beta(2, 2, 200)).astype(float)
    scores[0, (scores[0] == 0) & (rng.random(200) < 0.25)] = np.nan
    return quick_board(scores)


def easy_half(rng: np.random.Generator) -> ScoreBoard:
    """Three equal models, of which one was asked only the easy half."""
    scores = (rng.random((3, 100)) < np.linspace(1, 0, 100)).astype(float)
    scores[0, 50:] = np.nan
    return quick_board(scores, missing="ignore")


def documents(rng: np.random.Generator) -> ScoreBoard:
    """Three models that are equal over documents; 10 documents of 20 prompts."""
    strength = 1 / (1 + np.exp(-rng.normal(0, 1, 10) - rng.normal(0, 1, (3, 10))))
    scores = (rng.random((3, 200)) < np.repeat(strength, 20, axis=1)).astype(float)
    return quick_board(scores, np.arange(200) // 20, cluster="document")


@pytest.mark.parametrize("world", [unlike_losses, easy_half, documents])
def test_equal_models_are_told_apart_in_at_most_a_twentieth(world: Callable[[np.random.Generator], ScoreBoard]) -> None:
    rng, runs = np.random.default_rng(8), 150
    false = sum(any(one.rank_low > 1 or one.rank_high < 3 for one in world(rng).entries) for _ in range(runs))
    assert false / runs <= 0.05 + 2 * (0.05 * 0.95 / runs) ** 0.5
