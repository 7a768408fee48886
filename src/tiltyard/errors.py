"""The one error family of Tiltyard.

TiltyardError
├── BattleError              a battle file or row cannot be used as it is
│   ├── BadRow               one row is wrong: says file, line, value and what to do
│   └── NoBattles            nothing is left to rate
├── ScoreError               a file of scores cannot be used as it is
├── RatingError              the battles are fine but cannot be rated as asked
│   ├── NotConnected         groups of models never met: names the islands
│   ├── NotConverged         an iteration ended without an answer
│   └── TooLarge             the board would need more memory than there is
├── BankError                a prompt bank or response file cannot be used as it is
├── ConfigError              a tournament's settings are missing or wrong
├── JudgingError             a rubric, verdict cache or judge cannot be used as it is
├── ModelError               a language model could not be asked
│   ├── TryLater             it may answer later: rate limit, overload, lost connection
│   ├── Refused              it will not: wrong key, wrong model, an account that cannot pay
│   │   └── QuestionRefused  it will not answer this one question: malformed, too long, against its policy
│   └── BudgetReached        asking on would cost more than allowed
├── ArenaError               the live arena cannot do what was asked, given its log; those of voters are in
│   │                        `arena.voting`: NotYours, ChoiceDiffers, TooLate, Gone, NoVote, NotInvited,
│   │                        TooBusy, TooMany
│   └── StoreError           its database cannot be used: missing, locked, full, of another version
├── RunFolderError           a run folder lacks a file, or one of its files is torn
├── OptionError              an option, or a combination of options, makes no sense
└── MissingExtra             an optional part is not installed: says which command installs it

Every message says what happened, where, and what to do next, in one line (a ConfigError may list several problems, a
line each). The command line prints that line and exits
with 1; it never shows a traceback for one of these.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple


class OptionValue(NamedTuple):
    """An option with a value, as a part of a message: each front end spells it in its own way.

    Without a value any is meant; with None only the option is named.
    """

    option: str
    value: Any = ...

    def __str__(self) -> str:
        if self.value is None:
            return f"`{self.option}`"
        if self.value is ...:
            return f"{self.option}=..."
        if isinstance(self.value, str) and '"' not in self.value:
            return f'{self.option}="{self.value}"'
        if isinstance(self.value, dict):
            pairs = (f'"{ours}": "{theirs}"' for ours, theirs in self.value.items())
            return f"{self.option}={{{', '.join(pairs)}}}"
        return f"{self.option}={self.value!r}"


class Message(str):
    """A text in parts, some of which are options with values; as it is, options are spelled as in Python."""

    __slots__ = ("parts",)
    parts: tuple[str | OptionValue, ...]

    def __new__(cls, *parts: str | OptionValue) -> Message:
        """The text, which keeps its parts."""
        message = super().__new__(cls, "".join(map(str, parts)))
        message.parts = parts
        return message

    def spelled(self, spell: Callable[[OptionValue], str]) -> str:
        """The text with its options as a front end spells them."""
        return "".join(spell(part) if isinstance(part, OptionValue) else part for part in self.parts)


class TiltyardError(Exception):
    """Something a user can understand and act on: a message in parts, some of which are options with values."""

    def __init__(self, *parts: str | OptionValue) -> None:
        super().__init__(*parts)

    def __str__(self) -> str:
        return self.spelled(str)

    def spelled(self, spell: Callable[[OptionValue], str]) -> str:
        """The message with its options as a front end spells them."""
        return "".join(spell(part) if isinstance(part, OptionValue) else str(part) for part in self.args)


class BattleError(TiltyardError):
    """A battle file or row cannot be used as it is."""


class BadRow(BattleError):
    """One row is wrong.

    `reason` is a short name for counting (`unknown winner`), `where` is `file:line`, `detail` says what the row holds.
    """

    def __init__(self, reason: str, where: str, detail: str, *advice: str | OptionValue) -> None:
        super().__init__(f"{where}: {reason}: {detail}. ", *advice)
        self.reason = reason
        self.where = where
        self.detail = detail


class NoBattles(BattleError):
    """Nothing is left to rate."""


class ScoreError(TiltyardError):
    """A file of scores cannot be used as it is."""


class RatingError(TiltyardError):
    """The battles are fine but cannot be rated as asked."""


class NotConnected(RatingError):
    """Groups of models never met, so nothing compares them."""

    def __init__(self, islands: list[list[str]], *message: str | OptionValue) -> None:
        super().__init__(*message)
        self.islands = islands


class NotConverged(RatingError):
    """An iteration ended without an answer."""


class TooLarge(RatingError):
    """The board would need more memory than there is."""

    def __init__(self, why: str, *advice: str | OptionValue) -> None:
        super().__init__(f"{why}. ", *advice)


class BankError(TiltyardError):
    """A prompt bank or response file cannot be used as it is."""


class ConfigError(TiltyardError):
    """A tournament's settings are missing or wrong; several `problems` are a list, each on a line of its own."""

    def __init__(self, message: str, problems: Iterable[object] = ()) -> None:
        super().__init__("\n  - ".join(str(line).replace("\n", "\\n") for line in (message, *problems)))


class JudgingError(TiltyardError):
    """A rubric, verdict cache or judge cannot be used as it is."""


class ModelError(TiltyardError):
    """A language model could not be asked."""


class TryLater(ModelError):
    """It may answer later: rate limit, overload, lost connection.

    `retry_after` is the provider's own word on when, in seconds. `damaged` says that an answer came, and was
    paid for, but was cut off or garbled on its way: fewer requests at once would not help. `unreachable` says that
    nobody was there to be asked: a closed port, an unknown host. `timed_out` says that no whole answer came in time,
    though it may have been paid for.
    """

    def __init__(
        self,
        message: str,
        retry_after: float | None = None,
        *,
        damaged: bool = False,
        unreachable: bool = False,
        timed_out: bool = False,
    ) -> None:
        super().__init__(message)
        self.timed_out = timed_out
        self.retry_after = retry_after
        self.damaged = damaged
        self.unreachable = unreachable


class Refused(ModelError):
    """It will not answer: wrong key, wrong model, an account that cannot pay."""


class QuestionRefused(Refused):
    """It will not answer this one question: malformed, too long, against its policy. Others may go well.

    `name` is what the provider calls it (`invalid_request_error`), `words` is what it says about it. `paid` says that
    it was answered and paid for, with something that cannot be used.
    """

    def __init__(self, message: str, name: str, words: str, *, paid: bool = False) -> None:
        super().__init__(message)
        self.paid = paid
        self.name = name
        self.words = words


class BudgetReached(ModelError):
    """Asking on would cost more than allowed."""


class RunFolderError(TiltyardError):
    """A run folder lacks a file, or one of its files is torn."""


class OptionError(TiltyardError):
    """An option, or a combination of options, makes no sense."""


class MissingExtra(TiltyardError):
    """An optional part is not installed."""

    def __init__(self, what: str, extra: str, then: str = "") -> None:
        super().__init__(
            f"{what} needs the [{extra}] extra. In the folder of your clone: pip install '.[{extra}]'{then}"
        )


class ArenaError(TiltyardError):
    """The live arena cannot do what was asked, given its log."""


class StoreError(ArenaError):
    """The arena's database cannot be used: missing, locked, full, of another version."""
