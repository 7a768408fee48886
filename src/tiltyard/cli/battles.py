"""`tiltyard battles`: check a file of battles, count what it holds, convert it; draw a run's matchups to label."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from tiltyard.cli.options import App, FilesArgument, with_options
from tiltyard.cli.output import as_flag, note, printable, say
from tiltyard.errors import OptionError, OptionValue, TiltyardError
from tiltyard.options import ReadingOptions

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tiltyard.battles.careful import BadRows
    from tiltyard.battles.stats import BattleStats
    from tiltyard.boards import RatingsFile

app = App(no_args_is_help=True, help="Check, count and convert files of battles; draw matchups for people to label.")

STATS_COLUMNS = ("question_id", "judge_model", "dimension", "inconsistent")


@app.command("check")
@with_options(ReadingOptions, leave_out=["on_bad"])
def check_command(
    files: FilesArgument,
    *,
    given: dict[str, Any],
) -> None:
    """List what is wrong with battles: each kind of problem, how often, and the first few; exit 1 if there is any."""
    from tiltyard.battles.reading import find_problems, peek

    battles, bad_rows = find_problems(files, **given)
    if not bad_rows.counts:
        spelling = peek(files, **_about_columns(given)).format
        say(f"{_count(battles, 'battle')}, no problem found (format: {spelling}).")
        for odd in bad_rows.odd:
            say(f"{odd}.")
        return
    bad = sum(bad_rows.counts.values())
    say(f"{_count(bad, 'bad row')}, {_count(battles, 'good battle')}.")
    for line in _problem_lines(bad_rows):
        say(line)
    if bad_rows.odd:
        say("".join(f"\n{odd}." for odd in bad_rows.odd))
    raise typer.Exit(1)


def _about_columns(given: dict[str, Any]) -> dict[str, Any]:
    return {name: given[name] for name in ("format", "default_source", "map") if name in given}


@app.command("stats")
@with_options(ReadingOptions)
def stats_command(
    files: FilesArgument,
    *,
    given: dict[str, Any],
    output: Annotated[Literal["table", "json"], typer.Option("--format", help="For people or for programs.")] = "table",
) -> None:
    """Count what battles hold: models, outcomes, who met whom, and who cannot be compared."""
    import msgspec
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from tiltyard.battles.reading import peek, read_battles
    from tiltyard.battles.stats import battle_stats

    present = peek(files, **_about_columns(given)).columns
    columns = [name for name in STATS_COLUMNS if name in present]
    hashed = [name for name in columns if name == "question_id"]
    table = read_battles(files, **given, columns=columns, counted=not hashed, hashed=hashed)
    stats = battle_stats(table)
    if output == "json":
        say(msgspec.json.format(msgspec.json.encode(stats.to_dict()), indent=2).decode())
    else:
        grid = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
        for name, value in _stats_rows(stats):
            grid.add_row(name, Text(printable(value)))
        Console(soft_wrap=True).print(grid)


@app.command("convert")
@with_options(ReadingOptions)
def convert_command(
    source: Annotated[str, typer.Argument(metavar="IN", help="File, folder or glob of battles, or -.")],
    target: Annotated[
        str | None, typer.Argument(metavar="OUT", help="File to write; its suffix says how. - for stdout.")
    ] = None,
    to_hf: Annotated[
        Path | None,
        typer.Option(
            "--to-hf", metavar="DIR", help="Write a data set for the Hugging Face hub instead: Parquet and its card."
        ),
    ] = None,
    title: Annotated[str | None, typer.Option(help="Title of that data set. (default: the folder's name)")] = None,
    licence: Annotated[
        str | None,
        typer.Option("--license", help="Licence of that data set by its name on the hub, such as cc-by-4.0."),
    ] = None,
    *,
    given: dict[str, Any],
) -> None:
    """Write battles of any known format as Tiltyard's own rows: JSONL, CSV, TSV (each also .gz) or Parquet."""
    from tiltyard.battles.reading import read_battles
    from tiltyard.battles.writing import kind_to_write, write_battles, write_lines

    if (target is None) == (to_hf is None):
        raise OptionError("say where to write: a file OUT, or a folder with --to-hf DIR; one of the two.")
    if to_hf is None and (title or licence):
        raise OptionError("--title and --license are about the data set of --to-hf DIR.")
    if target is not None and target != "-":
        kind_to_write(target)
    table = read_battles(source, **given)
    if to_hf is not None:
        from tiltyard.battles.writing import write_dataset

        write_dataset(to_hf, table, title=title or to_hf.resolve().name, licence=licence)
    elif target == "-":
        if sys.stdout.isatty():
            lines = io.BytesIO()
            write_lines(lines, table)
            say(lines.getvalue().decode(), end="")
        else:
            write_lines(sys.stdout.buffer, table)
            sys.stdout.flush()
    else:
        assert target is not None
        write_battles(target, table)
    message = f"{_count(len(table), 'battle')} written to {'standard output' if target == '-' else to_hf or target}"
    if table.skipped:
        message += f"; {_count(sum(table.skipped.values()), 'row')} skipped: {_reasons(table.skipped)}"
    note(message + ".")


