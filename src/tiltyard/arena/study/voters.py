"""Signs that a session does not read what it votes on. A flag is a reason to look, not a proof.

First simple shares of the session's own votes and one test of favour (`session_flags`); then, at the end, votes that
are rarer than those of everybody before them (`surprises`, `combined`), by Fisher's combined test.

Chiang et al. 2024 ("Chatbot Arena", section on anomalous users): each vote is compared with the earlier votes on the
same two models, p = (1 + those at least as extreme)/(n + 1), and a session's M = −2·Σ ln p is held against χ² with two
degrees of freedom per vote. Here "as extreme" is "as rare or rarer", the vote itself counted in: then p is valid
whenever votes on a pair are alike in distribution, whatever that distribution is.

Votes have four values, so p has few, and χ² expects far more than an honest session can reach: the test as published
sees only sessions that are wrong nearly always. `corrected` uses what M can reach: its exact mean and variance given
the votes on each pair, matched by a scaled χ² (Satterthwaite 1946; Brown 1975).

A vote is not blind on an answer that contains its author's name. The rule for finding it has no grammar: any whole-word
appearance of a name of the model that wrote the answer counts, unless the prompt contains the same word. Its names are
its id, its title, its aliases and its maker, and what is known of its family (`KIN`): an answer of `gpt-4o` is also
searched for ChatGPT and OpenAI. A name that readers would take for something else (`ORDINARY`: falcon, command,
Google), and a name of another known family, may tell the author or not; that is for a person to decide.

Text is compared in one normal form: compatible characters as one (NFKC), entities of HTML resolved, trade marks and
characters without a width left out, any capitals, and any sign or none between the parts of a name (`GPT-4`, `gpt_4`,
`GPT4`; `Deep Seek` for DeepSeek). A plural or genitive with s is the name.
"""

from __future__ import annotations

import html
import re
import unicodedata
from functools import lru_cache

import msgspec
import numpy as np
from numpy.typing import NDArray

from tiltyard.data.battles import Outcome
from tiltyard.stats import LOGITS_PER_POINT
from tiltyard.types import Floats, Ints

Codes = NDArray[np.int8]

CLEAR_FAVOURITE = 0.6
"""A vote is an upset when the loser was expected to win at least this often: between near equals there is none."""

FAVOUR_VOTES = 10
FAVOUR_ALPHA = 0.001
"""Favour of one model is flagged from this many votes on it, at this chance over all the models a session met."""


class SessionRules(msgspec.Struct, frozen=True):
    """When a session is flagged: for each sign, from how many votes on and from which share."""

    fast_votes: int
    fast_seconds: float
    fast_share: float
    one_sided_votes: int
    one_sided_share: float
    upset_votes: int
    upset_share: float
    both_bad_votes: int
    both_bad_share: float


class SessionVotes(msgspec.Struct, frozen=True, eq=False):
    """A session's votes in order: when, models by side, outcome codes, and the score expected of side A."""

    seconds: Floats
    model_a: Ints
    model_b: Ints
    outcome: Codes
    expected_a: Floats
    names: tuple[str, ...] = ()
    """What models are called in a flag's words; their numbers where this is empty."""

    def __len__(self) -> int:
        return len(self.seconds)


class SessionFlag(msgspec.Struct, frozen=True):
    """A sign that was found: its name, and the numbers behind it in words."""

    flag: str
    detail: str


def share_flag(name: str, number: int, total: int, what: str, least: int, share: float) -> SessionFlag | None:
    """A flag for acts that are at least so many and at least this share of all."""
    if number < least or number < share * total:
        return None
    return SessionFlag(name, f"{number} of {total} {what}")


def session_flags(votes: SessionVotes, rules: SessionRules) -> list[SessionFlag]:
    """Every sign found in a session, in a fixed order."""
    result = [_fast(votes, rules)]
    for side in (Outcome.A, Outcome.B):  # sides are random, so no model earns the same one again and again
        number = int((votes.outcome == side.code).sum())
        if len(votes) >= rules.one_sided_votes and number >= rules.one_sided_share * len(votes):
            result.append(SessionFlag("one-sided", f"{number} of {len(votes)} votes for side {side.name}"))
            break
    result.append(_upsets(votes, rules))
    number = int((votes.outcome == Outcome.BOTH_BAD.code).sum())
    if len(votes) >= rules.both_bad_votes and number >= rules.both_bad_share * len(votes):
        result.append(SessionFlag("both-bad", f"{number} of {len(votes)} votes say both are bad"))
    return [flag for flag in (*result, _favour(votes)) if flag is not None]


def _fast(votes: SessionVotes, rules: SessionRules) -> SessionFlag | None:
    """Votes that follow one another faster than two answers can be read."""
    gaps = np.diff(votes.seconds)
    if len(votes) < rules.fast_votes or not len(gaps):
        return None
    fast = int((gaps < rules.fast_seconds).sum())
    if fast < rules.fast_share * len(gaps):
        return None
    return SessionFlag("fast", f"{fast} of {len(gaps)} gaps between votes under {rules.fast_seconds:g} s")


