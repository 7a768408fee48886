"""Running a site: one process on SQLite, several on PostgreSQL, and an end that answers whoever is waiting."""

from __future__ import annotations

import gc
import os
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import msgspec
import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from tiltyard.arena.store import Store, site_texts
from tiltyard.errors import OptionError
from tiltyard.web.app import create_app
from tiltyard.web.guard import HEADERS, NOT_KEPT
from tiltyard.web.settings import SECRET_VARIABLE, SiteSettings, secrets_of

if TYPE_CHECKING:
    from fastapi import FastAPI

SETTINGS_VARIABLE = "TILTYARD_SITE_SETTINGS"
"""How the settings reach the worker processes; secrets travel in variables of their own."""

SWITCH_SECONDS = 0.0005
"""How long the event loop may keep the writer waiting, and the other way round: a commit is many short steps."""

STOP_SECONDS = 20
"""How long those who wait for an answer are waited for when the site stops."""


def serve(settings: SiteSettings, *, host: str = "127.0.0.1", port: int = 8000, workers: int = 1) -> None:
    """Serve until told to stop. Fails before it listens where the arena cannot be opened."""
    store = Store.open(settings.db)
    try:
        on_sqlite = store.database.is_sqlite
        if not settings.secret:
            site_texts.secret(store)  # made now, where trouble is said in one line, and before workers race for it
    finally:
        store.close()
    if workers < 1:
        raise OptionError(f"{workers} workers cannot serve anybody. Say at least 1.")
    if workers > 1 and on_sqlite:
        raise OptionError(
            f"{workers} workers need PostgreSQL: SQLite has one writer at a time. Use --workers 1, or postgresql://…"
        )
    if workers == 1:
        uvicorn.run(_ready(settings), host=host, port=port, **server_options())
        return
    os.environ[SECRET_VARIABLE] = settings.secret
    shared = {name: value for name, value in asdict(settings).items() if name not in ("secret", "admin_secret")}
    os.environ[SETTINGS_VARIABLE] = msgspec.json.encode(shared).decode()
    uvicorn.run(
        "tiltyard.web.serving:worker_app", factory=True, workers=workers, host=host, port=port, **server_options()
    )


def worker_app() -> FastAPI:
    """The site in one of several processes, made from what `serve` left in the environment."""
    values = msgspec.json.decode(os.environ[SETTINGS_VARIABLE])
    secret, admin_secret = secrets_of()
    proxies = tuple(values.pop("trusted_proxies"))
    return _ready(SiteSettings(**values, trusted_proxies=proxies, secret=secret, admin_secret=admin_secret))


def _ready(settings: SiteSettings) -> FastAPI:
    """The site, in a process of its own: set up so that no visitor waits for another's work longer than needed.

    What was loaded until now stays for ever, so the collector need not look at it again: looking takes up to a tenth of
    a second, in which nobody is answered.
    """
    sys.setswitchinterval(SWITCH_SECONDS)
    app = create_app(settings)
    gc.collect()
    gc.freeze()
    return app


class Protocol(HttpToolsProtocol):
    """HTTP as the server speaks it, whose own answer to what is no HTTP carries the security headers, too."""

    def send_400_response(self, msg: str) -> None:
        """Refuse what could not be read, and hang up."""
        text = msg.encode("ascii", "replace")
        fields = [*HEADERS, NOT_KEPT, (b"content-type", b"text/plain; charset=utf-8"), (b"connection", b"close")]
        fields.append((b"content-length", str(len(text)).encode()))
        head = b"".join(name + b": " + value + b"\r\n" for name, value in fields)
        self.transport.write(b"HTTP/1.1 400 Bad Request\r\n" + head + b"\r\n" + text)
        self.transport.close()


def server_options() -> dict[str, Any]:
    """The server reads no forwarded headers: the site does, and believes only the proxies it was told of."""
    return {
        "http": Protocol,
        "proxy_headers": False,
        "server_header": False,
        "access_log": False,
        "log_level": "warning",
        "timeout_graceful_shutdown": STOP_SECONDS,
        "backlog": 4096,
    }
