"""A new version without an interruption: old workers go on with the newer tables, and are replaced one by one."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.arena.databases import Databases
from tests.arena.engines import catalog, open_arena, play, sql
from tests.beyond.machines import ROOT
from tests.beyond.visitors import Tally, voting, wait_until
from tests.forked import PATIENCE_SECONDS, Forked, command
from tests.processes import free_port, wait_for
from tests.sizes import size
from tiltyard.arena.store import Store, maintenance
from tiltyard.arena.store.database import Database
from tiltyard.arena.store.verify import verify
from tiltyard.errors import StoreError

LAST_WITH_STEP_1 = "e82679f"
"""The last commit whose programs know the tables of step 0001 and no others."""

EXAMPLE = ROOT / "examples" / "tournament"
NEW = ROOT / "src"
VOTES = size(8, soak=20)
"""So many are waited for in every state of an upgrade."""


@pytest.fixture(scope="module")
def old_version(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program as it was before step 0002."""
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("the old version comes from the history of the repository, which is not here")
    packed = subprocess.run(
        ["git", "-C", str(ROOT), "archive", LAST_WITH_STEP_1, "src"], capture_output=True, check=False
    )
    if packed.returncode:
        pytest.skip(f"commit {LAST_WITH_STEP_1} is not in this clone's history (a shallow one?)")
    folder = tmp_path_factory.mktemp("old")
    subprocess.run(["tar", "-x", "-C", str(folder)], input=packed.stdout, check=True)
    return folder / "src"


def commands_of(source: str, *commands: Sequence[str]) -> None:
    """`tiltyard arena …` of one version, until one fails: what an old version takes from others is imported already,
    its own modules are not.
    """
    import tiltyard

    if not Path(str(tiltyard.__file__)).is_relative_to(source):
        for name in [name for name in sys.modules if name.partition(".")[0] == "tiltyard"]:
            del sys.modules[name]
        sys.path.insert(0, source)
        import tiltyard

        assert Path(str(tiltyard.__file__)).is_relative_to(source)
    for arguments in commands:
        try:
            command("arena", *arguments)
        except SystemExit as end:
            if end.code:
                raise


def started(source: Path, *commands: Sequence[str]) -> Forked:
    environment = {**os.environ, "TILTYARD_SECRET": "shared by all here"}
    return Forked.anywhere(commands_of, str(source), *commands, environment=environment)


def run(source: Path, *commands: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Commands of one version, one after the other in one process."""
    return started(source, *commands).wait(PATIENCE_SECONDS)


@dataclass
class Site:
    """A host's site, of one version after the other."""

    db: str
    port: int
    process: Forked | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self, source: Path) -> None:
        self.process = started(source, ("serve", "--db", self.db, "--port", str(self.port), "--no-rate-limit"))
        wait_for(f"{self.url}/healthz", self.process)

    def stop(self) -> None:
        if self.process is not None:
            self.process.terminate()
            self.process.wait(PATIENCE_SECONDS)


def assert_only_a_moment_of_waiting(tally: Tally) -> None:
    """Nothing failed; on a machine that other work keeps busy a site may say "come back" for a second or so."""
    assert set(tally.stumbles) <= {503}
    assert tally.stumbles[503] <= 40, "four visitors who try again ten times a second"


def test_a_new_version_comes_without_an_interruption(old_version: Path, postgresql_databases: Databases) -> None:
    url, new_version = postgresql_databases.bare(), NEW
    files = ("--prompts", str(EXAMPLE / "bank.jsonl"), "--responses", str(EXAMPLE / "responses"))
    made = run(old_version, ("init", "--db", url), ("import", "--db", url, *files))
    assert made.returncode == 0, made.stderr
    with ExitStack() as stack:
        sites = [Site(url, free_port()), Site(url, free_port())]
        for site in sites:
            stack.callback(site.stop)
            site.start(old_version)
        with voting(" ".join(site.url for site in sites), visitors=size(2, soak=4)) as tally:
            wait_until(tally, VOTES)
            upgraded = run(new_version, ("init", "--upgrade", "--rolling", "--db", url))  # expand
            assert upgraded.returncode == 0, upgraded.stderr
            assert_only_a_moment_of_waiting(tally)
            wait_until(tally, len(tally.acknowledged) + VOTES)  # old programs, newer tables
            assert_only_a_moment_of_waiting(tally)
            for site in sites:  # replace
                site.stop()
                site.start(new_version)
                wait_until(tally, len(tally.acknowledged) + VOTES)
            changed = run(new_version, ("init", "--upgrade", "--db", url))  # the chain, when no old one is left
            assert changed.returncode == 0, changed.stderr
            wait_until(tally, len(tally.acknowledged) + VOTES)
    assert set(tally.stumbles) <= {0, 503}, (
        "a host that stops answers whoever waits; only its port is closed for a while"
    )
    assert {name for (name,) in sql(url, "SELECT matchup_id FROM votes")} == set(tally.acknowledged)
    found = verify(url)
    assert found.clean, found.problems
    assert found.votes == len(tally.acknowledged)