def _upsets(votes: SessionVotes, rules: SessionRules) -> SessionFlag | None:
    """The weaker model again and again, among decisive votes on pairs with a clear favourite."""
    for_a, for_b = votes.outcome == Outcome.A.code, votes.outcome == Outcome.B.code
    against_a = votes.expected_a >= CLEAR_FAVOURITE
    against_b = votes.expected_a <= 1.0 - CLEAR_FAVOURITE
    number = int(((for_a | for_b) & (against_a | against_b)).sum())
    upsets = int(((for_b & against_a) | (for_a & against_b)).sum())
    if number < rules.upset_votes or upsets < rules.upset_share * number:
        return None
    return SessionFlag("upsets", f"the clear outsider won {upsets} of {number} decisive votes")


def _favour(votes: SessionVotes) -> SessionFlag | None:
    """One model preferred, or put down, beyond what its ratings explain: for it and against it are both tested."""
    from scipy.special import ndtr

    decisive = (votes.outcome == Outcome.A.code) | (votes.outcome == Outcome.B.code)
    surprise = np.where(votes.outcome == Outcome.A.code, 1.0, 0.0) - votes.expected_a
    models = np.concatenate([votes.model_a[decisive], votes.model_b[decisive]])
    if not len(models):
        return None
    variance = (votes.expected_a * (1.0 - votes.expected_a))[decisive]
    met, code, number = np.unique(models, return_inverse=True, return_counts=True)
    excess = np.bincount(code, np.concatenate([surprise[decisive], -surprise[decisive]]))
    enough = number >= FAVOUR_VOTES
    if not enough.any():
        return None
    total = np.bincount(code, np.concatenate([variance, variance]))
    # Half a vote off: counts are whole, and without it ten votes would look surer than they are.
    sigmas = np.where(enough, np.maximum(np.abs(excess) - 0.5, 0.0) / np.sqrt(total + 1e-12), 0.0)
    worst = int(np.argmax(sigmas))
    if 2.0 * float(ndtr(-sigmas[worst])) * int(enough.sum()) > FAVOUR_ALPHA:
        return None
    name = votes.names[met[worst]] if votes.names else f"model {met[worst]}"
    more = excess[worst] > 0
    return SessionFlag(
        "favours one model" if more else "puts down one model",
        f"{name} won {abs(excess[worst]):.1f} {'more' if more else 'fewer'} of its {number[worst]} decisive votes "
        f"than expected ({sigmas[worst]:.1f} sigma)",
    )


def fewest_votes(rules: SessionRules) -> int:
    """From how many votes on `session_flags` can find anything."""
    return min(rules.fast_votes, rules.one_sided_votes, rules.upset_votes, rules.both_bad_votes, FAVOUR_VOTES)


def expected_scores(rating_a: Floats, rating_b: Floats) -> Floats:
    """The score expected of side A by the ratings alone: 400 points are odds of 10 to 1."""
    return np.asarray(1.0 / (1.0 + np.exp((rating_b - rating_a) * LOGITS_PER_POINT)))


LEAST_VOTES = 10
"""A session is tested from this many votes on."""


class Surprise(msgspec.Struct, frozen=True, eq=False):
    """For every vote −2·ln p, and the mean and variance it has if the vote is one like those before it."""

    value: Floats
    mean: Floats
    variance: Floats


class Anomaly(msgspec.Struct, frozen=True):
    """A session's combined test: votes, M, the p-value as published, and the corrected one."""

    votes: int
    combined: float
    p_value: float
    corrected: float


def surprises(model_a: Ints, model_b: Ints, outcome: Codes, n_models: int) -> Surprise:
    """How rare each vote is among the votes on its pair so far; votes in the order they were cast."""
    first = np.minimum(model_a, model_b)
    pair = first * n_models + np.maximum(model_a, model_b)
    decisive = outcome <= Outcome.B.code
    # Seen from the pair, not from the sides: 0 when the model with the smaller number won.
    result = np.where(decisive & (model_a != first), 1 - outcome, outcome).astype(np.int64)
    counts = _counts_so_far(pair, result)
    size = counts.sum(axis=1, keepdims=True)
    as_rare = np.zeros_like(counts)
    for kind in range(len(Outcome)):
        as_rare[:, kind] = np.where(counts <= counts[:, kind : kind + 1], counts, 0.0).sum(axis=1)
    value = -2.0 * np.log(np.where(counts > 0.0, as_rare / size, 1.0))
    mean = (counts * value).sum(axis=1) / size[:, 0]
    square = (counts * value * value).sum(axis=1) / size[:, 0]
    own = value[np.arange(len(result)), result]
    return Surprise(own, mean, np.maximum(square - mean * mean, 0.0))


