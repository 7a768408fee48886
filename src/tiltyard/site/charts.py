"""The site's pictures: intervals, heatmaps, and plots of ratings, places, prices and predictions."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence

import msgspec
import numpy as np

from tiltyard.arena import BothBadPiece, ModelDetail, RatingPath, results_by_prompt_and_opponent
from tiltyard.arena.study import History, ModelFacts, Snapshot
from tiltyard.render import BROAD, Html, Plot, dot, path, plural, shares, text, thin_interval, words
from tiltyard.site.addresses import compare_address
from tiltyard.site.board_columns import BoardLine
from tiltyard.stats import CalibrationCurve

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

NAMES_WIDTH = 190
LINES = 10
"""Models whose lines are drawn: the first of today's board."""

LABEL_GAP = 15
PRICED = 2
"""The fewest models with a price for which a plot is drawn."""


def interval_bar(line: BoardLine) -> Html | None:
    """The interval of a line's raw rating, drawn in its cell; None where there is none."""
    if line.scale is None or line.span is None:
        return None
    low, high = line.span
    ends = ["…" if end is None else f"{end:.0f}" for end in (low, high)]
    tick, of = (None, "") if line.printed == line.raw else (line.printed, " of the raw rating")
    return thin_interval(line.scale, line.raw, low, high, f"95 % interval{of} {' to '.join(ends)}", tick=tick)


class HeatCell(msgspec.Struct, frozen=True):
    """A cell of a heatmap: its text, what it says aloud and leads to; without words it is empty."""

    class_: str
    text: str = ""
    words: str = ""
    href: str = ""


class HeatmapView(msgspec.Struct, frozen=True):
    """A table of shaded cells."""

    caption: str
    columns: Sequence[str]
    rows: Sequence[tuple[str, Sequence[HeatCell]]]
    class_: str = "heatmap"


EMPTY = HeatCell("void")


def win_rate_heatmap(snapshot: Snapshot, lines: Sequence[BoardLine]) -> HeatmapView:
    """The share of rated votes that the row won against the column, a tie counting half."""
    chosen = [line.facts for line in lines[:HEATMAP_MODELS]]
    numbers = [model.number for model in chosen]
    wins, ties = (counts[np.ix_(numbers, numbers)].tolist() for counts in (snapshot.wins, snapshot.ties))

    def cell(i: int, j: int) -> HeatCell:
        of, to, rated = chosen[i], chosen[j], wins[i][j] + wins[j][i] + ties[i][j]
        if i == j or not rated:
            return EMPTY if i == j else HeatCell("none", "·")
        share = (wins[i][j] + 0.5 * ties[i][j]) / rated
        evidence = rated / (rated + 12)  # few votes leave a cell in the middle of the scale
        label = f"{of.display_name} against {to.display_name}: {100 * share:.0f} % of {plural(rated, 'vote')}"
        return _shaded(0.5 + (share - 0.5) * evidence, f"{100 * share:.0f}", label, of, to)

    return _heatmap("Win rate of the row against the column, in percent", chosen, cell)


def battles_heatmap(snapshot: Snapshot, lines: Sequence[BoardLine]) -> HeatmapView:
    """How many counted votes every pair has."""
    chosen = [line.facts for line in lines[:HEATMAP_MODELS]]
    pairs = np.ix_([model.number for model in chosen], [model.number for model in chosen])
    met = (snapshot.wins[pairs] + snapshot.wins[pairs].T + snapshot.ties[pairs] + snapshot.both_bad[pairs]).tolist()
    most = max(map(max, met), default=0) or 1

    def cell(i: int, j: int) -> HeatCell:
        if i == j:
            return EMPTY
        label = f"{chosen[i].display_name} and {chosen[j].display_name}: {plural(met[i][j], 'vote')}"
        return _shaded(met[i][j] / most, f"{met[i][j]:,}", label, chosen[i], chosen[j])

    return _heatmap("Counted votes of every pair", chosen, cell)


def _heatmap(caption: str, models: Sequence[ModelFacts], cell: Callable[[int, int], HeatCell]) -> HeatmapView:
    places = range(len(models))
    rows = [(models[i].display_name, [cell(i, j) for j in places]) for i in places]
    return HeatmapView(caption, [model.display_name for model in models], rows)


def _shaded(share: float, shown: str, label: str, of: ModelFacts, to: ModelFacts) -> HeatCell:
    shade = round(SHADES * min(max(share, 0.0), 1.0))
    return HeatCell(f"heat h{shade}", shown, label, compare_address(of.model, to.model))


