"""Screening an arena: suspicious sessions, answers that reveal their author, and what excluding votes would do.

What `screen` finds becomes events. `effects_of` tries an exclusion on a copy and leaves the original state unchanged.
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from tiltyard.arena.intake.file_intake import WITH_WORDS, words_of
from tiltyard.arena.rules import events as e
from tiltyard.arena.rules.events import MAY_NAME, SELF_NAMING, Event, Excluded, ModelAdded, Restored
from tiltyard.arena.rules.ratings import rate_votes
from tiltyard.arena.rules.state import ArenaState
from tiltyard.arena.rules.votes import CastVote, VoteColumns, VoteStanding
from tiltyard.arena.rules.weights import ContestedModel, contested_models
from tiltyard.arena.store import reading, site_texts
from tiltyard.arena.store.checkpoints import decode_state, encode_state, load_votes
from tiltyard.arena.store.files import read_file
from tiltyard.arena.store.store import Store
from tiltyard.arena.study.board import BoardRow, LiveBoard, live_board
from tiltyard.arena.study.integrity import (
    AnswerFlag,
    ExclusionProposal,
    VoterFlag,
    accepted,
    events_of,
    flag_answers,
    flag_voters,
    naming_lines,
    propose_exclusions,
    propose_unblinded,
)
from tiltyard.arena.study.replay import published_ratings
from tiltyard.arena.writing.service import Arena

SCREENED_AS = 4
"""Incremented when more answers are found to say who wrote them: a site then reads all answers again at its start."""


class Screening(msgspec.Struct, frozen=True):
    """The findings, the proposed exclusions, and the new events: flags, and what the policy excludes."""

    voters: list[VoterFlag]
    answers: list[AnswerFlag]
    proposals: list[ExclusionProposal]
    events: list[e.Flagged | e.Excluded]
    contested: tuple[ContestedModel, ...] = ()
    """Models whose latest votes differ from earlier ones."""
    current: frozenset[str] = frozenset()
    """The answers that the arena has now."""
    released: frozenset[str] = frozenset()
    """Answers that were held, and that an administrator serves again."""

    @property
    def lines(self) -> list[str]:
        flags = [flag for flag in self.answers if flag.response_id in self.current - self.released]
        return naming_lines(flags, len(self.current), listed=0)


class ScreenedAnswers:
    """Which answers name their authors. An answer never changes, so each is read once, until a model is renamed."""

    def __init__(self) -> None:
        self._titles: list[str] = []
        self._seen: set[str] = set()
        self._found: list[AnswerFlag] = []

    def follow(self, store: Store, models: Sequence[ModelAdded]) -> list[AnswerFlag]:
        """The flags of all answers of these models.

        An import may go on meanwhile: answers of models that came after these are read when their models are known.
        """
        titles = _titles(models)
        if titles != self._titles:
            self._titles, self._seen, self._found = titles, set(), []
        known = {model.model for model in models}
        with store.database.read() as connection:
            added = store.answers.by_id(connection).values()
        new = [one.response_id for one in added if one.model in known and one.response_id not in self._seen]
        if new:
            self._found += _flags(store, models, new)
            self._seen.update(new)
        return list(self._found)


def screen(
    store: Store,
    state: ArenaState,
    *,
    exclude: bool = False,
    votes: VoteColumns | None = None,
    answers: ScreenedAnswers | None = None,
) -> Screening:
    """Screen every vote, undo, skip and answer; with `exclude`, all proposals are carried out.

    `votes` are all votes up to that state, in order, and `answers` what was found out before: what is not given is
    read from the database.
    """
    policy, catalog = state.policy, state.catalog
    if votes is None:
        with store.database.read() as connection:
            _, votes, _ = load_votes(connection, state.seq)
    table = votes.table(catalog, with_ids=True)
    rating = rate_votes(table, policy.rating).rating
    voters = flag_voters(table, rating, policy.flags, reading.session_acts(store))
    flagged = (answers or ScreenedAnswers()).follow(store, catalog.models)
    by_voters = propose_exclusions(table, voters)
    shown = reading.answers_shown(store, (flag.response_id for flag in flagged))
    known = reading.flags_raised(store)
    released = frozenset(name for name, flag in known if flag == SELF_NAMING) - catalog.telling
    told = [flag for flag in flagged if flag.response_id not in released]
    unblinded = propose_unblinded(table, [shown.get(name, ("", "")) for name in table.matchup_ids], told)
    proposals = [*by_voters, *([unblinded] if unblinded is not None else [])]
    chosen = proposals if exclude else accepted(policy.flags, by_voters, unblinded)
    contested = contested_models(table, policy.defences, state.latest)
    events = events_of(voters, flagged, chosen, known, contested)
    return Screening(voters, flagged, proposals, events, contested, frozenset(catalog.response_ids.values()), released)


def _flags(store: Store, models: Sequence[ModelAdded], names: Iterable[str]) -> list[AnswerFlag]:
    by_name, asked = {model.model: model for model in models}, reading.prompt_texts(store)
    with store.database.read() as connection:
        answers = store.texts.get(connection, store.answers.seqs(connection, names)).values()

    def texts() -> Iterator[tuple[str, ModelAdded, str, str]]:
        for answer in answers:
            assert isinstance(answer, e.ResponseAdded)
            source = b"".join(read_file(store, answer.file)) if answer.answer_kind in WITH_WORDS else b""
            words = words_of(source.decode("utf-8", "replace"))
            yield answer.response_id, by_name[answer.model], asked.get(answer.prompt_id, ""), f"{answer.text}\n{words}"

    return flag_answers(texts())


def _titles(models: Sequence[ModelAdded]) -> list[str]:
    return ["\0".join((model.model, model.display_name, model.provider, *model.aliases)) for model in models]


def hide_self_naming(arena: Arena) -> list[str]:
    """Flag the answers that name their authors and are not flagged yet, so that they are not served; says which.

    Nothing is read when neither models nor answers have changed since the last time.
    """
    catalog = arena.read(lambda state: copy.deepcopy(state.catalog))
    seen = "\n".join((str(SCREENED_AS), *_titles(catalog.models), *sorted(catalog.response_ids.values())))
    digest = hashlib.sha256(seen.encode()).hexdigest()
    if site_texts.site_text(arena.store, "screened") == digest:
        return []
    current, known = set(catalog.response_ids.values()), reading.flags_raised(arena.store)
    unflagged = sorted(current - {name for name, flag in known if flag == SELF_NAMING})  # one that was released, too
    found = _flags(arena.store, catalog.models, unflagged)
    result = [flag for flag in found if flag.held or (flag.response_id, MAY_NAME) not in known]
    if result:
        arena.append([flag.event for flag in result])
    site_texts.set_screened(arena.store, digest)
    return naming_lines(result, len(catalog.response_ids))


class RowEffect(msgspec.Struct, frozen=True):
    """One model's row before and after."""

    before: BoardRow
    after: BoardRow

    @property
    def rank_change(self) -> int:
        return self.before.rank - self.after.rank

    @property
    def rating_change(self) -> float:
        return self.after.rating - self.before.rating

    @property
    def conservative_change(self) -> float:
        return self.after.conservative - self.before.conservative

    @property
    def votes_change(self) -> int:
        return self.after.votes - self.before.votes

    @property
    def changed(self) -> bool:
        return self.before != self.after