def _counts_so_far(pair: Ints, result: Ints) -> Floats:
    """For every vote, how often each result was seen on its pair up to and including it: (votes, 4)."""
    order = np.argsort(pair, kind="stable")
    seen = np.cumsum(np.eye(len(Outcome))[result[order]], axis=0)
    starts = np.flatnonzero(np.diff(pair[order], prepend=-1))
    before = np.concatenate([np.zeros((1, len(Outcome))), seen[starts[1:] - 1]]) if len(starts) else seen
    lengths = np.diff(np.append(starts, len(order)))
    counts = np.empty_like(seen)
    counts[order] = seen - np.repeat(before, lengths, axis=0)
    return counts


def combined(surprise: Surprise, rows: NDArray[np.intp]) -> Anomaly:
    """The test of one session, whose votes are these rows."""
    from scipy.special import chdtrc

    m = float(surprise.value[rows].sum())
    mean, variance = float(surprise.mean[rows].sum()), float(surprise.variance[rows].sum())
    published = float(chdtrc(2.0 * len(rows), m)) if len(rows) else 1.0
    if variance <= 0.0:
        return Anomaly(len(rows), m, published, 1.0)
    scale = variance / (2.0 * mean)
    return Anomaly(len(rows), m, published, float(chdtrc(mean / scale, m / scale)))


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
_BETWEEN, _INSIDE, _NO_DIGIT = r"[\W_]{0,4}", r"(?:[^\w\s]|_){0,4}", r"(?!\d)"
LONG_NAME = 5
"""Letters from which a name is found with blanks between them too; shorter ones are lists of single letters."""
_SEPARATOR = re.compile(r"[\W_]+")
AROUND = 30
"""Characters shown before and after a name."""


class AuthorNames(msgspec.Struct, frozen=True):
    """What one model's answers are searched for: names that tell their author, and words that may."""

    telling: tuple[str, ...]
    doubtful: tuple[str, ...]


class Naming(msgspec.Struct, frozen=True):
    """A name in an answer, the words around it, and whether it tells the author or only may."""

    name: str
    phrase: str
    telling: bool


def _readable(text: str) -> str:
    if "&" in text:
        text = html.unescape(text)
    if text.isascii():
        return text
    text = unicodedata.normalize("NFKD", _INVISIBLE.sub("", _TRADE_MARK.sub(" ", text)))
    text = "".join(char for char in text if unicodedata.category(char) not in ("Mn", "Me"))
    if len(text.casefold()) != len(text):  # ß is ss
        text = "".join(char if len(char.casefold()) == 1 else char.casefold() for char in text)
    return text


def plain(text: str) -> str:
    """A text in its normal form: lower-case words and numbers with a space between them."""
    return " ".join(_PART.findall(_readable(text).casefold()))


_KIN = [{plain(name) for name in kin} for kin in KIN]


@lru_cache(maxsize=4096)
def author_names(model: str, display_name: str = "", maker: str = "", aliases: tuple[str, ...] = ()) -> AuthorNames:
    """The names that would tell who wrote an answer."""
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
    """The first name in an answer that tells its author; without one, the first that may; None without either."""
    seen = _readable(text)
    lowered = seen.casefold()
    letters = _letters(lowered)
    for wanted, telling in ((names.telling, True), (names.doubtful, False)):
        present = {one: name for name in wanted if (one := _letters(name)) in letters}
        asked = f" {plain(prompt)} " if present else ""
        for result in _pattern(tuple(present.values()), telling).finditer(lowered) if present else ():
            name = present[_letters(result[1])]
            if f" {name} " not in asked and f" {name}s " not in asked:
                start, end = max(result.start() - AROUND, 0), result.end() + AROUND
                name, phrase = seen[result.start(1) : result.end(1)], " ".join(seen[start:end].split())
                return Naming(unicodedata.normalize("NFC", name), unicodedata.normalize("NFC", phrase), telling)
    return None


def _letters(text: str) -> str:
    return _SEPARATOR.sub("", text)


@lru_cache(maxsize=1024)
def _pattern(names: tuple[str, ...], telling: bool) -> re.Pattern[str]:
    """Any of these names as a whole word, with an s or without. Scripts without spaces have no whole words."""
    longest_first = sorted(names, key=lambda name: (-len(name), name))
    options = [_spread(name, telling) + _NO_DIGIT * name[-1].isdigit() for name in longest_first]
    return re.compile(rf"(?<![{_LATIN}])({'|'.join(options)})s?(?![{_LATIN}])")


def _spread(name: str, telling: bool) -> str:
    """A name with anything that is no letter between its words, and marks within those that tell: `kes**trel`."""
    inside = "" if not telling else _BETWEEN if len(_letters(name)) >= LONG_NAME else _INSIDE
    return _BETWEEN.join(inside.join(word) for word in name.split())
