"""Importing answers that are files: from rows, from a folder for each model, from a zip; and what is refused."""

from __future__ import annotations

import io
import json
import os
import zipfile
from pathlib import Path

import pytest

from tests.arena import planted
from tests.arena.databases import rule_above_the_store
from tests.arena.engines import open_arena, sql
from tiltyard.arena import Arena, carry_out, opened_source, prepare_import, read_policy
from tiltyard.arena import events as e
from tiltyard.arena.audit.verify import verify
from tiltyard.arena.intake.import_source import ENTRY_BYTES, code_of
from tiltyard.arena.intake.importing import Import
from tiltyard.arena.store.files import read_file, stored_files
from tiltyard.arena.writing.commands import MOST_CHARACTERS
from tiltyard.data.bank import AnswerKind
from tiltyard.errors import ArenaError, BankError, TiltyardError

SVG = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 9 9"><rect width="{0}" height="{0}"/>{1}</svg>'
MODELS = ("zyxwolf-one", "qvartz-7b")


def bank(folder: Path, prompts: int = 2) -> Path:
    rows = [json.dumps({"prompt_id": f"p{j}", "text": f"Draw number {j}."}) for j in range(prompts)]
    path = folder / "prompts.jsonl"
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return path


def drawings(folder: Path, more: str = "") -> Path:
    """A folder for each model, with a drawing for each prompt."""
    bank(folder)
    for i, model in enumerate(MODELS):
        (folder / model).mkdir()
        for j in range(2):
            (folder / model / f"p{j}.svg").write_text(SVG.format(i + j + 1, more), encoding="utf-8")
    return folder


def rows(folder: Path, *given: dict[str, object]) -> None:
    """Rows of responses, by model."""
    for model in {str(row["entrant_id"]) for row in given}:
        lines = [json.dumps(row) for row in given if row["entrant_id"] == model]
        (folder / f"responses_{model}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")


def bring(arena: Arena, source: Path) -> Import:
    with opened_source(source, 50_000_000) as found:
        plan = prepare_import(arena, bank=found.prompts, responses=found.responses, cards=found.models)
        carry_out(arena, plan)
        plan.close()
    return plan


@rule_above_the_store
def test_a_folder_of_drawings_becomes_an_arena_and_nothing_is_imported_twice(arena_url: str, tmp_path: Path) -> None:
    drawings(tmp_path)
    with open_arena(arena_url) as arena:
        plan = bring(arena, tmp_path)
        assert (plan.models, plan.prompts, plan.answers, plan.telling) == (2, 2, 4, [])
        served = arena.serve("ann")
        assert served.kind == "svg"
        stored = stored_files(arena.store)
        assert {file.media_type for file, _ in stored} == {"image/svg+xml"}
        assert b"".join(read_file(arena.store, stored[0][0].sha256)).startswith(b"<svg ")
        again = bring(arena, tmp_path)
        assert (again.bodies, again.unchanged) == ([], 8)
        (tmp_path / MODELS[0] / "p0.svg").write_text(SVG.format(7, ""), encoding="utf-8")
        assert bring(arena, tmp_path).answers == 1
    assert verify(arena_url).clean


def test_a_changed_byte_and_a_missing_file_are_found(arena_url: str, tmp_path: Path) -> None:
    drawings(tmp_path)
    with open_arena(arena_url) as arena:
        bring(arena, tmp_path)
        names = sorted(file.sha256 for file, _ in stored_files(arena.store))
    blob = "X'3c73766720'" if arena_url.startswith("sqlite") else "'\\x3c73766720'::bytea"
    sql(arena_url, f"UPDATE file_parts SET content = {blob} WHERE sha256 = '{names[0]}'")
    sql(arena_url, f"DELETE FROM files WHERE sha256 = '{names[1]}'")
    found = [(problem.table, problem.where[7:15], problem.what) for problem in verify(arena_url).problems]
    assert ("files", names[0][:8], "its bytes were changed: they have another hash") in found
    assert ("files", names[1][:8], "is missing: answers name it") in found


