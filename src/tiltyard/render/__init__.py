"""Parts of pages without a domain: markup, SVG, and how numbers and dates read."""

from typing import TYPE_CHECKING

from tiltyard.faces import names_on_demand

if TYPE_CHECKING:
    from tiltyard.render import escaping, svg
    from tiltyard.render.escaping import CONTROLS, Html, is_unseen, look_alikes, seen, shortened, text
    from tiltyard.render.figures import count, day, money, percent, plain_count, plural, points, signed, signed_percent
    from tiltyard.render.html import environment, make_environment, package_text, page, render
    from tiltyard.render.share_card import INK, MUTED, CardRow, Interval, board_card, drawn_with, legible, model_card
    from tiltyard.render.svg import (
        BROAD,
        MARGIN,
        WIDTH,
        Plot,
        Scale,
        axis,
        dot,
        path,
        picture,
        shares,
        thin_interval,
        words,
    )
    from tiltyard.render.tables import Cell, Kind, Table, TableColumn, markdown_text

__getattr__ = names_on_demand(__name__)
