"""The manual as a site: it builds without a warning, every page is in its contents, and every link leads somewhere."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterable
from html.parser import HTMLParser
from os.path import normpath
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

import pytest

from tests.browsers import SCREENS, broken_rules, new_context
from tests.docs.manual import DOCS, PAGES, ROOT, environment, name_of

if TYPE_CHECKING:
    from playwright.sync_api import Browser

LOOKED_AT = ("battles.html", "index.html", "how-to/style-control.html")  # `make soak` looks at all
WIDTHS = """(texts) => Object.fromEntries(Object.entries(texts).map(([name, text]) => {
  document.body.replaceWith(new DOMParser().parseFromString(text, "text/html").body);
  return [name, document.documentElement.scrollWidth];
}))"""
MADE = DOCS / "reference" / "python"  # where the site's build puts a page for each module
BESIDE = [ROOT / name for name in ("ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md")]


class Html(HTMLParser):
    """What a page refers to, and which anchors it has."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.targets: list[str] = []
        self.fetched: list[str] = []
        self.anchors: set[str] = set()
        self.in_contents: set[str] = set()
        self._within = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        known = dict(attrs)
        self.anchors.update(filter(None, [known.get("id")]))
        target = known.get("href") or known.get("src")
        if tag == "nav":
            self._within = known.get("id") or ""
        if target is not None:
            self.targets.append(target)
            self.fetched += [target] if tag != "a" else []
            if self._within == "contents":
                self.in_contents.add(target)

    def handle_endtag(self, tag: str) -> None:
        if tag == "nav":
            self._within = ""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built as `make docs` builds it."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    done = subprocess.run(command, cwd=ROOT, env=environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr, done.stderr
    return folder


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Html]:
    """Every page of the site, read."""
    return {path: Html(path.read_text(encoding="utf-8")) for path in sorted(site.rglob("*.html"))}


def led_to(site: Path, page: Path, target: str) -> tuple[Path, str]:
    """The file and the anchor that a reference leads to."""
    parts = urlsplit(target)
    if page.name == "404.html" and page.parent == site and parts.path.startswith("/"):
        return site / unquote(parts.path).lstrip("/"), parts.fragment
    return Path(normpath(page.parent / unquote(parts.path))) if parts.path else page, unquote(parts.fragment)


def test_every_page_of_the_manual_is_in_the_contents(site: Path, pages: dict[Path, Html]) -> None:
    shown = {led_to(site, site / "index.html", target)[0] for target in pages[site / "index.html"].in_contents}
    wanted = {(site / path.relative_to(DOCS)).with_suffix(".html") for path in DOCS.rglob("*.md")}
    assert wanted - shown == set(), "not in the contents"
    assert {path for path in shown if not path.exists()} == set()


def test_every_reference_within_the_site_leads_to_a_file_and_an_anchor(site: Path, pages: dict[Path, Html]) -> None:
    there = {site, *site.rglob("*")}
    for page, read in pages.items():
        for target in set(read.targets):
            if urlsplit(target).scheme:
                continue  # another site, which the reader may visit
            file, anchor = led_to(site, page, target)
            assert file in there, f"{page}: {target}"
            if anchor and file.suffix == ".html":
                assert anchor in pages[file].anchors, f"{page}: {target}"


def test_links_between_the_pages_lead_somewhere_without_the_site_too() -> None:
    for page in [*PAGES, *BESIDE]:
        text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
        for target in re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", text):
            wanted = Path(normpath(page.parent / target))
            assert wanted.exists() or wanted.parent == MADE, f"{name_of(page)} links {target}"


