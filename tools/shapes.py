"""What files hold that no struct declares: the parts of a ratings file, and what a site hands to programs.

The schemas and the manual's page of files are made from these and from the structs of the package. Whatever is made in
`tests/reference` must have these fields and no others.
"""

from __future__ import annotations

from typing import Any, TypedDict

from tiltyard.boards import BoardComparison
from tiltyard.boards.misfit import MisfitFacts
from tiltyard.boards.people import PeopleLabels
from tiltyard.llm import Usage
from tiltyard.placement.robustness import FamilyCheck, Sensitivity


class ClusterColumn(TypedDict):
    """A column of dependent battles."""

    column: str
    """Its name; `question_id` is the prompt."""
    count: float
    """How many values it has."""
    effective: float
    """How many equally used values they are worth."""
    largest_share: float
    """The largest one's share of the battles."""


class IntervalFacts(TypedDict, total=False):
    """How intervals were made."""

    kind: str
    """`sandwich`, `bootstrap`, `sampling`, `deviation` or `none`."""
    level: float
    """Confidence level."""
    cluster: str | None
    """The columns of dependent battles, with a comma between two."""
    clusters: list[ClusterColumn]
    degrees_of_freedom: list[float] | None
    """The smallest and largest of all models with an interval."""
    correction: str
    """`leave-one-out`."""
    anytime: bool
    """Whether ranges of places hold at every time at which one looks."""


class RoundsFacts(TypedDict):
    """Adaptive rounds."""

    until: str
    """What they went on for."""
    looks: int
    """How many there were, after each of which it was decided whether to go on."""
    planned_looks: int
    """The most there could have been."""
    level: float
    """Confidence level of the decision; `interval.level` is that of the intervals."""
    stopped: str | None
    """Why there was no further round."""
    ranks: str
    """How to read the ranges of places."""


class AnchorFacts(TypedDict):
    """A pinned model."""

    model: str
    rating: float


class MissingVerdicts(TypedDict):
    """Matchups of the run without a verdict."""

    matchups: int
    """All of them."""
    without_verdict: int
    """Those without one."""
    by_entrant: dict[str, int]
    by_reason: dict[str, int]
    """`unparsed`, `truncated`, `refused`, `error` or `never asked`."""


class Effect(TypedDict):
    """Points with their interval."""

    points: float
    """What the first slot, or one typical difference in style, is worth."""
    ci_low: float | None
    ci_high: float | None


class SweepMean(TypedDict):
    """A rating at another K."""

    mean: float
    sem: float
    """Shuffle error."""


class PoolFacts(TypedDict):
    """Boards that were rated together."""

    by: str
    """The column whose values have a board each."""
    categories: int
    """How many values it has."""
    sd: float
    """Standard deviation, in points, of how a model's strength differs by value."""
    dispersion: float
    """How many times as large variances are by cluster as the model alone says."""


class PlacementMode(TypedDict):
    """How a placement is rated."""

    mode: str
    """`joint`, `fixed` or `calibrated`."""
    overall_level: float
    """Confidence level of all looks together."""


class RatingsDetails(TypedDict, total=False):
    """Fields of a ratings file beside those of `RatingsFile`."""

    method: str
    """`bt`, `elo`, `elo-perm`, `glicko2` or `winrate`."""
    both_bad: str
    """How both-bad battles were treated: `separate`, `half`, `drop`."""
    inconsistent: str
    """How inconsistent judgments were treated: `tie`, `drop`."""
    interval: IntervalFacts
    pool: PoolFacts
    rounds: RoundsFacts
    """How the adaptive rounds of a run went."""
    evaluated: str | None
    """The model under test."""
    where: str | None
    """The filter over the file's own columns."""
    battles_sha256: str | None
    """Hash of the battle files' bytes; null for battles from memory."""
    people_sha256: str | None
    """Hash of the bytes of people's labels; null for labels from memory."""
    tiltyard_version: str
    """Which version rated."""
    tie_model: str
    """Of bt: `davidson`, `rao-kupper`, `half` or `drop`."""
    scale: float
    """Of bt, rating points per logit: 400 / ln 10."""
    anchor: AnchorFacts | None
    """Of bt, the model that is pinned."""
    k: float
    """Of elo and elo-perm, points at stake."""
    initial_rating: float
    """Where models start."""
    initial_deviation: float
    """Of glicko2."""
    initial_volatility: float
    """Of glicko2."""
    tau: float
    """Of glicko2: how fast volatilities may change."""
    n_perms: int
    """Shuffles of elo-perm."""
    n_battles: float
    """Battles counted."""
    dimensions: list[str]
    """Dimensions whose battles are taken together, where there are several."""
    left_out: dict[str, float]
    """Battles that were not rated, by reason."""
    remarks: list[str]
    """Sentences a reader should not miss."""
    missing: MissingVerdicts
    log_likelihood: float
    """Of bt, at its maximum."""
    n_clusters: float
    """Independent units behind the intervals."""
    tie_parameters: dict[str, float]
    """Davidson's ν, or Rao–Kupper's η, for `all`, or for `human` and `llm-judge` separately."""
    coefficients: dict[str, Effect]
    """Effects of slot and style."""
    misfit: MisfitFacts
    people: PeopleLabels
    k_sensitivity: dict[str, dict[str, SweepMean]]
    """Of elo-perm, by K and model."""
    comparison: BoardComparison
    placement: PlacementMode
    calibration: dict[str, Any]
    """As in the manifest of a placement, without `asked`, `agreement` and `flips`."""
    sensitivity: Sensitivity
    """What a style bias that nothing measured would do."""
    families: FamilyCheck


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
