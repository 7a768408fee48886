"""The prompt bank: what was asked, a stratified subset of it (a pilot), and several turns as one text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from tiltyard.errors import BankError


def read_objects(path: Path, what: str, *, torn_end: bool = False) -> Iterator[tuple[int, dict[str, Any]]]:
    """Every JSON object of a JSON Lines file with its line number; blank lines are skipped.

    With `torn_end`, a last line without its line break that cannot be read is skipped: a writer was killed there.
    """
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise BankError(f"there is no {what} at {path}. Check the path.") from None
    except OSError as error:
        raise BankError(f"cannot read the {what} {path}: {error.strerror}.") from None
    lines = data.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            record = msgspec.json.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            if torn_end and number == len(lines):
                return
            raise BankError(f"{path}:{number}: not JSON ({error}). Correct or remove the line.") from None
        if not isinstance(record, dict):
            raise BankError(f"{path}:{number}: expected a JSON object, found {type(record).__name__}.")
        yield number, record


def convert(record: dict[str, Any], kind: type[Any], where: str) -> Any:
    """A record as a struct; a missing or wrong field is an error that names it."""
    try:
        return msgspec.convert(record, kind)
    except msgspec.ValidationError as error:
        raise BankError(f"{where}: {error}. Correct the line.") from None


PILOT_SIZE = 50
"""Prompts of a pilot."""
PILOT_SEED = 20260427
"""Seed of a pilot's draw: a pilot of the same bank is the same fifty prompts everywhere."""

LONGEST_VALUE = 200
"""Characters of a further column of the bank; what is longer is a text, not something to split battles by."""

PlainValue = str | int | float | bool
"""The value of a further column of the bank."""


class EarlierTurn(msgspec.Struct, frozen=True, kw_only=True):
    """One earlier message of a conversation."""

    role: Literal["user", "assistant"]
    """Who said it."""
    content: str
    """What was said."""


class Prompt(msgspec.Struct, frozen=True, kw_only=True):
    """One prompt. Further columns of a file are kept in `columns`.

    Parameters:
        prompt_id: The prompt.
        text: What is asked.
        source: Where it came from: the stratum of a pilot.
        subject: What it is about.
        gold_answer: The right answer, where there is one.
        expected_behavior: What a good answer does: answer, hedge, refuse.
        tags: Words to find it by.
        system: The system prompt that the models were given.
        turns: The conversation before `text`: user and assistant in turn, each with `role` and `content`.
        language: What language it is in, such as `de` or `German`; boards can be filtered by it.
        images: Images that belong to `text`: addresses, or paths of files beside the bank.
        columns: What else the bank says about it, by the name of the column (`category`, `difficulty`, …): short texts,
            numbers and truth values. No judge or model is shown them; the battles have them.
    """

    prompt_id: str
    text: str
    source: str = ""
    subject: str | None = None
    gold_answer: str | None = None
    expected_behavior: str | None = None
    tags: tuple[str, ...] = ()
    system: str | None = None
    turns: tuple[EarlierTurn, ...] = ()
    images: tuple[str, ...] = ()
    language: str = ""
    columns: dict[str, PlainValue] = {}

    @property
    def earlier(self) -> tuple[tuple[str, str], ...]:
        """The conversation before `text`, as pairs of what the user said and what was answered."""
        texts = [turn.content for turn in self.turns]
        return tuple(zip(texts[::2], texts[1::2], strict=True))

    @property
    def whole_text(self) -> str:
        """The prompt as pages show it: the system prompt and earlier turns, where it has any, before the text."""
        parts = [f"System prompt:\n{self.system}"] if self.system else []
        parts += [f"{turn.role.capitalize()}:\n{turn.content}" for turn in self.turns]
        parts.append(f"User:\n{self.text}" if parts else self.text)
        return "\n\n".join(parts)


