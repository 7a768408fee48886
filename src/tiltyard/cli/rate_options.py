"""The options of `tiltyard rate`, in the groups in which `--help` shows them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from tiltyard.cli.output import Format
from tiltyard.errors import OptionError

METHOD, INTERVALS, FILTERS, ELO, OUTPUT = "Method", "Intervals", "Which battles", "Elo", "Output"

FilesArgument = Annotated[
    list[str],
    typer.Argument(help="Files, folders or globs of battles (JSONL, CSV, TSV, Parquet; - for standard input)."),
]
MethodOption = Annotated[
    Literal["bt", "elo", "elo-perm", "glicko2", "winrate"],
    typer.Option(
        help="Bradley–Terry, Elo in order, Elo averaged over shuffles, Glicko-2, or win rates.",
        rich_help_panel=METHOD,
    ),
]
TiesOption = Annotated[
    Literal["davidson", "rao-kupper", "half", "drop"] | None,
    typer.Option(
        help="How ties are read: by a model of ties, as half a win, or left out. (bt; default: davidson)",
        rich_help_panel=METHOD,
    ),
]
BothBadOption = Annotated[
    Literal["separate", "half", "drop"],
    typer.Option(
        help="Both-bad battles: counted beside the rating, rated as ties, or left out.", rich_help_panel=METHOD
    ),
]
InconsistentOption = Annotated[
    Literal["tie", "drop"],
    typer.Option(help="Judgments whose two orders disagreed: rated as ties, or left out.", rich_help_panel=METHOD),
]
EvaluatedOption = Annotated[
    str | None, typer.Option(help="The model under test: its entry has source `evaluated`.", rich_help_panel=METHOD)
]
AnchorOption = Annotated[
    str | None,
    typer.Option(
        help="Pin a model to a rating: MODEL=RATING. Intervals are then those of the difference from it. "
        "Without one the mean is 1000. (bt)",
        rich_help_panel=METHOD,
    ),
]
ControlOption = Annotated[
    str | None,
    typer.Option(
        help="Style columns to control for: `len,bold` reads len_a, len_b, bold_a, bold_b. Not for a feature that is "
        "part of what makes an answer good. (bt)",
        rich_help_panel=METHOD,
    ),
]
SlotOption = Annotated[
    bool | None,
    typer.Option(
        "--slot/--no-slot",
        help="Fit the advantage of the first side. (bt; default: only with --control, on votes)",
        rich_help_panel=METHOD,
    ),
]
ShrinkOption = Annotated[
    bool,
    typer.Option(
        "--shrink",
        help="Pull ratings towards the mean, by as much as the results say: for few battles a model. Intervals are "
        "then not for a model picked because it is extreme. (bt)",
        rich_help_panel=METHOD,
    ),
]
OnlyConnectedOption = Annotated[
    bool,
    typer.Option(
        "--only-connected", help="Where groups of models never met, rate the largest. (bt)", rich_help_panel=METHOD
    ),
]
RobustnessOption = Annotated[
    bool,
    typer.Option(
        "--robustness",
        help="For each neighbouring pair, find how few battles would have to go for the two to swap. (bt)",
        rich_help_panel=METHOD,
    ),
]
MisfitOption = Annotated[
    bool | None,
    typer.Option(
        "--misfit/--no-misfit",
        help="Check how well the model describes the battles; reads their times. (bt; default: yes)",
        rich_help_panel=METHOD,
    ),
]
CiOption = Annotated[
    Literal["sandwich", "bootstrap", "none"] | None,
    typer.Option(
        help="How intervals are made. They hold if results did not decide who met whom. (bt; elo-perm has its own, or "
        "none; default: sandwich)",
        rich_help_panel=INTERVALS,
    ),
]
RoundsOption = Annotated[
    int | None, typer.Option(min=2, help="Bootstrap rounds. (default: 1000)", rich_help_panel=INTERVALS)
]
LevelOption = Annotated[float | None, typer.Option(help="Confidence level. (default: 0.95)", rich_help_panel=INTERVALS)]
ClusterOption = Annotated[
    str | None,
    typer.Option(
        help="What makes battles dependent: prompt, voter, `prompt,voter`, other columns, or none. "
        "(default: each of prompt and voter that is known)",
        rich_help_panel=INTERVALS,
    ),
]
AnytimeOption = Annotated[
    bool,
    typer.Option(
        "--anytime",
        help="Ranges of places that hold however often you look while battles come in; wider. (bt)",
        rich_help_panel=INTERVALS,
    ),
]
SeedOption = Annotated[
    int | None, typer.Option(help="Seed of bootstrap and shuffles. (default: 0)", rich_help_panel=INTERVALS)
]
ByOption = Annotated[
    str | None,
    typer.Option(
        help="One leaderboard per value of this column; a value that cannot be rated is named and left out.",
        rich_help_panel=FILTERS,
    ),
]
PoolOption = Annotated[
    bool,
    typer.Option(
        "--pool",
        help="With --by: pull each board's ratings towards the model's over all values, by as much as the results "
        "say: for values with few battles. (bt)",
        rich_help_panel=FILTERS,
    ),
]
SourceOption = Annotated[
    Literal["human", "llm-judge"] | None,
    typer.Option(help="Only battles decided by people, or by a judge.", rich_help_panel=FILTERS),
]
DimensionOption = Annotated[str | None, typer.Option(help="Only battles of this dimension.", rich_help_panel=FILTERS)]
WhereOption = Annotated[
    str | None,
    typer.Option(
        help="Only rows that satisfy this SQL expression over the file's own columns.", rich_help_panel=FILTERS
    ),
]
MinBattlesOption = Annotated[float, typer.Option(help="Leave out models with fewer battles.", rich_help_panel=FILTERS)]
FromFormatOption = Annotated[
    str,
    typer.Option(
        "--from",
        help="Format: auto, tiltyard, lmarena, comparia, evalica, alpaca_eval, judgearena, arena-hard, winner-loser; "
        "logs of inspect, promptfoo, lm-eval, mt-bench.",
        rich_help_panel=FILTERS,
    ),
]
MAP_HELP = (
    "A column under another name, ours first: winner=choice, prompt=question; or what a word in the winner's column "
    "means: winner:0=model_b. May be given again."
)
MapOption = Annotated[
    list[str] | None, typer.Option("--map", metavar="OURS=THEIRS", help=MAP_HELP, rich_help_panel=FILTERS)
]
"""For every command that reads battles; `read_map_options` reads its values."""
TIE_BAND_HELP = "For logs with scores: a tie is a difference of scores that is not larger. (default: 0)"
TieBandOption = Annotated[float | None, typer.Option("--tie-band", help=TIE_BAND_HELP, rich_help_panel=FILTERS)]
DefaultSourceOption = Annotated[
    Literal["human", "llm-judge"] | None,
    typer.Option(help="Who decided where a row does not say.", rich_help_panel=FILTERS),
]
OnBadOption = Annotated[
    Literal["error", "skip"],
    typer.Option(help="Stop at the first bad row, or skip and count bad rows.", rich_help_panel=FILTERS),
]
EngineOption = Annotated[
    Literal["duckdb", "spark"],
    typer.Option(
        help="What counts the battles: DuckDB here, or Spark where they are (s3a://, hdfs://, …; bt and winrate).",
        rich_help_panel=FILTERS,
    ),
]
PeopleOption = Annotated[
    str | None,
    typer.Option(
        help="People's labels on a random draw of the judged matchups: they correct the judge's ratings. (bt)",
        rich_help_panel=METHOD,
    ),
]
KOption = Annotated[
    float | None, typer.Option("--k", help="Points at stake. (elo, elo-perm; default: 16)", rich_help_panel=ELO)
]
InitialRatingOption = Annotated[
    float | None, typer.Option(help="Where every model starts. (elo, elo-perm; default: 1400)", rich_help_panel=ELO)
]
NPermsOption = Annotated[
    int | None,
    typer.Option(min=2, help="Shuffles. (elo-perm; default: 500, fewer above 100,000 battles)", rich_help_panel=ELO),
]
KSweepOption = Annotated[
    str | None,
    typer.Option(help="Further K on the same shuffles. (elo-perm; default: 1,4,8,16,32)", rich_help_panel=ELO),
]
FormatOption = Annotated[
    Format | None, typer.Option(help="How to write it. (default: table, or what --out ends in)", rich_help_panel=OUTPUT)
]
CompareOption = Annotated[
    Path | None,
    typer.Option(
        help="Compare with this ratings file: agreement of the orders, and who moved.", rich_help_panel=OUTPUT
    ),
]
OutOption = Annotated[
    Path | None,
    typer.Option(
        help="Write the leaderboard here instead of printing it; .svg, .png, .pdf or .html is drawn.",
        rich_help_panel=OUTPUT,
    ),
]
PlotOption = Annotated[
    Path | None,
    typer.Option(help="Draw it too: a file that ends in .svg, .png, .pdf or .html.", rich_help_panel=OUTPUT),
]


def read_anchor(text: str) -> tuple[str, float]:
    """MODEL=RATING; the model's name may hold equal signs itself."""
    model, equals, rating = text.rpartition("=")
    try:
        if not equals or not model:
            raise ValueError
        return model, float(rating)
    except ValueError:
        raise OptionError(f"--anchor is {text!r}: expected MODEL=RATING, such as gpt-4=1200.") from None


def read_map_options(given: list[str] | None) -> dict[str, str]:
    """The values of `--map` as the library's `map`: OURS=THEIRS; the name of their column may hold equal signs."""
    mapped: dict[str, str] = {}
    for text in given or ():
        ours, equals, theirs = text.partition("=")
        ours = ours.strip()
        if not equals or not ours or not theirs.strip():
            raise OptionError(f"--map is {text!r}: expected OURS=THEIRS, such as winner=choice or prompt=question.")
        if mapped.setdefault(ours, theirs) != theirs:
            raise OptionError(f"--map gives {ours} twice: {mapped[ours]} and {theirs}. Leave one out.")
    return mapped


def style_columns(control: str | None) -> tuple[str, ...] | None:
    """The columns of `--control`, which are separated by commas."""
    return None if control is None else tuple(name.strip() for name in control.split(",") if name.strip())
