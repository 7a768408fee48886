"""A run against one baseline: every other entrant's win rate with its interval, plain and controlled for style.

The plain rate is the mean result against the baseline, ties half, with an interval by prompt (`validity.win_rate`). The
controlled rates come from Bradley–Terry with ties as half-wins and the style of both answers as covariates: the mean
result that the fit expects of answers that do not differ in style.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from tiltyard.bank.style import STYLE
from tiltyard.battles import BattleTable, Outcome
from tiltyard.boards import BradleyTerry
from tiltyard.boards.certainty import Solved, coefficients
from tiltyard.decisions.contrast import contrast
from tiltyard.decisions.prompts import scores
from tiltyard.decisions.two_models import mean_result
from tiltyard.errors import TiltyardError
from tiltyard.validity.agreement import win_rate

LEVEL = 0.95

INTERVAL = (
    "by prompt; the outer ends of a logit interval with leave-one-out residuals (CR3) and of Wilson's interval with "
    "one won and one lost prompt added, with Student's quantile"
)


class ControlledRate(msgspec.Struct, frozen=True):
    """A win rate with style controlled, between 0 and 1, and its interval; an end is None where nothing bounds it."""

    win_rate: float
    low: float | None
    high: float | None


class BaselineRate(msgspec.Struct, frozen=True, kw_only=True):
    """One entrant against the baseline. Inconsistent judgments are among the ties; failed ones are in no count."""

    entrant: str
    """The entrant."""
    win_rate: float
    """Its mean result against the baseline: 1 for a win, a half for a tie; a soft score where the judge gave one."""
    low: float
    """Lower end of the interval."""
    high: float
    """Upper end of the interval."""
    length_controlled: ControlledRate | None = None
    """The win rate if both answers were equally long."""
    style_controlled: ControlledRate | None = None
    """The win rate if both answers had equal length, headings, lists and bold passages."""
    wins: int
    """Battles it won."""
    losses: int
    """Battles it lost."""
    ties: int
    """Battles that were tied."""
    inconsistent: int
    """Of the ties, those in which the two orders disagreed."""
    prompts: int
    """Prompts on which it met the baseline."""
    mean_length: float | None = None
    """Mean length of its answers in characters."""


class StyleEffect(msgspec.Struct, frozen=True, kw_only=True):
    """What a style control found: what a typical difference in each feature is worth, in rating points."""

    features: tuple[str, ...]
    """The features that were controlled for."""
    points: dict[str, dict[str, float | None]] = {}
    """By feature: `points` of a typical difference, and `ci_low` and `ci_high`."""
    missing: str | None = None
    """Why there is no controlled win rate, if so."""


class BaselineTable(msgspec.Struct, frozen=True, kw_only=True):
    """The win rates of one dimension against the baseline, best first: a part of `baseline.json`."""

    baseline: str
    """The entrant that all others were judged against."""
    rates: tuple[BaselineRate, ...]
    """The others, best first."""
    length: StyleEffect
    """The control for length."""
    style: StyleEffect
    """The control for length, headings, lists and bold passages."""
    mean_length: float | None = None
    """Mean length of the baseline's answers in characters."""
    level: float = LEVEL
    """Confidence level of every interval."""
    interval: str = INTERVAL
    """How the intervals of the plain rates are made."""


def rate_against(table: BattleTable, baseline: str, inconsistent: NDArray[np.bool_]) -> BaselineTable | None:
    """The win rates of everyone else against the baseline; None without a battle.

    Parameters:
        table: The battles of a dimension, with the columns of `STYLE` if they are to be controlled for.
        baseline: The entrant that everyone else met.
        inconsistent: For each battle, whether the two orders disagreed.
    """
    if not len(table):
        return None
    others = [name for name in table.models if name != baseline]
    varying = tuple(name for name in STYLE if _varies(table, name))
    length, by_length = _controlled(table, baseline, others, tuple(name for name in varying if name == "len"))
    style, by_style = _controlled(table, baseline, others, varying)
    rates = []
    for name in others:
        one = _one_rate(table, name, inconsistent)
        rates.append(
            msgspec.structs.replace(one, length_controlled=by_length.get(name), style_controlled=by_style.get(name))
        )
    return BaselineTable(
        baseline=baseline,
        rates=tuple(sorted(rates, key=lambda one: (-one.win_rate, one.entrant))),
        length=length,
        style=style,
        mean_length=_mean_length(table, baseline),
    )


def _varies(table: BattleTable, name: str) -> bool:
    """Whether the two answers of some battle differ in a feature; without the column none do."""
    if f"{name}_a" not in table.columns:
        return False
    return bool((table.number_column(f"{name}_a") != table.number_column(f"{name}_b")).any())


