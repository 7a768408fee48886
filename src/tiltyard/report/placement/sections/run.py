"""The bottom of the page: what was left out, how to reproduce the numbers, and the manifest."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from tiltyard.boards.text import count_text
from tiltyard.pages.markup import Html, el, pairs
from tiltyard.report.placement.folder import Placement
from tiltyard.report.sections.run import fact, words

ELSEWHERE = (
    *("kind", "looks", "rounds", "stopped", "judged", "flips", "calibration", "leave_one_out", "information"),
    *("sensitivity", "families"),
)
"""Parts of the manifest that have their own sections."""

RATE_DEFAULTS = {"--ties": "davidson", "--both-bad": "separate", "--inconsistent": "tie"}


def left_out_section(placed: Placement) -> Html:
    """Every battle that is in no rating, with the reason."""
    lines = [f"{count_text(count)} × {reason}" for reason, count in placed.board.left_out.items()]
    failed = placed.manifest.judged.failed
    if failed:
        named = ", ".join(f"{count} {name}" for name, count in placed.manifest.judged.failed_by.items())
        lines.append(f"{failed:,} judged battles that failed" + (f" ({named})" if named else ""))
    body = el("ul", *[el("li", line) for line in lines]) if lines else el("p", "Nothing.", class_="note")
    return el("section", el("h2", "What was left out"), body, id="left-out")


def rate_command(placed: Placement) -> str:
    """The command that fits the recorded battles again with the recorded parameters."""
    report = placed.report
    interval = report.details.get("interval") or {}
    parts = ["tiltyard", "rate", "battles.jsonl", "--evaluated", placed.model]
    kind = str(interval.get("kind") or "none")
    parts += ["--ci", kind]
    if kind == "bootstrap":
        parts += ["--rounds", str(report.n_bootstraps), "--seed", str(report.seed)]
    if interval.get("level") not in (None, 0.95):
        parts += ["--level", f"{interval['level']:g}"]
    recorded = {option: report.details.get(_key(option)) for option in RATE_DEFAULTS}
    for option, value in recorded.items():
        if value is not None and value != RATE_DEFAULTS[option]:
            parts += [option, str(value)]
    anchor = report.details.get("anchor")
    if anchor:
        parts += ["--anchor", f"{anchor['model']}={anchor['rating']:g}"]
    return shlex.join(parts)


def _key(option: str) -> str:
    return {"--ties": "tie_model"}.get(option, option.removeprefix("--").replace("-", "_"))


def recompute_section(placed: Placement) -> Html:
    """The two commands that rebuild the numbers from the files of this folder alone."""
    whole = "tiltyard place --recompute ."
    special = _special(placed)
    inline = placed.manifest.options.get("inline_human", True)
    commands = [whole, rate_command(placed)] if inline else [whole]
    if special:
        said = f"This placement {special}: the first command reproduces its numbers"
        said += ", the second fits the judge’s battles and people’s together." if inline else "."
    else:
        said = "Either reproduces the ratings on this page." if inline else "It reproduces the ratings on this page."
    return el(
        "section",
        el("h2", "How to reproduce it"),
        el("p", "Run in this folder; no model is asked anything. ", said, class_="note"),
        el("pre", el("code", "\n".join(commands)), class_="commands", tabindex="0"),
        id="recompute",
    )


def _special(placed: Placement) -> str:
    """What makes this more than one plain fit, as text."""
    manifest = placed.manifest
    reasons = [
        ("is calibrated", manifest.calibration is not None),
        ("holds people’s ratings fixed", bool(manifest.options.get("fixed_anchors"))),
        ("has intervals that allow for repeated checks", manifest.looks.critical is not None),
    ]
    return " and ".join(words for words, holds in reasons if holds)


def run_section(placed: Placement, found: Sequence[str]) -> Html:
    """The manifest, and whether its numbers agree with the verdicts."""
    manifest: Mapping[str, Any] = placed.run.manifest
    checked = (
        "Recounted from the verdicts while this page was made: wins, losses, ties, inconsistent and failed "
        "battles, flips, the panel, the model’s line on the board. "
    )
    checked += f"{len(found)} disagree; see the top." if found else "All agree with the files."
    items = [(words(key), fact(key, value)) for key, value in manifest.items() if key not in ELSEWHERE]
    return el(
        "section",
        el("h2", "The run"),
        el("p", checked, class_="note"),
        pairs(items, class_="facts manifest"),
        id="run",
    )
