"""Messages name parameters; only the command line speaks of its options."""

from __future__ import annotations

import ast
import re

import pytest

from tests.house.sources import PATHS, nodes
from tiltyard.cli.output import as_options

ROOMS = ("battles", "bank", "ratings", "boards", "validity")
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


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ('leave such rows out with on_bad="skip".', "leave such rows out with --on-bad skip."),
        ("or pass only_connected=True.", "or pass --only-connected."),
        ("Name one (format=...), or rename the columns.", "Name one (--from), or rename the columns."),
        ("where='len_a <' cannot be used", "--where 'len_a <' cannot be used"),
        ("where=\"a = 'b'\" cannot be used", "--where \"a = 'b'\" cannot be used"),
        ('Use cluster="none", ci="none" or min_battles=...', "Use --cluster none, --ci none or --min-battles"),
        ('Did you mean map={"winner": "preferred"}?', "Did you mean --map winner=preferred?"),
        ('map={"model_a": "left model", "winner": "x"}', "--map 'model_a=left model' --map winner=x"),
        ("rename the columns (map=...).", "rename the columns (--map)."),
        ("K=16 and seed=7 stay", "K=16 and seed=7 stay"),
    ],
)
def test_the_command_line_shows_parameters_as_its_options(message: str, shown: str) -> None:
    assert as_options(message) == shown
