"""The witness: anybody recomputes head and board from it, and nobody learns who wrote what is being voted on."""

from __future__ import annotations

import hashlib
import json
import re
from itertools import product
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.arena.databases import make_empty_arena
from tests.arena.engines import SECOND, Clock, answer, board_of, catalog, open_arena, play, sql
from tests.arena.rewriting import rewrite
from tests.cli.conftest import Run, tiltyard
from tiltyard.arena import events as e
from tiltyard.arena.board import LiveBoard, live_board
from tiltyard.arena.following.replay import published_ratings
from tiltyard.arena.heads import Head, HeadFile, Statement, new_key, signed
from tiltyard.arena.ratings import rate_votes
from tiltyard.arena.service import Arena
from tiltyard.arena.store.checkpoints import load_votes
from tiltyard.arena.store.verify import verify
from tiltyard.arena.store.witnessing import record_head, record_hourly, state_head, witness_lines
from tiltyard.arena.units import HOUR
from tiltyard.arena.witness import Witness, WitnessLine, check_heads, differing, published_board, read_witness
from tiltyard.errors import ArenaError, OptionError
from tiltyard.files import json_line

__all__ = ["tiltyard"]


def lines_of(arena: Arena) -> list[bytes]:
    return [json_line(line) for line in witness_lines(arena.store, arena.now())]


def read(lines: list[bytes], heads: list[Head] = []) -> Witness:  # noqa: B006
    return read_witness(lines, "the file", {head.seq for head in heads})[1]


def opened(lines: list[bytes]) -> list[dict[str, Any]]:
    """The public parts of events."""
    return [json.loads(row["body"]) for row in map(json.loads, lines[1:]) if "body" in row]


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
    arena.append([e.Excluded(matchup_ids=(fates["excluded"],), reason="test")])
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
        head, file = state_head(arena.store, arena.now())
        shown = [(row.model, row.rating_shown, row.deviation) for row in page_of(arena).rows]
    found = read(lines)
    assert found.problems == []
    assert found.head == head == Head(*verify(arena_url).head)
    assert list(file.stated.board) == shown, "a head states the numbers that pages show, in their order"
    assert shown == [msgspec.structs.astuple(row) for row in published_board(found.state, found.votes)]
    assert file.stated.ordered_by == ("legacy_elo" if phase == 2 else "conservative")


def test_in_phase_1_a_head_states_nothing_of_the_new_ratings(sqlite_url: str) -> None:
    clock = Clock()
    with open_arena(sqlite_url, clock) as arena:
        everything(arena, clock, phase=1)
        _, file = state_head(arena.store, arena.now())
        legacy = [(row.model, row.legacy_elo, None) for row in page_of(arena).rows]
        found = read(lines_of(arena))
    assert (file.stated.board, file.stated.ordered_by) == ((), "")
    assert legacy == [msgspec.structs.astuple(row) for row in found.boards[found.head.seq]]


def test_the_weights_of_votes_are_recomputed_from_the_file(sqlite_url: str) -> None:
    """One block always votes for one model: its votes weigh less, and the file leads to the same weighed board."""
    clock = Clock()
    with open_arena(sqlite_url, clock) as arena:
        arena.append([*catalog(), e.PhaseChanged(phase=4)])
        play(arena, 12)
        for number in range(60):
            name = arena.serve(f"ann{number}", block="b" * 64).matchup_id
            favourite = sql(sqlite_url, f"SELECT a < b FROM matchups WHERE id = '{name}'")[0][0]
            arena.vote(name, f"ann{number}", e.Choice.A if favourite else e.Choice.B, block="b" * 64)
        lines = lines_of(arena)
        _, file = state_head(arena.store, arena.now())
        running = board_of(arena)
    found = read(lines)
    board = published_board(found.state, found.votes)
    assert [msgspec.structs.astuple(row) for row in board] == [tuple(row) for row in file.stated.board]
    assert board == running
    unweighed = rate_votes(found.votes.table(found.state.catalog), found.state.policy.rating).conservative
    assert sorted(row.rating for row in board) != sorted(unweighed), "some votes weigh less than 1"


