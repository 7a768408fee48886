"""Checking the folder of a run or of a placement: it is made again from its verdicts, and every file is compared."""

from __future__ import annotations

import json
import tempfile
import zipfile
import zlib
from collections.abc import Collection
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from tiltyard.errors import TiltyardError
from tiltyard.judging.run_folder import read_object, require, versions
from tiltyard.pages.figures import plural
from tiltyard.placement import folder as placement
from tiltyard.publish.checking import AGREE, files_of, first_difference, is_same_text, strangers
from tiltyard.report import write_report
from tiltyard.tournament import remaking

REPORT = "report.html"
LONGEST = 200
"""Letters of a value of the manifest that are printed."""
RATED = ("battles.jsonl", "elo_", "ratings/", "verdicts", "pairwise_winrates.csv")
"""How the names of files begin that are compared whichever version wrote them."""

Array = NDArray[Any]


class RunCheck(msgspec.Struct):
    """What was found in the folder of a run or placement.

    Parameters:
        verdicts: How many verdicts it has.
        rules: How they were rated, in words.
        makers_words: What its verdicts do not give, and nothing here can check.
        problems: What does not agree, a line each.
        not_compared: Files that could not be made again.
        has_report: Whether it has a report.
    """

    verdicts: int = 0
    rules: str = ""
    makers_words: list[str] = msgspec.field(default_factory=list)
    problems: list[str] = msgspec.field(default_factory=list)
    not_compared: list[str] = msgspec.field(default_factory=list)
    has_report: bool = True

    @property
    def conclusion(self) -> str:
        """What was compared with what, and whom one has to trust for the rest."""
        if self.problems:
            return f"does NOT agree: {plural(len(self.problems), 'problem')}"
        how = "in part" if self.not_compared else "with itself"
        part = f"Not compared: {', '.join(self.not_compared)}. " if self.not_compared else ""
        what = "battles, ratings, counts and report" if self.has_report else "battles, ratings and counts (no report)"
        return (
            f"agrees {how}: {what} are what these {plural(self.verdicts, 'verdict')} give "
            f"({self.rules}). {part}Whoever made the folder could have changed verdicts, texts and people's battles."
        )


def check_run(folder: Path, besides: Collection[str] = ()) -> RunCheck:
    """Make the folder of a run or placement again from its verdicts, and compare every file of it.

    Parameters:
        folder: A folder that `run` or `place` wrote.
        besides: Files in it, or folders, that the reader knows to be others'.
    """
    result = RunCheck()
    files, others = files_of(folder)
    manifest = read_object(require(folder / "manifest.json", folder))
    theirs, ours = (str(dict(one).get("tiltyard")) for one in (manifest.get("versions") or {}, versions()))
    kind = placement if manifest.get("kind") == "placement" else remaking
    with tempfile.TemporaryDirectory(prefix="tiltyard-") as spare:
        out = Path(spare) / folder.resolve().name
        try:
            if others:
                raise TiltyardError(f"{next(iter(others))} {next(iter(others.values()))}")
            made_again = kind.remake(folder, out)
            result.has_report = REPORT in files
            if result.has_report:
                write_report(out)
        except (TiltyardError, ValueError, TypeError, AttributeError, LookupError, ArithmeticError) as error:
            result.problems.append(f"it cannot be made again: {error}")
            return result
        result.verdicts, result.rules = made_again.verdicts, made_again.rules
        result.makers_words = [
            f"{name}: {_short(value)}"
            for name, value in manifest.items()
            if name not in kind.FOLLOWS and value is not None
        ]
        result.makers_words += [*kind.OTHER_WORDS, *(name for name in kind.KEPT_FILES if name in files)]
        result.not_compared = [*made_again.not_made]
        made, _ = files_of(out)
        for name in sorted(made):
            if name not in files:
                result.problems.append(f"{name} is missing")
            elif not _is_same(folder / name, out / name, theirs):
                if theirs != ours and not name.startswith(RATED):
                    result.not_compared.append(f"{name} (written by tiltyard {theirs}; this is {ours})")
                else:
                    line = first_difference((folder / name).read_bytes(), (out / name).read_bytes())
                    result.problems.append(f"{name} is not the file that these verdicts give: line {line:,} differs")
    result.problems += strangers(files - set(made_again.not_made), {}, made, besides)
    return result


def _short(value: object) -> str:
    """A value of the manifest as its maker wrote it, or its beginning."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"


def _are_equal(one: Array, other: Array) -> bool:
    if one.dtype != other.dtype or one.shape != other.shape:
        return False
    return bool(np.allclose(one, other, AGREE, AGREE) if one.dtype.kind == "f" else (one == other).all())


def _is_same(one: Path, other: Path, version: str) -> bool:
    """Whether two files are the same but for the last digits of numbers, and the version that wrote the first."""
    there, made = one.read_bytes(), other.read_bytes()
    if one.suffix != ".npz":
        written = f'"tiltyard_version": "{version}"'.encode()
        return is_same_text(there.replace(written, f'"tiltyard_version": "{versions()["tiltyard"]}"'.encode()), made)
    try:
        with np.load(one, allow_pickle=False) as left, np.load(other, allow_pickle=False) as right:
            return left.files == right.files and all(_are_equal(left[name], right[name]) for name in right.files)
    except (OSError, ValueError, EOFError, KeyError, NotImplementedError, zipfile.BadZipFile, zlib.error):
        return False
