"""Boards of a part of the votes: a category of prompts, a language, an answer kind, the votes up to a day, style apart.

Each is Bradley–Terry on the votes inside, on the scale of the whole board. The board of an earlier day has the ratings
of that day too: the votes that count now, rated once more up to its end.
"""

from __future__ import annotations

import re
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from datetime import UTC, date, datetime, timedelta

import msgspec
import numpy as np
from numpy.typing import NDArray

from tiltyard.arena.rules.units import DAY
from tiltyard.arena.rules.votes import VoteTable
from tiltyard.arena.study.board import OFFICIAL_FROM
from tiltyard.arena.study.offline import OfflineBoard, offline_board, on_scale
from tiltyard.arena.study.replay import scores_after
from tiltyard.arena.study.snapshots import Snapshot
from tiltyard.data.bank import STYLE
from tiltyard.errors import TiltyardError
from tiltyard.types import Floats

Styles = Mapping[tuple[int, int], tuple[int, ...]]
"""The style of current answers in the order of `STYLE`, by model and prompt number."""

KEPT_PARTS = 32
"""Boards of parts of the votes that are kept, the latest asked for."""

FOLLOWED_SECONDS = 600.0
"""How long after it was last asked for a part's board still follows the votes."""

_DAY = re.compile(r"\d{4}-\d{2}-\d{2}\Z")


class VotePart(msgspec.Struct, frozen=True):
    """Which votes a board is made of; empty means all of them."""

    category: str = ""
    language: str = ""
    kind: str = ""
    day: str = ""
    """The last day whose votes are in, such as `2026-11-01` (UTC)."""
    style: bool = False
    """Whether the style of the answers is controlled for."""

    @property
    def is_whole(self) -> bool:
        return self == WHOLE

    @property
    def is_dated(self) -> bool:
        """Whether it is the whole board of an earlier day."""
        return bool(self.day) and self == VotePart(day=self.day)


WHOLE = VotePart()


class ThenRow(msgspec.Struct, frozen=True):
    """A model on the board of an earlier day: its place, the rating that was shown, the rating behind it, its votes."""

    place: int
    model: str
    rating_shown: float
    rating: float
    deviation: float | None
    """None while Elo orders the board."""
    votes: int


class PartBoard(msgspec.Struct, frozen=True):
    """The board of a part: counted votes inside, Bradley–Terry over them, and the ratings then if it is a day's."""

    part: VotePart
    votes: int
    offline: OfflineBoard | None
    """None: too few votes inside to rate any model."""
    then: tuple[ThenRow, ...] = ()
    trouble: str = ""
    """Why models cannot be rated."""


def day_end(day: str) -> int | None:
    """The end of a day in UTC (microseconds); None if it is no day."""
    try:
        at = date.fromisoformat(day) if _DAY.match(day) else None
    except ValueError:
        return None
    if at is None or not 1970 <= at.year <= 9000:
        return None
    return int(datetime(at.year, at.month, at.day, tzinfo=UTC).timestamp()) * 1_000_000 + DAY


