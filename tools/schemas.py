"""Write `src/tiltyard/schemas/*.json` from the structs; a test fails when one is not up to date.

Types, defaults and what is required come from the structs. What a field means is read from the text below it or the
`Parameters:` list of its class, else from its row in `docs/reference/artifacts.md`. Fields that only some files carry
have no struct: their rows are on that page, and their types are here.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from settings_reference import meanings

from tiltyard.bank import Prompt, Response
from tiltyard.battles.battle import FLAGS, OUTCOME_LABELS, SOURCE_LABELS, Battle
from tiltyard.boards.leaderboard import EloReport
from tiltyard.placement.manifest import PlacementManifest, StartedManifest
from tiltyard.schemas import SCHEMAS, schema_file
from tiltyard.tournament.artifacts import RunManifest
from tiltyard.tournament.config import Config

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "src" / "tiltyard" / "schemas"
PAGE = ROOT / "docs" / "reference" / "artifacts.md"
DIALECT = "https://json-schema.org/draft/2020-12/schema"
Schema = dict[str, Any]

TYPES = {
    "number": "ci_low ci_high points share expected error z p size close close_expected far far_expected level "
    "log_likelihood scale k initial_rating initial_deviation initial_volatility tau effective largest_share "
    "mean sem rating_before rating_after kendall_tau spearman_rho lambda agreement half_width "
    "people_only_half_width people judge random_draw_p overall_level bias_points rating_low rating_high "
    "stated_points value low high bootstrap_mean rating_without_control battles_to_swap_with_next "
    "judge_rating people_only_rating people_only_low people_only_high ci95_low ci95_high sampling_low "
    "sampling_high deviation volatility conservative overall score judge_scale_rating judge_scale_ci_low "
    "judge_scale_ci_high accuracy weight battles human_rating human_ci_low human_ci_high rating slope "
    "slope_low slope_high slot_points tau_points floor_points n_battles votes labels judged_matchups "
    "agreement_n sampling idiosyncrasy anchors",
    "integer": "count looks planned_looks n_perms n_clusters rank_before rank_after places_gained voters prompts "
    "rank_best rank_worst covered models n judgments settled decisive inconsistent missing_verdicts asked "
    "right fooled undecided failed matchups unanimous opposed no_majority incomplete compared "
    "without_verdict",
    "string": "column kind until stopped ranks method evaluated where battles_sha256 people_sha256 tiltyard_version "
    "model reason against with note prompt_id entrant_a entrant_b verdict bradley_terry leans_to first "
    "second missing check detail combine family correction cluster mode tie_model both_bad tiltyard python",
    "boolean": "checked anytime position_swap passed saves both_orders",
    "list of strings": "remarks notes too_small by_chance only_before only_after not_corrected judges warnings",
}
"""Types of fields without a struct, by the last word of their path; each may be null as well."""
EXCEPTIONS = {
    "interval.degrees_of_freedom": {"type": ["array", "null"], "items": {"type": "number"}},
    "misfit.not_checked": {},
    "inconsistent": {"type": ["string", "null"]},
    "sources.<source>": {"type": "number"},
    "results.dimensions.<dimension>.failed_questions[].error": {"type": ["string", "null"]},
    "results.canaries.<dimension>.missed[].canary": {"type": "string"},
    "results.canaries.<dimension>.missed[].answer": {"type": "string"},
    "results.panel.dimensions.<dimension>.dissent[].votes.<judge>": {"type": "string"},
    "results.panel.dimensions.<dimension>.judges[].judge": {"type": "string"},
    "families.families[].models[].covered": {"type": "boolean"},
}
"""Types of fields that the last word of their path does not tell."""
ANY_NAME = {
    "left_out": "number",
    "tie_parameters": "number",
    "failed_verdicts": "integer",
    "prompts": "integer",
    "variance_points2": "number",
    "not_checked": "string",
    "by_entrant": "integer",
    "by_reason": "integer",
}
"""Types of the values of objects whose keys are names that change from file to file."""

ANYTHING = "diagnostics."
"""Response files from elsewhere may hold anything here: described, not typed."""

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
        "battle": _battle(),
        "prompt": _of(Prompt, "Prompt bank"),
        "response": _response(),
        "tournament": _tournament(),
        "ratings": _ratings(),
        "run-manifest": _of(RunManifest, "Tournament manifest"),
        "placement-manifest": _placement(),
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


def _of(kind: Any, section: str | None = None) -> Schema:
    """The schema of a struct with everything that the page says about its fields."""
    schema = _struct(kind)
    for path, meaning in documented(section) if section else ():
        if path.count(".") == 1 or not path.startswith(ANYTHING):
            _describe(schema, path, meaning)
    return schema


def _struct(kind: Any) -> Schema:
    """The schema of a struct, whole: no references, with the meaning of every field that has one."""
    classes = {cls.__name__: cls for cls in _classes(msgspec.inspect.type_info(kind))}
    _, parts = msgspec.json.schema_components([kind])
    for name, part in parts.items():
        said = meanings(classes[name]) if name in classes else {}
        for field, inner in part.get("properties", {}).items():
            if field in said:
                inner["description"] = said[field].replace("– means", "null means")
        if "description" in part:
            part["description"] = " ".join(part["description"].split("Parameters:")[0].split())
    return dict(_inlined(parts[kind.__name__], parts))


def _classes(info: Any) -> Iterator[type]:
    """The structs and dataclasses that a type is made of."""
    if isinstance(info, msgspec.inspect.StructType | msgspec.inspect.DataclassType):
        yield info.cls
        for field in info.fields:
            yield from _classes(field.type)
    for name in ("item_type", "value_type"):
        if (inner := getattr(info, name, None)) is not None:
            yield from _classes(inner)
    for inner in (*getattr(info, "types", ()), *getattr(info, "item_types", ())):
        yield from _classes(inner)


def _inlined(schema: Any, parts: dict[str, Schema]) -> Any:
    """The same schema with references replaced by what they refer to."""
    if isinstance(schema, list):
        return [_inlined(item, parts) for item in schema]
    if not isinstance(schema, dict):
        return schema
    own = {key: _inlined(value, parts) for key, value in schema.items() if key not in ("$ref", "title")}
    if "$ref" not in schema:
        return own
    return {**_inlined(parts[schema["$ref"].rsplit("/", 1)[-1]], parts), **own}


def documented(title: str) -> Iterator[tuple[str, str]]:
    """The fields of a section of the page with their meaning, and those of the sections that it takes over."""
    page = PAGE.read_text(encoding="utf-8")
    body = next(part for part in page.split("\n### ") if part.startswith(f"{title}\n")).split("\n## ")[0]
    for field, meaning in re.findall(r"^\| `([^`]+)` \|[^|]*\| ?(.*?) ?\|$", body, re.MULTILINE):
        link = re.search(r"\]\(#([\w-]+)\)", meaning)
        if not field.endswith("…"):
            yield field, meaning
        elif link is None:
            yield field.removesuffix(".…"), meaning
        else:
            headings = re.findall(r"^### (.*)$", page, re.MULTILINE)
            other = next(part for part in headings if _anchor(part) == link[1])
            for inner, said in documented(other):
                yield field.removesuffix("…") + inner, said


def _anchor(heading: str) -> str:
    return re.sub(r"[^\w ]", "", heading).lower().replace(" ", "-")


def _describe(schema: Schema, path: str, meaning: str) -> None:
    """Put what the page says about a field into a schema that may know its type."""
    node = schema
    steps = [step for part in path.split(".") for step in ([part[:-2], "[]"] if part.endswith("[]") else [part])]
    for place, step in enumerate(steps):
        around, node = node, _step(node, step, last=place == len(steps) - 1, path=path)
    if "<" in steps[-1]:
        node = around
    if meaning and "description" not in node:
        node["description"] = _sentence(meaning)


def _step(node: Schema, step: str, *, last: bool, path: str) -> Schema:
    """One step down a schema; what is not there yet is made, with its type if it is the last."""
    node = next((one for one in node.get("anyOf", ()) if one.get("type") in ("object", "array")), node)
    if step == "[]":
        node.setdefault("type", ["array", "null"])
        inner = node.get("items") or {}
        node["items"] = inner
        return inner
    node.setdefault("type", ["object", "null"])
    if "<" in step:
        inner = node.get("additionalProperties")
        if not isinstance(inner, dict):
            inner = node["additionalProperties"] = dict(_type(path, steps_before(path))) if last else {}
        return inner
    properties = node.setdefault("properties", {})
    if step not in properties:
        properties[step] = dict(_type(path, step)) if last else {}
    return properties[step]


def steps_before(path: str) -> str:
    """The name of the object that a path's last step is a key of."""
    return path.split(".")[-2] if "." in path else path


