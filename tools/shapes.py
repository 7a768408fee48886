"""What files hold that no struct declares.

The schemas and the manual's page of files are made from these and from the structs of the package. Whatever is made in
`tests/reference` must have these fields and no others.
"""

from __future__ import annotations

from typing import Any, TypedDict

from tiltyard.judge.llm import Usage


class Diagnostics(TypedDict, total=False):
    """How `tiltyard generate` made an answer; files from elsewhere may hold anything here."""

    model: str
    """The model as the provider names it."""
    requested_model: str
    """The model that was asked for."""
    turns: int
    """Turns of the conversation."""
    stop: str
    """`end`, `length` (cut off) or `refusal`."""
    seed: int | None
    """Seed for this prompt."""
    seed_sent: bool
    system_sha256: str
    """Hash of the system text."""
    max_tokens: int
    """How long it could be."""
    options: dict[str, Any]
    """Further parameters sent."""
    usage: Usage
    batched: bool
    """Whether it came in a batch."""


class CountedVerdicts(TypedDict):
    """All verdicts of a run, whichever command asked for them."""

    count: int
    input_tokens: int
    output_tokens: int
    cache_creation_input_tokens: int
    cache_read_input_tokens: int
    cost_usd: float | None
    replies_without_usage: int


class UsageTotals(TypedDict):
    """What this command asked."""

    queries: int
    """Questions."""
    cache_hits: int
    """Answered before."""
    fresh_calls: int
    """Replies that came in."""
    input_tokens: int
    output_tokens: int
    cache_creation_input_tokens: int
    cache_read_input_tokens: int
    cost_usd: float | None
    """Null where a price is unknown."""
    replies_without_usage: int
    """Replies that were paid for, but whose tokens the provider did not state: in no other figure."""
    failed: dict[str, int]
    """Questions that ended without a verdict, by name."""


class UsageRow(UsageTotals):
    """One dimension."""

    verdicts: CountedVerdicts


class RunUsageBase(TypedDict):
    """What a run and a placement say."""

    judge_model: str
    dimensions: dict[str, UsageRow]
    total: UsageTotals


class RunUsage(RunUsageBase, total=False):
    """`usage.json` of a run, canaries included. Tokens and cost are those of this command, but for `verdicts`."""

    judges: dict[str, dict[str, UsageRow]]
    """The same for every judge of a panel, by dimension."""


class AnswersUsage(TypedDict):
    """What the new model's answers took."""

    asked: int
    failed: int
    input_tokens: int
    output_tokens: int
    cache_creation_input_tokens: int
    cache_read_input_tokens: int
    cost_usd: float | None
    replies_without_usage: int


class PlacementUsage(RunUsageBase):
    """`usage.json` of a placement: as that of a run, with `panel` and `calibration` in place of dimensions."""

    answers: AnswersUsage


class ExportedVote(TypedDict):
    """What every vote says."""

    model_a: str
    """On side A, chosen at random."""
    model_b: str
    winner: str
    """`model_a`, `model_b`, `tie` or `tie (bothbad)`."""
    source: str
    """`human`."""
    question_id: str
    """The prompt."""
    voter: str
    """`v1`, `v2`, … in the order of appearance: which votes belong together, and nothing more."""
    timestamp: float
    """Seconds since 1970, rounded down to the hour."""
    status: str
    """`counted` or `excluded`."""
    weight: float
    """How much of the vote counts on the published board: above 0 and at most 1, with six decimals; 0 if excluded."""


class ArenaExport(ExportedVote, total=False):
    """`tiltyard arena export` and `/api/v1/battles.jsonl`: a row per final vote, in the order of the log.

    Votes that were undone, or still can be, are left out. The last two columns are there if any vote has them.
    """

    unrendered: str
    """Which answers the voter said could not be shown: `A`, `B` or `AB`; empty: none."""
    reasons: list[str]
    """The reasons that the voter tapped (`ballot.reasons` of the policy)."""
