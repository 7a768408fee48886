"""Records of Every Eval Ever: what version 0.3.0 of the shared format asks for, and the numbers of the board."""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft7Validator
from tests.reference.pages import ROOT
from typer.testing import CliRunner

import tiltyard as ty
from tiltyard.analysis.boards import Evaluator, write_eval_records
from tiltyard.analysis.boards.eval_records import eval_record
from tiltyard.cli.main import make_app
from tiltyard.errors import OptionError

BIRDS = ROOT / "examples" / "birds.jsonl"
RUN = ROOT / "tests" / "golden" / "tournament" / "run"
TEXTS = {"type": "object", "additionalProperties": {"type": "string"}}
END = {"oneOf": [{"type": "number"}, {"enum": ["Infinity", "-Infinity"]}]}


def needs(*names: str, **kinds: Any) -> dict[str, Any]:
    return {"type": "object", "required": list(names), "properties": kinds}


FORMAT = {
    **needs(
        "schema_version", "evaluation_id", "retrieved_timestamp", "source_metadata", "model_info", "eval_library",
        "evaluation_results",
        schema_version={"const": "0.3.0"},
        evaluation_id={"type": "string"},
        evaluation_timestamp={"type": "string"},
        retrieved_timestamp={"type": "string"},
        source_metadata=needs(
            "source_type", "source_organization_name", "evaluator_relationship",
            source_type={"enum": ["documentation", "evaluation_run"]},
            evaluator_relationship={"enum": ["first_party", "third_party", "collaborative", "other"]},
        ),
        model_info=needs(
            "name", "id", "additional_details",
            name={"type": "string"}, id={"type": "string"}, developer={"type": "string"},
            additional_details={
                **needs(
                    "deployment_type", "model_availability",
                    deployment_type={"enum": ["self_deployed", "externally_managed", "unknown"]},
                    model_availability={"enum": ["open_weights", "closed_weights", "unknown"]},
                ),
                **TEXTS,
            },
        ),
        eval_library=needs("name", "version"),
        evaluation_results={
            "type": "array",
            "minItems": 1,
            "items": needs(
                "evaluation_name", "source_data", "metric_config", "score_details",
                source_data=needs(
                    "dataset_name", "source_type", source_type={"enum": ["hf_dataset", "other"]}
                ),
                metric_config={
                    **needs(
                        "lower_is_better",
                        lower_is_better={"type": "boolean"},
                        metric_parameters={"additionalProperties": {"type": ["string", "number", "boolean", "null"]}},
                        score_type={"enum": ["binary", "continuous", "levels"]},
                        min_score=END, max_score=END,
                        additional_details=TEXTS,
                    ),
                    "if": {"required": ["score_type"]},
                    "then": {"required": ["min_score", "max_score"]},
                },
                score_details=needs(
                    "score",
                    score={"type": "number"},
                    details=TEXTS,
                    uncertainty=needs(
                        confidence_interval=needs(
                            "lower", "upper", lower={"type": "number"}, upper={"type": "number"},
                            confidence_level={"type": "number", "minimum": 0, "maximum": 1},
                        ),
                        num_samples={"type": "integer"},
                        num_bootstrap_samples={"type": "integer"},
                    ),
                ),
            ),
        },
    ),
    "additionalProperties": False,
}  # fmt: skip
"""What the format requires, in our words; the keys that it allows at the top are those named here."""

US = Evaluator(evaluation="birds", organization="An aviary", developer="nature")


def records(folder: Path) -> dict[str, Any]:
    found = {path: json.loads(path.read_text(encoding="utf-8")) for path in folder.rglob("*.json")}
    assert all(uuid.UUID(path.stem).version == 4 for path in found)
    return {path.relative_to(folder).parent.as_posix(): record for path, record in found.items()}


