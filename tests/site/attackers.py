"""Somebody who wants to know who wrote an answer before voting: reads everything public, and keeps every receipt."""

from __future__ import annotations

import hashlib
import html
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count, pairwise
from urllib.parse import quote

import numpy as np
from starlette.applications import Starlette
from starlette.testclient import TestClient

from tests.site.sites import ADMIN_SECRET, QUICK, SECRET
from tiltyard.arena import Arena, Policy, TextsPublic, WaitingRules
from tiltyard.arena import events as e
from tiltyard.arena.store import Store
from tiltyard.arena.study import Observatory
from tiltyard.site.app import create_app
from tiltyard.site.settings import SiteSettings

MODELS = tuple(f"mod{letter}x" for letter in "abcdefghijkl")
SYLLABLES = ("ba", "du", "fe", "gi", "ko", "lu", "na", "pe", "ri", "so", "ta", "vu")
VOCABULARY = tuple(a + b + c for a in SYLLABLES for b in SYLLABLES for c in SYLLABLES[:4])
START = 1_790_000_000_000_000
HASHES = ("sha256", "sha1", "md5", "blake2b", "blake2s", "sha512")


def words(seed: int, model: int, prompt: int) -> str:
    """An answer without a style: neither its words nor its length tell who wrote it."""
    rng = np.random.default_rng((seed, model, prompt))
    return " ".join(VOCABULARY[i] for i in rng.integers(len(VOCABULARY), size=int(rng.integers(6, 15))))


def response_id(model: str, prompt_id: str, text: str) -> str:
    """The id that an import of version 0.1 gave to an answer: a fingerprint, which old arenas still hold."""
    return hashlib.sha256("\0".join((model, prompt_id, text)).encode()).hexdigest()[:32]


def answer(seed: int, model: int, prompt: int) -> e.ResponseAdded:
    text = words(seed, model, prompt)
    name = response_id(MODELS[model], f"q{prompt:02d}", text)
    return e.ResponseAdded(response_id=name, model=MODELS[model], prompt_id=f"q{prompt:02d}", text=text)


class Clock:
    """A time that moves only by itself, a millisecond at a look."""

    def __init__(self) -> None:
        self.at = START

    def __call__(self) -> int:
        self.at += 1000
        return self.at


@dataclass
class BlindSite:
    """A site in process whose arena draws and counts the same way every time."""

    arena: Arena
    observatory: Observatory
    app: Starlette
    clock: Clock
    portal: object = None

    def client(self) -> TestClient:
        client = TestClient(self.app, follow_redirects=False)
        client.portal = self.portal  # type: ignore[assignment]
        return client

    def later(self, seconds: int) -> None:
        """Let time pass, and something small happen."""
        self.clock.at += seconds * 1_000_000
        self.arena.append([e.ModelEnabled(model=MODELS[0])])
        self.observatory.refresh()


@contextmanager
def blind_site(
    url: str,
    *,
    prompts: int = 4,
    models: int = 12,
    texts_public: TextsPublic = "after_retirement",
    waits: bool = True,
    seed: int = 1,
) -> Iterator[BlindSite]:
    """An arena of models that answer in random words; `waits`: pairs wait for a vote."""
    clock, ids = Clock(), count(1)
    settings = SiteSettings(db=url, title="Test arena", secret=SECRET, admin_secret=ADMIN_SECRET, rate_limit=False)
    with Arena(Store.open(url), now=clock, rng=np.random.default_rng(3), new_id=lambda: f"m{next(ids):05d}") as arena:
        arena.append(
            [
                e.SettingsChanged(policy=Policy(texts_public=texts_public, waiting=WaitingRules(pairs_wait=waits))),
                e.PhaseChanged(phase=4),  # in which everything is shown that is ever shown
                *(e.ModelAdded(model=name, display_name=name.upper()) for name in MODELS[:models]),
                *(e.PromptAdded(prompt_id=f"q{j:02d}", text=f"Prompt number {j}?") for j in range(prompts)),
                *(answer(seed, i, j) for i in range(models) for j in range(prompts)),
            ]
        )
        observatory = Observatory(url, now=clock, pace=QUICK)
        observatory.refresh()
        app = create_app(settings, arena, observatory)
        try:
            with TestClient(app) as running:
                yield BlindSite(arena, observatory, app, clock, running.portal)
        finally:
            observatory.close()


SEEDS = (
    *("/leaderboard", "/leaderboard.csv", "/leaderboard.json", "/validity", "/methods", "/data", "/compare"),
    *("/api/v1/leaderboard", "/api/v1/validity", "/api/v1/battles.jsonl", "/api/v1/openapi.json", "/metrics"),
    *("/bank", "/api/v1/bank", "/heads", "/api/v1/heads", "/api/v1/witness.jsonl"),
    *("/healthz", "/robots.txt", "/sitemap.xml", "/nowhere", "/api/v1/nowhere"),
)
"""Where a crawl begins, beside what pages lead to."""


