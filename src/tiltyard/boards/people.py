"""A judge's board corrected by people's labels on some of the judged matchups: `correct_by_people`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tiltyard.battles.frames import rereadable
from tiltyard.battles.label_sheets import find_key, from_spreadsheet, is_sheet, read_sheet
from tiltyard.battles.reading import BattleData, peek, read_battles
from tiltyard.battles.table import BattleTable
from tiltyard.boards.bradley_terry import CENTRE, REACH_NOTES, BradleyTerry
from tiltyard.boards.certainty import (
    Certainty,
    apart,
    cluster_notes,
    interval_settings,
    rating_ends,
    share_remarks,
    zero_weights,
)
from tiltyard.boards.inputs import AS_IT_IS, Estimator, files_sha256, is_remote, origin, read_for
from tiltyard.boards.label_matching import MatchedLabels, among, check_labels, joined_by_labels, match_labels
from tiltyard.boards.leaderboard import Leaderboard, RatingEntry, whole
from tiltyard.boards.preparation import asked_clusters
from tiltyard.errors import OptionError, OptionValue
from tiltyard.options import InputOptions
from tiltyard.ratings import POINTS_PER_LOGIT
from tiltyard.ratings.comparisons import sum_by
from tiltyard.ratings.graph import Reach
from tiltyard.ratings.intervals import half_widths
from tiltyard.ratings.people_labels import LabelledMatchups, PeopleFit, fit_with_people
from tiltyard.ratings.ranks import rank_intervals, ranks
from tiltyard.ratings.tie_models import TIE_MODELS

SAVES_FROM = 0.75
"""Below this agreement a judge saves no labels worth mentioning: at most (2 · 0.75 − 1)² = a quarter at it."""

NO_RANDOM_DRAW = 0.001
"""Labels on which the judge's verdicts depart this unlikely far from those on all matchups are no random draw."""

UNEVEN = 5.0
"""A model that is in more or fewer of the labelled matchups than this many standard deviations explain is named."""

NO_LABEL = "no label: on the judge's scale, not corrected; its interval says nothing about people"
APART_BY_LABELS = "its labels do not join it to the others: on the judge's scale, not corrected"

MATCHED_BY = ("question_id", "dimension")
"""Columns by which labels find their matchups."""

WITHOUT = ("control", "slot", "shrink", "robustness", "anytime")
"""Options of Bradley–Terry that a corrected board does not have."""


def rate_with_people(
    estimator: Estimator, battles: BattleData, people: BattleData, reading: InputOptions = AS_IT_IS
) -> Leaderboard:
    """A judge's battles corrected by people's, both read first; see `correct_by_people`.

    Parameters:
        estimator: How to rate: `BradleyTerry`.
        battles: The judge's battles: a table, or whatever `read_battles` takes; where no column says who decided,
            all are the judge's.
        people: People's labels, likewise; rows that do not say who decided are people's.
        reading: How to read the judge's battles; columns under other names are looked for in people's too.
    """
    if not isinstance(estimator, BradleyTerry):
        raise OptionError(
            "people's labels correct Bradley–Terry ratings only: leave them out, or use ",
            OptionValue("method", "bt"),
            ".",
        )
    if is_remote(battles, reading) or is_remote(people, AS_IT_IS):
        raise OptionError(
            "people's labels need the battles on this machine: use ", OptionValue("engine", "duckdb"), "."
        )
    _check(estimator)
    data = rereadable(battles)
    named = {*peek(data, reading.format, "llm-judge", reading.map).raw_columns, *(reading.map or {})}
    if reading.default_source is None and "source" not in named:
        reading = replace(reading, default_source="llm-judge")
    seen = peek(data, reading.format, reading.default_source, reading.map).columns
    judged = read_for(_by_judge(estimator), data, reading, also=[name for name in MATCHED_BY if name in seen])
    board = correct_by_people(judged, read_labels(people, judged, battles, reading), estimator)
    came_from = {**origin(battles, reading), "people_sha256": files_sha256(people)}
    return replace(board, settings={**board.settings, **came_from})


def read_labels(
    people: BattleData, judged: BattleTable, battles: BattleData, reading: InputOptions = AS_IT_IS
) -> BattleTable:
    """People's labels: battles whose rows are people's unless they say otherwise, or a filled-in label sheet.

    Parameters:
        people: A table, or whatever `read_battles` takes.
        judged: The judge's battles.
        battles: Where these came from: the folder that a sheet was drawn from.
        reading: Columns under other names, and what to do with bad rows.
    """
    data = from_spreadsheet(rereadable(people))
    if is_sheet(data):
        return read_sheet(data, judged, find_key(battles), reading.on_bad)
    raw = peek(data, default_source="human").raw_columns if reading.map else ()
    mapped = {ours: theirs for ours, theirs in (reading.map or {}).items() if theirs in raw or ":" in ours}
    return read_battles(data, default_source="human", on_bad=reading.on_bad, map=mapped or None)


