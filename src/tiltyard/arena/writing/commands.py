"""The writer's commands and their results. `Arena.submit` takes commands, `arena/writer.py` runs them.

When it is created, a command checks what can be checked without the database. The rules of `voting` then decide what it
does to a matchup, and `check_events` what may be appended by hand.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, Literal, Protocol, TypeVar

import msgspec

from tiltyard.arena.rules import events as e
from tiltyard.arena.rules import reasons, voting
from tiltyard.arena.rules.policy import PHASES
from tiltyard.arena.rules.public_rows import has_control_character
from tiltyard.arena.rules.state import ArenaState
from tiltyard.arena.rules.voting import Ballot, Decision
from tiltyard.arena.store.files import CleanFile
from tiltyard.arena.store.visitors import Quota
from tiltyard.data.bank import AnswerKind
from tiltyard.errors import ArenaError

R = TypeVar("R")

SAFE_ID = re.compile(r"[A-Za-z0-9_.:-]{1,200}\Z")
"""Keys of voters and matchups: anything else is refused before it reaches the database."""

MOST_CHARACTERS = 1_000_000
"""In one text: a browser shows both of a matchup, and every process keeps many in memory."""

UNRENDERED = ("A", "B", "AB")
"""Which answers a voter may say could not be shown."""

TEXT_IS_SHOWN = "the answers of this matchup are texts, which can always be shown. Vote A, B, TIE or BOTH_BAD."

NO_SUCH_MATCHUP = "there is no such matchup for this voter. Ask for one."


class Mailbox(Protocol):
    """Receives finished commands. Called in the writing thread, once for all commands of a group."""

    def take(self, done: Sequence[Command[Any]]) -> None: ...


@dataclass(eq=False, repr=False, kw_only=True)
class Command(Generic[R]):
    """One request to the writer. Running it sets an answer or an error, valid once the group is committed.

    Running it uses its `quotas`; if one is exhausted, the command is refused. `block` names the address block that it
    comes from, and `block_key`, which is set before it runs, is what stands for that block in the log.
    """

    quotas: Sequence[Quota] = ()
    block: str = ""
    block_key: str = field(default="", init=False)
    mailbox: Mailbox | None = field(default=None, init=False)
    needs_cookie: bool = field(default=False, init=False)
    """Whether its voter must hold a cookie: a site's visitors do, callers from Python need none."""
    deadline: float | None = field(default=None, init=False)
    """The time (`time.monotonic`) after which it is refused instead of run."""
    _answer: R | None = field(default=None, init=False)
    _error: BaseException | None = field(default=None, init=False)

    def answer(self, answer: R) -> None:
        """Set what the caller gets if the commit succeeds."""
        self._answer = answer

    def refuse(self, error: BaseException) -> None:
        """Set what the caller's `result` raises if the commit succeeds."""
        self._error = error

    @property
    def refused(self) -> bool:
        return self._error is not None

    def reset(self) -> None:
        """Clear answer and error: the group will run again."""
        self._answer, self._error = None, None

    def result(self) -> R:
        """Return the answer, or raise the error. Valid once the mailbox has the command back."""
        if self._error is not None:
            raise self._error
        return self._answer  # type: ignore[return-value]


class ServedMatchup(msgspec.Struct, frozen=True, kw_only=True):
    """What a voter is shown, without anything that reveals who wrote it."""

    matchup_id: str
    prompt: str
    response_a: str
    response_b: str
    expires_at: int
    kind: str = AnswerKind.TEXT.value
    """What both answers are. Of files, `response_a` and `response_b` are descriptions."""
    again: bool = False
    """Whether it was open already."""


class Names(msgspec.Struct, frozen=True, kw_only=True):
    """Who wrote the two answers."""

    model_a: str
    model_b: str
    display_a: str
    display_b: str


class Receipt(msgspec.Struct, frozen=True, kw_only=True):
    """What a voter is told once the vote is committed: the names, or until when the vote can be undone."""

    matchup_id: str
    choice: e.Choice
    names: Names | None = None
    undo_until: int | None = None


