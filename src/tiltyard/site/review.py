"""The pages and calls of a review: one item after the other, blind, until nothing is left. Rules are in `review/`."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import msgspec
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from tiltyard.arena import (
    COMMENT_MOST,
    SAFE_ID,
    Choice,
    ExplainVote,
    MatchupStatus,
    NothingLeft,
    NotInvited,
    ReviewClosed,
    ServeMatchup,
    SkipMatchup,
    SubmitVote,
    UndoVote,
)
from tiltyard.arena.review import Review, ReviewChooser, close_if_settled, median_seconds, open_review
from tiltyard.arena.store import ShownMatchup, comments_on, shown_matchup, voted_matchups
from tiltyard.site import api
from tiltyard.site.bodies import form_of, json_of
from tiltyard.site.failures import Failure
from tiltyard.site.openapi import Call, MatchupBody, StateBody
from tiltyard.site.site import ReviewDesk, Site, site_of
from tiltyard.site.visitors import START, Visitor, check_origin
from tiltyard.site.vote import PURPOSE, checked_form, pair_context, parse_ballot, redirect, rendered_text

LISTED_MOST = 5_000
"""How many of one's own votes are listed once a review is closed."""


LOOK_SECONDS = 30.0
"""How often a review that ends by itself is looked at."""

_log = logging.getLogger("tiltyard.site")


def opened_desk(folder: Path) -> ReviewDesk:
    """The review in a folder, with a chooser for its arena."""
    return ReviewDesk(open_review(folder), ReviewChooser())


async def close_when_settled(site: Site, review: Review) -> None:
    """Look at the labels again and again, and close the review once its rule is met. Of several processes, one does."""
    seen, closed = 0, False
    while not closed:
        await asyncio.sleep(LOOK_SECONDS)
        try:
            now = await site.engine.read(lambda state: state.seq)
            if now != seen:
                closed = await asyncio.to_thread(close_if_settled, review)
            seen = now
        except Exception as error:  # the database is away, or the site is busy: the next look is soon
            _log.warning("the rule of the review could not be looked at: %s", error)


class ReviewProgress(msgspec.Struct, frozen=True):
    """Where a person is in a review."""

    done: int
    left: int
    minutes: float | None
    """How long the rest takes at the pace so far."""
    open_: str | None
    """The matchup to show: the first item that is open."""
    serve: bool
    """Whether an item comes before what is open: a vote on it was taken back."""
    last: str | None
    """The vote that can be taken back."""
    adjudicates: bool
    closed: bool
    why_closed: str
    names_after_vote: bool
    dimension: str = ""
    others: tuple[tuple[str, str], ...] = ()
    """For an adjudicator: what each reviewer said of the item, by matchup: the choice as the adjudicator sees sides."""


def progress_of(chooser: ReviewChooser, person: str, *, after: int = 0) -> ReviewProgress:
    """Where a person is. Called in the writing thread; `after` counts items as done that are shown ahead."""
    log, rules = chooser.log, chooser.log.rules
    assert rules is not None
    turns = sorted((turn for turn in log.latest.values() if turn.person == person), key=lambda turn: turn.item)
    done = [turn for turn in turns if turn.status in ("voted", "cannot")]
    votes = sorted((turn for turn in turns if turn.status == "voted"), key=lambda turn: turn.closed_at)
    open_ = [turn for turn in turns if turn.status == "open"]
    here = open_[after:]
    last = (open_[:after] or votes)[-1:]
    left = chooser.assignment.left(person)
    pace = median_seconds(votes[-30:])
    others: list[tuple[str, str]] = []
    if here and here[0].lane == "adjudication":
        for turn in sorted(log.reviews(here[0].item), key=lambda turn: turn.matchup_id):
            assert turn.choice is not None
            same = turn.model_a == here[0].model_a or turn.choice not in (Choice.A, Choice.B)
            others.append((turn.matchup_id, turn.choice if same else "B" if turn.choice is Choice.A else "A"))
    return ReviewProgress(
        done=len(done) + after,
        left=max(0, len(left) - after),
        minutes=None if pace is None else pace * len(left) / 60.0,
        open_=here[0].matchup_id if here else None,
        serve=not here or any(turn.status == "undone" and turn.item < here[0].item for turn in turns),
        last=last[0].matchup_id if last and rules.holds_names and not chooser.is_final(last[0].matchup_id) else None,
        adjudicates=person in rules.adjudicators,
        closed=rules.closed,
        why_closed=rules.why_closed,
        names_after_vote=not rules.holds_names and not rules.closed,
        others=tuple(others),
    )


