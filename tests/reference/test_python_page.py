"""Every public name of Python is on the page of its module, with every parameter, its default and what it means."""

from __future__ import annotations

import enum
import inspect
from importlib import import_module
from types import ModuleType

import pytest

import tiltyard as ty
from tests.reference.pages import code, sections_of

EXPORTING = (
    "tiltyard",
    "tiltyard.data.battles",
    "tiltyard.analysis.boards",
    "tiltyard.data.bank",
    "tiltyard.judge.verdicts",
)


def test_every_parameter_has_words_and_no_words_are_left_over(
    python_reference: ModuleType, settings_reference: ModuleType
) -> None:
    for module in python_reference.MODULES:
        for name in python_reference.names_of(module):
            thing = python_reference.public(module, name)
            known = {parameter.name for parameter in python_reference.parameters(thing)}
            if known:
                assert known <= {key for key, said in python_reference.meanings(thing).items() if said}, name
                assert set(settings_reference.parameter_docs(thing)) <= known, name


@pytest.mark.parametrize("name", ty.__all__)
def test_help_explains_every_parameter(name: str, settings_reference: ModuleType) -> None:
    thing = getattr(ty, name)
    if inspect.isclass(thing) and issubclass(thing, enum.Enum | Exception):
        return
    listed = settings_reference.parameter_docs(thing)
    assert list(listed) == list(inspect.signature(thing).parameters)
    assert all(text.endswith((".", "…", ")")) for text in listed.values())


def test_a_parameter_that_nobody_explains_has_no_meaning(settings_reference: ModuleType) -> None:
    def rated(battles: object, level: float) -> None:
        """A board.

        Parameters:
            battles: What is rated, in words that
                go on in a second line.
        """

    assert settings_reference.meanings(rated) == {"battles": "What is rated, in words that go on in a second line."}


@pytest.mark.parametrize("module", EXPORTING)
def test_every_exported_name_is_on_a_page_with_a_description_and_in_the_overview(
    module: str, python_reference: ModuleType
) -> None:
    parts = {part.title.strip("`"): part for page in python_reference.pages().values() for part in sections_of(page)}
    overview = python_reference.overview()
    for name in import_module(module).__all__:
        assert any(line.endswith((".", ":")) for line in parts[name].lines), name
        assert f"`{name}`" in overview


@pytest.mark.parametrize("name", ["rate", "read_battles", "BradleyTerry", "PermutationElo", "Leaderboard"])
def test_parameters_and_defaults_are_those_of_the_signature(name: str, python_reference: ModuleType) -> None:
    page = python_reference.pages()["reference/python/tiltyard.md"]
    (part,) = [part for part in sections_of(page) if part.title == f"`{name}`"]
    rows = {code(row["parameter"])[0]: row["default"] for row in part.rows if "parameter" in row}
    signature = inspect.signature(getattr(ty, name))
    assert list(rows) == list(signature.parameters)
    for parameter in signature.parameters.values():
        if parameter.default is inspect.Parameter.empty:
            assert rows[parameter.name] == ""
        elif isinstance(parameter.default, str | float | int | None):
            assert code(rows[parameter.name]) == [repr(parameter.default)]
