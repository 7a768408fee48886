"""What each lane is for."""

from __future__ import annotations

import math
from collections import Counter, deque
from itertools import pairwise
from types import SimpleNamespace

import msgspec
import numpy as np
import pytest

from tests.arena.matchmaking_arenas import Yard, triple
from tiltyard.arena import Policy
from tiltyard.arena import events as e
from tiltyard.arena.matchmaking import ChosenMatchup, SeenMatchups, coverage, exploration, uncertainty
from tiltyard.arena.matchmaking.choosing import Matchmaker
from tiltyard.arena.matchmaking.contender import below_floor
from tiltyard.arena.matchmaking.exposure import over_traffic_cap, targets
from tiltyard.arena.matchmaking.matchup import ContenderMeeting, draw, draw_one, tied_best
from tiltyard.arena.matchmaking.tables import WorkingTables
from tiltyard.arena.matchmaking.voter_view import VoterView
from tiltyard.arena.rules.policy import LaneWeights, OpponentMix, PublicationRules
from tiltyard.arena.rules.tallies import pair_of


def view_of(yard: Yard) -> VoterView:
    return VoterView(yard.state, SeenMatchups(), WorkingTables(), capped=True)


def over_cap(schedule: SimpleNamespace, share: float = 0.25, span: int = 40) -> set[int]:
    policy = Policy(traffic_cap=share, traffic_cap_even_shares=1e-6, traffic_cap_from=span)
    return over_traffic_cap(schedule, policy, 10)


def targets_of(yard: Yard) -> np.ndarray:
    return targets(yard.state.schedule, view_of(yard).servable.numbers)


def only(lane: e.Lane, **settings: int) -> Policy:
    weights = {name: float(name == lane) for name in e.LANES}
    return Policy(lanes=LaneWeights(**weights), **settings)


# --- exposure ---------------------------------------------------------------------------------------------------------


def test_contenders_are_due_what_their_lane_gave_and_the_others_share_the_rest() -> None:
    """Of 100 matchups the lane gave 30: 24 to 0 and 1, 6 to 2 and 3. 6 is more than (200 − 60)/34, what is left."""
    yard = Yard(38, 1)
    for number in range(100):
        if number % 10 < 3:
            yard.serve(*((0, 1) if number % 50 < 40 else (2, 3)), 0, "contender")
        else:
            yard.serve(number % 37, number % 37 + 1, 0)
    target = targets_of(yard)
    assert target[:2].tolist() == [24.0, 24.0]
    assert target[2:4].tolist() == [6.0, 6.0]
    assert target[4:] == pytest.approx((200 - 60) / 34)


def test_while_the_contender_lane_is_closed_everybody_is_due_the_same() -> None:
    yard = Yard(38, 2)
    yard.play(0, 1, 0)
    assert not view_of(yard).opened
    assert targets_of(yard) == pytest.approx(2 / 38)


def test_a_model_that_cannot_be_served_is_due_nothing() -> None:
    yard = Yard(4, 2)
    yard.play(0, 1, 0)
    yard.tell(e.ModelDisabled(model="m3"))
    assert targets_of(yard).tolist() == pytest.approx([2 / 3, 2 / 3, 2 / 3, 0.0])


# --- coverage ---------------------------------------------------------------------------------------------------------


def test_coverage_starts_from_the_model_that_lacks_most() -> None:
    yard = Yard(5, 3, policy=only("coverage"))
    yard.everybody_meets(2)
    for prompt in range(3):
        yard.play(0, 1, prompt)
        yard.play(2, 3, prompt)
    assert all(4 in (matchup.a, matchup.b) for matchup in yard.many(20))


