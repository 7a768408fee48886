"""A picture to share: a PNG of 1200 × 630, drawn with Pillow and its built-in font."""

from __future__ import annotations

import io
import unicodedata
from collections.abc import Iterable
from functools import cache
from typing import NamedTuple

from PIL import Image, ImageDraw, ImageFont, features
from PIL.PngImagePlugin import PngInfo

from tiltyard.render.svg import Scale

WIDTH, HEIGHT = 1200, 630
INSET = 64
PAPER, INK, MUTED, LINE, ACCENT, OTHER = "#fbf9f4", "#1e232b", "#59616d", "#e0dbcf", "#1d4f8c", "#6f3a97"

PLAIN = str.maketrans(
    {"–": "-", "—": "-", "−": "-", "“": '"', "”": '"', "’": "'", "ß": "ss", "ø": "o", "ł": "l", "æ": "ae"}
)
"""Signs that the built-in font does not have, and what is drawn instead."""

BARS = (700, 1040)
"""Where intervals are drawn, from left to right."""


@cache
def _font(size: int) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    return ImageFont.load_default(size)


@cache
def _blank(size: int) -> bytes:
    """How the font draws a letter that it does not have."""
    return bytes(_font(size).getmask("\uffff"))


def legible(name: str, instead: str) -> str:
    """A name in letters that the built-in font has: without accents; else the other one, `?` for what is missing."""
    for shown in (_plain(name), _plain(instead)):
        if shown and all(letter.isspace() or bytes(_font(24).getmask(letter)) != _blank(24) for letter in shown):
            return shown
    return "".join(one if one.isascii() and one.isprintable() else "?" for one in instead)


def _plain(text: str) -> str:
    """A text without accents and typographic signs."""
    split = unicodedata.normalize("NFKD", text.translate(PLAIN))
    return "".join(letter for letter in split if not unicodedata.combining(letter))


Interval = tuple[Scale, float, tuple[float | None, float | None]]
"""A rating with the ends of its interval, and the scale on which they are drawn."""


class CardRow(NamedTuple):
    """A model on the picture of a board."""

    rank: str
    name: str
    rating: str
    interval: Interval | None
    colour: str = INK


def board_card(title: str, sentence: str, rows: Iterable[CardRow], foot: str) -> bytes:
    """The first models of a board below a sentence, as a file."""
    card = ShareCard(title)
    y = card.paragraph(140, sentence, 36, 2) + 24
    for row in rows:
        card.draw.line((INSET, y, WIDTH - INSET, y), fill=LINE, width=2)
        card.text(INSET, y + 9, row.rank, 30, row.colour, 90)
        card.text(INSET + 100, y + 9, row.name, 30, row.colour, 510)
        card.text(WIDTH - INSET, y + 9, row.rating, 30, row.colour, 120, right=True)
        card.interval(row.interval, y + 27)
        y += 52
    return card.png(foot)


def model_card(title: str, name: str, rank: str, rating: str, interval: Interval | None, foot: str) -> bytes:
    """One model's place and rating, as a file."""
    card = ShareCard(title)
    card.text(INSET, 190, name, 76, INK, WIDTH - 2 * INSET)
    card.text(INSET, 320, rank, 44, ACCENT, WIDTH - 2 * INSET)
    card.text(INSET, 392, rating, 44, INK, WIDTH - 2 * INSET)
    card.interval(interval, 422)
    return card.png(foot)


class ShareCard:
    """A picture while it is drawn: a title, and what is added below it."""

    def __init__(self, title: str) -> None:
        self._image = Image.new("RGB", (WIDTH, HEIGHT), PAPER)
        self.draw = ImageDraw.Draw(self._image)
        self.draw.line((INSET, 92, INSET + 34, 112), fill=ACCENT, width=5)
        self.draw.line((INSET + 38, 92, INSET + 4, 112), fill=OTHER, width=5)
        self.text(INSET + 54, 84, legible(title, "Arena"), 30, INK, WIDTH - 2 * INSET - 54)

    def text(self, x: int, y: int, words: str, size: int, colour: str, width: int, *, right: bool = False) -> None:
        """Words on one line, cut to a width with an ellipsis."""
        font, words = _font(size), _plain(words)
        while words and font.getlength(words) > width:
            words = words[: -2 if words.endswith("…") else -1].rstrip() + "…"
            if words == "…":
                break
        left = x - int(font.getlength(words)) if right else x
        self.draw.text((left, y), words, font=font, fill=colour)

    def paragraph(self, y: int, words: str, size: int, lines: int) -> int:
        """Words on a few lines; where the next may begin."""
        font, line, done = _font(size), "", 0
        for word in _plain(words).split():
            longer = f"{line} {word}".strip()
            if font.getlength(longer) <= WIDTH - 2 * INSET:
                line = longer
                continue
            self.text(INSET, y, line, size, INK, WIDTH - 2 * INSET)
            y, line, done = y + int(size * 1.35), word, done + 1
            if done == lines - 1:
                break
        self.text(INSET, y, line, size, INK, WIDTH - 2 * INSET)
        return y + int(size * 1.35)

    def interval(self, interval: Interval | None, y: int) -> None:
        """A dot and its interval, in the place of a row's picture."""
        if interval is None:
            return
        scale, value, span = interval

        def at(value: float) -> int:
            share = (min(max(value, scale.low), scale.high) - scale.low) / (scale.high - scale.low)
            return round(BARS[0] + share * (BARS[1] - BARS[0]))

        left, right = (edge if end is None else at(end) for edge, end in zip(BARS, span, strict=True))
        middle = at(value)
        self.draw.line((left, y, right, y), fill=INK, width=3)
        self.draw.ellipse((middle - 7, y - 7, middle + 7, y + 7), fill=ACCENT)

    def png(self, foot: str) -> bytes:
        """The picture as a file, with what it rests on at its foot."""
        self.text(INSET, HEIGHT - 62, foot, 24, MUTED, WIDTH - 2 * INSET)
        out, info = io.BytesIO(), PngInfo()
        info.add_text("Software", drawn_with())
        self._image.save(out, "PNG", pnginfo=info)
        return out.getvalue()


def drawn_with() -> str:
    """The libraries that draw: others give other pixels."""
    return ", ".join(f"{name} {features.version(name)}" for name in ("pil", "freetype2", "zlib"))
