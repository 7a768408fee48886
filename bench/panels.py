"""Panels and repeats in simulated worlds where the truth is known: `python -m bench.panels [WORLDS]`.

Four entrants meet on 80 prompts. Every matchup has a true result, drawn from strengths that vary with the prompt;
judges report it with errors of their own. A board from the judges is compared with the board that the true results
give over 20,000 prompts: root mean square error of its ratings, boards whose order is wrong, and how often the
intervals hold the ratings that the same judging would give over 20,000 prompts.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from tiltyard.battles import BattleTable, Codes, Outcome, Source
from tiltyard.boards import BradleyTerry
from tiltyard.ratings.reliability import MISSING, NEITHER, A, B, estimate_reliability, plurality

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Votes = NDArray[np.int8]
    Rows = NDArray[np.int64]

MODELS = ("a", "b", "c", "d")
STRENGTHS = np.array([0.75, 0.25, -0.25, -0.75])
PROMPTS, MANY = 80, 20_000
PAIRS = np.array(list(combinations(range(len(MODELS)), 2)))


@dataclass(frozen=True)
class SimulatedJudge:
    """Names the truly better entrant in `right` of the matchups that it decides; `neither` of them it does not.

    `lean` is added to the log-odds of the weakest entrant: a taste of the judge's own.
    """

    right: float
    neither: float = 0.1
    lean: float = 0.0


WORLDS: dict[str, tuple[tuple[SimulatedJudge, ...], float]] = {
    "three equal judges, 80 % right": ((SimulatedJudge(0.8),) * 3, 0.0),
    "90, 70 and 70 % right": ((SimulatedJudge(0.9), SimulatedJudge(0.7), SimulatedJudge(0.7)), 0.0),
    "85 and 80 % right, one near a guess (55 %)": (
        (SimulatedJudge(0.85), SimulatedJudge(0.8), SimulatedJudge(0.55)),
        0.0,
    ),
    "one changes with the order in half": (
        (SimulatedJudge(0.85), SimulatedJudge(0.8), SimulatedJudge(0.85, neither=0.5)),
        0.0,
    ),
    "one favours the weakest entrant": (
        (SimulatedJudge(0.85), SimulatedJudge(0.8), SimulatedJudge(0.8, lean=1.5)),
        0.0,
    ),
    "three equal judges, half of the errors shared": ((SimulatedJudge(0.8),) * 3, 0.5),
    "five judges, 85 to 60 % right": (tuple(SimulatedJudge(right) for right in (0.85, 0.8, 0.75, 0.7, 0.6)), 0.0),
}


def truths(rng: np.random.Generator, prompts: int) -> tuple[Rows, Votes]:
    """Every pair on every prompt, with its true result: a tenth are ties, strengths vary with the prompt."""
    rows = np.column_stack([np.repeat(np.arange(prompts), len(PAIRS)), np.tile(PAIRS, (prompts, 1))])
    strengths = STRENGTHS + rng.normal(scale=0.5, size=(prompts, len(MODELS)))
    gap = strengths[rows[:, 0], rows[:, 1]] - strengths[rows[:, 0], rows[:, 2]]
    a_wins = rng.random(len(rows)) < 1 / (1 + np.exp(-gap))
    tied = rng.random(len(rows)) < 0.1
    return rows, np.where(tied, NEITHER, np.where(a_wins, A, B)).astype(np.int8)


def votes_of(
    rng: np.random.Generator, rows: Rows, truth: Votes, judges: tuple[SimulatedJudge, ...], shared: float
) -> Votes:
    """What the judges say; in a share of matchups `shared`, all of them are lucky or unlucky together."""
    together, luck = rng.random(len(rows)) < shared, rng.random(len(rows))
    side = np.select([truth == A, truth == B], [1.0, -1.0], 0.0)
    weakest = (rows[:, 1] == len(MODELS) - 1) * 1.0 - (rows[:, 2] == len(MODELS) - 1)
    found = []
    for judge in judges:
        says_a = 1 / (1 + np.exp(-(np.log(judge.right / (1 - judge.right)) * side + judge.lean * weakest)))
        named = np.where(np.where(together, luck, rng.random(len(rows))) < says_a, A, B)
        silent = rng.random(len(rows)) < np.where(truth == NEITHER, max(0.5, judge.neither), judge.neither)
        found.append(np.where(silent, NEITHER, named))
    return np.stack(found, axis=1).astype(np.int8)


def board(rows: Rows, said: Votes) -> NDArray[np.float64]:
    """Rating, lower and upper end of every entrant; a split vote is a tie."""
    outcome = np.array([Outcome.A.code, Outcome.B.code, Outcome.TIE.code], dtype=np.int8)[
        np.where(said == MISSING, NEITHER, said)
    ]
    n_prompts = int(rows[:, 0].max()) + 1
    table = BattleTable(
        models=MODELS,
        model_a=rows[:, 1].astype(np.int32),
        model_b=rows[:, 2].astype(np.int32),
        outcome=outcome,
        source=np.full(len(rows), Source.LLM_JUDGE.code, np.int8),
        weight=np.ones(len(rows)),
        columns={"question_id": Codes(rows[:, 0].astype(np.int32), [str(n) for n in range(n_prompts)])},
    )
    entries = {entry.model: entry for entry in BradleyTerry().fit(table)}
    return np.array([[entries[name].rating, entries[name].ci_low, entries[name].ci_high] for name in MODELS])


def boards_of(rows: Rows, votes: Votes) -> dict[str, tuple[Rows, Votes]]:
    """The battles of the first judge, who is the best, and of the panel by each rule."""
    return {
        "best judge alone": (rows, votes[:, 0]),
        "majority": (rows, plurality(votes)),
        "weight": (rows, estimate_reliability(votes).decided()),
        "rows": (np.repeat(rows, votes.shape[1], axis=0), votes.ravel()),
    }


def study(judges: tuple[SimulatedJudge, ...], shared: float, worlds: int) -> list[str]:
    """A line of the table for every rule."""
    rows, truth = truths(np.random.default_rng(1), MANY)
    target = board(rows, truth)[:, 0]
    many = votes_of(np.random.default_rng(2), rows, truth, judges, shared)
    own = {name: board(*battles)[:, 0] for name, battles in boards_of(rows, many).items()}
    errors: dict[str, list[tuple[float, bool, float, float]]] = {name: [] for name in own}
    for world in range(worlds):
        rng = np.random.default_rng([3, world])
        rows, truth = truths(rng, PROMPTS)
        for name, (pairs, said) in boards_of(rows, votes_of(rng, rows, truth, judges, shared)).items():
            found = board(pairs, said)
            wrong = bool((np.argsort(-found[:, 0]) != np.argsort(-target)).any())
            held = float(((found[:, 1] <= own[name]) & (own[name] <= found[:, 2])).mean())
            right = float((said == truth).mean()) if len(said) == len(truth) else np.nan
            errors[name].append((float(((found[:, 0] - target) ** 2).mean()), wrong, held, right))
    lines = []
    for name, found in errors.items():
        square, wrong, held, right = np.mean(np.array(found, float), axis=0)
        shown = "–" if np.isnan(right) else f"{100 * right:.1f} %"
        lines.append(f"| {name} | {shown} | {np.sqrt(square):.0f} | {100 * wrong:.0f} % | {held:.3f} |")
    return lines


def repeats_study(worlds: int) -> list[str]:
    """A judge whose verdict on one order is right in 70 % at each asking, asked 1, 3 and 5 times."""
    lines = []
    rows, truth = truths(np.random.default_rng(1), MANY)
    target = board(rows, truth)[:, 0]
    for times in (1, 3, 5):
        found: dict[str, list[tuple[float, float]]] = {"most often": [], "rows": []}
        for world in range(worlds):
            rng = np.random.default_rng([4, world])
            rows, truth = truths(rng, PROMPTS)
            side = np.where(truth == NEITHER, rng.integers(0, 2, len(truth)), truth)
            # What the judge tends to say is wrong in 15 % of the matchups; each asking misses that in another 20 %.
            tends = np.where(rng.random(len(truth)) < 0.15, 1 - side, side)
            asked = np.where(rng.random((2, times, len(truth))) < 0.2, 1 - tends, tends)
            orders = np.where(asked.mean(axis=1) > 0.5, B, A)
            settled = np.where(orders[0] == orders[1], orders[0], NEITHER)
            found["most often"].append(_scored(rows, settled.astype(np.int8), target, settled))
            each = np.where(asked[0] == asked[1], asked[0], NEITHER)
            found["rows"].append(_scored(np.repeat(rows, times, axis=0), each.T.ravel().astype(np.int8), target, each))
        for name, scores in found.items():
            square, ties = np.mean(scores, axis=0)
            lines.append(f"| {times} | {name} | {100 * ties:.0f} % | {np.sqrt(square):.0f} |")
    return lines


def _scored(rows: Rows, said: Votes, target: NDArray[np.float64], settled: Votes) -> tuple[float, float]:
    return float(((board(rows, said)[:, 0] - target) ** 2).mean()), float((settled == NEITHER).mean())


def main() -> None:
    """Print both tables."""
    worlds = int(sys.argv[1]) if len(sys.argv) > 1 else 300
    for name, (judges, shared) in WORLDS.items():
        print(f"{name} ({worlds} worlds)")
        print("\n".join(study(judges, shared, worlds)), flush=True)
    print("asked | settled by | no winner | error")
    print("\n".join(repeats_study(worlds)))


if __name__ == "__main__":
    main()
