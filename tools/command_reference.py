"""Write `docs/commands.md` from the commands themselves; a test fails when the page is not up to date."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

import typer

from tiltyard.cli.main import make_app

PAGE = Path(__file__).parent.parent / "docs" / "commands.md"
BUILT_IN = ("install_completion", "show_completion")
HEAD = """# Commands

Every command and option. This page is made from the commands by `make docs`.

Results go to standard output, notes to standard error. Exit codes: 0 done, 1 failed (one line says what, where and what
to do), 2 wrong usage, 3 the answer is no (a gate that fails, a pilot that says
NO-GO: the work is done and written).
"""


def reference() -> str:
    """The page's text."""
    root = typer.main.get_command(make_app())
    return HEAD + "".join(_sections(root, "tiltyard"))


def _sections(command: Any, path: str) -> list[str]:
    """A section for the command, and those of its subcommands."""
    children = getattr(command, "commands", {})
    lines = [f"\n## `{path}`\n\n{_help(command)}\n"]
    kinds = get_type_hints(command.callback) if command.callback else {}
    shown = [parameter for parameter in command.params if parameter.name not in BUILT_IN]
    options = [_row(parameter, kinds.get(parameter.name)) for parameter in shown]
    if options:
        lines.append("\n| option | meaning | default |\n|---|---|---|\n" + "".join(options))
    for name, child in children.items():
        lines += _sections(child, f"{path} {name}")
    return lines


def _help(command: Any) -> str:
    return " ".join((command.help or "").split())


def _row(parameter: Any, kind: Any) -> str:
    spelling = ", ".join(f"`{option}`" for option in (*parameter.opts, *parameter.secondary_opts))
    if parameter.param_type_name == "argument":
        spelling = f"`{parameter.metavar or parameter.name.upper()}`"
    meaning = parameter.help or ""
    choices = _choices(kind)
    if choices:
        meaning += " One of " + ", ".join(f"`{choice}`" for choice in choices) + "."
    default = parameter.default
    shown = "" if default in (None, False, ()) or callable(default) or parameter.required else f"`{default}`"
    return f"| {spelling} | {meaning} | {shown} |\n"


def _choices(kind: Any) -> tuple[str, ...]:
    """The words that an option takes, where its type lists them."""
    if get_origin(kind) is Literal:
        return get_args(kind)
    return next((choices for part in get_args(kind) if (choices := _choices(part))), ())


if __name__ == "__main__":
    PAGE.write_text(reference(), encoding="utf-8")
    sys.stdout.write(f"wrote {PAGE.name}\n")
