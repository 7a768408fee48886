"""Answers that say who wrote them: "As ChatGPT, I …", "I am Claude, made by Anthropic", "Je suis Mistral".

A blind vote is not blind on such an answer. Only the first person counts: an answer *about* a model names it without
being it. What is looked for, with NAME a model or one of the families below, MAKER its provider or a company below:

- English: `I am (…) NAME`, `as NAME, I`, `my name is NAME`, `call me NAME`, `this is NAME (speaking)`, `you are
  talking to NAME`, `NAME here` at the start of a line, `signed, NAME` and `— NAME` at the end, `I am an AI … by MAKER`,
  `as an AI … by MAKER, … I`, `I was made/created/trained/… by MAKER`, `MAKER trained me`
- 20 more languages: `I am NAME` and `my name is NAME`; German, French, Spanish, Italian, Portuguese and Chinese also
  `developed by MAKER` after a first-person verb, German and French `as NAME, … I`

An answer that names a model other than its own is found too: it misleads the voter as much as the truth would tell.

The text is read as a reader sees it: letters of other alphabets that look Latin, characters without a width, marks of
Markdown and HTML, letters set apart (`C l a u d e`). Code is not read: what a program prints speaks for the program.
A fence of plain text is no code, and in one without a language lines without signs of code are read. A given name
before a family name ("I am Claude Monet") is a person. Names that are words (Nova, Command) or short (o3) are looked
for only in the answers of the models that carry them and, with the same capitals, of the others in the same arena.

Finding a name first and a phrase around it second keeps it fast: a text without a name in it takes a few microseconds.
"""

from __future__ import annotations

import html
import re
import unicodedata
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

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
    *("YandexGPT", "Perplexity", "HuggingChat", "Nemotron", "OLMo", "SmolLM", "Aleph Alpha", "Luminous", "Meta AI"),
    *("Mistral AI", "GPT-4o", "ЧатGPT", "ГигаЧат", "Клод", "克劳德", "クロード", "클로드", "文心", "混元"),
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
"""A name of fewer letters is a word too often, unless there is a digit in it."""

VERSION = r"(?:[-\s]?v?\d[\w.]*|[-\s](?:turbo|pro|flash|mini|nano|opus|sonnet|haiku|ultra|chat|instruct|large|small))*"
LETTER = "[0-9A-Z_a-zÀ-ɏЀ-ӿ]"
"""What may not stand beside a name: scripts without spaces may, so that 私はClaudeです is read."""

NOT_A_NAME = r"(?!" + LETTER + r"|['’]s\b)"
NOT_A_PERSON = VERSION + r"(?!" + LETTER + r"|['’]s\b|\s+(?-i:[A-Z][a-zé]+\b(?!\s+(?:AI|by))))"

NAME, MAKER, BOTH, REST = "\ue000", "\ue001", "\ue002", "\ue003"
"""What stands in for a name, a maker or both while phrases are looked for; `REST` keeps the length of the text."""
A_STAND_IN = re.compile(f"[{NAME}{MAKER}{BOTH}]{REST}*")
REACH = 500
"""How far from a name a phrase may begin or end."""
A_NAME, A_MAKER = f"[{NAME}{BOTH}]{REST}*", f"[{MAKER}{BOTH}]{REST}*"

MADE = r"(?:made|created|developed|trained|built|designed|produced|released|engineered|programmed)"
A_MODEL = r"(?:an?|the)\s+(?:[\w’'-]+\s+){0,4}?(?:assistant|model|chatbot|AI|bot|LLM|system|intelligence|program)\b"

