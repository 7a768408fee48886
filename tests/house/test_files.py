"""Every file is written whole: whatever ends a writer, a reader finds the old file or the new one."""

from __future__ import annotations

import ast
import os
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest

from tests.forked import PATIENCE_SECONDS
from tests.house.sources import PATHS, nodes
from tiltyard.analysis.boards.charts import save_chart
from tiltyard.files import copy_file, whole_file, write_arrays, write_bytes, write_json, write_lines, write_text

APPENDS = "only grows, line by line; its module says how a torn last line is mended"
TEMPORARY = "a temporary file of its own, which nobody else looks at"
IN_MEMORY = "into memory: cleaned bytes are handed back"
UNDER_A_NAME = "writes under the name that whole_file gave it"
ELSEWHERE = {
    "files.py": "the home of writing",
    "arena/store/outside.py": APPENDS,
    "data/bank/responses.py": APPENDS,
    "judge/verdicts/cache.py": APPENDS,
    "judge/llm/generation.py": APPENDS,
    "judge/llm/journal.py": f"{APPENDS}; and a lock, whose file holds a process number",
    "cli/main.py": "the null device, in place of an output that is gone",
    "data/battles/careful.py": TEMPORARY,
    "data/battles/log_readers.py": TEMPORARY,
    "data/battles/frames.py": TEMPORARY,
    "data/battles/inputs.py": TEMPORARY,
    "stats/compiled.py": TEMPORARY,
    "data/scores/reading.py": TEMPORARY,
    "site/api.py": TEMPORARY,
    "arena/intake/media/images.py": IN_MEMORY,
    "arena/intake/media/streams.py": IN_MEMORY,
    "arena/intake/import_source.py": UNDER_A_NAME,
    "site/heads.py": TEMPORARY,
    "render/share_card.py": "a picture in memory, which is sent or written by others",
    "data/battles/writing.py": UNDER_A_NAME,
    "analysis/boards/charts.py": UNDER_A_NAME,
    "arena/store/sqlite_files.py": f"{UNDER_A_NAME}; and empties a log of writes that belongs to no database any more",
}
"""The modules besides `files` that write to a disk, and why each may."""

WRITING_CALLS = {
    *("write_text", "write_bytes", "save", "savez", "savez_compressed", "savetxt", "tofile", "dump", "rename"),
    *("to_csv", "to_parquet", "write_parquet", "write_csv", "ParquetWriter", "truncate", "ftruncate", "copyfileobj"),
    *("copyfile", "copy2", "copytree", "move", "NamedTemporaryFile", "TemporaryFile", "mkstemp", "fdopen"),
}
WRITING_SQL = ("VACUUM INTO", ") TO ")
FLAGS = {"O_WRONLY", "O_RDWR", "O_CREAT"}


