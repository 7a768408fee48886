"""From rubric to request, verdict, judgment and battle; and how a judge compares with people."""

from tiltyard.judging.bias import Bias, BiasRow, bias_rows, length_preference, measure_bias
from tiltyard.judging.cache import VerdictCache
from tiltyard.judging.canaries import (
    CANARIES,
    Canary,
    CanaryScore,
    MissedCanary,
    canary_cases,
    canary_report,
    score_canaries,
)
from tiltyard.judging.human_agreement import (
    JudgeCheck,
    LabelledPair,
    check_judge,
    compare_with_people,
    read_labelled_pairs,
)
from tiltyard.judging.judge import Judge, JudgingOptions, JudgingResult, JudgingStats, Verdicts, judge
from tiltyard.judging.language_model import LanguageModelJudge
from tiltyard.judging.panel import PanelJudge, PanelStudy, study_panel
from tiltyard.judging.plan import Case, JudgingPlan, Rubric, default_rubric
from tiltyard.judging.questions import TEMPLATE_VERSION, JudgeSettings, Question, make_questions
from tiltyard.judging.recorded import RecordedJudge
from tiltyard.judging.records import Judgment, Matchup, Verdict, VerdictLabel, settle, to_battle
from tiltyard.llm.asking import AskingParts

__all__ = [
    "CANARIES",
    "TEMPLATE_VERSION",
    "AskingParts",
    "Bias",
    "BiasRow",
    "Canary",
    "CanaryScore",
    "Case",
    "Judge",
    "JudgeCheck",
    "JudgeSettings",
    "JudgingOptions",
    "JudgingPlan",
    "JudgingResult",
    "JudgingStats",
    "Judgment",
    "LabelledPair",
    "LanguageModelJudge",
    "Matchup",
    "MissedCanary",
    "PanelJudge",
    "PanelStudy",
    "Question",
    "RecordedJudge",
    "Rubric",
    "Verdict",
    "VerdictCache",
    "VerdictLabel",
    "Verdicts",
    "bias_rows",
    "canary_cases",
    "canary_report",
    "check_judge",
    "compare_with_people",
    "default_rubric",
    "judge",
    "length_preference",
    "make_questions",
    "measure_bias",
    "read_labelled_pairs",
    "score_canaries",
    "settle",
    "study_panel",
    "to_battle",
]
