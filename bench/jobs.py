"""The jobs a worker can run. Each prepares its data, untimed, and returns the `Task` to time."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np

from bench import data, peers
from bench.measure import Task

if TYPE_CHECKING:
    from collections.abc import Callable

JOBS: dict[str, Callable[..., Task]] = {}
K_SWEEP = (1.0, 4.0, 8.0, 16.0, 32.0)


def job(function: Callable[..., Task]) -> Callable[..., Task]:
    """List a job under its function's name."""
    JOBS[function.__name__] = function
    return function


def frame_of(battles: data.Battles) -> Any:
    """The battles as users typically have them: a pandas frame of strings."""
    import pandas

    return pandas.DataFrame(
        {
            "model_a": battles.names[battles.a],
            "model_b": battles.names[battles.b],
            "winner": np.array(["model_a", "model_b", "tie"], dtype=object)[battles.result],
        }
    )


def _as(library: str, frame: Any) -> Any:
    """A pandas frame as it is, or as a table of another library."""
    if library == "polars":
        import polars

        return polars.from_pandas(frame)
    if library == "arrow":
        import pyarrow

        return pyarrow.Table.from_pandas(frame)
    return frame


def table_of(battles: data.Battles, columns: dict[str, Any] | None = None) -> Any:
    """The battles as codes; names in a `BattleTable` are sorted."""
    from tiltyard.battles.table import BattleTable

    order = np.argsort(battles.names)
    code = np.empty(len(order), dtype=np.int32)
    code[order] = np.arange(len(order), dtype=np.int32)
    human = np.ones(len(battles.a), dtype=np.int8)
    return BattleTable(
        models=tuple(battles.names[order].tolist()),
        model_a=code[battles.a],
        model_b=code[battles.b],
        outcome=battles.result.astype(np.int8),
        source=human,
        weight=np.ones(len(battles.a)),
        columns=columns or {},
    )


def board_result(board: Any) -> dict[str, Any]:
    """The part of a board needed for checks: ratings and half-widths by model."""
    half = {e.model: 0.5 * (e.ci_high - e.ci_low) for e in board if e.ci_low is not None and e.ci_high is not None}
    return {"ratings": board.ratings, "half_widths": half, "details": dict(board.details)}


def truth_result(battles: data.Battles) -> dict[str, float]:
    """The true ratings by model."""
    return peers.centred(battles.names, battles.truth)


# --- Bradley–Terry ---------------------------------------------------------------------------------------------------


@job
def bt_ours(n: int, models: int, source: str, **options: Any) -> Task:
    """Our board from a frame or from codes."""
    import tiltyard

    battles = data.battles(n, models)
    given = table_of(battles) if source == "codes" else _as(source, frame_of(battles))
    how = {} if source == "codes" else {"default_source": "human"}
    truth = truth_result(battles)
    return Task(
        lambda: tiltyard.rate(given, **how, **options),
        lambda board: board_result(board) | {"truth": truth},
        repeats=5,
    )


@job
def bt_arena_rank(n: int, models: int, intervals: bool) -> Task:
    """arena-rank from a frame; its compiled code is warm, as only the fastest run counts."""
    frame = frame_of(data.battles(n, models))
    return Task(
        lambda: peers.arena_rank_fit(frame, intervals),
        lambda fitted: {"ratings": peers.centred(fitted[0], fitted[1])},
    )


@job
def bt_fastchat(n: int, models: int) -> Task:
    """FastChat's fit from a frame."""
    frame = frame_of(data.battles(n, models))

    def run() -> tuple[Any, Any]:
        method = peers.FastChat(frame)
        return method.names, method.fit()

    return Task(run, lambda fitted: {"ratings": peers.centred(*fitted)})


@job
def bt_evalica(n: int, models: int) -> Task:
    """evalica's fit from a frame."""
    frame = frame_of(data.battles(n, models))
    return Task(lambda: peers.evalica_fit(frame), lambda ratings: {"ratings": ratings})


@job
def bt_choix(n: int, models: int) -> Task:
    """choix from codes."""
    battles = data.battles(n, models)
    return Task(
        lambda: peers.choix_fit(battles.a, battles.b, battles.result, models),
        lambda fitted: {"ratings": peers.centred(battles.names, fitted)},
    )


@job
def bootstrap_fastchat(n: int, models: int, rounds: int, rounds_run: int) -> Task:
    """FastChat's fit and bootstrap rounds."""
    frame = frame_of(data.battles(n, models))
    method = peers.FastChat(frame)

    def round_of(number: int) -> Any:
        return method.fit(method.drawn(1, number)[0])

    return Task(lambda: peers.FastChat(frame).fit(), lambda _: None, round_of, rounds_run, rounds)


@job
def bootstrap_arena_rank(n: int, models: int, rounds: int, rounds_run: int) -> Task:
    """arena-rank's fit and bootstrap rounds."""
    frame = frame_of(data.battles(n, models))
    one = peers.arena_rank_rounds(frame)
    return Task(lambda: peers.arena_rank_fit(frame, intervals=False), lambda _: None, one, rounds_run, rounds)


