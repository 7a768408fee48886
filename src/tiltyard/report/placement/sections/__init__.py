"""The sections of a placement's report: a page and the placement in, markup out."""
