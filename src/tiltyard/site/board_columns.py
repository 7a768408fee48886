"""The columns of the live board, one entry each, and the lines that they are about."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from tiltyard.arena import MODEL_VOTES, OFFICIAL_FROM, SHADOW_PHASE, Badge, BoardRow, OfflineRow
from tiltyard.arena.study import ModelFacts, Movement, ThenRow
from tiltyard.render import Scale, count, percent, points, signed

Key = float | int | str | None


class BoardLine(msgspec.Struct, frozen=True):
    """One line of a board: the live row, who the model is, where Bradley–Terry puts it, how it moved in a day."""

    row: BoardRow
    facts: ModelFacts
    offline: OfflineRow | None
    moved: Movement | None
    phase: int
    """Phase of the rollout, which says what is public of the row."""
    anytime: bool
    """Whether its range of ranks holds at every time at which one looks."""
    then: ThenRow | None = None
    """Its figures on an earlier day, if the board is of one."""
    whole: bool = True
    """Whether the board is of all votes."""
    scale: Scale | None = None
    """What intervals are drawn on; None: none are."""

    @property
    def by_legacy(self) -> bool:
        return self.phase < OFFICIAL_FROM

    @property
    def in_shadow(self) -> bool:
        return self.phase == SHADOW_PHASE

    @property
    def provisional(self) -> bool:
        """Whether its place is too uncertain to rely on, as far as that is public."""
        return self.row.badge is Badge.PROVISIONAL and not self.in_shadow

    @property
    def badge(self) -> str | None:
        """Its badge, which is of today and of the whole board."""
        return None if self.in_shadow or self.then else self.row.badge.value

    @property
    def place(self) -> int | None:
        if self.whole:
            return self.row.rank
        return self.then.place if self.then else self.offline.rank if self.offline else None

    @property
    def places(self) -> tuple[int, int] | None:
        source = self.row if self.whole else self.offline
        if source is None or source.rank_low is None or source.rank_high is None or self.in_shadow:
            return None
        low, high = source.rank_low, source.rank_high
        return (low, high) if self.then is None else (min(low, self.then.place), max(high, self.then.place))

    @property
    def votes(self) -> int | None:
        """Its votes on this board: all counted ones, by the end of a day too, but only rated ones of other parts."""
        if self.whole:
            return self.row.votes
        return self.then.votes if self.then else self.offline.votes if self.offline else None

    @property
    def raw(self) -> float:
        """The rating behind the one that is printed: what the interval is around."""
        if self.then is not None:
            return self.then.rating
        if not self.whole and self.offline is not None:
            return self.offline.rating
        return self.row.legacy_elo if self.by_legacy else self.row.rating

    @property
    def printed(self) -> float:
        if self.then is not None:
            return self.then.rating_shown
        return self.row.rating_shown if self.whole else self.raw

    @property
    def has_raw(self) -> bool:
        """Whether the printed rating is a conservative one, with the raw one beside it."""
        return not self.by_legacy if self.whole else self.then is not None and self.then.deviation is not None

    @property
    def span(self) -> tuple[float | None, float | None] | None:
        """The ends of its interval; None where there is none, or too few votes to show it."""
        if self.offline is None or self.in_shadow or self.offline.votes < MODEL_VOTES:
            return None
        ends = self.offline.low, self.offline.high
        return None if ends == (None, None) else ends

    @property
    def width(self) -> float | None:
        low, high = self.span or (None, None)
        return None if low is None or high is None else high - low


class Cell(msgspec.Struct, frozen=True):
    """What a cell shows: a figure, a smaller one beside it, and what is said of it where somebody points."""

    text: str
    small: str = ""
    title: str = ""


class Column(msgspec.Struct, frozen=True):
    """A column: its heading and what it means, what it shows of a line, and by what and how lines are sorted first."""

    heading: str
    meaning: str
    key: Callable[[BoardLine], Key]
    first: str = "desc"
    cell: Callable[[BoardLine], Cell] | None = None
    """None for those that every board has: the page draws them."""
    default: bool = True
    """Whether it is shown unless a visitor chooses otherwise."""
    in_shadow: bool = True
    """Whether it is public in phase 1."""
    stated: bool = False
    """Whether it is a fact that a model's maker states; it is offered only if one does."""


def _coverage(line: BoardLine) -> Cell:
    pairs = line.row.pair_coverage
    beside = "" if pairs is None else f"pairs with neighbours {percent(pairs)}"
    return Cell(percent(line.row.prompt_coverage), title=beside)


def _interval(line: BoardLine) -> Cell:
    if line.span is None:
        return Cell("–")
    low, high = ("…" if end is None else points(end) for end in line.span)
    return Cell(f"{low} to {high}", "of the raw rating" if line.whole and line.has_raw else "")


