"""The row about panels and repeats of judges, in simulated worlds where the truth is known.

Four entrants meet on 80 prompts. Every matchup has a true result, drawn from strengths that vary with the prompt;
judges report it with errors of their own. A board from the judges is compared with the board that the true results
give over 20,000 prompts: root mean square error of its ratings, boards whose order is wrong, and how often the
intervals hold the ratings that the same judging would give over 20,000 prompts.
"""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np

from bench.measure import Row
from tiltyard.analysis.boards import BradleyTerry
from tiltyard.data.battles import BattleTable, Codes, Outcome, Source
from tiltyard.stats import NEITHER, A, B, estimate_reliability, plurality

MODELS = ("a", "b", "c", "d")
STRENGTHS = np.array([0.75, 0.25, -0.25, -0.75])
PROMPTS, MANY = 80, 20_000
PAIRS = np.array(list(combinations(range(len(MODELS)), 2)))
OUTCOMES = np.array([Outcome.A.code, Outcome.B.code, Outcome.TIE.code], dtype=np.int8)
WORLDS: dict[str, list[tuple[float, float, float]]] = {
    "three equal judges, 80 % right": [(0.8, 0.1, 0.0)] * 3,
    "90, 70 and 70 % right": [(0.9, 0.1, 0.0), (0.7, 0.1, 0.0), (0.7, 0.1, 0.0)],
    "85 and 80 % right, one near a guess (55 %)": [(0.85, 0.1, 0.0), (0.8, 0.1, 0.0), (0.55, 0.1, 0.0)],
    "one changes with the order in half": [(0.85, 0.1, 0.0), (0.8, 0.1, 0.0), (0.85, 0.5, 0.0)],
    "one favours the weakest entrant": [(0.85, 0.1, 0.0), (0.8, 0.1, 0.0), (0.8, 0.1, 1.5)],
    "three equal judges, half of the errors shared": [(0.8, 0.1, 0.0)] * 3,
    "five judges, 85 to 60 % right": [(right, 0.1, 0.0) for right in (0.85, 0.8, 0.75, 0.7, 0.6)],
}
"""Judges: the share of matchups that it decides in which it names the better entrant, the share that it does not
decide, and what is added to the log-odds of the weakest entrant."""


def panels(row: Row) -> None:
    """What panels by each rule and repeats make of the errors of their judges."""
    worlds = row.size(200, 2)
    row.title = f"boards by panels of simulated judges, {worlds} worlds"
    found = row.ours("simulation", "tiltyard", simulate, worlds=worlds) or {"panels": {}, "repeats": {}}
    for name, (square, wrong, held, right) in found["panels"].items():
        text = f"{name}: right {100 * right:.1f} %, error {square**0.5:.0f} points, order wrong {100 * wrong:.0f} %"
        row.check(f"{text}; intervals hold {held:.3f}", held >= 0.9 - row.size(0, 90) / 100)
    once = found["repeats"].get("1 time, most often", (0.0, 0.0))[0]
    for name, (square, ties) in found["repeats"].items():
        text = f"asked {name}: no winner {100 * ties:.0f} %, error {square**0.5:.0f} points"
        row.goal(f"{text}, no more than once", square <= once)


