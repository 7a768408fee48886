"""Cleaning answers that are files: bytes in, bytes out, without anything that tells who or what made them.

A file that cannot be cleaned is refused. What is left is what a voter sees, hears or runs; `words` are what the screen
for answers that name their author reads.
"""

from typing import TYPE_CHECKING

from tiltyard.faces import names_on_demand

if TYPE_CHECKING:
    from tiltyard.arena.intake.media.cleaning import Cleaned, clean, format_of

__getattr__ = names_on_demand(__name__)
