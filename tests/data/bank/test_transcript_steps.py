"""An agent's transcript as people read it: numbered steps, read back from the text that they were rendered as."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tiltyard.data.bank import Response, for_people, read_steps, render_transcript
from tiltyard.data.bank.responses import TranscriptMessage

WORDS = st.text(st.characters(codec="utf-8", exclude_characters="[\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"), min_size=1)


@given(st.lists(st.tuples(st.sampled_from(["user", "assistant"]), WORDS), min_size=1, max_size=8))
def test_steps_are_read_as_they_were_rendered(said: list[tuple[str, str]]) -> None:
    messages = [TranscriptMessage(role=role, content=text) for role, text in said]  # type: ignore[arg-type]
    steps = read_steps(render_transcript(messages, 400_000).text)
    assert [(step.heading, step.body.rstrip("\n")) for step in steps] == [
        (role, text.rstrip("\n")) for role, text in said
    ]
    assert [step.number for step in steps] == list(range(1, len(said) + 1))


def test_tools_are_told_from_words_and_other_texts_have_no_steps() -> None:
    row = {
        "entrant_id": "x",
        "prompt_id": "p",
        "response_text": "It is 7.",
        "transcript": [
            {"role": "assistant", "content": None, "tool_calls": [{"function": {"name": "add", "arguments": "3, 4"}}]},
            {"role": "tool", "name": "add", "content": "7"},
        ],
    }
    import msgspec

    shown = for_people(msgspec.convert(row, Response))
    steps = read_steps(shown.response_text)
    assert [(step.heading, step.is_tool) for step in steps] == [
        ("assistant calls add", True),
        ("add returns", True),
        ("final answer", False),
    ]
    assert steps[-1].body == "It is 7."
    assert read_steps("Transcript of my talk.\n\n[1] first:\n") == []
    assert for_people(shown) is shown
