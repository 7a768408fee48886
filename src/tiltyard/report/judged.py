"""Judgments without their texts: what lists, counts and links need, small enough for a run of any size."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import compress
from pathlib import Path
from typing import Any, TypeVar, overload

import msgspec

from tiltyard.judging.records import Judgment, Verdict, VerdictLabel, in_pairs
from tiltyard.judging.run_folder import RUN, LineSpan, decode, read_lines, require

DECODER = msgspec.json.Decoder(Judgment)

Key = TypeVar("Key")


class JudgedBattle(msgspec.Struct, frozen=True, gc=False):
    """One judgment in brief. `slots` are the verdicts by slot as shown, `said` the same by entrant."""

    number: int
    prompt_id: str
    line: LineSpan
    file: str
    dimension: str
    entrant_a: str
    entrant_b: str
    winner: str | None
    inconsistent: bool
    status: str
    slots: tuple[VerdictLabel, ...]
    said: tuple[VerdictLabel, ...]
    judges: tuple[str, ...]
    swaps: tuple[bool, ...] = (False, True)
    """For each verdict, whether entrant_b was shown first."""
    both_orders: tuple[tuple[int, int], ...] = ((0, 1),)
    """The places of two verdicts of one judge in both orders, for every judge and repeat."""

    @property
    def entrants(self) -> tuple[str, str]:
        """The two, entrant_a first."""
        return (self.entrant_a, self.entrant_b)

    @property
    def settled(self) -> bool:
        """Whether it made a battle; a failed judgment did not."""
        return self.status == "ok"

    @property
    def outcome(self) -> str:
        """The outcome in one word: the winner's name, `tie`, `inconsistent` or `failed`."""
        if not self.settled:
            return "failed"
        return self.winner or ("inconsistent" if self.inconsistent else "tie")

    @property
    def kind(self) -> str:
        """Which of the four outcomes it had, regardless of who won."""
        return "decisive" if self.winner is not None else self.outcome

    def word(self, place: int) -> str:
        """The verdict in this order: an entrant's name, `tie`, a failure's name, or `missing`."""
        if place >= len(self.said):
            return "missing"
        verdict = self.said[place]
        return {VerdictLabel.A: self.entrant_a, VerdictLabel.B: self.entrant_b, VerdictLabel.TIE: "tie"}.get(
            verdict, str(verdict)
        )

    def word_when_first(self, entrant: str) -> str:
        """The verdict when this entrant was shown first, or how often each was given; `not asked` if it never was."""
        places = [place for place, swap in enumerate(self.swaps) if entrant == self.entrants[swap]]
        words = Counter(self.word(place) for place in places)
        if len(places) < 2:
            return next(iter(words), "not asked")
        return ", ".join(f"{word} {count}" for word, count in words.most_common())


class _Columns:
    """What is held of the judgments: 24 bytes each, and once what many of them share."""

    def __init__(self) -> None:
        self.prompts: dict[str, int] = {}
        self.prompt_ids: list[str] = []
        self.kinds: dict[tuple[Any, ...], int] = {}
        self.kind_fields: list[tuple[Any, ...]] = []
        """The fields of a `JudgedBattle` from `file` on."""
        self.shared: dict[tuple[int, Any], Any] = {}
        self.first_of_kind: list[int] = []
        self.prompt = array("I")
        self.kind = array("I")
        self.line = array("I")
        self.start = array("Q")
        self.size = array("I")

    def add(self, file: str, dimension: str, place: LineSpan, judgment: Judgment) -> None:
        """One more judgment."""
        kind = _kind(file, dimension, judgment)
        code = self.kinds.setdefault(kind, len(self.kinds))
        if code == len(self.kind_fields):
            # Each field by its place: an entrant or judge may be named like a verdict.
            self.kind_fields.append(tuple(self.shared.setdefault(item, item[1]) for item in enumerate(kind)))
            self.first_of_kind.append(len(self.kind))
        prompt = self.prompts.setdefault(judgment.prompt_id, len(self.prompts))
        if prompt == len(self.prompt_ids):
            self.prompt_ids.append(judgment.prompt_id)
        self.kind.append(code)
        self.prompt.append(prompt)
        self.line.append(place.number)
        self.start.append(place.start)
        self.size.append(place.end - place.start)

    def battle(self, number: int) -> JudgedBattle:
        """The judgment of this number."""
        start = self.start[number]
        line = LineSpan(self.line[number], start, start + self.size[number])
        return JudgedBattle(number, self.prompt_ids[self.prompt[number]], line, *self.kind_fields[self.kind[number]])


