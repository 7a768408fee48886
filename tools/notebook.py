"""Run the example notebook and keep what its cells show (`python tools/notebook.py`); a test runs it again.

Outputs are kept without counts, times and ids, so that the same code gives the same file.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

NOTEBOOK = Path(__file__).parent.parent / "examples" / "first_look.ipynb"
KEPT = ("text/plain", "text/html", "image/svg+xml")
"""Of an output in several forms, those that pages which show notebooks use."""


def executed(path: Path, folder: Path) -> Any:
    """The notebook with what its cells show now.

    Parameters:
        path: The notebook.
        folder: Where it runs.
    """
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(path, as_version=4)
    NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(folder)}}).execute()
    place = 0
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
        if cell.cell_type != "code":
            continue
        place += 1
        cell.execution_count = place
        for output in cell.outputs:
            if "data" in output:
                output.metadata = {}
                output.data = {kind: text for kind, text in output.data.items() if kind in KEPT}
            if "execution_count" in output:
                output.execution_count = place
    notebook.metadata.pop("language_info", None)
    return notebook


def main() -> int:
    """Write the notebook with its outputs."""
    import nbformat

    nbformat.write(executed(NOTEBOOK, NOTEBOOK.parent), NOTEBOOK)
    sys.stdout.write(f"wrote {NOTEBOOK.name}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
