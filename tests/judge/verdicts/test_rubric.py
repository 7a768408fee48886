"""A rubric is a text with a version; what it lacks is said by name."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from tiltyard.errors import JudgingError
from tiltyard.judge.verdicts import Rubric, default_rubric


def write(folder: Path, text: str) -> Path:
    path = folder / "rubric.md"
    path.write_text(text, encoding="utf-8")
    return path


def test_the_header_is_read_and_taken_off(tmp_path: Path) -> None:
    path = write(
        tmp_path, "\n# version: 2.1\n\n# needs: gold_answer\n# shows: expected_behavior\n\n# Facts\nBe strict.\n"
    )
    rubric = Rubric.load("facts", path)
    assert rubric == Rubric("facts", "2.1", "# Facts\nBe strict.", needs_gold=True, shows_expected=True)


def test_a_plain_rubric_needs_and_shows_nothing(tmp_path: Path) -> None:
    rubric = Rubric.load("clarity", write(tmp_path, "# version: 1\nPrefer the clearer answer."))
    assert not rubric.needs_gold
    assert not rubric.shows_expected
    assert rubric == Rubric("clarity", "1", "Prefer the clearer answer.")


def test_factuality_needs_a_gold_answer_without_saying_so(tmp_path: Path) -> None:
    assert Rubric.load("factuality", write(tmp_path, "# version: 1\nFacts.")).needs_gold


def test_a_byte_order_mark_and_windows_line_ends_do_no_harm(tmp_path: Path) -> None:
    path = tmp_path / "rubric.txt"
    path.write_bytes(b"\xef\xbb\xbf# Version: 3\r\n# needs: gold_answer\r\n\r\nFirst.\r\nSecond.\r\n")
    assert Rubric.load("x", path) == Rubric("x", "3", "First.\nSecond.", needs_gold=True)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "no text"),
        ("# version: 1\n\n", "no text"),
        ("# version: 1\n# needs: coffee\nText.", "coffee"),
        ("# version: 1\n# shows: gold_answer\nText.", "expected_behavior"),
    ],
)
def test_what_a_rubric_lacks_is_said_with_its_file(tmp_path: Path, text: str, complaint: str) -> None:
    path = write(tmp_path, text)
    with pytest.raises(JudgingError, match="rubric") as caught:
        Rubric.load("clarity", path)
    assert str(path) in str(caught.value)
    assert complaint in str(caught.value)


@pytest.mark.parametrize("head", ["", "# version:\n", "# needs: gold_answer\n", "# Clarity\n"])
def test_a_rubric_without_a_version_has_its_hash_and_a_note(tmp_path: Path, head: str) -> None:
    path = write(tmp_path, f"{head}Prefer the clearer answer.\n")
    rubric = Rubric.load("clarity", path)
    digest = hashlib.sha256(path.read_bytes().strip()).hexdigest()
    assert rubric.version == f"sha256-{digest[:12]}"
    assert str(path) in rubric.version_note
    assert rubric.version in rubric.version_note
    assert rubric.needs_gold == ("gold" in head)
    changed = Rubric.load("clarity", write(tmp_path, f"{head}Prefer the shorter answer.\n"))
    assert changed.version != rubric.version


def test_a_version_may_follow_other_header_lines(tmp_path: Path) -> None:
    rubric = Rubric.load("clarity", write(tmp_path, "# needs: gold_answer\n# version: 4\nText."))
    assert (rubric.version, rubric.needs_gold, rubric.text, rubric.version_note) == ("4", True, "Text.", "")


def test_a_missing_rubric_names_dimension_and_path(tmp_path: Path) -> None:
    with pytest.raises(JudgingError, match=r"'clarity' at .*nowhere\.md"):
        Rubric.load("clarity", tmp_path / "nowhere.md")


def test_a_rubric_that_is_no_text_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "rubric.md"
    path.write_bytes(b"# version: 1\n\xff\xfe")
    with pytest.raises(JudgingError, match="UTF-8"):
        Rubric.load("clarity", path)


def test_the_rubric_of_the_package_is_general() -> None:
    rubric = default_rubric()
    assert (rubric.dimension, rubric.version) == ("quality", "1")
    assert not rubric.needs_gold
    assert "Correctness" in rubric.text
    assert default_rubric("helpfulness").dimension == "helpfulness"
