"""The live arena: matchmaking lanes, the vote log and its store, boards, integrity. No pages.

`tiltyard.arena.store` needs the `[arena]` extra.
"""

from typing import TYPE_CHECKING

from tiltyard.faces import names_on_demand

if TYPE_CHECKING:
    from tiltyard.arena import events, screening, store
    from tiltyard.arena.blindness import NOT_BLIND, is_blind, lost_blindness, public_prompts, shown_answers
    from tiltyard.arena.board import OFFICIAL_FROM, SHADOW_PHASE, BoardRow, LiveBoard, completeness, counted_votes
    from tiltyard.arena.chain import salted_digest
    from tiltyard.arena.churn import Known, top_order
    from tiltyard.arena.commands import (
        SAFE_ID, AppendEvents, Command, EnterVoter, ExplainVote, MatchupCommand, ProbeWriter, ReadState, Receipt,
        ReportAnswer, RevealNames, ServedMatchup, ServeMatchup, SkipMatchup, SubmitVote, UndoVote,
    )
    from tiltyard.arena.events import AnyBody, Choice, PhaseChanged, PromptAdded, SettingsChanged
    from tiltyard.arena.exporting import open_export
    from tiltyard.arena.file_intake import FileIntake
    from tiltyard.arena.heads import Head, HeadFile, kept_heads, new_key, parse_heads, read_named, trusted_keys
    from tiltyard.arena.import_source import ImportFolder, models_in, opened_source, read_answers
    from tiltyard.arena.importing import carry_out, in_parts, prepare_import
    from tiltyard.arena.integrity import AnswerFlag, flag_answers
    from tiltyard.arena.kept import KEPT
    from tiltyard.arena.limits import session_quotas
    from tiltyard.arena.model_detail import (
        RECENT, BothBadPiece, Heatmap, Leaning, Leanings, ModelDetail, Neighbour, RatingPath, RecentForm, Record,
        against, both_bad_trend, by_prompt, leanings, recent_form, results_by_prompt_and_opponent,
    )
    from tiltyard.arena.offline import BoardIntervals, OfflineBoard, OfflineRow, published_estimator, rate_options
    from tiltyard.arena.policy import (
        MOST, PHASES, Act, BankRules, DefenceRules, EntryRules, Limits, Policy, TextsPublic, WaitingRules, limits_of,
        read_policy,
    )
    from tiltyard.arena.public_rows import canonical
    from tiltyard.arena.publication import Badge, Publication, Rule
    from tiltyard.arena.ratings import Effect, FirstEffects, PairVotes, effect_of, pair_votes
    from tiltyard.arena.reasons import (
        CHANGES_PER_VOTE, COMMENT_MOST, BadReason, BallotRules, checked_comment, checked_tags,
    )
    from tiltyard.arena.rotation import OFTEN, BankExposure, bank_exposure, plan_rotation, prompt_exposures
    from tiltyard.arena.screening import (
        Effects, ScreenedAnswers, Screening, copy_of, effects_of, hide_self_naming, screen,
    )
    from tiltyard.arena.service import Arena
    from tiltyard.arena.state import ArenaState, CastVote, VoteStanding
    from tiltyard.arena.thread_health import ThreadHealth
    from tiltyard.arena.units import DAY, HOUR, SECOND, clock
    from tiltyard.arena.verdict import MODEL_VOTES, BoardVerdict, Standing, board_verdict
    from tiltyard.arena.vote_import import import_votes
    from tiltyard.arena.voters import expected_scores
    from tiltyard.arena.votes import VoteColumns, VoteTable, battle_rows, vote_table
    from tiltyard.arena.voting import (
        REVIEW_OVER, ChoiceDiffers, Gone, MatchupStatus, NothingLeft, NothingToRender, NotInvited, NotYours, NoVote,
        ReviewClosed, TooBusy, TooLate, TooMany, shows_names,
    )
    from tiltyard.arena.weekly import FailingModel, Note, ValidityReport, WeeklyReport, weekly_report
    from tiltyard.arena.weights import ContestedModel, vote_weights
    from tiltyard.arena.witness import Finding, KeptProof, Witness, WitnessHeader, check_witness, read_witness
    from tiltyard.arena.writer import Load

__getattr__ = names_on_demand(__name__)
