"""What the sections of a tournament's report show, as values; `templates/run.html` makes the page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tiltyard.battles.missing_verdicts import read_missing
from tiltyard.battles.reading import read_battles
from tiltyard.boards import BradleyTerry, EloReport, RatingEntry
from tiltyard.boards.bradley_terry import CENTRE
from tiltyard.boards.text import footnotes, headline, rank_text
from tiltyard.errors import TiltyardError
from tiltyard.judging.panel import judge_in_words
from tiltyard.judging.run_folder import read_object, require
from tiltyard.pages import svg
from tiltyard.pages.figures import plural
from tiltyard.report.boards import BoardView, as_leaderboard, board_view
from tiltyard.report.counts import Behaviour, behaviour, behaviour_by, verdict_counts
from tiltyard.report.grid import (
    GridCell,
    GridColumn,
    GridRow,
    GridView,
    grid,
    kind_column,
    kinds_of,
    most_telling,
    room_for,
    spread,
)
from tiltyard.report.judged import JudgedBattle, JudgedBattles, counted
from tiltyard.report.run import Dimension, Run, met, wins_and_losses
from tiltyard.report.site_map import Here
from tiltyard.tournament.artifacts import JUDGE_PROMPTS
from tiltyard.tournament.ratings import (
    BaselineTable,
    EloLine,
    JudgeHabits,
    control_notes,
    controlled_text,
    panel_warnings,
)
from tiltyard.tournament.ratings import interval_text as interval_in_percent
from tiltyard.tournament.rounds import ROUNDS_FILE
from tiltyard.validity.misfit import fit_sentences, fit_verdict

# The top of the page


MOST_IN_TITLE = 4
"""How many entrants a title names."""


def run_title(run: Run) -> str:
    """The run in a line: its mode, and who met."""
    mode = str(run.manifest.get("mode") or "tournament").capitalize()
    names = list(run.entrants)
    if len(names) > MOST_IN_TITLE:
        names[MOST_IN_TITLE - 1 :] = [f"{len(names) - MOST_IN_TITLE + 1} more"]
    return f"{mode} run: {in_words(names)}"


def in_words(names: Sequence[str]) -> str:
    """Names as a sentence has them: `a, b and c`."""
    return " and ".join(part for part in (", ".join(names[:-1]), names[-1]) if part) if names else ""


@dataclass(frozen=True, slots=True)
class Leaders:
    """The dimensions in which the same entrants could be first, and whether these are all entrants."""

    dimensions: list[str]
    names: list[str]
    everybody: bool


def leaders(run: Run) -> list[Leaders]:
    """Who could be first where, settled places first."""
    alike: dict[frozenset[str], list[Dimension]] = {}
    for dimension in run.dimensions:
        if dimension.best_board is not None:
            alike.setdefault(frozenset(could_be_first(dimension)), []).append(dimension)
    groups = []
    for where in sorted(alike.values(), key=lambda where: len(could_be_first(where[0])) != 1):
        board, names = where[0].best_board, could_be_first(where[0])
        everybody = board is not None and 2 < len(names) == len(board.ratings)
        groups.append(Leaders([one.name for one in where], names, everybody))
    return groups


def could_be_first(dimension: Dimension) -> list[str]:
    """The entrants that could be first, by the board to read first."""
    board = dimension.best_board
    return [] if board is None else [entry.model for entry in board.ratings if (entry.rank_low or entry.rank) == 1]


def doubts(run: Run) -> Iterator[str]:
    """What speaks against the judge: canaries that it missed, and verdicts that go by the order of the answers."""
    results = run.manifest.get("results") or {}
    missed = {name: one for name, one in (results.get("canaries") or {}).items() if one["missed"]}
    if missed:
        where = [f"{len(one['missed'])} of {one['asked']} canaries on {name}" for name, one in missed.items()]
        yield f"the judge missed {in_words(where)}, pairs with a clearly better answer"
    for name, one in (results.get("dimensions") or {}).items():
        if "habits" in one and (habits := JudgeHabits.from_record(one["habits"])).unreliable:
            share = 100 * (habits.flips.value or 0.0)
            yield f"on {name} the judge changed {share:.0f} % of its verdicts with the order of the answers"


def when(run: Run) -> str:
    """When it ran, and with which versions."""
    started, finished = run.manifest.get("started_at"), run.manifest.get("finished_at")
    versions = run.manifest.get("versions") or {}
    parts = [f"started {started}" if started else "", f"finished {finished}" if finished else ""]
    parts += [f"{name} {version}" for name, version in versions.items()]
    return " · ".join(part for part in parts if part)


def why_no_board(run: Run, dimension: Dimension) -> str:
    """Why a dimension has no Bradley–Terry board, as recorded by the run."""
    results = (run.manifest.get("results") or {}).get("dimensions") or {}
    reason = (results.get(dimension.name) or {}).get("bradley_terry")
    return str(reason) if reason and reason != "ok" else f"ratings/{dimension.name}.json is not in the run folder"


@dataclass(frozen=True, slots=True)
class Cost:
    """What all verdicts of a run cost, replies of unknown cost left out, and what the last command paid of it."""

    usd: float
    unknown: int
    has_last: bool
    last: float | None


def cost(run: Run) -> Cost | None:
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
    return Cost(usd, unknown, kept is not None, paid)


@dataclass(frozen=True, slots=True)
class Warnings:
    """What a reader must know first."""

    note: str = ""
    unfinished: bool = False
    failures: str = ""
    canaries: Mapping[str, Any] = field(default_factory=dict)
    missing: Sequence[tuple[str, str]] = ()
    """Dimensions with the matchups that have no verdict, in words."""
    lines: Sequence[str] = ()

    @property
    def any(self) -> bool:
        """Whether there is something to warn of."""
        return bool(self.note or self.unfinished or self.failures or self.canaries or self.missing or self.lines)


def note_alone(run: Run) -> Warnings:
    """The note of the tournament file, if it has one."""
    return Warnings(note=str(run.manifest.get("note") or ""))


def common_warnings(run: Run, lines: Sequence[str], **more: Any) -> Warnings:
    """Warnings common to all kinds of run: its note, that it has not finished, failures by name, further lines."""
    failures = [(word, number) for word, number in verdict_counts(run.battles).most_common() if not word.readable]
    return Warnings(
        note=str(run.manifest.get("note") or ""),
        unfinished=run.manifest.get("finished_at") is None,
        failures=", ".join(f"{number} {name}" for name, number in failures),
        lines=lines,
        **more,
    )


def run_warnings(run: Run, disagreements: Sequence[str]) -> Warnings:
    """Warnings: missed canaries, an unfinished run, failures by name, what was left out, numbers that disagree."""
    canaries = (run.manifest.get("results") or {}).get("canaries") or {}
    missing = read_missing(run.folder)
    by_dimension = [(dimension.name, missing.only(dimensions={dimension.name})) for dimension in run.dimensions]
    return common_warnings(
        run,
        [*_dropped(run), *disagreeing(disagreements)],
        canaries={name: one for name, one in canaries.items() if one["missed"]},
        missing=[(name, one.sentence) for name, one in by_dimension if one],
    )


def disagreeing(lines: Sequence[str]) -> list[str]:
    """A warning for every number that disagrees with the verdicts."""
    return [f"Numbers disagree: {line}." for line in lines]


def _dropped(run: Run) -> list[str]:
    """What the match list had to leave out, in sentences; unknown entries are listed with the manifest."""
    dropped = run.manifest.get("dropped") or {}
    left_out = run.manifest.get("entrants_without_answers") or []
    lines = [f"Left out because there are no answers: {', '.join(map(str, left_out))}."] if left_out else []
    prompts = dropped.get("prompts_without_every_answer")
    if prompts:
        lacking = ", ".join(f"{name} lacks {number}" for name, number in (dropped.get("answers_missing") or {}).items())
        lines.append(f"{len(prompts)} prompts dropped because not every entrant answered them ({lacking}).")
    for dimension, number in (dropped.get("prompts_without_gold_answer") or {}).items():
        lines.append(f"{dimension}: {number} prompts skipped because they have no gold answer.")
    return lines


@dataclass(frozen=True, slots=True)
class Glance:
    """Entrants × dimensions: `(places, rating)` of each, None where an entrant has none."""

    dimensions: list[str]
    rows: list[tuple[str, list[tuple[str, float] | None]]]
    corrected: list[str]
    """Dimensions that people's labels correct."""


