"""What a board, and a ratings file, say beside their entries: how models were rated, and results of the whole board."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from tiltyard.analysis.boards.misfit import MisfitFacts
from tiltyard.data.battles import MissingCounts


class ClusterColumn(msgspec.Struct, frozen=True, kw_only=True):
    """A column of dependent battles."""

    column: str
    """Its name; `question_id` is the prompt."""
    count: float
    """How many values it has."""
    effective: float
    """How many equally used values they are worth."""
    largest_share: float
    """The largest one's share of the battles."""


class IntervalFacts(msgspec.Struct, frozen=True, kw_only=True):
    """How intervals were made."""

    kind: str
    """`sandwich`, `bootstrap`, `sampling`, `deviation` or `none`."""
    level: float | UnsetType = UNSET
    """Confidence level."""
    cluster: str | UnsetType | None = UNSET
    """The columns of dependent battles, with a comma between two."""
    clusters: list[ClusterColumn] | UnsetType = UNSET
    degrees_of_freedom: list[float] | UnsetType | None = UNSET
    """The smallest and largest of all models with an interval."""
    correction: str | UnsetType = UNSET
    """`leave-one-out`."""
    draws: int | UnsetType = UNSET
    """Random draws behind standard errors, where there are more than 2,000 models."""
    anytime: bool | UnsetType = UNSET
    """Whether ranges of places hold at every time at which one looks."""


class ShrinkFacts(msgspec.Struct, frozen=True):
    """Ratings that were pulled towards their mean."""

    sd: float
    """Standard deviation of strengths, in points, as estimated."""
    dispersion: float
    """How many times as large variances are by cluster as the model alone says."""


class PoolFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Boards that were rated together."""

    by: str
    """The column whose values have a board each."""
    categories: int
    """How many values it has."""
    sd: float
    """Standard deviation, in points, of how a model's strength differs by value."""
    dispersion: float
    """How many times as large variances are by cluster as the model alone says."""


class RoundsFacts(msgspec.Struct, frozen=True, kw_only=True):
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


class AnchorFacts(msgspec.Struct, frozen=True):
    """A pinned model."""

    model: str
    rating: float


class BoardSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How a board was rated; what its method does not have is absent."""

    method: str | UnsetType = UNSET
    """`bt`, `elo`, `elo-perm`, `glicko2` or `winrate`."""
    tie_model: str | UnsetType = UNSET
    """Of bt: `davidson`, `rao-kupper`, `half` or `drop`."""
    both_bad: str | UnsetType = UNSET
    """How both-bad battles were treated: `separate`, `half`, `drop`."""
    inconsistent: str | UnsetType = UNSET
    """How inconsistent judgments were treated: `tie`, `drop`."""
    scale: float | UnsetType = UNSET
    """Of bt, rating points per logit: 400 / ln 10."""
    anchor: AnchorFacts | UnsetType | None = UNSET
    """Of bt, the model that is pinned."""
    k: float | UnsetType = UNSET
    """Of elo and elo-perm, points at stake."""
    initial_rating: float | UnsetType = UNSET
    """Where models start."""
    n_perms: int | UnsetType = UNSET
    """Shuffles of elo-perm."""
    initial_deviation: float | UnsetType = UNSET
    """Of glicko2."""
    initial_volatility: float | UnsetType = UNSET
    """Of glicko2."""
    tau: float | UnsetType = UNSET
    """Of glicko2: how fast volatilities may change."""
    interval: IntervalFacts | UnsetType = UNSET
    n_bootstraps: int | UnsetType = UNSET
    """Bootstrap rounds; 0 without."""
    seed: int | UnsetType = UNSET
    """Seed of bootstrap and shuffles."""
    evaluated: str | UnsetType | None = UNSET
    """The model under test."""
    judge_model: str | UnsetType | None = UNSET
    """Who judged, as the battles say."""
    shrink: ShrinkFacts | UnsetType = UNSET
    pool: PoolFacts | UnsetType = UNSET
    dimensions: list[str] | UnsetType = UNSET
    """Dimensions whose battles are taken together, where there are several."""
    rounds: RoundsFacts | UnsetType = UNSET
    """How the adaptive rounds of a run went."""
    where: str | UnsetType | None = UNSET
    """The filter over the file's own columns."""
    battles_sha256: str | UnsetType | None = UNSET
    """Hash of the battle files' bytes; null for battles from memory."""
    tiltyard_version: str | UnsetType = UNSET
    """Which version rated."""
    map: dict[str, str] | UnsetType = UNSET
    """The file's own names of columns, by ours."""
    tie_band: float | UnsetType = UNSET
    """Scores that are closer than this were taken for a tie."""
    engine: str | UnsetType = UNSET
    """`spark`, where Spark counted the battles."""
    people_sha256: str | UnsetType | None = UNSET
    """Hash of the bytes of people's labels; null for labels from memory."""
    centre: float | UnsetType = UNSET
    """The mean rating of a published board."""


