"""Boards of a publisher who cheats: nothing that a reader sees differs from its battles and ends in 0 unsaid."""

from __future__ import annotations

import gzip
import json
import random
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from published_folders import check, everything, made_anew, plain, world, write_rows
from tests.sizes import size
from typer.testing import CliRunner

from tiltyard import publish
from tiltyard.arena import Choice
from tiltyard.arena import events as e
from tiltyard.arena.store import Store
from tiltyard.cli.main import make_app
from tiltyard.errors import OptionError, TiltyardError
from tiltyard.verbs.publish import PublishedFolder

from tests.site.sites import small_site  # isort: skip

Change = Callable[[Path], None]


def verify(*arguments: str) -> Any:
    return CliRunner().invoke(make_app("verify"), ["verify", *arguments])


def copied(folder: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(folder, tmp_path / "copy"))


def manifest(change: Callable[[dict[str, Any]], object]) -> Change:
    """Change what the manifest says."""

    def carry_out(folder: Path) -> None:
        path = folder / "published.json"
        said = json.loads(path.read_bytes())
        change(said)
        path.write_text(json.dumps(said, indent=1), encoding="utf-8")

    return carry_out


def in_file(name: str, one: str, other: str) -> Change:
    """Write one text instead of another in a file."""

    def carry_out(folder: Path) -> None:
        text = (folder / name).read_text("utf-8")
        assert one in text
        (folder / name).write_text(text.replace(one, other), encoding="utf-8")

    return carry_out


