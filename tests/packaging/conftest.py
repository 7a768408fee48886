"""One build for all tests of the package."""

from __future__ import annotations

import pytest
from wheels import Built, build


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """The wheel and the source archive of the working tree."""
    return build(tmp_path_factory.mktemp("dist"))