@app.command("eval-records")
def eval_records_command(
    source: Annotated[
        str, typer.Argument(metavar="SOURCE", help="A run folder, a ratings file, or battles, which are rated first.")
    ],
    out: Annotated[Path, typer.Argument(metavar="DIR", help="Folder to write data/EVALUATION/DEVELOPER/MODEL/ into.")],
    organization: Annotated[str, typer.Option(help="Who publishes the results.")],
    evaluation: Annotated[str | None, typer.Option(help="Name of the evaluation. (default: SOURCE's name)")] = None,
    relationship: Annotated[
        Literal["first_party", "third_party", "collaborative", "other"],
        typer.Option(help="How you stand to the makers of the models."),
    ] = "third_party",
    developer: Annotated[
        str, typer.Option(help="Who made models whose name does not say it; developer/model does.")
    ] = "unknown",
    hf_repo: Annotated[str | None, typer.Option(help="The battles' data set on the Hugging Face hub.")] = None,
) -> None:
    """Write ratings as records of Every Eval Ever, a shared format of evaluation results: one file for each model."""
    import time

    from tiltyard.boards.eval_records import Evaluator, write_eval_records

    name = evaluation or Path(source).resolve().name.split(".")[0]
    by = Evaluator(
        evaluation=name, organization=organization, relationship=relationship, developer=developer, hf_repo=hf_repo
    )
    reports, when = _reports(source)
    written = write_eval_records(out, reports, by, retrieved_at=round(time.time(), 3), when=when)
    note(f"{_count(len(written), 'record')} written below {out / 'data'}.")


def _reports(source: str) -> tuple[dict[str, RatingsFile], str | None]:
    """The ratings of a run by dimension, of a file, or of battles; and when the run ended."""
    from tiltyard.boards import RatingsFile, rate
    from tiltyard.judging.run_folder import read_object

    path = Path(source)
    if (path / "manifest.json").is_file():
        files = sorted((path / "ratings").glob("*.json")) or sorted(path.glob("elo_ratings.json"))
        if not files:
            raise OptionError(f"{source} has no ratings: its run has not finished, or nothing could be rated.")
        when = read_object(path / "manifest.json").get("finished_at")
        return {"" if one.stem == "elo_ratings" else one.stem: RatingsFile.read(one) for one in files}, when
    if path.suffix == ".json" and path.is_file() and b'"ratings"' in path.read_bytes():
        return {"": RatingsFile.read(path)}, None
    return {"": RatingsFile.of(rate(source))}, None


