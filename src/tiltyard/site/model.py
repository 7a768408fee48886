"""A model's page as values (place, record, votes, answers, and their reliability), and two models compared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np

from tiltyard.analysis.decisions import EstimatedDifference, compare_in
from tiltyard.arena import (
    HOUR,
    OFFICIAL_FROM,
    RECENT,
    SHADOW_PHASE,
    ArenaState,
    BoardRow,
    BothBadPiece,
    CastVote,
    Choice,
    Heatmap,
    Leaning,
    Leanings,
    ModelDetail,
    Neighbour,
    OfflineRow,
    RatingPath,
    RecentForm,
    Record,
    VoteColumns,
    VoteStanding,
    VoteTable,
    against,
    both_bad_trend,
    by_prompt,
    completeness,
    expected_scores,
    leanings,
    public_prompts,
    published_estimator,
    recent_form,
    shown_answers,
)
from tiltyard.arena.study import ModelFacts, Snapshot
from tiltyard.arena.study.model_detail import model_detail
from tiltyard.data.battles import Outcome
from tiltyard.errors import TiltyardError
from tiltyard.reports import GridCell, GridRow
from tiltyard.reports.grid import grid
from tiltyard.site.addresses import compare_address, model_address
from tiltyard.site.leaderboard import public_row
from tiltyard.stats import CalibrationCurve

LATEST = 15
"""Votes that the page lists."""

MOST_PROMPTS = 1_000
"""Prompts in the grid: those with most votes on the model."""

HIDDEN = "answer hidden while it is being voted on"

PIECES = 8
"""Periods that the both-bad trend is split into."""


class SeenVote(msgspec.Struct, frozen=True):
    """A vote on it; `at` is rounded down to the hour, as in the downloads."""

    at: int
    rival: str
    prompt: str
    result: str
    """W, L, D, or X for both bad."""
    counted: bool


class Neighbourhood(msgspec.Struct, frozen=True):
    """The models beside it by Bradley–Terry, and the fewest votes whose removal makes them level."""

    above: str | None
    votes_to_rise: int | None
    below: str | None
    votes_to_fall: int | None


class ModelPage(msgspec.Struct, frozen=True, eq=False):
    """Everything that a model's page shows, except texts."""

    facts: ModelFacts
    detail: ModelDetail
    form: RecentForm
    path: RatingPath
    trend: tuple[BothBadPiece, ...]
    calibration: CalibrationCurve
    offline: OfflineRow | None
    around: Neighbourhood | None
    latest: tuple[SeenVote, ...]
    answers: dict[str, str]
    """Every prompt that it has answered, and the id of its answer; empty while it may not be shown."""
    beside: dict[str, dict[str, Record]]
    """The records of the models next in rank, by prompt."""
    leanings: Leanings
    """Where it does better or worse than its rating, beyond chance."""
    phase: int
    """Phase of the rollout, which says what is public."""

    @property
    def win_rate(self) -> float | None:
        row = self.detail.row
        return row.wins / (row.wins + row.losses) if row.wins + row.losses else None

    @property
    def recent_delta(self) -> float | None:
        """How far the rating moved over its last votes."""
        return self.path.recent_delta(RECENT)


def model_page(snapshot: Snapshot, state: ArenaState, every: VoteColumns, name: str) -> ModelPage:
    """The page of an enabled model; a missing or disabled one is an `ArenaError`."""
    detail = model_detail(state, name, snapshot.board)
    ranks = {row.model: row.rank for row in snapshot.board.rows}
    near = tuple(
        msgspec.structs.replace(near, rank=ranks.get(near.record.name, near.rank)) for near in detail.neighbours
    )
    detail = msgspec.structs.replace(detail, neighbours=near)
    facts = snapshot.model(name)
    offline, around = _by_bradley_terry(snapshot, name)
    votes, again = snapshot.study.votes, snapshot.study.replay
    latest = every.of_model(facts.number, RECENT)
    hours = votes.at[(votes.model_a == facts.number) | (votes.model_b == facts.number)] // HOUR
    ends = np.linspace(int(hours.min()), int(hours.max()) + 1, PIECES + 1) if len(hours) else hours
    edges = sorted({int(edge) * HOUR for edge in ends})  # of about equal periods, by the hour
    return ModelPage(
        facts=facts,
        detail=detail,
        form=recent_form(latest[::-1], facts.number),
        path=again.path(facts.number),
        trend=both_bad_trend(votes, facts.number, edges),
        calibration=again.calibration(facts.number),
        offline=offline,
        around=around,
        latest=tuple(
            SeenVote(
                vote.at // HOUR * HOUR,
                state.catalog.models[vote.b if vote.a == facts.number else vote.a].model,
                state.catalog.prompts[vote.prompt].prompt_id,
                result_for(vote, facts.number),
                vote.standing is VoteStanding.COUNTED,
            )
            for vote in latest[:LATEST]
        ),
        answers=_answers(state, facts.number),
        beside={
            name: {record.name: record for record in by_prompt(state, state.catalog.model(name))}
            for name in (near.record.name for near in detail.neighbours)
        },
        leanings=leanings(state, facts.number),
        phase=snapshot.board.phase,
    )


