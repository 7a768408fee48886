"""Rendering templates: one environment, and static files with their fingerprints."""

from __future__ import annotations

import hashlib
import mimetypes
import re
import zlib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
from jinja2 import ChoiceLoader, Environment, FileSystemLoader, PrefixLoader

from tiltyard import __version__
from tiltyard.render import Html, make_environment
from tiltyard.site.addresses import compare_address, model_address, share_address
from tiltyard.site.charts import interval_bar

HERE = Path(__file__).parent
REPORT = HERE.parent / "reports"
SHARED = {name: HERE.parent / name / "templates" for name in ("render", "reports")}
"""Templates of other packages, which the site uses too."""

STATIC_AT = "/static/"


class StaticFile(msgspec.Struct, frozen=True):
    """One static file: its bytes, media type, and an address that changes with its contents."""

    name: str
    content: bytes
    media_type: str
    digest: str

    @property
    def url(self) -> str:
        """Where it is served; a response from this address may be cached forever."""
        return f"{STATIC_AT}{self.name}?v={self.digest}"


@cache
def static_files() -> Mapping[str, StaticFile]:
    """Every static file by name, read once; the grid of prompts has the files that reports contain."""
    ours = [path for path in sorted((HERE / "static").iterdir()) if path.is_file()]
    return {path.name: _static_file(path) for path in (*ours, REPORT / "grid.css", REPORT / "grid.js")}


def _static_file(path: Path) -> StaticFile:
    content = path.read_bytes()
    kind = {".js": "text/javascript", ".css": "text/css"}.get(path.suffix) or mimetypes.guess_type(path.name)[0]
    return StaticFile(path.name, content, kind or "application/octet-stream", hashlib.sha256(content).hexdigest()[:16])


@cache
def fingerprint() -> str:
    """Changes whenever a template, a static file or the version does, which invalidates pages cached by browsers."""
    digest = hashlib.sha256(__version__.encode())
    for path in sorted(
        [*(HERE / "templates").glob("*.html"), *(path for folder in SHARED.values() for path in folder.glob("*.html"))]
    ):
        digest.update(path.read_bytes())
    for file in static_files().values():
        digest.update(file.digest.encode())
    return digest.hexdigest()[:16]


def asset(name: str) -> str:
    """The address of a static file, with its fingerprint."""
    return static_files()[name].url


class SiteFacts(msgspec.Struct, frozen=True):
    """The shared frame of every page: the site's title, and the latest head of its log."""

    title: str
    head: str = ""
    """The latest head that was published."""
    notice: str = ""
    blind: bool = True
    """Whether answers that are being voted on are hidden; otherwise every page says so."""
    public_url: str = ""
    """Where the site is, if it was told: addresses outside its pages, such as pictures to share, start with it."""
    version: str = __version__
    review: bool = False
    """Whether it is the site of a team's review, which has no board."""


def render(template: str, site: SiteFacts, context: Mapping[str, Any], *, here: str = "") -> str:
    """A page as HTML; `here` is the key of its entry in the navigation. A name the context lacks is an error."""
    return environment().get_template(template).render({**context, "site": site, "here": here})


@cache
def environment() -> Environment:
    """The site's environment: its own templates, and the macros of all pages."""
    made = make_environment(
        ChoiceLoader(
            [
                FileSystemLoader(HERE / "templates"),
                PrefixLoader({name: FileSystemLoader(folder) for name, folder in SHARED.items()}),
            ]
        )
    )
    made.globals.update(
        asset=asset, model_address=model_address, compare_address=compare_address, share_address=share_address
    )
    made.globals.update(interval_bar=interval_bar)
    made.filters.update(html=markup, initials=initials, tint=tint)
    return made


def initials(name: str) -> str:
    """Two or three letters that stand for a model: of its first two words, or of its only one; `Model 26` is `M26`."""
    first, second = (*re.findall(r"[^\W_]+", name), "", "")[:2]
    return (first[:1] + second[: 2 if second.isdigit() else 1] if second else first[:2]).upper() or "?"


def tint(model: str) -> int:
    """Which of ten colours a model has, everywhere and always."""
    return zlib.crc32(model.encode("utf-8", "surrogatepass")) % 10


def markup(made: Html | None) -> Html:
    """Markup made by our own functions, which escape their input; anything else is refused."""
    if made is None:
        return Html("")
    if not isinstance(made, Html):
        raise TypeError("only markup made by `tiltyard.render` may be placed unescaped")
    return made
