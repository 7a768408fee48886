"""Visitors who vote through whatever stands before the site, and do not give up when it stumbles."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field

import httpx2 as httpx

from tiltyard.arena import events as e

STUMBLES = (502, 503, 504)
"""What a proxy or a site says when nothing was confirmed: the same request may be sent again."""

PATIENCE_SECONDS = 400.0
VOTES_PER_VISIT, PAUSE_SECONDS = 10, 0.3
"""Within what the site allows one session and one address; afterwards somebody else comes."""

CHOICES = ("A", "B", "TIE", "BOTH_BAD")


def large_catalog(models: int = 12, prompts: int = 10) -> list[e.AnyBody]:
    """So many models and prompts that visitors who come at the same time need not meet the same pair."""
    names = [f"model-{number:02d}" for number in range(models)]
    return [
        *(e.ModelAdded(model=name, display_name=name.title(), provider="Somebody") for name in names),
        *(e.PromptAdded(prompt_id=f"p{j}", text=f"Question number {j}?") for j in range(prompts)),
        *(
            e.ResponseAdded(response_id=f"{name}/p{j}", model=name, prompt_id=f"p{j}", text=f"Answer {i} to {j}.")
            for i, name in enumerate(names)
            for j in range(prompts)
        ),
    ]


@dataclass
class Tally:
    """What visitors were told, all of them together."""

    acknowledged: list[str] = field(default_factory=list)
    stumbles: Counter[int] = field(default_factory=Counter)
    """Answers that confirmed nothing, by status; 0 is a connection that broke."""
    running: list[Future[None]] = field(default_factory=list)


class Visitor:
    """One visitor with one cookie. Where several addresses of the site are given, separated by blanks, a visitor who
    gets no answer at one goes to the next, as a proxy would.
    """

    def __init__(self, site: str, tally: Tally, address: str | None = None) -> None:
        self.tally = tally
        self.sites = site.split()
        transport = httpx.HTTPTransport(verify=False, local_address=address)
        self.client = httpx.Client(base_url=self.sites[0], transport=transport, timeout=30)

    def vote(self, choice: str, look_seconds: float = 0.0) -> str:
        """The matchup that was looked at and voted on, once that is confirmed."""
        served = self.insist(lambda: self.client.post("/api/v1/matchups"))
        assert served.status_code in (200, 201), served.text  # 200: an answer was lost, and it is open still
        name: str = served.json()["matchup_id"]
        time.sleep(look_seconds)
        voted = self.insist(lambda: self.client.post(f"/api/v1/matchups/{name}/vote", json={"choice": choice}))
        assert voted.status_code == 200, voted.text
        self.tally.acknowledged.append(name)
        return name

    def insist(self, ask: Callable[[], httpx.Response]) -> httpx.Response:
        """The first answer that confirms or refuses something."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < deadline:
            try:
                answer = ask()
            except httpx.TransportError:
                self.tally.stumbles[0] += 1
            else:
                if answer.status_code not in STUMBLES:
                    return answer
                self.tally.stumbles[answer.status_code] += 1
            self.sites.append(self.sites.pop(0))
            self.client.base_url = httpx.URL(self.sites[0])
            time.sleep(0.1)
        raise AssertionError(f"nothing was confirmed for {PATIENCE_SECONDS:.0f} seconds")


def vote_together(
    site: str, addresses: Sequence[str | None], visitors: int, votes: int, look_seconds: float = 0.0
) -> Tally:
    """What so many visitors, who come from these addresses in turn, were told about so many votes each.

    They look at a matchup for a moment, some a little longer than others.
    """
    tally = Tally()

    def visit(number: int) -> None:
        visitor = Visitor(site, tally, addresses[number % len(addresses)])
        with visitor.client:
            for turn in range(votes):
                visitor.vote(CHOICES[(number + turn) % len(CHOICES)], look_seconds * (0.75 + 0.5 * number / visitors))

    with ThreadPoolExecutor(visitors) as pool:
        list(pool.map(visit, range(visitors)))
    return tally


@contextmanager
def voting(site: str, addresses: Sequence[str | None] = (None,), visitors: int = 4) -> Iterator[Tally]:
    """Visitors who vote as long as the block runs, in their own time; all that they were told is there afterwards."""
    tally, end = Tally(), threading.Event()

    def visit(number: int) -> None:
        turn = 0
        while not end.is_set():
            visitor = Visitor(site, tally, addresses[number % len(addresses)])
            with visitor.client:
                for _ in range(VOTES_PER_VISIT):
                    visitor.vote(CHOICES[(number + turn) % len(CHOICES)])
                    turn += 1
                    if end.wait(PAUSE_SECONDS):
                        return

    with ThreadPoolExecutor(visitors) as pool:
        tally.running = [pool.submit(visit, number) for number in range(visitors)]
        try:
            yield tally
        finally:
            end.set()
        for job in tally.running:
            job.result(600)


def wait_until(tally: Tally, votes: int) -> None:
    """Until so many votes are confirmed; a visitor's trouble is the test's."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while len(tally.acknowledged) < votes:
        for job in tally.running:
            if job.done():
                job.result(600)
        assert time.monotonic() < deadline, f"{len(tally.acknowledged)} of {votes} votes, {tally.stumbles}"
        time.sleep(0.02)
