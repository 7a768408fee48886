"""The container's file and the composition around it: built and started here as an engine would, without an engine."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.cli.conftest import Run, tiltyard
from tests.forked import Forked
from tests.forked import command as tiltyard_command
from tests.processes import free_port, wait_for
from tests.stand_in import program
from wheels import ROOT

__all__ = ["program", "tiltyard"]

DEPLOY = ROOT / "deploy"
VARIABLE = re.compile(r"\$\{(\w+)")
NOBODY = 65534


def steps() -> list[tuple[str, str]]:
    """The instructions of the container's file, with continued lines joined."""
    text = (DEPLOY / "Containerfile").read_text(encoding="utf-8").replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [(word, rest.strip()) for word, _, rest in (line.partition(" ") for line in lines)]


def only(word: str) -> str:
    """The last instruction of a kind."""
    return [rest for kind, rest in steps() if kind == word][-1]


def composition() -> dict[str, Any]:
    made: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))
    return made


def test_the_container_is_not_root_checks_itself_and_has_no_secret_in_it() -> None:
    assert int(only("USER")) > 1000
    kinds = [kind for kind, _ in steps()]
    assert kinds.index("USER") < kinds.index("HEALTHCHECK") < kinds.index("ENTRYPOINT")
    for kind, rest in steps():
        assert not (kind in ("ENV", "ARG") and re.search("SECRET|PASSWORD|KEY", rest)), rest
        if kind == "COPY" and not rest.startswith("--from"):
            assert (ROOT / rest.split()[0]).exists(), rest
        if kind == "FROM":
            assert re.match(r"docker\.io/library/python:3\.1\d-slim-\w+", rest), "a name with a version"
    assert "--require-hashes" in "".join(rest for kind, rest in steps() if kind == "RUN")


def test_its_health_check_fails_where_nothing_answers_and_passes_where_a_site_does(started: int) -> None:
    command = json.loads(only("HEALTHCHECK").partition("CMD ")[2])
    assert command[0] == "python"
    for port, wanted in ((started, 0), (free_port(), 1)):
        code = command[2].replace("8000", str(port))
        assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=False).returncode == wanted


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """The port of a site that was started by the container's own command, with its settings, in a folder of its own."""
    home = tmp_path_factory.mktemp("container")
    command = [*json.loads(only("ENTRYPOINT")), *json.loads(only("CMD"))]
    assert command == ["tiltyard", "arena", "serve", "--host", "0.0.0.0"]
    environment = environment_in(home)
    done = Forked(home, "init", tiltyard_command, "arena", "init", environment=environment).wait()
    assert done.returncode == 0, done.stderr
    port = free_port()
    here = ["127.0.0.1" if word == "0.0.0.0" else word for word in command[1:]]
    running = Forked(home, "serve", tiltyard_command, *here, "--port", str(port), environment=environment)
    try:
        wait_for(f"http://127.0.0.1:{port}/healthz", running)
        yield port
    finally:
        running.terminate()
        running.wait()


def environment_in(home: Path) -> dict[str, str]:
    """The environment of the container's file, in a folder."""
    settings = dict(pair.split("=", 1) for pair in shlex.split(only("ENV")) if not pair.startswith("PATH="))
    return {**os.environ, **settings, "TILTYARD_CACHE_DIR": str(home / "cache"), "HOME": str(home)}


def served(home: Path, program: list[str], command: list[str], **options: Any) -> Iterator[int]:
    """The port of a running site, with the environment of the container's file."""
    port = free_port()
    environment = environment_in(home)
    subprocess.run([*program, "arena", "init"], cwd=home, env=environment, check=True, capture_output=True, **options)
    here = ["127.0.0.1" if word == "0.0.0.0" else word for word in command]
    with (home / "log").open("wb") as log:
        running = subprocess.Popen(
            [*program, *here, "--port", str(port)], cwd=home, env=environment, stdout=log, stderr=log, **options
        )
    try:
        wait_for(f"http://127.0.0.1:{port}/healthz", running)
        yield port
    finally:
        running.terminate()
        running.wait(60)


