"""The sections of a report, one file each: a page and a part of the run in, markup out."""
