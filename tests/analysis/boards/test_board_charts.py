"""The dot-and-interval chart as SVG, PNG and HTML."""

from __future__ import annotations

import itertools
import json
import re
import sys
from xml.etree import ElementTree

import pytest
from board_rows import arena, battle

import tiltyard as ty
from tiltyard.errors import MissingExtra, OptionError

pytest.importorskip("altair", reason="plots need the [plot] extra")
pytest.importorskip("vl_convert", reason="plots need the [plot] extra")


@pytest.fixture(scope="module")
def board():
    rows = battle("otter>heron", 8) + battle("heron>otter", 5) + battle("heron>crane", 7) + battle("crane>heron", 4)
    return ty.rate(rows + battle("kite>otter", 4))


def test_an_svg_shows_every_model(board, tmp_path):
    board.plot(tmp_path / "board.svg")
    text = (tmp_path / "board.svg").read_text()
    assert text.startswith("<svg")
    assert all(name in text for name in board.models)


def test_a_png_is_a_picture(board, tmp_path):
    board.plot(str(tmp_path / "board.png"))
    content = (tmp_path / "board.png").read_bytes()
    assert content.startswith(b"\x89PNG")
    assert len(content) > 5000


def test_a_pdf_is_for_print(board, tmp_path):
    board.plot(tmp_path / "board.pdf")
    assert (tmp_path / "board.pdf").read_bytes().startswith(b"%PDF-")


def test_an_html_page_needs_nothing_from_elsewhere_and_runs_nothing(board, tmp_path):
    board.plot(tmp_path / "board.html")
    text = (tmp_path / "board.html").read_text()
    assert all(name in text for name in board.models)
    assert "default-src &#39;none&#39;" in text
    assert not re.search(r"<script|\b(src|href)=|@import|url\(", text)


HOSTILE = [
    "</script><script>alert(1)</script>",
    "<img src=x onerror=alert(2)>",
    "a\x00\x1b[2J",
    "b\u2028\u2029\n",
    "\x7f\x85",
]


def test_a_name_is_text_in_every_drawing(tmp_path):
    met = [(one, other, won) for one, other in itertools.combinations(HOSTILE, 2) for won in ("model_a", "model_b")]
    board = ty.rate([{"model_a": a, "model_b": b, "winner": won, "source": "human"} for a, b, won in met])
    for suffix in ("svg", "png", "pdf", "html"):
        board.plot(tmp_path / f"board.{suffix}")
    drawn = (tmp_path / "board.svg").read_text(), (tmp_path / "board.html").read_text()
    assert [text.count("&lt;img") > 0 for text in drawn] == [True, True]
    assert not any(re.search(r"<(script|img)|[\x00-\x08\x0b-\x1f\x7f]", text) for text in drawn)
    ElementTree.fromstring(drawn[0])  # and well-formed
    assert "</script>" not in json.dumps(board.plot().to_dict())


def test_a_chart_without_a_path_is_an_altair_object(board):
    values = board.plot().to_dict()
    assert values["layer"]


@pytest.mark.parametrize("method", ["elo", "elo-perm", "glicko2", "winrate"])
def test_every_method_can_be_plotted(method):
    board = ty.rate(arena(2, n=100), method=method)
    values = json.dumps(board.plot().to_dict(validate=method == "elo"))
    assert all(f'"{name}"' in values for name in board.models)


@pytest.mark.soak
@pytest.mark.parametrize("method", ["elo", "elo-perm", "glicko2", "winrate"])
def test_every_method_can_be_drawn(method, tmp_path):
    ty.rate(arena(2, n=100), method=method).plot(tmp_path / "x.svg")
    assert (tmp_path / "x.svg").stat().st_size > 1000


def test_another_kind_of_file_is_refused(board, tmp_path):
    with pytest.raises(OptionError, match=r"\.svg, \.png, \.pdf, \.html"):
        board.plot(tmp_path / "board.jpeg")


@pytest.mark.parametrize("missing", ["altair", "vl_convert"])
def test_without_the_extra_one_line_says_how_to_install_it(board, missing, monkeypatch):
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(MissingExtra, match=r"pip install '\.\[plot\]'"):
        board.plot()
