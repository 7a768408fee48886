"""Two ratings files compared: what moved between two boards, where nothing but the boards is left."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from tiltyard.boards.bradley_terry import CENTRE
from tiltyard.boards.leaderboard import EloReport, RatingEntry
from tiltyard.decisions.contrast import Contrast, even_odds
from tiltyard.decisions.picked import candidates, for_picked, level_for
from tiltyard.decisions.records import Difference, EntrantChange, EstimatedDifference, RunComparison
from tiltyard.decisions.two_runs import FEWEST_SHARED, beyond_noise
from tiltyard.errors import OptionError, OptionValue
from tiltyard.options import CompareOptions
from tiltyard.ratings import POINTS_PER_LOGIT
from tiltyard.ratings.quantiles import normal_quantile
from tiltyard.ratings.ranks import ranks

WELL_KNOWN = 1e6
"""Degrees of freedom of a board's interval: its own were spent when it was made."""


def compare_ratings(now: tuple[str, EloReport], then: tuple[str, EloReport], options: CompareOptions) -> RunComparison:
    """What moved between two ratings files. Their errors are counted as independent, which is wider than paired."""
    if options.given().keys() - {"level", "picked_from", "notify"}:
        raise OptionError("two ratings files have no battles: leave out what is about reading or choosing them.")
    names, new, old = (now[0], then[0]), now[1], then[1]
    _check_alike(new, old)
    level = level_for(options)
    new_entries, old_entries = ({entry.model: entry for entry in report.ratings} for report in (new, old))
    shared = [name for name in new_entries if name in old_entries]
    if len(shared) < FEWEST_SHARED:
        raise OptionError(
            f"the boards share too few models to compare ({', '.join(shared) or 'none'}): two are needed."
        )
    both = [np.array([entries[name].rating for name in shared]) for entries in (new_entries, old_entries)]
    centred = [rating - rating.mean() + CENTRE for rating in both]
    places = [ranks(rating) for rating in centred]
    changes = []
    moves = centred[0] - centred[1]
    pooled = tuple(dict.fromkeys([*(new.details.get("dimensions") or ()), *(old.details.get("dimensions") or ())]))
    for i, name in enumerate(shared):
        one = _change(new_entries[name], old_entries[name], (new, old), float(moves[i]))
        result = _difference(name, one, names, level, new_entries[name].n_battles + old_entries[name].n_battles)
        result = replace(result, best_of=candidates(moves, i, None), dimensions=pooled)
        result = for_picked(result, options.picked_from)
        changes.append(
            EntrantChange(
                name,
                float(centred[0][i]),
                float(centred[1][i]),
                int(places[0][i]),
                int(places[1][i]),
                answers_changed=None,
                beyond_noise=beyond_noise(result, len(shared)),
                difference=result,
            )
        )
    changes.sort(key=lambda change: change.rank_new)
    note = (
        "two boards alone: their errors are counted as independent, and no prompt is known; compare the runs for more"
    )
    return RunComparison(names[0], names[1], tuple(changes), tuple(shared), None, level, (note,))


def _check_alike(new: EloReport, old: EloReport) -> None:
    """Refuse ratings whose difference would mean nothing: of two methods, or on two scales."""
    methods = [str(report.details.get("method", "bt")) for report in (new, old)]
    if methods[0] != methods[1]:
        raise OptionError(f"the files are rated by different methods: {methods[0]} (new), {methods[1]} (old).")
    if methods[0] == "winrate":
        raise OptionError(
            "win rates are not ratings: rate both with ", OptionValue("method", "bt"), ", or compare the battles."
        )
    if ("people" in new.details) != ("people" in old.details):
        raise OptionError(
            "one board is on people's scale (corrected by labels), the other on its judge's: correct both, or none."
        )


def _change(now: RatingEntry, then: RatingEntry, reports: tuple[EloReport, EloReport], points: float) -> Contrast:
    """A model's difference between the boards, in logits, as a contrast of two independent ratings."""
    errors = [_error(entry, report) for entry, report in zip((now, then), reports, strict=True)]
    return Contrast(
        value=points / POINTS_PER_LOGIT,
        variance=sum((error / POINTS_PER_LOGIT) ** 2 for error in errors if error is not None),
        own_variance=0.0,
        degrees=0.0 if None in errors else WELL_KNOWN,
        clustered=False,
        battles=min(now.n_battles, then.n_battles),
    )


def _error(entry: RatingEntry, report: EloReport) -> float | None:
    """The standard error that an entry's interval tells; None where it has none."""
    if entry.ci_low is None or entry.ci_high is None:
        return None
    level = (report.details.get("interval") or {}).get("level", 0.95)
    return (entry.ci_high - entry.ci_low) / (2.0 * normal_quantile(level))


def _difference(name: str, one: Contrast, names: tuple[str, str], level: float, n_battles: float) -> Difference:
    low, high = one.ends(level)
    rates = [None if points is None or math.isinf(points) else even_odds(points) for points in (low, high)]
    return Difference(
        new=f"{name} in {names[0]}",
        old=f"{name} in {names[1]}",
        estimate=EstimatedDifference(
            one.points, low, high, one.probability_above(), even_odds(one.points), rates[0], rates[1], n_battles
        ),
        contrast=one,
        level=level,
        n_battles=n_battles,
        interval={"level": level, "cluster": None, "clusters": []},
        then_and_now=True,
    )
