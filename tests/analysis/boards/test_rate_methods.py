"""`rate` by every method, its options, where a board says its battles came from, and boards by column."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from board_rows import arena, assert_same_board, battle, swapped

import tiltyard as ty
from tiltyard.analysis.boards import METHODS, apart_at_any_time, rate_by, sequential
from tiltyard.data.battles import reading
from tiltyard.errors import NoBattles, OptionError, OptionValue, RatingError
from tiltyard.options import InputOptions
from tiltyard.stats import POINTS_PER_LOGIT, Covariance, normal_quantile, rate_battles, t_quantile
from tiltyard.stats.elo import permutation_elo, sequential_elo

ROWS = arena(1, n=250, prompts=25)


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "battles.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    return path


def codes(rows):
    names = sorted({row[side] for row in rows for side in ("model_a", "model_b")})
    place = {name: at for at, name in enumerate(names)}
    a, b = (np.array([place[row[side]] for row in rows]) for side in ("model_a", "model_b"))
    score = np.array([{"model_a": 1.0, "model_b": 0.0, "tie": 0.5}[row["winner"]] for row in rows])
    return names, a, b, score


@pytest.mark.parametrize("method", list(METHODS))
def test_every_method_gives_a_board_from_a_file_a_table_rows_and_frames(method, file):
    import pandas
    import polars

    board = ty.rate(file, method=method)
    assert board.settings.method == method
    assert set(board.models) == set("abcde")
    ratings = [entry.rating for entry in board]
    assert ratings == sorted(ratings, reverse=True)
    assert sum(entry.n_battles for entry in board) == 2 * board.n_battles
    inputs = [
        ROWS,
        str(file),
        [file],
        iter(ROWS),
        ty.read_battles(file),
        pandas.DataFrame(ROWS),
        polars.DataFrame(ROWS),
    ]
    for other in inputs if method == "bt" else inputs[:1]:  # how battles are read is no matter of the method
        again = ty.rate(other, method=method)
        assert again.ratings == pytest.approx(board.ratings, abs=1e-9)


def test_sequential_elo_is_the_battles_in_order():
    names, a, b, score = codes(ROWS)
    board = ty.rate(ROWS, method="elo", k=20, initial_rating=1200)
    expected = sequential_elo(a, b, score, n_models=5, k=20, initial_rating=1200)
    assert [board[name].rating for name in names] == pytest.approx(expected.tolist())
    assert all(entry.ci_low is None and entry.rank_low is None for entry in board)
    assert sum(board.ratings.values()) == pytest.approx(5 * 1200)


def test_battles_are_put_in_the_order_of_their_timestamps():
    timed = [{**row, "timestamp": 1000 + at} for at, row in enumerate(ROWS)]
    shuffled = [timed[at] for at in np.random.default_rng(0).permutation(len(timed))]
    for method in ("elo", "glicko2"):
        assert ty.rate(shuffled, method=method).ratings == pytest.approx(ty.rate(ROWS, method=method).ratings)


def test_a_row_of_weight_three_is_three_battles_in_a_row():
    rows = battle("a>b", weight=3) + battle("b>a", 2)
    copies = battle("a>b", 3) + battle("b>a", 2)
    for method in ("elo", "glicko2", "winrate", "elo-perm"):
        assert ty.rate(rows, method=method).ratings == pytest.approx(ty.rate(copies, method=method).ratings)
    with pytest.raises(RatingError, match="whole number"):
        ty.rate(battle("a>b", weight=1.5), method="elo")


def test_permutation_elo_leaves_ties_out_and_says_so():
    decisive = [row for row in ROWS if row["winner"] != "tie"]
    names, a, b, score = codes(decisive)
    board = ty.rate(ROWS, method="elo-perm", n_perms=30, seed=4)
    expected = permutation_elo(a, b, score > 0.5, n_models=5, n_perms=30, seed=4).default
    assert [board[name].rating for name in names] == pytest.approx(expected.mean.tolist(), abs=1e-9)
    assert [board[name].extra["sem"] for name in names] == pytest.approx(expected.sem.tolist(), abs=1e-9)
    ties = len(ROWS) - len(decisive)
    assert list(board.left_out.values()) == [ties]
    assert "tie" in next(iter(board.left_out))
    assert set(board.details.k_sensitivity) == {"1.0", "4.0", "8.0", "16.0", "32.0"}
    for entry in board:
        assert entry.extra["sampling_low"] == entry.ci_low < entry.rating < entry.ci_high
        assert entry.extra["ci95_high"] - entry.rating == pytest.approx(1.96 * entry.extra["sem"])
    assert any("shuffle error only" in remark for remark in board.remarks)


def test_very_many_battles_are_shuffled_less_often_and_the_board_says_so(monkeypatch):
    estimator = ty.PermutationElo(ci="none")
    assert [estimator.n_shuffles(n) for n in (100, 100_000, 200_000, 10_000_000)] == [500, 500, 250, 50]
    assert ty.PermutationElo(n_perms=700).n_shuffles(10_000_000) == 700
    monkeypatch.setattr(sequential, "PLAYED_BATTLES", 60 * len(ROWS))
    board = estimator.fit(ty.read_battles(ROWS))
    assert 50 <= board.settings.n_perms < 500
    assert any(f"{board.settings.n_perms} shuffles, because" in remark for remark in board.remarks)


def test_what_permutation_elo_costs_is_known_beforehand():
    table = ty.read_battles(ROWS)
    n = int((table.outcome < 2).sum())
    battles, seconds = ty.PermutationElo(n_perms=10, ci="none").cost(table)
    assert battles == 10 * n
    with_interval = ty.PermutationElo(n_perms=10, cluster="none").cost(table)
    assert with_interval[0] == 10 * n + 200 * 4 * n
    assert with_interval[1] > seconds > 0.0


def test_permutation_elo_without_its_interval():
    board = ty.rate(ROWS, method="elo-perm", n_perms=10, ci="none")
    assert all(entry.ci_low is None and "sampling_low" not in entry.extra for entry in board)
    with pytest.raises(OptionError, match="sampling, none"):
        ty.rate(ROWS, method="elo-perm", ci="sandwich")


def test_glicko_intervals_are_the_deviation_times_the_normal_quantile():
    names, a, b, score = codes(ROWS)
    board = ty.rate(ROWS, method="glicko2", level=0.9)
    state = rate_battles(a, b, score, start=5)
    for at, name in enumerate(names):
        entry = board[name]
        assert entry.rating == pytest.approx(state.rating[at])
        assert entry.ci_high - entry.rating == pytest.approx(normal_quantile(0.9) * state.deviation[at])
        assert entry.extra["deviation"] == pytest.approx(state.deviation[at])


def test_win_rates_count_ties_half():
    board = ty.rate(battle("a>b", 2) + battle("a=b", 2) + battle("b>c"), method="winrate")
    assert board["a"].rating == 0.75
    assert board["b"].rating == (0.25 + 1.0) / 2
    assert board["b"].extra["overall"] == 2 / 5
    assert board["b"].extra["score"] == 2


@pytest.mark.parametrize(
    ("method", "option", "homes"),
    [
        ("elo", {"ties": "half"}, "bt"),
        ("winrate", {"anchor": ("a", 1000.0)}, "bt"),
        ("elo-perm", {"anytime": True}, "bt"),
        ("glicko2", {"rounds": 10}, "bt"),
        ("bt", {"k": 16.0}, "elo, elo-perm"),
        ("bt", {"n_perms": 10}, "elo-perm"),
        ("elo", {"n_perms": 10}, "elo-perm"),
        ("winrate", {"level": 0.9}, "bt, elo-perm, glicko2"),
        ("elo-perm", {"robustness": True}, "bt"),
        ("glicko2", {"initial_rating": 1400.0}, "elo, elo-perm"),
    ],
)
def test_an_option_that_does_not_apply_is_refused_and_its_methods_named(method, option, homes):
    with pytest.raises(OptionError, match=f"does not apply to method {method}: it belongs to {homes}\\.$") as caught:
        ty.rate(ROWS, method=method, **option)
    assert next(iter(option)) in str(caught.value)


@pytest.mark.parametrize(
    "wrong",
    [
        {"method": "trueskill"},
        {"ties": "no"},
        {"ci": "jackknife"},
        {"both_bad": "win"},
        {"inconsistent": "x"},
        {"source": "me"},
    ],
)
def test_an_unknown_choice_is_refused_with_the_known_ones(wrong):
    with pytest.raises(OptionError, match="expected one of"):
        ty.rate(ROWS, **wrong)


def test_a_second_fit_forgets_the_first():
    estimator = ty.BradleyTerry()
    one = estimator.fit(ty.read_battles(ROWS))
    estimator.fit(ty.read_battles(battle("x>y") + battle("y>x")))
    assert estimator.fit(ty.read_battles(ROWS)).to_json() == one.to_json()


def test_estimators_and_rate_agree(file):
    options = {"ties": "half", "level": 0.9, "anchor": ("a", 1500.0)}
    assert ty.BradleyTerry(**options).fit(ty.read_battles(file)).ratings == pytest.approx(
        ty.rate(file, **options).ratings
    )


def test_the_hash_is_that_of_the_files_bytes(file, tmp_path):
    other = tmp_path / "more.jsonl"
    other.write_bytes(file.read_bytes()[: file.read_bytes().index(b"\n") + 1])
    assert ty.rate(file).settings.battles_sha256 == hashlib.sha256(file.read_bytes()).hexdigest()
    both = ty.rate([file, other]).settings.battles_sha256
    assert both == hashlib.sha256(file.read_bytes() + other.read_bytes()).hexdigest()
    assert ty.rate(ROWS).settings.battles_sha256 is None
    assert ty.rate(file).settings.tiltyard_version == ty.__version__


def test_where_filters_while_reading_and_is_written_down(file):
    board = ty.rate(file, where="question_id < 'q2'")
    kept = [row for row in ROWS if row["question_id"] < "q2"]
    assert_same_board(board, ty.rate(kept))
    assert board.settings.where == "question_id < 'q2'"
    with pytest.raises(OptionError, match="read_battles"):
        ty.rate(ty.read_battles(file), where="question_id < 'q2'")


def test_one_board_per_value_of_a_column(file):
    estimator = ty.BradleyTerry(ties="half")
    rows = [{**row, "language": "English" if at % 2 else "German"} for at, row in enumerate(ROWS)]
    boards = rate_by(rows, "language", estimator)
    assert list(boards) == ["English", "German"]
    for language, board in boards.items():
        part = [row for row in rows if row["language"] == language]
        assert_same_board(board, ty.rate(part, ties="half"))
    table = rate_by(ty.read_battles(rows), "language", estimator)
    assert_same_board(table["German"], boards["German"])
    with pytest.raises(OptionError, match="no column 'colour'"):
        rate_by(rows, "colour", estimator, InputOptions())


def test_a_value_that_cannot_be_rated_is_an_error_or_is_left_out_and_named():
    lonely = {"model_a": "a", "model_b": "b", "winner": "tie", "source": "human", "language": "Latin"}
    rows = [*({**row, "language": "English"} for row in ROWS), lonely]
    estimator = ty.BradleyTerry()
    with pytest.raises(RatingError, match="language Latin: every battle is a tie"):
        rate_by(rows, "language", estimator)
    said: list[ty.TiltyardError] = []
    assert list(rate_by(rows, "language", estimator, leave_out=said.append)) == ["English"]
    assert [str(error) for error in said] == [
        "no board: language Latin: every battle is a tie: there is nothing to tell the models apart by."
    ]
    with pytest.raises(RatingError, match="language Latin"):
        rate_by([lonely], "language", estimator, leave_out=said.append)


def test_rows_without_a_value_are_on_no_board():
    rows = [{**row, "language": "English"} for row in ROWS] + arena(2, n=50)
    boards = rate_by(rows, "language", ty.BradleyTerry())
    assert list(boards) == ["English"]
    assert boards["English"].n_battles == len(ROWS)


def test_filters_count_what_they_leave_out():
    rows = (
        [{**row, "dimension": "facts"} for row in ROWS]
        + [{**row, "dimension": "style"} for row in arena(3, n=40)]
        + [{**row, "dimension": "facts", "source": "llm-judge"} for row in arena(4, n=30)]
        + battle("a=b", 7, inconsistent=True, dimension="facts")
    )
    board = ty.rate(rows, source="human", dimension="facts", inconsistent="drop")
    assert board.left_out == {
        "source is not human": 30,
        "dimension is not facts": 40,
        "inconsistent judgment": 7,
    }
    assert board.n_battles == len(ROWS)
    kept = ty.rate(rows, source="human", dimension="facts")
    assert kept.n_battles == len(ROWS) + 7
    with pytest.raises(NoBattles, match="dimension is not calibration"):
        ty.rate(rows, dimension="calibration")


def test_both_bad_is_separate_a_tie_or_dropped():
    rows = ROWS + battle("a!b", 6)
    separate, half, drop = (ty.rate(rows, both_bad=choice) for choice in ("separate", "half", "drop"))
    alone = ty.rate(ROWS)
    assert separate.ratings == pytest.approx(alone.ratings)
    assert drop.ratings == pytest.approx(alone.ratings)
    assert half.ratings == pytest.approx(ty.rate(ROWS + battle("a=b", 6)).ratings)
    assert (separate["a"].both_bad, half["a"].both_bad, drop["a"].both_bad) == (6, 0, 0)
    assert half["a"].ties == alone["a"].ties + 6
    assert drop.left_out == {"both bad": 6}
    assert separate.n_battles == alone.n_battles + 6


def test_who_is_evaluated_and_who_is_human():
    people = arena(5, n=60, models="abc")
    judged = [
        {**row, "source": "llm-judge"} for row in battle("z>a", 3) + battle("z<b", 3) + battle("z>c") + battle("c>z")
    ]
    sources = {entry.model: entry.source for entry in ty.rate(people + judged, ties="half")}
    assert sources == {"a": "human", "b": "human", "c": "human", "z": "evaluated"}
    named = {entry.model: entry.source for entry in ty.rate(people + judged, ties="half", evaluated="a")}
    assert named == {"a": "evaluated", "b": "human", "c": "human", "z": "human"}
    only_judged = ty.rate([{**row, "source": "llm-judge"} for row in people])
    assert {entry.source for entry in only_judged} == {"evaluated"}
    guessed = ty.rate([{"model_a": "x", "model_b": "y", "pref": n % 2} for n in range(8)])
    assert {entry.source for entry in guessed} == {"human"}
    said = ty.rate([{"model_a": "x", "model_b": "y", "pref": n % 2} for n in range(8)], default_source="llm-judge")
    assert {entry.source for entry in said} == {"evaluated"}
    assert {entry.source for entry in ty.rate(people)} == {"human"}


def test_each_source_ties_as_often_as_it_ties():
    # People tie in 1 of 10 battles and the judge in 1 of 2: two tie parameters, printed by name.
    people = arena(6, n=400, ties=0.1)
    judged = [{**row, "source": "llm-judge"} for row in arena(7, n=400, ties=0.5)]
    board = ty.rate(people + judged)
    nu = board.details.tie_parameters
    assert set(nu) == {"llm-judge", "human"}
    assert nu["llm-judge"] > 3 * nu["human"]
    assert set(ty.rate(people).details.tie_parameters) == {"all"}


def test_soft_outcomes_make_ties_half_wins_and_say_so():
    rows = [{**row, "score_a": 0.8} if row["winner"] == "model_a" else row for row in ROWS]
    board = ty.rate(rows)
    assert board.settings.tie_model == "half"
    assert any("soft outcomes" in remark for remark in board.remarks)
    assert_same_board(board, ty.rate([swapped(row) for row in rows]))


def test_controls_report_points_with_intervals_and_the_ratings_without_them():
    rng = np.random.default_rng(0)
    rows = [{**row, "len_a": float(rng.integers(10, 99)), "len_b": float(rng.integers(10, 99))} for row in ROWS]
    board = ty.rate(rows, control=["len"])
    for row in board.details.coefficients.values():
        assert row.ci_low < row.points < row.ci_high
    without = ty.rate(rows, ties="half", slot=True)
    for entry in board:
        assert entry.extra["rating_without_control"] == pytest.approx(without[entry.model].rating, abs=1e-6)
    bare = ty.rate(rows, control=["len"], ci="none")
    assert bare.details.coefficients["len"].ci_low is None


def test_a_coefficient_by_prompt_has_the_degrees_of_freedom_of_all_prompts():
    table = ty.read_battles(ROWS)
    by_prompt, by_row = ty.rate(table, slot=True), ty.rate(table, slot=True, cluster="none")
    prompts = np.unique(table.text_column("question_id").codes, return_counts=True)[1]
    worth = prompts.sum() ** 2 / (prompts**2).sum()
    for board, degrees in ((by_prompt, worth - 1.0), (by_row, math.inf)):
        slot = board.details.coefficients["first slot"]
        estimator = ty.BradleyTerry(slot=True, cluster="auto" if board is by_prompt else "none")
        error = POINTS_PER_LOGIT * math.sqrt(estimator.solve(table).covariance.variance(5))
        cut = float(t_quantile(0.95, np.array(degrees)))
        assert slot.ci_high - slot.points == pytest.approx(cut * error)
    assert by_prompt.details.n_clusters == 25


def test_the_arrays_of_a_board_are_in_the_order_of_its_models():
    board = ty.rate(ROWS, ci="bootstrap", rounds=60, seed=1)
    names = board.arrays["models"].tolist()
    rounds = board.arrays["bootstrap_ratings"]
    assert rounds.shape == (60, 5)
    for at, name in enumerate(names):
        entry = board[name]
        assert entry.extra["bootstrap_mean"] == pytest.approx(rounds[:, at].mean())
        assert np.quantile(rounds[:, at], [0.025, 0.975]) == pytest.approx([entry.ci_low, entry.ci_high], abs=1e-9)
        assert abs(entry.rating - entry.extra["bootstrap_mean"]) < 30
    assert board.settings.n_bootstraps == 60


def test_robustness_says_how_many_battles_swap_neighbours():
    board = ty.rate(battle("a>b", 3) + battle("b>a"), ties="half", robustness=True)
    # 3 : 1 is level when two wins are gone; nobody stands below b.
    assert board["a"].extra["battles_to_swap_with_next"] == 2
    assert board["b"].extra["battles_to_swap_with_next"] is None


def test_the_scale_is_400_points_for_odds_of_ten():
    board = ty.rate(battle("a>b", 10) + battle("b>a"), anchor=("b", 1000))
    assert board["a"].rating == pytest.approx(1400, abs=1e-6)
    assert board.settings.scale == pytest.approx(400 / math.log(10))


def test_a_board_that_is_watched_has_wider_ranges_of_places_and_the_same_ratings():
    rows = arena(3, n=2000, prompts=60)
    once, watched = ty.rate(rows), ty.rate(rows, anytime=True)
    wider = 0
    for entry in once:
        other = watched[entry.model]
        assert (other.rating, other.ci_low, other.ci_high) == (entry.rating, entry.ci_low, entry.ci_high)
        assert other.rank_low <= entry.rank_low <= entry.rank_high <= other.rank_high
        wider += other.rank_high - other.rank_low > entry.rank_high - entry.rank_low
    assert wider
    assert watched["a"].rank_high < watched["e"].rank_low
    assert (once.settings.interval.anytime, watched.settings.interval.anytime) == (False, True)
    assert "rank: 95 % range of places, valid at any time you look" in str(watched)
    assert "at any time" not in str(once)
    assert "assumes that results did not decide who met whom" in str(once)


def test_a_model_with_too_few_battles_is_told_apart_from_nobody_while_a_board_is_watched():
    certain = Covariance((1e-6 * np.eye(3),), 1e-6 * np.eye(3), np.full(3, 99.0), np.zeros(3, dtype=bool))
    needed = apart_at_any_time(certain, 0.95, np.array([19.0, 20.0, 500.0]))
    assert np.isinf(needed[0]).all()
    assert needed[1, 2] < 0.02
    rows = arena(3, n=3000, ties=0.0)
    early = ty.rate(rows + battle("a>z", 18) + battle("z>a"), anytime=True)["z"]
    assert (early.rank_low, early.rank_high) == (1, 6)
    later = ty.rate(rows + battle("a>z", 82) + battle("z>a", 8), anytime=True)["z"]
    assert later.rank_low > 1


@pytest.mark.parametrize(
    ("options", "idle"),
    [
        *(
            ({"ci": "none", name: value}, name)
            for name, value in (("level", 0.9), ("anytime", True), ("cluster", "none"))
        ),
        ({"ci": "none", "level": 0.9}, "level"),
        ({"ci": "none", "anytime": True}, "anytime"),
        ({"ci": "none", "cluster": "none"}, "cluster"),
        ({"ci": "none", "misfit": True}, "misfit"),
        ({"ci": "none", "rounds": 10}, "rounds"),
        ({"rounds": 10}, "rounds"),
        ({"ci": "sandwich", "rounds": 10}, "rounds"),
        ({"method": "elo-perm", "ci": "none", "n_perms": 5, "level": 0.9}, "level"),
        ({"method": "elo-perm", "ci": "none", "n_perms": 5, "cluster": "none"}, "cluster"),
    ],
)
def test_an_option_that_changes_nothing_is_an_error(options, idle):
    with pytest.raises(OptionError, match=f"`{idle}` has no effect"):
        ty.rate(ROWS, **options)


def test_options_that_change_something_are_none():
    drawn = ty.rate(ROWS, ci="bootstrap", rounds=10, level=0.9, cluster="none", anytime=True).settings
    assert (drawn.n_bootstraps, drawn.interval.level, drawn.interval.anytime) == (10, 0.9, True)
    assert not ty.rate(ROWS, ci="none", misfit=False).details.misfit


@pytest.mark.parametrize("options", [{}, {"by": "language"}, {"method": "elo"}])
def test_a_file_is_expanded_sampled_and_recognised_once(
    options: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []

    def counted(name: str, real: Callable[..., object]) -> Callable[..., object]:
        def called(*given: object) -> object:
            calls.append(name)
            return real(*given)

        return called

    for name in ("find_parts", "tool_of", "_file_header", "recognise"):
        monkeypatch.setattr(reading, name, counted(name, getattr(reading, name)))
    path = tmp_path / "battles.csv"
    path.write_text("model_a,model_b,winner,source,language\n" + "a,b,model_a,human,x\nb,a,model_a,human,x\n" * 4)
    ty.rate(path, **options)
    assert calls == ["find_parts", "tool_of", "_file_header", "recognise"]


@pytest.mark.parametrize(
    "options",
    [
        *({"method": method} for method in ("elo", "elo-perm", "glicko2")),
        *({"control": ["length"]}, {"shrink": True}, {"by": "language", "pool": True}),
        *({"people": ROWS}, {"tie_band": 0.1}, {"format": "inspect"}),
    ],
)
def test_what_looks_at_every_battle_is_refused_by_an_engine_that_counts_them(options: dict[str, Any]) -> None:
    with pytest.raises(OptionError) as refused:
        ty.rate("nowhere.jsonl", engine="spark", **options)
    assert OptionValue("engine", "duckdb") in refused.value.args
