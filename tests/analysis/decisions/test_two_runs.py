"""Two runs: pairing by prompt, coverage of a known change, and what makes runs incomparable."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from decision_rows import battle
from tests.sizes import size

import tiltyard as ty
from oracles.simulation import table_of
from tiltyard.data.battles import BattleTable
from tiltyard.errors import OptionError

NAMES = ("base", "mid", "top", "x")
STRENGTH = dict(zip(NAMES, (-0.4, 0.0, 0.5, 0.1), strict=True))


def judged(rng: np.random.Generator, likes: list[dict[str, float]], judge: str = "j") -> list[dict[str, Any]]:
    rows = []
    for p, like in enumerate(likes):
        for i, a in enumerate(NAMES):
            for b in NAMES[i + 1 :]:
                wins = rng.random() < 1.0 / (1.0 + math.exp(like[b] - like[a]))
                winner = "tie" if rng.random() < 0.15 else "model_a" if wins else "model_b"
                rows.append(battle(a, b, winner, f"q{p}", judge_model=judge, category="ab"[p % 2]))
    return rows


def two_runs(seed: int, prompts: int = 40, gap: float = 0.6, taste: float = 1.0) -> tuple[Any, Any]:
    """The newer and the older run: the same prompts, and new answers of x only."""
    rng = np.random.default_rng(seed)
    likes = [{name: value + rng.normal(0.0, taste) for name, value in STRENGTH.items()} for _ in range(prompts)]
    old = judged(rng, likes)
    new = judged(rng, [{**like, "x": like["x"] + gap + rng.normal(0.0, 0.5)} for like in likes])
    return new, old


def folder(path: Path, rows: list[dict[str, Any]], answers: dict[str, str], **more: Any) -> Path:
    (path / "matches").mkdir(parents=True)
    manifest = {"judge_model": "j", "rubric_versions": {"quality": "1"}, "sha256": {"bank": "b", "responses": answers}}
    (path / "manifest.json").write_text(json.dumps({**manifest, **more}))
    (path / "battles.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    matches = [{"prompt_id": row["question_id"], "prompt_text": f"Text of {row['question_id']}"} for row in rows]
    (path / "matches" / "matches.jsonl").write_text("".join(json.dumps(match) + "\n" for match in matches))
    return path


def runs_as_tables(seed: int, prompts: int = 40) -> tuple[BattleTable, BattleTable]:
    """The worlds of `two_runs` as tables, which are drawn and read in a tenth of the time; the first model is x."""
    rng = np.random.default_rng(seed)
    first, second = np.triu_indices(4, 1)
    old = np.array([STRENGTH[name] for name in ("x", "base", "mid", "top")]) + rng.normal(0.0, 1.0, (prompts, 4))
    new = old.copy()
    new[:, 0] += 0.6 + rng.normal(0.0, 0.5, prompts)
    tables = []
    for likes in (new, old):
        wins = rng.random((prompts, 6)) < 1.0 / (1.0 + np.exp(likes[:, second] - likes[:, first]))
        result = np.where(rng.random((prompts, 6)) < 0.15, 2, np.where(wins, 0, 1)).ravel()
        clusters = np.repeat(np.arange(prompts), 6)
        tables.append(table_of(4, np.tile(first, prompts), np.tile(second, prompts), result, clusters))
    return tables[0], tables[1]


def test_the_change_is_covered_and_its_error_is_the_spread_of_the_estimates():
    n = size(25, soak=600)
    truth = ty.compare(*runs_as_tables(99, prompts=size(3000, soak=8000)))["m00"].difference
    found = [ty.compare(*runs_as_tables(seed))["m00"] for seed in range(n)]
    covered = np.mean([d.low <= truth <= d.high for d in found])
    assert covered >= 0.95 - 3.5 * math.sqrt(0.95 * 0.05 / n)
    spread, said = np.std([d.difference for d in found]), np.mean([d.contrast.error for d in found])
    assert said == pytest.approx(spread, rel=size(0.35, soak=0.1))


def test_pairing_by_prompt_takes_away_what_both_runs_share():
    """Prompts with strong tastes: without knowing that they are the same prompts, the error is much larger."""
    new, old = two_runs(1, prompts=60, taste=2.5)
    paired = ty.compare(new, old)["x"].contrast.error
    other = [{**row, "question_id": f"other {row['question_id']}"} for row in old]
    apart = ty.compare(new, other)
    assert paired < 0.85 * apart["x"].contrast.error
    assert any("share no prompt" in note for note in apart.notes)


def test_a_run_against_itself_moved_nothing():
    new, _ = two_runs(2)
    same = ty.compare(new, new)
    assert all(change.difference.difference == 0.0 for change in same.changes)
    assert not any(change.beyond_noise for change in same.changes)
    assert same.sentence.startswith("no entrant of 4 moved by more than noise")
    assert "the two runs hold the same battles" in same.notes
    assert same["x"].gate().verdict == "not_worse"


def test_folders_know_whose_answers_changed_and_measure_from_the_others(tmp_path):
    new_rows, old_rows = two_runs(3, prompts=80, gap=1.5)
    same = {"base": "1", "mid": "2", "top": "3"}
    new = folder(tmp_path / "today", new_rows, {**same, "x": "new"})
    old = folder(tmp_path / "last week", old_rows, {**same, "x": "old"})
    found = ty.compare(new, old)
    assert found.zero == ("base", "mid", "top")
    changed = {change.entrant: change.answers_changed for change in found.changes}
    assert changed == {**dict.fromkeys(same, False), "x": True}
    assert found.subject is found["x"]
    assert found.sentence.startswith("x in today is better than x in last week: +")
    assert found["x"].gate().verdict == "better"
    assert "Text of q" in str(found)
    contents = json.loads(found.to_json())
    assert contents["measured_from"] == ["base", "mid", "top"]
    assert contents["n_prompts"] == 80
    assert contents["entrant"] == "x"
    assert contents["difference"] == found["x"].difference
    moved = next(change for change in contents["changes"] if change["entrant"] == "x")
    assert moved["beyond_noise"] is True
    assert moved["difference"] == pytest.approx(moved["rating_new"] - moved["rating_old"])


def test_the_worst_prompts_are_those_where_it_fell_most(tmp_path):
    new, old = two_runs(4, prompts=30, gap=0.0)
    for row in new:
        if row["question_id"] == "q7" and "x" in (row["model_a"], row["model_b"]):
            row["winner"] = "model_b" if row["model_a"] == "x" else "model_a"
    for row in old:
        if row["question_id"] == "q7" and "x" in (row["model_a"], row["model_b"]):
            row["winner"] = "model_a" if row["model_a"] == "x" else "model_b"
    one = {prompt.prompt: prompt for prompt in ty.compare(new, old)["x"].prompts}["q7"]
    assert (one.new_score, one.old_score, one.change) == (0.0, 1.0, -1.0)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"judge_model": "other"}, "another judge: other"),
        ({"rubric_versions": {"quality": "2"}}, "another rubric: quality"),
    ],
)
def test_another_judge_or_rubric_is_refused_unless_anyway(tmp_path, change, said):
    new_rows, old_rows = two_runs(5, prompts=10)
    new, old = folder(tmp_path / "a", new_rows, {}, **change), folder(tmp_path / "b", old_rows, {})
    with pytest.raises(OptionError, match=said):
        ty.compare(new, old)
    assert any(said in note for note in ty.compare(new, old, anyway=True).notes)


def test_battle_files_of_other_judges_are_noticed_by_their_column():
    new, old = two_runs(6, prompts=10)
    with pytest.raises(OptionError, match=r"another judge: k \(new\), j \(old\)"):
        ty.compare([{**row, "judge_model": "k"} for row in new], old)


def test_a_judge_against_people_is_refused_and_an_unknown_judge_is_mentioned():
    new, old = two_runs(12, prompts=10)
    votes = [{**row, "source": "human", "judge_model": None} for row in old]
    with pytest.raises(OptionError, match=r"decided by llm-judge \(new\), human \(old\)"):
        ty.compare(new, votes)
    unnamed = ty.compare(new, [{**row, "judge_model": None} for row in old])
    assert any("the judge of the old run is not known" in note for note in unnamed.notes)


def test_only_what_both_runs_have_is_compared():
    new, old = two_runs(7, prompts=20)
    more = [battle("x", "newcomer", "model_a", f"q{i}", judge_model="j") for i in range(20)]
    found = ty.compare([*new, *more], [row for row in old if row["question_id"] != "q3"])
    assert [change.entrant for change in found.changes] == sorted(
        NAMES, key=lambda name: next(c.rank_new for c in found.changes if c.entrant == name)
    )
    assert found.n_prompts == 19
    assert any("only in the new run: newcomer" in note for note in found.notes)
    assert any("19 prompts are in both runs; 1 that" in note for note in found.notes)
    with pytest.raises(OptionError, match="too few entrants"):
        ty.compare(new, [battle("x", "stranger", "model_a", "q1", judge_model="j")])


def test_two_ways_of_clusters_are_never_narrower_than_one():
    rng = np.random.default_rng(8)
    new, old = (
        [{**row, "voter": f"v{rng.integers(12)}", "source": "human", "judge_model": None} for row in rows]
        for rows in two_runs(8, prompts=60)
    )
    both = ty.compare(new, old)["x"].contrast
    for one in ("prompt", "voter"):
        assert both.variance >= ty.compare(new, old, cluster=one)["x"].contrast.variance * (1 - 1e-9)


def test_which_entrant_a_gate_is_about_has_to_be_said_where_it_is_not_known():
    with pytest.raises(OptionError, match=r"which entrant is meant\? Say it with model=\.\.\.: one of"):
        _ = ty.compare(*two_runs(9, prompts=10)).subject


def test_who_is_unchanged_can_be_said():
    new, old = two_runs(11, prompts=80, gap=1.5)
    found = ty.compare(new, old, unchanged=["base", "mid", "top"])
    assert found.zero == ("base", "mid", "top")
    assert found.subject is found["x"]
    assert found["x"].difference > ty.compare(new, old)["x"].difference
    with pytest.raises(OptionError, match="'z' is not in both runs: they share base, mid, top, x"):
        ty.compare(new, old, unchanged=["z"])


def test_two_boards_are_compared_as_independent():
    new, old = two_runs(10, prompts=60, gap=2.0)
    boards = [ty.RatingsFile.of(ty.rate(rows)) for rows in (new, old)]
    found = ty.compare(*boards)
    paired = ty.compare(new, old)
    assert found["x"].difference == pytest.approx(paired["x"].difference)
    assert found["x"].contrast.error > paired["x"].contrast.error
    assert "independent" in found.notes[0]
    assert found.changes[0].beyond_noise


def test_boards_of_other_methods_are_not_compared():
    rows, _ = two_runs(13, prompts=10)
    boards = {name: ty.RatingsFile.of(ty.rate(rows, method=name)) for name in ("bt", "glicko2", "winrate")}
    with pytest.raises(OptionError, match=r"different methods: glicko2 \(new\), bt \(old\)"):
        ty.compare(boards["glicko2"], boards["bt"])
    with pytest.raises(OptionError, match="win rates are not ratings"):
        ty.compare(boards["winrate"], boards["winrate"])


def test_a_board_on_peoples_scale_is_not_compared_with_a_judges():
    folder = Path(__file__).parents[3] / "examples" / "labels"
    judge = ty.RatingsFile.of(ty.rate(folder / "judged.jsonl"))
    people = ty.RatingsFile.of(ty.rate(folder / "judged.jsonl", people=folder / "people.csv"))
    with pytest.raises(OptionError, match="on people's scale"):
        ty.compare(people, judge)
