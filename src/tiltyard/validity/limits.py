"""How much one visitor may do, and who that visitor is: rolling limits, and addresses behind trusted proxies."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network
from typing import TYPE_CHECKING

from tiltyard.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from ipaddress import IPv4Network

Address = IPv4Address | IPv6Address

SITE_BITS = 64
"""One IPv6 customer has at least this prefix to itself, so a limit counts by it and not by single addresses."""

BLOCK_BITS = {4: 24, 6: 56}
"""Leading bits that addresses of one block share. Whoever has one address of a block can often get the others."""

HOPS_MOST = 32
"""No honest request passed more proxies than this."""


@dataclass(frozen=True, slots=True)
class RateDecision:
    """Whether one more is allowed now, how many are left after it, and from when on one is allowed (now if so)."""

    allowed: bool
    left: int
    again_at: int


def rate_limit(times: Sequence[int], now: int, *, limit: int, window: int) -> RateDecision:
    """The decision on one more act at `now`, given the times of earlier allowed acts in order; one unit for all.

    Over every window of that length at most `limit` acts are allowed; an act leaves the window when it is `window` old.
    """
    recent = len(times) - bisect_right(times, now - window)
    if recent < limit:
        return RateDecision(allowed=True, left=limit - recent - 1, again_at=now)
    if limit < 1:
        return RateDecision(allowed=False, left=0, again_at=now + window)
    return RateDecision(allowed=False, left=0, again_at=times[len(times) - limit] + window)


def trusted_networks(names: Sequence[str]) -> tuple[IPv4Network | IPv6Network, ...]:
    """Networks such as `10.0.0.0/8`, or single addresses, of the proxies whose word on addresses is taken."""
    try:
        return tuple(ip_network(name.strip(), strict=False) for name in names)
    except ValueError as error:
        raise OptionError(f"trusted proxies: {error}. Write networks such as 10.0.0.0/8 or 127.0.0.1.") from None


def client_address(peer: str, forwarded_for: Sequence[str], trusted: Sequence[IPv4Network | IPv6Network]) -> str:
    """The address of the visitor: the nearest one that no trusted proxy vouches for.

    `peer` is who opened the connection and `forwarded_for` the values of the X-Forwarded-For headers, in order. Each
    proxy appends whom it heard from, so the list is read from its end while the speaker is trusted; what a visitor
    wrote at its beginning is never reached. An entry that is not an address is ignored: the proxy that passed
    it on counts as the visitor. A `peer` that is not an address (a Unix socket) is returned as it is.
    """
    here = _read(peer)
    if here is None:
        return peer
    entries = [entry for value in forwarded_for for entry in value.split(",")]
    for entry in reversed(entries[-HOPS_MOST:]):
        if not _within(here, trusted):
            break
        further = _read(entry)
        if further is None:
            break
        here = further
    return str(here)


def limit_key(address: str) -> str:
    """What a limit counts by: the address, or for IPv6 its /64 network, of which one visitor has all."""
    read = _read(address)
    if isinstance(read, IPv6Address):
        return str(IPv6Network((int(read) >> SITE_BITS << SITE_BITS, 128 - SITE_BITS)))
    return address if read is None else str(read)


def address_block(address: str) -> str:
    """The network that counts as one source of votes: an IPv4 /24 or an IPv6 /56; empty for what is no address."""
    read = _read(address)
    return "" if read is None else _network(read, BLOCK_BITS[read.version])


def _network(address: Address, bits: int) -> str:
    """The network of this many leading bits around an address."""
    return str(ip_network((int(address) >> (address.max_prefixlen - bits) << (address.max_prefixlen - bits), bits)))


def _within(address: Address, networks: Sequence[IPv4Network | IPv6Network]) -> bool:
    return any(address.version == network.version and address in network for network in networks)


def _read(entry: str) -> Address | None:
    """The address in an entry, without port, brackets, quotes or scope; an IPv4 address written as IPv6 is IPv4."""
    bare = entry.strip().strip('"')
    if bare.startswith("["):
        bare = bare[1:].partition("]")[0]
    elif bare.count(":") == 1:
        bare = bare.partition(":")[0]
    try:
        address = ip_address(bare.partition("%")[0])
    except ValueError:
        return None
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return address
