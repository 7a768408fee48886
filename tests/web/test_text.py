"""What models wrote, shown safely."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiltyard.web.text import MARKDOWN_CHARACTERS, TAGS, is_plain, rendered

MARKS = (
    *("<", ">", "[", "](", ")", "!", "`", "*", "_", "\n", " ", "&", "javascript:", "data:", "script", "onload=", '"'),
    *("'", "<a href=", "\\", "|", "-", "#", "x", "\u202e", "\u200b", "&#x6a;", "&Tab;", "https://e.example", "\t"),
)
ALLOWED = {"href", "rel", "dir", "class", "start", "title"}


class Elements(HTMLParser):
    """Every element with its attributes, and all text."""

    def __init__(self, markup: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(markup)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


def check_harmless(markup: str) -> Elements:
    elements = Elements(markup)
    for tag, attributes in elements.found:
        assert tag in TAGS, (tag, markup[:200])
        assert set(attributes) <= ALLOWED, (attributes, markup[:200])
        if tag == "a" and "href" in attributes:
            assert "noopener" in str(attributes["rel"])
            assert "nofollow" in str(attributes["rel"])
            assert (
                not str(attributes["href"]).lower().strip().startswith(("javascript:", "data:", "vbscript:", "file:"))
            )
    return elements


@pytest.mark.parametrize(
    "text",
    [
        "<script>alert(1)</script>",
        "<img src=x onerror=alert(1)>",
        "[x](javascript:alert(1))",
        "[x](JaVaScRiPt:alert(1))",
        "[x](data:text/html;base64,PHNjcmlwdD4=)",
        "![x](https://elsewhere.example/spy.png)",
        "![x](data:image/svg+xml;base64,AAAA)",
        "<svg/onload=alert(1)>",
        "<iframe src=//elsewhere.example></iframe>",
        "<style>*{display:none}</style>",
        "<a href='x' onclick='y'>z</a>",
        "```html\n<script>alert(1)</script>\n```",
        "`<b>`",
        '[x](https://e.example "on\'mouseover=alert(1)")',
        "[x]: javascript:alert(1)\n\n[x]",
        "<javascript:alert(1)>",
        "<!-- --><math><mtext></form><form><mglyph><style></math><img src onerror=alert(1)>",
    ],
)
def test_nothing_active_survives(text: str) -> None:
    elements = check_harmless(rendered(text))
    assert not {"script", "img", "iframe", "svg", "style", "form"} & {tag for tag, _ in elements.found}


def test_markdown_becomes_structure() -> None:
    text = "# Title\n\n* one\n* two\n\n| a | b |\n|--|--:|\n| 1 | 2 |\n\n~~no~~ **yes** `code` $x^2$"
    elements = check_harmless(rendered(text))
    tags = [tag for tag, _ in elements.found]
    assert tags.count("li") == 2
    assert {"h3", "table", "td", "s", "strong", "code"} <= set(tags)
    assert "$x^2$" in elements.text
    assert ("td", {"dir": "auto", "class": "right"}) in elements.found


def test_an_image_is_named_and_not_fetched() -> None:
    assert rendered("![a cat](https://e.example/c.png)") == (
        '<p dir="auto"><span class="image">[image: a cat]</span></p>\n'
    )


def test_every_paragraph_has_its_own_direction() -> None:
    made = rendered("שלום\n\nhello \u202eabc\u202c \u200bzero")
    assert made.count('<p dir="auto">') == 2


def test_control_characters_are_shown_as_missing() -> None:
    assert "\x00" not in rendered("a\x00b\x1b[31m")
    assert "\ufffd" in rendered("a\x00b")


@pytest.mark.parametrize("text", ["word " * 210_000, "[" * 1_000_000, "> " * 500_000, "a\n" * 500_000, "*_" * 500_000])
def test_a_megabyte_is_shown_whole_and_plain(text: str) -> None:
    assert is_plain(text)
    assert check_harmless(rendered(text)).text.strip() == text.strip()


@pytest.mark.parametrize(
    "piece", ["[a](", "*a ", "**a _b ", "`a", "|a|b|\n|-|-|\n", "a**b", "~~a ", "<http:", "1. ", "> a\n"]
)
def test_the_longest_text_that_is_read_is_read(piece: str) -> None:
    text = (piece * MARKDOWN_CHARACTERS)[:MARKDOWN_CHARACTERS]
    check_harmless(rendered(text))


@given(st.text(max_size=300))
def test_any_text_is_harmless(text: str) -> None:
    check_harmless(rendered(text))


@given(
    st.lists(
        st.sampled_from(MARKS),
        max_size=60,
    )
)
def test_any_mixture_of_marks_is_harmless(pieces: list[str]) -> None:
    check_harmless(rendered("".join(pieces)))
