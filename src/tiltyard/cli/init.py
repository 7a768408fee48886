"""`tiltyard init`: a tournament or an arena from answer files as people have them."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tiltyard.cli.output import note, say
from tiltyard.errors import OptionError

if TYPE_CHECKING:
    from tiltyard.bank.answer_files import AnswerCollection

POLICY, MODELS = "policy.yaml", "models.yaml"
POLICY_TEXT = """\
# Settings of the arena that differ from the defaults; `tiltyard arena init --print-policy` shows them all.
# Later changes: tiltyard arena settings --db URL --policy {path}

undo_seconds: 5                       # how long a vote can be taken back before the names are shown
matchup_expires_seconds: 7200         # how long a matchup can be voted on
texts_public: after_retirement        # answers are public with their authors once their prompt is retired
limits:                               # how much one visitor may do
{limits}"""
MODELS_TEXT = """\
# What visitors see about a model after voting. `model` is its id; the rest may be empty.
{cards}"""


def init_command(
    folder: Annotated[
        Path | None, typer.Argument(metavar="DIR", help="Where to make it. (default: tournament, or arena)")
    ] = None,
    more: Annotated[
        list[str] | None,
        typer.Argument(metavar="FILE", help="Further answers: what a shell makes of `--answers answers/*`."),
    ] = None,
    answers: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILE",
            help="Answers: .jsonl, .json, .csv, or a folder with one file per prompt; NAME=FILE names the model. "
            "May be given again.",
        ),
    ] = None,
    prompts: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The prompts, if the answer files do not hold them.")
    ] = None,
    map: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FIELD=COLUMN",
            help="Which column holds what: id, prompt, model, answer, gold, expected, source, subject. May be given "
            "again.",
        ),
    ] = None,
    judge: Annotated[
        str | None, typer.Option(metavar="NAME", help="Who judges: claude-…, gpt-…, local/…, provider/model.")
    ] = None,
    base_url: Annotated[str | None, typer.Option(help="Address of a local/… judge's server.")] = None,
    rubric: Annotated[Path | None, typer.Option(metavar="FILE", help="Your rubric, in place of a general one.")] = None,
    arena: Annotated[bool, typer.Option("--arena", help="Make the start of a live arena instead.")] = False,
) -> None:
    """Make a bank, response files, a config and a rubric from your answer files, and say the next command."""
    if arena and (judge or base_url or rubric):
        raise OptionError("--arena has no judge: people vote. Leave out --judge, --base-url and --rubric.")
    asking = sys.stdin.isatty() and sys.stderr.isatty()
    place = folder or Path("arena" if arena else "tournament")
    if place.is_file():
        raise OptionError(f"{place} is a file. Name a folder to make first: tiltyard init DIR --answers FILE.")
    given = [*(answers or ()), *(more or ())] or (_ask_for_files() if asking else [])
    if not given:
        raise OptionError("name your answer files: --answers FILE, once for each model (or one file with several).")
    result = _collect(given, prompts, _read_map(map), asking=asking)
    if arena:
        texts = _arena_files(result, place)
    else:
        from tiltyard.tournament.starter import starter_files

        text = None
        if rubric is not None:
            from tiltyard.judging.plan import Rubric

            Rubric.load("quality", rubric)
            text = rubric.read_text(encoding="utf-8-sig")
        chosen = judge or _judge(asking=asking)
        texts = starter_files(result, place, judge=chosen, base_url=base_url, rubric=text)
    _write(result, place, texts)
    say("\n".join(_next_commands(place, arena=arena)))


def _collect(given: Sequence[str], prompts: Path | None, map: dict[str, str], *, asking: bool) -> AnswerCollection:
    """Read all files and put together what belongs together; what a reader should know goes to standard error."""
    from tiltyard.bank.answer_files import collect_answers, read_answer_file, read_prompt_file

    choose = _choose if asking else None
    files = []
    for text in given:
        name, equals, path = text.partition("=")
        named = bool(equals and name) and not Path(text).exists()
        files += read_answer_file(Path(path if named else text), name=name if named else None, map=map, choose=choose)
    asked = None if prompts is None else read_prompt_file(prompts, map=map, choose=choose)
    result = collect_answers(files, asked, map=map)
    for line in result.notes:
        note(line)
    return result


def _read_map(given: Sequence[str] | None) -> dict[str, str]:
    result = {}
    for text in given or ():
        field, equals, column = text.partition("=")
        if not (equals and field and column):
            raise OptionError(f"--map {text!r}: write FIELD=COLUMN, such as answer=reply.")
        result[field.strip()] = column
    return result


def _arena_files(result: AnswerCollection, place: Path) -> dict[Path, str]:
    import msgspec
    import yaml

    from tiltyard.arena.policy import Policy

    limits = yaml.safe_dump(msgspec.to_builtins(Policy().limits), sort_keys=False)
    indented = "".join(f"  {line}\n" for line in limits.splitlines())
    cards = [{"model": name, "display_name": "", "provider": "", "licence": "", "link": ""} for name in result.answers]
    return {
        place / POLICY: POLICY_TEXT.format(path=place / POLICY, limits=indented),
        place / MODELS: MODELS_TEXT.format(cards=yaml.safe_dump(cards, sort_keys=False, allow_unicode=True)),
    }


def _write(result: AnswerCollection, place: Path, texts: dict[Path, str]) -> None:
    """Write everything, or refuse before anything is written."""
    from tiltyard.files import write_text

    there = [path for path in (*result.files(place), *texts) if path.exists()]
    strangers = sorted((place / "responses").glob("responses_*.jsonl"))
    if there or strangers:
        raise OptionError(f"{(there or strangers)[0]} exists already; nothing was written. Name another folder.")
    result.write(place)
    for path, text in texts.items():
        write_text(path, text)
    note(
        f"made {place}: {len(result.answers)} models, {len(result.prompts):,} prompts, {result.n_answers:,} answers "
        f"({', '.join(path.relative_to(place).as_posix() for path in texts)})"
    )


def _next_commands(place: Path, *, arena: bool) -> list[str]:
    if not arena:
        config = str(place / "tournament.yaml")
        steps = [
            ("what it would ask and cost; needs no key", ["run", config, "--mode", "pilot", "--dry-run"]),
            ("try the judge on a few prompts", ["run", config, "--mode", "pilot"]),
            ("judge them all", ["run", config, "--mode", "headline"]),
        ]
    else:
        db = ["--db", f"sqlite:///{place / 'arena.db'}"]
        files = ["--prompts", place / "bank.jsonl", "--responses", place / "responses", "--models", place / MODELS]
        steps = [
            ("make the arena", ["arena", "init", *db, "--policy", str(place / POLICY)]),
            ("fill it", ["arena", "import", *db, *map(str, files)]),
            ("open its site", ["arena", "serve", *db]),
            ("or for a team only: close it", ["arena", "settings", *db, "--invitation-only"]),
            (
                "a link for each person, with the name or address of this machine",
                ["arena", "invite", *db, "--n", "5", "--public-url", "http://ADDRESS:8000"],
            ),
            ("open it to the network", ["arena", "serve", *db, "--host", "0.0.0.0"]),  # noqa: S104 - a command that is shown
        ]
    lines = ["next:"]
    for what, words in steps:
        lines += [f"  # {what}", f"  {shlex.join(['tiltyard', *words])}"]
    return lines


def _judge(*, asking: bool) -> str:
    """The judge that a person names, or the default, which is said."""
    import os

    from tiltyard.tournament.starter import default_judge

    usual = default_judge(os.environ)
    if asking:
        return _line(f"Who judges (claude-…, gpt-…, local/…)? [{usual}] ") or usual
    note(f"no judge was named (--judge), so the config says {usual}; change it there")
    return usual


def _ask_for_files() -> list[str]:
    """The answer files that a person types in, one by one."""
    note("Your answer files or folders, one per line; an empty line ends the list.")
    result: list[str] = []
    while text := _line("> "):
        result.append(text)
    return result


def _choose(question: str, columns: Sequence[str]) -> str | None:
    note(f"{question} {', '.join(columns)}")
    return _line("> ") or None


def _line(question: str) -> str:
    """What a person types; the question goes to standard error, so that results can be piped."""
    note(question, end="")
    return sys.stdin.readline().strip()
