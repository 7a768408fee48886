"""The seed's own usage: its config, its two modes, its files and their meanings, against Anthropic's wire format."""

from __future__ import annotations

import csv
import json
import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from tests.cli.conftest import Run
from tests.fakes import FakeServer
from tests.judge.tournament.folder import ENTRANTS, SEED_RUBRICS, read_lines, seed_folder
from tiltyard.data.bank import Prompt, stratified_subset

DIMENSIONS = tuple(SEED_RUBRICS)
NO_GOLD = 69
SEED_MANIFEST = {
    "mode", "config_path", "judge_model", "entrants", "bank_size", "selected_prompt_count", "n_perms", "shuffle_seed",
    "pilot_seed", "started_at", "finished_at",
}  # fmt: skip


def the_one_run(folder: Path, mode: str) -> Path:
    """The run folder that the command made by itself: `runs/<mode>_<UTC time>`."""
    (run,) = (folder / "runs").iterdir()
    assert re.fullmatch(rf"{mode}_\d{{8}}_\d{{6}}", run.name)
    return run


def sources(prompt_ids: list[str]) -> Counter[str]:
    return Counter(name.rpartition("-")[0] for name in prompt_ids)


def better(system: str, user: str) -> str:
    """The longest answer wins; on calibration the shortest."""
    first, second = re.findall(r"\[ANSWER [AB] \w+\]\n(.*?)\n\[END", user, re.DOTALL)
    longer = "A" if len(first) > len(second) else "B"
    shorter = "B" if longer == "A" else "A"
    return f"Compared.\nVERDICT: {shorter if 'dimension: calibration' in system else longer}"


def test_a_pilot_judges_fifty_prompts_in_the_banks_proportions_and_ends_with_go_or_no_go(
    tmp_path: Path, tiltyard: Run, anthropic_server: FakeServer
) -> None:
    seed_folder(tmp_path)
    anthropic_server.behaviour.judge = better
    done = tiltyard("run", "--config", "tournament1.yaml", "--mode", "pilot", "--yes")
    assert done.returncode == 0, done.stderr
    run = the_one_run(tmp_path, "pilot")
    manifest = json.loads((run / "manifest.json").read_text(encoding="utf-8"))
    assert set(manifest) >= SEED_MANIFEST
    assert manifest["judge_model"] == "claude-sonnet-4-5"
    assert (manifest["bank_size"], manifest["selected_prompt_count"], manifest["pilot_seed"]) == (143, 50, 20260427)
    assert sources(manifest["selected_prompts"]) == {"hard_facts": 8, "open_questions": 24, "clinic": 18}
    assert manifest["finished_at"] >= manifest["started_at"]
    # 3 pairs of entrants on 50 prompts; factuality only where there is a gold answer: on 8 + 18 of them.
    assert manifest["pairs"] == {"factuality": 3 * 26, "calibration": 3 * 50, "clinical_utility": 3 * 50}
    assert len(anthropic_server.ledger.accepted) == 2 * 3 * (26 + 50 + 50)
    assert not anthropic_server.ledger.paid_twice()
    sizes = [len(batch.entries) for batch in anthropic_server.ledger.batches.values()]
    assert sizes == [2 * 3 * prompts for prompts in (26, 50, 50)]  # a batch for each dimension, no pre-warm
    assert {one.body["model"] for one in anthropic_server.ledger.accepted} == {"claude-sonnet-4-5"}
    assert "\nGO: " in done.stdout
    assert "ok   factuality: judge consistent: 0 of 78" in done.stdout
    assert "decisive matches" in done.stdout
    for entrant in ENTRANTS:
        assert re.search(rf"^{entrant} +\d+\.\d ± \d+\.\d\d", done.stdout, re.MULTILINE)


def test_a_pilot_whose_judge_follows_the_order_of_the_answers_is_no_go(
    tmp_path: Path, tiltyard: Run, anthropic_server: FakeServer
) -> None:
    config = seed_folder(tmp_path)
    anthropic_server.behaviour.judge = lambda system, user: "VERDICT: A"
    done = tiltyard("run", config.name, "--mode", "pilot", "--yes", "--limit-pairs", "12")
    assert done.returncode == 3, done.stderr
    assert "NO-GO: see what failed below" in done.stdout
    assert "FAIL factuality: judge consistent: 12 of 12 judgments changed" in done.stdout
    assert "FAIL factuality: enough decisive matches: 0 decisive" in done.stdout
    assert "no Elo results" in done.stdout
    manifest = json.loads((the_one_run(tmp_path, "pilot") / "manifest.json").read_text(encoding="utf-8"))
    assert [row["passed"] for row in manifest["results"]["gate"] if "consistent" in row["check"]] == [False] * 3


