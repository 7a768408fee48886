"""Rows of what runs in memory: fits, bootstraps, many models, style control, Elo, Glicko-2; beside the peers.

Each function with a `Task` prepares its data, untimed, in a process of its own; modules that hold memory are imported
there.
"""

from __future__ import annotations

import itertools
import tempfile
from dataclasses import replace
from typing import Any

import numpy as np

from bench import data, peers
from bench.measure import Row, Task, in_child, largest_difference, largest_gap, mean_square_z, rated

NEVER, AUTO, ALWAYS = ({"TILTYARD_COMPILE": when} for when in ("never", "auto", "always"))
K_SWEEP = (1.0, 4.0, 8.0, 16.0, 32.0)


# --- Bradley–Terry ---------------------------------------------------------------------------------------------------


def fit(row: Row) -> None:
    """Point estimates and closed-form intervals."""
    size = {"n": row.size(1_000_000, 20_000), "models": row.size(200, 30)}
    row.title = f"Bradley–Terry, {size['n']:,} battles, {size['models']} models"
    full, codes = "fit + 95 % intervals, pandas strings", "fit + 95 % intervals, integer codes"
    point, bare = "point fit, pandas strings", "point fit, integer codes"
    ours = row.ours(full, "tiltyard", bt_ours, **size, source="frame")
    theirs = row.peer(full, "arena-rank", bt_peer, **size, peer="arena-rank", intervals=True)
    for library in ("polars", "arrow"):
        row.ours(f"fit + 95 % intervals, {library} strings", "tiltyard", bt_ours, **size, source=library)
    row.ours(codes, "tiltyard", bt_ours, **size, source="codes")
    alone = size | {"ci": "none", "ties": "half"}
    half = row.ours(point, "tiltyard, ties as half a win", bt_ours, **alone, source="frame")
    row.ours(point, "tiltyard, ties by Davidson", bt_ours, **alone | {"ties": "davidson"}, source="frame")
    others = ("arena-rank", "FastChat's method", "evalica")
    found = {who: row.peer(point, who, bt_peer, **size, peer=who) for who in others}
    row.ours(bare, "tiltyard", bt_ours, **alone, source="codes")
    found["choix"] = row.peer(bare, "choix (numbers only: no ties, names, ranks)", bt_choix, **size)
    if ours:
        z = mean_square_z(ours["ratings"], ours["half_widths"], ours["truth"])
        row.check(f"errors against the truth are as large as our intervals say: mean z² {z:.2f}", 0.6 < z < 1.5)
    if half:
        _same_ratings(row, half, found)
    if ours and theirs:
        row.ahead_goal(full, 12.0)
    row.limit_goals(codes, 0.15)
    for line in row.lines:
        if line.ours and line.cost and line.job.startswith("fit") and "strings" in line.job:
            row.goal(f"{line.job}: goal under 0.5 s → {line.cost.cpu_seconds:.2f} s", line.cost.cpu_seconds < 0.5)
    row.ahead_goal(point)
    row.ahead_goal(bare)


def _same_ratings(row: Row, ours: dict[str, Any], found: dict[str, Any], tolerance: float = 0.5) -> None:
    for who, theirs in found.items():
        if theirs is not None:
            gap = largest_gap(ours["ratings"], theirs["ratings"])
            unsettled = who == "evalica"  # it stops after 100 steps, converged or not
            note = " (it stops before it has converged)" if unsettled and gap > tolerance else ""
            row.check(f"{who} gives the same ratings: largest gap {gap:.3f} points{note}", gap < tolerance or unsettled)


def bootstrap(row: Row) -> None:
    """Bootstrap intervals."""
    size = {"n": row.size(1_000_000, 20_000), "models": row.size(200, 30)}
    row.title = f"Bradley–Terry with bootstrap, {size['n']:,} battles, {size['models']} models, from pandas"
    closed = in_child(bt_ours, **size, source="codes").result
    others = {"FastChat's method": row.size(5, 2), "evalica (percentile)": row.size(2, 1), "arena-rank": row.size(2, 1)}
    answers = {
        who: in_child(bootstrap_peer, **size, peer=who.partition(" (")[0], rounds_run=number)
        for who, number in others.items()
    }
    for rounds in (100, 1000):
        job, options = f"{rounds:,} rounds", size | {"source": "frame", "ci": "bootstrap", "rounds": rounds}
        ours = row.ours(job, "tiltyard", bt_ours, **options)
        row.ours(job, "tiltyard, ties as half a win", bt_ours, **options, ties="half")
        for who, answer in answers.items():
            row.add(job, who, replace(answer, cost=answer.cost and answer.cost.with_rounds(rounds)))
        if ours and closed:
            mean = np.mean([ours["half_widths"][name] / closed["half_widths"][name] for name in closed["half_widths"]])
            row.check(f"{job}: intervals as wide as the closed form: mean ratio {mean:.3f}", abs(mean - 1.0) < 0.06)
        row.ahead_goal(job, 40.0 if rounds == 100 else 80.0)


