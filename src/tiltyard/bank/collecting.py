"""A bank and response files from answers as people have them: who answered, what was asked, what belongs together.

Answers belong to one prompt if they have its id; where files have no ids, or ids that contradict each other, if they
have its text; where they have neither, by their order in a file of prompts.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tiltyard.bank.answer_files import AnswerFile, AnswerRow
from tiltyard.bank.prompts import Prompt
from tiltyard.bank.responses import responses_path
from tiltyard.errors import BankError
from tiltyard.files import write_lines

BANK, RESPONSES = "bank.jsonl", "responses"
_NOT_IN_A_NAME = re.compile(r"[^\w.+-]+")


@dataclass(slots=True)
class AnswerCollection:
    """Prompts, answers by entrant and prompt, and what a reader should know about how they were put together."""

    prompts: list[Prompt] = field(default_factory=list)
    answers: dict[str, dict[str, str]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @property
    def n_answers(self) -> int:
        """All answers of all entrants."""
        return sum(map(len, self.answers.values()))

    @property
    def complete(self) -> int:
        """Prompts that every entrant answered."""
        return sum(all(prompt.prompt_id in found for found in self.answers.values()) for prompt in self.prompts)

    def files(self, folder: Path) -> list[Path]:
        """The files that `write` writes."""
        return [folder / BANK, *(responses_path(folder / RESPONSES, name) for name in self.answers)]

    def write(self, folder: Path) -> None:
        """Write the bank and a response file for each entrant."""
        write_lines(folder / BANK, (_without_none(prompt) for prompt in self.prompts))
        for name, found in self.answers.items():
            rows = (
                {"entrant_id": name, "prompt_id": prompt.prompt_id, "response_text": found[prompt.prompt_id]}
                for prompt in self.prompts
                if prompt.prompt_id in found
            )
            write_lines(responses_path(folder / RESPONSES, name), rows)


def _without_none(prompt: Prompt) -> dict[str, str]:
    fields = ("prompt_id", "text", "source", "subject", "gold_answer", "expected_behavior")
    return {name: value for name in fields if (value := getattr(prompt, name))}


def collect_answers(
    files: Sequence[AnswerFile], prompts: Sequence[AnswerRow] | None = None, *, map: Mapping[str, str] | None = None
) -> AnswerCollection:
    """The bank and the answers of these files.

    Parameters:
        files: The answers, as they were read.
        prompts: The prompts of a file of their own; None if the answers say what was asked.
        map: The columns that were named by hand; one that no file has is an error.
    """
    for name, column in (map or {}).items():
        if files and not any(column in file.header for file in files):
            there = ", ".join(sorted(set().union(*(file.header for file in files))))
            raise BankError(f"no answer file has the column {column!r} for {name}; there are {there}.")
    found = AnswerCollection(notes=[note for file in files for note in file.notes])
    rows = _by_entrant(files, found.notes)
    keys = _Keys([row for answers in rows.values() for row in answers], prompts, found.notes)
    left_out: Counter[str] = Counter()
    for name, answers in rows.items():
        found.answers[name] = _answers_of(name, answers, keys, left_out)
    found.prompts = keys.prompts(answered=[key for by_key in found.answers.values() for key in by_key])
    found.notes += [f"{what}: {count:,}" for what, count in left_out.items()]
    _check(found, prompts)
    return found


def _check(found: AnswerCollection, prompts: Sequence[AnswerRow] | None) -> None:
    if prompts is not None and not found.n_answers:
        raise BankError("no answer belongs to any of the prompts: neither ids nor texts agree. Check both files.")
    if len(found.answers) < 2:
        named = ", ".join(found.answers) or "nobody"
        raise BankError(f"two models or more are needed, the answers are of {named}. Add another answer file.")
    nothing = [name for name, answers in found.answers.items() if not answers]
    if nothing:
        raise BankError(f"there is no usable answer of {', '.join(nothing)}. Check its file, or leave it out.")
    if not found.complete:
        raise BankError(
            "no prompt was answered by every model, so nothing can be compared. Check ids and texts of prompts."
        )
    if found.complete < len(found.prompts):
        lacking = ", ".join(
            f"{name} lacks {len(found.prompts) - len(answers):,}"
            for name, answers in found.answers.items()
            if len(answers) < len(found.prompts)
        )
        found.notes.append(f"{found.complete:,} of {len(found.prompts):,} prompts have every answer ({lacking})")


def _by_entrant(files: Sequence[AnswerFile], notes: list[str]) -> dict[str, list[AnswerRow]]:
    """The rows of each entrant, under a name that can be part of a file name.

    Two files of the same model are two entrants (the same model with two prompts, say), called like their files.
    """
    models = [{row.model for row in file.rows if row.model} for file in files]
    single = Counter(next(iter(names)) for names in models if len(names) == 1)
    found: dict[str, list[AnswerRow]] = {}
    for file, names, own in zip(files, models, _file_names(files), strict=True):
        same = len(names) == 1 and single[next(iter(names))] > 1
        if same and not file.named:
            notes.append(f"{file.path}: called {own}, since other files are of {next(iter(names))} too")
        by_file = (file.named and len(names) < 2) or same
        for row in file.rows:
            found.setdefault(own if by_file or not row.model else row.model, []).append(row)
    usable = _usable_names(found)
    changed = [f"{name} is {new}" for name, new in usable.items() if name != new]
    if changed:
        notes.append(f"names that can be part of a file name: {', '.join(changed)}")
    return {usable[name]: rows for name, rows in found.items()}


def _file_names(files: Sequence[AnswerFile]) -> list[str]:
    """What the model of each file is called: like the file, or like its folder where several files have one name."""
    twice = {name for name, count in Counter(file.name for file in files).items() if count > 1}
    names = [file.path.resolve().parent.name if file.name in twice and not file.named else file.name for file in files]
    for file, name in zip(files, names, strict=True):
        if sum(other.path.resolve() == file.path.resolve() for other in files) > 1 and not file.named:
            raise BankError(f"{file.path} is given twice. Each model has its own answer file: name another one.")
        if names.count(name) > 1:
            raise BankError(f"{file.path}: another file is called {name} too. Say who answered: NAME={file.path}.")
    return names


def _usable_names(names: Iterable[str]) -> dict[str, str]:
    """For each name, one that can be part of a file name; they stay different."""
    found: dict[str, str] = {}
    for name in names:
        plain = _NOT_IN_A_NAME.sub("-", name).strip("-.") or "model"
        copies = sum(1 for other in found.values() if other == plain or other.startswith(f"{plain}-"))
        found[name] = plain if plain not in found.values() else f"{plain}-{copies + 1}"
    return found


def _answers_of(name: str, rows: Sequence[AnswerRow], keys: _Keys, left_out: Counter[str]) -> dict[str, str]:
    """An entrant's answers by prompt; of several to one prompt the first."""
    found: dict[str, str] = {}
    keys.check_order(rows)
    for place, row in enumerate(rows):
        key = keys.of(row, place)
        if key is None:
            left_out[f"{name}: answers left out because they belong to no prompt"] += 1
        elif not (row.answer or "").strip():
            left_out[f"{name}: answers left out because they are empty"] += 1
        elif key in found:
            left_out[f"{name}: answers left out because an earlier one to the same prompt counts"] += 1
        else:
            found[key] = row.answer or ""
    return found


