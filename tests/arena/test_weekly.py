"""The weekly validity report: its numbers against the log, and its three forms."""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from tests.arena.small_worlds import MINUTE, START, Log, honest_chooser, new_log, play
from tests.browsers import Tab
from tests.records import replace
from tiltyard.arena import DAY, HOUR, Choice, Policy, WeeklyReport, weekly_report
from tiltyard.arena import events as e
from tiltyard.arena.rules.policy import LaneWeights
from tiltyard.arena.simulation import RecordingArena, SimulationSettings, simulate
from tiltyard.arena.study import period_of_log, study_of
from tiltyard.arena.study.board import live_board
from tiltyard.arena.study.weekly import ContenderLane
from tiltyard.reports import weekly_json, weekly_markdown, weekly_page
from tiltyard.reports.weekly_text import quality_sentence

sys.path.insert(0, str(Path(__file__).parents[1] / "reports"))

from page_tree import read_page


def two_weeks() -> tuple[Log, int]:
    """Twelve models, two weeks; in the second one model fails on two prompts. The log, and where that week starts."""
    rng = np.random.default_rng(9)
    choose = honest_chooser(rng, np.linspace(300.0, -300.0, 12))
    log = new_log(12, 8)
    play(log, 1500, rng, choose, close=0.3, after=13 * MINUTE)
    since = log.now + 1

    def worse(a: int, b: int, prompt: int) -> Choice:
        failing = 4 in (a, b) and prompt in (1, 6) and rng.random() < 0.9
        return Choice.BOTH_BAD if failing else choose(a, b, prompt)

    play(log, 1000, rng, worse, close=0.3, after=10 * MINUTE)
    log.say(e.Flagged(subject="voter", subject_id="v003", flag="fast", detail="30 of 40 gaps <b>"))
    log.say(e.Excluded(matchup_ids=tuple(vote.matchup_id for vote in list(log.book)[-3:]), reason="fast"))
    return log, since


@pytest.fixture(scope="module")
def week() -> tuple[Log, WeeklyReport]:
    log, since = two_weeks()
    state, period = period_of_log(log.events, since)
    return log, weekly_report(state, period, study_of(state, period.votes)[0])