@job
def bootstrap_evalica(n: int, models: int, rounds: int, rounds_run: int) -> Task:
    """evalica's fit, and rounds as its bootstrap makes them: rows drawn with replacement, fitted again."""
    frame = frame_of(data.battles(n, models))
    xs, ys = frame["model_a"].to_numpy(dtype=object), frame["model_b"].to_numpy(dtype=object)
    winners = np.array(peers.evalica_winners(frame), dtype=np.uint8)

    def round_of(number: int) -> Any:
        import evalica

        drawn = np.random.default_rng(number).integers(n, size=n)
        weights = np.ones(n)[drawn]
        return evalica.bradley_terry(xs[drawn], ys[drawn], list(winners[drawn]), weights=weights)

    return Task(lambda: peers.evalica_fit(frame), lambda _: None, round_of, rounds_run, rounds)


@job
def control_ours(n: int, models: int, source: str, **options: Any) -> Task:
    """Our board with style controls; the style differences are computed inside."""
    import tiltyard

    battles, columns = data.styled(n, models)
    given = frame_of(battles).assign(**columns) if source == "frame" else table_of(battles, columns)
    how = {"default_source": "human"} if source == "frame" else {}
    truth = truth_result(battles)
    return Task(
        lambda: tiltyard.rate(given, control=data.CONTROLS, slot=False, **how, **options),
        lambda board: board_result(board) | {"truth": truth, "coefficients": _points(board)},
    )


def _points(board: Any) -> list[float]:
    return [board.details["coefficients"][name]["points"] for name in data.CONTROLS]


@job
def control_arena_rank(n: int, models: int) -> Task:
    """arena-rank with the style differences ready-made."""
    frame, names = _frame_with_differences(n, models)
    return Task(lambda: peers.arena_rank_style(frame, names), _style_result, repeats=2)


@job
def control_fastchat(n: int, models: int) -> Task:
    """FastChat's style control with the style differences ready-made."""
    frame, names = _frame_with_differences(n, models)
    features = frame[names].to_numpy()

    def run() -> tuple[Any, Any, Any]:
        fitted, point = peers.fastchat_style(frame, features)
        return fitted, point[: len(fitted)], point[len(fitted) :]

    return Task(run, _style_result, repeats=2)


def _frame_with_differences(n: int, models: int) -> tuple[Any, list[str]]:
    battles, columns = data.styled(n, models)
    differences = {name: data.style_difference(columns[f"{name}_a"], columns[f"{name}_b"]) for name in data.CONTROLS}
    return frame_of(battles).assign(**differences), list(data.CONTROLS)


def _style_result(fitted: tuple[Any, Any, Any]) -> dict[str, Any]:
    names, strengths, coefficients = fitted
    points = (peers.ELO_PER_LOGIT * np.asarray(coefficients)).tolist()
    return {"ratings": peers.centred(names, strengths), "coefficients": points}


# --- Many models -----------------------------------------------------------------------------------------------------


@job
def many_ours(models: int, pairs: int, ties: str) -> Task:
    """Our fit of ready-made pair counts."""
    from tiltyard.ratings.bradley_terry import fit_bounded
    from tiltyard.ratings.comparisons import PairCells
    from tiltyard.ratings.tie_models import TIE_MODELS

    made = data.pair_counts(models, pairs)
    none = np.zeros(pairs, dtype=np.int64)
    cells = PairCells(models, made["first"], made["second"], made["counts"], none, 1, np.empty((pairs, 0)))
    return Task(
        lambda: fit_bounded(cells, TIE_MODELS[ties]),
        lambda fitted: {"strengths": fitted[0].parameters.strength.tolist(), "truth": made["truth"].tolist()},
    )


@job
def many_ours_board(models: int, pairs: int, ci: str) -> Task:
    """Our whole board from codes, with or without intervals and ranks."""
    import tiltyard

    made = data.pair_counts(models, pairs)
    pair, result = np.divmod(np.repeat(np.arange(3 * pairs), made["counts"].ravel().astype(np.int64)), 3)
    first, second = made["first"][pair].astype(np.int32), made["second"][pair].astype(np.int32)
    battles = data.Battles(data.names_of(models), made["truth"], first, second, result.astype(np.int8), result)
    table = table_of(battles)
    return Task(lambda: tiltyard.rate(table, ci=ci), lambda board: {"models": len(board)}, repeats=1)


@job
def many_fastchat(models: int, pairs: int) -> Task:
    """FastChat's fit of ready-made distinct rows."""
    made = data.pair_counts(models, pairs)
    cell, kind = np.nonzero(made["counts"])
    rows = np.column_stack([made["first"][cell], made["second"][cell]])
    score, weight = np.array([1.0, 0.0, 0.5])[kind], made["counts"][cell, kind]
    return Task(
        lambda: peers.fit_by_lbfgs(rows, score, weight, models),
        lambda fitted: {"strengths": (fitted - fitted.mean()).tolist()},
        repeats=1,
    )


# --- Elo and Glicko-2 ------------------------------------------------------------------------------------------------


