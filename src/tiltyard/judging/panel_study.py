"""What the judges of a panel agree on: how reliable each is, who agrees with whom, and who dissents on what."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tiltyard.judging.bias import Bias, measure_bias
from tiltyard.judging.judge import JudgingResult, PanelFindings
from tiltyard.judging.plan import Case, JudgingPlan
from tiltyard.ratings.reliability import MISSING, NEITHER, A, B, Reliability, plurality
from tiltyard.validity.agreement import Estimate, cohen_kappa, mean_of, share

if TYPE_CHECKING:
    Votes = NDArray[np.int8]

MOST_NAMED = 10
"""How many matchups with dissent the manifest names; the verdict files have them all."""


@dataclass(frozen=True, slots=True)
class PanelJudgeRow:
    """One judge of a panel, in one dimension. Intervals are clustered by prompt."""

    judge: str
    """The judge."""
    settled: int
    """Matchups on which it has a vote."""
    failed: int
    """Matchups on which it failed; the others decide those."""
    accuracy: float | None
    """Of the winners that it names, the share that is right, as estimated from the votes; None if it names none, or
    if fewer than three judges do."""
    weight: float | None
    """Its log-odds weight, ln(right / wrong); None likewise."""
    with_others: Estimate
    """Share of its votes that are those of most of the other judges, where these have a majority."""
    opposed: int
    """Matchups in which it names the loser of most of the other judges."""
    bias: Bias
    """Flip rate, first-slot rate, readable verdicts, and agreement with itself if questions were repeated."""
    leans_to: str | None
    """The entrant that it treats most differently from the other judges."""
    lean: Estimate
    """How much more often it lets that entrant win than the other judges do (as a share, a tie counting half); the
    interval is wider than 95 %, because the entrant was chosen among all."""


@dataclass(frozen=True, slots=True)
class JudgePair:
    """Two judges of a panel, and how often they find the same."""

    first: str
    """One judge."""
    second: str
    """The other."""
    agreement: Estimate
    """Share of equal votes (entrant_a, entrant_b, neither)."""
    kappa: Estimate
    """Cohen's kappa of the same, with every matchup counted from both sides."""


@dataclass(frozen=True, slots=True)
class Dissent:
    """A matchup on which the judges differ, with the vote of each."""

    prompt_id: str
    """The prompt."""
    entrant_a: str
    """The first entrant."""
    entrant_b: str
    """The second entrant."""
    votes: dict[str, str]
    """By judge, what it found: an entrant, `tie`, `inconsistent` or `failed`."""


@dataclass(frozen=True, slots=True)
class PanelStudy:
    """A panel in one dimension."""

    matchups: int
    """How many matchups there were."""
    unanimous: int
    """Matchups in which all judges voted, and found the same."""
    opposed: int
    """Matchups in which two judges name different winners."""
    no_majority: int
    """Matchups in which the lead is shared."""
    incomplete: int
    """Matchups that were decided without some judge, which failed."""
    failed: int
    """Matchups on which every judge failed."""
    judges: tuple[PanelJudgeRow, ...]
    """Every judge."""
    pairs: tuple[JudgePair, ...]
    """Every pair of judges."""
    dissent: tuple[Dissent, ...]
    """The matchups with the most dissent."""
    prompts: dict[str, int]
    """Of the prompts with opposed judges, those with the most such matchups."""

    def lines(self) -> list[str]:
        """The panel in a few lines of text."""
        counts = (
            f"panel: {self.unanimous:,} of {self.matchups:,} matchups unanimous, {self.opposed:,} with opposed "
            f"winners, {self.no_majority:,} without a majority"
        )
        if self.incomplete or self.failed:
            counts += f"; {self.incomplete:,} decided without a judge that failed, {self.failed:,} failed altogether"
        width = max(len(row.judge) for row in self.judges)
        lines = [counts, f"  {'judge'.ljust(width)}   right  weight  as most others  changed with order  failed"]
        lines += [f"  {row.judge.ljust(width)}  {_cells(row)}" for row in self.judges]
        lines += [
            f"  {pair.first} and {pair.second} agree in {_percent(pair.agreement)}, kappa {_number(pair.kappa.value)}"
            for pair in self.pairs
        ]
        lines += [
            f"  {row.judge} lets {row.leans_to} win {abs(100 * (row.lean.value or 0)):.0f} points "
            f"{'more' if (row.lean.value or 0) > 0 else 'less'} often than the others do"
            for row in self.judges
            if _clear(row.lean)
        ]
        if self.prompts:
            lines.append(
                "  most dissent: " + ", ".join(f"{name} ({count:,})" for name, count in list(self.prompts.items())[:5])
            )
        return lines


