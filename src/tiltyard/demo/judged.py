"""The demo's tournament: pilot and headline on recorded verdicts, with the project's own run."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tiltyard.bank import read_prompts
from tiltyard.bank.records import read_objects
from tiltyard.battles import read_battles
from tiltyard.boards import BradleyTerry
from tiltyard.boards.text import as_table
from tiltyard.demo.shipped import BANK, CONFIG, VERDICTS
from tiltyard.errors import TiltyardError
from tiltyard.report import write_report
from tiltyard.tournament.config import load_setup
from tiltyard.tournament.plan import RunOptions, make_plan
from tiltyard.tournament.run import asking_parts, carry_out, make_judge, make_judging_plan

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tiltyard.tournament.plan import Mode, RunPlan
    from tiltyard.tournament.run import RunResult
    from tiltyard.tournament.standings import DimensionRatings


@dataclass(frozen=True, slots=True)
class Facts:
    """How much material there is."""

    prompts: int
    sources: int
    entrants: int
    verdicts: int


def load_facts(folder: Path) -> Facts:
    """The material of a folder in figures."""
    setup = load_setup(folder / CONFIG)
    bank = read_prompts(folder / BANK)
    recorded = read_objects(folder / VERDICTS, "file of recorded verdicts")
    return Facts(
        prompts=len(bank),
        sources=len({prompt.source for prompt in bank}),
        entrants=len(setup.entrant_ids),
        verdicts=sum(len(row.get("raw") or ()) for _, row in recorded),
    )


def plan_run(config: Path, mode: Mode, folder: Path) -> RunPlan:
    """What a run of the tournament would do."""
    return make_plan(load_setup(config), RunOptions(mode=mode, output_dir=folder))


def run_plan(plan: RunPlan, folder: Path, notice: Callable[[str], None]) -> RunResult:
    """Judge, rate and write a run folder with its report; an earlier run there is replaced."""
    asking = asking_parts(plan.setup, notice, budget_usd=None, max_batch=None)
    judge = make_judge(plan.setup, plan.judge_model, asking)
    return asyncio.run(
        carry_out(plan, make_judging_plan(plan), judge, folder, prices=asking.prices, finish=write_report)
    )


def board_text(standing: DimensionRatings) -> str:
    """A dimension's Bradley–Terry board with its intervals, or why there is none."""
    if standing.board is None:
        return f"no board: {standing.board_missing}"
    try:
        return as_table(BradleyTerry(only_connected=True).fit(read_battles(standing.battles)))
    except TiltyardError as error:
        return f"no board: {error}"


def said_of(finished: RunResult) -> str:
    """A run in one line: judgments, decisive ones, those that changed with the order, failures."""
    pairs = [pair for standing in finished.standings.values() for pair in standing.pairs]
    settled = sum(pair.a_wins + pair.b_wins + pair.ties for pair in pairs)
    decisive = sum(standing.n_decisive for standing in finished.standings.values())
    flipped = sum(pair.inconsistent for pair in pairs)
    cases = sum(stats.cases for stats in finished.judged.stats.values())
    return (
        f"{cases:,} judgments in both orders: {decisive:,} decisive, {flipped:,} changed with the order, "
        f"{settled - decisive - flipped:,} ties, {cases - settled:,} failed"
    )
