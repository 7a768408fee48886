"""Synthetic battles with known truth, generated once and cached in a folder.

Strengths are normal with standard deviation 0.8 logits, models appear with power-law frequencies, results follow
Davidson's model with ν chosen so that 15 % are ties. Four battles share a prompt on average. Everything follows from
the seed. Files are written by DuckDB from numpy chunks, so memory use does not depend on the number of rows.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bench.measure import in_child

SEED = 20_250_101
SPREAD = 0.8
TIE_SHARE = 0.15
BATTLES_PER_PROMPT = 4
CHUNK = 500_000
FAMILIES = ("otter", "heron", "lynx", "marten", "plover", "ibex", "tapir", "osprey", "civet", "dunlin")
SIZES = ("1b", "3b", "7b", "13b", "34b", "70b", "8x22b", "mini", "pro", "ultra")
CONTROLS = ("len", "headers", "bold", "lists")
CONTROL_TRUTH = (0.25, 0.05, 0.10, -0.05)
"""The effect of one standard deviation of each style difference, in logits."""


@dataclass(frozen=True)
class Battles:
    """Codes into `names`, `result` 0 = A won, 1 = B won, 2 = tie, the prompt's number, and the true log-strengths."""

    names: np.ndarray
    truth: np.ndarray
    a: np.ndarray
    b: np.ndarray
    result: np.ndarray
    prompt: np.ndarray


def names_of(n_models: int) -> np.ndarray:
    """Names as long as real ones: otter-3-70b-chat-0412."""
    kinds = len(FAMILIES) * len(SIZES)
    return np.array(
        [
            f"{FAMILIES[i % 10]}-{1 + i // kinds}-{SIZES[i // 10 % 10]}-{'instruct' if i % 3 else 'chat'}-{i:04d}"
            for i in range(n_models)
        ],
        dtype=object,
    )


