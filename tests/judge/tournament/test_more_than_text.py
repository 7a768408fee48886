"""Banks and answers with system prompts, earlier turns and images: what is sent, kept, shown and refused."""

from __future__ import annotations

import base64
import hashlib
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cli.conftest import Run
from tests.fakes import FakeServer
from tests.fakes.answering import images_of, text_of
from tests.judge.tournament.folder import change, lines, make_folder, read_lines, script
from tiltyard.data.bank import (
    EarlierTurn,
    Image,
    ImageFinder,
    Prompt,
    read_prompts,
    read_text_prompts,
    render_transcript,
)
from tiltyard.data.bank.responses import RenderedTranscript, TranscriptMessage
from tiltyard.errors import BankError
from tiltyard.judge.llm.prices import asked_tokens
from tiltyard.judge.verdicts import Case, CaseImages, JudgeSettings, Matchup, Rubric, make_questions
from tiltyard.reports import run as run_module
from tiltyard.reports.run import ShownImages

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
SECOND = PNG + b"\0"
URL = "https://example.org/cat.jpg"
TALK = ({"role": "user", "content": "I like cats."}, {"role": "assistant", "content": "So do I."})
RUBRIC = Rubric("clarity", "7", "Prefer the clearer answer.")
MATCHUP = Matchup(prompt_id="p1", dimension="clarity", entrant_a="otter", entrant_b="heron")


def ask(prompt: Prompt, images: CaseImages, **changes: Any) -> tuple[Any, Any]:
    case = Case(MATCHUP, prompt, "Left.", "Right.", images)
    return make_questions(case, RUBRIC, JudgeSettings(model="m", max_tokens=9, **changes))


def image(data: bytes, path: str) -> Image:
    return Image(media_type="image/png", sha256=hashlib.sha256(data).hexdigest(), path=path)


PROMPT = Prompt(
    prompt_id="p1",
    text="What is this?",
    system="Be brief.",
    turns=msgspec.convert(TALK, tuple[EarlierTurn, ...]),
)


def test_what_came_before_is_shown_in_fenced_parts_and_is_part_of_the_key() -> None:
    forward, swapped = ask(PROMPT, CaseImages())
    code = forward.request.user.partition("]")[0].rpartition(" ")[2]
    names = [line.removesuffix(f" {code}]") for line in forward.request.user.splitlines() if line.endswith(f" {code}]")]
    assert [name for name in names if not name.startswith("[END")] == [
        "[SYSTEM PROMPT",
        "[EARLIER USER TURN 1",
        "[EARLIER ASSISTANT TURN 1",
        "[PROMPT",
        "[ANSWER A",
        "[ANSWER B",
    ]
    changes: list[dict[str, Any]] = [
        {"system": "Be long."},
        {"system": None},
        {"turns": ()},
        {"turns": PROMPT.turns * 2},
    ]
    keys = [ask(msgspec.structs.replace(PROMPT, **one), CaseImages())[0].key for one in changes]
    assert len({forward.key, swapped.key, *keys}) == 6
    assert (
        "System prompt: Be brief.\n\nEarlier user turn 1: I like cats."
        in ask(PROMPT, CaseImages(), reply="choice")[0].request.user
    )


def test_images_stand_between_lines_that_say_whose_they_are_and_move_with_the_answers() -> None:
    first, second, third = Image(url=URL), image(PNG, "/x/a.png"), image(SECOND, "/x/b.png")
    forward, swapped = ask(PROMPT, CaseImages((first,), (second,), (third,)))
    for question, order in ((forward, [first, second, third]), (swapped, [first, third, second])):
        assert [shown.image for shown in question.request.images] == order
        owners = [shown.before.rpartition(" ")[0] for shown in question.request.images]
        assert owners == ["[IMAGE 1 OF THE PROMPT", "[IMAGE 1 OF ANSWER A", "[IMAGE 1 OF ANSWER B"]
        assert "[IMAGES OF ANSWER B" in question.request.user
    plain, _ = ask(PROMPT, CaseImages())
    assert asked_tokens(forward.request) - asked_tokens(plain.request) > 3 * 1_600


