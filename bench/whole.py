"""What a user of a peer would write: a battle file in, ratings with intervals out, as one process.

`python -m bench.whole PEER FILE ROUNDS` prints ratings as JSON. Files are read by pandas with its fastest engine.
`columns`, `scores` and `sha256` instead of a peer do what nobody can leave out: reading the columns, hashing the file.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np


def read(path: str) -> Any:
    """The file as a frame."""
    import pandas

    engine = "pyarrow" if importlib.util.find_spec("pyarrow") else "ujson"
    return pandas.read_json(path, lines=True, engine=engine)


def columns(path: str) -> dict[str, Any]:
    """The largest hash of every column that ratings by prompt and voter need, by DuckDB: no less can be read."""
    import duckdb

    names = ["model_a", "model_b", "winner", "source", "question_id"]
    source = f"'{path}'"
    if path.endswith(".jsonl"):
        names.append("voter")
        texts = ", ".join(f"{name}: 'VARCHAR'" for name in names)
        source = f"read_json({source}, format = 'newline_delimited', columns = {{{texts}}})"
    query = f"SELECT {', '.join(f'max(hash({name}))' for name in names)} FROM {source}"
    with duckdb.connect(config={"memory_limit": "384MB"}) as connection:
        return dict(zip(names, connection.execute(query).fetchone() or (), strict=True))


def scores(path: str) -> dict[str, Any]:
    """The mean of a column of scores, its prompts and categories read and kept as well, by DuckDB."""
    import duckdb

    source = f"read_json('{path}', format = 'newline_delimited', columns = {{id: 'VARCHAR', correct: 'DOUBLE', "
    with duckdb.connect() as connection:
        connection.execute(f"CREATE TEMP TABLE kept AS SELECT * FROM {source}category: 'VARCHAR'}})")
        return {"mean": (connection.execute("SELECT avg(correct) FROM kept").fetchone() or (None,))[0]}


def sha256(path: str) -> dict[str, Any]:
    """The hash of the file, which every board states."""
    with Path(path).open("rb") as file:
        return {"sha256": hashlib.file_digest(file, "sha256").hexdigest()}


def main() -> None:
    """Rate the file."""
    from bench import peers

    peer, path, rounds = sys.argv[1], sys.argv[2], int(sys.argv[3])
    floors = {"columns": columns, "scores": scores, "sha256": sha256}
    if peer in floors:
        print(json.dumps(floors[peer](path)))
        return
    frame = read(path)
    if peer == "arena-rank":
        names, strengths, _ = peers.arena_rank_fit(frame, intervals=True)
        ratings = peers.centred(names, strengths)
    elif peer == "evalica":
        ratings = peers.evalica_fit(frame)
        if rounds:
            peers.evalica_bootstrap(frame, rounds)
    else:
        method = peers.FastChat(frame)
        ratings = peers.centred(method.names, method.fit())
        every = np.array([method.fit(weight) for weight in method.drawn(rounds)])
        np.quantile(every, [0.025, 0.975], axis=0)
    print(json.dumps(ratings))


if __name__ == "__main__":
    main()
