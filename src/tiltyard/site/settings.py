"""Settings of a site: read once, at the border, into one frozen object."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from tiltyard.errors import OptionError
from tiltyard.site.networks import trusted_networks

if TYPE_CHECKING:
    from ipaddress import IPv4Network, IPv6Network

SECRET_VARIABLE = "TILTYARD_SECRET"  # noqa: S105 - the name of a variable
ADMIN_SECRET_VARIABLE = "TILTYARD_ADMIN_SECRET"  # noqa: S105 - the name of a variable
SECRET_LENGTH = 16
MOST_WAIT_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class SiteSettings:
    """All settings of a site. `secret` signs cookies and forms; `admin_secret` opens /admin, which is off without it.

    Without a `secret` the site uses that of its key file, which it makes.

    `public_url` is the address that visitors use, where a proxy hides it; `trusted_proxies` are the networks whose
    X-Forwarded-For and X-Forwarded-Proto are trusted.
    """

    db: str
    """The arena's database: `--db`, or `TILTYARD_DB`."""
    title: str = "Tiltyard"
    """What the site is called: `--title`."""
    secret: str = field(default="", repr=False)
    """Signs cookies and forms: `TILTYARD_SECRET`; if unset, a random one that a key file keeps. After a comma comes the
    one before, whose cookies are still taken."""
    admin_secret: str | None = field(default=None, repr=False)
    """Opens `/admin`, which is off without it: `TILTYARD_ADMIN_SECRET`."""
    trusted_proxies: tuple[str, ...] = ()
    """Networks whose forwarded addresses are trusted: `--trusted-proxy`, given again for each."""
    rate_limit: bool = True
    """Whether limits hold; `--no-rate-limit` is for load tests."""
    public_url: str | None = None
    """The address that visitors use, where a proxy hides it: `--public-url`."""
    answers_host: str = ""
    """A second host name, with its port if it is not the usual one, for answers that are pages: `--answers-host`."""
    notice: str = ""
    """A sentence shown on every page: `--notice`."""
    consent: str = ""
    """What visitors agree to, beside the start button: `arena settings --consent`."""
    privacy: str = ""
    """What the operator adds to the privacy page: `arena settings --privacy`."""
    longest_wait: float = 2.0
    """Seconds: a new matchup that has waited longer for the writer is refused with 503, a vote at five times as long:
    `--longest-wait`."""
    review: Path | None = None
    """The folder of the review that the site is for: `review serve`. Only its pages are there then."""

    def __post_init__(self) -> None:
        trusted_networks(self.trusted_proxies)
        secrets = self.secrets if self.secret else ()
        for name, value in (
            *((SECRET_VARIABLE, secret) for secret in secrets),
            (ADMIN_SECRET_VARIABLE, self.admin_secret),
        ):
            if value is not None and len(value) < SECRET_LENGTH:
                raise OptionError(f"{name} is shorter than {SECRET_LENGTH} characters. Make it long and random.")
        if not 0 < self.longest_wait <= MOST_WAIT_SECONDS:
            raise OptionError(f"a longest wait of {self.longest_wait} seconds is out of range. Choose 0.1 to 60.")
        if self.public_url is not None:
            check_web_address(self.public_url)
        if not self.answers_host:
            return
        if self.public_url is None:
            raise OptionError("--answers-host needs --public-url: only pages of that address may show the answers.")
        if not re.fullmatch(r"[a-z0-9.-]+(:[0-9]{1,5})?", self.answers_host):
            raise OptionError(f"--answers-host {self.answers_host[:80]!r} is not a host. Write answers.example.net.")
        if self.answers_host == urlsplit(self.public_url).netloc:
            raise OptionError("--answers-host is the host of --public-url. Choose another name, of another domain.")

    @property
    def secrets(self) -> tuple[str, ...]:
        """The secret, and those before it whose cookies are still taken."""
        return tuple(self.secret.split(","))

    @property
    def origin(self) -> str:
        """The public URL without its path."""
        return "/".join((self.public_url or "").split("/")[:3])

    @property
    def proxies(self) -> tuple[IPv4Network | IPv6Network, ...]:
        return trusted_networks(self.trusted_proxies)


def secrets_of(environment: Mapping[str, str] = os.environ) -> tuple[str, str | None]:
    """The site's secret and the administrator's, from the environment; '' and None if not set."""
    return environment.get(SECRET_VARIABLE, ""), environment.get(ADMIN_SECRET_VARIABLE) or None


def check_web_address(url: str) -> str:
    """The address of a site as it was given, without a slash at its end; anything else is an error."""
    try:
        parts = urlsplit(url)
        right = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # such as http://[::1, or a port that is none
        right = False
    if not right or not url.isprintable() or " " in url or parts.query or parts.fragment:
        raise OptionError(f"the public URL {url[:80]!r} is not a web address. Write https://arena.example.org.")
    return url.rstrip("/")