@dataclass(frozen=True)
class World:
    """The distribution that battles are drawn from."""

    truth: np.ndarray
    exposure: np.ndarray
    nu: float

    @classmethod
    def of(cls, n_models: int, rng: np.random.Generator) -> World:
        """Strengths, exposures, and the ν that makes 15 % of battles ties."""
        truth = rng.normal(0.0, SPREAD, n_models)
        truth -= truth.mean()
        exposure = rng.permutation((np.arange(n_models) + 5.0) ** -0.8)
        world = cls(truth, exposure / exposure.sum(), 1.0)
        a, b = world.pairs(200_000, rng)
        half = 0.5 * (truth[a] - truth[b])
        low, high = 1e-3, 10.0
        for _ in range(60):
            nu = 0.5 * (low + high)
            low, high = (nu, high) if (nu / (2.0 * np.cosh(half) + nu)).mean() < TIE_SHARE else (low, nu)
        return cls(truth, world.exposure, nu)

    def pairs(self, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Pairs of different models, each model as often as its exposure says."""
        m = len(self.truth)
        a = rng.choice(m, n, p=self.exposure).astype(np.int32)
        b = rng.choice(m, n, p=self.exposure).astype(np.int32)
        same = np.flatnonzero(a == b)
        while len(same):
            b[same] = rng.choice(m, len(same), p=self.exposure)
            same = same[a[same] == b[same]]
        return a, b

    def results(self, delta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Davidson results for these log-odds."""
        up, down = np.exp(0.5 * delta), np.exp(-0.5 * delta)
        draw = rng.random(len(delta)) * (up + down + self.nu)
        return np.where(draw < up, 0, np.where(draw < up + down, 1, 2)).astype(np.int8)


def battles(n: int, n_models: int) -> Battles:
    """`n` battles of `n_models` models, in memory."""
    rng = np.random.default_rng([SEED, n, n_models])
    world = World.of(n_models, rng)
    parts = [chunk(world, min(CHUNK, n - start), n, rng) for start in range(0, n, CHUNK)]
    a, b, result, prompt = (np.concatenate(column) for column in zip(*parts, strict=True))
    return Battles(names_of(n_models), world.truth, a, b, result, prompt)


def chunk(world: World, size: int, n: int, rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    """The next battles: two codes, result, prompt number."""
    a, b = world.pairs(size, rng)
    result = world.results(world.truth[a] - world.truth[b], rng)
    prompt = rng.integers(max(1, n // BATTLES_PER_PROMPT), size=size).astype(np.int32)
    return a, b, result, prompt


def decisive(n: int, n_models: int) -> Battles:
    """`n` battles without ties, for permutation Elo."""
    every = battles(int(n * 1.3), n_models)
    keep = np.flatnonzero(every.result != 2)[:n]
    return Battles(every.names, every.truth, every.a[keep], every.b[keep], every.result[keep], every.prompt[keep])


def styled(n: int, n_models: int) -> tuple[Battles, dict[str, np.ndarray]]:
    """Battles in which style sways the voter: codes, and for each control the two sides' values."""
    rng = np.random.default_rng([SEED, n, n_models, 4])
    world = World.of(n_models, rng)
    a, b = world.pairs(n, rng)
    delta = world.truth[a] - world.truth[b]
    columns: dict[str, np.ndarray] = {}
    for name, worth in zip(CONTROLS, CONTROL_TRUTH, strict=True):
        sides = rng.gamma(2.0, 200.0 if name == "len" else 2.0, (2, n)).round() + 1.0
        columns[f"{name}_a"], columns[f"{name}_b"] = sides
        delta = delta + worth * style_difference(sides[0], sides[1])
    result = world.results(delta, rng)
    return Battles(names_of(n_models), world.truth, a, b, result, np.zeros(n, dtype=np.int32)), columns


def style_difference(side_a: np.ndarray, side_b: np.ndarray) -> np.ndarray:
    """(a − b) / (a + b) in units of its standard deviation."""
    share = (side_a - side_b) / (side_a + side_b)
    return share / share.std()


def pair_counts(n_models: int, n_pairs: int) -> dict[str, np.ndarray]:
    """Counts of exactly `n_pairs` distinct pairs of many models: first, second, (won, lost, tied), truth."""
    rng = np.random.default_rng([SEED, n_models, n_pairs])
    world = World.of(n_models, rng)
    keys = np.zeros(0, dtype=np.int64)
    while len(keys) < n_pairs:
        a, b = world.pairs(n_pairs, rng)
        keys = np.unique(np.concatenate([keys, np.minimum(a, b).astype(np.int64) * n_models + np.maximum(a, b)]))
    keys = np.sort(rng.choice(keys, n_pairs, replace=False))
    first, second = keys // n_models, keys % n_models
    met = 1 + rng.poisson(1.0, n_pairs)
    row = np.repeat(np.arange(n_pairs), met)
    result = world.results((world.truth[first] - world.truth[second])[row], rng)
    counts = np.bincount(row * 3 + result, minlength=3 * n_pairs).reshape(n_pairs, 3).astype(np.float64)
    return {"first": first, "second": second, "counts": counts, "truth": world.truth}


# --- Files -----------------------------------------------------------------------------------------------------------

ROWS = """
    SELECT left_name.name AS model_a, right_name.name AS model_b,
        ['model_a', 'model_b', 'tie'][result + 1] AS winner, 'human' AS source, md5('prompt ' || prompt) AS question_id,
        {voter}NULL AS judge_model, 1735689600 + 7::BIGINT * id + prompt % 7 AS timestamp,
        ['en', 'en', 'zh', 'de', 'ru', 'ja'][prompt % 6 + 1] AS language,
        ['writing', 'coding', 'maths'][prompt % 3 + 1] AS category
    FROM codes JOIN names AS left_name ON left_name.rowid = a JOIN names AS right_name ON right_name.rowid = b
"""
VOTER = "'v' || lpad((hash(id) % 40000)::VARCHAR, 6, '0') AS voter, "
"""40,000 people."""
SMALL = {"memory_limit": "500MB", "threads": "1"}


def battle_file(folder: Path, kind: str, n: int, n_models: int, *, voters: bool = False) -> Path:
    """The battles of `battles(n, n_models)` as JSON Lines or Parquet, generated first if the file does not exist."""
    path = folder / f"battles-{n}-{n_models}{'-voters' * voters}.{kind}"
    return generated(path, write_battles, path=path, n=n, n_models=n_models, voters=voters)


def score_file(folder: Path, n: int, percent: int) -> Path:
    """One model's answers to `n` prompts as JSON Lines, about `percent` of them right; its mean is the truth."""
    path = folder / f"scores-{n}-{percent}.jsonl"
    return generated(path, write_scores, path=path, n=n, percent=percent)


def generated(path: Path, write: Any, /, **options: Any) -> Path:
    """A path that a function writes, in a process of its own, unless it exists."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        problem = in_child(write, **options).problem
        if problem:
            raise RuntimeError(f"{path} could not be written: {problem}")
    return path


def truth_of(path: Path) -> Path:
    """The true strengths behind a battle file."""
    return path.with_suffix(".truth.json")


def write_battles(path: str, n: int, n_models: int, voters: bool) -> None:
    import duckdb

    to, rng = Path(path), np.random.default_rng([SEED, n, n_models])
    world, names = World.of(n_models, rng), names_of(n_models).tolist()
    store, unfinished = to.with_suffix(".duckdb"), to.with_suffix(".unfinished")
    store.unlink(missing_ok=True)
    with duckdb.connect(str(store), config=SMALL) as connection:
        connection.execute("CREATE TABLE codes (id INT, a INT, b INT, result TINYINT, prompt INT)")
        for start in range(0, n, CHUNK):
            columns: dict[str, Any] = dict(
                zip(("a", "b", "result", "prompt"), chunk(world, min(CHUNK, n - start), n, rng), strict=True)
            )
            columns["id"] = np.arange(start, start + len(columns["a"]), dtype=np.int32)
            connection.register("part", columns)
            connection.execute("INSERT INTO codes SELECT id, a, b, result, prompt FROM part")
        connection.execute("CREATE TABLE names AS SELECT unnest(?) AS name", [names])
        layout = "json" if to.suffix == ".jsonl" else "parquet"
        rows = ROWS.format(voter=VOTER if voters else "")
        connection.execute(f"COPY ({rows}) TO '{unfinished}' (FORMAT {layout})")
    truth_of(to).write_text(json.dumps(dict(zip(names, world.truth.tolist(), strict=True))))
    store.unlink()
    unfinished.replace(to)


def write_scores(path: str, n: int, percent: int) -> None:
    import duckdb

    right = (np.random.default_rng([SEED, n, percent]).random(n) < percent / 100).astype(np.int8)
    with duckdb.connect(config=SMALL) as connection:
        connection.register("answers", {"id": np.arange(n, dtype=np.int32), "correct": right})
        texts = "md5('prompt ' || id) AS id, correct, ['writing', 'coding', 'maths'][id % 3 + 1] AS category"
        connection.execute(f"COPY (SELECT {texts} FROM answers) TO '{path}' (FORMAT json)")
    truth_of(Path(path)).write_text(json.dumps(float(right.mean())))
