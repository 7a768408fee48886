"""Placing one model among human battles: choose whom to meet, judge, rate together, and keep everything."""

from typing import TYPE_CHECKING

from tiltyard.faces import names_on_demand

if TYPE_CHECKING:
    from tiltyard.judge.placement import folder
    from tiltyard.judge.placement.answers import make_answers, make_judge, name_of
    from tiltyard.judge.placement.folder import (
        FolderRatings,
        PlacementManifest,
        PlacementText,
        rate_folder,
        read_recipe,
    )
    from tiltyard.judge.placement.plan import make_plan, with_judge
    from tiltyard.judge.placement.rounds import CalibrationLine, Participants, RoundResult
    from tiltyard.judge.placement.run import (
        PlacementResult,
        likely_exchanges,
        likely_judging_plan,
        run_folder,
        run_placement,
    )
    from tiltyard.judge.placement.sampling import Panel

__getattr__ = names_on_demand(__name__)
