"""Write `docs/reference/settings.md` from the settings themselves; a test fails when the page is not up to date."""

from __future__ import annotations

import ast
import inspect
import re
import sys
import textwrap
from dataclasses import MISSING, fields, is_dataclass
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import typer

sys.path.insert(0, str(Path(__file__).parent))

import settings_words as words

PAGE = Path(__file__).parent.parent / "docs" / "reference" / "settings.md"
REQUIRED = object()
METHODS_OR_DEFAULT = re.compile(r"\s*\((?:bt|elo|default)[^()]*\)$")

HEAD = """# Settings

Everything that can be set, with its default. Names and defaults are read from the code by `make docs`; a dash is none.
Options of commands are in [commands](../commands.md), parameters of functions in [Python](python.md).
"""
CONSTANTS = {
    "tiltyard.boards.bradley_terry": ("CENTRE", "MANY_ROUNDS"),
    "tiltyard.ratings.intervals": ("FEW",),
    "tiltyard.ratings.elo": ("K_MAX",),
    "tiltyard.tournament.gate": ("MOST_FAILED", "MOST_INCONSISTENT", "FEWEST_DECISIVE"),
    "tiltyard.placement.options": ("LOOKS",),
    "tiltyard.placement.stopping": ("FIRST_STOP", "FIRST_ROUND", "OPENING"),
    "tiltyard.placement.sampling": ("PRIOR_SPREAD",),
    "tiltyard.ratings.judge_scale": ("ENOUGH_OPPONENTS", "TOLD_FROM_ZERO"),
    "tiltyard.arena.offline": ("MANY_PROMPTS",),
    "tiltyard.arena.board": ("OFFICIAL_FROM",),
    "tiltyard.validity.voters": ("LEAST_VOTES", "CLEAR_FAVOURITE", "FAVOUR_ALPHA"),
    "tiltyard.validity.quality": ("ALPHA",),
    "tiltyard.validity.coverage": ("VOTES_PER_PROMPT",),
    "tiltyard.validity.churn": ("BAND",),
}
"""Numbers that are not settings, but that a reader of the boards may want to know: module, names."""


def reference() -> str:
    """The page's text."""
    return "\n".join(
        [HEAD, *_tournament(), *_judge(), *_rating(), *_placement(), *_arena(), *_environment(), *_fixed()]
    )


def defaults(kind: Any) -> dict[str, Any]:
    """Every field of a dataclass or struct with its default; REQUIRED where it has none."""
    if is_dataclass(kind):
        return {field.name: _dataclass_default(field) for field in fields(kind)}
    return {field.name: _struct_default(field) for field in msgspec.structs.fields(kind)}


def _dataclass_default(field: Any) -> Any:
    if field.default is not MISSING:
        return field.default
    return field.default_factory() if field.default_factory is not MISSING else REQUIRED


def _struct_default(field: Any) -> Any:
    if field.default is not msgspec.NODEFAULT:
        return field.default
    return field.default_factory() if field.default_factory is not msgspec.NODEFAULT else REQUIRED


def written(value: Any) -> str:
    """A default as the page shows it."""
    if value is REQUIRED:
        return "required"
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "`true`" if value else "`false`"
    if isinstance(value, int | float):
        short = f"{value:g}"
        return f"`{short if float(short) == value else value}`"
    if isinstance(value, tuple):
        return "`[" + ", ".join(written(part).strip("`") for part in value) + "]`"
    if isinstance(value, dict):
        return "`{}`"
    return f"`{value}`" if str(value) else '`""`'


def attribute_docs(source: str) -> dict[str, str]:
    """The texts that stand below the fields of a class, or the constants of a module, by name."""
    body: list[ast.stmt] = ast.parse(textwrap.dedent(source)).body
    if len(body) == 1 and isinstance(body[0], ast.ClassDef):
        body = body[0].body
    found = {}
    for before, after in pairwise(body):
        if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant) and isinstance(after.value.value, str):
            targets = before.targets if isinstance(before, ast.Assign) else [getattr(before, "target", None)]
            found |= {t.id: " ".join(after.value.value.split()) for t in targets if isinstance(t, ast.Name)}
    return found