def public_addresses(prompts: int, models: Iterable[str] = MODELS) -> list[str]:
    """Every kind of public address, with every prompt that a model's page or a comparison can be asked for."""
    asked = ["", *(f"q{j:02d}" for j in range(prompts))]
    names = list(models)
    return [
        *SEEDS,
        *(f"/api/v1/models/{name}" for name in names),
        *(f"/models/{name}" + (f"?prompt={prompt}" if prompt else "") for name in names for prompt in asked),
        *(
            f"/compare?a={a}&b={b}" + (f"&prompt={prompt}" if prompt else "")
            for a, b in pairwise(names)
            for prompt in asked
        ),
    ]


def crawl(client: TestClient, addresses: Iterable[str], most: int = 2_000) -> dict[str, str]:
    """Every page that these addresses and the links on them lead to, but for one's own."""
    found: dict[str, str] = {}
    waiting = list(addresses)
    while waiting and len(found) < most:
        address = waiting.pop()
        if address in found:
            continue
        page = client.get(address)
        found[address] = page.text + "\n".join(f"{name}: {value}" for name, value in page.headers.items())
        for link in re.findall(r'(?:href|action)="(/[^"#]*)', page.text):
            link = html.unescape(link)
            own = link == "/" or link.startswith(("/me", "/votes", "/admin", "/static", "/vote", "/skip", "/undo"))
            if not own and "sort=" not in link:
                waiting.append(link)
    return found


@dataclass
class Attacker:
    """What somebody knows: words that stand next to each other on a page, and hashes, with whom the page speaks of."""

    said: defaultdict[tuple[str, str], Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    hashes: defaultdict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))

    def read(self, pages: Mapping[str, str]) -> None:
        """Take in pages."""
        known = set(VOCABULARY)
        for address, page in pages.items():
            subject = re.match(r"/(?:api/v1/)?models/(\w+)", address)
            speaks_of, before = subject[1] if subject else "", ""
            for word in re.findall(r"\w+", html.unescape(re.sub(r"</?(?:p|em|strong)\b[^>]*>", " ", page)).lower()):
                if word in MODELS and subject is None:
                    speaks_of = word
                if word in known and before in known:
                    self.said[before, word][speaks_of] += 1
                if re.fullmatch(r"[0-9a-f]{8,}", word):
                    self.hashes[word[:8]][speaks_of] += 1
                before = word

    def evidence(self, text: str, prompt_ids: Iterable[str]) -> Counter[str]:
        """How much speaks for each model having written a text."""
        found: Counter[str] = Counter()
        for pair in pairwise(text.lower().split()):
            found.update(self.said.get(pair, {}))
        forms = [text, text.lower(), f"{text}\n"]
        for name in HASHES:
            for form in forms:
                found.update(self.hashes.get(hashlib.new(name, form.encode()).hexdigest()[:8], {}))
        for model in MODELS:
            for prompt in prompt_ids:
                if response_id(model, prompt, text)[:8] in self.hashes:
                    found[model] += 1
        return found


@dataclass
class Score:
    """How often the sides of a pair were named, a fair coin deciding where nothing was known."""

    matchups: int = 0
    named: float = 0.0
    informed: int = 0

    @property
    def rate(self) -> float:
        return self.named / self.matchups


def name_sides(site: BlindSite, attacker: Attacker, *, matchups: int, seen: set[str], prompts: Iterable[str]) -> Score:
    """Ask for matchups; of each the attacker is told the two names, and says which of them wrote the first answer."""
    score, known, asked = Score(), dict[str, Counter[str]](), list(prompts)
    served: list[tuple[str, tuple[str, str]]] = []
    client = site.client()
    while len(served) < matchups:
        if len(served) % 50 == 0:
            client = site.client()  # somebody new, who has seen nothing yet
        shown = client.post("/api/v1/matchups").json()
        texts = (shown["response_a"], shown["response_b"])
        if not seen.intersection(texts):
            served.append((shown["matchup_id"], texts))
    truth = site.arena.read(lambda state: dict(state.schedule.in_flight))
    for matchup_id, texts in served:
        a, b = MODELS[truth[matchup_id].a], MODELS[truth[matchup_id].b]
        for text in texts:
            if text not in known:
                known[text] = attacker.evidence(text, asked)
        first, second = (known[text] for text in texts)
        straight, crossed = first[a] + second[b], first[b] + second[a]
        score.matchups += 1
        score.informed += straight != crossed
        score.named += 0.5 if straight == crossed else float(straight > crossed)
    return score


def address_of(model: str, prompt: str = "") -> str:
    return f"/models/{quote(model)}" + (f"?prompt={prompt}" if prompt else "")
