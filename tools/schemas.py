"""Write `src/tiltyard/data/schemas/*.json` from the structs; a test fails when one is not up to date.

What a field means is the text below it, or its line in the `Parameters:` of its class.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args, is_typeddict

import msgspec
from settings_reference import meanings
from shapes import Diagnostics

from tiltyard.analysis.boards import RatingsFile
from tiltyard.analysis.boards.leaderboard import HEAD
from tiltyard.analysis.boards.record import BoardDetails, BoardSettings
from tiltyard.analysis.boards.text import EXTRA_COLUMNS
from tiltyard.data.bank import Prompt, Response
from tiltyard.data.battles import FLAGS, OUTCOME_LABELS, SOURCE_LABELS, Battle
from tiltyard.data.schemas import SCHEMAS, schema_file
from tiltyard.judge.placement import PlacementManifest
from tiltyard.judge.placement.folder import PlacementFacts, StartedManifest
from tiltyard.judge.tournament.artifacts import RunManifest
from tiltyard.judge.tournament.config import Config

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

FOLDER = Path(__file__).parent.parent / "src" / "tiltyard" / "data" / "schemas"
DIALECT = "https://json-schema.org/draft/2020-12/schema"
Schema = dict[str, Any]

NAME = {"pattern": r"^[^./\\\x00][^/\\\x00]*$"}
LIMITS: dict[str, Schema] = {
    "entrants": {"minItems": 2},
    "entrants[].entrant_id": NAME,
    "rubrics": {"minProperties": 1, "propertyNames": NAME},
    "prompts.pilot_size": {"minimum": 1},
    "prompts.pilot_seed": {"minimum": 0},
    "judge.repeats": {"minimum": 1},
    "elo.n_perms": {"minimum": 2, "maximum": 1_000_000},
    "elo.shuffle_seed": {"minimum": 0},
    "elo.default_k": {"exclusiveMinimum": 0},
}
"""Limits beyond types: the rules of `tournament/config.py` that a schema can say."""


def schemas() -> dict[str, Schema]:
    """Every schema by name."""
    made = {
        "battle": battle(),
        "prompt": whole(Prompt),
        "response": response(),
        "tournament": tournament(),
        "ratings": ratings(),
        "run-manifest": whole(RunManifest),
        "placement-manifest": placement(),
    }
    return {
        name: {
            "$schema": DIALECT,
            "$id": f"urn:tiltyard:schema:{name}",
            "title": f"Tiltyard: {SCHEMAS[name]}",
            **schema,
        }
        for name, schema in made.items()
    }


def written(schema: Schema) -> str:
    """A schema as the text of its file."""
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


def whole(kind: Any, apart: Collection[str] | None = None) -> Schema:
    """The schema of a type, without references, with the meaning of every field.

    With `apart`, for a page: classes of these names stay references, and fields that may be absent are `optional`.
    """
    classes = {cls.__name__: cls for cls in _classes(msgspec.inspect.type_info(kind))}
    _, parts = msgspec.json.schema_components([kind])
    for name, part in parts.items():
        known = field_meanings(classes[name]) if name in classes else {}
        for field, inner in part.get("properties", {}).items():
            if field in known:
                inner["description"] = known[field].replace("– means", "null means")
            if apart is not None and field in _optional(classes[name], part):
                inner["optional"] = True
        if "description" in part:
            part["description"] = " ".join(part["description"].split("Parameters:")[0].split())
    return dict(_inlined(parts[kind.__name__], parts, apart or ()))


def field_meanings(kind: Any) -> dict[str, str]:
    """The meanings of a class's fields, and of those of its bases, by the names that files have."""
    names = dict(zip(kind.__struct_fields__, kind.__struct_encode_fields__, strict=True)) if is_struct(kind) else {}
    known = {names.get(name, name): text for name, text in meanings(kind).items()}
    for base in (*kind.__mro__[1:], *getattr(kind, "__orig_bases__", ())):
        if base.__module__.startswith(("tiltyard.", "shapes")) and getattr(base, "__annotations__", None):
            known = field_meanings(base) | known
    return known


def is_struct(kind: Any) -> bool:
    """Whether a class is a struct of msgspec."""
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


def _optional(kind: Any, part: Schema) -> Collection[str]:
    """The fields that may be absent."""
    if is_typeddict(kind):
        return kind.__optional_keys__
    if kind is Battle or kind.__module__.startswith("tiltyard.data.bank"):
        return set(part["properties"]) - set(part.get("required", ()))
    if not is_struct(kind):
        return ()
    left_out = kind.__struct_config__.omit_defaults
    return [
        field.encode_name
        for field in msgspec.structs.fields(kind)
        if msgspec.UnsetType in get_args(field.type) or (left_out and not field.required)
    ]


def _classes(info: Any) -> Iterator[Any]:
    if hasattr(info, "cls") and hasattr(info, "fields"):
        yield info.cls
    for field in getattr(info, "fields", ()):
        yield from _classes(field.type)
    for name in ("item_type", "value_type"):
        if (inner := getattr(info, name, None)) is not None:
            yield from _classes(inner)
    for inner in (*getattr(info, "types", ()), *getattr(info, "item_types", ())):
        yield from _classes(inner)


def _inlined(schema: Any, parts: dict[str, Schema], apart: Collection[str]) -> Any:
    if isinstance(schema, list):
        return [_inlined(item, parts, apart) for item in schema]
    if not isinstance(schema, dict):
        return schema
    name = schema.get("$ref", "").rsplit("/", 1)[-1]
    own = {
        key: _inlined(value, parts, apart)
        for key, value in schema.items()
        if not (key == "title" and isinstance(value, str)) and (key != "$ref" or name in apart)
    }
    return own if not name or name in apart else {**_inlined(parts[name], parts, apart), **own}


