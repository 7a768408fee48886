"""What the tests of judging may have."""

from __future__ import annotations

from tests.fakes.fixtures import fake_server, running_fake_server

__all__ = ["fake_server", "running_fake_server"]
