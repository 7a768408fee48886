"""`tiltyard generate`, `tiltyard run` and `tiltyard report`: a judged tournament from answers to a page."""

from __future__ import annotations

import shlex
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from tiltyard.cli.asking import ProgressView, YesOption, confirm
from tiltyard.cli.options import with_options
from tiltyard.cli.output import THE_ANSWER_IS_NO, note, say
from tiltyard.cli.sending import ToOption, check_trackers, send
from tiltyard.errors import BudgetReached, TiltyardError
from tiltyard.options import GenerateOptions, TournamentOptions, options_of

HELP = options_of(TournamentOptions)
GO_ON = "the same command continues where it stopped."

ConfigArgument = Annotated[Path | None, typer.Argument(metavar="CONFIG", help="The tournament file (YAML).")]
ConfigOption = Annotated[Path | None, typer.Option("--config", help="The same, as an option.")]


@with_options(TournamentOptions, leave_out=["mode"])
def run_command(
    mode: Literal["pilot", "headline"] = typer.Option(..., help=HELP["mode"].help.text),
    config_argument: ConfigArgument = None,
    config: ConfigOption = None,
    *,
    given: dict[str, Any],
    yes: YesOption = False,
    to: ToOption = None,
) -> None:
    """Judge a tournament in both orders, rate it, write a run folder with a report; exit 3 if a pilot says NO-GO."""
    from tiltyard.verbs.figures import figures_of_boards
    from tiltyard.verbs.run import run

    check_trackers(to)
    path = _config_path(config_argument, config)

    def again(folder: Path | None) -> str | None:
        return None if folder is None else f"go on with {_again(path, mode, folder, given, yes=yes)}{limit}"

    limit = f" --budget {given['budget_usd']:g}" if "budget_usd" in given else ""
    progress, agreed = ProgressView(again), partial(confirm, yes=yes)
    try:
        with progress:
            answer: Any = run(path, mode=mode, **given, notify=note, confirm=agreed, progress=progress)
    except BudgetReached as error:
        if progress.folder is None:
            raise
        command = _again(path, mode, progress.folder, given, yes=yes)
        raise BudgetReached(f"{error} That is: {command} --budget USD") from None
    except OSError as error:
        if progress.folder is None:
            raise
        raise TiltyardError(
            f"cannot write {error.filename or progress.folder}: {error.strerror or error}. Make room, or choose "
            f"another --output-dir; nothing is lost: {_again(path, mode, progress.folder, given, yes=yes)}"
        ) from None
    if given.get("dry_run"):
        if answer.queries:
            say(str(answer))
        note(answer.sentence)
        return
    say(str(answer))
    for line in (*answer.notes(), f"run folder: {answer.folder}; report: {answer.report}"):
        note(line)
    send(to, lambda: figures_of_boards(answer.boards))
    if not answer.passed:
        raise typer.Exit(THE_ANSWER_IS_NO)


def _again(config: Path, mode: str, folder: Path, given: dict[str, Any], *, yes: bool) -> str:
    """The command that continues a run: the same options and folder, without the budget."""
    words = ["tiltyard", "run", str(config), "--mode", mode, "--output-dir", str(folder)]
    for name, value in given.items():
        if name not in ("output_dir", "budget_usd", "retry_failed"):
            for one in value if isinstance(value, list) else [value]:
                words += [HELP[name].flag] if one is True else [HELP[name].flag, str(one)]
    return shlex.join([*words, *(["--yes"] if yes else [])])


def _config_path(argument: Path | None, option: Path | None) -> Path:
    if (argument is None) == (option is None):
        raise typer.BadParameter("name the tournament file once, as CONFIG or as --config CONFIG.", param_hint="CONFIG")
    return argument or option  # type: ignore[return-value]


@with_options(GenerateOptions)
def generate_command(
    config_argument: ConfigArgument = None,
    config: ConfigOption = None,
    *,
    given: dict[str, Any],
    yes: YesOption = False,
) -> None:
    """Fill the entrants' response files from their models: only what is missing, so it can be run again."""
    from tiltyard.verbs.generate import generate

    with ProgressView(lambda _: GO_ON) as progress:
        answer = generate(
            _config_path(config_argument, config),
            **given,
            notify=note,
            confirm=partial(confirm, yes=yes),
            progress=progress,
        )
    if answer.entrants:
        say(str(answer))
    for line in answer.notes():
        note(line)
    answer.check()


def report_command(folder: Path = typer.Argument(..., metavar="RUN_DIR", help="A run folder.")) -> None:
    """Rebuild the report of a run from its files."""
    from tiltyard.verbs.runs import report

    say(str(report(folder)))
