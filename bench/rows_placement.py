"""The row of the benchmark about placement: one model among human battles, and what choosing opponents saves."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.measure import ONE_THREAD, ROOT, Answer, whole_process
from bench.report import Row
from bench.rows_files import TILTYARD

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench.rows import Plan

BATTLES = 100
ROUNDS = 100
SCALE = 173.7177927613
"""Rating points per logit: 400 / ln 10."""
REAL = ROOT.parent / "shared" / "data" / "arena_140k" / "battles.csv.gz"
REAL_ROWS = 135_624
MAX_FROM_LIMIT = 0.10
MAX_MB = 400


def placement(plan: Plan) -> Row:
    """One model placed among many human battles, its folder rated again, and chosen compared with random opponents."""
    rows, models = plan.size(87_231, 3_000), plan.size(55, 12)
    arena = _arena_file(plan, rows, models)
    row = Row("placement", f"one model among human battles, {BATTLES} judged, {ROUNDS} bootstrap rounds, whole process")
    with tempfile.TemporaryDirectory(prefix="tiltyard-bench-") as folder:
        _with_conversations(row, arena, rows, Path(folder) / "conversations", least=plan.size(500, 50))
        _without_texts(row, plan, Path(folder) / "anchors")
    _choosing(row, plan)
    return row


def _made(*arguments: str) -> Any:
    """The output of `python -m bench.placement`."""
    done = whole_process([sys.executable, "-m", "bench.placement", *arguments], settings=ONE_THREAD)
    if done.problem:
        raise RuntimeError(f"bench.placement {arguments[0]}: {done.problem}")
    return json.loads(done.result)


def _arena_file(plan: Plan, rows: int, models: int) -> Path:
    """The arena, generated first if it does not exist."""
    path = plan.folder / "data" / f"arena-{rows}-{models}.parquet"
    if not path.exists():
        _made("arena", str(path), str(rows), str(models))
    return path


@dataclass(frozen=True)
class Placed:
    """The folder that a placement left."""

    folder: Path

    @property
    def newcomer(self) -> dict[str, Any]:
        """The new model's entry."""
        return next(entry for entry in self._ratings() if entry["source"] == "evaluated")

    @property
    def mean_of_others(self) -> float:
        """The mean rating of the models that people voted on."""
        others = [entry["rating"] for entry in self._ratings() if entry["source"] != "evaluated"]
        return sum(others) / len(others)

    @property
    def megabytes(self) -> float:
        """The size of the battles, judged and human."""
        return (self.folder / "battles.jsonl").stat().st_size / 1e6

    @property
    def battles(self) -> int:
        """The number of battles, judged and human."""
        with (self.folder / "battles.jsonl").open("rb") as file:
            return sum(1 for _ in file)

    def _ratings(self) -> list[dict[str, Any]]:
        return list(json.loads((self.folder / "elo_ratings.json").read_text())["ratings"])


def _place(row: Row, job: str, where: Path, *options: str) -> Placed | None:
    """Place, and rate the folder again; both whole processes. The folder, unless something failed."""
    common = ("--n-battles", str(BATTLES), "--bootstraps", str(ROUNDS), "--yes")
    kept = ("--out", str(where / "out"), "--cache-dir", str(where / "cache"))
    shutil.rmtree(where, ignore_errors=True)
    answer = whole_process([TILTYARD, "place", *options, *common, *kept], settings=ONE_THREAD)
    row.add(job, "tiltyard place", answer, ours=True)
    if answer.problem:
        row.check(f"{job}: {answer.problem}", holds=False)
        return None
    (folder,) = (where / "out").iterdir()
    again = whole_process([TILTYARD, "place", "--recompute", str(folder)], 2, ONE_THREAD)
    row.add(f"{job}, rated again", "tiltyard place --recompute", again, ours=True)
    row.check(f"{job}: the folder alone gives the same ratings, byte for byte", again.problem is None)
    _memory(row, job, answer)
    return Placed(folder)


