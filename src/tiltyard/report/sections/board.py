"""The numbers of one dimension: its Bradley–Terry board, permutation Elo, who beats whom, and how Elo depends on K."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from tiltyard.boards import EloReport, Leaderboard, RatingEntry
from tiltyard.boards.text import footnotes, headline, interval_text, rank_text
from tiltyard.pages import svg
from tiltyard.pages.markup import Html, el, join, link, number, percent, rating, table
from tiltyard.report.run import Dimension, met, wins_and_losses
from tiltyard.report.sections.header import why_no_board
from tiltyard.report.site_map import Here
from tiltyard.tournament.ratings import control_notes, controlled_text
from tiltyard.tournament.ratings import interval_text as interval_in_percent
from tiltyard.validity.misfit import fit_sentences, fit_verdict

BINS = 101


def order(here: Here, dimension: Dimension) -> list[str]:
    """The entrants of a dimension, best first: by its board, then by Elo, then as configured."""
    rated = [entry.model for entry in dimension.best_board.ratings] if dimension.best_board else []
    by_elo = sorted(dimension.elo, key=lambda name: -dimension.elo[name].mean)
    met = {name for pair in dimension.pairs for name in (pair.entrant_a, pair.entrant_b)}
    return list(dict.fromkeys([*rated, *by_elo, *(name for name in here.run.entrants if name in met)]))


def board_section(here: Here, dimension: Dimension) -> Html:
    """The Bradley–Terry board: rating, interval, range of places, and counts."""
    report = dimension.board
    if report is None or not report.ratings:
        reason = why_no_board(here.run, dimension)
        return el(
            "section", el("h3", "Ratings"), el("p", "There is no Bradley–Terry board: ", reason, ".", class_="note")
        )
    title = "Ratings" if dimension.calibrated is None else "Ratings by the judge alone, uncorrected"
    return _ratings(here, dimension, report, title)


def people_section(here: Here, dimension: Dimension) -> Html:
    """The board that people's labels correct, and how much of it is theirs; nothing without labels."""
    if dimension.calibrated is None:
        return Html("")
    return _ratings(here, dimension, dimension.calibrated, "Ratings corrected by people's labels")


def _ratings(here: Here, dimension: Dimension, report: EloReport, title: str) -> Html:
    board = as_leaderboard(report)
    scale = rating_scale(board)
    rows = [rating_row(entry, link(here.entrant(dimension.name, entry.model), entry.model), scale) for entry in board]
    notes = [el("li", note) for note in footnotes(board)]
    return el(
        "section",
        el("h3", title),
        el("p", headline(board).replace("by question_id", "by prompt"), class_="note"),
        ratings_table(board, rows, scale),
        el("ul", *notes, class_="note") if notes else Html(""),
    )


def baseline_section(here: Here, dimension: Dimension) -> Html:
    """Win rates against the baseline, plain and controlled for style; nothing where everyone met everyone."""
    against = dimension.against
    if against is None:
        return Html("")
    rows = [
        [
            link(here.pair(dimension.name, one.entrant, against.baseline), one.entrant),
            el("b", percent(one.win_rate, 1)),
            interval_in_percent(one.low, one.high),
            controlled_text(one.length_controlled),
            controlled_text(one.style_controlled),
            *(number(count) for count in (one.wins, one.losses, one.ties, one.mean_length)),
        ]
        for one in against.rates
    ]
    head: list[str | tuple[str, str]] = [
        "entrant",
        *((word, "num") for word in ("win rate", "95 % interval", "length-controlled", "style-controlled")),
        *((word, "num extra") for word in ("won", "lost", "tied", "mean length")),
    ]
    return el(
        "section",
        el("h3", f"Win rate against {against.baseline}"),
        el(
            "p",
            "In per cent, ties counting half, with 95 % intervals by prompt. Length-controlled: the rate expected if "
            "both answers were equally long; style-controlled: if headings, lists and bold passages were equal too.",
            class_="note",
        ),
        table(head, rows, class_="board"),
        el("ul", *[el("li", line) for line in control_notes(against)], class_="note"),
    )


