"""A tournament as a process that starts at once (see `tests.forked`)."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.records import replace


def tournament(config: str, folder: str, grace_seconds: float) -> None:
    """`tiltyard run CONFIG --mode headline --output-dir FOLDER --yes`, with less patience for the provider's list.

    A minute in which an accepted batch may be missing from the list is right for a provider and too long for a test.
    """
    from tiltyard.judge.tournament import (
        asking_parts,
        load_setup,
        make_judge,
        make_judging_plan,
        make_plan,
        run_tournament,
    )
    from tiltyard.options import RunOptions
    from tiltyard.reports import write_report

    setup = load_setup(config)
    plan = make_plan(setup, RunOptions(mode="headline"))
    asking = asking_parts(setup, lambda line: None, budget_usd=None, max_batch=None)
    asking = replace(asking, settings=replace(asking.settings, adoption_grace_seconds=grace_seconds))
    judge = make_judge(setup, plan.judge_model, asking)
    asyncio.run(run_tournament(plan, make_judging_plan(plan), judge, Path(folder), prices=asking.prices))
    write_report(folder)
