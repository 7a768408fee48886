"""Measuring: CPU seconds, wall seconds and peak memory of a call or a whole command, always in a process of its own.

CPU seconds (user + system, all threads and children) rather than wall seconds, because the machine may have other work.
`python -m bench.measure MODULE:FUNCTION OPTIONS` is such a process: it prints what the function costs and returns.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import math
import os
import resource
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "bench" / "results"
REAL_DATA = ROOT.parent / "shared" / "data"
"""Published battles, which are not part of the repository; rows that need them say when they are not there."""
TILTYARD = str(Path(sys.executable).with_name("tiltyard"))

ONE_THREAD = {
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
}
"""Linear algebra on one thread for all libraries: on these small matrices more threads only wait for each other."""
QUICK = "TILTYARD_BENCH_QUICK"
"""Set if a measurement only needs to show that it works: one run."""
ENOUGH_SECONDS = 20.0
"""What has taken so long, by the clock, is not run again."""
MOST_SECONDS = 4 * 3600.0
"""What takes longer is ended, and reported so."""
BYTE_CODE = ("PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED")
"""Settings of a developer's shell that a user does not have; measured processes run without them."""
MAXRSS_PER_MB = 1024 * 1024 if sys.platform == "darwin" else 1024
Z95 = 1.959964

LAUNCHER = """
import os, sys, time
began = time.perf_counter()
_, status, use = os.wait4(os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ), 0)
seconds = time.perf_counter() - began
print([use.ru_utime + use.ru_stime, seconds, use.ru_maxrss, os.waitstatus_to_exitcode(status)], file=sys.stderr)
"""
"""Starts a command and prints what it used. It is small: on Linux the peak memory of a process is never below what its
parent held when it started it."""


@dataclass(frozen=True)
class Cost:
    """The cost of something. `estimated`: some rounds were run and the rest extrapolated from the cost of one."""

    cpu_seconds: float
    wall_seconds: float
    peak_mb: float
    estimated: bool = False
    round_cpu_seconds: float = 0.0
    round_wall_seconds: float = 0.0

    def with_rounds(self, more: int) -> Cost:
        return replace(
            self,
            cpu_seconds=self.cpu_seconds + more * self.round_cpu_seconds,
            wall_seconds=self.wall_seconds + more * self.round_wall_seconds,
            estimated=True,
        )


@dataclass(frozen=True)
class Answer:
    """A cost and what was returned or printed, or why there is neither."""

    cost: Cost | None
    result: Any = None
    problem: str | None = None


@dataclass(frozen=True)
class Task:
    """A call to be timed; then `each(i)` is timed for a few rounds and extrapolated to all `rounds`."""

    run: Callable[[], Any]
    result: Callable[[Any], Any] = lambda value: value
    each: Callable[[int], Any] | None = None
    rounds_run: int = 0
    rounds: int = 0
    repeats: int = 3


def measure(task: Task) -> tuple[Cost, Any]:
    """The minimum of some runs: at least two if more than one is wanted, as the first may compile."""
    cpu, wall, value = [], [], None
    repeats = 1 if os.environ.get(QUICK) else task.repeats
    while len(cpu) < repeats and (len(cpu) < 2 or sum(wall) + min(wall) < ENOUGH_SECONDS):
        one_cpu, one_wall, value = _timed(task.run)
        cpu.append(one_cpu)
        wall.append(one_wall)
    cost = Cost(min(cpu), min(wall), peak_mb())
    if task.each is not None:
        task.each(0)  # the first round may compile
        rounds = [_timed(lambda i=i: task.each(i)) for i in range(1, task.rounds_run + 1)]
        each = [sum(part[k] for part in rounds) / task.rounds_run for k in range(2)]
        cost = replace(cost, peak_mb=peak_mb(), round_cpu_seconds=each[0], round_wall_seconds=each[1])
        cost = cost.with_rounds(task.rounds)
    return cost, value


def _timed(run: Callable[[], Any]) -> tuple[float, float, Any]:
    wall, cpu = time.perf_counter(), cpu_seconds()
    value = run()
    return cpu_seconds() - cpu, time.perf_counter() - wall, value


def cpu_seconds() -> float:
    """CPU seconds of this process and of the children it has waited for."""
    every = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(use.ru_utime + use.ru_stime for use in every)


