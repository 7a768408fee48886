"""What all tests share: the real data where it is at hand. `oracles` becomes importable here."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

REAL_DATA = Path(__file__).parents[2] / "shared" / "data"


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder of other people's data, which a user's clone does not have."""
    if not REAL_DATA.is_dir():
        pytest.skip(f"the real data is not at {REAL_DATA}: it is not part of the repository")
    return REAL_DATA
