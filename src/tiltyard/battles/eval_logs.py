"""Logs of other tools (Inspect, promptfoo, lm-evaluation-harness, MT-bench) as battles.

The rule: on one prompt, in one repeat and by one metric, every two models with a score are one battle. The higher score
wins if it is higher by more than the tie band; otherwise it is a tie.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import struct
import tempfile
import zipfile
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from tiltyard.battles.battle import Outcome, Source
from tiltyard.battles.careful import RawRow
from tiltyard.battles.fast import literal, session
from tiltyard.battles.inputs import UTF_8_MARK, FileKind, Part
from tiltyard.battles.settle import Reason
from tiltyard.errors import BattleError, NoBattles, OptionError

BATTLE = "tiltyard_battle"
"""Where the metadata of a score holds a battle."""

UNPAIRED = "scored for one model only"
"""How answers are counted that have no other to be compared with."""


ROUNDING = 1e-9
"""Scores that differ by no more are equal: 0.1 + 0.2 is 0.3."""


class ScoredAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """One answer and its scores by metric, of which larger is better.

    `prompt` is a name that is the same in every log of the same prompts, and `checksum` must be equal where prompts of
    one name are. `fault` says why there is no score, and `battles` are rows that a scorer decided (`battle_score`).
    """

    where: str
    prompt: str
    repeat: int = 1
    scores: dict[str, float] = {}
    fault: str | None = None
    checksum: str | None = None
    metadata: dict[str, Any] = {}
    battles: list[dict[str, Any]] = []
    negated: list[str] = []
    """Metrics of which less is better: their scores are here with the other sign."""


class ScoredRun(msgspec.Struct, frozen=True, kw_only=True):
    """The answers of one model in one log; `settings` are what tells this run from others of the same model."""

    model: str
    file: str
    task: str | None = None
    settings: dict[str, str] = {}
    judge_model: str | None = None
    answers: list[ScoredAnswer]


class LoggedBattles(NamedTuple):
    """The battles of some logs as rows, and how many answers have no other to be compared with."""

    rows: list[RawRow]
    unpaired: int = 0


def check_tie_band(band: float | None) -> float:
    """The tie band, checked."""
    if band is None:
        return 0.0
    if not math.isfinite(band) or band < 0:
        raise OptionError(f"tie_band is {band}: expected a difference of scores that is 0 or more")
    return float(band)


def pair_scores(runs: Sequence[ScoredRun], band: float) -> LoggedBattles:
    """The battles of scored runs, in the order in which their prompts were first seen."""
    named = [(name, run) for name, run in zip(distinct_names(runs), runs, strict=True) if run.answers]
    groups: dict[tuple[str, int, str], dict[str, tuple[ScoredRun, ScoredAnswer]]] = defaultdict(dict)
    rows: list[RawRow] = []
    for name, run in named:
        for answer in run.answers:
            if answer.fault is not None:
                rows.append(RawRow(answer.where, {}, Reason.MISSING_SCORE, f"{name}: {answer.fault}"))
            about: dict[str, Any] = {"question_id": answer.prompt, "category": run.task, "repeat": answer.repeat}
            about["metadata"] = answer.metadata or None
            rows += [RawRow(answer.where, {**about, **battle}) for battle in answer.battles]
            for metric in answer.scores:
                scored = groups[answer.prompt, answer.repeat, metric]
                _check_same(name, answer, scored)
                scored[name] = run, answer
    for (_, _, metric), scored in groups.items():
        rows += [_battle(one, other, metric, scored, band) for one, other in combinations(sorted(scored), 2)]
    if groups and not rows:
        prompts: dict[str, set[str]] = defaultdict(set)
        for name, run in named:
            prompts[name] |= {answer.prompt for answer in run.answers}
        listed = ", ".join(f"{name} ({len(seen)} prompt{'s' * (len(seen) != 1)})" for name, seen in prompts.items())
        raise NoBattles(
            f"no prompt was scored for two models: there is {listed}. Name the logs of both, made from the same "
            "prompts."
        )
    return LoggedBattles(rows, sum(len(scored) == 1 for scored in groups.values()))


def _check_same(name: str, answer: ScoredAnswer, scored: Mapping[str, tuple[ScoredRun, ScoredAnswer]]) -> None:
    """Refuse a second answer of one model, and another prompt of the same name."""
    for other_name, (_, other) in scored.items():
        if other_name == name:
            raise BattleError(f"{answer.where}: {name} was scored before, at {other.where}. Leave one of the two out.")
        if None not in (other.checksum, answer.checksum) and other.checksum != answer.checksum:
            raise BattleError(
                f"{answer.where}: not the same prompt as {other.where}, though both are called {answer.prompt!r}. "
                "Name logs that were made from the same prompts."
            )


def battle_score(
    model_a: str,
    model_b: str,
    forward: str,
    backward: str | None = None,
    *,
    judge_model: str | None = None,
    explanation: str | None = None,
    **columns: Any,
) -> dict[str, Any]:
    """What a scorer of Inspect that compares two answers returns, as the arguments of its `Score`.

    The score is 1 if `model_a` won, 0 if `model_b` did, and ½ for a tie or where the two orders disagree, so Inspect's
    own mean is the share won. The battle itself is in the score's metadata, where `read_battles` finds it in the log.

    Parameters:
        model_a: Whose answer was shown first.
        model_b: Whose answer was shown second.
        forward: The verdict in that order: `A`, `B` or `TIE`.
        backward: The verdict with the answers swapped, of the answers as they were shown; None: one order was judged.
        judge_model: Who judged.
        explanation: The judge's words.
        columns: Further columns of the battle row, such as `category`.
    """
    first = _verdict(forward, "forward")
    second = first if backward is None else _verdict(backward, "backward").swapped
    winner = first if first is second else Outcome.TIE
    row: dict[str, Any] = {"model_a": model_a, "model_b": model_b, "winner": winner.value, **columns}
    row |= {"judge_model": judge_model} if judge_model is not None else {}
    row |= {"inconsistent": True} if first is not second else {}
    value = {Outcome.A: 1.0, Outcome.B: 0.0}.get(winner, 0.5)
    return {"value": value, "answer": winner.value, "explanation": explanation, "metadata": {BATTLE: row}}


def _verdict(word: str, name: str) -> Outcome:
    known = {"A": Outcome.A, "B": Outcome.B, "TIE": Outcome.TIE}
    if word.strip().upper() not in known:
        raise OptionError(f"{name} is {word!r}: expected A, B or TIE. A verdict that cannot be read is no tie.")
    return known[word.strip().upper()]


def _battle(
    one: str, other: str, metric: str, scored: Mapping[str, tuple[ScoredRun, ScoredAnswer]], band: float
) -> RawRow:
    (run, answer), (_, against) = scored[one], scored[other]
    lead = answer.scores[metric] - against.scores[metric]
    winner = Outcome.TIE if abs(lead) <= band + ROUNDING else Outcome.A if lead > 0 else Outcome.B
    row: dict[str, Any] = {
        "model_a": one,
        "model_b": other,
        "winner": winner.value,
        "question_id": answer.prompt,
        "dimension": metric or None,
        "category": run.task,
        "judge_model": run.judge_model,
        "value_a": answer.scores[metric],
        "value_b": against.scores[metric],
        "repeat": answer.repeat,
        "metadata": answer.metadata or None,
    }
    return RawRow(f"{answer.where} and {against.where}", row)


def distinct_names(runs: Sequence[ScoredRun]) -> list[str]:
    """A name for each run: its model; where several runs of one model share prompts, also what tells them apart."""
    names = [run.model for run in runs]
    for model in dict.fromkeys(names):
        members = [at for at, run in enumerate(runs) if run.model == model]
        scored = [
            {(answer.prompt, answer.repeat, metric) for answer in runs[at].answers for metric in answer.scores}
            for at in members
        ]
        if len(set().union(*scored)) < sum(map(len, scored)):
            for at, mark in zip(members, _marks([runs[at] for at in members]), strict=True):
                names[at] = f"{model} ({mark})"
    return names


def _marks(runs: Sequence[ScoredRun]) -> list[str]:
    """What tells runs of one model apart: the settings that differ, else the shortest part of the path that does."""
    keys = sorted({key for run in runs for key in run.settings})
    differing = [key for key in keys if len({run.settings.get(key) for run in runs}) > 1]
    marks = [", ".join(f"{key}={run.settings.get(key, '–')}" for key in differing) for run in runs]
    if differing and len(set(marks)) == len(runs):
        return marks
    paths = [Path(run.file) for run in runs]
    for depth in range(1, 1 + max(len(path.parts) for path in paths)):
        marks = ["/".join(path.with_suffix("").parts[-depth:]) for path in paths]
        if len(set(marks)) == len(runs):
            break
    return marks


LM_EVAL_KEYS = {"doc_id", "doc", "target", "arguments", "filtered_resps"}
PAIR_KEYS = {"question_id", "model_1", "model_2", "g1_winner", "g2_winner"}
SINGLE_KEYS = {"question_id", "model", "judge", "score", "turn", "judgment"}

PROMPTFOO_START = re.compile(rb'\{\s*"evalId"\s*:|\{\s*"results"\s*:\s*\{')

LM_EVAL_SUMMARY = "lm-eval summary"
"""What `recognise_log` calls the file beside samples of lm-evaluation-harness: it holds no samples."""

ZSTANDARD = 93
"""The method of compression that recent Inspect logs use, and that Python's own zip reader does not know."""

