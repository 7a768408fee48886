"""A witness that leaves out votes, or what becomes of them, is found by whoever kept a head: by its hash alone."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.arena.databases import make_empty_arena
from tests.arena.engines import Clock, catalog, open_arena, play, sql
from tests.arena.test_witness import everything, lines_of, read
from tests.cli.conftest import Run, tiltyard
from tests.forked import PATIENCE_SECONDS
from tiltyard.arena import events as e
from tiltyard.arena.chain import Leaf, label_of, leaf_of, link_event, new_salts
from tiltyard.arena.heads import Head
from tiltyard.arena.store import Store
from tiltyard.arena.units import HOUR
from tiltyard.arena.witness import check_heads
from tiltyard.errors import ArenaError
from tiltyard.files import json_line

__all__ = ["tiltyard"]

Rows = list[dict[str, Any]]


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> tuple[Rows, Head]:
    """The lines of an honest file with matchups of every fate, and the head that somebody kept."""
    url = f"sqlite:///{tmp_path_factory.mktemp('honest') / 'arena.db'}"
    make_empty_arena(url)
    clock = Clock()
    with open_arena(url, clock) as arena:
        everything(arena, clock)
        arena.append([e.Restored(matchup_ids=(), reason="none")])
        lines = lines_of(arena)
    found = read(lines)
    assert found.problems == []
    return [json.loads(line) for line in lines], Head.parse(str(found.head))


def wrong(rows: Rows, kept: list[Head]) -> list[str]:
    found = read([json_line(row) for row in rows], kept)
    return [*found.problems, *check_heads(found, kept)]


def closed(row: dict[str, Any]) -> dict[str, Any]:
    """A line as if its event were not public: the operator knows every leaf."""
    if "leaf" in row:
        return row
    kind, matchup_id = label_of(row["body"])
    leaf = Leaf(row["salt"], row["rest"], row["body"]).hash()
    bare = {"seq": row["seq"], "hour": row["hour"], "kind": kind, "leaf": leaf}
    return bare | ({"matchup_id": matchup_id} if matchup_id else {})


def places(rows: Rows, kind: str) -> list[int]:
    """Where the events of a kind are, open or closed."""
    return [
        n for n, row in enumerate(rows) if n and (label_of(row["body"]).kind if "body" in row else row["kind"]) == kind
    ]


def final_vote(rows: Rows) -> tuple[int, int]:
    """Where a vote that counts is, and its matchup."""
    vote = next(n for n in places(rows, "voted") if "body" in rows[n])
    name = label_of(rows[vote]["body"]).matchup_id
    return vote, next(n for n in places(rows, "matchup_served") if name in rows[n].get("body", ""))


def changed(rows: Rows, *at: int, **values: object) -> Rows:
    return [closed(row) | values if n in at else row for n, row in enumerate(rows)]


def extended(rows: Rows, *bodies: e.AnyBody | str, hours: int = 0, shown: bool = True) -> Rows:
    """The file with further events, chained as they would be, and a first line that fits."""
    head = Head.parse(rows[0]["head"])
    rows, previous = list(rows), head.hash
    for seq, body in enumerate(bodies, start=head.seq + 1):
        text, hour, salt = (
            body if isinstance(body, str) else e.encode_body(body),
            rows[-1]["hour"] + hours,
            new_salts(1)[0],
        )
        leaf = leaf_of(hour * HOUR, text, salt)
        row = {"seq": seq, "hour": hour, "body": leaf.public, "salt": leaf.salt, "rest": leaf.rest}
        rows.append(row if shown else closed(row))
        previous = link_event(previous, seq, hour * HOUR, text, salt)
    rows[0] = rows[0] | {"head": f"{previous}@{rows[-1]['seq']}"}
    return rows


def vote_and_matchup(rows: Rows) -> Rows:
    return changed(rows, *final_vote(rows))


def vote_alone(rows: Rows) -> Rows:
    return changed(rows, final_vote(rows)[0])


def matchup_alone(rows: Rows) -> Rows:
    return changed(rows, final_vote(rows)[1])


def every_vote_for_one_model(rows: Rows) -> Rows:
    losing = {
        label_of(row["body"]).matchup_id
        for row in rows[1:]
        if '"matchup_served"' in row.get("body", "") and '"m1"' in row["body"]
    }
    return [
        closed(row) if n and "body" in row and label_of(row["body"]).matchup_id in losing else row
        for n, row in enumerate(rows)
    ]


@pytest.mark.parametrize(
    ("trick", "said"),
    [
        (vote_and_matchup, "a vote that was not undone is known by its hash alone"),
        (vote_alone, "a vote that was not undone is known by its hash alone"),
        (matchup_alone, "which is not open"),
        (every_vote_for_one_model, "so the board leaves them out"),
        *(
            (lambda rows, kind=kind: changed(rows, places(rows, kind)[0]), "and the board needs it")
            for kind in ("excluded", "restored", "phase_changed", "model_added")
        ),
        (lambda rows: changed(rows, places(rows, "prompt_added")[0]), "does not follow"),
    ],
)
def test_what_a_board_needs_is_not_hidden_behind_a_hash(
    honest: tuple[Rows, Head], trick: Callable[[Rows], Rows], said: str
) -> None:
    """Every hash of such a file is right, and it leads to the head that was kept."""
    rows, kept = honest
    assert wrong(rows, [kept]) == []
    problems = wrong(trick(rows), [])
    assert said in problems[0]
    assert not any("lead to" in problem for problem in problems)


def relabelled(kind: str) -> Callable[[Rows], Rows]:
    def trick(rows: Rows) -> Rows:
        vote, matchup = final_vote(rows)
        return changed(changed(rows, matchup), vote, kind=kind)

    return trick


def another_matchup(rows: Rows) -> Rows:
    """The vote becomes one on a matchup whose vote was undone."""
    vote, matchup = final_vote(rows)
    undone = rows[places(rows, "undone")[0]]["matchup_id"]
    return changed(changed(rows, matchup), vote, matchup_id=undone)


def merged(rows: Rows) -> Rows:
    """Matchup and vote become one line."""
    vote, matchup = final_vote(rows)
    rows = [row for n, row in enumerate(rows) if n != vote]
    return renumbered(changed(rows, matchup))


def dropped(rows: Rows) -> Rows:
    return renumbered([row for n, row in enumerate(rows) if n not in final_vote(rows)])


def renumbered(rows: Rows) -> Rows:
    return [rows[0], *(row | {"seq": n} for n, row in enumerate(rows[1:], start=1))]


@pytest.mark.parametrize(
    "trick",
    [
        *(relabelled(kind) for kind in ("skipped", "expired", "other", "revealed", "flagged")),
        another_matchup,
        merged,
        dropped,
    ],
)
def test_a_vote_is_not_passed_off_as_something_else(honest: tuple[Rows, Head], trick: Callable[[Rows], Rows]) -> None:
    rows, kept = honest
    told = trick(rows)
    assert wrong(told, [kept])
    told[0] = told[0] | {"head": str(read([json_line(row) for row in told]).head)}
    assert any("rewritten" in problem or "cut" in problem for problem in wrong(told, [kept]))


def test_a_line_with_a_hash_and_a_text_of_its_own_is_refused(honest: tuple[Rows, Head]) -> None:
    """The hash would be that of the true vote, and the text another vote's."""
    rows, kept = honest
    vote, _ = final_vote(rows)
    choice = json.loads(rows[vote]["body"])["choice"]
    lie = rows[vote]["body"].replace(f'"{choice}"', '"B"' if choice == "A" else '"A"')
    for extra in ({"body": lie}, {"body": lie, "kind": ""}, {"kind": ""}, {"leaf": ""}):
        with pytest.raises(ArenaError, match="either open"):
            wrong(changed(rows, vote, **extra), [kept])