def _kind(file: str, dimension: str, judgment: Judgment) -> tuple[Any, ...]:
    """What a judgment shares with others: a million of them have a few thousand kinds."""
    raw = judgment.raw
    return (
        file,
        dimension,
        judgment.entrant_a,
        judgment.entrant_b,
        judgment.winner,
        judgment.inconsistent,
        judgment.status,
        tuple([verdict.verdict for verdict in raw]),
        tuple([verdict.for_entrants for verdict in raw]),
        tuple(dict.fromkeys([verdict.judge_model for verdict in raw])),
        tuple([verdict.position_swap for verdict in raw]),
        _both_orders(raw) if len(raw) != 2 else ((0, 1),),
    )


class JudgedBattles(Sequence[JudgedBattle]):
    """Judgments of a run, all or some. They are held as columns; a record is made whenever one is looked at."""

    __slots__ = ("_columns", "numbers")

    def __init__(self, columns: _Columns, numbers: Sequence[int]) -> None:
        self._columns = columns
        self.numbers = numbers
        """Their numbers in the run, in order."""

    def __len__(self) -> int:
        return len(self.numbers)

    @overload
    def __getitem__(self, place: int) -> JudgedBattle: ...

    @overload
    def __getitem__(self, place: slice) -> JudgedBattles: ...

    def __getitem__(self, place: int | slice) -> JudgedBattle | JudgedBattles:
        if isinstance(place, slice):
            return JudgedBattles(self._columns, self.numbers[place])
        return self._columns.battle(self.numbers[place])

    def __iter__(self) -> Iterator[JudgedBattle]:
        return map(self._columns.battle, self.numbers)

    def counted(self) -> Iterator[tuple[JudgedBattle, int]]:
        """How many there are of each kind, with one of the run that stands for them, in order of appearance.

        Judgments of one kind differ only in number, prompt and line.
        """
        first = self._columns.first_of_kind
        for kind, count in Counter(map(self._columns.kind.__getitem__, self.numbers)).items():
            yield self._columns.battle(first[kind]), count

    def of_kind(self, test: Callable[[JudgedBattle], bool]) -> JudgedBattles:
        """Those that pass a test, which may look at anything but number, prompt and line."""
        passed = [test(self._columns.battle(first)) for first in self._columns.first_of_kind]
        kinds = map(self._columns.kind.__getitem__, self.numbers)
        return JudgedBattles(self._columns, array("I", compress(self.numbers, map(passed.__getitem__, kinds))))

    def of_dimension(self, name: str) -> JudgedBattles:
        """Those of one dimension."""
        return self.of_kind(lambda battle: battle.dimension == name)

    def grouped(self, key: Callable[[JudgedBattle], Key]) -> dict[Key, JudgedBattles]:
        """Those with the same key together, in the order in which the keys appear."""
        groups: dict[Key, array[int]] = {}
        for battle in self:
            name = key(battle)
            if name not in groups:
                groups[name] = array("I")
            groups[name].append(battle.number)
        return {name: JudgedBattles(self._columns, group) for name, group in groups.items()}


def counted(battles: Iterable[JudgedBattle]) -> Iterable[tuple[JudgedBattle, int]]:
    """Judgments with how many they stand for, as few as possible: see `JudgedBattles.counted`."""
    return battles.counted() if isinstance(battles, JudgedBattles) else ((battle, 1) for battle in battles)


def list_judged(folder: Path, dimensions: Sequence[str]) -> JudgedBattles:
    """Every judgment of every dimension in brief, in the order of the files."""
    files = {name: require(folder / "verdicts" / f"{name}.jsonl", folder) for name in dimensions}
    return read_judged(files, folder)


def read_judged(files: Mapping[str, Path], folder: Path, command: str = RUN) -> JudgedBattles:
    """The judgments of a file for each dimension, in brief."""
    columns = _Columns()
    for dimension, path in files.items():
        file = path.relative_to(folder).as_posix()
        for place, judgment in read_lines(path, DECODER, command):
            columns.add(file, dimension, place, judgment)
    return JudgedBattles(columns, range(len(columns.kind)))


def _both_orders(raw: Sequence[Verdict]) -> tuple[tuple[int, int], ...]:
    places = {id(verdict): place for place, verdict in enumerate(raw)}
    return tuple((places[id(forward)], places[id(swapped)]) for forward, swapped in in_pairs(raw))


def read_judgment(folder: Path, battle: JudgedBattle) -> Judgment:
    """The whole judgment of a battle, from its line."""
    path = folder / battle.file
    with path.open("rb") as file:
        file.seek(battle.line.start)
        line = file.read(battle.line.end - battle.line.start)
    judgment: Judgment = decode(line, DECODER, path, battle.line.number)
    return judgment