def test_a_headline_run_judges_the_whole_bank_after_one_real_query_per_rubric(
    tmp_path: Path, tiltyard: Run, anthropic_server: FakeServer
) -> None:
    seed_folder(tmp_path)
    anthropic_server.behaviour.judge = better
    done = tiltyard("run", "--config", "tournament1.yaml", "--mode", "headline", "--yes")
    assert done.returncode == 0, done.stderr
    assert "GO" not in done.stdout
    ledger = anthropic_server.ledger
    # Pre-warm: one query per rubric in a batch ahead; then all the others, a batch for each. None is asked twice.
    queries = [2 * 3 * prompts for prompts in (143 - NO_GOLD, 143, 143)]
    assert [len(batch.entries) for batch in ledger.batches.values()] == [3, *(count - 1 for count in queries)]
    first = next(iter(ledger.batches.values())).entries
    warmed = [body["system"][0]["text"] for _, body, _ in first]
    assert [next(name for name in DIMENSIONS if f"dimension: {name}" in text) for text in warmed] == list(DIMENSIONS)
    assert not ledger.paid_twice()
    assert len(ledger.accepted) == sum(queries)
    for one in ledger.accepted:
        (block,) = one.body["system"]
        assert block["cache_control"] == {"type": "ephemeral", "ttl": "1h"}
        assert one.body["model"] == "claude-opus-4-5"
        assert one.body["max_tokens"] == 1024
    # The rubric was written to the provider's cache once each, by the pre-warm, and read from it by the bulk.
    run = the_one_run(tmp_path, "headline")
    usage = json.loads((run / "usage.json").read_text(encoding="utf-8"))
    for dimension in DIMENSIONS:
        row = usage["dimensions"][dimension]
        prefix = row["cache_creation_input_tokens"]
        assert prefix > 0
        assert row["cache_read_input_tokens"] == prefix * (row["queries"] - 1)
        assert row["cost_usd"] > 0
    assert usage["total"]["queries"] == usage["total"]["fresh_calls"] == sum(queries)
    assert "the rubric is shorter than the provider caches" in done.stderr  # 4,096 tokens for this model
    check_the_seeds_files(run)


def check_the_seeds_files(run: Path) -> None:
    """Every file of the seed with its fields and their meaning; the longest answer won all but calibration."""
    manifest = json.loads((run / "manifest.json").read_text(encoding="utf-8"))
    assert (manifest["selected_prompt_count"], manifest["entrants"]) == (143, list(ENTRANTS))
    matches = read_lines(run / "matches" / "matches.jsonl")
    assert Counter(row["dimension"] for row in matches) == {
        "factuality": 3 * 74,
        "calibration": 3 * 143,
        "clinical_utility": 3 * 143,
    }
    assert {"dimension", "prompt_id", "entrant_a", "entrant_b", "response_a", "response_b"} <= set(matches[0])
    decisive = {}
    for dimension in DIMENSIONS:
        rows = read_lines(run / "verdicts" / f"{dimension}.jsonl")
        assert [(row["prompt_id"], row["entrant_a"], row["entrant_b"]) for row in rows] == [
            (row["prompt_id"], row["entrant_a"], row["entrant_b"]) for row in matches if row["dimension"] == dimension
        ]
        decisive[dimension] = sum(row["winner"] is not None for row in rows)
        for row in rows:
            assert row["winner"] == row["entrant_b" if dimension == "calibration" else "entrant_a"]
            assert row["inconsistent"] is False
            assert [verdict["position_swap"] for verdict in row["raw"]] == [False, True]
            assert {"cache_key", "rubric_version", "judge_model", "verdict", "reasoning", "timestamp"} <= set(
                row["raw"][0]
            )
            assert row["raw"][0]["rubric_version"] == "2026-04"
    results = json.loads((run / "elo_results.json").read_text(encoding="utf-8"))
    assert results["n_decisive_matches"] == decisive
    assert results["default_k"] == 16
    traces = np.load(run / "elo_per_perm.npz")
    for dimension in DIMENSIONS:
        assert set(results["k_sensitivity"][dimension]) == {"1.0", "4.0", "8.0", "16.0", "32.0"}
        data, names = traces[f"{dimension}__data"], traces[f"{dimension}__entrants"].tolist()
        assert (data.dtype, data.shape, names) == (np.float64, (50, 3), sorted(ENTRANTS))
        for place, name in enumerate(names):
            line = results["primary"][dimension][name]
            assert line["entrant_id"] == name
            assert line["mean"] == pytest.approx(data[:, place].mean(), abs=1e-9)
            assert line["sem"] == pytest.approx(data[:, place].std(ddof=1) / np.sqrt(50), abs=1e-9)
            assert line["ci95_low"] < line["mean"] < line["ci95_high"]
            assert line == {**line, **results["k_sensitivity"][dimension]["16.0"][name], **_sampling(line)}
        order = sorted(names, key=lambda name: -results["primary"][dimension][name]["mean"])
        assert order == list(ENTRANTS if dimension != "calibration" else ENTRANTS[::-1])
    with (run / "pairwise_winrates.csv").open(encoding="utf-8", newline="") as file:
        cells = list(csv.DictReader(file))
    assert [(row["dimension"], row["entrant_a"], row["entrant_b"]) for row in cells[:3]] == [
        ("factuality", "crane", "heron"),
        ("factuality", "crane", "otter"),
        ("factuality", "heron", "otter"),
    ]
    assert [row["b_wins"] for row in cells] == ["74"] * 3 + ["0"] * 3 + ["143"] * 3


def _sampling(line: dict[str, float]) -> dict[str, float]:
    """The sampling interval, which stands beside the default K only."""
    return {name: line[name] for name in ("sampling_low", "sampling_high")}


def test_the_pilots_choice_depends_on_bank_and_seed_alone_and_keeps_the_banks_order(tmp_path: Path) -> None:
    seed_folder(tmp_path)
    bank = [
        Prompt(prompt_id=r["prompt_id"], text=r["text"], source=r["source"])
        for r in read_lines(tmp_path / "bank.jsonl")
    ]
    chosen = stratified_subset(bank, size=50, seed=20260427)
    assert [prompt.prompt_id for prompt in stratified_subset(bank)] == [prompt.prompt_id for prompt in chosen]
    assert sources([prompt.prompt_id for prompt in chosen]) == {"hard_facts": 8, "open_questions": 24, "clinic": 18}
    places = [bank.index(prompt) for prompt in chosen]
    assert places == sorted(places)
    assert stratified_subset(bank, seed=1) != chosen
