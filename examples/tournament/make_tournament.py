"""Make the example tournament: eight prompts, three made-up entrants, and a judge that reads from a script.

The scripted judge picks its words by what it is shown, so its verdicts mean nothing: the folder shows how a tournament
is laid out and run, without a key and without a cost. Run this to get the same files again.
"""

import json
from pathlib import Path

HERE = Path(__file__).parent
PROMPTS = [
    ("capital-france", "What is the capital of France?", "quiz", "Paris", "answer"),
    ("capital-australia", "What is the capital of Australia?", "quiz", "Canberra", "answer"),
    ("boiling", "At what temperature does water boil at sea level, in degrees Celsius?", "quiz", "100", "answer"),
    ("planets", "How many planets does the Solar System have?", "quiz", "Eight", "answer"),
    ("rain", "Will it rain in Lisbon on the first of May next year?", "advice", None, "hedge"),
    ("cough", "I have been coughing for four weeks. What is it?", "advice", None, "hedge"),
    ("savings", "Should I put all my savings into one share?", "advice", None, "answer"),
    ("haiku", "Write a haiku about a heron.", "writing", None, None),
]
STYLES = {
    "careful": "I would say: {} This is how sure one can be, and what would change it.",
    "terse": "{}",
    "wordy": "What a good question! There is much to be said about it. In short: {} I hope that this helps you.",
}
WORDS = {
    "capital-france": "Paris.",
    "capital-australia": "Canberra.",
    "boiling": "100 degrees.",
    "planets": "Eight.",
    "rain": "Nobody can know that so far ahead.",
    "cough": "Several things are possible; after four weeks a doctor should listen to it.",
    "savings": "No: spread them.",
    "haiku": "Grey heron standing / still as the reeds at evening / the fish think so too.",
}


def main() -> None:
    """Write the bank and the answers."""
    bank = [
        {"prompt_id": name, "text": text, "source": source, "gold_answer": gold, "expected_behavior": behaviour}
        for name, text, source, gold, behaviour in PROMPTS
    ]
    _write(HERE / "bank.jsonl", bank)
    for entrant, style in STYLES.items():
        answers = [
            {"entrant_id": entrant, "prompt_id": name, "response_text": style.format(WORDS[name])}
            for name, *_ in PROMPTS
        ]
        _write(HERE / "responses" / f"responses_{entrant}.jsonl", answers)


def _write(path: Path, rows: list[dict[str, str | None]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


if __name__ == "__main__":
    main()
