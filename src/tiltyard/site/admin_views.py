"""What the pages of `/admin` show of the state: small values, copied while the writer waits."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from msgspec.structs import replace

from tiltyard.arena import ArenaState, Limits, counted_votes, public_prompts
from tiltyard.arena import events as e
from tiltyard.arena.store import ReportedAnswer, Store, answers_by_id, files_of, latest_comments, reported_answers
from tiltyard.errors import OptionError
from tiltyard.site.answer_files import PublicAnswer
from tiltyard.site.answer_links import AnswerLinks
from tiltyard.site.text import rendered_answer

EXCERPT = 160
LIMIT_MOST = 1_000_000

ACTIONS = (
    *("settings_changed", "phase_changed", "model_enabled", "model_disabled", "prompt_enabled", "prompt_disabled"),
    *("prompt_reserved", "response_enabled", "response_disabled", "response_withdrawn", "erased"),
    *("excluded", "restored", "flagged"),
)
"""Kinds of events caused by administrators, without the hundreds of events of an import."""


class SwitchLine(msgspec.Struct, frozen=True):
    """A model or a prompt, with a switch."""

    name: str
    title: str
    note: str
    enabled: bool
    answers: int
    votes: int
    public: bool = False
    """Whether its answers are public: for a retired prompt, and for every prompt of an arena that is not blind."""
    erased: bool = False
    """Whether the text of a prompt is gone, which is for good."""


def arena_size(state: ArenaState) -> dict[str, int]:
    """How large the arena is now."""
    return {
        "models": len(state.catalog.models),
        "models_on": sum(state.catalog.model_enabled),
        "prompts": len(state.catalog.prompts),
        "prompts_on": sum(state.catalog.prompt_enabled),
        "votes": counted_votes(state),
        "phase": state.phase,
    }


def model_lines(state: ArenaState) -> list[SwitchLine]:
    """Every model, in the order in which they were added."""
    catalog, tallies = state.catalog, state.tallies
    votes = tallies.rated + tallies.both_bad.view.sum(axis=1)
    answers = catalog.answered.view.sum(axis=1)
    return [
        SwitchLine(
            name=facts.model,
            title=facts.display_name,
            note=facts.provider,
            enabled=catalog.model_enabled[number],
            answers=int(answers[number]),
            votes=int(votes[number]),
        )
        for number, facts in enumerate(catalog.models)
    ]


def prompt_lines(state: ArenaState) -> list[SwitchLine]:
    """Every prompt, without its text."""
    catalog, tallies, public = state.catalog, state.tallies, public_prompts(state)
    votes = (tallies.rated_on.view.sum(axis=0) + tallies.both_bad_on.view.sum(axis=0)) // 2
    answers = catalog.answered.view.sum(axis=0)
    return [
        SwitchLine(
            name=facts.prompt_id,
            title="",
            note=", ".join(filter(None, (facts.subject, *facts.tags))),
            enabled=catalog.prompt_enabled[number],
            answers=int(answers[number]),
            votes=int(votes[number]),
            public=number in public,
            erased=facts.prompt_id in catalog.erased_prompts,
        )
        for number, facts in enumerate(catalog.prompts)
    ]


def withheld_answers(state: ArenaState) -> set[str]:
    """The ids of the current answers that are not served."""
    return {state.catalog.response_ids[cell] for cell in state.catalog.withheld()}


def excerpt(text: str) -> str:
    """The beginning of a text, in one line."""
    line = " ".join(text[: 4 * EXCERPT].split())
    return line if len(line) <= EXCERPT else f"{line[:EXCERPT]}…"


def limits_from(form: Mapping[str, str]) -> Limits:
    """The limits in a form; anything but a number from 1 on is refused by name."""
    values: dict[str, int] = {}
    for name in Limits.__struct_fields__:
        text = form.get(name, "").strip()
        if not (text.isascii() and text.isdigit() and len(text) < 8 and 1 <= int(text) <= LIMIT_MOST):
            raise OptionError(f"{name} is {text[:20]!r}; write a whole number from 1 to {LIMIT_MOST:,}.")
        values[name] = int(text)
    return Limits(**values)


def report_lines(store: Store, off: list[str]) -> dict[str, object]:
    """What visitors reported, the answers that are switched off, and how each begins."""
    reported, switched = reported_answers(store), answers_by_id(store, off)
    excerpts = {line.response_id: excerpt(line.text) for line in (*reported, *switched)}
    return {"reported": reported, "off": switched, "excerpts": excerpts, "comments": latest_comments(store)}


def one_answer(store: Store, links: AnswerLinks, name: str) -> tuple[ReportedAnswer, PublicAnswer]:
    """An answer with its author, and as voters see it; an id that nothing has is an `OptionError`."""
    result = [] if "\x00" in name else answers_by_id(store, [name])
    if not result:
        raise OptionError("there is no such answer. Open it from the list.")
    answer = PublicAnswer(rendered_answer(result[0].text))
    file = files_of(store, [name]).get(name)
    return result[0], answer if file is None else replace(
        answer, kind=file.kind, url=links.operator_url(name, file.kind)
    )


def event_label(body: e.AnyBody) -> tuple[str, str]:
    """A description of an event for a list: the key of a sentence, and its subject."""
    kind = str(body.__struct_config__.tag)
    match body:
        case e.PhaseChanged():
            return kind, str(body.phase)
        case e.ModelEnabled() | e.ModelDisabled():
            return kind, body.model
        case e.PromptEnabled() | e.PromptDisabled() | e.PromptReserved():
            return kind, body.prompt_id
        case e.ResponseEnabled() | e.ResponseDisabled() | e.ResponseWithdrawn():
            return kind, body.response_id
        case e.Excluded() | e.Restored():
            return kind, f"{len(body.matchup_ids):,}: {body.reason}"
        case e.Erased():
            return kind, f"{body.what} {body.subject_id}"
        case e.Flagged():
            return kind, f"{body.subject} {body.subject_id}: {body.flag}"
    return kind, ""
