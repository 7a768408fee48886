"""The policy of an arena: every constant of matchmaking, ratings, validity and integrity, each with its reason.

The whole policy is written to the log whenever it changes, so a board always says by which rules it was made.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from tiltyard.errors import OptionError
from tiltyard.ratings.glicko2 import Glicko2Settings

if TYPE_CHECKING:
    from collections.abc import Iterator


TextsPublic = Literal["after_retirement", "always"]
"""When the answers to a prompt are public with their authors."""


class LaneWeights(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How often each lane is asked first. They are shares and add up to 1."""

    coverage: float = 0.4
    contender: float = 0.3
    uncertainty: float = 0.2
    exploration: float = 0.1


class OpponentMix(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whom a contender meets in the contender lane. They are shares and add up to 1."""

    neighbour: float = 0.7
    """The nearest by conservative rank, above or below."""
    close: float = 0.2
    """Another contender, the one with the smallest rating distance."""
    challenger: float = 0.1
    """One from the ranks just below the band."""


class RatingRules(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where Glicko-2 and the legacy Elo start and how fast they move. A change re-rates the whole log."""

    rating: float = 1500.0
    deviation: float = 350.0
    volatility: float = 0.005
    """Not Glickman's 0.06: a vote is a rating period here, and a checkpoint's skill does not drift between votes."""
    tau: float = 0.5
    deviation_min: float = 10.0
    deviation_max: float = 350.0
    legacy_rating: float = 1500.0
    legacy_k: float = 16.0
    legacy_baseline: float = 1500.0
    """In the legacy field alone, BOTH_BAD is a loss of each model to a rival of this rating."""

    def glicko2(self) -> Glicko2Settings:
        """The settings of the Glicko-2 loops."""
        return Glicko2Settings(
            rating=self.rating,
            deviation=self.deviation,
            volatility=self.volatility,
            tau=self.tau,
            deviation_min=self.deviation_min,
            deviation_max=self.deviation_max,
        )


class BadgeRules(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When a model stops being provisional, and when it may be called stable."""

    established_decisive: int = 80
    established_coverage: float = 0.8
    established_deviation: float = 90.0
    stable_decisive: int = 200
    stable_coverage: float = 0.9
    stable_deviation: float = 30.0
    """At 60 the rule would never bind: that deviation is reached after about 50 votes."""


class PublicationRules(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When a board may be called officially stable; looked at over its first `top` models."""

    top: int = 10
    median_deviation: float = 75.0
    adjacent_share: float = 0.8
    mean_coverage: float = 0.9


class Limits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How much one visitor may do. A limit counts over a rolling window."""

    session_votes_per_minute: int = 20
    """A person who reads both answers needs more than three seconds."""
    session_matchups_per_minute: int = 40
    address_votes_per_minute: int = 120
    """A school or an office behind one address."""
    address_matchups_per_minute: int = 240
    address_sessions_per_hour: int = 60
    session_undos_per_hour: int = 12
    """An undo repairs a slip of the finger, and people slip a few times an hour."""
    address_undos_per_hour: int = 120
    session_skips_per_hour: int = 120
    """Two a minute, without a break: whoever skips more is looking for certain answers."""
    address_skips_per_hour: int = 1200


class FlagRules(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When a session, an answer or a model is flagged. A flag excludes nothing by itself unless a setting says so."""

    fast_votes: int = 20
    fast_seconds: float = 2.0
    fast_share: float = 0.5
    one_sided_votes: int = 20
    one_sided_share: float = 0.9
    upset_votes: int = 10
    upset_share: float = 0.8
    both_bad_votes: int = 20
    both_bad_share: float = 0.4
    undo_votes: int = 10
    undo_share: float = 0.3
    """Undone votes from which on, and their share of all votes cast: one vote in three is no slip of the finger, and
    whoever keeps only the votes that suit them undoes most."""
    skip_matchups: int = 40
    skip_share: float = 0.7
    """Skipped matchups from which on, and their share of all that the session voted on or skipped: it waits for
    certain answers, which is allowed and worth a look."""
    anomaly_alpha: float = 0.1
    quality_votes: int = 50
    """A model's both-bad rate is watched from this many votes on."""
    quality_rise: float = 0.1
    """Flagged when the rate over its latest votes exceeds the rate before by this much and by chance alone rarely."""
    exclude_flagged_sessions: bool = False
    exclude_self_identifying: bool = False


class Policy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All settings of an arena."""

    lanes: LaneWeights = LaneWeights()
    opponents: OpponentMix = OpponentMix()
    rating: RatingRules = RatingRules()
    badges: BadgeRules = BadgeRules()
    publication: PublicationRules = PublicationRules()
    limits: Limits = Limits()
    flags: FlagRules = FlagRules()
    contender_band: int = 8
    """K: the first models by conservative score."""
    challenger_reach: int = 8
    """Challengers come from the ranks K + 1 to K + this."""
    contender_opens_at: int = 60
    """Rated votes that each of the first K + 1 needs before the contender lane serves: chasing early luck makes
    deviations dishonest."""
    window_matchups: int = 2000
    """W: exposure is fair or not over this many matchups."""
    exposure_tolerance: float = 0.12
    prompt_floor: int = 2
    """Decisive votes that make a model–prompt cell covered."""
    prompt_target_top: int = 4
    """Decisive votes per prompt that contenders are led towards."""
    adjacent_floor_votes: int = 12
    adjacent_floor_prompts: int = 6
    diversity_last: int = 10
    diversity_most: int = 2
    """Of a pair's last `diversity_last` meetings at most this many on one prompt; ⌈last / prompts⌉ if that is more."""
    traffic_cap: float = 0.25
    """The largest share of the window's matchups that one model may take part in …"""
    traffic_cap_even_shares: float = 1.5
    """… or this many even shares, where that is more (an arena of three models gives each two thirds)."""
    traffic_cap_from: int = 40
    """The cap holds once the window has this many matchups."""
    texts_public: TextsPublic = "after_retirement"
    """`after_retirement` shows an answer with its author once its prompt is off and nobody can be voting on it any
    more; `always` shows every answer and says on every page that the arena is not blind."""
    matchup_expires_seconds: int = 7200
    undo_seconds: int = 5
    """How long a vote can be undone whose names are held back. Long enough for a slip of the finger; longer would only
    keep people waiting for the names. 0: every vote shows the names at once and is final."""
    snapshot_seconds: int = 3600

    def __post_init__(self) -> None:
        for name, value in _numbers(self):
            if not math.isfinite(value):
                raise OptionError(f"policy: {name} is {value}; it must be a finite number, since the log keeps it.")
            least, most = BOUNDS.get(name, (-MOST, MOST))
            if not least <= value <= most:
                raise OptionError(f"policy: {name} is {value}; it must lie between {least} and {most:,}.")
        for name, shares in (("lanes", self.lanes), ("opponents", self.opponents)):
            values = msgspec.structs.astuple(shares)
            if min(values) < 0 or abs(sum(values) - 1.0) > 1e-9:
                raise OptionError(f"policy: the shares of {name} are {values}; they must not be negative and add to 1.")
        self.rating.glicko2()


def _numbers(settings: msgspec.Struct, prefix: str = "") -> Iterator[tuple[str, float]]:
    """Every number of a policy by its name, such as `badges.stable_deviation`."""
    for name in settings.__struct_fields__:
        value = getattr(settings, name)
        if isinstance(value, msgspec.Struct):
            yield from _numbers(value, f"{prefix}{name}.")
        elif not isinstance(value, str):
            yield prefix + name, value


MOST = 10**9
"""Of anything: a number above this is a slip, and times and counts beyond it would not fit where they are kept."""
AT_LEAST_ONE = (
    *("contender_band", "window_matchups", "prompt_floor", "diversity_last", "diversity_most"),
    *("matchup_expires_seconds", "snapshot_seconds", "adjacent_floor_votes", "adjacent_floor_prompts"),
    *("traffic_cap_from", "publication.top", *(f"limits.{name}" for name in Limits.__struct_fields__)),
)
TINY = 1e-6
BOUNDS: dict[str, tuple[float, float]] = {
    **dict.fromkeys(AT_LEAST_ONE, (1, MOST)),
    **dict.fromkeys(("challenger_reach", "contender_opens_at", "undo_seconds", "prompt_target_top"), (0, MOST)),
    **dict.fromkeys(("exposure_tolerance", "traffic_cap", "traffic_cap_even_shares"), (TINY, MOST)),
}
"""What some numbers of a policy must lie between; the others may be anything finite."""


PHASES = (1, 2, 3, 4)
"""1: everything is computed, legacy matchmaking and order stay. 2: lanes on. 3: conservative order. 4: governance."""


def read_policy(values: dict[str, Any]) -> Policy:
    """A policy from plain values, such as a YAML or JSON file; an unknown name is an error that says which."""
    try:
        return msgspec.convert(values, Policy)
    except msgspec.ValidationError as error:
        raise OptionError(f"policy: {error}. `tiltyard arena init --print-policy` shows every setting.") from None
