"""A run whose answers are scored: over HTTP, in batches and direct, killed, out of budget, and beside pairs."""

from __future__ import annotations

import asyncio
import copy
import json
import os
import pickle
import random
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import tiltyard as ty
from tests.fakes import FakeServer
from tests.fakes.behaviour import verdict_by_hash
from tests.judge.tournament.folder import ANSWERS, ENTRANTS, PROMPTS, change, lines, make_folder, read_lines
from tests.judge.tournament.killing import AT_SUBMIT, COLLECT, MODELS, Site
from tiltyard.errors import ConfigError, OptionError
from tiltyard.judge.verdicts import Question
from tiltyard.reports import read_run

Tiltyard = Callable[..., subprocess.CompletedProcess[str]]
ANSWERED = 9 + 12
"""Answers of both dimensions: one prompt has no gold answer."""


def served(root: Path, server: FakeServer, **settings: Any) -> Path:
    """A tournament that a local server judges."""
    config = make_folder(root, judge=MODELS["local"])
    return change(config, judge__base_url=server.openai_url, **{"judge__task": "scores"} | settings)


def run(tiltyard: Tiltyard, config: Path, *words: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    done = tiltyard("run", str(config), "--mode", "headline", "--output-dir", "run", "--yes", *words)
    assert done.returncode == code, done.stderr
    return done


def test_scores_over_http_become_rows_a_board_and_a_report(
    tmp_path: Path, fake_server: FakeServer, tiltyard: Tiltyard
) -> None:
    done = run(tiltyard, served(tmp_path, fake_server))
    rows = read_lines(tmp_path / "run" / "scores.jsonl")
    assert len(rows) == ANSWERED == len(fake_server.ledger.accepted)
    assert set(rows[0]) == {"model", "question_id", "metric", "score", "judge_model", "source", "scale"}
    assert {row["source"] for row in rows} == {"llm-judge"}
    assert "mean factuality" in done.stdout
    assert read_run(tmp_path / "run").scores[0].answers == 9
    page = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert "Mean scores" in page or "factuality, scored" in page
    compared = tiltyard("compare", "otter", "heron", "--in", "run/scores.jsonl", "--score", "calibration")
    assert compared.returncode == 0, compared.stderr
    means = {
        name: sum(row["score"] for row in rows if (row["model"], row["metric"]) == (name, "calibration")) / 4
        for name in ENTRANTS
    }
    assert f"{means['otter']:.2f}"[:3] in compared.stdout
    again = run(tiltyard, tmp_path / "tournament.yaml")
    assert len(fake_server.ledger.accepted) == ANSWERED, "nobody pays twice"
    assert again.stdout == done.stdout


@pytest.mark.parametrize("reply", ["reasoned", "label", "choice", "json", "tool"])
def test_every_form_of_reply_is_asked_for_and_read(
    tmp_path: Path, fake_server: FakeServer, tiltyard: Tiltyard, reply: str
) -> None:
    said = {
        "reasoned": "Fine.\nSCORE: 6",
        "label": "6",
        "choice": "F",
        "json": '{"reasoning": "fine", "score": "6"}',
        "tool": '{"reasoning": "fine", "score": "6"}',
    }[reply]
    fake_server.behaviour.judge = lambda system, user: said
    run(tiltyard, served(tmp_path, fake_server, judge__reply=reply))
    assert {row["score"] for row in read_lines(tmp_path / "run" / "scores.jsonl")} == {6.0}


@pytest.mark.parametrize(("wire", "moment"), [("anthropic", AT_SUBMIT), ("openai", COLLECT)])
def test_a_run_of_pairs_and_scores_that_is_killed_goes_on_and_pays_once(
    tmp_path: Path, fake_server: FakeServer, wire: str, moment: str
) -> None:
    whole = Site(tmp_path / "whole", fake_server, wire)
    change(whole.config, judge__task="both")
    whole.finish()
    wanted, queries = whole.artifacts(), len(fake_server.ledger.accepted)
    assert queries == 2 * ANSWERED + ANSWERED
    site = Site(tmp_path / "site", fake_server, wire)
    change(site.config, judge__task="both")
    site.kill(moment, random.Random(3), 1.0)
    site.finish()
    assert site.artifacts() == wanted
    assert not fake_server.ledger.paid_twice()


def test_nonsense_replies_are_failures_and_rows_without_a_score(
    tmp_path: Path, fake_server: FakeServer, tiltyard: Tiltyard
) -> None:
    def odd(system: str, user: str) -> str:
        return "11/10, would read again." if ANSWERS["crane"].format("p2") in user else verdict_by_hash(system, user)

    fake_server.behaviour.judge = odd
    done = run(tiltyard, served(tmp_path, fake_server, judge__max_attempts=2))
    rows = read_lines(tmp_path / "run" / "scores.jsonl")
    missing = [(row["model"], row["question_id"], row["metric"]) for row in rows if row["score"] is None]
    assert missing == [("crane", "p2", "factuality"), ("crane", "p2", "calibration")]
    assert "1 of 9 answers have no readable score" in done.stdout
    page = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert "answers have no readable score" in page
    assert "answers missing" in page
    assert "hold whatever the missing answers would have scored" in page
    results = json.loads((tmp_path / "run" / "score_results.json").read_text())
    shares = {row["model"]: row["missing"] for row in results["factuality"]["metrics"][0]["board"]["scores"]}
    assert shares == {"crane": 1 / 3, "heron": 0.0, "otter": 0.0}


def test_a_judge_that_always_says_ten_is_told_so(tmp_path: Path, fake_server: FakeServer, tiltyard: Tiltyard) -> None:
    fake_server.behaviour.judge = lambda system, user: "Great!\nSCORE: 10"
    config = served(tmp_path, fake_server, prompts__pilot_size=4)
    done = tiltyard("run", str(config), "--mode", "pilot", "--output-dir", "run", "--yes")
    assert done.returncode == 3, done.stderr
    assert "every answer got 10, so the scores tell no models apart" in done.stdout
    assert "FAIL factuality scores: scale used" in done.stdout


def test_a_reached_budget_stops_and_the_rest_is_asked_later(
    tmp_path: Path, fake_server: FakeServer, tiltyard: Tiltyard
) -> None:
    price = {"small": {"input": 1000.0, "output": 1000.0}}
    config = served(tmp_path, fake_server, judge__prices=price, judge__max_tokens=50, judge__concurrency=1)
    stopped = run(tiltyard, config, "--budget", "4", code=1)
    assert "the budget of $4.00 is reached" in stopped.stderr
    asked = len(fake_server.ledger.accepted)
    assert 0 < asked < ANSWERED
    run(tiltyard, config)
    assert len(fake_server.ledger.accepted) == ANSWERED


def test_missing_answers_leave_out_their_prompts_and_say_whose(
    tmp_path: Path, fake_server: FakeServer, tiltyard: Tiltyard
) -> None:
    config = served(tmp_path, fake_server)
    path = tmp_path / "responses" / "responses_crane.jsonl"
    lines(path, read_lines(path)[:2])
    done = run(tiltyard, config)
    assert "dropped 2 prompts that not every entrant answered (crane lacks 2)" in done.stderr
    rows = [row for row in read_lines(tmp_path / "run" / "scores.jsonl") if row["metric"] == "calibration"]
    assert {row["question_id"] for row in rows if row["score"] is not None} == {"p1", "p2"}
    lacking = [(row["model"], row["question_id"]) for row in rows if row["score"] is None]
    assert lacking == [("crane", "p3"), ("crane", "p4")], "so that they count against it"
    found = ty.compare("crane", "otter", battles=tmp_path / "run" / "scores.jsonl", score=["calibration"])
    assert found.to_dict()["missing"]["by_model"] == {"crane": 2, "otter": 2}
    assert "2 of 4 prompts lack a score" in found.sentence


def by_length(question: Question) -> Any:
    """Scores and compares by length."""
    if question.scoring is None:
        first, second = map(len, question.answers)
        return "A" if first > second else "B" if second > first else "TIE"
    return str(min(10, 1 + len(question.answers[0]) // 5))


def many(root: Path, prompts: int, **settings: Any) -> Path:
    """A tournament with more prompts; how long an answer is depends on entrant and prompt."""
    config = make_folder(root)
    lines(
        root / "bank.jsonl", [{"prompt_id": f"q{n}", "text": f"Question {n}?", "source": "x"} for n in range(prompts)]
    )
    rng = random.Random(5)
    for place, name in enumerate(ENTRANTS):
        rows = [
            {"entrant_id": name, "prompt_id": f"q{n}", "response_text": "w" * rng.randrange(5, 30 - 5 * place)}
            for n in range(prompts)
        ]
        lines(root / "responses" / f"responses_{name}.jsonl", rows)
    return change(config, rubrics={"calibration": {"path": "calibration.md"}}, **settings)


def test_scores_and_pairs_of_one_run_say_which_is_cheaper(tmp_path: Path) -> None:
    config = many(tmp_path, 40, judge__task="both")
    result = ty.run(config, judge=by_length, output_dir=tmp_path / "run")
    beside = result.scores.dimensions["calibration"].against_pairs
    assert (beside.unit, beside.score_cost, beside.pair_cost) == ("questions", 120.0, 240.0)
    assert beside.ratio is not None
    assert beside.low < beside.ratio < beside.high
    assert "For the same certainty pairs cost" in beside.sentence
    assert result.report.is_file()
    assert result.standings["calibration"].board is not None
    for again in (copy.copy(result), copy.deepcopy(result), pickle.loads(pickle.dumps(result))):
        assert again == result


def test_people_correct_a_judge_that_favours_length(tmp_path: Path) -> None:
    config = many(tmp_path, 60, judge__task="scores")
    drawn = random.Random(1).sample(range(60), 30)
    people = [
        {"model": name, "question_id": f"q{n}", "score": 5 + (n + place) % 2}
        for n in drawn
        for place, name in enumerate(ENTRANTS)
    ]
    lines(tmp_path / "people.jsonl", people)
    result = ty.run(config, judge=by_length, output_dir=tmp_path / "run", labels_path=tmp_path / "people.jsonl")
    (metric,) = result.scores.dimensions["calibration"].metrics
    assert metric.people.answers == 90
    assert metric.people.judge_minus_people < 0
    assert {(one.new, one.old) for one in metric.corrected} == {
        ("otter", "heron"),
        ("otter", "crane"),
        ("heron", "crane"),
    }
    assert all(one.labelled == 30 and one.low <= one.difference <= one.high for one in metric.corrected)


def test_peoples_scores_must_be_on_the_scale(tmp_path: Path) -> None:
    config = many(tmp_path, 20, judge__task="scores")
    lines(tmp_path / "people.jsonl", [{"model": "otter", "question_id": "q1", "score": 85}])
    with pytest.raises(OptionError, match=r"people.jsonl"):
        ty.run(config, judge=by_length, labels_path=tmp_path / "people.jsonl", output_dir=tmp_path / "run")


def test_labels_that_are_not_about_what_is_judged_are_refused(tmp_path: Path) -> None:
    config = change(make_folder(tmp_path), judge__task="scores")
    labels, scores = tmp_path / "labels.jsonl", tmp_path / "people.jsonl"
    lines(
        labels, [{"model_a": "otter", "model_b": "heron", "winner": "model_a", "question_id": "p1", "source": "human"}]
    )
    lines(scores, [{"model": "otter", "question_id": "p1", "score": 5}])
    with pytest.raises(OptionError, match=r"has labels of pairs, and judge\.task is scores"):
        ty.run(config, judge=by_length, labels_path=labels)
    with pytest.raises(OptionError, match=r"has scores, and judge\.task is pairs"):
        ty.run(change(config, judge__task="pairs"), judge=by_length, labels_path=scores)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"judge__task": "pairs", "rubrics__factuality__scale": "1-5"}, "judge.task is pairs"),
        ({"rubrics__factuality__criteria": {"a": 0.5, "b": 0.4}}, "the weights sum to 0.9, not 1"),
        ({"rubrics__factuality__scale": "1-7"}, "1-10 or 1-5 or 0-1 or pass-fail"),
        ({"judge__grades": True}, "judge.grades is about pairs"),
        ({"judge__combine": "weight"}, "judge.combine is about pairs"),
        ({"rounds__until": "top"}, "rounds.until chooses pairs"),
        ({"opponents__baseline": "otter"}, "opponents.baseline is about pairs"),
        ({"judge__reply": "label", "rubrics__factuality__criteria": ["a", "b"]}, "several criteria need"),
        ({"judge__reply": "choice", "rubrics__factuality__scale": "0-1"}, "needs a scale of steps"),
        ({"judge__model": "local/x"}, "judge.model and judge.pilot_model and judge.headline_model both say"),
        ({"judge__task": "marks"}, "pairs or scores or both"),
    ],
)
def test_settings_that_do_not_fit_are_refused_before_anything_is_asked(
    tmp_path: Path, settings: dict[str, Any], words: str
) -> None:
    config = change(make_folder(tmp_path), **{"judge__task": "scores"} | settings)
    with pytest.raises(ConfigError) as caught:
        ty.run(config, judge=by_length)
    told = "\n".join([str(caught.value), *map(str, getattr(caught.value, "problems", ()))])
    assert words in told


