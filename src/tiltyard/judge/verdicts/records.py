"""The records of judging: a matchup, one verdict on it in one order, and the judgment settled from both."""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence
from itertools import combinations
from statistics import fmean
from typing import TypeVar

import msgspec

from tiltyard.data.bank import PlainValue, Prompt
from tiltyard.data.battles import FORMATS, Battle, Outcome, Source
from tiltyard.judge.llm import Usage

Word = TypeVar("Word", bound=Hashable)


class VerdictLabel(enum.StrEnum):
    """The label of one verdict: A, B or TIE for the two slots as shown, `scored` for one answer, or a named failure."""

    A = "A"
    B = "B"
    TIE = "TIE"
    SCORED = "scored"
    UNPARSED = "unparsed"
    TRUNCATED = "truncated"
    REFUSED = "refused"
    ERROR = "error"

    @property
    def readable(self) -> bool:
        return self in _READABLE

    @property
    def other_slot(self) -> VerdictLabel:
        return VerdictLabel.B if self is VerdictLabel.A else VerdictLabel.A if self is VerdictLabel.B else self


_READABLE = frozenset((VerdictLabel.A, VerdictLabel.B, VerdictLabel.TIE, VerdictLabel.SCORED))


class Matchup(msgspec.Struct, frozen=True, kw_only=True):
    """A planned comparison: one prompt, two entrants, one dimension; or one answer to be scored, without entrant_b."""

    prompt_id: str
    """The prompt."""
    dimension: str
    """What is judged; each dimension has one rubric."""
    entrant_a: str
    """The first entrant."""
    entrant_b: str
    """The second entrant; empty where one answer is scored."""


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """One judge's verdict on one matchup in one order.

    `verdict` refers to the slots as shown: with `position_swap`, slot A held entrant_b. `reasoning` is the judge's
    whole text; of a verdict in JSON only the reasoning, since `verdict` and `grade` say the rest. `attempts` counts how
    often the question was asked; `error` explains a failure.
    """

    cache_key: str
    """The fingerprint of everything that was sent."""
    rubric_version: str
    """Version of the rubric."""
    judge_model: str
    """The judge's name."""
    position_swap: bool
    """Whether slot A held entrant_b."""
    verdict: VerdictLabel
    """The verdict on the slots as shown, or the name of a failure."""
    reasoning: str
    """The judge's whole text; of a verdict in JSON, its reasoning."""
    timestamp: str
    """When the reply was kept."""
    input_tokens: int | None = 0
    """Plain input tokens."""
    output_tokens: int | None = 0
    """Output tokens."""
    cache_creation_input_tokens: int | None = 0
    """Input tokens written to the provider's cache."""
    cache_read_input_tokens: int | None = 0
    """Input tokens read from the provider's cache."""
    attempts: int = 1
    """How often it was asked."""
    batched: bool = False
    """Whether it came in a batch, at half price."""
    error: str | None = None
    """More about a failure."""
    score_a: float | None = None
    """The soft preference for the first slot as shown, where the judge gives probabilities or grades."""
    choice_mass: float | msgspec.UnsetType | None = msgspec.UNSET
    """Total probability of the allowed words; absent if the judge gives no probabilities."""
    grade: str | msgspec.UnsetType | None = msgspec.UNSET
    """A graded verdict on the slots as shown (`A>>B`, `A>B`, …); absent if verdicts are not graded."""
    final: bool = False
    """Whether asking again is pointless: the provider refused this question."""
    repeat: int | msgspec.UnsetType = msgspec.UNSET
    """Which repeat of the question this is, from 2; absent for the first."""
    scores: dict[str, float] | msgspec.UnsetType = msgspec.UNSET
    """The scores of one answer by criterion, or under `score`; absent for a verdict on two answers."""

    @property
    def usage(self) -> Usage | None:
        """The tokens of this verdict; None where the provider did not state them."""
        if self.input_tokens is None:
            return None
        return Usage(
            input_tokens=self.input_tokens,
            output_tokens=self.output_tokens or 0,
            cache_creation_input_tokens=self.cache_creation_input_tokens or 0,
            cache_read_input_tokens=self.cache_read_input_tokens or 0,
        )

    @property
    def for_entrants(self) -> VerdictLabel:
        """The verdict about entrant_a (A) and entrant_b (B), regardless of slots."""
        return self.verdict.other_slot if self.position_swap else self.verdict

    @property
    def score_entrant_a(self) -> float | None:
        """The soft preference for entrant_a, regardless of slots."""
        return 1.0 - self.score_a if self.position_swap and self.score_a is not None else self.score_a


