"""Running a site: one process on SQLite, several on PostgreSQL, and a shutdown that answers pending requests."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import gc
import os
import resource
import socket
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import msgspec
import uvicorn

from tiltyard.arena.following.observatory import Observatory
from tiltyard.arena.service import Arena
from tiltyard.arena.store import Store, site_texts
from tiltyard.errors import ArenaError, OptionError
from tiltyard.web.app import create_app
from tiltyard.web.protocol import Protocol
from tiltyard.web.settings import SECRET_VARIABLE, SiteSettings, secrets_of
from tiltyard.web.workers import BEAT, Workers

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

SETTINGS_VARIABLE = "TILTYARD_SITE_SETTINGS"
"""How the settings reach the worker processes; secrets are passed in separate variables."""

SWITCH_SECONDS = 0.0005
"""The thread switch interval: how long the event loop and the writer may block each other. A commit is many short
steps."""

STOP_SECONDS = 20
"""How long a stopping site waits for pending responses."""

LISTENERS = 32
"""How often each socket is listened on: the event loop accepts one connection at each per round, and under load a round
takes long. With one, visitors of a crowded site waited ten seconds to be let in. Workers that share a socket have one
each: with more, a connection was now and then accepted by nobody, and its visitor waited in vain."""

FILES_WANTED = 8192
FILES_FOR_OTHERS = 256
"""Open files: as many as the system allows, up to the first number; the second is reserved for the site itself."""


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
        if not settings.secret:
            site_texts.secret(store)  # created now, where an error is one clear line, and before workers race for it
    finally:
        store.close()
    if workers > 1 and on_sqlite:
        raise OptionError(
            f"{workers} workers need PostgreSQL: SQLite has one writer at a time. Use --workers 1, or postgresql://…"
        )
    with contextlib.ExitStack() as bound:
        here = [bound.enter_context(one) for one in sockets or bound_sockets(host, port)]
        if workers == 1:
            serve_here(settings, here)
            return
        os.environ[SECRET_VARIABLE] = settings.secret
        shared = {name: value for name, value in asdict(settings).items() if name not in ("secret", "admin_secret")}
        os.environ[SETTINGS_VARIABLE] = msgspec.json.encode(shared).decode()
        Workers("tiltyard.web.serving:serve_in_worker", here, workers).run()


def bound_sockets(host: str, port: int) -> list[socket.socket]:
    """The sockets of an address, bound but not yet listening; a port that is taken is an `OptionError`."""
    try:
        result = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as error:
        raise OptionError(f"--host {host}: there is no such address here ({error.strerror or error}).") from None
    with contextlib.ExitStack() as bound:
        sockets = []
        for family, _, _, _, address in dict.fromkeys(result):
            one = bound.enter_context(socket.socket(family, socket.SOCK_STREAM))
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            try:
                one.bind(address)
            except OSError as error:
                raise _cannot_bind(host, port, error) from None
            sockets.append(one)
        bound.pop_all()
    return sockets


def _cannot_bind(host: str, port: int, error: OSError) -> OptionError:
    where = f"port {port} of {host}"
    if error.errno == errno.EADDRINUSE:
        return OptionError(f"{where} is taken by another program. Stop it, or choose another port with --port.")
    if error.errno == errno.EACCES:
        return OptionError(f"{where} is not for this user. Choose a port from 1024 on with --port.")
    return OptionError(f"cannot listen on {where}: {error.strerror}. Choose an address of this machine with --host.")


def serve_in_worker(sender: Connection, sockets: Sequence[socket.socket]) -> None:
    """Serve in one of several processes, with the settings that `serve` left in the environment."""
    values = msgspec.json.decode(os.environ[SETTINGS_VARIABLE])
    secret, admin_secret = secrets_of()
    proxies = tuple(values.pop("trusted_proxies"))
    settings = SiteSettings(**values, trusted_proxies=proxies, secret=secret, admin_secret=admin_secret)
    serve_here(settings, sockets, sender)


def serve_here(settings: SiteSettings, sockets: Sequence[socket.socket], sender: Connection | None = None) -> None:
    """Serve in this process, tuned for low latency.

    Everything loaded so far is permanent, so it is frozen for the garbage collector: scanning it takes up to a tenth of
    a second, in which no request is answered.
    """
    sys.setswitchinterval(SWITCH_SECONDS)
    _allow_connections()
    with contextlib.ExitStack() as parts:
        arena = Arena.open(settings.db)
        parts.callback(arena.close)
        observatory = Observatory(settings.db, records=True)
        parts.callback(observatory.close)
        observatory.start()
        app = create_app(settings, arena, observatory)
        gc.collect()
        gc.freeze()
        server = SiteServer(uvicorn.Config(app, **server_options()), parts, sender)
        try:
            more = LISTENERS - 1 if sender is None else 0
            server.run([listener for one in sockets for listener in (one, *(one.dup() for _ in range(more)))])
        except KeyboardInterrupt:
            return
        except OSError as error:
            raise ArenaError(f"cannot listen: {error}. Is another program using the port? See --port.") from None


def _allow_connections() -> None:
    """The open-file limit minus what the site itself needs."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = FILES_WANTED if hard == resource.RLIM_INFINITY else min(FILES_WANTED, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            soft = wanted
    if soft != resource.RLIM_INFINITY:
        Protocol.most_connections = max(16, min(Protocol.most_connections, soft - FILES_FOR_OTHERS))


class SiteServer(uvicorn.Server):
    """The server of one process. It reports every second that it serves, and closes the site's parts at its end."""

    def __init__(self, config: uvicorn.Config, parts: contextlib.ExitStack, sender: Connection | None) -> None:
        super().__init__(config)
        self._parts = parts
        self._sender = sender

    async def on_tick(self, counter: int) -> bool:
        """Called ten times a second. If the pipe to the parent is closed, the parent is gone: stop, too."""
        if self._sender is not None and counter % 10 == 0:
            try:
                self._sender.send_bytes(BEAT)
            except OSError:
                self.should_exit = True
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Answer pending requests, then close the arena; after this the signal that ended it is raised again."""
        await super().shutdown(sockets)
        await asyncio.to_thread(self._parts.close)


def server_options() -> dict[str, Any]:
    """The server ignores forwarded headers: the site reads them, and only from its trusted proxies."""
    return {
        "http": Protocol,
        "ws": "none",  # else a request that asks for a websocket leaves the protocol that limits connections
        "proxy_headers": False,
        "server_header": False,
        "access_log": False,
        "log_level": "warning",
        "timeout_graceful_shutdown": STOP_SECONDS,
        "backlog": 4096,
    }
