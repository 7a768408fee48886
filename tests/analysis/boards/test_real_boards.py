"""Boards of other people's data: published answers, laws, and nothing that is not finite."""

from __future__ import annotations

import csv
import math

import numpy as np
import pytest
from board_rows import assert_same_board
from tests.records import replace

import tiltyard as ty
from tiltyard.data.battles import concat, read_battles
from tiltyard.errors import BadRow


@pytest.fixture(scope="module")
def arena_140k(real_data):
    return read_battles(real_data / "arena_140k" / "battles.csv.gz", on_bad="skip")


@pytest.fixture(scope="module")
def arena_board(arena_140k):
    return ty.rate(arena_140k)


def assert_all_finite(board):
    for entry in board:
        assert math.isfinite(entry.rating)
        assert entry.ci_low is None or entry.ci_low < entry.rating
        assert entry.ci_high is None or entry.ci_high > entry.rating
        assert 1 <= entry.rank_low <= entry.rank <= entry.rank_high <= len(board)


# Chatbot Arena, 135,634 votes


@pytest.mark.soak
def test_the_ten_self_battles_of_the_arena_are_an_error_that_names_line_and_model(real_data):
    """Every run: tests/data/battles/test_real_battle_files.py reads the same file and finds the same line."""
    path = real_data / "arena_140k" / "battles.csv.gz"
    with pytest.raises(BadRow, match=r"battles\.csv\.gz:3937: model against itself: .*gemini-2\.5-flash-preview-04-17"):
        ty.rate(path)


def test_skipped_they_are_counted_on_the_board_and_in_its_file(real_data):
    board = ty.rate(real_data / "arena_140k" / "battles.csv.gz", on_bad="skip")
    assert board.left_out == {"bad row: model against itself": 10}
    assert board.n_battles == 135_634 - 10
    assert len(board) == 53
    assert '"bad row: model against itself": 10' in board.to_json()
    assert "10 × bad row: model against itself" in str(board)
    assert_all_finite(board)


@pytest.mark.parametrize("ties", ["davidson", "rao-kupper", "half", "drop"])
def test_the_arena_is_finite_by_every_reading_of_ties(arena_140k, arena_board, ties):
    board = ty.rate(arena_140k, ties=ties, misfit=False)
    assert_all_finite(board)
    found = board.changes_since(arena_board)
    assert found.kendall_tau > 0.95


def test_davidson_keeps_the_scale_of_dropped_ties_and_half_wins_compress_it(arena_140k, arena_board):
    # Slopes against the board without ties; the statistics sheet has 1.02 and 0.82 from the same votes.
    dropped = ty.rate(arena_140k, ties="drop", misfit=False)
    names = dropped.models
    base = np.array([dropped[name].rating for name in names]) - 1000

    def slope(board):
        ratings = np.array([board[name].rating for name in names]) - 1000
        return float(base @ ratings / (base @ base))

    assert slope(arena_board) == pytest.approx(1.02, abs=0.02)
    assert slope(ty.rate(arena_140k, ties="half", misfit=False)) == pytest.approx(0.82, abs=0.02)


def test_the_arena_twice_keeps_the_ratings_and_narrows_the_intervals(arena_140k, arena_board):
    twice = ty.rate(concat([arena_140k, arena_140k]), misfit=False)
    weighed = ty.rate(replace(arena_140k, weight=2.0 * arena_140k.weight), misfit=False)
    for entry in arena_board:
        for other in (twice, weighed):
            assert other[entry.model].rating == pytest.approx(entry.rating, abs=1e-9 * 1000)
            assert other[entry.model].n_battles == 2 * entry.n_battles
            # Row by row, twice the votes are √2 times as sure (and t of the rarest model is 0.2 % nearer to normal).
            half, halved = entry.ci_high - entry.rating, other[entry.model].ci_high - other[entry.model].rating
            assert half / halved == pytest.approx(math.sqrt(2), rel=5e-3)


def test_the_arena_written_from_the_other_side_is_the_same_board(arena_140k, arena_board):
    assert_same_board(arena_board, ty.rate(arena_140k.swapped()))


def test_the_order_of_the_arenas_votes_does_not_matter(arena_140k, arena_board):
    order = np.random.default_rng(0).permutation(len(arena_140k))
    assert_same_board(arena_board, ty.rate(arena_140k.take(order)))


