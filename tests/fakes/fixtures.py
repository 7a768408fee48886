"""The fixtures: import both in a conftest, and every test of the folder may have a `fake_server`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.fakes.server import FakeServer


@pytest.fixture(scope="session")
def running_fake_server() -> Iterator[FakeServer]:
    """The one server of the test session."""
    with FakeServer() as server:
        yield server


@pytest.fixture
def fake_server(running_fake_server: FakeServer) -> FakeServer:
    """A server that knows nothing yet; set `fake_server.behaviour`, look at `fake_server.ledger`."""
    running_fake_server.reset()
    return running_fake_server
