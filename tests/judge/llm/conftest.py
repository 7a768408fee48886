"""Every test here may have a server to ask."""

from tests.fakes.fixtures import fake_server, running_fake_server

__all__ = ["fake_server", "running_fake_server"]
