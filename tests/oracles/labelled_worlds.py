"""Worlds in which a judge judges every matchup and people label a random few: what correcting the judge is worth.

People's outcome of a matchup follows Davidson's law around the strengths, which differ by prompt (`interaction`) and,
where voters are known, by voter (`taste`). The judge's follows the same law around strengths of its own: compressed or
stretched, and moved by a style it likes. `link` is the correlation of the two's luck on a matchup: what they both see
in the answers beyond the models' strengths, and what makes a judge agree with people.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from oracles.simulation import population_strengths
from tiltyard.analysis.boards import apart
from tiltyard.stats import POINTS_PER_LOGIT, LabelledMatchups, PeopleFit, fit_with_people, half_widths, t_quantile
from tiltyard.stats.tie_models import DAVIDSON

PEOPLE_TIES = math.log(0.35)


@dataclass(frozen=True)
class LabelledWorld:
    """Models, prompts, how many labels, and what the judge is like; `style` and `taste` are in logits.

    With `both_bad` every second prompt is hard: people find both answers bad with that chance, and only there does the
    judge like a style. With `dominant` one voter casts that share of the labels.
    """

    name: str
    models: int = 6
    prompts: int = 100
    labels: int = 150
    link: float = 0.8
    slope: float = 1.0
    style: float = 0.0
    judge_ties: float = 0.35
    interaction: float = 0.5
    voters: int = 0
    taste: float = 0.5
    whole_prompts: bool = False
    people_each: int = 1
    strength_range: float = 1.5
    both_bad: float = 0.0
    dominant: float = 0.0

    @property
    def strengths(self) -> np.ndarray:
        half = 0.5 * self.strength_range
        return np.linspace(-half, half, self.models)

    def truth(self) -> np.ndarray:
        """What a fit of people's outcomes on all matchups tends to."""
        spread = math.hypot(self.interaction, self.taste if self.voters else 0.0)
        found = population_strengths(self.strengths, spread, "davidson", PEOPLE_TIES)
        return found - found.mean()

    def draw(self, rng: np.random.Generator) -> LabelledMatchups:
        """All matchups as judged, and the labels of a random draw of them, or of whole prompts."""
        m = self.models
        i, j = np.triu_indices(m, 1)
        first, second = np.tile(i, self.prompts), np.tile(j, self.prompts)
        prompt = np.repeat(np.arange(self.prompts), len(i))
        effect = rng.normal(0.0, self.interaction, (self.prompts, m))
        gap = self.strengths[first] - self.strengths[second] + effect[prompt, first] - effect[prompt, second]
        liked = self.style * np.resize([1.0, -1.0, 0.5], m)
        hard = (prompt % 2 == 0) | (self.both_bad == 0.0)
        judge_gap = self.slope * gap + hard * (liked[first] - liked[second])
        luck = rng.normal(size=len(first))
        judge = _outcomes(judge_gap, math.log(self.judge_ties), _mixed(luck, self.link, rng))
        chosen = self._chosen(prompt, rng)
        labelled = np.repeat(chosen, self.people_each)
        people_gap, voter = gap[labelled], None
        if self.voters:
            voter = rng.integers(self.voters, size=len(labelled))
            voter[rng.random(len(labelled)) < self.dominant] = 0
            taste = rng.normal(0.0, self.taste, (self.voters, m))
            people_gap = people_gap + taste[voter, first[labelled]] - taste[voter, second[labelled]]
        said = _outcomes(people_gap, PEOPLE_TIES, _mixed(luck[labelled], self.link, rng))
        shares = np.eye(3)
        heard = shares[said]
        if self.both_bad:
            heard[hard[labelled] & (rng.random(len(labelled)) < self.both_bad)] = 0.0
        weight = np.full(len(labelled), 1.0 / self.people_each)
        return LabelledMatchups(m, first, second, prompt, shares[judge], labelled, heard, weight, voter)

    def _chosen(self, prompt: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        if not self.whole_prompts:
            return np.sort(rng.choice(len(prompt), self.labels, replace=False))
        pairs = self.models * (self.models - 1) // 2
        drawn = rng.choice(self.prompts, max(2, round(self.labels / pairs)), replace=False)
        return np.flatnonzero(np.isin(prompt, drawn))


def _mixed(luck: np.ndarray, link: float, rng: np.random.Generator) -> np.ndarray:
    """Uniform luck that shares a part with the common luck: `link` of the variance is common."""
    from scipy.special import ndtr

    return ndtr(math.sqrt(link) * luck + math.sqrt(1.0 - link) * rng.normal(size=len(luck)))


def _outcomes(gap: np.ndarray, log_nu: float, luck: np.ndarray) -> np.ndarray:
    """0 (first won), 1 (second won), 2 (tie) by Davidson's law, high luck being good for the first."""
    chances = DAVIDSON.chances(gap, np.full(len(gap), log_nu))
    won = luck > 1.0 - chances[:, 0]
    lost = luck < chances[:, 1]
    return np.where(won, 0, np.where(lost, 1, 2))


@dataclass(frozen=True)
class Held:
    """Over runs: coverage of corrected, people-only and judge-only intervals, their median half-widths in points.

    `ranks` is the share of runs in which no two models are told apart in the wrong order, `differences` the coverage of
    corrected differences.
    """

    corrected: float
    people: float
    judge: float
    width: float
    people_width: float
    judge_width: float
    ratio: float
    weight: float
    agreement: float
    ranks: float
    differences: float


def hold(world: LabelledWorld, runs: int, seed: int = 0, level: float = 0.95) -> Held:
    """Simulate a world many times."""
    truth = world.truth()
    rows = []
    for run in range(runs):
        rng = np.random.default_rng([seed, run])
        data = world.draw(rng)
        while not _joined(data):  # a board refuses labels that leave a model out
            data = world.draw(rng)
        found = fit_with_people(data, DAVIDSON)
        judged = fit_with_people(_judge_alone(data), DAVIDSON, weight=0.0)
        row = []
        for fitted, errors in ((found.fit, found.covariance), (found.people, found.alone), (judged.fit, judged.alone)):
            half = half_widths(errors, level)
            row += [np.mean(np.abs(fitted.parameters.strength - truth) <= half), np.median(half) * POINTS_PER_LOGIT]
        both = (data.said[:, :2].sum(1) > 0) & (data.judged[data.matchup, :2].sum(1) > 0)
        agreed = (data.said[both] * data.judged[data.matchup[both]]).sum(1).mean()
        told_apart = _pairs(found, truth, level)
        rows.append([*row, row[1] / row[3], found.weight, agreed, *told_apart])
    a = np.array(rows)
    mean, median = a.mean(0), np.median(a, 0)
    widths = median[1], median[3], median[5], median[6]
    return Held(mean[0], mean[2], mean[4], *widths, *mean[7:])


def _joined(data: LabelledMatchups) -> bool:
    """Whether people's labels join all models."""
    reached, first, second = {int(data.first[data.matchup[0]])}, data.first[data.matchup], data.second[data.matchup]
    for _ in range(data.n_models):
        for a, b in zip(first.tolist(), second.tolist(), strict=True):
            if a in reached or b in reached:
                reached |= {a, b}
    return len(reached) == data.n_models


def _pairs(found: PeopleFit, truth: np.ndarray, level: float) -> tuple[float, float]:
    """Whether all pairs that are told apart are so in the right order, and the share of differences that are held."""
    strength = found.fit.parameters.strength
    gap, true_gap = strength[:, None] - strength[None, :], truth[:, None] - truth[None, :]
    wrong = (gap > apart(found.covariance, level)) & (true_gap <= 1e-9)
    degrees = np.minimum(found.covariance.degrees[:, None], found.covariance.degrees[None, :])
    half = t_quantile(level, degrees) * np.sqrt(found.covariance.differences())
    upper = np.triu_indices(len(truth), 1)
    return float(not wrong.any()), float((np.abs(gap - true_gap) <= half)[upper].mean())


OUTCOMES = ("model_a", "model_b", "tie")


def battle_rows(data: LabelledMatchups) -> tuple[list[dict[str, str]], list[dict[str, str]]]:
    """The judge's battles and people's labels as rows of files; every second label is written from the other side."""
    shares = np.argmax(data.judged, axis=1)
    judged = [{**_pair(data, i), "winner": OUTCOMES[shares[i]], "source": "llm-judge"} for i in range(len(data.first))]
    people = []
    for number, (i, said) in enumerate(zip(data.matchup.tolist(), data.said.argmax(axis=1).tolist(), strict=True)):
        row = {**_pair(data, i), "winner": OUTCOMES[said], "source": "human"}
        if number % 2:
            row["model_a"], row["model_b"] = row["model_b"], row["model_a"]
            row["winner"] = {"model_a": "model_b", "model_b": "model_a"}.get(row["winner"], "tie")
        if data.voter is not None:
            row["voter"] = f"v{data.voter[number]}"
        people.append(row)
    return judged, people


def _pair(data: LabelledMatchups, i: int) -> dict[str, str]:
    return {
        "question_id": f"p{data.prompt[i]}",
        "model_a": f"m{data.first[i]}",
        "model_b": f"m{data.second[i]}",
    }


def _judge_alone(data: LabelledMatchups) -> LabelledMatchups:
    """The judge's outcomes in the place of people's labels."""
    every = np.arange(len(data.first))
    return LabelledMatchups(
        data.n_models, data.first, data.second, data.prompt, data.judged, every, data.judged, np.ones(len(every))
    )
