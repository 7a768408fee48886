"""Cleaning: a name planted in every field of every format is gone, and what people see and hear is still there."""

from __future__ import annotations

import base64
import contextlib
import io
import re
import struct
import sys
import wave
from typing import Any

import av
import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from tests.arena import planted, planted_streams
from tests.arena.planted import FILES, PLANTED
from tiltyard.arena import flag_answers
from tiltyard.arena.intake.file_intake import words_of
from tiltyard.arena.intake.media import clean, format_of, images, streams
from tiltyard.arena.intake.media.block_colours import UNKNOWN, block_colour
from tiltyard.arena.intake.media.scripts import without_comments, without_css_comments
from tiltyard.arena.rules.events import ModelAdded
from tiltyard.data.bank import AnswerKind
from tiltyard.errors import BankError, MissingExtra


@pytest.mark.parametrize(("kind", "suffix"), FILES)
def test_a_name_planted_in_every_field_is_gone(kind: str, suffix: str) -> None:
    data = FILES[kind, suffix]()
    assert PLANTED in data or kind == "html"
    made = clean(AnswerKind(kind), data)
    assert PLANTED.lower() not in made.content.lower()
    for encoded in re.findall(rb"base64,([A-Za-z0-9+/=]+)", made.content):
        assert PLANTED not in base64.b64decode(encoded)
    assert clean(AnswerKind(kind), made.content).media_type == made.media_type  # what we made can be read again


@pytest.mark.parametrize("suffix", ["png", "jpeg", "gif", "webp"])
def test_a_picture_is_made_anew_from_its_pixels(suffix: str) -> None:
    given_ = Image.open(io.BytesIO(FILES["image", suffix]()))
    assert b"VP8L" in clean(AnswerKind.IMAGE, FILES["image", suffix]()).content[:200]  # whatever it was made from
    made = Image.open(io.BytesIO(clean(AnswerKind.IMAGE, FILES["image", suffix]()).content))
    assert made.format == "WEBP"
    assert made.size == ((12, 24) if suffix == "jpeg" else (24, 12))  # the JPEG says that it is to be turned
    assert getattr(made, "n_frames", 1) == getattr(given_, "n_frames", 1)
    assert not {"exif", "xmp", "icc_profile", "comment"} & made.info.keys()
    if suffix == "png":
        near = zip(made.convert("RGB").getpixel((5, 5)), (10, 200, 30), strict=True)  # type: ignore[arg-type]
        assert all(abs(ours - theirs) <= 2 for ours, theirs in near)


def test_a_photograph_of_a_phone_is_its_first_picture_and_a_moving_png_has_no_stand_in() -> None:
    out = io.BytesIO()
    planted.picture().save(out, "MPO", save_all=True, append_images=[planted.picture(size=(8, 8))])
    assert Image.open(io.BytesIO(out.getvalue())).n_frames == 2  # type: ignore[attr-defined]
    made = Image.open(io.BytesIO(clean(AnswerKind.IMAGE, out.getvalue()).content))
    assert (made.size, made.n_frames) == ((24, 12), 1)  # type: ignore[attr-defined]
    out = io.BytesIO()
    moving = [planted.picture((0, 0, 9)), planted.picture((0, 9, 0))]
    planted.picture().save(out, "PNG", save_all=True, append_images=moving, default_image=True, duration=80)
    made = Image.open(io.BytesIO(clean(AnswerKind.IMAGE, out.getvalue()).content))
    assert made.n_frames == 2  # type: ignore[attr-defined]
    assert made.convert("RGB").getpixel((9, 9)) == (0, 0, 9)


