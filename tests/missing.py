"""Programs that some tests need and a machine may not have: such tests are skipped, and the run says so at its end."""

from __future__ import annotations

import os
from typing import NoReturn

import pytest

PACKAGES = {
    "chromium": "chromium-headless-shell",
    "firefox": "firefox-esr",
    "PostgreSQL": "postgresql",
    "nginx": "nginx-light",
    "ip": "iproute2",
    "nsenter": "util-linux",
    "openssl": "openssl",
    "Java": "default-jre-headless",
}
"""Debian's package for each of them."""

WANTING = "not installed: "


def needs(*programs: str, always: bool = False) -> NoReturn:
    """Skip the test for want of these. Where CI is set they must be there, and where `always` says so."""
    said = WANTING + ", ".join(programs)
    if os.environ.get("CI") or always:
        pytest.fail(f"this run must not skip anything, and {said}", pytrace=False)
    pytest.skip(said)


def told(reasons: list[str]) -> list[str]:
    """What the run says at its end about the tests that were skipped for want of a program."""
    named = [reason.removeprefix("Skipped: ") for reason in reasons]
    wanting = [reason.removeprefix(WANTING).split(", ") for reason in named if reason.startswith(WANTING)]
    if not wanting:
        return []
    missing = sorted({program for programs in wanting for program in programs})
    packages = " ".join(PACKAGES[program] for program in missing)
    return [
        f"Tests skipped because this machine lacks {', '.join(missing)}: {len(wanting)}.",
        f"On Debian and Ubuntu one command installs what they need: sudo apt-get install --yes {packages}",
    ]
