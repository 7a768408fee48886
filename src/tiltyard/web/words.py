"""Every English text of the site, by key: one place to read them over, and to translate them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tiltyard.web import words_admin, words_methods, words_pages, words_vote

if TYPE_CHECKING:
    from collections.abc import Mapping

WORDS: Mapping[str, str] = {**words_pages.WORDS, **words_methods.WORDS, **words_vote.WORDS, **words_admin.WORDS}


def t(key: str) -> str:
    """The text of a key; places for values are named in braces and filled by `.format`. An unknown key is an error."""
    return WORDS[key]
