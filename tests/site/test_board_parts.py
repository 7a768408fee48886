"""Boards of a part of the votes, of a day, and over time; what is embedded, shared and fed to readers."""

from __future__ import annotations

import csv
import io
import json
import re
import struct
from collections.abc import Iterator
from xml.etree import ElementTree

import msgspec
import numpy as np
import pytest

from tests.records import replace
from tests.site.board_fixtures import MODELS, BoardSite, board_site, week_of_votes
from tiltyard.arena import Policy
from tiltyard.arena.store import KeptWeek
from tiltyard.arena.study import VotePart, day_end, history, parts
from tiltyard.arena.study.parts import KeptParts, days_of, part_board, votes_in
from tiltyard.render import legible
from tiltyard.site.admin_settings import limit_groups, policy_groups, unit_of
from tiltyard.site.board_columns import CHOSEN_BY_DEFAULT
from tiltyard.site.board_query import BoardQuery
from tiltyard.site.leaderboard import board_lines
from tiltyard.site.sharing import weeks_atom


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BoardSite]:
    with board_site(week_of_votes(300), tmp_path_factory.mktemp("parts")) as made:
        yield made


def board_json(site: BoardSite, asked: str) -> dict:
    return json.loads(site.client.get(f"/leaderboard.json{asked}").text)


def test_the_sentence_is_on_the_page_in_the_files_and_in_the_api(site: BoardSite) -> None:
    said = site.client.get("/api/v1/leaderboard").json()["verdict"]
    assert said == board_json(site, "")["verdict"]
    assert said["text"].split(";")[0].split("<")[0] in site.client.get("/leaderboard").text
    assert not said["too_few_votes"]
    for asked in ("category=nope", "language=xx", "on=2020-01-01"):
        empty = site.client.get(f"/leaderboard.json?{asked}").json()
        assert (empty["rows"], empty["verdict"]["leader"], empty["verdict"]["could_be_first"]) == ([], None, [])
    for name in ("category", "language", "kind"):
        page = site.client.get(f"/leaderboard?{name}=buy+at+evil.example").text
        assert f"of a {name} that this arena does not have" in page
        for address in (f"/leaderboard{kind}?{name}=buy+at+evil.example" for kind in ("", ".json", ".csv")):
            answer = site.client.get(address)
            assert "evil" not in answer.text, "what an address says is not repeated as if it were there"
            assert "evil" not in str(answer.headers)
    part = board_json(site, "?category=maths")
    assert part["verdict"]["text"] != ""
    assert part["votes"] < part["all_votes"] == 300


def test_a_young_board_invites_votes_instead_of_showing_chance(tmp_path_factory: pytest.TempPathFactory) -> None:
    with board_site(week_of_votes(6), tmp_path_factory.mktemp("young")) as made:
        page = made.client.get("/leaderboard").text
        assert "The first votes are still coming in" in page
        assert "too few to rank 8 models" in page
        assert '<svg class="strip"' not in page
        assert 'class="heatmap"' not in page
        assert '<details class="early">' in page, "the figures are one click away"
        said = made.client.get("/api/v1/leaderboard").json()["verdict"]
        assert said["too_few_votes"]
        assert (said["leader"], said["could_be_first"]) == (None, [])
        assert 0 < said["votes_needed"] <= 40
        assert made.client.get("/embed").status_code == 200
        assert made.client.get("/share/board.png").content[1:4] == b"PNG"


def test_columns_are_chosen_by_the_address_and_the_policys_are_the_default(site: BoardSite) -> None:
    def heads(asked: str) -> list[str]:
        return re.findall(r'data-sort="(\w+)"', site.client.get(f"/leaderboard{asked}").text)

    assert heads("")[3:] == list(CHOSEN_BY_DEFAULT)
    assert heads("?columns=votes,interval")[3:] == ["votes", "interval"]
    assert heads("?columns=interval&columns=votes")[3:] == ["votes", "interval"], "as a form without a script sends it"
    assert heads("?columns=none")[3:] == []
    assert heads("?category=maths&columns=none") == ["rank", "model", "rating", "votes"], "a part's board has its own"
    assert heads("?columns=secret")[3:] == list(CHOSEN_BY_DEFAULT)
    assert BoardQuery.of({"columns": ",".join(CHOSEN_BY_DEFAULT)}) == BoardQuery()
    assert BoardQuery.of({"columns": "interval,votes", "sort": "interval"}).address == (
        "?sort=interval&columns=votes,interval"
    )


def test_style_control_is_a_view_and_not_a_second_rating(site: BoardSite) -> None:
    page = site.client.get("/leaderboard?view=style").text
    assert "This is not the official order" in page
    assert "Style cannot be controlled for here" in page, "in this arena, length follows the model"
    assert page.count('class="num rating"') == 0


