"""The weights of an arena's votes: blocks, days and rules of the policy, on tables of votes."""

from __future__ import annotations

import numpy as np
import pytest

from tests.records import replace
from tiltyard.analysis.boards import BradleyTerry
from tiltyard.arena import DAY, DefenceRules, VoteTable, read_policy, vote_weights
from tiltyard.arena.rules.weights import are_weighed, blocks_to_swap, contested_models, weighed
from tiltyard.data.battles import Outcome
from tiltyard.errors import OptionError

RULES = DefenceRules()
ON_A_DAY = 20_000 * DAY
"""Midnight, in 2024; day 20,000 is in the middle of its 7 and 30 days."""


def table(n: int = 600, models: int = 6, blocks: int = 60, days: int = 20, seed: int = 0) -> VoteTable:
    """Even models, honest votes, some of them BOTH_BAD."""
    rng = np.random.default_rng(seed)
    a = rng.integers(0, models, n)
    return VoteTable(
        models=tuple(f"m{number}" for number in range(models)),
        prompts=("p",),
        at=np.sort(ON_A_DAY + rng.integers(0, days * DAY, n)),
        model_a=a,
        model_b=(a + rng.integers(1, models, n)) % models,
        prompt=np.zeros(n, dtype=np.int64),
        voter=np.arange(n),
        outcome=rng.choice(
            [Outcome.A.code, Outcome.B.code, Outcome.TIE.code, Outcome.BOTH_BAD.code], n, p=[0.4, 0.4, 0.1, 0.1]
        ).astype(np.int8),
        block=rng.integers(0, blocks, n),
    )


def pushed(votes: VoteTable, rows: slice, block: int, at: int | None = None) -> VoteTable:
    """These votes become wins of model 0, from one block."""
    size = len(votes.at[rows])
    changed = {
        "model_a": np.zeros(size, dtype=np.int64),
        "model_b": 1 + np.arange(size) % (len(votes.models) - 1),
        "outcome": np.full(size, Outcome.A.code, dtype=np.int8),
        "block": np.full(size, block),
    }
    if at is not None:
        changed["at"] = np.full(size, at)
    columns = {}
    for name, values in changed.items():
        columns[name] = getattr(votes, name).copy()
        columns[name][rows] = values
    return replace(votes, **columns)


def test_votes_without_blocks_or_with_the_defences_off_count_whole() -> None:
    unknown = replace(table(), block=np.full(600, -1))
    assert not are_weighed(unknown, RULES)
    assert (vote_weights(unknown, RULES) == 1.0).all()
    attacked = pushed(table(), slice(100, 200), 999)
    assert (vote_weights(attacked, DefenceRules(on=False)) == 1.0).all()
    assert (vote_weights(attacked, RULES)[100:200] < 0.5).all()


def test_a_block_is_bounded_over_all_its_days_and_one_day_over_all_its_blocks() -> None:
    one_block = vote_weights(pushed(table(), slice(0, 600, 4), 999), RULES)
    assert one_block[::4].mean() < 0.2
    alone = replace(pushed(table(), slice(100, 200), 999), block=np.arange(600))
    assert vote_weights(alone, RULES)[100:200].mean() > 0.2
    one_day = pushed(alone, slice(100, 200), 0, at=ON_A_DAY + 5 * DAY)
    one_day = replace(one_day, block=np.arange(600))
    assert vote_weights(one_day, RULES)[100:200].mean() < 0.2


def test_a_day_begins_at_midnight_utc() -> None:
    """Forty wins in one hour weigh more when midnight divides them, as the day's limit applies twice."""
    votes = replace(pushed(table(), slice(100, 140), 0), block=np.arange(600))
    rules = DefenceRules(block_pull=100.0)
    within, across = votes.at.copy(), votes.at.copy()
    within[100:140] = ON_A_DAY + 5 * DAY + np.arange(40)
    across[100:140] = ON_A_DAY + 5 * DAY + np.arange(-20, 20)
    inside, divided = (vote_weights(replace(votes, at=at), rules)[100:140].mean() for at in (within, across))
    assert divided > 1.2 * inside


