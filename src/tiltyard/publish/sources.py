"""What can be published: a file of battles, a run's or a placement's folder, an arena. `publish` does it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tiltyard.battles.inputs import find_parts
from tiltyard.battles.reading import OnBad, read_battles
from tiltyard.errors import OptionError, TiltyardError
from tiltyard.publish.publication import BoardRules, StaticSite, make_boards, publishable
from tiltyard.publish.site import write_publication

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tiltyard.battles.table import BattleTable


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishOptions:
    """How something is published.

    Parameters:
        title: What the site is called; None: the name of the source.
        url: Where the folder will be served, for pictures to share and the feed; empty: not known.
        texts: Whether texts of prompts are published, where the source allows it.
        rules: How the battles are rated; None: the default, or what the source says.
        format: The format of a battle file; `auto` recognises it by the header.
        where: A DuckDB expression over the file's own columns; only rows that satisfy it are published.
        default_source: Who decided where a row does not say: `human` or `llm-judge`.
        on_bad: `error` stops at the first bad row, `skip` leaves bad rows out and counts them.
        map: Columns under other names, ours first.
    """

    title: str | None = None
    url: str = ""
    texts: bool = False
    rules: BoardRules = field(default_factory=BoardRules)
    format: str = "auto"
    where: str | None = None
    default_source: str | None = None
    on_bad: OnBad = "error"
    map: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class PublishedFolder:
    """What `publish` wrote.

    Parameters:
        publication: What is in it.
        folder: Where it is.
        files: How many files it has.
        fingerprint: The SHA-256 of its manifest: whoever keeps it notices any change.
    """

    publication: StaticSite
    folder: Path
    files: int
    fingerprint: str


def publish(source: str | Path, out: str | Path, options: PublishOptions | None = None) -> PublishedFolder:
    """Write a static folder of a board, its models, comparisons and battles.

    Parameters:
        source: A file, folder or glob of battles, the folder of a run or placement, or an arena's database.
        out: The folder to write; one that `publish` wrote before is replaced, any other that holds files is refused.
        options: How it is published.
    """
    options = options or PublishOptions()
    if options.url and not options.url.startswith(("http://", "https://")):
        raise OptionError(f"the address is {options.url!r}: it has to begin with https:// or http://.")
    publication = open_publication(str(source), options)
    files, fingerprint = write_publication(publication, Path(out))
    return PublishedFolder(publication, Path(out), files, fingerprint)


def open_publication(source: str, options: PublishOptions) -> StaticSite:
    """What a source publishes.

    Parameters:
        source: Where it is.
        options: How it is published.
    """
    return _from_battles(source, options)


def _from_battles(source: str, options: PublishOptions) -> StaticSite:
    before = _stamps(source)
    table = read_battles(
        source,
        format=options.format,
        where=options.where,
        default_source=options.default_source,
        on_bad=options.on_bad,
        map=options.map,
    )
    if _stamps(source) != before:
        raise TiltyardError(f"{source} changed while it was read. Publish again when nothing writes to it.")
    title = options.title or Path(source).name.split(".")[0] or "Battles"
    return publication_of(table, "battles", title, options, {}, [])


def _stamps(source: str) -> list[tuple[str, int, int]]:
    """Size and time of every file behind a source."""
    if source == "-":
        return []
    return [(str(part.path), part.path.stat().st_size, part.path.stat().st_mtime_ns) for part in find_parts([source])]


def publication_of(
    table: BattleTable,
    kind: str,
    title: str,
    options: PublishOptions,
    texts: Mapping[str, str],
    notes: list[str],
    **more: Any,
) -> StaticSite:
    """The publication of battles: what may be public of them, rated.

    Parameters:
        table: The battles.
        kind: What they come from.
        title: What the site is called.
        options: How they are published.
        texts: Texts of prompts that may be public.
        notes: What a reader should know.
        more: Further fields of the publication.
    """
    public, changed = publishable(table, texts=options.texts, voters_are_keys=kind == "arena")
    public = replace(public, skipped={})
    skipped = [f"{count:,} rows were left out: {reason}." for reason, count in table.skipped.items()]
    return StaticSite(
        kind=kind,
        title=title,
        table=public,
        rules=options.rules,
        boards=make_boards(public, options.rules),
        texts=texts,
        updated=_newest(public),
        notes=(*notes, *changed, *skipped),
        url=options.url if not options.url or options.url.endswith("/") else f"{options.url}/",
        **more,
    )


def _newest(table: BattleTable) -> int | None:
    """When the newest battle was, in seconds since 1970."""
    if "timestamp" not in table.columns:
        return None
    times = table.number_column("timestamp")
    known = times[np.isfinite(times) & (times > 0) & (times < 2**37)]
    return int(known.max()) if len(known) else None
