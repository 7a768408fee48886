"""The part of the policy that is about visitors: how much each may do, which pairs wait, who may vote, what is kept.

Every constant has its reason. `policy` puts them together with the others.
"""

from __future__ import annotations

import msgspec


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

    voter_days: int = 400
    """Days after which the link from a cookie to its votes is deleted, if the visitor was served nothing since. The
    cookie itself lasts a year. (ours)"""
