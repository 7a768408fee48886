"""What a visitor may ask of the board: the query of an address, and the columns.

Everything is in the address, so any view is a permalink, is remembered without a cookie, and works without a script.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from urllib.parse import urlencode

import msgspec
from msgspec.structs import replace

from tiltyard.arena.board import SHADOW_PHASE, BoardRow
from tiltyard.arena.following.parts import VotePart, day_end, day_of
from tiltyard.arena.following.snapshots import Snapshot
from tiltyard.validity.publication import Badge
from tiltyard.web.board_line import BoardLine

MOST_ASKED = 200
"""The most characters of a search that are used."""

NO_COLUMNS = "none"
STYLE_VIEW = "style"
NOT_THERE = "(none)"
"""Stands for a category, language or kind that no vote has: whatever an address says, the page does not repeat it."""

Key = float | int | str | None


class Column(msgspec.Struct, frozen=True):
    """A column: what lines are sorted by and in which direction first, its name, and what it means."""

    key: Callable[[BoardLine], Key]
    first: str
    name: str
    meaning: str
    default: bool = True
    """Whether it is shown unless a visitor chooses otherwise."""


def _win_share(row: BoardRow) -> float | None:
    decisive = row.wins + row.losses
    return row.wins / decisive if decisive else None


COLUMNS: Mapping[str, Column] = {
    "rank": Column(
        lambda line: line.row.rank,
        "asc",
        "Rank",
        "The official place, and the 95 % range of ranks: the places that the votes allow.",
    ),
    "model": Column(lambda line: line.row.display_name.casefold(), "asc", "Model", "Its name, badge and maker."),
    "rating": Column(
        lambda line: line.row.rating_shown,
        "desc",
        "Rating",
        "The raw rating, which stands beside it, minus two deviations (RD): luck with few votes does not help.",
    ),
    "confidence": Column(
        lambda line: -line.row.deviation,
        "desc",
        "Confidence",
        "The chance that the rating is within 25 points of the truth, if RD were a standard error; point at it for RD.",
    ),
    "coverage": Column(
        lambda line: line.row.prompt_coverage,
        "desc",
        "Coverage",
        "The share of prompts on which the model has enough decisive votes; point at it for how complete a contender's "
        "pairs with its neighbours are.",
    ),
    "consistency": Column(
        lambda line: line.row.consistency,
        "desc",
        "Consistency",
        "How even the model is across prompts, adjusted for its opponents: 0 to 100.",
    ),
    "spread": Column(
        lambda line: line.row.spread, "asc", "Spread", "The standard deviation of its mean scores by prompt."
    ),
    "average": Column(
        lambda line: line.row.average_score,
        "desc",
        "Avg score",
        "The mean over prompts of its mean score: a win is 1, a tie ½.",
    ),
    "record": Column(
        lambda line: _win_share(line.row), "desc", "Record", "Won–lost–tied; sorted by the share of decisive votes won."
    ),
    "votes": Column(
        lambda line: line.row.votes,
        "desc",
        "Votes",
        "All counted votes, and how many of them found both answers bad.",
    ),
    "interval": Column(
        lambda line: line.width,
        "asc",
        "95 % interval",
        "The ends of the bar in numbers, of the raw rating where the printed one is conservative; sorted by width.",
        default=False,
    ),
    "moved": Column(
        lambda line: None if line.moved is None else line.moved.places,
        "desc",
        "24 hours",
        "Places gained or lost in a day, and how far the raw rating moved.",
        default=False,
    ),
    "licence": Column(
        lambda line: line.facts.licence.casefold() or None, "asc", "Licence", "As stated.", default=False
    ),
    "price": Column(
        lambda line: line.facts.price,
        "asc",
        "Price",
        "US dollars for a million tokens of output, as stated.",
        default=False,
    ),
    "speed": Column(
        lambda line: line.facts.speed, "desc", "Speed", "Tokens of output per second, as stated.", default=False
    ),
}
FIXED = ("rank", "model", "rating")
"""Columns that every board has."""

PART_COLUMNS = ("votes",)
"""The other columns of a part's board, whatever is chosen for the whole one."""

CHOSEN_BY_DEFAULT = tuple(name for name, column in COLUMNS.items() if column.default and name not in FIXED)
"""The policy's columns (section 9)."""

SHADOW_COLUMNS = ("confidence", "coverage", "interval", "moved")
CATEGORY_COLUMNS = ("rank", "model", "rating", "votes")
PART_KEYS: Mapping[str, Callable[[BoardLine], Key]] = {
    "rank": lambda line: line.place,
    "model": COLUMNS["model"].key,
    "rating": lambda line: line.part_rating,
    "votes": lambda line: line.part_votes,
}


