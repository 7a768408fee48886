"""The contents of a benchmark row, and how it is printed."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench.measure import Answer, Cost

WIDTHS = (40, 46, 9, 9, 9, 12)


@dataclass(frozen=True)
class Line:
    """One measurement: the job, the library, its cost or why there is none. `ours` marks our own."""

    job: str
    who: str
    cost: Cost | None
    ours: bool = False
    problem: str | None = None


@dataclass(frozen=True)
class Verdict:
    """A goal or a check: the sentence with its figure, and whether it holds."""

    text: str
    holds: bool


@dataclass
class Row:
    """One row of the benchmark: measurements, checks that the answers are right, goals for their cost."""

    name: str
    title: str
    lines: list[Line] = field(default_factory=list)
    checks: list[Verdict] = field(default_factory=list)
    goals: list[Verdict] = field(default_factory=list)

    def add(self, job: str, who: str, answer: Answer, *, ours: bool = False) -> Any:
        """Record a measurement; returns its result, or None."""
        self.lines.append(Line(job, who, answer.cost, ours, answer.problem))
        return answer.result

    def check(self, text: str, holds: bool) -> None:
        """Record whether an answer is right."""
        self.checks.append(Verdict(text, holds))

    def goal(self, text: str, holds: bool) -> None:
        """Record whether a goal is met."""
        self.goals.append(Verdict(text, holds))

    def cpu(self, job: str, who: str) -> float | None:
        """CPU seconds of one measurement, if there is one."""
        lines = [line for line in self.lines if (line.job, line.who) == (job, who)]
        return next((line.cost.cpu_seconds for line in lines if line.cost), None)

    def ahead_goal(self, job: str, least: float = 1.0, only: str = "", who: str | None = None) -> None:
        """Record how many times less CPU we used than the best peer (with `only` in its name), if any was measured."""
        lines = [line for line in self.lines if line.job == job and line.cost]
        mine = [line for line in lines if line.ours and who in (None, line.who)]
        theirs = [line for line in lines if not line.ours and only in line.who]
        if not mine or not theirs:
            return
        best = min(theirs, key=lambda line: line.cost.cpu_seconds)
        times = best.cost.cpu_seconds / mine[0].cost.cpu_seconds
        than = f"≥ {least:g}× " if least > 1.0 else "ahead of "
        self.goal(f"{job} ({mine[0].who}): goal {than}{best.who} → {times:.2g}×", times >= least)

    def to_dict(self) -> dict[str, Any]:
        """The row as plain values, with each line's ratio to ours."""
        lines = [asdict(line) | {"ratio_to_ours": ratio} for line, ratio in self.ratios()]
        verdicts = {name: [asdict(item) for item in getattr(self, name)] for name in ("checks", "goals")}
        return {"name": self.name, "title": self.title, "lines": lines, **verdicts}

    def ratios(self) -> Iterator[tuple[Line, float | None]]:
        """Each line with its CPU seconds over those of our first line of the same job."""
        for line in self.lines:
            ours = next((o.cost for o in self.lines if o.job == line.job and o.ours and o.cost), None)
            yield line, line.cost.cpu_seconds / ours.cpu_seconds if ours and line.cost else None


def print_row(row: Row) -> None:
    """Print a row as a table with its checks and goals."""
    print(f"\n{row.name}: {row.title}")
    print("─" * (sum(WIDTHS) + 2 * len(WIDTHS)))
    _print_cells("job", "who", "CPU s", "wall s", "peak MB", "× ours")
    for line, ratio in row.ratios():
        if line.cost is None:
            _print_cells(line.job, line.who, "–", "–", "–", line.problem or "")
            continue
        mark = " est" if line.cost.estimated else ""
        _print_cells(
            line.job,
            line.who,
            seconds(line.cost.cpu_seconds),
            seconds(line.cost.wall_seconds),
            f"{line.cost.peak_mb:,.0f}",
            (f"{ratio:,.2f}" if ratio and ratio < 10 else f"{ratio:,.0f}" if ratio else "") + mark,
        )
    for verdict in row.checks:
        print(f"  {'✔ right' if verdict.holds else '✘ WRONG'}: {verdict.text}")
    for verdict in row.goals:
        print(f"  {'✔ met' if verdict.holds else '✘ not met'}: {verdict.text}")


def print_summary(rows: list[Row]) -> None:
    """Print every goal in one list."""
    print("\nGoals")
    for row in rows:
        for verdict in row.goals:
            print(f"  {'✔' if verdict.holds else '✘'} {row.name:10} {verdict.text}")
    goals = [verdict.holds for row in rows for verdict in row.goals]
    checks = [verdict.holds for row in rows for verdict in row.checks]
    print(f"{sum(goals)} of {len(goals)} goals met, {sum(checks)} of {len(checks)} answers right")


def seconds(value: float) -> str:
    """Three significant digits at most."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.3f}"


def _print_cells(*cells: str) -> None:
    sides = [f"{cell:<{width}}" for cell, width in zip(cells[:2], WIDTHS[:2], strict=True)]
    sides += [f"{cell:>{width}}" for cell, width in zip(cells[2:], WIDTHS[2:], strict=True)]
    print("  ".join(sides))
