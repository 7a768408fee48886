"""Growth into the manual: `python -m bench.growth_page FIGURES.json …` rewrites tables of docs/project/benchmarks.md.

A table is between `<!-- NAME -->` and `<!-- end of NAME -->`, where NAME is its row; rows that were not run are
unchanged.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

from bench.growth import exponents
from bench.measure import ROOT
from bench.report import seconds

PAGE = ROOT / "docs" / "project" / "benchmarks.md"
MANY_CHECKS = 6
SIZE = re.compile(r"^(.*?)([\d,]+)$")


def table(row: dict[str, Any], about: dict[str, Any]) -> str:
    """A row as one table: for every method the sizes, and how the cost grew from the previous size."""
    by_way: dict[tuple[str, str], list[tuple[int, dict[str, Any]]]] = {}
    for line in row["lines"]:
        found = SIZE.match(line["job"])
        if found is not None:
            way = (found[1].strip(), line["who"].removeprefix("tiltyard, "))
            by_way.setdefault(way, []).append((int(found[2].replace(",", "")), line))
    return "\n".join(
        [
            f"{row['title']}. Measured on {about['date']}, {about['cpu']}, {about['cores']} cores shared with others.",
            "",
            "| what grows | how | size | CPU s | grows as | peak MB | grows as |",
            "|---|---|--:|--:|--:|--:|--:|",
            *(line for (what, way), sizes in by_way.items() for line in _way(what, way, sizes)),
            "",
            *_checks(row["checks"]),
        ]
    )


def _checks(checks: list[dict[str, Any]]) -> list[str]:
    """Each check as text; if there are many and all hold, only their number."""
    if len(checks) > MANY_CHECKS and all(check["holds"] for check in checks):
        return [f"- all {len(checks)} answers are right: {re.sub(r'^.*?: ', '', checks[-1]['text'])} for the last"]
    return [f"- {'right' if check['holds'] else '**wrong**'}: {check['text']}" for check in checks]


def _way(what: str, way: str, sizes: list[tuple[int, dict[str, Any]]]) -> list[str]:
    measured = [(size, line["cost"]) for size, line in sizes if line["cost"] is not None]
    numbers = [size for size, _ in measured]
    cpu = exponents(numbers, [max(cost["cpu_seconds"], 1e-3) for _, cost in measured])
    memory = exponents(numbers, [max(cost["peak_mb"], 1.0) for _, cost in measured])
    lines = []
    for (size, cost), cpu_power, memory_power in zip(measured, cpu, memory, strict=True):
        cells = [f"{size:,}", seconds(cost["cpu_seconds"]), _power(cpu_power)]
        cells += [f"{cost['peak_mb']:,.0f}", _power(memory_power)]
        lines.append(f"| {what} | {way} | {' | '.join(cells)} |")
    missing = [(size, line["problem"]) for size, line in sizes if line["cost"] is None]
    return lines + [f"| {what} | {way} | {size:,} | – | | – | {why} |" for size, why in missing]


def _power(exponent: float | None) -> str:
    """`n^0.93`: how the cost grew from the previous size to this one."""
    return "" if exponent is None else f"n^{round(exponent, 2) + 0.0:.2f}"


def main() -> None:
    """Put each table between its marks."""
    page = PAGE.read_text(encoding="utf-8")
    for name in sys.argv[1:]:
        figures = json.loads(Path(name).read_text())
        for row in figures["rows"]:
            start, end = f"<!-- {row['name']} -->", f"<!-- end of {row['name']} -->"
            if start in page:
                before, rest = page.split(start)
                page = f"{before}{start}\n\n{table(row, figures['setting'])}\n\n{end}{rest.split(end)[1]}"
    PAGE.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