WORDS = {"C": 1.0, "I": 0.0, "P": 0.5, "N": 0.0, "true": 1.0, "false": 0.0, "yes": 1.0, "no": 0.0}
"""Scores of Inspect that are words: correct, incorrect, partly, no answer."""

SMALLER_IS_BETTER = re.compile("perplexity|bits_per_byte|brier|^(ter|wer|cer|mer|nll|loss|mse|mae|rmse)$")
"""Metrics of lm-evaluation-harness of which less is better, where its summary does not say."""


def document(part: Part) -> dict[str, Any]:
    """A file that is one JSON object."""
    with part.open() as file:
        held: dict[str, Any] = decoded(file.read(), part.name)
    return held


def decoded(content: bytes, name: str, kind: type = dict) -> Any:
    """JSON of one kind; `name` is what a message calls it."""
    text = content.removeprefix(UTF_8_MARK)
    try:
        value = msgspec.json.decode(text) if b"NaN" not in text and b"Infinity" not in text else json.loads(text)
    except (msgspec.DecodeError, ValueError) as error:
        raise BattleError(f"{name} cannot be read as JSON: {error}. Write it again.") from None
    if not isinstance(value, kind):
        raise BattleError(f"{name} is not a log: it holds a {type(value).__name__}. Check what wrote it.")
    return value


