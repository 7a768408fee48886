"""Messages name parameters; only the command line speaks of its options."""

from __future__ import annotations

import ast
import re

import pytest

from tests.house.sources import PATHS, nodes
from tiltyard.cli.output import as_flag
from tiltyard.errors import OptionError, OptionValue

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
