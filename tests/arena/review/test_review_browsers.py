"""Three browsers vote a review to its end at once, one is closed and replaced, and the server is killed twice."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Error, Page

from tests.arena.review.teams import MODELS, counted, new_review
from tests.browsers import broken_rules, new_context
from tests.forked import Forked, command
from tests.processes import free_port, wait_for
from tiltyard.arena.review import Review


def serve(review: Review, port: int) -> Forked:
    process = Forked.anywhere(command, "review", "serve", str(review.folder), "--port", str(port))
    wait_for(f"http://127.0.0.1:{port}/", process)
    return process


def opened(browser: Browser, review: Review, port: int, name: str) -> Page:
    token = next(person.token for person in review.links.people if person.name == name)
    page = new_context(browser, viewport={"width": 390, "height": 844}).new_page()
    page.goto(f"http://127.0.0.1:{port}/review/{token}")
    page.click("button.primary")
    return page


def vote(page: Page, key: str) -> bool:
    """One vote by key; False where nothing is left."""
    try:
        page.wait_for_selector(".ballot button:not([aria-disabled]), h1:has-text('Nothing is left')", timeout=8_000)
        if page.query_selector(".ballot") is None:
            return False
        before = page.get_attribute(".ballot [name=matchup_id]", "value")
        page.keyboard.press(key)
        page.wait_for_function(
            "old => document.querySelector('.ballot [name=matchup_id]')?.value !== old", arg=before, timeout=4_000
        )
    except Error:
        page.reload()  # what a person does when nothing happens
    return True


@pytest.mark.parametrize("items", [9])
def test_three_browsers_to_the_end_with_kills(browser: Browser, tmp_path: Path, items: int) -> None:
    review, port = new_review(tmp_path, items), free_port()
    server = serve(review, port)
    try:
        pages = {name: opened(browser, review, port, name) for name in ("ann", "bob", "cyd")}
        assert not broken_rules(pages["ann"])
        left, turn = set(pages), 0
        while left:
            turn += 1
            assert turn < 40
            if turn in (2, 4):
                assert server.kill()
                server = serve(review, port)
                for page in pages.values():
                    page.reload()
            if turn == 3:
                pages["bob"].context.close()
                pages["bob"] = opened(browser, review, port, "bob")
            for name in sorted(left):
                if not vote(pages[name], "abt"[(turn + len(name)) % 3]):
                    left.discard(name)
            assert not any(model in page.content() for page in pages.values() for model in MODELS)
    finally:
        server.terminate()
        server.wait()
    assert Counter(counted(review).values()) == {2: items}
    votes = [turn for turn in review.log().turns.values() if turn.status == "voted"]
    assert len({(one.item, one.person) for one in votes}) == len(votes) == 2 * items
