"""The manual's page of files: a table of fields for each, made from the schemas when the manual is built.

A line `::: files` of the page becomes the sections. A type with a section of its own is linked where others hold it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import shapes
from schemas import battle, board, response, whole
from settings_reference import table

from tiltyard.analysis.boards import BoardComparison
from tiltyard.analysis.boards.record import PeopleLabels
from tiltyard.arena import BoardRow, HeadFile, LiveBoard, Publication, Record, ValidityReport, WitnessHeader
from tiltyard.arena.simulation import SimulationResult
from tiltyard.data.bank import Prompt
from tiltyard.data.battles import BattleStats
from tiltyard.judge.llm import Usage
from tiltyard.judge.llm.generation import FailedPrompt
from tiltyard.judge.placement import CalibrationLine, Panel, PlacementManifest, PlacementText
from tiltyard.judge.placement.folder import JudgeAgainstPeople
from tiltyard.judge.placement.robustness import FamilyCheck, Sensitivity
from tiltyard.judge.tournament import (
    AnswerLine,
    BaselineTable,
    DimensionScores,
    EloLine,
    EloResults,
    JudgePrompts,
    MatchLine,
    PairTally,
)
from tiltyard.judge.tournament.artifacts import RunManifest
from tiltyard.judge.tournament.rounds import RoundsFile
from tiltyard.judge.tournament.scoring import ScoreRow
from tiltyard.judge.verdicts import JudgeCheck, Judgment, Verdict
from tiltyard.reports.publish.folder import PublishedManifest
from tiltyard.site.leaderboard import DayFile, LeaderboardFile, LiveBoardAnswer, PartFile
from tiltyard.site.model import ModelAnswer
from tiltyard.site.openapi import WeeksBody
from tiltyard.site.reports import LiveValidityReport
from tiltyard.stats import Estimate
from tiltyard.verbs.rejudge import ChangedRun

if TYPE_CHECKING:
    from collections.abc import Iterator

MARK = "::: files\n"
Schema = dict[str, Any]

SECTIONS: dict[str, dict[str, Any]] = {
    "Battles": {"Battle row": battle, "Battle statistics": BattleStats},
    "Ratings": {
        "Ratings file": board,
        "People's labels": PeopleLabels,
        "Board comparison": BoardComparison,
    },
    "Publishing": {"Published manifest": PublishedManifest},
    "Judging": {
        "Prompt bank": Prompt,
        "Response file": response,
        "Diagnostics": shapes.Diagnostics,
        "Failed prompts": FailedPrompt,
        "Tokens": Usage,
        "Verdict cache": Verdict,
        "Judgments": Judgment,
        "Judge check": JudgeCheck,
        "Estimate": Estimate,
    },
    "Tournament": {
        "Tournament manifest": RunManifest,
        "Matches": MatchLine,
        "Judge prompts": JudgePrompts,
        "Elo results": EloResults,
        "Elo line": EloLine,
        "Win rates": PairTally,
        "Rounds": RoundsFile,
        "Baseline": BaselineTable,
        "Score row": ScoreRow,
        "Scores of a dimension": DimensionScores,
        "Scored answers": AnswerLine,
        "Usage": shapes.RunUsage,
        "Re-judged run": ChangedRun,
    },
    "Placement": {
        "Placement manifest": PlacementManifest,
        "Sensitivity": Sensitivity,
        "Family check": FamilyCheck,
        "Judge's scale": JudgeAgainstPeople,
        "Panel": Panel,
        "Placement texts": PlacementText,
        "Calibration": CalibrationLine,
        "Placement usage": shapes.PlacementUsage,
    },
    "Arena": {
        "Arena export": shapes.ArenaExport,
        "Board row": BoardRow,
        "Publication": Publication,
        "Board": LiveBoard,
        "Live board": LiveBoardAnswer,
        "Leaderboard files": LeaderboardFile,
        "Leaderboard of a category": PartFile,
        "Leaderboard of a day": DayFile,
        "Model": ModelAnswer,
        "Record": Record,
        "Validity report": ValidityReport,
        "Live validity report": LiveValidityReport,
        "Weeks": WeeksBody,
        "Witness": WitnessHeader,
        "Head file": HeadFile,
        "Simulation": SimulationResult,
    },
}
TITLES = {kind.__name__: title for part in SECTIONS.values() for title, kind in part.items() if isinstance(kind, type)}
TITLES |= {
    kind.__name__: title for part in SECTIONS.values() for title, kind in part.items() if kind.__module__ == "shapes"
}
WORDS = {"string": "text", "object": "object", "array": "list", "null": "null"}


def filled(markdown: str) -> str:
    """The page with its sections."""
    return markdown.replace(MARK, "\n".join(_sections())) if MARK in markdown else markdown


def schema_of(title: str, kind: Any) -> Schema:
    """The schema of a section, with references to the types that have sections of their own."""
    others = {name for name, other in TITLES.items() if other != title}
    if kind in (battle, board, response):
        return dict(kind(others))
    return whole(kind, others)


def _sections() -> Iterator[str]:
    for part, sections in SECTIONS.items():
        yield f"## {part}\n"
        for title, kind in sections.items():
            schema = schema_of(title, kind)
            rows = list(_fields(schema, ""))
            yield f"### {title}\n\n{schema['description']}\n\n{table('field | type | meaning', rows)}\n"


def _fields(schema: Schema, before: str) -> Iterator[tuple[str, str, str]]:
    for name, inner in schema["properties"].items():
        yield from _rows(inner, f"{before}{name}", inner.get("description", ""), inner.get("optional", False))


def _rows(schema: Schema, path: str, text: str, optional: bool) -> Iterator[tuple[str, str, str]]:
    """The rows of a field: itself, or those of what it holds."""
    inner, null = _without_null(schema)
    inside = inner.get("items"), inner.get("additionalProperties")
    if "$ref" in inner:
        title = TITLES[inner["$ref"].rsplit("/", 1)[-1]]
        link = f"the fields of [{title[0].lower()}{title[1:]}](#{_anchor(title)})"
        yield _row(f"{path}.…", "object", null, optional, f"{text.rstrip('.')}: {link}" if text else link)
    elif inner.get("properties"):
        if text:
            yield _row(path, "object", null, optional, text)
        yield from _fields(inner, f"{path}.")
    elif isinstance(inside[0], dict) and _is_deep(inside[0]):
        yield from _rows(inside[0], f"{path}[]", text, optional)
    elif isinstance(inside[1], dict) and inside[1]:
        yield from _rows(inside[1], f"{path}.<name>", text, optional)
    elif inner.get("type") == "object":
        yield _row(f"{path}.…", "object", null, optional, text)
    else:
        yield _row(path, _word(inner), null, optional, text)


def _row(path: str, word: str, null: bool, optional: bool, text: str) -> tuple[str, str, str]:
    return f"`{path}`", word + (" or null" if null else "") + (", optional" if optional else ""), text


def _without_null(schema: Schema) -> tuple[Schema, bool]:
    parts = [one for one in schema.get("anyOf", ()) if one.get("type") != "null"]
    if len(parts) == 1:
        return parts[0], True
    kind = schema.get("type")
    if isinstance(kind, list):
        return {**schema, "type": next(one for one in kind if one != "null")}, "null" in kind
    return schema, False


def _is_deep(schema: Schema) -> bool:
    inner, _ = _without_null(schema)
    return "$ref" in inner or inner.get("type") in ("object", "array")


def _word(schema: Schema) -> str:
    if "enum" in schema:
        return ", ".join(f"`{word}`" for word in schema["enum"] if word is not None)
    if "anyOf" in schema:
        return " or ".join(_word(one) for one in schema["anyOf"])
    kind = schema.get("type", "any")
    if kind == "array":
        items = schema.get("items") or schema.get("prefixItems", [{}])[0]
        return f"list of {_word(items) if isinstance(items, dict) else 'any'}"
    return WORDS.get(kind, kind)


def _anchor(title: str) -> str:
    return re.sub(r"[^\w -]", "", title).lower().replace(" ", "-")
