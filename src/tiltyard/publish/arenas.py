"""An arena as a source: its battles, names and texts as far as they are public, its witness, and its signed head.

The battles are made from the witness, which holds only what may be public, and not from the database: so whoever has
the folder can make them again, and they cannot hold more. Of texts, which are in no witness, it has a salted digest;
the salts of those that are published lie beside them.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import msgspec

from tiltyard.arena.blindness import NOT_BLIND, is_blind
from tiltyard.arena.board import SHADOW_PHASE
from tiltyard.arena.chain import salted_digest
from tiltyard.arena.events import PromptAdded
from tiltyard.arena.offline import published_estimator
from tiltyard.arena.public_rows import canonical
from tiltyard.arena.votes import battle_rows
from tiltyard.arena.witness import Witness, read_witness
from tiltyard.battles.reading import read_battles
from tiltyard.errors import ArenaError, MissingExtra
from tiltyard.files import json_line
from tiltyard.publish.publication import PublishOptions, StaticSite, static_site

WITNESS, HEAD, SALTS = "witness.jsonl.gz", "head.json", "prompt_salts.json"
LIVE = (
    "This board is the Bradley–Terry fit of the counted votes, with the weights that the arena gives them. The arena’s "
    "own page orders models by a Glicko-2 score, which the head and the witness here prove."
)
COLUMNS = ("question_id", "voter", "timestamp")


def arena_site(db: str, options: PublishOptions) -> StaticSite:
    """What an arena publishes."""
    title = options.title or "Arena"
    lines, retired = _public_log(db, title)
    header, witness = read_witness(lines, db.rpartition("@")[2])
    if witness.problems:
        raise ArenaError(f"the arena’s log contradicts itself: {witness.problems[0]}. Run `tiltyard arena verify`.")
    state = witness.state
    if state.phase == SHADOW_PHASE:
        raise ArenaError("the arena is in phase 1, which shows none of the new ratings. Publish from phase 2 on.")
    estimator = published_estimator(state.policy.intervals)
    rules = msgspec.structs.replace(
        options.rules,
        cluster=estimator.cluster,
        anytime=estimator.anytime,
        only_connected=True,
        centre=state.policy.rating.rating,
    )
    voted = [one for one in retired if witness.prompts.get(one.prompt_id) == salted_digest(one.salt, one.text)]
    allowed = {one.prompt_id: one.text for one in voted} if options.texts else {}
    extra = {WITNESS: gzip.compress(b"".join(lines), mtime=0)}
    if allowed:
        extra[SALTS] = canonical({one.prompt_id: one.salt for one in voted})
    if header.statement is not None:
        extra[HEAD] = json_line(header.statement)
    return static_site(
        read_battles(list(witness_rows(witness))),
        "arena",
        title,
        replace(options, rules=rules),
        allowed,
        [LIVE, *([] if is_blind(state) else [NOT_BLIND])],
        names={model.model: model.display_name for model in state.catalog.models if model.display_name != model.model},
        blind=is_blind(state),
        extra=extra,
        statement=header.head,
    )


def _public_log(db: str, title: str) -> tuple[list[bytes], list[PromptAdded]]:
    """The witness as it is now, and the prompts, in every wording, that nobody can be voting on any more."""
    try:
        from tiltyard.arena.service import clock
        from tiltyard.arena.store import Store
        from tiltyard.arena.store.reading import retired_prompts
        from tiltyard.arena.store.witnessing import witness_lines
    except ImportError:
        raise MissingExtra("the live arena", "arena") from None
    store = Store.open(db)
    try:
        now = clock()
        return list(witness_lines(store, now, title)), retired_prompts(store, now)
    finally:
        store.close()


def witness_rows(witness: Witness) -> Iterable[dict[str, Any]]:
    """The battles that a witness proves, as they are published."""
    state = witness.state
    for row in battle_rows(witness.votes, state.catalog, witness.table.weight.tolist()):
        yield {key: value for key, value in row.items() if key not in ("status", "unrendered")}


def witness_differences(data: bytes, rows: Iterable[dict[str, Any]]) -> list[str]:
    """Where published battles are not those of the witness beside them, a line each."""
    _, witness = read_witness(gzip.decompress(data).splitlines(keepends=True), WITNESS)
    expected, published = list(witness_rows(witness)), list(rows)
    if len(expected) != len(published):
        return [f"battles.jsonl has {len(published):,} battles, the witness proves {len(expected):,} votes"]
    differences = []
    for number, (one, other) in enumerate(zip(expected, published, strict=True), start=1):
        for key, value in one.items():
            if other.get(key, 1.0 if key == "weight" else None) != value:
                differences.append(f"battle {number:,}: {key} is {other.get(key)!r}, the witness proves {value!r}")
                break
    return differences[:20]


def text_differences(witness: Witness, texts: Mapping[str, str], salts: Mapping[str, str]) -> list[str]:
    """Where published texts of prompts are not those that were voted on, a line each."""
    return [
        f"the text of prompt {name} is not the one that was voted on"
        for name, text in texts.items()
        if witness.prompts.get(name) != salted_digest(salts.get(name, ""), text)
    ]
