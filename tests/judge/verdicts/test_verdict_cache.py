"""The cache only grows, keeps the first readable verdict, and shrugs at torn lines."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.judge.verdicts.cases import verdict
from tests.sizes import size
from tiltyard.errors import JudgingError
from tiltyard.judge.verdicts import VerdictCache, VerdictLabel
from tiltyard.judge.verdicts import cache as judging_cache
from tiltyard.judge.verdicts.cache import cache_path


def hex_key(number: int) -> str:
    return hashlib.sha256(str(number).encode()).hexdigest()


def test_what_was_added_is_found_now_and_after_reopening(tmp_path: Path) -> None:
    cache = VerdictCache(tmp_path, "clarity")
    for number in range(50):
        cache.add(verdict(hex_key(number), reasoning=f"reason {number}\nVERDICT: A"))
    for opened in (cache, VerdictCache(tmp_path, "clarity")):
        assert len(opened) == 50
        assert hex_key(7) in opened
        found = opened.get(hex_key(7))
        assert found is not None
        assert found.reasoning == "reason 7\nVERDICT: A"
        assert hex_key(50) not in opened
        assert opened.get(hex_key(50)) is None
    assert len((tmp_path / "judgments_clarity.jsonl").read_text().split("\n")) == 51, "a line for each, and no other"


def test_what_was_added_is_found_however_often_the_index_is_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three new keys at a time go into the sorted index, which is made anew for 3, 6, 9, … of the 50."""
    monkeypatch.setattr(judging_cache, "FRESH", 3)
    cache = VerdictCache(tmp_path, "clarity")
    for number in range(50):
        cache.add(verdict(hex_key(number), reasoning=f"reason {number}\nVERDICT: A"))
        cache.add(verdict(hex_key(number), VerdictLabel.B))  # the first stays
        found = [cache.get(hex_key(known)) for known in range(number + 1)]
        assert [one and one.reasoning for one in found] == [f"reason {n}\nVERDICT: A" for n in range(number + 1)]
        assert len(cache) == number + 1
    assert hex_key(50) not in cache


def test_replies_whose_length_is_not_known_are_no_replies_of_length_zero(tmp_path: Path) -> None:
    cache = VerdictCache(tmp_path, "d")
    for number, tokens in enumerate((100, None, 0, 300)):
        cache.add(msgspec.structs.replace(verdict(hex_key(number)), output_tokens=tokens))
    (length,) = VerdictCache(tmp_path, "d").reply_lengths.values()
    assert length == (2, 400)


def test_the_first_readable_verdict_is_never_replaced(tmp_path: Path) -> None:
    cache = VerdictCache(tmp_path, "d")
    cache.add(verdict("k", VerdictLabel.UNPARSED))
    cache.add(verdict("k", VerdictLabel.A))
    cache.add(verdict("k", VerdictLabel.B))
    cache.add(verdict("k", VerdictLabel.ERROR))
    for opened in (cache, VerdictCache(tmp_path, "d")):
        found = opened.get("k")
        assert found is not None
        assert found.verdict is VerdictLabel.A
        assert [attempt.verdict for attempt in opened.attempts("k")] == [VerdictLabel.UNPARSED]


def test_failures_are_attempts_and_no_verdict(tmp_path: Path) -> None:
    cache = VerdictCache(tmp_path, "d")
    cache.add(verdict("k", VerdictLabel.TRUNCATED))
    cache.add(verdict("k", VerdictLabel.REFUSED, attempts=2))
    for opened in (cache, VerdictCache(tmp_path, "d")):
        assert "k" not in opened
        assert opened.get("k") is None
        assert len(opened) == 0
        assert [attempt.verdict for attempt in opened.attempts("k")] == [VerdictLabel.TRUNCATED, VerdictLabel.REFUSED]


def test_of_two_readable_lines_in_a_file_the_first_counts(tmp_path: Path) -> None:
    lines = [msgspec.json.encode(verdict("k", said)) for said in (VerdictLabel.B, VerdictLabel.A)]
    cache_path(tmp_path, "d").write_bytes(b"\n".join(lines) + b"\n")
    cache = VerdictCache(tmp_path, "d")
    found = cache.get("k")
    assert found is not None
    assert found.verdict is VerdictLabel.B
    assert len(cache) == 1


def test_a_torn_end_is_closed_and_passed_over_wherever_it_was_torn(tmp_path: Path) -> None:
    first = msgspec.json.encode(verdict("first", reasoning="a } brace, a \\n, and ü")) + b"\n"
    torn = msgspec.json.encode(verdict("torn", reasoning="a } brace, a \\n, and ü")) + b"\n"
    path = cache_path(tmp_path, "d")
    letter = torn.index("ü".encode()) + 1  # between its two bytes
    for cut in sorted({*range(1, len(torn), size(6, soak=1)), letter, len(torn) - 2, len(torn) - 1}):
        path.write_bytes(first + torn[:cut])
        cache = VerdictCache(tmp_path, "d")
        complete = cut == len(torn) - 1
        assert ("torn" in cache) == complete
        cache.add(verdict("next"))
        for opened in (cache, VerdictCache(tmp_path, "d")):
            assert "first" in opened
            assert "next" in opened
            assert ("torn" in opened) == complete
        reopened = VerdictCache(tmp_path, "d")
        assert reopened.unreadable_lines == (not complete)
        assert path.read_bytes().startswith(first + torn[:cut])