def test_small_files_that_hold_many_pixels_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(images, "MOST_PIXELS_OF_ALL", 24 * 12 * 3)
    assert clean(AnswerKind.IMAGE, planted.gif()).content  # three frames
    inside = base64.b64encode(planted.png()).decode()
    drawing = '<svg xmlns="http://www.w3.org/2000/svg">{}</svg>'.format
    part = f'<image href="data:image/png;base64,{inside}"/>'
    assert clean(AnswerKind.SVG, drawing(part * 3).encode()).content.count(b"webp") == 3
    for kind, data in ((AnswerKind.SVG, drawing(part * 4).encode()), (AnswerKind.HTML, (part * 4).encode())):
        with pytest.raises(BankError, match="pixels in all"):
            clean(kind, data)
    monkeypatch.setattr(images, "MOST_PIXELS_OF_ALL", 24 * 12 * 2)
    with pytest.raises(BankError, match="pixels in all"):
        clean(AnswerKind.IMAGE, planted.gif())


def test_what_is_drawn_stays_and_everything_else_goes() -> None:
    drawn = clean(AnswerKind.SVG, planted.svg()).content.decode()
    assert "Seen &amp; kept" in drawn
    assert drawn.count("<rect") == 2
    assert re.search(r'<linearGradient id="(i\d+)">', drawn)[1] in drawn.split("<style>")[1].split("</style>")[0]  # type: ignore[index]
    assert "data:image/webp;base64," in drawn
    for gone in ("script", "onload", "onclick", "foreignObject", "https:", "<a ", "title", "desc", "metadata", "<!"):
        assert gone not in drawn


def test_a_page_runs_as_before_without_its_comments_and_its_head() -> None:
    page = clean(AnswerKind.HTML, planted.html()).content.decode()
    assert 'const address = "https://example.org/a", pattern = /["\'`]\\/\\*/g, half = 4 / 2 / 1;' in page
    assert '`// kept ${   "}" } /* kept */`' in page
    assert "1 &lt; 2 &amp; seen" in page
    assert '<meta name="viewport"' in page
    assert "a{content:'/*'} b{} c{content:'*/'}" in page  # no comment, though it looks like one
    assert "<p>between</p>" in page
    assert "<textarea><!-- seen --></textarea>" in page
    assert '<b style="color: red;  " onclick="go() ">' in page
    for gone in ("<title", "generator", "author", "refresh", "<base", "<link", "og:title", "noscript"):
        assert gone not in page
    assert page.count("<!--") == 1


def test_a_build_has_only_its_palette_and_its_blocks() -> None:
    assert msgspec.json.decode(clean(AnswerKind.VOXEL, planted.voxel()).content) == {
        "palette": ["#ff0000", "#00ff0080"],
        "blocks": [[0, 0, 0, 0], [1, 0, 0, 1]],
        "boxes": [[0, 1, 0, 2, 3, 4, 0]],
    }


def test_a_model_has_only_what_is_drawn() -> None:
    made = clean(AnswerKind.MODEL3D, planted.glb()).content
    length = struct.unpack_from("<I", made, 12)[0]
    model, body = msgspec.json.decode(made[20 : 20 + length]), made[28 + length :]
    assert model["asset"] == {"version": "2.0"}
    assert model["nodes"] == [{"translation": [0, 1, 0], "mesh": 0}]
    assert set(model["meshes"][0]["primitives"][0]["attributes"]) == {"POSITION"}
    assert set(model["meshes"][0]["primitives"][0]) == {"attributes", "indices", "material", "mode"}
    assert set(model) == {
        *("accessors", "asset", "bufferViews", "buffers", "images", "materials", "meshes", "nodes", "scene", "scenes"),
        "textures",
    }
    points = model["bufferViews"][model["accessors"][0]["bufferView"]]
    assert struct.unpack_from("<9f", body, points["byteOffset"]) == (0, 0, 0, 1, 0, 0, 0, 1, 0)
    assert body[model["bufferViews"][model["images"][0]["bufferView"]]["byteOffset"] :][:4] == b"\x89PNG"
    assert struct.unpack_from("<I", made, 8)[0] == len(made)


