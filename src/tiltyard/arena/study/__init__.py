"""What follows from all votes: boards, badges, flags, weekly reports, and the read model whose snapshots pages show."""

from typing import TYPE_CHECKING

from tiltyard.faces import names_on_demand

if TYPE_CHECKING:
    from tiltyard.arena.study.observatory import Observatory, Pace
    from tiltyard.arena.study.parts import History, PartBoard, ThenRow, VotePart, day_end, day_of, history
    from tiltyard.arena.study.replay import Movement, period_of_log, study_of
    from tiltyard.arena.study.snapshots import ModelFacts, Snapshot, Study

__getattr__ = names_on_demand(__name__)