@dataclass(eq=False, repr=False)
class EnterVoter(Command[str]):
    """Find the random key of the visitor with this cookie, or create one. Only a first visit uses the quotas.

    `invitation` is the stored name of the invitation that the visitor brings, if any.
    """

    cookie_hash: str
    invitation: str = ""

    def __post_init__(self) -> None:
        check_voter(self.cookie_hash)


@dataclass(eq=False, repr=False)
class ServeMatchup(Command[ServedMatchup]):
    """Choose a matchup for this voter, and record it before it is shown.

    A voter who has `open_at_most` matchups open gets the latest of them again; 0: any number may be open.
    """

    voter: str
    open_at_most: int = 0

    def __post_init__(self) -> None:
        check_voter(self.voter)


@dataclass(eq=False, repr=False)
class MatchupCommand(Command[R]):
    """Do something with a matchup that was served to this voter."""

    after_end: ClassVar[bool] = False
    """Whether it is still possible when nothing is voted on any more."""

    matchup_id: str
    voter: str

    def __post_init__(self) -> None:
        if not SAFE_ID.match(self.matchup_id) or not SAFE_ID.match(self.voter):
            raise voting.NotYours(NO_SUCH_MATCHUP)

    def decide(self, ballot: Ballot, now: int, state: ArenaState) -> Decision:
        """What happens to the matchup: a decision of the rules in `voting`."""
        if (over := state.voting.over) is not None and not self.after_end:
            return Decision(ballot, refusal=over)
        return self._decide(ballot, now, state)

    def _decide(self, ballot: Ballot, now: int, state: ArenaState) -> Decision:
        raise NotImplementedError

    def reply(self, ballot: Ballot, now: int, state: ArenaState) -> R | None:  # noqa: ARG002
        """What the caller gets if it is done."""
        return None


class _WithReceipt(MatchupCommand[Receipt]):
    """A command whose answer names the models, unless the vote can still be undone."""

    def reply(self, ballot: Ballot, now: int, state: ArenaState) -> Receipt:
        assert ballot.choice is not None
        if not voting.shows_names(ballot.status, ballot.undo_until, now):
            return Receipt(matchup_id=ballot.id, choice=ballot.choice, undo_until=ballot.undo_until)
        a, b = state.catalog.models[ballot.a], state.catalog.models[ballot.b]
        names = Names(model_a=a.model, model_b=b.model, display_a=a.display_name, display_b=b.display_name)
        return Receipt(matchup_id=ballot.id, choice=ballot.choice, names=names)


@dataclass(eq=False, repr=False)
class SubmitVote(_WithReceipt):
    """Vote. Without `reveal` the names are held back while the vote can be undone.

    Instead of a choice, `unrendered` says which answers could not be shown; the policy decides what that counts as.
    """

    choice: e.Choice | None
    reveal: bool = True
    unrendered: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.choice is None) != (self.unrendered in UNRENDERED):
            raise voting.NothingToRender(
                "a vote says either a choice (A, B, TIE or BOTH_BAD) or which answers could not be shown (A, B or AB)."
            )

    def _decide(self, ballot: Ballot, now: int, state: ArenaState) -> Decision:
        choice = self.choice
        if choice is None:
            if state.catalog.kind(ballot.prompt) == AnswerKind.TEXT:
                return Decision(ballot, refusal=voting.NothingToRender(TEXT_IS_SHOWN))
            choice = voting.choice_if_unrendered(self.unrendered, state.policy.bank.unrendered_counts)
        return voting.vote(
            ballot,
            choice,
            now,
            reveal=self.reveal and state.voting.names_later is None,
            undo_seconds=state.policy.undo_seconds,
            block=self.block_key,
            unrendered=self.unrendered,
        )


class RevealNames(_WithReceipt):
    """Show the names of a vote, which is final from then on."""

    after_end = True

    def _decide(self, ballot: Ballot, now: int, state: ArenaState) -> Decision:
        later = state.voting.names_later
        return voting.reveal(ballot, now) if later is None else Decision(ballot, refusal=later)


