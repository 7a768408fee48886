"""What the projector writes besides the votes: catalog, standings, snapshots, marks and checkpoints."""

from __future__ import annotations

import msgspec
import numpy as np
import sqlalchemy as sa

from tiltyard.arena import events as e
from tiltyard.arena.state import ArenaState
from tiltyard.arena.store.bulk import Row, insert_rows, update_rows
from tiltyard.arena.store.state_bytes import encode_ratings, encode_state
from tiltyard.arena.store.tables import checkpoints, marks, models, prompts, responses, snapshots, standings

CHECKPOINT_EVERY = 20_000
"""Events between checkpoints: start-up folds fewer than this, and writing a checkpoint is cheap in comparison."""

CHECKPOINTS_KEPT = 2

_OF_THE_CATALOG = {
    *(e.ModelAdded, e.ModelEnabled, e.ModelDisabled, e.PromptAdded, e.PromptEnabled, e.PromptDisabled),
    *(e.PromptReserved, e.ResponseAdded),
}

Standing = tuple[float, float, float, float, int, int, int, int]

_STANDING = ("rating", "deviation", "volatility", "legacy", "wins", "losses", "ties", "both_bad")

_OF_THE_STANDINGS = {e.Voted, e.Undone, e.Excluded, e.Restored, e.SettingsChanged, e.ModelAdded}
"""Events that may move a model's ratings or counts."""


_MODEL_FACTS = ("model", "display_name", "provider", "licence", "link")
"""What the table says of a model; everything else is in the log."""