def test_coverage_takes_the_highest_joint_deficit_of_opponent_and_prompt() -> None:
    rng = np.random.default_rng(5)
    yard = Yard(7, 4, policy=only("coverage"))
    for _ in range(120):
        i, j = rng.choice(7, 2, replace=False).tolist()
        yard.play(i, j, int(rng.integers(4)), e.Choice(rng.choice(["A", "B", "TIE"])))
    yard.serve(0, 3, 1)
    view = view_of(yard)
    lack = coverage.EXPOSURE_WEIGHT * view.urgency
    for i in range(7):
        lack[i] += np.mean([_lacking(yard, view, i, p) for p in range(4)])
        lack[i] += np.mean([max(0.0, 1 - _met(yard, i, j) / view.pair_aim) for j in range(7) if j != i])
    anchor = int(lack.argmax())
    assert coverage.most_lacking_models(view).tolist() == [anchor]
    joint = {}
    for j in range(7):
        for p in np.flatnonzero(view.open_prompts(anchor, j)).tolist() if j != anchor else []:
            if p in view.in_flight(pair_of(anchor, j)):
                continue
            lacks = _lacking(yard, view, anchor, p) + _lacking(yard, view, j, p)
            pair = max(0.0, 1 - _met(yard, anchor, j) / view.pair_aim)
            joint[j, p] = lacks + pair + coverage.EXPOSURE_WEIGHT * float(view.urgency[j])
    best = max(joint, key=lambda cell: joint[cell])
    runner_up = sorted(joint.values())[-2]
    assert joint[best] > runner_up + 1e-5
    served = {triple(matchup) for matchup in yard.many(20)}
    assert served == {(min(anchor, best[0]), max(anchor, best[0]), best[1])}


def test_matchups_that_are_open_count_as_votes_for_the_aim_of_a_pair_and_the_floor_of_a_prompt() -> None:
    yard = Yard(4, 2)
    for _ in range(10):
        yard.play(0, 1, 0)
    for _ in range(8):
        yard.serve(2, 3, 1)
    view = view_of(yard)
    assert view.pair_aim == (10 + 8) / 6, "six pairs, and the contender lane is closed"
    floor = int(view.rank_order.floors[2])
    assert view.under_floor(2).tolist() == [True, floor > 8]
    for _ in range(floor - 8):
        yard.serve(2, 3, 1)
    assert view_of(yard).under_floor(2).tolist() == [True, False]


def _lacking(yard: Yard, view: VoterView, model: int, prompt: int) -> float:
    have = yard.state.tallies.decisive_on.view[model] + yard.state.schedule.in_flight_on.view[model]
    return max(0.0, 1 - have[prompt] / max(have.sum() / 4, int(view.rank_order.floors[model])))


def _met(yard: Yard, i: int, j: int) -> int:
    return yard.state.tallies.pair_decisive(i, j) + int(yard.state.schedule.in_flight_pairs.view[i, j])


def test_priority_rises_faster_outside_the_tolerance() -> None:
    from tiltyard.arena.matchmaking.exposure import urgency

    at = urgency(np.array([0.24, 0.12, 0.06, 0.0, -0.06, -0.12, -0.24]), 0.12)
    assert at.tolist() == pytest.approx([-5.0, -1.0, -0.5, 0.0, 0.5, 1.0, 5.0])


# --- contender --------------------------------------------------------------------------------------------------------


def ranks(yard: Yard, matchup: ChosenMatchup) -> tuple[int, int]:
    order = yard.state.order()
    first, second = sorted((order.index(matchup.a), order.index(matchup.b)))
    return first, second


def test_the_contender_lane_opens_when_the_first_k_and_one_have_enough_votes() -> None:
    policy = Policy(contender_band=2, contender_opens_at=4)
    yard = Yard(4, 1, policy=policy)
    for _ in range(2):
        yard.play(0, 1, 0)
        yard.play(1, 2, 0)
    assert not view_of(yard).opened
    yard.play(2, 0, 0, e.Choice.TIE)
    yard.play(0, 2, 0, e.Choice.BOTH_BAD)
    yard.play(2, 0, 0, e.Choice.TIE)
    assert view_of(yard).opened


def lane_meetings(
    yard: Yard, draws: int, seen: dict[tuple[int, int, int], int] | None = None
) -> list[ContenderMeeting]:
    """What the lane draws, by kind and rank; each is compared with the ranks of the two that it drew."""
    found = []
    choose, shown = Matchmaker(), SeenMatchups(seen)
    for seed in range(draws):
        matchup = choose(yard.state, np.random.default_rng(seed), shown)
        meeting = matchup.meeting
        assert meeting is not None, matchup.reason
        assert matchup.reason == meeting.reason(yard.state.policy.contender_band)
        assert sorted((meeting.anchor, meeting.opponent)) == [rank + 1 for rank in ranks(yard, matchup)]
        found.append(meeting)
    return found