class SkipMatchup(MatchupCommand[None]):
    """Skip a matchup."""

    def _decide(self, ballot: Ballot, now: int, state: ArenaState) -> Decision:  # noqa: ARG002
        return voting.skip(ballot, now)


class UndoVote(MatchupCommand[None]):
    """Undo a recent vote whose names were held back."""

    def _decide(self, ballot: Ballot, now: int, state: ArenaState) -> Decision:  # noqa: ARG002
        return voting.undo(ballot, now)


@dataclass(eq=False, repr=False)
class ReportAnswer(MatchupCommand[None]):
    """Report one answer of a matchup to the operator; a second report of the same answer is not kept."""

    side: Literal["A", "B"]
    reason: str

    after_end = True

    def _decide(self, ballot: Ballot, now: int, state: ArenaState) -> Decision:  # noqa: ARG002
        return Decision(ballot)


@dataclass(eq=False, repr=False)
class ExplainVote(MatchupCommand[None]):
    """Say why one voted so: with tags of the policy, and with a comment, which is kept outside the log."""

    tags: Sequence[str]
    comment: str

    def _decide(self, ballot: Ballot, now: int, state: ArenaState) -> Decision:
        try:
            tags = reasons.checked_tags(self.tags, state.policy.ballot)
            self.comment = reasons.checked_comment(self.comment, state.policy.ballot)
        except reasons.BadReason as refusal:
            return Decision(ballot, refusal=refusal)
        return voting.explain(ballot, tags, self.comment, now, state.voting)


@dataclass(eq=False, repr=False)
class CloseExpired(Command[int]):
    """Close the matchups that were not voted on in time; the result is their number."""

    now: int


@dataclass(eq=False, repr=False)
class AppendEvents(Command[None]):
    """Append these events, and keep the files that their answers name: all of them, or none."""

    bodies: Sequence[e.AnyBody]
    files: Sequence[CleanFile] = ()


@dataclass(eq=False, repr=False)
class ImportVotes(Command[None]):
    """Append matchups and votes from elsewhere, in an arena in which exactly `before` such votes are, and no others."""

    events: Sequence[e.Event]
    before: int


class ProbeWriter(Command[int]):
    """Commit a dummy write, to find out whether votes could be written; the result is the log's length."""


@dataclass(eq=False, repr=False)
class ReadState(Command[R]):
    """Call a function with the state, after the writes of its group are committed."""

    look: Callable[[ArenaState], R]


def check_voter(name: str) -> None:
    """Refuse an invalid voter key."""
    if not SAFE_ID.match(name):
        raise voting.NotYours(f"{name[:40]!r} is not the key of a voter. Come back without the cookie.")


UNSEEN = frozenset({"Cc", "Cf", "Zl", "Zp"})
"""Unicode's categories of control characters, marks of direction and line breaks."""
ABOUT_A_PROMPT = (e.ResponseAdded, e.PromptEnabled, e.PromptDisabled, e.PromptReserved)


