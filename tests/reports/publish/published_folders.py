"""Helpers for published folders: a small world of battles, and how to change what is in a folder."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from tiltyard.arena import Finding, KeptProof
from tiltyard.reports.publish import check_folder

NASTY = "</script><img src=x onerror=alert(1)>/../..\\\x07"


def world(battles: int = 180, models: int = 4, **more: Any) -> list[dict[str, Any]]:
    """Votes and verdicts on models of known strengths, with prompts, categories, languages, days and ties."""
    rng = np.random.default_rng(7)
    names = [NASTY, *(f"model {i}" for i in range(1, models))]
    rows = []
    for i in range(battles):
        a, b = rng.choice(models, 2, replace=False).tolist()
        won = rng.random() < 1.0 / (1.0 + np.exp(0.4 * (a - b)))
        winner = (
            "tie" if rng.random() < 0.15 else "tie (bothbad)" if rng.random() < 0.04 else f"model_{'a' if won else 'b'}"
        )
        rows.append(
            {
                "model_a": names[a],
                "model_b": names[b],
                "winner": winner,
                "source": ("human", "llm-judge")[i % 3 == 0],
                "question_id": f"q{i % 12}",
                "voter": f"person{i % 25}@example.org",
                "category": ("code", "chat", "a <b> & 'c'")[int(rng.integers(3))],
                "language": ("en", "de")[i % 2],
                "timestamp": 1_700_000_000 + 86_400 * (i % 30),
                **more,
            }
        )
    return rows


def plain(battles: int = 90, models: int = 3) -> list[dict[str, Any]]:
    """The same without categories and languages: a folder with no boards but one, and few pages."""
    rows = world(battles, models)
    return [{key: row[key] for key in row.keys() - {"category", "language"}} for row in rows]


def write_rows(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def check(folder: Path, *besides: str) -> Finding:
    return check_folder(folder, besides, KeptProof())


def changed(folder: Path, name: str, change: Callable[[bytes], bytes], *, rehash: bool = True) -> None:
    """Change a file of a folder, and unless told otherwise its hash in the manifest."""
    path, manifest = folder / name, folder / "published.json"
    before = path.read_bytes()
    path.write_bytes(change(before))
    assert path.read_bytes() != before
    if rehash:
        said = json.loads(manifest.read_bytes())
        data = path.read_bytes()
        said["files"][name] = {"sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data)}
        manifest.write_text(json.dumps(said), encoding="utf-8")


def made_anew(folder: Path) -> None:
    """Write into the manifest the hashes of all files as they are, of new ones and without those that are gone."""
    manifest = folder / "published.json"
    said = json.loads(manifest.read_bytes())
    data = {name: data for name, data in everything(folder).items() if name != "published.json"}
    said["files"] = {
        name: {"sha256": hashlib.sha256(data[name]).hexdigest(), "bytes": len(data[name])} for name in sorted(data)
    }
    manifest.write_bytes(msgspec.json.format(msgspec.json.encode(said), indent=1) + b"\n")


def everything(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