def objects(part: Part) -> Iterator[tuple[str, dict[str, Any]]]:
    """The JSON object of each line, and where it is."""
    with part.open() as file:
        for number, line in enumerate(file, start=1):
            if line.strip():
                where = f"{part.name}:{number}"
                yield where, decoded(line, where)


def as_number(value: object) -> float | None:
    """A score: a number, true or false, or a word that means one; None for anything else."""
    if isinstance(value, str):
        value = WORDS.get(value, WORDS.get(value.lower(), value))
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) else None


def plain(values: object) -> dict[str, Any]:
    """The plain values of a mapping: what a column can hold."""
    items = values.items() if isinstance(values, dict) else ()
    return {str(key): value for key, value in items if isinstance(value, str | int | float | bool)}


# Inspect


def inspect_runs(part: Part) -> list[ScoredRun]:
    """One log of Inspect: one model on one task. A sample's scorers are metrics, and so are the parts of a score."""
    if part.kind is FileKind.ZIP:
        header, samples = _zipped_inspect(part)
    else:
        header = document(part)
        samples = header.get("samples", ())
        if not isinstance(samples, list):
            raise BattleError(f"{part.name} holds no samples. Run Inspect with samples in its log (log_samples).")
    about = header.get("eval")
    if not isinstance(about, dict) or not about.get("model"):
        raise BattleError(f"{part.name} is not an Inspect log: it names no model. Check what wrote it.")
    task = str(about.get("task_display_name") or about.get("task") or "") or None
    settings = plain(about.get("task_args")) | plain(about.get("model_generate_config"))
    settings |= {"solver": about["solver"]} if isinstance(about.get("solver"), str) else {}
    run = ScoredRun(
        model=str(about["model"]),
        file=part.name,
        task=task,
        settings={key: str(value) for key, value in settings.items()},
        answers=[_inspect_answer(sample, task, part.name) for sample in samples if isinstance(sample, dict)],
    )
    return [run]


