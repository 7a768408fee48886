"""Verdicts as JSON objects and tool calls, and graded ones: read strictly, from both SDKs against a real server."""

from __future__ import annotations

import asyncio
import json
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes import FakeServer
from tests.judge.llm.providers.asking import make
from tests.judge.tournament.folder import change, make_folder
from tests.judge.verdicts.cases import PRICES, judging_plan, make_judge, verdict
from tests.judge.verdicts.test_any_reply import any_value, damaged, sent
from tests.judge.verdicts.test_judging import run
from tiltyard.errors import ConfigError, JudgingError, OptionError
from tiltyard.judge.llm import AskingParts, AskingSettings, Reply, Stop
from tiltyard.judge.llm.provider import ToolCall
from tiltyard.judge.llm.providers import anthropic, gemini
from tiltyard.judge.llm.providers.wire import batch_reply, chat_reply
from tiltyard.judge.tournament import load_setup
from tiltyard.judge.verdicts import (
    JudgeSettings,
    JudgingPlan,
    LanguageModelJudge,
    Matchup,
    Verdict,
    VerdictLabel,
    judge,
    settle,
    to_battle,
)
from tiltyard.judge.verdicts.reading import GRADES, ReplyForm, read_reply, reply_schema

EXAMPLES = 600
SOAK_EXAMPLES = 15_000
GOOD = '{"reasoning": "A {is} \\"right\\".", "verdict": "A"}'
FORMS: tuple[ReplyForm, ...] = ("json", "tool")
KINDS = ["anthropic", "openai", "gemini", "local"]
SOAK = pytest.mark.soak


def reply_of(form: ReplyForm, text: str, stop: Stop = Stop.END) -> Reply:
    return Reply(text=text, stop=stop) if form == "json" else Reply(calls=(ToolCall("verdict", text),), stop=stop)


def read(form: ReplyForm, reply: Reply, *, grades: bool = False) -> tuple[VerdictLabel, str | None]:
    reading = read_reply(reply, structured=reply_schema(form, grades=grades), grades=grades)
    assert (reading.why is None) == reading.label.readable
    return reading.label, reading.why


UNREADABLE = {
    '{"verdict": "C"}': "the verdict in the JSON is 'C', not one of A, B, TIE",
    '{"verdict": "A or B"}': "the verdict in the JSON is 'A or B', not one of A, B, TIE",
    '{"verdict": "A>>B"}': "the verdict in the JSON is 'A>>B', not one of A, B, TIE",
    '{"verdict": "%s"}' % ("A" * 200): f"the verdict in the JSON is '{'A' * 39}…, not one of A, B, TIE",
    '{"verdict": null}': "the verdict in the JSON is None, not one of A, B, TIE",
    '{"verdict": ["A"]}': "the verdict in the JSON is ['A'], not one of A, B, TIE",
    '{"verdict": {"A": 1}}': "the verdict in the JSON is {'A': 1}, not one of A, B, TIE",
    '{"verdict": "T\\u0131E"}': "the verdict in the JSON is 'T\\u0131E', not one of A, B, TIE",
    '{"reasoning": "VERDICT: A"}': "the JSON has no verdict",
    "{}": "the JSON has no verdict",
    '{"verdict": "A", "verdict": "B"}': "the JSON has a field twice",
    '{"reasoning": "x", "reasoning": "y", "verdict": "B"}': "the JSON has a field twice",
    '{"verdict": "A", "final_verdict": "B"}': "the JSON has the field 'final_verdict', which was not asked for",
    '{"reasoning": ["x"], "verdict": "A"}': "the reasoning in the JSON is not a text",
    '{"verdict": "A"} {"verdict": "B"}': "the reply is not one JSON object",
    '{"verdict": "A"} I hope that helps.': "the reply is not one JSON object",
    "{'verdict': 'A'}": "the reply is not one JSON object",
    '["A"]': "the reply is not one JSON object",
    '"A"': "the reply is not one JSON object",
    "null": "the reply is not one JSON object",
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("text", UNREADABLE)
def test_anything_but_one_allowed_verdict_is_unparsed_and_says_why(form: ReplyForm, text: str) -> None:
    assert read(form, reply_of(form, text)) == (VerdictLabel.UNPARSED, UNREADABLE[text])


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("text", "label"),
    [
        (GOOD, VerdictLabel.A),
        ('\n {"verdict": "tie"} \n', VerdictLabel.TIE),
        ('{"verdict":" B ","reasoning":"\\ud83d"}', VerdictLabel.B),
    ],
)
def test_one_allowed_verdict_is_read(form: ReplyForm, text: str, label: VerdictLabel) -> None:
    assert read(form, reply_of(form, text)) == (label, None)
    assert read(form, reply_of(form, text, Stop.LENGTH)) == (label, None)  # complete, then endless white space
    assert read(form, reply_of(form, text, Stop.REFUSAL))[0] is VerdictLabel.REFUSED


