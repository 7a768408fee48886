"""The JSON interface, `/api/v1/…`: what the pages do and show, for programs."""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from typing import IO, TYPE_CHECKING, Any

import msgspec
from fastapi import APIRouter, Request
from fastapi.routing import APIRoute
from starlette.datastructures import Headers
from starlette.responses import Response, StreamingResponse

from tiltyard.arena.catalog import Catalog
from tiltyard.arena.commands import AppendEvents, Receipt, RevealNames, SkipMatchup, SubmitVote, UndoVote
from tiltyard.arena.events import Choice
from tiltyard.arena.following.parts import day_end
from tiltyard.arena.following.snapshots import Snapshot
from tiltyard.arena.policy import DefenceRules
from tiltyard.arena.service import Arena
from tiltyard.arena.state import ArenaState
from tiltyard.arena.store.explanations import tags_by_matchup
from tiltyard.arena.store.reading import final_votes
from tiltyard.arena.units import DAY, SECOND
from tiltyard.arena.votes import battle_rows
from tiltyard.arena.voting import MatchupStatus, NotYours
from tiltyard.bank import AnswerKind
from tiltyard.boards.text import json_text
from tiltyard.errors import ArenaError
from tiltyard.web.api_schema import body, choice_body, described
from tiltyard.web.bank import bank_values
from tiltyard.web.bodies import json_of, nothing_of
from tiltyard.web.failures import Failure
from tiltyard.web.leaderboard import whole_board_values
from tiltyard.web.model import model_values
from tiltyard.web.pages import page_of, prepared, public_weeks, week_of
from tiltyard.web.shedding import busy
from tiltyard.web.site import site_of
from tiltyard.web.validity import kept_values, validity_values
from tiltyard.web.visitors import check_origin

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    ErrorAnswer = Callable[[Request, Exception], Response]


class PlainRoute(APIRoute):
    """A route whose function is called directly: its parameters are in the path, and it reads the body itself."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The function that answers."""
        answer = self.endpoint

        async def handle(request: Request) -> Response:
            result: Response = await answer(request, **request.path_params)
            return result

        return handle


router = APIRouter(prefix="/api/v1", route_class=PlainRoute)

CHUNK_BYTES = 1 << 16
EXPORTS_AT_ONCE = 2
EXPORTS_WAITING = 16


class Exports:
    """Limits concurrent exports of a site, witness files among them: a few run, a few more wait, others are refused."""

    def __init__(self) -> None:
        self._at_once = asyncio.Semaphore(EXPORTS_AT_ONCE)
        self._here = 0

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Wait for a turn; refused if too many are waiting."""
        if self._here >= EXPORTS_AT_ONCE + EXPORTS_WAITING:
            raise busy("page")
        self._here += 1
        try:
            async with self._at_once:
                yield
        finally:
            self._here -= 1


class VoteBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a vote says: a choice, or which answers could not be shown (`unrendered`: `A`, `B` or `AB`).

    Without `reveal` the names are held back, and the vote can be undone for a moment.
    """

    choice: Choice | None = None
    reveal: bool = True
    unrendered: str = ""


@router.post(
    "/matchups",
    status_code=201,
    **described("A new pair to vote on", 201, body("Matchup"), 403, 415, 429, also={200: "The pair that is open"}),
)
async def new_matchup(request: Request) -> Response:
    """A prompt and two answers, and nothing that reveals who wrote them. Vote before `expires_at`.

    If `kind` is not `text`, the answers are files at `url_a` and `url_b`.

    A voter has one pair open at a time: until it is voted on, skipped or expired, the same one is answered again, with
    status 200 instead of 201. (`limits.open_matchups` of the policy may allow more.)
    """
    site = site_of(request)
    check_origin(request, site.settings)
    await nothing_of(request)
    visitor = await site.visitors.enter(request)
    served = await site.visitors.serve(visitor)
    shown = {
        "matchup_id": served.matchup_id,
        "prompt": served.prompt,
        "response_a": served.response_a,
        "response_b": served.response_b,
        "expires_at": written(served.expires_at),
        "kind": served.kind,
    }
    if served.kind != AnswerKind.TEXT:
        links, name = site.shown_links, served.matchup_id
        shown |= {"url_a": links.url(name, "A"), "url_b": links.url(name, "B")}
    return _json(shown, 200 if served.again else 201)


