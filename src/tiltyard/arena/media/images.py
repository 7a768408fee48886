"""Pictures, made anew from their pixels: nothing else of the file that was given survives."""

from __future__ import annotations

import io
import re
import warnings
from typing import TYPE_CHECKING, Any

from PIL import Image, ImageCms, ImageOps, ImageSequence

from tiltyard.errors import BankError

if TYPE_CHECKING:
    from collections.abc import Iterator

WEBP = "image/webp"
FORMATS = ("PNG", "JPEG", "GIF", "WEBP")
MOST_PIXELS = 50_000_000
"""Of one picture."""
MOST_PIXELS_OF_ALL_FRAMES = 200_000_000
MOST_FRAMES = 1000
LONGEST_SIDE = 16_383
"""What WebP can hold."""
LOSSY_QUALITY = 95
SHORTEST_FRAME, LONGEST_FRAME = 20, 60_000
"""Milliseconds. Browsers show shorter frames slowly."""


def clean_image(data: bytes) -> bytes:
    """A picture as WebP: what was lossless stays so, movement is kept, orientation and colours are applied.

    One format for all, so that the headers of two pictures are the same. Colours under full transparency are gone too.
    """
    with _opened(data) as picture:
        loop = int(picture.info.get("loop", 0) or 0)
        lossy = picture.format == "JPEG" or (picture.format == "WEBP" and b"VP8 " in data[:64])
        lengths: list[int] = []
        frames = _plain_frames(picture, lengths)
        first = next(frames)
        rest = list(frames)
        out = io.BytesIO()
        options: dict[str, Any] = {"quality": LOSSY_QUALITY} if lossy else {"lossless": True, "quality": 60}
        if rest:
            options |= {"save_all": True, "append_images": rest, "duration": lengths, "loop": min(max(loop, 0), 1000)}
        first.save(out, "WEBP", method=3, exact=False, **options)
    return out.getvalue()


def clean_texture(data: bytes) -> bytes:
    """A picture as PNG, the format that every reader of 3D models knows."""
    with _opened(data) as picture:
        out = io.BytesIO()
        next(_plain_frames(picture, [])).save(out, "PNG")
    return out.getvalue()


class _opened:  # noqa: N801 - used like a function
    """A picture that is not too large; whatever is wrong with it is one line."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._quiet = warnings.catch_warnings()

    def __enter__(self) -> Image.Image:
        self._quiet.__enter__()
        warnings.simplefilter("ignore")
        try:
            self._picture = Image.open(io.BytesIO(self._data), formats=FORMATS)
        except Image.DecompressionBombError:
            self._quiet.__exit__(None, None, None)
            raise _too_many_pixels() from None
        except Exception as error:  # whatever a broken picture does to its reader
            self._quiet.__exit__(None, None, None)
            raise _broken(error) from None
        width, height = self._picture.size
        if width * height > MOST_PIXELS or max(width, height) > LONGEST_SIDE:
            self.__exit__(None, None, None)
            raise _too_many_pixels()
        return self._picture

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._picture.close()
        self._quiet.__exit__(None, None, None)
        if isinstance(error, Image.DecompressionBombError):
            raise _too_many_pixels() from None
        if isinstance(error, Exception) and not isinstance(error, BankError):
            raise _broken(error) from None


def _plain_frames(picture: Image.Image, lengths: list[int]) -> Iterator[Image.Image]:
    """Every frame as bare pixels; how long each is shown goes into `lengths`."""
    pixels = 0
    profile = picture.info.get("icc_profile")
    for number, frame in enumerate(ImageSequence.Iterator(picture)):
        pixels += frame.width * frame.height
        if number >= MOST_FRAMES or pixels > MOST_PIXELS_OF_ALL_FRAMES:
            raise BankError(
                f"has more than {MOST_FRAMES:,} frames or {MOST_PIXELS_OF_ALL_FRAMES:,} pixels in all. Shorten it."
            )
        lengths.append(min(max(int(frame.info.get("duration", 100) or 100), SHORTEST_FRAME), LONGEST_FRAME))
        yield _plain(ImageOps.exif_transpose(frame), profile)


def _plain(frame: Image.Image, profile: bytes | None) -> Image.Image:
    if frame.mode in ("I;16", "I;16B", "I;16L", "I"):
        frame = frame.point([i >> 8 for i in range(65_536)], "L") if frame.mode == "I;16" else frame.convert("L")
    clear = "A" in frame.getbands() or "transparency" in frame.info
    mode = "RGBA" if clear else "RGB"
    if profile and frame.mode in ("RGB", "RGBA", "L", "CMYK"):
        frame = _in_usual_colours(frame, profile, mode)
    frame = frame.convert(mode)
    return Image.frombytes(mode, frame.size, frame.tobytes())


def _in_usual_colours(frame: Image.Image, profile: bytes, mode: str) -> Image.Image:
    """The same colours without the profile; a profile that cannot be read is left out, as browsers do."""
    try:
        made = ImageCms.profileToProfile(
            frame, ImageCms.ImageCmsProfile(io.BytesIO(profile)), ImageCms.createProfile("sRGB"), outputMode=mode
        )
    except (ImageCms.PyCMSError, OSError, ValueError):
        return frame
    return frame if made is None else made


def _broken(error: BaseException) -> BankError:
    said = re.sub(r"<[^>]*>", "these bytes", " ".join(str(error).split()))[:80] or type(error).__name__
    return BankError(f"cannot be read as a picture ({said}). Save it again as PNG, JPEG, GIF or WebP.")


def _too_many_pixels() -> BankError:
    return BankError(
        f"has more than {MOST_PIXELS:,} pixels, or a side longer than {LONGEST_SIDE:,}. Make the picture smaller."
    )
