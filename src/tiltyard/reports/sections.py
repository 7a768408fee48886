"""What the templates of reports ask for: values computed from a run or a board, as plain lists and mappings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from tiltyard.analysis.boards import (
    BradleyTerry,
    Leaderboard,
    RatingEntry,
    RatingsFile,
    footnotes,
    headline,
    interval_head,
    interval_text,
    rank_text,
)
from tiltyard.data.battles import BattleTable, read_battles
from tiltyard.errors import TiltyardError
from tiltyard.judge.tournament import JudgeHabits
from tiltyard.judge.verdicts import VerdictLabel
from tiltyard.render import Scale, svg
from tiltyard.reports.grid import MOST_CELLS, GridCell, GridRow, grid, kind_column
from tiltyard.reports.run import Dimension, JudgedBattle, Run, grouped
from tiltyard.reports.site_map import Here
from tiltyard.stats import normal_quantile, wilson


def board_view(
    board: Leaderboard, places: Iterable[int] | None = None, placed: RatingEntry | None = None
) -> dict[str, Any]:
    """A board as the macro `board` draws it, or its lines at some places counted from 0.

    A row is an entry, its ranks, its interval, and how many lines above it are left out. Others are compared with the
    placed one.
    """
    shown = list(range(len(board)) if places is None else places)
    entries = [board.entries[place] for place in shown]
    gaps = [place - before - 1 for before, place in zip([shown[0] - 1, *shown], shown, strict=False)]
    return {
        "rows": [(one, rank_text(one), interval_text(one), gap) for one, gap in zip(entries, gaps, strict=True)],
        "scale": rating_scale(entries),
        "interval_head": interval_head(board.settings),
        "guide": placed and placed.rating,
        "band": placed and (placed.ci_low, placed.ci_high),
    }


def rating_scale(entries: Iterable[RatingEntry]) -> Scale:
    """A scale that holds these ratings with their intervals."""
    ends = [end for entry in entries for end in (entry.rating, entry.ci_low, entry.ci_high) if end is not None]
    return Scale.of(ends)


def as_leaderboard(report: RatingsFile) -> Leaderboard:
    """The leaderboard of a ratings file."""
    n_battles = report.n_battles
    return Leaderboard(
        entries=report.ratings,
        settings=report.settings,
        n_battles=sum(entry.n_battles for entry in report.ratings) / 2 if n_battles is None else n_battles,
        left_out=report.left_out,
        remarks=report.remarks,
        details=report.details,
    )


BINS = 101
"""Columns of a histogram."""

MOST_CATEGORIES = 40
"""With more values than this, a column names prompts rather than kinds of prompts."""


def results_of(run: Run, dimension: str) -> Mapping[str, Any]:
    """What the manifest says of a dimension."""
    return (run.results.get("dimensions") or {}).get(dimension) or {}


def habits_of(run: Run, dimension: str) -> JudgeHabits | None:
    """The judge's habits in a dimension, as the manifest has them."""
    record = results_of(run, dimension)
    return msgspec.convert(record["habits"], JudgeHabits) if "habits" in record else None


# One dimension


def order(run: Run, dimension: Dimension) -> list[str]:
    """The entrants of a dimension, best first: by its board, then by Elo, then as configured."""
    rated = [entry.model for entry in dimension.best_board.ratings] if dimension.best_board else []
    by_elo = sorted(dimension.elo, key=lambda name: -dimension.elo[name].mean)
    paired = {name for pair in dimension.pairs for name in (pair.entrant_a, pair.entrant_b)}
    return list(dict.fromkeys([*rated, *by_elo, *(name for name in run.entrants if name in paired)]))