def test_both_bad_votes_are_beside_the_ratings(arena_140k, arena_board):
    assert arena_board.ratings == pytest.approx(ty.rate(arena_140k, both_bad="drop", misfit=False).ratings)
    assert sum(entry.both_bad for entry in arena_board) == 2 * int((arena_140k.outcome == 3).sum())


def test_the_bootstrap_of_the_arena_agrees_with_the_closed_form(arena_140k, arena_board):
    rounds = 400
    board = ty.rate(arena_140k, ci="bootstrap", rounds=rounds, seed=1, misfit=False)
    widths = np.array([board[e.model].ci_high - board[e.model].ci_low for e in arena_board])
    closed = np.array([e.ci_high - e.ci_low for e in arena_board])
    # A 2.5 % quantile of 400 rounds has a standard error of about 0.14 sd, the width (3.92 sd) one of 4 to 5 %.
    assert np.abs(widths / closed - 1).max() < 0.2
    assert np.mean(widths / closed) == pytest.approx(1.0, abs=0.03)


# llmfao: people and two judges on the same pairs, 13 prompts


LLMFAO = {"crowd": 8931, "gpt4-crowd": 2139, "gpt3-crowd": 2139}


@pytest.mark.parametrize(
    "who", ["gpt4-crowd", *(pytest.param(who, marks=pytest.mark.soak) for who in ("crowd", "gpt3-crowd"))]
)
def test_llmfao_runs_clean_clustered_by_its_thirteen_prompts(real_data, who):
    path = real_data / "llmfao" / f"{who}-comparisons.csv"
    board = ty.rate(path)
    assert board.n_battles == LLMFAO[who]
    assert len(board) == 59
    assert board.left_out == {}
    assert board.settings.interval.cluster == "question_id"
    assert board.details.n_clusters == 13
    assert_all_finite(board)
    table = read_battles(path)
    assert_same_board(board, ty.rate(table.swapped()))
    assert_same_board(board, ty.rate(table.take(np.arange(len(table))[::-1])))
    twice = ty.rate(concat([table, table]))
    for entry in board:
        assert twice[entry.model].rating == pytest.approx(entry.rating, abs=1e-6)
    # Every vote twice on its own prompt is no new prompt: what is known stays the same, but for pairs of models whose
    # thirteen prompts agree by chance more than single votes could, which no interval believes.
    errors = board.arrays["difference_errors"]
    ratio = twice.arrays["difference_errors"][errors > 0.0] / errors[errors > 0.0]
    assert np.nanmin(ratio) == pytest.approx(math.sqrt(0.5))
    assert np.nanmax(ratio) == pytest.approx(1.0)
    assert np.nanmedian(ratio) == pytest.approx(1.0)


def test_both_judges_order_the_models_much_as_people_do(real_data):
    boards = {who: ty.rate(real_data / "llmfao" / f"{who}-comparisons.csv") for who in LLMFAO}
    for judge in ("gpt4-crowd", "gpt3-crowd"):
        found = boards[judge].changes_since(boards["crowd"])
        assert found.kendall_tau > 0.45
        assert found.spearman_rho > 0.65
        assert len(found.changes) == 59


def test_a_judges_liking_for_the_left_side_is_what_the_slot_term_finds(real_data):
    # GPT-3 said left 1,352 times and right 593: log-odds of 0.82 or 143 points; GPT-4 is much nearer to 0.
    points = {}
    for who in ("gpt3-crowd", "gpt4-crowd", "crowd"):
        table = read_battles(real_data / "llmfao" / f"{who}-comparisons.csv", default_source="human")
        points[who] = ty.rate(table, slot=True).details.coefficients["first slot"]
    assert points["gpt3-crowd"].ci_low > 100
    assert points["gpt3-crowd"].points == pytest.approx(400 * math.log10(1352 / 593), rel=0.35)
    assert abs(points["gpt4-crowd"].points) < 0.5 * points["gpt3-crowd"].points


