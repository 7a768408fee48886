"""The JSON interface, `/api/v1/…`: what the pages do and show, for programs."""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import IO

import msgspec
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from tiltyard.arena import (
    DAY,
    SECOND,
    Choice,
    MatchupStatus,
    Receipt,
    RevealNames,
    SkipMatchup,
    SubmitVote,
    UndoVote,
    battle_rows,
    shows_names,
    vote_table,
    vote_weights,
)
from tiltyard.arena.store import load_votes, tags_by_matchup
from tiltyard.arena.study import Snapshot, day_end
from tiltyard.data.bank import AnswerKind
from tiltyard.files import json_text
from tiltyard.site.bodies import json_of, nothing_of
from tiltyard.site.failures import Failure, busy
from tiltyard.site.leaderboard import LiveBoardAnswer, whole_board_values
from tiltyard.site.model import ModelAnswer, model_values
from tiltyard.site.openapi import (
    BankBody,
    Call,
    ChoiceBody,
    HeldBackBody,
    MatchupBody,
    ReceiptBody,
    StateBody,
    UnrenderedBody,
    WeeksBody,
)
from tiltyard.site.pages import page_of, prepared, public_weeks, week_of
from tiltyard.site.reports import LiveValidityReport, WeekAnswer, bank_values, kept_values, validity_values
from tiltyard.site.site import Site, site_of
from tiltyard.site.visitors import Visitor, check_origin
from tiltyard.site.vote import own_matchup

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
    """What a vote says: a `ChoiceBody` or an `UnrenderedBody`."""

    choice: Choice | None = None
    reveal: bool = True
    unrendered: str = ""


async def new_matchup(request: Request) -> Response:
    """A prompt and two answers, and nothing that reveals who wrote them. Vote before `expires_at`. No body.

    If `kind` is not `text`, the answers are files at `url_a` and `url_b`, which need no cookie.

    A voter has one pair open at a time: until it is voted on, skipped or expired, the same one is answered again, with
    status 200 instead of 201. (`limits.open_matchups` of the policy may allow more.) In a closed arena a program brings
    its invitation once, in the header `X-Invitation: SECRET` (the last part of the link).
    """
    site = site_of(request)
    check_origin(request, site.settings)
    await nothing_of(request)
    served = await site.visitors.serve_anybody(request)
    body = MatchupBody(
        matchup_id=served.matchup_id,
        prompt=served.prompt,
        response_a=served.response_a,
        response_b=served.response_b,
        expires_at=written(served.expires_at),
        kind=AnswerKind(served.kind),
    )
    if served.kind != AnswerKind.TEXT:
        links, name = site.answer_links, served.matchup_id
        body = msgspec.structs.replace(
            body, url_a=links.url(name, "A", served.kind), url_b=links.url(name, "B", served.kind)
        )
    return _json(body, 200 if served.again else 201)


async def cast_vote(request: Request) -> Response:
    """The names, once the vote is committed and final: `{"choice": "A"}`, or `B`, `TIE`, `BOTH_BAD`.

    The same vote again gets the same answer, so a lost answer can be asked for again; another choice gets a 409.

    With `"reveal": false` the answer says no names, and the vote can be undone until `undo_until` (`undo_seconds` of
    the policy). It is final once its names were shown: by `…/reveal`, by the same vote with `"reveal": true`, or
    because the time is over. Until then nothing public shows it.

    An answer that is a file and could not be shown is named by `unrendered` (`A`, `B` or `AB`) instead of a choice;
    what that counts as is the arena's setting (`bank.unrendered_counts`), and comes back as `choice`.
    """
    site = site_of(request)
    check_origin(request, site.settings)
    ballot = await json_of(request, VoteBody)
    visitor = await site.visitors.returning(request)
    vote = SubmitVote(
        request.path_params["matchup_id"],
        visitor.voter,
        ballot.choice,
        quotas=site.visitors.quotas(visitor, "vote"),
        reveal=ballot.reveal,
        block=site.visitors.block(visitor),
        unrendered=ballot.unrendered,
    )
    return _receipt_json(await site.engine.run(vote))


async def reveal_names(request: Request) -> Response:
    """The names of a vote that was sent with `"reveal": false`. It is final then, and cannot be undone. No body."""
    site, matchup_id, visitor = await _checked_call(request)
    return _receipt_json(await site.engine.run(RevealNames(matchup_id, visitor.voter)))


