"""Ratings as records of Every Eval Ever, a shared format of evaluation results: one file for each model.

The format (version 0.3.0) is that of https://github.com/evaleval/every_eval_ever: `data/<evaluation>/<developer>/
<model>/<uuid>.json`, with who evaluated, by what metric, the score and its uncertainty. A rating has no smallest or
largest value: its range is infinite, which the format spells as texts. How a model was served and whether its weights
are open is not in the battles, so both are `unknown`.
"""

from __future__ import annotations

import hashlib
import json
import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from msgspec import UNSET

from tiltyard.analysis.boards.leaderboard import RatingEntry, RatingsFile
from tiltyard.analysis.boards.record import BoardSettings, IntervalFacts
from tiltyard.errors import OptionError
from tiltyard.files import json_text, write_text
from tiltyard.options import check_choice

SCHEMA_VERSION = "0.3.0"
Relationship = Literal["first_party", "third_party", "collaborative", "other"]
RELATIONSHIPS: tuple[Relationship, ...] = ("first_party", "third_party", "collaborative", "other")
NAMES = {
    "bt": ("Bradley–Terry rating", "points"),
    "elo": ("Elo rating", "points"),
    "elo-perm": ("Elo rating averaged over shuffles", "points"),
    "glicko2": ("Glicko-2 rating", "points"),
    "winrate": ("share of decisive battles won", "proportion"),
}
UNKNOWN = "unknown"
CONTINUOUS = {"lower_is_better": False, "score_type": "continuous"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluator:
    """Who evaluated, and what the evaluation is called.

    Parameters:
        evaluation: Name of the evaluation: the first folder below `data/`.
        organization: Who publishes the results.
        relationship: How it stands to the models' makers: `first_party`, `third_party`, `collaborative` or `other`.
        developer: Who made models whose name does not say it (`developer/model` does).
        hf_repo: The data set of the battles on the Hugging Face hub, where there is one.
    """

    evaluation: str
    organization: str
    relationship: Relationship = "third_party"
    developer: str = UNKNOWN
    hf_repo: str | None = None

    def __post_init__(self) -> None:
        check_choice("relationship", self.relationship, RELATIONSHIPS)
        for name in ("evaluation", "organization", "developer"):
            if not getattr(self, name).strip():
                raise OptionError(f"{name} is empty: the record has to say it.")


def write_eval_records(
    folder: str | Path,
    reports: Mapping[str, RatingsFile],
    by: Evaluator,
    *,
    retrieved_at: float,
    when: str | None = None,
) -> list[Path]:
    """Write one record for each model, and say where they are. The same ratings at the same time give the same files.

    Parameters:
        folder: Where `data/…` is made.
        reports: Ratings by the name of what was judged; a name that is empty means the evaluation itself.
        by: Who evaluated.
        retrieved_at: The time of the record, in seconds since 1970.
        when: When the evaluation was run, where that is known.
    """
    written = []
    models = dict.fromkeys(entry.model for report in reports.values() for entry in report.ratings)
    for model in models:
        record = eval_record(model, reports, by, retrieved_at=retrieved_at, when=when)
        text = json_text(record)
        name = uuid.UUID(bytes=hashlib.sha256(text.encode()).digest()[:16], version=4)
        parts = [_folder(part) for part in (by.evaluation, *_developer_and_name(model, by))]
        path = Path(folder).joinpath("data", *parts, f"{name}.json")
        write_text(path, text)
        written.append(path)
    return written


def eval_record(
    model: str, reports: Mapping[str, RatingsFile], by: Evaluator, *, retrieved_at: float, when: str | None = None
) -> dict[str, Any]:
    """The record of one model, as plain values; the parameters are those of `write_eval_records`."""
    from tiltyard import __version__

    developer, name = _developer_and_name(model, by)
    results = []
    for title, report in reports.items():
        for entry in report.ratings:
            if entry.model == model:
                results += _results(title or by.evaluation, report, entry, by)
    return {
        "schema_version": SCHEMA_VERSION,
        "evaluation_id": f"{by.evaluation}/{developer}_{name}/{retrieved_at}",
        **({"evaluation_timestamp": when} if when else {}),
        "retrieved_timestamp": str(retrieved_at),
        "source_metadata": {
            "source_name": by.evaluation,
            "source_type": "evaluation_run",
            "source_organization_name": by.organization,
            "evaluator_relationship": by.relationship,
        },
        "eval_library": {"name": "tiltyard", "version": __version__},
        "model_info": {
            "name": model,
            "id": f"{developer}/{name}",
            "developer": developer,
            "additional_details": {"deployment_type": UNKNOWN, "model_availability": UNKNOWN},
        },
        "evaluation_results": results,
    }


def _results(title: str, report: RatingsFile, entry: RatingEntry, by: Evaluator) -> list[dict[str, Any]]:
    """The rating with its interval, and the share of battles won, ties half, where there are any."""
    method = report.settings.method or "bt"
    metric, unit = NAMES.get(method, (method, "points"))
    source = {"dataset_name": by.evaluation, "source_type": "other"}
    if by.hf_repo is not None:
        source |= {"source_type": "hf_dataset", "hf_repo": by.hf_repo}

    def result(about: dict[str, Any], score: dict[str, Any]) -> dict[str, Any]:
        return {"evaluation_name": title, "source_data": source, "metric_config": about, "score_details": score}

    decided = f"by {report.judge_model}" if report.judge_model else "by people or judges"
    share = unit == "proportion"
    differences = "" if share else "; only differences mean something"
    details = {
        "judge_model": report.judge_model,
        "battles_sha256": report.settings.battles_sha256 or None,
        "models_on_the_board": len(report.ratings),
        "remarks": " ".join(report.remarks) or None,
    }
    rating = result(
        {
            "evaluation_description": f"{metric}, from pairwise battles decided {decided}{differences}",
            "metric_id": f"tiltyard.{method}",
            "metric_name": metric,
            "metric_kind": "win_rate" if share else "elo",
            "metric_unit": unit,
            "metric_parameters": _parameters(report.settings),
            **CONTINUOUS,
            "min_score": 0.0 if share else "-Infinity",
            "max_score": 1.0 if share else "Infinity",
            "additional_details": _texts(details),
        },
        {"score": entry.rating, "details": _details(entry), **_uncertainty(report, entry)},
    )
    battles = entry.wins + entry.losses + entry.ties
    if share or not battles:
        return [rating]
    won = {
        "evaluation_description": "share of battles won against whom it met, ties half",
        "metric_id": "tiltyard.score",
        "metric_name": "score",
        "metric_kind": "win_rate",
        "metric_unit": "proportion",
        **CONTINUOUS,
        "min_score": 0.0,
        "max_score": 1.0,
    }
    return [rating, result(won, {"score": (entry.wins + entry.ties / 2) / battles})]


def _uncertainty(report: RatingsFile, entry: RatingEntry) -> dict[str, Any]:
    if entry.ci_low is None or entry.ci_high is None:
        return {}
    interval = report.settings.interval or IntervalFacts(kind="interval")
    how, cluster, level = interval.kind, interval.cluster, interval.level
    return {
        "uncertainty": {
            "confidence_interval": {
                "lower": entry.ci_low,
                "upper": entry.ci_high,
                **({"confidence_level": level} if level else {}),
                "method": f"{how}, clustered by {cluster}" if cluster else how,
            },
            "num_samples": round(entry.n_battles),
            **({"num_bootstrap_samples": report.n_bootstraps} if report.n_bootstraps else {}),
        }
    }


def _details(entry: RatingEntry) -> dict[str, str]:
    names = ("rank", "rank_low", "rank_high", "wins", "losses", "ties", "both_bad", "note")
    return _texts({name: getattr(entry, name) for name in names})


def _parameters(settings: BoardSettings) -> dict[str, Any]:
    """What the metric was computed with: single values only."""
    names = ("tie_model", "both_bad", "inconsistent", "scale", "k", "initial_rating", "tau", "n_perms")
    result = {name: getattr(settings, name) for name in names if getattr(settings, name) is not UNSET}
    return {**result, **({"anchor": settings.anchor.model} if settings.anchor else {})}


def _texts(values: Mapping[str, Any]) -> dict[str, str]:
    """The values that there are, as texts: the format allows no others here."""
    return {
        name: value if isinstance(value, str) else json.dumps(value)
        for name, value in values.items()
        if value is not None
    }


def _developer_and_name(model: str, by: Evaluator) -> tuple[str, str]:
    developer, slash, name = model.partition("/")
    return (developer, name) if slash and developer and name else (by.developer, model)


def _folder(name: str) -> str:
    """A name as one folder, on every system."""
    plain = re.sub(r"[^\w.+-]+", "_", name).strip("._")
    return plain[:120] or "unnamed"
