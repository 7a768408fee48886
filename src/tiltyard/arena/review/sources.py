"""What a review is made of: battles with their answers, a folder of answers, or two answer files.

Of these matchups all are reviewed, or a random draw, with the probability that each had of being drawn.
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec
import numpy as np

from tiltyard.arena import models_in, opened_source, read_answers
from tiltyard.data.bank import (
    AnswerKind,
    Response,
    collect_answers,
    for_people,
    read_answer_file,
    read_objects,
    read_prompt_file,
    read_prompts,
)
from tiltyard.data.battles import Dialogue, read_dialogue
from tiltyard.errors import BankError, OptionError

DrawMethod = Literal["simple", "by-pair"]

MOST_BYTES = 2 << 30
"""How large a zip file of answers may be."""


class Candidate(msgspec.Struct, frozen=True):
    """A matchup that could be reviewed: two models' answers to a prompt, and what they are to be judged by."""

    prompt_id: str
    first: str
    second: str
    prompt: str
    answers: tuple[Response, Response]
    dimension: str = ""


class ReviewSource(msgspec.Struct, frozen=True):
    """Everything that could be reviewed, the rubric of each dimension, and the judge's battles if there are any."""

    candidates: list[Candidate]
    rubrics: dict[str, str] = {}
    judged: Path | None = None
    folder: Path | None = None
    """Where the files of answers are that are no texts."""
    notes: list[str] = []


def read_source(places: Sequence[Path], *, dimension: str | None = None, prompts: Path | None = None) -> ReviewSource:
    """What is in these places: one file of battles or folder of answers; or two answer files.

    Only a run folder has dimensions. `prompts` are those of answer files that do not say what was asked.
    """
    for place in places:
        if not place.exists():
            raise OptionError(f"there is nothing at {place}. Give a run folder, a file of battles, or answer files.")
    if len(places) > 1:
        return _of_answer_files(places, prompts)
    if prompts is not None:
        raise OptionError("a file of prompts is for answer files: leave it out, or give two answer files.")
    (place,) = places
    if dimension is not None:
        raise OptionError(f"{place} is no run folder, so it has no dimension {dimension!r}.")
    if place.is_dir() or place.suffix.lower() == ".zip":
        return _of_folder(place)
    return _of_battles(place)


def _of_battles(path: Path) -> ReviewSource:
    """The battles of a JSON Lines file that say what was asked and answered."""
    result, seen = ReviewSource([], judged=path), set[tuple[str, ...]]()
    without = 0
    for number, row in read_objects(path, "file of battles or answers"):
        first, second = row.get("model_a"), row.get("model_b")
        if not isinstance(first, str) or not isinstance(second, str):
            raise OptionError(
                f"{path}:{number}: a single file is reviewed as battles with model_a, model_b, response_a and "
                "response_b. Give two answer files to compare their answers."
            )
        told = _said(row)
        if told is None or first == second:
            without += 1
            continue
        prompt, answer_a, answer_b = told
        prompt_id = str(row.get("question_id") or row.get("prompt_id") or prompt)
        key = (str(row.get("dimension") or ""), prompt_id, *sorted((first, second)))
        if key in seen:
            continue
        seen.add(key)
        answers = (
            Response(entrant_id=first, prompt_id=prompt_id, response_text=answer_a),
            Response(entrant_id=second, prompt_id=prompt_id, response_text=answer_b),
        )
        result.candidates.append(Candidate(prompt_id, first, second, prompt, answers, key[0]))
    if not result.candidates:
        raise OptionError(
            f"{path}: no row says what was answered: response_a and response_b, or conversation_a and conversation_b."
        )
    if without:
        result.notes.append(f"{without:,} battles without their answers, or of a model with itself, cannot be reviewed")
    return result


def _said(row: dict[str, object]) -> tuple[str, str, str] | None:
    a, b = row.get("response_a"), row.get("response_b")
    if isinstance(a, str) and isinstance(b, str):
        prompt = row.get("prompt") or row.get("prompt_text") or ""
        return str(prompt), a, b
    both = [read_dialogue(row.get(name), "all") for name in ("conversation_a", "conversation_b")]
    if not all(isinstance(one, Dialogue) for one in both):
        return None
    one, two = (list(zip(talk.turns, talk.replies, strict=True)) for talk in both if isinstance(talk, Dialogue))
    same = 0
    while same < min(len(one), len(two)) - 1 and one[same] == two[same]:
        same += 1
    before = one[: same + 1] if one[same][0] == two[same][0] else one[:same]
    asked = [f"User:\n{said}\n\nAssistant:\n{reply}" for said, reply in before[:-1]] + [said for said, _ in before[-1:]]
    return "\n\n".join(asked), _rest(one[same:]), _rest(two[same:])


