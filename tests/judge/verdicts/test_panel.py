"""Repeated questions and panels of judges: what is asked, what is kept, and how it becomes one judgment."""

from __future__ import annotations

import asyncio
import gc
import itertools
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec import UNSET

from tests.judge.verdicts.cases import PRICES, case, judging_plan, make_judge, prefers, shown, verdict
from tiltyard.errors import BudgetReached, OptionError, Refused
from tiltyard.judge.llm import AskingParts, AskingSettings, Price, PriceTable, Reply, Request
from tiltyard.judge.llm.asking import Budget
from tiltyard.judge.llm.provider import BatchState
from tiltyard.judge.llm.providers.scripted import ScriptedBatchProvider, ScriptedProvider
from tiltyard.judge.verdicts import (
    JudgingResult,
    Judgment,
    LanguageModelJudge,
    PanelJudge,
    RecordedJudge,
    VerdictLabel,
    judge,
    measure_bias,
    panel_members,
    panel_name,
    settle,
    study_panel,
    to_battle,
)
from tiltyard.judge.verdicts.verdicts import combine_judgments, most_votes, vote

Answer = Callable[[Request], Reply | str]
LABEL, TIE = VerdictLabel, VerdictLabel.TIE


def panel(folder: Path, *answers: Answer | ScriptedProvider, combine: Any = "majority", **changes: Any) -> PanelJudge:
    """A panel of scripted judges called judge-1, judge-2, …"""
    members = [make_judge(folder, one, model=f"judge-{number}", **changes) for number, one in enumerate(answers, 1)]
    asking = AskingParts(prices=PRICES)
    return PanelJudge(members, folder=folder, asking=asking, combine=combine)


def run(plan: Any, judge_: Any, **options: Any) -> JudgingResult:
    return asyncio.run(judge(plan, judge_, **options))


def winners(judged: JudgingResult, dimension: str = "clarity") -> list[str | None]:
    return [judgment.winner for judgment in judged.judgments[dimension]]


def unreadable(request: Request) -> str:
    return "I cannot say."


def says_in_turn(*words: str) -> Answer:
    """A judge that gives these verdicts one after the other, whatever it is asked."""
    turns = itertools.cycle(words)
    return lambda request: f"VERDICT: {next(turns)}"


class Waiting(ScriptedBatchProvider):
    """Takes batches that do not end."""

    async def state(self, batch_id: str) -> BatchState:
        await asyncio.Event().wait()
        raise AssertionError("nobody sets the event")


# Repeats


def test_the_verdict_given_most_often_in_an_order_counts() -> None:
    matchup = case().matchup
    orders = {
        ("AAB", "BBB"): ("otter", False, "ok"),  # swapped: B is otter's slot
        ("AAB", "AAA"): (None, True, "ok"),
        ("AB", "BB"): (None, True, "ok"),  # no label leads in the forward order
        ("AB", "AB"): (None, True, "ok"),  # nor in either
        ("TT", "TTA"): (None, False, "ok"),
        ("A-", "B-"): ("otter", False, "ok"),  # failed repeats do not count
        ("AA", "--"): (None, False, "failed"),
        ("AA", ""): (None, False, "failed"),
    }
    labels = {"A": LABEL.A, "B": LABEL.B, "T": TIE, "-": LABEL.UNPARSED}
    for (forward, swapped), expected in orders.items():
        said = [verdict(said=labels[word]) for word in forward]
        said += [verdict(said=labels[word], swapped=True) for word in swapped]
        judgment = settle(matchup, said)
        assert (judgment.winner, judgment.inconsistent, judgment.status) == expected, (forward, swapped)


def test_repeats_of_one_order_are_settled_by_that_order() -> None:
    said = [verdict(said=LABEL.A), verdict(said=LABEL.A), verdict(said=LABEL.B)]
    assert settle(case().matchup, said, both_orders=False).winner == "otter"
    assert settle(case().matchup, [said[0], said[2]], both_orders=False).inconsistent


