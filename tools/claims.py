"""README's claims, each measured again or held against its dated record (`make claims`, a few minutes).

A claim is a piece of README's own text. Cheap ones are recomputed, promises are proved by the tests that break them on
purpose, and seconds are held against the record of the benchmark (`docs/performance.md`), which `make bench` renews.
`unclaimed` finds lines of README with figures or promises that no claim covers; a test keeps it empty.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).parent.parent
PERFORMANCE = "docs/performance.md"
PROMISING = ("## Why trust the numbers", "## Compared with the alternatives")
"""The sections of README in which every line is a claim."""

RUNS = 24
"""Simulated worlds of a row of coverage: some two minutes, nearly all of them for FastChat's bootstrap."""


@dataclass(frozen=True)
class Measured:
    """What was found, and whether the claim holds."""

    found: str
    holds: bool


@dataclass(frozen=True)
class Claim:
    """A piece of README's text, and how to measure it."""

    text: str
    measure: Callable[[], Measured]


def printed(command: str, line: str) -> Claim:
    """A command of README prints this line."""

    def measure() -> Measured:
        done = subprocess.run(
            [sys.executable, "-m", "tiltyard", *command.split()[1:]], cwd=ROOT, capture_output=True, text=True
        )
        return Measured(f"`{command}` prints it" if line in done.stdout else done.stdout[:200], line in done.stdout)

    return Claim(line, measure)


def proved(text: str, *tests: str) -> Claim:
    """These tests pass, and at least one of them ran."""

    def measure() -> Measured:
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not soak", *tests]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        summary = done.stdout.strip().splitlines()[-1] if done.stdout.strip() else done.stderr[-200:]
        return Measured(re.sub(r" in [\d.]+s.*", "", summary), done.returncode == 0 and " passed" in summary)

    return Claim(text, measure)


def recorded(text: str, *lines: tuple[str, str]) -> Claim:
    """README's seconds of a row, from left to right, are those of these lines of the record: job and library."""

    def measure() -> Measured:
        page = (ROOT / PERFORMANCE).read_text(encoding="utf-8")
        dated = re.findall(r"^Measured on (\S+?):", page, re.MULTILINE)
        row = line_of(text)
        stated = [float(value) for value in re.findall(r"([\d.]+) s\b", row)]
        kept = [_seconds(page, job, who) for job, who in lines]
        holds = len(stated) == len(kept) and all(_rounds_to(kept[i], stated[i]) for i in range(len(stated)))
        return Measured(f"record of {max(dated)}: {', '.join(map(str, kept))} s", holds)

    return Claim(text, measure)


def _seconds(page: str, job: str, who: str) -> float:
    """The CPU seconds of a library's line in the record."""
    for line in page.splitlines():
        cells = [cell.strip(" *") for cell in line.split("|")]
        if len(cells) > 4 and cells[1] == job and cells[2] == who:
            return float(cells[3].replace(",", "").removesuffix(" est"))
    return float("nan")


def _rounds_to(kept: float, stated: float) -> bool:
    digits = 0 if stated >= 100 else 1 if stated >= 1 else 2
    return abs(kept - stated) <= 0.5001 * 10.0**-digits


def covered(text: str, world: str) -> Claim:
    """The shares of a row of README's table of coverage, counted again in a smaller simulation.

    All libraries see the same battles. A share holds if it is within three Monte-Carlo standard errors of the new
    one, rounding included.
    """

    def measure() -> Measured:
        sys.path[:0] = [str(ROOT), str(ROOT / "tests")]
        from bench.coverage import one_world, worlds

        (chosen,) = [one for one in worlds() if one.name == world]
        shares = one_world(chosen, simulations=RUNS, seed=int(time.time()))
        stated = stated_shares(text)
        found = [(share, error) for share, error, *_ in shares.values()]
        holds = len(stated) == len(found) and all(
            abs(claim - share) <= 3 * max(error, 0.005) + 0.005
            for claim, (share, error) in zip(stated, found, strict=True)
        )
        said = ", ".join(f"{100 * share:.0f} ± {100 * error:.0f} %" for share, error in found)
        return Measured(f"{RUNS} new runs: {said}", holds)

    return Claim(text, measure)


def stated_shares(text: str) -> list[float]:
    """The percentages of README's row that begins with this text, which may have some of its own."""
    return [int(value) / 100 for value in re.findall(r"(\d+) %", line_of(text).partition(text)[2])]


def line_of(text: str) -> str:
    """The line of README with this text."""
    (line,) = [line for line in (ROOT / "README.md").read_text(encoding="utf-8").splitlines() if text in line]
    return line


def rates(text: str, rows: list[dict[str, object]], holds: Callable[[str], bool], *options: str) -> Claim:
    """What `tiltyard rate` says of a few rows."""

    def measure() -> Measured:
        import json

        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "battles.jsonl"
            path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
            command = [sys.executable, "-m", "tiltyard", "rate", str(path), *options]
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        said = (done.stdout + done.stderr).replace(str(path), path.name)
        return Measured(next((line for line in said.splitlines() if holds(line)), said[:200]).strip(), holds(said))

    return Claim(text, measure)


