"""Prompt banks, response files and pilots."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiltyard.data.bank import (
    Prompt,
    Response,
    append_responses,
    largest_remainder,
    read_prompts,
    read_responses,
    responses_path,
    stratified_subset,
)
from tiltyard.errors import BankError


def write(path: Path, *rows: object) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def bank(**sizes: int) -> list[Prompt]:
    sources = [source for source, size in sizes.items() for _ in range(size)]
    return [Prompt(prompt_id=f"p{i}", text="?", source=source) for i, source in enumerate(sources)]


def test_a_bank_keeps_its_order_and_ignores_fields_it_does_not_know(tmp_path: Path) -> None:
    rows = [
        {"prompt_id": "b", "text": "?", "source": "x", "mood": 3},
        {"prompt_id": "a", "text": "!", "gold_answer": "42"},
    ]
    prompts = read_prompts(write(tmp_path / "bank.jsonl", *rows))
    assert [prompt.prompt_id for prompt in prompts] == ["b", "a"]
    assert prompts[1].gold_answer == "42"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"prompt_id": "a", "text": "?"}\n{"prompt_id": "a", "text": "!"}\n', "bank.jsonl:2: prompt_id 'a'"),
        ('{"prompt_id": "a"}\n', "bank.jsonl:1"),
        ('{"prompt_id": "a", "text": 5}\n', "bank.jsonl:1"),
        ('{"prompt_id": "a", "te', "bank.jsonl:1: not JSON"),
        ("[1]\n", "expected a JSON object"),
        ("\n\n", "empty"),
    ],
)
def test_a_bad_bank_is_one_line_that_names_the_place(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "bank.jsonl"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(BankError, match=words):
        read_prompts(path)


def test_an_absent_bank_says_where_it_was_looked_for(tmp_path: Path) -> None:
    with pytest.raises(BankError, match=r"no prompt bank at .*nowhere\.jsonl"):
        read_prompts(tmp_path / "nowhere.jsonl")


def test_responses_round_trip_and_the_later_of_two_counts(tmp_path: Path) -> None:
    append_responses(tmp_path, "otter", [Response(entrant_id="otter", prompt_id="p", response_text="old")])
    append_responses(
        tmp_path, "otter", [Response(entrant_id="otter", prompt_id="p", response_text="new", p_correct=0.5)]
    )
    assert read_responses(tmp_path, "otter")["p"].response_text == "new"


def test_a_torn_last_line_is_passed_over_and_cut_off_by_the_next_append(tmp_path: Path) -> None:
    append_responses(tmp_path, "otter", [Response(entrant_id="otter", prompt_id="p", response_text="whole")])
    with responses_path(tmp_path, "otter").open("ab") as file:
        file.write(b'{"entrant_id": "otter", "prompt_id": "q", "resp')
    assert set(read_responses(tmp_path, "otter")) == {"p"}
    append_responses(tmp_path, "otter", [Response(entrant_id="otter", prompt_id="r", response_text="after")])
    lines = responses_path(tmp_path, "otter").read_bytes().splitlines()
    assert [json.loads(line)["prompt_id"] for line in lines] == ["p", "r"]
    assert set(read_responses(tmp_path, "otter")) == {"p", "r"}


def test_a_whole_last_line_without_a_line_break_is_kept_by_the_next_append(tmp_path: Path) -> None:
    path = responses_path(tmp_path, "otter")
    path.write_text('{"prompt_id": "p", "response_text": "by hand"}', encoding="utf-8")
    append_responses(tmp_path, "otter", [Response(entrant_id="otter", prompt_id="q", response_text="after")])
    assert set(read_responses(tmp_path, "otter")) == {"p", "q"}


def test_answers_of_another_entrant_in_the_file_are_refused(tmp_path: Path) -> None:
    write(responses_path(tmp_path, "otter"), {"entrant_id": "heron", "prompt_id": "p", "response_text": "?"})
    with pytest.raises(BankError, match=r"responses_otter\.jsonl:1: entrant_id is 'heron'"):
        read_responses(tmp_path, "otter")


def test_143_prompts_of_24_69_and_50_give_a_pilot_of_8_24_and_18() -> None:
    assert largest_remainder({"a": 24, "b": 69, "c": 50}, 50) == {"a": 8, "b": 24, "c": 18}
    pilot = stratified_subset(bank(a=24, b=69, c=50))
    assert Counter(prompt.source for prompt in pilot) == {"a": 8, "b": 24, "c": 18}


def test_a_pilot_keeps_the_banks_order_and_the_seed_decides_it() -> None:
    prompts = bank(a=24, b=69, c=50)
    pilot = stratified_subset(prompts)
    assert pilot == stratified_subset(prompts)
    assert pilot != stratified_subset(prompts, seed=1)
    assert [prompts.index(prompt) for prompt in pilot] == sorted(prompts.index(prompt) for prompt in pilot)


def test_a_stratum_too_small_is_an_error() -> None:
    with pytest.raises(BankError, match="wants 5 prompts of source 'a', the bank has 2"):
        stratified_subset(bank(a=2, b=9), strata={"a": 5, "b": 1})
    with pytest.raises(BankError, match="pilot of 50 prompts cannot be drawn from a bank of 11"):
        stratified_subset(bank(a=2, b=9))


@given(
    st.dictionaries(st.text(min_size=1, max_size=3), st.integers(1, 60), min_size=1, max_size=6),
    st.floats(0.0, 1.0),
)
def test_places_add_up_and_nobody_is_a_whole_place_off(sizes: dict[str, int], part: float) -> None:
    total = int(part * sum(sizes.values()))
    places = largest_remainder(sizes, total)
    assert sum(places.values()) == total
    for name, size in sizes.items():
        assert abs(places[name] - size * total / sum(sizes.values())) < 1
        assert places[name] <= size


def test_a_bank_that_begins_with_a_byte_order_mark_is_read_like_any_other(tmp_path: Path) -> None:
    path = tmp_path / "bank.jsonl"
    path.write_text('{"prompt_id": "a", "text": "?"}\n{"prompt_id": "b", "text": "!"}\n', encoding="utf-8-sig")
    assert [prompt.prompt_id for prompt in read_prompts(path)] == ["a", "b"]
