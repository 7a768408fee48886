"""Answers as people have them: which file is read how, what belongs together, and what is said about it."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from tiltyard.data.bank import (
    AnswerCollection,
    collect_answers,
    read_answer_file,
    read_prompt_file,
    read_prompts,
    read_responses,
)
from tiltyard.errors import BankError

ASKED = ["What is 2 + 2?", "Who wrote Hamlet?", "Will it rain, or\nwill it snow?"]


def write(path: Path, rows: list[Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    elif path.suffix == ".json":
        path.write_text(json.dumps(rows), encoding="utf-8")
    else:
        with path.open("w", newline="", encoding="utf-8-sig") as file:
            writer = csv.DictWriter(file, rows[0], delimiter=";" if path.stem == "semicolons" else ",")
            writer.writeheader()
            writer.writerows(rows)
    return path


def collect(*paths: Path, prompts: Path | None = None, **map: str) -> AnswerCollection:
    files = [part for path in paths for part in read_answer_file(path, map=map)]
    asked = None if prompts is None else read_prompt_file(prompts, map=map)
    return collect_answers(files, asked, map=map)


def named(name: str, **columns: str) -> list[dict[str, str]]:
    """Rows of a model: `named("v1", prompt="question", answer="reply")`."""
    cells = [{"id": f"q{n}", "prompt": text, "answer": f"{name} {n}"} for n, text in enumerate(ASKED)]
    return [{column: row[field] for field, column in columns.items()} for row in cells]


EXPECTED = {"v1": ["v1 0", "v1 1", "v1 2"], "v2": ["v2 0", "v2 1", "v2 2"]}


def texts(found: AnswerCollection) -> dict[str, list[str]]:
    """Every entrant's answers in the order of the questions."""
    order = {prompt.text: prompt.prompt_id for prompt in found.prompts}
    return {name: [answers[order[text]] for text in ASKED] for name, answers in found.answers.items()}


@pytest.mark.parametrize("suffix", [".jsonl", ".json", ".csv"])
@pytest.mark.parametrize(
    "columns",
    [
        {"prompt": "prompt", "answer": "response"},
        {"id": "question_id", "prompt": "Instruction", "answer": "output"},
        {"id": "idx", "prompt": "question", "answer": "answer"},
        {"prompt": "text", "answer": "completion"},
        {"prompt": "input", "answer": "my very own column"},
    ],
    ids=lambda columns: "-".join(columns.values()),
)
def test_files_with_usual_names_are_read_as_they_are(tmp_path: Path, suffix: str, columns: dict[str, str]) -> None:
    found = collect(*(write(tmp_path / f"{name}{suffix}", named(name, **columns)) for name in ("v1", "v2")))
    assert texts(found) == EXPECTED
    assert found.complete == 3


def test_kinds_can_be_mixed_and_order_and_white_space_make_no_difference(tmp_path: Path) -> None:
    shuffled = [
        {"prompt": f"  {row['prompt']} ", "reply": row["reply"]} for row in named("v2", prompt="prompt", answer="reply")
    ]
    found = collect(
        write(tmp_path / "v1.jsonl", named("v1", id="id", prompt="question", answer="response")),
        write(tmp_path / "semicolons.csv", shuffled[::-1]),
    )
    assert texts(found) == {"v1": EXPECTED["v1"], "semicolons": EXPECTED["v2"]}
    assert [prompt.prompt_id for prompt in found.prompts] == ["q0", "q1", "q2"]
    assert any("matched by the prompt's text" in note for note in found.notes)


def test_line_numbers_that_contradict_each_other_are_not_ids(tmp_path: Path) -> None:
    first = [{"id": n, "prompt": text, "response": f"v1 {n}"} for n, text in enumerate(ASKED)]
    second = [{"id": n, "prompt": text, "response": f"v2 {2 - n}"} for n, text in enumerate(reversed(ASKED))]
    found = collect(write(tmp_path / "v1.json", first), write(tmp_path / "v2.json", second))
    assert texts(found) == EXPECTED
    assert any("ids of prompts contradict each other" in note for note in found.notes)


