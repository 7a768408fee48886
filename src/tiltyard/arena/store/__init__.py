"""The storage of an arena: its log, its matchups, and what must be deletable. Only this package uses a database."""

from typing import TYPE_CHECKING

from tiltyard.faces import names_on_demand

if TYPE_CHECKING:
    from tiltyard.arena.store import site_texts
    from tiltyard.arena.store.checkpoints import load_state, load_votes
    from tiltyard.arena.store.database import checked_url, without_secrets
    from tiltyard.arena.store.desk import (
        Answered, ReportedAnswer, answers_by_id, comments_on, latest_comments, model_reasons, own_explanation,
        reported_answers, settle_reports, tags_by_matchup,
    )
    from tiltyard.arena.store.erasing import erase
    from tiltyard.arena.store.files import PART_BYTES, StoredFile, files_of, read_part, shown_file
    from tiltyard.arena.store.forgetting import (
        Deleted, delete_comment, forget_cookie, forget_everybody, forget_invitation, forget_networks, forget_voters,
        kept_about, open_store, tidy,
    )
    from tiltyard.arena.store.invitations import (
        all_invitations, check_invitation, erase_person, hashed, invite_person, make_invitations, revoke_invitations,
        revoke_person,
    )
    from tiltyard.arena.store.matchups import (
        ShownMatchup, final_votes, has_voted, open_matchup, shown_matchup, voted_matchups,
    )
    from tiltyard.arena.store.outside import OLD_SECRET_DAYS, Outside
    from tiltyard.arena.store.public_log import NewHead, PublishedHead, head_history, public_head, record_head
    from tiltyard.arena.store.reading import (
        Backlog, KindCounts, LoggedEvent, backlog, events_ahead, events_in_order, latest_blocks, latest_decision,
        latest_events, latest_reasons, model_titles, prompt_texts, retired_prompts, server_time, text_answers,
    )
    from tiltyard.arena.store.store import Store
    from tiltyard.arena.store.visitors import Quota, QuotaCounter, end_session, is_ended
    from tiltyard.arena.store.weeks import (
        KeptWeek, Week, WeekTexts, keep_week, kept_weeks, week_texts, weeks_with_votes,
    )

__getattr__ = names_on_demand(__name__)
