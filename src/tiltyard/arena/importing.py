"""Filling an arena from a tournament's files: prompts, answers, and model metadata.

Only what is new or changed becomes an event, so the same import can be run again, with more files, at any time.
"""

from __future__ import annotations

import copy
import math
import secrets
import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import yaml

from tiltyard.arena import events as e
from tiltyard.arena.catalog import Catalog
from tiltyard.arena.commands import check_content, kinds_differ
from tiltyard.arena.file_intake import FileIntake, TakenFile
from tiltyard.arena.import_source import PREFIX, SUFFIX, code_of, models_in, read_answers
from tiltyard.arena.integrity import LISTED, AnswerFlag, flag_answers, naming_lines
from tiltyard.arena.service import Arena
from tiltyard.arena.store.files import CleanFile
from tiltyard.arena.store.reading import prompt_texts as all_prompt_texts
from tiltyard.arena.store.reading import texts_of_answers
from tiltyard.bank import AnswerKind, Response
from tiltyard.bank.prompts import read_text_prompts
from tiltyard.bank.responses import for_people, require_text
from tiltyard.errors import BankError, OptionError

AT_ONCE = 500
"""Number of import events committed together."""
BYTES_AT_ONCE = 32_000_000
"""Bytes of files committed together, or one file if it is larger."""


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
    aliases: tuple[str, ...] = ()
    """Other names that would tell who wrote an answer."""


