"""The leaderboard in its locked format: what is shown, in which order, and the same as CSV and JSON."""

from __future__ import annotations

import colorsys
import csv
import io
import json
import re
from collections.abc import Iterator
from urllib.parse import parse_qsl, quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.records import replace
from tests.site.board_fixtures import MODELS, NAMES, NEWCOMER, BoardSite, board_site, week_of_votes
from tiltyard.arena import Badge
from tiltyard.arena.study import VotePart
from tiltyard.arena.study.observatory import Snapshot
from tiltyard.reports import worth_knowing
from tiltyard.site.board_columns import COLUMNS
from tiltyard.site.board_pages import leaderboard_view
from tiltyard.site.board_query import BoardQuery
from tiltyard.site.charts import interval_bar
from tiltyard.site.leaderboard import board_csv, board_lines, board_values
from tiltyard.site.rendering import SiteFacts, render, static_files

LOCKED = ["rank", "model", "rating", "confidence", "coverage", "consistency", "spread", "average", "record", "votes"]
asked = st.text(st.characters(exclude_categories=("Cs",)), max_size=20)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BoardSite]:
    with board_site(week_of_votes(400), tmp_path_factory.mktemp("board")) as made:
        yield made


@pytest.fixture(scope="module")
def snapshot(site: BoardSite) -> Snapshot:
    return site.world.snapshot


def rows_of(page: str) -> list[str]:
    table = page.split("data-board", 1)[1].split("</table>", 1)[0]
    return re.findall(r"<tr role=\"row\" class=.*?</tr>", table, flags=re.S)


def text_of(markup: str) -> str:
    return " ".join(re.sub(r"<[^>]*>", " ", markup).split())


def test_the_columns_are_the_locked_ones_in_their_order(site: BoardSite) -> None:
    page = site.client.get("/leaderboard").text
    assert re.findall(r'data-sort="(\w+)"', page) == LOCKED
    assert page.count('<th scope="col" role="columnheader"') == len(LOCKED)


def test_the_rating_cell_shows_the_conservative_score_and_the_raw_rating_below(
    site: BoardSite, snapshot: Snapshot
) -> None:
    page = site.client.get("/leaderboard").text
    for markup, row in zip(rows_of(page), snapshot.board.rows, strict=True):
        cell = re.search(r'<td role="cell" class="num rating".*?</td>', markup, flags=re.S)
        assert cell is not None
        assert text_of(cell.group()) == f"{row.rating - 2 * row.deviation:.0f} raw {row.rating:.0f}"


def test_stability_is_a_badge_in_the_model_cell_and_provisional_lines_are_grey(
    site: BoardSite, snapshot: Snapshot
) -> None:
    for markup, row in zip(rows_of(site.client.get("/leaderboard").text), snapshot.board.rows, strict=True):
        model_cell = re.search(r'<th scope="row".*?</th>', markup, flags=re.S)
        assert model_cell is not None
        assert f'class="badge {row.badge.value.lower()}"' in model_cell.group()
        assert ("provisional-row" in markup) == (row.badge is Badge.PROVISIONAL)
    newcomer = snapshot.board[NEWCOMER]
    assert newcomer.badge is Badge.PROVISIONAL
    assert not newcomer.official_top


def test_the_status_is_on_top_with_every_rule_and_its_number(site: BoardSite, snapshot: Snapshot) -> None:
    page = text_of(site.client.get("/leaderboard").text.split('<section class="status', 1)[1].split("</section>")[0])
    status = snapshot.board.publication
    assert ("Officially stable" if status.status == "officially stable" else "Calibrating") in page
    for rule in status.deciding:
        assert f"{'Met' if rule.met else 'Not met'}: {rule.name.capitalize()}" in page
    assert f"of {len(status.deciding)} rules are met" in page
    assert worth_knowing(status) in page
    assert len(status.beside) == 3


def test_a_place_says_which_places_bradley_terry_allows(site: BoardSite, snapshot: Snapshot) -> None:
    offline = {row.model: row for row in snapshot.study.offline.rows} if snapshot.study.offline else {}
    assert len(offline) == len(MODELS)
    for markup, row in zip(rows_of(site.client.get("/leaderboard").text), snapshot.board.rows, strict=True):
        place = re.search(r'<td role="cell" class="place">.*?</td>', markup, flags=re.S)
        assert place is not None
        assert f">{offline[row.model].rank_low}–{offline[row.model].rank_high}</small>" in place.group()