def named(rows: Rows) -> str:
    return label_of(rows[final_vote(rows)[0]]["body"]).matchup_id


@pytest.mark.parametrize(
    ("trick", "said"),
    [
        (lambda rows: extended(rows, e.Undone(matchup_id=named(rows))), "was final when the head"),
        (lambda rows: extended(rows, e.Undone(matchup_id=named(rows)), hours=2), "time for that was over"),
        (lambda rows: vote_and_matchup(extended(rows, e.Undone(matchup_id=named(rows)))), "was final when the head"),
        (
            lambda rows: extended(rows, e.Undone(matchup_id=rows[places(rows, "revealed")[0]]["matchup_id"])),
            "undone of matchup",
        ),
        (lambda rows: extended(rows, e.Undone(matchup_id=rows[places(rows, "undone")[0]]["matchup_id"])), "was undone"),
        (lambda rows: extended(rows, e.Undone(matchup_id="nobody's")), "which was not served"),
        (lambda rows: extended(rows, e.Skipped(matchup_id=named(rows)), shown=False), "which has a vote"),
        (lambda rows: extended(rows, e.Expired(matchup_id=named(rows))), "which has a vote"),
        (lambda rows: extended(rows, rows[final_vote(rows)[1]]["body"], shown=False), "which has a vote"),
        (lambda rows: extended(rows, e.Voted(matchup_id=named(rows), choice=e.Choice.B)), "which has a vote"),
        (lambda rows: extended(rows, e.Voted(matchup_id="x", choice=e.Choice.B), shown=False), "was not served"),
        (lambda rows: extended(rows, f'{{"kind":"skipped","matchup_id":"x","matchup_id":"{named(rows)}"}}'), "two"),
        (lambda rows: extended(rows, e.Excluded(matchup_ids=(named(rows),), reason="x"), shown=False), "needs it"),
    ],
)
def test_what_is_added_later_does_not_take_a_vote_away(
    honest: tuple[Rows, Head], trick: Callable[[Rows], Rows], said: str
) -> None:
    rows, kept = honest
    assert any(said in problem for problem in wrong(trick(rows), [kept])), wrong(trick(rows), [kept])


