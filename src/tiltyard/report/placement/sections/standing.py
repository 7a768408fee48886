"""The result: the model's rating in one sentence, what that number means, and the board around it."""

from __future__ import annotations

from collections.abc import Sequence

from tiltyard.boards import RatingEntry
from tiltyard.boards.text import footnotes, headline
from tiltyard.pages import svg
from tiltyard.pages.markup import Html, el, join, link, number, percent, rating, table
from tiltyard.ratings.quantiles import normal_quantile
from tiltyard.report.counts import behaviour
from tiltyard.report.placement.counts import count_results
from tiltyard.report.placement.folder import Placement
from tiltyard.report.sections.board import rating_row, rating_scale, ratings_table, span
from tiltyard.report.sections.header import cost_tile, share_of, tiles, when
from tiltyard.report.site_map import Here

AROUND = 8
"""Places above and below the model that the picture shows."""
ENDS = 2
"""Places at the top and at the bottom of the board that it shows too."""

SAMPLING_ONLY = "judge’s scale, sampling error only"


def header(here: Here, placed: Placement) -> Html:
    """Title, the answer in a sentence, and the run in figures."""
    arena = placed.manifest.arena
    return el(
        "header",
        el("p", "Tiltyard · one model placed among human battles", class_="over"),
        el("h1", placed.model),
        el("p", sentence(placed), class_="lead"),
        el("p", "Arena ", el("b", arena.name), ": ", number(arena.human_battles), " human battles.", class_="sub"),
        el("p", when(here.run), class_="when"),
        _tiles(here, placed),
    )


def sentence(placed: Placement) -> Html:
    """The model's rating and rank, how certain they are, and how much was judged."""
    entry, battles = placed.entry, [battle for battle in placed.run.battles if battle.settled]
    opponents = {placed.opponent(battle) for battle in battles}
    questions = {battle.prompt_id for battle in battles}
    return join(
        [
            join([el("b", placed.model), " is rated ", el("b", rating(entry.rating, 0)), " ", _bracket(entry)]),
            join([" ", placed.manifest.scale.replace("'", "’"), ", rank ", el("b", number(entry.rank))]),
            join([_places(entry), " of ", number(len(placed.board)), "; "]),
            join(["judged by ", placed.manifest.judge_model, " in ", _many(len(battles), "battle"), " against "]),
            join([_many(len(opponents), "opponent"), " on ", _many(len(questions), "question"), "."]),
        ]
    )


def _bracket(entry: RatingEntry) -> Html:
    ends = [Html("…") if end is None else rating(end, 0) for end in (entry.ci_low, entry.ci_high)]
    return el("span", "[", ends[0], ", ", ends[1], "]", class_="span")


def _places(entry: RatingEntry) -> Html:
    if entry.rank_low is None or entry.rank_high is None:
        return Html("")
    return join([" (", number(entry.rank_low), "–", number(entry.rank_high), ")"])


def _many(count: int, what: str) -> Html:
    return join([number(count), f" {what}" if count == 1 else f" {what}s"])


def _tiles(here: Here, placed: Placement) -> Html:
    counted = count_results(placed, placed.run.battles)
    tied: Html = number(counted.tied)
    if counted.inconsistent:
        tied = join([tied, el("small", number(counted.inconsistent), " inconsistent")])
    items: list[tuple[str, str, str]] = [
        ("won", "opponents", number(counted.won)),
        ("lost", "opponents", number(counted.lost)),
        ("tied", "opponents", tied),
    ]
    flips = behaviour(placed.run.battles).flips
    if flips.n:
        items.append(("changed with the order", "judge", percent(flips.value, 1)))
    failed = join([number(counted.failed), share_of(counted.failed, len(placed.run.battles))])
    items.append(("failed", "failures", failed))
    return tiles(here, [*items, *cost_tile(placed.run)])


def meaning_section(here: Here, placed: Placement) -> Html:
    """What the rating means: the judge's own scale, or people's scale with the judge's added uncertainty."""
    calibrated = placed.manifest.calibration is not None
    note = _calibrated_note(here, placed) if calibrated else _plain_note(placed)
    return el(
        "section",
        el("h2", "What the number means"),
        el("p", note, class_="note"),
        readings(_readings(placed), _level(placed)),
        _sensitivity(placed),
        *([el("p", placed.entry.note, class_="note")] if placed.entry.note else []),
        id="meaning",
    )


def _sensitivity(placed: Placement) -> Html:
    """What style biases of several sizes, which no calibration has seen, would do to the rating."""
    found = placed.manifest.sensitivity
    calibrated = placed.manifest.calibration is not None
    unseen = "than those that the calibration saw" if calibrated else "than the interval allows for: it allows for none"
    rows = [
        [
            join(["± ", number(effect.bias_points, 0)]),
            rating(effect.rating_low, 0),
            rating(effect.rating_high, 0),
            span(effect.ci_low, effect.ci_high),
            join([number(effect.rank_best), "–", number(effect.rank_worst)]),
        ]
        for effect in found.effects
    ]
    columns = ("if favored", "if disfavored", f"either, with its {_level(placed)}", "rank")
    head: list[str | tuple[str, str]] = ["style bias, points", *((word, "num") for word in columns)]
    return el(
        "section",
        el("h3", "If the judge has a bias that was not measured"),
        el(
            "p",
            f"A judge may favor this model’s style more {unseen}. A bias of d points moves the rating by d points. ",
            "This table shows where the rating would be without that bias.",
            class_="note",
        ),
        table(head, rows, class_="sensitivity"),
    )