@app.command("draw")
def draw_command(
    run_folder: Annotated[Path, typer.Argument(metavar="RUN_DIR", help="The folder of a judged run.")],
    out: Annotated[Path, typer.Option(help="The sheet to write, .jsonl or .csv; an existing one is kept.")],
    n: Annotated[int, typer.Option("--n", min=1, help="How many matchups to draw.")] = 100,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the draw.")] = 0,
    dimension: Annotated[str | None, typer.Option(help="The dimension, if the run has several.")] = None,
) -> None:
    """Draw judged matchups at random for people to label: a sheet without names that --people and --calibrate read."""
    import secrets

    from tiltyard.tournament.people import write_sheet

    if out.exists():
        raise OptionError(f"{out} is there already, and may hold labels: choose another --out, or move it away.")
    try:
        sheet = write_sheet(run_folder, out, n=n, seed=seed, dimension=dimension, new_salt=secrets.token_bytes(16))
    except OSError as error:
        raise TiltyardError(f"cannot write {error.filename or out}: {error.strerror or error}.") from None
    note(
        f"{_count(sheet.drawn, 'matchup')} of {sheet.judged:,} judged ones drawn at random into {out}. Fill in "
        "`winner` (A, B, tie or both bad) and, if several people label, `voter`. Then:\n"
        f"  tiltyard rate {run_folder} --people {out}" + (f" --dimension {sheet.dimension}" if sheet.several else "")
    )


def _problem_lines(bad_rows: BadRows) -> list[str]:
    lines = []
    for reason, count in sorted(bad_rows.counts.items()):
        lines.append(f"\n{reason.label}: {_count(count, 'row')}")
        examples = bad_rows.examples.get(reason, [])
        lines += [f"  {problem.where}: {problem.detail}" for problem in examples]
        if count > len(examples):
            lines.append(f"  … and {count - len(examples):,} more")
        if examples and any(isinstance(part, OptionValue) for part in examples[0].advice):
            lines.append(f"  {TiltyardError(*examples[0].advice).spelled(as_flag)}.")
    return lines


def _stats_rows(stats: BattleStats) -> list[tuple[str, str]]:
    spread = stats.battles_per_model
    rows = [
        ("battles", _number(stats.battles)),
        ("models", _number(stats.models)),
        ("decided by", ", ".join(f"{label} {_number(count)}" for label, count in stats.sources.items())),
        ("decisive", _share(stats.decisive, stats.battles)),
        ("ties", _share(stats.outcomes["tie"], stats.battles)),
        ("both bad", _share(stats.outcomes["tie (bothbad)"], stats.battles)),
        (
            "battles per model",
            f"{_number(spread['min'])} to {_number(spread['max'])}, median {_number(spread['median'])}",
        ),
        ("pairs that met", f"{_number(stats.pairs_met)} of {_number(stats.pairs_possible)}"),
        ("islands", _islands(stats)),
        ("never won", _names(stats.never_won)),
        ("never lost", _names(stats.never_lost)),
    ]
    if stats.prompts is not None:
        rows.insert(2, ("prompts", _number(stats.prompts)))
    if stats.soft:
        rows.append(("soft scores", _share(stats.soft, stats.battles)))
    if stats.inconsistent:
        rows.append(("inconsistent", _share(stats.inconsistent, stats.battles)))
    rows += [
        (name, _names(values))
        for name, values in (("dimensions", stats.dimensions), ("judges", stats.judges))
        if values
    ]
    if stats.skipped:
        rows.append(("rows skipped", _reasons(stats.skipped)))
    return rows


def _islands(stats: BattleStats) -> str:
    if len(stats.islands) == 1:
        return "1 (every model can be compared with every other)"
    sizes = ", ".join(f"{len(island)} ({_names(island, 3)})" for island in stats.islands[:5])
    return f"{len(stats.islands)}: models in different islands cannot be compared; {sizes}"


def _names(names: tuple[str, ...], at_most: int = 8) -> str:
    if not names:
        return "none"
    rest = f" and {len(names) - at_most} more" if len(names) > at_most else ""
    return ", ".join(names[:at_most]) + rest


def _number(value: float) -> str:
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.2f}"


def _share(part: float, whole: float) -> str:
    return f"{_number(part)} ({part / whole:.1%})" if whole else _number(part)


def _count(number: float, noun: str) -> str:
    return f"{_number(number)} {noun}{'' if number == 1 else 's'}"


def _reasons(skipped: Mapping[str, Any]) -> str:
    return ", ".join(f"{count:,} × {reason}" for reason, count in skipped.items())
