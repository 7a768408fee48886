"""What the records hold: boards, decisions, runs, placements, requests and an arena, each made as a user makes it.

`RECORDS` names a function for each file of `records/`; it gets an empty folder and returns plain values.
"""

from __future__ import annotations

import csv
import hashlib
import itertools
import json
import os
import shutil
from collections.abc import Callable
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from tests import within
from tests.fakes import FakeServer, verdict_by_hash
from tests.golden.vote_log import vote_log
from tests.judge.tournament.folder import change, make_folder
from tests.site.sites import small_site
from tiltyard.arena.rules.events import Event, decode_body
from tiltyard.arena.simulation.ledger import fill_log
from tiltyard.arena.store import Store, public_head

HERE = Path(__file__).parent
EXAMPLES = HERE.parents[1] / "examples"
TOURNAMENT, PLACEMENT = HERE / "tournament", HERE / "placement"
BIRDS = str(EXAMPLES / "birds.jsonl")
TODAY, LAST_WEEK = (str(EXAMPLES / "versions" / f"{name}.jsonl") for name in ("today", "last-week"))
RUN = ("run", "tournament.yaml", "--mode", "headline", "--yes", "--output-dir", "run")
KEY = "sk-never-used-0123456789"
NOBODY = "http://127.0.0.1:9/v1"
"""An address at which nobody listens."""

PASSING = {
    *("tiltyard_version", "versions", "writer", "fingerprint", "timestamp", "started_at", "finished_at", "updated"),
    *("config_path", "path", "head", "generated_at", "files"),
}
"""Keys whose values change from version to version, or from one minute to the next."""
BOOTSTRAPPED = {"ci_low", "ci_high", "bootstrap_mean", "rank_low", "rank_high"}


def plain(value: Any, without: set[str] = PASSING) -> Any:
    """Values without what passes, and without sentences (four words or more): how it is said may change."""
    if isinstance(value, dict):
        kept = {key: plain(inner, without) for key, inner in value.items() if key not in without}
        return {key: inner for key, inner in kept.items() if inner is not SENTENCE}
    if isinstance(value, list):
        return [inner for inner in (plain(one, without) for one in value) if inner is not SENTENCE]
    return SENTENCE if isinstance(value, str) and value.count(" ") > 2 else value


SENTENCE = object()


