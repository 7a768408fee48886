"""Which prompts decide a difference: where the new model lost, where it won, and where the two fare differently."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tiltyard.battles.battle import Outcome
from tiltyard.battles.table import BattleTable
from tiltyard.boards.leaderboard import whole
from tiltyard.ratings.comparisons import sum_by

PROMPT = "question_id"


@dataclass(frozen=True, slots=True)
class PromptScore:
    """How two models fared on one prompt.

    Parameters:
        prompt: The prompt's id.
        wins: Battles between the two that the new one won.
        losses: Battles between the two that the new one lost.
        ties: Battles between the two that were tied.
        both_bad: Battles between the two in which both were bad.
        new_score: The new one's mean result on this prompt against everybody (1 won, 0 lost); None: no battle.
        old_score: The same of the old one.
        text: The prompt's text, where it is known.
    """

    prompt: str
    wins: float
    losses: float
    ties: float
    both_bad: float
    new_score: float | None
    old_score: float | None
    text: str | None = None

    @property
    def net(self) -> float:
        """Wins minus losses between the two."""
        return self.wins - self.losses

    @property
    def change(self) -> float | None:
        """By how much the new one's mean result is above the old one's; None where one of them has no battle."""
        return None if self.new_score is None or self.old_score is None else self.new_score - self.old_score

    def to_dict(self) -> dict[str, Any]:
        """The prompt as plain values."""
        return {
            "prompt": self.prompt,
            "wins": whole(self.wins),
            "losses": whole(self.losses),
            "ties": whole(self.ties),
            "both_bad": whole(self.both_bad),
            "new_score": self.new_score,
            "old_score": self.old_score,
            "change": self.change,
            **({} if self.text is None else {"text": self.text}),
        }


def prompt_scores(
    table: BattleTable, new: str, old: str, texts: Mapping[str, str] | None = None
) -> tuple[PromptScore, ...]:
    """One record for every prompt on which one of the two has a battle; empty where prompts are unknown.

    Parameters:
        table: The battles, both-bad ones included.
        new: The model that stands first.
        old: The model it is compared with.
        texts: Texts of prompts by id.
    """
    if PROMPT not in table.columns or new not in table.models or old not in table.models:
        return ()
    prompts = table.text_column(PROMPT)
    i, j = table.models.index(new), table.models.index(old)
    named = prompts.codes >= 0
    n = len(prompts.labels)
    score_a = scores(table)
    counts = {}
    for name, model, other in (("new", i, j), ("old", j, i)):
        as_a, as_b = named & (table.model_a == model), named & (table.model_b == model)
        rated = table.outcome != Outcome.BOTH_BAD
        won = sum_by(prompts.codes[as_a & rated], (table.weight * score_a)[as_a & rated], n)
        won += sum_by(prompts.codes[as_b & rated], (table.weight * (1.0 - score_a))[as_b & rated], n)
        met = sum_by(prompts.codes[(as_a | as_b) & rated], table.weight[(as_a | as_b) & rated], n)
        counts[name] = won, met
        if name == "new":
            sides = (as_a & (table.model_b == other), as_b & (table.model_a == other))
            between = _results(table, prompts.codes, sides, n)
    seen = np.flatnonzero((counts["new"][1] > 0) | (counts["old"][1] > 0) | (between[3] > 0))
    return tuple(
        PromptScore(
            prompts.labels[p],
            wins=float(between[0][p]),
            losses=float(between[1][p]),
            ties=float(between[2][p]),
            both_bad=float(between[3][p]),
            new_score=_mean(*counts["new"], p),
            old_score=_mean(*counts["old"], p),
            text=None if texts is None else texts.get(prompts.labels[p]),
        )
        for p in seen.tolist()
    )


def _mean(won: NDArray[np.float64], met: NDArray[np.float64], at: int) -> float | None:
    return None if met[at] == 0.0 else float(won[at] / met[at])


def scores(table: BattleTable) -> NDArray[np.float64]:
    """The result of each row for side A: 1 won, 0 lost, a half for ties; soft outcomes as they are."""
    worth = np.full(len(Outcome), 0.5)
    worth[Outcome.A], worth[Outcome.B] = 1.0, 0.0
    score = worth[table.outcome]
    if table.score_a is None:
        return np.asarray(score)
    return np.where(np.isnan(table.score_a), score, table.score_a)


def _results(
    table: BattleTable,
    prompt: NDArray[np.int32],
    sides: tuple[NDArray[np.bool_], NDArray[np.bool_]],
    n: int,
) -> list[NDArray[np.float64]]:
    """Wins, losses, ties and both-bad battles of the new one against the old one, by prompt."""
    as_a, as_b = sides

    def count(one: Outcome, other: Outcome) -> NDArray[np.float64]:
        rows = (as_a & (table.outcome == one)) | (as_b & (table.outcome == other))
        return np.asarray(sum_by(prompt[rows], table.weight[rows], n))

    return [
        count(Outcome.A, Outcome.B),
        count(Outcome.B, Outcome.A),
        count(Outcome.TIE, Outcome.TIE),
        count(Outcome.BOTH_BAD, Outcome.BOTH_BAD),
    ]


def prompt_changes(name: str, tables: Sequence[BattleTable], texts: Mapping[str, str]) -> tuple[PromptScore, ...]:
    """An entrant's mean result on every prompt, then and now.

    Parameters:
        name: The entrant.
        tables: The battles of the new run and of the old one.
        texts: Texts of prompts by id.
    """
    if any(PROMPT not in table.columns for table in tables):
        return ()
    results = [_mean_results(table, name) for table in tables]
    shared = sorted(results[0].keys() & results[1].keys())
    return tuple(
        PromptScore(
            prompt,
            wins=0.0,
            losses=0.0,
            ties=0.0,
            both_bad=0.0,
            new_score=results[0][prompt],
            old_score=results[1][prompt],
            text=texts.get(prompt),
        )
        for prompt in shared
    )


def _mean_results(table: BattleTable, name: str) -> dict[str, float]:
    """An entrant's mean result on each prompt: 1 won, 0 lost, a half for ties."""
    code, prompts = table.models.index(name), table.text_column(PROMPT)
    rated = (table.outcome != Outcome.BOTH_BAD) & (prompts.codes >= 0)
    first, second = rated & (table.model_a == code), rated & (table.model_b == code)
    score, n = scores(table), len(prompts.labels)
    won = sum_by(prompts.codes[first], (table.weight * score)[first], n)
    won += sum_by(prompts.codes[second], (table.weight * (1.0 - score))[second], n)
    met = sum_by(prompts.codes[first | second], table.weight[first | second], n)
    return {prompts.labels[p]: float(won[p] / met[p]) for p in np.flatnonzero(met).tolist()}


