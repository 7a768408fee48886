"""One table for every printer: columns and rows, as text for a terminal, Markdown, CSV and HTML."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import msgspec

from tiltyard.render.figures import plain_count

Cell = str | float | None
Kind = Literal["text", "count", "figure"]


class TableColumn(msgspec.Struct, frozen=True):
    """A column of a table.

    Parameters:
        name: Its head.
        kind: `text` as it is, to the left; `count` with thousands separated, `figure` with its digits, to the right.
        digits: Digits of a figure behind the point.
        missing: What stands for a missing value.
        left: Whether it is aligned to the left; None: texts are.
    """

    name: str
    kind: Kind = "text"
    digits: int = 1
    missing: str = ""
    left: bool | None = None

    def shown(self, cell: Cell) -> str:
        """A value as people read it; a text stays as it is in any column."""
        if cell is None:
            return self.missing
        if isinstance(cell, str):
            return cell
        return plain_count(cell) if self.kind == "count" else f"{cell:.{self.digits}f}"

    @property
    def to_the_left(self) -> bool:
        return self.kind == "text" if self.left is None else self.left


class Table(msgspec.Struct, frozen=True):
    """Columns and rows; a row may be shorter, and its last cell then runs on over the columns that it lacks."""

    columns: Sequence[TableColumn]
    rows: Sequence[Sequence[Cell]]

    @classmethod
    def of(cls, heads: Sequence[str], rows: Sequence[Sequence[Cell]], left: int = 1) -> Table:
        """A table of ready cells, the first `left` columns aligned to the left."""
        return cls([TableColumn(name, left=place < left) for place, name in enumerate(heads)], rows)

    @classmethod
    def of_records(cls, records: Iterable[Mapping[str, Any]]) -> Table:
        """A table with a column for each key of the records."""
        records = list(records)
        names = list(dict.fromkeys(name for record in records for name in record))
        return cls([TableColumn(name) for name in names], [[record.get(name) for name in names] for record in records])

    def cells(self) -> list[list[str]]:
        """Every row as people read it."""
        columns = self.columns
        return [[column.shown(cell) for column, cell in zip(columns, row, strict=False)] for row in self.rows]

    @property
    def heads(self) -> list[str]:
        return [column.name for column in self.columns]

    def text(self, *, ruled: bool = True, last: int = 0) -> list[str]:
        """Aligned lines; with a rule below the head, and above the `last` rows where there are some."""
        rows = [self.heads, *self.cells()]
        full = len(self.columns)
        widths = [
            max(len(row[i]) for row in rows if i < len(row) - (len(row) - 1 > 0 and len(row) < full))
            for i in range(full)
        ]
        lines = []
        for row in rows:
            placed = zip(row, widths, self.columns, strict=False)
            padded = [cell.ljust(width) if column.to_the_left else cell.rjust(width) for cell, width, column in placed]
            lines.append("  ".join(padded).rstrip())
        if not ruled:
            return lines
        rule = "─" * max(map(len, lines))
        lines.insert(1, rule)
        if last:
            lines.insert(len(lines) - last, rule)
        return lines

    def markdown(self) -> str:
        """The table in Markdown; every cell reads as it is."""
        full = len(self.columns)

        def line(cells: Sequence[str]) -> str:
            filled = [*cells, *[""] * (full - len(cells))]
            return "| " + " | ".join(markdown_text(cell) for cell in filled) + " |"

        ruler = "|" + "|".join(" --- " if column.to_the_left else " ---: " for column in self.columns) + "|"
        return "\n".join([line(self.heads), ruler, *map(line, self.cells())])

    def latex(self, caption: str = "", notes: Sequence[str] = ()) -> str:
        """A table environment for LaTeX with the package `booktabs`, the notes below it."""

        def line(cells: Sequence[str]) -> str:
            return " & ".join(latex_text(cell) for cell in [*cells, *[""] * (len(self.columns) - len(cells))]) + r" \\"

        lines = [r"\begin{table}", r"\centering", *([rf"\caption{{{latex_text(caption)}}}"] if caption else [])]
        lines.append(rf"\begin{{tabular}}{{{''.join('l' if one.to_the_left else 'r' for one in self.columns)}}}")
        lines += [r"\toprule", line(self.heads), r"\midrule", *map(line, self.cells()), r"\bottomrule"]
        lines.append(r"\end{tabular}")
        lines += [rf"\par\smallskip\footnotesize {latex_text(note)}" for note in notes]
        return "\n".join([*lines, r"\end{table}"]) + "\n"

    def csv(self) -> str:
        """The values themselves as CSV; a missing one is empty."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(self.heads)
        writer.writerows(self.rows)
        return out.getvalue()

    def html(self, caption: str = "", notes: Sequence[str] | None = None) -> str:
        """The table as HTML, for notebooks."""
        from tiltyard.render.html import render

        return render("render/notebook.html", table=self, caption=caption, notes=notes)


LATEX = {
    **{letter: rf"\{letter}" for letter in "&%$#_{}"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "–": "--",
    "…": r"\dots{}",
    "†": r"\dag{}",
    "‡": r"\ddag{}",
    "§": r"\S{}",
    "¶": r"\P{}",
    **dict(zip("−±·→×τρ", [r"$-$", r"$\pm$", r"$\cdot$", r"$\to$", r"$\times$", r"$\tau$", r"$\rho$"], strict=True)),
}
"""What LaTeX needs written otherwise."""


def latex_text(text: str) -> str:
    """A text in one line in which nothing is a command of LaTeX."""
    return "".join(LATEX.get(letter, letter) for letter in " ".join(text.split()))


def markdown_text(text: str) -> str:
    """A text in one line in which Markdown sees no HTML, link, picture, bold text, mention or end of a cell."""
    plain = re.sub(r"([\\\[\]*|])", r"\\\1", " ".join(text.split()).replace("&", "&amp;").replace("<", "&lt;"))
    return re.sub(r"(?i)\bwww(?=\.)|@(?=\w)", r"\g<0>&#8203;", plain.replace("://", "&#58;//"))
