"""Make the example of people's labels: a judge who likes one model's style, and people who labelled some matchups.

Four models answered 80 prompts. The judge compared all pairs on all prompts (`judged.jsonl`) and likes crane's style;
fifteen people labelled 150 of these matchups, drawn at random (`people.csv`), and do not. Both see the same answers, so
they mostly agree.
"""

from __future__ import annotations

import csv
import json
from itertools import combinations
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
STRENGTHS = {"otter": 0.6, "heron": 0.2, "crane": -0.2, "wren": -0.6}
LIKED = {"crane": 0.9}
PROMPTS, LABELS, PEOPLE = 80, 150, 15
TIE_BELOW = 0.35


def main() -> None:
    """Write both files."""
    rng = np.random.default_rng(11)
    judged, people = [], []
    for number in range(PROMPTS):
        luck = {name: rng.normal(0.0, 1.2) for name in STRENGTHS}
        for a, b in combinations(STRENGTHS, 2):
            seen = STRENGTHS[a] - STRENGTHS[b] + luck[a] - luck[b]
            bias = LIKED.get(a, 0.0) - LIKED.get(b, 0.0)
            row = {"question_id": f"p{number:02d}", "model_a": a, "model_b": b}
            judged.append({**row, "winner": verdict(seen + bias + rng.normal(0.0, 0.8)), "source": "llm-judge"})
            people.append({**row, "winner": verdict(seen + rng.normal(0.0, 0.8)), "voter": f"r{rng.integers(PEOPLE)}"})
    drawn = np.sort(rng.choice(len(people), LABELS, replace=False))
    with (HERE / "judged.jsonl").open("w", encoding="utf-8") as file:
        file.writelines(json.dumps({**row, "judge_model": "local/judge"}) + "\n" for row in judged)
    with (HERE / "people.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(people[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(people[i] for i in drawn)


def verdict(gap: float) -> str:
    """Who won by how much."""
    return "tie" if abs(gap) < TIE_BELOW else "model_a" if gap > 0 else "model_b"


if __name__ == "__main__":
    main()
