"""What a run will do, decided before anything is asked: prompts, matches, judge, settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from tiltyard.bank import Prompt, Response, read_prompts, read_responses, responses_path, stratified_subset
from tiltyard.errors import ConfigError, OptionError
from tiltyard.judging.rubric import Rubric
from tiltyard.tournament.config import N_PERMS_MAX
from tiltyard.tournament.matches import MatchList, build_matches

if TYPE_CHECKING:
    from pathlib import Path

    from tiltyard.tournament.config import EloSettings, Setup

Mode = Literal["pilot", "headline"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """What the command line changes for one run; None leaves the config's word."""

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
        """A headline run sends one query per rubric ahead, so that the provider's cache holds it before the bulk."""
        return self.options.mode == "headline"

    def announcements(self) -> list[str]:
        """What a person should know before the run starts: cells covered, what was dropped, pairs and queries."""
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
        raise OptionError(f"--n-perms is {n_perms}: take 2 to {N_PERMS_MAX:,}; 500 is usual.")
    return msgspec.structs.replace(elo, n_perms=n_perms)


def read_answers(setup: Setup) -> dict[str, dict[str, Response]]:
    """Every entrant's answers; a missing file is an error that says which command fills it."""
    missing = [name for name in setup.entrant_ids if not responses_path(setup.responses_dir, name).exists()]
    if missing:
        path = responses_path(setup.responses_dir, missing[0])
        named = ", ".join(missing)
        raise ConfigError(
            f"no answers of {named}: there is no {path}. Fill it: tiltyard generate {setup.path} --entrant {missing[0]}"
        )
    return {name: read_responses(setup.responses_dir, name) for name in setup.entrant_ids}