def correct_by_people(judged: BattleTable, people: BattleTable, estimator: BradleyTerry) -> Leaderboard:
    """A board on people's scale: the judge's battles on all matchups, corrected by people's labels on some of them.

    Labels are matched by prompt, the two models in either order, and dimension where both have one. They must be a
    random draw of the judged matchups, or of whole prompts.

    Parameters:
        judged: The judge's battles, with prompts.
        people: People's battles, with prompts; voters where they are known.
        estimator: How to rate: ties, level, clusters, anchor, which battles.
    """
    _check(estimator)
    judge_board = _by_judge(estimator).fit(judged)
    matched = match_labels(_among_models(judged, judge_board), people, estimator.selection, estimator.cluster)
    inside = joined_by_labels(matched)
    data = among(matched, inside)
    check_labels(data)
    tie_model = TIE_MODELS["half" if estimator.ties == "half" else "davidson"]
    found = fit_with_people(data, tie_model)
    return _Board(estimator, judge_board, matched, inside, data, found).build()


def _check(estimator: BradleyTerry) -> None:
    for name in WITHOUT:
        if getattr(estimator, name):
            raise OptionError(f"people's labels do not go with {name}: leave one of the two out.")
    if estimator.ci != "sandwich":
        raise OptionError("people's labels go with ", OptionValue("ci", "sandwich"), " alone.")
    if estimator.ties not in ("davidson", "half"):
        raise OptionError(
            "people's labels go with ",
            OptionValue("ties", "davidson"),
            " or ",
            OptionValue("ties", "half"),
            f", not with {estimator.ties}.",
        )
    if estimator.selection.inconsistent == "drop" or estimator.selection.source is not None:
        raise OptionError(
            "people's labels need every judged matchup: leave out ",
            OptionValue("inconsistent", "drop"),
            " and ",
            OptionValue("source"),
            ", which choose among them by what the judge said.",
        )
    asked = asked_clusters(estimator.cluster)
    odd = [name for name in asked or () if name not in ("question_id", "voter")]
    if odd:
        raise OptionError(f"with people's labels cluster is prompt, voter, both or none, not {odd[0]!r}.")


def _by_judge(estimator: BradleyTerry) -> BradleyTerry:
    """The same for the judge's battles alone: voters, and the anchor, are people's."""
    selection = replace(estimator.selection, source="llm-judge")
    return replace(estimator, anchor=None, misfit=False, cluster="auto", selection=selection)


def _among_models(judged: BattleTable, board: Leaderboard) -> BattleTable:
    """The battles among the models of a board."""
    inside = np.isin(judged.models, board.models)
    return judged.take(inside[judged.model_a] & inside[judged.model_b])


