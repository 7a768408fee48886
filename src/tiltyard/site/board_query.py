"""What a visitor may ask of the board: the query of an address.

Everything is in the address, so any view is a permalink, is remembered without a cookie, and works without a script.
"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlencode

import msgspec
from msgspec.structs import replace

from tiltyard.arena import SHADOW_PHASE, Badge
from tiltyard.arena.study import Snapshot, VotePart, day_end, day_of
from tiltyard.site.board_columns import CATEGORY_COLUMNS, CHOSEN_BY_DEFAULT, COLUMNS, FIXED

MOST_ASKED = 200
"""The most characters of a search that are used."""

NO_COLUMNS = "none"
STYLE_VIEW = "style"
NOT_THERE = "(none)"
"""Stands for a category, language or kind that no vote has: whatever an address says, the page does not repeat it."""


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
        return bool(self.q or self.provider or self.licence or self.stability)

    @property
    def unfiltered(self) -> BoardQuery:
        """The same board with all its models."""
        return replace(self, q="", provider="", licence="", stability="")


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
    public = not query.sort or COLUMNS[query.sort].in_shadow
    sort, direction = (query.sort, query.direction) if public else ("", "")
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
    public, at = snapshot.board.phase > SHADOW_PHASE, snapshot.study.votes.at
    return Choices(
        tuple(sorted({model.provider for model in enabled} - {""}, key=str.casefold)),
        tuple(sorted({model.licence for model in enabled} - {""}, key=str.casefold)),
        tuple(badge.value for badge in Badge) if public else (),
        tuple(snapshot.study.categories.items()) if public else (),
        _several(snapshot.study.languages) if public else (),
        _several(snapshot.study.kinds) if public else (),
        (day_of(int(at.min())), day_of(int(at.max()))) if public and len(at) else None,
    )


def _several(counts: Mapping[str, int]) -> tuple[str, ...]:
    """What can be chosen from; nothing if there is no choice."""
    return tuple(counts) if len(counts) > 1 else ()