@router.post(
    "/matchups/{matchup_id}/vote",
    **described(
        "Vote on a pair", 200, body("Receipt", "HeldBack"), 400, 403, 404, 409, 410, 415, 429, sends=choice_body()
    ),
)
async def cast_vote(request: Request, matchup_id: str) -> Response:
    """The names, once the vote is committed and final. The same vote again gets the same answer, another one a 409.

    With `"reveal": false` the answer says no names, and the vote can be undone until `undo_until`. An answer that is a
    file and could not be shown is named by `unrendered` (`A`, `B` or `AB`) instead of a choice; what that counts as is
    the arena's setting, and comes back as `choice`.
    """
    site = site_of(request)
    check_origin(request, site.settings)
    ballot = await json_of(request, VoteBody)
    visitor = await site.visitors.returning(request)
    quotas, block = site.visitors.quotas(visitor, "vote"), site.visitors.block(visitor)
    vote = SubmitVote(
        *(matchup_id, visitor.voter, ballot.choice, quotas),
        reveal=ballot.reveal,
        block=block,
        unrendered=ballot.unrendered,
    )
    return _json(_told(await site.engine.run(vote)))


@router.post(
    "/matchups/{matchup_id}/reveal",
    **described("Show a vote's names", 200, body("Receipt"), 400, 403, 404, 409, 410, 415),
)
async def reveal_names(request: Request, matchup_id: str) -> Response:
    """The names of a vote that was sent with `"reveal": false`. It is final then, and cannot be undone."""
    site = site_of(request)
    check_origin(request, site.settings)
    await nothing_of(request)
    visitor = await site.visitors.returning(request)
    return _json(_told(await site.engine.run(RevealNames(matchup_id, visitor.voter))))


@router.post(
    "/matchups/{matchup_id}/skip", **described("Skip a pair", 200, body("State"), 400, 403, 404, 409, 410, 415, 429)
)
async def skip_matchup(request: Request, matchup_id: str) -> Response:
    """Skip a pair without a vote; it cannot be voted on afterwards."""
    site = site_of(request)
    check_origin(request, site.settings)
    await nothing_of(request)
    visitor = await site.visitors.returning(request)
    await site.engine.run(SkipMatchup(matchup_id, visitor.voter, site.visitors.quotas(visitor, "skip")))
    return _json({"matchup_id": matchup_id, "status": MatchupStatus.SKIPPED})


@router.post(
    "/matchups/{matchup_id}/undo", **described("Undo a vote", 200, body("State"), 400, 403, 404, 409, 415, 429)
)
async def undo_vote(request: Request, matchup_id: str) -> Response:
    """Undo a recent vote that was sent with `"reveal": false`. The pair stays closed, and its names unknown."""
    site = site_of(request)
    check_origin(request, site.settings)
    await nothing_of(request)
    visitor = await site.visitors.returning(request)
    await site.engine.run(UndoVote(matchup_id, visitor.voter, site.visitors.quotas(visitor, "undo")))
    return _json({"matchup_id": matchup_id, "status": MatchupStatus.UNDONE})


@router.get("/matchups/{matchup_id}", **described("The state of one of your matchups", 200, body("State"), 404))
async def matchup_status(request: Request, matchup_id: str) -> Response:
    """Whether a pair is open, voted, skipped, expired or undone. The answer to the vote names the models."""
    site = site_of(request)
    voter = await site.visitors.known(request)
    result = None if voter is None else await site.engine.shown(matchup_id, voter)
    if result is None:
        raise NotYours("there is no such matchup for this voter. Ask for one.")
    return _json({"matchup_id": result.matchup_id, "status": result.status})


@router.get("/leaderboard", **described("The live board", 200, body("Board")))
async def leaderboard(request: Request) -> Response:
    """Every enabled model in the official order, and whether the board may be called stable."""
    return await _whole(request, ("board",), whole_board_values)


