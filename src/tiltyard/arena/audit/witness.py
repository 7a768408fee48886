"""The witness: a file from which anybody recomputes an arena's head and board, without its database.

Its first line says what it is and to which head it leads. Every other line is a public row (`public_rows`), in the
chain over all of them (`chain.link_line`). If some votes weigh less than 1, the last line has their weights: they rest
on networks, which no row says, so they are the operator's word. `check_witness` says what a file agrees with, and whom
one has to trust for the rest.

This module reads and checks the file, and needs no database. `witnessing` writes it.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import chain
from math import isclose
from typing import Any, NamedTuple, TypeVar

import msgspec
import numpy as np

from tiltyard.arena.rules import events as e
from tiltyard.arena.rules import public_rows as rows
from tiltyard.arena.rules.chain import FIRST_HASH, link_line
from tiltyard.arena.rules.heads import Head, HeadFile, plain, signed_after_the_next, with_successors
from tiltyard.arena.rules.policy import PHASES
from tiltyard.arena.rules.state import ArenaState
from tiltyard.arena.rules.units import HOUR, SECOND
from tiltyard.arena.rules.votes import CastVote, VoteColumns, VoteStanding, VoteTable, vote_table
from tiltyard.arena.rules.voting import choice_if_unrendered
from tiltyard.arena.study.board import OFFICIAL_FROM, SHADOW_PHASE, official_order
from tiltyard.arena.study.replay import published_ratings
from tiltyard.errors import ArenaError, OptionError, TiltyardError
from tiltyard.files import json_text
from tiltyard.render import day, look_alikes, plural, seen

T = TypeVar("T")

FORMAT = 2
"""The version of the file."""

SHOWN = 20
"""Problems that are printed."""

LAST_HOUR = 8_000_000
"""Somewhere in the year 2882: later hours are mistakes."""


class WitnessHeader(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """The first line: what the file is, and the head that its rows must lead to."""

    witness: int
    """The version of the format: 2."""
    head: str
    """`HASH@N`: the hash of the last row, and how many they are."""
    title: str = ""
    """What the arena is called."""
    statement: HeadFile | None = None
    """The latest signed head of the arena, if it has one."""


class WitnessWeights(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The last line, where votes weigh less than 1."""

    weights: dict[str, float]
    """By receipt, how much of each of these votes counts: above 0 and below 1."""


class KeptProof(msgspec.Struct, kw_only=True):
    """What a reader kept of what is checked, somewhere else."""

    fingerprint: str = ""
    """The SHA-256 of the manifest of a published folder."""
    heads: Sequence[Head | HeadFile] = ()
    keys: Sequence[str] = ()
    """Public keys; one of them, or one that it named as the next, must have signed the newest signed head."""
    receipts: Sequence[str] = ()
    """Votes that must be there, each `ID` or `ID=CHOICE`."""

    @property
    def of_an_arena(self) -> bool:
        """Whether some of it is of an arena."""
        return bool(self.heads or self.keys or self.receipts)


class Finding(msgspec.Struct, kw_only=True):
    """What a check found."""

    messages: list[str] = []
    """For people."""
    values: dict[str, Any] = {}
    """For programs."""
    problems: list[str] = []
    """What does not agree, a line each."""
    not_compared: list[str] = []
    """Files that could not be compared."""
    agreement: str = ""
    """What agrees with what, and whom one has to trust for the rest."""

    @property
    def agrees(self) -> str:
        """`with itself`, `in part` or `no`."""
        return "no" if self.problems else "in part" if self.not_compared else "with itself"

    @property
    def conclusion(self) -> str:
        """The last line."""
        if self.problems:
            return f"does NOT agree: {plural(len(self.problems), 'problem')}"
        return f"agrees {self.agrees}: {self.agreement}"

    def to_dict(self) -> dict[str, Any]:
        """What a check found, for programs."""
        return {**self.values, "agrees": self.agrees, "conclusion": self.conclusion, "problems": self.problems}

    def to_json(self) -> str:
        """The same as JSON."""
        return json_text(self.to_dict())

    def render(self, format: str = "table") -> str:
        """The finding as a text for people (`table`) or for programs (`json`)."""
        if format == "json":
            return self.to_json()
        wrong = [f"WRONG: {problem}" for problem in self.problems[:SHOWN]]
        wrong += [f"WRONG: {len(self.problems) - SHOWN:,} more"] if len(self.problems) > SHOWN else []
        return "\n".join(map(seen, (*self.messages, *wrong, self.conclusion)))  # others wrote some

    __str__ = render


