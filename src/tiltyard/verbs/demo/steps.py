"""The demo: its material, a tournament on recorded verdicts, a live arena, a small model that answers and judges."""

from __future__ import annotations

import asyncio
import tarfile
from collections.abc import Callable, Iterator
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec

from tiltyard.data.bank import read_objects, read_prompts, responses_path, stratified_subset
from tiltyard.errors import MissingExtra, OptionError, TiltyardError
from tiltyard.files import copy_file, write_bytes
from tiltyard.judge.llm import Generated, generate, make_provider, parse_model_name, weights_of
from tiltyard.judge.tournament import RunResult as RunResult
from tiltyard.judge.tournament import asking_parts, load_setup
from tiltyard.judge.tournament import board_text as board_text
from tiltyard.judge.tournament import passes as passes
from tiltyard.judge.tournament import verdict_lines as verdict_lines
from tiltyard.verbs.generate import entrant_settings
from tiltyard.verbs.run import run

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

NOTE = "recorded verdicts of a small local model: a demo, not a finding"
"""Shown on everything that the demo prints and writes."""

CONFIG = "tournament.yaml"
BANK = "bank.jsonl"
RESPONSES = "responses"
CARDS = "models.yaml"
VERDICTS = "verdicts.jsonl"
PROVENANCE = "provenance.json"


class Copied(msgspec.Struct, frozen=True):
    """The result of copying: files written, files that existed, and those of them that differ from the shipped ones."""

    folder: Path
    written: int
    kept: int
    changed: tuple[str, ...] = ()

    def line(self) -> str:
        if not self.kept:
            return f"{self.written} files copied to {self.folder}"
        sentence = f"{self.kept} files exist already and are kept"
        if self.written:
            sentence += f", {self.written} are new"
        if self.changed:
            sentence += f"; not as shipped: {', '.join(self.changed)}"
        return sentence


def copy_material(folder: Path) -> Copied:
    """Copy the material into a new or empty folder; in the folder of an earlier demo, only what is missing."""
    if folder.exists() and not folder.is_dir():
        raise OptionError(f"{folder} is a file. Choose another folder.")
    if folder.is_dir() and any(folder.iterdir()) and not (folder / PROVENANCE).is_file():
        raise OptionError(f"{folder} holds other things. Choose a new or empty folder.")
    written, kept, changed = 0, 0, []
    for name, source in sorted(shipped()):
        target = folder / name
        if target.exists():
            kept += 1
            changed += [name] if target.read_bytes() != source.read_bytes() else []
            continue
        try:
            write_bytes(target, source.read_bytes())
        except OSError as error:
            raise TiltyardError(
                f"cannot write {target}: {error.strerror or error}. Make room, or choose another folder."
            ) from None
        written += 1
    return Copied(folder, written, kept, tuple(changed))


def shipped(folder: Traversable | None = None, prefix: str = "") -> Iterator[tuple[str, Traversable]]:
    """Every file of the material, by its path in the folder."""
    for entry in (folder or files("tiltyard.verbs.demo").joinpath("material")).iterdir():
        if entry.is_dir():
            yield from shipped(entry, f"{prefix}{entry.name}/")
        else:
            yield f"{prefix}{entry.name}", entry


MadeKind = Literal["voxel", "svg", "html"]
"""What the answers of a gallery are."""

DATABASE = "arena.db"
MADE = "Made by scripts of this project, not by models: a demo, not a finding."
NOTICE = "Recorded answers of small models: a demo, not a finding."


def load_facts(folder: Path) -> dict[str, int]:
    """The material of a folder in figures."""
    bank = read_prompts(folder / BANK)
    recorded = read_objects(folder / VERDICTS, "file of recorded verdicts")
    return {
        "prompts": len(bank),
        "sources": len({prompt.source for prompt in bank}),
        "entrants": len(load_setup(folder / CONFIG).entrant_ids),
        "verdicts": sum(len(row.get("raw") or ()) for _, row in recorded),
    }


def run_line(finished: RunResult) -> str:
    """A run in one line: judgments, decisive ones, those that changed with the order, failures."""
    pairs = [pair for standing in finished.standings.values() for pair in standing.pairs]
    settled = sum(pair.a_wins + pair.b_wins + pair.ties for pair in pairs)
    decisive = sum(standing.n_decisive for standing in finished.standings.values())
    flipped = sum(pair.inconsistent for pair in pairs)
    cases = sum(stats.cases for stats in finished.judged.stats.values())
    return (
        f"{cases:,} judgments in both orders: {decisive:,} decisive, {flipped:,} changed with the order, "
        f"{settled - decisive - flipped:,} ties, {cases - settled:,} failed"
    )


