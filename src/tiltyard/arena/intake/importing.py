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
from pathlib import Path
from typing import Any

import msgspec
import yaml

from tiltyard.arena.intake.file_intake import FileIntake, TakenFile
from tiltyard.arena.intake.import_source import PREFIX, SUFFIX, code_of, models_in, read_answers
from tiltyard.arena.rules import events as e
from tiltyard.arena.rules.catalog import Catalog
from tiltyard.arena.store.files import CleanFile
from tiltyard.arena.store.reading import prompt_texts, texts_of_answers
from tiltyard.arena.study.integrity import LISTED, AnswerFlag, flag_answers, naming_lines
from tiltyard.arena.writing.commands import check_content, kinds_differ
from tiltyard.arena.writing.service import Arena
from tiltyard.data.bank import AnswerKind, Response, for_people, read_text_prompts, require_text
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


class Import:
    """The events of an import, in an order in which each may rely on those before it, and a summary."""

    def __init__(
        self,
        catalog: Catalog,
        prompt_texts: Mapping[str, str],
        answer_texts: Mapping[str, str],
        intake: FileIntake,
        code: AnswerKind | None,
    ) -> None:
        self._catalog = catalog
        self._prompt_texts = prompt_texts
        self._answer_texts = answer_texts
        self._intake = intake
        self._code = code
        self._known = set(prompt_texts)
        self._kinds: dict[str, str] = {}
        """The kind of the answers to each prompt."""
        self._words: dict[str, str] = {}
        """What new pages and drawings say, by response id."""
        self.bodies: list[e.AnyBody] = []
        self.models = self.prompts = self.answers = self.unchanged = self.empty = self.erased = self.reserved = 0
        self.unusable: list[str] = []
        """Text answers without code that can be shown, and why."""
        self.strangers: Counter[str] = Counter()
        """How many answers are left out because nobody says what was asked, by prompt."""
        self.telling: list[AnswerFlag] = []
        """New answers that name their authors, or may; the flag of each comes before the answer: it is never served."""
        self.files: dict[str, int] = {}
        """The sizes of the files that new answers name, by hash."""

    def close(self) -> None:
        self._intake.close()

    def lines(self) -> list[str]:
        lines = [
            f"{self.models} models, {self.prompts} prompts and {self.answers} answers are new or changed; "
            f"{self.unchanged} unchanged"
        ]
        if self.reserved:
            lines.append(f"{self.reserved} prompts are kept for later: `arena prompts rotate` begins to serve them")
        if self.files:
            of_kind = Counter(body.answer_kind for body in self.bodies if isinstance(body, e.ResponseAdded))
            parts = ", ".join(f"{n:,} {kind}" for kind, n in of_kind.items() if kind != AnswerKind.TEXT)
            lines.append(
                f"{parts}: cleaned, {sum(self.files.values()) / 1e6:,.1f} MB; the arena's files have "
                f"{self._intake.total / 1e6:,.1f} MB with them"
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

    def add_prompts(self, bank: Path, *, reserve: bool) -> None:
        catalog = self._catalog
        for prompt in read_text_prompts(bank, "an arena"):
            self._known.add(prompt.prompt_id)
            if not prompt.text.strip():
                raise BankError(f"{bank}: prompt {prompt.prompt_id!r} is empty. Write it, or remove it.")
            if prompt.prompt_id in catalog.erased_prompts:
                self.erased += 1
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
                text = self._prompt_texts.get(prompt.prompt_id) or ""
                if msgspec.structs.replace(catalog.prompts[number], text=text) == added:
                    self.unchanged += 1
                    continue
            self.prompts += 1
            self.bodies.append(added)
            if reserve if number is None else catalog.prompt_reserved[number]:
                self.reserved += 1
                self.bodies.append(e.PromptReserved(prompt_id=prompt.prompt_id))
            elif number is not None and not catalog.prompt_enabled[number]:
                self.bodies.append(e.PromptDisabled(prompt_id=prompt.prompt_id))  # new metadata does not re-enable it

    def add_model(self, name: str, card: ModelCard | None, *, has_answers: bool) -> None:
        """A model that is new or has changed metadata. A model card alone does not add a model."""
        catalog = self._catalog
        there = catalog.has_model(name)
        if card is None and there:
            self.unchanged += 1
            return
        facts = msgspec.structs.asdict(card or ModelCard(model=name))
        added = e.ModelAdded(**facts | {"display_name": facts["display_name"] or name})
        if there and catalog.models[catalog.model(name)] == added:
            self.unchanged += 1
            return
        if not there and not has_answers:
            raise OptionError(f"the models file describes {name!r}, which has no answers here. Import its answers too.")
        self.models += 1
        self.bodies.append(added)
        if there and not catalog.model_enabled[catalog.model(name)]:
            self.bodies.append(e.ModelDisabled(model=name))  # new metadata does not re-enable a model

    def add_answers(self, name: str, folder: Path) -> None:
        catalog = self._catalog
        for prompt_id, response in read_answers(folder, name).items():
            if response.answer_kind is AnswerKind.TEXT:
                response = for_people(response)
                require_text(response, "an arena")
            present = self._present(name, prompt_id)
            if prompt_id in catalog.erased_prompts or (
                present in catalog.withdrawn and present not in self._answer_texts
            ):
                self.erased += 1
            elif prompt_id not in self._known:
                self.strangers[prompt_id] += 1
            elif response.file:
                if response.transcript or len(response.images or ()) > (response.kind is AnswerKind.IMAGE):
                    raise BankError(f"the answer of {name!r} to {prompt_id!r} is more than a file. Split it.")
                self._check_kind(response)
                self._add_file(response, self._intake.take(folder, response))
            elif not response.response_text.strip():
                self.empty += 1
            elif self._code is not None:
                self._add_code(response, self._code)
            else:
                self._check_kind(response)
                if self._answer_texts.get(present) == response.response_text:
                    self.unchanged += 1
                else:
                    self._add_answer(response)

    def _add_code(self, response: Response, kind: AnswerKind) -> None:
        """The drawing, page or build that a text answer holds. One that cannot be shown is named, and stops nothing."""
        where = f"the answer of {response.entrant_id!r} to {response.prompt_id!r}"
        data = code_of(response.response_text, kind)
        try:
            if data is None:
                raise BankError(f"{where} holds no {kind}")
            taken = self._intake.take_bytes(data, kind, where)
        except BankError as error:
            self.unusable.append(str(error))
            return
        made = msgspec.structs.replace(response, kind=kind, response_text="")
        self._check_kind(made)
        self._add_file(made, taken)

    def _add_file(self, response: Response, taken: TakenFile) -> None:
        present = self._present(response.entrant_id, response.prompt_id)
        there, text = self._intake.answers.get(present), self._answer_texts.get(present)
        if there is not None and there.sha256 == taken.sha256 and text == response.response_text:
            self.unchanged += 1
            return
        added = self._add_answer(response, taken.sha256)
        self.files[taken.sha256] = taken.size
        self._words[added.response_id] = taken.words

    def _add_answer(self, response: Response, file: str = "") -> e.ResponseAdded:
        """A new answer. Its id is random: a fingerprint would tell who wrote a known text."""
        added = e.ResponseAdded(
            response_id=secrets.token_urlsafe(18),
            model=response.entrant_id,
            prompt_id=response.prompt_id,
            text=response.response_text,
            answer_kind=response.answer_kind.value,
            file=file,
        )
        self.answers += 1
        self.bodies.append(added)
        return added

    def _check_kind(self, response: Response) -> None:
        """Refuse an answer that differs in kind from the others to its prompt: both sides must look alike."""
        name, kind = response.prompt_id, response.answer_kind.value
        before = self._kinds.setdefault(name, self._catalog.kind_there(name) or kind)
        if before != kind:
            raise BankError(f"the answer of {response.entrant_id!r}: {kinds_differ(name, before, kind)}")

    def _present(self, model: str, prompt_id: str) -> str:
        catalog = self._catalog
        if not (catalog.has_model(model) and catalog.has_prompt(prompt_id)):
            return ""
        return catalog.response_ids.get((catalog.model(model), catalog.prompt(prompt_id)), "")

    def flag_answers(self) -> None:
        """Put a flag before each new answer that names its author, or may."""
        models = {model.model: model for model in self._catalog.models}
        models |= {body.model: body for body in self.bodies if isinstance(body, e.ModelAdded)}
        asked = {body.prompt_id: body.text for body in self.bodies if isinstance(body, e.PromptAdded)}
        asked = {**self._prompt_texts, **asked}
        self.telling = flag_answers(
            (
                body.response_id,
                models[body.model],
                asked[body.prompt_id],
                f"{body.text}\n{self._words.get(body.response_id, '')}",
            )
            for body in self.bodies
            if isinstance(body, e.ResponseAdded)
        )
        flags = {flag.response_id: flag.event for flag in self.telling}
        before = ((flags.get(getattr(body, "response_id", "")), body) for body in self.bodies)
        self.bodies = [body for pair in before for body in pair if body is not None]

    def parts(self) -> Iterator[tuple[list[e.AnyBody], list[CleanFile]]]:
        """The events, a few at a time, with the files that they name."""
        part: list[e.AnyBody] = []
        names: list[str] = []
        size = 0
        for body in self.bodies:
            name = body.file if isinstance(body, e.ResponseAdded) else ""
            more = self.files.get(name, 0)
            if part and not isinstance(part[-1], e.Flagged) and (len(part) >= AT_ONCE or size + more > BYTES_AT_ONCE):
                yield part, self._intake.load(names)
                part, names, size = [], [], 0
            part.append(body)
            names.append(name)
            size += more
        if part:
            yield part, self._intake.load(names)


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

    With `reserve`, new prompts are kept for later: not served, and their answers hidden. `code` is the kind of what
    text answers hold, if that is to be shown.
    """
    if bank is None and responses is None and cards is None:
        raise OptionError("there is nothing to import. Name prompts, responses or models.")
    catalog, rules = arena.read(lambda state: (copy.deepcopy(state.catalog), state.policy.media))
    intake = FileIntake(rules, arena.store)
    try:
        plan = Import(catalog, prompt_texts(arena.store), texts_of_answers(arena.store), intake, code)
        if bank is not None:
            plan.add_prompts(bank, reserve=reserve)
        described = {} if cards is None else read_cards(cards)
        folders: dict[str, Path] = {}
        if responses is not None and responses.is_file():
            if not (responses.name.startswith(PREFIX) and responses.name.endswith(SUFFIX)):
                raise BankError(f"{responses}: a response file is called responses_<model>.jsonl. Rename it.")
            folders[responses.name[len(PREFIX) : -len(SUFFIX)]] = responses.parent
        elif responses is not None:
            folders = dict.fromkeys(models_in(responses) if responses.is_dir() else (), responses)
            if not folders:
                raise BankError(
                    f"{responses} has no responses_<model>.jsonl. Check the path, or fill it with `tiltyard generate`."
                )
        spelled = {unicodedata.normalize("NFC", model.model): model.model for model in catalog.models}
        for name in dict.fromkeys([*folders, *described]):
            if (same := spelled.setdefault(unicodedata.normalize("NFC", name), name)) != name:
                raise BankError(f"{name!a} and {same!a} are two spellings of one model's name. Use one for both.")
            plan.add_model(name, described.get(name), has_answers=name in folders)
        for name, folder in folders.items():
            plan.add_answers(name, folder)
        for body in plan.bodies:
            check_content(body)
        plan.flag_answers()
    except BaseException:
        intake.close()
        raise
    return plan


def carry_out(arena: Arena, plan: Import) -> None:
    """Write what an import found, a part at a time, each with its files."""
    for bodies, files in plan.parts():
        arena.append(bodies, files)


def in_parts(bodies: list[Any]) -> list[list[Any]]:
    """Events, a few at a time."""
    return [bodies[start : start + AT_ONCE] for start in range(0, len(bodies), AT_ONCE)]
