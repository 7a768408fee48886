"""What was said in a battle, however it is written down, and never of another row."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from battle_rows import same, write_raw
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.sizes import size

from tiltyard.data.battles import Dialogue, MissingText, read_battles, read_conversations, read_dialogue
from tiltyard.errors import BadRow, BattleError, NoBattles, OptionError

KINDS = ("jsonl", "jsonl.gz", "json", "csv", "csv.gz", "tsv", "parquet")
SOME_KINDS = pytest.mark.parametrize(
    "kind",
    [
        pytest.param(kind, marks=[] if kind in ("jsonl.gz", "json", "csv", "parquet") else [pytest.mark.soak])
        for kind in KINDS
    ],
)
"""One kind of file for each way of reading in every run, every kind in a soak."""


def user(content: object) -> dict[str, Any]:
    return {"role": "user", "content": content}


def reply(content: object) -> dict[str, Any]:
    return {"role": "assistant", "content": content}


def part(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text, "image": None}


IMAGE = {"type": "image", "text": None, "image": "a.png"}


@pytest.mark.parametrize(
    ("conversation", "first", "whole"),
    [
        ([user("Hi?"), reply("Ho.")], Dialogue(("Hi?",), ("Ho.",)), None),
        (json.dumps([user("Hi?"), reply("Ho.")]), Dialogue(("Hi?",), ("Ho.",)), None),
        ([user([part("Hi"), part("there?")]), reply([part("Ho.")])], Dialogue(("Hi\nthere?",), ("Ho.",)), None),
        ([{"role": "system", "content": "Be kind."}, user("Hi?"), reply("Ho.")], Dialogue(("Hi?",), ("Ho.",)), None),
        ([reply("Welcome!"), user("Hi?"), reply("Ho.")], Dialogue(("Hi?",), ("Ho.",)), None),
        ([user("Hi?"), reply("Ho."), user("And?")], Dialogue(("Hi?",), ("Ho.",)), None),
        ([user("Hi"), user("there?"), reply("Ho"), reply("ho.")], Dialogue(("Hi\n\nthere?",), ("Ho\n\nho.",)), None),
        (
            [user("Hi?"), reply("Ho."), user("And?"), reply("So.")],
            Dialogue(("Hi?",), ("Ho.",)),
            Dialogue(("Hi?", "And?"), ("Ho.", "So.")),
        ),
        (
            [user("Hi?"), reply("Ho."), user([IMAGE]), reply("So.")],
            Dialogue(("Hi?",), ("Ho.",)),
            MissingText.NOT_ONLY_TEXT,
        ),
        ([user("Hi?"), reply("Ho."), user("And?"), reply("")], Dialogue(("Hi?",), ("Ho.",)), MissingText.NO_TEXT),
        ([user([IMAGE]), reply("Nice.")], MissingText.NOT_ONLY_TEXT, None),
        ([user([part("What is this?"), IMAGE]), reply("Nice.")], MissingText.NOT_ONLY_TEXT, None),
        ([user("Hi?")], MissingText.NO_TEXT, None),
        ([reply("Ho.")], MissingText.NO_TEXT, None),
        ([user("Hi?"), reply(" ")], MissingText.NO_TEXT, None),
        ([user(None), reply("Ho.")], MissingText.NO_TEXT, None),
        ([], MissingText.NO_TEXT, None),
        (None, MissingText.NO_TEXT, None),
        ("", MissingText.NO_TEXT, None),
        ("Hi? Ho.", MissingText.UNREADABLE, None),
        ('{"role": "user"}', MissingText.UNREADABLE, None),
        (["Hi?", "Ho."], MissingText.UNREADABLE, None),
        (7, MissingText.UNREADABLE, None),
    ],
)
def test_a_conversation_is_its_turns_or_a_reason_why_there_are_none(
    conversation: object, first: Dialogue | MissingText, whole: Dialogue | MissingText | None
) -> None:
    assert read_dialogue(conversation, "first") == first
    assert read_dialogue(conversation, "all") == (first if whole is None else whole)


TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), min_size=1, max_size=12).filter(str.strip)


@given(asked=TEXTS, replied=TEXTS)
def test_of_a_single_turn_the_first_turn_is_all(asked: str, replied: str) -> None:
    messages = [user(asked), reply(replied)]

    assert read_dialogue(messages, "first") == read_dialogue(messages, "all") == Dialogue((asked,), (replied,))
    assert read_dialogue(json.dumps(messages), "all") == Dialogue((asked,), (replied,))


def row(number: int, winner: str | None = "model_a", **more: Any) -> dict[str, Any]:
    """A row whose texts carry its number."""
    return {
        "question_id": f"q{number}",
        "model_a": "otter",
        "model_b": "heron",
        "winner": winner,
        "conversation_a": [user(f"Ask {number}"), reply(f"A says {number}")],
        "conversation_b": [user(f"Ask {number}"), reply(f"B says {number}")],
    } | more


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    """Rows in a file of any kind; where a cell cannot hold a list, the conversation is a JSON text."""
    if path.name.endswith(".json"):
        path.write_bytes(msgspec.json.encode(rows))
        return path
    if "csv" in path.name or "tsv" in path.name:
        rows = [
            {key: json.dumps(value) if isinstance(value, list) else value for key, value in r.items()} for r in rows
        ]
    return write_raw(path, rows)


@SOME_KINDS
def test_texts_stay_with_their_battle_when_bad_rows_are_skipped(kind: str, tmp_path: Path) -> None:
    words = ["model_a", "nobody", "tie", None, "model_b", "nobody", "both_bad"]
    path = write(tmp_path / f"arena.{kind}", [row(number, word) for number, word in enumerate(words)])

    said = read_conversations(path, on_bad="skip")

    assert same(said.battles, read_battles(path, on_bad="skip", columns=["question_id", "language"]))
    assert dict(said.battles.skipped) == {"missing winner": 1, "unknown winner": 2}
    dialogues = said.dialogues([3, 0, 2, 1])
    for battle, number in enumerate([0, 2, 4, 6]):
        expected = (
            Dialogue((f"Ask {number}",), (f"A says {number}",)),
            Dialogue((f"Ask {number}",), (f"B says {number}",)),
        )
        assert dialogues[battle] == expected
    assert not said.missing.any()


@SOME_KINDS
def test_a_bad_row_stops_the_reading_with_its_place(kind: str, tmp_path: Path) -> None:
    path = write(tmp_path / f"arena.{kind}", [row(1), row(2, "nobody")])

    with pytest.raises(BadRow) as caught:
        read_conversations(path)
    with pytest.raises(BadRow) as of_battles:
        read_battles(path)

    assert str(caught.value) == str(of_battles.value)


def test_a_broken_line_is_skipped_and_the_lines_after_it_keep_their_texts(tmp_path: Path) -> None:
    path = write_raw(tmp_path / "arena.jsonl", [row(1), row(2), row(3)])
    first, second, third = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"\xef\xbb\xbf" + first + b"\n" + second[:20] + b"\n   \n" + third)

    said = read_conversations(path, on_bad="skip")

    assert dict(said.battles.skipped) == {"broken line": 1}
    assert [said.place(0), said.place(1)] == [f"{path}:1", f"{path}:5"]
    assert said.dialogues([0, 1])[1][0] == Dialogue(("Ask 3",), ("A says 3",))
    assert said.dialogues([0])[0][0] == Dialogue(("Ask 1",), ("A says 1",))


@pytest.mark.parametrize(
    "kinds",
    [
        ("jsonl", "parquet", "csv.gz"),
        *(pytest.param(kinds, marks=pytest.mark.soak) for kinds in (("parquet", "parquet"), ("jsonl", "jsonl"))),
    ],
)
def test_several_files_are_one_arena_and_every_row_knows_its_file(kinds: tuple[str, ...], tmp_path: Path) -> None:
    paths = [
        write(tmp_path / f"part{at}.{kind}", [row(10 * at), row(10 * at + 1, "nobody"), row(10 * at + 2)])
        for at, kind in enumerate(kinds)
    ]

    said = read_conversations(paths, on_bad="skip")
    dialogues = said.dialogues(range(2 * len(kinds)))

    assert said.battles.text_column("question_id").texts() == [
        f"q{10 * at + k}" for at in range(len(kinds)) for k in (0, 2)
    ]
    for at, path in enumerate(paths):
        assert said.place(2 * at).startswith(str(path))
        assert dialogues[2 * at + 1] == (
            Dialogue((f"Ask {10 * at + 2}",), (f"A says {10 * at + 2}",)),
            Dialogue((f"Ask {10 * at + 2}",), (f"B says {10 * at + 2}",)),
        )


@pytest.mark.parametrize("kind", ["jsonl", "parquet", "csv"])
def test_rows_without_text_are_battles_all_the_same(kind: str, tmp_path: Path) -> None:
    rows = [row(1), row(2, conversation_a=None), row(3, conversation_b=[])]
    said = read_conversations(write(tmp_path / f"arena.{kind}", rows))

    assert len(said.battles) == 3
    assert said.missing.tolist() == [[0, 0], [MissingText.NO_TEXT, 0], [0, MissingText.NO_TEXT]]
    assert (said.asked == 0).tolist() == [[False, False], [True, False], [False, True]]
    assert said.dialogues([1])[1] == (None, Dialogue(("Ask 2",), ("B says 2",)))


@pytest.mark.parametrize("kind", ["jsonl", "parquet", "csv"])
def test_a_file_without_conversations_has_battles_and_no_text(kind: str, tmp_path: Path) -> None:
    bare = [{"model_a": "otter", "model_b": "heron", "winner": "tie"}]
    said = read_conversations(write(tmp_path / f"arena.{kind}", bare))

    assert said.missing.tolist() == [[MissingText.NO_TEXT, MissingText.NO_TEXT]]


def test_fingerprints_are_equal_where_texts_are(tmp_path: Path) -> None:
    twin = row(1, question_id="q9")
    said = read_conversations(write(tmp_path / "arena.jsonl", [row(1), row(2), twin]))

    assert (said.asked[0] == said.asked[2]).all()
    assert (said.replied[0] == said.replied[2]).all()
    assert len(np.unique(said.asked)) == 2
    assert len(np.unique(said.replied)) == 4


def test_options_that_make_no_sense_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "arena.jsonl", [row(1)])
    for options in ({"turns": "last"}, {"on_bad": "guess"}, {"format": "chess"}):
        with pytest.raises(OptionError):
            read_conversations(path, **options)  # type: ignore[arg-type]
    with pytest.raises(NoBattles, match="unknown winner"):
        read_conversations(write(tmp_path / "bad.jsonl", [row(1, "nobody")]), on_bad="skip")
    with pytest.raises(BattleError, match="no file"):
        read_conversations(tmp_path / "absent.jsonl")


WORDS = st.sampled_from(["model_a", "model_b", "tie", "tie (bothbad)", "nobody", None])
SETTINGS = settings(max_examples=size(2, soak=20))


@pytest.mark.parametrize("kind", ["jsonl", "csv", "parquet"])
@SETTINGS
@given(words=st.lists(WORDS, min_size=1, max_size=12))
def test_battles_are_those_of_read_battles_and_talks_those_of_their_row(kind: str, words: list[str | None]) -> None:
    words = ["tie", *words]
    with tempfile.TemporaryDirectory() as folder:
        path = write(Path(folder) / f"arena.{kind}", [row(number, word) for number, word in enumerate(words)])
        said = read_conversations(path, on_bad="skip")
        dialogues = said.dialogues(range(len(said.battles)))

        assert same(said.battles, read_battles(path, on_bad="skip", columns=["question_id", "language"]))
        for battle, question in enumerate(said.battles.text_column("question_id").texts()):
            assert question is not None
            side_a, side_b = dialogues[battle]
            assert side_a == Dialogue((f"Ask {question[1:]}",), (f"A says {question[1:]}",))
            assert side_b == Dialogue((f"Ask {question[1:]}",), (f"B says {question[1:]}",))