AS_A_NAME = (
    r"\bI(?:\s+am|['’]m)\s+(?:(?:just|actually|called|named|known\s+as|really|indeed)\s+)?(?:{name})",
    r"\bI(?:\s+am|['’]m)\s+{a_model},?\s+(?:called|named|known\s+as)\s+(?:{name})",
    r"(?:^|[.!?\n]\s*|\b(?:but|and|so|because)\s+)as\s+(?:{name}),?\s+I\b",
    r"\bmy\s+name\s+is\s+(?:{name})",
    r"\b(?:you\s+can\s+)?call\s+me\s+(?:{name})",
    r"(?:^|\n)\s*(?:(?:hello|hi|hey)\W+)?this\s+is\s+(?:{name})(?=\s*[.,!])",
    r"(?:^|[.!?\n]\s*)(?:(?:hello|hi|hey)\W+)?this\s+is\s+(?:{name})(?=\s+(?:speaking|talking|writing|here|again)\b)",
    r"(?:^|[.!?\n]\s*)(?:(?:hello|hi|hey)\W+)?you(?:\s+are|['’]re)\s+(?:(?:now|currently)\s+)?"
    r"(?:talking|speaking|chatting|writing)\s+(?:to|with)\s+(?:{name})",
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
    r"\bI,\s+(?:{name}),",
    r"\bI\s*\((?:{name})\)",
    r"\b(?:speaking|writing|responding)\s+as\s+(?:{name})(?=,?\s+I\b)",
    r"(?:regards|sincerely|yours|cheers),?[ \t]*\n\s*(?:{name})\s*$",
    r"(?:^|[.!?\n]\s*)signed(?:[,:]|\s+by)?\s+(?:your\s+\w+\s+)?(?:{name})\s*[.!]?\s*\Z",
    r"(?:^|[\n.!?)”\"]\s*)(?:[—–―]|--)\s*(?:{name})\s*[.!]?\s*\Z",
    r"\b(?:ik\s+ben|mijn\s+naam\s+is)\s+(?:{name})",
    r"\b(?:jestem|nazywam\s+się|mam\s+na\s+imię)\s+(?:{name})",
    r"\b(?:jag\s+är|jag\s+heter|jeg\s+er|jeg\s+heter|jeg\s+hedder|olen|nimeni\s+on)\s+(?:{name})",
    r"\b(?:jsem|jmenuji\s+se|numele\s+meu\s+este)\s+(?:{name})",
    r"(?:^|[.!?\n]\s*)(?:ben|benim\s+adım|adım)\s+(?:{name})",
    r"\b(?:saya\s+adalah|nama\s+saya(?:\s+adalah)?|saya)\s+(?:{name})",
    r"\b(?:tôi\s+là|mình\s+là|tên\s+tôi\s+là)\s+(?:{name})",
    r"(?:أنا|اسمي)\s+(?:{name})",
    r"(?:मैं|मेरा\s+नाम)\s+(?:{name})",
    r"\b(?:мене\s+звати|мене\s+звуть)\s+(?:{name})",
)
AS_A_MAKER = (
    r"\bas\s+{a_model}[^.!?\n]{{0,30}}?\b{made}\s+by\s+(?:{maker})[^.!?\n]{{0,80}}?\b(?:I|my|me)\b",
    r"\bI(?:\s+am|['’]m)\s+{a_model}[^.!?\n]{{0,60}}?\b(?:{made}\s+)?(?:by|from)\s+(?:{maker})",
    r"\bI\s+(?:was|have\s+been)\s+(?:\w+\s+){{0,2}}?{made}\s+(?:and\s+\w+\s+)?by\s+(?:{maker})",
    r"\bI(?:\s+am|['’]m)\s+(?:\w+\s+)?{made}\s+by\s+(?:{maker})",
    r"(?:{maker})(?:\s+has)?\s+{made}\s+me\b",
    r"(?:^|[.!?\n]\s*|\b(?:but|and|so|because)\s+)as\s+an?\s+(?:{maker})\s+(?:[\w-]+\s+){{0,3}}?(?:assistant|model|AI)\b,?\s+I\b",
    r"\bmy\s+(?:creators?|makers?|developers?)(?:\s+(?:at|is|are)|,)\s+(?:{maker})",
    r"\bich\b[^.!?\n]{{0,60}}?\bvon\s+(?:{maker})\s+(?:entwickelt|trainiert|erstellt|geschaffen)",
    r"\bje\b[^.!?\n]{{0,60}}?\b(?:développé|entraîné|créé|conçu)e?\s+par\s+(?:{maker})",
    r"\b(?:soy|fui|he\s+sido)\b[^.!?\n]{{0,60}}?\b(?:desarrollad|entrenad|cread)[oa]\s+por\s+(?:{maker})",
    r"\b(?:sono|sono\s+stat[oa])\b[^.!?\n]{{0,60}}?\b(?:sviluppat|addestrat|creat)[oa]\s+da\s+(?:{maker})",
    r"\b(?:sou|fui)\b[^.!?\n]{{0,60}}?\b(?:desenvolvid|treinad|criad)[oa]\s+pel[oa]\s+(?:{maker})",
    r"我是[^。！？\n]{{0,20}}?(?:由\s*)?(?:{maker})[^。！？\n]{{0,12}}?(?:开发|開發|训练|訓練|研发|研發|创建|推出)",
)
PHRASES = tuple(
    re.compile(pattern.format(name=A_NAME, maker=A_MAKER, made=MADE, a_model=A_MODEL), re.IGNORECASE)
    for pattern in (*AS_A_NAME, *AS_A_MAKER)
)

CODE = re.compile(r"^[ \t]*(```|~~~)[ \t]*(?P<language>[^\s`]*)[^\n]*\n.*?^[ \t]*\1[ \t]*$", re.DOTALL | re.MULTILINE)
CODE_SIGNS = re.compile(r"[(){}\[\]<>=;$|\\\"#]")
PLAIN = {"text", "txt", "plaintext", "plain", "markdown", "md", "quote"}
"""What a fence may be called whose content is read."""

