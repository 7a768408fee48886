"""What browsers write into their console while somebody looks at every page: nothing."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from tests.browsers import new_context
from tests.firefoxes import firefox
from tests.web.galleries import Gallery, gallery
from tests.web.sites import ADMIN_SECRET
from tests.web.test_walk_browser import ADMIN, PUBLIC, address

if TYPE_CHECKING:
    from playwright.sync_api import Browser

__all__ = ["address", "gallery"]

PAGES = (*(page for page in PUBLIC if page != "/no-such-page"), "/admin/login", *ADMIN)
"""All but the one that is not there: a browser notes that by itself."""

LOGIN = (
    f"document.querySelector('[name=secret]').value = '{ADMIN_SECRET}'; document.querySelector('main form').submit()"
)
RUN_BOTH = "document.querySelector('form button').click()", "document.querySelector('[data-do=run-both]').click()"
VOTE = "document.querySelector('.choices [value=A]').click()", "document.querySelector('.show-names').click()"
ANSWER = b"<!doctype html><h1>Answer</h1><script>document.body.append('it runs')</script>"


def test_no_page_writes_into_the_console_of_chromium(browser: Browser, address: str, gallery: Gallery) -> None:
    context = new_context(browser)
    page = context.new_page()
    said: list[str] = []
    page.on("console", lambda message: said.append(f"{page.url}: {message.type}: {message.text}"))
    page.on("pageerror", lambda error: said.append(f"{page.url}: {error}"))
    page.goto(f"{address}/admin/login")
    page.evaluate(LOGIN)
    page.wait_for_url("**/admin")
    for place in ("/", *PAGES):
        page.goto(address + place)
    gallery.show("html", ANSWER)
    page.goto(gallery.url)
    for script in (*RUN_BOTH, *VOTE):
        page.evaluate(script)
        page.wait_for_timeout(900)
    context.close()
    assert said == []


def test_no_page_writes_into_the_console_of_firefox(address: str, gallery: Gallery) -> None:
    gallery.show("html", ANSWER)
    with firefox() as tab:
        tab.go(f"{address}/admin/login")
        tab.console()
        tab.run(LOGIN)
        tab.wait("return location.pathname === '/admin'")
        for place in ("/", *PAGES):
            tab.go(address + place)
        tab.go(gallery.url)
        for script in (*RUN_BOTH, *VOTE):
            tab.run(script)
            time.sleep(0.9)
        assert tab.console() == []
