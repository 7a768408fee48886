"""How many votes teach somebody who wrote the answers of one model: the best reader of receipts that we could write.

Readers come from some address blocks, look at a pair on every prompt it is shown on, and vote only where a receipt
would teach them something; other pairs they leave, as far as pairs give way. They know the rules, so they know which
matchups show the same two models: the receipt of one names the authors of all. Who wrote which is found by exclusion,
from every pair they were shown, voted on or not.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from tiltyard.arena.rules.events import AnyBody, Choice
from tiltyard.arena.rules.schedule import Reserved
from tiltyard.arena.rules.tallies import pair_of
from tiltyard.arena.rules.units import DAY, SECOND
from tiltyard.arena.simulation.ledger import MemoryArena
from tiltyard.arena.study.rotation import LEARNED

OTHERS_A_DAY = 200
"""Votes of other people a day."""
LOOKS = 12
"""How often a reader asks for the same pair at most, before it is clear that no other prompt comes."""

Text = tuple[int, int]
"""An answer as a reader sees it: a text to a prompt, without its author. (The number of the author stands for it.)"""


@dataclass(slots=True)
class _Group:
    """Matchups of the same two models: two texts by prompt, and which authors are known to be the two."""

    texts: dict[int, tuple[Text, Text]] = field(default_factory=dict)
    authors: set[int] = field(default_factory=set)
    named: bool = False


class Reader:
    """What can be concluded about who wrote what."""

    def __init__(self, models: int) -> None:
        self._everybody = frozenset(range(models))
        self._may_be: dict[Text, frozenset[int]] = {}
        self._of_prompt: dict[int, set[Text]] = {}
        self._groups: dict[Text, list[_Group]] = {}
        self._due: deque[_Group] = deque()
        self.author: dict[Text, int] = {}
        """The texts whose author is known."""

    def see(self, group: _Group, prompt: int, texts: tuple[Text, Text]) -> None:
        if prompt in group.texts:
            return
        group.texts[prompt] = texts
        for text in texts:
            taken = {self.author[other] for other in self._of_prompt.get(prompt, ()) if other in self.author}
            self._may_be.setdefault(text, self._everybody - taken)
            self._of_prompt.setdefault(prompt, set()).add(text)
            self._groups.setdefault(text, []).append(group)
        self._conclude(group)

    def receipt(self, group: _Group, authors: dict[Text, int]) -> None:
        group.authors, group.named = set(authors.values()), True
        for text, author in authors.items():
            self._narrow(text, frozenset((author,)))
        self._conclude(group)

    def may_teach(self, group: _Group, model: int) -> bool:
        """Whether a receipt could tell a text of this model that is not known yet."""
        if group.named or (len(group.authors) == 2 and model not in group.authors):
            return False
        return any(
            all(self.author.get(text) != model for text in texts) and any(model in self._may_be[text] for text in texts)
            for texts in group.texts.values()
        )

    def known(self, model: int) -> int:
        return sum(author == model for author in self.author.values())

    def _narrow(self, text: Text, to: frozenset[int]) -> None:
        """A text is by one of these. A known author wrote no other text to the prompt."""
        before = self._may_be[text]
        after = before & to
        if after == before or text in self.author:
            return
        self._may_be[text] = after
        self._due.extend(self._groups[text])
        if len(after) == 1:
            (author,) = after
            self.author[text] = author
            for other in self._of_prompt[text[1]] - {text}:
                self._narrow(other, self._everybody - after)

    def _conclude(self, group: _Group) -> None:
        self._due.append(group)
        while self._due:
            self._look_at(self._due.popleft())

    def _look_at(self, group: _Group) -> None:
        """Conclude from one group: its two authors wrote each two texts of it."""
        if len(group.authors) < 2:
            group.authors |= {
                self.author[text] for texts in group.texts.values() for text in texts if text in self.author
            }
            if len(group.authors) < 2:
                for author in group.authors:  # whatever text cannot be by the known one leaves the other
                    for first, second in group.texts.values():
                        for text, other in ((first, second), (second, first)):
                            if author not in self._may_be[text]:
                                self._narrow(other, frozenset((author,)))
                return
        both = frozenset(group.authors)
        for first, second in group.texts.values():
            for text, other in ((first, second), (second, first)):
                self._narrow(text, both - {self.author[other]} if other in self.author else both)


def learn(
    opening: Iterable[AnyBody], *, target: int, blocks: int, days: int, most_votes: int, patient: bool, seed: int = 0
) -> dict[float, int | None]:
    """After how many votes readers know so much of the answers of a model; None: not within the time or the votes.

    Others vote too, `OTHERS_A_DAY` votes. `patient` readers leave a pair that teaches nothing until it gives way, up to
    the last day; the others vote on it, to go on.
    """
    engine = MemoryArena(seed)
    engine.append(opening, 0)
    run = _Learning(engine, target, most_votes, seed)
    for day in range(days):
        for block in range(blocks):
            at = day * (DAY + SECOND)
            if not run.done:
                run.patient = patient and day < days - 1
                run.others(round(OTHERS_A_DAY / blocks), at)
                run.visit(f"block-{block}", at)
    return run.reached


class _Learning:
    def __init__(self, engine: MemoryArena, target: int, most_votes: int, seed: int) -> None:
        self._engine = engine
        self._target = target
        self._most = most_votes
        self.patient = False
        catalog = engine.state.catalog
        self._reader = Reader(len(catalog.models))
        self._answers = len(catalog.prompts)
        self._groups: dict[tuple[str, tuple[int, int]], _Group] = {}
        self._sessions = self._others = 0
        self._rng = np.random.default_rng([seed, 9])
        self.reached: dict[float, int | None] = dict.fromkeys(LEARNED)
        self.votes = 0

    def others(self, votes: int, at: int) -> None:
        """Votes of other people, each from a block of their own: what is served next depends on them."""
        for _ in range(votes):
            self._others += 1
            voter = f"other-{self._others}"
            matchup_id = self._engine.serve(voter, at, voter)
            self._engine.vote(matchup_id, self._any_side(), at)

    def _any_side(self) -> Choice:
        return Choice.A if self._rng.random() < 0.5 else Choice.B

    @property
    def done(self) -> bool:
        """Whether everything is known that is asked for, or no vote is left."""
        return self.reached[LEARNED[-1]] is not None or self.votes >= self._most

    def visit(self, block: str, at: int) -> None:
        """One day in one block: pair after pair, while there are others to see."""
        left_before: set[tuple[int, int]] = set()
        while not self.done:
            self._sessions += 1
            voter = f"reader-{self._sessions}"
            matchup_id, shown, group = self._look(block, voter, at)
            pair = pair_of(shown.a, shown.b)
            stuck = pair in left_before
            if self._reader.may_teach(group, self._target) or (stuck and not self.patient):
                self._vote(matchup_id, shown, group, at)
                self._groups.pop((block, pair), None)
                left_before.discard(pair)
                continue
            self._engine.skip(matchup_id, at)
            if stuck:
                return
            left_before.add(pair)

    def _look(self, block: str, voter: str, at: int) -> tuple[str, Reserved, _Group]:
        """See a pair on every prompt that it is shown on; its last matchup stays open."""
        first = self._ask(block, voter, at)
        last, asked = first, 1
        seen = {first[1].prompt}
        while asked < LOOKS and len(seen) < self._engine.state.policy.waiting.prompts:
            self._engine.skip(last[0], at)
            last, asked = self._ask(block, voter, at), asked + 1
            if pair_of(last[1].a, last[1].b) != pair_of(first[1].a, first[1].b) or last[1].prompt in seen:
                break
            seen.add(last[1].prompt)
        return last

    def _ask(self, block: str, voter: str, at: int) -> tuple[str, Reserved, _Group]:
        matchup_id = self._engine.serve(voter, at, block)
        shown = self._engine.state.schedule.in_flight[matchup_id]
        group = self._groups.setdefault((block, pair_of(shown.a, shown.b)), _Group())
        self._reader.see(group, shown.prompt, ((shown.a, shown.prompt), (shown.b, shown.prompt)))
        return matchup_id, shown, group

    def _vote(self, matchup_id: str, shown: Reserved, group: _Group, at: int) -> None:
        self._engine.vote(matchup_id, self._any_side(), at)  # after ties the same prompts would come again
        self.votes += 1
        self._reader.receipt(group, {(model, shown.prompt): model for model in (shown.a, shown.b)})
        share = self._reader.known(self._target) / self._answers
        for wanted, votes in self.reached.items():
            if votes is None and share >= wanted:
                self.reached[wanted] = self.votes
