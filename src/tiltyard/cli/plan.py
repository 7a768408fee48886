"""`tiltyard plan`: how many prompts, verdicts or votes it takes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from tiltyard.cli.asking import PricesOption
from tiltyard.cli.compare import read_places
from tiltyard.cli.options import rare, with_options
from tiltyard.cli.output import as_flag, deliver, note
from tiltyard.errors import OptionError, OptionValue, TiltyardError
from tiltyard.options import BattleOptions, FitOptions

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tiltyard.decisions import BoardPlan, CallPrice, SamplePlan

PlanFormat = Literal["table", "json", "md"]

BY_SUFFIX: dict[str, PlanFormat] = {".json": "json", ".md": "md", ".txt": "table"}

PROMPT_TOKENS, ANSWER_TOKENS, RUBRIC_TOKENS, REPLY_TOKENS = 150, 400, 500, 250


@with_options(BattleOptions, FitOptions, daily=["dimension", "format"])
def plan_command(
    new: Annotated[str | None, typer.Argument(metavar="NEW", help="The new model, in battles given by --in.")] = None,
    old: Annotated[str | None, typer.Argument(metavar="OLD", help="The model it is compared with.")] = None,
    battles: Annotated[
        list[str] | None,
        typer.Option(
            "--in",
            help="Existing battles: files, a run folder, or an arena's database URL. May be repeated.",
        ),
    ] = None,
    top: Annotated[
        int | None,
        typer.Option("--top", help="How many more battles it takes to separate this many models at the top."),
    ] = None,
    difference: Annotated[
        list[float] | None,
        typer.Option(
            "--difference",
            help="A true difference in rating points; repeat for several. (default: 5, 10, 20, 50; 0 with --margin)",
        ),
    ] = None,
    margin: Annotated[
        float | None,
        typer.Option(
            help="Plan for a gate: the new model is to pass as not worse by more than this many points.",
        ),
    ] = None,
    power: Annotated[
        float, typer.Option(help="The chance of the wanted verdict, if the difference is as assumed.")
    ] = 0.8,
    alpha: Annotated[
        float, typer.Option(help="The error rate: how often equal models may be called different.")
    ] = 0.05,
    one_sided: Annotated[
        bool,
        rare("--one-sided", help="Look for `better` only. (--margin is one-sided anyway)"),
    ] = False,
    anytime: Annotated[
        bool,
        rare("--anytime", help="Plan for intervals that hold however often you look; more data."),
    ] = False,
    prompts: Annotated[
        list[int] | None,
        rare(
            "--prompts",
            help="Also say which difference this many prompts (or voters) show; repeat for several.",
        ),
    ] = None,
    tie_rate: Annotated[
        float | None,
        rare("--tie-rate", help="Share of battles that equal models tie. (default: 0.15)"),
    ] = None,
    flip_rate: Annotated[
        float | None,
        rare(
            "--flip-rate",
            help="Share of verdicts that change with the order of the answers, and become ties. "
            "(default: 0.15; people: none)",
        ),
    ] = None,
    spread: Annotated[
        float | None,
        rare(
            help="How much a model's strength varies from prompt to prompt: standard deviation in logits. (default: 1)",
        ),
    ] = None,
    repeats: Annotated[
        int | None,
        rare(
            help="Verdicts of each pair on each prompt, or votes of each voter on it. (default: 1)",
        ),
    ] = None,
    models: Annotated[
        int | None,
        rare(help="Models that all meet each other on every prompt. (default: 2)"),
    ] = None,
    people: Annotated[bool, typer.Option("--people", help="People vote; no judge is asked.")] = False,
    *,
    given: dict[str, Any],
    judge: Annotated[
        str | None,
        typer.Option(help="The judge, for its price. (default: that of the run folder)"),
    ] = None,
    prices: PricesOption = None,
    prompt_tokens: Annotated[
        int | None,
        rare(min=0, help=f"Tokens of a prompt. (default: {PROMPT_TOKENS})"),
    ] = None,
    answer_tokens: Annotated[
        int | None,
        rare(min=0, help=f"Tokens of one answer; a call has two. (default: {ANSWER_TOKENS})"),
    ] = None,
    rubric_tokens: Annotated[
        int | None,
        rare(min=0, help=f"Tokens of the rubric. (default: {RUBRIC_TOKENS})"),
    ] = None,
    reply_tokens: Annotated[
        int | None,
        rare(
            min=0,
            help=f"Tokens of the judge's reply. (default: {REPLY_TOKENS}; a run folder knows all four)",
        ),
    ] = None,
    format: Annotated[
        PlanFormat | None,
        typer.Option(help="How to write it. (default: table, or what --out ends in)"),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Write it here instead of printing it.")] = None,
) -> None:
    """How many prompts, verdicts or votes it takes to tell models apart.

    Without battles: `tiltyard plan`. From a pilot: `tiltyard plan v2 v1 --in battles.jsonl`. For a whole board:
    `tiltyard plan --top 3 --in battles.jsonl`.
    """
    from tiltyard.decisions import Goal

    shape = _shape(format, out)
    goal = Goal(power=power, alpha=alpha, one_sided=one_sided, margin=margin, anytime=anytime)
    assumed = {"ties": tie_rate, "flips": flip_rate, "spread": spread, "repeats": repeats, "models": models}
    _check_together(new, old, battles, top, people=people, judge=judge, assumed=assumed, given=given)
    sizes = {"prompt": prompt_tokens, "answer": answer_tokens, "rubric": rubric_tokens, "reply": reply_tokens}
    price = _price(judge, prices, sizes, [Path(name) for name in battles or ()])
    plan: SamplePlan | BoardPlan
    if battles is None:
        plan = _from_nothing(
            assumed, goal=goal, differences=difference, people=people, sizes=prompts or (), price=price
        )
    else:
        from tiltyard.decisions import plan_from_battles, plan_top

        data, more = read_places(tuple(battles))
        more.pop("texts", None)
        given = {**more, **given}
        if top is not None:
            _only_for_two(difference, prompts)
            plan = plan_top(data, top, goal=goal, price=price, **given)
        else:
            assert new is not None
            assert old is not None
            plan = plan_from_battles(
                data, new, old, goal=goal, differences=difference, sizes=prompts or (), price=price, **given
            )
    deliver(_text(plan, shape), out, exact=shape in ("csv", "md"))


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


def _from_nothing(assumed: Mapping[str, Any], *, people: bool, **options: Any) -> SamplePlan:
    from tiltyard.decisions import Assumptions, plan_difference

    given = {name: value for name, value in assumed.items() if value is not None}
    if people:
        given.setdefault("flips", 0.0)
    return plan_difference(Assumptions(**given), people=people, **options)


def _check_together(
    new: str | None,
    old: str | None,
    battles: list[str] | None,
    top: int | None,
    *,
    people: bool,
    judge: str | None,
    assumed: Mapping[str, Any],
    given: Mapping[str, Any],
) -> None:
    """Refuse options that would be ignored, and say what is missing."""
    if people and judge is not None:
        raise OptionError("--judge does not go with --people: no judge is asked. Leave one of them out.")
    if battles is None:
        if new is not None or top is not None:
            what = "--top" if new is None else f"{new!r}"
            raise OptionError(f"{what} needs battles: add --in FILE. Without battles, plan from assumptions alone.")
        if given:
            named = ", ".join(as_flag(OptionValue(name)) for name in given)
            raise OptionError(f"{named}: for battles, which --in FILE gives; there are none.")
        return
    names = {"ties": "tie_rate", "flips": "flip_rate"}
    strange = [names.get(name, name) for name, value in assumed.items() if value is not None]
    strange += ["people"] if people else []
    if strange:
        named = ", ".join(as_flag(OptionValue(name)) for name in strange)
        raise OptionError(f"{named}: the battles of --in say that themselves. Leave it out, or leave out --in.")
    if top is not None and new is not None:
        raise OptionError("give two models, or --top K for the whole board, not both.")
    if top is None and (new is None or old is None):
        raise OptionError("which two? Name them, the new one first: `tiltyard plan NEW OLD --in FILE`; or use --top K.")


def _only_for_two(difference: list[float] | None, prompts: list[int] | None) -> None:
    strange = [f"--{name}" for name, value in (("difference", difference), ("prompts", prompts)) if value]
    if strange:
        raise OptionError(f"{', '.join(strange)}: for two models. --top takes the differences that the board has now.")


def _price(
    judge: str | None, prices: Path | None, sizes: Mapping[str, int | None], inputs: list[Path]
) -> CallPrice | None:
    """What a call costs: tokens as given, else as in the run folder, else assumed."""
    from tiltyard.decisions import CallPrice
    from tiltyard.judging.run_folder import utc_now
    from tiltyard.llm.prices import PriceTable, how_to_state_prices, is_old, user_price_file
    from tiltyard.llm.provider import Usage

    run_judge, measured = _measured(inputs)
    if run_judge is not None and not run_judge.startswith(("recorded/", "scripted/")):
        judge = judge or run_judge
    stated = {name: value for name, value in sizes.items() if value is not None}
    if judge is None:
        if stated or prices is not None:
            raise OptionError("--prices and --…-tokens are about the price of a judge: name it with --judge.")
        return None
    if stated or measured is None:
        defaults = {"prompt": PROMPT_TOKENS, "answer": ANSWER_TOKENS, "rubric": RUBRIC_TOKENS, "reply": REPLY_TOKENS}
        size = {**defaults, **stated}
        usage = (float(size["prompt"] + 2 * size["answer"] + size["rubric"]), float(size["reply"]))
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