def _inspect_answer(sample: Mapping[str, Any], task: str | None, file: str) -> ScoredAnswer:
    name = str(sample.get("id"))
    scores: dict[str, float] = {}
    strange: list[str] = []
    given = sample.get("scores") or {}
    battles = []
    for scorer, score in given.items():
        about = score.get("metadata") if isinstance(score, dict) else None
        decided = about.get(BATTLE) if isinstance(about, dict) else None
        if isinstance(decided, dict):
            battles.append({"dimension": scorer, **decided})
            continue
        value = score.get("value") if isinstance(score, dict) else score
        parts = (
            {f"{scorer}/{key}": inner for key, inner in value.items()} if isinstance(value, dict) else {scorer: value}
        )
        for metric, inner in parts.items():
            number = as_number(inner)
            if number is None:
                strange.append(f"{metric} is {inner!r}, which is not a number")
            else:
                scores[metric] = number
    error = sample.get("error")
    text = error.get("message") if isinstance(error, dict) else error
    fault = "; ".join(strange) or (None if scores or battles else f"no score{f' ({str(text)[:80]})' if text else ''}")
    return ScoredAnswer(
        where=f"{file}: sample {name}",
        prompt=f"{task}/{name}" if task else name,
        repeat=int(sample.get("epoch") or 1),
        scores=scores,
        fault=fault,
        checksum=target if isinstance(target := sample.get("target"), str) else None,
        metadata=plain(sample.get("metadata")),
        battles=battles,
    )


def _zipped_inspect(part: Part) -> tuple[dict[str, Any], list[Any]]:
    """The header of a log, and the summaries of its samples: whole, or as far as an interrupted run came."""
    try:
        with zipfile.ZipFile(part.path) as archive:
            names = set(archive.namelist())
            head = next((name for name in ("header.json", "_journal/start.json") if name in names), None)
            if "[Content_Types].xml" in names:
                raise BattleError(f"{part.name} is a spreadsheet or document. Save it as CSV.")
            if head is None:
                raise BattleError(f"{part.name} is a zip file, but not an Inspect log: it has no header.json.")
            pieces = sorted(name for name in names if name.startswith("_journal/summaries/"))
            wanted = ["summaries.json"] if "summaries.json" in names else pieces
            header = decoded(_member(archive, head), f"{part.name}: {head}")
            samples = [
                sample for name in wanted for sample in decoded(_member(archive, name), f"{part.name}: {name}", list)
            ]
    except (zipfile.BadZipFile, OSError, EOFError) as error:
        raise BattleError(f"{part.name} cannot be unzipped: {error}. Copy or write it again.") from None
    return header, samples


def _member(archive: zipfile.ZipFile, name: str) -> bytes:
    """The bytes of a file in a zip; DuckDB unpacks what Python's own reader cannot."""
    info = archive.getinfo(name)
    if info.compress_type != ZSTANDARD:
        return archive.read(info)
    packed = archive.fp
    assert packed is not None  # it is open
    packed.seek(info.header_offset)
    lengths = struct.unpack("<HH", packed.read(30)[26:30])
    packed.seek(info.header_offset + 30 + sum(lengths))
    content = packed.read(info.compress_size)
    with tempfile.TemporaryDirectory(prefix="tiltyard-") as folder, session(large_limits=True) as connection:
        path = Path(folder) / "member.json.zst"
        path.write_bytes(content)
        query = (
            f"SELECT json FROM read_json_objects({literal(str(path))}, format = 'unstructured', compression = 'zstd', "
            f"maximum_object_size = {min(2 * info.file_size + 1024, 2**32 - 1)})"
        )
        import duckdb

        try:
            row = connection.execute(query).fetchone()
        except duckdb.Error as error:
            raise BattleError(f"{name} cannot be unpacked: {str(error).splitlines()[0]}.") from None
    return str(row[0]).encode() if row else b""


