"""What a placement is asked for, and what it will do, decided before any call: arena, field, opponents, rounds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tiltyard.battles.battle import Outcome
from tiltyard.battles.table import BattleTable
from tiltyard.errors import OptionError, OptionValue
from tiltyard.judging.plan import Rubric, default_rubric
from tiltyard.placement.human_arena import Cells, HumanArena, read_human_arena
from tiltyard.placement.rating import HumanBoard, Recipe
from tiltyard.placement.robustness import BIASES, families_of
from tiltyard.placement.sampling import IDIOSYNCRASY, Chooser, Panel, Sampler, check_texts, read_panel
from tiltyard.placement.stopping import Until, level_at_each_look, round_sizes, stopping_looks
from tiltyard.ratings.judge_scale import JudgeScale

Turns = Literal["first", "all"]
Swap = Literal["both", "random"]

LOOKS = 5
"""Default number of rounds: after each, the next opponents are chosen from the results so far, and the run may stop."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceOptions:
    """The settings of one placement, the same as the options of `tiltyard place`."""

    arena: tuple[Path, ...]
    """Human battles with conversations (Parquet, JSONL, CSV); may be given again."""
    model: str
    """The new model: provider/model, or a file of its answers (prompt_id = question_id)."""
    judge: str
    """The judge: anthropic/…, openai/…, gemini/…, ollama/…, local/…, scripted/FILE or recorded/FILE."""
    name: str | None = None
    """The new model's name on the board."""
    n_battles: int = 100
    """Battles to judge at most."""
    bootstraps: int = 1000
    """Bootstrap rounds over prompts; 0 means sandwich intervals."""
    seed: int = 0
    """Seed of sampling, sides and bootstrap."""
    languages: tuple[str, ...] = ()
    """Only battles in these languages, separated by commas (en,fr)."""
    per_language: int | None = None
    """At most N judged battles per language."""
    min_opponent_battles: int = 500
    """Human battles that an opponent must have."""
    rubric: Path | None = None
    """The rubric to judge by."""
    sampling: Sampler = "informative"
    """How opponents and questions are chosen; informative shrinks the interval fastest."""
    panel: Path | None = None
    """Judge exactly the battles of an earlier run's panel.json."""
    until: Until | None = None
    """Stop when the interval is this narrow in points (80), or in places (rank:5)."""
    looks: int = LOOKS
    """Rounds: after each, opponents are chosen again and the run may stop."""
    turns: Turns = "first"
    """The first turn of a conversation, or all of it."""
    swap: Swap = "both"
    """Judge both orders, or one at random."""
    calibrate: int = 0
    """Ask the judge about N battles that people decided, and widen the interval by what it shows."""
    families: Path | None = None
    """Families of the models (CSV model,family or JSON), to check the calibration on families it has not seen."""
    fixed_anchors: bool = False
    """Hold people's ratings fixed; fit only the new model."""
    leave_one_out: bool = False
    """Place a model of the arena by the judge alone, and compare with people."""
    anchor: tuple[str, float] | None = None
    """Pin a model of the arena to a rating."""
    inline_human: bool = True
    """Save human battles one by one; `--no-inline-human` saves counts by pair."""
    prompts: Path | None = None
    """Prompt bank with the texts of the questions, for battles without conversations."""
    answers: Path | None = None
    """Opponents' answers: a response file, or a folder of responses_<model>.jsonl."""
    on_bad: Literal["error", "skip"] = "error"
    """Stop at a bad row of the arena, or skip and count it."""
    map: tuple[tuple[str, str], ...] = ()
    """Columns of the arena's files under other names: ours and theirs."""
    out: Path = Path("placements")
    """Where the folder of the run goes."""
    cache_dir: Path = Path("judgments")
    """Where verdicts and answers are kept between runs."""
    base_url: str | None = None
    """Address of the judge's server, for local/…."""
    model_base_url: str | None = None
    """Address of the new model's server."""
    max_tokens: int = 1024
    """How long an answer of the new model may be."""

    def __post_init__(self) -> None:
        if self.fixed_anchors and self.calibrate:
            raise OptionError(
                "a calibration holds people's ratings fixed already: leave ",
                OptionValue("fixed_anchors", None),
                " out.",
            )
        if self.families is not None and not self.calibrate:
            raise OptionError(
                OptionValue("families", None),
                " check a calibration, and there is none. Add ",
                OptionValue("calibrate", None),
                ", such as 300.",
            )
        if self.panel is not None and self.per_language is not None:
            raise OptionError(
                "a saved panel says which battles are judged: leave ", OptionValue("per_language", None), " out."
            )
        if self.bootstraps == 1:
            raise OptionError("1 bootstrap round says nothing about spread. Take at least 2, better 1000, or 0.")
        if self.anchor is not None and self.anchor[0] == self.name:
            raise OptionError("the new model cannot be the anchor: its rating is what is asked. Pin another model.")

    def record(self) -> dict[str, Any]:
        """The options as written in a manifest: plain values, no addresses."""
        kept: dict[str, Any] = {}
        for name in self.__slots__:
            value = getattr(self, name)
            if name in ("base_url", "model_base_url"):
                continue
            if name == "map":
                kept |= {"map": dict(self.map)} if self.map else {}
                continue
            if isinstance(value, tuple):
                value = [str(part) if isinstance(part, Path) else part for part in value]
            kept[name] = str(value) if isinstance(value, Path) or (name == "until" and value is not None) else value
        return kept


