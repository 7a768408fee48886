"""The makers of the manual's reference pages."""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType

import pytest

from tests.reference.pages import REFERENCE, ROOT


@pytest.fixture(scope="session")
def python_reference(settings_reference: ModuleType) -> ModuleType:
    return import_module("python_reference")


@pytest.fixture(scope="session")
def files_page(settings_reference: ModuleType) -> str:
    """The page of files as the manual has it."""
    page = (REFERENCE / "artifacts.md").read_text(encoding="utf-8")
    return str(settings_reference.filled(import_module("artifacts").filled(page)))


@pytest.fixture(scope="session")
def http_page(settings_reference: ModuleType) -> str:
    """The page of the HTTP interface as the manual has it."""
    assert settings_reference
    page = (REFERENCE / "http-api.md").read_text(encoding="utf-8")
    return str(import_module("http_reference").filled(page))


@pytest.fixture(scope="session")
def settings_reference() -> ModuleType:
    sys.path.insert(0, str(ROOT / "tools"))
    return import_module("settings_reference")
