"""`tiltyard …`: every command hangs here, and every known error ends here, in one line."""

from __future__ import annotations

import os
import sys
from typing import Annotated

# Ratings solve many small systems, which two BLAS threads make slower; NumPy reads this when it is first imported.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import typer

from tiltyard import __version__
from tiltyard.cli.arena import app as arena_app
from tiltyard.cli.battles import app as battles_app
from tiltyard.cli.demo import demo_command
from tiltyard.cli.judge import app as judge_app
from tiltyard.cli.overview import overview
from tiltyard.cli.place import place_command
from tiltyard.cli.rate import rate_command
from tiltyard.cli.tournament import generate_command, report_command, run_command
from tiltyard.errors import TiltyardError

app = typer.Typer(
    name="tiltyard",
    help="Which model is better, and how sure are we? Leaderboards with honest intervals from pairwise battles.",
    invoke_without_command=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("demo")(demo_command)
app.command("rate")(rate_command)
app.add_typer(battles_app, name="battles")
app.command("generate")(generate_command)
app.command("run")(run_command)
app.command("place")(place_command)
app.command("report")(report_command)
app.add_typer(judge_app, name="judge")
app.add_typer(arena_app, name="arena")


def _print_version(asked: bool) -> None:
    if asked:
        sys.stdout.write(f"tiltyard {__version__}\n")
        raise typer.Exit


@app.callback()
def _options(
    context: typer.Context,
    version: Annotated[  # noqa: ARG001 - its callback answers before this is called
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Options of `tiltyard` itself; without a command, what it is for."""
    if context.invoked_subcommand is None:
        sys.stdout.write(overview(__version__))


def main() -> None:
    """Run a command. A known error is one line on stderr and exit 1; wrong usage is exit 2; never a traceback."""
    try:
        app()
    except TiltyardError as error:
        sys.stderr.write(f"tiltyard: {error}\n")
        sys.exit(1)
    except KeyboardInterrupt:
        sys.stderr.write("tiltyard: interrupted.\n")
        sys.exit(1)
    except BrokenPipeError:
        # The reader of our output has gone (`| head`): nothing is left to say, and nobody to say it to.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