def day_of(at: int) -> str:
    """The day of a time (microseconds), in UTC."""
    return datetime.fromtimestamp(at // 1_000_000, UTC).date().isoformat()


def days_of(votes: VoteTable) -> list[str]:
    """Every day from the first vote to the last, oldest first."""
    if not len(votes):
        return []
    first, last = (date.fromisoformat(day_of(int(at))) for at in (votes.at.min(), votes.at.max()))
    return [(first + timedelta(days=n)).isoformat() for n in range((last - first).days + 1)]


def has_votes(snapshot: Snapshot, part: VotePart) -> bool:
    """Whether there can be votes in a part: its category, language, kind and day occur.

    A day on which voting was still going on, or had not begun, has no board of its own.
    """
    study = snapshot.study
    names = ((part.category, study.categories), (part.language, study.languages), (part.kind, study.kinds))
    if any(asked and asked not in there for asked, there in names):
        return False
    days = days_of(study.votes) if part.day else []
    return not part.day or (bool(days) and days[0] <= part.day <= days[-1])


def votes_in(snapshot: Snapshot, part: VotePart) -> VoteTable:
    """The counted votes of a part."""
    votes = snapshot.study.votes
    inside = np.ones(len(votes), dtype=bool)
    for asked, of in (
        (part.category, lambda prompt: prompt.categories),
        (part.language, lambda prompt: (prompt.language,)),
        (part.kind, lambda prompt: (prompt.kind,)),
    ):
        if asked:
            inside &= np.isin(votes.prompt, [one.number for one in snapshot.prompts if asked in of(one)])
    if part.day:
        inside[cut_at(votes, day_end(part.day) or 0) :] = False
    columns = (field.name for field in fields(votes) if isinstance(getattr(votes, field.name), np.ndarray))
    return replace(votes, **{name: getattr(votes, name)[inside] for name in columns}, matchup_ids=())


def cut_at(votes: VoteTable, at: int) -> int:
    """How many votes the log had before a time.

    Votes of several servers are not in clock order: a time means the position that the log had reached by then.
    """
    return int(np.searchsorted(np.maximum.accumulate(votes.at), at, side="left")) if len(votes) else 0


def part_board(snapshot: Snapshot, part: VotePart, styles: Callable[[], Styles]) -> PartBoard:
    """The board of a part that occurs; `styles` is called only if the style of the answers is controlled for."""
    votes = votes_in(snapshot, part)
    then = _then(snapshot, part) if part.is_dated else ()
    order = [row.model for row in then] or [row.model for row in snapshot.board.rows]
    style = _style_columns(votes, styles()) if part.style else None
    try:
        result = offline_board(votes, order, snapshot.policy.intervals, swaps=False, style=style)
    except TiltyardError as error:
        return PartBoard(part, len(votes), None, then, str(error))
    whole = snapshot.study.offline
    shown = {row.model: row.rating for row in then} or snapshot.board.raw_ratings
    slope = None if whole is None or then else whole.slope
    return PartBoard(part, len(votes), on_scale(result, shown, slope, widen=bool(then)), then)


def _then(snapshot: Snapshot, part: VotePart) -> tuple[ThenRow, ...]:
    """The models of today's board that had a vote by the end of a day, in the order of that day."""
    votes, policy = snapshot.study.votes, snapshot.policy
    cut = cut_at(votes, day_end(part.day) or 0)
    cast = np.bincount(
        np.concatenate([votes.model_a[:cut], votes.model_b[:cut]]).astype(np.int64), minlength=len(votes.models)
    )
    ((shown, rating, deviation),) = scores_after(votes, snapshot.study.replay, policy, snapshot.board.phase, [cut])
    official = snapshot.board.phase >= OFFICIAL_FROM
    there = [facts for facts in snapshot.models if facts.enabled and cast[facts.number]]
    there.sort(key=lambda facts: (-shown[facts.number], facts.number))
    return tuple(
        ThenRow(
            place,
            facts.model,
            float(shown[facts.number]),
            float(rating[facts.number]),
            float(deviation[facts.number]) if official else None,
            int(cast[facts.number]),
        )
        for place, facts in enumerate(there, start=1)
    )


def _style_columns(votes: VoteTable, styles: Styles) -> dict[str, Floats]:
    """The style of both answers of every vote, as they are now: `len_a`, `len_b`, and so on."""
    grid = np.zeros((len(votes.models), len(votes.prompts), len(STYLE)))
    for cell, result in styles.items():
        grid[cell] = result
    a, b = grid[votes.model_a, votes.prompt], grid[votes.model_b, votes.prompt]
    varied = [place for place in range(len(STYLE)) if (a[:, place] != b[:, place]).any()]
    return {
        f"{STYLE[place]}_{side}": values[:, place].astype(np.float64)
        for place in varied
        for side, values in (("a", a), ("b", b))
    }


class KeptParts:
    """The boards of the parts that were asked for last; each is made once per study, and asked for by any thread."""

    def __init__(self, styles: Callable[[], Styles]) -> None:
        self._styles = styles
        self._lock = threading.Lock()
        self._kept: OrderedDict[VotePart, tuple[int, float, PartBoard]] = OrderedDict()
        """The event up to which votes were counted, when it was last asked for, the board."""

    def __len__(self) -> int:
        return len(self._kept)

    def clear(self) -> None:
        with self._lock:
            self._kept.clear()

    def get(self, snapshot: Snapshot, part: VotePart) -> PartBoard | None:
        """The board of a part, which may be that of the last study; None if no vote can be in it."""
        if not has_votes(snapshot, part):
            return None
        with self._lock:
            kept = self._kept.get(part)
        if kept is None:
            seq, board = snapshot.study.seq, part_board(snapshot, part, self._styles)
        else:
            seq, _, board = kept
        with self._lock:
            self._kept[part] = (seq, time.monotonic(), board)
            self._kept.move_to_end(part)
            while len(self._kept) > KEPT_PARTS:
                self._kept.popitem(last=False)
        return board

    def follow(self, snapshot: Snapshot, ended: Callable[[], bool]) -> None:
        """Make the boards of a new study for the parts that are still asked for, and forget the others."""
        with self._lock:
            kept = tuple(self._kept.items())
        for part, (seq, asked, _) in kept:
            if seq >= snapshot.study.seq or ended():
                continue
            wanted = time.monotonic() - asked < FOLLOWED_SECONDS and has_votes(snapshot, part)
            board = part_board(snapshot, part, self._styles) if wanted else None
            with self._lock:
                if board is None:
                    self._kept.pop(part, None)
                elif part in self._kept:
                    self._kept[part] = (snapshot.study.seq, self._kept[part][1], board)


MOST_DAYS = 366
"""Days of a history that are computed; the last ones."""


class History(msgspec.Struct, frozen=True, eq=False):
    """Ratings and places by day: a row per day, a column per model of today's board.

    Before its first vote a model has no rating (NaN) and no place (0).
    """

    days: tuple[str, ...]
    models: tuple[str, ...]
    rating: Floats
    """The ratings shown at the end of each day."""
    place: NDArray[np.int64]
    votes: tuple[int, ...]
    """Counted votes up to the end of each day."""
    left_out: int
    """Earlier days that are left out."""

    def changes(self, day: int) -> int:
        """How many models stood on another place than the day before, among those that were there on both."""
        if day == 0:
            return 0
        before, now = self.place[day - 1], self.place[day]
        both = np.flatnonzero((before > 0) & (now > 0))
        order = [both[np.argsort(places[both], kind="stable")].tolist() for places in (before, now)]
        return sum(one != other for one, other in zip(*order, strict=True))


def history(snapshot: Snapshot) -> History:
    """The board at the end of every day, from the votes that count now."""
    votes, board = snapshot.study.votes, snapshot.board
    every = days_of(votes)
    days = every[-MOST_DAYS:]
    cuts = [cut_at(votes, day_end(day) or 0) for day in days]
    numbers = {facts.model: facts.number for facts in snapshot.models}
    chosen = np.array([numbers[row.model] for row in board.rows], dtype=np.int64)
    first = np.full(len(votes.models), len(votes), dtype=np.int64)
    for side in (votes.model_a, votes.model_b):
        np.minimum.at(first, side, np.arange(len(votes)))
    rating = np.full((len(days), len(chosen)), np.nan)
    place = np.zeros((len(days), len(chosen)), dtype=np.int64)
    for day, (shown, _, _) in enumerate(scores_after(votes, snapshot.study.replay, snapshot.policy, board.phase, cuts)):
        there = np.flatnonzero(first[chosen] < cuts[day])
        rating[day, there] = shown[chosen[there]]
        order = there[np.lexsort((chosen[there], -shown[chosen[there]]))]
        place[day, order] = np.arange(1, len(order) + 1)
    names = tuple(row.model for row in board.rows)
    return History(tuple(days), names, rating, place, tuple(cuts), len(every) - len(days))


def counts_by(names_of: Sequence[Sequence[str]], votes: VoteTable) -> dict[str, int]:
    """Names with the counted votes on the prompts that carry them, the largest first; `names_of` goes by prompt."""
    counts = np.bincount(votes.prompt, minlength=len(names_of))
    totals: dict[str, int] = {}
    for names, n in zip(names_of, counts.tolist(), strict=True):
        for name in dict.fromkeys(filter(None, names)):
            totals[name] = totals.get(name, 0) + n
    return dict(sorted(totals.items(), key=lambda item: (-item[1], item[0])))
