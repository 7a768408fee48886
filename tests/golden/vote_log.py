"""A log of 5,000 votes, made of nothing but Python's own generator: what an arena's events look like as JSON."""

from __future__ import annotations

import math
from random import Random
from typing import Any

VOTES = 5_000
MODELS = [f"model-{letter}" for letter in "abcdefghijkl"]
PROMPTS = [f"p{number:02d}" for number in range(15)]
SECOND = 1_000_000
DAY = 86_400 * SECOND
DAYS = 10
LANES = ("coverage", "contender", "uncertainty", "exploration")

Logged = tuple[int, dict[str, Any]]
"""Microseconds since the arena began, and the event."""


def vote_log() -> list[Logged]:
    """Twelve models, a late one among them, 15 prompts, 400 voters; skips, undone and excluded votes, two phases."""
    rng = Random(20_260_101)
    log: list[Logged] = [(0, {"kind": "phase_changed", "phase": 3})]
    log += [(0, _model(model)) for model in MODELS]
    for number, prompt in enumerate(PROMPTS):
        subject = ("sums", "letters", "maps")[number % 3]
        log.append(
            (0, {"kind": "prompt_added", "prompt_id": prompt, "text": f"Question {number}?", "subject": subject})
        )
        log += [(0, _answer(model, prompt)) for model in MODELS]
    for number in range(VOTES):
        log += _matchup(rng, number)
    late = [event["matchup_id"] for _, event in log if event["kind"] == "voted"][-400:-360]
    end = log[-1][0] + SECOND
    log += [
        (end, {"kind": "flagged", "subject": "voter", "subject_id": "voter-007", "flag": "fast", "detail": "30 of 40"}),
        (end, {"kind": "excluded", "matchup_ids": late, "reason": "fast"}),
        (end, {"kind": "restored", "matchup_ids": late[:5], "reason": "looked at again"}),
        (end, {"kind": "prompt_disabled", "prompt_id": "p14"}),
        (end, {"kind": "phase_changed", "phase": 4}),
    ]
    return log


def _model(model: str) -> dict[str, Any]:
    return {"kind": "model_added", "model": model, "display_name": model.title(), "provider": "A maker"}


def _answer(model: str, prompt: str) -> dict[str, Any]:
    text = f"An answer to {prompt}." + " More." * (MODELS.index(model) % 4)
    name = f"{model}/{prompt}"
    return {"kind": "response_added", "response_id": name, "model": model, "prompt_id": prompt, "text": text}


def _matchup(rng: Random, number: int) -> list[Logged]:
    """A vote on two models, now and then after a skipped matchup or before it is undone."""
    at = (number + 1) * (DAYS * DAY // VOTES)
    skipped = [_served(rng, f"s{number:06d}", at), (at + SECOND, {"kind": "skipped", "matchup_id": f"s{number:06d}"})]
    served, name = _served(rng, f"m{number:06d}", at + 2 * SECOND), f"m{number:06d}"
    voted: dict[str, Any] = {"kind": "voted", "matchup_id": name, "choice": _choice(rng, served[1])}
    seen = at + 20 * SECOND
    rare = rng.random()
    events = [*(skipped if rare < 0.02 else ()), served]
    if 0.02 <= rare < 0.04:
        voted["undo_until"] = seen + 60 * SECOND
        events.append((seen, voted))
        return [*events, (seen + 5 * SECOND, {"kind": "undone", "matchup_id": name})]
    if 0.04 <= rare < 0.14:
        voted["undo_until"] = seen + 60 * SECOND
        events.append((seen, voted))
        return [*events, (seen + 5 * SECOND, {"kind": "revealed", "matchup_id": name})]
    return [*events, (seen, voted)]


def _served(rng: Random, name: str, at: int) -> Logged:
    late = at < DAYS * DAY // 2  # the last model comes when half of the time is over
    a = int(rng.random() * (len(MODELS) - late))
    b = (a + 1 + int(rng.random() * (len(MODELS) - late - 1))) % (len(MODELS) - late)
    prompt = PROMPTS[int(rng.random() * len(PROMPTS))]
    lane = LANES[min(3, int(rng.random() ** 1.5 * 4))]
    voter = f"voter-{int(rng.random() ** 2 * 400):03d}"
    return at, {
        "kind": "matchup_served",
        "matchup_id": name,
        "voter": voter,
        "prompt_id": prompt,
        "model_a": MODELS[a],
        "model_b": MODELS[b],
        "response_a": f"{MODELS[a]}/{prompt}",
        "response_b": f"{MODELS[b]}/{prompt}",
        "lane": lane,
        "reason": "a fixed log",
        "probability": 0.01,
        "seed": 0,
        "expires_at": at + 7200 * SECOND,
        "block": f"block-{int(voter[-3:]) % 90:02d}",
    }


def _choice(rng: Random, served: dict[str, Any]) -> str:
    strength = [MODELS.index(served[side]) * -45.0 for side in ("model_a", "model_b")]
    kind = rng.random()
    if kind < 0.13:
        return "BOTH_BAD" if kind < 0.05 else "TIE"
    return "A" if rng.random() < 1.0 / (1.0 + math.pow(10.0, (strength[1] - strength[0]) / 400.0)) else "B"