@router.get("/models/{model:path}", **described("One model in detail", 200, body("Model"), 404))
async def model(request: Request, model: str) -> Response:
    """A model's line on the board, and its record by prompt and by opponent."""
    site = site_of(request)
    snapshot = site.observatory.snapshot
    if not any(facts.model == model and facts.enabled for facts in snapshot.models):
        raise Failure(404, "not_found", "there is no such model on the board. The leaderboard lists them.")

    def values(snapshot: Snapshot) -> dict[str, Any]:
        return {**model_values(page_of(site, snapshot, model)), "seq": snapshot.seq}

    return await _whole(request, ("model", model), values)


@router.get("/validity", **described("The weekly validity report, as of now", 200, body("Validity")))
async def validity(request: Request) -> Response:
    """Fairness, pair completeness, confidence, what moved at the top, and the publication rules."""
    return await _whole(request, ("validity",), lambda snapshot: validity_values(snapshot.study))


@router.get("/bank", **described("How much of the bank of prompts is exposed", 200, body("Bank")))
async def bank(request: Request) -> Response:
    """How many prompts are served, fresh or retired, how often answers were shown, and what it takes to learn them."""
    site = site_of(request)
    return await _whole(request, ("bank",), lambda snapshot: bank_values(site, snapshot))


@router.get("/validity/weeks", **described("The reports of finished weeks", 200, body("Weeks")))
async def validity_weeks(request: Request) -> Response:
    """Which weeks have a report, newest first, each with its status."""
    return _json({"weeks": [asdict(kept) for kept in await public_weeks(request)]})


@router.get("/validity/weeks/{week}", **described("The report of one week", 200, body("Validity"), 404))
async def validity_week(request: Request, week: str) -> Response:
    """The validity report of a finished week, as it was written then."""
    kept, texts = await week_of(request, week)
    return _json({**kept_values(texts.report, kept.phase), "week": kept.week, "written_at": kept.written_at})


@router.get("/battles.jsonl", **described("Every vote as a battle row", 200, rows=True))
async def battles(request: Request) -> Response:
    """One JSON object per line, in the order of the log, with every vote acknowledged as final before the request.

    `status` is `counted` or `excluded`, `weight` how much of the vote counts on the published board (excluded: 0). A
    voter is an anonymous number that says which votes belong together; times are rounded to the hour. With `?on=` a day
    such as `2026-11-01` (UTC), only votes up to its end; with `?since=` a day, only those from its beginning on.
    """
    engine, between = site_of(request).engine, _between(request)
    async with request.app.state.exports.turn():
        await engine.run(AppendEvents(()))  # chains what other processes have acknowledged
        seq, catalog, rules = await engine.read(_names)
        file = await asyncio.to_thread(_written_rows, engine.arena, seq, catalog, rules, between)
    headers = {"content-disposition": 'attachment; filename="battles.jsonl"', "x-log-seq": str(seq)}
    return StreamingResponse(pieces(file), media_type="application/x-ndjson", headers=headers)


class QuickHeaders(Headers):
    """Headers that are looked up by name instead of being gone through each time."""

    def __init__(self, raw: list[tuple[bytes, bytes]]) -> None:
        super().__init__(raw=raw)
        self._first: dict[str, str] = {}
        for name, value in raw:
            self._first.setdefault(name.decode("latin-1"), value.decode("latin-1"))

    def __getitem__(self, name: str) -> str:
        return self._first[name.lower()]

    def get(self, name: str, default: Any = None) -> Any:
        """The first value of a header."""
        return self._first.get(name.lower(), default)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name.lower() in self._first


class QuickRequest(Request):
    """A request whose headers are asked for several times."""

    @property
    def headers(self) -> Headers:
        """The headers."""
        if not hasattr(self, "_headers"):
            self._headers = QuickHeaders(self.scope["headers"])
        return self._headers