def test_what_may_not_be_known_is_known_by_its_hash_alone(sqlite_url: str) -> None:
    clock = Clock()
    with open_arena(sqlite_url, clock) as arena:
        fates = everything(arena, clock)
        lines = lines_of(arena)
        raw = b"".join(lines).decode()
        rows = [json.loads(line) for line in lines[1:]]
        told = {
            name: [(row["kind"], sorted(row)) for row in rows if row.get("matchup_id") == fates[name]] for name in fates
        }
        bare = sorted(("seq", "hour", "kind", "matchup_id", "leaf"))
        assert told == {
            "open": [("matchup_served", bare)],
            "skipped": [("matchup_served", bare), ("skipped", bare)],
            "undone": [("matchup_served", bare), ("voted", bare), ("undone", bare)],
            "excluded": [],
            "revealed": [("revealed", bare)],
            "expired": [("matchup_served", bare)],
        }
        shown = {body["matchup_id"] for body in opened(lines) if "matchup_id" in body}
        assert shown & set(fates.values()) == {fates["revealed"], fates["excluded"]}
        for hidden in (
            "Answer of nobody",
            "r0-0",
            "r3-2",
            "self-identifying",
            "As m0",
            "seed",
            "expires_at",
            "undo_until",
        ):
            assert hidden not in raw, hidden
        times = {str(at) for (at,) in sql(sqlite_url, "SELECT at FROM events")}
        assert not any(at in raw for at in times), "times are public to the hour"


def test_a_vote_that_can_be_undone_and_all_after_it_are_not_in_the_file(sqlite_url: str) -> None:
    clock = Clock()
    with open_arena(sqlite_url, clock) as arena:
        arena.append(catalog())
        play(arena, 3)
        before = len(lines_of(arena))
        held = arena.serve("ann").matchup_id
        arena.vote(held, "ann", e.Choice.A, reveal=False)
        play(arena, 2)
        (served,) = map(json.loads, lines_of(arena)[before:])
        assert (served["kind"], served["matchup_id"], "body" in served) == ("matchup_served", held, False)
        clock.turn(3600)
        assert len(lines_of(arena)) == before + 6
        assert [body["kind"] for body in opened(lines_of(arena)) if body.get("matchup_id") == held] == [
            "matchup_served",
            "voted",
        ]


def test_answers_and_their_salts_come_out_when_their_prompt_is_retired(sqlite_url: str) -> None:
    clock = Clock()
    with open_arena(sqlite_url, clock) as arena:
        fates = everything(arena, clock)
        before = lines_of(arena)
        arena.append([e.PromptDisabled(prompt_id="p1")])
        arena.expire_due(clock.now + 10**12)
        clock.turn(120)
        arena.append([e.PhaseChanged(phase=4)])
        after = lines_of(arena)
    bodies = opened(after[: len(before)])
    texts = [body for body in bodies if body["kind"] == "response_added"]
    assert {(text["prompt_id"], text["model"]) for text in texts} == {("p1", f"m{model}") for model in range(4)}
    assert {text["text"] for text in texts} == {answer(model, 1).text for model in range(4)}
    found = read(after)
    assert found.problems == []
    kept = [read(before).head]
    assert list(check_heads(read(after, kept), kept)) == []
    served = [body for body in bodies if body["kind"] == "matchup_served"]
    assert fates["revealed"] in {body["matchup_id"] for body in served}
    assert "p1" in {body["prompt_id"] for body in served}


def test_a_matchup_without_a_vote_stays_hidden_when_its_prompt_is_retired(sqlite_url: str) -> None:
    """The same two models wait for its voter on another prompt, which may be live."""
    clock = Clock()
    with open_arena(sqlite_url, clock) as arena:
        fates = everything(arena, clock)
        arena.append([e.PromptDisabled(prompt_id=f"p{number}") for number in range(3)])
        arena.expire_due(clock.now + 10**12)
        clock.turn(120)
        arena.append([e.PhaseChanged(phase=4)])
        bodies = opened(lines_of(arena))
    texts = {body["text"] for body in bodies if body["kind"] == "response_added"}
    assert texts == {answer(model, prompt).text for model in range(4) for prompt in range(3)}
    served = {body["matchup_id"] for body in bodies if body["kind"] == "matchup_served"}
    assert {name for name, matchup_id in fates.items() if matchup_id in served} == {"revealed", "excluded"}


