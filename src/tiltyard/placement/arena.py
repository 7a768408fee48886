"""The arena a model is placed in: human battles, and the questions and answers they were decided on.

`read_human_arena` keeps codes only: which cells (question, model) there are, and which human battles have both answers
at hand. `HumanArena.exchanges` reads the texts of a few cells when they are needed.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tiltyard.bank.prompts import show_turns
from tiltyard.battles import read_battles
from tiltyard.battles.conversations import COLUMNS, read_conversations
from tiltyard.battles.inputs import Part, find_parts
from tiltyard.errors import OptionError
from tiltyard.files import file_sha256
from tiltyard.placement.arena_anchors import human_rows, languages_kept
from tiltyard.placement.arena_texts import texts_in_rows
from tiltyard.placement.cells import Cells, Exchange, HumanPairs
from tiltyard.placement.own_texts import texts_beside

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tiltyard.battles import BattleTable
    from tiltyard.battles.conversation_rows import Turns
    from tiltyard.battles.reading import OnBad
    from tiltyard.placement.arena_cells import ArenaContents, TextSource


@dataclass(frozen=True, slots=True, eq=False)
class HumanArena:
    """Human battles, and the texts of those that have some.

    `battles` are all human battles (of the languages asked for); `cells` the questions and answers at hand, `pairs` the
    battles with both answers among them. `remarks` say in plain words what was left out and why.
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
        """The question and the answer of some cells, in their order, read from the files now."""
        known = self.cells
        exchanges = []
        for cell, talk in zip(cells, self.texts.talks(cells), strict=True):
            language = int(known.language[cell])
            exchanges.append(
                Exchange(
                    question_id=known.question_ids[known.question[cell]],
                    model=known.models[known.model[cell]],
                    language=None if language < 0 else known.languages[language],
                    prompt=show_turns(talk.turns),
                    answer=show_turns(talk.replies),
                    turns=talk.turns,
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
) -> HumanArena:
    """The arena of some battle files.

    The texts stand in the files themselves (`conversation_a`, `conversation_b`, as LMArena and compar:IA publish them),
    or in a prompt bank and a responses file or folder (`prompts` and `answers`). `turns` says whether only the first
    turn of a conversation counts or all. `languages` keeps the battles of some languages. With `on_bad="skip"`, rows
    that are no battles are left out and counted, and a row that contradicts an earlier one lends no text.
    """
    if prompts is None and answers is None:
        said = read_conversations(paths, format=format, on_bad=on_bad, turns=turns)
        rows, remarks = human_rows(said.battles, said.files[0].name)
        rows = languages_kept(said.battles, rows, languages, said.files[0].name)
        battles = said.battles.take(rows).compact()
        held = texts_in_rows(said, rows, battles, skip=on_bad == "skip")
        return _arena(name, said.files, battles, held, remarks)
    if prompts is None or answers is None:
        given, missing = ("answers", "prompts") if prompts is None else ("prompts", "answers")
        raise OptionError(f"{given} were given without {missing}: a judge is shown both. Name the {missing} too.")
    parts = find_parts(paths)
    every = read_battles(paths, format=format, on_bad=on_bad, columns=COLUMNS)
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
