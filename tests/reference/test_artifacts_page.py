"""Every field of every artifact is on its page, and every field of the page is in an artifact: they are made here."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest
from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match

from tests.reference import made as make
from tests.reference.fields import documented, never_made, sometimes_missing, undocumented
from tests.reference.pages import REFERENCE, code, section, sections_of
from tiltyard.arena import events
from tiltyard.arena.intake.media.shapes import clean_voxel
from tiltyard.arena.store import Store
from tiltyard.data.bank import Prompt
from tiltyard.data.schemas import schema_text
from tiltyard.judge.llm import journal
from tiltyard.verbs.demo.steps import gallery

PAGE = REFERENCE / "artifacts.md"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("made")


@pytest.fixture(scope="module")
def artifacts(home: Path) -> make.Made:
    found: make.Made = {}
    for maker in (
        make.ratings,
        make.battles,
        make.published,
        make.tournament,
        make.judge_check,
        make.placement,
        make.simulation,
    ):
        folder = home / maker.__name__
        folder.mkdir()
        make.add(found, maker(folder))
    make.add(found, make.validity())
    url = f"sqlite:///{home / 'site.db'}"
    Store.create(url).close()
    make.add(found, make.site(url))
    found["Live validity report"] += found[
        "Validity report"
    ]  # the same with bands; events that are rare come from there
    # The columns of the bank are on the page in words.
    of_prompts = ("prompt_source", "subject", "expected_behavior", "tags")
    found["Battle row"] = [{k: v for k, v in row.items() if k not in of_prompts} for row in found["Battle row"]]
    found["Prompt bank"].append(msgspec.to_builtins(Prompt(prompt_id="p", text="?", subject="sums", tags=("new",))))
    add_more_than_text(found)
    found["Voxel builds"] = voxel_builds()
    # Of judges with probabilities or grades, which were asked again; these have none of it.
    verdict = {**found["Verdict cache"][0], "choice_mass": 0.9, "repeat": 2, "grade": "A>B"}
    found["Verdict cache"].append(verdict)
    for title in ("Judgments", "Calibration"):
        found[title].append({**found[title][0], "raw": [verdict]})
    return found


def voxel_builds() -> list[Any]:
    """A build of the demo, and the page's own example, each as the import leaves it."""
    example = re.search(r"### Voxel builds.*?```json\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert example is not None
    sent = [dict(gallery("voxel"))["responses/files/tiler-castle.json"], example[1].encode()]
    return [json.loads(clean_voxel(one)) for one in sent]


def add_more_than_text(found: make.Made) -> None:
    """Rows with a conversation, images and a transcript; the others have texts only."""
    turns = [{"role": "user", "content": "?"}]
    shown = [{"path": "/a.png", "media_type": "image/png", "sha256": "00"}, {"url": "https://example.org/a.png"}]
    more: dict[str, dict[str, object]] = {
        "Prompt bank": {"system": "s", "turns": turns, "images": ["a.png"], "columns": {}},
        "Battle row": {"one_order": True, "winner_first": True},
        "Response file": {"images": ["a.png"], "transcript": [{**turns[0], "tool_calls": []}]},
        "Matches": {
            "prompt_system": "s", "prompt_turns": turns, "prompt_images": shown, "images_a": [], "images_b": [],
            "tags": ["new"], "language": "de", "prompt_columns": {},
        },
        "Tournament manifest": {
            "transcripts": {"shown": 1, "cut": 1, "characters_cut": 9, "limit": 1000}, "entrants_without_answers": ["x"]
        },
    }  # fmt: skip
    for title, fields in more.items():
        found[title].append({**found[title][0], **fields})


SCHEMA_OF = {
    "Battle row": "battle",
    "Arena export": "battle",
    "Prompt bank": "prompt",
    "Response file": "response",
    "Ratings file": "ratings",
    "Tournament manifest": "run-manifest",
    "Placement manifest": "placement-manifest",
}


@pytest.mark.parametrize("title", SCHEMA_OF)
def test_every_artifact_that_is_made_is_valid_by_its_schema(title: str, artifacts: make.Made) -> None:
    validator = Draft202012Validator(json.loads(schema_text(SCHEMA_OF[title])))
    wrong = [best_match(validator.iter_errors(row)) for row in json.loads(json.dumps(artifacts[title]))]
    assert [f"{error.json_path}: {error.message}" for error in wrong if error is not None][:3] == []


NOT_FILES = {
    "Board comparison", "Diagnostics", "Tokens", "Estimate", "Elo line", "Judge's scale", "Sensitivity", "Family check",
    "Board", "Board row", "Publication", "Record",
}  # fmt: skip
"""Sections that only others refer to."""


def test_every_field_is_documented_and_every_documented_field_appears(artifacts: make.Made, files_page: str) -> None:
    titles = {part.title for part in sections_of(files_page) if part.rows and "field" in part.rows[0]}
    assert titles - NOT_FILES == set(artifacts)
    wrong = {}
    for title, rows in artifacts.items():
        fields = documented(files_page, title)
        if title == "Live board":  # its rows have the fields of both
            fields += documented(files_page, "Leaderboard files")
        if found := undocumented(fields, rows) | sometimes_missing(fields, rows):
            wrong[title] = found
    assert wrong == {}
    rare = {"interval.draws", "engine", "centre"}  # of more than 2,000 models, of Spark, and on published boards
    assert never_made(documented(files_page, "Ratings file"), artifacts["Ratings file"]) == rare


def test_every_table_of_the_database_is_documented(tmp_path: Path) -> None:
    store = Store.create(f"sqlite:///{tmp_path / 'arena.db'}")
    with store.database.read() as connection:
        tables = {name for (name,) in connection.rows("SELECT name FROM sqlite_master WHERE type = 'table'")}
    store.close()
    kinds = {name: row["kind"] for row in section(PAGE, "Database").rows for name in code(row["table"])}
    assert set(kinds) == tables
    assert {name for name, kind in kinds.items() if kind == "from the log"} == {"matchups", "checkpoints"}
    assert {name for name, kind in kinds.items() if kind == "truth"} == {"events"}


@pytest.mark.parametrize(("title", "union"), [("Events", events.AnyBody), ("Batch journal", journal.Record)])
def test_every_kind_of_record_is_listed_with_its_fields_and_explained(title: str, union: Any, files_page: str) -> None:
    (part,) = [part for part in sections_of(files_page) if part.title == title]
    written = {code(row["kind"])[0]: code(row["fields"]) for row in part.rows}
    kinds = get_args(union)
    assert written == {str(kind.__struct_config__.tag): list(kind.__struct_encode_fields__) for kind in kinds}
    assert all(row["what it says"].endswith((".", ")")) for row in part.rows)


@pytest.mark.usefixtures("artifacts")
def test_the_files_of_a_folder_are_those_of_the_page(home: Path) -> None:
    text = PAGE.read_text(encoding="utf-8")
    for run in (home / "tournament" / "tournament" / "headline", *(home / "placement" / "calibrated").iterdir()):
        for path in run.rglob("*"):
            name = path.relative_to(run).as_posix()
            generic = name.replace("calibration.", "<dimension>.").replace("factuality.", "<dimension>.")
            assert path.is_dir() or f"`{name}`" in text or f"`{generic}`" in text, name
