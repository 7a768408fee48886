"""Rows that are whole processes: start-up, files in and boards out, comparisons; beside what peers' users would run."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from bench import data, peers
from bench.measure import TILTYARD, Answer, Row, in_child, largest_gap, mean_square_z, rated, whole_process
from bench.ratings import bt_ours

START_SECONDS = {"import tiltyard": 0.05, "tiltyard --help": 0.2, "tiltyard rate, 20 rows": 0.45}
FLOORS = {"the columns read, nothing else": ("DuckDB", peers.read_columns)} | {
    "SHA-256 of the file, nothing else": ("OpenSSL", peers.hash_file)
}
"""What nobody can leave out."""


def ratings_of(board: dict[str, Any]) -> dict[str, float]:
    return {entry["model"]: entry["rating"] for entry in board["ratings"]}


def z_of(board: dict[str, Any], path: Path) -> float:
    """The mean squared error of a board's ratings in units of the error that its intervals claim."""
    truth = json.loads(data.truth_of(path).read_text())
    half = {entry["model"]: 0.5 * (entry["ci_high"] - entry["ci_low"]) for entry in board["ratings"]}
    return mean_square_z(ratings_of(board), half, {name: board["scale"] * value for name, value in truth.items()})


def start(row: Row) -> None:
    """Start-up."""
    row.title = "start-up, whole process, byte code cached"
    path, won = row.data / "battles-20.jsonl", ("model_a", "model_b", "tie", "model_a", "model_b")
    rows = [
        {"model_a": f"m{at % 4}", "model_b": f"m{(at + 1 + at // 4 % 3) % 4}", "winner": won[at % 5], "source": "human"}
        | {"question_id": f"q{at % 7}"}
        for at in range(20)
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in rows))
    repeats = row.size(10, 4)
    row.add("python alone", "python -c pass", whole_process([sys.executable, "-c", "pass"], repeats))
    for job, command in {
        "import tiltyard": [sys.executable, "-c", "import tiltyard"],
        "tiltyard --help": [TILTYARD, "--help"],
        "tiltyard rate, 20 rows": [TILTYARD, "rate", str(path)],
        "tiltyard rate --help": [TILTYARD, "rate", "--help"],
    }.items():
        whole_process(command)  # writes the byte code
        answer = whole_process(command, repeats)
        row.add(job, "tiltyard", answer, ours=True)
        if answer.cost and job in START_SECONDS:
            cpu, most = answer.cost.cpu_seconds, START_SECONDS[job]
            row.goal(f"{job}: goal under {most} s of CPU → {cpu:.3f} s", cpu < most)
    for other in ("evalica", "arena_rank.models.bradley_terry", "choix"):
        row.add(f"import {other}", other.split(".")[0], whole_process([sys.executable, "-c", f"import {other}"], 2))


def file(row: Row) -> None:
    """JSON Lines to a leaderboard."""
    n, models, rounds = row.size(1_000_000, 20_000), row.size(200, 30), 100
    path = data.battle_file(row.data, "jsonl", n, models, voters=True)
    row.title = f"{n:,}-row JSONL ({path.stat().st_size / 1e6:,.0f} MB) → leaderboard, whole process"
    job, closed = f"bootstrap, {rounds} rounds", "closed form"
    ways = {
        "tiltyard, prompts and voters as clusters": (),
        "tiltyard --cluster prompt": ("--cluster", "prompt"),
        "tiltyard --cluster none": ("--cluster", "none"),
    }
    some = ("--ci", "bootstrap", "--rounds", str(rounds))
    boards = [row.add(job, who, rated(path, *some, *way), ours=True) for who, way in ways.items()]
    row.peer(job, "FastChat's method", peers.rate_file, peer="FastChat's method", path=path, n_rounds=rounds)
    row.add(job, "evalica (percentile)", _evalica(path, rounds))
    for who, way in ways.items():
        row.add(closed, who, rated(path, *way), ours=True)
    row.peer(closed, "arena-rank", peers.rate_file, peer="arena-rank", path=path)
    for what, (who, function) in FLOORS.items():
        row.peer(what, who, function, path=path)
    memory = in_child(bt_ours, n=n, models=models, source="codes").result
    for who, board in (("with clusters", boards[0]), ("without", boards[2])):
        if board and memory:
            gap = largest_gap(ratings_of(board), memory["ratings"])
            row.check(f"the file gives the ratings of the same battles in memory, {who}: gap {gap:.1e}", gap < 1e-6)
    row.ahead_goal(job, 12.0, "FastChat")
    row.ahead_goal(closed, 8.0)
    both, _, none = (row.cpu(closed, who) for who in ways)
    if both and none:
        row.goal(f"prompts and voters: goal ≤ 1.4 × --cluster none → {both / none:.2f} ×", both <= 1.4 * none)
    for line in row.lines:
        if line.ours and line.job == job and line.cost:
            mb = line.cost.peak_mb
            row.goal(f"{line.who}: goal under 200 MB → {mb:,.0f} MB", mb < 200)


