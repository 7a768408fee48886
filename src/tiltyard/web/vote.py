"""The vote page: a prompt, two answers, and the result of the vote. Plain forms, which a script may speed up."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from tiltyard.arena.commands import (
    SAFE_ID,
    ExplainVote,
    ReportAnswer,
    RevealNames,
    ServedMatchup,
    SkipMatchup,
    SubmitVote,
    UndoVote,
)
from tiltyard.arena.events import Choice
from tiltyard.arena.following.snapshots import Snapshot
from tiltyard.arena.ratings import Effect, PairVotes, effect_of, pair_votes
from tiltyard.arena.reasons import CHANGES_PER_VOTE, BallotRules, checked_comment, checked_tags
from tiltyard.arena.state import VoteStanding
from tiltyard.arena.store.desk import Answered, own_explanation
from tiltyard.arena.store.matchups import ShownMatchup, final_votes, has_voted, open_matchup, shown_matchup
from tiltyard.arena.store.visitors import DAY_SECONDS, Quota
from tiltyard.arena.units import SECOND
from tiltyard.arena.voting import Gone, MatchupStatus, NotInvited, NotYours, shows_names
from tiltyard.bank import AnswerKind
from tiltyard.bank.responses import read_steps
from tiltyard.pages.escaping import Html
from tiltyard.web.bodies import form_of
from tiltyard.web.failures import Failure
from tiltyard.web.me import ENOUGH
from tiltyard.web.site import Site, site_of
from tiltyard.web.text import count_words, is_plain, is_quick, rendered, split_reasoning
from tiltyard.web.visitors import START, Visitor

PURPOSE = "vote"
LONG_CHARACTERS = 700
LONG_LINES = 10
"""From this length on a text may not fit its box, and can be expanded."""


class ShownStep(msgspec.Struct, frozen=True):
    """A step of an agent's transcript: folded, but for the last one. What tools get and give is shown as it is."""

    number: int
    heading: str
    html: Html | None
    body: str
    words: int


class Shown(msgspec.Struct, frozen=True):
    """One text as the page shows it; of an answer also what its model wrote to itself first, which is folded."""

    html: Html
    words: int
    is_long: bool
    is_plain: bool
    is_empty: bool
    reasoning: Html | None = None
    reasoning_words: int = 0
    kind: str = AnswerKind.TEXT.value
    url: str = ""
    """Where the file is, if it is not a text; `html` is then a description, or empty."""
    played_seconds: int = 0
    """How long a sound or film is played before the vote."""
    steps: tuple[ShownStep, ...] = ()
    """The steps of an agent's transcript, in place of `html`."""


class Side(msgspec.Struct, frozen=True):
    """One model of a pair that was voted on, and its rating as the board shows it: now, and before the vote."""

    model: str
    name: str
    rating: float | None
    before: float | None
    is_chosen: bool


class RevealedPair(msgspec.Struct, frozen=True):
    """The two models of a pair and how others voted on them, as far as that is public."""

    a: Side
    b: Side
    others: PairVotes


async def vote_page(request: Request) -> Response:
    """The visitor's open pair, or a new one; for a new visitor, a start button. Only that button creates a voter."""
    site = site_of(request)
    visitor = await site.visitors.recognize(request)
    if visitor is None:
        return _start_page(request, closed=site.observatory.snapshot.policy.entry.invitation_only)
    if request.state.is_head:
        return HTMLResponse()
    store = site.engine.arena.store
    waiting = await asyncio.to_thread(open_matchup, store, visitor.voter, site.engine.arena.now())
    token = site.visitors.token(request, PURPOSE)
    matchup = waiting or await site.visitors.serve(visitor)
    context = {**await texts_of(site, matchup), "matchup_id": matchup.matchup_id, "token": token}
    context["first_visit"] = not await asyncio.to_thread(has_voted, store, visitor.voter)
    context["long_words"] = site.observatory.snapshot.policy.ballot.long_words
    return site.page("vote.html", context, here="vote")


async def invitation(request: Request) -> Response:
    """The start page with an invitation. Looking at it uses nothing: mail programs look at links too."""
    secret = request.path_params["secret"]
    if not SAFE_ID.match(secret):
        raise NotInvited("this is no invitation. Open the whole link that you were given.")
    await site_of(request).visitors.check_invitation(request, secret)
    return _start_page(request, invitation=secret)


def _start_page(request: Request, *, invitation: str = "", closed: bool = False) -> Response:
    site = site_of(request)
    asked = {"token": site.visitors.token(request, START), "consent": site.settings.consent}
    return site.page("start.html", {**asked, "invitation": invitation, "closed": closed}, here="vote")


