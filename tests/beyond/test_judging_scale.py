"""Judging very many pairs: what is held per pair, how batches are cut, and that nothing is asked twice."""

from __future__ import annotations

import asyncio
import gc
import itertools
import tracemalloc
import zlib
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.judge.verdicts.cases import PRICES, verdict
from tests.sizes import size
from tiltyard.data.bank import Prompt, Response
from tiltyard.errors import Refused
from tiltyard.judge.llm import Ask, AskingParts, AskingSettings, Reply, Request, ask_all
from tiltyard.judge.llm.batches import COMFORTABLE_BYTES
from tiltyard.judge.llm.provider import BatchLimits, BatchState
from tiltyard.judge.llm.providers.scripted import ScriptedBatchProvider
from tiltyard.judge.tournament import rate_all
from tiltyard.judge.tournament.artifacts import write_matches, write_verdicts
from tiltyard.judge.tournament.config import EloSettings
from tiltyard.judge.tournament.plan import MatchList, build_matches
from tiltyard.judge.tournament.ratings import rate_dimension, settled_battles
from tiltyard.judge.verdicts import (
    JudgeSettings,
    JudgingPlan,
    Judgment,
    LanguageModelJudge,
    Matchup,
    Rubric,
    VerdictCache,
    VerdictLabel,
    judge,
    settle,
)
from tiltyard.judge.verdicts import cache as cache_module
from tiltyard.judge.verdicts.language_model import OpenQuestions, QuestionKeys, Questions

RUBRIC = Rubric("clarity", "7", "Prefer the clearer answer.")
ENTRANTS = tuple(f"entrant-{number}" for number in range(5))
PAIRS_PER_PROMPT = 10
ANSWER_BYTES, REASONING_BYTES = 4_000, 2_000


def matches(prompts: int) -> MatchList:
    """Every pair of five entrants on so many prompts: ten pairs each."""
    bank = [Prompt(prompt_id=f"p{number}", text=f"Question {number}?") for number in range(prompts)]
    answers = {
        name: {
            prompt.prompt_id: Response(
                entrant_id=name,
                prompt_id=prompt.prompt_id,
                response_text=f"{name} on {prompt.prompt_id}".ljust(ANSWER_BYTES, "x"),
            )
            for prompt in bank
        }
        for name in ENTRANTS
    }
    return build_matches(bank, answers, ENTRANTS, [RUBRIC])


def peak_bytes(work: Callable[[], object]) -> int:
    """The most memory that Python held beyond what it held before, while it worked."""
    gc.collect()
    tracemalloc.start()
    try:
        kept = work()
        peak = tracemalloc.get_traced_memory()[1]
        del kept
        return peak
    finally:
        tracemalloc.stop()


def bytes_per_pair(work: Callable[[MatchList], object], few: int = 10, many: int = 40) -> float:
    """How much the peak grows with each further pair; the texts of bank and answers are there before."""
    small, large = matches(few), matches(many)
    work(small)
    peaks = [peak_bytes(lambda given=given: work(given)) for given in (small, large)]
    return (peaks[1] - peaks[0]) / (PAIRS_PER_PROMPT * (many - few))


class Forgetful:
    """A provider of batches that keeps a batch only until its replies are taken: what is held is held by us."""

    name = "forgetful"
    batch_limits = BatchLimits(requests=50, bytes=1 << 30)

    def __init__(self) -> None:
        self._open: dict[str, Sequence[tuple[str, Request]]] = {}
        self._numbers = itertools.count()

    def encoded_size(self, request: Request) -> int:
        return len(request.user)

    async def ask(self, request: Request) -> Reply:
        raise Refused("Only batches here.")

    async def aclose(self) -> None:
        pass

    async def submit(self, requests: Sequence[tuple[str, Request]], tag: str) -> str:
        batch = f"{tag}-{next(self._numbers)}"
        self._open[batch] = requests
        return batch

    async def state(self, batch_id: str) -> BatchState:
        return BatchState(batch_id, True, 0.0)

    async def results(self, batch_id: str) -> AsyncIterator[tuple[str, Reply]]:
        for custom_id, request in self._open.pop(batch_id):
            word = ("A", "B", "TIE")[zlib.crc32(request.user.encode()) % 3]
            yield custom_id, Reply(text=f"VERDICT: {word}".rjust(REASONING_BYTES, "x").replace("xV", "\nV"))

    async def recent_batches(self) -> AsyncIterator[BatchState]:
        for state in ():
            yield state


def judged_and_rated(given: MatchList, folder: Path) -> None:
    """Everything a run does but its report: matches, questions, batches, verdicts, battles, ratings."""
    asking = AskingParts(
        prices=PRICES, settings=AskingSettings(max_open=100, poll_initial_seconds=0, poll_max_seconds=0)
    )
    model = LanguageModelJudge(Forgetful(), JudgeSettings(model="judge-1"), folder=folder / "cache", asking=asking)
    write_matches(folder, given)
    heard = asyncio.run(judge(JudgingPlan({"clarity": RUBRIC}, given.by_dimension), model))
    standing = rate_all(heard, EloSettings(n_perms=2), folder)["clarity"]
    assert sum(1 for _ in standing.battles) == len(given.by_dimension["clarity"])


