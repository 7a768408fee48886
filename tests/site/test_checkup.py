"""The doctor of a deployment: what is right is said to be right, what is wrong is named with what to do."""

from __future__ import annotations

import json
import os
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519
from cryptography.x509.oid import NameOID

from tests.cli.conftest import Run, tiltyard
from tests.site.sites import QUICK, SECRET, LiveServer, catalog, live_site
from tiltyard.arena import Arena, Policy, new_key, read_policy
from tiltyard.arena.audit import state_head
from tiltyard.arena.store import record_head
from tiltyard.arena.study import Observatory
from tiltyard.site import checkup
from tiltyard.site.app import create_app
from tiltyard.site.checkup import CheckupLine, Need
from tiltyard.site.settings import SiteSettings
from tiltyard.verbs.arena import doctor as findings

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
        (("127.0.0.1",), None, Need.REPAIR, "believes any address that a visitor claims"),
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
            found = list(checkup.check_site(server.url, SECRET))
            stranger = list(checkup.check_site(server.url, "another secret of some length"))
        finally:
            server.stop()
    assert needs(found, "site") == [Need.GOOD]
    (proxy,) = [line for line in found if line.part == "proxy"]
    assert proxy.need is need
    assert said in proxy.message
    (proxy,) = [line for line in stranger if line.part == "proxy"]
    assert "did not know this doctor" in proxy.message


@pytest.mark.parametrize(
    ("seen", "scheme", "host", "wanted"),
    [
        ({"address": "8.8.8.8", "https": True}, "https", "arena.example.org", [Need.GOOD]),
        ({"address": "10.0.0.1", "https": True}, "https", "arena.example.org", [Need.REPAIR]),
        ({"address": "8.8.8.8", "https": False}, "https", "arena.example.org", [Need.GOOD, Need.REPAIR]),
        ({"address": checkup.CLAIMED, "https": True}, "https", "arena.example.org", [Need.REPAIR]),
        ({"address": "127.0.0.1", "https": False}, "http", "localhost", [Need.GOOD]),
        (None, "https", "arena.example.org", [Need.LOOK]),
    ],
)
def test_a_proxy_that_hides_visitors_or_their_scheme_is_named(
    seen: object, scheme: str, host: str, wanted: list[Need]
) -> None:
    assert [line.need for line in checkup._check_seen(seen, scheme, host)] == wanted


def test_who_listens_where_strangers_come_in_is_told_to_put_a_proxy_in_front() -> None:
    hosts = ("127.0.0.1", "::1", "localhost", "10.0.0.7", "0.0.0.0", "::", "8.8.8.8", "arena.example.org")
    assert [checkup.is_private(host) for host in hosts] == [True] * 4 + [False] * 4


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
    assert needs(checkup.check_store(arena.store, Policy(), now), "heads") == [Need.REPAIR]
    record_head(arena.store, state_head(arena.store, arena.now()), arena.now())
    assert needs(checkup.check_store(arena.store, Policy(), now), "heads") == [Need.LOOK]
    record_head(arena.store, state_head(arena.store, arena.now(), pem=new_key()[0]), arena.now())
    assert needs(checkup.check_store(arena.store, Policy(), now), "heads") == [Need.GOOD]
    assert needs(checkup.check_store(arena.store, Policy(), now + 3 * 86_400), "heads") == [Need.REPAIR]


