"""What the manual's site adds to MkDocs: reference from the code, pages from outside `docs/`, search, and llms.txt."""

from __future__ import annotations

import fnmatch
import html
import json
import posixpath
import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mkdocs.structure.files import File, Files

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.nav import Navigation
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import artifacts  # noqa: E402 - they lie beside this folder
import http_reference  # noqa: E402
import python_reference  # noqa: E402
import settings_reference  # noqa: E402

MODULES = "::: modules"
"""The line that becomes the list of Python modules."""
FROM_OUTSIDE = {
    "ARCHITECTURE.md": "about/architecture.md",
    "CHANGELOG.md": "about/changes.md",
    "CONTRIBUTING.md": "about/contributing.md",
    "SECURITY.md": "about/security.md",
    "CODE_OF_CONDUCT.md": "about/conduct.md",
}
ELSEWHERE = {"README.md": "index.md", "LICENSE": "about/LICENSE.txt"}
EXAMPLES = ("*.py", "*.ipynb", "*.jsonl", "*.yaml", "*.yml", "*.md")
LEFT_OUT = {"judgments", "runs"}  # what running the examples leaves behind
LINK = re.compile(r"(?<!\\)\]\(([^)\s#:]+)(#[^)\s]*)?\)")
INDEX_FILE = "assets/search-index.js"

_sections: list[dict[str, str]] = []
_contents: list[Any] = []
_first: dict[str, str] = {}


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Put the pages of a folder where the navigation says `folder/*`."""
    _sections.clear()
    docs = Path(config.docs_dir)
    pages = sorted({path.relative_to(docs).as_posix() for path in docs.rglob("*.md")} | {*python_reference.pages()})
    named = set(_named(config.nav or []))
    config.nav = _unfolded(config.nav or [], [page for page in pages if page not in named])
    return config


def _named(entries: list[Any]) -> list[str]:
    names: list[str] = []
    for entry in entries:
        for value in entry.values() if isinstance(entry, dict) else [entry]:
            names += _named(value) if isinstance(value, list) else [value]
    return names


def _unfolded(entries: list[Any], pages: list[str]) -> list[Any]:
    """The entries with pages for folders; a section in which nothing is left is left out."""
    result: list[Any] = []
    for entry in entries:
        if isinstance(entry, dict):
            ((title, value),) = entry.items()
            inside = _unfolded(value, pages) if isinstance(value, list) else value
            result += [{title: inside}] if inside else []
        elif entry.endswith("*"):
            result += [page for page in pages if posixpath.dirname(page) == entry.removesuffix("*").removesuffix("/")]
        else:
            result.append(entry)
    return result


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add the pages and the examples that lie beside `docs/`."""
    for source, target in {**FROM_OUTSIDE, "LICENSE": ELSEWHERE["LICENSE"]}.items():
        files.append(File.generated(config, target, abs_src_path=str(ROOT / source)))
    for target, text in python_reference.pages().items():
        files.append(File.generated(config, target, content=text))
    files.append(File.generated(config, "decisions/index.md", content=_decisions(Path(config.docs_dir))))
    for path in sorted((ROOT / "examples").rglob("*")):
        inside = path.relative_to(ROOT)
        if any(fnmatch.fnmatch(path.name, pattern) for pattern in EXAMPLES) and not LEFT_OUT & set(inside.parts):
            target = inside.as_posix() + (".txt" if path.suffix == ".md" else "")
            files.append(File.generated(config, target, abs_src_path=str(path)))
    return files


def _decisions(docs: Path) -> str:
    """A page that lists the decisions by their own headings."""
    lines = ["# Decisions", "", "What a successor would question, with the reason.", ""]
    for path in sorted((docs / "decisions").glob("*.md")):
        heading = path.read_text(encoding="utf-8").split("\n", 1)[0].removeprefix("# ")
        lines.append(f"- [{heading.replace('. ', ': ', 1)}]({path.name})")
    return "\n".join(lines) + "\n"


def on_nav(nav: Navigation, *, config: MkDocsConfig, files: Files) -> Navigation:  # noqa: ARG001 - as called
    """Keep the contents, for `llms.txt`."""
    _contents[:] = nav.items
    return nav


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001 - as called
    """Fill in what the code says; let links out of `docs/`, or into it, lead to the same things on the site."""
    here = page.file.src_uri
    if MODULES in markdown:
        markdown = markdown.replace(MODULES, python_reference.overview())
    markdown = settings_reference.filled(artifacts.filled(http_reference.filled(markdown)))
    _first[page.url] = _first_sentence(markdown)
    outside = {target: source for source, target in FROM_OUTSIDE.items()}
    source = outside.get(here, f"docs/{here}")

    def led(link: re.Match[str]) -> str:
        target, anchor = link[1], link[2] or ""
        wanted = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
        on_site = _place_on_site(wanted)
        if wanted == "docs/decisions":
            on_site = "decisions/index.md"
        if on_site is None or (here not in outside and wanted.startswith("docs/")):
            return link[0]
        return f"]({posixpath.relpath(on_site, posixpath.dirname(here) or '.')}{anchor})"

    return LINK.sub(led, markdown)


