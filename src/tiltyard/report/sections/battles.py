"""From a rating to its battles: an entrant's opponents, and every battle of a pair."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from tiltyard.boards import RatingEntry
from tiltyard.boards.text import rank_text
from tiltyard.pages.markup import Html, el, join, link, number, percent, rating, shortened, table
from tiltyard.report.judged import JudgedBattle, counted
from tiltyard.report.run import Dimension
from tiltyard.report.sections.board import order
from tiltyard.report.site_map import Here

OUTCOMES = ("decisive", "tie", "inconsistent", "failed")


def opponents_section(here: Here, dimension: Dimension) -> Html:
    """Every entrant of a dimension with its opponents, each a link to the list of their battles."""
    entries = {entry.model: entry for entry in dimension.board.ratings} if dimension.board else {}
    battles = here.run.battles.of_dimension(dimension.name)
    judged = {name for battle, _ in battles.counted() for name in battle.entrants}
    names = [*order(here, dimension), *(name for name in here.run.entrants if name in judged)]
    cards = [_card(here, dimension, name, entries.get(name)) for name in dict.fromkeys(names)]
    return el("section", el("h3", dimension.name), el("div", *cards, class_="cards"))


def _card(here: Here, dimension: Dimension, name: str, entry: RatingEntry | None) -> Html:
    site_map = here.site_map
    place = (site_map.dimensions[dimension.name], site_map.entrants[name])
    said = [el("b", name)]
    if entry is not None:
        said.append(el("span", rating(entry.rating, 0), ", rank ", rank_text(entry), class_="aside"))
    keys = [key for key in site_map.by_pair if key[0] == place[0] and place[1] in key[1:]]
    rows = []
    for key in keys:
        opponent = here.run.entrants[key[2] if key[1] == place[1] else key[1]]
        rows.append(_opponent(here, dimension, name, opponent, site_map.by_pair[key]))
    head: list[str | tuple[str, str]] = ["against", *((word, "num") for word in ("won", "lost", "tied", "failed", ""))]
    return el(
        "details",
        el("summary", *said),
        table(head, rows),
        class_="card",
        open=True,
        id=f"e{place[0]}-{place[1]}",
    )


def _opponent(here: Here, dimension: Dimension, name: str, opponent: str, battles: Sequence[JudgedBattle]) -> list[str]:
    count = tally(battles)
    ties = number(count["tie"] + count["inconsistent"])
    if count["inconsistent"]:
        ties = join([ties, " ", el("small", "(", number(count["inconsistent"]), " inconsistent)")])
    return [
        opponent,
        number(count[name]),
        number(count[opponent]),
        ties,
        number(count["failed"]),
        link(here.pair(dimension.name, name, opponent), f"{len(battles)} battles"),
    ]


def tally(battles: Sequence[JudgedBattle]) -> Counter[str]:
    """How often each outcome occurred in these judgments."""
    counts: Counter[str] = Counter()
    for battle, count in counted(battles):
        counts[battle.winner or battle.outcome] += count
    return counts


def pair_view(here: Here, key: tuple[int, int, int]) -> Html:
    """The battles of a pair, one line each: prompt, the verdicts in both orders, the outcome."""
    run = here.run
    dimension, a, b = run.dimensions[key[0]].name, run.entrants[key[1]], run.entrants[key[2]]
    battles = here.site_map.by_pair[key]
    rows = [el("tr", *_cells(here, battle), data_outcome=kind(battle)) for battle in battles]
    heads = ("prompt", f"{a} shown first", f"{b} shown first", "outcome")
    top = el("thead", el("tr", *[el("th", word, scope="col") for word in heads]))
    inner = el("table", top, el("tbody", *rows), class_="list")
    return el(
        "section",
        el(
            "p",
            link(here.section("battles"), "Battles"),
            " / ",
            link(here.entrant(dimension, a), dimension),
            class_="up",
        ),
        el("h3", link(here.entrant(dimension, a), a), " against ", link(here.entrant(dimension, b), b)),
        el("p", _summary(dimension, a, b, battles), class_="note"),
        el("div", inner, class_="scroll", tabindex="0", role="group", aria_label=f"{a} against {b}: {dimension}"),
        class_="view pair",
        id="m{}-{}-{}".format(*key),
    )


def _summary(dimension: str, a: str, b: str, battles: Sequence[JudgedBattle]) -> Html:
    count = tally(battles)
    settled = len(battles) - count["failed"]
    ties = count["tie"] + count["inconsistent"]
    share = (count[a] + 0.5 * ties) / settled if settled else None
    return join(
        [
            join([f"{dimension}: {a} won ", number(count[a]), f", {b} won ", number(count[b]), ", "]),
            join([number(count["tie"]), " ties, ", number(count["inconsistent"]), " inconsistent, "]),
            join([number(count["failed"]), " failed. Ties counting half, ", a, " won ", percent(share), "."]),
        ]
    )


def kind(battle: JudgedBattle) -> str:
    """Which of the four outcomes a judgment had, regardless of who won."""
    return "decisive" if battle.winner is not None else battle.outcome


def badge(battle: JudgedBattle) -> Html:
    """The outcome of a judgment, as a small label."""
    return el("span", battle.outcome, class_=f"badge {kind(battle)}")


def _cells(here: Here, battle: JudgedBattle) -> list[Html]:
    prompt = here.run.prompts[battle.prompt_id]
    label = link(here.battle(battle), battle.prompt_id)
    return [
        el("th", label, " ", el("bdi", shortened(prompt.text, 72)), scope="row"),
        *[el("td", word) for word in _words_by_order(here, battle)],
        el("td", badge(battle)),
    ]


def _words_by_order(here: Here, battle: JudgedBattle) -> list[str]:
    """The verdicts in the order of the pair: forward first, unless the match lists the two in the other order."""
    orders = (0, 1) if here.site_map.entrants[battle.entrant_a] < here.site_map.entrants[battle.entrant_b] else (1, 0)
    if len(battle.said) > 2:
        return [battle.word_when_first(battle.entrants[order]) for order in orders]
    return [battle.word(order) for order in orders]


def filter_form(outcomes: Sequence[str] = OUTCOMES, *more: Html) -> Html:
    """The search over the lists, with further controls, shown only if the script runs."""
    options = [el("option", "any outcome", value=""), *(el("option", word, value=word) for word in outcomes)]
    return el(
        "div",
        el("label", "Search ", el("input", type="search", id="find", placeholder="prompt, answer, judge’s words")),
        el("label", "Outcome ", el("select", *options, id="outcome")),
        *more,
        el("output", id="found", aria_live="polite"),
        class_="filter",
        id="filter",
        hidden=True,
    )


def battles_section(here: Here) -> Html:
    """From an entrant to its opponents to a battle. In a large run the lists are separate files."""
    site_map = here.site_map
    said = (
        f"This run has {len(here.run.battles):,} judgments, too many for one page. The lists and battles are in "
        "the folder report/ beside this page; keep the two together."
        if site_map.split
        else "Choose an opponent, then a battle to see its prompt, both answers and what the judge said in both orders."
    )
    return el(
        "section",
        el("h2", "Battles"),
        el("p", said, class_="note"),
        *[opponents_section(here, dimension) for dimension in here.run.dimensions],
        Html("") if site_map.split else filter_form(),
        id="battles",
    )
