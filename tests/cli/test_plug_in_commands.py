"""Commands that other programs use: JSON Schemas."""

from __future__ import annotations

from pathlib import Path

from tests.cli.conftest import Run
from tiltyard.data.schemas import SCHEMAS, schema_file, schema_text


def test_the_command_lists_prints_and_writes_them(tiltyard: Run, tmp_path: Path) -> None:
    assert [line.split()[0] for line in tiltyard("schema").stdout.splitlines()] == list(SCHEMAS)
    assert tiltyard("schema", "battle").stdout == schema_text("battle")
    assert tiltyard("schema", "--out", str(tmp_path / "all")).returncode == 0
    assert sorted(path.name for path in (tmp_path / "all").iterdir()) == sorted(map(schema_file, SCHEMAS))
    (tmp_path / "file").touch()
    for words in (("schema", "battles"), ("schema", "battle", "--out", str(tmp_path / "file"))):
        done = tiltyard(*words)
        assert done.returncode == 1
        assert done.stderr.count("\n") == 1
        assert "tiltyard: " in done.stderr