def read_prompts(path: str | Path) -> list[Prompt]:
    """The prompts of a bank (JSON Lines), in its order. Two prompts with one id, or an empty bank, are an error.

    Parameters:
        path: The file.
    """
    path = Path(path)
    prompts: list[Prompt] = []
    line_of: dict[str, int] = {}
    for number, record in read_objects(path, "prompt bank"):
        given = record.pop("columns", None)
        further = given if isinstance(given, dict) else {}
        further |= {name: value for name, value in record.items() if name not in Prompt.__struct_fields__}
        record["columns"] = {name: plain for name, value in further.items() if (plain := _plain(value)) != ""}
        prompt: Prompt = convert(record, Prompt, f"{path}:{number}")
        _check_turns(prompt, f"{path}:{number}")
        if prompt.prompt_id in line_of:
            first = line_of[prompt.prompt_id]
            raise BankError(
                f"{path}:{number}: prompt_id {prompt.prompt_id!r} is also in line {first}. Ids must differ."
            )
        line_of[prompt.prompt_id] = number
        prompts.append(prompt)
    if not prompts:
        raise BankError(f"{path}: the prompt bank is empty.")
    return prompts


def _plain(value: Any) -> PlainValue:
    """A value of a further column: a list as its values with commas; empty for what is too long or has parts."""
    if isinstance(value, list) and all(isinstance(one, PlainValue) for one in value):
        value = ", ".join(map(str, value))
    if isinstance(value, str):
        return value.strip() if len(value) <= LONGEST_VALUE else ""
    return value if isinstance(value, PlainValue) else ""


def _check_turns(prompt: Prompt, where: str) -> None:
    roles = [turn.role for turn in prompt.turns]
    if roles != ["user", "assistant"] * (len(roles) // 2):
        raise BankError(
            f"{where}: turns are {', '.join(roles)}. They are user and assistant in turn, and end with assistant; the "
            "last message of the user is `text`."
        )
    if any(not turn.content.strip() for turn in prompt.turns):
        raise BankError(f"{where}: one of the turns is empty. Every turn says something.")


def read_text_prompts(path: str | Path, reader: str) -> list[Prompt]:
    """The prompts of a bank, for a reader that shows only their texts; a prompt with more is an error."""
    prompts = read_prompts(path)
    for prompt in prompts:
        for name in ("system", "turns", "images"):
            if getattr(prompt, name):
                raise BankError(f"{path}: prompt {prompt.prompt_id!r} has `{name}`, which {reader} does not show.")
    return prompts


def stratified_subset(
    prompts: Sequence[Prompt],
    *,
    size: int = PILOT_SIZE,
    seed: int = PILOT_SEED,
    strata: Mapping[str, int] | None = None,
) -> list[Prompt]:
    """A seeded subset in the bank's order, with each source's share of places, or the places given in `strata`.

    Parameters:
        prompts: The bank.
        size: How many prompts.
        seed: Seed of the draw.
        strata: Places of each source, by hand.
    """
    sizes = Counter(prompt.source for prompt in prompts)
    if strata is None:
        if size > len(prompts):
            raise BankError(f"a pilot of {size} prompts cannot be drawn from a bank of {len(prompts)}. Ask for fewer.")
        strata = largest_remainder(sizes, size)
    for source, wanted in strata.items():
        if wanted > sizes[source]:
            raise BankError(f"the pilot wants {wanted} prompts of source {source!r}, the bank has {sizes[source]}.")
    import numpy as np

    rng = np.random.default_rng(seed)
    chosen: set[int] = set()
    for source in sorted(strata):
        places = [place for place, prompt in enumerate(prompts) if prompt.source == source]
        chosen.update(places[pick] for pick in rng.choice(len(places), strata[source], replace=False).tolist())
    return [prompt for place, prompt in enumerate(prompts) if place in chosen]


def largest_remainder(sizes: Mapping[str, int], total: int) -> dict[str, int]:
    """`total` places divided in proportion to `sizes` (Hamilton's method): 24, 69 and 50 get 8, 24 and 18 of 50.

    Equal remainders go to the larger stratum, then to the first.

    Parameters:
        sizes: How large each stratum is.
        total: How many places to divide.
    """
    whole = sum(sizes.values())
    shares = {name: size * total / whole for name, size in sizes.items()}
    places = {name: int(share) for name, share in shares.items()}
    order = sorted(sizes, key=lambda name: (places[name] - shares[name], -sizes[name]))
    for name in order[: total - sum(places.values())]:
        places[name] += 1
    return places


def show_turns(texts: Sequence[str]) -> str:
    """The texts of one side of a conversation, one labelled `Turn N:` block each; a single text stays as it is.

    Used for the user's messages and for a model's replies alike, so that a judge sees both sides in one form.
    """
    if len(texts) == 1:
        return texts[0]
    return "\n\n".join(f"Turn {number}:\n{text}" for number, text in enumerate(texts, start=1))
