"""What the peers make of three small files with something odd in them: `python -m bench.small_files NAME`.

Prints one line for each peer, in README's order and words. `make claims` holds README's table against them.
"""

from __future__ import annotations

import sys
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from bench import peers

if TYPE_CHECKING:
    from collections.abc import Callable

Battle = tuple[str, str, str]

UNBEATEN: list[Battle] = [("x", "y", "model_a")] * 20 + [("y", "z", "model_a"), ("z", "y", "model_a")] * 5
ISLANDS: list[Battle] = [(a, b, "model_a") for a, b in ("ab", "ba", "cd", "dc")]
MISSPELT: list[Battle] = [("a", "b", "model_a"), ("b", "a", "model_aa")]
AS_A_TIE: list[Battle] = [("a", "b", "model_a"), ("b", "a", "tie")]


def frame_of(rows: list[Battle]) -> Any:
    """The battles as the peers take them."""
    import pandas

    return pandas.DataFrame(rows, columns=["model_a", "model_b", "winner"])


def points(logits: np.ndarray) -> np.ndarray:
    """Ratings around 1000."""
    return 1000.0 + peers.ELO_PER_LOGIT * (logits - logits.mean())


def or_an_error(ask: Callable[[], str]) -> str:
    """What a peer says, or that it fails."""
    try:
        return ask()
    except Exception:  # whatever it raises is what its users meet
        return "an error"


def choix_strengths(rows: list[Battle]) -> np.ndarray:
    """Strengths by choix, which takes numbers and has no ties."""
    names = sorted({name for a, b, _ in rows for name in (a, b)})
    a, b = (np.array([names.index(row[side]) for row in rows]) for side in (0, 1))
    return peers.choix_fit(a, b, np.zeros(len(rows), dtype=np.int64), len(names))


def evalica_scores(rows: list[Battle]) -> np.ndarray:
    """Scores by evalica, as it gives them."""
    import evalica

    frame = frame_of(rows)
    result = evalica.bradley_terry(frame["model_a"], frame["model_b"], peers.evalica_winners(frame))
    return np.asarray(result.scores, dtype=np.float64)


def unbeaten() -> list[str]:
    """The model that won all of its battles: its rating, or what else is said."""
    frame = frame_of(UNBEATEN)
    _, logits, error = peers.arena_rank_fit(frame, intervals=True)
    assert error is not None
    scores = evalica_scores(UNBEATEN)
    return [
        f"{points(logits)[0]:,.0f} ± {peers.ELO_PER_LOGIT * 1.96 * error[0]:.0f}",
        f"every score {scores[0]:.6f}" if np.ptp(scores) == 0.0 else f"score {scores[0]:g}",
        f"{points(peers.FastChat(frame).fit())[0]:,.0f}",
        or_an_error(lambda: f"{points(choix_strengths(UNBEATEN))[0]:,.0f}"),
    ]


def islands() -> list[str]:
    """Two pairs of models that never met: whether all four get a rating on one scale."""
    frame = frame_of(ISLANDS)

    def ranked(values: Any) -> str:
        return "ranked" if np.isfinite(np.asarray(values)).all() and len(values) == 4 else "not ranked"

    return [
        or_an_error(lambda: ranked(peers.arena_rank_fit(frame, intervals=False)[1])),
        or_an_error(lambda: ranked(evalica_scores(ISLANDS))),
        or_an_error(lambda: ranked(peers.FastChat(frame).fit())),
        or_an_error(lambda: ranked(choix_strengths(ISLANDS))),
    ]


def misspelt() -> list[str]:
    """A winner that is none of the known words: whether it counts as a tie."""

    def compared(fit: Callable[[Any], np.ndarray]) -> str:
        return "a tie" if np.allclose(fit(frame_of(MISSPELT)), fit(frame_of(AS_A_TIE))) else "something else"

    def of_words() -> str:
        import evalica

        evalica.bradley_terry(["a", "b"], ["b", "a"], ["model_a", "model_aa"])
        return "read"

    words = or_an_error(of_words)
    return [
        compared(lambda frame: peers.arena_rank_fit(frame, intervals=False)[1]),
        "you map the labels" if words == "an error" else words,
        compared(lambda frame: peers.FastChat(frame).fit()),
        "–",
    ]


FILES = {"unbeaten": unbeaten, "islands": islands, "misspelt": misspelt}


def main() -> None:
    """Print what each peer says of the named file."""
    warnings.simplefilter("ignore")
    (name,) = sys.argv[1:]
    print("\n".join(FILES[name]()))


if __name__ == "__main__":
    main()
