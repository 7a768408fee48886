"""The doctor of a deployment: what is right is said to be right, what is wrong is named with what to do."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import Run, tiltyard
from tests.web.sites import QUICK, SECRET, LiveServer, catalog
from tiltyard.arena.following.observatory import Observatory
from tiltyard.arena.heads import new_key
from tiltyard.arena.policy import Policy, read_policy
from tiltyard.arena.service import Arena
from tiltyard.arena.store.witnessing import record_head, state_head
from tiltyard.web import checkup
from tiltyard.web.app import create_app
from tiltyard.web.checkup import CheckupLine, Need
from tiltyard.web.settings import SiteSettings

__all__ = ["tiltyard"]

NOW = 1_800_000_000.0


def needs(lines: Iterator[CheckupLine] | list[CheckupLine], part: str) -> list[str]:
    return [line.need for line in lines if line.part == part]


@pytest.fixture
def arena(sqlite_url: str) -> Iterator[Arena]:
    with Arena.open(sqlite_url) as made:
        made.append(catalog())
        yield made


@pytest.mark.parametrize(
    ("proxies", "public_url", "need", "said"),
    [
        ((), None, Need.GOOD, "the site sees this machine as 127.0.0.1"),
        (("127.0.0.1",), None, Need.MEND, "believes any address that a visitor claims"),
    ],
)
def test_as_whom_the_site_sees_visitors_tells_what_its_proxy_does(
    arena: Arena, sqlite_url: str, proxies: tuple[str, ...], public_url: str | None, need: Need, said: str
) -> None:
    settings = SiteSettings(db=sqlite_url, secret=SECRET, trusted_proxies=proxies, public_url=public_url)
    with Observatory(sqlite_url, pace=QUICK) as observatory:
        server = LiveServer(create_app(settings, arena, observatory))
        server.start()
        try:
            found = list(checkup.check_site(server.url, SECRET, time.time()))
            stranger = list(checkup.check_site(server.url, "another secret of some length", time.time()))
        finally:
            server.stop()
    assert needs(found, "site") == [Need.GOOD]
    assert needs(found, "clock") == [Need.GOOD]
    (proxy,) = [line for line in found if line.part == "proxy"]
    assert proxy.need is need
    assert said in proxy.said
    (proxy,) = [line for line in stranger if line.part == "proxy"]
    assert "did not know this doctor" in proxy.said


@pytest.mark.parametrize(
    ("seen", "scheme", "host", "wanted"),
    [
        ({"address": "8.8.8.8", "https": True}, "https", "arena.example.org", [Need.GOOD]),
        ({"address": "10.0.0.1", "https": True}, "https", "arena.example.org", [Need.MEND]),
        ({"address": "8.8.8.8", "https": False}, "https", "arena.example.org", [Need.GOOD, Need.MEND]),
        ({"address": checkup.CLAIMED, "https": True}, "https", "arena.example.org", [Need.MEND]),
        ({"address": "127.0.0.1", "https": False}, "http", "localhost", [Need.GOOD]),
        (None, "https", "arena.example.org", [Need.LOOK]),
    ],
)
def test_a_proxy_that_hides_visitors_or_their_scheme_is_named(
    seen: object, scheme: str, host: str, wanted: list[Need]
) -> None:
    assert [line.need for line in checkup._check_seen(seen, scheme, host)] == wanted


def test_a_token_is_good_for_five_minutes_and_for_one_secret() -> None:
    token = checkup.doctor_token(SECRET, NOW)
    assert checkup.is_doctor(token, SECRET, NOW + 299)
    assert not checkup.is_doctor(token, SECRET, NOW + 301)
    assert not checkup.is_doctor(token, SECRET + "x", NOW)
    assert not checkup.is_doctor(token[:-1], SECRET, NOW)
    assert not checkup.is_doctor("", SECRET, NOW)
    assert not checkup.is_doctor("²." + token.partition(".")[2], SECRET, NOW)
    assert not checkup.is_doctor("9" * 5000, SECRET, NOW)


def test_heads_are_wanted_fresh_and_signed(arena: Arena) -> None:
    now = time.time()
    assert needs(checkup.check_store(arena.store, Policy(), now), "heads") == [Need.MEND]
    head, _ = state_head(arena.store, arena.now())
    record_head(arena.store, head, arena.now())
    assert needs(checkup.check_store(arena.store, Policy(), now), "heads") == [Need.LOOK]
    head, file = state_head(arena.store, arena.now(), pem=new_key()[0])
    record_head(arena.store, head, arena.now(), file)
    assert needs(checkup.check_store(arena.store, Policy(), now), "heads") == [Need.GOOD]
    assert needs(checkup.check_store(arena.store, Policy(), now + 3 * 86_400), "heads") == [Need.MEND]


def test_rights_room_and_clock(arena: Arena, sqlite_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = Path(sqlite_url.removeprefix("sqlite:///"))
    path.chmod(0o600)
    found = list(checkup.check_store(arena.store, Policy(), NOW))
    assert needs(found, "database") == [Need.GOOD]
    assert needs(found, "limits") == [Need.GOOD]
    path.chmod(0o644)
    monkeypatch.setattr(checkup, "ROOM", 1 << 60)
    found = list(checkup.check_store(arena.store, Policy(), NOW))
    assert needs(found, "database") == [Need.GOOD, Need.LOOK]
    assert needs(found, "disk") == [Need.MEND]
    assert [checkup._clock("clock", "it", ahead).need for ahead in (-1.9, 1.9, -60, 60)] == ["ok", "ok", "mend", "mend"]


def test_the_clock_of_postgresql_is_read(postgresql_url: str) -> None:
    with Arena.open(postgresql_url) as arena:
        assert needs(checkup.check_store(arena.store, Policy(), time.time()), "clock") == [Need.GOOD]


def test_weaker_limits_are_named() -> None:
    weaker = read_policy({"limits": {"session_votes_per_day": 5000}, "waiting": {"pairs_wait": False}})
    (line,) = checkup._check_limits(weaker)
    assert line.need is Need.LOOK
    assert "limits.session_votes_per_day 5000 (1000)" in line.said
    assert "waiting.pairs_wait" in line.said


def test_backups_are_wanted_fresh_and_full(tmp_path: Path) -> None:
    assert checkup.check_backups(tmp_path / "none", NOW).need is Need.MEND
    copy = tmp_path / "arena-2027-01-15.db"
    copy.write_bytes(b"something")
    os.utime(copy, (NOW - 3600, NOW - 3600))
    assert checkup.check_backups(tmp_path, NOW).need is Need.GOOD
    assert checkup.check_backups(tmp_path, NOW + 3 * 86_400).need is Need.MEND
    copy.write_bytes(b"")
    os.utime(copy, (NOW - 3600, NOW - 3600))
    assert "empty" in checkup.check_backups(tmp_path, NOW).said


def test_a_certificate_is_looked_at_and_a_site_that_is_away_is_said(tmp_path: Path) -> None:
    found = list(checkup.check_site("https://127.0.0.1:9", SECRET, NOW))
    assert [line.part for line in found if line.need is Need.MEND] == ["tls", "site"]
    (tls, _) = checkup.check_site("http://192.0.2.1.example.invalid", SECRET, NOW)
    assert "not https" in tls.said


def test_the_command_says_what_to_mend_and_no_secret(
    sqlite_url: str, tiltyard: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TILTYARD_SECRET", "x" * 30 + "hidden")
    done = tiltyard("arena", "doctor", "--db", sqlite_url)
    assert done.returncode == 3, done.stderr
    assert "mend  heads     none was ever published" in done.stdout
    assert "→ Run deploy/backup.sh nightly" in done.stdout
    assert done.stdout.endswith("1 to mend\n")
    assert "hidden" not in done.stdout + done.stderr
    done = tiltyard("arena", "doctor", "--db", sqlite_url + ".none")
    assert done.returncode == 3
    assert "mend  database  there is no arena at" in done.stdout
