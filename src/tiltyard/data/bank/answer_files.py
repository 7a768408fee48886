"""Answers as people have them (JSON lists, JSON Lines, CSV, a folder of files) as a bank and response files."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from tiltyard.data.bank.prompts import Prompt, read_objects, show_turns
from tiltyard.data.bank.responses import responses_path
from tiltyard.errors import BankError, OptionValue
from tiltyard.files import write_lines

Choose = Callable[[str, Sequence[str]], "str | None"]
"""Asks a person which of several columns is meant; None is no answer."""
Records = Sequence[tuple[int, dict[str, Any]]]
"""The records of a file, each with its line or number."""

FIELDS: dict[str, tuple[str, ...]] = {
    "id": (
        *("prompt_id", "question_id", "id", "qid", "uid", "example_id", "instance_id", "task_id", "doc_id", "idx"),
        *("index", "key", "custom_id"),
    ),
    "prompt": (
        *("prompt", "prompt_text", "question", "instruction", "input", "query", "user", "user_message", "problem"),
        *("turns", "request"),
    ),
    "model": ("entrant_id", "entrant", "model", "model_id", "model_name", "generator", "system_name"),
    "answer": (
        *("response_text", "response", "output", "completion", "generation", "reply", "model_output", "prediction"),
        *("model_answer", "generated_text", "answer", "answer_text", "assistant", "result", "text", "content"),
    ),
    "gold": (
        *("gold_answer", "gold", "reference", "reference_answer", "ground_truth", "target", "ideal"),
        "correct_answer",
    ),
    "expected": ("expected_behavior",),
    "source": ("source", "category", "dataset", "topic", "task"),
    "subject": ("subject",),
}
"""What may be known of an answer, and the usual names of its column, likeliest first."""

OF_PROMPTS = {name: usual for name, usual in FIELDS.items() if name not in ("answer", "model")} | {
    "prompt": (*FIELDS["prompt"], "text", "content"),
    "gold": (*FIELDS["gold"], "answer"),
}
"""The same for a file of prompts: there, `text` is the prompt and `answer` the right one."""

USUAL = frozenset(word for usual in FIELDS.values() for word in usual)
TABLES = {".csv": ",", ".tsv": "\t"}
LINES = (".jsonl", ".ndjson")
TEXTS = (".txt", ".md")
MESSAGES = "messages"
_NUMBER = re.compile(r"\s*[-+]?[\d.,]+(?:[eE][-+]?\d+)?\s*%?\s*")


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerRow:
    """One answer, or one prompt of a file of prompts, with whatever the file says about it. `where` is its place."""

    where: str
    model: str | None = None
    prompt_id: str | None = None
    prompt: str | None = None
    answer: str | None = None
    gold: str | None = None
    expected: str | None = None
    source: str | None = None
    subject: str | None = None


class AnswerFile(msgspec.Struct):
    """The rows of one file or folder; `name` is what its model is called if no row says so, or if it is `named`."""

    path: Path
    name: str
    named: bool = False
    header: set[str] = msgspec.field(default_factory=set)
    rows: list[AnswerRow] = msgspec.field(default_factory=list)
    notes: list[str] = msgspec.field(default_factory=list)


def read_answer_file(
    path: Path, *, name: str | None = None, map: Mapping[str, str] | None = None, choose: Choose | None = None
) -> list[AnswerFile]:
    """The answers of a file or folder, as they stand there; a folder may hold several models.

    The model is called `name`, or like the file. `map` names the column of a field (see `FIELDS`) whose name is
    unusual; without `choose`, a column that is not recognised is an error.
    """
    if not path.exists():
        raise BankError(f"there is no answer file {path}. Check the path.")
    if path.is_dir():
        return _read_folder(path, name, map or {}, choose)
    file = AnswerFile(path, name or _model_name(path), named=name is not None)
    records = read_records(path)
    if not records:
        raise BankError(f"{path} holds no answer. Remove it, or check what wrote it.")
    _fill(file, records, map or {}, choose)
    return [file]


def read_prompt_file(
    path: Path, *, map: Mapping[str, str] | None = None, choose: Choose | None = None
) -> list[AnswerRow]:
    """The prompts of a file, with ids where it has them."""
    if not path.is_file():
        raise BankError(f"there is no prompt file {path}. Check the path.")
    if path.suffix.lower() in TEXTS:
        lines = [line.strip() for line in _text(path).splitlines()]
        return [AnswerRow(where=f"{path}:{n}", prompt=line) for n, line in enumerate(lines, start=1) if line]
    records = read_records(path)
    header = _header(records)
    columns = _columns(header, OF_PROMPTS, map or {})
    if "prompt" not in columns:
        columns["prompt"] = _ask("prompt", header, columns, str(path), choose)
    return [_row(f"{path}:{n}", record, columns) for n, record in records]


def read_records(path: Path) -> Records:
    """Every record of a file."""
    suffix = path.suffix.lower()
    if suffix in LINES:
        return list(read_objects(path, "answer file"))
    if suffix in TABLES:
        return _table(path, TABLES[suffix])
    if suffix == ".json":
        return _json(path)
    raise BankError(
        f"{path}: answers are read from .jsonl, .json, .csv, .tsv, or a folder of .txt, .md or .json files, one "
        "for each prompt. Convert it to one of these."
    )


def _table(path: Path, comma: str) -> Records:
    text = _text(path)
    first = text.split("\n", 1)[0]
    comma = ";" if comma == "," and first.count(";") > first.count(",") else comma
    csv.field_size_limit(2**31 - 1)
    try:
        reader = csv.DictReader(io.StringIO(text, newline=""), delimiter=comma, strict=True)
        rows = [(reader.line_num, row) for row in reader]
    except csv.Error as error:
        raise BankError(f"{path}: not CSV ({error}). Save it again as UTF-8 CSV.") from None
    for line, row in rows:
        if None in row:
            raise BankError(f"{path}:{line}: the row has more cells than the header. Quote cells that hold a comma.")
    return rows


def _json(path: Path) -> Records:
    """A list of objects or texts, an object of lists by name, or an object from prompt id to answer."""
    try:
        value = msgspec.json.decode(path.read_bytes().removeprefix(b"\xef\xbb\xbf"))
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BankError(f"{path}: not JSON ({error}). If it has one object per line, call it .jsonl.") from None
    if isinstance(value, dict):
        lists = [part for part in value.values() if isinstance(part, list)]
        if len(lists) == 1:
            value = lists[0]
        elif value and all(isinstance(answer, str) for answer in value.values()) and not USUAL & value.keys():
            value = [{"prompt_id": key, "response_text": answer} for key, answer in value.items()]
        else:
            value = [value]
    if not isinstance(value, list):
        raise BankError(f"{path}: expected a list of answers, found {type(value).__name__}.")
    rows = [{"response_text": row} if isinstance(row, str) else row for row in value]
    for number, row in enumerate(rows, start=1):
        if not isinstance(row, dict):
            raise BankError(f"{path}: entry {number} is {type(row).__name__}; expected an object or a text.")
    return list(enumerate(rows, start=1))


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise BankError(f"{path} is not UTF-8 text. Save it as UTF-8.") from None
    except OSError as error:
        raise BankError(f"cannot read {path}: {error.strerror}.") from None


def _read_folder(folder: Path, name: str | None, map: Mapping[str, str], choose: Choose | None) -> list[AnswerFile]:
    """A folder of answer files, of folders (one for each model), or of texts (one for each prompt)."""
    entries = sorted(entry for entry in folder.iterdir() if not entry.name.startswith("."))
    files = [(entry, entry.suffix.lower()) for entry in entries if entry.is_file()]
    whole = [file for file, suffix in files if suffix in (*LINES, *TABLES) or (suffix == ".json" and _is_list(file))]
    single = [file for file, suffix in files if file not in whole and suffix in (*TEXTS, ".json")]
    if whole and single:
        raise BankError(
            f"{folder} holds answer files ({whole[0].name}) and single answers ({single[0].name}). Name one kind."
        )
    if whole:
        return [part for file in whole for part in read_answer_file(file, map=map, choose=choose)]
    if single:
        return [_one_per_prompt(folder, single, name, map)]
    folders = [entry for entry in entries if entry.is_dir()]
    if not folders:
        raise BankError(
            f"{folder} holds no answers. Expected .jsonl, .json or .csv files, or .txt and .md, one a prompt."
        )
    return [part for entry in folders for part in _read_folder(entry, None, map, choose)]


def _is_list(file: Path) -> bool:
    with file.open("rb") as stream:
        return stream.read(64).removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"[")


def _one_per_prompt(folder: Path, files: Sequence[Path], name: str | None, map: Mapping[str, str]) -> AnswerFile:
    """A file for each prompt; its name is the prompt's id, unless it says another."""
    answers = AnswerFile(folder, name or _model_name(folder), named=name is not None)
    for file in files:
        if file.suffix.lower() in TEXTS:
            row = AnswerRow(where=str(file), prompt_id=file.stem, answer=_text(file).strip())
        else:
            ((_, record),) = _json(file)
            answers.header.update(record)
            row = _row(str(file), record, _columns(list(record), FIELDS, map))
            row = replace(row, prompt_id=row.prompt_id or file.stem)
        answers.rows.append(row)
    return answers