# promptfoo


def promptfoo_runs(part: Part) -> list[ScoredRun]:
    """One output file of promptfoo: each provider, or each prompt template, or each pair of these, is a model."""
    held = document(part)["results"]
    rows = sorted(
        (row for row in held["results"] if isinstance(row, dict)),
        key=lambda row: (row.get("testIdx") or 0, row.get("promptIdx") or 0),
    )
    provider_of, template_of = {}, {}
    for row in rows:
        provider_of[_column(row)], template_of[_column(row)] = _provider(row), _template(row)
    names = _contestants(provider_of, template_of)
    answers: dict[str, list[ScoredAnswer]] = defaultdict(list)
    repeats: Counter[tuple[str, str]] = Counter()
    for row in rows:
        name, prompt = names[_column(row)], _variables(row)
        repeats[name, prompt] += 1
        answers[name].append(_promptfoo_answer(row, prompt, repeats[name, prompt], part.name))
    return [ScoredRun(model=name, file=part.name, answers=given) for name, given in answers.items()]


def _column(row: Mapping[str, Any]) -> Hashable:
    """The column of promptfoo's table that a result is in; old files do not number them, merged ones twice."""
    at = row.get("promptIdx")
    return _provider(row), at if isinstance(at, int) else _template(row)


def _provider(row: Mapping[str, Any]) -> str:
    provider = row.get("provider")
    if isinstance(provider, dict):
        return str(provider.get("label") or provider.get("id") or "?")
    return str(provider or "?")


def _template(row: Mapping[str, Any]) -> str:
    prompt = row.get("prompt")
    label = str((prompt.get("label") or prompt.get("raw")) if isinstance(prompt, dict) else prompt or "?")
    first = label.strip().splitlines()[0] if label.strip() else "?"
    return first if len(first) <= 60 else first[:57] + "..."


def _contestants(provider_of: Mapping[Hashable, str], template_of: Mapping[Hashable, str]) -> dict[Hashable, str]:
    """The name of each column of a promptfoo table: what differs of provider and template, else its number too."""
    several = len(set(provider_of.values())) > 1, len(set(template_of.values())) > 1
    short = {template: template.split(": ")[0] for template in template_of.values()}
    if len(set(short.values())) == len(short):
        template_of = {at: short[template] for at, template in template_of.items()}
    names = {}
    for at in provider_of:
        both = f"{provider_of[at]} · {template_of[at]}"
        names[at] = both if all(several) else template_of[at] if several[1] else provider_of[at]
    count = Counter(names.values())
    return {at: name if count[name] == 1 else f"{name} #{n}" for n, (at, name) in enumerate(names.items(), start=1)}


def _variables(row: Mapping[str, Any]) -> str:
    """The prompt by the values of its variables: the same in every run of the same tests."""
    values = row.get("vars") or (row.get("testCase") or {}).get("vars") or {}
    return prompt_name(values) or f"test {(row.get('testIdx') or 0) + 1}"


def prompt_name(given: object) -> str:
    """What a prompt is called by its own text, or by its variables: short, and the same in every run."""
    if isinstance(given, Mapping):
        text = ", ".join(f"{key}={given[key]}" for key in sorted(given))
    else:
        text = given if isinstance(given, str) else "" if given is None else json.dumps(given, ensure_ascii=False)
    text = " ".join(text.split())
    return text if len(text) <= 80 else f"{text[:60]}… {hashlib.sha256(text.encode()).hexdigest()[:8]}"


