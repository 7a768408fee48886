"""All judged battles, a filtered list for each opponent; and examples that the ratings make least likely."""

from __future__ import annotations

from collections.abc import Sequence

from tiltyard.judging.records import Verdict
from tiltyard.pages.markup import Html, el, join, link, number, rating, shortened
from tiltyard.report.judged import JudgedBattle
from tiltyard.report.placement.counts import OUTCOMES, count_results, expected_score, outcome
from tiltyard.report.placement.folder import Placement
from tiltyard.report.sections.battles import filter_form
from tiltyard.report.site_map import Here

BADGES = {"won": "decisive", "lost": "decisive beaten"}


def badge(model: str, battle: JudgedBattle) -> Html:
    """The outcome of a battle for the model, as a small label."""
    word = outcome(model, battle)
    return el("span", word, class_=f"badge {BADGES.get(word, word)}")


def opponent_view(here: Here, placed: Placement, key: tuple[int, int, int]) -> Html:
    """The battles with one opponent, one line each: the question, the verdicts in both orders, the outcome."""
    opponent = here.run.entrants[key[2]]
    battles = here.site_map.by_pair[key]
    entry = placed.entries.get(opponent)
    counted = count_results(placed, battles)
    heads = ("question", f"{placed.model} first", f"{opponent} first", "outcome")
    rows = [el("tr", *_cells(here, placed, battle), data_outcome=outcome(placed.model, battle)) for battle in battles]
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


def _cells(here: Here, placed: Placement, battle: JudgedBattle) -> list[Html]:
    text = shortened(here.run.prompts[battle.prompt_id].text, 72)
    return [
        el("th", link(here.battle(battle), battle.prompt_id), " ", el("bdi", text), scope="row"),
        el("td", battle.word_when_first(placed.model)),
        el("td", battle.word_when_first(placed.opponent(battle))),
        el("td", badge(placed.model, battle)),
    ]


def battle_filter() -> Html:
    """The filter of one opponent's list."""
    return filter_form(OUTCOMES)


def _filter_all(here: Here) -> Html:
    """The filter of all lists: by text, outcome and opponent."""
    options = [el("option", "any opponent", value="")]
    options += [el("option", here.run.entrants[key[2]], value=str(key[2])) for key in here.site_map.by_pair]
    return filter_form(OUTCOMES, el("label", "Opponent ", el("select", *options, id="opponent")))


def battles_section(here: Here) -> Html:
    """From an opponent to a battle. In a large placement the lists are separate files."""
    said = (
        f"There are {len(here.run.battles):,} judged battles, too many for one page. The lists and battles are in "
        "the folder report/ beside this page; keep the two together. Choose an opponent:"
        if here.site_map.split
        else "Choose an opponent, then a battle to see its question, both answers and what the judge said."
    )
    dimension = here.run.dimensions[0].name
    model = here.run.entrants[0]
    links = [
        el("li", link(here.pair(dimension, model, name), name), " ", el("small", number(len(battles))))
        for key, battles in here.site_map.by_pair.items()
        for name in (here.run.entrants[key[2]],)
    ]
    return el(
        "section",
        el("h2", "Battles"),
        el("p", said, class_="note"),
        Html("") if here.site_map.split else _filter_all(here),
        el("ul", *links, class_="columns names"),
        id="battles",
    )


OF_EACH = 2
TITLES = {"won": "Won", "lost": "Lost", "tie": "Tied", "inconsistent": "Changed with the order"}
SURPRISING_SCORE = {"won": 1.0, "lost": 0.0}
PROMPT_LENGTH, ANSWER_LENGTH, JUDGE_LENGTH = 240, 300, 220


def examples_section(here: Here, placed: Placement) -> Html:
    """Examples: wins over the strongest, losses to the weakest, ties and changed verdicts with the most unequal."""
    groups = [_group(here, placed, kind) for kind in TITLES]
    if not any(groups):
        return Html("")
    return el(
        "section",
        el("h2", "Examples"),
        el(
            "p",
            "For each outcome, the battles that the ratings make least likely, with texts shortened. These are "
            "exceptions; typical battles are in the list of ",
            link(here.section("battles"), "all battles"),
            ".",
            class_="note",
        ),
        *groups,
        id="examples",
    )


def _group(here: Here, placed: Placement, kind: str) -> Html:
    chosen = surprising(placed, kind)
    if not chosen:
        return Html("")
    cards = [_card(here, placed, battle) for battle in chosen]
    return el("section", el("h3", TITLES[kind]), *cards, class_="examples")


def surprising(placed: Placement, kind: str) -> list[JudgedBattle]:
    """The least likely battles of an outcome, of different opponents."""
    happened = SURPRISING_SCORE.get(kind, 0.5)

    def likely(battle: JudgedBattle) -> float:
        expected = expected_score(placed, placed.opponent(battle))
        return 1.0 if expected is None else 1.0 - abs(happened - expected)

    found: dict[str, JudgedBattle] = {}
    for battle in sorted((b for b in placed.run.battles if outcome(placed.model, b) == kind), key=likely):
        found.setdefault(placed.opponent(battle), battle)
    return list(found.values())[:OF_EACH]


def _card(here: Here, placed: Placement, battle: JudgedBattle) -> Html:
    opponent = placed.opponent(battle)
    run = here.run
    entry = placed.entries.get(opponent)
    answers = [
        el("div", el("h5", name), _cut(run.answers[battle.prompt_id, name], ANSWER_LENGTH, "said"))
        for name in (placed.model, opponent)
    ]
    return el(
        "article",
        el("h4", "against ", opponent, " ", el("small", rating(entry.rating if entry else None, 0))),
        _cut(run.prompts[battle.prompt_id].text, PROMPT_LENGTH, "asked"),
        el("div", *answers, *_judge(battle, run.judgment(battle).raw), class_="sides"),
        el("p", link(here.battle(battle), "full battle"), class_="ways"),
        class_="example",
    )


def _judge(battle: JudgedBattle, verdicts: Sequence[Verdict]) -> list[Html]:
    """The judge's texts in both orders."""
    return [
        el(
            "div",
            el(
                "h5",
                "The judge, ",
                battle.entrants[verdict.position_swap],
                " shown first: ",
                el("b", battle.word(place)),
            ),
            _cut(verdict.reasoning, JUDGE_LENGTH, "said"),
            class_="judged",
        )
        for place, verdict in enumerate(verdicts)
    ]


def _cut(value: str, length: int, class_: str) -> Html:
    if not value.strip():
        return el("p", "(empty)", class_=f"{class_} none")
    return el("p", shortened(value, length), class_=class_, dir="auto")
