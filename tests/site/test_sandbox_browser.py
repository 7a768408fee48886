"""Pages that attack the other answer, their sandbox or the vote, in a real browser."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING

import pytest

from tests.browsers import new_context
from tests.site.galleries import Gallery, Outside, context, gallery, visit
from tiltyard.arena.intake.media.markup import clean_html

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Frame, Page, Route

__all__ = ["context", "gallery"]

GAME = b"""<h1>Game</h1><script>window.name = "rival"; keys = ""; heard = 0;
addEventListener("message", () => heard++); addEventListener("keydown", (event) => { keys += event.key })</script>"""
"""An honest page that counts what reaches it."""


def run(page: Page, place: int) -> None:
    """Run one of the two pages, and wait until it is up."""
    page.locator("[data-do=run]").nth(place).click(no_wait_after=True)
    page.locator(".view").nth(place).and_(page.locator("[data-state=ready]")).wait_for()


def pages_of(page: Page) -> list[Frame]:
    """The pages that are running, A before B."""
    return [frame for frame in page.frames if "/shown/" in frame.url]


SIBLING = b"""<h1>Sibling</h1><script>
setInterval(() => { for (let place = 0; place < parent.length; place++) if (parent.frames[place] !== window) {
  for (let i = 0; i < 260; i++) parent.frames[place].postMessage("tiltyard:ping", "*");
  try { parent.frames[place].location = "about:blank" } catch {}
  try { parent.frames[place].close() } catch {}
} }, 100);
seen = () => [parent.length, window.name, document.referrer, innerWidth, innerHeight, screenX, screenLeft];
addEventListener("mousemove", (event) => { offset = event.screenX - event.clientX });
setInterval(() => { window.focus(); document.querySelector("input").focus(); open("", "rival")?.close() }, 50);
</script><input autofocus>"""


def test_a_page_neither_reaches_the_other_one_nor_learns_its_own_side(
    gallery: Gallery, context: BrowserContext
) -> None:
    gallery.show("html", SIBLING)
    page = visit(context)
    run(page, 0)
    run(page, 1)
    page.wait_for_timeout(700)
    assert page.locator(".view").evaluate_all("(views) => views.map((view) => view.dataset.state)") == [
        "ready",
        "ready",
    ]
    for box in page.locator(".view .screen").all():
        box.hover()
        page.mouse.move(*(box.bounding_box()[side] + 20 for side in "xy"))  # type: ignore[index]
    a, b = pages_of(page)
    assert a.evaluate("seen()") == b.evaluate("seen()")
    assert a.evaluate("seen().slice(0, 3)") == [0, "", ""]
    assert a.evaluate("offset") == b.evaluate("offset") == 0
    for frame in (a, b):  # the address that a page has is all that it was told: the voter's browser can read it, too
        token = frame.url.rpartition("/")[2]
        matchup = page.locator(".ballot [name=matchup_id]").get_attribute("value")
        assert matchup
        assert matchup not in frame.evaluate("(token) => atob(token.replaceAll('-', '+').replaceAll('_', '/'))", token)


def test_an_attack_on_the_other_page_neither_stops_it_nor_takes_its_keys(
    gallery: Gallery, context: BrowserContext
) -> None:
    gallery.show("html", SIBLING, GAME, GAME, GAME)
    for _ in range(12):
        page = visit(context)
        run(page, 0)
        run(page, 1)
        attacked = page.locator(".view").evaluate_all("(views) => views.map((view) => view.dataset.state)")
        kinds = [frame.evaluate("typeof keys") for frame in pages_of(page)]
        if set(kinds) == {"string", "undefined"}:
            break
        page.close()
        context.clear_cookies()
    rival = kinds.index("string")
    page.locator(".view .screen").nth(rival).click()
    page.wait_for_timeout(600)
    page.keyboard.press("ArrowUp")
    page.keyboard.press("a")
    page.wait_for_timeout(600)
    assert attacked == ["ready", "ready"]
    assert pages_of(page)[rival].evaluate("[keys, heard]") == ["ArrowUpa", 0]
    assert page.locator(".view").nth(rival).get_attribute("data-state") == "ready"
    assert "was stopped" not in page.locator(".answers").inner_text()


INNER = (
    "<script>parent.postMessage('NAME', '*');"
    "const c = new RTCPeerConnection({iceServers: [{urls: 'stun:STUN'}]}); c.createDataChannel('x');"
    "c.createOffer().then((o) => c.setLocalDescription(o))</script>"
)
FRAME = f'<iframe srcdoc="{html.escape(INNER)}"></iframe>'
ROOT = f"<div><template shadowrootmode=open>{FRAME}</template></div>"

BY_SCRIPT = {
    "setHTMLUnsafe": "host.setHTMLUnsafe(ROOT)",
    "parseHTMLUnsafe": "host.append(Document.parseHTMLUnsafe(ROOT).body.firstChild)",
    "setHTML": """host.setHTML('<p><template shadowroot' + 'mode=open><b>x</b></template></p>', { sanitizer: {} });
        host.firstChild.shadowRoot.innerHTML = FRAME""",
    "any other way to set markup": """
        for (const owner of [Element, ShadowRoot, DocumentFragment, Document, Range, CharacterData])
            for (const [what, names] of [[owner, owner], [host, owner.prototype]])
                for (const name of Object.getOwnPropertyNames(names)) if (/HTML/.test(name) && name !== 'outerHTML')
                    try { const made = what[name](ROOT); host.append(made.body ?? made) } catch {}""",
    "a copy of a root": """const one = document.createElement('div');
        one.attachShadow({ mode: 'open', clonable: true }).innerHTML = FRAME;
        host.append(one.cloneNode(true), document.importNode(one, true))""",
    "a copy that every object asks for": """Object.prototype.clonable = true; const one = document.createElement('div');
        one.attachShadow({ mode: 'closed' }).innerHTML = FRAME; host.append(one.cloneNode(true))""",
    "a closed root": "host.attachShadow({ mode: 'closed' }).innerHTML = FRAME",
    "a frame and a busy thread": "host.innerHTML = FRAME; for (const end = Date.now() + 150; Date.now() < end;);",
    "an attribute from elsewhere": """const from = document.createElement('p'); from.setAttribute('src' + 'doc', INNER);
        const made = document.createElement('iframe'), attribute = from.attributes[0];
        from.removeAttributeNode(attribute);
        made.setAttributeNode(attribute); host.append(made); for (const end = Date.now() + 150; Date.now() < end;);""",
    "what is written": "document.write('<div><template shadowroot', 'mode=open>', FRAME, '</template></div>')",
    "a fragment": "host.append(document.createRange().createContextualFragment(ROOT))",
    "a parsed document": "host.append(...new DOMParser().parseFromString(ROOT, 'text/html').body.children)",
    "a transformed document": """
        const t = new XSLTProcessor(), xml = (text) => new DOMParser().parseFromString(text, 'text/xml');
        t.importStylesheet(xml('<x:stylesheet version="1.0" xmlns:x="http://www.w3.org/1999/XSL/Transform">'
          + '<x:output method="html"/><x:template match="/"><html><body>' + ROOT.replace('=open', '="open"')
          + '</body></html></x:template></x:stylesheet>'));
        host.append(t.transformToDocument(xml('<x/>')).body.firstChild)""",
    "an address that is a script": "location = 'javascript:' + encodeURIComponent('`' + INNER + '`')",
    "a link that is a script": """const link = document.createElement('a'); host.append(link);
        link.href = 'javascript:' + encodeURIComponent('`' + INNER + '`'); link.click()""",
}
BY_MARKUP = {
    "an open root": ROOT,
    "a closed root": ROOT.replace("open", "closed"),
    "capitals and a space": ROOT.replace("shadowrootmode", "ShadowRootMode "),
    "a template": f"<template id=t>{ROOT}</template><script>document.body.append(t.content.cloneNode(true))</script>",
    "a root that can be copied": f"<p id=d>{ROOT.replace('open', 'open shadowrootclonable')}</p>"
    "<script>document.body.append(d.cloneNode(true))</script>",
    "what only looks like a style": f"<svg><style><p>{ROOT}</p></style></svg>",
    "what only looks like a script": f"<svg><script><p>{ROOT}</p></script></svg>",
    "a frame alone": FRAME,
    "a quote that does not end": f"<div title='>{ROOT}<p title='>",
}
BROKEN_TOOLS = """
    String.prototype.slice = String.prototype.replace = RegExp.prototype.exec = RegExp.prototype.test = () => "";
    String.prototype.replaceAll = function () { return this }; Array.prototype[Symbol.iterator] = function* () {};
    Element.prototype.remove = Document.prototype.querySelector = MutationObserver.prototype.observe = () => null;
    Reflect.apply = Function.prototype.call = Function.prototype.apply = () => 0;
    host.innerHTML = FRAME; const one = document.createElement("div"); host.append(one);
    one.attachShadow({ mode: "open" }).innerHTML = ROOT"""
ATTACKS = {"scripts": BY_SCRIPT, "markup": BY_MARKUP, "broken tools": {"broken tools": BROKEN_TOOLS}}


def attack(name: str, code: str) -> str:
    """A script that tries to make a frame, in an element of its own; the cleaner recognizes no word of it."""
    words = {"INNER": INNER, "FRAME": FRAME, "ROOT": ROOT}
    made = ", ".join(f"{word} = {text.replace('NAME', name)!r}" for word, text in words.items())
    for word in ("src|doc", "shadowroot|mode", "</|script>"):
        made = made.replace(word.replace("|", ""), word.replace("|", "' + '"))
    return (
        f"<script>{{ const host = document.createElement('div'), {made}; document.body.append(host); {code} }}</script>"
    )


@pytest.mark.parametrize("kind", ATTACKS)
def test_no_markup_brings_back_a_frame_with_a_program(gallery: Gallery, browser: Browser, kind: str) -> None:
    """Without the header that Chromium alone knows; with it, a frame that got through ended the whole tab."""
    context = new_context(browser, base_url=gallery.url)
    outside = Outside()

    def elsewhere(route: Route) -> None:
        answer = route.fetch()
        headers = {name: value for name, value in answer.headers.items() if name != "connection-allowlist"}
        route.fulfill(response=answer, headers=headers)

    context.route("**/shown/*", elsewhere)
    attacks = [
        code.replace("NAME", name) if kind == "markup" else attack(name, code) for name, code in ATTACKS[kind].items()
    ]
    listening = "<p id=got></p><script>addEventListener('message', (event) => got.append(event.data + ','))</script>"
    text = f"<h1>Attack</h1>{listening}{''.join(attacks)}"
    gallery.show("html", clean_html(text.replace("STUN", f"127.0.0.1:{outside.udp.getsockname()[1]}").encode()))
    page = visit(context)
    run(page, 0)
    page.wait_for_timeout(700)
    got_through = pages_of(page)[0].locator("#got").text_content()
    context.close()
    assert (got_through, outside.reached) == ("", 0)
    outside.close()


def test_keys_of_a_page_that_has_run_do_not_vote(gallery: Gallery, context: BrowserContext) -> None:
    gallery.show("html", GAME)
    page = visit(context)
    page.wait_for_timeout(800)
    posts: list[str] = []
    page.on("request", lambda request: posts.append(request.url) if request.method == "POST" else None)
    keys = ("a", "b", "t", "x", "s", "ArrowLeft", "ArrowRight")

    def press_all() -> None:
        for key in keys:
            page.keyboard.press(key)

    run(page, 0)
    press_all()
    run(page, 1)
    press_all()
    assert [frame.evaluate("keys") for frame in pages_of(page)] == ["".join(keys)] * 2, "the page that was run last"
    page.locator("h1").click()
    press_all()
    page.get_by_role("button", name="Stop").first.focus()
    press_all()
    page.get_by_text("Keys", exact=False).locator("visible=true").first.click()
    assert "only with the focus on a button of the ballot" in page.locator("#keys").inner_text()
    page.locator(".view .screen").last.click()
    press_all()
    assert posts == []
    page.keyboard.press("Escape")
    page.locator(".ballot:focus").wait_for()
    press_all()  # Escape made the game pause, and somebody plays on
    page.wait_for_timeout(100)
    assert posts == []
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowLeft")
    page.wait_for_selector(".held-back")
    assert [post.rpartition("/")[2] for post in posts] == ["vote"]


PUSHY = b"""<h1>Pushy</h1><script>keys = "";
addEventListener("keydown", (event) => { keys += event.code });
const { get } = Object.getOwnPropertyDescriptor(MessageEvent.prototype, "ports");
const say = (event) => { for (const door of get.call(event)) setInterval(() => door.postMessage("escape"), 20) };
const lie = (owner, name, value) => Object.defineProperty(owner.prototype, name, { get() {
  if (owner === MessageEvent) say(this);
  return value;
} });
addEventListener("message", say, true);
lie(KeyboardEvent, "key", LIE); lie(MessageEvent, "data", "tiltyard:ping"); lie(MessageEvent, "source", parent);
lie(MessageEvent, "ports", [new MessageChannel().port1]);
postMessage("tiltyard:ping", "*", [new MessageChannel().port2]);
setInterval(() => { for (const words of ["tiltyard:escape", "escape"]) parent.postMessage(words, "*") }, 50)</script>"""


@pytest.mark.parametrize("lie", [b"'Escape'", b"'x'"])
def test_escape_alone_leads_out_of_either_page_whatever_pages_say(
    gallery: Gallery, context: BrowserContext, lie: bytes
) -> None:
    gallery.show("html", PUSHY.replace(b"LIE", lie))
    page = visit(context)
    run(page, 0)
    run(page, 1)
    for place in (0, 1, 0):
        page.locator(".view .screen").nth(place).click()
        page.wait_for_timeout(200)
        page.keyboard.press("a")
        page.keyboard.press("b")
        assert pages_of(page)[place].evaluate("[document.hasFocus(), keys.slice(-8)]") == [True, "KeyAKeyB"]
        page.keyboard.press("Escape")
        page.locator(".ballot:focus").wait_for()
    for key in ("ArrowLeft", "a", "Enter", " ", "s"):
        page.keyboard.press(key)
    page.wait_for_timeout(100)
    assert page.locator(".ballot").count() == 1
    page.locator("h1").focus()
    page.wait_for_timeout(100)
    assert page.evaluate("document.activeElement.tagName") == "H1", "a page without the focus has none to give back"


PAINTER = b"""<h1>Painter</h1><form id=form><input required autofocus id=field><button id=send>Send</button></form>
<div id=host></div><x-own tabindex=0>own</x-own><script>
const words = 'Answer B is broken. '.repeat(40);
inside = host.attachShadow({ mode: 'open' });
inside.innerHTML = '<form><input required><button>Send</button></form>';
for (const each of [field, inside.querySelector('input')]) each.setCustomValidity(words);
customElements.define('x-own', class extends HTMLElement {
  static formAssociated = true;
  internals = this.attachInternals();
  connectedCallback() { this.internals.setValidity({ customError: true }, words) }
})</script>"""

PAINTS = {
    "a field": "field.reportValidity()",
    "its form": "form.reportValidity()",
    "a click on its button": "send.click()",
    "a sending by script": "form.requestSubmit(send)",
    "a field in a shadow root": "inside.querySelector('input').reportValidity()",
    "a click in a shadow root": "inside.querySelector('button').click()",
    "an element of the page's own": "document.querySelector('x-own').internals.reportValidity()",
    "a field where nobody listens any more": """const { field } = window; document.open();
        const root = document.documentElement ?? document.appendChild(document.createElement('html'));
        root.append(field); field.reportValidity()""",
}

MOVING = """async () => { for (const color of ["red", ""]) {
  document.body.style.background = color;
  for (let i = 0; i < 2; i++) await new Promise(requestAnimationFrame);
} }"""
"""A page that shares a process with another is given the other's words when it is next drawn."""


def test_no_words_of_the_browser_are_drawn_from_one_box_over_the_other(
    gallery: Gallery, context: BrowserContext
) -> None:
    gallery.show("html", PAINTER)
    page = visit(context)
    page.set_viewport_size({"width": 1280, "height": 900})
    run(page, 0)
    run(page, 1)
    page.locator("h1").first.click()
    page.wait_for_timeout(300)
    box = page.locator(".view .screen").first.bounding_box()
    rival, attacker = pages_of(page)
    before = page.screenshot(clip=box)
    painted = []
    for name, code in PAINTS.items():
        attacker.evaluate(f"() => {{ {code} }}")
        page.wait_for_timeout(150)
        rival.evaluate(MOVING)
        if page.screenshot(clip=box) != before:
            painted.append(name)
    assert painted == []
    assert page.locator(".view[data-state=ready]").count() == 2
