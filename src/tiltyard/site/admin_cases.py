"""What screening found, as cases that a person decides: which votes, why, and what excluding them would do."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from typing import Literal

import msgspec

from tiltyard.arena import (
    AnswerFlag,
    CastVote,
    Effects,
    ScreenedAnswers,
    Screening,
    VoteStanding,
    copy_of,
    effects_of,
    screen,
)
from tiltyard.arena import events as e
from tiltyard.arena.store import LoggedEvent, latest_events
from tiltyard.arena.study import Observatory, Pace
from tiltyard.errors import ArenaError
from tiltyard.site.site import Site

CaseKind = Literal["session", "answers", "exclusion"]

EXCLUSIONS_SHOWN = 50
FLAGS_READ = 2_000
UNBLINDED = "an answer says who wrote it"


class FlaggedSession(msgspec.Struct, frozen=True):
    """A flagged voter, or one with excluded votes: how many votes of which status."""

    voter: str
    reasons: tuple[str, ...]
    sure: bool
    counted: int
    excluded: int
    undone: int


class Exclusion(msgspec.Struct, frozen=True):
    """An event that excluded votes, and how many of them are still excluded."""

    seq: int
    at: int
    reason: str
    votes: int
    still: int


class ScreeningReport(msgspec.Struct, frozen=True):
    """All that screening says of the arena after event `seq`."""

    seq: int
    sessions: tuple[FlaggedSession, ...]
    answers: tuple[AnswerFlag, ...]
    unblinded: tuple[str, ...]
    """Matchups with counted votes that showed an answer which says who wrote it."""
    exclusions: tuple[Exclusion, ...]
    new_flags: tuple[e.Flagged, ...]


class ReviewItem(msgspec.Struct, frozen=True):
    """Votes to decide about together; `until` is the last event that was considered."""

    kind: CaseKind
    name: str
    reasons: tuple[str, ...]
    counted: tuple[str, ...]
    excluded: tuple[str, ...]
    undone: int
    until: int

    @property
    def reason(self) -> str:
        return "; ".join(self.reasons)


class Screener:
    """Screens an arena on a copy of all final votes, which it follows for itself: the arena never waits for it."""

    def __init__(self, site: Site) -> None:
        self._store = site.engine.arena.store
        self._follows = Observatory(site.settings.db, now=site.engine.arena.now, pace=Pace(publish_seconds=0.0))
        self._lock = threading.Lock()
        self._kept: ScreeningReport | None = None
        self._answers = ScreenedAnswers()

    def findings(self) -> ScreeningReport:
        """Current findings, cached per log position. Votes are in memory, and every answer is read only once."""
        with self._lock:
            self._follows.catch_up()
            seq = self._follows.look(lambda state, _: state.seq)
            if self._kept is None or self._kept.seq != seq:
                self._kept = self._found()
            return self._kept

    def case(self, kind: CaseKind, name: str, until: int | None = None) -> ReviewItem:
        """One case; with `until` only votes up to that event. A missing case is an `ArenaError`."""
        findings = self.findings()
        match kind:
            case "session":
                votes = self._follows.votes_of(name)
                known = {session.voter: session.reasons for session in findings.sessions}
                reasons = known.get(name, ())
            case "answers":
                votes, reasons = self._votes(set(findings.unblinded)), (UNBLINDED,)
            case "exclusion":
                written = next((event for event in findings.exclusions if str(event.seq) == name), None)
                if written is None:
                    raise ArenaError(f"event {name[:20]!r} is not a known exclusion. Reload the list.")
                events = latest_events(self._store, ["excluded"], EXCLUSIONS_SHOWN)
                names = {name for event in events if event.seq == written.seq for name in _names(event.body)}
                votes, reasons = self._votes(names), (written.reason,)
        if not votes:
            raise ArenaError("there are no votes to decide about. Reload the list.")
        return _case(kind, name, reasons, votes, findings.seq if until is None else until)

    def effects(self, change: e.Excluded | e.Restored) -> Effects:
        """What a change would do to the board, tried on a copy: others wait only while it is made."""
        state, votes = self._follows.look(lambda state, votes: (copy_of(state, ()), list(votes)))
        return effects_of(copy_of(state, votes), change)

    def close(self) -> None:
        self._follows.close()

    def _votes(self, names: set[str]) -> list[CastVote]:
        return self._follows.look(lambda _, votes: votes.find(names))

    def _found(self) -> ScreeningReport:
        store = self._store
        state, votes = self._follows.look(lambda state, votes: (copy_of(state, ()), votes.copy()))
        result = screen(store, state, votes=votes, answers=self._answers)
        flagged = latest_events(store, ["flagged"], FLAGS_READ)
        events = latest_events(store, ["excluded"], EXCLUSIONS_SHOWN)
        changed = votes.find({name for event in events for name in _names(event.body)})
        standing = {vote.matchup_id: vote.standing for vote in changed}
        return ScreeningReport(
            seq=state.seq,
            sessions=tuple(_sessions(result, flagged, votes.standings())),
            answers=tuple(result.answers),
            unblinded=next((p.matchup_ids for p in result.proposals if p.reason == UNBLINDED), ()),
            exclusions=tuple(_exclusion(event, standing) for event in events),
            new_flags=tuple(event for event in result.events if isinstance(event, e.Flagged)),
        )


def _case(kind: CaseKind, name: str, reasons: tuple[str, ...], votes: list[CastVote], until: int) -> ReviewItem:
    def standing(wanted: VoteStanding) -> tuple[str, ...]:
        return tuple(vote.matchup_id for vote in votes if vote.standing is wanted and vote.seq <= until)

    counted, excluded = standing(VoteStanding.COUNTED), standing(VoteStanding.EXCLUDED)
    return ReviewItem(kind, name, reasons, counted, excluded, len(standing(VoteStanding.UNDONE)), until)


def _sessions(
    result: Screening, flagged: Iterable[LoggedEvent], standings: Mapping[str, Mapping[VoteStanding, int]]
) -> list[FlaggedSession]:
    """Sessions with new flags first, then those flagged or excluded before; each group by number of votes."""
    reasons: dict[str, dict[str, str]] = {}
    for event in flagged:
        if isinstance(event.body, e.Flagged) and event.body.subject == "voter":
            reasons.setdefault(event.body.subject_id, {}).setdefault(event.body.flag, event.body.detail)
    sure: dict[str, bool] = {}
    for flag in result.voters:
        reasons.setdefault(flag.voter, {})[flag.flag] = flag.detail
        sure[flag.voter] = sure.get(flag.voter, False) or flag.sure
    listed = {*reasons, *(voter for voter, counts in standings.items() if counts[VoteStanding.EXCLUDED])}
    sessions = [
        FlaggedSession(
            voter=voter,
            reasons=tuple(f"{flag}: {detail}" for flag, detail in reasons.get(voter, {}).items()),
            sure=sure.get(voter, False),
            counted=counts[VoteStanding.COUNTED],
            excluded=counts[VoteStanding.EXCLUDED],
            undone=counts[VoteStanding.UNDONE],
        )
        for voter in listed
        if (counts := standings.get(voter)) is not None
    ]
    return sorted(sessions, key=lambda s: (s.voter not in sure, not s.sure, -s.counted - s.excluded, s.voter))


def _exclusion(event: LoggedEvent, standing: dict[str, VoteStanding]) -> Exclusion:
    body = event.body
    assert isinstance(body, e.Excluded)
    assert event.seq is not None
    still = sum(standing.get(name) is VoteStanding.EXCLUDED for name in body.matchup_ids)
    return Exclusion(event.seq, event.at, body.reason, len(body.matchup_ids), still)


def _names(body: e.AnyBody) -> tuple[str, ...]:
    return body.matchup_ids if isinstance(body, e.Excluded) else ()
