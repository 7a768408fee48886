"""HTML of all pages: one Jinja environment that escapes everything, and self-contained files made with it."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tiltyard.render import figures, svg
from tiltyard.render.escaping import Html, plain, shortened, visible

if TYPE_CHECKING:
    from jinja2 import BaseLoader, Environment  # a small command does not pay for templates

PACKAGE = Path(__file__).parent.parent
FOLDERS = {"render": "render", "reports": "reports", "publish": "reports/publish"}
"""Packages whose templates share an environment, by how it calls them: a template is named `reports/run.html`."""


@cache
def environment() -> Environment:
    """The environment of reports and published pages."""
    from jinja2 import FileSystemLoader, PrefixLoader

    return make_environment(
        PrefixLoader({name: FileSystemLoader(PACKAGE / at / "templates") for name, at in FOLDERS.items()})
    )


def make_environment(loader: BaseLoader) -> Environment:
    """An environment in which everything is escaped, control characters are visible, a missing name is an error."""
    from jinja2 import Environment, StrictUndefined

    made = Environment(
        loader=loader,
        autoescape=True,
        finalize=visible,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,  # looking at the files again for each page takes as long as filling a row of the board
    )
    made.globals.update(svg=svg)
    made.filters.update(
        count=figures.count,
        points=figures.points,
        percent=figures.percent,
        day=figures.day,
        long_date=figures.long_date,
        signed=figures.signed,
        signed_percent=figures.signed_percent,
        plural=figures.plural,
        plain=plain,
        repr=repr,
        shortened=shortened,
    )
    return made


def render(template: str, **values: Any) -> Html:
    """A template filled in."""
    return Html(environment().get_template(template).render(values))


def page(template: str, *, title: str, style: str, script: str = "", allow: str = "", **values: Any) -> str:
    """The text of a file that loads nothing, sends nothing, and runs only its own script.

    Parameters:
        template: A template that extends `render/document.html`.
        title: The title of the page.
        style: Its style sheet.
        script: Its script.
        allow: Further directives of its content security policy, which allows exactly this style and this script.
        values: What the template shows.
    """
    for name, content in (("style", style), ("script", script)):
        if f"</{name}" in content.lower():
            raise ValueError(f"the text of a {name} element would end it")
    scripts = f" script-src '{_digest(script)}';" if script else ""
    more = f" {allow};" if allow else ""
    policy = f"default-src 'none'; style-src '{_digest(style)}';{scripts}{more} base-uri 'none'; form-action 'none'"
    values |= {"title": title, "policy": policy, "style": Html(style), "script": Html(script)}
    return environment().get_template(template).render(values)


def _digest(content: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()


@cache
def package_text(package: str, name: str) -> str:
    """The text of a file that a package ships: a style sheet, a script."""
    return files(package).joinpath(name).read_text(encoding="utf-8")