def test_the_key_knows_the_bytes_of_an_image_and_not_where_it_is() -> None:
    def key(*shown: Image) -> str:
        question, _ = ask(PROMPT, CaseImages(shown))
        return str(question.key)

    here = key(image(PNG, "/here/a.png"))
    assert key(image(PNG, "/there/b.png")) == here
    others = [key(), key(image(SECOND, "/here/a.png")), key(Image(url=URL)), key(image(PNG, "/a"), image(PNG, "/a"))]
    assert len({here, *others}) == 5


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"II*\0 a tiff", "is not a PNG, JPEG, GIF or WebP image"),
        (PNG + b"\0" * 5_000_000, "has 5.0 MB; providers take 5 MB"),
        (None, "cannot read the image"),
    ],
)
def test_an_image_that_no_provider_takes_is_an_error(tmp_path: Path, data: bytes | None, why: str) -> None:
    if data is not None:
        (tmp_path / "a.png").write_bytes(data)
    with pytest.raises(BankError, match=f"prompt 'p1': .*{why}"):
        ImageFinder(tmp_path).find(["a.png"], "prompt 'p1'")
    with pytest.raises(BankError, match="21 images"):
        ImageFinder(tmp_path).find([URL] * 21, "prompt 'p1'")


def test_types_are_known_by_their_bytes(tmp_path: Path) -> None:
    starts = {
        "image/png": PNG,
        "image/jpeg": b"\xff\xd8\xff\xe0",
        "image/gif": b"GIF89a",
        "image/webp": b"RIFF1234WEBP",
    }
    for kind, data in starts.items():
        (tmp_path / "image").write_bytes(data)
        (found,) = ImageFinder(tmp_path).find(["image"], "x")
        assert found.media_type == kind
        assert base64.b64decode(found.encoded()) == data
    (tmp_path / "image").write_bytes(PNG)
    with pytest.raises(BankError, match="has changed since it was read"):
        found.encoded()


@pytest.mark.parametrize(
    ("turns", "why"),
    [
        (TALK[:1], "turns are user. They are user and assistant in turn"),
        (TALK[::-1], "turns are assistant, user"),
        (({"role": "user", "content": " "}, TALK[1]), "one of the turns is empty"),
        (("Hello",), "Expected `object`, got `str`"),
    ],
)
def test_turns_that_make_no_conversation_are_an_error_with_its_line(tmp_path: Path, turns: Any, why: str) -> None:
    lines(tmp_path / "bank.jsonl", [{"prompt_id": "p1", "text": "x", "turns": turns}])
    with pytest.raises(BankError, match=rf"bank\.jsonl:1: .*{why}"):
        read_prompts(tmp_path / "bank.jsonl")


@pytest.mark.parametrize("field", [{"system": "s"}, {"turns": TALK}, {"images": [URL]}])
def test_who_shows_texts_only_refuses_a_prompt_with_more(tmp_path: Path, field: dict[str, Any]) -> None:
    lines(tmp_path / "bank.jsonl", [{"prompt_id": "p1", "text": "x", **field}])
    with pytest.raises(BankError, match=f"prompt 'p1' has `{next(iter(field))}`, which an arena does not show"):
        read_text_prompts(tmp_path / "bank.jsonl", "an arena")


@pytest.fixture
def rich(tmp_path: Path) -> Path:
    """A tournament whose first prompt has a system prompt, a turn and two images, and one answer an image."""
    config = make_folder(tmp_path / "rich", judge="anthropic/judge-1")
    folder = config.parent
    rows = read_lines(folder / "bank.jsonl")
    rows[0] |= {"system": "Be brief.", "turns": TALK, "images": ["cat.png", URL]}
    lines(folder / "bank.jsonl", rows)
    (folder / "cat.png").write_bytes(PNG)
    answers = read_lines(folder / "responses" / "responses_otter.jsonl")
    answers[0]["images"] = ["drawn.png"]
    lines(folder / "responses" / "responses_otter.jsonl", answers)
    (folder / "responses" / "drawn.png").write_bytes(SECOND)
    return config


