"""The folder of a review, and what its owner does with it: start, people, close.

- `review.json`: the items, how they were drawn, and the rules; it says who wrote what, so it is not for reviewers.
- `links.json`: real names and private links; only its owner may read it.
- `arena.db`: the arena with the answers and the log, unless that is in PostgreSQL.
"""

from __future__ import annotations

import itertools
import secrets
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import msgspec
import numpy as np

from tiltyard.arena import (
    COMMENT_MOST,
    MOST,
    Arena,
    BallotRules,
    BankRules,
    EntryRules,
    FileIntake,
    Policy,
    ReviewClosed,
    WaitingRules,
    clock,
    flag_answers,
)
from tiltyard.arena.review.assignment import ReviewChooser, ReviewLog
from tiltyard.arena.review.sources import Candidate, DrawMethod, ReviewSource, draw
from tiltyard.arena.review.until import check_until
from tiltyard.arena.rules import events as e
from tiltyard.arena.store import Store, erase_person, events_in_order, invite_person, revoke_person
from tiltyard.data.bank import AnswerKind
from tiltyard.errors import OptionError
from tiltyard.files import write_private

RECORD, LINKS, DATABASE = "review.json", "links.json", "arena.db"
LONGEST_NAME = 60
AT_ONCE = 300
"""So many items are written in one transaction."""

DEFAULT_ADDRESS = "http://127.0.0.1:8000"


class DrawnItem(msgspec.Struct, frozen=True, kw_only=True):
    """One item: a matchup, and how probable it was that it was drawn."""

    item: str
    question_id: str
    first: str
    second: str
    dimension: str = ""
    probability: float = 1.0
    place: int = 0
    """Its place among the items of its dimension, which are in random order; 0 is not known."""
    of: int = 0
    """How many matchups of its dimension there were to draw from."""


class ReviewRecord(msgspec.Struct, frozen=True, kw_only=True):
    """`review.json`."""

    items: tuple[DrawnItem, ...]
    population: int
    """How many matchups there were to draw from."""
    draw: DrawMethod
    seed: int
    source: tuple[str, ...]
    judged: str | None = None
    """The judge's battles, whose board the labels correct; None without a judge."""
    rubrics: dict[str, str] = {}
    until: str | None = None
    """What ends the review by itself: `better` or `width:W`; None is nothing."""
    db: str | None = None
    """The database; None is `arena.db` in this folder."""

    @property
    def models(self) -> set[str]:
        return {model for item in self.items for model in (item.first, item.second)}


class Person(msgspec.Struct, frozen=True, kw_only=True):
    """Somebody with a link, by the real name that only the owner of the review knows."""

    name: str
    key: str
    token: str
    adjudicator: bool = False
    active: bool = True


class Links(msgspec.Struct, frozen=True, kw_only=True):
    """`links.json`: real names and links, for nobody but the owner."""

    people: tuple[Person, ...]
    address: str = DEFAULT_ADDRESS
    """Where the review was served last."""


class Review(msgspec.Struct, frozen=True):
    """A review's folder, read."""

    folder: Path
    record: ReviewRecord
    links: Links

    @property
    def url(self) -> str:
        return self.record.db or f"sqlite:///{(self.folder / DATABASE).resolve()}"

    def arena(self) -> Arena:
        return Arena(Store.open(self.url), chooser=ReviewChooser())

    def log(self) -> ReviewLog:
        log = ReviewLog()
        with closing(Store.open(self.url)) as store:
            for event in events_in_order(store):
                log.note(event)
        return log

    def name(self, key: str) -> str:
        return next((person.name for person in self.links.people if person.key == key), key)

    def link(self, person: Person) -> str:
        return f"{self.links.address}/review/{person.token}"


def is_review(folder: Path) -> bool:
    """Whether a folder is a review's."""
    return (folder / RECORD).is_file()


def open_review(folder: Path) -> Review:
    """The review in a folder."""
    if not is_review(folder):
        raise OptionError(f"{folder} is not a review's folder. `tiltyard review start` makes one.")
    try:
        record = msgspec.json.decode((folder / RECORD).read_bytes(), type=ReviewRecord)
        links = msgspec.json.decode((folder / LINKS).read_bytes(), type=Links)
    except (OSError, msgspec.DecodeError) as error:
        raise OptionError(f"{folder} is not a whole review: {error}. Restore {RECORD} and {LINKS}.") from None
    if record.db is None and not (folder / DATABASE).is_file():
        raise OptionError(f"{folder} is not a whole review: {DATABASE}, which has the votes, is missing. Restore it.")
    return Review(folder, record, links)


