"""Looking over a deployment, for `tiltyard arena doctor`: from the database and its backups to proxy and TLS.

Each line says what was found and, if something has to be done, what. The site tells a doctor who knows its secret as
whom it sees a request: only so can be told whether a proxy hides visitors, or passes on what they claim.
"""

from __future__ import annotations

import hmac
import json
import os
import shutil
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from http.client import HTTPException
from ipaddress import ip_address
from pathlib import Path
from stat import S_ISREG
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

import msgspec

from tiltyard.arena.policy import Policy
from tiltyard.arena.store import Store
from tiltyard.arena.store.reading import backlog, latest_blocks, server_time
from tiltyard.validity.limits import shared_block
from tiltyard.web.settings import ADMIN_SECRET_VARIABLE, SECRET_VARIABLE

if TYPE_CHECKING:
    Answered = tuple[int, dict[str, str], dict[str, Any]]

Found = TypeVar("Found")

DAY = 86_400
STALE_DAYS = 2
"""A head or a backup that is older was not made by a nightly job."""
CERTIFICATE_DAYS = 14
"""A certificate that ends sooner should have been renewed already."""
CLOCK_SECONDS = 2.0
"""Times of votes come from the host: hosts that differ by more put votes into the wrong order."""
ROOM = 1 << 30
"""Bytes that should be free beside a database, apart from its own size for a copy."""
ASK_SECONDS = 15.0
MOST_BYTES = 100_000
TOKEN_SECONDS = 300
TOKEN_HEADER = "x-tiltyard-doctor"  # noqa: S105 - a name, no password
CLAIMED = "203.0.113.77"
"""An address of nobody (RFC 5737): a proxy that passes on what visitors claim passes it on."""


class Need(StrEnum):
    """Whether a part needs somebody."""

    GOOD = "ok"
    LOOK = "look"
    REPAIR = "repair"


@dataclass(frozen=True, slots=True)
class CheckupLine:
    """What was found of one part, and what to do about it."""

    part: str
    need: Need
    message: str
    todo: str = ""


def good(part: str, message: str) -> CheckupLine:
    """A part that needs nobody."""
    return CheckupLine(part, Need.GOOD, message)


def look(part: str, message: str, todo: str) -> CheckupLine:
    """A part that somebody should look at."""
    return CheckupLine(part, Need.LOOK, message, todo)


def repair(part: str, message: str, todo: str) -> CheckupLine:
    """A part that has to be mended."""
    return CheckupLine(part, Need.REPAIR, message, todo)


# --- The database and what belongs to it -----------------------------------------------------------------------------


def check_store(store: Store, policy: Policy, now: float) -> Iterator[CheckupLine]:
    """The database, its disk and clock, heads, limits, and whose votes most of the latest are."""
    database = store.database
    result = backlog(store)
    yield good("database", f"{database.shown}: {result.head_seq:,} events")
    if database.path is not None:
        yield from _check_file(database.path)
    else:
        asked = time.time()
        yield _clock("clock", "the database", _ahead(server_time(store), asked, time.time()))
    yield from _check_heads(result.head_at, result.signed_head_at, now)
    yield from _check_limits(policy)
    shared = shared_block(latest_blocks(store))
    if shared is not None:
        message, _, todo = shared.question.partition(". ")
        yield look("visitors", message, todo)


def _check_file(path: Path) -> Iterator[CheckupLine]:
    """The rights of a SQLite file, and the room beside it."""
    if path.stat().st_mode & 0o077:
        yield look("database", f"{path} can be opened by other users of this machine", f"chmod 600 {path}")
    free, needed = shutil.disk_usage(path.parent).free, path.stat().st_size + ROOM
    message = f"{free / 1e9:.1f} GB free beside a database of {path.stat().st_size / 1e9:.3f} GB"
    if free < needed:
        yield repair("disk", message, f"Free at least {needed / 1e9:.1f} GB: a full disk takes no votes.")
    else:
        yield good("disk", message)


def _ahead(told: float, asked: float, answered: float, grain: float = 0.0) -> float:
    """How far a clock is ahead that told a time between question and answer, rounded down to a `grain`; 0 if not."""
    return max(told - answered, 0.0) + min(told + grain - asked, 0.0)


