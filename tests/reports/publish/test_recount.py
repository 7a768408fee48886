"""Counting a published board again in a real browser: Python's numbers, filters, changed numbers, from the disk."""

from __future__ import annotations

import re
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from tests.browsers import Tab
from tests.sizes import size
from typer.testing import CliRunner

import tiltyard as ty
from tiltyard.cli.main import make_app
from tiltyard.verbs.publish import PublishedFolder

TOLERANCE = 1e-6
"""Points; the page itself asks for 0.001."""


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


@contextmanager
def at_a_server(folder: Path) -> Iterator[str]:
    """A folder at a plain web server; its address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def address(published: PublishedFolder) -> Iterator[str]:
    with at_a_server(published.folder) as found:
        yield found


def counted(tab: Tab) -> str:
    """Press the button, wait, and say what the page says."""
    tab._page.click("#recount-start")
    tab._page.wait_for_selector("#recount-said:is(.right, .wrong)")
    return tab._page.inner_text("#recount-said")


def ratings(tab: Tab) -> dict[str, float]:
    """The ratings of the board that a filter left."""
    rows = tab._page.query_selector_all("#recount-board tbody tr")
    return {str(row.get_attribute("data-model")): float(row.eval_on_selector("data", "it => it.value")) for row in rows}


def test_a_browser_counts_the_board_again_and_rates_what_filters_leave(
    tab: Tab, address: str, published: PublishedFolder
) -> None:
    tab._page.goto(f"{address}/index.html")
    said = counted(tab)
    assert said.startswith(
        "Counted again: 180 battles, 4 models: names, order, ratings, wins, losses and ties are as this page has them"
    )
    assert said.endswith(
        "This code came from the same place as the page, so the independent check is the command above."
    )
    assert float(str(tab._page.get_attribute("#recount", "data-largest"))) < TOLERANCE
    battles = published.folder / "battles.parquet"
    wanted = {"category": "code", "language": "en", "source": "human"}
    for name, value in wanted.items():
        tab._page.select_option(f"#recount-filter [name={name}]", value)
        expected = ty.rate(battles, where=f"{name} = '{value}'").ratings
        tab._page.wait_for_function(
            "n => document.querySelector('#recount-board .note')?.textContent.startsWith(n + ' battles')",
            arg=str(int(_battles(battles, f"{name} = '{value}'"))),
        )
        found = ratings(tab)
        assert found == pytest.approx(expected, abs=TOLERANCE)
        tab._page.select_option(f"#recount-filter [name={name}]", "")
    tab._page.fill("#recount-filter [name=from]", "2023-11-20")
    tab._page.select_option("#recount-filter [name=category]", "a <b> & 'c'")
    where = "category = 'a <b> & ''c''' AND timestamp >= 1700438400"
    tab._page.wait_for_function(
        "n => document.querySelector('#recount-board .note')?.textContent.startsWith(n + ' battles')",
        arg=str(int(_battles(battles, where))),
    )
    assert ratings(tab) == pytest.approx(ty.rate(battles, where=where).ratings, abs=TOLERANCE)
    assert where in tab._page.inner_text("#recount-board")
    assert tab.complaints == []
    assert {request.split("/")[2] for request in tab.requests if request.startswith("http")} == {address.split("/")[2]}


def test_an_address_is_verified_like_a_folder(small: PublishedFolder) -> None:
    with at_a_server(small.folder) as address:
        for tail, more, code in (("", (), 0), ("/index.html", ("--fingerprint", "0" * 64), 3)):
            done = CliRunner().invoke(make_app("verify"), ["verify", address + tail, *more])
            assert done.exit_code == code, done.output
            assert f"fingerprint: {small.fingerprint}" in done.stdout


def test_files_that_the_board_does_not_name_are_named(small: PublishedFolder, tmp_path: Path) -> None:
    folder = shutil.copytree(small.folder, tmp_path / "site")
    (folder / "leaderboard2.html").write_text("A better board", encoding="utf-8")
    (folder / "models" / "odd").mkdir(parents=True)
    for name in ("CNAME", "models/odd/a.txt", "models/odd/b.txt"):
        (folder / name).write_text("?", encoding="utf-8")
    done = CliRunner().invoke(make_app("verify"), ["verify", str(folder), "--besides", "CNAME"])
    assert done.exit_code == 3, done.output
    strange = re.findall(r"WRONG: (\S+) is no file of this folder", done.stdout)
    assert strange == ["leaderboard2.html", "models/odd/a.txt", "models/odd/b.txt"]
    known = ("--besides", "CNAME", "--besides", "models/odd/", "--besides", "leaderboard2.html")
    done = CliRunner().invoke(make_app("verify"), ["verify", str(folder), *known])
    assert done.exit_code == 0, done.output


def _battles(path: Path, where: str) -> float:
    return sum(one.wins + one.losses + one.ties for one in ty.rate(path, where=where, ci="none")) / 2


def test_what_a_reader_sees_is_compared_not_what_lies_behind_it(
    tab: Tab, address: str, published: PublishedFolder
) -> None:
    first, second, *_ = published.publication.boards[0].board.entries
    page = (published.folder / "index.html").read_text("utf-8")
    one = f">{first.rating:.1f}</data></b>"
    row = next(line for line in page.splitlines() if one in line and line.startswith(("<tr", "<tbody")))
    forgeries = {
        "this page says 2000, its battles give": (one, ">2000.0</data></b>"),
        "this page says": (f"<bdi>{second.model}</bdi></a></th>", "<bdi>model 9</bdi></a></th>"),
        "does not hold its rating": (f">{second.ci_low:.0f}</data>", ">3000</data>"),
        "this page counts": (f">{second.wins:.0f}</data>", ">999</data>"),
        "places 9 do not hold place": ('<span class="rank">', '<span class="rank">9</span><span class="rank" hidden>'),
        "model 0: this page says 2000": ("</thead>", "<tr><th>model 0</th><td>1</td><td>2000</td></tr></thead>"),
        "this page has 3 models, its battles 4": (row.removeprefix("<tbody>"), ""),
    }
    try:
        for number, (told, (shown, forged)) in enumerate(forgeries.items()):
            assert shown in page
            (published.folder / "index.html").write_text(page.replace(shown, forged), encoding="utf-8")
            tab._page.goto(f"{address}/index.html?{number}")
            said = counted(tab)
            assert said.startswith("This page is not what its battles say."), told
            assert told in said
    finally:
        (published.folder / "index.html").write_text(page, encoding="utf-8")
    tab._page.route("**/battles.cols", lambda route: route.fulfill(body=_swapped(published.folder)))
    tab._page.goto(f"{address}/index.html?last")
    said = counted(tab)
    assert "battles.cols is not the file that was published" in said
    assert said.count("its battles give") >= 4


def _swapped(folder: Path) -> bytes:
    """The column file with the wins of both sides exchanged."""
    data = bytearray((folder / "battles.cols").read_bytes())
    start = 12 + int.from_bytes(data[8:12], "little")
    at = start + 2 * (-(-2 * 180 // 8) * 8)
    data[at : at + 180] = bytes({0: 1, 1: 0}.get(value, value) for value in data[at : at + 180])
    return bytes(data)


def test_from_the_disk_the_reader_chooses_the_file_and_without_scripts_everything_is_there(
    tab: Tab, published: PublishedFolder
) -> None:
    tab.open(published.folder / "index.html")
    tab._page.click("#recount-start")
    assert "Choose battles.cols in this folder" in tab._page.inner_text("#recount-said")
    tab._page.set_input_files("#recount-file", published.folder / "battles.cols")
    tab._page.wait_for_selector("#recount-said.right")
    assert tab.complaints == []
    tab.scripts(on=False)
    tab.open(published.folder / "index.html")
    said = tab.shown()
    assert "model 1" in said
    assert "tiltyard verify https://example.org/board/" in said
    assert "Or let your browser count" not in said


@pytest.mark.parametrize("dark", [False, True])
def test_axe_finds_nothing_and_a_phone_does_not_scroll_sideways(
    tab: Tab, published: PublishedFolder, dark: bool
) -> None:
    tab.screen(390 if dark else 1280, 844, dark=dark)
    pages = ["index.html", "methods.html", "data.html"]
    kinds = (sorted(published.folder.glob(f"{kind}/*.html"))[0] for kind in ("models", "compare"))
    pages += [path.relative_to(published.folder).as_posix() for path in kinds]
    for name in pages if dark else pages[: size(1, soak=len(pages))]:
        tab.open(published.folder / name)
        assert tab.evaluate("document.documentElement.scrollWidth") <= (390 if dark else 1280), name
        assert tab.broken_rules(colors_only=not dark) == [], name
    assert tab.complaints == []