def test_the_check_in_the_manual_finds_the_same_without_this_package(honest: tuple[Rows, Head], tmp_path: Path) -> None:
    page = Path(__file__).parents[2].joinpath("docs/reference/artifacts.md").read_text(encoding="utf-8")
    script = page.split("### Witness lines")[1].split("```py\n")[1].split("```")[0]
    assert len([line for line in script.splitlines() if line]) <= 36
    rows, kept = honest
    done = {}
    for name, told in (("honest", rows), ("left out", vote_alone(rows)), ("skipped", relabelled("skipped")(rows))):
        file = tmp_path / f"{name}.jsonl"
        file.write_bytes(b"".join(json_line(row) for row in told))
        command = [sys.executable, "-I", "-c", script, str(file)]
        done[name] = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False)
    assert done["honest"].stdout.startswith(f"{kept} 14 votes"), done["honest"].stderr
    assert "left out: [" in done["left out"].stderr
    assert "the lines lead to" in done["skipped"].stderr


def test_an_operator_who_turns_votes_into_skips_is_found_by_the_hash_alone(
    sqlite_url: str, tmp_path: Path, tiltyard: Run
) -> None:
    """The table says that half of the votes were skipped; the log is as it was."""
    with open_arena(sqlite_url) as arena:
        arena.append([*catalog(), e.PhaseChanged(phase=4)])
        play(arena, 20)
    head = tiltyard("arena", "head", "--db", sqlite_url).stdout.strip()
    files = [tmp_path / "before.jsonl", tmp_path / "after.jsonl"]
    for file, half in zip(files, ("", "a IN (0, 1)"), strict=True):
        if half:
            sql(sqlite_url, f"UPDATE matchups SET status = 'skipped', choice = NULL, vote_seq = NULL WHERE {half}")
        assert tiltyard("arena", "witness", "--db", sqlite_url, "--out", str(file)).returncode == 0
    honest, told = (tiltyard("verify", str(file), "--head", head) for file in files)
    assert (honest.returncode, honest.stdout.splitlines()[1]) == (
        0,
        "votes: 20 counted, 0 excluded, 0 undone by their voters; none is left out",
    )
    assert told.returncode == 3
    assert f"head: {head}" in told.stdout
    assert "votes that were not undone are known by their hashes alone" in told.stdout


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.soak) for seed in (1, 2))])
def test_no_honest_file_is_accused_and_no_vote_can_be_hidden(sqlite_url: str, seed: int) -> None:
    """Whatever visitors and administrators do, at any moment, with every head that was published on the way."""
    rng, clock, kept = np.random.default_rng(seed), Clock(), list[Head]()
    with open_arena(sqlite_url, clock) as arena:
        arena.append([*catalog(), e.PhaseChanged(phase=3)])
        open_ones, votes = list[str](), list[str]()
        for step in range(60):
            clock.turn(float(rng.choice([0.5, 3, 2000])))
            act = rng.choice(
                ["serve", "serve", "vote", "hold", "undo", "reveal", "skip", "expire", "exclude", "restore"]
            )
            with contextlib.suppress(ArenaError):
                if act == "serve":
                    open_ones.append(arena.serve("ann").matchup_id)
                elif act in ("vote", "hold") and open_ones:
                    votes.append(open_ones.pop(rng.integers(len(open_ones))))
                    arena.vote(votes[-1], "ann", e.Choice.A, reveal=act == "vote")
                elif act in ("undo", "reveal") and votes:
                    getattr(arena, act)(votes[-1], "ann")
                elif act == "skip" and open_ones:
                    arena.skip(open_ones.pop(), "ann")
                elif act == "expire":
                    arena.expire_due()
                elif votes:
                    kind = e.Excluded if act == "exclude" else e.Restored
                    arena.append([kind(matchup_ids=(str(rng.choice(votes)),), reason="test")])
            if step % 6 == 5:
                rows = [json.loads(line) for line in lines_of(arena)]
                kept.append(Head.parse(rows[0]["head"]))
                assert wrong(rows, kept) == []
    shown = [n for n in places(rows, "voted") if "body" in rows[n]]
    assert shown
    for vote in shown:
        assert "known by its hash alone" in wrong(changed(rows, vote), kept)[0]


def test_an_undo_in_time_is_no_contradiction_to_a_head_printed_in_between(sqlite_url: str) -> None:
    """`arena verify` prints the newest head, with votes that can still be undone; a public head has none."""
    clock = Clock()
    with open_arena(sqlite_url, clock) as arena:
        arena.append(catalog())
        play(arena, 2)
        held = arena.serve("ann").matchup_id
        arena.vote(held, "ann", e.Choice.A, reveal=False)
        store = Store.open(sqlite_url)
        with store.database.read() as connection:
            from tiltyard.arena.store import log

            seq, digest = log.head(connection)
        store.close()
        arena.undo(held, "ann")
        rows = [json.loads(line) for line in lines_of(arena)]
    printed = Head.parse(f"head: {seq} {digest}")
    assert not printed.published
    assert wrong(rows, [printed]) == []
    assert "was final" in wrong(rows, [Head.parse(f"{digest}@{seq}")])[0]
