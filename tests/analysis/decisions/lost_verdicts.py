"""Runs in which a judge lost some verdicts: a tournament with a scripted judge, and folders written by hand."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import yaml

LOST = "mumble"
"""A word of a prompt to whose questions the judge gives no readable reply."""


def tournament(root: Path, results: Sequence[str]) -> Path:
    """The config of a tournament of v2 and v1: on each prompt v2 `won` or `lost`, or `won unread`, `lost unread`."""
    bank: list[dict[str, Any]] = []
    answers: dict[str, list[dict[str, Any]]] = {"v2": [], "v1": []}
    for place, result in enumerate(results):
        name, won = f"p{place:03d}", result.startswith("won")
        bank.append({"prompt_id": name, "text": f"Question {place}{f' {LOST}' * ('unread' in result)}?", "source": "s"})
        for entrant, good in (("v2", won), ("v1", not won)):
            row = {
                "entrant_id": entrant,
                "prompt_id": name,
                "response_text": "This is good" if good else "This is poor",
            }
            answers[entrant].append({**row, "p_correct": 0.5, "diagnostics": {}, "timestamp": "2026-01-01T00:00:00Z"})
    write_lines(root / "bank.jsonl", bank)
    for entrant, rows in answers.items():
        write_lines(root / "responses" / f"responses_{entrant}.jsonl", rows)
    rules = [{"when": [f"is good\n[END ANSWER {slot} "], "say": f"Compared.\nVERDICT: {slot}"} for slot in "AB"]
    script = {"rules": [{"when": [LOST], "say": "Hard to say."}, *rules]}
    (root / "judge.yaml").write_text(yaml.safe_dump(script), encoding="utf-8")
    (root / "quality.md").write_text("# version: q1\nPrefer the better answer.\n", encoding="utf-8")
    config = {
        "entrants": [{"entrant_id": "v2"}, {"entrant_id": "v1"}],
        "prompts": {"bank_path": "bank.jsonl"},
        "caches": {"responses_dir": "responses", "judgments_dir": "judgments"},
        "judge": {"pilot_model": "scripted/judge.yaml", "headline_model": "scripted/judge.yaml", "max_attempts": 1},
        "elo": {"n_perms": 5, "shuffle_seed": 7, "initial_rating": 1400, "default_k": 16, "k_factor_sweep": [16]},
        "rubrics": {"quality": {"path": "quality.md"}},
    }
    path = root / "tournament.yaml"
    path.write_text(yaml.safe_dump(config, sort_keys=False), encoding="utf-8")
    return path


def run_folder(
    folder: Path, rows: Iterable[tuple[str, str, str, str | None]], *, dimension: str = "quality", **manifest: Any
) -> Path:
    """The folder of a run: for each row a prompt, two entrants, and the winner, `tie`, or None for a lost verdict.

    Rows of a second call with another dimension are added.
    """
    verdicts, battles, matches = [], [], []
    for prompt, a, b, winner in rows:
        matchup = {"prompt_id": prompt, "dimension": dimension, "entrant_a": a, "entrant_b": b}
        matches.append({**matchup, "prompt_text": f"Text of {prompt}", "response_a": "x", "response_b": "y"})
        labels = ["unparsed", "A"] if winner is None else ["TIE"] * 2 if winner == "tie" else ["A", "B"]
        status = {"status": "failed" if winner is None else "ok", "raw": [{"verdict": label} for label in labels]}
        verdicts.append({**matchup, "winner": winner if winner != "tie" else None, "inconsistent": False, **status})
        if winner is not None:
            said = {a: "model_a", b: "model_b", "tie": "tie"}[winner]
            row = {"model_a": a, "model_b": b, "winner": said, "source": "llm-judge", "question_id": prompt}
            battles.append({**row, "dimension": dimension, "judge_model": "j"})
    write_lines(folder / "verdicts" / f"{dimension}.jsonl", verdicts)
    write_lines(folder / "matches" / "matches.jsonl", matches, mode="a")
    write_lines(folder / "battles.jsonl", battles, mode="a")
    (folder / "manifest.json").write_text(json.dumps({"judge_model": "j", **manifest}), encoding="utf-8")
    return folder


def write_lines(path: Path, rows: Iterable[object], mode: str = "w") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open(mode, encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)
