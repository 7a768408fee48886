"""What a run will do, decided before anything is asked: prompts, judge, settings, and the list of matches."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import TypeVar

import msgspec

from tiltyard.data.bank import (
    LEAST_CHARACTERS,
    AnswerKind,
    Image,
    ImageFinder,
    Prompt,
    Response,
    read_prompts,
    read_responses,
    render_transcript,
    responses_path,
    stratified_subset,
)
from tiltyard.errors import BankError, ConfigError, OptionError, TiltyardError
from tiltyard.judge.llm import IMAGE_TOKENS, parse_model_name
from tiltyard.judge.tournament.config import N_PERMS_MAX, EloSettings, Setup, Task, round_settings
from tiltyard.judge.verdicts import (
    NO_IMAGES,
    Case,
    CaseImages,
    LazySequence,
    Matchup,
    RoundSettings,
    Rubric,
    panel_members,
    panel_name,
    scores_of,
)
from tiltyard.options import RunOptions

Answers = Mapping[str, Mapping[str, Response]]
"""Responses by entrant and prompt."""


class TranscriptCounts(msgspec.Struct, frozen=True):
    """How many answers are transcripts, and what was cut of them."""

    shown: int
    cut: int
    characters_cut: int
    limit: int

    @property
    def note(self) -> str:
        cut = f"; {self.cut:,} of them cut to {self.limit:,} characters, {self.characters_cut:,} left out"
        return f"transcripts: {self.shown:,} answers are shown as steps{cut if self.cut else ', none of them cut'}"


def show_transcripts(
    answers: Answers, prompts: Sequence[Prompt], limit: int
) -> tuple[Answers, TranscriptCounts | None]:
    """The answers with their transcripts as text, and what was cut; the answers themselves if there are none."""
    if limit < LEAST_CHARACTERS:
        raise ConfigError(f"judge.transcript_characters is {limit}: a transcript takes at least {LEAST_CHARACTERS:,}.")
    asked = {prompt.prompt_id for prompt in prompts}
    shown: dict[str, dict[str, Response]] = {}
    cuts: list[int] = []
    for name, given in answers.items():
        shown[name] = dict(given)
        for prompt_id, answer in given.items():
            if answer.transcript and prompt_id in asked:
                text = render_transcript(answer.transcript, limit, final_answer=answer.response_text)
                shown[name][prompt_id] = msgspec.structs.replace(answer, response_text=text.text)
                cuts.append(text.characters_cut)
    if not cuts:
        return answers, None
    return shown, TranscriptCounts(len(cuts), sum(cut > 0 for cut in cuts), sum(cuts), limit)


class PlanImages(msgspec.Struct, frozen=True):
    """The images of a run: by prompt, and by entrant and prompt."""

    prompts: Mapping[str, tuple[Image, ...]]
    answers: Mapping[tuple[str, str], tuple[Image, ...]]

    @classmethod
    def find(cls, setup: Setup, prompts: Sequence[Prompt], answers: Answers) -> PlanImages | None:
        """Find and check every image that the bank and the answers name; None if there are none."""
        beside_bank, beside_answers = ImageFinder(setup.bank_path.parent), ImageFinder(setup.responses_dir)
        of_prompts = {
            prompt.prompt_id: beside_bank.find(prompt.images, f"prompt {prompt.prompt_id!r}")
            for prompt in prompts
            if prompt.images
        }
        asked = {prompt.prompt_id for prompt in prompts}
        of_answers = {
            (name, answer.prompt_id): beside_answers.find(answer.images, f"{name}'s answer to {answer.prompt_id!r}")
            for name, given in answers.items()
            for answer in given.values()
            if answer.images and answer.prompt_id in asked
        }
        return cls(of_prompts, of_answers) if of_prompts or of_answers else None

    @property
    def note(self) -> str:
        shown = sum(map(len, self.prompts.values())), sum(map(len, self.answers.values()))
        return (
            f"images: {shown[0]:,} of prompts, {shown[1]:,} of answers; the quote counts {IMAGE_TOKENS:,} tokens each"
        )


Value = TypeVar("Value")


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
    images: PlanImages | None = None
    transcripts: TranscriptCounts | None = None
    left_out: tuple[str, ...] = ()
    """Entrants of the file without answers: the run goes on without them."""
    rounds: RoundSettings | None = None
    """How adaptive rounds go; None: everything is judged."""

    @property
    def baseline(self) -> str | None:
        return self.setup.config.opponents.baseline

    @property
    def labels(self) -> Path | None:
        return self.options.labels_path or self.setup.labels_path

    @property
    def prewarm(self) -> bool:
        """A headline run sends one query per rubric first, so that the provider caches the rubric."""
        return self.options.mode == "headline"

    @property
    def per_pair(self) -> int:
        """Judge queries for each pair: both orders, by every judge, as often as each is asked."""
        return 2 * self.setup.config.judge.repeats * max(1, len(panel_members(self.judge_model)))

    def announcements(self) -> list[str]:
        matches = self.matches
        lines = []
        if self.left_out:
            they = "it" if len(self.left_out) == 1 else "them"
            lines.append(
                f"WARNING: no answers of {_named(self.setup, self.left_out)}; the run goes on without {they}. "
                f"To have {they} judged too, run `tiltyard generate {self.setup.path}` first"
            )
        lines += [*filter(None, [self.setup.config.note]), *self.setup.warnings]
        lines += [rubric.version_note for rubric in self.rubrics if rubric.version_note]
        combine = self.setup.config.judge.combine
        if combine != "majority" and not panel_members(self.judge_model):
            lines.append(f"judge.combine is {combine}, which is about a panel: {self.judge_model} judges alone")
        if combine == "majority" and len(panel_members(self.judge_model)) == 2:
            lines.append(
                "two judges by majority: where they disagree, a matchup becomes a tie; combine: rows keeps both"
            )
        lines.append(f"answers: {matches.cells_present:,} of {matches.cells_expected:,} (entrant, prompt) cells")
        if matches.dropped_prompts:
            lacking = ", ".join(f"{name} lacks {count}" for name, count in matches.missing_cells.items())
            lines.append(f"dropped {len(matches.dropped_prompts)} prompts that not every entrant answered ({lacking})")
        if self.baseline is not None:
            others = len(self.setup.entrant_ids) - 1
            lines.append(f"baseline {self.baseline}: {others} entrants, each judged against it and no one else")
        lines += [part.note for part in (self.images, self.transcripts) if part is not None]
        for dimension, cases in matches.by_dimension.items():
            skipped = matches.without_gold.get(dimension)
            why = f"; {skipped} prompts without a gold answer skipped" if skipped else ""
            lines.append(f"{dimension}: {len(cases):,} pairs, {self.per_pair * len(cases):,} judge queries{why}")
        for dimension, cases in matches.answers.items():
            queries = self.per_pair // 2 * len(cases)
            lines.append(f"{scores_of(dimension)}: {len(cases):,} answers, {queries:,} judge queries")
        return lines


def make_plan(setup: Setup, options: RunOptions) -> RunPlan:
    """Read the bank, the answers and the rubrics, and list the matches; what is wrong with them is said at once."""
    config, reading = setup.config, _Reading()
    bank = reading.attempt(lambda: read_prompts(setup.bank_path)) or []
    selected, pilot = bank, config.prompts
    if bank and options.mode == "pilot":
        size, seed, strata = pilot.pilot_size, pilot.pilot_seed, pilot.pilot_strata
        selected = reading.attempt(lambda: stratified_subset(bank, size=size, seed=seed, strata=strata)) or []
    rubrics = tuple(
        rubric
        for dimension, path in setup.rubric_paths.items()
        if (rubric := reading.attempt(partial(Rubric.load, dimension, path))) is not None
    )
    asked = {"repeats": options.repeats, "combine": options.combine}
    judge = msgspec.structs.replace(config.judge, **{name: value for name, value in asked.items() if value is not None})
    setup = replace(setup, config=msgspec.structs.replace(config, judge=judge))
    there, read = reading.attempt(lambda: read_answers(setup)) or (setup, {})
    limit = config.judge.transcript_characters
    answers, transcripts = reading.attempt(lambda: show_transcripts(read, selected, limit)) or (read, None)
    images = reading.attempt(lambda: PlanImages.find(there, selected, answers))
    chosen = reading.attempt(lambda: _judge(setup, options)) or ""
    rounds = reading.attempt(lambda: _rounds(setup, options))
    reading.refuse(setup.path)
    n_perms = config.elo.n_perms if options.n_perms is None else options.n_perms
    if config.judge.task != "pairs" and options.limit_pairs is not None:
        raise OptionError(f"limit_pairs is about pairs, and judge.task is {config.judge.task}: leave it out.")
    if n_perms > N_PERMS_MAX:
        raise OptionError(f"n_perms is {n_perms}: take 2 to {N_PERMS_MAX:,}; 500 is usual.")
    matches = build_matches(
        selected,
        answers,
        there.entrant_ids,
        rubrics,
        limit_pairs=options.limit_pairs,
        baseline=config.opponents.baseline,
        images=images,
        task=config.judge.task,
    )
    return RunPlan(
        setup=there,
        options=options,
        judge_model=chosen,
        elo=msgspec.structs.replace(config.elo, n_perms=n_perms),
        bank=tuple(bank),
        selected=tuple(selected),
        rubrics=rubrics,
        matches=replace(matches, cells_expected=len(selected) * len(setup.entrant_ids)),
        images=images,
        transcripts=transcripts,
        left_out=tuple(name for name in setup.entrant_ids if name not in there.entrant_ids),
        rounds=rounds,
    )


def _rounds(setup: Setup, options: RunOptions) -> RoundSettings | None:
    """How adaptive rounds go; they choose opponents, so none are left to choose where a baseline is everyone's."""
    rounds = round_settings(setup.config.rounds, options.until)
    task = setup.config.judge.task
    if rounds is not None and task != "pairs":
        raise OptionError(f"until {rounds.goal} chooses pairs to judge, and judge.task is {task}: leave it out.")
    if rounds is not None and setup.config.opponents.baseline is not None:
        raise ConfigError(
            f"{setup.path}: opponents.baseline is the one opponent of everyone, and adaptive rounds choose opponents. "
            "Take one of the two: remove opponents.baseline, or judge everything (until: all)."
        )
    return rounds