class Judgment(msgspec.Struct, frozen=True, kw_only=True):
    """The verdicts on one matchup, settled. `winner` is an entrant; None for a tie, an inconsistency or a failure.

    There are two verdicts, or two for every repeat and every judge of a panel: judge by judge, repeat by repeat.
    """

    prompt_id: str
    """The prompt."""
    dimension: str
    """What is judged; each dimension has one rubric."""
    entrant_a: str
    """The first entrant."""
    entrant_b: str
    """The second entrant."""
    winner: str | None
    """An entrant; None for a tie, an inconsistency or a failure."""
    inconsistent: bool
    """Whether both verdicts could be read and differ."""
    status: str = "ok"
    """`ok`, or `failed` where a verdict is missing; absent in folders of programs that leave failed judgments out."""
    raw: tuple[Verdict, ...]
    """The verdicts, forward first."""
    judge_model: str | msgspec.UnsetType = msgspec.UNSET
    """The panel that judged; absent for a single judge, which is named in `raw`."""
    votes: dict[str, str] | msgspec.UnsetType = msgspec.UNSET
    """What each judge of a panel found: an entrant, `tie`, `inconsistent` or `failed`; absent for a single judge."""

    @property
    def outcome(self) -> str:
        """The result in one word: the winner, `tie`, `inconsistent` or `failed`."""
        if self.status != "ok":
            return "failed"
        return self.winner or ("inconsistent" if self.inconsistent else "tie")


class JudgedAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The scores of one answer: the mean over repeats, then over the judges of a panel."""

    prompt_id: str
    dimension: str
    entrant: str
    """Whose answer it is."""
    status: str
    """`ok`, or `failed` where a judge gave no readable score."""
    scores: dict[str, float]
    """By criterion, or under `score`; empty where it failed."""
    raw: tuple[Verdict, ...]
    """The verdicts, judge by judge, repeat by repeat."""


def settle_scores(matchup: Matchup, dimension: str, verdicts: Sequence[Verdict], judges: Sequence[str]) -> JudgedAnswer:
    """The scores of an answer; it failed unless every judge scored it, because judges differ in how strict they are."""
    by_judge: dict[str, list[dict[str, float]]] = {name: [] for name in judges}
    for verdict in verdicts:
        if verdict.scores is not msgspec.UNSET and verdict.verdict is VerdictLabel.SCORED:
            by_judge.setdefault(verdict.judge_model, []).append(verdict.scores)
    scores: dict[str, float] = {}
    if by_judge and all(by_judge.values()):
        for name in next(iter(by_judge.values()))[0]:
            scores[name] = fmean(fmean(repeat[name] for repeat in repeats) for repeats in by_judge.values())
    return JudgedAnswer(
        prompt_id=matchup.prompt_id,
        dimension=dimension,
        entrant=matchup.entrant_a,
        status="ok" if scores else "failed",
        scores=scores,
        raw=tuple(verdicts),
    )


def in_pairs(raw: Iterable[Verdict]) -> Iterator[tuple[Verdict, Verdict]]:
    """The verdicts of one judge in one repeat, forward and swapped, for each that has both."""
    waiting: dict[tuple[str, object], Verdict] = {}
    for verdict in raw:
        name = (verdict.judge_model, verdict.repeat)
        if verdict.position_swap and name in waiting:
            yield waiting.pop(name), verdict
        elif not verdict.position_swap:
            waiting[name] = verdict


def repeated(raw: Iterable[Verdict]) -> Iterator[bool]:
    """For every two readable verdicts of one judge on one question, whether they are the same."""
    groups: dict[tuple[str, bool], list[VerdictLabel]] = {}
    for verdict in raw:
        if verdict.verdict.readable:
            groups.setdefault((verdict.judge_model, verdict.position_swap), []).append(verdict.verdict)
    for labels in groups.values():
        yield from (first is second for first, second in combinations(labels, 2))


def settle(matchup: Matchup, verdicts: Sequence[Verdict], *, both_orders: bool = True) -> Judgment:
    """Both orders agree: winner, or tie. Two readable verdicts that differ: inconsistent. One missing: failed.

    If questions were repeated, the verdict of an order is the one that was given most often; without such a one the
    judge contradicts itself, which is inconsistent too. A repeat that failed does not count.

    Parameters:
        matchup: The planned comparison.
        verdicts: The verdicts, forward first.
        both_orders: Whether a verdict in each order is needed; if not, verdicts of one order decide alone, and position
            bias stays in them.
    """
    orders: tuple[list[VerdictLabel], list[VerdictLabel]] = ([], [])
    for verdict in verdicts:
        if verdict.verdict.readable:
            orders[verdict.position_swap].append(verdict.for_entrants)
    needed = orders
    if not both_orders and len({verdict.position_swap for verdict in verdicts}) == 1:
        needed = (orders[verdicts[0].position_swap],) * 2
    readable = all(needed)
    label, swapped = map(most_frequent, needed)
    agreed = readable and label is not None and label is swapped
    winner = None
    if agreed and label is not VerdictLabel.TIE:
        winner = matchup.entrant_a if label is VerdictLabel.A else matchup.entrant_b
    return Judgment(
        prompt_id=matchup.prompt_id,
        dimension=matchup.dimension,
        entrant_a=matchup.entrant_a,
        entrant_b=matchup.entrant_b,
        winner=winner,
        inconsistent=readable and not agreed,
        status="ok" if readable else "failed",
        raw=tuple(verdicts),
    )


def most_frequent(words: Sequence[Word]) -> Word | None:
    """What was said most often; None if two share the lead or nothing was said."""
    if len(words) == 1:
        return words[0]
    (first, most), (_, next_most) = [*Counter(words).most_common(2), (None, 0), (None, 0)][:2]
    return first if most > next_most else None


def to_battle(judgment: Judgment) -> Battle | None:
    """The battle of a settled judgment; None for a failed one, which must not be rated.

    It has a soft score where the judge gave probabilities or grades in both orders, and their mean fits the outcome.
    Where the judge saw entrant_a's answer first and no other order, it says so (`one_order`).

    Parameters:
        judgment: A settled judgment.
    """
    if judgment.status != "ok":
        return None
    outcome = Outcome.TIE
    if judgment.winner is not None:
        outcome = Outcome.A if judgment.winner == judgment.entrant_a else Outcome.B
    return Battle(
        model_a=judgment.entrant_a,
        model_b=judgment.entrant_b,
        winner=outcome,
        source=Source.LLM_JUDGE,
        question_id=judgment.prompt_id,
        judge_model=judgment.raw[0].judge_model if judgment.judge_model is msgspec.UNSET else judgment.judge_model,
        dimension=judgment.dimension,
        score_a=_soft_score(judgment, outcome),
        inconsistent=judgment.inconsistent,
        one_order=not any(verdict.position_swap for verdict in judgment.raw),
    )


_TAKEN = {name for known in FORMATS for column, names in known.columns.items() for name in (column, *names)} - {
    "category",
    "language",
}


def prompt_columns(prompt: Prompt) -> dict[str, PlainValue]:
    """What the battles on a prompt say about it: its source, subject, tags and every further column of the bank.

    A column whose name means something else in a file of battles has `prompt_` before it: the bank's `source`, where a
    prompt comes from, is `prompt_source`, because a battle's `source` is who decided it.
    """
    known: dict[str, PlainValue | None] = {
        "source": prompt.source,
        "subject": prompt.subject,
        "expected_behavior": prompt.expected_behavior,
        "tags": ", ".join(prompt.tags),
        "language": prompt.language,
    }
    columns = {
        f"prompt_{name}" if name in _TAKEN else name: value
        for name, value in (prompt.columns | known).items()
        if value is not None and value != ""
    }
    if "category" in columns:
        columns["category"] = str(columns["category"])
    return columns


def _soft_score(judgment: Judgment, outcome: Outcome) -> float | None:
    """The mean preference for entrant_a over both orders; None if it would contradict the outcome.

    An agreed tie may lean to one side, but not all the way. A disagreement between the orders counts as an even tie,
    because its lean may come from position bias.
    """
    read = [verdict for verdict in judgment.raw if verdict.verdict.readable]
    scores = [score for verdict in read if (score := verdict.score_entrant_a) is not None]
    if len(scores) < 2 or len(scores) < len(read):
        return None
    mean = sum(scores) / len(scores)
    if judgment.inconsistent:
        fits = mean == 0.5
    elif outcome is Outcome.TIE:
        fits = 0.0 < mean < 1.0
    else:
        fits = 0.5 < mean <= 1.0 if outcome is Outcome.A else 0.0 <= mean < 0.5
    return mean if fits else None
