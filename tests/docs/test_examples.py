"""The examples run: each script by itself, and every cell of the notebook."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.docs.manual import ROOT, environment

SCRIPTS = sorted(path for path in (ROOT / "examples").glob("*.py") if not path.name.startswith("make_"))
NOTEBOOK = ROOT / "examples" / "first_look.ipynb"


@pytest.fixture
def examples(tmp_path: Path) -> Path:
    """The scripts, the notebook and their battles, away from the repository."""
    for path in [*SCRIPTS, NOTEBOOK, ROOT / "examples" / "birds.jsonl"]:
        shutil.copy(path, tmp_path)
    return tmp_path


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_an_example_script_runs_and_says_something(script: Path, examples: Path) -> None:
    command = [sys.executable, "-W", "error", script.name]
    done = subprocess.run(command, cwd=examples, env=environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) >= 3
    assert done.stderr == ""


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::RuntimeWarning")  # what the kernel's sockets say
def test_every_cell_of_the_notebook_runs(examples: Path) -> None:
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(examples / NOTEBOOK.name, as_version=4)
    client = NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(examples)}})
    client.execute()
    shown = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    assert any("image/svg+xml" in output.get("data", {}) for output in shown), "no chart is drawn"
    assert any("text/html" in output.get("data", {}) for output in shown), "no board is shown"


def test_the_notebook_is_kept_without_outputs() -> None:
    cells: list[dict[str, Any]] = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert len(code) >= 6
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in code)
