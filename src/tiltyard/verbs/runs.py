"""What a run or a placement holds, finished or not: `run_status`, and one prompt of it in full: `show_prompt`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from tiltyard.errors import OptionError, OptionValue, RunFolderError
from tiltyard.judging.run_folder import read_object
from tiltyard.llm.journal import list_batches
from tiltyard.reporting.comparison import run_behind

FACTS = ("mode", "judge_model", "model", "entrants", "dimensions", "pairs", "started_at", "finished_at")
"""What a manifest says of a run that a reader asks for first."""


class RunStatus(msgspec.Struct, frozen=True):
    """How far a run or a placement is, and what came of it.

    Parameters:
        name: The folder, as it was named.
        kind: `run` or `placement`.
        finished: Whether it has ended.
        facts: What its manifest says: the judge, the entrants, when it began.
        results: Judgments and failures by dimension, and a pilot's checks; of a placement, what was judged.
        cost_usd: What asking cost; None where it is unknown.
        batches: Batches by state, where their journal was named.
        open_requests: Requests in batches that are still open.
    """

    name: str
    kind: str
    finished: bool
    facts: dict[str, Any]
    results: dict[str, Any]
    cost_usd: float | None = None
    batches: dict[str, int] = {}
    open_requests: int = 0

    def to_dict(self) -> dict[str, Any]:
        values = {name: getattr(self, name) for name in self.__struct_fields__ if name != "facts"}
        return {**values, **self.facts}

    def __str__(self) -> str:
        state = f"finished at {self.facts.get('finished_at')}" if self.finished else "not finished"
        lines = [f"{self.name}: a {self.kind} judged by {self.facts.get('judge_model')}, {state}"]
        for dimension, row in self.results.get("dimensions", {}).items():
            failed = sum(row.get("failed_verdicts", {}).values()) + row.get("missing_verdicts", 0)
            lines.append(
                f"{dimension}: {row.get('judgments')} judgments, {row.get('decisive')} decisive, "
                f"{row.get('inconsistent')} changed with the order, {failed} verdicts failed or missing"
            )
        checks = self.results.get("gate", ())
        if checks:
            lines.append("GO" if all(check["passed"] for check in checks) else "NO-GO")
        lines += [
            f"{'passed' if check['passed'] else 'FAILED'}: {check['check']} ({check['detail']})" for check in checks
        ]
        if "stopped" in self.results:
            judged = self.results.get("judged", {})
            stopped = self.results["stopped"]
            lines.append(f"{judged.get('battles')} battles judged, {judged.get('failed')} failed; {stopped}")
        if self.cost_usd is not None:
            lines.append(f"asking cost ${self.cost_usd:.2f}")
        if self.batches:
            lines.append(f"{self.batches['open']} batches are open, with {self.open_requests} requests")
        elif not self.finished:
            lines.append("the same `tiltyard` command continues it; name its `judgments` folder to see open batches")
        return "\n".join(lines)


def run_status(folder: str | Path, judgments: str | Path | None = None) -> RunStatus:
    """What a run or a placement is, and how far it is.

    Parameters:
        folder: The folder of a run or a placement.
        judgments: The folder of its verdict cache, for batches that are still open.
    """
    place = Path(folder)
    if not (place / "manifest.json").is_file():
        raise RunFolderError(f"{folder} has no manifest.json: not the folder of a run or a placement.")
    manifest, usage = read_object(place / "manifest.json"), place / "usage.json"
    results = manifest.get("results")
    if isinstance(results, dict):
        rows = {
            name: {key: value for key, value in row.items() if key != "failed_questions"}
            for name, row in (results.get("dimensions") or {}).items()
        }
        results = {"dimensions": rows, **({"gate": results["gate"]} if "gate" in results else {})}
    else:
        results = {name: manifest[name] for name in ("judged", "stopped") if name in manifest}
    batches = [] if judgments is None else list_batches(Path(judgments))
    states = [batch.state for batch in batches]
    return RunStatus(
        name=str(folder),
        kind="placement" if manifest.get("kind") == "placement" else "run",
        finished=manifest.get("finished_at") is not None,
        facts={name: manifest[name] for name in FACTS if name in manifest},
        results=results,
        cost_usd=(read_object(usage).get("total") or {}).get("cost_usd") if usage.is_file() else None,
        batches={} if judgments is None else {one: states.count(one) for one in ("open", "collected", "abandoned")},
        open_requests=sum(batch.requests for batch in batches if batch.state == "open"),
    )


class JudgeWords(msgspec.Struct, frozen=True):
    """One verdict with its reasons."""

    dimension: str
    judge: str
    first: str
    """Whose answer was shown first."""
    second: str
    verdict: str
    """The winner's name, `tie`, or the name of a failure."""
    reasoning: str


class PromptInRun(msgspec.Struct, frozen=True):
    """One prompt of a run: what was asked, what each entrant answered, and what the judge said."""

    prompt: str
    text: str
    answers: dict[str, str]
    verdicts: tuple[JudgeWords, ...]

    def to_dict(self) -> dict[str, Any]:
        values: dict[str, Any] = msgspec.to_builtins(self)
        return values

    def __str__(self) -> str:
        lines = [f"prompt {self.prompt}: {self.text}"]
        lines += [f"{entrant} answered: {text}" for entrant, text in self.answers.items()]
        lines += [
            f"{one.judge} on {one.dimension}, {one.first} shown before {one.second}: {one.verdict}. {one.reasoning}"
            for one in self.verdicts
        ]
        return "\n".join(lines)


def show_prompt(folder: str | Path, prompt: str, *, skip: int = 0) -> PromptInRun:
    """One prompt of a finished run or placement: the answers to it, and the judge's words on them.

    Parameters:
        folder: The folder of a run or a placement.
        prompt: The prompt's id, as `compare` lists it.
        skip: How many letters of each text to leave out first.
    """
    run = run_behind(Path(folder))
    if prompt not in run.prompts:
        some = ", ".join(list(run.prompts)[:8])
        raise OptionError(OptionValue("prompt", prompt), f" is not in {folder}: its prompts are {some}, ….")
    verdicts = []
    for battle in (one for one in run.battles if one.prompt_id == prompt):
        for raw, word in zip(run.judgment(battle).raw, battle.words, strict=True):
            first, second = battle.entrants[::-1] if raw.position_swap else battle.entrants
            verdicts.append(JudgeWords(battle.dimension, raw.judge_model, first, second, word, raw.reasoning[skip:]))
    answers = {name: run.answers[prompt, name][skip:] for name in run.entrants if (prompt, name) in run.answers}
    return PromptInRun(prompt, run.prompts[prompt].text[skip:], answers, tuple(verdicts))
