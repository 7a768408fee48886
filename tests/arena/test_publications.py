"""What a site publishes: weighed ratings, once in a period, and recomputed from the log bit for bit."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.arena.engines import sql
from tests.arena.small_worlds import MINUTE, SECOND, Log, honest_chooser, new_log
from tests.records import replace
from tests.site.board_fixtures import kept
from tests.site.sites import QUICK
from tiltyard.analysis.boards import rate
from tiltyard.arena import Arena, Choice, DefenceRules, Policy, open_export, vote_table, vote_weights
from tiltyard.arena import events as e
from tiltyard.arena.rules.policy import LaneWeights, OpponentMix
from tiltyard.arena.rules.ratings import Ratings, rate_votes
from tiltyard.arena.rules.votes import CastVote
from tiltyard.arena.simulation.ledger import FIRST_DAY
from tiltyard.arena.store import Store, events_in_order
from tiltyard.arena.store.matchups import cast_votes
from tiltyard.arena.study import Observatory, period_of_log
from tiltyard.arena.writing import running as running_ratings
from tiltyard.files import write_lines
from tiltyard.stats import rate_battles

MODELS = 6


def attacked_log() -> Log:
    """Honest votes of thirty blocks, and sixty for the weakest model from one more."""
    rng = np.random.default_rng(4)
    log, choose = new_log(MODELS, 4), honest_chooser(rng, np.linspace(200.0, -200.0, MODELS))
    for number in range(400):
        a, b = rng.choice(MODELS, 2, replace=False)
        choice = choose(int(a), int(b), 0)
        log.meet(f"m{a:02d}", f"m{b:02d}", f"p{number % 4:02d}", choice, f"v{number % 40}", block=f"b{number % 30}")
    for number in range(60):
        log.meet("m05", f"m{number % 5:02d}", f"p{number % 4:02d}", Choice.A, f"w{number % 9}", block="attacker")
    return log


class Clock:
    """A time that tests set, in microseconds."""

    def __init__(self, now: int) -> None:
        self.now = now

    def __call__(self) -> int:
        return self.now


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("published")
    kept(attacked_log(), folder)
    return folder / "board.db"


@pytest.fixture
def url(original: Path, tmp_path: Path) -> str:
    (tmp_path / "board.db").write_bytes(original.read_bytes())
    return f"sqlite:///{tmp_path / 'board.db'}"


@pytest.fixture
def clock() -> Clock:
    return Clock(FIRST_DAY + 10 * 24 * 60 * MINUTE)


@pytest.fixture
def site(url: str, clock: Clock) -> Iterator[Observatory]:
    made = Observatory(url, now=clock, pace=replace(QUICK, publish_seconds=None))
    made.refresh()
    yield made
    made.close()


def vote_for(url: str, clock: Clock, block: str, times: int = 3) -> None:
    """Votes from a block; each is final at once."""
    with Arena(Store.open(url), now=clock) as arena:
        for _ in range(times):
            served = arena.serve("visitor", block=block)
            arena.vote(served.matchup_id, "visitor", Choice.A, block=block)


def unweighed(site: Observatory) -> Ratings:
    """The ratings if every vote counted in full."""
    votes = site.snapshot.study.votes
    return rate_votes(replace(votes, weight=np.ones(len(votes))), site.snapshot.policy.rating)


def test_the_board_shows_a_weighed_replay_of_the_same_votes(site: Observatory) -> None:
    snapshot = site.snapshot
    votes = snapshot.study.votes
    attack = votes.block == votes.blocks.index("attacker")
    assert (votes.weight[attack] < 0.5).all()
    assert votes.weight[~attack].mean() > 0.95
    rated = votes.rated
    end = rate_battles(
        *(votes.model_a[rated], votes.model_b[rated], votes.score_a()[rated]),
        start=MODELS,
        weight=vote_weights(votes, snapshot.policy.defences)[rated],
    )
    assert [snapshot.board[name].rating for name in votes.models] == end.rating.tolist()
    assert [snapshot.board[name].deviation for name in votes.models] == end.deviation.tolist()
    assert unweighed(site).rating[5] > end.rating[5] + 50.0
    assert snapshot.study.ratings.rating.tolist() == end.rating.tolist()
    assert snapshot.study.replay.path(5).rating[-1] == end.rating[5]
    assert snapshot.study.offline is not None
    assert snapshot.study.offline.rows[0].model != "m05"


def test_counts_and_ratings_follow_together_after_the_full_hour(url: str, site: Observatory, clock: Clock) -> None:
    before = site.snapshot
    vote_for(url, clock, "another")
    for seconds in (10, 3_590):
        clock.now += seconds * SECOND
        site._follow_once()
        assert site.snapshot is before
    clock.now += 10 * SECOND
    site._follow_once()
    assert site.snapshot.board.votes == before.board.votes + 3
    assert [row.rating for row in site.snapshot.board.rows] != [row.rating for row in before.board.rows]
    assert site.snapshot.study.seq == site.snapshot.seq


def test_a_decision_of_the_operator_is_published_at_once(url: str, site: Observatory, clock: Clock) -> None:
    clock.now += SECOND
    with Arena(Store.open(url), now=clock) as arena:
        arena.append([e.SettingsChanged(policy=Policy(defences=DefenceRules(on=False)))])
    site._follow_once()
    assert (site.snapshot.study.votes.weight == 1.0).all()
    assert site.snapshot.board["m05"].rating == unweighed(site).rating[5]


def test_a_server_that_starts_within_a_long_period_shows_what_the_others_published(
    url: str, site: Observatory, clock: Clock
) -> None:
    with Arena(Store.open(url), now=clock) as arena:
        arena.append([e.SettingsChanged(policy=Policy(defences=DefenceRules(publish_seconds=86_400)))])
    clock.now += 24 * 60 * MINUTE
    site._follow_once()
    clock.now += SECOND
    vote_for(url, clock, "another")
    other = Observatory(url, now=clock, pace=replace(QUICK, publish_seconds=None))
    try:
        assert other.refresh().seq == site.snapshot.seq
        other._follow_once()
        assert other.snapshot.seq == site.snapshot.seq
        assert [row.rating for row in other.snapshot.board.rows] == [row.rating for row in site.snapshot.board.rows]
    finally:
        other.close()


def all_votes(arena: Arena) -> list[CastVote]:
    with arena.store.database.read() as connection:
        return list(cast_votes(connection))


def published_after(arena: Arena, seq: int) -> Ratings:
    """Ratings of the votes up to an event, all with the same weight."""
    votes = [vote for vote in all_votes(arena) if vote.seq <= seq]
    return arena.read(lambda state: rate_votes(vote_table(votes, state.catalog), state.policy.rating))


def running(arena: Arena) -> Ratings:
    arena.serve("onlooker")
    return arena.read(lambda state: state.ratings)


def assert_all_folded(arena: Arena) -> None:
    expected, seen = published_after(arena, 2**62), running(arena)
    for name in ("rating", "deviation", "volatility", "legacy"):
        assert getattr(seen, name) == pytest.approx(getattr(expected, name), rel=1e-9)


@pytest.mark.parametrize("step", [4, 1_024])
def test_lanes_choose_by_the_published_ratings_and_every_vote_since(
    url: str, clock: Clock, step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However few of the latest votes are kept, as long as those are that can be undone."""
    monkeypatch.setattr(running_ratings, "STEP", step)
    with Arena(Store.open(url), now=clock) as arena, Arena(Store.open(url), now=clock) as other:
        start = arena.read(lambda state: state.seq) - 40
        arena.choose_by(published_after(arena, start), start)
        assert_all_folded(arena)  # what was there before this process
        served = arena.serve("voter")
        for number in range(12):
            here = (arena, other)[number % 2]
            served = here.serve(f"voter{number}")
            here.vote(served.matchup_id, f"voter{number}", list(Choice)[number % 4], reveal=number != 11)
            assert_all_folded(arena)
        arena.undo(served.matchup_id, "voter11")
        assert_all_folded(arena)
        excluded = tuple(vote.matchup_id for vote in all_votes(arena)[-step:][-10:])
        arena.append([e.Excluded(matchup_ids=excluded, reason="test")])
        assert_all_folded(arena)
        arena.append([e.Restored(matchup_ids=excluded[:3], reason="test")])
        assert_all_folded(arena)
        arena.append([e.ModelAdded(model="new", display_name="New")])
        assert_all_folded(arena)
        until = arena.read(lambda state: state.seq)
        arena.choose_by(published_after(arena, until), until)
        assert_all_folded(arena)


