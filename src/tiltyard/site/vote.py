"""The vote page: a prompt, two answers, and the result of the vote. Plain forms, which a script may speed up."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, cast

import msgspec
from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from tiltyard.arena import (
    CHANGES_PER_VOTE,
    SAFE_ID,
    SECOND,
    BallotRules,
    Choice,
    Effect,
    ExplainVote,
    Gone,
    MatchupStatus,
    NotInvited,
    NotYours,
    PairVotes,
    ReportAnswer,
    RevealNames,
    ServedMatchup,
    SkipMatchup,
    SubmitVote,
    UndoVote,
    VoteStanding,
    checked_comment,
    checked_tags,
    effect_of,
    pair_votes,
    shows_names,
)
from tiltyard.arena.store import (
    Answered,
    Quota,
    ShownMatchup,
    final_votes,
    has_voted,
    open_matchup,
    own_explanation,
    shown_matchup,
)
from tiltyard.arena.study import Snapshot
from tiltyard.data.bank import AnswerKind, read_steps
from tiltyard.render import Html
from tiltyard.site.bodies import choice_of, form_of
from tiltyard.site.me import ENOUGH
from tiltyard.site.site import Site, site_of
from tiltyard.site.text import count_words, is_plain, is_quick, rendered, split_reasoning
from tiltyard.site.visitors import START, Visitor

PURPOSE = "vote"
LONG_CHARACTERS = 700
LONG_LINES = 10
"""From this length on a text may not fit its box, and can be expanded."""


class RenderedStep(msgspec.Struct, frozen=True):
    """A step of an agent's transcript: folded, but for the last one. What tools get and give is shown as it is."""

    number: int
    heading: str
    html: Html | None
    body: str
    words: int


class RenderedText(msgspec.Struct, frozen=True):
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
    steps: tuple[RenderedStep, ...] = ()
    """The steps of an agent's transcript, in place of `html`."""


class Side(msgspec.Struct, frozen=True):
    """One model of a pair that was voted on, and its rating as the board shows it: now, and before the vote."""

    model: str
    name: str
    rating: float | None
    before: float | None
    is_chosen: bool


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
    context = await pair_context(request, waiting or await site.visitors.serve(visitor))
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
    context = {"token": site.visitors.token(request, START), "consent": site.settings.consent}
    return site.page("start.html", {**context, "invitation": invitation, "closed": closed}, here="vote")


async def start_voting(request: Request) -> Response:
    """Make a visitor a voter; redirects to the first pair."""
    visitors = site_of(request).visitors
    form = await form_of(request)
    visitors.check_form(request, form.get("token", ""), START)
    await visitors.enter(request, form.get("invitation", ""))
    return redirect("/")


async def cast_vote(request: Request) -> Response:
    """Take a vote and hold back the names; redirects to a page that shows them shortly after."""
    site, matchup_id, visitor, form = await checked_form(request)
    choice, unrendered = parse_ballot(form)
    quotas, block = site.visitors.quotas(visitor, "vote"), site.visitors.block(visitor)
    voter = visitor.voter
    vote = SubmitVote(matchup_id, voter, choice, quotas=quotas, reveal=False, block=block, unrendered=unrendered)
    await site.engine.run(vote)
    return redirect(f"/votes/{matchup_id}")


def parse_ballot(form: Mapping[str, str]) -> tuple[Choice | None, str]:
    """What a ballot says: a choice, or instead of it which answers could not be shown."""
    if unrendered := form.get("unrendered", ""):
        return None, unrendered
    return Choice(choice_of(form, "choice", *Choice)), ""


async def reveal_names(request: Request) -> Response:
    """Make a vote final; redirects to the names."""
    site, matchup_id, visitor, _ = await checked_form(request)
    await site.engine.run(RevealNames(matchup_id, visitor.voter))
    return redirect(f"/votes/{matchup_id}")


async def skip_pair(request: Request) -> Response:
    """Skip a pair; redirects to another."""
    site, matchup_id, visitor, _ = await checked_form(request)
    await site.engine.run(SkipMatchup(matchup_id, visitor.voter, quotas=site.visitors.quotas(visitor, "skip")))
    return redirect("/")


async def undo_vote(request: Request) -> Response:
    """Undo a recent vote whose names were held back."""
    site, matchup_id, visitor, _ = await checked_form(request)
    await site.engine.run(UndoVote(matchup_id, visitor.voter, quotas=site.visitors.quotas(visitor, "undo")))
    return redirect(f"/votes/{matchup_id}")


