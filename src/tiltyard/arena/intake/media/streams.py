"""Sound and film, made anew from what is heard and seen: samples become FLAC, pictures and their sound become WebM.

A file of sound or film has dozens of places for words: tags, names of encoders, reserved fields, gaps, padding, notes
inside the compressed data. None is looked for here, because nothing but decoded samples and pictures gets through.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from tiltyard.errors import BankError, MissingExtra

if TYPE_CHECKING:
    import av
    from av.audio import AudioStream
    from av.container import InputContainer, OutputContainer
    from av.video import VideoStream

FLAC, WEBM = "audio/flac", "video/webm"
READERS = {"MP3": "mp3", "WAV": "wav", "FLAC": "flac", "Ogg": "ogg", "MP4": "mov", "WebM": "matroska"}
"""The formats that are read, and what the library calls their readers. No other reader is tried."""
_CODECS = "mp3 mp3float mp2 mp2float mp1float flac vorbis opus libopus aac alac h264 hevc vp8 vp9 av1 libdav1d mpeg4"
CODECS = frozenset(_CODECS.split())

LONGEST_SECONDS = 1800
MOST_PIXELS = 9_000_000
"""Of one picture of a film: 4K."""
MOST_PIXELS_OF_FILM = 6_000_000_000
"""Of all its pictures: a minute and a half of 1080p, 30 a second. A small file can hold days of black."""
MOST_PICTURES = 120 * LONGEST_SECONDS
SAMPLE_RATE = 48_000
"""Of every sound: models can be told apart by the rate of their files."""
MILLISECOND = Fraction(1, 1000)
PICTURES = {"deadline": "realtime", "cpu-used": "6", "crf": "20", "b": "0"}


def clean_stream(data: bytes, kind: str) -> tuple[bytes, bool]:
    """A sound as FLAC, or a film as WebM (VP9 and Opus), and whether it is a film; `kind` is one of `READERS`."""
    try:
        import av  # noqa: F401 - is it there?
    except ImportError:
        raise MissingExtra("an answer of sound or film", "media") from None
    try:
        return _made_anew(data, READERS[kind])
    except BankError:
        raise
    except Exception as error:  # whatever a broken file does to its reader
        message = " ".join(str(getattr(error, "strerror", None) or error).split())[:60]
        raise BankError(f"cannot be played as {kind} ({message}). Save it again.") from None


def _made_anew(data: bytes, reader: str) -> tuple[bytes, bool]:
    import av

    with _opened(data, reader) as given:  # a film's size has to be known before anything is written
        film, _ = _streams(given)
        first = None if film is None else next(given.decode(film), None)
    out = io.BytesIO()
    kind = "webm" if first else "flac"
    with _opened(data, reader) as given, av.open(out, "w", format=kind, options={"fflags": "+bitexact"}) as made:
        film, sound = _streams(given)
        writers: dict[int, _Writer] = {}
        if film and first:
            writers[film.index] = _Pictures(made, film, first, Fraction(given.start_time or 0, av.time_base))
        if sound:
            writers[sound.index] = _Sound(made, sound, "libopus" if first else "flac")
        _copy(given, made, [stream for stream in (film, sound) if stream and stream.index in writers], writers)
    return out.getvalue(), first is not None


def _opened(data: bytes, reader: str) -> InputContainer:
    import av

    # PyAV 18, the last one for Python 3.11, fails at tags that are not UTF-8 unless told otherwise; 19 never does.
    tags: dict[str, Any] = {"metadata_errors": "replace"} if av.__version__.startswith("18.") else {}
    opened: InputContainer = av.open(io.BytesIO(data), "r", format=reader, **tags)
    return opened


def _streams(given: InputContainer) -> tuple[VideoStream | None, AudioStream | None]:
    """The pictures and the sound that a browser would play."""
    from av.stream import Disposition

    cover = Disposition.attached_pic | Disposition.still_image
    film = next((stream for stream in given.streams.video if not stream.disposition & cover), None)
    sound = next(iter(given.streams.audio), None)
    if not film and not sound:
        raise BankError("has neither sound nor moving pictures in it. Save it again.")
    for stream in (film, sound):
        name = str(getattr(stream.codec_context, "name", "an unknown codec")) if stream else "pcm_"
        if name not in CODECS and not name.startswith("pcm_"):
            raise BankError(f"is compressed by {name[:20]}, which is not read here. Convert it.")
    if film and film.width * film.height > MOST_PIXELS:
        raise _too_large()
    return film, sound


def _copy(
    given: InputContainer,
    made: OutputContainer,
    streams: Sequence[AudioStream | VideoStream],
    writers: dict[int, _Writer],
) -> None:
    """Decode and encode packet by packet. As players do, leave out what cannot be decoded."""
    import av

    written = 0
    for packet in given.demux(*streams):
        try:
            frames = packet.decode()
        except av.error.InvalidDataError:
            continue
        for frame in frames:
            written += 1
            made.mux(list(writers[packet.stream_index].packets(frame)))
    if not written:
        raise BankError("has nothing in it that can be played. Save it again.")
    for writer in writers.values():
        made.mux(list(writer.packets(None)))


class _Writer(Protocol):
    def packets(self, frame: Any) -> Iterator[av.Packet[Any]]:
        """A decoded frame, encoded anew; None: what is left."""


class _Sound:
    """Samples as they are heard: at most two channels, 48,000 a second, without a word beside them."""

    def __init__(self, made: OutputContainer, given: AudioStream, codec: str) -> None:
        import av

        layout = "mono" if given.channels == 1 else "stereo"
        stream = made.add_stream(codec, rate=SAMPLE_RATE, layout=layout, options={"flags": "+bitexact"})
        assert isinstance(stream, av.AudioStream)
        self._stream = stream
        self._resampler = av.AudioResampler("s16", layout, SAMPLE_RATE)
        self._samples = 0

    def packets(self, frame: Any) -> Iterator[av.Packet[Any]]:
        for part in self._resampler.resample(frame):
            part.pts = self._samples
            part.time_base = Fraction(1, part.sample_rate)
            self._samples += part.samples
            if self._samples > LONGEST_SECONDS * part.sample_rate:
                raise _too_long()
            yield from self._stream.encode(part)
        if frame is None:
            yield from self._stream.encode(None)


class _Pictures:
    """Moving pictures as they are seen: turned upright, all in the size and the colours of the first, in 8 bits."""

    def __init__(self, made: OutputContainer, given: VideoStream, first: av.VideoFrame, start: Fraction) -> None:
        import av

        options = {**PICTURES, "flags": "+bitexact"}
        stream = made.add_stream("libvpx-vp9", rate=given.average_rate or 25, options=options)
        assert isinstance(stream, av.VideoStream)
        upright = _turned(first)
        stream.width, stream.height, stream.pix_fmt = upright.width, upright.height, "yuv420p"
        shape = given.sample_aspect_ratio or Fraction(1)
        stream.sample_aspect_ratio = (
            1 / shape if (upright.width, upright.height) != (first.width, first.height) else shape
        )
        for name in ("color_range", "colorspace", "color_primaries", "color_trc"):
            setattr(stream.codec_context, name, getattr(first, name))
        stream.codec_context.time_base = MILLISECOND
        self._stream, self._start, self._last = stream, start, -1
        self._pixels = self._pictures = 0

    def packets(self, frame: Any) -> Iterator[av.Packet[Any]]:
        if frame is None:
            yield from self._stream.encode(None)
            return
        self._pixels += frame.width * frame.height
        self._pictures += 1
        if frame.width * frame.height > MOST_PIXELS or self._pixels > MOST_PIXELS_OF_FILM:
            raise _too_large()
        place = max(round((Fraction(frame.pts or 0) * (frame.time_base or 0) - self._start) / MILLISECOND), 0)
        if place > LONGEST_SECONDS / MILLISECOND or self._pictures > MOST_PICTURES:
            raise _too_long()
        if place > self._last:
            self._last = place
            made = _turned(frame).reformat(self._stream.width, self._stream.height, "yuv420p")
            made.pts, made.time_base = place, MILLISECOND
            yield from self._stream.encode(made)


def _turned(frame: av.VideoFrame) -> av.VideoFrame:
    """A picture as it is to be seen: cameras that are held upright write it sideways."""
    import av

    turns = round(frame.rotation / 90) % 4
    if not turns:
        return frame
    planes: Any = np.rot90(frame.to_ndarray(format="yuv444p"), turns, axes=(1, 2))
    made = av.VideoFrame.from_ndarray(np.ascontiguousarray(planes), "yuv444p")
    made.pts, made.time_base = frame.pts, frame.time_base
    return made


def _too_long() -> BankError:
    return BankError(f"is longer than {LONGEST_SECONDS // 60} minutes. Shorten it.")


def _too_large() -> BankError:
    return BankError(
        f"has more than {MOST_PIXELS:,} pixels, or {MOST_PIXELS_OF_FILM:,} in all its pictures. Make it smaller or "
        "shorter."
    )