def _cells(row: PanelJudgeRow) -> str:
    right = "–" if row.accuracy is None else f"{100 * row.accuracy:.0f} %"
    flips = "–" if row.bias.flip_rate.value is None else f"{100 * row.bias.flip_rate.value:.0f} %"
    others = "–" if row.with_others.value is None else f"{100 * row.with_others.value:.0f} %"
    return f"{right:>6}  {_number(row.weight):>6}  {others:>14}  {flips:>18}  {row.failed:>6,}"


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


def _percent(found: Estimate) -> str:
    if found.value is None or found.low is None or found.high is None:
        return "–"
    return f"{100 * found.value:.0f} % ({100 * found.low:.0f} to {100 * found.high:.0f}) of {found.n:,}"


def _clear(found: Estimate) -> bool:
    """Whether zero is outside the interval."""
    return found.low is not None and found.high is not None and not found.low <= 0 <= found.high


def panel_results(panel: PanelFindings, studies: Mapping[str, PanelStudy]) -> dict[str, Any]:
    """What the manifest says about a panel."""
    return {
        "judges": list(panel.members),
        "combine": panel.combine,
        "dimensions": {dimension: asdict(study) for dimension, study in studies.items()},
    }


def study_panel(plan: JudgingPlan, judged: JudgingResult) -> dict[str, PanelStudy]:
    """What the judges of a panel agree on, by dimension; nothing for a single judge.

    Parameters:
        plan: What was judged.
        judged: The result of judging it.
    """
    if judged.panel is None:
        return {}
    return {dimension: _study(judged.panel, dimension, plan.cases.get(dimension, ())) for dimension in plan.dimensions}


def _study(panel: PanelFindings, dimension: str, cases: Sequence[Case]) -> PanelStudy:
    votes = panel.votes(dimension)
    matchups = [case.matchup for case in cases]
    prompts = [matchup.prompt_id for matchup in matchups]
    entrants = [(matchup.entrant_a, matchup.entrant_b) for matchup in matchups]
    found = panel.reliability(dimension)
    voted = (votes != MISSING).sum(axis=1)
    opposed = (votes == A).any(axis=1) & (votes == B).any(axis=1)
    same = (votes == votes[:, :1]).all(axis=1) & (voted == votes.shape[1])
    own = panel.member_judgments(dimension)
    rows = (
        _judge_row(name, votes, place, prompts, entrants, found, measure_bias(own[place]))
        for place, name in enumerate(panel.members)
    )
    often = Counter(prompts[place] for place in np.flatnonzero(opposed).tolist())
    return PanelStudy(
        matchups=len(votes),
        unanimous=int(same.sum()),
        opposed=int(opposed.sum()),
        no_majority=int(((plurality(votes) == MISSING) & (voted > 0)).sum()),
        incomplete=int(((voted < votes.shape[1]) & (voted > 0)).sum()),
        failed=int((voted == 0).sum()),
        judges=tuple(rows),
        pairs=_pairs(panel.members, votes, prompts),
        dissent=tuple(
            Dissent(
                prompts[place],
                *entrants[place],
                {name: judgments[place].outcome for name, judgments in zip(panel.members, own, strict=True)},
            )
            for place in _most_dissent(votes)
        ),
        prompts=dict(often.most_common(MOST_NAMED)),
    )


