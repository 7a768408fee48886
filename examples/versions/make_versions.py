"""Make `today.jsonl` and `last-week.jsonl`: simulated verdicts on two versions of an assistant and a baseline.

Run it to get the same files again. Both runs ask the same 120 prompts, and a judge compares every pair once. Since last
week only v2 has changed: it got better at code and worse at writing.
"""

import json
from pathlib import Path

import numpy as np

PROMPTS = 120
POINTS = np.log(10) / 400
STRENGTH = {"v2": 40, "v1": 0, "baseline": -70}  # in Elo points, last week
GAINED = {"code": 190, "writing": -110, "questions": 60}  # what v2 gained since, by kind of prompt


def main() -> None:
    """Simulate both runs and write them beside this script."""
    rng = np.random.default_rng(11)
    kinds = rng.choice(list(GAINED), PROMPTS, p=[0.45, 0.25, 0.3])
    likes = {name: rng.normal(0, 0.7, PROMPTS) for name in STRENGTH}
    for file in ("last-week", "today"):
        rows = []
        for prompt in range(PROMPTS):
            skill = {name: POINTS * points + likes[name][prompt] for name, points in STRENGTH.items()}
            if file == "today":
                skill["v2"] += POINTS * GAINED[kinds[prompt]]
            for a, b in (("v2", "v1"), ("v2", "baseline"), ("v1", "baseline")):
                gap = skill[a] - skill[b]
                weights = np.array([np.exp(gap / 2), np.exp(-gap / 2), 0.5])
                winner = str(rng.choice(["model_a", "model_b", "tie"], p=weights / weights.sum()))
                names = {"model_a": a, "model_b": b, "winner": winner, "source": "llm-judge"}
                names["judge_model"] = "simulated"
                rows.append({**names, "question_id": f"p{prompt:03d}", "category": str(kinds[prompt])})
        text = "".join(json.dumps(row) + "\n" for row in rows)
        Path(__file__).with_name(f"{file}.jsonl").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