COLUMNS: Mapping[str, Column] = {
    "rank": Column(
        "Rank",
        "The official place, and the 95 % range of ranks: the places that the votes allow.",
        lambda line: line.place,
        "asc",
    ),
    "model": Column("Model", "Its name, badge and maker.", lambda line: line.row.display_name.casefold(), "asc"),
    "rating": Column(
        "Rating",
        "The raw rating, which stands beside it, minus two deviations (RD): luck with few votes does not help.",
        lambda line: line.printed,
    ),
    "confidence": Column(
        "Confidence",
        "The chance that the rating is within 25 points of the truth, if RD were a standard error; point at it for RD.",
        lambda line: -line.row.deviation,
        cell=lambda line: Cell(f"{line.row.confidence} %", title=f"RD {points(line.row.deviation, 1)}"),
        in_shadow=False,
    ),
    "coverage": Column(
        "Coverage",
        "The share of prompts on which the model has enough decisive votes; point at it for how complete a contender's "
        "pairs with its neighbours are.",
        lambda line: line.row.prompt_coverage,
        cell=_coverage,
        in_shadow=False,
    ),
    "consistency": Column(
        "Consistency",
        "How even the model is across prompts, adjusted for its opponents: 0 to 100.",
        lambda line: line.row.consistency,
        cell=lambda line: Cell(points(line.row.consistency)),
    ),
    "spread": Column(
        "Spread",
        "The standard deviation of its mean scores by prompt.",
        lambda line: line.row.spread,
        "asc",
        lambda line: Cell(points(line.row.spread, 2)),
    ),
    "average": Column(
        "Avg score",
        "The mean over prompts of its mean score: a win is 1, a tie ½.",
        lambda line: line.row.average_score,
        cell=lambda line: Cell(points(line.row.average_score, 2)),
    ),
    "record": Column(
        "Record",
        "Won–lost–tied; sorted by the share of decisive votes won.",
        lambda line: line.row.wins / (line.row.wins + line.row.losses) if line.row.wins + line.row.losses else None,
        cell=lambda line: Cell("–".join(map(count, (line.row.wins, line.row.losses, line.row.ties)))),
    ),
    "votes": Column(
        "Votes",
        "All counted votes, and how many of them found both answers bad.",
        lambda line: line.votes,
        cell=lambda line: Cell(count(line.votes or 0), f"{count(line.row.both_bad)} both bad" if line.whole else ""),
    ),
    "interval": Column(
        "95 % interval",
        "The ends of the bar in numbers, of the raw rating where the printed one is conservative; sorted by width.",
        lambda line: line.width,
        "asc",
        _interval,
        default=False,
        in_shadow=False,
    ),
    "moved": Column(
        "24 hours",
        "Places gained or lost in a day, and how far the raw rating moved.",
        lambda line: line.moved.places if line.moved else None,
        cell=lambda line: (
            Cell(signed(line.moved.places), f"{signed(line.moved.rating_change)} points") if line.moved else Cell("–")
        ),
        default=False,
        in_shadow=False,
    ),
    "licence": Column(
        "Licence",
        "As stated.",
        lambda line: line.facts.licence.casefold() or None,
        "asc",
        lambda line: Cell(line.facts.licence or "–"),
        default=False,
        stated=True,
    ),
    "price": Column(
        "Price",
        "US dollars for a million tokens of output, as stated.",
        lambda line: line.facts.price,
        "asc",
        lambda line: Cell("–" if line.facts.price is None else f"${line.facts.price:g}"),
        default=False,
        stated=True,
    ),
    "speed": Column(
        "Speed",
        "Tokens of output per second, as stated.",
        lambda line: line.facts.speed,
        cell=lambda line: Cell("–" if line.facts.speed is None else f"{line.facts.speed:g}"),
        default=False,
        stated=True,
    ),
}
FIXED = tuple(name for name, column in COLUMNS.items() if column.cell is None)
"""Columns that every board has."""

CATEGORY_COLUMNS = (*FIXED, "votes")
"""What the board of a part of the votes can be sorted by."""

CHOSEN_BY_DEFAULT = tuple(name for name, column in COLUMNS.items() if column.default and name not in FIXED)
"""The policy's columns (section 9)."""

PART_COLUMNS: Mapping[str, Column] = {
    "interval": COLUMNS["interval"],
    "votes": COLUMNS["votes"],
    "now": Column(
        "Rank now", "Its official place today.", lambda line: line.row.rank, cell=lambda line: Cell(f"{line.row.rank}")
    ),
}
"""The other columns of a part's board, whatever is chosen for the whole one."""


def chosen_columns(asked: str, phase: int) -> dict[str, Column]:
    """The columns beside those that every board has, as far as a phase shows them; empty: the policy's."""
    names = asked.split(",") if asked else CHOSEN_BY_DEFAULT
    return {
        name: column
        for name, column in COLUMNS.items()
        if name in names and name not in FIXED and (column.in_shadow or phase > SHADOW_PHASE)
    }
