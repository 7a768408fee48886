"""A run that had to leave something out says what, and which command installs it."""

from __future__ import annotations

import pytest

from tests.missing import needs, told


def reason(*programs: str) -> str:
    with pytest.raises(pytest.skip.Exception) as skipped:
        needs(*programs)
    return str(skipped.value)


def test_the_end_of_a_run_names_every_missing_program_once_and_one_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI", raising=False)
    skips = [reason("chromium"), f"Skipped: {reason('chromium')}", reason("nginx", "ip"), "the real data is not here"]
    assert told(skips) == [
        "Tests skipped because this machine lacks chromium, ip, nginx: 3.",
        "On Debian and Ubuntu one command installs what they need: "
        "sudo apt-get install --yes chromium-headless-shell iproute2 nginx-light",
    ]


def test_where_nothing_is_missing_nothing_is_said() -> None:
    assert told([]) == told(["Skipped: the real data is not here"]) == []
    assert told(["Skipped: other libraries are not installed: a command installs them"]) == []


def test_where_ci_is_set_a_missing_program_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="not installed: chromium"):
        needs("chromium")
