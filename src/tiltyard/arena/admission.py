"""What may be written to the log by hand: events that the state can take in, whatever else is going on.

Nothing is ever removed from the catalog, so what is found right here is still right when the event is chained.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tiltyard.arena import events as e
from tiltyard.arena.policy import PHASES
from tiltyard.errors import ArenaError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tiltyard.arena.state import ArenaState

BY_VOTERS = (e.MatchupServed, e.Voted, e.Revealed, e.Skipped, e.Expired, e.Undone)


class Admission:
    """Looks at events one after the other; each may rely on those before it."""

    def __init__(self, state: ArenaState) -> None:
        self._state = state
        self._models: set[str] = set()
        self._prompts: set[str] = set()

    def check(self, bodies: Iterable[e.AnyBody]) -> None:
        """Fail with what to do at the first event that makes no sense."""
        for body in bodies:
            self._check(body)

    def _check(self, body: e.AnyBody) -> None:
        if isinstance(body, BY_VOTERS):
            raise ArenaError(
                f"{type(body).__name__} is not written by hand: serve, vote, reveal, skip or undo instead."
            )
        match body:
            case e.PhaseChanged() if body.phase not in PHASES:
                raise ArenaError(f"there is no phase {body.phase}; the phases are 1 to {PHASES[-1]}.")
            case e.ModelAdded():
                _check_texts(
                    f"model {body.model!r}", body.model, body.display_name, body.provider, body.licence, body.link
                )
                self._models.add(body.model)
            case e.PromptAdded():
                _check_texts(f"prompt {body.prompt_id!r}", body.prompt_id, body.text, body.subject or "", *body.tags)
                self._prompts.add(body.prompt_id)
            case e.ResponseAdded():
                _check_texts(f"response {body.response_id!r}", body.response_id, body.text)
                self._need_model(body.model)
                self._need_prompt(body.prompt_id)
            case e.ModelEnabled() | e.ModelDisabled():
                self._need_model(body.model)
            case e.PromptEnabled() | e.PromptDisabled():
                self._need_prompt(body.prompt_id)
            case e.Excluded() | e.Restored():
                self._need_votes(body.matchup_ids)

    def _need_model(self, name: str) -> None:
        if name not in self._models:
            self._state.catalog.model(name)

    def _need_prompt(self, prompt_id: str) -> None:
        if prompt_id not in self._prompts:
            self._state.catalog.prompt(prompt_id)

    def _need_votes(self, matchup_ids: tuple[str, ...]) -> None:
        known = {vote.matchup_id for vote in self._state.book.find(matchup_ids)}
        missing = [name for name in matchup_ids if name not in known]
        if missing:
            raise ArenaError(f"{len(missing)} of {len(matchup_ids)} matchups have no vote, such as {missing[0]!r}.")


def _check_texts(what: str, name: str, *texts: str) -> None:
    if not name:
        raise ArenaError(f"{what} has an empty name. Give it one.")
    for text in (name, *texts):
        if "\x00" in text or (not text.isascii() and any("\ud800" <= letter <= "\udfff" for letter in text)):
            raise ArenaError(f"{what} contains a NUL character or half a surrogate pair. Remove it; it is no text.")
