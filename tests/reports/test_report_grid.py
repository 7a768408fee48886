"""Prompt by prompt in a run's report: the cells follow from the verdicts, and lead to them."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

from page_tree import Node, Page, read_page
from run_folders import ENTRANTS, make_run
from tests.browsers import Tab

from tiltyard.render import environment
from tiltyard.reports import GridCell, GridRow, grid, own_file, sections, write_report
from tiltyard.reports.grid import ChangeCell


def lines(table: Node) -> dict[str, list[Node]]:
    """The cells of every row by the prompt's id, which stands below its text."""
    found = {}
    for row in table.one("tbody").all("tr"):
        found[row.one("th").one("small").text.split(" · ")[0]] = row.all("td")
    return found


def test_every_cell_is_counted_from_the_verdicts_and_leads_to_them(run_folder: Path, page: Page) -> None:
    for name, table in zip(("factuality", "clarity"), page["results"].all("table"), strict=True):
        heads = [node.text for node in table.one("thead").all("th")][1:]
        assert set(heads) == set(ENTRANTS)
        counts: dict[tuple[str, str], Counter[str]] = {}
        for line in (run_folder / "verdicts" / f"{name}.jsonl").read_text().splitlines():
            judgment = json.loads(line)
            for entrant in (judgment["entrant_a"], judgment["entrant_b"]):
                if judgment["status"] == "ok":
                    result = "tied" if judgment["winner"] is None else judgment["winner"] == entrant
                    counts.setdefault((judgment["prompt_id"], entrant), Counter())[str(result)] += 1
        cells = {
            (prompt, entrant): cell
            for prompt, row in lines(table).items()
            for entrant, cell in zip(heads, row, strict=True)
        }
        assert len(cells) == 30 * 4
        for key, cell in cells.items():
            count = counts[key]
            assert cell.one("small").text == f"{count['True']}–{count['False']}–{count['tied']}"
            lean = count["True"] - count["False"]
            assert cell.text.startswith("▲" if lean > 0 else "▼" if lean < 0 else "=")
            assert cell.one("a").attrs["href"][1:] in page.ids


def test_prompts_that_separate_the_entrants_come_first(page: Page) -> None:
    for table in page["results"].all("table"):
        spreads = []
        for row in lines(table).values():
            shares = [int(cell.text.split()[1]) for cell in row]
            spreads.append(max(shares) - min(shares))
        assert spreads == sorted(spreads, reverse=True)


def test_a_cell_of_one_battle_leads_to_that_battle(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run", n_prompts=6, entrants=("heron-8b", "otter-70b"), dimensions=("clarity",))
    page = read_page(write_report(folder).read_text(encoding="utf-8"))
    assert not page["results"].all("details")
    links = {cell.one("a").attrs["href"] for row in lines(page["results"]).values() for cell in row}
    assert links == {f"#b{number}" for number in range(6)}


def test_prompts_beyond_what_a_page_holds_are_named(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(sections, "MOST_CELLS", 32)
    page = read_page(write_report(make_run(tmp_path / "run", n_prompts=12)).read_text(encoding="utf-8"))
    assert [len(lines(table)) for table in page["results"].all("table")] == [4, 4]
    assert "8 prompts on which the entrants differ least are left out" in page["results"].text


def test_the_rest_of_a_long_grid_is_folded_and_sorted_with_the_others(tab: Tab, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(grid, "LONG", 8)
    path = write_report(make_run(tmp_path / "run", n_prompts=12))
    page = read_page(path.read_text(encoding="utf-8"))
    assert [len(lines(table)) for table in page["results"].all("table")] == [8, 4, 8, 4]
    assert page["results"].all("details", "rest")[0].one("summary").text == "4 more prompts"
    tab.open(path)
    assert tab.evaluate("document.querySelectorAll('#results table').length") == 2
    assert tab.evaluate("document.querySelector('#results tbody').rows.length") == 12
    tab.evaluate("document.querySelectorAll('#results thead button')[4].click()")
    rows = "[...document.querySelector('#results tbody').rows]"
    counts = f"{rows}.map(r => r.cells[4].querySelector('small').textContent)"
    nets = [int(won) - int(lost) for won, lost, _ in (text.split("–") for text in tab.evaluate(counts))]
    assert nets == sorted(nets)
    assert nets[0] < nets[-1]
    tab.scripts(on=False)
    tab.open(path, "results")
    assert "4 more prompts" in tab.shown(), "a link into a folded section opens it"
    assert tab.complaints == []


def test_cells_are_sorted_by_what_they_say_and_not_by_what_stands_below(tab: Tab, tmp_path: Path) -> None:
    """In the text of a cell "+17" and the "5 %" below it are next to each other."""
    means = [(0.05, 0.22), (0.29, 0.04), (0.33, 0.35), (0.5, 0.5), (0.33, 0.30)]
    changes = [ChangeCell(after - before, (before, after)) for before, after in means]
    even = [GridCell(score, 0, 0, 1) for score in (0.7, 0.3, 0.6, 0.4)]
    results = [*even, GridCell(None, 0, 0, 0, both_bad=2)]
    rows = [GridRow(f"p{at}", cells) for at, cells in enumerate(zip(changes, results, strict=True))]
    shown = grid.grid([("change", "where it fell"), ("result", "where it lost")], rows, label="all")
    path = tmp_path / "grid.html"
    drawn = environment().get_template("render/macros.html").module.grid(shown)
    path.write_text(f"<!doctype html><body>{drawn}<script>{own_file('grid.js')}</script></body>", encoding="utf-8")
    tab.open(path)
    for place, expected in ((1, ["p1", "p4", "p3", "p2", "p0"]), (2, ["p1", "p3", "p4", "p2", "p0"])):
        tab.evaluate(f"document.querySelectorAll('thead button')[{place}].click()")
        assert tab.evaluate("[...document.querySelector('tbody').rows].map(r => r.cells[0].innerText)") == expected