def test_a_further_pair_costs_a_run_far_less_than_its_texts(tmp_path: Path) -> None:
    """A pair's two questions hold 16 kB of answers and its verdicts 4 kB of reasoning: none of it may pile up.

    What does grow at this size are the fresh entries of the cache (500 bytes, until they go into its index) and what
    permutation Elo plays its shuffles in (a kilobyte, until that reaches its limit).
    """
    numbers = itertools.count()
    slope = bytes_per_pair(lambda given: judged_and_rated(given, tmp_path / str(next(numbers))))
    assert slope < 4_000


def test_planning_holds_no_texts_and_no_objects_per_pair(tmp_path: Path) -> None:
    """Two keys of 32 bytes, 8 bytes each to find them by, and a mark: 82 bytes, and more while they are sorted."""

    def plan(given: MatchList) -> object:
        questions = Questions(JudgingPlan({"clarity": RUBRIC}, given.by_dimension), JudgeSettings(model="judge-1"))
        return questions, OpenQuestions(questions, {"clarity": VerdictCache(tmp_path, "clarity")})

    assert bytes_per_pair(plan) < 300


def test_a_match_list_of_any_length_takes_no_memory() -> None:
    assert bytes_per_pair(lambda given: sum(1 for _ in given.by_dimension["clarity"])) < 20


