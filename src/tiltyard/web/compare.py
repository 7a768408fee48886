"""Two models beside each other as values: what people said of them, prompt by prompt."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tiltyard.arena.blindness import public_prompts
from tiltyard.arena.board import completeness
from tiltyard.arena.model_detail import Record, against
from tiltyard.battles.outcome import Outcome
from tiltyard.validity.voters import expected_scores

if TYPE_CHECKING:
    from tiltyard.arena.board import BoardRow
    from tiltyard.arena.following.snapshots import ModelFacts, Snapshot
    from tiltyard.arena.state import ArenaState
    from tiltyard.arena.vote_table import VoteTable


@dataclass(frozen=True, slots=True)
class ComparePage:
    """Two models: their rows, the record of the first against the second, in all and by prompt.

    `expected` is the score that present ratings expect of the first; `complete` how near the pair is to the floor of
    votes and prompts that neighbours need. `shared` are the prompts that both have answered, most voted first; the
    answers to some of them, `hidden`, may not be shown.
    """

    a: ModelFacts
    b: ModelFacts
    row_a: BoardRow | None
    row_b: BoardRow | None
    record: Record
    expected: float
    complete: float
    prompts: tuple[Record, ...]
    shared: tuple[str, ...]
    answers: dict[str, tuple[str, str]]
    """The ids of both answers to each shared prompt that may be shown."""
    hidden: tuple[str, ...]

    @property
    def votes(self) -> int:
        """All counted votes between the two."""
        return self.record.votes


def compare_page(snapshot: Snapshot, state: ArenaState, name_a: str, name_b: str) -> ComparePage:
    """Two different models; one that was never there is an `ArenaError`."""
    a, b = snapshot.model(name_a), snapshot.model(name_b)
    rows = {row.model: row for row in snapshot.board.rows}
    ids, public = state.catalog.response_ids, public_prompts(state)
    both = {
        prompt.prompt_id: prompt.number
        for prompt in snapshot.prompts
        if (a.number, prompt.number) in ids and (b.number, prompt.number) in ids
    }
    prompts = records_by_prompt(snapshot.study.votes, a.number, b.number)
    met = [record.name for record in prompts if record.name in both]
    rating = state.track.now.rating
    return ComparePage(
        a=a,
        b=b,
        row_a=rows.get(name_a),
        row_b=rows.get(name_b),
        record=against(state, a.number, b.number),
        expected=float(expected_scores(rating[a.number], rating[b.number])),
        complete=completeness(state, a.number, b.number),
        prompts=prompts,
        shared=(*met, *(prompt for prompt in both if prompt not in met)),
        answers={
            name: (ids[a.number, number], ids[b.number, number]) for name, number in both.items() if number in public
        },
        hidden=tuple(name for name, number in both.items() if number not in public),
    )


def records_by_prompt(votes: VoteTable, a: int, b: int) -> tuple[Record, ...]:
    """The record of one model against another on every prompt they have a vote on, most votes first."""
    forward, backward = (votes.model_a == a) & (votes.model_b == b), (votes.model_a == b) & (votes.model_b == a)
    counts: dict[int, list[int]] = {}
    for here, won, lost in ((forward, Outcome.A, Outcome.B), (backward, Outcome.B, Outcome.A)):
        for prompt, outcome in zip(votes.prompt[here].tolist(), votes.outcome[here].tolist(), strict=True):
            place = (won, lost, Outcome.TIE, Outcome.BOTH_BAD).index(Outcome(outcome))
            counts.setdefault(prompt, [0, 0, 0, 0])[place] += 1
    ordered = sorted(counts.items(), key=lambda item: (-sum(item[1]), votes.prompts[item[0]]))
    return tuple(
        Record(votes.prompts[prompt], wins, losses, ties, both_bad, expected_wins=0.0)
        for prompt, (wins, losses, ties, both_bad) in ordered
    )
