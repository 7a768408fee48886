"""`python -m bench [ROW …] [--quick] [--out FILE.json]`: measure, check, print, and save the figures."""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
from importlib import metadata
from pathlib import Path

from bench import (
    adaptive,
    gates,
    labels,
    rows,
    rows_arena,
    rows_files,
    rows_growth,
    rows_judging,
    rows_placement,
    scores,
)
from bench.measure import ONE_THREAD, QUICK, ROOT
from bench.report import Row, print_row, print_summary

RESULTS = ROOT / "bench" / "results"
ROWS = {
    "start": rows_files.start,
    "fit": rows.fit,
    "bootstrap": rows.bootstrap,
    "file": rows_files.file,
    "parquet": rows_files.parquet,
    "score-files": rows_files.score_files,
    "decisions": rows_files.decisions,
    "elo": rows.elo,
    "glicko": rows.glicko,
    "many": rows.many,
    "control": rows.control,
    "coverage": rows.coverage,
    "pooling": rows.pooling,
    "judging": rows_judging.judging,
    "placement": rows_placement.placement,
    "arena": rows_arena.arena,
    "site": rows_arena.site,
}
GROWTH = {
    "growth-battles": rows_growth.battles,
    "growth-models": rows_growth.models,
    "growth-votes": rows_growth.votes,
    "growth-pairs": rows_growth.pairs,
    "watched": rows_arena.watched,
    "gates": gates.gates,
    "labels": labels.labels,
    "adaptive": adaptive.adaptive_rounds,
    "scores": scores.scores,
}
"""Rows that take an hour: run only on request."""
GROWS = ("growth-battles", "growth-votes")
"""What `growth` stands for: how the cost grows with battles and with votes."""
PACKAGES = (
    *("tiltyard", "numpy", "scipy", "duckdb", "numba", "pandas", "pyarrow"),
    *("arena-rank", "evalica", "choix", "glicko2", "anthropic", "aiohttp"),
)


def main() -> int:
    """Run the requested rows; returns 1 if an answer is wrong (a missed goal is a figure, not a failure)."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    named = f"{', '.join(ROWS)} (default: all of these), growth, {', '.join(GROWTH)}"
    parser.add_argument("rows", nargs="*", metavar="ROW", help=f"rows to run: {named}")
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that everything runs")
    parser.add_argument("--out", type=Path, help="where to write the figures (default: bench/results/<date>.json)")
    chosen = parser.parse_args()
    every = ROWS | GROWTH
    chosen.rows = [name for asked in chosen.rows for name in (GROWS if asked == "growth" else (asked,))]
    unknown = sorted(set(chosen.rows) - set(every))
    if unknown:
        parser.error(f"unknown row {unknown[0]}: the rows are {', '.join(every)}")
    plan = rows.Plan(quick=chosen.quick, folder=RESULTS)
    if chosen.quick:
        os.environ[QUICK] = "1"
    about = setting()
    print(f"{about['cpu']}, {about['cores']} cores, Python {about['python']}, {about['date']}")
    out = chosen.out or RESULTS / f"{time.strftime('%Y-%m-%d-%H%M')}{'-quick' if chosen.quick else ''}.json"
    out.parent.mkdir(parents=True, exist_ok=True)
    done: list[Row] = []
    for name in chosen.rows or ROWS:
        row = every[name](plan)
        print_row(row)
        done.append(row)
        figures = {"setting": about, "quick": chosen.quick, "rows": [row.to_dict() for row in done]}
        out.write_text(json.dumps(figures, indent=2, ensure_ascii=False) + "\n")  # a run that is ended keeps its rows
    if chosen.quick:
        print("\nquick sizes: the goals are meant for the full ones")
    print_summary(done)
    print(f"figures: {os.path.relpath(out)}")
    return int(not all(verdict.holds for row in done for verdict in row.checks))


def setting() -> dict[str, object]:
    """The machine and the versions, which every figure depends on."""
    return {
        "date": time.strftime("%Y-%m-%d"),
        "cpu": _cpu(),
        "cores": os.cpu_count(),
        "load": round(os.getloadavg()[0], 1),
        "python": platform.python_version(),
        "one_thread": ONE_THREAD,
        "versions": {name: _version(name) for name in PACKAGES},
    }


def _cpu() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return f"{line.split(':', 1)[1].strip()} ({platform.machine()})"
    return platform.processor() or platform.machine()


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "not installed"


if __name__ == "__main__":
    raise SystemExit(main())