def glance(run: Run) -> Glance | None:
    """Entrants × dimensions, best first; None without a board."""
    boards = [(dimension, board) for dimension in run.dimensions if (board := dimension.best_board) is not None]
    if not boards:
        return None
    lines = {(dimension.name, entry.model): entry for dimension, board in boards for entry in board.ratings}
    names = [dimension.name for dimension, _ in boards]

    def mean_rank(entrant: str) -> float:
        places = [lines[name, entrant].rank for name in names if (name, entrant) in lines]
        return sum(places) / len(places) if places else float("inf")

    def cell(entry: RatingEntry | None) -> tuple[str, float] | None:
        return None if entry is None else (rank_text(entry), entry.rating)

    rows = [
        (entrant, [cell(lines.get((name, entrant))) for name in names])
        for entrant in sorted(run.entrants, key=mean_rank)
    ]
    return Glance(names, rows, [dimension.name for dimension, _ in boards if dimension.calibrated is not None])


# One dimension


def order(run: Run, dimension: Dimension) -> list[str]:
    """The entrants of a dimension, best first: by its board, then by Elo, then as configured."""
    rated = [entry.model for entry in dimension.best_board.ratings] if dimension.best_board else []
    by_elo = sorted(dimension.elo, key=lambda name: -dimension.elo[name].mean)
    paired = {name for pair in dimension.pairs for name in (pair.entrant_a, pair.entrant_b)}
    return list(dict.fromkeys([*rated, *by_elo, *(name for name in run.entrants if name in paired)]))


@dataclass(frozen=True, slots=True)
class RatedBoard:
    """A Bradley–Terry board with its title, its headline and its notes."""

    title: str
    headline: str
    view: BoardView
    notes: list[str]


@dataclass(frozen=True, slots=True)
class DimensionView:
    """Everything that the report shows of a dimension."""

    name: str
    number: int
    baseline: BaselineView | None
    boards: list[RatedBoard]
    no_board: str
    """Why there is no board of the judge's own; empty where there is one."""
    fit: tuple[str, list[str]] | None
    """How well Bradley–Terry describes the battles: a verdict, and its checks."""
    categories: CategoriesView | None
    elo: EloView | None
    wins: list[tuple[str, list[WinCell]]]
    sweep: Sweep | None
    habits: HabitsView
    opponents: list[OpponentCard]


