"""The real data where it is at hand."""

from __future__ import annotations

from pathlib import Path

import pytest

REAL_DATA = Path(__file__).parents[2].parent / "shared" / "data"


@pytest.fixture(scope="session")
def real_data() -> Path:
    if not REAL_DATA.is_dir():
        pytest.skip(f"the real data is not at {REAL_DATA}: it is not part of the repository")
    return REAL_DATA
