"""Draw which wing takes names from which: `python tools/wings.py` prints the picture that ARCHITECTURE shows."""

from __future__ import annotations

import ast
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "tiltyard"
WINGS = ("render", "stats", "data", "analysis", "judge", "arena", "reports", "site", "verbs", "cli")


def arrows() -> set[tuple[str, str]]:
    """Pairs of wings: the first imports the second."""
    found = set()
    for wing in WINGS:
        for path in (SOURCE / wing).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tiltyard."):
                    found.add((wing, str(node.module).split(".")[1]))
    return {(wing, other) for wing, other in found if other in WINGS and other != wing}


def picture() -> str:
    """A line for each wing, with a dot under each wing that it imports."""
    found = arrows()
    head = " " * 10 + "  ".join(WINGS[:-1])
    rows = [
        f"{wing:10}" + "  ".join(f"{'●' if (wing, other) in found else '·':^{len(other)}}" for other in WINGS[:-1])
        for wing in WINGS
    ]
    return "\n".join([head, *(row.rstrip() for row in rows)])


if __name__ == "__main__":
    print(picture())  # noqa: T201 - it is a command
