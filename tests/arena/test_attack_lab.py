"""The attack lab: what attacks cost on the real engine, with the defences on and off."""

from __future__ import annotations

import json

import pytest

from tests.cli.conftest import Run, tiltyard  # noqa: F401 - the fixture is used by name
from tests.records import replace
from tests.sizes import size
from tiltyard.arena import WaitingRules
from tiltyard.arena.matchmaking import waiting
from tiltyard.arena.simulation import LabSettings
from tiltyard.arena.simulation.attack_lab import LAB_ATTACKS, LabAttack, attack_lab
from tiltyard.arena.simulation.learning import _Learning
from tiltyard.arena.simulation.ledger import MemoryArena, opening
from tiltyard.errors import OptionError

SMALL = LabSettings(models=10, prompts=6, votes=240, attack_votes=60, blocks=5, seed=3)
COMMAND = ("simulate", "--models", "10", "--prompts", "6", "--votes", "120", "--attack-votes", "12", "--blocks", "3")


def test_the_defences_leave_a_hunter_few_pairs_with_the_target_and_few_points() -> None:
    off, on = (attack_lab(SMALL, defended=side) for side in (False, True))
    assert (off.attack_votes, on.attack_votes) == (60, 60)
    assert off.on_target == 60, "whoever may skip everything else casts every vote for the target"
    assert on.on_target < 30
    more, less = (attack_lab(replace(SMALL, seed=5), defended=side) for side in (False, True))
    assert off.points + more.points > 2.0 * max(on.points + less.points, 1.0), "of both arenas: one alone is luck"
    assert (off.honest_weight_lost, off.honest_voters_halved) == (0.0, 0.0)
    assert 0.0 < on.honest_weight_lost < 0.06
    first = off.votes_for_places[1]
    assert first is not None
    assert on.votes_for_places[1] is None or on.votes_for_places[1] > first
    assert len(on.blocks_to_swap) == SMALL.models - 1
    assert min(on.blocks_to_swap) >= 1


@pytest.mark.parametrize("attack", [name for name in LAB_ATTACKS if name not in ("hunter", "carrier")])
def test_every_attack_casts_its_votes_and_passes_over_only_what_it_says(attack: LabAttack) -> None:
    settings = replace(SMALL, attack=attack, votes=100, attack_votes=12)
    result = attack_lab(settings, defended=True)
    if attack == "dictionary":
        assert result == attack_lab(settings, defended=True), "same settings, same result"
    assert result.attack_votes == 12
    if attack in ("crowd-like", "dictionary", "random"):
        assert result.passed == 0
    else:
        assert result.passed > 0
    assert (result.on_target > 0) == (attack != "random")


def test_a_rival_that_is_voted_down_loses_points_and_fewer_with_the_defences() -> None:
    settings = replace(SMALL, attack="rival", votes=150, attack_votes=40)
    off, on = (attack_lab(settings, defended=side) for side in (False, True))
    assert off.points > 60.0
    assert off.votes_for_places[1] is not None
    assert on.points < 0.6 * off.points


def test_a_pair_that_is_carried_to_other_blocks_helps_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """If it began to wait where it is brought, every vote would hit the target, by whomever it is cast."""
    settings = replace(SMALL, attack="carrier", prompts=9, votes=100, attack_votes=24, blocks=20)
    now = attack_lab(settings, defended=True)
    monkeypatch.setattr(waiting, "_brought_along", lambda *_: False)
    before = attack_lab(settings, defended=True)
    assert (now.attack_votes, before.attack_votes) == (24, 24)
    assert now.on_target < 9
    assert before.on_target > 20, "so it was, and this attack would find it"
    off = [attack_lab(replace(settings, attack=attack), defended=False) for attack in ("carrier", "hunter")]
    assert off[0] == off[1], "without the rule there is nothing to carry"


def test_settings_that_make_no_sense_are_errors() -> None:
    for change in ({"attack": "charm"}, {"blocks": 0}, {"days": 31}, {"votes": 10}):
        with pytest.raises(OptionError):
            replace(SMALL, **change)  # type: ignore[arg-type]


def test_the_command_shows_both_sides_or_one(tiltyard: Run) -> None:  # noqa: F811
    done = tiltyard("arena", *COMMAND, "--attack", "hunter")
    assert done.returncode == 0, done.stderr
    table = [line.split("  ") for line in done.stdout.splitlines()]
    assert table[0][0].startswith("hunter: 12 votes from 3 address blocks in the last 7 of 30 days, against 120 honest")
    assert [cell.strip() for cell in table[2] if cell] == ["defences", "off", "on"]
    done = tiltyard("arena", *COMMAND, "--attack", "crowd-like", "--defences", "on", "--format", "json")
    (only,) = json.loads(done.stdout)["results"]
    assert only["defended"] is True


def test_an_option_that_would_be_ignored_is_refused(tiltyard: Run) -> None:  # noqa: F811
    for extra, said in (
        (("--attack", "sybil", "--defences", "on"), "--defences needs an attack on a model"),
        (("--attack", "hunter", "--late-model"), "takes neither"),
        (("--attack", "carrier", "--visitors", "classes"), "takes neither"),
    ):
        done = tiltyard("arena", *COMMAND, *extra)
        assert done.returncode == 1
        assert said in done.stderr


def test_a_reader_of_receipts_concludes_only_what_is_true_and_learns_slower_from_few_prompts() -> None:
    needed = {}
    for prompts in (6, 3, 1)[: size(2, soak=3)]:
        policy = replace(SMALL.policy, waiting=WaitingRules(prompts=prompts))
        engine = MemoryArena(3)
        engine.append(opening(policy, models=SMALL.models, prompts=SMALL.prompts), 0)
        reading = _Learning(engine, target=5, most_votes=300, seed=3)
        reading.others(20, 0)
        reading.visit("home", 0)
        assert {text: text[0] for text in reading._reader.author} == reading._reader.author
        assert reading._reader.known(5) >= 5
        needed[prompts] = reading.reached[0.8]
    every, *fewer = needed.values()
    assert every is not None
    assert all(few is not None and 2 * every < few for few in fewer), (
        "one receipt no longer names a pair on every prompt"
    )
