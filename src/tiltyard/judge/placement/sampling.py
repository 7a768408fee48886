"""Whom the new model meets, and on which question: the panel, chosen a round at a time.

Three ways. `head` takes the arena's questions in file order. `random` draws battle rows, so that opponents come up as
often as in the arena. `informative` meets the opponents against whom verdicts say most about the new model's strength.

The information of a verdict is p(1 − p), largest between equals. But a judge is biased for or against single opponents,
and an opponent's own rating is not exact; neither error shrinks when the same opponent is met again. With n_j battles
against opponent j, each worth I_j, and w_j = n_j·I_j / Σ n·I, the variance of the new model's strength is

    1 / Σ n_j·I_j  +  Σ w_j²·(idiosyncrasy² + variance of θ_j)  +  what no choice of opponents changes,

and each battle goes to the opponent that makes this smallest. The first term favours equals, the second spreads the
panel; no opponent is excluded or forced.

A panel is saved with its fingerprint and can be reused for another model.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal

import msgspec
import numpy as np

from tiltyard.errors import RunFolderError
from tiltyard.judge.placement.human_arena import Cells, Exchange
from tiltyard.stats import POINTS_PER_LOGIT
from tiltyard.types import Bools, Floats, Int32s, Ints


class PlannedBattle(msgspec.Struct, frozen=True, kw_only=True):
    """One battle to be judged."""

    question_id: str
    opponent: str
    first: Literal["model", "opponent"] = "model"
    """Whose answer is shown first if only one order is judged."""
    sha256: str = ""
    """Hash of prompt and opponent's answer: the same panel means the same texts."""


def planned_battle(exchange: Exchange, *, model_first: bool) -> PlannedBattle:
    """The battle planned over an exchange."""
    return PlannedBattle(
        question_id=exchange.question_id,
        opponent=exchange.model,
        first="model" if model_first else "opponent",
        sha256=text_hash(exchange.prompt, exchange.answer),
    )


def text_hash(prompt: str, opponent_answer: str) -> str:
    """What identifies the texts of a planned battle."""
    return hashlib.sha256(f"{prompt}\0{opponent_answer}".encode()).hexdigest()


class Panel(msgspec.Struct, frozen=True, kw_only=True):
    """`panel.json`: the opponents and questions of the new model, in the order in which they were judged.

    Another model can be judged on the same ones.
    """

    fingerprint: str
    """SHA-256 of the battles: two models with the same one met the same opponents on the same texts."""
    arena: str
    """The arena's name."""
    arena_sha256: dict[str, str]
    """Hashes of its files."""
    sampling: str
    """`informative`, `random`, `head` or `panel`."""
    seed: int
    battles: tuple[PlannedBattle, ...]


def fingerprint(battles: tuple[PlannedBattle, ...]) -> str:
    """What identifies a panel."""
    return hashlib.sha256(msgspec.json.encode(battles)).hexdigest()


def read_panel(path: Path) -> Panel:
    """A saved panel; one whose battles do not match its fingerprint was edited, and is refused.

    Parameters:
        path: The file.
    """
    try:
        panel = msgspec.json.decode(path.read_bytes(), type=Panel)
    except OSError as error:
        raise RunFolderError(f"cannot read the panel {path}: {error.strerror}. Check the path.") from None
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise RunFolderError(f"{path} is not a panel: {error}. Give the panel.json of a placement run.") from None
    if panel.fingerprint != fingerprint(panel.battles):
        raise RunFolderError(
            f"{path}: the battles do not match the fingerprint {panel.fingerprint[:12]}…: the file was changed. "
            "Take the panel.json as the run wrote it."
        )
    return panel


Sampler = Literal["informative", "random", "head"]

IDIOSYNCRASY = 40.0 / POINTS_PER_LOGIT
"""The judge's bias for or against single opponents (τ/β, in logits) if no calibration has measured it.

Zero would spend the panel on two or three opponents; the one good judge measured so far has 77 points. With half of
that the standard deviation of 100 battles is, in simulated fields, within 7 % of the best, be the truth 0 or 77.
"""

PRIOR_SPREAD = 1.5
"""How much wider than the field the belief is before any verdict: a new model may be stronger or weaker than all
opponents."""