def test_json_may_stand_after_thoughts_or_in_a_code_block() -> None:
    for text in (f"<think>{{</think>\n{GOOD}", f"```json\n{GOOD}\n```", f"```\n{GOOD}\n```\n"):
        assert read("json", Reply(text=text)) == (VerdictLabel.A, None)
    assert read("json", Reply(text=f"Here it is:\n```json\n{GOOD}\n```"))[0] is VerdictLabel.UNPARSED


@pytest.mark.parametrize("form", FORMS)
def test_json_that_breaks_off_is_truncated_wherever_it_does(form: ReplyForm) -> None:
    for end in range(1, len(GOOD)):
        part = GOOD[:end]
        assert read(form, reply_of(form, part)) == (VerdictLabel.TRUNCATED, "the JSON breaks off")
        assert read(form, reply_of(form, part, Stop.LENGTH)) == (VerdictLabel.TRUNCATED, "cut off at max_tokens")


def test_prose_and_a_missing_call_are_named() -> None:
    assert "the reply is prose, not the JSON object" in str(read("json", Reply(text="VERDICT: A"))[1])
    assert "replied without calling the tool" in str(read("tool", Reply(text=GOOD))[1])
    for form in FORMS:
        assert read(form, Reply(text=" ")) == (VerdictLabel.UNPARSED, "the reply is empty")
    call = ToolCall("verdict", GOOD)
    assert read("tool", Reply(calls=(call, call)))[1] == "the judge made 2 tool calls, not one"
    assert read("tool", Reply(calls=(ToolCall("web", GOOD),)))[1] == "the judge called another tool than verdict"


@pytest.mark.parametrize("word", GRADES)
def test_a_grade_is_read_in_every_form_that_has_grades(word: str) -> None:
    label, score = GRADES[word]
    said = json.dumps({"reasoning": "", "verdict": word})
    replies: dict[ReplyForm, Reply] = {
        "json": Reply(text=said),
        "tool": reply_of("tool", said),
        "reasoned": Reply(text=f"Both were read.\n**VERDICT: {word}**"),
    }
    for form, reply in replies.items():
        reading = read_reply(reply, structured=reply_schema(form, grades=True), grades=True)
        assert (reading.label, reading.score_a, reading.grade) == (label, score, word)


@pytest.mark.parametrize("line", ["VERDICT: A", "VERDICT: A>B>A", "VERDICT: A>>>B", "VERDICT: B=A", "VERDICT: A<B"])
def test_a_line_that_is_no_grade_is_no_verdict(line: str) -> None:
    assert read("reasoned", Reply(text=line), grades=True)[0] is VerdictLabel.UNPARSED


def graded(word: str, *, swapped: bool) -> Verdict:
    label, score = GRADES[word]
    return verdict("k", label, swapped=swapped, grade=word, score_a=score)


