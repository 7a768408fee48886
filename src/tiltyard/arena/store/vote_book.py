"""Votes in the database, as they were at any position of the log.

A process that follows the log may be a little behind the tables, which another process keeps at the head. So nothing
here is read as it is *now*: `changes` says when a vote was removed or restored, and every query is answered as of
number `seq`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import repeat

import numpy as np
import sqlalchemy as sa

from tiltyard.arena.events import Choice
from tiltyard.arena.rating_track import SCORES, Ratings, Votes
from tiltyard.arena.state import CastRun, CastVote, VoteStanding
from tiltyard.arena.store.bulk import Row, fetch, insert_rows, one_of
from tiltyard.arena.store.state_bytes import decode_ratings
from tiltyard.arena.store.tables import changes, marks, votes

PAGE = 100_000

SCORE_OF = {str(choice): score for choice, score in SCORES.items()}

_found = sa.select(
    *(votes.c.seq, votes.c.at, votes.c.matchup_id, votes.c.voter, votes.c.a, votes.c.b, votes.c.prompt),
    *(votes.c.choice, votes.c.standing, votes.c.block, votes.c.unrendered),
).where(one_of(votes.c.matchup_id, "ids"), votes.c.seq <= sa.bindparam("now"))
_page = (
    sa.select(votes.c.seq, votes.c.a, votes.c.b, votes.c.choice, votes.c.standing)
    .where(votes.c.seq > sa.bindparam("after"), votes.c.seq <= sa.bindparam("now"))
    .order_by(votes.c.seq)
    .limit(PAGE)
)
_changed = (
    sa.select(changes.c.vote_seq, changes.c.standing_before)
    .where(changes.c.seq > sa.bindparam("after"))
    .order_by(changes.c.seq.desc())
)
_mark = (
    sa.select(marks.c.seq, marks.c.ratings)
    .where(marks.c.seq < sa.bindparam("before"))
    .order_by(marks.c.seq.desc())
    .limit(1)
)
_first_changed = sa.select(sa.func.min(changes.c.vote_seq)).where(
    changes.c.seq > sa.bindparam("after"), changes.c.seq <= sa.bindparam("now")
)


class SqlVoteBook:
    """The votes of the database, as of number `seq`. New ones are kept in lists until `flush`, if needed.

    The owner sets `connection` for the duration of a transaction, `writes` if it is the projector, and for each event
    `seq`, the event being applied, and `rules_since`, the event that last changed the rating rules: older marks are
    useless.
    """

    def __init__(self, connection: sa.Connection | None = None, *, writes: bool = False) -> None:
        self.connection = connection
        self.writes = writes
        self.seq = 0
        self.rules_since = 0
        self.on_cast: Callable[[CastVote], None] | None = None
        """Called with every new vote."""
        self._cast: list[CastVote] = []

    def cast(self, vote: CastVote) -> None:
        """Keep a new vote."""
        if self.writes:
            self._cast.append(vote)
        if self.on_cast is not None:
            self.on_cast(vote)

    def cast_all(self, cast: CastRun) -> None:
        """Keep many new votes."""
        if self.writes:
            self.flush()
            self.keep(rows_of(cast))
        if self.on_cast is not None:
            for vote in cast.votes():
                self.on_cast(vote)

    def find(self, matchup_ids: Iterable[str]) -> list[CastVote]:
        """The votes on these matchups, in log order, as they were before event `seq`."""
        self.flush()
        rows = fetch(self._open, _found, {"ids": sorted(set(matchup_ids)), "now": self.seq})
        before = self._standing_at(self.seq - 1)
        return [
            CastVote(
                *(seq, at, name, voter, a, b, prompt, Choice(choice)),
                VoteStanding(self.standing_of(seq, before.get(seq) or standing)),
                block,
                unrendered=unrendered,
            )
            for seq, at, name, voter, a, b, prompt, choice, standing, block, unrendered in sorted(rows)
        ]

    def standing_of(self, seq: int, stored: str) -> str:  # noqa: ARG002
        """The status of a vote at this place of the log, where the tables say this."""
        return stored

    def change(self, changed: Iterable[CastVote], standing: VoteStanding) -> None:
        """Change the status of votes."""
        rows = [(vote.seq, str(vote.standing)) for vote in changed]
        if not self.writes or not rows:
            return
        self.flush()
        self._open.execute(
            sa.update(votes).where(votes.c.seq == sa.bindparam("of")).values(standing=str(standing)),
            [{"of": seq} for seq, _ in rows],
        )
        self._open.execute(
            sa.insert(changes),
            [
                {"seq": self.seq, "vote_seq": seq, "standing_before": before, "standing_after": str(standing)}
                for seq, before in rows
            ],
        )

    def ratings_before(self, seq: int) -> Ratings | None:
        """The latest valid mark from before a vote: computed by these rules, from votes not changed since.

        A mark at number c was computed from the votes as they were then. It is valid if every vote changed after c was
        also cast after c.
        """
        self.flush()
        before = seq
        while True:
            mark = self._open.execute(_mark, {"before": before}).first()
            if mark is None or mark.seq < self.rules_since:
                return None
            span = {"after": mark.seq, "now": self.seq}
            first_changed = self._open.execute(_first_changed, span).scalar_one()
            if first_changed is None or first_changed > mark.seq:
                return decode_ratings(mark.ratings)
            before = first_changed

    def votes_after(self, seq: int) -> Iterator[Votes]:
        """The votes after a sequence number that count after event `seq`, in order, in pieces."""
        self.flush()
        while True:
            rows = self._open.execute(_page, {"after": seq, "now": self.seq}).all()
            before = self._standing_at(self.seq)
            counted = [
                row for row in rows if self.standing_of(row[0], before.get(row[0], row[4])) == VoteStanding.COUNTED
            ]
            if counted:
                numbers, a, b, choices, _ = zip(*counted, strict=True)
                yield Votes(
                    np.array(numbers, dtype=np.int64),
                    np.array(a, dtype=np.int32),
                    np.array(b, dtype=np.int32),
                    np.array([SCORE_OF[choice] for choice in choices]),
                )
            if len(rows) < PAGE:
                return
            seq = rows[-1][0]

    def flush(self) -> None:
        """Write the votes that were cast."""
        if self._cast:
            cast, self._cast = self._cast, []
            self.keep([_row(vote) for vote in cast])

    def keep(self, rows: list[Row]) -> None:
        """Write the rows of new votes."""
        insert_rows(self._open, votes, rows)

    def forget(self) -> None:
        """Discard what was not written: its transaction failed."""
        self._cast.clear()

    @property
    def _open(self) -> sa.Connection:
        assert self.connection is not None, "the book was asked outside a transaction"
        return self.connection

    def _standing_at(self, seq: int) -> dict[int, str]:
        """The status, at number `seq`, of votes that were changed later.

        It is queried after the votes, so that a change by another process in between is seen.
        """
        return {row.vote_seq: row.standing_before for row in self._open.execute(_changed, {"after": seq})}


def votes_as_of(connection: sa.Connection, matchup_ids: Iterable[str], seq: int) -> list[CastVote]:
    """The votes on these matchups as they were after event `seq`, in the order of the log."""
    book = SqlVoteBook(connection)
    book.seq = seq + 1  # the book answers as of just before its event
    return book.find(matchup_ids)


def rows_of(cast: CastRun) -> list[Row]:
    """The rows of new votes."""
    choices = [choice._value_ for choice in cast.choice]
    counted = repeat(VoteStanding.COUNTED.value, len(choices))
    return list(zip(*cast[:7], choices, counted, cast.block, cast.unrendered, strict=True))


def _row(vote: CastVote) -> Row:
    return (
        *(vote.seq, vote.at, vote.matchup_id, vote.voter, vote.a, vote.b, vote.prompt),
        *(vote.choice._value_, vote.standing._value_, vote.block, vote.unrendered),
    )
