"""Filling the arena from a form or an uploaded zip file, which can be looked at before it is done."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import secrets
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from tiltyard.arena.events import ResponseAdded
from tiltyard.arena.import_source import opened_source
from tiltyard.arena.importing import Import, carry_out, prepare_import
from tiltyard.arena.screening import hide_self_naming
from tiltyard.arena.service import Arena
from tiltyard.errors import BankError
from tiltyard.files import write_text
from tiltyard.web.admin import admin_page, check_token, desk, followed, posted
from tiltyard.web.bodies import upload_of
from tiltyard.web.site import site_of

MOST_BYTES = 8_000_000
"""The largest form: percent-encoding makes a text up to three times as long. Use the command line for more."""

UPLOAD_BYTES = 300_000_000
"""The largest zip file."""

UPLOAD_SECONDS = 3600
"""How long an uploaded file waits for its import."""

LISTED = 100
"""Prompts that a preview lists."""

UPLOAD_NAME = re.compile(r"[A-Za-z0-9_-]{24}\Z")

FILE_NAME = re.compile(r"[^/\\\x00-\x1f]{1,100}\Z")
"""Names of models that can be part of a file's name."""

_log = logging.getLogger("tiltyard.web")


class _Owner(msgspec.Struct, frozen=True):
    """Whose answer a line holds."""

    entrant_id: str


async def import_page(request: Request) -> Response:
    """The forms for prompts, answers and model metadata, and for a zip file."""
    return _import_page(request)


async def import_texts(request: Request) -> Response:
    """Import what is new or changed in a form, or say what that would be."""
    form = await posted(request, MOST_BYTES)

    def prepared(arena: Arena) -> Iterator[Import]:
        with tempfile.TemporaryDirectory(prefix="tiltyard-import-") as name:
            folder = Path(name)
            try:
                yield prepare_import(
                    arena,
                    bank=_file(folder / "prompts.jsonl", form.get("prompts", "")),
                    responses=_responses(folder / "responses", form.get("responses", "")),
                    cards=_file(folder / "models.yaml", form.get("models", "")),
                )
            except Exception as error:
                # messages name the file, not the temporary folder it was in
                error.args = tuple(str(part).replace(f"{folder}/", "") for part in error.args)
                raise

    return await _answered(request, prepared, look_only=form.get("do") == "preview", again=form)


async def upload(request: Request) -> Response:
    """Take a zip file, and say what importing it would do."""
    folder = _uploads()
    for old in folder.iterdir():
        if time.time() - old.stat().st_mtime > UPLOAD_SECONDS:
            old.unlink(missing_ok=True)
    name = secrets.token_urlsafe(18)
    target = folder / f"{name}.zip"
    try:
        fields = await upload_of(request, target, UPLOAD_BYTES)
        check_token(request, fields.get("token", ""))
        if not target.exists():
            raise BankError("no file was sent. Choose a zip file.")
        return await _answered(request, lambda arena: _unzipped(arena, target), look_only=True, upload=name)
    except BaseException:
        target.unlink(missing_ok=True)
        raise


async def import_upload(request: Request) -> Response:
    """Import an uploaded zip file that was looked at."""
    name = (await posted(request)).get("upload", "")
    target = _uploads() / f"{name}.zip"
    if not UPLOAD_NAME.match(name) or not target.exists():
        raise BankError("the uploaded file is gone: it waits an hour, on the host that took it. Upload it again.")
    try:
        return await _answered(request, lambda arena: _unzipped(arena, target), look_only=False)
    finally:
        target.unlink(missing_ok=True)


def _unzipped(arena: Arena, path: Path) -> Iterator[Import]:
    most = arena.read(lambda state: state.policy.media.most_bytes("total"))
    try:
        with opened_source(path, most) as result:
            yield prepare_import(arena, bank=result.prompts, responses=result.responses, cards=result.models)
    except BankError as error:
        raise BankError(str(error).replace(path.name, "the zip file")) from None