async def start_voting(request: Request) -> Response:
    """Make a visitor a voter; redirects to the first pair."""
    visitors = site_of(request).visitors
    form = await form_of(request)
    visitors.check_form(request, form.get("token", ""), START)
    await visitors.enter(request, form.get("invitation", ""))
    return redirect("/")


async def cast_vote(request: Request) -> Response:
    """Take a vote and hold back the names; redirects to a page that shows them shortly after."""
    site = site_of(request)
    matchup_id, visitor, form = await asked(request)
    choice, unrendered = chosen(form)
    quotas, block = site.visitors.quotas(visitor, "vote"), site.visitors.block(visitor)
    voter = visitor.voter
    vote = SubmitVote(matchup_id, voter, choice, quotas=quotas, reveal=False, block=block, unrendered=unrendered)
    await site.engine.run(vote)
    return redirect(f"/votes/{matchup_id}")


def chosen(form: Mapping[str, str]) -> tuple[Choice | None, str]:
    """What a ballot says: a choice, or instead of it which answers could not be shown."""
    if unrendered := form.get("unrendered", ""):
        return None, unrendered
    try:
        return Choice(form.get("choice", "")), ""
    except ValueError:
        raise Failure(400, "bad_request", "a vote says A, B, TIE or BOTH_BAD. Use the page's buttons.") from None


async def reveal_names(request: Request) -> Response:
    """Make a vote final; redirects to the names."""
    matchup_id, visitor, _ = await asked(request)
    await site_of(request).engine.run(RevealNames(matchup_id, visitor.voter))
    return redirect(f"/votes/{matchup_id}")


async def skip_pair(request: Request) -> Response:
    """Skip a pair; redirects to another."""
    site = site_of(request)
    matchup_id, visitor, _ = await asked(request)
    await site.engine.run(SkipMatchup(matchup_id, visitor.voter, quotas=site.visitors.quotas(visitor, "skip")))
    return redirect("/")


async def undo_vote(request: Request) -> Response:
    """Undo a recent vote whose names were held back."""
    site = site_of(request)
    matchup_id, visitor, _ = await asked(request)
    await site.engine.run(UndoVote(matchup_id, visitor.voter, quotas=site.visitors.quotas(visitor, "undo")))
    return redirect(f"/votes/{matchup_id}")


_SIDES: dict[str, Answered] = {"A": "A", "B": "B"}


async def explain_vote(request: Request) -> Response:
    """Say why one voted so; redirects to the result."""
    site = site_of(request)
    matchup_id, visitor, form = await asked(request)
    tags = [value for name, value in form.items() if name.startswith("reason-")]
    rules = site.observatory.snapshot.policy.ballot
    checked_tags(tags, rules)  # what is refused anyway does not count
    checked_comment(form.get("comment", ""), rules)
    changes = Quota(f"reasons:{visitor.voter}:{matchup_id[:200]}", CHANGES_PER_VOTE, DAY_SECONDS)
    await site.engine.run(ExplainVote(matchup_id, visitor.voter, tags, form.get("comment", ""), quotas=(changes,)))
    return redirect(f"/votes/{matchup_id}?explained=1#reasons")


async def report_answer(request: Request) -> Response:
    """Report one answer of a pair to the operator."""
    site = site_of(request)
    matchup_id, visitor, form = await asked(request)
    if (side := _SIDES.get(form.get("side", ""))) is None:
        raise Failure(400, "bad_request", "a report is about answer A or B. Use the page's buttons.")
    reason, quotas = form.get("reason", ""), site.visitors.quotas(visitor, "report")
    await site.engine.run(ReportAnswer(matchup_id, visitor.voter, side, reason, quotas=quotas))
    return site.page("vote_reported.html", {"matchup_id": matchup_id}, here="vote")


