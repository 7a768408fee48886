"""Looking an arena over: sessions that vote oddly, answers that say who wrote them. What is found becomes events."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tiltyard.arena.integrity import (
    AnswerFlag,
    ExclusionProposal,
    VoterFlag,
    accepted,
    events_of,
    flag_answers,
    flag_voters,
    propose_exclusions,
    propose_unblinded,
)
from tiltyard.arena.store import reading
from tiltyard.arena.vote_table import vote_table

if TYPE_CHECKING:
    from tiltyard.arena import events as e
    from tiltyard.arena.state import ArenaState
    from tiltyard.arena.store import Store


@dataclass(frozen=True, slots=True)
class Screening:
    """What was found, what excluding is proposed, and the events that are new: flags, and what the policy excludes."""

    voters: list[VoterFlag]
    answers: list[AnswerFlag]
    proposals: list[ExclusionProposal]
    events: list[e.Flagged | e.Excluded]


def screen(store: Store, state: ArenaState, *, exclude: bool = False) -> Screening:
    """Look at every vote, undo and skip, and every answer. With `exclude`, all proposals are carried out."""
    table = vote_table(reading.cast_votes(store, state.seq), state.catalog)
    voters = flag_voters(table, state.track.now.rating, state.policy.flags, reading.session_acts(store))
    texts = reading.answer_texts(store)
    answers = flag_answers((name, state.catalog.models[model], text) for name, model, text in texts)
    by_voters = propose_exclusions(table, voters)
    shown = reading.answers_shown(store)
    unblinded = propose_unblinded(table, [shown[name] for name in table.matchup_ids], answers)
    proposals = [*by_voters, *([unblinded] if unblinded is not None else [])]
    chosen = proposals if exclude else accepted(state.policy.flags, by_voters, unblinded)
    known = reading.flags_raised(store)
    return Screening(voters, answers, proposals, events_of(voters, answers, chosen, known))
