"""What goes wrong in a review: folders, links, clocks and people that are not as they should be."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests import within
from tests.arena.review.teams import new_review, open_site, visitor
from tests.forked import Forked, command
from tests.site.sites import form_in
from tiltyard.arena.review import (
    ReviewResult,
    boards_of,
    change_people,
    close_review,
    desk,
    median_seconds,
    open_review,
    read_source,
)
from tiltyard.arena.review.labels import summaries
from tiltyard.errors import OptionError


def test_one_link_in_two_browsers_is_one_vote_and_the_later_one_is_told(tmp_path: Path) -> None:
    review = new_review(tmp_path, 2, people="ann", each=1)
    with open_site(review) as site:
        one, two = visitor(site, review, "ann"), visitor(site, review, "ann")
        mine, theirs = form_in(one.get("/").text), form_in(two.get("/").text)
        assert mine["matchup_id"] == theirs["matchup_id"]
        assert one.post("/vote", data={**mine, "choice": "A"}).status_code == 303
        assert two.post("/vote", data={**theirs, "choice": "A"}).status_code == 303  # the same again is the same
        refused = two.post("/vote", data={**theirs, "choice": "B"})
        assert refused.status_code == 409
        assert "Take it back if you want to change it." in refused.text
    assert [turn.choice for turn in review.log().turns.values() if turn.choice] == ["A"]


def test_what_comes_after_the_close_is_refused_in_words(tmp_path: Path) -> None:
    review = new_review(tmp_path, 2, people="ann", each=1)
    with open_site(review) as site:
        ann = visitor(site, review, "ann")
        voted = form_in(ann.get("/").text)
        ann.post("/vote", data={**voted, "choice": "A"})
        waiting = form_in(ann.get("/").text.partition('class="aside"')[0])
        close_review(review)
        late = ann.post("/vote", data={**waiting, "choice": "A"})
        assert (late.status_code, "This review is closed." in late.text) == (410, True)
        said = ann.post(f"/api/v1/matchups/{voted['matchup_id']}/comment", json={"comment": "late"})
        assert said.status_code == 410
    with pytest.raises(OptionError, match="nobody joins or leaves"):
        change_people(review, add=["bob"])
    assert [person.name for person in open_review(review.folder).links.people] == ["ann"]


def test_a_close_that_is_cut_off_is_finished_by_the_next_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    review = new_review(tmp_path, 2, people="ann", each=1)
    with monkeypatch.context() as patch:
        patch.setattr(
            "tiltyard.verbs.review.export", lambda _: (_ for _ in ()).throw(OSError(28, "No space left on device"))
        )
        cut_off = within.run(tmp_path, "review", "close", "review")
    assert (cut_off.returncode, "No space left" in cut_off.stderr) == (1, True)
    assert not (review.folder / "labels.jsonl").exists()
    again = within.run(tmp_path, "review", "close", "review")
    assert (again.returncode, "was closed before; its files are written" in again.stderr) == (0, True)
    assert {"labels.jsonl", "battles.jsonl", "reviews.jsonl", "report.html"} <= {
        path.name for path in review.folder.iterdir()
    }


def test_a_start_that_fails_leaves_nothing_behind_and_one_that_was_killed_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = desk.write_private

    def fail(path: Path, content: bytes) -> None:
        if path.name == "review.json":
            raise OSError("disk full")
        write(path, content)

    with monkeypatch.context() as patch:
        patch.setattr(desk, "write_private", fail)
        with pytest.raises(OSError, match="disk full"):
            new_review(tmp_path, 2)
    assert not (tmp_path / "review").exists()
    (tmp_path / "review").mkdir()
    (tmp_path / "review" / "arena.db").write_bytes(b"")
    with pytest.raises(OptionError, match="a start that did not finish"):
        new_review(tmp_path, 2)


def test_a_review_without_its_database_or_its_judge_says_what_is_missing(tmp_path: Path) -> None:
    rows = [
        {
            "model_a": "x",
            "model_b": "y",
            "winner": "model_a",
            "question_id": f"q{n}",
            "response_a": "1",
            "response_b": "2",
        }
        for n in range(3)
    ]
    rows.append({**rows[0], "question_id": "self", "model_b": "x"})
    path = tmp_path / "battles.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    source = read_source([path])
    assert (len(source.candidates), source.notes) == (
        3,
        ["1 battles without their answers, or of a model with itself, cannot be reviewed"],
    )
    review, _ = desk.start_review(source, tmp_path / "review", ["ann"], places=[path], each=1)
    path.unlink()
    assert "battles.jsonl" in boards_of(ReviewResult.of(review)).missing["judge"]
    (tmp_path / "review" / "arena.db").rename(tmp_path / "elsewhere.db")
    assert "arena.db, which has the votes, is missing" in within.run(tmp_path, "review", "status", "review").stderr


def test_a_clock_that_was_put_back_gives_no_negative_pace(tmp_path: Path) -> None:
    review = new_review(tmp_path, 1, people="ann", each=1)
    with open_site(review) as site:
        ann = visitor(site, review, "ann")
        ann.post("/vote", data={**form_in(ann.get("/").text), "choice": "A"})
    log = review.log()
    (turn,) = log.turns.values()
    turn.closed_at = turn.served_at - 3_600_000_000
    assert median_seconds([turn]) == 0.0
    assert summaries(log)[0].seconds == 0.0


def test_several_people_leave_and_join_in_one_command(tmp_path: Path) -> None:
    review = new_review(tmp_path, 2)
    words = ("review", "people", str(review.folder), "--remove", "ann", "--remove", "bob", "--add", "dan,eve")
    done = Forked(tmp_path, "people", command, *words).wait()
    assert done.returncode == 0, done.stderr
    assert [line.split()[0] for line in done.stdout.splitlines()] == ["cyd", "dan", "eve"]
