"""`generate`: the answers of a tournament's entrants, from their models: only what is missing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path

from tiltyard.data.bank import Prompt, read_prompts, read_responses, responses_path
from tiltyard.errors import BudgetReached, ConfigError, MissingExtra, ModelError, OptionError, TiltyardError
from tiltyard.judge.llm import (
    TAKES_IMAGES,
    EntrantSettings,
    Generated,
    Provider,
    load_env,
    make_provider,
    parse_model_name,
)
from tiltyard.judge.llm import generate as ask
from tiltyard.judge.tournament import Entrant, PlanImages, Setup, asking_parts, load_setup
from tiltyard.options import GenerateOptions, accepts_options
from tiltyard.render import money, plural
from tiltyard.verbs.asking import to_end

MOST_NAMED = 5
"""How many failed prompts of an entrant are named."""


@dataclass(frozen=True)
class GeneratedAnswers:
    """What became of the entrants' answers."""

    folder: Path
    """Where the response files are."""
    entrants: Sequence[Generated]
    """Those that were asked to the end: `present`, `written`, `truncated`, and which prompts `failed`, with why."""
    errors: Mapping[str, TiltyardError]
    """Why others could not be asked to the end."""

    def notes(self) -> list[str]:
        """Why prompts failed, the first of each entrant."""
        return [f"  {name}: {why}" for one in self.entrants for name, why in list(one.failed.items())[:MOST_NAMED]]

    def check(self) -> None:
        """Raise a `ModelError` if an answer is missing, which says what to do."""
        if self.errors:
            named = "; ".join(f"{name}: {error}" for name, error in self.errors.items())
            entrants = plural(len(self.entrants) + len(self.errors), "entrant")
            raise ModelError(
                f"{len(self.errors)} of {entrants} could not be asked to the end. {named} Then run the same again: "
                "only what is missing is asked."
            )
        failed = sum(len(one.failed) for one in self.entrants)
        if failed:
            raise ModelError(
                f"{plural(failed, 'answer')} failed and {'was' if failed == 1 else 'were'} not written; "
                f"{self.folder}/failures_ENTRANT.jsonl has the whole list. Run the same again to try once more; "
                "`tiltyard run` leaves out prompts that lack an answer."
            )

    def __str__(self) -> str:
        return "\n".join(
            f"{one.entrant_id}: {one.present} there before, {one.written} written, {one.truncated} of them cut off, "
            f"{len(one.failed)} failed, {money(one.totals.all.cost, without_usage=one.totals.all.without_usage)}"
            for one in self.entrants
        )


@accepts_options(GenerateOptions)
def generate(config: str | Path, options: GenerateOptions) -> GeneratedAnswers:
    """Fill the entrants' response files from their models: only what is missing, so it can be run again.

    What failed is in the answer, and in no response file; its `check` raises.

    Parameters:
        config: The tournament file (YAML).
    """
    setup = load_setup(config)
    for name in options.entrant or ():
        if name not in setup.entrant_ids:
            raise OptionError(f"there is no entrant {name!r}; the file has {', '.join(setup.entrant_ids)}.")
    chosen = [one for one in setup.config.entrants if not options.entrant or one.entrant_id in options.entrant]
    return to_end(fill_answers(setup, chosen, options))


async def fill_answers(setup: Setup, chosen: Sequence[Entrant], options: GenerateOptions) -> GeneratedAnswers:
    """Ask each entrant's model for what it lacks; an error of one stops no other, only a reached budget does."""
    prompts = read_prompts(setup.bank_path)
    settings = {entrant.entrant_id: entrant_settings(entrant, setup) for entrant in chosen}
    images = PlanImages.find(setup, prompts, {})
    _check_images(chosen, images)
    total = sum(_missing(setup.responses_dir, name, prompts) for name in settings)
    if total:
        options.agree(f"Ask {plural(len(chosen), 'model')} for {plural(total, 'answer')}?")
    asking = asking_parts(setup, options.note, budget_usd=options.budget_usd, max_batch=None)
    shown = None if images is None else images.prompts
    made: list[Generated] = []
    errors: dict[str, TiltyardError] = {}
    for entrant in chosen:
        asked = settings[entrant.entrant_id], prompts, setup.responses_dir
        try:
            async with aclosing(_provider(entrant, setup)) as provider:
                made.append(await ask(*asked, provider, asking, images=shown, watch=options.progress.watch))
        except BudgetReached:
            raise
        except (ModelError, OptionError, MissingExtra) as error:
            errors[entrant.entrant_id] = error
            options.note(f"{entrant.entrant_id}: {error}")
    return GeneratedAnswers(setup.responses_dir, made, errors)


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