def control(row: Row) -> None:
    """Style control."""
    size = {"n": row.size(1_000_000, 20_000), "models": row.size(200, 30)}
    row.title = f"style control, {size['n']:,} battles × 4 features, {size['models']} models"
    job = "fit + intervals, 4 controls, pandas"
    ours = row.ours(job, "tiltyard", bt_ours, **size, source="frame", styled=True)
    found = {
        "arena-rank": row.peer(job, "arena-rank", control_peer, **size, peer="arena_rank"),
        "FastChat's method": row.peer(job, "FastChat's method (no intervals)", control_peer, **size, peer="fastchat"),
    }
    row.ours("fit + intervals, 4 controls, codes", "tiltyard", bt_ours, **size, source="codes", styled=True)
    if ours:
        _same_ratings(row, ours, found, 1.0)
        for who, theirs in found.items():
            if theirs:
                gap = largest_difference(ours["coefficients"], theirs["coefficients"])
                row.check(f"{who} gives the same coefficients: largest gap {gap:.3f} points", gap < 1.0)
    row.ahead_goal(job, 3.0, "FastChat")


def frame_of(battles: data.Battles) -> Any:
    """The battles as users typically have them: a pandas frame of strings."""
    import pandas

    names, words = battles.names, np.array(["model_a", "model_b", "tie"], dtype=object)
    return pandas.DataFrame({"model_a": names[battles.a], "model_b": names[battles.b], "winner": words[battles.result]})


def table_of(battles: data.Battles, columns: dict[str, Any] | None = None) -> Any:
    """The battles as codes; names in a `BattleTable` are sorted."""
    from tiltyard.data.battles import BattleTable

    order = np.argsort(battles.names)
    code = np.empty(len(order), dtype=np.int32)
    code[order] = np.arange(len(order), dtype=np.int32)
    return BattleTable(
        models=tuple(battles.names[order].tolist()),
        model_a=code[battles.a],
        model_b=code[battles.b],
        outcome=battles.result.astype(np.int8),
        source=np.ones(len(battles.a), dtype=np.int8),
        weight=np.ones(len(battles.a)),
        columns=columns or {},
    )


def bt_ours(n: int, models: int, source: str, styled: bool = False, **options: Any) -> Task:
    """With style control, the differences of style are computed inside."""
    import tiltyard

    battles, columns = data.styled(n, models) if styled else (data.battles(n, models), {})
    if source == "codes":
        given = table_of(battles, columns)
    else:
        given, options["default_source"] = frame_of(battles).assign(**columns), "human"
    if source == "polars":
        import polars

        given = polars.from_pandas(given)
    elif source == "arrow":
        import pyarrow

        given = pyarrow.Table.from_pandas(given)
    if styled:
        options |= {"control": data.CONTROLS, "slot": False}

    def found(board: Any) -> dict[str, Any]:
        half = {e.model: 0.5 * (e.ci_high - e.ci_low) for e in board if e.ci_low is not None and e.ci_high is not None}
        effects = board.details.coefficients if styled else {}
        return {
            "ratings": board.ratings,
            "half_widths": half,
            "truth": peers.centred(battles.names, battles.truth),
            "coefficients": [effects[name].points for name in data.CONTROLS if styled],
        }

    return Task(lambda: tiltyard.rate(given, **options), found, repeats=3 if styled else 5)


def bt_peer(n: int, models: int, peer: str, intervals: bool = False) -> Task:
    """Compiled code is warm, as only the fastest run counts."""
    frame = frame_of(data.battles(n, models))
    return Task(lambda: peers.fitted(peer, frame, intervals=intervals), lambda ratings: {"ratings": ratings})