def test_neighbours_are_neighbours_however_long_ago_ratings_were_published(url: str, clock: Clock) -> None:
    with Arena(Store.open(url), now=clock, rng=np.random.default_rng(3)) as arena:
        lanes = LaneWeights(coverage=0.0, contender=1.0, uncertainty=0.0, exploration=0.0)
        met = OpponentMix(neighbour=1.0, close=0.0, challenger=0.0)
        arena.append([e.SettingsChanged(policy=Policy(lanes=lanes, opponents=met, contender_band=3))])
        first = arena.read(lambda state: state.seq)
        arena.choose_by(published_after(arena, first), first)
        started = running(arena)
        moved, apart = 0, []
        for number in range(120):
            served = arena.serve(f"visitor{number}")
            order, one = arena.read(
                lambda state, name=served.matchup_id: (state.order(), state.schedule.in_flight[name])
            )  # type: ignore[misc]
            pair, lane = (one.a, one.b), one.lane
            if lane == "contender":
                apart.append(abs(order.index(pair[0]) - order.index(pair[1])))
            moved += order != np.argsort(-started.conservative, kind="stable").tolist()
            arena.vote(served.matchup_id, f"visitor{number}", Choice.A if pair[0] > pair[1] else Choice.B)
        assert apart.count(1) == len(apart) > 60
        assert moved > 60