def digest(value: Any) -> str:
    """A short name of a large value, equal only for equal ones."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def command(folder: Path, *arguments: str, code: int = 0) -> str:
    """What a command prints."""
    done = within.run(folder, *arguments)
    assert done.returncode == code, f"{arguments}: {done.stderr}"
    return done.stdout


def answer(folder: Path, *arguments: str, code: int = 0) -> Any:
    """What a command answers in JSON, without what passes."""
    return plain(json.loads(command(folder, *arguments, "--format", "json", code=code)))


def lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def loaded(path: Path) -> Any:
    return plain(json.loads(path.read_text(encoding="utf-8")))


BOARDS: dict[str, tuple[str, ...]] = {
    "birds": (BIRDS,),
    "birds, Rao-Kupper, both bad half": (BIRDS, "--ties", "rao-kupper", "--both-bad", "half", "--anchor", "heron=1000"),
    "birds, ties half, at any time": (BIRDS, "--ties", "half", "--anytime", "--level", "0.9"),
    "birds, length controlled": (BIRDS, "--control", "len", "--slot", "--no-misfit"),
    "birds, shrunk": (BIRDS, "--shrink", "--no-misfit"),
    "birds, robust": (BIRDS, "--robustness", "--ties", "drop", "--no-misfit"),
    "birds by category": (BIRDS, "--by", "category", "--no-misfit"),
    "birds by category, pooled": (BIRDS, "--by", "category", "--pool", "--no-misfit"),
    "birds, some rows": (BIRDS, "--where", "len_a > 300", "--min-battles", "20", "--no-misfit"),
    "birds, Elo": (BIRDS, "--method", "elo", "--k", "16"),
    "birds, shuffled Elo": (BIRDS, "--method", "elo-perm", "--n-perms", "20", "--k-sweep", "8,32", "--seed", "5"),
    "birds, Glicko-2": (BIRDS, "--method", "glicko2"),
    "birds, win rates": (BIRDS, "--method", "winrate"),
    "today": (TODAY, "--cluster", "prompt", "--evaluated", "v2"),
    "labels": (str(EXAMPLES / "labels" / "judged.jsonl"), "--people", str(EXAMPLES / "labels" / "people.csv")),
    "arena of the placement": (str(EXAMPLES / "placement" / "arena.jsonl"),),
}


def boards(folder: Path) -> Any:
    """The example battles, rated by every method."""
    return {name: answer(folder, "rate", *words) for name, words in BOARDS.items()}


def decisions(folder: Path) -> Any:
    """Two models compared, gated and planned for; and two boards."""
    pair = ("v2", "v1", "--in", TODAY)
    return {
        "compare": answer(folder, "compare", *pair),
        "compare birds": answer(folder, "compare", "osprey", "heron", "--in", BIRDS),
        "compare two weeks": answer(folder, "compare", TODAY, LAST_WEEK),
        "gate": gate(folder, *pair),
        "gate with a margin": gate(folder, *pair, "--margin", "30", "--alpha", "0.1"),
        "gate that cannot tell": gate(folder, "heron", "osprey", "--in", BIRDS, "--margin", "1", code=3),
        "plan": answer(folder, "plan", "--difference", "20", "--prompts", "100"),
        "plan for a pilot": answer(folder, "plan", "osprey", "plover", "--in", BIRDS),
        "plan for the top": answer(folder, "plan", "--top", "3", "--in", BIRDS),
    }


def gate(folder: Path, *arguments: str, code: int = 0) -> Any:
    """What a gate answers, without the prompts, which `compare` says too."""
    found = answer(folder, "gate", *arguments, code=code)
    return {**found, "comparison": {**found["comparison"], "prompts": len(found["comparison"]["prompts"])}}


def run_folder(folder: Path) -> Any:
    """What a run folder says: manifest, ratings, Elo, win rates; battles and verdicts by their digests."""
    with np.load(folder / "elo_per_perm.npz") as found:
        traces = {name: found[name].tolist() for name in found.files if name.endswith("__data")}
    kept = {"manifest": loaded(folder / "manifest.json"), "elo": loaded(folder / "elo_results.json")}
    with (folder / "pairwise_winrates.csv").open(encoding="utf-8") as rates:
        kept["win rates"] = [",".join(row) for row in csv.reader(rates)]
    kept["Elo of each shuffle"] = {name: [sum(row) for row in zip(*rows, strict=True)] for name, rows in traces.items()}
    for path in sorted((folder / "ratings").rglob("*.json")):
        kept[path.relative_to(folder).as_posix()] = loaded(path)
    kept["battles"] = digest(lines(folder / "battles.jsonl"))
    kept["matches"] = digest(lines(folder / "matches" / "matches.jsonl"))
    for path in sorted((folder / "verdicts").glob("*.jsonl")):
        kept[f"verdicts/{path.name}"] = digest(
            [
                {**row, "raw": [{key: value for key, value in one.items() if key != "timestamp"} for one in row["raw"]]}
                for row in lines(path)
            ]
        )
    for name in ("baseline.json", "rounds.json"):
        if (folder / name).exists():
            kept[name] = loaded(folder / name)
    return kept


def runs(folder: Path) -> Any:
    """The example tournament: every pair, against a baseline, and until the order is clear."""
    home = Path(shutil.copytree(EXAMPLES / "tournament", folder / "t", ignore=shutil.ignore_patterns("judgments")))
    made = {}
    asked = {"headline": (), "baseline": (), "until": ("--until", "order")}
    for name, options in asked.items():
        config = "baseline.yaml" if name == "baseline" else "tournament.yaml"
        command(home, "run", config, "--mode", "headline", "--yes", "--output-dir", name, *options)
        made[name] = run_folder(home / name)
    return made


def placement_folder(folder: Path) -> Any:
    """What a placement says; bootstrap rounds are left out, battles and verdicts are digests."""
    found = {name: loaded(folder / f"{name}.json") for name in ("manifest", "panel", "elo_ratings")}
    if found["elo_ratings"]["interval"]["kind"] == "bootstrap":
        found = plain(found, BOOTSTRAPPED)
    return {**found, "battles": digest(lines(folder / "battles.jsonl"))}


PLACE = (
    *("place", "--arena", "arena.jsonl", "--model", "responses_kestrel.jsonl", "--judge", "recorded/verdicts.jsonl"),
    *("--min-opponent-battles", "50", "--yes", "--out", "placed"),
)
CALIBRATED = ("--n-battles", "24", "--bootstraps", "100", "--calibrate", "20")


def placed(folder: Path, *options: str) -> Path:
    """The folder of an example placement."""
    home = Path(shutil.copytree(EXAMPLES / "placement", folder))
    command(home, *PLACE, *options)
    (made,) = (home / "placed").iterdir()
    return made


def placements(folder: Path) -> Any:
    """The example placement: plain, calibrated and with fixed anchors."""
    asked = {
        "plain": ("--n-battles", "60", "--bootstraps", "10", "--until", "rank:6", "--looks", "4"),
        "calibrated": ("--n-battles", "60", "--bootstraps", "10", "--calibrate", "300"),
        "fixed": ("--n-battles", "30", "--bootstraps", "0", "--fixed-anchors"),
    }
    return {name: placement_folder(placed(folder / name, *options)) for name, options in asked.items()}


def published(folder: Path) -> Any:
    """A published folder: its files, its numbers and its battles."""
    command(folder, "publish", TODAY, "site", "--title", "Versions", "--url", "https://example.org/board")
    site = folder / "site"
    names = sorted(path.relative_to(site).as_posix() for path in site.rglob("*") if path.is_file())
    manifest = json.loads((site / "published.json").read_bytes())
    assert sorted([*manifest["files"], "published.json"]) == names
    return {
        "files": names,
        "manifest": plain(manifest),
        **{name: loaded(site / name) for name in names if name.startswith("board") and name.endswith(".json")},
        "battles.jsonl": hashlib.sha256((site / "battles.jsonl").read_bytes()).hexdigest(),
        "battles.cols": hashlib.sha256((site / "battles.cols").read_bytes()).hexdigest(),
    }


JUDGES: dict[str, dict[str, object]] = {
    "gpt-5-mini": {},
    "claude-sonnet-4-5": {"reply": "tool"},
    "gemini/gemini-2.5-flash": {"reply": "json", "grades": True},
    "local/small": {"reply": "label"},
}


def requests(folder: Path) -> Any:
    """Every request that judges of all makers are sent, and the key under which its verdict is kept."""
    made: dict[str, Any] = {}
    with FakeServer() as server, ExitStack() as stack:
        urls = {"OPENAI": server.openai_url, "ANTHROPIC": server.anthropic_url, "GEMINI": server.gemini_url}
        keys = {f"{maker}_{what}": value for maker, url in urls.items() for what, value in _access(url)}
        stack.enter_context(patch.dict(os.environ, keys))
        for judge, settings in JUDGES.items():
            server.reset()
            server.behaviour.batch_polls = 0
            if settings.get("reply") == "label":
                server.behaviour.judge = lambda system, user: verdict_by_hash(system, user).split()[-1]
            home = folder / judge.replace("/", "-")
            config = make_folder(home, judge=judge)
            local = {"judge__base_url": server.openai_url} if judge.startswith("local/") else {}
            change(config, **{f"judge__{name}": value for name, value in settings.items()}, **local)
            command(home, *RUN)
            bodies = sorted((one.body for one in server.ledger.accepted), key=digest)
            made[judge] = {
                "requests": len(bodies),
                "one of them": bodies[0],
                "all of them": digest(bodies),
                "cache keys": {
                    path.name: digest(sorted({row["cache_key"] for row in lines(path)}))
                    for path in sorted((home / "judgments").glob("judgments_*.jsonl"))
                },
            }
    return made


def _access(url: str) -> tuple[tuple[str, str], ...]:
    return ("API_KEY", KEY), ("BASE_URL", url)


def make_tournament(folder: Path) -> None:
    """The small tournament of `tournament/`, judged in OpenAI's batches: config, cache, journal and run folder."""
    make_folder(folder, judge="gpt-5-mini")
    with FakeServer() as server, patch.dict(os.environ, {f"OPENAI_{k}": v for k, v in _access(server.openai_url)}):
        server.behaviour.batch_polls = 0
        command(folder, *RUN)
    for name in ("run/report.html", "judgments/asking.lock"):
        (folder / name).unlink()


