"""How well a judge agrees with human labels on the same pairs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from tiltyard.data.bank import Prompt, read_objects
from tiltyard.errors import BankError, JudgingError
from tiltyard.judge.llm import Watch
from tiltyard.judge.verdicts.bias import Bias, length_preference, measure_bias, self_preference
from tiltyard.judge.verdicts.plan import Case, JudgingPlan, Rubric, default_rubric
from tiltyard.judge.verdicts.records import Judgment, Matchup, VerdictLabel, most_frequent
from tiltyard.judge.verdicts.verdicts import Judge, JudgingStats, judge
from tiltyard.stats import NO_ESTIMATE, Estimate, cohen_kappa, share

_VOTES = {"A": VerdictLabel.A, "B": VerdictLabel.B, "TIE": VerdictLabel.TIE, "BOTH_BAD": VerdictLabel.TIE}
"""The labels people may give. "Both bad" counts as a tie: neither answer is better."""


class LabelledPair(msgspec.Struct, frozen=True):
    """Two answers to a prompt and the people's label: A, B, TIE, or None if no label has the most votes."""

    case: Case
    """The pair, with everything a judge is shown."""
    people: VerdictLabel | None
    """The people's label: A, B, TIE, or None if no label has the most votes."""


class _Row(msgspec.Struct, kw_only=True):
    prompt: str
    response_a: str
    response_b: str
    label: str | None = None
    votes: dict[str, int] | None = None
    id: str | int | None = None
    prompt_id: str | int | None = None
    entrant_a: str = "A"
    entrant_b: str = "B"
    gold_answer: str | None = None
    expected_behavior: str | None = None


def read_labelled_pairs(path: str | Path) -> list[LabelledPair]:
    """The pairs of a JSON Lines file: `prompt, response_a, response_b`, and `label` or `votes`.

    A label is `A`, `B` or `TIE`; votes count them (`{"A": 3, "B": 1}`), and the one with the most votes is the people's
    label. `prompt_id` (or `id`, or else the line number), `entrant_a` and `entrant_b` (or else A and B) identify the
    pair in a file of recorded verdicts.

    Parameters:
        path: The file.
    """
    path = Path(path)
    pairs = []
    try:
        for number, record in read_objects(path, "file of labelled pairs"):
            pairs.append(_pair(record, f"{path}:{number}", number))
    except BankError as error:
        raise JudgingError(str(error)) from None
    if not pairs:
        raise JudgingError(f"{path}: there is no labelled pair in the file.")
    return pairs


def majority(votes: Mapping[str, int]) -> VerdictLabel | None:
    """The label with the most votes; None if two share the lead or there are no votes."""
    return most_frequent([_VOTES[word.upper()] for word, count in votes.items() for _ in range(count)])


class JudgeCheck(msgspec.Struct, frozen=True):
    """How a judge compares with people.

    `agreement` and `kappa` are over pairs where neither says tie, `…_with_ties` over all that were compared; a pair
    that the judge decided differently in the two orders counts as a tie.
    """

    judge_model: str
    """The judge's name."""
    both_orders: bool
    """Whether both orders of every pair were judged."""
    pairs: int
    """Pairs that were read."""
    with_majority: int
    """Pairs with a majority label."""
    compared: int
    """Of those, the pairs that the judge settled."""
    labels: dict[str, int]
    """How often each verdict (by slot as shown) and each failure occurred."""
    right_in_both_orders: Estimate
    """Share of the pairs that people decided in which both orders name people's choice; nothing from one order."""
    mean_accuracy: Estimate
    """Share of single verdicts that name people's choice, over both orders (LLMBar's headline); n counts verdicts."""
    tie_win_is_win: Estimate
    """Share of those pairs with more verdicts for people's choice than against it: tie + win = win (JudgeBench's)."""
    agreement: Estimate
    """Share of equal labels, over pairs where neither is a tie."""
    kappa: Estimate
    """Cohen's kappa over the same pairs."""
    agreement_with_ties: Estimate
    """Share of equal labels, over all compared pairs."""
    kappa_with_ties: Estimate
    """Cohen's kappa over all compared pairs."""
    bias: Bias
    """Flip rate, first-slot rate, readable verdicts."""
    prefers_longer: Estimate
    """How often the judge prefers the longer answer."""
    people_prefer_longer: Estimate
    """How often people prefer the longer answer, on the same pairs."""
    prefers_own: Estimate
    """How often the judge prefers its own answer, where neither says tie."""
    people_prefer_own: Estimate
    """How often people prefer the judge's own answer, on the same pairs."""
    stats: JudgingStats | None = None
    """How the judging went."""

    def estimates(self) -> list[tuple[str, Estimate]]:
        """Every number with its interval, under its name in tables, the strictest first."""
        return [
            ("right in both orders", self.right_in_both_orders),
            ("mean accuracy (LLMBar)", self.mean_accuracy),
            ("tie + win = win (JudgeBench)", self.tie_win_is_win),
            ("agreement (neither says tie)", self.agreement),
            ("kappa (neither says tie)", self.kappa),
            ("agreement (with ties)", self.agreement_with_ties),
            ("kappa (with ties)", self.kappa_with_ties),
            ("readable verdicts", self.bias.coverage),
            ("flip rate", self.bias.flip_rate),
            ("first-slot rate", self.bias.first_slot_rate),
            ("judge prefers longer", self.prefers_longer),
            ("people prefer longer", self.people_prefer_longer),
            ("judge prefers its own", self.prefers_own),
            ("people prefer the judge's own", self.people_prefer_own),
        ]

    def __str__(self) -> str:
        lines = [
            f"{self.judge_model} against people: {self.pairs:,} pairs, people agree on {self.with_majority:,}, "
            f"{self.compared:,} compared",
            self.sentence,
            "",
        ]
        for name, estimate in self.estimates():
            value = "–" if estimate.value is None else f"{estimate.value:.3f}"
            ends = "" if estimate.low is None else f"{estimate.low:.3f} … {estimate.high:.3f}"
            lines.append(f"{name:<30} {value:>7}  {ends:<17} n = {estimate.n:,}")
        message = ", ".join(f"{word} {count:,}" for word, count in sorted(self.labels.items()))
        return "\n".join([*lines, "", f"said of the slots as shown: {message}"])

    @property
    def sentence(self) -> str:
        """The strictest figure in words: both orders right, or one order where only one was judged."""
        strict = self.right_in_both_orders if self.both_orders else self.mean_accuracy
        if strict.value is None:
            return "no pair that people decided has readable verdicts"
        ends = "" if strict.low is None else f" ({100 * strict.low:.0f} % to {100 * (strict.high or 1.0):.0f} %)"
        how = "in both orders" if self.both_orders else "in the one order that was judged"
        guess = "25 %" if self.both_orders else "50 %"
        return (
            f"it names people's choice {how} in {100 * strict.value:.0f} %{ends} of the {strict.n:,} pairs that people "
            f"decided; a guess would in {guess}"
        )


