"""Make small mistakes in the code on purpose, one at a time, and see whether a test notices.

    nice python tools/mutate.py                     # 200 mistakes, chosen by --seed, over the modules in GROUPS
    python tools/mutate.py --again MODULE#NUMBER    # one of them again, with what the tests say

A first pass runs the tests once and notes which test calls which function (`.mutate/` keeps that until the code or a
test changes). Then each mistake is made in a copy of the package, and only the tests that call the changed function
run, up to the first that fails. A mistake that no test notices survives. `known_survivors.toml` lists those that change
nothing anybody could see, each with its reason; they count neither way. The checkout's own files are never changed.
"""

from __future__ import annotations

import argparse
import ast
import random
import re
import sys
import tempfile
import time
import tomllib
from collections import Counter, defaultdict
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING

from mutation_runs import ROOT, FirstFailure, Found, TestRun, Workers, run_tests, which_test_calls_what
from mutations import Mutation, mutated, mutations

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

KNOWN = ROOT / "tools" / "known_survivors.toml"

GROUPS = {
    "stats": ("tiltyard.stats",),
    "trust": (
        *("tiltyard.arena.study.publication", "tiltyard.arena.study.quality", "tiltyard.arena.study.voters"),
        *("tiltyard.arena.study.coverage", "tiltyard.arena.study.churn", "tiltyard.arena.rules.bounded_influence"),
        "tiltyard.arena.matchmaking.fairness",
    ),
    "judging": (
        *("tiltyard.judge.verdicts.reading", "tiltyard.judge.verdicts.records", "tiltyard.judge.verdicts.questions"),
        *("tiltyard.judge.verdicts.language_model", "tiltyard.judge.verdicts.cache", "tiltyard.judge.verdicts.plan"),
    ),
    "arena rules": (
        *("tiltyard.arena.rules.policy", "tiltyard.arena.rules.voting", "tiltyard.arena.rules.blindness"),
        *("tiltyard.arena.writing.commands", "tiltyard.arena.study.integrity", "tiltyard.arena.matchmaking"),
    ),
    "store": (
        *("tiltyard.arena.rules.events", "tiltyard.arena.store.log", "tiltyard.arena.store.matchups"),
        *("tiltyard.arena.audit.verify", "tiltyard.arena.store.visitors"),
    ),
    "web guards": (
        *("tiltyard.site.guard", "tiltyard.site.admin_gate", "tiltyard.site.visitors"),
        "tiltyard.site.failures",
    ),
}
"""What is changed: modules, or all modules of a package."""

TESTS = ("stats", "analysis/boards", "judge/verdicts", "arena", "site", "reference")
NOT_ASKED = re.compile(
    "browser|upload|supervisor|worker|connections|kill|crash|compiled|_commands|simulation|hostile|test_coverage"
    "|threads|health|notice|observatory|other_pages|model_page|leaderboard|text|api_agrees|population|weekly|offline|effects"
    "|account|bias|canaries|recorded|python_page|artifacts_page|errors_page|large_boards|real_boards|charts"
)
"""Test files that are left out: those that start processes, take long, or are about other things."""

OUTCOMES = ("killed", "timed out", "survived", "not tested", "no answer", "known")

PATIENCE = 60.0
"""Seconds of tests that are asked about one mistake, quick ones first."""


@dataclass(frozen=True, slots=True)
class Result:
    """What became of a mistake."""

    mutation: Mutation
    outcome: str
    """One of `OUTCOMES`; a test that hangs (`timed out`) noticed the mistake, `no answer` is pytest's own trouble."""
    by: str


# --- What can be changed ---------------------------------------------------------------------------------------------


def path_of(module: str) -> Path:
    """The source of a module, or of a package's folder."""
    base = ROOT / "src" / Path(*module.split("."))
    return base if base.is_dir() else base.with_suffix(".py")


def modules() -> dict[str, str]:
    """Every module that is changed, and its group. A name that leads to no file is an error."""
    found: dict[str, str] = {}
    for group, names in GROUPS.items():
        for name in names:
            path = path_of(name)
            files = sorted(path.rglob("*.py")) if path.is_dir() else [path]
            for file in files:
                if not file.is_file():
                    raise SystemExit(f"GROUPS names {name}, but there is no {file}. Give the module's new name.")
                if file.name not in (
                    "__init__.py",
                    "compiled.py",
                ):  # compiled.py decides about numba, in other processes
                    found.setdefault(".".join(file.relative_to(ROOT / "src").with_suffix("").parts), group)
    return found


def all_mutations(names: Iterable[str]) -> dict[str, list[Mutation]]:
    """Every mistake that can be made, by module."""
    return {name: mutations(name, path_of(name).read_text(encoding="utf-8")) for name in names}


def sample(pool: dict[str, list[Mutation]], number: int, seed: int) -> list[Mutation]:
    """So many mistakes, as evenly over the modules as they allow; the same for the same seed and code."""
    decks = []
    for name, made in sorted(pool.items()):
        deck = list(made)
        random.Random(f"{seed} {name}").shuffle(deck)  # noqa: S311 - a sample, no secret
        decks.append(deck)
    rounds = (deck[turn] for turn in range(max(map(len, decks), default=0)) for deck in decks if turn < len(deck))
    return [mutation for mutation, _ in zip(rounds, range(number), strict=False)]


def known_survivors() -> dict[tuple[str, ...], str]:
    """The mistakes that change nothing anybody could see, and why."""
    listed = tomllib.loads(KNOWN.read_text(encoding="utf-8")).get("survivor", [])
    names = ("module", "function", "text", "before", "after")
    return {tuple(row[name] for name in names): row["reason"] for row in listed}


