"""Several workers: however slowly they start, whatever ends them, and what is said where none can start."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2 as httpx
import pytest

from tests.cli.conftest import Run, tiltyard  # noqa: F401 - the fixture is used by name
from tests.forked import PATIENCE_SECONDS, Forked, script
from tests.processes import wait_for
from tests.web.sites import SECRET, catalog
from tiltyard.arena.service import Arena
from tiltyard.errors import OptionError
from tiltyard.web.serving import bound_sockets, serve
from tiltyard.web.settings import SiteSettings

WATCH = """
import sys
from tiltyard.errors import TiltyardError
from tiltyard.web import workers
workers.PAUSE_SECONDS, workers.SLOW_SECONDS, workers.SILENT_SECONDS = 0.02, 0.4, float(sys.argv[3])
try:
    workers.Workers(sys.argv[1], [], int(sys.argv[2])).run()
except TiltyardError as error:
    print(f"error: {error}", file=sys.stderr)
    sys.exit(1)
"""


class Watched:
    """A process that watches workers, and what these noted."""

    def __init__(self, target: str, number: int, folder: Path, silent_seconds: float) -> None:
        self._notes = folder / "notes"
        environment = {**os.environ, "WORKER_NOTES": str(self._notes), "PYTHONWARNINGS": "ignore"}
        self.process = Forked(
            folder, "watch", script, WATCH, target, str(number), str(silent_seconds), environment=environment
        )

    def noted(self, word: str) -> list[int]:
        """The numbers of the workers that noted this word."""
        lines = self._notes.read_text().splitlines() if self._notes.exists() else []
        return [int(line.split()[1]) for line in lines if line.split()[0] == word]

    def wait_until(self, true: Callable[[], object]) -> None:
        until = time.monotonic() + PATIENCE_SECONDS
        while not true():
            assert self.process.poll() is None, self.said()
            assert time.monotonic() < until
            time.sleep(0.02)

    def said(self) -> str:
        """Everything on stderr, once it has ended."""
        return self.process.wait().stderr


@contextmanager
def watched(target: str, number: int, folder: Path, silent_seconds: float = 2.0) -> Iterator[Watched]:
    target = f"tests.web.worker_targets:{target}" if ":" not in target else target
    made = Watched(target, number, folder, silent_seconds)
    try:
        yield made
    finally:
        if made.process.poll() is None:
            made.process.terminate()
            made.said()


def test_a_worker_that_is_killed_is_replaced_and_a_signal_ends_all(tmp_path: Path) -> None:
    with watched("serve", 2, tmp_path) as site:
        site.wait_until(lambda: len(site.noted("started")) == 2)
        os.kill(site.noted("started")[0], signal.SIGKILL)
        site.wait_until(lambda: len(site.noted("started")) == 3)
        site.process.send_signal(signal.SIGTERM)
        said = site.said()
        assert site.process.returncode == 0
        assert "killed by signal 9" in said
        assert set(site.noted("ended")) == set(site.noted("started")[1:])


def test_a_signal_renews_one_worker_after_the_other(tmp_path: Path) -> None:
    with watched("serve", 1, tmp_path) as site:
        site.wait_until(lambda: site.noted("started"))
        time.sleep(0.2)
        site.process.send_signal(signal.SIGHUP)
        site.wait_until(lambda: site.noted("ended"))
        first, second = site.noted("started")
        assert site.noted("ended") == [first]
        os.kill(second, 0)


def test_a_worker_that_starts_slowly_is_waited_for_and_it_is_said(tmp_path: Path) -> None:
    with watched("start_slowly", 1, tmp_path) as site:
        said = site.process.streams[1]
        site.wait_until(lambda: said.exists() and "has been starting for" in said.read_text(encoding="utf-8"))
        (tmp_path / "go").touch()
        site.wait_until(lambda: site.noted("started"))
        site.process.send_signal(signal.SIGTERM)
        site.said()
        assert len(site.noted("started")) == 1


def test_a_worker_that_hangs_is_replaced(tmp_path: Path) -> None:
    with watched("fall_silent", 1, tmp_path, 0.3) as site:
        site.wait_until(lambda: len(site.noted("started")) == 2)
        site.process.send_signal(signal.SIGTERM)
        assert f"worker {site.noted('started')[0]} has been silent" in site.said()


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        ("cannot_start", "the database is gone. Start it."),
        ("breaks", "KeyError: 'never\\nthere' ("),
        pytest.param("is_killed", "killed by signal 9", marks=pytest.mark.soak),
        pytest.param(
            "tests.web.not_a_module:serve",
            "ModuleNotFoundError: No module named 'tests.web.not_a_module'",
            marks=pytest.mark.soak,
        ),
    ],
)
def test_where_no_worker_can_start_the_reason_is_said_after_three_tries(
    target: str, reason: str, tmp_path: Path
) -> None:
    with watched(target, 2, tmp_path) as site:
        said = "".join(line for line in site.said().splitlines(keepends=True) if "has been starting" not in line)
        assert site.process.returncode == 1
        last = said.splitlines()[-1]
        assert last.startswith("error: no worker could start, tried 3 times: ")
        assert reason in last
        assert "Traceback" not in said
        assert len(said.splitlines()) == 3
        if ":" not in target:
            assert 3 <= len(site.noted("tried")) <= 4


def test_while_one_worker_serves_the_others_are_tried_again(tmp_path: Path) -> None:
    with watched("cannot_start_again", 2, tmp_path) as site:
        site.wait_until(lambda: len(site.noted("tried")) > 3)
        assert len(site.noted("started")) == 1
        site.process.send_signal(signal.SIGINT)
        assert "could not start: the database is gone. Start it." in site.said()
        assert site.process.returncode == 0


def test_workers_end_when_the_one_who_started_them_is_killed(tmp_path: Path) -> None:
    with watched("serve", 1, tmp_path) as site:
        site.wait_until(lambda: site.noted("started"))
        site.process.kill()
        site.said()
        until = time.monotonic() + PATIENCE_SECONDS
        while not site.noted("orphaned"):
            assert time.monotonic() < until
            time.sleep(0.02)


def test_a_port_that_is_taken_is_named_before_anything_starts(tmp_path: Path, tiltyard: Run) -> None:  # noqa: F811
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = tiltyard("arena", "serve", "--db", f"sqlite:///{tmp_path}/none.db", "--port", str(port))
    said = f"port {port} of 127.0.0.1 is taken by another program. Stop it, or choose another port with --port."
    assert (done.returncode, done.stderr) == (1, f"tiltyard: {said}\n")


def test_addresses_that_cannot_be_used_are_named() -> None:
    with pytest.raises(OptionError, match="--host"):
        bound_sockets("192.0.2.7", 8123)
    with pytest.raises(OptionError, match="no such address"):
        bound_sockets("no such host", 8123)


def test_a_port_that_is_taken_ends_a_site_of_several_workers_at_once(postgresql_url: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(OptionError, match="is taken"):
        serve(SiteSettings(db=postgresql_url, secret=SECRET), port=taken.getsockname()[1], workers=2)


SLOW = "import sys, time\nif any('spawn_main' in part for part in sys.orig_argv): time.sleep(7)\n"
SERVE = """
import sys
from tiltyard.web.serving import serve
from tiltyard.web.settings import SiteSettings
serve(SiteSettings(db=sys.argv[1], rate_limit=False), port=int(sys.argv[2]), workers=2)
"""


@pytest.mark.soak
def test_two_workers_come_up_on_a_machine_that_needs_long_to_start_them(postgresql_url: str, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(SLOW)
    with Arena.open(postgresql_url) as arena:
        arena.append(catalog())
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "PYTHONWARNINGS": "ignore"}
    process = subprocess.Popen([sys.executable, "-B", "-c", SERVE, postgresql_url, str(port)], env=environment)
    try:
        address = f"http://127.0.0.1:{port}"
        wait_for(f"{address}/healthz", process)
        assert httpx.get(f"{address}/healthz", verify=False).json()["status"] == "ready"
        assert httpx.post(f"{address}/api/v1/matchups", verify=False).status_code == 201
    finally:
        process.terminate()
        assert process.wait(PATIENCE_SECONDS) == 0