def fit_section(dimension: Dimension) -> Html:
    """How well Bradley–Terry describes the battles of a dimension; nothing for a board without that."""
    record = None if dimension.board is None else dimension.board.details.get("misfit")
    if record is None:
        return Html("")
    checks = [el("li", line) for line in fit_sentences(record)]
    return el("section", el("h3", "Model fit"), el("p", fit_verdict(record)), el("ul", *checks, class_="note"))


def rating_scale(entries: Iterable[RatingEntry]) -> svg.Scale:
    """A scale that holds these ratings with their intervals."""
    ends = [end for entry in entries for end in (entry.rating, entry.ci_low, entry.ci_high) if end is not None]
    return svg.Scale.of(ends)


def ratings_table(board: Leaderboard, rows: Iterable[Sequence[str]], scale: svg.Scale, who: str = "entrant") -> Html:
    """The table of a board, of rows by `rating_row` and titles between them."""
    head: list[str | tuple[str, str]] = [
        who,
        ("rank", "num"),
        ("rating", "num"),
        (join([svg.axis(scale), el("span", "picture", class_="aloud")]), "chart"),
        (_interval_head(board), "num"),
        *((word, "num extra") for word in ("battles", "won", "lost", "tied")),
    ]
    return table(head, rows, class_="board ratings")


def as_leaderboard(report: EloReport) -> Leaderboard:
    """The leaderboard of a ratings file."""
    details = report.details
    n_battles = details.get("n_battles")
    return Leaderboard(
        entries=report.ratings,
        settings=details,
        n_battles=float(n_battles) if n_battles is not None else sum(e.n_battles for e in report.ratings) / 2,
        left_out=details.get("left_out") or {},
        remarks=tuple(details.get("remarks") or ()),
    )


def _interval_head(board: Leaderboard) -> str:
    level = (board.settings.get("interval") or {}).get("level")
    return f"{round(100 * level, 1):g} % interval" if level else "interval"


def rating_row(
    entry: RatingEntry,
    name: str,
    scale: svg.Scale,
    *,
    guide: float | None = None,
    band: tuple[float | None, float | None] | None = None,
) -> list[str]:
    """One line of a board, with the name as it should be shown; `guide` and `band` as in `svg.interval`."""
    places = rank_text(entry)
    label = f"{entry.model}: {entry.rating:.1f}, interval {interval_text(entry)}, place {places}"
    return [
        name,
        el("span", places, class_="rank"),
        el("b", rating(entry.rating)),
        svg.interval(scale, entry.rating, entry.ci_low, entry.ci_high, label, guide=guide, band=band),
        span(entry.ci_low, entry.ci_high),
        *(number(value) for value in (entry.n_battles, entry.wins, entry.losses, entry.ties)),
    ]


def span(low: float | None, high: float | None, digits: int = 0) -> Html:
    """`1012 – 1050`, with an ellipsis on an open side."""
    ends = [Html("…") if end is None else rating(end, digits) for end in (low, high)]
    return el("span", ends[0], " – ", ends[1], class_="span")


def elo_section(here: Here, dimension: Dimension) -> Html:
    """Permutation Elo: mean, its shuffle error, the sampling interval beside it, and the spread over the shuffles."""
    title = el("h3", "Elo over shuffles")
    if not dimension.elo:
        return el("section", title, el("p", "No decisive match, so no Elo.", class_="note"))
    lines = dimension.elo
    ends = [end for line in lines.values() for end in (line.sampling_low, line.sampling_high) if end is not None]
    scale = svg.Scale.of([float(dimension.traces.min()), float(dimension.traces.max()), *ends])
    counts = _histograms(dimension, scale)
    most = max(int(row.max()) for row in counts.values()) or 1
    rows = [
        _elo_row(here, dimension, name, _hill(dimension, name, scale, counts[name].tolist(), most))
        for name in order(here, dimension)
        if name in lines
    ]
    head: list[str | tuple[str, str]] = [
        "entrant",
        ("mean", "num"),
        (join(["± SEM ", el("small", "shuffle error only")]), "num"),
        (join(["95 % interval ", el("small", "other prompts")]), "num"),
        (svg.axis(scale), "chart"),
    ]
    return el(
        "section", title, el("p", _elo_note(here, dimension), class_="note"), table(head, rows, class_="board elo")
    )