def bt_choix(n: int, models: int) -> Task:
    battles = data.battles(n, models)
    return Task(
        lambda: peers.choix_fit(battles.a, battles.b, battles.result, models),
        lambda fitted: {"ratings": peers.centred(battles.names, fitted)},
    )


def bootstrap_peer(n: int, models: int, peer: str, rounds_run: int) -> Task:
    frame = frame_of(data.battles(n, models))
    return Task(lambda: peers.fitted(peer, frame), lambda _: None, peers.rounds(peer, frame), rounds_run)


def control_peer(n: int, models: int, peer: str) -> Task:
    """With the style differences ready-made."""
    battles, columns = data.styled(n, models)
    differences = {name: data.style_difference(columns[f"{name}_a"], columns[f"{name}_b"]) for name in data.CONTROLS}
    frame, fit = frame_of(battles).assign(**differences), getattr(peers, f"{peer}_style")

    def found(fitted: tuple[Any, Any, Any]) -> dict[str, Any]:
        names, strengths, coefficients = fitted
        points = (peers.ELO_PER_LOGIT * np.asarray(coefficients)).tolist()
        return {"ratings": peers.centred(names, strengths), "coefficients": points}

    return Task(lambda: fit(frame, list(data.CONTROLS)), found, repeats=2)


# --- Many models -----------------------------------------------------------------------------------------------------


def many(row: Row) -> None:
    """Very many models."""
    size = {"models": row.size(5000, 1000), "pairs": row.size(1_700_000, 60_000)}
    row.title = f"{size['models']:,} models, {size['pairs']:,} pairs"
    job, whole = "fit of pair counts", "board from codes with intervals"
    half = row.ours(job, "tiltyard, ties as half a win", many_ours, **size, ties="half")
    ours = row.ours(job, "tiltyard, ties by Davidson", many_ours, **size, ties="davidson")
    theirs = row.peer(job, "FastChat's method", many_fastchat, **size)
    for what, ci in (("board from codes, no intervals", "none"), (whole, "sandwich")):
        row.ours(what, "tiltyard", many_ours_board, **size, ci=ci)
    if ours:
        same = np.corrcoef(ours["strengths"], ours["truth"])[0, 1]
        row.check(f"correlation with the truth {same:.4f}", same > 0.9)
    if half and theirs:
        gap = largest_difference(half["strengths"], theirs["strengths"])
        row.check(f"FastChat's method agrees: largest gap {gap:.4f} logits", gap < 0.05)
    n, sparse = row.size(1_000_000, 50_000), row.size(34_000, 2_500)
    field = f"{n:,} battles of {sparse:,} models by prompt, Parquet, whole process"
    path = data.battle_file(row.data, "parquet", n, sparse)
    row.add(field, "tiltyard", rated(path, "--only-connected", repeats=1), ours=True)
    row.limit_goals(job, 1.0)
    row.limit_goals(whole, 8.0, 800.0)
    row.limit_goals(field, 90.0, 2_000.0)
    row.ahead_goal(job)


def many_ours(models: int, pairs: int, ties: str) -> Task:
    """From ready-made pair counts."""
    from tiltyard.stats import TIE_MODELS, PairCells, fit_bounded

    made = data.pair_counts(models, pairs)
    none = np.zeros(pairs, dtype=np.int64)
    cells = PairCells(models, made["first"], made["second"], made["counts"], none, 1, np.empty((pairs, 0)))
    return Task(
        lambda: fit_bounded(cells, TIE_MODELS[ties]),
        lambda fitted: {"strengths": fitted[0].parameters.strength.tolist(), "truth": made["truth"].tolist()},
    )


def many_ours_board(models: int, pairs: int, ci: str) -> Task:
    """The whole board from codes, with or without intervals and ranks."""
    import tiltyard

    made = data.pair_counts(models, pairs)
    pair, result = np.divmod(np.repeat(np.arange(3 * pairs), made["counts"].ravel().astype(np.int64)), 3)
    first, second = made["first"][pair].astype(np.int32), made["second"][pair].astype(np.int32)
    table = table_of(data.Battles(data.names_of(models), made["truth"], first, second, result, result))
    return Task(lambda: tiltyard.rate(table, ci=ci), lambda board: {"models": len(board)}, repeats=1)


