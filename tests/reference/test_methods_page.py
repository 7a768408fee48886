"""Every number on every board is on the methods page, with a link to where it is derived; and links lead somewhere."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import msgspec
import pytest

import tiltyard as ty
from tests.reference.fields import documented
from tests.reference.pages import IN_FULL, METHODS, ROOT, anchor, code, sections, under
from tiltyard.analysis.boards.text import EXTRA_COLUMNS, as_markdown
from tiltyard.arena import BoardRow, OfflineRow, ValidityReport
from tiltyard.arena.study import ModelFacts
from tiltyard.judge.tournament import EloLine, PairTally
from tiltyard.judge.verdicts import Bias
from tiltyard.site.board_columns import CATEGORY_COLUMNS, COLUMNS
from tiltyard.site.model import ModelAnswer
from tiltyard.stats.judge_scale import PlacementVariance

INDEX = "Where each number is shown"
NAMES = {"entrant_id", "entrant_a", "entrant_b", "dimension"}
"""Fields that say who or what is rated, not how much."""


def named(title: str) -> set[str]:
    """The numbers of one index table."""
    (part,) = [part for part in under(METHODS, INDEX) if part.title == title]
    return {word for row in part.rows for word in code(row["number"])}


def shown(title: str) -> set[str]:
    """The words under which they are shown."""
    (part,) = [part for part in under(METHODS, INDEX) if part.title == title]
    return {word for row in part.rows for word in code(row["shown as"])}


def fields(kind: type) -> set[str]:
    """The fields of a dataclass, or the keys under which a struct is written."""
    if issubclass(kind, msgspec.Struct):
        return set(kind.__struct_encode_fields__)
    return {field.name for field in dataclasses.fields(kind)}


def written(page: str, title: str, *before: str) -> set[str]:
    """The fields of an artifact below some key, as the page of artifacts (under test itself) lists them."""
    ways = [field.way for field in documented(page, title)]
    return {way[len(before)] for way in ways if way[: len(before)] == before and len(way) > len(before)}


@pytest.mark.parametrize(
    "options",
    [
        {"robustness": True},
        {"ci": "bootstrap", "rounds": 5},
        {"control": ["len"]},
        {"method": "elo"},
        {"method": "elo-perm", "n_perms": 3},
        {"method": "glicko2"},
        {"method": "winrate"},
    ],
    ids=str,
)
def test_every_column_of_a_board_is_explained(options: dict[str, object]) -> None:
    board = ty.rate(str(ROOT / "examples" / "birds.jsonl"), **options)  # type: ignore[arg-type]
    title = "On the board of `tiltyard rate`"
    assert {name for entry in board for name in entry.to_dict()} <= named(title)
    head = next(line for line in as_markdown(board).splitlines() if line.startswith("|"))
    columns = {cell.strip() for cell in head.strip("|").split("|")}
    assert columns <= named(title) | shown(title)
    assert {column.name for column in EXTRA_COLUMNS} <= named(title)
    assert {column.head for column in EXTRA_COLUMNS if column.head} <= shown(title)


def test_every_number_of_a_tournament_is_explained() -> None:
    numbers = fields(EloLine) | fields(PairTally) | fields(Bias)
    assert numbers - NAMES - {"judgments"} <= named("In a tournament")


def test_every_number_of_a_placement_is_explained(files_page: str) -> None:
    numbers = written(files_page, "Judge's scale") | written(files_page, "Placement manifest", "information")
    numbers |= {"flips", "agreement", "error", "covered", "critical"}
    assert numbers - {"asked"} <= named("In a placement")
    text = IN_FULL.read_text(encoding="utf-8")
    assert all(part in text for part in fields(PlacementVariance))


def test_every_column_of_the_leaderboard_is_explained(files_page: str) -> None:
    numbers = {*COLUMNS, *CATEGORY_COLUMNS} | fields(BoardRow)
    numbers |= written(files_page, "Leaderboard files", "rows", "[]") | written(
        files_page, "Leaderboard of a category", "rows", "[]"
    )
    assert numbers <= named("On the arena's leaderboard")


def test_every_number_of_a_models_page_is_explained() -> None:
    numbers = fields(ModelAnswer) - fields(ModelFacts) - {"seq"}
    assert numbers <= named("On a model's page")
    everywhere = {word for part in under(METHODS, INDEX) for row in part.rows for word in code(row["number"])}
    assert fields(OfflineRow) - {"low", "high"} <= everywhere


def test_every_part_of_the_validity_report_is_explained(files_page: str) -> None:
    assert fields(ValidityReport) == named("In the validity report") == written(files_page, "Validity report")


def test_every_number_leads_to_its_derivation() -> None:
    for part in under(METHODS, INDEX):
        for row in part.rows:
            assert re.search(r"\]\([\w.-]*#[\w-]+\)", row["derived in"]), row


@pytest.mark.parametrize("page", [METHODS, IN_FULL], ids=lambda page: page.stem)
def test_every_link_on_the_page_leads_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)]+)\)", page.read_text(encoding="utf-8")):
        name, _, place = target.partition("#")
        known = {anchor(part.title) for part in sections(page.parent / name if name else page)}
        assert not place or place in known, target


def test_every_test_and_bench_that_the_pages_name_is_there() -> None:
    text = METHODS.read_text(encoding="utf-8") + IN_FULL.read_text(encoding="utf-8")
    paths = set(re.findall(r"`((?:tests|bench)/[\w/.]+)`", text))
    assert len(paths) > 10
    for path in paths:
        assert (ROOT / path).exists(), path
