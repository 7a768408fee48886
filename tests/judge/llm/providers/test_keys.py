from __future__ import annotations

from pathlib import Path

import pytest

from tiltyard.errors import OptionError, Refused
from tiltyard.judge.llm import load_env, redact
from tiltyard.judge.llm.keys import find_key, keep_secret, read_env_file

ENV_FILE = """\ufeff
# a comment
PLAIN=one
export EXPORTED=two
 SPACED = three three
DOUBLE="four # not a comment"
SINGLE='five "quoted"' # a comment
TRAILING=six # a comment
HASH=se#ven
EMPTY=
EMPTY_COMMENT= # nothing
not a line
1BAD=x
EQUALS=a=b==
"""


def test_a_env_file_is_read_as_people_write_it(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text(ENV_FILE, encoding="utf-8")
    assert read_env_file(tmp_path / ".env") == {
        "PLAIN": "one",
        "EXPORTED": "two",
        "SPACED": "three three",
        "DOUBLE": "four # not a comment",
        "SINGLE": 'five "quoted"',
        "TRAILING": "six",
        "HASH": "se#ven",
        "EMPTY": "",
        "EMPTY_COMMENT": "",
        "EQUALS": "a=b==",
    }


def test_the_environment_wins_then_the_first_folder(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    for folder, lines in ((first, "A=first\nB=first\n"), (second, "A=second\nB=second\nC=second\n")):
        folder.mkdir()
        (folder / ".env").write_text(lines)
    found = load_env([first, second, tmp_path / "absent"], {"A": "environment", "B": "  "})
    assert (found["A"], found["B"], found["C"]) == ("environment", "first", "second")


def test_a_env_file_that_is_not_text_is_one_line(tmp_path: Path) -> None:
    (tmp_path / ".env").write_bytes(b"\xff\xfe\x00K")
    with pytest.raises(OptionError, match=r"cannot be read as a \.env file"):
        load_env([tmp_path], {})


def test_a_missing_key_says_where_to_put_it() -> None:
    with pytest.raises(Refused) as caught:
        find_key("ANTHROPIC_API_KEY", {"ANTHROPIC_API_KEY": " "}, needed_for="anthropic/claude-x")
    expected = "anthropic/claude-x needs a key: set ANTHROPIC_API_KEY in the environment or in .env."
    assert str(caught.value) == expected


def test_a_key_that_cannot_be_sent_is_refused_without_being_shown() -> None:
    with pytest.raises(Refused) as caught:
        find_key("OPENAI_API_KEY", {"OPENAI_API_KEY": "sk-“curly-quotes”"}, needed_for="openai/gpt-x")
    assert "OPENAI_API_KEY holds characters that no key has" in str(caught.value)
    assert "curly" not in str(caught.value)


def test_known_secrets_and_api_keys_of_the_environment_are_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_API_KEY", "from-the-environment-1")
    keep_secret("handed-to-a-provider-1")
    keep_secret("handed-to-a-provider-1-and-longer")
    said = "from-the-environment-1, handed-to-a-provider-1, handed-to-a-provider-1-and-longer"
    assert redact(said) == "[hidden], [hidden], [hidden]"


def test_a_placeholder_is_not_worth_blanking_words_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCAL_API_KEY", "none")
    keep_secret("local")
    keep_secret(None)
    assert redact("there is none at local") == "there is none at local"
