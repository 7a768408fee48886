"""Preparing a release: what does not agree is refused in one line, and the notes are those of the newest version."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))

import release

NAMES = ("pyproject.toml", "CITATION.cff", "CHANGELOG.md", "src/tiltyard/__init__.py")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A committed tree of our own files that is ready to go out."""
    for name in NAMES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(release.ROOT / name, tmp_path / name)
    version = release.version_of(tmp_path)
    changes = f"# Changelog\n\n## {version} (2026-12-01)\n\n- New.\n\n## 0.0.1 (2026-01-01)\n\n- Old.\n"
    (tmp_path / "CHANGELOG.md").write_text(changes, encoding="utf-8")
    for name in NAMES[:2]:
        text = (tmp_path / name).read_text(encoding="utf-8").replace("tiltyard.example", "tiltyard.test")
        (tmp_path / name).write_text(text, encoding="utf-8")
    git(tmp_path, "init", "-q")
    commit(tmp_path)
    return tmp_path


def git(tree: Path, *arguments: str) -> None:
    who = ("-c", "user.name=somebody", "-c", "user.email=somebody@tiltyard.test")
    subprocess.run(["git", *who, *arguments], cwd=tree, check=True, capture_output=True)


def commit(tree: Path) -> None:
    git(tree, "add", "-A")
    git(tree, "commit", "-qm", "All of it")


def test_a_tree_in_which_everything_agrees_may_go_out(tree: Path) -> None:
    assert list(release.problems(tree)) == []


@pytest.mark.parametrize(
    ("name", "old", "new", "said"),
    [
        ("CITATION.cff", "version: 1.", "version: 9.", "does not say version"),
        ("src/tiltyard/__init__.py", '__version__ = "1', '__version__ = "9', "does not say version"),
        ("CHANGELOG.md", "(2026-12-01)", "(unreleased)", "Give the newest section its date"),
        ("pyproject.toml", "tiltyard.test", "tiltyard.example", "really lives"),
    ],
)
def test_what_does_not_agree_is_refused(tree: Path, name: str, old: str, new: str, said: str) -> None:
    text = (tree / name).read_text(encoding="utf-8")
    assert old in text
    (tree / name).write_text(text.replace(old, new), encoding="utf-8")
    commit(tree)
    (problem,) = release.problems(tree)
    assert said in problem


def test_changes_that_are_not_committed_and_a_version_that_is_out_already_are_refused(tree: Path) -> None:
    git(tree, "tag", f"v{release.version_of(tree)}")
    (tree / "more.txt").write_text("more")
    uncommitted, tagged = release.problems(tree)
    assert "not committed" in uncommitted
    assert "tagged already" in tagged


def test_the_notes_are_those_of_the_newest_version_with_the_hashes_of_what_was_built(tree: Path) -> None:
    built = tree / "some.whl"
    built.write_bytes(b"")
    notes = release.release_notes(tree, [built])
    assert "- New." in notes
    assert "- Old." not in notes
    assert "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855  some.whl" in notes
