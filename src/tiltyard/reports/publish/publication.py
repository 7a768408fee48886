"""What is published: battles that may be public, the rules by which they are rated, and the boards that follow."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from itertools import chain
from typing import Any

import msgspec
import numpy as np

from tiltyard.analysis.boards import CENTRE, RATING_MAX, BradleyTerry, Leaderboard, Selection
from tiltyard.data.battles import FLAGS, MISSING, BattleTable, Codes, Column
from tiltyard.errors import BattleError, OptionError, RatingError
from tiltyard.options import BothBad, Inconsistent, PublishOptions, Ties
from tiltyard.render import is_unseen, look_alikes

DIMENSION, PROMPT, VOTER = "dimension", "question_id", "voter"
PUBLIC_COLUMNS = frozenset(
    (PROMPT, VOTER, "judge_model", DIMENSION, "category", "language", "timestamp", "battle_id", *FLAGS)
)
"""Columns of a battle row that are published; besides them `score_a`, `weight` and control pairs, which are numbers."""

LONGEST_ID = 80
"""A prompt's id that is longer, or has a space in it, is a text."""

MOST_BOARDS = 24
"""Dimensions with a board of their own at the most."""

PARTS = ("category", "language")
"""Columns whose values have boards of their own."""

FEWEST_IN_PART = 30
"""Battles that a part needs for a board: with fewer, intervals are as wide as the page."""

MODELS_IN_PARTS = 24_000
"""Models on the boards of all parts together, at the most: a large board has fewer parts."""

MOST_NOTES, LONGEST_WORDS = 50, 1_000
"""Notes of an operator, and letters of each, at the most."""

LEVELS = (0.5, 1.0)
"""Between these is the level of intervals: below a half, every model would be best."""

SAFE = re.compile(r"[^a-z0-9]+")


class BoardRules(msgspec.Struct, frozen=True, kw_only=True):
    """How published battles are rated: with the battles it gives the board again."""

    ties: Ties = "davidson"
    """How ties are read."""
    both_bad: BothBad = "separate"
    """What becomes of battles in which both answers were bad."""
    inconsistent: Inconsistent = "tie"
    """What becomes of judgments whose two orders disagreed."""
    min_battles: float = 0.0
    """Models with fewer battles are left out."""
    only_connected: bool = False
    """Whether the largest group is rated where groups of models never met."""
    cluster: str = "auto"
    """What makes battles dependent."""
    anytime: bool = False
    """Whether ranges of places hold at every time at which one looks."""
    level: float = 0.95
    """The level of intervals."""
    anchor: tuple[str, float] | None = None
    """A model and the rating it is pinned to."""
    centre: float = CENTRE
    """The mean rating where there is no anchor."""
    evaluated: str | None = None
    """The model under test."""

    @property
    def sentence(self) -> str:
        """All of them, in words: nobody else chose them."""
        middle = f"the mean is {self.centre:.15g}" if self.anchor is None else "{} is at {:.15g}".format(*self.anchor)
        return "; ".join(
            [
                f"ties: {self.ties}",
                f"both answers bad: {self.both_bad}",
                f"judgments that changed with the order: {self.inconsistent}",
                f"models with fewer than {self.min_battles:.15g} battles are left out"
                if self.min_battles
                else "no model is left out for few battles",
                "the largest group of models that met" if self.only_connected else "all models must have met",
                f"intervals of {100 * self.level:.15g} %, clusters: {self.cluster}",
                "places at every time at which one looks" if self.anytime else "places at one time",
                middle,
                *([f"under test: {self.evaluated}"] if self.evaluated is not None else []),
            ]
        )

    def check(self) -> None:
        """Refuse numbers that no board can have."""
        numbers = (self.min_battles, self.level, self.centre, *(() if self.anchor is None else self.anchor[1:]))
        finite, near = all(map(math.isfinite, numbers)), max(map(abs, numbers[2:])) <= RATING_MAX
        if not (finite and near) or not LEVELS[0] <= self.level < LEVELS[1] or self.min_battles < 0:
            raise OptionError(
                f"these rules give no board: level {self.level:g}, at least {self.min_battles:g} battles, mean "
                f"{self.centre:g}. The level is from 0.5 to below 1, and ratings are within ±{RATING_MAX:,.0f}."
            )

    def estimator(self, dimension: str | None = None) -> BradleyTerry:
        """The estimator of a board, of all battles or of one dimension."""
        selection = Selection(
            dimension=dimension, both_bad=self.both_bad, inconsistent=self.inconsistent, min_battles=self.min_battles
        )
        return BradleyTerry(
            ties=self.ties,
            cluster=self.cluster,
            anytime=self.anytime,
            level=self.level,
            anchor=self.anchor,
            only_connected=self.only_connected,
            evaluated=self.evaluated,
            selection=selection,
        )