def dimension_view(here: Here, dimension: Dimension) -> DimensionView:
    """What the report shows of a dimension."""
    run, own, people = here.run, dimension.board, dimension.calibrated
    boards = [] if people is None else [_rated(people, "Ratings corrected by people's labels")]
    rated = own is not None and bool(own.ratings)
    if own is not None and rated:
        boards.append(_rated(own, "Ratings" if people is None else "Ratings by the judge alone, uncorrected"))
    record = None if own is None else own.details.get("misfit")
    return DimensionView(
        name=dimension.name,
        number=here.site_map.dimensions[dimension.name],
        baseline=None if dimension.against is None else _baseline(dimension.against),
        boards=boards,
        no_board="" if rated else why_no_board(run, dimension),
        fit=None if record is None else (fit_verdict(record), fit_sentences(record)),
        categories=_categories(run, dimension),
        elo=_elo(run, dimension),
        wins=_wins(run, dimension),
        sweep=_sweep(run, dimension),
        habits=_habits(here, dimension),
        opponents=_opponents(here, dimension),
    )


def _rated(report: EloReport, title: str) -> RatedBoard:
    board = as_leaderboard(report)
    about = headline(board).replace("by question_id", "by prompt")
    return RatedBoard(title, about, board_view(board), footnotes(board))


@dataclass(frozen=True, slots=True)
class BaselineView:
    """Win rates against the baseline: `(entrant, rate, words, counts)` of each, and what the controls found."""

    baseline: str
    rows: Sequence[tuple[str, float, Sequence[str], Sequence[float | None]]]
    notes: list[str]


def _baseline(against: BaselineTable) -> BaselineView:
    rows = [
        (
            one.entrant,
            one.win_rate,
            (
                interval_in_percent(one.low, one.high),
                controlled_text(one.length_controlled),
                controlled_text(one.style_controlled),
            ),
            (one.wins, one.losses, one.ties, one.mean_length),
        )
        for one in against.rates
    ]
    return BaselineView(against.baseline, rows, control_notes(against))


BINS = 101


@dataclass(frozen=True, slots=True)
class EloRow:
    """An entrant's permutation Elo, and its histogram over the shuffles."""

    name: str
    line: EloLine
    counts: list[int]
    label: str


@dataclass(frozen=True, slots=True)
class EloView:
    """Permutation Elo of a dimension, on one scale; `most` is the highest column of all histograms."""

    rows: list[EloRow]
    scale: svg.Scale
    most: int
    n_decisive: int
    n_shuffles: int


def _elo(run: Run, dimension: Dimension) -> EloView | None:
    """Permutation Elo: mean, its shuffle error, the sampling interval beside it, and the spread over the shuffles."""
    lines = dimension.elo
    if not lines:
        return None
    ends = [end for line in lines.values() for end in (line.sampling_low, line.sampling_high) if end is not None]
    scale = svg.Scale.of([float(dimension.traces.min()), float(dimension.traces.max()), *ends])
    edges = np.linspace(scale.low, scale.high, BINS + 1)
    counts = {
        name: np.histogram(dimension.traces[:, place], edges)[0] for place, name in enumerate(dimension.trace_entrants)
    }
    rows = []
    for name in order(run, dimension):
        if name in lines:
            line = lines[name]
            label = f"{name}: mean {line.mean:.1f} over {len(dimension.traces)} shuffles"
            if line.sampling_low is not None and line.sampling_high is not None:
                label += f", sampling interval {line.sampling_low:.0f} to {line.sampling_high:.0f}"
            rows.append(EloRow(name, line, counts[name].tolist(), label))
    most = max(int(row.max()) for row in counts.values()) or 1
    return EloView(rows, scale, most, dimension.n_decisive, len(dimension.traces))


SHADES = 10


def shade(share: float) -> int:
    """The shade of a cell by its share between 0 and 1."""
    return round(SHADES * min(max(share, 0.0), 1.0))


@dataclass(frozen=True, slots=True)
class WinCell:
    """The share that the row won against the column, ties counting half; without a share they never met."""

    other: str
    same: bool
    share: float | None = None
    counts: tuple[int, int, int] = (0, 0, 0)
    shade: int = 0


def _wins(run: Run, dimension: Dimension) -> list[tuple[str, list[WinCell]]]:
    tallies = {frozenset((pair.entrant_a, pair.entrant_b)): pair for pair in dimension.pairs}
    names = [name for name in order(run, dimension) if any(name in pair for pair in tallies)]

    def cell(row: str, column: str) -> WinCell:
        pair = tallies.get(frozenset((row, column)))
        if row == column or pair is None or not met(pair):
            return WinCell(column, row == column)
        won, lost = wins_and_losses(pair, row)
        share = (won + 0.5 * pair.ties) / met(pair)
        return WinCell(column, False, share, (won, lost, pair.ties), shade(share))

    return [(name, [cell(name, other) for other in names]) for name in names]


@dataclass(frozen=True, slots=True)
class Sweep:
    """Entrants × K: `(mean, place, SEM, shade)` on the same shuffles, and whether the order depends on K."""

    sentence: str
    ks: list[str]
    rows: list[tuple[str, list[tuple[float, int, float, int] | None]]]


def _sweep(run: Run, dimension: Dimension) -> Sweep | None:
    if not dimension.sweep:
        return None
    means = {k: {name: line.mean for name, line in lines.items()} for k, lines in dimension.sweep.items()}
    every = [mean for column in means.values() for mean in column.values()]
    low, high = min(every), max(every)

    def cell(k: str, name: str) -> tuple[float, int, float, int] | None:
        if name not in means[k]:
            return None
        mean = means[k][name]
        place = 1 + sum(other > mean for other in means[k].values())
        share = (mean - low) / (high - low) if high > low else 0.5
        return (mean, place, dimension.sweep[k][name].sem, shade(share))

    names = [name for name in order(run, dimension) if any(name in column for column in means.values())]
    orders = {k: sorted(column, key=column.__getitem__, reverse=True) for k, column in means.items()}
    first = next(iter(orders))
    other = [k for k, ordered in orders.items() if ordered != orders[first]]
    sentence = "No: every K gives the same order."
    if other:
        sentence = f"Yes: the order at K {', '.join(other)} is not that at K {first}."
    return Sweep(sentence, list(means), [(name, [cell(k, name) for k in means]) for name in names])


