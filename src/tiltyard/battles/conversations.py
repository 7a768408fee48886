"""Battles with the conversations they were decided on: `read_conversations`.

The battles are those of `read_battles`, row for row. Only fingerprints of the texts are kept;
`BattleConversations.dialogues` reads the texts of a few battles again.
"""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice, repeat
from typing import Any, Literal, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from tiltyard.battles.careful import BadRows, RawRow, RowProblem, file_lines, read_carefully
from tiltyard.battles.fast import file_rows, identifier, session
from tiltyard.battles.formats import FORMAT_NAMES, listed, read_map
from tiltyard.battles.inputs import FileKind, Part, PathLike, find_parts
from tiltyard.battles.layout import ReadOptions
from tiltyard.battles.reading import ParquetFiles, RowSource, TextFiles, find_sources
from tiltyard.battles.table import BattleTable, concat
from tiltyard.errors import BattleError, NoBattles, OptionError, OptionValue
from tiltyard.options import OnBad

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
        texts = [(_joined(asked), _joined(replied)) for asked, replied in wanted]
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


def _joined(contents: list[object]) -> str:
    return _text(contents[0]) if len(contents) == 1 else "\n\n".join(map(_text, contents))


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


Columns = tuple[str, str]

CONVERSATIONS: Columns = ("conversation_a", "conversation_b")
"""The columns of what was said on each side."""
FETCHED_ROWS = 500
FILE, FILE_ROW = "file of the row", "file_row_number"

Sides = tuple[object, object]
"""The conversations of a row as they are in the file: side A, side B."""


class Fingerprints:
    """What is kept of one side of every row: a fingerprint of what was asked, and of what was replied.

    A fingerprint tells equal texts from different ones within this process; 0 means that there is nothing to show, and
    `missing` then says why (the codes of `MissingText`).
    """

    def __init__(self, turns: Turns) -> None:
        self.turns = turns
        self._asked, self._replied, self._missing = array("q"), array("q"), array("b")

    def add(self, conversation: object) -> None:
        """Look at the conversation of the next row."""
        dialogue = read_dialogue(conversation, self.turns)
        if isinstance(dialogue, MissingText):
            asked, replied, missing = 0, 0, int(dialogue)
        else:
            asked, replied, missing = hash(dialogue.turns) or 1, hash(dialogue.replies) or 1, 0
        self._asked.append(asked)
        self._replied.append(replied)
        self._missing.append(missing)

    @property
    def asked(self) -> NDArray[np.int64]:
        """The fingerprint of what was asked, row by row."""
        return np.array(self._asked, dtype=np.int64)

    @property
    def replied(self) -> NDArray[np.int64]:
        """The fingerprint of what was replied, row by row."""
        return np.array(self._replied, dtype=np.int64)

    @property
    def missing(self) -> NDArray[np.int8]:
        """Why there is nothing to show, row by row; 0 where there is a text."""
        return np.array(self._missing, dtype=np.int8)


class ConversationRows(ABC):
    """The good rows of one source: battles, fingerprints of what was said, and a way back to the texts."""

    battles: BattleTable
    prints: tuple[Fingerprints, Fingerprints]
    """Of every row of the source, side A and side B."""
    good: NDArray[np.intp]
    """Which rows of the source are battles."""

    @abstractmethod
    def place(self, at: int) -> str:
        """Where the battle at a position is: `file:line`, or the number of its row."""

    @abstractmethod
    def sides(self, positions: Sequence[int]) -> Iterator[tuple[int, Sides]]:
        """The conversations of some battles as they are in the file, each with its position, in any order."""


