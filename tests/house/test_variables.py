"""Every variable of the environment that the code reads is in the reference, and no other."""

from __future__ import annotations

import ast
import re

from tests.house.sources import PATHS, nodes
from tests.reference.pages import REFERENCE, ROOT, code, section

JUDGES = ROOT / "docs" / "how-to" / "which-judge.md"
VARIABLE = re.compile(
    r"(?:TILTYARD|XDG|OPENBLAS|OMP|MKL|NUMBA)_[A-Z_]+|(?:[A-Z]+_)+API_KEY|(?:[A-Z]+_)+URL|AZURE_[A-Z_]+"
)
INTERNAL = {"TILTYARD_SITE_SETTINGS"}
"""How `serve` hands its settings to worker processes."""
PLACES = ((REFERENCE / "settings.md", "Environment"), (JUDGES, "Makers and servers by name"))


def test_every_variable_of_the_environment_that_the_code_names_is_in_the_reference() -> None:
    named = {
        node.value
        for name in PATHS
        for node in nodes(name)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and VARIABLE.fullmatch(node.value)
    }
    words = {word for page, title in PLACES for line in section(page, title).lines for word in code(line)}
    assert {word for word in words if VARIABLE.fullmatch(word)} == named - INTERNAL