def test_files() -> list[Path]:
    """The files with tests that may be asked."""
    files = [file for folder in TESTS for file in sorted((ROOT / "tests" / folder).glob("test_*.py"))]
    return [file for file in files if not NOT_ASKED.search(file.name)]


def imports(file: str) -> set[str]:
    """The modules that a test file imports by name."""
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


def covering(mutation: Mutation, tests: list[TestRun], imported: dict[str, set[str]]) -> list[list[str]]:
    """The tests to ask, quick ones rather than slow ones, in two turns: files that import the module, then others."""
    where = f"{mutation.module}:{mutation.function}"
    near = {file for file, names in imported.items() if mutation.module in names}
    chosen = [test for test in tests if mutation.function and where in test.calls]
    if not chosen:  # it runs at import or in a shared fixture: whoever imports the module or calls anything in it
        module = f"{mutation.module}:"
        chosen = [test for test in tests if test.file in near or any(call.startswith(module) for call in test.calls)]
    chosen.sort(key=lambda test: (test.file not in near, test.seconds))
    total = accumulate(test.seconds for test in chosen)
    asked = [test for test, seconds in zip(chosen, total, strict=True) if seconds <= PATIENCE]
    asked.sort(key=lambda test: test.file)
    turns = ([test.name for test in asked if (test.file in near) is nearer] for nearer in (True, False))
    return [turn for turn in turns if turn]


# --- Making mistakes -------------------------------------------------------------------------------------------------


def attempt(place: Path, mutation: Mutation, turns: list[list[str]]) -> Found:
    """Make one mistake in the copy, ask the tests, and put the copy right again."""
    copy = place / path_of(mutation.module).relative_to(ROOT)
    source = copy.read_text(encoding="utf-8")
    copy.write_text(mutated(source, mutation.number), encoding="utf-8")
    failure = FirstFailure()
    try:
        for turn in turns:
            code = run_tests(place, turn, failure)
            if code != 0:
                said = (place / "output").read_text(encoding="utf-8", errors="replace")
                outcome = "no answer" if code > 2 else "timed out" if failure.hung else "killed"
                return {"outcome": outcome, "by": failure.by, "said": said}
    finally:
        copy.write_text(source, encoding="utf-8")
    return {"outcome": "survived", "by": f"{sum(map(len, turns))} tests"}


def report(results: list[Result], groups: dict[str, str], seconds: float) -> Iterator[str]:
    """What became of the mistakes, by module, by group and altogether, and which of them survived."""
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for result in results:
        module = result.mutation.module
        for name in (module.removeprefix("tiltyard."), groups[module].upper(), "ALL"):
            counts[name][result.outcome] += 1
    yield f"{'':34}" + "".join(f"{outcome:>12}" for outcome in (*OUTCOMES, "kill rate"))
    for name in sorted(counts, key=lambda name: (name == "ALL", name.isupper(), name)):
        count = counts[name]
        killed = count["killed"] + count["timed out"]
        rate = killed / max(count.total() - count["known"], 1)
        yield f"{name:34}" + "".join(f"{count[outcome]:>12}" for outcome in OUTCOMES) + f"{rate:>12.1%}"
    for result in sorted(results, key=lambda result: result.mutation.name):
        if result.outcome in ("survived", "not tested", "no answer"):
            yield f"{result.outcome}: {result.mutation}  ({result.mutation.name}, {result.by})"
    yield f"{len(results)} mistakes in {seconds / 60:.1f} minutes"


def say(line: str) -> None:
    """Print one line at once."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main() -> None:
    """Make the mistakes that the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], epilog=__doc__.partition("\n\n")[2])
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--number", type=int, default=200, help="how many mistakes (default: 200)")
    parser.add_argument("--seed", type=int, default=1, help="which mistakes (default: 1)")
    parser.add_argument("--workers", type=int, default=2, help="processes at a time (default: 2)")
    parser.add_argument("--only", default="", metavar="TEXT", help="only modules whose name contains this")
    parser.add_argument("--again", nargs="*", default=[], metavar="NAME", help="these mistakes only, e.g. a survivor")
    parser.add_argument("--reuse", action="store_true", help="trust the notes of an earlier first pass")
    parser.add_argument("--list", action="store_true", help="list the mistakes that would be made, and stop")
    options = parser.parse_args()
    started = time.monotonic()
    groups = modules()
    pool = all_mutations(name for name in groups if options.only in name)
    chosen = sample(pool, options.number, options.seed)
    if options.again:
        chosen = [mutation for made in pool.values() for mutation in made if mutation.name in options.again]
    if options.list:
        for mutation in chosen:
            say(f"{mutation.name}  {mutation}")
        return
    known, results = known_survivors(), []
    with tempfile.TemporaryDirectory(prefix="mutate-") as folder:
        workers = Workers(options.workers, Path(folder))
        names = {name: path_of(name) for name in groups}
        tests = which_test_calls_what(workers, test_files(), names, reuse=options.reuse, say=say)
        imported = {file: imports(file) for file in {test.file for test in tests}}
        for mutation in chosen:

            def done(found: Found, mutation: Mutation = mutation) -> None:
                outcome, by = found.get("outcome", "timed out"), found.get("by", "a process that was lost")
                results.append(Result(mutation, outcome, by))
                say(f"{outcome:10}  {mutation}  [{by}]" + (f"\n{found.get('said', '')}" if options.again else ""))

            turns = covering(mutation, tests, imported)
            if mutation.key in known and not options.again:
                done({"outcome": "known", "by": known[mutation.key]})
            elif not turns:
                done({"outcome": "not tested", "by": "no test calls it"})
            else:
                workers.start(partial(attempt, mutation=mutation, turns=turns), done)
        workers.finish()
    for line in report(results, groups, time.monotonic() - started):
        say(line)


if __name__ == "__main__":
    main()
