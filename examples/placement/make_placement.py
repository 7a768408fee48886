"""Make the example placement: an arena of ten made-up models, the answers of an eleventh, and what a judge said.

People's votes and the judge's verdicts are drawn from known strengths, so the result can be checked: the new model
`kestrel` was made 60 points better than the average of the others. The judge is sharper than people (it stretches their
scale about 1.6 times), likes the first slot a little, and likes some models better than people do. Run this to get the
same files again.
"""

import json
import math
import random
from pathlib import Path

HERE = Path(__file__).parent
MODELS = {
    "albatross": 150,
    "bittern": 110,
    "cormorant": 80,
    "dunlin": 40,
    "egret": 10,
    "fulmar": -20,
    "gannet": -50,
    "heron": -80,
    "ibis": -110,
    "jackdaw": -130,
}
NEW, NEW_STRENGTH = "kestrel", 60
QUESTIONS = 420
SUBJECTS = ("tides", "bread", "bridges", "moths", "glaciers", "violins", "maps", "bees", "volcanoes", "ink")
ASKED = {
    "en": "In two sentences: what should a beginner know about {}? (question {})",
    "fr": "En deux phrases : que doit savoir un débutant sur « {} » ? (question {})",
}
ANSWER = "{model} on {subject}: first the one thing that matters, then an example that shows it. [{number}]"
POINTS = 400 / math.log(10)
SHARPNESS, FIRST_SLOT, LIKINGS = 1.6, 25, 30


def main() -> None:
    """Write the arena, the new model's answers, and the recorded verdicts."""
    rng = random.Random(20261115)  # noqa: S311 - a seed is the point
    liking = {model: rng.gauss(0, LIKINGS) for model in [*MODELS, NEW]}
    arena, answers, verdicts = [], [], []
    for number in range(QUESTIONS):
        name, language = f"q{number:03d}", "fr" if number % 4 == 3 else "en"
        subject = SUBJECTS[number % len(SUBJECTS)]
        prompt = ASKED[language].format(subject, number)
        pair = rng.sample(list(MODELS), 2)
        arena.append(
            {
                "question_id": name,
                "model_a": pair[0],
                "model_b": pair[1],
                "winner": _vote(rng, *(MODELS[model] for model in pair)),
                "conversation_a": _talk(prompt, pair[0], subject, number),
                "conversation_b": _talk(prompt, pair[1], subject, number),
                "language": language,
                "turn": 1,
            }
        )
        answers.append({"entrant_id": NEW, "prompt_id": name, "response_text": _answer(NEW, subject, number)})
        for first, second in ((NEW, pair[0]), (NEW, pair[1]), tuple(pair)):
            verdicts.append(_heard(rng, name, first, second, liking))
    _write("arena.jsonl", arena)
    _write("responses_kestrel.jsonl", answers)
    _write("verdicts.jsonl", verdicts)


def _vote(rng: random.Random, strength_a: float, strength_b: float) -> str:
    if rng.random() < 0.06:
        return "tie (bothbad)"
    if rng.random() < 0.15:
        return "tie"
    return "model_a" if rng.random() < _chance((strength_a - strength_b) / POINTS) else "model_b"


def _heard(rng: random.Random, name: str, first: str, second: str, liking: dict[str, float]) -> dict[str, str]:
    strength = {**MODELS, NEW: NEW_STRENGTH}
    gap = SHARPNESS * (strength[first] - strength[second]) + liking[first] - liking[second]
    forward, swapped = (
        "TIE" if rng.random() < 0.08 else "A" if rng.random() < _chance((lead + FIRST_SLOT) / POINTS) else "B"
        for lead in (gap, -gap)
    )
    return {
        "prompt_id": name,
        "entrant_a": first,
        "entrant_b": second,
        "verdict": forward,
        "verdict_swapped": swapped,
    }


def _chance(logit: float) -> float:
    return 1 / (1 + math.exp(-logit))


def _talk(prompt: str, model: str, subject: str, number: int) -> list[dict[str, str]]:
    return [{"role": "user", "content": prompt}, {"role": "assistant", "content": _answer(model, subject, number)}]


def _answer(model: str, subject: str, number: int) -> str:
    return ANSWER.format(model=model, subject=subject, number=number)


def _write(name: str, rows: list[dict[str, object]]) -> None:
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    (HERE / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
