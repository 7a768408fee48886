"""The ratings file `elo_ratings.json`: a leaderboard with the run it belongs to."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from tiltyard.boards.leaderboard import Leaderboard, RatingEntry
from tiltyard.errors import BattleError
from tiltyard.files import write_text


@dataclass(frozen=True, slots=True, kw_only=True)
class EloReport:
    """What a ratings file holds: which arena, which model under test, which judge, and the ratings.

    `details` holds every further field of the file (method, tie model, interval, hash of the battles, …). Unknown
    fields are kept, so files of a later version load here.
    """

    arena: str | None = None
    model: str | None = None
    judge_model: str | None = None
    n_bootstraps: int = 0
    seed: int = 0
    ratings: tuple[RatingEntry, ...]
    details: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        board: Leaderboard,
        *,
        arena: str | None = None,
        model: str | None = None,
        judge_model: str | None = None,
    ) -> EloReport:
        """The report of a leaderboard; the judge is the one that its battles name, unless another is given."""
        contents = board.to_dict()
        contents.pop("ratings")
        n_bootstraps = int(contents.pop("n_bootstraps", 0))
        seed = int(contents.pop("seed", 0))
        judges = contents.pop("judge_model", None)
        return cls(
            arena=arena,
            model=model if model is not None else contents.get("evaluated"),
            judge_model=judge_model if judge_model is not None else judges,
            n_bootstraps=n_bootstraps,
            seed=seed,
            ratings=board.entries,
            details=contents,
        )

    def to_dict(self) -> dict[str, Any]:
        """The file's contents as plain values."""
        return {
            "arena": self.arena,
            "model": self.model,
            "judge_model": self.judge_model,
            "n_bootstraps": self.n_bootstraps,
            "seed": self.seed,
            **self.details,
            "ratings": [entry.to_dict() for entry in self.ratings],
        }

    def to_json(self) -> str:
        """The file's text."""
        from tiltyard.boards.text import json_text

        return json_text(self.to_dict())

    def write(self, path: str | Path) -> None:
        """Write the file."""
        write_text(Path(path), self.to_json(), new_folder=False)

    @classmethod
    def from_dict(cls, contents: dict[str, Any]) -> EloReport:
        """Read plain values; unknown fields are kept as details, or as extras of their entry."""
        rest = dict(contents)
        try:
            rows = rest.pop("ratings")
            ratings = tuple(entry_from_dict(row, place) for place, row in enumerate(rows, start=1))
        except (KeyError, TypeError, AttributeError) as error:
            raise BattleError(
                f"not a ratings file: {error!r} is missing or wrong. Expected `ratings: [{{model, rating, …}}]`."
            ) from None
        return cls(
            arena=rest.pop("arena", None),
            model=rest.pop("model", None),
            judge_model=rest.pop("judge_model", None),
            n_bootstraps=rest.pop("n_bootstraps", 0),
            seed=rest.pop("seed", 0),
            ratings=ratings,
            details=rest,
        )

    @classmethod
    def read(cls, path: str | Path) -> EloReport:
        """Read a ratings file."""
        import json

        try:
            contents = json.loads(Path(path).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise BattleError(f"{path}: cannot be read as a ratings file: {error}") from None
        if not isinstance(contents, dict):
            raise BattleError(f"{path}: not a ratings file: expected one JSON object with `ratings`.")
        return cls.from_dict(contents)


def entry_from_dict(row: dict[str, Any], place: int) -> RatingEntry:
    """One entry; a file without ranks is ranked by its order."""
    known = {field.name for field in fields(RatingEntry)} - {"extra"}
    values = {name: value for name, value in row.items() if name in known}
    values.setdefault("rank", place)
    extra = {name: value for name, value in row.items() if name not in known}
    return RatingEntry(**values, extra=extra)
