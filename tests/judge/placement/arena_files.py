"""Synthetic arenas in the shapes that real ones are published in, with answers whose quality can be seen.

Every answer carries its quality as `[quality 0.7312]`, a number that grows with the strength of its model: utility is
strength (in logits) plus Gumbel noise, quality is its logistic function. The voters prefer the better answer, so their
votes follow Bradley–Terry with these strengths, ties apart; a scripted judge that compares qualities is right.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np

Style = Literal["lmarena", "parts", "json-string", "comparia"]

TIE_WIDTH = 0.15
"""Utilities closer than this (in logits) are a tie."""
BAD_QUALITY = 0.02
"""Two answers below this are both bad."""
QUALITY = re.compile(r"\[quality (\d\.\d+)\]")


@dataclass(frozen=True)
class WrittenArena:
    """A file, the strength of each model in logits, and the rows as they were written."""

    path: Path
    strengths: dict[str, float]
    rows: list[dict[str, Any]]


def spread(models: Sequence[str], width: float = 3.0) -> dict[str, float]:
    """Strengths in logits, evenly spread around 0; the first model is the strongest."""
    return dict(zip(models, np.linspace(width / 2, -width / 2, len(models)).tolist(), strict=True))


def quality_of(answer: str) -> float:
    """The quality that an answer shows (of its last turn)."""
    return float(QUALITY.findall(answer)[-1])


def quality(strength: float, *, seed: int, question: int, model: int) -> float:
    """How good the answer of one model to one question is; the same whenever it is asked again."""
    noise = np.random.default_rng([seed, question, model]).gumbel()
    return float(round(1.0 / (1.0 + math.exp(-(strength + noise))), 4))


def answer_text(model_quality: float, question: int, turn: int = 1) -> str:
    """An answer that shows its quality."""
    return f"Answer to question {question}, turn {turn}. [quality {model_quality:.4f}] " + "So it is. " * (question % 7)


def write_arena(
    path: Path,
    *,
    models: Mapping[str, float] | Sequence[str],
    rows: int,
    seed: int = 0,
    languages: Sequence[str] = ("en",),
    turns: int = 1,
    style: Style = "lmarena",
    rows_per_question: int = 1,
) -> WrittenArena:
    """Write an arena of `rows` votes; the name of the file says how (jsonl, csv, each also gz, or parquet).

    `models` are strengths in logits by name, or names to be spread evenly. Each question is asked in
    `rows_per_question` rows, with other pairs of models and the same answer wherever a model meets it again.
    """
    strengths = dict(models) if isinstance(models, Mapping) else spread(models)
    rng = np.random.default_rng(seed)
    table = []
    for at in range(rows):
        question = at // rows_per_question
        a, b = rng.choice(len(strengths), 2, replace=False).tolist()
        table.append(_row(question, (a, b), strengths, seed, languages, turns, style))
    write_rows(path, table)
    return WrittenArena(path, strengths, table)


def _row(
    question: int,
    pair: tuple[int, int],
    strengths: Mapping[str, float],
    seed: int,
    languages: Sequence[str],
    turns: int,
    style: Style,
) -> dict[str, Any]:
    names = list(strengths)
    seen = [quality(strengths[names[model]], seed=seed, question=question, model=model) for model in pair]
    talks = [conversation(question, shown, turns, style) for shown in seen]
    language = languages[question % len(languages)]
    winner = _winner(*seen)
    model_a, model_b = (names[model] for model in pair)
    if style == "comparia":
        return {
            "conversation_pair_id": f"q{question}",
            "timestamp": f"2025-03-01T12:{question // 60 % 60:02d}:{question % 60:02d}",
            "model_a_name": model_a,
            "model_b_name": model_b,
            "chosen_model_name": {"model_a": model_a, "model_b": model_b}.get(winner),
            "both_equal": winner not in ("model_a", "model_b"),
            "opening_msg": prompt_text(question),
            "conversation_a": talks[0],
            "conversation_b": talks[1],
            "languages": [language],
        }
    return {
        "question_id": f"q{question}",
        "model_a": model_a,
        "model_b": model_b,
        "winner": winner,
        "conversation_a": talks[0],
        "conversation_b": talks[1],
        "turn": turns,
        "language": language,
    }


def prompt_text(question: int, turn: int = 1) -> str:
    """What is asked in one turn of one question."""
    return f"Question {question}?" if turn == 1 else f"And what of part {turn} of question {question}?"


def conversation(question: int, shown_quality: float, turns: int, style: Style) -> Any:
    """One side's conversation in a style."""
    messages: list[dict[str, Any]] = []
    for turn in range(1, turns + 1):
        messages.append({"role": "user", "content": prompt_text(question, turn)})
        messages.append({"role": "assistant", "content": answer_text(shown_quality, question, turn)})
    if style == "parts":
        return [message | {"content": [_part(message["content"])]} for message in messages]
    return json.dumps(messages) if style == "json-string" else messages


def _part(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text, "image": None, "mimeType": None}


def _winner(quality_a: float, quality_b: float) -> str:
    if max(quality_a, quality_b) < BAD_QUALITY:
        return "both_bad"
    lead = _logit(quality_a) - _logit(quality_b)
    return "tie" if abs(lead) < TIE_WIDTH else "model_a" if lead > 0 else "model_b"


def _logit(share: float) -> float:
    share = min(max(share, 1e-4), 1 - 1e-4)
    return math.log(share / (1 - share))


def write_rows(path: Path, rows: Sequence[Mapping[str, Any]]) -> Path:
    """Write rows as they are, with nothing of Tiltyard."""
    name = path.name.removesuffix(".gz")
    columns = list(dict.fromkeys(key for row in rows for key in row))
    if name.endswith(".parquet"):
        import polars

        frame = {key: [row.get(key) for row in rows] for key in columns}
        polars.DataFrame(frame, strict=False).write_parquet(path)
        return path
    if name.endswith(".jsonl"):
        content = msgspec.json.Encoder().encode_lines(rows)
    else:
        text = io.StringIO()
        writer = csv.DictWriter(text, columns)
        writer.writeheader()
        writer.writerows(rows)
        content = text.getvalue().encode()
    path.write_bytes(gzip.compress(content, mtime=0) if path.name.endswith(".gz") else content)
    return path
