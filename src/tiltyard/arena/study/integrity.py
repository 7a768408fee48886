"""Suspicious votes and answers: what is flagged, and which exclusions are proposed.

Nothing here changes anything. Flags and proposals are values, which a caller turns into `Flagged` and `Excluded` events
(`events_of`) where the policy says so; an excluded vote stays in the log and can be restored.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from tiltyard.arena.rules.events import MAY_NAME, SELF_NAMING, Excluded, Flagged, ModelAdded
from tiltyard.arena.rules.policy import FlagRules
from tiltyard.arena.rules.units import SECOND
from tiltyard.arena.rules.votes import SessionActs, VoteTable
from tiltyard.arena.rules.weights import ContestedModel
from tiltyard.arena.study.voters import (
    LEAST_VOTES,
    Anomaly,
    SessionRules,
    SessionVotes,
    author_names,
    combined,
    expected_scores,
    fewest_votes,
    find_name,
    session_flags,
    share_flag,
    surprises,
)

SURE = 0.01
"""An anomaly is flagged at the policy's alpha, and exclusion is proposed at this fraction of it: in simulations 9 % of
honest sessions are flagged at 0.1, and only 1 in 4,000 is below 0.001."""


class VoterFlag(msgspec.Struct, frozen=True):
    """A flag on a voter's votes. `sure` means that excluding the votes is proposed."""

    voter: str
    flag: str
    detail: str
    sure: bool


class AnswerFlag(msgspec.Struct, frozen=True):
    """An answer that names its author, the name, and the words around it.

    It is held: not served until somebody releases it. One that only may name its author is served.
    """

    response_id: str
    model: str
    name: str
    phrase: str
    held: bool = True

    @property
    def event(self) -> Flagged:
        flag = SELF_NAMING if self.held else MAY_NAME
        return Flagged(subject="response", subject_id=self.response_id, flag=flag, detail=self.phrase)


class ExclusionProposal(msgspec.Struct, frozen=True):
    """Votes that should no longer count, for one reason."""

    matchup_ids: tuple[str, ...]
    reason: str


def flag_voters(
    votes: VoteTable, rating: NDArray[np.float64], rules: FlagRules, acts: Mapping[str, SessionActs] | None = None
) -> list[VoterFlag]:
    """Every flag of every voter, in voter order, given counted votes and the ratings that define upsets.

    `acts` says how often each voter voted, undid and skipped. A session that only undoes or skips has no counted vote;
    its flags come last.
    """
    expected = expected_scores(rating[votes.model_a], rating[votes.model_b])
    flags: list[VoterFlag] = []
    anomalies = voter_anomalies(votes)
    session_rules = SessionRules(**{name: getattr(rules, name) for name in SessionRules.__struct_fields__})
    for voter, rows in _rows_by_voter(votes):
        name = votes.voters[voter]
        if len(rows) >= fewest_votes(session_rules):
            session = SessionVotes(
                votes.at[rows] / SECOND,
                votes.model_a[rows],
                votes.model_b[rows],
                votes.outcome[rows],
                expected[rows],
                votes.models,
            )
            result = session_flags(session, session_rules)
            flags += [VoterFlag(name, flag.flag, flag.detail, sure=True) for flag in result]
        anomaly = anomalies.get(voter)
        if anomaly is not None and anomaly.corrected <= rules.anomaly_alpha:
            detail = f"{anomaly.votes} votes rarer than others' on the same pairs, p = {anomaly.corrected:.2g}"
            sure = anomaly.corrected <= SURE * rules.anomaly_alpha
            flags.append(VoterFlag(name, "anomaly", detail, sure=sure))
    return flags + [flag for voter, counts in (acts or {}).items() for flag in _flags_of_acts(voter, counts, rules)]


def _flags_of_acts(voter: str, acts: SessionActs, rules: FlagRules) -> Iterator[VoterFlag]:
    """Flags from a session's undos and skips. Undoing selects which votes count; skipping is always allowed."""
    undone = share_flag("undoes votes", acts.undone, acts.cast, "votes undone", rules.undo_votes, rules.undo_share)
    if undone is not None:
        yield VoterFlag(voter, undone.flag, undone.detail, sure=True)
    settled = acts.cast + acts.skipped
    skipped = share_flag("skips", acts.skipped, settled, "matchups skipped", rules.skip_matchups, rules.skip_share)
    if skipped is not None:
        yield VoterFlag(voter, skipped.flag, skipped.detail, sure=False)


def voter_anomalies(votes: VoteTable) -> dict[int, Anomaly]:
    """The combined test of every voter with enough votes, by voter number."""
    rarity = surprises(votes.model_a, votes.model_b, votes.outcome, len(votes.models))
    return {voter: combined(rarity, rows) for voter, rows in _rows_by_voter(votes) if len(rows) >= LEAST_VOTES}


