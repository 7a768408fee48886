"""The first thing a person types, and the first mistakes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import typer

from tests.cli.conftest import Run
from tiltyard import __version__
from tiltyard.cli.main import make_app, overview


def test_tiltyard_alone_says_what_it_is_for_and_what_to_type(tiltyard: Run) -> None:
    done = tiltyard()
    assert done.returncode == 0
    assert done.stdout == overview(__version__)
    assert done.stderr == ""


def test_the_overview_names_every_command_and_none_that_is_not_there() -> None:
    commands = set(typer.main.get_command(make_app()).commands)  # type: ignore[attr-defined]
    named = set(re.findall(r"^  tiltyard (\w+)", overview("1"), re.MULTILINE))
    assert named == commands


def test_the_overview_fits_a_narrow_terminal() -> None:
    assert max(map(len, overview("0.10.10").splitlines())) <= 80


def test_a_misspelt_command_is_answered_with_the_one_that_was_meant(tiltyard: Run) -> None:
    done = tiltyard("raet")
    assert done.returncode == 2
    assert "Did you mean" in done.stderr
    assert "rate" in done.stderr


def test_a_misspelt_option_is_answered_with_the_one_that_was_meant(tiltyard: Run) -> None:
    done = tiltyard("rate", "--metod", "elo", "battles.jsonl")
    assert done.returncode == 2
    assert "--method" in done.stderr


def test_the_version_is_printed_by_the_command_and_by_the_module(tiltyard: Run, tiltyard_from_scratch: Run) -> None:
    for run in (tiltyard, tiltyard_from_scratch):
        assert run("--version").stdout == f"tiltyard {__version__}\n"


def test_shells_can_be_taught_the_commands(tiltyard: Run) -> None:
    assert "--install-completion" in tiltyard("--help").stdout


def commands_of(command: Any, name: str) -> Iterator[tuple[str, Any]]:
    """Every command below one, by what is typed."""
    if not hasattr(command, "commands"):
        yield name, command
    for own, one in getattr(command, "commands", {}).items():
        yield from commands_of(one, f"{name} {own}".strip())


def test_the_first_screen_of_every_command_has_at_most_twelve_options_each_in_a_group(tiltyard: Run) -> None:
    commands = dict(commands_of(typer.main.get_command(make_app()), ""))
    shown = {
        name: [one for one in command.params if one.param_type_name == "option" and not one.hidden]
        for name, command in commands.items()
    }
    assert {name: len(options) for name, options in shown.items() if len(options) > 12} == {}
    told = tiltyard("run", "--help").stdout
    heads = re.findall(r"^(\S.*):$", told, re.MULTILINE)
    assert heads == ["Arguments", "What is judged", "The judge", "Output", "Cost", "Options"]


def test_the_arenas_help_begins_with_what_is_used_every_day(tiltyard: Run) -> None:
    told = tiltyard("arena", "--help").stdout
    daily, rest = told.partition("Every day:")[2].split("And:")
    assert re.findall(r"^  (\w+) ", daily, re.MULTILINE) == ["init", "import", "serve", "invite", "export"]
    known = set(typer.main.get_command(make_app("arena")).commands["arena"].commands)  # type: ignore[attr-defined]
    assert set(re.findall(r"^  ([\w-]+) ", daily + rest, re.MULTILINE)) == known