# By category


MOST_CATEGORIES = 40
"""With more values than this, a column names prompts rather than kinds of prompts."""

Entries = dict[str, dict[str, RatingEntry]]
"""By category and entrant."""


@dataclass(frozen=True, slots=True)
class CategoriesView:
    """Where each entrant is best and worst: `(entrant, best, its entry, worst, its entry, whether they overlap)`."""

    column: str
    note: str
    extremes: list[tuple[str, str, RatingEntry, str, RatingEntry, bool]]
    names: list[str]
    entries: Entries
    missing: list[str]
    """Why some categories have no board."""


def _categories(run: Run, dimension: Dimension) -> CategoriesView | None:
    """Where each entrant is best and worst, with intervals; None where the bank does not tell prompts apart."""
    column, kinds = kind_column(run.prompts)
    if dimension.board is None or not 1 < len(set(kinds.values())) <= MOST_CATEGORIES:
        return None
    entries, missing = _rated_by_category(run, dimension, kinds)
    if len(entries) < 2:
        return None
    names = [name for name in order(run, dimension) if sum(name in board for board in entries.values()) > 1]
    extremes = []
    for name in names:
        own = {kind: board[name] for kind, board in entries.items() if name in board}
        best, worst = (choose(own, key=lambda kind: own[kind].rating) for choose in (max, min))
        low, high = own[best].ci_low, own[worst].ci_high
        overlap = low is None or high is None or low <= high
        extremes.append((name, best, own[best], worst, own[worst], overlap))
    word = column.removeprefix("prompt_")
    note = (
        f"One Bradley–Terry board per {word}, each with a mean of {CENTRE:g}, by the judge alone. Each has 95 % "
        f"intervals of its own, which do not hold for all {len(entries)} at once; and the best and worst of several "
        "are partly chance, the more so where their intervals overlap. The same numbers: "
        f"tiltyard rate RUN --dimension {dimension.name} --by {column}."
    )
    return CategoriesView(word, note, extremes, names, entries, missing)


def _rated_by_category(run: Run, dimension: Dimension, kinds: Mapping[str, str]) -> tuple[Entries, list[str]]:
    """The entries of each category's board, and why a category has none."""
    table = read_battles(require(run.folder / "battles.jsonl", run.folder), columns=["question_id", "dimension"])
    questions, dimensions = table.text_column("question_id"), table.text_column("dimension")
    mine = np.array([label == dimension.name for label in dimensions.labels] or [False])[dimensions.codes]
    kind_of = np.array([kinds.get(label, "") for label in questions.labels] or [""])[questions.codes]
    estimator = BradleyTerry(only_connected=True, misfit=False)
    entries: Entries = {}
    missing = []
    for kind in sorted(set(kinds.values())):
        try:
            board = estimator.fit(table.take(mine & (kind_of == kind)).compact())
        except TiltyardError as error:
            missing.append(f"{kind}: no board: {error}")
        else:
            entries[kind] = {entry.model: entry for entry in board}
    return entries, missing


# The judge


@dataclass(frozen=True, slots=True)
class HabitRow:
    """The judge's habits over some judgments, and where the group is on the page."""

    name: str
    habits: Behaviour
    href: str = ""


@dataclass(frozen=True, slots=True)
class HabitsView:
    """The judge's habits in groups; a group's title is a row above it."""

    whole: Behaviour
    told: list[str]
    """What they mean for the board, as the terminal says it."""
    groups: list[tuple[str, list[HabitRow]]]


def _habits(here: Here, dimension: Dimension) -> HabitsView:
    """Flip rate and first-slot rate with Wilson intervals: overall, by judge, by source, by pair."""
    battles = here.run.battles.of_dimension(dimension.name)
    whole = behaviour(battles)
    by_judge = behaviour_by(battles, lambda battle: ", ".join(battle.judges) or "none")
    groups = [
        ("", [HabitRow("all judgments", whole)]),
        ("by judge", [HabitRow(name, habits) for name, habits in by_judge.items()]),
        ("by source", _by_source(here, battles)),
        ("by pair", _by_pair(here, dimension, battles)),
    ]
    record = ((here.run.manifest.get("results") or {}).get("dimensions") or {}).get(dimension.name) or {}
    lines = JudgeHabits.from_record(record["habits"]).lines() if "habits" in record else []
    plain = [line.removeprefix("judge: ").removeprefix("WARNING: ") for line in lines]
    return HabitsView(whole, [f"{line[0].upper()}{line[1:]}." for line in plain], groups)


def _by_source(here: Here, battles: JudgedBattles) -> list[HabitRow]:
    sources = {name: prompt.source or "no source" for name, prompt in here.run.prompts.items()}
    groups = behaviour_by(battles, lambda battle: sources[battle.prompt_id])
    return [HabitRow(name, habits, here.section(source_anchor(here, name))) for name, habits in groups.items()]


def _by_pair(here: Here, dimension: Dimension, battles: JudgedBattles) -> list[HabitRow]:
    site_map, names = here.site_map, here.run.entrants
    by_pair = battles.grouped(lambda one: site_map.pair_key(one.dimension, *one.entrants))
    return [
        HabitRow(
            f"{names[key[1]]} – {names[key[2]]}",
            behaviour(by_pair[key]),
            here.pair(dimension.name, names[key[1]], names[key[2]]),
        )
        for key in site_map.by_pair
        if key[0] == site_map.dimensions[dimension.name]
    ]