async def explain_vote(request: Request) -> Response:
    """Say why one voted so; redirects to the result."""
    site, matchup_id, visitor, form = await checked_form(request)
    tags = [value for name, value in form.items() if name.startswith("reason-")]
    rules = site.observatory.snapshot.policy.ballot
    checked_tags(tags, rules)  # what is refused anyway does not count
    checked_comment(form.get("comment", ""), rules)
    changes = Quota(f"reasons:{visitor.voter}:{matchup_id[:200]}", CHANGES_PER_VOTE, seconds=86_400)
    await site.engine.run(ExplainVote(matchup_id, visitor.voter, tags, form.get("comment", ""), quotas=(changes,)))
    return redirect(f"/votes/{matchup_id}?explained=1#reasons")


async def report_answer(request: Request) -> Response:
    """Report one answer of a pair to the operator."""
    site, matchup_id, visitor, form = await checked_form(request)
    side = cast("Answered", choice_of(form, "side", "A", "B"))
    reason, quotas = form.get("reason", ""), site.visitors.quotas(visitor, "report")
    await site.engine.run(ReportAnswer(matchup_id, visitor.voter, side, reason, quotas=quotas))
    return site.page("vote_reported.html", {"matchup_id": matchup_id}, here="vote")


async def vote_result(request: Request) -> Response:
    """The names, once the vote is final; until then, how to undo it or to see the names."""
    site = site_of(request)
    snapshot = site.observatory.snapshot  # before reading the vote: one missing here is not included
    voter, matchup = await own_matchup(request)
    if matchup.status is MatchupStatus.OPEN:
        return redirect("/")
    if matchup.status not in (MatchupStatus.VOTED, MatchupStatus.UNDONE):
        raise Gone(f"matchup {matchup.matchup_id} was not voted on in time, or skipped. Ask for another.")
    store, now = site.engine.arena.store, site.engine.arena.now()
    context = await pair_context(request, matchup) | {"choice": matchup.choice, "unrendered": matchup.unrendered}
    if matchup.status is MatchupStatus.UNDONE:
        return site.page("vote_undone.html", context, here="vote")
    effect = site.vote_effects.first(matchup.matchup_id, lambda: effect_on(snapshot, matchup))
    if not shows_names(matchup.status, matchup.undo_until, now):
        left = max(0, (matchup.undo_until or 0) - now) / SECOND
        return site.page("vote_held_back.html", {**context, "undo_left": left}, here="vote")
    votes = await asyncio.to_thread(final_votes, store, voter, now)
    counted = {vote.matchup_id for vote in votes if vote.standing is VoteStanding.COUNTED} | {matchup.matchup_id}
    others, explained = effect.others if effect else others_now(snapshot, matchup), "explained" in request.query_params
    context |= {
        "sides": sides_of(snapshot, matchup, effect),
        "others": others,
        "split": split(others),
        "own": len(counted),
        "enough": ENOUGH,
        "receipt": matchup.receipt,
        "ballot": snapshot.policy.ballot,
        "reasons": offered_reasons(snapshot.policy.ballot, matchup.kind, matchup.choice),
        "given": await asyncio.to_thread(own_explanation, store, matchup.matchup_id) if explained else None,
    }
    return site.page("vote_result.html", context, here="vote")


async def own_matchup(request: Request) -> tuple[str, ShownMatchup]:
    """The visitor's key, and the matchup of theirs that an address names."""
    site, matchup_id = site_of(request), request.path_params["matchup_id"]
    voter = await site.visitors.known(request)
    if voter is not None and SAFE_ID.match(matchup_id):
        matchup = await asyncio.to_thread(shown_matchup, site.engine.arena.store, matchup_id, voter)
        if matchup is not None:
            return voter, matchup
    raise NotYours("there is no such matchup for this voter. Ask for one.")


async def rendered_text(text: str) -> RenderedText:
    """A text as the page shows it."""
    is_long = len(text) > LONG_CHARACTERS or text.count("\n") > LONG_LINES
    return RenderedText(await _html(text), count_words(text), is_long, is_plain(text), not text.strip())


async def _rendered_answer(text: str) -> RenderedText:
    """An answer as the page shows it, its reasoning or the steps of its transcript apart."""
    if steps := read_steps(text):
        html = [None if step.is_tool else await _html(step.body) for step in steps]
        parts = tuple(
            RenderedStep(step.number, step.heading, rendered, step.body, count_words(step.body))
            for step, rendered in zip(steps, html, strict=True)
        )
        return RenderedText(Html(""), count_words(text), is_long=False, is_plain=False, is_empty=False, steps=parts)
    reasoning, answer = split_reasoning(text)
    result = await rendered_text(answer)
    if not reasoning:
        return result
    return replace(result, reasoning=await _html(reasoning), reasoning_words=count_words(reasoning))