def _hill(dimension: Dimension, name: str, scale: svg.Scale, counts: list[int], most: int) -> Html:
    line = dimension.elo[name]
    label = f"{name}: mean {line.mean:.1f} over {len(dimension.traces)} shuffles"
    if line.sampling_low is not None and line.sampling_high is not None:
        label += f", sampling interval {line.sampling_low:.0f} to {line.sampling_high:.0f}"
    return svg.histogram(scale, counts, most, label, mean=line.mean, low=line.sampling_low, high=line.sampling_high)


def _elo_row(here: Here, dimension: Dimension, name: str, picture: Html) -> list[str]:
    line = dimension.elo[name]
    return [
        link(here.entrant(dimension.name, name), name),
        el("b", rating(line.mean)),
        join(["± ", number(line.sem, 2)]),
        span(line.sampling_low, line.sampling_high) if line.sampling_low is not None else number(None),
        picture,
    ]


def _elo_note(here: Here, dimension: Dimension) -> Html:
    return join(
        [
            number(dimension.n_decisive),
            " decisive match in " if dimension.n_decisive == 1 else " decisive matches in ",
            number(len(dimension.traces)),
            " random orders, K ",
            number(here.run.default_k),
            "; ties and inconsistent judgments left out. The histogram shows an entrant’s rating over the orders. The "
            "SEM shrinks with more shuffles and says nothing about other prompts; the line below the histogram does.",
        ]
    )


def _histograms(dimension: Dimension, scale: svg.Scale) -> dict[str, np.ndarray]:
    edges = np.linspace(scale.low, scale.high, BINS + 1)
    return {
        name: np.histogram(dimension.traces[:, place], edges)[0] for place, name in enumerate(dimension.trace_entrants)
    }


SHADES = 10


def shaded(share: float, *children: str) -> Html:
    """A cell shaded by its share between 0 and 1."""
    return el("td", *children, class_=f"heat h{round(SHADES * min(max(share, 0.0), 1.0))}")


def win_rate_section(here: Here, dimension: Dimension) -> Html:
    """The share each entrant (row) won against each other (column), ties counting half; a cell opens its battles."""
    tallies = {frozenset((pair.entrant_a, pair.entrant_b)): pair for pair in dimension.pairs}
    names = [name for name in order(here, dimension) if any(name in pair for pair in tallies)]

    def cell(row: str, column: str) -> Html:
        pair = tallies.get(frozenset((row, column)))
        if row == column or pair is None or not met(pair):
            return el("td", "·" if row == column else "–", class_="heat none")
        won, lost = wins_and_losses(pair, row)
        share = (won + 0.5 * pair.ties) / met(pair)
        counts = el("small", number(won), "–", number(lost), "–", number(pair.ties))
        return shaded(share, link(here.pair(dimension.name, row, column), percent(share), el("br"), counts))

    rows = [[el("span", name), *(cell(name, other) for other in names)] for name in names]
    return el(
        "section",
        el("h3", "Who beats whom"),
        el(
            "p",
            "Share that the row won against the column, ties counting half; below it won–lost–tied, with inconsistent "
            "judgments among the ties. Click a cell for its battles.",
            class_="note",
        ),
        table(["", *((name, "tall") for name in names)], rows, class_="heatmap"),
    )


def k_section(here: Here, dimension: Dimension) -> Html:
    """Entrants × K: mean Elo on the same shuffles, with the resulting place. An order that depends on K is fragile."""
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
            " Mean Elo ± SEM (shuffle error only) on the same shuffles; # is the rank.",
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
