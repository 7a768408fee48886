"""Logs and exports of other tools: how each one's files are read, and one record for each in one table (`READERS`).

A package adds a reader with an entry point of the group `tiltyard.readers`, whose name is that of the format and whose
value is a `LogReader`. It is used when the format is named. `check_log_reader` is its contract.
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
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence, Set
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from tiltyard.data.battles.battle import Outcome, Source
from tiltyard.data.battles.careful import RawRow
from tiltyard.data.battles.eval_logs import BATTLE, LoggedBattles, ScoredAnswer, ScoredRun, pair_scores
from tiltyard.data.battles.fast import literal, session
from tiltyard.data.battles.formats import FORMAT_NAMES
from tiltyard.data.battles.inputs import DAMAGED, UTF_8_MARK, BattleFile, FileKind, damage, find_parts, json_object
from tiltyard.data.battles.settle import Reason
from tiltyard.errors import BattleError, OptionError

LM_EVAL_KEYS = {"doc_id", "doc", "target", "arguments", "filtered_resps"}
PAIR_KEYS = {"question_id", "model_1", "model_2", "g1_winner", "g2_winner"}
SINGLE_KEYS = {"question_id", "model", "judge", "score", "turn", "judgment"}

PROMPTFOO_START = re.compile(rb'\{\s*"evalId"\s*:|\{\s*"results"\s*:\s*\{')

LM_EVAL_SUMMARY = "lm-eval summary"
"""What `tool_of` calls the file beside samples of lm-evaluation-harness: it holds no samples."""

ZSTANDARD = 93
"""The method of compression that recent Inspect logs use, and that Python's own zip reader does not know."""

WORDS = {"C": 1.0, "I": 0.0, "P": 0.5, "N": 0.0, "true": 1.0, "false": 0.0, "yes": 1.0, "no": 0.0}
"""Scores of Inspect that are words: correct, incorrect, partly, no answer."""

SMALLER_IS_BETTER = re.compile("perplexity|bits_per_byte|brier|^(ter|wer|cer|mer|nll|loss|mse|mae|rmse)$")
"""Metrics of lm-evaluation-harness of which less is better, where its summary does not say."""


def document(part: BattleFile, kind: type = dict) -> Any:
    """A file that is one JSON object, or another kind of value."""
    with part.open() as file:
        return decoded(file.read(), part.name, kind)


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


def objects(part: BattleFile) -> Iterator[tuple[str, dict[str, Any]]]:
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


def prompt_name(given: object) -> str:
    """What a prompt is called by its own text, or by its variables: short, and the same in every run."""
    if isinstance(given, Mapping):
        text = ", ".join(f"{key}={given[key]}" for key in sorted(given))
    else:
        text = given if isinstance(given, str) else "" if given is None else json.dumps(given, ensure_ascii=False)
    text = " ".join(text.split())
    return text if len(text) <= 80 else f"{text[:60]}… {hashlib.sha256(text.encode()).hexdigest()[:8]}"


class _Answers:
    """The answers of one model in the order of a file; a prompt that comes again is a repeat."""

    def __init__(self) -> None:
        self.answers: list[ScoredAnswer] = []
        self.seen: Counter[str] = Counter()

    def add(self, where: str, prompt: str, scores: Mapping[str, object], *, why: object = None, **more: Any) -> None:
        """An answer with its scores; one that is no number is none."""
        self.seen[prompt] += 1
        numbers = {name: as_number(value) for name, value in scores.items()}
        read = {name: value for name, value in numbers.items() if value is not None}
        fault = None if read else f"no score{f' ({str(why)[:80]})' if why else ''}"
        self.answers.append(
            ScoredAnswer(where=where, prompt=prompt, repeat=self.seen[prompt], scores=read, fault=fault, **more)
        )


def _stem(part: BattleFile) -> str:
    return Path(part.name).name.removesuffix(".gz").rpartition(".")[0] or part.name


