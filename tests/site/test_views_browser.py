"""Answers that are not text, in a real browser: what they do on the vote page, and what hostile ones cannot do."""

from __future__ import annotations

import base64
import io
import json
import re
import shutil
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from PIL import Image

from tests.browsers import broken_rules, new_context
from tests.missing import needs
from tests.site.galleries import Gallery, Outside, context, gallery, settled, visit
from tiltyard.verbs.demo.steps import MadeKind
from tiltyard.verbs.demo.steps import gallery as shipped

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page, Route

__all__ = ["context", "gallery"]

HERE = Path(__file__).parent
ENDLESS = b"<h1>Busy</h1><script>setTimeout(() => { for (;;); }, 400)</script>"
FLOOD = (
    b"<h1>Loud</h1><script>setInterval(() => { for (let i = 0; i < 50; i++) parent.postMessage('x', '*') }, 1)</script>"
)
"""More messages than a page may send, without keeping its thread."""


GAPS = """() => {
  window.gap = 0;
  let last = performance.now();
  setInterval(() => { const now = performance.now(); gap = Math.max(gap, now - last); last = now; }, 20);
}"""
"""Notes the longest pause of the page's own thread."""

MESH = """async (files) => {
  const worker = new Worker(document.querySelector("[data-mesher]").dataset.mesher);
  const made = [];
  for (const [kind, coded] of files) made.push(await new Promise((resolve) => {
    worker.onmessage = ({ data: { mesh, problem } }) => resolve(problem ?? {
      triangles: mesh.indices.length / 3, low: mesh.low, high: mesh.high,
      normals: [...mesh.normals.slice(0, 4)], colors: [...mesh.colors.slice(0, 4)],
    });
    worker.postMessage({ kind, bytes: Uint8Array.from(atob(coded), (letter) => letter.charCodeAt(0)).buffer });
  }));
  worker.terminate();
  return made;
}"""
"""What the mesher makes of files, one after the other."""


def built(kind: MadeKind, builder: str, prompt: str) -> bytes:
    """A file of the demo."""
    return next(content for name, content in shipped(kind) if f"/{builder}-{prompt}." in name)


def test_a_hostile_page_reaches_nothing(gallery: Gallery, context: BrowserContext) -> None:
    outside = Outside()
    evil, stun = (f"127.0.0.1:{end.getsockname()[1]}" for end in (outside.tcp, outside.udp))
    text = (HERE / "hostile_page.html").read_text(encoding="utf-8")
    gallery.show("html", text.replace("EVIL", evil).replace("STUN", stun).encode())
    page = visit(context)
    left: list[str] = []
    dialogs: list[str] = []
    context.on("requestfinished", lambda request: left.append(request.url) if gallery.url not in request.url else None)
    context.on("page", lambda opened: left.append(opened.url))
    page.on("dialog", lambda dialog: (dialogs.append(dialog.type), dialog.dismiss()))
    page.on("download", lambda download: left.append(download.url))
    page.evaluate(
        "() => { window.broken = []; addEventListener('securitypolicyviolation', (e) => broken.push(e.blockedURI)); }"
    )
    address = page.url
    page.locator("[data-do=run]").first.click(no_wait_after=True)
    settled(page, "ready")
    page.wait_for_timeout(700)
    inside = next(frame for frame in page.frames if "/shown/" in frame.url)
    blocked = inside.evaluate("blocked")
    assert blocked.pop("rtc") == blocked["parentDocument"] == blocked["storage"] == blocked["socket"] == "refused"
    assert "GOT THROUGH" not in blocked.values()
    assert inside.evaluate("origin") == "null"
    assert inside.evaluate("ticks") > 0
    assert inside.locator("iframe, object, embed").count() == 0
    assert page.url == address
    assert (dialogs, outside.reached) == ([], 0)
    assert left == []
    assert page.evaluate("broken") == []
    assert page.locator(".view[data-state=ready]").count() == 1
    outside.close()


