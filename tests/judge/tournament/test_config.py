"""Tournament files: the seed's keys, paths, and what is said about mistakes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from tests.judge.tournament.folder import make_folder
from tiltyard.errors import ConfigError
from tiltyard.judge.tournament import asking_parts, load_setup


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


def test_prices_are_tried_from_the_files_folder_then_from_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = tmp_path / "site"
    path = make_folder(site)
    judge = {"pilot_model": "local/small", "headline_model": "local/small", "prices_path": "prices.json"}
    rewrite(path, judge=judge)

    def write_prices(folder: Path, usd: float) -> None:
        price = {"input": usd, "output": 1, "cache_write_1h": 1, "cache_read": 1, "batch_discount": 0}
        table = {"as_of": "2027-01-01", "models": {"small": price}}
        (folder / "prices.json").write_text(json.dumps(table), encoding="utf-8")

    def price_used() -> float:
        asking = asking_parts(load_setup(path), print, budget_usd=None, max_batch=None)
        found = asking.prices.price("small")
        assert found is not None
        return found.input

    monkeypatch.chdir(tmp_path)
    write_prices(tmp_path, 2)
    assert price_used() == 2
    write_prices(site, 3)
    assert price_used() == 3


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"entrants": [{"entrant_id": "otter"}]}, "two entrants or more"),
        ({"entrants": [{"entrant_id": "otter"}, {"entrant_id": "otter"}]}, "'otter' is listed twice"),
        ({"entrants": [{"entrant_id": "a/b"}, {"entrant_id": "c"}]}, "cannot be part of a file name"),
        ({"rubrics": {}}, "no rubric"),
        ({"elo": {"n_perms": 1}}, "n_perms is 1"),
        ({"elo": {"n_perms": "many"}}, "elo.n_perms is 'many': expected `whole number`, got `text`"),
        ({"elo": 3}, "elo is 3: expected a mapping with n_perms"),
        ({"judge": None}, "judge is empty: expected a mapping"),
        ({"entrants": [{"entrant_id": "otter"}, {"model": "x"}]}, "entrants[1].entrant_id is missing"),
        ({"rubrics": {"taste": "taste.md"}}, "rubrics.taste is 'taste.md': expected a mapping with path"),
        ({"rubrics": ["taste.md"]}, "rubrics is ['taste.md']: expected `mapping`, got `list`"),
        ({"elo": {"default_k": 0}}, "elo.default_k holds 0"),
        ({"elo": {"k_factor_sweep": [16, -1]}}, "elo.k_factor_sweep holds -1"),
        ({"elo": {"k_factor_sweep": [".inf"]}}, "elo.k_factor_sweep"),
        ({"elo": {"n_perms": 1_000_001}}, "elo.n_perms is 1000001"),
        ({"elo": {"default_k": 601}}, "elo.default_k holds 601: above 600"),
        ({"elo": {"default_k": float("nan")}}, "elo.default_k holds nan"),
        ({"elo": {"k_factor_sweep": [16, 1e9]}}, "elo.k_factor_sweep holds 1e+09: above 600"),
        ({"elo": {"shuffle_seed": -1}}, "elo.shuffle_seed is -1"),
        ({"elo": {"initial_rating": float("nan")}}, "elo.initial_rating is nan"),
        ({"elo": {"initial_rating": float("-inf")}}, "elo.initial_rating is -inf"),
        ({"prompts": {"bank_path": "bank.jsonl", "pilot_size": 0}}, "prompts.pilot_size is 0"),
        ({"prompts": {"bank_path": "bank.jsonl", "pilot_seed": -3}}, "prompts.pilot_seed is -3"),
        ({"prompts": {"bank_path": "bank.jsonl", "pilot_strata": {"quiz": -2}}}, "prompts.pilot_strata.quiz is -2"),
        ({"judge": {"pilot_model": "x", "headline_model": "x", "prices_path": "p.json"}}, "judge.prices_path"),
        ({"judge": {"timeout_seconds": 0}}, "judge.timeout_seconds is 0: it must be a number above 0"),
        ({"judge": {"requests_per_minute": -1}}, "judge.requests_per_minute is -1: it must be a number above 0"),
        ({"judge": {"tokens_per_minute": float("inf")}}, "judge.tokens_per_minute is inf"),
        ({"judge": {"headers": {"X Team": "x"}}}, "judge.headers has 'X Team', which is no name of a header"),
        ({"judge": {"headers": {"X-Team": "é"}}}, "judge.headers.X-Team holds characters that no header has"),
        ({"judge": {"panel": ["a/b", {"model": "c/d", "headers": {"": "x"}}]}}, "judge.panel[1].headers has ''"),
        (
            {"entrants": [{"entrant_id": "a"}, {"entrant_id": "b", "headers": {"\n": "x"}}]},
            "entrants[1].headers has",
        ),
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


def test_everything_that_is_wrong_is_said_at_once(tmp_path: Path) -> None:
    path = make_folder(tmp_path)
    wrong = {
        "entrants": [{"entrant_id": "otter"}, {"entrant_id": "otter"}, {"model": "gpt-5"}],
        "prompts": {"bank_path": "nowhere.jsonl", "pilot_size": 0},
        "caches": {"responses_dir": "responses"},
        "judge": {"max_tokens": "many", "prices_path": "p.json"},
        "elo": {"n_perms": 1, "default_k": -1},
        "rubrics": {"taste": {"path": "taste.md"}, "tone": {}},
    }
    with pytest.raises(ConfigError) as caught:
        load_setup(rewrite(path, **wrong), mode="pilot")
    first, *listed = str(caught.value).splitlines()
    assert first == f"{path}: {len(listed)} settings are missing or wrong. Correct them:"
    for words in (
        "entrants[2].entrant_id is missing", "prompts.bank_path is 'nowhere.jsonl'", "prompts.pilot_size is 0",
        "caches.judgments_dir is missing", "judge.max_tokens is 'many'", "elo.n_perms is 1", "elo.default_k holds -1",
        "rubrics.tone.path is missing",
    ):  # fmt: skip
        assert sum(words in line for line in listed) == 1, words
    # What depends on a section that is itself wrong (the price file, the other rubric) is said once that is right.
    wrong["judge"] = {"prices_path": "p.json"}
    wrong["rubrics"] = {"taste": {"path": "taste.md"}}
    wrong["entrants"] = wrong["entrants"][:2]
    with pytest.raises(ConfigError) as caught:
        load_setup(rewrite(path, **wrong), mode="pilot")
    for words in ("judge.pilot_model is missing", "judge.prices_path", "rubrics.taste.path", "'otter' is listed twice"):
        assert words in str(caught.value)


def test_only_the_judge_of_the_mode_is_needed(tmp_path: Path) -> None:
    path = rewrite(make_folder(tmp_path), judge={"headline_model": "scripted/longer"})
    assert load_setup(path, mode="headline").config.judge.headline_model == "scripted/longer"
    assert load_setup(path).config.judge.pilot_model is None
    with pytest.raises(ConfigError, match=r"judge\.pilot_model is missing: name who judges in --mode pilot"):
        load_setup(path, mode="pilot")
    content = yaml.safe_load(path.read_text(encoding="utf-8"))
    del content["judge"]
    path.write_text(yaml.safe_dump(content), encoding="utf-8")
    assert load_setup(path).config.judge.model_of("pilot") is None


def test_a_folder_or_another_kind_of_file_is_one_line(tmp_path: Path) -> None:
    path = make_folder(tmp_path)
    with pytest.raises(ConfigError, match=r"is a folder\. Name the tournament file in it, such as .*tournament\.yaml"):
        load_setup(tmp_path)
    for content in (b"\xff\xfe\x00", b"a,b\n1,2\n", b"- 1\n"):
        path.write_bytes(content)
        with pytest.raises(ConfigError, match="is not a tournament file"):
            load_setup(path)


def test_a_misspelt_setting_is_pointed_out(tmp_path: Path) -> None:
    path = make_folder(tmp_path)
    judge = yaml.safe_load(path.read_text(encoding="utf-8"))["judge"]
    setup = load_setup(rewrite(path, judge={**judge, "max_token": 5}, notes="mine"))
    assert any(
        "judge.max_token" in warning and "did you mean judge.max_tokens?" in warning for warning in setup.warnings
    )
    assert any("notes" in warning for warning in setup.warnings)


def test_a_misspelt_setting_of_an_entrant_or_a_rubric_is_pointed_out(tmp_path: Path) -> None:
    entrants = [{"entrant_id": "otter", "max_token": 5}, {"entrant_id": "heron"}]
    rubrics = {"factuality": {"path": "factuality.md", "weight": 2}}
    first, second = load_setup(rewrite(make_folder(tmp_path), entrants=entrants, rubrics=rubrics)).warnings
    assert "entrants[0].max_token means nothing" in first
    assert "did you mean entrants[0].max_tokens?" in first
    assert "rubrics.factuality.weight means nothing" in second


@pytest.mark.parametrize("value", ["2024-13-45", "9" * 5000, "[" * 600], ids=["no date", "a long number", "deep"])
def test_a_value_that_cannot_be_is_one_line_that_names_the_file(tmp_path: Path, value: str) -> None:
    path = make_folder(tmp_path)
    with path.open("a", encoding="utf-8") as file:
        file.write(f"note: {value}\n")
    with pytest.raises(ConfigError, match=r"tournament\.yaml: holds a value that cannot be read: .*") as caught:
        load_setup(path)
    assert "\n" not in str(caught.value)


def test_broken_yaml_names_the_line(tmp_path: Path) -> None:
    path = tmp_path / "t.yaml"
    path.write_text("entrants:\n  - entrant_id: [\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"t\.yaml:\d+: not YAML"):
        load_setup(path)
    with pytest.raises(ConfigError, match="no tournament file"):
        load_setup(tmp_path / "absent.yaml")
