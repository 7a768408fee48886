"""Which prompts decide a difference: where the new model lost, where it won, and where the two fare differently."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from tiltyard.battles.battle import Outcome
from tiltyard.battles.table import BattleTable
from tiltyard.boards.leaderboard import whole
from tiltyard.ratings.comparisons import sum_by
from tiltyard.types import Floats

PROMPT = "question_id"


class PromptScore(msgspec.Struct, frozen=True):
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
        counts = {name: whole(getattr(self, name)) for name in ("wins", "losses", "ties", "both_bad")}
        means = {"new_score": self.new_score, "old_score": self.old_score, "change": self.change}
        return {"prompt": self.prompt, **counts, **means, **({} if self.text is None else {"text": self.text})}


def prompt_scores(
    table: BattleTable, new: str, old: str, texts: Mapping[str, str] | None = None
) -> tuple[PromptScore, ...]:
    """One record for every prompt on which one of the two has a battle; empty where prompts are unknown."""
    if PROMPT not in table.columns or new not in table.models or old not in table.models:
        return ()
    prompts = table.text_column(PROMPT)
    i, j = table.models.index(new), table.models.index(old)
    named = prompts.codes >= 0
    as_a = named & (table.model_a == i) & (table.model_b == j)
    as_b = named & (table.model_b == i) & (table.model_a == j)

    def count(one: int, other: int) -> Floats:
        rows = (as_a & (table.outcome == one)) | (as_b & (table.outcome == other))
        return sum_by(prompts.codes[rows], table.weight[rows], len(prompts.labels))

    wins, losses = count(Outcome.A.code, Outcome.B.code), count(Outcome.B.code, Outcome.A.code)
    ties, both_bad = count(Outcome.TIE.code, Outcome.TIE.code), count(Outcome.BOTH_BAD.code, Outcome.BOTH_BAD.code)
    new_scores, old_scores = _mean_results(table, i), _mean_results(table, j)
    seen = np.flatnonzero(~np.isnan(new_scores) | ~np.isnan(old_scores) | (both_bad > 0))
    return tuple(
        PromptScore(
            prompts.labels[p],
            wins=float(wins[p]),
            losses=float(losses[p]),
            ties=float(ties[p]),
            both_bad=float(both_bad[p]),
            new_score=None if np.isnan(new_scores[p]) else float(new_scores[p]),
            old_score=None if np.isnan(old_scores[p]) else float(old_scores[p]),
            text=None if texts is None else texts.get(prompts.labels[p]),
        )
        for p in seen.tolist()
    )


def _mean_results(table: BattleTable, model: int) -> Floats:
    """A model's mean result on each prompt: 1 won, 0 lost, a half for ties; NaN without a battle."""
    prompts = table.text_column(PROMPT)
    rated = (table.outcome != Outcome.BOTH_BAD.code) & (prompts.codes >= 0)
    first, second = rated & (table.model_a == model), rated & (table.model_b == model)
    score, n = scores(table), len(prompts.labels)
    won = sum_by(prompts.codes[first], (table.weight * score)[first], n)
    won += sum_by(prompts.codes[second], (table.weight * (1.0 - score))[second], n)
    met = sum_by(prompts.codes[first | second], table.weight[first | second], n)
    return np.asarray(np.divide(won, met, out=np.full(n, np.nan), where=met > 0.0))


def scores(table: BattleTable) -> Floats:
    """The result of each row for side A: 1 won, 0 lost, a half for ties; soft outcomes as they are."""
    worth = np.full(len(Outcome), 0.5)
    worth[Outcome.A.code], worth[Outcome.B.code] = 1.0, 0.0
    score = worth[table.outcome]
    if table.score_a is None:
        return np.asarray(score)
    return np.where(np.isnan(table.score_a), score, table.score_a)


def prompt_changes(name: str, tables: Sequence[BattleTable], texts: Mapping[str, str]) -> tuple[PromptScore, ...]:
    """An entrant's mean result on every prompt that both runs have, now and then."""
    if any(PROMPT not in table.columns for table in tables):
        return ()
    results = []
    for table in tables:
        means = _mean_results(table, table.models.index(name)).tolist()
        results.append(
            {p: mean for p, mean in zip(table.text_column(PROMPT).labels, means, strict=True) if mean == mean}
        )
    new, old = results
    return tuple(
        PromptScore(prompt, 0.0, 0.0, 0.0, 0.0, new[prompt], old[prompt], texts.get(prompt))
        for prompt in sorted(new.keys() & old.keys())
    )
