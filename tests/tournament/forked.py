"""Commands in processes of their own that start at once: forked from one that has imported everything already.

Importing the SDKs takes seconds, and a test that starts a command a dozen times has better things to wait for. A forked
command is a process like any other: it has an exit code and two streams, and can be interrupted and killed.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import sys
from collections.abc import Callable
from dataclasses import replace
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(
    [
        "tiltyard.cli.main",
        "tiltyard.tournament.run",
        "tiltyard.tournament.generate",
        "tiltyard.tournament.rejudge",
        "tiltyard.tournament.summary",
        "tiltyard.llm.providers.anthropic",
        "tiltyard.llm.providers.openai",
        "pytest",
        "yaml",
        "scipy.stats",
    ]
)


class Forked:
    """A process that runs a function, with its streams in files of `folder`."""

    def __init__(self, folder: Path, name: str, work: Callable[..., None], *arguments: Any) -> None:
        self.streams = folder / f"{name}.out", folder / f"{name}.err"
        place = (str(folder), dict(os.environ), *map(str, self.streams))
        self.process: ForkServerProcess = _FORKS.Process(target=_enter, args=(place, work, arguments))
        self.process.start()

    @property
    def running(self) -> bool:
        """Whether it has not ended yet."""
        return self.process.is_alive()

    def kill(self) -> bool:
        """`kill -9`; whether it was still running."""
        was_running = self.process.is_alive()
        self.process.kill()
        self.process.join(60)
        return was_running and self.process.exitcode == -9

    def wait(self) -> CompletedProcess[str]:
        """Its exit code and what it said."""
        self.process.join(120)
        assert self.process.exitcode is not None, "it has not ended in two minutes"
        out, err = (stream.read_text(encoding="utf-8") for stream in self.streams)
        return CompletedProcess([], self.process.exitcode, out, err)


def _enter(place: tuple[str, dict[str, str], str, str], work: Callable[..., None], arguments: tuple[Any, ...]) -> None:
    """Become a process of one's own: folder, environment and streams. Then work."""
    folder, environment, out, err = place
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment, COLUMNS="160", NO_COLOR="1")
    writing = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    for number, (name, flags) in enumerate([(os.devnull, os.O_RDONLY), (out, writing), (err, writing)]):
        os.dup2(os.open(name, flags, 0o644), number)
    sys.stdin = open(0, closefd=False, encoding="utf-8")  # noqa: SIM115 (they live as long as the process)
    sys.stdout = open(1, "w", closefd=False, encoding="utf-8")  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, closefd=False, encoding="utf-8")  # noqa: SIM115
    try:
        work(*arguments)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()


def command(*arguments: str) -> None:
    """`tiltyard …`."""
    from tiltyard.cli.main import main

    sys.argv = ["tiltyard", *arguments]
    main()


def tournament(config: str, folder: str, grace_seconds: float) -> None:
    """`tiltyard run CONFIG --mode headline --output-dir FOLDER --yes`, with less patience for the provider's list.

    A minute in which an accepted batch may be missing from the list is right for a provider and too long for a test.
    """
    from tiltyard.report import write_report
    from tiltyard.tournament.config import load_setup
    from tiltyard.tournament.plan import RunOptions, make_plan
    from tiltyard.tournament.run import asking_parts, carry_out, make_docket, make_judge

    setup = load_setup(config)
    plan = make_plan(setup, RunOptions(mode="headline"))
    asking = asking_parts(setup, lambda line: None, budget_usd=None, max_batch=None)
    asking = replace(asking, settings=replace(asking.settings, adoption_grace_seconds=grace_seconds))
    judge = make_judge(setup, plan.judge_model, asking)
    asyncio.run(carry_out(plan, make_docket(plan), judge, Path(folder), prices=asking.prices, finish=write_report))
