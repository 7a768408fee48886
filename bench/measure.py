"""Measuring: CPU seconds of a call or of a whole process, the minimum of several runs, and peak memory.

CPU seconds (user + system, all threads and children) rather than wall seconds, because the machine may have other work.
The process that reads results stays small and imports nothing heavy: on Linux a child's peak memory, as the parent sees
it, is never below what the parent held when it started the child.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

ROOT = Path(__file__).resolve().parent.parent

ONE_THREAD = {
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
}
"""Linear algebra on one thread for all libraries: on these small matrices more threads only wait for each other."""

QUICK = "TILTYARD_BENCH_QUICK"
"""Set if a job only needs to show that it works: one run."""

ENOUGH_SECONDS = 20.0
"""A job that has taken so long, by the clock, is not run again."""

BYTE_CODE = ("PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED")
"""Settings of a developer's shell that a user does not have; children run without them."""


@dataclass(frozen=True)
class Cost:
    """The cost of something. `estimated` means that some rounds were run and the rest extrapolated.

    `round_cpu_seconds` and `round_wall_seconds` are the part of one round, where there are rounds.
    """

    cpu_seconds: float
    wall_seconds: float
    peak_mb: float
    estimated: bool = False
    round_cpu_seconds: float = 0.0
    round_wall_seconds: float = 0.0

    def with_rounds(self, more: int) -> Cost:
        """The cost with this many more rounds."""
        return replace(
            self,
            cpu_seconds=self.cpu_seconds + more * self.round_cpu_seconds,
            wall_seconds=self.wall_seconds + more * self.round_wall_seconds,
            estimated=True,
        )


@dataclass(frozen=True)
class Answer:
    """A worker's output: its cost and result, or why there is none."""

    cost: Cost | None
    result: Any = None
    problem: str | None = None


@dataclass(frozen=True)
class Task:
    """Work to be measured. `run` is timed; then `each(i)` is timed for a few rounds and extrapolated to all
    `rounds`."""

    run: Callable[[], Any]
    result: Callable[[Any], Any] = lambda value: value
    each: Callable[[int], Any] | None = None
    rounds_run: int = 0
    rounds: int = 0
    repeats: int = 3


def cpu_seconds() -> float:
    """CPU seconds of this process and of the children it has waited for."""
    every = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(use.ru_utime + use.ru_stime for use in every)


def peak_mb() -> float:
    """The most memory this process has held."""
    status = Path("/proc/self/status")
    if status.exists():
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / MAXRSS_PER_MB


MAXRSS_PER_MB = 1024 * 1024 if sys.platform == "darwin" else 1024


def measure(task: Task) -> tuple[Cost, Any]:
    """The minimum CPU and wall seconds of some runs; after two, no further run once ENOUGH_SECONDS are spent.

    At least two if more than one is requested: the first may compile.
    """
    cpu, wall, value, spent = [], [], None, 0.0
    repeats = 1 if os.environ.get(QUICK) else task.repeats
    while len(cpu) < repeats and (len(cpu) < 2 or spent + min(wall) < ENOUGH_SECONDS):
        one_cpu, one_wall, value = _timed(task.run)
        cpu.append(one_cpu)
        wall.append(one_wall)
        spent += one_wall
    if task.each is None:
        return Cost(min(cpu), min(wall), peak_mb()), value
    task.each(0)  # the first round may compile
    rounds = [_timed(lambda i=i: task.each(i)) for i in range(1, task.rounds_run + 1)]
    each_cpu, each_wall = (sum(part[k] for part in rounds) / task.rounds_run for k in range(2))
    once = Cost(min(cpu), min(wall), peak_mb(), round_cpu_seconds=each_cpu, round_wall_seconds=each_wall)
    return once.with_rounds(task.rounds), value


def _timed(run: Callable[[], Any]) -> tuple[float, float, Any]:
    wall, cpu = time.perf_counter(), cpu_seconds()
    value = run()
    return cpu_seconds() - cpu, time.perf_counter() - wall, value


def whole_process(command: Sequence[str], repeats: int = 1, settings: dict[str, str] | None = None) -> Answer:
    """The cost of a command from start to end: the minimum of some runs. Its standard output is the result.

    There is no further run once ENOUGH_SECONDS would be spent.
    """
    costs: list[Cost] = []
    text, most, spent = "", 1 if os.environ.get(QUICK) else repeats, 0.0
    while len(costs) < most and (not costs or spent + costs[-1].wall_seconds < ENOUGH_SECONDS):
        started = time.perf_counter()
        with tempfile.TemporaryFile("w+") as errors:
            child = subprocess.Popen(
                command, cwd=ROOT, env=_environment(settings or {}), stdout=subprocess.PIPE, stderr=errors, text=True
            )
            text = child.stdout.read()
            _, status, use = os.wait4(child.pid, 0)  # the only call that reports the usage of this one child
            child.returncode = os.waitstatus_to_exitcode(status)
            wall = time.perf_counter() - started
            child.stdout.close()
            if child.returncode:
                errors.seek(0)
                return Answer(None, problem=_problem(errors.read()) or f"exit code {child.returncode}")
        spent += wall
        costs.append(Cost(use.ru_utime + use.ru_stime, wall, use.ru_maxrss / MAXRSS_PER_MB))
    least = (min(getattr(cost, name) for cost in costs) for name in ("cpu_seconds", "wall_seconds", "peak_mb"))
    return Answer(Cost(*least), text)


def in_worker(job: str, options: dict[str, Any], settings: dict[str, str] | None = None) -> Answer:
    """The cost of one job of `bench.jobs`, in a fresh process; only the job itself is timed."""
    command = [sys.executable, "-m", "bench.worker", job, json.dumps(options)]
    answer = whole_process(command, settings=ONE_THREAD | (settings or {}))
    if answer.problem:
        return answer
    said = json.loads(answer.result.splitlines()[-1])
    if said["problem"]:
        return Answer(None, problem=said["problem"])
    return Answer(Cost(**said["cost"]), said["result"])


def _environment(settings: dict[str, str]) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in BYTE_CODE}
    return kept | {"PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu"} | settings


def _problem(errors: str) -> str:
    """The last line of a process's error output; a missing module is reported in plain words."""
    last = errors.strip().splitlines()[-1] if errors.strip() else ""
    missing = last.removeprefix("ModuleNotFoundError: No module named ")
    return last if missing == last else f"{missing.strip(chr(39))} is not installed"
