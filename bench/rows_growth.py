"""The rows of the benchmark about growth: one thing grows tenfold at a time, everything else is fixed. They run only on
request (`python -m bench growth-battles …`): together they take an hour and temporarily tens of gigabytes of disk.
`python -m bench.growth_page FIGURES.json` puts them into the manual.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench import checks
from bench.growth import exponents
from bench.measure import ONE_THREAD, Answer, Cost, whole_process
from bench.report import Row
from bench.rows_files import rated, ratings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench.rows import Plan

BYTES = {"parquet": 40, "jsonl": 220, "vote": 2_500, "pair": 8_000}
"""Bytes of one battle in a file, one vote in a database, one judged pair with its report; twice as much must be
free."""
WAYS = {"--cluster none": ("--cluster", "none"), "prompts as clusters": ()}
MODELS = 400
MOST_EXPONENT = 1.1
"""Ten times as many battles or votes may take at most 12.6 times as long."""
REPEATED_TO = 1_000_000
"""Up to this many battles a command is run three times, and the fastest run counts."""


def battles(plan: Plan) -> Row:
    """Ten times as many battles at each step, Parquet and JSON Lines."""
    row = Row("growth-battles", f"`tiltyard rate`, {MODELS} models, closed-form intervals, whole process")
    for kind, most in (("parquet", plan.size(10**8, 10**6)), ("jsonl", plan.size(10**7, 10**5))):
        for size in _tenfold(10**5, most):
            _rated(row, plan, f"{kind}, battles {size:,}", kind, size, MODELS)
    largest = [line.cost for line in row.lines if line.job == f"parquet, battles {10**8:,}" and line.cost]
    for cost in largest[1:]:
        row.goal(f"10⁸ by prompt: goal under 80 s of CPU → {cost.cpu_seconds:.0f} s", cost.cpu_seconds < 80)
        row.goal(f"10⁸ by prompt: goal under 4,000 MB → {cost.peak_mb:,.0f} MB", cost.peak_mb < 4_000)
    note_exponents(row)
    return row


def models(plan: Plan) -> Row:
    """From ten models to five thousand, a million battles among them."""
    size = plan.size(10**6, 10**5)
    row = Row("growth-models", f"`tiltyard rate`, {size:,} battles in Parquet, closed-form intervals, whole process")
    for count in (10, 100, 1_000, 5_000)[: plan.size(4, 2)]:
        _rated(row, plan, f"models {count:,}", "parquet", size, count)
    return row


def votes(plan: Plan) -> Row:
    """Votes in an arena's log: written, folded, made into tables, opened, verified; the CPU seconds are the total."""
    row = Row("growth-votes", "an arena's log in SQLite, 100 models: written, replayed, rebuilt, opened, verified")
    for count in _tenfold(10**4, plan.size(10**6, 10**4)):
        job = f"votes {count:,}"
        if not _room(plan, "vote", count):
            row.add(job, "sqlite", Answer(None, problem="not enough room on the disk"), ours=True)
            continue
        answer = _long_log(plan, count)
        found = row.add(job, "sqlite", answer, ours=True)
        if answer.problem or not found:
            row.check(f"{job}: {answer.problem}", holds=False)
            continue
        steps = ", ".join(f"{name} {found[f'{name}_seconds']:.2f} s" for name in STEPS)
        text = f"{job}: verifies with every vote; {found['bytes'] / 1e6:,.0f} MB of events; wall: {steps}"
        row.check(text, found["clean"] and found["votes"] == count)
    note_exponents(row)
    return row


def pairs(plan: Plan) -> Row:
    """Judged pairs: a whole `tiltyard run` in both orders, by stage."""
    row = Row("growth-pairs", "`tiltyard run`, 15 entrants, both orders, batches over HTTP, whole process by stage")
    for count in _tenfold(10**4, plan.size(10**6, 10**4)):
        if not _room(plan, "pair", count):
            row.add(f"judged pairs {count:,}", "all", Answer(None, problem="not enough room on the disk"), ours=True)
            continue
        command = [sys.executable, "-m", "bench.judging_run", str(count), str(plan.folder)]
        answer = whole_process(command)
        if answer.problem:
            row.add(f"judged pairs {count:,}", "all", answer, ours=True)
        else:
            note_pairs(row, json.loads(answer.result))
    return row


