"""The witness: anybody recomputes head and board from it, and nobody learns what no public row may say."""

from __future__ import annotations

import contextlib
import json
import re
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from tests.arena.engines import SECOND, Clock, board_of, catalog, open_arena, play, sql
from tests.cli.conftest import Run, tiltyard
from tiltyard.arena import (
    HOUR,
    Arena,
    Head,
    HeadFile,
    KeptProof,
    LiveBoard,
    Witness,
    check_witness,
    kept_heads,
    new_key,
    read_witness,
    salted_digest,
    vote_table,
)
from tiltyard.arena import events as e
from tiltyard.arena.audit import state_head, witness_lines
from tiltyard.arena.audit.verify import verify
from tiltyard.arena.audit.witness import RatedModel, differing
from tiltyard.arena.rules.heads import Statement, plain, signed
from tiltyard.arena.rules.public_rows import receipt_of
from tiltyard.arena.rules.ratings import rate_votes
from tiltyard.arena.store import erase, head_history, load_votes, public_head, record_head
from tiltyard.arena.store.public_log import record_hourly
from tiltyard.arena.study.board import live_board
from tiltyard.arena.study.replay import published_ratings
from tiltyard.errors import ArenaError, OptionError
from tiltyard.files import json_line
from tiltyard.render import day

__all__ = ["tiltyard"]


def lines_of(arena: Arena) -> list[bytes]:
    return list(witness_lines(arena.store, arena.now()))


def read(lines: list[bytes]) -> Witness:
    return read_witness(lines, "the file")[1]


def rows_of(arena: Arena, kind: str = "") -> list[dict[str, Any]]:
    """The rows, or those of a kind."""
    return [
        row for row in map(json.loads, lines_of(arena)[1:]) if row.get("kind", "weights") == (kind or row.get("kind"))
    ]


def receipt(url: str, matchup_id: str) -> str:
    """The receipt of a vote, as its voter is told it."""
    ((text,),) = sql(url, f"SELECT e.body FROM events e JOIN matchups m ON m.seq = e.seq WHERE m.id = '{matchup_id}'")
    served = e.decode_body(str(text))
    assert isinstance(served, e.MatchupServed)
    return receipt_of(served)


def page_of(arena: Arena) -> LiveBoard:
    """The board that pages show."""
    with arena.store.database.read() as connection:
        state, votes, _ = load_votes(connection)
    return live_board(state, published_ratings(votes.table(state.catalog), state.policy))


def everything(arena: Arena, clock: Clock, phase: int = 4) -> dict[str, str]:
    """One matchup of every fate; their ids."""
    arena.append([*catalog(), e.PhaseChanged(phase=phase)])
    play(arena, 12)
    fates = {
        name: arena.serve("ann").matchup_id for name in ("open", "skipped", "undone", "excluded", "revealed", "expired")
    }
    arena.skip(fates["skipped"], "ann")
    for name in ("undone", "revealed"):
        arena.vote(fates[name], "ann", e.Choice.A, reveal=False)
    arena.undo(fates["undone"], "ann")
    arena.reveal(fates["revealed"], "ann")
    arena.vote(fates["excluded"], "ann", e.Choice.B)
    arena.append([e.Excluded(matchup_ids=(fates["excluded"], fates["undone"]), reason="Ann Example said so")])
    arena.append([e.Flagged(subject="response", subject_id="r0-0", flag="self-identifying", detail="As m0, I")])
    return fates


@pytest.mark.parametrize(
    ("arena_url", "phase"),
    [
        ("sqlite", 2),
        ("postgresql", 3),
        *(pytest.param(*case, marks=pytest.mark.soak) for case in (("sqlite", 3), ("postgresql", 2))),
    ],
    indirect=["arena_url"],
)
def test_anybody_gets_the_head_and_the_board_from_the_file_alone(arena_url: str, phase: int) -> None:
    clock = Clock()
    with open_arena(arena_url, clock) as arena:
        everything(arena, clock, phase)
        lines = lines_of(arena)
        new = state_head(arena.store, arena.now())
        shown = [(row.model, row.rating_shown, row.deviation) for row in page_of(arena).rows]
        assert public_head(arena.store, arena.now()) == new.head
    found = read(lines)
    assert found.problems == []
    assert found.head == new.head == verify(arena_url).head
    assert list(new.file.stated.board) == shown, "a head states the numbers that pages show, in their order"
    assert shown == [msgspec.structs.astuple(row) for row in found.board]
    assert check_witness(lines, "the file", KeptProof(heads=[new.file])).values["boards_compared"] == 1


