"""Do pooled categories predict unseen battles better than boards fitted apart, or than one board for all?

On real battles nobody knows the truth, so half of them are held out: the log loss of their decisive results. The data
is not part of the repository; without it the row says so.
"""

from __future__ import annotations

import csv
import gzip
import math
from typing import Any

import numpy as np

from bench.jobs import job
from bench.measure import ROOT, Task

DATA = ROOT.parent / "shared" / "data"
FLAGS = ("math", "creative_writing", "technical_accuracy", "real_world")
SIZES = (3_000, 10_000, 30_000)


@job
def predict(splits: int) -> Task:
    """Log loss on held-out battles by data set and size."""
    return Task(lambda: {name: held_out(*source, splits) for name, source in sources().items()}, repeats=1)


def sources() -> dict[str, tuple[list[dict[str, str]], str, int | None]]:
    """Rows, the column that is held out by, and how many rows are rated (None: half of them)."""
    found: dict[str, tuple[list[dict[str, str]], str, int | None]] = {}
    if (DATA / "llmfao").is_dir():
        found["llmfao by prompt, half of the workers"] = (crowd(), "voter", None)
    if (DATA / "arena_140k").is_dir():
        votes = arena()
        for size in SIZES:
            found[f"arena_140k by kind of prompt, {size:,} battles"] = (votes, "", size)
    return found


def crowd() -> list[dict[str, str]]:
    """Votes of llmfao's workers: 59 models, 13 prompts."""
    words = {"left": "model_a", "right": "model_b", "tie": "tie"}
    with (DATA / "llmfao" / "crowd-comparisons.csv").open() as file:
        return [
            {
                "model_a": row["left"],
                "model_b": row["right"],
                "winner": words[row["winner"]],
                "source": "human",
                "category": row["prompt"],
                "voter": row["worker"],
            }
            for row in csv.DictReader(file)
        ]


def arena() -> list[dict[str, str]]:
    """Chatbot Arena votes, each under the first of a few kinds of prompt that it has."""
    with gzip.open(DATA / "arena_140k" / "battles.csv.gz", "rt") as file:
        return [
            {
                "model_a": row["model_a"],
                "model_b": row["model_b"],
                "winner": row["winner"],
                "source": "human",
                "category": next((flag for flag in FLAGS if row[flag] == "1"), "other"),
            }
            for row in csv.DictReader(file)
            if row["model_a"] != row["model_b"] and row["winner"] != "both_bad"
        ]


def held_out(rows: list[dict[str, str]], by: str, size: int | None, splits: int) -> dict[str, float]:
    """Mean log loss of one board for all, of boards apart and of pooled ones, over random splits; and the pool's sd."""
    found = []
    for seed in range(splits):
        rng = np.random.default_rng(seed)
        if by:
            values = sorted({row[by] for row in rows})
            mine = set(rng.permutation(values)[: len(values) // 2].tolist())
            known = np.array([row[by] in mine for row in rows])
        else:
            known = np.zeros(len(rows), dtype=bool)
            known[rng.permutation(len(rows))[:size]] = True
        found.append(losses([rows[i] for i in np.flatnonzero(known)], [rows[i] for i in np.flatnonzero(~known)]))
    return {name: float(np.mean([one[name] for one in found])) for name in found[0]}


def losses(known: list[dict[str, str]], unseen: list[dict[str, str]]) -> dict[str, float]:
    """The log loss of decisive unseen battles whose models all three have rated."""
    import tiltyard as ty

    plain = ty.BradleyTerry(misfit=False)
    table = ty.read_battles(known)
    whole = plain.fit(table).ratings
    apart = ty.rate_by(table, "category", ty.BradleyTerry(misfit=False, only_connected=True))
    pooled = ty.rate_by(table, "category", plain, pool=True)
    boards: dict[str, Any] = {
        "whole": dict.fromkeys(pooled, whole),
        "apart": {value: board.ratings for value, board in apart.items()},
        "pooled": {value: board.ratings for value, board in pooled.items()},
    }
    scores: dict[str, list[float]] = {name: [] for name in boards}
    for row in unseen:
        gaps = {name: _gap(by_value.get(row["category"], {}), row) for name, by_value in boards.items()}
        if row["winner"] in ("model_a", "model_b") and None not in gaps.values():
            sign = 1.0 if row["winner"] == "model_a" else -1.0
            for name, gap in gaps.items():
                scores[name].append(math.log1p(math.exp(-sign * gap)))
    settings = next(iter(pooled.values())).settings
    return {name: float(np.mean(loss)) for name, loss in scores.items()} | {
        "sd": settings["pool"]["sd"],
        "unseen": float(len(scores["whole"])),
    }


def _gap(ratings: dict[str, float], row: dict[str, str]) -> float | None:
    if row["model_a"] not in ratings or row["model_b"] not in ratings:
        return None
    return (ratings[row["model_a"]] - ratings[row["model_b"]]) * math.log(10.0) / 400.0
