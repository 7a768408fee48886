"""`judge_check`: a judge against people, on pairs that people labelled."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from tiltyard.errors import OptionError, OptionValue
from tiltyard.files import json_text
from tiltyard.judge.llm import AskingParts
from tiltyard.judge.verdicts import (
    Judge,
    JudgeCheck,
    JudgeSettings,
    LabelledPair,
    Rubric,
    check_judge,
    default_rubric,
    judge_by_name,
    labelled_plan,
    read_labelled_pairs,
)
from tiltyard.options import JudgeCheckOptions, accepts_options
from tiltyard.render import Table
from tiltyard.verbs.asking import judging_quote, server_parts, to_end


@dataclass(frozen=True)
class CheckedJudges:
    """How judges compare with people, on the same pairs."""

    judges: Sequence[JudgeCheck]

    def to_dict(self) -> Any:
        """The numbers of the judge; of several, a list."""
        numbers = msgspec.to_builtins(self.judges)
        return numbers if len(numbers) > 1 else numbers[0]

    def to_json(self) -> str:
        """The same as JSON."""
        return json_text(self.to_dict())

    def render(self, format: str = "table") -> str:
        """The comparison for people (`table`) or for programs (`json`)."""
        if format == "json":
            return self.to_json()
        return "\n\n".join([*map(str, self.judges), *([_side_by_side(self.judges)] if len(self.judges) > 1 else [])])

    __str__ = render


@accepts_options(JudgeCheckOptions)
def judge_check(pairs: str | Path, options: JudgeCheckOptions) -> CheckedJudges:
    """Compare a judge with people on labelled pairs: accuracy, agreement, kappa, flips, slot and length preference.

    Parameters:
        pairs: Labelled pairs (JSONL): prompt, response_a, response_b, and label or votes.
    """
    labelled, own = read_labelled_pairs(pairs), options.own
    entrants = {name for pair in labelled for name in (pair.case.matchup.entrant_a, pair.case.matchup.entrant_b)}
    if own is not None and own not in entrants:
        there = ", ".join(sorted(entrants)[:8])
        raise OptionError(OptionValue("own", None), f" {own!r} is in no pair; the entrants are {there}.")
    asking = server_parts(options)
    judges = [
        judge_by_name(
            JudgeSettings(
                model=name, reply=options.reply, grades=options.grades, min_choice_mass=options.min_choice_mass
            ),
            folder=options.cache_dir,
            asking=asking,
            base_url=options.base_url,
        )
        for name in ([options.judge_model] if isinstance(options.judge_model, str) else options.judge_model)
    ]
    rubric = default_rubric() if options.rubric is None else Rubric.load("quality", options.rubric)
    if rubric.version_note:
        options.note(rubric.version_note)
    return CheckedJudges([_check(labelled, judge, asking, rubric, options) for judge in judges])


def _check(
    labelled: list[LabelledPair], judge: Judge, asking: AskingParts, rubric: Rubric, options: JudgeCheckOptions
) -> JudgeCheck:
    """Say the price, judge and compare."""
    judging_quote(judge, labelled_plan(labelled, rubric), asking.prices).agree(judge.name, options)

    options.progress.begin(options.cache_dir)

    async def check() -> JudgeCheck:
        async with aclosing(judge):
            return await check_judge(
                labelled,
                judge,
                rubric=rubric,
                single_order=options.single_order,
                own=options.own,
                watch=options.progress.watch,
            )

    return to_end(check())


def _side_by_side(result: Sequence[JudgeCheck]) -> str:
    """Several judges against the same labels: how often each names people's choice, and the weight that gives it."""
    rows = []
    for one in result:
        right = (one.agreement.value or 0.0) * one.agreement.n
        # As in a panel's estimate from votes: two right and one wrong come first, so that no judge is certain.
        weight = math.log((right + 2) / (one.agreement.n - right + 1))
        share = "–" if one.agreement.value is None else f"{100 * one.agreement.value:.0f} %"
        rows.append([one.judge_model, share, f"{weight:.2f}", f"{one.agreement.n:,}"])
    return "\n".join(Table.of(["judge", " right", "weight", "pairs that both decided"], rows).text(ruled=False))
