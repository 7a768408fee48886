"""From cases to asks, and from replies to saved verdicts: what is open, how often it is asked, what comes next.

The keys of all questions are held in a few bytes each (`QuestionKeys`); the questions are made when they are needed.
"""

from __future__ import annotations

import hashlib
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import chain
from typing import TYPE_CHECKING, overload

import msgspec
import numpy as np
from numpy.typing import NDArray

from tiltyard.judging.cache import VerdictCache
from tiltyard.judging.judge import OnVerdict
from tiltyard.judging.plan import Case, JudgingPlan
from tiltyard.judging.questions import make_requests
from tiltyard.judging.reading import ParsedReply, read_reply
from tiltyard.judging.records import Verdict, VerdictLabel
from tiltyard.judging.rubric import Rubric
from tiltyard.llm.asking import Ask
from tiltyard.llm.keys import redact
from tiltyard.llm.records import Reply, Request, SharedFingerprints, Usage
from tiltyard.llm.trial import Trial

if TYPE_CHECKING:
    from tiltyard.judging.language_model import JudgeSettings

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
    found = OpenQuestions(questions)

    there = {name: caches[name].find_all(keys.heads()) >= 0 for name, keys in questions.keys.items()}
    ask_again = retry_failed or not any(answered.any() for answered in there.values())
    for dimension, keys in questions.keys.items():
        cache = caches[dimension]
        unanswered = np.flatnonzero(keys.first_of_equals() & ~there[dimension])
        if not cache.any_failed:
            found.add_all(dimension, unanswered)
            continue
        for number in unanswered.tolist():
            key = keys.key(number)
            asked = cache.attempts(key)
            limit = questions.settings.max_attempts + (len(counted(asked)) if ask_again else 0)
            pointless = any(attempt.final for attempt in asked)
            if ask_again or not (pointless or len(counted(asked)) >= limit):
                found.add(dimension, number, key, limit)
    return found


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


class QuestionKeys(Sequence[tuple[str, ...]]):
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

    @property
    def n_questions(self) -> int:
        """How many questions there are, counting those that share a key separately."""
        return len(self._order)

    def __len__(self) -> int:
        return len(self._order) // self.per_case

    @overload
    def __getitem__(self, place: int) -> tuple[str, ...]: ...
    @overload
    def __getitem__(self, place: slice) -> list[tuple[str, ...]]: ...
    def __getitem__(self, place: int | slice) -> tuple[str, ...] | list[tuple[str, ...]]:
        numbers = range(len(self))[place]
        return self._pair(numbers) if isinstance(numbers, int) else [self._pair(number) for number in numbers]

    def __iter__(self) -> Iterator[tuple[str, ...]]:
        return map(self._pair, range(len(self)))

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
