"""Pages that attack the voter, their sandbox or the tab, in Chromium and in Firefox; and what either says of ours."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol

import pytest

from tests.browsers import new_context
from tests.firefoxes import Firefox, firefox
from tests.site.galleries import Gallery, Outside, gallery, open_gallery, settled, visit
from tests.site.sites import ADMIN_SECRET
from tests.site.test_sandbox_browser import ATTACKS, PAINTER, PAINTS, PUSHY, SIBLING, attack, pages_of
from tests.site.test_views_browser import FLOOD, GAPS, HERE
from tests.site.test_walk_browser import ADMIN, PUBLIC, address
from tiltyard.arena.intake.media.markup import clean_html

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Browser, Route

__all__ = ["address", "gallery"]

WIDTH, HEIGHT = 800, 500


KEYS = {"Escape": "\ue00c", "ArrowLeft": "\ue012", "Enter": "\ue007"}
"""Keys as WebDriver writes them."""


class Voter(Protocol):
    """Somebody with a pair of pages, in either browser."""

    def open(self, address: str) -> None: ...
    def site(self, script: str) -> Any: ...
    def answer(self, place: int, script: str) -> Any: ...
    def click(self, x: float, y: float) -> None: ...
    def wheel(self, x: int, y: int, pixels: int) -> None: ...
    def press(self, key: str, *, control: bool = False) -> None: ...
    def clipboard(self, text: str | None = None) -> str: ...
    def got(self) -> str: ...


class InFirefox:
    """A voter with Firefox."""

    def __init__(self, tab: Firefox) -> None:
        self.tab = tab
        self.click = tab.click

    def open(self, address: str) -> None:
        self.tab.ask("WebDriver:DeleteAllCookies")
        self.tab.go(address)

    def site(self, script: str) -> Any:
        return self.tab.run(script)

    def answer(self, place: int, script: str, sandbox: str | None = None) -> Any:
        frame = self.tab.run(
            f"return document.querySelectorAll('.view')[{place}].querySelector('.frame').shadowRoot.firstChild"
        )
        self.tab.ask("WebDriver:SwitchToFrame", element=next(iter(frame.values())))
        try:
            return self.tab.run(script, sandbox=sandbox)
        finally:
            self.tab.ask("WebDriver:SwitchToParentFrame")

    def got(self) -> str:
        return str(self.answer(0, "return document.querySelector('#got').textContent", sandbox="of its own"))

    def wheel(self, x: int, y: int, pixels: int) -> None:
        turn = {"type": "scroll", "x": x, "y": y, "deltaX": 0, "deltaY": pixels, "duration": 0}
        self.tab.act({"type": "wheel", "id": "wheel"}, turn)

    def press(self, key: str, *, control: bool = False) -> None:
        keys = [*["\ue009"] * control, KEYS.get(key, key)]
        down = [{"type": "keyDown", "value": each} for each in keys]
        up = [{"type": "keyUp", "value": each} for each in reversed(keys)]
        self.tab.act({"type": "key", "id": "keys"}, *down, *up)

    def clipboard(self, text: str | None = None) -> str:
        if text is not None:
            self.tab.browser(
                f"Cc['@mozilla.org/widget/clipboardhelper;1'].getService(Ci.nsIClipboardHelper).copyString({text!r})"
            )
        return str(
            self.tab.browser(
                "const wanted = Cc['@mozilla.org/widget/transferable;1'].createInstance(Ci.nsITransferable);"
                "const found = {}; wanted.init(null); wanted.addDataFlavor('text/plain');"
                "Services.clipboard.getData(wanted, Services.clipboard.kGlobalClipboard);"
                "wanted.getTransferData('text/plain', found);"
                "return found.value.QueryInterface(Ci.nsISupportsString).data"
            )
        )


class InChromium:
    """A voter with Chromium."""

    def __init__(self, browser: Browser) -> None:
        self.context = new_context(browser, viewport={"width": WIDTH, "height": HEIGHT}, reduced_motion="reduce")
        self.other, self.page = self.context.new_page(), self.context.new_page()
        self.click = self.page.mouse.click

    def open(self, address: str) -> None:
        self.context.clear_cookies()
        self.context.grant_permissions(["clipboard-read", "clipboard-write"], origin=address)
        self.other.goto(f"{address}/robots.txt")
        self.page.bring_to_front()
        self.page.goto(address)

    def site(self, script: str) -> Any:
        return self.page.evaluate(f"() => {{ {script} }}")

    def answer(self, place: int, script: str) -> Any:
        return pages_of(self.page)[place].evaluate(f"() => {{ {script} }}")

    def got(self) -> str:
        return str(pages_of(self.page)[0].locator("#got").text_content())

    def wheel(self, x: int, y: int, pixels: int) -> None:
        self.page.mouse.move(x, y)
        self.page.mouse.wheel(0, pixels)

    def press(self, key: str, *, control: bool = False) -> None:
        self.page.keyboard.press(f"Control+{key}" if control else key)

    def clipboard(self, text: str | None = None) -> str:
        if text is not None:
            self.other.evaluate("(text) => navigator.clipboard.writeText(text)", text)
        return str(self.other.evaluate("() => navigator.clipboard.readText()"))


@pytest.fixture(scope="module")
def firefox_of_all() -> Iterator[Firefox]:
    with firefox() as tab:
        tab.ask("WebDriver:SetWindowRect", width=WIDTH, height=HEIGHT)
        yield tab


@pytest.fixture
def in_firefox(firefox_of_all: Firefox) -> InFirefox:
    """A voter for what other files try in Chromium."""
    return InFirefox(firefox_of_all)


@pytest.fixture(params=["chromium", "firefox"])
def voter(
    request: pytest.FixtureRequest, awake_browser: Callable[[], AbstractContextManager[Browser]]
) -> Iterator[Voter]:
    if request.param == "firefox":
        yield request.getfixturevalue("in_firefox")
        return
    with awake_browser() as opened:
        made = InChromium(opened)
        yield made
        made.context.close()


def until(voter: Voter, condition: str) -> None:
    """Wait until something is true on the site's page."""
    end = time.monotonic() + 20
    while not voter.site(f"return {condition}"):
        assert time.monotonic() < end, condition
        time.sleep(0.03)


