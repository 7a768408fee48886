"""A language model as judge: what is open, how it is asked, and how replies become saved verdicts."""

from __future__ import annotations

import hashlib
import time
from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import chain, islice
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from tiltyard.errors import JudgingError, OptionError
from tiltyard.judging.cache import ReplyLengths, VerdictCache
from tiltyard.judging.judge import JudgingOptions, JudgingStats, OnSettled, OnVerdict, Verdicts
from tiltyard.judging.plan import Case, JudgingPlan, LazySequence, Rubric
from tiltyard.judging.questions import make_requests
from tiltyard.judging.reading import MIN_CHOICE_MASS, ParsedReply, ReplyForm, check_form, read_reply
from tiltyard.judging.records import Verdict, VerdictLabel
from tiltyard.llm.asking import Ask, AskingParts, GroupTotals, Progress, RunningTotals
from tiltyard.llm.direct import GIVE_UP_AFTER, FailureSummary, Trial
from tiltyard.llm.journal import Journal
from tiltyard.llm.keys import redact
from tiltyard.llm.provider import TAKES_IMAGES, BatchProvider, Provider, Reply, Request, SharedFingerprints, Usage
from tiltyard.llm.runner import ask_all

KEY_BYTES = 32
"""A key is a SHA-256, written in 64 hexadecimal digits."""


LONGER = 2
"""Each time a reply is cut off, the next one may be this many times as long."""


class Questions:
    """The keys of all questions of a plan; the questions themselves are made when they are needed.

    A million cases then take a hundred megabytes, not the ten gigabytes that their texts would take twice over.
    """

    def __init__(self, plan: JudgingPlan, settings: JudgeSettings) -> None:
        self.plan = plan
        self.settings = settings
        self.cases: dict[str, Sequence[Case]] = {name: plan.cases_and_canaries(name) for name in plan.dimensions}
        self.keys: dict[str, QuestionKeys] = {}
        self._last: tuple[str, int, tuple[Request, Request]] | None = None
        self.orders = 2 if settings.orders == "both" else 1
        self.with_images: str | None = None
        """A prompt with images, if there is one."""
        for dimension, cases in self.cases.items():
            made = (self._make(case, plan.rubrics[dimension])[: self.orders] for case in cases)
            key_of = SharedFingerprints().of
            keys = (with_repeats([key_of(request) for request in pair], settings.repeats) for pair in made)
            self.keys[dimension] = QuestionKeys(keys, self.orders * settings.repeats)

    def make(self, dimension: str, place: int) -> tuple[Request, Request]:
        """Both requests about a case; the last ones are kept, since both orders are asked one after the other."""
        if self._last is None or self._last[:2] != (dimension, place):
            made = self._make(self.cases[dimension][place], self.plan.rubrics[dimension])
            self._last = (dimension, place, made)
        return self._last[2]

    def _make(self, case: Case, rubric: Rubric) -> tuple[Request, Request]:
        if case.images:
            self.with_images = case.prompt.prompt_id
        return make_requests(
            case.prompt,
            case.response_a,
            case.response_b,
            rubric,
            judge_model=self.settings.model,
            max_tokens=self.settings.max_tokens,
            options=self.settings.options,
            reply=self.settings.reply,
            grades=self.settings.grades,
            images=case.images,
        )


def with_repeats(keys: list[str], repeats: int) -> list[str]:
    """The keys of a case's questions, repeat by repeat.

    The first time a question is asked its key is the fingerprint of what is sent; a repeat sends the same under a key
    of its own, so that it is a new reply and not the one that is cached.
    """
    more = (
        hashlib.sha256(f"{key} repeat {number}".encode()).hexdigest()
        for number in range(2, repeats + 1)
        for key in keys
    )
    return [*keys, *more]


@dataclass(frozen=True, slots=True)
class Pending:
    """One question that is still open: its position in the plan, and how often it may be asked in total.

    `repeat` is the number of the repeat, 1 for the first time the question is asked.
    """

    dimension: str
    place: int
    swapped: bool
    limit: int
    repeat: int


