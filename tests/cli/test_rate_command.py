"""`tiltyard rate` as a user runs it."""

from __future__ import annotations

import csv
import hashlib
import io
import json
from pathlib import Path

import numpy as np
import pytest

from oracles.labelled_worlds import LabelledWorld, battle_rows
from tests.cli.conftest import Run
from tiltyard.analysis.boards import estimator

ROW = {"model_a": "otter", "model_b": "heron", "winner": "model_a", "source": "human"}


def write(path: Path, *rows: dict[str, object]) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return str(path)


def fought(a: str, b: str, winner: str = "model_a", **more: object) -> dict[str, object]:
    return {"model_a": a, "model_b": b, "winner": winner, "source": "human", **more}


def test_the_table_goes_to_stdout_and_nothing_else_does(tiltyard: Run, birds: str) -> None:
    done = tiltyard("rate", birds)
    assert done.returncode == 0
    assert done.stderr == ""
    lines = done.stdout.splitlines()
    assert lines[0].startswith("Bradley–Terry · 1,200 battles · 8 models")
    assert [line.split()[1] for line in lines[4:12]][:3] == ["osprey", "heron", "kestrel"]


def test_json_has_every_field_of_the_ratings_file(tiltyard: Run, birds: str) -> None:
    done = tiltyard("rate", birds, "--format", "json", "--evaluated", "heron", "--ci", "bootstrap", "--rounds", "50")
    report = json.loads(done.stdout)
    top = {
        "arena",
        "model",
        "judge_model",
        "n_bootstraps",
        "seed",
        "method",
        "tie_model",
        "both_bad",
        "scale",
        "anchor",
    }
    assert top | {"interval", "battles_sha256", "tiltyard_version", "ratings"} <= set(report)
    assert report["model"] == "heron"
    assert report["n_bootstraps"] == 50
    assert report["battles_sha256"] == hashlib.sha256(Path(birds).read_bytes()).hexdigest()
    entry = report["ratings"][1]
    needed = {"model", "rating", "ci_low", "ci_high", "n_battles", "source", "rank", "rank_low", "rank_high"}
    assert needed | {"wins", "losses", "ties", "both_bad", "bootstrap_mean"} <= set(entry)
    assert {row["source"] for row in report["ratings"]} == {"evaluated", "human"}
    assert entry["wins"] + entry["losses"] + entry["ties"] + entry["both_bad"] == entry["n_battles"]


def test_the_same_command_prints_the_same_bytes(tiltyard: Run, birds: str) -> None:
    arguments = ("rate", birds, "--ci", "bootstrap", "--rounds", "40", "--seed", "3", "--format", "json")
    assert tiltyard(*arguments).stdout == tiltyard(*arguments).stdout


def test_every_format_names_every_model(tiltyard: Run, birds: str) -> None:
    for kind in ("table", "json", "csv", "md"):
        done = tiltyard("rate", birds, "--format", kind)
        assert done.returncode == 0
        assert all(name in done.stdout for name in ("osprey", "sanderling"))
    rows = list(csv.DictReader(io.StringIO(tiltyard("rate", birds, "--format", "csv").stdout)))
    assert len(rows) == 8
    assert float(rows[0]["rating"]) > float(rows[-1]["rating"])


@pytest.mark.parametrize("method", ["bt", "elo", "elo-perm", "glicko2", "winrate"])
def test_every_method_puts_the_strongest_bird_above_the_weakest(tiltyard: Run, birds: str, method: str) -> None:
    report = json.loads(tiltyard("rate", birds, "--method", method, "--format", "json").stdout)
    rating = {row["model"]: row["rating"] for row in report["ratings"]}
    assert report["method"] == method
    assert rating["osprey"] > rating["sanderling"]