@pytest.mark.soak
def test_a_page_that_tries_to_leave_connects_to_nobody(gallery: Gallery, browser: Browser) -> None:
    whole = shutil.which("chromium")  # the small one for tests does not connect ahead
    if whole is None:
        needs("chromium")
    outside = Outside()
    evil = f"127.0.0.1:{outside.tcp.getsockname()[1]}"
    code = f"setTimeout(() => {{ location = 'http://{evil}/' }}, 300)"
    gallery.show("html", f"<h1>Off</h1><script>{code}</script>".encode())
    running = browser.browser_type.launch(executable_path=whole, args=["--no-sandbox"])
    page = visit(new_context(running, base_url=gallery.url))
    page.locator("[data-do=run]").first.click(no_wait_after=True)
    settled(page, "stopped")
    page.wait_for_timeout(1000)
    running.close()
    assert outside.reached == 0  # not even without a request
    outside.close()


def test_an_endless_loop_and_a_flood_of_messages_are_stopped(gallery: Gallery, context: BrowserContext) -> None:
    def impatient(route: Route) -> None:
        answer = route.fetch()
        route.fulfill(response=answer, body=re.sub(r"SILENT_MS = \d+", "SILENT_MS = 900", answer.text()))

    context.route("**/views.js*", impatient)
    gallery.show("html", ENDLESS, FLOOD, ENDLESS, FLOOD)
    page = visit(context)
    page.evaluate(GAPS)
    page.locator("[data-do=run]").first.click(no_wait_after=True)
    settled(page, "stopped")
    assert page.locator("iframe").count() == 0
    assert page.evaluate("gap") < 5_000  # the frame is another process: a page that shared its loop would not come back
    page.wait_for_timeout(100)
    assert re.search("stopped respond|flooded", page.locator(".view[data-state=stopped] .view-note").inner_text())


def test_builds_are_drawn_and_turned_together(gallery: Gallery, context: BrowserContext) -> None:
    gallery.show("voxel", *(built("voxel", name, "lighthouse") for name in ("mason", "apprentice", "joiner", "tiler")))
    page = visit(context)
    settled(page, "ready")
    settled(page)
    assert broken_rules(page) == []
    page.set_viewport_size({"width": 390, "height": 820})
    page.wait_for_function("() => { const c = document.querySelector('canvas'); return c.height === c.clientHeight; }")
    page.wait_for_timeout(100)
    covered = in_sight(page)
    page.locator(".ballot").evaluate("(ballot) => { ballot.style.opacity = 0.99; }")  # what is under it is drawn whole
    assert in_sight(page) == covered, "the ballot over a build cuts it at its other end"
    page.set_viewport_size({"width": 800, "height": 600})
    page.wait_for_function("() => { const c = document.querySelector('canvas'); return c.height === c.clientHeight; }")
    page.locator("canvas").first.focus()
    page.keyboard.press("0")  # shows the focus, too
    before = drawn(page)
    page.keyboard.press("ArrowLeft")  # turns both, and does not vote for A
    page.wait_for_timeout(300)
    assert all(now != then for now, then in zip(drawn(page), before, strict=True))
    assert page.locator(".ballot").count() == 1
    page.keyboard.press("0")
    page.wait_for_timeout(300)
    assert drawn(page) == before
    cases = list(mesher_cases())
    meshes = page.evaluate(MESH, [[kind, base64.b64encode(file).decode()] for kind, file, _ in cases])
    for (_, _, expected), made in zip(cases, meshes, strict=True):
        assert made == expected if isinstance(expected, str) else {name: made[name] for name in expected} == expected