class Effects(msgspec.Struct, frozen=True):
    """The board before and after, and how many votes would change; rows are in the order of the board before."""

    before: LiveBoard
    after: LiveBoard
    votes: int
    rows: tuple[RowEffect, ...]

    @property
    def places_changed(self) -> int:
        return sum(row.rank_change != 0 for row in self.rows)

    @property
    def largest_rating_change(self) -> float:
        return max((abs(row.rating_change) for row in self.rows), default=0.0)


def copy_of(state: ArenaState, votes: Iterable[CastVote]) -> ArenaState:
    """An in-memory copy of this state; `votes` are all votes that the state has applied, in order."""
    result = decode_state(encode_state(state), VoteColumns(votes))
    result.catalog.models[:] = state.catalog.models  # with their titles, which the bytes do not hold
    return result


def effects_of(state: ArenaState, change: Excluded | Restored) -> Effects:
    """What the event would change if it came next. `state` is the caller's copy (`copy_of`), and is modified."""
    wanted = VoteStanding.COUNTED if isinstance(change, Restored) else VoteStanding.EXCLUDED
    stays = (wanted, VoteStanding.UNDONE)
    turned = sum(vote.standing not in stays for vote in state.votes.find(change.matchup_ids))
    before = _board(state)
    state.apply(state.seq + 1, Event(state.at, change))
    after = _board(state)
    later = {row.model: row for row in after.rows}
    return Effects(before, after, turned, tuple(RowEffect(row, later[row.model]) for row in before.rows))


def _board(state: ArenaState) -> LiveBoard:
    assert isinstance(state.votes, VoteColumns)
    state.show(published_ratings(state.votes.table(state.catalog), state.policy))
    return live_board(state)
