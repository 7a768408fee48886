"""A tournament that is killed at chosen moments, and what must be the same afterwards as if it never had been."""

from __future__ import annotations

import json
import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

from tests.fakes import FakeServer, Fault
from tests.fakes.behaviour import always_succeeded, first_time, verdict_by_hash
from tests.forked import Forked
from tests.judge.tournament.folder import change, make_folder, read_lines
from tests.judge.tournament.forked import tournament

MODELS = {"anthropic": "anthropic/claude-test-1", "openai": "openai/gpt-test-1", "local": "local/small"}
GRACE_SECONDS = 1.0
"""How long a batch may be missing from the server's list. The server is quick, but the machine may be busy."""

BEFORE_SUBMIT, LATE, AT_SUBMIT, POLL, COLLECT, WRITE, ANYWHERE = MOMENTS = (
    "before a batch is submitted",
    "while a batch is on its way",
    "between a batch's acceptance and the word of it",
    "during polling",
    "during collecting",
    "during writing",
    "anywhere",
)
WRITTEN = ("manifest.json", "matches/matches.jsonl", "verdicts/factuality.jsonl", "elo_results.json", "usage.json")
FIRST_SENT = {"anthropic": "submit", "openai": "upload"}
QUERIES = 2 * (9 + 12)


class Site:
    """One tournament with its folder and its server."""

    def __init__(self, root: Path, server: FakeServer, wire: str, *, expiring: bool = False) -> None:
        self.root = root
        self.server = server
        self.wire = wire
        self.run = root / "run"
        self.judgments = root / "judgments"
        self._numbers = count(1)
        server.reset()
        server.behaviour.batch_polls = 2
        server.behaviour.cache_minimum_tokens = 10**9
        self._outcome = first_time({"expired": 0.1, "errored:api_error": 0.05}) if expiring else always_succeeded
        server.behaviour.outcome = self._outcome
        self.config = change(
            make_folder(root, judge=MODELS[wire]),
            judge__base_url=server.anthropic_url if wire == "anthropic" else server.openai_url,
            judge__max_batch=12,
            judge__poll_initial_seconds=0.01,
            judge__poll_max_seconds=0.03,
            judge__concurrency=4,
        )
        (root / ".env").write_text("ANTHROPIC_API_KEY=sk-test-1234567890\nOPENAI_API_KEY=sk-test-1234567890\n")

    def start(self) -> Forked:
        """Start the run, or go on with it."""
        name = f"streams-{next(self._numbers)}"
        return Forked(self.root, name, tournament, self.config.name, "run", GRACE_SECONDS)

    def finish(self) -> None:
        """Go on with the run until it is done."""
        done = self.start().wait()
        assert done.returncode == 0, done.stderr

    def kill(self, moment: str, rng: random.Random, seconds: float) -> bool:
        """Start the run and kill it at a moment; False when it came to its end before."""
        kept = self.kept()
        forked = self.start()
        with self._armed(moment, forked, rng, seconds) as reached:
            while forked.running and not reached():
                time.sleep(0.0005)
            killed = forked.kill() or forked.process.exitcode == -9
        if not killed:
            assert forked.process.exitcode == 0, forked.wait().stderr
        for name, lines in kept.items():
            assert self.kept()[name].startswith(lines), "a verdict was lost"
        return killed

    def kept(self) -> dict[str, bytes]:
        """Every whole line of each verdict cache."""
        files = {path.name: path.read_bytes() for path in self.judgments.glob("judgments_*.jsonl")}
        return {name: data[: data.rfind(b"\n") + 1] for name, data in files.items()}

    @contextmanager
    def _armed(self, moment: str, forked: Forked, rng: random.Random, seconds: float) -> Iterator[Callable[[], bool]]:
        behaviour, calls = self.server.behaviour, self.server.ledger.calls
        pid = forked.process.pid
        assert pid is not None
        left = count(rng.randrange(1, 12), -1)

        def strike() -> None:
            if next(left) == 0:
                os.kill(pid, signal.SIGKILL)

        def outcome(custom_id: str, body: dict[str, Any], accepted_before: int) -> str:
            strike()
            return self._outcome(custom_id, body, accepted_before)

        def judge(system: str, user: str) -> str:
            strike()
            return verdict_by_hash(system, user)

        def never() -> bool:
            return False

        reached: Callable[[], bool] = never
        if moment in (BEFORE_SUBMIT, LATE):
            route = FIRST_SENT[self.wire]
            kind = "drop" if moment == BEFORE_SUBMIT else "slow"
            behaviour.faults = [Fault(kind=kind, route=route, seconds=0.2, skip=rng.randrange(3))]
            reached = lambda: behaviour.faults[0].times == 0  # noqa: E731
        elif moment == AT_SUBMIT:
            behaviour.outcome = outcome
        elif moment == POLL:
            goal = calls["state"] + rng.randrange(1, 6)
            reached = lambda: calls["state"] >= goal  # noqa: E731
        elif moment == COLLECT:
            behaviour.judge = judge
        elif moment == WRITE:
            path = self.run / rng.choice(WRITTEN)
            before = _changed_at(path)
            reached = lambda: _changed_at(path) != before  # noqa: E731
        else:
            until = time.monotonic() + rng.uniform(0.0, seconds)
            reached = lambda: time.monotonic() >= until  # noqa: E731
        try:
            yield reached
        finally:
            behaviour.outcome, behaviour.judge = self._outcome, verdict_by_hash
            behaviour.faults = [] if moment != LATE else behaviour.faults

    def artifacts(self) -> dict[str, Any]:
        """Everything in the run folder, without the times and without who asked what when."""
        found: dict[str, Any] = {}
        for path in sorted(self.run.rglob("*")):
            name = str(path.relative_to(self.run))
            if path.suffix == ".npz":
                arrays = np.load(path)
                found[name] = {key: arrays[key].tolist() for key in arrays.files}
            elif name.startswith(("verdicts/", "scores/")):
                found[name] = [_timeless(row) for row in read_lines(path)]
            elif name == "manifest.json":
                manifest = json.loads(path.read_text(encoding="utf-8"))
                assert manifest["finished_at"] >= manifest["started_at"]
                manifest["sha256"].pop("config")  # it names the server's address
                found[name] = {**manifest, "started_at": None, "finished_at": None}
            elif name == "usage.json":
                usage = json.loads(path.read_text(encoding="utf-8"))
                found[name] = {dimension: row["queries"] for dimension, row in usage["dimensions"].items()}
            elif path.is_file():
                found[name] = None if name == "report.html" else path.read_bytes()
        return found


def _timeless(row: dict[str, Any]) -> dict[str, Any]:
    return {**row, "raw": [{**verdict, "timestamp": None} for verdict in row["raw"]]}


def _changed_at(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except FileNotFoundError:
        return 0
