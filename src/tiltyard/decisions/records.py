"""The records of a difference between two models: estimates, the battles between the two, parts, the whole answer.

`open_source` opens what can be compared: a file of battles, or a run folder with its manifest.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tiltyard.battles.inputs import MANIFEST, MATCHES, run_files
from tiltyard.battles.missing_verdicts import MissingVerdicts, missing_verdicts
from tiltyard.battles.reading import BattleData
from tiltyard.boards.leaderboard import whole
from tiltyard.decisions.contrast import AnyContrast
from tiltyard.decisions.gate import ALPHA, GateResult, Missing, judge_difference
from tiltyard.decisions.picked import picking
from tiltyard.decisions.prompts import PromptScore
from tiltyard.decisions.score_facts import MissingScores, ScoreFacts
from tiltyard.decisions.units import POINTS, Unit
from tiltyard.decisions.words import as_html, as_table, sentence
from tiltyard.errors import RunFolderError
from tiltyard.options import MissingRule
from tiltyard.types import Comparable


@dataclass(frozen=True, slots=True)
class EstimatedDifference:
    """A difference in rating points, and the mean result that goes with it.

    Parameters:
        difference: Rating of the new model minus that of the old one.
        low: Lower end of the interval; None where nothing bounds it, or where there is no interval.
        high: Upper end of the interval.
        probability_better: How sure one can be that the new one is better: one minus the one-sided p-value.
        win_rate: Mean result of the new one against the old one: 1 won, 0 lost, a half for a tie; None for scores.
        win_rate_low: Lower end of its interval.
        win_rate_high: Upper end of its interval.
        n_battles: Battles, or prompts with scores, that it was estimated from.
    """

    difference: float
    low: float | None
    high: float | None
    probability_better: float | None
    win_rate: float | None
    win_rate_low: float | None
    win_rate_high: float | None
    n_battles: float

    def to_dict(self) -> dict[str, Any]:
        """The estimate as plain values."""
        return {**{name: getattr(self, name) for name in self.__slots__}, "n_battles": whole(self.n_battles)}


@dataclass(frozen=True, slots=True)
class HeadToHead:
    """The battles in which the two met.

    Parameters:
        wins: Won by the new model.
        losses: Lost by it.
        ties: Tied.
        both_bad: Battles in which both were bad; they do not affect the ratings.
        estimate: What these battles alone say; None where they say nothing (all of them both bad).
        share: The mean result as counted, whatever sides and style did to it; None where nothing was rated.
    """

    wins: float
    losses: float
    ties: float
    both_bad: float
    estimate: EstimatedDifference | None
    share: float | None = None

    def unsure(self) -> HeadToHead:
        """The same, without how sure one can be of it."""
        estimate = None if self.estimate is None else replace(self.estimate, probability_better=None)
        return replace(self, estimate=estimate)

    @property
    def n_battles(self) -> float:
        """All of them, both-bad ones too."""
        return self.wins + self.losses + self.ties + self.both_bad

    def to_dict(self) -> dict[str, Any]:
        """The record as plain values."""
        counts = {name: whole(getattr(self, name)) for name in ("wins", "losses", "ties", "both_bad", "n_battles")}
        return {**({} if self.estimate is None else self.estimate.to_dict()), **counts, "share": self.share}


@dataclass(frozen=True, slots=True)
class PartDifference:
    """The difference among the battles of one category or dimension.

    Its interval is wider than it would be alone, so that the intervals of all values of the column hold at once.

    Parameters:
        column: The column.
        value: Its value.
        estimate: The difference there; None where the battles do not allow one.
        contrast: The same in logits.
        reason: Why there is none.
        missing: Matchups without a verdict that may belong to it; None where there are none.
        means: The mean scores of both, where the difference is one of scores.
        obstacles: Why no gate may decide on it, whatever the interval says; usually none.
    """

    column: str
    value: str
    estimate: EstimatedDifference | None
    contrast: AnyContrast | None = None
    reason: str | None = None
    missing: Missing | MissingScores | None = None
    means: tuple[float, float] | None = None
    obstacles: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The part as plain values."""
        result = {} if self.estimate is None else self.estimate.to_dict()
        lost = 0 if self.missing is None else len(self.missing)
        return {"column": self.column, "value": self.value, **result, "reason": self.reason, "without_verdict": lost}


@dataclass(frozen=True, slots=True)
class OnlyFor:
    """The prompts or voters for which alone an interval holds, as they are too few to represent others.

    Parameters:
        what: `prompt` or `voter`.
        count: How many there are.
    """

    what: str
    count: int

    def __str__(self) -> str:
        return f"this one {self.what}" if self.count == 1 else f"these {self.count} {self.what}s"

    @property
    def clause(self) -> str:
        """Why no gate decides on them."""
        return f"{self} cannot stand for others"