def many_fastchat(models: int, pairs: int) -> Task:
    """From ready-made distinct rows."""
    made = data.pair_counts(models, pairs)
    cell, kind = np.nonzero(made["counts"])
    rows = np.column_stack([made["first"][cell], made["second"][cell]])
    score, weight = np.array([1.0, 0.0, 0.5])[kind], made["counts"][cell, kind]
    return Task(
        lambda: peers.fit_by_lbfgs(rows, score, weight, models),
        lambda fitted: {"strengths": (fitted - fitted.mean()).tolist()},
        repeats=1,
    )


# --- Elo -------------------------------------------------------------------------------------------------------------


def elo(row: Row) -> None:
    """Permutation Elo."""
    size = {"n": row.size(100_000, 5_000), "models": 20, "perms": row.size(500, 100)}
    row.title = f"permutation Elo, {size['perms']} shuffles × {size['n']:,} matches × 5 K, 20 entrants"
    job, fast, bare = "every shuffle at every K", "tiltyard[fast]", "tiltyard without numba"
    cache, quick = _compiled(row)
    in_child(elo_ours, quick, **size | {"perms": row.size(50, 2)}, repeats=1)  # compiles once per machine
    row.ours(job, fast, elo_ours, settings=quick, **size, repeats=2)
    row.ours(job, f"{fast}, first call in a process", elo_ours, settings=quick, **size, repeats=1)
    row.ours(job, bare, elo_ours, settings=NEVER, **size, repeats=1)
    others = {
        "the plain loop": row.peer(job, "plain loop", elo_loop, **size, perms_run=2),
        "evalica": row.peer(job, "evalica's Rust function", elo_evalica, **size, perms_run=2),
    }
    row.peer(job, "FastChat's method", elo_fastchat, **size)
    for who, settings in ((fast, cache | ALWAYS), ("without numba", NEVER)):
        ours = in_child(elo_ours, settings, **size | {"perms": 3}, repeats=1).result
        for other, theirs in others.items():
            if ours and theirs:
                gap = max(map(largest_difference, ours["means"], theirs["means"]))
                row.check(f"{who} equals {other} on the same shuffles: largest gap {gap:.1e} points", gap < 1e-6)
    row.ahead_goal(job, 12.0, "plain loop", fast)
    row.ahead_goal(job, 4.0, "evalica", fast)
    row.ahead_goal(job, 6.0, "plain loop", bare)
    row.ahead_goal(job)
    n = row.size(1_000_000, 20_000)
    whole = f"{n:,} rows of JSONL with sampling intervals, whole process"
    path = data.battle_file(row.data, "jsonl", n, row.size(200, 30), voters=True)
    row.add(whole, fast, rated(path, "--method", "elo-perm", repeats=1, settings=cache | AUTO), ours=True)
    row.limit_goals(whole, 20.0)


def _compiled(row: Row) -> tuple[dict[str, str], dict[str, str]]:
    """Where compiled code is kept, and with when it is used: always where sizes are too small for it by itself."""
    cache = {"TILTYARD_CACHE_DIR": str(row.folder / "compiled")}
    return cache, cache | (ALWAYS if row.quick else AUTO)


def _matches(n: int, models: int) -> tuple[np.ndarray, np.ndarray]:
    """Winners and losers."""
    battles = data.decisive(n, models)
    won = battles.result == 0
    return np.where(won, battles.a, battles.b), np.where(won, battles.b, battles.a)


def elo_ours(n: int, models: int, perms: int, repeats: int) -> Task:
    from tiltyard.stats.elo import permutation_elo

    winners, losers = _matches(n, models)
    won = np.ones(n, dtype=bool)
    how = {"n_models": models, "k_sweep": K_SWEEP, "n_perms": perms, "initial_rating": 0.0}
    return Task(
        lambda: permutation_elo(winners, losers, won, **how),
        lambda report: {"means": [trace.mean.tolist() for trace in report.sweep]},
        repeats=repeats,
    )


def elo_loop(n: int, models: int, perms: int, perms_run: int) -> Task:
    """The plain loop: a shuffle, then every K."""
    winners, losers = (side.tolist() for side in _matches(n, models))
    rng = np.random.default_rng(0)
    played: list[list[list[float]]] = []

    def shuffle(_: int) -> None:
        order = rng.permutation(n).tolist()
        played.append([peers.plain_elo(winners, losers, order, k, models) for k in K_SWEEP])

    return Task(lambda: None, lambda _: {"means": np.mean(played, axis=0).tolist()}, shuffle, perms_run, perms)


