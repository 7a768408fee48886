"""A page as a tree, read strictly: tags closed in order, every id once. What a browser forgives is an error here."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser

VOID = {"meta", "br", "hr", "input", "link"}


@dataclass
class Node:
    tag: str
    attrs: dict[str, str]
    children: list[Node | str] = field(default_factory=list)

    def walk(self) -> Iterator[Node]:
        yield self
        for child in self.children:
            if isinstance(child, Node):
                yield from child.walk()

    def all(self, tag: str = "", class_: str = "") -> list[Node]:
        """Every node below with this tag and class."""
        return [
            node
            for node in self.walk()
            if (not tag or node.tag == tag) and (not class_ or class_ in node.attrs.get("class", "").split())
        ]

    def one(self, tag: str = "", class_: str = "") -> Node:
        """The only node below with this tag and class."""
        found = self.all(tag, class_)
        assert len(found) == 1, f"{len(found)} of <{tag} class={class_}>"
        return found[0]

    @property
    def text(self) -> str:
        return "".join(child if isinstance(child, str) else child.text for child in self.children)

    @property
    def values(self) -> list[float]:
        """The exact values of the figures below, in their order."""
        return [float(node.attrs["value"]) for node in self.all("data")]


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.root = Node("", {})
        self.open = [self.root]
        self.ids: dict[str, Node] = {}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = [name for name, _ in attrs]
        assert len(names) == len(set(names)), f"<{tag}> has an attribute twice: {names}"
        node = Node(tag, {name: value or "" for name, value in attrs})
        self.open[-1].children.append(node)
        if "id" in node.attrs:
            assert node.attrs["id"] not in self.ids, f"id {node.attrs['id']} stands twice"
            self.ids[node.attrs["id"]] = node
        if tag not in VOID:
            self.open.append(node)

    def handle_endtag(self, tag: str) -> None:
        assert self.open[-1].tag == tag, f"</{tag}> closes <{self.open[-1].tag}> at {self.getpos()}"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        if data.strip() or "\n" not in data:  # a line break between elements is no text
            self.open[-1].children.append(data)


@dataclass
class Page:
    root: Node
    ids: dict[str, Node]

    def __getitem__(self, anchor: str) -> Node:
        return self.ids[anchor]

    @property
    def links(self) -> list[str]:
        return [node.attrs["href"] for node in self.root.walk() if "href" in node.attrs]


def read_page(text: str) -> Page:
    """The tree of a page; fails where a tag is left open, closed out of order, or an id is used twice."""
    reader = _Reader()
    reader.feed(text)
    reader.close()
    assert len(reader.open) == 1, f"<{reader.open[-1].tag}> is never closed"
    return Page(reader.root, reader.ids)


def rows(node: Node) -> dict[str, Node]:
    """The body rows of the only table below, by the text of their header cell."""
    body = node.one("tbody")
    found: dict[str, Node] = {}
    for row in body.children:
        assert isinstance(row, Node)
        cells = [cell for cell in row.children if isinstance(cell, Node)]
        assert cells[0].tag == "th"
        assert cells[0].attrs["scope"] in ("row", "colgroup")
        found[cells[0].text] = row
    return found


def part(section: Node, title: str) -> Node:
    """The section below whose heading is this."""
    found = [
        node
        for node in section.all("section")
        if any(isinstance(child, Node) and child.tag in ("h2", "h3") and child.text == title for child in node.children)
    ]
    assert len(found) == 1, f"{len(found)} sections called {title}"
    return found[0]
