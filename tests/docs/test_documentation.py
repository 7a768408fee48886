"""Every code block of the README and the manual runs, and says what it prints."""

from __future__ import annotations

import dataclasses
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import tiltyard as ty
from tiltyard.boards import METHODS, Selection

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page: Path, *languages: str) -> list[tuple[str, str]]:
    return [(kind, code) for kind, code in BLOCK.findall(page.read_text(encoding="utf-8")) if kind in languages]


@pytest.fixture
def workplace(tmp_path: Path) -> Path:
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    return tmp_path


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_block_of_a_page_runs_and_prints_what_it_says(page: Path, workplace: Path) -> None:
    python: list[str] = []
    for kind, code in blocks(page, "python", "console"):
        if kind == "python":
            python.append(code)
            script = "\n".join(python)
            done = subprocess.run(
                [sys.executable, "-c", script], cwd=workplace, capture_output=True, text=True, check=False
            )
            assert done.returncode == 0, f"{page.name}:\n{code}\n{done.stderr}"
        else:
            run_console(page, code, workplace)


def run_console(page: Path, code: str, workplace: Path) -> None:
    """Run each `$ command` and compare what it prints; a line `…` stands for anything."""
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    environment |= {"COLUMNS": "120", "NO_COLOR": "1"}
    for step in re.split(r"^\$ ", code, flags=re.MULTILINE)[1:]:
        command, _, expected = step.partition("\n")
        done = subprocess.run(
            command,
            shell=True,
            cwd=workplace,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        wanted = [line.rstrip() for line in expected.rstrip().splitlines()]
        pattern = "".join("(?:.*\n)*" if line == "…" else re.escape(line) + "\n" for line in wanted)
        printed = "".join(line.rstrip() + "\n" for line in done.stdout.rstrip().splitlines())
        assert re.fullmatch(pattern, printed), f"{page.name}: $ {command}\n{done.stdout}"


def test_every_page_is_linked_from_the_readme_or_another_page() -> None:
    texts = {page: page.read_text(encoding="utf-8") for page in PAGES}
    for page in PAGES[1:]:
        assert any(page.name in text for other, text in texts.items() if other != page), f"nothing links {page.name}"


def test_links_between_pages_lead_somewhere() -> None:
    for page in [*PAGES, ROOT / "ARCHITECTURE.md", ROOT / "CONTRIBUTING.md"]:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name} links {target}"


def test_the_command_reference_is_up_to_date() -> None:
    sys.path.insert(0, str(ROOT / "tools"))
    try:
        from command_reference import PAGE, reference
    finally:
        sys.path.pop(0)
    assert PAGE.read_text(encoding="utf-8") == reference(), "run `make docs`"


@pytest.mark.parametrize("name", sorted({*ty.__all__}))
def test_every_public_name_is_in_the_manual(name: str) -> None:
    manual = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
    assert re.search(rf"\b{name}\b", manual), f"{name} is in no page"


@pytest.mark.parametrize("method", sorted(METHODS))
def test_every_parameter_of_a_method_is_an_option_in_the_command_reference(method: str) -> None:
    page = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
    names = {field.name for kind in (METHODS[method], Selection) for field in dataclasses.fields(kind)}
    for name in names - {"selection", "parameters"}:
        assert f"`--{name.replace('_', '-')}`" in page, f"{method}: {name}"


def test_the_first_thirty_lines_of_the_readme_hold_install_command_table_and_python() -> None:
    head = "\n".join((ROOT / "README.md").read_text(encoding="utf-8").splitlines()[:30])
    for needed in ("pip install", "$ tiltyard rate", "rank  model", "import tiltyard", "docs/ratings.md"):
        assert needed in head
