"""The arena a model is placed in: human battles, and the questions and answers they were decided on.

`read_human_arena` keeps codes only: which cells (question, model) there are, and which human battles have both answers.
`HumanArena.exchanges` reads the texts of a few cells when they are needed: from the battle rows themselves
(`RowTexts`), or from a bank and response files (`texts_beside`).

A cell is a question and a model whose answer is known. `CellBuilder` enters each once, row by row.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple, Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

from tiltyard.bank.prompts import convert, read_text_prompts, show_turns
from tiltyard.bank.responses import Response, require_text, responses_path
from tiltyard.battles import BattleTable, Codes, Source, read_battles
from tiltyard.battles.conversations import (
    COLUMNS,
    BattleConversations,
    Dialogue,
    MissingText,
    Turns,
    read_conversations,
)
from tiltyard.battles.inputs import Part, find_parts
from tiltyard.errors import BankError, BattleError, NoBattles, OptionError
from tiltyard.files import file_sha256
from tiltyard.options import OnBad
from tiltyard.types import Floats, Int32s, Ints

Int8s = NDArray[np.int8]


@dataclass(frozen=True, slots=True, eq=False)
class Cells:
    """Every (question, model) whose prompt and answer the arena holds, each once; arrays of equal length.

    `question` indexes `question_ids`, `model` indexes `models` (the models of the arena's battles), `language` indexes
    `languages` and is -1 where the language is unknown.
    """

    question: Int32s
    model: Int32s
    language: Int32s
    question_ids: Sequence[str]
    models: Sequence[str]
    languages: Sequence[str]

    def __len__(self) -> int:
        return len(self.question)

    def take(self, cells: Ints) -> Cells:
        """Some of the cells."""
        return replace(self, question=self.question[cells], model=self.model[cells], language=self.language[cells])


@dataclass(frozen=True, slots=True, eq=False)
class HumanPairs:
    """Battles that people decided, with both answers available.

    `first` (side A) and `second` index `Cells`; `outcome` holds the codes of `battles.Outcome` as the model of `first`
    sees it; `weight` is a frequency.
    """

    first: Int32s
    second: Int32s
    outcome: Int8s
    weight: Floats

    def __len__(self) -> int:
        return len(self.first)


@dataclass(frozen=True, slots=True)
class Exchange:
    """One question and one model's answer to it, as a judge is shown them.

    `turns` are the user's messages: one for a row of a single turn, or where only the first turn counts.
    """

    question_id: str
    model: str
    language: str | None
    prompt: str
    answer: str
    turns: tuple[str, ...]


class TextSource(Protocol):
    """A source of the texts of cells."""

    def dialogues(self, cells: Sequence[int]) -> list[Dialogue]:
        """The prompts and answers of some cells, in their order."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class ArenaContents:
    """The contents of an arena: cells, pairs, their texts, what was left out, and the files besides the battles."""

    cells: Cells
    pairs: HumanPairs
    texts: TextSource
    remarks: tuple[str, ...]
    files: tuple[Path, ...] = ()


class Contradiction(NamedTuple):
    """A text that contradicts an earlier one: in what, and which row the earlier one came from."""

    what: str
    earlier: int


class CellBuilder:
    """The cells and pairs of human battles, entered row by row.

    A row without a question id is a separate question. `rows` and `sides` say where the text of each cell is.
    """

    def __init__(self, battles: BattleTable) -> None:
        self._battles = battles
        self._models = battles.model_a.tolist(), battles.model_b.tolist()
        self._questions, self._ids = _codes(battles, "question_id")
        self._languages, self._language_names = _codes(battles, "language")
        self._place: dict[int, int] = {}
        self._names: list[str] = []
        self._asked: dict[int, tuple[int, int]] = {}
        self._cells: dict[tuple[int, int], int] = {}
        self._replied = array("q")
        self._columns = array("i"), array("i"), array("i")
        self._pairs = array("i"), array("i"), array("i")
        self.rows = array("q")
        self.sides = array("b")

    def add_row(self, at: int, row: int, asked: Sequence[int], replied: Sequence[int]) -> Contradiction | None:
        """Enter both sides of the battle at a position, by fingerprints (0 = no text), or say what prevents it.

        `row` identifies the row in `rows` and in a `Contradiction`. A row with a contradiction changes nothing.
        """
        question = self._questions[at] if self._questions[at] >= 0 else -1 - at
        sides = [side for side in (0, 1) if asked[side]]
        for side in sides:
            contradiction = self._find_contradiction(question, self._models[side][at], asked[side], replied[side])
            if contradiction is not None:
                return contradiction
        entered = [self._enter(at, row, question, side, asked[side], replied[side]) for side in sides]
        if len(entered) == 2:
            for column, value in zip(self._pairs, (*entered, at), strict=True):
                column.append(value)
        return None

    def _find_contradiction(self, question: int, model: int, asked: int, replied: int) -> Contradiction | None:
        known = self._asked.get(question)
        if known is not None and known[0] != asked:
            return Contradiction(f"question_id {self._ids[question]!r} has another prompt", known[1])
        cell = self._cells.get((question, model))
        if cell is not None and self._replied[cell] != replied:
            name = self._battles.models[model]
            return Contradiction(f"{name!r} has another answer to question_id {self._ids[question]!r}", self.rows[cell])
        return None

    def _enter(self, at: int, row: int, question: int, side: int, asked: int, replied: int) -> int:
        """The cell of one side of a row, new or known."""
        model = self._models[side][at]
        cell = self._cells.setdefault((question, model), len(self._replied))
        if cell < len(self._replied):
            return cell
        self._asked.setdefault(question, (asked, row))
        if question not in self._place:
            self._place[question] = len(self._names)
            self._names.append(self._ids[question] if question >= 0 else f"(row {row + 1})")
        self._replied.append(replied)
        self.rows.append(row)
        self.sides.append(side)
        for column, value in zip(self._columns, (self._place[question], model, self._languages[at]), strict=True):
            column.append(value)
        return cell

    def cells(self) -> Cells:
        """The cells, in order of first appearance."""
        question, model, language = (np.array(column, dtype=np.int32) for column in self._columns)
        codes, names = _used(language, self._language_names)
        return Cells(question, model, codes, tuple(self._names), self._battles.models, names)

    def pairs(self) -> HumanPairs:
        """The battles with both answers available, in row order."""
        first, second, at = (np.array(column, dtype=np.int32) for column in self._pairs)
        return HumanPairs(first, second, self._battles.outcome[at], self._battles.weight[at])


def _used(codes: Int32s, labels: Sequence[str]) -> tuple[Int32s, tuple[str, ...]]:
    """The codes over only those labels that are used, sorted; -1 stays."""
    used = sorted({labels[code] for code in np.unique(codes).tolist() if code >= 0})
    place = {label: at for at, label in enumerate(used)}
    new = np.array([place.get(label, -1) for label in labels] + [-1], dtype=np.int32)
    return new[codes], tuple(used)


def _codes(battles: BattleTable, name: str) -> tuple[list[int], Sequence[str]]:
    column = battles.columns.get(name)
    if not isinstance(column, Codes):
        return [-1] * len(battles), ()
    return column.codes.tolist(), column.labels


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
    result: dict[tuple[str, int], Place] = {}
    for (question, model), place in _answers(files, battles.models, askable, seen):
        result.pop((question, model), None)
        if place is not None and (every_question or question in language_of):
            result[question, model] = place
    return ArenaContents(
        cells=_cells(list(result), battles.models, language_of),
        pairs=_pairs(battles, asked, {key: cell for cell, key in enumerate(result)}),
        texts=OwnTexts(prompts, [question for question, _ in result], list(result.values())),
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
    result: Sequence[tuple[str, int]], models: Sequence[str], language_of: Mapping[str | None, str | None]
) -> Cells:
    names = list(dict.fromkeys(question for question, _ in result))
    languages = sorted({language for name in names if (language := language_of.get(name)) is not None})
    place = {name: at for at, name in enumerate(names)}
    code_of = {language: at for at, language in enumerate(languages)}
    spoken = (language_of.get(question) for question, _ in result)
    return Cells(
        question=np.array([place[question] for question, _ in result], dtype=np.int32),
        model=np.array([model for _, model in result], dtype=np.int32),
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


Rows = NDArray[np.intp]


@dataclass(frozen=True, slots=True, eq=False)
class HumanArena:
    """Human battles, and the texts of those that have some.

    `battles` are all human battles (in the requested languages); `cells` the available questions and answers, `pairs`
    the battles with both answers among them. `remarks` say what was left out and why.
    """

    name: str
    files: tuple[Path, ...]
    sha256: Mapping[str, str]
    battles: BattleTable
    cells: Cells
    pairs: HumanPairs
    remarks: tuple[str, ...]
    texts: TextSource

    def exchanges(self, cells: Sequence[int]) -> list[Exchange]:
        """The questions and answers of some cells, in their order, read from the files now."""
        known = self.cells
        exchanges = []
        for cell, dialogue in zip(cells, self.texts.dialogues(cells), strict=True):
            language = int(known.language[cell])
            exchanges.append(
                Exchange(
                    question_id=known.question_ids[known.question[cell]],
                    model=known.models[known.model[cell]],
                    language=None if language < 0 else known.languages[language],
                    prompt=show_turns(dialogue.turns),
                    answer=show_turns(dialogue.replies),
                    turns=dialogue.turns,
                )
            )
        return exchanges


def read_human_arena(
    paths: str | Path | Sequence[str | Path],
    *,
    format: str = "auto",
    turns: Turns = "first",
    languages: Sequence[str] | None = None,
    on_bad: OnBad = "error",
    prompts: Path | None = None,
    answers: Path | None = None,
    name: str | None = None,
    map: Mapping[str, str] | None = None,
) -> HumanArena:
    """The arena of some battle files.

    The texts are in the files themselves (`conversation_a`, `conversation_b`, as LMArena and compar:IA publish them),
    or in a prompt bank and a responses file or folder (`prompts` and `answers`). `turns` says whether only the first
    turn of a conversation counts or all. `languages` keeps the battles of some languages. With `on_bad="skip"`, rows
    that are not battles are left out and counted, and a row that contradicts an earlier one contributes no text.
    `map` names columns that have other names in the files, ours first.
    """
    if prompts is None and answers is None:
        conversations = read_conversations(paths, format=format, on_bad=on_bad, turns=turns, map=map)
        rows, remarks = human_rows(conversations.battles, conversations.files[0].name)
        rows = languages_kept(conversations.battles, rows, languages, conversations.files[0].name)
        battles = conversations.battles.take(rows).compact()
        held = texts_in_rows(conversations, rows, battles, skip=on_bad == "skip")
        return _arena(name, conversations.files, battles, held, remarks)
    if prompts is None or answers is None:
        given, missing = ("answers", "prompts") if prompts is None else ("prompts", "answers")
        raise OptionError(f"{given} were given without {missing}: a judge is shown both. Name the {missing} too.")
    parts = find_parts(paths)
    every = read_battles(paths, format=format, on_bad=on_bad, columns=COLUMNS, map=map)
    rows, remarks = human_rows(every, parts[0].name)
    rows = languages_kept(every, rows, languages, parts[0].name)
    battles = every.take(rows).compact()
    held = texts_beside(battles, Path(prompts), Path(answers), every_question=not languages)
    return _arena(name, parts, battles, held, remarks)


def _arena(
    name: str | None, parts: Sequence[Part], battles: BattleTable, held: ArenaContents, remarks: tuple[str, ...]
) -> HumanArena:
    files = (*(part.path for part in parts), *held.files)
    return HumanArena(
        name=name or "+".join(dict.fromkeys(_stem(part.name) for part in parts)),
        files=files,
        sha256={str(file): file_sha256(file) for file in files},
        battles=battles,
        cells=held.cells,
        pairs=held.pairs,
        remarks=(*remarks, *held.remarks),
        texts=held.texts,
    )


def _stem(name: str) -> str:
    return Path(Path(name).name.removesuffix(".gz")).stem


def human_rows(battles: BattleTable, where: str) -> tuple[Rows, tuple[str, ...]]:
    """The rows that people decided, and a remark about the others."""
    human = battles.source == Source.HUMAN
    if not human.any():
        raise NoBattles(
            f"{where}: no battle was decided by people. A model is placed among human battles: name a file with some."
        )
    judged = float(battles.weight[~human].sum())
    remark = f"Battles decided by a language model: {judged:,.0f} (left out: only human battles are anchors)."
    return np.flatnonzero(human), () if human.all() else (remark,)


def languages_kept(battles: BattleTable, rows: Rows, languages: Sequence[str] | None, where: str) -> Rows:
    """The rows in the requested languages, ignoring case; all rows if none were requested."""
    if not languages:
        return rows
    column = battles.columns.get("language")
    if not isinstance(column, Codes):
        raise OptionError(f"{where} does not say the language of its battles, so none can be chosen by language.")
    count = np.bincount(column.codes[rows] + 1, weights=battles.weight[rows], minlength=len(column.labels) + 1)[1:]
    there = {label.casefold() for label, battles_in in zip(column.labels, count, strict=True) if battles_in}
    unknown = [language for language in languages if language.casefold() not in there]
    if unknown:
        order = sorted(range(len(column.labels)), key=lambda code: (-count[code], column.labels[code]))
        known = [f"{column.labels[code]} ({count[code]:,.0f})" for code in order if count[code]]
        listed = ", ".join(known[:20]) + (f" and {len(known) - 20} more" if len(known) > 20 else "")
        raise OptionError(f"{where}: no human battle is in {', '.join(map(repr, unknown))}. There are {listed}.")
    wanted = {language.casefold() for language in languages}
    chosen = np.array([label.casefold() in wanted for label in column.labels] + [False])
    kept: Rows = rows[chosen[column.codes[rows]]]
    return kept


@dataclass(frozen=True, slots=True, eq=False)
class RowTexts:
    """The texts of cells in the battle rows: for each cell, a row and its side (0 = A)."""

    conversations: BattleConversations
    rows: Sequence[int]
    sides: Sequence[int]

    def dialogues(self, cells: Sequence[int]) -> list[Dialogue]:
        """The prompts and answers of some cells, in their order."""
        read = self.conversations.dialogues({self.rows[cell] for cell in cells})
        dialogues = []
        for cell in cells:
            dialogue = read.get(self.rows[cell], (None, None))[self.sides[cell]]
            if dialogue is None:
                raise BattleError(
                    f"{self.conversations.place(self.rows[cell])}: the text is gone: the file has changed. Start again."
                )
            dialogues.append(dialogue)
        return dialogues


MISSING = {
    MissingText.NO_TEXT: "without text",
    MissingText.NOT_ONLY_TEXT: "with more than text, such as an image",
    MissingText.UNREADABLE: "with a conversation that cannot be read",
}


def texts_in_rows(conversations: BattleConversations, rows: Rows, battles: BattleTable, *, skip: bool) -> ArenaContents:
    """The cells and pairs of the kept rows; `battles` holds the same rows, over the models that are left.

    A row that contradicts an earlier one is an error, or with `skip` contributes no text.
    """
    builder = CellBuilder(battles)
    asked, replied, missing = (
        conversations.asked[rows],
        conversations.replied[rows],
        conversations.missing[rows].max(axis=1),
    )
    differing = (missing == 0) & (asked[:, 0] != asked[:, 1])
    contradictions = 0
    columns = (rows.tolist(), differing.tolist(), asked.tolist(), replied.tolist())
    for at, (row, differs, both_asked, both_replied) in enumerate(zip(*columns, strict=True)):
        contradiction = None if differs else builder.add_row(at, row, both_asked, both_replied)
        if contradiction is not None and not skip:
            raise _contradiction(conversations, row, contradiction)
        contradictions += contradiction is not None
    counts = {words: int((missing == code).sum()) for code, words in MISSING.items()}
    counts["whose two sides were asked different things"] = int(differing.sum())
    counts["whose text contradicts an earlier row"] = contradictions
    remarks = [
        f"Human battles {words}: {count:,} (counted as battles, not shown to a judge)."
        for words, count in counts.items()
        if count
    ]
    return ArenaContents(
        builder.cells(), builder.pairs(), RowTexts(conversations, builder.rows, builder.sides), tuple(remarks)
    )


def _contradiction(conversations: BattleConversations, row: int, result: Contradiction) -> BattleError:
    return BattleError(
        f"{conversations.place(row)}: {result.what} than in {conversations.place(result.earlier)}. Give different "
        "texts different ids, or leave such texts out (on_bad: skip)."
    )
