"""The policy of an arena: every constant of matchmaking, ratings, validity and integrity, each with its reason.

The whole policy is written to the log whenever it changes, so the rules behind a board are always known.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Literal

import msgspec

from tiltyard.arena.rules.kept import DAYS
from tiltyard.arena.rules.reasons import BallotRules
from tiltyard.arena.rules.units import DAY, HOUR, MINUTE
from tiltyard.errors import OptionError
from tiltyard.stats import Glicko2Settings
from tiltyard.types import named

TextsPublic = Literal["after_retirement", "always"]
"""When the answers to a prompt are public with their authors."""

UnrenderedCounts = Literal["loss", "both_bad"]
"""What it counts as when a voter says that one of two answers could not be shown."""

SpeakFor = Literal["these_prompts", "prompts_like_these"]
"""Which prompts published intervals hold for."""


class LaneWeights(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How often each lane is tried first. Shares that add up to 1."""

    coverage: float = 0.4
    """Share of matchups for which the coverage lane is tried first. (§6.1)"""
    contender: float = 0.3
    """The same for the contender lane. (§6.2)"""
    uncertainty: float = 0.2
    """The same for the uncertainty lane. (§6.3)"""
    exploration: float = 0.1
    """The same for the exploration lane. (§6.4)"""


class OpponentMix(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which opponents a contender meets in the contender lane. Shares that add up to 1."""

    neighbour: float = 0.7
    """Share of a contender's meetings: the nearest by conservative rank, above or below. (§6.2)"""
    close: float = 0.2
    """Share of a contender's meetings: another contender, the one with the smallest rating distance. (§6.2)"""
    challenger: float = 0.1
    """Share of a contender's meetings: one from the ranks just below the band. (§6.2)"""


class RatingRules(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Initial values and speed of Glicko-2 and legacy Elo. A change re-rates the whole log."""

    rating: float = 1500.0
    """Glicko-2 rating of a new model. (§5.1)"""
    deviation: float = 350.0
    """Its deviation (RD). (§5.1)"""
    volatility: float = 0.005
    """Its volatility. Not Glickman's 0.06: a vote is a rating period here, and a checkpoint's skill does not drift
    between votes. (§5.1)"""
    tau: float = 0.5
    """How fast volatilities may change. (§5.1)"""
    deviation_min: float = 10.0
    """Smallest deviation. (§5.1)"""
    deviation_max: float = 350.0
    """Largest deviation. (§5.1)"""
    legacy_rating: float = 1500.0
    """Where legacy Elo starts. (§2)"""
    legacy_k: float = 16.0
    """K of legacy Elo. (§2)"""
    legacy_baseline: float = 1500.0
    """In legacy Elo only, BOTH_BAD is a loss of each model to an opponent with this rating. (§2)"""

    def glicko2(self) -> Glicko2Settings:
        return Glicko2Settings(**named(self, "rating deviation volatility tau deviation_min deviation_max"))


class BadgeRules(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When a model stops being provisional, and when it may be called stable."""

    established_decisive: int = 80
    """Decisive votes for Established; below, a model is Provisional. (§5.3)"""
    established_coverage: float = 0.8
    """Prompt coverage for Established. (§5.3)"""
    established_deviation: float = 90.0
    """Largest deviation for Established. (§5.3)"""
    stable_decisive: int = 200
    """Decisive votes for Stable. (§9.2, number ours)"""
    stable_coverage: float = 0.9
    """Prompt coverage for Stable. (§9.2, number ours)"""
    stable_deviation: float = 30.0
    """Largest deviation for Stable. At 60 the rule would never bind: that deviation is reached after about 50 votes.
    (§9.2, number ours)"""
    stable_places: int = 3
    """Most places that the published range of ranks of a Stable model may have. Deviations are small long before the
    order is known: without this rule one Stable model in four stood more than one place off. 0 switches it off.
    (ours)"""


class PublicationRules(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When a board may be called officially stable, judged by its first `top` models."""

    top: int = 10
    """How many top models the publication rules consider. (§10)"""
    median_deviation: float = 75.0
    """Their median deviation may be at most this. (§10)"""
    adjacent_share: float = 0.8
    """Share of neighbouring pairs that must have met their floor. (§10)"""
    mean_coverage: float = 0.9
    """Their mean prompt coverage must be at least this. (§10)"""
    largest_voter: float = 0.1
    """Also worth knowing, without an effect on the label: whether a single voter has cast more than this share of the
    counted votes; 1 switches it off. (ours)"""
    median_places: int = 3
    """Also worth knowing: whether their median range of ranks has more than this many places; 0 switches it off.
    (ours)"""
    order_kept: bool = True
    """Also worth knowing: whether to say who of them stood, over the last `window_matchups`, outside the range of ranks
    that it has now. (ours)"""


class IntervalRules(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the published Bradley–Terry intervals and ranges of ranks hold for."""

    speak_for: SpeakFor = "these_prompts"
    """Which prompts the intervals hold for. `these_prompts`: for these prompts and answers, and other voters;
    clustered by voter. `prompts_like_these`: for other prompts of this kind too; clustered by prompt and by voter, and
    wider. A bank that somebody chose is no random sample of prompts, unless they say so by the second. (ours)"""
    anytime: bool = True
    """Whether ranges of ranks hold at every time at which one looks. A board that is open all day is looked at all day:
    ranges for a single look would show a false order of equal models at some time in one arena of three. (ours)"""


class DefenceRules(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How much one address block and one span of time can move a model, and when an operator is told.

    Votes that pull a model further than these rules allow count less on the published board. They stay in the log, and
    no vote is deleted or excluded. Votes without a block (from before blocks were recorded) count whole.
    """

    on: bool = True
    """Whether votes are weighed. Off: every counted vote weighs 1. (ours)"""
    block_pull: float = 1.25
    """Net pull of one address block on one model, in standard deviations of honest voting. (ours)"""
    time_pull: float = 2.0
    """The same for all votes of one calendar day (UTC) on one model, and of 7 and of 30 days. (ours)"""
    rounds: int = 12
    """How often expectations and weights are computed anew, at most; a few are enough. (ours)"""
    publish_seconds: int = 3600
    """Seconds between two publications of everything public: at the full hour unless set otherwise, and when the
    operator decides something. Shorter: whoever polls the site can date votes more precisely. 86400 publishes daily at
    midnight UTC, which leaves an attacker without feedback for a day. (ours)"""
    alarm_z: float = 4.0
    """A model is reported to the operator as contested when its latest votes differ from all earlier ones by this many
    standard errors. Nothing else follows from it by itself. 0: never. (ours)"""


class BankRules(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which answers and prompts of the bank are served. People who vote much come to know a fixed bank by heart."""

    hide_self_naming: bool = True
    """Whether answers that contain their author's name are not served. They stay in the log with a flag, and an
    administrator can release them. (ours)"""
    fresh_share: float = 0.2
    """Least share of matchups on fresh prompts, while there are any: those that joined after voting had begun. Nobody
    can know their answers yet. (ours)"""
    fresh_until: int = 20
    """A prompt is fresh until its answers were shown this often on average. (ours)"""
    seen_at_most: int = 0
    """How often one answer may be shown; its prompt then rests until it is replaced. 0: no limit. (ours)"""
    least_prompts: int = 10
    """Prompts that stay in service whatever the limit says; never fewer than `adjacent_floor_prompts`. (ours)"""
    unrendered_counts: UnrenderedCounts = "loss"
    """What it counts as when a voter says that one of two answers could not be shown, such as a page or a build that
    does not start: `loss` of that answer, or `both_bad`. When neither could be shown, both are bad. (ours)"""
    played_seconds: int = 5
    """How long both sounds or films of a pair are played before it can be voted on, or to their ends. 0: it is enough
    that both can be played. (ours)"""


class MediaRules(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How large answers that are files may be, in megabytes: as they are given, and again as they are shown."""

    image: float = 20.0
    """A picture. (ours)"""
    svg: float = 2.0
    """A drawing. (ours)"""
    html: float = 5.0
    """A page with everything in it. (ours)"""
    voxel: float = 20.0
    """A build of blocks: a million of them are about 15. (ours)"""
    model3d: float = 30.0
    """A 3D model. Both sides are loaded before a vote, also on a phone. (ours)"""
    audio: float = 20.0
    """A sound: as FLAC, about three minutes of music. (ours)"""
    video: float = 60.0
    """A film: some minutes. (ours)"""
    total: float = 5000.0
    """All files of the arena together: they are in its database and in every backup. (ours)"""

    def most_bytes(self, kind: str) -> int:
        return int(float(getattr(self, kind)) * 1_000_000)


class FlagRules(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When a session, an answer or a model is flagged. A flag excludes nothing unless a setting says so."""

    fast_votes: int = 20
    """Speed is checked from this many votes on. (§11)"""
    fast_seconds: float = 2.0
    """A vote this soon after the one before is fast. (§11)"""
    fast_share: float = 0.5
    """Flagged from this share of fast votes on. (§11)"""
    one_sided_votes: int = 20
    """One-sidedness is checked from this many votes on. (§11)"""
    one_sided_share: float = 0.9
    """Flagged from this share for one side on. (§11)"""
    upset_votes: int = 10
    """Upsets are checked from this many decisive votes with a clear favourite on. (§11)"""
    upset_share: float = 0.8
    """Flagged from this share of upsets on. (§11)"""
    both_bad_votes: int = 20
    """Both-bad votes are checked from this many votes on. (§11)"""
    both_bad_share: float = 0.4
    """Flagged from this share of both-bad votes on. (§11)"""
    undo_votes: int = 10
    """Undos are checked from this many undone votes on. (ours)"""
    undo_share: float = 0.3
    """Flagged from this share of undone votes on. It is the share of all votes cast: one vote in three is not a
    misclick, and someone who keeps only favourable votes undoes most. (ours)"""
    skip_matchups: int = 40
    """Skips are checked from this many skipped matchups on. (ours)"""
    skip_share: float = 0.7
    """Flagged from this share of skipped matchups on. It is the share of all matchups that the session voted on or
    skipped: such a session waits for particular answers, which is allowed but worth a look. (ours)"""
    anomaly_alpha: float = 0.1
    """Level at which the test for rare votes flags a session. (§11)"""
    quality_votes: int = 50
    """A model's both-bad rate is watched from this many votes on. (§8.3)"""
    quality_rise: float = 0.1
    """Flagged when the rate over its latest votes exceeds the rate before by this much, and significantly so.
    (§8.3)"""
    quality_level: float = 0.25
    """Flagged too when the rate over its latest votes is above this, significantly so and whatever it was before: a
    model that was always bad does not rise. 1 switches it off. (§8.3, number ours)"""
    exclude_flagged_sessions: bool = False
    """Whether screening excludes the votes of flagged sessions automatically. (§11)"""
    exclude_self_identifying: bool = False
    """Whether it excludes votes on answers that contain their author's name. (§11)"""


class Limits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How much one visitor may do. A limit counts over a rolling window."""

    session_votes_per_minute: int = 20
    """Votes of one visitor. A person who reads both answers needs more than three seconds. (§11)"""
    session_matchups_per_minute: int = 40
    """Matchups served to one visitor. (§11)"""
    open_matchups: int = 1
    """Matchups that one visitor may have open: who asks for another gets the open one again. A vote on one would name
    the models of the others, where the pair is the same. (ours)"""
    session_matchups_per_hour: int = 400
    """Matchups that one visitor may ask for in an hour: some more than votes, since some are skipped. (ours)"""
    session_matchups_per_day: int = 1300
    """Matchups that one visitor may ask for in a day. (ours)"""
    address_matchups_per_hour: int = 1400
    """Matchups asked for from one address in an hour; see `network_growth`. (ours)"""
    address_matchups_per_day: int = 4200
    """Matchups asked for from one address in a day. (ours)"""
    session_reports_per_hour: int = 10
    """Answers that one visitor may report in an hour. (ours)"""
    session_reports_per_day: int = 30
    """Answers that one visitor may report in a day. (ours)"""
    address_reports_per_hour: int = 40
    """Answers reported from one address in an hour; see `network_growth`. (ours)"""
    address_reports_per_day: int = 120
    """Answers reported from one address in a day. (ours)"""
    address_votes_per_minute: int = 120
    """Votes from one address (an IPv6 network counts as one). Sized for a school or an office behind one address.
    (§11)"""
    address_matchups_per_minute: int = 240
    """Matchups served to one address. (§11)"""
    address_sessions_per_hour: int = 60
    """New visitors from one address. (§11)"""
    session_undos_per_hour: int = 12
    """Votes that one visitor may undo. An undo corrects a misclick, and people misclick a few times an hour.
    (ours)"""
    address_undos_per_hour: int = 120
    """Votes undone from one address. (ours)"""
    session_skips_per_hour: int = 120
    """Matchups that one visitor may skip. That is two a minute without a break; someone who skips more is looking for
    particular answers. (ours)"""
    address_skips_per_hour: int = 1200
    """Matchups skipped from one address. (ours)"""
    session_votes_per_hour: int = 300
    """Votes of one visitor in an hour: a person who reads both answers manages about 180. (ours)"""
    session_votes_per_day: int = 1000
    """Votes of one visitor in a day. (ours)"""
    address_votes_per_hour: int = 1000
    """Votes from one address in an hour; see `network_growth`. (ours)"""
    address_votes_per_day: int = 3000
    """Votes from one address in a day. (ours)"""
    address_sessions_per_day: int = 240
    """New visitors from one address in a day. (ours)"""
    network_growth: int = 4
    """How many times as much the next wider network may do, by hour and day: an IPv4 /24 beside a single address; an
    IPv6 /48, /40 and /32 beside a /64. Whoever has one address can often use its neighbours. (ours)"""


Act = Literal["vote", "matchup", "session", "undo", "skip", "report"]
"""The visitor actions that are limited."""


class ActLimit(msgspec.Struct, frozen=True):
    """At most `limit` actions of a kind in any window of this many microseconds, counted by session or by address.

    `growth` is how much more each wider network around an address may do; 0: wider networks are not counted.
    """

    act: Act
    counted_by: Literal["session", "address"]
    limit: int
    window: int
    growth: int = 0


@lru_cache(maxsize=8)
def limits_of(limits: Limits) -> tuple[ActLimit, ...]:
    """All limits of a policy."""
    growth = limits.network_growth
    return (
        ActLimit("vote", "session", limits.session_votes_per_hour, HOUR),
        ActLimit("vote", "session", limits.session_votes_per_day, DAY),
        ActLimit("vote", "address", limits.address_votes_per_hour, HOUR, growth),
        ActLimit("vote", "address", limits.address_votes_per_day, DAY, growth),
        ActLimit("session", "address", limits.address_sessions_per_day, DAY, growth),
        ActLimit("matchup", "session", limits.session_matchups_per_hour, HOUR),
        ActLimit("matchup", "session", limits.session_matchups_per_day, DAY),
        ActLimit("matchup", "address", limits.address_matchups_per_hour, HOUR, growth),
        ActLimit("matchup", "address", limits.address_matchups_per_day, DAY, growth),
        ActLimit("report", "session", limits.session_reports_per_hour, HOUR),
        ActLimit("report", "session", limits.session_reports_per_day, DAY),
        ActLimit("report", "address", limits.address_reports_per_hour, HOUR, growth),
        ActLimit("report", "address", limits.address_reports_per_day, DAY, growth),
        ActLimit("vote", "session", limits.session_votes_per_minute, MINUTE),
        ActLimit("matchup", "session", limits.session_matchups_per_minute, MINUTE),
        ActLimit("vote", "address", limits.address_votes_per_minute, MINUTE),
        ActLimit("matchup", "address", limits.address_matchups_per_minute, MINUTE),
        ActLimit("session", "address", limits.address_sessions_per_hour, HOUR, growth),
        ActLimit("undo", "session", limits.session_undos_per_hour, HOUR),
        ActLimit("undo", "address", limits.address_undos_per_hour, HOUR),
        ActLimit("skip", "session", limits.session_skips_per_hour, HOUR),
        ActLimit("skip", "address", limits.address_skips_per_hour, HOUR),
    )


LONGEST_WAIT = 7 * DAY
"""After this time a pair that waits gives way. A day would give somebody with 50 blocks 350 pairs a week."""


class WaitingRules(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which pairs wait for a vote. A block is the visitors of one address block (IPv4 /24, IPv6 /48) or invitation."""

    pairs_wait: bool = True
    """Whether a skipped, undone or abandoned pair is shown again, on another prompt, until its block votes on it.
    Without that, someone who skips until the right model comes lifts it a rank with a handful of votes. (ours)"""
    open_pairs: int = 1
    """How many pairs may wait for a block that has not voted yet. (ours)"""
    votes_per_open_pair: int = 5
    """One more pair may wait for every so many votes of the block: an office or a class soon notices nothing.
    (ours)"""
    prompts: int = 3
    """On how many prompts a pair that waits is shown to its block; then they are repeated. The names that a vote
    reveals are those of all of them. (ours)"""
    give_ways_per_day: int = 0
    """How many pairs a day may give way to another one without a vote, of a block and of a session, once a visitor has
    seen one on all its prompts. A pair that has waited a week gives way anyway. Each one a day lets a hunter with
    50 blocks choose among 350 more pairs in a week. (ours)"""


class EntryRules(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Who may vote."""

    invitation_only: bool = False
    """Whether only visitors with an invitation may vote (`arena invite`). Limits then count by invitation instead of by
    address, and an invitation takes the place of an address block. (ours)"""


class RetentionRules(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How long what is known about visitors is kept. Votes stay; they are under random keys."""

    voter_days: int = DAYS["voter_days"]
    """Days after which the link from a cookie to its votes is deleted, if the visitor was served nothing since, and
    what visitors wrote. The cookie itself lasts a year after their last vote. (ours)"""
    network_days: int = DAYS["network_days"]
    """For how many days one random key stands for an address block. Then it is forgotten which, and limits of a block's
    influence begin anew: what that is worth to an attacker is on the page about cheating. (ours)"""


class Policy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All settings of an arena."""

    lanes: LaneWeights = LaneWeights()
    """How often each lane is tried first."""
    opponents: OpponentMix = OpponentMix()
    """Which opponents a contender meets."""
    rating: RatingRules = RatingRules()
    """Initial ratings and how fast they change."""
    badges: BadgeRules = BadgeRules()
    """When a model is established, and stable."""
    publication: PublicationRules = PublicationRules()
    """When the board may be called officially stable."""
    intervals: IntervalRules = IntervalRules()
    """What the published intervals hold for."""
    limits: Limits = Limits()
    """How much one visitor may do."""
    defences: DefenceRules = DefenceRules()
    """How much one address block and one day can move a model."""
    waiting: WaitingRules = WaitingRules()
    """Which pairs wait for a vote."""
    entry: EntryRules = EntryRules()
    """Who may vote."""
    retention: RetentionRules = RetentionRules()
    """How long what is known about visitors is kept."""
    bank: BankRules = BankRules()
    """Which answers and prompts of the bank are served."""
    media: MediaRules = MediaRules()
    """How large answers that are files may be."""
    flags: FlagRules = FlagRules()
    """When a session, an answer or a model is flagged."""
    ballot: BallotRules = BallotRules()
    """What the vote page asks before a vote, and offers after it."""
    contender_band: int = 8
    """Size of the contender band. K: the first models by conservative score. (§4 `K`)"""
    challenger_reach: int = 8
    """Challengers come from the ranks K + 1 to K + this. (§6.2)"""
    contender_opens_at: int = 60
    """Rated votes that each of the first K + 1 needs before the contender lane serves: chasing early luck makes
    deviations misleading. (ours)"""
    window_matchups: int = 2000
    """Length of the rolling window. W: exposure is fair or not over this many matchups. (§4 `W`)"""
    exposure_tolerance: float = 0.12
    """How far from its target a model's exposure may be. (§7.1)"""
    prompt_floor: int = 2
    """Decisive votes that make a model–prompt cell covered. (§4 `F_prompt`)"""
    prompt_target_top: int = 4
    """Target of decisive votes per prompt for contenders. (§4 `T_prompt_top`)"""
    adjacent_floor_votes: int = 12
    """Decisive votes that two rank neighbours need between them. (§4 `F_adj_pair`)"""
    adjacent_floor_prompts: int = 6
    """Distinct prompts among those votes (all prompts, in an arena with fewer). (§4 `F_adj_pair`)"""
    diversity_last: int = 10
    """How many of a pair's last meetings prompt diversity looks at. (§6.2)"""
    diversity_most: int = 2
    """Of a pair's last `diversity_last` meetings at most this many on one prompt; ⌈last / prompts⌉ if that is more.
    (§6.2)"""
    traffic_cap: float = 0.25
    """The largest share of the window's matchups that one model may take part in: a new model would otherwise take most
    of the traffic. (ours)"""
    traffic_cap_even_shares: float = 1.5
    """In small arenas the cap is this many even shares, if that is more: with three models an even share is two thirds.
    (ours)"""
    traffic_cap_from: int = 40
    """The cap applies once the window has this many matchups, and also over the latest that many. (ours)"""
    texts_public: TextsPublic = "after_retirement"
    """When answers are public with their authors. `after_retirement` shows an answer with its author once its prompt is
    off and no pair that was shown on it can wait any more, about a week later; `always` shows every answer and says on
    every page that the arena is not blind. (ours)"""
    matchup_expires_seconds: int = 7200
    """How long a served matchup can be voted on. (§11)"""
    undo_seconds: int = 5
    """How long a vote can be undone while its names are held back. Long enough to correct a misclick; longer would only
    keep people waiting for the names. 0: every vote shows the names at once and is final. (ours)"""
    snapshot_seconds: int = 3600
    """How often ratings are recorded for histories. (§9.2)"""

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
        elif not isinstance(value, str | tuple):
            yield prefix + name, value


MOST = 10**9
"""The upper limit of any setting: a larger number is a mistake, and larger times and counts could not be stored."""
AT_LEAST_ONE = (
    *("contender_band", "window_matchups", "prompt_floor", "diversity_last", "diversity_most"),
    *("matchup_expires_seconds", "snapshot_seconds", "adjacent_floor_votes", "adjacent_floor_prompts"),
    *("traffic_cap_from", "publication.top", *(f"limits.{name}" for name in Limits.__struct_fields__)),
    *("waiting.open_pairs", "waiting.votes_per_open_pair", "waiting.prompts", "retention.voter_days"),
)
TINY = 1e-6
BOUNDS: dict[str, tuple[float, float]] = {
    **dict.fromkeys(AT_LEAST_ONE, (1, MOST)),
    **dict.fromkeys(("challenger_reach", "contender_opens_at", "undo_seconds", "prompt_target_top"), (0, MOST)),
    **dict.fromkeys(("defences.alarm_z", "badges.stable_places", "publication.median_places"), (0, MOST)),
    **dict.fromkeys(("bank.fresh_until", "bank.seen_at_most", "ballot.long_words"), (0, MOST)),
    **dict.fromkeys(("defences.rounds", "defences.publish_seconds"), (1, MOST)),
    **dict.fromkeys(("defences.block_pull", "defences.time_pull"), (0.1, MOST)),
    **dict.fromkeys(("publication.largest_voter", "flags.quality_level", "bank.fresh_share"), (0, 1)),
    "waiting.give_ways_per_day": (0, MOST),
    "retention.network_days": (1, 400),
    "bank.least_prompts": (2, MOST),
    "bank.played_seconds": (0, 600),
    **dict.fromkeys((f"media.{name}" for name in MediaRules.__struct_fields__), (0.001, 1_000_000)),
    **dict.fromkeys(("exposure_tolerance", "traffic_cap", "traffic_cap_even_shares"), (TINY, MOST)),
}
"""The bounds of some policy numbers; the others may be any finite number."""

PHASES = (1, 2, 3, 4)
"""1: everything is computed, legacy matchmaking and order stay. 2: lanes on. 3: conservative order. 4: governance."""


def read_policy(values: dict[str, Any]) -> Policy:
    """A policy from plain values, such as a YAML or JSON file; an unknown name is an error that says which.

    Parameters:
        values: The settings that differ from the defaults, as in a YAML or JSON file.
    """
    try:
        return msgspec.convert(values, Policy)
    except msgspec.ValidationError as error:
        raise OptionError(f"policy: {error}. `tiltyard arena init --print-policy` shows every setting.") from None
