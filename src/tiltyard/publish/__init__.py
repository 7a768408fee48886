"""Publishing: battles in, a static folder out that any web server shows and anybody can check.

`sources` opens what is published, `publication` says what may be public and rates it, `site` makes the files,
`folder` writes them, `checking` publishes a folder again and compares it, and `fetching` gets one from an address.
"""

from tiltyard.publish.checking import FolderCheck, check_folder
from tiltyard.publish.publication import PublishOptions
from tiltyard.publish.sources import PublishedFolder, publish

__all__ = ["FolderCheck", "PublishOptions", "PublishedFolder", "check_folder", "publish"]
