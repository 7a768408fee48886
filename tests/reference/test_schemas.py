"""The shipped JSON Schemas are those of the structs; what is on disk is valid by them, and what is wrong is not.

What the commands write is checked in `test_artifacts_page.py`, where it is made.
"""

from __future__ import annotations

import copy
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from tests.reference.pages import ROOT
from tiltyard.data.schemas import SCHEMAS, schema_text

GOLDEN = ROOT / "tests" / "golden"
ON_DISK = {
    "battle": ["examples/birds.jsonl", "examples/versions/*.jsonl", "tests/golden/**/battles.jsonl"],
    "prompt": ["examples/tournament/bank.jsonl", "tests/golden/**/bank.jsonl"],
    "response": ["examples/**/responses_*.jsonl", "tests/golden/**/responses_*.jsonl"],
    "tournament": [
        "examples/tournament/[tb]*.yaml",
        "tests/golden/**/tournament.yaml",
        "src/tiltyard/verbs/demo/material/tournament.yaml",
        "src/tiltyard/verbs/demo/material/live.yaml",
    ],
    "ratings": ["tests/golden/**/ratings/*.json", "tests/golden/**/elo_ratings.json"],
    "run-manifest": ["tests/golden/tournament/run/manifest.json"],
    "placement-manifest": ["tests/golden/placement/manifest.json"],
}


def validator(name: str) -> Draft202012Validator:
    return Draft202012Validator(json.loads(schema_text(name)))


def records(path: Path) -> list[Any]:
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".yaml":
        return [yaml.safe_load(text)]
    return [json.loads(line) for line in text.splitlines()] if path.suffix == ".jsonl" else [json.loads(text)]


def test_the_schemas_are_up_to_date() -> None:
    sys.path.insert(0, str(ROOT / "tools"))
    try:
        from schemas import schemas, written
    finally:
        sys.path.pop(0)
    made = schemas()
    assert list(made) == list(SCHEMAS)
    assert [name for name in SCHEMAS if schema_text(name) != written(made[name])] == [], "run `make docs`"


@pytest.mark.parametrize("name", SCHEMAS)
def test_a_schema_is_one_and_explains_every_field(name: str) -> None:
    schema = json.loads(schema_text(name))
    Draft202012Validator.check_schema(schema)
    fields = schema.get("properties") or schema["$defs"]["board"]["properties"]
    assert [field for field, inner in fields.items() if "description" not in json.dumps(inner)] == []


@pytest.mark.parametrize("name", SCHEMAS)
def test_files_of_the_examples_and_of_the_golden_folders_are_valid(name: str) -> None:
    found = [path for pattern in ON_DISK[name] for path in ROOT.glob(pattern)]
    assert len(found) >= len(ON_DISK[name])
    rows = [(path.name, row) for path in found for row in records(path)[:40]]
    check = validator(name)
    assert [(where, error.message) for where, row in rows for error in check.iter_errors(row)][:3] == []


def battle(**more: Any) -> dict[str, Any]:
    return {"model_a": "v2", "model_b": "v1", "winner": "model_a", "source": "human", **more}


def spoil(name: str, change: Callable[[Any], object]) -> Any:
    """The first file of a kind, with something wrong in it."""
    row = copy.deepcopy(records(next(ROOT.glob(ON_DISK[name][0])))[0])
    change(row)
    return row


WRONG = {
    "an unknown winner": ("battle", battle(winner="v2")),
    "who decided is missing": ("battle", {key: value for key, value in battle().items() if key != "source"}),
    "a score above one": ("battle", battle(score_a=1.5)),
    "a prompt without a text": ("prompt", {"prompt_id": "p"}),
    "a turn of nobody": ("prompt", {"prompt_id": "p", "text": "?", "turns": [{"role": "dog", "content": "woof"}]}),
    "an answer of nothing": ("response", {"entrant_id": "a", "prompt_id": "p"}),
    "a file that is not said to be one": ("response", {"entrant_id": "a", "prompt_id": "p", "file": "a.png"}),
    "a kind that is none": (
        "response", {"entrant_id": "a", "prompt_id": "p", "kind": "smell", "file": "a.png"},
    ),
    "one entrant": ("tournament", spoil("tournament", lambda row: row["entrants"].__delitem__(slice(1, None)))),
    "a misspelt setting": ("tournament", spoil("tournament", lambda row: row["judge"].update(headline_modle="x"))),
    "a misspelt section": ("tournament", spoil("tournament", lambda row: row.update(judges={}))),
    "no rubric": ("tournament", spoil("tournament", lambda row: row.update(rubrics={}))),
    "too few shuffles": ("tournament", spoil("tournament", lambda row: row["elo"].update(n_perms=1))),
    "an id that is no file name": (
        "tournament", spoil("tournament", lambda row: row["entrants"][0].update(entrant_id="../x")),
    ),
    "no ratings": ("ratings", {"arena": None}),
    "a rating that is text": ("ratings", spoil("ratings", lambda row: row["ratings"][0].update(rating="high"))),
    "a model without a rating": ("ratings", spoil("ratings", lambda row: row["ratings"][0].pop("rating"))),
    "boards of no column": ("ratings", {"boards": {}}),
    "another mode": ("run-manifest", spoil("run-manifest", lambda row: row.update(mode="dress rehearsal"))),
    "a run without hashes": ("run-manifest", spoil("run-manifest", lambda row: row.pop("sha256"))),
    "a count that is text": (
        "run-manifest",
        spoil("run-manifest", lambda row: row["results"]["dimensions"]["factuality"].update(judgments="many")),
    ),
    "another kind": ("placement-manifest", spoil("placement-manifest", lambda row: row.update(kind="run"))),
    "finished without a result": ("placement-manifest", spoil("placement-manifest", lambda row: row.pop("judged"))),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_not_valid(case: str) -> None:
    name, row = WRONG[case]
    assert not validator(name).is_valid(row)


def test_what_a_reader_takes_is_valid() -> None:
    rows = validator("battle")
    assert rows.is_valid(battle(question_id=None, weight=None, response_a="a text of a later version", len_a=12))
    manifest = records(GOLDEN / "placement" / "manifest.json")[0]
    started = {key: value for key, value in manifest.items() if key not in ("rounds", "stopped", "judged", "panel")}
    assert validator("placement-manifest").is_valid({**started, "finished_at": None})
    plain = {
        "ratings": [{"model": "a", "rating": 1, "ci_low": None, "ci_high": None, "n_battles": 1, "source": "human"}]
    }
    assert validator("ratings").is_valid(plain)
    assert validator("ratings").is_valid({"by": "category", "boards": {"sums": plain}})
