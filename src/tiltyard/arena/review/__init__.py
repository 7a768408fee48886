"""A team's own verdicts on pairs of answers: which items, who reviews what, labels, agreement, what they change.

A review is an arena whose log says so (`ReviewSet`): every item is a prompt with two answers, and reviewers are voters.
"""

from typing import TYPE_CHECKING

from tiltyard.faces import names_on_demand

if TYPE_CHECKING:
    from tiltyard.arena.review.assignment import ReviewChooser
    from tiltyard.arena.review.desk import (
        Review,
        change_people,
        close_review,
        erase_names,
        open_review,
        served_at,
        start_review,
    )
    from tiltyard.arena.review.labels import median_seconds
    from tiltyard.arena.review.results import (
        MORE_LABELS,
        Boards,
        ReviewResult,
        agreement_sentence,
        battle_rows,
        boards_of,
        close_if_settled,
        conclusion,
        export,
        look,
        number,
        panel_words,
        percent,
        preference_rows,
        remarks,
        status_values,
    )
    from tiltyard.arena.review import sources
    from tiltyard.arena.review.sources import Candidate, ReviewSource, read_source

__getattr__ = names_on_demand(__name__)
