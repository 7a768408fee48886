"""Votes that were cast elsewhere, brought into a new arena before its first own vote.

Each becomes two events like those of its own votes, a matchup and a vote, marked by `imported-` in the names of matchup
and voter. So ratings, exports and proofs include them, and everybody can tell them apart.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from tiltyard.arena.rules import events as e
from tiltyard.arena.rules.state import ArenaState
from tiltyard.arena.rules.units import SECOND
from tiltyard.arena.writing.commands import ImportVotes
from tiltyard.arena.writing.service import Arena
from tiltyard.data.battles import BattleTable, Outcome, read_battles
from tiltyard.errors import ArenaError, BattleError

MARK = "imported-"

AT_ONCE = 250
"""Votes committed together: others wait no longer than for this many."""

_CHOICES = {choice.outcome: choice for choice in e.Choice}


class ImportedVotes(msgspec.Struct, frozen=True):
    """What an import of votes did: how many were there already, how many are new, how many of these do not count."""

    before: int
    new: int
    excluded: int


def import_votes(arena: Arena, path: Path, mapping: Mapping[str, str] | None = None) -> ImportedVotes:
    """Bring the votes of a file of battles into an arena in which nobody was served yet.

    The file names a prompt (`question_id`) in every row, and may say `voter` and `timestamp`; models, prompts and
    answers must be in the arena. A battle that weighs 0, as an excluded vote does in an export, is imported and
    excluded. An import that was interrupted is completed by running it again.
    """
    table = read_battles(path, default_source="human", map=mapping)
    if "timestamp" in table.columns:
        table = table.take(np.argsort(table.number_column("timestamp"), kind="stable"))

    def look(state: ArenaState) -> tuple[dict[tuple[str, str], str], int, frozenset[str], list[Any]]:
        models, prompts = state.catalog.models, state.catalog.prompts
        answers = {(models[m].model, prompts[p].prompt_id): name for (m, p), name in state.catalog.response_ids.items()}
        last = [
            (models[vote.a].model, models[vote.b].model, prompts[vote.prompt].prompt_id, vote.choice)
            for vote in state.votes.find([f"{MARK}{state.catalog.matchups - 1:09d}"])
        ]
        return answers, state.catalog.matchups, frozenset(state.excluded), last

    answers, served, excluded, last = arena.read(look)
    pairs = list(_events(table, answers, path))
    if served and (served > len(pairs) or last != [_summary(*pairs[served - 1])]):
        raise ArenaError(
            f"{served:,} matchups were served here already, and they are not the first votes of {path}. "
            "Votes are imported into a new arena only, from one file."
        )
    for start in range(served, len(pairs), AT_ONCE):
        part = pairs[start : start + AT_ONCE]
        arena.submit(ImportVotes([event for pair in part for event in pair], start)).result()
    left_out = [f"{MARK}{number:09d}" for number in np.flatnonzero(table.weight == 0.0).tolist()]
    new = tuple(name for name in left_out if name not in excluded)
    if new:
        arena.append([e.Excluded(matchup_ids=new, reason=f"did not count in {path.name}")])
    return ImportedVotes(served, len(pairs) - served, len(left_out))


def _summary(served: e.Event, voted: e.Event) -> tuple[object, ...]:
    shown, vote = served.body, voted.body
    assert isinstance(shown, e.MatchupServed)
    assert isinstance(vote, e.Voted)
    return (shown.model_a, shown.model_b, shown.prompt_id, vote.choice)


def _events(table: BattleTable, answers: dict[tuple[str, str], str], path: Path) -> Iterator[tuple[e.Event, e.Event]]:
    if "question_id" not in table.columns:
        raise BattleError(f"{path} does not say which prompt a vote was on. Name it in a column question_id.")
    prompts, now = table.text_column("question_id").texts(), int(time.time())
    voters = table.text_column("voter").codes.tolist() if "voter" in table.columns else [-1] * len(table)
    times = table.number_column("timestamp").tolist() if "timestamp" in table.columns else [float(now)] * len(table)
    for number, (prompt, voter, at) in enumerate(zip(prompts, voters, times, strict=True)):
        a, b = table.models[table.model_a[number]], table.models[table.model_b[number]]
        for model in (a, b):
            if (model, prompt or "") not in answers:
                raise ArenaError(
                    f"{path}: vote {number + 1:,} is on {model!r} and prompt {prompt!r}, and the arena has no such "
                    "answer. Import models, prompts and answers first."
                )
        if not 0.0 < at <= now:
            raise ArenaError(f"{path}: vote {number + 1:,} has the time {at:g}, which is not in the past. Correct it.")
        name = f"{MARK}{number:09d}"
        served = e.MatchupServed(
            matchup_id=name,
            voter=f"{MARK}v{voter + 1}" if voter >= 0 else f"{MARK}n{number + 1}",
            prompt_id=prompt or "",
            model_a=a,
            model_b=b,
            response_a=answers[a, prompt or ""],
            response_b=answers[b, prompt or ""],
            lane="imported",
            reason="a vote that was cast elsewhere",
            probability=1.0,
            seed=0,
            expires_at=int(at) * SECOND,
        )
        voted = e.Voted(matchup_id=name, choice=_CHOICES[Outcome.of_code(int(table.outcome[number]))])
        yield e.Event(int(at) * SECOND, served), e.Event(int(at) * SECOND, voted)
