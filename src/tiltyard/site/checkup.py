"""Looking over a deployment, for `tiltyard arena doctor`: from the database and its backups to the proxy.

Each line says what was found and, if something has to be done, what. The site tells a doctor who knows its secret as
whom it sees a request: only so can be told whether a proxy hides visitors, or passes on what they claim.
"""

from __future__ import annotations

import hmac
import json
import os
import shutil
import time
from collections.abc import Iterator, Mapping
from datetime import date
from enum import StrEnum
from http.client import HTTPException
from ipaddress import ip_address
from pathlib import Path
from stat import S_ISREG
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

import msgspec

from tiltyard.arena import Policy
from tiltyard.arena.store import OLD_SECRET_DAYS, Outside, Store, backlog, events_ahead, latest_blocks, server_time
from tiltyard.errors import StoreError
from tiltyard.site.networks import shared_block
from tiltyard.site.settings import ADMIN_SECRET_VARIABLE, SECRET_LENGTH, SECRET_VARIABLE

DAY = 86_400
STALE_DAYS = 2
"""A head or a backup that is older was not made by a nightly job."""
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


class CheckupLine(msgspec.Struct, frozen=True):
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
        yield _clock(server_time(store) - time.time())
    n, ahead = events_ahead(store, int(now * 1e6))
    if n:
        message = (
            f"{n:,} {'event is' if n == 1 else 'events are'} up to {_span(ahead / 1e6)} ahead of now: the clock jumped"
        )
        todo = "Let this machine follow a time server. Voting goes on; these times stay in the log as they are."
        yield look("clock", message, todo)
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
    saved = sorted(file.name for file in path.parent.glob(f"{path.name}*.saved-*"))
    if saved:
        todo = "Compare it with the database, then move it away: `tiltyard arena verify` reads it."
        yield look("database", f"somebody took its files away while it was open: saved in {', '.join(saved)}", todo)
    free, needed = shutil.disk_usage(path.parent).free, path.stat().st_size + ROOM
    message = f"{free / 1e9:.1f} GB free beside a database of {path.stat().st_size / 1e9:.3f} GB"
    if free < needed:
        yield repair("disk", message, f"Free at least {needed / 1e9:.1f} GB: a full disk takes no votes.")
    else:
        yield good("disk", message)


def _clock(ahead: float) -> CheckupLine:
    if abs(ahead) <= CLOCK_SECONDS:
        return good("clock", f"this machine and the database agree within {CLOCK_SECONDS:g} s")
    side = "ahead of" if ahead > 0 else "behind"
    message = f"the database is {abs(ahead):.0f} s {side} this machine"
    return repair("clock", message, "Let both follow a time server.")


def _span(seconds: float) -> str:
    """A time as people say it."""
    unit, length = next((one for one in (("days", DAY), ("hours", 3600)) if seconds >= 2 * one[1]), ("s", 1))
    return f"{seconds / length:,.0f} {unit}"


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


def check_secrets(store: Store | None, environment: Mapping[str, str] = os.environ) -> Iterator[CheckupLine]:
    """Whether the site's secrets are where they belong; they are never shown."""
    given = environment.get(SECRET_VARIABLE, "")
    if given and min(map(len, given.split(","))) < SECRET_LENGTH:
        message = f"{SECRET_VARIABLE} has a secret of fewer than {SECRET_LENGTH} characters: no site starts with it"
        yield repair("secrets", message, "Set one from `openssl rand -hex 32`.")
    elif "," in given:
        todo = f"Take the old one away after {OLD_SECRET_DAYS} days."
        yield look("secrets", f"{SECRET_VARIABLE} is set, with an old one whose cookies are still taken", todo)
    elif given:
        yield good("secrets", f"{SECRET_VARIABLE} is set")
    elif store is not None and store.outside.key_path.is_file():
        yield _check_key_file(store.outside)
    else:
        todo = f"Start the site, which makes a key file; on several hosts set {SECRET_VARIABLE} to 64 random letters."
        yield look("secrets", f"{SECRET_VARIABLE} is not set here, and there is no key file", todo)
    if store is not None and store.outside.deletions_path.is_file():
        yield good("deletions", f"kept in {store.outside.deletions_path}, for when a copy is restored")
    if not environment.get(ADMIN_SECRET_VARIABLE):
        yield look(
            "secrets", f"{ADMIN_SECRET_VARIABLE} is not set here: /admin is closed", "Set it, or leave it closed."
        )