class _Reading:
    """Reads several things and keeps the errors, so that the user hears of all of them in one go."""

    def __init__(self) -> None:
        self._errors: list[TiltyardError] = []

    def attempt(self, read: Callable[[], Value]) -> Value | None:
        try:
            return read()
        except TiltyardError as error:
            self._errors.append(error)
            return None

    def refuse(self, path: Path) -> None:
        if len(self._errors) == 1:
            raise self._errors[0]
        if self._errors:
            count = len(self._errors)
            raise ConfigError(f"{path}: {count} things are missing or wrong. Correct them:", self._errors)


def _judge(setup: Setup, options: RunOptions) -> str:
    named = options.judges
    chosen = panel_name(named) if len(named) > 1 else next(iter(named), setup.config.judge.model_of(options.mode))
    if not chosen:
        key = f"judge.{options.mode}_model"
        raise ConfigError(f"{setup.path}: {key} is missing: name who judges in --mode {options.mode}.")
    members = panel_members(chosen)
    for name in members or (chosen,):
        parse_model_name(name)
    if options.combine is not None and not members:
        raise OptionError(f"combine is {options.combine}, which is about a panel: {chosen} judges alone. Leave it out.")
    return chosen


def read_answers(setup: Setup) -> tuple[Setup, dict[str, dict[str, Response]]]:
    """The answers of every entrant that has any, and the tournament among these; fewer than two are an error."""
    there = [name for name in setup.entrant_ids if responses_path(setup.responses_dir, name).exists()]
    answered = {name: answers for name in there if (answers := read_responses(setup.responses_dir, name))}
    for name, answers in answered.items():
        for answer in answers.values():
            if answer.answer_kind not in (AnswerKind.TEXT, AnswerKind.IMAGE):
                raise BankError(
                    f"a judge cannot see {answer.answer_kind} answers, such as {name!r} to {answer.prompt_id!r}. "
                    "Leave them out, or let people vote on them: tiltyard arena."
                )
    missing = [name for name in setup.entrant_ids if name not in answered]
    baseline = setup.config.opponents.baseline
    if baseline in missing:
        raise ConfigError(
            f"no answers of {baseline}, the baseline that all others are judged against: a run cannot go on without "
            f"them. Fill {responses_path(setup.responses_dir, baseline)}, or name another opponents.baseline."
        )
    if len(answered) < 2:
        those = f"only {next(iter(answered))} has answers" if answered else "nobody has answers"
        raise ConfigError(
            f"no answers of {_named(setup, missing)}: {those}, and a tournament needs two entrants. Fill the files "
            f"with `tiltyard generate {setup.path}`."
        )
    left = tuple(entrant for entrant in setup.config.entrants if entrant.entrant_id in answered)
    return replace(setup, config=msgspec.structs.replace(setup.config, entrants=left)), answered


