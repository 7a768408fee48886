"""Battles with the conversations they were decided on: `read_conversations`.

The battles are those of `read_battles`, row for row. Only fingerprints of the texts are kept;
`BattleConversations.dialogues` reads the texts of a few battles again.
"""

from __future__ import annotations

import enum
import sys
from array import array
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Literal, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from tiltyard.data.battles.careful import BadRows, RawRow, file_lines, read_carefully
from tiltyard.data.battles.fast import file_rows, identifier, json_value, session
from tiltyard.data.battles.formats import listed
from tiltyard.data.battles.inputs import BattleFile, FileKind, PathLike
from tiltyard.data.battles.layout import Layout, ReadBattlesOptions
from tiltyard.data.battles.reading import find_sources
from tiltyard.data.battles.table import BattleTable, concat
from tiltyard.errors import BattleError, NoBattles, OptionError, OptionValue
from tiltyard.options import OnBad, check_choice

Turns = Literal["first", "all"]


class Dialogue(NamedTuple):
    """One side of a battle: the user's messages, and the model's reply to each."""

    turns: tuple[str, ...]
    replies: tuple[str, ...]


class MissingText(enum.IntEnum):
    """Why a side of a battle has nothing to show."""

    NO_TEXT = 1
    """There is no conversation, or no message, or no reply, or only blanks."""
    NOT_ONLY_TEXT = 2
    """A message carries something besides text, such as an image, that somebody who sees only the text would miss."""
    UNREADABLE = 3
    """The value is not a list of messages."""


class NotText(Exception):
    """A message carries something besides text."""


def read_dialogue(conversation: object, turns: Turns) -> Dialogue | MissingText:
    """The turns of a conversation (or its first one), or why there are none to show.

    A turn is what the user said before the model replied, and the reply; messages of the same side that follow each
    other are one text. System messages, a greeting by the model, and a last message that nobody replied to are left
    out.
    """
    if isinstance(conversation, str):
        try:
            conversation = msgspec.json.decode(conversation) if conversation.strip() else None
        except (msgspec.DecodeError, UnicodeError):
            return MissingText.UNREADABLE
    if conversation is None:
        return MissingText.NO_TEXT
    if not isinstance(conversation, list) or not all(isinstance(message, dict) for message in conversation):
        return MissingText.UNREADABLE
    wanted = islice(_rounds(conversation), 1 if turns == "first" else None)
    try:
        texts = [("\n\n".join(map(_text, asked)), "\n\n".join(map(_text, replied))) for asked, replied in wanted]
    except NotText:
        return MissingText.NOT_ONLY_TEXT
    if not texts or not all(asked.strip() and replied.strip() for asked, replied in texts):
        return MissingText.NO_TEXT
    return Dialogue(tuple(asked for asked, _ in texts), tuple(replied for _, replied in texts))


def _rounds(messages: list[dict[str, object]]) -> Iterator[tuple[list[object], list[object]]]:
    """The contents of the user's messages and of the replies to them, turn by turn."""
    asked: list[object] = []
    replied: list[object] = []
    for message in messages:
        if message.get("role") == "user":
            if replied:
                yield asked, replied
                asked, replied = [], []
            asked.append(message.get("content"))
        elif message.get("role") == "assistant" and asked:
            replied.append(message.get("content"))
    if replied:
        yield asked, replied


def _text(content: object) -> str:
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(map(_text, content))
    if isinstance(content, dict) and content.get("type", "text") == "text":
        text = content.get("text")
        if text is None or isinstance(text, str):
            return text or ""
    raise NotText


COLUMNS = ("question_id", "language")
CONVERSATIONS = ("conversation_a", "conversation_b")
"""The columns of what was said on each side."""
FETCHED_ROWS = 500


def _rows(
    part: BattleFile, layout: Layout, texts: Sequence[str], only: Collection[int] | None = None
) -> Iterator[RawRow]:
    """The rows of a file, or some of them by their places, in order.

    A Parquet file is read by one thread and a few rows at a time, so that long texts do not pile up.
    """
    if part.kind is not FileKind.PARQUET:
        end = None if only is None else max(only) + 1
        yield from (line for row, line in enumerate(islice(file_lines(part), end)) if only is None or row in only)
        return
    import duckdb

    names = list(dict.fromkeys((*(field.raw.top for field in layout.fields), *texts)))
    cells = ", ".join(f"to_json({identifier(name)})" if name in layout.header else "NULL" for name in names)
    where = "" if only is None else f" WHERE file_row_number IN ({', '.join(map(str, sorted(only)))})"
    rows = file_rows([part], layout.header, ())
    with session(large_limits=True) as connection:
        try:
            connection.execute("SET threads = 1")
            answer = connection.execute(f"SELECT file_row_number, {cells} FROM {rows}{where}")
            while fetched := answer.fetchmany(FETCHED_ROWS):
                for place, *row in fetched:
                    values = dict(zip(names, map(json_value, row), strict=True))
                    yield RawRow(f"{part.name}: row {place + 1}", values)
        except duckdb.Error as error:
            first = str(error).strip().splitlines()[0]
            raise BattleError(f"{part.name} cannot be read: {first}. Check what wrote the file.") from None


class _Passed(NamedTuple):
    """A file that was read, and which of its rows are battles, with their places."""

    part: BattleFile
    layout: Layout
    rows: list[int]
    places: list[str]


