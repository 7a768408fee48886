"""The demo's bank as a live arena: a SQLite file that people can vote in."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

from tiltyard.demo.shipped import BANK, CARDS, RESPONSES
from tiltyard.errors import MissingExtra

if TYPE_CHECKING:
    from pathlib import Path

DATABASE = "arena.db"
NOTICE = "Recorded answers of small models: a demo, not a finding."


def address(folder: Path) -> str:
    """The URL of the demo's arena."""
    return f"sqlite:///{folder / DATABASE}"


def fill_arena(folder: Path) -> list[str]:
    """Make the arena of a demo's folder, or add to it what is new; what a person should know.

    Votes that were cast there stay.
    """
    if find_spec("sqlalchemy") is None or find_spec("alembic") is None:
        raise MissingExtra("the live arena", "arena")
    from tiltyard.arena.events import PhaseChanged, SettingsChanged
    from tiltyard.arena.importing import in_parts, plan_import
    from tiltyard.arena.policy import Policy
    from tiltyard.arena.service import Arena
    from tiltyard.arena.store import Store, site_texts
    from tiltyard.arena.store.reading import prompt_texts

    url = address(folder)
    there = (folder / DATABASE).exists()
    with Arena(Store.open(url) if there else Store.create(url)) as arena:
        if not there:
            arena.append([SettingsChanged(policy=Policy()), PhaseChanged(phase=4)])
            site_texts.set_notice(arena.store, NOTICE)
        texts = prompt_texts(arena.store)
        plan = arena.read(
            lambda state: plan_import(
                state.catalog, texts, bank=folder / BANK, responses=folder / RESPONSES, cards=folder / CARDS
            )
        )
        for part in in_parts(plan.bodies):
            arena.append(part)
        servable = arena.read(lambda state: int((state.catalog.servable().sum(axis=0) >= 2).sum()))
    said = ["an arena is there and stays, with its votes"] if there else []
    return [*said, *plan.lines(), f"{servable} prompts can be voted on"]
