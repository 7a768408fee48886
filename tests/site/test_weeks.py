"""Reports of finished weeks: written once, from the log as it was, kept, and at a permalink."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.site.board_fixtures import BoardSite, board_site, week_of_votes
from tiltyard.arena import events as e
from tiltyard.arena.simulation.ledger import FIRST_DAY
from tiltyard.arena.store import Store, kept_weeks, week_texts, weeks_with_votes
from tiltyard.arena.store.weeks import GRACE, Week
from tiltyard.errors import OptionError
from tiltyard.reports import keep_finished_weeks, write_folder

LATER = FIRST_DAY + 60 * 86_400 * 1_000_000
FIRST, SECOND = "2026-W01", "2026-W02"
"""1 January 2026 is a Thursday; eight days of votes reach into the second week."""


@given(st.integers(0, 4_000_000_000_000_000))
def test_a_week_is_seven_days_from_monday_and_its_name_leads_back(at: int) -> None:
    week = Week.at(at)
    assert week.since <= at < week.until == week.since + 7 * 86_400_000_000
    assert Week.named(week.name) == week == Week.at(week.since) == Week.at(week.until - 1)
    assert Week.at(week.until).since == week.until


@pytest.mark.parametrize("name", ["2026", "2026-W54", "2026-W00", "2026-W1", "0000-W01", "../x", "2026-W01 "])
def test_what_is_no_week_is_an_error_that_says_so(name: str) -> None:
    with pytest.raises(OptionError, match="is no week"):
        Week.named(name)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BoardSite]:
    with board_site(week_of_votes(300), tmp_path_factory.mktemp("weeks")) as made:
        yield made


@pytest.fixture(scope="module")
def store(site: BoardSite) -> Iterator[Store]:
    opened = Store.open(site.world.url)
    keep_finished_weeks(opened, LATER)
    yield opened
    opened.close()


def test_a_week_is_finished_an_hour_after_its_end(store: Store) -> None:
    first = Week.named(FIRST)
    assert weeks_with_votes(store, first.until + GRACE - 1) == []
    assert weeks_with_votes(store, first.until + GRACE) == [first]
    assert [week.name for week in weeks_with_votes(store, LATER)] == [FIRST, SECOND]


def test_each_finished_week_is_written_once_and_holds_its_own_votes(store: Store) -> None:
    kept = {week.week: week for week in kept_weeks(store)}
    assert list(kept) == [SECOND, FIRST]
    assert sum(week.votes for week in kept.values()) == 300
    assert kept[FIRST].seq < kept[SECOND].seq
    texts = week_texts(store, FIRST)
    assert texts is not None
    values = json.loads(texts.report)
    assert (values["votes"], values["board"]["votes"]) == (kept[FIRST].votes, kept[FIRST].votes)
    assert max(values["since"], kept[FIRST].since) <= values["until"] < kept[FIRST].until
    assert keep_finished_weeks(store, LATER) == []
    assert week_texts(store, FIRST) == texts


def test_a_later_exclusion_does_not_change_a_finished_week_even_when_it_is_written_again(tmp_path: Path) -> None:
    log = week_of_votes(120)
    log.say(e.Excluded(matchup_ids=tuple(vote.matchup_id for vote in list(log.book)[:5]), reason="fast"))
    with board_site(log, tmp_path) as made:
        opened = Store.open(made.world.url)
        try:
            assert keep_finished_weeks(opened, LATER) == [FIRST, SECOND]
            before = [week.votes for week in kept_weeks(opened)]
            assert sum(before) == 120, "the exclusion of five votes of the first week came in the second"
            assert keep_finished_weeks(opened, LATER, again=True) == [FIRST, SECOND]
            assert [week.votes for week in kept_weeks(opened)] == before
        finally:
            opened.close()


def test_the_folder_has_every_form_and_a_second_copy_changes_nothing(store: Store, tmp_path: Path) -> None:
    folder = tmp_path / "weeks"
    assert write_folder(store, folder) == 2
    names = {path.name for path in folder.iterdir()}
    assert names == {"index.html", *(f"{week}.{kind}" for week in (FIRST, SECOND) for kind in ("html", "json"))}
    times = {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}
    assert write_folder(store, folder) == 0
    assert {path.name: path.stat().st_mtime_ns for path in folder.iterdir()} == times
    assert FIRST in (folder / "index.html").read_text(encoding="utf-8")


def test_the_site_lists_them_and_each_has_its_own_address(site: BoardSite, store: Store) -> None:
    listed = site.client.get("/validity/weeks").text
    assert re.findall(r'href="/validity/weeks/([^"]+)"', listed) == [SECOND, FIRST]
    page = site.client.get(f"/validity/weeks/{FIRST}").text
    assert "It is not changed afterwards." in page
    assert 'id="fairness"' in page
    assert " style=" not in page
    said = site.client.get("/api/v1/validity/weeks").json()["weeks"]
    assert [week["week"] for week in said] == [SECOND, FIRST] == [week.week for week in kept_weeks(store)]
    values = site.client.get(f"/api/v1/validity/weeks/{FIRST}").json()
    assert (values["week"], values["votes"]) == (FIRST, said[1]["votes"])
    assert {row["legacy_elo"] for row in values["board"]["rows"]} == {None}
    for address in ("/validity/weeks/2026-W40", "/validity/weeks/x", "/api/v1/validity/weeks/2026-W40"):
        assert site.client.get(address).status_code == 404


def test_the_only_week_and_the_list_of_weeks_are_two_pages(tmp_path: Path) -> None:
    with board_site(week_of_votes(120), tmp_path) as made:
        opened = Store.open(made.world.url)
        try:
            assert keep_finished_weeks(opened, Week.named(FIRST).until + GRACE) == [FIRST]
        finally:
            opened.close()
        addresses = ("/validity/weeks", f"/validity/weeks/{FIRST}")
        listed, week = (made.client.get(address) for address in addresses)
        assert f'href="/validity/weeks/{FIRST}"' in listed.text
        assert "It is not changed afterwards." in week.text
        assert listed.headers["etag"] != week.headers["etag"]


def test_a_week_of_phase_one_is_kept_and_not_shown(tmp_path: Path) -> None:
    with board_site(week_of_votes(120, phase=1), tmp_path) as made:
        opened = Store.open(made.world.url)
        try:
            assert keep_finished_weeks(opened, LATER) == [FIRST, SECOND]
        finally:
            opened.close()
        assert made.client.get("/api/v1/validity/weeks").json() == {"weeks": []}
        assert "/validity/weeks" not in made.client.get("/validity").text, "a link to nothing"
        assert made.client.get(f"/validity/weeks/{FIRST}").status_code == 404
