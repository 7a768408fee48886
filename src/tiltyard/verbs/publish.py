"""`publish`: a static folder of a board, its models, comparisons and battles, that anybody can check."""

from __future__ import annotations

from pathlib import Path

import msgspec

from tiltyard.options import PublishOptions, takes
from tiltyard.publishing.publication import StaticSite
from tiltyard.publishing.site import write_publication
from tiltyard.publishing.sources import open_publication


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


@takes(PublishOptions)
def publish(source: str | Path, out: str | Path, options: PublishOptions) -> PublishedFolder:
    """Write a static site of a board: its models, comparisons, battles and methods, to be served anywhere.

    Parameters:
        source: A file, folder or glob of battles, the folder of a run or placement, or an arena's database.
        out: The folder to write; one that `publish` wrote before is replaced, any other that holds files is refused.
    """
    publication = open_publication(str(source), options)
    files, fingerprint = write_publication(publication, Path(out))
    for line in publication.notes:
        options.note(line)
    return PublishedFolder(publication, Path(out), files, fingerprint)
