"""Flags and proposals over a log, and what they do to an attack."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from tests.arena.engines import catalog, open_arena
from tests.arena.small_worlds import MINUTE, SECOND, Log, honest, new_log
from tests.sizes import size
from tiltyard.arena import AnswerFlag, Choice, Limits, ScreenedAnswers, flag_answers, limits_of, screen, vote_table
from tiltyard.arena import events as e
from tiltyard.arena.rules.policy import FlagRules
from tiltyard.arena.rules.votes import SessionActs
from tiltyard.arena.study.board import live_board
from tiltyard.arena.study.integrity import (
    ExclusionProposal,
    VoterFlag,
    accepted,
    events_of,
    flag_voters,
    naming_lines,
    propose_exclusions,
    propose_unblinded,
    voter_anomalies,
)
from tiltyard.arena.study.voters import SessionRules, SessionVotes, fewest_votes, session_flags

RULES = FlagRules()


def crowd(rng: np.random.Generator, riggers: int, target: int, sessions: int = 60) -> tuple[Log, np.ndarray]:
    """12 models: honest sessions of 25 to 60 votes, then riggers who vote only on the target, always for it."""
    strengths = np.linspace(250.0, -250.0, 12)
    log = new_log(12, 8)
    plans = [(f"v{number:03d}", False) for number in range(sessions)] + [(f"r{i:02d}", True) for i in range(riggers)]
    queue = [plan for plan in plans for _ in range(int(rng.integers(25, 60)))]
    early = [plan for plan in queue if not plan[1]][: len(queue) // 2]
    late = [queue[place] for place in rng.permutation(len(queue))]
    for voter, rigs in [*early, *late]:
        a, b = (int(model) for model in rng.choice(12, 2, replace=False))
        choice = honest(rng, float(strengths[a] - strengths[b]))
        if rigs:
            rival = int(rng.choice([model for model in range(12) if model != target]))
            a, b, choice = (target, rival, Choice.A) if rng.random() < 0.5 else (rival, target, Choice.B)
        log.meet(f"m{a:02d}", f"m{b:02d}", f"p{int(rng.integers(8)):02d}", choice, voter, after=20 * SECOND)
    return log, strengths


def flags_of(log: Log) -> tuple[list[VoterFlag], list[ExclusionProposal]]:
    votes = vote_table(log.book, log.state.catalog)
    flags = flag_voters(votes, log.rate().ratings.rating, RULES)
    return flags, propose_exclusions(votes, flags)


def test_riggers_are_found_by_ratings_they_themselves_bent_and_honest_voters_are_left_alone() -> None:
    """Worlds of 60 honest sessions and 4 riggers for the ninth of twelve: at least 90 % found, 1 % wronged."""
    worlds, found, wronged = size(2, soak=8), 0, 0
    for seed in range(worlds):
        log, _ = crowd(np.random.default_rng(seed), riggers=4, target=8)
        sure = {flag.voter for flag in flags_of(log)[0] if flag.sure}
        found += sum(voter.startswith("r") for voter in sure)
        wronged += sum(voter.startswith("v") for voter in sure)
    assert found >= 0.9 * 4 * worlds
    assert wronged <= 0.01 * 60 * worlds


def test_no_session_is_passed_over_that_has_enough_votes_for_a_flag() -> None:
    """Random sessions under rules that nearly anything breaks."""
    rng, rules = np.random.default_rng(11), SessionRules(5, 3.0, 0.5, 6, 0.6, 4, 0.5, 5, 0.3)
    flagged = set()
    for n in range(1, 12):
        for _ in range(40):
            outcome, a = rng.choice(4, size=n, p=(0.45, 0.35, 0.1, 0.1)).astype(np.int8), rng.integers(3, size=n)
            votes = SessionVotes(np.cumsum(rng.random(n)), a, (a + 1) % 3, outcome, rng.random(n))
            flagged |= {n} if session_flags(votes, rules) else set()
    assert min(flagged) == fewest_votes(rules) == 4


def test_answers_are_screened_once_and_again_when_a_model_gets_another_name(sqlite_url: str) -> None:
    """What is kept from one look to the next gives what a first look gives."""

    def says(name: str, text: str) -> e.ResponseAdded:
        return e.ResponseAdded(response_id=name, model="m1", prompt_id="p1", text=text)

    kept = ScreenedAnswers()
    with open_arena(sqlite_url) as arena:
        arena.append(catalog())

        def both() -> list[str]:
            found = arena.read(lambda state: screen(arena.store, state, answers=kept))
            assert found.answers == arena.read(lambda state: screen(arena.store, state)).answers
            return [flag.response_id for flag in found.answers]

        assert both() == []
        arena.append([says("new", "I am Zorbulon-7, made by people.")])
        assert both() == []
        arena.append([e.ModelAdded(model="m1", display_name="Zorbulon-7")])
        assert both() == ["new"]
        arena.append([says("newer", "As Zorbulon-7, I agree.")])
        assert both() == ["new", "newer"]


def test_answers_of_a_model_that_an_import_adds_meanwhile_are_screened_once_it_is_known(sqlite_url: str) -> None:
    kept = ScreenedAnswers()
    with open_arena(sqlite_url) as arena:
        arena.append(catalog())
        before = arena.read(lambda state: list(state.catalog.models))
        late = e.ResponseAdded(response_id="late", model="zorbulon", prompt_id="p1", text="I am Zorbulon-7.")
        arena.append([e.ModelAdded(model="zorbulon", display_name="Zorbulon-7"), late])
        assert kept.follow(arena.store, before) == []
        after = arena.read(lambda state: list(state.catalog.models))
        assert [flag.response_id for flag in kept.follow(arena.store, after)] == ["late"]


def test_excluding_what_is_proposed_takes_the_target_back_to_its_place_and_restoring_undoes_it() -> None:
    log, _ = crowd(np.random.default_rng(3), riggers=6, target=8)
    place = live_board(log.rate())["m08"].rank
    before = live_board(log.rate()).rows
    flags, proposals = flags_of(log)
    events = events_of(flags, proposals=proposals)
    for body in events:
        log.say(body)
    assert place <= 7
    assert live_board(log.rate())["m08"].rank >= 8
    for body in events:
        if isinstance(body, e.Excluded):
            log.say(e.Restored(matchup_ids=body.matchup_ids, reason="looked at by hand"))
    assert live_board(log.rate()).rows == before


def test_flags_alone_change_nothing() -> None:
    log, _ = crowd(np.random.default_rng(4), riggers=3, target=8, sessions=20)
    before = live_board(log.rate()).rows
    for body in events_of(flags_of(log)[0]):
        log.say(body)
    assert live_board(log.rate()).rows == before


def test_a_proposal_names_every_counted_vote_of_the_voter_and_why() -> None:
    """25 votes a second apart, the fourth taken back: 24 votes with 23 gaps, of which one is now 2 s."""
    log = new_log(4, 2)
    ids = [log.meet("m00", "m01", "p00", Choice.A, "hasty", after=SECOND) for _ in range(25)]
    log.meet("m00", "m01", "p00", Choice.B, "calm")
    log.say(e.Undone(matchup_id=ids[3]))
    flags, proposals = flags_of(log)
    assert {flag.voter for flag in flags} == {"hasty"}
    assert [flag.flag for flag in flags][:2] == ["fast", "one-sided"]
    (proposal,) = proposals
    assert proposal.matchup_ids == tuple(name for name in ids if name != ids[3])
    assert proposal.reason.startswith("fast (22 of 23 gaps between votes under 2 s); one-sided (24 of 24 votes")


def test_an_anomaly_is_flagged_at_alpha_and_excluded_only_when_it_is_much_rarer() -> None:
    """Everybody prefers m00; one session says both are bad in about a third of its votes."""
    log = new_log(2, 2)
    for number in range(300):
        choice = Choice.BOTH_BAD if number % 20 == 0 else Choice.A if number % 4 else Choice.B
        log.meet("m00", "m01", "p00", choice, f"v{number:03d}")
    for number in range(15):
        log.meet("m00", "m01", "p01", Choice.BOTH_BAD if number % 3 == 0 else Choice.A, "odd")
    flags, proposals = flags_of(log)
    (flag,) = flags
    assert (flag.voter, flag.flag) == ("odd", "anomaly")
    assert flag.sure == bool(proposals)
    anomalies = voter_anomalies(vote_table(log.book, log.state.catalog))
    (test,) = anomalies.values()
    assert test.votes == 15
    assert test.corrected < 0.1 < test.p_value, "as published the test cannot see it"


def test_an_empty_log_has_no_flags() -> None:
    assert flags_of(new_log(2, 1)) == ([], [])


def test_answers_are_looked_at_for_their_own_models_names() -> None:
    otter = e.ModelAdded(model="otter-2", display_name="Otter 2", provider="Riverbank")
    answers = [
        ("r1", otter, "", "I am Otter 2."),
        ("r2", otter, "", "Otterhounds swim."),
        ("r3", otter, "", "I was trained by Riverbank."),
        ("r4", otter, "", "I'm ChatGPT."),
        ("r5", otter, "What does an otter eat?", "An otter eats fish."),
        ("r6", otter, "", "It is the otter."),
    ]
    found = flag_answers(answers)
    assert [(flag.response_id, flag.held) for flag in found] == [
        ("r1", True),
        ("r3", True),
        ("r4", False),
        ("r6", True),
    ]
    nobody = e.ModelAdded(model="x", display_name="", provider="")
    assert flag_answers([("r7", nobody, "", "I am here to help. I was made by hand.")]) == []


def test_the_share_of_held_answers_is_told_with_the_way_to_release_them() -> None:
    flags = [AnswerFlag(f"r{i}", "otter", "Otter", "I am Otter", held=i < 7) for i in range(8)]
    lines = naming_lines(flags, 150)
    assert lines[0] == (
        "held 7 of 150 answers (4.7 %): they contain their author's name; read them, and release with "
        "`arena prompts serve-answer ID`"
    )
    assert lines[1:7] == [*(f"  otter, answer r{i}: “I am Otter”" for i in range(5)), "  and 2 more"]
    assert lines[7].startswith("flagged 1 of 150 answers (0.7 %), and served: a word in them may name their author")
    assert naming_lines([], 0) == []


def test_votes_on_a_telling_answer_are_proposed_for_exclusion() -> None:
    log = new_log(3, 2)
    first = log.meet("m00", "m01", "p00", Choice.A)
    log.meet("m01", "m02", "p00", Choice.A)
    served = {event.body.matchup_id: event.body for event in log.events if isinstance(event.body, e.MatchupServed)}
    votes = vote_table(log.book, log.state.catalog)
    shown = [(served[name].response_a, served[name].response_b) for name in votes.matchup_ids]
    flag = AnswerFlag("m00/p00", "m00", "m00", "I am m00")
    proposal = propose_unblinded(votes, shown, [flag])
    assert proposal == ExclusionProposal((first,), "an answer says who wrote it")
    assert propose_unblinded(votes, shown, []) is None
    assert propose_unblinded(votes, shown, [msgspec.structs.replace(flag, held=False)]) is None
    (event,) = events_of((), [flag])
    assert event == e.Flagged(subject="response", subject_id="m00/p00", flag="self-identifying", detail="I am m00")


def test_a_flag_that_is_known_is_not_raised_again() -> None:
    flags = [VoterFlag("v1", "fast", "now 30 of 40", sure=True), VoterFlag("v1", "upsets", "9 of 10", sure=True)]
    (event,) = events_of(flags, known={("v1", "fast")})
    assert event == e.Flagged(subject="voter", subject_id="v1", flag="upsets", detail="9 of 10")


def test_nothing_is_excluded_by_itself_unless_a_setting_says_so() -> None:
    rigged, told = ExclusionProposal(("a",), "upsets"), ExclusionProposal(("b",), "an answer says who wrote it")
    assert accepted(FlagRules(), [rigged], told) == []
    assert accepted(FlagRules(exclude_flagged_sessions=True), [rigged], told) == [rigged]
    assert accepted(FlagRules(exclude_self_identifying=True), [rigged], told) == [told]
    assert accepted(FlagRules(exclude_self_identifying=True), [rigged], None) == []


LIMITS = {  # what is limited, counted by what: in minutes, how many
    ("vote", "session"): {1: 20, 60: 300, 1440: 1000},
    ("vote", "address"): {1: 120, 60: 1000, 1440: 3000},
    ("matchup", "session"): {1: 40, 60: 400, 1440: 1300},
    ("matchup", "address"): {1: 240, 60: 1400, 1440: 4200},
    ("session", "address"): {60: 60, 1440: 240},
    ("report", "session"): {60: 10, 1440: 30},
    ("report", "address"): {60: 40, 1440: 120},
    ("undo", "session"): {60: 12},
    ("undo", "address"): {60: 120},
    ("skip", "session"): {60: 120},
    ("skip", "address"): {60: 1200},
}


@pytest.mark.parametrize(("act", "by"), LIMITS)
def test_every_limit_of_the_policy_has_its_window(act: str, by: str) -> None:
    rules = [rule for rule in limits_of(Limits()) if (rule.act, rule.counted_by) == (act, by)]
    assert {rule.window / MINUTE: rule.limit for rule in rules} == LIMITS[act, by]


def test_no_limit_is_unknown_to_the_tests() -> None:
    assert {(rule.act, rule.counted_by) for rule in limits_of(Limits())} == set(LIMITS)


@pytest.mark.parametrize(
    ("acts", "flags"),
    [
        (SessionActs(cast=458, undone=440), [("undoes votes", "440 of 458 votes undone", True)]),
        (SessionActs(cast=10, undone=10), [("undoes votes", "10 of 10 votes undone", True)]),
        (SessionActs(cast=9, undone=9), []),
        (SessionActs(cast=100, undone=12), []),  # all that an hour allows, among as many votes as people cast
        (SessionActs(cast=10, skipped=60), [("skips", "60 of 70 matchups skipped", False)]),
        (SessionActs(cast=30, skipped=60), []),
        (SessionActs(skipped=39), []),
    ],
)
def test_sessions_that_undo_or_skip_much_are_flagged(acts: SessionActs, flags: list[tuple[str, str, bool]]) -> None:
    nobody = vote_table([], new_log(2, 1).state.catalog)
    found = flag_voters(nobody, np.full(2, 1500.0), RULES, {"v": acts})
    assert [(flag.flag, flag.detail, flag.sure) for flag in found] == flags