def elo_evalica(n: int, models: int, perms: int, perms_run: int) -> Task:
    """evalica's Rust function alone, on lists prepared outside the timing."""
    from evalica import _brzo

    winners, losers = _matches(n, models)
    rng = np.random.default_rng(0)
    orders = [rng.permutation(n) for _ in range(perms_run + 1)]
    lists = [(winners[order].tolist(), losers[order].tolist()) for order in orders]
    first_won, ones = [1] * n, [1.0] * n
    fixed = {"initial": 0.0, "base": 10.0, "scale": 400.0, "win_weight": 1.0, "tie_weight": 0.5}
    played: list[list[Any]] = []

    def shuffle(number: int) -> None:
        played.append([_brzo.elo(*lists[number], first_won, ones, total=models, k=k, **fixed) for k in K_SWEEP])

    return Task(lambda: None, lambda _: {"means": np.mean(played, axis=0).tolist()}, shuffle, perms_run, perms)


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


# --- Glicko-2 --------------------------------------------------------------------------------------------------------


def glicko(row: Row) -> None:
    """Glicko-2."""
    size = {"n": row.size(1_000_000, 30_000), "models": row.size(200, 30)}
    row.title = f"Glicko-2, vote by vote, {size['n']:,} votes, {size['models']} models"
    job, fast, bare = "all votes", "tiltyard[fast]", "tiltyard without numba"
    _, quick = _compiled(row)
    in_child(glicko_ours, quick, **size, repeats=1)
    ours = row.ours(job, fast, glicko_ours, settings=quick, **size, repeats=5)
    row.ours(job, f"{fast}, first call in a process", glicko_ours, settings=quick, **size, repeats=1)
    plain = row.ours(job, bare, glicko_ours, settings=NEVER, **size, repeats=1)
    row.peer(job, "glicko2", glicko_package, **size, n_run=row.size(50_000, 5_000))
    if ours and plain:
        gap = largest_difference(ours["ratings"], plain["ratings"])
        row.check(f"compiled and plain agree: largest gap {gap:.1e} points", gap < 1e-6)
        same = np.corrcoef(ours["ratings"], ours["truth"])[0, 1]
        row.check(f"correlation with the truth {same:.4f}", same > 0.95)
    paper = in_child(glicko_paper).result
    rating, deviation, volatility = paper or (0.0, 0.0, 0.0)
    near = abs(rating - 1464.06) < 0.01 and abs(deviation - 151.52) < 0.01 and abs(volatility - 0.05999) < 1e-4
    row.check(f"Glickman's example (1464.06, 151.52, 0.05999): {rating:.2f}, {deviation:.2f}, {volatility:.5f}", near)
    row.ahead_goal(job, 50.0, "glicko2", fast)
    row.ahead_goal(job, 1.0, "", bare)
    path = data.battle_file(row.data, "jsonl", size["n"], size["models"], voters=True)
    with tempfile.TemporaryDirectory() as empty:
        for when, seconds in (("first use", 2.0), ("later", 1.0)):
            whole = f"{size['n']:,} rows of JSONL, whole process, {when}"
            settings = {"TILTYARD_CACHE_DIR": empty} | AUTO
            row.add(whole, fast, rated(path, "--method", "glicko2", repeats=1, settings=settings), ours=True)
            row.limit_goals(whole, seconds)


def glicko_ours(n: int, models: int, repeats: int) -> Task:
    from tiltyard.stats import rate_battles

    battles = data.battles(n, models)
    score = np.array([1.0, 0.0, 0.5])[battles.result]
    return Task(
        lambda: rate_battles(battles.a, battles.b, score, start=models),
        lambda state: {"ratings": state.rating.tolist(), "truth": battles.truth.tolist()},
        repeats=repeats,
    )


def glicko_paper() -> list[float]:
    """Glickman's worked example, whose answer is printed in his paper: rating, deviation, volatility of the first."""
    from tiltyard.stats import Glicko2Settings
    from tiltyard.stats.glicko2_kernels import seen_from, updated

    settings = Glicko2Settings(volatility=0.06)
    games = [(1400.0, 30.0, 1.0), (1550.0, 100.0, 0.0), (1700.0, 300.0, 0.0)]
    surprise, information = map(sum, zip(*(seen_from(1500.0, *game, settings.scale) for game in games), strict=True))
    return list(updated(1500.0, 200.0, 0.06, surprise, information, 1.0, settings.rules()))


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

    return Task(lambda: None, lambda _: None, votes, 9, n // stretch)
