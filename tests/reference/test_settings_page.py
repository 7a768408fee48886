"""Every setting of the code is on its page, with its default; and the page names none that is not there."""

from __future__ import annotations

import dataclasses
import importlib
import re
import sys
from typing import Any

import msgspec
import pytest
import yaml

from tests.reference.pages import REFERENCE, ROOT, code, section
from tiltyard.arena.policy import Policy
from tiltyard.arena.simulation import SimulationSettings
from tiltyard.boards import METHODS, Selection
from tiltyard.judging import JudgeSettings
from tiltyard.llm.asking import AskingSettings
from tiltyard.placement.options import PlaceOptions
from tiltyard.ratings.glicko2 import Glicko2Settings
from tiltyard.tournament.config import Config
from tiltyard.web.settings import SiteSettings

PAGE = REFERENCE / "settings.md"
REQUIRED, NONE = "required", "–"


def test_the_page_is_up_to_date() -> None:
    sys.path.insert(0, str(ROOT / "tools"))
    try:
        from settings_reference import reference
    finally:
        sys.path.pop(0)
    assert PAGE.read_text(encoding="utf-8") == reference(), "run `make docs`"


def defaults(kind: Any) -> dict[str, Any]:
    """Names and defaults of a dataclass or struct, asked of an instance where one can be made without arguments."""
    if dataclasses.is_dataclass(kind):
        found = {}
        for field in dataclasses.fields(kind):
            absent = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
            made = field.default if field.default_factory is dataclasses.MISSING else field.default_factory()
            found[field.name] = REQUIRED if absent else made
        return found
    return {field.name: _of_struct(field) for field in msgspec.structs.fields(kind)}


def _of_struct(field: Any) -> Any:
    if field.required:
        return REQUIRED
    return field.default if field.default is not msgspec.NODEFAULT else field.default_factory()


def plain(value: Any) -> Any:
    """A default as a YAML file would hold it."""
    if isinstance(value, tuple):
        return [plain(part) for part in value]
    return value if isinstance(value, str | bool | int | float | dict | None) else str(value)


def shown(cell: str) -> Any:
    """What a cell of the page says a default is."""
    if cell in (REQUIRED, NONE):
        return REQUIRED if cell == REQUIRED else None
    (text,) = code(cell)
    value = yaml.safe_load(text)
    return float(text) if isinstance(value, str) and re.fullmatch(r"[\d.e-]+", text) else value


def written(title: str) -> dict[str, Any]:
    return {code(next(iter(row.values())))[0]: shown(row["default"]) for row in section(PAGE, title).rows}


def flat(kind: Any, prefix: str = "") -> dict[str, Any]:
    """The settings of a struct, and of the structs in it, under dotted names."""
    found: dict[str, Any] = {}
    for name, value in defaults(kind).items():
        if isinstance(value, msgspec.Struct):
            found |= flat(type(value), f"{prefix}{name}.")
        else:
            found[prefix + name] = plain(value)
    return found


def keys_of(kind: Any, prefix: str = "") -> dict[str, Any]:
    """The keys of a tournament file, from the annotations of its structs."""
    found: dict[str, Any] = {}
    for field in msgspec.structs.fields(kind):
        parts = [part for part in (field.type, *getattr(field.type, "__args__", ())) if isinstance(part, type)]
        inside = next((part for part in parts if issubclass(part, msgspec.Struct)), None)
        if inside is None:
            found[prefix + field.name] = plain(_of_struct(field))
        else:
            whole = getattr(field.type, "__origin__", None)
            each = "model" if field.name == "prices" else "dimension"
            many = {tuple: "[]", dict: f".<{each}>"}.get(whole, "") if whole else ""
            found |= keys_of(inside, f"{prefix}{field.name}{many}.")
    return found


def test_every_key_of_a_tournament_file_is_there_with_its_default() -> None:
    assert written("Tournament file") == keys_of(Config)


@pytest.mark.parametrize(
    ("title", "kind"),
    [
        ("Judge", JudgeSettings),
        ("Asking", AskingSettings),
        ("Filters", Selection),
        ("Glicko-2", Glicko2Settings),
        ("Placement", PlaceOptions),
        ("Site", SiteSettings),
    ],
)
def test_every_setting_of_a_kind_is_there_with_its_default(title: str, kind: Any) -> None:
    assert written(title) == {name: plain(value) for name, value in defaults(kind).items()}


def test_every_constant_of_the_policy_is_there_with_its_default_and_where_it_comes_from() -> None:
    rows = section(PAGE, "Arena policy").rows
    assert {code(row["setting"])[0]: shown(row["default"]) for row in rows} == flat(Policy)
    for row in rows:
        assert row["meaning and reason"]
        assert re.fullmatch(r"ours|§\d.*", row["policy"])


def test_every_setting_of_a_simulation_is_there_with_its_default() -> None:
    rows = {code(row["setting"])[0]: row["default"] for row in section(PAGE, "Simulation").rows}
    assert rows.pop("policy") == "the defaults above"
    expected = {name: plain(value) for name, value in defaults(SimulationSettings).items() if name != "policy"}
    assert {name: shown(cell) for name, cell in rows.items()} == expected


def test_every_parameter_of_every_method_is_there_with_its_default() -> None:
    rows = {code(row["setting"])[0]: row["default (methods)"] for row in section(PAGE, "Rating").rows}
    found: set[tuple[str, str]] = set()
    for method, kind in METHODS.items():
        for name, value in defaults(kind).items():
            found.add((name, method))
            if name not in ("selection", "parameters"):
                cell = next(part for part in rows[name].split("; ") if re.search(rf"[( ]{method}[,)]", part))
                assert shown(cell.rpartition(" (")[0]) == plain(value)
    assert set(rows) == {name for name, _ in found}


def test_the_fixed_numbers_are_those_of_the_code() -> None:
    for row in section(PAGE, "Fixed numbers").rows:
        module, _, name = code(row["constant"])[0].rpartition(".")
        assert shown(row["value"]) == plain(getattr(importlib.import_module(module), name))
