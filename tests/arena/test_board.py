"""The live board and a model's detail, read off states whose numbers can be counted by hand."""

from __future__ import annotations

from copy import deepcopy

import msgspec
import numpy as np
import pytest

from tests.arena.small_worlds import Log, honest_chooser, new_log, play
from tests.oracles.rating_paths import rating_path
from tests.records import replace
from tiltyard.arena import Badge, Choice, Policy, both_bad_trend, recent_form, vote_table
from tiltyard.arena import events as e
from tiltyard.arena.rules.policy import PublicationRules
from tiltyard.arena.rules.ratings import Ratings
from tiltyard.arena.study.board import Evidence, expected_by_prompt, live_board, official_order
from tiltyard.arena.study.model_detail import model_detail
from tiltyard.arena.study.replay import replay
from tiltyard.errors import ArenaError
from tiltyard.reports import worth_knowing


def small() -> Log:
    """Three models, two prompts, six votes of every kind."""
    log = new_log(3, 2)
    log.meet("m00", "m01", "p00", Choice.A)
    log.meet("m01", "m00", "p00", Choice.B)
    log.meet("m00", "m01", "p01", Choice.TIE)
    log.meet("m00", "m02", "p01", Choice.A)
    log.meet("m02", "m00", "p01", Choice.BOTH_BAD)
    log.meet("m01", "m02", "p00", Choice.A)
    return log


@pytest.fixture(scope="module")
def played() -> Log:
    rng = np.random.default_rng(1)
    log = new_log(10, 8)
    play(log, 1500, rng, honest_chooser(rng, np.linspace(300.0, -300.0, 10)), close=0.3)
    return log


def test_the_record_counts_wins_losses_ties_and_both_bad_once_each() -> None:
    row = live_board(small().rate())["m00"]
    assert (row.wins, row.losses, row.ties, row.both_bad, row.votes) == (3, 0, 1, 1, 5)
    assert row.both_bad_rate == pytest.approx(0.2)
    assert row.quality_floor == pytest.approx(0.8)
    assert live_board(small().rate()).votes == 6


def test_the_average_score_is_over_prompts_with_two_rated_votes() -> None:
    """m00: p00 two wins, 1; p01 a tie and a win, ¾. m02 has one rated vote on each prompt: nothing to say."""
    board = live_board(small().rate())
    assert board["m00"].average_score == pytest.approx(0.875)
    assert board["m02"].average_score is None
    assert (board["m00"].spread, board["m00"].consistency) == (None, None)


def test_a_new_model_is_provisional_with_little_confidence_and_no_rates() -> None:
    row = live_board(new_log(2, 1).rate())["m00"]
    assert (row.badge, row.confidence, row.conservative) == (Badge.PROVISIONAL, 6, 800.0)
    assert (row.both_bad_rate, row.quality_floor, row.average_score) == (None, None, None)


def test_the_conservative_score_is_the_rating_minus_two_deviations_and_orders_phase_three(played: Log) -> None:
    board = live_board(played.rate())
    assert board.ordered_by == "conservative"
    for row in board.rows:
        assert row.conservative == row.rating - 2.0 * row.deviation
        assert row.rank == row.conservative_rank
    scores = [row.conservative for row in board.rows]
    assert scores == sorted(scores, reverse=True)


def test_a_log_walked_through_the_phases_is_ordered_by_legacy_elo_until_the_third(played: Log) -> None:
    log = Log()
    for event in played.events:
        log.say(event.body)
    for phase, ordered_by in ((1, "legacy_elo"), (2, "legacy_elo"), (3, "conservative"), (4, "conservative")):
        log.say(e.PhaseChanged(phase=phase))
        board = live_board(log.rate())
        assert (board.phase, board.ordered_by) == (phase, ordered_by)
        field = "legacy_elo" if phase < 3 else "conservative"
        values = [getattr(row, field) for row in board.rows]
        assert values == sorted(values, reverse=True)
        assert {row.model: row.rating for row in board.rows} == {
            row.model: row.rating for row in live_board(played.rate()).rows
        }, "a phase changes the order, not a number"
        assert sorted(row.legacy_rank for row in board.rows) == list(range(1, 11))


def test_the_same_events_give_the_same_board(played: Log) -> None:
    again = Log()
    for event in played.events:
        again.now = event.at
        again.say(event.body)
    assert live_board(again.rate()) == live_board(played.rate())
    assert msgspec.to_builtins(live_board(again.rate()))["rows"][0]["badge"] in {"Stable", "Established"}