_OPEN, _CLOSED = 1, 2


class OpenQuestions(Mapping[str, Pending]):
    """The questions that have no readable verdict and may still be asked, by key, in the plan's order.

    Cases with the same texts share a key, and are asked once. Memory holds one byte per question, and the limits of the
    few that may be asked more often than others.
    """

    def __init__(self, questions: Questions) -> None:
        self._keys = questions.keys
        self._orders = questions.orders
        self._limit = questions.settings.max_attempts
        self._open = {name: bytearray(keys.n_questions) for name, keys in self._keys.items()}
        self._limits: dict[str, int] = {}
        self._length = 0
        self.left = dict.fromkeys(self._keys, 0)
        """How many questions of each dimension have not been closed."""

    def add(self, dimension: str, number: int, key: str, limit: int) -> None:
        """A question that is open."""
        self._open[dimension][number] = _OPEN
        self._length += 1
        self.left[dimension] += 1
        if limit != self._limit:
            self._limits[key] = limit

    def add_all(self, dimension: str, numbers: NDArray[np.intp]) -> None:
        """Questions that are open and may be asked as often as usual."""
        np.frombuffer(self._open[dimension], np.uint8)[numbers] = _OPEN
        self._length += len(numbers)
        self.left[dimension] += len(numbers)

    def close(self, question: Pending) -> None:
        """A question is answered, or has failed for good; closing it again changes nothing."""
        which = (question.repeat - 1) * self._orders + question.swapped
        number = question.place * self._keys[question.dimension].per_case + which
        if self._open[question.dimension][number] == _OPEN:
            self._open[question.dimension][number] = _CLOSED
            self.left[question.dimension] -= 1

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[str]:
        return chain.from_iterable(map(self.of, self._keys))

    def of(self, dimension: str) -> Iterator[str]:
        """The keys of one dimension that are open."""
        keys, is_open = self._keys[dimension], self._open[dimension]
        number = is_open.find(_OPEN)
        while number >= 0:
            yield keys.key(number)
            number = is_open.find(_OPEN, number + 1)

    def __getitem__(self, key: str) -> Pending:
        for dimension, keys in self._keys.items():
            number = keys.number_of(key)
            if number is not None and self._open[dimension][number]:
                place, which = divmod(number, keys.per_case)
                repeat, swapped = divmod(which, self._orders)
                return Pending(dimension, place, bool(swapped), self._limits.get(key, self._limit), repeat + 1)
        raise KeyError(key)


def open_questions(
    questions: Questions, caches: dict[str, VerdictCache], *, retry_failed: bool = False
) -> OpenQuestions:
    """What is still to be asked of these questions; with `retry_failed` also what failed for good.

    If the judge has answered none of them, the fault was not in the questions: those that failed for good are asked
    again too.
    """
    pending = OpenQuestions(questions)

    there = {name: caches[name].find_all(keys.heads()) >= 0 for name, keys in questions.keys.items()}
    ask_again = retry_failed or not any(answered.any() for answered in there.values())
    for dimension, keys in questions.keys.items():
        cache = caches[dimension]
        unanswered = np.flatnonzero(keys.first_of_equals() & ~there[dimension])
        if not cache.any_failed:
            pending.add_all(dimension, unanswered)
            continue
        for number in unanswered.tolist():
            key = keys.key(number)
            asked = cache.attempts(key)
            limit = questions.settings.max_attempts + (len(counted(asked)) if ask_again else 0)
            pointless = any(attempt.final for attempt in asked)
            if ask_again or not (pointless or len(counted(asked)) >= limit):
                pending.add(dimension, number, key, limit)
    return pending


def counted(attempts: Iterable[Verdict]) -> list[Verdict]:
    """The attempts that the judge itself failed. A transport error is not counted: the next run may try again."""
    return [attempt for attempt in attempts if attempt.verdict is not VerdictLabel.ERROR]