def boards(dimension: Dimension) -> list[tuple[str, str, dict[str, Any], list[str]]]:
    """The boards of a dimension: title, headline, lines, notes."""
    own, people = dimension.board, dimension.calibrated
    title = "Ratings" if people is None else "Ratings by the judge alone, not corrected"
    shown = [("Ratings corrected by people's labels", people), (title, own)]
    made = [(title, as_leaderboard(report)) for title, report in shown if report is not None and report.ratings]
    return [(title, headline(board), board_view(board), footnotes(board)) for title, board in made]


def first_places(dimension: Dimension, most: int) -> dict[str, Any]:
    """The lines of a dimension's best board, up to so many."""
    assert dimension.best_board is not None
    board = as_leaderboard(dimension.best_board)
    return board_view(board, range(min(len(board), most)))


def battles_of(run: Run, dimension: Dimension) -> BattleTable:
    """The battles of a dimension, as the run wrote them."""
    table = read_battles(run.folder, columns=["question_id", "dimension"])
    dimensions = table.text_column("dimension")
    return table.take(np.array([label == dimension.name for label in dimensions.labels] or [False])[dimensions.codes])


def elo(dimension: Dimension) -> dict[str, Any]:
    """A scale for permutation Elo, a histogram over the shuffles for each entrant, and the highest column of all."""
    lines, traces = dimension.elo.values(), dimension.traces
    ends = [end for line in lines for end in (line.sampling_low, line.sampling_high) if end is not None]
    scale = svg.Scale.of([float(end) for trace in traces.values() for end in (trace.min(), trace.max())] + ends)
    edges = np.linspace(scale.low, scale.high, BINS + 1)
    counts = {name: np.histogram(trace, edges)[0].tolist() for name, trace in traces.items()}
    shuffles = max(map(len, traces.values()))
    return {"scale": scale, "counts": counts, "most": max(map(max, counts.values())) or 1, "n_shuffles": shuffles}


def wins(dimension: Dimension) -> dict[tuple[str, str], tuple[int, int, int]]:
    """Won, lost and tied of one entrant against another, inconsistent judgments among the ties."""
    counts = {}
    for pair in dimension.pairs:
        counts[pair.entrant_a, pair.entrant_b] = (pair.a_wins, pair.b_wins, pair.ties)
        counts[pair.entrant_b, pair.entrant_a] = (pair.b_wins, pair.a_wins, pair.ties)
    return counts


def sweep(dimension: Dimension) -> tuple[list[str], float, float]:
    """The Ks at which the order is not that of the first, and the lowest and the highest mean of all."""
    orders = {k: sorted(lines, key=lambda name: -lines[name].mean) for k, lines in dimension.sweep.items()}
    first, *_ = orders.values()
    means = [line.mean for lines in dimension.sweep.values() for line in lines.values()]
    return [k for k, names in orders.items() if names != first], min(means), max(means)


def categories(run: Run, dimension: Dimension) -> dict[str, Any] | None:
    """A board per category, and where each entrant is best and worst; None where prompts are of one kind."""
    column, kinds = kind_column(run.prompts)
    if dimension.board is None or not 1 < len(set(kinds.values())) <= MOST_CATEGORIES:
        return None
    table = battles_of(run, dimension)
    questions = table.text_column("question_id")
    kind_of = np.array([kinds.get(label, "") for label in questions.labels] or [""])[questions.codes]
    estimator = BradleyTerry(only_connected=True, misfit=False)
    entries: dict[str, dict[str, RatingEntry]] = {}
    missing = []
    for kind in sorted(set(kinds.values())):
        try:
            board = estimator.fit(table.take(kind_of == kind).compact())
        except TiltyardError as error:
            missing.append(f"{kind}: no board: {error}")
        else:
            entries[kind] = {entry.model: entry for entry in board}
    if len(entries) < 2:
        return None
    extremes: dict[str, list[tuple[str, RatingEntry]]] = {}
    for name in order(run, dimension):
        own = [(kind, rated[name]) for kind, rated in entries.items() if name in rated]
        if len(own) > 1:
            extremes[name] = [choose(own, key=lambda one: one[1].rating) for choose in (max, min)]
    return {"column": column, "entries": entries, "extremes": extremes, "missing": missing}


