"""What is said of a judge that gives no readable verdict on any of its first questions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tiltyard.errors import JudgingError
from tiltyard.judging.records import VerdictLabel
from tiltyard.llm.trial import FailureSummary, Trial

if TYPE_CHECKING:
    from pathlib import Path

_ADVICE = {
    VerdictLabel.UNPARSED: "Use a judge that follows instructions, or look at the rubric",
    VerdictLabel.TRUNCATED: "Allow the judge more tokens",
    VerdictLabel.REFUSED: "Use another judge, or look at the rubric and the prompts",
    VerdictLabel.ERROR: "Check the judge's name, address, options and account",
}


def judge_trial(judge: str, folder: Path) -> Trial:
    """The trial of a judge whose verdicts are kept in `folder`."""

    def give_up(failures: FailureSummary) -> JudgingError:
        return JudgingError(
            f"{judge} gave no readable verdict on any of the first {failures.total} questions; {failures.count} ended "
            f"as {failures.name}: {failures.why}{failures.quoted}. {_ADVICE[VerdictLabel(failures.name)]}, then "
            f"run again; what came is kept in {folder}."
        )

    return Trial(give_up)