def _evalica(path: Path, rounds: int, few: int = 2) -> Answer:
    """evalica's whole process with all rounds, from one without and one with few."""
    none, some = (in_child(peers.rate_file, peer="evalica", path=path, n_rounds=number) for number in (0, few))
    if none.cost is None or some.cost is None:
        return some
    each_cpu = (some.cost.cpu_seconds - none.cost.cpu_seconds) / few
    each_wall = (some.cost.wall_seconds - none.cost.wall_seconds) / few
    once = replace(none.cost, peak_mb=some.cost.peak_mb, round_cpu_seconds=each_cpu, round_wall_seconds=each_wall)
    return Answer(once.with_rounds(rounds))


def parquet(row: Row) -> None:
    """Parquet to a leaderboard."""
    n, models = row.size(10_000_000, 200_000), row.size(400, 50)
    path = data.battle_file(row.data, "parquet", n, models)
    row.title = f"{n:,}-row Parquet ({path.stat().st_size / 1e6:,.0f} MB) → leaderboard, whole process"
    for who, options in {"--cluster none": ("--cluster", "none"), "prompts as clusters": ()}.items():
        answer = rated(path, *options)
        board = row.add("closed form", f"tiltyard, {who}", answer, ours=True)
        if board is None or answer.cost is None:
            continue
        z, cpu, mb = z_of(board, path), answer.cost.cpu_seconds, answer.cost.peak_mb
        row.check(f"{who}: errors against the truth are as large as the intervals say: mean z² {z:.2f}", 0.6 < z < 1.5)
        row.goal(f"{who}: goal under 7 s of CPU → {cpu:.2f} s", cpu < 7)
        row.goal(f"{who}: goal under 600 MB → {mb:,.0f} MB", mb < 600)
    for what, (who, function) in FLOORS.items():
        row.peer(what, who, function, path=path)


def decisions(row: Row) -> None:
    """Two models of a battle file compared, and a gate, beside the board of the same file."""
    n, models = row.size(10_000, 2_000), 20
    path = data.battle_file(row.data, "jsonl", n, models, voters=True)
    row.title = f"{n:,}-row JSONL, {models} models: compare and gate beside rate, whole process"
    board = row.add("rate", "tiltyard", rated(path), ours=True)
    if board is None:
        return
    new, old = (entry["model"] for entry in board["ratings"][:2])
    truth = json.loads(data.truth_of(path).read_text())
    points = board["scale"] * (truth[new] - truth[old])
    for command, more in (("compare", ()), ("gate", ("--margin", "1000"))):
        asked = [TILTYARD, command, new, old, "--in", str(path), "--format", "json", *more]
        text = row.add(command, "tiltyard", whole_process(asked, 3), ours=True)
        if text is None:
            continue
        found = json.loads(text)
        found = found.get("comparison", found)
        half = (found["high"] - found["low"]) / 2
        said = f"{command}: {found['difference']:+.0f} points (± {half:.0f}), truth {points:+.0f}"
        row.check(said, abs(found["difference"] - points) < 2 * half)
        times = (row.cpu(command, "tiltyard") or 0.0) / (row.cpu("rate", "tiltyard") or 1.0)
        row.goal(f"{command}: goal ≤ 2 × rate → {times:.2f} ×", times <= 2.0)


def score_files(row: Row) -> None:
    """Two files of scores compared, beside reading them."""
    n = row.size(1_000_000, 20_000)
    new, old = (data.score_file(row.data, n, percent) for percent in (71, 70))
    row.title = f"two JSONL files of {n:,} scores, whole process"
    compared = whole_process([TILTYARD, "compare", str(new), str(old), "--format", "json"], 3)
    text = row.add("compare", "tiltyard", compared, ours=True)
    alone = "the columns read, nothing else"
    for name, path in (("new", new), ("old", old)):
        row.peer(alone, f"DuckDB, {name}", peers.read_scores, path=path)
    if text is not None:
        found = json.loads(text)
        means = [json.loads(data.truth_of(path).read_text()) for path in (new, old)]
        gap = abs(found["difference"] - (means[0] - means[1]))
        holds = gap < 1e-9 and found["n_prompts"] == n
        row.check(f"the difference is that of the written scores: gap {gap:.1e}", holds)
    reading = sum(row.cpu(alone, f"DuckDB, {name}") or 0.0 for name in ("new", "old"))
    ours = row.cpu("compare", "tiltyard")
    if ours and reading:
        row.goal(f"goal ≤ 1.2 × reading → {ours / reading:.2f} ×", ours <= 1.2 * reading)