def peak_mb() -> float:
    """The most memory that this process has held."""
    with contextlib.suppress(OSError), open("/proc/self/status") as status:  # noqa: PTH123
        line = next(line for line in status if line.startswith("VmHWM"))
        return int(line.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / MAXRSS_PER_MB


def quantiles(seconds: Sequence[float]) -> dict[str, float]:
    """Median and 99th percentile in milliseconds."""
    import numpy as np

    p50, p99 = np.quantile(np.array(seconds), [0.5, 0.99]) * 1000.0
    return {"p50_ms": float(p50), "p99_ms": float(p99)}


def whole_process(command: Sequence[str], repeats: int = 1, settings: Mapping[str, str] = ONE_THREAD) -> Answer:
    """The cost of a command from start to end: the minimum of some runs. Its standard output is the result."""
    costs: list[Cost] = []
    most, spent = 1 if os.environ.get(QUICK) else repeats, 0.0
    while len(costs) < most and (not costs or spent + costs[-1].wall_seconds < ENOUGH_SECONDS):
        answer = _run(command, settings)
        if answer.cost is None:
            return answer
        costs.append(answer.cost)
        spent += answer.cost.wall_seconds
    least = (min(getattr(cost, name) for cost in costs) for name in ("cpu_seconds", "wall_seconds", "peak_mb"))
    return Answer(Cost(*least), answer.result)


def _run(command: Sequence[str], settings: Mapping[str, str]) -> Answer:
    kept = {name: value for name, value in os.environ.items() if name not in BYTE_CODE}
    places = os.pathsep.join((str(ROOT), str(ROOT / "src")))
    with subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", LAUNCHER, *command],
        cwd=ROOT,
        env=kept | {"PYTHONPATH": places, "JAX_PLATFORMS": "cpu"} | dict(settings),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as launched:
        try:
            text, errors = launched.communicate(timeout=MOST_SECONDS)
        except subprocess.TimeoutExpired:
            return Answer(None, problem=f"ended after {MOST_SECONDS:,g} s")
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(launched.pid, signal.SIGKILL)  # whatever it has left behind
    *said, used = errors.strip().splitlines()
    cpu, wall, memory, code = json.loads(used)
    if code:
        return Answer(None, problem=_problem(said[-1] if said else f"exit code {code}"))
    return Answer(Cost(cpu, wall, memory / MAXRSS_PER_MB), text)


def _problem(last: str) -> str:
    """The last line of an error; a missing module in plain words."""
    missing = last.removeprefix("ModuleNotFoundError: No module named ")
    return last if missing == last else f"{missing.strip(chr(39))} is not installed"


def rated(path: Path, *options: str, repeats: int = 3, settings: Mapping[str, str] | None = None) -> Answer:
    """`tiltyard rate` on a file, as a user calls it; the board as a dictionary."""
    command = [TILTYARD, "rate", str(path), *options, "--format", "json"]
    answer = whole_process(command, repeats, ONE_THREAD | dict(settings or {}))
    return answer if answer.problem else replace(answer, result=json.loads(answer.result))


def in_child(function: Callable[..., Any], settings: Mapping[str, str] | None = None, **options: Any) -> Answer:
    """The cost of a `Task` that a function prepares, which alone is timed; or of its whole process if it returns
    anything else."""
    name = f"{function.__module__}:{function.__qualname__}"
    command = [sys.executable, "-m", "bench.measure", name, json.dumps(options, default=str)]
    answer = whole_process(command, settings=ONE_THREAD | dict(settings or {}))
    if answer.problem:
        return answer
    said = json.loads(answer.result.splitlines()[-1])
    return Answer(Cost(**said["cost"]) if said["cost"] else answer.cost, said["result"])


def main() -> None:
    """Call one function and print cost and result as JSON, on the last line."""
    module, _, name = sys.argv[1].partition(":")
    sys.path.append(str(ROOT / "tests"))  # for `oracles`
    value = getattr(importlib.import_module(module), name)(**json.loads(sys.argv[2]))
    cost = None
    if isinstance(value, Task):
        cost, found = measure(value)
        value = value.result(found)
    print(f"\n{json.dumps({'cost': cost and asdict(cost), 'result': value})}")


# --- Rows ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Line:
    """One measurement: the job, who did it, its cost or why there is none. `ours` marks our own."""

    job: str
    who: str
    cost: Cost | None
    ours: bool = False
    problem: str | None = None


@dataclass(frozen=True)
class Verdict:
    """A goal or a check: the sentence with its figure, and whether it holds."""

    text: str
    holds: bool


@dataclass
class Row:
    """One row of the benchmark: measurements, checks that the answers are right, goals for their cost."""

    name: str
    quick: bool = False
    folder: Path = RESULTS
    """Where data and compiled code are kept: on a real disk, so that commits have their real cost."""
    title: str = ""
    lines: list[Line] = field(default_factory=list)
    checks: list[Verdict] = field(default_factory=list)
    goals: list[Verdict] = field(default_factory=list)

    def size(self, full: int, quick: int) -> int:
        return quick if self.quick else full

    @property
    def data(self) -> Path:
        """The folder of generated files and temporary databases."""
        folder = self.folder / "data"
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def add(self, job: str, who: str, answer: Answer, *, ours: bool = False) -> Any:
        """Record a measurement; returns its result, or None. Ours must not fail; a peer may not be installed."""
        self.lines.append(Line(job, who, answer.cost, ours, answer.problem))
        if ours and answer.problem:
            self.check(f"{job}, {who}: {answer.problem}", False)
        return answer.result

    def skip(self, job: str, who: str, why: str) -> None:
        """Record that something of ours could not be measured here."""
        self.lines.append(Line(job, who, None, True, why))

    def ours(self, job: str, who: str, function: Callable[..., Any], **options: Any) -> Any:
        """Measure a function of ours in a process of its own."""
        return self.add(job, who, in_child(function, **options), ours=True)

    def peer(self, job: str, who: str, function: Callable[..., Any], **options: Any) -> Any:
        return self.add(job, who, in_child(function, **options))

    def check(self, text: str, holds: object) -> None:
        """Record whether an answer is right."""
        self.checks.append(Verdict(text, bool(holds)))

    def goal(self, text: str, holds: object) -> None:
        """Record whether a goal is met."""
        self.goals.append(Verdict(text, bool(holds)))

    def cpu(self, job: str, who: str) -> float | None:
        """CPU seconds of one measurement, if there is one."""
        lines = [line for line in self.lines if (line.job, line.who) == (job, who)]
        return next((line.cost.cpu_seconds for line in lines if line.cost), None)

    def ahead_goal(self, job: str, least: float = 1.0, only: str = "", who: str | None = None) -> None:
        """How many times less CPU we used than the best peer (with `only` in its name), if any was measured."""
        lines = [line for line in self.lines if line.job == job and line.cost]
        mine = [line for line in lines if line.ours and who in (None, line.who)]
        theirs = [line for line in lines if not line.ours and only in line.who]
        if mine and theirs:
            best = min(theirs, key=lambda line: line.cost.cpu_seconds)
            times = best.cost.cpu_seconds / mine[0].cost.cpu_seconds
            than = f"≥ {least:g}× " if least > 1.0 else "ahead of "
            self.goal(f"{job} ({mine[0].who}): goal {than}{best.who} → {times:.2g}×", times >= least)

    def limit_goals(self, job: str, seconds: float, megabytes: float | None = None) -> None:
        """Goals for our last line of a job."""
        costs = [line.cost for line in self.lines if line.job == job and line.ours and line.cost]
        if costs:
            cpu, mb = costs[-1].cpu_seconds, costs[-1].peak_mb
            self.goal(f"{job}: goal under {seconds:g} s of CPU → {cpu:.2f} s", cpu < seconds)
            if megabytes is not None:
                self.goal(f"{job}: goal under {megabytes:,.0f} MB → {mb:,.0f} MB", mb < megabytes)

    def ratios(self) -> Iterator[tuple[Line, float | None]]:
        """Each line with its CPU seconds over those of our first line of the same job."""
        for line in self.lines:
            ours = next((o.cost for o in self.lines if o.job == line.job and o.ours and o.cost), None)
            yield line, line.cost.cpu_seconds / ours.cpu_seconds if ours and line.cost else None

    def to_dict(self) -> dict[str, Any]:
        """The row as plain values, with each line's ratio to ours."""
        lines = [asdict(line) | {"ratio_to_ours": ratio} for line, ratio in self.ratios()]
        verdicts = {name: [asdict(item) for item in getattr(self, name)] for name in ("checks", "goals")}
        return {"name": self.name, "title": self.title, "lines": lines, **verdicts}


# --- Whether an answer is right --------------------------------------------------------------------------------------


def largest_gap(one: Mapping[str, float], two: Mapping[str, float]) -> float:
    """The largest difference between two sets of ratings after both are centred."""
    if one.keys() != two.keys():
        return math.inf
    mean_one, mean_two = statistics.fmean(one.values()), statistics.fmean(two.values())
    return max(abs((one[name] - mean_one) - (two[name] - mean_two)) for name in one)


def largest_difference(one: Sequence[float], two: Sequence[float]) -> float:
    return max(abs(x - y) for x, y in zip(one, two, strict=True))


def mean_square_z(ratings: Mapping[str, float], half_widths: Mapping[str, float], truth: Mapping[str, float]) -> float:
    """The mean squared error in units of the claimed standard error: near 1 when both ratings and errors are right."""
    centre = statistics.fmean(ratings[name] - truth[name] for name in ratings)
    return statistics.fmean(
        ((ratings[name] - truth[name] - centre) / (half / Z95)) ** 2 for name, half in half_widths.items()
    )


if __name__ == "__main__":
    from bench.measure import main as measured_main  # so that there is one class `Task`

    measured_main()