def check_events(bodies: Iterable[e.AnyBody], state: ArenaState) -> None:
    """Fail at the first event that may not be appended by hand; each may rely on those before it."""
    models: set[str] = set()
    prompts: set[str] = set()
    kinds: dict[str, str] = {}
    catalog = state.catalog
    for body in bodies:
        if type(body) in e.OF_MATCHUPS or isinstance(body, e.Explained | e.Erased):
            name = type(body).__name__
            raise ArenaError(f"{name} is not written by hand: serve, vote, reveal, skip, undo, explain, erase instead.")
        check_content(body)
        match body:
            case e.ModelAdded():
                models.add(body.model)
            case e.PromptAdded() | e.PromptEnabled() | e.PromptReserved() if body.prompt_id in catalog.erased_prompts:
                raise ArenaError(f"prompt {body.prompt_id!r} was erased. Give what is asked now a new id.")
            case e.PromptAdded():
                prompts.add(body.prompt_id)
            case e.ReviewSet() if (over := state.voting.over) is not None:
                raise over
            case e.Excluded() | e.Restored():
                known = {vote.matchup_id for vote in state.votes.find(body.matchup_ids)}
                missing = [name for name in body.matchup_ids if name not in known]
                if missing:
                    count = f"{len(missing)} of {len(body.matchup_ids)}"
                    raise ArenaError(f"{count} matchups have no vote, such as {missing[0]!r}.")
            case e.ResponseEnabled() | e.ResponseDisabled() | e.ResponseWithdrawn():
                name = body.response_id
                if name in catalog.withdrawn:
                    raise ArenaError(f"answer {name[:40]!r} was withdrawn or erased, and stays so. Import another one.")
                is_older = isinstance(body, e.ResponseWithdrawn) and name in catalog.answers
                if not is_older and name not in catalog.response_ids.values():
                    raise ArenaError(f"there is no current answer {name[:40]!r} in this arena. Check the id.")
        if isinstance(body, e.ResponseAdded | e.ModelEnabled | e.ModelDisabled) and body.model not in models:
            catalog.model(body.model)
        if isinstance(body, ABOUT_A_PROMPT) and body.prompt_id not in prompts:
            catalog.prompt(body.prompt_id)
        if isinstance(body, e.ResponseAdded):
            there = kinds.setdefault(body.prompt_id, catalog.kind_there(body.prompt_id) or body.answer_kind)
            if there != body.answer_kind:
                raise ArenaError(kinds_differ(body.prompt_id, there, body.answer_kind))


def kinds_differ(prompt_id: str, there: str, new: str) -> str:
    """What is wrong with an answer of another kind than those to its prompt that are there."""
    return (
        f"prompt {prompt_id!r} has answers of kind {there}, and this one is of kind {new}. "
        "Both sides of a matchup have the same kind: use another prompt_id."
    )


def check_content(body: e.AnyBody) -> None:
    """Refuse an event with a content that no arena takes, whatever is in it already."""
    match body:
        case e.PhaseChanged() if body.phase not in PHASES:
            raise ArenaError(f"there is no phase {body.phase}; the phases are 1 to {PHASES[-1]}.")
        case e.ModelAdded():
            what, facts = (
                f"model {body.model!r}",
                (body.model, body.display_name, body.provider, body.licence, body.link),
            )
            _check_texts(what, *facts)
            for letter in "".join(facts):  # one that changes what is around it unseen makes a name look like another's
                if unicodedata.category(letter) in UNSEEN:
                    shown = f"a control character (U+{ord(letter):04X}) in what is shown of it"
                    raise ArenaError(f"{what} has {shown}. Remove it.")
        case e.PromptAdded():
            what = f"prompt {body.prompt_id!r}"
            _check_texts(what, body.prompt_id, body.text, body.subject or "", body.language, *body.tags)
            _check_id(what, body.prompt_id)
        case e.ResponseAdded():
            what = f"response {body.response_id!r}, of {body.model!r} to {body.prompt_id!r},"
            _check_texts(what, body.response_id, body.text)
            _check_id(what, body.response_id)
            name, kind = body.response_id, body.answer_kind
            if kind not in set(AnswerKind):
                raise ArenaError(f"response {name!r} is of kind {kind!r}: {', '.join(AnswerKind)} exist.")
            if bool(body.file) == (kind == AnswerKind.TEXT):
                needs = "is a text and names a file" if body.file else f"is of kind {kind} and names no file"
                raise ArenaError(f"response {name!r} {needs}. A text has none, everything else has one.")


def _check_id(what: str, name: str) -> None:
    if has_control_character(name):
        raise ArenaError(f"{what} has a control character in its id. Remove it.")


def _check_texts(what: str, name: str, *texts: str) -> None:
    if not name:
        raise ArenaError(f"{what} has an empty name. Give it one.")
    for text in (name, *texts):
        if len(text) > MOST_CHARACTERS:
            raise ArenaError(
                f"{what} has a text of {len(text):,} characters, and {MOST_CHARACTERS:,} may be in one. Shorten it."
            )
        if "\x00" in text or (not text.isascii() and any("\ud800" <= letter <= "\udfff" for letter in text)):
            raise ArenaError(
                f"{what} contains a NUL character or half a surrogate pair. Remove it: it cannot be stored as text."
            )
