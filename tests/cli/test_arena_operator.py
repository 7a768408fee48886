"""What the pages of `/admin` do, from a shell: models served or hidden, votes excluded or restored, reports settled."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.arena.engines import sql
from tests.cli.conftest import Run


@pytest.fixture
def db(tiltyard: Run, tmp_path: Path) -> str:
    url = f"sqlite:///{tmp_path / 'a.db'}"
    assert (
        tiltyard("arena", "simulate", "--votes", "200", "--models", "6", "--prompts", "5", "--db", url).returncode == 0
    )
    return url


def counted(db: str, voter: str) -> int:
    return int(sql(db, f"SELECT count(*) FROM matchups WHERE voter = '{voter}' AND counts = 1")[0][0])


def test_a_model_is_hidden_and_served_again(tiltyard: Run, db: str) -> None:
    hidden = json.loads(tiltyard("arena", "models", "hide", "model-001", "--db", db, "--format", "json").stdout)[
        "models"
    ]
    assert [row["model"] for row in hidden if not row["served"]] == ["model-001"]
    assert "off" not in tiltyard("arena", "models", "serve", "model-001", "--db", db).stdout
    assert "model-999" in tiltyard("arena", "models", "hide", "model-999", "--db", db).stderr


def test_votes_are_excluded_and_restored_by_voter_and_by_event(tiltyard: Run, db: str) -> None:
    voter = sql(db, "SELECT voter FROM matchups WHERE counts = 1 LIMIT 1")[0][0]
    n = counted(db, voter)
    excluding = ("arena", "exclude", voter, "--reason", "a script", "--db", db)
    assert f"{n} vote" in tiltyard(*excluding, "--dry-run").stdout
    assert counted(db, voter) == n
    assert tiltyard(*excluding).returncode == 0
    assert counted(db, voter) == 0
    assert tiltyard("arena", "restore", voter, "--reason", "a mistake", "--db", db).returncode == 0
    assert counted(db, voter) == n
    assert tiltyard(*excluding).returncode == 0
    event = sql(db, "SELECT max(seq) FROM events WHERE kind = 'excluded'")[0][0]
    assert tiltyard("arena", "restore", "--event", str(event), "--reason", "a mistake", "--db", db).returncode == 0
    assert counted(db, voter) == n
    assert tiltyard("arena", "verify", "--db", db).returncode == 0


def test_what_cannot_be_decided_is_refused(tiltyard: Run, db: str) -> None:
    for arguments in (
        ("exclude", "nobody", "--reason", "x"),
        ("exclude", "session-000000", "--reason", " "),
        ("exclude", "--reason", "x"),
        ("restore", "--reason", "x"),
        ("restore", "--event", "1", "--reason", "x"),
        ("models", "hide"),
        ("reports", "dismiss", "none"),
    ):
        assert tiltyard("arena", *arguments, "--db", db).returncode == 1, arguments
    assert sql(db, "SELECT count(*) FROM events WHERE kind IN ('excluded', 'restored')") == [(0,)]


def test_reports_are_settled_and_comments_deleted(tiltyard: Run, db: str) -> None:
    matchup = sql(db, "SELECT id FROM matchups WHERE counts = 1 LIMIT 1")[0][0]
    sql(db, f"INSERT INTO reports VALUES ('{matchup}', 'A', 1, 'it is empty', NULL)")
    sql(db, f"INSERT INTO texts VALUES ('{'d' * 64}', 'comment', '{matchup}', 's', 'B rambles', 1)")
    said = json.loads(tiltyard("arena", "reports", "--db", db, "--format", "json").stdout)
    assert [report["words"] for report in said["reports"]] == [["it is empty"]]
    assert [comment["comment"] for comment in said["comments"]] == ["B rambles"]
    assert "it is empty" in tiltyard("arena", "reports", "--db", db).stdout
    tiltyard("arena", "reports", "delete-comment", matchup, "--db", db)
    left = tiltyard("arena", "reports", "dismiss", said["reports"][0]["answer"], "--db", db)
    assert "no report is waiting" in left.stdout
    assert sql(db, "SELECT count(*) FROM texts WHERE kind = 'comment'") == [(0,)]
