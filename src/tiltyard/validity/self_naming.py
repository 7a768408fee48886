"""Answers that say who wrote them: "As ChatGPT, I …", "I am Claude, made by Anthropic", "Je suis Mistral".

A blind vote is not blind on such an answer. Only the first person counts: an answer *about* a model names it without
being it. What is looked for, with NAME a model or one of the families below, MAKER its provider or a company below:

- English: `I am (…) NAME`, `as NAME, I`, `my name is NAME`, `call me NAME`, `this is NAME`, `NAME here` at the start
  of a line, `I am an AI … by MAKER`, `as an AI … by MAKER, … I`, `I was made/created/trained/… by MAKER`,
  `MAKER trained me`
- German, French, Spanish, Italian, Portuguese, Russian, Chinese, Japanese, Korean: `I am NAME` and `my name is NAME`;
  the first five and Chinese also `developed by MAKER` after a first-person verb, German and French `as NAME, … I`

Fenced code is not read. A given name before a family name ("I am Claude Monet") is a person. Words that are names only
sometimes (Yi, Phi, Nova, Falcon) are looked for only in the answers of the models that carry them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

FAMILIES = (
    *("ChatGPT", "GPT", "Claude", "Gemini", "Bard", "Gemma", "PaLM", "LLaMA", "Mistral", "Mixtral", "Qwen", "QwQ"),
    *("Tongyi Qianwen", "通义千问", "DeepSeek", "Grok", "Copilot", "Bing Chat", "Command R", "Kimi", "ChatGLM", "GLM"),
    *(
        "ERNIE Bot",
        "文心一言",
        "Hunyuan",
        "Doubao",
        "豆包",
        "MiniMax",
        "Jamba",
        "Vicuna",
        "Alpaca",
        "Koala",
        "OpenAssistant",
    ),
    *("Open Assistant", "Guanaco", "StableLM", "WizardLM", "Zephyr", "OpenHermes", "InternLM", "Baichuan", "GigaChat"),
    *("YandexGPT", "Perplexity", "HuggingChat", "Nemotron", "OLMo", "SmolLM", "Aleph Alpha", "Luminous"),
)
MAKERS = (
    *("OpenAI", "Anthropic", "Google", "Google DeepMind", "DeepMind", "Meta", "Meta AI", "Mistral AI", "Alibaba"),
    *("Alibaba Cloud", "DeepSeek", "xAI", "Microsoft", "Cohere", "Moonshot AI", "Zhipu AI", "Baidu", "Tencent"),
    *(
        "ByteDance",
        "AI21 Labs",
        "Stability AI",
        "LAION",
        "Hugging Face",
        "NVIDIA",
        "Aleph Alpha",
        "Technology Innovation Institute",
    ),
    *(
        "LMSYS",
        "Inflection AI",
        "Amazon",
        "IBM",
        "Databricks",
        "Reka AI",
        "01.AI",
        "Yandex",
        "Sber",
        "阿里云",
        "百度",
        "深度求索",
    ),
)
SHORTEST = 3
"""A name of fewer letters is a word too often."""

VERSION = r"(?:[-\s]?v?\d[\w.]*|[-\s](?:turbo|pro|flash|mini|nano|opus|sonnet|haiku|ultra|chat|instruct|large|small))*"
LETTER = "[0-9A-Z_a-zÀ-ɏЀ-ӿ]"
"""What may not follow a name: scripts without spaces may, so that 私はClaudeです is read."""

MADE = r"(?:made|created|developed|trained|built|designed|produced|released|engineered|programmed)"
A_MODEL = r"(?:an?|the)\s+(?:[\w’'-]+\s+){0,4}?(?:assistant|model|chatbot|AI|bot|LLM|system|intelligence|program)\b"

AS_A_NAME = (
    r"\bI(?:\s+am|['’]m)\s+(?:(?:just|actually|called|named|known\s+as|really|indeed)\s+)?(?:{name})",
    r"\bI(?:\s+am|['’]m)\s+{a_model},?\s+(?:called|named|known\s+as)\s+(?:{name})",
    r"(?:^|[.!?\n]\s*|\b(?:but|and|so|because)\s+)as\s+(?:{name}),?\s+I\b",
    r"\bmy\s+name\s+is\s+(?:{name})",
    r"\b(?:you\s+can\s+)?call\s+me\s+(?:{name})",
    r"(?:^|\n)\s*(?:(?:hello|hi|hey)\W+)?this\s+is\s+(?:{name})(?=\s*[.,!])",
    r"(?:^|\n)\s*(?:(?:hello|hi|hey)\W+)?(?:{name})\s+here\s*[.,!]",
    r"\bich\s+bin\s+(?:{name})",
    r"\bmein\s+name\s+ist\s+(?:{name})",
    r"\bich\s+hei(?:ß|ss)e\s+(?:{name})",
    r"(?:^|[.!?\n]\s*)als\s+(?:{name})\s+(?:kann|bin|habe|wurde|möchte|darf)\s+ich\b",
    r"\bje\s+suis\s+(?:{name})",
    r"\bje\s+m['’]appelle\s+(?:{name})",
    r"\bmon\s+nom\s+est\s+(?:{name})",
    r"(?:^|[.!?\n]\s*)en\s+tant\s+que\s+(?:{name}),?\s+je\b",
    r"\b(?:yo\s+)?soy\s+(?:{name})",
    r"\bme\s+llamo\s+(?:{name})",
    r"\bmi\s+nombre\s+es\s+(?:{name})",
    r"(?:^|[.!?\n]\s*)(?:io\s+)?sono\s+(?:{name})",
    r"\bmi\s+chiamo\s+(?:{name})",
    r"\b(?:eu\s+)?sou\s+(?:o\s+|a\s+)?(?:{name})",
    r"\bmeu\s+nome\s+é\s+(?:{name})",
    r"(?:^|[.!?\n]\s*)я\s*[—–-]?\s+(?:{name})",
    r"\bменя\s+зовут\s+(?:{name})",
    r"我(?:是|叫|的名字是)\s*(?:{name})",
    r"(?:私|わたし|僕)(?:は|の名前は)\s*(?:{name})",
    r"(?:저는|나는|제\s*이름은)\s*(?:{name})",
)
AS_A_MAKER = (
    r"\bas\s+{a_model}[^.!?\n]{{0,30}}?\b{made}\s+by\s+(?:{maker})[^.!?\n]{{0,80}}?\b(?:I|my|me)\b",
    r"\bI(?:\s+am|['’]m)\s+{a_model}[^.!?\n]{{0,60}}?\b(?:{made}\s+)?(?:by|from)\s+(?:{maker})",
    r"\bI\s+(?:was|have\s+been)\s+(?:\w+\s+){{0,2}}?{made}\s+(?:and\s+\w+\s+)?by\s+(?:{maker})",
    r"\bI(?:\s+am|['’]m)\s+(?:\w+\s+)?{made}\s+by\s+(?:{maker})",
    r"\b(?:{maker})(?:\s+has)?\s+{made}\s+me\b",
    r"\bich\b[^.!?\n]{{0,60}}?\bvon\s+(?:{maker})\s+(?:entwickelt|trainiert|erstellt|geschaffen)",
    r"\bje\b[^.!?\n]{{0,60}}?\b(?:développé|entraîné|créé|conçu)e?\s+par\s+(?:{maker})",
    r"\b(?:soy|fui|he\s+sido)\b[^.!?\n]{{0,60}}?\b(?:desarrollad|entrenad|cread)[oa]\s+por\s+(?:{maker})",
    r"\b(?:sono|sono\s+stat[oa])\b[^.!?\n]{{0,60}}?\b(?:sviluppat|addestrat|creat)[oa]\s+da\s+(?:{maker})",
    r"\b(?:sou|fui)\b[^.!?\n]{{0,60}}?\b(?:desenvolvid|treinad|criad)[oa]\s+pel[oa]\s+(?:{maker})",
    r"我是[^。！？\n]{{0,20}}?(?:由\s*)?(?:{maker})[^。！？\n]{{0,12}}?(?:开发|训练|研发|创建|推出)",
)
CODE = re.compile(r"^(?:```|~~~).*?^(?:```|~~~)\s*$", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True, slots=True)
class SelfNaming:
    """A phrase in which an answer names itself or its maker, and where it begins."""

    phrase: str
    start: int


def self_namings(text: str, own_names: Iterable[str] = (), own_makers: Iterable[str] = ()) -> list[SelfNaming]:
    """Every such phrase of an answer, in order. `own_names` and `own_makers` are those of the model that wrote it."""
    patterns = _patterns(tuple(sorted(set(own_names))), tuple(sorted(set(own_makers))))
    bare = CODE.sub(lambda code: " " * len(code.group()), text)
    found: dict[int, SelfNaming] = {}
    for pattern in patterns:
        for match in pattern.finditer(bare):
            phrase = " ".join(match.group().split()).lstrip(".!? ")
            found.setdefault(match.end(), SelfNaming(phrase, match.start()))
    return sorted(found.values(), key=lambda naming: naming.start)


@lru_cache(maxsize=1024)
def _patterns(own_names: tuple[str, ...], own_makers: tuple[str, ...]) -> tuple[re.Pattern[str], ...]:
    """All patterns for one model, compiled once."""
    name = _any_of(
        (*FAMILIES, *own_names), after=VERSION + r"(?!" + LETTER + r"|['’]s\b|\s+(?-i:[A-Z][a-zé]+\b(?!\s+(?:AI|by))))"
    )
    maker = _any_of((*MAKERS, *own_makers), after=r"(?!" + LETTER + r"|['’]s\b)")
    filled = [pattern.format(name=name, a_model=A_MODEL) for pattern in AS_A_NAME]
    filled += [pattern.format(maker=maker, made=MADE, a_model=A_MODEL) for pattern in AS_A_MAKER]
    return tuple(re.compile(pattern, re.IGNORECASE) for pattern in filled)


def _any_of(names: Iterable[str], after: str) -> str:
    """A pattern for any of the names; spaces, hyphens and underscores in them are interchangeable."""
    long_enough = [name for name in names if len(name) >= SHORTEST or not name.isascii()]
    by_length = sorted(set(long_enough), key=lambda name: (-len(name), name))
    words = [r"[-_\s]?".join(re.escape(word) for word in re.split(r"[-_\s]+", name) if word) for name in by_length]
    return f"(?:{'|'.join(words)}){after}"
