"""Building the package, and installing it as a stranger would: a clean environment per interpreter and extra."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BATTLES = ROOT / "examples" / "birds.jsonl"
VERSIONS = ("3.11", "3.12", "3.13")
UNREACHABLE = ("No matching distribution", "dns error", "error sending request", "Network is unreachable", "offline")


@dataclass(frozen=True)
class Built:
    """What is published: one wheel and one source archive."""

    wheel: Path
    archive: Path


def build(folder: Path) -> Built:
    """Build both from the working tree."""
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(folder), "-t", "wheel", "-t", "sdist"]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    return Built(next(folder.glob("*.whl")), next(folder.glob("*.tar.gz")))


def interpreter(version: str) -> str | None:
    """The interpreter of that version: this one, one of pyenv's, or one on the path that really is it."""
    if version == f"{sys.version_info.major}.{sys.version_info.minor}":
        return sys.executable
    known = sorted((Path.home() / ".pyenv" / "versions").glob(f"{version}.*/bin/python{version}"))
    candidates = [str(path) for path in known[-1:]] + [shutil.which(f"python{version}") or ""]
    for candidate in filter(None, candidates):
        asked = subprocess.run([candidate, "--version"], capture_output=True, text=True, check=False)
        if asked.returncode == 0 and asked.stdout.startswith(f"Python {version}."):
            return candidate
    return None


@dataclass(frozen=True)
class Environment:
    """A clean environment with the package in it."""

    folder: Path

    @property
    def python(self) -> Path:
        return self.folder / "bin" / "python"

    def run(self, *command: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """A command of the environment, in an empty folder, seeing nothing of the development tree."""
        place = self.folder / "work"
        place.mkdir(exist_ok=True)
        hidden = ("PYTHONPATH", "VIRTUAL_ENV", "PYENV_VERSION")
        inherited = {name: value for name, value in os.environ.items() if name not in hidden}
        inherited |= {
            "PATH": f"{self.folder / 'bin'}{os.pathsep}{os.environ['PATH']}",
            "NO_COLOR": "1",
            "COLUMNS": "120",
        }
        return subprocess.run(
            command, cwd=place, env=inherited | variables, capture_output=True, text=True, check=False, timeout=600
        )

    def script(self, code: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Python code that may not warn of anything, but for how others write their strings (google-genai, 2026-11)."""
        quiet = ("-W", "error", "-W", "ignore:invalid escape sequence")
        return self.run(str(self.python), "-I", *quiet, "-c", code, **variables)

    def tiltyard(self, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        return self.run(str(self.folder / "bin" / "tiltyard"), *arguments, **variables)


def install(folder: Path, python: str, *wanted: str, bare: tuple[str, ...] = ()) -> Environment:
    """A new environment with `wanted` in it, and `bare` without what it asks for: by uv where at hand, else by pip."""
    uv = Path(sys.executable).parent / "uv"
    inside = str(folder / "bin" / "python")
    if uv.exists():
        make = [str(uv), "venv", "--quiet", "--python", python, str(folder)]
        add = [str(uv), "pip", "install", "--quiet", "--python", inside]
    else:
        make = [python, "-m", "venv", str(folder)]
        add = [inside, "-m", "pip", "install", "--quiet"]
    for command in [make, [*add, *wanted], *([[*add, "--no-deps", *bare]] if bare else [])]:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode and os.environ.get("CI") != "true" and any(word in done.stderr for word in UNREACHABLE):
            pytest.skip(f"the package registry cannot be reached: {done.stderr.strip().splitlines()[-1]}")
        assert done.returncode == 0, done.stderr
    return Environment(folder)
