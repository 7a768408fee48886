"""Two tables with shaded cells: who beats whom, and how Elo depends on K. Darker is more, in colour and in grey."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tiltyard.pages.markup import Html, el, join, link, number, percent, rating, table
from tiltyard.report.sections.board import order

if TYPE_CHECKING:
    from tiltyard.report.run import Dimension
    from tiltyard.report.site import Here

SHADES = 10


def shaded(share: float, *children: str) -> Html:
    """A cell as dark as its share between 0 and 1."""
    return el("td", *children, class_=f"heat h{round(SHADES * min(max(share, 0.0), 1.0))}")


def win_rate_section(here: Here, dimension: Dimension) -> Html:
    """The share each entrant (row) won against each other (column), ties counting half; a cell opens its battles."""
    tallies = {frozenset((pair.entrant_a, pair.entrant_b)): pair for pair in dimension.pairs}
    names = [name for name in order(here, dimension) if any(name in pair for pair in tallies)]

    def cell(row: str, column: str) -> Html:
        pair = tallies.get(frozenset((row, column)))
        if row == column or pair is None or not pair.n:
            return el("td", "·" if row == column else "–", class_="heat none")
        won, lost = pair.seen_from(row)
        share = (won + 0.5 * pair.ties) / pair.n
        counts = el("small", number(won), "–", number(lost), "–", number(pair.ties))
        return shaded(share, link(here.pair(dimension.name, row, column), percent(share), el("br"), counts))

    rows = [[el("span", name), *(cell(name, other) for other in names)] for name in names]
    return el(
        "section",
        el("h3", "Who beats whom"),
        el(
            "p",
            "Share the row won against the column, ties counting half; below it won–lost–tied, inconsistent "
            "judgments among the ties. Open a cell for its battles.",
            class_="note",
        ),
        table(["", *((name, "tall") for name in names)], rows, class_="heatmap"),
    )


def k_section(here: Here, dimension: Dimension) -> Html:
    """Entrants × K: mean Elo on the same shuffles, with the place it gives. An order that depends on K is fragile."""
    if not dimension.sweep:
        return Html("")
    means = {k: {name: line.mean for name, line in lines.items()} for k, lines in dimension.sweep.items()}
    every = [mean for column in means.values() for mean in column.values()]
    low, high = min(every), max(every)

    def cell(k: str, name: str) -> Html:
        if name not in means[k]:
            return el("td", "–", class_="heat none")
        mean = means[k][name]
        place = 1 + sum(other > mean for other in means[k].values())
        share = (mean - low) / (high - low) if high > low else 0.5
        sem = el("small", "± ", number(dimension.sweep[k][name].sem, 1))
        return shaded(share, rating(mean, 0), " ", el("sup", f"#{place}"), el("br"), sem)

    rows = [
        [el("span", name), *(cell(k, name) for k in means)]
        for name in order(here, dimension)
        if any(name in column for column in means.values())
    ]
    return el(
        "section",
        el("h3", "Does the order depend on K?"),
        el(
            "p",
            _orders(means),
            " Mean Elo ± SEM (shuffle error only) on the same shuffles, # its place.",
            class_="note",
        ),
        table(["", *((f"K {k}", "tall") for k in means)], rows, class_="heatmap"),
    )


def _orders(means: dict[str, dict[str, float]]) -> Html:
    """One sentence: the same order at every K, or at which it differs from the first."""
    orders = {k: sorted(column, key=lambda name: -column[name]) for k, column in means.items()}
    first = next(iter(orders.values()))
    other = [k for k, names in orders.items() if names != first]
    if not other:
        return Html("No: every K gives the same order.")
    return join(["Yes: the order at K ", ", ".join(other), " is not that at K ", next(iter(orders)), "."])