def written(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")


def without_battles(folder: Path) -> None:
    for name in ("battles.jsonl", "battles.parquet", "battles.cols"):
        (folder / name).unlink()
    board = json.loads((folder / "board.json").read_bytes())
    board["ratings"][0]["rating"] = 9999.0
    (folder / "board.json").write_text(json.dumps(board), encoding="utf-8")
    in_file("index.html", "</h1>", " 9999</h1>")(folder)


def another_picture(folder: Path) -> None:
    shutil.copy(folder / "share" / "board.png", next((folder / "share").glob("model-1*.png")))


def second_index(folder: Path) -> None:
    (folder / "index.htm").write_text("9999", encoding="utf-8")
    (folder / ".htaccess").write_text("DirectoryIndex index.htm", encoding="utf-8")


FORGERIES: dict[str, Change] = {
    "battle files taken out, a rating of 9999": without_battles,
    "no boards, another writer": manifest(lambda said: said.update(boards=[], writer="another")),
    "no boards": manifest(lambda said: said.update(boards=[])),
    "a list of what is not recomputed": manifest(lambda said: said.update(not_recomputed=["index.html"])),
    "4,000,000 battles": manifest(lambda said: said.update(battles=4e6)),
    "a note": manifest(lambda said: said.update(notes=["Audited"])),
    "the date 2030": manifest(lambda said: said.update(updated="2030-01-01T00:00:00Z")),
    "another level": manifest(lambda said: said["rules"].update(level=0.9)),
    "a level that makes everybody best": manifest(lambda said: said["rules"].update(level=0.01)),
    "rivals left out": manifest(lambda said: said["rules"].update(min_battles=90.0)),
    "names of models": lambda folder: (
        (folder / "models.json").write_text('{"model 1": "Best"}', encoding="utf-8") and None
    ),
    "another title": manifest(lambda said: said.update(title="Other")),
    "another address": manifest(lambda said: said.update(url="https://example.org/other/")),
    "blind or not": manifest(lambda said: said.update(blind=False)),
    "something is missing": manifest(lambda said: said.update(missing="1 of 2 has no verdict.")),
    "a key that is unknown": manifest(lambda said: said.update(audited_by="us")),
    "an arena without its witness": manifest(lambda said: said.update(source="arena")),
    "another picture": another_picture,
    "a page that is called a picture": lambda folder: (folder / "share" / "board.png").write_text("<html>9999"),
    "a second index": second_index,
    "a name on a page": in_file("index.html", "model 1", "model 9"),
    "a number with decimals on a page": in_file("methods.html", "400 points", "400.0 points"),
    "a longer number behind a figure": lambda folder: (folder / "index.html").write_bytes(
        re.sub(rb'(<data value="\d+\.\d+)', rb"\g<1>000", (folder / "index.html").read_bytes(), count=1)
    ),
    "an empty folder": lambda folder: (folder / "Audited by NIST").mkdir(),
}
OF_PARTS_AND_PICTURES = {
    "battle files taken out, a rating of 9999",
    *("no boards", "no boards, another writer", "another address", "another title"),
    *("another picture", "a page that is called a picture"),
}
"""What only a folder with boards of parts and with pictures has; the others are tried on one with few pages."""


@pytest.mark.parametrize("name", FORGERIES)
def test_whoever_cheats_and_makes_all_hashes_anew_is_found(
    published: PublishedFolder, small: PublishedFolder, tmp_path: Path, name: str
) -> None:
    folder = copied((published if name in OF_PARTS_AND_PICTURES else small).folder, tmp_path)
    FORGERIES[name](folder)
    made_anew(folder)
    done = verify(str(folder))
    assert done.exit_code == 3, done.output
    assert "does NOT agree" in done.stdout
    assert "agrees with itself" not in done.stdout


def test_what_only_its_operator_knows_is_always_said(tmp_path: Path) -> None:
    rows = write_rows(tmp_path / "rows.jsonl", [*plain(90), {"model_a": "x"}])
    options = ("--title", "Birds of 2030", "--on-bad", "skip", "--ties", "half", "--min-battles", "7")
    done = CliRunner().invoke(make_app("publish"), ["publish", str(rows), str(tmp_path / "site"), *options])
    assert done.exit_code == 0, done.output
    said = verify(str(tmp_path / "site"))
    assert said.exit_code == 0, said.output
    for words in (
        "title: Birds of 2030",
        "note: 1 rows were left out",
        "ties: half",
        "models with fewer than 7 battles",
    ):
        assert words in said.stdout
    assert "Whoever published it could have changed the battles." in said.stdout
    assert "verified" not in said.stdout


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"title": "a\x1b[2Jb"}, "nobody sees"),
        ({"title": "a\u202eb"}, "nobody sees"),
        ({"title": " "}, "a title is needed"),
        ({"url": "javascript:alert(1)"}, "has to begin with https"),
        ({"url": 'https://example.org/"><script>'}, "has to begin with https"),
    ],
)
def test_words_that_are_not_plain_words_are_published_by_nobody(
    plain_file: Path, tmp_path: Path, options: dict[str, str], told: str
) -> None:
    with pytest.raises(Exception, match=told):
        publish(plain_file, tmp_path / "site", **options)


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("model 1\u200b", "model 1\\u200b"),
        ("model 1\U000e0100", ""),
        ("model\u2065 1", ""),
        ("model\t1", ""),
        ("model\u2800 1", ""),
        ("mo\u034fdel 1", ""),
        ("mo\ufe0fdel 1", ""),
        ("model\u31641", ""),
        ("mo\u3164del 1", ""),
        ("model 1\U0001d159", ""),
        ("\u3164model 1", ""),
        ("ｍodel 1", ""),
        ("\u3164", ""),
    ],
)
def test_names_that_nobody_can_tell_apart_are_neither_published_nor_agree(
    plain_file: Path, tmp_path: Path, name: str, shown: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = plain(90)
    for row in rows[:60]:
        row["model_a"], row["model_b"] = (
            name if row[side] == "model 2" else row[side] for side in ("model_a", "model_b")
        )
    source = write_rows(tmp_path / "rows.jsonl", rows)
    with pytest.raises(OptionError, match=r"two names look alike: |nobody sees the name"):
        publish(source, tmp_path / "site")
    monkeypatch.setattr("tiltyard.reports.publish.publication.look_alikes", lambda names: iter(()))
    folder = publish(source, tmp_path / "site").folder
    monkeypatch.undo()
    done = verify(str(folder))
    assert done.exit_code == 3
    assert ascii(name)[1:-1] in done.stdout
    assert shown in done.stdout


def test_dimensions_that_nobody_can_tell_apart_do_not_agree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for names in (("tone", "tone\u200b"), ("tone", "reach\u202e")):
        rows = [{**row, "dimension": names[number % 2]} for number, row in enumerate(plain(80))]
        source = write_rows(tmp_path / "rows.jsonl", rows)
        with monkeypatch.context() as cheating:
            cheating.setattr("tiltyard.reports.publish.publication.look_alikes", lambda names: iter(()))
            folder = publish(source, tmp_path / "site").folder
        done = verify(str(folder))
        assert (done.exit_code == 3) == (names[1] == "tone\u200b"), done.output
        assert ascii(names[1]) in done.stdout


def test_rules_are_told_to_their_last_digit(plain_file: Path, tmp_path: Path) -> None:
    done = verify(
        str(publish(plain_file, tmp_path / "site", anchor=("model 1", 1200.0004), min_battles=10.00001).folder)
    )
    assert done.exit_code == 0, done.output
    assert "model 1 is at 1200.0004" in done.stdout
    assert "fewer than 10.00001 battles" in done.stdout


def test_a_single_name_with_a_letter_that_nobody_sees_is_shown(tmp_path: Path) -> None:
    rows = [
        {**row, "model_a": row["model_a"].replace("1", "1\u202e"), "model_b": row["model_b"].replace("1", "1\u202e")}
        for row in plain(90)
    ]
    done = verify(str(publish(write_rows(tmp_path / "rows.jsonl", rows), tmp_path / "site").folder))
    assert done.exit_code == 0, done.output
    assert "a name with letters that nobody sees: 'model 1\\u202e'" in done.stdout


def test_a_link_is_not_followed_and_a_problem(small: PublishedFolder, tmp_path: Path) -> None:
    folder, elsewhere = copied(small.folder, tmp_path), tmp_path / "elsewhere.html"
    (folder / "methods.html").rename(elsewhere)
    (folder / "methods.html").symlink_to(elsewhere)
    (folder / "more").symlink_to(tmp_path)
    done = verify(str(folder))
    assert done.exit_code == 3
    assert "WRONG: methods.html is missing" in done.stdout
    assert "WRONG: more is a symbolic link, which is not followed" in done.stdout
    real = copied(small.folder, tmp_path / "two")
    (tmp_path / "published").symlink_to(real)
    assert verify(str(tmp_path / "published")).exit_code == 0, "the reader may name a folder by a link"


@pytest.mark.parametrize("option", ["--head", "--key"])
def test_a_head_or_key_is_what_its_shape_says_and_no_file_of_the_folder(
    arena: PublishedFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, option: str
) -> None:
    folder = copied(arena.folder, tmp_path)
    head = f"{'0' * 64}@3"
    (folder / head).write_text((folder / "head.json").read_text("utf-8") if (folder / "head.json").exists() else "x")
    monkeypatch.chdir(folder)
    done = verify(str(folder), "--besides", head, "--head", head)
    assert done.exit_code == 3
    assert "not that of the head" in done.stdout
    told = verify(str(folder), option, f"@{folder / 'witness.jsonl.gz'}")
    assert told.exit_code == 2 or "is in the folder that is checked" in str(told.exception)


@pytest.fixture(scope="module")
def arena(tmp_path_factory: pytest.TempPathFactory) -> PublishedFolder:
    """A published arena with some votes."""
    url = f"sqlite:///{tmp_path_factory.mktemp('arena') / 'arena.db'}"
    Store.create(url).close()
    with small_site(url) as made:
        for number in range(24):
            voter = f"voter-{number % 5}"
            served = made.arena.serve(voter)
            made.arena.vote(served.matchup_id, voter, Choice.A if number % 3 else Choice.B)
        made.arena.append([e.PhaseChanged(phase=4), e.PromptDisabled(prompt_id="p2")])
    return publish(url, tmp_path_factory.mktemp("published") / "site", title="Arena", texts=True)


def swapped_names(folder: Path) -> None:
    names = json.loads((folder / "models.json").read_bytes())
    one, other, *_ = names
    names[one], names[other] = names[other], names[one]
    (folder / "models.json").write_text(json.dumps(names), encoding="utf-8")


ARENA: dict[str, Change] = {
    "display names swapped": swapped_names,
    "a dimension added": lambda folder: dimension_added(folder),
    "the witness removed, still an arena": lambda folder: (folder / "witness.jsonl.gz").unlink(),
    "the witness removed, battles": lambda folder: [  # type: ignore[return-value]
        (folder / "witness.jsonl.gz").unlink(),
        manifest(lambda said: said.update(source="battles"))(folder),
    ],
    "a level": manifest(lambda said: said["rules"].update(level=0.5)),
    "not the largest group": manifest(lambda said: said["rules"].update(only_connected=False)),
    "a mean of its own": manifest(lambda said: said["rules"].update(centre=9000.0)),
    "a mean beside which no rating counts": manifest(lambda said: said["rules"].update(centre=1e12)),
    "blind": manifest(lambda said: said.update(blind=False)),
    "a note": manifest(lambda said: said.update(notes=["Audited"])),
    "a text of a prompt that is open": lambda folder: written(folder / "prompts.json", '{"p0": "What?"}'),
}


def dimension_added(folder: Path) -> None:
    """The leader's wins are another dimension, and all is published anew."""
    rows = [json.loads(line) for line in (folder / "battles.jsonl").read_bytes().splitlines()]
    for row in rows:
        row["dimension"] = "won" if row["winner"] == "model_a" else "lost"
    other = publish(write_rows(folder.parent / "rows.jsonl", rows), folder.parent / "other", title="Arena")
    for name, data in everything(other.folder).items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(data)
    manifest(lambda said: said.update(source="arena"))(folder)


@pytest.mark.parametrize("name", ARENA)
def test_an_arena_is_what_its_witness_says(arena: PublishedFolder, tmp_path: Path, name: str) -> None:
    assert check(arena.folder).problems == []
    folder = copied(arena.folder, tmp_path)
    ARENA[name](folder)
    made_anew(folder)
    done = verify(str(folder))
    assert done.exit_code == 3, done.output
    assert "does NOT agree" in done.stdout


def test_a_file_far_too_long_is_not_read_and_an_empty_fingerprint_is_none(
    small: PublishedFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "is no fingerprint" in str(verify(str(small.folder), "--fingerprint", "").exception)
    folder = copied(small.folder, tmp_path)
    with (folder / "methods.html").open("ab") as file:
        file.truncate(1_000_000_000)
    read = Path.read_bytes
    monkeypatch.setattr(
        Path, "read_bytes", lambda path: pytest.fail("read") if path.name == "methods.html" else read(path)
    )
    done = verify(str(folder))
    assert (done.exit_code, "methods.html is far longer" in done.stdout) == (3, True)


@pytest.mark.parametrize("name", ["battles.jsonl", "published.json"])
def test_what_is_long_and_empty_is_not_read(small: PublishedFolder, tmp_path: Path, name: str) -> None:
    folder = copied(small.folder, tmp_path)
    with (folder / name).open("ab") as file:
        file.truncate(1 << 40)
    done = verify(str(folder))
    assert done.exit_code in (1, 3)
    assert name in done.stdout + str(done.exception)
    assert isinstance(done.exception, TiltyardError | SystemExit)


def test_titles_of_models_are_their_operators_words(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'arena.db'}"
    Store.create(url).close()
    with small_site(url) as made:
        made.arena.append([e.ModelAdded(model="eps", display_name="Zeta Two")])
        for number in range(24):
            served = made.arena.serve(f"voter-{number % 5}")
            made.arena.vote(served.matchup_id, f"voter-{number % 5}", Choice.A if number % 3 else Choice.B)
        made.arena.append([e.PhaseChanged(phase=4), e.ModelAdded(model="m1", display_name="Eps One")])
        site = publish(url, tmp_path / "site", title="Arena").folder
        said = verify(str(site))
        assert said.exit_code == 0, said.output
        assert "title of eps: Zeta Two\n" in said.stdout
        assert "title of m1: Eps One\n" in said.stdout
        made.arena.append([e.ModelAdded(model="m1", display_name="Zeta Two")])
        with pytest.raises(OptionError, match="two names look alike: 'Zeta Two' and 'Zeta Two'"):
            publish(url, tmp_path / "twice", title="Arena")


def test_a_bomb_and_a_line_without_end_are_refused(
    arena: PublishedFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tiltyard.reports.publish.fetching.MOST_LINE", 100_000)
    folder = copied(arena.folder, tmp_path)
    (folder / "witness.jsonl.gz").write_bytes(gzip.compress(b"0" * 200_000))
    made_anew(folder)
    assert verify(str(folder)).exit_code == 3
    assert "Do not trust it" in check(folder).problems[0]
    monkeypatch.setattr(
        "tiltyard.reports.publish.fetching.MOST_BYTES", 1_000
    )  # what is honest is more when it is unpacked
    assert "more than 1,000 in all. Do not trust it" in check(arena.folder).problems[0]


# Random edits

KINDS = ("drop", "add", "double", "swap", "reorder", "rename", "truncate")


def parts(data: bytes, rng: random.Random) -> tuple[bytes, list[bytes]]:
    """The data cut at line breaks, at tags or at commas, whatever there is, and what joins them."""
    for joint in rng.sample([b"\n", b">", b","], 3):
        pieces = data.split(joint)
        if len(pieces) > 3:
            return joint, pieces
    return b"", [data[at : at + 1] for at in range(len(data))]


def edited(data: bytes, kind: str, rng: random.Random) -> bytes:
    """The data with one thing done to some part of it."""
    joint, pieces = parts(data, rng)
    i, j = sorted(rng.sample(range(len(pieces)), 2)) if len(pieces) > 1 else (0, 0)
    if kind == "drop":
        del pieces[i]
    elif kind == "add":
        pieces.insert(i, pieces[j][:40] + b"x")
    elif kind == "double":
        pieces.insert(i, pieces[i])
    elif kind == "swap":
        pieces[i], pieces[j] = pieces[j], pieces[i]
    elif kind == "reorder":
        middle = pieces[i : j + 1]
        rng.shuffle(middle)
        pieces[i : j + 1] = middle
    elif kind == "truncate":
        return data[: rng.randrange(len(data))] if data else b""
    else:
        letters = [at for at, byte in enumerate(pieces[i]) if chr(byte).isalnum()]
        if letters:
            at = rng.choice(letters)
            pieces[i] = pieces[i][:at] + rng.choice([b"7", b"q", b"A", b"0"]) + pieces[i][at + 1 :]
    return joint.join(pieces)


def edit_folder(folder: Path, kind: str, rng: random.Random) -> None:
    """Do one thing to a file, or to the list of files."""
    names = sorted(everything(folder))
    name = rng.choice(names)
    if rng.random() < 0.8 or name == "published.json":
        (folder / name).write_bytes(edited((folder / name).read_bytes(), kind, rng))
    elif kind in ("drop", "truncate"):
        (folder / name).unlink()
    elif kind in ("add", "double"):
        shutil.copy(folder / name, folder / f"{name}.html")
    elif kind == "rename":
        (folder / name).rename(folder / f"{name}x")
    else:
        other = rng.choice([one for one in names if one != "published.json"])
        data = (folder / name).read_bytes()
        (folder / name).write_bytes((folder / other).read_bytes())
        (folder / other).write_bytes(data)


def random_edits(folder: Path, tmp_path: Path, each: int) -> Iterator[tuple[str, Path]]:
    """A copy of the folder after each edit that changed something; hashes are made anew where the manifest is one."""
    before = everything(folder)
    for kind in KINDS:
        for number in range(each):
            rng = random.Random(f"{kind} {number}")
            copy = Path(shutil.copytree(folder, tmp_path / "edited"))
            edit_folder(copy, kind, rng)
            with suppress(ValueError, KeyError, TypeError, FileNotFoundError):  # no manifest is left, or none to read
                made_anew(copy)
            if everything(copy) != before:
                yield f"{kind} {number}", copy
            shutil.rmtree(copy)


@pytest.mark.parametrize("source", ["battles", "arena"])
def test_no_random_edit_of_a_board_agrees(
    small: PublishedFolder, arena: PublishedFolder, tmp_path: Path, source: str
) -> None:
    tried = 0
    folder = small.folder if source == "battles" else arena.folder
    for name, copy in random_edits(folder, tmp_path, size(3, soak=300)):
        tried += 1
        done = verify(str(copy))
        assert done.exit_code in (1, 2, 3), f"{name}: {done.output}"
        assert "Traceback" not in done.output
        assert done.exit_code == 3 or done.exception is not None
        assert not isinstance(done.exception, AssertionError | KeyError | IndexError | ValueError), (
            name,
            done.exception,
        )
    assert tried > 2 * len(KINDS)


def test_the_same_world_with_parts_and_pictures_agrees(tmp_path: Path) -> None:
    source = write_rows(tmp_path / "rows.jsonl", [{**row, "weight": 1.25} for row in world(200)])
    done = publish(source, tmp_path / "site", url="https://example.org/x")
    assert check(done.folder).problems == []


def test_an_empty_key_is_no_key(arena: PublishedFolder, tmp_path: Path) -> None:
    (tmp_path / "empty.txt").write_text("\n", encoding="utf-8")
    for key in ("", f"@{tmp_path / 'empty.txt'}"):
        done = verify(str(arena.folder), "--key", key)
        assert "holds no key" in str(done.exception)


def test_a_parquet_file_of_another_writer_is_not_said_to_be_compared(
    published: PublishedFolder, tmp_path: Path
) -> None:
    folder = copied(published.folder, tmp_path)
    there = (folder / "battles.parquet").read_bytes()
    made = re.sub(rb"DuckDB version v(\d)", lambda found: b"DuckDB version v" + bytes([found[1][0] ^ 1]), there)
    assert made != there
    (folder / "battles.parquet").write_bytes(made)
    made_anew(folder)
    done = verify(str(folder))
    assert done.exit_code == 3, done.output
    assert "agrees with itself" not in done.stdout
