"""The same battles get the same verdict at every door, and a verdict shows what decided it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests import within
from tests.sizes import size

import tiltyard as ty
from tiltyard.analysis.boards import rate
from tiltyard.analysis.decisions import plan_from_battles
from tiltyard.analysis.decisions.contrast import Contrast
from tiltyard.analysis.decisions.missing import Cases
from tiltyard.cli.mcp import TOOLS, FileRoot
from tiltyard.errors import OptionError, TiltyardError

Row = dict[str, Any]


def even(n: int = 400, wins: float = 0.5, seed: int = 0, **more: Any) -> list[Row]:
    """Votes between two models that sit on random sides; `new` wins the part `wins`; each prompt and voter is new."""
    rng, rows = np.random.default_rng(seed), []
    for i in range(n):
        pair = ["new", "old"] if rng.random() < 0.5 else ["old", "new"]
        winner = "model_a" if (rng.random() < wins) == (pair[0] == "new") else "model_b"
        rows.append({"model_a": pair[0], "model_b": pair[1], "winner": winner, "source": "human",
                     "question_id": f"q{i % 100}", "voter": f"u{i % 80}", **more})  # fmt: skip
    return rows


def written(path: Path, rows: list[Row]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_a_verdict_prints_the_one_sided_bound_that_was_held_against_the_margin() -> None:
    gate = ty.compare("new", "old", battles=even()).gate(margin=60)
    assert gate.verdict == "not_worse"
    assert gate.bound is not None
    assert gate.low is not None
    assert gate.bound > gate.low  # one-sided 95 % is an end of the two-sided 90 % interval
    assert f", one-sided 95 % above −{round(-gate.bound)};" in gate.sentence
    unsure = ty.compare("new", "old", battles=even()).gate(margin=1)
    assert unsure.verdict == "unknown"
    assert ", one-sided 95 % above " in unsure.sentence


def scores(path: Path, values: tuple[float, float]) -> None:
    rows = [{"model": name, "prompt": f"p{i}", "score": value + 0.1 * (i % 3)}
            for name, value in zip(("new", "old"), values, strict=True) for i in range(30)]  # fmt: skip
    written(path, rows)


def test_agents_have_no_margin_of_their_own(tmp_path: Path) -> None:
    scores(tmp_path / "scores.jsonl", (3.03, 9.18))
    ask = {"new": "new", "old": "old", "battles": ["scores.jsonl"]}
    with pytest.raises(OptionError, match="by how much may the new one be worse"):
        TOOLS["gate"].answer(FileRoot.at(tmp_path), ask)
    said = TOOLS["gate"].answer(FileRoot.at(tmp_path), {**ask, "margin": 0.5}).values
    assert (said["verdict"], said["margin"]) == ("worse", 0.5)
    written(tmp_path / "battles.jsonl", even())
    ask["battles"] = ["battles.jsonl"]
    said = TOOLS["gate"].answer(FileRoot.at(tmp_path), ask).values
    assert said["margin"] == 30.0
    assert said["verdict"] == ty.compare("new", "old", battles=even()).gate().verdict


GAINS = {"new": 1, "old": 0}
FAILED = {"check": "style: judge consistent", "passed": False,
          "detail": "55 of 120 judgments changed with the order of the answers"}  # fmt: skip


@pytest.mark.parametrize("manifest", [{"results": {"gate": [FAILED]}}, {"kind": "placement", "gate": [FAILED]}])
def test_a_run_that_says_no_go_of_itself_passes_no_gate(tmp_path: Path, manifest: Row) -> None:
    rows = even(wins=0.7)
    run = written(tmp_path / "pilot" / "battles.jsonl", rows)
    said = f"pilot says NO-GO of itself (style: judge consistent: {FAILED['detail']})"
    assert ty.compare("new", "old", battles=rows).gate().verdict == "better"
    (tmp_path / "pilot" / "manifest.json").write_text(json.dumps(manifest))
    for place in (run, tmp_path / "pilot", [run], str(run)):
        found = ty.compare("new", "old", battles=place)
        assert found.gate().verdict == "unknown"
        assert found.sentence.startswith(f"cannot tell new from old: {said}; here +")
    assert plan_from_battles(run, "new", "old").pilot.obstacles == (said,)
    assert said in rate(run).remarks
    other = written(tmp_path / "again" / "battles.jsonl", even(wins=0.5, seed=1))
    assert said in ty.compare(run, other, cluster="voter")["new"].obstacles
    scored = [
        {"model": name, "prompt_id": i, "score": i % 3 + shift} for i in range(40) for name, shift in GAINS.items()
    ]
    scores = written(tmp_path / "pilot" / "scores.jsonl", scored)
    done = within.run(
        tmp_path, "gate", "new", "old", "--in", "pilot/scores.jsonl", "--bounds", "0,3", "--margin", "0.1"
    )
    assert done.returncode == 3
    assert said in done.stdout.splitlines()[0]
    assert ty.compare("new", "old", battles=scores, bounds=(0, 3)).obstacles == (said,)
    passed = json.dumps(manifest).replace("false", "true")
    (tmp_path / "pilot" / "manifest.json").write_text(passed)
    assert ty.compare("new", "old", battles=run).gate().verdict == "better"


def test_battles_that_name_neither_prompt_nor_voter_decide_nothing_until_they_are_said_to_be_independent(
    tmp_path: Path,
) -> None:
    ids = ("question_id", "voter")
    rows = [{name: value for name, value in row.items() if name not in ids} for row in even(wins=0.7)]
    found = ty.compare("new", "old", battles=rows)
    assert found.gate().verdict == "unknown"
    assert "--map prompt=COLUMN names it; --cluster none says" in found.sentence
    assert ty.compare("new", "old", battles=rows, cluster="none").gate().verdict == "better"
    named = [{**row, "Item-ID": f"i{i % 100}", "rater_id": f"r{i % 60}"} for i, row in enumerate(rows)]
    found = ty.compare("new", "old", battles=named)
    assert "(--map prompt=Item-ID --map voter=rater_id names it;" in found.obstacles[0]
    mapped = ty.compare("new", "old", battles=named, map={"prompt": "Item-ID", "voter": "rater_id"})
    assert (mapped.obstacles, mapped.n_prompts, mapped.n_voters) == ((), 100, 60)
    assert mapped.gate().verdict == "better"
    written(tmp_path / "rows.jsonl", rows)
    assert within.run(tmp_path, "gate", "new", "old", "--in", "rows.jsonl").returncode == 3
    assert within.run(tmp_path, "gate", "new", "old", "--in", "rows.jsonl", "--cluster", "none").returncode == 0
    assert plan_from_battles(rows, "new", "old").pilot.obstacles == ty.compare("new", "old", battles=rows).obstacles


def test_a_win_rate_lies_in_its_own_interval() -> None:
    rng, seen = np.random.default_rng(5), 0
    for world in range(size(12, soak=100)):
        n = int(rng.integers(4, 60))
        rows = even(n, wins=float(rng.uniform(0.2, 0.8)), seed=world)
        for row in rows:
            longer = rng.normal(150 if (row["winner"] == "model_a") == (rng.random() < 0.9) else 100, 20, 2)
            row |= {"len_a": float(abs(longer[0])), "len_b": float(abs(longer[1])), "category": str(rng.integers(2))}
            row["winner"] = "tie" if rng.random() < 0.2 else row["winner"]
        for options in ({}, {"control": ["len"]}, {"slot": True}, {"control": ["len"], "slot": False}):
            try:
                found = ty.compare("new", "old", battles=rows, cluster="none", **options)
            except TiltyardError:  # a world without an answer
                continue
            direct = found.direct.estimate
            for one in (found.estimate, direct, *(part.estimate for part in found.parts)):
                if one is not None and one.win_rate_low is not None:
                    seen += 1
                    assert one.win_rate_low <= one.win_rate <= one.win_rate_high
            assert found.direct.share == pytest.approx(
                (found.direct.wins + 0.5 * found.direct.ties)
                / (found.direct.wins + found.direct.losses + found.direct.ties)
            )
    assert seen > 8 * (world + 1)


def test_what_style_takes_from_a_win_rate_is_not_in_it() -> None:
    rng, rows = np.random.default_rng(6), even(400)
    for row in rows:
        new_first = row["model_a"] == "new"
        lengths = (rng.normal(300, 20), rng.normal(100, 20))
        row["len_a"], row["len_b"] = map(float, lengths if new_first else lengths[::-1])
        longer = rng.random() < 0.8
        row["winner"] = "model_a" if longer == new_first else "model_b"
        if rng.random() < 0.3:  # lengths that are the other way round tell length from model
            row["len_a"], row["len_b"] = row["len_b"], row["len_a"]
            row["winner"] = "model_a" if (rng.random() < 0.8) == (not new_first) else "model_b"
    found = ty.compare("new", "old", battles=rows, control=["len"])
    assert found.direct.share > 0.58
    assert found.direct.estimate.win_rate == pytest.approx(0.5, abs=0.09)
    assert found.to_dict()["direct"]["share"] == found.direct.share


def test_a_part_of_one_battle_ends_at_nought_or_one() -> None:
    rows = even(35)
    for i, row in enumerate(rows):
        row["category"] = "rare" if i == 0 else "usual"
    for found in (
        ty.compare("new", "old", battles=rows),
        ty.compare("new", "old", battles=rows, level=0.999999),
        ty.compare("new", "old", battles=[{**row, "weight": 1e-6 if i % 2 else 1e9} for i, row in enumerate(rows)]),
    ):
        for part in found.parts:
            if part.estimate is not None and part.estimate.win_rate_low is not None:
                assert 0.0 <= part.estimate.win_rate_low <= part.estimate.win_rate_high <= 1.0
        assert str(found)
    assert ty.compare("new", "old", battles=rows, by=["category"]).gate(by="category").verdict == "unknown"
    huge = Contrast(0.0, 1e9, 0.0, 5.0, True, 35.0)
    assert huge.ends(0.95)[1] > 123_000


def test_how_sure_one_is_in_the_worst_case_is_complementary() -> None:
    def one(value: float) -> Contrast:
        return Contrast(value, 1.0, 0.0, 30.0, True, 100.0)

    for against, in_favour in ((0.0, 1.0), (0.0, 0.0), (-1.0, 0.0), (0.5, 2.0), (-1.0, 1.0)):
        between = (against + in_favour) / 2
        here = Cases(one(between), one(against), one(in_favour)).probability_better
        mirror = Cases(one(-between), one(-in_favour), one(-against)).probability_better
        assert (here is None) == (mirror is None)
        assert here is None or here + mirror == pytest.approx(1.0, abs=1e-12)
    assert Cases(one(0.0), one(-1.0), one(1.0)).probability_better is None
    assert Cases(one(0.5), one(0.0), one(1.0)).probability_better == 0.5
    assert Cases(one(0.0), one(0.0), one(0.0)).probability_better == 0.5