def _fill(file: AnswerFile, records: Records, map: Mapping[str, str], choose: Choose | None) -> None:
    """Turn the records of a file into rows: one each, or one for each model that has a column."""
    where, header = str(file.path), _header(records)
    file.header.update(header)
    columns = _columns(header, FIELDS, map)
    if "answer" not in columns and MESSAGES not in header:
        rest = _texts_left(records, header, columns)
        if len(rest) > 1 and "model" not in columns and "answer" not in map:
            file.notes.append(f"{where}: every other column is taken for a model's answers: {', '.join(rest)}")
            for column in rest:
                cells = columns | {"answer": column}
                file.rows += [_row(f"{where}:{n}", record, cells, model=column) for n, record in records]
            return
        columns["answer"] = rest[0] if len(rest) == 1 else _ask("answer", header, columns, where, choose)
        file.notes.append(f"{where}: the answers are in the column {columns['answer']}")
    file.rows += [_row(f"{where}:{n}", record, columns) for n, record in records]


def _columns(header: Sequence[str], known: Mapping[str, tuple[str, ...]], map: Mapping[str, str]) -> dict[str, str]:
    """The column of each field: as the mapping says, else the likeliest of the usual names."""
    columns: dict[str, str] = {}
    for name, column in map.items():
        if name not in FIELDS:
            raise BankError(f"{name!r} is not a field of an answer; there are {', '.join(FIELDS)}.")
        if column in header:
            columns[name] = column
    plain = {re.sub(r"[\s-]+", "_", column.strip().lower()): column for column in header}
    for name, usual in known.items():
        free = (plain[word] for word in usual if word in plain and plain[word] not in columns.values())
        likeliest = next(free, None)
        if name not in columns and likeliest is not None:
            columns[name] = likeliest
    if "prompt" not in columns and plain.get("text", "") not in ("", *columns.values()):
        columns["prompt"] = plain["text"]
    return columns


