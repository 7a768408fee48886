"""The examples run: each script by itself, and every cell of the notebook."""

from __future__ import annotations

import json
import re
import runpy
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.docs.manual import ROOT
from tests.sizes import size

SCRIPTS = sorted(path for path in (ROOT / "examples").glob("*.py") if not path.name.startswith("make_"))
FEWER_VOTES = {"arena_simulation.py": r"\b[139]00\b"}
"""What an ordinary run takes a tenth of, since a script need only run and say something; `make soak` takes all."""

NOTEBOOK = ROOT / "examples" / "first_look.ipynb"


@pytest.fixture
def examples(tmp_path: Path) -> Path:
    """The scripts, the notebook and their battles, away from the repository."""
    for path in [*SCRIPTS, NOTEBOOK, ROOT / "examples" / "birds.jsonl"]:
        shutil.copy(path, tmp_path)
    return tmp_path


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_an_example_script_runs_and_says_something(
    script: Path, examples: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    text = script.read_text(encoding="utf-8")
    if script.name in FEWER_VOTES:
        text, changed = re.subn(FEWER_VOTES[script.name], lambda found: str(int(found[0]) // size(10, soak=1)), text)
        assert changed == 4
        (examples / script.name).write_text(text, encoding="utf-8")
    monkeypatch.chdir(examples)
    runpy.run_path(script.name, run_name="__main__")  # every warning is an error, as in all tests
    said = capfd.readouterr()
    assert len(said.out.splitlines()) >= 3
    assert said.err == ""


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::RuntimeWarning")  # what the kernel's sockets say
def test_every_cell_of_the_notebook_runs_and_shows_what_is_kept(examples: Path) -> None:
    sys.path.insert(0, str(ROOT / "tools"))
    from notebook import executed

    kept = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    again = json.loads(json.dumps(executed(examples / NOTEBOOK.name, examples)))
    assert [shown(cell) for cell in again["cells"]] == [shown(cell) for cell in kept["cells"]]
    kinds = [kind for cell in kept["cells"] for output in cell.get("outputs", ()) for kind in output.get("data", ())]
    assert "image/svg+xml" in kinds, "no chart is drawn"
    assert "text/html" in kinds, "no board is shown"


def shown(cell: dict[str, Any]) -> list[Any]:
    """What a cell shows in words, in however many pieces; a drawing's bytes depend on other libraries' versions."""
    outputs = cell.get("outputs", [])
    tables = ["".join(one.get("data", {}).get("text/html", "")) for one in outputs]
    return ["".join("".join(one.get("text", "")) for one in outputs), *filter(None, tables)]