@dataclass(frozen=True, slots=True, eq=False)
class Difference(Comparable):
    """How a new model differs from an old one, and how sure that is.

    Parameters:
        new: The model that stands first.
        old: The model it is compared with.
        estimate: The difference from all battles: those between the two, and those against other models.
        contrast: The same in logits, with what other levels and tests need.
        level: Confidence level of the intervals.
        direct: The battles between the two; None where they never met.
        parts: The difference in each dimension and category, where battles have them.
        prompts: How the two did on each prompt, where prompts are known.
        n_battles: Rated battles in which one of the two took part.
        n_prompts: Prompts of these battles; None where prompts are unknown.
        n_voters: Voters of these battles; None where voters are unknown.
        interval: How the interval is computed: clusters, effective counts, degrees of freedom.
        left_out: Battles that were not rated, by reason.
        remarks: Sentences a reader should not miss.
        anytime: Whether the intervals hold however often one looks while battles come in.
        then_and_now: Whether the two are one entrant in two runs.
        only_for: The few prompts or voters for which alone the interval holds; None: it holds for others too.
        obstacles: Why no gate may decide on these battles, whatever the interval says; usually none.
        missing: Matchups without a verdict; None where there are none, or where the battles come from no run folder.
        first_side: What being shown first is worth in points, where it was fitted; the difference is without it.
        scores: What is known only of scores: their unit and means; None where the difference is one of ratings.
        dimensions: The dimensions whose battles are taken together, where there are several.
        picked_from: Of how many candidates the new one was picked as the best, so that `level` is higher.
        best_of: How many candidates are here, where the new one has the best estimate of several; else None.
    """

    new: str
    old: str
    estimate: EstimatedDifference
    contrast: AnyContrast
    level: float
    direct: HeadToHead | None
    parts: tuple[PartDifference, ...]
    prompts: tuple[PromptScore, ...]
    n_battles: float
    n_prompts: int | None
    n_voters: int | None
    interval: Mapping[str, Any]
    left_out: Mapping[str, float]
    remarks: tuple[str, ...]
    anytime: bool = False
    then_and_now: bool = False
    only_for: OnlyFor | None = None
    obstacles: tuple[str, ...] = ()
    missing: Missing | MissingScores | None = None
    first_side: float | None = None
    scores: ScoreFacts | None = None
    dimensions: tuple[str, ...] = ()
    picked_from: int = 1
    best_of: int | None = None

    @property
    def unit(self) -> Unit:
        """The unit of the difference: rating points, percentage points, or that of the scores."""
        return POINTS if self.scores is None else self.scores.unit

    @property
    def difference(self) -> float:
        """Rating of the new model minus that of the old one."""
        return self.estimate.difference

    @property
    def low(self) -> float | None:
        """Lower end of the interval; None where nothing bounds it, or where there is none."""
        return self.estimate.low

    @property
    def high(self) -> float | None:
        """Upper end of the interval."""
        return self.estimate.high

    @property
    def probability_better(self) -> float | None:
        """How sure one can be that the new one is better: one minus the one-sided p-value of the clustered t."""
        return self.estimate.probability_better

    @property
    def few_for_others(self) -> tuple[str, ...]:
        """The obstacles that an answer for these prompts or voters alone has named already."""
        counts = {"prompt": self.n_prompts, "voter": self.n_voters}
        return tuple(OnlyFor(what, count).clause for what, count in counts.items() if count)

    @property
    def sentence(self) -> str:
        """The answer in one sentence."""
        return sentence(self)

    def gate(
        self,
        *,
        margin: float | str | None = None,
        alpha: float = ALPHA,
        by: str | None = None,
        missing: MissingRule = "worst",
        pool_dimensions: bool = False,
    ) -> GateResult:
        """Whether the new model is better, not worse than a margin, worse, or none of these for sure.

        Parameters:
            margin: By how much the new one may be worse: rating points (default 30), `"2pp"` of a share (default), or
                a number in the unit of the scores.
            alpha: The error rate: how often equal models may be called better or worse.
            by: A column whose values are judged too: one that is worse makes the verdict worse.
            missing: `worst`: the verdict holds with every matchup without a verdict counted against it, or it is
                `unknown`. `ignore`: they are left out, as if they had been lost at random.
            pool_dimensions: One verdict on all dimensions together; otherwise each has its own where there are
                several, and one that is worse makes the verdict worse.
        """
        return judge_difference(
            self, margin=margin, alpha=alpha, by=by, missing=missing, pool_dimensions=pool_dimensions
        )

    def to_dict(self) -> dict[str, Any]:
        """The difference as plain values: what `--format json` prints."""
        if self.scores is not None:
            return self.scores.to_dict(self)
        return {
            "new": self.new,
            "old": self.old,
            "sentence": self.sentence,
            "difference": self.difference,
            "unit": self.unit.name,
            "low": self.low,
            "high": self.high,
            "level": self.level,
            "anytime": self.anytime,
            "probability_better": self.probability_better,
            "win_rate": self.estimate.win_rate,
            "win_rate_low": self.estimate.win_rate_low,
            "win_rate_high": self.estimate.win_rate_high,
            "n_battles": whole(self.n_battles),
            "n_prompts": self.n_prompts,
            "n_voters": self.n_voters,
            "dimensions": list(self.dimensions),
            **picking(self),
            "clusters": list(self.interval.get("clusters", ())),
            "interval": dict(self.interval),
            "only_for": None if self.only_for is None else str(self.only_for),
            "obstacles": list(self.obstacles),
            "first_side": self.first_side,
            "direct": None if self.direct is None else self.direct.to_dict(),
            "field": self.estimate.to_dict(),
            "parts": [part.to_dict() for part in self.parts],
            "prompts": [prompt.to_dict() for prompt in self.prompts],
            "left_out": {reason: whole(count) for reason, count in self.left_out.items()},
            "missing": None
            if self.missing is None
            else self.missing.to_dict(self.level, self.missing.rule, anytime=self.anytime),
            "remarks": list(self.remarks),
        }

    def to_json(self) -> str:
        """The difference as JSON text."""
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=False) + "\n"

    def __str__(self) -> str:
        return as_table(self)

    def __repr__(self) -> str:
        return f"<Difference: {self.sentence}>"

    def _repr_html_(self) -> str:
        return as_html(self)


