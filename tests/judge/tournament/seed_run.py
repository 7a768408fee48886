"""A run folder exactly as the program of the first specification writes it: its files, its fields, nothing else."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path
from typing import Any

from tests.judge.tournament.folder import lines, read_lines

MANIFEST = (
    *("mode", "config_path", "judge_model", "entrants", "bank_size", "selected_prompt_count", "n_perms"),
    *("shuffle_seed", "pilot_seed", "started_at", "finished_at"),
)
PAIR = (
    *("prompt_id", "source", "prompt_text", "entrant_a", "entrant_b", "response_a", "response_b", "gold_answer"),
    "expected_behavior",
)
VERDICT = (
    *("rubric_version", "judge_model", "position_swap", "verdict", "reasoning", "timestamp"),
    *("cache_creation_input_tokens", "cache_read_input_tokens", "input_tokens", "output_tokens"),
)
ELO = ("entrant_id", "mean", "sem", "ci95_low", "ci95_high")


def as_the_seed_writes_it(run: Path, folder: Path) -> Path:
    """What the seed's program would have written of a run of ours: the same judgments, and no failed ones."""
    for name in ("matches", "verdicts"):
        (folder / name).mkdir(parents=True)
    manifest = read(run / "manifest.json")
    write(folder / "manifest.json", only(manifest, MANIFEST))
    matches = read_lines(run / "matches" / "matches.jsonl")
    lines(folder / "matches" / "matches.jsonl", [{"dimension": row["dimension"], **only(row, PAIR)} for row in matches])
    pairs = {(row["prompt_id"], row["entrant_a"], row["entrant_b"]): only(row, PAIR) for row in matches}
    for path in sorted((run / "verdicts").glob("*.jsonl")):
        judged = [row for row in read_lines(path) if row["status"] == "ok"]
        lines(folder / "verdicts" / path.name, [_judgment(row, pairs) for row in judged])
    elo = read(run / "elo_results.json")
    elo["primary"] = {name: _elo(by_entrant) for name, by_entrant in elo["primary"].items()}
    elo["k_sensitivity"] = {
        name: {str(int(float(k))): _elo(by_entrant) for k, by_entrant in by_k.items()}
        for name, by_k in elo["k_sensitivity"].items()
    }
    write(folder / "elo_results.json", elo)
    shutil.copy(run / "elo_per_perm.npz", folder)
    with (
        (run / "pairwise_winrates.csv").open(encoding="utf-8", newline="") as ours,
        (folder / "pairwise_winrates.csv").open("w", encoding="utf-8", newline="") as theirs,
    ):
        csv.writer(theirs).writerows(csv.reader(ours))
    return folder


def _judgment(row: dict[str, Any], pairs: dict[tuple[str, str, str], dict[str, Any]]) -> dict[str, Any]:
    pair = pairs[row["prompt_id"], row["entrant_a"], row["entrant_b"]]
    fields = ("prompt_id", "dimension", "entrant_a", "entrant_b", "winner", "inconsistent")
    raw = [{"cache_key": one["cache_key"][:12], "pair": pair, **only(one, VERDICT)} for one in row["raw"]]
    return {**only(row, fields), "raw": raw}


def _elo(by_entrant: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {name: only(line, ELO) for name, line in by_entrant.items()}


def only(row: dict[str, Any], fields: tuple[str, ...]) -> dict[str, Any]:
    """The row with these fields, in this order."""
    return {name: row[name] for name in fields}


def read(path: Path) -> dict[str, Any]:
    """A JSON file."""
    content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return content


def write(path: Path, value: object) -> None:
    """Write a JSON file as the seed's program does: indented, letters as they are."""
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False), encoding="utf-8")
