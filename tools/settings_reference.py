"""Write `docs/reference/settings.md` from the settings themselves; a test fails when the page is not up to date.

What a setting means is read from the text below its field, or from the `Parameters:` list of its class.
"""

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

from tiltyard.llm.presets import PRESETS

PAGE = Path(__file__).parent.parent / "docs" / "reference" / "settings.md"
REQUIRED = object()
POLICY_SECTION = re.compile(r" \((§[^()]*|ours)\)$")
LISTED = re.compile(r"    (\w+): ")

HEAD = """# Settings

Everything that can be set, with its default. Names and defaults are read from the code by `make docs`; a dash is none.
Options of commands are in [commands](../commands.md), parameters of functions in [Python](python.md).
"""
CONSTANTS = {
    "tiltyard.boards.bradley_terry": ("CENTRE", "MANY_ROUNDS"),
    "tiltyard.ratings.intervals": ("FEW",),
    "tiltyard.ratings.ranks": ("ANYTIME_SPREAD", "FIRST_LOOK"),
    "tiltyard.ratings.elo": ("K_MAX",),
    "tiltyard.tournament.ratings": ("MOST_INCONSISTENT",),
    "tiltyard.tournament.summary": ("MOST_FAILED", "FEWEST_DECISIVE"),
    "tiltyard.placement.options": ("LOOKS",),
    "tiltyard.placement.stopping": ("FIRST_STOP", "FIRST_ROUND", "OPENING"),
    "tiltyard.placement.sampling": ("PRIOR_SPREAD",),
    "tiltyard.ratings.judge_scale": ("ENOUGH_OPPONENTS", "TOLD_FROM_ZERO"),
    "tiltyard.arena.board": ("OFFICIAL_FROM",),
    "tiltyard.validity.voters": ("LEAST_VOTES", "CLEAR_FAVOURITE", "FAVOUR_ALPHA"),
    "tiltyard.validity.quality": ("ALPHA",),
    "tiltyard.validity.coverage": ("VOTES_PER_PROMPT",),
    "tiltyard.validity.churn": ("BAND",),
}
"""Numbers that are not settings, but that a reader of the boards may want to know: module, names."""


ENVIRONMENT = {
    "ANTHROPIC_API_KEY": ("Key for `anthropic/…`.", "–"),
    "OPENAI_API_KEY": ("Key for `openai/…`.", "–"),
    "GEMINI_API_KEY": ("Key for `gemini/…`.", "–"),
    "GOOGLE_API_KEY": ("Key for `gemini/…`, if `GEMINI_API_KEY` is not set.", "–"),
    "ANTHROPIC_BASE_URL": ("Another address for `anthropic/…`.", "the maker's"),
    "OPENAI_BASE_URL": ("Another address for `openai/…`.", "the maker's"),
    "GEMINI_BASE_URL": ("Another address for `gemini/…`.", "the maker's"),
    "GOOGLE_GEMINI_BASE_URL": ("The same, as Google's SDK names it.", "the maker's"),
    **{
        one.key_variable: (f"Key for `{one.name}/…`{'' if one.needs_key else ', if the server wants one'}.", "–")
        for one in PRESETS.values()
    },
    **{
        one.address_variable: (f"Address of `{one.name}/…`.", f"`{one.base_url}`" if one.base_url else "–")
        for one in PRESETS.values()
    },
    "AZURE_OPENAI_API_VERSION": ("A dated version of Azure's interface, such as `2024-10-21`.", "the undated one"),
    "TILTYARD_DB": ("The arena's database, in place of `--db`.", "`sqlite:///arena.db`"),
    "TILTYARD_SECRET": (
        "Signs the site's cookies and forms; at least 16 characters. Without it the site makes a random one at its "
        "first start and keeps it in its database, and so in every copy of it.",
        "random, kept",
    ),
    "TILTYARD_ADMIN_SECRET": ("Opens `/admin`; at least 16 characters.", "off"),
    "TILTYARD_SITE_SETTINGS": ("How `serve` hands its settings to worker processes. Not for people.", "–"),
    "TILTYARD_COMPILE": ("Whether Elo and Glicko-2 loops are compiled (numba): `auto`, `always` or `never`.", "`auto`"),
    "TILTYARD_CACHE_DIR": ("Folder for compiled code.", "`~/.cache/tiltyard`"),
    "XDG_CACHE_HOME": ("Where that folder lies on Linux, if `TILTYARD_CACHE_DIR` is not set.", "`~/.cache`"),
    "XDG_CONFIG_HOME": ("Where `tiltyard/prices.yaml`, your own prices, lies.", "`~/.config`"),
    "OPENBLAS_NUM_THREADS": (
        "Threads of the linear algebra; the command line sets 1 unless you set it, because many "
        "small systems are slower with two.",
        "`1`",
    ),
    "DATABASE_URL": ("Tests only: a PostgreSQL server to use in place of one that they start.", "–"),
}
"""What is read from the environment: meaning, and what holds where it is not set."""


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


