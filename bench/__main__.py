"""`python -m bench [ROW …] [--quick] [--out FILE.json]`: measure, check, print, and save the figures.

`python -m bench --page FILE.json` puts saved figures into docs/project/benchmarks.md instead of measuring.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import signal
import sys
import time
import traceback
from importlib import metadata
from pathlib import Path
from typing import Any

from bench import (
    adaptive,
    arena,
    coverage,
    files,
    gates,
    growth,
    judging,
    panels,
    placement,
    ratings,
    scores,
    website,
)
from bench.measure import ONE_THREAD, QUICK, RESULTS, ROOT, Row

ROWS = {
    "start": files.start,
    "fit": ratings.fit,
    "bootstrap": ratings.bootstrap,
    "file": files.file,
    "parquet": files.parquet,
    "score-files": files.score_files,
    "decisions": files.decisions,
    "elo": ratings.elo,
    "glicko": ratings.glicko,
    "many": ratings.many,
    "control": ratings.control,
    "coverage": coverage.coverage,
    "pooling": coverage.pooling,
    "judging": judging.judging,
    "placement": placement.placement,
    "arena": arena.arena,
    "site": website.site,
}
LONG = {
    "growth-battles": growth.battles,
    "growth-models": growth.models,
    "growth-votes": growth.votes,
    "growth-pairs": growth.pairs,
    "watched": arena.watched,
    "gates": gates.gates,
    "labels": gates.labels,
    "adaptive": adaptive.adaptive,
    "scores": scores.scores,
    "panels": panels.panels,
}
"""Rows that take up to an hour: run only on request."""
GROWTH = ("growth-battles", "growth-votes")
"""What `growth` stands for: how the cost grows with battles and with votes."""
PACKAGES = (
    *("tiltyard", "numpy", "scipy", "duckdb", "numba", "pandas", "pyarrow"),
    *("arena-rank", "evalica", "choix", "glicko2", "anthropic", "aiohttp"),
)
PAGE = ROOT / "docs" / "project" / "benchmarks.md"
MARKS = "<!-- figures -->", "<!-- end of figures -->"
WIDTHS = (40, 46, 9, 9, 9, 12)


def main() -> int:
    """Run the requested rows; returns 1 if an answer is wrong (a missed goal is a figure, not a failure)."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    named = f"{', '.join(ROWS)} (default: all of these), growth, {', '.join(LONG)}"
    parser.add_argument("rows", nargs="*", metavar="ROW", help=f"rows to run: {named}")
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that everything runs")
    parser.add_argument("--out", type=Path, help="where to write the figures (default: bench/results/<date>.json)")
    parser.add_argument("--page", type=Path, metavar="FILE.json", help="put saved figures into the manual")
    options = parser.parse_args()
    if options.page:
        write_page(json.loads(options.page.read_text()), PAGE)
        return 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what is being measured is ended too
    chosen = [name for asked in options.rows for name in (GROWTH if asked == "growth" else (asked,))]
    unknown = sorted(set(chosen) - set(ROWS | LONG))
    if unknown:
        parser.error(f"unknown row {unknown[0]}: the rows are {', '.join(ROWS | LONG)}")
    out = options.out or RESULTS / f"{time.strftime('%Y-%m-%d-%H%M')}{'-quick' * options.quick}.json"
    done = run(chosen or list(ROWS), out, quick=options.quick)
    if options.quick:
        print("\nquick sizes: the goals are meant for the full ones")
    print("\nGoals")
    for row in done:
        for goal in row.goals:
            print(f"  {'✔' if goal.holds else '✘'} {row.name:10} {goal.text}")
    goals, checks = ([one.holds for row in done for one in getattr(row, kind)] for kind in ("goals", "checks"))
    print(f"{sum(goals)} of {len(goals)} goals met, {sum(checks)} of {len(checks)} answers right")
    print(f"figures: {os.path.relpath(out)}")
    return int(not all(checks))


def run(names: list[str], out: Path, *, quick: bool, folder: Path = RESULTS) -> list[Row]:
    """Measure, print and save rows. A row that fails has a wrong answer; a run that is ended keeps its rows."""
    if quick:
        os.environ[QUICK] = "1"  # for the measured processes too
    about = setting()
    print(f"{about['cpu']}, {about['cores']} cores, Python {about['python']}, {about['date']}")
    out.parent.mkdir(parents=True, exist_ok=True)
    done: list[Row] = []
    for name in names:
        row = Row(name, quick, folder)
        try:
            (ROWS | LONG)[name](row)
        except Exception as error:  # the other rows do not depend on it
            traceback.print_exc()
            row.check(f"could not be measured: {type(error).__name__}: {error}", holds=False)
        print_row(row)
        done.append(row)
        figures = {"setting": about, "quick": quick, "rows": [row.to_dict() for row in done]}
        out.write_text(json.dumps(figures, indent=2, ensure_ascii=False) + "\n")
    return done


