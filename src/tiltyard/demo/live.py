"""The demo's live part: a very small model in this process answers the pilot's prompts, then sits as a bad judge."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tiltyard.bank import read_prompts, responses_path, stratified_subset
from tiltyard.demo.judged import run_plan
from tiltyard.demo.shipped import RESPONSES
from tiltyard.files import copy_file
from tiltyard.llm.generation import Generated, generate
from tiltyard.llm.provider import parse_model_name
from tiltyard.llm.providers import make_provider
from tiltyard.llm.providers.in_process import weights_of
from tiltyard.tournament.config import load_setup
from tiltyard.tournament.generate import entrant_settings
from tiltyard.tournament.plan import RunOptions, make_plan
from tiltyard.tournament.run import asking_parts

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tiltyard.llm.asking import Watch
    from tiltyard.tournament.run import RunResult

CONFIG = "live.yaml"
FOLDER = "live"
NEWCOMER = "smollm2-live"
MODEL = "local/smollm2-135m"


@dataclass(frozen=True, slots=True)
class Live:
    """What came of it: the answers, and the run that judged them."""

    generated: Generated
    finished: RunResult


def run_live(folder: Path, notice: Callable[[str], None], watch: Watch | None = None) -> Live:
    """Have the newcomer answer the pilot's prompts here and now, and judge it against a recorded entrant.

    What an earlier run answered and judged is kept. Without the [local] extra this is a `MissingExtra`.
    """
    weights_of(parse_model_name(MODEL).model)
    _lend_answers(folder)
    generated = asyncio.run(_answer(folder / CONFIG, notice, watch))
    plan = make_plan(load_setup(folder / CONFIG), RunOptions(mode="pilot", output_dir=folder / FOLDER))
    return Live(generated, run_plan(plan, folder / FOLDER, notice))


def _lend_answers(folder: Path) -> None:
    """Put the recorded opponent's answers beside the newcomer's: the arena's folder stays what it was."""
    for entrant in load_setup(folder / CONFIG).config.entrants:
        recorded = responses_path(folder / RESPONSES, entrant.entrant_id)
        lent = responses_path(folder / FOLDER / RESPONSES, entrant.entrant_id)
        if recorded.exists() and not lent.exists():
            copy_file(recorded, lent)


async def _answer(config: Path, notice: Callable[[str], None], watch: Watch | None) -> Generated:
    setup = load_setup(config)
    newcomer = next(entrant for entrant in setup.config.entrants if entrant.entrant_id == NEWCOMER)
    settings = setup.config.prompts
    prompts = stratified_subset(read_prompts(setup.bank_path), size=settings.pilot_size, seed=settings.pilot_seed)
    asking = asking_parts(setup, notice, budget_usd=None, max_batch=None)
    provider = make_provider(parse_model_name(MODEL), env={})
    try:
        return await generate(
            entrant_settings(newcomer, setup),
            prompts,
            setup.responses_dir,
            provider,
            prices=asking.prices,
            settings=asking.settings,
            watch=watch,
            notice=notice,
        )
    finally:
        await provider.aclose()
