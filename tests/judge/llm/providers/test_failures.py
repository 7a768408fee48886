"""Every way in which asking fails, over real HTTP, through each official SDK."""

from __future__ import annotations

import email.utils
import time
import traceback

import pytest

from tests.fakes import FakeServer, Fault
from tests.judge.llm.providers.asking import KEY, all_failed, ask, failed, make, question, use
from tiltyard.errors import OptionError, QuestionRefused, Refused, TryLater
from tiltyard.judge.llm import one_line
from tiltyard.judge.llm.providers.http import retry_after

KINDS = ["anthropic", "openai", "gemini", "local"]


@pytest.mark.parametrize("kind", KINDS)
def test_what_may_pass_is_worth_another_try(kind: str, fake_server: FakeServer) -> None:
    statuses = [408, 409, 429, 500, 502, 503, 529]
    for status, error in zip(statuses, all_failed(kind, fake_server, [Fault(status=s) for s in statuses]), strict=True):
        assert isinstance(error, TryLater)
        assert f"({status})" in str(error)
    assert fake_server.ledger.calls["ask"] == len(statuses), "the SDK must not retry by itself"


@pytest.mark.parametrize("kind", KINDS)
def test_what_will_not_pass_is_refused(kind: str, fake_server: FakeServer) -> None:
    statuses = [400, 401, 403, 404, 413, 422]
    faults = [Fault(status=status, message="line one\nline two " + "x" * 1000) for status in statuses]
    for status, error in zip(statuses, all_failed(kind, fake_server, faults), strict=True):
        assert isinstance(error, Refused)
        assert f"({status}): line one line two" in str(error)
        assert "\n" not in str(error)
        assert len(str(error)) < 500


@pytest.mark.parametrize("kind", KINDS)
def test_a_refusal_says_whether_it_is_of_this_question_or_of_all(kind: str, fake_server: FakeServer) -> None:
    """400, 413 and 422 are about the request; that the credit is used up is not, though Anthropic says 400 to it."""
    faults = [Fault(status=status, message="too long") for status in (400, 413, 422, 401, 402, 403, 404)]
    errors = all_failed(kind, fake_server, [*faults, Fault(status=400, message="Your credit balance is too low.")])
    assert [isinstance(error, QuestionRefused) for error in errors] == [True] * 3 + [False] * 5
    assert isinstance(errors[0], QuestionRefused)
    assert errors[0].name == ("INVALID_ARGUMENT" if kind == "gemini" else "invalid_request_error")
    assert errors[0].words == "too long."
    assert "Top up the account, then run again." in str(errors[4])
    assert "Top up the account, then run again." in str(errors[7])


@pytest.mark.parametrize("kind", KINDS)
def test_the_quota_of_a_day_is_not_waited_for(kind: str, fake_server: FakeServer) -> None:
    """As OpenAI (money, then requests per day), OpenRouter and Anthropic say it; a limit per minute is waited for."""
    words = (
        "Rate limit reached for gpt-x on requests per day (RPD): Limit 200, Used 200. Please try again in 7m12s.",
        "Rate limit exceeded: free-models-per-day.",
        "The number of request tokens has exceeded your daily rate limit.",
    )
    faults = [Fault(status=429, message=word, headers={"retry-after": "20"}) for word in words]
    faults.append(Fault(status=429, message="Rate limit reached on requests per min (RPM): Limit 3."))
    *days, minute = all_failed(kind, fake_server, faults)
    assert [type(error) for error in days] == [Refused] * 3
    assert all("quota of the day" in str(error) for error in days)
    assert isinstance(minute, TryLater)
    if kind in ("openai", "local"):
        fault = Fault(status=429, error_type="insufficient_quota", message="You exceeded your current quota.")
        assert "Top up the account" in str(all_failed(kind, fake_server, [fault])[0])


@pytest.mark.parametrize("kind", KINDS)
def test_a_flagged_question_and_odd_statuses_fail_alone(kind: str, fake_server: FakeServer) -> None:
    flagged = Fault(status=403, message="Your input was flagged by moderation")
    errors = all_failed(
        kind, fake_server, [flagged, *(Fault(status=status, message="no") for status in (405, 418, 451))]
    )
    assert [type(error) for error in errors] == [QuestionRefused] * 4


def test_words_of_a_provider_do_not_steer_the_terminal() -> None:
    assert one_line("bad \x1b[2J\u2028x\u202e evil\nline2") == "bad [2J x evil line2."


@pytest.mark.parametrize("kind", KINDS)
def test_a_lost_connection_is_worth_another_try(kind: str, fake_server: FakeServer) -> None:
    for error in all_failed(kind, fake_server, [Fault(kind="drop"), Fault(kind="lose"), Fault(kind="cut")]):
        assert isinstance(error, TryLater)
        assert fake_server.anthropic_url in str(error)
        assert error.retry_after is None