def show(voter: Voter, gallery: Gallery, *pages: str) -> None:
    """Give a new voter a pair of these pages."""
    gallery.show("html", *(page.encode() for page in pages))
    voter.open(gallery.url)
    voter.site("document.querySelector('form button').click()")
    until(voter, "document.querySelector('.ballot') !== null")


def run(voter: Voter, place: int, state: str = "ready") -> None:
    voter.site(f"document.querySelectorAll('[data-do=run]')[{place}].click()")
    until(voter, f"document.querySelectorAll('.view')[{place}].dataset.state === '{state}'")


def middle(voter: Voter, selector: str) -> tuple[int, int]:
    """The upper middle of an element that is scrolled to the top of the window, where a hand finds it."""
    voter.site(
        f"const one = document.querySelector('{selector}'); dispatchEvent(new Event('tiltyard:scroll'));"
        "one.scrollIntoView()"
    )
    time.sleep(0.15)  # until the frame is drawn there
    box = f"document.querySelector('{selector}').getBoundingClientRect()"
    x, y = voter.site(f"const box = {box}; return [box.x + box.width / 2, box.y + 30]")
    return round(x), round(y)


PLACES = """<h1>Places</h1><p id=word>some unique word</p><div style="height: 2000px"></div><p id=low tabindex=0>low</p>
<input id=field value=field><div id=edited contenteditable>edited text</div><label id=label for=field>label</label>
<dialog id=dialog><input autofocus></dialog><div id=over popover><input autofocus></div><a id=link href="#low">link</a>
<details id=more><summary>more</summary><p id=inner>inner</p></details>
<svg tabindex=0 id=drawing><a href="#low" id=inside><text y=20>text</text></a></svg><div id=host></div>"""

