"""The benchmark measures what it says, writes it down, and hides no failure."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from bench import __main__ as benchmark
from bench import measure
from bench.measure import QUICK, Cost, Line, Row, Task, in_child, whole_process

LINE = {"job", "who", "cost", "ours", "problem", "ratio_to_ours"}
COST = {"cpu_seconds", "wall_seconds", "peak_mb", "estimated", "round_cpu_seconds", "round_wall_seconds"}
FAMILIES = ("decisions",)
LONG_FAMILIES = (
    *("scores", "growth-votes"),
    *("fit", "coverage", "judging", "placement", "arena", "site"),
    *("growth-pairs", "gates", "adaptive", "panels", "watched"),
)


def recorded(names: list[str], folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.setenv(QUICK, "1")
    benchmark.run(names, folder / "record.json", quick=True, folder=folder)
    return json.loads((folder / "record.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", [*FAMILIES, *(pytest.param(name, marks=pytest.mark.soak) for name in LONG_FAMILIES)])
@pytest.mark.timeout(900)
def test_a_quick_row_is_measured_right_and_recorded(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record = recorded([name], tmp_path, monkeypatch)
    (row,) = record["rows"]
    assert (record["quick"], row["name"], record["setting"]["one_thread"]) == (True, name, measure.ONE_THREAD)
    assert [check["text"] for check in row["checks"] if not check["holds"]] == []
    assert row["checks"] or row["goals"]
    assert all(line.keys() == LINE for line in row["lines"])
    ours = [line["cost"] for line in row["lines"] if line["ours"] and line["cost"]]
    assert ours
    assert all(cost.keys() == COST and cost["cpu_seconds"] > 0 and cost["peak_mb"] > 1 for cost in ours)


def test_a_row_that_fails_is_recorded_as_wrong_and_the_next_one_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(row: Row) -> None:
        row.add("first", "tiltyard", whole_process([sys.executable, "-c", "pass"]), ours=True)
        raise RuntimeError("no such battles")

    monkeypatch.setitem(benchmark.ROWS, "broken", broken)
    monkeypatch.setitem(benchmark.ROWS, "sound", lambda row: row.check("two is two", holds=True))
    failed, sound = recorded(["broken", "sound"], tmp_path, monkeypatch)["rows"]
    assert failed["checks"] == [{"text": "could not be measured: RuntimeError: no such battles", "holds": False}]
    assert [line["job"] for line in failed["lines"]] == ["first"], "what was measured before is kept"
    assert sound["checks"] == [{"text": "two is two", "holds": True}]
    monkeypatch.setattr(sys, "argv", ["bench", "broken", "--quick", "--out", str(tmp_path / "again.json")])
    assert benchmark.main() == 1


def fails() -> None:
    raise ValueError("not a battle")


def lacks_a_peer() -> None:
    import a_peer_that_nobody_has  # noqa: F401


def counts_to(n: int) -> Task:
    return Task(
        lambda: sum(1 for _ in range(n)),
        lambda count: {"count": count},
        each=lambda _: sum(range(n)),
        rounds=9,
        rounds_run=2,
    )


def test_ours_may_not_fail_and_a_peer_may_be_missing() -> None:
    row = Row("some")
    assert row.ours("job", "tiltyard", fails) is None
    assert row.peer("job", "other", lacks_a_peer) is None
    assert [line.problem for line in row.lines] == [
        "ValueError: not a battle",
        "a_peer_that_nobody_has is not installed",
    ]
    assert [(check.text, check.holds) for check in row.checks] == [("job, tiltyard: ValueError: not a battle", False)]


def test_a_task_is_timed_alone_and_its_rounds_are_extrapolated() -> None:
    answer = in_child(counts_to, n=10_000)
    assert answer.result == {"count": 10_000}
    assert answer.cost is not None
    assert answer.cost.estimated
    assert answer.cost.wall_seconds >= 9 * answer.cost.round_wall_seconds > 0
    assert answer.cost.wall_seconds < 1.0, "its imports are not counted"


def test_memory_is_that_of_the_measured_process_however_much_the_measuring_one_holds() -> None:
    held = b"x" * 300_000_000
    answer = whole_process([sys.executable, "-S", "-c", "pass"])
    assert answer.cost is not None
    assert answer.cost.peak_mb < 60 < len(held) / 2**20


def test_what_takes_too_long_is_ended_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure, "MOST_SECONDS", 0.5)
    answer = whole_process([sys.executable, "-c", "import time; time.sleep(600)"])
    assert (answer.cost, answer.problem) == (None, "ended after 0.5 s")


def test_a_saved_record_replaces_its_own_tables_of_the_page(tmp_path: Path) -> None:
    def record(*rows: Row) -> dict[str, Any]:
        return {"setting": benchmark.setting(), "quick": False, "rows": [row.to_dict() for row in rows]}

    def row(name: str, seconds: float) -> Row:
        return Row(name, title="a title", lines=[Line("fit", "tiltyard", Cost(seconds, 2.0, 30.0), ours=True)])

    page = tmp_path / "page.md"
    page.write_text("# Page\n\n<!-- figures -->\n<!-- end of figures -->\n\nThe end.\n", encoding="utf-8")
    benchmark.write_page(record(row("one", 1.5), row("two", 2.5)), page)
    benchmark.write_page(record(row("two", 3.5)), page)
    text = page.read_text(encoding="utf-8")
    tables = [line for line in text.splitlines() if line.startswith("| fit")]
    assert tables == [
        "| fit | **tiltyard** | 1.500 | 2.000 | 30 | 1.00 |",
        "| fit | **tiltyard** | 3.500 | 2.000 | 30 | 1.00 |",
    ]
    assert text.count("Measured on") == 2, "of the first run, and of the row that was run again"
    assert text.endswith("<!-- end of figures -->\n\nThe end.\n")
