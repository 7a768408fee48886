"""A board as text, Markdown, CSV, JSON and HTML, and the ratings file it becomes."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import time
from hashlib import sha256
from threading import Thread

import pytest
from board_rows import arena, battle

import tiltyard as ty
from tiltyard.analysis.boards import as_table
from tiltyard.analysis.boards.text import EXTRA_COLUMNS, as_html, as_markdown
from tiltyard.errors import BattleError

UNBEATEN = arena(1, n=200, prompts=20) + battle("z>a", 3, question_id="q1") + battle("z>c", 3, question_id="q2")
FILE_FIELDS = {
    *("arena", "model", "judge_model", "n_bootstraps", "seed", "ratings", "method", "tie_model", "both_bad"),
    *("scale", "anchor", "interval", "battles_sha256", "tiltyard_version"),
}
ENTRY_FIELDS = {
    *("model", "rating", "ci_low", "ci_high", "n_battles", "source", "rank", "rank_low", "rank_high"),
    *("wins", "losses", "ties", "both_bad"),
}


@pytest.fixture(scope="module")
def board():
    return ty.rate(UNBEATEN + battle("a!b", 2))


def test_the_json_has_the_fields_of_a_ratings_file_and_nulls_for_open_sides(board, tmp_path):
    path = tmp_path / "elo_ratings.json"
    text = board.to_json(path)
    assert path.read_text() == text
    contents = json.loads(text, parse_constant=lambda word: pytest.fail(f"{word} is not JSON"))
    assert set(contents) >= FILE_FIELDS
    assert (contents["method"], contents["tie_model"], contents["both_bad"]) == ("bt", "davidson", "separate")
    interval = contents["interval"]
    assert (interval["kind"], interval["level"], interval["cluster"]) == ("sandwich", 0.95, "question_id")
    (way,) = interval["clusters"]
    assert (way["column"], interval["correction"]) == ("question_id", "leave-one-out")
    assert 1.0 < way["effective"] <= way["count"]
    low, high = interval["degrees_of_freedom"]
    assert 1.5 <= low <= high < way["count"]
    for row, entry in zip(contents["ratings"], board, strict=True):
        assert set(row) >= ENTRY_FIELDS
        assert row["rating"] == entry.rating
        assert isinstance(row["n_battles"], int)
    unbeaten = contents["ratings"][0]
    assert (unbeaten["model"], unbeaten["ci_high"]) == ("z", None)
    assert "unbeaten" in unbeaten["note"]
    assert contents["n_battles"] == len(UNBEATEN) + 2


@pytest.mark.parametrize("method", ["bt", "elo", "elo-perm", "glicko2", "winrate"])
def test_every_board_is_json_csv_text_and_html(method):
    rated = ty.rate(UNBEATEN, method=method)
    contents = json.loads(rated.to_json())
    assert [row["model"] for row in contents["ratings"]] == rated.models
    lines = list(csv.DictReader(io.StringIO(rated.render("csv"))))
    assert [line["model"] for line in lines] == rated.models
    assert [float(line["rating"]) for line in lines] == [entry.rating for entry in rated]
    for text in (as_table(rated), as_markdown(rated), as_html(rated)):
        assert all(name in text for name in rated.models)


def test_the_table_shows_rank_interval_rating_interval_battles_and_what_they_were(board):
    text = str(board)
    lines = text.splitlines()
    assert lines[0].startswith("Bradley–Terry · 208 battles · 6 models · ties by Davidson · 95 % intervals by prompt")
    header = lines[2].split()
    assert header[:3] == ["rank", "model", "rating"]
    assert {"battles", "W", "L", "T"} <= set(header)
    for entry, line in zip(board, lines[4:], strict=False):
        assert entry.model in line
        assert f"{entry.rating:.1f}" in line
        assert f"{entry.rank_low}" in line
    assert "…" in lines[4]
    assert "no upper bound" in text


def test_a_table_has_one_width(board):
    lines = str(board).splitlines()
    rule = lines[3]
    assert set(rule) == {"─"}
    assert all(len(line) <= len(rule) for line in lines[4 : 4 + len(board)])


def test_markdown_is_a_table_even_with_pipes_in_names():
    rated = ty.rate(battle("a|b>c", 2) + battle("c>a|b"))
    lines = as_markdown(rated).splitlines()
    table = [line for line in lines if line.startswith("|")]
    columns = {len(re.findall(r"(?<!\\)\|", line)) for line in table}
    assert len(columns) == 1
    assert r"a\|b" in as_markdown(rated)


def test_csv_leaves_open_sides_empty(board):
    first, second, *_ = csv.DictReader(io.StringIO(board.render("csv")))
    assert (first["model"], first["ci_high"]) == ("z", "")
    assert float(second["ci_low"]) == board[second["model"]].ci_low


def test_html_escapes_names():
    rows = [
        {"model_a": "<script>alert(1)</script>", "model_b": "x & y", "winner": winner, "source": "human"}
        for winner in ("model_a", "model_b")
    ]
    rated = ty.rate(rows)
    page = rated._repr_html_()
    assert "<script>" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "x &amp; y" in page


def test_a_frame_has_one_row_per_model_in_the_boards_order(board):
    frame = board.to_frame()
    assert list(frame["model"]) == board.models
    assert list(frame["rating"]) == [entry.rating for entry in board]


def test_a_board_says_what_it_is(board):
    assert repr(board) == "<Leaderboard: 6 models by bt, 208 battles>"
    assert len(board) == 6
    assert board["a"].model == "a"
    with pytest.raises(KeyError):
        board["nobody"]


def test_a_ratings_file_comes_back_as_it_was(board, tmp_path):
    report = ty.RatingsFile.of(board, arena="birds", model="z", judge_model="judge-1")
    report.write(tmp_path / "elo_ratings.json")
    again = ty.RatingsFile.read(tmp_path / "elo_ratings.json")
    assert again == report
    assert again.to_json() == report.to_json()
    assert (again.arena, again.model, again.judge_model) == ("birds", "z", "judge-1")
    assert again.ratings == board.entries


def test_unknown_fields_of_a_later_version_are_kept():
    contents = {
        "arena": "birds",
        "model": "z",
        "judge_model": None,
        "n_bootstraps": 100,
        "seed": 3,
        "temperature": 0.7,
        "ratings": [
            {
                "model": "z",
                "rating": 1010.0,
                "ci_low": 1000.0,
                "ci_high": None,
                "n_battles": 4,
                "source": "evaluated",
                "glow": 2,
            },
            {"model": "a", "rating": 990.0, "ci_low": 980.0, "ci_high": 1000.0, "n_battles": 4, "source": "human"},
        ],
    }
    report = ty.RatingsFile.from_dict(contents)
    assert report.further == {"temperature": 0.7}
    assert report.ratings[0].extra == {"glow": 2}
    assert [entry.rank for entry in report.ratings] == [1, 2]
    written = report.to_dict()
    assert written["temperature"] == 0.7
    assert written["ratings"][0]["glow"] == 2
    assert contents["ratings"][0].items() <= written["ratings"][0].items()


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        "{}",
        '{"ratings": 3}',
        '{"ratings": [{"rating": 3}]}',
        '{"ratings": [5]}',
        '{"ratings": [], "interval": 95}',
        "not json",
        "",
    ],
)
def test_what_is_no_ratings_file_is_an_error_that_says_so(text, tmp_path):
    path = tmp_path / "x.json"
    path.write_text(text)
    with pytest.raises(BattleError, match="ratings file"):
        ty.RatingsFile.read(path)


def test_an_absent_ratings_file_is_an_error(tmp_path):
    with pytest.raises(BattleError, match=r"nothing\.json"):
        ty.RatingsFile.read(tmp_path / "nothing.json")


def test_the_report_names_the_evaluated_model():
    report = ty.RatingsFile.of(ty.rate(UNBEATEN, evaluated="z", ci="bootstrap", rounds=20, seed=5))
    assert (report.model, report.n_bootstraps, report.seed) == ("z", 20, 5)


def test_the_same_battles_parameters_and_seed_give_the_same_bytes():
    options = {"ci": "bootstrap", "rounds": 50, "seed": 11}
    assert ty.rate(UNBEATEN, **options).to_json() == ty.rate(UNBEATEN, **options).to_json()


def test_not_a_number_is_null_in_json():
    from tiltyard.files import json_text

    assert json.loads(json_text({"x": float("nan"), "y": [float("inf"), 1.0]})) == {"x": None, "y": [None, 1.0]}


def test_what_was_left_out_is_said_under_the_table():
    rated = ty.rate(UNBEATEN + battle("q!a", 3), inconsistent="drop")
    assert "left out: 3 × no rated battle: q" in str(rated)


def judged(judge, times=1):
    rows = battle("a>b", 3 * times) + battle("b>a", times) + battle("b>c", times) + battle("c>b", times)
    return [{**row, "source": "llm-judge", "judge_model": judge} for row in rows]


@pytest.mark.parametrize("method", ["bt", "elo", "elo-perm", "glicko2", "winrate"])
def test_the_ratings_file_names_the_judge_that_its_battles_name(method, tmp_path):
    ty.write_battles(tmp_path / "battles.jsonl", judged("umpire") + arena(1, n=40, models="abc"))
    board = ty.rate(tmp_path / "battles.jsonl", method=method)
    board.to_json(tmp_path / "elo_ratings.json")
    assert json.loads((tmp_path / "elo_ratings.json").read_text())["judge_model"] == "umpire"
    assert ty.RatingsFile.read(tmp_path / "elo_ratings.json").judge_model == "umpire"
    assert ty.RatingsFile.of(board, judge_model="another").judge_model == "another"


@pytest.mark.parametrize("prompts", [{}, {"question_id": "q1"}])
def test_several_judges_are_named_in_the_order_of_the_alphabet_and_only_those_that_are_rated(prompts):
    rows = [{**row, **prompts} for row in judged("zoe", 9) + judged("adam", 9) + arena(1, n=400, models="abc")]
    table = ty.read_battles(rows)
    for data in (rows, table):
        assert ty.RatingsFile.of(ty.rate(data)).judge_model == "adam + zoe"
        assert ty.RatingsFile.of(ty.rate(data, source="human")).judge_model is None
    plain = ty.read_battles([{name: value for name, value in row.items() if name != "judge_model"} for row in rows])
    assert ty.rate(table).ratings == ty.rate(plain).ratings
    assert ty.RatingsFile.of(ty.rate(plain)).judge_model is None


def test_battles_from_a_slow_pipe_are_those_of_the_file(tmp_path):
    lines = [json.dumps(row).encode() + b"\n" for row in arena(2, n=120, prompts=20)]
    file, pipe = tmp_path / "battles.jsonl", tmp_path / "pipe"
    file.write_bytes(b"".join(lines))
    os.mkfifo(pipe)

    def write() -> None:
        with pipe.open("wb", buffering=0) as stream:
            for line in lines:
                stream.write(line)
                time.sleep(0.001)

    Thread(target=write, daemon=True).start()
    board = ty.rate(pipe)
    assert board.render("csv") == ty.rate(file).render("csv")
    assert board.settings.battles_sha256 == sha256(file.read_bytes()).hexdigest()


@pytest.mark.parametrize("method", ["bt", "elo", "elo-perm", "glicko2", "winrate"])
def test_every_column_that_only_some_boards_have_is_explained(method: str) -> None:
    known = {column.name for column in EXTRA_COLUMNS}
    more = {"bt": {"ci": "bootstrap", "rounds": 5, "robustness": True}, "elo-perm": {"n_perms": 5}}
    rows = arena(1, n=200, prompts=20)
    boards = [ty.rate(rows, method=method, **more.get(method, {}))]
    if method == "bt":
        boards += ty.rate(
            [{**row, "half": at % 2} for at, row in enumerate(rows)], by="half", pool=True
        ).boards.values()
    assert {name for board in boards for entry in board for name in entry.extra} <= known
