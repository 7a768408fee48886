"""Who a visitor is: networks that limits count by, and addresses behind trusted proxies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import TYPE_CHECKING

import msgspec

from tiltyard.errors import OptionError

if TYPE_CHECKING:
    from ipaddress import IPv4Network, IPv6Network

Address = IPv4Address | IPv6Address

WIDTHS = {4: (32, 24), 6: (64, 48, 40, 32)}
"""Leading bits of the networks that limits count by. One IPv6 customer has at least a /64 to itself; the second of each
is the block, since whoever has one of its addresses can often get the others: anybody can have a /48 for nothing."""

SHARED_VOTES = 100
SHARED_VISITORS = 5
"""Of fewer votes, and by fewer visitors, a shared block is no question worth asking."""

HOPS_MOST = 32
"""No honest request passed more proxies than this."""


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
        if not any(here.version == network.version and here in network for network in trusted):
            break
        further = _read(entry)
        if further is None:
            break
        here = further
    return str(here)


def limit_key(address: str) -> str:
    """What guesses are counted by: the address, or for IPv6 its /48 network, which providers give to one customer."""
    read = _read(address)
    return address_block(address) if read is not None and read.version == 6 else networks_of(address)[0]


def networks_of(address: str) -> tuple[str, ...]:
    """The networks that limits count by, from the narrowest to the widest: `WIDTHS` says which.

    What is no address (a Unix socket) is returned as it is, alone.
    """
    read = _read(address)
    if read is None:
        return (address,)
    ends = ((bits, read.max_prefixlen - bits) for bits in WIDTHS[read.version])
    narrowest, *wider = (str(ip_network((int(read) >> rest << rest, bits))) for bits, rest in ends)
    return (narrowest.removesuffix("/32") if read.version == 4 else narrowest, *wider)


def address_block(address: str) -> str:
    """The network that counts as one source of votes: an IPv4 /24 or an IPv6 /48; empty for what is no address."""
    networks = networks_of(address)
    return networks[1] if len(networks) > 1 else ""


class SharedBlock(msgspec.Struct, frozen=True):
    """One block from which most of the latest votes came: how many of how many, by how many visitors."""

    votes: int
    of: int
    visitors: int

    @property
    def question(self) -> str:
        return (
            f"{self.votes} of the latest {self.of} votes came from one address block, by {self.visitors} visitors. "
            "Proxy or office? If a proxy hides the visitors' addresses, name it as a trusted proxy. If they are an "
            "office or a class, give them invitations."
        )


def shared_block(votes: Sequence[tuple[str, str]]) -> SharedBlock | None:
    """The block of most of these votes, given as (block, visitor) of each; None if there is none, or too few votes.

    Votes without a block count among all. A block of very few visitors is a few busy people, not a proxy.
    """
    counts = Counter(block for block, _ in votes if block)
    if len(votes) < SHARED_VOTES or not counts:
        return None
    block, most = counts.most_common(1)[0]
    visitors = len({visitor for name, visitor in votes if name == block})
    return SharedBlock(most, len(votes), visitors) if 2 * most > len(votes) and visitors >= SHARED_VISITORS else None


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
