"""Folding many events at once: the same state as one by one, to the last bit, in a fraction of the time.

Nearly all events of a long log are matchups served and voted on. A run of these needs no look at the state between two
of them, so its counts are added as columns, and its votes go through the rating loop together. Whatever else happens
ends a run: it is applied by `ArenaState.apply`, as is a run with anything unusual in it, so that there is only one
place that decides what an unusual event means.
"""

from __future__ import annotations

import ctypes
import gc
import threading
from collections.abc import Callable, Sequence
from functools import cache

import numpy as np

from tiltyard.arena import events as e
from tiltyard.arena.rating_track import SCORES, Votes
from tiltyard.arena.schedule import Reserved, ServedRun
from tiltyard.arena.state import ArenaState, CastRun
from tiltyard.arena.tallies import CODES

WORTH_COLUMNS = 200
"""A shorter run is applied one by one: what columns cost for each run is then more than what they save."""

IN_RUNS = frozenset({e.MatchupServed, e.Voted, e.Skipped, e.Expired, e.Revealed, e.Explained})
"""What may happen in a run."""


RARELY = 200_000
"""Objects made before Python looks for garbage in circles, of which a fold makes none; its own number is 700."""


class RareCollection:
    """While entered, by any thread, Python rarely looks for garbage: that takes a quarter of a long fold."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._entered = 0
        self._usual = gc.get_threshold()

    def __enter__(self) -> None:
        with self._lock:
            if not self._entered:
                self._usual = gc.get_threshold()
                gc.set_threshold(max(RARELY, self._usual[0]), *self._usual[1:])
            self._entered += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._entered -= 1
            if not self._entered:
                gc.set_threshold(*self._usual)


rare_collection = RareCollection()


@cache
def _trim() -> Callable[[int], int] | None:
    try:
        result: Callable[[int], int] = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):  # another C library than glibc
        return None
    return result


def give_back_memory() -> None:
    """Return to the system what a computation over all votes has freed.

    The C library keeps it otherwise, in pieces between what is still used: as much again as a vote takes.
    """
    trim = _trim()
    if trim is not None:
        trim(0)


def apply_all(state: ArenaState, events: Sequence[e.Event]) -> None:
    """Apply the next events of the log."""
    start, done = 0, len(events)
    others = [place for place, event in enumerate(events) if type(event.body) not in IN_RUNS]
    for end in (*others, done):
        if end - start < WORTH_COLUMNS or not _apply_run(state, events[start:end]):
            for event in events[start:end]:
                state.apply(state.seq + 1, event)
        if end < done:
            state.apply(state.seq + 1, events[end])
        start = end + 1


def _apply_run(state: ArenaState, events: Sequence[e.Event]) -> bool:
    """Apply a run as columns; False, and nothing has changed, where it has to be applied one by one."""
    run = _Run()
    if state.schedule.early or not run.read(events, state.schedule.in_flight):
        return False
    served, catalog = run.served, state.catalog
    numbers = catalog.numbers(
        [body.model_a for body in served], [body.model_b for body in served], [body.prompt_id for body in served]
    )
    if numbers is None:
        return False
    shown = ServedRun(*numbers, [body.lane for body in served])
    a, b, prompt = (np.array(column, dtype=np.int64) for column in numbers)
    if _brings_rest(state, a, b, prompt):
        return False
    catalog.count_all_shown(a, b, prompt)
    opened = [_reserved(served[place], shown, place) for place in run.opened.values()]
    state.schedule.take_run(shown, run.closed, opened)
    if run.voted:
        _cast(state, events, run, shown)
    times = [event.at for event in events]
    state.seq += len(events)
    state.at = times[-1]
    state.latest = max(state.latest, *times)
    return True


class _Run:
    """What a run of events serves and closes. A vote's matchup is a place in `served`, or below 0 in `before`."""

    def __init__(self) -> None:
        self.served: list[e.MatchupServed] = []
        self.opened: dict[str, int] = {}
        """The matchups that the run served and did not close: their places in `served`."""
        self.before: list[Reserved] = []
        self.closed: set[str] = set()
        """The matchups from before the run that it closed."""
        self.voted: list[int] = []
        """The places of votes in the run."""
        self.votes_on: list[int] = []
        """The matchup of each vote: n is `served[n]`, and −n is `before[n − 1]`."""

    def read(self, events: Sequence[e.Event], in_flight: dict[str, Reserved]) -> bool:
        """Read the events; False where one of them is not what it always is."""
        served, opened, closed = self.served, self.opened, self.closed
        voted, votes_on, take = self.voted, self.votes_on, self.opened.pop
        serving, voting = e.MatchupServed, e.Voted
        for place, event in enumerate(events):
            body = event.body
            kind = type(body)
            if kind is serving:
                name = body.matchup_id  # type: ignore[union-attr]
                if name in opened or name in in_flight:
                    return False
                opened[name] = len(served)
                served.append(body)  # type: ignore[arg-type]
            elif kind is voting or kind is e.Skipped or kind is e.Expired:
                name = body.matchup_id  # type: ignore[union-attr]
                number = take(name, None)
                if number is None:
                    if name not in in_flight or name in closed:
                        return False
                    closed.add(name)
                    self.before.append(in_flight[name])
                    number = -len(self.before)
                if kind is voting:
                    voted.append(place)
                    votes_on.append(number)
        return True


