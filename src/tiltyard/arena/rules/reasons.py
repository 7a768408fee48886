"""Why people voted as they did: tags that they may tap and a comment that they may write, after the vote.

Tags are in the log and public with their vote. A comment may say something about a person, and a log that only grows
cannot forget it: the event holds a salted digest, and text and salt are in a table outside the chain. When they are
deleted, nothing can be guessed from the digest.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from tiltyard.errors import ArenaError, OptionError

TAGS_MOST = 12
TAG_CHARACTERS = 40
COMMENT_MOST = 2_000
CHANGES_PER_VOTE = 12
"""How often one vote may be explained anew: the last explanation holds."""

DEFAULT_TAGS = (
    *("more correct", "clearer", "better style", "follows instructions", "more complete", "more creative", "safer"),
)


class BadReason(ArenaError):
    """A reason that the arena does not offer, or a comment that is too long."""


class BallotRules(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the vote page asks of a voter before the vote, and offers after it."""

    long_words: int = 500
    """From this many words on, an answer has to be opened or scrolled to its end before the page takes a vote. Without
    JavaScript voting is always possible. 0: never. (ours)"""
    reasons: tuple[str, ...] = DEFAULT_TAGS
    """The reasons that a voter may tap after the vote. Empty: none are asked for. (ours)"""
    comment_characters: int = 500
    """How long the comment on a vote may be. 0: no comments. (ours)"""

    def __post_init__(self) -> None:
        if not 0 <= self.comment_characters <= COMMENT_MOST:
            raise OptionError(
                f"policy: ballot.comment_characters is {self.comment_characters}; it must lie between 0 and "
                f"{COMMENT_MOST:,}."
            )
        if len(self.reasons) > TAGS_MOST or len(set(self.reasons)) < len(self.reasons):
            raise OptionError(f"policy: ballot.reasons must be at most {TAGS_MOST} different texts.")
        for tag in self.reasons:
            if not 0 < len(tag) <= TAG_CHARACTERS or tag != tag.strip() or not tag.isprintable():
                raise OptionError(
                    f"policy: ballot.reasons has {tag!r}; a reason is a short text of at most {TAG_CHARACTERS} "
                    "printable characters."
                )


def checked_tags(tags: Iterable[str], rules: BallotRules) -> tuple[str, ...]:
    """The tags of a vote in the policy's order; one that is not offered is refused."""
    asked = set(tags)
    unknown = sorted(asked - set(rules.reasons))
    if unknown:
        raise BadReason(f"{unknown[0][:TAG_CHARACTERS]!r} is no reason of this arena: {', '.join(rules.reasons)} are.")
    return tuple(tag for tag in rules.reasons if tag in asked)


def checked_comment(comment: str, rules: BallotRules) -> str:
    """A comment in one line, without invisible characters; one that is too long is refused."""
    visible = (" " if unicodedata.category(letter)[0] == "C" else letter for letter in comment)
    written = " ".join("".join(visible).split())
    if len(written) > rules.comment_characters:
        raise BadReason(
            f"the comment has {len(written):,} characters; {rules.comment_characters:,} are possible. Shorten it."
        )
    return written


class ModelReasons(msgspec.Struct, frozen=True, kw_only=True):
    """How often each reason was given for preferring a model, and for preferring the other one."""

    for_it: tuple[tuple[str, int], ...]
    against_it: tuple[tuple[str, int], ...]

    def __bool__(self) -> bool:
        return bool(self.for_it or self.against_it)


def reasons_of_models(explained: Iterable[tuple[str, str, str, Sequence[str]]]) -> Mapping[str, ModelReasons]:
    """The reasons for and against every model, the most frequent first.

    What is given is, of every counted vote with reasons, the models on sides A and B, the choice, and the tags. Only
    decisive votes say of which model a reason speaks.
    """
    given: dict[str, tuple[Counter[str], Counter[str]]] = {}
    for model_a, model_b, choice, tags in explained:
        if choice not in ("A", "B"):
            continue
        winner, loser = (model_a, model_b) if choice == "A" else (model_b, model_a)
        given.setdefault(winner, (Counter(), Counter()))[0].update(tags)
        given.setdefault(loser, (Counter(), Counter()))[1].update(tags)
    result = {}
    for model, counts in given.items():
        for_it, against_it = (tuple(sorted(n.items(), key=lambda pair: (-pair[1], pair[0]))) for n in counts)
        result[model] = ModelReasons(for_it=for_it, against_it=against_it)
    return result
