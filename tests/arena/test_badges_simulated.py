"""Badges and label over a run of the real engine, held against the truth; and what the summary of looks says."""

from __future__ import annotations

import numpy as np
import pytest

from tiltyard.arena import Policy, vote_table
from tiltyard.arena.simulation import SimulationSettings, simulate
from tiltyard.arena.simulation.ledger import MemoryArena
from tiltyard.arena.simulation.published import BadgeCheck, badge_summary
from tiltyard.arena.study import study_of
from tiltyard.arena.study.replay import ORDER_LOOKS, confidence_calibration, evidence_of, replay
from tiltyard.stats import rate_battles

SETTINGS = SimulationSettings(
    models=6, prompts=4, votes=1200, sd=600.0, seed=2, looks=4, curve_points=0, policy=Policy(window_matchups=240)
)


@pytest.fixture(scope="module")
def played() -> MemoryArena:
    arena = MemoryArena(SETTINGS.seed)
    badges = simulate(SETTINGS, arena).badges
    assert badges is not None
    assert badges.stable >= 2
    assert badges.label_first is not None
    assert badges.stable_off == 0
    assert badges.unmet == ()
    return arena


def test_clearly_different_models_become_stable_and_the_label_is_reached(played: MemoryArena) -> None:
    """The fixture asks for it. Here: evidence is what the votes say, counted by hand."""
    state = played.state
    votes = vote_table(played.votes(), state.catalog)
    names = [model.model for model in state.catalog.models]
    found = evidence_of(votes, None, replay(votes, state.policy), state.policy, state.phase, names)
    assert found.places == {}
    assert found.largest_voter == np.bincount(votes.voter).max() / len(votes)
    assert found.earlier is not None
    assert len(found.earlier) == ORDER_LOOKS
    assert all(sorted(places.values()) == list(range(1, 7)) for places in found.earlier)


@pytest.mark.parametrize("phase", [2, 4])
def test_earlier_places_are_those_of_the_order_that_was_shown_then(played: MemoryArena, phase: int) -> None:
    """The first look is a window back: the votes until then, rated by themselves, give the same order."""
    state = played.state
    votes = vote_table(played.votes(), state.catalog)
    names = [model.model for model in state.catalog.models]
    found = evidence_of(votes, None, replay(votes, state.policy), state.policy, phase, names)
    assert found.earlier is not None
    part = slice(0, len(votes) - 240)
    a, b, score = votes.model_a[part], votes.model_b[part], votes.score_a()[part]
    rated, elo = votes.rated[part], [1500.0] * 6
    now = rate_battles(a[rated], b[rated], score[rated], start=6, settings=state.policy.rating.glicko2())
    for one, other, won, counts in zip(a.tolist(), b.tolist(), score.tolist(), rated.tolist(), strict=True):
        for model, rival, result in ((one, elo[other], won), (other, elo[one], 1.0 - won)):
            against, got = (rival, result) if counts else (1500.0, 0.0)
            elo[model] += 16.0 * (got - 1.0 / (1.0 + 10.0 ** ((against - elo[model]) / 400.0)))
    shown = now.rating - 2.0 * now.deviation if phase == 4 else np.array(elo)
    order = [names[model] for model in np.argsort(-shown, kind="stable")]
    assert sorted(found.earlier[0], key=found.earlier[0].__getitem__) == order


def test_with_fewer_votes_than_the_window_earlier_places_are_not_known(played: MemoryArena) -> None:
    state = played.state
    votes = vote_table(list(played.votes())[:240], state.catalog)
    names = [model.model for model in state.catalog.models]
    assert evidence_of(votes, None, replay(votes, state.policy), state.policy, 4, names).earlier is None


def test_confidence_is_checked_on_every_earlier_rating_once(played: MemoryArena) -> None:
    state = played.state
    votes = vote_table(played.votes(), state.catalog)
    found, trouble = study_of(state, votes)
    assert trouble == ""
    assert sum(piece.ratings for piece in found.confidence) == 6 * 7
    assert all(piece.low <= piece.stated <= piece.high and piece.held <= piece.ratings for piece in found.confidence)
    assert confidence_calibration(replay(votes, state.policy), None, {"model-000"}) == ()


def test_the_summary_of_looks_says_when_the_label_came_and_whether_it_lasted() -> None:
    def look(*, stable: int, off: int = 0, label: bool = False) -> BadgeCheck:
        return BadgeCheck(stable, off, label, () if label else ("median range of ranks 4",))

    looks = [
        (100, look(stable=0)),
        (200, look(stable=1, label=True)),
        (300, look(stable=2, off=1)),
        (400, look(stable=3, label=True)),
    ]
    summary = badge_summary(looks)
    assert summary is not None
    assert (summary.first_stable, summary.stable_seen, summary.stable_off) == (200, 6, 1)
    assert (summary.label_first, summary.label_from, summary.label_looks) == (200, 400, 2)
    assert badge_summary([]) is None
