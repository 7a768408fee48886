"""A language model as judge: what is open, how it is asked, and how replies become saved verdicts."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray

from tiltyard.errors import JudgingError
from tiltyard.judge.llm import (
    GIVE_UP_AFTER,
    JOURNAL_FILE,
    TAKES_IMAGES,
    Ask,
    AskingParts,
    BatchProvider,
    FailureSummary,
    GroupTotals,
    Progress,
    Provider,
    Reply,
    Request,
    SharedFingerprints,
    Totals,
    Trial,
    Usage,
    ask_all,
    list_batches,
    redact,
)
from tiltyard.judge.verdicts.cache import Digests, ReplyLengths, VerdictCache
from tiltyard.judge.verdicts.plan import Case, JudgingPlan, LazySequence
from tiltyard.judge.verdicts.questions import JudgeSettings, Question, make_request, make_requests
from tiltyard.judge.verdicts.reading import read_reply
from tiltyard.judge.verdicts.records import Verdict, VerdictLabel
from tiltyard.judge.verdicts.scoring import read_scores_of
from tiltyard.judge.verdicts.verdicts import JudgingOptions, JudgingStats, OnVerdict, Verdicts

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
        self._last: tuple[str, int, tuple[Request, ...]] | None = None
        self.with_images: str | None = None
        """A prompt with images, if there is one."""
        for scoring in plan.scoring.values():
            scoring.check(settings.reply)
        for dimension, cases in self.cases.items():
            orders = self.orders(dimension)
            made = (self._make(case, dimension)[:orders] for case in cases)
            key_of = SharedFingerprints().of
            keys = (with_repeats([key_of(request) for request in pair], settings.repeats) for pair in made)
            self.keys[dimension] = QuestionKeys(keys, orders * settings.repeats)

    def orders(self, dimension: str) -> int:
        """How many questions a case is: two orders of a pair, or one answer."""
        return 2 if self.settings.orders == "both" and dimension not in self.plan.scoring else 1

    def make(self, dimension: str, place: int) -> tuple[Request, ...]:
        """The requests about a case; the last ones are kept, since both orders are asked one after the other."""
        if self._last is None or self._last[:2] != (dimension, place):
            made = self._make(self.cases[dimension][place], dimension)
            self._last = (dimension, place, made)
        return self._last[2]

    def question(self, key: str) -> Question:
        """The question with this fingerprint, as a judge that is a function sees it."""
        dimension, number = self.locate(key)
        place, which = divmod(number, self.keys[dimension].per_case)
        swapped = which % self.orders(dimension)
        case, scoring = self.cases[dimension][place], self.plan.scoring.get(dimension)
        answers = (case.response_a,) if scoring else (case.response_a, case.response_b)
        request, rubric = self.make(dimension, place)[swapped], self.plan.rubrics[dimension]
        shown = answers[::-1] if swapped else answers
        return Question(key, case.matchup, bool(swapped), request, rubric, case.prompt, shown, scoring)

    def locate(self, key: str) -> tuple[str, int]:
        """The dimension of the question with this fingerprint, and its number there."""
        for dimension, keys in self.keys.items():
            number = keys.number_of(key)
            if number is not None:
                return dimension, number
        raise KeyError(key)

    def _make(self, case: Case, dimension: str) -> tuple[Request, ...]:
        if case.images:
            self.with_images = case.prompt.prompt_id
        rubric, scoring = self.plan.rubrics[dimension], self.plan.scoring.get(dimension)
        if scoring is not None:
            return (make_request(case, rubric, self.settings, scoring),)
        return make_requests(case, rubric, self.settings)


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
        self._keys = np.frombuffer(self._bytes, "S32")
        self._order = np.argsort(self._keys, kind="stable")
        super().__init__(len(self._keys) // per_case, self._pair)

    @property
    def n_questions(self) -> int:
        return len(self._keys)

    def key(self, number: int) -> str:
        return self._bytes[32 * number : 32 * (number + 1)].hex()

    def number_of(self, key: str) -> int | None:
        try:
            raw = np.array([bytes.fromhex(key)], "S32")
        except ValueError:
            return None
        place = int(np.searchsorted(self._keys, raw, sorter=self._order)[0])
        number = int(self._order[place]) if place < len(self._order) else -1
        return number if number >= 0 and self._keys[number] == raw[0] else None

    def digests(self) -> Digests:
        return np.frombuffer(self._bytes, "S16")[::2]

    def first_of_equals(self) -> NDArray[np.bool_]:
        """For each question, whether no question before it has its key."""
        first = np.ones(self.n_questions, dtype=bool)
        ordered = self._keys[self._order]
        first[self._order[1:]] = ordered[1:] != ordered[:-1]
        return first

    def _pair(self, place: int) -> tuple[str, ...]:
        first = self.per_case * place
        return tuple(self.key(number) for number in range(first, first + self.per_case))


class Pending(msgspec.Struct, frozen=True):
    """One question of a plan: its number and position there, and how often it may be asked in total.

    `repeat` is the number of the repeat, 1 for the first time the question is asked.
    """

    dimension: str
    number: int
    place: int
    swapped: bool
    limit: int
    repeat: int


class OpenQuestions:
    """The questions that have no readable verdict in these caches and may still be asked, and the asks about them.

    Cases with the same texts share a key, and are asked once. If the judge has answered none of the questions, the
    fault was not in them: those that failed for good are asked again too, as with `retry_failed`.
    """

    def __init__(self, questions: Questions, caches: Mapping[str, VerdictCache], *, retry_failed: bool = False) -> None:
        self.questions = questions
        self._caches = caches
        self._open = {name: np.zeros(keys.n_questions, dtype=bool) for name, keys in questions.keys.items()}
        self._limit = questions.settings.max_attempts
        self._limits: dict[str, int] = {}
        answered = {name: cache.find_all(questions.keys[name].digests()) >= 0 for name, cache in caches.items()}
        ask_again = retry_failed or not any(found.any() for found in answered.values())
        for name, cache in caches.items():
            keys = questions.keys[name]
            self._open[name] |= keys.first_of_equals() & ~answered[name]
            for number in np.flatnonzero(self._open[name]) if cache.any_failed else ():
                attempts = cache.attempts(key := keys.key(int(number)))
                asked = len(_counted(attempts))
                if ask_again and asked:
                    self._limits[key] = self._limit + asked
                elif not ask_again and (asked >= self._limit or any(attempt.final for attempt in attempts)):
                    self._open[name][number] = False
        self.left = {name: int(marks.sum()) for name, marks in self._open.items()}
        """How many questions of each dimension are open."""

    def __getitem__(self, key: str) -> Pending:
        dimension, number = self.questions.locate(key)
        place, which = divmod(number, self.questions.keys[dimension].per_case)
        repeat, swapped = divmod(which, self.questions.orders(dimension))
        return Pending(dimension, number, place, bool(swapped), self._limits.get(key, self._limit), repeat + 1)

    def keys(self, dimension: str | None = None) -> Iterator[str]:
        """The keys of open questions, in the plan's order, earlier failures last.

        So a run that gave up does not stop at the same ones again.
        """
        failed = []
        for name, marks in self._open.items():
            if dimension not in (None, name):
                continue
            for number in np.flatnonzero(marks):
                key = self.questions.keys[name].key(int(number))
                if self._caches[name].attempts_made(key):
                    failed.append(key)
                else:
                    yield key
        yield from failed

    def first_of_each(self) -> list[str]:
        """The first question of each dimension, if it is open: it makes the provider cache the rubric for others."""
        return [self.questions.keys[name].key(0) for name, marks in self._open.items() if marks[:1].any()]

    def close(self, question: Pending) -> None:
        """A question is answered, or has failed for good; closing it again changes nothing."""
        if self._open[question.dimension][question.number]:
            self._open[question.dimension][question.number] = False
            self.left[question.dimension] -= 1

    def asks(self, keys: Iterable[str]) -> Iterator[Ask]:
        """The asks of open questions, generated lazily; one that was asked before continues where it stopped."""
        for cache in self._caches.values():
            cache.refresh()
        for key in keys:
            where = self[key]
            cache = self._caches[where.dimension]
            asked = _counted(cache.attempts(key))
            # Another process may have answered it meanwhile: `ask_all` waits for the lock before it takes the first.
            if key in cache or len(asked) >= where.limit:
                self.close(where)
                continue
            request = self.questions.make(where.dimension, where.place)[where.swapped]
            cut_off = sum(attempt.verdict is VerdictLabel.TRUNCATED for attempt in asked)
            if cut_off:
                request = msgspec.structs.replace(request, max_tokens=request.max_tokens * LONGER**cut_off)
            yield Ask(key, request, where.dimension, attempt=len(asked) + 1)

    def first_ask(self, key: str) -> Ask:
        where = self[key]
        return Ask(key, self.questions.make(where.dimension, where.place)[where.swapped], where.dimension)


def _counted(attempts: Iterable[Verdict]) -> list[Verdict]:
    """The attempts that the judge itself failed. A transport error is not counted: the next run may try again."""
    return [attempt for attempt in attempts if attempt.verdict is not VerdictLabel.ERROR]


class VerdictSink:
    """Saves every reply as a verdict in the cache of its dimension, and returns what to ask next.

    A reply delivered twice, because of a crash between saving it and closing its batch, changes nothing.
    """

    def __init__(
        self,
        judge: LanguageModelJudge,
        pending: OpenQuestions,
        on_verdict: OnVerdict | None = None,
        on_closed: Callable[[], None] = lambda: None,
    ) -> None:
        self._judge = judge
        self._pending = pending
        self._on_verdict = on_verdict
        self._on_closed = on_closed

    def __call__(self, ask: Ask, reply: Reply) -> Ask | None:
        where = self._pending[ask.key]
        further = None
        if ask.key not in self._judge.cache(where.dimension):
            further = self._keep(ask, self._read(ask, reply, where), where)
        if further is None:
            self._pending.close(where)
            if not self._pending.left[where.dimension]:
                self._on_closed()
        return further

    def _keep(self, ask: Ask, verdict: Verdict, where: Pending) -> Ask | None:
        cache, trial = self._judge.cache(where.dimension), self._judge.trial
        kept = [(one.attempts, one.verdict, one.reasoning, one.error) for one in cache.attempts(ask.key)]
        if (verdict.attempts, verdict.verdict, verdict.reasoning, verdict.error) not in kept:
            cache.add(verdict)
            if self._on_verdict is not None:
                self._on_verdict(self._pending.questions.cases[where.dimension][where.place].matchup, verdict)
        if verdict.verdict.readable:
            trial.succeeded()
            return None
        # Retries after transport errors are handled in `llm`.
        if verdict.verdict is VerdictLabel.ERROR or ask.attempt >= where.limit:
            trial.failed(verdict.verdict.value, verdict.error or "", verdict.reasoning)
            return None
        request = ask.request
        if verdict.verdict is VerdictLabel.TRUNCATED:
            request = msgspec.structs.replace(request, max_tokens=request.max_tokens * LONGER)
        return msgspec.structs.replace(ask, request=request, attempt=ask.attempt + 1)

    def _read(self, ask: Ask, reply: Reply, where: Pending) -> Verdict:
        questions, settings = self._pending.questions, self._pending.questions.settings
        scoring = questions.plan.scoring.get(where.dimension)
        if scoring is not None:
            parsed = read_scores_of(reply, scoring, settings.reply, min_choice_mass=settings.min_choice_mass)
        else:
            parsed = read_reply(
                reply,
                ask.request.choices,
                structured=ask.request.structured,
                grades=settings.grades,
                min_choice_mass=settings.min_choice_mass,
            )
        reasoning = parsed.reasoning
        if reasoning is None:
            reasoning = "\n".join(part for part in (reply.text, *(call.arguments for call in reply.calls)) if part)
            reasoning = reasoning if reply.error is None else redact(reasoning)
        return Verdict(
            cache_key=ask.key,
            rubric_version=questions.plan.rubrics[where.dimension].version,
            judge_model=self._judge.name,
            position_swap=where.swapped,
            verdict=parsed.label,
            reasoning=reasoning,
            timestamp=datetime.fromtimestamp(self._judge.now(), UTC).isoformat(timespec="seconds"),
            **(msgspec.structs.asdict(reply.usage) if reply.usage else dict.fromkeys(Usage.__struct_fields__)),
            attempts=ask.attempt,
            batched=reply.batched,
            error=None if parsed.why is None else redact(parsed.why),
            score_a=parsed.score_a,
            choice_mass=msgspec.UNSET if parsed.choice_mass is None else parsed.choice_mass,
            grade=msgspec.UNSET if parsed.grade is None else parsed.grade,
            final=reply.error is not None and reply.final,
            repeat=where.repeat if where.repeat > 1 else msgspec.UNSET,
            scores=msgspec.UNSET if parsed.scores is None else parsed.scores,
        )


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
        self.now = asking.now
        self.trial = Trial(self._give_up)
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
        """Use the questions that another judge has made, such as one that only quoted; they take a while to make."""
        if (other._settings, other._folder) == (self._settings, self._folder):
            self._questions, self._caches = other._questions, other._caches

    def pending(self, plan: JudgingPlan, *, retry_failed: bool = False) -> Iterable[Ask]:
        """What `judge` would ask first, generated lazily: for a quote before anything is sent."""
        pending = OpenQuestions(*self._prepare(plan), retry_failed=retry_failed)
        return pending.asks(pending.keys())

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
        hits = {name: int((caches[name].find_all(keys.digests()) >= 0).sum()) for name, keys in questions.keys.items()}
        if options.watch is not None:
            for name, count in hits.items():
                options.watch(Progress(name, cached=count))
        asked = {} if options.skip_judging else caches
        pending = OpenQuestions(questions, asked, retry_failed=options.retry_failed)
        tally = Totals(options.watch)
        verdicts = _CachedVerdicts(questions, caches)
        unannounced = list(questions.keys)

        def announce() -> None:
            """Announce each dimension whose questions are all closed, once, while those of another are open."""
            if options.on_settled is None or not any(pending.left.values()):
                return
            for dimension in [name for name in unannounced if not pending.left[name]]:
                unannounced.remove(dimension)
                options.on_settled(dimension, verdicts)

        try:
            announce()
            sink = VerdictSink(self, pending, options.on_verdict, announce)
            await self._ask_open(pending, sink, replace(self._asking, tally=tally), options)
        finally:
            if self._asking.tally is not None:
                self._asking.tally.add(tally)
            self._sync()
        verdicts.count(hits, tally)
        return verdicts

    def _sync(self) -> None:
        for cache in self._caches.values():
            cache.flush()

    async def _ask_open(
        self, pending: OpenQuestions, sink: VerdictSink, asking: AskingParts, options: JudgingOptions
    ) -> None:
        """Ask the open questions: the first of each dimension, then enough to see whether the judge answers, then all.

        With direct calls the trial holds back the other questions by itself, and dimensions are asked one after the
        other, so that the first is settled early. Batches need a separate trial batch, if requested; those of all
        dimensions are sent together.
        """

        async def ask(keys: Iterable[str]) -> None:
            await ask_all(
                pending.asks(keys),
                self._provider,
                sink,
                asking,
                folder=self._folder,
                recall=pending.first_ask,
                trial=self.trial,
                pace=self._pace,
                sync=self._sync,
            )

        self.trial.enough = options.give_up_after or GIVE_UP_AFTER
        if options.prewarm and (first := pending.first_of_each()):
            await ask(first)
        in_batches = isinstance(self._provider, BatchProvider) and self._asking.settings.batch is not False
        while in_batches and options.give_up_after is not None and any(pending.left.values()):
            wanted = self.trial.failures_left()
            if wanted > sum(pending.left.values()):
                break
            await ask(list(islice(pending.keys(), int(wanted))))
        left_open = (
            isinstance(self._provider, BatchProvider)
            and (self._folder / JOURNAL_FILE).exists()
            and any(batch.state == "open" for batch in list_batches(self._folder))
        )
        if in_batches or left_open:  # what an earlier run left open is collected in one go
            if any(pending.left.values()):
                await ask(pending.keys())
            return
        for dimension, count in pending.left.items():
            if count:
                await ask(pending.keys(dimension))

    def _give_up(self, failures: FailureSummary) -> JudgingError:
        return JudgingError(
            f"{self.name} gave no readable verdict on any of the first {failures.total} questions; {failures.count} "
            f"ended as {failures.name}: {failures.why}{failures.quoted}. {_ADVICE[VerdictLabel(failures.name)]}, then "
            f"run again: they are asked once more. What came is kept in {self._folder}."
        )

    def _prepare(self, plan: JudgingPlan) -> tuple[Questions, dict[str, VerdictCache]]:
        """The questions of a plan (made once per plan), and the caches with what other processes have added."""
        caches = {dimension: self.cache(dimension) for dimension in plan.dimensions}
        for cache in caches.values():
            cache.refresh()
        if self._questions is None or self._questions.plan is not plan:
            questions, takes_images = Questions(plan, self._settings), self._settings.images
            if takes_images is None:
                takes_images = self._provider.name in TAKES_IMAGES
            if questions.with_images is not None and not takes_images:
                raise JudgingError(
                    f"prompt {questions.with_images!r} or an answer to it has images, and {self.name} is not known to "
                    "take any. Use a judge that does, or, if this one does, set judge.images to true."
                )
            self._questions = questions
        return self._questions, caches


class _CachedVerdicts:
    """What the caches hold on the questions of a plan."""

    def __init__(self, questions: Questions, caches: dict[str, VerdictCache]) -> None:
        self._questions = questions
        self._keys = questions.keys
        self._caches = caches
        self._places: dict[str, NDArray[np.int64]] = {}
        self.stats: dict[str, JudgingStats] = {}

    def count(self, hits: Mapping[str, int], tally: Totals) -> None:
        self._places = {}
        for dimension, keys in self._keys.items():
            cache, totals = self._caches[dimension], tally.groups.get(dimension, GroupTotals())
            failures: Counter[str] = Counter()
            missing = 0
            for number in np.flatnonzero(self._places_of(dimension) < 0):
                attempts = cache.attempts(keys.key(int(number)))
                if attempts:
                    failures[attempts[-1].verdict.value] += 1
                else:
                    missing += 1
            self.stats[dimension] = JudgingStats(
                cases=len(keys),
                questions=keys.n_questions,
                cache_hits=hits[dimension],
                fresh_calls=totals.replies,
                usage=totals.usage,
                failures=dict(failures),
                missing=missing,
                cost=totals.cost,
                replies_without_usage=totals.without_usage,
            )

    def verdicts(self, dimension: str, place: int) -> tuple[Verdict, ...]:
        """The verdicts on a case: the readable ones, or the last failure."""
        asked, orders = self._keys[dimension].per_case, self._questions.orders(dimension)
        verdicts = [
            self._verdict(dimension, asked * place + which, swapped=which % orders == 1) for which in range(asked)
        ]
        return tuple(verdict for verdict in verdicts if verdict is not None)

    def _places_of(self, dimension: str) -> NDArray[np.int64]:
        """Where the readable verdict of each question is in its cache, or -1; found once, when all are answered."""
        if dimension not in self._places:
            self._places[dimension] = self._caches[dimension].find_all(self._keys[dimension].digests())
        return self._places[dimension]

    def _verdict(self, dimension: str, number: int, *, swapped: bool) -> Verdict | None:
        cache, place = self._caches[dimension], int(self._places_of(dimension)[number])
        if place >= 0:
            verdict: Verdict | None = cache.read(place)
        else:
            attempts = cache.attempts(self._keys[dimension].key(number))
            verdict = attempts[-1] if attempts else None
        # Cases with the same texts share a verdict, and the swapped order of one may be the forward order of the other.
        if verdict is None or verdict.position_swap == swapped:
            return verdict
        return msgspec.structs.replace(verdict, position_swap=swapped)


_ADVICE = {
    VerdictLabel.UNPARSED: "Use a judge that follows instructions, or look at the rubric",
    VerdictLabel.TRUNCATED: "Allow the judge more tokens",
    VerdictLabel.REFUSED: "Use another judge, or look at the rubric and the prompts",
    VerdictLabel.ERROR: "Check the judge's name, address, options and account",
}