def test_a_disabled_model_leaves_the_board_and_its_votes_stay(played: Log) -> None:
    log = Log()
    for event in played.events:
        log.say(event.body)
    log.say(e.ModelDisabled(model="m04"))
    board = live_board(log.rate())
    assert [row.rank for row in board.rows] == list(range(1, 10))
    assert board.votes == live_board(played.rate()).votes
    with pytest.raises(KeyError):
        board["m04"]


def test_only_contenders_have_a_pair_coverage_and_only_settled_ones_are_official_top(played: Log) -> None:
    board = live_board(played.rate())
    assert all((row.pair_coverage is not None) == (row.conservative_rank <= 8) for row in board.rows)
    coverages = [row.pair_coverage for row in board.rows if row.pair_coverage is not None]
    assert len(coverages) == 8
    assert all(0.0 < coverage <= 1.0 for coverage in coverages)
    assert all(row.official_top == (row.rank <= 8 and row.badge != "Provisional") for row in board.rows)


def test_pair_coverage_is_counted_by_hand_on_a_small_board() -> None:
    """12 decisive votes needed on 2 prompts (there are only two): two on one prompt are min(1, 2/12, 1/2) = 1/6."""
    board = live_board(small().rate())
    by_name = {row.model: row.pair_coverage for row in board.rows}
    assert [row.model for row in board.rows] == ["m00", "m01", "m02"]
    assert by_name["m00"] == pytest.approx(2 / 12)
    assert by_name["m01"] == pytest.approx((2 / 12 + 1 / 12) / 2)


def test_an_excluded_vote_leaves_no_trace_on_the_board_and_a_restored_one_comes_back() -> None:
    log = small()
    before = live_board(log.rate())
    matchup = log.meet("m01", "m00", "p01", Choice.A)
    with_vote = live_board(log.rate())
    log.say(e.Excluded(matchup_ids=(matchup,), reason="test"))
    assert live_board(log.rate()).rows == before.rows
    log.say(e.Restored(matchup_ids=(matchup,), reason="test"))
    assert live_board(log.rate()).rows == with_vote.rows


def evidence(log: Log, **changes: object) -> Evidence:
    """Every model's place alone in its range, kept over the window, and no large voter."""
    names = [log.state.catalog.models[model].model for model in official_order(log.rate())]
    places = {name: (place, place) for place, name in enumerate(names, start=1)}
    found = Evidence(places, 0.05, (dict(zip(names, range(1, len(names) + 1), strict=True)),))
    return replace(found, **changes)  # type: ignore[arg-type]


def test_publication_looks_at_the_first_ten_and_turns_stable_as_votes_come_in(played: Log) -> None:
    assert live_board(small().rate(), evidence=evidence(small())).publication.status == "calibrating"
    assert live_board(played.rate(), evidence=evidence(played)).publication.status == "officially stable"


@pytest.mark.parametrize(
    ("changes", "broken"),
    [
        ({"largest_voter": 0.11}, "largest share of one voter"),
        ({"places": {}}, "median range of ranks"),
        ({"earlier": None}, "models outside their range lately"),
        ({"earlier": ({"m00": 2, "m01": 1},)}, "models outside their range lately"),
    ],
)
def test_each_of_our_rules_is_told_beside_the_label_and_holds_it_back_in_no_case(
    played: Log, changes: dict[str, object], broken: str
) -> None:
    board = live_board(played.rate(), evidence=evidence(played, **changes))
    assert board.publication.status == "officially stable"
    assert len(board.publication.deciding) == 3
    assert broken in {rule.name for rule in board.publication.beside if not rule.met}
    assert f"{broken} " in worth_knowing(board.publication)
    log = Log()
    for event in played.events:
        log.say(event.body)
    off = PublicationRules(largest_voter=1.0, median_places=0, order_kept=False)
    log.say(e.SettingsChanged(policy=Policy(publication=off)))
    board = live_board(log.rate())
    assert (board.publication.status, len(board.publication.rules)) == ("officially stable", 3)
    assert worth_knowing(board.publication) == ""


def test_before_the_first_study_nothing_is_stable_and_no_range_is_shown(played: Log) -> None:
    board = live_board(played.rate())
    assert {row.badge for row in board.rows} <= {Badge.ESTABLISHED, Badge.PROVISIONAL}
    assert all(row.rank_low is row.rank_high is None for row in board.rows)
    assert {row.badge for row in live_board(played.rate(), evidence=evidence(played)).rows} >= {Badge.STABLE}