class PublishedBoard(msgspec.Struct, frozen=True, eq=False):
    """One board of a publication."""

    dimension: str | None
    board: Leaderboard

    @property
    def file(self) -> str:
        return "board.json" if self.dimension is None else f"board-{slug(self.dimension)}.json"

    @property
    def anchor(self) -> str:
        """Its section on the page."""
        return "board" if self.dimension is None else f"board-{slug(self.dimension)}"


class BoardPart(msgspec.Struct, frozen=True, eq=False):
    """The battles of one category or language, rated alone.

    Parameters:
        column: What it is a value of: `category` or `language`.
        label: The value.
        battles: How many battles it has.
        boards: Its boards, as those of all battles; none where it cannot be rated.
        why_none: Why it has none.
    """

    column: str
    label: str
    battles: float
    boards: tuple[PublishedBoard, ...]
    why_none: str = ""

    @property
    def file(self) -> str:
        return f"parts/{slug(f'{self.column} {self.label}')}.html"


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class StaticSite:
    """Everything that is published, before it is written.

    Parameters:
        kind: What it was made from: `battles`, `run`, `placement` or `arena`.
        title: What the site is called.
        table: The battles as they are published.
        rules: How they are rated.
        boards: The boards.
        parts: The boards of each category and language, where there are several.
        show_texts: Whether texts of prompts were asked for.
        texts: Texts of prompts by id, where they may be public.
        names: Names of models as people read them, where they differ from their ids.
        updated: When the newest battle was, in seconds since 1970; None: nothing says.
        about: What follows from the battles, or from an arena's log, and a reader should know.
        notes: What only the operator knows, in sentences.
        blind: Whether an arena hid who wrote an answer while it was voted on.
        missing: How many matchups of the run have no verdict, in words; empty: none, or it is no run.
        url: Where the folder will be served; empty: not known.
        pictures: Whether there are pictures to share.
        evidence: What an arena's battles are made from, by file name: its witness, and its head where one is stated.
    """

    kind: str
    title: str
    table: BattleTable
    rules: BoardRules
    boards: tuple[PublishedBoard, ...]
    parts: tuple[BoardPart, ...] = ()
    show_texts: bool = False
    texts: Mapping[str, str] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)
    updated: int | None = None
    about: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    blind: bool = True
    missing: str = ""
    url: str = ""
    pictures: bool = False
    evidence: Mapping[str, bytes] = field(default_factory=dict)

    def name(self, model: str) -> str:
        return self.names.get(model) or model


def slug(name: str) -> str:
    """A file name for any name: its letters and digits, and eight digits of its hash, so that no two are the same."""
    words = SAFE.sub("-", name.lower()).strip("-")[:40].strip("-")
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{words}-{digest}" if words else digest


def publishable(table: BattleTable, *, texts: bool, voters_are_keys: bool = False) -> tuple[BattleTable, list[str]]:
    """The battles as they may be public, and what a reader should know of them; those that are public stay the same.

    Only columns of a battle row are kept. Voters become numbers in order of appearance, and so do prompts whose ids are
    texts, unless texts may be public: who belongs together, and so every rating and interval, stays.

    Parameters:
        table: The battles.
        texts: Whether texts may be public.
        voters_are_keys: Whether voters are random keys already, as in an arena's export.
    """
    about: list[str] = []
    columns: dict[str, Column] = {}
    for name, column in table.columns.items():
        if isinstance(column, Codes):
            if name in PUBLIC_COLUMNS:
                columns[name] = _in_order(column)
        elif name in PUBLIC_COLUMNS or name[-2:] in ("_a", "_b"):
            columns[name] = column
    if VOTER in columns and not voters_are_keys:
        columns[VOTER] = _numbered(table.text_column(VOTER), "v")
        about.append("Voters are numbers in order of appearance; their keys are not published.")
    prompts = columns.get(PROMPT)
    if isinstance(prompts, Codes) and not texts:
        numbered = _numbered(prompts, "prompt-")
        if any(map(_is_text, prompts.labels)):
            columns[PROMPT] = numbered
        if set(columns[PROMPT].labels) == set(numbered.labels):  # type: ignore[union-attr]
            about.append("Prompts are numbers in order of appearance; their texts are not published.")
    public = replace(table, columns=columns).compact()
    return replace(public, skipped={}, repeated=0, repeated_ids=0), about


