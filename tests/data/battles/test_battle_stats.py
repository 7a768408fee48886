from __future__ import annotations

import pytest
from battle_rows import rows

from tiltyard.data.battles import Battle, Outcome, Source, battle_stats, read_battles


def battle(a: str, b: str, winner: Outcome, **more: object) -> Battle:
    return Battle(model_a=a, model_b=b, winner=winner, source=Source.HUMAN, **more)  # type: ignore[arg-type]


def test_everything_is_counted_by_weight() -> None:
    stats = battle_stats(read_battles(rows()))

    assert (stats.models, stats.rows, stats.battles) == (3, 4, 5)
    assert stats.sources == {"llm-judge": 3, "human": 2}
    assert stats.outcomes == {"model_a": 1, "model_b": 2, "tie": 1, "tie (bothbad)": 1}
    assert stats.decisive == 3
    assert stats.soft == 2
    assert stats.inconsistent == 1
    # otter: 1 + 2 + 1, heron: 1 + 1, crane: 1 + 2 + 1
    assert stats.battles_per_model == {"min": 2, "median": 4, "max": 4}
    assert (stats.pairs_met, stats.pairs_possible) == (3, 3)
    assert stats.prompts == 3
    assert stats.judges == ("judge-1",)
    assert stats.dimensions == ("factuality",)


def test_models_that_never_met_are_on_different_islands() -> None:
    table = read_battles([battle("a", "b", Outcome.A), battle("c", "d", Outcome.TIE), battle("d", "e", Outcome.B)])

    assert battle_stats(table).islands == (("c", "d", "e"), ("a", "b"))


def test_being_bad_together_is_no_meeting() -> None:
    table = read_battles([battle("a", "b", Outcome.A), battle("b", "c", Outcome.BOTH_BAD)])

    stats = battle_stats(table)

    assert stats.islands == (("a", "b"), ("c",))
    assert stats.pairs_met == 1


def test_who_never_won_and_who_never_lost_is_named() -> None:
    table = read_battles([battle("a", "b", Outcome.A), battle("c", "b", Outcome.TIE)])

    stats = battle_stats(table)

    assert stats.never_won == ("b", "c")
    assert stats.never_lost == ("a", "c")


def test_a_table_says_the_same_merged_or_not() -> None:
    whole = [battle("a", "b", Outcome.A, question_id="q1")] * 3 + [battle("b", "c", Outcome.B, question_id="q2")]

    plain, counted = (battle_stats(read_battles(whole, counted=counted)).to_dict() for counted in (False, True))

    assert (plain.pop("rows"), counted.pop("rows")) == (4, 2)
    assert plain == counted


def test_no_prompts_is_not_the_same_as_none_known() -> None:
    assert battle_stats(read_battles([battle("a", "b", Outcome.A)])).prompts is None


@pytest.mark.parametrize(("weight", "shown"), [(2.0, 2), (0.5, 0.5)])
def test_whole_counts_are_integers_in_json(weight: float, shown: float) -> None:
    value = battle_stats(read_battles([battle("a", "b", Outcome.A, weight=weight)])).to_dict()["battles"]

    assert (value, type(value)) == (shown, type(shown))