def test_in_phase_1_a_head_states_nothing_of_the_new_ratings(sqlite_url: str) -> None:
    clock = Clock()
    with open_arena(sqlite_url, clock) as arena:
        everything(arena, clock, phase=1)
        stated = state_head(arena.store, arena.now()).file.stated
        legacy = [(row.model, row.legacy_elo, None) for row in page_of(arena).rows]
        found = read(lines_of(arena))
    assert stated.board == ()
    assert legacy == [msgspec.structs.astuple(row) for row in found.board]


def one_sided(arena: Arena, url: str) -> None:
    """One block always votes for one model: its votes weigh less."""
    arena.append([*catalog(), e.PhaseChanged(phase=4)])
    play(arena, 12)
    for number in range(60):
        name = arena.serve(f"ann{number}", block="b" * 64).matchup_id
        favourite = sql(url, f"SELECT a < b FROM matchups WHERE id = '{name}'")[0][0]
        arena.vote(name, f"ann{number}", e.Choice.A if favourite else e.Choice.B, block="b" * 64)


def test_votes_that_weigh_less_do_so_in_the_file_and_their_weights_are_called_the_operators(sqlite_url: str) -> None:
    with open_arena(sqlite_url, Clock()) as arena:
        one_sided(arena, sqlite_url)
        lines = lines_of(arena)
        new = state_head(arena.store, arena.now())
        running = board_of(arena)
        play(arena, 3)
        later = lines_of(arena)
    found = read(lines)
    assert [msgspec.structs.astuple(row) for row in found.board] == [tuple(row) for row in new.file.stated.board]
    assert found.board == running
    assert b"b" * 64 not in b"".join(lines)
    unweighed = rate_votes(vote_table(found.votes, found.state.catalog), found.state.policy.rating).conservative
    assert sorted(row.rating for row in found.board) != sorted(unweighed), "some votes weigh less than 1"
    told = check_witness(lines, "the file", KeptProof(heads=[new.file]))
    assert told.problems == []
    assert "The weights are the operator’s word" in " ".join(told.messages)
    other = {**json.loads(lines[-1])["weights"]}
    other[next(iter(other))] /= 2
    (problem, *_) = check_witness(
        [*lines[:-1], json_line({"weights": other})], "the file", KeptProof(heads=[new.file])
    ).problems
    assert problem == f"the weights are not those of the head {new.head}"
    assert check_witness(lines[:-1], "the file", KeptProof(heads=[new.file])).problems[0] == problem
    told = check_witness(later, "the file", KeptProof(heads=[new.file]))
    assert (told.problems, told.values["boards_compared"]) == ([], 0)
    assert "1 stated board not compared: the weights of then are not in it" in told.messages


def test_what_may_not_be_known_is_in_no_row(sqlite_url: str) -> None:
    clock = Clock()
    with open_arena(sqlite_url, clock) as arena:
        fates = everything(arena, clock)
        raw = b"".join(lines_of(arena)).decode()
        rows = [json.loads(line) for line in raw.splitlines()[1:]]
    names = {name: receipt(sqlite_url, matchup_id) for name, matchup_id in fates.items()}
    assert {name for name, own in names.items() if own in raw} == {"revealed", "excluded"}
    assert rows[-1] == {"kind": "excluded", "hour": rows[-1]["hour"], "receipts": [names["excluded"]]}
    for hidden in (
        *fates.values(),
        *("Answer of nobody", "Question", "r0-0", "r3-2", "self-identifying", "As m0", "Ann Example"),
        *("seed", "expires_at", "undo_until", "block", "home", "office", "lane", "exploration", "reason"),
    ):
        assert hidden not in raw, hidden
    times = {str(at)[:13] for (at,) in sql(sqlite_url, "SELECT at FROM events")}
    assert not any(at in raw for at in times), "times are public to the hour"