LEVEL = 0.95
DIMENSION = "quality"


@dataclass(frozen=True, eq=False)
class PlacementPlan:
    """A placement, ready to be quoted and carried out.

    `human` are the battles that the new model is rated with (without its own, if people voted on it); `usable` are the
    cells of the arena that it can be judged on; `families` the makers of models, where they are known.
    """

    options: PlaceOptions
    model: str
    arena: HumanArena
    human: BattleTable
    people: HumanBoard
    rubric: Rubric
    usable: NDArray[np.int64]
    panel: Panel | None
    families: Mapping[str, str]

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """How many battles are judged before each look."""
        battles = min(self.options.n_battles, self.capacity)
        if self.panel is not None or self.options.sampling != "informative":
            return round_sizes(battles, self.options.looks, opening=())  # no choice depends on earlier results
        return round_sizes(battles, self.options.looks)

    @cached_property
    def recipe(self) -> Recipe:
        """How the result is rated."""
        options, until = self.options, self.options.until
        looks = stopping_looks(self.sizes)
        level = level_at_each_look(LEVEL, looks) if until is not None and until.kind == "rank" else LEVEL
        return Recipe(
            arena=self.arena.name,
            model=self.model,
            judge_model=options.judge,
            mode="calibrated" if options.calibrate else "fixed" if options.fixed_anchors else "joint",
            bootstraps=options.bootstraps,
            seed=options.seed,
            level=level,
            overall_level=LEVEL,
            anchor=options.anchor,
            sensitivity=BIASES,
            families=dict(self.families) if options.calibrate else {},
        )

    @property
    def capacity(self) -> int:
        """How many battles can be judged at most."""
        return len(self.panel.battles) if self.panel is not None else self.chooser().capacity

    def chooser(self, scale: JudgeScale | None = None) -> Chooser:
        """The sampler that chooses the battles, with the judge's calibration if there is one."""
        cells, options = self.arena.cells, self.options
        strength = np.full(len(cells.models), np.nan)
        variance = np.zeros(len(cells.models))
        eligible = np.zeros(len(cells.models), dtype=np.bool_)
        for code, name in enumerate(cells.models):
            number = self.people.number(name)
            if number is not None and name != self.model:
                strength[code] = self.people.anchors.strength[number]
                variance[code] = self.people.anchors.covariance[number, number]
                eligible[code] = self.people.board[name].n_battles >= options.min_opponent_battles
        part = Cells(
            cells.question[self.usable],
            cells.model[self.usable],
            cells.language[self.usable],
            cells.question_ids,
            cells.models,
            cells.languages,
        )
        return Chooser(
            part,
            sampler=options.sampling,
            eligible=eligible,
            strength=strength,
            strength_variance=variance,
            idiosyncrasy=IDIOSYNCRASY if scale is None else max(scale.floor, IDIOSYNCRASY),
            slope=1.0 if scale is None else scale.slope,
            per_language=options.per_language,
        )

    def announcements(self) -> list[str]:
        """A summary to show before the run starts."""
        arena, options = self.arena, self.options
        chooser = self.chooser()
        lines = [*arena.remarks, *([self.rubric.version_note] if self.rubric.version_note else [])]
        lines.append(
            f"arena {arena.name}: {self.human.n_battles:,.0f} human battles of {len(self.people.models)} models; "
            f"texts of {len(arena.cells):,} answers to {len(set(arena.cells.question.tolist())):,} questions"
        )
        planned = sum(self.sizes)
        orders = "both orders" if options.swap == "both" else "one order each, at random"
        how = "a saved panel" if self.panel is not None else f"{options.sampling} sampling"
        lines.append(
            f"{self.model}: {planned:,} battles to judge in {len(self.sizes)} rounds ({how}, {orders}), "
            f"{chooser.opponents} opponents with at least {options.min_opponent_battles:,} human battles"
        )
        if planned < options.n_battles:
            lines.append(f"only {planned:,} of the {options.n_battles:,} battles asked for can be judged")
        return lines


