"""Where an import comes from: a folder, or a zip file that is unpacked to a temporary one, carefully."""

from __future__ import annotations

import re
import stat
import tempfile
import unicodedata
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

import msgspec

from tiltyard.arena.intake.media.cleaning import PLAIN, format_of
from tiltyard.data.bank import AnswerKind, Response, read_responses, responses_path
from tiltyard.errors import BankError
from tiltyard.files import whole_file

PREFIX, SUFFIX = "responses_", ".jsonl"
MOST_ENTRIES = 50_000
ENTRY_BYTES = 200_000_000
"""Of one file, unpacked: a file of answers is read into memory."""
PIECE_BYTES = 1 << 20
LEFT_OUT = ("__MACOSX", ".DS_Store", "Thumbs.db", "desktop.ini")
TEXTS = (".txt", ".md")
KINDS = {
    **{name: kind for name, (kind, _, _) in PLAIN.items()},
    **dict.fromkeys(("MP3", "WAV", "FLAC", "Ogg"), AnswerKind.AUDIO),
    **dict.fromkeys(("MP4", "WebM"), AnswerKind.VIDEO),
}
CODE = {AnswerKind.SVG: "SVG", AnswerKind.HTML: "HTML", AnswerKind.VOXEL: "JSON"}
"""Kinds whose files are text, which models write into their answers, and the formats of these files."""
_THOUGHTS = re.compile(r"\A.*</think(?:ing)?>", re.DOTALL | re.IGNORECASE)
_FENCED = re.compile(r"^[ \t]*(```+|~~~+)[^\n]*\n(.*?)(?:^[ \t]*\1|\Z)", re.DOTALL | re.MULTILINE)
_ENDS = {
    AnswerKind.SVG: (re.compile(r"<svg\b", re.IGNORECASE), "</svg>"),
    AnswerKind.HTML: (re.compile(r"<!doctype html|<html\b", re.IGNORECASE), "</html>"),
    AnswerKind.VOXEL: (re.compile(r"\{"), "}"),
}
"""How code begins and ends that stands in a text without a fence."""
SOUND_ONLY = (".m4a", ".weba", ".aac")


class ImportFolder(msgspec.Struct, frozen=True):
    """A folder to import: its prompts, its answers and its model cards, each if it has them."""

    prompts: Path | None
    responses: Path | None
    models: Path | None


@contextmanager
def opened_source(path: Path, most_bytes: int) -> Iterator[ImportFolder]:
    """The parts of a folder or of a zip file, while it is open."""
    if path.is_dir():
        yield _parts(path, path.name)
        return
    with tempfile.TemporaryDirectory(prefix="tiltyard-zip-") as name:
        unzip(path, Path(name), most_bytes)
        try:
            yield _parts(_root(Path(name)), path.name)
        except BankError as error:
            raise BankError(str(error).replace(f"{_root(Path(name))}/", "").replace(name, path.name)) from None


def unzip(path: Path, folder: Path, most_bytes: int) -> None:
    """Unpack a zip file: plain files only, none outside the folder, none twice, and not more than so many bytes."""
    try:
        with zipfile.ZipFile(path) as archive:
            entries = [entry for entry in archive.infolist() if not entry.is_dir()]
            entries = [
                entry for entry in entries if not set(PurePosixPath(entry.filename).parts).intersection(LEFT_OUT)
            ]
            _check_entries(entries, path.name, most_bytes)
            left = most_bytes
            for entry in entries:
                target, written = folder.joinpath(*PurePosixPath(entry.filename).parts), 0
                target.parent.mkdir(parents=True, exist_ok=True)
                with archive.open(entry) as file, whole_file(target) as unfinished, unfinished.open("wb") as out:
                    # What a zip file says of sizes is not believed.
                    while written <= min(left, ENTRY_BYTES) and (piece := file.read(PIECE_BYTES)):
                        out.write(piece)
                        written += len(piece)
                left -= written
                if written > ENTRY_BYTES:
                    raise _too_much(f"{path.name}: {entry.filename[:80]!r}", ENTRY_BYTES)
                if left < 0:
                    raise _too_much(path.name, most_bytes)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError) as error:
        raise BankError(f"{path.name}: not a zip file that can be read ({error}). Pack it again.") from None
    except OSError as error:
        raise BankError(f"{path.name}: cannot be unpacked: {error.strerror or error}. Check the file.") from None


def _check_entries(entries: list[zipfile.ZipInfo], name: str, most_bytes: int) -> None:
    if len(entries) > MOST_ENTRIES:
        raise BankError(f"{name}: has {len(entries):,} files, and {MOST_ENTRIES:,} may be in one. Split it.")
    seen: set[str] = set()
    for entry in entries:
        path = PurePosixPath(entry.filename)
        outside = path.is_absolute() or ".." in path.parts or "\\" in entry.filename or ":" in path.parts[0]
        if outside or "\0" in entry.orig_filename:
            raise BankError(f"{name}: {entry.filename[:80]!r} leads out of the zip file. Pack it again.")
        if stat.S_IFMT(entry.external_attr >> 16) not in (0, stat.S_IFREG):
            raise BankError(f"{name}: {entry.filename[:80]!r} is a link, not a file. Pack the file itself.")
        if entry.flag_bits & 1:
            raise BankError(f"{name}: {entry.filename[:80]!r} is encrypted. Pack it without a password.")
        if entry.filename.casefold() in seen:
            raise BankError(f"{name}: {entry.filename[:80]!r} is in it twice. Give each file its own name.")
        seen.add(entry.filename.casefold())
    if sum(entry.file_size for entry in entries) > most_bytes:
        raise _too_much(name, most_bytes)