def test_a_receipt_does_not_follow_from_the_id_in_a_link(sqlite_url: str) -> None:
    with open_arena(sqlite_url, Clock()) as arena:
        arena.append(catalog())
        (name, _, _), *_ = play(arena, 1)
        served = arena.serve("ann")
    ((text,),) = sql(sqlite_url, f"SELECT body FROM events WHERE body LIKE '%{name}%' AND kind = 'matchup_served'")
    body = e.decode_body(str(text))
    assert isinstance(body, e.MatchupServed)
    assert receipt_of(body) != receipt_of(msgspec.structs.replace(body, seed=body.seed + 1))
    assert receipt_of(body) != receipt_of(msgspec.structs.replace(body, matchup_id=served.matchup_id))
    assert len(receipt_of(body)) == 32


def test_a_vote_that_can_be_undone_and_all_after_it_are_not_in_the_file(arena_url: str) -> None:
    clock = Clock()
    with open_arena(arena_url, clock) as arena:
        arena.append(catalog())
        play(arena, 3)
        before = lines_of(arena)
        held = arena.serve("ann").matchup_id
        arena.vote(held, "ann", e.Choice.A, reveal=False)
        play(arena, 2)
        assert lines_of(arena)[1:] == before[1:]
        clock.turn(3600)
        rows = rows_of(arena, "vote")
    assert len(rows) == 6
    assert rows[3]["receipt"] == receipt(arena_url, held), "at its place in the log"


def test_a_prompt_is_public_once_somebody_voted_on_it_and_again_when_it_changes(sqlite_url: str) -> None:
    """Its text is never: whoever has it, and the salt, can compare."""
    clock = Clock()

    def prompts(arena: Arena) -> list[dict[str, Any]]:
        return rows_of(arena, "prompt")

    def change(**to: Any) -> None:
        arena.append([e.PromptAdded(prompt_id="p0", **{"text": "Question 0?", **to})])

    with open_arena(sqlite_url, clock) as arena:
        arena.append(catalog(prompts=1))
        arena.append([e.PromptAdded(prompt_id="kept", text="A secret?"), e.PromptReserved(prompt_id="kept")])
        arena.skip(arena.serve("ann").matchup_id, "ann")
        early = arena.serve("bob").matchup_id
        assert prompts(arena) == []
        play(arena, 2)
        change(text="Another one?", tags=("a",))
        assert len(prompts(arena)) == 1, "nobody has voted on it"
        play(arena, 2)
        arena.vote(early, "bob", e.Choice.A)
        rows, kinds = prompts(arena), [row["kind"] for row in rows_of(arena)][4:]
        lines = lines_of(arena)
    assert kinds == ["prompt", "vote", "vote", "prompt", "vote", "vote", "prompt", "vote"], "what each vote was about"
    assert {row["prompt"] for row in rows} == {"p0"}
    assert [row["tags"] for row in rows] == [[], ["a"], []]
    added = [
        body
        for (text,) in sql(sqlite_url, "SELECT body FROM events WHERE kind = 'prompt_added' ORDER BY seq")
        if isinstance(body := e.decode_body(str(text)), e.PromptAdded)
    ]
    kept = {digest: (salt, text) for digest, salt, text in sql(sqlite_url, "SELECT digest, salt, text FROM texts")}
    first, _, other = (salted_digest(*kept[body.digest]) for body in added)
    assert [row["text"] for row in rows] == [first, other, first]
    assert len({kept[body.digest][0] for body in added}) == 3
    assert read(lines).prompts == {"p0": first}


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.soak) for seed in (2, 3))])
def test_at_each_moment_the_rows_so_far_begin_all_later_ones(arena_url: str, seed: int) -> None:
    """Whatever visitors and administrators do, and however time goes on; every head on the way stays good."""
    rng, clock, kept, before = np.random.default_rng(seed), Clock(), list[Head](), list[bytes]()
    with open_arena(arena_url, clock) as arena:
        arena.append([*catalog(), e.PhaseChanged(phase=3)])
        open_ones, votes = list[str](), list[str]()
        for step in range(90):
            clock.turn(float(rng.choice([0.5, 3, 2000])))
            act = rng.choice(
                ["serve", "serve", "vote", "hold", "undo", "reveal", "skip", "expire", "exclude", "restore", "other"]
            )
            with contextlib.suppress(ArenaError):
                if act == "serve":
                    open_ones.append(arena.serve("ann", block="b" * 64).matchup_id)
                elif act in ("vote", "hold") and open_ones:
                    votes.append(open_ones.pop(rng.integers(len(open_ones))))
                    arena.vote(votes[-1], "ann", e.Choice.A, reveal=act == "vote", block="b" * 64)
                elif act in ("undo", "reveal") and votes:
                    getattr(arena, act)(votes[-1], "ann")
                elif act == "skip" and open_ones:
                    arena.skip(open_ones.pop(), "ann")
                elif act == "expire":
                    arena.expire_due()
                elif act == "other":
                    arena.append([e.ModelDisabled(model="m0"), e.ModelEnabled(model="m0"), *catalog(1, 3)])
                elif votes:
                    kind = e.Excluded if act == "exclude" else e.Restored
                    arena.append([kind(matchup_ids=(str(rng.choice(votes)),), reason="test")])
            if step % 6 == 5:
                record_hourly(arena.store, clock.now)
                header, *rows = lines_of(arena)
                rows = [row for row in rows if not row.startswith(b'{"weights"')]
                assert rows[: len(before)] == before
                before = rows
                kept.append(Head.parse(json.loads(header)["head"]))
                assert public_head(arena.store, arena.now()) == kept[-1], "also from the latest published head on"
                assert check_witness(lines_of(arena), "the file", KeptProof(heads=kept)).problems == []
        assert verify(arena_url, kept, now=clock.now).problems == ()
        assert len(head_history(arena.store)) > 3
    assert len(before) > 20


