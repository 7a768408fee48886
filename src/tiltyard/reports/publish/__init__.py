"""Publishing: battles in, a static folder out that any web server shows and anybody can check.

`publication` says what may be public and rates it, `site` makes the files, `folder` writes them, `fetching` gets a
folder from an address, and `checking` makes a folder again, also that of a run or placement, and compares it.
"""

from typing import TYPE_CHECKING

from tiltyard.faces import names_on_demand

if TYPE_CHECKING:
    from tiltyard.arena.audit.witness import Finding, KeptProof
    from tiltyard.reports.publish.arenas import arena_site
    from tiltyard.reports.publish.checking import check_folder, check_run
    from tiltyard.reports.publish.fetching import MOST_MANIFEST, RemoteHost, bounded_lines, fetch_folder
    from tiltyard.reports.publish.folder import MANIFEST
    from tiltyard.reports.publish.publication import BoardRules, StaticSite, notes_on, static_site
    from tiltyard.reports.publish.site import write_publication

__all__ = [
    "Finding", "KeptProof", "check_folder", "check_run",
]

__getattr__ = names_on_demand(__name__)
