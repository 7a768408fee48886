"""The section `rounds` of a tournament file, and how it is read."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from tiltyard.errors import OptionError
from tiltyard.judging.adaptive import RoundSettings
from tiltyard.judging.round_choice import RoundGoal


class RoundsSection(msgspec.Struct, frozen=True, kw_only=True):
    """Adaptive rounds: what they go on for, and how large they are. Without `until`, everything is judged at once."""

    until: str | None = None
    """`top` (who is best), `order` (every pair), `width:80` (no interval wider than 80 points from end to end),
    `budget` (with a budget in USD), `budget:5000` (calls, shared by the dimensions), or `all`: no rounds."""
    opponents: int | None = None
    """How many opponents an entrant meets on a prompt in each round; – means a third of the others, one to three."""
    prompts: int | None = None
    """New prompts in each round; – means so many that two thirds of the rounds see them all."""
    maximum: int = 6
    """The most rounds. The error rate is divided over this many looks, so fix it before the first verdict."""
    level: float = 0.95
    """Confidence level of the decision, in each dimension."""
    seed: int = 0
    """Draws the order of the prompts and varies the opponents."""


def wrong_rounds(rounds: RoundsSection) -> Iterator[str]:
    """Reject rounds that cannot be played."""
    try:
        round_settings(rounds, None)
    except OptionError as error:
        yield f"rounds: {error}"


def round_settings(rounds: RoundsSection, until: str | None) -> RoundSettings | None:
    """How rounds go, with the goal of the command line before the file's; None if everything is judged.

    Parameters:
        rounds: What the file says.
        until: The goal that the command line names.
    """
    asked = until or rounds.until or "all"
    settings = RoundSettings(
        goal=RoundGoal.parse("order" if asked == "all" else asked),
        opponents=rounds.opponents,
        prompts=rounds.prompts,
        maximum=rounds.maximum,
        level=rounds.level,
        seed=rounds.seed,
    )
    return None if asked == "all" else settings
