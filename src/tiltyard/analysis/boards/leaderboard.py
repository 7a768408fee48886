"""A leaderboard (one `RatingEntry` per model, best first), its ratings file and predictions; how a method makes one."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from msgspec import UNSET
from numpy.typing import NDArray

from tiltyard.analysis import boards
from tiltyard.analysis.boards.preparation import RatedBattles, known_models, per_model
from tiltyard.analysis.boards.record import BoardDetails, BoardSettings
from tiltyard.data.battles import (
    MISSING,
    OUTCOME_LABELS,
    BattleTable,
    Outcome,
    Source,
    columns_to_arrow,
    columns_to_frame,
    columns_to_pandas,
    columns_to_polars,
)
from tiltyard.errors import BattleError, OptionError, OptionValue, RatingError
from tiltyard.files import json_text, write_text
from tiltyard.options import check_choice
from tiltyard.stats import HALF, POINTS_PER_LOGIT, TIE_MODELS, RankIntervals, expected_score, sum_by_both
from tiltyard.stats.ranks import ranks
from tiltyard.types import Floats, Result

if TYPE_CHECKING:
    from tiltyard.analysis.boards.record import BoardComparison


@dataclass(frozen=True, slots=True)
class RatingEntry:
    """One model's line.

    An end of the interval that is None is open: nothing in the battles bounds it.

    Parameters:
        model: The model.
        rating: Its rating.
        ci_low: Lower end of the interval; None where nothing bounds it.
        ci_high: Upper end of the interval; None where nothing bounds it.
        n_battles: Battles counted.
        source: `evaluated` for the model under test and `human` for every other.
        rank: Its place by rating alone.
        rank_low: The best place it could hold, all models at once.
        rank_high: The worst place it could hold, all models at once.
        wins: Won.
        losses: Lost.
        ties: Tied.
        both_bad: Battles in which both were bad; they move no rating.
        note: Why it is marked: unbeaten, winless.
        extra: What only some methods have (`sem`, `deviation`, `bootstrap_mean`, …).
    """

    model: str
    rating: float
    ci_low: float | None
    ci_high: float | None
    n_battles: float
    source: str
    rank: int
    rank_low: int | None = None
    rank_high: int | None = None
    wins: float = 0
    losses: float = 0
    ties: float = 0
    both_bad: float = 0
    note: str | None = None
    extra: Mapping[str, float | None] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """The entry as in a ratings file."""
        row = {one.name: getattr(self, one.name) for one in fields(self) if one.name not in ("note", "extra")}
        row |= {name: whole(row[name]) for name in ("n_battles", "wins", "losses", "ties", "both_bad")}
        return {**row, **self.extra, **({} if self.note is None else {"note": self.note})}


class RankedModels:
    """A board, or its ratings file: models by rank, and how they moved since an earlier one."""

    __slots__ = ()

    def __iter__(self) -> Iterator[RatingEntry]:
        raise NotImplementedError

    @property
    def by_model(self) -> dict[str, float]:
        """Each model's rating, best first."""
        return {entry.model: entry.rating for entry in sorted(self, key=lambda entry: entry.rank)}

    def changes_since(self, earlier: RankedModels) -> BoardComparison:
        """How the order differs from that of an earlier board, or ratings file; changes are in the order of this one.

        Parameters:
            earlier: The board, or ratings file, to compare with.
        """
        return boards.comparison.compare_boards(earlier, self)


