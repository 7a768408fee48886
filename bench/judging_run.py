"""A whole `tiltyard run` of many pairs, observed from outside: CPU seconds and peak memory of each of its stages.

The stage is inferred from the files that the run has written so far. Batches go over HTTP to `bench.batch_server`, a
separate process, whose CPU seconds are not counted.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.judging import ANSWER_CHARACTERS, DIMENSION, ENTRANTS, MODEL, PAIRS
from bench.measure import ONE_THREAD, ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator

TILTYARD = str(Path(sys.executable).with_name("tiltyard"))
LOOK_SECONDS = 0.02
TICKS = os.sysconf("SC_CLK_TCK")
VERDICT_BYTES = 800
"""Approximate size of one line of the verdict cache."""
STAGES = {
    "plan and quote": "manifest.json",
    "write matches": "matches/matches.jsonl",
    "ask and collect": "verdicts/*",
    "write verdicts": f"verdicts/{DIMENSION}.jsonl",
    "rate": "battles.jsonl",
    "usage": "usage.json",
    "report": "nothing ends it but the process",
}
"""Each stage, and the file whose appearance ends it. That of verdicts is first written under another name."""


@dataclass
class Stage:
    """The cost of one stage so far."""

    cpu_seconds: float = 0.0
    wall_seconds: float = 0.0
    most_mb: float = 0.0


@dataclass
class Watched:
    """A finished run: its stages, peak memory, exit code and output."""

    stages: dict[str, Stage] = field(default_factory=lambda: {name: Stage() for name in STAGES})
    peak_mb: float = 0.0
    exit_code: int | None = None
    said: str = ""

    def to_dict(self) -> dict[str, Any]:
        """As plain values."""
        return asdict(self)


def write_tournament(folder: Path, pairs: int, port: int) -> Path:
    """A config with its bank, answers and rubric, for at least this many pairs."""
    prompts = -(-pairs // len(PAIRS))
    with (folder / "bank.jsonl").open("w") as bank:
        for number in range(prompts):
            text = f"Question {number}: " + "why is that so? " * 10
            bank.write(json.dumps({"prompt_id": f"p{number:06d}", "text": text, "source": "bench"}) + "\n")
    (folder / "answers").mkdir()
    for entrant in ENTRANTS:
        with (folder / "answers" / f"responses_{entrant}.jsonl").open("w") as file:
            for number in range(prompts):
                name = f"p{number:06d}"
                text = f"{entrant} on {name}: ".ljust(ANSWER_CHARACTERS, "x")
                file.write(json.dumps({"entrant_id": entrant, "prompt_id": name, "response_text": text}) + "\n")
    (folder / "rubric.txt").write_text("# version: 1\nPrefer the answer that answers the question and is right.\n")
    config = {
        "entrants": [{"entrant_id": name} for name in ENTRANTS],
        "prompts": {"bank_path": "bank.jsonl"},
        "caches": {"responses_dir": "answers", "judgments_dir": "judgments"},
        "judge": {
            "pilot_model": f"anthropic/{MODEL}",
            "headline_model": f"anthropic/{MODEL}",
            "base_url": f"http://127.0.0.1:{port}",
            "poll_initial_seconds": 0.05,
            "poll_max_seconds": 1.0,
        },
        "rubrics": {DIMENSION: {"path": "rubric.txt"}},
    }
    path = folder / "tournament.yaml"
    path.write_text(json.dumps(config, indent=2))
    return path


@contextmanager
def batch_server(folder: Path) -> Iterator[int]:
    """The stand-in for the provider, with its batches in a folder; its port."""
    folder.mkdir(exist_ok=True)
    command = [sys.executable, "-m", "bench.batch_server", str(folder)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield int(process.stdout.readline())
        finally:
            process.kill()


def batch_sizes(port: int) -> list[tuple[int, int]]:
    """Requests and bytes of every batch that the server was sent."""
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(f"http://127.0.0.1:{port}/summary") as said:
        return [(requests, size) for requests, size in json.loads(said.read())]


def watch(config: Path, pairs: int, *, stop_after: int | None = None) -> Watched:
    """Run the tournament and observe it. With `stop_after`, kill it once the cache has this many bytes."""
    run, found = config.parent / "run", Watched()
    command = [TILTYARD, "run", str(config), "--mode", "headline", "--output-dir", str(run), "--yes"]
    settings = os.environ | ONE_THREAD | {"ANTHROPIC_API_KEY": "none"}
    cache = config.parent / "judgments" / f"judgments_{DIMENSION}.jsonl"
    with (config.parent / "said.txt").open("w") as said:
        process = subprocess.Popen([*command, "--limit-pairs", str(pairs)], env=settings, stdout=said, stderr=said)
        stages = iter(STAGES.items())
        name, end = next(stages)
        cpu = wall = 0.0
        began = time.perf_counter()
        while process.poll() is None:
            while any(run.glob(end)):
                name, end = next(stages)
            looked = _looked(process.pid)
            if looked is None:
                continue
            spent, held, peak = looked
            stage, now = found.stages[name], time.perf_counter() - began
            stage.cpu_seconds += spent - cpu
            stage.wall_seconds += now - wall
            stage.most_mb = max(stage.most_mb, held)
            found.peak_mb = max(found.peak_mb, peak)
            cpu, wall = spent, now
            if stop_after is not None and cache.exists() and cache.stat().st_size > stop_after:
                process.kill()
            time.sleep(LOOK_SECONDS)
    found.exit_code = process.returncode
    found.said = (config.parent / "said.txt").read_text()[-3000:]
    return found


def _looked(process: int) -> tuple[float, float, float] | None:
    """CPU seconds, current and peak memory of a process; None once it has ended."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        status = dict(line.split(":", 1) for line in Path(f"/proc/{process}/status").read_text().splitlines())
        cpu = sum(int(ticks) for ticks in fields[11:15]) / TICKS
        return cpu, int(status["VmRSS"].split()[0]) / 1024, int(status["VmHWM"].split()[0]) / 1024
    except (FileNotFoundError, ProcessLookupError, KeyError):
        return None


def watched_run(folder: Path, pairs: int, *, kill_at: float | None = None) -> dict[str, Any]:
    """Create a tournament in a folder, run it, and return the measurements.

    With `kill_at` it is killed once that share of the verdicts is saved, then run again; both runs are in the result.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with batch_server(folder / "batches") as port:
        config = write_tournament(folder, pairs, port)
        first = None
        if kill_at is not None:
            first = watch(config, pairs, stop_after=int(kill_at * 2 * pairs * VERDICT_BYTES)).to_dict()
        found = watch(config, pairs).to_dict()
        return {"pairs": pairs, "batches": batch_sizes(port), "killed": first, **found}


def main() -> None:
    """`python -m bench.judging_run PAIRS [HOME] [KILL_AT]` prints the measurements as JSON, and removes its files."""
    pairs, home = int(sys.argv[1]), Path(sys.argv[2]) if len(sys.argv) > 2 else None
    kill_at = float(sys.argv[3]) if len(sys.argv) > 3 else None
    with tempfile.TemporaryDirectory(prefix="judging-", dir=home) as folder:
        print(json.dumps(watched_run(Path(folder), pairs, kill_at=kill_at)))


if __name__ == "__main__":
    main()
