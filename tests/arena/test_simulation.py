"""The arena ranks truly, serves fairly and resists, in simulation. Figures of the full size are in the soak tests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
import pytest

from tests.records import replace
from tests.sizes import size
from tiltyard.arena import ArenaState, CastVote, Policy, WaitingRules
from tiltyard.arena import events as e
from tiltyard.arena.matchmaking import SeenMatchups
from tiltyard.arena.matchmaking.choosing import Matchmaker
from tiltyard.arena.matchmaking.matchup import ContenderMeeting
from tiltyard.arena.rules.policy import LaneWeights
from tiltyard.arena.simulation import Attack, AttackKind, SimulationResult, SimulationSettings, simulate
from tiltyard.arena.simulation.attack_cost import attack_report
from tiltyard.arena.simulation.ledger import MemoryArena
from tiltyard.arena.simulation.population import Places, World
from tiltyard.errors import OptionError

WEIGHTS = {"coverage": 0.4, "contender": 0.3, "uncertainty": 0.2, "exploration": 0.1}


def assert_served_fairly(result: SimulationResult, *, models_outside: int) -> None:
    """The rules of serving, whatever the votes were."""
    assert result.diversity_broken == 0
    assert result.in_flight_duplicates < 0.02
    assert abs(result.side_a_share - 0.5) <= 3 * 0.5 / result.served**0.5
    for lane, weight in WEIGHTS.items():
        error = (weight * (1 - weight) / result.matchups_lanes_open) ** 0.5
        assert abs(result.lane_shares[lane] - weight) <= 3 * error, lane
    assert result.in_tolerance >= result.models - models_outside
    assert set(result.beyond_20_percent) <= set(result.crossed_band)


@pytest.mark.soak
def test_an_arena_of_full_width_ranks_truly_and_serves_fairly() -> None:
    """Every run: the arena of twelve with a late model ranks and serves so too."""
    result = simulate(SimulationSettings(votes=3000, seed=3, curve_points=3, looks=0))
    assert (result.models, result.prompts, result.votes) == (38, 15, 3000)
    assert_ranked_truly(result, at_least=0.88)
    assert result.established == 38
    assert_served_fairly(result, models_outside=3)


def assert_ranked_truly(result: SimulationResult, *, at_least: float) -> None:
    """The order is near the true one, as near as Bradley–Terry's, and the curve of three points ends there."""
    assert result.kendall_tau is not None
    assert result.kendall_tau_bradley_terry is not None
    assert result.kendall_tau >= at_least
    assert result.kendall_tau >= result.kendall_tau_bradley_terry - 0.03
    assert [point.votes for point in result.curve] == [result.votes // 3, result.votes * 2 // 3, result.votes]
    assert result.curve[-1].kendall_tau == result.kendall_tau
    assert abs(result.tie_share - 0.08) < 0.02


class LaneWatcher(MemoryArena):
    """A ledger that compares the reasons of the contender lane with the ranks in force when it served."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.met: list[ContenderMeeting] = []
        self.orders: set[tuple[int, ...]] = set()

    def append(self, bodies: Iterable[e.AnyBody], at: int) -> None:
        for body in bodies:
            if isinstance(body, e.MatchupServed) and body.lane == "contender":
                order = self.state.order()
                meeting = self.chosen.meeting
                assert meeting is not None, body.reason
                places = [order.index(self.state.catalog.model(name)) + 1 for name in (body.model_a, body.model_b)]
                assert sorted(places) == sorted((meeting.anchor, meeting.opponent))
                self.met.append(meeting)
                self.orders.add(tuple(order[:10]))
            super().append([body], at)


def assert_shares(counts: Counter[Any], expected: Mapping[Any, float]) -> None:
    """Each is as often as it should be, within 4 standard errors."""
    total = counts.total()
    assert set(counts) <= set(expected)
    for key, share in expected.items():
        assert abs(counts[key] - total * share) <= 4 * (total * share * (1 - share)) ** 0.5, (key, share, counts)


def test_in_a_running_arena_the_contender_lane_keeps_its_shares_while_ranks_change() -> None:
    lanes = LaneWeights(coverage=0.2, contender=0.6, uncertainty=0.1, exploration=0.1)
    policy = Policy(lanes=lanes, contender_opens_at=20)
    settings = SimulationSettings(
        models=22, prompts=8, votes=size(760, soak=1600), seed=5, sd=90.0, curve_points=0, looks=0, policy=policy
    )
    arena = LaneWatcher(5)
    result = simulate(settings, arena)
    met, in_band = arena.met, [meeting for meeting in arena.met if meeting.anchor <= 8]
    assert len(met) > 300
    assert len(arena.orders) > 50
    assert_shares(Counter(meeting.kind for meeting in met), {"neighbour": 0.7, "close": 0.2, "challenger": 0.1})
    for kind in ("neighbour", "close", "challenger"):
        anchors = Counter(meeting.anchor for meeting in in_band if meeting.kind == kind)
        assert_shares(anchors, dict.fromkeys(range(1, 9), 1 / 8))
    beside = [meeting for meeting in in_band if meeting.kind == "neighbour"]
    either = [meeting for meeting in beside if meeting.anchor > 1 and not meeting.short]
    assert_shares(Counter(meeting.opponent < meeting.anchor for meeting in either), {True: 0.5, False: 0.5})
    challengers = Counter(meeting.opponent for meeting in met if meeting.kind == "challenger")
    assert_shares(challengers, dict.fromkeys(range(9, 17), 1 / 8))
    assert all(abs(meeting.anchor - meeting.opponent) > 1 for meeting in met if meeting.kind == "close")
    assert all(meeting.short for meeting in met if meeting.anchor > 8)
    shares = result.contender_lane
    assert shares is not None
    assert (shares.served, sum(shares.anchors.values())) == (len(met), len(in_band))
    assert shares.neighbour + shares.close + shares.challenger == pytest.approx(1.0)
    assert [pair.ranks for pair in result.neighbour_pairs] == [(rank, rank + 1) for rank in range(1, 10)]
    assert all(pair.met > 0.04 * len(met) for pair in result.neighbour_pairs[:7])
    assert sum(pair.decisive >= size(10, soak=12) for pair in result.neighbour_pairs) >= size(6, soak=7)


def test_with_many_prompts_what_was_begun_is_finished_before_the_next_is_begun() -> None:
    """12 models, 60 prompts and 450 votes are about 65 decisive votes a model: enough to begin every prompt once."""
    curve = simulate(SimulationSettings(models=12, prompts=60, votes=450, curve_points=3, looks=0)).curve
    assert [point.prompt_coverage > least for point, least in zip(curve, (0.05, 0.15, 0.25), strict=True)] == [True] * 3


def test_an_arena_ranks_truly_serves_fairly_and_holds_a_late_model_to_a_quarter_of_the_traffic() -> None:
    result = simulate(
        SimulationSettings(models=12, prompts=6, votes=900, seed=1, late_model=True, curve_points=3, looks=0)
    )
    late = result.late_model
    assert late is not None
    assert late.entered_after_votes == 450
    assert late.largest_traffic_share <= 0.25
    assert late.votes_until_established is not None
    assert result.established == 12
    assert_ranked_truly(result, at_least=0.75)
    assert_served_fairly(result, models_outside=3)


def test_the_same_settings_give_the_same_result_and_another_seed_another() -> None:
    settings = SimulationSettings(models=6, prompts=3, votes=60, in_flight=8, seed=4, looks=3, curve_points=2)
    first, again = simulate(settings), simulate(settings)
    assert first == again
    other = simulate(replace(settings, seed=5))
    assert other.kendall_tau != first.kendall_tau or other.side_a_share != first.side_a_share


def test_a_result_is_plain_values() -> None:
    result = simulate(SimulationSettings(models=5, prompts=2, votes=60, in_flight=4))
    values = msgspec.to_builtins(result)
    for name in (
        *("models", "votes", "kendall_tau", "kendall_tau_bradley_terry", "in_tolerance", "in_flight_duplicates"),
        *("lane_shares", "side_a_share", "established", "beyond_20_percent", "curve"),
        *("contender_lane", "neighbour_pairs", "even_share", "in_tolerance_of_even_share", "exposure_targets"),
    ):
        assert name in values
    assert sum(values["lane_shares_all"].values()) == pytest.approx(1.0)


@pytest.mark.parametrize(("models", "prompts"), [(2, 1), (3, 2), (9, 1)])
def test_small_arenas_can_be_simulated(models: int, prompts: int) -> None:
    result = simulate(SimulationSettings(models=models, prompts=prompts, votes=70, in_flight=5, seed=2, looks=3))
    assert result.votes == 70
    assert result.diversity_broken == 0


def test_votes_that_cannot_be_rated_are_a_remark_and_not_a_number() -> None:
    result = simulate(SimulationSettings(models=4, prompts=1, votes=1, in_flight=1, both_bad_rate=0.99, tie_rate=0.0))
    assert result.kendall_tau_bradley_terry is None
    assert result.remarks


def test_legacy_matchmaking_can_be_simulated_for_comparison() -> None:
    result = simulate(SimulationSettings(models=6, prompts=3, votes=60, in_flight=5, phase=1, looks=1))
    assert result.lane_shares_all["legacy"] == 1.0


class Noting(MemoryArena):
    """A ledger that also keeps the matchups it served."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.told: list[e.MatchupServed] = []
        self.append(
            [
                e.PhaseChanged(phase=4),
                e.PromptAdded(prompt_id="p", text="?"),
                *(e.ModelAdded(model=name, display_name=name) for name in "abc"),
                *(e.ResponseAdded(response_id=name, model=name, prompt_id="p", text="!") for name in "abc"),
            ],
            0,
        )

    def append(self, bodies: Iterable[e.AnyBody], at: int) -> None:
        for body in bodies:
            super().append([body], at)
            if isinstance(body, e.MatchupServed):
                self.told.append(body)


def test_the_ledger_writes_down_what_makes_a_matchup_again() -> None:
    ledger, twin = Noting(seed=1), Noting(seed=2)
    ledger.serve("voter", 5)
    told = ledger.told[0]
    assert told.expires_at == 5 + 7200 * 1_000_000
    assert ledger.state.schedule.in_flight[told.matchup_id].voter == "voter"
    again = Matchmaker()(twin.state, np.random.default_rng(told.seed), SeenMatchups())
    names = twin.state.catalog.models
    assert (names[again.a].model, names[again.b].model) == (told.model_a, told.model_b)
    assert (again.lane, again.reason, again.probability) == (told.lane, told.reason, told.probability)


@pytest.mark.parametrize("wrong", [{"models": 1}, {"prompts": 0}, {"votes": 0}, {"in_flight": 0}, {"skip_rate": 1.0}])
def test_settings_that_make_no_arena_are_an_error(wrong: dict[str, int]) -> None:
    with pytest.raises(OptionError, match="simulate: "):
        SimulationSettings(**wrong)  # type: ignore[arg-type]


# --- attacks ----------------------------------------------------------------------------------------------------------


def attacked(attack: Attack, votes: int = 700) -> SimulationSettings:
    return SimulationSettings(
        models=10, prompts=6, votes=votes, in_flight=6, seed=6, attack=attack, curve_points=0, looks=0, sd=80.0
    )


def nobody(votes: Sequence[CastVote], state: ArenaState) -> Collection[str]:
    return ()


@pytest.fixture(scope="module")
def rigged() -> tuple[SimulationResult, MemoryArena]:
    """An arena with riggers and without a defence: what was found, and its ledger."""
    settings = attacked(Attack("rigging", 0.25, target=5))
    ledger = MemoryArena(settings.seed)
    return simulate(settings, ledger, nobody), ledger


def test_riggers_lift_their_model_and_the_report_says_for_how_many_votes(
    rigged: tuple[SimulationResult, MemoryArena],
) -> None:
    report = rigged[0].attack
    assert report is not None
    assert report.target == "model-005"
    assert report.rank_honest_votes is not None
    assert report.rank_undefended is not None
    assert report.rank_undefended < report.rank_honest_votes
    assert report.rank_defended == report.rank_undefended
    assert report.votes_per_ranks == report.votes_per_ranks_defended
    assert report.votes_per_ranks is not None
    one, five = report.votes_per_ranks[1], report.votes_per_ranks[5]
    assert one is not None
    assert 0 < one <= report.votes
    assert five is None  # a quarter of the votes does not lift it that far
    assert report.attackers_flagged == report.honest_flagged == 0


def test_a_defence_that_finds_exactly_the_attackers_leaves_the_honest_board(
    rigged: tuple[SimulationResult, MemoryArena],
) -> None:
    _, ledger = rigged
    votes = ledger.votes()
    world = World.draw(np.random.default_rng(0), 10, 6, sd=80.0, tie_rate=0.08, both_bad_rate=0.05)
    some = {vote.voter for vote in list(votes)[::9]}
    report = attack_report(Attack("rigging", target=5), world, votes, ledger.state, some, lambda _votes, _state: some)
    assert report.rank_defended == report.rank_honest_votes
    assert report.votes_per_ranks_defended == {1: None, 5: None}
    assert (report.attackers_flagged, report.honest_flagged) == (len(some), 0)
    assert report.votes == sum(vote.voter in some for vote in votes)


@pytest.mark.parametrize(
    "kind", ["sybil", *(pytest.param(kind, marks=pytest.mark.soak) for kind in ("apathetic", "one-sided"))]
)
def test_every_attack_is_reported_beside_what_the_flags_find(kind: AttackKind) -> None:
    report = simulate(attacked(Attack(kind, 0.25), size(260, soak=900))).attack
    assert report is not None
    assert report.kind == kind
    sessions = report.sessions + report.honest_sessions  # of random lengths, whose variance is the square of their mean
    assert abs(report.votes / size(260, soak=900) - 0.25) < 3.0 * (2.0 * 0.25 * 0.75 / sessions) ** 0.5
    assert report.honest_flagged <= 0.1 * report.honest_sessions
    assert (report.target is None) == (kind != "sybil")


# --- the full size ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def full_size() -> list[SimulationResult]:
    """Twelve arenas of 38 models, 15 prompts and 20,000 votes with 50 matchups in flight."""
    return [simulate(SimulationSettings(seed=seed, curve_points=0)) for seed in range(12)]


@pytest.mark.soak
def test_arenas_of_full_size_hold_what_the_policy_promises(full_size: list[SimulationResult]) -> None:
    first_five = full_size[:5]
    for result in first_five:
        assert_served_fairly(result, models_outside=2)
        assert result.established == 38
    tau = np.mean([result.kendall_tau or 0.0 for result in first_five])
    assert tau >= 0.93
    assert abs(tau - np.mean([result.kendall_tau_bradley_terry or 0.0 for result in first_five])) <= 0.02


@pytest.mark.soak
def test_bradley_terry_intervals_over_lane_sampled_votes_cover_what_they_say(full_size: list[SimulationResult]) -> None:
    covered = [result.interval_coverage for result in full_size if result.interval_coverage is not None]
    assert len(covered) == 12
    assert 0.93 <= np.mean(covered) <= 0.97


@pytest.mark.soak
def test_a_late_model_in_an_arena_of_full_size_is_held_and_established() -> None:
    for seed in range(3):
        late = simulate(SimulationSettings(seed=seed, late_model=True, curve_points=0)).late_model
        assert late is not None
        assert late.largest_traffic_share <= 0.25
        assert late.votes_until_established is not None


def test_visitors_with_places_see_pairs_that_wait_and_classes_share_them() -> None:
    def seen(places: Places, *, waits: bool = True, votes: int = size(90, soak=400)) -> SimulationResult:
        policy = Policy(waiting=WaitingRules(pairs_wait=waits))
        settings = SimulationSettings(models=10, prompts=8, votes=votes, in_flight=40, looks=0, curve_points=1)
        return simulate(replace(settings, visitors=places, skip_rate=0.25, policy=policy))

    assert seen("anywhere", votes=20).seen_again is None
    homes, classes, mixed, free = seen("homes"), seen("classes"), seen("mixed"), seen("homes", waits=False)
    for result in (homes, classes, mixed, free):
        assert result.seen_again is not None
        assert result.seen_again.pair_by_block >= result.seen_again.pair_by_visitor >= result.seen_again.same_page
    assert homes.seen_again.pair_by_visitor > free.seen_again.pair_by_visitor + 0.05, "a skip brings the pair again"
    assert homes.seen_again.pair_by_block == homes.seen_again.pair_by_visitor, "everybody is alone at home"
    assert classes.seen_again.pair_by_block > mixed.seen_again.pair_by_block > homes.seen_again.pair_by_block
    assert homes.seen_again.same_page < 0.02, "hardly anybody skips a pair more than twice"
    with pytest.raises(OptionError, match="visitors is 'abroad'"):
        seen("abroad")  # type: ignore[arg-type]
