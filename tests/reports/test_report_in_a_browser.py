"""The page in a real browser: quiet, offline, and complete without JavaScript."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from run_folders import make_run
from tests.browsers import Tab

from tiltyard.reports import write_report


@pytest.fixture(scope="module")
def small_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of twelve prompts: a page that a browser lays out quickly."""
    folder = make_run(tmp_path_factory.mktemp("runs") / "small", n_prompts=12)
    write_report(folder)
    return folder


def battle(small_run: Path, number: int) -> tuple[dict, dict]:
    """A judgment of the first dimension and its match."""
    verdicts = (small_run / "verdicts" / "factuality.jsonl").read_text().splitlines()
    matches = (small_run / "matches" / "matches.jsonl").read_text(encoding="utf-8").splitlines()
    return json.loads(verdicts[number]), json.loads(matches[number])


def laid_out(text: str) -> str:
    return " ".join(text.split())


def test_the_page_renders_without_a_complaint_and_asks_for_nothing(tab: Tab, small_run: Path) -> None:
    tab.open(small_run / "report.html")
    assert tab.complaints == []
    assert {url for url in tab.requests if url != "about:blank"} == {(small_run / "report.html").resolve().as_uri()}
    shown = tab.shown()
    assert "HEADLINE RUN · 2 MAY 2026" in shown.upper()
    assert "What weakens it" in shown
    assert "Who beats whom" not in shown, "what is not for everybody is folded"


def test_without_javascript_an_address_shows_the_battle_with_both_answers_and_both_judge_texts(
    tab: Tab, small_run: Path
) -> None:
    judgment, match = battle(small_run, 70)
    tab.scripts(on=False)
    tab.open(small_run / "report.html")
    assert laid_out(match["response_a"])[:60] not in laid_out(tab.shown())
    tab.open(small_run / "report.html", "b70")
    shown = laid_out(tab.shown())
    for text in (match["prompt_text"], match["response_a"], match["response_b"]):
        assert laid_out(text)[:200] in shown
    for verdict in judgment["raw"]:
        assert laid_out(verdict["reasoning"])[-200:] in shown
    other = next(
        json.loads(line)
        for line in (small_run / "matches" / "matches.jsonl").read_text(encoding="utf-8").splitlines()
        if json.loads(line)["prompt_id"] == match["prompt_id"]
        and json.loads(line)["entrant_b"] not in (match["entrant_a"], match["entrant_b"])
    )
    assert laid_out(other["response_b"])[:200] not in shown, "an answer that has no part in this battle is hidden"
    assert "Search" not in shown, "a filter that cannot work is not shown"
    assert tab.complaints == []


def test_without_javascript_a_pair_lists_its_battles_and_a_prompt_everything_on_it(tab: Tab, small_run: Path) -> None:
    tab.scripts(on=False)
    tab.open(small_run / "report.html", "m0-0-1")
    shown = laid_out(tab.shown())
    assert all(f"q{number:03d}" in shown for number in range(1, 12))
    tab.open(small_run / "report.html", "p9")
    shown = laid_out(tab.shown())
    assert shown.count("shown first:") == 24


def test_scripts_of_an_answer_are_text_and_do_not_run(tab: Tab, small_run: Path) -> None:
    tab.open(small_run / "report.html", "b0")
    assert "<script>alert('from an answer')</script>" in tab.shown()
    assert tab.evaluate("document.images.length") == 0
    assert tab.evaluate("document.scripts.length") == 1
    assert tab.complaints == []


def test_the_filter_finds_battles_by_outcome_and_by_the_judges_words(tab: Tab, small_run: Path) -> None:
    lines = [
        json.loads(line)
        for dimension in ("factuality", "clarity")
        for line in (small_run / "verdicts" / f"{dimension}.jsonl").read_text().splitlines()
    ]
    tab.open(small_run / "report.html")
    tab.evaluate("outcome.value = 'failed'; outcome.dispatchEvent(new Event('change'))")
    failed = sum(line["status"] == "failed" for line in lines)
    assert tab.evaluate("found.textContent") == f"{failed} battles"
    visible = "[...document.querySelectorAll('.pair tbody tr')].filter(row => row.offsetParent).length"
    assert tab.evaluate(visible) == failed
    words = lines[70]["raw"][0]["reasoning"][:80]
    tab.evaluate(f"outcome.value = ''; document.getElementById('find').value = {json.dumps(words)}")
    tab.evaluate("outcome.dispatchEvent(new Event('change'))")
    assert tab.evaluate("found.textContent") == "1 battle"
    tab.evaluate("document.getElementById('find').value = ''; outcome.dispatchEvent(new Event('change'))")
    assert tab.evaluate(visible) == 0
    assert tab.complaints == []


def test_a_phone_needs_no_sideways_scrolling_of_the_page(tab: Tab, small_run: Path) -> None:
    tab.screen(390, 844)
    for anchor in ("", "b0", "b5", "m0-0-1", "p2"):
        tab.open(small_run / "report.html", anchor)
        assert tab.evaluate("document.documentElement.scrollWidth") <= 390


def test_dark_readers_get_a_dark_page_and_printers_a_white_one(tab: Tab, small_run: Path) -> None:
    paper = "getComputedStyle(document.body).backgroundColor"
    tab.open(small_run / "report.html")
    light = tab.evaluate(paper)
    tab.screen(1280, 900, dark=True)
    dark = tab.evaluate(paper)
    tab.screen(794, 1123, dark=True, media="print")
    assert len({light, dark, tab.evaluate(paper)}) == 3
    assert tab.evaluate(paper) == "rgb(255, 255, 255)"
    assert tab.evaluate("getComputedStyle(document.querySelector('#filter')).display") == "none"


def test_everything_that_scrolls_can_be_reached_by_keyboard(tab: Tab, small_run: Path) -> None:
    tab.open(small_run / "report.html", "b0")
    unreachable = """[...document.querySelectorAll('*')].filter(node => node.offsetParent
        && /auto|scroll/.test(getComputedStyle(node).overflowX + getComputedStyle(node).overflowY)
        && (node.scrollHeight > node.clientHeight + 1 || node.scrollWidth > node.clientWidth + 1)
        && node.tabIndex < 0 && !node.querySelector('a')).length"""
    assert tab.evaluate(unreachable) == 0
