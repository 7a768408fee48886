"""Coverage where battles share prompts and voters unequally: intervals, differences and ranks of default boards.

In each skewed world intervals that treat every battle as independent fail, so a test that passes says something.
"""

from __future__ import annotations

import pytest

from oracles.worlds import World, anchored_coverage, simulate
from tests.sizes import size

ZIPF = World("200 prompts by Zipf's law", battles=1500, prompts=200, prompt_zipf=1.5, interaction=1.5)
DOMINANT = World(
    "one voter casts 30 %", models=6, battles=1500, strength_range=0.0, prompts=200, voters=200, dominant=0.3
)
FEW_VOTERS = World("8 voters", models=6, battles=1500, prompts=100, voters=8)
BOTH = World("prompts and voters by Zipf's law", prompts=200, prompt_zipf=1.0, voters=300, voter_zipf=1.0, taste=0.5)
EQUAL = World("20 prompts, used equally", battles=1500, prompts=20, interaction=1.5)
NOTHING = World("no effects at all", models=6, battles=1000, prompts=50, voters=100, interaction=0.0, taste=0.0)

SKEWED = [ZIPF, DOMINANT, FEW_VOTERS]


@pytest.mark.parametrize("world", SKEWED, ids=lambda world: world.name)
def test_where_the_plain_rule_fails_the_default_covers(world):
    plain = simulate(world, 10, 3, cluster="none")
    found = simulate(world, size(12, soak=40), 3)
    # 12 runs: a coverage of 0.95 with dependent intervals has a standard error of at most 0.04.
    assert plain[0] < 0.85
    assert found[0] > 0.91
    assert found[2] >= 0.9


@pytest.mark.soak
@pytest.mark.parametrize("world", [*SKEWED, BOTH, EQUAL, NOTHING], ids=lambda world: world.name)
def test_intervals_differences_and_ranks_cover(world):
    intervals, differences, ranks, _ = simulate(world, 300, 5, with_differences=True)
    assert intervals > 0.93
    assert differences > 0.93
    assert ranks > 0.93
    if world in (BOTH, EQUAL, NOTHING):
        assert intervals < 0.985


def test_an_anchored_interval_is_that_of_the_difference():
    """The anchor is rare, so an interval around the mean would cover the printed difference much too seldom."""
    assert anchored_coverage(size(20, soak=60), 7) > 0.91
