"""The site's pictures: SVG and coloured tables made on the server, without a script or a style attribute."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from tiltyard.arena.following.snapshots import ModelFacts, Snapshot
from tiltyard.arena.model_detail import BothBadPiece, RatingPath, results_by_prompt_and_opponent
from tiltyard.pages.figures import plural
from tiltyard.pages.markup import Html, el, join
from tiltyard.pages.svg import Scale, axis
from tiltyard.validity.calibration import CalibrationCurve
from tiltyard.web.addresses import compare_address

if TYPE_CHECKING:
    from tiltyard.web.leaderboard import BoardLine
    from tiltyard.web.model import ModelPage

WIDTH = 560
BROAD = 960
"""The width of charts that use the whole page."""

LEFT, RIGHT, TOP, BOTTOM = 54, 14, 12, 30
SHADES = 10
HEATMAP_MODELS = 16
"""The most models of a heatmap: a larger one is unreadable and too big for a page."""

NEAREST = 24
"""Opponents in the grid of a model's results: those nearest in rank."""

GRID_PROMPTS = 60
"""Prompts in that grid: those with the most votes on the model. All are in the grid by prompt."""

NO_VOTES = (0, 0, 0, 0)

MOST_POINTS = 240
"""Points of a path that are drawn; more would fall on the same pixels."""


BAR_HEIGHT = 16


def interval_bar(line: BoardLine) -> Html:
    """The interval of a line's raw rating, drawn in its cell; words where there is none, nothing where none is due."""
    if line.scale is None:
        return Html("")
    span = line.span
    if span is None:
        return el("span", "too few votes for an interval", class_="barless")
    scale, middle = line.scale, BAR_HEIGHT // 2
    left, right = (edge if end is None else scale.x(end) for edge, end in zip((1.0, 319.0), span, strict=True))
    inside = (_inside(scale, span[0]), _inside(scale, span[1]))
    caps = "".join(f"M{x:g} 4v8" for x, there in zip((left, right), inside, strict=True) if there)
    arrows = "".join(
        f"M{x + 7 * inwards:g} 4l{-7 * inwards} 4l{7 * inwards} 4"
        for x, there, inwards in ((left, inside[0], 1), (right, inside[1], -1))
        if not there
    )
    label = f"95 % interval {_span(*span)}"
    return el(
        "svg",
        el("path", d=f"M{left:g} {middle}H{right:g}{caps}{arrows}", class_="bar"),
        el("path", d=f"M{scale.x(line.raw):g} {middle}h.01", class_="spot"),
        class_="strip",
        viewBox=f"0 0 320 {BAR_HEIGHT}",
        preserveAspectRatio="none",
        role="img",
        aria_label=label,
    )


def _inside(scale: Scale, end: float | None) -> bool:
    return end is not None and scale.low <= end <= scale.high


def bar_axis(scale: Scale | None) -> Html:
    """The axis above the intervals of a column."""
    return Html("") if scale is None else axis(scale)


def _span(low: float | None, high: float | None) -> str:
    ends = ["…" if end is None else f"{end:.0f}" for end in (low, high)]
    return " to ".join(ends)


def win_rate_heatmap(snapshot: Snapshot, lines: Sequence[BoardLine]) -> Html:
    """The share of rated votes that the row won against the column, a tie counting half."""
    chosen = [line.facts for line in lines[:HEATMAP_MODELS]]
    numbers = [one.number for one in chosen]
    wins, ties = (counts[np.ix_(numbers, numbers)].tolist() for counts in (snapshot.wins, snapshot.ties))
    rows = [
        (of.display_name, [_win_cell(of, to, wins[i][j], wins[j][i], ties[i][j]) for j, to in enumerate(chosen)])
        for i, of in enumerate(chosen)
    ]
    return _grid("Win rate of the row against the column, in percent", [one.display_name for one in chosen], rows)


KEPT_CELLS = 4096
"""Cached cells of the heatmaps of the board: a vote changes few of them."""