def table(head: str, rows: list[tuple[str, ...]]) -> str:
    """A Markdown table."""
    columns = head.split(" | ")
    lines = [f"| {head} |", "|" + "---|" * len(columns)]
    return "\n".join([*lines, *("| " + " | ".join(_cell(cell) for cell in row) + " |" for row in rows)]) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _plain(kind: Any, said: dict[str, str], prefix: str = "") -> list[tuple[str, str, str]]:
    """Rows of a dataclass or struct: name, default, meaning, and what the code says below the field."""
    docs = attribute_docs(inspect.getsource(kind))
    return [
        (f"`{prefix}{name}`", written(value), f"{said.pop(prefix + name)} {docs.get(name, '')}".strip())
        for name, value in defaults(kind).items()
    ]


def _used_up(said: dict[str, Any]) -> None:
    assert not said, f"words about settings that are not there: {', '.join(said)}"


def _tournament() -> list[str]:
    from tiltyard.tournament import config

    said = dict(words.TOURNAMENT)
    rows = _plain(config.Entrant, said, "entrants[].")
    for section, kind in config.KNOWN.items():
        rows += _plain(kind, said, f"{section}.")
        if section == "judge":
            rows += _plain(config.RubricSettings, said, "rubrics.<dimension>.")
    docs = attribute_docs(inspect.getsource(config.Config))
    for name, value in defaults(config.Config).items():
        if value is not REQUIRED and not isinstance(value, msgspec.Struct):
            rows.append((f"`{name}`", written(value), f"{said.pop(name)} {docs.get(name, '')}".strip()))
    _used_up(said)
    return [
        "## Tournament file\n",
        "A YAML file for `tiltyard run` and `tiltyard generate`. Relative paths are tried from the file's "
        "folder, then from "
        "here. A key that means nothing is pointed out.\n",
        table("key | default | meaning", rows),
    ]


def _judge() -> list[str]:
    from tiltyard.judging import JudgeSettings
    from tiltyard.llm.asking import AskingSettings

    said, asking = dict(words.JUDGE), dict(words.ASKING)
    parts = [
        "## Judge\n",
        "In Python, `tiltyard.judging.JudgeSettings` says what a judge is asked with. Tournaments and "
        "placements fill it from "
        "their own settings.\n",
        table("setting | default | meaning", _plain(JudgeSettings, said)),
        "## Asking\n",
        "`tiltyard.llm.asking.AskingSettings` says how: directly or in batches, how patiently, for how much at most.\n",
        table("setting | default | meaning", _plain(AskingSettings, asking)),
    ]
    _used_up(said | asking)
    return parts


def _rating() -> list[str]:
    from tiltyard.boards import METHODS, Selection
    from tiltyard.ratings.glicko2 import Glicko2Settings

    helps = option_helps("rate")
    names: dict[str, dict[str, list[str]]] = {}
    for method, kind in METHODS.items():
        for name, value in defaults(kind).items():
            if name not in words.RATING_ONLY:
                names.setdefault(name, {}).setdefault(written(value), []).append(method)
    rows = [
        (f"`{name}`", "; ".join(f"{value} ({', '.join(of)})" for value, of in by_value.items()), helps[name])
        for name, by_value in names.items()
    ]
    rows += [(f"`{name}`", "see below", meaning) for name, meaning in words.RATING_ONLY.items()]
    filters = [(f"`{name}`", written(value), helps[name]) for name, value in defaults(Selection).items()]
    glicko2 = dict(words.GLICKO2)
    parts = [
        "## Rating\n",
        "Parameters of the estimators behind `tiltyard rate` and `tiltyard.rate`, with their default and the "
        "methods that have "
        "it. Filters (`Selection`) and the constants of Glicko-2 (`Glicko2Settings`) follow.\n",
        table("setting | default (methods) | meaning", rows),
        "### Filters\n",
        table("setting | default | meaning", filters),
        "### Glicko-2\n",
        table("setting | default | meaning", _plain(Glicko2Settings, glicko2)),
    ]
    _used_up(glicko2)
    return parts


def option_helps(command: str) -> dict[str, str]:
    """What `--help` says of each parameter of a command, without methods and defaults: they have a column."""
    from tiltyard.cli.main import app

    root: Any = typer.main.get_command(app)
    helps = {
        parameter.name: METHODS_OR_DEFAULT.sub("", parameter.help or "") for parameter in root.commands[command].params
    }
    return helps | words.BARE_OPTIONS