def make_placement(folder: Path) -> None:
    """The calibrated placement of `placement/`."""
    made = placed(folder.parent / "examples", *CALIBRATED)
    shutil.copytree(made, folder, ignore=shutil.ignore_patterns("report.html"))


FIRST_DAY = 1_767_225_600_000_000
"""1 January 2026, in microseconds."""


@cache
def events() -> list[Event]:
    """The fixed log as the arena's own events."""
    made = []
    for at, body in vote_log():
        dated = {
            key: value + FIRST_DAY if key in ("expires_at", "undo_until") else value for key, value in body.items()
        }
        made.append(Event(at + FIRST_DAY, decode_body(json.dumps(dated))))
    return made


def arena(folder: Path) -> Any:
    """The board, badges and weekly report of the fixed log, and its votes as they are exported."""
    url = f"sqlite:///{folder / 'arena.db'}"
    store = Store.create(url)
    store.close()
    fill_log(events(), url)
    command(folder, "arena", "weekly", "--db", url, "--out", str(folder / "weeks"))
    command(folder, "arena", "export", "--db", url, "--out", str(folder / "votes.jsonl"))
    with small_site(url) as site:
        shown = site.client().get("/leaderboard.json").json()
        live = site.client().get("/api/v1/leaderboard").json()
    votes = lines(folder / "votes.jsonl")
    weeks = {path.stem: loaded(path) for path in sorted((folder / "weeks").glob("*.json"))}
    return {
        "board": plain(shown),
        "live board": plain(live),
        "weeks": weeks,
        "votes": digest([{key: value for key, value in row.items() if key != "weight"} for row in votes]),
        "weight of all votes": sum(row.get("weight", 1.0) for row in votes),
    }


