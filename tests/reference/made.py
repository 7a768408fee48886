"""Every artifact that the page describes, made as a user makes it: from the examples, in small."""

from __future__ import annotations

import csv
import io
import json
import shutil
from contextlib import chdir
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import yaml
from starlette.testclient import TestClient
from typer.testing import CliRunner

import tiltyard as ty
from tests.arena.small_worlds import MINUTE, Log, honest_chooser, new_log, play
from tests.reference.pages import ROOT
from tests.site.file_answers import only
from tests.site.sites import SmallSite, small_site
from tiltyard.arena import DAY, Choice, ExplainVote, new_key, weekly_report
from tiltyard.arena import events as e
from tiltyard.arena.audit import state_head
from tiltyard.arena.store import record_head
from tiltyard.arena.study import day_of, period_of_log, study_of
from tiltyard.cli.main import make_app
from tiltyard.reports import keep_finished_weeks

EXAMPLES = ROOT / "examples"
Made = dict[str, list[Any]]
"""By title of the page, the contents of every file of that kind: rows of a table are objects of their own."""


def command(folder: Path, *arguments: str, exit_code: int = 0) -> str:
    """What a command prints, run in a folder."""
    with chdir(folder):
        done = CliRunner().invoke(make_app(arguments[0]), arguments)
    assert done.exit_code == exit_code, f"{arguments}: {done.exception or done.output}"
    return done.stdout


def lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def add(made: Made, more: dict[str, Any]) -> None:
    for title, values in more.items():
        made.setdefault(title, []).extend(values)


def ratings(folder: Path) -> Made:
    """Ratings files of every method, with and without what is optional; and the same as CSV."""
    birds = str(EXAMPLES / "birds.jsonl")
    (folder / "before.json").write_text(command(folder, "rate", birds, "--ci", "none", "--format", "json"))
    wishes = [
        ("--ci", "bootstrap", "--rounds", "20", "--evaluated", "heron"),
        ("--robustness", "--compare", "before.json", "--anchor", "heron=1000"),
        ("--control", "len"),
        ("--method", "elo"),
        ("--method", "elo-perm", "--n-perms", "5", "--k-sweep", "8,32"),
        ("--method", "glicko2"),
        ("--method", "winrate"),
        ("--shrink",),
    ]
    boards = [json.loads(command(folder, "rate", birds, *wish, "--format", "json")) for wish in wishes]
    labelled = [str(EXAMPLES / "labels" / name) for name in ("judged.jsonl", "people.csv")]
    for extra in ("", ",draw_place,draw_of"):  # labels that carry their draw, and others
        drawn = Path(labelled[1]).read_text(encoding="utf-8").splitlines()
        drawn = [drawn[0] + extra, *(f"{line},{n},480" if extra else line for n, line in enumerate(drawn[1:], 1))]
        (folder / "people.csv").write_text("\n".join(drawn), encoding="utf-8")
        asked = ("rate", labelled[0], "--people", "people.csv", "--format", "json")
        boards.append(json.loads(command(folder, *asked)))
    row = {"model_a": "a", "model_b": "b", "winner": "model_a", "source": "human"}
    unbeaten = json.loads(ty.rate([row, row]).to_json())
    ring = [{**row, "model_a": f"m{i}", "model_b": f"m{(i + 1) % 302}"} for i in range(302)]
    unchecked = json.loads(ty.rate(ring).to_json())
    named = [{"x": "a", "y": "b", "winner": "model_a", "source": "human"}] * 2
    mapped = json.loads(ty.rate(named, map={"model_a": "x", "model_b": "y"}).to_json())
    logs = [ROOT / "tests" / "data" / "battles" / "logs" / f"birds_{version}.eval" for version in ("v1", "v2")]
    banded = json.loads(ty.rate(logs, dimension="includes", as_battles=True, tie_band=0.1).to_json())
    parted = json.loads(ty.rate([{**row, "dimension": name} for name in ("style", "safety")]).to_json())
    for name in ("where", "battles_sha256", "tiltyard_version"):
        assert name in unbeaten
    by = json.loads(command(folder, "rate", birds, "--by", "category", "--ci", "none", "--format", "json"))
    pooled = json.loads(command(folder, "rate", birds, "--by", "category", "--pool", "--format", "json"))
    odd = [{"model_a": "a", "model_b": "b", "winner": winner, "source": "human"} for winner in ("tie", "nobody")]
    (folder / "odd.jsonl").write_text("".join(json.dumps(line) + "\n" for line in odd), encoding="utf-8")
    counted = (("battles", "stats", path, "--on-bad", "skip", "--format", "json") for path in (birds, "odd.jsonl"))
    stats = [json.loads(command(folder, *words)) for words in counted]
    return {
        "Ratings file": [
            json.loads((folder / "before.json").read_text()),
            *boards,
            unbeaten,
            unchecked,
            parted,
            mapped,
            banded,
            *by.pop("boards").values(),
            *pooled["boards"].values(),
        ],
        "Battle statistics": stats,
        "People's labels": [board["people"] for board in boards[-2:]],
    }


