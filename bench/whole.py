"""What a user of a peer would write: a battle file in, ratings with intervals out, as one process.

`python -m bench.whole PEER FILE ROUNDS` prints ratings as JSON. Files are read by pandas with its fastest engine.
"""

from __future__ import annotations

import importlib.util
import json
import sys
from typing import Any

import numpy as np


def read(path: str) -> Any:
    """The file as a frame."""
    import pandas

    engine = "pyarrow" if importlib.util.find_spec("pyarrow") else "ujson"
    return pandas.read_json(path, lines=True, engine=engine)


def main() -> None:
    """Rate the file."""
    from bench import peers

    peer, path, rounds = sys.argv[1], sys.argv[2], int(sys.argv[3])
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