def test_rows_name_files_beside_them_and_a_zip_holds_both(sqlite_url: str, tmp_path: Path) -> None:
    folder = tmp_path / "given"
    (folder / "media").mkdir(parents=True)
    bank(folder, 1)
    for i, model in enumerate(MODELS):
        (folder / "media" / f"{i}.png").write_bytes(_png(i))
        row = {
            "entrant_id": model,
            "prompt_id": "p0",
            "kind": "image",
            "file": f"media/{i}.png",
            "response_text": "A box",
        }
        rows(folder, row)
    packed = tmp_path / "given.zip"
    with zipfile.ZipFile(packed, "w") as archive:
        for path in folder.rglob("*"):
            archive.write(path, Path("given") / path.relative_to(folder))
        archive.writestr("__MACOSX/given/._prompts.jsonl", b"\0\0")
    with open_arena(sqlite_url) as arena:
        assert bring(arena, packed).answers == 2
        assert bring(arena, folder).bodies == []  # known by their sources, without cleaning them again
        (folder / "responses").mkdir()
        for path in (folder / "media", *folder.glob("responses_*")):
            path.rename(folder / "responses" / path.name)
        assert bring(arena, folder).bodies == []  # rows in a folder of their own, which is not a model's
        served = arena.serve("ann")
        assert (served.kind, served.response_a) == ("image", "A box")


def _png(shade: int) -> bytes:
    out = io.BytesIO()
    planted.picture((shade, 90, 20)).save(out, "PNG")
    return out.getvalue()


def test_a_drawing_that_names_its_model_is_not_served(sqlite_url: str, tmp_path: Path) -> None:
    drawings(tmp_path, '<text x="1" y="5">Drawn by ZYXWOLF ONE or Qvartz</text>')
    with open_arena(sqlite_url) as arena:
        plan = bring(arena, tmp_path)
        assert [(flag.model, flag.held) for flag in plan.telling] == [
            (name, True) for name in sorted(MODELS) for _ in range(2)
        ]
        flagged = [type(body) for body in plan.bodies]
        assert flagged.index(e.Flagged) < flagged.index(e.ResponseAdded)
        with pytest.raises(TiltyardError, match="nothing to serve"):
            arena.serve("ann")