def _battle(a: str, b: str, winner: str = "model_a") -> dict[str, object]:
    return {"model_a": a, "model_b": b, "winner": winner, "source": "human"}


UNBEATEN = [*[_battle("x", "y")] * 20, *[_battle("y", "z"), _battle("z", "y")] * 5]
ISLANDS = [_battle("a", "b"), _battle("b", "a"), _battle("c", "d"), _battle("d", "c")]
MISSPELT = [_battle("a", "b"), _battle("b", "a", "model_aa")]

CLAIMS = (
    printed(
        "tiltyard compare v2 v1 --in examples/versions/today.jsonl", "v2 is better than v1: +96 points (40 to 152)"
    ),
    printed("tiltyard rate examples/birds.jsonl", "1–3   osprey      1139.8  1094.4 – 1185.3"),
    proved("**Intervals keep their promise.**", "tests/ratings/test_worlds.py", "tests/ratings/test_coverage.py"),
    covered("| 20 prompts, used equally |", "20 prompts, used equally"),
    covered("| 6 equal models, one voter casts 30 % |", "6 equal models, one voter casts 30 %"),
    proved(
        "**Published results are reproduced**",
        "tests/ratings/test_published_ratings.py",
        "tests/ratings/test_glicko2.py::test_glickmans_example",
        "tests/boards/test_real_boards.py::test_evalicas_golden_counts_win_rates_and_strengths",
        "tests/boards/test_real_boards.py::"
        "test_alpaca_eval_win_rates_are_the_published_ones_where_the_rows_are_the_published_rows",
        "tests/judging/test_people.py::test_published_judges_agree_with_the_crowd_as_published",
    ),
    proved("**A failure is never data.**", "tests/judging/test_any_reply.py", "tests/battles/test_bad_rows.py"),
    proved(
        "**Nothing is lost.**",
        "tests/arena/test_crash.py",
        "tests/tournament/test_interrupts.py",
        "tests/placement/test_place_kill_and_resume.py",
    ),
    proved("**Voting is blind on every page.**", "tests/web/test_blind_pages.py"),
    proved("**A vote cannot be undone once its names are known.**", "tests/arena/test_reveal.py"),
    proved(
        "**Missed goals are published too**",
        "tests/docs/test_site.py::test_every_page_of_the_manual_is_in_the_contents",
    ),
    recorded(
        "| Bradley–Terry, 1M battles from pandas, CPU |",
        ("point fit, pandas strings", "tiltyard, ties as half a win"),
        ("point fit, pandas strings", "arena-rank"),
        ("point fit, pandas strings", "evalica"),
        ("point fit, pandas strings", "FastChat's method"),
    ),
    recorded(
        "| … with 95 % intervals |",
        ("fit + 95 % intervals, pandas strings", "tiltyard"),
        ("fit + 95 % intervals, pandas strings", "arena-rank"),
        ("100 rounds", "evalica (percentile)"),
        ("100 rounds", "FastChat's method"),
    ),
    proved("| ties | Davidson, Rao–Kupper, half |", "tests/ratings/test_tie_models.py"),
    proved("| verdicts on one prompt as one cluster |", "tests/ratings/test_clusters.py"),
    proved("| other methods | Elo, permutation Elo, Glicko-2, win rate |", "tests/boards/test_rate_methods.py"),
    rates("| a model that never lost |", UNBEATEN, lambda said: "unbeaten" in said),
    rates("| two groups that never met |", ISLANDS, lambda said: "never met" in said and "c, d" in said),
    rates("| a misspelt winner |", MISSPELT, lambda said: "battles.jsonl:2: unknown winner" in said),
)


def unclaimed(readme: str) -> list[str]:
    """Lines of the promising sections that no claim covers: every bullet, and every row of a table with a figure."""
    left = []
    for heading in PROMISING:
        lines = readme.partition(f"{heading}\n")[2].partition("\n## ")[0].splitlines()
        for line, below in zip(lines, [*lines[1:], ""], strict=True):
            row = line.lstrip().startswith("| ") and not below.lstrip().startswith("|--") and re.search(r"\d", line)
            if (line.startswith("- ") or row) and not any(claim.text in line for claim in CLAIMS):
                left.append(line)
    return left


def main() -> int:
    """Print claim, what was measured, and the verdict; 1 if one does not hold."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("only", nargs="?", default="", help="Only claims with this text in them.")
    asked = parser.parse_args()
    failed = 0
    for claim in CLAIMS:
        if asked.only in claim.text:
            sys.stdout.write(f"{claim.text.strip('| *')}\n")
            sys.stdout.flush()
            measured = claim.measure()
            failed += not measured.holds
            sys.stdout.write(f"    {'holds' if measured.holds else 'DOES NOT HOLD'}: {measured.found}\n")
    sys.stdout.write(f"{failed or 'no'} claim{'' if failed == 1 else 's'} of README failed\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
