"""`tiltyard demo`: the full workflow in a minute, on shipped material, with no key."""

from __future__ import annotations

import shlex
import shutil
import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import typer

from tiltyard.cli.output import note, say, working
from tiltyard.errors import MissingExtra, OptionError

if TYPE_CHECKING:
    from tiltyard.verbs.demo.steps import MadeKind, RunResult

DEFAULT_FOLDER = Path("tiltyard-demo")
WIDTH = 97


def demo_command(
    out: Path = typer.Option(DEFAULT_FOLDER, help="Folder for everything the demo makes."),
    live: bool = typer.Option(
        False,
        "--live",
        help="Also let a very small model answer and judge here and now (extra `local`; half a minute).",
    ),
    kind: Literal["voxel", "svg", "html"] | None = typer.Option(
        None,
        help="Only an arena of things to look at: builds of blocks, drawings or pages, made by scripts of ours.",
    ),
) -> None:
    """A judged tournament on recorded verdicts, its report, and a live arena: no key, no network, under a minute."""
    from tiltyard.verbs.demo.steps import NOTE, board_text, copy_material, load_facts, passes, run_line, verdict_lines

    if kind is not None:
        if live:
            raise OptionError("--live answers in words: leave it out, or --kind.")
        _gallery(out if out != DEFAULT_FOLDER else Path(f"{DEFAULT_FOLDER}-{kind}"), kind)
        return
    _head(f"Tiltyard demo · {NOTE}")
    copied = copy_material(out)
    facts = load_facts(out)
    say(
        f"\n1. The material: {facts['prompts']} prompts from {facts['sources']} sources, "
        f"answered by {facts['entrants']} entrants\n"
        "   Two small models under different instructions. The larger one also judged every pair of answers,\n"
        f"   in both orders: {facts['verdicts']:,} verdicts, recorded as they came. {out / 'provenance.md'} says how."
    )
    note(f"  {copied.line()}")
    say("\n2. The pilot: a dozen prompts first, to see whether the judge is worth its money")
    pilot = _run(out, "pilot")
    for line in verdict_lines(pilot.checks):
        say(f"   {line}")
    if not passes(pilot.checks):
        say("   In a real run you would look for another judge now. The demo continues, to show the rest.")
    say("\n3. The headline run: all prompts")
    headline = _run(out, "headline")
    say(f"   {run_line(headline)}")
    for dimension, standing in headline.standings.items():
        say(f"\n   {dimension}")
        for line in board_text(standing).splitlines():
            for part in [line] if len(line) <= WIDTH else textwrap.wrap(line, WIDTH, subsequent_indent="  "):
                say(f"   {part}".rstrip())
    opened = _arena(out)
    asked = live and _live(out)
    say(_closing(out, arena=opened, live=asked))


def _gallery(out: Path, kind: MadeKind) -> None:
    """An arena of answers that are files, and the folder that it was imported from."""
    from tiltyard.verbs.demo.steps import MADE, address, fill_arena, write_gallery

    _head(f"Tiltyard demo · {MADE}")
    with working("building …"):
        made = write_gallery(out, kind)
        lines = fill_arena(out, MADE)
    say(f"\n{made}, in {out}")
    for line in lines:
        note(f"  {line}")
    say("\nWhat to type next")
    for what, words in (
        ("vote in the browser, at http://127.0.0.1:8000", ["serve", "--db", address(out)]),
        ("import files of your own as these were", ["import", "--help"]),
    ):
        say(f"  # {what}\n  {shlex.join([_program(), 'arena', *words])}")


def _head(text: str) -> None:
    say(f"\n{text}\n{'═' * len(text)}")


def _run(out: Path, mode: str) -> RunResult:
    from tiltyard.verbs.demo.steps import CONFIG
    from tiltyard.verbs.run import run

    with working(f"{mode} run …"):
        return run(out / CONFIG, mode="pilot" if mode == "pilot" else "headline", output_dir=out / mode)


def _arena(out: Path) -> bool:
    """Whether there is an arena now."""
    from tiltyard.verbs.demo.steps import fill_arena

    say("\n4. A live arena of the same bank, where people vote blind")
    try:
        with working("filling the arena …"):
            lines = fill_arena(out)
    except MissingExtra as error:
        note(f"   left out: {error}")
        return False
    for line in lines:
        note(f"   {line}")
    return True


def _live(out: Path) -> bool:
    """Whether the model could be asked."""
    from tiltyard.verbs.demo.steps import run_line, run_live, verdict_lines

    say("\n5. Live: SmolLM2 (135 million parameters) answers a dozen prompts in this process, then judges them")
    try:
        with working("asking the model …"):
            made, finished = run_live(out, note)
    except MissingExtra as error:
        note(f"   left out: {error}")
        return False
    failed = [f"{len(made.failed)} prompts got no answer"] if made.failed else []
    written = f"{made.written} answers written, {made.present} there from before"
    for line in (written, *failed, run_line(finished), *verdict_lines(finished.checks)):
        say(f"   {line}")
    return True


def _closing(out: Path, *, arena: bool, live: bool) -> str:
    from tiltyard.verbs.demo.steps import NOTE, address

    places = [
        (out / "headline" / "report.html", "the report: open it in a browser"),
        (out / "headline", "the run: battles, verdicts, ratings, manifest"),
        (out / "pilot" / "report.html", "the pilot's report, with go or no-go"),
    ]
    places += [(out / "arena.db", "the arena")] if arena else []
    places += [(out / "live" / "report.html", "the live part's report")] if live else []
    commands = [
        ("rate the battles yourself", ["rate", str(out / "headline" / "battles.jsonl"), "--dimension", "factuality"]),
        ("change the config, run it again", ["run", str(out / "tournament.yaml"), "--mode", "headline"]),
    ]
    if arena:
        serve = ["arena", "serve", "--db", address(out)]
        commands.insert(0, ("vote in the browser, at http://127.0.0.1:8000", serve))
    width = max(len(str(path)) for path, _ in places)
    lines = ["", "Everything is in", *(f"  {path!s:<{width}}  {what}" for path, what in places)]
    lines += ["", "What to type next"]
    for what, words in commands:
        lines += [f"  # {what}", f"  {shlex.join([_program(), *words])}"]
    return "\n".join([*lines, "", f"Remember: {NOTE}."])


def _program() -> str:
    """How to call this program: its name, or its path if the shell would not find it or finds another."""
    started = Path(sys.argv[0])
    result = shutil.which("tiltyard")
    if started.name != "tiltyard" or (result and Path(result).resolve() == started.resolve()):
        return "tiltyard"
    here = Path.cwd()
    return str(started.relative_to(here) if started.is_relative_to(here) else started)
