"""A witness that was changed contradicts itself, or a head that somebody kept; nothing else is called proved."""

from __future__ import annotations

import hashlib
import io
import json
import random
import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from types import CodeType
from typing import Any

import msgspec
import pytest

from tests.arena.databases import make_empty_arena
from tests.arena.engines import Clock, open_arena, play
from tests.arena.test_witness import everything
from tests.cli.conftest import Run, tiltyard
from tests.sizes import size
from tiltyard.arena import Finding, Head, KeptProof, check_witness, new_key
from tiltyard.arena import events as e
from tiltyard.arena.audit import witness_lines
from tiltyard.arena.rules.chain import FIRST_HASH, link_line
from tiltyard.arena.rules.heads import HeadFile, Statement, signed
from tiltyard.arena.store import public_head
from tiltyard.errors import ArenaError

__all__ = ["tiltyard"]

Lines = list[bytes]
"""Lines of a witness without their ends."""

MANUAL = Path(__file__).parents[2] / "docs/reference/artifacts.md"


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> tuple[Lines, Head]:
    """The lines of an honest file with rows of every kind and weights, and a head that somebody kept on the way."""
    url = f"sqlite:///{tmp_path_factory.mktemp('honest') / 'arena.db'}"
    make_empty_arena(url)
    clock = Clock()
    with open_arena(url, clock) as arena:
        arena.append([e.SettingsChanged(policy=arena.read(lambda state: state.policy))])
        fates = everything(arena, clock)
        arena.append([e.ModelDisabled(model="m3"), e.ModelEnabled(model="m3")])
        kept = public_head(arena.store, arena.now())
        for number in range(40):
            name = arena.serve(f"ann{number}", block="b" * 64).matchup_id
            shown = arena.read(lambda state, name=name: state.schedule.in_flight[name])  # type: ignore[misc]
            in_order = shown.a < shown.b
            arena.vote(name, f"ann{number}", e.Choice.A if in_order else e.Choice.B, block="b" * 64)
        arena.append([e.Restored(matchup_ids=(fates["excluded"],), reason="none")])
        play(arena, 3)
        lines = [line.removesuffix(b"\n") for line in witness_lines(arena.store, arena.now(), "Test")]
    assert lines[-1].startswith(b'{"weights":')
    assert check(lines, kept).problems == []
    return lines, kept


def check(lines: Lines, kept: Head | None = None) -> Finding:
    return check_witness([line + b"\n" for line in lines], "the file", KeptProof(heads=[] if kept is None else [kept]))


def wrong(lines: Lines, kept: Head | None = None) -> list[str]:
    """What is wrong with these lines; a file that is refused is wrong, too."""
    try:
        return check(lines, kept).problems
    except ArenaError as error:
        return [str(error)]


def made_to_fit(lines: Lines) -> Lines:
    """The same with hashes made anew."""
    header, *rows = lines
    previous, rows = FIRST_HASH, [row for row in rows if not row.startswith(b'{"weights":')]
    for row in rows:
        previous = link_line(previous, row)
    new = json.loads(header) | {"head": f"{previous}@{len(rows)}"}
    return [json.dumps(new, separators=(",", ":")).encode(), *lines[1:]]


def row_of(lines: Lines, kind: str, number: int = 0) -> int:
    """Where a row of a kind is."""
    return [place for place, line in enumerate(lines) if line.startswith(f'{{"kind":"{kind}"'.encode())][number]


def with_row(lines: Lines, place: int, **changes: Any) -> Lines:
    row = json.loads(lines[place]) | changes
    return [*lines[:place], json.dumps(row, separators=(",", ":")).encode(), *lines[place + 1 :]]


@pytest.fixture(scope="module")
def program() -> CodeType:
    """The manual's short program."""
    script = MANUAL.read_text(encoding="utf-8").split("### Witness lines")[1].split("```py\n")[1].split("```")[0]
    assert len([line for line in script.splitlines() if line]) <= 55
    return compile(script, "the manual's program", "exec")


