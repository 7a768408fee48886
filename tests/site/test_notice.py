"""A sentence of the operator's on every page: kept with the arena, shown from the next start of its site on."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager

import httpx2 as httpx
import pytest

from tests.forked import PATIENCE_SECONDS, Forked, command
from tests.processes import wait_for
from tests.site.sites import catalog
from tiltyard.arena import Arena
from tiltyard.arena.audit.verify import verify
from tiltyard.arena.store import Store, site_texts
from tiltyard.errors import OptionError

NOTICE = "Recorded verdicts of a <small> local model: a demo, not a finding."
PAGES = ("/", "/leaderboard", "/validity", "/methods", "/data", "/me", "/models/zyxwolf-one", "/nowhere")


@contextmanager
def served(url: str, *options: str) -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    process = Forked.anywhere(command, "arena", "serve", "--db", url, "--port", str(port), *options)
    try:
        wait_for(f"http://127.0.0.1:{port}/healthz", process)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(PATIENCE_SECONDS)


def test_a_notice_of_the_settings_stands_on_every_page_of_the_site(sqlite_url: str) -> None:
    with Arena.open(sqlite_url) as arena:
        arena.append(catalog())
    done = Forked.anywhere(command, "arena", "settings", "--db", sqlite_url, "--notice", NOTICE).wait(PATIENCE_SECONDS)
    assert done.returncode == 0, done.stderr
    assert done.stdout.rstrip().endswith(f"notice: {NOTICE}")
    with served(sqlite_url) as address, httpx.Client(base_url=address, verify=False) as client:
        for page in PAGES:
            shown = client.get(page).text
            assert shown.count(NOTICE.replace("<", "&lt;").replace(">", "&gt;")) == 1, page
            assert "<small> local" not in shown
    assert verify(sqlite_url).clean  # it lies beside the log


def test_a_notice_is_one_line_can_be_changed_and_taken_away(arena_url: str) -> None:
    store = Store.open(arena_url)
    assert site_texts.site_text(store, "notice") == ""
    site_texts.set_site_text(store, "notice", "  one\nline\0 ")
    assert site_texts.site_text(store, "notice") == "one line"
    site_texts.set_site_text(store, "notice", "another")
    assert site_texts.site_text(store, "notice") == "another"
    with pytest.raises(OptionError, match="Shorten it"):
        site_texts.set_site_text(store, "notice", "x" * 501)
    assert site_texts.site_text(store, "notice") == "another"
    site_texts.set_site_text(store, "notice", "")
    assert site_texts.site_text(store, "notice") == ""
    store.close()