def source_anchor(here: Here, source: str) -> str:
    """The anchor of a source in the list of prompts."""
    names = list(dict.fromkeys(prompt.source or "no source" for prompt in here.run.prompts.values()))
    return f"s{names.index(source)}"


COMBINED = {
    "majority": "The result with the most votes counts; where two share the lead, it is a tie and marked inconsistent.",
    "weight": "The most probable result counts, given how reliable each judge is, as estimated from the votes.",
    "rows": "Every judge’s own judgment is a battle; all battles on a prompt are one cluster of the intervals.",
}


@dataclass(frozen=True, slots=True)
class KnownValue:
    """A value with its interval; None where it is not known."""

    value: float | None
    low: float | None
    high: float | None
    n: int | None = None

    @classmethod
    def of(cls, record: Mapping[str, Any] | None) -> KnownValue:
        """The estimate of a record of the manifest."""
        record = record or {}
        return cls(record.get("value"), record.get("low"), record.get("high"), record.get("n"))

    @property
    def known(self) -> bool:
        """Whether value and interval are known."""
        return self.value is not None and self.low is not None and self.high is not None


@dataclass(frozen=True, slots=True)
class JudgeRow:
    """One judge of a panel."""

    judge: str
    right: float | None
    weight: float | None
    others: KnownValue
    label: str
    flips: float | None
    first: float | None
    again: float | None
    failed: int | None
    cost: float | None
    leans: str


@dataclass(frozen=True, slots=True)
class PanelView:
    """A panel in one dimension: counts, what to know, its judges, its pairs, and where they dissent most."""

    name: str
    counts: Mapping[str, Any]
    told: list[str]
    judges: list[JudgeRow]
    pairs: list[tuple[str, KnownValue, KnownValue]]
    dissent: list[tuple[str, str]]
    """Prompts, and who said what of which pair."""

    @property
    def used(self) -> set[str]:
        """Columns for which some judge has a value."""
        columns = ("right", "weight", "flips", "first", "again", "cost", "leans")
        return {name for name in columns if any(getattr(row, name) not in (None, "") for row in self.judges)}


def panel(run: Run) -> tuple[str, list[PanelView]] | None:
    """What the manifest says about a panel, by dimension; None for a single judge."""
    record = (run.manifest.get("results") or {}).get("panel")
    if not isinstance(record, Mapping):
        return None
    combine = str(record.get("combine"))
    note = f"{len(record.get('judges', ()))} judges judged every match. {COMBINED.get(combine, '')}"
    return note, [_panel_view(run, name, one, combine) for name, one in record.get("dimensions", {}).items()]


def _panel_view(run: Run, name: str, record: Mapping[str, Any], combine: str) -> PanelView:
    return PanelView(
        name=name,
        counts=record,
        told=[f"{line.removeprefix('WARNING: ')}." for line in panel_warnings(record, combine)],
        judges=[_judge(run, name, row) for row in record.get("judges", ())],
        pairs=[
            (
                f"{pair.get('first')} and {pair.get('second')}",
                KnownValue.of(pair.get("agreement")),
                KnownValue.of(pair.get("kappa")),
            )
            for pair in record.get("pairs", ())
        ],
        dissent=[
            (
                str(one["prompt_id"]),
                f"{one.get('entrant_a')} – {one.get('entrant_b')}: "
                + ", ".join(f"{judge} {label}" for judge, label in (one.get("votes") or {}).items()),
            )
            for one in record.get("dissent", ())
            if one.get("prompt_id") in run.prompts
        ],
    )


def _judge(run: Run, dimension: str, row: Mapping[str, Any]) -> JudgeRow:
    bias, others, judge = row.get("bias") or {}, KnownValue.of(row.get("with_others")), str(row.get("judge"))
    flips, first, again = (
        (bias.get(key) or {}).get("value") for key in ("flip_rate", "first_slot_rate", "repeat_rate")
    )
    label = ""
    if others.value is not None and others.low is not None and others.high is not None:
        label = (
            f"as most others: {100 * others.value:.1f} %, interval {100 * others.low:.1f} to {100 * others.high:.1f} %"
        )
    rows = ((run.usage or {}).get("judges") or {}).get(judge, {})
    usd = ((rows.get(dimension) or {}).get("verdicts") or {}).get("cost_usd")
    return JudgeRow(
        judge=judge,
        right=row.get("accuracy"),
        weight=row.get("weight"),
        others=others,
        label=label,
        flips=flips,
        first=first,
        again=again,
        failed=row.get("failed"),
        cost=None if usd is None else float(usd),
        leans=_lean(row),
    )


def _lean(row: Mapping[str, Any]) -> str:
    lean = KnownValue.of(row.get("lean"))
    if lean.value is None or lean.low is None or lean.high is None or lean.low <= 0 <= lean.high:
        return ""
    return f"{row.get('leans_to')} {'+' if lean.value > 0 else '−'}{abs(100 * lean.value):.0f} points"


MOST_LINKS = 200


@dataclass(frozen=True, slots=True)
class Failures:
    """Verdicts that could not be used: `(dimension, verdicts, counts by name, judgments failed)`, and judgments."""

    names: list[str]
    rows: list[tuple[str, int, list[int], int]]
    battles: list[tuple[JudgedBattle, str]]
    """The first failed judgments with their verdicts."""
    n_failed: int


