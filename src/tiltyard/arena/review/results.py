"""What comes out of a review: rows for ratings, labels and training; how a team agrees; what its labels change."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec

from tiltyard.analysis.boards import Leaderboard, rate
from tiltyard.analysis.decisions import compare_models
from tiltyard.arena import SECOND, Choice
from tiltyard.arena.review.assignment import Assignment, ReviewLog
from tiltyard.arena.review.desk import DrawnItem, Review, close_review
from tiltyard.arena.review.labels import PersonSummary, TeamAgreement, labels_of, summaries, team_agreement
from tiltyard.arena.review.until import UntilLook, look_at
from tiltyard.arena.store import Store, comments_on, prompt_texts, text_answers
from tiltyard.errors import TiltyardError
from tiltyard.files import write_lines
from tiltyard.options import CompareOptions
from tiltyard.render import plural
from tiltyard.stats import Estimated

WINNERS = {Choice.A: "model_a", Choice.B: "model_b", Choice.TIE: "tie", Choice.BOTH_BAD: "tie (bothbad)"}
MORE_LABELS = 40
"""What more labels would buy is said for so many."""

HOW_WELL = ((0.8, "agree well"), (0.667, "agree fairly well"), (0.4, "agree only in part"))
"""From which α on reviewers agree how well. Krippendorff draws no conclusions below .667, and firm ones from .8 on."""

LOOKED_AT = 8
"""So many items to look at together are named for somebody who stands out."""


class ReviewResult(msgspec.Struct, frozen=True):
    """A review as its log says now."""

    review: Review
    log: ReviewLog
    people: list[PersonSummary]
    agreement: TeamAgreement

    @classmethod
    def of(cls, review: Review) -> ReviewResult:
        log = review.log()
        return cls(review, log, summaries(log), team_agreement(log))

    def item(self, number: int) -> DrawnItem:
        """What was drawn as this item of the log, which has them in the same order."""
        return self.review.record.items[number]

    @property
    def how(self) -> Counter[str]:
        return Counter(label.how for label in labels_of(self.log))

    @property
    def done(self) -> bool:
        return not any(person.left for person in self.people)

    @property
    def finished(self) -> int:
        """How many items from the first on nobody has left: a fair sample, however unevenly fast people are."""
        return Assignment(self.log).finished()

    @property
    def behind(self) -> int:
        return sum(label.value is not None for label in labels_of(self.log)[self.finished :])

    @property
    def panel(self) -> int:
        return sum(person.done > 0 for person in self.people if not person.is_adjudicator)


def battle_rows(result: ReviewResult, first: int | None = None) -> Iterator[dict[str, Any]]:
    """The votes that labels rest on as battles; an item's weights add up to 1, whoever reviewed it.

    With `first` only those of the first items.
    """
    for _, row in _rows_by_item(result, first):
        yield row


def _rows_by_item(result: ReviewResult, first: int | None) -> Iterator[tuple[DrawnItem, dict[str, Any]]]:
    for label in labels_of(result.log)[:first]:
        item = result.item(label.item)
        for turn in label.turns:
            assert turn.choice is not None
            row: dict[str, Any] = {
                "model_a": turn.model_a,
                "model_b": item.second if turn.model_a == item.first else item.first,
                "winner": WINNERS[turn.choice],
                "question_id": item.question_id,
                "source": "human",
                "voter": turn.person,
                "weight": 1.0 / len(label.turns),
                "timestamp": turn.closed_at // SECOND,
                "how": label.how,
            }
            yield item, {**row, "dimension": item.dimension} if item.dimension else row


def label_rows(result: ReviewResult, first: int | None = None) -> Iterator[dict[str, Any]]:
    """Votes as labels for `rate --people` and `run --calibrate`: reviewers are a panel, not voters to sample.

    They carry their draw: an item's place in the random order of the draw, and how many matchups that was of.
    """
    for item, row in _rows_by_item(result, first):
        kept = {key: value for key, value in row.items() if key not in ("voter", "weight")}
        draw = {"draw_place": item.place, "draw_of": item.of} if item.place else {}
        yield {**kept, "reviewer": row["voter"], "probability": item.probability, **draw}


def review_rows(result: ReviewResult) -> Iterator[dict[str, Any]]:
    """Every turn that anybody had, also those taken back or replaced, with comments; the order of the log."""
    log = result.log
    with closing(Store.open(result.review.url)) as store:
        comments = comments_on(store, list(log.turns))
    for turn in log.turns.values():
        item = result.item(turn.item)
        first_is_a = turn.model_a == item.first
        yield {
            "item": item.item,
            "question_id": item.question_id,
            "dimension": item.dimension,
            "model_a": turn.model_a,
            "model_b": item.second if first_is_a else item.first,
            "reviewer": turn.person,
            "as": "adjudicator" if turn.lane == "adjudication" else "reviewer",
            "status": "cannot judge" if turn.status == "cannot" else turn.status,
            "choice": None if turn.choice is None else str(turn.choice),
            "seconds": None if not turn.closed_at else round((turn.closed_at - turn.served_at) / SECOND, 1),
            "comment": comments.get(turn.matchup_id, ""),
            "label": log.outcome(turn),
        }


def preference_rows(result: ReviewResult) -> Iterator[dict[str, str]]:
    """Pairs for training: prompt, chosen, rejected. Ties, open items, files, and what was erased make none."""
    with closing(Store.open(result.review.url)) as store:
        texts, answers = prompt_texts(store), text_answers(store)
    for label in labels_of(result.log):
        if label.how == "open" or label.value is None or label.value == 0.5:
            continue
        item = result.item(label.item)
        good, bad = (item.first, item.second) if label.value > 0.5 else (item.second, item.first)
        if item.item not in texts or not {(item.item, good), (item.item, bad)} <= answers.keys():
            continue
        yield {
            "prompt": texts[item.item],
            "chosen": answers[item.item, good],
            "rejected": answers[item.item, bad],
            "question_id": item.question_id,
            "how": label.how,
        }


def export(result: ReviewResult) -> list[Path]:
    """Write `labels.jsonl`, `battles.jsonl` and `reviews.jsonl` into the review's folder."""
    folder = result.review.folder
    files = {"labels.jsonl": label_rows, "battles.jsonl": battle_rows, "reviews.jsonl": review_rows}
    for name, rows in files.items():
        write_lines(folder / name, rows(result), private=True)
    return [folder / name for name in files]