def rival_grid(
    model: ModelFacts, detail: ModelDetail, answers: Collection[str], snapshot: Snapshot, asked: Mapping[str, str]
) -> tuple[HeatmapView, int]:
    """What a model lacks on each prompt against each opponent, the nearest in rank; and how many prompts are left out.

    A cell is the number of decisive votes that are missing, a stronger colour for more; won–lost stands behind it.
    """
    heatmap, rank = detail.heatmap, detail.row.rank
    first = max(0, min(rank - 1 - NEAREST // 2, len(heatmap.opponents) - NEAREST))
    near = slice(first, first + NEAREST)
    rivals = [snapshot.model(name) for name in heatmap.opponents[near]]
    numbers = {facts.prompt_id: facts.number for facts in snapshot.prompts}
    missing = {name: line[near] for name, line in zip(heatmap.prompts, heatmap.deficits, strict=True)}
    counted = results_by_prompt_and_opponent(snapshot.study.votes, model.number)
    records = (*detail.prompts, *detail.retired_prompts)
    kept = sorted(
        sorted(records, key=lambda record: -record.votes)[:GRID_PROMPTS], key=lambda record: record.score or 0
    )
    rows = []
    for record in kept:
        name, number = record.name, numbers[record.name]
        results = counted[number].tolist() if number < len(counted) else []
        text = asked.get(name, name)
        cells = []
        for rival, deficit in zip(rivals, missing.get(name, (None,) * len(rivals)), strict=True):
            won, lost, tied, bad = results[rival.number] if rival.number < len(results) else NO_VOTES
            lacks = 0 if deficit is None else math.ceil(deficit * heatmap.target)
            result = f"{won} won, {lost} lost, {tied} tied, {bad} both bad"
            label = f"{rival.display_name}, {text}: " + (f"{lacks} missing; {result}" if lacks else result)
            linked = name in answers and won + lost + tied + bad
            address = compare_address(model.model, rival.model, name) if linked else ""
            shown = f"{won}–{lost}" if deficit is None else str(lacks)
            cells.append(HeatCell(f"heat h{round(SHADES * (deficit or 0.0))}", shown, label, address))
        rows.append((text, cells))
    caption = "Missing votes by prompt and opponent"
    head = [rival.display_name for rival in rivals]
    return HeatmapView(caption, head, rows, "heatmap texts"), len(records) - len(kept)


def path_chart(ratings: RatingPath, name: str) -> Html | None:
    """Rating and the band of two deviations over a model's votes; None for fewer than two votes."""
    if len(ratings.rating) < 2:
        return None
    chosen = np.unique(np.linspace(0, len(ratings.rating) - 1, MOST_POINTS).round().astype(int))
    rated, deviation = ratings.rating[chosen], ratings.deviation[chosen]
    low, high = rated - 2 * deviation, rated + 2 * deviation
    settled = slice(min(len(chosen) // 20, len(chosen) - 1), None)  # the first votes' bands would hide all the others
    plot = Plot(float(low[settled].min()), float(high[settled].max()), 260)
    xs = [plot.x(place / max(len(ratings.rating) - 1, 1)) for place in chosen.tolist()]
    up = plot.line(zip(xs, map(plot.y, high.tolist()), strict=True))
    down = plot.line(zip(reversed(xs), map(plot.y, low[::-1].tolist()), strict=True))
    line = plot.line(zip(xs, map(plot.y, rated.tolist()), strict=True))
    marks = [
        *plot.frame(),
        path(f"M{up}L{down}z", "band"),
        path(f"M{line}", "line"),
        *plot.titles("rating", "rated votes"),
        plot.foot(0, "first vote", "start"),
        plot.foot(1, plural(len(ratings.rating), "rated vote"), "end"),
    ]
    label = (
        f"Rating of {name} over {plural(len(ratings.rating), 'vote')}: now {rated[-1]:.0f}, band {low[-1]:.0f} to "
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
    marks = [*plot.frame(" %"), *plot.titles("both bad", "time")]
    for place, piece in known:
        x = plot.x((place + 0.5) * step)
        assert piece.rate is not None
        assert piece.low is not None
        assert piece.high is not None
        marks.append(path(f"M{x:g} {plot.y(100 * piece.low):g}V{plot.y(100 * piece.high):g}", "bar"))
        marks.append(dot(x, plot.y(100 * piece.rate), 4))
    marks += [plot.foot(0, "earlier", "start"), plot.foot(1, "now", "end")]
    first, last = known[0][1], known[-1][1]
    label = f"Both-bad rate of {name}: {_rate(first)} at first, {_rate(last)} recently"
    return plot.drawn(label, marks)


def _rate(piece: BothBadPiece) -> str:
    return f"{piece.both_bad} of {piece.votes} votes"


def calibration_chart(curve: CalibrationCurve, name: str) -> Html | None:
    """Predicted against observed scores with their intervals, over the diagonal; None without votes."""
    if not curve.bins:
        return None
    plot = Plot(0.0, 100.0, 260)
    corner, far = (plot.x(0), plot.y(0)), (plot.x(1), plot.y(100))
    marks = [
        *plot.frame(" %"),
        path(f"M{corner[0]:g} {corner[1]:g}L{far[0]:g} {far[1]:g}", "guide"),
        *plot.titles("observed", "predicted"),
    ]
    for piece in curve.bins:
        x = plot.x(piece.predicted)
        low, high = plot.y(100 * piece.observed_low), plot.y(100 * piece.observed_high)
        marks.append(path(f"M{x:g} {low:g}V{high:g}", "bar"))
        marks.append(dot(x, plot.y(100 * piece.observed)))
    marks += [plot.foot(share, f"{100 * share:.0f} %") for share in (0.0, 0.25, 0.5, 0.75)]
    marks.append(plot.foot(1.0, "100 %", "end"))
    label = f"Predicted score of {name} (across) against the observed one (up), {plural(curve.votes, 'vote')}"
    return plot.drawn(label, marks)


def split_bar(wins_a: int, ties: int, both_bad: int, wins_b: int, label: str) -> Html:
    """All votes of a pair as one bar: won by the one, tied, both bad, won by the other."""
    return shares((wins_a, ties, both_bad, wins_b), label, ("a", "tie", "both-bad", "b"), "split")


def rating_history(history: History, names: Mapping[str, str]) -> Html | None:
    """The ratings of the first models by day; None for fewer than two days."""
    values = history.rating[:, :LINES]
    known = values[~np.isnan(values)]
    if len(history.days) < 2 or not len(known):
        return None
    late = values[len(values) // 10 :]
    low, high = float(np.nanmin(late)), float(np.nanmax(late))
    plot = Plot(low, high, 360, BROAD, NAMES_WIDTH)
    label = f"Ratings of the first {min(LINES, len(history.models))} models of today by day"
    return _lines(plot, history, names, lambda day, place: float(values[day, place]), label, "rating")


def place_history(history: History, names: Mapping[str, str]) -> Html | None:
    """Their places by day; None for fewer than two days."""
    places = history.place[:, :LINES]
    if len(history.days) < 2 or not places.any():
        return None
    plot = Plot(1.0, float(max(places.max(), 2)), 320, BROAD, NAMES_WIDTH, falls=True)
    label = f"Places of the first {min(LINES, len(history.models))} models of today by day"
    return _lines(plot, history, names, lambda day, place: float(places[day, place]) or math.nan, label, "rank")


def _lines(
    plot: Plot, history: History, names: Mapping[str, str], value: Callable[[int, int], float], label: str, up: str
) -> Html:
    last = len(history.days) - 1
    marks, ends = [*plot.frame(), *plot.titles(up, "day")], []
    for one, model in enumerate(history.models[:LINES]):
        points = [(day, value(day, one)) for day in range(len(history.days))]
        seen = [(plot.x(day / last), plot.y(at)) for day, at in points if not math.isnan(at)]
        if not seen:
            continue
        marks.append(path(f"M{plot.line(seen)}", f"line line{one}"))
        marks.append(dot(seen[-1][0], seen[-1][1], 3.5, f"end line{one}"))
        ends.append((seen[-1][1], names.get(model, model), one))
    at = -math.inf
    for y, name, one in sorted(ends):
        at = max(y, at + LABEL_GAP)
        marks.append(words(plot.x(1) + 10, round(at + 4, 1), _short(name), class_=f"name line{one}"))
    marks += [plot.foot(0, history.days[0], "start"), plot.foot(1, history.days[-1], "end")]
    return plot.drawn(label, marks)


def _short(name: str) -> str:
    return name if len(name) <= 24 else f"{name[:23]}…"


def price_plot(lines: Sequence[BoardLine]) -> Html | None:
    """Ratings (up) against prices (across, each step ten times as dear); None if too few models have a price."""
    priced = [(line, line.facts.price) for line in lines if line.facts.price]
    if len(priced) < PRICED:
        return None
    logs = [math.log10(price) for _, price in priced if price]
    left, right = math.floor(min(logs) * 2 - 0.2) / 2, math.ceil(max(logs) * 2 + 0.2) / 2
    rated = [line.row.rating_shown for line, _ in priced]
    plot = Plot(min(rated), max(rated), 360, BROAD, 120)
    marks = [*plot.frame(), *plot.titles("rating", "$ for a million tokens of output")]
    for tick in range(math.ceil(left), math.floor(right) + 1):
        share = (tick - left) / (right - left)
        marks.append(path(f"M{plot.x(share):g} 12V{plot.height - 30}", "grid"))
        marks.append(plot.foot(share, f"${10.0**tick:g}"))
    taken: list[tuple[float, float]] = []
    for line, price in sorted(priced, key=lambda pair: -pair[0].row.rating_shown):
        x, y = plot.x((math.log10(price or 1.0) - left) / (right - left)), plot.y(line.row.rating_shown)
        title = text(f"{line.row.display_name}: {line.row.rating_shown:.0f} for ${price:g}")
        marks.append(f'<circle cx="{x}" cy="{y}" r="4.5" class="dot"><title>{title}</title></circle>')
        if all(abs(y - other) > LABEL_GAP - 2 or abs(x - beside) > 150 for beside, other in taken):
            marks.append(words(x + 8, y + 4, _short(line.row.display_name), class_="name"))
            taken.append((x, y))
    label = f"Rating (up) against the price of a million tokens (across) of {plural(len(priced), 'model')}"
    return plot.drawn(label, marks)