def _rest(turns: list[tuple[str, str]]) -> str:
    """The reply to the first turn and the whole of those after it."""
    first = turns[0][1]
    return "\n\n".join([first, *(f"User:\n{said}\n\nAssistant:\n{reply}" for said, reply in turns[1:])])


def _of_answer_files(places: Sequence[Path], prompt_file: Path | None) -> ReviewSource:
    files = [file for place in places for file in read_answer_file(place)]
    collection = collect_answers(files, None if prompt_file is None else read_prompt_file(prompt_file))
    answers = {
        name: {key: Response(entrant_id=name, prompt_id=key, response_text=text) for key, text in mine.items()}
        for name, mine in collection.answers.items()
    }
    prompts = {prompt.prompt_id: prompt.whole_text for prompt in collection.prompts}
    return _pairs(prompts, answers, ReviewSource([], notes=list(collection.notes)))


def _of_folder(place: Path) -> ReviewSource:
    """All pairs of models on every prompt of a folder of answers, as `arena import` reads it."""
    if place.suffix.lower() == ".zip":
        raise OptionError(f"{place}: unpack it first; a review keeps no copy of the folder.")
    with opened_source(place, MOST_BYTES) as found:
        if found.responses is None or found.prompts is None:
            raise BankError(f"{place} has no prompts.jsonl with answers beside it. See docs/how-to/review.md.")
        prompts = {prompt.prompt_id: prompt.whole_text for prompt in read_prompts(found.prompts)}
        answers = {model: read_answers(found.responses, model) for model in models_in(found.responses)}
        return _pairs(prompts, answers, ReviewSource([], folder=found.responses))


def _pairs(prompts: dict[str, str], answers: dict[str, dict[str, Response]], result: ReviewSource) -> ReviewSource:
    if len(answers) < 2:
        raise OptionError("a review needs the answers of two models. Give two answer files.")
    for prompt_id, text in prompts.items():
        there = [name for name in answers if prompt_id in answers[name]]
        for first, second in itertools.combinations(there, 2):
            pair = tuple(
                for_people(one) if one.answer_kind is AnswerKind.TEXT else one
                for one in (answers[first][prompt_id], answers[second][prompt_id])
            )
            if pair[0].answer_kind is pair[1].answer_kind:
                result.candidates.append(Candidate(prompt_id, first, second, text, (pair[0], pair[1])))
    if not result.candidates:
        raise OptionError("no prompt was answered by two models in the same kind. Check the ids of the prompts.")
    return result


class Drawn(NamedTuple):
    """One matchup that was drawn: its place among all, and how probable that was."""

    place: int
    probability: float


def draw(strata: Sequence[Hashable], n: int | None, method: DrawMethod, rng: np.random.Generator) -> list[Drawn]:
    """N of the matchups in random order; all of them if there are no more, or if n is None.

    `by-pair` draws from each stratum (a pair of models) in proportion to its size; what does not divide evenly goes to
    strata at random. So every matchup has the same probability, as people's labels need it, and no pair is forgotten.
    `strata` has the stratum of each matchup.
    """
    total = len(strata)
    if n is not None and n < 1:
        raise OptionError(f"{n} matchups cannot be reviewed. Say at least 1, or leave it out for all of them.")
    if n is None or n >= total:
        return [Drawn(int(place), 1.0) for place in rng.permutation(total)]
    if method == "simple":
        return [Drawn(int(place), n / total) for place in rng.choice(total, n, replace=False)]
    members: dict[Hashable, list[int]] = {}
    for place, stratum in enumerate(strata):
        members.setdefault(stratum, []).append(place)
    sizes = np.array([len(places) for places in members.values()], dtype=np.float64)
    shares = n * sizes / total
    places = np.floor(shares + 1e-9).astype(np.int64)
    left = n - int(places.sum())
    if left:
        # Systematic sampling: each stratum gets its one more place with exactly the probability that is left over.
        over = rng.permutation(len(sizes))
        ends = np.cumsum((shares - places)[over])
        picked = np.searchsorted(ends, rng.random() + np.arange(left)).clip(max=len(sizes) - 1)
        places[over[picked]] += 1
    drawn = [
        Drawn(int(place), float(share / len(among)))
        for among, count, share in zip(members.values(), places.tolist(), shares.tolist(), strict=True)
        for place in rng.choice(among, count, replace=False)
    ]
    return [drawn[place] for place in rng.permutation(n)]