def test_a_repeat_sends_the_same_bytes_under_a_key_of_its_own(tmp_path: Path) -> None:
    provider = ScriptedProvider(prefers("otter"))
    once = run(judging_plan(3), make_judge(tmp_path, provider))
    assert set(provider.asked.values()) == {1}
    thrice = run(judging_plan(3), make_judge(tmp_path, provider, repeats=3))
    assert set(provider.asked.values()) == {3}, "the first answers were paid for again, or other bytes were sent"
    assert thrice.stats["clarity"].cache_hits == 6
    assert thrice.stats["clarity"].fresh_calls == 12
    first, second = once.judgments["clarity"][0], thrice.judgments["clarity"][0]
    assert second.raw[:2] == first.raw
    assert [one.repeat for one in second.raw] == [UNSET, UNSET, 2, 2, 3, 3]
    assert [one.position_swap for one in second.raw] == [False, True] * 3
    assert len({one.cache_key for one in second.raw}) == 6
    again = run(judging_plan(3), make_judge(tmp_path, provider, repeats=3))
    assert again.stats["clarity"].fresh_calls == 0
    assert run(judging_plan(3), make_judge(tmp_path, provider)).judgments["clarity"][0] == first


def test_agreement_of_a_judge_with_itself_is_measured(tmp_path: Path) -> None:
    fickle = Counter[str]()

    def answer(request: Request) -> str:
        fickle[request.fingerprint] += 1
        first, _ = shown(request)
        other_mind = "p1" in first and fickle[request.fingerprint] == 2
        return "VERDICT: TIE" if other_mind else prefers("otter")(request)  # type: ignore[return-value]

    judged = run(judging_plan(4), make_judge(tmp_path, answer, repeats=3))
    found = measure_bias(judged.judgments["clarity"]).repeat_rate
    # 4 prompts × 2 orders × 3 pairs of repeats; on p1 two of the three pairs differ in each order.
    assert (found.n, found.value) == (24, 20 / 24)
    assert winners(judged) == ["otter"] * 4
    assert measure_bias(run(judging_plan(2), make_judge(tmp_path, answer)).judgments["clarity"]).repeat_rate.n == 0


def test_repeats_in_batches_are_collected_after_an_interrupt_and_paid_once(tmp_path: Path) -> None:
    provider = Waiting(prefers("otter"), folder=tmp_path / "sent")

    async def interrupted() -> None:
        task = asyncio.create_task(judge(judging_plan(3), make_judge(tmp_path / "cache", provider, repeats=2)))
        while not provider.asked:
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    (tmp_path / "sent").mkdir()
    asyncio.run(interrupted())
    later = ScriptedBatchProvider(prefers("otter"), folder=tmp_path / "sent")
    judged = run(judging_plan(3), make_judge(tmp_path / "cache", later, repeats=2))
    assert winners(judged) == ["otter"] * 3
    assert set(later.asked.values()) == {2}
    assert judged.stats["clarity"].missing == 0


# Panels


def test_most_judges_decide_and_every_vote_is_kept(tmp_path: Path) -> None:
    judged = run(judging_plan(2), panel(tmp_path, prefers("otter"), prefers("otter"), prefers("heron")))
    first = judged.judgments["clarity"][0]
    assert (first.winner, first.inconsistent, first.status) == ("otter", False, "ok")
    assert first.votes == {"scripted/judge-1": "otter", "scripted/judge-2": "otter", "scripted/judge-3": "heron"}
    assert [one.judge_model for one in first.raw] == [f"scripted/judge-{n}" for n in (1, 1, 2, 2, 3, 3)]
    assert [one.position_swap for one in first.raw] == [False, True] * 3
    battle = to_battle(first)
    assert battle is not None
    assert battle.judge_model == "panel(scripted/judge-1, scripted/judge-2, scripted/judge-3)"
    assert judged.stats["clarity"].questions == 12


@pytest.mark.parametrize(
    ("votes", "decided"),
    [("AAB", 0), ("AB", -1), ("ABT", -1), ("ATT", 2), ("-A-", 0), ("---", -1), ("ATI", 2), ("BIT", 2)],
)
def test_the_rule_of_majority(votes: str, decided: int) -> None:
    found = [_found(letter) for letter in votes]
    assert most_votes([vote(one) for one in found]) == decided
    combined = combine_judgments([f"j{n}" for n in range(len(votes))], found, decided)
    assert combined.winner == {0: "otter", 1: "heron"}.get(decided)
    assert combined.status == ("failed" if set(votes) == {"-"} else "ok")
    assert (to_battle(combined) is None) == (set(votes) == {"-"})


