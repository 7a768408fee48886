"""What a folder holds: `run_status` and `show_prompt` of a run or a placement, `report`, its page, and `journal`."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tiltyard.errors import OptionError, OptionValue, RunFolderError
from tiltyard.judge.llm import forget_batch as forget_batch
from tiltyard.judge.llm import list_batches
from tiltyard.judge.verdicts import read_object
from tiltyard.render import Table, plural
from tiltyard.reports import run_behind, write_report
from tiltyard.verbs.rendered import Rendered

FACTS = ("mode", "judge_model", "model", "entrants", "dimensions", "pairs", "started_at", "finished_at")
"""What a manifest says of a run that a reader asks for first."""


def run_status(folder: str | Path, judgments: str | Path | None = None) -> Rendered:
    """What a run or a placement is, and how far it is: judgments, failures, cost, a pilot's checks, open batches.

    Parameters:
        folder: The folder of a run or a placement.
        judgments: The folder of its verdict cache, for batches that are still open.
    """
    place = Path(folder)
    if not (place / "manifest.json").is_file():
        raise RunFolderError(f"{folder} has no manifest.json: not the folder of a run or a placement.")
    manifest, usage = read_object(place / "manifest.json"), place / "usage.json"
    kind = "placement" if manifest.get("kind") == "placement" else "run"
    finished = manifest.get("finished_at")
    values: dict[str, Any] = {name: manifest[name] for name in FACTS if name in manifest}
    values |= {"kind": kind, "finished": finished is not None}
    state = "not finished" if finished is None else f"finished at {finished}"
    lines = [f"{folder}: a {kind} judged by {manifest.get('judge_model')}, {state}"]
    found = manifest.get("results")
    if isinstance(found, dict):
        rows = {
            name: {key: value for key, value in row.items() if key != "failed_questions"}
            for name, row in (found.get("dimensions") or {}).items()
        }
        values["results"] = {"dimensions": rows, **({"gate": found["gate"]} if "gate" in found else {})}
        for dimension, row in rows.items():
            failed = sum(row.get("failed_verdicts", {}).values()) + row.get("missing_verdicts", 0)
            lines.append(
                f"{dimension}: {row.get('judgments')} judgments, {row.get('decisive')} decisive, "
                f"{row.get('inconsistent')} changed with the order, {failed} verdicts failed or missing"
            )
        if checks := found.get("gate"):
            lines.append("GO" if all(check["passed"] for check in checks) else "NO-GO")
            words = {True: "passed", False: "FAILED"}
            lines += [f"{words[check['passed']]}: {check['check']} ({check['detail']})" for check in checks]
    else:
        values["results"] = {name: manifest[name] for name in ("judged", "stopped") if name in manifest}
        if "stopped" in manifest:
            judged = manifest.get("judged", {})
            lines.append(
                f"{judged.get('battles')} battles judged, {judged.get('failed')} failed; {manifest['stopped']}"
            )
    cost = (read_object(usage).get("total") or {}).get("cost_usd") if usage.is_file() else None
    if cost is not None:
        values["cost_usd"] = cost
        lines.append(f"asking cost ${cost:.2f}")
    if judgments is not None:
        batches = list_batches(Path(judgments))
        states = [batch.state for batch in batches]
        values["batches"] = {one: states.count(one) for one in ("open", "collected", "abandoned")}
        values["open_requests"] = sum(batch.requests for batch in batches if batch.state == "open")
        lines.append(f"{values['batches']['open']} batches are open, with {values['open_requests']} requests")
    elif finished is None:
        lines.append("the same `tiltyard` command continues it; name its `judgments` folder to see open batches")
    return Rendered(values, "\n".join(lines))


def show_prompt(folder: str | Path, prompt: str, *, skip: int = 0) -> Rendered:
    """One prompt of a finished run or placement: what was asked, the answers to it, and the judge's words on them.

    Parameters:
        folder: The folder of a run or a placement.
        prompt: The prompt's id, as `compare` lists it.
        skip: How many letters of each text to leave out first.
    """
    run = run_behind(Path(folder))
    if prompt not in run.prompts:
        some = ", ".join(list(run.prompts)[:8])
        raise OptionError(OptionValue("prompt", prompt), f" is not in {folder}: its prompts are {some}, ….")
    asked = run.prompts[prompt].text[skip:]
    answers = {name: run.answers[prompt, name][skip:] for name in run.entrants if (prompt, name) in run.answers}
    lines = [f"prompt {prompt}: {asked}", *(f"{entrant} answered: {text}" for entrant, text in answers.items())]
    verdicts = []
    for battle in (one for one in run.battles if one.prompt_id == prompt):
        for raw, word in zip(run.judgment(battle).raw, battle.words, strict=True):
            first, second = battle.entrants[::-1] if raw.position_swap else battle.entrants
            about, words = {"judge": raw.judge_model, "dimension": battle.dimension}, raw.reasoning[skip:]
            verdicts.append({**about, "first": first, "second": second, "verdict": word, "reasoning": words})
            order = f"{first} shown before {second}"
            lines.append(f"{raw.judge_model} on {battle.dimension}, {order}: {word}. {words}")
    values = {"prompt": prompt, "text": asked, "answers": answers, "verdicts": verdicts}
    return Rendered(values, "\n".join(lines))


def report(folder: str | Path) -> Path:
    """Rebuild the report of a run or a placement from the files of its folder, and return the path of its page.

    Parameters:
        folder: The folder of a run or a placement.
    """
    return write_report(folder)


def journal(folder: str | Path) -> Rendered:
    """The batches in a journal, with their states.

    Parameters:
        folder: The folder of batches.jsonl: a verdict cache, or `asking_<entrant>`.
    """
    batches = list_batches(Path(folder))
    heads, rows = ["batch", "provider", "model", "requests", "created", "state"], []
    for batch in batches:
        created = datetime.fromtimestamp(batch.created_at, UTC).strftime("%Y-%m-%d %H:%M")
        state = f"{batch.state} ({batch.why})" if batch.why else batch.state
        rows.append([batch.name, batch.provider, batch.model, f"{batch.requests:,}", created, state])
    lines = Table.of(heads, rows, left=len(heads)).text(ruled=False)
    still = sum(batch.state == "open" for batch in batches)
    lines.append(f"{still} of {plural(len(batches), 'batch')} {'is' if still == 1 else 'are'} open")
    return Rendered(batches, "\n".join(lines))