SCROLLS = {
    "into sight": "low.scrollIntoView()",
    "into sight, smoothly": "low.scrollIntoView({ behavior: 'smooth', block: 'center' })",
    "into sight if needed": "low.scrollIntoViewIfNeeded?.()",
    "focus": "field.focus()",
    "focus of a drawing": "drawing.focus()",
    "focus in a shadow root": "const root = host.shadowRoot ?? host.attachShadow({ mode: 'open' });"
    "root.innerHTML = '<input>'; root.firstChild.focus()",
    "a search": "window.find?.('unique')",
    "an anchor": "link.click()",
    "an anchor of a drawing": "inside.dispatchEvent(new MouseEvent('click', { bubbles: true }))",
    "an address": "location.replace('#low')",
    "a dialog": "dialog.show()",
    "a modal dialog": "dialog.showModal()",
    "a popover": "over.showPopover()",
    "a label": "label.click()",
    "a selection": "field.select(); field.setSelectionRange(1, 2)",
    "an edit": "getSelection().selectAllChildren(edited); document.execCommand('insertText', false, 'more')",
    "a caret": "getSelection().collapse(edited, 0); getSelection().modify('move', 'forward', 'character')",
    "autofocus": "const made = document.createElement('input'); made.autofocus = true; document.body.append(made)",
    "a part that opens": "more.open = true; inner.scrollIntoView()",
    "a loop": "setInterval(() => { low.scrollIntoView(); field.blur(); field.focus();"
    " dialog.close(); dialog.show() }, 5)",
}
TABS = {
    "new entries": "for (let i = 0; i < 60; i++) history.pushState(i, '')",
    "back": "history.back()",
    "far back": "history.go(-2)",
    "forward": "history.forward()",
    "a reload": "history.go(0)",
    "the navigation's back": "window.navigation?.back()",
    "the navigation's entries": "window.navigation?.navigate('#a')",
    "the same, taken from a prototype": "History.prototype.go.call(history, -1);"
    "History.prototype.pushState.call(history, 1, '')",
}
CLIPBOARDS = {
    "the clipboard": "navigator.clipboard.writeText('theirs')",
    "items": "navigator.clipboard.write([new ClipboardItem({ 'text/plain': 'theirs' })])",
    "the prototype's": "const { get } = Object.getOwnPropertyDescriptor(Navigator.prototype, 'clipboard');"
    "get.call(navigator).writeText('theirs')",
    "a copy": "getSelection().selectAllChildren(word); document.execCommand('copy')",
    "a cut": "field.value = 'theirs'; field.focus(); field.select(); document.execCommand(new String('CUT'))",
    "a copy that lies": "RegExp.prototype.exec = RegExp.prototype.test = () => null;"
    "String.prototype.toLowerCase = () => '';"
    "getSelection().selectAllChildren(word); document.execCommand('copy')",
}


def test_a_page_takes_neither_the_scroll_nor_the_tab_nor_the_clipboard(gallery: Gallery, voter: Voter) -> None:
    show(voter, gallery, PLACES)
    run(voter, 0)
    address = voter.site("return location.href")
    voter.clipboard("mine")
    voter.click(*middle(voter, ".view .screen"))  # what a page may do after a click, it tries after one
    got = []
    for name, code in CLIPBOARDS.items():
        voter.answer(0, f"try {{ {code} }} catch {{}}")
        if voter.clipboard() != "mine":
            got.append(name)
            voter.clipboard("mine")
    voter.answer(
        0,
        "addEventListener('copy', (event) => { event.clipboardData.setData('text/plain', 'theirs');"
        " event.preventDefault() }, true); document.activeElement.blur(); getSelection().selectAllChildren(word)",
    )
    voter.press("c", control=True)
    time.sleep(0.1)
    if voter.clipboard() != "some unique word":
        got.append(f"the visitor's own copy: {voter.clipboard()}")
    entries = voter.site("return history.length")
    voter.site("dispatchEvent(new Event('tiltyard:scroll')); scrollTo(0, 0)")
    time.sleep(1.1)  # then nobody scrolls any more
    for name, code in {**TABS, **SCROLLS}.items():
        voter.answer(0, f"try {{ document.activeElement.blur(); scrollTo(0, 0); {code} }} catch {{}}")
        time.sleep(0.12)
        where = voter.site("return [Math.round(scrollY), history.length, location.href]")
        entries += name == "an anchor" and where[1] == entries + 1  # one place in itself is one entry
        if where != [0, entries, address]:
            got.append(f"{name}: {where}")
    assert got == []
    assert voter.site("return document.querySelector('.view').dataset.state") == "ready"


