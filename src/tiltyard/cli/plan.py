"""`tiltyard plan`: how many prompts, verdicts or votes it takes."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from tiltyard.cli.asking import PricesOption
from tiltyard.cli.options import rare, with_options
from tiltyard.cli.output import as_flag, deliver, note
from tiltyard.cli.scores import are_scores, read_score_files, two_names, with_flags
from tiltyard.errors import OptionError, OptionValue, TiltyardError
from tiltyard.options import (
    ASSUMED,
    GOAL,
    PRICE,
    BattleOptions,
    FitOptions,
    Help,
    Options,
    ScoreOptions,
    SideOptions,
    options_of,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tiltyard.decisions import BoardPlan, CallPrice, Goal, SamplePlan
    from tiltyard.decisions.score_plan import ScorePlan

PlanFormat = Literal["table", "json", "md"]

BY_SUFFIX: dict[str, PlanFormat] = {".json": "json", ".md": "md", ".txt": "table"}

TOKENS = {"prompt_tokens": 150, "answer_tokens": 400, "rubric_tokens": 500, "reply_tokens": 250}
"""Tokens of a call where neither options nor a run folder say them."""


@dataclass(frozen=True, kw_only=True)
class GoalOptions(Options):
    """What is to be shown, and how surely: the fields of `Goal`."""

    margin: Annotated[
        str | None,
        Help(
            "Plan for a gate: the new model is to pass as not worse by more than this: points, 2pp of shares, or a "
            "number in the unit of the scores.",
            group=GOAL,
            metavar="N",
        ),
    ] = None
    power: Annotated[float, Help("The chance of the wanted verdict, if the difference is as assumed.", group=GOAL)] = (
        0.8
    )
    alpha: Annotated[float, Help("The error rate: how often equal models may be called different.", group=GOAL)] = 0.05
    one_sided: Annotated[bool, Help("Look for `better` only. (--margin is one-sided anyway)", group=GOAL)] = False
    anytime: Annotated[bool, Help("Plan for intervals that hold however often you look; more data.", group=GOAL)] = (
        False
    )


@dataclass(frozen=True, kw_only=True)
class AssumedOptions(Options):
    """What is assumed where there are no battles."""

    people: Annotated[bool, Help("People vote; no judge is asked.", group=ASSUMED)] = False
    tie_rate: Annotated[float | None, Help("Share of battles that equal models tie.", "0.15", group=ASSUMED)] = None
    flip_rate: Annotated[
        float | None,
        Help(
            "Share of verdicts that change with the order of the answers, and become ties.",
            "0.15; people: none",
            group=ASSUMED,
        ),
    ] = None
    spread: Annotated[
        float | None,
        Help(
            "How much a model's strength varies from prompt to prompt: standard deviation in logits.",
            "1",
            group=ASSUMED,
        ),
    ] = None
    repeats: Annotated[
        int | None, Help("Verdicts of each pair on each prompt, or votes of each voter on it.", "1", group=ASSUMED)
    ] = None
    models: Annotated[int | None, Help("Models that all meet each other on every prompt.", "2", group=ASSUMED)] = None


@dataclass(frozen=True, kw_only=True)
class PriceOptions(Options):
    """What a call of the judge costs."""

    judge: Annotated[str | None, Help("The judge, for its price.", "that of the run folder", group=PRICE)] = None
    prompt_tokens: Annotated[int | None, Help("Tokens of a prompt.", "150", group=PRICE)] = None
    answer_tokens: Annotated[int | None, Help("Tokens of one answer; a call has two.", "400", group=PRICE)] = None
    rubric_tokens: Annotated[int | None, Help("Tokens of the rubric.", "500", group=PRICE)] = None
    reply_tokens: Annotated[
        int | None, Help("Tokens of the judge's reply.", "250; a run folder knows all four", group=PRICE)
    ] = None


@with_options(
    GoalOptions,
    BattleOptions,
    FitOptions,
    SideOptions,
    ScoreOptions,
    AssumedOptions,
    PriceOptions,
    daily=["margin", "power", "alpha", "dimension", "format", "people", "judge"],
)
def plan_command(
    new: Annotated[str | None, typer.Argument(metavar="NEW", help="The new model, in battles given by --in.")] = None,
    old: Annotated[str | None, typer.Argument(metavar="OLD", help="The model it is compared with.")] = None,
    battles: Annotated[
        list[str] | None,
        typer.Option(
            "--in", help="Existing battles: files, a run folder, or an arena's database URL. May be repeated."
        ),
    ] = None,
    top: Annotated[
        int | None,
        typer.Option("--top", help="How many more battles it takes to separate this many models at the top."),
    ] = None,
    difference: Annotated[
        list[str] | None,
        typer.Option(
            "--difference",
            metavar="N",
            help="A true difference in rating points, 2pp of shares, or a number in the unit of the scores; repeat for "
            "several. (default: 5, 10, 20, 50; 1pp to 10pp; 0 with --margin)",
        ),
    ] = None,
    prompts: Annotated[
        list[int] | None,
        rare("--prompts", help="Also say which difference this many prompts (or voters) show; repeat for several."),
    ] = None,
    *,
    given: dict[str, Any],
    prices: PricesOption = None,
    format: Annotated[
        PlanFormat | None, typer.Option(help="How to write it. (default: table, or what --out ends in)")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Write it here instead of printing it.")] = None,
) -> None:
    """How many prompts, verdicts or votes it takes to tell models apart.

    Without battles: `tiltyard plan`. From a pilot: `tiltyard plan v2 v1 --in battles.jsonl`, or two files of scores:
    `tiltyard plan v2.csv v1.csv --difference 2pp`. For a whole board: `tiltyard plan --top 3 --in battles.jsonl`.
    """
    from tiltyard.decisions import Goal
    from tiltyard.decisions.units import POINTS

    shape = _shape(format, out)
    goals = _taken(given, GoalOptions)
    margin = goals.pop("margin", None)
    scored = _score_plan(new, old, battles, given, Goal(**goals), margin, difference or ())
    if scored is not None:
        for name, value in (("top", top), ("prompts", prompts), ("prices", prices)):
            if value is not None:
                raise OptionError(OptionValue(name, None), " says nothing about scores: leave it out.")
        render = {"json": scored.to_json, "md": scored.markdown, "table": scored.__str__}
        deliver(render[shape](), out, exact=shape == "md")
        return
    points = None if difference is None else [POINTS.amount(one, "--difference", least=-math.inf) for one in difference]
    goal = Goal(**goals, margin=None if margin is None else POINTS.amount(margin, "--margin"))
    assumed, costs = _taken(given, AssumedOptions), _taken(given, PriceOptions)
    _check_together(new, old, battles, top, assumed=assumed, given=given, judge=costs.get("judge"))
    price = _price(costs, prices, [Path(name) for name in battles or ()])
    sizes = prompts or ()
    plan: SamplePlan | BoardPlan
    if battles is None:
        from tiltyard.decisions import Assumptions, plan_difference

        people = assumed.pop("people", False)
        names = {"tie_rate": "ties", "flip_rate": "flips"}
        known = {"flips": 0.0} if people else {}
        assumptions = Assumptions(**known | {names.get(name, name): value for name, value in assumed.items()})
        plan = plan_difference(assumptions, people=people, goal=goal, differences=points, sizes=sizes, price=price)
    else:
        from tiltyard.decisions import plan_from_battles, plan_top
        from tiltyard.options import CompareOptions
        from tiltyard.verbs.places import open_battles

        data, opened = open_battles(battles, CompareOptions(notify=note, cluster=given.get("cluster")))
        given = {**given, "cluster": opened.cluster}
        if top is not None:
            strange = [f"--{name}" for name, value in (("difference", difference), ("prompts", prompts)) if value]
            if strange:
                raise OptionError(
                    f"{', '.join(strange)}: for two models. --top takes the differences that the board has now."
                )
            plan = plan_top(data, top, goal=goal, price=price, **given)
        else:
            assert new is not None
            assert old is not None
            plan = plan_from_battles(data, new, old, goal=goal, differences=points, sizes=sizes, price=price, **given)
    deliver(_text(plan, shape), out, exact=shape == "md")


def _score_plan(
    new: str | None,
    old: str | None,
    places: list[str] | None,
    given: dict[str, Any],
    goal: Goal,
    margin: str | None,
    differences: Sequence[str],
) -> ScorePlan | None:
    """A plan from two files of scores, or from two models of some; None where there are no scores."""
    if new is None or old is None or (places is None and not (Path(new).exists() and Path(old).exists())):
        return None
    files = places or [new, old]
    if not are_scores(files, given):
        return None
    from tiltyard.decisions.score_plan import plan_from_scores
    from tiltyard.decisions.scores import one_metric

    tables, options = read_score_files(files, given)
    if places is None:
        new, old = two_names(tables, new, old)
    cluster = None if options.cluster in (None, "prompt", "question_id", "none") else options.cluster
    table = one_metric(tables)
    plan = plan_from_scores(table, new, old, goal=goal, margin=margin, differences=differences, cluster=cluster)
    return replace(plan, notes=with_flags(plan.notes))


def _taken(given: dict[str, Any], struct: type) -> dict[str, Any]:
    """Those of the given options that belong to a struct, taken out of them."""
    return {name: given.pop(name) for name in options_of(struct) if name in given}


def _shape(asked: PlanFormat | None, out: Path | None) -> PlanFormat:
    if asked is not None or out is None or not out.suffix:
        return asked or "table"
    if out.suffix.lower() not in BY_SUFFIX:
        raise OptionError(f"--out {out.name}: a plan is written as {', '.join(BY_SUFFIX)}; or say which with --format.")
    return BY_SUFFIX[out.suffix.lower()]


def _text(plan: SamplePlan | BoardPlan, shape: PlanFormat) -> str:
    from tiltyard.decisions import SamplePlan
    from tiltyard.decisions.plan_words import board_markdown, plan_markdown

    if shape == "json":
        return plan.to_json()
    if shape == "table":
        return str(plan)
    return plan_markdown(plan) if isinstance(plan, SamplePlan) else board_markdown(plan)


def _check_together(
    new: str | None,
    old: str | None,
    battles: list[str] | None,
    top: int | None,
    *,
    assumed: Mapping[str, Any],
    given: Mapping[str, Any],
    judge: str | None,
) -> None:
    """Refuse options that would be ignored, and say what is missing."""
    if "people" in assumed and judge is not None:
        raise OptionError("--judge does not go with --people: no judge is asked. Leave one of them out.")
    if battles is None:
        if new is not None or top is not None:
            what = "--top" if new is None else f"{new!r}"
            raise OptionError(f"{what} needs battles: add --in FILE. Without battles, plan from assumptions alone.")
        if given:
            named = ", ".join(as_flag(OptionValue(name)) for name in given)
            raise OptionError(f"{named}: for battles, which --in FILE gives; there are none.")
        return
    if assumed:
        named = ", ".join(as_flag(OptionValue(name)) for name in assumed)
        raise OptionError(f"{named}: the battles of --in say that themselves. Leave it out, or leave out --in.")
    if top is not None and new is not None:
        raise OptionError("give two models, or --top K for the whole board, not both.")
    if top is None and (new is None or old is None):
        raise OptionError("which two? Name them, the new one first: `tiltyard plan NEW OLD --in FILE`; or use --top K.")


def _price(costs: Mapping[str, Any], prices: Path | None, inputs: list[Path]) -> CallPrice | None:
    """What a call costs: tokens as given, else as in the run folder, else assumed."""
    from tiltyard.boards.estimator import check_whole
    from tiltyard.decisions import CallPrice
    from tiltyard.judging.run_folder import utc_now
    from tiltyard.llm.prices import PriceTable, how_to_state_prices, is_old, user_price_file
    from tiltyard.llm.provider import Usage

    judge, stated = costs.get("judge"), {name: value for name, value in costs.items() if name != "judge"}
    for name, value in stated.items():
        check_whole(as_flag(OptionValue(name)), value, least=0)
    run_judge, measured = _measured(inputs)
    if run_judge is not None and not run_judge.startswith(("recorded/", "scripted/")):
        judge = judge or run_judge
    if judge is None:
        if stated or prices is not None:
            raise OptionError("--prices and --…-tokens are about the price of a judge: name it with --judge.")
        return None
    if stated or measured is None:
        prompt, answer, rubric, reply = (TOKENS | stated).values()
        usage = (float(prompt + 2 * answer + rubric), float(reply))
    else:
        usage = measured
    table = PriceTable.load(prices, user_file=user_price_file())
    million = Usage(input_tokens=round(1e6 * usage[0]), output_tokens=round(1e6 * usage[1]))
    direct, batch = (table.cost(judge, million, batched) for batched in (False, True))
    if direct is None or batch is None:
        note(how_to_state_prices([judge]))
        return CallPrice(judge, None, None, None, *usage, measured=usage is measured)
    as_of = table.date_of(judge)
    if as_of is not None and is_old(as_of, utc_now().date()):
        note(f"the price of {judge} is of {as_of}, more than a year old. Check it, and state today's with --prices.")
    return CallPrice(judge, direct / 1e6, batch / 1e6, as_of, *usage, measured=usage is measured)


def _measured(inputs: list[Path]) -> tuple[str | None, tuple[float, float] | None]:
    """The judge of a run folder, and the tokens that its calls sent and brought, on average; None where unknown."""
    for folder in inputs:
        path = folder / "usage.json"
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