def test_both_bad_votes_and_votes_that_are_as_expected_keep_their_weight() -> None:
    votes = pushed(table(), slice(100, 200), 999)
    weight = vote_weights(votes, RULES)
    assert (weight[~votes.rated] == 1.0).all()
    balanced = votes.outcome.copy()
    balanced[100:200:2] = Outcome.B.code
    assert vote_weights(replace(votes, outcome=balanced), RULES)[100:200].mean() > 0.9


def test_models_without_a_vote_and_names_change_no_bit() -> None:
    votes = pushed(table(), slice(100, 200), 999)
    more = replace(votes, models=(*(f"x{number}" for number in range(40)),))
    assert np.array_equal(vote_weights(votes, RULES), vote_weights(more, RULES))


def test_an_old_policy_has_the_defences_and_a_cap_of_zero_is_refused() -> None:
    assert read_policy({}).defences == DefenceRules()
    with pytest.raises(OptionError, match=r"defences\.block_pull is 0"):
        read_policy({"defences": {"block_pull": 0}})


def test_a_contested_model_is_named_with_its_clearest_span_and_the_alarm_can_be_switched_off() -> None:
    votes = table(3000, blocks=600)
    until = int(votes.at[-1])
    assert contested_models(votes, RULES, until) == ()
    week = slice(int(np.searchsorted(votes.at, until - 6 * DAY)), 3000, 5)
    attacked = pushed(votes, week, 999)
    (found,) = contested_models(attacked, RULES, until)
    assert (found.model, found.days) == ("m0", 7)
    assert found.z > 4.0
    assert found.sentence.startswith(f"{found.votes} votes of the last 7 days favour it more than earlier ones")
    assert contested_models(attacked, DefenceRules(alarm_z=0.0), until) == ()
    assert contested_models(attacked, DefenceRules(on=False), until) == ()


def test_that_many_blocks_at_their_limit_swap_two_neighbours_and_a_third_of_them_do_not() -> None:
    """Model 0 wins 55 % of its votes; blocks of ten votes each for the weakest, one a day, lift it level."""
    votes = table(3000, models=4, blocks=600, days=90)
    lead = (votes.model_a == 0) & (np.arange(3000) % 10 == 0) & votes.rated
    votes = replace(votes, outcome=np.where(lead, Outcome.A.code, votes.outcome).astype(np.int8))
    rules = DefenceRules(time_pull=1e6)
    order = bradley_terry_order(weighed(votes, rules))
    (first, *rest) = blocks_to_swap(weighed(votes, rules), order, rules)
    assert first is not None
    assert first > 3
    assert all(number is not None and number >= 1 for number in rest)
    below = votes.models.index(order[1])
    assert bradley_terry_order(weighed(with_blocks(votes, below, int(1.6 * first)), rules))[0] == order[1]
    assert bradley_terry_order(weighed(with_blocks(votes, below, first // 3), rules))[0] == order[0]
    assert blocks_to_swap(votes, order, DefenceRules(on=False)) == (None, None, None)


def bradley_terry_order(votes: VoteTable) -> list[str]:
    return [entry.model for entry in BradleyTerry(ci="none").fit(votes.battles())]


def with_blocks(votes: VoteTable, model: int, blocks: int) -> VoteTable:
    """The votes, and ten wins of a model over the others from each of some new blocks."""
    n = 10 * blocks
    others = np.array([other for other in range(len(votes.models)) if other != model])
    more = {
        "at": np.full(n, votes.at[-1]),
        "model_a": np.full(n, model),
        "model_b": others[np.arange(n) % len(others)],
        "prompt": np.zeros(n, dtype=np.int64),
        "voter": 10_000 + np.arange(n),
        "outcome": np.full(n, Outcome.A.code, dtype=np.int8),
        "block": 10_000 + np.arange(n) // 10,
    }
    return replace(
        votes,
        **{name: np.concatenate([getattr(votes, name), values]) for name, values in more.items()},
        weight=np.zeros(0),
    )