class Coefficient(msgspec.Struct, frozen=True):
    """Points with their interval."""

    points: float
    """What the first slot, or one typical difference in style, is worth."""
    ci_low: float | None = None
    ci_high: float | None = None


class SweepMean(msgspec.Struct, frozen=True):
    """A rating at another K."""

    mean: float
    sem: float | None
    """Shuffle error."""


class InformationShares(msgspec.Struct, frozen=True):
    """Shares of the information."""

    people: float
    judge: float


class RecordedDraw(msgspec.Struct, frozen=True):
    """A random order of matchups, of which the first were labelled: what labels carry of their draw.

    Those before the last labelled one that have no label were left out, whatever for.
    """

    of: int
    """Matchups in that order."""
    first: int
    """Place of the last labelled one."""
    left_out: int
    """Those before it without a label."""

    def sentence(self, judged: int) -> str:
        """Whether the labels are a random draw, by what is recorded with them."""
        order = f"the first {self.first:,} of a random order of {self.of:,} matchups"
        if self.of < judged:
            return (
                f"recorded with the labels: {order}, and {judged:,} were judged: valid for those that were drawn from"
            )
        if self.left_out:
            less = f"{self.left_out:,} of them without a label"
            return f"recorded with the labels: {order}, {less}: valid if these were not left out for what they are"
        return f"recorded with the labels: {order}, none left out; that is a random draw"


class PeopleLabels(msgspec.Struct, frozen=True):
    """`people` in a ratings file whose board people's labels correct, as in `ratings/calibrated/`."""

    method: str
    """`prediction-powered`."""
    lambda_: float = msgspec.field(name="lambda")
    """The judge's weight, between 0 and 1."""
    labels: int
    """Labelled matchups that were judged."""
    votes: float
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
    draw: RecordedDraw | None
    """The draw that labels carry (by `battles draw`, or a review); null where they carry none."""


class RankChange(msgspec.Struct, frozen=True):
    """A model on both boards; places are among the models of both."""

    model: str
    rank_before: int
    rank_after: int
    rating_before: float
    rating_after: float
    places_gained: int
    """Positive when it rose."""


class BoardComparison(msgspec.Struct, frozen=True, kw_only=True):
    """How two boards differ: `comparison` of a ratings file, `ranks` of a re-judged run.

    Parameters:
        with_: The other ratings file.
        kendall_tau: Kendall's tau-b of the two orders.
        spearman_rho: Spearman's rho of the two orders.
        only_before: Models that only the first board has.
        only_after: Models that only the second board has.
        changes: Every model's place and rating on both boards.
    """

    with_: str | msgspec.UnsetType = msgspec.field(name="with", default=msgspec.UNSET)
    kendall_tau: float | None
    spearman_rho: float | None
    only_before: tuple[str, ...]
    only_after: tuple[str, ...]
    changes: tuple[RankChange, ...]

    def to_dict(self) -> dict[str, Any]:
        """The comparison as plain values."""
        return dict(msgspec.to_builtins(self))


class BoardDetails(msgspec.Struct, frozen=True, kw_only=True):
    """Results of a board as a whole; what its method does not have is absent."""

    log_likelihood: float | UnsetType = UNSET
    """Of bt, at its maximum."""
    tie_parameters: dict[str, float] | UnsetType = UNSET
    """Davidson's ν, or Rao–Kupper's η, for `all`, or for `human` and `llm-judge` separately."""
    coefficients: dict[str, Coefficient] | UnsetType = UNSET
    """Effects of slot and style."""
    n_clusters: float | UnsetType = UNSET
    """Independent units behind the intervals."""
    misfit: MisfitFacts | UnsetType = UNSET
    people: PeopleLabels | UnsetType = UNSET
    k_sensitivity: dict[str, dict[str, SweepMean]] | UnsetType = UNSET
    """Of elo-perm, by K and model."""
    missing: MissingCounts | UnsetType = UNSET
    comparison: BoardComparison | UnsetType = UNSET
