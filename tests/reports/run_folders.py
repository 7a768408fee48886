"""What the tests of the report share: a run folder as a tournament writes it, from a simulated judge."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from tiltyard.data.bank import Prompt, Response
from tiltyard.files import write_json
from tiltyard.judge.tournament.artifacts import write_matches, write_standings, write_verdicts
from tiltyard.judge.tournament.config import EloSettings
from tiltyard.judge.tournament.plan import MatchList, build_matches
from tiltyard.judge.tournament.ratings import rate_dimension
from tiltyard.judge.verdicts import Judgment, Rubric, Verdict, VerdictLabel, settle

ENTRANTS = ("heron-8b", "otter-70b", "ibis-mini", "crane-base")
STRENGTH = {"heron-8b": 0.5, "otter-70b": 1.0, "ibis-mini": 0.2, "crane-base": -0.6}
SOURCES = ("medqa", "livecheck", "forum")
JUDGE = "anthropic/judge-large"
SPEECH = """the answer names a cause and then gives evidence for it while the other hedges without need so a careful
reader learns more from one than from both dose interval river trial measured claim source because however therefore"""
WORDS = SPEECH.split()

SCRIPT = "<script>alert('from an answer')</script><img src=x onerror=alert(1)></div></article></main>"
UNICODE = "Ünïcödé ⚖️ 漢字 Ελληνικά 👩‍🔬 \u202eright to left override\u202c and a bell \x07 and a null \x00."
RTL = "الجواب الصحيح هو أن الماء يغلي عند مئة درجة. שלום עולם (ABC) 123."
MARKDOWN = "# Heading\n\n- **bold** [a link](https://example.org/x)\n\n```html\n<b>not bold</b>\n```\n| a | b |\n"
LONG = "An answer without an end. " * 500
WIDE = "unbreakable" * 60
NASTY = (SCRIPT, UNICODE, RTL, MARKDOWN, LONG, WIDE, "", "\n\n  leading and trailing space  \n")


def make_run(
    folder: Path,
    *,
    n_prompts: int = 30,
    entrants: tuple[str, ...] = ENTRANTS,
    dimensions: tuple[str, ...] = ("factuality", "clarity"),
    seed: int = 7,
    answer_words: int = 120,
    judge_words: int = 90,
    mode: str = "headline",
) -> Path:
    """A finished run folder: ties, inconsistent judgments, failures of every name, and texts that try to break out."""
    rng = np.random.default_rng(seed)
    prompts = _prompts(rng, n_prompts)
    matches = _matches(rng, prompts, entrants, dimensions, answer_words)
    settings = EloSettings(n_perms=60)
    standings, verdicts = {}, {}
    for dimension in dimensions:
        judgments = _judgments(rng, matches, dimension, judge_words)
        write_verdicts(folder, dimension, judgments)
        standings[dimension] = rate_dimension(dimension, judgments, settings, JUDGE)
        verdicts[dimension] = [verdict for judgment in judgments for verdict in judgment.raw]
    write_matches(folder, matches)
    write_standings(folder, standings, settings.default_k)
    write_json(folder / "usage.json", _usage(verdicts))
    write_json(folder / "manifest.json", _manifest(mode, entrants, dimensions, prompts, settings, standings))
    return folder


@functools.cache
def _sentence_bank(seed: int) -> tuple[str, ...]:
    rng = np.random.default_rng(seed)
    return tuple(" ".join(rng.choice(WORDS, 12)).capitalize() + "." for _ in range(200))


def _text(rng: np.random.Generator, words: int) -> str:
    bank = _sentence_bank(1)
    chosen = [bank[i] for i in rng.integers(len(bank), size=max(1, words // 12))]
    return "\n\n".join(" ".join(chosen[i : i + 4]) for i in range(0, len(chosen), 4))


def _prompts(rng: np.random.Generator, n: int) -> list[Prompt]:
    return [
        Prompt(
            prompt_id=f"q{number:03d}" if number else 'q"0&<odd>',
            text=NASTY[number % 6] if number < 4 else f"Question {number}: {_text(rng, 24)}",
            source=SOURCES[number % 3] if number % 11 else "",
            subject="pharmacology" if number % 2 else None,
            gold_answer=f"gold answer {number}" if number % 5 else "<b>gold</b>",
            expected_behavior="hedge" if number % 7 == 0 else None,
        )
        for number in range(n)
    ]


def _matches(
    rng: np.random.Generator, prompts: list[Prompt], entrants: tuple[str, ...], dimensions: tuple[str, ...], words: int
) -> MatchList:
    def answer(place: int, number: int) -> str:
        if number < len(NASTY) and place == number % len(entrants):
            return NASTY[number]
        return _text(rng, int(words * (0.5 + rng.random())))

    answers = {
        name: {
            prompt.prompt_id: Response(entrant_id=name, prompt_id=prompt.prompt_id, response_text=answer(place, number))
            for number, prompt in enumerate(prompts)
        }
        for place, name in enumerate(entrants)
    }
    rubrics = [Rubric(dimension=name, version="2026-05", text="Judge.") for name in dimensions]
    return build_matches(prompts, answers, entrants, rubrics)


def _judgments(rng: np.random.Generator, matches: MatchList, dimension: str, words: int) -> list[Judgment]:
    rows = []
    for number, match in enumerate(matches.by_dimension[dimension]):
        lead = STRENGTH.get(match.matchup.entrant_a, 0.0) - STRENGTH.get(match.matchup.entrant_b, 0.0)
        lead += 0.8 * rng.standard_normal()
        heard = [spoken(rng, swap, lead, number, words) for swap in (False, True)]
        rows.append(settle(match.matchup, heard[:1] if number == 50 else heard))
    return rows


def spoken(rng: np.random.Generator, swap: bool, lead: float, number: int, words: int = 60) -> Verdict:
    """One verdict of the simulated judge; some of those on swapped sides fail."""
    leaning = (-lead if swap else lead) + 0.25 + 0.4 * rng.standard_normal()
    said = VerdictLabel.TIE if abs(leaning) < 0.25 else (VerdictLabel.A if leaning > 0 else VerdictLabel.B)
    failures = {11: VerdictLabel.UNPARSED, 23: VerdictLabel.TRUNCATED, 37: VerdictLabel.REFUSED, 41: VerdictLabel.ERROR}
    failed = failures.get(number % 97) if swap else None
    text = NASTY[number % len(NASTY)] if number < 12 else _text(rng, words)
    return Verdict(
        cache_key=f"{number:08x}{int(swap)}",
        rubric_version="2026-05",
        judge_model=JUDGE,
        position_swap=swap,
        verdict=failed or said,
        reasoning="" if failed is VerdictLabel.ERROR else f"{text}\nVERDICT: {said}",
        timestamp="2026-05-02T10:00:00+00:00",
        input_tokens=int(rng.integers(300, 900)),
        output_tokens=int(rng.integers(80, 200)),
        cache_read_input_tokens=1200,
        attempts=3 if failed else 1,
        error="the <server> said 500" if failed is VerdictLabel.ERROR else None,
    )


def _usage(verdicts: dict[str, list[Verdict]]) -> dict[str, Any]:
    rows = {
        dimension: {
            "queries": len(heard),
            "cache_hits": 0,
            "fresh_calls": len(heard),
            "input_tokens": sum(verdict.input_tokens for verdict in heard),
            "output_tokens": sum(verdict.output_tokens for verdict in heard),
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": sum(verdict.cache_read_input_tokens for verdict in heard),
            "cost_usd": 0.0123 * len(heard),
        }
        for dimension, heard in verdicts.items()
    }
    total = {key: sum(row[key] for row in rows.values()) for key in next(iter(rows.values()))}
    return {"judge_model": JUDGE, "dimensions": rows, "total": total}


def _manifest(
    mode: str,
    entrants: tuple[str, ...],
    dimensions: tuple[str, ...],
    prompts: list[Prompt],
    settings: EloSettings,
    standings: dict[str, Any],
) -> dict[str, Any]:
    kinds = ("known answer", "constant answer", "instructs the judge")
    return {
        "mode": mode,
        "config_path": "tournament.yaml",
        "judge_model": JUDGE,
        "entrants": list(entrants),
        "dimensions": list(dimensions),
        "bank_size": len(prompts) + 2,
        "selected_prompt_count": len(prompts) + 2,
        "n_perms": settings.n_perms,
        "shuffle_seed": settings.shuffle_seed,
        "pilot_seed": 20260427,
        "started_at": "2026-05-02T09:00:00+00:00",
        "finished_at": "2026-05-02T11:30:00+00:00",
        "limit_pairs": None,
        "skip_judging": False,
        "selected_prompts": [prompt.prompt_id for prompt in prompts],
        "dropped": {
            "prompts_without_every_answer": ["q900", "q901"],
            "answers_missing": {"crane-base": 2},
            "prompts_without_gold_answer": {"factuality": 3},
        },
        "sha256": {"config": "ab" * 32, "bank": "cd" * 32, "rubrics": dict.fromkeys(dimensions, "ef" * 32)},
        "versions": {"tiltyard": "1.0.0", "python": "3.11.9"},
        "results": {
            "dimensions": {
                name: {
                    "judgments": len(standing.battles),
                    "decisive": standing.n_decisive,
                    "failed_verdicts": {"unparsed": 1},
                    "bradley_terry": "ok" if standing.board else standing.board_missing,
                    "habits": msgspec.to_builtins(standing.habits),
                }
                for name, standing in standings.items()
            },
            "canaries": {
                name: {
                    "asked": 9,
                    "right": 8,
                    "missed": [{"canary": "canary-odd", "kind": kinds[2], "answer": "the bad answer in both orders"}],
                    "kinds": [
                        {"kind": kind, "asked": 3, "right": 3 - odd, "fooled": odd, "undecided": 0, "failed": 0}
                        for kind, odd in zip(kinds, (0, 0, 1), strict=True)
                    ],
                }
                for name in dimensions
            },
        }
        | (
            {"gate": [{"check": "answers complete", "passed": False, "detail": "118 of 120 cells"}]}
            if mode == "pilot"
            else {}
        ),
    }
