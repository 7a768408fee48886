"""A small tournament on disk: 3 entrants × 4 prompts × 2 dimensions, in the seed's shape."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

ENTRANTS = ("otter", "heron", "crane")
PROMPTS = (
    {"prompt_id": "p1", "text": "What is the capital of France?", "source": "quiz", "gold_answer": "Paris"},
    {"prompt_id": "p2", "text": "What is 2 + 2?", "source": "quiz", "gold_answer": "4"},
    {"prompt_id": "p3", "text": "Will it rain tomorrow?", "source": "advice", "expected_behavior": "hedge"},
    {"prompt_id": "p4", "text": "Who wrote Hamlet?", "source": "quiz", "gold_answer": "Shakespeare"},
)
ANSWERS = {  # the longer the answer, the better, says the scripted judge of the tests
    "otter": "a very long and careful answer to {}",
    "heron": "a middling answer to {}",
    "crane": "{}?",
}
RUBRICS = {
    "factuality": "# version: f1\n# needs: gold_answer\nPrefer the answer that is right.\n",
    "calibration": "# version: c1\n# shows: expected_behavior\nPrefer the answer that knows what it does not know.\n",
}


def make_folder(root: Path, *, judge: str = "scripted/longer", **extra: object) -> Path:
    """Write bank, answers, rubrics and config; the path of the config."""
    root.mkdir(parents=True, exist_ok=True)
    lines(root / "bank.jsonl", PROMPTS)
    (root / "responses").mkdir(parents=True)
    for entrant in ENTRANTS:
        rows = [
            {
                "entrant_id": entrant,
                "prompt_id": prompt["prompt_id"],
                "response_text": ANSWERS[entrant].format(prompt["prompt_id"]),
                "p_correct": 0.5,
                "diagnostics": {},
                "timestamp": "2026-01-01T00:00:00+00:00",
            }
            for prompt in PROMPTS
        ]
        lines(root / "responses" / f"responses_{entrant}.jsonl", rows)
    for name, text in RUBRICS.items():
        (root / f"{name}.md").write_text(text, encoding="utf-8")
    config = {
        "entrants": [{"entrant_id": entrant} for entrant in ENTRANTS],
        "prompts": {"bank_path": "bank.jsonl"},
        "caches": {"responses_dir": "responses", "judgments_dir": "judgments"},
        "judge": {"pilot_model": judge, "headline_model": judge},
        "elo": {
            "n_perms": 20,
            "shuffle_seed": 7,
            "initial_rating": 1400,
            "default_k": 16,
            "k_factor_sweep": [1, 4, 8, 16, 32],
        },
        "rubrics": {name: {"path": f"{name}.md"} for name in RUBRICS},
        **extra,
    }
    path = root / "tournament.yaml"
    path.write_text(yaml.safe_dump(config, sort_keys=False), encoding="utf-8")
    return path


def lines(path: Path, rows: object) -> None:
    """Write rows as JSON Lines."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")  # type: ignore[attr-defined]


def read_lines(path: Path) -> list[dict[str, Any]]:
    """The rows of a JSON Lines file."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def change(path: Path, **settings: object) -> Path:
    """Change settings of a config: `judge__max_tokens=5` is `judge.max_tokens`."""
    content = yaml.safe_load(path.read_text(encoding="utf-8"))
    for name, value in settings.items():
        *sections, key = name.split("__")
        place = content
        for section in sections:
            place = place.setdefault(section, {})
        place[key] = value
    path.write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")
    return path


def shown_as(entrant: str, slot: str, prompt_id: str) -> str:
    """Words that stand in a question only if the entrant's answer to the prompt is shown in that slot."""
    return f"{ANSWERS[entrant].format(prompt_id)}\n[END ANSWER {slot} "


def script(path: Path, *rules: dict[str, Any], **settings: object) -> Path:
    """Write a script for `scripted/…`: these rules, and behind them that the longer-winded entrant wins."""
    ranking = []
    for prompt in PROMPTS:
        name = str(prompt["prompt_id"])
        for place, better in enumerate(ENTRANTS):
            for worse in ENTRANTS[place + 1 :]:
                for slot, other in ("AB", "BA"):
                    ranking.append(
                        {
                            "when": [shown_as(better, slot, name), shown_as(worse, other, name)],
                            "say": f"{better} says more than {worse}.\nVERDICT: {slot}",
                        }
                    )
    path.write_text(yaml.safe_dump({"rules": [*rules, *ranking], **settings}), encoding="utf-8")
    return path


SEED_SOURCES = {"hard_facts": 24, "open_questions": 69, "clinic": 50}
SEED_RUBRICS = {
    "factuality": "# version: 2026-04\nPrefer the answer that agrees with the reference answer.\n",
    "calibration": "# version: 2026-04\n# shows: expected_behavior\nPrefer the answer that is as sure as it may be.\n",
    "clinical_utility": "# version: 2026-04\nPrefer the answer that a clinician can act on.\n",
}


def seed_folder(root: Path) -> Path:
    """A tournament as the seed's own users have it: 143 prompts of three sources, three dimensions, Anthropic's judges.

    The config holds the seed's keys and nothing else. Prompts of `open_questions` have no gold answer.
    """
    bank = []
    for source, size in SEED_SOURCES.items():
        for number in range(size):
            prompt = {
                "prompt_id": f"{source}-{number:02d}",
                "text": f"Question {number} of {source}?",
                "source": source,
            }
            prompt["subject"] = "medicine"
            prompt["expected_behavior"] = "answer" if number % 2 else "hedge"
            if source != "open_questions":
                prompt["gold_answer"] = f"answer {number}"
            bank.append(prompt)
    root.mkdir(parents=True, exist_ok=True)
    lines(root / "bank.jsonl", bank)
    (root / "responses").mkdir()
    for entrant in ENTRANTS:
        rows = [
            {
                "entrant_id": entrant,
                "prompt_id": prompt["prompt_id"],
                "response_text": ANSWERS[entrant].format(prompt["prompt_id"]),
                "p_correct": 0.5,
                "diagnostics": {"tokens": 7},
                "timestamp": "2026-04-27T00:00:00+00:00",
            }
            for prompt in bank
        ]
        lines(root / "responses" / f"responses_{entrant}.jsonl", rows)
    for name, text in SEED_RUBRICS.items():
        (root / f"{name}.txt").write_text(text, encoding="utf-8")
    config = {
        "entrants": [{"entrant_id": entrant} for entrant in ENTRANTS],
        "prompts": {"bank_path": "bank.jsonl"},
        "caches": {"responses_dir": "responses", "judgments_dir": "judgments"},
        "judge": {"pilot_model": "claude-sonnet-4-5", "headline_model": "claude-opus-4-5"},
        "elo": {
            "n_perms": 50,
            "shuffle_seed": 0,
            "initial_rating": 1400,
            "default_k": 16,
            "k_factor_sweep": [1, 4, 8, 16, 32],
        },
        "rubrics": {name: {"path": f"{name}.txt"} for name in SEED_RUBRICS},
    }
    path = root / "tournament1.yaml"
    path.write_text(yaml.safe_dump(config, sort_keys=False), encoding="utf-8")
    return path
