"""The live arena: matchmaking lanes, the vote log and its store, boards, integrity. No pages.

`tiltyard.arena.store` needs the `[arena]` extra.
"""

from typing import TYPE_CHECKING

from tiltyard.faces import names_on_demand

if TYPE_CHECKING:
    from tiltyard.arena.rules import events
    from tiltyard.arena.intake import screening
    from tiltyard.arena import store
    from tiltyard.arena.rules.blindness import NOT_BLIND, is_blind, lost_blindness, public_prompts, shown_answers
    from tiltyard.arena.study.board import OFFICIAL_FROM, SHADOW_PHASE, BoardRow, LiveBoard, completeness, counted_votes
    from tiltyard.arena.rules.chain import salted_digest
    from tiltyard.arena.study.churn import Known, top_order
    from tiltyard.arena.writing.commands import (
        SAFE_ID,
        AppendEvents,
        Command,
        EnterVoter,
        ExplainVote,
        MatchupCommand,
        ProbeWriter,
        ReadState,
        Receipt,
        ReportAnswer,
        RevealNames,
        ServedMatchup,
        ServeMatchup,
        SkipMatchup,
        SubmitVote,
        UndoVote,
    )
    from tiltyard.arena.rules.events import AnyBody, Choice, PhaseChanged, PromptAdded, SettingsChanged
    from tiltyard.arena.intake.exporting import open_export
    from tiltyard.arena.intake.file_intake import FileIntake
    from tiltyard.arena.rules.heads import Head, HeadFile, kept_heads, new_key, parse_heads, read_named, trusted_keys
    from tiltyard.arena.intake.import_source import ImportFolder, models_in, opened_source, read_answers
    from tiltyard.arena.intake.importing import carry_out, in_parts, prepare_import
    from tiltyard.arena.study.integrity import AnswerFlag, flag_answers
    from tiltyard.arena.rules.kept import KEPT
    from tiltyard.arena.writing.limits import session_quotas
    from tiltyard.arena.study.model_detail import (
        RECENT,
        BothBadPiece,
        Heatmap,
        Leaning,
        Leanings,
        ModelDetail,
        Neighbour,
        RatingPath,
        RecentForm,
        Record,
        against,
        both_bad_trend,
        by_prompt,
        leanings,
        recent_form,
        results_by_prompt_and_opponent,
    )
    from tiltyard.arena.study.offline import BoardIntervals, OfflineBoard, OfflineRow, published_estimator, rate_options
    from tiltyard.arena.rules.policy import (
        MOST,
        PHASES,
        Act,
        BankRules,
        DefenceRules,
        EntryRules,
        Limits,
        Policy,
        TextsPublic,
        WaitingRules,
        limits_of,
        read_policy,
    )
    from tiltyard.arena.rules.public_rows import canonical
    from tiltyard.arena.study.publication import Badge, Publication, Rule
    from tiltyard.arena.rules.ratings import Effect, FirstEffects, PairVotes, effect_of, pair_votes
    from tiltyard.arena.rules.reasons import (
        CHANGES_PER_VOTE,
        COMMENT_MOST,
        BadReason,
        BallotRules,
        checked_comment,
        checked_tags,
    )
    from tiltyard.arena.study.rotation import OFTEN, BankExposure, bank_exposure, plan_rotation, prompt_exposures
    from tiltyard.arena.intake.screening import (
        Effects,
        ScreenedAnswers,
        Screening,
        copy_of,
        effects_of,
        hide_self_naming,
        screen,
    )
    from tiltyard.arena.writing.service import Arena
    from tiltyard.arena.rules.state import ArenaState, CastVote, VoteStanding
    from tiltyard.arena.rules.thread_health import ThreadHealth
    from tiltyard.arena.rules.units import DAY, HOUR, SECOND, clock
    from tiltyard.arena.study.verdict import MODEL_VOTES, BoardVerdict, Standing, board_verdict
    from tiltyard.arena.intake.vote_import import import_votes
    from tiltyard.arena.study.voters import expected_scores
    from tiltyard.arena.rules.votes import VoteColumns, VoteTable, battle_rows, vote_table
    from tiltyard.arena.rules.voting import (
        REVIEW_OVER,
        ChoiceDiffers,
        Gone,
        MatchupStatus,
        NothingLeft,
        NothingToRender,
        NotInvited,
        NotYours,
        NoVote,
        ReviewClosed,
        TooBusy,
        TooLate,
        TooMany,
        shows_names,
    )
    from tiltyard.arena.study.weekly import FailingModel, Note, ValidityReport, WeeklyReport, weekly_report
    from tiltyard.arena.rules.weights import ContestedModel, vote_weights
    from tiltyard.arena.audit.witness import Finding, KeptProof, Witness, WitnessHeader, check_witness, read_witness
    from tiltyard.arena.writing.writer import Load

__getattr__ = names_on_demand(__name__)
