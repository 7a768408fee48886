"""Prepare a release (`make release`): check that everything agrees, build, test what was built, write its notes.

Nothing is uploaded. `--draft` builds even where something does not agree yet, and says what that is.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parent.parent
DATED = re.compile(r"^## (\S+) \((\d{4}-\d{2}-\d{2})\)$", re.MULTILINE)
SECTION = re.compile(r"^## (\S+) \([^)]*\)\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)


def main() -> int:
    """Check, build, test, write notes; 1 if the release must not go out."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--draft", action="store_true", help="Build even where something does not agree yet.")
    parser.add_argument("--out", type=Path, default=ROOT / "dist", help="Where to put it; emptied first.")
    asked = parser.parse_args()
    found = list(problems(ROOT))
    for problem in found:
        sys.stderr.write(f"{'not yet' if asked.draft else 'refused'}: {problem}\n")
    if found and not asked.draft:
        return 1
    built = build(ROOT, asked.out)
    tested = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/packaging/test_packages.py"],
        cwd=ROOT,
        check=False,
    )
    if tested.returncode:
        return 1
    notes = asked.out / "notes.md"
    notes.write_text(release_notes(ROOT, built), encoding="utf-8")
    sys.stdout.write(f"In {asked.out}: {', '.join(path.name for path in (*built, notes))}\n")
    sys.stdout.write(f"Left to do, by a person: read {notes.name}, tag v{version_of(ROOT)}, push the tag.\n")
    return 0


def version_of(root: Path) -> str:
    """The version that is built."""
    stated = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    return str(stated)


def problems(root: Path) -> Iterator[str]:
    """What keeps this tree from being released, each with what to do."""
    version = version_of(root)
    places = {
        "src/tiltyard/__init__.py": rf'^__version__ = "{re.escape(version)}"$',
        "CITATION.cff": rf"^version: {re.escape(version)}$",
    }
    for name, wanted in places.items():
        if not re.search(wanted, (root / name).read_text(encoding="utf-8"), re.MULTILINE):
            yield f"{name} does not say version {version}, as pyproject.toml does. Write it there too."
    newest = DATED.search((root / "CHANGELOG.md").read_text(encoding="utf-8"))
    if newest is None or newest[1] != version:
        yield f"CHANGELOG.md does not begin with '## {version} (YYYY-MM-DD)'. Give the newest section its date."
    for name in ("pyproject.toml", "CITATION.cff"):
        if ".example" in (root / name).read_text(encoding="utf-8"):
            yield f"{name} names an address that ends in .example. Write where the project really lives."
    if _git(root, "status", "--porcelain"):
        yield "there are changes that are not committed. Commit them, so that the tag is what was built."
    if _git(root, "tag", "--list", f"v{version}"):
        yield f"version {version} is tagged already. Raise the version."


def build(root: Path, out: Path) -> list[Path]:
    """The wheel and the source archive, built twice: the same tree gives the same bytes, or this fails."""
    shutil.rmtree(out, ignore_errors=True)
    moment = _git(root, "log", "-1", "--format=%ct") or "0"
    both = []
    for folder in (out, out / "again"):
        command = [sys.executable, "-m", "hatchling", "build", "-d", str(folder), "-t", "wheel", "-t", "sdist"]
        environment = {**os.environ, "SOURCE_DATE_EPOCH": moment}
        subprocess.run(command, cwd=root, env=environment, check=True, capture_output=True)
        both.append(sorted(path for path in folder.iterdir() if path.is_file()))
    first, again = both
    if [_sha256(path) for path in first] != [_sha256(path) for path in again]:
        raise SystemExit("refused: two builds of this tree differ, so something else than the tree is built in.")
    shutil.rmtree(out / "again")
    return first


def release_notes(root: Path, built: list[Path]) -> str:
    """The newest section of the changelog, and the hashes of what was built."""
    newest = SECTION.search((root / "CHANGELOG.md").read_text(encoding="utf-8"))
    changes = newest[2].strip() if newest else "No changes are written down."
    hashes = "\n".join(f"{_sha256(path)}  {path.name}" for path in built)
    return f"# Tiltyard {version_of(root)}\n\n{changes}\n\n## SHA-256\n\n```\n{hashes}\n```\n"


def _git(root: Path, *arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, check=False)
    return done.stdout.strip()


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


if __name__ == "__main__":
    sys.exit(main())
