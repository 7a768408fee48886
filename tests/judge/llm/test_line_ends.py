"""A record is one line to every program: characters that some take for the end of a line are escaped."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.judge.llm.providers_in_memory import asks
from tiltyard.data.bank import Response, append_responses, read_responses
from tiltyard.data.battles import Battle, Outcome, Source, read_battles, write_battles
from tiltyard.files import json_line, write_lines
from tiltyard.judge.llm import Reply
from tiltyard.judge.llm.generation import Turn, read_turns
from tiltyard.judge.llm.journal import Journal, append_line
from tiltyard.judge.verdicts import Verdict, VerdictCache, VerdictLabel

ENDS = "\x0b \x0c \x1c \x1e \x85 \u2028 \u2029 \r \\"
"""Everything besides a line feed at which Python's `str.splitlines` ends a line, and a backslash before none."""


def verdict(text: str) -> Verdict:
    return Verdict(
        cache_key="k",
        rubric_version="1",
        judge_model="m",
        position_swap=False,
        verdict=VerdictLabel.A,
        reasoning=text,
        timestamp="2026-01-01T00:00:00+00:00",
    )


def one_line(path: Path) -> None:
    data = path.read_bytes()
    assert data.count(b"\n") == len(data.decode().splitlines()) == 1


def test_a_verdict_is_one_line_and_comes_back(tmp_path: Path) -> None:
    cache = VerdictCache(tmp_path, "clarity")
    cache.add(verdict(ENDS))
    one_line(cache.path)
    assert VerdictCache(tmp_path, "clarity").get("k") == verdict(ENDS)


def test_a_verdict_of_an_older_file_is_read_as_it_stands(tmp_path: Path) -> None:
    old = json_line(verdict(ENDS)).decode().replace("\\u2028", "\u2028").replace("\\u0085", "\x85")
    assert len(old.splitlines()) > 1
    (tmp_path / "judgments_clarity.jsonl").write_text(old, encoding="utf-8", newline="")
    assert VerdictCache(tmp_path, "clarity").get("k") == verdict(ENDS)


def test_a_turn_of_a_conversation_is_one_line_and_comes_back_from_older_files_too(tmp_path: Path) -> None:
    path = tmp_path / "conversations_otter.jsonl"
    append_line(path, Turn(key="k", prompt_id="p", turn=1, reply=Reply(text=ENDS)))
    one_line(path)
    # a carriage return between two values is a blank to JSON, and the end of a line to `bytes.splitlines`
    path.write_bytes(path.read_bytes().replace(b"\\u2028", "\u2028".encode()).replace(b',"turn"', b',\r"turn"'))
    assert read_turns(path) == {"k": Reply(text=ENDS)}


def test_an_intent_is_one_line_and_comes_back(tmp_path: Path) -> None:
    journal = Journal.in_folder(tmp_path, lambda: 0.0)
    made = journal.intend(ENDS, [(asks(1)[0], 1)])
    one_line(journal.path)
    assert Journal.in_folder(tmp_path, lambda: 0.0).open[made.id].intent.provider == ENDS


def test_responses_battles_and_other_lines_are_one_line_each(tmp_path: Path) -> None:
    append_responses(tmp_path, "otter", [Response(entrant_id="otter", prompt_id="p", response_text=ENDS)])
    (path,) = tmp_path.glob("responses_*.jsonl")
    one_line(path)
    assert read_responses(tmp_path, "otter")["p"].response_text == ENDS
    name = f"a{ENDS.replace(chr(13), '')}b"
    battle = Battle(model_a=name, model_b="heron", winner=Outcome.A, source=Source.HUMAN)
    write_battles(tmp_path / "battles.jsonl", [battle])
    one_line(tmp_path / "battles.jsonl")
    assert name in read_battles(tmp_path / "battles.jsonl").models
    write_lines(tmp_path / "lines.jsonl", [{"text": ENDS}])
    one_line(tmp_path / "lines.jsonl")


@pytest.mark.parametrize("text", ["", "plain", "naïve 日本語 🦦", "\x84\x86 \u2027\u202a \u2068"])
def test_other_texts_are_written_as_ever(text: str) -> None:
    assert json_line({"t": text}) == b'{"t":"' + text.encode() + b'"}\n'