def test_agents_find_every_page_with_its_first_sentence(site: Path) -> None:
    said = (site / "llms.txt").read_text(encoding="utf-8")
    assert said.startswith("# Tiltyard\n\n> Which model is better, and how sure are we?")
    listed = dict(re.findall(r"^- \[.+?\]\((.+?)\)(?:: (.+))?$", said, re.MULTILINE))
    wanted = {path.relative_to(DOCS).with_suffix(".html").as_posix() for path in DOCS.rglob("*.md")}
    assert wanted - {target.removeprefix("./") for target in listed} == set()
    assert all((site / target).is_file() for target in listed)
    assert listed["how-to/gate-in-ci.html"].startswith("a change to a prompt, a model or a setting may be merged")


def test_the_site_asks_nobody_else_for_anything(site: Path, pages: dict[Path, Html]) -> None:
    assert [target for read in pages.values() for target in read.fetched if urlsplit(target).netloc] == []
    for path in [*site.rglob("*.css"), *site.rglob("*.js")]:
        assert "http" not in re.sub(r"window\.manualIndex = .*", "", path.read_text(encoding="utf-8")), path


def test_pictures_are_small_and_used() -> None:
    manual = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
    for picture in (DOCS / "images").iterdir():
        assert picture.stat().st_size < 200_000, picture
        assert f"images/{picture.name}" in manual, f"{picture.name} is on no page"


def faults(browser: Browser, site: Path, names: Iterable[str], width: int, *, dark: bool) -> dict[str, object]:
    """The rules of accessibility that each page breaks, and what it asks for outside of the folder."""
    context = new_context(browser, viewport={"width": width, "height": 800}, color_scheme="dark" if dark else "light")
    page = context.new_page()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    found: dict[str, object] = {}
    for name in names:
        asked.clear()
        page.goto((site / name).as_uri())
        wrong = [*broken_rules(page, colors_only=dark), *(url for url in asked if not url.startswith("file:"))]
        if wrong or not asked:
            found[name] = wrong or "the page was not asked for"
    context.close()
    return found


@pytest.mark.parametrize(("width", "dark"), SCREENS)
def test_pages_are_accessible_and_ask_nobody(browser: Browser, site: Path, width: int, dark: bool) -> None:
    assert faults(browser, site, LOOKED_AT[: 1 if dark else None], width, dark=dark) == {}


@pytest.mark.soak
@pytest.mark.parametrize(("width", "dark"), SCREENS)
def test_all_pages_are_accessible_and_ask_nobody(browser: Browser, site: Path, width: int, dark: bool) -> None:
    names = (str(path.relative_to(site)) for path in sorted(site.rglob("*.html")))
    assert faults(browser, site, names, width, dark=dark) == {}


def test_no_page_is_wider_than_a_phone(browser: Browser, site: Path) -> None:
    """Pages without pictures take their turns in one window: all have the same head, and none is drawn."""
    page = browser.new_page(viewport={"width": 360, "height": 800})
    texts = {str(path.relative_to(site)): path.read_text(encoding="utf-8") for path in sorted(site.rglob("*.html"))}
    assert len({len(re.findall(r"<link|<style|<meta", text.partition("</head>")[0])) for text in texts.values()}) == 1
    widths: dict[str, int] = {}
    for name in [name for name, text in texts.items() if "<img" in text]:
        page.goto((site / name).as_uri())
        widths[name] = page.evaluate("document.documentElement.scrollWidth")
    widths |= page.evaluate(WIDTHS, {name: text for name, text in texts.items() if name not in widths})
    assert widths.keys() == texts.keys()
    assert {name: width for name, width in widths.items() if width > 360} == {}
    page.close()


def test_the_search_finds_a_section_from_the_folder_alone(browser: Browser, site: Path) -> None:
    page = browser.new_page()
    page.goto((site / "tutorials" / "rating-battles.html").as_uri())
    page.keyboard.press("/")
    page.keyboard.type("kendall")
    page.locator(".found a").first.wait_for()
    assert "found" in page.get_by_role("status").inner_text()
    page.keyboard.press("Enter")
    page.wait_for_url("**/*.html*")
    assert "kendall" in page.locator("main").inner_text().casefold()
    page.close()