def _answers(state: ArenaState, model: int) -> dict[str, str]:
    public, answers = public_prompts(state), shown_answers(state.catalog)
    kept_back = state.catalog.prompt_reserved
    answered = sorted(prompt for author, prompt in answers if author == model and not kept_back[prompt])
    return {
        state.catalog.prompts[prompt].prompt_id: answers[model, prompt] if prompt in public else ""
        for prompt in answered
    }


def _by_bradley_terry(snapshot: Snapshot, name: str) -> tuple[OfflineRow | None, Neighbourhood | None]:
    """A model's line on the board of all votes, and the models beside it there."""
    rows = snapshot.study.offline.rows if snapshot.study.offline else ()
    for above, row, below in zip([None, *rows], rows, [*rows[1:], None], strict=False):
        if row.model == name:
            next_above, rise = (above.model, above.votes_to_swap) if above else (None, None)
            return row, Neighbourhood(next_above, rise, below.model if below else None, row.votes_to_swap)
    return None, None


def result_for(vote: CastVote, model: int) -> str:
    """What a vote meant for one of its models: W, L, D, or X for both bad."""
    if vote.choice is Choice.BOTH_BAD:
        return "X"
    if vote.choice is Choice.TIE:
        return "D"
    return "W" if (vote.choice is Choice.A) == (vote.a == model) else "L"


def chosen_prompt(page: ModelPage, asked: str | None) -> str | None:
    """The prompt whose answer is shown: the one asked for, else the public one with most votes; None without any."""
    if asked is not None and asked in page.answers:
        return asked
    votes = {record.name: record.votes for record in (*page.detail.prompts, *page.detail.retired_prompts)}
    public = [prompt for prompt, answer in page.answers.items() if answer]
    return max(public, key=lambda prompt: votes.get(prompt, 0), default=None)


EXTREMES = 5
"""The worst and the best prompts that are seen first."""


def extremes(page: ModelPage) -> tuple[tuple[Record, ...], tuple[Record, ...]] | None:
    """The prompts on which it did worst and best, the most telling first; None if all of them fit on one screen."""
    records = [record for record in (*page.detail.prompts, *page.detail.retired_prompts) if record.score is not None]
    if len(records) <= 2 * EXTREMES:
        return None
    records.sort(key=lambda record: (record.wins - record.losses, record.score or 0.0))
    return tuple(records[:EXTREMES]), tuple(records[: -EXTREMES - 1 : -1])


def prompt_grid(
    page: ModelPage, texts: Mapping[str, str], names: Mapping[str, str], subjects: Mapping[str, str], *, blind: bool
) -> dict[str, Any]:
    """How the model and those next in rank fared on each prompt, without any answer; its heaviest losses first.

    Parameters:
        page: The model's page.
        texts: The texts of the prompts by id.
        names: The names of the models as they are shown.
        subjects: What each prompt is about, where that is known.
        blind: Whether the answers to prompts in use are hidden.
    """
    model, rivals = page.facts.model, list(page.beside)
    rows = []
    for records, state in ((page.detail.prompts, ""), (page.detail.retired_prompts, "retired")):
        for record in records:
            name, public = record.name, page.answers.get(record.name)
            cells = [
                GridCell(met.score, met.wins, met.losses, met.ties, met.both_bad)
                if met is not None and met.votes
                else None
                for met in (record, *(page.beside[rival].get(name) for rival in rivals))
            ]
            targets = [model_address(model, name), *(compare_address(model, rival, name) for rival in rivals)]
            row = GridRow(name, cells, texts.get(name, name), subjects.get(name), weight=(float(record.votes),))
            row = replace(row, remark=HIDDEN if blind and public == "" else state)
            rows.append(replace(row, target=targets[0], targets=targets) if public else row)
    rows.sort(key=lambda row: row.losses)
    return grid(
        [(name, f"where {name} lost") for name in (page.facts.display_name, *(names[rival] for rival in rivals))],
        rows,
        label="By prompt",
        most=MOST_PROMPTS,
        omitted="with the fewest votes are left out.",
        leads="A retired prompt leads to the answer, a cell of another model to both answers.",
        most_text=0,
    )


