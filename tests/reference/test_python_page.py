"""Every public name of Python is on the page of its module, with every parameter, its default and what it means."""

from __future__ import annotations

import enum
import inspect
import sys
from collections.abc import Iterator
from importlib import import_module
from types import ModuleType

import pytest

import tiltyard as ty
from tests.reference.pages import REFERENCE, ROOT, code, sections

OVERVIEW = REFERENCE / "python.md"
PAGES = REFERENCE / "python"
EXPORTING = ("tiltyard", "tiltyard.battles", "tiltyard.boards", "tiltyard.bank", "tiltyard.judging", "tiltyard.report")


@pytest.fixture(scope="module")
def generator() -> Iterator[ModuleType]:
    sys.path.insert(0, str(ROOT / "tools"))
    try:
        yield import_module("python_reference")
    finally:
        sys.path.pop(0)


def test_the_pages_are_up_to_date(generator: ModuleType) -> None:
    made = generator.pages()
    assert set(made) == {OVERVIEW, *PAGES.glob("*.md")}, "run `make docs`"
    assert [path.name for path, text in made.items() if path.read_text(encoding="utf-8") != text] == []


def test_every_parameter_has_words_and_no_words_are_left_over(generator: ModuleType) -> None:
    assert generator.unexplained() == []
    assert generator.stale() == []


@pytest.mark.parametrize("name", ty.__all__)
def test_help_explains_every_parameter(name: str, generator: ModuleType) -> None:
    thing = getattr(ty, name)
    if inspect.isclass(thing) and issubclass(thing, enum.Enum | Exception):
        return
    listed = generator.parameter_docs(thing)
    assert list(listed) == list(inspect.signature(thing).parameters)
    assert all(text.endswith((".", "…", ")")) for text in listed.values())


def test_a_parameter_that_nobody_explains_is_found(generator: ModuleType) -> None:
    def rated(battles: object, level: float) -> None:
        """A board.

        Parameters:
            battles: What is rated, in words that
                go on in a second line.
        """

    assert generator.meaning(rated, "battles") == "What is rated, in words that go on in a second line."
    assert generator.meaning(rated, "level") == ""


@pytest.mark.parametrize("module", EXPORTING)
def test_every_exported_name_is_on_a_page_and_in_the_overview(module: str) -> None:
    titles = {part.title.strip("`") for page in PAGES.glob("*.md") for part in sections(page) if part.level == 2}
    assert set(import_module(module).__all__) <= titles
    overview = OVERVIEW.read_text(encoding="utf-8")
    assert [name for name in import_module(module).__all__ if f"[`{name}`]" not in overview] == []


@pytest.mark.parametrize("name", ["rate", "read_battles", "BradleyTerry", "PermutationElo", "Leaderboard"])
def test_parameters_and_defaults_are_those_of_the_signature(name: str) -> None:
    (part,) = [part for part in sections(PAGES / "tiltyard.md") if part.title == f"`{name}`"]
    rows = {code(row["parameter"])[0]: row["default"] for row in part.rows if "parameter" in row}
    signature = inspect.signature(getattr(ty, name))
    assert list(rows) == list(signature.parameters)
    for parameter in signature.parameters.values():
        if parameter.default is inspect.Parameter.empty:
            assert rows[parameter.name] == ""
        elif isinstance(parameter.default, str | float | int | None):
            assert code(rows[parameter.name]) == [repr(parameter.default)]