def battles(folder: Path) -> Made:
    """Battle rows with everything that a row may carry."""
    full = ty.Battle(
        model_a="otter",
        model_b="heron",
        winner="tie",  # type: ignore[arg-type]
        source="llm-judge",  # type: ignore[arg-type]
        question_id="q1",
        judge_model="scripted/judge",
        dimension="clarity",
        score_a=0.4,
        weight=2.0,
        category="tides",
        language="en",
        timestamp=1_760_000_000.0,
        battle_id="b1",
        inconsistent=True,
        controls={"len_a": 120.0, "len_b": 80.0},
    )
    plain = ty.Battle.from_dict({"model_a": "otter", "model_b": "heron", "winner": "model_a", "source": "human"})
    ty.write_battles(folder / "rows.jsonl", [plain])
    return {"Battle row": [full.to_dict(), plain.to_dict(), *lines(folder / "rows.jsonl")]}


def published(folder: Path) -> Made:
    """A published folder, with and without dimensions, anchor and times."""
    plain = {"model_a": "otter", "model_b": "heron", "source": "human", "category": "tides"}
    rows = [{**plain, "winner": winner} for winner in ("model_a", "model_b", "tie")]
    ty.write_battles(folder / "plain.jsonl", rows)
    ty.write_battles(folder / "several.jsonl", [{**row, "dimension": name} for row in rows for name in ("a", "b")])
    command(folder, "publish", str(folder / "plain.jsonl"), str(folder / "plain"), "--anchor", "otter=1000")
    command(folder, "publish", str(folder / "several.jsonl"), str(folder / "several"))
    manifests = [json.loads((folder / name / "published.json").read_bytes()) for name in ("plain", "several")]
    manifests[0] = {**manifests[0], "notes": ["a note"]}
    data = (folder / "plain" / "battles.cols").read_bytes()
    return {
        "Published manifest": manifests,
        "Column file": [json.loads(data[12 : 12 + int.from_bytes(data[8:12], "little")])],
    }


