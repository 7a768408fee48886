"""Drawings that would keep a browser busy are refused; those that people and models make are not."""

from __future__ import annotations

import base64
import re
import time
from typing import TYPE_CHECKING

import pytest

from tests.arena.planted import FILES
from tiltyard.arena.intake.media import clean
from tiltyard.data.bank import AnswerKind
from tiltyard.errors import BankError

if TYPE_CHECKING:
    from playwright.sync_api import Browser

OPEN = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 800 800">'
RECT = '<rect width="800" height="800" {}/>'


def _filter(inside: str, times: int = 1, more: str = "", how: str = 'filter="url(#f)"') -> str:
    return f'{OPEN}<filter id="f" {more}>{inside}</filter>{RECT.format(how) * times}</svg>'


def _laughs(of: str, how: str) -> str:
    levels = [f'<{of} id="l0" width="9" height="9"><rect width="1" height="1"/></{of}>']
    for level in range(1, 8):
        inside = RECT.format(how.format(level - 1)) if "href" not in how else f"<use {how.format(level - 1)}/>"
        levels.append(f'<{of} id="l{level}" width="9" height="9">{inside * 10}</{of}>')
    last = RECT.format(how.format(7)) if "href" not in how else f"<use {how.format(7)}/>"
    return f"{OPEN}<defs>{''.join(levels)}</defs>{last}</svg>"


PLAIN, PATTERNED, GRADED = RECT.format(""), RECT.format('fill="url(#p)"'), RECT.format('fill="url(#g)"')
BLUR = '<feGaussianBlur stdDeviation="9"/>'


def _styled(sheet: str, how: str = "") -> str:
    return _filter(BLUR, 200, how=how).removesuffix("</svg>") + f"<style>{sheet}</style></svg>"


def _more(more: str) -> str:
    return _filter(BLUR).removesuffix("</svg>") + more + "</svg>"


