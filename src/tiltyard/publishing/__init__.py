"""Publishing: battles in, a static folder out that any web server shows and anybody can check.

`publication` says what may be public and rates it, `site` makes the files, `folder` writes them, `fetching` gets a
folder from an address, and `checking` makes a folder again, also that of a run or placement, and compares it.
"""

from tiltyard.arena.witness import Finding, KeptProof
from tiltyard.publishing.checking import check_folder, check_run

__all__ = ["Finding", "KeptProof", "check_folder", "check_run"]
