from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from tiltyard.cli.battles import app
from tiltyard.data.battles import read_battles, write_battles
from tiltyard.errors import BadRow, OptionError

if TYPE_CHECKING:
    from pathlib import Path

    from click.testing import Result

GOOD = [
    {"model_a": "otter", "model_b": "heron", "winner": "model_a", "source": "human", "question_id": "q1"},
    {"model_a": "heron", "model_b": "crane", "winner": "tie", "source": "llm-judge", "question_id": "q2"},
]


def tiltyard(*arguments: object, stdin: bytes | None = None) -> Result:
    """Run one command; an error of our family comes through as it was raised, for the caller to print."""
    result = CliRunner().invoke(app, [str(argument) for argument in arguments], input=stdin)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


@pytest.fixture
def clean(tmp_path: Path) -> Path:
    path = tmp_path / "battles.jsonl"
    write_battles(path, GOOD)
    return path


@pytest.fixture
def dirty(tmp_path: Path) -> Path:
    path = tmp_path / "dirty.csv"
    path.write_text("left,right,winner\nA,B,left\nA,A,tie\nA,B,nobody\nB,B,tie\nB,C,right\n")
    return path


def test_check_of_a_clean_file_is_one_friendly_line(clean: Path) -> None:
    result = tiltyard("check", clean)

    assert result.exit_code == 0
    assert result.stdout == "2 battles, no problem found (format: tiltyard).\n"


def test_check_lists_each_kind_of_problem_with_its_place_and_fails(dirty: Path) -> None:
    result = tiltyard("check", dirty)

    assert result.exit_code == 1
    assert result.stdout.splitlines() == [
        "3 bad rows, 2 good battles.",
        "",
        "model against itself: 2 rows",
        f"  {dirty}:3: left and right are both 'A'",
        f"  {dirty}:5: left and right are both 'B'",
        "",
        "unknown winner: 1 row",
        f"  {dirty}:4: winner is 'nobody', expected left, right, tie",
        "  Correct the row, or say what the word means (--map winner:WORD=model_a).",
    ]


def test_check_shows_only_the_first_few_of_many(tmp_path: Path) -> None:
    path = tmp_path / "dirty.csv"
    path.write_text("left,right,winner\nA,B,left\n" + "A,A,tie\n" * 1500)

    lines = tiltyard("check", path).stdout.splitlines()

    assert lines[0] == "1,500 bad rows, 1 good battle."
    assert lines[-1] == "  … and 1,497 more"


def test_check_looks_only_where_it_is_told(dirty: Path) -> None:
    assert tiltyard("check", dirty, "--where", '"left" <> "right" and winner <> \'nobody\'').exit_code == 0


def test_stats_for_people_name_the_islands(tmp_path: Path) -> None:
    path = tmp_path / "battles.csv"
    path.write_text("left,right,winner\nA,B,left\nC,D,tie\nD,E,tie\n")

    result = tiltyard("stats", path)

    assert result.exit_code == 0
    text = " ".join(result.stdout.split())
    assert "battles 3 models 5" in text
    assert "islands 2: models in different islands cannot be compared; 3 (C, D, E), 2 (A, B)" in text
    assert "never lost A, C, D, E" in text


def test_stats_for_programs_are_json(clean: Path) -> None:
    stats = json.loads(tiltyard("stats", clean, "--format", "json").stdout)

    assert stats["battles"] == 2
    assert stats["prompts"] == 2
    assert stats["islands"] == [["crane", "heron", "otter"]]
    assert stats["sources"] == {"llm-judge": 1, "human": 1}


def test_stats_count_what_they_skip(dirty: Path) -> None:
    with pytest.raises(BadRow, match=r"dirty\.csv:3: model against itself"):
        tiltyard("stats", dirty)

    result = tiltyard("stats", dirty, "--on-bad", "skip")

    assert "2 × model against itself, 1 × unknown winner" in result.stdout