def test_a_prompt_that_is_kept_for_later_is_hidden_until_it_is_first_served(sqlite_url: str) -> None:
    """Its text, its id and what is done with it; and once it was served it stays open, with whatever answers."""
    clock = Clock()
    with open_arena(sqlite_url, clock) as arena:
        arena.append(catalog())
        play(arena, 6)
        arena.append(
            [e.PromptAdded(prompt_id="secret-one", text="A secret?"), e.PromptReserved(prompt_id="secret-one")]
        )
        arena.append(
            [msgspec.structs.replace(answer(m, 0), response_id=f"s{m}", prompt_id="secret-one") for m in (0, 1)]
        )
        hidden = lines_of(arena)
        kept = [read(hidden).head]
        assert b"ecret" not in b"".join(hidden)
        assert [json.loads(line)["kind"] for line in hidden[-4:]] == [
            "prompt_added",
            "prompt_reserved",
            "other",
            "other",
        ]
        arena.append([e.PromptEnabled(prompt_id="secret-one")])
        arena.append([e.PromptDisabled(prompt_id=f"p{number}") for number in range(3)])
        assert b"secret-one" not in b"".join(lines_of(arena)), "on, and nobody has seen it yet"
        play(arena, 2)
        arena.append(
            [msgspec.structs.replace(answer(m, 0), response_id=f"t{m}", prompt_id="secret-one") for m in (0, 1)]
        )
        shown = lines_of(arena)
    assert b"A secret?" in b"".join(shown)
    found = read(shown, kept)
    assert [*found.problems, *check_heads(found, kept)] == []


def test_whoever_has_every_text_cannot_match_a_hash(sqlite_url: str) -> None:
    """All answers, models, prompts, ids, times and the public halves of salts are known: no leaf of an answer fits.

    With the salt, which is in the database alone, exactly the right one does: so the search is not blind itself.
    """
    with open_arena(sqlite_url, Clock()) as arena:
        arena.append(catalog())
        play(arena, 4)
        lines = [msgspec.json.decode(line, type=WitnessLine) for line in lines_of(arena)[1:]]
    events = sql(sqlite_url, "SELECT seq, at, body, salt, kind FROM events ORDER BY seq")
    hidden = {line.leaf: line.seq for line in lines if line.leaf}
    public = {line.salt for line in lines if line.salt} | {line.rest for line in lines if line.rest} | {""}
    texts = [str(body) for _, _, body, _, kind in events if kind == "response_added"]
    bare = [text.replace(f',"salt":"{json.loads(text)["salt"]}"', ',"salt":""') for text in texts]
    ats = {at for _, at, _, _, kind in events if kind == "response_added"}

    def leaf(salt: str, other: str, at: object, text: str) -> str:
        rest = hashlib.sha256(f"tiltyard rest 2\n{other}\n{at}\n".encode()).hexdigest()
        return hashlib.sha256(f"tiltyard leaf 2\n{salt}\n{rest}\n{text}".encode()).hexdigest()

    tried = {leaf(salt, salt, at, text) for salt, at, text in product(public, ats, texts + bare)}
    tried |= {hashlib.sha256(text.encode()).hexdigest() for text in texts + bare}
    assert not tried & hidden.keys()
    right = {
        leaf(str(salt)[:22], str(salt)[22:], at, str(body))
        for _, at, body, salt, kind in events
        if kind == "response_added"
    }
    assert right <= hidden.keys()
    assert len(right) == 12


def test_two_arenas_that_differ_in_who_wrote_what_give_the_same_file_but_for_chance(tmp_path: Path) -> None:
    """Answers swapped between two models, of other lengths: kinds of lines, order, hours and sizes are the same."""
    shapes = []
    for swap in (False, True):
        url = f"sqlite:///{tmp_path / f'{swap}.db'}"
        make_empty_arena(url)
        with open_arena(url, Clock()) as arena:
            bodies = catalog()
            for place, body in enumerate(bodies):
                if isinstance(body, e.ResponseAdded) and body.model in ("m0", "m1"):
                    long = (body.model == "m0") is swap
                    bodies[place] = msgspec.structs.replace(body, text="word " * (900 if long else 3))
            arena.append(bodies)
            arena.skip(arena.serve("ann").matchup_id, "ann")
            play(arena, 5)
            lines = [json.loads(line) for line in lines_of(arena)[1:]]
        shapes.append(
            [(line["seq"], line["hour"], {k: len(v) for k, v in line.items() if isinstance(v, str)}) for line in lines]
        )
    assert shapes[0] == shapes[1]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda row: row | {"hour": row["hour"] + 1}, "lead to"),
        (lambda row: row | {"body": row["body"].replace('"A"', '"B"').replace('"TIE"', '"A"')}, "lead to"),
        (lambda row: row | {"seq": row["seq"] + 1}, "is missing"),
        (lambda row: row | {"salt": "x" * 22}, "lead to"),
        (lambda row: {"seq": row["seq"], "hour": row["hour"], "kind": "other", "leaf": "0" * 64}, "lead to"),
    ],
)
def test_a_file_that_was_changed_contradicts_itself_or_the_head(sqlite_url: str, change: object, said: str) -> None:
    with open_arena(sqlite_url, Clock()) as arena:
        arena.append(catalog())
        play(arena, 6, seed=3)
        lines = lines_of(arena)
    head = read(lines).head
    place = next(n for n, line in enumerate(lines) if b'\\"voted\\"' in line and b'\\"BOTH_BAD\\"' not in line)
    lines[place] = json_line(change(json.loads(lines[place])))  # type: ignore[operator]
    found = read(lines, [head])
    assert said in found.problems[0]
    header = json.loads(lines[0]) | {"head": str(found.head)}
    if said == "lead to":
        lines[0] = json_line(header)
        found = read(lines, [head])
        assert found.problems == [], "made to fit itself"
        assert "rewritten" in next(check_heads(found, [head]))