def address(folder: Path) -> str:
    """The URL of the demo's arena."""
    return f"sqlite:///{folder / DATABASE}"


def fill_arena(folder: Path, notice: str = NOTICE) -> list[str]:
    """Create the arena of a demo's folder, or add what is new, keeping its votes; returns messages for the user."""
    if find_spec("psycopg") is None or find_spec("uvicorn") is None:
        raise MissingExtra("the live arena", "arena")
    from tiltyard.arena import Arena, DefenceRules, PhaseChanged, Policy, SettingsChanged, carry_out, prepare_import
    from tiltyard.arena.store import Store, site_texts

    url = address(folder)
    there = (folder / DATABASE).exists()
    with Arena(Store.open(url) if there else Store.create(url)) as arena:
        if not there:
            at_once = Policy(defences=DefenceRules(publish_seconds=5))  # who tries it wants to see what a vote does
            arena.append([SettingsChanged(policy=at_once), PhaseChanged(phase=4)])
            site_texts.set_site_text(arena.store, "notice", notice)
        plan = prepare_import(arena, bank=folder / BANK, responses=folder / RESPONSES, cards=folder / CARDS)
        carry_out(arena, plan)
        plan.close()
        servable = arena.read(lambda state: int((state.catalog.servable().sum(axis=0) >= 2).sum()))
    lines = ["the existing arena is kept, with its votes"] if there else []
    return [*lines, *plan.lines(), f"{servable} prompts can be voted on"]


def gallery(kind: MadeKind) -> Iterator[tuple[str, bytes]]:
    """The shipped files of an arena of one kind, by their paths, the bank last: five builders answer six prompts."""
    with (
        files("tiltyard.verbs.demo").joinpath("galleries.tar.xz").open("rb") as packed,
        tarfile.open(fileobj=packed) as tar,
    ):
        for member in tar:
            content = tar.extractfile(member)
            if content is not None and member.name.startswith(f"{kind}/"):
                yield member.name.removeprefix(f"{kind}/"), content.read()


def write_gallery(folder: Path, kind: MadeKind) -> str:
    """Write a bank whose answers are files, as `arena import` takes it, with its models; returns what was written."""
    if folder.exists() and (not folder.is_dir() or (any(folder.iterdir()) and not (folder / BANK).is_file())):
        raise OptionError(f"{folder} holds other things. Choose a new or empty folder.")
    for name, content in gallery(kind):
        write_bytes(folder / name, content)
    return f"5 builders answered 6 prompts: 30 {kind} files"


LIVE_CONFIG, LIVE_FOLDER = "live.yaml", "live"
NEWCOMER, MODEL = "smollm2-live", "local/smollm2-135m"


def run_live(folder: Path, notice: Callable[[str], None]) -> tuple[Generated, RunResult]:
    """Have the newcomer answer the pilot's prompts here and now, and judge it against a recorded entrant.

    What an earlier run answered and judged is kept. Without the [local] extra this is a `MissingExtra`.
    """
    weights_of(parse_model_name(MODEL).model)
    for entrant in load_setup(folder / LIVE_CONFIG).config.entrants:  # the arena's own folder stays as it is
        recorded = responses_path(folder / RESPONSES, entrant.entrant_id)
        lent = responses_path(folder / LIVE_FOLDER / RESPONSES, entrant.entrant_id)
        if recorded.exists() and not lent.exists():
            copy_file(recorded, lent)
    generated = asyncio.run(_answer(folder / LIVE_CONFIG, notice))
    return generated, run(folder / LIVE_CONFIG, mode="pilot", output_dir=folder / LIVE_FOLDER)


async def _answer(config: Path, notice: Callable[[str], None]) -> Generated:
    setup = load_setup(config)
    newcomer = next(entrant for entrant in setup.config.entrants if entrant.entrant_id == NEWCOMER)
    settings = setup.config.prompts
    prompts = stratified_subset(read_prompts(setup.bank_path), size=settings.pilot_size, seed=settings.pilot_seed)
    asking = asking_parts(setup, notice, budget_usd=None, max_batch=None)
    provider = make_provider(parse_model_name(MODEL), env={})
    try:
        return await generate(entrant_settings(newcomer, setup), prompts, setup.responses_dir, provider, asking)
    finally:
        await provider.aclose()