class Projections:
    """Writes the tables derived from a state, event by event, in the projector's transaction.

    Parameters:
        checkpoint_every: Events between two checkpoints of the state.
        until: The last event of a log that is known to its end: checkpoints that would be deleted again before that
            are not made.
    """

    def __init__(self, checkpoint_every: int = CHECKPOINT_EVERY, until: int = 0) -> None:
        self._every = checkpoint_every
        self._kept_from = until // checkpoint_every * checkpoint_every - checkpoint_every * (CHECKPOINTS_KEPT - 1)
        self._standings: list[Standing] | None = None
        """The current rows of `standings`."""
        self._models: set[int] = set()
        self._prompts: dict[str, e.PromptAdded] = {}
        self._prompts_turned: set[int] = set()
        self._responses: list[e.ResponseAdded] = []
        self._moved = False

    def before(self, connection: sa.Connection, state: ArenaState, event: e.Event) -> None:
        """Write rows of the history (table `snapshots`) if a new period begins: the state at the end of the last one.

        Periods follow the times in the events, and a clock that runs behind starts none, so a replay finds the same
        periods.
        """
        period = state.policy.snapshot_seconds * 1_000_000
        end = (state.latest // period + 1) * period
        if event.at >= end and state.catalog.models and state.latest:
            insert_rows(connection, snapshots, _snapshot_rows(state, end))

    def after(self, connection: sa.Connection, state: ArenaState, body: e.AnyBody) -> None:
        """Note what the event just applied has changed, and save a checkpoint if one is due."""
        if state.seq % self._every == 0:
            self._keep(connection, state)
        if type(body) in _OF_THE_STANDINGS:
            self._moved = True
        if type(body) not in _OF_THE_CATALOG:
            return
        catalog = state.catalog
        match body:
            case e.ModelAdded() | e.ModelEnabled() | e.ModelDisabled():
                self._models.add(catalog.model(body.model))
            case e.PromptAdded():
                self._prompts[body.prompt_id] = body
            case e.PromptEnabled() | e.PromptDisabled() | e.PromptReserved():
                self._prompts_turned.add(catalog.prompt(body.prompt_id))
            case e.ResponseAdded():
                self._responses.append(body)

    def after_run(self, connection: sa.Connection, state: ArenaState) -> None:
        """The same after a run of matchups and votes (`arena/folding.py`)."""
        if state.seq % self._every == 0:
            self._keep(connection, state)
        self._moved = True

    def _keep(self, connection: sa.Connection, state: ArenaState) -> None:
        connection.execute(sa.insert(marks), {"seq": state.seq, "ratings": encode_ratings(state.track.now)})
        if state.seq < self._kept_from:
            return
        connection.execute(sa.insert(checkpoints), {"seq": state.seq, "state": encode_state(state)})
        oldest = state.seq - self._every * (CHECKPOINTS_KEPT - 1)
        connection.execute(sa.delete(checkpoints).where(checkpoints.c.seq < oldest))

    def flush(self, connection: sa.Connection, state: ArenaState) -> None:
        """Write what was noted."""
        self._flush_models(connection, state)
        self._flush_prompts(connection, state)
        self._flush_responses(connection, state)
        self._flush_standings(connection, state)

    def forget(self) -> None:
        """Discard what was noted: another process wrote the tables, or the transaction failed."""
        self.__init__(self._every)  # type: ignore[misc]

    def _flush_models(self, connection: sa.Connection, state: ArenaState) -> None:
        numbers, self._models = sorted(self._models), set()
        if numbers:
            connection.execute(sa.delete(models).where(models.c.number.in_(numbers)))
            rows = [
                {
                    **{name: getattr(state.catalog.models[n], name) for name in _MODEL_FACTS},
                    "number": n,
                    "enabled": state.catalog.model_enabled[n],
                }
                for n in numbers
            ]
            connection.execute(sa.insert(models), [{**row, "enabled": int(row["enabled"])} for row in rows])

    def _flush_prompts(self, connection: sa.Connection, state: ArenaState) -> None:
        catalog = state.catalog
        added, self._prompts = self._prompts, {}
        turned, self._prompts_turned = self._prompts_turned, set()
        if added:
            rows = [
                {
                    "number": catalog.prompt(prompt.prompt_id),
                    "prompt_id": prompt.prompt_id,
                    "text": prompt.text,
                    "subject": prompt.subject,
                    "tags": msgspec.json.encode(prompt.tags).decode(),
                    "enabled": int(catalog.prompt_enabled[catalog.prompt(prompt.prompt_id)]),
                }
                for prompt in added.values()
            ]
            connection.execute(
                sa.delete(prompts).where(prompts.c.number == sa.bindparam("n")), [{"n": row["number"]} for row in rows]
            )
            connection.execute(sa.insert(prompts), rows)
        for number in sorted(turned):
            enabled = int(catalog.prompt_enabled[number])
            connection.execute(sa.update(prompts).where(prompts.c.number == number).values(enabled=enabled))

    def _flush_responses(self, connection: sa.Connection, state: ArenaState) -> None:
        added, self._responses = self._responses, []
        rows = {
            response.response_id: {
                "response_id": response.response_id,
                "model": state.catalog.model(response.model),
                "prompt": state.catalog.prompt(response.prompt_id),
                "text": response.text,
                "kind": response.answer_kind,
                "file": response.file,
            }
            for response in added
        }
        if rows:
            connection.execute(
                sa.delete(responses).where(responses.c.response_id == sa.bindparam("name")),
                [{"name": name} for name in rows],
            )
            connection.execute(sa.insert(responses), list(rows.values()))

    def _flush_standings(self, connection: sa.Connection, state: ArenaState) -> None:
        if not self._moved:
            return
        there = self._standings
        if there is None:
            rows = connection.execute(sa.select(standings).order_by(standings.c.model))
            there = [tuple(row[1:]) for row in rows]
        now = _standings_of(state)
        insert_rows(connection, standings, [(number, *now[number]) for number in range(len(there), len(now))])
        moved = [(number, *row) for number, row in enumerate(now[: len(there)]) if row != there[number]]
        update_rows(connection, standings, ("model",), _STANDING, moved)
        self._standings, self._moved = now, False


def _standings_of(state: ArenaState) -> list[Standing]:
    now, tallies = state.track.now, state.tallies
    wins = tallies.wins.view
    counts = (wins.sum(axis=1), wins.sum(axis=0), tallies.ties.view.sum(axis=1), tallies.both_bad.view.sum(axis=1))
    return list(zip(*(column.tolist() for column in (*now.columns(), *counts)), strict=True))


def _snapshot_rows(state: ArenaState, at: int) -> list[Row]:
    """Every model's entry in the history: ratings, coverage as two counts, and votes by kind."""
    now, tallies = state.track.now, state.tallies
    active = np.array(state.catalog.prompt_enabled, dtype=bool)
    columns = {
        "rating": now.rating,
        "deviation": now.deviation,
        "covered_prompts": (tallies.decisive_on.view[:, active] >= state.policy.prompt_floor).sum(axis=1),
        "decisive": tallies.decisive,
        "rated": tallies.rated,
        "both_bad": tallies.both_bad.view.sum(axis=1),
    }
    models = len(state.catalog.models)
    lists = {name: column.tolist() for name, column in columns.items()}
    same = {"at": at, "seq": state.seq, "active_prompts": int(active.sum())}
    lists |= {"model": list(range(models)), **{name: [value] * models for name, value in same.items()}}
    return list(zip(*(lists[column.name] for column in snapshots.c), strict=True))