def read_cards(path: Path) -> dict[str, ModelCard]:
    """Model cards from a YAML or JSON file: a list of `ModelCard`s."""
    try:
        text = path.read_text(encoding="utf-8")
        try:
            rows = msgspec.json.decode(text)  # YAML would read "\\ud83d\\ude00", one sign, as two halves
        except msgspec.DecodeError:
            rows = yaml.safe_load(text)
        cards = msgspec.convert(rows, list[ModelCard])
    except OSError as error:
        raise OptionError(f"cannot read the models file {path}: {error.strerror}. Check the path.") from None
    except (yaml.YAMLError, msgspec.ValidationError, UnicodeDecodeError) as error:
        first = str(error).splitlines()[0]
        raise OptionError(
            f"{path}: not a list of models ({first}). Each has `model`, and may have display_name, provider, "
            "licence, link, price, speed and aliases."
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
    erased: int = 0
    unusable: list[str] = field(default_factory=list)
    """Text answers without code that can be shown, and why."""
    strangers: Counter[str] = field(default_factory=Counter)
    """How many answers are left out because nobody says what was asked, by prompt."""
    reserved: int = 0
    telling: list[AnswerFlag] = field(default_factory=list)
    """New answers that name their authors, or may; the flag of each comes before the answer, so it is never served."""
    intake: FileIntake | None = None
    files: dict[str, int] = field(default_factory=dict)
    """The sizes of the files that new answers name, by hash."""
    kinds: dict[str, str] = field(default_factory=dict)
    """The kind of the answers to each prompt."""
    words: dict[str, str] = field(default_factory=dict)
    """What new pages and drawings say, by response id."""

    def close(self) -> None:
        """Delete the cleaned files that were kept for it."""
        if self.intake is not None:
            self.intake.close()

    def lines(self) -> list[str]:
        """A summary for people."""
        lines = [
            f"{self.models} models, {self.prompts} prompts and {self.answers} answers are new or changed; "
            f"{self.unchanged} unchanged"
        ]
        if self.reserved:
            lines.append(f"{self.reserved} prompts are kept for later: `arena prompts rotate` begins to serve them")
        if self.files and self.intake is not None:
            of_kind = Counter(body.answer_kind for body in self.bodies if isinstance(body, e.ResponseAdded))
            parts = ", ".join(f"{n:,} {kind}" for kind, n in of_kind.items() if kind != AnswerKind.TEXT)
            lines.append(
                f"{parts}: cleaned, {sum(self.files.values()) / 1e6:,.1f} MB; the arena's files have "
                f"{self.intake.total / 1e6:,.1f} MB with them"
            )
        if self.empty:
            lines.append(f"{self.empty} empty answers left out: there is nothing to show")
        if self.erased:
            lines.append(f"{self.erased} prompts and answers left out: they were erased")
        if self.unusable:
            lines.append(f"{len(self.unusable)} answers left out: they hold nothing that can be shown, such as:")
            lines += [f"  {line}" for line in self.unusable[:LISTED]]
        if self.strangers:
            first = sorted(self.strangers)[:3]
            named = ", ".join(first) + (", …" if len(self.strangers) > len(first) else "")
            lines.append(
                f"{self.strangers.total()} answers left out: their prompts ({named}) are neither in the bank nor in "
                f'the arena. Add a line for each to the bank: {{"prompt_id": "{first[0]}", "text": "what was asked"}}'
            )
        return [*lines, *naming_lines(self.telling, self.answers)]


def plan_import(
    catalog: Catalog,
    prompt_texts: Mapping[str, str],
    answer_texts: Mapping[str, str],
    *,
    bank: Path | None = None,
    responses: Path | None = None,
    cards: Path | None = None,
    reserve: bool = False,
    intake: FileIntake | None = None,
    code: AnswerKind | None = None,
) -> Import:
    """The events that would import these files into an arena with these texts of prompts and answers, by id.

    With `reserve`, new prompts are kept for later: not served, and their answers hidden. `intake` cleans answers that
    are files; without it there must be none. `code` is the kind of what text answers hold, if that is to be shown.
    """
    if bank is None and responses is None and cards is None:
        raise OptionError("there is nothing to import. Name prompts, responses or models.")
    plan = Import(intake=intake)
    known = set(prompt_texts)
    if bank is not None:
        known |= _plan_prompts(plan, catalog, prompt_texts, bank, reserve=reserve)
    described = {} if cards is None else read_cards(cards)
    files = {} if responses is None else response_files(responses)
    spelled = {unicodedata.normalize("NFC", model.model): model.model for model in catalog.models}
    for name in dict.fromkeys([*files, *described]):
        if (same := spelled.setdefault(unicodedata.normalize("NFC", name), name)) != name:
            raise BankError(f"{name!a} and {same!a} are two spellings of one model's name. Use one for both.")
        _plan_model(plan, catalog, name, described.get(name), given=name in files)
    for name, folder in files.items():
        _plan_answers(plan, catalog, answer_texts, name, folder, known, code)
    for body in plan.bodies:
        check_content(body)
    _flag_answers(plan, catalog, prompt_texts)
    return plan


def response_files(path: Path) -> dict[str, Path]:
    """The folder of each model's response file, by model."""
    if path.is_file():
        if not (path.name.startswith(PREFIX) and path.name.endswith(SUFFIX)):
            raise BankError(f"{path}: a response file is called responses_<model>.jsonl. Rename it.")
        return {path.name[len(PREFIX) : -len(SUFFIX)]: path.parent}
    result = models_in(path) if path.is_dir() else []
    if not result:
        raise BankError(f"{path} has no responses_<model>.jsonl. Check the path, or fill it with `tiltyard generate`.")
    return dict.fromkeys(result, path)


def _plan_prompts(
    plan: Import, catalog: Catalog, prompt_texts: Mapping[str, str], bank: Path, *, reserve: bool
) -> set[str]:
    """Prompts that are new, or whose text, subject or tags have changed."""
    prompts = read_text_prompts(bank, "an arena")
    for prompt in prompts:
        if not prompt.text.strip():
            raise BankError(f"{bank}: prompt {prompt.prompt_id!r} is empty. Write it, or remove it.")
        if prompt.prompt_id in catalog.erased_prompts:
            plan.erased += 1
            continue
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
        aliases=card.aliases,
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
    plan: Import,
    catalog: Catalog,
    texts: Mapping[str, str],
    name: str,
    folder: Path,
    known: set[str],
    code: AnswerKind | None,
) -> None:
    """Answers that are new or have changed. Their ids are random: a fingerprint would tell who wrote a known text."""
    for prompt_id, response in read_answers(folder, name).items():
        if response.answer_kind is AnswerKind.TEXT:
            response = for_people(response)
            require_text(response, "an arena")
        present = _present(catalog, name, prompt_id)
        if prompt_id in catalog.erased_prompts or (present in catalog.withdrawn and present not in texts):
            plan.erased += 1
        elif prompt_id not in known:
            plan.strangers[prompt_id] += 1
        elif response.file:
            _plan_file(plan, catalog, texts, response, folder)
        elif not response.response_text.strip():
            plan.empty += 1
        elif code is not None:
            _plan_code(plan, catalog, texts, response, code)
        elif texts.get(present) == response.response_text:
            _same_kind(plan, catalog, response)
            plan.unchanged += 1
        else:
            _same_kind(plan, catalog, response)
            plan.answers += 1
            plan.bodies.append(
                e.ResponseAdded(
                    response_id=secrets.token_urlsafe(18),
                    model=name,
                    prompt_id=prompt_id,
                    text=response.response_text,
                )
            )


def _plan_file(plan: Import, catalog: Catalog, texts: Mapping[str, str], response: Response, folder: Path) -> None:
    """An answer that is a file, cleaned."""
    if plan.intake is None or response.transcript or len(response.images or ()) > (response.kind is AnswerKind.IMAGE):
        raise BankError(
            f"the answer of {response.entrant_id!r} to {response.prompt_id!r} is more than a file. Split it."
        )
    _same_kind(plan, catalog, response)
    _add_file(plan, catalog, texts, response, plan.intake.take(folder, response))


