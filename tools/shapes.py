"""What files hold that no struct declares: the parts of a ratings file, and what a site hands to programs.

The schemas and the manual's page of files are made from these and from the structs of the package. Whatever is made in
`tests/reference` must have these fields and no others.
"""

from __future__ import annotations

from typing import Any, TypedDict

import msgspec

from tiltyard.llm.provider import Usage
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


class OddPair(TypedDict):
    """Two models whose battles do not fit their ratings."""

    model: str
    """It wins more than its rating says."""
    against: str
    battles: float
    share: float
    """What it won of them, ties half."""
    expected: float
    """The same according to the ratings."""
    error: float
    """Standard error of the difference of the two."""
    z: float
    """The difference in standard errors."""


class PairsMisfit(TypedDict):
    """Pairs against ratings."""

    p: float
    """p-value, with the schedule."""
    size: float
    """How far pairs are off beyond chance: root mean square of the share of wins."""
    worst: list[OddPair]


class ScheduleMisfit(TypedDict):
    """Whose rating depends most on who met whom how often."""

    p: float
    model: str
    points: float
    """How far it moves when all pairs weigh the same."""
    z: float
    """The move in standard errors."""


class TiesMisfit(TypedDict):
    """Shares of ties, found and expected by the tie model."""

    p: float
    close: float
    """In the half of the battles with the smaller gaps."""
    close_expected: float
    far: float
    """In the other half."""
    far_expected: float


class Drifter(TypedDict):
    """A model that changed, or the one with the largest change."""

    model: str
    points: float
    """What it gained on its opponents from first battle to last."""
    error: float
    """Standard error of the gain."""


class DriftMisfit(TypedDict):
    """Models that changed over time."""

    p: float
    models: list[Drifter]


class SlotMisfit(Effect):
    """What being shown first is worth."""

    p: float


class MisfitFacts(TypedDict, total=False):
    """The fit against its battles."""

    checked: bool
    reason: str
    """Why it was not checked."""
    notes: list[str]
    """The checks that failed: `pairs`, `ties`, `drift`, `slot`."""
    too_small: list[str]
    """Those that fail by less than matters."""
    by_chance: list[str]
    """Those with p below 0.05, which among so many checks may be chance."""
    not_checked: list[str]
    """The checks that could not be made, each with the reason."""
    pairs: PairsMisfit
    schedule: ScheduleMisfit
    ties: TiesMisfit
    drift: DriftMisfit
    slot: SlotMisfit


class InformationShares(TypedDict):
    """Shares of the information."""

    people: float
    judge: float


class DrawOfLabels(TypedDict):
    """A random order of matchups, of which the first were labelled."""

    of: int
    """Matchups in that order."""
    first: int
    """Place of the last labelled one."""
    left_out: int
    """Those before it without a label."""


class PeopleLabels(msgspec.Struct):
    """`people` in a ratings file of `tiltyard rate --people` and of `ratings/calibrated/`."""

    method: str
    """`prediction-powered`."""
    lambda_: float = msgspec.field(name="lambda")
    """The judge's weight, between 0 and 1."""
    labels: int
    """Labelled matchups that were judged."""
    votes: int
    """People's rows on them."""
    voters: int | None
    """How many people; null if that is not known."""
    prompts: int
    judged_matchups: int
    """Matchups that the judge judged, among the corrected models."""
    agreement: float | None
    """Share of the labelled matchups with the same winner, if both name one."""
    agreement_n: int
    """How many these are."""
    half_width: float | None
    """Half the median interval, in points; null if every one is open."""
    people_only_half_width: float | None
    """The same by people's labels alone."""
    information: InformationShares
    saves: bool
    """False if the judge agrees too little to save labels."""
    not_corrected: list[str]
    """Models that labels do not join to the others."""
    random_draw_p: float | None
    """p-value of the labels being a random draw, by all that is known of the judged matchups."""
    draw: DrawOfLabels | None
    """The draw that labels carry (by `battles draw`, or a review); null where they carry none."""


class SweepMean(TypedDict):
    """A rating at another K."""

    mean: float
    sem: float
    """Shuffle error."""


class MovedModel(TypedDict):
    """A model on both boards; places are among the models of both."""

    model: str
    rank_before: int
    rank_after: int
    places_gained: int
    """Positive when it rose."""
    rating_before: float
    rating_after: float


class ComparedBoards(msgspec.Struct, kw_only=True):
    """`comparison` of a ratings file, `ranks` of a re-judged run."""

    with_: str | msgspec.UnsetType = msgspec.field(name="with", default=msgspec.UNSET)
    """The other ratings file."""
    kendall_tau: float | None
    """Kendall's tau-b of the two orders."""
    spearman_rho: float | None
    only_before: list[str]
    """Models that only the first board has."""
    only_after: list[str]
    changes: list[MovedModel]


class PlacementMode(TypedDict):
    """How a placement is rated."""

    mode: str
    """`joint`, `fixed` or `calibrated`."""
    overall_level: float
    """Confidence level of all looks together."""


class RatingsDetails(TypedDict, total=False):
    """Fields of a ratings file beside those of `EloReport`."""

    method: str
    """`bt`, `elo`, `elo-perm`, `glicko2` or `winrate`."""
    both_bad: str
    """How both-bad battles were treated: `separate`, `half`, `drop`."""
    inconsistent: str
    """How inconsistent judgments were treated: `tie`, `drop`."""
    interval: IntervalFacts
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
    comparison: ComparedBoards
    placement: PlacementMode
    calibration: dict[str, Any]
    """As in the manifest of a placement, without `asked`, `agreement` and `flips`."""
    sensitivity: Sensitivity
    """What a style bias that nothing measured would do."""
    families: FamilyCheck


class RatingExtras(TypedDict, total=False):
    """Fields of one model's line that only some methods have."""

    bootstrap_mean: float
    """Mean of the bootstrap rounds."""
    rating_without_control: float
    """The rating when style is not controlled for."""
    battles_to_swap_with_next: float | None
    """The fewest battles whose removal makes the next model level; null for the last."""
    judge_rating: float
    """The rating by the judge's battles alone, where people's labels correct it."""
    labels: float
    """Labelled matchups that it is in; 0: on the judge's scale, not corrected."""
    people_only_rating: float
    """The rating by people's labels alone."""
    people_only_low: float | None
    people_only_high: float | None
    sem: float
    """Of elo-perm, standard error over shuffles: shuffle error only."""
    ci95_low: float
    """Mean − 1.96 SEM: shuffle error only."""
    ci95_high: float
    """Mean + 1.96 SEM: shuffle error only."""
    sampling_low: float | None
    """Of elo-perm, lower end of the sampling interval over prompts."""
    sampling_high: float | None
    deviation: float
    """Of glicko2, RD."""
    volatility: float
    """Of glicko2."""
    conservative: float
    """Of glicko2, rating − 2 deviations."""
    overall: float
    """Of winrate, share of all its battles won."""
    score: float
    """Of winrate, wins plus half the ties."""
    judge_scale_rating: float
    """Of the new model of a placement, fixed or calibrated: its rating in the joint fit, on the judge's scale."""
    judge_scale_ci_low: float | None
    """Sampling error only."""
    judge_scale_ci_high: float | None


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