class TextRows(ConversationRows):
    """Rows of JSON Lines, JSON arrays and CSV, read line by line."""

    def __init__(self, source: TextFiles, turns: Turns, columns: Columns, *, stop: bool) -> None:
        self.parts = source.parts
        self.columns = columns
        self.prints = Fingerprints(turns), Fingerprints(turns)
        self._tops = tuple(dict.fromkeys(field.raw.top for field in source.layout.fields))
        self._places: list[str] = []
        self._part_ends: list[int] = []
        bad: set[str] = set()

        def on_problem(problem: RowProblem) -> None:
            if stop:
                raise problem.error()
            bad.add(problem.where)

        self.battles = read_carefully(self._lines(), source.layout, on_problem, BadRows(examples_each=0))
        good = [at for at, place in enumerate(self._places) if place not in bad]
        self.good = np.array(good, dtype=np.intp)

    def _lines(self) -> Iterator[RawRow]:
        """The lines without their conversations, which are looked at in passing."""
        for part in self.parts:
            for line in file_lines(part):
                self._places.append(line.where)
                for prints, name in zip(self.prints, self.columns, strict=True):
                    prints.add(line.row.get(name))
                yield replace(line, row={name: line.row[name] for name in self._tops if name in line.row})
            self._part_ends.append(len(self._places))

    def place(self, at: int) -> str:
        """The line of a battle."""
        return self._places[int(self.good[at])]

    def sides(self, positions: Sequence[int]) -> Iterator[tuple[int, Sides]]:
        """The conversations of some battles, file by file."""
        wanted = {int(self.good[at]): at for at in positions}
        start = 0
        for number, (part, end) in enumerate(zip(self.parts, self._part_ends, strict=True)):
            rows = sorted(row - start for row in wanted if start <= row < end)
            if rows:
                for row, values in self._rows(number, part, rows):
                    yield wanted[start + row], (values.get(self.columns[0]), values.get(self.columns[1]))
            start = end

    def _rows(self, number: int, part: Part, rows: list[int]) -> Iterator[tuple[int, Any]]:
        if part.kind is FileKind.JSONL and not part.zipped:
            starts = self._line_starts[number]
            with part.open() as file:
                for row in rows:
                    try:
                        file.seek(int(starts[row]))
                        values = msgspec.json.decode(file.readline().removeprefix(b"\xef\xbb\xbf"))
                    except (IndexError, msgspec.DecodeError, UnicodeDecodeError):
                        raise BattleError(f"{part.name} has changed since it was read. Start again.") from None
                    yield row, values
            return
        chosen = set(rows)
        for row, line in enumerate(file_lines(part)):
            if row in chosen:
                yield row, line.row
            if row >= rows[-1]:
                return

    @cached_property
    def _line_starts(self) -> list[NDArray[np.int64]]:
        """Where each line of each JSON Lines file starts; blank lines are not rows."""
        every = []
        for part in self.parts:
            starts, place = array("q"), 0
            if part.kind is FileKind.JSONL and not part.zipped:
                with part.open() as file:
                    for line in file:
                        if not line.isspace():
                            starts.append(place)
                        place += len(line)
            every.append(np.array(starts, dtype=np.int64))
        return every


class ParquetRows(ConversationRows):
    """Rows of Parquet files, read by DuckDB."""

    def __init__(self, source: ParquetFiles, turns: Turns, columns: Columns, *, stop: bool) -> None:
        self.parts = source.parts
        self.columns = columns
        self.header = source.layout.header
        self.prints = Fingerprints(turns), Fingerprints(turns)
        import duckdb

        try:
            settled = source.settled()
        except duckdb.Error as error:
            raise _unreadable(source.name, error) from None
        if settled.counts() and stop:
            source.careful(BadRows(examples_each=0), stop=True)
        skipped = {reason.label: count for reason, count in settled.counts().items()}
        self.battles = replace(settled.table, skipped=skipped)
        self.good = np.flatnonzero(settled.reasons == 0)
        self._part, self._row = self._look_at_all()

    def _query(self, parts: Sequence[Part], columns: Sequence[str], condition: str = "") -> str:
        rows = file_rows(parts, self.header, ()).sql.removesuffix(")")
        selected = ", ".join(map(identifier, columns))
        return f"SELECT {selected} FROM {rows}, filename = '{FILE}', file_row_number = true) {condition}"

    def _look_at_all(self) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """The file and the number in it of every row; the conversations are looked at in passing, a side at a time."""
        number_of = {str(part.path): number for number, part in enumerate(self.parts)}
        files, rows = array("i"), array("q")
        for file, row in _fetched(self._query(self.parts, (FILE, FILE_ROW))):
            files.append(number_of[file])
            rows.append(row)
        for prints, name in zip(self.prints, self.columns, strict=True):
            fetched = _fetched(self._query(self.parts, (name,))) if name in self.header else repeat((None,), len(rows))
            for (conversation,) in fetched:
                prints.add(conversation)
        return np.array(files, dtype=np.int32), np.array(rows, dtype=np.int64)

    def place(self, at: int) -> str:
        """The file and the number of a battle's row."""
        row = self.good[at]
        return f"{self.parts[self._part[row]].name}: row {self._row[row] + 1}"

    def sides(self, positions: Sequence[int]) -> Iterator[tuple[int, Sides]]:
        """The conversations of some battles, file by file."""
        rows = self.good[np.asarray(positions, dtype=np.intp)]
        for number in np.unique(self._part[rows]).tolist():
            wanted = {
                int(self._row[row]): at
                for at, row in zip(positions, rows.tolist(), strict=True)
                if self._part[row] == number
            }
            condition = f"WHERE {FILE_ROW} IN ({', '.join(map(str, sorted(wanted)))})"
            side_a, side_b = (self._side(number, name, condition) for name in self.columns)
            for row, at in wanted.items():
                yield at, (side_a.get(row), side_b.get(row))

    def _side(self, number: int, name: str, condition: str) -> dict[int, object]:
        """One side of some rows of a file; both sides at once would take twice the memory."""
        if name not in self.header:
            return {}
        return dict(_fetched(self._query([self.parts[number]], (FILE_ROW, name), condition)))


def _fetched(query: str) -> Iterator[tuple[Any, ...]]:
    """The rows of a query in order, a few at a time and by one thread, so that long texts do not pile up."""
    import duckdb

    with session(large_limits=True) as connection:
        try:
            connection.execute("SET threads = 1")
            answer = connection.execute(query)
            while rows := answer.fetchmany(FETCHED_ROWS):
                yield from rows
        except duckdb.Error as error:
            raise _unreadable("the conversations", error) from None