class RatedModel(msgspec.Struct, frozen=True, array_like=True):
    """One model of a published board."""

    model: str
    rating: float
    """The rating shown: its conservative score, or legacy Elo in phases 1 and 2."""
    deviation: float | None
    """Its Glicko-2 deviation; None in phase 1, which does not show it."""


def published_board(state: ArenaState, votes: VoteTable) -> list[RatedModel]:
    """The board of a state as its phase shows it, from the votes of its log alone: the same for arena and witness.

    Parameters:
        state: The state at the end of the public log.
        votes: The votes up to there that count; where they name blocks, they are weighed.
    """
    state = state.showing(published_ratings(votes, state.policy))
    shown = state.conservative if state.phase >= OFFICIAL_FROM else state.ratings.legacy
    deviation = state.ratings.deviation
    return [
        RatedModel(
            state.catalog.models[number].model,
            float(shown[number]),
            None if state.phase == SHADOW_PHASE else float(deviation[number]),
        )
        for number in official_order(state)
    ]


def differing(stated: Sequence[RatedModel], result: Sequence[RatedModel]) -> Iterator[str]:
    """Where two boards differ by more than computers differ."""
    ours = {row.model: row for row in result}
    if [row.model for row in stated] != [row.model for row in result]:
        yield f"the order is {', '.join(row.model for row in result)}"
    for row in stated:
        other = ours.get(row.model)
        if other is None:
            yield f"{row.model} is not on the board"
            continue
        for name in ("rating", "deviation"):
            left, right = getattr(row, name), getattr(other, name)
            if (left is None) != (right is None) or (left is not None and not isclose(left, right, rel_tol=SAME)):
                yield f"the {name} of {row.model} is {right}, not {left}"


SAME = 1e-9
"""How far figures of two computers may differ, as a part of their size."""


class WitnessPoint(NamedTuple):
    """A place in a witness: its head, when, what happened up to there, how many votes counted, and the board."""

    head: Head
    hour: int
    counts: Counter[str]
    votes: int
    board: list[RatedModel] | None
    """With all weights 1, and only if it was asked for."""


@dataclass(slots=True)
class Witness:
    """What a witness file says: a head, and the state that follows from its rows. `problems` are contradictions."""

    head: Head = field(default_factory=lambda: Head(0, FIRST_HASH))
    state: ArenaState = field(default_factory=ArenaState)
    receipts: set[str] = field(default_factory=set)
    """The names of all votes."""
    prompts: dict[str, str] = field(default_factory=dict)
    """By prompt, the salted digest of the text that the latest votes on it were about."""
    weights: dict[str, float] = field(default_factory=dict)
    """By receipt, the weights that are not 1."""
    weights_sha256: str = ""
    """The SHA-256 of the line with the weights; empty without one."""
    hour: int = 0
    """The latest hour of a row."""
    counts: Counter[str] = field(default_factory=Counter)
    """How much of everything happened."""
    points: dict[int, WitnessPoint] = field(default_factory=dict)
    """The places that were asked for, by the number of their rows."""
    problems: list[str] = field(default_factory=list)

    @property
    def votes(self) -> VoteColumns:
        """Every vote; their receipts stand for the names of matchups."""
        votes = self.state.votes
        assert isinstance(votes, VoteColumns)
        return votes

    @property
    def table(self) -> VoteTable:
        """The votes that count, with their weights."""
        table = vote_table(self.votes, self.state.catalog)
        return replace(table, weight=np.array([self.weights.get(name, 1.0) for name in table.matchup_ids]))

    @property
    def board(self) -> list[RatedModel]:
        """The board at the end."""
        return published_board(self.state, self.table)


