"""Screening an arena: suspicious sessions, answers that reveal their author, and what excluding votes would do.

What `screen` finds becomes events. `effects_of` tries an exclusion on a copy and leaves the original state unchanged.
"""

from __future__ import annotations

import copy
import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tiltyard.arena.board import live_board
from tiltyard.arena.events import SELF_NAMING, Event, Excluded, Flagged, Restored
from tiltyard.arena.file_intake import words_of
from tiltyard.arena.integrity import (
    AnswerFlag,
    ExclusionProposal,
    VoterFlag,
    accepted,
    events_of,
    flag_answers,
    flag_voters,
    flag_words,
    propose_exclusions,
    propose_unblinded,
)
from tiltyard.arena.state import VoteStanding
from tiltyard.arena.store import reading, site_texts
from tiltyard.arena.store.state_bytes import decode_state, encode_state
from tiltyard.arena.votes import MemoryVoteBook, vote_table
from tiltyard.arena.weights import contested_models

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tiltyard.arena import events as e
    from tiltyard.arena.board import BoardRow, LiveBoard
    from tiltyard.arena.catalog import Catalog
    from tiltyard.arena.service import Arena
    from tiltyard.arena.state import ArenaState, CastVote
    from tiltyard.arena.store import Store
    from tiltyard.arena.weights import ContestedModel


SCREENED_AS = 2
"""Incremented when more answers are found to say who wrote them: a site then reads all answers again at its start."""


@dataclass(frozen=True, slots=True)
class Screening:
    """The findings, the proposed exclusions, and the new events: flags, and what the policy excludes."""

    voters: list[VoterFlag]
    answers: list[AnswerFlag]
    proposals: list[ExclusionProposal]
    events: list[e.Flagged | e.Excluded]
    contested: tuple[ContestedModel, ...] = ()
    """Models whose latest votes differ from earlier ones."""


def screen(store: Store, state: ArenaState, *, exclude: bool = False) -> Screening:
    """Screen every vote, undo, skip and answer. With `exclude`, all proposals are carried out."""
    table = vote_table(reading.cast_votes(store, state.seq), state.catalog)
    voters = flag_voters(table, state.track.now.rating, state.policy.flags, reading.session_acts(store))
    texts = reading.answer_texts(store)
    models = state.catalog.models
    answers = flag_answers(((name, models[model], text) for name, model, text in texts), models)
    answers += _flag_pages(store, state.catalog, lambda _: True)
    by_voters = propose_exclusions(table, voters)
    shown = reading.answers_shown(store)
    unblinded = propose_unblinded(table, [shown[name] for name in table.matchup_ids], answers)
    proposals = [*by_voters, *([unblinded] if unblinded is not None else [])]
    chosen = proposals if exclude else accepted(state.policy.flags, by_voters, unblinded)
    known = reading.flags_raised(store)
    contested = contested_models(table, state.policy.defences, state.latest)
    events = events_of(voters, answers, chosen, known, contested)
    return Screening(voters, answers, proposals, events, contested)


def screen_answers(store: Store, catalog: Catalog) -> list[AnswerFlag]:
    """The answers that could be served and say who wrote them, without those that were flagged before.

    An answer that an administrator cleared stays cleared: it was flagged before.
    """
    current = set(catalog.response_ids.values())
    known = {name for name, flag in reading.flags_raised(store) if flag == SELF_NAMING}
    texts = [row for row in reading.answer_texts(store) if row[0] in current and row[0] not in known]
    found = flag_answers(((name, catalog.models[model], text) for name, model, text in texts), catalog.models)
    return found + _flag_pages(store, catalog, lambda name: name in current and name not in known)


def _flag_pages(store: Store, catalog: Catalog, wanted: Callable[[str], bool]) -> list[AnswerFlag]:
    """The pages and drawings among the wanted answers that name a model; one is read at a time."""
    pages = ((name, model, source) for name, model, source in reading.answer_words(store) if wanted(name))
    models = catalog.models
    return flag_words(((name, models[model], words_of(source)) for name, model, source in pages), models)


def hide_self_naming(arena: Arena) -> list[AnswerFlag]:
    """Flag the answers that say who wrote them and are not flagged yet, so that they are not served.

    Nothing is read when neither models nor answers have changed since the last time.
    """
    catalog = arena.read(lambda state: copy.deepcopy(state.catalog))
    parts = (f"{m.model}\0{m.display_name}\0{m.provider}" for m in catalog.models)
    seen = "\n".join((str(SCREENED_AS), *parts, *sorted(catalog.response_ids.values())))
    digest = hashlib.sha256(seen.encode()).hexdigest()
    if site_texts.screened(arena.store) == digest:
        return []
    found = screen_answers(arena.store, catalog)
    flags = [
        Flagged(subject="response", subject_id=flag.response_id, flag=SELF_NAMING, detail=flag.phrase) for flag in found
    ]
    if flags:
        arena.append(flags)
    site_texts.set_screened(arena.store, digest)
    return found


@dataclass(frozen=True, slots=True)
class RowEffect:
    """One model's row before and after."""

    before: BoardRow
    after: BoardRow

    @property
    def rank_change(self) -> int:
        """Places gained (positive) or lost."""
        return self.before.rank - self.after.rank

    @property
    def rating_change(self) -> float:
        """The change of its rating."""
        return self.after.rating - self.before.rating

    @property
    def conservative_change(self) -> float:
        """The change of the score that defines the official order."""
        return self.after.conservative - self.before.conservative

    @property
    def votes_change(self) -> int:
        """The change of its counted votes."""
        return self.after.votes - self.before.votes

    @property
    def changed(self) -> bool:
        """Whether anything about the model is different."""
        return self.before != self.after


@dataclass(frozen=True, slots=True)
class Effects:
    """The board before and after, and how many votes would change; rows are in the order of the board before."""

    before: LiveBoard
    after: LiveBoard
    votes: int
    rows: tuple[RowEffect, ...]

    @property
    def places_changed(self) -> int:
        """How many models would have another rank."""
        return sum(row.rank_change != 0 for row in self.rows)

    @property
    def largest_rating_change(self) -> float:
        """The largest change of any rating, up or down."""
        return max((abs(row.rating_change) for row in self.rows), default=0.0)


def copy_of(state: ArenaState, votes: Iterable[CastVote]) -> ArenaState:
    """An in-memory copy of this state; `votes` are all votes that the state has applied, in order."""
    book = MemoryVoteBook()
    for vote in votes:
        book.cast(vote)
    copy = decode_state(encode_state(state), book)
    assert copy is not None, "a state frozen by this version thaws in this version"
    return copy


def effects_of(state: ArenaState, change: Excluded | Restored) -> Effects:
    """What the event would change if it came next. `state` is the caller's copy (`copy_of`), and is modified."""
    before = live_board(state)
    turned = _turned(state, change)
    state.apply(state.seq + 1, Event(state.at, change))
    after = live_board(state)
    later = {row.model: row for row in after.rows}
    return Effects(before, after, turned, tuple(RowEffect(row, later[row.model]) for row in before.rows))


def _turned(state: ArenaState, change: Excluded | Restored) -> int:
    """How many of the votes the event would change; undone ones never change."""
    wanted = VoteStanding.COUNTED if isinstance(change, Restored) else VoteStanding.EXCLUDED
    return sum(vote.standing not in (wanted, VoteStanding.UNDONE) for vote in state.book.find(change.matchup_ids))
