"""What a run folder knows of its battles: matchups without a verdict, and whether the run spoke against itself.

Matchups have no verdict where the judgment failed, where they were never asked, or where an answer is missing.

A failed judgment is no battle, so files of battles do not show it; the run's own files do. They are read here by their
documented fields (`verdicts/<dimension>.jsonl`, `matches/matches.jsonl`; a placement has `verdicts.jsonl`). Adaptive
rounds list only the matchups that they chose, so that the others are not missing. A prompt that an entrant did not
answer is judged for nobody; for its own pairs it is missing (`manifest.json`).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from tiltyard.data.battles.inputs import BATTLES, MANIFEST, MATCHES, SCORES, VERDICTS
from tiltyard.data.battles.reading import BattleData, Opened
from tiltyard.errors import RunFolderError

NEVER_ASKED, NO_ANSWER = "never asked", "no answer"
READABLE = ("A", "B", "TIE")
SHOWN_ENTRANTS = 6
"""Entrants that a sentence names: those with the most."""


@dataclass(frozen=True, slots=True)
class MissingMatchup:
    """A matchup without a verdict.

    `reason` is `unparsed`, `truncated`, `refused`, `error`, `never asked` or `no answer`; `columns` are what its battle
    would say of the prompt, as far as the run folder tells: category, language, ….
    """

    prompt_id: str
    dimension: str
    entrant_a: str
    entrant_b: str
    reason: str
    columns: Mapping[str, str] = field(default_factory=dict, compare=False)

    @property
    def entrants(self) -> tuple[str, str]:
        return self.entrant_a, self.entrant_b

    def rival(self, entrant: str) -> str:
        return self.entrant_b if entrant == self.entrant_a else self.entrant_a


Pair = tuple[str, str, str]
"""A dimension and two entrants."""


class MissingCounts(msgspec.Struct, frozen=True):
    """Matchups of the run without a verdict."""

    matchups: int
    """All of them."""
    without_verdict: int
    """Those without one."""
    by_entrant: dict[str, int]
    by_reason: dict[str, int]
    """`unparsed`, `truncated`, `refused`, `error` or `never asked`."""


class MissingVerdicts(msgspec.Struct, frozen=True, eq=False):
    """The matchups of run folders that have no verdict, and how many are `planned`, by dimension and entrants.

    Those of a panel whose judges each make a battle count once for each judge.
    """

    planned: Mapping[Pair, int] = msgspec.field(default_factory=dict)
    matchups: tuple[MissingMatchup, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.matchups)

    def __len__(self) -> int:
        return len(self.matchups)

    @property
    def total(self) -> int:
        return sum(self.planned.values())

    @property
    def by_entrant(self) -> dict[str, int]:
        """How many each entrant has, most first; a matchup counts for both of its entrants."""
        return dict(Counter(name for one in self.matchups for name in one.entrants).most_common())

    @property
    def by_reason(self) -> dict[str, int]:
        """How many there are of each reason, most first."""
        return dict(Counter(one.reason for one in self.matchups).most_common())

    def only(
        self,
        *,
        dimensions: Collection[str] | None = None,
        entrants: Collection[str] | None = None,
        prompts: Collection[str] | None = None,
    ) -> MissingVerdicts:
        """Those of some dimensions, of at least one of some entrants, on some prompts; None: of all."""

        def wanted(dimension: str, *names: str) -> bool:
            inside = dimensions is None or dimension in dimensions
            return inside and (entrants is None or any(name in entrants for name in names))

        planned = {pair: count for pair, count in self.planned.items() if wanted(*pair)}
        matchups = [one for one in self.matchups if prompts is None or one.prompt_id in prompts]
        return MissingVerdicts(planned, tuple(one for one in matchups if wanted(one.dimension, *one.entrants)))

    @property
    def counted(self) -> str:
        """`50 of 200 matchups have no verdict`."""
        word = "has" if len(self) == 1 else "have"
        return f"{len(self):,} of {self.total:,} matchup{'s' if self.total != 1 else ''} {word} no verdict"

    @property
    def sentence(self) -> str:
        """`50 of 200 matchups have no verdict (v2 50, v1 50: unparsed 50)`."""
        named = [f"{name} {count:,}" for name, count in self.by_entrant.items()]
        why = [f"{name} {count:,}" for name, count in self.by_reason.items()]
        entrants = named if len(named) <= SHOWN_ENTRANTS else [*named[:SHOWN_ENTRANTS], "…"]
        return f"{self.counted} ({', '.join(entrants)}: {', '.join(why)})"

    @property
    def facts(self) -> MissingCounts:
        return MissingCounts(self.total, len(self), self.by_entrant, self.by_reason)


def together(some: Sequence[MissingVerdicts]) -> MissingVerdicts:
    """Those of several folders."""
    planned: Counter[Pair] = sum((Counter(one.planned) for one in some), Counter())
    return MissingVerdicts(planned, tuple(row for one in some for row in one.matchups))


def missing_verdicts(battles: BattleData) -> MissingVerdicts:
    """The matchups without a verdict of every run folder that battles come from; none where they come from no run."""
    return together([read_missing(folder) for folder in run_folders(battles)])


def run_folders(battles: BattleData) -> list[Path]:
    """The run folders that battles or scores come from; none where they come from no run."""
    parts = Opened.of(battles).parts
    folders = [part.path.parent.resolve() for part in parts if part.path.name in (BATTLES, SCORES)]
    above = [part.path.resolve().parents[1] for part in parts if part.path.parent.name == VERDICTS]
    return list(dict.fromkeys([*folders, *(folder for folder in above if (folder / MANIFEST).is_file())]))


SHOWN_CHECKS = 3


def no_go(battles: BattleData) -> tuple[str, ...]:
    """A clause for each run that battles come from and that says NO-GO of itself: a pilot, or a placement."""
    clauses = []
    for folder in run_folders(battles):
        try:
            manifest = json.loads((folder / MANIFEST).read_bytes())
            checks = manifest.get("gate") or (manifest.get("results") or {}).get("gate") or ()
            failed = [f"{one['check']}: {one['detail']}" for one in checks if not one["passed"]]
        except (OSError, ValueError, AttributeError, KeyError, TypeError):
            continue  # no run, or one that cannot be read: whoever opens it as a run says so
        if failed:
            more = [f"and {len(failed) - SHOWN_CHECKS} more"] if len(failed) > SHOWN_CHECKS else []
            clauses.append(f"{folder.name} says NO-GO of itself ({'; '.join([*failed[:SHOWN_CHECKS], *more])})")
    return tuple(clauses)


class _Raw(msgspec.Struct, frozen=True):
    verdict: str | None = None


class _Line(msgspec.Struct, frozen=True):
    """What is read of a line of `matches.jsonl` or of a file of verdicts."""

    prompt_id: str
    dimension: str = ""
    entrant_a: str = ""
    entrant_b: str = ""
    source: str | None = None
    subject: str | None = None
    language: str | None = None
    prompt_columns: dict[str, Any] = {}
    status: str | None = None
    raw: tuple[_Raw, ...] = ()

    @property
    def matchup(self) -> tuple[str, str, frozenset[str]]:
        return self.dimension, self.prompt_id, frozenset((self.entrant_a, self.entrant_b))

    @property
    def columns(self) -> dict[str, str]:
        known = {"prompt_source": self.source, "subject": self.subject, "language": self.language}
        return {name: str(value) for name, value in (self.prompt_columns | known).items() if value not in (None, "")}

    @property
    def reason(self) -> str | None:
        """Why there is no verdict; None where there is one. Folders of other programs have no status."""
        failures = [one.verdict for one in self.raw if one.verdict not in READABLE]
        if self.status == "ok" or (self.status is None and self.raw and not failures):
            return None
        return next((name for name in failures if name), NEVER_ASKED)

    def missing(self, reason: str, columns: Mapping[str, str]) -> MissingMatchup:
        return MissingMatchup(self.prompt_id, self.dimension, self.entrant_a, self.entrant_b, reason, columns)


def read_missing(folder: Path) -> MissingVerdicts:
    """The matchups of one run folder that have no verdict; none where the folder has no verdicts at all."""
    files = [*sorted((folder / VERDICTS).glob("*.jsonl")), *folder.glob("verdicts.jsonl")]
    if not files:
        return MissingVerdicts()
    matches = list(_read(folder / MATCHES)) if (folder / MATCHES).is_file() else []
    columns = {match.prompt_id: match.columns for match in matches}
    lines: Counter[tuple[str, str, frozenset[str]]] = Counter()
    planned: Counter[Pair] = Counter()
    missing: list[MissingMatchup] = []
    for path in files:
        for line in _read(path):
            lines[line.matchup] += 1
            planned[line.dimension, line.entrant_a, line.entrant_b] += 1
            if line.reason is not None:
                missing.append(line.missing(line.reason, columns.get(line.prompt_id, {})))
    judges = max(lines.values(), default=1)
    for match in matches:
        if match.matchup not in lines:
            planned[match.dimension, match.entrant_a, match.entrant_b] += judges
            missing += [match.missing(NEVER_ASKED, columns[match.prompt_id])] * judges
    for (dimension, a, b), lacking in _unanswered(folder, planned).items():
        planned[dimension, a, b] += len(lacking) * judges
        missing += [MissingMatchup(prompt, dimension, a, b, NO_ANSWER) for prompt in lacking for _ in range(judges)]
    return MissingVerdicts(planned, tuple(missing))


class _Dropped(msgspec.Struct, frozen=True):
    unanswered: dict[str, dict[str, list[str]]] = {}


class _Manifest(msgspec.Struct, frozen=True):
    dropped: _Dropped = _Dropped()


def _unanswered(folder: Path, pairs: Collection[Pair]) -> dict[Pair, list[str]]:
    """The prompts that one of a pair did not answer, for each pair once; none where a folder does not say it so."""
    path = folder / MANIFEST
    try:
        lacking = msgspec.json.decode(path.read_bytes(), type=_Manifest).dropped.unanswered if path.is_file() else {}
    except msgspec.MsgspecError:
        return {}
    found = {}
    for dimension, a, b in pairs:
        if (dimension, b, a) not in found:
            own = lacking.get(dimension, {})
            found[dimension, a, b] = sorted({*own.get(a, ()), *own.get(b, ())})
    return found


def _read(path: Path) -> Iterator[_Line]:
    decoder = msgspec.json.Decoder(_Line)
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            try:
                yield decoder.decode(line)
            except (msgspec.MsgspecError, UnicodeDecodeError) as error:
                raise RunFolderError(
                    f"{path}:{number}: not what a run writes there ({error}). Write it again with `tiltyard run`, "
                    "which asks no question twice."
                ) from None
