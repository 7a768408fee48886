"""All judged battles: a list for each opponent, and the filter over the lists."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tiltyard.pages.markup import Html, el, join, link, number, rating, shortened
from tiltyard.report.placement.scores import OUTCOMES, outcome, tally
from tiltyard.report.sections.battles import filter_form

if TYPE_CHECKING:
    from tiltyard.report.bouts import Bout
    from tiltyard.report.placement.folder import Placement
    from tiltyard.report.site import Here

BADGES = {"won": "decisive", "lost": "decisive beaten"}


def badge(model: str, bout: Bout) -> Html:
    """What came of a battle for the model, as a small label."""
    word = outcome(model, bout)
    return el("span", word, class_=f"badge {BADGES.get(word, word)}")


def opponent_view(here: Here, placed: Placement, key: tuple[int, int, int]) -> Html:
    """The battles with one opponent, one line each: the question, what the judge said in either order, the outcome."""
    opponent = here.run.entrants[key[2]]
    bouts = here.site.by_pair[key]
    entry = placed.entries.get(opponent)
    counted = tally(placed, bouts)
    heads = ("question", f"{placed.model} first", f"{opponent} first", "outcome")
    rows = [el("tr", *_cells(here, placed, bout), data_outcome=outcome(placed.model, bout)) for bout in bouts]
    top = el("thead", el("tr", *[el("th", word, scope="col") for word in heads]))
    inner = el("table", top, el("tbody", *rows), class_="list")
    summary = [
        join(["rated ", rating(entry.rating if entry else None, 0), "; "]),
        join([placed.model, " won ", number(counted.won), ", lost ", number(counted.lost), ", tied "]),
        join([number(counted.tied), " (", number(counted.inconsistent), " inconsistent), "]),
        join([number(counted.failed), " failed."]),
    ]
    return el(
        "section",
        el(
            "p",
            link(here.section("battles"), "Battles"),
            " / ",
            link(here.section("opponents"), "opponents"),
            class_="up",
        ),
        el("h3", "Against ", opponent),
        el("p", join(summary), class_="note"),
        el("div", inner, class_="scroll", tabindex="0", role="group", aria_label=f"Battles against {opponent}"),
        class_="view pair",
        id="m{}-{}-{}".format(*key),
        data_opponent=str(key[2]),
    )


def _cells(here: Here, placed: Placement, bout: Bout) -> list[Html]:
    text = shortened(here.run.questions[bout.prompt_id].text, 72)
    return [
        el("th", link(here.bout(bout), bout.prompt_id), " ", el("bdi", text), scope="row"),
        el("td", bout.word_when_first(placed.model)),
        el("td", bout.word_when_first(placed.opponent(bout))),
        el("td", badge(placed.model, bout)),
    ]


def battle_filter() -> Html:
    """The filter of one opponent's list."""
    return filter_form(OUTCOMES)


def _filter_all(here: Here) -> Html:
    """The filter of all lists: by words, outcome and opponent."""
    options = [el("option", "any opponent", value="")]
    options += [el("option", here.run.entrants[key[2]], value=str(key[2])) for key in here.site.by_pair]
    return filter_form(OUTCOMES, el("label", "Opponent ", el("select", *options, id="opponent")))


def battles_section(here: Here) -> Html:
    """The way down: opponent, battle. In a large placement the lists themselves are files of their own."""
    said = (
        f"There are {len(here.run.bouts):,} judged battles: too many for one page. The lists and battles are in the "
        "files of the folder report/ beside this page; keep the two together. Choose an opponent:"
        if here.site.split
        else "Choose an opponent, then a battle: its question, both answers, and the judge’s words."
    )
    dimension = here.run.dimensions[0].name
    model = here.run.entrants[0]
    links = [
        el("li", link(here.pair(dimension, model, name), name), " ", el("small", number(len(bouts))))
        for key, bouts in here.site.by_pair.items()
        for name in (here.run.entrants[key[2]],)
    ]
    return el(
        "section",
        el("h2", "Battles"),
        el("p", said, class_="note"),
        Html("") if here.site.split else _filter_all(here),
        el("ul", *links, class_="columns names"),
        id="battles",
    )