def floors_met(models: int = 20, **policy: int) -> Yard:
    """An arena whose contender lane is open and whose neighbours have all met their floor."""
    yard = Yard(models, 8, policy=only("contender", adjacent_floor_votes=1, adjacent_floor_prompts=1, **policy))
    yard.everybody_meets(8)
    return yard


def let_others_play(yard: Yard) -> None:
    """Forty matchups of the last ten models, so that no contender is over the traffic cap."""
    last = yard.state.order()[-10:]
    for number in range(40):
        yard.serve(last[number % 10], last[(number + 1 + number // 10) % 10], number % 8)


def assert_even(counts: Counter[int], over: range) -> None:
    total, chance = counts.total(), 1.0 / len(over)
    assert set(counts) <= set(over)
    for key in over:
        assert abs(counts[key] - total * chance) <= 4 * (total * chance * (1 - chance)) ** 0.5, (key, counts)


def test_anchors_neighbours_and_challengers_are_drawn_evenly_and_the_close_one_is_no_neighbour() -> None:
    yard = floors_met()
    met = lane_meetings(yard, 1000)
    assert_even(Counter(meeting.anchor for meeting in met), range(1, 9))
    kinds = Counter(meeting.kind for meeting in met)
    for kind, share in {"neighbour": 0.7, "close": 0.2, "challenger": 0.1}.items():
        assert abs(kinds[kind] - 1000 * share) <= 4 * (1000 * share * (1 - share)) ** 0.5
    beside = [meeting for meeting in met if meeting.kind == "neighbour"]
    assert {meeting.opponent for meeting in beside if meeting.anchor == 1} == {2}
    assert {meeting.opponent for meeting in beside if meeting.anchor == 8} == {7, 9}
    assert_even(Counter(int(meeting.opponent < meeting.anchor) for meeting in beside if meeting.anchor > 1), range(2))
    assert_even(Counter(meeting.opponent for meeting in met if meeting.kind == "challenger"), range(9, 17))
    rating = yard.state.ratings.rating[yard.state.order()]
    for meeting in met:
        if meeting.kind == "close":
            gaps = {rank: abs(rating[rank - 1] - rating[meeting.anchor - 1]) for rank in range(1, 9)}
            others = [rank for rank in gaps if abs(rank - meeting.anchor) > 1]
            assert meeting.opponent in others
            assert gaps[meeting.opponent] == min(gaps[rank] for rank in others)


def test_exposure_does_not_change_what_the_contender_lane_draws() -> None:
    yard = floors_met()
    before = yard.many(100)
    order = yard.state.order()
    for number in range(60):
        yard.serve(order[0], order[10 + number % 10], number % 8)
    let_others_play(yard)
    assert yard.state.schedule.in_window[order[0]] > 1.3 * np.median(yard.state.schedule.in_window[order[1:10]])
    after = yard.many(100)
    assert [(triple(one)[:2], one.reason) for one in before] == [(triple(one)[:2], one.reason) for one in after]


def test_neighbours_below_their_floor_come_first_and_anchors_stay_even() -> None:
    """Neighbours 3 and 4 are below their floor of 12: anchors 3 and 4 meet each other and no other neighbour."""
    yard = Yard(20, 8, policy=only("contender", adjacent_floor_prompts=1))
    yard.everybody_meets(8)
    order = yard.state.order()
    for place in (0, 1, 3, 4, 5, 6, 7, 8):
        for number in range(12):
            yard.play(order[place], order[place + 1], number % 8, e.Choice.B if number % 2 else e.Choice.A)
    order = yard.state.order()
    view = view_of(yard)
    let_others_play(yard)
    short = [place + 1 for place, pair in enumerate(pairwise(order[:10])) if below_floor(view, *pair)]
    assert 0 < len(short) < 5
    met = lane_meetings(yard, 700)
    beside = [meeting for meeting in met if meeting.kind == "neighbour"]
    for meeting in beside:
        near = [rank for rank in (meeting.anchor - 1, meeting.anchor) if rank in short]
        assert meeting.short == bool(near)
        assert not near or min(meeting.anchor, meeting.opponent) in near
    assert_even(Counter(meeting.anchor for meeting in met if meeting.anchor <= 8), range(1, 9))


def test_floors_reach_to_the_publications_top_and_its_models_become_anchors_for_them() -> None:
    """Only 9 and 10 are below their floor. Ten anchors: each of the band, and 9 and 10, who meet each other."""
    yard = floors_met()
    order = yard.state.order()
    policy = only("contender", adjacent_floor_votes=20, adjacent_floor_prompts=1)
    for _ in range(20):
        for above, below in pairwise(order[:9]):
            yard.play(above, below, 0, e.Choice.A)
            yard.play(above, below, 1, e.Choice.B)
    assert yard.state.order()[8:10] == order[8:10]
    let_others_play(yard)
    yard.tell(e.SettingsChanged(policy=policy))
    met = lane_meetings(yard, 700)
    beside = Counter(meeting.anchor for meeting in met if meeting.kind == "neighbour")
    assert_even(beside, range(1, 11))
    assert {meeting.opponent for meeting in met if meeting.anchor == 9} == {10}
    assert {meeting.opponent for meeting in met if meeting.anchor == 10} == {9}
    yard.tell(e.SettingsChanged(policy=msgspec.structs.replace(policy, publication=PublicationRules(top=9))))
    assert max(meeting.anchor for meeting in lane_meetings(yard, 150)) <= 8


@pytest.mark.parametrize("band", [1, 2, 3, 8])
@pytest.mark.parametrize("models", [2, 3, 5])
def test_small_bands_and_arenas_are_served_by_the_kinds_that_exist(models: int, band: int) -> None:
    yard = floors_met(models, contender_band=band)
    while not view_of(yard).opened:
        yard.everybody_meets(4)
    met = lane_meetings(yard, 120)
    anchors = range(1, min(models, band) + 1)
    assert {meeting.anchor for meeting in met} == set(anchors)
    kinds = {meeting.kind for meeting in met}
    assert ("close" in kinds) == (min(models, band) > 2)
    assert ("challenger" in kinds) == (models > band)


def test_a_lane_of_kinds_that_cannot_be_served_passes_on() -> None:
    """Two models are neighbours and nothing else: a lane that is to draw close contenders only cannot serve."""
    mix = OpponentMix(neighbour=0.0, close=1.0, challenger=0.0)
    yard = floors_met(2)
    while not view_of(yard).opened:
        yard.everybody_meets(4)
    yard.tell(e.SettingsChanged(policy=msgspec.structs.replace(yard.state.policy, opponents=mix)))
    assert view_of(yard).opened
    assert {matchup.lane for matchup in yard.many(20)} == {"coverage"}


def test_an_anchor_whose_neighbour_this_voter_cannot_be_shown_meets_the_other() -> None:
    yard = floors_met()
    order = yard.state.order()
    pair = pair_of(order[2], order[3])
    seen = {(*pair, prompt): prompt for prompt in range(8)}
    met = lane_meetings(yard, 400, seen)
    beside = [meeting for meeting in met if meeting.kind == "neighbour"]
    assert {meeting.opponent for meeting in beside if meeting.anchor == 3} == {2}
    assert {meeting.opponent for meeting in beside if meeting.anchor == 4} == {5}
    assert_even(Counter(meeting.anchor for meeting in met), range(1, 9))


@pytest.mark.parametrize(
    ("meeting", "reason"),
    [
        (ContenderMeeting("neighbour", 3, 2), "contender 3 and the neighbour above"),
        (
            ContenderMeeting("neighbour", 9, 10, short=True),
            "rank 9 and the neighbour below, below their floor of votes",
        ),
        (ContenderMeeting("close", 1, 4), "contender 1 and the contender closest in rating 4"),
        (ContenderMeeting("challenger", 8, 12), "contender 8 and challenger 12"),
    ],
)
def test_the_log_says_who_met_whom_and_why(meeting: ContenderMeeting, reason: str) -> None:
    assert meeting.reason(8) == reason


def test_the_floor_asks_for_prompts_as_well_as_votes_and_counts_what_is_in_flight() -> None:
    yard = Yard(3, 8)
    for number in range(12):
        yard.play(0, 1, number % 5)
    assert below_floor(view_of(yard), 0, 1)
    yard.serve(0, 1, 6)
    assert not below_floor(view_of(yard), 0, 1)


def test_a_pair_of_contenders_meets_where_it_has_met_least() -> None:
    yard = Yard(2, 6, policy=only("contender"))
    for number in range(70):
        if number % 6 != 4:
            yard.play(0, 1, number % 6, e.Choice.A if number % 2 else e.Choice.B)
    yard.play(0, 1, 4)
    assert {matchup.prompt for matchup in yard.many(20)} == {4}
    assert {matchup.lane for matchup in yard.many(20)} == {"contender"}


def test_a_pair_does_not_meet_a_third_time_in_ten_on_one_prompt() -> None:
    yard = Yard(2, 6)
    yard.serve(0, 1, 3)
    yard.serve(0, 1, 3)
    assert not view_of(yard).open_prompts(0, 1)[3]
    for prompt in (0, 1, 2, 4, 5, 0, 1):
        yard.serve(0, 1, prompt)
    assert not view_of(yard).open_prompts(0, 1)[3]
    yard.serve(0, 1, 2)
    assert view_of(yard).open_prompts(0, 1)[3]


# --- uncertainty ------------------------------------------------------------------------------------------------------


def test_information_is_that_of_glicko_and_highest_against_a_known_equal() -> None:
    gap, deviation = np.array([0.0, 0.0, 400.0]), np.array([0.0, 350.0, 0.0])
    q = math.log(10) / 400
    g = 1 / math.sqrt(1 + 3 * (q * 350 / math.pi) ** 2)
    expected = [1.0, g * g, 4 * (10 / 11) * (1 / 11)]
    assert uncertainty.information(gap, deviation).tolist() == pytest.approx(expected)


def test_uncertain_models_are_anchors_more_often() -> None:
    yard = Yard(8, 3)
    yard.everybody_meets(6)
    yard.add_model(8, range(3))
    weights = uncertainty.anchor_weights(view_of(yard))
    assert weights[8] > 3 * weights[:8].max()


def test_a_new_model_meets_the_middle_and_not_the_bottom() -> None:
    yard = Yard(9, 3)
    yard.everybody_meets(10, better=0.9)
    yard.add_model(9, range(3))
    rating = yard.state.ratings.rating
    opponents = uncertainty.best_opponents(view_of(yard), 9).tolist()
    middle = np.argsort(np.abs(rating[:9] - 1500.0))[:4].tolist()
    assert set(opponents) <= set(middle)


def test_an_opponent_seen_on_one_prompt_is_as_good_as_others_on_a_prompt_that_is_left() -> None:
    """A new model against three that are alike; this voter saw it with the second on prompt 0, and knows no other."""
    yard, seen = Yard(4, 3), SeenMatchups()
    assert coverage.best_opponents(VoterView(yard.state, seen, WorkingTables(), capped=True), 0).tolist() == [1, 2, 3]
    seen.note((0, 1, 0), 1)
    assert coverage.best_opponents(VoterView(yard.state, seen, WorkingTables(), capped=True), 0).tolist() == [1, 2, 3]
    for prompt in (1, 2):
        seen.note((0, 1, prompt), 1 + prompt)
    assert coverage.best_opponents(VoterView(yard.state, seen, WorkingTables(), capped=True), 0).tolist() == [2, 3]


def test_a_model_lacks_nothing_on_prompts_that_it_did_not_answer() -> None:
    """Models 0 and 1 answered all eight prompts, model 2 only two of them, on which it has met both often."""
    yard, tables = Yard(2, 8), WorkingTables()
    yard.add_model(2, [0, 1])
    for i, j, prompts in ((0, 1, range(8)), (0, 2, range(2)), (1, 2, range(2))):
        for prompt in list(prompts) * 12:
            yard.play(i, j, prompt)
    for _ in range(2):  # the second time only what has changed is computed
        view = VoterView(yard.state, SeenMatchups(), tables, capped=True)
        assert view.prompt_deficit(2).tolist() == [0.0] * 8
        assert view.mean_prompt_deficit()[2] == 0.0
        yard.play(0, 2, 0)
        yard.play(1, 2, 1)


def test_the_best_opponent_is_found_on_prompts_that_both_answered() -> None:
    """Models 1 and 2 have met model 3 alone, equally often. Model 2 lacks more where model 0 answered, else model 1."""
    yard = Yard(0, 4)
    for model, prompts in ((0, [0, 1]), (1, [0, 1, 2, 3]), (2, [0, 1]), (3, [0, 1, 2, 3])):
        yard.add_model(model, prompts)
    for model, prompts in ((0, [0, 1] * 20), (1, [0, 1] * 20 + [2]), (2, [0] * 36 + [1] * 5)):
        for prompt in prompts:
            yard.play(model, 3, prompt)
    view = VoterView(yard.state, SeenMatchups(), WorkingTables(), capped=False)
    assert view.prompt_deficit(1).max() > view.prompt_deficit(2).max() > view.prompt_deficit(1)[:2].max()
    assert coverage.best_opponents(view, 0).tolist() == [2]


# --- exploration ------------------------------------------------------------------------------------------------------


def test_exploration_takes_prompts_that_are_not_covered_first() -> None:
    yard = Yard(3, 4, policy=only("exploration"))
    for _ in range(3):
        for prompt in (0, 1, 3):
            for i, j in ((0, 1), (0, 2), (1, 2)):
                yard.play(i, j, prompt)
    first = yard.many(60)
    assert {matchup.prompt for matchup in first} == {2}
    assert {matchup.reason for matchup in first} == {"little shown; prompt not yet covered"}
    for prompt in (2, 2, 0, 1, 3, 0, 1, 3, 2):
        for i, j in ((0, 1), (0, 2), (1, 2)):
            yard.play(i, j, prompt)
    later = yard.many(200)
    assert len({matchup.prompt for matchup in later}) >= 3
    assert {matchup.reason for matchup in later} == {"little shown; any prompt"}


def test_exploration_prefers_the_less_exposed_and_reaches_everybody() -> None:
    yard = Yard(10, 3, policy=only("exploration"))
    yard.everybody_meets(2)
    yard.play(0, 1, 0)
    shown = Counter(model for matchup in yard.many(1000) for model in (matchup.a, matchup.b))
    assert set(shown) == set(range(10))
    assert max(shown[0], shown[1]) < min(shown[model] for model in range(2, 10))


def test_two_draws_by_weight_have_the_chance_of_both_orders() -> None:
    weights = np.array([1.0, 2.0, 3.0])
    partners = ~np.eye(3, dtype=bool)
    first, second, chance = exploration.draw_pair(np.random.default_rng(0), weights, partners, np.ones(3, dtype=bool))
    i, j = weights[first], weights[second]
    assert chance == pytest.approx(i / 6 * j / (6 - i) + j / 6 * i / (6 - j))


# --- legacy -----------------------------------------------------------------------------------------------------------


def test_phase_one_keeps_the_legacy_matchmaking() -> None:
    yard = Yard(4, 3, phase=1)
    for _ in range(8):
        yard.play(0, 1, 0)
    served = yard.many(900)
    assert {matchup.lane for matchup in served} == {"legacy"}
    prompts = Counter(matchup.prompt for matchup in served)
    assert all(abs(prompts[prompt] - 300) <= 4 * (900 * 2 / 9) ** 0.5 for prompt in range(3))
    pairs = Counter(triple(matchup)[:2] for matchup in served)
    often = (1 / (2 + 2 / 9) * 1 / (1 + 2 / 9)) * 2
    assert abs(pairs[2, 3] - 900 * often) <= 4 * (900 * often * (1 - often)) ** 0.5
    yard.tell(e.PhaseChanged(phase=2))
    assert {matchup.lane for matchup in yard.many(100)} <= set(e.LANES)


class Always:
    """A generator that draws the same number every time."""

    def __init__(self, number: float) -> None:
        self._number = number

    def random(self) -> float:
        return self._number


@pytest.mark.parametrize(("number", "place"), [(0.0, 1), (0.2499, 1), (0.25, 3), (0.75, 4), (0.9999, 4), (1.0, 4)])
def test_a_weight_of_zero_is_never_drawn_however_the_sum_is_rounded(number: float, place: int) -> None:
    """Up to a quarter it is the second, from three quarters on the fifth, also where rounding gives all of it."""
    assert draw(Always(number), np.array([0.0, 1.0, 0.0, 2.0, 1.0, 0.0])) == place


def test_of_equal_scores_each_is_drawn_and_a_lower_one_is_not() -> None:
    positions = tied_best(np.array([1.0, 3.0, 2.0, 3.0 - 1e-9]))
    assert positions.tolist() == [1, 3]
    assert [draw_one(Always(number), positions) for number in (0.0, 0.49, 0.5, 0.99)] == [1, 1, 3, 3]
    assert draw_one(Always(0.99), positions[:1]) == 1


@pytest.mark.parametrize(("early", "reached"), [(24, []), (25, [0])])
def test_the_traffic_cap_counts_the_window_as_it_is_before_it_is_full(early: int, reached: list[int]) -> None:
    """A quarter of 99 matchups and the next is 25: whoever had 24 may have one more, whoever had 25 may not."""
    window = deque([(0, 1 + n % 9, 0) for n in range(early)], maxlen=2000)
    window.extend((1 + n % 9, 1 + (n + 4) % 9, 0) for n in range(99 - early))
    in_window = np.bincount([model for a, b, _ in window for model in (a, b)], minlength=10)
    schedule = SimpleNamespace(window=window, in_window=in_window)
    assert over_cap(schedule) == set(reached)


def test_a_full_window_loses_its_oldest_matchup_to_the_next() -> None:
    """A window of 100 is full: the next matchup makes it no longer, so a quarter is 25, and 24 + 1 is not more."""
    window = deque([(0, 1 + n % 9, 0) for n in range(25)], maxlen=100)
    window.extend((1 + n % 9, 1 + (n + 4) % 9, 0) for n in range(75))
    in_window = np.bincount([model for a, b, _ in window for model in (a, b)], minlength=10)
    schedule = SimpleNamespace(window=window, in_window=in_window)
    assert 0 in over_cap(schedule)
    in_window[0] = 24
    assert 0 not in over_cap(schedule)


@pytest.mark.parametrize(("late", "reached"), [(9, []), (10, [0])])
def test_the_traffic_cap_counts_the_latest_matchups_on_both_sides(late: int, reached: list[int]) -> None:
    """Of the latest 40 matchups a model may have a quarter, whichever side it was shown on."""
    window = deque([(1 + n % 9, 1 + (n + 4) % 9, 0) for n in range(100)], maxlen=2000)
    window.extend((1 + n % 9, 0, 0) for n in range(late))
    in_window = np.bincount([model for a, b, _ in window for model in (a, b)], minlength=10)
    latest = over_cap(SimpleNamespace(window=window, in_window=in_window))
    assert [model for model in latest if model == 0] == reached


def test_a_cap_that_holds_from_the_first_matchup_on_looks_at_the_window_alone() -> None:
    schedule = SimpleNamespace(window=deque([(0, 1, "coverage")], maxlen=4), in_window=np.array([1, 1, 0, 0]))
    assert over_cap(schedule, share=0.9, span=1) == {0, 1}


def test_of_what_was_seen_the_oldest_is_repeated() -> None:
    yard = Yard(2, 3)
    seen = SeenMatchups({(0, 1, 2): 5, (0, 1, 0): 9, (0, 1, 1): 2})
    rng = np.random.default_rng(0)
    assert Matchmaker()(yard.state, rng, seen).prompt == 1
    again = Matchmaker().prompt_for_pair(yard.state, rng, seen, (0, 1), among=(0, 2), repeat=True)
    assert again is not None
    assert again.prompt == 2


def test_a_model_is_in_play_when_one_other_answered_one_of_its_prompts() -> None:
    """Prompt 0 has two answers, prompt 1 one: models 0 and 1 are in play, model 2 is not until somebody joins it."""
    yard = Yard(0, 2)
    for number, prompt in ((0, 0), (1, 0), (2, 1)):
        yard.add_model(number, [prompt])
    assert view_of(yard).servable.numbers.tolist() == [0, 1]
    yard.answer(0, 1)
    assert view_of(yard).servable.numbers.tolist() == [0, 1, 2]


def test_a_pair_lacks_nothing_once_it_met_as_often_as_others_and_everything_before_it_met() -> None:
    yard = Yard(4, 6)
    for prompt in range(6):
        yard.play(0, 1, prompt)
    deficit = view_of(yard).pair_deficit(0)
    assert deficit[1] == 0.0
    assert deficit[2:].tolist() == [1.0, 1.0]
