"""The writer's commands and their results. `Arena.submit` takes commands, `arena/writer.py` runs them.

When it is created, a command checks what can be checked without the database. The rules of `voting` then decide what it
does to a matchup, and `check_events` what may be appended by hand.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, Literal, Protocol, TypeVar

import msgspec

from tiltyard.arena import events as e
from tiltyard.arena import reasons, voting
from tiltyard.arena.policy import PHASES
from tiltyard.arena.public_rows import has_control_character
from tiltyard.arena.state import ArenaState
from tiltyard.arena.store.files import CleanFile
from tiltyard.arena.store.visitors import Quota
from tiltyard.arena.voting import Ballot, Decision
from tiltyard.bank import AnswerKind
from tiltyard.errors import ArenaError

R = TypeVar("R")

SAFE_ID = re.compile(r"[A-Za-z0-9_.:-]{1,200}\Z")
"""Keys of voters and matchups: anything else is refused before it reaches the database."""

MOST_CHARACTERS = 1_000_000
"""In one text: a browser shows both of a matchup, and every process keeps many in memory."""

UNRENDERED = ("A", "B", "AB")
"""Which answers a voter may say could not be shown."""

TEXT_IS_SHOWN = "the answers of this matchup are texts, which can always be shown. Vote A, B, TIE or BOTH_BAD."

NAMES_LATER = "this review shows who wrote the answers when it is closed."
REVIEW_OVER = "this review is closed. Thank you; there is nothing more to do."
NO_SUCH_MATCHUP = "there is no such matchup for this voter. Ask for one."


class Mailbox(Protocol):
    """Receives finished commands. Called in the writing thread, once for all commands of a group."""

    def take(self, done: Sequence[Command[Any]]) -> None:
        """Notify those who wait for these."""
        ...


class Command(Generic[R]):
    """One request to the writer. Running it sets an answer or an error, valid once the group is committed.

    Running it uses its `quotas`; if one is exhausted, the command is refused. `block` names the address block that it
    comes from, and `block_key`, which is set before it runs, is what stands for that block in the log.
    """

    def __init__(self, quotas: Sequence[Quota] = (), block: str = "") -> None:
        self.quotas = quotas
        self.block = block
        self.block_key = ""
        self.mailbox: Mailbox | None = None
        self.needs_cookie = False
        """Whether its voter must hold a cookie: a site's visitors do, callers from Python need none."""
        self.deadline: float | None = None
        """The time (`time.monotonic`) after which it is refused instead of run."""
        self._answer: R | None = None
        self._error: BaseException | None = None

    def answer(self, answer: R) -> None:
        """Set what the caller gets if the commit succeeds."""
        self._answer = answer

    def refuse(self, error: BaseException) -> None:
        """Set what the caller's `result` raises if the commit succeeds."""
        self._error = error

    @property
    def refused(self) -> bool:
        """Whether it was refused: there is nothing more to do."""
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


class EnterVoter(Command[str]):
    """Find the random key of the visitor with this cookie, or create one. Only a first visit uses the quotas.

    `invitation` is the stored name of the invitation that the visitor brings, if any.
    """

    def __init__(self, cookie_hash: str, quotas: Sequence[Quota] = (), *, invitation: str = "") -> None:
        super().__init__(quotas)
        check_voter(cookie_hash)
        self.cookie_hash = cookie_hash
        self.invitation = invitation


class ServeMatchup(Command[ServedMatchup]):
    """Choose a matchup for this voter, and record it before it is shown.

    A voter who has `open_at_most` matchups open gets the latest of them again; 0: any number may be open.
    """

    def __init__(self, voter: str, quotas: Sequence[Quota] = (), *, block: str = "", open_at_most: int = 0) -> None:
        super().__init__(quotas, block)
        check_voter(voter)
        self.voter = voter
        self.open_at_most = open_at_most


class MatchupCommand(Command[R]):
    """Do something with a matchup that was served to this voter."""

    def __init__(self, matchup_id: str, voter: str, quotas: Sequence[Quota] = (), *, block: str = "") -> None:
        super().__init__(quotas, block)
        if not SAFE_ID.match(matchup_id) or not SAFE_ID.match(voter):
            raise voting.NotYours(NO_SUCH_MATCHUP)
        self.matchup_id = matchup_id
        self.voter = voter

    def decide(self, ballot: Ballot, now: int, state: ArenaState) -> Decision:
        """What happens to the matchup: a decision of the rules in `voting`."""
        raise NotImplementedError

    def reply(self, ballot: Ballot, now: int, state: ArenaState) -> R:
        """What to tell the voter, given the resulting matchup."""
        raise NotImplementedError


class _WithReceipt(MatchupCommand[Receipt]):
    """A command whose answer names the models, unless the vote can still be undone."""

    def reply(self, ballot: Ballot, now: int, state: ArenaState) -> Receipt:
        assert ballot.choice is not None
        is_over = state.review is not None and state.review.closed
        if not is_over and not voting.shows_names(ballot.status, ballot.undo_until, now):
            return Receipt(matchup_id=ballot.id, choice=ballot.choice, undo_until=ballot.undo_until)
        a, b = state.catalog.models[ballot.a], state.catalog.models[ballot.b]
        names = Names(model_a=a.model, model_b=b.model, display_a=a.display_name, display_b=b.display_name)
        return Receipt(matchup_id=ballot.id, choice=ballot.choice, names=names)


