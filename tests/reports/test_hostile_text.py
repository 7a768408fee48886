"""Hostile text in every field of every file that we write: nothing runs, nothing is loaded, nothing becomes a link."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import msgspec
import numpy as np
import pytest
from markdown_it import MarkdownIt
from run_folders import make_run
from tests.arena.small_worlds import START, Log, honest_chooser, new_log, play
from tests.browsers import Tab
from tests.reports.placement_folders import make_placement
from tests.within import run

from tiltyard.arena import WeeklyReport, weekly_report
from tiltyard.arena import events as e
from tiltyard.arena.study import period_of_log
from tiltyard.reports import weekly_markdown, weekly_page, write_report

HOSTILE = (
    "=1+1 </script></style></title><script>alert(1)</script><img src=http://127.0.0.1:9/x onerror=alert(2)>"
    "\"'><svg onload=alert(3)><a href=javascript:alert(4)>x</a> [l](http://evil.example/) ![i](http://evil.example/i)"
    " http://evil.example www.evil.example @someone **b** ` | \\| {{7*7}} --> ]]> \x07"
)
NAMES = tuple(f"{sign}{place}{HOSTILE}" for place, sign in enumerate("=+-@"))
SAFE_POLICY = re.compile(r"default-src 'none'; style-src 'sha256-[^']+';( script-src 'sha256-[^']+';)?[^<>]*")


@pytest.fixture(scope="module")
def battle_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Battles all of whose texts are hostile."""
    rng, path = np.random.default_rng(3), tmp_path_factory.mktemp("hostile") / "votes.jsonl"
    rows = []
    for number in range(240):
        a, b = rng.choice(len(NAMES), 2, replace=False).tolist()
        row = {"model_a": NAMES[a], "model_b": NAMES[b], "winner": ("model_a", "model_b", "tie")[number % 5 % 3]}
        fields = ("question_id", "voter", "category", "language", "judge", "dimension", "prompt")
        row |= {
            name: f"{name} {number % 12 if place < 2 else number % 2} {HOSTILE}" for place, name in enumerate(fields)
        }
        row["dimension"] = f"dimension {HOSTILE}"
        rows.append(row | {"source": ("human", "llm-judge")[number % 2], "timestamp": 1_700_000_000 + 3600 * number})
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory, battle_file: Path) -> Path:
    """A folder with every file that commands make of such battles, and the reports of a run of such entrants."""
    folder, file = tmp_path_factory.mktemp("written"), str(battle_file)

    def do(*arguments: str) -> None:
        done = run(folder, *arguments)
        assert done.returncode in (0, 3), (arguments[0], done.stderr)

    for suffix in ("html", "svg", "csv", "md", "tex", "json"):
        do("rate", file, "--out", f"board.{suffix}")
    do("rate", file, "--by", "category", "--format", "md", "--out", "boards.md")
    do("rate", file, "--by", "category", "--format", "csv", "--out", "boards.csv")
    for suffix in ("html", "md"):
        do("compare", NAMES[0], NAMES[1], "--in", file, "--out", f"difference.{suffix}")
    do("gate", NAMES[0], NAMES[1], "--in", file, "--markdown", "gate.md", "--junit", "gate.xml")
    do("plan", NAMES[0], NAMES[1], "--in", file, "--out", "plan.md")
    do("plan", "--top", "2", "--in", file, "--out", "top.md")
    rows = [
        {"id": f"{n} {HOSTILE}", "model": name, f"clear {HOSTILE}": (n + place * n) % 3 / 2, "category": HOSTILE}
        for n in range(30)
        for place, name in enumerate(NAMES)
    ]
    (folder / "scores.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    scores = ("--in", "scores.jsonl", "--map", "prompt=id", "--score", f"clear {HOSTILE}")
    do("rate", *scores[1:], "--out", "scores.md")
    do("compare", NAMES[0], NAMES[1], *scores, "--by", "category", "--out", "scores-two.md")
    do("compare", NAMES[0], NAMES[1], *scores, "--out", "scores-two.html")
    do("plan", NAMES[0], NAMES[1], *scores, "--out", "scores-plan.md")
    do("publish", file, "site", "--title", HOSTILE.replace("\x07", ""))
    entrants = tuple(name.replace("/", "∕") for name in NAMES)  # names of files, too
    made = make_run(folder / "run", n_prompts=8, entrants=entrants, dimensions=("clarity",))
    manifest = json.loads((made / "manifest.json").read_text(encoding="utf-8"))
    (made / "manifest.json").write_text(json.dumps(_hostile(manifest)), encoding="utf-8")
    write_report(made)
    write_report(make_placement(folder / "placement"))
    week = _week()
    for name, render in (("week.html", weekly_page), ("week.md", weekly_markdown)):
        (folder / name).write_text(render(week), encoding="utf-8")
    return folder


def _week() -> WeeklyReport:
    """The report of an arena whose models and prompts have hostile names."""
    rng = np.random.default_rng(4)
    plain, log = new_log(5, 3), Log()
    play(plain, 150, rng, honest_chooser(rng, np.linspace(200.0, -200.0, 5)))
    plain.say(e.Flagged(subject="voter", subject_id="v003", flag="fast", detail=HOSTILE))
    for event in plain.events:
        log.say(msgspec.convert(_renamed(msgspec.to_builtins(event.body)), type(event.body)))
    return weekly_report(*period_of_log(log.events, START))


def _renamed(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _renamed(each) for key, each in value.items()}
    return re.sub(r"\b[mp]0\d\b", lambda found: f"{found[0]}{HOSTILE}", value) if isinstance(value, str) else value


def _hostile(value: object) -> object:
    """The same with a hostile end at every text that is no key, name, path, time or version."""
    if isinstance(value, dict):
        return {
            key: _hostile(each) if key in ("title", "question", "note", "judge_model") else each
            for key, each in value.items()
        }
    return f"{value} {HOSTILE}" if isinstance(value, str) else value


def test_no_page_runs_or_loads_anything_and_each_refuses_foreign_scripts(tab: Tab, written: Path) -> None:
    dialogs: list[str] = []
    tab._page.on("dialog", lambda dialog: (dialogs.append(dialog.message), dialog.dismiss()))
    pages = sorted(written.rglob("*.html"))
    assert len(pages) > 8
    for page in pages:
        policy = re.search(
            r'<meta http-equiv="Content-Security-Policy" content="([^"]*)"', page.read_text("utf-8")[:2000]
        )
        assert policy, page
        assert SAFE_POLICY.fullmatch(policy[1].replace("&#39;", "'")), policy[1]
        tab.open(page)
        assert (tab.complaints, dialogs) == ([], []), page
    assert {url for url in tab.requests if not url.startswith(("file:", "about:", "data:"))} == set()


def test_nothing_in_a_picture_runs(tab: Tab, written: Path) -> None:
    for picture in written.rglob("*.svg"):
        root = ElementTree.fromstring(picture.read_bytes())
        assert not [
            one for one in root.iter() if one.tag.rpartition("}")[2] in ("script", "foreignObject", "image", "a")
        ]
        assert not [name for one in root.iter() for name in one.attrib if name.lower().startswith("on")]
        tab.open(picture)
    assert tab.complaints == []


def test_markdown_has_no_link_no_html_and_no_broken_table(written: Path) -> None:
    reader = MarkdownIt("commonmark").enable("table")
    files = sorted(written.rglob("*.md"))
    assert len(files) > 3
    for file in files:
        text = file.read_text(encoding="utf-8")
        made = reader.render(text)
        assert re.findall(r"<(?:a|img|script|svg)\b", made) == [], file
        assert "://" not in text, file
        assert "www.evil" not in text, file
        assert "@someone" not in text, file
        for table in re.findall(r"<table>.*?</table>", made, re.DOTALL):
            assert (
                len({row.count("<td") + row.count("<th") for row in re.findall(r"<tr>.*?</tr>", table, re.DOTALL)}) == 1
            )


def test_csv_keeps_names_as_data_and_junit_is_xml(written: Path) -> None:
    with (written / "board.csv").open(encoding="utf-8", newline="") as file:
        assert {row["model"] for row in csv.DictReader(file)} == set(NAMES)
    suite = ElementTree.parse(written / "gate.xml").getroot()
    assert suite.tag == "testsuite"
    assert {one.tag for one in suite.iter()} <= {"testsuite", "testcase", "failure", "skipped", "system-out"}