def _texts_left(records: Records, header: Sequence[str], columns: Mapping[str, str]) -> list[str]:
    """The columns that nothing is known of and that hold texts rather than numbers."""
    rest = []
    for column in header:
        values = [record.get(column) for _, record in records if record.get(column) not in (None, "")]
        texts = [value for value in values if isinstance(value, str) and not _NUMBER.fullmatch(value)]
        if column not in columns.values() and values and len(texts) > len(values) / 2:
            rest.append(column)
    return rest


def _ask(what: str, header: Sequence[str], columns: Mapping[str, str], where: str, choose: Choose | None) -> str:
    rest = [column for column in header if column not in columns.values()]
    chosen = choose(f"{where}: which column holds the {what}?", rest) if choose is not None and rest else None
    if chosen in rest:
        return str(chosen)
    raise BankError(
        f"{where}: no column of it is known to hold the {what}; it has {', '.join(header)}. Name it: ",
        OptionValue("map", {what: "COLUMN"}),
        ".",
    )


def _header(records: Records) -> list[str]:
    return list(dict.fromkeys(str(column) for _, record in records for column in record))


def _row(where: str, record: Mapping[str, Any], columns: Mapping[str, str], *, model: str | None = None) -> AnswerRow:
    """A record as a row; a conversation gives its prompt and its last reply."""
    cells = {name: _as_text(record.get(column), where, column) for name, column in columns.items()}
    if isinstance(record.get(MESSAGES), list):
        asked, replied = _conversation(record[MESSAGES], where)
        cells.setdefault("prompt", asked)
        if "answer" not in columns:
            cells["answer"] = replied
    answer = cells.pop("answer", None)
    cells["prompt_id"] = cells.pop("id", None)
    known = {name: text.strip() or None for name, text in cells.items() if text}
    return AnswerRow(where=where, answer=answer, **known | ({"model": model} if model else {}))