def _one_rate(table: BattleTable, entrant: str, inconsistent: NDArray[np.bool_]) -> BaselineRate:
    """An entrant's plain win rate. In every battle of the table one side is the baseline."""
    code = table.models.index(entrant)
    on_a = table.model_a == code
    ours = on_a | (table.model_b == code)
    result = np.where(on_a, scores(table), 1.0 - scores(table))[ours]
    prompts = table.text_column("question_id").codes[ours]
    found = win_rate(result, prompts, level=LEVEL)
    won = ours & (table.outcome == np.where(on_a, Outcome.A, Outcome.B))
    tied = ours & (table.outcome == Outcome.TIE)
    return BaselineRate(
        entrant=entrant,
        win_rate=found.value or 0.0,
        low=found.low or 0.0,
        high=1.0 if found.high is None else found.high,
        wins=int(won.sum()),
        losses=int((ours & ~won & ~tied).sum()),
        ties=int(tied.sum()),
        inconsistent=int((ours & inconsistent).sum()),
        prompts=len(np.unique(prompts)),
        mean_length=_mean_length(table, entrant),
    )


def _mean_length(table: BattleTable, entrant: str) -> float | None:
    """The mean length of an entrant's answers, each prompt counted once per battle."""
    if "len_a" not in table.columns:
        return None
    code = table.models.index(entrant)
    lengths = [table.number_column(f"len_{side}")[codes == code] for side, codes in _sides(table)]
    return float(np.concatenate(lengths).mean())


def _sides(table: BattleTable) -> tuple[tuple[str, NDArray[np.int32]], tuple[str, NDArray[np.int32]]]:
    return ("a", table.model_a), ("b", table.model_b)


def _controlled(
    table: BattleTable, baseline: str, others: Sequence[str], features: tuple[str, ...]
) -> tuple[StyleEffect, Mapping[str, ControlledRate]]:
    """What a control found, and the win rate of each entrant without the difference in style; or why there is none."""
    if not features:
        missing = "the answers do not differ" if "len_a" in table.columns else "the answers were not measured"
        return StyleEffect(features=(), missing=missing), {}
    try:
        solved = BradleyTerry(ties="half", control=features, misfit=False).solve(table)
    except TiltyardError as error:
        why = str(error).split(". ")[0]
        missing = f"the battles do not tell the entrants from their style ({why})"
        return StyleEffect(features=features, missing=missing), {}
    rates = {name: _expected(solved, name, baseline) for name in others}
    return StyleEffect(
        features=features, points=coefficients(list(features), solved.fit, solved.covariance, LEVEL)
    ), rates


def _expected(solved: Solved, entrant: str, baseline: str) -> ControlledRate:
    """The mean result that a fit expects of an entrant against the baseline, styles being equal."""
    found = contrast(solved, entrant, baseline)
    low, high = found.ends(LEVEL)
    rate = mean_result(solved, found.points)
    assert rate is not None
    return ControlledRate(rate, mean_result(solved, low), mean_result(solved, high))


def baseline_text(table: BaselineTable) -> str:
    """The table for people, in per cent, and below it what the controls found.

    Parameters:
        table: The win rates of a dimension.
    """
    head = ["entrant", "win rate", "95 % interval", "length-controlled", "style-controlled", "W", "L", "T", "length"]
    rows = [
        [
            one.entrant,
            f"{100 * one.win_rate:.1f}",
            interval_text(one.low, one.high),
            controlled_text(one.length_controlled),
            controlled_text(one.style_controlled),
            *(f"{count:,}" for count in (one.wins, one.losses, one.ties)),
            "–" if one.mean_length is None else f"{one.mean_length:,.0f}",
        ]
        for one in table.rates
    ]
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]

    def line(cells: Sequence[str]) -> str:
        rest = (cell.rjust(width) for cell, width in zip(cells[1:], widths[1:], strict=True))
        return "  ".join([cells[0].ljust(widths[0]), *rest])

    rule = "─" * (sum(widths) + 2 * (len(widths) - 1))
    title = f"Win rate against {table.baseline} in %, ties half; 95 % intervals by prompt"
    return "\n".join([title, line(head), rule, *map(line, rows), rule, *control_notes(table)])


def interval_text(low: float | None, high: float | None) -> str:
    """An interval of a rate in per cent, with an ellipsis on an open side."""
    ends = ["…" if end is None else f"{100 * end:.1f}" for end in (low, high)]
    return f"{ends[0]} – {ends[1]}"


def controlled_text(rate: ControlledRate | None) -> str:
    """A controlled rate with its interval, in per cent."""
    return "–" if rate is None else f"{100 * rate.win_rate:.1f} ({interval_text(rate.low, rate.high)})"


def control_notes(table: BaselineTable) -> list[str]:
    """What the controls found, or why there is no controlled rate, in sentences."""
    notes = []
    controls = [("length", table.length)]
    controls += [("style", table.style)] if table.style.features != table.length.features else []
    for what, effect in controls:
        if effect.missing is not None:
            notes.append(f"not controlled for {what}: {effect.missing}")
        for name, worth in effect.points.items():
            points, low, high = worth["points"], worth["ci_low"], worth["ci_high"]
            ends = "no interval" if low is None or high is None else f"{low:+.1f} … {high:+.1f}"
            notes.append(f"{what} control, {name}: {points:+.1f} points ({ends}) per typical difference")
    return notes