def test_rights_room_and_clock(arena: Arena, sqlite_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = Path(sqlite_url.removeprefix("sqlite:///"))
    path.chmod(0o600)
    found = list(checkup.check_store(arena.store, Policy(), NOW))
    assert needs(found, "database") == [Need.GOOD]
    assert needs(found, "limits") == [Need.GOOD]
    saved = path.with_name("arena.db.saved-7")
    saved.touch()
    found = list(checkup.check_store(arena.store, Policy(), NOW))
    assert needs(found, "database") == [Need.GOOD, Need.LOOK]
    assert any(saved.name in line.message for line in found)
    saved.unlink()
    path.chmod(0o644)
    monkeypatch.setattr(checkup, "ROOM", 1 << 60)
    found = list(checkup.check_store(arena.store, Policy(), NOW))
    assert needs(found, "database") == [Need.GOOD, Need.LOOK]
    assert needs(found, "disk") == [Need.REPAIR]
    clocks = [checkup._clock(ahead).need for ahead in (-1.9, 1.9, -60, 60)]
    assert clocks == ["ok", "ok", "repair", "repair"]


def test_the_clock_of_postgresql_is_read(postgresql_url: str) -> None:
    with Arena.open(postgresql_url) as arena:
        assert needs(checkup.check_store(arena.store, Policy(), time.time()), "clock") == [Need.GOOD]


def test_weaker_limits_are_named() -> None:
    weaker = read_policy({"limits": {"session_votes_per_day": 5000}, "waiting": {"pairs_wait": False}})
    (line,) = checkup._check_limits(weaker)
    assert line.need is Need.LOOK
    assert "limits.session_votes_per_day 5000 (1000)" in line.message
    assert "waiting.pairs_wait" in line.message


def test_backups_are_wanted_fresh_and_full(tmp_path: Path) -> None:
    assert checkup.check_backups(tmp_path / "none", NOW).need is Need.REPAIR
    copy = tmp_path / "arena-2027-01-15.db"
    copy.write_bytes(b"something")
    os.utime(copy, (NOW - 3600, NOW - 3600))
    assert checkup.check_backups(tmp_path, NOW).need is Need.GOOD
    assert checkup.check_backups(tmp_path, NOW + 3 * 86_400).need is Need.REPAIR
    copy.write_bytes(b"")
    os.utime(copy, (NOW - 3600, NOW - 3600))
    assert "empty" in checkup.check_backups(tmp_path, NOW).message


def reply(body: str = "", status: str = "200 OK", **headers: str) -> bytes:
    lines = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
    return f"HTTP/1.0 {status}\r\n{lines}\r\n{body}".encode()


@contextmanager
def strange_server(answer: bytes, again: bytes = b"", certificate: Path | None = None) -> Iterator[int]:
    """A port that answers anything with these bytes, and sends `again` every 20 ms after them."""
    server = socket.create_server(("127.0.0.1", 0))
    stopped = threading.Event()

    def serve() -> None:
        while not stopped.is_set():
            try:
                client, _ = server.accept()
            except OSError:
                return
            try:
                if certificate is not None:
                    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
                    context.load_cert_chain(certificate)
                    client = context.wrap_socket(client, server_side=True)
                client.recv(4096)
                client.sendall(answer)
                while again and not stopped.wait(0.02):
                    client.sendall(again)
            except OSError:
                pass
            finally:
                client.close()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield server.getsockname()[1]
    finally:
        stopped.set()
        server.shutdown(socket.SHUT_RDWR)
        server.close()
        thread.join(5)


READY = json.dumps({"status": "ready", "version": "1"})


@pytest.mark.parametrize(
    ("answer", "part", "said"),
    [
        (reply(status="302 Found", Location="/healthz"), "site", "answers (status 302), but not as an arena does"),
        (reply("x" * 300_000), "site", "answers (status 200), but not as an arena does"),
        (reply("[" * 90_000), "site", "but not as an arena does"),
        (reply("<h1>Welcome to nginx</h1>"), "site", "but not as an arena does"),
        (reply(json.dumps({"status": "ready", "trouble": 7}), "503 Busy"), "site", "says ready (status 503)"),
        (reply(json.dumps({"status": "\x1b[2Jgone", "trouble": ["\x07disk"]}), "503 No"), "site", "says [2Jgone"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "site", "does not answer (SSH-2.0-OpenSSH_9.2)"),
        (b"", "site", "does not answer (Remote end closed connection without response)"),
        (
            reply('{"status": "ready", "seen": {"address": "203.0.113.77"}}'),
            "proxy",
            "believes any address that a visitor claims",
        ),
    ],
)
def test_whoever_answers_instead_of_the_site_gets_one_line(answer: bytes, part: str, said: str) -> None:
    with strange_server(answer) as port:
        found = list(checkup.check_site(f"http://127.0.0.1:{port}", SECRET))
    (line,) = [line for line in found if line.part == part]
    assert line.need is Need.REPAIR
    assert said in line.message
    assert line.message.isprintable()


def test_files_taken_away_from_a_running_site_are_named(sqlite_url: str) -> None:
    with live_site(sqlite_url) as address:
        Path(sqlite_url.removeprefix("sqlite:///") + "-wal").unlink()
        (line,) = [line for line in checkup.check_site(address, SECRET) if line.part == "site"]
    assert line.need is Need.REPAIR
    assert line.todo.startswith("arena.db-wal was removed")


def test_a_redirect_is_not_followed_so_the_token_stays_here(arena: Arena) -> None:
    with strange_server(reply(READY)) as aim:
        there = reply(status="301 Moved", Location=f"http://127.0.0.1:{aim}/")
        with strange_server(there) as port:
            (line,) = checkup.check_site(f"http://127.0.0.1:{port}", SECRET)
    assert "status 301" in line.message


def certificate(folder: Path) -> Path:
    """A certificate that nobody vouches for, with its key."""
    key = ed25519.Ed25519PrivateKey.generate()
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    start = datetime.now(UTC)
    made = x509.CertificateBuilder(name, name, key.public_key(), 1, start, start + timedelta(days=9)).sign(key, None)
    kept = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    path = folder / "both.pem"
    path.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, *kept) + made.public_bytes(serialization.Encoding.PEM)
    )
    return path


