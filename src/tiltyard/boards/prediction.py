"""What a board expects of battles that were not fought: the chance of each outcome, pair by pair."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tiltyard.battles.battle import OUTCOME_LABELS
from tiltyard.battles.table import BattleTable
from tiltyard.errors import OptionError, OptionValue, RatingError
from tiltyard.options import check_choice
from tiltyard.ratings.glicko2 import expected_score
from tiltyard.ratings.tie_models import HALF, TIE_MODELS

if TYPE_CHECKING:
    from tiltyard.boards.leaderboard import Leaderboard

    Floats = NDArray[np.float64]

OUTCOMES = OUTCOME_LABELS[:3]
"""What is predicted, in the order of the columns: `model_a`, `model_b`, `tie`."""


def predict_chances(
    board: Leaderboard, pairs: BattleTable | Iterable[Sequence[str]], *, source: str | None = None
) -> Floats:
    """The chance of each outcome (a wins, b wins, tie) of each pair: an array of three columns whose rows sum to 1.

    Parameters:
        board: A board of ratings.
        pairs: Pairs of models, or battles, of which only the two models are looked at.
        source: Who would decide, `human` or `llm-judge`, where they tie at different rates.
    """
    first, second = _places(board, pairs)
    ratings = np.array([entry.rating for entry in board])
    method = board.settings.get("method")
    if method == "bt":
        delta = (ratings[first] - ratings[second]) / float(board.settings["scale"])
        model = TIE_MODELS.get(str(board.settings["tie_model"]), HALF)
        tie = np.full(len(delta), _tie_parameter(board, model.untied, source))
        return np.asarray(model.chances(delta, tie))
    if source is not None:
        raise OptionError(f"source matters where ties are modelled, and method {method} has no such parameter.")
    if method in ("elo", "elo-perm"):
        won = 0.5 + 0.5 * np.tanh(0.5 * np.log(10.0) / 400.0 * (ratings[first] - ratings[second]))
    elif method == "glicko2":
        deviations = np.array([_deviation(entry.extra) for entry in board])
        both = np.hypot(deviations[first], deviations[second])
        won = expected_score(ratings[first], ratings[second], both)
    else:
        raise RatingError(
            f"a board by {method} predicts no battle: a share of wins says nothing of the opponent. Rate with ",
            OptionValue("method", "bt"),
            ', "elo", "elo-perm" or "glicko2".',
        )
    return np.column_stack([won, 1.0 - won, np.zeros_like(won)])


def _places(board: Leaderboard, pairs: BattleTable | Iterable[Sequence[str]]) -> tuple[Any, Any]:
    """Where the models of each pair stand on the board."""
    place = {entry.model: at for at, entry in enumerate(board)}
    if isinstance(pairs, BattleTable):
        known = np.array([_place(place, model) for model in pairs.models], dtype=np.intp)
        return known[pairs.model_a], known[pairs.model_b]
    found = []
    for pair in pairs:
        if isinstance(pair, str) or len(pair) != 2:
            raise OptionError(f"a pair is {pair!r}: expected the names of two models.")
        found.append((_place(place, pair[0]), _place(place, pair[1])))
    both = np.array(found, dtype=np.intp).reshape(-1, 2)
    return both[:, 0], both[:, 1]


def _place(place: dict[str, int], model: str) -> int:
    if model not in place:
        close = difflib.get_close_matches(str(model), place, n=1)
        hint = f"Did you mean {close[0]!r}?" if close else "It has no battle there."
        raise RatingError(f"{model!r} is not on the board. {hint}")
    return place[model]


def _tie_parameter(board: Leaderboard, untied: float, source: str | None) -> float:
    """The logarithm of the tie parameter that applies."""
    found = board.details.get("tie_parameters") or {}
    if source is not None:
        check_choice("source", source, ("human", "llm-judge"))
    if "all" in found:
        return float(np.log(found["all"]))
    if not found:
        return untied
    if source is None and len(found) > 1:
        raise OptionError(
            "people and judges tie at different rates here: say ",
            OptionValue("source", "human"),
            " or ",
            OptionValue("source", "llm-judge"),
            ".",
        )
    name = source or next(iter(found))
    return float(np.log(found[name])) if name in found else untied


def _deviation(extra: Any) -> float:
    return float(extra.get("deviation") or 0.0)
