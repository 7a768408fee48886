"""One job in a separate process: `python -m bench.worker JOB OPTIONS` prints its cost and result as JSON."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict

import bench.adaptive
import bench.coverage
import bench.gates
import bench.judging
import bench.labels
import bench.pooling
import bench.scores
import bench.watched  # noqa: F401 - these list their jobs
from bench.jobs import JOBS
from bench.measure import measure


def main() -> None:
    """Run the job; a peer that is not installed is a result, not an error."""
    name, options = sys.argv[1], json.loads(sys.argv[2])
    said = {"cost": None, "result": None, "problem": None}
    try:
        task = JOBS[name](**options)
        cost, value = measure(task)
        said |= {"cost": asdict(cost), "result": task.result(value)}
    except ModuleNotFoundError as error:
        said["problem"] = f"{error.name} is not installed"
    print(json.dumps(said))


if __name__ == "__main__":
    main()
