"""Answers that contain their author's name: a blind vote is not blind on such an answer.

The rule has no grammar: any whole-word appearance of a name of the model that wrote the answer counts, unless the
prompt contains the same word. Its names are its id, its title, its aliases and its maker, and what is known of its
family (`KIN`): an answer of `gpt-4o` is also searched for ChatGPT and OpenAI. A name that readers would take for
something else (`ORDINARY`: falcon, command, Google), and a name of another known family, may tell the author or not;
that is for a person to decide.

Text is compared in one normal form: compatible characters as one (NFKC), entities of HTML resolved, trade marks and
characters without a width left out, any capitals, and any sign or none between the parts of a name (`GPT-4`, `gpt_4`,
`GPT4`; `Deep Seek` for DeepSeek). A plural or genitive with s is the name.
"""

from __future__ import annotations

import html
import re
import unicodedata
from dataclasses import dataclass
from functools import lru_cache

KIN = (
    ("GPT", "ChatGPT", "OpenAI", "davinci", "Codex", "o1", "o3", "o4"),
    ("Claude", "Anthropic", "Opus", "Sonnet", "Haiku"),
    ("Gemini", "Gemma", "PaLM", "Bard", "Google", "DeepMind"),
    ("Llama", "Meta AI", "Meta"),
    ("Mistral", "Mixtral", "Ministral", "Codestral", "Pixtral"),
    ("Qwen", "QwQ", "Tongyi Qianwen", "Alibaba", "通义千问", "阿里云"),
    ("DeepSeek", "深度求索"),
    ("Grok", "xAI"),
    ("Copilot", "Phi", "Microsoft"),
    ("Command R", "Aya", "Cohere"),
    ("Kimi", "Moonshot"),
    ("GLM", "ChatGLM", "Zhipu"),
    ("ERNIE", "Baidu", "文心一言", "百度"),
    ("Hunyuan", "Tencent", "混元"),
    ("Doubao", "ByteDance", "豆包"),
    ("Nova", "Titan", "Amazon"),
    ("Nemotron", "NVIDIA"),
    ("Granite", "IBM"),
    ("Jamba", "Jurassic", "AI21"),
    ("Falcon", "Technology Innovation Institute", "TII"),
    ("Vicuna", "LMSYS"),
    ("Luminous", "Aleph Alpha"),
    ("Dolly", "DBRX", "Databricks"),
    ("OpenAssistant", "Open Assistant", "LAION"),
    ("StableLM", "Stability AI"),
    ("YandexGPT", "Yandex"),
    ("GigaChat", "ГигаЧат", "Sber"),
    *(("MiniMax",), ("WizardLM",), ("InternLM",), ("Baichuan",), ("OLMo",), ("SmolLM",), ("HuggingChat",)),
)
"""Names that belong together: families of models and their makers. A model with one of them has them all."""

_ORDINARY = (
    "alpaca amazon apple aya bard codex cohere command copilot dolly dolphin ernie falcon glm google granite haiku "
    "hermes ibm jurassic koala luminous meta microsoft moonshot nova nvidia opus orca palm phi pi solar sonnet "
    "stanford titan together weaver xai yandex zephyr"
)
ORDINARY = frozenset(_ORDINARY.split())
"""Names that readers mostly take for something else: everyday words, letters, and companies known for other things."""

_GENERIC = (
    "ai air alpha assistant base baseline best beta candidate chat chatbot code coder default dpo entrant exp "
    "experimental fast fine finetune finetuned free hf high instant instruct it large latest light lite llm lm low max "
    "medium mini model new next nightly open plus preview pro prompt reasoner reasoning rlhf sft small smart stable "
    "system team test text thinking tiny tuned turbo ultra version vision xl"
)
GENERIC = frozenset(_GENERIC.split())
"""Parts of names that tell no model from another: these alone are not looked for."""

_LATIN = "A-Za-zÀ-ÖØ-öø-ɏ"
_PART = re.compile(rf"[{_LATIN}]+|\d+|[^\W\d_{_LATIN}]+")
_INVISIBLE = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
_TRADE_MARK = re.compile("[™®℠©]")
_INNER_CAPITAL = re.compile("(?<=[A-Za-z][a-z])(?=[A-Z][A-Za-z])")
_BETWEEN, _NO_DIGIT = r"[\W_]{0,3}", r"(?!\d)"
AROUND = 30
"""Characters shown before and after a name."""