def _type(path: str, name: str) -> Schema:
    if path.startswith(ANYTHING):
        return {}
    if path in EXCEPTIONS:
        return EXCEPTIONS[path]
    if path.endswith(">"):
        return {"type": ANY_NAME[name]}
    for kind, names in TYPES.items():
        if name in names.split():
            return {"type": ["array", "null"], "items": {"type": "string"}} if " " in kind else {"type": [kind, "null"]}
    raise KeyError(f"{path}: say its type in TYPES or EXCEPTIONS")


def _sentence(meaning: str) -> str:
    """The cell of a table as a sentence, without links."""
    text = re.sub(r"\[([^]]+)\]\([^)]*\)", r"\1", meaning).strip()
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", ":")) else ".")


def _battle() -> Schema:
    """A battle row: labels in place of codes, control pairs beside the other columns."""
    schema = _of(Battle)
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
            said = f"A number of the {which} answer to control for, which runs write: its {unit}."
            columns[f"{control}_{side}"] = {"description": said, "type": ["number", "null"]}
    return {**schema, "required": ["model_a", "model_b", "winner", "source"]}


def _response() -> Schema:
    """A response row: a text, a file with its kind, or a transcript."""
    schema = _of(Response, "Response file")
    answers = (["response_text"], ["kind", "file"], ["transcript"])
    return {**schema, "required": ["prompt_id"], "anyOf": [{"required": names} for names in answers]}