@lru_cache(maxsize=KEPT_CELLS)
def _win_cell(of: ModelFacts, to: ModelFacts, won: int, lost: int, tied: int) -> Html:
    rated = won + lost + tied
    if of == to or not rated:
        return el("td", class_="void") if of == to else el("td", "·", class_="none")
    share = (won + 0.5 * tied) / rated
    said = f"{of.display_name} against {to.display_name}: {100 * share:.0f} % of {plural(rated, 'vote')}"
    return _cell(f"{100 * share:.0f}", share, said, compare_address(of.model, to.model))


def battles_heatmap(snapshot: Snapshot, lines: Sequence[BoardLine]) -> Html:
    """How many counted votes every pair has."""
    chosen = [line.facts for line in lines[:HEATMAP_MODELS]]
    pairs = np.ix_([one.number for one in chosen], [one.number for one in chosen])
    met = (snapshot.wins[pairs] + snapshot.wins[pairs].T + snapshot.ties[pairs] + snapshot.both_bad[pairs]).tolist()
    most = max(map(max, met), default=0) or 1
    rows = [
        (of.display_name, [_votes_cell(of, to, met[i][j], _shade(met[i][j] / most)) for j, to in enumerate(chosen)])
        for i, of in enumerate(chosen)
    ]
    return _grid("Counted votes of every pair", [one.display_name for one in chosen], rows)


@lru_cache(maxsize=KEPT_CELLS)
def _votes_cell(of: ModelFacts, to: ModelFacts, votes: int, shade: int) -> Html:
    if of == to:
        return el("td", class_="void")
    said = f"{of.display_name} and {to.display_name}: {plural(votes, 'vote')}"
    return _cell(f"{votes:,}", shade / SHADES, said, compare_address(of.model, to.model))