def _uploads() -> Path:
    """The folder of uploaded files, which only this user can read."""
    folder = Path(tempfile.gettempdir()) / f"tiltyard-uploads-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.is_symlink() or folder.stat().st_uid != os.getuid():
        raise BankError(f"{folder} belongs to somebody else. Remove it, or use `tiltyard arena import`.")
    return folder


async def _answered(
    request: Request,
    prepared: Callable[[Arena], Iterator[Import]],
    *,
    look_only: bool,
    again: Mapping[str, str] | None = None,
    upload: str = "",
) -> Response:
    """Prepare an import outside the event loop, then show it or do it."""
    lines, rows = await asyncio.to_thread(_done, site_of(request).engine.arena, prepared, look_only)
    if look_only:
        return _import_page(request, preview=lines, rows=rows, again=again, upload=upload)
    _log.info("administrator at %s: an import", request.state.address)
    await followed(request)
    return _import_page(request, lines=lines)


def _done(
    arena: Arena, prepared: Callable[[Arena], Iterator[Import]], look_only: bool
) -> tuple[list[str], list[tuple[str, str, int]]]:
    """What an import did or would do, in lines; older answers are then screened for the names of new models."""
    with contextmanager(prepared)(arena) as plan:
        try:
            if not look_only:
                carry_out(arena, plan)
            return plan.lines() + ([] if look_only else hide_self_naming(arena)), _by_prompt(plan)
        finally:
            plan.close()


def _by_prompt(plan: Import) -> list[tuple[str, str, int]]:
    """New answers by prompt: its id, their kind, how many."""
    counts: dict[tuple[str, str], int] = {}
    for body in plan.bodies:
        if isinstance(body, ResponseAdded):
            counts[body.prompt_id, body.answer_kind] = counts.get((body.prompt_id, body.answer_kind), 0) + 1
    return [(prompt, kind, n) for (prompt, kind), n in counts.items()][:LISTED]


def _import_page(
    request: Request,
    *,
    lines: list[str] | None = None,
    preview: list[str] | None = None,
    rows: list[tuple[str, str, int]] | None = None,
    again: Mapping[str, str] | None = None,
    upload: str = "",
) -> Response:
    context = {
        "lines": lines or [],
        "preview": preview or [],
        "rows": rows or [],
        "again": again or {},
        "upload": upload,
        "megabytes": MOST_BYTES // 1_000_000,
        "upload_megabytes": UPLOAD_BYTES // 1_000_000,
    }
    return admin_page(request, "import", context)


def _file(path: Path, text: str) -> Path | None:
    if not text.strip():
        return None
    write_text(path, _lines(text))
    return path


def _responses(folder: Path, text: str) -> Path | None:
    """A folder with one file per `entrant_id`."""
    if not text.strip():
        return None
    folder.mkdir()
    owners: dict[str, list[str]] = {}
    for number, line in enumerate(_lines(text).split("\n"), start=1):
        if not line.strip():
            continue
        try:
            owner = msgspec.json.decode(line, type=_Owner).entrant_id
        except msgspec.DecodeError as error:
            raise BankError(f"answers, line {number}: {error}. Write one JSON object per line.") from None
        if not FILE_NAME.match(owner):
            raise BankError(f"answers, line {number}: the entrant_id {owner[:40]!r} cannot be used. Rename the model.")
        owners.setdefault(owner, []).append(line)
    for owner, lines in owners.items():
        write_text(folder / f"responses_{owner}.jsonl", "\n".join(lines) + "\n")
    return folder


def _lines(text: str) -> str:
    """A text with plain line feeds: browsers send line breaks as two characters."""
    return text.replace("\r\n", "\n").encode("utf-8", "replace").decode()


ROUTES = [
    *desk("/import", "import", import_page, import_texts),
    *desk("/upload", "import", change=upload),
    *desk("/upload/import", "import", change=import_upload),
]
