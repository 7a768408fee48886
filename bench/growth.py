"""Battle files of any size for the row `growth`: `python -m bench.growth PATH BATTLES MODELS` writes one.

The rows are drawn inside DuckDB from the hash of their number, so a hundred million take minutes and little memory, and
the same size is the same file. Strengths are normal with standard deviation 0.8 logits, results follow Davidson's
model, popular models meet more often, four battles share a prompt on average.
"""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

SEED = 20_261_115
NU = 0.4
"""Davidson's ν: about every sixth battle is a tie."""
POPULARITY = 1.5
"""A model's number is drawn as a uniform number to this power: low numbers come more often."""
MEMORY = "1GB"

ROWS = """
    WITH drawn AS (
        SELECT id, {uniform1} AS u1, {uniform2} AS u2, {uniform3} AS u3,
            CAST(floor({uniform4} * {prompts}) AS BIGINT) AS prompt
        FROM range({battles}) AS rows(id)
    ), paired AS (
        SELECT *, CAST(floor({models} * pow(u1, {popularity})) AS INT) AS a FROM drawn
    ), met AS (
        SELECT *, (a + 1 + CAST(floor(({models} - 1) * u2) AS INT)) % {models} AS b FROM paired
    ), decided AS (
        SELECT id, prompt, one.name AS model_a, two.name AS model_b,
            exp(0.5 * (one.strength - two.strength)) AS up, exp(0.5 * (two.strength - one.strength)) AS down,
            u3 * (up + down + {nu}) AS draw
        FROM met JOIN names AS one ON one.number = a JOIN names AS two ON two.number = b
    )
    SELECT model_a, model_b,
        CASE WHEN draw < up THEN 'model_a' WHEN draw < up + down THEN 'model_b' ELSE 'tie' END AS winner,
        'human' AS source, lower(hex(hash(prompt))) AS question_id, 1735689600 + 7 * id AS timestamp,
        ['en', 'en', 'zh', 'de', 'ru', 'ja'][prompt % 6 + 1] AS language
    FROM decided
"""


def write_file(path: Path, battles: int, models: int) -> None:
    """A file of battles, JSON Lines or Parquet by its name, and beside it the true strengths."""
    import duckdb
    import numpy as np

    from bench.data import SPREAD, names_of, truth_of

    strengths = np.random.default_rng([SEED, models]).normal(0.0, SPREAD, models)
    names = names_of(models).tolist()
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(".unfinished")
    uniforms = {f"uniform{salt}": f"(hash(8 * id + {salt}) / 18446744073709551616.0)" for salt in range(1, 5)}
    query = ROWS.format(
        **uniforms, battles=battles, models=models, prompts=max(1, battles // 4), nu=NU, popularity=POPULARITY
    )
    settings = {"memory_limit": MEMORY, "threads": "1", "temp_directory": str(path.parent)}
    with duckdb.connect(config=settings) as connection:
        connection.execute("CREATE TABLE names (number INT, name VARCHAR, strength DOUBLE)")
        connection.executemany(
            "INSERT INTO names VALUES (?, ?, ?)", list(zip(range(models), names, strengths.tolist(), strict=True))
        )
        layout = "FORMAT json" if path.suffix == ".jsonl" else "FORMAT parquet"
        connection.execute(f"COPY ({query}) TO '{unfinished}' ({layout})")
    truth_of(path).write_text(json.dumps(dict(zip(names, (strengths - strengths.mean()).tolist(), strict=True))))
    unfinished.replace(path)


def exponents(sizes: Sequence[float], costs: Sequence[float]) -> list[float | None]:
    """How a cost grows from each size to the next: 0 not at all, 1 in proportion; None for the first."""
    steps = zip(zip(sizes, costs, strict=True), list(zip(sizes, costs, strict=True))[1:], strict=False)
    return [None, *(math.log(after / before) / math.log(large / small) for (small, before), (large, after) in steps)]


def main() -> None:
    """Write one file in a separate process, so that the caller stays small."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("path", type=Path)
    parser.add_argument("battles", type=int)
    parser.add_argument("models", type=int)
    chosen = parser.parse_args()
    write_file(chosen.path, chosen.battles, chosen.models)


if __name__ == "__main__":
    main()
