"""Which model is better, and how sure are we: ratings from pairwise battles.

>>> import tiltyard as ty
>>> board = ty.rate("battles.jsonl")  # doctest: +SKIP
>>> print(board)  # doctest: +SKIP

Names are imported when they are first used, so that `import tiltyard` costs next to nothing.
"""

from typing import TYPE_CHECKING

from tiltyard.faces import names_on_demand

if TYPE_CHECKING:
    from tiltyard.data.battles import (
        Battle,
        BattleTable,
        Outcome,
        Source,
        battles_to_frame,
        read_battles,
        write_battles,
    )
    from tiltyard.analysis.boards import (
        BoardComparison,
        BoardsByValue,
        BradleyTerry,
        Elo,
        EloReport,
        Glicko2,
        Leaderboard,
        PermutationElo,
        RatingEntry,
        RatingsFile,
        WinRate,
    )
    from tiltyard.analysis.decisions import Difference, GateResult, RunComparison, SamplePlan, ScoreBoard
    from tiltyard.errors import TiltyardError
    from tiltyard.verbs.compare import compare
    from tiltyard.verbs.gate import gate
    from tiltyard.verbs.generate import generate
    from tiltyard.verbs.init import init
    from tiltyard.verbs.judge_check import judge_check
    from tiltyard.verbs.place import place
    from tiltyard.verbs.plan import plan
    from tiltyard.verbs.publish import publish
    from tiltyard.verbs.rate import rate, rate_by
    from tiltyard.verbs.rejudge import rejudge
    from tiltyard.verbs.runs import report
    from tiltyard.verbs.run import run
    from tiltyard.verbs.verify import verify

__version__ = "1.0.0.dev0"

__all__ = [
    "Battle", "BattleTable", "BoardComparison", "BoardsByValue", "BradleyTerry", "Difference", "Elo", "EloReport",
    "GateResult", "Glicko2", "Leaderboard", "Outcome", "PermutationElo", "RatingEntry", "RatingsFile",
    "RunComparison", "SamplePlan", "ScoreBoard", "Source", "TiltyardError", "WinRate", "battles_to_frame",
    "compare", "gate", "generate", "init", "judge_check", "place", "plan", "publish", "rate", "rate_by",
    "read_battles", "rejudge", "report", "run", "verify", "write_battles",
]

__getattr__ = names_on_demand(__name__)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
