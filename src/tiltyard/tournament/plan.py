"""What a run will do, decided before anything is asked: prompts, judge, settings, and the list of matches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import TYPE_CHECKING, Literal, overload

from tiltyard.bank import Prompt, Response, read_prompts, read_responses, responses_path, stratified_subset
from tiltyard.errors import ConfigError, OptionError
from tiltyard.judging.plan import Case
from tiltyard.judging.records import Matchup
from tiltyard.judging.rubric import Rubric
from tiltyard.tournament.config import N_PERMS_MAX

if TYPE_CHECKING:
    from pathlib import Path

    from tiltyard.tournament.config import EloSettings, Setup

Answers = Mapping[str, Mapping[str, Response]]
"""Responses by entrant and prompt."""


Mode = Literal["pilot", "headline"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """What the command line changes for one run; None keeps the config's value."""

    mode: Mode
    output_dir: Path | None = None
    judge_model: str | None = None
    n_perms: int | None = None
    limit_pairs: int | None = None
    skip_judging: bool = False
    retry_failed: bool = False
    budget_usd: float | None = None
    max_batch: int | None = None


@dataclass(frozen=True, slots=True)
class RunPlan:
    """A run, ready to be quoted and carried out."""

    setup: Setup
    options: RunOptions
    judge_model: str
    elo: EloSettings
    bank: tuple[Prompt, ...]
    selected: tuple[Prompt, ...]
    rubrics: tuple[Rubric, ...]
    matches: MatchList

    @property
    def prewarm(self) -> bool:
        """A headline run sends one query per rubric first, so that the provider caches the rubric."""
        return self.options.mode == "headline"

    def announcements(self) -> list[str]:
        """A summary to show before the run starts: cells covered, what was dropped, pairs and queries."""
        matches = self.matches
        note = self.setup.config.note
        lines = [*([note] if note else []), *self.setup.warnings]
        lines.append(f"answers: {matches.cells_present:,} of {matches.cells_expected:,} (entrant, prompt) cells")
        if matches.dropped_prompts:
            lacking = ", ".join(f"{name} lacks {count}" for name, count in matches.missing_cells.items())
            lines.append(f"dropped {len(matches.dropped_prompts)} prompts that not every entrant answered ({lacking})")
        for dimension, cases in matches.by_dimension.items():
            skipped = matches.without_gold.get(dimension)
            why = f"; {skipped} prompts without a gold answer skipped" if skipped else ""
            lines.append(f"{dimension}: {len(cases):,} pairs, {2 * len(cases):,} judge queries{why}")
        return lines


def make_plan(setup: Setup, options: RunOptions) -> RunPlan:
    """Read the bank, the answers and the rubrics, and list the matches."""
    config = setup.config
    bank = read_prompts(setup.bank_path)
    selected = bank
    if options.mode == "pilot":
        selected = stratified_subset(
            bank, size=config.prompts.pilot_size, seed=config.prompts.pilot_seed, strata=config.prompts.pilot_strata
        )
    rubrics = tuple(Rubric.load(dimension, path) for dimension, path in setup.rubric_paths.items())
    answers = read_answers(setup)
    chosen = config.judge.pilot_model if options.mode == "pilot" else config.judge.headline_model
    elo = config.elo
    if options.n_perms is not None:
        elo = _with_perms(elo, options.n_perms)
    return RunPlan(
        setup=setup,
        options=options,
        judge_model=options.judge_model or chosen,
        elo=elo,
        bank=tuple(bank),
        selected=tuple(selected),
        rubrics=rubrics,
        matches=build_matches(selected, answers, setup.entrant_ids, rubrics, limit_pairs=options.limit_pairs),
    )


def _with_perms(elo: EloSettings, n_perms: int) -> EloSettings:
    import msgspec

    if not 2 <= n_perms <= N_PERMS_MAX:
        raise OptionError(f"n_perms is {n_perms}: take 2 to {N_PERMS_MAX:,}; 500 is usual.")
    return msgspec.structs.replace(elo, n_perms=n_perms)


def read_answers(setup: Setup) -> dict[str, dict[str, Response]]:
    """Every entrant's answers; a missing file is an error that says which command fills it."""
    missing = [name for name in setup.entrant_ids if not responses_path(setup.responses_dir, name).exists()]
    if missing:
        path = responses_path(setup.responses_dir, missing[0])
        named = ", ".join(missing)
        raise ConfigError(f"no answers of {named}: there is no {path}. Fill it with `tiltyard generate {setup.path}`.")
    return {name: read_responses(setup.responses_dir, name) for name in setup.entrant_ids}


class Matches(Sequence[Case]):
    """The matches of one dimension, each created on access: a million take no more memory than a dozen."""

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
    """The matches of every dimension, and what is missing: cells of the cache, and dropped prompts with the reason."""

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