def heads(folder: Path) -> Any:
    """The chain over the fixed log, and the head of its public rows."""
    log, url = events(), f"sqlite:///{folder / 'arena.db'}"
    Store.create(url).close()
    salts = itertools.count()
    fill_log(log, url, lambda: f"salt {next(salts)}")
    store = Store.open(url)
    head = public_head(store, log[-1].at)
    with store.database.read() as connection:
        rows = connection.rows("SELECT body, hash FROM events ORDER BY seq")
    store.close()
    return {
        "events": len(rows),
        "texts": digest([text for text, _ in rows]),
        "links": {str(seq): rows[seq - 1][1] for seq in (1, 100, 3_000, len(rows))},
        "public head": str(head),
    }


def bootstrap(folder: Path) -> Any:
    """Bootstrap intervals of the example: a better method may replace them, and then this record."""
    options = ("--ci", "bootstrap", "--rounds", "50", "--seed", "3", "--no-misfit")
    return answer(folder, "rate", BIRDS, *options)


RECORDS: dict[str, Callable[[Path], Any]] = {
    "boards": boards,
    "decisions": decisions,
    "runs": runs,
    "placements": placements,
    "published": published,
    "requests": requests,
    "arena": arena,
    "heads": heads,
    "bootstrap": bootstrap,
}


def record_path(name: str) -> Path:
    return HERE / "records" / f"{name}.json"