def test_reading_a_period_off_a_log_ends_in_the_state_of_the_log(week: tuple[Log, WeeklyReport]) -> None:
    log, report = week
    assert [row.rating for row in report.board.rows] == [row.rating for row in live_board(log.rate()).rows]
    assert report.votes == 997
    assert report.events["matchup_served"] == report.events["voted"] == 1000
    start, end = report.looks[0].at, report.looks[-1].at
    assert [look.at - start for look in report.looks[:-1]] == [DAY * day for day in range(len(report.looks) - 1)]
    assert end == log.now
    assert (report.since, report.until) == (start // HOUR * HOUR, end // HOUR * HOUR), "nobody is told more"


def test_looks_show_what_the_board_showed_then(week: tuple[Log, WeeklyReport]) -> None:
    log, report = week
    then = Log()
    for event in log.events:
        if event.at >= report.looks[2].at:
            break
        then.say(event.body)
    known = report.looks[2].standings
    assert {row.model: (row.rating, row.deviation) for row in live_board(then.rate()).rows} == {
        name: tuple(value) for name, value in known.items()
    }


def test_exposures_are_those_of_the_window_and_all_of_them(week: tuple[Log, WeeklyReport]) -> None:
    _, report = week
    assert report.coverage_fairness.matchups == 2000
    assert sum(one.exposures for one in report.coverage_fairness.models) == 4000
    assert sum(one.target for one in report.coverage_fairness.models) == pytest.approx(4000)


@pytest.mark.parametrize(("votes", "differ"), [(60, False), (500, True)])
def test_targets_are_even_until_the_contender_lane_gives_some_models_more(votes: int, differ: bool) -> None:
    """12 models, a band of 2, a lane of 60 %: 2W/M is 16.7 of 100 matchups; the lane gives its two about 50."""
    lanes = LaneWeights(coverage=0.2, contender=0.6, uncertainty=0.1, exploration=0.1)
    policy = Policy(contender_band=2, window_matchups=100, lanes=lanes)
    settings = SimulationSettings(
        models=12, prompts=4, votes=votes, in_flight=4, policy=policy, curve_points=0, looks=0
    )
    arena = RecordingArena(settings.seed)
    simulate(settings, arena)
    report = weekly_report(*period_of_log(arena.events, 0))
    fair, bodies = report.coverage_fairness, [event.body for event in arena.events]
    served = {body.matchup_id: body for body in bodies if isinstance(body, e.MatchupServed)}
    voted = [served[vote.matchup_id] for vote in list(arena.votes())[-100:]]
    given = Counter(model for body in voted if body.lane == "contender" for model in (body.model_a, body.model_b))
    assert fair.targets_differ == differ
    targets = [one.target for one in fair.models]
    assert targets == pytest.approx([max(given[one.model], min(targets)) for one in fair.models])
    assert sum(targets) == pytest.approx(2 * min(votes, 100))
    near = [abs(one.exposures / fair.even_target - 1) <= 0.12 for one in fair.models]
    assert fair.in_tolerance_of_even_target == sum(near)
    assert ("(2W/M)" in weekly_markdown(report)) == differ


def test_the_failing_model_is_named_with_its_prompts(week: tuple[Log, WeeklyReport]) -> None:
    _, report = week
    (flag,) = report.quality
    assert flag.model == "m04"
    assert {prompt.prompt for prompt in flag.worst_prompts[:2]} == {"p01", "p06"}
    said = quality_sentence(flag)
    assert said.startswith("m04: both-bad rate")
    assert "p01" in said


def test_lanes_and_sides_of_a_fair_schedule_are_within_chance(week: tuple[Log, WeeklyReport]) -> None:
    _, report = week
    assert all(abs(lane.sigmas) < 3.5 for lane in report.lanes)
    assert sum(lane.share for lane in report.lanes) == pytest.approx(1.0)
    assert report.sides.fair
    assert report.sides.matchups == 997  # three votes are excluded


def test_shares_of_lanes_say_why_they_differ_while_the_contender_lane_is_closed(week: tuple[Log, WeeklyReport]) -> None:
    _, report = week
    assert report.contender_lane.open
    assert "contender lane is closed" not in weekly_markdown(report)
    closed = replace(report, contender_lane=ContenderLane(ready=3, models=9, votes_needed=60))
    said = "it opens when each of the top 9 models has 60 rated votes, and 3 of them have. Until then its turns go to"
    assert said in weekly_markdown(closed)
    assert said in weekly_page(closed)
    young = new_log(3, 2)
    young.meet("m00", "m01", "p00", Choice.A)
    found = weekly_report(*period_of_log(young.events, START))
    assert (found.contender_lane.ready, found.contender_lane.models, found.contender_lane.open) == (0, 3, False)


def test_shares_of_lanes_say_why_they_differ_if_the_contender_lane_opened_within_the_period() -> None:
    settings = SimulationSettings(
        models=4, prompts=4, votes=150, in_flight=1, policy=Policy(contender_opens_at=40), curve_points=0, looks=0
    )
    arena = RecordingArena(settings.seed)
    simulate(settings, arena)
    voted = {vote.matchup_id for vote in arena.votes()}
    served = [event.body for event in arena.events if isinstance(event.body, e.MatchupServed)]
    lanes = [body.lane for body in served if body.matchup_id in voted]
    first = lanes.index("contender")
    assert first >= 80  # four models, forty votes each
    state, period = period_of_log(arena.events, 0)
    report = weekly_report(state, period)
    said = f"the contender lane was closed for the first {first} of {len(lanes)} matchups: it opens when each of the"
    assert report.contender_lane.open
    assert report.contender_lane.closed_for == first
    assert said in weekly_markdown(report)
    assert said in weekly_page(report)
    later = weekly_report(*period_of_log(arena.events, int(period.votes.at[first + 5])))
    assert "contender lane was closed" not in weekly_markdown(later)


def test_every_swap_is_within_or_beyond_bands_and_an_honest_week_has_none_beyond(
    week: tuple[Log, WeeklyReport],
) -> None:
    _, report = week
    assert report.top_churn.beyond_bands == 0
    assert report.confidence_stability.models == 12
    assert (report.confidence_stability.share_left_band or 0.0) <= 0.25


def test_the_markdown_says_what_the_json_says(week: tuple[Log, WeeklyReport]) -> None:
    _, report = week
    text, values = weekly_markdown(report), json.loads(weekly_json(report))
    assert values["status"] in text.lower()
    for title in ("Coverage fairness", "Pair completeness", "Confidence stability", "Top-rank churn", "Exclusions"):
        assert f"## {title}" in text
    assert f"{values['coverage_fairness']['in_tolerance']} of 12 models are within ±12 %" in text
    assert "3 votes excluded: fast" in text
    assert values["quality"][0]["model"] == "m04"
    assert values["offline"]["rows"][0]["model"] in text
    for rule in values["publication"]["rules"]:
        assert (f"| {rule['name']} |" in text) == (not rule["ours"])
        assert rule["name"] in text


def test_the_page_is_one_file_that_loads_nothing_and_escapes_what_it_shows(week: tuple[Log, WeeklyReport]) -> None:
    _, report = week
    page = weekly_page(report)
    root = read_page(page).root
    assert "<script" not in page
    assert "http://" not in page
    assert "https://" not in page
    assert "gaps &lt;b&gt;" in page
    assert len(root.all("svg")) > 30
    assert all(node.attrs.get("aria-label") or node.attrs.get("aria-hidden") for node in root.all("svg"))


def test_a_browser_shows_the_page_without_complaint(week: tuple[Log, WeeklyReport], tmp_path: Path, tab: Tab) -> None:
    path = tmp_path / "week.html"
    path.write_text(weekly_page(week[1]), encoding="utf-8")
    for width, dark in ((1280, False), (390, True)):
        tab.screen(width, 900, dark=dark)
        tab.open(path)
        shown = tab.shown()
        assert "Top-rank churn against confidence bands" in shown
        assert tab.evaluate("document.documentElement.scrollWidth <= window.innerWidth") is True
    assert tab.complaints == []
    assert [url for url in tab.requests if not url.startswith(("file:", "about:"))] == []


@pytest.mark.parametrize(("models", "prompts"), [(0, 0), (1, 1), (2, 1)])
def test_an_arena_where_nothing_happened_has_a_report_that_says_so(models: int, prompts: int) -> None:
    log = new_log(models, prompts, phase=1)
    report = weekly_report(*period_of_log(log.events, START))
    assert report.status == "calibrating"
    text = weekly_markdown(report)
    assert "Nothing was voted on in the window." in text
    assert "legacy matchmaking" in text
    assert weekly_page(report).startswith("<!doctype html>")
    json.loads(weekly_json(report))


def test_a_model_that_came_in_the_week_and_one_that_left_are_on_the_page(week: tuple[Log, WeeklyReport]) -> None:
    log, told = week
    more = [e.ModelAdded(model="new", display_name="New"), e.ModelDisabled(model="m02")]
    state, period = period_of_log([*log.events, *(e.Event(log.now, body) for body in more)], told.since)
    report = weekly_report(state, period)
    page = weekly_page(report)
    assert ">new<" in page
    assert report.coverage_fairness.looked_at == 11, "one left, and the new one has no answers yet"
    assert "m02" not in [row.model for row in report.board.rows]
    assert "Left: m02" in weekly_markdown(report)