def habits(here: Here, dimension: Dimension) -> list[tuple[str, list[tuple[str, Behaviour, str]]]]:
    """The judge's habits in groups with titles: overall, by judge, by source, by pair, each with its address."""
    run, site_map, names = here.run, here.site_map, here.run.entrants
    battles = run.of_dimension(dimension.name)
    by_judge = grouped(battles, lambda battle: ", ".join(battle.judges) or "none")
    by_source = grouped(battles, lambda battle: run.prompts[battle.prompt_id].source or "no source")
    by_pair = [
        (f"{names[a]} – {names[b]}", behaviour(some), here.pair(dimension.name, names[a], names[b]))
        for (number, a, b), some in site_map.by_pair.items()
        if number == site_map.dimensions[dimension.name]
    ]
    return [
        ("", [("all judgments", behaviour(battles), "")]),
        ("by judge", [(name, behaviour(some), "") for name, some in by_judge.items()]),
        ("by source", [(name, behaviour(some), source_address(here, name)) for name, some in by_source.items()]),
        ("by pair", by_pair),
    ]


def prompts_by_source(run: Run) -> dict[str, list[Any]]:
    """The prompts of each source."""
    groups: dict[str, list[Any]] = {}
    for prompt in run.prompts.values():
        groups.setdefault(prompt.source or "no source", []).append(prompt)
    return groups


def source_address(here: Here, source: str) -> str:
    """The address of a source in the list of prompts."""
    return here.section(f"s{list(prompts_by_source(here.run)).index(source)}")


def failures(run: Run) -> dict[str, Any]:
    """Verdicts that could not be used by name, with those of each dimension, and every judgment that failed for it."""
    return {
        "names": [label for label in verdict_counts(run.battles) if not label.readable],
        "counts": {one.name: verdict_counts(run.of_dimension(one.name)) for one in run.dimensions},
        "battles": [battle for battle in run.battles if not battle.settled],
    }


# Battles and prompts


def opponents(here: Here, dimension: Dimension) -> dict[str, list[tuple[str, list[JudgedBattle]]]]:
    """Every entrant of a dimension with its opponents and their judgments."""
    names, number = here.run.entrants, here.site_map.dimensions[dimension.name]
    met: dict[str, list[tuple[str, list[JudgedBattle]]]] = {name: [] for name in order(here.run, dimension)}
    for (place, a, b), battles in here.site_map.by_pair.items():
        if place == number:
            met.setdefault(names[a], []).append((names[b], battles))
            met.setdefault(names[b], []).append((names[a], battles))
    return met


def tally(battles: Iterable[JudgedBattle]) -> Counter[str]:
    """How often each outcome occurred in these judgments."""
    return Counter(battle.outcome for battle in battles)


def results_grid(here: Here, dimension: Dimension) -> dict[str, Any] | None:
    """Every prompt with a settled judgment, those on which the entrants differ most first; None without any."""
    run = here.run
    settled = [battle for battle in run.of_dimension(dimension.name) if battle.settled]
    if not settled:
        return None
    kinds, names = kind_column(run.prompts)[1], order(run, dimension)
    rows = []
    for prompt, battles in grouped(settled, lambda battle: battle.prompt_id).items():
        own = {name: [battle for battle in battles if name in battle.entrants] for name in names}
        cells: list[GridCell | None] = []
        for name, some in own.items():
            won, tied = (sum(battle.winner == end for battle in some) for end in (name, None))
            lost = len(some) - won - tied
            cells.append(GridCell((won + 0.5 * tied) / len(some), won, lost, tied) if some else None)
        scores = [cell.score or 0.0 for cell in cells if cell is not None]
        spread = max(scores) - min(scores) if scores else -1.0
        everything = here.prompt(prompt)  # a cell of a single battle leads to that battle
        targets = [here.battle(some[0]) if len(some) == 1 else everything for some in own.values()]
        text, kind = run.prompts[prompt].text, kinds.get(prompt)
        rows.append(GridRow(prompt, cells, text, kind, everything, targets, weight=(spread,)))
    rows.sort(key=lambda row: row.weight, reverse=True)
    return grid(
        [(name, f"where {name} lost") for name in names],
        rows,
        label=f"{dimension.name}, prompt by prompt",
        most=MOST_CELLS // (len(names) * len(run.dimensions)),
        omitted="on which the entrants differ least are left out, to keep the page usable; they are listed under "
        "Prompts.",
    )