async def vote_result(request: Request) -> Response:
    """The names, once the vote is final; until then, how to undo it or to see the names."""
    matchup_id = request.path_params["matchup_id"]
    site = site_of(request)
    snapshot = site.observatory.snapshot  # before reading the vote: one missing here is not included
    voter = await site.visitors.known(request)
    matchup = None
    if voter is not None and SAFE_ID.match(matchup_id):
        matchup = await asyncio.to_thread(shown_matchup, site.engine.arena.store, matchup_id, voter)
    if matchup is None or voter is None:
        raise NotYours("there is no such matchup for this voter. Ask for one.")
    if matchup.status is MatchupStatus.OPEN:
        return redirect("/")
    if matchup.status not in (MatchupStatus.VOTED, MatchupStatus.UNDONE):
        raise Gone(f"matchup {matchup.matchup_id} was not voted on in time, or skipped. Ask for another.")
    token, now = site.visitors.token(request, PURPOSE), site.engine.arena.now()
    context = {**await texts_of(site, matchup), "matchup_id": matchup.matchup_id, "token": token}
    context |= {"choice": matchup.choice, "unrendered": matchup.unrendered}
    if matchup.status is MatchupStatus.UNDONE:
        return site.page("vote_undone.html", context, here="vote")
    effect = site.vote_effects.first(matchup.matchup_id, lambda: effect_on(snapshot, matchup))
    if not shows_names(matchup.status, matchup.undo_until, now):
        left = max(0, (matchup.undo_until or 0) - now) / SECOND
        return site.page("vote_held_back.html", {**context, "undo_left": left}, here="vote")
    outcome = outcome_of(snapshot, matchup, effect)
    votes = await asyncio.to_thread(final_votes, site.engine.arena.store, voter, now)
    own = {vote.matchup_id for vote in votes if vote.standing is VoteStanding.COUNTED} | {matchup.matchup_id}
    context |= {"own": len(own), "enough": ENOUGH, "given": None, "receipt": matchup.receipt}
    context |= {
        "ballot": snapshot.policy.ballot,
        "reasons": offered_reasons(snapshot.policy.ballot, matchup.kind, matchup.choice),
    }
    if "explained" in request.query_params:
        context["given"] = await asyncio.to_thread(own_explanation, site.engine.arena.store, matchup.matchup_id)
    return site.page("vote_result.html", {**context, "outcome": outcome, "split": split(outcome.others)}, here="vote")


async def shown(text: str) -> Shown:
    """A text as the page shows it."""
    is_long = len(text) > LONG_CHARACTERS or text.count("\n") > LONG_LINES
    return Shown(await _html(text), count_words(text), is_long, is_plain(text), not text.strip())


async def shown_answer(text: str) -> Shown:
    """An answer as the page shows it, its reasoning or the steps of its transcript apart."""
    if steps := read_steps(text):
        told = [
            ShownStep(
                step.number,
                step.heading,
                None if step.is_tool else await _html(step.body),
                step.body,
                count_words(step.body),
            )
            for step in steps
        ]
        return Shown(Html(""), count_words(text), is_long=False, is_plain=False, is_empty=False, steps=tuple(told))
    reasoning, answer = split_reasoning(text)
    made = await shown(answer)
    if not reasoning:
        return made
    return replace(made, reasoning=await _html(reasoning), reasoning_words=count_words(reasoning))


async def _html(text: str) -> Html:
    """A text as HTML; one that takes long is rendered outside the event loop."""
    return rendered(text) if is_quick(text) else await asyncio.to_thread(rendered, text)


def effect_on(snapshot: Snapshot, matchup: ShownMatchup) -> Effect | None:
    """The effect of a vote on public figures that do not include it yet; None if they do, or lack its models."""
    if _holds(snapshot, matchup) or matchup.choice is None or max(matchup.a, matchup.b) >= len(snapshot.models):
        return None
    others = pair_votes(snapshot.wins, snapshot.ties, snapshot.both_bad, matchup.a, matchup.b)
    return effect_of(
        snapshot.ratings,
        others,
        snapshot.policy.rating,
        [matchup.a, matchup.b],
        matchup.choice,
        by_legacy=_by_legacy(snapshot),
    )


def outcome_of(snapshot: Snapshot, matchup: ShownMatchup, effect: Effect | None) -> RevealedPair:
    """The two models and how others voted on them: as stored at the vote, or else as public now."""
    before_a = before_b = None
    if effect is None:
        rating_a, rating_b = _rating(snapshot, matchup.a), _rating(snapshot, matchup.b)
    else:
        before_a, before_b, rating_a, rating_b = effect.before_a, effect.before_b, effect.after_a, effect.after_b
    name_a, name_b = _display(snapshot, matchup.a, matchup.model_a), _display(snapshot, matchup.b, matchup.model_b)
    return RevealedPair(
        Side(matchup.model_a, name_a, rating_a, before_a, matchup.choice is Choice.A),
        Side(matchup.model_b, name_b, rating_b, before_b, matchup.choice is Choice.B),
        effect.others if effect is not None else others_now(snapshot, matchup),
    )


SAID_OF_TEXTS = frozenset(("more correct", "clearer", "safer"))
"""Reasons that nobody would give for a building, a picture or a sound."""

AS_NOUNS = {
    "more correct": "correctness",
    "clearer": "clarity",
    "better style": "style",
    "more complete": "completeness",
    "more creative": "creativity",
    "safer": "safety",
}
"""What both answers have alike, or both lack: after a tie nothing is better."""


