"""`tiltyard judge`: a judge against people, a finished run judged again by another, and the journal of batches."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any, Literal

import typer

from tiltyard.cli.asking import ProgressView, YesOption, confirm
from tiltyard.cli.options import App, with_options
from tiltyard.cli.output import note, say
from tiltyard.options import JudgeCheckOptions, RejudgeOptions
from tiltyard.render import plural

app = App(
    no_args_is_help=True,
    help="A judge against people, a run judged again by another judge, and the journal of its batches.",
)


def _go_on(folder: Path | None) -> str | None:
    return None if folder is None else "the same command continues where it stopped."


@app.command("check")
@with_options(JudgeCheckOptions, leave_out=["judge_model"])
def check_command(
    pairs: Path = typer.Argument(
        ..., help="Labelled pairs (JSONL): prompt, response_a, response_b, and label or votes."
    ),
    judge_model: list[str] = typer.Option(
        ...,
        help="The judge: anthropic/…, openai/…, gemini/…, ollama/…, local/…, scripted/FILE or recorded/FILE; may "
        "be given again, for each judge of a panel.",
    ),
    *,
    given: dict[str, Any],
    format: Literal["table", "json"] = typer.Option("table", help="For people or for programs."),
    yes: YesOption = False,
) -> None:
    """Compare a judge with people on labelled pairs: accuracy, agreement, kappa, flips, slot and length preference."""
    from tiltyard.verbs.judge_check import judge_check

    agreed = partial(confirm, yes=yes)
    with ProgressView(_go_on) as progress:
        answer = judge_check(pairs, judge_model=judge_model, **given, notify=note, confirm=agreed, progress=progress)
    say(answer.render(format).rstrip())


@app.command("rejudge")
@with_options(RejudgeOptions, leave_out=["judge_model"])
def rejudge_command(
    folder: Path = typer.Argument(..., metavar="RUN_DIR", help="A finished run folder."),
    judge_model: list[str] = typer.Option(..., help="The other judge; given several times, a panel."),
    *,
    given: dict[str, Any],
    yes: YesOption = False,
) -> None:
    """Judge the matchups of a finished run by another judge, and say what changed: verdicts, ratings, ranks."""
    from tiltyard.verbs.rejudge import rejudge

    agreed = partial(confirm, yes=yes)
    with ProgressView(_go_on) as progress:
        answer = rejudge(folder, judge_model=judge_model, **given, notify=note, confirm=agreed, progress=progress)
    say(str(answer))
    note(f"new run folder: {answer.folder}; changes.json says what changed")


@app.command("journal")
def journal_command(
    folder: Path = typer.Argument(
        ..., metavar="CACHE_DIR", help="The folder of batches.jsonl: a verdict cache, or asking_<entrant>."
    ),
    forget: str | None = typer.Option(
        None, metavar="BATCH", help="Give up an open batch that is gone for good: its requests are sent and paid again."
    ),
    format: Literal["table", "json"] = typer.Option("table", help="For people or for programs."),
) -> None:
    """List the batches in a journal with their states, or forget one that its provider no longer knows."""
    import time

    from tiltyard.verbs.runs import forget_batch, journal

    if forget is not None:
        count = forget_batch(folder, forget, time.time)
        note(f"batch {forget} is forgotten: the next run sends its {plural(count, 'request')} again")
    say(journal(folder).render(format).rstrip())
