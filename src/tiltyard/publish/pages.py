"""The frame of every published page, and the small pages: methods, data."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tiltyard.boards.text import footnotes, headline
from tiltyard.pages.document import document, package_text
from tiltyard.pages.figures import count
from tiltyard.pages.markup import Html, el, link, pairs, table
from tiltyard.publish.columns import NAME as COLUMNS
from tiltyard.publish.folder import MANIFEST
from tiltyard.publish.publication import StaticSite
from tiltyard.report.page import own_file
from tiltyard.validity.misfit import fit_sentences, fit_verdict

FEED = "feed.atom"
PARTS_PAGE = "parts.html"
SCHEMA = "battles.schema.json"
BOARD_CARD = "share/board.png"
TOLERANCE = 0.001
"""Points by which a rating counted again in a browser may differ from the published one."""

ALLOWED = "img-src data:"
"""What every page may load besides its own style: the empty picture of its tab."""


@dataclass(frozen=True, slots=True)
class Spot:
    """One page of a published folder while it is written: makes links from there to the others.

    Parameters:
        publication: What is published.
        file: The page's path.
        cards: The pictures to share that there are.
    """

    publication: StaticSite
    file: str
    cards: frozenset[str] = frozenset()

    def to(self, file: str, anchor: str = "") -> str:
        """The address of a file of the folder."""
        path = posixpath.relpath(file, posixpath.dirname(self.file) or ".")
        return f"{path}#{anchor}" if anchor else path

    def head(self, description: str, card: str = BOARD_CARD) -> list[Html]:
        """What programs read of a page: a description, the feed, and a picture where the address is known."""
        parts = [
            el("link", rel="icon", href="data:,"),
            el("meta", name="description", content=description),
            el("meta", property="og:title", content=self.publication.title),
            el("meta", property="og:description", content=description),
        ]
        if self.publication.updated is not None:
            parts.append(el("link", rel="alternate", type="application/atom+xml", href=self.to(FEED)))
        url = self.publication.url
        if url:
            parts.append(el("link", rel="canonical", href=f"{url}{self.file}"))
            if card in self.cards:
                parts.append(el("meta", property="og:image", content=f"{url}{card}"))
                parts.append(el("meta", name="twitter:card", content="summary_large_image"))
        return parts

    def masthead(self) -> Html:
        """The name of the site, and the way to its pages."""
        places = [("index.html", "Board"), ("methods.html", "Methods"), ("data.html", "Data and verification")]
        if self.publication.parts:
            places.insert(1, (PARTS_PAGE, parts_title(self.publication)))
        links = [link(self.to(file), name, aria_current="page" if file == self.file else None) for file, name in places]
        home = link(self.to("index.html"), self.publication.title, class_="home")
        return el("nav", home, *links, aria_label="Site", class_="masthead")

    def foot(self) -> Html:
        """What the page is and how to check it."""
        from tiltyard import __version__

        check = self.publication.url or "FOLDER"
        return el(
            "footer",
            el(
                "p",
                f"Written by Tiltyard {__version__} from the battles in this folder. Check it: ",
                el("code", f"tiltyard verify {check}"),
                class_="foot",
            ),
        )

    def page(
        self, title: str, body: Sequence[Html], description: str, *, script: str = "", allow: str = "", card: str = ""
    ) -> bytes:
        """A whole page."""
        skip = link("#main", "Skip to the content", class_="skip")
        policy = f"{ALLOWED}; {allow}" if allow else ALLOWED
        head = self.head(description, card or BOARD_CARD)
        parts = [skip, self.masthead(), *body, self.foot()]
        return document(title, parts, style=style(), script=script, head=head, allow=policy).encode()


def parts_title(publication: StaticSite) -> str:
    """What the boards of parts are called: by category, by language, or both."""
    return "By " + " and ".join(dict.fromkeys(part.column for part in publication.parts))


def style() -> str:
    """The style of every page: that of reports, and what only these pages have."""
    return own_file("style.css") + package_text("tiltyard.publish", "publish.css")


def methods_page(spot: Spot) -> bytes:
    """How the ratings were made.

    Parameters:
        spot: The page.
    """
    publication = spot.publication
    sections = []
    for one in publication.boards:
        notes = [el("li", note) for note in footnotes(one.board)]
        record = one.board.details.get("misfit")
        fit = [] if record is None else [el("h3", "Model fit"), el("p", fit_verdict(record))]
        fit += [] if record is None else [el("ul", *[el("li", line) for line in fit_sentences(record)], class_="note")]
        sections.append(
            el(
                "section",
                el("h2", one.dimension or "How the board is made"),
                el("p", headline(one.board)),
                el("ul", *notes, class_="note") if notes else Html(""),
                *fit,
                link(spot.to(one.file), "The ratings as JSON"),
            )
        )
    body = [
        el("header", el("h1", "Methods")),
        el("main", *sections, _rules_section(spot), _notes_section(publication), id="main", tabindex="-1"),
    ]
    return spot.page(f"Methods · {publication.title}", body, "How the ratings of this board are made.")


METHOD = (
    "Ratings are Bradley–Terry: the chance that one model beats another depends on the difference of their ratings, "
    "400 points being odds of ten to one. The estimate is the one under which these battles are most likely.",
    "Intervals allow for battles that depend on each other, because they share a prompt or a voter. They hold if "
    "results did not decide who met whom; under Tiltyard's own matchmaking they hold too, where losers hardly play "
    "they do not. A range of ranks holds for all models at once: two models whose ranges overlap cannot be told apart "
    "by these battles.",
    "A model that never lost, or never won, has no finite rating. It is given half a win and half a loss, and marked.",
)


def _rules_section(spot: Spot) -> Html:
    rules = spot.publication.rules
    anchor = "none: the mean is " + f"{rules.centre:g}" if rules.anchor is None else "{} at {:g}".format(*rules.anchor)
    facts = [
        ("ties", rules.ties),
        ("both answers bad", rules.both_bad),
        ("judgments that changed with the order", rules.inconsistent),
        ("fewest battles of a model", f"{rules.min_battles:g}"),
        (
            "battles depend on each other by",
            "prompt and voter, where known" if rules.cluster == "auto" else rules.cluster,
        ),
        ("level of intervals", f"{100 * rules.level:g} %"),
        ("anchor", anchor),
    ]
    return el("section", el("h2", "Rules"), *[el("p", line) for line in METHOD], pairs(facts))


def _notes_section(publication: StaticSite) -> Html:
    if not publication.notes:
        return Html("")
    notes = el("ul", *[el("li", note) for note in publication.notes])
    return el("section", el("h2", "About these battles"), notes)


FILES = {
    "battles.parquet": "every battle, as columns",
    "battles.jsonl": "every battle, one JSON object a line",
    SCHEMA: "what a battle row holds, as JSON Schema",
    COLUMNS: "what the board page reads to count the board again",
    MANIFEST: "how the board is rated, and the SHA-256 of every file here",
    FEED: "a feed that has a new entry whenever the battles change",
}


def data_page(spot: Spot, sizes: dict[str, tuple[int, str]], more: dict[str, str]) -> bytes:
    """What can be downloaded, and how to check it.

    Parameters:
        spot: The page.
        sizes: Bytes and SHA-256 of files that are known already.
        more: Further files, and what they are.
    """
    publication = spot.publication
    named = {**FILES, **{one.file: f"the ratings{_of(one.dimension)}" for one in publication.boards}, **more}
    if publication.updated is None:
        named.pop(FEED)
    rows = []
    for name, what in named.items():
        size, digest = sizes.get(name, (None, ""))
        shown = "–" if size is None else f"{count(size / 1000, 1)} kB"
        rows.append([link(spot.to(name), name), what, shown, el("code", digest[:16] + "…" if digest else "–")])
    head: list[str | tuple[str, str]] = ["file", "what it is", ("size", "num"), "SHA-256"]
    where = publication.url or "."
    body = [
        el("header", el("h1", "Data and verification")),
        el(
            "main",
            el("section", el("h2", "Download"), table(head, rows, class_="files")),
            el(
                "section",
                el("h2", "Check it yourself"),
                el("p", "Compare every file with its hash, rate the battles again, and write every page again:"),
                el("pre", f"tiltyard verify {where}"),
                el("p", "Or rate the battles in your own way:"),
                el("pre", f"tiltyard rate battles.parquet{rate_options(publication)}"),
                el(
                    "p",
                    "Or press “Verify this board” on the ",
                    link(spot.to("index.html"), "board"),
                    ": your browser then reads the battles and fits the ratings itself.",
                ),
                el("p", _limits(publication)),
            ),
            id="main",
            tabindex="-1",
        ),
    ]
    return spot.page(f"Data · {publication.title}", body, "The battles behind this board, and how to check it.")


def _of(dimension: str | None) -> str:
    return "" if dimension is None else f" of {dimension}"


def _limits(publication: StaticSite) -> str:
    said = (
        "This shows that the board follows from the battles here. Whoever changes a battle and publishes everything "
        "again gets a folder that agrees with itself. To notice that, keep the SHA-256 of published.json, and give it "
        "to verify as the fingerprint."
    )
    if publication.statement is not None:
        said += " The arena’s head and its witness are here too: they show that no vote was changed or left out."
    return said


def rate_options(publication: StaticSite) -> str:
    """The options with which `tiltyard rate` gives the board of these battles."""
    rules: Any = publication.rules
    said = [
        f"--ties {rules.ties}" if rules.ties != "davidson" else "",
        f"--both-bad {rules.both_bad}" if rules.both_bad != "separate" else "",
        f"--inconsistent {rules.inconsistent}" if rules.inconsistent != "tie" else "",
        f"--min-battles {rules.min_battles:g}" if rules.min_battles else "",
        f"--cluster {rules.cluster}" if rules.cluster != "auto" else "",
        "--anytime" if rules.anytime else "",
        "--only-connected" if rules.only_connected else "",
        ""
        if rules.anchor is None
        else "--anchor '{}={:g}'".format(rules.anchor[0].replace("'", "'\\''"), rules.anchor[1]),
    ]
    return "".join(f" {option}" for option in said if option)
