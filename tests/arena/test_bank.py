"""Which answers and prompts of the bank are served: self-naming answers, exposure, rotation."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from tests.arena.matchmaking_arenas import Yard, assert_probabilities_are_frequencies
from tiltyard.arena import (
    OFTEN,
    Arena,
    BankRules,
    Policy,
    bank_exposure,
    carry_out,
    copy_of,
    hide_self_naming,
    plan_rotation,
    prepare_import,
    public_prompts,
    screen,
)
from tiltyard.arena import events as e
from tiltyard.arena.audit.verify import verify
from tiltyard.arena.rules.blindness import hidden_for
from tiltyard.arena.rules.policy import LaneWeights
from tiltyard.arena.store import Store
from tiltyard.arena.study.rotation import LEARNED, STEPS, Rotation, votes_to_learn
from tiltyard.errors import ArenaError, OptionError

TELLS = "I am Heron, a language model."


def files(folder: Path, **texts: str) -> Path:
    """Answers of models to the prompts p0 … p3; the text of p0 is given."""
    folder.mkdir(exist_ok=True)
    (folder / "bank.jsonl").write_text("".join(f'{{"prompt_id": "p{n}", "text": "{n}?"}}\n' for n in range(4)))
    for model, text in texts.items():
        rows = [(f"p{n}", text if n == 0 else f"Answer {n}") for n in range(4)]
        lines = [json.dumps({"entrant_id": model, "prompt_id": p, "response_text": said}) for p, said in rows]
        (folder / f"responses_{model}.jsonl").write_text("\n".join(lines) + "\n")
    return folder


def fill(arena: Arena, folder: Path) -> list[str]:
    plan = prepare_import(arena, bank=folder / "bank.jsonl", responses=folder)
    carry_out(arena, plan)
    plan.close()
    return plan.lines()


def served(arena: Arena, n: int = 40) -> set[str]:
    """The answers shown in so many matchups."""
    names = arena.read(lambda state: dict(state.catalog.response_ids))
    shown = set()
    for number in range(n):
        voter = arena.voter(f"{number:064x}")
        matchup = arena.serve(voter)
        shown |= {matchup.response_a, matchup.response_b}
    assert names
    return shown


def test_an_answer_that_names_its_model_is_stored_flagged_told_and_never_served(
    tmp_path: Path, sqlite_url: str
) -> None:
    with Arena(Store.open(sqlite_url)) as arena:
        said = fill(arena, files(tmp_path / "a", otter="Written by Otter.", heron="A river.", eagle="A hill."))
        assert said[1].startswith("held 1 of 12 answers (8.3 %): they contain their author's name")
        assert "otter" in said[2]
        assert "“Written by Otter.”" in said[2]
        assert "Written by Otter." not in served(arena)
        assert arena.read(lambda state: len(state.catalog.withheld())) == 1
        assert arena.read(lambda state: len(state.catalog.response_ids)) == 12, "nothing is lost"
        arena.append([e.SettingsChanged(policy=Policy(bank=BankRules(hide_self_naming=False)))])
        assert "Written by Otter." in served(arena, 80)
    assert verify(sqlite_url).clean


def test_an_older_answer_with_a_name_that_its_model_gets_later_is_held_until_it_is_released(
    tmp_path: Path, sqlite_url: str
) -> None:
    with Arena(Store.open(sqlite_url)) as arena:
        fill(arena, files(tmp_path / "a", otter=TELLS, eagle="A hill."))
        assert hide_self_naming(arena) == []
        assert TELLS in served(arena)
        arena.append([e.ModelAdded(model="otter", display_name="otter", aliases=("Heron",))])
        share, one = hide_self_naming(arena)
        assert share.startswith("held 1 of 8 answers (12.5 %)")
        (name,) = arena.read(lambda state: set(state.catalog.telling))
        assert one == f"  otter, answer {name}: “{TELLS}”"
        assert TELLS not in served(arena)
        assert hide_self_naming(arena) == []
        arena.append([e.ResponseEnabled(response_id=name)])
        assert hide_self_naming(arena) == [], "a false alarm that was cleared stays cleared"
        assert TELLS in served(arena, 80)
        found = arena.read(lambda state: screen(arena.store, state))
        assert (found.released, found.lines, found.events) == ({name}, [], [])
        arena.append([e.ResponseDisabled(response_id=name)])
        assert TELLS not in served(arena)
        with pytest.raises(ArenaError, match="no current answer 'nothing'"):
            arena.append([e.ResponseDisabled(response_id="nothing")])
    assert verify(sqlite_url).clean


def test_a_state_that_is_saved_keeps_what_is_not_served_and_how_often_answers_were_shown() -> None:
    yard = Yard(3, 12, policy=Policy(bank=BankRules(seen_at_most=3)))
    yard.tell(e.Flagged(subject="response", subject_id="m0-p1", flag=e.SELF_NAMING))
    yard.tell(e.ResponseDisabled(response_id="m1-p2"))
    for _ in range(3):
        yard.serve(0, 1, 4)
    copy = copy_of(yard.state, ()).catalog
    kept = yard.state.catalog
    assert copy.withheld() == kept.withheld() == [(0, 1), (1, 2)]
    assert copy.shown.view[:, 4].tolist() == [3, 3, 0]
    assert copy.resting == kept.resting
    assert kept.resting[4]
    assert (copy.servable() == kept.servable()).all()


def test_an_answer_shown_as_often_as_allowed_lets_its_prompt_rest_but_ten_prompts_stay() -> None:
    yard = Yard(3, 12, policy=Policy(bank=BankRules(seen_at_most=2)))
    for prompt in range(12):
        yard.serve(0, 1, prompt)
        yard.serve(2, 1, prompt)
    assert sum(yard.state.catalog.resting) == 2
    assert {matchup.prompt for matchup in yard.many(60)} <= set(range(12)) - {0, 1}
    yard.tell(e.SettingsChanged(policy=Policy()))
    assert not any(yard.state.catalog.resting), "without a limit all are served again"


def test_a_prompt_kept_for_later_is_neither_served_nor_public_until_it_is_retired() -> None:
    yard = Yard(2, 3)
    yard.tell(e.PromptReserved(prompt_id="p0"), e.PromptDisabled(prompt_id="p1"))
    yard.state.latest = yard.state.at + hidden_for(yard.state.policy)
    assert public_prompts(yard.state) == {1}
    assert {matchup.prompt for matchup in yard.many(20)} == {2}
    assert copy_of(yard.state, ()).catalog.prompt_reserved == [True, False, False]
    yard.tell(e.PromptDisabled(prompt_id="p0"))
    yard.state.latest = yard.state.at + hidden_for(yard.state.policy)
    assert public_prompts(yard.state) == {0, 1}


def test_a_new_answer_was_never_shown() -> None:
    yard = Yard(2, 12, policy=Policy(bank=BankRules(seen_at_most=1)))
    yard.serve(0, 1, 3)
    assert sum(yard.state.catalog.resting) == 1
    for model in (0, 1):
        body = e.ResponseAdded(response_id=f"new {model}", model=f"m{model}", prompt_id="p3", text="!")
        yard.tell(body)
    assert not yard.state.catalog.resting[3]
    assert not yard.state.catalog.was_shown(3)


def test_a_policy_from_before_these_rules_loads_with_their_defaults() -> None:
    old = {name: value for name, value in msgspec.to_builtins(Policy()).items() if name != "bank"}
    assert msgspec.convert(old, Policy).bank == BankRules()


def test_a_share_of_matchups_goes_to_fresh_prompts_and_probabilities_stay_frequencies() -> None:
    policy = Policy(
        bank=BankRules(fresh_share=0.5, fresh_until=3),
        lanes=LaneWeights(coverage=0, contender=0, uncertainty=1, exploration=0),
    )
    yard = Yard(4, 3, policy=policy)
    yard.everybody_meets(2)
    assert yard.state.catalog.fresh(3) is None, "without a rotation nothing is fresh"
    yard.tell(e.PromptAdded(prompt_id="p3", text="?"))
    for model in range(4):
        yard.answer(model, 3)
    for model in range(4):  # as covered as the others, so that only the share leads there
        for _ in range(2):
            yard.state.tallies.count(model, (model + 1) % 4, 3, e.Choice.A)
    matchups = yard.many(400)
    fresh = sum(matchup.prompt == 3 for matchup in matchups) / len(matchups)
    assert fresh > 0.4
    assert_probabilities_are_frequencies(matchups)
    for pair in ((0, 1), (2, 3), (0, 2), (1, 3), (0, 3), (1, 2)):
        yard.play(*pair, 3)
    assert yard.state.catalog.fresh(3) is None, "each of its answers was shown three times"


def test_rotating_retires_the_most_shown_prompts_and_serves_those_kept_for_later() -> None:
    yard = Yard(3, 14, policy=Policy(bank=BankRules(least_prompts=6)))
    yard.tell(*(e.PromptReserved(prompt_id=f"p{n}") for n in (11, 12, 13)))
    for prompt in range(11):
        for _ in range(prompt):
            yard.serve(0, 1, prompt)
    plan = plan_rotation(yard.state, fresh_share=0.2)
    assert plan == Rotation(("p10", "p9", "p8"), ("p11", "p12", "p13"), 11)
    assert plan_rotation(yard.state, keep=12, fresh_share=0.1) == Rotation(("p10", "p9"), ("p11", "p12", "p13"), 12)
    assert plan_rotation(yard.state, fresh_share=0.0) == Rotation((), (), 11)
    limited = plan_rotation(yard.state, fresh_share=0.0, seen_at_most=3)
    assert limited.retire == ("p10", "p9", "p8", "p7", "p6", "p5", "p4", "p3"), "8 over the limit, 3 fresh: 6 stay"
    assert limited.on == 6
    with pytest.raises(OptionError, match="keeps at least 6"):
        plan_rotation(yard.state, keep=3)


def test_votes_to_learn_a_models_answers_agree_with_the_simulated_figures() -> None:
    """Simulated with lanes at 38 models: 240/470/750 votes at 15 prompts, 1,520/3,560/5,120 at 100."""
    for prompts, simulated in ((15, (240, 470, 750)), (100, (1520, 3560, 5120))):
        for share, votes in zip(LEARNED, simulated, strict=True):
            assert 0.8 * votes <= votes_to_learn(share, prompts, 2 / 38) <= 1.05 * votes
    assert votes_to_learn(0.5, 0, 0.1) == votes_to_learn(0.5, 10, 0.0) == 0
    assert votes_to_learn(0.9, 1, 1.0) == 1


def test_how_much_of_the_bank_is_exposed_is_counted() -> None:
    yard = Yard(3, 5)
    yard.tell(e.PromptReserved(prompt_id="p4"), e.PromptDisabled(prompt_id="p3"))
    for _ in range(OFTEN + 1):
        yard.play(0, 1, 0)
    before = bank_exposure(yard.state)
    yard.serve(0, 2, 1)
    found = bank_exposure(yard.state)
    assert (found.prompts_on, found.prompts_reserved, found.prompts_retired) == (3, 1, 1)
    assert (found.answers, found.answers_never_named, found.answers_often_named, found.most_named) == (9, 7, 2, 101)
    assert dict(found.named_groups) == {step: {0: 7, 100: 2}.get(step, 0) for step in STEPS}
    assert found == before, "an open matchup changes nothing"
    assert found.exposed == pytest.approx(2 / 9)


def test_the_shares_of_the_lanes_add_to_one_and_none_is_negative() -> None:
    for coverage, exploration in ((0.9, 0.1), (1.2, -0.2)):
        with pytest.raises(OptionError, match="the shares of lanes are"):
            Policy(lanes=LaneWeights(coverage=coverage, contender=0, uncertainty=0.1, exploration=exploration))


def test_a_bank_keeps_two_prompts_at_least() -> None:
    assert Policy(bank=BankRules(least_prompts=2)).bank.least_prompts == 2
    with pytest.raises(OptionError, match=r"bank\.least_prompts is 1; it must lie between 2 and"):
        Policy(bank=BankRules(least_prompts=1))
