"""Messages name parameters; only the command line speaks of its options."""

from __future__ import annotations

import ast
import re

import pytest
import typer

from tests.house.sources import PATHS, nodes
from tiltyard.cli.main import make_app
from tiltyard.cli.output import as_flag
from tiltyard.errors import OptionError, OptionValue

ROOMS = ("stats", "data/battles", "data/bank", "analysis/boards")
OPTION = re.compile(r"(?:^|[\s(`'])--[a-z]")


@pytest.mark.parametrize("room", ROOMS)
def test_no_message_below_the_command_line_names_an_option(room: str) -> None:
    found = [
        f"{name}:{node.lineno}: {node.value}"
        for name in PATHS
        if name.startswith(f"{room}/")
        for node in nodes(name)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and OPTION.search(node.value)
    ]
    assert found == []


def test_commands_and_options_that_a_message_names_exist() -> None:
    """`tiltyard arena import --votes …` in any text of the package, with X for what is filled in."""
    everything, missing = typer.main.get_command(make_app()), []
    for name in PATHS:
        for node in nodes(name) if name != "cli/main.py" else ():
            for hint in re.findall(r"`(?:tiltyard|arena) [^`]*`", _text(node)):
                words, command = hint.strip("`").removeprefix("tiltyard ").split(), everything
                while words and words[0] in getattr(command, "commands", {}):
                    command = command.commands[words.pop(0)]  # type: ignore[attr-defined]
                known = {option for one in command.params for option in (*one.opts, *one.secondary_opts)}
                options = {word.split("=")[0] for word in words if word.startswith("--")}
                if command is everything or options - known:
                    missing.append(f"{name}:{node.lineno}: {hint}")
                if getattr(command, "commands", None) and words and words[0].islower():
                    missing.append(f"{name}:{node.lineno}: {hint}")
    assert missing == []


def _text(node: ast.AST) -> str:
    if isinstance(node, ast.JoinedStr):
        return "".join(_text(part) or "X" for part in node.values)
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


@pytest.mark.parametrize(
    ("choice", "python", "typed"),
    [
        (OptionValue("on_bad", "skip"), 'on_bad="skip"', "--on-bad skip"),
        (OptionValue("only_connected", True), "only_connected=True", "--only-connected"),
        (OptionValue("format"), "format=...", "--from"),
        (OptionValue("fixed_anchors", None), "`fixed_anchors`", "--fixed-anchors"),
        (OptionValue("where", "len_a <"), 'where="len_a <"', "--where 'len_a <'"),
        (OptionValue("where", "a = 'b'"), "where=\"a = 'b'\"", "--where \"a = 'b'\""),
        (OptionValue("map", {"winner": "preferred"}), 'map={"winner": "preferred"}', "--map winner=preferred"),
        (
            OptionValue("map", {"model_a": "left model", "winner": "x"}),
            'map={"model_a": "left model", "winner": "x"}',
            "--map 'model_a=left model' --map winner=x",
        ),
    ],
)
def test_each_front_end_spells_the_options_of_a_message(choice: OptionValue, python: str, typed: str) -> None:
    error = OptionError("Use ", choice, ".")
    assert str(error) == f"Use {python}."
    assert error.spelled(as_flag) == f"Use {typed}."
