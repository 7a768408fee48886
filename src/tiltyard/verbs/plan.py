"""`plan`: how many prompts, verdicts or votes it takes to tell models apart."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

from tiltyard.analysis.boards import check_whole
from tiltyard.analysis.decisions import (
    POINTS,
    Assumptions,
    CallPrice,
    Goal,
    SamplePlan,
    plan_difference,
    plan_from_battles,
    plan_from_scores,
    plan_top,
)
from tiltyard.data.scores import ReadScoresOptions, holds_scores
from tiltyard.errors import OptionError, OptionValue, TiltyardError
from tiltyard.judge.llm import PriceTable, Usage, how_to_state_prices, is_old, user_price_file
from tiltyard.judge.verdicts import utc_now
from tiltyard.options import (
    AssumedOptions,
    BattleOptions,
    CompareOptions,
    FitOptions,
    PlanOptions,
    PriceOptions,
    ScoreOptions,
    SideOptions,
    accepts_options,
    callable_alone,
    options_of,
)
from tiltyard.verbs.places import open_battles

TOKENS = {"prompt_tokens": 150, "answer_tokens": 400, "rubric_tokens": 500, "reply_tokens": 250}
"""Tokens of a call where neither options nor a run folder say them."""
DEFAULTS = PlanOptions()
OF_BATTLES = options_of(BattleOptions, FitOptions, SideOptions).keys()
OF_NO_BATTLES = options_of(AssumedOptions, PriceOptions).keys()


@callable_alone
@accepts_options(PlanOptions)
def plan(
    new: str | Path | None = None, old: str | Path | None = None, options: PlanOptions = DEFAULTS
) -> SamplePlan | Any:
    """How many prompts, verdicts or votes it takes to tell models apart.

    From assumptions, or with `battles` from those of a pilot, a `SamplePlan`; with `top` a `BoardPlan`; from scores a
    `ScorePlan`.

    Parameters:
        new: The new model, in the battles; or its file of scores. None: from assumptions, or for the whole board.
        old: The model it is compared with.
    """
    goal = Goal(power=options.power, alpha=options.alpha, one_sided=options.one_sided, anytime=options.anytime)
    if _are_scores(new, old, options):
        options.refuse(("top", "prompts", *OF_NO_BATTLES), " says nothing about scores: leave it out.")
        return plan_from_scores(new, old, options.part(CompareOptions), goal, options.margin, options.differences or ())
    _check_together(new, old, options)
    if options.margin is not None:
        goal = replace(goal, margin=POINTS.amount(options.margin, "margin"))
    wanted = options.differences
    points = None if wanted is None else [POINTS.amount(one, "differences", least=-math.inf) for one in wanted]
    price = _price(options)
    if options.battles is None:
        assumed = {"flips" if options.people else "": 0.0, **options.part(AssumedOptions).given()}
        names = {"tie_rate": "ties", "flip_rate": "flips"}
        assumptions = Assumptions(
            **{names.get(name, name): value for name, value in assumed.items() if name not in ("", "people")}
        )
        return plan_difference(
            assumptions, people=options.people, goal=goal, differences=points, sizes=options.prompts, price=price
        )
    battles, known = open_battles(options.battles, options)
    shared = {"goal": goal, "price": price, **{name: getattr(known, name) for name in OF_BATTLES}}
    if options.top is not None:
        return plan_top(battles, options.top, **shared)
    return plan_from_battles(battles, str(new), str(old), differences=points, sizes=options.prompts, **shared)


def _are_scores(new: Any, old: Any, options: PlanOptions) -> bool:
    """Whether two models, or two sources, are named that have scores."""
    data = [new, old] if options.battles is None else [options.battles]
    return None not in (new, old) and all(holds_scores(one, options.part(ReadScoresOptions)) for one in data)


def _check_together(new: Any, old: Any, options: PlanOptions) -> None:
    """Refuse options that would be ignored, and say what is missing."""
    if options.people and options.judge is not None:
        raise OptionError(
            OptionValue("judge", None),
            " does not go with ",
            OptionValue("people", None),
            ": no judge is asked. Leave one of them out.",
        )
    add = OptionValue("battles", "FILE")
    if options.battles is None:
        if options.top is not None or new is not None:
            what = OptionValue("top", None) if new is None else repr(new)
            raise OptionError(what, " needs battles: add ", add, ". Without battles, plan from assumptions alone.")
        options.refuse(
            (*OF_BATTLES, *options_of(ScoreOptions)), ": for battles, which ", add, " gives; there are none."
        )
        return
    where = OptionValue("battles", None)
    options.refuse(options_of(AssumedOptions), ": the battles of ", where, " say that themselves. Leave it out.")
    if options.top is None and (new is None or old is None):
        raise OptionError(
            "which two? Name them, the new one first, or use ", OptionValue("top", 3), " for the whole board."
        )
    if options.top is not None:
        if new is not None:
            raise OptionError("give two models, or ", OptionValue("top", None), " for the whole board, not both.")
        options.refuse(("differences", "prompts"), ": for two models. The whole board has the differences of now.")


def _price(options: PlanOptions) -> CallPrice | None:
    """What a call costs: tokens as given, else as in the run folder, else assumed."""
    stated = {name: value for name, value in options.given().items() if name in TOKENS}
    for name, value in stated.items():
        check_whole(name, value, least=0)
    judge, (run_judge, measured) = options.judge, _measured(options.battles)
    if run_judge is not None and not run_judge.startswith(("recorded/", "scripted/")):
        judge = judge or run_judge
    if judge is None:
        options.refuse(("prices", *TOKENS), " is about the price of a judge: name it with ", OptionValue("judge"), ".")
        return None
    if stated or measured is None:
        prompt, answer, rubric, reply = (TOKENS | stated).values()
        usage = (float(prompt + 2 * answer + rubric), float(reply))
    else:
        usage = measured
    table = PriceTable.load(options.prices, user_file=user_price_file())
    million = Usage(input_tokens=round(1e6 * usage[0]), output_tokens=round(1e6 * usage[1]))
    direct, batch = (table.cost(judge, million, batched) for batched in (False, True))
    if direct is None or batch is None:
        options.note(how_to_state_prices([judge]))
        return CallPrice(judge, None, None, None, *usage, measured=usage is measured)
    as_of = table.date_of(judge)
    if as_of is not None and is_old(as_of, utc_now().date()):
        options.note(
            f"the price of {judge} is of {as_of}, more than a year old. Check it, and state today's with --prices."
        )
    return CallPrice(judge, direct / 1e6, batch / 1e6, as_of, *usage, measured=usage is measured)


def _measured(battles: Any) -> tuple[str | None, tuple[float, float] | None]:
    """The judge of a run folder, and the tokens that its calls sent and brought, on average; None where unknown."""
    places = [battles] if isinstance(battles, str | Path) else battles if isinstance(battles, list | tuple) else []
    for folder in places:
        path = Path(folder, "usage.json") if isinstance(folder, str | Path) else Path()
        if not path.is_file():
            continue
        try:
            report = json.loads(path.read_text(encoding="utf-8"))
            kept = [row["verdicts"] for row in report["dimensions"].values()]
            calls = sum(row["count"] - row.get("replies_without_usage", 0) for row in kept)
            names = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
            sent = sum(row[name] for row in kept for name in names)
            replied = sum(row["output_tokens"] for row in kept)
            known = (sent / calls, replied / calls) if calls and sent else None
            return report.get("judge_model"), known
        except (ValueError, KeyError, TypeError, AttributeError):
            raise TiltyardError(f"{path}: not the usage of a run. Give the run's battles.jsonl instead.") from None
    return None, None