def _found(letter: str) -> Judgment:
    """A judge's own judgment: a winner, a tie, an inconsistency or a failure."""
    orders = {"A": "AB", "B": "BA", "T": "TT", "I": "AA", "-": "--"}[letter]
    labels = {"A": LABEL.A, "B": LABEL.B, "T": TIE, "-": LABEL.ERROR}
    return settle(case().matchup, [verdict(said=labels[word], swapped=bool(i)) for i, word in enumerate(orders)])


def test_without_a_winner_it_is_a_tie_only_if_the_judges_say_tie() -> None:
    names = ["a", "b", "c"]
    assert not combine_judgments(names, [_found(one) for one in "TTA"], 2).inconsistent
    assert combine_judgments(names, [_found(one) for one in "IIA"], 2).inconsistent
    assert combine_judgments(names, [_found(one) for one in "AB-"], -1).inconsistent


def test_a_judge_that_fails_has_no_vote_and_the_others_decide(tmp_path: Path) -> None:
    def half(request: Request) -> str:
        return unreadable(request) if "p1" in shown(request)[0] else "VERDICT: TIE"

    judged = run(judging_plan(2), panel(tmp_path, prefers("otter"), prefers("otter"), half))
    assert winners(judged) == ["otter", "otter"]
    assert judged.stats["clarity"].failures == {"unparsed": 2}
    study = study_panel(judging_plan(2), judged)["clarity"]
    assert (study.incomplete, study.failed, study.matchups) == (1, 0, 2)
    assert [row.failed for row in study.judges] == [0, 0, 1]


def test_a_member_can_be_added_to_a_finished_run_and_removed_without_paying_again(tmp_path: Path) -> None:
    providers = [ScriptedProvider(prefers(name)) for name in ("otter", "heron", "otter")]
    alone = run(judging_plan(3), make_judge(tmp_path, providers[0], model="judge-1"))
    assert winners(alone) == ["otter"] * 3
    two = run(judging_plan(3), panel(tmp_path, *providers[:2]))
    assert (winners(two), two.stats["clarity"].fresh_calls) == ([None] * 3, 6)
    three = run(judging_plan(3), panel(tmp_path, *providers))
    assert (winners(three), three.stats["clarity"].fresh_calls) == (["otter"] * 3, 6)
    again = run(judging_plan(3), panel(tmp_path, *providers[:2]))
    assert (winners(again), again.stats["clarity"].fresh_calls) == (winners(two), 0)
    assert all(set(provider.asked.values()) == {1} for provider in providers)


def test_rows_gives_every_judges_own_judgment(tmp_path: Path) -> None:
    judges = (prefers("otter"), prefers("heron"), unreadable)
    judged = run(judging_plan(2), panel(tmp_path, *judges, combine="rows"))
    rows = judged.judgments["clarity"]
    assert winners(judged) == ["otter", "heron", None] * 2
    assert [row.status for row in rows] == ["ok", "ok", "failed"] * 2
    assert [row.prompt_id for row in rows] == ["p1"] * 3 + ["p2"] * 3
    assert all(len(row.raw) == 2 for row in rows)
    assert [battle.judge_model for row in rows if (battle := to_battle(row))] == [
        "scripted/judge-1",
        "scripted/judge-2",
    ] * 2


def test_weight_lets_the_reliable_judges_decide_against_a_majority_of_guessers(tmp_path: Path) -> None:
    def guess(salt: str) -> Answer:
        """Names a winner by chance, the same one in both orders."""

        def answer(request: Request) -> str:
            first, second = shown(request)
            lucky = max(first, second, key=lambda text: hash_of(salt + text))
            return f"VERDICT: {'A' if lucky == first else 'B'}"

        return answer

    def hash_of(text: str) -> str:
        import hashlib

        return hashlib.sha256(text.encode()).hexdigest()

    judges = (prefers("otter"), prefers("otter"), guess("x"), guess("y"), guess("z"))
    plan = judging_plan(60)
    by_majority = winners(run(plan, panel(tmp_path, *judges)))
    by_weight = winners(run(plan, panel(tmp_path, *judges, combine="weight")))
    assert by_weight == ["otter"] * 60
    assert by_majority.count("otter") < 58


