"""`tiltyard …`: all commands are registered here, and every known error becomes one line here."""

import gc
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

# Ratings solve many small systems, which two BLAS threads make slower; NumPy reads this when it is first imported.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from tiltyard import __version__
from tiltyard.errors import ConfigError, TiltyardError

if TYPE_CHECKING:
    import typer

OVERVIEW = """\
Tiltyard {version}: which model is better, and how sure are we?

Start here
  tiltyard demo                      the full workflow in a minute, no key
  tiltyard rate FILE                 a leaderboard from any file of battles
  tiltyard compare v2 v1 --in FILE   is v2 better than v1, and how sure?
  tiltyard gate v2 v1 --in FILE      may v2 ship? exit code 0 or 3
  tiltyard plan                      how many prompts or votes do I need?

The three jobs
  tiltyard init DIR --answers FILE   set up a tournament from answer files
  tiltyard run CONFIG --mode pilot   judge the answers of several models
  tiltyard place --help              place one new model among human votes
  tiltyard arena --help              a live arena where people vote blind
  tiltyard review --help             a team's own blind verdicts, agreement

Around them
  tiltyard battles check FILE        valid? also `stats`, `convert`, `draw`
  tiltyard generate CONFIG           fill the answer files from the models
  tiltyard judge check --help        compare a judge with people
  tiltyard report RUN_DIR            write a run's report again
  tiltyard publish SOURCE OUT        a static site of a board, for any host
  tiltyard verify FOLDER-or-URL      recompute what somebody published
  tiltyard schema [NAME]             JSON Schemas of files, for editors
  tiltyard mcp --root DIR            serve these tools to an agent

`tiltyard COMMAND --help` explains a command; `tiltyard --install-completion`
sets up completion in your shell.
"""


def overview(version: str) -> str:
    """The text, at most 80 columns wide."""
    return OVERVIEW.format(version=version)


HELP = """\
Usage: tiltyard [OPTIONS] COMMAND [ARGS]...

{overview}
Options
  --version                          print the version and exit
  --install-completion               set up completion in the current shell
  --show-completion                  print what that would set up
  -h, --help                         show this message and exit
"""

_LONGEST_NAME = 160

COMMANDS = {
    "demo": "demo.demo_command",
    "init": "init.init_command",
    "rate": "rate.rate_command",
    "compare": "compare.compare_command",
    "gate": "compare.gate_command",
    "plan": "compare.plan_command",
    "battles": "battles.app",
    "generate": "tournament.generate_command",
    "run": "tournament.run_command",
    "place": "place.place_command",
    "report": "tournament.report_command",
    "publish": "publish.publish_command",
    "verify": "publish.verify_command",
    "schema": "publish.schema_command",
    "mcp": "mcp.mcp_command",
    "judge": "judge.app",
    "arena": "arena.app",
    "review": "review.app",
}
"""Every command, and where it is: a module of this folder, and a function or a group of further commands in it."""


def make_app(only: str | None = None) -> "typer.Typer":
    """The command line with all its commands, or with one of them, which starts in half the time."""
    import typer
    from typer.core import TyperGroup

    from tiltyard.cli.options import App

    def print_version(asked: bool) -> None:
        if asked:
            sys.stdout.write(_version_line())
            raise typer.Exit

    def options(
        context: typer.Context,
        version: Annotated[  # noqa: ARG001 - its callback answers before this is called
            bool, typer.Option("--version", callback=print_version, is_eager=True, help="Print the version and exit.")
        ] = False,
    ) -> None:
        """Options of `tiltyard` itself; without a command, an overview."""
        if context.invoked_subcommand is None:
            sys.stdout.write(overview(__version__))

    usage_error: Any = typer.BadParameter.__base__

    class Commands(TyperGroup):
        """All commands; what their usage errors repeat of an argument steers no terminal."""

        def make_context(self, *arguments: Any, **more: Any) -> Any:
            with shown():
                return super().make_context(*arguments, **more)

        def invoke(self, context: Any) -> Any:
            with shown():
                return super().invoke(context)

    @contextmanager
    def shown() -> Iterator[None]:
        try:
            yield
        except usage_error as error:
            from tiltyard.cli.output import printable

            error.message = printable(error.message)
            raise

    app = App(
        name="tiltyard",
        cls=Commands,
        help="Which model is better, and how sure are we? Leaderboards with honest intervals from pairwise battles.",
        invoke_without_command=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    )
    app.callback()(options)
    for name in COMMANDS if only is None else [only]:
        module, _, attribute = COMMANDS[name].partition(".")
        command = getattr(import_module(f"tiltyard.cli.{module}"), attribute)
        if isinstance(command, typer.Typer):
            app.add_typer(command, name=name)
        else:
            app.command(name)(command)
    return app