async def review_page(request: Request) -> Response:
    """The next item of this person; a page that says what to do where there is none."""
    site, desk = _desk(request)
    visitor = await site.visitors.recognize(request)
    if visitor is None:
        return site.page("review_start.html", {"link": "", "token": ""}, here="vote")
    if request.state.is_head:
        return HTMLResponse()
    ahead, store = 1 if "ahead" in request.query_params else 0, site.engine.arena.store
    progress = await site.engine.read(lambda _: progress_of(desk.chooser, visitor.voter, after=ahead))
    if progress.closed:
        now = 2**62  # a closed review's votes are final, whatever their time to undo them was
        votes = await asyncio.to_thread(voted_matchups, store, visitor.voter, now, LISTED_MOST)
        return site.page("review_done.html", {"progress": progress, "token": "", "votes": votes}, here="vote")
    if progress.serve:
        try:
            most = await site.engine.read(lambda state: len(state.schedule.open_of(visitor.voter)))
            await site.engine.run(ServeMatchup(visitor.voter, open_at_most=most + 1 if most < 2 + ahead else 1))
        except NothingLeft:
            if progress.open_ is None:
                before = await _vote_before(request, visitor, progress)
                done = {"progress": progress, "token": site.visitors.token(request, PURPOSE)}
                return site.page("review_done.html", {**done, "votes": None, "before": before}, here="vote")
        progress = await site.engine.read(lambda _: progress_of(desk.chooser, visitor.voter, after=ahead))
    assert progress.open_ is not None
    matchup = await asyncio.to_thread(shown_matchup, store, progress.open_, visitor.voter)
    assert matchup is not None
    item = next(item for item in desk.review.record.items if item.item == matchup.prompt_id)
    rubric = desk.review.record.rubrics.get(item.dimension, "")
    comments = await asyncio.to_thread(comments_on, store, [name for name, _ in progress.others])
    context = {
        **await pair_context(request, matchup),
        "progress": progress,
        "dimension": item.dimension,
        "rubric": await rendered_text(rubric) if rubric else None,
        "long_words": 0,
        "most": COMMENT_MOST,
        "before": await _vote_before(request, visitor, progress),
        "others": [(choice, comments.get(name, "")) for name, choice in progress.others],
    }
    return site.page("review.html", context, here="vote")


async def _vote_before(request: Request, visitor: Visitor, progress: ReviewProgress) -> ShownMatchup | None:
    """The vote just given, where its names are shown after it."""
    after, store = request.query_params.get("after", ""), site_of(request).engine.arena.store
    if not progress.names_after_vote or not SAFE_ID.match(after):
        return None
    voted = await asyncio.to_thread(shown_matchup, store, after, visitor.voter)
    return voted if voted is not None and voted.status is MatchupStatus.VOTED else None


async def link_page(request: Request) -> Response:
    """What a private link opens: one button. Looking at it uses nothing, since mail programs look at links too."""
    site, desk = _desk(request)
    link = request.path_params["link"]
    if not SAFE_ID.match(link):
        raise NotInvited("this is no link of a review. Open the whole link that you were given.")
    token = site.visitors.token(request, START)
    rules = await site.engine.read(lambda _: desk.chooser.log.rules)
    names = rules is not None and rules.names == "after_vote"
    return site.page("review_start.html", {"link": link, "token": token, "names_after_vote": names}, here="vote")


async def privacy(request: Request) -> Response:
    """What the owner of the review sees of those who review."""
    return site_of(request).page("review_privacy.html", {}, here="privacy")


async def start_reviewing(request: Request) -> Response:
    """Make this browser the reviewer's; redirects to the first item."""
    visitors = site_of(request).visitors
    form = await form_of(request)
    visitors.check_form(request, form.get("token", ""), START)
    await visitors.enter(request, form.get("link", "") or "-")
    return redirect("/")


async def cast_vote(request: Request) -> Response:
    """Take a vote, and the comment that came with it; redirects to the next item."""
    site, matchup_id, visitor, form = await checked_form(request)
    choice, unrendered = parse_ballot(form)
    await site.engine.run(SubmitVote(matchup_id, visitor.voter, choice, unrendered=unrendered))
    if comment := form.get("comment", "").strip():
        await site.engine.run(ExplainVote(matchup_id, visitor.voter, (), comment))
    return redirect(f"/?after={matchup_id}")