@dataclass(frozen=True, slots=True)
class AuthorNames:
    """What one model's answers are searched for: names that tell their author, and words that may."""

    telling: tuple[str, ...]
    doubtful: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Naming:
    """A name in an answer, the words around it, and whether it tells the author or only may."""

    name: str
    phrase: str
    telling: bool


def _readable(text: str) -> str:
    if "&" in text:
        text = html.unescape(text)
    if text.isascii():
        return text
    text = unicodedata.normalize("NFKC", _INVISIBLE.sub("", _TRADE_MARK.sub(" ", text)))
    if len(text.casefold()) != len(text):  # ß is ss
        text = "".join(char if len(char.casefold()) == 1 else char.casefold() for char in text)
    return text


def plain(text: str) -> str:
    """A text in its normal form: lower-case words and numbers with a space between them."""
    return " ".join(_PART.findall(_readable(text).casefold()))


_KIN = [{plain(name) for name in kin} for kin in KIN]


@lru_cache(maxsize=4096)
def author_names(model: str, display_name: str = "", maker: str = "", aliases: tuple[str, ...] = ()) -> AuthorNames:
    """The names that would tell who wrote an answer.

    Parameters:
        model: The model's id.
        display_name: Its title.
        maker: Who made it.
        aliases: Other names of it.
    """
    spaced = _spaced(maker, *aliases, display_name, model, *(name for kin in KIN for name in kin))
    names = {plain(name) for name in (maker, *aliases)}
    for name in (display_name, *re.split("[/:]", model)):
        names |= _names_in(plain(name))
    for kin in _KIN:
        if any(f" {one} " in f" {name} " or (len(one) > 4 and one in name) for one in kin for name in names):
            names |= kin
    telling = {name for name in names if _tells(name)}
    others = {name for kin in _KIN for name in kin if _tells(name)}
    doubtful = (names | others) - telling - {""}
    told = {" ".join(spaced.get(word, word) for word in name.split()) for name in telling}
    return AuthorNames(tuple(sorted(told)), tuple(sorted(doubtful)))


def _spaced(*names: str) -> dict[str, str]:
    """Words that have a capital inside, and how they are written with a space before it."""
    words = (word for name in names for word in _PART.findall(_readable(name)) if _INNER_CAPITAL.search(word))
    return {word.casefold(): _INNER_CAPITAL.sub(" ", word).casefold() for word in words}


def _names_in(name: str) -> set[str]:
    """A name, its beginnings that have every word of it that tells, and that word alone if there is only one."""
    parts = name.split()
    words = {word for word in _words(name) if word not in GENERIC}
    beginnings = {" ".join(parts[:count]) for count in range(2, len(parts)) if words and words <= set(parts[:count])}
    return {name} | beginnings | (words if len(words) == 1 else set())


def _tells(name: str) -> bool:
    """Whether a name is nobody else's: not ordinary, not very short, and not of generic words unless of several."""
    words = _words(name)
    long_enough = len(name) > 2 or not name.isascii()
    return (
        name not in ORDINARY and long_enough and bool(words) and (not GENERIC.issuperset(words) or name.count(" ") > 1)
    )


def _words(name: str) -> list[str]:
    return [part for part in name.split() if not part.isdigit() and (len(part) > 1 or not part.isascii())]


def find_name(text: str, prompt: str, names: AuthorNames) -> Naming | None:
    """The first name in an answer that tells its author; without one, the first that may; None without either.

    Parameters:
        text: The answer.
        prompt: What was asked: words of it tell nothing.
        names: What to look for.
    """
    seen = _readable(text)
    lowered = seen.casefold()
    for wanted, telling in ((names.telling, True), (names.doubtful, False)):
        present = tuple(name for name in wanted if name.split()[0] in lowered)
        asked = f" {plain(prompt)} " if present else ""
        for found in _pattern(present).finditer(lowered) if present else ():
            name = plain(found[1])
            if f" {name} " not in asked and f" {name}s " not in asked:
                start, end = max(found.start() - AROUND, 0), found.end() + AROUND
                return Naming(seen[found.start(1) : found.end(1)], " ".join(seen[start:end].split()), telling)
    return None


@lru_cache(maxsize=1024)
def _pattern(names: tuple[str, ...]) -> re.Pattern[str]:
    """Any of these names as a whole word, with an s or without. Scripts without spaces have no whole words."""
    longest_first = sorted(names, key=lambda name: (-len(name), name))
    options = [_BETWEEN.join(map(re.escape, name.split())) + _NO_DIGIT * name[-1].isdigit() for name in longest_first]
    return re.compile(rf"(?<![{_LATIN}])({'|'.join(options)})s?(?![{_LATIN}])")