def simulate(worlds: int) -> dict[str, dict[str, list[float]]]:
    """Means of squared errors, wrong orders, coverage and right verdicts by panel; of errors and ties by repeats."""
    rows, truth = truths(np.random.default_rng(1), MANY)
    target = board(rows, truth)[:, 0]
    panels, repeats = dict[str, list[Any]](), dict[str, list[Any]]()
    for kind, judges in WORLDS.items():
        shared = 0.5 if "shared" in kind else 0.0
        many = boards_of(rows, verdicts(np.random.default_rng(2), rows, truth, judges, shared))
        own = {rule: board(*battles)[:, 0] for rule, battles in many.items()}
        for world in range(worlds):
            rng = np.random.default_rng([3, world])
            few, true = truths(rng, PROMPTS)
            for rule, (pairs, said) in boards_of(few, verdicts(rng, few, true, judges, shared)).items():
                rating, low, high = board(pairs, said).T
                right = (said == np.repeat(true, len(said) // len(true))).mean()
                held, wrong = (
                    ((low <= own[rule]) & (own[rule] <= high)).mean(),
                    np.argsort(rating) != np.argsort(target),
                )
                scored = (((rating - target) ** 2).mean(), wrong.any(), held, right)
                panels.setdefault(f"{kind}, {rule}", []).append(scored)
    for times in (1, 3, 5):
        for world in range(worlds):
            rng = np.random.default_rng([4, world])
            few, true = truths(rng, PROMPTS)
            side = np.where(true == NEITHER, rng.integers(0, 2, len(true)), true)
            # What the judge tends to say is wrong in 15 % of the matchups; each asking misses that in another 20 %.
            tends = np.where(rng.random(len(true)) < 0.15, 1 - side, side)
            asked = np.where(rng.random((2, times, len(true))) < 0.2, 1 - tends, tends)
            orders = np.where(asked.mean(axis=1) > 0.5, B, A)
            each = np.where(asked[0] == asked[1], asked[0], NEITHER).T
            ways = {"most often": (few, np.where(orders[0] == orders[1], orders[0], NEITHER))}
            ways["rows"] = (np.repeat(few, times, axis=0), each.ravel())
            for way, (pairs, said) in ways.items():
                error = ((board(pairs, said)[:, 0] - target) ** 2).mean()
                name = f"{times} time{'s' * (times > 1)}, {way}"
                repeats.setdefault(name, []).append((error, (said == NEITHER).mean()))
    means = ({name: np.mean(some, axis=0).tolist() for name, some in kind.items()} for kind in (panels, repeats))
    return dict(zip(("panels", "repeats"), means, strict=True))


def truths(rng: np.random.Generator, prompts: int) -> tuple[np.ndarray, np.ndarray]:
    """Every pair on every prompt, with its true result: a tenth are ties, strengths vary with the prompt."""
    rows = np.column_stack([np.repeat(np.arange(prompts), len(PAIRS)), np.tile(PAIRS, (prompts, 1))])
    strengths = STRENGTHS + rng.normal(scale=0.5, size=(prompts, len(MODELS)))
    gap = strengths[rows[:, 0], rows[:, 1]] - strengths[rows[:, 0], rows[:, 2]]
    a_wins = rng.random(len(rows)) < 1 / (1 + np.exp(-gap))
    tied = rng.random(len(rows)) < 0.1
    return rows, np.where(tied, NEITHER, np.where(a_wins, A, B)).astype(np.int8)


def verdicts(rng: np.random.Generator, rows: np.ndarray, truth: np.ndarray, judges: Any, shared: float) -> np.ndarray:
    """What the judges say; in a share of matchups `shared`, all of them are lucky or unlucky together."""
    together, luck = rng.random(len(rows)) < shared, rng.random(len(rows))
    side = np.select([truth == A, truth == B], [1.0, -1.0], 0.0)
    weakest = (rows[:, 1] == len(MODELS) - 1) * 1.0 - (rows[:, 2] == len(MODELS) - 1)
    found = []
    for right, neither, lean in judges:
        says_a = 1 / (1 + np.exp(-(np.log(right / (1 - right)) * side + lean * weakest)))
        named = np.where(np.where(together, luck, rng.random(len(rows))) < says_a, A, B)
        silent = rng.random(len(rows)) < np.where(truth == NEITHER, max(0.5, neither), neither)
        found.append(np.where(silent, NEITHER, named))
    return np.stack(found, axis=1).astype(np.int8)


def boards_of(rows: np.ndarray, votes: np.ndarray) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """The battles of the first judge, who is the best, and of the panel by each rule."""
    return {
        "best judge alone": (rows, votes[:, 0]),
        "majority": (rows, plurality(votes)),
        "weight": (rows, estimate_reliability(votes).decided()),
        "rows": (np.repeat(rows, votes.shape[1], axis=0), votes.ravel()),
    }


def board(rows: np.ndarray, said: np.ndarray) -> np.ndarray:
    """Rating, lower and upper end of every entrant; a split vote is a tie."""
    prompt = rows[:, 0].astype(np.int32)
    table = BattleTable(
        models=MODELS,
        model_a=rows[:, 1].astype(np.int32),
        model_b=rows[:, 2].astype(np.int32),
        outcome=OUTCOMES[np.where(said < 0, NEITHER, said)],
        source=np.full(len(rows), Source.LLM_JUDGE.code, np.int8),
        weight=np.ones(len(rows)),
        columns={"question_id": Codes(prompt, [str(n) for n in range(int(prompt.max()) + 1)])},
    )
    entries = {entry.model: entry for entry in BradleyTerry().fit(table)}
    return np.array([[entries[name].rating, entries[name].ci_low, entries[name].ci_high] for name in MODELS])