def test_permutation_elo_adds_the_sem_and_the_sweep(tiltyard: Run, birds: str) -> None:
    done = tiltyard("rate", birds, "--method", "elo-perm", "--n-perms", "20", "--k-sweep", "4,8", "--format", "json")
    report = json.loads(done.stdout)
    assert set(report["k_sensitivity"]) == {"4.0", "8.0"}
    assert all(row["sem"] > 0 and row["sampling_low"] < row["rating"] for row in report["ratings"])


def test_an_option_of_another_method_is_refused_by_name(tiltyard: Run, birds: str) -> None:
    done = tiltyard("rate", birds, "--method", "elo", "--ties", "half")
    assert done.returncode == 1
    assert done.stderr == "tiltyard: ties does not apply to method elo: it belongs to bt.\n"


def test_an_unknown_choice_is_wrong_usage(tiltyard: Run, birds: str) -> None:
    assert tiltyard("rate", birds, "--method", "magic").returncode == 2
    assert tiltyard("rate").returncode == 2


def test_a_bad_row_is_one_line_with_file_line_value_and_advice(tiltyard: Run, tmp_path: Path) -> None:
    path = write(tmp_path / "b.jsonl", ROW, {**ROW, "winner": "oter"})
    done = tiltyard("rate", path)
    assert done.returncode == 1
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1
    for part in ("b.jsonl:2", "oter", "--on-bad skip"):
        assert part in done.stderr


def test_skipped_rows_are_counted_on_the_board(tiltyard: Run, tmp_path: Path) -> None:
    rows = [ROW, fought("heron", "otter"), {**ROW, "winner": "oter"}, {**ROW, "model_b": "otter"}]
    done = tiltyard("rate", write(tmp_path / "b.jsonl", *rows), "--on-bad", "skip", "--format", "json")
    left_out = json.loads(done.stdout)["left_out"]
    assert sum(left_out.values()) == 2
    assert len(left_out) == 2


def test_islands_are_named_and_the_largest_can_be_rated(tiltyard: Run, tmp_path: Path) -> None:
    rows = [fought("a", "b"), fought("b", "c"), fought("c", "a"), fought("x", "y"), fought("y", "x")]
    path = write(tmp_path / "b.jsonl", *rows)
    done = tiltyard("rate", path)
    assert done.returncode == 1
    assert "x, y" in done.stderr
    assert "--only-connected" in done.stderr
    report = json.loads(tiltyard("rate", path, "--only-connected", "--format", "json").stdout)
    assert {row["model"] for row in report["ratings"]} == {"a", "b", "c"}
    assert any("x, y" in remark for remark in report["remarks"])


def test_an_unbeaten_model_has_an_open_side_and_a_mark_everywhere(tiltyard: Run, tmp_path: Path) -> None:
    rows = [fought("otter", "heron"), fought("otter", "crane"), fought("heron", "crane"), fought("crane", "heron")]
    path = write(tmp_path / "b.jsonl", *rows)
    entry = json.loads(tiltyard("rate", path, "--format", "json").stdout)["ratings"][0]
    assert (entry["model"], entry["ci_high"]) == ("otter", None)
    assert entry["ci_low"] is not None
    assert "no upper bound" in entry["note"]
    assert "otter †" in tiltyard("rate", path).stdout
    assert "no upper bound" in tiltyard("rate", path, "--format", "md").stdout
    assert "no upper bound" in tiltyard("rate", path, "--format", "csv").stdout


def test_boards_by_column_filters_and_files(tiltyard: Run, birds: str, tmp_path: Path) -> None:
    done = tiltyard("rate", birds, "--by", "category", "--out", "by.json", "--plot", "by.svg")
    assert done.returncode == 0
    boards = json.loads((tmp_path / "by.json").read_text(encoding="utf-8"))["boards"]
    assert set(boards) == {"cooking", "history", "programming"}
    assert sum(board["n_battles"] for board in boards.values()) == 1200
    assert {path.name for path in tmp_path.glob("*.svg")} == {f"by-{value}.svg" for value in boards}
    assert "wrote by.json" in done.stderr
    joint = "They do not hold for all 3 boards at once"
    for shape in ("table", "md"):
        assert joint in tiltyard("rate", birds, "--by", "category", "--format", shape).stdout
    assert joint not in tiltyard("rate", birds, "--by", "category", "--ci", "none").stdout