def _memory(row: Row, job: str, answer: Answer) -> None:
    if answer.cost:
        row.goal(f"{job}: goal under {MAX_MB} MB → {answer.cost.peak_mb:,.0f} MB", answer.cost.peak_mb < MAX_MB)


# --- With conversations ----------------------------------------------------------------------------------------------


@contextmanager
def _server(folder: Path) -> Iterator[str]:
    """The address of a server that is the new model and the judge; in a separate process, which is not measured. It is
    started without importing it, because this process's memory would count as memory of its children.
    """
    folder.mkdir(parents=True)
    command = [sys.executable, "-W", "ignore", "-m", "tests.fakes.server", "--state", str(folder)]
    command += ["--judge", "bench.placement:answer_or_judge"]
    server = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    try:
        yield f"http://127.0.0.1:{int(server.stdout.readline())}/v1"
    finally:
        server.kill()
        server.wait()
        server.stdout.close()


def _with_conversations(row: Row, arena: Path, rows: int, where: Path, least: int) -> None:
    job = f"{rows:,} rows, {arena.stat().st_size / 1e6:,.0f} MB of Parquet"
    with _server(where.with_name("server")) as url:
        asked = ("--model", "local/newcomer", "--judge", "local/umpire", "--base-url", url)
        placed = _place(row, job, where, "--arena", str(arena), *asked, "--min-opponent-battles", str(least))
    if placed is None:
        return
    truth = json.loads(arena.with_suffix(".truth.json").read_text())
    own, strengths = placed.newcomer, truth["strengths"].values()
    wanted = placed.mean_of_others + SCALE * (truth["newcomer"] - sum(strengths) / len(strengths))
    interval = f"{own['rating']:.0f} [{own['ci_low']:.0f}, {own['ci_high']:.0f}]"
    row.check(f"{job}: made worth {wanted:.0f}, placed at {interval}", own["ci_low"] < wanted < own["ci_high"])
    row.check(_size(job, placed), placed.battles == rows + BATTLES)


def _size(job: str, placed: Placed) -> str:
    return f"{job}: battles.jsonl holds all {placed.battles:,} battles in {placed.megabytes:,.1f} MB"


# --- Anchors at real size, texts beside them -------------------------------------------------------------------------


def _without_texts(row: Row, plan: Plan, where: Path) -> None:
    job = f"{REAL_ROWS:,} rows of arena_140k"
    if not REAL.exists():
        row.add(job, "tiltyard place", Answer(None, problem="the data is not at hand"), ours=True)
        return
    texts = plan.folder / "data" / "texts-140k"
    if not (texts / "verdicts.jsonl").exists():
        _made("texts", str(texts), str(REAL))
    beside = ("--prompts", str(texts / "bank.jsonl"), "--answers", str(texts / "answers.jsonl"))
    asked = ("--model", str(texts / "responses_newcomer.jsonl"), "--judge", f"recorded/{texts / 'verdicts.jsonl'}")
    placed = _place(row, job, where, "--arena", str(REAL), "--on-bad", "skip", *beside, *asked)
    if placed is not None:
        row.check(_size(job, placed), placed.battles == REAL_ROWS + BATTLES)


# --- What choosing opponents saves -----------------------------------------------------------------------------------


def _choosing(row: Row, plan: Plan) -> None:
    """Battles needed for the same standard error, chosen compared with random opponents, by the tests' simulation."""
    runs = plan.size(200, 10)
    for position in ("top", "middle", "bottom"):
        found = _made("saving", position, str(runs), str(BATTLES))
        beyond = found["ratio"] / found["limit"] - 1
        row.goal(
            f"a model at the {position} of 41 simulated: goal within {100 * MAX_FROM_LIMIT:.0f} % of the limit → "
            f"{BATTLES} chosen battles tell as much as {BATTLES / found['ratio']:.0f} random ones "
            f"({BATTLES / found['known']:.0f} for one who knows its strength, {BATTLES / found['limit']:.0f} if all "
            f"opponents were its equals; {100 * beyond:+.0f} %)",
            beyond < MAX_FROM_LIMIT,
        )