def _clock(part: str, whose: str, ahead: float) -> CheckupLine:
    if abs(ahead) <= CLOCK_SECONDS:
        return good(part, f"this machine and {whose} agree within {CLOCK_SECONDS:g} s")
    side = "ahead of" if ahead > 0 else "behind"
    return repair(part, f"{whose} is {abs(ahead):.0f} s {side} this machine", "Let both follow a time server.")


def _check_heads(head_at: int | None, signed_at: int | None, now: float) -> Iterator[CheckupLine]:
    """Whether heads are published, and signed."""
    nightly = "Run deploy/backup.sh nightly (deploy/tiltyard-backup.timer)."
    if head_at is None:
        yield repair("heads", "none was ever published", nightly)
    elif now - head_at / 1e6 > STALE_DAYS * DAY:
        yield repair("heads", f"the latest is {(now - head_at / 1e6) / DAY:.0f} days old", nightly)
    elif signed_at is None:
        yield look("heads", "published, but not signed", "Make a key: tiltyard arena head --new-key KEY.pem")
    else:
        yield good("heads", "published and signed")


def _check_limits(policy: Policy) -> Iterator[CheckupLine]:
    """Settings that are weaker than the defaults."""
    ours, usual = msgspec.to_builtins(policy.limits), msgspec.to_builtins(Policy().limits)
    raised = [f"limits.{name} {ours[name]:g} ({usual[name]:g})" for name in usual if ours[name] > usual[name]]
    if not policy.waiting.pairs_wait:
        raised.append("waiting.pairs_wait false (true)")
    if policy.texts_public == "always":
        raised.append("texts_public always (after_retirement): nobody votes blind")
    if raised:
        yield look("limits", f"weaker than usual: {', '.join(raised)}", "Read docs/how-to/what-cheating-costs.md.")
    else:
        yield good("limits", "none is weaker than usual")


def check_secrets(environment: Mapping[str, str] = os.environ) -> Iterator[CheckupLine]:
    """Whether the site's secrets are set; they are never shown."""
    todo = f"Set {SECRET_VARIABLE} to 64 random letters, the same on every host."
    if environment.get(SECRET_VARIABLE):
        yield good("secrets", f"{SECRET_VARIABLE} is set")
    else:
        yield look(
            "secrets", f"{SECRET_VARIABLE} is not set here: the one in use is in every copy of the database", todo
        )
    if not environment.get(ADMIN_SECRET_VARIABLE):
        yield look(
            "secrets", f"{ADMIN_SECRET_VARIABLE} is not set here: /admin is closed", "Set it, or leave it closed."
        )


def check_backups(folder: Path, now: float) -> CheckupLine:
    """The newest copy in a folder of backups."""
    todo = "Run deploy/backup.sh nightly; its last lines say what failed."
    try:
        copies = [(entry.name, entry.stat()) for entry in os.scandir(folder) if entry.name.startswith("arena-")]
    except FileNotFoundError:
        return repair("backups", f"there is no folder {folder}", todo)
    except OSError as error:
        message = f"{folder} cannot be read ({error.strerror or error})"
        return repair("backups", message, "Run the doctor as the user that makes backups, or name their folder.")
    files = [(name, result.st_mtime, result.st_size) for name, result in copies if S_ISREG(result.st_mode)]
    if not files:
        return repair("backups", f"there is none in {folder}", todo)
    newest, made, size = max(files, key=lambda file: file[1])
    age = (now - made) / DAY
    if age > STALE_DAYS:
        return repair("backups", f"the newest, {newest}, is {age:.0f} days old", todo)
    if size == 0:
        return repair("backups", f"the newest, {newest}, is empty", todo)
    if age * DAY < -CLOCK_SECONDS:
        clock = "Set this machine's clock, or that of the machine that makes backups."
        return repair("backups", f"the newest, {newest}, was made {-age * 24:.1f} hours from now", clock)
    return good("backups", f"{len(files)}, the newest {max(age, 0.0) * 24:.0f} hours old ({size / 1e6:.1f} MB)")


# --- The site, as visitors reach it ----------------------------------------------------------------------------------


