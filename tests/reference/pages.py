"""Pages of the manual as values: sections, and the rows of their tables."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "docs" / "reference"
METHODS = ROOT / "docs" / "methods.md"
IN_FULL = ROOT / "docs" / "methods-in-full.md"

HEADING = re.compile(r"^(#{1,6}) (.*)$")
CELL = re.compile(r"(?<!\\)\|")
CODE = re.compile(r"`([^`]+)`")
RULE = re.compile(r"[-:]+")


@dataclass(frozen=True)
class Section:
    """A heading with the text below it, down to the next heading of any level."""

    level: int
    title: str
    lines: tuple[str, ...]

    @property
    def rows(self) -> list[dict[str, str]]:
        """The rows of all tables of the section, each by the heads of its columns."""
        found, head = [], None
        for line in self.lines:
            if not line.startswith("|"):
                head = None
                continue
            cells = [cell.strip().replace("\\|", "|") for cell in CELL.split(line.strip().strip("|"))]
            if head is None:
                head = cells
            elif not all(RULE.fullmatch(cell) for cell in cells):
                assert len(cells) == len(head), f"{self.title}: {line}"
                found.append(dict(zip(head, cells, strict=True)))
        return found


def sections(page: Path) -> list[Section]:
    """The sections of a page, from top to bottom; code blocks are text."""
    return sections_of(page.read_text(encoding="utf-8"))


def sections_of(text: str) -> list[Section]:
    """The sections of a page's text."""
    found: list[tuple[int, str, list[str]]] = []
    fenced = False
    for line in text.splitlines():
        fenced ^= line.startswith("```")
        match = None if fenced else HEADING.match(line)
        if match:
            found.append((len(match[1]), match[2], []))
        elif found:
            found[-1][2].append(line)
    return [Section(level, title, tuple(lines)) for level, title, lines in found]


def section(page: Path, title: str) -> Section:
    """The section of that title."""
    (only,) = [part for part in sections(page) if part.title == title]
    return only


def under(page: Path, title: str) -> list[Section]:
    """The sections below a heading, down to the next heading of its level or a higher one."""
    return below(sections(page), title)


def below(parts: list[Section], title: str) -> list[Section]:
    """Those of a page's sections that are below a heading."""
    place = next(i for i, part in enumerate(parts) if part.title == title)
    found = []
    for part in parts[place + 1 :]:
        if part.level <= parts[place].level:
            break
        found.append(part)
    return found


def code(cell: str) -> list[str]:
    """The words in code quotes of a cell."""
    return CODE.findall(cell)


def anchor(title: str) -> str:
    """The anchor of a heading, as the manual's builder makes it."""
    from markdown.extensions.toc import slugify

    return str(slugify(title.replace("`", ""), "-"))
