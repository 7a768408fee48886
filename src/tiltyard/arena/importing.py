"""Filling an arena from a tournament's files: prompts, answers, and model metadata.

Only what is new or changed becomes an event, so the same import can be run again, with more files, at any time.
"""

from __future__ import annotations

import math
import secrets
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec
import yaml

from tiltyard.arena import events as e
from tiltyard.arena.integrity import AnswerFlag, events_of, flag_answers
from tiltyard.bank import read_responses
from tiltyard.bank.prompts import read_text_prompts
from tiltyard.bank.responses import require_text
from tiltyard.errors import BankError, OptionError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from tiltyard.arena.catalog import Catalog

PREFIX, SUFFIX = "responses_", ".jsonl"
LISTED = 5
"""How many answers that say who wrote them are listed."""
AT_ONCE = 500
"""Number of import events committed together."""


class ModelCard(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What visitors see about a model after voting."""

    model: str
    display_name: str = ""
    provider: str = ""
    licence: str = ""
    link: str = ""
    price: float | None = None
    """US dollars for a million tokens of output."""
    speed: float | None = None
    """Tokens of output per second."""


def read_cards(path: Path) -> dict[str, ModelCard]:
    """Model cards from a YAML or JSON file: a list of `ModelCard`s."""
    try:
        rows = yaml.safe_load(path.read_text(encoding="utf-8"))
        cards = msgspec.convert(rows, list[ModelCard])
    except OSError as error:
        raise OptionError(f"cannot read the models file {path}: {error.strerror}. Check the path.") from None
    except (yaml.YAMLError, msgspec.ValidationError, UnicodeDecodeError) as error:
        first = str(error).splitlines()[0]
        raise OptionError(
            f"{path}: not a list of models ({first}). Each has `model`, and may have display_name, provider, "
            "licence, link, price and speed."
        ) from None
    for card in cards:
        if card.link and not card.link.startswith(("https://", "http://")):
            raise OptionError(f"{path}: the link of {card.model!r} is {card.link!r}; write a whole https:// address.")
        for name, value in (("price", card.price), ("speed", card.speed)):
            if value is not None and not 0.0 <= value < math.inf:
                raise OptionError(f"{path}: the {name} of {card.model!r} is {value:g}; write a number of 0 or more.")
    return {card.model: card for card in cards}


@dataclass(slots=True)
class Import:
    """The events of an import, in an order in which each may rely on those before it, and a summary."""

    bodies: list[e.AnyBody] = field(default_factory=list)
    models: int = 0
    prompts: int = 0
    answers: int = 0
    unchanged: int = 0
    empty: int = 0
    strangers: int = 0
    reserved: int = 0
    telling: list[AnswerFlag] = field(default_factory=list)
    """New answers that say who wrote them; the flag of each comes before the answer, so that it is never served."""

    def lines(self) -> list[str]:
        """A summary for people."""
        lines = [
            f"{self.models} models, {self.prompts} prompts and {self.answers} answers are new or changed; "
            f"{self.unchanged} unchanged"
        ]
        if self.reserved:
            lines.append(f"{self.reserved} prompts are kept for later: `arena prompts rotate` begins to serve them")
        if self.empty:
            lines.append(f"{self.empty} empty answers left out: there is nothing to show")
        if self.strangers:
            lines.append(f"{self.strangers} answers to prompts that are neither in the bank nor in the arena left out")
        return [*lines, *said_of_telling(self.telling)]


def said_of_telling(flags: Sequence[AnswerFlag]) -> list[str]:
    """Lines about answers that say who wrote them: how many, and the first few."""
    if not flags:
        return []
    more = f"  and {len(flags) - LISTED} more" if len(flags) > LISTED else ""
    return [
        f"{len(flags)} answers say who wrote them: stored, flagged, and not served (setting bank.hide_self_naming)",
        *(f"  {flag.model}, answer {flag.response_id}: “{flag.phrase}”" for flag in flags[:LISTED]),
        *([more] if more else []),
    ]


def plan_import(
    catalog: Catalog,
    prompt_texts: Mapping[str, str],
    answer_texts: Mapping[str, str],
    *,
    bank: Path | None = None,
    responses: Path | None = None,
    cards: Path | None = None,
    reserve: bool = False,
) -> Import:
    """The events that would import these files into an arena with these texts of prompts and answers, by id.

    With `reserve`, new prompts are kept for later: not served, and their answers hidden.
    """
    if bank is None and responses is None and cards is None:
        raise OptionError("there is nothing to import. Name prompts, responses or models.")
    plan = Import()
    known = set(prompt_texts)
    if bank is not None:
        known |= _plan_prompts(plan, catalog, prompt_texts, bank, reserve=reserve)
    described = {} if cards is None else read_cards(cards)
    files = {} if responses is None else response_files(responses)
    for name in dict.fromkeys([*files, *described]):
        _plan_model(plan, catalog, name, described.get(name), given=name in files)
    for name, folder in files.items():
        _plan_answers(plan, catalog, answer_texts, name, folder, known)
    _flag_answers(plan, catalog)
    return plan


def response_files(path: Path) -> dict[str, Path]:
    """The folder of each model's response file, by model."""
    if path.is_file():
        if not (path.name.startswith(PREFIX) and path.name.endswith(SUFFIX)):
            raise BankError(f"{path}: a response file is called responses_<model>.jsonl. Rename it.")
        return {path.name[len(PREFIX) : -len(SUFFIX)]: path.parent}
    found = sorted(path.glob(f"{PREFIX}*{SUFFIX}")) if path.is_dir() else []
    if not found:
        raise BankError(f"{path} has no responses_<model>.jsonl. Check the path, or fill it with `tiltyard generate`.")
    return {file.name[len(PREFIX) : -len(SUFFIX)]: path for file in found}


def _plan_prompts(
    plan: Import, catalog: Catalog, prompt_texts: Mapping[str, str], bank: Path, *, reserve: bool
) -> set[str]:
    """Prompts that are new, or whose text, subject or tags have changed."""
    prompts = read_text_prompts(bank, "an arena")
    for prompt in prompts:
        if not prompt.text.strip():
            raise BankError(f"{bank}: prompt {prompt.prompt_id!r} is empty. Write it, or remove it.")
        number = catalog.prompt(prompt.prompt_id) if catalog.has_prompt(prompt.prompt_id) else None
        added = e.PromptAdded(
            prompt_id=prompt.prompt_id,
            text=prompt.text,
            subject=prompt.subject,
            tags=prompt.tags,
            language=prompt.language,
        )
        if number is not None:
            kept = catalog.prompts[number]
            if msgspec.structs.replace(kept, text=prompt_texts.get(prompt.prompt_id) or "") == added:
                plan.unchanged += 1
                continue
        plan.prompts += 1
        plan.bodies.append(added)
        if reserve if number is None else catalog.prompt_reserved[number]:
            plan.reserved += 1
            plan.bodies.append(e.PromptReserved(prompt_id=prompt.prompt_id))
        elif number is not None and not catalog.prompt_enabled[number]:
            plan.bodies.append(e.PromptDisabled(prompt_id=prompt.prompt_id))  # new metadata does not re-enable it
    return {prompt.prompt_id for prompt in prompts}


def _plan_model(plan: Import, catalog: Catalog, name: str, card: ModelCard | None, *, given: bool) -> None:
    """A model that is new or has changed metadata. A model card alone does not add a model."""
    there = catalog.has_model(name)
    if card is None and there:
        plan.unchanged += 1
        return
    card = card or ModelCard(model=name)
    added = e.ModelAdded(
        model=name,
        display_name=card.display_name or name,
        provider=card.provider,
        licence=card.licence,
        link=card.link,
        price=card.price,
        speed=card.speed,
    )
    if there and catalog.models[catalog.model(name)] == added:
        plan.unchanged += 1
        return
    if not there and not given:
        raise OptionError(f"the models file describes {name!r}, which has no answers here. Import its answers too.")
    plan.models += 1
    plan.bodies.append(added)
    if there and not catalog.model_enabled[catalog.model(name)]:
        plan.bodies.append(e.ModelDisabled(model=name))  # new metadata does not re-enable a model


def _plan_answers(
    plan: Import, catalog: Catalog, texts: Mapping[str, str], name: str, folder: Path, known: set[str]
) -> None:
    """Answers that are new or have changed. Their ids are random: a fingerprint would tell who wrote a known text."""
    for prompt_id, response in read_responses(folder, name).items():
        require_text(response, "an arena")
        if prompt_id not in known:
            plan.strangers += 1
        elif not response.response_text.strip():
            plan.empty += 1
        elif texts.get(_present(catalog, name, prompt_id)) == response.response_text:
            plan.unchanged += 1
        else:
            plan.answers += 1
            plan.bodies.append(
                e.ResponseAdded(
                    response_id=secrets.token_urlsafe(18),
                    model=name,
                    prompt_id=prompt_id,
                    text=response.response_text,
                )
            )


def _flag_answers(plan: Import, catalog: Catalog) -> None:
    """Put a flag before each new answer that says who wrote it."""
    models = {model.model: model for model in catalog.models}
    models |= {body.model: body for body in plan.bodies if isinstance(body, e.ModelAdded)}
    answers = [body for body in plan.bodies if isinstance(body, e.ResponseAdded)]
    found = flag_answers(((body.response_id, models[body.model], body.text) for body in answers), models.values())
    plan.telling = [flag for flag in found if flag.response_id not in catalog.telling]
    flags = {event.subject_id: event for event in events_of((), plan.telling) if isinstance(event, e.Flagged)}
    before = ((flags.get(getattr(body, "response_id", "")), body) for body in plan.bodies)
    plan.bodies = [body for pair in before for body in pair if body is not None]


def _present(catalog: Catalog, model: str, prompt_id: str) -> str:
    """The id of the model's answer to the prompt; empty if it has none."""
    if not (catalog.has_model(model) and catalog.has_prompt(prompt_id)):
        return ""
    return catalog.response_ids.get((catalog.model(model), catalog.prompt(prompt_id)), "")


def in_parts(bodies: list[Any]) -> list[list[Any]]:
    """The events of an import, a few at a time."""
    return [bodies[start : start + AT_ONCE] for start in range(0, len(bodies), AT_ONCE)]
