"""Bradley–Terry over the counted votes, beside the live order: valid intervals, and how well the two agree.

Glicko's deviation is not a valid standard error when lanes choose who plays; these intervals are published instead.
The fit is unweighted, because a lane's choice depends on earlier votes only; a second fit in which every pair weighs
the same (1/n_ij) shows how much the order depends on the schedule.

A model has one rating, the one that orders the board. `on_scale` moves Bradley–Terry's intervals to the centre and
scale of those ratings, so that both are read on one axis.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np

from tiltyard.analysis.boards import BradleyTerry, Leaderboard
from tiltyard.arena.rules.policy import IntervalRules, SpeakFor
from tiltyard.arena.rules.votes import VoteTable
from tiltyard.stats import RankIntervals, kendall_tau
from tiltyard.types import Floats


class OfflineRow(msgspec.Struct, frozen=True):
    """One model: rating with interval and rank interval, the rating with equal pair weights, its live rank."""

    rank: int
    """Place by Bradley–Terry."""
    model: str
    """The model."""
    rating: float
    """Bradley–Terry estimate: what the interval is around."""
    low: float | None
    """Lower end of its interval."""
    high: float | None
    """Upper end of its interval."""
    rank_low: int | None
    """The best place it could hold among the models of the live board."""
    rank_high: int | None
    """The worst place it could hold among them."""
    votes: int
    """Rated votes of the model (A, B, TIE)."""
    even_pairs_rating: float | None
    """The rating with equal pair weights."""
    live_rank: int | None
    """Its place on the live board."""
    votes_to_swap: int | None
    """The smallest number of votes whose removal makes the next model level with it; None if there is none."""
    note: str | None
    """Why it is marked: unbeaten, winless, votes of too few people."""
    widened: bool = False
    """Whether its interval was widened to contain the raw rating."""


class BoardIntervals(msgspec.Struct, frozen=True):
    """What intervals rest on."""

    clusters: str
    """`voter` or `prompt,voter`."""
    speaks_for: str
    """What the intervals hold for."""
    anytime: bool
    """Whether ranges of ranks hold at every time at which one looks."""
    remarks: tuple[str, ...]
    """What else to know, such as one voter's share."""
    centre: float | None
    """What 1000 of `tiltyard rate` reads on the board's scale; null: it was not moved there."""
    slope: float
    """What one point of it reads."""


class OfflineBoard(msgspec.Struct, frozen=True):
    """Bradley–Terry on the same votes."""

    rows: tuple[OfflineRow, ...]
    votes: int
    """Rated ones (A, B, TIE), as in every row."""
    clusters: str
    speaks_for: str
    anytime: bool
    tau_live: float | None
    """Kendall's tau with the live order."""
    tau_even_pairs: float | None
    """With the order at equal pair weights."""
    remarks: tuple[str, ...]
    misfit: dict[str, Any] | None = None
    """How well the model describes the votes, as in a ratings file."""
    centre: float | None = None
    slope: float = 1.0

    @property
    def intervals(self) -> BoardIntervals:
        return msgspec.convert(self, BoardIntervals, from_attributes=True)


CLUSTERS: dict[SpeakFor, str] = {"these_prompts": "voter", "prompts_like_these": "prompt,voter"}
"""What makes votes dependent, by what the intervals are to hold for."""

SPEAKS_FOR: dict[SpeakFor, str] = {
    "these_prompts": "these prompts and answers, other voters",
    "prompts_like_these": "other prompts of this kind too, and other voters",
}


def published_estimator(rules: IntervalRules) -> BradleyTerry:
    """The Bradley–Terry fit behind everything that an arena publishes of intervals and ranges of ranks."""
    return BradleyTerry(cluster=CLUSTERS[rules.speak_for], anytime=rules.anytime, only_connected=True)


def rate_options(rules: IntervalRules) -> str:
    """The options with which `tiltyard rate` gives the published board from the exported battles."""
    return f"--cluster {CLUSTERS[rules.speak_for]}{' --anytime' if rules.anytime else ''} --only-connected"