def test_the_weekly_report_of_a_log_is_that_of_the_published_ratings(url: str, site: Observatory) -> None:
    store = Store.open(url)
    try:
        state, period = period_of_log(events_in_order(store), 0)
    finally:
        store.close()
    assert state.ratings.rating.tolist() == site.snapshot.study.ratings.rating.tolist()
    assert np.array_equal(period.votes.weight, site.snapshot.study.votes.weight)
    assert period.looks


def test_rating_the_export_gives_the_published_board(url: str, site: Observatory, clock: Clock, tmp_path: Path) -> None:
    """Every final vote is in it: counted ones with their weight, excluded ones with weight 0, undone ones not."""
    first = sql(url, "SELECT id FROM matchups WHERE vote_seq IS NOT NULL ORDER BY vote_seq LIMIT 20")
    with Arena(Store.open(url), now=clock) as arena:
        arena.append([e.Excluded(matchup_ids=tuple(str(name) for (name,) in first), reason="test")])
        served = arena.serve("hesitant", block="another")
        arena.vote(served.matchup_id, "hesitant", Choice.A, block="another", reveal=False)
        arena.undo(served.matchup_id, "hesitant")
    clock.now += MINUTE
    snapshot = site.refresh()
    with open_export(url) as export:
        rows = list(export.rows)
    assert len(rows) == 460
    assert [row["status"] for row in rows] == ["excluded"] * 20 + ["counted"] * 440
    assert [row["weight"] for row in rows] == [0.0] * 20 + snapshot.study.votes.weight.tolist()
    path = tmp_path / "battles.jsonl"
    write_lines(path, rows)
    board = rate(path, cluster="voter", anytime=True, only_connected=True)
    offline = snapshot.study.offline
    assert offline is not None
    assert offline.centre is not None
    for row, entry in zip(offline.rows, board, strict=True):
        assert entry.ci_low is not None
        assert entry.ci_high is not None
        moved = [offline.centre + offline.slope * (end - 1000.0) for end in (entry.rating, entry.ci_low, entry.ci_high)]
        assert (row.model, row.rating) == (entry.model, pytest.approx(moved[0], abs=1e-9))
        if not row.widened:
            assert (row.low, row.high) == pytest.approx(moved[1:], abs=1e-9)
    live = rate(path, method="glicko2")
    for shown in snapshot.board.rows:
        assert live[shown.model].rating == pytest.approx(shown.rating, abs=1e-9)
        assert live[shown.model].extra["deviation"] == pytest.approx(shown.deviation, abs=1e-9)
    assert [row.votes for row in offline.rows] == [
        sum(offline_row.model in (battle["model_a"], battle["model_b"]) for battle in rows[20:] if rated(battle))
        for offline_row in offline.rows
    ]


def rated(battle: dict[str, object]) -> bool:
    return battle["winner"] != "tie (bothbad)"
