"""The pilot's gate: is the headline run worth its cost? Go or no-go, with reasons."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tiltyard.judging.judge import JudgingResult
from tiltyard.tournament.plan import RunPlan
from tiltyard.tournament.summary import own_counts

if TYPE_CHECKING:
    from tiltyard.tournament.ratings import DimensionRatings

MOST_FAILED = 0.05
"""Above this share of failed judgments the judge does not follow the rubric; more money will not fix that."""

MOST_INCONSISTENT = 0.35
"""Above this share of contradictions the verdicts depend more on the order of the answers than on the answers. A judge
that tosses a coin contradicts itself half the time."""

FEWEST_DECISIVE = 10
"""Below this many decisive matches a dimension cannot order even two entrants."""


@dataclass(frozen=True, slots=True)
class Check:
    """One condition of the gate."""

    name: str
    passed: bool
    detail: str


def gate(
    plan: RunPlan,
    judged: JudgingResult,
    standings: Mapping[str, DimensionRatings],
    canaries: Mapping[str, Any] | None = None,
) -> list[Check]:
    """The checks of every dimension, and of the answers; `canaries` as `canary_report` gives them."""
    matches = plan.matches
    checks = [
        Check(
            "answers complete",
            matches.cells_present == matches.cells_expected and not plan.left_out,
            f"{matches.cells_present} of {matches.cells_expected} cells"
            + (f", and no answers of {', '.join(plan.left_out)}" if plan.left_out else ""),
        )
    ]
    for dimension, standing in standings.items():
        failures = own_counts(judged, dimension).failed_verdicts
        settled = sum(pair.a_wins + pair.b_wins + pair.ties for pair in standing.pairs)
        cases = len(matches.by_dimension[dimension])
        failed = cases - settled
        contradicted = sum(pair.inconsistent for pair in standing.pairs)
        checks += [
            Check(
                f"{dimension}: verdicts readable",
                failed <= MOST_FAILED * max(cases, 1),
                f"{failed} of {cases} judgments failed ({_names(failures)})",
            ),
            Check(
                f"{dimension}: judge consistent",
                contradicted <= MOST_INCONSISTENT * max(settled, 1),
                f"{contradicted} of {settled} judgments {_contradiction(judged)}",
            ),
            Check(
                f"{dimension}: enough decisive matches",
                standing.n_decisive >= FEWEST_DECISIVE,
                f"{standing.n_decisive} decisive",
            ),
        ]
        if canaries and dimension in canaries:
            checks.append(_canary_check(dimension, canaries[dimension]))
    return checks


def _canary_check(dimension: str, found: Mapping[str, Any]) -> Check:
    missed = [one["canary"] for one in found["missed"]]
    detail = f"missed {len(missed)} of {found['asked']}: {', '.join(missed)}" if missed else f"{found['asked']} judged"
    return Check(f"{dimension}: no canary missed", not missed, detail)


def _contradiction(judged: JudgingResult) -> str:
    several = judged.panel is not None and judged.panel.combine != "rows"
    return "have no majority" if several else "changed with the order of the answers"


def _names(failures: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in failures.items()) or "none"


def passes(checks: Sequence[Check]) -> bool:
    """Whether the pilot says GO."""
    return all(check.passed for check in checks)


def verdict_lines(checks: Sequence[Check]) -> list[str]:
    """The gate as text: GO or NO-GO, then every check."""
    head = "GO: the pilot found nothing against the headline run" if passes(checks) else "NO-GO: see what failed below"
    return [head, *(f"  {'ok  ' if check.passed else 'FAIL'} {check.name}: {check.detail}" for check in checks)]
