"""Rate limits and addresses."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiltyard.errors import OptionError
from tiltyard.site.networks import (
    SHARED_VISITORS,
    SHARED_VOTES,
    address_block,
    client_address,
    limit_key,
    networks_of,
    shared_block,
    trusted_networks,
)

INSIDE = trusted_networks(["10.0.0.0/8", "::1", "fd00::/8"])


def test_without_trusted_proxies_nobody_is_believed() -> None:
    assert client_address("203.0.113.9", ["1.2.3.4"], ()) == "203.0.113.9"


def test_a_trusted_proxy_is_believed_and_what_the_visitor_wrote_is_not() -> None:
    assert client_address("10.0.0.1", ["6.6.6.6, 203.0.113.9"], INSIDE) == "203.0.113.9"
    assert client_address("10.0.0.1", ["6.6.6.6", "203.0.113.9, 10.0.0.7"], INSIDE) == "203.0.113.9"
    assert client_address("198.51.100.1", ["203.0.113.9"], INSIDE) == "198.51.100.1"


def test_a_chain_of_only_trusted_addresses_ends_at_its_first() -> None:
    assert client_address("10.0.0.1", ["10.9.9.9, 10.0.0.2"], INSIDE) == "10.9.9.9"
    assert client_address("10.0.0.1", [], INSIDE) == "10.0.0.1"


def test_what_is_no_address_is_not_taken_over() -> None:
    assert client_address("10.0.0.1", ["203.0.113.9, unknown"], INSIDE) == "10.0.0.1"
    assert client_address("10.0.0.1", ["evil\r\nheader, 10.0.0.2"], INSIDE) == "10.0.0.2"
    assert client_address("unix:", ["203.0.113.9"], INSIDE) == "unix:"


def test_ports_brackets_scopes_and_mapped_addresses_are_read() -> None:
    assert client_address("10.0.0.1", ["203.0.113.9:4711"], INSIDE) == "203.0.113.9"
    assert client_address("::1", ["[2001:db8::5]:443"], INSIDE) == "2001:db8::5"
    assert client_address("::ffff:10.0.0.1", ["2001:db8::5%eth0"], INSIDE) == "2001:db8::5"


@given(st.lists(st.text(max_size=30), max_size=5), st.ip_addresses())
def test_whatever_a_visitor_writes_the_proxys_word_on_it_is_the_answer(forged: list[str], visitor: object) -> None:
    if any(visitor in network for network in INSIDE if network.version == visitor.version):
        return
    mapped = getattr(visitor, "ipv4_mapped", None)
    told = client_address("10.0.0.1", [*forged, str(visitor)], INSIDE)
    assert told == str(mapped or visitor).partition("%")[0]


def test_an_ipv6_visitor_is_counted_by_its_network() -> None:
    assert limit_key("2001:db8:1:2:3:4:5:6") == limit_key("2001:db8:1:3::9") == "2001:db8:1::/48"
    assert limit_key("203.0.113.9") == "203.0.113.9"
    assert limit_key("::ffff:203.0.113.9") == "203.0.113.9"
    assert limit_key("unix:") == "unix:"


def test_a_misspelt_network_is_an_error_that_says_so() -> None:
    with pytest.raises(OptionError, match=r"10\.0\.0\.0/99"):
        trusted_networks(["10.0.0.0/99"])


def test_a_block_is_a_24_of_the_older_addresses_and_a_48_of_the_newer() -> None:
    assert address_block("203.0.113.9") == address_block("203.0.113.254:4711") == "203.0.113.0/24"
    assert address_block("203.0.114.9") == "203.0.114.0/24"
    assert address_block("2001:db8:1:2ff::9") == address_block("2001:db8:1:ff00:1::") == "2001:db8:1::/48"
    assert address_block("2001:db8:2::9") == "2001:db8:2::/48"
    assert address_block("::ffff:203.0.113.9") == "203.0.113.0/24"
    assert address_block("") == address_block("a socket") == ""


def test_networks_grow_around_an_address() -> None:
    assert networks_of("203.0.113.9") == ("203.0.113.9", "203.0.113.0/24")
    around = ("2001:db8:1:2ff::/64", "2001:db8:1::/48", "2001:db8::/40", "2001:db8::/32")
    assert networks_of("2001:db8:1:2ff::9") == around
    assert networks_of("a socket") == ("a socket",)


def test_most_votes_from_one_block_are_a_question_if_several_people_cast_them() -> None:
    elsewhere = [(f"b{n}", f"v{n}") for n in range(SHARED_VOTES)]
    office = [("office", f"w{n % SHARED_VISITORS}") for n in range(SHARED_VOTES + 1)]
    found = shared_block(elsewhere + office)
    assert found is not None
    assert (found.votes, found.of, found.visitors) == (SHARED_VOTES + 1, 2 * SHARED_VOTES + 1, SHARED_VISITORS)
    assert "Proxy or office?" in found.question
    assert shared_block(elsewhere + office[:-1]) is None, "half is not most"
    assert shared_block(office[: SHARED_VOTES - 1]) is None
    assert shared_block([("home", "ann")] * 500) is None
    assert shared_block([("", f"v{n}") for n in range(500)]) is None
