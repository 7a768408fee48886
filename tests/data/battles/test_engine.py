"""DuckDB is started once and used again: what one session leaves must not reach the next, nor a forked process."""

from __future__ import annotations

import multiprocessing
import os
import threading
from pathlib import Path

import pytest

import tiltyard as ty
from tiltyard.data.battles import fast

ROWS = "model_a,model_b,winner,source\n" + "p,q,model_a,human\nq,p,model_a,human\n" * 5


@pytest.fixture
def battles(tmp_path: Path) -> Path:
    path = tmp_path / "battles.csv"
    path.write_text(ROWS, encoding="utf-8")
    return path


def test_a_session_finds_nothing_of_the_one_before() -> None:
    with fast.session() as connection:
        connection.execute("CREATE TEMP TABLE stage AS SELECT 1 AS x")
        connection.execute("SET preserve_insertion_order = false; SET TimeZone = 'Asia/Tokyo'")
    with fast.session() as connection:
        tables = connection.execute("SELECT table_name FROM information_schema.tables").fetchall()
        order, zone = connection.execute(
            "SELECT current_setting('preserve_insertion_order'), current_setting('TimeZone')"
        ).fetchall()[0]
    assert tables == []
    assert (order, zone) == (True, "UTC")


def test_a_session_inside_another_or_after_a_failure_is_a_good_one(battles: Path) -> None:
    with fast.session() as outer:
        outer.execute("CREATE TEMP TABLE stage AS SELECT 1 AS x")
        assert ty.rate(battles).models == ["p", "q"]
        assert outer.execute("SELECT x FROM stage").fetchone() == (1,)
    with pytest.raises(Exception, match="does not exist"), fast.session() as failing:
        failing.execute("SELECT * FROM nowhere")
    assert ty.rate(battles).models == ["p", "q"]


def test_threads_rate_side_by_side(battles: Path) -> None:
    found: list[str] = []

    def work() -> None:
        found.extend(ty.rate(battles).to_json() for _ in range(3))

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 9
    assert set(found) == {ty.rate(battles).to_json()}


def test_nothing_is_left_on_the_disk(battles: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spill = tmp_path / "spill"
    spill.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(spill))
    fast.give_back_memory()
    with fast.session() as connection:
        connection.execute("SET memory_limit = '20MB'")
        connection.execute("CREATE TEMP TABLE stage AS SELECT i, i::VARCHAR || 'text' AS s FROM range(2_000_000) t(i)")
        (folder,) = spill.iterdir()
        assert list(folder.iterdir())
        assert folder.stat().st_mode & 0o077 == 0
    assert not list(spill.iterdir())
    fast.give_back_memory()
    assert ty.rate(battles).models == ["p", "q"]
    assert not list(spill.iterdir())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_rates_and_ends_well(battles: Path) -> None:
    ty.rate(battles)
    process = multiprocessing.get_context("fork").Process(target=ty.rate, args=(battles,))
    process.start()
    process.join(60)
    assert process.exitcode == 0
    pid = os.fork()
    if pid == 0:
        with fast.session() as connection:
            connection.execute("SELECT 1")
        fast.give_back_memory()  # as when the interpreter ends
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