def make_plan(options: PlaceOptions, model: str, known: Mapping[str, str] | None) -> PlacementPlan:
    """Read the arena and decide who can be met. `known` are the new model's answers, if they are already fixed."""
    arena = read_human_arena(
        options.arena,
        turns=options.turns,
        languages=options.languages or None,
        on_bad=options.on_bad,
        prompts=options.prompts,
        answers=options.answers,
        map=dict(options.map),
    )
    _check_name(arena, model, leave_one_out=options.leave_one_out)
    human = without(arena.battles, model) if options.leave_one_out else arena.battles
    rubric = default_rubric(DIMENSION) if options.rubric is None else Rubric.load(DIMENSION, options.rubric)
    panel = None if options.panel is None else read_panel(options.panel)
    usable = _usable_cells(arena, model, known, leave_one_out=options.leave_one_out)
    people = HumanBoard.of(human, options.anchor)
    families = families_of(people.models, options.families)
    plan = PlacementPlan(options, model, arena, human, people, rubric, usable, panel, families)
    _check_opponents(plan)
    if panel is not None:
        _check_panel(plan, panel)
    return plan


def without(battles: BattleTable, model: str) -> BattleTable:
    """The battles in which a model took no part."""
    code = battles.models.index(model)
    return battles.take((battles.model_a != code) & (battles.model_b != code)).compact()


def _check_name(arena: HumanArena, model: str, *, leave_one_out: bool) -> None:
    there = model in arena.battles.models
    if there and not leave_one_out:
        raise OptionError(
            f"{model!r} is in the arena already, so its judged and human battles would be mixed up. "
            "Give the new model another name, or check the judge on it (",
            OptionValue("leave_one_out", None),
            ").",
        )
    if leave_one_out and not there:
        raise OptionError(
            OptionValue("leave_one_out", None),
            f" places a model that people voted on, and {model!r} is not in the arena. "
            f"It has {', '.join(arena.battles.models[:6])} …",
        )


