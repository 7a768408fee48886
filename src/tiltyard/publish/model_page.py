"""The page of a model: where it stands, whom it met, and on which prompts it did better or worse than its rating."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tiltyard.battles.battle import Outcome
from tiltyard.battles.table import MISSING, BattleTable, Codes, concat
from tiltyard.boards.leaderboard import RatingEntry
from tiltyard.boards.selection import select
from tiltyard.boards.text import interval_text, percent, rank_text
from tiltyard.pages import svg
from tiltyard.pages.figures import count, plural, points
from tiltyard.pages.markup import Html, el, join, link, number, pairs, shortened, table
from tiltyard.pages.markup import percent as share_text
from tiltyard.pages.markup import rating as rating_figure
from tiltyard.publish.board_page import PageMap, model_link
from tiltyard.publish.pages import Spot
from tiltyard.publish.publication import PROMPT, PublishedBoard, StaticSite, slug
from tiltyard.ratings import POINTS_PER_LOGIT

OPPONENTS = 100
"""Opponents on a model's page: those it met most."""

PROMPTS_EACH_WAY = 10
"""Prompts on a model's page on which it did worst, and as many on which it did best."""


@dataclass(frozen=True, slots=True, eq=False)
class GroupedCounts:
    """Battles of each model by something else: whom it met, or on which prompt.

    Parameters:
        labels: The names of what they are grouped by.
        start: Where the rows of each model begin.
        label: The place in `labels` of each row.
        counts: Won, lost, tied, both bad.
        expected: The wins, ties counting half, that the ratings of the two sides say.
    """

    labels: tuple[str, ...]
    start: NDArray[np.int64]
    label: NDArray[np.int64]
    counts: NDArray[np.float64]
    expected: NDArray[np.float64]

    def of(self, code: int) -> list[tuple[str, NDArray[np.float64], float]]:
        """The rows of a model: name, counts, expected wins."""
        rows = slice(int(self.start[code]), int(self.start[code + 1]))
        names = [self.labels[label] for label in self.label[rows].tolist()]
        return list(zip(names, self.counts[rows], self.expected[rows].tolist(), strict=True))


@dataclass(frozen=True, slots=True, eq=False)
class ModelTallies:
    """The battles behind a board, of each model.

    Parameters:
        models: The names.
        opponents: By whom it met.
        prompts: By prompt; None where no battle names one.
    """

    models: tuple[str, ...]
    opponents: GroupedCounts
    prompts: GroupedCounts | None


def board_tallies(publication: StaticSite, one: PublishedBoard) -> ModelTallies:
    """The battles behind a board, by opponent and by prompt.

    Parameters:
        publication: What is published.
        one: The board.
    """
    selected = select(publication.table, publication.rules.estimator(one.dimension).selection)
    battles = concat([selected.table, selected.both_bad])
    ratings = np.array([one.board.ratings.get(name, np.nan) for name in battles.models])
    column = battles.columns.get(PROMPT)
    prompts = None
    if isinstance(column, Codes):
        known = (column.codes != MISSING) & np.isfinite(ratings[battles.model_a] + ratings[battles.model_b])
        named = battles.take(known)
        prompts = _grouped(named, ratings, tuple(column.labels), np.tile(column.codes[known], 2))
    opponents = np.concatenate([battles.model_b, battles.model_a])
    return ModelTallies(battles.models, _grouped(battles, ratings, battles.models, opponents), prompts)


