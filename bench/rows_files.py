"""The rows of the benchmark that are whole processes: files in, boards out, and the start-up."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench import checks
from bench.measure import ONE_THREAD, Answer, in_worker, whole_process
from bench.report import Row

if TYPE_CHECKING:
    from bench.rows import Plan

TILTYARD = str(Path(sys.executable).with_name("tiltyard"))
START_SECONDS = {"import tiltyard": 0.05, "tiltyard --help": 0.2, "tiltyard rate, 20 rows": 0.45}


def battle_file(plan: Plan, kind: str, n: int, models: int, more: str = "", maker: str = "bench.data") -> Path:
    """The file, generated first by a module of ours if it does not exist."""
    return _made(plan.folder / "data" / f"battles-{n}-{models}{more}.{kind}", n, models, maker)


def _made(path: Path, n: int, models: int, maker: str = "bench.data") -> Path:
    if not path.exists():
        made = whole_process([sys.executable, "-m", maker, str(path), str(n), str(models)])
        if made.problem:
            raise RuntimeError(f"{path} could not be written: {made.problem}")
    return path


def rated(path: Path, *options: str, repeats: int = 3, settings: dict[str, str] | None = None) -> Answer:
    """`tiltyard rate` on a file, as a user calls it; the board as a dictionary."""
    command = [TILTYARD, "rate", str(path), *options, "--format", "json"]
    answer = whole_process(command, repeats, ONE_THREAD | (settings or {}))
    return answer if answer.problem else replace(answer, result=json.loads(answer.result))


def ratings(board: dict[str, Any]) -> dict[str, float]:
    """Ratings by model of a ratings file."""
    return {entry["model"]: entry["rating"] for entry in board["ratings"]}


def file(plan: Plan) -> Row:
    """JSON Lines to a leaderboard."""
    n, models, rounds = plan.size(1_000_000, 20_000), plan.size(200, 30), 100
    path = battle_file(plan, "jsonl", n, models, "-voters")
    row = Row("file", f"{n:,}-row JSONL ({path.stat().st_size / 1e6:,.0f} MB) → leaderboard, whole process")
    job, closed = f"bootstrap, {rounds} rounds", "closed form"
    some = ("--ci", "bootstrap", "--rounds", str(rounds))
    prompts = ("--cluster", "prompt")
    ours = row.add(job, "tiltyard, prompts and voters as clusters", rated(path, *some), ours=True)
    row.add(job, "tiltyard --cluster prompt", rated(path, *some, *prompts), ours=True)
    alone = row.add(job, "tiltyard --cluster none", rated(path, *some, "--cluster", "none"), ours=True)
    row.add(job, "FastChat's method", peer("fastchat", path, rounds))
    row.add(job, "evalica (percentile)", scaled_peer("evalica", path, rounds))
    row.add(closed, "tiltyard, prompts and voters as clusters", rated(path), ours=True)
    row.add(closed, "tiltyard --cluster prompt", rated(path, *prompts), ours=True)
    row.add(closed, "tiltyard --cluster none", rated(path, "--cluster", "none"), ours=True)
    row.add(closed, "arena-rank", peer("arena-rank", path, 0))
    _add_floors(row, path)
    memory = in_worker("bt_ours", {"n": n, "models": models, "source": "codes"}).result
    for who, board in (("with clusters", ours), ("without", alone)):
        if board and memory:
            gap = checks.largest_gap(ratings(board), memory["ratings"])
            row.check(f"the file gives the ratings of the same battles in memory, {who}: gap {gap:.1e}", gap < 1e-6)
    row.ahead_goal(job, 12.0, "FastChat")
    row.ahead_goal(closed, 8.0)
    both, none = (row.cpu(closed, f"tiltyard{who}") for who in (", prompts and voters as clusters", " --cluster none"))
    if both and none:
        row.goal(f"prompts and voters: goal ≤ 1.4 × --cluster none → {both / none:.2f} ×", both <= 1.4 * none)
    for line in row.lines:
        if line.ours and line.job == job and line.cost:
            mb = line.cost.peak_mb
            row.goal(f"{line.who}: goal under 200 MB → {mb:,.0f} MB", mb < 200)
    return row


def _add_floors(row: Row, path: Path) -> None:
    """What nobody can leave out."""
    row.add("the columns read, nothing else", "DuckDB", peer("columns", path, 0))
    row.add("SHA-256 of the file, nothing else", "OpenSSL", peer("sha256", path, 0))


def peer(name: str, path: Path, rounds: int) -> Answer:
    """A peer's whole process."""
    answer = whole_process([sys.executable, "-m", "bench.whole", name, str(path), str(rounds)], 1, ONE_THREAD)
    return replace(answer, problem=f"{name}: {answer.problem}") if answer.problem else answer


def scaled_peer(name: str, path: Path, rounds: int, few: int = 2) -> Answer:
    """A peer's whole process with all rounds, from one without and one with few."""
    none, some = peer(name, path, 0), peer(name, path, few)
    if none.cost is None or some.cost is None:
        return some
    cpu, wall = (
        getattr(none.cost, part) + (getattr(some.cost, part) - getattr(none.cost, part)) / few * rounds
        for part in ("cpu_seconds", "wall_seconds")
    )
    return Answer(replace(some.cost, cpu_seconds=cpu, wall_seconds=wall, estimated=True))