def test_a_signed_head_is_by_its_key_and_by_no_other() -> None:
    pem, public = new_key()
    file = signed(Statement(head=f"{'a' * 64}@7", at="2026-01-01T00:00:00Z"), pem)
    assert (file.wrong(), file.key) == ("", public)
    assert "the signature of the head is not by" in msgspec.structs.replace(file, key=new_key()[1]).wrong()
    altered = HeadFile(statement=file.statement.replace("@7", "@8"), key=public, signature=file.signature)
    assert "the signature of the head is not by" in altered.wrong()
    assert HeadFile(statement=file.statement).wrong() == ""


def test_a_head_is_what_its_shape_says_and_a_file_has_an_at_before_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text, other = f"{'a' * 64}@7", f"{'b' * 64}@9"
    monkeypatch.chdir(tmp_path)
    (tmp_path / text).write_text(other)
    (tmp_path / "kept.txt").write_text(f"14 events\nhead: {other}\n")
    assert list(map(str, map(plain, kept_heads([text, "@kept.txt"])))) == [text, other]
    for wrong in ("kept.txt", "abc@7", f"{'A' * 64}@7"):
        with pytest.raises(OptionError, match="HASH@N"):
            kept_heads([wrong])
    with pytest.raises(OptionError, match="a head of no rows says nothing"):
        kept_heads([f"{'0' * 64}@0"])
    with pytest.raises(OptionError, match="cannot read nowhere"):
        kept_heads(["@nowhere"])


def test_a_board_that_was_stated_otherwise_is_named() -> None:
    ours = [RatedModel("x", 1510.0, 50.0), RatedModel("y", 1490.0, None)]
    assert list(differing(ours, ours)) == []
    told = [RatedModel("x", 1510.0 + 1e-4, 50.0), RatedModel("z", 1.0, 1.0)]
    assert len(list(differing(told, ours))) == 3