@dataclass(frozen=True, slots=True, eq=False)
class _Board:
    """What a corrected board is made of."""

    estimator: BradleyTerry
    judge: Leaderboard
    matched: MatchedLabels
    inside: NDArray[np.bool_]
    data: LabelledMatchups
    found: PeopleFit

    @property
    def names(self) -> list[str]:
        """The models that people's labels join."""
        return [name for name, kept in zip(self.matched.models, self.inside, strict=True) if kept]

    def build(self) -> Leaderboard:
        """The board: corrected models, and those without a label on the judge's scale."""
        rows = self._corrected()
        rows |= self._uncorrected(rows)
        order = sorted(rows, key=lambda name: -rows[name].rating)
        rating = np.array([rows[name].rating for name in order])
        entries = tuple(
            replace(rows[name], rank=int(place)) for name, place in zip(order, ranks(rating).tolist(), strict=True)
        )
        people = self._details(entries)
        anchor = self.estimator.anchor
        return replace(
            self.judge,
            entries=entries,
            settings={
                **self.judge.settings,
                "tie_model": self.found.fit.tie_model.name,
                "both_bad": self.estimator.selection.both_bad,
                "anchor": None if anchor is None else {"model": anchor[0], "rating": anchor[1]},
                "interval": {
                    "kind": "sandwich",
                    "level": self.estimator.level,
                    **interval_settings(self.found.covariance, self.matched.columns),
                    "anytime": False,
                },
            },
            left_out={**self.judge.left_out, **self.matched.left_out},
            remarks=tuple(self._remarks(people)),
            details={"people": people},
            arrays={
                "models": np.array(self.names),
                "covariance": POINTS_PER_LOGIT**2 * self.found.covariance.matrix,
            },
        )

    def _corrected(self) -> dict[str, RatingEntry]:
        """The entries of models that people's labels join."""
        found, names, level = self.found, self.names, self.estimator.level
        anchor, strength = self._anchor(), found.fit.parameters.strength
        weights = zero_weights(found.covariance.known, anchor)
        zero = 0.0 if weights is None else float(weights @ strength)
        half = half_widths(found.covariance, level, weights)
        sure = Certainty(strength, zero, (strength - half, strength + half))
        start = (CENTRE if self.estimator.anchor is None else self.estimator.anchor[1]) - POINTS_PER_LOGIT * zero
        low, high = rating_ends(sure, found.state, start, anchor)
        places = rank_intervals(strength, apart(found.covariance, level))
        alone = self._people_only(anchor)
        notes = self._notes()
        labels = sum_by(self.data.first[self.data.matchup], self.data.weight, len(names))
        labels += sum_by(self.data.second[self.data.matchup], self.data.weight, len(names))
        others = len(self.matched.models) - len(names)
        return {
            name: replace(
                self.judge[name],
                rating=start + POINTS_PER_LOGIT * float(strength[i]),
                ci_low=low[i],
                ci_high=high[i],
                rank_low=int(places.low[i]),
                rank_high=int(places.high[i]) + others,
                note=notes[i],
                extra={"judge_rating": self.judge[name].rating, "labels": whole(round(labels[i], 6)), **alone[i]},
            )
            for i, name in enumerate(names)
        }

    def _people_only(self, anchor: int | None) -> list[dict[str, float | None]]:
        """What people's labels alone say of each model."""
        found, alone = self.found, self.found.alone
        strength = found.people.parameters.strength
        weights = zero_weights(alone.known, anchor)
        zero = 0.0 if weights is None else float(weights @ strength)
        half = half_widths(alone, self.estimator.level, weights)
        start = (CENTRE if self.estimator.anchor is None else self.estimator.anchor[1]) - POINTS_PER_LOGIT * zero
        low, high = rating_ends(
            Certainty(strength, zero, (strength - half, strength + half)), found.state, start, anchor
        )
        return [
            {
                "people_only_rating": start + POINTS_PER_LOGIT * float(strength[i]),
                "people_only_low": low[i],
                "people_only_high": high[i],
            }
            for i in range(len(strength))
        ]

    def _uncorrected(self, corrected: dict[str, RatingEntry]) -> dict[str, RatingEntry]:
        """The entries of the others: the judge's, moved so that the corrected ones keep their mean."""
        models = len(self.matched.models)
        move = float(np.mean([entry.rating - self.judge[name].rating for name, entry in corrected.items()]))
        labelled = set(self.matched.data.first[self.matched.data.matchup].tolist())
        labelled |= set(self.matched.data.second[self.matched.data.matchup].tolist())
        rows = {}
        for code, name in enumerate(self.matched.models):
            if self.inside[code]:
                continue
            entry = self.judge[name]
            rows[name] = replace(
                entry,
                rating=entry.rating + move,
                ci_low=None if entry.ci_low is None else entry.ci_low + move,
                ci_high=None if entry.ci_high is None else entry.ci_high + move,
                rank_low=1,
                rank_high=models,
                note=APART_BY_LABELS if code in labelled else NO_LABEL,
                extra={"judge_rating": entry.rating, "labels": 0},
            )
        return rows

    def _anchor(self) -> int | None:
        if self.estimator.anchor is None:
            return None
        name = self.estimator.anchor[0]
        if name not in self.names:
            raise OptionError(
                f"the anchor {name!r} has no label that joins it to the others: anchor one of "
                f"{', '.join(self.names[:8])}."
            )
        return self.names.index(name)

    def _notes(self) -> list[str | None]:
        """Why an interval is open, rough or missing: by people's labels."""
        rough = cluster_notes(self.found.covariance, self.matched.columns, "labels")
        open_ends = [REACH_NOTES.get(Reach(state)) for state in self.found.state]
        said = [f"by people's labels {note}" if note else None for note in open_ends]
        return ["; ".join(filter(None, both)) or None for both in zip(said, rough, strict=True)]

    def _details(self, entries: tuple[RatingEntry, ...]) -> dict[str, Any]:
        """The `people` section of a ratings file."""
        found, matched = self.found, self.matched
        share = found.information_from_people
        agreement, decided = self._agreement()
        return {
            "method": "prediction-powered",
            "lambda": found.weight,
            "labels": round(self.data.n_labelled),
            "votes": whole(matched.votes),
            "voters": matched.voters or None,
            "prompts": matched.prompts,
            "judged_matchups": len(self.data.first),
            "agreement": agreement,
            "agreement_n": decided,
            "half_width": _median_half(entries, "ci_low", "ci_high"),
            "people_only_half_width": _median_half(entries, "people_only_low", "people_only_high"),
            "information": {"people": share, "judge": 1.0 - share},
            "saves": agreement is not None and agreement >= SAVES_FROM and found.weight > 0.0,
            "not_corrected": [name for name, kept in zip(matched.models, self.inside, strict=True) if not kept],
            "random_draw_p": found.random_draw_p,
        }

    def _agreement(self) -> tuple[float | None, int]:
        """How often judge and people name the same winner, over the labelled matchups where both name one."""
        data = self.data
        n = len(data.first)
        people = np.column_stack([sum_by(data.matchup, data.weight * data.said[:, k], n) for k in range(3)])
        people_says, judge_says = (shares[:, 0] - shares[:, 1] for shares in (people, data.judged))
        decided = (people_says != 0.0) & (judge_says != 0.0)
        count = int(decided.sum())
        return (float((np.sign(people_says) == np.sign(judge_says))[decided].mean()) if count else None), count

    def _remarks(self, people: Mapping[str, Any]) -> list[str]:
        """What a reader of the corrected board has to know."""
        found = self.found
        by = f", {people['votes']:,} votes by {_count(people['voters'], 'voter')}" if people["voters"] else ""
        agreed = "no label names a winner where the judge does"
        if people["agreement"] is not None:
            agreed = f"the judge agrees with {100 * people['agreement']:.0f} % of them (n={people['agreement_n']:,})"
        lines = [
            f"on people's scale: {people['labels']:,} labelled matchups{by} correct {people['judged_matchups']:,} "
            f"judged ones; where both name a winner, {agreed}",
            f"{100 * people['information']['people']:.0f} % of the information is people's, "
            f"{100 * people['information']['judge']:.0f} % the judge's (λ {found.weight:.2f}): half the interval is "
            f"±{_points(people['half_width'])} points (median), with people's labels alone "
            f"±{_points(people['people_only_half_width'])}",
        ]
        if found.weight == 0.0:
            why = "its verdicts on unlabelled matchups add nothing"
            if people["labels"] == people["judged_matchups"]:
                why = "every judged matchup is labelled"
            lines.append(f"the judge saves nothing here ({why}): the ratings are those of people's labels")
        elif not people["saves"]:
            lines.append(
                f"the judge saves little here (agreement below {100 * SAVES_FROM:.0f} %): more labels, not more "
                "verdicts, make the intervals narrower"
            )
        lines.append("valid if the labelled matchups are a random draw of the judged ones, or of whole prompts")
        clusters = [*self.matched.remarks, *share_remarks(found.covariance, self.matched.columns, "labels")]
        return [*lines, *self._odd_draws(), *clusters]

    def _odd_draws(self) -> list[str]:
        """Sentences for labels that are no random draw, as far as that can be seen."""
        found, data, names = self.found, self.data, self.names
        lines = []
        if found.random_draw_p < NO_RANDOM_DRAW:
            worst = int(np.argmax(np.abs(found.departures)))
            more = "more" if found.departures[worst] > 0 else "less"
            what = f"ties {more} often" if worst >= len(names) else f"favours {names[worst]} {more}"
            lines.append(
                f"NOT a random draw: the judge {what} on the labelled matchups than on all "
                f"(p = {found.random_draw_p:.1g}), so the ratings are biased. Label matchups drawn at random"
            )
        n, m = data.n_labelled, len(names)
        in_all = (
            sum_by(data.first, np.ones(len(data.first)), m) + sum_by(data.second, np.ones(len(data.first)), m)
        ) / len(data.first)
        on = sum_by(data.first[data.matchup], data.weight, m) + sum_by(data.second[data.matchup], data.weight, m)
        spread = np.sqrt(np.maximum(n * in_all * (1.0 - in_all), 1.0))
        return lines + [
            f"uneven labels: {names[i]} is in {100 * on[i] / n:.0f} % of the labelled matchups and in "
            f"{100 * in_all[i]:.0f} % of the judged ones: no random draw of matchups"
            for i in np.flatnonzero(np.abs(on - n * in_all) > UNEVEN * spread).tolist()
        ]


def _median_half(entries: tuple[RatingEntry, ...], low: str, high: str) -> float | None:
    """Half the median width of the corrected models' intervals; None where there is none."""
    rows = [entry.to_dict() for entry in entries if "people_only_rating" in entry.extra]
    widths = [row[high] - row[low] for row in rows if row[low] is not None and row[high] is not None]
    return 0.5 * float(np.median(widths)) if widths else None


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _points(value: float | None) -> str:
    return "∞" if value is None else f"{value:.0f}"
