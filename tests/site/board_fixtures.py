"""Arenas with something to show: named models, prompts of several subjects, and a week of votes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np
from starlette.applications import Starlette
from starlette.testclient import TestClient

from tests.arena.databases import empty_arena
from tests.arena.small_worlds import SECOND, START, Log, honest
from tests.site.sites import QUICK, SECRET
from tiltyard.arena import Arena
from tiltyard.arena import events as e
from tiltyard.arena.rules.blindness import hidden_for
from tiltyard.arena.simulation.ledger import FIRST_DAY, fill_log
from tiltyard.arena.store import Store
from tiltyard.arena.store.public_log import record_hourly
from tiltyard.arena.study import Observatory
from tiltyard.arena.study.observatory import Snapshot
from tiltyard.site.app import create_app
from tiltyard.site.settings import SiteSettings

DAY = 86_400 * SECOND
NAMES = ("Kestrel 2", "Heron <b>Large</b>", "Otter 7B", "=Wagtail", "Bittern Pro", "Dunlin Mini", "Siskin", "Plover")
PROVIDERS = ("Aerie Labs", "Fenland AI")
LICENCES = ("MIT", "proprietary")
SUBJECTS = ("writing", "maths", "code")
NEWCOMER = "plover"


def model_id(name: str) -> str:
    return name.lower().replace(" ", "-").replace("<b>", "").replace("</b>", "")


MODELS = tuple(model_id(name) for name in NAMES)
STRENGTHS = np.linspace(250.0, -250.0, len(NAMES))


def week_of_votes(votes: int, *, phase: int = 4, prompts: int = 6, seed: int = 5, newcomer_votes: int = 12) -> Log:
    """A log of eight days. The last model comes late and stays provisional; voters are 30."""
    rng = np.random.default_rng(seed)
    log = Log()
    log.say(e.PhaseChanged(phase=phase))
    for place, name in enumerate(NAMES):
        log.say(
            e.ModelAdded(
                model=MODELS[place],
                display_name=name,
                provider=PROVIDERS[place % 2],
                licence=LICENCES[place // 4],
                link="https://example.org/about" if place == 0 else "",
            )
        )
    for prompt in range(prompts):
        tags = ("short",) if prompt % 2 else ()
        log.say(
            e.PromptAdded(prompt_id=f"p{prompt}", text=f"Question {prompt}?", subject=SUBJECTS[prompt % 3], tags=tags)
        )
        for model in MODELS:
            text = f"An answer of **{len(model)}** words to {prompt}. <script>alert(1)</script>"
            log.say(e.ResponseAdded(response_id=f"{model}/p{prompt}", model=model, prompt_id=f"p{prompt}", text=text))
    every = 8 * DAY // votes
    for number in range(votes):
        late = number >= votes - newcomer_votes
        a = len(MODELS) - 1 if late else int(rng.integers(len(MODELS) - 1))
        b = int(rng.choice([model for model in range(len(MODELS) - 1) if model != a]))
        a, b = (a, b) if rng.random() < 0.5 else (b, a)
        choice = honest(rng, float(STRENGTHS[a] - STRENGTHS[b]))
        voter = f"v{int(rng.integers(30)):02d}"
        lane = e.LANES[int(rng.choice(4, p=(0.4, 0.3, 0.2, 0.1)))]
        log.meet(MODELS[a], MODELS[b], f"p{int(rng.integers(prompts))}", choice, voter, lane, after=every)
    return log


def retire(log: Log, *prompts: str) -> Log:
    """The log, with prompts switched off long enough for their answers to be public."""
    for prompt in prompts:
        log.say(e.PromptDisabled(prompt_id=prompt))
    log.say(e.ModelEnabled(model=MODELS[0]), after=hidden_for(log.state.policy))
    return log


def kept(log: Log, folder: Path) -> str:
    """The log in a database of its own; its time begins on the first of January."""
    (folder / "board.db").write_bytes(empty_arena())
    url = f"sqlite:///{folder / 'board.db'}"
    events = [e.Event(event.at - START + FIRST_DAY, _dated(event.body)) for event in log.events]
    fill_log(events, url)
    if events:
        store = Store.open(url)
        record_hourly(store, events[-1].at)
        store.close()
    return url


def _dated(body: e.AnyBody) -> e.AnyBody:
    if isinstance(body, e.MatchupServed):
        return msgspec.structs.replace(body, expires_at=body.expires_at - START + FIRST_DAY)
    return body


@dataclass(frozen=True)
class World:
    """A log, its database, and an observatory that has read it."""

    log: Log
    url: str
    observatory: Observatory

    @property
    def snapshot(self) -> Snapshot:
        return self.observatory.snapshot

    @property
    def end(self) -> int:
        return self.log.now - START + FIRST_DAY


@contextmanager
def world(log: Log, folder: Path) -> Iterator[World]:
    url = kept(log, folder)
    end = log.now - START + FIRST_DAY
    observatory = Observatory(url, now=lambda: end, pace=QUICK)
    observatory.refresh()
    try:
        yield World(log, url, observatory)
    finally:
        observatory.close()


@dataclass(frozen=True)
class BoardSite:
    """A site in process over such a world."""

    world: World
    app: Starlette
    arena: Arena
    client: TestClient


@contextmanager
def board_site(log: Log, folder: Path) -> Iterator[BoardSite]:
    with world(log, folder) as made, Arena(Store.open(made.url), now=lambda: made.end) as arena:
        settings = SiteSettings(db=made.url, title="Test arena", secret=SECRET, rate_limit=False)
        app = create_app(settings, arena, made.observatory)
        with TestClient(app, follow_redirects=False) as client:
            yield BoardSite(made, app, arena, client)
