"""A data set for the Hugging Face hub: `datasets` loads it offline, and it rates like the battles it was made of."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import yaml
from tests.reference.pages import ROOT
from typer.testing import CliRunner

import tiltyard as ty
from tiltyard.cli.main import make_app
from tiltyard.data.battles import write_dataset
from tiltyard.data.battles.writing import CARD, DATA_FILE, dataset_card
from tiltyard.errors import BattleError

BIRDS = ROOT / "examples" / "birds.jsonl"


def convert(*words: object) -> str:
    done = CliRunner().invoke(make_app("battles"), ["battles", "convert", *map(str, words)])
    return str(done.exception) if done.exit_code else done.output


def test_the_library_of_the_hub_loads_it_and_it_rates_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE"):
        monkeypatch.setenv(name, "1")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
    from datasets import load_dataset

    convert(BIRDS, "--to-hf", tmp_path / "birds", "--title", "Birds: a vote", "--license", "cc-by-4.0")
    loaded = load_dataset(str(tmp_path / "birds"), split="train", cache_dir=str(tmp_path / "cache"))
    front = yaml.safe_load((tmp_path / "birds" / CARD).read_text(encoding="utf-8").split("---")[1])
    assert {name: feature.dtype for name, feature in loaded.features.items()} == {
        row["name"]: row["dtype"] for row in front["dataset_info"]["features"]
    }
    assert loaded.num_rows == front["dataset_info"]["splits"][0]["num_examples"] == 1200
    assert ty.rate(loaded.to_pandas()).ratings == ty.rate(BIRDS).ratings


def test_the_card_says_what_the_hub_and_a_reader_ask(tmp_path: Path) -> None:
    table = ty.read_battles(BIRDS)
    write_dataset(tmp_path, table, title="Birds: a vote", licence="cc-by-4.0")
    text = (tmp_path / CARD).read_text(encoding="utf-8")
    front = yaml.safe_load(text.split("---")[1])
    assert (front["pretty_name"], front["license"]) == ("Birds: a vote", "cc-by-4.0")
    assert front["size_categories"] == ["1K<n<10K"]
    assert front["configs"][0]["data_files"] == [{"split": "train", "path": DATA_FILE}]
    assert "human-preference" in front["tags"]
    for column in front["dataset_info"]["features"]:
        (row,) = [line for line in text.splitlines() if line.startswith(f"| `{column['name']}` |")]
        assert len(row.split(" | ")[2]) > 5, row
    assert json.loads((tmp_path / "battle.schema.json").read_text(encoding="utf-8"))["required"]
    assert text == dataset_card(table, title="Birds: a vote", licence="cc-by-4.0")
    assert "Not stated" in dataset_card(table, title="x")


@pytest.mark.parametrize(("rows", "category"), [(999, "n<1K"), (1000, "1K<n<10K")])
def test_size_categories_begin_where_the_last_one_ends(rows: int, category: str) -> None:
    text = dataset_card(ty.read_battles(BIRDS).take(np.arange(rows)), title="x")
    assert yaml.safe_load(text.split("---")[1])["size_categories"] == [category]


def test_a_card_that_somebody_wrote_is_not_replaced_and_our_own_is(tmp_path: Path) -> None:
    table = ty.read_battles(BIRDS)
    for _ in range(2):
        write_dataset(tmp_path, table, title="ours")
    (tmp_path / CARD).write_text("# my own words", encoding="utf-8")
    with pytest.raises(BattleError, match="was not written by Tiltyard"):
        write_dataset(tmp_path, table, title="ours")
    assert (tmp_path / CARD).read_text(encoding="utf-8") == "# my own words"


def test_wrong_words_are_answered_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert "say where to write" in convert(BIRDS)
    assert "say where to write" in convert(BIRDS, tmp_path / "x.jsonl", "--to-hf", tmp_path / "x")
    assert "--to-hf" in convert(BIRDS, tmp_path / "x.jsonl", "--license", "mit")
    assert "is a file" in convert(BIRDS, "--to-hf", tmp_path / "file")
    table = ty.read_battles(BIRDS)
    with pytest.raises(BattleError, match="no battle"):
        write_dataset(tmp_path / "none", table.take(np.zeros(len(table), dtype=bool)), title="x")
