"""Bad input to `tiltyard place`: one clear line, before anything is spent, and nothing is lost."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Run
from tests.fakes import FakeServer
from tests.judge.placement.arena_files import WrittenArena, write_rows
from tests.judge.placement.conftest import EXAMPLE, example, read_lines, served


def fails(run: Run, *arguments: str) -> str:
    done = run(*arguments)
    assert done.returncode == 1, done.stdout + done.stderr
    *_, last = done.stderr.strip().splitlines()
    assert last.startswith("tiltyard: ")
    assert "Traceback" not in done.stderr
    return last


def rewrite(path: Path, change: Any) -> None:
    rows = read_lines(path)
    write_rows(path, [change(place, dict(row)) for place, row in enumerate(rows)])


def test_an_arena_without_texts_has_nothing_to_judge_against(
    tmp_path: Path, tiltyard: Run, arena: WrittenArena, server: FakeServer
) -> None:
    rewrite(arena.path, lambda place, row: {**row, "conversation_a": [], "conversation_b": []})
    assert "holds no texts" in fails(tiltyard, *served(server))
    assert not server.ledger.accepted
    assert not (tmp_path / "placements").exists()


def test_a_language_that_nobody_spoke_is_named_with_those_there_are(
    tiltyard: Run, arena: WrittenArena, server: FakeServer
) -> None:
    said = fails(tiltyard, *served(server, "--languages", "en,xx"))
    assert "xx" in said
    assert "en" in said
    assert "fr" in said
    assert not server.ledger.accepted


def test_a_name_that_the_arena_knows_is_refused(tiltyard: Run, arena: WrittenArena, server: FakeServer) -> None:
    said = fails(tiltyard, *served(server, "--name", "m03"))
    assert "'m03' is in the arena already" in said
    assert "--leave-one-out" in said
    assert not server.ledger.accepted


def test_a_judge_that_never_answers_is_given_up_and_the_answers_are_kept(
    tmp_path: Path, tiltyard: Run, arena: WrittenArena, server: FakeServer
) -> None:
    from tests.judge.placement.conftest import answer_or_judge

    def silent(system: str, user: str) -> str:
        return "I would rather not say." if "[ANSWER A" in user else answer_or_judge(system, user)

    server.behaviour.judge = silent
    said = fails(tiltyard, *served(server, "--n-battles", "40"))
    assert "local/umpire" in said
    answers = len([one for one in server.ledger.accepted if one.body["model"] == "newcomer"])
    heard = len(server.ledger.accepted) - answers
    assert heard <= 3 * 2 * 10 + 16  # far from the 240 questions that 40 battles would have cost
    server.behaviour.judge = answer_or_judge
    done = tiltyard(*served(server, "--n-battles", "40"))
    again = len([one for one in server.ledger.accepted if one.body["model"] == "newcomer"])
    assert done.returncode == 0, done.stderr
    assert again == 40


def test_a_refused_answer_and_a_refused_verdict_are_counted_and_the_others_go_on(
    tmp_path: Path, tiltyard: Run, arena: WrittenArena, server: FakeServer
) -> None:
    """The new model may not answer one question, and the judge not hear another in one order."""
    seen: dict[str, str] = {}

    def refuses(messages: list[str]) -> str | None:
        judged = "[ANSWER A" in messages[-1]
        first = seen.setdefault("verdict" if judged else "answer", messages[-1])
        return "prompt is too long" if first == messages[-1] else None

    server.behaviour.refuses = refuses
    done = tiltyard(*served(server))
    assert done.returncode == 0, done.stderr
    (folder,) = (tmp_path / "placements").iterdir()
    found = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))["judged"]
    assert found["failed_by"] == {"no answer": 1, "error": 1}
    assert list(found["no_answer"].values()) == ["errored: invalid_request_error: prompt is too long."]
    assert "2 battles have no result and are not counted" in done.stdout


def test_two_rows_with_one_id_and_different_prompts_are_named(
    tiltyard: Run, arena: WrittenArena, server: FakeServer
) -> None:
    rewrite(arena.path, lambda place, row: {**row, "question_id": "q0"} if place == 5 else row)
    said = fails(tiltyard, *served(server))
    assert "arena.jsonl:6" in said
    assert "q0" in said
    assert not server.ledger.accepted


def test_too_few_votes_on_every_opponent_says_how_many_there_are(
    tiltyard: Run, arena: WrittenArena, server: FakeServer
) -> None:
    said = fails(tiltyard, *served(server, "--min-opponent-battles", "5000"))
    assert "no opponent with texts has 5,000 human battles" in said
    assert "--min-opponent-battles" in said


def test_answers_to_other_questions_are_no_use(tmp_path: Path, tiltyard: Run) -> None:
    row = {"entrant_id": "kestrel", "prompt_id": "elsewhere", "response_text": "Yes."}
    (tmp_path / "mine.jsonl").write_text(json.dumps(row) + "\n", encoding="utf-8")
    command = example()
    command[command.index("--model") + 1] = "mine.jsonl"
    assert "are to none of the arena's questions" in fails(tiltyard, *command)


def test_two_answers_to_one_question_are_named_with_both_lines(tmp_path: Path, tiltyard: Run) -> None:
    rows = [{"entrant_id": "k", "prompt_id": "q000", "response_text": text} for text in ("Yes.", "No.")]
    (tmp_path / "mine.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    command = example()
    command[command.index("--model") + 1] = "mine.jsonl"
    said = fails(tiltyard, *command)
    assert "mine.jsonl:2" in said
    assert "line 1" in said


def test_a_file_of_answers_that_is_not_there_is_not_taken_for_a_model(tiltyard: Run) -> None:
    command = example()
    command[command.index("--model") + 1] = "missing.jsonl"
    assert "there is no file missing.jsonl" in fails(tiltyard, *command)


def test_a_recording_of_one_order_is_refused_for_both_orders(tmp_path: Path, tiltyard: Run) -> None:
    rows = read_lines(EXAMPLE / "verdicts.jsonl")
    one = [{name: value for name, value in row.items() if name != "verdict_swapped"} for row in rows]
    (tmp_path / "one.jsonl").write_text("".join(json.dumps(row) + "\n" for row in one), encoding="utf-8")
    command = example("--n-battles", "20")
    command[command.index("--judge") + 1] = "recorded/one.jsonl"
    assert "one order only" in fails(tiltyard, *command)
    assert tiltyard(*command, "--swap", "random").returncode == 0


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--until", "soon"), "neither a width nor a number of places"),
        (("--anchor", "egret"), "expected MODEL=RATING"),
        (("--anchor", "nobody=1000"), "nobody"),
        (("--calibrate", "10", "--fixed-anchors"), "leave --fixed-anchors out"),
        (("--bootstraps", "1"), "at least 2"),
        (("--panel", "nowhere.json"), "cannot read the panel"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_an_option_that_makes_no_sense_is_one_line(tiltyard: Run, options: tuple[str, ...], words: str) -> None:
    assert words in fails(tiltyard, *example(*options))


def test_what_must_be_said_is_asked_for(tiltyard: Run) -> None:
    done = tiltyard("place", "--model", "local/x")
    assert done.returncode == 2
    assert "--arena" in done.stderr


def test_a_folder_that_is_no_placement_cannot_be_recomputed(tmp_path: Path, tiltyard: Run) -> None:
    (tmp_path / "empty").mkdir()
    assert "manifest.json" in fails(tiltyard, "place", "--recompute", "empty")
