"""Sounds and films with a name in every place that was found to keep one: tags, reserved bytes, gaps, codecs' notes.

Plain files are encoded here; each planter takes the bytes of one and gives them back with the name in one more place.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Callable
from fractions import Fraction
from functools import cache, reduce
from typing import Any

import av
import numpy as np
from av.audio.fifo import AudioFifo
from PIL import Image

PLANTED = b"Zyxwolf"
WIDE = "Zyxwolf".encode("utf-16")

RATE = 48_000


@cache
def encoded(container: str, film: str = "", sound: str = "", seconds: float = 0.3, turned: int = 0) -> bytes:
    """A tone, and a bar that moves, as a file of this format."""
    out = io.BytesIO()
    with av.open(out, "w", format=container) as made:
        pictures: Any = made.add_stream(film, rate=10) if film else None
        tone: Any = made.add_stream(sound, rate=RATE, layout="stereo", options={"strict": "-2"}) if sound else None
        if pictures is not None:
            pictures.width, pictures.height, pictures.pix_fmt = 64, 48, "yuv420p"
            if turned:
                pictures.set_display_rotation(turned)
            for place in range(round(seconds * 10)):
                pixels = np.full((48, 64, 3), 200, np.uint8)
                pixels[:, : place * 8] = (30, 160, 60)
                frame = av.VideoFrame.from_ndarray(pixels)
                frame.pts, frame.time_base = place, Fraction(1, 10)
                made.mux(pictures.encode(frame))
            made.mux(pictures.encode(None))
        if tone is not None:
            for part in _tone(tone, seconds):
                made.mux(tone.encode(part))
    return out.getvalue()


def _tone(stream: av.AudioStream, seconds: float) -> list[av.AudioFrame | None]:
    samples = (9000 * np.sin(np.arange(round(seconds * RATE)) * 0.06)).astype(np.int16)
    given = av.AudioFrame.from_ndarray(np.repeat(samples, 2)[None], "s16", "stereo")
    given.sample_rate, given.pts, given.time_base = RATE, 0, Fraction(1, RATE)
    if not stream.codec_context.is_open:
        stream.codec_context.open()
    fifo = AudioFifo()
    for part in av.AudioResampler(stream.codec_context.format, "stereo", RATE).resample(given):
        fifo.write(part)
    frames: list[av.AudioFrame | None] = []
    while piece := fifo.read(stream.codec_context.frame_size or 1024, True):
        frames.append(piece)
    return [*frames, None]


# --- MP4: boxes ------------------------------------------------------------------------------------------------------


def box(name: bytes, *parts: bytes) -> bytes:
    body = b"".join(parts)
    return struct.pack(">I4s", len(body) + 8, name) + body


def into(data: bytes, path: str, change: Callable[[bytes], bytes], skipped: int = 0) -> bytes:
    """The file with the inside of one box changed; the boxes around it grow with it."""
    name, _, rest = path.partition("/")
    at = skipped
    while at < len(data):
        size, found = struct.unpack_from(">I4s", data, at)
        if found == name.encode():
            inside = data[at + 8 : at + size]
            head = {b"stsd": 8, b"avc1": 78, b"mp4a": 28, b"dref": 8}.get(found, 0)
            inside = into(inside, rest, change, head) if rest else change(inside)
            return data[:at] + box(found, inside) + data[at + size :]
        at += size
    raise ValueError(path)


def grown(path: str, more: bytes) -> Callable[[bytes], bytes]:
    return lambda data: into(data, path, lambda inside: inside + more)


def written(path: str, at: int, text: bytes) -> Callable[[bytes], bytes]:
    return lambda data: into(data, path, lambda inside: inside[:at] + text + inside[at + len(text) :])


SAID = box(b"udta", box(b"meta", bytes(4), box(b"ilst", box(b"\xa9too", box(b"data", bytes(8), PLANTED)))))
STBL = "moov/trak/mdia/minf/stbl"
MP4: dict[str, Callable[[bytes], bytes]] = {
    "brands": written("ftyp", 8, PLANTED),
    "reserved bytes of a handler": written("moov/trak/mdia/hdlr", 12, PLANTED),
    "name of a handler": written("moov/trak/mdia/hdlr", 24, PLANTED),
    "a box in a description": grown(f"{STBL}/stsd/avc1", box(b"uuid", bytes(16), PLANTED)),
    "tags in a description": grown(f"{STBL}/stsd/avc1", SAID),
    "name of the compressor": written(f"{STBL}/stsd/avc1", 42, b"\7" + PLANTED),
    "address of the data": grown("moov/trak/mdia/minf/dinf/dref/url ", PLANTED + b"\0"),
    "predefined bytes": written("moov/mvhd", 72, PLANTED),
    "after a table": grown(f"{STBL}/stts", PLANTED),
    "a group": grown(STBL, box(b"sgpd", bytes(4), PLANTED)),
    "a time of the producer": lambda data: data + box(b"prft", bytes(16), PLANTED),
    "free space": lambda data: data + box(b"free", PLANTED),
    "tags": grown("moov", SAID),
    "tags of a track": grown("moov/trak", SAID),
    "unused bytes of the data": grown("mdat", PLANTED),
    "after the end": lambda data: data + box(b"mdat", PLANTED) + box(b"uuid", bytes(16), PLANTED),
}


def x264_note(data: bytes) -> bytes:
    """The note that the usual H.264 encoder leaves in its stream, with a name in it."""
    assert b"x264 - core" in data
    return data.replace(b"x264 - core", PLANTED.ljust(11))


def aac_note(data: bytes) -> bytes:
    """The name of its encoder that a stream of AAC has in its first frame."""
    assert b"Lavc" in data
    return data.replace(data[data.rindex(b"Lavc") :][:7], PLANTED)


# --- WebM: elements --------------------------------------------------------------------------------------------------

NESTED = (0x1A45DFA3, 0x18538067, 0x1549A966, 0x1654AE6B, 0xAE, 0xE0, 0xE1, 0x1F43B675, 0x1C53BB6B)
Tree = list[tuple[int, "bytes | Tree"]]


def element(name: int, body: bytes) -> bytes:
    return name.to_bytes((name.bit_length() + 7) // 8, "big") + (1 << 56 | len(body)).to_bytes(8, "big") + body


def elements(data: bytes) -> Tree:
    made: Tree = []
    at = 0
    while at < len(data):
        length = 9 - data[at].bit_length()
        name, at = int.from_bytes(data[at : at + length], "big"), at + length
        length = 9 - data[at].bit_length()
        size, at = int.from_bytes(data[at : at + length], "big") & ((1 << 7 * length) - 1), at + length
        made.append((name, elements(data[at : at + size]) if name in NESTED else data[at : at + size]))
        at += size
    return made


def joined(tree: Tree) -> bytes:
    return b"".join(element(name, body if isinstance(body, bytes) else joined(body)) for name, body in tree)


def added(parent: int, name: int, body: bytes = PLANTED) -> Callable[[bytes], bytes]:
    """A WebM file with one more element in the first parent of this kind."""

    def grow(tree: Tree) -> Tree:
        return [
            (key, [*grow(inside), *([(name, body)] if key == parent else [])] if isinstance(inside, list) else inside)
            for key, inside in tree
        ]

    return lambda data: joined(grow(elements(data)))


def vorbis_comment(data: bytes) -> bytes:
    """A name as the maker and as the artist in the settings of a Vorbis track."""

    def change(tree: Tree) -> Tree:
        return [
            (key, change(inside) if isinstance(inside, list) else _commented(inside) if key == 0x63A2 else inside)
            for key, inside in tree
        ]

    return joined(change(elements(data)))


def _commented(private: bytes) -> bytes:
    if private[:1] != b"\2":
        return private
    first, at = private[1], 2
    second = 0
    while private[at] == 255:
        second, at = second + 255, at + 1
    second, at = second + private[at], at + 1
    setup = private[at + first + second :]
    comment = b"\3vorbis" + struct.pack("<I", len(PLANTED)) + PLANTED + struct.pack("<I", 1)
    comment += struct.pack("<I", len(PLANTED) + 7) + b"ARTIST=" + PLANTED + b"\1"
    return bytes([2, first, len(comment)]) + private[at : at + first] + comment + setup


SEGMENT, TRACK, VIDEO, CUES, CLUSTER, INFO = 0x18538067, 0xAE, 0xE0, 0x1C53BB6B, 0x1F43B675, 0x1549A966
TAGS = element(0x7373, element(0x67C8, element(0x45A3, b"ARTIST") + element(0x4487, PLANTED)))
WEBM: dict[str, Callable[[bytes], bytes]] = {
    "settings of Vorbis": vorbis_comment,
    "language": added(TRACK, 0x22B59D),
    "name of a track": added(TRACK, 0x536E),
    "name of a codec": added(TRACK, 0x258688),
    "an unknown element": added(SEGMENT, 0x4FFE),
    "a signature": added(SEGMENT, 0x1B538667, element(0x7E8A, PLANTED)),
    "the head": added(0x1A45DFA3, 0x4281, element(0x4283, PLANTED)),
    "padding in a track": added(VIDEO, 0xEC),
    "padding among the cues": added(CUES, 0xEC),
    "an encrypted block": added(CLUSTER, 0xAF),
    "programs": added(INFO, 0x4D80),
    "title": added(INFO, 0x7BA9),
    "tags": added(SEGMENT, 0x1254C367, TAGS),
    "a file inside": added(SEGMENT, 0x1941A469, element(0x61A7, element(0x466E, PLANTED) + element(0x465C, PLANTED))),
    "chapters": added(SEGMENT, 0x1043A770, element(0x45B9, element(0xB6, element(0x80, element(0x85, PLANTED))))),
}


# --- MP3, WAV, FLAC, Ogg ---------------------------------------------------------------------------------------------


def id3(text: bytes = PLANTED, name: bytes = b"TPE1", encoding: bytes = b"\1") -> bytes:
    frame = name + struct.pack(">I", len(text) + 1) + b"\0\0" + encoding + text
    return b"ID3\x03\0\0" + bytes([0, 0, len(frame) >> 7 & 0x7F, len(frame) & 0x7F]) + frame


def cover() -> bytes:
    """A picture as players show it beside a sound."""
    out = io.BytesIO()
    Image.new("RGB", (4, 4)).save(out, "PNG")
    return out.getvalue() + PLANTED


APE = b"APETAGEX" + struct.pack("<IIII", 2000, 60, 1, 0) + bytes(8) + struct.pack("<II", 14, 0) + b"Artist\0" + WIDE
ID3V1 = b"TAG" + PLANTED.ljust(125, b"\0")


def over(found: bytes, skipped: int = 0) -> Callable[[bytes], bytes]:
    """A name in the place of what is found, or so many bytes behind it."""

    def change(data: bytes) -> bytes:
        at = data.index(found) + skipped
        return data[:at] + PLANTED + data[at + len(PLANTED) :]

    return change


MP3: dict[str, Callable[[bytes], bytes]] = {
    "before": lambda data: id3() + data,
    "a cover": lambda data: id3(b"image/png\0\3\0" + cover(), b"APIC", b"\0") + data,
    "an old tag": lambda data: data + ID3V1,
    "an APE tag": lambda data: data + APE + ID3V1,
    "a tag behind": lambda data: data + id3(WIDE),
    "the encoder": over(b"LAME"),
    "free bytes of the first frame": over(b"LAME", 40),
}


def chunk(name: bytes, body: bytes) -> bytes:
    return name + struct.pack("<I", len(body)) + body + b"\0" * (len(body) % 2)


def _format(data: bytes, more: bytes) -> bytes:
    at = data.index(b"fmt ")
    body = data[at + 8 : at + 24] + struct.pack("<H", len(more)) + more
    return data[:at] + chunk(b"fmt ", body) + data[at + 24 :]


WAV: dict[str, Callable[[bytes], bytes]] = {
    "the format": lambda data: _format(data, PLANTED),
    "a fact": lambda data: data[:12] + chunk(b"fact", bytes(4) + PLANTED) + data[12:],
    "tags": lambda data: data + chunk(b"LIST", b"INFO" + chunk(b"IART", PLANTED)) + chunk(b"id3 ", id3()),
    "a tag that is not UTF-8": lambda data: data + chunk(b"LIST", b"INFO" + chunk(b"IART", PLANTED + b"\xff\xfe")),
    "a broadcast": lambda data: data[:12] + chunk(b"bext", PLANTED.ljust(602, b"\0")) + data[12:],
}


def metadata(kind: int, body: bytes) -> Callable[[bytes], bytes]:
    """A FLAC file with one more block of metadata after the first."""
    return lambda data: data[:42] + bytes([kind]) + len(body).to_bytes(3, "big") + body + data[42:]


FLAC: dict[str, Callable[[bytes], bytes]] = {
    "a seek table": metadata(3, PLANTED.ljust(18, b"\0")),
    "a program's block": metadata(2, PLANTED.ljust(8)),
    "padding": metadata(1, PLANTED),
    "a cover": metadata(
        *(6, struct.pack(">II", 3, 9) + b"image/png" + struct.pack(">6I", 0, 4, 4, 24, 0, len(cover())) + cover())
    ),
    "an unknown block": metadata(100, PLANTED),
    "after the end": lambda data: data + APE + ID3V1,
    "the maker": over(b"Lavf"),
    "before": lambda data: id3() + data,
}


def page(data: bytes, at: int) -> int:
    return at + 27 + data[at + 26] + sum(data[at + 27 : at + 27 + data[at + 26]])


def _with_crc(given: bytes) -> bytes:
    made = bytearray(given)
    made[22:26] = bytes(4)
    crc = 0
    for byte in made:
        crc ^= byte << 24
        for _ in range(8):
            crc = (crc << 1 ^ 0x04C11DB7) & 0xFFFFFFFF if crc & 0x80000000 else crc << 1
    made[22:26] = struct.pack("<I", crc)
    return bytes(made)


def opus_head(data: bytes) -> bytes:
    """A name after the settings of Opus."""
    end = page(data, 0)
    first = bytearray(data[:end] + PLANTED)
    first[27] += len(PLANTED)
    return _with_crc(bytes(first)) + data[end:]


def opus_tags(data: bytes) -> bytes:
    """A name in the place of the maker's."""
    start = page(data, 0)
    end = page(data, start)
    return data[:start] + _with_crc(over(b"Lavf")(data[start:end])) + data[end:]