def in_sight(page: Page) -> bytes:
    """The upper half of the first build, while the ballot lies over the rest."""
    build = page.locator("canvas").first.bounding_box()
    assert build is not None
    left, top, width, height = (round(build[name]) for name in ("x", "y", "width", "height"))
    whole = Image.open(io.BytesIO(page.screenshot()))  # a part alone would be put together without what lies over it
    return whole.crop((left, top, left + width, top + height // 2)).tobytes()


def drawn(page: Page) -> list[bytes]:
    """What both canvases show."""
    return [canvas.screenshot() for canvas in page.locator("canvas").all()]


def mesher_cases() -> Iterator[tuple[str, bytes, str | dict[str, object]]]:
    """Files, and what the mesher makes of them: some of its fields, or a sentence."""
    cube = {"palette": ["#f00"], "boxes": [[5, 5, 5, 7, 7, 7, 0]], "blocks": [[6, 6, 6, 0]]}
    yield "voxel", json.dumps(cube).encode(), {"triangles": 12, "low": [1, 1, 1], "high": [4, 4, 4]}
    two = {"palette": ["#ff0000", "#00ff00"], "blocks": [[0, 0, 0, 0], [900, 0, 0, 1]]}
    yield "voxel", json.dumps(two).encode(), {"triangles": 24, "high": [902, 2, 2], "colors": [0, 255, 0, 255]}
    for wrong, sentence in (
        ({"blocks": [[0, 0, 0, 0]]}, "The voxel file has no palette."),
        ({"palette": ["#fff"], "blocks": []}, "The voxel file has no blocks."),
        ({"palette": ["#fff"], "blocks": [[0, 0, 0, 7]]}, "A block has a color outside the palette."),
        ({"palette": ["#fff"], "blocks": [[0, 0.5, 0, 0]]}, "A block is not at whole numbers."),
        ({"palette": ["#fff"], "blocks": [[0, 0, 0, 0], [5000, 0, 0, 0]]}, "The build is too wide to be shown."),
        ({"palette": ["#fff"], "boxes": [[0, 0, 0, 900, 900, 900, 0]]}, "The build has more blocks than can be shown."),
        ({"palette": ["red"], "blocks": [[0, 0, 0, 0]]}, "The voxel file has a color that is not #rrggbb."),
    ):
        yield "voxel", json.dumps(wrong).encode(), sentence
    yield "voxel", b"{", "The file is damaged: its JSON cannot be read."
    moved = {"translation": [10, 0, 0], "scale": [2, 2, 2], "mesh": 0}
    placed = {
        "triangles": 1,
        "low": [10, 0, 0],
        "high": [12, 2, 0],
        "normals": [0, 0, 127, 127],
        "colors": [255, 0, 0, 255],
    }
    yield "model3d", glb({"nodes": [moved]}), placed
    yield (
        "model3d",
        glb({"nodes": [moved], "extensionsRequired": ["KHR_draco_mesh_compression"]}),
        ("The model needs KHR_draco_mesh_compression, which this viewer does not read."),
    )
    yield "model3d", b"glTF but not really, only a text", "The file is not a binary glTF 2.0 model."


def glb(more: dict[str, object]) -> bytes:
    """A model of one red triangle in the plane z = 0."""
    corners = struct.pack("<9f", 0, 0, 0, 1, 0, 0, 0, 1, 0)
    file = {
        "asset": {"version": "2.0"},
        "scenes": [{"nodes": [0]}],
        "meshes": [{"primitives": [{"attributes": {"POSITION": 0}, "material": 0}]}],
        "materials": [{"pbrMetallicRoughness": {"baseColorFactor": [1, 0, 0, 1]}}],
        "accessors": [{"bufferView": 0, "componentType": 5126, "count": 3, "type": "VEC3"}],
        "bufferViews": [{"buffer": 0, "byteLength": len(corners)}],
        "buffers": [{"byteLength": len(corners)}],
    } | more
    text = json.dumps(file).encode()
    text += b" " * (-len(text) % 4)
    chunks = struct.pack("<II", len(text), 0x4E4F534A) + text + struct.pack("<II", len(corners), 0x004E4942) + corners
    return struct.pack("<III", 0x46546C67, 2, 12 + len(chunks)) + chunks


def test_without_webgl_a_build_is_drawn_flat_and_what_is_damaged_is_said(
    gallery: Gallery, context: BrowserContext
) -> None:
    context.add_init_script(
        "HTMLCanvasElement.prototype.getContext = ((real) => function (kind, ...more) "
        "{ return kind === '2d' ? real.call(this, kind, ...more) : null; })(HTMLCanvasElement.prototype.getContext);"
    )
    ship = built("voxel", "joiner", "ship")
    gallery.show("voxel", ship, b'{"palette": []}', ship, b"nonsense")
    for _ in range(6):
        page = visit(context)
        settled(page)
        states = page.locator(".view").evaluate_all("(views) => views.map((view) => view.dataset.state)")
        if set(states) == {"ready", "failed"}:
            break
        context.clear_cookies()
    assert set(states) == {"ready", "failed"}
    assert page.locator(".view[data-state=ready] canvas[data-flat]").count() == 1
    assert re.search("no palette|damaged", page.locator(".view[data-state=failed] .view-note").inner_text())


def test_drawings_are_compared_in_one_place_and_the_page_is_accessible(
    gallery: Gallery, context: BrowserContext
) -> None:
    gallery.show("svg", *(built("svg", name, "ship") for name in ("dabbler", "apprentice", "tiler", "joiner")))
    page = visit(context)
    settled(page)
    assert broken_rules(page) == []
    page.locator(".enlarge").first.click()
    large = page.locator("dialog.large-view img")
    first = large.get_attribute("src")
    page.keyboard.press("ArrowRight")  # shows the other one, and does not vote for B
    assert large.get_attribute("src") != first
    page.keyboard.press("Escape")
    page.locator("dialog").wait_for(state="detached")
    page.locator(".enlarge:focus").wait_for()
    assert page.locator(".choices button:enabled").count() >= 4


def sound(seconds: float) -> bytes:
    """Silence, as a WAV file."""
    data = bytes(int(8000 * seconds))
    form = struct.pack("<HHIIHH", 1, 1, 8000, 8000, 1, 8)
    return (
        b"RIFF"
        + struct.pack("<I", 36 + len(data))
        + b"WAVEfmt "
        + struct.pack("<I", 16)
        + form
        + b"data"
        + (struct.pack("<I", len(data)) + data)
    )


def test_both_sounds_are_played_before_the_vote(gallery: Gallery, context: BrowserContext) -> None:
    gallery.show("audio", *(sound(0.3 + place / 10) for place in range(4)))
    page = visit(context)

    def ballot() -> tuple[int, str]:
        waiting = page.locator(".choices [name=choice][aria-disabled=true]").count()
        return waiting, page.locator(".locked-why").inner_text()

    def play(place: int) -> None:
        page.locator("audio").nth(place).evaluate("(sound) => { sound.muted = true; return sound.play(); }")
        page.locator(".view").nth(place).and_(page.locator("[data-state=ready]")).wait_for()

    page.locator(".locked-why:not([hidden])").wait_for()
    assert ballot() == (4, "Play both first, 5 seconds each or to the end. Voting waits for A and B.")
    assert page.locator("#announce").inner_text().endswith("Voting waits for A and B.")
    page.keyboard.press("a")
    page.get_by_role("button", name="A is better").click(force=True)
    assert page.locator(".ballot").count() == 1, "a key and a click do not vote yet"
    play(0)
    assert ballot() == (4, "Play both first, 5 seconds each or to the end. Voting waits for B.")
    play(1)
    page.locator(".choices:not(:has([aria-disabled=true]))").wait_for()
    assert page.locator("#announce").inner_text() == "You can vote now."
    page.locator("audio").first.focus()
    page.keyboard.press("ArrowLeft")  # goes back in the sound, and does not vote for A
    page.wait_for_timeout(100)
    assert page.locator(".ballot").count() == 1
    page.locator("audio").first.blur()
    page.keyboard.press("a")
    page.get_by_role("button", name="Show the names").wait_for()