class Boards(msgspec.Struct, frozen=True):
    """Ratings by the judge alone, by people alone, and by both together; None where there is none, and why."""

    judge: Leaderboard | None
    people: Leaderboard | None
    both: Leaderboard | None
    missing: dict[str, str]

    @property
    def half_width(self) -> float | None:
        """The median half-width of the best board that people's labels are in, in points."""
        board = self.both or self.people
        entries = [] if board is None else board.entries
        ends = [(one.ci_low, one.ci_high) for one in entries]
        widths = sorted((high - low) / 2.0 for low, high in ends if low is not None and high is not None)
        return widths[len(widths) // 2] if widths else None

    def after(self, labelled: int, more: int = MORE_LABELS) -> float | None:
        """About what the half-width is after so many more labels."""
        width = self.half_width
        return None if width is None or not labelled else width * math.sqrt(labelled / (labelled + more))


def boards_of(result: ReviewResult, dimension: str | None = None, first: int | None = None) -> Boards:
    """What the labels change, on one dimension if the review has several; with `first`, those of the first items."""
    missing: dict[str, str] = {}
    only: dict[str, Any] = {} if dimension is None else {"dimension": dimension}

    def board(name: str, battles: Any, **more: Any) -> Leaderboard | None:
        try:
            return rate(battles, **only, **more)
        except TiltyardError as error:
            missing[name] = str(error)
            return None

    judged = result.review.record.judged
    rows = list(battle_rows(result, first))
    people = board("people", rows, cluster="prompt", only_connected=True) if rows else None
    judge = both = None
    if judged is not None:
        judge = board("judge", judged, only_connected=True)
        if rows and judge is not None:
            both = board("both", judged, people=list(label_rows(result, first)), only_connected=True)
    return Boards(judge, people, both, missing)


def look(result: ReviewResult) -> UntilLook | None:
    """What the labels so far say about the rule that ends the review; None if it has none.

    Only items before the first that waits for somebody count: among the others, those who are quick would count more.
    """
    record = result.review.record
    if record.until is None:
        return None
    finished, behind = result.finished, result.behind
    boards = boards_of(result, first=finished)
    board, by = (boards.people, "people") if record.judged is None else (boards.both, "judge and people together")
    if board is None or boards.people is None:
        nothing = "no item has all its reviews." if behind else "nobody has reviewed anything yet."
        why = next(reversed(boards.missing.values()), nothing)
        at = UntilLook(settled=False, sentence=f"not known yet: {why.rstrip('.')}")
    else:
        labelled = sum(label.value is not None for label in labels_of(result.log)[:finished])
        at = look_at(board, boards.people, record.until, record.models, by, labelled)
    if at.settled or not behind:
        return at
    waits = f"{plural(behind, 'label')} count once everybody has done the items before them"
    return UntilLook(settled=False, sentence=f"{at.sentence}; {waits}")


def close_if_settled(review: Review) -> bool:
    """Close a review whose rule is met; whether it is closed now, by whomever."""
    result = ReviewResult.of(review)
    assert result.log.rules is not None
    if not result.log.rules.closed:
        at = look(result)
        if at is None or not at.settled:
            return False
        close_review(review, at.sentence)
    return True


def percent(one: Estimated) -> str:
    """A share as people read it: 61 % (52 to 70)."""
    if not one.known:
        return "–"
    ends = "" if math.isnan(one.low) else f" ({100 * one.low:.0f} to {100 * one.high:.0f})"
    return f"{100 * one.value:.0f} %{ends}"


def number(one: Estimated) -> str:
    """A coefficient as people read it: 0.61 (0.52 to 0.70)."""
    if not one.known:
        return "–"
    ends = "" if math.isnan(one.low) else f" ({one.low:.2f} to {one.high:.2f})"
    return f"{one.value:.2f}{ends}".replace("-", "−")


def remarks(result: ReviewResult, name: Callable[[str], str] | None = None) -> list[str]:
    """What is worth doing something about, in words; `name` says what to call a person, by key."""
    lines = []
    for person in result.people:
        who = (name or result.review.name)(person.key)
        if person.rest is not None and person.rest.stands_out:
            apart = [result.item(number).question_id for number in person.rest.disagreed[:LOOKED_AT]]
            lines.append(
                f"{who} agrees with the others in {percent(person.rest.own)}, who agree with one another in "
                f"{percent(person.rest.others)}: look at these prompts together: {', '.join(apart)}"
            )
        side = person.side_a
        if side.known and not math.isnan(side.low) and side.n >= 20 and (side.low > 0.5 or side.high < 0.5):
            lines.append(
                f"{who} chose the answer on side A in {percent(side)} of decisive votes: sides are drawn at random, "
                "so half is expected"
            )
    if result.behind:
        lines.append(
            f"{plural(result.behind, 'label')} come after items that wait for somebody: until these are done, whoever "
            "is quicker counts for more in the ratings"
        )
    short = sum(label.how == "open" for label in labels_of(result.log))
    if result.done and short:
        lines.append(
            f"{short} items stay open: reviewers disagree and nobody decided, or reviews are missing and nobody is left"
        )
    return lines


COUNTED = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")


def panel_words(n: int) -> str:
    """For whom the intervals hold."""
    return "for this one reviewer" if n == 1 else f"for these {COUNTED[n] if n < len(COUNTED) else n} reviewers"


def conclusion(result: ReviewResult, dimension: str = "") -> str:
    """Which of two models is better, for whom, and whether they agree; nothing with other than two models.

    It is about the items before the first that somebody had left: among the others, quick people count for more. A
    review that closed because one is better says so in the words of that look: the interval of a single look would be
    too narrow for the looks before it.
    """
    items = [item for item in result.review.record.items if item.dimension == dimension]
    models = list(dict.fromkeys(model for item in items for model in (item.first, item.second)))
    rows = [
        {name: value for name, value in row.items() if name != "voter"}
        for row in battle_rows(result, result.finished)
        if row.get("dimension", "") == dimension
    ]
    if len(models) != 2 or not rows:
        return ""
    assert result.log.rules is not None
    by_prompt = CompareOptions(cluster="prompt")
    sentence = result.log.rules.why_closed if result.review.record.until == "better" else ""
    try:
        if not sentence:
            comparison = compare_models(rows, models[0], models[1], by_prompt)
            if comparison.estimate.difference < 0.0:
                comparison = compare_models(rows, models[1], models[0], by_prompt)
            sentence = comparison.sentence.rstrip(".")
    except TiltyardError:
        return ""
    ordinal, who = result.agreement.ordinal, ""
    if ordinal.known:
        who = f", who {_how_well(ordinal.value)} beyond chance"
    elif ordinal.n:
        who = ", who all say the same"
    return f"{sentence}, {panel_words(result.panel)}{who}"


def _how_well(alpha: float) -> str:
    return next((words for least, words in HOW_WELL if alpha >= least), "hardly agree")


def agreement_sentence(result: ReviewResult) -> str:
    """How far the team agrees, in words."""
    ordinal = result.agreement.ordinal
    if ordinal.n == 0:
        return "nobody has reviewed the same item yet, so agreement is not known"
    if not ordinal.known:
        return f"everybody says the same of all {ordinal.n} items that two people reviewed"
    return (
        f"reviewers {_how_well(ordinal.value)} beyond chance: Krippendorff's α {number(ordinal)} on {ordinal.n} items "
        "with two reviews or more"
    )


def status_values(result: ReviewResult) -> dict[str, Any]:
    """The status as plain values. It has names and links: it is for the owner of the review."""

    def values(one: Estimated) -> dict[str, Any]:
        plain = (one.value, one.low, one.high)
        value, low, high = (None if math.isnan(part) else round(part, 4) for part in plain)
        return {"value": value, "low": low, "high": high, "n": one.n}

    review, by_key = result.review, {person.key: person for person in result.review.links.people}
    people = []
    for one in result.people:
        person = by_key[one.key]
        people.append(
            {
                "name": person.name,
                "key": one.key,
                "role": "adjudicator" if one.is_adjudicator else "reviewer",
                "active": person.active,
                "link": review.link(person) if person.active else None,
                "done": one.done,
                "cannot_judge": one.cannot,
                "left": one.left,
                "against_the_rest": None if one.rest is None else values(one.rest.own),
                "stands_out": one.rest is not None and one.rest.stands_out,
                "side_a": values(one.side_a),
                "seconds": None if one.seconds is None else round(one.seconds, 1),
            }
        )
    kappas = [
        {"people": [review.name(a), review.name(b)], "kappa": None if math.isnan(kappa) else round(kappa, 4), "n": n}
        for a, b, kappa, n in result.agreement.kappas
    ]
    agreement = {"nominal": values(result.agreement.nominal), "ordinal": values(result.agreement.ordinal)}
    assert result.log.rules is not None
    at = look(result)
    return {
        "items": len(result.log.items),
        "population": review.record.population,
        "each": result.log.rules.each,
        "closed": result.log.rules.closed,
        "why_closed": result.log.rules.why_closed or None,
        "until": None if at is None else {"rule": review.record.until, "settled": at.settled, "now": at.sentence},
        "labels": {how: result.how.get(how, 0) for how in ("agreed", "majority", "adjudicated", "open")},
        "people": people,
        "agreement": {**agreement, "kappa": kappas},
        "remarks": remarks(result),
    }
