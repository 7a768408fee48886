"""A run against one baseline: who meets whom, win rates with intervals, controls, files, and clear errors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.cli.conftest import Run
from tests.judge.tournament.folder import ENTRANTS, change, make_folder, read_lines, script
from tiltyard.data.battles import BattleTable, Codes, Outcome, Source
from tiltyard.errors import ConfigError
from tiltyard.judge.tournament import BaselineTable, load_setup, make_plan
from tiltyard.judge.tournament.ratings import baseline_text, rate_against
from tiltyard.options import RunOptions
from tiltyard.reports import read_run, write_report
from tiltyard.stats import win_rate


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A tournament whose entrants all meet heron."""
    path = make_folder(tmp_path, judge="scripted/judge.yaml", opponents={"baseline": "heron"})
    script(tmp_path / "judge.yaml")
    return path


def run(tiltyard: Run, config: Path, *options: str) -> tuple[Path, Any]:
    """Run a tournament; its folder and what the command said."""
    folder = config.parent / "run"
    said = tiltyard("run", str(config), "--mode", "headline", "--yes", "--output-dir", str(folder), *options)
    return folder, said


def test_everyone_meets_the_baseline_and_no_one_else(tiltyard: Run, config: Path) -> None:
    folder, said = run(tiltyard, config)
    met = {(row["model_a"], row["model_b"]) for row in read_lines(folder / "battles.jsonl")}
    assert met == {("otter", "heron"), ("crane", "heron")}
    assert "baseline heron: 2 entrants, each judged against it and no one else" in said.stderr
    assert "factuality: 6 pairs, 12 judge queries" in said.stderr  # 2 others on 3 prompts, both orders
    assert "Win rate against heron in %" in said.stdout
    rates = json.loads((folder / "baseline.json").read_text(encoding="utf-8"))["factuality"]["rates"]
    assert [(row["entrant"], row["win_rate"], row["wins"], row["losses"]) for row in rates] == [
        ("otter", 1.0, 3, 0),
        ("crane", 0.0, 0, 3),
    ]
    assert rates[0]["low"] > 0.1  # three wins of three: far from sure, but not nothing
    board = json.loads((folder / "ratings" / "factuality.json").read_text(encoding="utf-8"))
    assert board["anchor"] == {"model": "heron", "rating": 1000.0}
    assert json.loads((folder / "manifest.json").read_text(encoding="utf-8"))["opponents"] == {"baseline": "heron"}


def test_verdicts_of_a_full_run_serve_a_run_against_a_baseline(tiltyard: Run, config: Path) -> None:
    """The pairs are named from the other side for some entrants, and both orders are asked: nothing is paid twice."""
    run(tiltyard, change(config, opponents={}))
    _, said = run(tiltyard, change(config, opponents={"baseline": "otter"}))
    assert "12 cached, 0 fresh" in said.stderr


def test_the_report_and_another_judge_know_the_baseline(tiltyard: Run, config: Path) -> None:
    folder, _ = run(tiltyard, config)
    page = write_report(folder).read_text(encoding="utf-8")
    assert "Win rate against heron" in page
    assert read_run(folder).dimensions[0].against is not None
    other = ("--judge-model", "scripted/judge.yaml", "--yes", "--out", str(folder / "2"))
    again = tiltyard("judge", "rejudge", str(folder), *other)
    assert again.returncode == 0
    assert (folder / "2" / "baseline.json").read_bytes() == (folder / "baseline.json").read_bytes()
    change(config, opponents={})
    run(tiltyard, config)
    assert not (folder / "baseline.json").exists()  # a folder that is used again keeps nothing of another run
    assert "Win rate against" not in write_report(folder).read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("opponents", "said"),
    [
        ({"baseline": "herron"}, "opponents.baseline is 'herron', which is no entrant. Did you mean 'heron'?"),
        ({"baseline": "gpt-5"}, "which is no entrant. Name one of otter, heron, crane"),
        ({"baseline": ["heron"]}, "opponents.baseline is ['heron']: expected `text"),
        ("heron", "opponents is 'heron': expected a mapping with baseline"),
    ],
)
def test_a_wrong_baseline_is_an_error_before_anything_is_asked(config: Path, opponents: object, said: str) -> None:
    change(config, opponents=opponents)
    with pytest.raises(ConfigError) as error:
        load_setup(config)
    assert said in str(error.value)