def test_where_reads_the_files_own_columns(tiltyard: Run, birds: str) -> None:
    done = tiltyard("rate", birds, "--where", "category = 'cooking' AND len_a > len_b", "--format", "json")
    assert 0 < json.loads(done.stdout)["n_battles"] < 400
    wrong = tiltyard("rate", birds, "--where", "colour = 'red'")
    assert wrong.returncode == 1
    assert "colour" in wrong.stderr
    assert len(wrong.stderr.splitlines()) == 1


def test_standard_input_is_a_file_too(tiltyard: Run, birds: str) -> None:
    piped = tiltyard("rate", "-", "--format", "csv", stdin=Path(birds).read_text(encoding="utf-8"))
    assert piped.stdout == tiltyard("rate", birds, "--format", "csv").stdout


def test_a_board_that_is_watched_says_so(tiltyard: Run, birds: str) -> None:
    assert "range of places, valid at any time you look" in tiltyard("rate", birds, "--anytime").stdout
    assert json.loads(tiltyard("rate", birds, "--anytime", "--format", "json").stdout)["interval"]["anytime"] is True


def test_comparing_with_an_earlier_file_says_who_moved(tiltyard: Run, birds: str) -> None:
    assert tiltyard("rate", birds, "--out", "old.json").returncode == 0
    done = tiltyard("rate", birds, "--method", "elo", "--compare", "old.json")
    assert "Kendall τ" in done.stdout
    same = json.loads(tiltyard("rate", birds, "--compare", "old.json", "--format", "json").stdout)["comparison"]
    assert same["kendall_tau"] == 1.0
    assert all(change["places_gained"] == 0 for change in same["changes"])


def test_an_anchor_moves_the_board_and_intervals_are_those_of_the_difference_from_it(tiltyard: Run, birds: str) -> None:
    free = json.loads(tiltyard("rate", birds, "--format", "json").stdout)["ratings"]
    pinned = json.loads(tiltyard("rate", birds, "--anchor", "plover=1500", "--format", "json").stdout)["ratings"]
    shift = 1500 - next(row["rating"] for row in free if row["model"] == "plover")
    for before, after in zip(free, pinned, strict=True):
        assert after["rating"] == pytest.approx(before["rating"] + shift, abs=1e-9)
        width = after["ci_high"] - after["ci_low"]
        assert width == 0.0 if after["model"] == "plover" else width > before["ci_high"] - before["ci_low"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--anchor", "nobody=1000"), "nobody"),
        (("--anchor", "1000"), "MODEL=RATING"),
        (("--evaluated", "nobody"), "nobody"),
        (("--control", "bold"), "bold_a"),
        (("--by", "colour"), "colour"),
        (("--cluster", "colour"), "colour"),
        (("--dimension", "taste"), "dimension"),
        (("--from", "martian"), "martian"),
        (("--k-sweep", "1,x", "--method", "elo-perm"), "1,x"),
        (("--level", "95"), "95"),
        (("--plot", "board.jpg"), ".svg"),
        (("--out", "no/such/folder/x.json"), "no/such/folder"),
        (("--compare", "nothing.json"), "nothing.json"),
        (("--source", "llm-judge"), "no battle is left"),
    ],
)
def test_a_wrong_value_is_one_clear_line(tiltyard: Run, birds: str, arguments: tuple[str, ...], words: str) -> None:
    done = tiltyard("rate", birds, *arguments)
    assert done.returncode == 1
    assert words in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert "Traceback" not in done.stderr


def test_a_list_may_be_given_between_commas_or_one_by_one(tiltyard: Run, birds: str) -> None:
    given = ("--k-sweep", "4,8,16"), ("--k-sweep", "4", "--k-sweep", "8, 16")
    once, again = (tiltyard("rate", birds, "--method", "elo-perm", *one, "--format", "json").stdout for one in given)
    assert set(json.loads(once)["k_sensitivity"]) == {"4.0", "8.0", "16.0"}
    assert once == again
    assert "'bold_a'" in tiltyard("rate", birds, "--control", "bold", "--control", "len").stderr