def read_witness(
    lines: Iterable[bytes], source: str, wanted: Iterable[int] = (), boards: Iterable[int] = ()
) -> tuple[WitnessHeader, Witness]:
    """Recompute the chain of a witness file, and fold its rows.

    Parameters:
        lines: The lines of the file.
        source: Its name, for errors.
        wanted: After how many rows `Witness.points` is to keep what is known there.
        boards: After how many of these the board, too.
    """
    stream, asked, looks, result = iter(lines), frozenset(wanted), frozenset(boards), Witness()
    header = _header(next(stream, b""), source)
    result.points[0] = WitnessPoint(result.head, 0, Counter(), 0, None)
    for number, line in enumerate(stream, start=2):
        raw = line.removesuffix(b"\n")
        try:
            if result.weights_sha256:
                raise ArenaError("follows the weights, which are the last line")
            (_take_weights if raw.startswith(b'{"weights":') else _take)(result, raw)
        except (msgspec.MsgspecError, ValueError, RecursionError, TiltyardError) as error:
            result.problems.append(f"{source}, line {number}: {error}")
            break
        if result.head.rows in asked:
            board = result.board if result.head.rows in looks else None
            counts, votes = result.counts.copy(), _vote_counts(result)["votes"]
            result.points[result.head.rows] = WitnessPoint(result.head, result.hour, counts, votes, board)
    if not result.problems and Head.parse(header.head) != result.head:
        result.problems.append(f"its rows lead to {result.head}, and its first line states {header.head}")
    return header, result


def _header(line: bytes, source: str) -> WitnessHeader:
    try:
        header = _read(_header_of, line)
        Head.parse(header.head)
        if header.witness != FORMAT:
            raise ValueError(f"version {header.witness} of the format, not {FORMAT}")
    except (msgspec.MsgspecError, RecursionError, ValueError, OptionError) as error:
        raise ArenaError(f"{source} is not a witness file ({error}). `tiltyard arena witness` writes one.") from None
    return header


_header_of = msgspec.json.Decoder(WitnessHeader).decode
_row_of = msgspec.json.Decoder(rows.PublicRow).decode
_weights_of = msgspec.json.Decoder(WitnessWeights).decode


def _read(decode: Callable[[bytes], T], line: bytes) -> T:
    """A line, which is written in one way only: nobody may read another thing from it."""
    value = decode(line)
    if rows.canonical(value) != line.removesuffix(b"\n"):
        raise ValueError("it is not written as tiltyard writes it: a key may be there twice")
    return value


