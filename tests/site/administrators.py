"""A site with somebody at its desk: the observatory follows by itself, and the secret is known."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from starlette.testclient import TestClient

from tests.site.sites import ADMIN_SECRET, QUICK, SECRET, SmallSite, catalog
from tiltyard.arena import AnyBody, Arena, Choice
from tiltyard.arena.rules.events import Event
from tiltyard.arena.store import events_in_order
from tiltyard.arena.study import Observatory
from tiltyard.site.app import create_app
from tiltyard.site.settings import SiteSettings


@contextmanager
def staffed_site(url: str, *, admin_secret: str | None = ADMIN_SECRET) -> Iterator[SmallSite]:
    """A site in this process over an arena with four models; its observatory follows the log."""
    settings = SiteSettings(db=url, title="Test arena", secret=SECRET, admin_secret=admin_secret, rate_limit=False)
    with Arena.open(url) as arena:
        if not arena.read(lambda state: len(state.catalog.models)):
            arena.append(catalog())
        with Observatory(url, pace=QUICK) as observatory:
            app = create_app(settings, arena, observatory)
            with TestClient(app) as running:
                yield SmallSite(url, arena, observatory, settings, app, running.portal)


@dataclass
class Desk:
    """A client, and the forms it is shown."""

    client: TestClient

    def token(self, address: str) -> str:
        """The token of the last form on a page: that of the page itself, not of the way out."""
        answer = self.client.get(address)
        assert answer.status_code == 200, answer.text
        return str(re.findall(r'name="token" value="([^"]*)"', answer.text)[-1])

    def post(self, address: str, fields: dict[str, str], shown_at: str | None = None) -> tuple[int, str]:
        """The status and where it leads, or the text, of a form sent from a page."""
        answer = self.client.post(address, data={"token": self.token(shown_at or address), **fields})
        return answer.status_code, answer.headers.get("location") or answer.text

    def page(self, address: str) -> str:
        answer = self.client.get(address)
        assert answer.status_code == 200, (answer.status_code, answer.headers)
        return answer.text


def at_the_desk(site: SmallSite, secret: str = ADMIN_SECRET) -> Desk:
    """Somebody who has entered."""
    desk = Desk(site.client())
    status, where = desk.post("/admin/login", {"secret": secret})
    assert (status, where) == (303, "/admin")
    return desk


def vote_often(site: SmallSite, voter: str, choices: str) -> list[str]:
    """Votes of one voter, one for each letter: A, B, T(ie) or X (both bad); the matchups."""
    words = {"A": Choice.A, "B": Choice.B, "T": Choice.TIE, "X": Choice.BOTH_BAD}
    made = []
    for letter in choices:
        matchup_id = site.arena.serve(voter).matchup_id
        site.arena.vote(matchup_id, voter, words[letter])
        made.append(matchup_id)
    site.observatory.refresh()
    return made


def log_of(site: SmallSite) -> list[AnyBody]:
    """What happened, in order."""
    events: Iterator[Event] = events_in_order(site.arena.store)
    return [event.body for event in events]