LEANINGS = ("leanings", "leanings_by_prompt", "leanings_by_opponent")
"""The keys of a model's strengths and weaknesses."""

IN_SHADOW = ("calibration", "bradley_terry", "neighbourhood", "neighbours", "heatmap", "history", *LEANINGS)
"""What is said of a model from phase 2 on."""


class RatingHistory(msgspec.Struct, frozen=True):
    """Its ratings over time (microseconds)."""

    at: list[int]
    rating: list[float]
    deviation: list[float]


class ModelAnswer(ModelFacts, frozen=True, kw_only=True):
    """`GET /api/v1/models/{model}`; null is what its phase does not make public."""

    row: BoardRow
    """Its line on the board."""
    prompts: tuple[Record, ...]
    """Its record by prompt."""
    retired_prompts: tuple[Record, ...]
    """Prompts that are off, where the model has votes."""
    opponents: tuple[Record, ...]
    """Its record by opponent."""
    neighbours: tuple[Neighbour, ...]
    """The models beside it on the board."""
    heatmap: Heatmap
    """Decisive votes by prompt and opponent."""
    win_rate: float | None
    """Share of decisive votes won."""
    recent_form: RecentForm
    """Its latest results."""
    recent_delta: float | None
    """Rating points gained over the latest votes."""
    both_bad_trend: tuple[BothBadPiece, ...]
    """Its share of both-bad votes over time."""
    calibration: CalibrationCurve | None
    """Predicted against observed scores of its votes."""
    bradley_terry: OfflineRow | None
    """Its line by Bradley–Terry."""
    neighbourhood: Neighbourhood | None
    """The models beside it by Bradley–Terry."""
    history: RatingHistory
    """Its ratings over time."""
    latest_votes: tuple[SeenVote, ...]
    """The latest votes on it."""
    leanings: tuple[Leaning, ...]
    """Categories on which it does better or worse than its rating, beyond chance."""
    leanings_by_prompt: tuple[Leaning, ...]
    """The same for single prompts in use; `category` is the prompt's id."""
    leanings_by_opponent: tuple[Leaning, ...]
    """The same for single opponents; `category` is the model's id."""
    seq: int
    """Events of the log that it includes."""