def test_style_control_takes_back_what_length_alone_won(site: BoardSite) -> None:
    """Voters who like long answers make the model that writes them look better; the view corrects for it."""
    snapshot = site.world.snapshot
    rng, votes = np.random.default_rng(2), snapshot.study.votes
    n = 3000
    a = rng.integers(len(MODELS), size=n)
    b = (a + 1 + rng.integers(len(MODELS) - 1, size=n)) % len(MODELS)
    prompt = rng.integers(6, size=n)
    styles = {
        (model, one): (int(400 * rng.lognormal(0.6 * (model == 0), 0.5)), 0, 0, 0)
        for model in range(len(MODELS))
        for one in range(6)
    }
    length = np.array([[styles[model, one][0] for one in range(6)] for model in range(len(MODELS))], dtype=float)
    share = (length[a, prompt] - length[b, prompt]) / (length[a, prompt] + length[b, prompt])
    won = rng.random(n) < 1 / (1 + np.exp(-3.0 * share))  # all models are equally good
    made = replace(
        votes, at=np.arange(n), model_a=a, model_b=b, prompt=prompt, voter=np.arange(n) % 200,
        outcome=np.where(won, 0, 1).astype(np.int8), matchup_ids=(), voters=(), block=np.full(n, -1),
        weight=np.ones(n), by_contender_lane=np.zeros(n, dtype=bool),
    )  # fmt: skip
    world = replace(snapshot, study=replace(snapshot.study, votes=made, offline=None))
    plain, controlled = (part_board(world, VotePart(style=style), lambda: styles) for style in (False, True))
    assert plain.offline is not None
    assert controlled.offline is not None
    off = {row.model: row.rating for row in plain.offline.rows}[MODELS[0]]
    on = {row.model: row.rating for row in controlled.offline.rows}[MODELS[0]]
    middle = float(np.mean([row.rating for row in controlled.offline.rows]))
    assert off - middle > 60
    assert abs(on - middle) < 35
    assert any(remark.startswith("longer answers: +") for remark in controlled.offline.remarks)


def test_the_board_of_a_day_is_what_its_votes_made_it(site: BoardSite) -> None:
    snapshot = site.world.snapshot
    days = days_of(snapshot.study.votes)
    assert len(days) >= 8
    last = board_json(site, f"?on={days[-1]}")
    assert [row["model"] for row in last["rows"]] == [row.model for row in snapshot.board.rows]
    assert [row["rating_shown"] for row in last["rows"]] == pytest.approx(
        [row.rating_shown for row in snapshot.board.rows]
    )
    early = board_json(site, f"?on={days[2]}")
    assert early["votes"] == int((snapshot.study.votes.at < day_end(days[2])).sum())
    assert early["ordered_by"] == "conservative"
    assert {row["model"] for row in early["rows"]} == set(MODELS) - {"plover"}, "it had no vote then"
    page = site.client.get(f"/leaderboard?on={days[2]}").text
    assert f"up to the end of {days[2]}" in page
    table = list(csv.DictReader(io.StringIO(site.client.get(f"/leaderboard.csv?on={days[2]}").text)))
    assert [row["place"] for row in table] == [str(place) for place in range(1, 8)]
    for outside in ("1999-01-01", "2031-01-01"):
        assert board_json(site, f"?on={outside}")["rows"] == []
    assert board_json(site, "?on=yesterday") == board_json(site, "")


def test_the_history_agrees_with_the_boards_of_its_days(site: BoardSite) -> None:
    found = history(site.world.snapshot)
    rows = list(csv.DictReader(io.StringIO(site.client.get("/history.csv").text)))
    for day in (found.days[0], found.days[4], found.days[-1]):
        board = board_json(site, f"?on={day}")
        ours = {row["model"]: (int(row["place"]), float(row["rating_shown"])) for row in rows if row["day"] == day}
        theirs = {row["model"].replace("=", "'="): (row["place"], row["rating_shown"]) for row in board["rows"]}
        assert ours.keys() == theirs.keys()
        for name, (place, rating) in ours.items():
            assert (place, pytest.approx(rating)) == theirs[name]
    page = site.client.get("/history").text
    assert page.count('<svg class="plot broad"') == 2
    assert " style=" not in page
    assert all(f'href="/leaderboard?on={day}"' in page for day in found.days)


def test_battles_can_be_fetched_by_day(site: BoardSite) -> None:
    def rows(asked: str) -> list[str]:
        return site.client.get(f"/api/v1/battles.jsonl{asked}").text.splitlines()

    everything, days = rows(""), history(site.world.snapshot).days
    assert sum(len(rows(f"?since={day}&on={day}")) for day in days) == len(everything) == 300
    assert rows(f"?on={days[3]}") == everything[: len(rows(f"?on={days[3]}"))]
    for bad in ("?on=soon", "?since=2026-13-40", "?on=99999-01-01"):
        assert site.client.get(f"/api/v1/battles.jsonl{bad}").status_code == 400