def _tournament() -> Schema:
    """A tournament file; a key that means nothing is an error here, as editors should point it out."""
    schema = _of(Config)
    _close(schema)
    for path, limits in LIMITS.items():
        node = schema
        for part in path.split("."):
            node = node["properties"][part.removesuffix("[]")]
            node = node["items"] if part.endswith("[]") else node
        node |= limits
    return schema


def _close(schema: Any) -> None:
    """Refuse properties that are not named, at every depth."""
    for inner in schema if isinstance(schema, list) else schema.values() if isinstance(schema, dict) else ():
        _close(inner)
    if isinstance(schema, dict) and isinstance(schema.get("properties"), dict):
        schema.setdefault("additionalProperties", False)


def _ratings() -> Schema:
    """A ratings file, or several by the values of a column."""
    board = _struct(EloReport)
    entry = board["properties"]["ratings"]["items"]
    del board["properties"]["details"], entry["properties"]["extra"]
    entry["required"].remove("rank")
    entry["properties"]["source"] |= {"enum": ["evaluated", "human"]}
    for path, meaning in documented("Ratings file"):
        _describe(board, path, meaning)
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
    return {"anyOf": [{"$ref": "#/$defs/board"}, several], "$defs": {"board": board}}


def _placement() -> Schema:
    """A placement's manifest: results are required once it is finished."""
    schema = _of(PlacementManifest, "Placement manifest")
    started = _struct(StartedManifest)["required"]
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