def _take(result: Witness, raw: bytes) -> None:
    """Take in the next row."""
    row = _read(_row_of, raw)
    if not 0 <= row.hour <= LAST_HOUR:
        raise ValueError(f"{row.hour} is no hour since 1970")
    state, at, what, number = result.state, row.hour * HOUR, "", 1
    body: e.AnyBody | None = None
    match row:
        case rows.PublicVote():
            _check_names(row.receipt, row.voter, row.prompt, row.model_a, row.model_b)
            _cast(result, row, at)
            what = "votes"
        case rows.PublicPrompt():
            _check_names(row.prompt)
            result.prompts[row.prompt] = row.text
            body = e.PromptAdded(prompt_id=row.prompt, subject=row.subject, tags=row.tags, language=row.language)
        case rows.PublicExclusion() | rows.PublicRestoration():
            if missing := set(row.receipts) - result.receipts:
                raise ValueError(f"there is no vote {min(missing)} before it")
            kind, what = (e.Excluded, "excluded") if isinstance(row, rows.PublicExclusion) else (e.Restored, "restored")
            body, number = kind(matchup_ids=row.receipts, reason=""), len(row.receipts)
        case rows.PublicModel():
            _check_names(row.model)
            what = f"model {row.model} {'changed' if state.catalog.has_model(row.model) else 'added'}"
            body = e.ModelAdded(model=row.model)
        case rows.PublicModelEnabled():
            body, what = e.ModelEnabled(model=row.model), f"model {row.model} enabled"
        case rows.PublicModelDisabled():
            body, what = e.ModelDisabled(model=row.model), f"model {row.model} disabled"
        case rows.PublicPhase():
            if row.phase not in PHASES:
                raise ValueError(f"there is no phase {row.phase}")
            body, what = e.PhaseChanged(phase=row.phase), f"phase {row.phase}"
        case rows.PublicErasure():
            known = row.name in result.prompts if row.what == "prompt" else state.catalog.has_model(row.name)
            if not known:
                raise ValueError(f"there is no {row.what} {row.name!r} before it")
            what = f"{row.what} {row.name} erased"
        case rows.PublicSettings():
            body, what = e.SettingsChanged(policy=row.policy), "settings changed"
    if body is not None:
        state.apply(state.seq + 1, e.Event(at, body))
    if what:
        result.counts[what] += number
    result.hour = max(result.hour, row.hour)
    result.head = Head(result.head.rows + 1, link_line(result.head.hash, raw))


def _cast(result: Witness, row: rows.PublicVote, at: int) -> None:
    state = result.state
    a, b, prompt = state.catalog.model(row.model_a), state.catalog.model(row.model_b), state.catalog.prompt(row.prompt)
    if a == b:
        raise ValueError(f"{row.model_a} is on both sides")
    if row.receipt in result.receipts:
        raise ValueError(f"the vote {row.receipt} is there twice")
    if row.unrendered and row.choice != choice_if_unrendered(row.unrendered, state.policy.bank.unrendered_counts):
        raise ValueError(f"{row.unrendered} could not be shown, which does not count as {row.choice}")
    result.receipts.add(row.receipt)
    seq = state.seq = state.seq + 1
    state.votes.cast(CastVote(seq, at, row.receipt, row.voter, a, b, prompt, row.choice, unrendered=row.unrendered))
    state.tallies.count(a, b, prompt, row.choice)


def _check_names(*names: str) -> None:
    for name in names:
        if not name or rows.has_control_character(name):
            raise ValueError(f"{name!r} is no name: it is empty or has a control character")


def _take_weights(result: Witness, raw: bytes) -> None:
    found = _read(_weights_of, raw)
    counted = {vote.matchup_id for vote in result.votes if vote.standing is VoteStanding.COUNTED}
    for name, weight in found.weights.items():
        if name not in counted or not 0.0 < weight < 1.0:
            raise ValueError(f"the weight {weight} of {name} is not above 0 and below 1, of a vote that counts")
    result.weights, result.weights_sha256 = found.weights, hashlib.sha256(raw).hexdigest()


