"""What `compare` and `gate` share: their options, and how two models, runs or boards become one answer."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from tiltyard.cli.output import working
from tiltyard.cli.rate_options import FILTERS, METHOD, read_map_options
from tiltyard.errors import OptionError

if TYPE_CHECKING:
    from tiltyard.battles.table import BattleTable
    from tiltyard.decisions import Difference, RunComparison
    from tiltyard.report.run import Run

NewArgument = Annotated[
    str,
    typer.Argument(
        metavar="NEW", help="The new model (with --in), or the new run: a run folder, battles, or a ratings file."
    ),
]
OldArgument = Annotated[str, typer.Argument(metavar="OLD", help="The old model (with --in), or the old run.")]
InOption = Annotated[
    list[str] | None,
    typer.Option(
        "--in",
        help="Where the two models met: battle files, a run folder, or an arena's database URL. May be repeated.",
        rich_help_panel=FILTERS,
    ),
]
MorePlacesArgument = Annotated[
    list[str] | None,
    typer.Argument(metavar="PLACE", help="More places, as with --in; `--in battles/*` becomes this in a shell."),
]
AnywayOption = Annotated[
    bool, typer.Option("--anyway", help="Compare runs of different judges or rubrics too.", rich_help_panel=FILTERS)
]
SidesOption = Annotated[
    bool | None,
    typer.Option(
        "--slot/--no-slot",
        help="Fit the advantage of the first side; with --no-slot a row's order says nothing of who was shown first. "
        "(default: fit it where sides were uneven)",
        rich_help_panel=METHOD,
    ),
]
UnchangedOption = Annotated[
    list[str] | None,
    typer.Option(
        help="An entrant that is the same in both runs; changes are measured from these. May be repeated. "
        "(default: what the run folders say)",
        rich_help_panel=FILTERS,
    ),
]
ByPartsOption = Annotated[
    list[str] | None,
    typer.Option(
        help="Also by the values of this column. May be repeated. (default: dimension and category)",
        rich_help_panel=FILTERS,
    ),
]
AnytimeOption = Annotated[
    bool,
    typer.Option("--anytime", help="Intervals that hold however often you look while battles come in; wider."),
]
MissingOption = Annotated[
    Literal["worst", "ignore"] | None,
    typer.Option(
        "--missing",
        help="Matchups of a run that have no verdict. worst: what is claimed holds however they would have been "
        "decided; ignore: leave them out. (default: worst for gate, ignore for compare)",
        rich_help_panel=FILTERS,
    ),
]
OF_MODELS = ("control", "by")
"""Options that are about two models of the same battles, not about two runs."""


def battle_options(
    *, both_bad: str, inconsistent: str, from_format: str, on_bad: str, map: list[str] | None, **same: Any
) -> dict[str, Any]:
    """Options about battles as the library's parameters; None where the command line has the library's default."""
    return {
        **same,
        "both_bad": None if both_bad == "separate" else both_bad,
        "inconsistent": None if inconsistent == "tie" else inconsistent,
        "format": None if from_format == "auto" else from_format,
        "on_bad": None if on_bad == "error" else on_bad,
        "map": read_map_options(map) or None,
    }


@dataclass(frozen=True, slots=True, eq=False)
class TwoNames:
    """What was asked: two names, where to look, and the options of the library's functions."""

    new: str
    old: str
    places: tuple[str, ...]
    anyway: bool
    options: dict[str, Any]

    @property
    def of_models(self) -> bool:
        """Whether two models of the same battles are meant, rather than two runs."""
        return bool(self.places)

    def answer(self) -> Difference | RunComparison:
        """The difference of the two."""
        with working("comparing …"):
            return self._of_models() if self.of_models else self._of_runs()

    def _of_models(self) -> Difference:
        from tiltyard.decisions import difference

        if self.anyway or self.options.get("unchanged"):
            raise OptionError(
                f"--{'anyway' if self.anyway else 'unchanged'} is about two runs: leave it out with --in."
            )
        battles, more = read_places(self.places)
        given = {name: value for name, value in self.options.items() if value is not None}
        return difference(battles, self.new, self.old, **{**more, **given})

    def _of_runs(self) -> RunComparison:
        from tiltyard.boards.leaderboard import EloReport
        from tiltyard.decisions import compare_runs
        from tiltyard.decisions.two_boards import compare_ratings

        for name in (self.new, self.old):
            if not Path(name).exists() and "*" not in name:
                raise OptionError(
                    f"there is no file or folder {name}. To compare two models, say where they met: "
                    f"tiltyard compare {self.new} {self.old} --in battles.jsonl"
                )
        given = {name: value for name, value in self.options.items() if value is not None}
        for name in OF_MODELS:
            if name in given:
                raise OptionError(f"--{name} does not go with two runs: it is about two models (--in).")
        if is_ratings(self.new) and is_ratings(self.old):
            level = given.pop("level", 0.95)
            if given or self.anyway:
                raise OptionError("two ratings files have no battles: only --level and the format can be chosen.")
            reports = EloReport.read(self.new), EloReport.read(self.old)
            return compare_ratings(*reports, names=(self.new, self.old), level=level)
        return compare_runs(self.new, self.old, anyway=self.anyway, **given)


def is_ratings(name: str) -> bool:
    """Whether a path is a ratings file: one JSON object with `ratings`."""
    path = Path(name)
    return path.suffix == ".json" and path.is_file() and b'"ratings"' in path.read_bytes()


def is_database(name: str) -> bool:
    """Whether a place is an arena's database."""
    return name.startswith(("sqlite:", "postgresql:", "postgres:"))


def read_places(places: tuple[str, ...]) -> tuple[Any, dict[str, Any]]:
    """Battles from files, or from one arena's database with its prompt texts and what its board clusters by."""
    if not all(place.strip() for place in places):
        raise OptionError("--in is empty: give a file of battles, a run folder, or an arena's database.")
    databases = [place for place in places if is_database(place)]
    if not databases:
        return list(places), {}
    if len(places) > 1:
        raise OptionError(
            "an arena's database stands alone: export it (`tiltyard arena export`) to join it with others."
        )
    from tiltyard.cli.arena_options import need_arena

    need_arena()
    from tiltyard.arena.exporting import open_export

    with open_export(databases[0]) as export:
        return list(export.rows), {"texts": export.texts, "cluster": export.cluster}


def battles_behind(question: TwoNames) -> tuple[BattleTable, Run | None]:
    """The counted battles behind an answer about two models, and the run folder that they come from if there is one."""
    from tiltyard.battles.reading import read_battles
    from tiltyard.battles.table import concat
    from tiltyard.boards.selection import Selection, select
    from tiltyard.decisions.sources import open_source
    from tiltyard.report.comparison import run_behind

    data, _ = read_places(question.places)
    origin = open_source(data)
    given = {name: value for name, value in question.options.items() if value is not None}
    reading = ("format", "where", "default_source", "on_bad", "map", "tie_band")
    table = read_battles(origin.battles, **{name: given[name] for name in reading if name in given})
    filters = ("source", "dimension", "both_bad", "inconsistent")
    kept = select(table, Selection(**{name: given[name] for name in filters if name in given}))
    return concat([kept.table, kept.both_bad]), None if origin.folder is None else run_behind(origin.folder)
