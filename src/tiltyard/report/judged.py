"""Judgments without their texts: what lists, counts and links need, small enough for a run of any size."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import msgspec

from tiltyard.judging.records import Judgment, VerdictLabel, in_pairs
from tiltyard.judging.run_folder import RUN, LineSpan, decode, read_lines, require

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from tiltyard.judging.records import Verdict

DECODER = msgspec.json.Decoder(Judgment)


class JudgedBattle(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One judgment in brief. `slots` are the verdicts by slot as shown, `said` the same by entrant."""

    number: int
    dimension: str
    prompt_id: str
    entrant_a: str
    entrant_b: str
    winner: str | None
    inconsistent: bool
    status: str
    slots: tuple[VerdictLabel, ...]
    said: tuple[VerdictLabel, ...]
    judges: tuple[str, ...]
    file: str
    line: LineSpan
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

    def word(self, place: int) -> str:
        """The verdict in this order: an entrant's name, `tie`, a failure's name, or `missing`."""
        if place >= len(self.said):
            return "missing"
        said = self.said[place]
        return {VerdictLabel.A: self.entrant_a, VerdictLabel.B: self.entrant_b, VerdictLabel.TIE: "tie"}.get(
            said, str(said)
        )

    def word_when_first(self, entrant: str) -> str:
        """The verdict when this entrant was shown first, or how often each was given; `not asked` if it never was."""
        places = [place for place, swap in enumerate(self.swaps) if entrant == self.entrants[swap]]
        words = Counter(self.word(place) for place in places)
        if len(places) < 2:
            return next(iter(words), "not asked")
        return ", ".join(f"{word} {count}" for word, count in words.most_common())


def list_judged(folder: Path, dimensions: Sequence[str]) -> tuple[JudgedBattle, ...]:
    """Every judgment of every dimension in brief, in the order of the files."""
    battles: list[JudgedBattle] = []
    for dimension in dimensions:
        path = require(folder / "verdicts" / f"{dimension}.jsonl", folder)
        battles.extend(read_judged(path, folder, dimension, first=len(battles)))
    return tuple(battles)


def read_judged(
    path: Path, folder: Path, dimension: str, *, first: int = 0, command: str = RUN
) -> Iterator[JudgedBattle]:
    """The judgments of one file in brief, numbered from `first`."""
    file = path.relative_to(folder).as_posix()
    shared: dict[Any, Any] = {}
    for number, (place, judgment) in enumerate(read_lines(path, DECODER, command), start=first):
        yield _brief(judgment, number, file, place, dimension, shared)


def _brief(
    judgment: Judgment, number: int, file: str, place: LineSpan, dimension: str, shared: dict[Any, Any]
) -> JudgedBattle:
    """A judgment in brief. Names and verdicts that came before are taken from `shared`: a million hold few of them."""

    def once(value: Any) -> Any:
        return shared.setdefault(value, value)

    return JudgedBattle(
        number=number,
        dimension=dimension,
        prompt_id=once(judgment.prompt_id),
        entrant_a=once(judgment.entrant_a),
        entrant_b=once(judgment.entrant_b),
        winner=once(judgment.winner),
        inconsistent=judgment.inconsistent,
        status=once(judgment.status),
        slots=once(tuple(verdict.verdict for verdict in judgment.raw)),
        said=once(tuple(verdict.for_entrants for verdict in judgment.raw)),
        judges=once(tuple(dict.fromkeys(verdict.judge_model for verdict in judgment.raw))),
        file=file,
        line=place,
        swaps=once(tuple(verdict.position_swap for verdict in judgment.raw)),
        both_orders=once(_both_orders(judgment.raw) if len(judgment.raw) != 2 else ((0, 1),)),
    )


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
