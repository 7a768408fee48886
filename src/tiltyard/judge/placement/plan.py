"""What a placement is asked for, and what it will do, decided before any call: arena, field, opponents, rounds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from tiltyard.data.battles import BattleTable, merge_equal
from tiltyard.errors import OptionError, OptionValue, RunFolderError
from tiltyard.judge.placement.human_arena import Cells, HumanArena, read_human_arena
from tiltyard.judge.placement.rating import HumanBoard, Recipe
from tiltyard.judge.placement.robustness import BIASES, families_of
from tiltyard.judge.placement.sampling import IDIOSYNCRASY, Chooser, Panel, planned_battle, read_panel
from tiltyard.judge.placement.stopping import Until, level_at_each_look, round_sizes, stopping_looks
from tiltyard.judge.verdicts import Rubric, default_rubric
from tiltyard.options import PlaceOptions
from tiltyard.stats import JudgeScale
from tiltyard.types import Ints

LEVEL = 0.95
DIMENSION = "quality"
KEPT_COLUMNS = ("question_id", "language")
"""What is kept of people's battles: the folder has no more, and rates by the same."""


def recorded(options: PlaceOptions) -> dict[str, Any]:
    """The options as written in a manifest: plain values, no addresses, and other names of columns if there are any."""
    left_out = ("base_url", "model_base_url", *(() if options.map else ("map",)))
    values = {one.name: getattr(options, one.name) for one in fields(options) if one.name not in left_out}
    for name, value in values.items():
        if isinstance(value, tuple):
            values[name] = [str(part) if isinstance(part, Path) else part for part in value]
        elif isinstance(value, Path):
            values[name] = str(value)
    values["until"] = None if options.until is None else str(Until.parse(options.until))
    return values


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
    usable: Ints
    panel: Panel | None
    families: Mapping[str, str]
    until: Until | None

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        battles = min(self.options.n_battles, self.capacity)
        if self.panel is not None or self.options.sampling != "informative":
            return round_sizes(battles, self.options.looks, opening=())  # no choice depends on earlier results
        return round_sizes(battles, self.options.looks)

    @cached_property
    def recipe(self) -> Recipe:
        options = self.options
        by_rank = self.until is not None and self.until.kind == "rank"
        level = level_at_each_look(LEVEL, stopping_looks(self.sizes)) if by_rank else LEVEL
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
        return len(self.panel.battles) if self.panel is not None else self.chooser().capacity

    def chooser(self, scale: JudgeScale | None = None) -> Chooser:
        cells, options = self.arena.cells, self.options
        strength = np.full(len(cells.models), np.nan)
        variance = np.zeros(len(cells.models))
        eligible = np.zeros(len(cells.models), dtype=np.bool_)
        code_of = {name: code for code, name in enumerate(cells.models)}
        for number, name in enumerate(self.people.models):
            if name in code_of and name != self.model:
                code = code_of[name]
                strength[code] = self.people.anchors.strength[number]
                variance[code] = self.people.anchors.covariance[number, number]
                eligible[code] = self.people.board[name].n_battles >= options.min_opponent_battles
        return Chooser(
            cells.take(self.usable),
            sampler=options.sampling,
            eligible=eligible,
            strength=strength,
            strength_variance=variance,
            idiosyncrasy=IDIOSYNCRASY if scale is None else max(scale.floor, IDIOSYNCRASY),
            slope=1.0 if scale is None else scale.slope,
            per_language=options.per_language,
        )

    def announcements(self) -> list[str]:
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
    until = None if options.until is None else Until.parse(options.until)
    arena = read_human_arena(
        options.arena,
        turns=options.turns,
        languages=options.languages or None,
        on_bad=options.on_bad,
        prompts=options.prompts,
        answers=options.answers,
        map=options.map,
    )
    human = arena.battles
    if options.leave_one_out:
        if model not in human.models:
            raise OptionError(
                OptionValue("leave_one_out", None),
                f" places a model that people voted on, and {model!r} is not in the arena. "
                f"It has {', '.join(human.models[:6])} …",
            )
        code = human.models.index(model)
        human = human.take((human.model_a != code) & (human.model_b != code)).compact()
    elif model in human.models:
        raise OptionError(
            f"{model!r} is in the arena already, so its judged and human battles would be mixed up. "
            "Give the new model another name, or check the judge on it (",
            OptionValue("leave_one_out", None),
            ").",
        )
    rubric = default_rubric(DIMENSION) if options.rubric is None else Rubric.load(DIMENSION, options.rubric)
    panel = None if options.panel is None else read_panel(options.panel)
    usable = _usable_cells(arena, model, known, leave_one_out=options.leave_one_out)
    human = replace(human, columns={name: one for name, one in human.columns.items() if name in KEPT_COLUMNS})
    if not options.inline_human:
        human = merge_equal(replace(human, columns={}))
    people = HumanBoard.of(human, options.anchor)
    families = families_of(people.models, options.families)
    plan = PlacementPlan(options, model, arena, human, people, rubric, usable, panel, families, until)
    if not len(arena.cells):
        raise OptionError(
            f"{arena.name} holds no texts, so there is nothing to judge the new model against. "
            "Use a file with conversations, or give ",
            OptionValue("prompts", None),
            " and ",
            OptionValue("answers", None),
            ".",
        )
    if panel is not None:
        _check_panel(plan, panel)
    elif plan.capacity == 0:
        most = max((people.board[name].n_battles for name in people.models), default=0)
        raise OptionError(
            f"no opponent with texts has {options.min_opponent_battles:,} human battles; "
            f"the most of any model is {most:,.0f}. Lower ",
            OptionValue("min_opponent_battles", None),
            ".",
        )
    return plan


def _usable_cells(arena: HumanArena, model: str, known: Mapping[str, str] | None, *, leave_one_out: bool) -> Ints:
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
    exchanges = plan.arena.exchanges([cell for cell in cells if cell is not None])
    for planned, exchange in zip(panel.battles, exchanges, strict=True):
        if planned.sha256 != planned_battle(exchange, model_first=True).sha256:
            raise RunFolderError(
                f"{plan.options.panel}: question {planned.question_id!r} of {planned.opponent!r} has other texts in "
                "this arena. Use the arena that the panel came from."
            )


def panel_cells(cells: Cells, panel: Panel) -> list[int | None]:
    """The cell of each battle of a panel, None where the arena has no such answer."""
    questions = {name: code for code, name in enumerate(cells.question_ids)}
    models = {name: code for code, name in enumerate(cells.models)}
    place = {
        (question, model): cell
        for cell, (question, model) in enumerate(zip(cells.question.tolist(), cells.model.tolist(), strict=True))
    }
    return [place.get((questions.get(s.question_id, -1), models.get(s.opponent, -1))) for s in panel.battles]


def with_judge(plan: PlacementPlan, judge_model: str) -> PlacementPlan:
    """The plan with the judge's name as verdicts give it."""
    return replace(plan, options=replace(plan.options, judge=judge_model))