@pytest.mark.parametrize(("maker", "batch"), [("anthropic", True), ("openai", False)])
def test_a_run_sends_them_and_its_report_rejudge_and_cache_know_them(
    tmp_path: Path, rich: Path, tiltyard: Run, request: pytest.FixtureRequest, maker: str, batch: bool
) -> None:
    server: FakeServer = request.getfixturevalue(f"{maker}_server")
    change(rich, judge__batch=batch, judge__poll_initial_seconds=0.01, judge__poll_max_seconds=0.01)
    name = f"{maker}/judge-1"
    told = tiltyard("run", str(rich), "--mode", "headline", "--judge-model", name, "--yes", "--output-dir", "out")
    assert told.returncode == 0, told.stderr
    assert "images: 2 of prompts, 1 of answers; the quote counts 1,600 tokens each" in told.stderr
    contents = [one.body["messages"][-1]["content"] for one in server.ledger.accepted]
    with_images = [content for content in contents if images_of(content)]
    assert len(with_images) == 2 * 2 * 3  # dimensions, orders, pairs: the first prompt only
    drawn, cat = (base64.b64encode(data).decode() for data in (SECOND, PNG))
    assert {frozenset(images_of(content)) for content in with_images} == {
        frozenset({cat, URL, drawn}),
        frozenset({cat, URL}),
    }
    assert all("[SYSTEM PROMPT" in text_of(content) and "I like cats." in text_of(content) for content in with_images)
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert "(2 images; 1 not shown here: at an address, which a report does not load)" in page
    assert "(1 image)" in page
    assert page.count(f'<img src="data:image/png;base64,{cat}" alt="Image 1 of the prompt"') == 1
    assert page.count(f'<img src="data:image/png;base64,{drawn}" alt="Image 1 of the answer of otter"') == 1
    assert "; img-src data:; base-uri" in page
    assert URL not in page
    assert "Be brief." in page
    sent = len(server.ledger.accepted)
    (rich.parent / "cat.png").rename(rich.parent / "moved.png")
    (rich.parent / "bank.jsonl").write_text((rich.parent / "bank.jsonl").read_text().replace("cat.png", "moved.png"))
    again = tiltyard("run", str(rich), "--mode", "headline", "--judge-model", name, "--yes", "--output-dir", "again")
    assert again.returncode == 0, again.stderr
    assert len(server.ledger.accepted) == sent
    other = tiltyard("judge", "rejudge", "again", "--judge-model", f"{maker}/judge-2", "--yes", "--out", "second")
    assert other.returncode == 0, other.stderr
    asked = [one.body["messages"][-1]["content"] for one in server.ledger.accepted[sent:]]
    assert sorted(map(json.dumps, asked)) == sorted(map(json.dumps, contents))


