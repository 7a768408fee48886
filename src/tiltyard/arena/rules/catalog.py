"""Who and what is in the arena: models, prompts, and which model has answered which prompt. Texts stay in the store."""

from __future__ import annotations

import msgspec
import numpy as np
from numpy.typing import NDArray

from tiltyard.arena.rules.events import Erasable, ModelAdded, PromptAdded, ResponseAdded, without_text
from tiltyard.arena.rules.tallies import Grid
from tiltyard.data.bank import AnswerKind
from tiltyard.errors import ArenaError


class Catalog:
    """Models and prompts by number, in the order in which they were added; a number never changes."""

    def __init__(self) -> None:
        self.models: list[ModelAdded] = []
        self.prompts: list[PromptAdded] = []
        """Prompts without their text."""
        self.model_enabled: list[bool] = []
        self.prompt_enabled: list[bool] = []
        self.prompt_off_at: list[int] = []
        """When each prompt was last switched off; 0 if never."""
        self.prompt_reserved: list[bool] = []
        """Whether each prompt is kept for later: it is off, and its answers stay hidden."""
        self.response_ids: dict[tuple[int, int], str] = {}
        """The current answer of each (model, prompt)."""
        self.answers: dict[str, int] = {}
        """The event of every answer that was ever added, by its id; its text is there."""
        self.model_seq: list[int] = []
        """The event with the current title of each model."""
        self.prompt_seq: list[int] = []
        """The event with the current text of each prompt."""
        self.kinds: dict[int, str] = {}
        """The kind of the answers to a prompt, by its number, where they are not texts."""
        self.answered = Grid()
        """1 where the model has an answer to the prompt."""
        self.shown = Grid()
        """How often the current answer of each (model, prompt) was shown."""
        self.matchups = 0
        """How many matchups were served since the beginning."""
        self.prompt_joined: list[int] = []
        """By prompt: how many matchups had been served when it was first switched on."""
        self.resting: list[bool] = []
        """By prompt: whether it is not served because one of its answers was shown too often (`rest`)."""
        self.telling: set[str] = set()
        """The ids of the answers that say who wrote them."""
        self.answers_off: set[str] = set()
        """The ids of the answers that an administrator switched off."""
        self.withdrawn: set[str] = set()
        """The ids of the answers that were taken back or erased; they are also in `answers_off`, and stay there."""
        self.erased_prompts: set[str] = set()
        """The ids of prompts that were erased; they stay off."""
        self.hide_telling = True
        """Whether answers that say who wrote them are not served: the policy's `bank.hide_self_naming`."""
        self.revision = 0
        """A number that grows with every event that may change what is served."""
        self._model_numbers: dict[str, int] = {}
        self._prompt_numbers: dict[str, int] = {}

    def model(self, name: str) -> int:
        try:
            return self._model_numbers[name]
        except KeyError:
            raise ArenaError(f"there is no model {name!r} in this arena. Import it first.") from None

    def prompt(self, prompt_id: str) -> int:
        try:
            return self._prompt_numbers[prompt_id]
        except KeyError:
            raise ArenaError(f"there is no prompt {prompt_id!r} in this arena. Import it first.") from None

    def has_model(self, name: str) -> bool:
        return name in self._model_numbers

    def has_prompt(self, prompt_id: str) -> bool:
        return prompt_id in self._prompt_numbers

    def add_model(self, added: ModelAdded, seq: int) -> None:
        """Add a model with event `seq`, or update its metadata."""
        number = self._model_numbers.get(added.model)
        if number is None:
            number = self._model_numbers[added.model] = len(self.models)
            self.models.append(added)
            self.model_seq.append(seq)
            self.model_enabled.append(True)
            self._grow()
        self.name_model(added)
        self.model_seq[number] = seq
        self.model_enabled[number] = True

    def name_model(self, added: ModelAdded) -> None:
        """Take over the title of a model, and what else is told of it. Without a title it is called by its id."""
        title = added.display_name or added.model
        self.models[self.model(added.model)] = msgspec.structs.replace(added, display_name=title, digest="")

    def add_prompt(self, added: PromptAdded, seq: int) -> None:
        """Add a prompt with event `seq`, or update its text and metadata."""
        number = self._prompt_numbers.get(added.prompt_id)
        kept = without_text(added)
        if number is None:
            self._prompt_numbers[added.prompt_id] = len(self.prompts)
            self.prompts.append(kept)
            self.prompt_seq.append(seq)
            self.prompt_enabled.append(True)
            self.prompt_off_at.append(0)
            self.prompt_joined.append(self.matchups)
            self.prompt_reserved.append(False)
            self.resting.append(False)
            self._grow()
        else:
            self.prompts[number] = kept
            self.prompt_seq[number] = seq
            self.prompt_enabled[number] = True
            self.prompt_reserved[number] = False

    def add_response(self, added: ResponseAdded, seq: int) -> None:
        """Set a model's answer, which is event `seq`. An id that was there before has the same content."""
        self.answers.setdefault(added.response_id, seq)
        cell = (self.model(added.model), self.prompt(added.prompt_id))
        if self.response_ids.get(cell) != added.response_id:
            self.shown.view[cell] = 0
        self.response_ids[cell] = added.response_id
        if added.answer_kind != AnswerKind.TEXT:
            self.kinds[cell[1]] = added.answer_kind
        self.answered.view[cell] = 1

    def kind(self, prompt: int) -> str:
        return self.kinds.get(prompt, AnswerKind.TEXT.value)

    def kind_there(self, prompt_id: str) -> str:
        """The kind of the answers to a prompt; empty if it has none."""
        number = self._prompt_numbers.get(prompt_id)
        return "" if number is None or not self.answered.view[:, number].any() else self.kind(number)

    def switch_prompt(self, prompt_id: str, *, on: bool, at: int) -> None:
        """Serve a prompt again, or stop serving it from a given time."""
        number = self.prompt(prompt_id)
        if not on and (self.prompt_enabled[number] or self.prompt_reserved[number]):
            self.prompt_off_at[number] = at
        if on and not self.prompt_enabled[number] and not self.was_shown(number):
            self.prompt_joined[number] = self.matchups
        self.prompt_enabled[number] = on
        self.prompt_reserved[number] = False

    def reserve_prompt(self, prompt_id: str, *, at: int) -> None:
        self.switch_prompt(prompt_id, on=False, at=at)
        self.prompt_reserved[self.prompt(prompt_id)] = True

    def switch_answer(self, response_id: str, *, on: bool) -> None:
        """Stop serving an answer, or serve it again: also one that was noted to say who wrote it."""
        if on:
            self.answers_off.discard(response_id)
            self.telling.discard(response_id)
        else:
            self.answers_off.add(response_id)

    def withdraw(self, response_id: str) -> None:
        self.withdrawn.add(response_id)
        self.answers_off.add(response_id)

    def erase(self, what: Erasable, name: str, at: int) -> None:
        if what == "prompt":
            self.switch_prompt(name, on=False, at=at)
            self.erased_prompts.add(name)
        elif what == "answer":
            self.withdraw(name)
        elif what == "model":
            self.name_model(without_text(self.models[self.model(name)]))

    def was_shown(self, prompt: int) -> bool:
        return bool(self.shown.view[:, prompt].any())

    def fresh(self, until: int) -> NDArray[np.bool_] | None:
        """By prompt: whether it is fresh; None where none is.

        It joined after voting had begun, and its answers were shown less than `until` times on average.
        """
        if not any(self.prompt_joined):
            return None
        joined = np.array(self.prompt_joined) > 0
        on = np.array(self.prompt_enabled, dtype=bool)
        fresh = joined & on & (self.shown.view.sum(axis=0) < until * self.answered.view.sum(axis=0))
        return fresh if fresh.any() else None

    def rest(self, most: int, least_prompts: int) -> None:
        """Let prompts rest that have an answer shown `most` times (0: none), the most shown first.

        At least `least_prompts` prompts stay in service, where there are as many.
        """
        shown = self.shown.view.max(axis=0, initial=0).tolist()
        on = sorted(
            (p for p, enabled in enumerate(self.prompt_enabled) if enabled),
            key=lambda p: (shown[p], self.resting[p], p),
        )
        over = {p for p in on[least_prompts:] if shown[p] >= most} if most else set()
        resting = [p in over for p in range(len(self.prompts))]
        if resting != self.resting:
            self.resting = resting
            self.revision += 1

    def is_withheld(self, response_id: str) -> bool:
        """Whether this answer is not served: it was switched off, or it says who wrote it."""
        return response_id in self.answers_off or (self.hide_telling and response_id in self.telling)

    def withheld(self) -> list[tuple[int, int]]:
        """The (model, prompt) whose current answer is not served."""
        if not self.answers_off and not (self.hide_telling and self.telling):
            return []
        return [cell for cell, name in self.response_ids.items() if self.is_withheld(name)]

    def servable(self) -> NDArray[np.bool_]:
        """Which (model, prompt) may be served: both are enabled, and there is an answer that is not withheld."""
        prompts = np.array(self.prompt_enabled, dtype=bool) & ~np.array(self.resting, dtype=bool)
        cells = np.asarray(
            (self.answered.view > 0) & np.array(self.model_enabled, dtype=bool)[:, None] & prompts[None, :]
        )
        for cell in self.withheld():
            cells[cell] = False
        return cells

    def _grow(self) -> None:
        self.answered.grow(len(self.models), len(self.prompts))
        self.shown.grow(len(self.models), len(self.prompts))