async def skip_matchup(request: Request) -> Response:
    """Skip a pair without a vote; it cannot be voted on afterwards. Again: nothing changes. No body."""
    site, matchup_id, visitor = await _checked_call(request)
    await site.engine.run(SkipMatchup(matchup_id, visitor.voter, quotas=site.visitors.quotas(visitor, "skip")))
    return _json(StateBody(matchup_id=matchup_id, status=MatchupStatus.SKIPPED))


async def undo_vote(request: Request) -> Response:
    """Undo a vote that was sent with `"reveal": false`, before its names were shown and until `undo_until`.

    The pair stays closed, and its names unknown. No body.
    """
    site, matchup_id, visitor = await _checked_call(request)
    await site.engine.run(UndoVote(matchup_id, visitor.voter, quotas=site.visitors.quotas(visitor, "undo")))
    return _json(StateBody(matchup_id=matchup_id, status=MatchupStatus.UNDONE))


async def _checked_call(request: Request) -> tuple[Site, str, Visitor]:
    """The site, the matchup that a call without a body is about, and who sent it."""
    site = site_of(request)
    check_origin(request, site.settings)
    await nothing_of(request)
    return site, request.path_params["matchup_id"], await site.visitors.returning(request)


async def matchup_status(request: Request) -> Response:
    """Whether a pair is open, voted, skipped, expired or undone. The answer to the vote names the models.

    Of a final vote it has the receipt: the name of the vote in the public rows.
    """
    _, result = await own_matchup(request)
    final = shows_names(result.status, result.undo_until, site_of(request).engine.arena.now())
    receipt = result.receipt if final else msgspec.UNSET
    return _json(StateBody(matchup_id=result.matchup_id, status=result.status, receipt=receipt))


async def leaderboard(request: Request) -> Response:
    """Every enabled model in the official order, and whether the board may be called stable."""
    return await _whole(request, ("board",), whole_board_values)


async def model(request: Request) -> Response:
    """A model's line on the board, its record by prompt and by opponent, its neighbours and its coverage.

    A name may contain slashes.
    """
    model = request.path_params["model"]
    site = site_of(request)
    snapshot = site.observatory.snapshot
    if not any(facts.model == model and facts.enabled for facts in snapshot.models):
        raise Failure(404, "not_found", "there is no such model on the board. The leaderboard lists them.")

    def values(snapshot: Snapshot) -> ModelAnswer:
        return model_values(page_of(site, snapshot, model), snapshot.seq)

    return await _whole(request, ("model", model), values)


async def validity(request: Request) -> Response:
    """Fairness, pair completeness, confidence, what moved at the top, and the publication rules."""
    return await _whole(request, ("validity",), lambda snapshot: validity_values(snapshot.study))


async def bank(request: Request) -> Response:
    """How many prompts are served, fresh or retired, how often answers were shown, and what it takes to learn them.

    No prompt, answer or model is named.
    """
    site = site_of(request)
    return await _whole(request, ("bank",), lambda snapshot: bank_values(site, snapshot))


async def validity_weeks(request: Request) -> Response:
    """Which weeks have a report, newest first, each with its status."""
    return _json(WeeksBody(await public_weeks(request)))


async def validity_week(request: Request) -> Response:
    """The validity report of a finished week, such as `2026-W07`, as it was written then."""
    week = request.path_params["week"]
    kept, texts = await week_of(request, week)
    return _json(kept_values(texts.report, kept))


async def battles(request: Request) -> Response:
    """One JSON object per line, in the order of the log, with every vote that the board shows.

    `status` is `counted` or `excluded`, `weight` how much of the vote counts on the published board (excluded: 0). A
    voter is a number in order of appearance in this file; times are rounded to the hour. With `?on=` a day
    such as `2026-11-01` (UTC), only votes up to its end; with `?since=` a day, only those from its beginning on. The
    header `x-log-seq` says where in the log that was. At most two exports run at once; others wait.
    """
    site, between = site_of(request), _between(request)
    async with request.app.state.exports.turn():
        seq, file = await asyncio.to_thread(_written_rows, site, between)
    headers = {"content-disposition": 'attachment; filename="battles.jsonl"', "x-log-seq": str(seq)}
    return StreamingResponse(pieces(file), media_type="application/x-ndjson", headers=headers)


