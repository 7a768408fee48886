"""Whether labelled units (prompts, or matchups) can be a random draw of all: what is known of all is held against it.

Under a random draw the labelled units are like the others in everything that was known before: what the judge said of
them, what kind they are of, how long they are. What people would say of the others nobody knows, so labels that were
chosen by their result show only as far as the judge agrees with people.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from tiltyard.stats.comparisons import sum_by
from tiltyard.types import Bools, Floats, Ints

ALARM = 0.05
"""Labels with a smaller p are called no random draw: so are at most this many of fair draws."""

DRAWS = 999
"""Random draws that labels are held against."""

FEWEST_OF_A_KIND = 5
"""A kind with fewer units, or with all but fewer, is not looked at on its own."""

DIGITS = 9
"""Numbers that are equal to so many decimals are equal."""


class Trait(msgspec.Struct, frozen=True, eq=False):
    """Something known of units: what it is called, and a number for each; NaN where it is not known."""

    name: str
    values: Floats


class DrawCheck(msgspec.Struct, frozen=True):
    """How rare it is that a random draw is as unlike all units, and the trait that is furthest off.

    `labelled` and `all_units` are the means of that trait. Without anything to compare, `p` is 1.
    """

    p: float
    trait: str = ""
    labelled: float = 0.0
    all_units: float = 0.0

    @property
    def alarms(self) -> bool:
        return self.p < ALARM

    def sentence(self, units: str) -> str:
        """What is wrong, in words; `units` says what is labelled."""
        return (
            f"NOT a random draw, it seems: {self.trait} averages {self.labelled:,.3g} on the labelled {units} and "
            f"{self.all_units:,.3g} on all (p = {self.p:.2g}). What was chosen biases the result: label {units} that "
            "are drawn at random"
        )


def kinds(column: str, texts: Sequence[str | None]) -> list[Trait]:
    """The traits of a column of texts: for each text whether a unit has it."""
    values = np.array(["" if text is None else text for text in texts])
    names, count = np.unique(values, return_counts=True)
    told = (count >= FEWEST_OF_A_KIND) & (count <= len(values) - FEWEST_OF_A_KIND) & (names != "")
    return [Trait(f"the share with {column} {name!r}", (values == name) * 1.0) for name in names[told].tolist()]


def check_draw(
    traits: Sequence[Trait], labelled: Bools, rng: np.random.Generator, cluster: Ints | None = None
) -> DrawCheck:
    """Hold labelled units against all, beside as many that are drawn at random again and again.

    A trait is compared by mean ranks, and its p is the share of draws that are as far away. The p of all traits
    together is the share of draws whose least p is as small (Westfall and Young 1993): at a draw of units it is exact,
    however few, rare or alike they are.

    Where labels lie together as they do if whole clusters are drawn, clusters are compared by the means of their units.

    Parameters:
        traits: What is known of all units.
        labelled: Whether each unit is labelled.
        rng: Draws.
        cluster: What units belong together, numbered from 0 (the prompts of matchups); None is each its own.
    """
    varied = [trait for trait in traits if len(np.unique(trait.values[~np.isnan(trait.values)])) > 1]
    if not varied:
        return DrawCheck(1.0)
    ranks = np.column_stack([_centred_ranks(trait.values) for trait in varied])
    drawn = labelled
    if cluster is not None and _whole_clusters(labelled, cluster):
        sizes = np.maximum(np.bincount(cluster), 1)
        ranks = np.column_stack([sum_by(cluster, column, len(sizes)) for column in ranks.T]) / sizes[:, None]
        drawn = np.bincount(cluster, labelled, len(sizes)) > 0.0
    total, n = len(drawn), int(drawn.sum())
    if not 1 < n < total:
        return DrawCheck(1.0)
    order = np.lexsort(np.column_stack([drawn, np.round(ranks, DIGITS)]).T)  # the order of rows decides nothing
    ranks, drawn = ranks[order], drawn[order]
    sums = np.array(
        [
            ranks[drawn].sum(axis=0),
            *(ranks[rng.choice(total, n, replace=False, shuffle=False)].sum(axis=0) for _ in range(DRAWS)),
        ]
    )
    away = np.round(np.abs(sums), DIGITS)
    as_far = np.column_stack([len(away) - np.searchsorted(np.sort(one), one) for one in away.T])
    # Of what no draw reaches, the further is the rarer: so much of a draw is less than one draw.
    rarity = as_far - away / (away + np.maximum(away.std(axis=0), 1e-12))
    least = rarity.min(axis=1)
    worst = varied[int(np.argmin(rarity[0]))]
    known = ~np.isnan(worst.values)
    return DrawCheck(
        float((least <= least[0]).mean()),
        worst.name,
        float(worst.values[known & labelled].mean()) if (known & labelled).any() else 0.0,
        float(worst.values[known].mean()),
    )


def _whole_clusters(labelled: Bools, cluster: Ints) -> bool:
    """Whether labels fill the clusters that have any, nearer to wholly than a draw of units would."""
    sizes = np.bincount(cluster).astype(np.float64)
    filled = np.bincount(cluster, labelled, len(sizes))
    share = labelled.mean()
    by_units = share * len(labelled) / float((sizes * (1.0 - (1.0 - share) ** sizes)).sum())
    return bool(filled.sum() / sizes[filled > 0.0].sum() > (1.0 + by_units) / 2.0)


def _centred_ranks(values: Floats) -> Floats:
    """Mean ranks as parts of all, measured from their mean; 0 where a value is not known."""
    known = ~np.isnan(values)
    _, code, count = np.unique(np.round(values[known], DIGITS), return_inverse=True, return_counts=True)
    middle = np.cumsum(count) - (count - 1) / 2.0
    ranks = np.zeros(len(values))
    ranks[known] = (middle[code] - middle[code].mean()) / len(code)
    return ranks
