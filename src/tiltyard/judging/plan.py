"""What is to be judged: cases, each a matchup with its texts, in order, by dimension."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import TypeVar, overload

from tiltyard.bank import Prompt, Response
from tiltyard.bank.images import Image
from tiltyard.errors import JudgingError
from tiltyard.judging.records import Matchup
from tiltyard.judging.rubric import Rubric

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class CaseImages:
    """The images of a case, by what they belong to."""

    prompt: tuple[Image, ...] = ()
    """Those of the prompt."""
    answer_a: tuple[Image, ...] = ()
    """Those of the first answer."""
    answer_b: tuple[Image, ...] = ()
    """Those of the second answer."""

    def __bool__(self) -> bool:
        return bool(self.prompt or self.answer_a or self.answer_b)


NO_IMAGES = CaseImages()


@dataclass(frozen=True, slots=True)
class Case:
    """One matchup with everything a judge is shown."""

    matchup: Matchup
    """The planned comparison."""
    prompt: Prompt
    """What was asked."""
    response_a: str
    """The first answer."""
    response_b: str
    """The second answer."""
    images: CaseImages = NO_IMAGES
    """The images that belong to them."""


@dataclass(frozen=True, slots=True)
class JudgingPlan:
    """All cases of a run by dimension, each dimension with its rubric; judgments come back in the same order.

    `canaries` are judged along with the cases, but kept separate in the result.
    """

    rubrics: Mapping[str, Rubric]
    """The rubric of each dimension."""
    cases: Mapping[str, Sequence[Case]]
    """What is judged: matchups with their texts."""
    canaries: Mapping[str, Sequence[Case]] = field(default_factory=dict)
    """Judged along with the cases, but kept separate in the result."""

    def __post_init__(self) -> None:
        for dimension in (*self.cases, *self.canaries):
            if dimension not in self.rubrics:
                raise JudgingError(
                    f"dimension {dimension!r} has cases but no rubric. Configure rubrics.{dimension}.path."
                )

    @classmethod
    def build(
        cls,
        matchups: Iterable[Matchup],
        prompts: Iterable[Prompt],
        responses: Mapping[str, Mapping[str, Response]],
        rubrics: Mapping[str, Rubric],
        canaries: Mapping[str, Sequence[Case]] | None = None,
    ) -> JudgingPlan:
        """The judging plan of some matchups; `responses` are those of each entrant by prompt id."""
        by_id = {prompt.prompt_id: prompt for prompt in prompts}
        cases: dict[str, list[Case]] = {dimension: [] for dimension in rubrics}
        for matchup in matchups:
            case = Case(
                matchup,
                _prompt(by_id, matchup),
                _answer(responses, matchup.entrant_a, matchup.prompt_id),
                _answer(responses, matchup.entrant_b, matchup.prompt_id),
            )
            cases.setdefault(matchup.dimension, []).append(case)
        return cls(rubrics, cases, canaries or {})

    @property
    def dimensions(self) -> tuple[str, ...]:
        """The dimensions, in the order of their rubrics."""
        return tuple(self.rubrics)

    def cases_and_canaries(self, dimension: str) -> Sequence[Case]:
        """The cases of a dimension followed by its canaries."""
        return _CasesAndCanaries(self.cases.get(dimension, ()), self.canaries.get(dimension, ()))


class _CasesAndCanaries(Sequence[Case]):
    """Two sequences of cases as one, without a copy: a long one may create its cases on access."""

    def __init__(self, cases: Sequence[Case], canaries: Sequence[Case]) -> None:
        self._cases = cases
        self._canaries = canaries

    def __len__(self) -> int:
        return len(self._cases) + len(self._canaries)

    @overload
    def __getitem__(self, place: int) -> Case: ...
    @overload
    def __getitem__(self, place: slice) -> list[Case]: ...
    def __getitem__(self, place: int | slice) -> Case | list[Case]:
        numbers = range(len(self))[place]
        return self._case(numbers) if isinstance(numbers, int) else [self._case(number) for number in numbers]

    def __iter__(self) -> Iterator[Case]:
        return chain(self._cases, self._canaries)

    def _case(self, number: int) -> Case:
        own = number < len(self._cases)
        return self._cases[number] if own else self._canaries[number - len(self._cases)]


class LazySequence(Sequence[Item]):
    """Items that are made when they are looked at, so that a million take no more memory than a dozen.

    Parameters:
        length: How many there are.
        make: Makes the item with this number.
    """

    def __init__(self, length: int, make: Callable[[int], Item]) -> None:
        self._length = length
        self._make = make

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, place: int) -> Item: ...
    @overload
    def __getitem__(self, place: slice) -> list[Item]: ...
    def __getitem__(self, place: int | slice) -> Item | list[Item]:
        numbers = range(self._length)[place]
        return self._make(numbers) if isinstance(numbers, int) else [self._make(number) for number in numbers]

    def __iter__(self) -> Iterator[Item]:
        return map(self._make, range(self._length))


def case_of_each(cases: Sequence[Case], judgments: int) -> Sequence[Case]:
    """The case of every judgment where there may be several for each case, one after the other.

    Parameters:
        cases: The cases.
        judgments: How many judgments there are in all.
    """
    times = max(1, judgments // max(1, len(cases)))
    return LazySequence(len(cases) * times, lambda number: cases[number // times])


def _prompt(prompts: Mapping[str, Prompt], matchup: Matchup) -> Prompt:
    try:
        return prompts[matchup.prompt_id]
    except KeyError:
        raise JudgingError(f"a matchup names prompt {matchup.prompt_id!r}, which is not in the bank.") from None


def _answer(responses: Mapping[str, Mapping[str, Response]], entrant: str, prompt_id: str) -> str:
    try:
        return responses[entrant][prompt_id].response_text
    except KeyError:
        raise JudgingError(
            f"{entrant!r} has no answer to prompt {prompt_id!r}. Generate it, or drop the prompt."
        ) from None
