"""What the tools of `tiltyard mcp` may be told: each argument with its kind, its limits and its meaning."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

SHOWN_MODELS, SHOWN_PROMPTS = 20, 5

Shares = Annotated[float, Meta(gt=0, lt=1)]
Positive = Annotated[int, Meta(ge=1)]
Points = Annotated[float, Meta(ge=0)]
Battles = Annotated[
    list[str],
    Meta(min_length=1, description="Battle files (JSONL, CSV, TSV, Parquet, or logs of other tools) or run folders."),
]
FromFormat = Annotated[str, Meta(description="Format of the battles; `auto` recognises it by the header.")]
Source = Annotated[
    Literal["human", "llm-judge"] | None, Meta(description="Only battles that people, or a judge, decided.")
]
DefaultSource = Annotated[
    Literal["human", "llm-judge"] | None, Meta(description="Who decided where a row does not say.")
]
Dimension = Annotated[str | None, Meta(description="Only battles of this dimension.")]
OnBad = Annotated[Literal["error", "skip"], Meta(description="Stop at the first bad row, or skip and count bad rows.")]
Columns = Annotated[
    dict[str, str] | None,
    Meta(description='Columns under other names, ours first: {"winner": "choice", "prompt": "question"}.'),
]
Names = Annotated[str, Meta(min_length=1)]


class BattleArguments(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """What every tool that reads battles may be told about them."""

    format: FromFormat = "auto"
    source: Source = None
    default_source: DefaultSource = None
    dimension: Dimension = None
    on_bad: OnBad = "error"
    map: Columns = None

    def given(self) -> dict[str, Any]:
        """The arguments that are given, by the library's names."""
        values = {name: getattr(self, name) for name in BattleArguments.__struct_fields__}
        usual = {field.name: field.default for field in msgspec.structs.fields(BattleArguments)}
        return {name: value for name, value in values.items() if value != usual[name]}


class RateArguments(BattleArguments, kw_only=True, forbid_unknown_fields=True):
    """A leaderboard from battles."""

    battles: Battles
    method: Annotated[
        Literal["bt", "elo", "elo-perm", "glicko2", "winrate"], Meta(description="`bt` is Bradley–Terry.")
    ] = "bt"
    ties: Annotated[
        Literal["davidson", "rao-kupper", "half", "drop"] | None, Meta(description="How Bradley–Terry reads ties.")
    ] = None
    control: Annotated[
        list[str] | None, Meta(description="Style columns to control for: `len` reads len_a and len_b.")
    ] = None
    cluster: Annotated[
        str | None, Meta(description="What makes battles dependent: prompt, voter, `prompt,voter` or none.")
    ] = None
    level: Annotated[Shares | None, Meta(description="Confidence level of the intervals.")] = None
    only_connected: Annotated[
        bool, Meta(description="Rate the largest group of models that met, where some never met the others.")
    ] = False
    top: Annotated[int, Meta(ge=1, description="How many models to answer with, best first.")] = SHOWN_MODELS


class CompareArguments(BattleArguments, kw_only=True, forbid_unknown_fields=True):
    """Two models in the same battles, or two runs."""

    new: Annotated[Names, Meta(description="The new model (with `battles`); else the new run folder or ratings file.")]
    old: Annotated[Names, Meta(description="The model it is compared with; else the old run folder or ratings file.")]
    battles: Annotated[Battles | None, Meta(description="Where the two models met; leave it out for two runs.")] = None
    level: Annotated[Shares, Meta(description="Confidence level.")] = 0.95
    anyway: Annotated[bool, Meta(description="Compare runs of different judges or rubrics too.")] = False
    prompts: Annotated[int, Meta(ge=0, description="How many prompts to list of each kind.")] = SHOWN_PROMPTS


class GateArguments(BattleArguments, kw_only=True, forbid_unknown_fields=True):
    """May the new one replace the old one."""

    new: Annotated[Names, Meta(description="The new model (with `battles`); else the new run folder or ratings file.")]
    old: Annotated[Names, Meta(description="The model it is compared with; else the old run folder or ratings file.")]
    battles: Annotated[Battles | None, Meta(description="Where the two models met; leave it out for two runs.")] = None
    margin: Annotated[
        float, Meta(ge=0, description="By how many rating points the new one may be worse: 30 is about 54 : 46.")
    ] = 30.0
    alpha: Annotated[float, Meta(gt=0, lt=0.5, description="Error rate.")] = 0.05
    by: Annotated[str | None, Meta(description="Judge each value of this column too: one that is worse fails.")] = None
    anyway: Annotated[bool, Meta(description="Compare runs of different judges or rubrics too.")] = False


class PlanArguments(BattleArguments, kw_only=True, forbid_unknown_fields=True):
    """How much data a difference takes."""

    battles: Annotated[
        Battles | None, Meta(description="Battles of a pilot; without them it is planned from assumptions.")
    ] = None
    new: Annotated[str | None, Meta(description="The new model, in these battles.")] = None
    old: Annotated[str | None, Meta(description="The model it is compared with.")] = None
    top: Annotated[
        Positive | None, Meta(description="Instead of two models: separate this many at the top of the board.")
    ] = None
    differences: Annotated[list[float] | None, Meta(description="True differences in rating points.")] = None
    margin: Annotated[Points | None, Meta(description="Plan for a gate: to pass as not worse by more than this.")] = (
        None
    )
    power: Annotated[Shares, Meta(description="The chance of the wanted verdict.")] = 0.8
    alpha: Annotated[Shares, Meta(description="The error rate.")] = 0.05
    people: Annotated[bool, Meta(description="People vote; no judge is asked. Only without battles.")] = False


class JudgeCheckArguments(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A judge's verdicts, made before, against people."""

    pairs: Annotated[
        Names, Meta(description="Labelled pairs (JSONL): prompt, response_a, response_b, and label or votes.")
    ]
    verdicts: Annotated[
        Names,
        Meta(description="The judge's verdicts (JSONL or CSV): prompt_id, entrant_a, entrant_b, verdict, both orders."),
    ]
    single_order: Annotated[bool, Meta(description="The verdicts are of one order only.")] = False


class RunStatusArguments(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A run or placement, finished or not."""

    folder: Annotated[Names, Meta(description="The folder of a run or a placement.")]
    judgments: Annotated[
        str | None, Meta(description="The folder of its verdict cache, for batches that are still open.")
    ] = None
