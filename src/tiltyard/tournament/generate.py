"""Filling the response cache of a tournament: every entrant that has a model, only what is missing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import aclosing
from pathlib import Path

from tiltyard.bank import Prompt, read_prompts, read_responses, responses_path
from tiltyard.errors import BudgetReached, ConfigError, MissingExtra, ModelError, OptionError, TiltyardError
from tiltyard.llm.asking import Watch, plural
from tiltyard.llm.generation import EntrantSettings, Generated, generate
from tiltyard.llm.keys import load_env
from tiltyard.llm.provider import TAKES_IMAGES, Provider, parse_model_name
from tiltyard.llm.providers import make_provider
from tiltyard.tournament.config import Entrant, Setup
from tiltyard.tournament.plan import PlanImages
from tiltyard.tournament.run import asking_parts


async def generate_missing(
    setup: Setup,
    entrants: Sequence[str],
    *,
    budget_usd: float | None,
    confirm: Callable[[str], None],
    watch: Watch | None,
    notice: Callable[[str], None],
) -> tuple[list[Generated], dict[str, TiltyardError]]:
    """Ask each entrant's model for the answers it lacks. `confirm` is asked once, before anything is sent.

    Returns what became of each entrant, and the errors of those that could not be asked to the end: they do not stop
    the others. Only a reached budget does, which all of them share.
    """
    prompts = read_prompts(setup.bank_path)
    chosen = [entrant for entrant in setup.config.entrants if entrant.entrant_id in entrants]
    settings = {entrant.entrant_id: entrant_settings(entrant, setup) for entrant in chosen}
    images = PlanImages.find(setup, prompts, {})
    _check_images(chosen, images)
    total = sum(_missing(setup.responses_dir, name, prompts) for name in settings)
    if total:
        confirm(f"Ask {plural(len(chosen), 'model')} for {plural(total, 'answer')}?")
    asking = asking_parts(setup, notice, budget_usd=budget_usd, max_batch=None)
    results: list[Generated] = []
    errors: dict[str, TiltyardError] = {}
    for entrant in chosen:
        try:
            async with aclosing(_provider(entrant, setup)) as provider:
                results.append(
                    await generate(
                        settings[entrant.entrant_id],
                        prompts,
                        setup.responses_dir,
                        provider,
                        asking,
                        images=None if images is None else images.prompts,
                        watch=watch,
                    )
                )
        except BudgetReached:
            raise
        except (ModelError, OptionError, MissingExtra) as error:
            errors[entrant.entrant_id] = error
            notice(f"{entrant.entrant_id}: {error}")
    return results, errors


def _provider(entrant: Entrant, setup: Setup) -> Provider:
    """Who answers for an entrant, at its own address, or at the judge's if that is a local server."""
    judge, folders = setup.config.judge, (setup.path.parent, Path())
    name = parse_model_name(entrant.model or "")
    base_url = entrant.base_url or name.shared_address(judge.base_url, judge.named)
    shared = judge.headers if base_url is not None and base_url == judge.base_url else {}
    return make_provider(
        name,
        base_url=base_url,
        env=load_env(folders),
        folders=folders,
        headers=entrant.headers or shared,
        timeout_seconds=judge.timeout_seconds,
    )


def _check_images(entrants: Sequence[Entrant], images: PlanImages | None) -> None:
    """Refuse prompts with images, if an entrant cannot be expected to see them."""
    for entrant in entrants if images is not None else ():
        known = parse_model_name(entrant.model or "").provider in TAKES_IMAGES
        if not (known if entrant.images is None else entrant.images):
            raise ConfigError(
                f"prompts have images, and {entrant.model} of {entrant.entrant_id!r} is not known to take any. If it "
                "does, set images: true for this entrant."
            )


def entrant_settings(entrant: Entrant, setup: Setup) -> EntrantSettings:
    """How an entrant of a tournament file is asked for answers; one without a model cannot be."""
    if entrant.model is None:
        raise ConfigError(
            f"{setup.path}: entrant {entrant.entrant_id!r} has no `model`, so its answers cannot be generated. "
            "Add one, such as anthropic/…, openai/…, gemini/… or local/…."
        )
    return EntrantSettings(
        entrant_id=entrant.entrant_id,
        model=parse_model_name(entrant.model).model,
        system=entrant.system,
        max_tokens=entrant.max_tokens,
        options=entrant.options,
        seed=entrant.seed,
        send_seed=entrant.send_seed,
    )


def _missing(folder: Path, entrant_id: str, prompts: Sequence[Prompt]) -> int:
    there = read_responses(folder, entrant_id) if responses_path(folder, entrant_id).exists() else {}
    return sum(prompt.prompt_id not in there for prompt in prompts)
