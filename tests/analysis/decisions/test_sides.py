"""The first side's advantage is no part of a difference: fitted where sides are uneven, or nobody may decide."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from tests import within
from tests.records import replace
from tests.sizes import size

import tiltyard as ty
from tiltyard.analysis.boards import BradleyTerry, rate, settle_sides, with_sides
from tiltyard.analysis.decisions import compare_in, plan_from_battles, plan_top
from tiltyard.data.battles import BattleTable, Codes, concat, merge_equal, read_battles, write_battles
from tiltyard.stats import POINTS_PER_LOGIT

ESTIMATOR = BradleyTerry(misfit=False, cluster="none")
SIDE = 0.3


def votes(
    rng: np.random.Generator,
    n: int = 300,
    *,
    first: float,
    gap: float = 0.0,
    side: float = SIDE,
    people: bool = True,
    recorded: bool = True,
) -> BattleTable:
    """Votes between `new` and `old`, `new` on side A in the part `first` of them; side A is worth `side` logits.

    With `recorded`, the votes say that the answer on side A was shown first.
    """
    on_a = rng.random(n) < first
    wins_a = rng.random(n) < 1.0 / (1.0 + np.exp(-np.where(on_a, gap, -gap) - side))
    outcome = np.where(rng.random(n) < 0.15, 2, np.where(wins_a, 0, 1))
    return BattleTable(
        models=("new", "old"),
        model_a=np.where(on_a, 0, 1).astype(np.int32),
        model_b=np.where(on_a, 1, 0).astype(np.int32),
        outcome=outcome.astype(np.int8),
        source=np.full(n, people, dtype=np.int8),
        weight=np.ones(n),
        columns={"one_order": np.ones(n)} if recorded and people else {},
    )


def decided(worlds: int, **world: float) -> Counter[str]:
    """How often each verdict comes out."""
    rng = np.random.default_rng(7)
    tables = [votes(rng, first=world["first"], gap=world.get("gap", 0.0)) for _ in range(worlds)]
    return Counter(compare_in(table, "new", "old", ESTIMATOR, by=()).gate(margin=0.0).verdict for table in tables)


@pytest.mark.parametrize("first", [0.5, 0.65, 0.8, 0.95, 1.0])
def test_equal_models_are_better_or_worse_in_one_of_twenty_gates_whoever_was_shown_first(first):
    worlds = size(40, soak=1000)
    verdicts = decided(worlds, first=first)
    allowed = 0.05 + 3.0 * np.sqrt(0.05 * 0.95 / worlds)  # without the side, 52 % at 0.8 and 78 % at 1
    assert (verdicts["better"] + verdicts["worse"]) / worlds <= allowed
    if first == 1.0:
        assert verdicts["unknown"] == worlds


def test_sides_that_are_balanced_cost_no_power():
    worlds = size(25, soak=500)
    rng = np.random.default_rng(3)
    tables = [votes(rng, first=0.5, gap=0.4) for _ in range(worlds)]
    with_side, without = (
        sum(compare_in(table, "new", "old", one, by=()).gate(margin=0.0).verdict == "better" for table in tables)
        for one in (ESTIMATOR, BradleyTerry(misfit=False, slot=False, cluster="none"))
    )
    assert with_side >= without - 0.08 * worlds
    assert with_side >= 0.7 * worlds


def test_what_the_first_side_is_worth_is_said_and_left_out_of_the_difference():
    table = votes(np.random.default_rng(1), 20_000, first=0.8, gap=0.2)
    found = compare_in(table, "new", "old", ESTIMATOR)
    assert found.first_side == pytest.approx(SIDE * POINTS_PER_LOGIT, abs=10)
    assert found.difference == pytest.approx(0.2 * POINTS_PER_LOGIT, abs=12)
    assert "the first side wins 58 % of decided battles between equals; fitted, and not in the difference" in (
        found.remarks
    )
    assert found.to_dict()["first_side"] == found.first_side
    assert found.estimate.win_rate_low < found.estimate.win_rate < found.estimate.win_rate_high
    assert not any("ties" in remark for remark in found.remarks)  # the tie model stays


def test_battles_of_others_tell_what_a_side_is_worth_to_models_that_never_changed_theirs():
    rng = np.random.default_rng(5)
    fixed = votes(rng, 600, first=1.0)
    assert compare_in(fixed, "new", "old", ESTIMATOR).obstacles
    others = votes(rng, 3000, first=0.5)
    others = BattleTable(("a", "old"), *(getattr(others, name) for name in ("model_a", "model_b", "outcome", "source")),
                         others.weight, columns=others.columns)  # fmt: skip
    found = compare_in(concat([fixed, others]), "new", "old", ESTIMATOR)
    assert found.obstacles == ()
    assert found.first_side == pytest.approx(SIDE * POINTS_PER_LOGIT, abs=30)


def test_a_handful_of_battles_on_the_other_side_tells_nothing_apart():
    table = votes(np.random.default_rng(2), 400, first=0.98)
    found = compare_in(table, "new", "old", ESTIMATOR)
    (obstacle,) = found.obstacles
    assert obstacle.startswith("new was shown first in 99 % of its battles, so its strength cannot be told from the")
    assert found.sentence.startswith("cannot tell new from old: new was shown first in 99 %")


def test_a_side_whose_advantage_runs_away_decides_nothing():
    table = votes(np.random.default_rng(0), first=0.8)
    outcome = np.zeros(len(table), dtype=np.int8)
    outcome[np.flatnonzero(table.model_a == 0)[0]] = 1  # side A wins all but one battle, where the new one sits there
    found = compare_in(replace(table, outcome=outcome), "new", "old", ESTIMATOR)
    assert found.gate().verdict == "unknown"
    assert "cannot be told from the side's advantage" in found.obstacles[0]
    assert abs(found.difference) < 400


def test_merged_battles_have_the_same_difference_as_single_ones():
    table = votes(np.random.default_rng(13), first=0.8)
    one, other = (compare_in(rows, "new", "old", ESTIMATOR) for rows in (table, merge_equal(table)))
    assert (one.first_side, one.low) == pytest.approx((other.first_side, other.low))


def test_who_says_that_the_order_in_a_row_means_nothing_gets_the_plain_difference(tmp_path: Path):
    write_battles(tmp_path / "votes.jsonl", votes(np.random.default_rng(0), 200, first=1.0, gap=1.0))
    done = within.run(tmp_path, "gate", "new", "old", "--in", "votes.jsonl", "--no-slot", "--cluster", "none")
    assert done.returncode == 0
    assert done.stdout.startswith("pass: new is better than old")


def test_rows_whose_winner_is_written_first_have_no_side(tmp_path: Path):
    rng = np.random.default_rng(4)
    rows = [{"winner": "new", "loser": "old"} if rng.random() < 0.7 else {"winner": "old", "loser": "new"}
            for _ in range(200)]  # fmt: skip
    table = read_battles(rows)
    assert not with_sides(table).any()
    assert ty.compare("new", "old", battles=rows, cluster="none").gate().verdict == "better"
    write_battles(tmp_path / "converted.jsonl", table)
    again = read_battles(tmp_path / "converted.jsonl")
    assert json.loads((tmp_path / "converted.jsonl").read_text().splitlines()[0])["winner_first"] is True
    assert not with_sides(again).any()
    bare = BattleTable(**{name: getattr(table, name) for name in ("models", "model_a", "model_b", "outcome", "source",
                                                                  "weight")})  # fmt: skip
    assert not with_sides(bare).any()  # side A always wins, whoever sits there
    alone = bare.take(bare.model_a == 0)
    assert with_sides(alone).all()  # nothing says that: the winner may always have been shown first
    assert (
        compare_in(alone, "new", "old", ESTIMATOR).gate().verdict == "better"
    )  # where a file does not say that it was
    said = replace(alone, columns={"one_order": np.ones(len(alone))})
    assert compare_in(said, "new", "old", ESTIMATOR).gate().verdict == "unknown"


def test_judgments_of_both_orders_have_no_side_and_those_of_one_order_have():
    table = votes(np.random.default_rng(6), first=1.0, people=False)
    assert compare_in(table, "new", "old", ESTIMATOR).obstacles == ()
    once = BattleTable(
        **{name: getattr(table, name) for name in ("models", "model_a", "model_b", "outcome", "source", "weight")},
        columns={"one_order": np.ones(len(table))},
    )
    assert "cannot be told from the side's advantage" in compare_in(once, "new", "old", ESTIMATOR).obstacles[0]


def test_a_mixture_gets_no_side_and_no_verdict_where_its_votes_are_uneven():
    rng = np.random.default_rng(8)
    judged, even, uneven = (
        votes(rng, first=first, people=people) for first, people in ((0.5, False), (0.5, True), (0.9, True))
    )
    found = compare_in(concat([judged, even]), "new", "old", ESTIMATOR)
    assert found.first_side is None
    assert found.obstacles == ()
    found = compare_in(concat([judged, uneven]), "new", "old", ESTIMATOR)
    assert found.first_side is None
    assert "that have sides, and others have none" in found.obstacles[0]
    assert compare_in(concat([judged, uneven]), "new", "old",
                      BradleyTerry(misfit=False, slot=False, cluster="none")).obstacles == ()  # fmt: skip


def test_a_part_whose_sides_tell_nothing_is_not_judged():
    rng = np.random.default_rng(9)
    table = concat([votes(rng, first=0.5, gap=1.0), votes(rng, first=1.0, gap=1.0)])
    topics = Codes(np.repeat(np.arange(2, dtype=np.int32), 300), ("chat", "code"))
    table = BattleTable(table.models, table.model_a, table.model_b, table.outcome, table.source, table.weight,
                        columns={**table.columns, "category": topics})  # fmt: skip
    gate = compare_in(table, "new", "old", ESTIMATOR).gate(by="category")
    assert {part.value: part.verdict for part in gate.parts} == {"chat": "better", "code": "unknown"}


def test_runs_in_which_an_entrant_changed_sides_are_compared_without_the_side():
    rng = np.random.default_rng(10)

    def run(first: float) -> BattleTable:
        return votes(rng, 4000, first=first)

    steady = ty.compare(run(0.9), run(0.9), unchanged=["old"], cluster="none")["new"]
    assert steady.obstacles == ()
    assert not any("first side" in remark for remark in steady.remarks)
    moved = ty.compare(run(0.9), run(0.1), unchanged=["old"], cluster="none")["new"]
    assert any("the first side wins 5" in remark for remark in moved.remarks)
    assert moved.gate(margin=0.0).verdict == "unknown"
    stuck = ty.compare(run(1.0), run(0.0), unchanged=["old"], cluster="none")["new"]
    assert stuck.obstacles[0].startswith("new was shown first in 100 % of its battles now and in 0 % then")


def test_a_board_notes_uneven_sides_and_keeps_its_ratings():
    board = rate(votes(np.random.default_rng(11), 200, first=1.0))
    assert "fit: nothing to check" not in board.remarks
    assert any(remark.startswith("sides: new was shown first in 100 % of its battles") for remark in board.remarks), (
        board.remarks
    )
    even = rate(votes(np.random.default_rng(12), 2000, first=0.5, side=0.0))
    assert not any("shown first" in remark for remark in even.remarks)


def test_the_gate_says_on_the_command_line_that_a_side_hides_the_model(tmp_path: Path):
    write_battles(tmp_path / "votes.jsonl", votes(np.random.default_rng(0), 200, first=1.0, gap=0.5))
    done = within.run(tmp_path, "gate", "new", "old", "--in", "votes.jsonl", "--cluster", "none")
    assert done.returncode == 3
    assert done.stdout.splitlines()[0].startswith(
        "cannot tell: new was shown first in 100 % of its battles, so its strength cannot be told from the side's "
        "advantage (battles that show it on the other side would tell; pass --no-slot if the order in a row does not "
        "say who was shown first); here new is at +"
    )


def labelled(n: int = 300, seed: int = 1) -> list[dict[str, str]]:
    """Rows of a plain file whose new model, 0.6 logits ahead, is always `model_a`; 60 prompts, 30 voters."""
    rng = np.random.default_rng(seed)
    return [{"model_a": "new", "model_b": "old", "winner": "model_a" if rng.random() < 0.65 else "model_b",
             "question_id": f"q{i % 60}", "voter": f"u{i % 30}"} for i in range(n)]  # fmt: skip


NOTE = "columns A and B are taken for labels"


def test_columns_that_say_nothing_of_sides_are_labels_at_every_door():
    rows = labelled()
    board, found = rate(rows), ty.compare("new", "old", battles=rows)
    plan, top = plan_from_battles(rows, "new", "old"), plan_top(rows, 1)
    for remarks in (board.remarks, found.remarks, plan.remarks, top.remarks):
        (note,) = [remark for remark in remarks if remark.startswith(NOTE)]
        assert "set the option slot" in note
        assert not any(" was shown first in" in remark for remark in remarks)
    assert found.obstacles == plan.pilot.obstacles == ()
    assert found.gate().verdict == "better"
    assert top.pairs[0].apart_now
    assert found.difference == pytest.approx(ty.compare("new", "old", battles=rows, slot=False).difference)


def test_sides_that_a_file_records_hide_a_model_that_always_has_the_first_one_at_every_door():
    for rows, options in (([{**row, "one_order": True, "source": "human"} for row in labelled()], {}),
                          (labelled(), {"slot": True})):  # fmt: skip
        found, plan, top = (
            ty.compare("new", "old", battles=rows, **options),
            plan_from_battles(rows, "new", "old", **options),
            plan_top(rows, 1, **options),
        )
        assert found.gate().verdict == "unknown"
        assert found.probability_better is None
        assert found.direct.estimate.probability_better is None
        assert "unknown" in str(found).splitlines()[4]
        assert plan.sentence.startswith("new against old is +")
        assert "on which no gate would decide" in plan.sentence
        assert "told apart already" not in plan.sentence
        assert not top.pairs[0].apart_now
        assert top.sentence.startswith("the leader of 2 models does not separate: new was shown first in 100 %")
        for clause in (*found.obstacles, *plan.pilot.obstacles, *top.pairs[0].obstacles):
            assert clause.endswith("pass --no-slot if the order in a row does not say who was shown first)")
    said = [{**row, "one_order": True, "source": "human"} for row in labelled()]
    (note,) = [one for one in rate(said).remarks if one.startswith("sides:")]
    assert note.endswith("only battles that show it on the other side would tell the two apart")
    assert ty.compare("new", "old", battles=said, slot=False).gate().verdict == "better"


def test_the_slot_is_advised_only_where_it_can_be_fitted():
    uneven = votes(np.random.default_rng(3), 600, first=0.8, side=0.0)
    (note,) = [one for one in rate(uneven).remarks if one.startswith("sides:")]
    assert note.endswith("the slot term (option slot) removes it")
    assert "slot" in str(rate(uneven, slot=True))
    rng = np.random.default_rng(4)
    mixed = concat([votes(rng, people=False, first=0.5), votes(rng, first=1.0)])
    (note,) = [one for one in rate(mixed).remarks if one.startswith("sides:")]
    assert note.endswith("no fit removes it, as other battles have no sides")


def test_a_plain_file_of_a_judge_says_that_its_columns_are_taken_for_labels():
    found = ty.compare("new", "old", battles=labelled(), default_source="llm-judge")
    (note,) = [one for one in found.remarks if one.startswith(NOTE)]
    assert note.endswith("a column one_order that is true says so")
    assert any(one.startswith(NOTE) for one in rate(labelled(), default_source="llm-judge").remarks)


def test_sides_of_a_coin_are_not_taken_for_labels_and_no_part_is_looked_at_anew():
    worlds, rng = 300, np.random.default_rng(8)
    few = [votes(rng, 9, first=0.5, recorded=False) for _ in range(worlds)]
    taken = sum(bool(settle_sides(table)[1]) for table in few)
    assert taken <= 6  # 9 rows of a coin are all alike in 1 of 256
    whole = concat([votes(rng, first=0.5, recorded=False), votes(rng, first=1.0, recorded=False)])
    topics = Codes(np.repeat(np.arange(2, dtype=np.int32), 300), ("chat", "code"))
    table = replace(whole, columns={"category": topics})
    parts = {part.value: part for part in compare_in(table, "new", "old", ESTIMATOR).parts}
    assert "cannot be told from the side's advantage" in parts["code"].reason  # the file's columns are no labels


def test_an_obstacle_of_sides_stands_before_the_few_voters_for_whom_an_interval_is():
    rows = [{**row, "voter": "u", "one_order": True, "source": "human"} for row in labelled()]
    found = ty.compare("new", "old", battles=rows)
    assert found.only_for is not None
    assert found.sentence.startswith("cannot tell new from old: new was shown first in 100 % of its battles")
    one = ty.compare("new", "old", battles=[{**row, "voter": "u"} for row in labelled()])
    assert one.sentence.startswith("for this one voter, new is better than old")