def _grouped(
    battles: BattleTable, ratings: NDArray[np.float64], labels: tuple[str, ...], label: NDArray[np.int32]
) -> GroupedCounts:
    """Every battle from both sides, side A first, grouped by model and label."""
    width, models = max(len(labels), 1), np.arange(len(battles.models) + 1)
    swapped = np.array([Outcome(code).swapped for code in range(len(Outcome))])
    model = np.concatenate([battles.model_a, battles.model_b]).astype(np.int64)
    result = np.concatenate([battles.outcome.astype(np.int64), swapped[battles.outcome]])
    weight = np.concatenate([battles.weight, battles.weight])
    keys, place = np.unique(model * width + label, return_inverse=True)
    counts = np.zeros((len(keys), len(Outcome)))
    np.add.at(counts, (place, result), weight)
    share_a = _expected(ratings[battles.model_a] - ratings[battles.model_b])
    share = np.where(result == Outcome.BOTH_BAD, 0.0, np.concatenate([share_a, 1.0 - share_a]))
    expected = np.zeros(len(keys))
    np.add.at(expected, place, weight * share)
    return GroupedCounts(labels, np.searchsorted(keys // width, models), keys % width, counts, expected)


def model_page(spot: Spot, model: str, pages: PageMap, tallies: Sequence[ModelTallies]) -> bytes:
    """The page of a model: where it stands, whom it met, and its best and worst prompts.

    Parameters:
        spot: The page.
        model: The model.
        pages: Which models and pairs have pages.
        tallies: The battles of each board.
    """
    publication = spot.publication
    name = publication.name(model)
    boards = list(zip(publication.boards, tallies, strict=True))
    placed = [(one, tally, entry) for one, tally in boards for entry in one.board if entry.model == model]
    sections = [_standing(spot, one, entry, tally, pages) for one, tally, entry in placed]
    one, _, entry = placed[0]
    said = f"{name}: rank {rank_text(entry)} of {len(one.board)}, rating {points(entry.rating)}"
    known = [] if name == model else [el("p", model, class_="sub")]
    body = [
        el("header", el("p", "Model", class_="over"), el("h1", el("bdi", name)), *known),
        el("main", *sections, id="main", tabindex="-1"),
    ]
    card = f"share/{slug(model)}.png"
    return spot.page(f"{name} · {publication.title}", body, said, card=card)


def _standing(spot: Spot, one: PublishedBoard, entry: RatingEntry, tally: ModelTallies, pages: PageMap) -> Html:
    level = (one.board.settings.get("interval") or {}).get("level")
    tiles: list[tuple[str, str]] = [
        (f"rank of {count(len(one.board))}", rank_text(entry)),
        ("rating", join([rating_figure(entry.rating), el("small", interval_text(entry, 0))])),
        ("won–lost–tied", "–".join(count(value) for value in (entry.wins, entry.losses, entry.ties))),
    ]
    if entry.both_bad:
        tiles.append(("both answers bad", number(entry.both_bad)))
    note = [] if entry.note is None else [el("p", entry.note, class_="note")]
    said = f"The interval has a level of {percent(level)}; the ranks hold for all models at once." if level else ""
    return el(
        "section",
        el("h2", one.dimension or "On the board"),
        pairs(tiles, class_="tiles"),
        *note,
        el("p", said, class_="note"),
        _opponents(spot, one, entry, tally, pages),
        _prompts(spot, entry, tally),
        id=one.anchor,
    )


def _opponents(spot: Spot, one: PublishedBoard, entry: RatingEntry, tally: ModelTallies, pages: PageMap) -> Html:
    met = tally.opponents.of(tally.models.index(entry.model))
    met.sort(key=lambda row: (-float(row[1].sum()), row[0]))
    ratings = one.board.ratings
    rows = []
    for other, counts, _ in met[:OPPONENTS]:
        file = pages.pair(entry.model, other)
        compare = Html("") if file is None else link(spot.to(file), "compare", aria_label=f"compare with {other}")
        expected = None if other not in ratings else float(_expected(np.float64(entry.rating - ratings[other])))
        name = model_link(spot, other, pages)
        rows.append([*_score_row(name, spot.publication.name(other), counts, expected), compare])
    left = len(met) - len(rows)
    more = [el("p", f"{plural(left, 'opponent')} that it met least are left out.", class_="note")] if left else []
    head = [*_score_head("opponent"), (el("span", "both", class_="aloud"), "way")]
    said = "Score: the share it won, ties counting half. Expected: what the two ratings say, ties apart."
    return el(
        "div", el("h3", "Opponents"), el("p", said, class_="note"), table(head, rows, class_="board opponents"), *more
    )


def _prompts(spot: Spot, entry: RatingEntry, tally: ModelTallies) -> Html:
    """The prompts on which a model won fewest and most battles beyond what the ratings say."""
    if tally.prompts is None:
        return Html("")
    rated = [row for row in tally.prompts.of(tally.models.index(entry.model)) if row[1][:3].sum() > 0]
    if len(rated) < 2:
        return Html("")
    rated.sort(key=lambda row: (row[1][0] + 0.5 * row[1][2] - row[2], row[0]))
    left = len(rated) - 2 * PROMPTS_EACH_WAY
    parts = [("Prompts", rated)]
    if left > 0:
        parts = [("Worst prompts", rated[:PROMPTS_EACH_WAY]), ("Best prompts", rated[: -PROMPTS_EACH_WAY - 1 : -1])]
    shown = []
    for title, chosen in parts:
        rows = [
            _score_row(_prompt(spot, name), name, counts, expected / float(counts[:3].sum()))
            for name, counts, expected in chosen
        ]
        shown += [el("h3", title), table(_score_head("prompt"), rows, class_="board opponents")]
    said = "Ordered by battles won beyond what the ratings of both sides say, fewest first."
    if left > 0:
        said = (
            f"Of {plural(len(rated), 'prompt')}: where it won fewest and most battles beyond what the ratings of both "
            "sides say."
        )
    return el("div", shown[0], el("p", said, class_="note"), *shown[1:])


def _prompt(spot: Spot, name: str) -> Html:
    """A prompt's text where it may be public, else its id."""
    words = spot.publication.texts.get(name)
    return el("bdi", shortened(words, 140), title=name) if words else el("bdi", shortened(name, 140))


def _score_head(what: str) -> list[str | tuple[str, str]]:
    return [
        what,
        ("score", "num"),
        ("won, tied, lost", "chart"),
        ("expected", "num"),
        *((word, "num extra") for word in ("battles", "won", "lost", "tied")),
    ]


def _score_row(name: Html, label: str, counts: NDArray[np.float64], expected: float | None) -> list[str]:
    """A row of results: the share won with its picture, what was expected, and counts."""
    won, lost, tied, bad = (float(value) for value in counts)
    rated = won + lost + tied
    said = f"{shortened(label)}: won {count(won)}, tied {count(tied)}, lost {count(lost)}"
    return [
        name,
        share_text((won + 0.5 * tied) / rated if rated else None),
        svg.shares((won, tied, lost), said) if rated else Html(""),
        share_text(expected),
        *(number(value) for value in (rated + bad, won, lost, tied)),
    ]


def _expected(difference: NDArray[np.float64] | np.float64) -> NDArray[np.float64]:
    return np.asarray(1.0 / (1.0 + np.exp(-difference / POINTS_PER_LOGIT)))