async def cannot_judge(request: Request) -> Response:
    """Say that one cannot judge an item, and why; redirects to the next one."""
    site, matchup_id, visitor, form = await checked_form(request)
    reason = form.get("reason", "").strip()
    if not reason:
        raise Failure(400, "bad_request", "say in a few words why you cannot judge this. Go back and add it.")
    await site.engine.run(SkipMatchup(matchup_id, visitor.voter))
    await site.engine.run(ExplainVote(matchup_id, visitor.voter, (), reason))
    return redirect("/")


async def take_back(request: Request) -> Response:
    """Take a vote back; redirects to its item, with sides drawn anew."""
    site, matchup_id, visitor, _ = await checked_form(request)
    await site.engine.run(UndoVote(matchup_id, visitor.voter))
    return redirect("/")


class LinkBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Who asks: the last part of a private link."""

    link: str


class ReviewerBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How much this person has done, and is still to do."""

    done: int
    left: int
    adjudicates: bool


class CommentBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What one has to say of an item."""

    comment: str


async def new_reviewer(request: Request) -> Response:
    """Make this cookie the reviewer's whose link it is: `{"link": TOKEN}`, the last part of the private link."""
    site, desk = _desk(request)
    check_origin(request, site.settings)
    link = (await json_of(request, LinkBody)).link
    if not SAFE_ID.match(link):
        raise NotInvited("this is no link of a review. Send the last part of the link.")
    visitor = await site.visitors.enter(request, link)
    progress = await site.engine.read(lambda _: progress_of(desk.chooser, visitor.voter))
    body = ReviewerBody(done=progress.done, left=progress.left, adjudicates=progress.adjudicates)
    return Response(msgspec.json.encode(body), media_type="application/json")


async def next_item(request: Request) -> Response:
    """The next item of this person, as a pair: the open one again until it is voted on. 204: nothing is left."""
    is_over = await site_of(request).engine.read(lambda state: state.review is not None and state.review.closed)
    try:
        return Response(status_code=204) if is_over else await api.new_matchup(request)
    except (NothingLeft, ReviewClosed):
        return Response(status_code=204)


async def comment_on(request: Request) -> Response:
    """Say why one voted so, or cannot judge, after that: `{"comment": "…"}`. The last comment holds."""
    site, matchup_id = site_of(request), request.path_params["matchup_id"]
    check_origin(request, site.settings)
    comment = (await json_of(request, CommentBody)).comment
    visitor = await site.visitors.returning(request)
    await site.engine.run(ExplainVote(matchup_id, visitor.voter, (), comment))
    return await api.matchup_status(request)


def _desk(request: Request) -> tuple[Site, ReviewDesk]:
    site = site_of(request)
    assert site.review is not None
    return site, site.review


ROUTES = [
    Route("/", review_page),
    Route("/review/{link}", link_page),
    Route("/privacy", privacy),
    Route("/start", start_reviewing, methods=["POST"]),
    Route("/vote", cast_vote, methods=["POST"]),
    Route("/cannot", cannot_judge, methods=["POST"]),
    Route("/undo", take_back, methods=["POST"]),
]

ONE = api.ONE
CLOSED = (403, 404, 409, 410, 415)
NEXT = {201: "A new item", 200: "The item that is open", 204: "Nothing is left"}
CALLS = [
    Call("/api/v1/reviewers", new_reviewer, "Open a private link", (ReviewerBody,), (403, 415), "POST", (LinkBody,)),
    Call("/api/v1/matchups", next_item, "The next item", (MatchupBody,), (403, 415), "POST", (), NEXT),
    Call(f"{ONE}/vote", api.cast_vote, "Vote on an item", api.VOTED, CLOSED, "POST", api.BALLOTS),
    Call(f"{ONE}/skip", api.skip_matchup, "Cannot judge an item", (StateBody,), CLOSED, "POST"),
    Call(f"{ONE}/undo", api.undo_vote, "Take a vote back", (StateBody,), CLOSED, "POST"),
    Call(f"{ONE}/comment", comment_on, "Say why", (StateBody,), (400, 403, 404, 410, 415), "POST", (CommentBody,)),
    Call(ONE, api.matchup_status, "The state of one of your items", (StateBody,), (404,)),
]