def test_several_models_in_one_file_by_row_or_by_column(tmp_path: Path) -> None:
    rows = [{"model": name, **row} for name in ("v1", "v2") for row in named(name, prompt="prompt", answer="response")]
    assert texts(collect(write(tmp_path / "long.csv", rows))) == EXPECTED
    wide = [
        {"prompt": text, "v1": f"v1 {n}", "v2": f"v2 {n}", "score": n, "category": "x"} for n, text in enumerate(ASKED)
    ]
    found = collect(write(tmp_path / "wide.csv", wide))
    assert texts(found) == EXPECTED
    assert any("taken for a model's answers: v1, v2" in note for note in found.notes)
    assert {prompt.source for prompt in found.prompts} == {"x"}


def test_two_files_of_one_model_are_two_entrants(tmp_path: Path) -> None:
    """The same model with two prompts: the usual question of a team."""
    paths = []
    for name in ("v1", "v2"):
        rows = [{"model": "gpt-5", **row} for row in named(name, prompt="prompt", answer="response")]
        paths.append(write(tmp_path / f"{name}.jsonl", rows))
    found = collect(*paths)
    assert texts(found) == EXPECTED
    assert any("other files are of gpt-5 too" in note for note in found.notes)


def test_files_of_one_name_are_called_like_their_folders_and_names_stay_different(tmp_path: Path) -> None:
    for name in EXPECTED:
        write(tmp_path / name / "out.jsonl", named(name, prompt="prompt", answer="response"))
    assert texts(collect(*(tmp_path / name / "out.jsonl" for name in EXPECTED))) == EXPECTED
    other = write(tmp_path / "new" / "v1" / "out.jsonl", named("v2", prompt="prompt", answer="response"))
    with pytest.raises(BankError, match=r"another file is called v1 too\. Say who answered: NAME="):
        collect(tmp_path / "v1" / "out.jsonl", other)
    with pytest.raises(BankError, match=r"out\.jsonl is given twice"):
        collect(tmp_path / "v1" / "out.jsonl", tmp_path / "v1" / "out.jsonl")
    odd = {"a/b": "a-b", "a b": "a-b-2", "a-b": "a-b-3", "../../etc": "etc", ".x": "x", "a:b": "a-b-4"}
    found = collect(write(tmp_path / "odd.jsonl", [{"model": name, "prompt": "?", "response": name} for name in odd]))
    assert {answers["p1"]: name for name, answers in found.answers.items()} == odd


def test_a_folder_with_a_file_for_each_prompt_and_prompts_of_their_own(tmp_path: Path) -> None:
    for name in ("v1", "v2"):
        for n in range(3):
            path = tmp_path / "answers" / name / f"q{n}.md"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{name} {n}\n", encoding="utf-8")
    asked = write(
        tmp_path / "prompts.csv", [{"id": f"q{n}", "text": text, "answer": "4"} for n, text in enumerate(ASKED)]
    )
    found = collect(tmp_path / "answers", prompts=asked)
    assert texts(found) == EXPECTED
    assert found.prompts[0].gold_answer == "4"
    for n in range(3):
        record = {"prompt": ASKED[n], "response": f"v2 {n}"}
        (tmp_path / "answers" / "v2" / f"q{n}.md").unlink()
        (tmp_path / "answers" / "v2" / f"q{n}.json").write_text(json.dumps(record), encoding="utf-8")
    assert texts(collect(tmp_path / "answers", prompts=asked)) == EXPECTED


def test_bare_lists_go_by_the_order_of_the_prompts_if_they_are_as_many(tmp_path: Path) -> None:
    paths = [write(tmp_path / f"{name}.json", EXPECTED[name]) for name in EXPECTED]
    asked = tmp_path / "prompts.txt"
    asked.write_text("\n".join(text.replace("\n", " ") for text in ASKED), encoding="utf-8")
    found = collect(*paths, prompts=asked)
    assert [list(answers.values()) for answers in found.answers.values()] == list(EXPECTED.values())
    write(tmp_path / "v2.json", EXPECTED["v2"][:2])
    with pytest.raises(BankError, match="2 answers without ids for 3 prompts"):
        collect(*paths, prompts=asked)
    with pytest.raises(BankError, match=r"v1\.json:1: no file has the prompt\. Give the prompts"):
        collect(*paths)


