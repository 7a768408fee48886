"""Arguments that no arena can use: one line that says so, before anything is written or printed."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from tests.arena.engines import sql
from tests.cli.conftest import Run
from tiltyard.arena.store import Store

HUGE = "9" * 20


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An arena without anything, and files that are not what they are called."""
    made = tmp_path_factory.mktemp("bad")
    Store.create(f"sqlite:///{made / 'a.db'}").close()
    (made / "folder").mkdir()
    (made / "bytes").write_bytes(b"\xff\xfe\x00")
    (made / "deep.yaml").write_text("a: " + "[" * 600, encoding="utf-8")
    (made / "method.gz").write_bytes(b"\x1f\x8b\x07abcdef")
    (made / "plain.gz").write_bytes(b"no gzip")
    (made / "cut.gz").write_bytes(gzip.compress(b'{"witness":1,"head":"x"}\n' * 500)[:-12])
    return made


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("arena", "invite", "--n", "1", "--uses", HUGE), "is not in the range"),
        (("arena", "invite", "--n", "1", "--public-url", "not a url"), "'not a url' is not a web address"),
        (("arena", "invite", "--n", "1", "--public-url", "https://"), "is not a web address"),
        (("arena", "invite", "--n", "1", "--public-url", "https://x.org/?a"), "is not a web address"),
        (("arena", "invite", "--n", "1", "--label", "a\nb"), "is not one line"),
        (("arena", "invite", "--n", "2", "--out", "DIR/none/links"), "none/links"),
        (("arena", "invite", "--revoke", "\udcff"), "not text in UTF-8"),
        (("arena", "prompts", "rotate", "--keep", HUGE), "is not in the range"),
        (("arena", "serve", "--workers", HUGE), "is not in the range"),
        (("arena", "head", "--out", "DIR/none/head.json"), "none/head.json"),
        (("arena", "head", "--out", "DIR/folder"), "folder"),
        (("arena", "head", "--title", "\udcff"), "not text in UTF-8"),
        (("arena", "verify", "--key", "@DIR/bytes"), "Name a text file in UTF-8"),
        (("arena", "settings", "--phase", "2", "--privacy", "DIR/bytes"), "Name a text file in UTF-8"),
        (("arena", "settings", "--policy", "DIR/deep.yaml"), "nested too deeply"),
        (("arena", "simulate", "--taste-sd", "1e308"), "is not in the range"),
        (("arena", "simulate", "--votes", HUGE), "is not in the range"),
        (("arena", "tidy", "--db", "DIR/a.db"), "a.db is a path, not the URL of a database. Write sqlite:///"),
        (("arena", "init", "--db", "sqlite:///nowhere/a.db"), "there is no folder nowhere"),
        (("verify", "DIR/folder"), "folder is a folder without published.json"),
        (("verify", "DIR/bytes"), "bytes cannot be verified: name a folder that `tiltyard publish` wrote"),
        (("verify", "DIR/none"), "there is no file or folder"),
        (("verify", "DIR/method.gz"), "method.gz is cut off or not a gzip file"),
        (("verify", "DIR/plain.gz"), "plain.gz is cut off or not a gzip file"),
        (("verify", "DIR/cut.gz"), "cut.gz"),
    ],
)
def test_a_bad_argument_is_named_and_nothing_is_done(
    folder: Path, tiltyard: Run, arguments: tuple[str, ...], said: str
) -> None:
    url = f"sqlite:///{folder / 'a.db'}"
    given = [argument.replace("DIR", str(folder)) for argument in arguments]
    needs_db = arguments[0] == "arena" and arguments[1] != "simulate" and "--db" not in arguments
    done = tiltyard(*given, *(("--db", url) if needs_db else ()))
    assert done.returncode in (1, 2)
    assert "Traceback" not in done.stderr
    assert said in " ".join(done.stderr.replace("│", " ").split())
    assert done.returncode == 2 or len(done.stderr.splitlines()) == 1
    assert done.stdout == ""
    for table in ("invitations", "events"):
        assert sql(url, f"SELECT count(*) FROM {table}") == [(0,)], table