def test_on_llmfao_wider_gaps_need_more_votes_to_swap(real_data):
    table = read_battles(real_data / "llmfao" / "crowd-comparisons.csv")
    board = ty.rate(table, robustness=True, ci="none")
    numbers = [entry.extra["battles_to_swap_with_next"] for entry in board]
    assert numbers[-1] is None
    assert all(number is not None and number >= 1 for number in numbers[:-1])
    gaps = [above.rating - below.rating for above, below in zip(board.entries, board.entries[1:], strict=False)]
    # More votes are needed where the gap is wider: the two go together.
    assert np.corrcoef(np.argsort(np.argsort(gaps)), np.argsort(np.argsort(numbers[:-1])))[0, 1] > 0.7


# Golden tables of evalica


@pytest.mark.parametrize("name", ["simple", "food"])
def test_evalicas_golden_counts_win_rates_and_strengths(real_data, name):
    with (real_data / "evalica" / f"{name}-golden.csv").open() as file:
        golden: dict[str, dict[str, float]] = {}
        for row in csv.DictReader(file):
            golden.setdefault(row["algorithm"], {})[row["item"]] = float(row["score"])
    path = real_data / "evalica" / f"{name}.csv"
    rates = ty.rate(path, method="winrate")
    for item in golden["counting"]:
        assert rates[item].extra["score"] == pytest.approx(golden["counting"][item], abs=1e-12)
        assert rates[item].rating == pytest.approx(golden["average_win_rate"][item], abs=1e-12)
    strengths = ty.rate(path, ties="half", ci="none").ratings
    worth = {item: 10 ** ((rating - 1000) / 400) for item, rating in strengths.items()}
    total = sum(worth.values())
    for item, score in golden["bradley_terry"].items():
        # Evalica stops when no score moves by more than 1e-6.
        assert worth[item] / total == pytest.approx(score, abs=1e-5)


# AlpacaEval 2: the published win rates


@pytest.fixture(scope="module")
def alpaca(real_data):
    return read_battles(real_data / "alpaca_eval" / "battles_v2.csv.gz", on_bad="skip")


@pytest.fixture(scope="module")
def alpaca_rates(alpaca):
    return ty.rate(alpaca, method="winrate")


def test_alpaca_eval_win_rates_are_the_published_ones_where_the_rows_are_the_published_rows(real_data, alpaca_rates):
    board = alpaca_rates
    with (real_data / "alpaca_eval" / "leaderboard_v2.csv").open() as file:
        published = {row[""]: row for row in csv.DictReader(file)}
    checked = 0
    for entry in board:
        row = published.get(entry.model)
        if row is None:
            continue
        counts = tuple(int(row[name]) for name in ("n_wins", "n_wins_base", "n_draws"))
        if (entry.wins, entry.losses, entry.ties) == counts:  # the rows are complete
            assert 100 * entry.rating == pytest.approx(float(row["win_rate"]), abs=0.01)
            checked += 1
    assert checked >= 100
    assert board.left_out == {"bad row: model against itself": 805}


def test_alpaca_evals_soft_preferences_are_rated_around_one_baseline(alpaca, alpaca_rates):
    board = ty.rate(alpaca, anchor=("gpt4_1106_preview", 1000), misfit=False)
    rates = alpaca_rates
    assert board.settings.tie_model == "half"
    for entry in board:
        if entry.model != "gpt4_1106_preview":
            # Everybody met the baseline only: the rating is the log-odds of the win rate.
            p = rates[entry.model].rating
            assert entry.rating == pytest.approx(1000 + 400 * math.log10(p / (1 - p)), abs=1e-5)
    assert board.details.n_clusters == 805


def test_controlling_for_length_lowers_models_that_won_by_length(real_data):
    # On AlpacaEval long answers win: the coefficient of length is well above 0.
    path = real_data / "alpaca_eval" / "battles_v2.csv.gz"
    some = [f"{name}_{style}" for name in ("alpaca-7b", "gpt-3.5-turbo-1106") for style in ("concise", "verbose")]
    names = ", ".join(f"'{name}'" for name in some)
    board = ty.rate(path, where=f"model in ({names})", control=["len"])
    length = board.details.coefficients["len"]
    assert length.ci_low > 0
    moved = {entry.model: entry.rating - entry.extra["rating_without_control"] for entry in board}
    for name in ("alpaca-7b", "gpt-3.5-turbo-1106"):
        assert moved[f"{name}_verbose"] < moved[f"{name}_concise"]