def parquet(plan: Plan) -> Row:
    """Parquet to a leaderboard."""
    n, models = plan.size(10_000_000, 200_000), plan.size(400, 50)
    path = battle_file(plan, "parquet", n, models)
    row = Row("parquet", f"{n:,}-row Parquet ({path.stat().st_size / 1e6:,.0f} MB) → leaderboard, whole process")
    ways = {"--cluster none": ("--cluster", "none"), "prompts as clusters": ()}
    for who, options in ways.items():
        answer = rated(path, *options)
        board = row.add("closed form", f"tiltyard, {who}", answer, ours=True)
        if board is None:
            continue
        truth = json.loads(path.with_suffix(".truth.json").read_text())
        points = {name: board["scale"] * value for name, value in truth.items()}
        half = {entry["model"]: 0.5 * (entry["ci_high"] - entry["ci_low"]) for entry in board["ratings"]}
        z = checks.mean_square_z(ratings(board), half, points)
        row.check(f"{who}: errors against the truth are as large as the intervals say: mean z² {z:.2f}", 0.6 < z < 1.5)
        cost = answer.cost
        row.goal(f"{who}: goal under 7 s of CPU → {cost.cpu_seconds:.2f} s", cost.cpu_seconds < 7)
        row.goal(f"{who}: goal under 600 MB → {cost.peak_mb:,.0f} MB", cost.peak_mb < 600)
    _add_floors(row, path)
    return row


def decisions(plan: Plan) -> Row:
    """Two models of a battle file compared, and a gate, beside the board of the same file."""
    n, models = plan.size(10_000, 2_000), 20
    path = battle_file(plan, "jsonl", n, models, "-voters")
    row = Row("decisions", f"{n:,}-row JSONL, {models} models: compare and gate beside rate, whole process")
    board = row.add("rate", "tiltyard", rated(path), ours=True)
    if board is None:
        return row
    new, old = (entry["model"] for entry in board["ratings"][:2])
    truth = json.loads(path.with_suffix(".truth.json").read_text())
    points = board["scale"] * (truth[new] - truth[old])
    for command in ("compare", "gate"):
        asked = [TILTYARD, command, new, old, "--in", str(path), "--format", "json"]
        answer = whole_process(asked if command == "compare" else [*asked, "--margin", "1000"], 3, ONE_THREAD)
        text = row.add(command, "tiltyard", answer, ours=True)
        if text is None:
            continue
        found = json.loads(text)
        found = found.get("comparison", found)
        half = (found["high"] - found["low"]) / 2
        said = f"{command}: {found['difference']:+.0f} points (± {half:.0f}), truth {points:+.0f}"
        row.check(said, abs(found["difference"] - points) < 2 * half)
        times = (row.cpu(command, "tiltyard") or 0.0) / (row.cpu("rate", "tiltyard") or 1.0)
        row.goal(f"{command}: goal ≤ 2 × rate → {times:.2f} ×", times <= 2.0)
    return row


def score_files(plan: Plan) -> Row:
    """Two files of scores compared, beside reading them."""
    n = plan.size(1_000_000, 20_000)
    new, old = (_made(plan.folder / "data" / f"scores-{n}-{percent}.jsonl", n, percent) for percent in (71, 70))
    row = Row("score-files", f"two JSONL files of {n:,} scores, whole process")
    job, alone = "compare", "the columns read, nothing else"
    text = row.add(
        job, "tiltyard", whole_process([TILTYARD, "compare", str(new), str(old), "--format", "json"], 3), ours=True
    )
    read = [peer("scores", path, 0) for path in (new, old)]
    for name, answer in zip(("new", "old"), read, strict=True):
        row.add(alone, f"DuckDB, {name}", answer)
    if text is not None:
        found = json.loads(text)
        means = [json.loads(path.with_suffix(".truth.json").read_text()) for path in (new, old)]
        truth = means[0] - means[1]
        gap = abs(found["difference"] - truth)
        row.check(
            f"the difference is that of the written scores: gap {gap:.1e}", gap < 1e-9 and found["n_prompts"] == n
        )
    costs = [answer.cost.cpu_seconds for answer in read if answer.cost]
    ours = row.cpu(job, "tiltyard")
    if ours and len(costs) == 2:
        row.goal(f"goal ≤ 1.2 × reading → {ours / sum(costs):.2f} ×", ours <= 1.2 * sum(costs))
    return row


def _twenty_rows(plan: Plan) -> Path:
    """Twenty battles of four models on seven prompts."""
    path = plan.folder / "data" / "battles-20.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    won = ("model_a", "model_b", "tie", "model_a", "model_b")
    rows = [
        {"model_a": f"m{at % 4}", "model_b": f"m{(at + 1 + at // 4 % 3) % 4}", "winner": won[at % 5], "source": "human"}
        | {"question_id": f"q{at % 7}"}
        for at in range(20)
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in rows))
    return path


def start(plan: Plan) -> Row:
    """Start-up."""
    row = Row("start", "start-up, whole process, byte code cached")
    repeats = plan.size(10, 4)
    commands = {
        "import tiltyard": [sys.executable, "-c", "import tiltyard"],
        "tiltyard --help": [TILTYARD, "--help"],
        "tiltyard rate, 20 rows": [TILTYARD, "rate", str(_twenty_rows(plan))],
        "tiltyard rate --help": [TILTYARD, "rate", "--help"],
    }
    row.add("python alone", "python -c pass", whole_process([sys.executable, "-c", "pass"], repeats))
    for job, command in commands.items():
        whole_process(command)  # writes the byte code
        answer = whole_process(command, repeats)
        row.add(job, "tiltyard", answer, ours=True)
        if answer.cost and job in START_SECONDS:
            cpu, most = answer.cost.cpu_seconds, START_SECONDS[job]
            row.goal(f"{job}: goal under {most} s of CPU → {cpu:.3f} s", cpu < most)
    for other in ("evalica", "arena_rank.models.bradley_terry", "choix"):
        row.add(f"import {other}", other.split(".")[0], whole_process([sys.executable, "-c", f"import {other}"], 2))
    return row
