"""The prompt bank: what was asked."""

from __future__ import annotations

from pathlib import Path

import msgspec

from tiltyard.bank.records import convert, read_objects
from tiltyard.errors import BankError


class Prompt(msgspec.Struct, frozen=True, kw_only=True):
    """One prompt. `source` is where it came from (the stratum of a pilot), `subject` what it is about.

    `gold_answer` is the right answer where there is one; `expected_behavior` says what a good answer does (answer,
    hedge, refuse). Unknown fields of a file are ignored.
    """

    prompt_id: str
    text: str
    source: str = ""
    subject: str | None = None
    gold_answer: str | None = None
    expected_behavior: str | None = None
    tags: tuple[str, ...] = ()


def read_prompts(path: str | Path) -> list[Prompt]:
    """The prompts of a bank (JSON Lines), in its order. Two prompts with one id, or an empty bank, are an error."""
    path = Path(path)
    prompts: list[Prompt] = []
    line_of: dict[str, int] = {}
    for number, record in read_objects(path, "prompt bank"):
        prompt: Prompt = convert(record, Prompt, f"{path}:{number}")
        if prompt.prompt_id in line_of:
            first = line_of[prompt.prompt_id]
            raise BankError(
                f"{path}:{number}: prompt_id {prompt.prompt_id!r} stands in line {first} too. Ids must differ."
            )
        line_of[prompt.prompt_id] = number
        prompts.append(prompt)
    if not prompts:
        raise BankError(f"{path}: the prompt bank is empty.")
    return prompts
