"""Sound, cut down to what is heard: MP3, WAV, FLAC and Ogg without tags, pictures and the names of their encoders."""

from __future__ import annotations

import io
import re
import struct
from typing import Any

import mutagen
from mutagen.oggopus import OggOpus
from mutagen.oggvorbis import OggVorbis

from tiltyard.errors import BankError

# --- MP3 -------------------------------------------------------------------------------------------------------------

_BITRATES = {
    (3, 3): (0, 32, 64, 96, 128, 160, 192, 224, 256, 288, 320, 352, 384, 416, 448),
    (3, 2): (0, 32, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384),
    (3, 1): (0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320),
    (2, 3): (0, 32, 48, 56, 64, 80, 96, 112, 128, 144, 160, 176, 192, 224, 256),
    (2, 2): (0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160),
}
"""Kilobits a second by (version 1 or later, layer as its bits); layers II and III of the later versions are alike."""
_RATES = {3: (44_100, 48_000, 32_000), 2: (22_050, 24_000, 16_000), 0: (11_025, 12_000, 8_000)}
_ENCODER = re.compile(rb"(LAME|Lavf|Lavc|GOGO)[ -~]{0,28}")


def clean_mp3(data: bytes) -> bytes:
    """The frames of sound, and nothing before, between or after them; the encoder's name in them is blanked."""
    at = _after_id3(data)
    frames: list[bytes] = []
    while at + 4 <= len(data):
        length = mpeg_frame(data, at)
        if length and (mpeg_frame(data, at + length) or at + length >= len(data) - 4 or frames):
            if at + length > len(data):
                break
            frames.append(data[at : at + length])
            at += length
        else:
            at = data.find(b"\xff", at + 1)
            if at < 0:
                break
    if not frames:
        raise BankError("has no sound in it. Save it again as MP3, WAV, FLAC or Ogg.")
    frames[0] = _ENCODER.sub(lambda found: b"\0" * len(found[0]), frames[0])
    return re.sub(rb"LAME3\.[0-9.]{1,6}", lambda found: b"U" * len(found[0]), b"".join(frames))


def mpeg_frame(data: bytes, at: int) -> int:
    """The length of the MPEG frame that begins here; 0 if none does."""
    if at + 4 > len(data) or data[at] != 0xFF or data[at + 1] & 0xE0 != 0xE0:
        return 0
    version, layer = data[at + 1] >> 3 & 3, data[at + 1] >> 1 & 3
    rate_bits, sample_bits, padding = data[at + 2] >> 4, data[at + 2] >> 2 & 3, data[at + 2] >> 1 & 1
    if version == 1 or layer == 0 or rate_bits in (0, 15) or sample_bits == 3:
        return 0
    bits = _BITRATES[3, layer] if version == 3 else _BITRATES[2, 3 if layer == 3 else 2]
    bitrate, rate = bits[rate_bits] * 1000, _RATES[version][sample_bits]
    if layer == 3:
        return (12 * bitrate // rate + padding) * 4
    samples = 72 if layer == 1 and version != 3 else 144
    return samples * bitrate // rate + padding


def _after_id3(data: bytes) -> int:
    at = 0
    while data[at : at + 3] == b"ID3" and at + 10 <= len(data):
        size = sum((byte & 0x7F) << shift for byte, shift in zip(data[at + 6 : at + 10], (21, 14, 7, 0), strict=True))
        at += 10 + size + (10 if data[at + 5] & 0x10 else 0)
    return at


# --- WAV and FLAC ----------------------------------------------------------------------------------------------------


def clean_wav(data: bytes) -> bytes:
    """The format and the samples."""
    kept: dict[bytes, bytes] = {}
    at = 12
    while at + 8 <= len(data):
        name, size = data[at : at + 4], struct.unpack_from("<I", data, at + 4)[0]
        if name in (b"fmt ", b"fact", b"data") and name not in kept:
            kept[name] = data[at + 8 : at + 8 + size]
        at += 8 + size + size % 2
    if not kept.get(b"fmt ") or not kept.get(b"data"):
        raise BankError("has no samples in it. Save it again as WAV.")
    body = b"WAVE"
    for name in (b"fmt ", b"fact", b"data"):
        if name in kept:
            body += name + struct.pack("<I", len(kept[name])) + kept[name] + b"\0" * (len(kept[name]) % 2)
    return b"RIFF" + struct.pack("<I", len(body)) + body


def clean_flac(data: bytes) -> bytes:
    """The frames, and of what stands before them only what is needed to play and to seek."""
    at = _after_id3(data) + 4
    if data[at - 4 : at] != b"fLaC":
        raise BankError("is not a whole FLAC file. Save it again.")
    kept: list[tuple[int, bytes]] = []
    last = False
    while not last and at + 4 <= len(data):
        head, size = data[at], int.from_bytes(data[at + 1 : at + 4], "big")
        last = bool(head & 0x80)
        if head & 0x7F in (0, 3):
            kept.append((head & 0x7F, data[at + 4 : at + 4 + size]))
        at += 4 + size
    frames = data[at:]
    if frames[-128:-125] == b"TAG":
        frames = frames[:-128]
    if not kept or kept[0][0] != 0 or frames[:1] != b"\xff":
        raise BankError("is not a whole FLAC file. Save it again.")
    blocks = [
        bytes([kind | (0x80 if place == len(kept) - 1 else 0)]) + len(block).to_bytes(3, "big") + block
        for place, (kind, block) in enumerate(kept)
    ]
    return b"fLaC" + b"".join(blocks) + frames


# --- Ogg -------------------------------------------------------------------------------------------------------------


def clean_ogg(data: bytes) -> bytes:
    """One stream of Vorbis or Opus, without comments and without the name of its encoder."""
    serials, at = set(), 0
    while at + 27 <= len(data):
        if data[at : at + 4] != b"OggS":
            raise BankError("has something between the pages of its stream. Save it again as Ogg.")
        serials.add(data[at + 14 : at + 18])
        segments = data[at + 26]
        at += 27 + segments + sum(data[at + 27 : at + 27 + segments])
    if len(serials) != 1 or at != len(data):
        raise BankError("has several streams, or is cut off. Save it again with one stream of sound.")
    out = io.BytesIO(data)
    kind = OggOpus if b"OpusHead" in data[:100] else OggVorbis
    try:
        audio: Any = kind(out)
        audio.tags.clear()
        audio.tags.vendor = ""
        if hasattr(audio.tags, "_pad_data"):
            audio.tags._pad_data = b""
        out.seek(0)
        audio.save(out, padding=lambda _: 0)
    except (mutagen.MutagenError, ValueError, IndexError, struct.error) as error:
        raise BankError(
            f"cannot be read as Ogg Vorbis or Opus ({' '.join(str(error).split())[:60]}). Save it again."
        ) from None
    return out.getvalue()


def tags_left(data: bytes) -> list[str]:
    """Tags that a reader of sound or video still finds: none, or the file was not cleaned."""
    try:
        found = mutagen.File(io.BytesIO(data))
    except mutagen.MutagenError:
        return []
    if found is None or not found.tags:
        return []
    return sorted(str(name) for name in found.tags)