@pytest.mark.parametrize("column", LOCKED)
def test_each_column_sorts_both_ways_and_what_is_unknown_comes_last(snapshot: Snapshot, column: str) -> None:
    once = BoardQuery().sorted_by(column)
    twice = once.sorted_by(column)
    assert twice.sorted_by(column) == once
    for query in (once, twice):
        values = [COLUMNS[column].key(line) for line in board_lines(snapshot, query)]
        known = [value for value in values if value is not None]
        assert values == known + [None] * (len(values) - len(known))
        falling = (query.direction or COLUMNS[column].first) == "desc"
        assert known == sorted(known, reverse=falling)


def test_search_looks_at_names_ids_and_providers_word_by_word(snapshot: Snapshot) -> None:
    def found(q: str) -> set[str]:
        return {line.row.model for line in board_lines(snapshot, BoardQuery(q=q))}

    assert found("OTTER") == {"otter-7b"}
    assert found("fenland siskin") == set()
    assert found("aerie siskin") == {"siskin"}
    assert found("") == set(MODELS)


def test_filters_narrow_and_places_stay_those_of_the_whole_board(snapshot: Snapshot) -> None:
    lines = board_lines(snapshot, BoardQuery(provider="Fenland AI", licence="MIT"))
    assert {line.row.model for line in lines} == {MODELS[1], MODELS[3]}
    whole = {row.model: row.rank for row in snapshot.board.rows}
    assert [line.row.rank for line in lines] == [whole[line.row.model] for line in lines]
    assert [line.row.model for line in board_lines(snapshot, BoardQuery(stability="provisional"))] == [
        row.model for row in snapshot.board.rows if row.badge is Badge.PROVISIONAL
    ]


@given(st.builds(BoardQuery, asked, asked, asked, asked, asked, st.sampled_from(["", *COLUMNS])))
def test_an_address_says_the_whole_query(query: BoardQuery) -> None:
    said = BoardQuery.of(dict(parse_qsl(query.address.removeprefix("?"), keep_blank_values=True)))
    assert said == BoardQuery.of({name: getattr(query, name) for name in query.__slots__})
    assert BoardQuery.of(dict(parse_qsl(said.address.removeprefix("?")))) == said


def test_an_unknown_order_is_passed_over() -> None:
    assert BoardQuery.of({"sort": "secret", "direction": "up", "colour": "red"}) == BoardQuery()


@pytest.mark.parametrize(
    "address", ["", "?sort=votes", "?q=labs&sort=model&direction=desc", "?category=maths", "?stability=Provisional"]
)
def test_csv_and_json_hold_exactly_the_lines_shown_in_their_order(site: BoardSite, address: str) -> None:
    shown = [
        re.search(r'href="/models/([^"]+)"', row) for row in rows_of(site.client.get(f"/leaderboard{address}").text)
    ]
    names = [found.group(1) for found in shown if found]
    table = list(csv.DictReader(io.StringIO(site.client.get(f"/leaderboard.csv{address}").text)))
    values = json.loads(site.client.get(f"/leaderboard.json{address}").text)
    assert names
    assert [row["model"].lstrip("'").replace("=", "%3D") for row in table] == names
    assert [row["model"].replace("=", "%3D") for row in values["rows"]] == names
    for cells, row in zip(table, values["rows"], strict=True):
        assert list(cells) == list(row)
        assert [float(cell) for name, cell in cells.items() if isinstance(row[name], float)] == [
            value for value in row.values() if isinstance(value, float)
        ]


def test_a_name_that_looks_like_a_formula_is_a_text_in_the_csv_file(snapshot: Snapshot) -> None:
    assert "'=Wagtail" in board_csv(snapshot, BoardQuery())


def test_no_name_becomes_markup(site: BoardSite) -> None:
    page = site.client.get("/leaderboard").text
    assert NAMES[1] not in page
    assert "Heron &lt;b&gt;Large&lt;/b&gt;" in page


def test_a_category_board_says_that_it_is_bradley_terry_and_not_official(site: BoardSite, snapshot: Snapshot) -> None:
    page = text_of(site.client.get("/leaderboard?category=maths").text)
    assert "Bradley–Terry ratings, on the scale of the board, from the" in page
    assert "not the official order" in page
    board = site.world.observatory.part(VotePart(category="maths"))
    values = board_values(snapshot, BoardQuery(category="maths"), board)
    assert values.ordered_by == "bradley_terry"
    assert board is not None
    assert board.offline is not None
    assert [row.bradley_terry_rating for row in values.rows] == [row.rating for row in board.offline.rows]


def test_a_category_without_votes_has_no_lines_and_says_so(site: BoardSite) -> None:
    page = site.client.get("/leaderboard?category=nothing")
    assert page.status_code == 200
    assert "Too few votes on these prompts" in page.text


def test_charts_are_drawn_of_the_first_lines(site: BoardSite) -> None:
    page = site.client.get("/leaderboard").text
    assert page.count('class="heatmap"') == 2
    assert page.count('<svg class="strip"') == len(MODELS)
    assert " style=" not in page
    assert "<script>" not in page


