"""A function as judge: `async def judge(question) -> str | Verdict`, asked, cached and counted like a language model.

    async def strict(question):
        first, second = question.answers
        return question.verdict("A" if len(first) < len(second) else "B", "the shorter one")

A string is read like a model's reply: a verdict line at its end, or nothing but the word or the score. A number, or
numbers by criterion, are scores where scores are asked for. If a function raises or returns anything else before it has
answered anything, the run ends: that is a bug. Later it is a failed verdict, never a tie or a score.
"""

from __future__ import annotations

import asyncio
import hashlib
import importlib
import inspect
import sys
import traceback
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Future
from contextvars import copy_context
from dataclasses import replace
from numbers import Real
from pathlib import Path
from threading import Thread
from typing import Any

import msgspec

from tiltyard.errors import JudgingError, OptionError
from tiltyard.judge.llm import AskingParts, Reply, Request, Usage, one_line
from tiltyard.judge.verdicts.language_model import LanguageModelJudge
from tiltyard.judge.verdicts.questions import JudgeSettings, Question
from tiltyard.judge.verdicts.records import Verdict
from tiltyard.judge.verdicts.scoring import ONE

Answer = str | float | Mapping[str, float] | Verdict
JudgeFunction = Callable[[Question], Awaitable[Answer] | Answer]
"""What judges a question. A plain function runs in a thread of its own."""

PREFIX = "python:"


class FunctionJudge(LanguageModelJudge):
    """Judges by calling a function.

    The name of the function and its own source text are part of every question's key, so a changed function is asked
    again; a change in what it calls is not seen: give the judge another `options.version` then.
    """

    def __init__(self, function: JudgeFunction, settings: JudgeSettings, *, folder: Path, asking: AskingParts) -> None:
        if not callable(function):
            raise OptionError(f"the judge is {type(function).__name__}, not a function of one question.")
        if settings.reply != "reasoned" or settings.grades:
            raise OptionError("a function is not told how to reply: leave out judge.reply and judge.grades.")
        name = function_name(function)
        known = replace(
            settings,
            model=name.removeprefix(PREFIX),
            name=name,
            options={**settings.options, "source": _source_digest(function)},
            images=True if settings.images is None else settings.images,
        )
        provider = FunctionProvider(function, self._question_of, asking.settings.timeout_seconds)
        once = replace(asking, settings=replace(asking.settings, max_resubmits=0))
        super().__init__(provider, known, folder=folder, asking=once)

    def _question_of(self, request: Request) -> Question:
        assert self._questions is not None
        return self._questions.question(request.fingerprint)


class FunctionProvider:
    """Asks a function; how a reply is kept and counted is the business of whoever asks."""

    def __init__(
        self, function: JudgeFunction, question_of: Callable[[Request], Question], timeout_seconds: float
    ) -> None:
        self._function = function
        self._question_of = question_of
        self._timeout_seconds = timeout_seconds
        self._answered = False

    @property
    def name(self) -> str:
        return "python"

    async def ask(self, request: Request) -> Reply:
        """What the function says of the question; an exception, a timeout or another type is an error."""
        question = self._question_of(request)
        failure = ""
        try:
            async with asyncio.timeout(self._timeout_seconds) as deadline:
                text = _as_text(await self._call(question), question)
        except (Exception, SystemExit) as error:
            last = traceback.extract_tb(error.__traceback__)[-1]
            place = "" if last.filename == __file__ else f" ({Path(last.filename).name}, line {last.lineno})"
            failure = f"{type(error).__name__}: {error}".rstrip(": ") + place
        if deadline.expired():
            return Reply(error=f"no answer within {self._timeout_seconds:g} seconds (timeout_seconds)", usage=Usage())
        if not failure:
            self._answered = True
            return Reply(text=text, usage=Usage())
        if self._answered:
            return Reply(error=failure, usage=Usage())
        raise JudgingError(
            f"{function_name(self._function)} failed on prompt {question.prompt.prompt_id!r}, before it judged "
            f"anything: {one_line(failure)} Mend it, then run again."
        )

    async def aclose(self) -> None:
        """Does nothing: there is no connection to close."""

    async def _call(self, question: Question) -> object:
        if inspect.iscoroutinefunction(self._function):
            return await self._function(question)
        ended: Future[tuple[Any, BaseException | None]] = Future()
        ended.set_running_or_notify_cancel()

        def run() -> None:
            try:
                ended.set_result((self._function(question), None))
            except BaseException as error:
                ended.set_result((None, error))

        # not a thread of a pool: it would wait for those that hang, and so would the end of the program
        Thread(target=copy_context().run, args=(run,), daemon=True).start()
        given, error = await asyncio.wrap_future(ended)
        if error is not None:
            raise error
        return await given if inspect.isawaitable(given) else given


def _as_text(given: object, question: Question) -> str:
    """What a function returned as the text that a judge would have written."""
    scoring = question.scoring
    if isinstance(given, Real | Mapping) and scoring is not None:
        given = question.verdict(given)  # type: ignore[arg-type]
    if isinstance(given, str):
        # nothing but the word or the score stands for the line with it
        return given if len(given.split()) != 1 else f"{'VERDICT' if scoring is None else 'SCORE'}: {given.strip()}"
    if not isinstance(given, Verdict):
        raise TypeError(f"it returned {type(given).__name__}, not a text, a Verdict, or a score where one is asked for")
    lines = [given.reasoning] if given.reasoning else []
    if scoring is None or given.scores is msgspec.UNSET:
        return "\n".join([*lines, f"VERDICT: {given.verdict.value}"])
    for name, score in given.scores.items():
        lines.append(f"{'SCORE' if name == ONE else f'SCORE {name}'}: {scoring.scale.word(score)}")
    return "\n".join(lines)


def function_name(function: JudgeFunction) -> str:
    """The name of a judge that is a function: `python:mypackage.judges:strict`."""
    module = getattr(function, "__module__", None) or type(function).__module__
    return f"{PREFIX}{module}:{getattr(function, '__qualname__', type(function).__qualname__)}"


def _source_digest(function: JudgeFunction) -> str:
    try:
        text = inspect.getsource(function)
    except (OSError, TypeError):
        code = getattr(function, "__code__", None)
        text = repr(function) if code is None else f"{code.co_code.hex()} {code.co_consts!r}"
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def import_function(name: str, look_in: Sequence[Path]) -> JudgeFunction:
    """The function that `mypackage.judges:strict` names, from an installed package or a module in these folders."""
    module_name, colon, attribute = name.partition(":")
    if not colon or not module_name or not attribute:
        raise OptionError(f"{PREFIX}{name}: write {PREFIX}MODULE:FUNCTION, such as {PREFIX}mypackage.judges:strict.")
    paths = [str(folder.resolve()) for folder in look_in]
    sys.path[:0] = paths
    try:
        function: Any = importlib.import_module(module_name)
        for part in attribute.split("."):
            function = getattr(function, part)
    except ImportError as error:
        raise OptionError(f"{PREFIX}{name}: cannot import {module_name} ({error}). Install it, or check it.") from None
    except AttributeError:
        raise OptionError(f"{PREFIX}{name}: {module_name} has no {attribute}. Check the name.") from None
    except (Exception, SystemExit) as error:
        raise OptionError(f"{PREFIX}{name}: importing it failed: {type(error).__name__}: {error}.") from None
    finally:
        for path in paths:
            sys.path.remove(path)
    return function  # type: ignore[no-any-return]
