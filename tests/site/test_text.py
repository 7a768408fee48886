"""What models wrote, shown safely."""

from __future__ import annotations

from html.parser import HTMLParser
from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiltyard.site import formulas
from tiltyard.site.text import (
    CODE_CHARACTERS,
    MARKDOWN_CHARACTERS,
    TAGS,
    is_plain,
    is_quick,
    rendered,
    rendered_answer,
    split_reasoning,
)

MARKS = (
    *("<", ">", "[", "](", ")", "!", "`", "*", "_", "\n", " ", "&", "javascript:", "data:", "script", "onload=", '"'),
    *("'", "<a href=", "\\", "|", "-", "#", "x", "\u202e", "\u200b", "&#x6a;", "&Tab;", "https://e.example", "\t"),
    *(
        "$",
        "$$",
        "\\(",
        "\\)",
        "\\[",
        "\\]",
        "\\frac{",
        "}",
        "^",
        "\\text{<b>",
        "\\href{javascript:x}{",
        "\\style{a:b}{",
    ),
    *("```python\n", "```html\n", "\n```\n", "\\begin{align}", "\\end{align}", "<think>", "</think>"),
)
ALLOWED = {"href", "rel", "dir", "class", "start", "title", "tabindex", "role", "aria-label", "alttext"}
ALLOWED |= set(formulas.ATTRIBUTES)


