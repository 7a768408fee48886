"""`publish`: a static folder of a board, its models, comparisons and battles, that anybody can check."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from tiltyard.analysis.boards import RatingsFile
from tiltyard.analysis.decisions import battle_source, is_run_folder
from tiltyard.data.battles import BattleTable, find_parts, read_battles
from tiltyard.data.battles.missing_verdicts import missing_verdicts
from tiltyard.errors import RunFolderError, TiltyardError
from tiltyard.judge.verdicts import read_object
from tiltyard.options import PublishOptions, ReadingOptions, accepts_options
from tiltyard.reports.publish import BoardRules, StaticSite, notes_on, static_site, write_publication


class PublishedFolder(msgspec.Struct, frozen=True, eq=False):
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

    def __str__(self) -> str:
        table = self.publication.table
        return (
            f"published {table.n_battles:,.0f} battles of {len(table.models):,} models in {self.files:,} files: "
            f"{self.folder}\nfingerprint: {self.fingerprint}"
        )


@accepts_options(PublishOptions)
def publish(source: str | Path, out: str | Path, options: PublishOptions) -> PublishedFolder:
    """Write a static site of a board: its models, comparisons, battles and methods, to be served anywhere.

    Parameters:
        source: A file, folder or glob of battles, the folder of a run or placement, or an arena's database.
        out: The folder to write; one that `publish` wrote before is replaced, any other that holds files is refused.
    """
    publication = _open(str(source), options)
    files, fingerprint = write_publication(publication, Path(out))
    for line in publication.notes:
        options.note(line)
    return PublishedFolder(publication, Path(out), files, fingerprint)


SQLITE = b"SQLite format 3\0"
SAME_RATING = 0.05
"""Points by which a rating differs if a reader of one decimal can see it."""


def _open(source: str, options: PublishOptions) -> StaticSite:
    """What a source publishes."""
    if _is_database(source):
        from tiltyard.reports.publish import arena_site

        return arena_site(source if "://" in source else f"sqlite:///{source}", options)
    folder = Path(source)
    if is_run_folder(folder):
        return _from_folder(folder, options)
    return _from_battles(source, options)


def _is_database(source: str) -> bool:
    """Whether a source is an arena's database: an address of one, or a file that begins like one."""
    if source.startswith(("sqlite:", "postgresql:", "postgres:", "postgresql+")):
        return True
    path = Path(source)
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(len(SQLITE)) == SQLITE


def _from_folder(folder: Path, options: PublishOptions) -> StaticSite:
    """The battles of a run or a placement, rated as it rates them."""
    manifest = read_object(folder / "manifest.json")
    if manifest.get("finished_at") is None:
        raise RunFolderError(f"{folder} has not finished. Finish it (`tiltyard run` or `place` again), then publish.")
    kind = "placement" if manifest.get("kind") == "placement" else "run"
    stated: dict[str | None, RatingsFile] = {}
    for path in [folder / "elo_ratings.json"] if kind == "placement" else sorted((folder / "ratings").glob("*.json")):
        stated[None if kind == "placement" else path.stem] = RatingsFile.read(path)
    rules = BoardRules(
        ties=options.ties,
        min_battles=options.min_battles,
        only_connected=True,
        anchor=options.anchor or next((_anchor(one) for one in stated.values() if _anchor(one)), None),
        evaluated=next((one.model for one in stated.values() if one.model), None) if kind == "placement" else None,
    )
    texts = battle_source(folder).prompt_texts() if options.texts else {}
    table = _read(str(folder))
    title = options.title or folder.resolve().name
    notes = notes_on(table)
    made = static_site(table, kind, title, options, rules, texts, notes=notes, missing=_missing(folder))
    return replace(made, notes=(*_differences(made, stated), *notes))


def _missing(source: str | Path) -> str:
    """How many matchups of a run have no verdict; empty where all have one."""
    missing = missing_verdicts(source)
    return f"{missing.sentence}: they are in no rating." if missing else ""


def _anchor(stated: RatingsFile) -> tuple[str, float] | None:
    anchor = stated.settings.anchor
    return (anchor.model, anchor.rating) if anchor else None


def _differences(made: StaticSite, stated: Mapping[str | None, RatingsFile]) -> list[str]:
    """What the source's own ratings say otherwise, in sentences: corrected by people, calibrated, with other ends."""
    differences = []
    for one in made.boards:
        known = stated.get(one.dimension) or (next(iter(stated.values())) if len(stated) == 1 else None)
        for entry in () if known is None else known.ratings:
            ours = one.board.ratings.get(entry.model)
            if ours is not None and abs(ours - entry.rating) > SAME_RATING:
                where = "" if one.dimension is None else f" ({one.dimension})"
                differences.append(
                    f"The {made.kind}’s own file{where} rates {entry.model} at {entry.rating:.1f}, by its own method; "
                    f"this board is the plain Bradley–Terry fit of its battles, which gives {ours:.1f}."
                )
                break
    return differences


def _from_battles(source: str, options: PublishOptions) -> StaticSite:
    table = _read(source, **vars(options.part(ReadingOptions)))
    names = ("ties", "anchor", "min_battles", "only_connected")
    rules = BoardRules(**{name: getattr(options, name) for name in names})
    title = options.title or Path(source).name.split(".")[0] or "Battles"
    return static_site(table, "battles", title, options, rules, {}, notes=notes_on(table), missing=_missing(source))


def _read(source: str, **more: Any) -> BattleTable:
    """The battles of a source that nobody writes to meanwhile."""
    before = _stamps(source)
    table = read_battles(source, **more)
    if _stamps(source) != before:
        raise TiltyardError(f"{source} changed while it was read. Publish again when nothing writes to it.")
    return table


def _stamps(source: str) -> list[tuple[str, int, int]]:
    """Size and time of every file behind a source."""
    if source == "-":
        return []
    return [(str(part.path), part.path.stat().st_size, part.path.stat().st_mtime_ns) for part in find_parts(source)]