def model_values(page: ModelPage, seq: int) -> ModelAnswer:
    """What the page shows, for programs: the log had so many events."""
    path, phase = page.path, page.phase
    answer = ModelAnswer(
        **msgspec.structs.asdict(page.facts),
        **msgspec.structs.asdict(page.detail) | {"row": public_row(page.detail.row, phase)},
        win_rate=page.win_rate,
        recent_form=page.form,
        recent_delta=page.recent_delta if phase >= OFFICIAL_FROM else None,
        both_bad_trend=page.trend,
        calibration=page.calibration,
        bradley_terry=page.offline,
        neighbourhood=page.around,
        history=RatingHistory((path.at // HOUR * HOUR).tolist(), path.rating.tolist(), path.deviation.tolist()),
        latest_votes=page.latest,
        leanings=page.leanings.categories,
        leanings_by_prompt=page.leanings.prompts,
        leanings_by_opponent=page.leanings.opponents,
        seq=seq,
    )
    if phase > SHADOW_PHASE:
        return answer
    records: dict[str, Any] = {
        name: tuple(msgspec.structs.replace(record, expected_wins=None) for record in getattr(answer, name))
        for name in ("prompts", "retired_prompts", "opponents")
    }
    return msgspec.structs.replace(answer, **(dict.fromkeys(IN_SHADOW) | records))


class ComparePage(msgspec.Struct, frozen=True):
    """Two models: their rows, the record of the first against the second, overall and by prompt.

    `expected` is the score that current ratings predict for the first; `complete` is how close the pair is to the
    number of votes and prompts that neighbours need. `shared` are the prompts that both have answered, most voted
    first; the answers to some of them, `hidden`, may not be shown.
    """

    a: ModelFacts
    b: ModelFacts
    row_a: BoardRow | None
    row_b: BoardRow | None
    record: Record
    expected: float
    complete: float
    prompts: tuple[Record, ...]
    shared: tuple[str, ...]
    answers: dict[str, tuple[str, str]]
    """The ids of both answers to each shared prompt that may be shown."""
    hidden: tuple[str, ...]
    in_shadow: bool
    """Whether figures of the ratings are not public yet."""
    difference: EstimatedDifference | None = None
    """How far apart the two are by all votes, on the scale of the board; None where the votes do not say."""

    @property
    def examples(self) -> tuple[tuple[str, Record], ...]:
        """Prompts whose answers may be shown on which each of the two won most: the winner's name, the record."""
        public = [record for record in self.prompts if record.name in self.answers]
        ours = max(public, key=lambda record: record.wins - record.losses, default=None)
        theirs = min(public, key=lambda record: record.wins - record.losses, default=None)
        return tuple(
            (one.display_name, record)
            for one, record, ahead in ((self.a, ours, 1), (self.b, theirs, -1))
            if record is not None and ahead * (record.wins - record.losses) > 0
        )

    @property
    def votes(self) -> int:
        return self.record.votes


def compare_page(snapshot: Snapshot, state: ArenaState, name_a: str, name_b: str) -> ComparePage:
    """Two different models; an unknown one is an `ArenaError`."""
    a, b = snapshot.model(name_a), snapshot.model(name_b)
    rows = {row.model: row for row in snapshot.board.rows}
    ids, public = shown_answers(state.catalog), public_prompts(state)
    both = {
        prompt.prompt_id: prompt.number
        for prompt in snapshot.prompts
        if (a.number, prompt.number) in ids
        and (b.number, prompt.number) in ids
        and not state.catalog.prompt_reserved[prompt.number]
    }
    prompts = records_by_prompt(snapshot.study.votes, a.number, b.number)
    met = [record.name for record in prompts if record.name in both]
    rating = state.ratings.rating
    return ComparePage(
        a=a,
        b=b,
        row_a=rows.get(name_a),
        row_b=rows.get(name_b),
        record=against(state, a.number, b.number),
        expected=float(expected_scores(rating[a.number], rating[b.number])),
        complete=completeness(state, a.number, b.number),
        prompts=prompts,
        shared=(*met, *(prompt for prompt in both if prompt not in met)),
        answers={
            name: (ids[a.number, number], ids[b.number, number]) for name, number in both.items() if number in public
        },
        hidden=tuple(name for name, number in both.items() if number not in public),
        in_shadow=snapshot.board.phase == SHADOW_PHASE,
    )


def estimated_difference(snapshot: Snapshot, a: str, b: str) -> EstimatedDifference | None:
    """How far the first model is ahead of the second by all counted votes, as the board's intervals are made.

    Parameters:
        snapshot: The arena.
        a: The first model.
        b: The second model.
    """
    study, rules = snapshot.study, snapshot.policy.intervals
    if study.offline is None or snapshot.board.phase == SHADOW_PHASE:
        return None
    try:
        estimator = replace(published_estimator(rules), slot=False)  # as on the board; sides are drawn at random
        result = compare_in(study.votes.battles(), a, b, estimator, by=(), anytime=rules.anytime)
    except TiltyardError:
        return None
    slope, plain = study.offline.slope, result.estimate
    low, high = (None if end is None else slope * end for end in (plain.low, plain.high))
    return msgspec.structs.replace(plain, difference=slope * plain.difference, low=low, high=high)


def records_by_prompt(votes: VoteTable, a: int, b: int) -> tuple[Record, ...]:
    """The record of one model against another on every prompt they have a vote on, most votes first."""
    forward, backward = (votes.model_a == a) & (votes.model_b == b), (votes.model_a == b) & (votes.model_b == a)
    counts: dict[int, list[int]] = {}
    for here, won, lost in ((forward, Outcome.A.code, Outcome.B.code), (backward, Outcome.B.code, Outcome.A.code)):
        for prompt, outcome in zip(votes.prompt[here].tolist(), votes.outcome[here].tolist(), strict=True):
            place = (won, lost, Outcome.TIE.code, Outcome.BOTH_BAD.code).index(outcome)
            counts.setdefault(prompt, [0, 0, 0, 0])[place] += 1
    ordered = sorted(counts.items(), key=lambda item: (-sum(item[1]), votes.prompts[item[0]]))
    return tuple(
        Record(votes.prompts[prompt], wins, losses, ties, both_bad, expected_wins=0.0)
        for prompt, (wins, losses, ties, both_bad) in ordered
    )