def rival_grid(page: ModelPage, snapshot: Snapshot, asked: Mapping[str, str]) -> tuple[Html, int]:
    """How a model fared on each prompt against each opponent, the nearest in rank; and how many prompts are left out.

    A cell is won–lost, green or red as it leans; one with fewer votes than adjacent models need has a dotted edge.
    """
    heatmap, rank = page.detail.heatmap, page.detail.row.rank
    first = max(0, min(rank - 1 - NEAREST // 2, len(heatmap.opponents) - NEAREST))
    near = slice(first, first + NEAREST)
    rivals = [snapshot.model(name) for name in heatmap.opponents[near]]
    numbers = {facts.prompt_id: facts.number for facts in snapshot.prompts}
    missing = {name: line[near] for name, line in zip(heatmap.prompts, heatmap.deficits, strict=True)}
    counted = results_by_prompt_and_opponent(snapshot.study.votes, page.facts.number)
    records = (*page.detail.prompts, *page.detail.retired_prompts)
    kept = sorted(
        sorted(records, key=lambda record: -record.votes)[:GRID_PROMPTS], key=lambda record: record.score or 0
    )
    rows = []
    for record in kept:
        name, number = record.name, numbers[record.name]
        results = counted[number].tolist() if number < len(counted) else []
        short = [lacks > 0 for lacks in missing.get(name, (0.0,) * len(rivals))]
        words = asked.get(name, name)
        cells = [
            _result_cell(
                page,
                rival,
                name,
                words,
                results[rival.number] if rival.number < len(results) else NO_VOTES,
                short=lacks,
            )
            for rival, lacks in zip(rivals, short, strict=True)
        ]
        rows.append((words, cells))
    caption = "Won–lost by prompt and opponent"
    head = [rival.display_name for rival in rivals]
    return _grid(caption, head, rows, "heatmap texts"), len(records) - len(kept)


def _result_cell(
    page: ModelPage, rival: ModelFacts, prompt: str, asked: str, result: Sequence[int], *, short: bool
) -> Html:
    won, lost, tied, bad = result
    edge = " short" if short else ""
    if not sum(result):
        return el("td", el("span", "·", title=f"{rival.display_name}, {asked}: no votes"), class_=f"none{edge}")
    said = f"{rival.display_name}, {asked}: {won} won, {lost} lost, {tied} tied, {bad} both bad"
    shade = 3 if won == lost else round(3 + 3 * (won - lost) / (won + lost))
    inner = el("span", f"{won}–{lost}", title=said)
    if page.answers.get(prompt):
        address = compare_address(page.facts.model, rival.model, prompt)
        inner = el("a", f"{won}–{lost}", href=address, title=said, aria_label=said)
    return el("td", inner, class_=f"heat g{shade}{edge}")


def _cell(text: str, share: float, said: str, target: str | None) -> Html:
    inner = el("a", text, href=target, title=said, aria_label=said) if target else el("span", text, title=said)
    return el("td", inner, class_=f"heat h{_shade(share)}")


def _shade(share: float) -> int:
    return round(SHADES * min(max(share, 0.0), 1.0))


def _grid(
    caption: str, columns: Sequence[str], rows: Sequence[tuple[str, Sequence[Html]]], class_: str = "heatmap"
) -> Html:
    head = el("tr", el("td"), *[el("th", el("span", name), scope="col", title=name) for name in columns])
    body = [el("tr", el("th", el("bdi", name), scope="row", title=name), *cells) for name, cells in rows]
    made = el("table", el("caption", el("span", caption)), el("thead", head), el("tbody", *body), class_=class_)
    return el("div", made, class_="scroll", tabindex="0", role="group", aria_label=caption)


class Plot:
    """A frame with two scales: values left, and a share of the width below."""

    def __init__(
        self, low: float, high: float, height: int, width: int = WIDTH, right: int = RIGHT, *, falls: bool = False
    ) -> None:
        self.scale = Scale.of([low, high], 4)
        self.height = height
        self.width = width
        self.right = right
        self.falls = falls
        """Whether small values are on top, as places are."""

    def x(self, share: float) -> float:
        """The x position of a share of the width."""
        return round(LEFT + share * (self.width - LEFT - self.right), 1)

    def y(self, value: float) -> float:
        """The y position of a value."""
        inside = (min(max(value, self.scale.low), self.scale.high) - self.scale.low) / (
            self.scale.high - self.scale.low
        )
        inside = 1.0 - inside if self.falls else inside
        return round(self.height - BOTTOM - inside * (self.height - TOP - BOTTOM), 1)

    def frame(self, unit: str = "") -> list[Html]:
        """The lines and labels of the scale."""
        marks = []
        for tick in self.scale.ticks:
            marks.append(el("path", d=f"M{LEFT} {self.y(tick):g}H{self.width - self.right}", class_="grid"))
            marks.append(el("text", f"{tick:g}{unit}", x=LEFT - 6, y=self.y(tick) + 4, text_anchor="end"))
        return marks

    def foot(self, share: float, words: str, anchor: str = "middle") -> Html:
        """Words below."""
        return el("text", words, x=self.x(share), y=self.height - 9, text_anchor=anchor)

    def drawn(self, label: str, marks: Sequence[Html]) -> Html:
        """The picture, in a box that scrolls where it is too narrow."""
        picture = el(
            "svg",
            el("title", label),
            *marks,
            class_="plot" if self.width == WIDTH else "plot broad",
            viewBox=f"0 0 {self.width} {self.height}",
            role="img",
            aria_label=label,
        )
        return el("div", picture, class_="scroll plotted", tabindex="0", role="group", aria_label=label)


def path_chart(path: RatingPath, name: str) -> Html | None:
    """Rating and the band of two deviations over a model's votes; None for fewer than two votes."""
    if len(path.rating) < 2:
        return None
    chosen = np.unique(np.linspace(0, len(path.rating) - 1, MOST_POINTS).round().astype(int))
    rated, deviation = path.rating[chosen], path.deviation[chosen]
    low, high = rated - 2 * deviation, rated + 2 * deviation
    settled = slice(min(len(chosen) // 20, len(chosen) - 1), None)  # the first votes' bands would hide all the others
    plot = Plot(float(low[settled].min()), float(high[settled].max()), 260, BROAD)
    xs = [plot.x(place / max(len(path.rating) - 1, 1)) for place in chosen.tolist()]
    up = "L".join(f"{x:g} {plot.y(v):g}" for x, v in zip(xs, high.tolist(), strict=True))
    down = "L".join(f"{x:g} {plot.y(v):g}" for x, v in zip(reversed(xs), low[::-1].tolist(), strict=True))
    line = "L".join(f"{x:g} {plot.y(v):g}" for x, v in zip(xs, rated.tolist(), strict=True))
    marks = [
        *plot.frame(),
        el("path", d=f"M{up}L{down}z", class_="band"),
        el("path", d=f"M{line}", class_="line"),
        plot.foot(0, "first vote", "start"),
        plot.foot(1, plural(len(path.rating), "rated vote"), "end"),
    ]
    label = (
        f"Rating of {name} over {plural(len(path.rating), 'vote')}: now {rated[-1]:.0f}, band {low[-1]:.0f} to "
        f"{high[-1]:.0f}, deviation {deviation[0]:.0f} at first and {deviation[-1]:.0f} now"
    )
    return plot.drawn(label, marks)


def trend_chart(pieces: Sequence[BothBadPiece], name: str) -> Html | None:
    """The both-bad rate by period with its intervals; None without votes."""
    known = [(place, piece) for place, piece in enumerate(pieces) if piece.rate is not None]
    if not known:
        return None
    highest = max(100 * (piece.high or 0.0) for _, piece in known)
    plot = Plot(0.0, max(highest, 5.0), 200)
    step = 1 / len(pieces)
    marks = plot.frame(" %")
    for place, piece in known:
        x = plot.x((place + 0.5) * step)
        assert piece.rate is not None
        assert piece.low is not None
        assert piece.high is not None
        marks.append(el("path", d=f"M{x:g} {plot.y(100 * piece.low):g}V{plot.y(100 * piece.high):g}", class_="bar"))
        marks.append(el("circle", cx=x, cy=plot.y(100 * piece.rate), r=4, class_="dot"))
    marks += [plot.foot(0, "earlier", "start"), plot.foot(1, "now", "end")]
    first, last = known[0][1], known[-1][1]
    label = f"Both-bad rate of {name}: {_rate(first)} at first, {_rate(last)} recently"
    return plot.drawn(label, marks)


def _rate(piece: BothBadPiece) -> str:
    return f"{piece.both_bad} of {piece.votes} votes"


def calibration_chart(found: CalibrationCurve, name: str) -> Html | None:
    """Predicted against observed scores with their intervals, over the diagonal; None without votes."""
    if not found.bins:
        return None
    plot = Plot(0.0, 100.0, 260)
    corner, far = (plot.x(0), plot.y(0)), (plot.x(1), plot.y(100))
    marks = [
        *plot.frame(" %"),
        el("path", d=f"M{corner[0]:g} {corner[1]:g}L{far[0]:g} {far[1]:g}", class_="guide"),
    ]
    for piece in found.bins:
        x = plot.x(piece.predicted)
        low, high = plot.y(100 * piece.observed_low), plot.y(100 * piece.observed_high)
        marks.append(el("path", d=f"M{x:g} {low:g}V{high:g}", class_="bar"))
        marks.append(el("circle", cx=x, cy=plot.y(100 * piece.observed), r=4.5, class_="dot"))
    marks += [plot.foot(share, f"{100 * share:.0f} %") for share in (0.0, 0.25, 0.5, 0.75)]
    marks.append(plot.foot(1.0, "100 %", "end"))
    label = f"Predicted score of {name} (across) against the observed one (up), {plural(found.votes, 'vote')}"
    return plot.drawn(label, marks)


def split_bar(wins_a: int, ties: int, both_bad: int, wins_b: int, label: str) -> Html:
    """All votes of a pair as one bar: won by the one, tied, both bad, won by the other."""
    whole = max(wins_a + ties + both_bad + wins_b, 1)
    marks, x = [], 0.0
    for votes, kind in ((wins_a, "a"), (ties, "tie"), (both_bad, "both-bad"), (wins_b, "b")):
        width = 400 * votes / whole
        marks.append(el("path", d=f"M{x:.1f} 0h{width:.1f}v16h-{width:.1f}z", class_=kind))
        x += width
    return el(
        "svg",
        el("title", label),
        *marks,
        class_="split",
        viewBox="0 0 400 16",
        preserveAspectRatio="none",
        role="img",
        aria_label=label,
    )


def form_letters(letters: str) -> Html:
    """Recent results as letters, each in its colour: W, L, D, X."""
    return join([el("span", letter, class_=letter.lower()) for letter in letters])
