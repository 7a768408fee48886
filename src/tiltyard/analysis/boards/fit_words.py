"""How well a board's model describes its battles, in sentences for a report: one for each check that was made.

A board's own lines (`misfit.py`) say only what a reader must not miss. A report shows every check with its
figures, those that found nothing too, and what was not checked and why.
"""

from __future__ import annotations

from typing import Any

from tiltyard.analysis.boards.misfit import MisfitFacts

MEANINGS = {
    "pairs": "Ratings are averages over the opponents met; do not use them to predict single pairs.",
    "ties": "Gaps between ratings depend on the tie model: compare with another one.",
    "drift": "Such a rating is an average over the time of its battles, not the present strength.",
    "slot": "Models shown first more often than others are rated accordingly: fit the slot term.",
}
"""What a reader should conclude from each note."""

TITLES = {"pairs": "Pairs", "schedule": "Schedule", "ties": "Ties", "drift": "Drift", "slot": "Sides"}


def fit_verdict(record: MisfitFacts) -> str:
    """One sentence on the whole: whether the model describes the battles, and what follows where it does not."""
    if not record.checked:
        return f"Not checked: {record.reason}."
    if not any(getattr(record, name) for name in MEANINGS):
        return "Nothing to check: these battles leave no room for misfit."
    if record.notes:
        return " ".join(MEANINGS[name] for name in record.notes)
    if record.too_small:
        return "Misfit that is certain and too small to matter: the model describes these battles well."
    if record.by_chance:
        return "No clear misfit: of several checks, one may come out like this by chance."
    return "No sign of misfit: the model describes these battles as well as chance allows."


def fit_sentences(record: MisfitFacts) -> list[str]:
    """Every check of a board's `misfit` record with its figures, then what was not checked."""
    words = {"notes": "misfit", "too_small": "misfit, too small to matter", "by_chance": "within chance"}
    remark = {name: f" ({said})" for key, said in words.items() for name in getattr(record, key) or ()}
    made = [
        f"{title}{remark.get(name, '')}: {_figures(name, part)}"
        for name, title in TITLES.items()
        if (part := getattr(record, name))
    ]
    missing = (line.split(": ", 1) for line in record.not_checked or ())
    return made + [f"{TITLES[name]}: not checked, {reason}." for name, reason in missing]


def _figures(name: str, part: Any) -> str:
    p = f"p {part.p:.3f}"
    if name == "pairs":
        worst = part.worst[0]
        return (
            f"{p}, with the schedule; pairs deviate by {100 * part.size:.1f} percentage points beyond chance. "
            f"The most remarkable: {worst.model} scores {100 * worst.share:.0f} % against {worst.against}, "
            f"expected {100 * worst.expected:.0f} % ({worst.battles:,.0f} battles)."
        )
    if name == "schedule":
        return (
            f"with every pair weighing the same, {part.model} moves by {part.points:+.0f} points "
            f"({abs(part.z):.1f} standard errors)."
        )
    if name == "ties":
        return (
            f"{p}; {100 * part.close:.1f} % ties among close models, expected {100 * part.close_expected:.1f} %; "
            f"{100 * part.far:.1f} % among others, expected {100 * part.far_expected:.1f} %."
        )
    if name == "drift":
        rows = ", ".join(f"{row.model} {row.points:+.0f} ± {row.error:.0f}" for row in part.models)
        return f"{p}; largest change from first battle to last, in points (± standard error): {rows}."
    ends = f"{part.ci_low:+.1f} … {part.ci_high:+.1f}"
    return f"{p}; being shown first is worth {part.points:+.1f} points ({ends})."