def _placement() -> list[str]:
    from tiltyard.placement.options import PlaceOptions

    helps = option_helps("place") | words.PLACEMENT_ONLY
    rows = [
        (
            f"`{name}`",
            f"`--{'no-' if name in words.PLACEMENT_ONLY else ''}{name.replace('_', '-')}`",
            written(value),
            helps[name],
        )
        for name, value in defaults(PlaceOptions).items()
    ]
    return [
        "## Placement\n",
        "`tiltyard place`, and `options` in a placement's manifest.\n",
        table("setting | option | default | meaning", rows),
    ]


def _arena() -> list[str]:
    from tiltyard.arena.simulation import SimulationSettings
    from tiltyard.web.settings import SiteSettings

    said, simulation = dict(words.SITE), dict(words.SIMULATION)
    simulated = [
        (name, "the defaults above" if name == "`policy`" else value, meaning)
        for name, value, meaning in _plain(SimulationSettings, simulation)
    ]
    parts = [
        "## Arena policy\n",
        "Constants of a live arena. Give those that differ as YAML or JSON to `tiltyard arena init --policy "
        "FILE` or `arena "
        "settings --policy FILE`; the whole policy is written to the log whenever it changes, and changing how "
        "ratings move "
        "re-rates the whole log. The last column is the section of the ranking validity policy (document `002` in "
        "[the specification checklist](../seeds.md)) that asks for it; *ours* marks what that policy leaves open.\n",
        *_policy(),
        "The phase of the rollout is set beside the policy (`--phase`, 1 to 4): 1 computes everything and keeps "
        "the legacy "
        "matchmaking and order, 2 turns the lanes on, 3 makes the conservative order official, 4 adds the "
        "weekly report as "
        "governance.\n",
        "## Site\n",
        "`tiltyard arena serve`; `--host` (`127.0.0.1`), `--port` (`8000`) and `--workers` (`1`; more need "
        "PostgreSQL) say where "
        "it listens.\n",
        table("setting | default | meaning", _plain(SiteSettings, said)),
        "## Simulation\n",
        "`tiltyard arena simulate`, and `tiltyard.arena.simulation.SimulationSettings`.\n",
        table("setting | default | meaning", simulated),
    ]
    _used_up(said | simulation)
    return parts


def _policy() -> list[str]:
    from tiltyard.arena.policy import Policy

    said = dict(words.POLICY)
    rows: list[tuple[str, ...]] = []
    own = attribute_docs(inspect.getsource(Policy))
    for name, value in defaults(Policy).items():
        if isinstance(value, msgspec.Struct):
            docs = attribute_docs(inspect.getsource(type(value)))
            rows += [
                _policy_row(f"{name}.{part}", getattr(value, part), docs.get(part, ""), said)
                for part in value.__struct_fields__
            ]
        else:
            rows.append(_policy_row(name, value, own.get(name, ""), said))
    _used_up(said)
    return [table("setting | default | meaning and reason | policy", rows)]


def _policy_row(name: str, value: Any, doc: str, said: dict[str, tuple[str, str]]) -> tuple[str, ...]:
    meaning, where = said.pop(name)
    text = meaning[1:] if meaning.startswith("=") else f"{meaning} {doc}".strip()  # "=": these words alone
    return (f"`{name}`", written(value), text, where)


def _environment() -> list[str]:
    rows = [(f"`{name}`", default, meaning) for name, (meaning, default) in words.ENVIRONMENT.items()]
    return [
        "## Environment\n",
        "Keys and addresses of providers are also read from a `.env` file beside the config or in the working "
        "folder; the "
        "environment comes first. They are in no artifact, log or error.\n",
        table("variable | default | meaning", rows),
    ]


def _fixed() -> list[str]:
    rows = []
    for module, names in CONSTANTS.items():
        code = import_module(module)
        docs = attribute_docs(inspect.getsource(code))
        rows += [(f"`{module}.{name}`", written(getattr(code, name)), docs[name]) for name in names]
    return [
        "## Fixed numbers\n",
        "Not settings: numbers of the code that decide what a board shows, with the reason given there.\n",
        table("constant | value | why", rows),
    ]


if __name__ == "__main__":
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(reference(), encoding="utf-8")
    sys.stdout.write(f"wrote {PAGE.name}\n")