_NODES = np.linspace(-8.0, 8.0, 97)
_WEIGHTS = np.exp(-0.5 * _NODES**2) / np.exp(-0.5 * _NODES**2).sum()
"""A normal belief on an even grid: unlike Gauss–Hermite, exact also for beliefs much wider than the information."""


class Belief(msgspec.Struct, frozen=True):
    """What is known of the new model's strength, in logits on the opponents' scale: a normal distribution."""

    strength: float
    sd: float


def expected_information(opponents: Floats, belief: Belief, *, slope: float = 1.0) -> Floats:
    """The expected information of one verdict against each opponent: slope²·E[p(1 − p)] over the belief.

    `slope` is how steeply the judge follows people's scale. Ties change the information of a verdict, but hardly which
    opponent is most informative.
    """
    strengths = belief.strength + belief.sd * _NODES
    return np.asarray(slope**2 * _information(slope * (strengths[None, :] - opponents[:, None])) @ _WEIGHTS)


def information_limit(opponents: Floats, strength: float) -> float:
    """The number of battles against equals needed, as a fraction of random ones: the mean of p(1 − p), over ¼.

    `opponents` are the strengths of random opponents, as often as they come up.
    """
    return float(4.0 * np.mean(_information(strength - opponents)))


def _information(gap: Floats) -> Floats:
    """p(1 − p) for the log-odds of p; computed from the absolute value, so that no gap overflows."""
    odds = np.exp(-np.abs(gap))
    return np.asarray(odds / (1.0 + odds) ** 2)


class Chooser:
    """Chooses an arena's cells for a new model, a round at a time: parameters when built, the state of play when asked.

    `eligible` and `strength` (logits, NaN where unrated) are by model of `cells.models`; an unrated opponent gives no
    information and is never met. `strength_variance` is that of the opponents' strengths, zero by default;
    `idiosyncrasy` (logits) and `slope` are the judge's, from a calibration if there is one. The panel has at most
    `per_language` battles in each language, and as many of unknown language.
    """

    def __init__(
        self,
        cells: Cells,
        *,
        sampler: Sampler,
        eligible: Bools,
        strength: Floats,
        strength_variance: Floats | None = None,
        idiosyncrasy: float = IDIOSYNCRASY,
        slope: float = 1.0,
        per_language: int | None = None,
    ) -> None:
        self.sampler = sampler
        self._cells = cells
        self._slope = slope
        self._per_language = per_language
        met = np.asarray(eligible, dtype=np.bool_) & np.isfinite(strength)
        self._usable: Ints = np.flatnonzero(met[cells.model])
        self._codes, place = np.unique(cells.model[self._usable], return_inverse=True)
        self._strength: Floats = strength[self._codes]
        inexact = np.zeros(len(self._codes)) if strength_variance is None else strength_variance[self._codes]
        self._shared: Floats = idiosyncrasy**2 + inexact
        by_opponent = self._usable[np.argsort(place, kind="stable")]
        self._of_opponent = np.split(by_opponent, np.cumsum(np.bincount(place, minlength=len(self._codes)))[:-1])
        question = cells.question[self._usable]
        self._most_per_question = int(np.bincount(question).max(initial=0))
        self._head: Ints = self._usable[_head_order(question)] if sampler == "head" else self._usable[:0]

    @property
    def capacity(self) -> int:
        if self._per_language is None:
            return len(self._usable)
        in_language = np.bincount(self._cells.language[self._usable] + 1)
        return int(np.minimum(in_language, self._per_language).sum())

    @property
    def opponents(self) -> int:
        return len(self._codes)

    def prior(self) -> Belief:
        return Belief(float(np.mean(self._strength)), PRIOR_SPREAD * float(np.std(self._strength)))

    def choose(self, n: int, belief: Belief | None, taken: Sequence[int] | Ints, rng: np.random.Generator) -> Ints:
        """The next `n` cells, in the order to be judged; fewer when the arena has no more.

        `taken` are the cells chosen before; `belief` matters only to the informative sampler, which starts from its
        prior if it is None. No cell is chosen twice, and a question is repeated, with another opponent, only when no
        new one is left.
        """
        draft = _Draft(self._cells, n, taken, self._per_language)
        if len(self._codes) == 0:
            return draft.cells()
        if self.sampler == "informative":
            return self._by_information(draft, belief or self.prior(), rng)
        order = self._head if self.sampler == "head" else rng.permutation(self._usable)
        for uses in draft.levels(self._usable, self._most_per_question):
            draft.add_first(order, uses=uses, wanted=n)
        return draft.cells()

    def _by_information(self, draft: _Draft, belief: Belief, rng: np.random.Generator) -> Ints:
        information = expected_information(self._strength, belief, slope=self._slope)
        held = np.bincount(self._cells.model[draft.taken], minlength=len(self._cells.models))[self._codes]
        battles = held.astype(np.float64)
        for uses in draft.levels(self._usable, self._most_per_question):
            queues: dict[int, Iterator[int]] = {}
            spent = np.zeros(len(self._codes), dtype=np.bool_)
            while not (draft.full or spent.all()):
                variance = variance_after_one_more(battles, information, self._shared)
                opponent = int(np.argmin(np.where(spent, np.inf, variance)))
                if opponent not in queues:
                    queues[opponent] = iter(rng.permutation(self._of_opponent[opponent]).tolist())
                if draft.add_first(queues[opponent], uses=uses, wanted=1):
                    battles[opponent] += 1.0
                else:
                    spent[opponent] = True
        return draft.cells()