async def _html(text: str) -> Html:
    """A text as HTML; one that takes long is rendered outside the event loop."""
    return rendered(text) if is_quick(text) else await asyncio.to_thread(rendered, text)


def effect_on(snapshot: Snapshot, matchup: ShownMatchup) -> Effect | None:
    """The effect of a vote on public figures that do not include it yet; None if they do, or lack its models."""
    pair = [matchup.a, matchup.b]
    if _is_published(snapshot, matchup) or matchup.choice is None or max(pair) >= len(snapshot.models):
        return None
    others = pair_votes(snapshot.wins, snapshot.ties, snapshot.both_bad, *pair)
    by_legacy = snapshot.board.ordered_by == "legacy_elo"
    return effect_of(snapshot.ratings, others, snapshot.policy.rating, pair, matchup.choice, by_legacy=by_legacy)


def sides_of(snapshot: Snapshot, matchup: ShownMatchup, effect: Effect | None) -> tuple[Side, Side]:
    """The two models as stored at the vote, or else as public now; one newer than the snapshot has its id alone."""
    ratings = snapshot.ratings.legacy if snapshot.board.ordered_by == "legacy_elo" else snapshot.ratings.conservative

    def side(choice: Choice, number: int, model: str, before: float | None, after: float | None) -> Side:
        facts = snapshot.models[number] if number < len(snapshot.models) else None
        rating = after if effect else float(ratings[number]) if facts else None
        return Side(model, facts.display_name if facts else model, rating, before, matchup.choice is choice)

    before_a, after_a = (effect.before_a, effect.after_a) if effect else (None, None)
    before_b, after_b = (effect.before_b, effect.after_b) if effect else (None, None)
    return (
        side(Choice.A, matchup.a, matchup.model_a, before_a, after_a),
        side(Choice.B, matchup.b, matchup.model_b, before_b, after_b),
    )


ONLY_OF_TEXTS = frozenset(("more correct", "clearer", "safer"))
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
    tags = (tag for tag in rules.reasons if fits or tag not in ONLY_OF_TEXTS)
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


def _is_published(snapshot: Snapshot, matchup: ShownMatchup) -> bool:
    return matchup.seq is not None and matchup.seq <= snapshot.seq


def others_now(snapshot: Snapshot, matchup: ShownMatchup) -> PairVotes:
    """The pair's votes without this one, if it is included."""
    if max(matchup.a, matchup.b) >= len(snapshot.models):
        return PairVotes(a=0, b=0, ties=0, both_bad=0)
    everyone = pair_votes(snapshot.wins, snapshot.ties, snapshot.both_bad, matchup.a, matchup.b)
    if matchup.standing is not VoteStanding.COUNTED or matchup.choice is None or not _is_published(snapshot, matchup):
        return everyone
    name = {Choice.A: "a", Choice.B: "b", Choice.TIE: "ties", Choice.BOTH_BAD: "both_bad"}[matchup.choice]
    return replace(everyone, **{name: getattr(everyone, name) - 1})


async def checked_form(request: Request) -> tuple[Site, str, Visitor, Mapping[str, str]]:
    """A form about a matchup, checked: the site, the matchup, who sent it, and its fields."""
    site = site_of(request)
    form = await form_of(request)
    site.visitors.check_form(request, form.get("token", ""), PURPOSE)
    return site, form.get("matchup_id", ""), await site.visitors.returning(request), form


async def pair_context(request: Request, matchup: ShownMatchup | ServedMatchup) -> dict[str, Any]:
    """What every page of a pair shows: its texts, whether an answer has reasoning, and what its forms send."""
    site = site_of(request)
    a, b = await _rendered_answer(matchup.response_a), await _rendered_answer(matchup.response_b)
    if matchup.kind != AnswerKind.TEXT:
        links, seconds = site.answer_links, site.observatory.snapshot.policy.bank.played_seconds
        a = replace(a, kind=matchup.kind, url=links.url(matchup.matchup_id, "A", matchup.kind), played_seconds=seconds)
        b = replace(b, kind=matchup.kind, url=links.url(matchup.matchup_id, "B", matchup.kind), played_seconds=seconds)
    return {
        "prompt": await rendered_text(matchup.prompt),
        "answer_a": a,
        "answer_b": b,
        "reasoned": a.reasoning is not None or b.reasoning is not None,
        "matchup_id": matchup.matchup_id,
        "token": site.visitors.token(request, PURPOSE),
    }


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