def test_a_place_outside_its_range_widens_it_and_is_marked_and_is_never_stable(played: Log) -> None:
    found = evidence(played)
    first = live_board(played.rate(), evidence=found).rows[0]
    assert first.badge is Badge.STABLE
    row = live_board(played.rate(), evidence=replace(found, places={**found.places, first.model: (2, 3)})).rows[0]
    assert (row.rank, row.rank_low, row.rank_high, row.outside_range) == (1, 1, 3, True)
    assert row.badge is Badge.ESTABLISHED


@pytest.mark.parametrize("phase", [1, 2, 3, 4])
def test_the_label_and_the_top_tier_are_about_the_order_that_is_shown(played: Log, phase: int) -> None:
    """m09 is last by either order; with a legacy rating above all others it leads phases 1 and 2, untried."""
    log = Log()
    for event in played.events:
        log.say(event.body)
    log.say(e.PhaseChanged(phase=phase))
    last = log.state.catalog.model(live_board(log.rate()).rows[-1].model)
    ratings = deepcopy(log.rate().ratings)
    ratings.legacy[last] = 3000.0
    ratings.deviation[last] = 350.0
    board = live_board(log.rate(), ratings)
    name = log.state.catalog.models[last].model
    assert (board.rows[0].model == name) == (phase < 3)
    deviations = sorted(row.deviation for row in board.rows[:10])
    assert board.publication.rules[0].value == pytest.approx((deviations[4] + deviations[5]) / 2)
    assert name not in {row.model for row in board.top_tier}
    assert len(board.top_tier) == (7 if phase < 3 else 8)
    assert [row.rating_shown for row in board.rows] == [
        row.legacy_elo if phase < 3 else row.conservative for row in board.rows
    ]


def test_expected_wins_add_up_to_the_decisive_votes_and_both_models_share_them(played: Log) -> None:
    expected, information = expected_by_prompt(played.rate())
    decisive = played.state.tallies.decisive_on.view
    assert expected.sum(axis=0) == pytest.approx(decisive.sum(axis=0) / 2)
    assert (information <= decisive / 4 + 1e-9).all()


def test_an_even_arena_has_consistent_models_and_a_moody_one_is_found() -> None:
    """Model 3 is 400 points better on even prompts than on odd ones."""
    rng = np.random.default_rng(8)
    log = new_log(8, 10)
    plain = honest_chooser(rng, np.zeros(8))
    bright, dim = (
        honest_chooser(rng, np.where(np.arange(8) == 3, 300.0, 0.0)),
        honest_chooser(rng, np.where(np.arange(8) == 3, -300.0, 0.0)),
    )
    play(log, 2500, rng, lambda a, b, p: (bright if p % 2 == 0 else dim)(a, b, p) if 3 in (a, b) else plain(a, b, p))
    values = {row.model: row.consistency for row in live_board(log.rate()).rows}
    assert values["m03"] is not None
    assert values["m03"] < 45
    assert min(value or 0 for name, value in values.items() if name != "m03") > values["m03"] + 20


def test_a_models_detail_adds_up_to_its_row(played: Log) -> None:
    for name in ("m00", "m05", "m09"):
        detail = model_detail(played.rate(), name)
        for records in (detail.prompts, detail.opponents):
            assert sum(record.wins for record in records) == detail.row.wins
            assert sum(record.losses for record in records) == detail.row.losses
            assert sum(record.ties for record in records) == detail.row.ties
            assert sum(record.both_bad for record in records) == detail.row.both_bad
        assert sum(map(sum, detail.heatmap.decisive)) == detail.row.wins + detail.row.losses
        msgspec.json.encode(detail)


def test_neighbours_are_those_next_on_the_official_board(played: Log) -> None:
    order = official_order(played.rate())
    names = [played.state.catalog.models[model].model for model in order]
    first, middle = model_detail(played.rate(), names[0]), model_detail(played.rate(), names[4])
    assert [near.record.name for near in first.neighbours] == [names[1]]
    assert [(near.rank, near.record.name) for near in middle.neighbours] == [(4, names[3]), (6, names[5])]
    assert middle.heatmap.neighbours == (names[3], names[5])


