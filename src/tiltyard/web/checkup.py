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
import time
from dataclasses import dataclass
from enum import StrEnum
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

import msgspec

from tiltyard.arena.policy import Policy
from tiltyard.arena.store.reading import backlog, latest_blocks, server_time
from tiltyard.validity.limits import shared_block
from tiltyard.web.settings import ADMIN_SECRET_VARIABLE, SECRET_VARIABLE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tiltyard.arena.store import Store

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
TOKEN_SECONDS = 300
TOKEN_HEADER = "x-tiltyard-doctor"  # noqa: S105 - a name, no password
CLAIMED = "203.0.113.77"
"""An address of nobody (RFC 5737): a proxy that passes on what visitors claim passes it on."""


class Need(StrEnum):
    """Whether a part needs somebody."""

    GOOD = "ok"
    LOOK = "look"
    MEND = "mend"


@dataclass(frozen=True, slots=True)
class CheckupLine:
    """What was found of one part, and what to do about it."""

    part: str
    need: Need
    said: str
    todo: str = ""


def good(part: str, said: str) -> CheckupLine:
    """A part that needs nobody."""
    return CheckupLine(part, Need.GOOD, said)


def look(part: str, said: str, todo: str) -> CheckupLine:
    """A part that somebody should look at."""
    return CheckupLine(part, Need.LOOK, said, todo)


def mend(part: str, said: str, todo: str) -> CheckupLine:
    """A part that has to be mended."""
    return CheckupLine(part, Need.MEND, said, todo)


# --- The database and what belongs to it -----------------------------------------------------------------------------


def check_store(store: Store, policy: Policy, now: float) -> Iterator[CheckupLine]:
    """The database, its disk and clock, heads, limits, and whose votes most of the latest are."""
    database = store.database
    found = backlog(store)
    yield good("database", f"{database.shown}: {found.head_seq:,} events, {found.unchained:,} not yet chained")
    if database.is_sqlite:
        yield from _check_file(Path(str(database.url.database)))
    else:
        yield _clock("clock", "the database", server_time(store) - time.time())
    yield from _check_heads(found.head_at, found.signed_head_at, now)
    yield from _check_limits(policy)
    shared = shared_block(latest_blocks(store))
    if shared is not None:
        said, _, todo = shared.question.partition(". ")
        yield look("visitors", said, todo)


def _check_file(path: Path) -> Iterator[CheckupLine]:
    """The rights of a SQLite file, and the room beside it."""
    if path.stat().st_mode & 0o077:
        yield look("database", f"{path} can be opened by other users of this machine", f"chmod 600 {path}")
    free, needed = shutil.disk_usage(path.parent).free, path.stat().st_size + ROOM
    said = f"{free / 1e9:.1f} GB free beside a database of {path.stat().st_size / 1e9:.3f} GB"
    if free < needed:
        yield mend("disk", said, f"Free at least {needed / 1e9:.1f} GB: a full disk takes no votes.")
    else:
        yield good("disk", said)


def _clock(part: str, whose: str, ahead: float) -> CheckupLine:
    if abs(ahead) <= CLOCK_SECONDS:
        return good(part, f"this machine and {whose} agree within {CLOCK_SECONDS:g} s")
    side = "ahead of" if ahead > 0 else "behind"
    return mend(part, f"{whose} is {abs(ahead):.0f} s {side} this machine", "Let both follow a time server.")


