"""What the tests of battles share: a few rows, files of every kind, and when two tables are the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from tiltyard.data.battles import BattleTable, Codes

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

TEXT_KINDS = ("jsonl", "jsonl.gz", "csv", "csv.gz", "tsv")
KINDS = (*TEXT_KINDS, "parquet")


def rows() -> list[dict[str, Any]]:
    """Four battles that use every optional column at least once."""
    return [
        {
            "model_a": "otter",
            "model_b": "heron",
            "winner": "model_a",
            "source": "human",
            "question_id": "q1",
            "language": "English",
            "timestamp": 1700000000.5,
            "len_a": 120,
            "len_b": 80,
        },
        {
            "model_a": "heron",
            "model_b": "crane",
            "winner": "tie",
            "source": "llm-judge",
            "question_id": "q2",
            "judge_model": "judge-1",
            "dimension": "factuality",
            "inconsistent": True,
            "len_a": 10,
            "len_b": 30,
        },
        {
            "model_a": "crane",
            "model_b": "otter",
            "winner": "model_b",
            "source": "llm-judge",
            "question_id": "q1",
            "score_a": 0.25,
            "weight": 2,
            "category": "maths",
            "battle_id": "b3",
        },
        {"model_a": "otter", "model_b": "crane", "winner": "tie (bothbad)", "source": "human", "question_id": "q3"},
    ]


def write_raw(path: Path, table: Iterable[Mapping[str, Any]]) -> Path:
    """Write rows as they are, good or bad, to a file of any kind: nothing of Tiltyard is used."""
    import csv
    import gzip
    import io

    table = list(table)
    name = path.name.removesuffix(".gz")
    if name.endswith(".parquet"):
        import polars

        names = list(dict.fromkeys(key for row in table for key in row))
        polars.DataFrame({key: [row.get(key) for row in table] for key in names}, strict=False).write_parquet(path)
        return path
    if name.endswith(".jsonl"):
        content = msgspec.json.Encoder().encode_lines(table)
    else:
        names = list(dict.fromkeys(key for row in table for key in row))
        text = io.StringIO()
        writer = csv.DictWriter(text, names, delimiter="\t" if name.endswith(".tsv") else ",")
        writer.writeheader()
        writer.writerows(table)
        content = text.getvalue().encode()
    path.write_bytes(gzip.compress(content) if path.name.endswith(".gz") else content)
    return path


def same(one: BattleTable, other: BattleTable) -> bool:
    """True when two tables hold the same battles, row by row."""
    return (
        one.models == other.models
        and set(one.columns) == set(other.columns)
        and (one.score_a is None) == (other.score_a is None)
        and all(
            np.array_equal(getattr(one, name), getattr(other, name))
            for name in ("model_a", "model_b", "outcome", "source", "weight")
        )
        and (one.score_a is None or np.array_equal(one.score_a, other.score_a, equal_nan=True))
        and all(_same_column(column, other.columns[name]) for name, column in one.columns.items())
    )


def _same_column(one: Any, other: Any) -> bool:
    if isinstance(one, Codes) or isinstance(other, Codes):
        return isinstance(one, Codes) and isinstance(other, Codes) and one.texts() == other.texts()
    return np.array_equal(one, other, equal_nan=True)
