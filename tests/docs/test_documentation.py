"""Every code block of the README and the manual runs, and says what it prints."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

import pytest

from tests.docs.manual import DOCS, PAGES, ROOT, Reader, blocks, name_of, workplace
from tiltyard.analysis.boards import METHODS, Selection

SERVING = DOCS / "tutorials" / "running-an-arena.md"  # runs beside a server: test_arena_tutorial.py


RUNNING = [page for page in PAGES if page != SERVING and blocks(page, "python", "console")]


@pytest.mark.parametrize("page", RUNNING, ids=name_of)
def test_every_block_of_a_page_runs_and_prints_what_it_says(page: Path, tmp_path: Path) -> None:
    reader = Reader(page, workplace(tmp_path))
    for kind, code in blocks(page, "python", "console"):
        reader.type_in(kind, code)


def test_the_command_reference_is_up_to_date() -> None:
    sys.path.insert(0, str(ROOT / "tools"))
    try:
        from command_reference import PAGE, reference
    finally:
        sys.path.pop(0)
    assert PAGE.read_text(encoding="utf-8") == reference(), "run `make docs`"


@pytest.mark.parametrize("method", sorted(METHODS))
def test_every_parameter_of_a_method_is_an_option_in_the_command_reference(method: str) -> None:
    page = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
    names = {field.name for kind in (METHODS[method], Selection) for field in dataclasses.fields(kind)}
    for name in names - {"selection", "parameters"}:
        assert f"`--{name.replace('_', '-')}`" in page, f"{method}: {name}"


def test_the_first_screens_of_the_readme_hold_install_command_table_and_python() -> None:
    head = "\n".join((ROOT / "README.md").read_text(encoding="utf-8").splitlines()[:90])
    for needed in ("make demo", "pip install", "$ tiltyard rate", "rank  model", "import tiltyard"):
        assert needed in head
