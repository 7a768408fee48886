"""Whatever JSON a server answers with, nothing breaks, and no verdict is made of noise."""

from __future__ import annotations

import json
import math
import random
import re
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tiltyard.judge.llm import Reply, Stop
from tiltyard.judge.llm.providers import anthropic
from tiltyard.judge.llm.providers.wire import an_object, batch_reply, chat_reply, decode
from tiltyard.judge.verdicts import VerdictLabel
from tiltyard.judge.verdicts.reading import CHOICES, MIN_CHOICE_MASS, STRUCTURED_FORMS, read_reply

EXAMPLES = 120
SOAK_EXAMPLES = 12_500

TEXTS = [
    "A", " TIE", "a", "C", "Sorry", "Although", "A is better.", "VERDICT: A", "B wins.\r\nVERDICT: B\n", "**A**", "",
    "It ends with\u2028VERDICT: A", "It ends with\rVERDICT: A", "<think>VERDICT: A", "<think>A</think>B",
    "<think>Hm.</think>\nSorry", "<thinking>\nB?</thinking>\n\nVERDICT: TIE", "VERDICT: A\nI hope that helps!",
]  # fmt: skip
PIECES = re.compile(r"</?think(?:ing)?>|\s|[^\s<]+|<")
SCALARS: list[Any] = [
    None, True, False, 0, 1, 200, 400, -3, 10**20, 10**400, -0.01, -14.0, 5.0, 1e308, math.inf, -math.inf, math.nan,
    "", "A", "B", "TIE", "text", "n/a", "200", "length", "\ud83d", "<think>", "VERDICT: A", "-0.01", "\u2028",
]  # fmt: skip
NAMES = ["type", "text", "content", "message", "error", "code", "token", "logprob", "refusal", "x"]
WORDS = ["A", " B", "TIE", "T", "C", "Sorry", "The", "a", "<think>"]


def any_value(rng: random.Random, depth: int = 3) -> Any:
    """Any JSON."""
    kind = rng.randrange(6) if depth else 0
    if kind < 4:
        return rng.choice(SCALARS)
    inner = [any_value(rng, depth - 1) for _ in range(rng.randrange(4))]
    return inner if kind == 4 else dict(zip(rng.sample(NAMES, len(inner)), inner, strict=True))


def alternatives(rng: random.Random, token: str) -> dict[str, Any]:
    """A token with its alternatives, whose probabilities come to 1 at most."""
    words = [token, *rng.choices(WORDS, k=rng.randrange(5))]
    weights = [10 ** rng.uniform(-6, 0) for _ in words]
    top = [
        {"token": word, "logprob": math.log(weight / sum(weights))} for word, weight in zip(words, weights, strict=True)
    ]
    return {**top[0], "top_logprobs": top}


def completion(rng: random.Random) -> dict[str, Any]:
    """A completion as servers send it; its tokens are those of its text, or of its text without the thoughts."""
    text = rng.choice(TEXTS)
    shown = rng.choice([text, text.rpartition("</think>")[2]])
    tokens = [alternatives(rng, piece) for piece in PIECES.findall(text)]
    reason = rng.choice(["stop", "length", "content_filter", None])
    message = {"role": "assistant", "content": shown, "reasoning_content": "VERDICT: B"}
    choice = {"index": 0, "finish_reason": reason, "message": message, "logprobs": {"content": tokens}}
    usage = {"prompt_tokens": 3, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 1}}
    return {"id": "c", "model": "m", "choices": [choice], "usage": usage}


def message(rng: random.Random) -> dict[str, Any]:
    """A message as Anthropic sends it."""
    blocks = [{"type": "thinking", "thinking": "VERDICT: B"}, {"type": "text", "text": rng.choice(TEXTS)}]
    reason = rng.choice(["end_turn", "max_tokens", "refusal", None])
    return {"model": "m", "content": blocks, "stop_reason": reason, "usage": {"input_tokens": 3, "output_tokens": 2}}


def damaged(rng: random.Random, value: Any) -> Any:
    """A usual value with up to three nodes, anywhere in it, replaced or left out; now and then any JSON at all."""
    if rng.randrange(10) == 0:
        return any_value(rng)
    for _ in range(rng.randrange(4)):
        places = [(node, key) for node in _nodes(value) for key in _keys(node)]
        if not places:
            break
        node, key = rng.choice(places)
        if rng.randrange(2):
            node[key] = any_value(rng)
        else:
            del node[key]
    return value


