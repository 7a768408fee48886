"""Answers that say who wrote them, and the many that only talk about somebody."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tiltyard.validity import self_naming
from tiltyard.validity.self_naming import names_of, self_namings

TELLING = (
    "As ChatGPT, I cannot do that.",
    "Well. As GPT-4, I have no opinion.",
    "I am Claude, made by Anthropic.",
    "I'm Claude, an AI assistant.",
    "Hello! I’m Gemini 1.5 Pro and happy to help.",
    "I am a large language model, trained by Google.",
    "I'm an AI assistant developed by Mistral AI.",
    "I was created by OpenAI to help people.",
    "I have been trained by DeepSeek on much text.",
    "As an AI language model developed by OpenAI, I do not eat.",
    "My name is Qwen.",
    "You can call me Grok!",
    "Hi, this is Copilot. How can I help?",
    "Llama 3 here! Let's begin.",
    "This is Claude speaking.",
    "Good question! This is Mistral here, at your service.",
    "You're talking to Mistral.",
    "Hi! You are chatting with Qwen 2.5 today.",
    "It is four.\n\nSigned, Llama 3",
    "It is four.\nSigned by Grok.",
    "It is four.\n\n— Llama",
    "It is four. – Claude 3.5 Sonnet",
    "It is four. -- ChatGPT",
    "I am an assistant called Vicuna.",
    "OpenAI trained me on many books.",
    "Ich bin Claude, ein KI-Assistent.",
    "Als ChatGPT kann ich das nicht.",
    "Ich wurde von OpenAI entwickelt.",
    "Je suis Mistral, un modèle de langue.",
    "En tant que ChatGPT, je ne peux pas.",
    "Je m’appelle Claude.",
    "Soy ChatGPT, un modelo de lenguaje.",
    "Fui creado por OpenAI.",
    "Mi chiamo Gemini.",
    "Eu sou o ChatGPT.",
    "Меня зовут GigaChat.",
    "我是通义千问。",
    "我是由深度求索开发的人工智能助手。",
    "私はClaudeです。",
    "저는 Claude입니다.",
)

DISGUISED = (
    "I am **Claude**, and I can help.",
    "As Chat**GPT**, I cannot do that.",
    "> My name is `Claude`.",
    "I am <b>Gemini</b>.",
    "I am [Claude](https://example.com/claude), an assistant.",
    "I'm Cla\u200bude.",
    "I am Cl\u0430ude.",
    "\u0406 am ChatGPT.",
    "I am \uff23\uff4c\uff41\uff55\uff44\uff45.",
    "I am C l a u d e.",
    "I am C-l-a-u-d-e.",
    "I am &#67;laude.",
    "I am Cl\u00adaude.",
    "```text\nI am ChatGPT.\n```",
    "```\nI'm Claude, your assistant.\n```",
    "Best regards,\nChatGPT",
    "As an OpenAI language model, I have no taste.",
    "Ik ben ChatGPT.",
    "Jestem Claude, asystentem AI.",
    "Ben ChatGPT, bir yapay zeka modeliyim.",
    "Tôi là Gemini.",
    "Saya adalah ChatGPT.",
    "أنا ChatGPT، نموذج لغوي.",
    "मैं Gemini हूँ।",
    "Jag heter Claude.",
    "Меня зовут Клод.",
)
"""What a reader sees is what is read: no mark, letter or language hides a name."""

SILENT = (
    "ChatGPT was released in 2022 by OpenAI.",
    "As ChatGPT users know, answers vary.",
    "I am not sure whether Claude can do that.",
    "I am Claude Monet, and I paint water lilies.",
    "As an AI language model, I cannot taste food.",
    "I'm comparing Claude with Gemini for you.",
    "I was impressed by Google Maps.",
    "I am a Gemini, born in June.",
    "I was trained by Google's sales team for a year, said Ann.",
    "The company was founded by Anthropic employees.",
    "As a model developed by OpenAI, GPT-4 takes images.",
    "I am an otter.",
    "My favourite models are Llama and Mistral.",
    "The mistral is a wind. I am cold when it blows.",
    "I asked: who made Claude? Anthropic made it.",
    "```\nprint('I am ChatGPT')\n```",
    "```python\nI am ChatGPT\n```",
    "Use `I am` and `Claude` as variables.",
    "I am in command. As Command Sergeant, I lead.",
    "I am O3, the ozone that protects you.",
    "Dear diary, I am in my palm reading class.",
    "a b c d e: I am listing letters.",
    "Sunt GPT-uri diferite.",
    "Bard of Avon, I am told, was Shakespeare.",
    "Sono le otto. Gemini è un segno.",
    "Als ChatGPT erschien, staunte die Welt.",
    "If you are talking to ChatGPT, be brief.",
    "People say you're talking to Claude when it rains.",
    "The petition was signed by Claude users.",
    "Signed, Claude Monet",
    "Water lilies — Claude Monet",
    "Three models were tried — ChatGPT, Claude — and Gemini won.",
    "This is ChatGPT's strength.",
    "The best of all is still the same - Claude",
    "",
)


@pytest.mark.parametrize("text", [*TELLING, *DISGUISED])
def test_an_answer_in_the_first_person_that_names_itself_or_its_maker_is_found(text: str) -> None:
    assert self_namings(text)


@pytest.mark.parametrize("text", SILENT)
def test_an_answer_that_only_talks_about_models_is_not(text: str) -> None:
    assert self_namings(text) == []


def test_a_models_own_names_are_looked_for_with_any_hyphens_and_case() -> None:
    assert self_namings("Hi, I'm Otter Large!", own_names=("otter-large",))
    assert self_namings("I was built by Riverbank Labs.", own_makers=("Riverbank Labs",))
    assert not self_namings("Hi, I'm Otter Large!")
    assert not self_namings("I'm yi years old.", own_names=("yi",)), "two letters are a word too often"
    assert self_namings("I am 豆包.", own_names=("豆包",)), "two signs of another script are a name"


def test_a_model_is_known_by_its_id_its_title_and_both_without_maker_size_and_date() -> None:
    names = names_of("acme/otter-2-70b-chat", "Otter 2 (70B)")
    for text in ("I am Otter.", "I'm Otter 2!", "I am acme/otter-2-70b-chat.", "My name is Otter-2 70B."):
        assert self_namings(text, names), text
    assert not self_namings("I am command.", names_of("cohere/command", "command"))
    assert not self_namings("I am an open book.", names_of("open-llama-3b", "OpenLLaMA"))
    assert self_namings("I am o3.", names_of("openai/o3", "o3"))
    assert not self_namings("I am O3, the ozone.", names_of("openai/o3", "o3"))


def test_the_name_of_another_model_of_the_arena_misleads_and_is_found_with_the_same_capitals() -> None:
    assert self_namings("I am Heron.", names_of("otter", "Otter"), (), ("Heron",))
    assert not self_namings("I am heron.", names_of("otter", "Otter"), (), ("Heron",))
    assert self_namings("I was made by Riverbank.", (), (), (), ("Riverbank",))


def test_the_longest_name_that_fits_is_told() -> None:
    (found,) = self_namings("I am otter large.", own_names=("otter-1", "otter large"))
    assert found.phrase == "I am otter large"


def test_the_phrase_and_its_place_are_told() -> None:
    text = "Sure!\n\nI am ChatGPT. Ask me anything."
    (found,) = self_namings(text)
    assert found.phrase == "I am ChatGPT"
    assert text[found.start :].startswith("I am ChatGPT")


def test_names_with_signs_of_patterns_in_them_are_read_as_they_are() -> None:
    assert self_namings("I am c++ (beta).", own_names=("c++ (beta",)) != []
    assert self_namings("I am cxx.", own_names=("c.x",)) == []


def test_a_long_answer_without_sense_is_read_in_reasonable_steps() -> None:
    assert self_namings("I am a " + "very " * 20_000) == []
    assert self_namings("as " * 20_000) == []
    assert self_namings("I'm an " * 10_000) == []
    for gap in ("\n", " ", "\t\n", ". ", "—\n", "signed "):
        assert self_namings("Claude." + gap * 10_000 + "x") == []


@pytest.mark.parametrize(
    "text",
    [
        text if place % 4 == 0 else pytest.param(text, marks=pytest.mark.soak)
        for place, text in enumerate([*TELLING, *DISGUISED, *SILENT])
    ],
)
def test_in_a_long_page_the_same_is_found_near_names_as_by_reading_all_of_it(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    filler = "\n".join(f"Line {number}, which is about nobody." for number in range(30))
    page = f"Claude Monet painted this.\n{filler}\n{text}\n{filler}\nSo did others.\n{text}"
    found = self_namings(page, ["Line"])
    monkeypatch.setattr(self_naming, "REACH", len(page))
    assert found == self_namings(page, ["Line"])


def test_letters_that_become_two_in_lower_case_move_no_name() -> None:
    found = self_namings("İstanbul ve ŉ ve ǰ. " * 3 + "I am Claude, and I was made by Anthropic.")
    assert [naming.phrase for naming in found] == ["I am Claude", "I was made by Anthropic"]


def test_words_of_letters_that_look_latin_are_read_as_latin_unless_a_fifth_of_the_text_is_foreign() -> None:
    word = "\u0440\u043e\u0440"  # Cyrillic: er, o, er
    assert self_naming.as_seen(f"{word}, twelve more.") == "pop, twelve more."
    assert self_naming.as_seen(f"{word}, 12 letters") == f"{word}, 12 letters"
    assert self_naming.as_seen(f"{word} p{word[1:]}, in all") == f"{word} pop, in all", "a word of both is a disguise"


def test_of_3053_real_answers_only_those_that_name_themselves_are_found(real_data: Path) -> None:
    """Read by hand: 4 phrases, in 4 answers, all of them telling."""
    found = []
    for name, field in (("alpaca_eval/outputs_12models_160.jsonl", "output"), ("llmfao/results.jsonl", "result")):
        lines = (real_data / name).read_text(encoding="utf-8").splitlines()
        for answer in map(json.loads, lines[: None if "llmfao" not in name else 1133]):
            found += [naming.phrase for naming in self_namings(answer[field] or "")]
    assert sorted(found) == [
        "As a language model AI developed by OpenAI, my",
        "As an AI assistant created by Anthropic to be helpful, harmless, and honest, I",
        "I am an AI assistant created by Anthropic",
        "I'm Claude",
    ]
