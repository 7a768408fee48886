"""`tiltyard battles`: check a file of battles, count what it holds, convert it; draw a run's matchups to label."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Any, Literal

import typer

from tiltyard.cli.options import App, FilesArgument, with_options
from tiltyard.cli.output import as_flag, note, say
from tiltyard.errors import OptionError, TiltyardError
from tiltyard.options import ReadingOptions

app = App(no_args_is_help=True, help="Check, count and convert files of battles; draw matchups for people to label.")


@app.command("check")
@with_options(ReadingOptions, leave_out=["on_bad"])
def check_command(files: FilesArgument, *, given: dict[str, Any]) -> None:
    """List what is wrong with battles: each kind of problem, how often, and the first few; exit 1 if there is any."""
    from tiltyard.verbs.battles import check

    result = check(files, **given)
    say(result.message.spelled(as_flag))
    if not result.passed:
        raise typer.Exit(1)


@app.command("stats")
@with_options(ReadingOptions)
def stats_command(
    files: FilesArgument,
    *,
    given: dict[str, Any],
    output: Literal["table", "json"] = typer.Option("table", "--format", help="For people or for programs."),
) -> None:
    """Count what battles hold: models, outcomes, who met whom, and who cannot be compared."""
    from tiltyard.verbs.battles import stats

    say(stats(files, **given).render(output).rstrip())


@app.command("convert")
@with_options(ReadingOptions)
def convert_command(
    source: str = typer.Argument(..., metavar="IN", help="File, folder or glob of battles, or -."),
    target: str | None = typer.Argument(None, metavar="OUT", help="File to write; its suffix says how. - for stdout."),
    to_hf: Path | None = typer.Option(
        None, metavar="DIR", help="Write a data set for the Hugging Face hub instead: Parquet and its card."
    ),
    title: str | None = typer.Option(None, help="Title of that data set. (default: the folder's name)"),
    licence: str | None = typer.Option(
        None, "--license", help="Licence of that data set by its name on the hub, such as cc-by-4.0."
    ),
    *,
    given: dict[str, Any],
) -> None:
    """Write battles of any known format as Tiltyard's own rows: JSONL, CSV, TSV (each also .gz) or Parquet."""
    from tiltyard.verbs.battles import (
        counted,
        kind_to_write,
        read_battles,
        reasons,
        write_battles,
        write_dataset,
        write_lines,
    )

    if (target is None) == (to_hf is None):
        raise OptionError("say where to write: a file OUT, or a folder with --to-hf DIR; one of the two.")
    if to_hf is None and (title or licence):
        raise OptionError("--title and --license are about the data set of --to-hf DIR.")
    if target is not None and target != "-":
        kind_to_write(target)
    table = read_battles(source, **given)
    if to_hf is not None:
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
    message = f"{counted(len(table), 'battle')} written to {'standard output' if target == '-' else to_hf or target}"
    if table.skipped:
        message += f"; {counted(sum(table.skipped.values()), 'row')} skipped: {reasons(table.skipped)}"
    note(message + ".")


@app.command("eval-records")
def eval_records_command(
    source: str = typer.Argument(
        ..., metavar="SOURCE", help="A run folder, a ratings file, or battles, which are rated first."
    ),
    out: Path = typer.Argument(..., metavar="DIR", help="Folder to write data/EVALUATION/DEVELOPER/MODEL/ into."),
    organization: str = typer.Option(..., help="Who publishes the results."),
    evaluation: str | None = typer.Option(None, help="Name of the evaluation. (default: SOURCE's name)"),
    relationship: Literal["first_party", "third_party", "collaborative", "other"] = typer.Option(
        "third_party", help="How you stand to the makers of the models."
    ),
    developer: str = typer.Option("unknown", help="Who made models whose name does not say it; developer/model does."),
    hf_repo: str | None = typer.Option(None, help="The battles' data set on the Hugging Face hub."),
) -> None:
    """Write ratings as records of Every Eval Ever, a shared format of evaluation results: one file for each model."""
    from tiltyard.verbs.battles import Evaluator, counted, eval_records

    name = evaluation or Path(source).resolve().name.split(".")[0]
    by = Evaluator(
        evaluation=name, organization=organization, relationship=relationship, developer=developer, hf_repo=hf_repo
    )
    written = eval_records(out, source, by)
    note(f"{counted(len(written), 'record')} written below {out / 'data'}.")


@app.command("draw")
def draw_command(
    run_folder: Path = typer.Argument(..., metavar="RUN_DIR", help="The folder of a judged run."),
    out: Path = typer.Option(..., help="The sheet to write, .jsonl or .csv; an existing one is kept."),
    n: int = typer.Option(100, min=1, help="How many matchups to draw."),
    seed: int = typer.Option(0, min=0, help="Seed of the draw."),
    dimension: str | None = typer.Option(None, help="The dimension, if the run has several."),
) -> None:
    """Draw judged matchups at random for people to label: a sheet without names that --people and --calibrate read."""
    import secrets

    from tiltyard.verbs.battles import counted, write_sheet

    if out.exists():
        raise OptionError(f"{out} is there already, and may hold labels: choose another --out, or move it away.")
    try:
        sheet = write_sheet(run_folder, out, n=n, seed=seed, dimension=dimension, new_salt=secrets.token_bytes(16))
    except OSError as error:
        raise TiltyardError(f"cannot write {error.filename or out}: {error.strerror or error}.") from None
    note(
        f"{counted(sheet.drawn, 'matchup')} of {sheet.judged:,} judged ones drawn at random into {out}. Fill in "
        "`winner` (A, B, tie or both bad) and, if several people label, `voter`. Then:\n"
        f"  tiltyard rate {run_folder} --people {out}" + (f" --dimension {sheet.dimension}" if sheet.several else "")
    )