def _usable_cells(
    arena: HumanArena, model: str, known: Mapping[str, str] | None, *, leave_one_out: bool
) -> NDArray[np.int64]:
    """The opponents' cells that the new model can be judged against.

    With answers from a file, only the questions answered; with leave-one-out, only the pairs in which people compared
    it.
    """
    cells = arena.cells
    if leave_one_out:
        code = list(cells.models).index(model)
        pairs = arena.pairs
        first, second = cells.model[pairs.first] == code, cells.model[pairs.second] == code
        return np.unique(np.concatenate([pairs.second[first], pairs.first[second]])).astype(np.int64)
    if known is None:
        return np.arange(len(cells), dtype=np.int64)
    answered = np.array([name in known for name in cells.question_ids], dtype=np.bool_)
    if len(cells) and not answered[cells.question].any():
        raise OptionError(
            f"the answers of {model!r} are to none of the arena's questions. `prompt_id` must be its question_id, "
            f"such as {cells.question_ids[int(cells.question[0])]!r}."
        )
    return np.flatnonzero(answered[cells.question])


def _check_opponents(plan: PlacementPlan) -> None:
    """Refuse, before anything is spent, an arena without a possible opponent."""
    if not len(plan.arena.cells):
        raise OptionError(
            f"{plan.arena.name} holds no texts, so there is nothing to judge the new model against. "
            "Use a file with conversations, or give ",
            OptionValue("prompts", None),
            " and ",
            OptionValue("answers", None),
            ".",
        )
    if plan.panel is None and plan.chooser().capacity == 0:
        most = max((plan.people.board[name].n_battles for name in plan.people.models), default=0)
        raise OptionError(
            f"no opponent with texts has {plan.options.min_opponent_battles:,} human battles; "
            f"the most of any model is {most:,.0f}. Lower ",
            OptionValue("min_opponent_battles", None),
            ".",
        )


def _check_panel(plan: PlacementPlan, panel: Panel) -> None:
    cells = panel_cells(plan.arena.cells, panel)
    missing = [planned for planned, cell in zip(panel.battles, cells, strict=True) if cell is None]
    assert plan.options.panel is not None
    if missing:
        planned = missing[0]
        raise OptionError(
            f"{plan.options.panel}: {len(missing)} of {len(panel.battles)} battles are not in this arena, such as "
            f"question {planned.question_id!r} of {planned.opponent!r}. Use the arena that the panel came from."
        )
    outside = set(cells) - set(plan.usable.tolist())
    if outside:
        cell = min(place for place in outside if place is not None)
        name = plan.arena.cells.question_ids[int(plan.arena.cells.question[cell])]
        raise OptionError(f"{plan.model!r} has no answer to question {name!r} of the panel. Add it to its file.")
    check_texts(panel.battles, plan.arena.exchanges([cell for cell in cells if cell is not None]), plan.options.panel)


def panel_cells(cells: Cells, panel: Panel) -> list[int | None]:
    """The cell of each battle of a panel, None where the arena has no such answer."""
    questions = {name: code for code, name in enumerate(cells.question_ids)}
    models = {name: code for code, name in enumerate(cells.models)}
    place = {
        (question, model): cell
        for cell, (question, model) in enumerate(zip(cells.question.tolist(), cells.model.tolist(), strict=True))
    }
    return [place.get((questions.get(s.question_id, -1), models.get(s.opponent, -1))) for s in panel.battles]


def decided_pairs(arena: HumanArena, model: str) -> NDArray[np.int64]:
    """The pairs that people decided or tied, with both texts, without the model under test."""
    pairs, cells = arena.pairs, arena.cells
    rated = pairs.outcome != Outcome.BOTH_BAD
    if model in cells.models:
        code = list(cells.models).index(model)
        rated &= (cells.model[pairs.first] != code) & (cells.model[pairs.second] != code)
    return np.flatnonzero(rated)


def with_judge(plan: PlacementPlan, judge_model: str) -> PlacementPlan:
    """The plan with the judge's name as verdicts give it."""
    return replace(plan, options=replace(plan.options, judge=judge_model))