def doctor_token(secret: str, now: float) -> str:
    """What lets the site tell as whom it sees a request; good for five minutes."""
    moment = str(int(now))
    return f"{moment}.{hmac.digest(secret.encode(), f'doctor{chr(10)}{moment}'.encode(), 'sha256').hex()}"


def is_doctor(token: str, secret: str, now: float) -> bool:
    """Whether a token was made with this secret within five minutes."""
    moment = token.partition(".")[0]
    if not (moment.isascii() and moment.isdigit() and len(moment) < 12 and abs(int(moment) - now) <= TOKEN_SECONDS):
        return False
    return hmac.compare_digest(token.encode(), doctor_token(secret, int(moment)).encode())


def check_site(url: str, secret: str, now: float) -> Iterator[CheckupLine]:
    """What visitors meet at an address: health, TLS, clock, and as whom the site sees them."""
    parts = urlsplit(url)
    if parts.scheme != "https" and not _is_private(parts.hostname or ""):
        yield repair(
            "tls", f"{url} is not https: cookies and votes can be read on the way", "Put a proxy with TLS in front."
        )
    try:
        if parts.scheme == "https":
            yield _in_time(lambda: _check_certificate(str(parts.hostname), parts.port or 443, now))
        asked = time.time()
        status, headers, answer = _in_time(lambda: _ask(f"{url.rstrip('/')}/healthz", secret))
        answered = time.time()
    except ssl.SSLError as error:
        yield _broken_tls(parts.netloc, error)
        return
    except (HTTPException, OSError, ValueError) as error:
        yield _no_answer(url, error)
        return
    yield _health(url, status, headers, answer)
    if not answer:
        return
    ahead = _ahead(_seconds_of(headers.get("date")), asked, answered, grain=1.0)
    if "date" in headers:
        yield _clock("clock", "the site", ahead)
    yield from _check_seen(answer.get("seen"), parts.scheme, parts.hostname or "", ahead)


def _in_time(ask: Callable[[], Found]) -> Found:
    """What a question gives, or TimeoutError: a server that sends a letter now and then would hold it for ever."""
    result: list[Found | Exception] = []

    def run() -> None:
        try:
            result.append(ask())
        except Exception as error:  # handed to the asker
            result.append(error)

    asked = threading.Thread(target=run, daemon=True)
    asked.start()
    asked.join(ASK_SECONDS)
    if not result:
        raise TimeoutError(f"no whole answer within {ASK_SECONDS:g} s")
    if isinstance(result[0], Exception):
        raise result[0]
    return result[0]


def _no_answer(url: str, error: Exception) -> CheckupLine:
    reason = _one_line(getattr(error, "reason", error)) or type(error).__name__
    if isinstance(error, HTTPException) and not isinstance(error, OSError):
        message = f"{url} does not speak HTTP ({type(error).__name__}: {reason})"
        return repair("site", message, "Check address and port: something else listens there.")
    return repair("site", f"{url} does not answer ({reason})", "Start it: tiltyard arena serve; then ask again.")


def _health(url: str, status: int, headers: Mapping[str, str], answer: Mapping[str, Any]) -> CheckupLine:
    """What `/healthz` says, whoever answers."""
    if 300 <= status < 400:
        aim = _one_line(headers.get("location", "nowhere"))
        return repair("site", f"{url} leads on to {aim}", "Ask the doctor about the address at which visitors end.")
    health = answer.get("status")
    if not isinstance(health, str):
        todo = "Check that the proxy leads to the arena, and that nothing else listens there."
        return repair("site", f"{url} answers (status {status}), but not as an arena does", todo)
    if status == 200 and health in ("ready", "busy"):
        return good("site", f"{url} says {health}, version {_one_line(answer.get('version'))}")
    trouble = answer.get("trouble")
    named = ", ".join(_one_line(one) for one in trouble) if isinstance(trouble, list) else ""
    todo = "Read the server's log; /healthz names the part that fails."
    return repair("site", f"{url} says {_one_line(health)} (status {status}){': ' if named else ''}{named}", todo)


def _one_line(value: object) -> str:
    """Any value as a short line without control characters: what a stranger sends must not write to a terminal."""
    return " ".join("".join(letter if letter.isprintable() else " " for letter in str(value)[:200]).split())


