"""A few battles of every outcome in brief, those first that the ratings make least likely."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tiltyard.pages.markup import Html, el, link, rating, shortened
from tiltyard.report.placement.scores import expected_score, outcome

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tiltyard.judging.records import Verdict
    from tiltyard.report.bouts import Bout
    from tiltyard.report.placement.folder import Placement
    from tiltyard.report.site import Here

OF_EACH = 2
TITLES = {"won": "Won", "lost": "Lost", "tie": "Tied", "inconsistent": "Changed with the order"}
SURPRISING_SCORE = {"won": 1.0, "lost": 0.0}
PROMPT_LENGTH, ANSWER_LENGTH, JUDGE_LENGTH = 240, 300, 220


def examples_section(here: Here, placed: Placement) -> Html:
    """Wins over the strongest, losses to the weakest, ties and changes of mind with the most unequal."""
    groups = [_group(here, placed, kind) for kind in TITLES]
    if not any(groups):
        return Html("")
    return el(
        "section",
        el("h2", "Examples"),
        el(
            "p",
            "Of each outcome the battles that the ratings make least likely, texts cut short. These are the "
            "exceptions: what is usual is in the list of ",
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
    cards = [_card(here, placed, bout) for bout in chosen]
    return el("section", el("h3", TITLES[kind]), *cards, class_="examples")


def surprising(placed: Placement, kind: str) -> list[Bout]:
    """The least likely battles of an outcome, of different opponents."""
    happened = SURPRISING_SCORE.get(kind, 0.5)

    def likely(bout: Bout) -> float:
        expected = expected_score(placed, placed.opponent(bout))
        return 1.0 if expected is None else 1.0 - abs(happened - expected)

    found: dict[str, Bout] = {}
    for bout in sorted((b for b in placed.run.bouts if outcome(placed.model, b) == kind), key=likely):
        found.setdefault(placed.opponent(bout), bout)
    return list(found.values())[:OF_EACH]


def _card(here: Here, placed: Placement, bout: Bout) -> Html:
    opponent = placed.opponent(bout)
    run = here.run
    entry = placed.entries.get(opponent)
    answers = [
        el("div", el("h5", name), _cut(run.answers[bout.prompt_id, name], ANSWER_LENGTH, "said"))
        for name in (placed.model, opponent)
    ]
    return el(
        "article",
        el("h4", "against ", opponent, " ", el("small", rating(entry.rating if entry else None, 0))),
        _cut(run.questions[bout.prompt_id].text, PROMPT_LENGTH, "asked"),
        el("div", *answers, *_judge(bout, run.judgment(bout).raw), class_="sides"),
        el("p", link(here.bout(bout), "the whole battle"), class_="ways"),
        class_="example",
    )


def _judge(bout: Bout, verdicts: Sequence[Verdict]) -> list[Html]:
    """The judge's words in either order."""
    return [
        el(
            "div",
            el("h5", "The judge, ", bout.entrants[verdict.position_swap], " shown first: ", el("b", bout.word(place))),
            _cut(verdict.reasoning, JUDGE_LENGTH, "said"),
            class_="judged",
        )
        for place, verdict in enumerate(verdicts)
    ]


def _cut(value: str, length: int, class_: str) -> Html:
    if not value.strip():
        return el("p", "(empty)", class_=f"{class_} none")
    return el("p", shortened(value, length), class_=class_, dir="auto")