@pytest.fixture
def accepts(program: CodeType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Lines], str]:
    """What the manual's program prints of a file; nothing if it refuses it."""

    def run(lines: Lines) -> str:
        file = tmp_path / "witness.jsonl"
        file.write_bytes(b"".join(line + b"\n" for line in lines))
        monkeypatch.setattr(sys, "argv", ["check.py", str(file)])
        told = io.StringIO()
        try:
            with redirect_stdout(told):
                exec(program, {"__name__": "__main__"})
        except (AssertionError, KeyError, TypeError, ValueError, AttributeError, RecursionError):
            return ""
        return told.getvalue()

    return run


def doubled_key(lines: Lines) -> Lines:
    place = row_of(lines, "vote")
    return [*lines[:place], lines[place].replace(b'"choice":', b'"choice":"TIE","choice":'), *lines[place + 1 :]]


def spaced(lines: Lines) -> Lines:
    return [*lines[:1], lines[1].replace(b":", b": ", 1), *lines[2:]]


def split_name(lines: Lines) -> Lines:
    """A line break in a name: the row could be read as two."""
    return with_row(lines, row_of(lines, "vote"), receipt="a\nb")


def of_both(lines: Lines) -> Lines:
    vote = row_of(lines, "vote")
    return with_row(lines, vote, model_a=json.loads(lines[vote])["model_b"])


def weights(lines: Lines, change: Callable[[dict[str, float]], dict[str, float]]) -> Lines:
    found = change(json.loads(lines[-1])["weights"])
    return [*lines[:-1], json.dumps({"weights": found}, separators=(",", ":")).encode()]


FORGERIES: dict[str, Callable[[Lines], Lines]] = {
    "a key is there twice": doubled_key,
    "another way to write it": spaced,
    "an unknown key": lambda lines: with_row(lines, row_of(lines, "vote"), more=1),
    "an unknown kind": lambda lines: with_row(lines, row_of(lines, "vote"), kind="skip"),
    "a key is missing": lambda lines: [*lines[:2], lines[2].replace(b'"model":', b'"name":'), *lines[3:]],
    "a line break in a name": split_name,
    "a control character in a model": lambda lines: with_row(lines, row_of(lines, "model"), model="m\x85"),
    "a control character in a prompt": lambda lines: with_row(lines, row_of(lines, "prompt"), prompt="p\u2028"),
    "a name that is empty": lambda lines: with_row(lines, row_of(lines, "vote"), voter=""),
    "a vote twice": lambda lines: [*lines[:-1], lines[row_of(lines, "vote")], lines[-1]],
    "a vote on an unknown prompt": lambda lines: with_row(lines, row_of(lines, "vote"), prompt="p9"),
    "a vote on an unknown model": lambda lines: with_row(lines, row_of(lines, "vote"), model_a="m9"),
    "a vote on one model": of_both,
    "another choice": lambda lines: with_row(lines, row_of(lines, "vote"), choice="C"),
    "an odd side": lambda lines: with_row(lines, row_of(lines, "vote"), unrendered="C"),
    "an hour before all": lambda lines: with_row(lines, row_of(lines, "vote"), hour=-1),
    "an hour of no time": lambda lines: with_row(lines, row_of(lines, "vote"), hour=10**9),
    "an hour in parts": lambda lines: with_row(lines, row_of(lines, "vote"), hour=1.0),
    "a fifth phase": lambda lines: with_row(lines, row_of(lines, "phase"), phase=5),
    "a phase that is true": lambda lines: with_row(lines, row_of(lines, "phase"), phase=True),
    "an exclusion of nothing": lambda lines: with_row(lines, row_of(lines, "excluded"), receipts=["nobody's"]),
    "an unknown model enabled": lambda lines: with_row(lines, row_of(lines, "enabled"), model="m9"),
    "a weight of nobody": lambda lines: weights(lines, lambda found: {**found, "nobody's": 0.5}),
    "a weight of 0": lambda lines: weights(lines, lambda found: dict.fromkeys(found, 0.0)),
    "a weight of 2": lambda lines: weights(lines, lambda found: dict.fromkeys(found, 2.0)),
    "a weight that is no number": lambda lines: weights(lines, lambda found: {name: float("nan") for name in found}),
    "weights twice": lambda lines: [*lines, lines[-1]],
    "weights in the middle": lambda lines: [*lines[:9], lines[-1], *lines[9:-1]],
    "a row after the weights": lambda lines: [*lines, lines[row_of(lines, "phase")]],
    "an empty line": lambda lines: [*lines[:5], b"", *lines[5:]],
    "a line cut off": lambda lines: [*lines[:5], lines[5][:-3], *lines[6:]],
    "no object": lambda lines: [*lines[:5], b"[]", *lines[5:]],
    "depths": lambda lines: [*lines[:5], b"[" * 9000 + b"]" * 9000, *lines[5:]],
    "receipts that are keys": lambda lines: with_row(
        lines,
        row_of(lines, "excluded"),
        receipts=dict.fromkeys(json.loads(lines[row_of(lines, "excluded")])["receipts"]),
    ),
    "tags that are letters": lambda lines: with_row(lines, row_of(lines, "prompt"), tags="abc"),
    "a digest that is none": lambda lines: with_row(lines, row_of(lines, "prompt"), text="0" * 63 + "\n"),
    "a tag of tags": lambda lines: with_row(lines, row_of(lines, "prompt"), tags=[["a"]]),
    "a subject that is a number": lambda lines: with_row(lines, row_of(lines, "prompt"), subject=0),
    "no language": lambda lines: with_row(lines, row_of(lines, "prompt"), language=None),
    "a phase in parts": lambda lines: with_row(lines, row_of(lines, "phase"), phase=4.0),
    "a header of more": lambda lines: [lines[0].replace(b'"title":', b'"more":1,"title":'), *lines[1:]],
    "a header in another order": lambda lines: [
        lines[0][:-1].replace(b'"witness":2,', b"") + b',"witness":2}',
        *lines[1:],
    ],
    "a version in parts": lambda lines: [lines[0].replace(b'"witness":2', b'"witness":2.0'), *lines[1:]],
    "a title that is none": lambda lines: [lines[0].replace(b'"title":"Test"', b'"title":["Test"]'), *lines[1:]],
    "another version": lambda lines: [lines[0].replace(b'"witness":2', b'"witness":1'), *lines[1:]],
    "a header with a key twice": lambda lines: [lines[0].replace(b'"title":', b'"title":"","title":'), *lines[1:]],
}