def test_help_shows_what_is_used_daily_and_help_all_the_rest(tiltyard: Run) -> None:
    daily, every = (tiltyard("rate", option).stdout for option in ("--help", "--help-all"))
    assert "--method bt|elo" in daily
    assert "--robustness" not in daily
    assert all(option in every for option in ("--method", "--robustness", "--tie-band", "--pool"))
    assert "bool" not in every
    assert max(map(len, every.splitlines())) <= 100
    assert tiltyard("rate", "--help").stdout == daily


def test_a_part_that_cannot_be_rated_is_named(tiltyard: Run, tmp_path: Path) -> None:
    rows = [fought("a", "b", category="fine"), fought("b", "a", category="fine")]
    rows += [fought("a", "b", category="torn"), fought("c", "d", category="torn")]
    done = tiltyard("rate", write(tmp_path / "b.jsonl", *rows), "--by", "category")
    assert done.returncode == 0
    assert done.stdout.startswith("category: fine\n")
    assert "torn" not in done.stdout
    assert done.stderr.startswith("no board: category torn: cannot rate 4 models together")
    done = tiltyard("rate", write(tmp_path / "c.jsonl", *rows[2:]), "--by", "category")
    assert done.returncode == 1
    assert done.stderr.startswith("tiltyard: category torn: cannot rate 4 models together")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("--ci bootstrap --seed -1", "seed is -1: expected a whole number, at least 0."),
        ("--anchor heron=nan", "the rating of the anchor heron is nan: expected a number"),
        ("--method elo --k 1e308", "K is 1e+308: above 600 Elo does not settle."),
        ("--method elo-perm --n-perms 99999999999", "n_perms is 99999999999: expected a whole number"),
        ("--min-battles nan", "min_battles is nan: expected a number, at least 0."),
    ],
)
def test_a_number_that_is_none_is_one_line(tiltyard: Run, birds: str, options: str, words: str) -> None:
    done = tiltyard("rate", birds, *options.split())
    assert (done.returncode, done.stdout) == (1, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"tiltyard: {words}")


def test_a_board_too_large_for_memory_is_refused_before_work_starts(
    tiltyard: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # 5,000 models need 8 × 9 × 2.5·10⁷ bytes and more: over the gigabyte that this machine is said to have.
    monkeypatch.setattr(estimator, "available_memory", lambda: 1e9)
    lines = "".join(f"m{number},m{number + 1}\n" for number in range(5_000))
    (tmp_path / "many.csv").write_text("winner,loser\n" + lines, encoding="utf-8")
    done = tiltyard("rate", "many.csv", "--ci", "bootstrap")
    assert (done.returncode, done.stdout) == (1, "")
    assert "5,001 models need about" in done.stderr
    assert "Use --ci sandwich" in done.stderr
    assert "--min-battles" in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            ("--out", "board.doc"),
            "--out board.doc: a leaderboard (drawn as .svg, .png, .pdf, .html) is written as .json, .csv, .md, .tex",
        ),
        (("--plot", "board.jpg"), "cannot plot to board.jpg: the name must end in .svg, .png, .pdf, .html"),
    ],
)
def test_an_ending_that_cannot_be_written_is_refused_before_the_battles_are_read(
    tiltyard: Run, tmp_path: Path, options: tuple[str, str], words: str
) -> None:
    done = tiltyard("rate", "absent.jsonl", *options)
    assert done.returncode == 1
    assert words in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


