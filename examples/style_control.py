"""What would the board be if all answers were equally long? Style control, on votes with known truth.

The votes here are made so that one model, `waffle`, is no better than the others but writes long answers, and people
like long answers. Rated plainly it leads; controlled for length it does not.

Run it: python examples/style_control.py
"""

import math
import random

import tiltyard as ty

WORDS = {"brief": 80, "plain": 100, "clear": 100, "waffle": 300}  # how long each model writes; all are equally good
TASTE = 0.8  # how much people like length, in log-odds for an answer that is all of the text


def votes(number: int, seed: int) -> list[dict[str, object]]:
    """Battles between equals, decided by length and luck."""
    rng = random.Random(seed)  # noqa: S311 - a seed is the point
    rows: list[dict[str, object]] = []
    for vote in range(number):
        a, b = rng.sample(list(WORDS), 2)
        length_a, length_b = (round(WORDS[model] * math.exp(rng.gauss(0, 0.4))) for model in (a, b))
        chance_a = 1 / (1 + math.exp(-TASTE * (length_a - length_b) / (length_a + length_b)))
        winner = "model_a" if rng.random() < chance_a else "model_b"
        question = f"q{vote % 200}"
        rows.append(
            {"model_a": a, "model_b": b, "winner": winner, "source": "human", "question_id": question}
            | {"len_a": length_a, "len_b": length_b}
        )
    return rows


def main() -> None:
    """Rate with and without control, and say what length was worth."""
    table = ty.read_battles(votes(4000, seed=1))
    plain = ty.rate(table)
    controlled = ty.rate(table, control=("len",))
    for model in WORDS:
        entry = controlled[model]
        interval = f"[{entry.ci_low:.0f}, {entry.ci_high:.0f}]"
        print(f"{model:7} {plain[model].rating:6.0f} plainly, {entry.rating:6.0f} {interval} controlled for length")
    for name, worth in controlled.details.coefficients.items():
        print(f"{name}: {worth.points:+.0f} points ({worth.ci_low:+.0f} … {worth.ci_high:+.0f})")

    # Plainly, the wordy model is clearly above the mean; controlled, all four are equals again.
    assert plain["waffle"].ci_low > 1000
    assert all(entry.ci_low < 1000 < entry.ci_high for entry in controlled)


if __name__ == "__main__":
    main()
