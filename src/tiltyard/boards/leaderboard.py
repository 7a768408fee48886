"""A leaderboard: one `RatingEntry` per model, best first, and how every number on it came about."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tiltyard.files import write_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class RatingEntry:
    """One model's line.

    `rank_low` is the best place it could hold and `rank_high` the worst, for all models at once. An end of the interval
    that is None is open: nothing in the battles bounds it. `source` is `evaluated` for the model under test and `human`
    for every other. `extra` holds what only some methods have (`sem`, `deviation`, `bootstrap_mean`, …).
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
        """The entry as it stands in a ratings file."""
        row: dict[str, Any] = {
            "model": self.model,
            "rating": self.rating,
            "ci_low": self.ci_low,
            "ci_high": self.ci_high,
            "n_battles": whole(self.n_battles),
            "source": self.source,
            "rank": self.rank,
            "rank_low": self.rank_low,
            "rank_high": self.rank_high,
            "wins": whole(self.wins),
            "losses": whole(self.losses),
            "ties": whole(self.ties),
            "both_bad": whole(self.both_bad),
        }
        row.update(self.extra)
        if self.note is not None:
            row["note"] = self.note
        return row


@dataclass(frozen=True, slots=True, eq=False)
class Leaderboard:
    """Rated models, best first.

    `settings` says how: method, tie model, interval and so on, as they stand in a ratings file. `left_out` counts the
    battles that were not rated, by reason; `remarks` are sentences a reader should not miss; `details` are results that
    belong to the board as a whole (control coefficients, tie parameters, K sweep). `arrays` holds what is too large for
    a page: bootstrap rounds, permutation traces, the covariance (`models` gives the order of their columns).
    """

    entries: tuple[RatingEntry, ...]
    settings: Mapping[str, Any]
    n_battles: float
    left_out: Mapping[str, float] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict)
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

    def __str__(self) -> str:
        from tiltyard.boards.text import as_table

        return as_table(self)

    def __repr__(self) -> str:
        return f"<Leaderboard: {len(self)} models by {self.settings.get('method')}, {self.n_battles:,.0f} battles>"

    def _repr_html_(self) -> str:
        from tiltyard.boards.text import as_html

        return as_html(self)

    @property
    def models(self) -> list[str]:
        """The models, best first."""
        return [entry.model for entry in self.entries]

    @property
    def ratings(self) -> dict[str, float]:
        """Each model's rating."""
        return {entry.model: entry.rating for entry in self.entries}

    def to_dict(self) -> dict[str, Any]:
        """The board as plain values: the contents of a ratings file."""
        return {
            **self.settings,
            "n_battles": whole(self.n_battles),
            "left_out": {reason: whole(count) for reason, count in self.left_out.items()},
            "remarks": list(self.remarks),
            **self.details,
            "ratings": [entry.to_dict() for entry in self.entries],
        }

    def to_json(self, path: str | Path | None = None) -> str:
        """The board as JSON text; with a path, written there too."""
        from tiltyard.boards.text import as_json

        text = as_json(self)
        if path is not None:
            write_text(Path(path), text, new_folder=False)
        return text

    def to_frame(self) -> Any:
        """One row per model as a pandas frame, or a polars one where pandas is not installed."""
        from tiltyard.battles.frames import columns_to_frame

        return columns_to_frame(self._columns())

    def to_pandas(self) -> Any:
        """One row per model, best first, as a pandas frame."""
        from tiltyard.battles.frames import columns_to_pandas

        return columns_to_pandas(self._columns())

    def to_polars(self) -> Any:
        """One row per model, best first, as a polars frame."""
        from tiltyard.battles.frames import columns_to_polars

        return columns_to_polars(self._columns())

    def to_arrow(self) -> Any:
        """One row per model, best first, as an Arrow table."""
        from tiltyard.battles.frames import columns_to_arrow

        return columns_to_arrow(self._columns())

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The rows of `to_arrow` for any library that speaks the Arrow PyCapsule interface (DuckDB, polars, …)."""
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def _columns(self) -> dict[str, list[Any]]:
        rows = [entry.to_dict() for entry in self.entries]
        names = dict.fromkeys(name for row in rows for name in row)
        return {name: [row.get(name) for row in rows] for name in names}

    def plot(self, path: str | Path | None = None) -> Any:
        """A dot-and-interval chart as an Altair object; with a path, saved there as SVG, PNG or HTML."""
        from tiltyard.boards.charts import check_path, interval_chart, save_chart

        if path is not None:
            check_path(Path(path))
        chart = interval_chart(self)
        if path is not None:
            save_chart(chart, Path(path))
        return chart


def whole(value: float) -> float | int:
    """A count as an integer where it is one: weights may make it a fraction."""
    return int(value) if float(value).is_integer() else value
