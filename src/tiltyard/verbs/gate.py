"""`gate`: may the new one replace the old one: better, not worse than a margin, worse, or cannot tell."""

from __future__ import annotations

from typing import Any

from tiltyard.analysis.decisions import (
    Difference,
    GateResult,
    MetricsComparison,
    MetricsGate,
    RunComparison,
    judge_difference,
    judge_metrics,
)
from tiltyard.errors import OptionError, OptionValue
from tiltyard.options import CompareOptions, GateOptions, GateRule, accepts_options, options_of
from tiltyard.verbs.compare import compare


@accepts_options(GateOptions)
def gate(new: Any, old: Any, options: GateOptions) -> GateResult | MetricsGate:
    """May the new one replace the old one: better, not worse than the margin, worse, or cannot tell.

    Where battles have several dimensions, or answers several scores, each is judged, and one that is worse fails.

    Parameters:
        new: The new model, with `battles`. Without: a new run (a folder, files, a frame, rows of battles), its file of
            scores, or a board (a `Leaderboard`, or a ratings file).
        old: What it is to replace.
    """
    if options.pool_dimensions and options.dimension is not None:
        pool, dimension = OptionValue("pool_dimensions", True), OptionValue("dimension", None)
        raise OptionError(pool, " is about several: leave it out, or leave out ", dimension, ".")
    rule = options.part(GateRule)
    asked = {name: value for name, value in options.given().items() if name in options_of(CompareOptions)}
    if 0.0 < rule.alpha < 0.5:
        asked["level"] = 1.0 - rule.alpha
    answer = compare(new, old, **{**asked, "by": rule.by and [rule.by], "missing": None})
    if isinstance(answer, RunComparison):
        return judge_difference(_subject(answer, options.model), rule)
    options.refuse(["model"], " is about two runs of battles: leave it out.")
    return (
        judge_metrics(answer.metrics, rule) if isinstance(answer, MetricsComparison) else judge_difference(answer, rule)
    )


def _subject(answer: RunComparison, model: str | None) -> Difference:
    """The difference that is judged: of one entrant then and now."""
    if model is None:
        return answer.subject
    try:
        return answer[model]
    except KeyError:
        names = ", ".join(change.entrant for change in answer.changes)
        raise OptionError(f"the runs do not both have {model!r}: they share {names}.") from None
