"""Every variable of the environment that the code reads is in the reference, and no other."""

from __future__ import annotations

import ast
import re

from tests.house.sources import PATHS, nodes
from tests.reference.pages import REFERENCE, code, section

VARIABLE = re.compile(
    r"(?:TILTYARD|XDG|OPENBLAS|OMP|MKL|NUMBA)_[A-Z_]+|(?:[A-Z]+_)+API_KEY|(?:[A-Z]+_)+URL|AZURE_[A-Z_]+"
)
FOR_TESTS = {"DATABASE_URL"}


def test_every_variable_of_the_environment_that_the_code_names_is_in_the_reference() -> None:
    named = {
        node.value
        for name in PATHS
        for node in nodes(name)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and VARIABLE.fullmatch(node.value)
    }
    rows = {code(row["variable"])[0] for row in section(REFERENCE / "settings.md", "Environment").rows}
    assert rows == named | FOR_TESTS