def test_files_are_written_in_parts_that_fit_in_memory(
    sqlite_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tiltyard.arena.intake.importing.BYTES_AT_ONCE", 250)
    drawings(tmp_path)
    with open_arena(sqlite_url) as arena, opened_source(tmp_path, 1_000_000) as found:
        plan = prepare_import(arena, bank=found.prompts, responses=found.responses)
        parts = list(plan.parts())
        assert sum(len(bodies) for bodies, _ in parts) == len(plan.bodies)
        assert all(sum(len(file.content) for file in files) <= 250 for _, files in parts)
        assert len(parts) > 1
        plan.close()


ONE = {"entrant_id": "m", "prompt_id": "p0", "kind": "svg", "file": "a.svg"}
WRONG_ROWS = {
    "no kind": ({**ONE, "kind": None}, "m.jsonl:1"),
    "no file": ({**ONE, "file": ""}, "has no `file`"),
    "an unknown kind": ({**ONE, "kind": "hologram"}, "hologram"),
    "a file that is not there": ({**ONE, "file": "b.svg"}, "there is no file 'b.svg'"),
    "a path out of the folder": ({**ONE, "file": "../secret.svg"}, "is not inside"),
    "an absolute path": ({**ONE, "file": "/etc/passwd"}, "is not inside"),
    "a link out of the folder": ({**ONE, "file": "link.svg"}, "is not inside"),
    "another kind": ({**ONE, "kind": "image"}, "a.svg is declared as image, but its bytes are SVG"),
    "an empty file": ({**ONE, "file": "empty.svg"}, "empty.svg is empty"),
    "too large": ({**ONE, "file": "large.svg"}, "media.svg"),
}


@pytest.mark.parametrize("name", WRONG_ROWS)
def test_a_wrong_row_is_one_line_that_names_it(sqlite_url: str, tmp_path: Path, name: str) -> None:
    row, said = WRONG_ROWS[name]
    folder = tmp_path / "given"
    folder.mkdir()
    bank(folder)
    (tmp_path / "secret.svg").write_text(SVG.format(1, ""), encoding="utf-8")
    (folder / "a.svg").write_text(SVG.format(1, ""), encoding="utf-8")
    (folder / "empty.svg").touch()
    (folder / "large.svg").write_text(SVG.format(1, " " * 2_000_000), encoding="utf-8")
    (folder / "link.svg").symlink_to(tmp_path / "secret.svg")
    rows(folder, {key: value for key, value in row.items() if value is not None})
    with open_arena(sqlite_url) as arena, pytest.raises(BankError) as error:
        bring(arena, folder)
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_files_whose_prompt_nobody_names_are_left_out_with_what_to_write(sqlite_url: str, tmp_path: Path) -> None:
    drawings(tmp_path)
    bank(tmp_path, prompts=1)
    with open_arena(sqlite_url) as arena:
        plan = bring(arena, tmp_path)
    assert plan.answers == 2
    assert plan.lines()[-1] == (
        "2 answers left out: their prompts (p1) are neither in the bank nor in the arena. "
        'Add a line for each to the bank: {"prompt_id": "p1", "text": "what was asked"}'
    )


def test_answers_of_two_kinds_to_one_prompt_are_refused_and_formats_become_one(sqlite_url: str, tmp_path: Path) -> None:
    drawings(tmp_path)
    (tmp_path / MODELS[1] / "p0.svg").unlink()
    (tmp_path / MODELS[1] / "p0.png").write_bytes(_png(1))
    with open_arena(sqlite_url) as arena:
        with pytest.raises(BankError, match="'p0' has answers of kind"):
            bring(arena, tmp_path)
        for i, suffix in enumerate(("mp3", "wav")):
            folder = tmp_path / MODELS[i]
            for path in folder.iterdir():
                path.unlink()
            (folder / f"p0.{suffix}").write_bytes(planted.FILES["audio", suffix]())
        arena.append([e.SettingsChanged(policy=read_policy({"media": {"total": 0.001}}))])
        with pytest.raises(BankError, match=r"media\.total"):
            bring(arena, tmp_path)
        arena.append([e.SettingsChanged(policy=read_policy({}))])
        bring(arena, tmp_path)
        assert {file.media_type for file, _ in stored_files(arena.store)} == {"audio/flac"}


def _zip(path: Path, *entries: tuple[str, bytes]) -> zipfile.ZipFile:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in entries:
            archive.writestr(name, data)
    return archive


def test_hostile_zip_files_are_refused(tmp_path: Path) -> None:
    link = zipfile.ZipInfo("link.svg")
    link.external_attr = 0o120777 << 16
    cases = {
        "leads out": [("../up.svg", b"x")],
        "leads out of": [("/etc/up.svg", b"x")],
        "is a link": [(link, b"/etc/passwd")],
        "is in it twice": [("a.svg", b"x"), ("A.SVG", b"y")],
        "when unpacked": [("zeros.svg", bytes(3_000_000))],
        "has no prompts.jsonl": [("readme.txt", b"x")],
    }
    for said, entries in cases.items():
        path = tmp_path / "bad.zip"
        _zip(path, *entries)  # type: ignore[arg-type]
        with pytest.raises(BankError, match=said), opened_source(path, 1_000_000):
            raise AssertionError(said)
    _zip(tmp_path / "nul.zip", ("cQd/sun.svg", b"x"))
    (tmp_path / "nul.zip").write_bytes((tmp_path / "nul.zip").read_bytes().replace(b"cQd", b"c\0d"))
    with pytest.raises(BankError, match="leads out of the zip"), opened_source(tmp_path / "nul.zip", 1_000_000):
        raise AssertionError("a NUL in a name")
    data = bytearray((tmp_path / "bad.zip").read_bytes())
    (tmp_path / "cut.zip").write_bytes(data[:20])
    with pytest.raises(BankError, match="not a zip file"), opened_source(tmp_path / "cut.zip", 1000):
        raise AssertionError


def test_a_zip_that_lies_about_its_sizes_is_stopped(tmp_path: Path) -> None:
    path = tmp_path / "liar.zip"
    _zip(path, ("a.svg", bytes(3_000_000)))
    data = path.read_bytes().replace((3_000_000).to_bytes(4, "little"), (10).to_bytes(4, "little"))
    path.write_bytes(data)
    with pytest.raises(BankError), opened_source(path, 1_000_000):
        raise AssertionError
    assert [p.name for p in tmp_path.iterdir()] == ["liar.zip"]


def test_a_small_zip_that_holds_a_huge_file_is_refused_before_it_is_read(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "bomb.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("prompts.jsonl", bytes(ENTRY_BYTES + 1))
    assert (tmp_path / "bomb.zip").stat().st_size < 1_000_000
    with pytest.raises(BankError, match=r"'prompts\.jsonl'.*200 MB"), opened_source(tmp_path / "bomb.zip", 10**10):
        raise AssertionError


@pytest.mark.parametrize("which", ["prompt 'p0'", "of 'm' to 'p0'"])
def test_a_text_too_long_to_show_is_refused_and_nothing_is_imported(
    sqlite_url: str, tmp_path: Path, which: str
) -> None:
    long = "x" * (MOST_CHARACTERS + 1)
    prompt = {"prompt_id": "p0", "text": long if "prompt" in which else "Why?"}
    response = {"prompt_id": "p0", "entrant_id": "m", "response_text": "So." if "prompt" in which else long}
    (tmp_path / "prompts.jsonl").write_text(json.dumps(prompt), encoding="utf-8")
    (tmp_path / "responses_m.jsonl").write_text(json.dumps(response), encoding="utf-8")
    with open_arena(sqlite_url) as arena:
        with pytest.raises(ArenaError, match=rf"{which}.* 1,000,001 characters.*1,000,000"):
            bring(arena, tmp_path)
        assert arena.read(lambda state: state.seq) == 0


@pytest.mark.parametrize(
    ("name", "said"),
    [("file", "leads out of"), ("folder", "leads out of"), ("pipe", "is not a file"), ("inside", "is not a file")],
)
def test_a_folder_with_something_else_than_files_is_refused(
    sqlite_url: str, tmp_path: Path, name: str, said: str
) -> None:
    given = tmp_path / "given"
    given.mkdir()
    drawings(given)
    (tmp_path / "secret.txt").write_text("a secret", encoding="utf-8")
    match name:
        case "file":
            (given / MODELS[0] / "p9.txt").symlink_to(tmp_path / "secret.txt")
        case "folder":
            (given / "zz").symlink_to(tmp_path)
        case "pipe":
            os.mkfifo(given / MODELS[0] / "p9.txt")
        case "inside":
            (given / MODELS[0] / "more").mkdir()
    with open_arena(sqlite_url) as arena, pytest.raises(BankError, match=said) as error:
        bring(arena, given)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("a\u202eb", "control character (U+202E)"),
        ("a\x1b[31m", "control character (U+001B)"),
        ("a\nb", "control character (U+000A)"),
        (os.fsdecode(b"a\xff"), "half a surrogate pair"),
        ("garc\u0327on", "two spellings of one model's name"),
    ],
)
def test_a_name_that_could_pass_for_another_is_refused_before_anything_is_written(
    sqlite_url: str, tmp_path: Path, name: str, said: str
) -> None:
    drawings(tmp_path)
    (tmp_path / MODELS[0]).rename(tmp_path / "gar\u00e7on")
    (tmp_path / MODELS[1]).rename(tmp_path / name)
    with open_arena(sqlite_url) as arena, pytest.raises(TiltyardError) as error:
        prepare_import(arena, bank=tmp_path / "prompts.jsonl", responses=tmp_path)
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_accents_written_apart_in_a_file_name_are_those_of_the_prompt(sqlite_url: str, tmp_path: Path) -> None:
    drawings(tmp_path)
    (tmp_path / "prompts.jsonl").write_text('{"prompt_id": "gar\u00e7on", "text": "x"}\n', encoding="utf-8")
    for model in MODELS[:2]:
        (tmp_path / model / "p0.svg").rename(tmp_path / model / "garc\u0327on.svg")
    with open_arena(sqlite_url) as arena:
        assert bring(arena, tmp_path).answers == 2


@pytest.mark.parametrize(
    ("kind", "text", "code"),
    [
        ("svg", "```xml\n<svg>1</svg>\n```\nor\n~~~\n<svg>longer</svg>\n~~~", "<svg>longer</svg>"),
        ("svg", "No fence: <SVG>1</SVG>.", "<SVG>1</SVG>"),
        ("html", "```html\n<!doctype html>\n<p>cut off", "<!doctype html>\n<p>cut off"),
        ("html", "```js\nlet a\n```", None),
        ("voxel", '{"a": 1} is {"palette": []}', '{"a": 1} is {"palette": []}'),
        ("voxel", "```json\n{}\n```", "{}"),
        ("svg", "<think>\n```\n<svg>draft</svg>\n```\n</think>I cannot draw.", None),
        ("svg", "<svg" * 200_000, None),
        ("svg", "```\n" * 100_000, None),
    ],
)
def test_code_is_found_in_what_models_write(kind: str, text: str, code: str | None) -> None:
    assert code_of(text, AnswerKind(kind)) == (None if code is None else code.encode())
