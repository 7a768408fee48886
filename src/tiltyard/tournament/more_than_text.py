"""What prompts and answers have besides their texts: images, and transcripts of agents, which become text here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec

from tiltyard.bank import Prompt, Response
from tiltyard.bank.images import Image, ImageFinder
from tiltyard.bank.responses import LEAST_CHARACTERS, render_transcript
from tiltyard.errors import ConfigError
from tiltyard.judging.plan import CaseImages
from tiltyard.llm.prices import IMAGE_TOKENS
from tiltyard.tournament.config import Setup

Answers = Mapping[str, Mapping[str, Response]]
"""Responses by entrant and prompt."""


@dataclass(frozen=True, slots=True)
class TranscriptCounts:
    """How many answers are transcripts, and what was cut of them."""

    shown: int
    cut: int
    characters_cut: int
    limit: int

    @property
    def note(self) -> str:
        """The counts, for the announcement of a run."""
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


@dataclass(frozen=True, slots=True)
class PlanImages:
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

    def of(self, prompt_id: str, a: str, b: str) -> CaseImages:
        """The images of one match."""
        first, second = (self.answers.get((name, prompt_id), ()) for name in (a, b))
        return CaseImages(self.prompts.get(prompt_id, ()), first, second)

    @property
    def note(self) -> str:
        """How many there are, for the announcement of a run."""
        shown = sum(map(len, self.prompts.values())), sum(map(len, self.answers.values()))
        return (
            f"images: {shown[0]:,} of prompts, {shown[1]:,} of answers; the quote counts {IMAGE_TOKENS:,} tokens each"
        )