MARKS = re.compile(
    r"[*`\u2060\ufeff]|~~|</?[A-Za-z][^<>]{0,80}>|(?<![^\W_])_+|_+(?![^\W_])|^[ \t]*(?:[>#•·-]+[ \t]*)+", re.M
)
MARKED = re.compile("[*`~<_>#•·\u2060\ufeff-]")
"""A text without any of these has no marks."""
LINK = re.compile(r"!?\[([^\[\]]{1,80})\]\([^()\s]{1,300}\)")
GAP = re.compile(r"\s{9,}")
"""Empty space that a phrase does not reach over, and in which every phrase would be looked for again and again."""
SET_APART = re.compile(r"(?<!\w)\w(?:([ .\-·])\w)(?:\1\w)+(?!\w)")
LOOKS_LATIN = str.maketrans(
    "АВЕЅІЈКМНОРСТУХаеѕіјорсухԁԛԝɡһӏΑΒΕΖΗΙΚΜΝΟΡΤΥΧορνı",
    "ABESIJKMHOPCTYXaesijopcyxdqwghlABEZHIKMNOPTYXopvi",
)
LOOKS_LIKE = re.compile(r"[Ͱ-ӿԀ-ԯ]")
UNSEEN = re.compile(
    "[\u00ad\u034f\u061c\u0300-\u036f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u20d0-\u20ff\u3164\ue000-\ue003\ufe00-\ufe0f\ufeff\uffa0\U000e0000-\U000e01ef]"
)
"""Characters without a width, and marks that are set onto letters."""
MIXED = re.compile(r"(?=\w*[A-Za-z])(?=\w*[Ͱ-ӿԀ-ԯɡı])\w+")


@dataclass(frozen=True, slots=True)
class SelfNaming:
    """A phrase in which an answer names itself or its maker, and where it begins in the text as a reader sees it."""

    phrase: str
    start: int


def self_namings(
    text: str,
    own_names: Iterable[str] = (),
    own_makers: Iterable[str] = (),
    other_names: Iterable[str] = (),
    other_makers: Iterable[str] = (),
) -> list[SelfNaming]:
    """Every such phrase of an answer, in order.

    `own_names` and `own_makers` are those of the model that wrote it; `other_names` and `other_makers` those of other
    models that a reader may think of, which are looked for with the same capitals.
    """
    own, others = _set_of(own_names, own_makers), _set_of(other_names, other_makers)
    bare = as_seen(text)
    lowered = bare.casefold()
    masked = bare
    for finder in (_known_names(*others), _own_names(*own)):
        masked = finder.masked(masked, lowered)
    if masked == bare:
        return []
    found: dict[int, SelfNaming] = {}
    near = list(_near_names(masked))
    for pattern in PHRASES:
        for match in chain.from_iterable(pattern.finditer(masked, start, end) for start, end in near):
            phrase = " ".join(bare[match.start() : match.end()].split()).lstrip(".!? ")
            found.setdefault(match.end(), SelfNaming(phrase, match.start()))
    return sorted(found.values(), key=lambda naming: naming.start)


def _near_names(masked: str) -> Iterator[tuple[int, int]]:
    """The stretches of a text within `REACH` of a name, in order and without overlap: a phrase is in one of them."""
    start, end = 0, -1
    for name in A_STAND_IN.finditer(masked):
        if name.start() - REACH > end:
            if end >= 0:
                yield start, end
            start = max(name.start() - REACH, 0)
        end = min(name.end() + REACH, len(masked))
    if end >= 0:
        yield start, end


def as_seen(text: str) -> str:
    """A text without code, marks of Markdown and HTML, and characters that only look like others."""
    if "```" in text or "~~~" in text:
        text = CODE.sub(_prose_of, text)
    if "&" in text:
        text = html.unescape(text)
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text)
        text = UNSEEN.sub("", text)
        few = 5 * len(LOOKS_LIKE.findall(text)) < len(text)
        text = text.translate(LOOKS_LATIN) if few else MIXED.sub(lambda word: word[0].translate(LOOKS_LATIN), text)
    if "](" in text:
        text = LINK.sub(r"\1", text)
    if MARKED.search(text):
        text = MARKS.sub("", text)
    text = GAP.sub(lambda gap: "\n" if "\n" in gap.group() else " ", text)
    return SET_APART.sub(lambda letters: letters.group().replace(letters[1], ""), text)


def _prose_of(code: re.Match[str]) -> str:
    """What is read of a fence: all of a plain text, nothing of a program; where it does not say, lines of prose."""
    language = code["language"].lower()
    if language in PLAIN:
        return code.group()
    lines = code.group().split("\n")[1:-1] if not language else []
    return "\n".join(["", *(line for line in lines if not CODE_SIGNS.search(line)), ""])


