"""Forgiving input: columns under other names, winners in any usual spelling; what is ambiguous is refused."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from battle_rows import same, write_raw
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.sizes import size

import tiltyard as ty
from tiltyard.data.battles import BadRows, Outcome, ReadBattlesOptions, find_problems, peek, read_battles
from tiltyard.data.battles.formats import SPELLINGS, TARGETS, side_of
from tiltyard.data.battles.reading import find_sources
from tiltyard.errors import BadRow, BattleError, OptionError

A, B, TIE, BOTH_BAD = Outcome.A.code, Outcome.B.code, Outcome.TIE.code, Outcome.BOTH_BAD.code
THEIRS = {
    "model_a": "first llm",
    "model_b": "second llm",
    "winner": "choice",
    "prompt": "what was asked",
    "voter": "who",
    "category": "topic",
    "timestamp": "at",
    "weight": "times",
    "len_a": "tokens 1",
    "len_b": "tokens 2",
}


def ours() -> list[dict[str, Any]]:
    kinds = ["model_a", "model_b", "tie", "tie (bothbad)"]
    return [
        {
            "model_a": "otter" if at % 2 else "heron",
            "model_b": "crane",
            "winner": kinds[at % 4],
            "prompt": f"q{at % 3}",
            "voter": f"v{at % 2}",
            "category": "maths" if at % 3 else "law",
            "timestamp": 1700000000.0 + at,
            "weight": 1 + at % 2,
            "len_a": 10 * at,
            "len_b": 7,
        }
        for at in range(8)
    ]


def theirs(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{THEIRS[name]: value for name, value in row.items()} for row in rows]


@pytest.mark.parametrize(
    "kind",
    [
        "jsonl.gz",
        "csv",
        "parquet",
        *(pytest.param(kind, marks=pytest.mark.soak) for kind in ("jsonl", "csv.gz", "tsv")),
    ],
)
def test_a_mapped_file_is_read_as_if_its_columns_were_renamed(kind: str, tmp_path: Path) -> None:
    path = write_raw(tmp_path / f"theirs.{kind}", theirs(ours()))
    expected = read_battles(ours())
    assert set(expected.columns) == {"question_id", "voter", "category", "timestamp", "len_a", "len_b"}

    (source,) = find_sources(path, ReadBattlesOptions(map=THEIRS))
    fast = source.read_with_duckdb()
    assert fast is not None
    assert same(fast, expected)
    assert same(source.read_by_row(BadRows(stop=True)), expected)


def test_frames_rows_and_globs_are_mapped_too(tmp_path: Path) -> None:
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    rows = theirs(ours())
    expected = read_battles(ours())
    write_raw(tmp_path / "1.jsonl", rows[:4])
    write_raw(tmp_path / "2.csv", rows[4:])

    for data in (rows, iter(rows), pandas.DataFrame(rows), polars.DataFrame(rows), str(tmp_path / "*")):
        assert same(read_battles(data, map=THEIRS), expected)


def test_a_mapped_board_is_the_board_of_the_renamed_file(tmp_path: Path) -> None:
    path = write_raw(tmp_path / "theirs.csv", theirs(ours()))
    board = ty.rate(path, map=THEIRS, control=["len"], slot=False)
    plain = ty.rate(ours(), control=["len"], slot=False)

    assert board.ratings == plain.ratings
    assert board.settings.interval.clusters == plain.settings.interval.clusters
    assert board.settings.map == THEIRS
    assert not plain.settings.map


def test_where_and_a_split_use_the_files_own_names(tmp_path: Path) -> None:
    path = write_raw(tmp_path / "theirs.jsonl", theirs(ours()))

    table = read_battles(path, map=THEIRS, where="topic = 'law'", columns=["topic"])

    assert table.columns["topic"].labels == ("law",)
    assert read_battles(path, map=THEIRS, counted=True, columns=(), hashed=["question_id"]).n_battles == 12


def test_a_mapping_comes_before_every_usual_name() -> None:
    rows = [{"model_a": "x", "model_b": "y", "winner": "tie", "choice": "A", "question_id": "1", "topic": "t"}]
    table = read_battles(rows, map={"winner": "choice", "prompt": "topic"})
    assert table.outcome.tolist() == [A]
    assert table.columns["question_id"].labels == ("t",)

    alpaca = [{"model": "x", "baseline": "y", "preference": 1.5, "idx": 1, "topic": "t"}]
    assert read_battles(alpaca, map={"prompt": "topic"}).columns["question_id"].labels == ("t",)


def test_nested_values_can_be_mapped() -> None:
    rows = [{"a": {"name": "x"}, "b": {"name": "y"}, "winner": "b"}]
    table = read_battles(rows, map={"model_a": "a.name", "model_b": "b.name"})
    assert (table.models, table.outcome.tolist()) == (("x", "y"), [B])


def test_foreign_formats_are_still_recognised_with_a_mapping() -> None:
    rows = [{"left": "x", "right": "y", "winner": "right", "task": "t1"}]
    assert peek(rows, map={"prompt": "task"}).format == "evalica"
    assert read_battles(rows, map={"prompt": "task", "battle_id": "task"}).columns["battle_id"].labels == ("t1",)


def test_who_decided_follows_the_same_rule_as_with_renamed_columns() -> None:
    row = {"model_a": "x", "model_b": "y", "choice": "A", "grader": "g", "by": "llm-judge"}

    assert read_battles([row], map={"winner": "choice"}).source.tolist() == [ty.Source.HUMAN.code]
    with pytest.raises(BattleError, match=r"needs source\. Say who decided with default_source"):
        read_battles([row], map={"winner": "choice", "judge": "grader"})
    for more in ({"default_source": "llm-judge"}, {}):
        given = {"winner": "choice", "judge_model": "grader"} | ({} if more else {"source": "by"})
        assert read_battles([row], map=given, **more).source.tolist() == [ty.Source.LLM_JUDGE.code]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"winer": "choice"}, "map: winer is none of our columns. Did you mean winner"),
        ({"colour": "choice"}, "They are prompt, model_a, model_b, winner, source"),
        ({"winner": "choise"}, """has no column 'choise' for winner. Did you mean map={"winner": "choice"}"""),
        ({"winner": "xyz"}, "has no column 'xyz' for winner. Its columns are first llm, second llm, choice"),
        ({"prompt": "choice", "question_id": "who"}, "question_id is filled twice, from 'choice' and 'who'"),
        ({"len_a": "tokens 1"}, "len_a needs len_b beside it"),
        ({"winner:x": "nobody"}, "winner:x is 'nobody': expected winner:WORD"),
        ({"winner": ""}, "expected the name of a column"),
    ],
)
def test_a_mapping_that_cannot_be_is_one_clear_line(given: dict[str, str], message: str) -> None:
    with pytest.raises(OptionError) as caught:
        read_battles(theirs(ours()), map=given)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_format_without_a_winner_refuses_to_map_one() -> None:
    with pytest.raises(OptionError, match="a winner-loser file has no winner to map"):
        read_battles([{"winner": "x", "loser": "y", "who": "z"}], format="winner-loser", map={"winner": "who"})
    with pytest.raises(OptionError, match="a judgearena file has no score_a to map"):
        read_battles([{"model_a": "x", "model_b": "y", "s": 1}], format="judgearena", map={"score_a": "s"})
    with pytest.raises(OptionError, match="a BattleTable has been read"):
        ty.rate(read_battles(ours()), map={"winner": "x"})


@pytest.mark.parametrize(
    ("header", "asked"),
    [
        ("prompt model_a model_b preferred", 'map={"winner": "preferred"}'),
        ("q Model_1 Model_2 Choice", 'map={"model_a": "Model_1", "model_b": "Model_2", "winner": "Choice"}'),
        ("left_model right_model winner", 'map={"model_a": "left_model", "model_b": "right_model"}'),
        ("model_a model_b human_preference", 'map={"winner": "human_preference"}'),
        ("model_a modelb winner", 'map={"model_b": "modelb"}'),
    ],
)
def test_a_missing_column_is_suggested_from_the_header(header: str, asked: str) -> None:
    with pytest.raises(BattleError) as caught:
        read_battles([dict.fromkeys(header.split(), "x")])
    assert f"Did you mean {asked}? Its columns are {', '.join(header.split())}" in str(caught.value)


@pytest.mark.parametrize("columns", [None, {"model_a": "left"}])
def test_a_table_that_is_separated_by_bars_is_said_to_be_so(columns: dict[str, str] | None, tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    path.write_text("left|right|winner\nx|y|x\n")
    with pytest.raises(BattleError, match=r"mine\.csv: its columns are separated by bars, not by commas"):
        read_battles(path, map=columns)


@pytest.mark.parametrize("sign", [";", "\t"])
@pytest.mark.parametrize("n", [2, 9000])
def test_a_csv_file_with_semicolons_or_tabs_is_read(sign: str, n: int, tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    rows = [("model_a", "model_b", "winner", "question"), *[("otter", "heron", "B", "one, or two")] * n]
    path.write_bytes(b"\xef\xbb\xbf" + "\r\n".join(map(sign.join, rows)).encode())
    table = read_battles(path)
    assert table.outcome.tolist() == [1] * n
    assert table.text_column("question_id").labels == ("one, or two",)


def test_nothing_is_suggested_for_columns_that_hold_no_models_and_winners() -> None:
    rows = [{"from": "de", "to": "en", "text": "a b"}, {"from": "en", "to": "de", "text": "c"}]
    with pytest.raises(BattleError, match="no known battle format"):
        read_battles(rows)


@pytest.mark.parametrize(
    "rows",
    [
        [{"winner_model": "x", "loser_model": "y", "judge": at} for at in "35"],
        [{"foo": "x", "bar": "y", "preferred": "x"}],
        [{"foo": a, "bar": b, "grade": "1", "level": "2"} for a, b in ("xy", "yx")],
        [{"foo": a, "bar": b, "grade": a_, "level": b_} for a, b, a_, b_ in ("xy12", "yx21")],
    ],
)
def test_no_mapping_is_suggested_that_lacks_a_column_or_could_be_another(rows: list[dict[str, str]]) -> None:
    with pytest.raises(BattleError) as caught:
        read_battles(rows)
    assert "Did you mean" not in str(caught.value)


def test_nothing_is_suggested_where_nothing_is_like_it() -> None:
    with pytest.raises(BattleError, match=r"no known battle format\. Its columns are colour, size;") as caught:
        read_battles([{"colour": 1, "size": 2}])
    assert "Did you mean" not in str(caught.value)


@pytest.mark.parametrize(
    ("word", "outcome"),
    [
        *[(word, A) for word in ("A", "a", " A ", "[[A]]", "left", "LEFT", "1", 1, 1.0, "Assistant A", "response_1")],
        *[(word, B) for word in ("B", "[[b]]", "Right", "2", 2, "2.0", "model-b", "model_2", "B>>A", "A<B")],
        *[(word, TIE) for word in ("Tie", "draw", "[[C]]", "=", "A=B", "both_good", "tied")],
        *[(word, BOTH_BAD) for word in ("both_bad", "Both Bad", "BOTHBAD", "tie (both bad)")],
        ("x", A),
        ("y", B),
    ],
)
def test_winners_are_read_in_every_listed_spelling(word: Any, outcome: int) -> None:
    for more in ({}, {"source": "human"}):
        row = {"model_a": "x", "model_b": "y", "winner": word} | more
        assert read_battles([row]).outcome.tolist() == [outcome]


@pytest.mark.parametrize("word", ["C", "neither", "-1", "3", "X", "modle_a", "both", "A B", True, 2.5])
def test_what_is_not_listed_is_never_guessed(word: Any) -> None:
    with pytest.raises(BadRow, match=r"unknown winner|wrong type") as caught:
        read_battles([{"model_a": "x", "model_b": "y", "winner": word}])
    assert ('map={"winner:WORD": "model_a"}' in str(caught.value)) == (caught.value.reason == "unknown winner")


def test_a_name_that_means_the_other_side_is_ambiguous() -> None:
    row = {"model_a": "B", "model_b": "A", "winner": "A"}
    with pytest.raises(BadRow, match="ambiguous winner: winner is 'A', which means model_a, and is the name of"):
        read_battles([row])
    assert read_battles([row | {"winner": "model_b"}]).outcome.tolist() == [B]
    assert read_battles([row], map={"winner:A": "model_b"}).outcome.tolist() == [B]
    assert read_battles([{"model_a": "A", "model_b": "B", "winner": "A"}]).outcome.tolist() == [A]
    with pytest.raises(BadRow, match="ambiguous winner"):
        read_battles([{"model_a": "x", "model_b": "tie", "winner": "tie"}])


def test_our_own_words_mean_the_side_in_our_own_rows_only() -> None:
    row = {"model_a": "model_b", "model_b": "model_a", "winner": "model_a"}
    assert read_battles([row | {"source": "human"}]).outcome.tolist() == [A]
    with pytest.raises(BadRow, match="ambiguous winner"):
        read_battles([row])


@pytest.mark.parametrize("kind", ["jsonl", "csv", "parquet"])
def test_a_zero_is_refused_even_where_bad_rows_are_skipped(kind: str, tmp_path: Path) -> None:
    rows = [{"model_a": "x", "model_b": "y", "winner": at % 2} for at in range(4)]
    path = write_raw(tmp_path / f"z.{kind}", rows)
    for read in (read_battles, find_problems):
        more = {"on_bad": "skip"} if read is read_battles else {}
        with pytest.raises(BattleError, match=r"winner is 0 in some rows, .* map=\{\"winner:0\": \"model_a\""):
            read(path, **more)

    words = {"winner:0": "model_b", "winner:1": "model_a"}
    assert read_battles(path, map=words).outcome.tolist() == [B, A, B, A]
    with pytest.raises(BadRow, match=r"unknown winner: winner is '?1'?"):
        read_battles(path, map={"winner:0": "model_a"})


def test_a_model_may_be_called_zero() -> None:
    assert read_battles([{"model_a": "0", "model_b": "y", "winner": "0"}]).outcome.tolist() == [A]


WORDS = [*SPELLINGS, "A", "B", "[[A]]", "Left", "x", "y", "model_a", "model_b", "nobody", "3"]
ANY_ROWS = st.fixed_dictionaries(
    {
        "one": st.sampled_from(["x", "A", "B", "1", "tie", "model_a", "left"]),
        "two": st.sampled_from(["y", "A", "B", "2", "model_b", "right"]),
        "choice": st.none() | st.sampled_from(WORDS),
    }
)


def slow_reading(row: dict[str, Any]) -> int | None:
    """What one row says, by the documented rule: the word's side, or the model's, and None where they disagree."""
    side = side_of(row["choice"])
    by_word = None if side is None else side.code
    by_name = A if row["choice"] == row["one"] else B if row["choice"] == row["two"] else None
    if by_word is not None and by_name is not None and by_word != by_name:
        return None
    return by_name if by_name is not None else by_word


@pytest.mark.parametrize("kind", ["jsonl", "csv", "parquet"])
@settings(max_examples=size(4, soak=100))
@given(rows=st.lists(ANY_ROWS, min_size=1, max_size=15))
def test_both_readers_read_any_spelling_by_the_documented_rule(kind: str, rows: list[dict[str, Any]]) -> None:
    mapped = {"model_a": "one", "model_b": "two", "winner": "choice"}
    with tempfile.TemporaryDirectory() as folder:
        path = write_raw(Path(folder) / f"any.{kind}", rows)
        (source,) = find_sources(path, ReadBattlesOptions(map=mapped))
        fast, bad_rows = source.read_with_duckdb(), BadRows()
        assert fast is not None
        assert same(fast, source.read_by_row(bad_rows))
        assert dict(fast.skipped) == bad_rows.skipped
    fine = [row for row in rows if row["one"] != row["two"] and row["choice"] is not None]
    expected = [reading for row in fine if (reading := slow_reading(row)) is not None]
    assert fast.outcome.tolist() == expected


def test_every_column_of_a_row_can_be_mapped() -> None:
    row = {"model_a": "x", "model_b": "y", "winner": "tie", "source": "human", "score_a": 0.6, "weight": 2}
    row |= {"question_id": "q", "voter": "v", "judge_model": "j", "dimension": "d", "category": "c", "language": "l"}
    row |= {"timestamp": 5.0, "battle_id": "b"}
    row |= {"inconsistent": True, "one_order": True, "winner_first": True}
    assert set(row) == set(TARGETS)
    foreign = {f"their {name}": value for name, value in row.items()}

    assert same(read_battles([foreign], map={name: f"their {name}" for name in row}), read_battles([row]))