def test_an_ending_of_a_picture_is_drawn(tiltyard: Run, birds: str, tmp_path: Path) -> None:
    done = tiltyard("rate", birds, "--out", "board.pdf", "--plot", "board.svg")
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert done.stderr.splitlines() == ["wrote board.pdf", "wrote board.svg"]
    content = (tmp_path / "board.pdf").read_bytes()
    assert content.startswith(b"%PDF-")
    assert content.rstrip().endswith(b"%%EOF")
    assert "osprey" in (tmp_path / "board.svg").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"%PDF-1.7\n1 0 obj", "is a PDF, not a file of battles"),
        (b"\x89PNG\r\n", "is a picture"),
        (b"SQLite format 3\0", "is a database"),
        (b"\x00\x01\x02", "is binary data"),
        (
            "model_a,model_b,winner\n".encode("utf-16"),
            "is UTF-16 text. Save it as UTF-8: iconv -f UTF-16 -t UTF-8 battles > battles-utf8",
        ),
    ],
)
def test_a_file_of_another_kind_is_named_as_what_it_is(
    tiltyard: Run, tmp_path: Path, content: bytes, words: str
) -> None:
    (tmp_path / "battles").write_bytes(content)
    done = tiltyard("rate", "battles")
    assert done.returncode == 1
    assert words in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_the_folder_of_a_run_stands_for_its_battles(tiltyard: Run, birds: str, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "battles.jsonl").write_bytes(Path(birds).read_bytes())
    (folder / "elo_results.json").write_text("{}", encoding="utf-8")
    assert tiltyard("rate", "run").returncode == 1  # a folder of files that are not all battles
    (folder / "manifest.json").write_text("{}", encoding="utf-8")
    assert tiltyard("rate", "run").stdout == tiltyard("rate", birds).stdout


def test_a_format_that_is_named_goes_into_a_file_of_any_name(tiltyard: Run, birds: str, tmp_path: Path) -> None:
    assert tiltyard("rate", birds, "--format", "csv", "--out", "board.dat").returncode == 0
    assert (tmp_path / "board.dat").read_text(encoding="utf-8").startswith("model,rating,")
    assert tiltyard("rate", birds, "--out", "board").returncode == 0
    assert "Bradley–Terry" in (tmp_path / "board").read_text(encoding="utf-8")


def test_boards_by_category_can_be_pooled(tiltyard: Run, birds: str) -> None:
    done = tiltyard("rate", birds, "--by", "category", "--pool", "--format", "json")
    boards = json.loads(done.stdout)["boards"]
    assert {board["pool"]["categories"] for board in boards.values()} == {len(boards)}
    apart = json.loads(tiltyard("rate", birds, "--by", "category", "--format", "json").stdout)["boards"]

    def widths(found: dict[str, dict[str, list[dict[str, float]]]]) -> float:
        return sum(row["ci_high"] - row["ci_low"] for board in found.values() for row in board["ratings"])

    assert widths(boards) < widths(apart)
    done = tiltyard("rate", birds, "--pool")
    assert done.returncode == 1
    assert done.stderr.endswith("name the column, such as --by language --pool.\n")
    done = tiltyard("rate", birds, "--by", "category", "--pool", "--shrink")
    assert done.stderr == "tiltyard: pool goes with --ci sandwich alone: leave out --shrink.\n"


def test_peoples_labels_correct_a_judge_from_the_command_line(tiltyard: Run, tmp_path: Path) -> None:
    data = LabelledWorld("style", models=4, prompts=40, labels=80, style=0.5).draw(np.random.default_rng(3))
    judged, people = (write(tmp_path / f"{i}.jsonl", *rows) for i, rows in enumerate(battle_rows(data)))
    done = tiltyard("rate", judged, "--people", people)
    assert done.returncode == 0
    assert "corrected by 80 labels of people" in done.stdout
    assert "the judge's (λ " in done.stdout
    refused = tiltyard("rate", judged, "--people", people, "--by", "source")
    assert refused.returncode == 1
    assert "--by makes several boards, and people correct one" in refused.stderr
    dropped = tiltyard("rate", judged, "--people", people, "--inconsistent", "drop")
    assert "leave out --inconsistent drop and --source" in dropped.stderr