def scored(home: Path) -> None:
    """A run whose answers are scored and judged in pairs, with people's scores on some."""
    config = yaml.safe_load((home / "tournament.yaml").read_text(encoding="utf-8"))
    config["judge"] = {"model": "scripted/scores.yaml", "task": "both"}
    (home / "scored.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    rules = [{"when": "You score one answer", "say": ["SCORE: 7", "SCORE: 4", "well"]}, {"say": ["VERDICT: A"]}]
    (home / "scores.yaml").write_text(yaml.safe_dump({"rules": rules}), encoding="utf-8")
    people = [{"model": name, "question_id": "rain", "score": 5} for name in ("careful", "terse")]
    rows = [{**row, "metric": metric} for row in people for metric in ("factuality", "calibration")]
    (home / "scores.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    labelled = ("--calibrate", "scores.jsonl", "--yes", "--output-dir", "scored")
    command(home, "run", "scored.yaml", "--mode", "headline", *labelled)


def tournament(folder: Path) -> Made:
    """A headline run, a pilot with canaries and generated answers, one with a judge that fails, and a "
    "re-judged one."""
    home = folder / "tournament"
    shutil.copytree(EXAMPLES / "tournament", home, ignore=shutil.ignore_patterns("judgments"))
    config = yaml.safe_load((home / "tournament.yaml").read_text(encoding="utf-8"))
    config |= {"canaries": True, "note": "A pilot with canaries."}
    config["entrants"][0] |= {"model": "scripted/judge.yaml", "seed": 7}
    (home / "watched.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    (home / "failing.yaml").write_text('rules: [{say: ["VERDICT: A", "VERDICT: B", "well"]}]', encoding="utf-8")
    (home / "responses" / "responses_careful.jsonl").unlink()
    command(home, "generate", "watched.yaml", "--entrant", "careful", "--yes")
    command(home, "run", "tournament.yaml", "--mode", "headline", "--yes", "--output-dir", "headline")
    label_everything(home / "headline", home / "people.jsonl", "calibration")
    labelled = ("--output-dir", "headline", "--calibrate", "people.jsonl")
    command(home, "run", "tournament.yaml", "--mode", "headline", "--yes", *labelled)
    command(home, "run", "watched.yaml", "--mode", "pilot", "--yes", "--output-dir", "pilot", exit_code=3)
    command(home, "run", "baseline.yaml", "--mode", "headline", "--yes", "--output-dir", "against")
    until = ("--until", "order", "--yes", "--output-dir", "adaptive")
    command(home, "run", "tournament.yaml", "--mode", "headline", *until)
    answers = home / "responses" / "responses_wordy.jsonl"
    answers.write_text("\n".join(answers.read_text(encoding="utf-8").splitlines()[:-1]) + "\n", encoding="utf-8")
    failing = ("--judge-model", "scripted/failing.yaml", "--yes", "--output-dir", "failing")
    command(home, "run", "tournament.yaml", "--mode", "headline", *failing)
    command(home, "judge", "rejudge", "headline", "--judge-model", "scripted/failing.yaml", "--yes", "--out", "again")
    several = ("judge.yaml", "failing.yaml", "third.yaml")
    (home / "third.yaml").write_text('rules: [{say: ["VERDICT: B", "VERDICT: A", "VERDICT: TIE"]}]', encoding="utf-8")
    panel = [word for name in several for word in ("--judge-model", f"scripted/{name}")]
    panel += ["--repeats", "2", "--yes", "--output-dir", "panel"]
    command(home, "run", "tournament.yaml", "--mode", "headline", *panel)
    scored(home)
    made: Made = {"Prompt bank": lines(home / "bank.jsonl")}
    add(made, {"Response file": lines(home / "responses" / "responses_careful.jsonl")})
    add(made, {"Response file": lines(home / "responses" / "responses_terse.jsonl")})
    for path in sorted((home / "judgments").glob("judgments_*.jsonl")):
        add(made, {"Verdict cache": lines(path)})
    for name in ("headline", "pilot", "failing", "against", "panel", "adaptive", "scored"):
        found = run_folder(home / name)
        add(made, found)
        add(made, {"Tournament manifest": [json.loads((home / name / "manifest.json").read_text(encoding="utf-8"))]})
        add(made, {"Matches": lines(home / name / "matches" / "matches.jsonl")})
        add(made, {"Judge prompts": [json.loads((home / name / "judge_prompts.json").read_text(encoding="utf-8"))]})
    scores = json.loads((home / "scored" / "score_results.json").read_text(encoding="utf-8"))
    add(made, {"Score row": lines(home / "scored" / "scores.jsonl"), "Scores of a dimension": list(scores.values())})
    add(made, {"Scored answers": lines(home / "scored" / "scores" / "calibration.jsonl")})
    against = json.loads((home / "against" / "baseline.json").read_text(encoding="utf-8"))
    add(made, {"Baseline": list(against.values())})
    add(made, {"Rounds": [json.loads((home / "adaptive" / "rounds.json").read_text(encoding="utf-8"))]})
    board = command(home, "rate", "failing", "--dimension", "calibration", "--format", "json")
    add(made, {"Ratings file": [json.loads(board)]})
    add(made, run_folder(home / "again"))
    made["Re-judged run"] = [json.loads((home / "again" / "changes.json").read_text(encoding="utf-8"))]
    (home / "mute.yaml").write_text('rules: [{error: "errored: invalid_request_error", final: true}]', encoding="utf-8")
    config["entrants"][0] |= {"model": "scripted/mute.yaml"}
    (home / "watched.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    (home / "responses" / "responses_careful.jsonl").unlink()
    command(home, "generate", "watched.yaml", "--entrant", "careful", "--yes", exit_code=1)
    made["Failed prompts"] = lines(home / "responses" / "failures_careful.jsonl")
    return made


def label_everything(folder: Path, labels: Path, dimension: str) -> None:
    """People's labels on every matchup of a dimension: as the judge says, but for every third."""
    kept = ("question_id", "model_a", "model_b", "dimension")
    rows = [row for row in lines(folder / "battles.jsonl") if row["dimension"] == dimension]
    said = [
        {**{name: row[name] for name in kept}, "winner": row["winner"] if i % 3 else ("model_a", "model_b")[i % 2]}
        for i, row in enumerate(rows)
    ]
    labels.write_text("".join(json.dumps(row) + "\n" for row in said), encoding="utf-8")


def run_folder(folder: Path) -> Made:
    """What a run folder holds, a re-judged one too."""
    made: Made = {
        "Elo results": [json.loads((folder / "elo_results.json").read_text(encoding="utf-8"))],
        "Win rates": rows((folder / "pairwise_winrates.csv").read_text(encoding="utf-8")),
        "Battle row": lines(folder / "battles.jsonl"),
        "Usage": [json.loads((folder / "usage.json").read_text(encoding="utf-8"))],
    }
    for path in (folder / "verdicts").glob("*.jsonl"):
        add(made, {"Judgments": lines(path)})
    for path in (folder / "ratings").rglob("*.json"):
        add(made, {"Ratings file": [json.loads(path.read_text(encoding="utf-8"))]})
    return made


def judge_check(folder: Path) -> Made:
    pairs = [
        {"prompt": "2 + 2?", "response_a": "4", "response_b": "5, I think", "votes": {"A": 9, "B": 1}},
        {"prompt": "Capital of France?", "response_a": "Lyon", "response_b": "Paris", "label": "B"},
    ]
    (folder / "pairs.jsonl").write_text("".join(json.dumps(pair) + "\n" for pair in pairs), encoding="utf-8")
    (folder / "failing.yaml").write_text('rules: [{when: "2 + 2", say: "hm"}, {say: "VERDICT: B"}]', encoding="utf-8")
    checks = []
    for judge in (f"scripted/{EXAMPLES / 'tournament' / 'judge.yaml'}", "scripted/failing.yaml"):
        options = ("--judge-model", judge, "--yes", "--format", "json")
        checks.append(json.loads(command(folder, "judge", "check", "pairs.jsonl", *options)))
    return {"Judge check": checks}


def placement(folder: Path) -> Made:
    """A calibrated placement, a plain one that may stop on its rank, and one of a model that people know."""
    home = EXAMPLES / "placement"
    (folder / "failing.yaml").write_text('rules: [{say: ["VERDICT: A", "VERDICT: B", "well"]}]', encoding="utf-8")
    newcomer = 'rules: [{when: "question 1", error: "errored: busy", final: true}, {say: "Something to begin with."}]'
    (folder / "newcomer.yaml").write_text(newcomer, encoding="utf-8")
    recorded = ("--judge", f"recorded/{home / 'verdicts.jsonl'}")
    arena = (
        "place",
        "--arena",
        str(home / "arena.jsonl"),
        "--min-opponent-battles",
        "50",
        "--n-battles",
        "60",
        "--yes",
    )
    file = ("--model", str(home / "responses_kestrel.jsonl"))
    asked = ("--model", "scripted/newcomer.yaml", "--name", "newcomer", "--judge", "scripted/failing.yaml")
    known = ("--model", "egret", "--leave-one-out", "--no-inline-human")
    sea, marsh = ("albatross", "cormorant", "fulmar", "gannet"), ("bittern", "egret", "heron", "ibis")
    families = {**dict.fromkeys(sea, "sea"), **dict.fromkeys(marsh, "marsh")}
    (folder / "families.json").write_text(json.dumps(families), encoding="utf-8")
    checked = ("--calibrate", "300", "--families", "families.json", "--bootstraps", "20")
    command(folder, *arena, *recorded, *file, *checked, "--out", "calibrated")
    command(
        folder, *arena, *asked, "--until", "rank:5", "--bootstraps", "10", "--anchor", "egret=1000", "--out", "plain"
    )
    command(folder, *arena, *recorded, *known, "--bootstraps", "20", "--out", "known")
    made: Made = {}
    for name in ("calibrated", "plain", "known"):
        (run,) = (folder / name).iterdir()
        add(made, {"Placement manifest": [json.loads((run / "manifest.json").read_text(encoding="utf-8"))]})
        add(made, {"Ratings file": [json.loads((run / "elo_ratings.json").read_text(encoding="utf-8"))]})
        add(made, {"Panel": [json.loads((run / "panel.json").read_text(encoding="utf-8"))]})
        add(made, {"Placement usage": [json.loads((run / "usage.json").read_text(encoding="utf-8"))]})
        add(made, {"Judgments": lines(run / "verdicts.jsonl"), "Placement texts": lines(run / "texts.jsonl")})
        add(made, {"Battle row": lines(run / "battles.jsonl")})
        if (run / "calibration.jsonl").exists():
            add(made, {"Calibration": lines(run / "calibration.jsonl")})
    return made


def simulation(folder: Path) -> Made:
    """Two simulated arenas, one under attack and with a late model; the log of the other is exported."""
    size = ("arena", "simulate", "--models", "10", "--prompts", "6", "--votes", "400", "--in-flight", "10")
    plain = command(folder, *size, "--format", "json", "--db", "sqlite:///arena.db")
    attacked = command(
        folder, *size, "--attack", "rigging", "--late-model", "--visitors", "classes", "--format", "json"
    )
    command(folder, "arena", "export", "--db", "sqlite:///arena.db", "--out", "votes.jsonl")
    validity = command(folder, "arena", "validity", "--db", "sqlite:///arena.db", "--format", "json")
    return {
        "Simulation": [json.loads(plain), json.loads(attacked)],
        "Arena export": lines(folder / "votes.jsonl"),
        "Validity report": [json.loads(validity)],
    }


def validity() -> Made:
    """A report on two weeks of which the second has a failing model, a flag and an exclusion."""
    log, since = _two_weeks()
    state, period = period_of_log(log.events, since)
    found, _ = study_of(state, period.votes)
    report = msgspec.to_builtins(weekly_report(state, period, found).facts())
    assert report["quality"]
    return {"Validity report": [json.loads(json.dumps(report))]}


def _two_weeks() -> tuple[Log, int]:
    rng = np.random.default_rng(9)
    choose = honest_chooser(rng, np.linspace(300.0, -300.0, 8))
    log = new_log(8, 6)
    play(log, 700, rng, choose, close=0.3, after=13 * MINUTE)
    since = log.now + 1

    def worse(a: int, b: int, prompt: int) -> Choice:
        failing = 4 in (a, b) and prompt in (1, 5) and rng.random() < 0.95
        return Choice.BOTH_BAD if failing else choose(a, b, prompt)

    play(log, 600, rng, worse, close=0.3, after=13 * MINUTE)
    log.say(e.Flagged(subject="voter", subject_id="v003", flag="fast", detail="30 of 40 gaps"))
    log.say(e.Excluded(matchup_ids=tuple(vote.matchup_id for vote in list(log.book)[-3:]), reason="fast"))
    return log, since


def site(url: str) -> Made:
    """What a site over an arena of four models hands to programs after some votes."""
    rng = np.random.default_rng(3)
    with small_site(url) as made:
        for number in range(160):
            voter = f"voter-{number % 8}"
            served = made.arena.serve(voter)
            made.arena.vote(served.matchup_id, voter, Choice.A if rng.random() < 0.6 else Choice.B)
        for number in range(40):  # from one network and for one model each time, so that they weigh less
            name = made.arena.serve(f"crowd-{number}", block="b" * 64).matchup_id
            shown = made.arena.read(lambda state, name=name: state.schedule.in_flight[name])  # type: ignore[misc]
            made.arena.vote(name, f"crowd-{number}", Choice.A if shown.a < shown.b else Choice.B, block="b" * 64)
        made.arena.skip(made.arena.serve("voter-0").matchup_id, "voter-0")
        made.arena.append([e.PhaseChanged(phase=4), e.PromptDisabled(prompt_id="p2")])
        made.arena.append([e.SettingsChanged(policy=made.arena.read(lambda state: state.policy))])
        made.arena.append([kind(matchup_ids=(name,), reason="test") for kind in (e.Excluded, e.Restored)])
        made.observatory.refresh()
        keep_finished_weeks(made.arena.store, made.arena.now() + 14 * DAY)
        head = state_head(made.arena.store, made.arena.now(), title="Test arena", pem=new_key()[0])
        record_head(made.arena.store, head, made.arena.now())
        client = made.client()
        board = client.get("/leaderboard.json").json()
        category = client.get("/leaderboard.json?category=sums").json()
        one = board["rows"][0]["model"]
        witness = [json.loads(line) for line in client.get("/api/v1/witness.jsonl").text.splitlines()]
        today = client.get(f"/leaderboard.json?on={day_of(made.arena.now())}").json()
        return {
            "Leaderboard of a day": [today],
            "Leaderboard files": [
                board,
                client.get("/leaderboard.json?q=zyx").json(),
            ],
            "Leaderboard of a category": [category],
            "Live board": [client.get("/api/v1/leaderboard").json()],
            "Model": [client.get(f"/api/v1/models/{one}").json()],
            "Live validity report": [client.get("/api/v1/validity").json()],
            "Weeks": [client.get("/api/v1/validity/weeks").json()],
            "Witness": witness[:1],
            "Witness lines": witness[1:],
            "Head file": [msgspec.to_builtins(head.file)],
            "Arena export": [*_exported(client), *_exported_after_one_that_was_not_shown(made, client)],
        }


def _exported(client: TestClient) -> list[dict[str, Any]]:
    return [json.loads(line) for line in client.get("/api/v1/battles.jsonl").text.splitlines()]


def _exported_after_one_that_was_not_shown(made: SmallSite, client: TestClient) -> list[dict[str, Any]]:
    only(made.arena, "html")
    served = made.arena.serve("voter-0")
    made.arena.vote(served.matchup_id, "voter-0", None, unrendered="A")
    made.arena.submit(ExplainVote(served.matchup_id, "voter-0", ["safer"], "")).result()
    return _exported(client)
