"""The report of a run of any size: CPU seconds and peak memory of `tiltyard report`, as a process of its own.

`python -m bench.report_run JUDGMENTS [HOME]` writes a run folder as a tournament of 15 entrants would (answers of 600
characters, a simulated judge that is read in both orders), reports on it, prints the measurements as JSON, and removes
the folder. Nothing is held in memory while the folder is written: a million judgments take some 6 GB of disk.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.judging import ANSWER_CHARACTERS, DIMENSION, ENTRANTS, MODEL, PAIRS, REASONING_CHARACTERS
from bench.judging_run import TILTYARD
from bench.measure import ONE_THREAD

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tiltyard.judging.records import Judgment

JUDGE = f"anthropic/{MODEL}"
TIME = "2026-11-16T08:00:00+00:00"
SEED = 20_261_116
SHUFFLES = 20
"""Shuffles of the permutation Elo: enough for its section of the report."""


def write_run(folder: Path, judgments: int) -> None:
    """A finished run folder of that many judgments."""
    from tiltyard.files import write_json, write_lines
    from tiltyard.tournament.artifacts import write_standings
    from tiltyard.tournament.config import EloSettings
    from tiltyard.tournament.ratings import rate_dimension

    settings = EloSettings(n_perms=SHUFFLES)
    write_lines(folder / "matches" / "matches.jsonl", _matches(judgments))
    write_lines(folder / "verdicts" / f"{DIMENSION}.jsonl", _judgments(judgments))
    standing = rate_dimension(DIMENSION, _judgments(judgments), settings, JUDGE)
    write_standings(folder, {DIMENSION: standing}, settings.default_k)
    (folder / "battles.jsonl").unlink()  # no report reads it
    manifest = {
        "mode": "headline",
        "judge_model": JUDGE,
        "entrants": list(ENTRANTS),
        "dimensions": [DIMENSION],
        "started_at": TIME,
        "finished_at": TIME,
    }
    write_json(folder / "manifest.json", manifest)


def _pairs(judgments: int) -> Iterator[tuple[int, str, str]]:
    prompts = range(-(-judgments // len(PAIRS)))
    pairs = ((prompt, one, two) for prompt in prompts for one, two in PAIRS)
    return itertools.islice(pairs, judgments)


def _matches(judgments: int) -> Iterator[dict[str, Any]]:
    for prompt, one, two in _pairs(judgments):
        name = f"p{prompt:06d}"
        yield {
            "dimension": DIMENSION,
            "prompt_id": name,
            "entrant_a": one,
            "entrant_b": two,
            "prompt_text": f"Question {prompt}: " + "why is that so? " * 10,
            "source": f"source {prompt % 3}",
            **dict.fromkeys(("subject", "gold_answer", "expected_behavior")),
            "response_a": f"{one} on {name}: ".ljust(ANSWER_CHARACTERS, "x"),
            "response_b": f"{two} on {name}: ".ljust(ANSWER_CHARACTERS, "x"),
        }


def _judgments(judgments: int) -> Iterator[Judgment]:
    """The same ones whenever they are asked for: about a tenth of each order ties, one in a thousand fails."""
    from tiltyard.judging import Matchup
    from tiltyard.judging.records import Verdict, VerdictLabel, settle

    rng = random.Random(SEED)
    strength = {name: 0.1 * place for place, name in enumerate(ENTRANTS)}
    for number, (prompt, one, two) in enumerate(_pairs(judgments)):
        lead = strength[one] - strength[two] + rng.gauss(0.0, 1.0)
        verdicts = []
        for swap in (False, True):
            leaning = (-lead if swap else lead) + rng.gauss(0.1, 0.5)
            label = VerdictLabel.TIE if abs(leaning) < 0.1 else VerdictLabel.A if leaning > 0 else VerdictLabel.B
            verdicts.append(
                Verdict(
                    cache_key=f"{2 * number + swap:064x}",
                    rubric_version="1",
                    judge_model=JUDGE,
                    position_swap=swap,
                    verdict=VerdictLabel.UNPARSED if rng.random() < 0.001 else label,
                    reasoning=f"On {prompt}: ".ljust(REASONING_CHARACTERS, "y"),
                    timestamp=TIME,
                    input_tokens=1500,
                    output_tokens=100,
                )
            )
        matchup = Matchup(prompt_id=f"p{prompt:06d}", dimension=DIMENSION, entrant_a=one, entrant_b=two)
        yield settle(matchup, verdicts)


def measured_report(folder: Path) -> dict[str, Any]:
    """Report on a run folder in a process of its own: CPU seconds, peak memory, files and their size."""
    subprocess.run([TILTYARD, "report", str(folder)], env=os.environ | ONE_THREAD, check=True, capture_output=True)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    pages = [folder / "report.html", *(folder / "report").glob("*.html")]
    return {
        "cpu_seconds": round(used.ru_utime + used.ru_stime, 1),
        "peak_mb": round(used.ru_maxrss / 1024),
        "files": len(pages),
        "page_mb": round(sum(page.stat().st_size for page in pages) / 1e6),
    }


def main() -> None:
    """Write, report, print."""
    judgments, home = int(sys.argv[1]), Path(sys.argv[2]) if len(sys.argv) > 2 else None
    with tempfile.TemporaryDirectory(prefix="report-", dir=home) as folder:
        write_run(Path(folder), judgments)
        print(json.dumps({"judgments": judgments, **measured_report(Path(folder))}))


if __name__ == "__main__":
    main()