def test_two_judges_have_equal_weight(tmp_path: Path) -> None:
    judged = run(judging_plan(2), panel(tmp_path, prefers("otter"), prefers("heron"), combine="weight"))
    assert winners(judged) == [None, None]
    assert judged.panel is not None
    assert judged.panel.reliability("clarity") is None


def test_judges_that_name_no_winner_have_no_share_of_right_ones(tmp_path: Path) -> None:
    """Three judges of whom one always says tie are two, who cannot be told apart."""
    plan = judging_plan(6)
    judges = [prefers("otter"), prefers("heron"), says_in_turn("TIE"), prefers("otter")]
    for count, rated in ((3, []), (4, [0, 1, 3])):
        judged = run(plan, panel(tmp_path, *judges[:count], combine="weight"))
        rows = study_panel(plan, judged)["clarity"].judges
        assert [place for place, row in enumerate(rows) if row.accuracy is not None] == rated
        assert [place for place, row in enumerate(rows) if row.weight is not None] == rated


def test_one_budget_is_for_all_judges(tmp_path: Path) -> None:
    prices = PriceTable(
        {f"judge-{n}": Price(input=1.0, output=10.0, cache_write_1h=2.0, cache_read=0.1) for n in (1, 2)}, "2026-01-01"
    )
    budget = Budget(0.0125)
    settings = AskingSettings(concurrency=2, budget_usd=0.0125)
    asking = AskingParts(prices=prices, settings=settings, budget=budget)

    def members() -> list[LanguageModelJudge]:
        return [
            LanguageModelJudge(
                ScriptedProvider(prefers("otter")),
                make_judge(tmp_path, prefers("otter"), model=f"judge-{n}")._settings,
                folder=tmp_path,
                asking=asking,
            )
            for n in (1, 2)
        ]

    with pytest.raises(BudgetReached):
        run(judging_plan(40), PanelJudge(members(), folder=tmp_path, asking=asking))
    assert 0 < budget.spent <= 0.0125
    rest = AskingParts(prices=prices, settings=AskingSettings(concurrency=2))
    done = run(judging_plan(40), panel_of(tmp_path, rest))
    assert winners(done) == ["otter"] * 40
    assert 0 < done.stats["clarity"].cache_hits < 160


def panel_of(folder: Path, asking: AskingParts) -> PanelJudge:
    members = [make_judge(folder, prefers("otter"), model=f"judge-{n}") for n in (1, 2)]
    return PanelJudge(members, folder=folder, asking=asking)


def test_if_one_judge_is_refused_the_others_are_asked_to_the_end(tmp_path: Path) -> None:
    def locked(request: Request) -> str:
        raise Refused("The key is wrong.")

    good = ScriptedProvider(prefers("otter"))
    with pytest.raises(Refused, match="key is wrong"):
        run(judging_plan(5), panel(tmp_path, locked, good))
    assert sum(good.asked.values()) == 10
    mended = run(judging_plan(5), panel(tmp_path, prefers("otter"), good))
    assert (winners(mended), mended.stats["clarity"].cache_hits) == (["otter"] * 5, 10)


def test_if_two_judges_stop_the_first_error_is_raised_and_none_is_lost(tmp_path: Path) -> None:
    def refuse(request: Request) -> str:
        raise Refused(f"The key of {request.model} is wrong.")

    lost: list[dict[str, Any]] = []

    async def judged() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: lost.append(context))
        await judge(judging_plan(4), panel(tmp_path, refuse, refuse, lambda _: "VERDICT: TIE"))

    with pytest.raises(Refused, match="key of judge-1 is wrong"):
        asyncio.run(judged())
    gc.collect()
    assert lost == []


def test_batches_of_two_judges_in_one_folder_survive_an_interrupt(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("one", "two")]
    for folder in folders:
        folder.mkdir()

    async def interrupted() -> None:
        providers = [Waiting(prefers("otter"), folder=folder) for folder in folders]
        task = asyncio.create_task(judge(judging_plan(4), panel(tmp_path / "cache", *providers)))
        while not all(provider.asked for provider in providers):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(interrupted())
    later = [ScriptedBatchProvider(prefers("otter"), folder=folder) for folder in folders]
    judged = run(judging_plan(4), panel(tmp_path / "cache", *later))
    assert winners(judged) == ["otter"] * 4
    assert all(set(provider.asked.values()) == {1} for provider in later)
    assert len(list(folders[0].iterdir())) == len(list(folders[1].iterdir())) == 1


