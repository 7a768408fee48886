"""JSON Schemas (draft 2020-12) of the files that others read and write, shipped with the package.

They are made from the structs by `tools/schemas.py`; a test fails when one is not up to date.
"""

from __future__ import annotations

from importlib.resources import files

from tiltyard.errors import OptionError

SCHEMAS = {
    "battle": "a line of battles.jsonl",
    "prompt": "a line of a prompt bank",
    "response": "a line of responses_<entrant>.jsonl",
    "tournament": "a tournament file (YAML)",
    "ratings": "a ratings file: `tiltyard rate --format json`, ratings/<dimension>.json, elo_ratings.json",
    "run-manifest": "manifest.json of `tiltyard run`",
    "placement-manifest": "manifest.json of `tiltyard place`",
}
"""Every schema by name, and what it describes."""


def schema_file(name: str) -> str:
    """The name of a schema's file."""
    return f"{name}.schema.json"


def schema_text(name: str) -> str:
    """A schema as JSON text.

    Parameters:
        name: One of `SCHEMAS`.
    """
    if name not in SCHEMAS:
        raise OptionError(f"there is no schema {name!r}. There are {', '.join(SCHEMAS)}.")
    return (files("tiltyard.data.schemas") / schema_file(name)).read_text(encoding="utf-8")