def setting() -> dict[str, object]:
    """The machine and the versions, which every figure depends on."""
    cpu, info, known = platform.processor() or platform.machine(), Path("/proc/cpuinfo"), {}
    if info.exists() and (found := re.search(r"^model name\s*: (.*)$", info.read_text(), re.MULTILINE)):
        cpu = f"{found[1].strip()} ({platform.machine()})"
    for name in PACKAGES:
        try:
            known[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            known[name] = "not installed"
    return {
        "date": time.strftime("%Y-%m-%d"),
        "cpu": cpu,
        "cores": os.cpu_count(),
        "load": round(os.getloadavg()[0], 1),
        "python": platform.python_version(),
        "one_thread": ONE_THREAD,
        "versions": known,
    }


def cells(line: dict[str, Any]) -> tuple[str, str, str, str]:
    """CPU and wall seconds, peak memory, and how many times our cost it is; or why it was not measured."""
    cost, ratio = line["cost"], line["ratio_to_ours"]
    if cost is None:
        return "–", "–", "–", line["problem"]
    times = "" if ratio is None else f"{ratio:,.2f}" if ratio < 10 else f"{ratio:,.0f}"
    mark = " est" if cost["estimated"] else ""
    return seconds(cost["cpu_seconds"]), seconds(cost["wall_seconds"]), f"{cost['peak_mb']:,.0f}", times + mark


def seconds(value: float) -> str:
    """Three significant digits at most."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.3f}"


def print_row(row: Row) -> None:
    print(f"\n{row.name}: {row.title}")
    print("─" * (sum(WIDTHS) + 2 * len(WIDTHS)))
    lines = [(line["job"], line["who"], *cells(line)) for line in row.to_dict()["lines"]]
    for line in [("job", "who", "CPU s", "wall s", "peak MB", "× ours"), *lines]:
        parts = (f"{cell:{'<' if at < 2 else '>'}{WIDTHS[at]}}" for at, cell in enumerate(line))
        print("  ".join(parts))
    for kind, good, bad in (("checks", "✔ right", "✘ WRONG"), ("goals", "✔ met", "✘ not met")):
        for verdict in getattr(row, kind):
            print(f"  {good if verdict.holds else bad}: {verdict.text}")


def write_page(figures: dict[str, Any], page: Path) -> None:
    """Figures as tables between the two marks of a page. Rows that were not run stay as they are; each fresh one then
    states when and how it was measured."""
    before, rest = page.read_text(encoding="utf-8").split(MARKS[0])
    old, after = rest.split(MARKS[1])
    about = (
        "Measured on {date}: {cpu}, {cores} cores shared with other work (load {load:g} at the start), Python {python}"
    )
    about = about.format(**figures["setting"])
    about += f"; {', '.join(f'{name} {version}' for name, version in figures['setting']['versions'].items())}."
    head, *tables = re.split(r"^(?=### `)", old, flags=re.MULTILINE)
    kept = {table.split("`", 2)[1]: table.strip() for table in tables}
    fresh = {row["name"]: table(row) for row in figures["rows"]}
    if set(kept) <= set(fresh):
        head, kept = about, fresh
    else:
        kept |= {name: text.replace("\n\n", f"\n\n{about}\n\n", 1) for name, text in fresh.items()}
    text = "\n\n".join([head.strip(), *kept.values()])
    page.write_text(f"{before}{MARKS[0]}\n{text}\n{MARKS[1]}{after}", encoding="utf-8")


def table(row: dict[str, Any]) -> str:
    """A row of a record in Markdown, with its checks and goals."""
    lines = [f"### `{row['name']}`: {row['title']}", "", "| job | who | CPU s | wall s | peak MB | × ours |"]
    lines.append("|---|---|--:|--:|--:|--:|")
    for line in row["lines"]:
        who = f"**{line['who']}**" if line["ours"] else line["who"]
        lines.append(f"| {line['job']} | {who} | {' | '.join(cells(line))} |")
    lines.append("")
    lines += [f"- {'right' if check['holds'] else '**wrong**'}: {check['text']}" for check in row["checks"]]
    lines += [f"- {'met' if goal['holds'] else '**not met**'}: {goal['text']}" for goal in row["goals"]]
    return "\n".join(lines)


if __name__ == "__main__":
    raise SystemExit(main())
