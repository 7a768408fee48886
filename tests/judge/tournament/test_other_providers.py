"""The same tournament judged in OpenAI's batches, and one by one by a server of one's own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.fakes import FakeServer, Fault
from tests.fakes.behaviour import first_time
from tests.judge.tournament.folder import change, make_folder, read_lines

RUN = ("run", "tournament.yaml", "--mode", "headline", "--output-dir", "run", "--yes")
QUERIES = 2 * (9 + 12)
BOTH_MAKERS = pytest.mark.parametrize(
    "model", ["gpt-5-mini", pytest.param("claude-sonnet-4-5", marks=pytest.mark.soak)]
)
"""Anthropic: batches that lose entries in tests/judge/llm/test_over_http.py, directly in test_run_options.py."""


def usage(root: Path) -> dict[str, int]:
    return dict(json.loads((root / "run" / "usage.json").read_text(encoding="utf-8"))["total"])


def settled(root: Path) -> list[int]:
    manifest = json.loads((root / "run" / "manifest.json").read_text(encoding="utf-8"))
    return [row["settled"] for row in manifest["results"]["dimensions"].values()]


def test_openais_batches_are_files_with_our_tag_and_come_back_at_half_price(
    tmp_path: Path, tiltyard: Run, openai_server: FakeServer
) -> None:
    make_folder(tmp_path, judge="gpt-5-mini")
    done = tiltyard(*RUN)
    assert done.returncode == 0, done.stderr
    ledger = openai_server.ledger
    # Two go ahead, one for each rubric; then a batch for each dimension, 18 and 24 questions without those two.
    assert [len(batch.entries) for batch in ledger.batches.values()] == [2, 17, QUERIES - 2 - 17]
    assert len(ledger.files) == 3
    assert len({batch.metadata["tiltyard"] for batch in ledger.batches.values() if batch.metadata}) == 3
    assert {one.body["max_completion_tokens"] for one in ledger.accepted} == {1024}
    assert settled(tmp_path) == [9, 12]
    (row, *_) = read_lines(tmp_path / "run" / "verdicts" / "factuality.jsonl")
    assert row["raw"][0]["judge_model"] == "openai/gpt-5-mini"
    assert row["raw"][0]["batched"] is True
    found = usage(tmp_path)
    # $0.25 and $2 a million tokens, a tenth for what was read from the cache, and half of it all in a batch.
    cost = 0.25 * found["input_tokens"] + 0.025 * found["cache_read_input_tokens"] + 2.0 * found["output_tokens"]
    assert found["cost_usd"] == pytest.approx(cost / 2e6)


@BOTH_MAKERS
def test_entries_that_expire_or_err_or_go_missing_are_sent_once_more_and_strangers_ignored(
    tmp_path: Path, tiltyard: Run, openai_server: FakeServer, monkeypatch: pytest.MonkeyPatch, model: str
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-test-0123456789")
    monkeypatch.setenv("ANTHROPIC_BASE_URL", openai_server.anthropic_url)
    shares = {"expired": 0.2, "errored:api_error": 0.2, "missing": 0.2, "canceled": 0.1, "repeated": 0.1}
    openai_server.behaviour.outcome = first_time(shares)
    openai_server.behaviour.strangers = 2
    make_folder(tmp_path, judge=model)
    done = tiltyard(*RUN)
    assert done.returncode == 0, done.stderr
    assert settled(tmp_path) == [9, 12]
    assert not openai_server.ledger.paid_twice()
    assert QUERIES < len(openai_server.ledger.accepted) < 2 * QUERIES
    assert "replies to requests that are not ours: ignored" in done.stderr
    assert usage(tmp_path)["failed"] == {}


def test_a_local_server_is_asked_one_by_one_through_rate_limits_and_dropped_connections(
    tmp_path: Path, tiltyard: Run, fake_server: FakeServer
) -> None:
    config = make_folder(tmp_path, judge="local/small")
    change(config, judge__base_url=fake_server.openai_url, judge__concurrency=8)
    fake_server.behaviour.faults = [
        Fault(status=429, headers={"retry-after": "0.05"}, skip=5, times=2),
        Fault(kind="drop", times=1, skip=5),
        Fault(status=503, headers={"retry-after": "0.01"}, times=1, skip=5),
    ]
    done = tiltyard(*RUN)
    assert done.returncode == 0, done.stderr
    ledger = fake_server.ledger
    assert not ledger.batches
    assert ledger.calls["ask"] == QUERIES + 4
    assert len(ledger.accepted) == QUERIES
    assert settled(tmp_path) == [9, 12]
    assert usage(tmp_path)["cost_usd"] is None  # nobody knows what one's own server costs
    (row, *_) = read_lines(tmp_path / "run" / "verdicts" / "factuality.jsonl")
    assert row["raw"][0]["judge_model"] == "local/small"
    assert row["raw"][0]["batched"] is False


@BOTH_MAKERS
def test_with_batch_false_a_maker_is_asked_one_by_one_and_every_verdict_is_the_same(
    tmp_path: Path, tiltyard: Run, openai_server: FakeServer, monkeypatch: pytest.MonkeyPatch, model: str
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-test-0123456789")
    monkeypatch.setenv("ANTHROPIC_BASE_URL", openai_server.anthropic_url)
    config = make_folder(tmp_path, judge=model)
    assert tiltyard(*RUN).returncode == 0
    (tmp_path / "judgments").rename(tmp_path / "from_batches")
    batched = (tmp_path / "run" / "battles.jsonl").read_bytes()
    change(config, judge__batch=False)
    done = tiltyard(*RUN)
    assert done.returncode == 0, done.stderr
    assert openai_server.ledger.calls["ask"] == QUERIES
    assert (tmp_path / "run" / "battles.jsonl").read_bytes() == batched


def test_a_local_server_takes_no_batches(tmp_path: Path, tiltyard: Run, fake_server: FakeServer) -> None:
    config = make_folder(tmp_path, judge="local/small")
    change(config, judge__base_url=fake_server.openai_url, judge__batch=True)
    done = tiltyard(*RUN)
    assert done.returncode == 1
    assert "local takes no batches" in done.stderr
    assert not fake_server.ledger.calls


def test_a_local_judge_needs_an_address(tmp_path: Path, tiltyard: Run) -> None:
    make_folder(tmp_path, judge="local/small")
    done = tiltyard(*RUN)
    assert done.returncode == 1
    assert "give a base_url such as http://localhost:8000/v1" in done.stderr


def test_a_server_that_cannot_be_reached_is_one_line_and_what_was_answered_is_kept(
    tmp_path: Path, tiltyard: Run, fake_server: FakeServer
) -> None:
    config = make_folder(tmp_path, judge="local/small")
    change(config, judge__base_url=fake_server.openai_url, judge__concurrency=2)
    fake_server.behaviour.faults = [Fault(status=401, skip=10, times=100)]
    done = tiltyard(*RUN)
    assert done.returncode == 1
    assert "the key was not accepted (401)" in done.stderr
    assert "Traceback" not in done.stderr
    kept = sum(len(read_lines(path)) for path in (tmp_path / "judgments").glob("judgments_*.jsonl"))
    assert kept == len(fake_server.ledger.accepted) == 10
    fake_server.behaviour.faults = []
    assert tiltyard(*RUN).returncode == 0
    assert len(fake_server.ledger.accepted) == QUERIES
    assert usage(tmp_path)["cache_hits"] == 10