def never_failed_first(keys: Iterable[str], caches: Mapping[str, VerdictCache]) -> Iterator[str]:
    """These keys, earlier failures last, so that a run that gave up does not stop at the same ones again."""
    failed = []
    for key in keys:
        if any(cache.attempts_made(key) for cache in caches.values()):
            failed.append(key)
        else:
            yield key
    yield from failed


def make_asks(
    keys: Iterable[str], pending: OpenQuestions, questions: Questions, caches: dict[str, VerdictCache]
) -> Iterator[Ask]:
    """The asks of open questions, generated lazily; one that was asked before continues where it stopped."""
    for cache in caches.values():
        cache.refresh()
    for key in keys:
        where = pending[key]
        attempts = caches[where.dimension].attempts(key)
        # Another process may have answered it meanwhile: `ask_all` waits for the lock before it takes the first ask.
        if key in caches[where.dimension] or len(counted(attempts)) >= where.limit:
            pending.close(where)
            continue
        request = questions.make(where.dimension, where.place)[where.swapped]
        asked = counted(attempts)
        cut_off = sum(attempt.verdict is VerdictLabel.TRUNCATED for attempt in asked)
        if cut_off:
            request = msgspec.structs.replace(request, max_tokens=request.max_tokens * LONGER**cut_off)
        yield Ask(key, request, where.dimension, attempt=len(asked) + 1)


def first_ask(key: str, pending: OpenQuestions, questions: Questions) -> Ask:
    """The first ask of an open question."""
    where = pending[key]
    return Ask(key, questions.make(where.dimension, where.place)[where.swapped], where.dimension)


class VerdictSink:
    """Saves every reply as a verdict in the cache of its dimension, and returns what to ask next.

    A reply delivered twice, because of a crash between saving it and closing its batch, changes nothing.
    """

    def __init__(
        self,
        questions: Questions,
        pending: OpenQuestions,
        cache_of: Callable[[str], VerdictCache],
        *,
        judge_model: str,
        now: Callable[[], float],
        on_verdict: OnVerdict | None,
        trial: Trial,
        on_closed: Callable[[], None] | None = None,
    ) -> None:
        self._questions = questions
        self._pending = pending
        self._cache_of = cache_of
        self._judge_model = judge_model
        self._now = now
        self._on_verdict = on_verdict
        self._trial = trial
        self._on_closed = on_closed

    def __call__(self, ask: Ask, reply: Reply) -> Ask | None:
        """Keep one reply."""
        where = self._pending.get(ask.key)
        further = self._keep(ask, reply, where)
        if further is None and where is not None:
            self._pending.close(where)
            if self._on_closed is not None and not self._pending.left[where.dimension]:
                self._on_closed()
        return further

    def _keep(self, ask: Ask, reply: Reply, where: Pending | None) -> Ask | None:
        cache = self._cache_of(ask.group)
        if ask.key in cache:
            return None
        verdict = self._read(ask, reply, where)
        if not any(_same(verdict, attempt) for attempt in cache.attempts(ask.key)):
            cache.add(verdict)
            if self._on_verdict is not None and where is not None:
                self._on_verdict(self._questions.cases[where.dimension][where.place].matchup, verdict)
        further = _follow_up(ask, verdict, where)
        if verdict.verdict.readable:
            self._trial.succeeded()
        elif further is None:
            self._trial.failed(verdict.verdict.value, verdict.error or "", verdict.reasoning)
        return further

    def _read(self, ask: Ask, reply: Reply, where: Pending | None) -> Verdict:
        settings = self._questions.settings
        parsed = read_reply(
            reply,
            ask.request.choices,
            structured=ask.request.structured,
            grades=settings.grades,
            min_choice_mass=settings.min_choice_mass,
        )
        rubric = self._questions.plan.rubrics.get(ask.group)
        return Verdict(
            cache_key=ask.key,
            rubric_version=rubric.version if rubric else "",
            judge_model=self._judge_model,
            position_swap=where is not None and where.swapped,
            verdict=parsed.label,
            reasoning=_reasoning(reply, parsed),
            timestamp=datetime.fromtimestamp(self._now(), UTC).isoformat(timespec="seconds"),
            **_tokens(reply.usage),
            attempts=ask.attempt,
            batched=reply.batched,
            error=None if parsed.why is None else redact(parsed.why),
            score_a=parsed.score_a,
            choice_mass=msgspec.UNSET if parsed.choice_mass is None else parsed.choice_mass,
            grade=msgspec.UNSET if parsed.grade is None else parsed.grade,
            final=reply.error is not None and reply.final,
            repeat=where.repeat if where is not None and where.repeat > 1 else msgspec.UNSET,
        )