def opus_padding(data: bytes) -> bytes:
    """A name as padding of the last packet of Opus."""
    at = end = 0
    while end < len(data):
        at, end = end, page(data, end)
    last = data[at:end]
    lacing = last[27 : 27 + last[26]]
    before = lacing[:-1].rstrip(b"\xff")
    size = sum(lacing[len(before) :])
    packet = last[-size:]
    assert packet[0] & 3 == 0, "one frame without padding"
    padded = bytes([packet[0] | 3, 0x41, len(PLANTED)]) + packet[1:] + PLANTED
    lacing = before + b"\xff" * (len(padded) // 255) + bytes([len(padded) % 255])
    return data[:at] + _with_crc(last[:26] + bytes([len(lacing)]) + lacing + last[27 + last[26] : -size] + padded)


OGG: dict[str, Callable[[bytes], bytes]] = {
    "after the settings": opus_head,
    "the maker": opus_tags,
    "padding": opus_padding,
}

CODECS = {
    ("audio", "mp3"): ("mp3", "", "libmp3lame"),
    ("audio", "wav"): ("wav", "", "pcm_s16le"),
    ("audio", "flac"): ("flac", "", "flac"),
    ("audio", "ogg"): ("ogg", "", "libopus"),
    ("audio", "m4a"): ("ipod", "", "aac"),
    ("video", "mp4"): ("mp4", "libx264", "aac"),
    ("video", "webm"): ("webm", "libvpx", "vorbis"),
}
"""By kind and suffix: the format, the codec of the pictures and the codec of the sound."""
PLACES: dict[tuple[str, str], dict[str, Callable[[bytes], bytes]]] = {
    ("audio", "mp3"): MP3,
    ("audio", "wav"): WAV,
    ("audio", "flac"): FLAC,
    ("audio", "ogg"): OGG,
    ("audio", "m4a"): {"the encoder": aac_note, "tags": MP4["tags"]},
    ("video", "mp4"): {**MP4, "the encoder": x264_note},
    ("video", "webm"): WEBM,
}
"""The places, and how a name gets there."""


def plain(kind: str, suffix: str) -> bytes:
    """A file without a name."""
    return encoded(*CODECS[kind, suffix])


def everywhere(kind: str, suffix: str) -> bytes:
    """A file with a name in all places at once."""
    return reduce(lambda data, plant: plant(data), PLACES[kind, suffix].values(), plain(kind, suffix))