def _check_key_file(outside: Outside) -> CheckupLine:
    try:
        outside.secrets(date.today())
    except StoreError as error:
        return repair("secrets", str(error), "With it as it is no site starts.")
    if outside.key_path.stat().st_mode & 0o077:
        message = f"{outside.key_path} can be read by other users of this machine"
        return repair("secrets", message, f"chmod 600 {outside.key_path}")
    return good("secrets", f"the site's secret is in {outside.key_path}")


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


def check_site(url: str, secret: str) -> Iterator[CheckupLine]:
    """What visitors meet at an address: health, and as whom the site sees them."""
    parts = urlsplit(url)
    if parts.scheme != "https" and not is_private(parts.hostname or ""):
        yield repair(
            "tls", f"{url} is not https: cookies and votes can be read on the way", "Put a proxy with TLS in front."
        )
    try:
        status, answer = _ask(f"{url.rstrip('/')}/healthz", secret)
    except (HTTPException, OSError, ValueError) as error:
        reason = _one_line(getattr(error, "reason", error)) or type(error).__name__
        todo = "Start it: tiltyard arena serve; check address and certificate, then ask again."
        yield repair("site", f"{url} does not answer ({reason})", todo)
        return
    health, trouble = answer.get("status"), answer.get("trouble")
    if not isinstance(health, str):
        todo = "Check that the address leads to the arena without a redirect, and that nothing else listens there."
        yield repair("site", f"{url} answers (status {status}), but not as an arena does", todo)
        return
    if status == 200 and health in ("ready", "busy"):
        yield good("site", f"{url} says {health}, version {_one_line(answer.get('version'))}")
    else:
        named = f": {', '.join(map(_one_line, trouble))}" if isinstance(trouble, list) and trouble else ""
        why = _one_line(answer.get("why") or "")
        todo = why or "Read the server's log; /healthz names the part that fails."
        yield repair("site", f"{url} says {_one_line(health)} (status {status}){named}", todo)
    yield from _check_seen(answer.get("seen"), parts.scheme, parts.hostname or "")


def _one_line(value: object) -> str:
    """Any value as a short line without control characters: what a stranger sends must not write to a terminal."""
    return " ".join("".join(letter if letter.isprintable() else " " for letter in str(value)[:500]).split())


class _StayHere(HTTPRedirectHandler):
    """Follows no redirect: it would hand the doctor's token to wherever that leads."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


def _ask(url: str, secret: str) -> tuple[int, dict[str, Any]]:
    """Status and JSON of a page; the request claims to come from nobody's address."""
    asked = Request(url, headers={TOKEN_HEADER: doctor_token(secret, time.time()), "x-forwarded-for": CLAIMED})  # noqa: S310 - http or https, as checked by the caller
    try:
        with build_opener(_StayHere).open(asked, timeout=ASK_SECONDS) as answer:
            status, body = answer.status, answer.read(MOST_BYTES)
    except HTTPError as error:
        status, body = error.code, error.read(MOST_BYTES)
    try:
        values = json.loads(body)
    except (ValueError, RecursionError):
        values = {}
    return status, values if isinstance(values, dict) else {}


def _check_seen(seen: Any, scheme: str, host: str) -> Iterator[CheckupLine]:
    """As whom the site saw a request that claimed an address of nobody."""
    if not isinstance(seen, dict):
        todo = f"Run the doctor with the site's own {SECRET_VARIABLE} and database, and set both clocks."
        yield look("proxy", "not checked: the site did not know this doctor", todo)
        return
    address = _one_line(seen.get("address"))
    if address == CLAIMED:
        todo = "Let the proxy set X-Forwarded-For anew, as deploy/nginx.conf does, or trust no such proxy."
        yield repair("proxy", "the site believes any address that a visitor claims: limits can be walked around", todo)
    elif is_private(address) and not is_private(host):
        todo = f"Start the site with --trusted-proxy {address}, if that is the proxy."
        yield repair("proxy", f"the site sees visitors as {address}: all of them share one limit", todo)
    else:
        yield good("proxy", f"the site sees this machine as {address}")
    if scheme == "https" and not seen.get("https"):
        todo = "Let the proxy send X-Forwarded-Proto, or tell the site its public URL."
        yield repair("proxy", "the site does not know that visitors use https: its cookies are not marked Secure", todo)


def is_private(host: str) -> bool:
    """Whether this is an address of a private network or this machine."""
    try:
        return host == "localhost" or (ip_address(host).is_private and not ip_address(host).is_unspecified)
    except ValueError:
        return False
