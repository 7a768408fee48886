"""Published folders for all tests of this folder: one with everything, one with few pages."""

from __future__ import annotations

from pathlib import Path

import pytest
from published_folders import plain, world, write_rows

from tiltyard import publish
from tiltyard.verbs.publish import PublishedFolder


@pytest.fixture(scope="session")
def battle_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_rows(tmp_path_factory.mktemp("battles") / "votes.jsonl", world())


@pytest.fixture(scope="session")
def published(tmp_path_factory: pytest.TempPathFactory, battle_file: Path) -> PublishedFolder:
    out = tmp_path_factory.mktemp("published") / "site"
    return publish(battle_file, out, title="A & <b>", url="https://example.org/board")


@pytest.fixture(scope="session")
def plain_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_rows(tmp_path_factory.mktemp("plain") / "votes.jsonl", plain())


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory, plain_file: Path) -> PublishedFolder:
    return publish(plain_file, tmp_path_factory.mktemp("small") / "site")