@pytest.mark.parametrize("kind", KINDS)
def test_a_page_of_a_proxy_is_no_answer(kind: str, fake_server: FakeServer) -> None:
    fake_server.behaviour.faults = [Fault(kind="garbage")]
    assert "Check the base_url" in str(failed(kind, fake_server))


@pytest.mark.parametrize("kind", KINDS)
def test_a_server_that_is_not_there_may_come_back(kind: str) -> None:
    server = FakeServer()
    server._socket.close()
    assert isinstance(failed(kind, server), TryLater)


@pytest.mark.parametrize("kind", KINDS)
def test_the_providers_own_word_on_waiting_is_kept(kind: str, fake_server: FakeServer) -> None:
    in_an_hour = email.utils.formatdate(time.time() + 3600, usegmt=True)
    faults = [Fault(headers={"retry-after": value}) for value in ("7", "0.25", in_an_hour)]
    waits = [error.retry_after for error in all_failed(kind, fake_server, faults) if isinstance(error, TryLater)]
    assert waits[:2] == [7, 0.25]
    assert waits[2] is not None
    assert 3590 <= waits[2] <= 3600


def test_retry_after_in_all_its_spellings() -> None:
    date = "Wed, 21 Oct 2026 07:28:00 GMT"
    moment = email.utils.parsedate_to_datetime(date).timestamp()
    assert retry_after({"retry-after": date}, now=moment - 30) == 30
    assert retry_after({"retry-after": date}, now=moment + 30) == 0
    assert retry_after({"retry-after-ms": "1500", "retry-after": "2"}) == 1.5
    assert retry_after({"retry-after": "-3"}) == 0
    assert retry_after({}) is None
    assert retry_after({"retry-after": "soon"}) is None
    assert retry_after({"retry-after": "nan"}) is None
    assert retry_after({"retry-after": "inf"}) is None
    assert retry_after({"retry-after": "99999999"}) == 3600, "nobody waits for months"


def test_an_empty_account_is_not_a_rate_limit(fake_server: FakeServer) -> None:
    fake_server.behaviour.faults = [Fault(status=429, error_type="insufficient_quota")]
    error = failed("openai", fake_server)
    assert isinstance(error, Refused)
    assert "Top up the account" in str(error)


@pytest.mark.parametrize("kind", ["anthropic", "openai", "gemini"])
def test_an_unknown_model_is_named(kind: str, fake_server: FakeServer) -> None:
    error = failed(kind, fake_server, question(model="no-such-model"))
    assert isinstance(error, Refused)
    assert "no-such-model" in str(error)


@pytest.mark.parametrize("kind", KINDS)
def test_a_planted_key_is_in_no_error_and_no_log(
    kind: str, fake_server: FakeServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    fake_server.behaviour.key = "another key"
    errors = [failed(kind, fake_server)]
    assert "[hidden]" in str(errors[0]), "the server quoted the key, so it must have been hidden"
    fake_server.behaviour.key = None
    (named,) = all_failed(kind, fake_server, [Fault(status=400, message="no", error_type=KEY)])
    assert isinstance(named, QuestionRefused)
    assert KEY not in named.name
    faults = [Fault(status=500, message=f"oh {KEY}"), Fault(kind="drop"), Fault(kind="cut"), Fault(kind="garbage")]
    errors += all_failed(kind, fake_server, faults)
    for error in errors:
        shown = "".join(traceback.format_exception(error)) + str(error) + repr(error)
        assert KEY not in shown
        assert error.__cause__ is None
        assert error.__context__ is None, "the SDK's error holds the request, and the request the key"
    assert KEY not in caplog.text


@pytest.mark.parametrize("kind", KINDS)
def test_a_provider_shows_its_address_and_nothing_secret(kind: str, fake_server: FakeServer) -> None:
    provider = make(kind, fake_server)
    assert fake_server.anthropic_url in repr(provider)
    assert KEY not in repr(provider)
    use(provider, lambda provider: provider.ask(question()))


def test_a_password_in_the_address_is_turned_away_unseen() -> None:
    class WithPassword:
        openai_url = "http://user:password-of-proxy@localhost:8000/v1"

    with pytest.raises(OptionError, match="holds a user or password") as caught:
        ask("local", WithPassword(), question())  # type: ignore[arg-type]
    assert "password-of-proxy" not in str(caught.value)


@pytest.mark.parametrize("address", ["localhost:8000", "ftp://host/v1", "http://", "not an address", "user:pw@host"])
def test_an_address_that_is_none_is_one_line(address: str) -> None:
    class Nowhere:
        openai_url = address

    with pytest.raises(OptionError, match="is not a base_url") as caught:
        ask("local", Nowhere(), question())  # type: ignore[arg-type]
    assert "pw" not in str(caught.value)