def _write_private(path: Path, value: msgspec.Struct) -> None:
    write_private(path, msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n")


def start_review(
    source: ReviewSource,
    out: Path,
    people: Sequence[str],
    *,
    places: Sequence[Path],
    adjudicators: Sequence[str] = (),
    each: int = 2,
    n: int | None = None,
    draw_method: DrawMethod = "by-pair",
    seed: int = 0,
    names_after_vote: bool = False,
    until: str | None = None,
    db: str | None = None,
) -> tuple[Review, list[str]]:
    """Make a review's folder and its arena; also what its owner should know.

    `n` of the matchups of the source are drawn (None: all), and `each` of them gets so many people. Reviewers learn the
    names when the review is closed, or after each vote. `until` may end it by itself, as in `ReviewRecord`.
    """
    if is_review(out):
        raise OptionError(f"{out} is a review already. Go on with `tiltyard review serve {out}`, or give --out.")
    if db is None and (out / DATABASE).exists():
        raise OptionError(f"{out} has an {DATABASE} and is no review: a start that did not finish? Give another --out.")
    _check_people([*people, *adjudicators])
    if not 1 <= each <= len(people):
        raise OptionError(f"every item is to get {each} reviewers of {len(people)}. Name more people, or lower --each.")
    if until is not None:
        dimensions = {one.dimension for one in source.candidates}
        check_until(until, dimensions, {name for one in source.candidates for name in (one.first, one.second)})
    rng = np.random.default_rng(seed)
    drawn = draw([(one.dimension, one.first, one.second) for one in source.candidates], n, draw_method, rng)
    chosen = [source.candidates[one.place] for one in drawn]
    sizes = Counter(one.dimension for one in source.candidates)
    numbers = {dimension: itertools.count(1) for dimension in sizes}
    items = tuple(
        DrawnItem(
            item=f"item-{number:05d}",
            question_id=one.prompt_id,
            first=one.first,
            second=one.second,
            dimension=one.dimension,
            probability=drawn_one.probability,
            place=next(numbers[one.dimension]),
            of=sizes[one.dimension],
        )
        for number, (one, drawn_one) in enumerate(zip(chosen, drawn, strict=True), start=1)
    )
    record = ReviewRecord(
        items=items,
        population=len(source.candidates),
        draw=draw_method,
        seed=seed,
        source=tuple(str(place.resolve()) for place in places),
        judged=None if source.judged is None else str(source.judged.resolve()),
        rubrics=source.rubrics,
        until=until,
        db=db,
    )
    made = [
        Person(name=name, key=secrets.token_hex(8), token=secrets.token_urlsafe(18), adjudicator=number >= len(people))
        for number, name in enumerate([*people, *adjudicators])
    ]
    there = out.is_dir()
    out.mkdir(parents=True, exist_ok=True)
    review = Review(out, record, Links(people=tuple(made)))
    rules = e.ReviewSet(
        each=each,
        reviewers=tuple(person.key for person in made if not person.adjudicator),
        adjudicators=tuple(person.key for person in made if person.adjudicator),
        names="after_vote" if names_after_vote else "after_close",
        seed=seed,
    )
    try:
        with Arena(Store.create(review.url), chooser=ReviewChooser()) as arena:
            # No pair waits for anybody, nothing expires, and only people with a link get in.
            policy = Policy(
                entry=EntryRules(invitation_only=True),
                waiting=WaitingRules(pairs_wait=False),
                bank=BankRules(hide_self_naming=False),
                ballot=BallotRules(long_words=0, reasons=(), comment_characters=COMMENT_MOST),
                matchup_expires_seconds=MOST,
                undo_seconds=MOST if rules.holds_names else 0,
            )
            arena.append([e.SettingsChanged(policy=policy), e.PhaseChanged(phase=4)])
            telling = _fill(arena, items, chosen, source)
            arena.append([rules])
            for person in made:
                invite_person(arena.store, person.key, person.token, now=clock())
        _write_private(out / LINKS, review.links)
        _write_private(out / RECORD, record)
    except BaseException:
        for path in (*(out.glob(f"{DATABASE}*") if db is None else ()), out / LINKS):
            path.unlink(missing_ok=True)
        if not there and not any(out.iterdir()):
            out.rmdir()
        raise
    notes = list(source.notes)
    if telling:
        notes.append(f"{telling} answers name their author: reviewers will see it")
    return review, notes


def _check_people(names: Sequence[str]) -> None:
    if not names:
        raise OptionError("a review needs people: --people reviewer1,reviewer2")
    for name in names:
        if not name.strip() or len(name) > LONGEST_NAME or not name.isprintable():
            raise OptionError(f"{name[:LONGEST_NAME]!r} is no name: write one line of at most {LONGEST_NAME} letters.")
    twice = [name for place, name in enumerate(names) if name in names[:place]]
    if twice:
        raise OptionError(f"{twice[0]!r} is named twice. Everybody has one part in a review.")


def _fill(arena: Arena, items: Sequence[DrawnItem], chosen: Sequence[Candidate], source: ReviewSource) -> int:
    """Add models, items and answers to the arena; how many answers name their author."""
    models = dict.fromkeys(name for one in chosen for name in (one.first, one.second))
    added = {name: e.ModelAdded(model=name, display_name=name) for name in models}
    arena.append(list(added.values()))
    telling = 0
    with closing(FileIntake(Policy().media, arena.store)) as intake:
        for start in range(0, len(items), AT_ONCE):
            bodies: list[e.AnyBody] = []
            files: list[str] = []
            for item, one in zip(items[start : start + AT_ONCE], chosen[start : start + AT_ONCE], strict=True):
                bodies.append(e.PromptAdded(prompt_id=item.item, text=one.prompt, subject=item.dimension or None))
                for answer in one.answers:
                    file = ""
                    if answer.answer_kind is not AnswerKind.TEXT:
                        assert source.folder is not None
                        file = intake.take(source.folder, answer).sha256
                        files.append(file)
                    bodies.append(
                        e.ResponseAdded(
                            response_id=secrets.token_urlsafe(18),
                            model=answer.entrant_id,
                            prompt_id=item.item,
                            text=answer.response_text,
                            answer_kind=answer.answer_kind.value,
                            file=file,
                        )
                    )
                    telling += len(flag_answers([("", added[answer.entrant_id], one.prompt, answer.response_text)]))
            arena.append(bodies, intake.load(dict.fromkeys(files)))
    return telling


def change_people(
    review: Review, *, add: Sequence[str] = (), remove: Sequence[str] = (), new_link: Sequence[str] = ()
) -> Review:
    """Let people join or leave, or give somebody a new link in place of the old one. Also while the review is served.

    Whoever leaves gives the rest back, and their votes stay. Whoever comes back goes on where they were.
    """
    people = {person.name: person for person in review.links.people}
    _check_people([*add, *remove, *new_link])
    for name in [*remove, *new_link]:
        if name not in people or not people[name].active:
            there = ", ".join(person.name for person in people.values() if person.active)
            raise OptionError(f"nobody called {name!r} is in this review; there are {there}.")
    for name in add:
        if name in people and people[name].active:
            raise OptionError(f"{name!r} is in this review already. `--new-link {name}` makes another link.")
    token = secrets.token_urlsafe
    for name in remove:
        people[name] = msgspec.structs.replace(people[name], active=False)
    for name in new_link:
        people[name] = msgspec.structs.replace(people[name], token=token(18))
    for name in add:
        before = people.get(name) or Person(name=name, key=secrets.token_hex(8), token="")
        people[name] = msgspec.structs.replace(before, active=True, token=token(18))
    active = [person for person in people.values() if person.active]
    with review.arena() as arena:
        rules = _rules(arena)
        if rules.closed:
            raise OptionError(f"{review.folder} is closed: nobody joins or leaves any more.")
        reviewers = tuple(person.key for person in active if not person.adjudicator)
        if len(reviewers) < rules.each:
            raise OptionError(
                f"{len(reviewers)} reviewers are left, and every item is to get {rules.each}. Add somebody first."
            )
        changed = msgspec.structs.replace(
            rules, reviewers=reviewers, adjudicators=tuple(person.key for person in active if person.adjudicator)
        )
        links = msgspec.structs.replace(review.links, people=tuple(people.values()))
        _write_private(
            review.folder / LINKS, links
        )  # before the links work: one that nobody kept could not be given to anybody
        arena.append([changed])
        for name in remove:
            revoke_person(arena.store, people[name].key, clock())
        for name in [*new_link, *add]:
            invite_person(arena.store, people[name].key, people[name].token, now=clock())
    return open_review(review.folder)


def erase_names(review: Review, names: Sequence[str]) -> Review:
    """Let nothing lead from the keys of people to their names: name, link and cookies go, votes stay.

    They have left, or the review is closed.
    """
    people = {person.name: person for person in review.links.people}
    rules = review.log().rules
    for name in names:
        if name not in people:
            raise OptionError(f"nobody called {name!r} was in this review.")
        if people[name].active and not (rules is not None and rules.closed):
            raise OptionError(f"{name!r} is in this review. Let them leave first: `tiltyard review people --remove`.")
    kept = tuple(
        Person(name=f"erased-{person.key}", key=person.key, token="", adjudicator=person.adjudicator, active=False)
        if person.name in names
        else person
        for person in review.links.people
    )
    with closing(Store.open(review.url)) as store:
        erase_person(store, [people[name].key for name in names])
    _write_private(review.folder / LINKS, msgspec.structs.replace(review.links, people=kept))
    return open_review(review.folder)


def close_review(review: Review, why: str = "") -> bool:
    """End a review: from now on nobody votes, and names are shown. Whether this closed it; of several, one does."""
    with review.arena() as arena:
        try:
            arena.append([msgspec.structs.replace(_rules(arena), closed=True, why_closed=why)])
        except ReviewClosed:
            return False
    return True


def _rules(arena: Arena) -> e.ReviewSet:
    rules = arena.read(lambda state: state.review)
    if rules is None:
        raise OptionError("the arena in this folder is no review. `tiltyard review start` makes one.")
    return rules


def served_at(review: Review, address: str) -> Review:
    """The review with the address at which it is served, which links begin with."""
    _write_private(review.folder / LINKS, msgspec.structs.replace(review.links, address=address.rstrip("/")))
    return open_review(review.folder)