# What it cost


def cost(run: Run) -> dict[str, Any] | None:
    """What all verdicts of the run cost, whichever command asked for them; None if no price is known."""
    usage = run.usage or {}
    total, rows = usage.get("total") or {}, list((usage.get("dimensions") or {}).values())
    paid, unknown = total.get("cost_usd"), total.get("replies_without_usage") or 0
    kept = verdicts_cost(rows) if total.get("cache_hits") else None
    usd = paid if kept is None else max(kept, paid or 0.0)
    if usd is None:
        return None
    if kept is not None:
        unknown = max(unknown, sum((row.get("verdicts") or {}).get("replies_without_usage") or 0 for row in rows))
    return {"usd": usd, "unknown": unknown, "has_last": kept is not None, "last": paid}


def usage_rows(usage: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    """Usage of the last command by dimension, the total, and of a panel what each judge has of it.

    After earlier commands, `verdicts_usd` is what all verdicts cost.
    """
    columns, judges = list(usage["total"]), usage.get("judges", {})
    groups = [
        *((name, row, [row]) for name, row in usage["dimensions"].items()),
        ("total", usage["total"], usage["dimensions"].values()),
        *((f"by {name}", _summed(rows.values(), columns), rows.values()) for name, rows in judges.items()),
    ]
    later = bool(usage["total"].get("cache_hits"))
    return [
        (name, {key: row.get(key) for key in columns} | ({"verdicts_usd": verdicts_cost(parts)} if later else {}))
        for name, row, parts in groups
    ]


def _summed(rows: Iterable[Mapping[str, Any]], columns: Sequence[str]) -> dict[str, Any]:
    """One judge's usage over all dimensions; an amount that is unknown in one of them is unknown."""
    total: dict[str, Any] = {}
    for key in columns:
        values = [row.get(key) for row in rows]
        if key == "failed":
            total[key] = dict(sum((Counter(value or {}) for value in values), Counter[str]()))
        else:
            total[key] = None if None in values else sum(filter(None, values))
    return total


def verdicts_cost(rows: Iterable[Mapping[str, Any]]) -> float | None:
    """What the verdicts of some rows cost together; None if one has no price."""
    costs: list[Any] = [(row.get("verdicts") or {}).get("cost_usd") for row in rows]
    return None if None in costs else float(sum(costs))


LEVEL = 0.95


class Share(msgspec.Struct, frozen=True):
    """`hits` of `n`, with its Wilson interval."""

    hits: int
    n: int

    @property
    def value(self) -> float | None:
        return self.hits / self.n if self.n else None

    @property
    def interval(self) -> tuple[float, float] | None:
        return share_interval(self.hits, self.n)


class Behaviour(msgspec.Struct, frozen=True):
    """A judge's habits over some judgments.

    `flips`: of the judgments with two readable verdicts, those where the two differ; `opposite` of them name two
    different winners, the others say tie in one order. `first_slot`: of all verdicts that name a winner, those that
    name the answer shown first; without position bias the expected share is a half, as every pair is shown in both
    orders.
    """

    flips: Share
    opposite: int
    first_slot: Share


def share_interval(hits: float, n: float) -> tuple[float, float] | None:
    """Wilson's 95 % interval of a share: always within 0 and 1; None if `n` is 0."""
    return wilson(hits, n, normal_quantile(LEVEL)) if n else None


def behaviour(battles: Iterable[JudgedBattle]) -> Behaviour:
    """The habits of the judge over these judgments."""
    both = differ = opposite = first = decided = 0
    for battle in battles:
        first += battle.slots.count(VerdictLabel.A)
        decided += battle.slots.count(VerdictLabel.A) + battle.slots.count(VerdictLabel.B)
        for one, other in battle.pairs:
            if one.readable and other.readable:
                both += 1
                differ += one != other
                opposite += {one, other} == {VerdictLabel.A, VerdictLabel.B}
    return Behaviour(Share(differ, both), opposite, Share(first, decided))


def verdict_counts(battles: Iterable[JudgedBattle]) -> Counter[VerdictLabel]:
    """How often each verdict was given, failures included, in the order in which they appear."""
    return Counter(label for battle in battles for label in battle.labels)


def disagreements(run: Run) -> list[str]:
    """A sentence for every number that disagrees with the verdict lines; none if all is well."""
    lines: list[str] = []
    for dimension in run.dimensions:
        battles = run.of_dimension(dimension.name)
        decisive = sum(battle.winner is not None for battle in battles)
        if decisive != dimension.n_decisive:
            lines.append(
                f"{dimension.name}: elo_results.json counts {dimension.n_decisive} decisive matches, the verdicts "
                f"{decisive}"
            )
        lines += _tallies(dimension, battles) + _board(dimension)
        for name, line in dimension.elo.items():
            mean = dimension.traces[name].mean() if name in dimension.traces else None
            if mean is None or not np.isclose(line.mean, mean, rtol=1e-9, atol=1e-9):
                lines.append(
                    f"{dimension.name}: the mean Elo of {name} is {line.mean} in elo_results.json, {mean} in the traces"
                )
    return lines


def _tallies(dimension: Dimension, battles: Iterable[JudgedBattle]) -> list[str]:
    tallies: dict[tuple[str, str], Counter[str]] = {}
    for battle in battles:
        if battle.settled:
            first, second = sorted(battle.entrants)
            cell = tallies.setdefault((first, second), Counter())
            cell[battle.winner or "tie"] += 1
            cell["inconsistent"] += battle.inconsistent and battle.winner is None
    rows = {(pair.entrant_a, pair.entrant_b): pair for pair in dimension.pairs}
    lines = []
    for a, b in sorted(tallies.keys() | rows.keys()):
        cell, pair = tallies.get((a, b), Counter()), rows.get((a, b))
        written = (0, 0, 0, 0) if pair is None else (pair.a_wins, pair.b_wins, pair.ties, pair.inconsistent)
        seen = (cell[a], cell[b], cell["tie"], cell["inconsistent"])
        if written != seen:
            lines.append(f"{dimension.name}: {a} against {b} is {written} in pairwise_winrates.csv, {seen} in verdicts")
    return lines


def _board(dimension: Dimension) -> list[str]:
    """The board's wins, losses and ties against the pair table; a board that left battles out is not compared."""
    if dimension.board is None or dimension.board.left_out:
        return []
    totals: dict[str, Counter[str]] = {}
    for pair in dimension.pairs:
        for name, won, lost in (
            (pair.entrant_a, pair.a_wins, pair.b_wins),
            (pair.entrant_b, pair.b_wins, pair.a_wins),
        ):
            totals.setdefault(name, Counter()).update(wins=won, losses=lost, ties=pair.ties)
    lines = []
    for entry in dimension.board.ratings:
        counts = totals.get(entry.model, Counter())
        seen = [counts["wins"], counts["losses"], counts["ties"]]
        if [entry.wins, entry.losses, entry.ties] != seen:
            lines.append(
                f"{dimension.name}: the board gives {entry.model} {entry.wins:g} wins, {entry.losses:g} losses and "
                f"{entry.ties:g} ties, the pair table {seen}"
            )
    return lines
