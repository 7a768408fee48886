"""The manifest: what ran, on what, with which seeds; written when a run starts and completed when it ends."""

from __future__ import annotations

import platform
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from tiltyard.bank import responses_path
from tiltyard.files import file_sha256
from tiltyard.tournament.counts import failed_questions, own_counts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tiltyard.judging.judge import JudgingResult
    from tiltyard.tournament.plan import RunPlan
    from tiltyard.tournament.standings import DimensionRatings

MOST_NAMED = 20
"""How many failed questions of a dimension the manifest names; the verdicts have them all."""


def manifest(
    plan: RunPlan, *, started_at: str, finished_at: str | None, results: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """The manifest of a run; `results` is what only the end knows."""
    from tiltyard import __version__

    setup, matches = plan.setup, plan.matches
    return {
        **({"note": setup.config.note} if setup.config.note else {}),
        "mode": plan.options.mode,
        "config_path": str(setup.path),
        "judge_model": plan.judge_model,
        "entrants": list(setup.entrant_ids),
        "dimensions": [rubric.dimension for rubric in plan.rubrics],
        "bank_size": len(plan.bank),
        "selected_prompt_count": len(plan.selected),
        "n_perms": plan.elo.n_perms,
        "shuffle_seed": plan.elo.shuffle_seed,
        "pilot_seed": setup.config.prompts.pilot_seed,
        "started_at": started_at,
        "finished_at": finished_at,
        "limit_pairs": plan.options.limit_pairs,
        "skip_judging": plan.options.skip_judging,
        "selected_prompts": [prompt.prompt_id for prompt in plan.selected],
        "pairs": {dimension: len(cases) for dimension, cases in matches.by_dimension.items()},
        "cells": {"present": matches.cells_present, "expected": matches.cells_expected},
        "dropped": {
            "prompts_without_every_answer": list(matches.dropped_prompts),
            "answers_missing": dict(matches.missing_cells),
            "prompts_without_gold_answer": dict(matches.without_gold),
        },
        "rubric_versions": {rubric.dimension: rubric.version for rubric in plan.rubrics},
        "sha256": _hashes(plan),
        "versions": {"tiltyard": __version__, "python": platform.python_version()},
        "results": dict(results) if results is not None else None,
    }


def run_results(judged: JudgingResult, standings: Mapping[str, DimensionRatings]) -> dict[str, Any]:
    """What the end of a run knows: judgments, failures and battles per dimension."""
    rows: dict[str, Any] = {}
    for dimension, standing in standings.items():
        counts = own_counts(judged, dimension)
        settled = sum(pair.a_wins + pair.b_wins + pair.ties for pair in standing.pairs)
        rows[dimension] = {
            "judgments": counts.judgments,
            "settled": settled,
            "decisive": standing.n_decisive,
            "inconsistent": sum(pair.inconsistent for pair in standing.pairs),
            "failed_verdicts": dict(counts.failed_verdicts),
            "missing_verdicts": counts.missing_verdicts,
            "failed_questions": [asdict(one) for one in failed_questions(judged, dimension, most=MOST_NAMED)],
            "bradley_terry": "ok" if standing.board is not None else standing.board_missing,
        }
    return rows


def _hashes(plan: RunPlan) -> dict[str, Any]:
    setup = plan.setup
    return {
        "config": file_sha256(setup.path),
        "bank": file_sha256(setup.bank_path),
        "rubrics": {dimension: file_sha256(path) for dimension, path in setup.rubric_paths.items()},
        "responses": {name: file_sha256(responses_path(setup.responses_dir, name)) for name in setup.entrant_ids},
    }