def test_a_visitor_scrolls_over_a_page_that_pins_itself(gallery: Gallery, voter: Voter) -> None:
    show(voter, gallery, f"{PLACES}<script>{SCROLLS['a loop']}</script>".replace("2000px", "20px"))
    run(voter, 0)
    time.sleep(0.5)
    voter.wheel(400, 15, 150)
    until(voter, "scrollY > 100")
    voter.wheel(400, 15, -2000)
    until(voter, "scrollY === 0")
    voter.site("dispatchEvent(new Event('tiltyard:scroll')); scrollTo(0, 0)")
    time.sleep(1.1)
    x, y = 400, round(voter.site("return document.querySelector('.screen').getBoundingClientRect().y + 30"))
    for _ in range(3):  # the page has nothing to scroll itself
        voter.wheel(x, y, 100)
        time.sleep(0.2)
    until(voter, "scrollY > 100")
    time.sleep(0.5)
    assert voter.site("return scrollY") > 100


def test_a_page_that_fills_the_history_is_stopped(gallery: Gallery, voter: Voter) -> None:
    show(
        voter,
        gallery,
        "<h1>Jumps</h1><script>setTimeout(() => { for (let i = 0; i < 45; i++) location.hash = i }, 900)</script>",
    )
    run(voter, 0)
    until(voter, "document.querySelector('.view').dataset.state === 'stopped'")
    assert "history" in voter.site("return document.querySelector('.view-note').textContent")
    assert voter.site("return document.querySelector('.ballot') !== null")


XML = {
    "a parsed XHTML page": """const made = new DOMParser().parseFromString(
        '<body xmlns="http://www.w3.org/1999/xhtml">' + FRAME + '</body>', 'application/xhtml+xml');
        host.append(...made.documentElement.children)""",
    "a name in an entity": """const made = new DOMParser().parseFromString('<!DOCTYPE p [<!ENTITY e "'
        + FRAME.replaceAll('&', '&#38;').replaceAll('"', "'").replace('src' + 'doc', 'src&#100;oc') + '">]>'
        + '<p xmlns="http://www.w3.org/1999/xhtml">&e;</p>', 'application/xhtml+xml');
        host.append(made.documentElement)""",
    "an attribute by default": """const made = new DOMParser().parseFromString('<!DOCTYPE p [<!ATTLIST iframe '
        + 'src' + 'doc CDATA "'
        + FRAME.split('"')[1] + '">]><p xmlns="http://www.w3.org/1999/xhtml"><iframe/></p>', 'text/xml');
        host.append(made.documentElement)""",
    "a drawing with a page": """const made = new DOMParser().parseFromString('<svg xmlns="http://www.w3.org/2000/svg"><foreignObject>'
        + FRAME.replace('<iframe', '<h:iframe xmlns:h="http://www.w3.org/1999/xhtml"').replace('</iframe', '</h:iframe')
        + '</foreignObject></svg>', 'image/svg+xml'); host.append(made.documentElement)""",
    "a name in a space": """const made = document.createElementNS('http://www.w3.org/1999/xhtml', 'h:iframe');
        made.setAttributeNS(null, 'src' + 'doc', INNER); host.append(made)""",
    "a document of its own": """
        const made = document.implementation.createDocument('http://www.w3.org/1999/xhtml', 'html');
        const frame = made.createElement('iframe'); frame.setAttribute('src' + 'doc', INNER); host.append(frame)""",
    "an attribute of another document": """const made = document.implementation.createDocument(null, 'x');
        const attribute = made.createAttributeNS(null, 'src' + 'doc'); attribute.value = INNER;
        const frame = document.createElement('iframe'); frame.setAttributeNodeNS(attribute); host.append(frame)""",
    "a style sheet that computes names": """const X = 'http://www.w3.org/1999/XSL/Transform', t = new XSLTProcessor();
        const make = (parent, name, values) => { const one = parent.appendChild(sheet.createElementNS(X, name));
          for (const key in values) one.setAttribute(key, values[key]); return one };
        const sheet = document.implementation.createDocument(X, 'x:stylesheet');
        sheet.documentElement.setAttribute('version', '1.0');
        const frame = make(make(sheet.documentElement, 'x:template', { match: '/' }), 'x:element', { name: 'iframe' });
        make(frame, 'x:attribute', { name: "src{'doc'}" }).textContent = INNER; t.importStylesheet(sheet);
        host.append(t.transformToFragment(document.implementation.createDocument(null, 'x'), document))""",
}
"""Ways to a frame through XML. Whatever names it uses in a text, it does not contain as such."""

