from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.house import sources


@pytest.fixture(scope="package", autouse=True)
def _forget_the_source() -> Iterator[None]:
    """What is parsed is some hundred megabytes, which the tests that follow would drag along."""
    yield
    sources.trees.cache_clear()
    sources.nodes.cache_clear()