def failures(run: Run) -> Failures | None:
    """Verdicts that could not be used, by name, and every judgment that failed for it; None where there is none."""
    names = [word for word in verdict_counts(run.battles) if not word.readable]
    failed = run.battles.of_kind(lambda battle: not battle.settled)
    if not failed and not names:
        return None
    rows = []
    for dimension in run.dimensions:
        battles = run.battles.of_dimension(dimension.name)
        counts = verdict_counts(battles)
        lost = sum(n for battle, n in battles.counted() if not battle.settled)
        rows.append((dimension.name, counts.total(), [counts[name] for name in names], lost))
    listed = [
        (battle, ", ".join(battle.word(place) for place in range(max(2, len(battle.said)))))
        for battle in failed[:MOST_LINKS]
    ]
    return Failures([str(name) for name in names], rows, listed, len(failed))


# Battles and prompts


@dataclass(frozen=True, slots=True)
class OpponentCard:
    """An entrant with its opponents: `(opponent, tally, battles)` of each."""

    name: str
    anchor: str
    rating: float | None
    places: str
    rows: list[tuple[str, Counter[str], int]]


def _opponents(here: Here, dimension: Dimension) -> list[OpponentCard]:
    """Every entrant of a dimension with its opponents."""
    site_map, number = here.site_map, here.site_map.dimensions[dimension.name]
    entries = {entry.model: entry for entry in dimension.board.ratings} if dimension.board else {}
    judged = {name for battle, _ in here.run.battles.of_dimension(dimension.name).counted() for name in battle.entrants}
    cards = []
    for name in dict.fromkeys([*order(here.run, dimension), *(n for n in here.run.entrants if n in judged)]):
        own, entry = site_map.entrants[name], entries.get(name)
        rows = [
            (here.run.entrants[key[2] if key[1] == own else key[1]], tally(battles), len(battles))
            for key, battles in site_map.by_pair.items()
            if key[0] == number and own in key[1:]
        ]
        rating, places = (None, "") if entry is None else (entry.rating, rank_text(entry))
        cards.append(OpponentCard(name, f"e{number}-{own}", rating, places, rows))
    return cards


def tally(battles: Sequence[JudgedBattle]) -> Counter[str]:
    """How often each outcome occurred in these judgments."""
    counts: Counter[str] = Counter()
    for battle, number in counted(battles):
        counts[battle.winner or battle.outcome] += number
    return counts


@dataclass(frozen=True, slots=True)
class PairView:
    """The battles of a pair: each with its verdicts in both orders."""

    anchor: str
    dimension: str
    a: str
    b: str
    counts: Counter[str]
    share: float | None
    """The share that the first one won, ties counting half."""
    battles: Iterable[tuple[JudgedBattle, list[str]]]


def pair_view(here: Here, key: tuple[int, int, int]) -> PairView:
    """The battles of a pair."""
    run, battles = here.run, here.site_map.by_pair[key]
    a, b, counts = run.entrants[key[1]], run.entrants[key[2]], tally(battles)
    settled = len(battles) - counts["failed"]
    share = (counts[a] + 0.5 * (counts["tie"] + counts["inconsistent"])) / settled if settled else None
    return PairView(
        anchor="m{}-{}-{}".format(*key),
        dimension=run.dimensions[key[0]].name,
        a=a,
        b=b,
        counts=counts,
        share=share,
        battles=((battle, _words_by_order(here, battle)) for battle in battles),
    )


def _words_by_order(here: Here, battle: JudgedBattle) -> list[str]:
    """The verdicts in the order of the pair: forward first, unless the match lists the two in the other order."""
    orders = (0, 1) if here.site_map.entrants[battle.entrant_a] < here.site_map.entrants[battle.entrant_b] else (1, 0)
    if len(battle.said) > 2:
        return [battle.word_when_first(battle.entrants[order]) for order in orders]
    return [battle.word(order) for order in orders]


def prompts_by_source(run: Run) -> dict[str, list[Any]]:
    """The prompts of each source."""
    groups: dict[str, list[Any]] = {}
    for prompt in run.prompts.values():
        groups.setdefault(prompt.source or "no source", []).append(prompt)
    return groups


def results_grid(here: Here, dimension: Dimension) -> GridView | None:
    """Every prompt with a settled judgment, those on which the entrants differ most first; None without any."""
    settled = here.run.battles.of_kind(lambda battle: battle.dimension == dimension.name and battle.settled)
    judged = settled.grouped(lambda battle: battle.prompt_id)
    if not judged:
        return None
    kinds, names = kinds_of(here.run.prompts), order(here.run, dimension)
    rows = [_grid_row(here, prompt, battles, names, kinds.get(prompt)) for prompt, battles in judged.items()]
    rows.sort(key=spread, reverse=True)
    room = room_for(len(names) * len(here.run.dimensions))
    shown = most_telling(rows, {row.prompt: (spread(row),) for row in rows}, room)
    left_out = ""
    if len(shown) < len(rows):
        left_out = (
            f"{plural(len(rows) - len(shown), 'prompt')} on which the entrants differ least are left out, to keep the "
            "page usable; they are listed under Prompts."
        )
    columns = [GridColumn(name, f"where {name} lost") for name in names]
    return grid(columns, shown, label=f"{dimension.name}, prompt by prompt", left_out=left_out)


