"""An arena as a source: its battles, names and texts as far as they are public, its witness, and its signed head.

The battles are made from the witness, which holds only what may be public, and not from the database: so whoever has
the folder can make them again, and they cannot hold more. Of texts, which are in no witness, it has a salted digest;
the salts of those that are published lie beside them.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from tiltyard.arena import (
    NOT_BLIND,
    SHADOW_PHASE,
    PromptAdded,
    Witness,
    battle_rows,
    canonical,
    is_blind,
    published_estimator,
    read_witness,
    salted_digest,
)
from tiltyard.data.battles import read_battles
from tiltyard.errors import ArenaError, MissingExtra
from tiltyard.files import json_line
from tiltyard.options import PublishOptions
from tiltyard.reports.publish.publication import BoardRules, StaticSite, static_site

WITNESS, HEAD, SALTS = "witness.jsonl.gz", "head.json", "prompt_salts.json"
LIVE = (
    "This board is the Bradley–Terry fit of the counted votes, with the weights that the arena gives them. The arena’s "
    "own page orders models by a Glicko-2 score, which the head and the witness here prove."
)


def arena_site(db: str, options: PublishOptions) -> StaticSite:
    """What an arena publishes."""
    title = options.title or "Arena"
    lines, retired, names = _public_log(db, title)
    data = gzip.compress(b"".join(lines), mtime=0)
    asked = [(one.prompt_id, one.text, one.salt) for one in retired] if options.texts else []
    return witness_site(data, lines, replace(options, title=title), asked, names)


def witness_site(
    data: bytes,
    lines: Iterable[bytes],
    options: PublishOptions,
    asked: Iterable[tuple[str, str, str]] = (),
    names: Mapping[str, str] = MappingProxyType({}),
) -> StaticSite:
    """What an arena publishes, from its witness: battles, rules, models, blind or not.

    Parameters:
        data: The file of the witness.
        lines: Its lines.
        options: How it is published.
        asked: Prompts: id, text, and with what its digest in the witness is salted; what was not voted on is left out.
        names: Names of models as people read them, by id: the operator's word, which no witness holds.
    """
    header, witness = read_witness(lines, WITNESS)
    if witness.problems:
        raise ArenaError(f"the arena’s log contradicts itself: {witness.problems[0]}. Run `tiltyard arena verify`.")
    state = witness.state
    if state.phase == SHADOW_PHASE:
        raise ArenaError("the arena is in phase 1, which shows none of the new ratings. Publish from phase 2 on.")
    estimator = published_estimator(state.policy.intervals)
    rules = BoardRules(
        ties=options.ties,
        anchor=options.anchor,
        min_battles=options.min_battles,
        cluster=estimator.cluster,
        anytime=estimator.anytime,
        only_connected=True,
        centre=state.policy.rating.rating,
    )
    voted = {name: (text, salt) for name, text, salt in asked if witness.prompts.get(name) == salted_digest(salt, text)}
    kept = {name: voted[name] for name in witness.prompts if name in voted}
    evidence = {WITNESS: data}
    if kept:
        evidence[SALTS] = canonical({name: salt for name, (_, salt) in kept.items()})
    if header.statement is not None:
        evidence[HEAD] = json_line(header.statement)
    return static_site(
        read_battles(list(witness_rows(witness))),
        "arena",
        options.title or "Arena",
        options,
        rules,
        {name: text for name, (text, _) in kept.items()},
        about=[LIVE, *([] if is_blind(state) else [NOT_BLIND])],
        names={model.model: names[model.model] for model in state.catalog.models if model.model in names},
        blind=is_blind(state),
        evidence=evidence,
    )


def _public_log(db: str, title: str) -> tuple[list[bytes], list[PromptAdded], dict[str, str]]:
    """The witness as it is now, the prompts, in every wording, that nobody can be voting on any more, and titles."""
    try:
        from tiltyard.arena import clock
        from tiltyard.arena.audit import witness_lines
        from tiltyard.arena.store import model_titles, open_store, retired_prompts
    except ImportError:
        raise MissingExtra("the live arena", "arena") from None
    store = open_store(db)
    try:
        now = clock()
        return list(witness_lines(store, now, title)), retired_prompts(store, now), model_titles(store)
    finally:
        store.close()


def witness_rows(witness: Witness) -> Iterable[dict[str, Any]]:
    """The battles that a witness proves, as they are published."""
    state = witness.state
    for row in battle_rows(witness.votes, state.catalog, witness.table.weight.tolist()):
        yield {key: value for key, value in row.items() if key not in ("status", "unrendered")}
