"""A rubric: what one dimension is judged by, as a text file with a version."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from tiltyard.errors import JudgingError

HEADER = re.compile(r"#\s*(version|needs|shows)\s*:\s*(.*)", re.IGNORECASE)
NEEDS = "gold_answer"
SHOWS = "expected_behavior"
HOW_TO_STATE = "To set one, start the file with a line such as `# version: 1`"
GOLD_DIMENSION = "factuality"
"""A dimension with this name always needs a gold answer, because facts must be checked against something."""


@dataclass(frozen=True, slots=True)
class Rubric:
    """What a dimension is judged by. `text` is everything below the header lines, as the judge reads it.

    With `needs_gold`, only prompts with a gold answer are judged and the judge sees it; with `shows_expected`, it sees
    what a good answer was expected to do, where the prompt says so.
    """

    dimension: str
    """What is judged; each dimension has one rubric."""
    version: str
    """Its version."""
    text: str
    """Everything below the header lines, as the judge reads it."""
    needs_gold: bool = False
    """Whether only prompts with a gold answer are judged; the judge sees it."""
    shows_expected: bool = False
    """Whether the judge sees the expected behaviour."""
    version_note: str = ""
    """What to tell the user if the file states no version, so that its hash is the version."""

    @classmethod
    def load(cls, dimension: str, path: str | Path) -> Rubric:
        """The rubric of a file that starts with `# version: …` and maybe more header lines.

        Without a version, the hash of the file's text is its version.
        """
        path = Path(path)
        try:
            content = path.read_text(encoding="utf-8-sig")
        except FileNotFoundError:
            raise JudgingError(f"there is no rubric for {dimension!r} at {path}. Check the path.") from None
        except OSError as error:
            raise JudgingError(f"cannot read the rubric {path}: {error.strerror}.") from None
        except UnicodeDecodeError:
            raise JudgingError(f"the rubric {path} is not UTF-8 text. Save it as UTF-8.") from None
        return cls.parse(dimension, content, str(path))

    @classmethod
    def parse(cls, dimension: str, content: str, where: str) -> Rubric:
        """Parse a rubric; `where` names it in errors."""
        header, body = _split_header(content)
        if not body:
            raise JudgingError(f"{where}: the rubric has no text. Say what the judge should look at.")
        for name, allowed in (("needs", NEEDS), ("shows", SHOWS)):
            for word in _words(header, name) - {allowed}:
                raise JudgingError(f"{where}: `# {name}: {word}` is not known. The only word there is `{allowed}`.")
        stated = next((value for name, value in header if name == "version" and value), None)
        version = stated or f"sha256-{hashlib.sha256(content.strip().encode()).hexdigest()[:12]}"
        return cls(
            dimension=dimension,
            version=version,
            text=body,
            needs_gold=NEEDS in _words(header, "needs") or dimension == GOLD_DIMENSION,
            shows_expected=SHOWS in _words(header, "shows"),
            version_note="" if stated else f"{where} states no version, so its hash is used: {version}. {HOW_TO_STATE}",
        )


def default_rubric(dimension: str = "quality") -> Rubric:
    """The general-quality rubric that ships with Tiltyard, for pairs without a rubric.

    Parameters:
        dimension: What is judged; each dimension has one rubric.
    """
    file = resources.files("tiltyard.judging").joinpath("rubrics/quality.md")
    return Rubric.parse(dimension, file.read_text(encoding="utf-8"), "the rubric of the package")


def _split_header(content: str) -> tuple[list[tuple[str, str]], str]:
    """The header lines at the top as (name, value), and the text below them."""
    lines = content.strip().splitlines()
    header: list[tuple[str, str]] = []
    for place, line in enumerate(lines):
        match = HEADER.fullmatch(line.strip())
        if not match and line.strip():
            return header, "\n".join(lines[place:]).strip()
        if match:
            header.append((match[1].lower(), match[2].strip()))
    return header, ""


def _words(header: list[tuple[str, str]], name: str) -> set[str]:
    return {word for key, value in header if key == name for word in re.split(r"[,\s]+", value) if word}
