"""The vote page: a prompt, two answers, and what became of the vote. Plain forms, which a script may speed up."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from tiltyard.arena.effect import PairVotes, pair_votes
from tiltyard.arena.events import Choice
from tiltyard.arena.service import clock
from tiltyard.arena.state import Standing
from tiltyard.arena.voting import SECOND, Gone, NotYours, Status
from tiltyard.web.bodies import form_of
from tiltyard.web.failures import Failure
from tiltyard.web.site import site_of
from tiltyard.web.text import is_plain, rendered

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tiltyard.arena.asks import Served
    from tiltyard.arena.effect import Effect
    from tiltyard.arena.state import ArenaState
    from tiltyard.arena.store.showing import ShownMatchup
    from tiltyard.report.markup import Html
    from tiltyard.web.visitors import Visitor

router = APIRouter(include_in_schema=False)

PURPOSE = "vote"
START = "start"
LONG_CHARACTERS = 900
LONG_LINES = 14
"""From here on an answer may need more room than its column gives it, and can be expanded."""

AT_ONCE_CHARACTERS = 4_000
"""Longer texts are rendered beside the event loop."""


@dataclass(frozen=True, slots=True)
class Shown:
    """One text as the page shows it."""

    html: Html
    is_long: bool
    is_plain: bool
    is_empty: bool


@dataclass(frozen=True, slots=True)
class Side:
    """One model of a pair that was voted on. `change` is what the vote did to its rating, where that is known."""

    model: str
    name: str
    rating: float
    change: float | None
    votes: int
    chosen: bool


@dataclass(frozen=True, slots=True)
class Outcome:
    """The two models of a pair and how others voted on them, read in one moment."""

    a: Side
    b: Side
    others: PairVotes
    undo_seconds: int


@router.get("/")
async def vote_page(request: Request) -> Response:
    """The pair that waits for this visitor, or a new one; for somebody new, a button that starts. Only that writes."""
    site = site_of(request)
    visitor = await site.visitors.recognize(request)
    if visitor is None:
        return site.page("start.html", {"token": site.visitors.token(request, START)}, here="vote")
    if request.state.is_head:
        return HTMLResponse()
    matchup = await site.engine.open_matchup(visitor.voter, clock()) or await site.visitors.serve(visitor)
    token = site.visitors.token(request, PURPOSE)
    context = {**await _texts(matchup), "matchup_id": matchup.matchup_id, "token": token}
    return site.page("vote.html", context, here="vote")


@router.post("/start")
async def start_voting(request: Request) -> Response:
    """Make a visitor a voter; the answer leads to the first pair."""
    visitors = site_of(request).visitors
    form = await form_of(request)
    visitors.check_form(request, form.get("token", ""), START)
    await visitors.enter(request)
    return _lead_to("/")


@router.post("/vote")
async def cast_vote(request: Request) -> Response:
    """Take a vote; the answer leads to what became of it."""
    site = site_of(request)
    matchup_id, visitor, form = await _asked(request)
    try:
        choice = Choice(form.get("choice", ""))
    except ValueError:
        raise Failure(400, "bad_request", "a vote says A, B, TIE or BOTH_BAD. Use the page's buttons.") from None
    await site.engine.vote_seen(matchup_id, visitor.voter, choice, site.visitors.quotas(visitor, "vote"))
    return _lead_to(f"/votes/{matchup_id}")


@router.post("/skip")
async def skip_pair(request: Request) -> Response:
    """Pass a pair; the answer leads to another."""
    matchup_id, visitor, _ = await _asked(request)
    await site_of(request).engine.skip(matchup_id, visitor.voter)
    return _lead_to("/")


@router.post("/undo")
async def undo_vote(request: Request) -> Response:
    """Take a fresh vote back."""
    matchup_id, visitor, _ = await _asked(request)
    await site_of(request).engine.undo(matchup_id, visitor.voter)
    return _lead_to(f"/votes/{matchup_id}")


@router.get("/votes/{matchup_id}")
async def vote_result(request: Request, matchup_id: str) -> Response:
    """Who the two were, once the vote is committed; before that, nothing."""
    site = site_of(request)
    voter = await site.visitors.known(request)
    matchup = None if voter is None else await site.engine.shown(matchup_id, voter)
    if matchup is None:
        raise NotYours("there is no such matchup for this voter. Ask for one.")
    if matchup.status is Status.OPEN:
        return _lead_to("/")
    if matchup.status not in (Status.VOTED, Status.UNDONE):
        raise Gone(f"matchup {matchup.matchup_id} was not voted on in time, or skipped. Ask for another.")
    outcome = await site.engine.read(outcome_of(matchup, site.engine.effect(matchup.matchup_id)))
    texts = await _texts(matchup)
    context = {**texts, **result_context(matchup, outcome), "token": site.visitors.token(request, PURPOSE)}
    return site.page("vote_result.html", context, here="vote")


async def shown(text: str) -> Shown:
    """A text as the page shows it; a long one is rendered beside the event loop."""
    html = rendered(text) if len(text) <= AT_ONCE_CHARACTERS else await asyncio.to_thread(rendered, text)
    is_long = len(text) > LONG_CHARACTERS or text.count("\n") > LONG_LINES
    return Shown(html, is_long, is_plain(text), not text.strip())


def outcome_of(matchup: ShownMatchup, effect: Effect | None) -> Callable[[ArenaState], Outcome]:
    """A look at the state that tells who the two were, where they stand now, and how others voted on them."""
    voted = matchup.status is Status.VOTED

    def look(state: ArenaState) -> Outcome:
        others = effect.others if effect is not None else others_now(state, matchup)
        change_a, change_b = (None, None) if effect is None else (effect.change_a, effect.change_b)
        a = _side(state, matchup.a, change_a, chosen=voted and matchup.choice is Choice.A)
        b = _side(state, matchup.b, change_b, chosen=voted and matchup.choice is Choice.B)
        return Outcome(a, b, others, state.policy.undo_seconds)

    return look


def result_context(matchup: ShownMatchup, outcome: Outcome) -> dict[str, Any]:
    """What the result page says."""
    left = 0
    if matchup.status is Status.VOTED and matchup.closed_at is not None:
        left = (matchup.closed_at + outcome.undo_seconds * SECOND - clock()) // SECOND
    return {
        "matchup_id": matchup.matchup_id,
        "choice": matchup.choice,
        "undone": matchup.status is Status.UNDONE,
        "outcome": outcome,
        "undo_left": max(0, left),
        "split": split(outcome.others),
    }


def split(votes: PairVotes) -> list[tuple[str, float, float]]:
    """The parts of a bar from 0 to 100: class, start and width of each."""
    parts, start = [], 0.0
    counts = (("a", votes.a), ("tie", votes.ties), ("both-bad", votes.both_bad), ("b", votes.b))
    for kind, count in counts:
        width = 100.0 * count / votes.total if votes.total else 0.0
        parts.append((kind, round(start, 3), round(width, 3)))
        start += width
    return [part for part in parts if part[2]]


def _side(state: ArenaState, number: int, change: float | None, *, chosen: bool) -> Side:
    facts, tallies = state.catalog.models[number], state.tallies
    votes = int(tallies.rated[number]) + int(tallies.both_bad.view[number].sum())
    rating = float(state.track.now.rating[number])
    return Side(facts.model, facts.display_name, rating, change, votes, chosen)


def others_now(state: ArenaState, matchup: ShownMatchup) -> PairVotes:
    """The pair's votes but for this one, if it is among them."""
    everyone = pair_votes(state, matchup.a, matchup.b)
    if matchup.standing is not Standing.COUNTED or matchup.choice is None:
        return everyone
    return without(everyone, matchup.choice)


def without(votes: PairVotes, choice: Choice) -> PairVotes:
    """The votes but for one."""
    return PairVotes(
        a=votes.a - (choice is Choice.A),
        b=votes.b - (choice is Choice.B),
        ties=votes.ties - (choice is Choice.TIE),
        both_bad=votes.both_bad - (choice is Choice.BOTH_BAD),
    )


async def _asked(request: Request) -> tuple[str, Visitor, Mapping[str, str]]:
    """The matchup that a form is about and who sent it, checked."""
    visitors = site_of(request).visitors
    form = await form_of(request)
    visitors.check_form(request, form.get("token", ""), PURPOSE)
    return form.get("matchup_id", ""), await visitors.returning(request), form


async def _texts(matchup: ShownMatchup | Served) -> dict[str, Shown]:
    texts = {"prompt": matchup.prompt, "answer_a": matchup.response_a, "answer_b": matchup.response_b}
    return {name: await shown(text) for name, text in texts.items()}


def _lead_to(path: str) -> RedirectResponse:
    return RedirectResponse(path, status_code=303)