def lost_most(prompts: Sequence[PromptScore], n: int) -> list[PromptScore]:
    """The prompts on which the new one lost most to the old one.

    Parameters:
        prompts: The prompts.
        n: How many at the most.
    """
    return sorted((p for p in prompts if p.net < 0), key=lambda p: (p.net, p.change or 0.0, p.prompt))[:n]


def won_most(prompts: Sequence[PromptScore], n: int) -> list[PromptScore]:
    """The prompts on which the new one won most against the old one.

    Parameters:
        prompts: The prompts.
        n: How many at the most.
    """
    return sorted((p for p in prompts if p.net > 0), key=lambda p: (-p.net, -(p.change or 0.0), p.prompt))[:n]


def changed_most(prompts: Sequence[PromptScore], n: int) -> list[PromptScore]:
    """The prompts on which the two fared most differently against everybody, whichever way.

    Parameters:
        prompts: The prompts.
        n: How many at the most.
    """
    moved = [p for p in prompts if p.change]
    return sorted(moved, key=lambda p: (-abs(p.change or 0.0), p.change or 0.0, p.prompt))[:n]


def fell_most(prompts: Sequence[PromptScore], n: int) -> list[PromptScore]:
    """The prompts on which the new mean result is furthest below the old one.

    Parameters:
        prompts: The prompts.
        n: How many at the most.
    """
    fallen = [p for p in prompts if p.change is not None and p.change < 0.0]
    return sorted(fallen, key=lambda p: (p.change or 0.0, p.prompt))[:n]


def rose_most(prompts: Sequence[PromptScore], n: int) -> list[PromptScore]:
    """The prompts on which the new mean result is furthest above the old one.

    Parameters:
        prompts: The prompts.
        n: How many at the most.
    """
    risen = [p for p in prompts if p.change is not None and p.change > 0.0]
    return sorted(risen, key=lambda p: (-(p.change or 0.0), p.prompt))[:n]