def test_hosts_that_upgrade_at_the_same_time_do_not_disturb_each_other(postgresql_databases: Databases) -> None:
    url = postgresql_databases.bare()
    database = Database(url)
    maintenance.upgrade(database, "0001")
    database.close()
    with ThreadPoolExecutor(3) as pool:
        for store in pool.map(lambda _: Store.upgrade(url), range(3)):
            store.close()
    with open_arena(url) as arena:
        arena.append(catalog())
        play(arena, 3)
    assert verify(url).clean


def test_an_upgrade_that_waits_for_a_writer_that_waits_for_it_is_begun_again(postgresql_databases: Databases) -> None:
    """The database ends one of the two; here the upgrade, since the writer is the more patient."""
    database = Database(postgresql_databases.bare())
    maintenance.upgrade(database, "0001")
    with ThreadPoolExecutor(1) as pool, database.engine.connect() as writer:
        writer.exec_driver_sql("SET deadlock_timeout = '1min'")
        writer.exec_driver_sql("LOCK TABLE voters IN ROW EXCLUSIVE MODE")
        upgraded = pool.submit(maintenance.upgrade, database)
        waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'voters'::regclass"
        while not writer.exec_driver_sql(waiting).scalar():
            time.sleep(0.01)
        writer.exec_driver_sql("LOCK TABLE matchups IN ROW EXCLUSIVE MODE")
        writer.rollback()
        upgraded.result()
    assert maintenance.version(database) == maintenance.HEAD
    database.close()


def test_a_program_uses_newer_tables_where_they_say_that_it_may(arena_url: str) -> None:
    with open_arena(arena_url) as running:
        running.append(catalog())
        sql(arena_url, "CREATE TABLE something_later (name TEXT PRIMARY KEY)")
        sql(arena_url, f"INSERT INTO steps (version, usable_from) VALUES ('0999', '{maintenance.HEAD}')")
        sql(arena_url, "UPDATE alembic_version SET version_num = '0999'")
        play(running, 3)  # who runs goes on
    with open_arena(arena_url) as restarted:
        play(restarted, 3)
    assert verify(arena_url).clean
    sql(arena_url, "UPDATE steps SET usable_from = '0998' WHERE version = '0999'")
    with pytest.raises(StoreError, match="Install a newer tiltyard"):
        Store.open(arena_url)


def test_newer_tables_that_say_nothing_are_refused(arena_url: str) -> None:
    sql(arena_url, "UPDATE alembic_version SET version_num = '0999'")
    with pytest.raises(StoreError, match="newer version"):
        Store.open(arena_url)


def test_every_step_says_who_may_use_its_tables_and_takes_nothing_from_them(sqlite_url: str) -> None:
    said = dict(sql(sqlite_url, "SELECT version, usable_from FROM steps"))
    files = sorted((maintenance.STEPS / "versions").glob("0*.py"))
    assert files[-1].name[:4] == maintenance.HEAD
    for file in files[1:]:
        step, text = file.name[:4], file.read_text(encoding="utf-8")
        assert step in said, f"{file.name} does not say in `steps` who may use its tables"
        taking = re.findall(r"\bop\.(drop_\w+|alter_column|rename_table|execute)\b", text)
        assert not taking or said[step] == step, (
            f"{file.name} takes something away: only programs of its own step may go on"
        )