class ManyJudgments(Sequence[Judgment]):
    """Judgments with long texts, made as they are looked at, as those of a run are."""

    def __init__(self, count: int) -> None:
        self._count = count

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, place: Any) -> Any:
        return next(itertools.islice(self, place, None))

    def __iter__(self) -> Iterator[Judgment]:
        words = (
            (VerdictLabel.A, VerdictLabel.B),
            (VerdictLabel.B, VerdictLabel.A),
            (VerdictLabel.TIE, VerdictLabel.TIE),
            (VerdictLabel.A, VerdictLabel.A),
        )
        for number in range(self._count):
            a, b = ENTRANTS[number % 5], ENTRANTS[(number + 1 + number // 5 % 4) % 5]
            matchup = Matchup(prompt_id=f"p{number // 10}", dimension="clarity", entrant_a=a, entrant_b=b)
            text = f"{number}".rjust(REASONING_BYTES, "x")
            said = enumerate(words[number * 7 % 4])
            yield settle(matchup, [verdict(said=word, swapped=bool(swap), reasoning=text) for swap, word in said])


def test_some_thirty_bytes_of_a_judgment_are_kept_for_its_ratings(tmp_path: Path) -> None:
    def settled(count: int) -> object:
        rows = ManyJudgments(count)
        write_verdicts(tmp_path, "clarity", rows)
        return settled_battles("clarity", rows)

    settled(200)
    peaks = [peak_bytes(lambda count=count: settled(count)) for count in (200, 1_200)]
    assert (peaks[1] - peaks[0]) / 1_000 < 200


def test_battles_made_when_they_are_looked_at_are_the_battles_of_the_judgments(tmp_path: Path) -> None:
    from tiltyard.judge.verdicts import to_battle

    rows = list(ManyJudgments(40))
    standing = rate_dimension("clarity", rows, EloSettings(n_perms=2), "judge-1")
    expected = [to_battle(row) for row in rows]
    assert list(standing.battles) == expected


def test_questions_are_found_by_key_and_of_equal_ones_the_first() -> None:
    texts = ["0" * 64, "f" * 64, "0" * 16 + "a" * 48, "0" * 64, "1" * 64, "f" * 64]
    keys = QuestionKeys(zip(texts[::2], texts[1::2], strict=True), 2)
    assert list(keys) == [(texts[0], texts[1]), (texts[2], texts[3]), (texts[4], texts[5])]
    assert keys[-1] == (texts[4], texts[5])
    assert [keys.number_of(text) for text in texts] == [0, 1, 2, 0, 4, 1]
    assert keys.first_of_equals().tolist() == [True, True, True, False, True, False]
    assert keys.number_of("2" * 64) is None
    assert keys.number_of("no key") is None


def test_a_cache_knows_all_that_was_added_when_its_index_is_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Past `FRESH` additions the index is rebuilt; the first verdict of a key stays its verdict throughout."""
    many = size(2_000, soak=cache_module.FRESH)
    monkeypatch.setattr(cache_module, "FRESH", many)
    cache = VerdictCache(tmp_path, "clarity", sync_seconds=60.0)
    for number in range(many + 100):
        cache.add(verdict(f"{number * 2654435761 % 2**64:016x}".ljust(64, "0"), VerdictLabel.A))
    again = f"{7 * 2654435761 % 2**64:016x}".ljust(64, "0")
    cache.add(verdict(again, VerdictLabel.B))
    reopened = VerdictCache(tmp_path, "clarity")
    for one in (cache, reopened):
        assert len(one) == many + 100
        found = one.get(again)
        assert found is not None
        assert found.verdict is VerdictLabel.A
        assert all(f"{n * 2654435761 % 2**64:016x}".ljust(64, "0") in one for n in range(0, many + 100, 37))
        assert "e" * 64 not in one


# --- Shards ----------------------------------------------------------------------------------------------------------


class Counting(ScriptedBatchProvider):
    """Notes the size of every batch: requests, and bytes as the provider counts them."""

    def __init__(self, limits: BatchLimits, *, takes: int | None = None) -> None:
        super().__init__(lambda _: "VERDICT: TIE", limits=limits)
        self.sizes: list[tuple[int, int]] = []
        self._takes = takes

    async def submit(self, requests: Sequence[tuple[str, Request]], tag: str) -> str:
        if self._takes is not None and len(self.sizes) >= self._takes:
            raise Refused("No more batches today.")
        self.sizes.append((len(requests), sum(self.encoded_size(request) for _, request in requests)))
        return await super().submit(requests, tag)


def ask(number: int, characters: int) -> Ask:
    request = Request(model="judge-1", system="", user=f"{number}".rjust(characters, "x"), max_tokens=100)
    return Ask(request.fingerprint, request, "clarity")


def send(asks: Sequence[Ask], provider: Counting, folder: Path, **changes: Any) -> None:
    how = AskingSettings(batch=True, poll_initial_seconds=0, poll_max_seconds=0, **changes)
    asyncio.run(ask_all(asks, provider, lambda *_: None, AskingParts(prices=PRICES, settings=how), folder=folder))


@settings(max_examples=25)
@given(
    sizes=st.lists(st.integers(10, 400), min_size=1, max_size=60),
    most_requests=st.integers(1, 20),
    most_bytes=st.integers(600, 3_000),
    max_batch=st.none() | st.integers(1, 30),
)
def test_batches_keep_to_every_limit_and_are_as_few_as_their_order_allows(
    tmp_path_factory: pytest.TempPathFactory,
    sizes: list[int],
    most_requests: int,
    most_bytes: int,
    max_batch: int | None,
) -> None:
    asks = [ask(number, size) for number, size in enumerate(sizes)]
    provider = Counting(BatchLimits(requests=most_requests, bytes=most_bytes))
    send(asks, provider, tmp_path_factory.mktemp("shards"), max_batch=max_batch)
    most = min(most_requests, max_batch or most_requests)
    assert all(count <= most and size <= most_bytes for count, size in provider.sizes)
    assert set(provider.asked.values()) == {1}
    assert len(provider.asked) == len(asks)
    lengths = [provider.encoded_size(one.request) for one in asks]
    ends = list(itertools.accumulate(count for count, _ in provider.sizes))
    for end, (count, length) in zip(ends[:-1], provider.sizes, strict=False):
        assert count == most or length + lengths[end] > most_bytes


class Heavy(Counting):
    """Counts every request as ten megabytes."""

    def encoded_size(self, request: Request) -> int:
        return 10_000_000


def test_a_batch_is_closed_before_its_body_is_too_large_to_hold_several_times(tmp_path: Path) -> None:
    provider = Heavy(BatchLimits(requests=100_000, bytes=256_000_000))
    send([ask(number, 10) for number in range(15)], provider, tmp_path)
    assert COMFORTABLE_BYTES == 64_000_000
    assert [count for count, _ in provider.sizes] == [6, 6, 3]


def test_a_request_larger_than_is_comfortable_still_goes_out_alone(tmp_path: Path) -> None:
    class Huge(Counting):
        def encoded_size(self, request: Request) -> int:
            return 200_000_000

    provider = Huge(BatchLimits(requests=10, bytes=256_000_000))
    send([ask(number, 10) for number in range(2)], provider, tmp_path)
    assert [count for count, _ in provider.sizes] == [1, 1]


def test_a_run_cut_off_between_its_shards_goes_on_and_asks_nothing_twice(tmp_path: Path) -> None:
    asks = [ask(number, 50) for number in range(500)]
    limits = BatchLimits(requests=40, bytes=1 << 30)
    first = Counting(limits, takes=5)
    kept: dict[str, Reply] = {}

    def sink(one: Ask, reply: Reply) -> None:
        kept[one.key] = reply

    how = AskingSettings(batch=True, poll_initial_seconds=0, poll_max_seconds=0, max_open=100)
    with pytest.raises(Refused):
        asyncio.run(ask_all(asks, first, sink, AskingParts(prices=PRICES, settings=how), folder=tmp_path))
    assert 0 < len(kept) < 200
    first._takes = None
    left = (one for one in asks if one.key not in kept)
    asyncio.run(ask_all(left, first, sink, AskingParts(prices=PRICES, settings=how), folder=tmp_path))
    assert len(kept) == 500
    assert set(first.asked.values()) == {1}
    assert [count for count, _ in first.sizes] == [40] * 12 + [20]