def _promptfoo_answer(row: Mapping[str, Any], prompt: str, repeat: int, file: str) -> ScoredAnswer:
    score = as_number(row.get("score"))
    why, graded = row.get("failureReason"), row.get("gradingResult")
    broken = why == 2 or (why is None and bool(row.get("error")) and not graded)
    fault = f"no score ({str(row.get('error') or 'no answer')[:80]})" if broken or score is None else None
    return ScoredAnswer(
        where=f"{file}: test {(row.get('testIdx') or 0) + 1}",
        prompt=prompt,
        repeat=repeat,
        scores={} if fault or score is None else {"": score},
        fault=fault,
        metadata=plain((row.get("testCase") or {}).get("metadata")),
    )


# lm-evaluation-harness


def lm_eval_runs(part: Part) -> list[ScoredRun]:
    """One file of samples of lm-evaluation-harness: one model on one task.

    The model is named in the summary beside it, else by its folder.
    """
    stem = Path(part.name).name.removesuffix(".gz").removesuffix(".jsonl").removeprefix("samples_")
    dated = re.fullmatch(r"(.+)_(\d{4}-\d\d-\d\dT[\d.:-]+)", stem)
    task, stamp = (dated[1], dated[2]) if dated else (stem, "")
    beside = part.path.parent / f"results_{stamp}.json"
    summary = decoded(beside.read_bytes(), str(beside)) if stamp and beside.is_file() else {}
    model = str(summary.get("model_name") or Path(part.name).parent.name.replace("__", "/") or stem)
    higher = (summary.get("higher_is_better") or {}).get(task) or {}
    answers = [_lm_eval_answer(where, row, task, higher) for where, row in objects(part)]
    return [ScoredRun(model=model, file=part.name, task=task, answers=answers)]


def _lm_eval_answer(where: str, row: Mapping[str, Any], task: str, higher: Mapping[str, Any]) -> ScoredAnswer:
    """The metrics of one document; with several filters they are called `metric,filter`, as its tables call them."""
    listed = row.get("metrics")
    known = LM_EVAL_KEYS | {"resps", "doc_hash", "prompt_hash", "target_hash", "filter"}
    older = [name for name, value in row.items() if name not in known and isinstance(value, int | float)]
    names = [str(name) for name in listed] if isinstance(listed, list) else older
    filtered = row.get("filter")
    scores: dict[str, float] = {}
    negated: list[str] = []
    for name in names:
        number = as_number(row.get(name)) if not isinstance(row.get(name), str) else None
        if number is not None:
            larger_wins = higher.get(name, not SMALLER_IS_BETTER.search(name))
            metric = name if filtered in (None, "none") else f"{name},{filtered}"
            scores[metric] = number if larger_wins else -number
            negated += [] if larger_wins else [metric]
    return ScoredAnswer(
        where=where,
        prompt=f"{task}/{row.get('doc_id')}",
        scores=scores,
        fault=None if scores else "no metric that is a number",
        checksum=None if row.get("doc_hash") is None else str(row["doc_hash"]),
        metadata=plain(row.get("doc")),
        negated=negated,
    )


# Judged tournaments


class _Verdict(msgspec.Struct, frozen=True):
    judge_model: str


class _Judgment(msgspec.Struct, frozen=True):
    """A line of `verdicts/<dimension>.jsonl` of a run that writes no battles."""

    prompt_id: str
    dimension: str
    entrant_a: str
    entrant_b: str
    winner: str | None
    inconsistent: bool
    raw: tuple[_Verdict, _Verdict]


JUDGMENT_KEYS = frozenset(_Judgment.__struct_fields__)


def judgment_battles(parts: Sequence[Part], band: float) -> LoggedBattles:  # noqa: ARG001 - judgments have no band
    """The judgments of a tournament, each settled from both orders."""
    return LoggedBattles([_settled(where, row) for part in parts for where, row in objects(part)])


def _settled(where: str, row: Mapping[str, Any]) -> RawRow:
    if "status" in row:
        raise BattleError(
            f"{where}: this run writes its battles to battles.jsonl. Read that; if it is not there, finish the run."
        )
    try:
        one = msgspec.convert(row, _Judgment)
    except msgspec.ValidationError as error:
        raise BattleError(f"{where}: not a judgment of a tournament ({error}). Check what wrote it.") from None
    labels = {one.entrant_a: Outcome.A.value, one.entrant_b: Outcome.B.value, None: Outcome.TIE.value}
    battle = {
        "model_a": one.entrant_a,
        "model_b": one.entrant_b,
        "winner": labels.get(one.winner, one.winner),
        "source": Source.LLM_JUDGE.value,
        "inconsistent": one.inconsistent or None,
        "question_id": one.prompt_id,
        "dimension": one.dimension,
        "judge_model": one.raw[0].judge_model,
    }
    return RawRow(where, battle)