def _check_heads(head_at: int | None, signed_at: int | None, now: float) -> Iterator[CheckupLine]:
    """Whether heads are published, and signed."""
    nightly = "Run deploy/backup.sh nightly (deploy/tiltyard-backup.timer)."
    if head_at is None:
        yield mend("heads", "none was ever published", nightly)
    elif now - head_at / 1e6 > STALE_DAYS * DAY:
        yield mend("heads", f"the latest is {(now - head_at / 1e6) / DAY:.0f} days old", nightly)
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
    copies = [path for path in folder.glob("arena-*") if path.is_file()] if folder.is_dir() else []
    todo = "Run deploy/backup.sh nightly; its last lines say what failed."
    if not copies:
        return mend("backups", f"there is none in {folder}", todo)
    newest = max(copies, key=lambda path: path.stat().st_mtime)
    age, size = (now - newest.stat().st_mtime) / DAY, newest.stat().st_size
    if age > STALE_DAYS:
        return mend("backups", f"the newest, {newest.name}, is {age:.0f} days old", todo)
    if size == 0:
        return mend("backups", f"the newest, {newest.name}, is empty", todo)
    return good("backups", f"{len(copies)}, the newest {age * 24:.0f} hours old ({size / 1e6:.1f} MB)")


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
    if parts.scheme == "https":
        yield from _check_certificate(str(parts.hostname), parts.port or 443, now)
    elif not _is_private(parts.hostname or ""):
        yield mend(
            "tls", f"{url} is not https: cookies and votes can be read on the way", "Put a proxy with TLS in front."
        )
    try:
        status, headers, answer = _ask(f"{url.rstrip('/')}/healthz", secret)
    except (URLError, OSError, ValueError) as error:
        reason = " ".join(str(getattr(error, "reason", error)).split())
        yield mend("site", f"{url} does not answer ({reason})", "Start it: tiltyard arena serve; then ask again.")
        return
    health = answer.get("status")
    if status == 200 and health in ("ready", "busy"):
        yield good("site", f"{url} says {health}, version {answer.get('version')}")
    else:
        todo = "Read the server's log; /healthz names the part that fails."
        yield mend("site", f"{url} says {health or f'status {status}'}: {', '.join(answer.get('trouble') or [])}", todo)
    if (date := headers.get("date")) is not None:
        yield _clock("clock", "the site", _seconds_of(date) - time.time())
    yield from _check_seen(answer.get("seen"), parts.scheme, parts.hostname or "")


def _ask(url: str, secret: str) -> tuple[int, dict[str, str], dict[str, Any]]:
    """Status, headers and JSON of a page; the request claims to come from nobody's address."""
    asked = Request(url, headers={TOKEN_HEADER: doctor_token(secret, time.time()), "x-forwarded-for": CLAIMED})  # noqa: S310 - http or https, as checked by the caller
    try:
        with urlopen(asked, timeout=ASK_SECONDS) as answer:  # noqa: S310 - likewise
            status, headers, body = answer.status, answer.headers, answer.read(100_000)
    except HTTPError as error:
        status, headers, body = error.code, error.headers, error.read(100_000)
    try:
        values = json.loads(body)
    except ValueError:
        values = {}
    found = values if isinstance(values, dict) else {}
    return status, {name.lower(): value for name, value in headers.items()}, found


def _check_seen(seen: Any, scheme: str, host: str) -> Iterator[CheckupLine]:
    """As whom the site saw a request that claimed an address of nobody."""
    if not isinstance(seen, dict):
        todo = f"Run the doctor with the site's own {SECRET_VARIABLE} and database."
        yield look("proxy", "not checked: the site did not know this doctor", todo)
        return
    address = str(seen.get("address"))
    if address == CLAIMED:
        todo = "Let the proxy set X-Forwarded-For anew, as deploy/nginx.conf does, or trust no such proxy."
        yield mend("proxy", "the site believes any address that a visitor claims: limits can be walked around", todo)
    elif _is_private(address) and not _is_private(host):
        todo = f'Start the site with trusted_proxy="{address}", if that is the proxy.'
        yield mend("proxy", f"the site sees visitors as {address}: all of them share one limit", todo)
    else:
        yield good("proxy", f"the site sees this machine as {address}")
    if scheme == "https" and not seen.get("https"):
        todo = "Let the proxy send X-Forwarded-Proto, or tell the site its public URL."
        yield mend("proxy", "the site does not know that visitors use https: its cookies are not marked Secure", todo)


def _is_private(host: str) -> bool:
    """Whether this is an address of a private network or this machine."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_private
    except ValueError:
        return False


def _seconds_of(date: str) -> float:
    from email.utils import parsedate_to_datetime

    try:
        return parsedate_to_datetime(date).timestamp()
    except ValueError:
        return time.time()


def _check_certificate(host: str, port: int, now: float) -> Iterator[CheckupLine]:
    """Whether a certificate is trusted, and for how long."""
    import socket

    try:
        with (
            socket.create_connection((host, port), timeout=ASK_SECONDS) as plain,
            ssl.create_default_context().wrap_socket(plain, server_hostname=host) as wrapped,
        ):
            ends = str((wrapped.getpeercert() or {}).get("notAfter"))
    except OSError as error:
        yield mend("tls", f"{host}: {' '.join(str(error).split())}", "Renew or replace the certificate.")
        return
    days = (ssl.cert_time_to_seconds(ends) - now) / DAY
    if days < CERTIFICATE_DAYS:
        yield mend("tls", f"the certificate of {host} ends in {days:.0f} days", "See why it is not renewed by itself.")
    else:
        yield good("tls", f"the certificate of {host} is good for {days:.0f} days")