@pytest.mark.parametrize("forge", FORGERIES.values(), ids=FORGERIES)
def test_what_no_arena_writes_is_refused_with_hashes_that_fit(
    honest: tuple[Lines, Head], accepts: Callable[[Lines], str], forge: Callable[[Lines], Lines]
) -> None:
    """By the command, and by the manual's short program."""
    forged = forge(honest[0])
    header = json.loads(forged[0].replace(b'"title":"","title":', b'"title":'))
    fitting = made_to_fit([json.dumps(header, separators=(",", ":")).encode(), *forged[1:]])
    if b'"title":"","title":' in forged[0]:
        fitting[0] = fitting[0].replace(b'"title":', b'"title":"","title":')
    assert wrong(fitting)
    assert not accepts(fitting)


def test_what_only_the_command_can_see(honest: tuple[Lines, Head], accepts: Callable[[Lines], str]) -> None:
    """A policy that no arena has; a file without the rows of its end, and its first line."""
    lines, kept = honest
    place = row_of(lines, "settings")
    policy = json.loads(lines[place])["policy"]
    assert wrong(made_to_fit(with_row(lines, place, policy={**policy, "unknown": 1})))
    assert wrong(made_to_fit(with_row(lines, place, policy={**policy, "undo_seconds": -1})))
    vote = row_of(lines, "vote")
    assert wrong(made_to_fit(with_row(lines, vote, unrendered="A", choice="A")))
    assert not wrong(made_to_fit(with_row(lines, vote, unrendered="A", choice="B")))
    assert accepts(lines) == f"{json.loads(lines[0])['head']} 57 votes count\n"
    assert wrong([lines[0], *lines[1:-5]])
    assert not accepts([lines[0], *lines[1:-5]])
    assert "it was cut" in wrong(made_to_fit([lines[0], *lines[1:9]]), kept)[0]


def test_what_passes_is_said(honest: tuple[Lines, Head]) -> None:
    """The smallest weight beside a head that was kept, and the rules that rows set."""
    lines, kept = honest
    told = check(weights(lines, lambda found: {**found, next(iter(found)): 1e-300}), kept)
    assert told.problems == []
    assert any("from 1e-300 to 0." in line and "operator’s word" in line for line in told.messages)
    place = row_of(lines, "settings")
    policy = json.loads(lines[place])["policy"]
    policy["rating"]["deviation"] = 123.0
    told = check(made_to_fit(with_row(lines, place, policy=policy)))
    assert any(line.startswith("rules: phase 4; ") and "deviation 123, " in line for line in told.messages)