def offline_board(
    votes: VoteTable,
    live_order: Sequence[str],
    rules: IntervalRules | None = None,
    *,
    swaps: bool = True,
    style: Mapping[str, Floats] | None = None,
) -> OfflineBoard:
    """Rate counted votes by Bradley–Terry and compare with a live order, best first.

    Models that never met the others are named in `remarks` and not rated. Too few votes to rate is a `BattleError`.

    Parameters:
        votes: The counted votes.
        live_order: The live order, best first. Ranges of ranks are among its models; without one, among all.
        rules: What the intervals hold for: the arena's policy has them as `intervals`.
        swaps: Whether to work out votes-to-swap, which takes most of the time.
        style: Columns of the votes to control for, such as `len_a` and `len_b`; the remarks say what each is worth.
    """
    rules = IntervalRules() if rules is None else rules
    estimator = replace(published_estimator(rules), robustness=swaps)
    battles = votes.battles()
    if style:
        estimator = replace(estimator, control=tuple(dict.fromkeys(name.rpartition("_")[0] for name in style)))
        battles = replace(battles, columns={**battles.columns, **style})
    board = estimator.fit(battles)
    even = board if style else _even_pairs(votes, estimator)
    cast = np.bincount(np.concatenate([votes.model_a[votes.rated], votes.model_b[votes.rated]]))
    counts = dict(zip(votes.models, cast.tolist(), strict=False))
    places = _places(board, live_order)
    ratings, rows = even.ratings, []
    for entry in board:
        name, swap = entry.model, entry.extra.get("battles_to_swap_with_next")
        best, worst = places.get(name, (None, None))
        rows.append(
            OfflineRow(
                rank=entry.rank,
                model=name,
                rating=entry.rating,
                low=entry.ci_low,
                high=entry.ci_high,
                rank_low=best,
                rank_high=worst,
                votes=counts.get(name, 0),
                even_pairs_rating=ratings.get(name),
                live_rank=live_order.index(name) + 1 if name in live_order else None,
                votes_to_swap=None if swap is None else int(swap),
                note=entry.note,
            )
        )
    words = {"len": "longer answers", "headings": "more headings", "lists": "more list items", "bold": "more bold text"}
    worth = []
    for name, result in (board.details.coefficients or {}).items():
        points, low, high = result.points, result.ci_low, result.ci_high
        around = "" if low is None or high is None else f" ({low:.0f} to {high:.0f})"
        worth.append(f"{words.get(name, name)}: {points:+.0f} points{around}".replace("-", "−"))
    return OfflineBoard(
        tuple(rows),
        sum(row.votes for row in rows) // 2,
        CLUSTERS[rules.speak_for],
        SPEAKS_FOR[rules.speak_for],
        rules.anytime,
        tau([(row.rating, -row.live_rank) for row in rows if row.live_rank is not None]),
        tau([(row.rating, row.even_pairs_rating) for row in rows if row.even_pairs_rating is not None]),
        (*board.remarks, *worth),
        msgspec.to_builtins(board.details.misfit) if board.details.misfit else None,
    )


def _even_pairs(votes: VoteTable, estimator: BradleyTerry) -> Leaderboard:
    """The fit in which every pair that met has the same weight, regardless of the schedule."""
    n_models = len(votes.models)
    low, high = np.minimum(votes.model_a, votes.model_b), np.maximum(votes.model_a, votes.model_b)
    rated = votes.rated
    pair = low * n_models + high
    _, code = np.unique(pair, return_inverse=True)
    met = np.bincount(code, np.where(rated, votes.weight, 0.0))
    mean = float(met[met > 0].mean()) if (met > 0).any() else 1.0
    weight = np.where(rated, votes.weight * mean / np.where(met > 0.0, met, 1.0)[code], 1.0)
    return replace(estimator, ci="none", robustness=False).fit(votes.battles(weight))


def _places(board: Leaderboard, live_order: Sequence[str]) -> Mapping[str, tuple[int, int]]:
    """Every model's range of ranks among the models of the live order; of all models where none is given."""
    whole = {
        entry.model: (entry.rank_low, entry.rank_high)
        for entry in board
        if entry.rank_low is not None and entry.rank_high is not None
    }
    chosen = [model for model in whole if model in live_order]
    if not live_order or len(chosen) == len(whole):
        return whole
    models = board.arrays["models"].tolist()
    below = board.arrays.get("below")
    numbers = np.array([models.index(model) for model in chosen], dtype=np.int64)
    low, high = (np.array([whole.get(model, (1, 1))[end] for model in models]) for end in (0, 1))
    ranges = RankIntervals(low, high, None if below is None else below.astype(bool)).among(numbers)
    return dict(zip(chosen, zip(ranges.low.tolist(), ranges.high.tolist(), strict=True), strict=True))


BRADLEY_TERRY_CENTRE = 1000.0


def on_scale(
    board: OfflineBoard, shown: Mapping[str, float], slope: float | None = None, *, widen: bool = True
) -> OfflineBoard:
    """The board with ratings and intervals moved to the centre and scale of the ratings that are shown.

    A straight line through the models on both boards: least squares for the slope, means for the centre. The two scales
    differ because Glicko-2 and Elo count a tie as half a win, which makes gaps look smaller. An interval that does not
    contain the rating shown is widened to it and marked; without `widen` it is not: votes of some prompts stand beside
    the rating by all.
    """
    both = [row for row in board.rows if row.model in shown]
    if not both or board.centre is not None:
        return board
    ours = np.array([row.rating for row in both])
    theirs = np.array([shown[row.model] for row in both])
    spread = float(((ours - ours.mean()) ** 2).sum())
    if slope is None:
        together = float(((ours - ours.mean()) * (theirs - theirs.mean())).sum())
        slope = together / spread if spread > 0.0 and together > 0.0 else 1.0
    centre = float(theirs.mean() + slope * (BRADLEY_TERRY_CENTRE - ours.mean()))

    def moved(value: float) -> float:
        return centre + slope * (value - BRADLEY_TERRY_CENTRE)

    rows = []
    for row in board.rows:
        rating = shown.get(row.model) if widen else None
        low, high = (None if end is None else moved(end) for end in (row.low, row.high))
        below = rating is not None and low is not None and rating < low
        above = rating is not None and high is not None and rating > high
        rows.append(
            msgspec.structs.replace(
                row,
                rating=moved(row.rating),
                low=rating if below else low,
                high=rating if above else high,
                even_pairs_rating=None if row.even_pairs_rating is None else moved(row.even_pairs_rating),
                widened=below or above,
            )
        )
    return msgspec.structs.replace(board, rows=tuple(rows), centre=centre, slope=slope)


def tau(pairs: Sequence[tuple[float, float]] | Floats) -> float | None:
    """Kendall's tau of two orders; None for fewer than two models, or if one order is all ties."""
    if len(pairs) < 2:
        return None
    left, right = np.array(pairs, dtype=np.float64).T
    value = kendall_tau(left, right)
    return None if np.isnan(value) else value