def _reasoning(reply: Reply, parsed: ParsedReply) -> str:
    """What the judge wrote: its reasoning beside a verdict that was read from JSON, else everything."""
    if parsed.reasoning is not None:
        return parsed.reasoning
    whole = "\n".join([part for part in (reply.text, *(call.arguments for call in reply.calls)) if part])
    return whole if reply.error is None else redact(whole)


def _tokens(usage: Usage | None) -> dict[str, int | None]:
    """The tokens of a verdict; None each where the provider did not state them."""
    if usage is None:
        return dict.fromkeys(Usage.__struct_fields__)
    return msgspec.structs.asdict(usage)


def _follow_up(ask: Ask, verdict: Verdict, where: Pending | None) -> Ask | None:
    """One more ask, if the judge failed and may be asked again. Retries after transport errors are handled in `llm`."""
    if verdict.verdict.readable or verdict.verdict is VerdictLabel.ERROR or where is None or ask.attempt >= where.limit:
        return None
    request = ask.request
    if verdict.verdict is VerdictLabel.TRUNCATED:
        request = msgspec.structs.replace(request, max_tokens=request.max_tokens * LONGER)
    return replace(ask, request=request, attempt=ask.attempt + 1)


def _same(verdict: Verdict, attempt: Verdict) -> bool:
    return (verdict.attempts, verdict.verdict, verdict.reasoning, verdict.error) == (
        attempt.attempts,
        attempt.verdict,
        attempt.reasoning,
        attempt.error,
    )