def _reserved(body: e.MatchupServed, shown: ServedRun, place: int) -> Reserved:
    numbers = shown.a[place], shown.b[place], shown.prompt[place]
    return Reserved(body.matchup_id, body.voter, *numbers, body.lane, body.expires_at, body.block)


def _brings_rest(state: ArenaState, a: np.ndarray, b: np.ndarray, prompt: np.ndarray) -> bool:
    """Whether an answer of this run is shown so often that the bank's rules must be looked at in between."""
    most = state.policy.bank.seen_at_most
    if not most or not len(a):
        return False
    shown = state.catalog.shown.view.copy()
    for model in (a, b):
        np.add.at(shown, (model, prompt), 1)
    return bool(max(shown[a, prompt].max(), shown[b, prompt].max()) >= most)


def _cast(state: ArenaState, events: Sequence[e.Event], run: _Run, shown: ServedRun) -> None:
    """Count, keep and rate the votes of a run."""
    before = run.before[::-1]  # so that −1 is the last of all, and the first of them
    on = run.votes_on
    a, b, prompt = (
        [column[number] for number in on]
        for column in (
            shown.a + [one.a for one in before],
            shown.b + [one.b for one in before],
            shown.prompt + [one.prompt for one in before],
        )
    )
    matchups: list[e.MatchupServed | Reserved] = [*run.served, *before]
    votes = [events[place] for place in run.voted]
    bodies: list[e.Voted] = [vote.body for vote in votes]  # type: ignore[misc]
    choices = [body.choice for body in bodies]
    seqs = [state.seq + 1 + place for place in run.voted]
    table = np.array([a, b, prompt, [CODES[choice] for choice in choices], [1] * len(a)], dtype=np.int64).T
    state.tallies.count_all(table)
    state.book.cast_all(
        CastRun(
            seqs,
            [vote.at for vote in votes],
            [body.matchup_id for body in bodies],
            [matchups[number].voter for number in on],
            a,
            b,
            prompt,
            choices,
            [body.block or matchups[number].block for body, number in zip(bodies, on, strict=True)],
            [matchups[number].lane for number in on],
            [body.unrendered for body in bodies],
        )
    )
    state.track.vote_all(
        Votes(
            np.array(seqs, dtype=np.int64),
            np.array(a, dtype=np.int32),
            np.array(b, dtype=np.int32),
            np.array([SCORES[choice] for choice in choices]),
        )
    )
