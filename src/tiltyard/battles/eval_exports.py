"""Exports of tools that teams keep their evaluations in: deepeval, Langfuse, Phoenix, OpenTelemetry, Open WebUI.

Each function makes the scores of one file, by model; feedback of Open WebUI is votes, and makes battles.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from tiltyard.battles.careful import RawRow
from tiltyard.battles.eval_logs import (
    LoggedBattles,
    ScoredAnswer,
    ScoredRun,
    as_number,
    decoded,
    document,
    objects,
    plain,
    prompt_name,
)
from tiltyard.battles.inputs import UTF_8_MARK, Part, json_object
from tiltyard.errors import BattleError

EVALUATION = "gen_ai.evaluation.result"
"""The event of a span that holds a score, by OpenTelemetry's conventions for generative AI."""
MODEL_ATTRIBUTES = ("gen_ai.request.model", "gen_ai.response.model", "llm.model_name", "service.name")
PROMPT_ATTRIBUTES = ("input.value", "gen_ai.input.messages", "gen_ai.prompt")


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


def _stem(part: Part) -> str:
    return Path(part.name).name.removesuffix(".gz").rpartition(".")[0] or part.name


def _list_in(part: Part, key: str) -> list[dict[str, Any]]:
    """The objects of a file that is a list of them, or an object with the list under a key."""
    with part.open() as file:
        held = decoded(file.read(), part.name, object)
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


def deepeval_runs(part: Part) -> list[ScoredRun]:
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


def langfuse_runs(part: Part) -> list[ScoredRun]:
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


def phoenix_runs(part: Part) -> list[ScoredRun]:
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


def otel_runs(part: Part) -> list[ScoredRun]:
    """Spans as OTLP JSON, with scores in events `gen_ai.evaluation.result`."""
    runs: dict[str, _Answers] = defaultdict(_Answers)
    for where, held in _lines_or_whole(part):
        for resource in held.get("resourceSpans") or ():
            shared = _attributes(resource.get("resource") or {})
            spans = [span for scope in resource.get("scopeSpans") or () for span in scope.get("spans") or ()]
            for span in spans:
                _add_span(runs, where, shared | _attributes(span), span)
    if not runs:
        raise BattleError(f"{part.name} has no span with an event {EVALUATION}: it holds no score.")
    return [ScoredRun(model=model, file=part.name, answers=some.answers) for model, some in runs.items()]


def _lines_or_whole(part: Part) -> Iterable[tuple[str, dict[str, Any]]]:
    """JSON Lines, as collectors write them, or one object over several lines."""
    with part.open() as file:
        first = json_object(file.readline().removeprefix(UTF_8_MARK))
    return [(part.name, document(part))] if first is None else objects(part)


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


def open_webui_battles(parts: Iterable[Part], band: float) -> LoggedBattles:  # noqa: ARG001 - votes have no band
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