class Elements(HTMLParser):
    """Every element with its attributes, and all text."""

    def __init__(self, markup: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(markup.encode().decode())  # plain text: pieces of Html would escape what is added to them
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
    assert {"math", "msup"} <= set(tags)
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


PIECES = ("[a](", "*a ", "**a _b ", "`a", "|a|b|\n|-|-|\n", "a**b", "~~a ", "<http:", "1. ", "> a\n")


def test_the_longest_mixture_that_is_read_is_read() -> None:
    each = MARKDOWN_CHARACTERS // len(PIECES) - 2
    text = "\n\n".join((piece * each)[:each] for piece in PIECES)
    assert MARKDOWN_CHARACTERS - 100 < len(text) <= MARKDOWN_CHARACTERS
    assert not is_plain(text)
    check_harmless(rendered(text))


@pytest.mark.soak
@pytest.mark.parametrize("piece", PIECES)
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


def tags_of(markup: str) -> list[str]:
    return [tag for tag, _ in check_harmless(markup).found]


@pytest.mark.parametrize(
    ("text", "formulas_in_it"),
    [
        ("between $5 and $6", 0),
        ("$5-$6, US$7, $8/month or $9.", 0),
        ("$20 a head (A$ as well)", 0),
        ("a \\$5 note and \\$6", 0),
        ("`$x$` and ``$$y$$``", 0),
        ("```\n$x$\n```", 0),
        ("$ x $ and $", 0),
        ("the $n$th of $x_1, x_2$", 2),
        ("it costs $5, and $x^2$ is a square", 1),
        ("\\(a\\), \\[b\\] and $$c$$", 3),
        ("$$\na\n\n+ b\n$$", 1),
        ("\\[\n\\begin{pmatrix}1 & 2\\\\3 & 4\\end{pmatrix}\n\\]", 1),
        ("$\\begin{pmatrix}1 & 2\\\\3 & 4\\end{pmatrix}^{-1}$", 1),
        ("\\begin{align}a&=b\\\\c&=d\\end{align}", 1),
        ("- one\n- \\[ x \\]\n", 1),
        ("| a | b |\n|-|-|\n| $x$ | $5 |", 1),
    ],
)
def test_formulas_are_drawn_and_sums_of_money_are_not(text: str, formulas_in_it: int) -> None:
    assert tags_of(rendered(text)).count("math") == formulas_in_it


@pytest.mark.parametrize(
    "source",
    [
        "\\frac{a}",
        "\\unheard{x}",
        "{{{",
        "\\left(",
        "x^",
        "\\begin{align}",
        "{" * 600,
        "x" * 2_000,
        "\\sqrt" * 200,
        " ",
    ],
)
def test_what_is_no_formula_is_shown_as_it_was_written(source: str) -> None:
    made = check_harmless(rendered(f"so $${source}$$ it is"))
    assert "math" not in [tag for tag, _ in made.found]
    assert source.strip() in made.text


def test_a_formula_keeps_its_source_and_loses_links_styles_and_colours() -> None:
    made = check_harmless(
        rendered("$\\color{red}\\href{javascript:alert(1)}{\\style{position:fixed}{x}} < \\text{<img src=x>}$")
    )
    attributes = {name for _, found in made.found for name in found}
    assert attributes <= {"dir", "alttext", "display"}
    assert "<img\xa0src=x>" in made.text
    assert any(str(found.get("alttext")).startswith("\\color{red}") for _, found in made.found)
    assert "boxed" in rendered("$\\boxed{42}$")
    assert "400em" not in rendered("$a\\hspace{400em}b$").replace("{400em}", "")


def test_code_is_coloured_by_its_language_and_stays_the_same_text() -> None:
    code = "def f(x):  # add\n    return 'a' + \"<b>\"\n"
    for fence, spans in (("```python", True), ("~~~Py", True), ("```", False), ("```klingon", False)):
        made = check_harmless(rendered(f"{fence}\n{code}{fence[:3]}"))
        assert made.text.strip() == code.strip()
        assert ("span", {"class": "k"}) in made.found or not spans
        assert not is_quick(f"{fence}\n{code}\n")
    assert "span" not in tags_of(rendered("```python\n" + "x = 1\n" * CODE_CHARACTERS + "```"))


def test_what_may_be_too_wide_can_be_reached_by_keyboard() -> None:
    wide = f"```\n{'x' * 60}\n```\n\n|{' a |' * 9}\n|{'-|' * 9}\n|{' word word |' * 9}\n"
    boxes = [found for _, found in check_harmless(rendered(wide)).found if "tabindex" in found]
    assert [box["aria-label"] for box in boxes] == ["Code", "Table"]
    assert "tabindex" not in rendered("```\nx\n```\n\n|a|b|\n|-|-|\n|1|2|\n")


@pytest.mark.parametrize(
    ("language", "piece"),
    [
        pytest.param(language, piece, marks=() if first + second == 3 else pytest.mark.soak)
        for first, language in enumerate(["python", "java", "c#", "html"])
        for second, piece in enumerate(["a\n", "a ", "=", "<a "])
    ],
)
def test_hostile_code_takes_no_longer_than_a_moment(language: str, piece: str) -> None:
    line = (piece * 199)[:199] if "\n" not in piece else piece * 180
    text = f"```{language}\n" + (line + "\n") * (CODE_CHARACTERS // 200 if "\n" not in piece else 1) + "```"
    began = process_time()
    check_harmless(rendered(text))
    assert process_time() - began < 5  # without the limits on code: minutes


@pytest.mark.parametrize(
    ("text", "reasoning", "said"),
    [
        ("<think>one two</think>\n\nfour", "one two", "four"),
        ("\n<THINK>\none\n</THINK>four", "one", "four"),
        ("<think>never ends", "never ends", ""),
        ("<think></think>four", "", "four"),
        ("<think>a</think><think>b</think>c", "a\n\nb", "c"),
        ("one\n</think>\nfour", "one", "four"),
        ("```\n</think>\n```\nfour", "", "```\n</think>\n```\nfour"),
        ("say <think>x</think>", "", "say <think>x</think>"),
    ],
)
def test_reasoning_is_taken_off_the_beginning(text: str, reasoning: str, said: str) -> None:
    assert split_reasoning(text)[0] == reasoning
    assert split_reasoning(text)[1].strip() == said
    assert ("Reasoning (" in rendered_answer(text)) == bool(reasoning)