def test_tls_that_is_none_or_not_trusted_or_away_is_one_line_each(tmp_path: Path) -> None:
    with strange_server(b"HTTP/1.0 400 Bad\r\n\r\n") as port:
        (plain,) = checkup.check_site(f"https://127.0.0.1:{port}", SECRET)
    with strange_server(reply(READY), certificate=certificate(tmp_path)) as port:
        (own,) = checkup.check_site(f"https://127.0.0.1:{port}", SECRET)
    (away,) = checkup.check_site("https://127.0.0.1:9", SECRET)
    assert {(line.part, line.need) for line in (plain, own, away)} == {("site", Need.REPAIR)}
    assert "WRONG_VERSION_NUMBER" in plain.message
    assert "self-signed certificate" in own.message
    (tls, _) = checkup.check_site("http://192.0.2.1.example.invalid", SECRET)
    assert "not https" in tls.message


def test_a_folder_of_backups_that_cannot_be_read_or_is_from_the_future_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "arena-1.db").write_bytes(b"x")
    os.utime(tmp_path / "arena-1.db", (NOW + 7200, NOW + 7200))
    assert "2.0 hours from now" in checkup.check_backups(tmp_path, NOW).message
    assert "cannot be read (Not a directory)" in checkup.check_backups(tmp_path / "arena-1.db", NOW).message

    def refuse(path: Path) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "scandir", refuse)
    found = checkup.check_backups(tmp_path, NOW)
    assert found.need is Need.REPAIR
    assert found.message == f"{tmp_path} cannot be read (Permission denied)"


def test_the_command_says_what_to_repair_and_no_secret(
    sqlite_url: str, tiltyard: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TILTYARD_SECRET", "x" * 30 + "hidden")
    done = tiltyard("arena", "doctor", "--db", sqlite_url)
    assert done.returncode == 3, done.stderr
    assert "repair  heads     none was ever published" in done.stdout
    assert "→ Run deploy/backup.sh nightly" in done.stdout
    assert done.stdout.endswith("1 to repair\n")
    assert "hidden" not in done.stdout + done.stderr
    done = tiltyard("arena", "doctor", "--db", sqlite_url + ".none")
    assert done.returncode == 3
    assert "repair  database  there is no arena at" in done.stdout


def test_a_database_that_may_not_be_opened_is_one_line(sqlite_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path) -> bool:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "is_file", refuse)
    (line,) = [line for line in findings(sqlite_url, None, None) if line.part == "database"]
    assert line.need is Need.REPAIR
    assert line.message.startswith("[Errno 13] Permission denied")