def test_a_misspelt_setting_is_named(config: Path) -> None:
    change(config, opponents={"base_line": "heron"})
    assert load_setup(config).warnings == (
        "the setting opponents.base_line means nothing here and is ignored; did you mean opponents.baseline?",
    )


def test_a_baseline_without_answers_ends_the_run(config: Path) -> None:
    (config.parent / "responses" / "responses_heron.jsonl").unlink()
    with pytest.raises(ConfigError, match="no answers of heron, the baseline"):
        make_plan(load_setup(config), RunOptions(mode="headline"))


@pytest.mark.parametrize("until", [None, "top"])
def test_adaptive_rounds_and_a_baseline_exclude_each_other(config: Path, until: str | None) -> None:
    change(config, rounds={"until": "order"} if until is None else {})
    with pytest.raises(ConfigError, match="adaptive rounds choose opponents"):
        make_plan(load_setup(config), RunOptions(mode="headline", until=until))
    assert make_plan(load_setup(config), RunOptions(mode="headline", until="all")).rounds is None


def test_another_entrant_without_answers_is_left_out(config: Path) -> None:
    (config.parent / "responses" / "responses_crane.jsonl").unlink()
    plan = make_plan(load_setup(config), RunOptions(mode="headline"))
    assert {(case.matchup.entrant_a, case.matchup.entrant_b) for case in plan.matches.by_dimension["calibration"]} == {
        ("otter", "heron")
    }


def test_own_runs_can_be_controlled_for_length(tiltyard: Run, tmp_path: Path) -> None:
    """Every run writes the style of both answers: characters, headings, list items, bold passages."""
    config = make_folder(tmp_path, judge="scripted/judge.yaml")
    script(tmp_path / "judge.yaml", {"when": ["answer to p2"], "say": "VERDICT: TIE"})
    for place, entrant in enumerate(ENTRANTS):
        path = config.parent / "responses" / f"responses_{entrant}.jsonl"
        rows = read_lines(path)
        for number, row in enumerate(rows):
            row["response_text"] = "\n".join([*["- **one** more"] * ((number + place) % 3), row["response_text"]])
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    folder, _ = run(tiltyard, config)
    first = read_lines(folder / "battles.jsonl")[0]
    assert {name: first[name] for name in ("len_a", "lists_a", "bold_b", "headings_b")} == {
        "len_a": 36,
        "lists_a": 0,
        "bold_b": 1,
        "headings_b": 0,
    }
    said = tiltyard("rate", str(folder / "battles.jsonl"), "--dimension", "calibration", "--control", "len")
    assert "points" in said.stdout
    assert "uncontrolled" in said.stdout


def world(rng: np.random.Generator, n: int, skill: dict[str, float], taste: float, ties: float) -> BattleTable:
    """Entrants against `base` on n prompts, judged by a taste for length too: `skill` in logits, ties at random."""
    models = tuple(sorted((*skill, "base")))
    rows = [(name, prompt) for name in skill for prompt in range(n)]
    a = np.array([models.index(name) for name, _ in rows], dtype=np.int32)
    b = np.full(len(rows), models.index("base"), dtype=np.int32)
    len_a, len_b = rng.lognormal(6.0, 0.5, len(rows)), rng.lognormal(6.0, 0.5, len(rows))
    share = (len_a - len_b) / (len_a + len_b)
    ahead = np.array([skill[name] for name, _ in rows]) + taste * share
    a_won = rng.random(len(rows)) < 1 / (1 + np.exp(-ahead))
    outcome = np.where(rng.random(len(rows)) < ties, Outcome.TIE.code, np.where(a_won, Outcome.A.code, Outcome.B.code))
    return BattleTable(
        models=models,
        model_a=a,
        model_b=b,
        outcome=outcome.astype(np.int8),
        source=np.full(len(rows), Source.LLM_JUDGE.code, dtype=np.int8),
        weight=np.ones(len(rows)),
        columns={
            "question_id": Codes(np.array([prompt for _, prompt in rows], dtype=np.int32), [f"p{i}" for i in range(n)]),
            "len_a": len_a,
            "len_b": len_b,
            "inconsistent": np.zeros(len(rows)),
        },
    )