def test_parts_can_be_combined_and_unknown_ones_have_no_votes(site: BoardSite) -> None:
    snapshot = site.world.snapshot
    day = days_of(snapshot.study.votes)[5]
    both = votes_in(snapshot, VotePart(category="maths", day=day))
    assert len(both) < min(
        len(votes_in(snapshot, VotePart(category="maths"))), len(votes_in(snapshot, VotePart(day=day)))
    )
    assert board_json(site, f"?category=maths&on={day}")["votes"] == len(both)
    assert "Too few votes on these prompts" in site.client.get("/leaderboard?language=tlh").text


def test_ten_thousand_combinations_are_bounded(site: BoardSite, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only what occurs is computed, only a few are kept, and asking again costs nothing."""
    snapshot, made = site.world.snapshot, []
    monkeypatch.setattr(parts, "part_board", lambda _, part, __: made.append(part))
    kept = KeptParts(dict)
    days = days_of(snapshot.study.votes)
    for number in range(10_000):
        kept.get(snapshot, VotePart(category=f"c{number}", day=days[number % len(days)]))
    assert (made, len(kept)) == ([], 0)
    monkeypatch.setattr(parts, "part_board", lambda _, part, __: parts.PartBoard(part, 0, None))
    for category in (*snapshot.study.categories, ""):
        for day in days:
            part = VotePart(category=category, day=day)
            if not part.is_whole:
                kept.get(snapshot, part)
    assert len(kept) == parts.KEPT_PARTS


def test_an_embedded_board_may_be_framed_and_nothing_else(site: BoardSite) -> None:
    framed = site.client.get("/embed?models=3")
    assert "frame-ancestors *" in framed.headers["content-security-policy"]
    assert "script-src" not in framed.headers["content-security-policy"]
    assert "x-frame-options" not in framed.headers
    assert framed.headers["permissions-policy"] == site.client.get("/").headers["permissions-policy"]
    assert "set-cookie" not in framed.headers
    assert framed.text.count('class="model"') == 3
    assert "<script" not in framed.text
    assert "<form" not in framed.text
    for other in ("/leaderboard", "/embedded", "/embed/x", "/", "/history", "/share/board.png", "/admin"):
        headers = site.client.get(other).headers
        assert "frame-ancestors 'none'" in headers["content-security-policy"], other
        assert headers["x-frame-options"] == "DENY"
    for odd in ("0", "-1", "x", "9" * 30):
        assert site.client.get(f"/embed?models={odd}").status_code == 200


def test_pictures_are_drawn_once_and_have_the_usual_size(site: BoardSite) -> None:
    for address in ("/share/board.png", f"/share/models/{MODELS[1]}.png"):
        picture = site.client.get(address)
        assert picture.headers["content-type"] == "image/png"
        assert struct.unpack(">II", picture.content[16:24]) == (1200, 630)
        again = site.client.get(address, headers={"if-none-match": picture.headers["etag"]})
        assert again.status_code == 304
    for missing in ("/share/models/nobody.png", f"/share/models/{MODELS[1]}"):
        assert site.client.get(missing).status_code == 404
    assert legible("Größe 7B", "g7") == "Grosse 7B"
    assert legible("模型", "moxing") == "moxing"
    assert legible("模型", "模型-1") == "??-1"


def test_the_feed_is_atom_with_an_entry_for_every_week(site: BoardSite) -> None:
    assert ElementTree.fromstring(site.client.get("/validity/weeks.atom").content).tag.endswith("feed")
    weeks = [KeptWeek(f"2026-W0{n}", 0, 0, 9, 4, "calibrating", 12, n * 10**15) for n in (2, 1)]
    feed = ElementTree.fromstring(weeks_atom("Birds & <Bees>", "https://arena.example", weeks, 0))
    space = {"a": "http://www.w3.org/2005/Atom"}
    assert feed.findtext("a:title", namespaces=space) == "Birds & <Bees>: weekly validity reports"
    links = [one.get("href") for one in feed.findall("a:entry/a:link", space)]
    assert links == [f"https://arena.example/validity/weeks/{week.week}" for week in weeks]
    assert len({one.text for one in feed.iter("{http://www.w3.org/2005/Atom}id")}) == 3


def test_lines_of_a_part_and_of_the_whole_say_which_they_are(site: BoardSite) -> None:
    lines = board_lines(site.world.snapshot, BoardQuery(), None)
    assert all(line.then is None and line.scale is not None for line in lines)
    assert lines[-1].span is None or lines[-1].width is not None


def test_every_setting_is_explained_in_its_group() -> None:
    groups = policy_groups(Policy())
    assert [line.name for group in groups for line in group.lines if not line.meaning] == []
    assert [group.name for group in groups if not group.about] == []
    named = {name for _, _, lines in limit_groups(Policy().limits) for name, *_ in lines}
    assert named == set(msgspec.structs.asdict(Policy().limits))
    assert unit_of("undo_seconds", 5) == "seconds"