@pytest.mark.parametrize(("kind", "suffix"), planted_streams.PLACES)
def test_a_name_in_any_place_of_a_sound_or_a_film_changes_no_byte_of_what_is_shown(kind: str, suffix: str) -> None:
    given_ = planted_streams.plain(kind, suffix)
    shown = clean(AnswerKind(kind), given_).content
    for place, plant in planted_streams.PLACES[kind, suffix].items():
        named = plant(given_)
        assert PLANTED in named or planted_streams.WIDE in named, place
        assert clean(AnswerKind(kind), named).content == shown, place


def _decoded(data: bytes) -> dict[str, list[Any]]:
    with av.open(io.BytesIO(data), "r") as file:
        found: dict[str, list[Any]] = {stream.type: [] for stream in file.streams}
        for packet in file.demux():
            found[packet.stream.type] += packet.decode()
    return found


def test_a_sound_keeps_every_sample_and_a_film_its_pictures_and_its_sound() -> None:
    given_ = planted_streams.plain("audio", "wav")
    made = clean(AnswerKind.AUDIO, given_)
    with wave.open(io.BytesIO(given_)) as sound:
        samples = sound.readframes(sound.getnframes())
    assert b"".join(frame.to_ndarray().tobytes() for frame in _decoded(made.content)["audio"]) == samples
    assert made.media_type == "audio/flac"
    for suffix in ("mp4", "webm"):
        film = clean(AnswerKind.VIDEO, planted_streams.plain("video", suffix))
        assert film.media_type == "video/webm"
        found = _decoded(film.content)
        assert [round(frame.time, 3) for frame in found["video"]] == [0, 0.1, 0.2]
        assert sum(frame.samples for frame in found["audio"]) == pytest.approx(14_400, abs=1100)  # 0.3 s, and padding
        seen = found["video"][2].to_ndarray(format="rgb24")
        assert seen.shape == (48, 64, 3)
        assert np.abs(seen[24, [4, 60]].astype(int) - [(30, 160, 60), (200, 200, 200)]).max() < 12


def test_a_film_that_was_taken_sideways_is_turned_upright() -> None:
    film = planted_streams.encoded("mp4", "libx264", turned=-90)
    seen = _decoded(clean(AnswerKind.VIDEO, film).content)["video"][2]
    pixels = seen.to_ndarray(format="rgb24").astype(int)
    assert (seen.width, seen.height, seen.rotation) == (48, 64, 0)
    assert np.abs(pixels[[4, 60], 24] - [(30, 160, 60), (200, 200, 200)]).max() < 12  # what was left is on top


@pytest.mark.parametrize("rate", [8_000, 22_050, 24_000, 44_100, 48_000, 96_000])
def test_every_sound_leaves_with_one_sample_rate_and_sounds_as_it_did(rate: int) -> None:
    tone = 9000 * np.sin(np.arange(rate) * 2 * np.pi * 440 / rate)
    out = io.BytesIO()
    with wave.open(out, "wb") as sound:
        sound.setnchannels(1)
        sound.setsampwidth(2)
        sound.setframerate(rate)
        sound.writeframes(tone.astype("<i2").tobytes())
    with av.open(io.BytesIO(clean(AnswerKind.AUDIO, out.getvalue()).content), "r") as made:
        frames = list(made.decode(audio=0))
    heard = np.concatenate([frame.to_ndarray()[0] for frame in frames])
    assert {frame.sample_rate for frame in frames} == {48_000}
    assert abs(len(heard) - 48_000) < 100, "as long as it was"
    assert np.abs(np.fft.rfft(heard[:48_000])).argmax() in (439, 440, 441), "as high as it was"


