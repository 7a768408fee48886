"""What a request is known by: everything that is sent, and for a single turn the fingerprint it always had."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from tests.judge.llm.providers_in_memory import MODEL, request
from tests.judge.tournament.folder import make_folder
from tests.judge.tournament.test_golden_run import GOLDEN
from tiltyard.judge.llm import Ask, PriceTable, ReplySchema, Request, SharedFingerprints, quote
from tiltyard.judge.tournament import load_setup, make_judging_plan, make_plan
from tiltyard.judge.verdicts import JudgeSettings
from tiltyard.judge.verdicts.language_model import Questions
from tiltyard.options import RunOptions

TEXT = st.text(max_size=12)
TURNS = st.lists(st.tuples(TEXT, TEXT), max_size=3).map(tuple)


class RequestOfOneTurn(msgspec.Struct, frozen=True, kw_only=True):
    """A request as it was before there were earlier turns."""

    model: str
    system: str
    user: str
    max_tokens: int
    cache_system: bool = False
    choices: tuple[str, ...] = ()
    options: dict[str, Any] = {}


@given(
    system=TEXT,
    user=TEXT,
    cache=st.booleans(),
    choices=st.lists(TEXT, max_size=2),
    options=st.dictionaries(TEXT, st.integers() | TEXT | st.just([]), max_size=3),
)
def test_a_single_turn_keeps_the_fingerprint_it_had(
    system: str, user: str, cache: bool, choices: list[str], options: dict[str, Any]
) -> None:
    fields = {
        "model": "m",
        "system": system,
        "user": user,
        "max_tokens": 7,
        "cache_system": cache,
        "choices": tuple(choices),
        "options": options,
    }
    before = msgspec.json.encode(RequestOfOneTurn(**fields), order="deterministic")
    assert Request(**fields).fingerprint == hashlib.sha256(before).hexdigest()


def test_the_questions_of_the_golden_run_still_have_the_keys_of_its_verdicts(tmp_path: Path) -> None:
    plan = make_plan(load_setup(make_folder(tmp_path, judge="scripted/judge.yaml")), RunOptions(mode="headline"))
    questions = Questions(make_judging_plan(plan), JudgeSettings(model="judge.yaml"))
    for dimension, keys in questions.keys.items():
        lines = (GOLDEN / "verdicts" / f"{dimension}.jsonl").read_text(encoding="utf-8").splitlines()
        golden = {verdict["cache_key"] for line in lines for verdict in json.loads(line)["raw"]}
        assert golden
        assert golden <= {key for pair in keys for key in pair}


@given(one=st.tuples(TURNS, TEXT), other=st.tuples(TURNS, TEXT))
def test_two_conversations_share_a_fingerprint_only_if_they_are_the_same(one: Any, other: Any) -> None:
    first, second = (request(user, earlier=earlier) for earlier, user in (one, other))
    assert (first.fingerprint == second.fingerprint) == (one == other)


def test_the_messages_are_the_turns_in_order() -> None:
    asked = request("And then?", earlier=(("Hello.", "Hi."), ("Who?", "Me.")))
    assert asked.messages == [
        ("user", "Hello."),
        ("assistant", "Hi."),
        ("user", "Who?"),
        ("assistant", "Me."),
        ("user", "And then?"),
    ]
    assert request("Alone.").messages == [("user", "Alone.")]


def test_a_quote_counts_earlier_turns_as_input() -> None:
    """Four bytes a token: 10 of system, 20 now, 30 and 40 before; a million cost a dollar."""
    asked = request("b" * 80, system="a" * 40, max_tokens=1, earlier=(("c" * 120, "d" * 160),))
    found = quote([Ask("k", asked, "s")], PriceTable.load()).all
    assert (found.queries, found.input_tokens) == (1, 100)
    price = PriceTable.load().price(MODEL)
    assert price is not None
    assert found.direct == (100 * price.input + price.output) / 1_000_000


REQUESTS = st.builds(
    Request,
    model=st.sampled_from(["m", 'm"user":""']),
    system=st.sampled_from(["", 's "user":"" s', "\\"]),
    user=st.text(max_size=20),
    max_tokens=st.sampled_from([7, 8]),
    cache_system=st.booleans(),
    options=st.sampled_from([{}, {"user": ""}, {"b": 1, "a": {"user": ""}}]),
    earlier=TURNS,
    structured=st.sampled_from([None, ReplySchema(name="user", schema={"user": ""})]),
)


@given(requests=st.lists(REQUESTS, max_size=6))
def test_fingerprints_of_many_requests_are_those_of_each(requests: list[Request]) -> None:
    known = SharedFingerprints()
    for one in requests:
        assert known.of(one) == one.fingerprint
        other = msgspec.structs.replace(one, user=one.user + '\u2028\x7f"é')
        assert known.of(other) == other.fingerprint