def test_the_same_page_is_not_sent_twice(site: BoardSite) -> None:
    first = site.client.get("/leaderboard")
    again = site.client.get("/leaderboard", headers={"if-none-match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


@pytest.fixture(scope="module", params=[1, 2, 3])
def early(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BoardSite]:
    """The site in one of the phases before the last."""
    with board_site(week_of_votes(80, phase=request.param), tmp_path_factory.mktemp("early")) as made:
        yield made


def test_until_phase_three_elo_is_the_rating_and_then_it_is_beside_it(early: BoardSite) -> None:
    snapshot = early.world.snapshot
    phase, page = snapshot.board.phase, early.client.get("/leaderboard").text
    lines = board_lines(snapshot, BoardQuery())
    assert board_lines(snapshot, BoardQuery(sort="rating")) == lines
    for markup, row in zip(rows_of(page), snapshot.board.rows, strict=True):
        cell = re.search(r'<td role="cell" class="num rating".*?</td>', markup, flags=re.S)
        assert cell is not None
        shown = f"{row.conservative:.0f} raw {row.rating:.0f} Elo {row.legacy_elo:.0f}"
        assert text_of(cell.group()) == (shown if phase == 3 else f"{row.legacy_elo:.0f}")
    if phase < 3:
        assert [row.legacy_elo for row in snapshot.board.rows] == sorted(
            (row.legacy_elo for row in snapshot.board.rows), reverse=True
        )
        assert snapshot.study.moved == {}
    assert ("Do the new ratings predict votes?" in page) == (phase == 2)
    assert ('id="calibration"' in early.client.get("/validity").text) == (phase > 1)


def test_phase_one_shows_the_public_nothing_of_the_shadow_figures(early: BoardSite) -> None:
    """No page and no file says a deviation, a conservative score, a range, a badge or the label, in any form."""
    snapshot = early.world.snapshot
    if snapshot.board.phase != 1:
        return
    client, row = early.client, snapshot.board.rows[0]
    pages = ["/leaderboard", f"/models/{row.model}", "/validity", f"/compare?a={MODELS[0]}&b={MODELS[1]}"]
    files = ["/leaderboard.json", "/leaderboard.csv", "/api/v1/leaderboard", "/api/v1/validity"]
    files.append(f"/api/v1/models/{row.model}")
    secret = [value for one in snapshot.board.rows for value in (one.deviation, one.rating, one.conservative)]
    for address in (*pages, *files):
        text = client.get(address).text
        assert not [value for value in secret if str(value) in text], address
        assert not re.search(r"Calibrating|Officially stable|calibrating|Provisional\b|Established\b", text), address
    for address in pages:
        text = text_of(client.get(address).text)
        assert not re.search(r"\bRD\b|Confidence|Coverage|95 % (range|interval)|top tier", text), address
    by_secret = client.get("/leaderboard?sort=confidence&stability=Stable&direction=desc").text
    assert rows_of(by_secret) == rows_of(client.get("/leaderboard").text)
    values = client.get("/api/v1/leaderboard").json()
    assert (values["publication"]["status"], values["official_top_tier"], values["intervals"]) == (None, [], None)
    assert {values["rows"][0][name] for name in ("rank_score", "rating", "stability", "place_best")} == {None}
    assert values["rows"][0]["rating_shown"] == row.legacy_elo


def test_in_phase_four_elo_is_gone_and_its_keys_say_null(site: BoardSite) -> None:
    assert not re.search(r"\bElo\b", text_of(site.client.get("/leaderboard").text))
    assert "Legacy Elo" not in site.client.get(f"/models/{MODELS[0]}").text
    row = site.client.get("/api/v1/leaderboard").json()["rows"][0]
    assert (row["legacy_elo"], row["legacy_rank"]) == (None, None)
    assert row["rating_shown"] == row["rank_score"] == row["conservative"]


def test_a_row_is_one_line_of_figures_and_what_is_in_its_tooltips_is_on_the_models_page(
    site: BoardSite, snapshot: Snapshot
) -> None:
    page = site.client.get("/leaderboard").text
    for markup, row in zip(rows_of(page), snapshot.board.rows, strict=True):
        text, own = text_of(markup), text_of(site.client.get(f"/models/{quote(row.model)}").text)
        assert f"{row.confidence} %" in text
        assert text.endswith(f"{row.votes} {row.both_bad} both bad")
        assert f'title="RD {row.deviation:.1f}"' in markup
        assert f"RD {row.deviation:.1f}" in own
        assert row.quality_floor is None or f"{100 * row.quality_floor:.1f} %: {row.both_bad} of {row.votes}" in own
        if row.pair_coverage is not None:
            assert f'title="pairs with neighbours {100 * row.pair_coverage:.0f} %"' in markup
            assert f"pairs {100 * row.pair_coverage:.0f} %" in own
        assert "<br" not in markup
    assert "Official top tier:" in page


def test_the_picture_of_a_row_has_the_interval_the_raw_rating_and_the_printed_one(snapshot: Snapshot) -> None:
    for line in board_lines(snapshot, BoardQuery()):
        if line.span is None:
            continue
        drawn = str(interval_bar(line))
        assert line.scale is not None
        assert f'd="M{line.scale.x(line.row.rating_shown):g} 1v14" class="tick"' in drawn
        assert f'd="M{line.scale.x(line.row.rating):g} 8h.01" class="spot"' in drawn
        if not line.provisional:
            assert all(line.scale.holds(value) for value in (line.row.rating_shown, line.row.rating, *line.span))


def test_a_dot_on_the_board_of_a_part_is_its_own_rating(site: BoardSite, snapshot: Snapshot) -> None:
    board = site.world.observatory.part(VotePart(category="maths"))
    lines = board_lines(snapshot, BoardQuery(category="maths"), board)
    assert lines
    assert [line.raw for line in lines] == [line.printed for line in lines]


def test_a_row_says_by_what_it_is_sorted_only_for_columns_that_are_shown(site: BoardSite) -> None:
    rows = site.client.get("/leaderboard?columns=votes").text.split("data-board", 1)[1]
    assert rows.count('data-votes="') == rows.count('data-rank="') == len(MODELS)
    assert "data-confidence" not in rows


def test_lines_without_an_offline_board_still_stand(snapshot: Snapshot) -> None:
    bare = replace(snapshot, study=replace(snapshot.study, offline=None))
    lines = board_lines(bare, BoardQuery())
    assert [line.offline for line in lines] == [None] * len(MODELS)


def test_the_page_and_its_json_say_what_the_intervals_hold_for(site: BoardSite, snapshot: Snapshot) -> None:
    offline = snapshot.study.offline
    assert offline is not None
    page = text_of(site.client.get("/leaderboard").text)
    assert "Intervals hold for these prompts and answers, other voters." in page
    assert "Ranges of ranks are valid at any time you look." in page
    said = site.client.get("/leaderboard.json").json()
    assert said["intervals"] == {
        "clusters": "voter",
        "speaks_for": offline.speaks_for,
        "anytime": True,
        "remarks": list(offline.remarks),
        "centre": offline.centre,
        "slope": offline.slope,
    }
    assert said["intervals"] == site.client.get("/api/v1/leaderboard").json()["intervals"]
    notes = {row.model: row.note for row in offline.rows}
    assert {row["model"]: row["interval_note"] for row in said["rows"]} == {
        row["model"]: notes.get(row["model"]) for row in said["rows"]
    }


def test_notes_of_models_and_a_large_share_of_one_voter_are_on_the_page(snapshot: Snapshot) -> None:
    offline = snapshot.study.offline
    assert offline is not None
    note = "no interval: its battles come from too few voters (effectively 1.9; it takes 2.5)"
    remark = "one voter has 31 % of the battles, which widens the intervals"
    rows = (replace(offline.rows[0], low=None, high=None, note=note), *offline.rows[1:])
    marked = replace(snapshot, study=replace(snapshot.study, offline=replace(offline, rows=rows, remarks=(remark,))))
    lines = board_lines(marked, BoardQuery())
    assert any(line.offline is not None and line.offline.note == note for line in lines)
    context = leaderboard_view(marked, BoardQuery(), None)
    page = text_of(render("leaderboard.html", SiteFacts("Birds"), context))
    assert note in page
    assert "One voter has 31 % of the battles, which widens the intervals." in page


def hues(sheet: str) -> dict[str, float]:
    """The hue of each named color, in degrees."""
    found = re.findall(r"--(\w+): #([0-9a-f]{6})", sheet)
    return {
        name: 360 * colorsys.rgb_to_hls(*(int(code[at : at + 2], 16) / 255 for at in (0, 2, 4)))[0]
        for name, code in found
    }


def test_the_colors_of_the_sides_are_not_those_of_good_and_bad() -> None:
    light, _, dark = static_files()["site.css"].content.decode().partition("@media (prefers-color-scheme: dark)")
    for sheet in (light, dark.partition("}\n}")[0]):
        hue = hues(sheet)
        for side in ("accent", "other"):
            for meaning in ("good", "odd", "bad"):
                apart = abs(hue[side] - hue[meaning])
                assert min(apart, 360 - apart) >= 45, (side, meaning)
        assert abs(hue["accent"] - hue["other"]) >= 45
