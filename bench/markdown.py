"""Figures into the manual: `python -m bench.markdown FIGURES.json` rewrites the tables of docs/project/benchmarks.md.

A run of some rows replaces only those, or adds them at the end; each then states when and how it was measured.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

from bench.measure import ROOT
from bench.report import seconds

PAGE = ROOT / "docs" / "project" / "benchmarks.md"
START, END = "<!-- figures -->", "<!-- end of figures -->"


def markdown(figures: dict[str, Any], page: str = "") -> str:
    """Every row as a table, with its checks and missed goals; rows of the page that were not run are unchanged."""
    head, *tables = re.split(r"^(?=### `)", page, flags=re.MULTILINE)
    kept = {_name(table): table.strip() for table in tables}
    fresh = {row["name"]: _row(row) for row in figures["rows"]}
    about = _setting(figures["setting"])
    if set(kept) <= set(fresh):
        return "\n\n".join([about, *fresh.values()])
    for name, table in fresh.items():
        kept[name] = table.replace("\n\n", f"\n\n{about}\n\n", 1)
    return "\n\n".join([head.strip(), *kept.values()])


def _name(table: str) -> str:
    return table.split("`", 2)[1]


def _setting(about: dict[str, Any]) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in about["versions"].items())
    load = f" (load {about['load']:g} at the start)" if "load" in about else ""
    return (
        f"Measured on {about['date']}: {about['cpu']}, {about['cores']} cores shared with other work{load}, "
        f"Python {about['python']}; {versions}."
    )


def _row(row: dict[str, Any]) -> str:
    lines = [f"### `{row['name']}`: {row['title']}", "", "| job | who | CPU s | wall s | peak MB | × ours |"]
    lines.append("|---|---|--:|--:|--:|--:|")
    for line in row["lines"]:
        who = f"**{line['who']}**" if line["ours"] else line["who"]
        lines.append(f"| {line['job']} | {who} | {_cells(line)} |")
    lines.append("")
    lines += [f"- {'right' if check['holds'] else '**wrong**'}: {check['text']}" for check in row["checks"]]
    lines += [f"- **not met**: {goal['text']}" for goal in row["goals"] if not goal["holds"]]
    return "\n".join(lines)


def _cells(line: dict[str, Any]) -> str:
    cost, ratio = line["cost"], line["ratio_to_ours"]
    if cost is None:
        return f"– | – | – | {line['problem']}"
    mark = " est" if cost["estimated"] else ""
    times = "" if ratio is None else f"{ratio:,.2f}" if ratio < 10 else f"{ratio:,.0f}"
    wall = seconds(cost["wall_seconds"])
    return f"{seconds(cost['cpu_seconds'])} | {wall} | {cost['peak_mb']:,.0f} | {times}{mark}"


def main() -> None:
    """Put the tables between the two marks."""
    figures = json.loads(Path(sys.argv[1]).read_text())
    page = PAGE.read_text()
    before, rest = page.split(START)
    old, after = rest.split(END)
    PAGE.write_text(f"{before}{START}\n{markdown(figures, old)}\n{END}{after}")


if __name__ == "__main__":
    main()
