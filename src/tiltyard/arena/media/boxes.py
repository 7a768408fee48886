"""MP4 and WebM, in which everything that says something is blanked in place: what is played stays where it is."""

from __future__ import annotations

import re
import struct

from tiltyard.errors import BankError

PRINTABLE = 40
"""So many letters in a row do not happen in compressed pictures and sound: an encoder wrote about itself."""

_RUN = re.compile(rb"[ -~]{%d,}" % PRINTABLE)
_X264 = re.compile(rb"\xdc\x45\xe9\xbd\xe6\xd9\x48\xb7\x96\x2c\xd8\x20\xd9\x23\xee\xef([ -~]*)")
"""The mark of the note that the usual H.264 encoder leaves in its stream."""

# --- MP4 -------------------------------------------------------------------------------------------------------------

_INSIDE = frozenset({b"moov", b"trak", b"mdia", b"minf", b"stbl", b"edts", b"dinf", b"mvex", b"moof", b"traf", b"mfra"})
_PLAYED = frozenset(
    b"ftyp styp mdat sidx mvhd tkhd mdhd hdlr vmhd smhd elst dref stsd stts ctts cslg stss stsc stsz stz2 stco co64 "
    b"sgpd sbgp sdtp mehd trex mfhd tfhd tfdt trun mfro tfra prft ssix leva".split()
)
SOUND, PICTURE = b"soun", b"vide"


def clean_mp4(data: bytes) -> tuple[bytes, bool]:
    """The file without words, and whether it has a moving picture."""
    out = bytearray(data)
    handlers: list[bytes] = []
    try:
        _boxes(out, 0, len(out), handlers, 0)
    except (struct.error, IndexError):
        raise _cut_off("MP4") from None
    if not handlers or set(handlers) - {SOUND, PICTURE}:
        raise BankError("has a track that is neither picture nor sound (subtitles, chapters). Take it out.")
    return bytes(out), PICTURE in handlers


def _boxes(out: bytearray, at: int, end: int, handlers: list[bytes], depth: int) -> None:
    while at < end:
        size, name = struct.unpack_from(">I4s", out, at)
        head = 8
        if size == 1:
            size, head = struct.unpack_from(">Q", out, at + 8)[0], 16
        elif size == 0:
            size = end - at
        if size < head or at + size > end or depth > 12:
            raise _cut_off("MP4")
        inside, stop = at + head, at + size
        if name in _INSIDE:
            _boxes(out, inside, stop, handlers, depth + 1)
        elif name in _PLAYED:
            _plain_box(out, name, inside, stop, handlers)
        else:
            out[at + 4 : at + 8] = b"free"
            out[inside:stop] = bytes(stop - inside)
        at = stop


def _plain_box(out: bytearray, name: bytes, start: int, end: int, handlers: list[bytes]) -> None:
    """Blank what a box says besides what a player needs."""
    if name in (b"mvhd", b"tkhd", b"mdhd"):
        times = 16 if out[start] == 1 else 8
        out[start + 4 : start + 4 + times] = bytes(times)
        if name == b"mdhd":
            out[end - 4 : end - 2] = b"\x55\xc4"  # the language "und"
    elif name == b"hdlr":
        handlers.append(bytes(out[start + 8 : start + 12]))
        out[start + 24 : end] = bytes(end - start - 24)
    elif name == b"stsd":
        _descriptions(out, start + 8, end)
    elif name == b"dref" and b"://" in out[start:end]:
        raise BankError("keeps its data in other files. Save it as one file.")
    elif name == b"mdat":
        out[start:end] = _without_words(bytes(out[start:end]))


def _descriptions(out: bytearray, at: int, end: int) -> None:
    """Blank the name of the compressor in every description of a picture."""
    while at + 8 <= end:
        size, kind = struct.unpack_from(">I4s", out, at)
        if size < 8 or at + size > end:
            raise _cut_off("MP4")
        if kind in (b"avc1", b"avc3", b"hvc1", b"hev1", b"av01", b"vp09", b"vp08", b"mp4v") and size >= 86:
            out[at + 50 : at + 82] = bytes(32)
        at += size