def _rows_by_voter(votes: VoteTable) -> Iterable[tuple[int, NDArray[np.intp]]]:
    order = np.argsort(votes.voter, kind="stable")
    cuts = np.flatnonzero(np.diff(votes.voter[order])) + 1
    pieces = np.split(order, cuts) if len(order) else []
    return [(int(votes.voter[rows[0]]), rows) for rows in pieces]


def flag_answers(answers: Iterable[tuple[str, ModelAdded, str, str]]) -> list[AnswerFlag]:
    """The answers that name their author, or may, from (response id, model, prompt, text)."""
    flags = []
    for response_id, model, prompt, text in answers:
        names = author_names(model.model, model.display_name, model.provider, model.aliases)
        result = find_name(text, prompt, names)
        if result is not None:
            flags.append(AnswerFlag(response_id, model.model, result.name, result.phrase, result.telling))
    return flags


LISTED = 5
"""How many answers that name their authors are listed."""


def naming_lines(flags: Sequence[AnswerFlag], answers: int, listed: int = LISTED) -> list[str]:
    """How many of so many answers are held because they name their authors, how many may, and the first of each."""
    heads = {
        True: "held {}: they contain their author's name; read them, and release with `arena prompts serve-answer ID`",
        False: "flagged {}, and served: a word in them may name their author; hold with `arena prompts hide-answer ID`",
    }
    lines = []
    for held, head in heads.items():
        if some := [flag for flag in flags if flag.held is held]:
            share = f"{len(some) / answers:.1%}".replace("%", " %")
            lines.append(head.format(f"{len(some):,} of {answers:,} answers ({share})"))
            lines += [f"  {flag.model}, answer {flag.response_id}: “{flag.phrase}”" for flag in some[:listed]]
            lines += [f"  and {len(some) - listed:,} more" for _ in range(listed and len(some) > listed)]
    return lines


def propose_exclusions(votes: VoteTable, flags: Iterable[VoterFlag]) -> list[ExclusionProposal]:
    """For every voter with a sure flag, all their counted votes, with the flags as the reason."""
    reasons: dict[str, list[str]] = {}
    for flag in flags:
        if flag.sure:
            reasons.setdefault(flag.voter, []).append(f"{flag.flag} ({flag.detail})")
    rows = {votes.voters[voter]: rows for voter, rows in _rows_by_voter(votes)}
    return [
        ExclusionProposal(tuple(votes.matchup_ids[row] for row in rows[voter]), "; ".join(result))
        for voter, result in reasons.items()
        if voter in rows
    ]


def propose_unblinded(
    votes: VoteTable, responses: Iterable[tuple[str, str]], flagged: Iterable[AnswerFlag]
) -> ExclusionProposal | None:
    """The votes on matchups that showed a held answer; `responses` are both answers' ids, vote by vote."""
    names = {flag.response_id for flag in flagged if flag.held}
    shown = zip(votes.matchup_ids, responses, strict=True)
    ids = tuple(matchup_id for matchup_id, both in shown if names.intersection(both))
    return ExclusionProposal(ids, "an answer says who wrote it") if ids else None


def accepted(
    rules: FlagRules, by_voters: Iterable[ExclusionProposal], unblinded: ExclusionProposal | None
) -> list[ExclusionProposal]:
    """The proposals that the policy carries out automatically; none by default, so that a person decides."""
    chosen = list(by_voters) if rules.exclude_flagged_sessions else []
    if rules.exclude_self_identifying and unblinded is not None:
        chosen.append(unblinded)
    return chosen


def events_of(
    voter_flags: Iterable[VoterFlag],
    answer_flags: Iterable[AnswerFlag] = (),
    proposals: Iterable[ExclusionProposal] = (),
    known: Collection[tuple[str, str]] = (),
    contested: Iterable[ContestedModel] = (),
) -> list[Flagged | Excluded]:
    """The events for flags and accepted proposals; flags already `known` by (subject id, flag) are not repeated."""
    flagged = [
        Flagged(subject="voter", subject_id=flag.voter, flag=flag.flag, detail=flag.detail) for flag in voter_flags
    ]
    flagged += [flag.event for flag in answer_flags]
    flagged += [
        Flagged(subject="model", subject_id=model.model, flag="contested", detail=model.sentence) for model in contested
    ]
    new = [event for event in flagged if (event.subject_id, event.flag) not in known]
    return [*new, *(Excluded(matchup_ids=proposal.matchup_ids, reason=proposal.reason) for proposal in proposals)]
