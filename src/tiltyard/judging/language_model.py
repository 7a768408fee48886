"""A language model as judge: asks what is not cached, in one order or both, and saves every reply."""

from __future__ import annotations

import time
from array import array
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np

from tiltyard.errors import JudgingError, OptionError
from tiltyard.judging.cache import ReplyLengths, VerdictCache
from tiltyard.judging.judge import JudgingOptions, JudgingStats, OnSettled, Verdicts
from tiltyard.judging.open_questions import (
    OpenQuestions,
    Questions,
    VerdictSink,
    first_ask,
    make_asks,
    never_failed_first,
    open_questions,
)
from tiltyard.judging.plan import JudgingPlan
from tiltyard.judging.reading import MIN_CHOICE_MASS
from tiltyard.judging.records import Verdict, VerdictLabel
from tiltyard.judging.reply_forms import ReplyForm, check_form
from tiltyard.llm.accounting import GroupTotals, RunningTotals
from tiltyard.llm.asking import Ask, Progress
from tiltyard.llm.journal import Journal
from tiltyard.llm.provider import TAKES_IMAGES, BatchProvider, Provider
from tiltyard.llm.runner import AskingParts, ask_all
from tiltyard.llm.trial import GIVE_UP_AFTER, FailureSummary, Trial

Orders = Literal["both", "forward"]
"""The orders in which a judge sees the two answers; `forward` shows entrant_a's first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeSettings:
    """Settings of a judge. `model` is sent to the provider; `name` is its name in verdicts (`provider/model`).

    `max_tokens` is the limit of the first attempt; after a truncated reply the limit doubles. A question is asked at
    most `max_attempts` times. `options` are passed to the provider unchanged (temperature, seed, …). With `orders`
    `forward` each case is one question, and position bias cannot be seen; verdicts are shared with runs that ask both.
    If the judge gives probabilities, those of the allowed words must sum to `min_choice_mass`; below that the reply is
    noise, and `unparsed`. This setting is not sent to the provider, so cached verdicts are unaffected.
    """

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
        found = {}
        for name, by_judge in kept.items():
            counted = [length for judge, length in by_judge.items() if judge == self.name or not mine]
            found[name] = sum(counted, ReplyLengths())
        return found if any(length.replies for length in found.values()) else {}

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
        """Ask the questions with these keys."""
        parts, questions, pending = self._asking, asking.questions, asking.pending
        await ask_all(
            make_asks(never_failed_first(keys, self._caches), pending, questions, self._caches),
            self._provider,
            asking.sink,
            folder=self._folder,
            prices=parts.prices,
            settings=parts.settings,
            notice=parts.notice,
            budget=parts.budget,
            tally=asking.tally,
            now=parts.now,
            sleep=parts.sleep,
            rng=parts.rng,
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
        """Announce what is settled now."""
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
        """Those of one dimension."""
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
        """Count what became of the questions, once asking is over."""
        self._places = {}
        groups = tally.totals().groups
        self.stats = {
            name: self._dimension_stats(name, hits[name], groups.get(name, GroupTotals())) for name in self._keys
        }

    def verdicts(self, dimension: str, place: int) -> tuple[Verdict, ...]:
        """The verdicts on a case: the readable ones, or the last failure."""
        asked = self._keys[dimension].per_case
        found = [
            self._verdict(dimension, asked * place + which, swapped=which % self._orders == 1) for which in range(asked)
        ]
        return tuple(verdict for verdict in found if verdict is not None)

    def _places_of(self, dimension: str) -> array[int]:
        """Where the readable verdict of each question is in its cache, or -1; found once, when all are answered."""
        if dimension not in self._places:
            found = self._caches[dimension].find_all(self._keys[dimension].heads())
            self._places[dimension] = array("q", found.tobytes())
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
