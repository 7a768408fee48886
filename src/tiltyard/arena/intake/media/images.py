"""Pictures, made anew from their pixels: nothing else of the file that was given survives."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from PIL import Image, ImageCms, ImageOps, ImageSequence

from tiltyard.errors import BankError

WEBP = "image/webp"
FORMATS = ("PNG", "JPEG", "GIF", "WEBP")
ONE_FRAME = ("JPEG", "MPO")
"""Photographs of phones hold further pictures, which are not shown."""
MOST_PIXELS = 50_000_000
"""Of one picture."""
MOST_PIXELS_OF_ALL = 100_000_000
"""Of all frames of a picture that moves, and of all pictures inside a page, a drawing or a model."""
MOST_FRAMES = 1000
LONGEST_SIDE = 16_383
"""What WebP can hold."""
SHORTEST_FRAME, LONGEST_FRAME = 20, 60_000
"""Milliseconds. Browsers show shorter frames slowly."""

_pixels_left: ContextVar[int] = ContextVar("pixels_left", default=MOST_PIXELS_OF_ALL)


@contextmanager
def one_file() -> Iterator[None]:
    """The pictures of one file together have a bounded number of pixels: small bytes can hold many, many times."""
    before = _pixels_left.set(MOST_PIXELS_OF_ALL)
    try:
        yield
    finally:
        _pixels_left.reset(before)


def clean_image(data: bytes) -> bytes:
    """A picture as lossless WebP: every pixel as it was, movement kept, orientation and colours applied.

    One format for all, so that neither the headers nor the bytes of two pictures tell what they were made from. Colours
    under full transparency are gone too.
    """
    with _opened(data) as picture:
        loop = int(picture.info.get("loop", 0) or 0)
        lengths: list[int] = []
        first, *rest = _plain_frames(picture, lengths)
        out = io.BytesIO()
        moving: dict[str, Any] = {"save_all": True, "append_images": rest, "duration": lengths}
        moving["loop"] = min(max(loop, 0), 1000)
        first.save(out, "WEBP", lossless=True, quality=20, method=1, exact=False, **(moving if rest else {}))
    return out.getvalue()


def clean_texture(data: bytes) -> bytes:
    """A picture as PNG, the format that every reader of 3D models knows."""
    with _opened(data) as picture:
        out = io.BytesIO()
        next(_plain_frames(picture, [])).save(out, "PNG")
    return out.getvalue()


@contextmanager
def _opened(data: bytes) -> Iterator[Image.Image]:
    """A picture that is not too large; whatever is wrong with it is one line."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            with Image.open(io.BytesIO(data), formats=FORMATS) as picture:
                width, height = picture.size
                frames = 1 if picture.format in ONE_FRAME else getattr(picture, "n_frames", 1)
                left = _pixels_left.get() - width * height * frames
                if (
                    width * height > MOST_PIXELS
                    or max(width, height) > LONGEST_SIDE
                    or left < 0
                    or frames > MOST_FRAMES
                ):
                    raise _too_many_pixels()
                _pixels_left.set(left)
                yield picture
        except BankError:
            raise
        except Image.DecompressionBombError:
            raise _too_many_pixels() from None
        except Exception as error:  # whatever a broken picture does to its reader
            raise _broken(error) from None


def _plain_frames(picture: Image.Image, lengths: list[int]) -> Iterator[Image.Image]:
    """Every frame that is shown as bare pixels; how long each is shown goes into `lengths`."""
    profile = picture.info.get("icc_profile")
    for number, frame in enumerate(ImageSequence.Iterator(picture)):
        if number == 0 and picture.info.get("default_image") and getattr(picture, "n_frames", 1) > 1:
            continue  # what a moving PNG has for programs that do not move it
        lengths.append(min(max(int(frame.info.get("duration", 100) or 100), SHORTEST_FRAME), LONGEST_FRAME))
        yield _plain(ImageOps.exif_transpose(frame), profile)
        if picture.format in ONE_FRAME:
            return


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


def _broken(error: Exception) -> BankError:
    message = re.sub(r"<[^>]*>", "these bytes", " ".join(str(error).split()))[:80] or type(error).__name__
    return BankError(f"cannot be read as a picture ({message}). Save it again as PNG, JPEG, GIF or WebP.")


def _too_many_pixels() -> BankError:
    return BankError(
        f"has a picture with more than {MOST_PIXELS:,} pixels, a side longer than {LONGEST_SIDE:,} or more than "
        f"{MOST_FRAMES:,} frames, or more than {MOST_PIXELS_OF_ALL:,} pixels in all. Make it smaller."
    )