def _plan_code(plan: Import, catalog: Catalog, texts: Mapping[str, str], response: Response, kind: AnswerKind) -> None:
    """The drawing, page or build that a text answer holds. One that cannot be shown is named, and stops nothing."""
    assert plan.intake is not None
    where = f"the answer of {response.entrant_id!r} to {response.prompt_id!r}"
    made = msgspec.structs.replace(response, kind=kind, response_text="")
    data = code_of(response.response_text, kind)
    try:
        if data is None:
            raise BankError(f"{where} holds no {kind}")
        taken = plan.intake.take_bytes(data, kind, where)
    except BankError as error:
        plan.unusable.append(str(error))
        return
    _same_kind(plan, catalog, made)
    _add_file(plan, catalog, texts, made, taken)


def _add_file(plan: Import, catalog: Catalog, texts: Mapping[str, str], response: Response, taken: TakenFile) -> None:
    assert plan.intake is not None
    present = _present(catalog, response.entrant_id, response.prompt_id)
    there = plan.intake.answers.get(present)
    if there is not None and there.sha256 == taken.sha256 and texts.get(present) == response.response_text:
        plan.unchanged += 1
        return
    added = e.ResponseAdded(
        response_id=secrets.token_urlsafe(18),
        model=response.entrant_id,
        prompt_id=response.prompt_id,
        text=response.response_text,
        answer_kind=response.answer_kind.value,
        file=taken.sha256,
    )
    plan.answers += 1
    plan.bodies.append(added)
    plan.files[taken.sha256] = taken.size
    plan.words[added.response_id] = taken.words


def _same_kind(plan: Import, catalog: Catalog, response: Response) -> None:
    """Refuse an answer that differs in kind from the others to its prompt: both sides must look alike."""
    name, kind = response.prompt_id, response.answer_kind.value
    before = plan.kinds.setdefault(name, catalog.kind_there(name) or kind)
    if before != kind:
        raise BankError(f"the answer of {response.entrant_id!r}: {kinds_differ(name, before, kind)}")


def _flag_answers(plan: Import, catalog: Catalog, prompt_texts: Mapping[str, str]) -> None:
    """Put a flag before each new answer that names its author, or may."""
    models = {model.model: model for model in catalog.models}
    models |= {body.model: body for body in plan.bodies if isinstance(body, e.ModelAdded)}
    asked = {**prompt_texts, **{body.prompt_id: body.text for body in plan.bodies if isinstance(body, e.PromptAdded)}}
    plan.telling = flag_answers(
        (
            body.response_id,
            models[body.model],
            asked[body.prompt_id],
            f"{body.text}\n{plan.words.get(body.response_id, '')}",
        )
        for body in plan.bodies
        if isinstance(body, e.ResponseAdded)
    )
    flags = {flag.response_id: flag.event for flag in plan.telling}
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


def prepare_import(
    arena: Arena,
    *,
    bank: Path | None = None,
    responses: Path | None = None,
    cards: Path | None = None,
    reserve: bool = False,
    code: AnswerKind | None = None,
) -> Import:
    """What importing these files would do; `carry_out` does it, and `Import.close` must follow either way.

    Parameters:
        arena: Where to.
        bank: A prompt bank.
        responses: A folder of answers.
        cards: A list of models.
        reserve: Keep new prompts for later.
        code: Text answers hold the code of a drawing, a page or a build, which is to be shown.
    """
    catalog, rules = arena.read(lambda state: (copy.deepcopy(state.catalog), state.policy.media))
    intake = FileIntake(rules, arena.store)
    try:
        plan = plan_import(
            *(catalog, all_prompt_texts(arena.store), texts_of_answers(arena.store)),
            bank=bank,
            responses=responses,
            cards=cards,
            reserve=reserve,
            intake=intake,
            code=code,
        )
    except BaseException:
        intake.close()
        raise
    return plan


def carry_out(arena: Arena, plan: Import) -> None:
    """Write what an import found, a part at a time, each with its files."""
    for bodies, files in parts_of(plan):
        arena.append(bodies, files)


def parts_of(plan: Import) -> Iterator[tuple[list[e.AnyBody], list[CleanFile]]]:
    """The events of an import, a few at a time, with the files that they name."""
    part: list[e.AnyBody] = []
    size = 0
    for body in plan.bodies:
        more = plan.files.get(body.file, 0) if isinstance(body, e.ResponseAdded) else 0
        if part and not isinstance(part[-1], e.Flagged) and (len(part) >= AT_ONCE or size + more > BYTES_AT_ONCE):
            yield part, _files(plan, part)
            part, size = [], 0
        part.append(body)
        size += more
    if part:
        yield part, _files(plan, part)


def _files(plan: Import, part: list[e.AnyBody]) -> list[CleanFile]:
    names = [body.file for body in part if isinstance(body, e.ResponseAdded)]
    return [] if plan.intake is None else plan.intake.load(names)
