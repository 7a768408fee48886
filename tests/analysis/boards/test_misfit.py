"""Boards say when Bradley–Terry does not describe their battles, and say nothing of the kind when it does."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.records import replace

from oracles.misfits import MisfitWorld, notes
from oracles.simulation import arena_battles, results, table_of
from tiltyard.analysis.boards import BradleyTerry, MisfitFacts, fit_sentences, fit_verdict, misfit, rate, rating
from tiltyard.analysis.boards.misfit import (
    FALSE_ALARMS,
    SHARES,
    Drifter,
    DriftMisfit,
    OddPair,
    PairsMisfit,
    ScheduleMisfit,
    SlotMisfit,
    fit_lines,
    holm,
)
from tiltyard.data.battles import BattleTable, about_rows, find_parts, read_battles, write_battles
from tiltyard.stats import TIE_MODELS, Comparisons, Misfit, TieLaw, check_fit, count_pairs, fit_bounded
from tiltyard.stats import misfit as fit_checks
from tiltyard.stats.misfit import Drift, PairResiduals, ScheduleMoves, p_value, smallest_p

FITTING = {
    "independent": MisfitWorld(battles=2000),
    "prompts by Zipf": MisfitWorld(battles=3000, prompts=200, zipf=1.0, taste=1.5),
    "one voter casts 30 %": MisfitWorld(battles=3000, prompts=200, voters=300, zipf=1.0, dominant=0.3, taste=1.0),
}
FAILING = {
    "pairs": MisfitWorld(battles=5000, cycle=100.0, prompts=200, zipf=1.0),
    "ties": MisfitWorld(battles=5000, ties="constant", tie_parameter=0.25, spread=520.0),
    "drift": MisfitWorld(models=8, battles=6000, drift=150.0, step=True),
    "slot": MisfitWorld(battles=5000, slot=40.0, voters=200),
}


@pytest.mark.parametrize("world", FITTING.values(), ids=FITTING)
def test_a_board_that_fits_hardly_ever_gets_a_note(world: MisfitWorld) -> None:
    # At 5 % three or more of 8 runs have a chance below 1 %.
    assert notes(world, 8, seed=15)["any"] <= 2 / 8


@pytest.mark.parametrize("check", FAILING)
def test_misfit_is_noted_by_its_name(check: str) -> None:
    assert notes(FAILING[check], 3, seed=3)[check] >= 2 / 3


@pytest.mark.soak
@pytest.mark.parametrize("world", FITTING.values(), ids=FITTING)
def test_false_alarms_over_many_runs(world: MisfitWorld) -> None:
    assert notes(world, 400, seed=21)["any"] <= 0.05 + 2.0 * np.sqrt(0.05 * 0.95 / 400)


@pytest.mark.soak
@pytest.mark.parametrize("check", FAILING)
def test_power_over_many_runs(check: str) -> None:
    assert notes(FAILING[check], 100, seed=22)[check] >= 0.9


def test_holm_divides_the_false_alarms_and_passes_shares_on() -> None:
    least = FALSE_ALARMS * SHARES["slot"]
    assert holm({"pairs": 0.9, "ties": 0.9, "drift": 0.9, "slot": least * 1.01}) == set()
    assert holm({"pairs": 0.9, "ties": 0.9, "drift": 0.9, "slot": least * 0.99}) == {"slot"}
    # Once the others have failed, the last one has the whole 5 %.
    assert holm({"pairs": 0.001, "ties": 0.001, "drift": 0.001, "slot": 0.04}) == set(SHARES)
    assert holm({}) == set()


def test_the_p_value_of_several_statistics_is_the_rank_of_what_was_seen_among_all_draws() -> None:
    rng = np.random.default_rng(4)
    for _ in range(30):
        drawn = rng.normal(0.0, 1.0, (20, 3)).round(1)  # rounded: some draws are equal
        seen = rng.normal(0.5, 1.0, 3).round(1)
        everything = np.vstack([seen, drawn]) + 10.0
        rank = (everything[:, None] >= everything[None]).sum(axis=0)  # of each draw, among all, by each statistic
        best = rank.min(axis=1)
        assert smallest_p(list(everything[0]), list(everything[1:].T)) == pytest.approx((best <= best[0]).sum() / 21)
        assert smallest_p([everything[0, 0]], [everything[1:, 0]]) == p_value(everything[0, 0], everything[1:, 0])


@pytest.mark.parametrize(("world", "draws"), [(FITTING["independent"], 199), (FAILING["pairs"], 999)])
def test_pairs_are_drawn_a_few_times_and_again_only_where_that_leaves_a_doubt(world: MisfitWorld, draws: int) -> None:
    p = rate(world.draw(np.random.default_rng(5))).details.misfit.pairs.p
    assert (p * (draws + 1)) == pytest.approx(round(p * (draws + 1)))
    assert (p >= 0.105) is (draws == 199)


def test_the_line_stands_under_the_board_and_the_record_in_its_file() -> None:
    table = replace(MisfitWorld(drift=250.0, models=6, battles=4000).draw(np.random.default_rng(1)))
    board = rate(table)
    assert any(line.startswith("misfit, drift: m00 gained 2") for line in board.remarks)
    record = board.to_dict()["misfit"]
    assert record["checked"]
    assert record["notes"] == ["drift"]
    assert 180 < record["drift"]["models"][0]["points"] < 320
    assert "not the present strength" in fit_verdict(board.details.misfit)
    assert any(line.startswith("Drift (misfit): p 0.0") for line in fit_sentences(board.details.misfit))
    assert "misfit, drift: m00" in str(board)
    quiet = rate(table, misfit=False)
    assert not quiet.details.misfit
    assert not any("fit" in line for line in quiet.remarks)
    assert quiet.ratings == board.ratings


def test_a_board_that_fits_says_so_and_what_was_not_checked() -> None:
    rng = np.random.default_rng(2)
    a, b = arena_battles(np.zeros(5), 800, rng)
    board = BradleyTerry().fit(table_of(5, a, b, results(np.zeros(800), rng)))
    line = board.remarks[-1]
    assert line.startswith("fit: no sign of misfit (pairs p ")
    assert line.endswith("; not checked: drift")
    assert "drift: no timestamps" in board.details.misfit.not_checked
    assert "Drift: not checked, no timestamps." in fit_sentences(board.details.misfit)
    assert fit_verdict(board.details.misfit).startswith("No sign of misfit: ")


def reported(pairs: float, ties: float, drift: float, size: float) -> tuple[list[str], MisfitFacts]:
    """What is said of three checks with these p-values."""
    one = np.ones(1)
    residuals = PairResiduals(
        pairs, size, np.array([0]), np.array([1]), 900 * one, 0.55 * one, 0.54 * one, 0.01 * one, one
    )
    found = Misfit(
        pairs=residuals,
        schedule=ScheduleMoves(0.001, 0.001 * one, 4.0 * one),
        ties=TieLaw(ties, 0.1, 0.1, 0.05, 0.05),
        drift=Drift(drift, 0.01 * np.ones(2), 0.01 * np.ones(2), np.ones(2), 3.0),
    )
    return fit_lines(found, ["otter", "heron"], "davidson", {"slot": "the fit includes it"})


P_VALUES = st.sampled_from([0.001, 0.005, 0.009, 0.012, 0.03, 0.049, 0.05, 0.2, 0.9])


@given(P_VALUES, P_VALUES, P_VALUES, st.sampled_from([0.0, 0.01, 0.05]))
def test_no_sign_of_misfit_never_stands_beside_a_p_value_that_is_one(
    pairs: float, ties: float, drift: float, size: float
) -> None:
    lines, record = reported(pairs, ties, drift, size)
    verdict, sentences = fit_verdict(record), fit_sentences(record)
    shown = [float(p) for line in [*lines, *sentences] for p in re.findall(r"p ([0-9.]+[0-9])", line)]
    assert ("no sign of misfit" in lines[0]) == verdict.startswith("No sign of misfit") == (min(shown) >= 0.05)
    assert ("too small to matter" in lines[0]) == ("too small to matter" in verdict)
    for line in lines:
        if line.startswith("misfit, pairs"):
            assert f"p {pairs:.3f}" in line
            assert sentences[0].startswith(f"Pairs (misfit): p {pairs:.3f}")


def test_what_a_board_without_notes_says_follows_from_its_p_values() -> None:
    line = "fit: misfit too small to matter in pairs (pairs p 0.001, ties p 0.20, drift p 0.90); not checked: sides"
    assert reported(0.001, 0.2, 0.9, 0.01)[0] == [line]
    line = "fit: no clear misfit: of 3 checks, one may come out like this by chance (pairs p 0.009, ties p 0.20, "
    assert reported(0.009, 0.2, 0.9, 0.01)[0][0].startswith(line)
    line = "fit: no sign of misfit (pairs p 0.20, ties p 0.20, drift p 0.90); not checked: sides"
    assert reported(0.2, 0.2, 0.9, 0.05)[0] == [line]
    assert fit_verdict(MisfitFacts(checked=True, notes=[], not_checked=[])).startswith("Nothing to check")


def test_with_very_many_battles_a_certain_and_tiny_misfit_is_called_so() -> None:
    board = rate(MisfitWorld(battles=60_000, cycle=6.0).draw(np.random.default_rng(1)))
    assert board.details.misfit.too_small == ["pairs"]
    assert any(line.startswith("fit: misfit too small to matter in pairs (pairs p 0.0") for line in board.remarks)


def test_a_report_tells_the_figures_of_each_check_and_what_was_not_checked() -> None:
    first = OddPair("otter", "heron", battles=1200, share=0.71, expected=0.55, error=0.02, z=8.0)
    last = OddPair("crane", "otter", battles=30, share=0.4, expected=0.45, error=0.1, z=0.5)
    record = MisfitFacts(
        checked=True,
        notes=["pairs", "drift"],
        pairs=PairsMisfit(p=0.001, size=0.042, worst=[first, last]),
        schedule=ScheduleMisfit(p=0.2, model="otter", points=-12.4, z=-1.34),
        ties=TieLaw(p=0.5, close=0.1, close_expected=0.12, far=0.05, far_expected=0.06),
        drift=DriftMisfit(p=0.004, models=[Drifter("crane", points=55.0, error=14.0)]),
        not_checked=["slot: one side never wins: sides tell who won"],
    )
    assert fit_sentences(record) == [
        "Pairs (misfit): p 0.001, with the schedule; pairs deviate by 4.2 percentage points beyond chance. The most "
        "remarkable: otter scores 71 % against heron, expected 55 % (1,200 battles).",
        "Schedule: with every pair weighing the same, otter moves by -12 points (1.3 standard errors).",
        "Ties: p 0.500; 10.0 % ties among close models, expected 12.0 %; 5.0 % among others, expected 6.0 %.",
        "Drift (misfit): p 0.004; largest change from first battle to last, in points (± standard error): "
        "crane +55 ± 14.",
        "Sides: not checked, one side never wins: sides tell who won.",
    ]
    slot = MisfitFacts(checked=True, slot=SlotMisfit(p=0.03, points=8.2, ci_low=-0.5, ci_high=16.9))
    assert fit_sentences(slot) == ["Sides: p 0.030; being shown first is worth +8.2 points (-0.5 … +16.9)."]


def test_a_slot_term_in_the_fit_is_no_misfit_any_more() -> None:
    table = MisfitWorld(slot=60.0, battles=4000).draw(np.random.default_rng(3))
    assert "slot" in BradleyTerry().fit(table).details.misfit.notes
    record = BradleyTerry(slot=True).fit(table).details.misfit
    assert "slot: the fit includes it" in record.not_checked
    assert record.notes == []


def test_sides_that_only_say_who_won_are_not_checked() -> None:
    rng = np.random.default_rng(4)
    a, b = arena_battles(np.zeros(5), 300, rng)
    record = BradleyTerry().fit(table_of(5, a, b, np.zeros(300))).details.misfit
    assert not record.slot
    assert any(line.startswith("slot: one side never wins") for line in record.not_checked)


def odd_tables() -> dict[str, BattleTable]:
    rng = np.random.default_rng(5)
    a, b = arena_battles(np.zeros(4), 60, rng)
    plain = table_of(4, a, b, results(np.zeros(60), rng))
    two = table_of(2, [0, 1, 0, 1], [1, 0, 1, 0], [0, 0, 2, 1])
    return {
        "two models": two,
        "three models, each pair twice": table_of(3, [0, 1, 2, 0, 1, 2], [1, 2, 0, 1, 2, 0], [0, 0, 0, 1, 2, 0]),
        "an unbeaten model": table_of(3, [0, 0, 1, 2, 1, 2], [1, 2, 2, 1, 2, 1], [0, 0, 0, 0, 1, 2]),
        "no ties": replace(plain, outcome=(rng.random(60) < 0.5).astype(np.int8)),
        "soft outcomes": replace(plain, score_a=rng.random(60)),
        "weights": replace(plain, weight=rng.random(60) * 3.0),
        "counts": replace(plain, weight=rng.integers(1, 400, 60).astype(float)),
        "one time": replace(plain, columns={"timestamp": np.full(60, 1e9)}),
        "some times": replace(plain, columns={"timestamp": np.where(np.arange(60) < 9, np.nan, np.arange(60.0))}),
        "a chain of pairs": table_of(4, [0, 1, 2] * 8, [1, 2, 3] * 8, rng.integers(0, 3, 24)),
    }


@pytest.mark.parametrize("kind", odd_tables())
@pytest.mark.parametrize("ties", ["davidson", "rao-kupper", "half", "drop"])
def test_small_and_odd_battles_are_checked_or_the_reason_is_said(kind: str, ties: str) -> None:
    board = BradleyTerry(ties=ties, only_connected=True).fit(odd_tables()[kind])
    record = board.details.misfit
    assert sum(line.startswith(("fit", "misfit")) for line in board.remarks) >= 1
    if kind != "counts":  # as many battles as those are certain to differ
        assert record.notes == []
    board.to_json()


def test_counts_without_clusters_are_checked_like_the_battles_they_stand_for() -> None:
    rng = np.random.default_rng(6)
    strengths = np.linspace(-1.0, 1.0, 6)
    a, b = arena_battles(strengths, 20_000, rng)
    gap = strengths[a] - strengths[b] + 0.5 * np.sin(2.0 * np.pi / 3.0 * (a - b))
    table = table_of(6, a, b, results(gap, rng))
    key, count = np.unique(np.stack([table.model_a, table.model_b, table.outcome]), axis=1, return_counts=True)
    counts = replace(table_of(6, *key), weight=count.astype(float))
    one, other = (BradleyTerry(cluster="none").fit(kind).details.misfit for kind in (table, counts))
    assert one.notes == other.notes == ["pairs"]
    one, other = one.pairs.worst[0], other.pairs.worst[0]
    assert (one.model, one.against) == (other.model, other.against)
    assert one.share == pytest.approx(other.share)
    assert one.error == pytest.approx(other.error, rel=0.1)


def test_of_very_many_battles_some_are_checked_as_if_they_were_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def checked(rows: Comparisons) -> tuple[np.ndarray, ...]:
        counted = count_pairs(rows)
        fit = fit_bounded(counted.cells, TIE_MODELS["davidson"])[0]
        times = np.linspace(0.0, 1.0, len(rows))
        found = check_fit(fit, rows, counted, fit.inverse_information(), seconds=times, slot=True)
        order = np.lexsort((found.pairs.second, found.pairs.first))
        slot = found.slot.high - found.slot.low
        return found.pairs.z[order], found.pairs.error[order], found.drift.z, found.drift.error, slot, found.schedule.z

    table = MisfitWorld(models=4, battles=8000, slot=40.0).draw(np.random.default_rng(0))
    rows = Comparisons(4, table.model_a, table.model_b, table.outcome, np.ones(len(table)))
    whole = checked(rows)
    monkeypatch.setattr(fit_checks, "MOST_ROWS", 2000)
    drawn = fit_checks.sample(rows, np.linspace(0.0, 1.0, len(rows)), np.random.default_rng(0))
    part = rows.take(np.sort(drawn))  # in the order of their times
    assert 1900 < len(part) < 2100
    some = checked(rows)
    monkeypatch.undo()
    alone = checked(part)
    assert some[0] == pytest.approx(alone[0], abs=0.1)
    assert some[1] == pytest.approx(whole[1], rel=0.1), "shares are of all battles, and so are their errors"
    assert some[2] == pytest.approx(alone[2], abs=0.1)
    assert some[3] == pytest.approx(alone[3], rel=0.1)
    assert some[4] == pytest.approx(alone[4], rel=0.1)
    assert some[5] == pytest.approx(alone[5], abs=0.1)


def test_moves_by_schedule_are_in_standard_errors_of_what_every_battle_moves() -> None:
    rng, strength, met = np.random.default_rng(1), np.array([0.6, 0.2, -0.2, -0.6]), [900, 30, 300, 60, 500, 200]
    first, second = (np.repeat(side, met) for side in np.triu_indices(4, 1))
    won = rng.random(len(first)) < 1.0 / (1.0 + np.exp(strength[second] - strength[first]))
    rows = Comparisons(4, first, second, np.where(won, 0, 1).astype(np.int8), np.ones(len(first)))
    counted = count_pairs(rows)
    fit = fit_bounded(counted.cells, TIE_MODELS["half"])[0]
    found = check_fit(fit, rows, counted, fit.inverse_information(), seconds=None, slot=False)
    sides = np.eye(4)[first] - np.eye(4)[second]
    chance = 1.0 / (1.0 + np.exp(-sides @ fit.parameters.strength))

    def moves(weight: np.ndarray) -> np.ndarray:
        information = sides.T @ (sides * (weight * chance * (1.0 - chance))[:, None])
        return sides * (weight * (won - chance))[:, None] @ np.linalg.pinv(information, rcond=1e-9)

    each = moves(np.repeat(np.mean(met) / np.array(met), met)) - moves(np.ones(len(first)))
    assert found.schedule.z == pytest.approx(each.sum(axis=0) / np.sqrt((each**2).sum(axis=0)), rel=0.03)
    assert found.schedule.move == pytest.approx(each.sum(axis=0), abs=0.002)


def test_many_models_are_not_checked_and_the_line_says_why() -> None:
    rng = np.random.default_rng(7)
    a, b = arena_battles(np.zeros(320), 6000, rng)
    board = BradleyTerry(only_connected=True).fit(table_of(320, a, b, results(np.zeros(6000), rng)))
    assert board.remarks[-1] == "fit not checked: more than 300 models"
    assert msgspec.to_builtins(board.details.misfit) == {"checked": False, "reason": "more than 300 models"}
    assert fit_verdict(board.details.misfit) == "Not checked: more than 300 models."


def test_times_are_read_from_files_where_they_are_checked(tmp_path) -> None:
    table = MisfitWorld(drift=400.0, models=4, battles=2000, step=True).draw(np.random.default_rng(9))
    lines = ["model_a,model_b,winner,source,timestamp"]
    for i in range(len(table)):
        winner = ("model_a", "model_b", "tie")[table.outcome[i]]
        time = table.columns["timestamp"][i]
        lines.append(f"{table.models[table.model_a[i]]},{table.models[table.model_b[i]]},{winner},human,{time}")
    path = tmp_path / "battles.csv"
    path.write_text("\n".join(lines) + "\n")
    assert rate(path).details.misfit.notes == ["drift"]
    assert not rate(path, misfit=False).details.misfit


@pytest.mark.parametrize(
    "name", [pytest.param("battles.jsonl", marks=pytest.mark.soak), "battles.jsonl.gz", "battles [1].parquet"]
)
def test_very_many_battles_without_clusters_are_counted_and_their_times_not_held(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / name
    table = MisfitWorld(battles=2000).draw(np.random.default_rng(3))
    prompts = np.array([f"p{row % 50}" for row in range(len(table))])
    table = replace(table, columns={**table.columns, "question_id": prompts})
    write_battles(tmp_path / "plain.jsonl", table)
    write_battles(path, read_battles(tmp_path / "plain.jsonl"))
    asked = find_parts(path)
    assert about_rows(asked) == pytest.approx(2000, rel=0.0 if name.endswith("parquet") else 0.6)
    held = rate(path, cluster="none")
    assert held.details.misfit.drift.p > 0
    monkeypatch.setattr(rating, "LARGE_BYTES", 0)
    assert rate(path, cluster="none").to_dict() == held.to_dict(), "few battles are held, however large their file is"
    monkeypatch.setattr(rating, "MOST_TIMES", 500)
    monkeypatch.setattr(misfit, "MOST_TIMES", 500)
    counted = rate(path, cluster="none")
    assert counted.ratings == held.ratings
    assert "drift: no timestamps, or more than 500 battles to remember them for" in counted.details.misfit.not_checked
    assert rate(path).details.misfit.drift.p > 0, "battles with clusters are held anyway"


def test_where_ties_count_as_half_a_win_the_board_does_not_say_that_there_are_none() -> None:
    rng = np.random.default_rng(3)
    rows = [
        {"model_a": a, "model_b": b, "winner": rng.choice(["model_a", "model_b", "tie"]), "source": "human"}
        for a, b in [("x", "y"), ("y", "z"), ("z", "x")] * 40
    ]
    half = rate(rows, ties="half").details.misfit
    assert any("ties count as half a win" in reason for reason in half.not_checked)
