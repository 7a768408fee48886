"""What is not imported costs nothing: `tiltyard` starts without what it does not use."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.forked import PATIENCE_SECONDS

STAGES = """
import json, sys

seen = []
def stage(*arguments):
    if arguments:
        from tiltyard.cli.main import main
        sys.argv = ["tiltyard", *arguments]
        try:
            main()
        except SystemExit as end:
            assert not end.code, end.code
    seen.append(sorted({name.split(".")[0] for name in sys.modules}))
import tiltyard

from tests.forked import PATIENCE_SECONDS
stage()
stage("--help")
stage("rate", sys.argv[1], "--out", sys.argv[2])
stage("rate", sys.argv[1], "--out", sys.argv[2], "--cluster", "none")
stage("rate", sys.argv[1], "--out", sys.argv[2], "--method", "glicko2")
json.dump(seen, open(sys.argv[2], "w"))
"""

NUMBERS = {"numpy", "msgspec", "typer", "pydantic"}
HEAVY = {"altair", "duckdb", "numba", "pandas", "polars", "pyarrow", "rich", "scipy"}


def test_commands_import_only_what_they_use(tmp_path: Path) -> None:
    """`rate` on a small file needs no DuckDB and no SciPy, an unbeaten model and no circle of wins included."""
    battles, out = tmp_path / "battles.jsonl", tmp_path / "seen.json"
    met = [
        ("otter", "heron", "model_a"),
        ("heron", "crane", "tie"),
        ("crane", "heron", "model_a"),
        ("lynx", "otter", "model_a"),
    ]
    rows = [
        {"model_a": a, "model_b": b, "winner": won, "source": "human", "question_id": f"q{at % 3}"}
        for at, (a, b, won) in enumerate(met * 5)
    ]
    battles.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    command = [
        sys.executable,
        "-c",
        STAGES.replace("sys.argv[1]", repr(str(battles))).replace("sys.argv[2]", repr(str(out))),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE_SECONDS)
    assert done.returncode == 0, done.stderr
    imported, helped, *rated = map(set, json.loads(out.read_text(encoding="utf-8")))
    assert not imported & (NUMBERS | HEAVY)
    assert not helped & (NUMBERS | HEAVY)
    assert not any(seen & HEAVY for seen in rated)