def test_a_dimension_is_announced_when_every_judge_has_settled_it(tmp_path: Path) -> None:
    plan = judging_plan(2, ("clarity", "depth"))
    told: list[tuple[str, list[str | None]]] = []

    def tell(dimension: str, judgments: Any) -> None:
        told.append((dimension, [judgment.winner for judgment in judgments]))

    judges = (prefers("otter"), prefers("heron"), prefers("otter"))
    run(plan, panel(tmp_path / "first", *judges, combine="weight"), on_settled=tell)
    assert told == [("clarity", ["otter", "otter"])]
    run(plan, panel(tmp_path / "first", *judges), on_settled=tell)
    assert len(told) == 1, "nothing is left to wait for"


def test_a_second_plan_may_follow_the_first(tmp_path: Path) -> None:
    both = panel(tmp_path, prefers("otter"), prefers("otter"), prefers("heron"))
    assert len(winners(run(judging_plan(1), both))) == 1
    more = run(judging_plan(4), both)
    assert (winners(more), more.stats["clarity"].cache_hits) == (["otter"] * 4, 6)


def test_a_panel_may_hold_recorded_judges_of_one_order(tmp_path: Path) -> None:
    rows = "prompt_id,entrant_a,entrant_b,verdict\np1,otter,heron,A\np2,otter,heron,B\n"
    (tmp_path / "said.csv").write_text(rows)
    members = [RecordedJudge(tmp_path / "said.csv"), make_judge(tmp_path, prefers("otter"))]
    both = PanelJudge(members, folder=tmp_path, asking=AskingParts(prices=PRICES))
    assert not both.both_orders
    assert winners(run(judging_plan(2), both, single_order=True)) == ["otter", None]


def test_a_panel_that_cannot_be_one_is_refused(tmp_path: Path) -> None:
    one = make_judge(tmp_path, prefers("otter"))
    asking = AskingParts(prices=PRICES)
    with pytest.raises(OptionError, match="in the panel twice"):
        PanelJudge([one, one], folder=tmp_path, asking=asking)
    with pytest.raises(OptionError, match="two judges or more"):
        PanelJudge([one], folder=tmp_path, asking=asking)


def test_the_name_of_a_panel_names_its_members() -> None:
    names = ("anthropic/claude-x", "scripted/a b.yaml")
    assert panel_members(panel_name(names)) == names
    assert panel_members("anthropic/claude-x") == ()


def test_the_study_says_who_agrees_and_who_dissents_on_what(tmp_path: Path) -> None:
    def contrary(request: Request) -> Reply | str:
        return prefers("heron")(request) if "p1" in shown(request)[0] else prefers("otter")(request)

    plan = judging_plan(6)
    judged = run(plan, panel(tmp_path, prefers("otter"), prefers("otter"), contrary))
    study = study_panel(plan, judged)["clarity"]
    assert (study.unanimous, study.opposed, study.no_majority) == (5, 1, 0)
    assert [row.opposed for row in study.judges] == [0, 0, 1]
    assert [(pair.first[-1], pair.second[-1], pair.agreement.value) for pair in study.pairs] == [
        ("1", "2", 1.0),
        ("1", "3", 5 / 6),
        ("2", "3", 5 / 6),
    ]
    # Judges 1 and 3 agree in 5/6, by chance in 1/2, though otter is always listed first.
    assert study.pairs[1].kappa.value == pytest.approx((5 / 6 - 1 / 2) / (1 - 1 / 2))
    assert study.pairs[1].kappa.n == 6
    assert [(one.prompt_id, one.votes["scripted/judge-3"]) for one in study.dissent] == [("p1", "heron")]
    assert study.prompts == {"p1": 1}
    assert (study.judges[2].leans_to, study.judges[2].lean.value) in (
        ("heron", pytest.approx(1 / 6)),
        ("otter", pytest.approx(-1 / 6)),
    )
    text = "\n".join(study.lines())
    assert "5 of 6 matchups unanimous, 1 with opposed winners" in text
    assert "most dissent: p1 (1)" in text
