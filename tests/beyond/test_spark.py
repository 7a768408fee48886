"""The same board from Spark as from DuckDB: counts exact, numbers to 1e-9.

Spark and Java are not among the development parts. Where they are missing these tests say so and skip; with
`TILTYARD_REQUIRE_SPARK=1` they fail instead.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from msgspec.structs import asdict

import tiltyard as ty
from tests.missing import needs
from tiltyard.analysis.boards import rate_by
from tiltyard.analysis.boards.rating import InputOptions
from tiltyard.errors import BadRow, BattleError, NoBattles, OptionError

CLOSE = 1e-9
FIT_NOT_CHECKED = "fit not checked: the battles of each cluster are on another machine"
LOCAL = {
    "spark.master": "local[2]",
    "spark.ui.enabled": "false",
    "spark.log.level": "ERROR",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.default.parallelism": "2",
    "spark.driver.memory": "1g",
}


@pytest.fixture(scope="module")
def spark() -> Iterator[Any]:
    """One session for all tests of this file: starting one takes about ten seconds."""
    required = os.environ.get("TILTYARD_REQUIRE_SPARK") == "1"
    if importlib.util.find_spec("pyspark") is None:
        assert not required, "pyspark (the [spark] extra) is missing"
        pytest.skip("Spark is not at hand: `make spark` installs pyspark (the [spark] extra) and runs these tests")
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        needs("Java", always=required)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from pyspark.sql import SparkSession

        builder = SparkSession.builder
        for option, value in LOCAL.items():
            builder = builder.config(option, value)
        session = builder.getOrCreate()
    yield session
    session.stop()


def votes(n: int = 600, seed: int = 5) -> list[dict[str, Any]]:
    """Battles with everything that counting could get wrong: ties, both-bad, weights (0 too), rows without a prompt,
    inconsistent judgments, two kinds of deciders, and a model that never lost."""
    rng = np.random.default_rng(seed)
    models = ["avocet", "brent", "crane", 'dun"lin', "égret"]
    rows: list[dict[str, Any]] = []
    for _ in range(n):
        i, j = rng.choice(len(models), 2, replace=False)
        luck = rng.random()
        winner = "model_a" if rng.random() < 1 / (1 + np.exp(0.4 * (i - j))) else "model_b"
        winner = "tie" if luck < 0.2 else "tie (bothbad)" if luck < 0.3 else winner
        row = {
            "model_a": models[i],
            "model_b": models[j],
            "winner": winner,
            "source": "human" if rng.random() < 0.7 else "llm-judge",
            "question_id": None if rng.random() < 0.1 else f"q{rng.integers(90)}",
            "weight": float(rng.choice([1, 1, 1, 2, 0, 2.5])),
            "dimension": str(rng.choice(["style", "truth"])),
            "category": str(rng.choice(["x", "y"])),
            "len_a": int(rng.integers(10, 500)),
            "inconsistent": winner == "tie" and rng.random() < 0.3,
        }
        rows.append(row)
    rows += [{**rows[0], "model_a": "falcon", "model_b": name, "winner": "model_a"} for name in models[:3]]
    return rows


def write(rows: list[dict[str, Any]], path: Path) -> Path:
    """Rows as a file of the kind that its name tells; a Parquet folder in two parts."""
    if path.suffix == ".jsonl":
        path.write_bytes(msgspec.json.Encoder().encode_lines(rows))
        return path
    polars = pytest.importorskip("polars", reason="files are written with polars")
    frame = polars.DataFrame({name: [row.get(name) for row in rows] for name in rows[0]}, strict=False)
    if path.suffix == ".csv":
        frame.write_csv(path)
    else:
        path.mkdir()
        half = len(rows) // 2
        frame[:half].write_parquet(path / "part-0.parquet")
        frame[half:].write_parquet(path / "part-1.parquet")
    return path


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("votes")
    return {suffix: write(votes(), folder / f"votes.{suffix}") for suffix in ("jsonl", "parquet", "csv")}


def assert_equal(one: ty.Leaderboard, other: ty.Leaderboard) -> None:
    """Whole numbers and texts exactly, other numbers to 1e-9; the same remarks, and the same left out.

    Where Spark keeps the battles of each cluster, the fit is not checked, and the board says so.
    """
    assert other.models == one.models
    for entry in one:
        for name, value in entry.to_dict().items():
            twin = other[entry.model].to_dict()[name]
            expected = pytest.approx(value, rel=CLOSE, abs=CLOSE) if isinstance(value, float) else value
            assert twin == expected, f"{entry.model} {name}"
            assert type(twin) is type(value)
    assert other.n_battles == pytest.approx(one.n_battles, rel=CLOSE)
    assert dict(other.left_out) == pytest.approx(dict(one.left_out), rel=CLOSE)
    if FIT_NOT_CHECKED in other.remarks:
        assert other.details.n_clusters > 1
        assert [remark for remark in other.remarks if remark != FIT_NOT_CHECKED] == without_fit(one.remarks)
    else:
        assert compared(other.remarks) == compared(one.remarks)
    assert other.details.n_clusters == one.details.n_clusters
    apart = ("battles_sha256", "engine")
    assert {name: value for name, value in asdict(other.settings).items() if name not in apart} == {
        name: value for name, value in asdict(one.settings).items() if name not in apart
    }


def compared(remarks: Sequence[str]) -> list[str]:
    """Remarks without what Spark does not look for (copied rows), and without p-values, which are simulated."""
    return sorted(re.sub(r"p 0\.\d+", "p", remark) for remark in remarks if "repeats another row" not in remark)


def without_fit(remarks: Sequence[str]) -> list[str]:
    """Remarks about anything but how well the model describes the battles; there has to be one about that."""
    rest = [remark for remark in remarks if not remark.startswith(("fit", "misfit"))]
    assert len(rest) < len(remarks)
    return rest


OPTIONS: dict[str, dict[str, Any]] = {
    "by prompt": {},
    "by row": {"cluster": "none", "ties": "rao-kupper"},
    "both-bad as ties, robustness": {"both_bad": "half", "robustness": True, "ci": "none"},
    "slot of votes": {"source": "human", "slot": True, "anchor": ("crane", 1200.0)},
    "filters": {"dimension": "style", "inconsistent": "drop", "where": "len_a < 400 AND category = 'x'"},
    "win rates": {"method": "winrate", "min_battles": 150},
    "other clusters, no ties": {"cluster": "category", "ties": "drop"},
    "bootstrap by row": {"ci": "bootstrap", "cluster": "none", "rounds": 40},
}


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
@pytest.mark.parametrize("options", OPTIONS)
def test_spark_and_duckdb_give_the_same_board(spark: Any, files: dict[str, Path], kind: str, options: str) -> None:
    here = ty.rate(files[kind], **OPTIONS[options])
    assert_equal(here, ty.rate(files[kind], engine="spark", **OPTIONS[options]))
    assert here.left_out["row of weight 0"] > 0


@pytest.mark.parametrize("options", ["by prompt", "filters"])
def test_csv_gives_the_same_board_too(spark: Any, files: dict[str, Path], options: str) -> None:
    assert_equal(ty.rate(files["csv"], **OPTIONS[options]), ty.rate(files["csv"], engine="spark", **OPTIONS[options]))


def test_a_glob_a_list_and_a_frame_of_spark_are_the_same_battles(spark: Any, files: dict[str, Path]) -> None:
    folder = files["parquet"]
    here = ty.rate(folder)
    assert_equal(here, ty.rate(f"{folder}/part-*.parquet", engine="spark"))
    assert_equal(here, ty.rate(sorted(folder.iterdir()), engine="spark"))
    assert_equal(here, ty.rate(spark.read.parquet(str(folder))))


def test_boards_by_a_column_are_the_same(spark: Any, files: dict[str, Path]) -> None:
    estimator = ty.BradleyTerry()
    here = rate_by(files["parquet"], "category", estimator)
    there = rate_by(files["parquet"], "category", estimator, InputOptions(engine="spark"))
    assert set(here) == set(there) == {"x", "y"}
    for value, board in here.items():
        assert_equal(board, there[value])


def test_a_single_prompt_is_no_cluster(spark: Any, tmp_path: Path) -> None:
    path = write([{**row, "question_id": "q1"} for row in votes()], tmp_path / "votes.jsonl")
    there = ty.rate(path, engine="spark")
    assert_equal(ty.rate(path), there)
    assert any("all battles have the same prompt" in remark for remark in there.remarks)


def test_soft_scores_are_the_same(spark: Any, tmp_path: Path) -> None:
    lean = {"model_a": 0.8, "model_b": 0.3, "tie": 0.55}
    rows = [{**row, "score_a": lean.get(row["winner"])} for row in votes() if row["winner"] in lean]
    path = write(rows, tmp_path / "votes.jsonl")
    assert_equal(ty.rate(path), ty.rate(path, engine="spark"))


FOREIGN: dict[str, list[dict[str, Any]]] = {
    "lmarena": [
        {"model_a": a, "model_b": b, "winner": won, "tstamp": 1.5, "conv_metadata": {"sum_assistant_a_tokens": 5}}
        for a, b, won in [("x", "y", "model_a"), ("y", "x", "model_a"), ("x", "y", "tie"), ("x", "y", "both_bad")]
    ],
    "comparia": [
        {"model_a_name": a, "model_b_name": b, "chosen_model_name": won, "both_equal": won is None, "languages": ["fr"]}
        for a, b, won in [("x", "y", "x"), ("y", "x", "y"), ("x", "y", None), ("y", "z", "z"), ("z", "y", "y")]
    ],
    "evalica": [
        {"left": a, "right": b, "winner": won}
        for a, b, won in [("x", "y", "left"), ("x", "y", "right"), ("y", "x", "tie")]
    ],
    "alpaca_eval": [
        {"model": a, "baseline": "y", "preference": p}
        for a, p in [("x", 1.2), ("x", 1.9), ("z", 1.5), ("z", 2.0), ("z", 1.0)]
    ],
    "winner-loser": [{"winner": a, "loser": b} for a, b in [("x", "y"), ("y", "x"), ("x", "y")]],
}


@pytest.mark.parametrize("spelling", FOREIGN)
def test_foreign_spellings_are_read_alike(spark: Any, spelling: str, tmp_path: Path) -> None:
    path = write(FOREIGN[spelling], tmp_path / "foreign.jsonl")
    assert_equal(ty.rate(path), ty.rate(path, engine="spark"))
    if spelling in ("comparia", "alpaca_eval"):
        path = write(FOREIGN[spelling], tmp_path / "foreign.parquet")
        assert_equal(ty.rate(path), ty.rate(path, engine="spark"))


GOOD = {"model_a": "x", "model_b": "y", "winner": "model_a", "source": "human"}
BAD: dict[str, dict[str, Any]] = {
    "unknown winner": {"winner": "modle_a"},
    "missing winner": {"winner": None},
    "model against itself": {"model_b": "x"},
    "missing model name": {"model_a": " "},
    "wrong type": {"model_a": 5},
    "unknown source": {"source": "robot"},
    "missing source": {"source": ""},
    "bad weight": {"weight": -2},
    "score out of range": {"score_a": 1.5},
    "score contradicts winner": {"score_a": 0.25},
    "inconsistent but not a tie": {"inconsistent": True},
}


def bad_file(path: Path) -> Path:
    rows = [
        GOOD,
        {**GOOD, "winner": "model_b"},
        {**GOOD, "weight": "heavy"},
        *({**GOOD, **bad} for bad in BAD.values()),
    ]
    lines = msgspec.json.Encoder().encode_lines([*rows, *rows[:2]])
    path.write_bytes(b"\xef\xbb\xbf" + lines + b"\n   \n[1]\n{torn\n" + b'{"model_a": "\xff", "model_b": "y"}\n')
    return path


def test_bad_rows_are_skipped_and_counted_by_the_same_reasons(spark: Any, tmp_path: Path) -> None:
    path = bad_file(tmp_path / "bad.jsonl")
    here = ty.rate(path, on_bad="skip", inconsistent="drop")
    assert_equal(here, ty.rate(path, on_bad="skip", inconsistent="drop", engine="spark"))
    assert {f"bad row: {reason}" for reason in (*BAD, "broken line", "not UTF-8 text")} <= set(here.left_out)


@pytest.mark.parametrize("reason", BAD)
def test_a_bad_row_stops_the_rating_with_what_is_known(spark: Any, reason: str, tmp_path: Path) -> None:
    path = write([GOOD, {**GOOD, "winner": "model_b"}, {**GOOD, **BAD[reason]}], tmp_path / "bad.jsonl")
    with pytest.raises(BadRow, match=rf"\(1 such row\): {reason}: .*on_bad=.skip") as caught:
        ty.rate(path, engine="spark", inconsistent="drop")
    assert "\n" not in str(caught.value)


def test_a_torn_csv_line_is_a_bad_row(spark: Any, tmp_path: Path) -> None:
    path = tmp_path / "torn.csv"
    head = "model_a,model_b,winner,source\nx,y,model_a,human\nx,y,model_b,human\n"
    path.write_text(head + "x,y,model_b\n", encoding="utf-8")
    with pytest.raises(BadRow, match="wrong number of cells"):
        ty.rate(path, engine="spark")
    assert_equal(ty.rate(path, on_bad="skip"), ty.rate(path, on_bad="skip", engine="spark"))


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"method": "elo"}, "Elo goes through the battles one by one"),
        ({"method": "glicko2"}, 'Use method="bt" or method="winrate", or engine="duckdb"'),
        ({"control": ["len"]}, "control looks at every battle"),
        ({"ci": "bootstrap"}, "a bootstrap by question_id needs every question_id on one machine. Use ci=.sandwich"),
        ({"where": "lenght < 5"}, "where=.lenght < 5. cannot be used: .*The columns are model_a, "),
        ({"where": "len_a <"}, "where=.len_a <. cannot be used"),
        ({"cluster": "voter"}, "the battles have no column 'voter'"),
    ],
)
def test_what_spark_cannot_do_is_refused_in_one_line(
    spark: Any, files: dict[str, Path], options: dict[str, Any], says: str
) -> None:
    with pytest.raises(OptionError, match=says) as caught:
        ty.rate(files["jsonl"], engine="spark", **options)
    assert "\n" not in str(caught.value)


def test_what_is_not_there_or_not_of_one_kind_is_a_clear_error(
    spark: Any, files: dict[str, Path], tmp_path: Path
) -> None:
    with pytest.raises(BattleError, match=r"Spark finds no file at .*nowhere\.jsonl"):
        ty.rate(tmp_path / "nowhere.jsonl", engine="spark")
    with pytest.raises(BattleError, match="holds csv and jsonl: Spark reads files of one kind"):
        ty.rate([files["jsonl"], files["csv"]], engine="spark")
    with pytest.raises(OptionError, match="cannot read standard input"):
        ty.rate("-", engine="spark")
    (tmp_path / "array.json").write_text("[\n{}\n]", encoding="utf-8")
    with pytest.raises(BattleError, match="is a JSON array"):
        ty.rate(tmp_path / "array.json", engine="spark")
    with pytest.raises(NoBattles, match="no row is a battle"):
        ty.rate(files["parquet"], engine="spark", where="len_a > 5000")


def test_rows_in_memory_are_not_for_spark() -> None:
    with pytest.raises(BattleError, match="reads paths or a Spark DataFrame, not a list"):
        ty.rate([GOOD], engine="spark")


def run(script: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False, env={**os.environ, **environment}
    )


def test_without_the_extra_one_line_says_how_to_install_it() -> None:
    script = "import sys; sys.modules['pyspark'] = None; sys.argv[1:] = ['rate', 'x.jsonl', '--engine', 'spark']\n"
    done = run(script + "from tiltyard.cli.main import main; main()")
    assert done.returncode == 1
    assert done.stderr == (
        "tiltyard: the spark engine needs the [spark] extra. In the folder of your clone: pip install '.[spark]'\n"
    )


def test_without_java_one_line_says_so() -> None:
    if importlib.util.find_spec("pyspark") is None:
        pytest.skip("Spark is not at hand: pyspark (the [spark] extra) missing")
    script = "import sys; sys.argv[1:] = ['rate', 'x.jsonl', '--engine', 'spark']\n"
    done = run(script + "from tiltyard.cli.main import main; main()", JAVA_HOME="", PATH="/nowhere")
    assert done.returncode == 1
    says = "the spark engine needs Java 17 or later: there is no java on PATH. Install a JDK, or set JAVA_HOME."
    assert done.stderr == f"tiltyard: {says}\n"


def test_the_command_prints_the_same_table(spark: Any, files: dict[str, Path]) -> None:
    command = [sys.executable, "-m", "tiltyard", "rate", str(files["parquet"])]
    here = subprocess.run(command, capture_output=True, text=True, check=True)
    there = subprocess.run([*command, "--engine", "spark"], capture_output=True, text=True, check=True)
    assert without_fit(there.stdout.splitlines()) == without_fit(here.stdout.splitlines())


@pytest.mark.parametrize("suffix", ["jsonl", "csv"])
def test_columns_under_other_names_and_winners_in_other_words_are_counted_too(
    spark: Any, tmp_path: Path, suffix: str
) -> None:
    words = {"model_a": "A", "model_b": "[[B]]", "tie": "draw", "tie (bothbad)": "both bad"}
    theirs = [
        {"one": row["model_a"], "two": row["model_b"], "choice": words[row["winner"]], "task": row["question_id"]}
        for row in votes()
    ]
    path = write(theirs, tmp_path / f"theirs.{suffix}")
    mapped = {"model_a": "one", "model_b": "two", "winner": "choice", "prompt": "task"}

    there, here = ty.rate(path, engine="spark", map=mapped), ty.rate(path, map=mapped)

    assert there.models == here.models
    assert there.ratings == pytest.approx(here.ratings, abs=CLOSE)
    assert there.settings.interval.clusters == here.settings.interval.clusters
