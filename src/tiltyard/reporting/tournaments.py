"""`run_tournament`: a judged tournament from Python, with a judge of one's own if wanted."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

from tiltyard.errors import OptionError
from tiltyard.judging.function import JudgeFunction, function_name
from tiltyard.judging.run_folder import utc_now
from tiltyard.options import RunOptions
from tiltyard.reporting import write_report
from tiltyard.tournament.config import load_setup
from tiltyard.tournament.plan import make_plan
from tiltyard.tournament.run import RunResult, asking_parts, carry_out, make_judge, make_judging_plan, run_folder
from tiltyard.tournament.scoring import check_people

LOOK_SECONDS = 0.2
"""How often the waiting thread looks up: where another thread takes the signal of Ctrl-C, nothing wakes this one."""


def run_tournament(
    config: str | Path, *, judge: JudgeFunction | None = None, mode: str = "headline", **options: Any
) -> RunResult:
    """Judge a tournament, rate it and write its folder with a report, as `tiltyard run --yes` does.

    The result has the `folder`, the `report`, the boards by dimension (`standings`) and the scores of answers
    (`scores`). If it is interrupted, the same call goes on: with `output_dir`, into the same folder.

    Parameters:
        config: The tournament file (YAML).
        judge: Who judges instead of the config's judge: `async def judge(question)` that returns `A`, `B`, `TIE` or a
            score, or `question.verdict(…)`. What it raises before its first answer ends the run; later it is a failed
            verdict, not a tie.
        mode: `pilot` or `headline`.
        options: Any option of `tiltyard run`, under its Python name: `output_dir`, `judge_model`, `budget_usd`,
            `labels_path`, `until`, `repeats`, `skip_judging`, ….
    """
    known = {name for name in RunOptions.__dataclass_fields__ if name != "mode"}
    for name in options.keys() - known:
        raise OptionError(f"there is no option {name!r}. There are {', '.join(sorted(known))}.")
    if judge is not None:
        if "judge_model" in options:
            raise OptionError("judge and judge_model both say who judges. Leave one of them out.")
        options["judge_model"] = function_name(judge)
    for name in ("output_dir", "labels_path"):
        if options.get(name) is not None:
            options[name] = Path(options[name])
    if mode not in ("pilot", "headline"):
        raise OptionError(f"mode is {mode!r}; it is pilot or headline.")
    chosen = RunOptions(mode=mode, **options)  # type: ignore[arg-type]
    setup = load_setup(config, mode=None if chosen.judge_model else chosen.mode)
    plan = make_plan(setup, chosen)
    if plan.labels is not None:
        check_people(plan.labels, plan.setup)
    log = logging.getLogger("tiltyard")
    asking = asking_parts(plan.setup, log.info, budget_usd=chosen.budget_usd, max_batch=chosen.max_batch)
    asked = make_judge(plan.setup, plan.judge_model, asking, silent=chosen.skip_judging, functions=judge or True)
    folder = run_folder(plan, utc_now)
    work = carry_out(plan, make_judging_plan(plan), asked, folder, prices=asking.prices, finish=write_report)
    return _finished(work)


def _finished(work: Coroutine[Any, Any, RunResult]) -> RunResult:
    """The result, from a thread with a loop of its own: in a notebook, one is running already. Ctrl-C ends it."""
    begun: Future[asyncio.Task[Any]] = Future()

    async def run() -> RunResult:
        begun.set_result(asyncio.current_task())  # type: ignore[arg-type]
        return await work

    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(asyncio.run, run())
        try:
            while not running.done():
                wait([running], LOOK_SECONDS)
            return running.result()
        except BaseException:
            if not running.done():
                task = begun.result()
                task.get_loop().call_soon_threadsafe(task.cancel)
            raise
