"""The HTTP side of both SDKs: a transport for a thousand open requests, and time to connect."""

from __future__ import annotations

from typing import TYPE_CHECKING

import httpx2

if TYPE_CHECKING:
    from collections.abc import Callable

_CONNECTIONS = 1000


def connect_timeout() -> httpx2.Timeout:
    """Ten minutes for an answer, one to connect: the SDKs' five seconds are too short when many connect at once."""
    return httpx2.Timeout(600.0, connect=60.0)


def http_client(
    aiohttp_client: Callable[..., httpx2.AsyncClient], plain_client: Callable[..., httpx2.AsyncClient]
) -> httpx2.AsyncClient:
    """A client on aiohttp where that is installed (a fifth of the processor time per call), else on httpx2."""
    limits = httpx2.Limits(max_connections=_CONNECTIONS, max_keepalive_connections=_CONNECTIONS)
    try:
        return aiohttp_client(timeout=connect_timeout(), limits=limits)
    except (ImportError, RuntimeError):  # which of the two depends on the SDK
        return plain_client(timeout=connect_timeout(), limits=limits)