def test_a_cut_or_rewritten_log_is_found_from_its_witness_by_whoever_kept_a_head(sqlite_url: str) -> None:
    with open_arena(sqlite_url, Clock()) as arena:
        arena.append(catalog())
        play(arena, 10)
        lines = lines_of(arena)
        head = read(lines).head
    (seq,) = sql(sqlite_url, "SELECT seq FROM events WHERE kind = 'voted' AND body LIKE '%\"B\"%' LIMIT 1")[0]
    rewrite(sqlite_url, lambda run: run(f"UPDATE events SET body = replace(body, '\"B\"', '\"A\"') WHERE seq = {seq}"))
    with open_arena(sqlite_url, Clock()) as arena:
        found = read(lines_of(arena), [head])
    assert found.problems == []
    assert "rewritten" in next(check_heads(found, [head]))
    shorter = [json_line({"witness": 1, "head": str(read_prefix(lines, 30))}), *lines[1:31]]
    assert "it was cut" in next(check_heads(read(shorter, [head]), [head]))


def read_prefix(lines: list[bytes], number: int) -> Head:
    return read([lines[0], *lines[1 : number + 1]]).head


def test_a_signed_head_is_by_its_key_and_by_no_other() -> None:
    pem, public = new_key()
    _, stranger = new_key()
    file = signed(Statement(head=f"{'a' * 64}@7", at="2026-01-01T00:00:00Z"), pem)
    file.check([public])
    assert file.key == public
    with pytest.raises(ArenaError, match="not the key"):
        file.check([stranger])
    with pytest.raises(ArenaError, match="signature"):
        HeadFile(statement=file.statement.replace("@7", "@8"), key=public, signature=file.signature).check([public])
    with pytest.raises(ArenaError, match="not signed"):
        HeadFile(statement=file.statement).check([public])
    with pytest.raises(OptionError, match="HASH@SEQ"):
        Head.parse("abc@7")


def test_a_board_that_was_stated_otherwise_is_named() -> None:
    from tiltyard.arena.witness import RatedModel

    ours = [RatedModel("x", 1510.0, 50.0), RatedModel("y", 1490.0, None)]
    assert list(differing(ours, ours)) == []
    told = [RatedModel("x", 1510.0 + 1e-4, 50.0), RatedModel("z", 1.0, 1.0)]
    assert len(list(differing(told, ours))) == 3