class _Keys:
    """Tells which prompt a row belongs to, and knows the prompts."""

    def __init__(self, rows: Sequence[AnswerRow], prompts: Sequence[AnswerRow] | None, notes: list[str]) -> None:
        self._given = prompts
        self._rows = [*(prompts or ()), *rows]
        self._known: dict[str, AnswerRow] = {}
        self._by_text: dict[str, str] = {}
        self._order: list[str] = []
        self._by_id = self._ids_agree(notes)
        asked = prompts if prompts is not None else [row for row in rows if row.prompt]
        width = len(str(len({_plain(row.prompt or "") for row in asked})))
        for row in asked:
            self._enter(row, width)
        if prompts is None:
            self._complain(rows)

    def _ids_agree(self, notes: list[str]) -> bool:
        """Whether every id stands for one text; line numbers of files in different orders do not."""
        texts: dict[str, str] = {}
        for row in self._rows:
            if (
                row.prompt_id
                and row.prompt
                and texts.setdefault(row.prompt_id, _plain(row.prompt)) != _plain(row.prompt)
            ):
                if any(not other.prompt for other in self._rows):
                    raise BankError(
                        f"{row.where}: prompt {row.prompt_id!r} has another text than elsewhere. Correct the ids."
                    )
                notes.append(
                    f"ids of prompts contradict each other ({row.where}): answers are matched by the prompt's text"
                )
                return False
        with_text = [row for row in self._rows if row.prompt]
        if any(row.prompt_id for row in with_text) and not all(row.prompt_id for row in with_text):
            notes.append("some files have no ids of prompts: answers are matched by the prompt's text")
        return True

    def _enter(self, row: AnswerRow, width: int) -> None:
        text = _plain(row.prompt or "")
        key = self._by_text.get(text)
        if self._by_id and row.prompt_id:
            key = row.prompt_id if key is None or row.prompt_id in self._known else key
        if key is None:
            key = f"p{len(self._known) + 1:0{width}d}"
        self._by_text.setdefault(text, key)
        self._order.append(key)
        before = self._known.get(key)
        self._known[key] = row if before is None else _merged(before, row)

    def of(self, row: AnswerRow, place: int) -> str | None:
        """The prompt of a row; `place` is its number among those of its entrant."""
        if self._by_id and row.prompt_id in self._known:
            return row.prompt_id
        if row.prompt:
            return self._by_text.get(_plain(row.prompt))
        return self._order[place] if row.prompt_id is None else None

    def check_order(self, rows: Sequence[AnswerRow]) -> None:
        """Answers that go by their order must be as many as there are prompts."""
        if any(row.prompt_id is None and not row.prompt for row in rows) and len(rows) != len(self._order):
            raise BankError(
                f"{rows[0].where}: {len(rows):,} answers without ids for {len(self._order):,} prompts: which "
                "belongs to which cannot be told. Add ids, or the missing answers."
            )

    def prompts(self, answered: Iterable[str]) -> list[Prompt]:
        """The prompts that somebody answered, in order."""
        wanted = set(answered)
        return [
            Prompt(
                prompt_id=key,
                text=row.prompt or "",
                source=row.source or "",
                subject=row.subject,
                gold_answer=row.gold,
                expected_behavior=row.expected,
            )
            for key, row in self._known.items()
            if key in wanted
        ]

    def _complain(self, rows: Sequence[AnswerRow]) -> None:
        """Say that nobody knows what was asked, if so."""
        lost = [row for row in rows if not row.prompt and row.prompt_id not in self._known]
        if lost:
            ids = sorted({row.prompt_id for row in lost if row.prompt_id})
            which = f" of {', '.join(ids[:3])}{', …' if len(ids) > 3 else ''}" if ids else ""
            raise BankError(f"{lost[0].where}: no file has the prompt{which}. Give the prompts in a file of their own.")


def _merged(first: AnswerRow, second: AnswerRow) -> AnswerRow:
    """The first row, with what only the second one knows about the prompt."""
    from dataclasses import replace

    more = {name: getattr(first, name) or getattr(second, name) for name in ("gold", "expected", "source", "subject")}
    return replace(first, **more)


def _plain(text: str) -> str:
    """A prompt without differences of white space."""
    return " ".join(text.split())