def parameter_docs(thing: Any) -> dict[str, str]:
    """The `Parameters:` list of a docstring, `name: meaning` one below the other, by name."""
    lines = (inspect.getdoc(thing) or "").splitlines()
    found: dict[str, str] = {}
    name = ""
    for line in lines[lines.index("Parameters:") + 1 :] if "Parameters:" in lines else ():
        if not line.startswith("    "):
            break
        if match := LISTED.match(line):
            name = match[1]
        found[name] = f"{found[name]} {line.strip()}" if name in found else line.strip().removeprefix(f"{name}: ")
    return found


def meanings(kind: Any) -> dict[str, str]:
    """What each field of a class means."""
    return parameter_docs(kind) | attribute_docs(inspect.getsource(kind))


def table(head: str, rows: list[tuple[str, ...]]) -> str:
    """A Markdown table."""
    columns = head.split(" | ")
    lines = [f"| {head} |", "|" + "---|" * len(columns)]
    return "\n".join([*lines, *("| " + " | ".join(_cell(cell) for cell in row) + " |" for row in rows)]) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _plain(kind: Any, prefix: str = "") -> list[tuple[str, str, str]]:
    """Rows of a dataclass or struct: name, default, meaning."""
    said = meanings(kind)
    return [(f"`{prefix}{name}`", written(value), said[name]) for name, value in defaults(kind).items()]


def _tournament() -> list[str]:
    from tiltyard.llm.prices import StatedPrice
    from tiltyard.tournament import config

    rows = _plain(config.Entrant, "entrants[].")
    for section, kind in config.KNOWN.items():
        rows += [row for row in _plain(kind, f"{section}.") if row[0] != "`judge.prices`"]
        if section == "judge":
            rows += _plain(StatedPrice, "judge.prices.<model>.")
            rows += _plain(config.RubricSettings, "rubrics.<dimension>.")
    said = meanings(config.Config)
    for name, value in defaults(config.Config).items():
        if value is not REQUIRED and not isinstance(value, msgspec.Struct):
            rows.append((f"`{name}`", written(value), said[name]))
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

    return [
        "## Judge\n",
        "In Python, `tiltyard.judging.JudgeSettings` says what a judge is asked with. Tournaments and "
        "placements fill it from "
        "their own settings.\n",
        table("setting | default | meaning", _plain(JudgeSettings)),
        "## Asking\n",
        "`tiltyard.llm.asking.AskingSettings` says how: directly or in batches, how patiently, for how much at most.\n",
        table("setting | default | meaning", _plain(AskingSettings)),
    ]


def _rating() -> list[str]:
    from tiltyard.boards import METHODS, Selection
    from tiltyard.ratings.glicko2 import Glicko2Settings

    names: dict[str, dict[str, list[str]]] = {}
    said: dict[str, str] = {}
    for method, kind in METHODS.items():
        said = meanings(kind) | said
        for name, value in defaults(kind).items():
            shown = "see below" if is_dataclass(value) else written(value)
            names.setdefault(name, {}).setdefault(shown, []).append(method)
    rows = [
        (f"`{name}`", "; ".join(f"{value} ({', '.join(of)})" for value, of in by_value.items()), said[name])
        for name, by_value in names.items()
    ]
    return [
        "## Rating\n",
        "Parameters of the estimators behind `tiltyard rate` and `tiltyard.rate`, with their default and the "
        "methods that have "
        "it. Filters (`Selection`) and the constants of Glicko-2 (`Glicko2Settings`) follow.\n",
        table("setting | default (methods) | meaning", rows),
        "### Filters\n",
        table("setting | default | meaning", _plain(Selection)),
        "### Glicko-2\n",
        table("setting | default | meaning", _plain(Glicko2Settings)),
    ]


def _placement() -> list[str]:
    from tiltyard.placement.options import PlaceOptions

    said = meanings(PlaceOptions)
    rows = [
        (f"`{name}`", f"`--{'no-' if value is True else ''}{name.replace('_', '-')}`", written(value), said[name])
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

    simulated = [
        (name, "the defaults above" if name == "`policy`" else value, meaning)
        for name, value, meaning in _plain(SimulationSettings)
    ]
    return [
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
        table("setting | default | meaning", _plain(SiteSettings)),
        "## Simulation\n",
        "`tiltyard arena simulate`, and `tiltyard.arena.simulation.SimulationSettings`.\n",
        table("setting | default | meaning", simulated),
    ]


def _policy() -> list[str]:
    from tiltyard.arena.policy import Policy

    rows: list[tuple[str, ...]] = []
    own = meanings(Policy)
    for name, value in defaults(Policy).items():
        if isinstance(value, msgspec.Struct):
            said = meanings(type(value))
            rows += [
                _policy_row(f"{name}.{part}", getattr(value, part), said[part]) for part in value.__struct_fields__
            ]
        else:
            rows.append(_policy_row(name, value, own[name]))
    return [table("setting | default | meaning and reason | policy", rows)]


def _policy_row(name: str, value: Any, said: str) -> tuple[str, ...]:
    where = POLICY_SECTION.search(said)
    assert where, f"{name}: say which section of the policy asks for it, or (ours)"
    return (f"`{name}`", written(value), POLICY_SECTION.sub("", said), where[1])


def _environment() -> list[str]:
    rows = [(f"`{name}`", default, meaning) for name, (meaning, default) in ENVIRONMENT.items()]
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