def offered_reasons(rules: BallotRules, kind: str, choice: Choice | None) -> list[tuple[str, str]]:
    """The reasons that fit this kind of answers, each with how it reads after this vote."""
    fits = kind in (AnswerKind.TEXT, AnswerKind.HTML)
    decisive = choice in (Choice.A, Choice.B)
    tags = (tag for tag in rules.reasons if fits or tag not in SAID_OF_TEXTS)
    return [(tag, tag if decisive else AS_NOUNS.get(tag, tag)) for tag in tags]


def split(votes: PairVotes) -> list[tuple[str, float, float]]:
    """The parts of a bar from 0 to 100: class, start and width of each."""
    parts, start = [], 0.0
    counts = (("a", votes.a), ("tie", votes.ties), ("both-bad", votes.both_bad), ("b", votes.b))
    for kind, count in counts:
        width = 100.0 * count / votes.total if votes.total else 0.0
        parts.append((kind, round(start, 3), round(width, 3)))
        start += width
    return [part for part in parts if part[2]]


def _display(snapshot: Snapshot, number: int, model: str) -> str:
    """What a model is called; of one that is newer than the snapshot, its id."""
    return snapshot.models[number].display_name if number < len(snapshot.models) else model


def _by_legacy(snapshot: Snapshot) -> bool:
    return snapshot.board.ordered_by == "legacy_elo"


def _rating(snapshot: Snapshot, model: int) -> float | None:
    """A model's rating as the board shows it; None for one that is newer than the snapshot."""
    now = snapshot.ratings
    return float((now.legacy if _by_legacy(snapshot) else now.conservative)[model]) if model < len(now.rating) else None


def _holds(snapshot: Snapshot, matchup: ShownMatchup) -> bool:
    """Whether the vote is among what was published."""
    return matchup.seq is not None and matchup.seq <= snapshot.seq


def others_now(snapshot: Snapshot, matchup: ShownMatchup) -> PairVotes:
    """The pair's votes without this one, if it is included."""
    if max(matchup.a, matchup.b) >= len(snapshot.models):
        return PairVotes(a=0, b=0, ties=0, both_bad=0)
    everyone = pair_votes(snapshot.wins, snapshot.ties, snapshot.both_bad, matchup.a, matchup.b)
    if matchup.standing is not VoteStanding.COUNTED or matchup.choice is None or not _holds(snapshot, matchup):
        return everyone
    return without(everyone, matchup.choice)


def without(votes: PairVotes, choice: Choice) -> PairVotes:
    """The votes without one."""
    return PairVotes(
        a=votes.a - (choice is Choice.A),
        b=votes.b - (choice is Choice.B),
        ties=votes.ties - (choice is Choice.TIE),
        both_bad=votes.both_bad - (choice is Choice.BOTH_BAD),
    )


async def asked(request: Request) -> tuple[str, Visitor, Mapping[str, str]]:
    """The matchup that a form is about and who sent it, checked."""
    visitors = site_of(request).visitors
    form = await form_of(request)
    visitors.check_form(request, form.get("token", ""), PURPOSE)
    return form.get("matchup_id", ""), await visitors.returning(request), form


async def texts_of(site: Site, matchup: ShownMatchup | ServedMatchup) -> dict[str, Any]:
    """The prompt and both answers as the page shows them, and whether either of the answers has reasoning."""
    a, b = await shown_answer(matchup.response_a), await shown_answer(matchup.response_b)
    if matchup.kind != AnswerKind.TEXT:
        links, seconds = site.shown_links, site.observatory.snapshot.policy.bank.played_seconds
        a = replace(a, kind=matchup.kind, url=links.url(matchup.matchup_id, "A", matchup.kind), played_seconds=seconds)
        b = replace(b, kind=matchup.kind, url=links.url(matchup.matchup_id, "B", matchup.kind), played_seconds=seconds)
    reasoned = a.reasoning is not None or b.reasoning is not None
    return {"prompt": await shown(matchup.prompt), "answer_a": a, "answer_b": b, "reasoned": reasoned}


def redirect(path: str) -> RedirectResponse:
    """Where a form leads to, once what it asks for is done."""
    return RedirectResponse(path, status_code=303)


ROUTES = [
    Route("/", vote_page),
    Route("/invited/{secret}", invitation),
    Route("/start", start_voting, methods=["POST"]),
    Route("/vote", cast_vote, methods=["POST"]),
    Route("/reveal", reveal_names, methods=["POST"]),
    Route("/skip", skip_pair, methods=["POST"]),
    Route("/undo", undo_vote, methods=["POST"]),
    Route("/reasons", explain_vote, methods=["POST"]),
    Route("/report", report_answer, methods=["POST"]),
    Route("/votes/{matchup_id}", vote_result),
]