FRAMES = {
    **{name: attack(name, code) for name, code in {**ATTACKS["scripts"], **XML}.items()},
    **ATTACKS["markup"],
}


LISTENING = "<p id=got></p><script>addEventListener('message', (event) => got.append(event.data + ','))</script>"


def test_nothing_brings_back_a_frame_with_a_program(gallery: Gallery, voter: Voter) -> None:
    outside = Outside()
    attacks = "".join(code.replace("NAME", name) for name, code in FRAMES.items())
    last = attack("broken tools", ATTACKS["broken tools"]["broken tools"])
    text = f"{LISTENING}{attacks}{last}".replace("STUN", f"127.0.0.1:{outside.udp.getsockname()[1]}")
    show(voter, gallery, clean_html(text.encode()).decode())
    run(voter, 0)
    time.sleep(0.7)
    assert voter.got() == ""
    assert outside.reached == 0
    outside.close()


WITHOUT = {
    "the observer": ("apply(observe, watcher, [document, all]);", "apply(observe, watcher, [shadows.root, all]);"),
    "the policy": ("; require-trusted-types-for 'script'; trusted-types default",),
}


@pytest.mark.parametrize("missing", WITHOUT)
def test_either_defence_alone_refuses_frames_through_xml(gallery: Gallery, browser: Browser, missing: str) -> None:
    context = new_context(browser)

    def without(route: Route) -> None:
        answer = route.fetch()
        body, policy, before = answer.text(), answer.headers["content-security-policy"], 0
        for part in WITHOUT[missing]:
            before += (part in body) + (part in policy)
            body, policy = body.replace(part, ""), policy.replace(part, "")
        assert before == len(WITHOUT[missing])
        route.fulfill(
            response=answer, body=body, headers={"content-type": "text/html", "content-security-policy": policy}
        )

    context.route("**/shown/*", without)
    attacks = LISTENING + "".join(attack(name, code).replace("NAME", name) for name, code in XML.items())
    gallery.show("html", attacks.encode())
    page = visit(context, gallery.url)
    page.locator("[data-do=run]").first.click(no_wait_after=True)
    settled(page, "ready")
    page.wait_for_timeout(500)
    assert pages_of(page)[0].locator("#got").text_content() == ""
    context.close()


def test_an_endless_loop_on_a_second_host_leaves_firefox_running(
    sqlite_template: Path, tmp_path: Path, in_firefox: InFirefox
) -> None:
    with open_gallery(sqlite_template, tmp_path, second_host=True) as there:
        show(in_firefox, there, "<h1>Busy</h1><script>setTimeout(() => { for (;;); }, 300)</script>")
        in_firefox.site(f"({GAPS})()")
        run(in_firefox, 0)
        until(in_firefox, "document.querySelector('.view').dataset.state === 'stopped'")
        assert "stopped responding" in in_firefox.site("return document.querySelector('.view-note').textContent")
        assert in_firefox.site("return window.gap") < 2_000


