"""Compare, validity, methods, data and one's own board: their figures, their words, and that anybody can check them."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markupsafe import Markup

import tiltyard as ty
from tests.records import replace
from tests.site.board_fixtures import MODELS, NAMES, NEWCOMER, BoardSite, board_site, retire, week_of_votes
from tests.site.sites import vote_once
from tiltyard.analysis.decisions import EstimatedDifference
from tiltyard.arena import CastVote, ContestedModel, Policy, VoteStanding
from tiltyard.arena import events as e
from tiltyard.render import Html
from tiltyard.reports import weekly_markdown
from tiltyard.reports import weekly_text as said
from tiltyard.reports.weekly import by_shown_name
from tiltyard.site import pages, rendering
from tiltyard.site.me import ENOUGH, own_page
from tiltyard.site.model import compare_page
from tiltyard.site.reports import flat_settings, out_of_bounds

PAGES = ("/leaderboard", "/validity", "/methods", "/data", "/me", "/compare", f"/models/{MODELS[0]}")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BoardSite]:
    with board_site(week_of_votes(300), tmp_path_factory.mktemp("others")) as made:
        yield made


@pytest.fixture
def lively(tmp_path: Path) -> Iterator[BoardSite]:
    with board_site(week_of_votes(40), tmp_path) as made:
        yield made


def text_of(markup: str) -> str:
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", markup)).split())


def test_two_models_seen_from_either_side_have_mirrored_records(site: BoardSite) -> None:
    snapshot = site.world.snapshot
    ours, theirs = (
        site.world.observatory.look(lambda state, _, a=a, b=b: compare_page(snapshot, state, a, b))
        for a, b in ((MODELS[0], MODELS[2]), (MODELS[2], MODELS[0]))
    )
    assert (ours.record.wins, ours.record.losses) == (theirs.record.losses, theirs.record.wins)
    assert ours.expected == pytest.approx(1.0 - theirs.expected)
    assert sum(record.wins for record in ours.prompts) == ours.record.wins
    assert sum(record.both_bad for record in ours.prompts) == ours.record.both_bad
    assert [record.name for record in ours.prompts] == [record.name for record in theirs.prompts]
    assert set(ours.shared) == set(ours.hidden)
    assert ours.answers == {}


def test_the_comparison_shows_both_answers_to_a_retired_prompt(tmp_path: Path) -> None:
    with board_site(retire(week_of_votes(60), "p4"), tmp_path) as site:
        page = site.client.get("/compare", params={"a": MODELS[0], "b": MODELS[2], "prompt": "p4"}).text
    answers = page.split('<section id="answers">', 1)[1]
    assert "Question 4?" in answers
    assert "<strong>9</strong>" in answers
    assert "<strong>8</strong>" in answers


@pytest.mark.parametrize(
    ("asked", "status", "words_said"),
    [
        ({}, 200, "Choose two models."),
        ({"a": MODELS[0], "b": MODELS[0]}, 200, "Choose two different models."),
        ({"a": MODELS[0], "b": "nobody"}, 404, ""),
        ({"a": MODELS[0], "b": MODELS[1], "prompt": "no such prompt"}, 200, "Their answers"),
    ],
)
def test_a_comparison_that_cannot_be_made_says_what_to_do(
    site: BoardSite, asked: dict[str, str], status: int, words_said: str
) -> None:
    answer = site.client.get("/compare", params=asked)
    assert answer.status_code == status
    assert words_said in answer.text


@pytest.mark.parametrize(
    ("low", "high", "told"), [(-401, 401, False), (-400, 900, True), (-900, 400, True), (5, 90, True)]
)
def test_an_interval_that_says_nothing_yet_is_not_shown(
    site: BoardSite, monkeypatch: pytest.MonkeyPatch, low: float, high: float, told: bool
) -> None:
    found = EstimatedDifference(9, low, high, 0.56, 0.51, 0.1, 0.9, 28)
    monkeypatch.setattr(pages, "estimated_difference", lambda *_: found)
    asked = {"a": MODELS[0], "b": MODELS[1], "prompt": f"{low} {high}"}  # a page that nobody has asked for before
    page = text_of(site.client.get("/compare", params=asked).text)
    assert ("either could be more than 400 points ahead" in page) is not told
    assert ("in brackets its 95" in page) is told


def test_the_validity_page_says_what_the_report_says(site: BoardSite) -> None:
    report = site.world.snapshot.study.weekly
    page = text_of(site.client.get("/validity").text)
    named, written = by_shown_name(report), weekly_markdown(report)
    for sentence in (
        *said.exposure_sentences(report),
        *said.stability_sentences(named),
        *said.churn_sentences(named),
        said.side_sentence(named),
        *said.offline_sentences(report),
    ):
        assert sentence in page
        assert sentence in written or sentence.startswith("Entered:")  # which names models, here as visitors know them
    for one in report.coverage_fairness.models:
        assert f"{one.exposures:,} {one.target:.1f}" in page


def test_the_validity_page_leads_with_what_is_out_of_bounds(site: BoardSite) -> None:
    report = site.world.snapshot.study.weekly
    page = site.client.get("/validity").text
    first = page.split('<section id="odd">', 1)[1].split("</section>", 1)[0]
    thin = sum(pair.completeness < 1.0 for pair in report.pair_completeness)
    off = sum(not one.within for one in report.coverage_fairness.models)
    assert (f"{thin} adjacent pair" in first) == (thin > 0)
    assert (f"{off} model" in first and 'href="#fairness"' in first) == (off > 0)
    assert page.index('<section id="odd">') < page.index('<details class="fold" id="checked">')
    calm = replace(
        report,
        pair_completeness=(),
        quality=(),
        coverage_fairness=replace(report.coverage_fairness, models=()),
        confidence_stability=replace(report.confidence_stability, left_band=()),
        top_churn=replace(report.top_churn, swaps=()),
    )
    assert out_of_bounds(calm) == []


def test_the_validity_page_calls_models_by_the_names_that_visitors_know(site: BoardSite) -> None:
    report = site.world.snapshot.study.weekly
    page = site.client.get("/validity").text
    assert report.top_churn.entered == (NEWCOMER,)
    assert f"Entered: {NAMES[MODELS.index(NEWCOMER)]}." in text_of(page)
    drawn = set(re.findall(r'class="name">\d+  ([^<]+)<', page))
    assert {html.unescape(name) for name in drawn} == set(NAMES)


def test_two_models_of_one_name_stay_apart_in_the_validity_report(tmp_path_factory: pytest.TempPathFactory) -> None:
    log = week_of_votes(60)
    log.say(e.ModelAdded(model=MODELS[1], display_name=NAMES[0], provider="Somebody"))
    with board_site(log, tmp_path_factory.mktemp("twins")) as twins:
        named = by_shown_name(twins.world.snapshot.study.weekly)
    assert {f"{NAMES[0]} ({name})" for name in MODELS[:2]} <= set(named.looks[-1].standings)
    assert len(named.looks[-1].standings) == len(MODELS)


def test_every_setting_in_force_stands_on_the_methods_page_and_the_validity_page_names_no_voter(
    lively: BoardSite,
) -> None:
    policy = Policy(prompt_floor=3, window_matchups=1234)
    flagged = e.Flagged(subject="voter", subject_id="v07", flag="fast", detail="too fast")
    lively.arena.append([flagged, e.SettingsChanged(policy=policy)])
    lively.world.observatory.refresh()
    page = lively.client.get("/validity").text
    assert "a session: fast (too fast)" in page
    assert "v07" not in page
    page = lively.client.get("/methods").text
    for name in flat_settings(policy):
        assert f"<code>{name}</code>" in page
    assert "at least 3 decisive votes" in text_of(page)
    assert "1,234" in page


def test_every_column_and_badge_of_the_board_is_explained(site: BoardSite) -> None:
    page = site.client.get("/methods").text
    explained = dict(re.findall(r'<h3 id="(\w+)">[^<]+</h3>\s*((?:<p>[^<]+</p>\s*)+)', page))
    wanted = {"rank_score", "confidence", "coverage", "consistency", "spread", "average", "record", "both_bad"}
    assert wanted <= explained.keys()
    assert page.count("<h3") == len(explained) == 24
    prose = text_of(page.split("<h1>", 1)[1].split('<section id="settings">', 1)[0])
    assert len(prose.split()) <= 700
    for text in explained.values():
        assert "{" not in text
        assert len(text) > 40


def test_a_page_may_hold_markup_of_ours_and_no_other() -> None:
    made = (
        rendering.environment()
        .from_string("{{ word }} {{ made|html }}")
        .render(word="<i>", made=Html("<b>&lt;u&gt;</b>"))
    )
    assert made == "&lt;i&gt; <b>&lt;u&gt;</b>"
    for other in ("<b>text</b>", Markup("<b>elsewhere</b>")):
        with pytest.raises(TypeError, match="only markup made by"):
            rendering.environment().from_string("{{ made|html }}").render(made=other)


def test_the_data_page_gives_the_head_and_the_command_that_reproduces_the_board(site: BoardSite) -> None:
    snapshot = site.world.snapshot
    page = site.client.get("/data").text
    assert snapshot.head in page
    assert "tiltyard rate battles.jsonl --cluster voter --anytime --only-connected" in page
    for address in re.findall(r'<dt><a href="([^"]+)"', page):
        assert site.client.get(address).status_code == 200, address


def test_whoever_rates_the_download_gets_the_board_that_is_shown(site: BoardSite, tmp_path: Path) -> None:
    file = tmp_path / "battles.jsonl"
    file.write_bytes(site.client.get("/api/v1/battles.jsonl").content)
    board = ty.rate(file, cluster="voter", anytime=True, only_connected=True)
    offline = site.world.snapshot.study.offline
    assert offline is not None
    for row in offline.rows:
        entry = board[row.model]
        assert offline.centre is not None
        assert entry.ci_low is not None
        low = offline.centre + offline.slope * (entry.ci_low - 1000.0)
        assert offline.centre + offline.slope * (entry.rating - 1000.0) == pytest.approx(row.rating, abs=1e-6)
        assert row.widened or low == pytest.approx(row.low, abs=1e-6)
        assert (entry.rank_low, entry.rank_high) == (row.rank_low, row.rank_high)


def test_a_visitor_without_votes_is_invited_to_vote(site: BoardSite) -> None:
    page = site.client.get("/me").text
    assert 'href="/"' in page
    assert "Forget me" not in page


def test_after_twenty_votes_there_is_a_board_of_ones_own(lively: BoardSite) -> None:
    client = lively.client
    for number in range(ENOUGH):
        vote_once(client, "ABAT"[number % 4].replace("T", "TIE"))
        if number == 4:
            lively.world.observatory.refresh()
            assert "15 to go" in text_of(client.get("/me").text)
    lively.world.observatory.refresh()
    page = client.get("/me").text
    assert "What your 20 counted votes say" in page
    assert "agreement with the crowd" in page

    token = dict(re.findall(r'name="(token)" value="([^"]*)"', page))["token"]
    assert client.post("/me/forget", data={"token": "wrong"}).status_code == 403
    assert "What your 20 counted votes say" in client.get("/me").text
    answer = client.post("/me/forget", data={"token": token})
    assert (answer.status_code, answer.headers["location"]) == (303, "/me?forgotten=1")
    assert "Nothing that was yours alone leads to your votes any more" in client.get("/me?forgotten=1").text
    assert lively.world.observatory.refresh().board.votes == 40 + ENOUGH


@given(
    st.lists(
        st.tuples(st.integers(0, 6), st.integers(1, 6), st.sampled_from(list(e.Choice)), st.booleans()), max_size=60
    )
)
def test_ones_own_figures_add_up(site: BoardSite, drawn: list[tuple[int, int, e.Choice, bool]]) -> None:
    votes = [
        CastVote(
            seq,
            0,
            f"m{seq}",
            "me",
            a,
            (a + step) % 7,
            seq % 6,
            choice,
            VoteStanding.COUNTED if counted else VoteStanding.UNDONE,
        )
        for seq, (a, step, choice, counted) in enumerate(drawn)
    ]
    page = own_page(site.world.snapshot, votes)
    counted = [vote for vote in votes if vote.standing is VoteStanding.COUNTED]
    assert page.votes == len(counted) == sum(page.choices.values())
    assert sum(line.wins for line in page.lines) == sum(line.losses for line in page.lines) == page.decisive
    assert sum(line.ties for line in page.lines) == 2 * page.choices["TIE"]
    assert all(0.0 < line.score < 1.0 for line in page.lines)
    assert [line.score for line in page.lines] == sorted((line.score for line in page.lines), reverse=True)
    if page.agreement is not None:
        assert page.low <= page.agreement <= page.high
        assert page.typical >= 0.5
    assert page.ready == (page.votes >= ENOUGH)


def test_somebody_who_always_picks_the_favourite_agrees_with_everybody(site: BoardSite) -> None:
    snapshot = site.world.snapshot
    by_rating = sorted(snapshot.board.rows, key=lambda row: -row.rating)
    number = {facts.model: facts.number for facts in snapshot.models}
    best, worst = number[by_rating[0].model], number[by_rating[-1].model]
    votes = [CastVote(seq, 0, f"m{seq}", "me", best, worst, 0, e.Choice.A) for seq in range(20)]
    page = own_page(snapshot, votes)
    assert (page.agreement, page.boldest) == (1.0, ())
    against = own_page(snapshot, [replace(vote, choice=e.Choice.B) for vote in votes])
    assert against.agreement == 0.0
    assert [vote.winner.number for vote in against.boldest] == [worst] * 3


def test_votes_on_what_came_after_the_snapshot_wait_for_the_next(site: BoardSite) -> None:
    snapshot = site.world.snapshot
    new_model, new_prompt = len(snapshot.models), len(snapshot.prompts)
    seen = [(0, new_model, 0), (new_model, 1, 0), (0, 1, new_prompt), (0, 1, new_prompt - 1)]
    votes = [CastVote(seq, 0, f"m{seq}", "me", a, b, prompt, e.Choice.B) for seq, (a, b, prompt) in enumerate(seen)]
    assert (own_page(snapshot, votes).votes, len(own_page(snapshot, votes).lines)) == (1, 2)


@pytest.mark.parametrize("address", PAGES)
def test_every_page_stands_in_its_frame_without_inline_code(site: BoardSite, address: str) -> None:
    answer = site.client.get(address)
    assert answer.status_code == 200
    page = answer.text
    assert page.count("<h1") == 1
    assert 'href="#main"' in page
    assert site.world.snapshot.head[:12] in page
    assert " style=" not in page
    assert re.findall(r"<script(?![^>]* src=)", page) == []
    assert re.findall(r' on\w+="', page) == []
    identifiers = re.findall(r' id="([^"]+)"', page)
    assert len(identifiers) == len(set(identifiers))


def test_every_page_stands_over_an_empty_arena(tmp_path: Path) -> None:
    from tests.arena.small_worlds import Log

    with board_site(Log(), tmp_path) as empty:
        for address in PAGES:
            answer = empty.client.get(address)
            assert answer.status_code == (404 if address.startswith("/models") else 200), address


def test_the_json_of_the_board_is_json(site: BoardSite) -> None:
    assert json.loads(site.client.get("/leaderboard.json").text)["head"] == site.world.snapshot.head


def test_models_under_review_are_named_without_a_judgement_and_in_the_api(tmp_path: Path) -> None:
    with board_site(week_of_votes(60), tmp_path) as site:
        assert "under review" not in site.client.get("/validity").text
        seen = site.world.observatory
        assert "What it would take" not in site.client.get("/validity").text
        swaps = {(MODELS[0], MODELS[1]): 17}
        found = (ContestedModel(MODELS[0], 7, 5.25, 80),)
        study = replace(seen.snapshot.study, contested=found, blocks_to_swap=swaps)
        seen._publish(study)
        page = site.client.get("/validity").text
        assert "Votes under review" in page
        assert "80 votes of the last 7 days favour it more than earlier ones (+5.2 standard errors)" in page
        assert "It says nothing about the model or the people behind it" in page
        assert "What it would take" in page
        assert '<td class="num">17</td>' in page
        values = site.client.get("/api/v1/validity").json()
    assert values["blocks_to_swap"] == [{"above": MODELS[0], "below": MODELS[1], "blocks": 17}]
    assert values["contested"] == [{"model": MODELS[0], "days": 7, "z": 5.25, "votes": 80}]
