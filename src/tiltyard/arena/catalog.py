"""Who and what is in the arena: models, prompts, and which model has answered which prompt. Texts stay in the store."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tiltyard.arena.events import ModelAdded, PromptAdded, ResponseAdded
from tiltyard.arena.tallies import Grid
from tiltyard.errors import ArenaError

if TYPE_CHECKING:
    from numpy.typing import NDArray


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
        self.response_ids: dict[tuple[int, int], str] = {}
        """The current answer of each (model, prompt)."""
        self.answered = Grid()
        """1 where the model has an answer to the prompt."""
        self._model_numbers: dict[str, int] = {}
        self._prompt_numbers: dict[str, int] = {}

    def model(self, name: str) -> int:
        """The number of a model."""
        try:
            return self._model_numbers[name]
        except KeyError:
            raise ArenaError(f"there is no model {name!r} in this arena. Import it first.") from None

    def prompt(self, prompt_id: str) -> int:
        """The number of a prompt."""
        try:
            return self._prompt_numbers[prompt_id]
        except KeyError:
            raise ArenaError(f"there is no prompt {prompt_id!r} in this arena. Import it first.") from None

    def has_model(self, name: str) -> bool:
        """Whether the model was ever added."""
        return name in self._model_numbers

    def has_prompt(self, prompt_id: str) -> bool:
        """Whether the prompt was ever added."""
        return prompt_id in self._prompt_numbers

    def add_model(self, added: ModelAdded) -> None:
        """Add a model, or update its metadata."""
        number = self._model_numbers.get(added.model)
        if number is None:
            self._model_numbers[added.model] = len(self.models)
            self.models.append(added)
            self.model_enabled.append(True)
            self.answered.grow(len(self.models), len(self.prompts))
        else:
            self.models[number] = added
            self.model_enabled[number] = True

    def add_prompt(self, added: PromptAdded) -> None:
        """Add a prompt, or update its metadata."""
        number = self._prompt_numbers.get(added.prompt_id)
        kept = PromptAdded(prompt_id=added.prompt_id, text="", subject=added.subject, tags=added.tags)
        if number is None:
            self._prompt_numbers[added.prompt_id] = len(self.prompts)
            self.prompts.append(kept)
            self.prompt_enabled.append(True)
            self.prompt_off_at.append(0)
            self.answered.grow(len(self.models), len(self.prompts))
        else:
            self.prompts[number] = kept
            self.prompt_enabled[number] = True

    def add_response(self, added: ResponseAdded) -> None:
        """Set a model's answer."""
        cell = (self.model(added.model), self.prompt(added.prompt_id))
        self.response_ids[cell] = added.response_id
        self.answered.view[cell] = 1

    def switch_prompt(self, prompt_id: str, *, on: bool, at: int) -> None:
        """Serve a prompt again, or stop serving it from a given time."""
        number = self.prompt(prompt_id)
        if self.prompt_enabled[number] and not on:
            self.prompt_off_at[number] = at
        self.prompt_enabled[number] = on

    def servable(self) -> NDArray[np.bool_]:
        """Which (model, prompt) may be served: both are enabled, and there is an answer."""
        return np.asarray(
            (self.answered.view > 0)
            & np.array(self.model_enabled, dtype=bool)[:, None]
            & np.array(self.prompt_enabled, dtype=bool)[None, :]
        )