def test_heads_are_published_once_an_hour_if_there_are_new_rows(arena_url: str) -> None:
    clock = Clock()

    def heads() -> list[str]:
        return [str(one.head) for one in head_history(arena.store)]

    with open_arena(arena_url, clock) as arena:
        record_hourly(arena.store, clock.now)
        assert heads() == [], "of no rows there is none"
        arena.append(catalog())
        for _ in range(3):
            play(arena, 1)
            record_hourly(arena.store, clock.now)
        assert len(heads()) == 1
        clock.turn(HOUR // SECOND)
        record_hourly(arena.store, clock.now)
        clock.turn(HOUR // SECOND)
        record_hourly(arena.store, clock.now)
        arena.skip(arena.serve("ann").matchup_id, "ann")
        clock.turn(HOUR // SECOND)
        record_hourly(arena.store, clock.now)
        assert len(heads()) == 2, "nothing public has happened since"
        assert heads()[0] == str(public_head(arena.store, clock.now))
        assert arena.read(lambda state: state.head) == heads()[0]
        play(arena, 4)
        assert public_head(arena.store, clock.now) == read(lines_of(arena)).head, "no prompt begins anew"
    assert verify(arena_url, now=clock.now).clean


def test_a_kept_head_says_what_came_after_it(sqlite_url: str) -> None:
    clock = Clock()
    with open_arena(sqlite_url, clock) as arena:
        arena.append([*catalog(), e.PhaseChanged(phase=4)])
        played = play(arena, 6)
        kept = public_head(arena.store, arena.now())
        assert "After it: nothing." in " ".join(check_witness(lines_of(arena), "it", KeptProof(heads=[kept])).messages)
        clock.turn(86_400)
        play(arena, 3, seed=1)
        arena.append([e.Excluded(matchup_ids=tuple(name for name, _, _ in played[:4]), reason="x")])
        arena.append([e.Restored(matchup_ids=(played[0][0],), reason="x"), e.ModelDisabled(model="m0")])
        erase(arena.store, [("prompt", "p0"), ("model", "m1"), ("answer", "r0-0")], arena.now())
        found = check_witness(lines_of(arena), "it", KeptProof(heads=[kept]))
    assert found.problems == []
    assert (
        f"contains the head you kept (row {kept.rows}, 2023-11-14 22:00 UTC). After it: 3 votes, 4 votes excluded, 1 "
        "vote restored, model m0 disabled, prompt p0 erased, model m1 erased. Nobody but its operator vouches for "
        "those."
    ) in found.messages


def test_a_key_must_have_signed_the_newest_signed_head(sqlite_url: str) -> None:
    clock, (old_pem, old), (new_pem, new) = Clock(), new_key(), new_key()
    with open_arena(sqlite_url, clock) as arena:
        arena.append([*catalog(), e.PhaseChanged(phase=4)])
        assert "no head is signed" in check_witness(lines_of(arena), "it", KeptProof(keys=[new])).problems[0]
        for pem in (old_pem, new_pem):
            play(arena, 3)
            record_head(arena.store, state_head(arena.store, clock.now, pem=pem), clock.now)
        lines, shown = lines_of(arena), [one.file for one in head_history(arena.store) if one.file is not None]
        play(arena, 2, seed=1)
        later = lines_of(arena)
    assert check_witness(lines, "it", KeptProof(keys=[new])).problems == []
    (told,) = [line for line in check_witness(later, "it", KeptProof(keys=[new])).messages if "signed by" in line]
    assert told.startswith(f"contains the head signed by {new} at 2023-11-14T22:13:20Z (row ")
    assert told.endswith("After it: 2 votes. Nobody but its operator vouches for those.")
    for beside in ([], shown, shown[1:]):
        (problem,) = check_witness(lines, "it", KeptProof(keys=[old]), beside).problems
        assert problem.startswith("the newest signed head (")
        assert problem.endswith(f"is by {new}, not by the key that was given")


def test_whoever_trusts_a_key_trusts_the_key_that_it_names_as_the_next(sqlite_url: str) -> None:
    clock, (first_pem, first), (second_pem, second), (third_pem, third) = Clock(), new_key(), new_key(), new_key()
    with open_arena(sqlite_url, clock) as arena:
        arena.append([*catalog(), e.PhaseChanged(phase=4)])
        for pem, named in ((first_pem, second), (second_pem, third), (third_pem, "")):
            play(arena, 3)
            record_head(arena.store, state_head(arena.store, clock.now, pem=pem, next_key=named), clock.now)
        lines, shown = lines_of(arena), [one.file for one in head_history(arena.store) if one.file is not None]
    found = check_witness(lines, "it", KeptProof(keys=[first]), shown)
    assert found.problems == []
    assert any("signed by" in line and line.startswith("contains") and "as its next" in line for line in found.messages)
    assert verify(sqlite_url, keys=[first]).clean
    assert not verify(sqlite_url, keys=[third]).clean, "the first two heads are by keys that nobody gave"
    _, _, last = sorted(shown, key=plain)
    by_a_stranger = [
        signed(msgspec.structs.replace(file.stated, next_key=third), new_key()[0]) for file in shown if file != last
    ]
    unsigned = [msgspec.structs.replace(file, signature="") for file in shown if file != last]
    for beside in ([last], [*by_a_stranger, last], [*unsigned, last]):
        assert (
            "not by the key that was given" in check_witness(lines, "it", KeptProof(keys=[first]), beside).problems[0]
        )


def test_a_head_states_a_possible_time_in_one_spelling_and_a_key_ends_with_the_one_it_names(sqlite_url: str) -> None:
    clock, (old_pem, old), (pem, new) = Clock(), new_key(), new_key()
    with open_arena(sqlite_url, clock) as arena:
        arena.append([*catalog(), e.PhaseChanged(phase=4)])
        play(arena, 3)
        naming = state_head(arena.store, clock.now, pem=old_pem, next_key=new).file
        play(arena, 3, seed=1)
        lines, by_new, by_old = (
            lines_of(arena),
            *(state_head(arena.store, clock.now, pem=one).file for one in (pem, old_pem)),
        )
    assert naming is not None
    assert by_new is not None
    assert by_old is not None
    honest = check_witness(lines, "it", KeptProof(keys=[old]), [naming, by_new])
    assert honest.problems == []
    assert not any("in other hands" in line for line in honest.messages)
    leaked = check_witness(lines, "it", KeptProof(keys=[old]), [naming, by_old])
    (told,) = [line for line in leaked.messages if "in other hands" in line]
    assert told.startswith(f"{old} signed the head {by_old.stated.head} after it had named {new} as the next key")
    early = signed(msgspec.structs.replace(by_new.stated, at="2020-01-01T00:00:00Z"), pem)
    (problem,) = check_witness(lines, "it", KeptProof(), [early]).problems
    assert "states the time 2020-01-01T00:00:00Z, before its rows (2023-11-14 22:00 UTC)" in problem
    for statement in (
        by_new.statement.replace('"at":"', '"at":"every page was compared, '),
        by_new.statement.replace('"votes":6', '"votes":9999,"votes":6'),
        by_new.statement.replace('"weights":""', '"weights":"whatever"'),
    ):
        assert statement != by_new.statement
        with pytest.raises(ArenaError, match="a head file states something else than a head"):
            check_witness(lines, "it", KeptProof(), [HeadFile(statement=statement)])


def test_the_commands_from_a_key_to_a_verified_file(sqlite_url: str, tmp_path: Path, tiltyard: Run) -> None:
    with open_arena(sqlite_url) as arena:
        arena.append([*catalog(), e.PhaseChanged(phase=3)])
        ((voted, _, choice), *_) = play(arena, 8)
        skipped = arena.serve("ann").matchup_id
        arena.skip(skipped, "ann")
        shown = [f"{row.rating_shown:.0f}  RD {row.deviation:5.1f}  {row.model}" for row in page_of(arena).rows]
    own, other = receipt(sqlite_url, voted), receipt(sqlite_url, skipped)
    key, head, file = tmp_path / "key.pem", tmp_path / "head.json", tmp_path / "witness.jsonl"
    public = tiltyard("arena", "head", "--new-key", str(key)).stdout.strip()
    assert key.stat().st_mode & 0o077 == 0
    assert tiltyard("arena", "head", "--new-key", str(key)).returncode == 1
    done = tiltyard("arena", "head", "--db", sqlite_url, "--sign", str(key), "--out", str(head))
    assert done.returncode == 0, done.stderr
    printed = done.stdout.strip()
    assert tiltyard("arena", "witness", "--db", sqlite_url, "--out", str(file)).returncode == 0
    found = tiltyard("verify", str(file), "--head", f"@{head}", "--head", printed, "--key", public)
    assert (found.returncode, found.stderr) == (0, "")
    assert "gives 1 board stated in heads" in found.stdout
    assert "Whether votes were invented or left out before, only their voters can tell" in found.stdout
    assert all(row in found.stdout for row in shown), "the numbers of the page"
    alone = tiltyard("verify", str(file))
    assert "Whoever wrote it could have invented, changed or left out votes" in alone.stdout
    mine = tiltyard("verify", str(file), "--receipt", own, "--receipt", f"{own}={choice}")
    assert mine.returncode == 0
    row = next(row for row in map(json.loads, file.read_text().splitlines()[1:]) if row.get("receipt") == own)
    assert (
        f"your vote {own}: {choice}, where A was '{row['model_a']}' and B '{row['model_b']}', on the prompt "
        f"'{row['prompt']}', in the hour of {day(row['hour'] * HOUR)}: counted\n"
    ) in mine.stdout
    wrong = "A" if choice != "A" else "B"
    for asked, told in (
        (f"{own}={wrong}", f"the vote {own} is recorded as {choice}, not as {wrong}"),
        (other, f"there is no vote {other} in it, up to "),
    ):
        gone = tiltyard("verify", str(file), "--receipt", asked)
        assert (gone.returncode, told in gone.stdout) == (3, True)
    assert tiltyard("verify", str(file), "--receipt", f"{own}=C").returncode == 1
    assert tiltyard("verify", str(file), "--head", str(head)).returncode == 1, "a path is @path"
    checked = tiltyard("arena", "verify", "--db", sqlite_url, "--head", f"@{head}", "--key", public)
    assert re.search(rf"\nhead: {printed}\n", checked.stdout)
    assert "1 published head (" in checked.stdout
    assert f"1 signed by {public}: rows, boards, signatures and times agree with the log" in checked.stdout
    assert "the public rows lead to the head given" in checked.stdout
    alone = tiltyard("arena", "verify", "--db", sqlite_url)
    assert "only a head kept elsewhere can tell" in alone.stdout
    since = tiltyard("arena", "verify", "--db", sqlite_url, "--since", str(head))
    assert "what came before was not read again" in since.stdout
    copied = tiltyard("arena", "backup", "--db", sqlite_url, "--out", str(tmp_path / "copy.db"))
    assert copied.stdout.strip() == f"head: {printed}"
    said = json.loads(head.read_text())
    said["statement"] = said["statement"].replace("m0", "m9")
    head.write_text(json.dumps(said))
    assert tiltyard("verify", str(file), "--head", f"@{head}").returncode == 3
    lines = file.read_bytes().splitlines(keepends=True)
    shorter = read([lines[0], *lines[1:12]]).head
    file.write_bytes(b"".join([json_line({"witness": 2, "head": str(shorter)}), *lines[1:12]]))
    cut = tiltyard("verify", str(file), "--head", printed, "--format", "json")
    assert cut.returncode == 3
    assert "it was cut" in json.loads(cut.stdout)["problems"][0]
    cut = tiltyard("arena", "verify", "--db", sqlite_url, "--head", f"{'0' * 64}@9")
    assert cut.returncode == 1
    assert "cut or rewritten" in cut.stderr