@dataclass(frozen=True, slots=True, eq=False)
class Leaderboard(RankedModels, Result):
    """Rated models, best first.

    Parameters:
        entries: One line per model, best first.
        settings: How it was rated: method, tie model, interval and so on, as in a ratings file.
        n_battles: Battles counted.
        left_out: Battles that were not rated, by reason.
        remarks: Sentences a reader should not miss.
        details: Results of the board as a whole: control coefficients, tie parameters, K sweep.
        arrays: What is too large for a page, models in the order of the board (`models`), ratings and errors in points:
            `standard_errors` and `degrees`, whose t interval is the one printed; `difference_errors` of each two;
            `below`, who stands below whom for certain; `bootstrap_ratings` or `permutation_ratings` of each round.
    """

    entries: tuple[RatingEntry, ...]
    settings: BoardSettings
    n_battles: float
    left_out: Mapping[str, float] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()
    details: BoardDetails = field(default_factory=BoardDetails)
    arrays: Mapping[str, NDArray[np.generic]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.entries)

    def __iter__(self) -> Iterator[RatingEntry]:
        return iter(self.entries)

    def __getitem__(self, model: str) -> RatingEntry:
        for entry in self.entries:
            if entry.model == model:
                return entry
        raise KeyError(model)

    def render(self, format: str = "table") -> str:
        """The board as `table`, `json`, `csv`, `md` or `latex`."""
        return boards.text.render(self, format)

    def __repr__(self) -> str:
        return f"<Leaderboard: {len(self)} models by {self.settings.method}, {self.n_battles:,.0f} battles>"

    def _repr_html_(self) -> str:
        return boards.text.as_html(self)

    @property
    def models(self) -> list[str]:
        """The models, best first."""
        return [entry.model for entry in self.entries]

    @property
    def ratings(self) -> dict[str, float]:
        """Each model's rating."""
        return {entry.model: entry.rating for entry in self.entries}

    @property
    def classes_(self) -> tuple[str, ...]:
        """The outcomes that the columns of `predict_proba` stand for, as scikit-learn names them."""
        return OUTCOMES

    def predict_proba(
        self, pairs: BattleTable | Iterable[Sequence[str]], *, source: str | None = None
    ) -> NDArray[np.float64]:
        """The chance of each outcome of each pair: columns `model_a` wins, `model_b` wins, tie.

        Bradley–Terry gives ties by its tie model; with `ties="half"` or `"drop"`, and for Elo and Glicko-2, the last
        column is 0 and the first is the expected score, a tie counting half. Style is taken to be equal, and no slot
        to be favored. Ratings are taken as they are: the chances do not include their uncertainty, but for Glicko-2,
        whose deviations pull them towards one half.

        Parameters:
            pairs: Pairs of models, or a `BattleTable`, of which only the two models are looked at.
            source: Who would decide, `human` or `llm-judge`, where the two tie at different rates.
        """
        first, second = _places(self, pairs)
        ratings = np.array([entry.rating for entry in self])
        method = self.settings.method
        if method == "bt":
            delta = (ratings[first] - ratings[second]) / POINTS_PER_LOGIT
            model = TIE_MODELS.get(str(self.settings.tie_model), HALF)
            tie = np.full(len(delta), _tie_parameter(self, model.untied, source))
            return np.asarray(model.chances(delta, tie))
        if source is not None:
            raise OptionError(f"source matters where ties are modelled, and method {method} has no such parameter.")
        if method in ("elo", "elo-perm"):
            won = 0.5 + 0.5 * np.tanh(0.5 * np.log(10.0) / 400.0 * (ratings[first] - ratings[second]))
        elif method == "glicko2":
            deviations = np.array([float(entry.extra.get("deviation") or 0.0) for entry in self])
            both = np.hypot(deviations[first], deviations[second])
            won = expected_score(ratings[first], ratings[second], both)
        else:
            raise RatingError(
                f"a board by {method} predicts no battle: a share of wins says nothing of the opponent. Rate with ",
                OptionValue("method", "bt"),
                ', "elo", "elo-perm" or "glicko2".',
            )
        return np.column_stack([won, 1.0 - won, np.zeros_like(won)])

    def to_dict(self) -> dict[str, Any]:
        """The board as plain values: the contents of a ratings file."""
        return {**_facts(self), "ratings": [entry.to_dict() for entry in self.entries]}

    def to_json(self, path: str | Path | None = None) -> str:
        """The board as JSON text; with a path, written there too."""
        text = RatingsFile.of(self).to_json()
        if path is not None:
            write_text(Path(path), text, new_folder=False)
        return text

    def to_frame(self) -> Any:
        """One row per model, as what is installed: a pandas frame, a polars one, an Arrow table, a list of dicts."""
        return columns_to_frame(self._columns())

    def to_pandas(self) -> Any:
        """One row per model, best first, as a pandas frame."""
        return columns_to_pandas(self._columns())

    def to_polars(self) -> Any:
        """One row per model, best first, as a polars frame."""
        return columns_to_polars(self._columns())

    def to_latex(self) -> str:
        """The table for a paper, for LaTeX with the package `booktabs`."""
        return self.render("latex")

    def to_arrow(self) -> Any:
        """One row per model, best first, as an Arrow table."""
        return columns_to_arrow(self._columns())

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The rows of `to_arrow` for any library with the Arrow PyCapsule interface (DuckDB, polars, …)."""
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def _columns(self) -> dict[str, list[Any]]:
        rows = [entry.to_dict() for entry in self.entries]
        names = dict.fromkeys(name for row in rows for name in row)
        return {name: [row.get(name) for row in rows] for name in names}

    def plot(self, path: str | Path | None = None) -> Any:
        """A dot-and-interval chart as an Altair object; with a path, saved there as SVG, PNG or HTML."""
        if path is not None:
            boards.charts.check_path(Path(path))
        chart = boards.charts.interval_chart(self)
        if path is not None:
            boards.charts.save_chart(chart, Path(path))
        return chart


@dataclass(frozen=True, slots=True, kw_only=True)
class RatingsFile(RankedModels):
    """What a ratings file holds: which arena, which model under test, which judge, and the ratings.

    Unknown fields are kept, so files of a later version load here.

    Parameters:
        arena: What the run was about.
        model: The model under test.
        judge_model: The judge's name.
        n_bootstraps: Bootstrap rounds; 0 without.
        seed: Seed of bootstrap and shuffles.
        ratings: One entry per model, best first.
        settings: How it was rated.
        n_battles: Battles counted.
        left_out: Battles that were not rated, by reason.
        remarks: Sentences a reader should not miss.
        details: Results of the board as a whole.
        further: Every further field of the file.
    """

    arena: str | None = None
    model: str | None = None
    judge_model: str | None = None
    n_bootstraps: int = 0
    seed: int = 0
    ratings: tuple[RatingEntry, ...]
    settings: BoardSettings = field(default_factory=BoardSettings)
    n_battles: float | None = None
    left_out: Mapping[str, float] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()
    details: BoardDetails = field(default_factory=BoardDetails)
    further: Mapping[str, Any] = field(default_factory=dict)

    def __iter__(self) -> Iterator[RatingEntry]:
        return iter(self.ratings)

    @classmethod
    def of(
        cls,
        board: Leaderboard,
        *,
        arena: str | None = None,
        model: str | None = None,
        judge_model: str | None = None,
    ) -> RatingsFile:
        """The report of a leaderboard; the judge is the one that its battles name, unless another is given."""
        settings = board.settings
        return cls(
            arena=arena,
            model=model if model is not None else settings.evaluated or None,
            judge_model=judge_model if judge_model is not None else settings.judge_model or None,
            n_bootstraps=settings.n_bootstraps or 0,
            seed=settings.seed or 0,
            ratings=board.entries,
            settings=_without_head(settings),
            n_battles=board.n_battles,
            left_out=board.left_out,
            remarks=board.remarks,
            details=board.details,
        )

    def to_dict(self) -> dict[str, Any]:
        """The file's contents as plain values."""
        return {
            **{name: getattr(self, name) for name in HEAD},
            **_facts(self),
            **self.further,
            "ratings": [entry.to_dict() for entry in self.ratings],
        }

    def to_json(self) -> str:
        """The file's text."""
        return json_text(self.to_dict())

    def write(self, path: str | Path) -> None:
        """Write the file."""
        write_text(Path(path), self.to_json(), new_folder=False)

    @classmethod
    def from_dict(cls, contents: dict[str, Any]) -> RatingsFile:
        """Read plain values; unknown fields are kept as further ones, or as extras of their entry."""
        known = {each.name for each in fields(RatingEntry)} - {"extra"}
        try:
            ratings = tuple(
                RatingEntry(
                    **{"rank": place, **{name: value for name, value in row.items() if name in known}},
                    extra={name: value for name, value in row.items() if name not in known},
                )
                for place, row in enumerate(contents["ratings"], start=1)
            )
            return cls(
                **{name: contents[name] for name in HEAD if name in contents},
                ratings=ratings,
                settings=_without_head(msgspec.convert(contents, BoardSettings)),
                n_battles=contents.get("n_battles"),
                left_out=contents.get("left_out", {}),
                remarks=tuple(contents.get("remarks", ())),
                details=msgspec.convert(contents, BoardDetails),
                further={name: value for name, value in contents.items() if name not in KNOWN},
            )
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise BattleError(
                f"not a ratings file: {error!r} is missing or wrong. Expected `ratings: [{{model, rating, …}}]`."
            ) from None

    @classmethod
    def read(cls, path: str | Path) -> RatingsFile:
        """Read a ratings file."""
        try:
            contents = json.loads(Path(path).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise BattleError(f"{path}: cannot be read as a ratings file: {error}") from None
        if not isinstance(contents, dict):
            raise BattleError(f"{path}: not a ratings file: expected one JSON object with `ratings`.")
        return cls.from_dict(contents)


EloReport = RatingsFile
"""The name under which a ratings file was first known."""


HEAD = ("arena", "model", "judge_model", "n_bootstraps", "seed")
"""What a ratings file says first; some of it is among a board's settings."""
KNOWN = {
    *(*HEAD, "ratings", "n_battles", "left_out", "remarks"),
    *(*BoardSettings.__struct_fields__, *BoardDetails.__struct_fields__),
}
"""The fields of a ratings file."""


def _without_head(settings: BoardSettings) -> BoardSettings:
    return msgspec.structs.replace(settings, judge_model=UNSET, n_bootstraps=UNSET, seed=UNSET)


def _facts(of: Leaderboard | RatingsFile) -> dict[str, Any]:
    counted = (
        {}
        if of.n_battles is None
        else {
            "n_battles": whole(of.n_battles),
            "left_out": {reason: whole(count) for reason, count in of.left_out.items()},
            "remarks": list(of.remarks),
        }
    )
    settings, details = (msgspec.to_builtins(each, enc_hook=float) for each in (of.settings, of.details))
    return {**settings, **counted, **details}


def whole(value: float) -> float | int:
    """A count as an integer where it is one: weights may make it a fraction."""
    return int(value) if float(value).is_integer() else value


OUTCOMES = OUTCOME_LABELS[:3]
"""What is predicted, in the order of the columns: `model_a`, `model_b`, `tie`."""


def _places(board: Leaderboard, pairs: BattleTable | Iterable[Sequence[str]]) -> tuple[Any, Any]:
    place = {entry.model: at for at, entry in enumerate(board)}
    if isinstance(pairs, BattleTable):
        known = np.array([_place(place, model) for model in pairs.models], dtype=np.intp)
        return known[pairs.model_a], known[pairs.model_b]
    result = []
    for pair in pairs:
        if isinstance(pair, str) or len(pair) != 2:
            raise OptionError(f"a pair is {pair!r}: expected the names of two models.")
        result.append((_place(place, pair[0]), _place(place, pair[1])))
    both = np.array(result, dtype=np.intp).reshape(-1, 2)
    return both[:, 0], both[:, 1]


def _place(place: dict[str, int], model: str) -> int:
    if model not in place:
        close = difflib.get_close_matches(str(model), place, n=1)
        hint = f"Did you mean {close[0]!r}?" if close else "It has no battle there."
        raise RatingError(f"{model!r} is not on the board. {hint}")
    return place[model]


def _tie_parameter(board: Leaderboard, untied: float, source: str | None) -> float:
    result = board.details.tie_parameters or {}
    if source is not None:
        check_choice("source", source, ("human", "llm-judge"))
    if "all" in result:
        return float(np.log(result["all"]))
    if not result:
        return untied
    if source is None and len(result) > 1:
        raise OptionError(
            "people and judges tie at different rates here: say ",
            OptionValue("source", "human"),
            " or ",
            OptionValue("source", "llm-judge"),
            ".",
        )
    name = source or next(iter(result))
    return float(np.log(result[name])) if name in result else untied


Column = Sequence[float | None]


def build_board(
    selected: RatedBattles,
    *,
    rating: NDArray[np.float64],
    settings: BoardSettings,
    low: Column | None = None,
    high: Column | None = None,
    places: RankIntervals | None = None,
    evaluated: str | None = None,
    notes: Sequence[str | None] | None = None,
    extra: Mapping[str, Column] | None = None,
    remarks: Sequence[str] = (),
    details: BoardDetails | None = None,
    arrays: Mapping[str, NDArray[np.generic]] | None = None,
) -> Leaderboard:
    """The board of a method: columns come in the order of the models, entries leave best first."""
    table: BattleTable = selected.table
    counts = ModelCounts.of(selected)
    sources = _sources(table, evaluated)
    rank = ranks(rating)
    order = np.argsort(rank)
    entries = tuple(
        RatingEntry(
            model=table.models[i],
            rating=float(rating[i]),
            ci_low=None if low is None else low[i],
            ci_high=None if high is None else high[i],
            n_battles=float(counts.battles[i]),
            source=sources[i],
            rank=int(rank[i]),
            rank_low=None if places is None else int(places.low[i]),
            rank_high=None if places is None else int(places.high[i]),
            wins=float(counts.wins[i]),
            losses=float(counts.losses[i]),
            ties=float(counts.ties[i]),
            both_bad=float(counts.both_bad[i]),
            note=None if notes is None else notes[i],
            extra={name: column[i] for name, column in (extra or {}).items()},
        )
        for i in order.tolist()
    )
    return Leaderboard(
        entries=entries,
        settings=msgspec.structs.replace(settings, evaluated=evaluated, judge_model=_judge_name(table)),
        n_battles=table.n_battles + selected.both_bad.n_battles,
        left_out=selected.left_out,
        remarks=tuple(remarks),
        details=details or BoardDetails(),
        arrays=ordered_arrays({"models": np.array(table.models), **(arrays or {})}, order),
    )


PAIR_ARRAYS = ("difference_errors", "below", "win_rate_matrix", "battle_matrix")
"""Arrays of a board that have a line and a column for every model; the others have one value, or one column."""


def ordered_arrays(arrays: Mapping[str, NDArray[Any]], order: NDArray[np.intp]) -> dict[str, NDArray[Any]]:
    """Arrays of a board with their models in this order."""
    return {name: one[order][:, order] if name in PAIR_ARRAYS else one[..., order] for name, one in arrays.items()}


class ModelCounts(msgspec.Struct, frozen=True, eq=False):
    """What each model did: wins, losses, ties, both-bad, and all of them together."""

    wins: Floats
    losses: Floats
    ties: Floats
    both_bad: Floats

    @classmethod
    def of(cls, selected: RatedBattles) -> ModelCounts:
        table, shape = selected.table, (len(selected.table.models), len(Outcome))
        a, b = (sum_by_both(side, table.outcome, table.weight, shape).T for side in (table.model_a, table.model_b))
        return cls(
            wins=a[Outcome.A.code] + b[Outcome.B.code],
            losses=a[Outcome.B.code] + b[Outcome.A.code],
            ties=a[Outcome.TIE.code] + b[Outcome.TIE.code],
            both_bad=per_model(selected.both_bad, selected.both_bad.weight),
        )

    @property
    def battles(self) -> Floats:
        return self.wins + self.losses + self.ties + self.both_bad


def _sources(table: BattleTable, evaluated: str | None) -> list[str]:
    """`evaluated` for the model under test, `human` for the others.

    Where no model is named, those that no person ever judged are the evaluated ones: in a file that says that a judge
    decided, all; where only its format suggests so, none.
    """
    if evaluated is None:
        shape = len(table.models), len(Source)
        in_a, in_b = (sum_by_both(side, table.source, table.weight, shape) for side in (table.model_a, table.model_b))
        by_people = (in_a + in_b)[:, Source.HUMAN.code] > 0
        known = table.source_named or by_people.any()
        return ["human" if judged or not known else "evaluated" for judged in by_people.tolist()]
    if evaluated not in table.models:
        raise OptionError(f"the evaluated model {evaluated!r} is in none of the rated battles. {known_models(table)}")
    return ["evaluated" if name == evaluated else "human" for name in table.models]


def _judge_name(table: BattleTable) -> str | None:
    """Who judged, as the rows say: one name, several joined by ` + ` in the order of the alphabet, or None."""
    if "judge_model" not in table.columns:
        return None
    codes = table.text_column("judge_model")
    used = np.unique(codes.codes)
    return " + ".join(sorted(codes.labels[code] for code in used.tolist() if code != MISSING)) or None