@pytest.mark.parametrize("suffix", ["jsonl", "jsonl.gz", "csv", "tsv", "parquet"])
def test_convert_writes_our_own_rows_and_says_how_many(dirty: Path, tmp_path: Path, suffix: str) -> None:
    target = tmp_path / f"out.{suffix}"

    result = tiltyard("convert", dirty, target, "--on-bad", "skip")

    assert result.exit_code == 0
    assert result.stdout == ""
    note = "3 rows skipped: 2 × model against itself, 1 × unknown winner"
    assert result.stderr == f"2 battles written to {target}; {note}.\n"
    table = read_battles(target, format="tiltyard")
    assert (table.n_battles, table.models) == (2, ("A", "B", "C"))


def test_convert_stops_at_a_bad_row_and_writes_nothing(dirty: Path, tmp_path: Path) -> None:
    with pytest.raises(BadRow):
        tiltyard("convert", dirty, tmp_path / "out.jsonl")
    assert not (tmp_path / "out.jsonl").exists()


def test_convert_reads_standard_input_and_writes_standard_output(dirty: Path) -> None:
    result = tiltyard(
        "convert", "-", "-", "--from", "evalica", "--on-bad", "skip", "--default-source", "llm-judge",
        stdin=dirty.read_bytes(),
    )  # fmt: skip

    assert [json.loads(line)["source"] for line in result.stdout.splitlines()] == ["llm-judge"] * 2
    assert "2 battles written to standard output" in result.stderr


def test_a_wrong_option_is_an_error_of_the_family_or_of_usage(clean: Path, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="unknown format 'chess'"):
        tiltyard("check", clean, "--from", "chess")
    with pytest.raises(OptionError, match="where="):
        tiltyard("check", clean, "--where", "mood = 1")
    assert tiltyard("stats", clean, "--format", "xml").exit_code == 2
    assert tiltyard("convert", clean, tmp_path / "out.jsonl", "--on-bad", "ignore").exit_code == 2


def test_help_names_every_format() -> None:
    from tiltyard.data.battles import FORMAT_NAMES

    for command in ("check", "stats", "convert"):
        text = tiltyard(command, "--help").stdout
        assert all(name in text for name in FORMAT_NAMES)


def test_every_command_reads_columns_under_other_names(tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    path.write_text("question,v_old,v_new,preferred\nq1,otter,heron,heron\nq2,otter,heron,A\nq2,otter,heron,draw\n")
    options = ["--map", "model_a=v_old", "--map", "model_b=v_new", "--map", "winner=preferred"]

    assert tiltyard("check", path, *options).stdout == "3 battles, no problem found (format: lmarena).\n"
    stats = json.loads(tiltyard("stats", path, *options, "--format", "json").stdout)
    assert (stats["battles"], stats["prompts"], stats["outcomes"]["model_b"]) == (3, 2, 1)
    tiltyard("convert", path, tmp_path / "ours.jsonl", *options)
    assert read_battles(tmp_path / "ours.jsonl").outcome.tolist() == [1, 0, 2]


@pytest.mark.parametrize("wrong", ["winner", "=x", "winner=", ""])
def test_a_mapping_without_both_names_is_refused(wrong: str, clean: Path) -> None:
    with pytest.raises(OptionError, match=r"--map is .*: expected OURS=THEIRS, such as winner=choice"):
        tiltyard("check", clean, "--map", wrong)


def test_a_column_that_is_mapped_twice_is_refused(clean: Path) -> None:
    with pytest.raises(OptionError, match="--map gives winner twice: x and y"):
        tiltyard("check", clean, "--map", "winner=x", "--map", "winner=y")


def test_check_shows_what_to_do_about_an_ambiguous_winner_as_an_option(tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    path.write_text("model_a,model_b,winner\nB,A,A\nA,B,A\n")

    result = tiltyard("check", path)

    assert result.exit_code == 1
    assert "ambiguous winner: 1 row" in result.stdout
    assert "--map winner:WORD=model_a" in result.stdout
