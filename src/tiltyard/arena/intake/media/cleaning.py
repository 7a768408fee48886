"""A file cleaned by its kind."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from tiltyard.arena.intake.media.images import WEBP, clean_image, one_file
from tiltyard.arena.intake.media.markup import clean_html, clean_svg
from tiltyard.arena.intake.media.shapes import clean_glb, clean_voxel
from tiltyard.arena.intake.media.streams import FLAC, READERS, WEBM, clean_stream
from tiltyard.data.bank import AnswerKind
from tiltyard.errors import BankError


class Cleaned(NamedTuple):
    """A file as voters are shown it, what it is, and the words in it."""

    content: bytes
    media_type: str
    words: str = ""


PLAIN: dict[str, tuple[AnswerKind, Callable[[bytes], bytes], str]] = {
    **dict.fromkeys(("PNG", "JPEG", "GIF", "WebP"), (AnswerKind.IMAGE, clean_image, WEBP)),
    "SVG": (AnswerKind.SVG, clean_svg, "image/svg+xml"),
    "HTML": (AnswerKind.HTML, clean_html, "text/html; charset=utf-8"),
    "JSON": (AnswerKind.VOXEL, clean_voxel, "application/json"),
    "glTF": (AnswerKind.MODEL3D, clean_glb, "model/gltf-binary"),
}
"""Formats that are no streams: the kind that each is, how it is cleaned, and its media type."""

USUAL = {
    AnswerKind.IMAGE: "PNG, JPEG, GIF or WebP",
    AnswerKind.SVG: "SVG",
    AnswerKind.HTML: "a page of HTML in one file",
    AnswerKind.VOXEL: "JSON with a palette and blocks",
    AnswerKind.MODEL3D: "binary glTF (.glb)",
    AnswerKind.AUDIO: "MP3, WAV, FLAC, Ogg, M4A or WebM",
    AnswerKind.VIDEO: "MP4 or WebM",
}


def clean(kind: AnswerKind, data: bytes) -> Cleaned:
    """An answer of a declared kind, cleaned. An error says what is wrong with the file, to be read after its name."""
    if not data:
        raise BankError("is empty. Leave the answer out, or give the whole file.")
    try:
        with one_file():
            return _cleaned(kind, data)
    except RecursionError:
        raise BankError("is nested too deeply to be cleaned. Simplify it.") from None


def _cleaned(kind: AnswerKind, data: bytes) -> Cleaned:
    result = format_of(data)
    if result in READERS:
        made, moves = clean_stream(data, result)
        real, media_type = (AnswerKind.VIDEO, WEBM) if moves else (AnswerKind.AUDIO, FLAC)
    elif result in PLAIN:
        real, plain, media_type = PLAIN[result]
        made = plain(data) if real == kind else b""
    else:
        raise BankError(f"is not {USUAL[kind]}, and nothing else can be cleaned. Convert it.")
    if real != kind:
        raise BankError(
            f"is declared as {kind}, but its bytes are {result}, which is {real}. Correct `kind` or the file."
        )
    words = made.decode("utf-8", "replace") if kind in (AnswerKind.SVG, AnswerKind.HTML) else ""
    return Cleaned(made, media_type, words)


_STARTS = (
    (b"\x89PNG\r\n\x1a\n", "PNG"),
    (b"\xff\xd8\xff", "JPEG"),
    (b"GIF8", "GIF"),
    (b"glTF", "glTF"),
    (b"OggS", "Ogg"),
    (b"fLaC", "FLAC"),
    (b"\x1a\x45\xdf\xa3", "WebM"),
)
_MARKUP_BEFORE = re.compile(
    rb"\A(?:\xef\xbb\xbf)?(?:\s+|<\?.*?\?>|<!--.*?-->|<!DOCTYPE[^>\[]*(?:\[.*?\]\s*)?>)*", re.DOTALL | re.IGNORECASE
)
_TAG = re.compile(rb"<[A-Za-z]")
_MPEG_FRAME = re.compile(rb"\xff[\xe0-\xe7\xf0-\xff][\x10-\xef]")


def format_of(data: bytes) -> str:
    """The format of a file by its bytes; empty if it is none of those that can be cleaned."""
    if data[:4] == b"RIFF":
        return {b"WEBP": "WebP", b"WAVE": "WAV"}.get(data[8:12], "")
    if data[4:8] == b"ftyp":
        return "MP4"
    for start, name in _STARTS:
        if data.startswith(start):
            return name
    if data.startswith(b"ID3"):
        size = sum((byte & 0x7F) << shift for byte, shift in zip(data[6:10], (21, 14, 7, 0), strict=False))
        return "FLAC" if data[10 + size : 14 + size] == b"fLaC" else "MP3"
    if _MPEG_FRAME.match(data) and data[1] & 6 and data[2] & 12 != 12:
        return "MP3"
    if b"\0" in data[:4096]:
        return ""
    begun = _MARKUP_BEFORE.match(data[:100_000])
    rest = data[begun.end() if begun else 0 :].lstrip()
    if rest[:4].lower() == b"<svg" or re.match(rb"<[\w]+:svg[\s>]", rest):
        return "SVG"
    if rest[:1] in (b"{", b"["):
        return "JSON"
    return "HTML" if _TAG.search(rest[:100_000]) else ""
