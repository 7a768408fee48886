"""The match list: every unordered pair of entrants on every prompt in every dimension, and what had to be dropped."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import TYPE_CHECKING, overload

from tiltyard.bank import Prompt, Response
from tiltyard.judging.plan import Case
from tiltyard.judging.records import Matchup

if TYPE_CHECKING:
    from tiltyard.judging.rubric import Rubric

Answers = Mapping[str, Mapping[str, Response]]
"""Responses by entrant, then by prompt."""


class Matches(Sequence[Case]):
    """The matches of one dimension, each made when it is looked at: a million take no more memory than a dozen."""

    def __init__(
        self,
        dimension: str,
        entrants: Sequence[str],
        prompts: Sequence[Prompt],
        answers: Answers,
        limit_pairs: int | None = None,
    ) -> None:
        self._dimension = dimension
        self._pairs = tuple(combinations(entrants, 2))
        self._prompts = prompts
        self._answers = answers
        whole = len(self._pairs) * len(prompts)
        self._length = whole if limit_pairs is None else min(whole, limit_pairs)

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, place: int) -> Case: ...
    @overload
    def __getitem__(self, place: slice) -> list[Case]: ...
    def __getitem__(self, place: int | slice) -> Case | list[Case]:
        numbers = range(self._length)[place]
        return self._case(numbers) if isinstance(numbers, int) else [self._case(number) for number in numbers]

    def __iter__(self) -> Iterator[Case]:
        return map(self._case, range(self._length))

    def _case(self, number: int) -> Case:
        pair, place = divmod(number, len(self._prompts))
        prompt, (a, b) = self._prompts[place], self._pairs[pair]
        matchup = Matchup(prompt_id=prompt.prompt_id, dimension=self._dimension, entrant_a=a, entrant_b=b)
        text_a, text_b = (self._answers[name][prompt.prompt_id].response_text for name in (a, b))
        return Case(matchup, prompt, text_a, text_b)


@dataclass(frozen=True, slots=True)
class MatchList:
    """The matches of every dimension, and what is missing: cells of the cache, and prompts dropped with the reason."""

    by_dimension: Mapping[str, Sequence[Case]]
    cells_present: int
    cells_expected: int
    missing_cells: Mapping[str, int] = field(default_factory=dict)
    """How many answers each entrant lacks."""
    dropped_prompts: tuple[str, ...] = ()
    """Prompts that some entrant did not answer."""
    without_gold: Mapping[str, int] = field(default_factory=dict)
    """Per dimension, prompts skipped because they have no gold answer."""

    @property
    def n_matches(self) -> int:
        """All matches of all dimensions."""
        return sum(len(matches) for matches in self.by_dimension.values())


def build_matches(
    prompts: Sequence[Prompt],
    answers: Answers,
    entrants: Sequence[str],
    rubrics: Sequence[Rubric],
    *,
    limit_pairs: int | None = None,
) -> MatchList:
    """Every pair on every prompt that all entrants answered, in the order of the config and of the bank.

    A dimension whose rubric needs a gold answer skips prompts without one. `limit_pairs` keeps the first N of each
    dimension.
    """
    missing = {name: sum(prompt.prompt_id not in answers[name] for prompt in prompts) for name in entrants}
    complete = [prompt for prompt in prompts if all(prompt.prompt_id in answers[name] for name in entrants)]
    expected = len(prompts) * len(entrants)
    by_dimension, without_gold = {}, {}
    for rubric in rubrics:
        usable = [prompt for prompt in complete if prompt.gold_answer or not rubric.needs_gold]
        if len(usable) < len(complete):
            without_gold[rubric.dimension] = len(complete) - len(usable)
        by_dimension[rubric.dimension] = Matches(rubric.dimension, entrants, usable, answers, limit_pairs)
    return MatchList(
        by_dimension=by_dimension,
        cells_present=expected - sum(missing.values()),
        cells_expected=expected,
        missing_cells={name: count for name, count in missing.items() if count},
        dropped_prompts=tuple(
            prompt.prompt_id for prompt in prompts if any(prompt.prompt_id not in answers[name] for name in entrants)
        ),
        without_gold=without_gold,
    )