def test_a_page_shows_an_image_only_while_it_is_the_one_that_was_judged_and_small_enough(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.png").write_bytes(PNG)
    (tmp_path / "b.png").write_bytes(SECOND)
    first, second = image(PNG, str(tmp_path / "a.png")), image(SECOND, str(tmp_path / "b.png"))
    changed, odd = (
        image(PNG, str(tmp_path / "b.png")),
        Image(media_type="text/html", sha256=first.sha256, path=first.path),
    )
    shown = ShownImages()
    assert shown.add(("p1", None), "Text", ()) == "Text"
    assert shown.add(("p1", None), "Text", (first, second)) == "Text\n\n(2 images)"
    assert len(shown.pictures["p1", None]) == 2
    assert "1 not shown here: its file is gone or has changed" in shown.add(("p1", "x"), "", (changed,))
    assert "1 not shown here: not of a type that is shown" in shown.add(("p1", "y"), "", (odd, first))
    assert shown.pictures["p1", "y"] == shown.pictures["p1", None][:1]
    monkeypatch.setattr(run_module, "LARGEST_TOGETHER", len(base64.b64encode(PNG)))
    tight = ShownImages()
    assert "1 not shown here: the report would be too large" in tight.add(("p1", None), "", (first, second))
    assert tight.add(("p2", None), "", (first,)) == "(1 image)"


def test_a_judge_that_sees_no_images_refuses_before_anything_is_asked(
    tmp_path: Path, rich: Path, tiltyard: Run, fake_server: FakeServer
) -> None:
    change(rich, judge__base_url=fake_server.openai_url)
    local = ("run", str(rich), "--mode", "headline", "--judge-model", "local/m", "--yes", "--output-dir", "out")
    told = tiltyard(*local)
    assert told.returncode == 1
    assert "prompt 'p1' or an answer to it has images, and local/m is not known to take any." in told.stderr
    assert not fake_server.ledger.accepted
    change(rich, judge__images=True)
    assert tiltyard(*local).returncode == 0
    assert any(images_of(one.body["messages"][-1]["content"]) for one in fake_server.ledger.accepted)


def test_a_wrong_image_is_said_when_the_run_is_planned(rich: Path, tiltyard: Run, anthropic_server: FakeServer) -> None:
    (rich.parent / "cat.png").write_text("<svg/>")
    told = tiltyard("run", str(rich), "--mode", "headline", "--dry-run")
    assert told.returncode == 1
    assert "prompt 'p1': " in told.stderr
    assert "cat.png is not a PNG, JPEG, GIF or WebP image. Convert it." in told.stderr


def test_generate_sends_system_turns_and_images(rich: Path, tiltyard: Run, anthropic_server: FakeServer) -> None:
    (rich.parent / "responses" / "responses_otter.jsonl").unlink()
    entrants = [{"entrant_id": "otter", "model": "anthropic/m", "system": "Be kind."}]
    entrants += [{"entrant_id": name} for name in ("heron", "crane")]
    change(rich, entrants=entrants, judge__batch=False)
    told = tiltyard("generate", str(rich), "--entrant", "otter", "--yes")
    assert told.returncode == 0, told.stderr
    bodies = [one.body for one in anthropic_server.ledger.accepted]
    (rich_one,) = [body for body in bodies if len(body["messages"]) == 3]
    assert rich_one["system"][0]["text"] == "Be kind.\n\nBe brief."
    assert [text_of(one["content"]) for one in rich_one["messages"]] == [
        "I like cats.",
        "So do I.",
        "What is the capital of France?",
    ]
    assert images_of(rich_one["messages"][-1]["content"]) == [base64.b64encode(PNG).decode(), URL]
    entrants[0]["model"] = "local/m"
    change(rich, entrants=entrants)
    told = tiltyard("generate", str(rich), "--entrant", "otter", "--yes")
    assert told.returncode == 1
    assert "prompts have images, and local/m of 'otter' is not known to take any" in told.stderr


AGENT: list[dict[str, Any]] = [
    {"role": "user", "content": "When is the next tide?"},
    {"role": "assistant", "content": None, "tool_calls": [
        {"id": "c1", "type": "function", "function": {"name": "tides", "arguments": '{"port": "Dover"}'}},
    ]},
    {"role": "tool", "tool_call_id": "c1", "content": "#" * 30_000},
    {"role": "assistant", "content": [{"type": "text", "text": "At 14:05."}]},
]  # fmt: skip


def render(messages: list[dict[str, Any]], limit: int, **more: str) -> RenderedTranscript:
    return render_transcript(msgspec.convert(messages, tuple[TranscriptMessage, ...]), limit, **more)


def test_a_transcript_is_shown_as_steps_and_says_what_was_cut() -> None:
    shown = render(AGENT, 1_000)
    assert len(shown.text) <= 1_000
    assert shown.text.startswith(f"Transcript of 4 steps, {shown.characters_cut:,} characters cut where marked.")
    assert '[2] assistant calls tides:\n{"port": "Dover"}' in shown.text
    assert "[3] tides returns:\n###" in shown.text
    assert f"[… {shown.characters_cut:,} characters cut …]#" in shown.text
    assert shown.text.endswith("[4] assistant:\nAt 14:05.")
    assert shown.text.count("#") == 30_000 - shown.characters_cut
    whole = render(AGENT, 40_000)
    assert whole.characters_cut == 0
    assert whole.text.startswith("Transcript of 4 steps.")
    answered = render(AGENT[:3], 40_000, final_answer="At 14:05.")
    assert answered.text.endswith("[4] final answer:\nAt 14:05.")


@given(
    st.lists(st.tuples(st.sampled_from(["user", "assistant", "tool"]), st.integers(0, 3_000)), min_size=1, max_size=60),
    st.integers(1_000, 6_000),
)
def test_a_transcript_keeps_within_its_limit_and_counts_what_is_gone(steps: list[tuple[str, int]], limit: int) -> None:
    messages = [{"role": role, "content": "x" * size} for role, size in steps]
    shown = render(messages, limit)
    assert len(shown.text) <= limit
    assert shown.text.count("x") == sum(size for _, size in steps) - shown.characters_cut
    assert (shown.characters_cut > 0) == ("characters cut" in shown.text)
    _, size = steps[-1]
    if size <= limit // 2 - 300:  # the answer is kept
        assert shown.text.endswith("x" * size)


def test_a_run_shows_transcripts_and_counts_what_was_cut(tmp_path: Path, tiltyard: Run) -> None:
    script(tmp_path / "judge.yaml", {"when": "Transcript of 4 steps", "say": "VERDICT: TIE"})
    config = make_folder(tmp_path, judge="scripted/judge.yaml")
    path = tmp_path / "responses" / "responses_otter.jsonl"
    answers = read_lines(path)
    answers[0] = {"prompt_id": "p1", "transcript": AGENT}
    lines(path, answers)
    command = ("run", str(config), "--mode", "headline", "--yes", "--output-dir", "out")
    told = tiltyard(*command)
    assert told.returncode == 0, told.stderr
    assert "transcripts: 1 answers are shown as steps; 1 of them cut to 20,000 characters, 10," in told.stderr
    counts = json.loads((tmp_path / "out" / "manifest.json").read_text())["transcripts"]
    assert (counts["shown"], counts["cut"], counts["limit"]) == (1, 1, 20_000)
    rows = [row for row in read_lines(tmp_path / "out" / "matches" / "matches.jsonl") if "Transcript of" in str(row)]
    assert len(rows) == 2 * 2
    assert "At 14:05." in (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    change(config, judge__transcript_characters=10)
    assert "judge.transcript_characters is 10: a transcript takes at least 1,000" in tiltyard(*command).stderr
    answers[0]["transcript"] = [{"role": "robot", "content": "x"}]
    lines(path, answers)
    told = tiltyard(*command)
    assert "2 things are missing or wrong" in told.stderr
    assert "responses_otter.jsonl:1: Invalid enum value 'robot'" in told.stderr
