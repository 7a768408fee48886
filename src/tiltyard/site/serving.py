"""Running a site: one process on SQLite, several on PostgreSQL, and a shutdown that answers pending requests."""

from __future__ import annotations

import contextlib
import errno
import socket
from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from functools import partial
from typing import Any

import uvicorn
from uvicorn.config import STARTUP_FAILURE
from uvicorn.supervisors import Multiprocess

from tiltyard.arena.store import Store, site_texts
from tiltyard.errors import ArenaError, OptionError
from tiltyard.site.app import create_app
from tiltyard.site.settings import SiteSettings

STOP_SECONDS = 20
"""How long a stopping site waits for pending responses."""

SILENT_SECONDS = 60
"""A worker that does not answer its parent for this long hangs, and is replaced."""


def serve(
    settings: SiteSettings,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    workers: int = 1,
    sockets: Sequence[socket.socket] | None = None,
) -> None:
    """Serve until told to stop. Fails before listening if the arena cannot be opened or the port is taken.

    Parameters:
        settings: All settings of the site.
        host: Address to listen on.
        port: Port to listen on.
        workers: Processes; more than one needs PostgreSQL.
        sockets: Sockets that are bound already (`bound_sockets`); then `host` and `port` are not used.
    """
    if workers < 1:
        raise OptionError(f"{workers} workers cannot serve anybody. Say at least 1.")
    store = Store.open(settings.db)
    try:
        on_sqlite = store.database.is_sqlite
        store.outside.check_folder()
        settings = replace(settings, secret=site_texts.site_secrets(store, settings.secret, date.today()))
    finally:
        store.close()
    if workers > 1 and on_sqlite:
        raise OptionError(
            f"{workers} workers need PostgreSQL: SQLite has one writer at a time. Use --workers 1, or postgresql://…"
        )
    config = uvicorn.Config(partial(create_app, settings), factory=True, workers=workers, **server_options())
    with contextlib.ExitStack() as bound:
        here = [bound.enter_context(sock) for sock in sockets or bound_sockets(host, port)]
        if workers == 1:
            server = uvicorn.Server(config)
            with contextlib.suppress(KeyboardInterrupt):
                server.run(here)
            failed = not server.started
        else:
            parent = Multiprocess(config, here)
            parent.run()
            failed = any(process.exitcode == STARTUP_FAILURE for process in parent.processes)
    if failed:
        raise ArenaError("the site could not start. The lines above say why.")


def bound_sockets(host: str, port: int) -> list[socket.socket]:
    """The sockets of an address, bound but not yet listening; a port that is taken is an `OptionError`."""
    try:
        result = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as error:
        raise OptionError(f"--host {host}: there is no such address here ({error.strerror or error}).") from None
    with contextlib.ExitStack() as bound:
        sockets = []
        for family, _, _, _, address in dict.fromkeys(result):
            sock = bound.enter_context(socket.socket(family, socket.SOCK_STREAM))
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            try:
                sock.bind(address)
            except OSError as error:
                raise _cannot_bind(host, port, error) from None
            sockets.append(sock)
        bound.pop_all()
    return sockets


def _cannot_bind(host: str, port: int, error: OSError) -> OptionError:
    where = f"port {port} of {host}"
    if error.errno == errno.EADDRINUSE:
        return OptionError(f"{where} is taken by another program. Stop it, or choose another port with --port.")
    if error.errno == errno.EACCES:
        return OptionError(f"{where} is not for this user. Choose a port from 1024 on with --port.")
    return OptionError(f"cannot listen on {where}: {error.strerror}. Choose an address of this machine with --host.")


def server_options() -> dict[str, Any]:
    """The server ignores forwarded headers: the site reads them, and only from its trusted proxies."""
    return {
        "ws": "none",
        "proxy_headers": False,
        "server_header": False,
        "access_log": False,
        "log_level": "warning",
        "timeout_graceful_shutdown": STOP_SECONDS,
        "timeout_worker_healthcheck": SILENT_SECONDS,
        "backlog": 4096,
    }
