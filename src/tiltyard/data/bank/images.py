"""Images of prompts and answers: an address, or a file beside the bank, known by its bytes and checked before use."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from pathlib import Path

import msgspec

from tiltyard.errors import BankError

LARGEST_BYTES = 5_000_000
"""The largest image file that all providers take."""

MOST_IMAGES = 20
"""The most images of one prompt or answer."""

_STARTS = {b"\x89PNG\r\n\x1a\n": "image/png", b"\xff\xd8\xff": "image/jpeg", b"GIF8": "image/gif"}
_WEBP = "image/webp"


class Image(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One image: either an address that the provider fetches, or a file with its type and hash."""

    url: str = ""
    """The address."""
    media_type: str = ""
    """`image/png`, `image/jpeg`, `image/gif` or `image/webp`."""
    sha256: str = ""
    """The hash of the file: what is sent is known by it, wherever the file is."""
    path: str = ""
    """Where the file is."""

    @property
    def identity(self) -> Image:
        """The image without its place on this machine."""
        return msgspec.structs.replace(self, path="")

    def encoded(self) -> str:
        """The file in base64; an error if it is gone or has changed."""
        data = _read(Path(self.path), self.path)
        if hashlib.sha256(data).hexdigest() != self.sha256:
            raise BankError(f"{self.path} has changed since it was read. Run again.")
        return base64.b64encode(data).decode()


class ImageFinder:
    """Finds the images that rows name, and reads each file once."""

    def __init__(self, folder: str | Path) -> None:
        self._folder = Path(folder)
        self._images: dict[str, Image] = {}

    def find(self, names: Sequence[str], where: str) -> tuple[Image, ...]:
        if len(names) > MOST_IMAGES:
            raise BankError(f"{where} has {len(names)} images; a judge is shown {MOST_IMAGES} at most. Leave some out.")
        for name in names:
            if name not in self._images:
                is_address = name.lower().startswith(("https://", "http://"))
                self._images[name] = Image(url=name) if is_address else _file(self._folder / name, where)
        return tuple(self._images[name] for name in names)


def is_image_type(media_type: str) -> bool:
    """Whether this is a type of image that a row can have."""
    return media_type in (*_STARTS.values(), _WEBP)


def count_images(count: int) -> str:
    """`1 image`, `2 images`."""
    return f"{count} image{'s' if count != 1 else ''}"


def _file(path: Path, where: str) -> Image:
    data = _read(path, where)
    is_webp = data[:4] == b"RIFF" and data[8:12] == b"WEBP"
    media_type = _WEBP if is_webp else next((kind for start, kind in _STARTS.items() if data.startswith(start)), None)
    if media_type is None:
        raise BankError(f"{where}: {path} is not a PNG, JPEG, GIF or WebP image. Convert it.")
    if len(data) > LARGEST_BYTES:
        most = f"{LARGEST_BYTES / 1e6:.0f} MB"
        raise BankError(
            f"{where}: {path} has {path.stat().st_size / 1e6:.1f} MB; providers take {most}. Make it smaller."
        )
    return Image(media_type=media_type, sha256=hashlib.sha256(data).hexdigest(), path=str(path.resolve()))


def _read(path: Path, where: str) -> bytes:
    try:
        if path.exists() and not path.is_file():
            raise BankError(f"{where}: {path} is no file.")
        with path.open("rb") as file:
            return file.read(LARGEST_BYTES + 1)
    except OSError as error:
        raise BankError(
            f"{where}: cannot read the image {path}: {error.strerror}. Give an https:// address, or the path of a file "
            "beside the row's file."
        ) from None