def test_heads_are_kept_once_an_hour_and_never_changed(arena_url: str) -> None:
    clock = Clock()
    with open_arena(arena_url, clock) as arena:
        arena.append(catalog())
        for _ in range(3):
            play(arena, 1)
            record_hourly(arena.store, clock.now)
        assert len(sql(arena_url, "SELECT * FROM heads")) == 1
        clock.turn(HOUR // SECOND)
        record_hourly(arena.store, clock.now)
        clock.turn(HOUR // SECOND)
        record_hourly(arena.store, clock.now)  # nothing has happened since
        rows = sql(arena_url, "SELECT seq, hash FROM heads ORDER BY seq")
        assert len(rows) == 2
        record_head(arena.store, Head(int(str(rows[0][0])), "f" * 64), clock.now)
        assert sql(arena_url, "SELECT seq, hash FROM heads ORDER BY seq") == rows
    assert verify(arena_url).clean


def test_the_commands_from_a_key_to_a_verified_file(sqlite_url: str, tmp_path: Path, tiltyard: Run) -> None:
    with open_arena(sqlite_url) as arena:
        arena.append([*catalog(), e.PhaseChanged(phase=3)])
        ((voted, _, choice), *_) = play(arena, 8)
        skipped = arena.serve("ann").matchup_id
        arena.skip(skipped, "ann")
        shown = [f"{row.rating_shown:.0f}  RD {row.deviation:5.1f}  {row.model}" for row in page_of(arena).rows]
    key, head, file = tmp_path / "key.pem", tmp_path / "head.json", tmp_path / "witness.jsonl"
    public = tiltyard("arena", "head", "--new-key", str(key)).stdout.strip()
    assert key.stat().st_mode & 0o077 == 0
    assert tiltyard("arena", "head", "--new-key", str(key)).returncode == 1
    done = tiltyard("arena", "head", "--db", sqlite_url, "--sign", str(key), "--out", str(head))
    assert done.returncode == 0, done.stderr
    assert tiltyard("arena", "witness", "--db", sqlite_url, "--out", str(file)).returncode == 0
    found = tiltyard("verify", str(file), "--head", f"@{head}", "--head", done.stdout.strip(), "--key", public)
    assert (found.returncode, found.stderr) == (0, "")
    assert "boards: the one given or published is as stated" in found.stdout
    assert all(row in found.stdout for row in shown), "the numbers of the page"
    mine = tiltyard("verify", str(file), "--matchup", voted, "--matchup", skipped)
    assert mine.returncode == 0
    assert re.search(f"matchup {voted} has the vote with number \\d+: {choice}, counted", mine.stdout)
    assert f"matchup {skipped} was skipped or has expired" in mine.stdout
    gone = tiltyard("verify", str(file), "--matchup", "nowhere")
    assert (gone.returncode, "there is no matchup nowhere in it" in gone.stdout) == (3, True)
    checked = tiltyard("arena", "verify", "--db", sqlite_url, "--head", f"@{head}", "--key", public)
    assert "the log contains the head given" in checked.stdout
    said = json.loads(head.read_text())
    said["statement"] = said["statement"].replace("m0", "m9")
    head.write_text(json.dumps(said))
    assert tiltyard("verify", str(file), "--head", f"@{head}").returncode == 1
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join([json_line({"witness": 1, "head": str(read_prefix(lines, 25))}), *lines[1:26]]))
    cut = tiltyard("verify", str(file), "--head", done.stdout.strip(), "--format", "json")
    assert cut.returncode == 3
    assert "it was cut" in json.loads(cut.stdout)["problems"][0]
    cut = tiltyard("arena", "verify", "--db", sqlite_url, "--head", f"{'0' * 64}@9")
    assert cut.returncode == 1
    assert "cut or rewritten" in cut.stderr


def test_a_key_that_is_written_twice_is_found(sqlite_url: str) -> None:
    """A reader that takes the first would see another vote than one that takes the last."""
    clock = Clock()
    with open_arena(sqlite_url, clock) as arena:
        everything(arena, clock)
        lines = lines_of(arena)
    number = next(n for n, line in enumerate(lines) if b'\\"kind\\":\\"voted\\"' in line)
    row = json.loads(lines[number])
    other = {**row, "body": row["body"].replace('"choice":"A"', '"choice":"B"')}
    in_line = json.dumps(other)[:-1] + f', "body": {json.dumps(row["body"])}}}'
    in_body = json.dumps({**row, "body": row["body"][:-1] + ',"choice":"TIE"}'})
    for changed, key in ((in_line, "body"), (in_body, "choice")):
        found = read([*lines[:number], changed.encode() + b"\n", *lines[number + 1 :]])
        assert found.problems == [f"number {row['seq']} says {key!r} twice: some would read the first, others the last"]
    spaced = json.dumps(row).encode() + b"\n"
    assert read([*lines[:number], spaced, *lines[number + 1 :]]).problems == [], "another way to write it is no lie"
    for odd in (b"1e999", b"9" * 5000, b"[" * 900 + b"]" * 900):
        more = lines[number].replace(b"{", b'{"more":' + odd + b",", 1)
        assert read([*lines[:number], more, *lines[number + 1 :]]).problems == [], "not everybody can read it"
    deep = lines[number].replace(b"{", b'{"more":' + b"[" * 9000 + b"]" * 9000 + b",", 1)
    with pytest.raises(ArenaError, match="not a line of a witness"):
        read([*lines[:number], deep])
    with pytest.raises(ArenaError, match="says 'witness' twice in its first line"):
        read([lines[0].replace(b'{"witness":', b'{"witness":2,"witness":', 1), *lines[1:]])