async def check_judge(
    pairs: Sequence[LabelledPair],
    judge_: Judge,
    *,
    rubric: Rubric | None = None,
    single_order: bool = False,
    own: str | None = None,
    watch: Watch | None = None,
) -> JudgeCheck:
    """Have a judge (live or recorded) judge labelled pairs, and compare it with people.

    Parameters:
        pairs: Labelled pairs.
        judge_: Who judges.
        rubric: What it is judged by; None means the general rubric that ships with Tiltyard.
        single_order: Accept a recording of one order only; there is then no flip rate.
        own: The entrant whose answers are the judge's own, if its name differs from the judge's.
        watch: Called on progress.
    """
    rubric = rubric or default_rubric()
    plan = labelled_plan(pairs, rubric)
    judged = await judge(plan, judge_, single_order=single_order, watch=watch)
    judgments = list(judged.judgments[rubric.dimension])
    comparison = compare_with_people(
        pairs, judgments, judge_model=judged.judge_model, both_orders=judged.both_orders, own=own
    )
    return replace(comparison, stats=judged.stats[rubric.dimension])


def labelled_plan(pairs: Sequence[LabelledPair], rubric: Rubric) -> JudgingPlan:
    """The judging plan of labelled pairs: their cases, under a rubric's dimension."""
    cases = [replace(pair.case, matchup=replace(pair.case.matchup, dimension=rubric.dimension)) for pair in pairs]
    return JudgingPlan({rubric.dimension: rubric}, {rubric.dimension: cases})


def compare_with_people(
    pairs: Sequence[LabelledPair],
    judgments: Sequence[Judgment],
    *,
    judge_model: str,
    both_orders: bool = True,
    own: str | None = None,
) -> JudgeCheck:
    """The comparison of judgments with the labels of the same pairs, in the same order.

    The judge's own answers are those of the entrant `own`; by default, of the entrant with the judge's name, with or
    without the provider before the slash.

    Parameters:
        pairs: Labelled pairs.
        judgments: Settled judgments.
        judge_model: The judge's name.
        both_orders: Whether both orders of every pair were judged.
        own: The entrant whose answers are the judge's own; None: the one with the judge's name, with or without the
            provider before the slash.
    """
    compared = [
        (pair.people, word, pair.case.prompt.text)
        for pair, judgment in zip(pairs, judgments, strict=True)
        if pair.people is not None and (word := _word(judgment)) is not None
    ]
    decided = [row for row in compared if VerdictLabel.TIE not in row[:2]]
    cases = [pair.case for pair in pairs]
    both_right, mean_accuracy, tie_win = _accuracies(pairs, judgments, both_orders=both_orders)
    names = {own} if own is not None else {judge_model, judge_model.partition("/")[2] or judge_model}
    both_decided = [
        (pair, judgment)
        for pair, judgment in zip(pairs, judgments, strict=True)
        if pair.people in (VerdictLabel.A, VerdictLabel.B) and judgment.winner is not None
    ]
    own_cases = [pair.case for pair, _ in both_decided]
    return JudgeCheck(
        judge_model=judge_model,
        both_orders=both_orders,
        pairs=len(pairs),
        with_majority=sum(pair.people is not None for pair in pairs),
        compared=len(compared),
        labels=dict(Counter(verdict.verdict.value for judgment in judgments for verdict in judgment.raw)),
        right_in_both_orders=both_right,
        mean_accuracy=mean_accuracy,
        tie_win_is_win=tie_win,
        agreement=_agreement(decided),
        kappa=_kappa(decided),
        agreement_with_ties=_agreement(compared),
        kappa_with_ties=_kappa(compared),
        bias=measure_bias(judgments),
        prefers_longer=length_preference(cases, judgments),
        people_prefer_longer=length_preference(cases, list(map(_peoples_judgment, pairs, judgments))),
        prefers_own=self_preference(own_cases, [judgment for _, judgment in both_decided], names),
        people_prefer_own=self_preference(
            own_cases, [_peoples_judgment(*decision) for decision in both_decided], names
        ),
    )