def _nodes(value: Any) -> list[Any]:
    """All objects and lists in a value."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    own = [value] if isinstance(value, dict | list) else []
    return own + [node for one in inner for node in _nodes(one)]


def _keys(node: Any) -> list[Any]:
    return list(node) if isinstance(node, dict) else list(range(len(node)))


def sent(value: Any) -> Any:
    """A value as it comes from a server: written by one program and read by ours."""
    return decode(json.dumps(value).encode())


def check(reply: Reply, body: Any) -> None:
    """A reply can be written down; and where it is read as a verdict, the verdict stands in it."""
    kept = msgspec.json.decode(msgspec.json.encode(reply), type=Reply)
    for form, choices in CHOICES.items():
        if form in STRUCTURED_FORMS:  # tests/judge/verdicts/test_structured_replies.py
            continue
        reading = read_reply(kept, choices)
        assert (reading.why is None) == reading.label.readable
        if not reading.label.readable:
            continue
        assert kept.error is None
        assert kept.stop is not Stop.REFUSAL
        answer = re.sub(r"(?is)\A(\s*<(think(?:ing)?)>.*?</\2>)+", "", kept.text).strip()
        assert not re.match(r"(?i)<think(ing)?>", answer)
        if form == "reasoned":
            assert kept.stop is Stop.END
            assert answer.split("\n")[-1].strip(" *\r").upper() == f"VERDICT: {reading.label.value}"
            continue
        label = answer.strip("*.()[] ").upper()
        if kept.stop is Stop.LENGTH or reading.choice_mass is None:
            assert label in choices
        if reading.choice_mass is None:
            assert reading.label is (VerdictLabel.TIE if label == "C" else VerdictLabel(label))
        else:
            assert reading.choice_mass >= MIN_CHOICE_MASS
            assert _likeliest(body, choices) >= MIN_CHOICE_MASS


def _likeliest(body: Any, choices: tuple[str, ...]) -> float:
    """The most that words which are or begin a choice have together as alternatives to any one token of a body."""
    most = 0.0
    for node in _nodes(body):
        top = node.get("top_logprobs") if isinstance(node, dict) else None
        found = [an_object(one) for one in top] if isinstance(top, list) else []
        mass = sum(
            math.exp(min(0.0, float(one["logprob"])))
            for one in found
            if isinstance(word := one.get("token"), str)
            and word.strip()
            and any(choice.startswith(word.strip().upper()) for choice in choices)
            and _is_float(one.get("logprob"))
        )
        most = max(most, mass * (1 + 1e-9))
    return most


def _is_float(value: Any) -> bool:
    try:
        return not math.isnan(float(value))
    except (TypeError, ValueError, OverflowError):
        return False


def check_completion(body: Any) -> None:
    for choices in CHOICES.values():
        check(chat_reply(sent(body), choices), body)


def check_completion_in_a_batch(line: Any) -> None:
    check(batch_reply(sent(line)), line)


def check_message(body: Any) -> None:
    check(anthropic._reply(sent(body)), body)


def check_message_in_a_batch(line: Any) -> None:
    check(anthropic._batch_reply(an_object(sent(line))), line)


def completion_in_a_batch(rng: random.Random) -> dict[str, Any]:
    lines: list[dict[str, Any]] = [
        {"custom_id": "one", "response": {"status_code": 200, "body": completion(rng)}, "error": None},
        {"custom_id": "one", "response": {"status_code": 400, "body": {"error": {"type": "x", "message": "y"}}}},
        {"custom_id": "one", "response": None, "error": {"code": "batch_expired", "message": "late"}},
    ]
    return rng.choices(lines, [8, 1, 1])[0]


def message_in_a_batch(rng: random.Random) -> dict[str, Any]:
    error = {"type": "error", "error": {"type": "x", "message": "credit balance"}}
    results: list[dict[str, Any]] = [
        {"type": "succeeded", "message": message(rng)},
        {"type": "errored", "error": error},
        {"type": "expired"},
    ]
    return {"custom_id": "one", "result": rng.choices(results, [8, 1, 1])[0]}


CHECKS = {
    "completion": (check_completion, completion),
    "completion in a batch": (check_completion_in_a_batch, completion_in_a_batch),
    "message": (check_message, message),
    "message in a batch": (check_message_in_a_batch, message_in_a_batch),
}


def run(what: str, examples: int) -> None:
    """Check as many replies; a seed makes one reply, so that Hypothesis can name the one that fails at little cost."""
    check_one, usual = CHECKS[what]

    @settings(max_examples=examples)
    @given(st.integers(0, 2**64))
    def all_of_them(seed: int) -> None:
        rng = random.Random(seed)
        check_one(damaged(rng, usual(rng)))

    all_of_them()


@pytest.mark.parametrize("what", CHECKS)
def test_any_reply_is_read_or_named_and_noise_is_no_verdict(what: str) -> None:
    run(what, EXAMPLES)


@pytest.mark.soak
@pytest.mark.parametrize("what", CHECKS)
def test_many_more_replies_are_read_or_named(what: str) -> None:
    run(what, SOAK_EXAMPLES)


def test_replies_of_every_kind_are_among_the_examples() -> None:
    """A property of replies that all fail would hold for any reader."""
    found: set[tuple[VerdictLabel, bool]] = set()
    for seed in range(500):
        reply = chat_reply(sent(completion(random.Random(seed))), CHOICES["label"])
        reading = read_reply(reply, CHOICES["label"])
        found.add((reading.label, reading.choice_mass is not None))
    assert {said for said, _ in found} >= {
        VerdictLabel.A,
        VerdictLabel.B,
        VerdictLabel.TIE,
        VerdictLabel.UNPARSED,
        VerdictLabel.TRUNCATED,
        VerdictLabel.REFUSED,
    }
    assert {(VerdictLabel.A, True), (VerdictLabel.UNPARSED, True), (VerdictLabel.UNPARSED, False)} <= found
