"""`/api/v1` says what the pages show: every figure of a page is in the answer for programs, and is the same."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from html import unescape
from typing import Any

import msgspec
import pytest

from tests.site.board_fixtures import MODELS, NEWCOMER, BoardSite, board_site, week_of_votes
from tiltyard.arena import events as e
from tiltyard.render import count, percent, points, signed
from tiltyard.site.board_query import BoardQuery
from tiltyard.site.leaderboard import board_lines, board_values
from tiltyard.site.model import model_page, model_values
from tiltyard.site.reports import validity_values


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BoardSite]:
    log = week_of_votes(400)
    log.say(e.Flagged(subject="voter", subject_id="v07", flag="fast", detail="too fast"))
    with board_site(log, tmp_path_factory.mktemp("agrees")) as made:
        yield made


def asked(site: BoardSite, address: str) -> dict[str, Any]:
    answer = site.client.get(f"/api/v1{address}")
    assert answer.status_code == 200
    found: dict[str, Any] = answer.json()
    return found


def words_of(page: str) -> str:
    """What a reader of the page reads, in one line."""
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", page)).split())


def plain(values: Any) -> Any:
    return json.loads(msgspec.json.encode(values))


def missing(page: dict[str, Any], api: dict[str, Any]) -> dict[str, Any]:
    """What the page shows and the interface does not say, or says otherwise."""
    return {name: (value, api.get(name)) for name, value in plain(page).items() if api.get(name, "absent") != value}


def test_the_board_says_every_field_of_every_line(site: BoardSite) -> None:
    api = asked(site, "/leaderboard")
    page = plain(board_values(site.world.snapshot, BoardQuery()))
    rows, lines = api.pop("rows"), page.pop("rows")
    page.pop("query")
    assert missing(page, api) == {}
    assert [row["model"] for row in rows] == [line["model"] for line in lines]
    for row, line in zip(rows, lines, strict=True):
        assert missing(line, row) == {}


def test_the_figures_that_a_reader_sees_on_the_board_are_those_of_the_interface(site: BoardSite) -> None:
    text = site.client.get("/leaderboard").text
    page = words_of(text)
    for row in asked(site, "/leaderboard")["rows"]:
        record = f"{count(row['wins'])}–{count(row['losses'])}–{count(row['ties'])}"
        shown = f"{points(row['rating_shown'])} raw {points(row['rating'])} {row['confidence']} %"
        assert f"{shown} {percent(row['prompt_coverage'])}" in page
        assert f'title="RD {points(row["deviation"], 1)}"' in text
        assert f"{record} {count(row['votes'])}" in page


@pytest.mark.parametrize("name", [MODELS[0], MODELS[1], NEWCOMER])
def test_a_model_says_every_field_of_its_page(site: BoardSite, name: str) -> None:
    snapshot = site.world.snapshot
    page = site.world.observatory.look(lambda state, votes: model_page(snapshot, state, votes, name))
    assert missing(model_values(page, snapshot.seq), asked(site, f"/models/{name}")) == {}


def test_the_figures_that_a_reader_sees_of_a_model_are_those_of_the_interface(site: BoardSite) -> None:
    page, api = words_of(site.client.get(f"/models/{MODELS[0]}").text), asked(site, f"/models/{MODELS[0]}")
    row, offline = api["row"], api["bradley_terry"]
    assert f"{percent(api['win_rate'])} {count(row['wins'])}–{count(row['losses'])}–{count(row['ties'])}" in page
    assert f"recent change {signed(api['recent_delta'])}" in page
    assert f"Rating {points(row['rating_shown'])}, raw {points(row['rating'])}" in page
    assert f"{points(offline['low'])} to {points(offline['high'])}" in page
    assert " ".join(api["recent_form"]["letters"]) in page
    for record in (*api["prompts"], *api["opponents"]):
        assert f"{record['wins']}–{record['losses']}–{record['ties']}" in page


def test_the_validity_report_says_every_field_of_its_page(site: BoardSite) -> None:
    assert missing(validity_values(site.world.snapshot.study), asked(site, "/validity")) == {}


def test_the_figures_that_a_reader_sees_of_validity_are_those_of_the_interface(site: BoardSite) -> None:
    page, api = words_of(site.client.get("/validity").text), asked(site, "/validity")
    assert f"{count(api['votes'])}" in page
    for line in api["coverage_fairness"]["models"]:
        assert f"{count(line['exposures'])} {points(line['target'], 1)}" in page
    for band in api["bands"]:
        assert f"{points(band['rating'])} {points(band['deviation_before'], 1)} {points(band['deviation'], 1)}" in page
    for lane in api["lanes"]:
        assert f"{lane['lane']} {count(lane['served'])}" in page
    for row in api["offline"]["rows"]:
        assert f"{points(row['low'])} to {points(row['high'])}" in page
    assert "v07" not in json.dumps(api)  # whose votes they were is nobody's business


def test_what_a_program_has_kept_is_void_after_a_later_study_of_the_same_votes(site: BoardSite) -> None:
    addresses = ("/api/v1/leaderboard", f"/api/v1/models/{MODELS[0]}")
    kept = {address: {"if-none-match": site.client.get(address).headers["etag"]} for address in addresses}
    assert {site.client.get(address, headers=tag).status_code for address, tag in kept.items()} == {304}
    site.world.observatory.refresh()
    assert {site.client.get(address, headers=tag).status_code for address, tag in kept.items()} == {200}


def test_lines_of_the_page_and_rows_of_the_interface_are_in_the_same_order(site: BoardSite) -> None:
    lines = board_lines(site.world.snapshot, BoardQuery())
    assert [line.row.model for line in lines] == [row["model"] for row in asked(site, "/leaderboard")["rows"]]