class _StayHere(HTTPRedirectHandler):
    """Follows no redirect: it would hand the doctor's token to wherever that leads."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


def _ask(url: str, secret: str) -> Answered:
    """Status, headers and JSON of a page; the request claims to come from nobody's address."""
    asked = Request(url, headers={TOKEN_HEADER: doctor_token(secret, time.time()), "x-forwarded-for": CLAIMED})  # noqa: S310 - http or https, as checked by the caller
    try:
        with build_opener(_StayHere).open(asked, timeout=ASK_SECONDS) as answer:
            status, headers, body = answer.status, answer.headers, answer.read(MOST_BYTES)
    except HTTPError as error:
        status, headers, body = error.code, error.headers, error.read(MOST_BYTES)
    except URLError as error:
        raise error.reason if isinstance(error.reason, Exception) else error from None
    try:
        values = json.loads(body)
    except (ValueError, RecursionError):
        values = {}
    result = values if isinstance(values, dict) else {}
    return status, {name.lower(): str(value) for name, value in headers.items()}, result


def _check_seen(seen: Any, scheme: str, host: str, ahead: float = 0.0) -> Iterator[CheckupLine]:
    """As whom the site saw a request that claimed an address of nobody."""
    if not isinstance(seen, dict) and abs(ahead) > TOKEN_SECONDS / 2:
        yield look("proxy", "not checked: with clocks so far apart the site takes no doctor's word", "Set the clocks.")
        return
    if not isinstance(seen, dict):
        todo = f"Run the doctor with the site's own {SECRET_VARIABLE} and database."
        yield look("proxy", "not checked: the site did not know this doctor", todo)
        return
    address = _one_line(seen.get("address"))
    if address == CLAIMED:
        todo = "Let the proxy set X-Forwarded-For anew, as deploy/nginx.conf does, or trust no such proxy."
        yield repair("proxy", "the site believes any address that a visitor claims: limits can be walked around", todo)
    elif _is_private(address) and not _is_private(host):
        todo = f'Start the site with trusted_proxy="{address}", if that is the proxy.'
        yield repair("proxy", f"the site sees visitors as {address}: all of them share one limit", todo)
    else:
        yield good("proxy", f"the site sees this machine as {address}")
    if scheme == "https" and not seen.get("https"):
        todo = "Let the proxy send X-Forwarded-Proto, or tell the site its public URL."
        yield repair("proxy", "the site does not know that visitors use https: its cookies are not marked Secure", todo)


def _is_private(host: str) -> bool:
    """Whether this is an address of a private network or this machine."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_private
    except ValueError:
        return False


def _seconds_of(date: str | None) -> float:
    """The moment of a Date header; now where it says none."""
    from email.utils import parsedate_to_datetime

    try:
        return parsedate_to_datetime(date or "").timestamp()
    except (ValueError, TypeError, OverflowError):
        return time.time()


def _broken_tls(host: str, error: ssl.SSLError) -> CheckupLine:
    """Why no trusted connection came about: the certificate, or no TLS at all."""
    if isinstance(error, ssl.SSLCertVerificationError):
        message = f"the certificate of {host} is not trusted: {_one_line(error.verify_message).rstrip('.')}"
        return repair("tls", message, "Renew or replace the certificate; a clock that is wrong has the same effect.")
    message = f"{host} does not speak TLS ({_one_line(error.reason or error)})"
    return repair("tls", message, "Check the port: https needs one with TLS, usually 443.")


def _check_certificate(host: str, port: int, now: float) -> CheckupLine:
    """How long a certificate is good; one that is not trusted raises."""
    import socket

    with (
        socket.create_connection((host, port), timeout=ASK_SECONDS) as plain,
        ssl.create_default_context().wrap_socket(plain, server_hostname=host) as wrapped,
    ):
        ends = str((wrapped.getpeercert() or {}).get("notAfter"))
    days = (ssl.cert_time_to_seconds(ends) - now) / DAY
    if days < CERTIFICATE_DAYS:
        return repair(
            "tls", f"the certificate of {host} ends in {days:.0f} days", "See why it is not renewed by itself."
        )
    return good("tls", f"the certificate of {host} is good for {days:.0f} days")