def written(at: int) -> str:
    """A time in microseconds as ISO 8601, in UTC."""
    return datetime.fromtimestamp(at / SECOND, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _json(value: object, status: int = 200) -> Response:
    return Response(msgspec.json.encode(value), status, media_type="application/json")


def _receipt_json(receipt: Receipt) -> Response:
    """What a voter learns of the vote: the names if it is final, else until when it can be undone."""
    name, choice, names = receipt.matchup_id, receipt.choice, receipt.names
    if names is not None:
        return _json(ReceiptBody(matchup_id=name, choice=choice, final=True, **msgspec.structs.asdict(names)))
    assert receipt.undo_until is not None
    return _json(HeldBackBody(matchup_id=name, choice=choice, final=False, undo_until=written(receipt.undo_until)))


async def _whole(request: Request, asked: tuple[str, ...], values: Callable[[Snapshot], msgspec.Struct]) -> Response:
    """A large public value: computed once per snapshot; 304 for a client that already has it."""

    def make(snapshot: Snapshot) -> bytes:
        return json_text(values(snapshot)).encode()

    return await prepared(request, ("api", *asked), make, "application/json", {"cache-control": "no-cache"})


def _between(request: Request) -> tuple[int, int]:
    """The first second of the votes that are asked for, and the first one after them."""
    days = {name: day_end(asked) for name in ("since", "on") if (asked := request.query_params.get(name))}
    for name, end in days.items():
        if end is None:
            raise Failure(400, "bad_request", f"{name} is no day. Write one such as 2026-11-01.")
    since, on = days.get("since"), days.get("on")
    return (0 if since is None else (since - DAY) // SECOND), (sys.maxsize if on is None else on // SECOND)


def _written_rows(site: Site, between: tuple[int, int]) -> tuple[int, IO[bytes]]:
    """Where the public log ends, and its rows in a temporary file, so that a slow reader holds no transaction open."""
    file = tempfile.TemporaryFile()  # noqa: SIM115 - closed by the sender
    encoder = msgspec.json.Encoder()
    store = site.engine.arena.store
    with store.database.read() as connection:
        state, votes, _ = load_votes(connection, site.observatory.snapshot.seq)
    tags = tags_by_matchup(store, state.seq)
    weights = vote_weights(vote_table(votes, state.catalog), state.policy.defences)
    for row in battle_rows(votes, state.catalog, weights.tolist(), tags, between=between):
        file.write(encoder.encode(row) + b"\n")
    file.seek(0)
    return state.seq, file


async def pieces(file: IO[bytes]) -> AsyncIterator[bytes]:
    """A file in pieces, which is closed after the last."""
    with file:
        while piece := await asyncio.to_thread(file.read, CHUNK_BYTES):
            yield piece


ONE = "/api/v1/matchups/{matchup_id}"
NEW = {201: "A new pair to vote on", 200: "The pair that is open"}
VOTED, BALLOTS = (ReceiptBody, HeldBackBody), (ChoiceBody, UnrenderedBody)
CALLS = [
    Call("/api/v1/matchups", new_matchup, "A new pair to vote on", (MatchupBody,), (403, 415, 429), "POST", (), NEW),
    Call(f"{ONE}/vote", cast_vote, "Vote on a pair", VOTED, (403, 404, 409, 410, 415, 429), "POST", BALLOTS),
    Call(f"{ONE}/reveal", reveal_names, "Show a vote's names", (ReceiptBody,), (403, 404, 409, 410, 415), "POST"),
    Call(f"{ONE}/skip", skip_matchup, "Skip a pair", (StateBody,), (403, 404, 409, 410, 415, 429), "POST"),
    Call(f"{ONE}/undo", undo_vote, "Undo a vote", (StateBody,), (403, 404, 409, 415, 429), "POST"),
    Call(ONE, matchup_status, "The state of one of your matchups", (StateBody,), (404,)),
    Call("/api/v1/leaderboard", leaderboard, "The live board", (LiveBoardAnswer,)),
    Call("/api/v1/models/{model:path}", model, "One model in detail", (ModelAnswer,), (404,)),
    Call("/api/v1/validity", validity, "The weekly validity report, as of now", (LiveValidityReport,)),
    Call("/api/v1/bank", bank, "How much of the bank of prompts is exposed", (BankBody,)),
    Call("/api/v1/validity/weeks", validity_weeks, "The reports of finished weeks", (WeeksBody,)),
    Call("/api/v1/validity/weeks/{week}", validity_week, "The report of one week", (WeekAnswer,), (404,)),
    Call("/api/v1/battles.jsonl", battles, "Every vote as a battle row"),
]