def writes(call: ast.Call) -> bool:
    """Whether a call writes to a disk, as far as its own text says."""
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    if name not in ("open", "execute"):
        return name in WRITING_CALLS and isinstance(call.func, ast.Attribute)
    words = [node.value for node in ast.walk(call) if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    if name == "execute":
        return any(sql in word for sql in WRITING_SQL for word in words)
    flags = {node.attr for node in ast.walk(call) if isinstance(node, ast.Attribute)}
    return bool(flags & FLAGS) or any(set(word) <= set("rwxabt+") and set(word) & set("wxa+") for word in words)


def writers(nodes: Iterable[ast.AST]) -> list[int]:
    return [node.lineno for node in nodes if isinstance(node, ast.Call) and writes(node)]


def test_nothing_writes_a_file_outside_the_one_place_but_the_modules_named_here() -> None:
    found = {name: writers(nodes(name)) for name in PATHS}
    assert {name: lines for name, lines in found.items() if lines and name not in ELSEWHERE} == {}
    assert {name for name in ELSEWHERE if not found.get(name)} == set(), "no longer writes: take it off the list"


@pytest.mark.parametrize(
    "line",
    [
        "path.write_text('x')",
        "path.open('w')",
        "open(path, mode='ab')",
        "gzip.open(path, 'wb')",
        "os.open(path, os.O_WRONLY | os.O_CREAT)",
        "np.savez(path, a=a)",
        "chart.save(path)",
        "shutil.copyfile(a, b)",
        "connection.execute('VACUUM INTO ?', (path,))",
        "connection.execute(f'COPY (SELECT 1) TO {path} (FORMAT parquet)')",
        "part.rename(path)",
    ],
)
def test_the_search_finds_a_writer(line: str) -> None:
    assert writers(ast.walk(ast.parse(line))) == [1]


def broken_rows():
    yield {"row": 1}
    raise RuntimeError("in the middle")


class BrokenChart:
    def save(self, path: str, **_: object) -> None:
        Path(path).write_text("half")
        raise RuntimeError("in the middle")


def broken_block(path: Path) -> None:
    with whole_file(path) as part:
        part.write_text("half")
        raise RuntimeError("in the middle")


class Unwritable:
    """An array that cannot be made: NumPy asks for it when part of the file is written."""

    def __array__(self, *_: object, **__: object) -> np.ndarray:
        raise RuntimeError("in the middle")


@pytest.mark.parametrize(
    "write",
    [
        lambda path: write_lines(path, broken_rows()),
        lambda path: save_chart(BrokenChart(), path),
        lambda path: write_arrays(path, {"good": np.zeros(3), "bad": Unwritable()}),
        broken_block,
    ],
    ids=["lines", "chart", "arrays", "block"],
)
def test_a_writer_that_fails_in_the_middle_leaves_the_old_file_and_no_other(tmp_path: Path, write) -> None:
    path = tmp_path / "file.svg"
    path.write_text("old")
    with pytest.raises(RuntimeError, match="in the middle"):
        write(path)
    assert path.read_text() == "old"
    assert [found.name for found in tmp_path.iterdir()] == ["file.svg"]


PROGRAM = """
import sys, time
from pathlib import Path
from tiltyard import write_battles
from tiltyard.data.battles import writing
from tiltyard.files import write_lines

path = Path(sys.argv[1])
writing.CHUNK_ROWS = 100
row = {"model_a": "a", "model_b": "b", "winner": "tie", "source": "human"}


def halting(rows):
    for number, one in enumerate(rows):
        if number == 50:
            print("half", flush=True)
            time.sleep(600)
        yield one

if sys.argv[2] == "lines":
    write_lines(path, halting([row] * 100))
else:
    made = writing._row_chunks
    writing._row_chunks = lambda table: halting(made(table))
    write_battles(path, [row] * 10_000)
"""


@pytest.mark.parametrize("what", ["lines", "battles"])
def test_a_writer_that_is_killed_in_the_middle_leaves_the_old_file(tmp_path: Path, what: str) -> None:
    path = tmp_path / "battles.jsonl"
    path.write_text("old\n")
    with subprocess.Popen([sys.executable, "-c", PROGRAM, path, what], stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"half\n"
        writer.send_signal(signal.SIGKILL)
        writer.wait(60)
    assert path.read_text() == "old\n"


def test_a_full_disk_leaves_the_old_board_and_names_the_file_that_was_asked_for(tmp_path: Path) -> None:
    (tmp_path / "board.json").write_text("old")
    (tmp_path / "battles.csv").write_text("winner,loser\na,b\nb,a\n")
    program = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (64, 64)); "
        "sys.argv = ['tiltyard', 'rate', 'battles.csv', '--out', 'board.json']; "
        "from tiltyard.cli.main import main; main()"
    )
    done = subprocess.run(
        [sys.executable, "-B", "-c", program],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr == "tiltyard: cannot write board.json: File too large. Check the folder.\n"
    assert (tmp_path / "board.json").read_text() == "old"
    assert {path.name for path in tmp_path.iterdir()} == {"board.json", "battles.csv"}


def test_two_that_write_the_same_file_do_not_meet(tmp_path: Path) -> None:
    path = tmp_path / "board.json"
    with whole_file(path) as first:
        first.write_text("first")
        with whole_file(path) as second:
            second.write_text("second")
        assert path.read_text() == "second"
    assert path.read_text() == "first"
    assert [found.name for found in tmp_path.iterdir()] == ["board.json"]


def test_many_writers_at_once_leave_one_whole_file(tmp_path: Path) -> None:
    path = tmp_path / "board.json"
    texts = [str(number) * 200_000 for number in range(8)]
    threads = [threading.Thread(target=write_text, args=(path, text)) for text in texts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert path.read_text() in texts
    assert [found.name for found in tmp_path.iterdir()] == ["board.json"]


def test_a_link_stays_a_link_and_a_file_keeps_its_rights(tmp_path: Path) -> None:
    (tmp_path / "real.json").write_text("old")
    (tmp_path / "real.json").chmod(0o600)
    (tmp_path / "link.json").symlink_to("real.json")
    write_json(tmp_path / "link.json", {"new": True})
    assert (tmp_path / "link.json").is_symlink()
    assert (tmp_path / "real.json").read_text() == '{\n  "new": true\n}\n'
    assert stat.S_IMODE((tmp_path / "real.json").stat().st_mode) == 0o600


def test_a_pipe_and_a_device_are_written_to_and_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    heard: list[str] = []
    reader = threading.Thread(target=lambda: heard.append(pipe.read_text()), daemon=True)
    reader.start()
    write_text(pipe, "through the pipe")
    reader.join(60)
    assert heard == ["through the pipe"]
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    write_text(Path(os.devnull), "gone")
    assert stat.S_ISCHR(Path(os.devnull).stat().st_mode)


def test_a_very_long_name_can_be_written_and_copied(tmp_path: Path) -> None:
    long = tmp_path / ("é" * 125 + ".json")
    write_bytes(long, b"new")
    copy_file(long, tmp_path / "folder" / "copy")
    assert (tmp_path / "folder" / "copy").read_bytes() == b"new"


def test_a_folder_that_a_user_may_have_mistyped_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        write_text(tmp_path / "mistyped" / "x.json", "new", new_folder=False)
    assert caught.value.filename == str(tmp_path / "mistyped" / "x.json")
    assert list(tmp_path.iterdir()) == []
