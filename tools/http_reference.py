"""The manual's page of the HTTP interface: calls and bodies, made from the site's own code when the manual is built.

A line `::: calls` of the page becomes a section for each call, with what its function says, and `::: bodies` a table of
what the calls return.
"""

from __future__ import annotations

import inspect

from schemas import field_meanings
from settings_reference import table

from tiltyard.site.app import CALLS
from tiltyard.site.openapi import Call


def filled(markdown: str) -> str:
    """A page with calls and bodies in place of their lines."""
    if "::: calls\n" not in markdown:
        return markdown
    calls = "\n\n".join(map(_section, CALLS))
    return markdown.replace("::: calls\n", calls + "\n").replace("::: bodies\n", _bodies() + "\n")


def _section(call: Call) -> str:
    statuses = " or ".join(map(str, call.statuses or (200,)))
    bodies = " or ".join(f"[`{_name(kind)}`](#bodies)" for kind in call.returns) or "JSON Lines"
    heading = f"### `{call.method} {call.path.replace(':path}', '}')}`"
    return f"{heading}\n\n{inspect.getdoc(call.answer)}\n\nAnswers {statuses}: {bodies}."


def _bodies() -> str:
    kinds = dict.fromkeys(kind for call in CALLS for kind in call.returns)
    rows = [
        (f"`{_name(kind)}`", f"`{field}`", known[field].replace("](#", "](artifacts.md#"))
        for kind in kinds
        for known in (field_meanings(kind),)
        for field in kind.__struct_fields__
    ]
    return table("body | field | what", rows)


def _name(kind: type) -> str:
    return kind.__name__.removesuffix("Body")
