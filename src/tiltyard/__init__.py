"""Which model is better, and how sure are we: ratings from pairwise battles.

>>> import tiltyard as ty
>>> board = ty.rate("battles.jsonl")  # doctest: +SKIP
>>> print(board)  # doctest: +SKIP

Names are imported when they are first used, so that `import tiltyard` costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tiltyard.battles import Battle as Battle
    from tiltyard.battles import BattleTable as BattleTable
    from tiltyard.battles import Outcome as Outcome
    from tiltyard.battles import Source as Source
    from tiltyard.battles import battles_to_frame as battles_to_frame
    from tiltyard.battles import read_battles as read_battles
    from tiltyard.battles import write_battles as write_battles
    from tiltyard.boards import BoardComparison as BoardComparison
    from tiltyard.boards import BoardsByValue as BoardsByValue
    from tiltyard.boards import BradleyTerry as BradleyTerry
    from tiltyard.boards import Elo as Elo
    from tiltyard.boards import EloReport as EloReport
    from tiltyard.boards import Glicko2 as Glicko2
    from tiltyard.boards import Leaderboard as Leaderboard
    from tiltyard.boards import PermutationElo as PermutationElo
    from tiltyard.boards import RatingEntry as RatingEntry
    from tiltyard.boards import RatingsFile as RatingsFile
    from tiltyard.boards import WinRate as WinRate
    from tiltyard.decisions import Difference as Difference
    from tiltyard.decisions import GateResult as GateResult
    from tiltyard.decisions import RunComparison as RunComparison
    from tiltyard.decisions import SamplePlan as SamplePlan
    from tiltyard.decisions import ScoreBoard as ScoreBoard
    from tiltyard.errors import TiltyardError as TiltyardError
    from tiltyard.verbs.compare import compare as compare
    from tiltyard.verbs.gate import gate as gate
    from tiltyard.verbs.generate import generate as generate
    from tiltyard.verbs.init import init as init
    from tiltyard.verbs.judge_check import judge_check as judge_check
    from tiltyard.verbs.place import place as place
    from tiltyard.verbs.plan import plan as plan
    from tiltyard.verbs.publish import publish as publish
    from tiltyard.verbs.rate import rate as rate
    from tiltyard.verbs.rate import rate_by as rate_by
    from tiltyard.verbs.rejudge import rejudge as rejudge
    from tiltyard.verbs.report import report as report
    from tiltyard.verbs.run import run as run
    from tiltyard.verbs.verify import verify as verify

__version__ = "1.0.0.dev0"

_VERBS = "compare gate generate init judge_check place plan publish rate rejudge report run verify"
_HOMES = {
    "tiltyard.battles": "Battle BattleTable Outcome Source battles_to_frame read_battles write_battles",
    "tiltyard.boards": "BoardComparison BoardsByValue BradleyTerry Elo EloReport Glicko2 Leaderboard PermutationElo "
    "RatingEntry RatingsFile WinRate",
    "tiltyard.decisions": "Difference GateResult RunComparison SamplePlan ScoreBoard",
    "tiltyard.errors": "TiltyardError",
    **{f"tiltyard.verbs.{verb}": verb for verb in _VERBS.split()},
    "tiltyard.verbs.rate": "rate rate_by",
}
_HOME = {name: home for home, names in _HOMES.items() for name in names.split()}
__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used."""
    if name not in _HOME:
        raise AttributeError(f"module 'tiltyard' has no attribute {name!r}")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
