"""Uploading a zip file: looked at first, imported after; and forms with files that are not what they should be."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.arena.planted import png
from tests.web.administrators import Desk, at_the_desk, staffed_site
from tests.web.sites import MODELS, SmallSite
from tiltyard.web import admin_import


@pytest.fixture
def desk(filled_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[SmallSite, Desk]]:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with staffed_site(filled_url) as site:
        yield site, at_the_desk(site)


def packed(**changed: bytes) -> bytes:
    """A zip file with a prompt and a picture of two models."""
    files = {"prompts.jsonl": json.dumps({"prompt_id": "pic", "text": "Draw."}).encode()}
    files |= {f"{model}/pic.png": png() for model in MODELS[:2]}
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, data in {**files, **changed}.items():
            archive.writestr(name, data)
    return out.getvalue()


def send(desk: Desk, content: bytes, token: str | None = None) -> tuple[int, str]:
    fields = {"token": desk.token("/admin/import") if token is None else token}
    answer = desk.client.post("/admin/upload", data=fields, files={"file": ("x.zip", content, "application/zip")})
    return answer.status_code, answer.text


def test_a_zip_file_is_looked_at_before_it_is_imported(desk: tuple[SmallSite, Desk], tmp_path: Path) -> None:
    site, page = desk
    status, text = send(page, packed())
    assert status == 200, text
    assert "nothing is imported yet" in text
    assert "1 prompts and 2 answers" in text
    assert "image" in text
    assert not site.arena.read(lambda state: state.catalog.has_prompt("pic"))
    upload = text.split('name="upload" value="')[1].split('"')[0]
    status, text = page.post("/admin/upload/import", {"upload": upload}, "/admin/import")
    assert status == 200
    assert "Imported" in text
    assert site.arena.read(lambda state: state.catalog.kind_there("pic")) == "image"
    assert page.post("/admin/upload/import", {"upload": upload}, "/admin/import")[0] == 400  # it is gone
    assert not any(path.suffix == ".zip" for path in tmp_path.rglob("*.zip"))


def test_what_cannot_be_imported_is_one_line_and_leaves_nothing_behind(
    desk: tuple[SmallSite, Desk], tmp_path: Path
) -> None:
    for content, said in (
        (b"no zip at all", "the zip file: not a zip file"),
        (packed(**{"prompts.jsonl": b"{"}), "prompts.jsonl:1: not JSON"),
        (packed(**{f"{MODELS[0]}/pic.png": b"\x89PNG\r\n\x1a\n"}), "cannot be read as a picture"),
        (b"", "no file was sent"),
    ):
        status, text = send(desk[1], content)
        assert (status, said in text, str(tmp_path) in text) == (400, True, False), text
        assert not any(path.suffix == ".zip" for path in tmp_path.rglob("*.zip"))


def test_an_upload_needs_its_token_a_login_and_a_size(
    desk: tuple[SmallSite, Desk], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site, page = desk
    assert send(page, packed(), token="wrong")[0] == 403
    stranger = site.client().post("/admin/upload", files={"file": ("x.zip", packed(), "application/zip")})
    assert (stranger.status_code, stranger.headers["location"]) == (303, "/admin/login")
    monkeypatch.setattr(admin_import, "UPLOAD_BYTES", 200)
    assert send(page, packed())[0] == 413
    cut = page.client.post(
        "/admin/upload", content=b"--b\r\nhalf", headers={"content-type": "multipart/form-data; boundary=b"}
    )
    assert cut.status_code in (400, 403)
    assert page.client.post("/admin/upload", json={}).status_code == 415
    assert not any(path.suffix == ".zip" for path in tmp_path.rglob("*.zip"))


def test_texts_can_be_looked_at_too(desk: tuple[SmallSite, Desk]) -> None:
    site, page = desk
    row = json.dumps({"prompt_id": "new", "text": "A new one?"})
    status, text = page.post("/admin/import", {"prompts": row, "do": "preview"})
    assert status == 200
    assert "nothing is imported yet" in text
    assert "A new one?" in text  # the form keeps what was written
    assert not site.arena.read(lambda state: state.catalog.has_prompt("new"))
    page.post("/admin/import", {"prompts": row, "do": "import"})
    assert site.arena.read(lambda state: state.catalog.has_prompt("new"))