def battle(apart: Collection[str] | None = None) -> Schema:
    """A battle row: labels in place of codes, control pairs beside the other columns."""
    schema = whole(Battle, apart)
    columns = schema["properties"]
    columns["winner"] = {"description": "Who won; `tie (bothbad)`: both are bad.", "enum": list(OUTCOME_LABELS)}
    columns["source"] = {"description": columns["source"]["description"], "enum": list(SOURCE_LABELS)}
    del columns["controls"]
    columns["weight"] |= {"type": ["number", "null"], "minimum": 0}
    for flag in FLAGS:
        columns[flag] |= {"type": ["boolean", "null"]}
    columns["score_a"]["anyOf"][0] |= {"minimum": 0, "maximum": 1}
    for side, which in (("a", "first"), ("b", "second")):
        for control, unit in (
            ("len", "characters"),
            ("headings", "headings"),
            ("lists", "list items"),
            ("bold", "bold parts"),
        ):
            text = f"A number of the {which} answer to control for, which runs write: its {unit}."
            columns[f"{control}_{side}"] = {"description": text, "type": ["number", "null"]}
            columns[f"{control}_{side}"] |= {} if apart is None else {"optional": True}
    return {**schema, "required": ["model_a", "model_b", "winner", "source"]}


def response(apart: Collection[str] | None = None) -> Schema:
    """A response row: a text, a file with its kind, or a transcript."""
    schema = whole(Response, apart)
    # A file from elsewhere may hold anything there: described, not typed.
    made_here = ", ".join(f"`{name}`" for name in Diagnostics.__annotations__)
    schema["properties"]["diagnostics"]["description"] += f" `tiltyard generate` writes {made_here}."
    answers = (["response_text"], ["kind", "file"], ["transcript"])
    return {**schema, "required": ["prompt_id"], "anyOf": [{"required": names} for names in answers]}


def tournament() -> Schema:
    """A tournament file; a key that means nothing is an error here, as editors should point it out."""
    schema = close(whole(Config))
    for path, limits in LIMITS.items():
        node = schema
        for part in path.split("."):
            node = node["properties"][part.removesuffix("[]")]
            node = node["items"] if part.endswith("[]") else node
        node |= limits
    return schema


def close(schema: Any) -> Any:
    """The same schema, refusing properties that are not named, at every depth."""
    for inner in schema if isinstance(schema, list) else schema.values() if isinstance(schema, dict) else ():
        close(inner)
    if isinstance(schema, dict) and isinstance(schema.get("properties"), dict):
        schema.setdefault("additionalProperties", False)
    return schema


COUNTED: dict[str, Schema] = {
    "n_battles": {"type": "number"},
    "left_out": {"type": "object", "additionalProperties": {"type": "number"}},
    "remarks": {"type": "array", "items": {"type": "string"}},
}
"""What a ratings file says of all battles."""


def board(apart: Collection[str] | None = None) -> Schema:
    """One board of a ratings file: the report's own fields, and those that only some methods have."""
    schema = whole(RatingsFile, apart)
    entry = schema["properties"]["ratings"]["items"]
    del entry["properties"]["extra"]
    entry["required"].remove("rank")
    entry["properties"]["source"] |= {"enum": ["evaluated", "human"]}
    entry["properties"]["note"] |= {} if apart is None else {"optional": True}
    for column in sorted(EXTRA_COLUMNS, key=lambda column: column.name):
        number: Schema = {"type": "number"}
        inner = {"anyOf": [number, {"type": "null"}]} if column.is_open else number
        inner |= {"description": column.meaning} if column.meaning else {}
        entry["properties"][column.name] = inner if apart is None else {**inner, "optional": True}
    of_file = schema["properties"]
    settings, details = (whole(kind, apart)["properties"] for kind in (BoardSettings, BoardDetails))
    placed = whole(PlacementFacts, apart and {*apart} - {"JudgeAgainstPeople"})["properties"]
    for name in ("asked", "agreement", "flips"):  # of the manifest
        del placed["calibration"]["properties"][name]
    counted = {name: {"description": of_file[name]["description"], **kind} for name, kind in COUNTED.items()}
    fields = {name: inner for name, inner in (settings | counted | details | placed).items() if name not in HEAD}
    if apart is not None:
        fields = {name: {**inner, "optional": True} for name, inner in fields.items()}
    schema["properties"] = {**{name: of_file[name] for name in HEAD}, **fields, "ratings": of_file["ratings"]}
    return schema


def ratings() -> Schema:
    """A ratings file, or several by the values of a column."""
    several = {
        "type": "object",
        "description": "One board for each value of a column.",
        "properties": {
            "by": {"type": "string", "description": "The column."},
            "boards": {
                "type": "object",
                "additionalProperties": {"$ref": "#/$defs/board"},
                "description": "By its values.",
            },
        },
        "required": ["by", "boards"],
    }
    return {"anyOf": [{"$ref": "#/$defs/board"}, several], "$defs": {"board": board()}}


def placement() -> Schema:
    """A placement's manifest: results are required once it is finished."""
    schema = whole(PlacementManifest)
    started = whole(StartedManifest)["required"]
    schema["properties"]["kind"] |= {"const": "placement"}
    return {
        **schema,
        "required": started,
        "if": {"properties": {"finished_at": {"type": "string"}}, "required": ["finished_at"]},
        "then": {"required": [name for name in schema["required"] if name not in started]},
    }


if __name__ == "__main__":
    for name, schema in schemas().items():
        (FOLDER / schema_file(name)).write_text(written(schema), encoding="utf-8")
    sys.stdout.write(f"wrote {len(SCHEMAS)} schemas\n")
