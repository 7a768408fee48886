"""The rows of the benchmark that run in memory: fits, bootstraps, many models, style control, Elo, Glicko-2."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from bench import checks
from bench.measure import in_worker
from bench.report import Row
from bench.rows_files import battle_file, rated

if TYPE_CHECKING:
    from pathlib import Path

NEVER, AUTO = {"TILTYARD_COMPILE": "never"}, {"TILTYARD_COMPILE": "auto"}


@dataclass(frozen=True)
class Plan:
    """How large the jobs are, and where data and compiled code are kept."""

    quick: bool
    folder: Path

    def size(self, full: int, quick: int) -> int:
        """One of two sizes."""
        return quick if self.quick else full


def fit(plan: Plan) -> Row:
    """Point estimates and closed-form intervals."""
    size = {"n": plan.size(1_000_000, 20_000), "models": plan.size(200, 30)}
    row = Row("fit", f"Bradley–Terry, {size['n']:,} battles, {size['models']} models")
    full, codes, point, bare = (
        "fit + 95 % intervals, pandas strings",
        "fit + 95 % intervals, integer codes",
        "point fit, pandas strings",
        "point fit, integer codes",
    )
    ours = row.add(full, "tiltyard", in_worker("bt_ours", size | {"source": "frame"}), ours=True)
    theirs = row.add(full, "arena-rank", in_worker("bt_arena_rank", size | {"intervals": True}))
    for library in ("polars", "arrow"):
        other = in_worker("bt_ours", size | {"source": library})
        row.add(f"fit + 95 % intervals, {library} strings", "tiltyard", other, ours=True)
    row.add(codes, "tiltyard", in_worker("bt_ours", size | {"source": "codes"}), ours=True)
    halved = {"source": "frame", "ci": "none", "ties": "half"}
    half = row.add(point, "tiltyard, ties as half a win", in_worker("bt_ours", size | halved), ours=True)
    row.add(point, "tiltyard, ties by Davidson", in_worker("bt_ours", size | halved | {"ties": "davidson"}), ours=True)
    found = {
        "arena-rank": row.add(point, "arena-rank", in_worker("bt_arena_rank", size | {"intervals": False})),
        "FastChat's method": row.add(point, "FastChat's method", in_worker("bt_fastchat", size)),
        "evalica": row.add(point, "evalica", in_worker("bt_evalica", size)),
    }
    row.add(bare, "tiltyard", in_worker("bt_ours", size | halved | {"source": "codes"}), ours=True)
    found["choix"] = row.add(bare, "choix (numbers only: no ties, names, ranks)", in_worker("bt_choix", size))
    if ours:
        z = checks.mean_square_z(ours["ratings"], ours["half_widths"], ours["truth"])
        row.check(f"errors against the truth are as large as our intervals say: mean z² {z:.2f}", 0.6 < z < 1.5)
    if half:
        _same_ratings(row, half, found)
    if ours and theirs:
        row.ahead_goal(full, 12.0)
    _limit_goals(row, codes, 0.15)
    for line in row.lines:
        if line.ours and line.cost and line.job.startswith("fit") and "strings" in line.job:
            row.goal(f"{line.job}: goal under 0.5 s → {line.cost.cpu_seconds:.2f} s", line.cost.cpu_seconds < 0.5)
    row.ahead_goal(point)
    row.ahead_goal(bare)
    return row


def _same_ratings(row: Row, ours: dict[str, Any], found: dict[str, Any], tolerance: float = 0.5) -> None:
    for who, theirs in found.items():
        if theirs is not None:
            gap = checks.largest_gap(ours["ratings"], theirs["ratings"])
            unsettled = who == "evalica"  # it stops after 100 steps, converged or not
            note = " (it stops before it has converged)" if unsettled and gap > tolerance else ""
            row.check(f"{who} gives the same ratings: largest gap {gap:.3f} points{note}", gap < tolerance or unsettled)


def bootstrap(plan: Plan) -> Row:
    """Bootstrap intervals."""
    size = {"n": plan.size(1_000_000, 20_000), "models": plan.size(200, 30)}
    row = Row("bootstrap", f"Bradley–Terry with bootstrap, {size['n']:,} battles, {size['models']} models, from pandas")
    closed = in_worker("bt_ours", size | {"source": "codes"}).result
    peers = {
        "FastChat's method": in_worker("bootstrap_fastchat", size | {"rounds": 0, "rounds_run": plan.size(5, 2)}),
        "evalica (percentile)": in_worker("bootstrap_evalica", size | {"rounds": 0, "rounds_run": plan.size(2, 1)}),
        "arena-rank": in_worker("bootstrap_arena_rank", size | {"rounds": 0, "rounds_run": plan.size(2, 1)}),
    }
    for rounds in (100, 1000):
        job = f"{rounds:,} rounds"
        options = size | {"source": "frame", "ci": "bootstrap", "rounds": rounds}
        ours = row.add(job, "tiltyard", in_worker("bt_ours", options), ours=True)
        row.add(job, "tiltyard, ties as half a win", in_worker("bt_ours", options | {"ties": "half"}), ours=True)
        for who, answer in peers.items():
            cost = answer.cost and answer.cost.with_rounds(rounds)
            row.add(job, who, replace(answer, cost=cost))
        if ours and closed:
            widths = [ours["half_widths"][name] / closed["half_widths"][name] for name in closed["half_widths"]]
            mean = sum(widths) / len(widths)
            row.check(f"{job}: intervals as wide as the closed form: mean ratio {mean:.3f}", abs(mean - 1.0) < 0.06)
        row.ahead_goal(job, 40.0 if rounds == 100 else 80.0)
    return row


def many(plan: Plan) -> Row:
    """Very many models."""
    size = {"models": plan.size(5000, 1000), "pairs": plan.size(1_700_000, 60_000)}
    row = Row("many", f"{size['models']:,} models, {size['pairs']:,} pairs")
    job = "fit of pair counts"
    half = row.add(job, "tiltyard, ties as half a win", in_worker("many_ours", size | {"ties": "half"}), ours=True)
    ours = row.add(job, "tiltyard, ties by Davidson", in_worker("many_ours", size | {"ties": "davidson"}), ours=True)
    theirs = row.add(job, "FastChat's method", in_worker("many_fastchat", size))
    for what, ci in (("board from codes, no intervals", "none"), ("board from codes with intervals", "sandwich")):
        row.add(what, "tiltyard", in_worker("many_ours_board", size | {"ci": ci}), ours=True)
    if ours:
        same = checks.correlation(ours["strengths"], ours["truth"])
        row.check(f"correlation with the truth {same:.4f}", same > 0.9)
    if half and theirs:
        gap = checks.largest_difference(half["strengths"], theirs["strengths"])
        row.check(f"FastChat's method agrees: largest gap {gap:.4f} logits", gap < 0.05)
    sparse = plan.size(34_000, 2_500)
    n = plan.size(1_000_000, 50_000)
    field = f"{n:,} battles of {sparse:,} models by prompt, Parquet, whole process"
    answer = rated(battle_file(plan, "parquet", n, sparse, "-sparse", "bench.growth"), "--only-connected", repeats=1)
    row.add(field, "tiltyard", answer, ours=True)
    for what, seconds, megabytes in (
        (job, 1.0, None),
        ("board from codes with intervals", 8.0, 800.0),
        (field, 90.0, 2_000.0),
    ):
        _limit_goals(row, what, seconds, megabytes)
    row.ahead_goal(job)
    return row


def _limit_goals(row: Row, job: str, seconds: float, megabytes: float | None = None) -> None:
    """Goals for our last line of a job."""
    costs = [line.cost for line in row.lines if line.job == job and line.ours and line.cost]
    if costs:
        cpu, mb = costs[-1].cpu_seconds, costs[-1].peak_mb
        row.goal(f"{job}: goal under {seconds:g} s of CPU → {cpu:.2f} s", cpu < seconds)
        if megabytes is not None:
            row.goal(f"{job}: goal under {megabytes:,.0f} MB → {mb:,.0f} MB", mb < megabytes)


def control(plan: Plan) -> Row:
    """Style control."""
    size = {"n": plan.size(1_000_000, 20_000), "models": plan.size(200, 30)}
    row = Row("control", f"style control, {size['n']:,} battles × 4 features, {size['models']} models")
    job = "fit + intervals, 4 controls, pandas"
    ours = row.add(job, "tiltyard", in_worker("control_ours", size | {"source": "frame"}), ours=True)
    found = {
        "arena-rank": row.add(job, "arena-rank", in_worker("control_arena_rank", size)),
        "FastChat's method": row.add(job, "FastChat's method (no intervals)", in_worker("control_fastchat", size)),
    }
    codes = "fit + intervals, 4 controls, codes"
    row.add(codes, "tiltyard", in_worker("control_ours", size | {"source": "codes"}), ours=True)
    if ours:
        _same_ratings(row, ours, found, 1.0)
        for who, theirs in found.items():
            if theirs:
                gap = checks.largest_difference(ours["coefficients"], theirs["coefficients"])
                row.check(f"{who} gives the same coefficients: largest gap {gap:.3f} points", gap < 1.0)
    row.ahead_goal(job, 3.0, "FastChat")
    return row


def elo(plan: Plan) -> Row:
    """Permutation Elo."""
    size = {"n": plan.size(100_000, 5_000), "models": 20, "perms": plan.size(500, 100)}
    row = Row("elo", f"permutation Elo, {size['perms']} shuffles × {size['n']:,} matches × 5 K, 20 entrants")
    job = "every shuffle at every K"
    cache = {"TILTYARD_CACHE_DIR": str(plan.folder / "compiled")}
    fast = {"TILTYARD_COMPILE": "always"} if plan.quick else AUTO
    once = size | {"repeats": 1}
    in_worker("elo_ours", once | {"perms": plan.size(50, 2)}, cache | fast)  # compiles once per machine
    row.add(job, "tiltyard[fast]", in_worker("elo_ours", size | {"repeats": 2}, cache | fast), ours=True)
    row.add(job, "tiltyard[fast], first call in a process", in_worker("elo_ours", once, cache | fast), ours=True)
    row.add(job, "tiltyard without numba", in_worker("elo_ours", once, NEVER), ours=True)
    few = size | {"perms_run": 2}
    loop = row.add(job, "plain loop", in_worker("elo_loop", few))
    rust = row.add(job, "evalica's Rust function", in_worker("elo_evalica", few))
    row.add(job, "FastChat's method", in_worker("elo_fastchat", size))
    for who, settings in (("tiltyard[fast]", cache | {"TILTYARD_COMPILE": "always"}), ("without numba", NEVER)):
        ours = in_worker("elo_ours", once | {"perms": 3}, settings).result
        for other, theirs in (("the plain loop", loop), ("evalica", rust)):
            if ours and theirs:
                gap = max(map(checks.largest_difference, ours["means"], theirs["means"]))
                row.check(f"{who} equals {other} on the same shuffles: largest gap {gap:.1e} points", gap < 1e-6)
    row.ahead_goal(job, 12.0, "plain loop", "tiltyard[fast]")
    row.ahead_goal(job, 4.0, "evalica", "tiltyard[fast]")
    row.ahead_goal(job, 6.0, "plain loop", "tiltyard without numba")
    row.ahead_goal(job)
    n = plan.size(1_000_000, 20_000)
    whole = f"{n:,} rows of JSONL with sampling intervals, whole process"
    path = battle_file(plan, "jsonl", n, plan.size(200, 30), "-voters")
    answer = rated(path, "--method", "elo-perm", repeats=1, settings=cache | AUTO)
    row.add(whole, "tiltyard[fast]", answer, ours=True)
    _limit_goals(row, whole, 20.0)
    return row


def glicko(plan: Plan) -> Row:
    """Glicko-2."""
    size = {"n": plan.size(1_000_000, 30_000), "models": plan.size(200, 30)}
    row = Row("glicko", f"Glicko-2, vote by vote, {size['n']:,} votes, {size['models']} models")
    job = "all votes"
    cache = {"TILTYARD_CACHE_DIR": str(plan.folder / "compiled")}
    fast = {"TILTYARD_COMPILE": "always"} if plan.quick else AUTO
    in_worker("glicko_ours", size | {"repeats": 1}, cache | fast)
    ours = row.add(job, "tiltyard[fast]", in_worker("glicko_ours", size | {"repeats": 5}, cache | fast), ours=True)
    first = in_worker("glicko_ours", size | {"repeats": 1}, cache | fast)
    row.add(job, "tiltyard[fast], first call in a process", first, ours=True)
    plain = row.add(job, "tiltyard without numba", in_worker("glicko_ours", size | {"repeats": 1}, NEVER), ours=True)
    run = size | {"n_run": plan.size(50_000, 5_000)}
    row.add(job, "glicko2", in_worker("glicko_package", run))
    if ours and plain:
        gap = checks.largest_difference(ours["ratings"], plain["ratings"])
        row.check(f"compiled and plain agree: largest gap {gap:.1e} points", gap < 1e-6)
        same = checks.correlation(ours["ratings"], list(ours["truth"].values()))
        row.check(f"correlation with the truth {same:.4f}", same > 0.95)
    paper = in_worker("glicko_paper", {}).result
    rating, deviation, volatility = paper["first"] if paper else (0.0, 0.0, 0.0)
    near = abs(rating - 1464.06) < 0.01 and abs(deviation - 151.52) < 0.01 and abs(volatility - 0.05999) < 1e-4
    row.check(f"Glickman's example (1464.06, 151.52, 0.05999): {rating:.2f}, {deviation:.2f}, {volatility:.5f}", near)
    row.ahead_goal(job, 50.0, "glicko2", "tiltyard[fast]")
    row.ahead_goal(job, 1.0, "", "tiltyard without numba")
    path = battle_file(plan, "jsonl", size["n"], size["models"], "-voters")
    with tempfile.TemporaryDirectory() as empty:
        for when, seconds in (("first use", 2.0), ("later", 1.0)):
            whole = f"{size['n']:,} rows of JSONL, whole process, {when}"
            answer = rated(path, "--method", "glicko2", repeats=1, settings={"TILTYARD_CACHE_DIR": empty} | AUTO)
            row.add(whole, "tiltyard[fast]", answer, ours=True)
            _limit_goals(row, whole, seconds)
    return row


def coverage(plan: Plan) -> Row:
    """Print the coverage of every kind of interval."""
    simulations = plan.size(250, 20)
    row = Row("coverage", f"share of nominal 95 % intervals that contain the truth, {simulations} simulations")
    answer = in_worker("simulate", {"simulations": simulations})
    found = row.add("simulation", "tiltyard", answer, ours=True)
    slack = plan.size(2, 6) / 100
    for kind, (single, rare, ranks) in (found or {}).items():
        extra = f", rarest model {100 * rare:.1f} %" if kind.startswith("arena") else ""
        text = f"{kind}: models {100 * single:.1f} %{extra}, all rank intervals at once {100 * ranks:.1f} %"
        if "ignored" in kind:
            row.check(f"{text} (shown for contrast: too narrow)", single < 0.95)
        else:
            row.check(text, single > 0.95 - slack and ranks > 0.95 - slack)
    own = row.add("arena-rank by its formula", "arena-rank", in_worker("arena_rank_by_formula", {"checked": 3}))
    if own is not None:
        row.check(f"arena-rank's own ends are those of its formula: largest gap {own:.2f} points", own < 0.5)
    worlds = plan.size(400, 5)
    beside = row.add(f"worlds of the tests, {worlds} runs", "all", in_worker("against_peers", {"simulations": worlds}))
    for world, by_library in (beside or {}).items():
        for name, (single, error, ranks, width) in by_library.items():
            text = (
                f"{world}, {name}: intervals {100 * single:.1f} ± {100 * error:.1f} %, all ranks {100 * ranks:.0f} %, "
                f"mean width {width:.0f} points"
            )
            row.check(text, name != "tiltyard" or single > 0.94 - 2.0 * error - slack)
    return row


def pooling(plan: Plan) -> Row:
    """Print how well pooled categories predict held-out battles of real data."""
    splits = plan.size(3, 1)
    row = Row("pooling", f"log loss of held-out battles: categories apart and pooled, {splits} splits")
    found = row.add("real battles", "tiltyard", in_worker("predict", {"splits": splits}), ours=True)
    for name, loss in (found or {}).items():
        row.check(
            f"{name}: whole {loss['whole']:.4f}, apart {loss['apart']:.4f}, pooled {loss['pooled']:.4f} "
            f"(sd {loss['sd']:.0f} points)",
            loss["pooled"] <= min(loss["whole"], loss["apart"]) + 0.002,
        )
    if not found:
        row.check("the real data is not here: nothing to predict", True)
    return row