def test_sound_and_film_without_end_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "LONGEST_SECONDS", 0.2)
    with pytest.raises(BankError, match="is longer than"):
        clean(AnswerKind.AUDIO, planted_streams.plain("audio", "ogg"))
    monkeypatch.undo()
    monkeypatch.setattr(streams, "MOST_PICTURES", 2)
    with pytest.raises(BankError, match="is longer than"):
        clean(AnswerKind.VIDEO, planted_streams.plain("video", "webm"))
    monkeypatch.setattr(streams, "MOST_PIXELS_OF_FILM", 2 * 64 * 48)
    with pytest.raises(BankError, match="in all its pictures"):
        clean(AnswerKind.VIDEO, planted_streams.plain("video", "webm"))
    monkeypatch.setattr(streams, "MOST_PIXELS", 64 * 47)
    with pytest.raises(BankError, match="has more than 3,008 pixels"):
        clean(AnswerKind.VIDEO, planted_streams.plain("video", "mp4"))


def test_sound_without_the_extra_is_one_line_that_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "av", None)
    with pytest.raises(MissingExtra, match=r"^an answer of sound or film needs the \[media\] extra"):
        clean(AnswerKind.AUDIO, b"RIFF\0\0\0\0WAVE")


REFUSED = {
    "empty": ("image", b"", "is empty"),
    "another kind": ("audio", planted.png(), "declared as audio, but its bytes are PNG, which is image"),
    "a page as a drawing": ("svg", b"<html><p>x</p></html>", "declared as svg, but its bytes are HTML"),
    "a bomb": ("image", planted.bomb(), "pixels"),
    "half a picture": ("image", planted.png()[:60], "cannot be read as a picture"),
    "an executable": ("html", b"MZ\0\0" * 20, "nothing else can be cleaned"),
    "words": ("html", b"just words", "nothing else can be cleaned"),
    "a PDF": ("image", b"%PDF-1.7 \xff\xff", "nothing else can be cleaned"),
    "entities": (
        "svg",
        b'<!DOCTYPE svg [<!ENTITY a "b">]><svg xmlns="http://www.w3.org/2000/svg">&a;</svg>',
        "document type",
    ),
    "deep": ("svg", b"<svg>" + b"<g>" * 300, "inside each other"),
    "imported styles": ("svg", b"<svg><style>@import 'https://example.org/a.css';</style></svg>", "load or run"),
    "escaped styles": ("svg", rb"<svg><style>a{fill:\75rl(https://example.org)}</style></svg>", "address"),
    "Latin-1": ("html", b"<p>caf\xe9</p>", "not UTF-8"),
    "an open comment": ("html", b"<p>x</p><!-- secret", "does not end"),
    "an open title": ("html", b"<title>secret<p>x</p>", "does not end"),
    "no blocks": ("voxel", b'{"palette":["#ff0000"],"blocks":[]}', "has no blocks"),
    "a wrong colour": ("voxel", b'{"palette":["#ff0000"],"blocks":[[0,0,0,1]]}', "colour 1"),
    "too wide": ("voxel", b'{"palette":["#ff0000"],"blocks":[[0,0,0,0],[5000,0,0,0]]}', "wider than"),
    "a huge box": ("voxel", b'{"palette":["#ff0000"],"boxes":[[0,0,0,900,900,900,0]]}', "blocks"),
    "half a model": ("model3d", planted.glb()[:40], "cut off"),
    "sound as a film": ("video", planted_streams.plain("audio", "m4a"), "its bytes are MP4, which is audio"),
    "half a film": ("video", planted_streams.plain("video", "mp4")[:200], "cannot be played as MP4"),
    "half a WebM": ("video", planted_streams.plain("video", "webm")[:120], "cannot be played as WebM"),
    "sound without sound": ("audio", b"ID3\x03\0\0\0\0\0\0" + bytes(50), "cannot be played as MP3"),
    "a lost tag": ("audio", b"ID3\x03", "cannot be played as MP3"),
    "another codec": ("audio", planted_streams.encoded("wav", "", "adpcm_ms"), "compressed by adpcm_ms"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_cleaned_is_refused_in_one_line(name: str) -> None:
    kind, data, said = REFUSED[name]
    with pytest.raises(BankError, match=re.escape(said)) as error:
        clean(AnswerKind(kind), data)
    assert "\n" not in str(error.value)


@given(st.sampled_from(sorted(FILES)), st.data())
def test_a_damaged_file_is_cleaned_or_refused_and_never_a_crash(which: tuple[str, str], data: st.DataObject) -> None:
    content = bytearray(_made(which))
    for _ in range(data.draw(st.integers(1, 6))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    content = content[: data.draw(st.integers(0, len(content)))]
    with contextlib.suppress(BankError):
        assert clean(AnswerKind(which[0]), bytes(content)).content


_KEPT: dict[tuple[str, str], bytes] = {}


def _made(which: tuple[str, str]) -> bytes:
    return _KEPT.setdefault(which, FILES[which]())


@pytest.mark.parametrize(
    ("code", "plain"),
    [
        ("a = b / c; // d", "a = b / c; "),
        ("x = /a\\/\\/b/.test(y) // z\nw", "x = /a\\/\\/b/.test(y) \nw"),
        ("return /[/*]/g /* c */", "return /[/*]/g  "),
        ("s = \"// no\" + '/* no */'", "s = \"// no\" + '/* no */'"),
        ("t = `${`// ${1 /* c */}`}`", "t = `${`// ${1  }`}`"),
        ("a /* \n */ b", "a \n b"),
        ("s = 'does not end // x\n  // gone\n/* too */ y", "s = 'does not end // x\n\n y"),
        ("a++ /2; // it's gone", "a++ /2; "),
        ("1./2 // it's gone", "1./2 "),
        ("a.if / 2 // it's gone", "a.if / 2 "),
        ("if (a) {} /'/.test(c); /* gone */", "if (a) {} /'/.test(c);  "),
        ("if (a) /'/.test(c); // gone", "if (a) /'/.test(c); "),
        ("o = {a: 1} / 2 // it's gone", "o = {a: 1} / 2 "),
        ("/'/.test(a) // gone", "/'/.test(a) "),
        ("<!-- gone\nx\n  --> gone\nwhile (n --> 0) y", "\nx\n  \nwhile (n --> 0) y"),
    ],
)
def test_comments_of_scripts_go_and_nothing_else(code: str, plain: str) -> None:
    assert without_comments(code) == plain


def test_comments_of_styles_go_and_texts_that_look_like_one_stay() -> None:
    css = "a{content:'/*'} /* gone */ b{} c{content:\"*/\"} d{background:url(a/*b)} e{f:'x\n/* gone */}"
    assert without_css_comments(css) == "a{content:'/*'}   b{} c{content:\"*/\"} d{background:url(a/*b)} e{f:'x\n }"


@pytest.mark.parametrize(
    ("kind", "text", "found"),
    [
        ("svg", '<svg xmlns="http://www.w3.org/2000/svg"><g style="' + "url(" * 60_000 + '"/></svg>', "an address"),
        ("svg", '<svg xmlns="http://www.w3.org/2000/svg"><g style="url(' + " " * 200_000 + '"/></svg>', "an address"),
        ("html", "<script>" + "=/[" * 30_000 + "</script>", r"(=/\[){30000}"),
        ("html", "<p>" + "data:image/png;;;;;;;" * 30_000 + "</p>", "(data:image/png;{7}){30000}"),
        ("html", "<script>" + "`${" * 100_000 + "</script>", "nested too deeply"),
        ("html", "<script>'\n" + "/*\n" * 200_000 + "</script>", "<script>'\n</script>"),
    ],
)
def test_text_that_was_written_to_take_long_is_cleaned_or_refused_soon(kind: str, text: str, found: str) -> None:
    try:
        said = clean(AnswerKind(kind), text.encode()).words
    except BankError as error:
        said = str(error)
    assert re.search(found, said)


def test_a_model_whose_parts_are_inside_several_others_is_refused() -> None:
    nodes = [{}, *({"children": [n, n]} for n in range(60))]
    text = msgspec.json.encode({"asset": {"version": "2.0"}, "scenes": [{"nodes": [60]}], "nodes": nodes})
    text += b" " * (-len(text) % 4)
    data = struct.pack("<IIIII", 0x46546C67, 2, 20 + len(text), len(text), 0x4E4F534A) + text
    with pytest.raises(BankError, match="inside several others"):
        clean(AnswerKind.MODEL3D, data)


def _glb(model: dict[str, Any], body: bytes) -> bytes:
    text = msgspec.json.encode({"asset": {"version": "2.0"}, "scenes": [{"nodes": [0]}], **model})
    text += b" " * (-len(text) % 4)
    chunks = struct.pack("<II", len(text), 0x4E4F534A) + text + struct.pack("<II", len(body), 0x004E4942) + body
    return struct.pack("<III", 0x46546C67, 2, 12 + len(chunks)) + chunks


def test_a_model_that_reads_or_draws_the_same_again_and_again_is_refused() -> None:
    body = bytes(120_000)
    row = {"bufferView": 0, "componentType": 5126, "count": 10_000, "type": "VEC3"}
    model = {
        "buffers": [{"byteLength": len(body)}],
        "bufferViews": [{"buffer": 0, "byteLength": len(body)}],
        "accessors": [row] * 300,
    }
    parts = [{"attributes": {"POSITION": place}} for place in range(300)]
    read = _glb({**model, "nodes": [{"mesh": 0}], "meshes": [{"primitives": parts}]}, body)
    with pytest.raises(BankError, match="reads the same bytes again and again"):
        clean(AnswerKind.MODEL3D, read)
    nodes = [{"children": list(range(1, 2100))}, *({"mesh": 0} for _ in range(2099))]
    drawn = _glb({**model, "nodes": nodes, "meshes": [{"primitives": parts[:1]}]}, body)
    with pytest.raises(BankError, match="draws more than 6,666,666 triangles"):
        clean(AnswerKind.MODEL3D, drawn)
    lines = {"primitives": [{**parts[0], "mode": 1}]}
    with pytest.raises(BankError, match="no triangles"):
        clean(AnswerKind.MODEL3D, _glb({**model, "nodes": [{"mesh": 0}], "meshes": [lines]}, body))


def test_addresses_of_pictures_that_a_script_puts_together_stay() -> None:
    code = b"<script>x = c.toDataURL().replace('data:image/png;base64,', '') + 'data:image/png;base64,' + b</script>"
    assert code in clean(AnswerKind.HTML, b"<p>a</p>" + code).content


@pytest.mark.parametrize(
    "page",
    [
        "<p data-by=Zyxwolf-7>a</p>",
        "<p data-Zyxwolf-7>a</p>",
        "<Zyxwolf-7-game></Zyxwolf-7-game>",
        "<script>for(i=0;i<n;i++){log('made by Zyxwolf 7')} if(x>3) y()</script>",
        "<p>Zyx<b>wolf</b> 7</p>",
        "<p>Zyx&shy;wolf 7</p>",
        "<iframe srcdoc='<!-- Zyxwolf 7 -->'></iframe>",
        "<style>.\\5a yxwolf-7 { color: red }</style>",
        "<img src='data:image/svg+xml;utf8,%5Ayxwolf 7'>",
    ],
)
def test_a_page_that_names_its_model_anywhere_is_held(page: str) -> None:
    model = ModelAdded(model="zyxwolf-7", display_name="Zyxwolf 7", provider="", licence="", link="")
    words = words_of(clean(AnswerKind.HTML, page.encode()).words)
    assert [(flag.response_id, flag.held) for flag in flag_answers([("r", model, "", words)])] == [("r", True)]


TYPED: dict[str, Any] = {
    "version": "1.0",
    "boxes": [{"x1": 10, "y1": 5, "z1": 10, "x2": 12, "y2": 5, "z2": 11, "type": "minecraft:Stone"}],
    "lines": [{"from": {"x": 10, "y": 6, "z": 10}, "to": {"x": 13, "y": 8, "z": 10}, "type": "oak-log"}],
    "blocks": [{"x": 10, "y": 6, "z": 10, "type": "glass"}, {"x": 900, "y": 0, "z": 0, "type": "air"}],
    "author": "Zyxwolf",
}


def test_a_build_of_minebench_becomes_one_of_colours_with_its_lines_and_last_blocks_in_order() -> None:
    made = msgspec.json.decode(clean(AnswerKind.VOXEL, msgspec.json.encode(TYPED)).content)
    stone, log, glass = (made["palette"].index(block_colour(kind)) for kind in ("stone", "oak_log", "glass"))
    assert made == {
        "palette": made["palette"],
        "boxes": [[0, 0, 0, 2, 0, 1, stone]],
        "blocks": [[0, 1, 0, log], [1, 2, 0, log], [2, 2, 0, log], [3, 3, 0, log], [0, 1, 0, glass]],
    }


def test_kinds_of_blocks_have_colours_by_their_words_and_the_unknown_is_grey() -> None:
    assert block_colour("light_blue_wool") == block_colour("Light Blue Concrete") != block_colour("blue_wool")
    assert block_colour("red_sandstone") not in (block_colour("red_wool"), block_colour("sandstone"))
    assert block_colour("oak_leaves[persistent=true]") == block_colour("dark_oak_leaves") != block_colour("oak_planks")
    assert len(block_colour("red_stained_glass")) == len("#rrggbbaa")
    assert block_colour("plutonium") == block_colour("") == UNKNOWN
    assert block_colour("minecraft:air") == ""


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"boxes": [TYPED["boxes"][0], {"x1": 1}]}, r"missing required field `y1` - at `\$\.boxes\[1\]`"),
        ({"blocks": [{"x": "3", "y": 0, "z": 0, "type": "stone"}]}, r"got `str` - at `\$\.blocks\[0\]\.x`"),
        ({"lines": [{"from": [0, 0, 0], "to": {}, "type": "stone"}]}, r"at `\$\.lines\[0\]\.from`"),
        ({"boxes": [{**TYPED["boxes"][0], "x2": 900, "y2": 900, "z2": 900}]}, "blocks; a build has 1 to 1,000,000"),
        ({"lines": [{**TYPED["lines"][0], "to": {"x": 10**12, "y": 0, "z": 0}}]}, "blocks; a build has 1 to 1,000,000"),
        ({"lines": [{**TYPED["lines"][0], "to": {"x": 2000, "y": 0, "z": 0}}]}, "wider than 1,000 blocks"),
        ({"boxes": [], "lines": [], "blocks": []}, "has no blocks"),
        ({"boxes": [], "lines": [], "blocks": [{"x": 0, "y": 0, "z": 0, "type": "air"}]}, "has no blocks"),
    ],
)
def test_a_malformed_build_is_refused_with_the_place_of_what_is_wrong(change: dict[str, Any], reason: str) -> None:
    with pytest.raises(BankError, match=reason):
        clean(AnswerKind.VOXEL, msgspec.json.encode({**TYPED, **change}))
    with pytest.raises(BankError, match="it has no `blocks`, `boxes` or `lines`"):
        clean(AnswerKind.VOXEL, b'{"tool": "voxel.exec"}')


def test_formats_are_known_by_their_bytes() -> None:
    found = {suffix: format_of(make()) for (_, suffix), make in FILES.items()}
    assert list(found.values()) == [
        *("PNG", "JPEG", "GIF", "WebP", "SVG", "HTML", "JSON", "glTF"),
        *("MP3", "WAV", "FLAC", "Ogg", "MP4", "MP4", "WebM"),
    ]
