"""Pages: the sections of a report in their order, in one self-contained HTML file or in a few."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

from tiltyard.report.checks import disagreements
from tiltyard.report.markup import Html, el, join, link, raw
from tiltyard.report.sections.battles import battles_section, filter_form, pair_view
from tiltyard.report.sections.board import board_section, elo_section
from tiltyard.report.sections.habits import failures_section, habits_section
from tiltyard.report.sections.header import glance, header, warnings
from tiltyard.report.sections.heatmaps import k_section, win_rate_section
from tiltyard.report.sections.prompts import prompt_index, prompt_view
from tiltyard.report.sections.run import canary_section, gate_section, run_section, usage_section
from tiltyard.report.site import MAIN, ONE_PAGE, Here, Site

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tiltyard.report.run import Dimension, Run

SIDE_BY_SIDE = 5
"""Entrants up to which two heatmaps fit beside each other."""


def render_run(run: Run) -> str:
    """The text of `report.html`. For a run of more than `ONE_PAGE` judgments it links to the files of `render_site`."""
    return _main_page(Here(Site(run)))


def render_site(run: Run, one_page: int = ONE_PAGE) -> Iterator[tuple[str, str]]:
    """Every file of a report, by its path in the run folder; `report.html` comes last, so its links are never ahead."""
    site = Site(run, one_page)
    if site.split:
        for key in site.by_pair:
            here = Here(site, site.pair_file(key))
            yield here.file, _sibling(here, filter_form(), pair_view(here, key))
        for file in dict.fromkeys(site.prompt_files.values()):
            here = Here(site, file)
            views = [prompt_view(here, prompt) for prompt, home in site.prompt_files.items() if home == file]
            yield file, _sibling(here, *views)
    yield MAIN, _main_page(Here(site))


def _main_page(here: Here) -> str:
    run = here.run
    found = disagreements(run)
    views: list[Html] = []
    if not here.site.split:
        views = [pair_view(here, key) for key in here.site.by_pair]
        views += [prompt_view(here, prompt) for prompt in run.questions]
    body = [
        header(here),
        warnings(here, found),
        _navigation(here),
        el(
            "main",
            gate_section(here),
            glance(here),
            *[_dimension(here, dimension) for dimension in run.dimensions],
            failures_section(here),
            canary_section(here),
            usage_section(here),
            run_section(here, found),
            prompt_index(here),
            battles_section(here),
            el("div", *views, id="views"),
        ),
    ]
    return document(here, *body)


def _dimension(here: Here, dimension: Dimension) -> Html:
    return el(
        "section",
        el("h2", dimension.name),
        board_section(here, dimension),
        elo_section(here, dimension),
        el("div", win_rate_section(here, dimension), k_section(here, dimension), class_=_beside(here)),
        habits_section(here, dimension),
        id=f"d{here.site.dimensions[dimension.name]}",
        class_="dimension",
    )


def _beside(here: Here) -> str:
    """Two heatmaps stand side by side while they are small."""
    return "beside" if len(here.run.entrants) <= SIDE_BY_SIDE else "stacked"


def _navigation(here: Here) -> Html:
    places = [("glance", "At a glance")] if any(d.board for d in here.run.dimensions) else []
    places += [("gate", "Go or no-go")] if gate_section(here) else []
    places += [(f"d{i}", name) for name, i in here.site.dimensions.items()]
    places += [("failures", "Failures")]
    places += [("canaries", "Canaries")] if canary_section(here) else []
    places += [("usage", "Cost"), ("run", "The run"), ("prompts", "Prompts"), ("battles", "Battles")]
    return el("nav", *[link(here.section(anchor), name) for anchor, name in places], aria_label="Sections")


def _sibling(here: Here, *views: Html) -> str:
    back = el("nav", link(here.section("battles"), "← The whole report"), aria_label="Sections")
    return document(here, back, el("main", *views, class_="sibling"))


def document(here: Here, *body: Html) -> str:
    """A whole HTML file that loads nothing, sends nothing and runs no script but ours."""
    style = _file("style.css") + _entrant_rules(len(here.run.entrants))
    script = _file("script.js")
    policy = (
        f"default-src 'none'; style-src '{_digest(style)}'; script-src '{_digest(script)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    mode = str(here.run.manifest.get("mode") or "tournament")
    head = [
        el("meta", charset="utf-8"),
        el("meta", http_equiv="Content-Security-Policy", content=policy),
        el("meta", name="viewport", content="width=device-width, initial-scale=1"),
        el("meta", name="color-scheme", content="light dark"),
        el("meta", name="referrer", content="no-referrer"),
        el("title", f"{mode.capitalize()} run: {', '.join(here.run.entrants)}"),
        raw("style", style),
    ]
    page = el("html", el("head", join(head, "\n")), el("body", join(body, "\n"), raw("script", script)), lang="en")
    return f"<!doctype html>\n{page}\n"


def _entrant_rules(n_entrants: int) -> str:
    """In the view of one battle, the answers of entrants that have no part in it are hidden."""
    rule = ".prompt:has(.mark:target):not(:has(.x{0}.mark:target)) .answer.x{0}{{display:none}}\n"
    return "".join(rule.format(place) for place in range(n_entrants))


@cache
def _file(name: str) -> str:
    return files("tiltyard.report").joinpath(name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