class QuestionKeys(LazySequence[tuple[str, ...]]):
    """By case, the keys of its questions: forward first, then swapped where both orders are asked, then the repeats.

    A question's number is `per_case` times the case's number, plus its place among them. Cases with the same texts
    share keys; `number_of` then gives the first.
    """

    def __init__(self, pairs: Iterable[Sequence[str]], per_case: int) -> None:
        self.per_case = per_case
        self._bytes = bytearray()
        for pair in pairs:
            for key in pair:
                self._bytes += bytes.fromhex(key)
        heads = np.frombuffer(self._bytes, ">u8")[:: KEY_BYTES // 8].astype(np.uint64)
        order = np.argsort(heads, kind="stable")
        self._heads = array("Q", heads[order].tobytes())
        self._order = array("I", order.astype(np.uint32).tobytes())
        super().__init__(len(self._order) // per_case, self._pair)

    @property
    def n_questions(self) -> int:
        """How many questions there are, counting those that share a key separately."""
        return len(self._order)

    def key(self, number: int) -> str:
        """The key of a question."""
        return self._raw(number).hex()

    def number_of(self, key: str) -> int | None:
        """The first question with this key, or None."""
        try:
            raw = bytes.fromhex(key)
        except ValueError:
            return None
        head = int.from_bytes(raw[:8])
        place = bisect_left(self._heads, head)
        while place < len(self._heads) and self._heads[place] == head:
            if self._raw(self._order[place]) == raw:
                return self._order[place]
            place += 1
        return None

    def heads(self) -> NDArray[np.uint64]:
        """The first 128 bits of every key, as two numbers."""
        return np.frombuffer(self._bytes, ">u8").reshape(-1, KEY_BYTES // 8)[:, :2].astype(np.uint64)

    def first_of_equals(self) -> NDArray[np.bool_]:
        """For each question, whether no question before it has its key."""
        first = np.ones(self.n_questions, dtype=bool)
        heads = np.frombuffer(self._heads, np.uint64)
        for place in np.flatnonzero(heads[1:] == heads[:-1]).tolist():
            number = self._order[place + 1]
            first[number] = self.number_of(self.key(number)) == number
        return first

    def _raw(self, number: int) -> bytes:
        return bytes(self._bytes[KEY_BYTES * number : KEY_BYTES * (number + 1)])

    def _pair(self, place: int) -> tuple[str, ...]:
        first = self.per_case * place
        return tuple(self.key(number) for number in range(first, first + self.per_case))


Orders = Literal["both", "forward"]
"""The orders in which a judge sees the two answers; `forward` shows entrant_a's first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeSettings:
    """Settings of a judge."""

    model: str
    """What is sent to the provider."""
    name: str | None = None
    """The judge's name in verdicts; – means `provider/model`."""
    max_tokens: int = 1024
    """Token limit of the first attempt; doubled after a truncated reply."""
    max_attempts: int = 3
    """How many times a question may be asked."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Further parameters for the provider, sent unchanged (`temperature`, `seed`, …)."""
    reply: ReplyForm = "reasoned"
    """`reasoned`: a few sentences and a verdict line. `label`: one word, with its probabilities if there are any.
    `choice`: the letter of an option, for very small judges. `json`: a JSON object, by the provider's JSON schemas.
    `tool`: the same object, as a tool call."""
    grades: bool = False
    """Whether a verdict says by how much an answer is better (`A>>B`, `A>B`, `A=B`, …): a soft score."""
    images: bool | None = None
    """Whether the judge takes images; None if its provider is known to (`anthropic`, `openai`, `gemini`)."""
    orders: Orders = "both"
    """`both`, or `forward`: entrant_a's answer first only, which hides position bias."""
    repeats: int = 1
    """How many times every question is asked, in each order; the verdict that is given most often counts."""
    min_choice_mass: float = MIN_CHOICE_MASS
    """Minimum total probability of the allowed words, if the judge gives probabilities; below it a reply is noise and
    `unparsed`."""

    def __post_init__(self) -> None:
        if self.orders not in ("both", "forward"):
            raise OptionError(f"orders of the judge is {self.orders!r}; it is `both` or `forward`.")
        check_form(self.reply, self.grades, dict(self.options))
        if not 0 <= self.min_choice_mass <= 1:
            raise OptionError(f"min_choice_mass of the judge is {self.min_choice_mass}; it is between 0 and 1.")
        for name in ("max_tokens", "max_attempts", "repeats"):
            if getattr(self, name) < 1:
                raise OptionError(f"{name} of the judge is {getattr(self, name)}; it must be at least 1.")


class LanguageModelJudge:
    """Judges by asking a language model. `folder` holds its verdict caches and the journal of its batches.

    Parameters:
        provider: Who is asked.
        settings: The judge's settings.
        folder: Its verdict caches and the journal of its batches.
        asking: Prices, budget, settings and callbacks of asking.
    """

    def __init__(self, provider: Provider, settings: JudgeSettings, *, folder: str | Path, asking: AskingParts) -> None:
        self._provider = provider
        self._settings = settings
        self._folder = Path(folder)
        self._asking = asking
        self._caches: dict[str, VerdictCache] = {}
        self._questions: Questions | None = None
        self._trial = judge_trial(self.name, self._folder)
        self._pace = asking.settings.pace(asking.now)

    @property
    def name(self) -> str:
        """The name recorded in verdicts as `judge_model`."""
        return self._settings.name or f"{self._provider.name}/{self._settings.model}"

    @property
    def both_orders(self) -> bool:
        """Whether every case is asked in both orders."""
        return self._settings.orders == "both"

    async def aclose(self) -> None:
        """Close the provider's connections."""
        await self._provider.aclose()

    def cache(self, dimension: str) -> VerdictCache:
        """The verdict cache of a dimension."""
        if dimension not in self._caches:
            self._caches[dimension] = VerdictCache(self._folder, dimension)
        return self._caches[dimension]

    def continue_from(self, other: LanguageModelJudge) -> None:
        """Use the questions that another judge has made, such as one that only quoted; they take a while to make.

        Parameters:
            other: A judge with the same settings and folder; of any other nothing is taken.
        """
        if (other._settings, other._folder) == (self._settings, self._folder):
            self._questions, self._caches = other._questions, other._caches

    def pending(self, plan: JudgingPlan, *, retry_failed: bool = False) -> Iterable[Ask]:
        """What `judge` would ask first, generated lazily: for a quote before anything is sent."""
        questions, caches = self._prepare(plan)
        pending = open_questions(questions, caches, retry_failed=retry_failed)
        return make_asks(pending, pending, questions, caches)

    def reply_lengths(self, plan: JudgingPlan) -> dict[str, ReplyLengths]:
        """By dimension, how long earlier replies were: this judge's own, else those of the judges before it.

        Without any reply, this is empty.
        """
        _, caches = self._prepare(plan)
        kept = {name: cache.reply_lengths for name, cache in caches.items()}
        mine = any(self.name in by_judge for by_judge in kept.values())
        lengths = {}
        for name, by_judge in kept.items():
            counted = [length for judge, length in by_judge.items() if judge == self.name or not mine]
            lengths[name] = sum(counted, ReplyLengths())
        return lengths if any(length.replies for length in lengths.values()) else {}

    async def judge(self, plan: JudgingPlan, options: JudgingOptions) -> Verdicts:
        """Ask what is not cached (nothing with `skip_judging`), and return what the cache then holds."""
        questions, caches = self._prepare(plan)
        hits = {name: int((caches[name].find_all(keys.heads()) >= 0).sum()) for name, keys in questions.keys.items()}
        if options.watch is not None:
            for name, count in hits.items():
                options.watch(Progress(name, cached=count))
        pending = (
            OpenQuestions(questions)
            if options.skip_judging
            else open_questions(questions, caches, retry_failed=options.retry_failed)
        )
        tally = RunningTotals(options.watch)
        verdicts = _CachedVerdicts(questions, caches)
        early = _EarlyResults(pending, verdicts, options.on_settled)
        sink = self._sink(questions, pending, options, early)
        try:
            early.look()
            await self._ask_open(_Asking(questions, pending, sink, tally, early), options)
        finally:
            if self._asking.tally is not None:
                self._asking.tally.add(tally.totals())
            for cache in self._caches.values():
                cache.flush()
        verdicts.count(hits, tally)
        return verdicts

    def _sink(
        self, questions: Questions, pending: OpenQuestions, options: JudgingOptions, early: _EarlyResults
    ) -> VerdictSink:
        return VerdictSink(
            questions,
            pending,
            self.cache,
            judge_model=self.name,
            now=self._asking.now,
            on_verdict=options.on_verdict,
            trial=self._trial,
            on_closed=early.look,
        )

    async def _ask_open(self, asking: _Asking, options: JudgingOptions) -> None:
        """Ask the open questions: the first of each dimension, then enough to see whether the judge answers, then all.

        With direct calls the trial holds back the other questions by itself, and dimensions are asked one after the
        other, so that the first is settled early. Batches need a separate trial batch, if requested; those of all
        dimensions are sent together.
        """
        left = _Left(asking.pending)
        self._trial.enough = options.give_up_after or GIVE_UP_AFTER
        first = left.take(_first_of_each(asking.questions, asking.pending)) if options.prewarm else []
        if first:
            await self._ask(first, asking)
        while left and options.give_up_after is not None and self._asks_in_batches:
            wanted = self._trial.failures_left()
            if wanted > len(left):
                break
            await self._ask(left.take(list(islice(never_failed_first(left, self._caches), int(wanted)))), asking)
        if self._asks_in_batches or self._has_open_batches:
            if left:
                await self._ask(left, asking)
            return
        for dimension, count in asking.pending.left.items():
            if count:
                await self._ask(left.of(dimension), asking)

    @property
    def _has_open_batches(self) -> bool:
        """Whether an earlier run left batches open, which are collected in one go."""
        return isinstance(self._provider, BatchProvider) and bool(Journal.in_folder(self._folder, time.time).open)

    @property
    def _asks_in_batches(self) -> bool:
        return isinstance(self._provider, BatchProvider) and self._asking.settings.batch is not False

    def _prepare(self, plan: JudgingPlan) -> tuple[Questions, dict[str, VerdictCache]]:
        """The questions of a plan (made once per plan), and the caches with what other processes have added."""
        caches = {dimension: self.cache(dimension) for dimension in plan.dimensions}
        for cache in caches.values():
            cache.refresh()
        if self._questions is None or self._questions.plan is not plan:
            self._questions = Questions(plan, self._settings)
            self._check_images(self._questions)
        return self._questions, caches

    def _check_images(self, questions: Questions) -> None:
        """Refuse images before anything is asked, if the judge cannot be expected to see them."""
        known = self._provider.name in TAKES_IMAGES
        if questions.with_images is not None and not (
            known if self._settings.images is None else self._settings.images
        ):
            self._questions = None
            raise JudgingError(
                f"prompt {questions.with_images!r} or an answer to it has images, and {self.name} is not known to take "
                "any. Use a judge that does, or, if this one does, set judge.images to true."
            )

    async def _ask(self, keys: Iterable[str], asking: _Asking) -> None:
        questions, pending = asking.questions, asking.pending
        await ask_all(
            make_asks(never_failed_first(keys, self._caches), pending, questions, self._caches),
            self._provider,
            asking.sink,
            replace(self._asking, tally=asking.tally),
            folder=self._folder,
            recall=lambda key: first_ask(key, pending, questions),
            trial=self._trial,
            pace=self._pace,
        )


@dataclass(frozen=True, slots=True)
class _Asking:
    """What all asks of one call have in common."""

    questions: Questions
    pending: OpenQuestions
    sink: VerdictSink
    tally: RunningTotals
    early: _EarlyResults


class _EarlyResults:
    """Announces each dimension whose questions are all closed, once, while those of another are open."""

    def __init__(self, pending: OpenQuestions, verdicts: Verdicts, announce: OnSettled | None) -> None:
        self._pending = pending
        self._verdicts = verdicts
        self._announce = announce
        self._waiting = list(pending.left)

    def look(self) -> None:
        if self._announce is None or not any(self._pending.left.values()):
            return
        for dimension in [name for name in self._waiting if not self._pending.left[name]]:
            self._waiting.remove(dimension)
            self._announce(dimension, self._verdicts)


def _first_of_each(questions: Questions, pending: OpenQuestions) -> list[str]:
    """The first question of each dimension, if it is open: it makes the provider cache the rubric for the others."""
    firsts = (keys.key(0) for keys in questions.keys.values() if keys)
    return [key for key in firsts if key in pending]


class _Left(Collection[str]):
    """The keys of open questions not taken yet, in order."""

    def __init__(self, pending: OpenQuestions) -> None:
        self._pending = pending
        self._taken: set[str] = set()

    def take(self, keys: list[str]) -> list[str]:
        """These keys, now marked as taken."""
        self._taken.update(keys)
        return keys

    def of(self, dimension: str) -> Iterator[str]:
        return (key for key in self._pending.of(dimension) if key not in self._taken)

    def __len__(self) -> int:
        return len(self._pending) - len(self._taken)

    def __iter__(self) -> Iterator[str]:
        return (key for key in self._pending if key not in self._taken)

    def __contains__(self, key: object) -> bool:
        return key in self._pending and key not in self._taken


class _CachedVerdicts:
    """What the caches hold on the questions of a plan."""

    def __init__(self, questions: Questions, caches: dict[str, VerdictCache]) -> None:
        self._keys = questions.keys
        self._orders = questions.orders
        self._caches = caches
        self._places: dict[str, array[int]] = {}
        self.stats: dict[str, JudgingStats] = {}

    def count(self, hits: Mapping[str, int], tally: RunningTotals) -> None:
        self._places = {}
        groups = tally.totals().groups
        self.stats = {
            name: self._dimension_stats(name, hits[name], groups.get(name, GroupTotals())) for name in self._keys
        }

    def verdicts(self, dimension: str, place: int) -> tuple[Verdict, ...]:
        """The verdicts on a case: the readable ones, or the last failure."""
        asked = self._keys[dimension].per_case
        verdicts = [
            self._verdict(dimension, asked * place + which, swapped=which % self._orders == 1) for which in range(asked)
        ]
        return tuple(verdict for verdict in verdicts if verdict is not None)

    def _places_of(self, dimension: str) -> array[int]:
        """Where the readable verdict of each question is in its cache, or -1; found once, when all are answered."""
        if dimension not in self._places:
            places = self._caches[dimension].find_all(self._keys[dimension].heads())
            self._places[dimension] = array("q", places.tobytes())
        return self._places[dimension]

    def _verdict(self, dimension: str, number: int, *, swapped: bool) -> Verdict | None:
        cache, place = self._caches[dimension], self._places_of(dimension)[number]
        if place >= 0:
            verdict: Verdict | None = cache.read(place)
        else:
            attempts = cache.attempts(self._keys[dimension].key(number))
            verdict = attempts[-1] if attempts else None
        # Cases with the same texts share a verdict, and the swapped order of one may be the forward order of the other.
        if verdict is None or verdict.position_swap == swapped:
            return verdict
        return msgspec.structs.replace(verdict, position_swap=swapped)

    def _dimension_stats(self, dimension: str, hits: int, totals: GroupTotals) -> JudgingStats:
        cache, pairs = self._caches[dimension], self._keys[dimension]
        failures: Counter[str] = Counter()
        missing = 0
        places = np.frombuffer(self._places_of(dimension), np.int64)
        for number in np.flatnonzero(places < 0).tolist():
            attempts = cache.attempts(pairs.key(number))
            if attempts:
                failures[attempts[-1].verdict.value] += 1
            else:
                missing += 1
        return JudgingStats(
            cases=len(pairs),
            questions=pairs.n_questions,
            cache_hits=hits,
            fresh_calls=totals.replies,
            usage=totals.usage,
            failures=dict(failures),
            missing=missing,
            cost=totals.cost,
            replies_without_usage=totals.without_usage,
        )


_ADVICE = {
    VerdictLabel.UNPARSED: "Use a judge that follows instructions, or look at the rubric",
    VerdictLabel.TRUNCATED: "Allow the judge more tokens",
    VerdictLabel.REFUSED: "Use another judge, or look at the rubric and the prompts",
    VerdictLabel.ERROR: "Check the judge's name, address, options and account",
}


def judge_trial(judge: str, folder: Path) -> Trial:
    """The trial of a judge whose verdicts are kept in `folder`."""

    def give_up(failures: FailureSummary) -> JudgingError:
        return JudgingError(
            f"{judge} gave no readable verdict on any of the first {failures.total} questions; {failures.count} ended "
            f"as {failures.name}: {failures.why}{failures.quoted}. {_ADVICE[VerdictLabel(failures.name)]}, then "
            f"run again: they are asked once more. What came is kept in {folder}."
        )

    return Trial(give_up)
