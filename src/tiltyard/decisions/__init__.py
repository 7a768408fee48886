"""What follows from a board: the difference of two models or two runs, a gate over it, and how much more data it takes.

`contrast` is the arithmetic, `two_models` and `two_runs` the answers, `gate` the rule, `plan` the size of a sample,
and `words` how they read.
"""

from tiltyard.decisions.gate import GateResult
from tiltyard.decisions.plan import BoardPlan, CallPrice, SamplePlan, plan_difference, plan_from_battles, plan_top
from tiltyard.decisions.records import Difference
from tiltyard.decisions.sample_size import Assumptions, Goal
from tiltyard.decisions.two_models import difference
from tiltyard.decisions.two_runs import RunComparison, compare_runs

__all__ = [
    "Assumptions",
    "BoardPlan",
    "CallPrice",
    "Difference",
    "GateResult",
    "Goal",
    "RunComparison",
    "SamplePlan",
    "compare_runs",
    "difference",
    "plan_difference",
    "plan_from_battles",
    "plan_top",
]