def _named(setup: Setup, missing: Sequence[str]) -> str:
    """Entrants without answers, each with what is wrong with its file."""
    paths = {name: responses_path(setup.responses_dir, name) for name in missing}
    return ", ".join(
        f"{name} ({f'{path} is empty' if path.exists() else f'there is no {path}'})" for name, path in paths.items()
    )


@dataclass(frozen=True, slots=True)
class MatchList:
    """The matches of every dimension, answers to be scored alone, and what is missing, with the reason."""

    by_dimension: Mapping[str, Sequence[Case]]
    cells_present: int
    cells_expected: int
    missing_cells: Mapping[str, int] = field(default_factory=dict)
    dropped_prompts: tuple[str, ...] = ()
    unanswered: Mapping[str, Mapping[str, Sequence[str]]] = field(default_factory=dict)
    """By dimension and entrant, the prompts that it did not answer; only where there are some."""
    without_gold: Mapping[str, int] = field(default_factory=dict)
    """Per dimension, prompts skipped because they have no gold answer."""
    answers: Mapping[str, Sequence[Case]] = field(default_factory=dict)
    """By dimension, the answers that are scored, each alone: those of every entrant to the prompts of the matches."""


def every_pair(
    entrants: Sequence[str], prompts: Sequence[Value], *, limit_pairs: int | None = None, baseline: str | None = None
) -> LazySequence[tuple[Value, str, str]]:
    """Who meets whom on which prompt: every pair of entrants, or all others and the baseline, pair by pair.

    `limit_pairs` keeps so many of them: prompt by prompt, all pairs of each.
    """
    others = [(name, baseline) for name in entrants if baseline is not None and name != baseline]
    pairs = list(combinations(entrants, 2)) if baseline is None else others
    whole = len(pairs) * len(prompts)
    kept = whole if limit_pairs is None else min(whole, limit_pairs)
    each, longer = divmod(kept, max(1, len(pairs)))

    def numbered(number: int) -> tuple[Value, str, str]:
        # The first pairs have the last prompt too, where a limit ends in the middle of it.
        start = longer * (each + 1)
        if number < start:
            pair, place = divmod(number, each + 1)
        else:
            pair, place = divmod(number - start, each)
            pair += longer
        return prompts[place], *pairs[pair]

    return LazySequence(kept, numbered)


