"""The parts of a placement that options name: the judge, the new model's answers, how both are asked."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from tiltyard.errors import OptionError
from tiltyard.judging.by_name import judge_by_name
from tiltyard.judging.language_model import AskingParts
from tiltyard.llm.accounting import Budget
from tiltyard.llm.asking import AskingSettings
from tiltyard.llm.generation import EntrantSettings
from tiltyard.llm.keys import load_env
from tiltyard.llm.prices import PriceTable
from tiltyard.llm.provider import parse_model_name
from tiltyard.llm.providers import make_provider
from tiltyard.placement.answers import Answers, ModelAnswers, SavedAnswers, answers_in_arena, read_answers

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tiltyard.judging.judge import Judge
    from tiltyard.placement.options import PlaceOptions
    from tiltyard.placement.plan import PlacementPlan

BATCH_FLOOR = 1000
"""Fewer questions than this go out directly: somebody waits for a placement, and a batch may take a day."""


def asking_parts(
    notice: Callable[[str], None], *, batch: bool, budget_usd: float | None, prices_path: Path | None = None
) -> AskingParts:
    """How models are asked: directly below a thousand questions, unless batches are wished for."""
    settings = AskingSettings(batch=batch or None, batch_floor=0 if batch else BATCH_FLOOR, budget_usd=budget_usd)
    # One budget for all that a command asks: answers, calibration and every round.
    return AskingParts(prices=PriceTable.load(prices_path), settings=settings, budget=Budget(budget_usd), notice=notice)


def name_of(options: PlaceOptions) -> tuple[str, Mapping[str, str] | None]:
    """What the new model is called, and its answers where they come from a file."""
    if options.leave_one_out:
        return options.model, None
    if _is_file(options.model):
        name, answers = read_answers(Path(options.model))
        return options.name or name, answers
    return options.name or str(parse_model_name(options.model)), None


def _is_file(model: str) -> bool:
    if Path(model).is_file():
        return True
    if model.endswith(".jsonl") and not model.startswith("scripted/"):
        raise OptionError(f"there is no file {model} with the new model's answers. Check the path.")
    return False


def make_judge(options: PlaceOptions, asking: AskingParts) -> Judge:
    """The judge, hearing both orders or one."""
    return judge_by_name(
        options.judge,
        folder=options.cache_dir,
        asking=asking,
        base_url=options.base_url,
        orders="both" if options.swap == "both" else "forward",
    )


def make_answers(plan: PlacementPlan, known: Mapping[str, str] | None, asking: AskingParts) -> Answers:
    """Where the new model's answers come from."""
    options = plan.options
    if options.leave_one_out:
        return SavedAnswers(answers_in_arena(plan.arena, plan.model))
    if known is not None:
        return SavedAnswers(known)
    name = parse_model_name(options.model)
    # The judge's server is lent to local models only: a maker's key goes to no server of somebody else's.
    base_url = options.model_base_url or (options.base_url if name.provider == "local" else None)
    provider = make_provider(name, base_url=base_url, env=load_env((Path(),)), folders=(Path(),))
    suffix = "" if options.turns == "first" else "-all-turns"
    settings = EntrantSettings(
        entrant_id=re.sub(r"[^\w.+-]+", "-", plan.model) + suffix, model=name.model, max_tokens=options.max_tokens
    )
    return ModelAnswers(settings, provider, options.cache_dir / "answers" / _slug(plan), asking)


def _slug(plan: PlacementPlan) -> str:
    return re.sub(r"[^\w.+-]+", "-", plan.arena.name)
