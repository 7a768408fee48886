"""Arenas for the rows `arena` and `site`: empty databases on a real disk, catalogs, and long histories."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from bench.measure import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SEED = 20_260_801
SPREAD = 180.0
"""Standard deviation of the true strengths, in Elo points."""
AT_ONCE = 20_000
"""Number of events written together."""
ANSWER = "An answer of ordinary length, which says what it has to say and then says it once more. " * 12


@contextmanager
def database(kind: str, folder: Path, *, empty: bool = False) -> Iterator[str]:
    """The URL of a new arena in a folder on the disk; `empty`: of a database without any table."""
    from tiltyard.arena.store import Store

    if kind == "sqlite":
        url = f"sqlite:///{folder / 'arena.db'}"
        if not empty:
            Store.create(url).close()
        yield url
        return
    sys.path.insert(0, str(ROOT))
    from tests.arena.databases import DebianServer, WheelServer

    place = folder / "server"
    place.mkdir()
    folder.chmod(0o755)
    place.chmod(0o755)
    try:
        server: Any = WheelServer(place)
    except ImportError:
        server = DebianServer(place)
    try:
        if not empty:
            Store.create(server.url).close()
        yield server.url
    finally:
        server.remove()


def catalog(models: int, prompts: int) -> list[Any]:
    """Models, prompts and every answer, as events."""
    from tiltyard.arena import events as e

    return [
        *(e.ModelAdded(model=f"model-{i:04d}", display_name=f"Model {i:04d}", provider="Maker") for i in range(models)),
        *(
            e.PromptAdded(prompt_id=f"prompt-{j:04d}", text=f"Question {j}: why?", subject="why")
            for j in range(prompts)
        ),
        *(
            e.ResponseAdded(response_id=f"r-{i}-{j}", model=f"model-{i:04d}", prompt_id=f"prompt-{j:04d}", text=ANSWER)
            for i in range(models)
            for j in range(prompts)
        ),
    ]


def history(models: int, prompts: int, votes: int, start: int = 0) -> Iterator[Any]:
    """Served matchups and their votes over known strengths, as events; pairs and prompts are drawn at random."""
    from tiltyard.arena import events as e

    rng = np.random.default_rng([SEED, models, prompts, start])
    strength = rng.normal(0.0, SPREAD, models)
    a = rng.integers(models, size=votes)
    b = (a + 1 + rng.integers(models - 1, size=votes)) % models
    prompt = rng.integers(prompts, size=votes)
    wins = rng.random(votes) < 1.0 / (1.0 + 10.0 ** ((strength[b] - strength[a]) / 400.0))
    other = rng.random(votes)
    rows = zip(*(column.tolist() for column in (a, b, prompt, wins, other)), strict=True)
    for number, (i, j, p, won, u) in enumerate(rows, start):
        at = 1_767_225_600_000_000 + 30_000_000 * number // 10
        name = f"h{number:015d}"
        choice = e.Choice.TIE if u < 0.08 else e.Choice.BOTH_BAD if u < 0.13 else e.Choice.A if won else e.Choice.B
        yield e.Event(
            at,
            e.MatchupServed(
                matchup_id=name,
                voter=f"v{number // 25:012d}",
                prompt_id=f"prompt-{p:04d}",
                model_a=f"model-{i:04d}",
                model_b=f"model-{j:04d}",
                response_a=f"r-{i}-{p}",
                response_b=f"r-{j}-{p}",
                lane="coverage",
                reason="bench",
                probability=0.001,
                seed=number,
                expires_at=at + 7_200_000_000,
            ),
        )
        yield e.Event(at + 9_000_000, e.Voted(matchup_id=name, choice=choice))


def write_log(url: str, events: Iterator[Any]) -> int:
    """Write events and their chain, and nothing else; returns how many."""
    from tiltyard.arena.store import Store, log

    store, seq, hash_ = Store.open(url), 0, "0" * 64
    part: list[Any] = []

    def keep() -> None:
        nonlocal seq, hash_
        with store.database.write(lock=True) as connection:
            hash_ = log.append_events(connection, part, seq, hash_)
        seq += len(part)
        part.clear()

    try:
        for event in events:
            part.append(event)
            if len(part) == AT_ONCE:
                keep()
        keep()
    finally:
        store.close()
    return seq
