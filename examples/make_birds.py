"""Make `birds.jsonl`: simulated votes on eight made-up models whose true strengths are known.

Run it to get the same file again. People ask 60 questions, several of them about each, and vote; models differ from
question to question, the first answer has a small advantage, and so has the longer one.
"""

import json
from pathlib import Path

import numpy as np

STRENGTH = {  # in Elo points; what a good rating should find again
    "osprey": 140,
    "heron": 110,
    "kestrel": 70,
    "avocet": 10,
    "plover": 0,
    "dunlin": -60,
    "turnstone": -110,
    "sanderling": -160,
}
QUESTIONS, VOTES = 60, 1200
POINTS = np.log(10) / 400


def main() -> None:
    """Simulate the votes and write them beside this script."""
    rng = np.random.default_rng(7)
    names = list(STRENGTH)
    skill = POINTS * np.array([STRENGTH[name] for name in names])
    on_question = rng.normal(0, 0.35, (QUESTIONS, len(names)))
    topics = rng.choice(["cooking", "history", "programming"], QUESTIONS, p=[0.3, 0.3, 0.4])
    rows = []
    for vote in range(VOTES):
        question = int(rng.integers(QUESTIONS))
        a, b = (int(code) for code in rng.choice(len(names), 2, replace=False))
        length = np.round(np.exp(rng.normal(5.8, 0.5, 2))).astype(int)
        gap = skill[a] - skill[b] + on_question[question, a] - on_question[question, b]
        gap += POINTS * 15 + 0.5 * (length[0] - length[1]) / length.sum()
        weights = np.array([np.exp(gap / 2), np.exp(-gap / 2), 0.45])
        winner = str(rng.choice(["model_a", "model_b", "tie"], p=weights / weights.sum()))
        if rng.random() < 0.04:
            winner = "tie (bothbad)"
        rows.append(
            {
                "model_a": names[a],
                "model_b": names[b],
                "winner": winner,
                "source": "human",
                "question_id": f"q{question:02d}",
                "category": str(topics[question]),
                "timestamp": 1_760_000_000 + 600 * vote,
                "len_a": int(length[0]),
                "len_b": int(length[1]),
            }
        )
    text = "".join(json.dumps(row) + "\n" for row in rows)
    Path(__file__).with_name("birds.jsonl").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