def test_a_torn_key_can_be_asked_and_kept_again(tmp_path: Path) -> None:
    path = cache_path(tmp_path, "d")
    path.write_bytes(msgspec.json.encode(verdict("k", VerdictLabel.A))[:40])
    VerdictCache(tmp_path, "d").add(verdict("k", VerdictLabel.B))
    found = VerdictCache(tmp_path, "d").get("k")
    assert found is not None
    assert found.verdict is VerdictLabel.B


def test_unknown_fields_and_foreign_lines_do_no_harm(tmp_path: Path) -> None:
    newer = json.loads(msgspec.json.encode(verdict("newer"))) | {"colour": "blue", "nested": {"a": [1]}}
    lines = [
        json.dumps(newer),
        "",
        "not json",
        '{"cache_key": "half"}',
        "[1]",
        '{"verdict": "A", "cache_key": 3}',
        "\xff",
    ]
    cache_path(tmp_path, "d").write_bytes("\n".join(lines).encode("latin-1") + b"\n")
    cache = VerdictCache(tmp_path, "d")
    assert len(cache) == 1
    assert cache.get("newer") == verdict("newer")
    assert cache.unreadable_lines == 5


def test_two_caches_on_one_file_see_each_other(tmp_path: Path) -> None:
    one, other = VerdictCache(tmp_path, "d"), VerdictCache(tmp_path, "d")
    one.add(verdict("k", VerdictLabel.A))
    other.add(verdict("k", VerdictLabel.B))
    other.add(verdict("l", VerdictLabel.TIE))
    one.refresh()
    for cache in (one, other):
        found = cache.get("k")
        assert found is not None
        assert found.verdict is VerdictLabel.A
        assert "l" in cache
    assert len(cache_path(tmp_path, "d").read_bytes().splitlines()) == 2


def test_a_verdict_longer_than_a_block_is_read_whole(tmp_path: Path) -> None:
    long = "x" * 20_000_000
    VerdictCache(tmp_path, "d").add(verdict("long", reasoning=long))
    cache = VerdictCache(tmp_path, "d")
    cache.add(verdict("after"))
    found = VerdictCache(tmp_path, "d").get("long")
    assert found is not None
    assert found.reasoning == long


def test_a_dimension_cannot_name_a_file_elsewhere(tmp_path: Path) -> None:
    assert cache_path(tmp_path, "../../etc/passwd").parent == tmp_path
    assert cache_path(tmp_path, "clinical_utility").name == "judgments_clinical_utility.jsonl"


def test_a_folder_that_cannot_be_used_is_an_error_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(JudgingError, match="file"):
        VerdictCache(tmp_path / "file", "d")


@settings(max_examples=60)
@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.sampled_from(list(VerdictLabel))), max_size=30))
def test_reopening_never_changes_what_the_cache_says(tmp_path_factory: pytest.TempPathFactory, steps: list) -> None:
    folder = tmp_path_factory.mktemp("cache")
    live = VerdictCache(folder, "d")
    expected: dict[str, VerdictLabel] = {}
    for number, (key, said) in enumerate(steps):
        live.add(verdict(key, said, attempts=number))
        if said.readable:
            expected.setdefault(key, said)
    again = VerdictCache(folder, "d")
    for cache in (live, again):
        assert {key: found.verdict for key in "abcdef" if (found := cache.get(key))} == expected
        assert len(cache) == len(expected)
    assert [live.attempts(key) for key in "abcdef"] == [again.attempts(key) for key in "abcdef"]


def test_many_keys_are_found_where_each_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the sorted index and among the fresh ones, though keys share their first half or end in zeros."""
    monkeypatch.setattr(judging_cache, "FRESH", 8)
    keys = [hex_key(number) for number in range(20)]
    keys += ["0" * 16 + digit * 48 for digit in "213"]
    keys += ["ab" * 15 + "00" * 17, "ab" * 14 + "00" * 18]
    cache = VerdictCache(tmp_path, "clarity")
    for key in keys[:-1]:
        cache.add(verdict(key))
    cache.add(verdict(hex_key(99), VerdictLabel.UNPARSED))
    asked = [*reversed(keys), hex_key(99), hex_key(100), "f" * 64]
    digests = np.array([bytes.fromhex(key)[:16] for key in asked], "S16")
    places = cache.find_all(digests).tolist()
    for key, place in zip(asked, places, strict=True):
        assert (place >= 0) == (key in cache)
        if place >= 0:
            assert cache.read(place).cache_key == key
    assert VerdictCache(tmp_path, "brevity").find_all(digests).tolist() == [-1] * len(asked)
    assert cache.find_all(digests[:0]).tolist() == []


@pytest.mark.parametrize(("seconds", "times"), [(0.0, 3), (60.0, 1)])
def test_lines_are_synced_as_often_as_it_was_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: float, times: int
) -> None:
    synced = []
    monkeypatch.setattr(os, "fsync", lambda file: synced.append(os.fstat(file).st_size))
    cache = VerdictCache(tmp_path, "clarity", sync_seconds=seconds)
    for key in "abc":
        cache.add(verdict(key))
    assert len(synced) == times
    cache.flush()
    assert synced[-1] == cache.path.stat().st_size


def test_a_disk_that_fails_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(file: int) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(JudgingError, match="Input/output error"):
        VerdictCache(tmp_path, "clarity").add(verdict(hex_key(1)))