def _judge_row(
    name: str,
    votes: Votes,
    place: int,
    prompts: Sequence[str],
    entrants: Sequence[tuple[str, str]],
    found: Reliability | None,
    bias: Bias,
) -> PanelJudgeRow:
    mine, others = votes[:, place], np.delete(votes, place, axis=1)
    most = plurality(others)
    comparable = np.flatnonzero((mine != MISSING) & (most != MISSING)).tolist()
    sides = np.isin(mine, (A, B)) & np.isin(most, (A, B))
    leans_to, lean = _lean(mine, others, prompts, entrants)
    rated = found if np.isin(mine, (A, B)).any() else None
    return PanelJudgeRow(
        judge=name,
        settled=int((mine != MISSING).sum()),
        failed=int((mine == MISSING).sum()),
        accuracy=None if rated is None else float(rated.accuracy[place]),
        weight=None if rated is None else float(rated.weights[place]),
        with_others=share([bool(mine[i] == most[i]) for i in comparable], [prompts[i] for i in comparable]),
        opposed=int((sides & (mine != most)).sum()),
        bias=bias,
        leans_to=leans_to,
        lean=lean,
    )


_SCORE = np.array([1.0, 0.0, 0.5])
"""What a vote gives entrant_a."""


def _lean(
    mine: Votes, others: Votes, prompts: Sequence[str], entrants: Sequence[tuple[str, str]]
) -> tuple[str | None, Estimate]:
    """The entrant that a judge treats most differently from the others, and the difference for it."""
    there = others != MISSING
    usable = (mine != MISSING) & there.any(axis=1)
    theirs = np.where(there, _SCORE[np.where(there, others, NEITHER)], 0.0).sum(axis=1) / np.maximum(
        1, there.sum(axis=1)
    )
    gap = _SCORE[np.where(usable, mine, NEITHER)] - theirs
    by_entrant: dict[str, tuple[list[float], list[str]]] = {}
    for i in np.flatnonzero(usable).tolist():
        for entrant, sign in zip(entrants[i], (1.0, -1.0), strict=True):
            values, clusters = by_entrant.setdefault(entrant, ([], []))
            values.append(sign * float(gap[i]))
            clusters.append(prompts[i])
    if not by_entrant:
        return None, mean_of([])
    level = 1 - 0.05 / len(by_entrant)
    leans = {entrant: mean_of(values, clusters, level=level) for entrant, (values, clusters) in by_entrant.items()}
    furthest = max(leans, key=lambda entrant: abs(leans[entrant].value or 0.0))
    return furthest, leans[furthest]


def _pairs(members: Sequence[str], votes: Votes, prompts: Sequence[str]) -> tuple[JudgePair, ...]:
    pairs = []
    for i, j in combinations(range(len(members)), 2):
        both = np.flatnonzero((votes[:, i] != MISSING) & (votes[:, j] != MISSING)).tolist()
        first, second = votes[both, i].tolist(), votes[both, j].tolist()
        clusters = [prompts[place] for place in both]
        pairs.append(
            JudgePair(
                members[i],
                members[j],
                share([a == b for a, b in zip(first, second, strict=True)], clusters),
                _kappa(first, second, clusters),
            )
        )
    return tuple(pairs)


_OTHER = {A: B, B: A, NEITHER: NEITHER}


def _kappa(first: list[int], second: list[int], clusters: list[str]) -> Estimate:
    """Cohen's kappa with every matchup counted from both sides.

    Which entrant is called A is arbitrary: where the better one is usually listed first, two good judges would agree
    hardly more than their habit of saying A explains.
    """
    swapped = [[_OTHER[one] for one in votes] for votes in (first, second)]
    found = cohen_kappa(first + swapped[0], second + swapped[1], clusters * 2)
    return replace(found, n=len(first))


def _most_dissent(votes: Votes) -> list[int]:
    """The matchups with the most dissent: most votes on the smaller side first, then most kinds of votes."""
    sides = np.stack([(votes == label).sum(axis=1) for label in (A, B, NEITHER)], axis=1)
    smaller, kinds = sides[:, :2].min(axis=1), (sides > 0).sum(axis=1)
    order = np.lexsort((np.arange(len(votes)), -kinds, -smaller))
    return [int(place) for place in order[:MOST_NAMED] if kinds[place] > 1]