def build_matches(
    prompts: Sequence[Prompt],
    answers: Answers,
    entrants: Sequence[str],
    rubrics: Sequence[Rubric],
    *,
    limit_pairs: int | None = None,
    baseline: str | None = None,
    images: PlanImages | None = None,
    task: Task = "pairs",
) -> MatchList:
    """Every pair on every prompt that all entrants answered, in the order of the config and of the bank.

    A dimension whose rubric needs a gold answer skips prompts without one. `limit_pairs` keeps N of each dimension.
    """

    def case(dimension: str, prompt: Prompt, *names: str) -> Case:
        """What is judged on a prompt: two answers, or one alone."""
        a, b = (*names, "")[:2]
        text_a, text_b = (answers[name][prompt.prompt_id].response_text if name else "" for name in (a, b))
        pictures = NO_IMAGES
        if images is not None:
            of_a, of_b = (images.answers.get((name, prompt.prompt_id), ()) for name in (a, b))
            pictures = CaseImages(images.prompts.get(prompt.prompt_id, ()), of_a, of_b)
        matchup = Matchup(prompt_id=prompt.prompt_id, dimension=dimension, entrant_a=a, entrant_b=b)
        return Case(matchup, prompt, text_a, text_b, pictures)

    def all_pairs(dimension: str, usable: Sequence[Prompt]) -> LazySequence[Case]:
        pairs = every_pair(entrants, usable, limit_pairs=limit_pairs, baseline=baseline)
        return LazySequence(len(pairs), lambda number: case(dimension, *pairs[number]))

    def all_answers(dimension: str, usable: Sequence[Prompt]) -> LazySequence[Case]:
        def numbered(number: int) -> Case:
            who, place = divmod(number, len(usable))
            return case(scores_of(dimension), usable[place], entrants[who])

        return LazySequence(len(entrants) * len(usable), numbered)

    missing = {name: sum(prompt.prompt_id not in answers[name] for prompt in prompts) for name in entrants}
    complete = [prompt for prompt in prompts if all(prompt.prompt_id in answers[name] for name in entrants)]
    expected = len(prompts) * len(entrants)
    by_dimension, singles, without_gold, unanswered = {}, {}, {}, {}
    for rubric in rubrics:
        judged = [prompt.prompt_id for prompt in prompts if prompt.gold_answer or not rubric.needs_gold]
        lacking = {name: [prompt for prompt in judged if prompt not in answers[name]] for name in entrants}
        if any(lacking.values()):
            unanswered[rubric.dimension] = {name: some for name, some in lacking.items() if some}
        usable = [prompt for prompt in complete if prompt.gold_answer or not rubric.needs_gold]
        if len(usable) < len(complete):
            without_gold[rubric.dimension] = len(complete) - len(usable)
        if task != "scores":
            by_dimension[rubric.dimension] = all_pairs(rubric.dimension, usable)
        if task != "pairs":
            singles[rubric.dimension] = all_answers(rubric.dimension, usable)
    return MatchList(
        by_dimension=by_dimension,
        cells_present=expected - sum(missing.values()),
        cells_expected=expected,
        missing_cells={name: count for name, count in missing.items() if count},
        dropped_prompts=tuple(
            prompt.prompt_id for prompt in prompts if any(prompt.prompt_id not in answers[name] for name in entrants)
        ),
        unanswered=unanswered,
        without_gold=without_gold,
        answers=singles,
    )