@dataclass(frozen=True, slots=True, eq=False)
class BattleSource:
    """Battles, and what is known about where they come from.

    Parameters:
        name: What to call them.
        battles: The battles, as `read_battles` takes them.
        folder: The run folder; None where they are no run.
        judge: The judge of a run.
        rubrics: A fingerprint of each dimension's rubric.
        bank: A fingerprint of the prompt bank.
        answers: A fingerprint of each entrant's answers.
    """

    name: str
    battles: BattleData
    folder: Path | None = None
    judge: str | None = None
    rubrics: Mapping[str, str] = field(default_factory=dict)
    bank: str | None = None
    answers: Mapping[str, str] = field(default_factory=dict)

    def prompt_texts(self) -> dict[str, str]:
        """The text of every prompt of a run, by id; empty where they are not known."""
        if self.folder is None or not (self.folder / MATCHES).is_file():
            return {}
        texts: dict[str, str] = {}
        with (self.folder / MATCHES).open("rb") as file:
            for number, line in enumerate(file, start=1):
                try:
                    match = json.loads(line)
                    texts.setdefault(match["prompt_id"], match["prompt_text"])
                except (ValueError, KeyError, TypeError):
                    where = f"{self.folder / MATCHES}:{number}"
                    raise RunFolderError(
                        f"{where}: not a match of a run. Write it again with `tiltyard run`."
                    ) from None
        return texts

    def missing_verdicts(self) -> MissingVerdicts:
        """The matchups of the run, or of several, that have no verdict; none where the battles come from no run."""
        return missing_verdicts(self.battles)


def is_run_folder(path: Path) -> bool:
    """Whether a folder is that of a run with battles or verdicts."""
    return bool(run_files(path))


def open_source(data: BattleData, unnamed: str = "battles") -> BattleSource:
    """Battles from anywhere; a path to a run folder also gives its judge, rubrics, bank and answers."""
    paths = [data] if isinstance(data, str | Path) else data
    if isinstance(paths, Sequence) and paths and all(isinstance(path, str | Path) for path in paths):
        if len(paths) == 1 and is_run_folder(Path(paths[0])):
            return _run(Path(paths[0]))
        return BattleSource(" and ".join(Path(path).stem for path in paths[:3]), list(paths))
    return BattleSource(unnamed, data)


def _run(folder: Path) -> BattleSource:
    try:
        manifest = json.loads((folder / MANIFEST).read_bytes())
    except ValueError as error:
        raise RunFolderError(f"{folder / MANIFEST}: torn or not JSON ({error}).") from None
    if not isinstance(manifest, dict):
        raise RunFolderError(f"{folder / MANIFEST}: expected one JSON object.")
    hashes = _texts(manifest.get("sha256"))
    rubrics = {**_texts(manifest.get("rubric_versions")), **_texts(hashes.get("rubrics"))}
    judge, bank = manifest.get("judge_model"), hashes.get("bank")
    return BattleSource(
        folder.name or str(folder),
        run_files(folder),
        folder=folder,
        judge=None if judge is None else str(judge),
        rubrics=rubrics,
        bank=None if bank is None else str(bank),
        answers=_texts(hashes.get("responses")),
    )


def _texts(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