class _WithoutReply(MatchupCommand[None]):
    """A command without a result: it is done or refused."""

    def reply(self, ballot: Ballot, now: int, state: ArenaState) -> None:  # noqa: ARG002
        return None


class SubmitVote(_WithReceipt):
    """Vote. Without `reveal` the names are held back while the vote can be undone.

    Instead of a choice, `unrendered` says which answers could not be shown; the policy decides what that counts as.
    """

    def __init__(
        self,
        matchup_id: str,
        voter: str,
        choice: e.Choice | None,
        quotas: Sequence[Quota] = (),
        *,
        reveal: bool = True,
        block: str = "",
        unrendered: str = "",
    ) -> None:
        super().__init__(matchup_id, voter, quotas, block=block)
        if (choice is None) != (unrendered in UNRENDERED):
            raise voting.NothingToRender(
                "a vote says either a choice (A, B, TIE or BOTH_BAD) or which answers could not be shown (A, B or AB)."
            )
        self.choice = choice
        self.reveal = reveal
        self.unrendered = unrendered

    def decide(self, ballot: Ballot, now: int, state: ArenaState) -> Decision:
        """Count the vote, or refuse it. In a review names are held back, whatever was asked for."""
        if (over := _review_is_over(ballot, state)) is not None:
            return over
        reveal = self.reveal and not (state.review is not None and state.review.holds_names)
        seconds, block, choice = state.policy.undo_seconds, self.block_key, self.choice
        if choice is None:
            if state.catalog.kind(ballot.prompt) == AnswerKind.TEXT:
                return voting.Decision(ballot, refusal=voting.NothingToRender(TEXT_IS_SHOWN))
            choice = voting.choice_if_unrendered(self.unrendered, state.policy.bank.unrendered_counts)
        return voting.vote(
            ballot, choice, now, reveal=reveal, undo_seconds=seconds, block=block, unrendered=self.unrendered
        )


class RevealNames(_WithReceipt):
    """Show the names of a vote, which is final from then on."""

    def decide(self, ballot: Ballot, now: int, state: ArenaState) -> Decision:
        """Make the vote final, unless a review holds its names back."""
        if state.review is not None and state.review.holds_names:
            return voting.Decision(ballot, refusal=voting.NoVote(NAMES_LATER))
        return voting.reveal(ballot, now)


class SkipMatchup(_WithoutReply):
    """Skip a matchup."""

    def decide(self, ballot: Ballot, now: int, state: ArenaState) -> Decision:
        """Close the matchup without a vote."""
        return _review_is_over(ballot, state) or voting.skip(ballot, now)


class UndoVote(_WithoutReply):
    """Undo a recent vote whose names were held back."""

    def decide(self, ballot: Ballot, now: int, state: ArenaState) -> Decision:
        """Undo the vote, or refuse."""
        return _review_is_over(ballot, state) or voting.undo(ballot, now)


class ReportAnswer(_WithoutReply):
    """Report one answer of a matchup to the operator; a second report of the same answer is not kept."""

    def __init__(
        self, matchup_id: str, voter: str, side: Literal["A", "B"], reason: str, quotas: Sequence[Quota] = ()
    ) -> None:
        super().__init__(matchup_id, voter, quotas)
        self.side = side
        self.reason = reason

    def decide(self, ballot: Ballot, now: int, state: ArenaState) -> Decision:  # noqa: ARG002
        """Leave the matchup as it is."""
        return voting.Decision(ballot)


class ExplainVote(_WithoutReply):
    """Say why one voted so: with tags of the policy, and with a comment, which is kept outside the log."""

    def __init__(
        self, matchup_id: str, voter: str, tags: Sequence[str], comment: str, quotas: Sequence[Quota] = ()
    ) -> None:
        super().__init__(matchup_id, voter, quotas)
        self.tags = tuple(tags)
        self.comment = comment

    def decide(self, ballot: Ballot, now: int, state: ArenaState) -> Decision:
        """Note the reasons, or refuse them."""
        if (over := _review_is_over(ballot, state)) is not None:
            return over
        try:
            tags = reasons.checked_tags(self.tags, state.policy.ballot)
            self.comment = reasons.checked_comment(self.comment, state.policy.ballot)
        except reasons.BadReason as refusal:
            return voting.Decision(ballot, refusal=refusal)
        return voting.explain(ballot, tags, self.comment, now, in_review=state.review is not None)


def _review_is_over(ballot: Ballot, state: ArenaState) -> Decision | None:
    if state.review is None or not state.review.closed:
        return None
    return voting.Decision(ballot, refusal=voting.ReviewClosed(REVIEW_OVER))