def test_two_models_that_look_alike_are_a_problem(honest: tuple[Lines, Head]) -> None:
    lines, _ = honest
    place = row_of(lines, "model")
    added = {**json.loads(lines[place]), "model": "m0\u200b"}
    row = json.dumps(added, separators=(",", ":")).encode()
    (problem,) = check(made_to_fit([*lines[: place + 1], row, *lines[place + 1 :]])).problems
    assert problem == "two names look alike: 'm0' and 'm0\\u200b'"


EDITS = size(150, soak=1_500)


def edited(lines: Lines, rng: random.Random) -> tuple[Lines, int]:
    """The lines after a random edit, and the first row that it changes."""
    place, other = sorted(rng.sample(range(1, len(lines)), 2))
    line, rest = lines[place], lines[place + 1 :]
    value = json.loads(line)
    match rng.randrange(10):
        case 0:
            new = [*lines[:place], *rest]
        case 1:
            added = json.dumps(json.loads(lines[other]) | {"hour": 472_223}, separators=(",", ":")).encode()
            new = [*lines[:place], added, *lines[place:]]
        case 2:
            new = [*lines[:place], line, line, *rest]
        case 3:
            new = [*lines[:place], lines[other], *lines[place + 1 : other], line, *lines[other + 1 :]]
        case 4:
            middle = lines[place : other + 1]
            rng.shuffle(middle)
            new = [*lines[:place], *middle, *lines[other + 1 :]]
        case 5:
            names = [("m0", "m1"), ("m2", "m3"), ("voter1", "ann"), ("p0", "p1"), ('"A"', '"B"')]
            one, two = (name.encode() for name in rng.choice(names))
            swapped = (row.replace(one, b"#").replace(two, one).replace(b"#", two) for row in lines[place:])
            new = [*lines[:place], *swapped]
        case 6:
            new = [*lines[:place], line[: rng.randrange(len(line))], *rest]
        case 7:
            new = lines[:place]
        case 8:
            at = rng.randrange(len(line))
            new = [*lines[:place], line[:at] + bytes([rng.randrange(32, 127)]) + line[at + 1 :], *rest]
        case _:
            kinds = {"choice": rng.choice("AB"), "hour": 472_300, "voter": "v", "text": "0" * 64}
            changed = {key: new for key, new in kinds.items() if key in value}
            new = [*lines[:place], json.dumps(value | changed, separators=(",", ":")).encode(), *rest]
    end = min(len(lines), len(new))
    return new, next((n for n in range(end) if lines[n] != new[n]), end)


def test_no_edit_of_a_row_up_to_a_kept_head_passes(honest: tuple[Lines, Head], accepts: Callable[[Lines], str]) -> None:
    """Edits at random, with all hashes made anew; and without a kept head the words cover what passes."""
    lines, kept = honest
    rng, passed, alone = random.Random(51), 0, 0
    for _ in range(EDITS):
        new, first = edited(lines, rng)
        if new == lines:
            continue
        forged = made_to_fit(new)
        found = wrong(forged, kept)
        if first <= kept.rows:
            assert found, (first, new[first] if first < len(new) else "cut")
        passed += not found
        if not wrong(forged):
            alone += 1
            assert "Whoever wrote it could have invented, changed or left out votes" in check(forged).conclusion
        if not lines[first].startswith(b'{"kind":"settings"'):  # the short program reads no policy
            assert bool(accepts(forged)) == (not wrong(forged)), (first, wrong(forged))
    assert passed > EDITS / 15, "what came after the kept head is the operator's word"
    assert alone > passed


