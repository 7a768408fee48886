"""The page of a difference: its numbers, its grid of prompts × models, and what stands behind a cell."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from page_tree import Page, read_page, rows
from run_folders import NASTY, SCRIPT
from tests.browsers import Tab
from tests.sizes import size

import tiltyard as ty
from tiltyard.render import CONTROLS
from tiltyard.reports import GridCell, comparison, comparison_page, read_run
from tiltyard.reports.grid import cells_by_prompt

NEW, OLD = "otter-70b", "heron-8b"


def battle(a: str, b: str, winner: str, prompt: str | None, **more: Any) -> dict[str, Any]:
    return {"model_a": a, "model_b": b, "winner": winner, "source": "llm-judge", "question_id": prompt, **more}


def duel(n: int = 130) -> list[dict[str, Any]]:
    """v2 against v1 and a third: on prompt i, v2 loses i % 4 of three battles with v1, wins the others."""
    found = []
    for i in range(n):
        kind = ("code", "chat")[i % 2]
        found += [battle("v2", "v1", "model_b" if j < i % 4 else "model_a", f"q{i}", category=kind) for j in range(3)]
        found.append(battle("v1", "base", ("model_a", "tie", "model_b")[i % 3], f"q{i}", category=kind))
        found.append(battle("base", "v2", ("model_a", "model_b")[i % 2], f"q{i}", category=kind))
    return found


@pytest.fixture(scope="session")
def judged_page(run_folder: Path) -> str:
    table = ty.read_battles(run_folder / "battles.jsonl")
    return comparison_page(ty.compare(NEW, OLD, battles=table), table, run=read_run(run_folder))


@pytest.fixture(scope="session")
def duel_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    table = ty.read_battles(duel())
    path = tmp_path_factory.mktemp("duel") / "compare.html"
    texts = {f"q{i}": f"Question number {i}" for i in range(130)} | {"q5": "A long one. " * 40 + "The end."}
    path.write_text(comparison_page(ty.compare("v2", "v1", battles=table), table, texts=texts), encoding="utf-8")
    return path


def page_of(battles: list[dict[str, Any]], new: str = "v2", old: str = "v1", **more: Any) -> Page:
    table = ty.read_battles(battles)
    return read_page(comparison_page(ty.compare(new, old, battles=table), table, **more))


def cell(page: Page, prompt: str, place: int) -> str:
    found = [row for row in page["prompts"].one("tbody").all("tr") if row.one("th").text.startswith(prompt)]
    assert len(found) == 1
    return [node.text for node in found[0].all("td")][place]


def test_a_cell_is_the_mean_result_with_its_counts() -> None:
    table = ty.read_battles(
        [
            battle("a", "b", "model_a", "p"),
            battle("b", "a", "tie", "p"),
            battle("b", "c", "model_a", "p"),
            battle("a", "c", "tie (bothbad)", "p"),
            battle("a", "b", "model_b", "q"),
            battle("a", "b", "model_b", None),
        ]
    )
    cells = cells_by_prompt(table, ("b", "a"))
    assert cells == {
        "p": [GridCell(0.5, 1.0, 1.0, 1.0), GridCell(0.75, 1.0, 0.0, 1.0, 1.0)],
        "q": [GridCell(1.0, 1.0, 0.0, 0.0), GridCell(0.0, 0.0, 1.0, 0.0)],
    }
    assert cells_by_prompt(table, ("c",))["p"] == [GridCell(0.0, 0.0, 1.0, 0.0, 1.0)]


def test_soft_outcomes_and_weights_count_as_they_are() -> None:
    table = ty.read_battles([battle("a", "b", "model_a", "p", score_a=0.7, weight=3), battle("a", "b", "model_b", "p")])
    (cell,) = cells_by_prompt(table, ("a",))["p"]
    assert cell == GridCell(pytest.approx(2.1 / 4), 3.0, 1.0, 0.0)


def test_the_sentence_comes_first_and_both_estimates_follow() -> None:
    table = ty.read_battles(duel())
    found = ty.compare("v2", "v1", battles=table)
    page = read_page(comparison_page(found, table))
    assert page.root.one("p", "lead").text.lower() == found.sentence.lower()
    numbers = rows(page["numbers"])
    assert set(numbers) == {"against each other", "all battles"}
    assert f"{found.difference:+.0f}".replace("-", "−") in numbers["all battles"].text
    assert "390" in numbers["against each other"].text
    assert {"code", "chat"} == set(rows(page["by-0"]))
    assert "95 % intervals by prompt" in page["numbers"].text


def test_rows_begin_with_the_heaviest_losses_and_say_them_without_color() -> None:
    page = page_of(duel(9))
    names = [row.one("th").text for row in page["prompts"].one("tbody").all("tr")]
    assert {name.split("c")[0] for name in names[:2]} == {"q3", "q7"}
    assert cell(page, "q3", 0) == "▼ 0 %0–3–0"
    assert cell(page, "q0", 0) == "▲ 100 %3–0–0"
    heads = [node.text for node in page["prompts"].one("thead").all("th")]
    assert heads == ["prompt", "v2 against v1", "v2 minus v1", "v2", "v1", "base"]


def test_models_that_never_met_are_compared_through_the_field() -> None:
    battles = [
        battle(model, "base", winner, f"q{i}")
        for i in range(12)
        for model, winner in (("v2", "model_a" if i % 3 else "model_b"), ("v1", "model_b" if i % 3 else "model_a"))
    ]
    page = page_of(battles)
    assert "never met" in page["numbers"].text
    heads = [node.text for node in page["prompts"].one("thead").all("th")]
    assert heads == ["prompt", "v2 minus v1", "v2", "v1", "base"]
    assert cell(page, "q0", 0) == "▼ −100"
    assert cell(page, "q2", 0) == "▲ +100"


def test_two_models_alone_need_no_field() -> None:
    page = page_of([battle("v2", "v1", "model_a" if i % 3 else "model_b", f"q{i}") for i in range(12)])
    assert [node.text for node in page["prompts"].one("thead").all("th")] == ["prompt", "v2 against v1"]
    assert set(rows(page["numbers"])) == {"against each other"}


def test_battles_without_prompts_and_prompts_of_both_bad_battles_alone() -> None:
    page = page_of([battle("v2", "v1", "model_a" if i % 3 else "model_b", None) for i in range(12)])
    assert "do not say which prompt" in page["prompts"].text
    assert not page["prompts"].all("table")
    page = page_of(
        [battle("v2", "v1", "model_a" if i % 3 else "model_b", f"q{i}") for i in range(12)]
        + [battle("v2", "v1", "tie (bothbad)", "bad")]
    )
    assert cell(page, "bad", 0) == "both bad0–0–0, 1 bad"


def test_names_prompts_and_categories_that_try_to_break_out_are_text() -> None:
    new, old = "<script>v2</script>", 'v1" onmouseover="alert(1)'
    battles = [
        battle(new, old, "model_a" if i % 3 else "model_b", NASTY[i] or "e", category=NASTY[i % 3]) for i in range(8)
    ]
    page = page_of(battles, new, old, texts={name: f"</th>{SCRIPT}{name}" for name in NASTY})
    assert len(page.root.all("script")) == 1
    assert not page.root.all("img")
    assert not [node for node in page.root.walk() if any(name.startswith("on") for name in node.attrs)]
    assert page.root.one("h1").text == f"{new} against {old}"
    assert "<script>alert('from an answer')</script>" in page["prompts"].text


def test_every_prompt_leads_to_both_answers_and_the_judges_words(run_folder: Path, judged_page: str) -> None:
    page = read_page(judged_page)
    assert all(link.startswith("#") and link[1:] in page.ids for link in page.links)
    assert len(page["prompts"].one("tbody").all("tr")) == 30
    matches = (run_folder / "matches" / "matches.jsonl").read_text(encoding="utf-8").splitlines()
    prompts = list(dict.fromkeys(json.loads(line)["prompt_id"] for line in matches))
    for line in (run_folder / "verdicts" / "clarity.jsonl").read_text().splitlines():
        judgment = json.loads(line)
        if {judgment["entrant_a"], judgment["entrant_b"]} == {NEW, OLD}:
            view = page[f"p{prompts.index(judgment['prompt_id'])}"]
            said = [node.text for node in view.all("div", "reasoning")]
            for verdict in judgment["raw"]:
                assert (verdict["reasoning"].translate(CONTROLS) or "(empty)") in said
            assert [node.text.split()[0] for node in view.all("h4")][:2] == [NEW, OLD]


def test_what_does_not_fit_is_left_out_and_said(run_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparison, "ROOM_FOR_TEXTS", 150_000)
    monkeypatch.setattr(comparison, "OTHERS", 1)
    monkeypatch.setattr(comparison, "MOST_CELLS", 100)
    table = ty.read_battles(run_folder / "battles.jsonl")
    found = ty.compare(NEW, OLD, battles=table)
    page = read_page(comparison_page(found, table, run=read_run(run_folder)))
    views = page["views"].all("article")
    assert 0 < len(views) < 30
    said = page["prompts"].one("p", "omitted").text
    assert "10 prompts on which the two differ least are left out" in said
    assert "1 model that the two met least have no column" in said
    assert f"The answers to {30 - len(views)} prompts" in said
    shown = page["prompts"].one("tbody").all("tr")
    assert len(shown) == 20
    assert all(link[1:] in page.ids for link in page.links)


def names_shown(tab: Tab) -> list[str]:
    return tab.evaluate("[...document.querySelectorAll('.grid-table tbody tr')].map(r => r.cells[0].innerText)")


def first_cells(tab: Tab, place: int) -> list[str]:
    return tab.evaluate(
        f"[...document.querySelectorAll('.grid-table tbody tr')].map(r => r.cells[{place}].innerText.split('\\n')[0])"
    )


def click(tab: Tab, head: int) -> None:
    tab.evaluate(f"document.querySelectorAll('.grid-table thead button')[{head}].click()")


def test_a_column_is_sorted_by_losses_then_by_wins(tab: Tab, duel_file: Path) -> None:
    tab.open(duel_file)
    assert len(names_shown(tab)) == 50
    assert tab.evaluate("document.querySelector('.results output').textContent") == "130 prompts, 50 shown"
    click(tab, 1)
    assert set(first_cells(tab, 1)[:32]) == {"▼ 0 %"}
    assert tab.evaluate("document.querySelectorAll('[aria-sort]').length") == 1
    click(tab, 1)
    assert set(first_cells(tab, 1)[:33]) == {"▲ 100 %"}
    assert tab.evaluate("document.querySelector('[aria-sort]').getAttribute('aria-sort')") == "descending"
    click(tab, 5)
    assert first_cells(tab, 5)[0].startswith("▼")
    tab.evaluate("document.querySelectorAll('.more button')[1].click()")
    assert len(names_shown(tab)) == 130
    assert tab.evaluate("document.querySelector('.more').hidden")
    shares = [int(text.split()[1]) for text in first_cells(tab, 5)]
    assert shares == sorted(shares)
    click(tab, 0)
    assert names_shown(tab)[1].startswith("Question number 0")
    assert tab.complaints == []


def test_prompts_are_found_by_text_category_and_losses(tab: Tab, duel_file: Path) -> None:
    tab.open(duel_file)
    change = "dispatchEvent(new Event('change'))"
    tab.evaluate(f"const c = document.querySelector('.category'); c.value = 'chat'; c.{change}")
    assert tab.evaluate("document.querySelector('.results output').textContent") == "65 of 130 prompts, 50 shown"
    tab.evaluate(f"const l = document.querySelector('.losses'); l.value = '1'; l.{change}")
    found = [int(name.split("\n")[0].split()[-1]) for name in names_shown(tab) if name.startswith("Question")]
    assert len(names_shown(tab)) == 32
    assert all(i % 4 == 3 for i in found)
    options = tab.evaluate("[...document.querySelector('.losses').options].map(o => o.text)")
    assert options[1] == "where v2 lost to v1"
    tab.evaluate(f"document.querySelector('.results input').value = 'nUMBER 127'; l.{change}")
    assert [name.split("\n")[0] for name in names_shown(tab)] == ["Question number 127"]
    assert tab.evaluate("document.querySelector('.results output').textContent") == "1 of 130 prompts"
    assert tab.complaints == []


def test_the_search_reads_answers_and_the_judges_words_too(tab: Tab, tmp_path: Path, judged_page: str) -> None:
    path = tmp_path / "compare.html"
    path.write_text(judged_page, encoding="utf-8")
    tab.open(path)
    tab.evaluate("document.querySelector('.results input').value = \"alert('from an answer')\"")
    tab.evaluate("document.querySelector('.category').dispatchEvent(new Event('change'))")
    assert 0 < len(names_shown(tab)) < 30
    tab.evaluate("document.querySelector('.grid-table td a').click()")
    assert tab.evaluate("[...document.querySelectorAll('.view')].filter(v => v.offsetParent).length") == 1
    assert tab.evaluate("document.images.length") == 0
    assert tab.complaints == []


def test_without_javascript_the_whole_table_is_there(tab: Tab, duel_file: Path) -> None:
    tab.scripts(on=False)
    tab.open(duel_file)
    shown = tab.shown()
    assert all(f"Question number {i}\n" in shown for i in range(130) if i != 5)
    assert "Search" not in shown
    assert tab.complaints == []


@pytest.mark.parametrize("dark", [False, True])
def test_axe_finds_nothing_and_a_phone_does_not_scroll_sideways(
    tab: Tab, tmp_path: Path, duel_file: Path, judged_page: str, dark: bool
) -> None:
    judged = tmp_path / "judged.html"
    judged.write_text(judged_page, encoding="utf-8")
    tab.screen(390 if dark else 1280, 844, dark=dark)
    for path, anchor in ((duel_file, ""), (judged, "p2")):
        tab.open(path, anchor)
        assert tab.evaluate("document.documentElement.scrollWidth") <= (390 if dark else 1280)
    if dark:
        tab.open(duel_file)
    if size(True, soak=False):  # rows and views are alike: axe looks at the first of them, in soak at all
        tab.evaluate("document.querySelectorAll('.view:not(#p2), tbody tr:nth-child(n+9)').forEach(it => it.remove())")
    assert tab.broken_rules(None if dark else "#p2") == []