GROWS = '<animate attributeName="r" to="900" dur="1s"/>'
REFUSED = {
    "octaves": (_filter('<feTurbulence baseFrequency=".01" numOctaves="200000"/>'), "numOctaves='200000'"),
    "blur": (_filter('<feGaussianBlur stdDeviation="5 900"/>'), "stdDeviation='5 900', which keeps browsers busy"),
    "radius": (_filter('<feMorphology radius="300"/>'), "radius='300'"),
    "order": (_filter('<feConvolveMatrix order="40" kernelMatrix="1"/>'), "order='40'"),
    "region": (_filter(BLUR, more='x="-5000%" width="9000%"'), "x='-5000%'"),
    "region in units": (_filter(BLUR, more='filterUnits="userSpaceOnUse" width="1e9"'), "width='1e9'"),
    "blurs by attribute": (_filter(BLUR, 200), "too long to draw"),
    "blurs by style": (_filter(BLUR, 200, how='style="filter: url(#f)"'), "too long to draw"),
    "blurs by class": (_styled("g .b{filter:url(#f)}", 'class="a b"'), "too long to draw"),
    "blurs by selector": (_styled("rect:nth-child(n){filter:url(#f)}"), "too long to draw"),
    "blurs by keyframes": (_styled("@keyframes k{from{filter:url(#f)}} .a{animation:k 1s}"), "moves, and takes"),
    "blurs by function": (_filter("", 200, how='style="filter:blur(9px)"'), "too long to draw"),
    "blurs by variable": (_filter(BLUR, 200, how='style="--f:url(#f);filter:var(--f)"'), r"url\(\) in a variable"),
    "blurs that move": (
        _filter(BLUR, 40)[:-6] + '<animate attributeName="x" to="9" dur="1s"/></svg>',
        "moves, and takes",
    ),
    "blurs by an escape": (_filter("", 200, how='style="filter:b\\6c ur(9px)"'), "too long to draw"),
    "blurs by inheritance": (_filter(BLUR, 200, how='style="filter:inherit"'), "too long to draw"),
    "a paint of the group": (f'{OPEN}<linearGradient id="g"/><g fill="url(#g)">{PLAIN * 2000}</g></svg>', "too long"),
    "scaled": (_more('<g transform="scale(900)">' + '<circle r="1" filter="url(#f)"/>' * 60 + "</g>"), "too long"),
    "growing": (_more(('<circle r="1" filter="url(#f)">' + GROWS + "</circle>") * 20), "moves, and takes"),
    "layers": (OPEN + f'<g opacity=".5">{PLAIN}</g>' * 400 + "</svg>", "too long to draw"),
    "use": (_laughs("g", 'href="#l{}"'), "more than 3,000 ms"),
    "pattern": (_laughs("pattern", 'fill="url(#l{})"'), "too long to draw"),
    "mask": (_laughs("mask", 'mask="url(#l{})"'), "too long to draw"),
    "clip": (_laughs("clipPath", 'clip-path="url(#l{})"'), "too long to draw"),
    "itself": (f'{OPEN}<g id="a"><use href="#a"/></g></svg>', "too long to draw"),
    "markers": (
        f'{OPEN}<marker id="m">{PLAIN * 50}</marker><path marker-mid="url(#m)" d="M0 0{"L1 2" * 2000}"/></svg>',
        "too long",
    ),
    "elements": (OPEN + PLAIN * 12_000 + "</svg>", "too long to draw"),
    "a path": (f'{OPEN}<path d="M0 0{"L799 1L1 799" * 200_000}"/></svg>', "has 400,001 points"),
    "points": (
        f'{OPEN}<path fill-rule="evenodd" d="M0 0{"L799 1L1 799" * 26_000}"/></svg>',
        "has 52,001 points, which keeps browsers busy; at most 50,000 are shown",
    ),
    "points that move": (
        f'{OPEN}<path><animate attributeName="d" values="{"1 2 " * 60_000}"/></path></svg>',
        "60,000 points",
    ),
    "long dashed lines": (
        OPEN + '<path stroke-width="200" stroke-dasharray="1 .5" d="M-90000 1L90000 500"/>' * 300 + "</svg>",
        "too long",
    ),
    "one long dashed line": (f'{OPEN}<line x1="-90000" x2="90000" stroke-dasharray=".5"/></svg>', "too long"),
    "dashes of a group": (
        OPEN + '<g style="stroke-dasharray:.5">' + '<circle r="300"/>' * 50 + "</g></svg>",
        "too long",
    ),
    "dashes there and back": (f'{OPEN}<path stroke-dasharray="1" d="M0 0{"H800H0" * 100}"/></svg>', "too long"),
    "dashes of letters": (
        OPEN + '<text font-size="100000" stroke-dasharray="3">Wg@</text>' * 100 + "</svg>",
        "too long",
    ),
    "dashes that are calculated": (
        f'{OPEN}<path style="stroke-dasharray:calc(1px/900)" d="M0 0H800"/></svg>',
        "too long",
    ),
    "dashes that become small": (
        f'{OPEN}<path d="M0 0H800"><animate attributeName="stroke-dasharray" values="9;.01"/></path></svg>',
        "moves, and takes",
    ),
    "own gradients": (
        OPEN
        + "".join(f'<linearGradient id="g{i}"/><rect width="1" fill="url(#g{i})"/>' for i in range(501))
        + "</svg>",
        "has 501 gradients; at most 500",
    ),
    "gradients in a chain": (
        OPEN + "".join(f'<linearGradient id="g{i}" href="#g{i + 1}"/>' for i in range(30)) + "</svg>",
        "refer to each other more than 20 times",
    ),
    "blend modes": (
        OPEN + '<rect width="1" height="1" style="mix-blend-mode:color-dodge"/>' * 400 + "</svg>",
        "too long to draw",
    ),
    "merged": (_filter(f"<feMerge>{'<feMergeNode/>' * 100}</feMerge>", 20), "too long to draw"),
    "letters": (f"{OPEN}<text>{'a' * 400_000}</text></svg>", "too long to draw"),
    "large letters": (OPEN + '<text font-size="300">Wg@123</text>' * 4000 + "</svg>", "too long to draw"),
    "large letters of a group": (f'{OPEN}<g font-size="300">{"<text>Wg@123</text>" * 4000}</g></svg>', "too long"),
    "a path to and fro": (f'{OPEN}<path d="M0 0{"L799 1L1 799" * 9000}"/></svg>', "too long to draw"),
    "arcs": (f'{OPEN}<path d="M0 0{"A400 400 0 1 1 9 700A9 300 0 1 1 700 9" * 4500}"/></svg>', "too long to draw"),
    "letters along a path": (
        f'{OPEN}<path id="p" d="M0 0{"Q1 2 3 4" * 2000}"/>'
        + f'<text><textPath href="#p">{"word " * 200}</textPath></text>' * 60
        + "</svg>",
        "too long to draw",
    ),
    "transforms": (f'{OPEN}<rect transform="{"rotate(1)" * 200_000}"/></svg>', "100,000 points"),
    "has": (_more("<style>g:has (rect){fill:red} g:HAS(rect){fill:red}</style>"), r":has\(\) in its styles"),
    "rules": (
        f"{OPEN}<style>{''.join(f'.a{i} ~ * > *:nth-child({i}n){{fill:red}}' for i in range(3000))}</style>"
        + '<g class="b"><rect width="1" height="1"/></g>' * 3000
        + "</svg>",
        "more than 333 declarations for 6,002 elements",
    ),
    "selectors": (f"{OPEN}<style>{'*,' * 9000}*{{{'x:y;' * 9000}}}</style></svg>", "take too long to apply"),
    "dashes": (OPEN + '<path d="M0 0H800" stroke-dasharray=".001"/>' * 100 + "</svg>", "too long to draw"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_drawing_that_keeps_a_browser_busy_is_refused_with_the_reason(name: str) -> None:
    drawing, reason = REFUSED[name]
    began = time.process_time()
    with pytest.raises(BankError, match=reason):
        clean(AnswerKind.SVG, drawing.encode())
    assert time.process_time() - began < 10.0


def _dots(count: int, how: str) -> str:
    return "".join(f'<circle cx="{37 * i % 800}" cy="{53 * i % 800}" r="20" {how}/>' for i in range(count))


GLOW = '<feGaussianBlur stdDeviation="12" result="b"/><feMerge><feMergeNode in="b"/><feMergeNode/></feMerge>'
TURNING = '<animateTransform attributeName="transform" type="rotate" to="360" dur="2s"/>'
FILTERED, PATTERN, GRADIENT = 'filter="url(#f)"', 'fill="url(#p)"', 'fill="url(#g)"'
WIDE = 'x="-50%" y="-50%" width="200%" height="200%"'
SHADOW = '<filter id="f"><feDropShadow dx="2" stdDeviation="3"/></filter><style>.a{filter:url(#f)}</style>'
ORDINARY = {
    "glow": [f'<filter id="f">{GLOW}</filter>', _dots(100, FILTERED)],
    "clouds": [
        f'<filter id="f" {WIDE}><feTurbulence baseFrequency=".02" numOctaves="5"/></filter>',
        RECT.format(FILTERED),
    ],
    "shadow": [SHADOW, _dots(200, 'class="a"')],
    "many shapes": ['<path d="M1 2C3 4 5 6 7 8z"/>' * 8000],
    "a pattern": [f'<pattern id="p" width="9" height="9">{_dots(9, "")}</pattern>', _dots(50, PATTERN)],
    "moving": [f"<g>{_dots(1, '')}{TURNING}</g>" * 200],
    "gradients": ['<linearGradient id="g"><stop/></linearGradient>', GRADED, _dots(3000, GRADIENT)],
    "groups that glow": [f'<filter id="f">{GLOW}</filter>', f"<g {FILTERED}>{_dots(5, '')}</g>" * 20],
    "dashed lines": ['<path stroke="red" stroke-dasharray="4 4" d="M0 9L800 9L800 200"/>' * 50],
    "a line that draws itself": [
        f'<path pathLength="1" stroke-dasharray="1" d="M0 0{"L1 2L799 3" * 500}"><animate '
        'attributeName="stroke-dashoffset" from="1" to="0" dur="2s"/></path>'
    ],
    "a spinner": ['<circle r="50"><animate attributeName="stroke-dasharray" values="1,150;90,150" dur="2s"/></circle>'],
    "blended": ['<rect width="9" height="9" style="mix-blend-mode:multiply"/>' * 60],
    "a style sheet": ["<style>" + ".a{fill:red;stroke:blue}" * 50 + "</style>", _dots(2000, "")],
    "text along a path": ['<path id="p" d="M0 9L800 9"/><text><textPath href="#p">A line of words</textPath></text>'],
    "a traced picture": [f'<g transform="scale(.1 -.1)"><path d="m90 90{"c-20 31 9 14 42 -40" * 5000}z"/></g>'],
    "a page of text": ["<style>text{font-size:14px}</style>", f"<text>{'A line of words ' * 5}</text>" * 60],
    "copies": [f'<g id="tree">{_dots(12, "")}</g>', '<use href="#tree" x="9"/>' * 300],
}


@pytest.mark.parametrize("name", ORDINARY)
def test_ordinary_drawings_pass_with_all_their_elements(name: str) -> None:
    given = f"{OPEN}{''.join(ORDINARY[name])}</svg>"
    made = clean(AnswerKind.SVG, given.encode()).content.decode()
    assert re.findall(r"<\w+", made) == re.findall(r"<\w+", given)


def test_an_animation_of_how_much_a_filter_does_is_left_out() -> None:
    moving = '<feTurbulence numOctaves="1"><animate attributeName="numOctaves" to="200000" dur="1s"/></feTurbulence>'
    assert b"animate" not in clean(AnswerKind.SVG, _filter(moving).encode()).content


@pytest.mark.parametrize("name", ["glow", "clouds"])
def test_what_passes_is_drawn_while_the_page_goes_on(browser: Browser, name: str) -> None:
    given = f"{OPEN}{''.join(ORDINARY[name])}</svg>"
    made = base64.b64encode(clean(AnswerKind.SVG, given.encode()).content).decode()
    page = browser.new_page(viewport={"width": 900, "height": 900})
    page.set_content("<body></body>")
    page.evaluate(
        "async (source) => { const i = new Image(); i.src = source; document.body.append(i); await i.decode(); }",
        f"data:image/svg+xml;base64,{made}",
    )
    began = time.perf_counter()
    assert page.evaluate("1 + 1") == 2
    assert time.perf_counter() - began < 2.0
    page.close()


def test_the_samples_of_drawings_pass() -> None:
    assert clean(AnswerKind.SVG, FILES["svg", "svg"]()).content