class QuickRoutes:
    """Answers some routes before the framework's routing, whose layers cost as much as everything else.

    A route is matched by its own pattern and answered by its own function; everything else is passed on.
    """

    def __init__(self, app: ASGIApp, routes: Sequence[APIRoute], answer_error: ErrorAnswer) -> None:
        self._app = app
        assert all(route.methods == {"POST"} for route in routes), "quick routes answer POST requests only"
        self._routes = tuple((route, route.path_regex, route.endpoint) for route in routes)
        self._answer_error = answer_error

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or pass it on."""
        if scope["type"] == "http" and scope["method"] == "POST" and not scope.get("root_path"):
            for route, pattern, answer in self._routes:
                result = pattern.match(scope["path"])
                if result is not None:
                    scope["route"] = route
                    request = QuickRequest(scope, receive)
                    try:
                        response: Response = await answer(request, **result.groupdict())
                    except (Failure, ArenaError) as error:
                        response = self._answer_error(request, error)
                    await response(scope, receive, send)
                    return
        await self._app(scope, receive, send)


def quick_routes() -> list[APIRoute]:
    """The routes of a vote cycle, which do not need the framework's features."""
    return [
        route for route in router.routes if isinstance(route, APIRoute) and route.endpoint in (new_matchup, cast_vote)
    ]


def written(at: int) -> str:
    """A time in microseconds as ISO 8601, in UTC."""
    return datetime.fromtimestamp(at / SECOND, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _json(value: Mapping[str, object], status: int = 200) -> Response:
    return Response(msgspec.json.encode(value), status, media_type="application/json")


def _told(receipt: Receipt) -> dict[str, object]:
    """What a voter is told about the vote: the names if it is final, else until when it can be undone."""
    body: dict[str, object] = {"matchup_id": receipt.matchup_id, "choice": receipt.choice}
    if receipt.names is None:
        assert receipt.undo_until is not None
        return {**body, "final": False, "undo_until": written(receipt.undo_until)}
    return {**body, "final": True, **msgspec.structs.asdict(receipt.names)}


async def _whole(request: Request, asked: tuple[str, ...], values: Callable[[Snapshot], Mapping[str, Any]]) -> Response:
    """A large public value: computed once per snapshot; 304 for a client that already has it."""

    def make(snapshot: Snapshot) -> bytes:
        return json_text(dict(values(snapshot))).encode()

    return await prepared(request, ("api", *asked), make, "application/json", {"cache-control": "no-cache"})


def _names(state: ArenaState) -> tuple[int, Catalog, DefenceRules]:
    """Where the log ends, what its numbers mean, and how votes are weighed; a copy, as the state goes on changing."""
    copy = Catalog()
    copy.models, copy.prompts = list(state.catalog.models), list(state.catalog.prompts)
    return state.seq, copy, state.policy.defences


def _between(request: Request) -> tuple[int, int]:
    """The first second of the votes that are asked for, and the first one after them."""
    days = {name: day_end(asked) for name in ("since", "on") if (asked := request.query_params.get(name))}
    for name, end in days.items():
        if end is None:
            raise Failure(400, "bad_request", f"{name} is no day. Write one such as 2026-11-01.")
    since, on = days.get("since"), days.get("on")
    return (0 if since is None else (since - DAY) // SECOND), (sys.maxsize if on is None else on // SECOND)


def _written_rows(
    arena: Arena, until: int, catalog: Catalog, rules: DefenceRules, between: tuple[int, int]
) -> IO[bytes]:
    """The rows in a temporary file, so that a slow reader holds no transaction open."""
    file = tempfile.TemporaryFile()  # noqa: SIM115 - closed by the sender
    encoder = msgspec.json.Encoder()
    tags = tags_by_matchup(arena.store, until)
    for row in battle_rows(final_votes(arena.store, until, arena.now()), catalog, rules, tags):
        if between[0] <= row["timestamp"] < between[1]:
            file.write(encoder.encode(row) + b"\n")
    file.seek(0)
    return file


async def pieces(file: IO[bytes]) -> AsyncIterator[bytes]:
    """A file in pieces, which is closed after the last."""
    with file:
        while piece := await asyncio.to_thread(file.read, CHUNK_BYTES):
            yield piece