def _is_text(label: str) -> bool:
    return len(label) > LONGEST_ID or any(letter.isspace() for letter in label)


def _in_order(column: Codes) -> Codes:
    """The same texts with the labels that occur, sorted."""
    used = sorted(np.unique(column.codes[column.codes != MISSING]).tolist(), key=lambda code: column.labels[code])
    return _relabelled(column, used, [column.labels[code] for code in used])


def _numbered(column: Codes, prefix: str) -> Codes:
    """A number in order of appearance instead of each text."""
    seen, first = np.unique(column.codes[column.codes != MISSING], return_index=True)
    width = len(str(len(seen)))
    numbers = [f"{prefix}{number:0{width}d}" for number in range(1, len(seen) + 1)]
    return _relabelled(column, seen[np.argsort(first)].tolist(), numbers)


def _relabelled(column: Codes, codes: list[int], labels: list[str]) -> Codes:
    """The column with new labels for these codes, in their order."""
    new = np.full(len(column.labels) + 1, MISSING, dtype=np.int32)  # the last one is that of a missing text
    new[codes] = np.arange(len(codes), dtype=np.int32)
    return Codes(new[column.codes], tuple(labels))


def make_boards(table: BattleTable, rules: BoardRules) -> tuple[PublishedBoard, ...]:
    """The boards: one for each dimension where there are several, else one of all battles."""
    dimensions = _labels(table, DIMENSION)
    if len(dimensions) < 2:
        return (PublishedBoard(None, rate_by_rules(table, rules)),)
    boards, errors = [], []
    for dimension in dimensions[:MOST_BOARDS]:
        try:
            boards.append(PublishedBoard(dimension, rate_by_rules(table, rules, dimension)))
        except (BattleError, RatingError) as error:
            errors.append(f"{dimension}: {error}")
    if not boards:
        raise RatingError(errors[0])
    return tuple(boards)


