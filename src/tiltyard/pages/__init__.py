"""Parts of pages without a domain: markup, SVG, and how numbers and dates read."""

from typing import TYPE_CHECKING

from tiltyard.faces import names_on_demand

if TYPE_CHECKING:
    from tiltyard.pages import escaping, svg
    from tiltyard.pages.escaping import CONTROLS, Html, is_unseen, look_alikes, seen, shortened, text
    from tiltyard.pages.figures import count, day, money, percent, plain_count, plural, points, signed, signed_percent
    from tiltyard.pages.html import environment, make_environment, package_text, page, render
    from tiltyard.pages.share_card import INK, MUTED, CardRow, Interval, board_card, drawn_with, legible, model_card
    from tiltyard.pages.svg import (
        BROAD, MARGIN, WIDTH, Plot, Scale, axis, dot, path, picture, shares, thin_interval, words,
    )
    from tiltyard.pages.tables import Cell, Kind, Table, TableColumn, markdown_text

__getattr__ = names_on_demand(__name__)