class CloseExpired(Command[int]):
    """Close the matchups that were not voted on in time; the result is their number."""

    def __init__(self, now: int) -> None:
        super().__init__()
        self.now = now


class AppendEvents(Command[None]):
    """Append these events, and keep the files that their answers name: all of them, or none."""

    def __init__(self, bodies: Sequence[e.AnyBody], files: Sequence[CleanFile] = ()) -> None:
        super().__init__()
        self.bodies = bodies
        self.files = files


class ImportVotes(Command[None]):
    """Append matchups and votes from elsewhere, in an arena in which exactly `before` such votes are, and no others."""

    def __init__(self, events: Sequence[e.Event], before: int) -> None:
        super().__init__()
        self.events = events
        self.before = before


class ProbeWriter(Command[int]):
    """Commit a dummy write, to find out whether votes could be written; the result is the log's length."""


class ReadState(Command[R]):
    """Call a function with the state, after the writes of its group are committed."""

    def __init__(self, look: Callable[[ArenaState], R]) -> None:
        super().__init__()
        self.look = look


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
    gone = state.catalog.erased_prompts
    for body in bodies:
        if type(body) in e.OF_MATCHUPS or isinstance(body, e.Explained | e.Erased):
            name = type(body).__name__
            raise ArenaError(f"{name} is not written by hand: serve, vote, reveal, skip, undo, explain, erase instead.")
        check_content(body)
        match body:
            case e.ModelAdded():
                models.add(body.model)
            case e.PromptAdded() | e.PromptEnabled() | e.PromptReserved() if body.prompt_id in gone:
                raise ArenaError(f"prompt {body.prompt_id!r} was erased. Give what is asked now a new id.")
            case e.PromptAdded():
                prompts.add(body.prompt_id)
            case e.ReviewSet() if state.review is not None and state.review.closed:
                raise voting.ReviewClosed(REVIEW_OVER)
            case e.Excluded() | e.Restored():
                _check_votes_exist(body.matchup_ids, state)
        if isinstance(body, e.ResponseEnabled | e.ResponseDisabled | e.ResponseWithdrawn):
            _check_answer(body, state)
        if isinstance(body, e.ResponseAdded | e.ModelEnabled | e.ModelDisabled) and body.model not in models:
            state.catalog.model(body.model)
        if isinstance(body, ABOUT_A_PROMPT) and body.prompt_id not in prompts:
            state.catalog.prompt(body.prompt_id)
        if isinstance(body, e.ResponseAdded):
            there = kinds.setdefault(body.prompt_id, state.catalog.kind_there(body.prompt_id) or body.answer_kind)
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
            facts = (body.model, body.display_name, body.provider, body.licence, body.link)
            _check_texts(f"model {body.model!r}", *facts)
            _check_seen(f"model {body.model!r}", facts)
        case e.PromptAdded():
            what = f"prompt {body.prompt_id!r}"
            _check_texts(what, body.prompt_id, body.text, body.subject or "", body.language, *body.tags)
            _check_id(what, body.prompt_id)
        case e.ResponseAdded():
            what = f"response {body.response_id!r}, of {body.model!r} to {body.prompt_id!r},"
            _check_texts(what, body.response_id, body.text)
            _check_id(what, body.response_id)
            _check_kind(body)


def _check_kind(body: e.ResponseAdded) -> None:
    if body.answer_kind not in set(AnswerKind):
        raise ArenaError(
            f"response {body.response_id!r} is of kind {body.answer_kind!r}: {', '.join(AnswerKind)} exist."
        )
    if bool(body.file) == (body.answer_kind == AnswerKind.TEXT):
        needs = "is a text and names a file" if body.file else f"is of kind {body.answer_kind} and names no file"
        raise ArenaError(f"response {body.response_id!r} {needs}. A text has none, everything else has one.")


def _check_votes_exist(matchup_ids: tuple[str, ...], state: ArenaState) -> None:
    known = {vote.matchup_id for vote in state.votes.find(matchup_ids)}
    missing = [name for name in matchup_ids if name not in known]
    if missing:
        raise ArenaError(f"{len(missing)} of {len(matchup_ids)} matchups have no vote, such as {missing[0]!r}.")


def _check_answer(body: e.ResponseEnabled | e.ResponseDisabled | e.ResponseWithdrawn, state: ArenaState) -> None:
    response_id, catalog = body.response_id, state.catalog
    if response_id in catalog.withdrawn:
        raise ArenaError(f"answer {response_id[:40]!r} was withdrawn or erased, and stays so. Import another one.")
    if response_id not in (catalog.answers if isinstance(body, e.ResponseWithdrawn) else catalog.response_ids.values()):
        raise ArenaError(f"there is no current answer {response_id[:40]!r} in this arena. Check the id.")


def _check_seen(what: str, texts: Iterable[str]) -> None:
    """Refuse letters that change what is around them without being seen: a name could look like another's."""
    for letter in "".join(texts):
        if unicodedata.category(letter) in UNSEEN:
            raise ArenaError(f"{what} has a control character (U+{ord(letter):04X}) in what is shown of it. Remove it.")


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