def _as_text(value: Any, where: str, column: str) -> str | None:
    """The text of a cell: a text, a number, a message, a list of messages or turns, or a provider's whole reply."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool | int | float):
        return str(value)
    if isinstance(value, dict):
        for key in ("content", "text", "message", "value", "body"):
            if key in value:
                return _as_text(value[key], where, column)
        if isinstance(value.get("choices"), list) and value["choices"]:
            return _as_text(value["choices"][0], where, column)
    if isinstance(value, list) and value:
        if all(isinstance(part, dict) and "role" in part for part in value):
            asked, replied = _conversation(value, where)
            return replied if replied is not None and asked is None else asked
        parts = [_as_text(part, where, column) or "" for part in value]
        joined = any(isinstance(part, dict) for part in value)
        return "".join(parts) if joined else show_turns(parts)
    raise BankError(f"{where}: {column} holds {str(value)[:40]!r}, which is no text. Name another column.")


def _conversation(messages: Sequence[Any], where: str) -> tuple[str | None, str | None]:
    """What the user said in a conversation, and the last reply to it."""
    texts: dict[str, list[str]] = {"user": [], "assistant": []}
    for message in messages:
        if not isinstance(message, dict) or "role" not in message:
            raise BankError(f"{where}: a message has no role. Expected role and content.")
        if message["role"] in texts:
            texts[message["role"]].append(_as_text(message.get("content"), where, MESSAGES) or "")
    asked, replied = texts["user"], texts["assistant"]
    return (show_turns(asked) if asked else None), (replied[-1] if replied else None)


def _model_name(path: Path) -> str:
    stem = path.name if path.is_dir() else path.stem
    return re.sub(r"^(responses?|answers?|outputs?)[_-]+|[_-]+(responses?|answers?|outputs?)$", "", stem) or stem


BANK, RESPONSES = "bank.jsonl", "responses"
_NOT_IN_A_NAME = re.compile(r"[^\w.+-]+")


class AnswerCollection(msgspec.Struct):
    """Prompts, answers by entrant and prompt, and what a reader should know about how they were put together."""

    prompts: list[Prompt] = msgspec.field(default_factory=list)
    answers: dict[str, dict[str, str]] = msgspec.field(default_factory=dict)
    notes: list[str] = msgspec.field(default_factory=list)

    @property
    def n_answers(self) -> int:
        return sum(map(len, self.answers.values()))

    @property
    def complete(self) -> int:
        """Prompts that every entrant answered."""
        return sum(all(prompt.prompt_id in answers for answers in self.answers.values()) for prompt in self.prompts)

    def files(self, folder: Path) -> list[Path]:
        return [folder / BANK, *(responses_path(folder / RESPONSES, name) for name in self.answers)]

    def write(self, folder: Path) -> None:
        fields = ("prompt_id", "text", "source", "subject", "gold_answer", "expected_behavior")
        bank = ({name: value for name in fields if (value := getattr(one, name))} for one in self.prompts)
        write_lines(folder / BANK, bank)
        for name, answers in self.answers.items():
            rows = (
                {"entrant_id": name, "prompt_id": prompt.prompt_id, "response_text": answers[prompt.prompt_id]}
                for prompt in self.prompts
                if prompt.prompt_id in answers
            )
            write_lines(responses_path(folder / RESPONSES, name), rows)


def collect_answers(
    files: Sequence[AnswerFile], prompts: Sequence[AnswerRow] | None = None, *, map: Mapping[str, str] | None = None
) -> AnswerCollection:
    """The bank and the answers of these files. Without `prompts`, the answers say what was asked.

    A column of `map`, named by hand, that no file has is an error.
    """
    for name, column in (map or {}).items():
        if files and not any(column in file.header for file in files):
            there = ", ".join(sorted(set().union(*(file.header for file in files))))
            raise BankError(f"no answer file has the column {column!r} for {name}; there are {there}.")
    collection = AnswerCollection(notes=[note for file in files for note in file.notes])
    rows = _by_entrant(files, collection.notes)
    keys = _Keys([row for answers in rows.values() for row in answers], prompts, collection.notes)
    left_out: Counter[str] = Counter()
    for name, answers in rows.items():
        collection.answers[name] = _answers_of(name, answers, keys, left_out)
    collection.prompts = keys.prompts(answered=[key for by_key in collection.answers.values() for key in by_key])
    collection.notes += [f"{what}: {count:,}" for what, count in left_out.items()]
    _check(collection, prompts)
    return collection


def _check(collection: AnswerCollection, prompts: Sequence[AnswerRow] | None) -> None:
    if prompts is not None and not collection.n_answers:
        raise BankError("no answer belongs to any of the prompts: neither ids nor texts agree. Check both files.")
    if len(collection.answers) < 2:
        named = ", ".join(collection.answers) or "nobody"
        raise BankError(f"two models or more are needed, the answers are of {named}. Add another answer file.")
    nothing = [name for name, answers in collection.answers.items() if not answers]
    if nothing:
        raise BankError(f"there is no usable answer of {', '.join(nothing)}. Check its file, or leave it out.")
    if not collection.complete:
        raise BankError(
            "no prompt was answered by every model, so nothing can be compared. Check ids and texts of prompts."
        )
    n_prompts = len(collection.prompts)
    if collection.complete < n_prompts:
        short = {name: n_prompts - len(answers) for name, answers in collection.answers.items()}
        lacking = ", ".join(f"{name} lacks {missing:,}" for name, missing in short.items() if missing)
        collection.notes.append(f"{collection.complete:,} of {n_prompts:,} prompts have every answer ({lacking})")


def _by_entrant(files: Sequence[AnswerFile], notes: list[str]) -> dict[str, list[AnswerRow]]:
    """The rows of each entrant, under a name that can be part of a file name.

    Two files of the same model are two entrants (the same model with two prompts, say), called like their files.
    """
    models = [{row.model for row in file.rows if row.model} for file in files]
    single = Counter(next(iter(names)) for names in models if len(names) == 1)
    by_entrant: dict[str, list[AnswerRow]] = {}
    for file, names, own in zip(files, models, _file_names(files), strict=True):
        same = len(names) == 1 and single[next(iter(names))] > 1
        if same and not file.named:
            notes.append(f"{file.path}: called {own}, since other files are of {next(iter(names))} too")
        by_file = (file.named and len(names) < 2) or same
        for row in file.rows:
            by_entrant.setdefault(own if by_file or not row.model else row.model, []).append(row)
    usable: dict[str, str] = {}
    for name in by_entrant:
        plain = _NOT_IN_A_NAME.sub("-", name).strip("-.") or "model"
        copies = sum(other == plain or other.startswith(f"{plain}-") for other in usable.values())
        usable[name] = plain if plain not in usable.values() else f"{plain}-{copies + 1}"
    changed = [f"{name} is {new}" for name, new in usable.items() if name != new]
    if changed:
        notes.append(f"names that can be part of a file name: {', '.join(changed)}")
    return {usable[name]: rows for name, rows in by_entrant.items()}


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


def _answers_of(name: str, rows: Sequence[AnswerRow], keys: _Keys, left_out: Counter[str]) -> dict[str, str]:
    """An entrant's answers by prompt; of several to one prompt the first."""
    answers: dict[str, str] = {}
    by_order = any(row.prompt_id is None and not row.prompt for row in rows)
    if by_order and len(rows) != len(keys.order):
        raise BankError(
            f"{rows[0].where}: {len(rows):,} answers without ids for {len(keys.order):,} prompts: which belongs to "
            "which cannot be told. Add ids, or the missing answers."
        )
    for place, row in enumerate(rows):
        key = keys.of(row, place)
        if key is None:
            left_out[f"{name}: answers left out because they belong to no prompt"] += 1
        elif not (row.answer or "").strip():
            left_out[f"{name}: answers left out because they are empty"] += 1
        elif key in answers:
            left_out[f"{name}: answers left out because an earlier one to the same prompt counts"] += 1
        else:
            answers[key] = row.answer or ""
    return answers