def _level(placed: Placement) -> str:
    level = (placed.report.details.get("interval") or {}).get("level")
    return f"{100 * level:g} % interval" if level else "interval"


def _readings(placed: Placement) -> list[Reading]:
    entry = placed.entry
    own = entry.extra.get("judge_scale_rating")
    if placed.manifest.calibration is None or own is None:
        name = SAMPLING_ONLY if placed.manifest.calibration is None else "people’s scale, calibrated"
        return [(name, entry.rating, entry.ci_low, entry.ci_high)]
    ends = (entry.extra.get("judge_scale_ci_low"), entry.extra.get("judge_scale_ci_high"))
    return [
        ("people’s scale, calibrated", entry.rating, entry.ci_low, entry.ci_high),
        (SAMPLING_ONLY, own, *ends),
    ]


def _calibrated_note(here: Here, placed: Placement) -> Html:
    calibration = placed.manifest.calibration
    floor = calibration.floor_points if calibration else 0.0
    half = normal_quantile(0.95) * floor
    return join(
        [
            "The calibrated rating is on the scale of people’s votes: the judge was ",
            link(here.section("calibration"), "compared with people"),
            ", and its bias for or against single models widens the interval. The floor τ/β is ",
            number(floor, 0),
            " points: however many battles it judges, this judge’s 95 % interval cannot be narrower than ± ",
            number(half, 0),
            ". The second line leaves this out.",
        ]
    )


def _plain_note(placed: Placement) -> Html:
    return join(
        [
            "This is the ",
            el("b", SAMPLING_ONLY),
            ": the interval says how far the rating would move with other questions and battles, all judged by ",
            placed.manifest.judge_model,
            ". It does not include how well that judge agrees with people; ",
            el("code", "tiltyard place --calibrate 300"),
            " measures that.",
        ]
    )


def board_section(here: Here, placed: Placement) -> Html:
    """The board around the model as dots and intervals, and the whole of it as a table."""
    entries = placed.board.entries
    shown = _shown(len(entries), entries.index(placed.entry))
    scale = rating_scale(entries[place] for place in shown)
    rows: list[Sequence[str]] = []
    before = -1
    for place in shown:
        if place > before + 1:
            rows.append([el("th", f"⋮ {place - before - 1} more", scope="colgroup", colspan=9, class_="group gap")])
        rows.append(_row(here, placed, entries[place], scale))
        before = place
    notes = [el("li", note) for note in footnotes(placed.board)]
    return el(
        "section",
        el("h2", "The board around it"),
        el(
            "p",
            "Dots are ratings, lines their intervals. The dashed line and the shaded band are those of ",
            el("b", placed.model),
            "; a model whose line stays outside the shaded band differs from it with some confidence.",
            class_="note",
        ),
        ratings_table(placed.board, rows, scale, "model"),
        _whole_board(here, placed) if len(shown) < len(entries) else Html(""),
        el("p", headline(placed.board).replace("by question_id", "by question"), class_="note under"),
        el("ul", *notes, class_="note") if notes else Html(""),
        id="board",
    )


def _shown(n: int, place: int) -> list[int]:
    """The places to show: both ends and those around the model; a gap of one is filled."""
    wanted = {*range(ENDS), *range(place - AROUND, place + AROUND + 1), *range(n - ENDS, n)}
    wanted = {i for i in wanted if 0 <= i < n}
    return [i for i in range(n) if i in wanted or {i - 1, i + 1} <= wanted]


def _row(here: Here, placed: Placement, entry: RatingEntry, scale: svg.Scale) -> list[str]:
    own = placed.entry
    band = (own.ci_low, own.ci_high)
    return rating_row(entry, _name(here, placed, entry.model), scale, guide=own.rating, band=band)


def _name(here: Here, placed: Placement, model: str) -> Html:
    """A name on the board: the placed model stands out, an opponent opens its battles."""
    if model == placed.model:
        return el("b", model, class_="placed")
    if model in here.site_map.entrants:
        return link(here.pair(placed.dimension, placed.model, model), model)
    return el("span", model)


def _whole_board(here: Here, placed: Placement) -> Html:
    head: list[str | tuple[str, str]] = [
        "model",
        *((word, "num") for word in ("rank", "rating", _level(placed), "battles", "won", "lost", "tied")),
    ]
    rows = [
        [
            _name(here, placed, entry.model),
            number(entry.rank),
            rating(entry.rating),
            span(entry.ci_low, entry.ci_high),
            *(number(value) for value in (entry.n_battles, entry.wins, entry.losses, entry.ties)),
        ]
        for entry in placed.board
    ]
    summary = el("summary", el("b", "The whole board"), el("span", f"{len(placed.board)} models", class_="aside"))
    return el("details", summary, table(head, rows, class_="whole"), class_="card", id="whole")


Reading = tuple[str, float, float | None, float | None]
"""What it is, the rating, and the two ends of its interval."""


def readings(lines: Sequence[Reading], interval_head: str) -> Html:
    """A row for each reading: its name, the rating, the picture, the interval."""
    scale = svg.Scale.of([end for _, *ends in lines for end in ends if end is not None])
    rows = [
        [name, el("b", rating(value)), svg.interval(scale, value, low, high, f"{name}: {value:.1f}"), span(low, high)]
        for name, value, low, high in lines
    ]
    head: list[str | tuple[str, str]] = ["", ("rating", "num"), (svg.axis(scale), "chart"), (interval_head, "num")]
    return table(head, rows, class_="board readings")