def _list_in(part: BattleFile, key: str) -> list[dict[str, Any]]:
    """The objects of a file that is a list of them, or an object with the list under a key."""
    held = document(part, object)
    rows = held.get(key) if isinstance(held, dict) else held
    return [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []


def _asked(given: object) -> str:
    """The name of a prompt whose input is a text, or a mapping with variables: of a single one its value."""
    single = isinstance(given, dict) and len(given) == 1
    return prompt_name(next(iter(given.values())) if single else given)  # type: ignore[attr-defined]


def _unlike(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """A name for each id: its text, and the id too where several have one text, or no text at all."""
    texts = dict(pairs)
    many = Counter(texts.values())
    return {one: text if text and many[text] == 1 else f"{text} ({one})".strip() for one, text in texts.items()}


def inspect_runs(part: BattleFile) -> list[ScoredRun]:
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
    named = {key: str(value) for key, value in settings.items()}
    answers = [_inspect_answer(sample, task, part.name) for sample in samples if isinstance(sample, dict)]
    return [ScoredRun(model=str(about["model"]), file=part.name, task=task, settings=named, answers=answers)]


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


def _zipped_inspect(part: BattleFile) -> tuple[dict[str, Any], list[Any]]:
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
            lists = [decoded(_member(archive, name), f"{part.name}: {name}", list) for name in wanted]
    except (zipfile.BadZipFile, OSError, EOFError) as error:
        raise BattleError(f"{part.name} cannot be unzipped: {error}. Copy or write it again.") from None
    return header, [sample for samples in lists for sample in samples]


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


def promptfoo_runs(part: BattleFile) -> list[ScoredRun]:
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
    runs: dict[str, _Answers] = defaultdict(_Answers)
    for row in rows:
        test = f"test {(row.get('testIdx') or 0) + 1}"
        values = row.get("vars") or (row.get("testCase") or {}).get("vars") or {}
        why, graded = row.get("failureReason"), row.get("gradingResult")
        broken = why == 2 or (why is None and bool(row.get("error")) and not graded)
        runs[names[_column(row)]].add(
            f"{part.name}: {test}",
            prompt_name(values) or test,
            {} if broken else {"": row.get("score")},
            why=row.get("error") or "no answer",
            metadata=plain((row.get("testCase") or {}).get("metadata")),
        )
    return [ScoredRun(model=name, file=part.name, answers=some.answers) for name, some in runs.items()]


def _column(row: Mapping[str, Any]) -> Hashable:
    """The column of promptfoo's table that a result is in; old files do not number them, merged ones twice."""
    at = row.get("promptIdx")
    return _provider(row), at if isinstance(at, int) else _template(row)


def _provider(row: Mapping[str, Any]) -> str:
    provider = row.get("provider")
    named = provider.get("label") or provider.get("id") if isinstance(provider, dict) else provider
    return str(named or "?")


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


def lm_eval_runs(part: BattleFile) -> list[ScoredRun]:
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


def judgment_battles(parts: Sequence[BattleFile], band: float) -> LoggedBattles:  # noqa: ARG001 - judgments have no band
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


def mt_bench_battles(parts: Sequence[BattleFile], band: float) -> LoggedBattles:
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
        file = parts[0].name
        runs = [ScoredRun(model=model, file=file, judge_model=judge, answers=some) for model, some in models.items()]
        scored = pair_scores(runs, band)
        rows += scored.rows
        unpaired += scored.unpaired
    return LoggedBattles(rows, unpaired)


def mt_bench_runs(part: BattleFile) -> list[ScoredRun]:
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
    scores = {"": score} if score is not None and score >= 0 else {}
    fault = None if scores else f"score is {row.get('score')!r}: the judge's reply was not read"
    repeat = int(row.get("turn") or 1)
    return ScoredAnswer(where=where, prompt=str(row["question_id"]), repeat=repeat, scores=scores, fault=fault)


EVALUATION = "gen_ai.evaluation.result"
"""The event of a span that holds a score, by OpenTelemetry's conventions for generative AI."""
MODEL_ATTRIBUTES = ("gen_ai.request.model", "gen_ai.response.model", "llm.model_name", "service.name")
PROMPT_ATTRIBUTES = ("input.value", "gen_ai.input.messages", "gen_ai.prompt")


def deepeval_runs(part: BattleFile) -> list[ScoredRun]:
    """One test run of deepeval: what its results folder or `.latest_test_run.json` holds."""
    held = document(part)
    held = held.get("testRunData") or held
    answers = _Answers()
    for kind in ("testCases", "conversationalTestCases"):
        for place, case in enumerate(held.get(kind) or (), start=1):
            name = prompt_name(case.get("input")) or str(case.get("name") or f"case {place}")
            metrics = [one for one in case.get("metricsData") or () if isinstance(one, dict)]
            scores = {str(one.get("name")): one.get("score") for one in metrics}
            why = next((one["error"] for one in metrics if one.get("error")), None)
            about = plain(case.get("metadata") or case.get("additionalMetadata"))
            answers.add(f"{part.name}: {name}", name, scores, why=why, metadata=about)
    settings = plain(held.get("hyperparameters"))
    model = held.get("identifier") or settings.get("model") or _stem(part)
    told = {key: str(value) for key, value in settings.items()}
    return [ScoredRun(model=str(model), file=part.name, settings=told, answers=answers.answers)]


def langfuse_runs(part: BattleFile) -> list[ScoredRun]:
    """Items of dataset runs ("experiments") as Langfuse's API gives them: each run is a model."""
    rows = _list_in(part, "data")
    names = _unlike((str(row.get("experimentItemId")), _asked(row.get("input"))) for row in rows)
    runs: dict[str, _Answers] = defaultdict(_Answers)
    for row in rows:
        name = names[str(row.get("experimentItemId"))]
        scores = {str(one.get("name")): one.get("value") for one in row.get("scores") or () if isinstance(one, dict)}
        about = plain(row.get("experimentItemMetadata"))
        run = str(row.get("experimentName") or row.get("experimentId") or _stem(part))
        runs[run].add(f"{part.name}: {name}", name, scores, why=row.get("level"), metadata=about)
    return [ScoredRun(model=model, file=part.name, answers=some.answers) for model, some in runs.items()]


def phoenix_runs(part: BattleFile) -> list[ScoredRun]:
    """One experiment of Phoenix, as its page and its API export it; the file is called as the experiment is."""
    rows = _list_in(part, "runs")
    names = _unlike((str(row.get("example_id")), _asked(row.get("input"))) for row in rows)
    answers = _Answers()
    for row in rows:
        name = names[str(row.get("example_id"))]
        given = [one for one in row.get("annotations") or () if isinstance(one, dict)]
        scores = {str(one.get("name")): one.get("label") if one.get("score") is None else one["score"] for one in given}
        why = row.get("error") or next((one["error"] for one in given if one.get("error")), None)
        answers.add(f"{part.name}: {name}", name, scores, why=why)
    return [ScoredRun(model=_stem(part), file=part.name, answers=answers.answers)]


def otel_runs(part: BattleFile) -> list[ScoredRun]:
    """Spans as OTLP JSON, with scores in events `gen_ai.evaluation.result`."""
    with part.open() as file:
        first = json_object(file.readline().removeprefix(UTF_8_MARK))
    # JSON Lines, as collectors write them, or one object over several lines
    lines = [(part.name, document(part))] if first is None else objects(part)
    runs: dict[str, _Answers] = defaultdict(_Answers)
    for where, held in lines:
        for resource in held.get("resourceSpans") or ():
            shared = _attributes(resource.get("resource") or {})
            spans = [span for scope in resource.get("scopeSpans") or () for span in scope.get("spans") or ()]
            for span in spans:
                _add_span(runs, where, shared | _attributes(span), span)
    if not runs:
        raise BattleError(f"{part.name} has no span with an event {EVALUATION}: it holds no score.")
    return [ScoredRun(model=model, file=part.name, answers=some.answers) for model, some in runs.items()]


def _add_span(runs: Mapping[str, _Answers], where: str, attributes: Mapping[str, Any], span: Mapping[str, Any]) -> None:
    events = [_attributes(event) for event in span.get("events") or () if event.get("name") == EVALUATION]
    if not events:
        return
    prompt = next((prompt_name(attributes[name]) for name in PROMPT_ATTRIBUTES if attributes.get(name)), "")
    model = next((str(attributes[name]) for name in MODEL_ATTRIBUTES if attributes.get(name)), "")
    if not prompt or not model:
        known = ", ".join(MODEL_ATTRIBUTES if prompt else PROMPT_ATTRIBUTES)
        raise BattleError(
            f"{where}: span {span.get('name')!r} has a score but none of the attributes {known}. Add one where it is "
            "recorded."
        )
    scores = {}
    for event in events:
        value = event.get("gen_ai.evaluation.score.value", event.get("gen_ai.evaluation.score.label"))
        scores[str(event.get("gen_ai.evaluation.name", ""))] = value
    runs[model].add(f"{where}: {prompt}", prompt, scores)


def _attributes(held: Mapping[str, Any]) -> dict[str, Any]:
    """The attributes of OTLP JSON as a mapping; whole numbers are texts there."""
    found: dict[str, Any] = {}
    for one in held.get("attributes") or ():
        for kind, value in (one.get("value") or {}).items():
            found[one["key"]] = int(value) if kind == "intValue" else value
    return found


RATED = {"1": True, "-1": False}


def open_webui_battles(parts: Iterable[BattleFile], band: float) -> LoggedBattles:  # noqa: ARG001 - votes have no band
    """Feedback of Open WebUI: a thumb up beats the answers beside it, a thumb down loses to them.

    Feedback on an answer that stood alone compares nothing and is counted.
    """
    rows, alone = [], 0
    for part in parts:
        for place, one in enumerate(_list_in(part, "feedbacks"), start=1):
            data, meta = one.get("data") or {}, one.get("meta") or {}
            rated = RATED.get(str(data.get("rating")))
            others = [str(name) for name in data.get("sibling_model_ids") or () if name != data.get("model_id")]
            if rated is None or not others or not data.get("model_id"):
                alone += 1
                continue
            tags = data.get("tags") or meta.get("tags") or ()
            for other in others:
                won, lost = (str(data["model_id"]), other) if rated else (other, str(data["model_id"]))
                a, b = sorted((won, lost))  # no side is known, so none must always win
                row: dict[str, Any] = {"model_a": a, "model_b": b, "winner": "model_a" if a == won else "model_b"}
                row |= {"voter": one.get("user_id"), "question_id": meta.get("chat_id"), "timestamp": one["created_at"]}
                rows.append(RawRow(f"{part.name}: feedback {place}", row | {"category": tags[0] if tags else None}))
    return LoggedBattles(rows, alone)


EXPORT_ERRORS = (KeyError, TypeError, AttributeError, ValueError, msgspec.MsgspecError)
"""What a file raises that only looks like an export."""
START_BYTES = 4096


class LogReader(msgspec.Struct, frozen=True, kw_only=True):
    """How the files of one tool are read.

    Parameters:
        name: What the format is called.
        recognises: Whether a file of JSON is one of its own, by its first bytes, and by the keys of its first line if
            that is an object; a reader that plugs in is named instead.
        runs: The scores in a file, by model; None where files hold votes.
        battles: The battles in some files, with a tie band; None: made of the scores.
    """

    name: str
    recognises: Callable[[bytes, Set[str]], bool] = lambda *_: False
    runs: Callable[[BattleFile], list[ScoredRun]] | None = None
    battles: Callable[[Sequence[BattleFile], float], LoggedBattles] | None = None


def _starts(pattern: bytes) -> Callable[[bytes, Set[str]], bool]:
    return lambda start, _: re.match(pattern, start) is not None


READERS = {
    reader.name: reader
    for reader in (
        LogReader(
            name="inspect", recognises=_starts(rb'\{\s*"version"\s*:\s*\d+\s*,\s*"status"\s*:'), runs=inspect_runs
        ),
        LogReader(name="promptfoo", runs=promptfoo_runs),  # told from a summary of lm-eval by the whole file
        LogReader(name="lm-eval", recognises=lambda _, keys: keys >= LM_EVAL_KEYS, runs=lm_eval_runs),
        LogReader(
            name="mt-bench",
            recognises=lambda _, keys: keys >= PAIR_KEYS or keys >= SINGLE_KEYS,
            runs=mt_bench_runs,
            battles=mt_bench_battles,
        ),
        LogReader(name="verdicts", recognises=lambda _, keys: keys >= JUDGMENT_KEYS, battles=judgment_battles),
        LogReader(
            name="deepeval",
            recognises=_starts(rb'\{\s*"(testRunData"\s*:\s*\{\s*")?(testFile|testCases)"'),
            runs=deepeval_runs,
        ),
        LogReader(
            name="langfuse",
            recognises=lambda start, _: start[:1] in b"[{" and b'"experimentItemId"' in start,
            runs=langfuse_runs,
        ),
        LogReader(name="phoenix", recognises=_starts(rb'\[\s*\{\s*"example_id"\s*:'), runs=phoenix_runs),
        LogReader(name="otel", recognises=_starts(rb'\{\s*"resourceSpans"\s*:'), runs=otel_runs),
        LogReader(
            name="open-webui",
            recognises=_starts(rb'\[\s*\{\s*"id"\s*:[^{}]*"type"\s*:\s*"rating"'),
            battles=open_webui_battles,
        ),
    )
}
"""Every reader of our own, in the order in which a file is tried against them."""


@cache
def log_reader(name: str) -> LogReader | None:
    """The reader of that name, our own or one that plugs in; None where there is none."""
    if name in FORMAT_NAMES:
        return READERS.get(name)
    from importlib.metadata import entry_points

    found = next(iter(entry_points(group="tiltyard.readers", name=name)), None)
    if found is None:
        return None
    try:
        reader = found.load()
    except Exception as error:  # whatever a foreign package raises
        raise OptionError(f"the reader {name!r} of {found.value} cannot be loaded: {error}. Update it.") from None
    if not isinstance(reader, LogReader):
        raise OptionError(f"the reader {name!r} of {found.value} is no LogReader. Update it.")
    return reader


def tool_of(part: BattleFile, format: str) -> str | None:
    """The tool that wrote a file, by its contents, or as named where that reader plugs in; None for anything else."""
    if format not in READERS and format != "auto" and log_reader(format) is not None:
        return format
    if not part.kind.is_json:
        return "inspect" if part.kind is FileKind.ZIP else None
    try:
        with part.open() as file:
            content = file.read(START_BYTES).removeprefix(UTF_8_MARK).lstrip()
        if PROMPTFOO_START.match(content):
            whole = document(part)
            held = whole.get("results")
            if isinstance(held, dict) and isinstance(held.get("results"), list):
                return "promptfoo"
            return LM_EVAL_SUMMARY if "config" in whole or "configs" in whole else None
        with part.open() as file:
            line = next((line for line in file if line.strip()), b"")
    except DAMAGED as error:
        raise damage(part.name, error) from None
    keys = (json_object(line.removeprefix(UTF_8_MARK)) or {}).keys()
    return next((reader.name for reader in READERS.values() if reader.recognises(content, keys)), None)


def _reader(tool: str) -> LogReader:
    reader = log_reader(tool)
    assert reader is not None  # it was recognised, or looked up by name
    return reader


def read_logs(tool: str, parts: Sequence[BattleFile], band: float) -> LoggedBattles:
    """The battles in the logs of one tool; two models may be in one log or in two."""
    reader = _reader(tool)
    if reader.battles is None:
        return pair_scores(read_runs(tool, parts), band)
    try:
        return reader.battles(parts, band)
    except DAMAGED as error:
        raise damage(parts[0].name, error) from None


def read_runs(tool: str, parts: Sequence[BattleFile]) -> list[ScoredRun]:
    """The scores in the logs of one tool, by model."""
    reader, part = _reader(tool), parts[0]
    if reader.runs is None:
        raise BattleError(f"{part.name} holds votes, not scores. Compare or rate it without score options.")
    try:
        return [run for part in parts for run in reader.runs(part)]
    except DAMAGED as error:
        raise damage(part.name, error) from None
    except EXPORT_ERRORS as error:
        what = f"{type(error).__name__}: {error}"
        raise BattleError(f"{part.name} is not as {tool} writes it ({what}). Check what wrote it.") from None


def check_log_reader(reader: LogReader, sample: str | Path) -> list[ScoredRun]:
    """The contract of a reader, for a test of your own: a real file of the tool is read as the rest relies on.

    Raises `OptionError` with what does not hold; returns the runs, for checks of your own.
    """
    (part,) = find_parts(sample)
    wrong = f"the reader {reader.name!r}, {part.name}: "
    if reader.runs is None:
        raise OptionError(wrong, "a reader needs `runs`.")
    runs = reader.runs(part)
    answers = [answer for run in runs for answer in run.answers]
    if not any(answer.scores for answer in answers):
        raise OptionError(wrong, "no answer with a score. Give a sample with some.")
    if runs != reader.runs(part):
        raise OptionError(wrong, "a second reading gives another result.")
    for run in runs:
        if not run.model or len({(one.prompt, one.repeat) for one in run.answers}) < len(run.answers):
            raise OptionError(wrong, f"{run.model!r} has no name, or two answers of one prompt and repeat.")
    for answer in answers:
        if not answer.prompt or not all(math.isfinite(value) for value in answer.scores.values()):
            raise OptionError(wrong, f"{answer.where}: no prompt, or a score that is not finite.")
        if not answer.scores and answer.fault is None and not answer.battles:
            raise OptionError(wrong, f"{answer.where}: without a score, `fault` says why.")
    return runs