def _unreadable(what: str, error: Exception) -> BattleError:
    return BattleError(f"{what} cannot be read: {str(error).strip().splitlines()[0]}. Check what wrote the file.")


def conversation_rows(
    source: RowSource, turns: Turns, columns: Columns = CONVERSATIONS, *, stop: bool
) -> ConversationRows:
    """The battles and conversations of one source; with `stop`, the first bad row is raised."""
    if isinstance(source, ParquetFiles):
        return ParquetRows(source, turns, columns, stop=stop)
    if isinstance(source, TextFiles):
        return TextRows(source, turns, columns, stop=stop)
    raise BattleError(f"{source.name} is not a file: conversations are read from files only.")


COLUMNS = ("question_id", "language")


@dataclass(frozen=True, slots=True, eq=False)
class BattleConversations:
    """Battles, and what was said in them.

    `asked` and `replied` hold one row per battle and one column per side: fingerprints that are equal where the texts
    are, and 0 where there is nothing to show; `missing` then says why (the codes of `MissingText`).
    `has_text_columns` is false for files that do not carry conversations at all.
    """

    battles: BattleTable
    asked: NDArray[np.int64]
    replied: NDArray[np.int64]
    missing: NDArray[np.int8]
    files: tuple[Part, ...]
    has_text_columns: bool
    turns: Turns
    sources: tuple[ConversationRows, ...]

    def place(self, battle: int) -> str:
        """Where a battle is: `file:line`, or the number of its row."""
        number, at = self._located(battle)
        return self.sources[number].place(at)

    def dialogues(self, battles: Iterable[int]) -> dict[int, tuple[Dialogue | None, Dialogue | None]]:
        """What was said on both sides of some battles, read from the files now; None where there is nothing to show."""
        wanted: dict[int, dict[int, int]] = defaultdict(dict)
        for battle in battles:
            number, at = self._located(battle)
            wanted[number][at] = battle
        dialogues = {}
        for number, places in wanted.items():
            for at, (side_a, side_b) in self.sources[number].sides(sorted(places)):
                dialogues[places[at]] = self._dialogue(side_a), self._dialogue(side_b)
        return dialogues

    def _dialogue(self, conversation: object) -> Dialogue | None:
        dialogue = read_dialogue(conversation, self.turns)
        return None if isinstance(dialogue, MissingText) else dialogue

    def _located(self, battle: int) -> tuple[int, int]:
        for number, source in enumerate(self.sources):
            if battle < len(source.battles):
                return number, battle
            battle -= len(source.battles)
        raise IndexError(battle)


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
    if on_bad not in ("error", "skip"):
        raise OptionError(f"unknown on_bad {on_bad!r}: expected error or skip")
    if turns not in ("first", "all"):
        raise OptionError(f"unknown turns {turns!r}: expected first or all")
    if format != "auto" and format not in FORMAT_NAMES:
        raise OptionError(f"unknown format {format!r}: expected auto or one of {', '.join(FORMAT_NAMES)}")
    parts = find_parts(data)
    given = dict(map or {})
    texts = given.pop(CONVERSATIONS[0], CONVERSATIONS[0]), given.pop(CONVERSATIONS[1], CONVERSATIONS[1])
    row_sources = find_sources(data, ReadOptions(format, COLUMNS, map=read_map(given)))
    _check_texts(row_sources, texts)
    sources = tuple(conversation_rows(source, turns, texts, stop=on_bad == "error") for source in row_sources)
    battles = sources[0].battles if len(sources) == 1 else concat([source.battles for source in sources])
    if not len(battles):
        why = ", ".join(f"{count} × {reason}" for reason, count in battles.skipped.items()) or "it has no rows"
        raise NoBattles(f"{parts[0].name}: no row is a battle ({why}). Check the format (", OptionValue("format"), ").")
    return BattleConversations(
        battles=battles,
        asked=np.concatenate([_both_sides(source, "asked") for source in sources]),
        replied=np.concatenate([_both_sides(source, "replied") for source in sources]),
        missing=np.concatenate([_both_sides(source, "missing") for source in sources]).astype(np.int8),
        files=tuple(parts),
        has_text_columns=any(name in source.layout.header for source in row_sources for name in texts),
        turns=turns,
        sources=sources,
    )


def _check_texts(sources: Sequence[RowSource], texts: tuple[str, str]) -> None:
    for ours, theirs in zip(CONVERSATIONS, texts, strict=True):
        for source in sources:
            header = source.layout.header
            if ours != theirs and theirs not in header:
                raise OptionError(
                    f"{source.name} has no column {theirs!r} for {ours}. Its columns are {listed(header.top_names)}."
                )


def _both_sides(source: ConversationRows, what: str) -> NDArray[np.int64]:
    """One kind of fingerprint of the good rows, side A beside side B."""
    sides: NDArray[np.int64] = np.stack([getattr(side, what)[source.good] for side in source.prints], axis=1)
    return sides