def test_criteria_stand_side_by_side_and_are_weighted_as_stated(tmp_path: Path) -> None:
    async def graded(question: Question) -> Any:
        return question.verdict({"accuracy": 8, "clarity": 4})

    weights = {"accuracy": 0.75, "clarity": 0.25}
    config = change(make_folder(tmp_path), judge__task="scores", rubrics__factuality__criteria=weights)
    with_all = change(config, rubrics__calibration__criteria=["accuracy", "clarity"])
    ty.run(with_all, judge=graded, output_dir=tmp_path / "run")
    rows = read_lines(tmp_path / "run" / "scores.jsonl")
    assert {(row["metric"], row["score"]) for row in rows} == {
        ("factuality", 7.0),
        ("factuality.accuracy", 8.0),
        ("factuality.clarity", 4.0),
        ("calibration.accuracy", 8.0),
        ("calibration.clarity", 4.0),
    }
    page = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert "Criteria without weights are not averaged" in page


def test_a_judge_named_in_the_config_is_imported_from_beside_it(tmp_path: Path, tiltyard: Tiltyard) -> None:
    (tmp_path / "strict_judges.py").write_text("async def strict(question):\n    return '3'\n", encoding="utf-8")
    config = change(make_folder(tmp_path), judge={"model": "python:strict_judges:strict", "task": "scores"})
    run(tiltyard, config)
    rows = read_lines(tmp_path / "run" / "scores.jsonl")
    assert {(row["score"], row["judge_model"]) for row in rows} == {(3.0, "python:strict_judges:strict")}
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["task"] == "scores"
    refused = tiltyard("judge", "rejudge", "run", "--judge-model", "python:strict_judges:strict", "--yes")
    assert refused.returncode == 1