def make_parts(table: BattleTable, rules: BoardRules) -> tuple[BoardPart, ...]:
    """The boards of each category and language, those with most battles first; nothing where there is only one."""
    parts: list[BoardPart] = []
    most = min(MOST_BOARDS, MODELS_IN_PARTS // max(len(table.models), 1))
    for column in PARTS:
        labels = _labels(table, column)
        if len(labels) < 2:
            continue
        codes = table.text_column(column)
        weights = np.bincount(codes.codes[codes.codes != MISSING], table.weight[codes.codes != MISSING])
        sizes = {label: float(weights[codes.labels.index(label)]) for label in labels}
        for label in sorted(labels, key=lambda label: (-sizes[label], label))[:most]:
            part = table.take(codes.codes == codes.labels.index(label)).compact()
            parts.append(_part(column, label, sizes[label], part, rules))
    return tuple(parts)


def _part(column: str, label: str, battles: float, table: BattleTable, rules: BoardRules) -> BoardPart:
    if battles < FEWEST_IN_PART:
        return BoardPart(column, label, battles, (), f"fewer than {FEWEST_IN_PART} battles")
    if rules.evaluated not in table.models:  # the others have a board all the same
        rules = msgspec.structs.replace(rules, evaluated=None)
    try:
        return BoardPart(column, label, battles, make_boards(table, rules))
    except (BattleError, OptionError, RatingError) as error:  # such as an anchor that has no battle here
        return BoardPart(column, label, battles, (), str(error))


def _labels(table: BattleTable, column: str) -> list[str]:
    """The values of a column of texts."""
    codes = table.columns.get(column)
    if not isinstance(codes, Codes):
        return []
    return sorted({codes.labels[code] for code in np.unique(codes.codes).tolist() if code != MISSING})


def rate_by_rules(table: BattleTable, rules: BoardRules, dimension: str | None = None) -> Leaderboard:
    """One board, of all battles or of one dimension, moved to the centre of the rules."""
    board = rules.estimator(dimension).fit(table)
    shift = rules.centre - CENTRE if rules.anchor is None else 0.0
    if shift == 0.0:
        return board

    def moved(end: float | None) -> float | None:
        return None if end is None else end + shift

    entries = tuple(
        replace(entry, rating=entry.rating + shift, ci_low=moved(entry.ci_low), ci_high=moved(entry.ci_high))
        for entry in board
    )
    return replace(board, entries=entries, settings=msgspec.structs.replace(board.settings, centre=rules.centre))


def static_site(
    table: BattleTable,
    kind: str,
    title: str,
    options: PublishOptions,
    rules: BoardRules,
    texts: Mapping[str, str],
    *,
    about: Iterable[str] = (),
    notes: Sequence[str] = (),
    **more: Any,
) -> StaticSite:
    """The publication of battles: what may be public of them, rated."""
    public, told = publishable(table, texts=options.texts, voters_are_keys=kind == "arena")
    rules = msgspec.convert(msgspec.to_builtins(rules), BoardRules)  # 5 becomes 5.0, as it is read again
    newest = None
    if "timestamp" in public.columns:
        times = public.number_column("timestamp")
        known = times[np.isfinite(times) & (times > 0) & (times < 2**37)]
        newest = int(known.max()) if len(known) else None
    prompts = _labels(public, PROMPT) if texts else []
    url = options.url if not options.url or options.url.endswith("/") else f"{options.url}/"
    check_words(title, url, more.get("missing", ""), *notes)
    titles = more.get("names", {})
    shown = (titles.get(name) or name for name in sorted({*public.models, *titles}))
    for problem in chain(look_alikes(public.models), look_alikes(shown), look_alikes(_labels(public, DIMENSION))):
        raise OptionError(f"{problem}. Rename one of them before you publish.")
    rules.check()
    return StaticSite(
        kind=kind,
        title=title,
        table=public,
        rules=rules,
        boards=make_boards(public, rules),
        parts=make_parts(public, rules),
        show_texts=options.texts,
        texts={name: texts[name] for name in prompts if name in texts},
        updated=newest,
        about=(*about, *told),
        notes=tuple(notes),
        url=url,
        pictures=bool(options.url) and find_spec("PIL") is not None if options.pictures is None else options.pictures,
        **more,
    )


def check_words(title: str, url: str, *notes: str) -> None:
    """Refuse words of an operator that are no plain words, and an address that is none."""
    words = [title, url, *notes]
    if not title.strip() or len(notes) > MOST_NOTES + 1 or any(len(word) > LONGEST_WORDS for word in words):
        raise OptionError(
            f"a title is needed, and at most {MOST_NOTES} notes; each has at most {LONGEST_WORDS:,} letters."
        )
    for word in words:
        odd = next(filter(is_unseen, word), None)
        if odd is not None:
            raise OptionError(f"{word[:60]!r} has the letter {odd!r}, which nobody sees. Leave it out.")
    if url and not re.fullmatch(r"https?://[^\s\"'<>\\]+", url):
        raise OptionError(f"the address is {url!r}: it has to begin with https:// or http://, without spaces.")


def notes_on(table: BattleTable) -> list[str]:
    """What only whoever has the source knows of its rows: how many were left out, and how many repeat another."""
    notes = [f"{count:,} rows were left out: {_plain(reason)}." for reason, count in table.skipped.items()]
    if table.repeated:  # columns that are not published may tell rows apart, so it cannot be counted again
        notes.append(
            f"Rows of the source that repeat another one in every column, each of which counts: {table.repeated:,}."
        )
    if table.repeated_ids:
        number = f"{table.repeated_ids:,}"
        notes.append(f"Rows of the source that repeat the battle_id of another one, each of which counts: {number}.")
    if len(notes) > MOST_NOTES:
        notes[MOST_NOTES - 1 :] = [f"{len(notes) - MOST_NOTES + 1:,} more reasons to leave rows out."]
    return notes


def _plain(text: str) -> str:
    """A text that came with the rows, as a note may hold it."""
    return "".join("�" if is_unseen(letter) else letter for letter in text)[: LONGEST_WORDS // 2]
