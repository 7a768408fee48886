"""From rubric to request, verdict, judgment and battle; and how a judge compares with people."""

from typing import TYPE_CHECKING

from tiltyard.faces import names_on_demand

if TYPE_CHECKING:
    from tiltyard.judge.verdicts.adaptive import (
        FAILED,
        AdaptiveRounds,
        Design,
        ImaginedWorld,
        RoundGoal,
        RoundRecord,
        RoundSettings,
        estimate,
        forecast,
    )
    from tiltyard.judge.verdicts.bias import (
        MOST_INCONSISTENT,
        Bias,
        BiasCounts,
        BiasRow,
        Check,
        bias_rows,
        length_preference,
        measure_bias,
    )
    from tiltyard.judge.verdicts.cache import ReplyLengths, VerdictCache
    from tiltyard.judge.verdicts.canaries import (
        CANARIES,
        Canary,
        CanaryScore,
        MissedCanary,
        canary_cases,
        canary_report,
        score_canaries,
        single_canaries,
    )
    from tiltyard.judge.verdicts.function import JudgeFunction, function_name
    from tiltyard.judge.verdicts.human_agreement import (
        JudgeCheck,
        LabelledPair,
        check_judge,
        compare_with_people,
        labelled_plan,
        read_labelled_pairs,
    )
    from tiltyard.judge.verdicts.language_model import LanguageModelJudge
    from tiltyard.judge.verdicts.panel import (
        PanelJudge,
        PanelMember,
        PanelStudy,
        judge_in_words,
        panel_members,
        study_panel,
    )
    from tiltyard.judge.verdicts.plan import (
        NO_IMAGES,
        Case,
        CaseImages,
        JudgingPlan,
        LazySequence,
        Rubric,
        case_of_each,
        default_rubric,
        scores_of,
    )
    from tiltyard.judge.verdicts.questions import (
        TEMPLATE_VERSION,
        JudgeSettings,
        Question,
        make_questions,
        prompt_template,
    )
    from tiltyard.judge.verdicts.reading import check_form
    from tiltyard.judge.verdicts.recorded import RecordedJudge
    from tiltyard.judge.verdicts.records import (
        JudgedAnswer,
        Judgment,
        Matchup,
        Verdict,
        VerdictLabel,
        in_pairs,
        prompt_columns,
        settle,
        to_battle,
    )
    from tiltyard.judge.verdicts.run_folder import (
        RUN,
        AnyJudgment,
        Clock,
        LineSpan,
        Remade,
        SilentProvider,
        again,
        decode,
        iso_time,
        judge_by_name,
        new_folder,
        read_lines,
        read_object,
        read_record,
        require,
        resettled,
        time_stamp,
        usage_report,
        utc_now,
        versions,
    )
    from tiltyard.judge.verdicts.scoring import SCALES, ScaleName, Scoring, make_scoring
    from tiltyard.judge.verdicts.verdicts import (
        Combine,
        Judge,
        JudgingOptions,
        JudgingResult,
        JudgingStats,
        OnVerdict,
        PanelVerdicts,
        Verdicts,
        add_stats,
        judge,
        panel_name,
    )
    from tiltyard.judge.llm.asking import AskingParts

__all__ = [
    "CANARIES", "TEMPLATE_VERSION", "AskingParts", "Bias", "BiasRow", "Canary", "CanaryScore", "Case", "Judge",
    "JudgeCheck", "JudgeSettings", "JudgingOptions", "JudgingPlan", "JudgingResult", "JudgingStats", "Judgment",
    "LabelledPair", "LanguageModelJudge", "Matchup", "MissedCanary", "PanelJudge", "PanelStudy", "Question",
    "RecordedJudge", "Rubric", "Verdict", "VerdictCache", "VerdictLabel", "Verdicts", "bias_rows", "canary_cases",
    "canary_report", "check_judge", "compare_with_people", "default_rubric", "judge", "length_preference",
    "make_questions", "measure_bias", "read_labelled_pairs", "score_canaries", "settle", "study_panel", "to_battle",
]

__getattr__ = names_on_demand(__name__)
