"""Compiled kernels, kept from one run of the tests to the next."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def compiled_code(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where kernels are cached once they are compiled: numba compiles again what has changed."""
    kept: pytest.Cache | None = getattr(request.config, "cache", None)  # none with `-p no:cacheprovider`
    return kept.mkdir("compiled") if kept else tmp_path_factory.mktemp("compiled")