def against(table: BattleTable) -> BaselineTable:
    found = rate_against(table, "base")
    assert found is not None
    return found


def test_the_length_controlled_rate_covers_the_rate_at_equal_length() -> None:
    """A longer answer is worth three logits per share; at equal length the truth is the logistic of the skill."""
    rng = np.random.default_rng(17)
    skill = {"strong": 0.8, "even": 0.0}
    hits, rounds = 0, 40
    for _ in range(rounds):
        for one in against(world(rng, 120, skill, 3.0, 0.0)).rates:
            rate = one.length_controlled
            assert rate is not None and rate.low is not None and rate.high is not None  # noqa: PT018
            hits += rate.low <= 1 / (1 + np.exp(-skill[one.entrant])) <= rate.high
    assert hits >= 0.9 * 2 * rounds  # 95 % nominal; 2.5 standard errors below


def test_a_taste_for_length_is_found_and_taken_out() -> None:
    """Two entrants of equal skill, one of whom writes twice as much: only the plain rate tells them apart."""
    rng = np.random.default_rng(3)
    table = world(rng, 400, {"terse": 0.0, "wordy": 0.0}, 4.0, 0.2)
    wordy = table.model_a == table.models.index("wordy")
    longer = np.where(wordy, 2.0, 1.0) * table.number_column("len_b")
    noise = rng.lognormal(0.0, 0.4, len(table))
    len_a = longer * noise
    share = (len_a - table.number_column("len_b")) / (len_a + table.number_column("len_b"))
    won = rng.random(len(table)) < 1 / (1 + np.exp(-4.0 * share))
    table = BattleTable(
        models=table.models,
        model_a=table.model_a,
        model_b=table.model_b,
        outcome=np.where(won, Outcome.A.code, Outcome.B.code).astype(np.int8),
        source=table.source,
        weight=table.weight,
        columns={**table.columns, "len_a": len_a},
    )
    rates = {one.entrant: one for one in against(table).rates}
    assert rates["wordy"].low > 0.6
    controlled = rates["wordy"].length_controlled
    assert controlled is not None
    assert controlled.win_rate == pytest.approx(0.5, abs=0.08)
    assert "length control, len: +" in baseline_text(against(table))


@pytest.mark.parametrize(
    ("prompts", "chance", "ties", "repeats"),
    [
        (8, 0.8, 0.3, 1),
        (15, 0.99, 0.0, 1),
        (30, 0.5, 0.9, 1),
        (30, 0.95, 0.0, 3),
        (100, 0.8, 0.0, 1),
        (100, 0.5, 0.3, 3),
    ],
)
def test_win_rate_intervals_cover_in_small_and_one_sided_worlds(
    prompts: int, chance: float, ties: float, repeats: int
) -> None:
    """With repeats, prompts differ in difficulty (a beta of correlation one half), so their battles go together."""
    rng = np.random.default_rng(29)
    truth, hits, rounds = chance * (1 - ties) + ties / 2, 0, 600
    clusters = np.repeat(np.arange(prompts), repeats)
    for _ in range(rounds):
        easy = np.full(prompts, chance) if repeats == 1 else rng.beta(chance, 1 - chance, prompts)
        won = rng.random(prompts * repeats) < np.repeat(easy, repeats)
        found = win_rate(np.where(rng.random(len(won)) < ties, 0.5, won.astype(float)), clusters)
        assert found.low is not None and found.high is not None  # noqa: PT018
        assert 0.0 <= found.low <= (found.value or 0.0) <= found.high <= 1.0
        hits += found.low <= truth <= found.high
    assert hits >= 0.93 * rounds


def test_results_that_are_all_alike_leave_room_for_others() -> None:
    won = win_rate(np.ones(50), np.arange(50))
    assert won.low == pytest.approx(0.92, abs=0.02)  # the exact binomial bound is 0.929
    assert won.high == 1.0
    tied = win_rate(np.full(50, 0.5), np.arange(50))
    assert (tied.low or 0.0) < 0.5 < (tied.high or 1.0)
    assert win_rate(np.ones(3), np.zeros(3, dtype=int)).low == 0.0  # one prompt says nothing about others
    assert win_rate(np.empty(0), np.empty(0, dtype=int)).value is None
