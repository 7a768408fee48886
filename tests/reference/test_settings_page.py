"""Every setting of a file or of the environment is on the page of settings, with its default and what it means."""

from __future__ import annotations

import re
from types import ModuleType
from typing import Any

import msgspec
import pytest

from tests.reference.pages import REFERENCE, Section, code, sections_of
from tiltyard.arena import Policy
from tiltyard.judge.tournament import Entrant
from tiltyard.judge.tournament.config import EloSettings, JudgeSection
from tiltyard.stats import K_MAX

PAGE = REFERENCE / "settings.md"


@pytest.fixture(scope="module")
def page(settings_reference: ModuleType) -> dict[str, Section]:
    """The sections of the page as the site shows it."""
    return {part.title: part for part in sections_of(settings_reference.filled(PAGE.read_text(encoding="utf-8")))}


def rows_of(part: Section) -> dict[str, dict[str, str]]:
    return {code(row["setting"])[0]: row for row in part.rows}


@pytest.mark.parametrize(
    ("prefix", "kind"), [("entrants[].", Entrant), ("judge.", JudgeSection), ("elo.", EloSettings)]
)
def test_every_key_of_a_tournament_file_is_there_with_its_meaning(
    prefix: str, kind: Any, page: dict[str, Section]
) -> None:
    rows = rows_of(page["Tournament file"])
    for name in kind.__struct_fields__:
        assert any(key == prefix + name or key.startswith(f"{prefix}{name}.") for key in rows)
    assert all(row["meaning"] for row in rows.values())
    assert rows["prompts.bank_path"]["default"] == "required"
    assert rows["elo.n_perms"]["default"] == f"`{EloSettings().n_perms}`"


def test_every_constant_of_the_policy_is_there_with_its_default_and_where_it_comes_from(
    page: dict[str, Section],
) -> None:
    rows = rows_of(page["Arena policy"])
    assert set(rows) == set(flat(Policy()))
    for name, value in flat(Policy()).items():
        shown = rows[name]["default"]
        assert shown in ("–", '`""`') or code(shown)[0] in (str(value), msgspec.json.encode(value).decode()), name
        assert (shown == "–") == (value is None)
        assert re.search(r" \((§[^()]*|ours)\)$", rows[name]["meaning"]), name


def flat(policy: msgspec.Struct, prefix: str = "") -> dict[str, Any]:
    """The values of a struct, and of the structs in it, under dotted names."""
    found: dict[str, Any] = {}
    for name in policy.__struct_fields__:
        value = getattr(policy, name)
        inside = flat(value, f"{prefix}{name}.") if isinstance(value, msgspec.Struct) else {prefix + name: value}
        found |= inside
    return found


def test_the_fixed_numbers_have_values_and_reasons(page: dict[str, Section]) -> None:
    rows = {code(row["constant"])[0]: row for row in page["Fixed numbers"].rows}
    assert rows["tiltyard.stats.elo.K_MAX"]["value"] == f"`{K_MAX}`"
    assert len(rows) > 15
    assert all(row["why"] for row in rows.values())
