"""The new model's answers: from a file, from its provider, or, to check a judge, from the arena itself."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from tiltyard.data.bank import Prompt, Response, convert, read_objects, read_responses, require_text, responses_path
from tiltyard.errors import BankError, OptionError
from tiltyard.judge.llm import (
    Ask,
    AskingParts,
    EntrantSettings,
    Provider,
    Totals,
    Watch,
    generate,
    load_env,
    make_provider,
    parse_model_name,
)
from tiltyard.judge.placement.human_arena import Exchange
from tiltyard.judge.placement.plan import PlacementPlan
from tiltyard.judge.verdicts import Judge, JudgeSettings, SilentProvider, judge_by_name
from tiltyard.options import PlaceOptions


class Answers:
    """The new model's answers, by question: here, those that exist already."""

    def __init__(self, saved: Mapping[str, str]) -> None:
        self._saved = saved
        self.watch: Watch | None = None
        self.totals = Totals()
        self.failed: dict[str, str] = {}
        """Why a question has no answer."""

    def at_hand(self) -> Mapping[str, str]:
        """The answers that cost nothing."""
        return self._saved

    def asks(self, exchanges: Sequence[Exchange]) -> Iterable[Ask]:  # noqa: ARG002 - nothing is asked
        """What would be asked for these questions, the first turn of each: for a quote."""
        return ()

    async def get(self, exchanges: Sequence[Exchange]) -> Mapping[str, str]:
        """The answers to the questions of these exchanges; those that failed are missing."""
        known = self.at_hand()
        return {name: known[name] for name in dict.fromkeys(e.question_id for e in exchanges) if name in known}

    async def aclose(self) -> None:
        """Close what was opened."""


def read_answers(path: Path) -> tuple[str, dict[str, str]]:
    """The model of a response file, and its answers by question; two answers to one question are an error."""
    answers: dict[str, str] = {}
    models: dict[str, int] = {}
    line_of: dict[str, int] = {}
    for number, record in read_objects(path, "response file"):
        record.setdefault("entrant_id", path.name.removesuffix(".jsonl").removeprefix("responses_"))
        response: Response = convert(record, Response, f"{path}:{number}")
        require_text(response, "a placement")
        models.setdefault(response.entrant_id, number)
        if response.prompt_id in answers and answers[response.prompt_id] != response.response_text:
            raise BankError(
                f"{path}:{number}: question {response.prompt_id!r} is answered in line {line_of[response.prompt_id]} "
                "too, and differently. Keep one of the two."
            )
        answers[response.prompt_id] = response.response_text
        line_of.setdefault(response.prompt_id, number)
    if len(models) > 1:
        raise BankError(
            f"{path}: answers of {len(models)} models ({', '.join(list(models)[:4])}). Place one at a time."
        )
    if not answers:
        raise BankError(f"{path}: the response file is empty.")
    return next(iter(models)), answers


class ModelAnswers(Answers):
    """Answers from a provider, each saved to disk before it is used, so that none is paid for twice."""

    def __init__(self, settings: EntrantSettings, provider: Provider, folder: Path, asking: AskingParts) -> None:
        super().__init__({})
        self._settings = settings
        self._provider = provider
        self._folder = folder
        self._asking = asking

    def at_hand(self) -> dict[str, str]:
        if not responses_path(self._folder, self._settings.entrant_id).exists():
            return {}
        saved = read_responses(self._folder, self._settings.entrant_id)
        return {name: response.response_text for name, response in saved.items()}

    def asks(self, exchanges: Sequence[Exchange]) -> Iterable[Ask]:
        there = self.at_hand()
        for exchange in exchanges:
            if exchange.question_id not in there:
                request = self._settings.request(_prompt(exchange))
                yield Ask(f"{exchange.question_id}:{request.fingerprint}", request, "answers")

    async def get(self, exchanges: Sequence[Exchange]) -> Mapping[str, str]:
        by_question = {exchange.question_id: exchange for exchange in exchanges}
        made = await generate(
            self._settings,
            [_prompt(exchange) for exchange in by_question.values()],
            self._folder,
            self._provider,
            self._asking,
            turns={name: exchange.turns for name, exchange in by_question.items() if len(exchange.turns) > 1},
            watch=self.watch,
        )
        self.totals.add(made.totals)
        self.failed.update(made.failed)
        return await super().get(exchanges)

    async def aclose(self) -> None:
        await self._provider.aclose()


def _prompt(exchange: Exchange) -> Prompt:
    return Prompt(prompt_id=exchange.question_id, text=exchange.turns[0] if exchange.turns else exchange.prompt)


def name_of(options: PlaceOptions) -> tuple[str, Mapping[str, str] | None]:
    """The new model's name, and its answers if they come from a file."""
    if options.leave_one_out:
        return options.model, None
    model = options.model
    if Path(model).is_file():
        name, answers = read_answers(Path(model))
        return options.name or name, answers
    if model.endswith(".jsonl") and not model.startswith("scripted/"):
        raise OptionError(f"there is no file {model} with the new model's answers. Check the path.")
    return options.name or str(parse_model_name(model)), None


def make_judge(options: PlaceOptions, asking: AskingParts, *, silent: bool = False) -> Judge:
    """The judge, shown both orders or one; a `silent` one is asked nothing and needs no key."""
    settings = JudgeSettings(model=options.judge, orders="both" if options.swap == "both" else "forward")
    return judge_by_name(settings, folder=options.cache_dir, asking=asking, base_url=options.base_url, silent=silent)


def make_answers(
    plan: PlacementPlan, known: Mapping[str, str] | None, asking: AskingParts, *, silent: bool = False
) -> Answers:
    """The source of the new model's answers; a `silent` one is asked nothing and needs no key."""
    options = plan.options
    if options.leave_one_out:
        cells = plan.arena.cells
        own = np.flatnonzero(np.array(cells.models)[cells.model] == plan.model)
        exchanges = plan.arena.exchanges(own.tolist())
        return Answers({exchange.question_id: exchange.answer for exchange in exchanges})
    if known is not None:
        return Answers(known)
    name = parse_model_name(options.model)
    base_url = options.model_base_url or name.shared_address(options.base_url, [options.judge])
    provider = (
        SilentProvider(name.provider)
        if silent
        else make_provider(
            name,
            base_url=base_url,
            env=load_env((Path(),)),
            folders=(Path(),),
            headers=asking.headers if base_url is not None and base_url == options.base_url else None,
            timeout_seconds=asking.settings.timeout_seconds,
        )
    )
    suffix = "" if options.turns == "first" else "-all-turns"
    settings = EntrantSettings(
        entrant_id=re.sub(r"[^\w.+-]+", "-", plan.model) + suffix, model=name.model, max_tokens=options.max_tokens
    )
    arena = re.sub(r"[^\w.+-]+", "-", plan.arena.name)
    return ModelAnswers(settings, provider, options.cache_dir / "answers" / arena, asking)
