"""The arena a model is placed in: human battles, and the questions and answers they were decided on.

`read_human_arena` keeps codes only: which cells (question, model) there are, and which human battles have both answers.
`HumanArena.exchanges` reads the texts of a few cells when they are needed: from the battle rows themselves
(`RowTexts`), or from a bank and response files (`bank_texts`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tiltyard.bank.prompts import show_turns
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
from tiltyard.errors import BattleError, NoBattles, OptionError
from tiltyard.files import file_sha256
from tiltyard.options import OnBad
from tiltyard.placement.bank_texts import texts_beside
from tiltyard.placement.cells import ArenaContents, CellBuilder, Cells, Contradiction, Exchange, HumanPairs, TextSource

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


def _contradiction(conversations: BattleConversations, row: int, found: Contradiction) -> BattleError:
    return BattleError(
        f"{conversations.place(row)}: {found.what} than in {conversations.place(found.earlier)}. Give different texts "
        "different ids, or leave such texts out (on_bad: skip)."
    )