COUNTER = """<h1>Counter</h1><script>born = Math.random(); ticks = 0; setInterval(() => { ticks++ }, 20)</script>"""


def test_programs_run_on_while_the_names_are_shown(gallery: Gallery, voter: Voter) -> None:
    show(voter, gallery, COUNTER)
    run(voter, 0)
    run(voter, 1)
    before = [voter.answer(place, "return born") for place in (0, 1)]
    time.sleep(0.9)  # no second click votes
    voter.site("document.querySelector('.ballot [value=B]').click()")
    until(voter, "document.querySelector('.show-names') !== null")
    voter.site("document.querySelector('.show-names').click()")
    until(voter, "document.querySelector('.revealed') !== null")
    assert voter.site("return document.querySelectorAll('.view').length") == 2
    assert [voter.answer(place, "return born") for place in (0, 1)] == before
    ticks = voter.answer(1, "return ticks")
    time.sleep(0.2)
    assert voter.answer(1, "return ticks") > ticks
    voter.site("document.querySelector('[data-do=stop]').click()")
    assert voter.site("return document.querySelectorAll('.frame').length") == 1
    voter.site("document.querySelector('a.next').click()")
    until(voter, "document.querySelector('.ballot') !== null && !document.querySelector('.frame')")


def test_the_hostile_page_reaches_nothing(gallery: Gallery, in_firefox: InFirefox) -> None:
    outside = Outside()
    evil, stun = (f"127.0.0.1:{end.getsockname()[1]}" for end in (outside.tcp, outside.udp))
    text = (HERE / "hostile_page.html").read_text(encoding="utf-8")
    show(in_firefox, gallery, clean_html(text.replace("EVIL", evil).replace("STUN", stun).encode()).decode())
    address = in_firefox.site("return location.href")
    run(in_firefox, 0)
    time.sleep(0.7)
    blocked = in_firefox.answer(0, "return blocked")
    assert blocked.pop("rtc") == blocked["parentDocument"] == blocked["storage"] == blocked["socket"] == "refused"
    assert "GOT THROUGH" not in blocked.values()
    frames = "document.querySelectorAll('iframe, object, embed').length"
    assert in_firefox.answer(0, f"return [origin, {frames}]") == ["null", 0]
    assert in_firefox.site("return location.href") == address
    assert outside.reached == 0
    outside.close()


def test_one_page_neither_stops_the_other_nor_learns_its_own_side(gallery: Gallery, in_firefox: InFirefox) -> None:
    show(in_firefox, gallery, SIBLING.decode())
    run(in_firefox, 0)
    run(in_firefox, 1)
    time.sleep(0.7)
    assert in_firefox.site("return document.querySelectorAll('.view[data-state=ready]').length") == 2
    a, b = (in_firefox.answer(place, "return seen()") for place in (0, 1))
    assert a == b
    assert a[:3] == [0, "", ""]


@pytest.mark.parametrize("lie", ["'Escape'", "'x'"])
def test_escape_alone_leads_out_of_a_page(gallery: Gallery, in_firefox: InFirefox, lie: str) -> None:
    show(in_firefox, gallery, PUSHY.decode().replace("LIE", lie))
    run(in_firefox, 0)
    run(in_firefox, 1)
    time.sleep(0.8)
    for place in (1, 0):
        in_firefox.click(*middle(in_firefox, f".answer.{'ab'[place]} .screen"))
        in_firefox.press("a")
        in_firefox.press("b")
        assert in_firefox.answer(place, "return [document.hasFocus(), keys.slice(-8)]") == [True, "KeyAKeyB"]
        in_firefox.press("Escape")
        until(in_firefox, "document.activeElement.matches('.ballot')")
    for key in ("ArrowLeft", "a", "Enter", "s"):
        in_firefox.press(key)
    time.sleep(0.1)
    assert in_firefox.site("return document.querySelectorAll('.ballot').length") == 1


