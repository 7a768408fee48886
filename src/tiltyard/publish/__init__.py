"""Publishing: battles in, a static folder out that any web server shows and anybody can check.

`sources` opens what is published, `publication` says what may be public and rates it, `site` makes the files,
`folder` writes them, `checking` publishes a folder again and compares
it, `fetching` gets one from an address, and `runs` makes the folder of a run or placement again and compares that.
"""

from tiltyard.publish.checking import FolderCheck, check_folder
from tiltyard.publish.publication import PublishOptions
from tiltyard.publish.runs import RunCheck, check_run
from tiltyard.publish.sources import PublishedFolder, publish

__all__ = ["FolderCheck", "PublishOptions", "PublishedFolder", "RunCheck", "check_folder", "check_run", "publish"]
