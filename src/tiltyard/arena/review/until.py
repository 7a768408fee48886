"""When a review may end: `--until better` (one of two models is) or `--until width:W` (intervals are narrow).

The board that decides is the one with people's labels in it: judge and people together where there is a judge, else
people alone. Who is better is asked again with every label, so it takes a difference that holds however often one looks
(the sequence of `compare --anytime`). A width does not depend on who is ahead: its intervals are the ordinary ones.
"""

from __future__ import annotations

import math
import re

import msgspec

from tiltyard.analysis.boards import Leaderboard
from tiltyard.errors import OptionError
from tiltyard.stats import FIRST_LOOK, POINTS_PER_LOGIT, anytime_half_width

LEVEL = 0.95
_WIDTH = re.compile(r"width: *([0-9]+(?:\.[0-9]+)?)")


class UntilLook(msgspec.Struct, frozen=True):
    """What a look at the labels found: whether the review may end, and in words why, or why not yet."""

    settled: bool
    sentence: str


def check_until(rule: str, dimensions: set[str], models: set[str]) -> None:
    """Refuse a rule that cannot be read, or that these matchups do not answer."""
    if _width(rule) is None and len(models) > 2:
        raise OptionError(f"until better is about two models, and these are {len(models)}. Use width:80.")
    if len(dimensions) > 1:
        raise OptionError(
            f"until {rule} is about one board, and these matchups have {len(dimensions)} dimensions "
            f"({', '.join(sorted(dimensions)[:4])}). Choose one with --dimension."
        )


def _width(rule: str) -> float | None:
    """The points from end to end that a rule asks for; None for `better`."""
    if rule == "better":
        return None
    if (width := _WIDTH.fullmatch(rule)) and float(width[1]) > 0.0:
        return float(width[1])
    raise OptionError(
        f"until {rule!r} is no end of a review. Write better (one of two models is better) or width:80 (no interval "
        "wider than 80 points from end to end)."
    )


def look_at(board: Leaderboard, people: Leaderboard, rule: str, models: set[str], by: str, labelled: int) -> UntilLook:
    """What a board with people's labels says about a rule.

    `people` is the board by people's labels alone, `models` are those of the review, which must be on the board, `by`
    says whose verdicts the board has, and `labelled` is the number of items with a label.
    """
    by = f"by {by} after {labelled:,} {'label' if labelled == 1 else 'labels'}"
    if apart := sorted(models.difference(board.models)):
        return UntilLook(settled=False, sentence=f"not known yet: no label joins {apart[0]} to the others")
    width = _width(rule)
    if width is None:
        first, second = board.entries
        if labelled >= FIRST_LOOK and is_told_apart(board, people):
            sentence = f"{first.model} is better than {second.model}, {by}; that holds however often one looks (95 %)"
            return UntilLook(settled=True, sentence=sentence)
        sentence = (
            f"{first.model} leads {second.model} by {first.rating - second.rating:.0f} points, {by}; not enough yet"
        )
        return UntilLook(settled=False, sentence=sentence)
    ends = [(one.ci_low, one.ci_high) for one in board.entries]
    widest = max(math.inf if low is None or high is None else high - low for low, high in ends)
    if math.isinf(widest):
        return UntilLook(settled=False, sentence=f"not known yet: a model has no interval, {by}")
    sentence = f"the widest interval is {widest:.0f} points from end to end, {by}"
    if widest <= width:
        return UntilLook(settled=True, sentence=sentence)
    more = math.ceil(labelled * ((widest / width) ** 2 - 1.0))
    return UntilLook(settled=False, sentence=f"{sentence}; about {more:,} more make it {width:g}")


def is_told_apart(board: Leaderboard, people: Leaderboard) -> bool:
    """Whether the better one of two models is known, at whatever time and however often one looks.

    A logit's variance grows with the difference, so that 40 wins of 40 would prove less than 30. The difference is
    therefore measured as g = 4 (arcsin √p − π/4), which is the logit near 0 and whose variance is 4 p (1 − p) times the
    logit's, and no less than that of as many decisive labels between equals: 4/n, or 4n/N² of N labels where a tie
    counts as half a win.
    """
    degrees = board.settings.interval and board.settings.interval.degrees_of_freedom
    if not degrees:
        return False
    first, second = board.entries
    p = 1.0 / (1.0 + math.exp((second.rating - first.rating) / POINTS_PER_LOGIT))
    g = 4.0 * (math.asin(math.sqrt(p)) - math.pi / 4.0)
    variance, alone = _variance(board), _variance(people)
    counts = people.entries[0]
    decisive = counts.wins + counts.losses
    least = 4.0 / decisive
    if people.settings.tie_model == "half":
        least = 4.0 * decisive / (decisive + counts.ties) ** 2
    least *= min(1.0, variance / alone) if alone > 0.0 else 1.0
    return g > anytime_half_width(max(variance * 4.0 * p * (1.0 - p), least), LEVEL, degrees[0])


def _variance(board: Leaderboard) -> float:
    return float(board.arrays["difference_errors"][0, 1] / POINTS_PER_LOGIT) ** 2