def _grid_row(
    here: Here, prompt: str, battles: Sequence[JudgedBattle], names: Sequence[str], kind: str | None
) -> GridRow:
    """A prompt; a cell of a single battle leads to that battle, any other to everything on the prompt."""
    counts: dict[str, Counter[str]] = {name: Counter() for name in names}
    last: dict[str, JudgedBattle] = {}
    for battle in battles:
        for name in battle.entrants:
            result = "tied" if battle.winner is None else "won" if battle.winner == name else "lost"
            counts.setdefault(name, Counter())[result] += 1
            last[name] = battle
    everything = here.prompt(prompt)
    alone = {name for name in last if counts[name].total() == 1}
    return GridRow(
        prompt,
        tuple(_grid_cell(counts[name]) for name in names),
        here.run.prompts[prompt].text,
        kind,
        everything,
        tuple(here.battle(last[name]) if name in alone else everything for name in names),
    )


def _grid_cell(count: Counter[str]) -> GridCell | None:
    n = count.total()
    return GridCell((count["won"] + 0.5 * count["tied"]) / n, count["won"], count["lost"], count["tied"]) if n else None


# The run: its gate, rounds, canaries, cost and manifest


def gate(run: Run) -> tuple[bool, Sequence[Mapping[str, Any]]] | None:
    """A pilot's gate: whether every check passed, and the checks; None without one."""
    checks = (run.manifest.get("results") or {}).get("gate")
    return (all(check.get("passed") for check in checks), checks) if checks else None


ROUND_COLUMNS = {
    "round": "round",
    "cases": "pairs judged",
    "failed": "failed",
    "told_apart": "pairs told apart",
    "open_pairs": "pairs open",
    "contenders": "could be best",
    "widest": "widest interval",
}


def rounds(run: Run) -> tuple[str, list[tuple[str, str, str, list[list[Fact]]]]] | None:
    """Adaptive rounds: the rule, and of each dimension what was decided, why it stopped and every round."""
    path = run.folder / ROUNDS_FILE
    if not run.manifest.get("until") or not path.is_file():
        return None
    told = read_object(path)
    rule = (
        f"The matchups of each round were chosen from the verdicts so far, until {told['until']}: confidence level "
        f"{100 * told['level']:g} % in each dimension, divided over {told['planned_looks']} planned looks. Intervals "
        f"on the boards are at {round(100 * told['interval_level'], 1):g} %."
    )
    parts = []
    for name, row in told["dimensions"].items():
        saved = (
            f"{row['calls']:,} calls; judging everything takes {row['calls_of_full_design']:,}: "
            f"{100 * row['saved']:.0f} % saved. Stopped after {row['looks']} rounds: {row['stopped']}."
        )
        cells = [[amount(key, one.get(key)) for key in ROUND_COLUMNS] for one in row["rounds"]]
        parts.append((name, str(row["decision"]), saved, cells))
    return rule, parts


def judge_prompts(run: Run) -> list[tuple[str, list[tuple[str, str]]]]:
    """The rubric of each dimension and everything that the judge is sent around the material, with titles."""
    path = run.folder / JUDGE_PROMPTS
    dimensions = (read_object(path).get("dimensions") if path.is_file() else None) or {}
    parts = []
    for name, one in dimensions.items():
        texts = [(f"rubric, version {one['rubric_version']}", one["rubric"])]
        for sent in one["sent"]:
            who = f", to {', '.join(sent['judges'])}" if len(one["sent"]) > 1 else ""
            texts += [(f"system text{who}", sent["system"]), (f"user text{who}", sent["user"])]
        parts.append((name, texts))
    return parts


FIRST = (
    "mode",
    "judge_model",
    "entrants",
    "dimensions",
    "bank_size",
    "selected_prompt_count",
    "started_at",
    "finished_at",
    "n_perms",
    "shuffle_seed",
    "pilot_seed",
    "versions",
    "rubric_versions",
    "dropped",
    "results",
)
"""What the manifest says first; the rest follows in its own order."""

SHOWN_ELSEWHERE = ("canaries", "gate", "panel", "calibration")
"""Results that have their own sections."""


def manifest_facts(run: Run) -> list[tuple[str, Fact]]:
    """The full manifest: the results without those that have their own section, a panel by the names of its judges."""
    manifest = dict(run.manifest)
    if "judge_model" in manifest:
        manifest["judge_model"] = judge_in_words(str(manifest["judge_model"]))
    if isinstance(manifest.get("results"), dict):
        manifest["results"] = {k: part for k, part in manifest["results"].items() if k not in SHOWN_ELSEWHERE}
    keys = [key for key in FIRST if key in manifest] + [key for key in manifest if key not in FIRST]
    return [(words(key), fact(manifest[key], key)) for key in keys]


USAGE_COLUMNS = {
    "cache_creation_input_tokens": "cache writes",
    "cache_read_input_tokens": "cache reads",
    "cost_usd": "US $",
    "replies_without_usage": "no usage",
    "verdicts_usd": "US $, all verdicts",
}
VERDICTS = "verdicts_usd"
"""The column of what the run's verdicts cost, whichever command asked for them."""


@dataclass(frozen=True, slots=True)
class UsageView:
    """Tokens and money as `usage.json` has them: a table by dimension where it has that form, and other facts."""

    heads: list[str]
    rows: list[tuple[str, list[Fact]]]
    rest: Fact | None