def _too_much(name: str, most_bytes: int) -> BankError:
    return BankError(f"{name}: holds more than {most_bytes / 1e6:,.0f} MB when unpacked. Import it in parts.")


def _root(folder: Path) -> Path:
    """The folder itself, or the only one in it: people pack a folder or its contents."""
    inside = list(folder.iterdir())
    if len(inside) != 1 or not inside[0].is_dir():
        return folder
    is_one_model = not any(path.is_dir() or path.suffix == SUFFIX for path in inside[0].iterdir())
    return folder if is_one_model else inside[0]


def _parts(folder: Path, name: str) -> ImportFolder:
    prompts = next((folder / file for file in ("prompts.jsonl", "bank.jsonl") if (folder / file).is_file()), None)
    models = next((folder / file for file in ("models.yaml", "models.json") if (folder / file).is_file()), None)
    order = (folder, folder / "responses") if any(folder.glob(f"{PREFIX}*{SUFFIX}")) else (folder / "responses", folder)
    places = [place for place in order if place.is_dir() and models_in(place)]
    if prompts is None and models is None and not places:
        raise BankError(
            f"{name}: has no prompts.jsonl, no responses_<model>.jsonl, and no folder of a model's files. "
            "See docs/how-to/arena-of-any-kind.md."
        )
    return ImportFolder(prompts, places[0] if places else None, models)


def models_in(folder: Path) -> list[str]:
    """The models whose answers are in a folder: a file responses_<model>.jsonl or, without any, a folder each."""
    rows = sorted(file.name[len(PREFIX) : -len(SUFFIX)] for file in folder.glob(f"{PREFIX}*{SUFFIX}"))
    if rows:
        return rows
    places = (place for place in folder.iterdir() if place.is_dir() and not place.name.startswith((".", "_")))
    return sorted(place.name for place in places if any(not path.is_dir() for path in _seen(place)))


def read_answers(folder: Path, model: str) -> dict[str, Response]:
    """A model's answers by prompt: the rows of its file, or the files of its folder, named after their prompts."""
    if responses_path(folder, model).exists() or not (folder / model).is_dir():
        return read_responses(folder, model)
    result: dict[str, Response] = {}
    paths = _seen(folder / model)
    for path in (folder / model, *paths):  # links may lead elsewhere
        if not path.resolve().is_relative_to(folder.resolve()):
            raise BankError(f"{path}: is a link that leads out of {folder}. Put the file itself there.")
        if path != folder / model and not path.is_file():
            raise BankError(f"{path}: is not a file, and a model's folder holds nothing else. Take it out.")
    for path in paths:
        name = unicodedata.normalize("NFC", path.stem)  # some systems write accents apart
        if name in result:
            raise BankError(f"{path}: there are two answers to {name!r} in this folder. Keep one.")
        result[name] = _response(path, model, name)
    return result


def code_of(text: str, kind: AnswerKind) -> bytes | None:
    """The drawing, page or build that a text answer holds: its longest block of code of that kind; None without one.

    `kind` is one of `CODE`.
    """
    answer = _THOUGHTS.sub("", text)
    result = [block[2] for block in _FENCED.finditer(answer)]
    opening, closing = _ENDS[kind]
    if (begun := opening.search(answer)) and (end := answer.lower().rfind(closing)) > begun.end() and not result:
        result.append(answer[begun.start() : end + len(closing)])
    fitting = [code.strip().encode() for code in result if format_of(code.strip().encode()) == CODE[kind]]
    return max(fitting, key=len, default=None)


def _seen(place: Path) -> list[Path]:
    return sorted(path for path in place.iterdir() if not path.name.startswith(".") and path.name not in LEFT_OUT)


def _response(path: Path, model: str, prompt_id: str) -> Response:
    if path.suffix.lower() in TEXTS:
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            raise BankError(f"{path}: is not UTF-8. Save it as UTF-8.") from None
        return Response(entrant_id=model, prompt_id=prompt_id, response_text=text)
    with path.open("rb") as file:
        head = file.read(1 << 18)
    kind = KINDS.get(format_of(head))
    if kind is None:
        what = (
            "is empty" if not head else "is no text, picture, drawing, page, build, model, sound or film that is known"
        )
        raise BankError(f"{path}: {what}. Convert it, or take it out.")
    if kind is AnswerKind.VIDEO and path.suffix.lower() in SOUND_ONLY:
        kind = AnswerKind.AUDIO
    row = Response(entrant_id=model, prompt_id=prompt_id, response_text="")
    return msgspec.structs.replace(row, kind=kind, file=f"{model}/{path.name}")
