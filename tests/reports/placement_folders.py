"""What the tests of a placement's report share: a run folder as `tiltyard place` writes it, from a simulated judge."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from run_folders import JUDGE, NASTY, WORDS, spoken

from tiltyard.analysis.boards import Leaderboard, RatingsFile, as_table, rate
from tiltyard.data.battles import Battle, Outcome, Source, write_battles
from tiltyard.files import write_json, write_lines, write_text
from tiltyard.judge.placement import Panel
from tiltyard.judge.placement.robustness import sensitivity
from tiltyard.judge.placement.sampling import PlannedBattle, fingerprint
from tiltyard.judge.verdicts import Judgment, Matchup, settle, to_battle
from tiltyard.reports.sections import share_interval

MODEL = "kestrel-9b <new>"
LANGUAGES = ("English", "French", "German", None)
FAMILIES = ("heron", "otter", "ibis", "crane", "teal", "stork", "finch", "raven", "egret", "plover")


@dataclass(frozen=True, kw_only=True)
class Shape:
    """How large a simulated placement is and what it has."""

    n_models: int = 30
    n_battles: int = 80
    n_questions: int = 60
    n_human: int = 900
    n_rounds: int = 3
    both_orders: bool = True
    calibrated: bool = False
    leave_one_out: bool = False
    strength: float = 0.4
    seed: int = 3


ORDINARY = Shape()


def make_placement(folder: Path, shape: Shape = ORDINARY) -> Path:
    """A finished placement: ties, inconsistent and failed judgments, several languages, texts that try to break out."""
    rng = np.random.default_rng(shape.seed)
    skill = dict(zip(opponent_names(shape.n_models - 1), np.linspace(1.4, -1.4, shape.n_models - 1), strict=True))
    panel = _panel(rng, shape, skill)
    judgments = [
        _judgment(rng, shape, number, shape.strength - skill[cell["opponent"]], cell)
        for number, cell in enumerate(panel)
    ]
    human = _human(rng, shape, skill)
    judged = [battle for judgment in judgments if (battle := to_battle(judgment)) is not None]
    folder.mkdir(parents=True)
    write_battles(folder / "battles.jsonl", [*judged, *human])
    board = _rate(folder / "battles.jsonl")
    seats = _panel_file(panel, shape)
    write_json(folder / "panel.json", msgspec.to_builtins(seats))
    write_lines(folder / "texts.jsonl", _texts(rng, panel, shape))
    write_lines(folder / "verdicts.jsonl", judgments)
    rounds = _rounds(judged, human, shape, board)
    manifest = _manifest(shape, judgments, board, rounds, seats.fingerprint, len(human))
    if shape.calibrated:
        write_lines(folder / "calibration.jsonl", _calibration_lines(rng, skill))
        manifest["calibration"] = CALIBRATION
    report = RatingsFile.of(board, arena="simulated", model=MODEL, judge_model=JUDGE)
    contents = _calibrated(report.to_dict()) if shape.calibrated else report.to_dict()
    write_json(folder / "elo_ratings.json", contents)
    if shape.leave_one_out:
        manifest["leave_one_out"] = _left_out(contents)
    write_text(folder / "leaderboard.txt", as_table(board))
    write_json(folder / "usage.json", _usage(judgments))
    write_json(folder / "manifest.json", manifest)
    return folder


def opponent_names(n: int) -> list[str]:
    return [f"{FAMILIES[i % len(FAMILIES)]}-{7 * (1 + i // len(FAMILIES))}b" for i in range(n)]


def _panel(rng: np.random.Generator, shape: Shape, skill: dict[str, float]) -> list[dict[str, str]]:
    """Opponents near the model, every (question, opponent) once."""
    near = sorted(skill, key=lambda name: abs(skill[name] - shape.strength))[:20]
    cells: dict[tuple[str, str], str] = {}
    while len(cells) < shape.n_battles:
        question = int(rng.integers(shape.n_questions))
        name = f"q{question:03d}" if question else 'q"0&<odd>'
        cells[name, near[int(rng.integers(len(near)))]] = "model" if rng.random() < 0.5 else "opponent"
    return [{"question_id": q, "opponent": o, "first": first} for (q, o), first in cells.items()]


def _panel_file(panel: list[dict[str, str]], shape: Shape) -> Panel:
    contents = {
        "arena": "simulated",
        "arena_sha256": {"battles.parquet": "ab" * 32},
        "sampling": "informative",
        "seed": shape.seed,
        "battles": panel,
        "fingerprint": fingerprint(msgspec.convert(panel, tuple[PlannedBattle, ...])),
    }
    return msgspec.convert(contents, Panel)


def _judgment(rng: np.random.Generator, shape: Shape, number: int, lead: float, cell: dict[str, str]) -> Judgment:
    first, second = (MODEL, cell["opponent"])[:: 1 if cell["first"] == "model" else -1]
    matchup = Matchup(prompt_id=cell["question_id"], dimension="helpfulness", entrant_a=first, entrant_b=second)
    lean = (lead if first == MODEL else -lead) + 0.9 * rng.standard_normal()
    heard = [spoken(rng, swap, lean, number) for swap in (False, True)]
    return settle(matchup, heard if shape.both_orders else heard[:1], both_orders=shape.both_orders)


def _texts(rng: np.random.Generator, panel: list[dict[str, str]], shape: Shape) -> list[dict[str, Any]]:
    """Every answer depends on its question and author alone; some try to break out of the page."""
    questions = sorted({cell["question_id"] for cell in panel})
    asked = {name: NASTY[i] if i < 6 else _speech(rng, 20) for i, name in enumerate(questions)}
    own = {name: NASTY[i % len(NASTY)] if i < 16 else _speech(rng, 90) for i, name in enumerate(questions)}
    return [
        {
            "question_id": cell["question_id"],
            "opponent": cell["opponent"],
            "language": LANGUAGES[questions.index(cell["question_id"]) % 7 % 4],
            "prompt": asked[cell["question_id"]],
            "model_answer": own[cell["question_id"]],
            "opponent_answer": NASTY[i] if i < len(NASTY) else _speech(rng, 90),
        }
        for i, cell in enumerate(panel)
    ]


def _speech(rng: np.random.Generator, words: int) -> str:
    return " ".join(rng.choice(WORDS, words)).capitalize() + "."


def _human(rng: np.random.Generator, shape: Shape, skill: dict[str, float]) -> list[Battle]:
    names = list(skill)
    battles = []
    for number in range(shape.n_human):
        a, b = (names[i] for i in rng.choice(len(names), 2, replace=False))
        lean = skill[a] - skill[b] + rng.logistic()
        outcome = Outcome.TIE if abs(lean) < 0.3 else (Outcome.A if lean > 0 else Outcome.B)
        battles.append(
            Battle(
                model_a=a, model_b=b, winner=outcome, source=Source.HUMAN, question_id=f"h{number}", language="English"
            )
        )
    return battles


def _rate(battles: list[Battle] | Path) -> Leaderboard:
    return rate(battles, method="bt", ci="bootstrap", rounds=50, seed=0, evaluated=MODEL)


def _rounds(judged: list[Battle], human: list[Battle], shape: Shape, board: Leaderboard) -> list[dict[str, Any]]:
    lines = []
    for place in range(1, shape.n_rounds + 1):
        until = len(judged) * place // shape.n_rounds
        entry = board[MODEL] if place == shape.n_rounds else _rate([*judged[:until], *human])[MODEL]
        line = {key: getattr(entry, key) for key in ("rating", "ci_low", "ci_high", "rank_low", "rank_high")}
        lines.append({"round": place, "battles": until, **line})
    return lines


def _manifest(
    shape: Shape,
    judgments: list[Judgment],
    board: Leaderboard,
    rounds: list[dict[str, Any]],
    fingerprint: str,
    n_human: int,
) -> dict[str, Any]:
    entry = board[MODEL]
    failures = [verdict.verdict for line in judgments for verdict in line.raw if not verdict.verdict.readable]
    names = {name for line in judgments for name in (line.entrant_a, line.entrant_b)} - {MODEL}
    questions = {line.prompt_id for line in judgments}
    panel = {"fingerprint": fingerprint, "sampling": "informative", "battles": len(judgments)}
    return {
        "kind": "placement",
        "arena": {
            "name": "simulated",
            "files": ["battles.parquet"],
            "sha256": {"battles.parquet": "ab" * 32},
            "human_battles": n_human,
            "models": shape.n_models - 1,
            "questions": 2500,
            "with_text": 2400,
        },
        "model": MODEL,
        "model_source": "local/kestrel-9b",
        "judge_model": JUDGE,
        "rubric": {"dimension": "helpfulness", "version": "2026-05", "sha256": "ef" * 32},
        "options": {"n_battles": shape.n_battles, "sampling": "informative", "until": "80", "fixed_anchors": False},
        "recipe": {"arena": "simulated", "model": MODEL, "judge_model": JUDGE, "sensitivity": [50.0]},
        "rate_command": None,
        "seed": shape.seed,
        "both_orders": shape.both_orders,
        "panel": {**panel, "opponents": len(names), "questions": len(questions)},
        "looks": {"planned": shape.n_rounds, "sizes": [], "critical": None, "until": "80"},
        "rounds": rounds,
        "stopped": "all planned battles were judged",
        "judged": {
            "battles": sum(line.status == "ok" for line in judgments),
            "wins": int(entry.wins),
            "losses": int(entry.losses),
            "ties": int(entry.ties),
            "inconsistent": sum(line.inconsistent for line in judgments),
            "failed": sum(line.status != "ok" for line in judgments),
            "failed_by": {str(name): failures.count(name) for name in dict.fromkeys(failures)},
            "no_answer": {},
        },
        "flips": _flips(judgments) if shape.both_orders else None,
        "calibration": None,
        "leave_one_out": None,
        "information": {"per_battle": 0.231, "limit": 0.25},
        "sensitivity": msgspec.to_builtins(sensitivity(board, MODEL, [50.0])),
        "started_at": "2026-05-02T09:00:00+00:00",
        "finished_at": "2026-05-02T09:12:30+00:00",
        "versions": {"tiltyard": "1.0.0", "python": "3.11.9"},
    }


def _flips(judgments: list[Judgment]) -> dict[str, Any]:
    both = [line for line in judgments if line.status == "ok" and len(line.raw) == 2]
    hits = sum(line.inconsistent for line in both)
    low, high = share_interval(hits, len(both)) or (0.0, 1.0)
    return {"share": hits / len(both), "low": low, "high": high, "n": len(both)}


def _left_out(contents: dict[str, Any]) -> dict[str, Any]:
    human = next(row["rating"] for row in contents["ratings"] if row["model"] == MODEL) - 31.0
    return {
        "human_rating": human,
        "human_ci_low": human - 12,
        "human_ci_high": human + 12,
        "human_battles": 900,
        "human_rank": 3,
        "error": 31.0,
        "covered": True,
    }


CALIBRATION: dict[str, Any] = {
    "asked": 300,
    "compared": 291,
    "models": 18,
    "agreement": {"value": 0.762, "low": 0.71, "high": 0.807, "n": 244},
    "flips": {"share": 0.11, "low": 0.08, "high": 0.15, "n": 291},
    "slope": 1.84,
    "slope_low": 1.52,
    "slope_high": 2.16,
    "slot_points": 14.2,
    "tau_points": 83.1,
    "floor_points": 45.2,
    "warnings": ["Only 18 models were compared: the idiosyncrasy is uncertain <itself>."],
    "variance_points2": {"sampling": 410.0, "idiosyncrasy": 2210.0, "slope": 95.0, "anchors": 38.0},
}


def _calibrated(contents: dict[str, Any]) -> dict[str, Any]:
    """The board with the model moved towards the middle and its interval widened, both readings in its entry."""
    ratings = []
    for row in contents["ratings"]:
        if row["model"] == MODEL:
            own = {f"judge_scale_{key}": row[key] for key in ("rating", "ci_low", "ci_high")}
            middle = 1000 + (row["rating"] - 1000) / CALIBRATION["slope"]
            half = 1.96 * math.sqrt(sum(CALIBRATION["variance_points2"].values()))
            row = {**row, "rating": middle, "ci_low": middle - half, "ci_high": middle + half, **own}
        ratings.append(row)
    ratings.sort(key=lambda row: -row["rating"])
    return {**contents, "ratings": [{**row, "rank": place} for place, row in enumerate(ratings, start=1)]}


def _calibration_lines(rng: np.random.Generator, skill: dict[str, float]) -> list[dict[str, Any]]:
    names = list(skill)[:18]
    winners = ("model_a", "model_b", "tie", "tie (bothbad)")
    lines = []
    for number in range(300):
        a, b = (names[i] for i in rng.choice(len(names), 2, replace=False))
        matchup = Matchup(prompt_id=f"c{number}", dimension="helpfulness", entrant_a=a, entrant_b=b)
        human = int(rng.choice(4, p=(0.4, 0.4, 0.15, 0.05)))
        lean = {0: 0.8, 1: -0.8}.get(human, 0.0) + 0.7 * rng.standard_normal()
        judgment = settle(matchup, [spoken(rng, swap, lean, number + 12) for swap in (False, True)])
        lines.append({**msgspec.to_builtins(judgment), "human_winner": winners[human], "weight": 1})
    return lines


def _usage(judgments: list[Judgment]) -> dict[str, Any]:
    verdicts = [verdict for judgment in judgments for verdict in judgment.raw]
    row = {
        "queries": len(verdicts),
        "cache_hits": 0,
        "fresh_calls": len(verdicts),
        "input_tokens": sum(verdict.input_tokens for verdict in verdicts),
        "output_tokens": sum(verdict.output_tokens for verdict in verdicts),
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 0,
        "cost_usd": 0.0041 * len(verdicts),
    }
    return {"judge_model": JUDGE, "dimensions": {"helpfulness": row}, "total": row}
