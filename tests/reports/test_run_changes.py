"""The page of two runs: who moved, the grid of changes, and the answers then and now."""

from __future__ import annotations

from pathlib import Path

import pytest
from page_tree import Page, read_page, rows
from run_folders import ENTRANTS, SCRIPT, make_run
from tests.browsers import Tab
from tests.reports.placement_folders import Shape, make_placement

import tiltyard as ty
from tiltyard.analysis.decisions import RunComparison
from tiltyard.reports import comparison, comparison_page, read_run, run_behind, runs_page


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    base = tmp_path_factory.mktemp("two")
    return make_run(base / "today", n_prompts=12, seed=8), make_run(base / "before", n_prompts=12, seed=7)


@pytest.fixture(scope="module")
def found(folders: tuple[Path, Path]) -> RunComparison:
    return ty.compare(*folders)


@pytest.fixture(scope="module")
def page(folders: tuple[Path, Path], found: RunComparison) -> Page:
    return read_page(runs_page(found, new=read_run(folders[0]), old=read_run(folders[1])))


def test_every_entrant_is_there_with_its_change(found: RunComparison, page: Page) -> None:
    assert page.root.one("p", "lead").text.lower() == found.sentence.lower()
    lines = rows(page["changes"])
    assert set(lines) == set(ENTRANTS)
    for change in found.changes:
        assert f"{change.rating_old:.0f}" in lines[change.entrant].text
        assert f"{change.rating_new:.0f}" in lines[change.entrant].text
    assert "measured from the mean of all shared entrants" in page["changes"].text


def test_a_cell_is_now_minus_then_and_leads_to_both_answers(
    folders: tuple[Path, Path], found: RunComparison, page: Page
) -> None:
    assert all(link.startswith("#") and link[1:] in page.ids for link in page.links)
    heads = [node.text for node in page["prompts"].one("thead").all("th")][1:]
    body = page["prompts"].one("tbody").all("tr")
    assert len(body) == 12
    for row in body:
        prompt = row.one("th").one("small").text.split(" · ")[0]
        for place, (name, cell) in enumerate(zip(heads, row.all("td"), strict=True)):
            score = next(one for one in found[name].prompts if one.prompt == prompt)
            assert score.change is not None
            percent = f"{100 * (score.old_score or 0):.0f} % → {100 * (score.new_score or 0):.0f} %"
            assert cell.one("small").text == percent
            assert cell.text[0] == ("▲" if score.change > 1e-9 else "▼" if score.change < -1e-9 else "=")
            assert bool(cell.all("a")) is (place < 3)
    runs = [read_run(folder) for folder in folders]
    view = page[page["prompts"].one("tbody").all("a")[0].attrs["href"][1:]]
    prompt = view.one("h3").text
    shown = [node.text for node in view.all("div", "response")]
    for run in runs:
        assert run.answers[prompt, heads[0]] in shown or "(empty)" in shown
    assert f"{heads[0]} then: 6 judgments" in view.text


def test_what_models_wrote_is_text(page: Page) -> None:
    assert len(page.root.all("script")) == 1
    assert not page.root.all("img")
    assert SCRIPT in page["views"].text


def test_without_run_folders_the_grid_has_no_answers(folders: tuple[Path, Path]) -> None:
    found = ty.compare(*(folder / "battles.jsonl" for folder in folders))
    page = read_page(runs_page(found))
    assert not page["views"].children
    assert len(page["prompts"].one("tbody").all("tr")) == 12
    assert not page["prompts"].all("a")


def test_what_does_not_fit_is_said(
    folders: tuple[Path, Path], found: RunComparison, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(comparison, "ROOM_FOR_TEXTS", 100_000)
    monkeypatch.setattr(comparison, "COLUMNS", 3)
    page = read_page(runs_page(found, new=read_run(folders[0]), old=read_run(folders[1])))
    left = page["prompts"].one("p", "omitted").text
    views = page["views"].all("article")
    assert 0 < len(views) < 12
    assert f"The answers to {12 - len(views)} prompts" in left
    assert "1 entrant with the smallest changes have no column" in left
    assert all(link[1:] in page.ids for link in page.links)


def test_the_grid_of_changes_is_sorted_and_filtered(
    tab: Tab, folders: tuple[Path, Path], found: RunComparison, tmp_path: Path
) -> None:
    path = tmp_path / "runs.html"
    text = runs_page(found, new=read_run(folders[0]), old=read_run(folders[1]))
    path.write_text(text, encoding="utf-8")
    tab.open(path)
    shown = "[...document.querySelector('.grid-table tbody').rows].map(r => r.cells[2].innerText.split('\\n')[0])"
    tab.evaluate("document.querySelectorAll('.grid-table thead button')[2].click()")
    values = [int(text.split()[1].replace("−", "-")) for text in tab.evaluate(shown)]
    assert len(values) == 12
    assert values == sorted(values)
    tab.evaluate("const l = document.querySelector('.losses'); l.value = '2'; l.dispatchEvent(new Event('change'))")
    assert [int(text.split()[1].replace("−", "-")) for text in tab.evaluate(shown)] == [v for v in values if v < 0]
    tab.screen(390, 844)
    assert tab.evaluate("document.documentElement.scrollWidth") <= 390
    assert tab.complaints == []


def test_a_placement_has_answers_behind_its_battles_too(tmp_path: Path) -> None:
    folder = make_placement(tmp_path / "placed", Shape(n_human=400))
    run = run_behind(folder)
    new, old = run.battles[0].entrants
    table = ty.read_battles(folder / "battles.jsonl")
    page = read_page(comparison_page(ty.compare(new, old, battles=table), table, run=run))
    assert page["views"].all("article")
    assert all(link[1:] in page.ids for link in page.links)
