"""Tournament files: the seed's keys, paths, and what is said about mistakes."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests.tournament.folder import make_folder
from tiltyard.errors import ConfigError
from tiltyard.tournament.config import load_setup


def rewrite(path: Path, **changes: object) -> Path:
    content = yaml.safe_load(path.read_text(encoding="utf-8"))
    content.update(changes)
    path.write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")
    return path


def test_a_config_in_the_seeds_shape_is_read_with_its_meanings(tmp_path: Path) -> None:
    setup = load_setup(make_folder(tmp_path))
    assert setup.entrant_ids == ("otter", "heron", "crane")
    assert list(setup.rubric_paths) == ["factuality", "calibration"]
    assert setup.config.elo.k_factor_sweep == (1.0, 4.0, 8.0, 16.0, 32.0)
    assert (setup.config.judge.max_tokens, setup.config.judge.poll_max_seconds) == (1024, 300)
    assert setup.warnings == ()


def test_paths_are_tried_from_the_files_folder_then_from_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = make_folder(tmp_path)
    inner = tmp_path / "configs"
    inner.mkdir()
    moved = path.rename(inner / path.name)
    monkeypatch.chdir(tmp_path)
    setup = load_setup(moved)
    assert setup.bank_path.resolve() == (tmp_path / "bank.jsonl").resolve()
    assert setup.judgments_dir.resolve() == (tmp_path / "judgments").resolve()
    monkeypatch.chdir(inner)
    with pytest.raises(
        ConfigError, match=r"bank_path is 'bank\.jsonl', found neither at .*configs/bank\.jsonl nor at bank\.jsonl"
    ):
        load_setup(moved)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"entrants": [{"entrant_id": "otter"}]}, "two entrants or more"),
        ({"entrants": [{"entrant_id": "otter"}, {"entrant_id": "otter"}]}, "'otter' stands there twice"),
        ({"entrants": [{"entrant_id": "a/b"}, {"entrant_id": "c"}]}, "cannot be part of a file name"),
        ({"rubrics": {}}, "no rubric"),
        ({"judge": {"pilot_model": "x"}}, "headline_model"),
        ({"elo": {"n_perms": 1}}, "n_perms is 1"),
        ({"elo": {"n_perms": "many"}}, "n_perms"),
        ({"elo": {"default_k": 0}}, "elo.default_k holds 0"),
        ({"elo": {"k_factor_sweep": [16, -1]}}, "elo.k_factor_sweep holds -1"),
        ({"elo": {"k_factor_sweep": [".inf"]}}, "elo.k_factor_sweep"),
        ({"prompts": {"bank_path": "nowhere.jsonl"}}, "nowhere.jsonl"),
        ({"rubrics": {"taste": {"path": "taste.md"}}}, "rubrics.taste.path"),
    ],
)
def test_a_wrong_config_is_one_line_that_names_the_file_and_the_key(
    tmp_path: Path, changes: dict[str, object], words: str
) -> None:
    path = rewrite(make_folder(tmp_path), **changes)
    with pytest.raises(ConfigError) as caught:
        load_setup(path)
    assert words in str(caught.value)
    assert path.name in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_misspelt_setting_is_pointed_out(tmp_path: Path) -> None:
    path = make_folder(tmp_path)
    judge = yaml.safe_load(path.read_text(encoding="utf-8"))["judge"]
    setup = load_setup(rewrite(path, judge={**judge, "max_token": 5}, notes="mine"))
    assert any(
        "judge.max_token" in warning and "did you mean judge.max_tokens?" in warning for warning in setup.warnings
    )
    assert any("notes" in warning for warning in setup.warnings)


def test_broken_yaml_names_the_line(tmp_path: Path) -> None:
    path = tmp_path / "t.yaml"
    path.write_text("entrants:\n  - entrant_id: [\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"t\.yaml:\d+: not YAML"):
        load_setup(path)
    with pytest.raises(ConfigError, match="no tournament file"):
        load_setup(tmp_path / "absent.yaml")