def _ids_agree(rows: Sequence[AnswerRow], notes: list[str]) -> bool:
    """Whether every id stands for one text; line numbers of files in different orders do not."""
    texts: dict[str, str] = {}
    asked = [row for row in rows if row.prompt]
    for row in asked:
        text = _plain(row.prompt or "")
        if row.prompt_id and texts.setdefault(row.prompt_id, text) != text:
            if len(asked) < len(rows):
                raise BankError(
                    f"{row.where}: prompt {row.prompt_id!r} has another text than elsewhere. Correct the ids."
                )
            notes.append(
                f"ids of prompts contradict each other ({row.where}): answers are matched by the prompt's text"
            )
            return False
    if any(row.prompt_id for row in asked) and not all(row.prompt_id for row in asked):
        notes.append("some files have no ids of prompts: answers are matched by the prompt's text")
    return True


class _Keys:
    """Tells which prompt a row belongs to, and knows the prompts."""

    def __init__(self, rows: Sequence[AnswerRow], prompts: Sequence[AnswerRow] | None, notes: list[str]) -> None:
        self._known: dict[str, AnswerRow] = {}
        self._by_text: dict[str, str] = {}
        self.order: list[str] = []
        self._by_id = _ids_agree([*(prompts or ()), *rows], notes)
        asked = prompts if prompts is not None else [row for row in rows if row.prompt]
        width = len(str(len({_plain(row.prompt or "") for row in asked})))
        for row in asked:
            self._enter(row, width)
        lost = [row for row in rows if prompts is None and not row.prompt and row.prompt_id not in self._known]
        if lost:
            ids = sorted({row.prompt_id for row in lost if row.prompt_id})
            which = f" of {', '.join(ids[:3])}{', …' if len(ids) > 3 else ''}" if ids else ""
            raise BankError(f"{lost[0].where}: no file has the prompt{which}. Give the prompts in a file of their own.")

    def _enter(self, row: AnswerRow, width: int) -> None:
        text = _plain(row.prompt or "")
        key = self._by_text.get(text)
        if self._by_id and row.prompt_id:
            key = row.prompt_id if key is None or row.prompt_id in self._known else key
        if key is None:
            key = f"p{len(self._known) + 1:0{width}d}"
        self._by_text.setdefault(text, key)
        self.order.append(key)
        first = self._known.setdefault(key, row)
        of_prompt = ("gold", "expected", "source", "subject")
        self._known[key] = replace(first, **{name: getattr(first, name) or getattr(row, name) for name in of_prompt})

    def of(self, row: AnswerRow, place: int) -> str | None:
        """The prompt of a row; `place` is its number among those of its entrant."""
        if self._by_id and row.prompt_id in self._known:
            return row.prompt_id
        if row.prompt:
            return self._by_text.get(_plain(row.prompt))
        return self.order[place] if row.prompt_id is None else None

    def prompts(self, answered: Iterable[str]) -> list[Prompt]:
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


def _plain(text: str) -> str:
    return " ".join(text.split())