def variance_after_one_more(battles: Floats, information: Floats, shared: Floats) -> Floats:
    """The variance of the new model's strength if the next battle went to each of the opponents, up to constants.

    `battles` were held with each so far, each worth `information`; `shared` is the variance that all battles with one
    opponent have in common.
    """
    gained = battles * information
    total = gained.sum() + information
    squares = shared @ (gained * gained) + shared * information**2 * (2.0 * battles + 1.0)
    return np.asarray(1.0 / total + squares / total**2)


def _head_order(question: Int32s) -> Ints:
    """Cells in file order, one of each question first; the k-th question offers its k-th cell, going round.

    Cells of a battle are in the order of its sides, so that side A and side B alternate.
    """
    _, first, place, count = np.unique(question, return_index=True, return_inverse=True, return_counts=True)
    rank = np.empty(len(first), dtype=np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    grouped = np.argsort(place, kind="stable")
    within = np.empty(len(question), dtype=np.int64)
    within[grouped] = np.arange(len(question)) - np.repeat(np.cumsum(count) - count, count)
    turn = (within - rank[place]) % count[place]
    return np.lexsort((rank[place], turn))


class _Draft:
    """A round being built: its cells, and how often each question and language has come up."""

    def __init__(self, cells: Cells, wanted: int, taken: Sequence[int] | Ints, per_language: int | None) -> None:
        self.taken: Ints = np.asarray(taken, dtype=np.int64)
        self._cells = cells
        self._wanted = wanted
        self._per_language = per_language
        self._chosen: list[int] = []
        self._gone = set(self.taken.tolist())
        self._uses = Counter(cells.question[self.taken].tolist())
        self._in_language = Counter(cells.language[self.taken].tolist())

    @property
    def full(self) -> bool:
        return len(self._chosen) >= self._wanted

    def cells(self) -> Ints:
        return np.array(self._chosen, dtype=np.int64)

    def levels(self, usable: Ints, most_per_question: int) -> range:
        """The possible numbers of earlier uses of a question: from the least among free cells to the maximum."""
        free = np.ones(len(self._cells), dtype=np.bool_)
        free[self.taken] = False
        uses = np.bincount(self._cells.question[self.taken], minlength=len(self._cells.question_ids))
        of_free = uses[self._cells.question[usable[free[usable]]]]
        return range(int(of_free.min(initial=len(self.taken))), int(uses.max(initial=0)) + most_per_question)

    def add_first(self, order: Iterable[int], *, uses: int, wanted: int) -> int:
        """Add up to `wanted` cells in this order whose question has come up `uses` times; returns how many."""
        added = 0
        if self.full or wanted == 0:
            return added
        for cell in map(int, order):
            question, language = self._cells.question.item(cell), self._cells.language.item(cell)
            if cell in self._gone or self._uses[question] != uses:
                continue
            if self._per_language is not None and self._in_language[language] >= self._per_language:
                continue
            self._chosen.append(cell)
            self._gone.add(cell)
            self._uses[question] += 1
            self._in_language[language] += 1
            added += 1
            if self.full or added == wanted:
                break
        return added
