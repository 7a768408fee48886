"""The arena a model is placed in: which battles are anchors, which texts a judge can be shown."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.judge.placement.arena_files import Style, quality_of, write_arena, write_rows
from tiltyard.data.battles import Outcome, Source, read_battles
from tiltyard.errors import BankError, BattleError, NoBattles, OptionError
from tiltyard.files import file_sha256
from tiltyard.judge.placement.human_arena import Exchange, HumanArena, read_human_arena

MODELS = ("otter", "heron", "crane", "egret")
STYLES: tuple[tuple[Style, str], ...] = (
    ("lmarena", "jsonl"),
    ("lmarena", "jsonl.gz"),
    ("lmarena", "parquet"),
    ("parts", "jsonl"),
    ("parts", "parquet"),
    ("json-string", "csv"),
    ("json-string", "parquet"),
    ("comparia", "jsonl"),
    ("comparia", "parquet"),
)
A, B, TIE, BOTH_BAD = Outcome.A.code, Outcome.B.code, Outcome.TIE.code, Outcome.BOTH_BAD.code


def talk(asked: str, replied: str) -> list[dict[str, Any]]:
    return [{"role": "user", "content": asked}, {"role": "assistant", "content": replied}]


def vote(question: str | None, a: str, b: str, winner: str = "model_a", **more: Any) -> dict[str, Any]:
    """A row in which each model answers with its own name."""
    return {
        "question_id": question,
        "model_a": a,
        "model_b": b,
        "winner": winner,
        "conversation_a": talk(f"ask {question}", f"{a} on {question}"),
        "conversation_b": talk(f"ask {question}", f"{b} on {question}"),
    } | more


def held(arena: HumanArena) -> set[tuple[str, str]]:
    cells = arena.cells
    return {(cells.question_ids[q], cells.models[m]) for q, m in zip(cells.question, cells.model, strict=True)}


@pytest.mark.parametrize(("style", "kind"), STYLES)
def test_every_published_shape_gives_the_same_arena(style: Style, kind: str, tmp_path: Path) -> None:
    written = write_arena(
        tmp_path / f"votes.{kind}",
        models=MODELS,
        rows=24,
        seed=5,
        style=style,
        rows_per_question=2,
        languages=("fr", "en"),
    )
    plain = write_arena(
        tmp_path / "plain.jsonl", models=MODELS, rows=24, seed=5, rows_per_question=2, languages=("fr", "en")
    )

    arena, expected = read_human_arena(written.path), read_human_arena(plain.path)

    every, same_cells = range(len(arena.cells)), range(len(expected.cells))
    assert arena.exchanges(every) == expected.exchanges(same_cells)
    assert arena.battles.models == arena.cells.models == expected.battles.models
    assert arena.pairs.first.tolist() == expected.pairs.first.tolist()
    assert arena.pairs.second.tolist() == expected.pairs.second.tolist()
    assert arena.cells.languages == ("en", "fr")
    assert arena.name == "votes"
    assert arena.remarks == ()
    assert dict(arena.sha256) == {written.path.name: file_sha256(written.path)}
    if style != "comparia":  # compar:IA knows no vote for both bad
        assert arena.pairs.outcome.tolist() == expected.pairs.outcome.tolist()


@pytest.mark.parametrize(("style", "kind"), STYLES)
def test_the_better_answer_won_in_every_pair(style: Style, kind: str, tmp_path: Path) -> None:
    written = write_arena(tmp_path / f"votes.{kind}", models=MODELS, rows=40, seed=1, style=style)
    arena = read_human_arena(written.path)

    first, second = (arena.exchanges(side.tolist()) for side in (arena.pairs.first, arena.pairs.second))

    assert len(arena.pairs) == len(arena.battles) == 40
    for one, other, outcome in zip(first, second, arena.pairs.outcome.tolist(), strict=True):
        lead = quality_of(one.answer) - quality_of(other.answer)
        assert outcome in ((A, TIE) if lead > 0 else (B, TIE)) or outcome == BOTH_BAD
        assert (one.question_id, one.prompt) == (other.question_id, other.prompt)
    assert {A, B} <= set(arena.pairs.outcome.tolist())
    models = [arena.cells.models[code] for code in arena.cells.model[arena.pairs.first]]
    assert models == [arena.battles.models[code] for code in arena.battles.model_a]


def test_an_exchange_holds_what_a_judge_is_shown(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "votes.jsonl", [vote("q1", "otter", "heron", language="English")])

    arena = read_human_arena(path, name="my arena")

    assert arena.exchanges([1, 0]) == [
        Exchange("q1", "heron", "English", "ask q1", "heron on q1", ("ask q1",)),
        Exchange("q1", "otter", "English", "ask q1", "otter on q1", ("ask q1",)),
    ]
    assert arena.exchanges([]) == []
    assert arena.name == "my arena"


def test_several_turns_are_shown_with_labels_and_only_on_request(tmp_path: Path) -> None:
    written = write_arena(tmp_path / "votes.jsonl", models=MODELS, rows=1, turns=2)
    first = read_human_arena(written.path).exchanges([0])[0]
    whole = read_human_arena(written.path, turns="all").exchanges([0])[0]

    assert first.prompt == "Question 0?"
    assert first.turns == ("Question 0?",)
    assert "Turn 1" not in first.answer
    assert whole.prompt == "Turn 1:\nQuestion 0?\n\nTurn 2:\nAnd what of part 2 of question 0?"
    assert whole.turns == ("Question 0?", "And what of part 2 of question 0?")
    assert whole.answer.startswith("Turn 1:\nAnswer to question 0, turn 1.")
    assert "\n\nTurn 2:\nAnswer to question 0, turn 2." in whole.answer


@settings(max_examples=8)
@given(rows=st.integers(1, 12), seed=st.integers(0, 99), shared=st.integers(1, 3))
def test_where_every_row_has_one_turn_the_first_turn_is_all(rows: int, seed: int, shared: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "votes.jsonl"
        write_arena(path, models=MODELS, rows=rows, seed=seed, rows_per_question=shared)
        first, whole = read_human_arena(path), read_human_arena(path, turns="all")
        every = range(len(first.cells))
        assert first.exchanges(every) == whole.exchanges(every)
        assert first.pairs.first.tolist() == whole.pairs.first.tolist()


def test_equal_rows_are_separate_votes_on_one_cell_each(tmp_path: Path) -> None:
    rows = [vote("q1", "otter", "heron"), vote("q1", "otter", "heron"), vote("q1", "heron", "otter", "tie")]
    arena = read_human_arena(write_rows(tmp_path / "votes.jsonl", rows))

    assert len(arena.cells) == 2
    assert arena.pairs.first.tolist() == [0, 0, 1]
    assert arena.pairs.second.tolist() == [1, 1, 0]
    assert arena.pairs.outcome.tolist() == [A, A, TIE]
    assert arena.pairs.weight.tolist() == [1.0, 1.0, 1.0]


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_battles_without_text_are_anchors_and_counted(kind: str, tmp_path: Path) -> None:
    image = [{"type": "image", "text": None}]
    part = [{"type": "text", "text": "hm"}]
    rows = [
        vote("q1", "otter", "heron", conversation_a=talk(part, part), conversation_b=talk(part, part)),  # type: ignore[arg-type]
        vote("q2", "otter", "crane", conversation_a=None, conversation_b=None),
        vote("q3", "otter", "crane", conversation_a=talk(image, part), conversation_b=talk(image, part)),  # type: ignore[arg-type]
        vote("q4", "heron", "crane", conversation_a=talk(part, part), conversation_b=[]),  # type: ignore[arg-type]
    ]
    arena = read_human_arena(write_rows(tmp_path / f"votes.{kind}", rows))

    assert len(arena.battles) == 4
    assert held(arena) == {("q1", "otter"), ("q1", "heron"), ("q4", "heron")}
    assert len(arena.pairs) == 1
    assert arena.remarks == (
        "Human battles without text: 2 (counted as battles, not shown to a judge).",
        "Human battles with more than text, such as an image: 1 (counted as battles, not shown to a judge).",
    )


def test_a_file_without_any_text_has_no_cell(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "votes.csv", [{"model_a": "otter", "model_b": "heron", "winner": "tie"}])
    arena = read_human_arena(path)

    assert len(arena.battles) == 1
    assert len(arena.cells) == len(arena.pairs) == 0
    assert arena.cells.models == ("heron", "otter")


def test_sides_that_were_asked_different_things_are_not_shown(tmp_path: Path) -> None:
    rows = [vote("q1", "otter", "heron", conversation_b=talk("another", "heron")), vote("q2", "otter", "heron")]
    arena = read_human_arena(write_rows(tmp_path / "votes.jsonl", rows))

    assert held(arena) == {("q2", "otter"), ("q2", "heron")}
    assert "whose two sides were asked different things: 1" in arena.remarks[0]


def test_only_people_are_anchors_and_the_others_are_counted(tmp_path: Path) -> None:
    rows = [
        vote("q1", "otter", "heron", source="human"),
        vote("q2", "otter", "egret", source="llm-judge"),
        vote("q3", "heron", "crane", source="human"),
    ]
    arena = read_human_arena(write_rows(tmp_path / "votes.jsonl", rows))

    assert arena.battles.models == ("crane", "heron", "otter")
    assert (arena.battles.source == Source.HUMAN.code).all()
    assert held(arena) == {("q1", "otter"), ("q1", "heron"), ("q3", "heron"), ("q3", "crane")}
    assert arena.remarks == ("Battles decided by a language model: 1 (left out: only human battles are anchors).",)
    with pytest.raises(NoBattles, match="no battle was decided by people"):
        read_human_arena(write_rows(tmp_path / "judged.jsonl", rows[1:2]))


def test_texts_stay_with_their_rows_when_bad_rows_and_judges_are_left_out(tmp_path: Path) -> None:
    rows = [
        vote("q1", "otter", "otter", source="human"),
        vote("q2", "otter", "heron", source="llm-judge"),
        vote("q3", "crane", "heron", "nobody", source="human"),
        vote("q4", "crane", "heron", "model_b", source="human"),
    ]
    for kind in ("jsonl", "parquet"):
        arena = read_human_arena(write_rows(tmp_path / f"votes.{kind}", rows), on_bad="skip")
        assert [one.answer for one in arena.exchanges([0, 1])] == ["crane on q4", "heron on q4"]
        assert arena.pairs.outcome.tolist() == [B]
        assert dict(arena.battles.skipped) == {"model against itself": 1, "unknown winner": 1}


LANGUAGES = [
    vote("q1", "otter", "heron", language="English"),
    vote("q2", "otter", "crane", language="French"),
    vote("q3", "crane", "egret", language="English"),
    vote("q4", "crane", "egret"),
]


def test_a_language_keeps_its_battles_and_cells_in_any_case(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "votes.jsonl", LANGUAGES)

    french = read_human_arena(path, languages=["FRENCH"])
    both = read_human_arena(path, languages=["english", "French"])

    assert french.battles.models == french.cells.models == ("crane", "otter")
    assert held(french) == {("q2", "otter"), ("q2", "crane")}
    assert french.cells.languages == ("French",)
    assert len(both.battles) == len(both.pairs) == 3
    assert [one.language for one in read_human_arena(path).exchanges([0, 2, 6])] == ["English", "French", None]


def test_an_unknown_language_is_answered_with_those_there_are(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "votes.jsonl", LANGUAGES)
    with pytest.raises(OptionError, match=r"no human battle is in 'Welsh'\. There are English \(2\), French \(1\)\."):
        read_human_arena(path, languages=["English", "Welsh"])
    mute = write_rows(tmp_path / "mute.jsonl", [vote("q1", "otter", "heron")])
    with pytest.raises(OptionError, match=r"mute\.jsonl does not say the language"):
        read_human_arena(mute, languages=["English"])


@pytest.mark.parametrize(("kind", "place"), [("jsonl", "{}:{}"), ("parquet", "{}: row {}")])
def test_one_question_with_two_prompts_names_both_rows(kind: str, place: str, tmp_path: Path) -> None:
    other = vote("q1", "crane", "egret", conversation_a=talk("other", "x"), conversation_b=talk("other", "y"))
    path = write_rows(tmp_path / f"votes.{kind}", [vote("q1", "otter", "heron"), vote("q2", "otter", "heron"), other])

    with pytest.raises(BattleError) as caught:
        read_human_arena(path)

    said = str(caught.value)
    later, earlier = place.format(path, 3), place.format(path, 1)
    assert said.startswith(f"{later}: question_id 'q1' has another prompt than in {earlier}.")
    skipped = read_human_arena(path, on_bad="skip")
    assert len(skipped.battles) == 3
    assert ("q1", "crane") not in held(skipped)
    assert "whose text contradicts an earlier row: 1" in skipped.remarks[0]


def test_one_model_with_two_answers_names_both_rows(tmp_path: Path) -> None:
    other = vote("q1", "crane", "otter", conversation_b=talk("ask q1", "on second thoughts"))
    path = write_rows(tmp_path / "votes.jsonl", [vote("q1", "otter", "heron"), other])

    with pytest.raises(BattleError) as caught:
        read_human_arena(path)

    assert f"{path}:2: 'otter' has another answer to question_id 'q1' than in {path}:1." in str(caught.value)
    assert held(read_human_arena(path, on_bad="skip")) == {("q1", "otter"), ("q1", "heron")}


def test_rows_without_an_id_are_questions_of_their_own(tmp_path: Path) -> None:
    rows = [vote(None, "otter", "heron"), vote(None, "otter", "heron")]
    rows[1]["conversation_a"] = talk("ask None", "something else")
    arena = read_human_arena(write_rows(tmp_path / "votes.jsonl", rows))

    assert arena.cells.question_ids == ("(row 1)", "(row 2)")
    assert len(arena.cells) == 4


def test_several_files_are_one_arena(tmp_path: Path) -> None:
    one = write_rows(tmp_path / "one.parquet", [vote("q1", "otter", "heron")])
    two = write_rows(tmp_path / "two.jsonl.gz", [vote("q1", "otter", "crane"), vote("q2", "egret", "crane")])

    arena = read_human_arena([one, two])

    assert arena.name == "one+two"
    assert arena.files == (one, two)
    assert len(arena.cells) == 5
    assert arena.exchanges([4])[0] == Exchange("q2", "crane", None, "ask q2", "crane on q2", ("ask q2",))


def response(model: str, question: str, text: str | None = None) -> dict[str, Any]:
    return {"entrant_id": model, "prompt_id": question, "response_text": text or f"{model} on {question}"}


def lines(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(msgspec.json.Encoder().encode_lines(rows))
    return path


@pytest.fixture
def bank(tmp_path: Path) -> Path:
    return lines(tmp_path / "bank.jsonl", [{"prompt_id": f"q{at}", "text": f"ask q{at}"} for at in (1, 2, 3)])


@pytest.fixture
def battles(tmp_path: Path) -> Path:
    bare = [
        {"model_a": "otter", "model_b": "heron", "winner": "model_a", "question_id": "q1", "language": "en"},
        {"model_a": "otter", "model_b": "crane", "winner": "tie", "question_id": "q2", "language": "fr"},
        {"model_a": "heron", "model_b": "crane", "winner": "model_b", "question_id": "q9"},
    ]
    return write_rows(tmp_path / "battles.csv", bare)


ANSWERS = [
    response("otter", "q1", "a first draft"),
    response("otter", "q1"),
    response("heron", "q1"),
    response("otter", "q2"),
    response("otter", "q3"),
    response("heron", "q9"),
    response("egret", "q1"),
    response("crane", "q2", " "),
]


def test_a_bank_and_a_responses_file_are_joined_to_battles(bank: Path, battles: Path, tmp_path: Path) -> None:
    answers = lines(tmp_path / "answers.jsonl", ANSWERS)
    arena = read_human_arena(battles, prompts=bank, answers=answers)

    assert held(arena) == {("q1", "otter"), ("q1", "heron"), ("q2", "otter"), ("q3", "otter")}
    assert len(arena.battles) == 3
    assert arena.pairs.outcome.tolist() == [A]
    first, second = arena.exchanges([int(arena.pairs.first[0]), int(arena.pairs.second[0])])
    assert first == Exchange("q1", "otter", "en", "ask q1", "otter on q1", ("ask q1",))
    assert second.answer == "heron on q1"
    assert [one.language for one in arena.exchanges(range(4))] == ["en", "en", "fr", None]
    assert set(arena.sha256) == {battles.name, bank.name, answers.name}
    assert arena.remarks == (
        "Answers by models without human battles: 1 (left out).",
        "Answers to prompts that the bank does not have: 1 (left out).",
        "Answers that are empty: 1 (left out).",
    )


def test_a_folder_of_responses_does_as_well_as_a_file(bank: Path, battles: Path, tmp_path: Path) -> None:
    for model in ("otter", "heron", "egret"):
        own = [row for row in ANSWERS if row["entrant_id"] == model]
        lines(tmp_path / "answers" / f"responses_{model}.jsonl", own)
    torn = tmp_path / "answers" / "responses_heron.jsonl"
    torn.write_bytes(torn.read_bytes() + b'{"entrant_id": "heron", "prompt')

    arena = read_human_arena(battles, prompts=bank, answers=tmp_path / "answers")

    assert held(arena) == {("q1", "otter"), ("q1", "heron"), ("q2", "otter"), ("q3", "otter")}
    assert {one.answer for one in arena.exchanges(range(4))} == {
        "otter on q1",
        "heron on q1",
        "otter on q2",
        "otter on q3",
    }


def test_a_language_filters_own_answers_by_their_battles(bank: Path, battles: Path, tmp_path: Path) -> None:
    answers = lines(tmp_path / "answers.jsonl", ANSWERS)
    arena = read_human_arena(battles, prompts=bank, answers=answers, languages=["EN"])

    assert held(arena) == {("q1", "otter"), ("q1", "heron")}
    assert len(arena.battles) == 1


def test_texts_beside_the_battles_that_cannot_be_used_are_named(bank: Path, battles: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken.jsonl"
    broken.write_text('{"entrant_id": "otter"\n')
    lacking = lines(tmp_path / "lacking.jsonl", [{"entrant_id": "otter", "prompt_id": "q1"}])
    listed = lines(tmp_path / "listed.jsonl", [["otter"]])  # type: ignore[list-item]
    lines(tmp_path / "mixed" / "responses_otter.jsonl", [response("heron", "q1")])
    (tmp_path / "empty").mkdir()

    for answers, message in (
        (broken, r"broken\.jsonl:1: not JSON"),
        (lacking, r"lacking\.jsonl:1: .*response_text"),
        (listed, r"listed\.jsonl:1: "),
        (tmp_path / "mixed", r"responses_otter\.jsonl:1: entrant_id is 'heron', the file is of 'otter'"),
        (tmp_path / "empty", "has no file responses_<model>"),
        (tmp_path / "absent", "no responses file or folder"),
    ):
        with pytest.raises(BankError, match=message):
            read_human_arena(battles, prompts=bank, answers=answers)
    with pytest.raises(OptionError, match="answers were given without prompts"):
        read_human_arena(battles, answers=lacking)


def test_the_battles_of_an_arena_are_those_that_read_battles_gives(tmp_path: Path) -> None:
    written = write_arena(tmp_path / "votes.parquet", models=MODELS, rows=60, seed=3, languages=("en", "fr"))
    arena, table = read_human_arena(written.path), read_battles(written.path)

    assert arena.battles.models == table.models
    for name in ("model_a", "model_b", "outcome", "weight"):
        assert np.array_equal(getattr(arena.battles, name), getattr(table, name))
    assert arena.battles.text_column("question_id").texts() == table.text_column("question_id").texts()
    assert set(arena.battles.columns) == {"question_id", "language"}


@pytest.mark.parametrize("kind", ["jsonl", "jsonl.gz", "parquet"])
def test_a_file_that_changes_under_an_arena_is_noticed(kind: str, tmp_path: Path) -> None:
    path = write_rows(tmp_path / f"votes.{kind}", [vote("q1", "otter", "heron"), vote("q2", "otter", "heron")])
    arena = read_human_arena(path)
    write_rows(path, [vote("q1", "otter", "heron")])

    with pytest.raises(BattleError, match="has changed"):
        arena.exchanges([3])


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_an_arena_under_other_names_is_the_same_arena(kind: str, tmp_path: Path) -> None:
    rows = [vote("q1", "otter", "heron"), vote("q2", "heron", "crane", "model_b"), vote("q3", "crane", "otter", "tie")]
    names = {
        "question_id": "task",
        "model_a": "left",
        "winner": "choice",
        "conversation_a": "said",
        "conversation_b": "b",
    }
    theirs = [{names.get(key, key): value for key, value in row.items()} for row in rows]
    plain = read_human_arena(write_rows(tmp_path / f"ours.{kind}", rows))

    arena = read_human_arena(write_rows(tmp_path / f"theirs.{kind}", theirs), map=names)

    assert held(arena) == held(plain)
    assert arena.battles.outcome.tolist() == plain.battles.outcome.tolist()
    every = range(len(arena.cells.question))
    assert arena.exchanges(every) == plain.exchanges(every)
    with pytest.raises(OptionError, match=r"no column 'talk' for conversation_a\. Its columns are task, left"):
        read_human_arena(tmp_path / f"theirs.{kind}", map=names | {"conversation_a": "talk"})