def test_conversations_and_whole_replies_of_providers_are_understood(tmp_path: Path) -> None:
    chats = []
    for n, text in enumerate(ASKED):
        said = {"system": "x", "user": text, "assistant": f"v1 {n}"}
        chats.append({"messages": [{"role": role, "content": words} for role, words in said.items()]})
    replies = [
        {
            "prompt": [{"role": "user", "content": [{"type": "text", "text": text}]}],
            "response": {
                "status_code": 200,
                "body": {"choices": [{"message": {"role": "assistant", "content": f"v2 {n}"}}]},
            },
        }
        for n, text in enumerate(ASKED)
    ]
    assert texts(collect(write(tmp_path / "v1.jsonl", chats), write(tmp_path / "v2.jsonl", replies))) == EXPECTED


def test_what_is_left_out_is_counted_and_said(tmp_path: Path) -> None:
    first = named("v1", id="id", prompt="prompt", answer="response")
    second = named("v2", id="id", answer="response")
    second[1]["response"] = "  "
    second.append({"id": "q0", "response": "again"})
    found = collect(write(tmp_path / "v1.json", first), write(tmp_path / "v2.json", second))
    assert found.answers["v2"] == {"q0": "v2 0", "q2": "v2 2"}
    assert "v2: answers left out because they are empty: 1" in found.notes
    assert "v2: answers left out because an earlier one to the same prompt counts: 1" in found.notes
    assert "2 of 3 prompts have every answer (v2 lacks 1)" in found.notes


def test_the_files_that_are_written_are_those_that_tournaments_read(tmp_path: Path) -> None:
    rows = [{"id": "q1", "prompt": "?", "model": "openai/gpt 5", "response": " as it\u2028is ", "gold": "!"}] * 1
    other = [{"id": "q1", "prompt": "?", "model": "b", "response": "x"}]
    found = collect(write(tmp_path / "a.jsonl", rows + other))
    found.write(tmp_path / "made")
    (prompt,) = read_prompts(tmp_path / "made" / "bank.jsonl")
    assert (prompt.prompt_id, prompt.text, prompt.gold_answer) == ("q1", "?", "!")
    assert read_responses(tmp_path / "made" / "responses", "openai-gpt-5")["q1"].response_text == " as it\u2028is "
    assert found.files(tmp_path / "made") == [
        tmp_path / "made" / "bank.jsonl",
        tmp_path / "made" / "responses" / "responses_openai-gpt-5.jsonl",
        tmp_path / "made" / "responses" / "responses_b.jsonl",
    ]


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a.pdf", b"%PDF", "answers are read from"),
        ("a.jsonl", b"{", "a.jsonl:1: not JSON"),
        ("a.jsonl", b"", "holds no answer"),
        ("a.json", b'{"a": 1', "not JSON"),
        ("a.json", b"3", "expected a list of answers"),
        ("a.json", b"[1]", "entry 1 is int"),
        ("a.csv", b"prompt,response\n?,one,two\n", "a.csv:2: the row has more cells"),
        ("a.csv", b"prompt,response\n\xff,x\n", "not UTF-8"),
        ("a.csv", b"one,two\n1,2\n", "no column of it is known to hold the answer; it has one, two"),
        ("a.jsonl", b'{"prompt": "?", "response": {"tokens": 3}}', "response holds"),
    ],
)
def test_a_file_that_cannot_be_read_is_one_line_with_its_name(
    tmp_path: Path, name: str, content: bytes, words: str
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(BankError) as caught:
        collect(path)
    assert words in str(caught.value)
    assert name in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_mapping_names_columns_where_a_file_has_them_and_one_that_none_has_is_an_error(tmp_path: Path) -> None:
    first = write(tmp_path / "v1.csv", named("v1", prompt="q", answer="output"))
    second = write(tmp_path / "v2.csv", named("v2", prompt="prompt", answer="output"))
    assert texts(collect(first, second, prompt="q")) == EXPECTED
    with pytest.raises(
        BankError, match="no answer file has the column 'reply' for answer; there are output, prompt, q"
    ):
        collect(first, second, prompt="q", answer="reply")
    with pytest.raises(BankError, match="'colour' is not a field"):
        collect(first, second, colour="q")


def test_one_model_or_nothing_in_common_is_an_error(tmp_path: Path) -> None:
    first = write(tmp_path / "v1.csv", named("v1", prompt="prompt", answer="output"))
    with pytest.raises(BankError, match="the answers are of v1"):
        collect(first)
    other = write(tmp_path / "v2.csv", [{"prompt": "Something else?", "output": "x"}])
    with pytest.raises(BankError, match="no prompt was answered by every model"):
        collect(first, other)
