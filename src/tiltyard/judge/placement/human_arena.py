"""The arena a model is placed in: human battles, and the questions and answers they were decided on.

`read_human_arena` keeps codes only: which cells (a question and a model whose answer is known) there are, and which
human battles have both answers. `HumanArena.exchanges` reads the texts of a few cells when they are needed from the
battle rows, or has them from a bank and response files.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray

from tiltyard.data.bank import (
    Response,
    convert,
    read_objects,
    read_text_prompts,
    require_text,
    responses_path,
    show_turns,
)
from tiltyard.data.battles import (
    COLUMNS,
    BattleConversations,
    BattleFile,
    BattleTable,
    Codes,
    Dialogue,
    MissingText,
    Opened,
    Source,
    Turns,
    read_battles,
    read_conversations,
)
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
        return replace(self, question=self.question[cells], model=self.model[cells], language=self.language[cells])


class HumanPairs(msgspec.Struct, frozen=True, eq=False):
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


class Exchange(msgspec.Struct, frozen=True):
    """One question and one model's answer to it, as a judge is shown them.

    `turns` are the user's messages: one for a row of a single turn, or where only the first turn counts.
    """

    question_id: str
    model: str
    language: str | None
    prompt: str
    answer: str
    turns: tuple[str, ...]


Texts = Callable[[Sequence[int]], list[Dialogue]]
"""Reads the prompts and answers of some cells, in their order."""


class ArenaContents(msgspec.Struct, frozen=True, eq=False):
    """The contents of an arena: cells, pairs, their texts, what was left out, and the files besides the battles."""

    cells: Cells
    pairs: HumanPairs
    texts: Texts
    remarks: tuple[str, ...]
    files: tuple[Path, ...] = ()


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


def texts_beside(battles: BattleTable, prompts: Path, answers: Path, *, every_question: bool) -> ArenaContents:
    """Every answer of a model with human battles to a prompt of the bank, and the battles with both answers.

    A question's language is that of its battles. Unless `every_question`, only questions of the battles count.
    """
    text_of = {prompt.prompt_id: prompt.text for prompt in read_text_prompts(prompts, _READER) if prompt.text.strip()}
    asked = _texts(battles, "question_id")
    language_of: dict[str | None, str | None] = {}
    for question, language in zip(asked, _texts(battles, "language"), strict=True):
        language_of.setdefault(question, language)
    model_of = {name: code for code, name in enumerate(battles.models)}
    files: list[tuple[Path, str | None]] = [(answers, None)]  # each with its model if the file's name says so
    if answers.is_dir():
        of_models = ((responses_path(answers, name), name) for name in battles.models)
        files = [(path, name) for path, name in of_models if path.is_file()]
        if not files:
            raise BankError(f"{answers} has no file responses_<model>.jsonl of a model with human battles.")
    elif not answers.is_file():
        raise BankError(f"there is no responses file or folder at {answers}. Check the path.")
    left_out = dict.fromkeys(
        ("by models without human battles", "to prompts that the bank does not have", "that are empty"), 0
    )
    text_in: dict[tuple[str, int], str] = {}
    for response in (response for path, owner in files for response in _responses(path, owner)):
        question, text = response.prompt_id, response.response_text
        if response.entrant_id not in model_of:
            left_out["by models without human battles"] += 1
        elif question not in text_of:
            left_out["to prompts that the bank does not have"] += 1
        else:
            left_out["that are empty"] += not text.strip()
            cell = question, model_of[response.entrant_id]
            text_in.pop(cell, None)
            if text.strip() and (every_question or question in language_of):
                text_in[cell] = text
    cell_of = {key: cell for cell, key in enumerate(text_in)}
    both = [
        (row, cell_of[question, a], cell_of[question, b])
        for row, (question, a, b) in enumerate(
            zip(asked, battles.model_a.tolist(), battles.model_b.tolist(), strict=True)
        )
        if question is not None and (question, a) in cell_of and (question, b) in cell_of
    ]
    at, first, second = np.array(both, dtype=np.int32).reshape(-1, 3).T
    dialogues = [Dialogue((text_of[question],), (text,)) for (question, _), text in text_in.items()]
    return ArenaContents(
        cells=_cells(list(text_in), battles.models, language_of),
        pairs=HumanPairs(first, second, battles.outcome[at], battles.weight[at]),
        texts=lambda cells: [dialogues[cell] for cell in cells],
        remarks=tuple(f"Answers {why}: {count:,} (left out)." for why, count in left_out.items() if count),
        files=(prompts, *(path for path, _ in files)),
    )


def _texts(battles: BattleTable, name: str) -> list[str | None]:
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


def _responses(path: Path, owner: str | None) -> Iterator[Response]:
    """The answers of a file; an unfinished last line is skipped."""
    for number, record in read_objects(path, "response file", torn_end=True):
        if owner is not None:
            record.setdefault("entrant_id", owner)
        response: Response = convert(record, Response, f"{path}:{number}")
        if owner not in (None, response.entrant_id):
            raise BankError(f"{path}:{number}: entrant_id is {response.entrant_id!r}, the file is of {owner!r}.")
        require_text(response, _READER)
        yield response


Rows = NDArray[np.intp]


class HumanArena(msgspec.Struct, frozen=True, eq=False):
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
    texts: Texts

    def exchanges(self, cells: Sequence[int]) -> list[Exchange]:
        """The questions and answers of some cells, in their order, read from the files now."""
        known = self.cells
        exchanges = []
        for cell, dialogue in zip(cells, self.texts(cells), strict=True):
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
    conversations = None
    parts: Sequence[BattleFile]
    if prompts is None and answers is None:
        conversations = read_conversations(paths, on_bad=on_bad, turns=turns, map=map)
        every, parts = conversations.battles, conversations.files
    else:
        opened = Opened(paths)
        every, parts = read_battles(opened, on_bad=on_bad, columns=COLUMNS, map=map), opened.parts
    human, where = every.source == Source.HUMAN.code, parts[0].name
    if not human.any():
        raise NoBattles(
            f"{where}: no battle was decided by people. A model is placed among human battles: name a file with some."
        )
    judged = float(every.weight[~human].sum())
    remark = f"Battles decided by a language model: {judged:,.0f} (left out: only human battles are anchors)."
    rows = languages_kept(every, np.flatnonzero(human), languages, where)
    battles = every.take(rows).compact()
    if conversations is not None:
        held = texts_in_rows(conversations, rows, battles, skip=on_bad == "skip")
    elif prompts is not None and answers is not None:
        held = texts_beside(battles, Path(prompts), Path(answers), every_question=not languages)
    else:
        given, missing = ("answers", "prompts") if prompts is None else ("prompts", "answers")
        raise OptionError(f"{given} were given without {missing}: a judge is shown both. Name the {missing} too.")
    files = (*(part.path for part in parts), *held.files)
    stems = [Path(Path(part.name).name.removesuffix(".gz")).stem for part in parts]
    return HumanArena(
        name=name or "+".join(dict.fromkeys(stems)),
        files=files,
        sha256={file.name: file_sha256(file) for file in files},
        battles=battles,
        cells=held.cells,
        pairs=held.pairs,
        remarks=held.remarks if human.all() else (remark, *held.remarks),
        texts=held.texts,
    )


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


MISSING = {
    MissingText.NO_TEXT: "without text",
    MissingText.NOT_ONLY_TEXT: "with more than text, such as an image",
    MissingText.UNREADABLE: "with a conversation that cannot be read",
}


def texts_in_rows(conversations: BattleConversations, rows: Rows, battles: BattleTable, *, skip: bool) -> ArenaContents:
    """The cells and pairs of the kept rows; `battles` holds the same rows, over the models that are left.

    A row without a question id is a separate question. A row that contradicts an earlier one is an error, or with
    `skip` contributes no text.
    """
    asked, replied = conversations.asked[rows], conversations.replied[rows]  # fingerprints, 0 where there is no text
    missing = conversations.missing[rows].max(axis=1)
    differing = (missing == 0) & (asked[:, 0] != asked[:, 1])
    models = np.stack([battles.model_a, battles.model_b], axis=1)
    (questions, ids), (languages, language_names) = _codes(battles, "question_id"), _codes(battles, "language")
    prompt_of: dict[int, tuple[int, int]] = {}  # of a question: its fingerprint, and the row it came from
    cell_of: dict[tuple[int, int], int] = {}
    places: dict[int, int] = {}
    names: list[str] = []
    cell_rows, cell_sides, cell_replies = array("q"), array("b"), array("q")
    columns, pairs = array("i"), array("i")
    contradictions = 0
    each = zip(rows.tolist(), differing.tolist(), models.tolist(), asked.tolist(), replied.tolist(), strict=True)
    for at, (row, differs, both, prompts, replies) in enumerate(each):
        if differs:
            continue
        question = questions[at] if questions[at] >= 0 else -1 - at
        sides = [side for side in (0, 1) if prompts[side]]
        wrong = None
        for side in sides:
            known, cell = prompt_of.get(question), cell_of.get((question, both[side]))
            if known is not None and known[0] != prompts[side]:
                wrong = f"question_id {ids[question]!r} has another prompt", known[1]
            elif cell is not None and cell_replies[cell] != replies[side]:
                name = battles.models[both[side]]
                wrong = f"{name!r} has another answer to question_id {ids[question]!r}", cell_rows[cell]
            if wrong is not None:
                break
        if wrong is not None:
            if not skip:
                raise BattleError(
                    f"{conversations.place(row)}: {wrong[0]} than in {conversations.place(wrong[1])}. Give different "
                    "texts different ids, or leave such texts out (on_bad: skip)."
                )
            contradictions += 1
            continue
        for side in sides:
            if (question, both[side]) not in cell_of:
                cell_of[question, both[side]] = len(cell_rows)
                prompt_of.setdefault(question, (prompts[side], row))
                if question not in places:
                    places[question] = len(names)
                    names.append(ids[question] if question >= 0 else f"(row {row + 1})")
                cell_rows.append(row)
                cell_sides.append(side)
                cell_replies.append(replies[side])
                columns.extend((places[question], both[side], languages[at]))
        if len(sides) == 2:
            pairs.extend((cell_of[question, both[0]], cell_of[question, both[1]], at))

    def dialogues(cells: Sequence[int]) -> list[Dialogue]:
        read = conversations.dialogues({cell_rows[cell] for cell in cells})
        in_order = []
        for cell in cells:
            dialogue = read.get(cell_rows[cell], (None, None))[cell_sides[cell]]
            if dialogue is None:
                where = conversations.place(cell_rows[cell])
                raise BattleError(f"{where}: the text is gone: the file has changed. Start again.")
            in_order.append(dialogue)
        return in_order

    counts = {words: int((missing == code).sum()) for code, words in MISSING.items()}
    counts["whose two sides were asked different things"] = int(differing.sum())
    counts["whose text contradicts an earlier row"] = contradictions
    remarks = [
        f"Human battles {words}: {count:,} (counted as battles, not shown to a judge)."
        for words, count in counts.items()
        if count
    ]
    question_codes, model_codes, language = np.array(columns, dtype=np.int32).reshape(-1, 3).T
    language_codes, used = _used(language, language_names)
    first, second, battle = np.array(pairs, dtype=np.int32).reshape(-1, 3).T
    return ArenaContents(
        Cells(question_codes, model_codes, language_codes, tuple(names), battles.models, used),
        HumanPairs(first, second, battles.outcome[battle], battles.weight[battle]),
        dialogues,
        tuple(remarks),
    )