def _matches(n: int, models: int) -> tuple[np.ndarray, np.ndarray]:
    battles = data.decisive(n, models)
    won = battles.result == 0
    return np.where(won, battles.a, battles.b), np.where(won, battles.b, battles.a)


@job
def elo_ours(n: int, models: int, perms: int, repeats: int) -> Task:
    """Our permutation Elo at every K: the means at each K."""
    from tiltyard.ratings.elo import permutation_elo

    winners, losers = _matches(n, models)
    won = np.ones(n, dtype=bool)
    return Task(
        lambda: permutation_elo(
            winners, losers, won, n_models=models, k_sweep=K_SWEEP, n_perms=perms, initial_rating=0.0
        ),
        lambda report: {"means": [trace.mean.tolist() for trace in report.sweep]},
        repeats=repeats,
    )


@job
def elo_loop(n: int, models: int, perms: int, perms_run: int) -> Task:
    """The plain loop: a shuffle, then every K."""
    winners, losers = (side.tolist() for side in _matches(n, models))
    rng = np.random.default_rng(0)
    played: list[list[list[float]]] = []

    def shuffle(_: int) -> None:
        order = rng.permutation(n).tolist()
        played.append([peers.plain_elo(winners, losers, order, k, models) for k in K_SWEEP])

    return Task(lambda: None, lambda _: {"means": np.mean(played, axis=0).tolist()}, shuffle, perms_run, perms)


@job
def elo_evalica(n: int, models: int, perms: int, perms_run: int) -> Task:
    """evalica's Rust function alone, on lists prepared outside the timing."""
    from evalica import _brzo

    winners, losers = _matches(n, models)
    rng = np.random.default_rng(0)
    orders = [rng.permutation(n) for _ in range(perms_run + 1)]
    lists = [(winners[order].tolist(), losers[order].tolist()) for order in orders]
    first_won, ones = [1] * n, [1.0] * n
    played: list[list[Any]] = []

    def shuffle(number: int) -> None:
        xs, ys = lists[number]
        fixed = {"initial": 0.0, "base": 10.0, "scale": 400.0, "win_weight": 1.0, "tie_weight": 0.5}
        played.append([_brzo.elo(xs, ys, first_won, ones, total=models, k=k, **fixed) for k in K_SWEEP])

    return Task(lambda: None, lambda _: {"means": np.mean(played, axis=0).tolist()}, shuffle, perms_run, perms)


@job
def elo_fastchat(n: int, models: int, perms: int) -> Task:
    """FastChat's array operations per battle, one lane per shuffle: measured at one K, times the number of Ks."""
    winners, losers = _matches(n, models)
    rng = np.random.default_rng(0)
    orders = np.stack([rng.permutation(n).astype(np.int32) for _ in range(perms)])
    part = max(1, n // 10)

    def stretch(number: int) -> Any:
        columns = orders[:, number * part : (number + 1) * part]
        return peers.fastchat_elo_lanes(winners, losers, columns, 16.0, models)

    return Task(lambda: None, lambda _: None, stretch, 2, 10 * len(K_SWEEP))


@job
def glicko_ours(n: int, models: int, repeats: int) -> Task:
    """Our Glicko-2, battle by battle."""
    from tiltyard.ratings.glicko2 import rate_battles

    battles = data.battles(n, models)
    score = np.array([1.0, 0.0, 0.5])[battles.result]
    return Task(
        lambda: rate_battles(battles.a, battles.b, score, start=models),
        lambda state: {"ratings": state.rating.tolist(), "truth": truth_result(battles)},
        repeats=repeats,
    )


@job
def glicko_paper() -> Task:
    """Glickman's worked example, whose answer is printed in his paper."""
    from tiltyard.ratings.glicko2 import Glicko2Settings, Glicko2State, rate_periods

    start = Glicko2State(
        np.array([1500.0, 1400.0, 1550.0, 1700.0]), np.array([200.0, 30.0, 100.0, 300.0]), np.full(4, 0.06)
    )
    settings = Glicko2Settings(volatility=0.06)
    return Task(
        lambda: rate_periods([0, 0, 0], [1, 2, 3], [1.0, 0.0, 0.0], [0, 0, 0], start=start, settings=settings),
        lambda state: {"first": [float(c[0]) for c in (state.rating, state.deviation, state.volatility)]},
    )


@job
def glicko_package(n: int, models: int, n_run: int) -> Task:
    """The `glicko2` package battle by battle, both players updated from their states before it."""
    from glicko2 import Player

    battles = data.battles(n, models)
    a, b = battles.a.tolist(), battles.b.tolist()
    score = np.array([1.0, 0.0, 0.5])[battles.result].tolist()
    players = [Player(vol=0.005) for _ in range(models)]
    stretch = max(1, n_run // 10)

    def votes(number: int) -> None:
        for t in itertools.islice(range(n), number * stretch, (number + 1) * stretch):
            one, two = players[a[t]], players[b[t]]
            before = one.rating, one.rd
            one.update_player([two.rating], [two.rd], [score[t]])
            two.update_player([before[0]], [before[1]], [1.0 - score[t]])

    return Task(lambda: None, lambda _: {"ratings": [p.rating for p in players]}, votes, 9, n // stretch)