def _without_words(data: bytes) -> bytes:
    """Compressed data without what encoders write about themselves; spaces keep every length and every mark."""
    data = _X264.sub(lambda found: found[0][:16] + b" " * len(found[1]), data)
    return _RUN.sub(lambda found: b" " * len(found[0]), data)


# --- WebM ------------------------------------------------------------------------------------------------------------

_EBML, _SEGMENT, _INFO, _TRACKS, _TRACK, _CLUSTER, _GROUP = (
    *(0x1A45DFA3, 0x18538067, 0x1549A966, 0x1654AE6B, 0xAE, 0x1F43B675, 0xA0),
)
_NESTED = frozenset({_SEGMENT, _INFO, _TRACKS, _TRACK, _CLUSTER, _GROUP})
_VOIDED = frozenset(
    {
        *(0x1254C367, 0x1941A469, 0x1043A770, 0x7BA9, 0x4461, 0x73A4, 0x7384, 0x3CB923, 0x3C83AB, 0x3EB923, 0x3E83BB),
        *(0x4444, 0x6924, 0x536E, 0x258688, 0x7446, 0xEC, 0xBF, 0x75A1),
    }
)
"""Tags, attachments, chapters, title, date, identifiers, file names, names of tracks and codecs, padding, additions."""
_BLANKED = frozenset({0x4D80, 0x5741})
"""The programs that wrote it; a file without them is not valid."""
_BLOCKS = frozenset({0xA3, 0xA1})
_TYPE, _VIDEO, _AUDIO = 0x83, 1, 2


def clean_webm(data: bytes) -> tuple[bytes, bool]:
    """The file without words, and whether it has a moving picture."""
    out = bytearray(data)
    tracks: list[int] = []
    try:
        _elements(out, 0, len(out), tracks, 0)
    except IndexError:
        raise _cut_off("WebM") from None
    if not tracks or set(tracks) - {_VIDEO, _AUDIO}:
        raise BankError("has a track that is neither picture nor sound (subtitles). Take it out.")
    return bytes(out), _VIDEO in tracks


def _elements(out: bytearray, at: int, end: int, tracks: list[int], depth: int) -> None:
    while at < end:
        begin = at
        name, at = _number(out, at, keep_mark=True)
        size, at = _number(out, at, keep_mark=False)
        stop = end if size < 0 else at + size
        if stop > end or depth > 8:
            raise _cut_off("WebM")
        if name in _NESTED:
            _elements(out, at, stop, tracks, depth + 1)
        elif name in _VOIDED:
            _void(out, begin, stop)
        elif name in _BLANKED:
            out[at:stop] = b" " * (stop - at)
        elif name == _TYPE:
            tracks.append(out[stop - 1])
        elif name in _BLOCKS:
            out[at:stop] = _without_words(bytes(out[at:stop]))
        at = stop


def _void(out: bytearray, begin: int, stop: int) -> None:
    """Turn an element into padding of the same length."""
    length = stop - begin
    if length < 9:
        out[begin:stop] = bytes([0xEC, 0x80 | (length - 2)]) + bytes(length - 2)
    else:
        out[begin:stop] = bytes([0xEC, 0x01]) + (length - 9).to_bytes(7, "big") + bytes(length - 9)


def _number(out: bytearray, at: int, *, keep_mark: bool) -> tuple[int, int]:
    """A number whose first bit tells its length, and where it ends; -1: the size is not known."""
    first = out[at]
    length = 9 - first.bit_length() if first else 9
    if length > 8 or at + length > len(out):
        raise _cut_off("WebM")
    value = int.from_bytes(out[at : at + length], "big")
    if keep_mark:
        return value, at + length
    value &= (1 << 7 * length) - 1
    return (-1 if value == (1 << 7 * length) - 1 else value), at + length


def _cut_off(what: str) -> BankError:
    return BankError(f"is not a whole {what} file. Save it again.")
