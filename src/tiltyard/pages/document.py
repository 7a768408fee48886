"""A self-contained HTML file: it loads nothing, sends nothing, and runs only its own script."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from functools import cache
from importlib.resources import files

from tiltyard.pages.markup import Html, el, join, raw


def document(
    title: str, body: Sequence[Html], *, style: str, script: str = "", head: Sequence[Html] = (), allow: str = ""
) -> str:
    """The text of the file. Its content security policy allows exactly this style and this script.

    `head` is further markup for the head of the page, `allow` further directives of the policy.
    """
    scripts = f" script-src '{_digest(script)}';" if script else ""
    more = f" {allow};" if allow else ""
    policy = f"default-src 'none'; style-src '{_digest(style)}';{scripts}{more} base-uri 'none'; form-action 'none'"
    top = [
        el("meta", charset="utf-8"),
        el("meta", http_equiv="Content-Security-Policy", content=policy),
        el("meta", name="viewport", content="width=device-width, initial-scale=1"),
        el("meta", name="color-scheme", content="light dark"),
        el("meta", name="referrer", content="no-referrer"),
        el("title", title),
        *head,
        raw("style", style),
    ]
    content = [*body, raw("script", script)] if script else body
    page = el("html", el("head", join(top, "\n")), el("body", join(content, "\n")), lang="en")
    return f"<!doctype html>\n{page}\n"


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


@cache
def package_text(package: str, name: str) -> str:
    """The text of a file that a package ships: a style sheet, a script."""
    return files(package).joinpath(name).read_text(encoding="utf-8")