@pytest.mark.soak
def test_the_steps_of_the_build_make_a_program_that_serves_as_somebody_without_rights(tmp_path: Path) -> None:
    """The same steps on a bare environment, and the site as `nobody` where the interpreter may be used by them."""
    home = tmp_path / "home"
    home.mkdir()
    place = tmp_path / "opt"
    build = steps()[: [kind for kind, _ in steps()].index("FROM", 1)]
    for kind, rest in build:
        if kind == "RUN":
            words = rest.replace("/opt/tiltyard", str(place)).replace("/source", str(ROOT))
            command = [sys.executable if word == "python" else word for word in shlex.split(words)]
            subprocess.run(command, check=True, capture_output=True)
    program = [str(place / "bin" / "tiltyard")]
    options: dict[str, Any] = {}
    if os.geteuid() == 0 and as_nobody(place / "bin" / "python", tmp_path):
        shutil.chown(home, NOBODY, NOBODY)
        options = {"user": NOBODY, "group": NOBODY, "extra_groups": []}
    for port in served(home, program, ["arena", "serve", "--host", "127.0.0.1"], **options):
        assert port


def as_nobody(python: Path, *folders: Path) -> bool:
    for folder in (*folders, *folders[0].parents):
        if not folder.stat().st_mode & 0o001:
            return False
    tried = subprocess.run([python, "-c", ""], user=NOBODY, group=NOBODY, extra_groups=[], check=False)
    return tried.returncode == 0


def test_every_variable_of_the_composition_is_in_its_example_and_secrets_are_empty_there() -> None:
    text = (DEPLOY / "compose.yaml").read_text(encoding="utf-8")
    example = dict(
        line.split("=", 1)
        for line in (DEPLOY / "compose.env.example").read_text(encoding="utf-8").splitlines()
        if line and not line.startswith("#")
    )
    needed = set(re.findall(r"\$\{(\w+):\?", text))
    assert needed <= set(example)
    assert set(example) <= set(VARIABLE.findall(text))
    assert {name for name in example if re.search("SECRET|PASSWORD", name)} == {
        name for name, value in example.items() if not value
    }


def test_votes_are_in_a_volume_the_site_has_no_rights_and_only_the_proxy_is_seen_from_outside() -> None:
    services = composition()["services"]
    assert [name for name, service in services.items() if "ports" in service] == ["proxy"]
    assert [name for name, service in services.items() if "outside" in service["networks"]] == ["proxy"]
    for name in ("site", "tables", "backup"):
        assert services[name]["read_only"], name
        assert services[name]["cap_drop"] == ["ALL"], name
    volumes = composition()["volumes"]
    assert services["database"]["volumes"][0].split(":")[0] in volumes
    assert services["backup"]["volumes"][0].split(":")[0] in volumes
    assert services["backup"]["environment"]["BACKUP_DIR"] == services["backup"]["volumes"][0].split(":")[1]
    for volume in services["proxy"]["volumes"]:
        source = volume.split(":")[0]
        assert source in volumes or (DEPLOY / source).is_file()


def test_the_site_is_started_with_options_that_exist_and_believes_its_proxy_alone(tiltyard: Run) -> None:
    command = composition()["services"]["site"]["command"]
    options = dict(word.split("=", 1) for word in command if word.startswith("--"))
    known = tiltyard("arena", "serve", "--help-all").stdout
    assert [name for name in options if not re.search(rf"{name}\b", known)] == []
    (subnet,) = composition()["networks"]["inside"]["ipam"]["config"]
    assert ip_network(options["--trusted-proxy"]) == ip_network(subnet["subnet"])


def test_the_tables_are_made_once_and_found_afterwards(tmp_path: Path, program: Path) -> None:
    (command,) = composition()["services"]["tables"]["command"]
    path = f"{program}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "TILTYARD_DB": f"sqlite:///{tmp_path / 'arena.db'}"}
    for _ in range(2):
        done = subprocess.run(["sh", "-c", command], env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
