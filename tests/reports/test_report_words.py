"""What models and judges wrote stands on the page word for word, once, and never as markup."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from pathlib import Path

from page_tree import Node, Page
from run_folders import ENTRANTS, LONG, NASTY, SCRIPT, make_run
from tests.sizes import size

from tiltyard.render import CONTROLS
from tiltyard.reports import write_report

OUR_TAGS = """html head meta title style body header main nav section article div span p a b br small sup ul li dl dt dd
bdi h1 h2 h3 h4 h5 table caption thead tbody tr th td data details summary svg path circle text label input select
option output script"""


def seen(text: str) -> str:
    """A text as a page can hold it: control characters as their pictures, line ends as line feeds."""
    return text.translate(CONTROLS)


def test_only_our_own_elements_and_no_event_handlers(page: Page) -> None:
    assert {node.tag for node in page.root.walk() if node.tag} <= set(OUR_TAGS.split())
    for node in page.root.walk():
        assert not [name for name in node.attrs if name.startswith("on") or name in ("style", "src", "srcdoc")]
    assert len(page.root.all("script")) == 1
    assert len(page.root.all("style")) == 1


def test_nothing_is_loaded_from_anywhere(page: Page, page_text: str) -> None:
    assert page.links
    assert all(link.startswith("#") for link in page.links)
    style = page.root.one("style").text
    assert "url(" not in style
    assert "@import" not in style
    assert not re.search(r"https?:", style + page.root.one("script").text)
    addresses = set(re.findall(r"https?://[^\s\"'<)]*", page_text))
    assert addresses == {"https://example.org/x"}, "the one address is inside an answer, as text"


def test_the_policy_allows_our_style_and_script_by_hash_and_nothing_else(page: Page) -> None:
    policy = next(
        node.attrs["content"]
        for node in page.root.all("meta")
        if node.attrs.get("http-equiv") == "Content-Security-Policy"
    )

    def digest(tag: str) -> str:
        text = page.root.one(tag).text
        return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()

    assert policy.split("; ") == [
        "default-src 'none'",
        f"style-src 'sha256-{digest('style')}'",
        f"script-src 'sha256-{digest('script')}'",
        "base-uri 'none'",
        "form-action 'none'",
    ]


def test_every_link_on_the_page_has_its_target(page: Page) -> None:
    missing = {link for link in page.links if link[1:] not in page.ids}
    assert missing == set()


def test_every_answer_prompt_and_judge_text_is_there_word_for_word(run_folder: Path, page: Page) -> None:
    prompts = list(dict.fromkeys(json.loads(line)["prompt_id"] for line in _lines(run_folder / "matches")))
    for line in _lines(run_folder / "matches"):
        match = json.loads(line)
        view = page[f"p{prompts.index(match['prompt_id'])}"]
        assert view.one("div", "question").text == seen(match["prompt_text"])
        for entrant, answer in (("entrant_a", "response_a"), ("entrant_b", "response_b")):
            shown = view.one("div", f"x{ENTRANTS.index(match[entrant])}").one("div", "words")
            assert shown.text == (seen(match[answer]) or "(empty)")
    number, battles = 0, _battles_by_node(page)
    for dimension in ("factuality", "clarity"):
        for line in (run_folder / "verdicts" / f"{dimension}.jsonl").read_text().splitlines():
            judgment = json.loads(line)
            battle = battles[id(page[f"b{number}"])]
            texts = [node.text for node in battle.all("div", "reasoning")]
            assert texts == [seen(verdict["reasoning"]) or "(empty)" for verdict in judgment["raw"]]
            assert f"verdicts/{dimension}.jsonl line {number % 180 + 1}" in battle.text
            number += 1
    assert number == 360


def _lines(folder: Path) -> list[str]:
    return (folder / "matches.jsonl").read_text(encoding="utf-8").splitlines()


def _battles_by_node(page: Page) -> dict[int, Node]:
    """The battle on a prompt's view that a node lies in."""
    return {
        id(node): battle
        for view in page["views"].all("article")
        for battle in view.all("section", "battle")
        for node in battle.walk()
    }


def test_an_answer_stands_on_the_page_once_however_many_battles_it_is_in(page_text: str) -> None:
    """LONG is one answer in 3 battles × 2 dimensions, and the reasoning of 2 verdicts × 2 matches × 2 dimensions."""
    assert page_text.count(LONG) <= 1 + 2 * 2 * 2
    assert SCRIPT not in page_text


def test_the_texts_are_as_nasty_as_claimed(run_folder: Path) -> None:
    matches = [json.loads(line) for line in _lines(run_folder / "matches")]
    answers = {match[key] for match in matches for key in ("prompt_text", "response_a", "response_b")}
    assert set(NASTY) - answers == set()


def test_the_page_is_hardly_larger_than_its_texts(tmp_path: Path) -> None:
    """Twelve judgments a prompt: the texts once, and for each judgment two verdicts' markup, two lines and links."""
    prompts = size(50, soak=250)
    folder = make_run(tmp_path / "run", n_prompts=prompts)
    page = write_report(folder)
    texts = {
        json.loads(line)[key]
        for line in _lines(folder / "matches")
        for key in ("prompt_text", "response_a", "response_b")
    }
    verdicts = sum(path.stat().st_size for path in (folder / "verdicts").iterdir())
    budget = sum(len(text.encode()) for text in texts) + verdicts + 1200 * 12 * prompts + 200_000
    assert page.stat().st_size < budget
    assert not (folder / "report").exists()