def test_a_witness_that_contradicts_itself_ends_in_3(honest: tuple[Lines, Head], tmp_path: Path, tiltyard: Run) -> None:
    lines, kept = honest
    file = tmp_path / "witness.jsonl"
    file.write_bytes(b"\n".join(made_to_fit(doubled_key(lines))) + b"\n")
    told = tiltyard("verify", str(file))
    assert (told.returncode, "a key may be there twice" in told.stdout) == (3, True)
    assert "agrees with itself" not in told.stdout
    file.write_bytes(b"\n".join(made_to_fit(with_row(lines, row_of(lines, "vote"), choice="TIE"))) + b"\n")
    assert tiltyard("verify", str(file)).returncode == 0
    assert tiltyard("verify", str(file), "--head", str(kept)).returncode == 3


def test_a_receipt_says_all_that_its_voter_can_compare(
    honest: tuple[Lines, Head], tmp_path: Path, tiltyard: Run
) -> None:
    """Which answer could not be shown, and a weight to its last digit."""
    place, file = row_of(honest[0], "vote"), tmp_path / "witness.jsonl"
    name = json.loads(honest[0][place])["receipt"]
    lines = weights(with_row(honest[0], place, unrendered="B", choice="A"), lambda found: {**found, name: 0.9999})
    file.write_bytes(b"\n".join(made_to_fit(lines)) + b"\n")
    told = tiltyard("verify", str(file), "--receipt", f"{name}=A")
    assert told.returncode == 0, told.stdout
    assert f"your vote {name}: A (B could not be shown), where A was" in told.stdout
    assert "weight 0.9999\n" in told.stdout
    for odd in (f"{name}=a", f"{name}=", "", "=A"):
        told = tiltyard("verify", str(file), "--receipt", odd)
        assert (told.returncode, "--receipt" in told.stderr, told.stdout) == (1, True, "")


def test_another_title_in_a_signed_head_is_told(honest: tuple[Lines, Head]) -> None:
    header, *rows = honest[0]
    weights = hashlib.sha256(rows[-1]).hexdigest()
    found = check(honest[0]).values
    for title in ("Test", "Other"):
        stated = Statement(
            head=found["head"], at="2026-01-01T00:00:00Z", title=title, votes=found["votes"], weights=weights
        )
        shown = json.loads(header) | {"statement": msgspec.to_builtins(signed(stated, new_key()[0]))}
        told = check([json.dumps(shown, separators=(",", ":")).encode(), *rows])
        assert told.problems == []
        assert any("titled “Other”" in line for line in told.messages) == (title == "Other")


def test_a_head_is_its_signature_too_and_counts_its_own_votes(honest: tuple[Lines, Head]) -> None:
    """One that is shown beside the same of a good signature; and votes that are stated at an earlier row."""
    lines, kept = honest
    newest, (pem, key) = check(lines).values["head"], new_key()
    votes = sum(line.startswith(b'{"kind":"vote"') for line in lines[: kept.rows + 1])
    weights = hashlib.sha256(lines[-1]).hexdigest()
    good = signed(Statement(head=newest, at="2026-01-01T00:00:00Z", weights=weights), pem)

    def found(*shown: HeadFile) -> list[str]:
        return check_witness([line + b"\n" for line in lines], "it", KeptProof(keys=[key]), shown).problems

    assert found(good, good) == []
    assert "the signature of the head is not by" in found(good, msgspec.structs.replace(good, signature="AAAA"))[0]
    assert "not by the key that was given" in found(signed(good.stated, new_key()[0]), good)[0]
    for more in (0, 5):
        early = Statement(head=str(kept), at="2026-01-01T00:00:00Z", votes=votes - 1 + more)
        assert len(found(good, signed(early, pem))) == bool(more)


@pytest.mark.parametrize("with_board", [True, False])
@pytest.mark.parametrize("more", [0, 1_800])
def test_a_signed_head_counts_the_votes_of_its_rows(honest: tuple[Lines, Head], more: int, with_board: bool) -> None:
    lines, _ = honest
    found = check(lines).values
    statement = Statement(
        head=found["head"],
        at="2026-01-01T00:00:00Z",
        board=tuple((row["model"], row["rating"], row["deviation"]) for row in found["board"] if with_board),
        votes=found["votes"] + more,
        weights=hashlib.sha256(lines[-1]).hexdigest(),
    )
    problems = check_witness(
        [line + b"\n" for line in lines], "w", KeptProof(heads=[signed(statement, new_key()[0])])
    ).problems
    assert len(problems) == bool(more), problems
    assert all("counted votes, and its rows have" in problem for problem in problems)