@pytest.mark.parametrize(
    ("forward", "swapped", "winner", "score"),
    [
        ("A>>B", "B>>A", "otter", 1.0),
        ("A>>B", "B>A", "otter", 0.875),
        ("A>B", "B>A", "otter", 0.75),
        ("B>A", "A>>B", "heron", 0.125),
        ("A=B", "A=B", None, 0.5),
        ("A>>B", "A>B", None, None),  # the first one shown, both times
        ("A>B", "A=B", None, None),
    ],
)
def test_both_orders_make_one_winner_and_the_mean_score(
    forward: str, swapped: str, winner: str | None, score: float | None
) -> None:
    """1 and 0.75 make 0.875; whoever wins only in one place wins nothing."""
    matchup = Matchup(prompt_id="p", dimension="d", entrant_a="otter", entrant_b="heron")
    judgment = settle(matchup, [graded(forward, swapped=False), graded(swapped, swapped=True)])
    battle = to_battle(judgment)
    assert battle is not None
    assert (judgment.winner, battle.score_a) == (winner, score)
    assert judgment.inconsistent == (score is None)


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"reply": "label", "grades": True}, "one of reasoned, json, tool, not 'label'"),
        ({"reply": "json", "options": {"response_format": {}}}, "set response_format, which the reply 'json' sets"),
        ({"options": {"model": "other"}}, "set model, which is the question itself or who is asked"),
        ({"reply": "label", "options": {"messages": []}}, "set messages, which is the question itself"),
        ({"reply": "tool", "options": {"tools": []}}, "set tools, which the reply 'tool' sets itself"),
        ({"reply": "json", "options": {"output_config": {"format": {}}}}, "set output_config.format"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(settings: dict[str, Any], why: str) -> None:
    with pytest.raises(OptionError, match=why):
        JudgeSettings(model="m", **settings)


def test_a_scripted_judge_calls_the_tool_and_its_reasoning_is_kept(tmp_path: Path) -> None:
    for form in FORMS:
        judged = run(judging_plan(1), make_judge(tmp_path / form, lambda request: GOOD, reply=form))
        raw = judged.judgments["clarity"][0].raw
        assert [(one.verdict, one.reasoning) for one in raw] == [(VerdictLabel.A, 'A {is} "right".')] * 2


async def no_wait(seconds: float) -> None:
    await asyncio.sleep(0)


def judge_over_http(
    folder: Path,
    server: FakeServer,
    kind: str,
    *,
    batch: bool = False,
    give_up_after: int | None = None,
    plan: JudgingPlan | None = None,
    **settings: Any,
) -> Any:
    """The judgments of three cases by a judge behind a real server."""
    server.behaviour.batch_polls = 0
    asking = AskingParts(prices=PRICES, settings=AskingSettings(batch=batch), sleep=no_wait)

    async def work() -> Any:
        one = LanguageModelJudge(
            make(kind, server),
            JudgeSettings(**{"model": "m", "max_attempts": 1, **settings}),
            folder=folder,
            asking=asking,
        )
        try:
            return await judge(plan or judging_plan(3), one, give_up_after=give_up_after)
        finally:
            await one.aclose()

    return asyncio.run(work())


WAYS = [*((kind, False) for kind in KINDS), *((kind, True) for kind in KINDS[:3])]
"""Every provider, and those that take batches once more."""
WORDINGS: list[tuple[ReplyForm, bool]] = [("json", True), ("tool", False), ("json", False), ("tool", True)]
"""Forms, with grades or without."""


@pytest.mark.parametrize(
    ("kind", "batch", "form", "grades"),
    [
        pytest.param(*way, *wording, marks=[] if at == (number + number // 4) % 4 else [SOAK])
        for number, way in enumerate(WAYS)
        for at, wording in enumerate(WORDINGS)
    ],
)
def test_verdicts_arrive_in_every_form_from_every_provider(
    tmp_path: Path, fake_server: FakeServer, kind: str, batch: bool, form: ReplyForm, grades: bool
) -> None:
    """The server refuses a schema that is not strict, and a tool that is not forced."""
    options = {"output_config": {"effort": "low"}} if kind == "anthropic" else {}
    judged = judge_over_http(
        tmp_path, fake_server, kind, batch=batch, reply=form, grades=grades, options=options, max_tokens=500
    )
    raw = [one for judgment in judged.judgments["clarity"] for one in judgment.raw]
    assert len(raw) == 6
    assert all(one.verdict.readable and one.reasoning.startswith("I compared both") for one in raw)
    assert all((one.grade in GRADES) == grades for one in raw)
    if kind == "anthropic":
        assert {one.body["output_config"]["effort"] for one in fake_server.ledger.accepted} == {"low"}


@pytest.mark.parametrize(
    ("kind", "form", "batch"),
    [
        pytest.param(kind, form, batch, marks=[] if at == number % 2 else [SOAK])
        for number, kind in enumerate(KINDS[:3])
        for at, (form, batch) in enumerate([("json", True), ("tool", False), ("json", False), ("tool", True)])
    ],
)
def test_a_reply_cut_off_is_truncated_and_asked_again_with_more(
    tmp_path: Path, fake_server: FakeServer, kind: str, form: ReplyForm, batch: bool
) -> None:
    """The object takes about 20 tokens: 8 and 16 are too few, 32 are enough."""
    judged = judge_over_http(tmp_path, fake_server, kind, batch=batch, reply=form, max_tokens=8, max_attempts=3)
    assert [one.attempts for judgment in judged.judgments["clarity"] for one in judgment.raw] == [3] * 6


@pytest.mark.parametrize(("form", "words"), [("json", "the reply is prose"), ("tool", "without calling the tool")])
@pytest.mark.parametrize("kind", KINDS)
def test_a_server_that_ignores_the_form_is_given_up_for_one_reason(
    tmp_path: Path, fake_server: FakeServer, kind: str, form: ReplyForm, words: str
) -> None:
    fake_server.behaviour.judge = lambda system, user: "I like A."
    said = rf"first 5 questions; 5 ended as unparsed: .*{words}.*judge\.reply to reasoned"
    with pytest.raises(JudgingError, match=said):
        judge_over_http(tmp_path, fake_server, kind, give_up_after=5, reply=form)


def completion(rng: random.Random, form: ReplyForm) -> dict[str, Any]:
    """A structured reply as OpenAI sends it."""
    said = _said(rng)
    message: dict[str, Any] = {"role": "assistant", "content": said}
    if form == "tool":
        call = {"id": "c", "type": "function", "function": {"name": "verdict", "arguments": said}}
        message |= {"content": rng.choice([None, "", "VERDICT: B", "<think>"]), "tool_calls": [call]}
    reason = rng.choice(["stop", "tool_calls", "length", "content_filter", None])
    return {"model": "m", "choices": [{"finish_reason": reason, "message": message}], "usage": None}


def message(rng: random.Random, form: ReplyForm) -> dict[str, Any]:
    """A structured reply as Anthropic sends it."""
    said = _said(rng)
    block: dict[str, Any] = {"type": "text", "text": said}
    if form == "tool":
        block = {"type": "tool_use", "id": "t", "name": "verdict", "input": _decoded(said)}
    thoughts = {"type": "thinking", "thinking": '{"verdict": "B"}'}
    reason = rng.choice(["end_turn", "tool_use", "max_tokens", "refusal", None])
    return {"model": "m", "content": [thoughts, block], "stop_reason": reason}


def candidate(rng: random.Random, form: ReplyForm) -> dict[str, Any]:
    """A structured reply as Gemini sends it."""
    said = _said(rng)
    part: dict[str, Any] = {"text": said}
    if form == "tool":
        part = {"functionCall": {"name": "verdict", "args": _decoded(said)}}
    thoughts = {"thought": True, "text": '{"verdict": "B"}'}
    reason = rng.choice(["STOP", "MAX_TOKENS", "SAFETY", "MALFORMED_FUNCTION_CALL", None])
    return {"modelVersion": "m", "candidates": [{"finishReason": reason, "content": {"parts": [thoughts, part]}}]}


MAKERS = {"openai": completion, "anthropic": message, "gemini": candidate}


def _said(rng: random.Random) -> str:
    good = json.dumps({"reasoning": "x", "verdict": rng.choice(["A", "B", "TIE", *GRADES])})
    return rng.choice([good, good, good, *UNREADABLE, good[: rng.randrange(len(good))], f"```json\n{good}\n```"])


def _decoded(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return {}


def run_fuzz(examples: int) -> set[tuple[str, VerdictLabel]]:
    """Read as many damaged replies; what they were read as."""
    found = set()
    for seed in range(examples):
        rng = random.Random(seed)
        form, grades = rng.choice(FORMS), rng.randrange(2) == 1
        kind = rng.choice([*MAKERS, *(f"{maker} batch" for maker in MAKERS)])
        body = damaged(rng, MAKERS[kind.removesuffix(" batch")](rng, form))
        if rng.randrange(40) == 0:
            body = any_value(rng)
        reply = _received(kind, sent(body))
        label, _ = read(form, reply, grades=grades)
        found.add((form, label))
        if label.readable:
            _check_verdict(form, reply, label, grades=grades)
    return found


def _received(kind: str, body: Any) -> Reply:
    if kind == "openai":
        return chat_reply(body)
    if kind == "openai batch":
        return batch_reply({"response": {"status_code": 200, "body": body}})
    if kind == "gemini":
        return gemini.gemini_reply(body)
    if kind == "gemini batch":
        return gemini.batch_reply({"response": body})
    if kind == "anthropic":
        return anthropic._reply(body)
    return anthropic._batch_reply({"result": {"type": "succeeded", "message": body}})


def _check_verdict(form: ReplyForm, reply: Reply, label: VerdictLabel, *, grades: bool) -> None:
    """A verdict stands as such in the one place where it was asked for."""
    assert reply.error is None
    assert reply.stop is not Stop.REFUSAL
    where = reply.calls[0].arguments if form == "tool" else reply.text
    assert len(reply.calls) == 1 or form == "json"
    found = json.loads(where.removeprefix("```json\n").removesuffix("\n```"))
    assert set(found) <= {"reasoning", "verdict"}
    assert found["verdict"] in (GRADES if grades else ("A", "B", "TIE"))
    assert (GRADES[found["verdict"]][0] if grades else VerdictLabel(found["verdict"])) is label


@pytest.mark.parametrize("form", FORMS)
def test_half_a_surrogate_pair_in_the_reasoning_is_kept_as_a_question_mark(tmp_path: Path, form: ReplyForm) -> None:
    """JSON can escape one, UTF-8 cannot hold it: the verdict is paid for, and must be kept."""
    reply = '{"reasoning": "good \\ud83d", "verdict": "A"}'
    run(judging_plan(1), make_judge(tmp_path, lambda request: reply, reply=form))
    kept = [json.loads(line) for path in tmp_path.glob("judgments_*.jsonl") for line in path.read_bytes().splitlines()]
    assert {(one["verdict"], one["reasoning"]) for one in kept} == {("A", "good ?")}


ALL_KINDS = {VerdictLabel.A, VerdictLabel.B, VerdictLabel.TIE, VerdictLabel.UNPARSED} | {
    VerdictLabel.TRUNCATED,
    VerdictLabel.REFUSED,
    VerdictLabel.ERROR,
}


def test_any_structured_reply_is_read_or_named() -> None:
    """Every kind of reading is among the examples: a property of replies that all fail would hold for any reader."""
    assert run_fuzz(EXAMPLES) == {(form, label) for form in FORMS for label in ALL_KINDS}


@pytest.mark.soak
def test_many_more_structured_replies_are_read_or_named() -> None:
    assert run_fuzz(SOAK_EXAMPLES) == {(form, label) for form in FORMS for label in ALL_KINDS}


@given(st.text(max_size=40))
def test_any_text_as_json_is_read_or_named(text: str) -> None:
    for form in FORMS:
        for stop in (Stop.END, Stop.LENGTH):
            label, _ = read(form, reply_of(form, '{"verdict": ' + text, stop))
            assert not label.readable or json.loads('{"verdict": ' + text)["verdict"].strip().upper() == label.value


ODD: dict[str, Any] = {
    "content is a number": lambda body: _put(body, 3),
    "content is nested too deep": lambda body: _put(body, [[[[[{"type": "text"}]]]]]),
    "content is null": lambda body: _put(body, None),
    "arguments are an object": lambda body: _put_call(body, {"reasoning": "x", "verdict": "A"}),
    "arguments are a list": lambda body: _put_call(body, ["A"]),
    "arguments are null": lambda body: _put_call(body, None),
    "arguments are half a text": lambda body: _put_call(body, '{"verdict": "A'),
}


def _put(body: dict[str, Any], content: Any) -> dict[str, Any]:
    if "choices" in body:
        body["choices"][0]["message"]["content"] = content
    else:
        body["content"] = content
    return body


def _put_call(body: dict[str, Any], arguments: Any) -> dict[str, Any]:
    if "choices" in body:
        call = {"id": "c", "type": "function", "function": {"name": "verdict", "arguments": arguments}}
        body["choices"][0]["message"]["tool_calls"] = [call]
    else:
        body["content"] = [{"type": "tool_use", "id": "t", "name": "verdict", "input": arguments}]
    return body


def any_oddity(body: dict[str, Any]) -> dict[str, Any]:
    """A reply made odd in one way, which its id decides."""
    ways = list(ODD.values())
    changed: dict[str, Any] = ways[sum(body["id"].encode()) % len(ways)](body)
    return changed


@pytest.mark.parametrize(
    ("kind", "batch"),
    [
        ("anthropic", False),
        ("openai", True),
        *(pytest.param(*one, marks=SOAK) for one in (("anthropic", True), ("openai", False))),
    ],
)
def test_odd_replies_over_http_are_verdicts_or_named_failures(
    tmp_path: Path, fake_server: FakeServer, kind: str, batch: bool
) -> None:
    """Only an object where a text should be is still a verdict: always A, so that every judgment is inconsistent."""
    fake_server.behaviour.distort = any_oddity
    judged = judge_over_http(
        tmp_path, fake_server, kind, batch=batch, plan=judging_plan(12), reply="tool", max_tokens=500
    )
    raw = [one for judgment in judged.judgments["clarity"] for one in judgment.raw]
    assert len(raw) == 24
    assert {one.verdict for one in raw} >= {VerdictLabel.A, VerdictLabel.UNPARSED}
    assert all((one.error is None) == one.verdict.readable for one in raw)
    assert {one.winner for one in judged.judgments["clarity"]} == {None}


def test_a_tournament_with_such_settings_is_refused_before_anything_is_asked(tmp_path: Path) -> None:
    config = change(make_folder(tmp_path, judge="anthropic/m"), judge__reply="label", judge__grades=True)
    with pytest.raises(ConfigError, match="grades of the judge need a reply that can state them"):
        load_setup(config)