@pytest.mark.parametrize(
    ("page", "words"),
    [
        (FLOOD.decode(), "flooded"),
        ("<script>setTimeout(() => { location = 'https://127.0.0.1:9/' }, 300)</script>", "leave|stopped responding"),
    ],
    ids=["messages", "leaving"],
)
def test_what_floods_or_leaves_is_stopped(gallery: Gallery, in_firefox: InFirefox, page: str, words: str) -> None:
    show(in_firefox, gallery, page)
    in_firefox.site("document.querySelector('[data-do=run]').click()")
    until(in_firefox, "document.querySelector('.view').dataset.state === 'stopped'")
    assert re.search(words, in_firefox.site("return document.querySelector('.view-note').textContent"))


def test_firefox_draws_no_words_about_a_field_of_a_page(gallery: Gallery, in_firefox: InFirefox) -> None:
    show(in_firefox, gallery, PAINTER.decode())
    run(in_firefox, 0)
    in_firefox.click(*middle(in_firefox, ".screen"))

    def drawn() -> Any:
        time.sleep(0.2)
        return in_firefox.tab.browser(
            "return [...document.querySelectorAll('panel')]"
            ".filter((one) => /open|showing/.test(one.state)).map((one) => one.id)"
        )

    painted = []
    for name, code in PAINTS.items():
        in_firefox.answer(0, code)
        if drawn():
            painted.append(name)
    assert painted == []
    in_firefox.site(
        "const field = document.querySelector('h1').appendChild(document.createElement('input'));"
        "field.required = true; field.reportValidity()"
    )
    assert drawn() == ["invalid-form-popup"], "the site's own field shows what would be drawn"


# --- What is written into the console while somebody looks at every page: nothing ------------------------------------

PAGES = (*(page for page in PUBLIC if page != "/no-such-page"), "/admin/login", *ADMIN)
"""All but the one that is not there: a browser notes that by itself."""

LOGIN = (
    f"document.querySelector('[name=secret]').value = '{ADMIN_SECRET}'; document.querySelector('main form').submit()"
)
CLICKED = ("form button", "[data-do=run-both]", ".choices [value=A]:not([aria-disabled])", ".show-names")
"""From the start to the names, each as soon as it is there."""

ANSWER = b"<!doctype html><h1>Answer</h1><script>document.body.append('it runs')</script>"


def test_no_page_writes_into_the_console_of_chromium(browser: Browser, address: str, gallery: Gallery) -> None:
    context = new_context(browser)
    page = context.new_page()
    said: list[str] = []
    page.on("console", lambda message: said.append(f"{page.url}: {message.type}: {message.text}"))
    page.on("pageerror", lambda error: said.append(f"{page.url}: {error}"))
    page.goto(f"{address}/admin/login")
    page.evaluate(LOGIN)
    page.wait_for_url("**/admin")
    for place in ("/", *PAGES):
        page.goto(address + place)
    gallery.show("html", ANSWER)
    page.goto(gallery.url)
    for selector in CLICKED:
        page.wait_for_selector(selector, state="attached").evaluate("(element) => element.click()")
    page.wait_for_timeout(900)
    context.close()
    assert said == []


def test_no_page_writes_into_the_console_of_firefox(address: str, gallery: Gallery, firefox_of_all: Firefox) -> None:
    gallery.show("html", ANSWER)
    tab = firefox_of_all
    tab.ask("WebDriver:DeleteAllCookies")
    tab.go(f"{address}/admin/login")
    tab.console()
    tab.run(LOGIN)
    tab.wait("return location.pathname === '/admin'")
    for place in ("/", *PAGES):
        tab.go(address + place)
    tab.go(gallery.url)
    for selector in CLICKED:
        tab.wait(f"return document.querySelector({selector!r})")
        tab.run(f"document.querySelector({selector!r}).click()")
    time.sleep(0.9)
    assert tab.console() == []
