"""The real data where it is at hand; small files are read as large ones are, by DuckDB first."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tiltyard.data.battles import reading

if TYPE_CHECKING:
    from collections.abc import Iterator

REAL_DATA = Path(__file__).parents[3].parent / "shared" / "data"


@pytest.fixture(scope="session")
def real_data() -> Path:
    if not REAL_DATA.is_dir():
        pytest.skip(f"the real data is not at {REAL_DATA}: it is not part of the repository")
    return REAL_DATA


@pytest.fixture(scope="module", autouse=True)
def small_files_as_large_ones() -> Iterator[None]:
    """The rules of reading are the same for every size, and a test's file has a few rows."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reading, "SMALL_BYTES", -1)
        yield