class BoardQuery(msgspec.Struct, frozen=True):
    """What a visitor asked for; empty means everything, in the official order."""

    q: str = ""
    provider: str = ""
    licence: str = ""
    stability: str = ""
    category: str = ""
    sort: str = ""
    direction: str = ""
    language: str = ""
    kind: str = ""
    on: str = ""
    """The last day whose votes count, such as `2026-11-01`."""
    view: str = ""
    """`style`: ratings with the style of the answers controlled for."""
    columns: str = ""
    """The columns beside rank, model and rating, with commas between them; empty: the policy's."""

    @classmethod
    def of(cls, asked: Mapping[str, str]) -> BoardQuery:
        """The query of an address; unknown parts are ignored."""
        known = {name: asked[name].strip()[:MOST_ASKED] for name in cls.__struct_fields__ if name in asked}
        several = getattr(asked, "getlist", None)
        if several is not None and "columns" in known:
            known["columns"] = ",".join(several("columns")[: len(COLUMNS) + 1])
        query = cls(**known)
        sort = query.sort if query.sort in COLUMNS else ""
        return replace(
            query,
            sort=sort,
            direction=query.direction if sort and query.direction in ("asc", "desc") else "",
            on=query.on if day_end(query.on) is not None else "",
            view=query.view if query.view == STYLE_VIEW else "",
            columns=_canonical(query.columns),
        )

    @property
    def asked(self) -> dict[str, str]:
        """What is not empty of it."""
        return {name: value for name, value in msgspec.structs.asdict(self).items() if value}

    @property
    def address(self) -> str:
        """The query part of an address, with its question mark; empty for an empty query."""
        return f"?{urlencode(self.asked, safe=',')}" if self.asked else ""

    def sorted_by(self, column: str) -> BoardQuery:
        """The query for a click on a column's head: its natural direction, reversed on the next click."""
        first = COLUMNS[column].first
        now = (self.direction or COLUMNS[self.sort].first) if self.sort else ""
        direction = "" if self.sort != column else {"asc": "desc", "desc": "asc"}[now]
        return replace(self, sort=column, direction="" if direction == first else direction)

    def of_category(self, category: str) -> BoardQuery:
        """The same query on another category's votes; columns that only the whole board has cannot sort it."""
        changed = replace(self, category=category)
        keep = changed.part.is_whole or self.sort in CATEGORY_COLUMNS
        return changed if keep else replace(changed, sort="", direction="")

    @property
    def part(self) -> VotePart:
        """Which votes it asks for."""
        return VotePart(self.category, self.language, self.kind, self.on, self.view == STYLE_VIEW)

    @property
    def whole(self) -> bool:
        """Whether it asks for the board of all votes."""
        return self.part.is_whole

    @property
    def official(self) -> BoardQuery:
        """The same view of the board of all votes."""
        return replace(self, category="", language="", kind="", on="", view="")

    @property
    def filters(self) -> bool:
        """Whether models are left out."""
        return bool(self.q or self.provider or self.licence or self.stability)

    @property
    def unfiltered(self) -> BoardQuery:
        """The same board with all its models."""
        return replace(self, q="", provider="", licence="", stability="")

    def chosen(self, phase: int) -> tuple[str, ...]:
        """The columns beside rank, model and rating, as far as they are public in a phase."""
        asked = self.columns.split(",") if self.columns else CHOSEN_BY_DEFAULT
        hidden = SHADOW_COLUMNS if phase == SHADOW_PHASE else ()
        return tuple(name for name in COLUMNS if name in asked and name not in hidden and name not in FIXED)


def _canonical(asked: str) -> str:
    """Columns in their order, each once; empty for the default ones, `none` for none."""
    if not asked:
        return ""
    words = asked.split(",")
    known = [name for name in COLUMNS if name in words and name not in FIXED]
    if not known:
        return NO_COLUMNS if NO_COLUMNS in words else ""
    return "" if tuple(known) == CHOSEN_BY_DEFAULT else ",".join(known)


def query_of(asked: Mapping[str, str], snapshot: Snapshot) -> BoardQuery:
    """The query of an address; a category, language or kind that does not occur becomes `NOT_THERE`."""
    query, study = BoardQuery.of(asked), snapshot.study
    for name, there in (("category", study.categories), ("language", study.languages), ("kind", study.kinds)):
        if getattr(query, name) and getattr(query, name) not in there:
            query = replace(query, **{name: NOT_THERE})
    return query


def as_public(query: BoardQuery, phase: int) -> BoardQuery:
    """The query without what it must not ask for: in phase 1 an order or a filter by figures that are not public."""
    if phase > SHADOW_PHASE:
        return query
    hidden = query.sort in SHADOW_COLUMNS
    sort, direction = ("", "") if hidden else (query.sort, query.direction)
    return replace(query.official, stability="", sort=sort, direction=direction)


class Choices(msgspec.Struct, frozen=True):
    """What the filters offer."""

    providers: tuple[str, ...]
    licences: tuple[str, ...]
    stabilities: tuple[str, ...]
    categories: tuple[tuple[str, int], ...]
    languages: tuple[str, ...]
    kinds: tuple[str, ...]
    days: tuple[str, str] | None
    """The first and the last day with a vote."""


def choices(snapshot: Snapshot) -> Choices:
    """The filters that are useful for this board."""
    enabled = [model for model in snapshot.models if model.enabled]
    public = snapshot.board.phase > SHADOW_PHASE
    return Choices(
        tuple(sorted({model.provider for model in enabled} - {""}, key=str.casefold)),
        tuple(sorted({model.licence for model in enabled} - {""}, key=str.casefold)),
        tuple(badge.value for badge in Badge) if public else (),
        tuple(snapshot.study.categories.items()) if public else (),
        _several(snapshot.study.languages) if public else (),
        _several(snapshot.study.kinds) if public else (),
        _first_and_last(snapshot) if public else None,
    )


def _several(counts: Mapping[str, int]) -> tuple[str, ...]:
    """What can be chosen from; nothing if there is no choice."""
    return tuple(counts) if len(counts) > 1 else ()


def _first_and_last(snapshot: Snapshot) -> tuple[str, str] | None:
    at = snapshot.study.votes.at
    return (day_of(int(at.min())), day_of(int(at.max()))) if len(at) else None