def usage(run: Run) -> UsageView | None:
    """Usage of the last command by dimension, the total, and of a panel what each judge has of it.

    After earlier commands, the last column says what all verdicts cost.
    """
    recorded = run.usage
    if recorded is None:
        return None
    if not isinstance(recorded.get("dimensions"), dict) or not isinstance(recorded.get("total"), dict):
        return UsageView([], [], fact(recorded))
    columns = list(recorded["total"])
    by_judge: dict[str, Any] = recorded.get("judges", {})
    judges = {f"by {name}": _summed(rows.values(), columns) for name, rows in by_judge.items()}
    kept = [verdicts_cost([row]) for row in recorded["dimensions"].values()]
    kept += [verdicts_cost(rows.values()) for rows in (recorded["dimensions"], *by_judge.values())]
    named = [*recorded["dimensions"].items(), ("total", recorded["total"]), *judges.items()]
    rows = [(name, [amount(key, row.get(key)) for key in columns]) for name, row in named]
    heads = [USAGE_COLUMNS.get(key, words(key)) for key in columns]
    if recorded["total"].get("cache_hits"):
        heads.append(USAGE_COLUMNS[VERDICTS])
        rows = [(name, [*cells, amount(VERDICTS, usd)]) for (name, cells), usd in zip(rows, kept, strict=True)]
    shown = ("dimensions", "total", "judge_model", "judges")
    rest = {key: value for key, value in recorded.items() if key not in shown}
    return UsageView(heads, rows, fact(rest) if rest else None)


def _summed(rows: Iterable[Mapping[str, Any]], columns: Sequence[str]) -> dict[str, Any]:
    """One judge's usage over all dimensions; an amount that is unknown in one of them is unknown."""
    total: dict[str, Any] = dict.fromkeys(columns, 0)
    failed: Counter[str] = Counter()
    for row in rows:
        failed.update(row.get("failed") or {})
        for key in columns:
            value = row.get(key)
            if key != "failed":
                total[key] = None if value is None or total[key] is None else total[key] + value
    return total | ({"failed": dict(failed)} if "failed" in columns else {})


def verdicts_cost(rows: Iterable[Mapping[str, Any]]) -> float | None:
    """What the verdicts of some rows cost together; None if one has no price."""
    costs: list[Any] = [(row.get("verdicts") or {}).get("cost_usd") for row in rows]
    return None if None in costs else float(sum(costs))


# Any value of a JSON file


WORDS = {"usd": "US $", "sha256": "SHA-256", "cost": "cost", "n_perms": "permutations"}


def words(key: str) -> str:
    """A key as words."""
    return WORDS.get(key, " ".join(WORDS.get(part, part) for part in str(key).split("_")))


@dataclass(frozen=True, slots=True)
class Fact:
    """A value of any depth, as the macro `fact` draws it.

    Parameters:
        kind: `none`, `unknown`, `number`, `figure`, `word` or `text` for one value; `items` a description list, `line`
            the same on one line, `list` values with commas, `records` a table.
        value: One value.
        digits: Digits of a number.
        items: The facts of a list; with their names, of a description list.
        heads: The columns of a table, with their classes.
        rows: Its rows; the first cell of a row may be a name.
    """

    kind: str
    value: Any = None
    digits: int = 0
    items: Sequence[Any] = ()
    heads: Sequence[tuple[str, str]] = ()
    rows: Sequence[Sequence[Fact]] = ()


def fact(value: Any, key: str = "") -> Fact:
    """A value: one as text, records as a table, a mapping as a description list; a seed without separators."""
    if "seed" in key:
        return _scalar(str(value))
    if isinstance(value, Mapping) and value:
        rows = [item for item in value.values() if isinstance(item, Mapping)]
        if len(rows) == len(value) and len(rows) > 1 and all(_flat(row) for row in rows):
            return _records(list(value.items()))
        return Fact("items", items=[(words(name), fact(item, name)) for name, item in value.items()])
    if isinstance(value, list | tuple) and value:
        if all(isinstance(item, Mapping) for item in value):
            return _records([("", item) for item in value])
        return Fact("list", items=[fact(item) for item in value])
    return _scalar(value)


def _scalar(value: Any) -> Fact:
    if value is None or value == {} or value == [] or value == "":
        return Fact("none")
    if isinstance(value, bool):
        return Fact("text", "yes" if value else "no")
    if isinstance(value, int):
        return Fact("number", value)
    return Fact("figure", value) if isinstance(value, float) else Fact("word", str(value))


def amount(key: str, value: Any) -> Fact:
    """An amount of a table of usage or rounds."""
    if key == "widest":
        return Fact("none") if value is None else Fact("number", value)
    if value is None:
        return Fact("unknown")
    if isinstance(value, Mapping) and value:
        return Fact("word", ", ".join(f"{number} {what}" for what, number in value.items()))
    return Fact("number", value, 2) if key in ("cost_usd", VERDICTS) else _scalar(value)


def _flat(row: Mapping[str, Any]) -> bool:
    return not any(
        isinstance(item, Mapping) and any(isinstance(i, Mapping) for i in item.values()) for item in row.values()
    )


def _records(rows: list[tuple[str, Mapping[str, Any]]]) -> Fact:
    """Rows of one table whose columns are all keys that appear."""
    columns = list(dict.fromkeys(key for _, row in rows for key in row))
    named = any(name for name, _ in rows)
    heads = [("", "")] if named else []
    heads += [(words(key), "num" if _numeric(rows, key) else "") for key in columns]
    body = [([Fact("text", name)] if named else []) + [_cell(row.get(key)) for key in columns] for name, row in rows]
    return Fact("records", heads=heads, rows=body)


def _cell(value: Any) -> Fact:
    """A value in a cell; a small mapping goes on one line."""
    if isinstance(value, Mapping) and value:
        return Fact("line", items=[(words(key), fact(item)) for key, item in value.items()])
    return fact(value)


def _numeric(rows: list[tuple[str, Mapping[str, Any]]], key: str) -> bool:
    values = [row[key] for _, row in rows if row.get(key) is not None]
    return bool(values) and all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)