def check_witness(
    lines: Iterable[bytes], source: str, proof: KeptProof, published: Sequence[Head | HeadFile] = ()
) -> Finding:
    """Check a witness (`source` names it in errors) against itself, what was kept, and the heads shown beside it."""
    stream, keys = iter(lines), proof.keys
    header = _header(first := next(stream, b""), source)
    files = [*proof.heads, *published, *([header.statement] if header.statement else [])]
    signed = dict.fromkeys(file for file in files if isinstance(file, HeadFile))
    kept, heads = {plain(head): None for head in proof.heads}, {plain(file): None for file in files}
    looks = {plain(file).rows for file in signed if file.stated.board and not file.stated.weights}
    _, result = read_witness(chain([first], stream), source, {head.rows for head in heads}, looks)
    problems = [*result.problems, *filter(None, (file.wrong() for file in signed)), *_missing_heads(result, heads)]
    newest = max((file for file in signed if file.signature), key=plain, default=None)
    if keys and (newest is None or newest.key not in with_successors(keys, signed)):
        told = "no head is signed" if newest is None else f"the newest signed head ({plain(newest)}) is by {newest.key}"
        problems.append(f"{told}, not by the key that was given")
    compared, wrong = _compare_statements(result, signed)
    votes, lost = _own_votes(result, proof.receipts)
    problems += [*wrong, *lost, *look_alikes(one.model for one in result.state.catalog.models)]
    messages = list(_summary(header.title, result))
    if not problems:
        messages += [_since(result, head, "you kept") for head in kept]
        if newest is not None and plain(newest) not in kept:
            titled = "" if newest.stated.title == header.title else f", titled “{newest.stated.title}”,"
            by = f"signed by {newest.key} at {newest.stated.at}{titled}"
            named = ", which the key that was given named as its next" if keys and newest.key not in keys else ""
            messages.append(_since(result, plain(newest), by + named))
        messages += signed_after_the_next(signed)
        if beside := len(heads.keys() - kept.keys()):
            messages.append(f"contains {plural(beside, 'head')} shown beside it")
        if compared:
            messages.append(f"gives {plural(compared, 'board')} stated in heads")
        if left := sum(bool(file.stated.board) for file in signed) - compared:
            messages.append(f"{plural(left, 'stated board')} not compared: the weights of then are not in it")
    values = {
        "head": str(result.head),
        "rows": result.head.rows,
        **_vote_counts(result),
        "weighed": len(result.weights),
        "heads_checked": [str(head) for head in heads],
        "signed_by": None if newest is None else newest.key,
        "boards_compared": compared,
        "phase": result.state.phase,
        "rules": msgspec.to_builtins(result.state.policy),
        "board": [msgspec.structs.asdict(row) for row in result.board],
        "receipts": votes,
    }
    return Finding(
        messages=[*messages, *filter(None, votes.values())],
        values=values,
        problems=problems,
        agreement=_trust(bool(kept), bool(keys)),
    )


def _missing_heads(result: Witness, heads: Iterable[Head]) -> Iterator[str]:
    """The heads to which the rows do not lead."""
    for head in sorted(heads):
        if (point := result.points.get(head.rows)) is None:
            yield f"it ends with row {result.head.rows}, before the head {head}: it was cut, or written earlier"
        elif point.head != head:
            what = "something up to it was changed"
            yield f"row {head.rows} has the hash {point.head.hash}, not that of the head {head}: {what}"


def _compare_statements(result: Witness, signed: Iterable[HeadFile]) -> tuple[int, list[str]]:
    """How many boards that were stated could be compared, and what in statements is not that of their rows.

    Weights are of one moment: those in the file are of its end.
    """
    compared, problems = 0, list[str]()
    for file in signed:
        stated, head = file.stated, plain(file)
        at_end = head == result.head
        if at_end and stated.weights != result.weights_sha256:
            problems.append(f"the weights are not those of the head {head}")
        point = result.points.get(head.rows)
        if point is None or point.head != head:
            continue
        at = datetime.fromisoformat(stated.at)
        if at.replace(tzinfo=at.tzinfo or UTC).timestamp() < point.hour * HOUR // SECOND:
            problems.append(f"the head {head} states the time {stated.at}, before its rows ({day(point.hour * HOUR)})")
        if (stated.board or stated.votes) and stated.votes != point.votes:
            problems.append(f"the head {head} states {stated.votes:,} counted votes, and its rows have {point.votes:,}")
        board = result.board if at_end else point.board
        if stated.board and board is not None:
            compared += 1
            other = differing([RatedModel(*row) for row in stated.board], board)
            problems += [f"board at row {head.rows}: {what}" for what in other]
    return compared, problems


