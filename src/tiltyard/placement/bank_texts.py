"""Texts that are not in the battle rows: prompts from a bank, answers from a responses file or a folder of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np

from tiltyard.bank.prompts import convert, read_text_prompts
from tiltyard.bank.responses import Response, require_text, responses_path
from tiltyard.battles import BattleTable
from tiltyard.battles.conversations import Dialogue
from tiltyard.errors import BankError
from tiltyard.placement.cells import ArenaContents, Cells, HumanPairs

_READER = "a placement"


@dataclass(frozen=True, slots=True)
class Place:
    """The position of a line: its file and first byte."""

    path: Path
    start: int


@dataclass(frozen=True, slots=True, eq=False)
class OwnTexts:
    """The texts of cells in a bank and in response files: for each cell, a prompt's id and a position."""

    bank: Path
    prompt_ids: Sequence[str]
    places: Sequence[Place]

    def dialogues(self, cells: Sequence[int]) -> list[Dialogue]:
        """The prompts and answers of some cells, in their order."""
        text_of = {prompt.prompt_id: prompt.text for prompt in read_text_prompts(self.bank, _READER)}
        answers = _answers_at({self.places[cell] for cell in cells})
        return [Dialogue((text_of[self.prompt_ids[cell]],), (answers[self.places[cell]],)) for cell in cells]


def texts_beside(battles: BattleTable, prompts: Path, answers: Path, *, every_question: bool) -> ArenaContents:
    """Every answer of a model with human battles to a prompt of the bank, and the battles with both answers.

    A question's language is that of its battles. Unless `every_question`, only questions of the battles count.
    """
    askable = {prompt.prompt_id for prompt in read_text_prompts(prompts, _READER) if prompt.text.strip()}
    asked = _texts(battles, "question_id")
    language_of: dict[str | None, str | None] = {}
    for question, language in zip(asked, _texts(battles, "language"), strict=True):
        language_of.setdefault(question, language)
    files = _answer_files(answers, battles.models)
    seen = _Seen()
    found: dict[tuple[str, int], Place] = {}
    for (question, model), place in _answers(files, battles.models, askable, seen):
        found.pop((question, model), None)
        if place is not None and (every_question or question in language_of):
            found[question, model] = place
    return ArenaContents(
        cells=_cells(list(found), battles.models, language_of),
        pairs=_pairs(battles, asked, {key: cell for cell, key in enumerate(found)}),
        texts=OwnTexts(prompts, [question for question, _ in found], list(found.values())),
        remarks=seen.remarks(),
        files=(prompts, *(path for path, _ in files)),
    )


@dataclass(slots=True)
class _Seen:
    """Answers that make no cell, by reason."""

    strangers: int = 0
    without_prompt: int = 0
    empty: int = 0

    def remarks(self) -> tuple[str, ...]:
        told = {
            "by models without human battles": self.strangers,
            "to prompts that the bank does not have": self.without_prompt,
            "that are empty": self.empty,
        }
        return tuple(f"Answers {words}: {count:,} (left out)." for words, count in told.items() if count)


def _answers(
    files: Sequence[tuple[Path, str | None]], models: Sequence[str], askable: set[str], seen: _Seen
) -> Iterator[tuple[tuple[str, int], Place | None]]:
    """The question, model and position of every answer that can be shown, and of empty ones without a position."""
    model_of = {name: code for code, name in enumerate(models)}
    for path, owner in files:
        for place, response in _responses(path, owner):
            if response.entrant_id not in model_of:
                seen.strangers += 1
            elif response.prompt_id not in askable:
                seen.without_prompt += 1
            else:
                is_empty = not response.response_text.strip()
                seen.empty += is_empty
                yield (response.prompt_id, model_of[response.entrant_id]), None if is_empty else place


def _texts(battles: BattleTable, name: str) -> list[str | None]:
    """A text column of the battles, one entry per battle; empty if there is no such column."""
    return battles.text_column(name).texts() if name in battles.columns else [None] * len(battles)


def _cells(
    found: Sequence[tuple[str, int]], models: Sequence[str], language_of: Mapping[str | None, str | None]
) -> Cells:
    names = list(dict.fromkeys(question for question, _ in found))
    languages = sorted({language for name in names if (language := language_of.get(name)) is not None})
    place = {name: at for at, name in enumerate(names)}
    code_of = {language: at for at, language in enumerate(languages)}
    spoken = (language_of.get(question) for question, _ in found)
    return Cells(
        question=np.array([place[question] for question, _ in found], dtype=np.int32),
        model=np.array([model for _, model in found], dtype=np.int32),
        language=np.array([-1 if language is None else code_of[language] for language in spoken], dtype=np.int32),
        question_ids=tuple(names),
        models=models,
        languages=tuple(languages),
    )


def _pairs(battles: BattleTable, asked: Sequence[str | None], cell_of: Mapping[tuple[str, int], int]) -> HumanPairs:
    """The battles with both answers available."""
    rows, first, second = [], [], []
    for row, (question, a, b) in enumerate(zip(asked, battles.model_a.tolist(), battles.model_b.tolist(), strict=True)):
        if question is not None and (question, a) in cell_of and (question, b) in cell_of:
            rows.append(row)
            first.append(cell_of[question, a])
            second.append(cell_of[question, b])
    at = np.array(rows, dtype=np.intp)
    return HumanPairs(
        np.array(first, dtype=np.int32), np.array(second, dtype=np.int32), battles.outcome[at], battles.weight[at]
    )


def _answer_files(answers: Path, models: Sequence[str]) -> list[tuple[Path, str | None]]:
    """The files that contain answers, each with its model if the file's name says so."""
    if answers.is_dir():
        files = [(path, name) for name in models if (path := responses_path(answers, name)).is_file()]
        if not files:
            raise BankError(f"{answers} has no file responses_<model>.jsonl of a model with human battles.")
        return list(files)
    if not answers.is_file():
        raise BankError(f"there is no responses file or folder at {answers}. Check the path.")
    return [(answers, None)]


def _responses(path: Path, owner: str | None) -> Iterator[tuple[Place, Response]]:
    """The answers of a file with their positions; an unfinished last line is skipped."""
    start = 0
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            place, start = Place(path, start), start + len(line)
            if not line.strip():
                continue
            try:
                record = msgspec.json.decode(line)
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                if not line.endswith(b"\n"):
                    return
                raise BankError(f"{path}:{number}: not JSON ({error}). Correct or remove the line.") from None
            if owner is not None and isinstance(record, dict):
                record.setdefault("entrant_id", owner)
            response: Response = convert(record, Response, f"{path}:{number}")
            if owner not in (None, response.entrant_id):
                raise BankError(f"{path}:{number}: entrant_id is {response.entrant_id!r}, the file is of {owner!r}.")
            require_text(response, _READER)
            yield place, response


def _answers_at(places: set[Place]) -> dict[Place, str]:
    answers = {}
    for path in {place.path for place in places}:
        with path.open("rb") as file:
            for place in sorted((place for place in places if place.path == path), key=lambda place: place.start):
                file.seek(place.start)
                answers[place] = str(msgspec.json.decode(file.readline())["response_text"])
    return answers