@pytest.mark.parametrize("method", ["bt", "elo", "elo-perm", "glicko2", "winrate"])
def test_every_method_makes_valid_records(method: str, tmp_path: Path) -> None:
    more = {"n_perms": 5} if method == "elo-perm" else {}
    board = ty.rate(BIRDS, method=method, **more)
    written = write_eval_records(tmp_path, {"": ty.RatingsFile.of(board)}, US, retrieved_at=1_790_000_000.5)
    assert len(written) == len(board)
    for record in records(tmp_path).values():
        assert [error.message for error in Draft7Validator(FORMAT).iter_errors(record)] == []


def test_a_record_holds_the_rating_its_interval_and_the_places() -> None:
    board = ty.rate(BIRDS)
    best = board.entries[0]
    record = eval_record(best.model, {"": ty.RatingsFile.of(board)}, US, retrieved_at=1.0)
    rating, score = record["evaluation_results"]
    assert rating["score_details"]["score"] == best.rating
    interval = rating["score_details"]["uncertainty"]["confidence_interval"]
    assert (interval["lower"], interval["upper"], interval["confidence_level"]) == (best.ci_low, best.ci_high, 0.95)
    assert interval["method"] == "sandwich, clustered by question_id"
    assert rating["score_details"]["details"]["rank_high"] == str(best.rank_high)
    metric = rating["metric_config"]
    assert (metric["score_type"], metric["min_score"], metric["max_score"]) == ("continuous", "-Infinity", "Infinity")
    assert 0 < score["score_details"]["score"] < 1
    assert record["model_info"]["id"] == f"nature/{best.model}"


def test_an_open_interval_is_left_out_and_a_name_says_its_developer(tmp_path: Path) -> None:
    row = {"model_a": "acme/a 1", "model_b": "../b", "winner": "model_a", "source": "human"}
    report = ty.RatingsFile.of(ty.rate([row, row]))
    write_eval_records(tmp_path, {"": report}, US, retrieved_at=1.0)
    found = records(tmp_path)
    assert set(found) == {"data/birds/acme/a_1", "data/birds/unnamed/b"}
    for record in found.values():
        assert "uncertainty" not in record["evaluation_results"][0]["score_details"]
        assert [error.message for error in Draft7Validator(FORMAT).iter_errors(record)] == []


def test_the_same_ratings_at_the_same_time_are_the_same_files(tmp_path: Path) -> None:
    report = {"": ty.RatingsFile.of(ty.rate(BIRDS))}
    first, second = (write_eval_records(tmp_path, report, US, retrieved_at=7.0) for _ in range(2))
    assert first == second
    assert len(list(tmp_path.rglob("*.json"))) == len(first)


def test_the_command_takes_a_run_a_ratings_file_and_battles(tmp_path: Path) -> None:
    run = CliRunner()
    (tmp_path / "board.json").write_text(ty.rate(BIRDS).to_json(), encoding="utf-8")
    for number, source in enumerate((RUN, tmp_path / "board.json", BIRDS)):
        words = ["battles", "eval-records", str(source), str(tmp_path / str(number)), "--organization", "An aviary"]
        done = run.invoke(make_app("battles"), words)
        assert done.exit_code == 0, done.exception
        found = records(tmp_path / str(number))
        assert all(not list(Draft7Validator(FORMAT).iter_errors(record)) for record in found.values())
    names = {row["evaluation_name"] for row in next(iter(records(tmp_path / "0").values()))["evaluation_results"]}
    assert names <= {"calibration", "factuality"}
    assert next(iter(records(tmp_path / "0").values()))["evaluation_timestamp"]
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "manifest.json").write_text("{}")
    words = ["battles", "eval-records", str(tmp_path / "empty"), str(tmp_path), "--organization", "x"]
    assert "has no ratings" in str(run.invoke(make_app("battles"), words).exception)


def test_what_a_record_must_say_is_not_left_empty() -> None:
    with pytest.raises(OptionError, match="organization is empty"):
        Evaluator(evaluation="x", organization=" ")
    with pytest.raises(OptionError, match="relationship"):
        Evaluator(evaluation="x", organization="y", relationship="friend")  # type: ignore[arg-type]