def test_options_of_a_run_are_checked(tmp_path: Path) -> None:
    config = make_folder(tmp_path)
    with pytest.raises(TypeError, match="unexpected keyword argument 'budget'"):
        ty.run(config, judge=by_length, budget=3)
    with pytest.raises(OptionError, match="both say who judges"):
        ty.run(config, judge=by_length, judge_model="local/x")
    with pytest.raises(OptionError, match="mode is 'all'"):
        ty.run(config, judge=by_length, mode="all")


def test_a_folder_that_held_scores_holds_none_after_a_run_of_pairs(tmp_path: Path) -> None:
    config = change(make_folder(tmp_path), judge__task="both")
    ty.run(config, judge=by_length, output_dir=tmp_path / "run")
    assert (tmp_path / "run" / "scores" / "factuality.jsonl").is_file()
    ty.run(change(config, judge__task="pairs"), judge=by_length, output_dir=tmp_path / "run")
    left = {path.name for path in (tmp_path / "run").rglob("*score*")}
    assert left <= {"scores"}
    assert len(PROMPTS) == 4


@pytest.mark.parametrize("notebook", [False, True])
def test_ctrl_c_ends_a_run_in_a_script_and_in_a_notebook(tmp_path: Path, notebook: bool) -> None:
    """What is on its way is kept, nothing more is asked, and the same call goes on."""
    config, calls, first = many(tmp_path, 40), [], [True]

    def interrupted(question: Question) -> str:
        calls.append(question.key)
        if len(calls) == 30:
            os.kill(os.getpid(), signal.SIGINT)
        if len(calls) >= 30 and first:
            time.sleep(1.0)
        return "A"

    def script() -> None:
        ty.run(config, judge=interrupted, output_dir=tmp_path / "run")

    async def cell() -> None:
        script()

    with closing(asyncio.new_event_loop()) as loop, pytest.raises(KeyboardInterrupt):
        loop.run_until_complete(cell()) if notebook else script()
    stopped_at = len(calls)
    kept = read_lines(tmp_path / "judgments" / "judgments_calibration.jsonl")
    assert len(kept) == stopped_at
    first.clear()
    ty.run(config, judge=interrupted, output_dir=tmp_path / "run")
    assert len(set(calls)) == len(calls) > stopped_at + 60