def names_of(model: str, display_name: str) -> set[str]:
    """The names under which a model may speak of itself: its id, its title, and both without maker, size and date."""
    names: set[str] = set()
    for name in (model, display_name):
        bare = re.split(r"[/:]", name)[-1]
        words = [word for word in re.split(r"[-_\s()]+", bare) if word]
        names |= {name, bare, *("-".join(words[:count]) for count in range(2, len(words)))}
        if words and len(words[0]) > SHORTEST and words[0].casefold() not in NO_NAMES:
            names.add(words[0])
    return {name.capitalize() if name.isalpha() and name.islower() else name for name in names} - {""}


NO_NAMES = frozenset(
    (
        *("assistant", "baseline", "best", "chat", "command", "default", "fast", "fine", "good", "large", "latest"),
        *("meta", "mini", "model", "next", "nova", "open", "prompt", "small", "stable", "system", "team", "test"),
        *("text", "tiny", "tuned", "version", "world"),
    )
)
"""First words of models' names that are too common to be looked for alone."""


@dataclass(frozen=True, slots=True)
class _Finder:
    """Finds names: lower-case beginnings of which a text must have one, and the pattern of them all."""

    stems: tuple[str, ...]
    names: re.Pattern[str]

    def masked(self, text: str, lowered: str) -> str:
        """A text with a sign instead of each name; `lowered` is the text before any name was masked.

        The pattern tries all names at every letter, so in a long text it is tried only where a name begins.
        """
        present = [stem for stem in self.stems if stem in lowered]
        if not present or len(lowered) != len(text):  # a letter that becomes two when lowered: places do not agree
            return self.names.sub(_stand_in, text) if present else text
        pieces, done = [], 0
        for place in sorted({place for stem in present for place in _places(stem, lowered)}):
            match = self.names.match(text, place) if place >= done else None
            if match:
                pieces += [text[done:place], _stand_in(match)]
                done = match.end()
        return "".join([*pieces, text[done:]])


def _places(stem: str, text: str) -> Iterator[int]:
    place = text.find(stem)
    while place >= 0:
        yield place
        place = text.find(stem, place + 1)


Names = tuple[str, ...]


def _set_of(names: Iterable[str], makers: Iterable[str]) -> tuple[Names, Names]:
    return tuple(sorted(set(names))), tuple(sorted(set(makers)))


@lru_cache(maxsize=16)
def _known_names(other_names: Names, other_makers: Names) -> _Finder:
    """Finds the families and makers that everybody knows, and those of other models with the same capitals."""
    return _finder({*FAMILIES, *other_names}, {*MAKERS, *other_makers}, {*FAMILIES, *MAKERS})


@lru_cache(maxsize=1024)
def _own_names(names: Names, makers: Names) -> _Finder:
    """Finds the names of the model that wrote the answer; single words and short ones with the same capitals."""
    return _finder(
        set(names), set(makers), {*makers, *(name for name in names if len(name) > SHORTEST and not name.isalpha())}
    )


def _finder(names: set[str], makers: set[str], loose: set[str]) -> _Finder:
    """`loose` names are found with any capitals."""
    names, makers = set(filter(_is_name, names)), set(filter(_is_name, makers))
    parts = [
        f"(?P<{kind}>{_any_of(these, loose)}{after})"
        for kind, these, after in (
            ("both", names & makers, NOT_A_PERSON),
            ("name", names - makers, NOT_A_PERSON),
            ("maker", makers - names, NOT_A_NAME),
        )
        if these
    ]
    stems = {re.split(r"[-_\s]+", name.strip("-_ \t\n"))[0].casefold() for name in names | makers}
    return _Finder(tuple(sorted(stems)), re.compile(rf"(?<!{LETTER})(?:{'|'.join(parts)})", re.IGNORECASE))


def _is_name(name: str) -> bool:
    return (
        len(name) >= SHORTEST or (bool(name.strip()) and not name.isascii()) or (len(name) == 2 and name[1].isdigit())
    )


def _any_of(names: Iterable[str], loose: set[str]) -> str:
    """A pattern for any of the names, with any spaces, hyphens or underscores; `loose` ones with any capitals."""
    words = []
    for name in sorted(names, key=lambda name: (-len(name), name)):
        pattern = r"[-_\s]?".join(re.escape(word) for word in re.split(r"[-_\s]+", name) if word)
        words.append(pattern if name in loose else f"(?-i:{pattern})")
    return f"(?:{'|'.join(words)})"


def _stand_in(match: re.Match[str]) -> str:
    sign = {"name": NAME, "maker": MAKER, "both": BOTH}[match.lastgroup or "name"]
    return sign + REST * (len(match.group()) - 1)
