"""Small reviews for tests, and people who vote in them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from starlette.testclient import TestClient

from tiltyard.arena.review import Review, open_review, read_source, start_review
from tiltyard.site.app import create_app
from tiltyard.site.settings import SiteSettings

MODELS = ("zyxwolf-one", "qvartz-7b")


def answer_files(folder: Path, items: int) -> list[Path]:
    """Two models' answers, of which nothing says who wrote them."""
    paths = []
    for number, model in enumerate(MODELS):
        path = folder / f"{model}.jsonl"
        rows = [
            {"id": f"q{item}", "prompt": f"Question {item}?", "response": f"Words, {7 * item + number} of them."}
            for item in range(items)
        ]
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        paths.append(path)
    return paths


def new_review(folder: Path, items: int, people: str = "ann bob cyd", each: int = 2, **more: object) -> Review:
    """A review of two answer files."""
    places = answer_files(folder, items)
    out = folder / "review"
    review, _ = start_review(read_source(places), out, people.split(), places=places, each=each, **more)  # type: ignore[arg-type]
    return review


@contextmanager
def open_site(review: Review) -> Iterator[TestClient]:
    """The review's site in process, with one event loop; `visitor` makes further people."""
    settings = SiteSettings(
        db=review.url, secret="a secret that only tests know", rate_limit=False, review=review.folder
    )
    with TestClient(create_app(settings), follow_redirects=False) as client:
        yield client


def visitor(site: TestClient, review: Review, name: str) -> TestClient:
    """Somebody's browser, with the link opened by a program."""
    client = TestClient(site.app, follow_redirects=False)
    client.portal = site.portal
    answer = client.post("/api/v1/reviewers", json={"link": token(review, name)})
    assert answer.status_code == 200, answer.text
    return client


def token(review: Review, name: str) -> str:
    """The last part of somebody's link."""
    return next(one.token for one in open_review(review.folder).links.people if one.name == name)


def counted(review: Review) -> Counter[str]:
    """How many reviews count, by item."""
    log = review.log()
    return Counter(
        log.items[turn.item] for turn in log.latest.values() if turn.status == "voted" and turn.lane == "review"
    )