def _version_line() -> str:
    return f"tiltyard {__version__}\n"


def _known_text(arguments: list[str]) -> str | None:
    """What `tiltyard` prints without any command: known beforehand, so nothing has to be imported for it."""
    if "_TILTYARD_COMPLETE" in os.environ:  # a shell asks for completions
        return None
    if not arguments:
        return overview(__version__)
    if arguments in (["--help"], ["-h"]):
        return HELP.format(overview=overview(__version__))
    return _version_line() if arguments == ["--version"] else None


def main() -> None:
    """Run a command; never a traceback.

    Exit code 0 is success, 1 a known error in one line on stderr, 2 wrong usage, 3 a negative result.
    """
    try:
        _run()
    except TiltyardError as error:
        from tiltyard.cli.output import as_flag

        _end(error.spelled(as_flag), is_list=isinstance(error, ConfigError))
    except KeyboardInterrupt:
        _end("interrupted.")
    except BrokenPipeError:
        # The reader of our output has gone (`| head`): stop quietly.
        _forget_output()
        sys.exit(1)
    except OSError as error:
        _end(_about_file(error))
    except MemoryError:
        _end("this needs more memory than there is. Give it less at once: fewer battles, models, rounds or shuffles.")
    except UnicodeError as error:
        _end(f"an argument or a file is not text in UTF-8 ({error.reason if hasattr(error, 'reason') else error}).")
    except RecursionError:
        _end("something in the input is nested too deeply to be read. Check the files that were named.")
    finally:
        if "duckdb" not in sys.modules:  # which complains of what is left over
            gc.freeze()  # the process ends: looking for garbage among everything imported would take 80 ms


def _run() -> None:
    text = _known_text(sys.argv[1:])
    asked = sys.argv[1] if len(sys.argv) > 1 else ""
    try:
        if text is not None:
            sys.stdout.write(text)
            sys.exit(0)
        make_app(only=asked if asked in COMMANDS else None)()
    except SystemExit:
        try:
            # Without this, output lost to a full disk would be noticed only at exit.
            sys.stdout.flush()
        except OSError as error:
            raise OSError(error.errno, error.strerror, "standard output") from None  # EPIPE stays a BrokenPipeError
        raise


def _end(message: str, *, is_list: bool = False) -> NoReturn:
    """The command ends with one line on stderr, or a list; what it printed before is still flushed if possible."""
    try:
        sys.stdout.flush()
    except OSError:
        _forget_output()
    from tiltyard.cli.output import note

    with suppress(OSError):
        note("tiltyard: " + (message if is_list else message.replace("\n", "\\n")))
    sys.exit(1)


def _forget_output() -> None:
    """Drop unflushed output, so that Python does not complain about it at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _about_file(error: OSError) -> str:
    """The system's error and its file, in one line and without secrets."""
    from tiltyard.judge.llm import redact

    name = error.filename if error.filename2 is None else error.filename2  # for a rename, the file that the user named
    file = "standard output or another open file" if name is None else _shown(name)
    reason = " ".join(redact(error.strerror or str(error) or type(error).__name__).split()).rstrip(".")
    return f"cannot use {file}: {reason}. Check the path, its rights and the room on its disk."


def _shown(name: str | bytes | int) -> str:
    """A file's name for a message: without secrets and line breaks, shortened in the middle if it is very long."""
    from tiltyard.judge.llm import redact

    text = f"file {name}" if isinstance(name, int) else os.fsdecode(name)
    text = re.sub(r"(?<=/)[^/@:]*:[^/@]*@", "[hidden]@", redact(text))
    text = " ".join(text.split())
    return text if len(text) <= _LONGEST_NAME else f"{text[: _LONGEST_NAME // 2]}…{text[-_LONGEST_NAME // 2 :]}"