# MT-bench


def mt_bench_battles(parts: Sequence[Part], band: float) -> LoggedBattles:
    """Files of judgments of MT-bench: pairs judged in both orders as they are, grades of single answers by score."""
    rows: list[RawRow] = []
    grades: dict[str | None, dict[str, list[ScoredAnswer]]] = defaultdict(lambda: defaultdict(list))
    unpaired = 0
    for part in parts:
        for where, row in objects(part):
            if row.keys() >= PAIR_KEYS:
                rows.append(_pair_of_verdicts(where, row))
            elif row.keys() >= SINGLE_KEYS - {"judgment"}:
                grades[_judge(row)][str(row["model"])].append(_grade(where, row))
            else:
                raise BattleError(f"{where}: neither a pair nor a grade of MT-bench. Its keys are {', '.join(row)}.")
    for judge, models in grades.items():
        runs = [
            ScoredRun(model=model, file=parts[0].name, judge_model=judge, answers=answers)
            for model, answers in models.items()
        ]
        scored = pair_scores(runs, band)
        rows += scored.rows
        unpaired += scored.unpaired
    return LoggedBattles(rows, unpaired)


def mt_bench_runs(part: Part) -> list[ScoredRun]:
    """The grades of single answers in a file of MT-bench; each turn of a conversation is a prompt of its own."""
    answers: dict[tuple[str, str | None], list[ScoredAnswer]] = defaultdict(list)
    for where, row in objects(part):
        if not row.keys() >= SINGLE_KEYS - {"judgment"}:
            raise BattleError(f"{where}: not a grade of MT-bench. Its keys are {', '.join(row)}.")
        grade = _grade(where, row)
        name = f"{grade.prompt}, turn {grade.repeat}"
        answers[str(row["model"]), _judge(row)].append(msgspec.structs.replace(grade, prompt=name, repeat=1))
    return [
        ScoredRun(model=model, file=part.name, judge_model=judge, answers=given)
        for (model, judge), given in answers.items()
    ]


def _pair_of_verdicts(where: str, row: Mapping[str, Any]) -> RawRow:
    """Two verdicts on one pair; where they differ, the judgment changed with the order and is an inconsistent tie."""
    verdicts = row["g1_winner"], row["g2_winner"]
    label = {"model_1": "model_a", "model_2": "model_b", "tie": "tie"}
    unread = next((verdict for verdict in verdicts if verdict not in label), None)
    if unread is not None:
        return RawRow(where, {}, Reason.MISSING_WINNER, f"a verdict is {unread!r}: the judge's reply was not read")
    agree = verdicts[0] == verdicts[1]
    battle = {
        "model_a": str(row["model_1"]),
        "model_b": str(row["model_2"]),
        "winner": label[verdicts[0]] if agree else "tie",
        "inconsistent": None if agree else True,
        "question_id": str(row["question_id"]),
        "judge_model": _judge(row),
        "timestamp": row.get("tstamp"),
        "turn": row.get("turn"),
    }
    return RawRow(where, battle)


def _judge(row: Mapping[str, Any]) -> str | None:
    judge = row.get("judge")
    name = judge[0] if isinstance(judge, list) and judge else judge
    return None if name is None else str(name)


def _grade(where: str, row: Mapping[str, Any]) -> ScoredAnswer:
    score = as_number(row.get("score"))
    read = score is not None and score >= 0
    return ScoredAnswer(
        where=where,
        prompt=str(row["question_id"]),
        repeat=int(row.get("turn") or 1),
        scores={"": score} if read and score is not None else {},
        fault=None if read else f"score is {row.get('score')!r}: the judge's reply was not read",
    )