@dataclass(frozen=True, slots=True, eq=False)
class BattleConversations:
    """Battles, and what was said in them.

    `asked` and `replied` hold one row per battle and one column per side: fingerprints that are equal where the texts
    are, and 0 where there is nothing to show; `missing` then says why (the codes of `MissingText`).
    """

    battles: BattleTable
    asked: NDArray[np.int64]
    replied: NDArray[np.int64]
    missing: NDArray[np.int8]
    files: tuple[BattleFile, ...]
    turns: Turns
    columns: tuple[str, str]
    passed: tuple[_Passed, ...]

    def place(self, battle: int) -> str:
        """Where a battle is: `file:line`, or the number of its row."""
        return next(islice((place for file in self.passed for place in file.places), battle, None))

    def dialogues(self, battles: Iterable[int]) -> dict[int, tuple[Dialogue | None, Dialogue | None]]:
        """What was said on both sides of some battles, read from the files now; None where there is nothing to show."""
        chosen, dialogues, start = set(battles), {}, 0
        for file in self.passed:
            wanted = {row: start + at for at, row in enumerate(file.rows) if start + at in chosen}
            start += len(file.rows)
            if not wanted:
                continue
            for battle, line in zip(wanted.values(), _rows(file.part, file.layout, self.columns, wanted), strict=False):
                both = [read_dialogue(line.row.get(name), self.turns) for name in self.columns]
                side_a, side_b = (None if isinstance(one, MissingText) else one for one in both)
                dialogues[battle] = side_a, side_b
        return dialogues


def read_conversations(
    data: PathLike | Sequence[PathLike],
    *,
    format: str = "auto",
    on_bad: OnBad = "error",
    turns: Turns = "first",
    map: Mapping[str, str] | None = None,
) -> BattleConversations:
    """The battles of files with what was said in them: the first turn, or all.

    The options are those of `read_battles`, and so are the battles; of the optional columns they keep the question's id
    and the language. `map` may name the columns of the conversations too.
    """
    check_choice("turns", turns, ("first", "all"))
    given = dict(map or {})
    texts = given.pop(CONVERSATIONS[0], CONVERSATIONS[0]), given.pop(CONVERSATIONS[1], CONVERSATIONS[1])
    options = ReadBattlesOptions(format=format, on_bad=on_bad, columns=COLUMNS, map=given)
    sources = find_sources(data, options)
    for source in sources:
        header = source.layout.header
        for ours, theirs in zip(CONVERSATIONS, texts, strict=True):
            if ours != theirs and theirs not in header:
                raise OptionError(
                    f"{source.name} has no column {theirs!r} for {ours}. Its columns are {listed(header.top_names)}."
                )
        if not source.parts:
            raise BattleError(f"{source.name} is not a file: conversations are read from files only.")
    tables: list[BattleTable] = []
    passed: list[_Passed] = []
    prints = array("q")
    for source in sources:
        for part in source.parts:
            table, file, seen = _read(part, source.layout, turns, texts, on_bad)
            tables.append(table)
            passed.append(file)
            prints.extend(seen)
    battles = concat(tables)
    files = tuple(file.part for file in passed)
    if not len(battles):
        why = ", ".join(f"{count} × {reason}" for reason, count in battles.skipped.items()) or "it has no rows"
        raise NoBattles(f"{files[0].name}: no row is a battle ({why}). Check the format (", OptionValue("format"), ").")
    by_kind = np.array(prints, dtype=np.int64).reshape(-1, 2, 3)
    return BattleConversations(
        battles=battles,
        asked=by_kind[:, :, 0],
        replied=by_kind[:, :, 1],
        missing=by_kind[:, :, 2].astype(np.int8),
        files=files,
        turns=turns,
        columns=texts,
        passed=tuple(passed),
    )


def _read(
    part: BattleFile, layout: Layout, turns: Turns, texts: tuple[str, str], on_bad: OnBad
) -> tuple[BattleTable, _Passed, array[int]]:
    """The battles of a file, and for both sides of each three numbers: what was asked, what was replied, why neither.

    The first two are fingerprints, which tell equal texts from different ones within this process.
    """
    tops = {field.raw.top for field in layout.fields}
    places: list[str] = []
    prints = array("q")

    def lines() -> Iterator[RawRow]:
        """The lines without their conversations, which are looked at in passing."""
        for line in _rows(part, layout, texts):
            places.append(line.where)
            for name in texts:
                dialogue = read_dialogue(line.row.get(name), turns)
                if isinstance(dialogue, MissingText):
                    prints.extend((0, 0, int(dialogue)))
                else:
                    prints.extend((hash(dialogue.turns) or 1, hash(dialogue.replies) or 1, 0))
            yield msgspec.structs.replace(line, row={name: value for name, value in line.row.items() if name in tops})

    bad_rows = BadRows(examples_each=sys.maxsize, stop=on_bad == "error")
    table = read_carefully(lines(), layout, bad_rows)
    bad = {problem.where for problems in bad_rows.examples.values() for problem in problems}
    rows = [row for row, place in enumerate(places) if place not in bad]
    if bad:
        prints = array("q", (number for row in rows for number in prints[6 * row : 6 * row + 6]))
    return table, _Passed(part, layout, rows, [places[row] for row in rows]), prints