def _own_votes(result: Witness, receipts: Iterable[str]) -> tuple[dict[str, str | None], list[str]]:
    """What became of these votes, and which of them are not there, or are recorded as something else."""
    votes, problems = dict[str, str | None](), list[str]()
    for name, _, choice in (text.partition("=") for text in receipts):
        cast = result.votes.find([name])[0] if name in result.receipts else None
        votes[name] = _vote_words(result, cast) if cast else None
        if cast is None:
            problems.append(f"there is no vote {name} in it, up to {day(result.hour * HOUR)}")
        elif choice not in ("", cast.choice):
            problems.append(f"the vote {name} is recorded as {cast.choice}, not as {choice}")
    return votes, problems


def _vote_words(result: Witness, cast: CastVote) -> str:
    """All that the file says of a vote: only its voter knows whether it is true."""
    catalog = result.state.catalog
    a, b = (repr(catalog.models[number].model) for number in (cast.a, cast.b))
    prompt = catalog.prompts[cast.prompt].prompt_id
    weight = result.weights.get(cast.matchup_id, 1.0)
    counted = cast.standing if weight == 1.0 else f"{cast.standing} with the weight {weight}"
    unrendered = f" ({' and '.join(cast.unrendered)} could not be shown)" if cast.unrendered else ""
    return (
        f"your vote {cast.matchup_id}: {cast.choice}{unrendered}, where A was {a} and B {b}, on the prompt {prompt!r}, "
        f"in the hour of {day(cast.at)}: {counted}"
    )


def _summary(title: str, result: Witness) -> Iterator[str]:
    counts = _vote_counts(result)
    yield f"witness of an arena: {plural(result.head.rows, 'row')} up to {day(result.hour * HOUR)}"
    if title:
        yield f"of its operator, and not checked: title {title}"
    yield f"votes: {counts['votes']:,} counted, {counts['excluded']:,} excluded by the operator"
    if result.weights:
        yield (
            f"weights: {plural(len(result.weights), 'vote')} of these count for less than 1, from "
            f"{min(result.weights.values()):.2g} to {max(result.weights.values()):.2g}. The weights are the operator’s "
            "word: they rest on networks, which are not public"
        )
    state = result.state
    rating = ", ".join(f"{name} {value:g}" for name, value in msgspec.to_builtins(state.policy.rating).items())
    unrendered = state.policy.bank.unrendered_counts
    yield f"rules: phase {state.phase}; an answer that could not be shown: {unrendered}; {rating}"
    yield f"head: {result.head}"


def _vote_counts(result: Witness) -> dict[str, int]:
    tallies = result.state.tallies
    counted = tallies.decisive_votes + int(tallies.ties.view.sum() + tallies.both_bad.view.sum()) // 2
    return {"votes": counted, "excluded": len(result.votes) - counted}


def _since(result: Witness, head: Head, whose: str) -> str:
    """Where a head is, and what came after it."""
    point = result.points[head.rows]
    later = result.counts - point.counts
    parts = [f"{plural(later.pop(name), 'vote')}{what}" for name, what in _COUNTED.items() if name in later]
    parts += [what if n == 1 else f"{what} ({n} times)" for what, n in later.items()]
    after = f"{', '.join(parts)}. Nobody but its operator vouches for those." if parts else "nothing."
    return f"contains the head {whose} (row {head.rows}, {day(point.hour * HOUR)}). After it: {after}"


_COUNTED = {"votes": "", "excluded": " excluded", "restored": " restored"}


def _trust(kept: bool, keys: bool) -> str:
    if kept:
        return (
            "up to the head you kept nothing was changed since you kept it. Whether votes were invented or left out "
            "before, only their voters can tell, each by a receipt (--receipt)."
        )
    if keys:
        return (
            "up to the signed head it is what the holder of that key signed. Whoever holds the key could have signed "
            "something else before: keep a head yourself."
        )
    return (
        "these votes give this board under the rules in it. Whoever wrote it could have invented, changed or left out "
        "votes: keep its head, and compare it next time (--head)."
    )