_Compared = tuple[VerdictLabel, VerdictLabel, str]
"""The people's label, the judge's label, the prompt."""


def _accuracies(
    pairs: Sequence[LabelledPair], judgments: Sequence[Judgment], *, both_orders: bool
) -> tuple[Estimate, Estimate, Estimate]:
    """Right in both orders, mean accuracy, and tie + win = win, over the pairs that people decided."""
    right, wrong, prompts = [], [], []
    verdicts: list[tuple[bool, str]] = []
    for pair, judgment in zip(pairs, judgments, strict=True):
        if pair.people not in (VerdictLabel.A, VerdictLabel.B) or judgment.status != "ok":
            continue
        labels = [verdict.for_entrants for verdict in judgment.raw]
        prompt = pair.case.prompt.text
        right.append(sum(label is pair.people for label in labels))
        wrong.append(sum(label is pair.people.other_slot for label in labels))
        prompts.append(prompt)
        verdicts += [(label is pair.people, prompt) for label in labels]
    mean = share([hit for hit, _ in verdicts], [prompt for _, prompt in verdicts])
    if not both_orders:
        return NO_ESTIMATE, mean, NO_ESTIMATE
    ahead = [hits > misses for hits, misses in zip(right, wrong, strict=True)]
    return share([hits == 2 for hits in right], prompts), mean, share(ahead, prompts)


def _agreement(rows: Sequence[_Compared]) -> Estimate:
    return share([people is word for people, word, _ in rows], [prompt for *_, prompt in rows])


def _kappa(rows: Sequence[_Compared]) -> Estimate:
    return cohen_kappa(
        [people for people, _, _ in rows], [word for _, word, _ in rows], [prompt for *_, prompt in rows]
    )


def _word(judgment: Judgment) -> VerdictLabel | None:
    """The label of a judgment, A for entrant_a and B for entrant_b; None if it failed."""
    if judgment.status != "ok":
        return None
    if judgment.winner is None:
        return VerdictLabel.TIE
    return VerdictLabel.A if judgment.winner == judgment.entrant_a else VerdictLabel.B


def _peoples_judgment(pair: LabelledPair, judgment: Judgment) -> Judgment:
    """What people decided, in place of the judge."""
    winners = {VerdictLabel.A: judgment.entrant_a, VerdictLabel.B: judgment.entrant_b}
    return replace(judgment, winner=winners.get(pair.people or VerdictLabel.TIE))


def _pair(record: dict[str, Any], where: str, number: int) -> LabelledPair:
    try:
        row = msgspec.convert(record, _Row)
    except msgspec.ValidationError as error:
        raise JudgingError(f"{where}: {error}. A labelled pair has prompt, response_a and response_b.") from None
    if row.entrant_a == row.entrant_b:
        raise JudgingError(f"{where}: both answers are by {row.entrant_a!r}. Name two different entrants.")
    if (row.label is None) == (row.votes is None):
        raise JudgingError(f"{where}: a labelled pair has either a label or votes. Give one of them.")
    votes = {row.label: 1} if row.label is not None else (row.votes or {})
    for word, count in votes.items():
        if word.upper() not in _VOTES or count < 0:
            raise JudgingError(f"{where}: {count} × {word!r} is not a vote. The words are {', '.join(_VOTES)}.")
    name = next(str(name) for name in (row.prompt_id, row.id, number) if name is not None)
    prompt = Prompt(
        prompt_id=name, text=row.prompt, gold_answer=row.gold_answer, expected_behavior=row.expected_behavior
    )
    matchup = Matchup(prompt_id=name, dimension="quality", entrant_a=row.entrant_a, entrant_b=row.entrant_b)
    return LabelledPair(Case(matchup, prompt, row.response_a, row.response_b), majority(votes))