def _place_on_site(path: str) -> str | None:
    """Where a file of the repository is on the site, or None."""
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    if path.startswith("examples/"):
        return path + (".txt" if path.endswith(".md") else "")
    return FROM_OUTSIDE.get(path) or ELSEWHERE.get(path)


def on_page_content(html_text: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001 - as called
    """Note what the page says, for the search; let wide tables scroll by themselves."""
    reader = _Sections()
    reader.feed(html_text)
    for anchor, heading, words in reader.sections():
        where = page.url + (f"#{anchor}" if anchor and heading != page.title else "")
        _sections.append({"page": str(page.title), "heading": heading, "url": where, "text": words})
    return _fitted(html_text)


def _fitted(text: str) -> str:
    """The page with tables and code that scroll by themselves, no escapes in a table's code, no empty headings."""
    text = re.sub(r"<th([^>]*)></th>", r"<td\1></td>", text)
    text = re.sub(r"<code>[^<]*</code>", lambda code: code[0].replace("\\|", "|"), text)
    text = text.replace("<table>", '<div class="scroll" tabindex="0" role="group" aria-label="Table"><table>')
    return text.replace("</table>", "</table></div>").replace("<pre>", '<pre tabindex="0">')


def on_post_build(*, config: MkDocsConfig) -> None:
    """Write the search index as a script, so that it also loads from a folder."""
    target = Path(config.site_dir) / INDEX_FILE
    target.parent.mkdir(parents=True, exist_ok=True)
    said = json.dumps(_sections, ensure_ascii=False, separators=(",", ":"))
    target.write_text(f"window.manualIndex = {said};\n", encoding="utf-8")
    (Path(config.site_dir) / "llms.txt").write_text(_for_agents(config), encoding="utf-8")


def _first_sentence(markdown: str) -> str:
    """What a page says first: the first sentence of its first paragraph, as plain text."""
    blocks = (block.strip() for block in re.sub(r"```.*?```", "", markdown, flags=re.DOTALL).split("\n\n"))
    first = next((block for block in blocks if block and not block.startswith(("#", "|", "!", "<", "-"))), "")
    plain = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", first).replace("**", "")
    plain = " ".join(plain.split()).removeprefix("Goal: ")
    return re.split(r"(?<=[.:?]) (?=[A-Z`])", plain)[0]


def _pages(item: Any) -> list[Page]:
    """A page, or the pages of a section at any depth."""
    return [page for child in item.children for page in _pages(child)] if item.children else [item]


def _for_agents(config: MkDocsConfig) -> str:
    """The manual's contents as `llms.txt` has them: every page with its first sentence."""
    lines = [f"# {config.site_name}", "", f"> {config.site_description}"]
    for section in _contents:
        lines += ["", f"## {section.title}", ""]
        pages = _pages(section)
        lines += [f"- [{page.title}]({page.url}): {_first.get(page.url, '')}".removesuffix(": ") for page in pages]
    return "\n".join(lines) + "\n"


class _Sections(HTMLParser):
    """The text of a page, divided at its headings."""

    def __init__(self) -> None:
        super().__init__()
        self._found: list[tuple[str, list[str], list[str]]] = [("", [], [])]
        self._in_heading = self._in_permalink = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Begin a section at a heading."""
        known = dict(attrs)
        if tag in ("h1", "h2", "h3"):
            self._found.append((known.get("id") or "", [], []))
            self._in_heading = True
        self._in_permalink = tag == "a" and known.get("class") == "headerlink"

    def handle_endtag(self, tag: str) -> None:
        """End a heading."""
        if tag in ("h1", "h2", "h3"):
            self._in_heading = False
        self._in_permalink = False

    def handle_data(self, data: str) -> None:
        """Keep words; the sign that links a section is none."""
        if not self._in_permalink:
            self._found[-1][1 if self._in_heading else 2].append(data)

    def sections(self) -> list[tuple[str, str, str]]:
        """Anchor, heading and text of each section that has any."""
        plain = [
            (anchor, "".join(heading).strip(), " ".join(html.unescape("".join(words)).split()))
            for anchor, heading, words in self._found
        ]
        return [section for section in plain if section[1] or section[2]]