def note_pairs(row: Row, found: dict[str, Any]) -> None:
    """The stages of an observed run as lines, and whether it ended successfully."""
    job = f"judged pairs {found['pairs']:,}"
    for name, stage in found["stages"].items():
        cost = Cost(stage["cpu_seconds"], stage["wall_seconds"], stage["most_mb"])
        row.add(job, name, Answer(cost), ours=True)
    stages = found["stages"].values()
    cpu, wall = (sum(stage[name] for stage in stages) for name in ("cpu_seconds", "wall_seconds"))
    row.add(job, "all", Answer(Cost(cpu, wall, found["peak_mb"])), ours=True)
    sent, largest = sum(size for size, _ in found["batches"]), max(bytes_ for _, bytes_ in found["batches"])
    text = f"{job}: {sent:,} questions in {len(found['batches'])} batches, the largest {largest / 1e6:,.0f} MB"
    row.check(
        f"{text}; each asked once, and the run ended well", found["exit_code"] == 0 and sent == 2 * found["pairs"]
    )


def note_exponents(row: Row) -> None:
    """How CPU time grew between the two largest sizes of each job: cost ∝ size^exponent, with a goal for each."""
    ways: dict[tuple[str, str], list[tuple[int, float]]] = {}
    for line in row.lines:
        what, _, size = line.job.rpartition(" ")
        if line.cost is not None:
            ways.setdefault((what, line.who), []).append((int(size.replace(",", "")), line.cost.cpu_seconds))
    for (what, who), costs in ways.items():
        if len(costs) > 1:
            (small, before), (large, after) = sorted(costs)[-2:]
            power = exponents([small, large], [before, after])[-1] or 0.0
            row.goal(f"{what}, {who}: goal n^{MOST_EXPONENT} → n^{power:.2f}", power <= MOST_EXPONENT)


STEPS = ("replay", "rebuild", "start", "observatory", "verify")


def _tenfold(first: int, last: int) -> list[int]:
    """Sizes from the first to the last, each ten times the one before."""
    sizes = [first]
    while sizes[-1] < last:
        sizes.append(10 * sizes[-1])
    return sizes


def _rated(row: Row, plan: Plan, job: str, kind: str, size: int, count: int) -> None:
    """Rate a file both ways, and check that the errors of the ratings match their intervals."""
    with _file(plan, kind, size, count) as (path, problem):
        for way, options in WAYS.items():
            repeats = 3 if size <= REPEATED_TO else 1
            answer = Answer(None, problem=problem) if path is None else rated(path, *options, repeats=repeats)
            board = row.add(job, f"tiltyard, {way}", answer, ours=True)
            if board is not None and path is not None:
                z = _mean_square_z(board, path)
                # With few models, the mean of their errors is itself uncertain.
                low, high = (0.6, 1.5) if count >= 100 else (0.1, 3.0)
                row.check(f"{job}, {way}: errors as large as the intervals say: mean z² {z:.2f}", low < z < high)


def _mean_square_z(board: dict[str, Any], path: Path) -> float:
    truth = json.loads(path.with_suffix(".truth.json").read_text())
    half = {entry["model"]: 0.5 * (entry["ci_high"] - entry["ci_low"]) for entry in board["ratings"]}
    return checks.mean_square_z(ratings(board), half, {name: board["scale"] * value for name, value in truth.items()})


@contextmanager
def _file(plan: Plan, kind: str, size: int, count: int) -> Iterator[tuple[Path | None, str | None]]:
    """A temporary file of battles, or why there is none."""
    if not _room(plan, kind, size):
        yield None, "not enough room on the disk"
        return
    with tempfile.TemporaryDirectory(prefix="growth-", dir=plan.folder) as folder:
        path = Path(folder) / f"battles.{kind}"
        made = whole_process([sys.executable, "-m", "bench.growth", str(path), str(size), str(count)])
        yield (None, made.problem) if made.problem else (path, None)


def _room(plan: Plan, kind: str, size: int) -> bool:
    plan.folder.mkdir(parents=True, exist_ok=True)
    return shutil.disk_usage(plan.folder).free > 2 * BYTES[kind] * size


def _long_log(plan: Plan, count: int) -> Answer:
    options = json.dumps({"votes": count, "home": str(plan.folder)})
    answer = whole_process([sys.executable, "-m", "bench.arena_load", "long_log", options], settings=ONE_THREAD)
    return answer if answer.problem else Answer(answer.cost, json.loads(answer.result.splitlines()[-1]))
