"""`ScoreTable`: the scores of one metric, as a mean for each model on each prompt."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal

import msgspec
import numpy as np

from tiltyard.data.battles import Codes
from tiltyard.errors import Message, OptionError, OptionValue
from tiltyard.options import Direction
from tiltyard.types import Floats, Ints

CLUSTER_COLUMNS = (
    *("document", "document_id", "doc", "source", "source_id", "conversation", "conversation_id", "session"),
    *("session_id", "context", "context_id", "passage", "passage_id", "article", "article_id", "page", "url", "file"),
)
"""Columns that may say which prompts depend on each other."""

DirectionFrom = Literal["option", "log", "name", "default"]
LOWER_WORDS = {
    *("seconds", "second", "secs", "sec", "s", "milliseconds", "millis", "ms", "minutes", "time", "latency"),
    *("duration", "elapsed", "runtime", "cost", "costs", "price", "prices", "usd", "tokens", "errors"),
}
"""Words in the name of a metric of which less is usually better."""


def direction_of_name(metric: str) -> Direction | None:
    """Which way is better if a metric is called like seconds, cost or tokens; None for other names.

    Whole words count: those of `latencyMs` are latency and ms. Of a rate, such as tokens_per_second, more is better.
    """
    words = re.findall("[a-z]+", re.sub("([a-z])([A-Z])", r"\1_\2", metric).lower())
    if not LOWER_WORDS & {*words}:
        return None
    rate = "per" in words and {*words[words.index("per") :]} & {"second", "seconds", "sec", "s", "minute", "ms", "usd"}
    return "higher" if rate else "lower"


def both_ways(metric: str) -> tuple[OptionValue, OptionValue]:
    """How to say which way of a metric is better."""
    return OptionValue("score", [f"{metric}:lower"]), OptionValue("score", [f"{metric}:higher"])


class ModelScores(msgspec.Struct, frozen=True, eq=False):
    """The scores of one model.

    Parameters:
        prompts: The prompts that it was asked, as places in the table's `prompts`, ascending.
        mean: Its mean score on each; NaN where no answer has a score.
        count: Answers with a score.
        variance: Variance of the scores of one prompt; NaN with fewer than two.
        unscored: Answers without a score.
        low: The lowest score of an answer; NaN where there is none.
        high: The highest.
    """

    prompts: Ints
    mean: Floats
    count: Ints
    variance: Floats
    unscored: Ints
    low: float
    high: float


class ScoreTable(msgspec.Struct, frozen=True, eq=False):
    """The scores of one metric.

    Parameters:
        metric: Its name; empty where a log has only one without a name.
        models: The scores of each model.
        prompts: The prompts; empty where the source does not say which answer is to which prompt.
        columns: Category, cluster and other columns of prompts.
        direction: What says which way is better: the option, the log, the metric's name, or nothing (`default`).
        lower_is_better: Whether less is better.
        shares: Whether every score is 0 or 1, so that a mean is a share.
        bounds: The lowest and the highest possible score; None where they are not known.
        sources: The models of each file, or other part, that was read.
        skipped: Bad rows that were left out, by reason.
        has_repeats: Whether a column numbers the repeats; else rows that repeat a prompt are taken as such.
        few_values: Whether scores are whole numbers that lie so near each other that they are a scale, as 1 to 5 are.
        log: Whether scores are logarithms of what was read.
        against: Why nothing is decided by them: what the run that wrote them says of itself.
        beside: Other columns that may hold scores, of which nothing was read, as this one has a usual name.
    """

    metric: str
    models: Mapping[str, ModelScores]
    prompts: tuple[str, ...]
    columns: Mapping[str, Codes]
    direction: DirectionFrom
    lower_is_better: bool
    shares: bool
    bounds: tuple[float, float] | None
    sources: tuple[tuple[str, ...], ...]
    skipped: Mapping[str, int] = msgspec.field(default_factory=dict)
    has_repeats: bool = False
    few_values: bool = False
    log: bool = False
    against: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()

    def __getitem__(self, model: str) -> ModelScores:
        if model not in self.models:
            some = ", ".join(list(self.models)[:20])
            raise OptionError(f"no score of {model!r}. Scored are {some}.")
        return self.models[model]

    @property
    def bounded(self) -> bool:
        """Whether a score that was not seen cannot be much larger than those that were."""
        return self.few_values or self.bounds is not None

    @property
    def reach(self) -> float:
        """The highest possible score minus the lowest; infinite where they are not known."""
        return np.inf if self.bounds is None else self.bounds[1] - self.bounds[0]

    @property
    def ends(self) -> tuple[float, float]:
        """The lowest score that was seen, and the highest."""
        scored = [one for one in self.models.values() if one.low <= one.high]
        return min((one.low for one in scored), default=0.0), max((one.high for one in scored), default=0.0)

    @property
    def spread(self) -> float:
        """The highest score that was seen minus the lowest; where all are alike, by the bounds of scores."""
        low, high = self.ends
        if not high > low and self.bounds is not None:
            low, high = self.bounds
        return high - low if high > low else 0.0

    @property
    def reading_notes(self) -> list[Message]:
        """Which way was taken, where only the metric's name says it; and which other columns may hold scores."""
        notes = []
        if self.direction == "name":
            way, (lower, higher) = "lower" if self.lower_is_better else "higher", both_ways(self.metric)
            what = f"{way} is better, as the name {self.metric} suggests ("
            notes.append(Message(what, lower, " or ", higher, " says it)"))
        if self.beside:
            every = OptionValue("score", [self.metric, *self.beside])
            notes.append(Message(f"not looked at, though they may be scores: {', '.join(self.beside)} (", every, ")"))
        return notes

    @property
    def possible_cluster(self) -> Message | None:
        """That prompts share a document, a source or the like, and how to count by it; None where none do."""
        for name in CLUSTER_COLUMNS:
            codes = self.columns[name].codes if name in self.columns else np.empty(0)
            values = len(np.unique(codes[codes >= 0]))
            if 1 < values < len(codes) and (codes >= 0).all():
                what, chosen = f"{len(codes):,} prompts share {values:,} values of {name}", OptionValue("cluster", name)
                return Message(f"{what}: if those of one value depend on each other, ", chosen)
        return None

    def only(self, *models: str) -> ScoreTable:
        return msgspec.structs.replace(self, models={name: self[name] for name in models})


def common_prompts(new: ModelScores, old: ModelScores) -> tuple[Ints, Ints]:
    """The places of the prompts on which both have a score, in the one and in the other."""
    first, second = np.flatnonzero(new.count > 0), np.flatnonzero(old.count > 0)
    own, other = new.prompts[first], old.prompts[second]
    place = np.searchsorted(other, own)
    found = np.flatnonzero(np.append(other, -1)[place] == own)
    return first[found], second[place[found]]