def test_the_heat_map_says_what_is_missing_of_two_votes_per_cell() -> None:
    heat = model_detail(small().rate(), "m00").heatmap
    assert heat.target == 2.0
    assert heat.opponents == ("m01", "m02")
    assert heat.decisive == ((2, 0), (0, 1))
    assert heat.deficits == ((0.0, 1.0), (1.0, 0.5))
    assert heat.prompt_decisive == (2, 1)


def test_an_unknown_or_disabled_model_is_an_error_that_names_it() -> None:
    log = small()
    with pytest.raises(ArenaError, match="otter"):
        model_detail(log.rate(), "otter")
    log.say(e.ModelDisabled(model="m01"))
    with pytest.raises(ArenaError, match="m01"):
        model_detail(log.rate(), "m01")


def test_expected_wins_of_a_model_are_the_same_on_its_page_and_on_the_board(played: Log) -> None:
    expected, _ = expected_by_prompt(played.rate())
    detail = model_detail(played.rate(), "m05", live_board(played.rate()))
    assert [record.expected_wins for record in detail.prompts] == pytest.approx(expected[5].tolist())
    assert sum(record.expected_wins for record in detail.opponents) == pytest.approx(expected[5].sum())


def test_recent_form_reads_from_the_models_side_and_leaves_out_what_does_not_count() -> None:
    log = small()
    last = log.meet("m00", "m01", "p00", Choice.B)
    assert recent_form(log.book, 0).letters == "WWDWXL"
    assert recent_form(log.book, 0, last=2).letters == "XL"
    log.say(e.Undone(matchup_id=last))
    form = recent_form(log.book, 0)
    assert form.letters == "WWDWX"
    assert form.score == pytest.approx(3.5 / 4)


def test_calibration_of_one_model_is_seen_from_its_side(played: Log) -> None:
    best = replay(vote_table(played.book, played.state.catalog), played.state.policy).calibration(0)
    assert best.votes == int(played.state.tallies.rated[0])
    assert sum(row.votes * row.observed for row in best.bins) / best.votes > 0.7


def test_the_path_of_a_model_ends_where_the_board_shows_it(played: Log) -> None:
    votes = vote_table(played.book, played.state.catalog)
    for model in range(10):
        path = rating_path(votes, played.state.policy.rating, model)
        assert len(path.rating) == int(played.state.tallies.rated[model])
        assert path.rating[-1] == played.rate().ratings.rating[model]
        assert path.deviation[-1] == played.rate().ratings.deviation[model]
        assert path.recent_delta(5) == path.rating[-1] - path.rating[-6]
        assert path.recent_delta(10_000) == path.rating[-1] - 1500.0


def test_a_model_that_never_played_has_no_path_and_no_delta() -> None:
    log = new_log(3, 1)
    log.meet("m00", "m01", "p00", Choice.A)
    path = rating_path(vote_table(log.book, log.state.catalog), log.state.policy.rating, 2)
    assert len(path.rating) == 0
    assert path.recent_delta(20) is None


def test_the_both_bad_trend_counts_every_vote_of_the_model_once(played: Log) -> None:
    votes = vote_table(played.book, played.state.catalog)
    edges = np.linspace(votes.at[0], votes.at[-1] + 1, 7).astype(int).tolist()
    row = live_board(played.rate())["m03"]
    trend = both_bad_trend(votes, 3, edges)
    assert sum(piece.votes for piece in trend) == row.votes
    assert sum(piece.both_bad for piece in trend) == row.both_bad
    for piece in trend:
        assert None not in (piece.low, piece.rate, piece.high)
        assert (piece.low or 0.0) <= (piece.rate or 0.0) <= (piece.high or 0.0)
    assert both_bad_trend(votes, 3, [0, 1])[0].rate is None


def test_a_board_can_show_other_ratings_than_the_running_ones() -> None:
    state = small().rate()
    running = state.ratings
    upside_down = Ratings(-running.rating, running.deviation, running.volatility, running.legacy)
    board, shown = live_board(state), live_board(state, upside_down)
    assert [row.rating for row in shown.rows] != [row.rating for row in board.rows]
    assert shown[board.rows[0].model].rating == -board.rows[0].rating
    assert {row.model: row.votes for row in shown.rows} == {row.model: row.votes for row in board.rows}
    assert live_board(state) == board
    state.show(upside_down)
    assert live_board(state) == shown
    state.show(running)
    assert live_board(state) == board
