"""A judge's board corrected by people's labels on some of the judged matchups: `correct_by_people`.

A label belongs to the judge's battles on the same prompt between the same two models, in either order.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tiltyard.battles.battle import Outcome, Source
from tiltyard.battles.frames import rereadable
from tiltyard.battles.label_sheets import find_key, from_spreadsheet, is_sheet, read_sheet
from tiltyard.battles.reading import BattleData, peek, read_battles
from tiltyard.battles.table import MISSING, BattleTable
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
from tiltyard.boards.leaderboard import Leaderboard, RatingEntry, whole
from tiltyard.boards.preparation import asked_clusters, choose_clusters
from tiltyard.boards.selection import WEIGHT_ZERO, Selection, cluster_codes, select
from tiltyard.errors import NoBattles, OptionError, OptionValue, RatingError
from tiltyard.options import InputOptions
from tiltyard.ratings import POINTS_PER_LOGIT
from tiltyard.ratings.comparisons import OWN_CLUSTER, PairCells, sum_by
from tiltyard.ratings.graph import Reach, islands
from tiltyard.ratings.intervals import half_widths
from tiltyard.ratings.people_labels import LabelledMatchups, PeopleFit, fit_with_people
from tiltyard.ratings.ranks import rank_intervals, ranks
from tiltyard.ratings.tie_models import TIE_MODELS
from tiltyard.types import Floats, Ints

FEWEST_LABELS = 20
"""With fewer labelled matchups nothing is corrected."""


@dataclass(frozen=True, slots=True, eq=False)
class MatchedLabels:
    """Judged matchups of `models` with the labels that are on them, and what was left out on the way.

    `columns` are what makes labels dependent, `remarks` what is to be said about it.
    """

    models: tuple[str, ...]
    data: LabelledMatchups
    columns: tuple[str, ...]
    left_out: dict[str, float]
    remarks: list[str]
    votes: float
    voters: int
    prompts: int


def match_labels(judged: BattleTable, people: BattleTable, selection: Selection, cluster: str) -> MatchedLabels:
    """The judge's rows as matchups, people's rows as labels on them.

    Parameters:
        judged: The judge's battles, with prompts.
        people: People's battles, with prompts.
        selection: Which battles count.
        cluster: What makes labels dependent: `auto`, `prompt`, `voter`, both or `none`.
    """
    judged, people = _with_prompts(judged, "judged battles"), _with_prompts(people, "people's labels")
    table = select(judged, replace(selection, source="llm-judge", both_bad="separate")).table
    labels, left_out = _labels(people, selection)
    keys = _Keys(table, labels)
    matchup_key, matchup = np.unique(keys.judged, return_inverse=True)
    at = np.searchsorted(matchup_key, keys.labels).clip(max=len(matchup_key) - 1)
    known = (matchup_key[at] == keys.labels) & (keys.labels >= 0)
    if not known.any():
        raise NoBattles(_none_matched(table, labels))
    if not known.all():
        left_out["label on a matchup that was not judged"] = float(labels.weight[~known].sum())
    labels, on = labels.take(known), at[known].astype(np.int64)
    prompts = len(np.unique(keys.label_prompts[known]))
    said = _shares(labels, keys.flip_labels[known], both_bad_is_tie=selection.both_bad == "half")
    remarks: list[str] = []
    columns = choose_clusters(labels, cluster, remarks, unit="labels")
    voter = cluster_codes(labels, "voter") if "voter" in labels.columns else None
    on, said, weight, voter, repeated = _once_each(on, said, labels.weight, voter)
    if repeated:
        left_out["label repeated by the same voter (averaged)"] = float(repeated)
    n = len(matchup_key)
    weight = weight / sum_by(on, weight, n)[on]
    judge_weight = sum_by(matchup, table.weight, n)
    shares = _shares(_stretched(table), keys.flip_judged, both_bad_is_tie=False)
    judged_shares = np.column_stack([sum_by(matchup, table.weight * shares[:, k], n) / judge_weight for k in range(3)])
    first, second, prompt = keys.unpack(matchup_key)
    data = LabelledMatchups(
        n_models=len(table.models),
        first=first,
        second=second,
        prompt=np.unique(prompt, return_inverse=True)[1] if "question_id" in columns else np.arange(n),
        judged=judged_shares,
        matchup=on,
        said=said,
        weight=weight,
        voter=voter if "voter" in columns else None,
    )
    names = tuple(column for column in columns if column == "voter")
    names = (("question_id" if "question_id" in columns else "matchup"), *names)
    voters = 0 if voter is None else len(np.unique(voter[voter != OWN_CLUSTER]))
    return MatchedLabels(table.models, data, names, left_out, remarks, float(labels.weight.sum()), voters, prompts)


def _with_prompts(table: BattleTable, what: str) -> BattleTable:
    if "question_id" not in table.columns:
        raise OptionError(
            f"the {what} do not say which prompt they are about: labels are matched by prompt and models. "
            "Add a column question_id, or name it with ",
            OptionValue("map", {"prompt": "..."}),
            ".",
        )
    return table


def _labels(people: BattleTable, selection: Selection) -> tuple[BattleTable, dict[str, float]]:
    """People's rows: of the dimension asked for, with a prompt, of a weight above 0."""
    left_out: dict[str, float] = {f"label: {reason}": count for reason, count in people.skipped.items()}

    def keep(mask: NDArray[np.bool_], reason: str) -> None:
        nonlocal people
        if not mask.all():
            left_out[reason] = float(np.maximum(people.weight[~mask], 1.0).sum())
            people = people.take(mask)

    keep(people.source == Source.HUMAN, "label that is not a person's")
    keep(people.weight > 0.0, WEIGHT_ZERO)
    keep(people.text_column("question_id").codes != MISSING, "label without a prompt")
    if selection.dimension is not None and "dimension" in people.columns:
        texts = people.text_column("dimension")
        wanted = [code for code, text in enumerate(texts.labels) if text == selection.dimension]
        keep(np.isin(texts.codes, [*wanted, MISSING]), f"label of another dimension than {selection.dimension}")
    if not len(people):
        why = "; ".join(f"{count:,.0f} × {reason}" for reason, count in left_out.items())
        raise NoBattles(f"there is no label by people{f' ({why})' if why else ''}.")
    return people, left_out


class _Keys:
    """One number for the matchup of every row: prompt, dimension where both sides have one, and pair in fixed order.

    A label whose prompt, dimension or model the judge never saw has −1.
    """

    def __init__(self, judged: BattleTable, labels: BattleTable) -> None:
        self.models = len(judged.models)
        dimensions = _dimensions(judged, labels)
        prompt_codes = judged.text_column("question_id")
        prompts = {text: code for code, text in enumerate(prompt_codes.labels)}
        code_of = {text: code for code, text in enumerate(judged.models)}
        model = np.array([code_of.get(name, -1) for name in labels.models], dtype=np.int64)
        label_prompt = labels.text_column("question_id")
        to_prompt = np.array([prompts.get(text, -1) for text in label_prompt.labels], dtype=np.int64)
        self.label_prompts = to_prompt[label_prompt.codes]
        judged_prompt = prompt_codes.codes.astype(np.int64)
        if (judged_prompt == MISSING).any():  # a row without a prompt is a matchup of its own that no label is on
            absent = judged_prompt == MISSING
            judged_prompt[absent] = len(prompts) + np.arange(int(absent.sum()))
        self.dimensions = max(len(dimensions), 1)
        of_judged, of_labels = (_dimension_codes(table, dimensions) for table in (judged, labels))
        a, b = judged.model_a.astype(np.int64), judged.model_b.astype(np.int64)
        self.flip_judged = a > b
        self.judged = self._pack(judged_prompt, of_judged, np.minimum(a, b), np.maximum(a, b))
        a, b = model[labels.model_a], model[labels.model_b]
        self.flip_labels = a > b
        packed = self._pack(self.label_prompts, of_labels, np.minimum(a, b), np.maximum(a, b))
        self.labels = np.where((self.label_prompts < 0) | (a < 0) | (b < 0) | (of_labels < 0), -1, packed)

    def _pack(self, prompt: Ints, dimension: Ints, first: Ints, second: Ints) -> Ints:
        return np.asarray(((prompt * self.dimensions + dimension) * self.models + first) * self.models + second)

    def unpack(self, key: Ints) -> tuple[Ints, Ints, Ints]:
        """First model, second model and prompt."""
        rest, second = np.divmod(key, self.models)
        rest, first = np.divmod(rest, self.models)
        return first, second, rest // self.dimensions


def _dimensions(judged: BattleTable, labels: BattleTable) -> dict[str, int]:
    """The dimensions that matchups are told apart by: none where the judge has one, or people say none."""
    if "dimension" not in judged.columns:
        return {}
    result = judged.text_column("dimension")
    names = sorted({result.labels[code] for code in np.unique(result.codes) if code != MISSING})
    if len(names) < 2:
        return {}
    if "dimension" not in labels.columns or (labels.text_column("dimension").codes == MISSING).any():
        raise OptionError(
            f"the battles were judged on {len(names)} dimensions ({', '.join(names[:4])}), and the labels do not say "
            "which they are about. Choose one with ",
            OptionValue("dimension"),
            ", or add a column dimension to the labels.",
        )
    texts = labels.text_column("dimension")
    about = sorted({texts.labels[code] for code in np.unique(texts.codes)} & set(names))
    if about and about != names:
        raise OptionError(
            f"the battles were judged on {len(names)} dimensions ({', '.join(names[:4])}), and the labels are about "
            f"{', '.join(about[:4])} only. Choose one with ",
            OptionValue("dimension"),
        )
    return {name: code for code, name in enumerate(names)}


def _dimension_codes(table: BattleTable, dimensions: Mapping[str, int]) -> Ints:
    if not dimensions:
        return np.zeros(len(table), dtype=np.int64)
    result = table.text_column("dimension")
    code = np.array([dimensions.get(text, -1) for text in result.labels] or [-1], dtype=np.int64)
    return np.where(result.codes == MISSING, -1, code[result.codes])


def _none_matched(judged: BattleTable, labels: BattleTable) -> str:
    """What both sides are about, where they never meet."""
    mine, theirs = (table.text_column("question_id").labels[0] for table in (labels, judged))
    return (
        f"none of the {len(labels):,} labels is on a matchup that was judged. Labels are matched by prompt and the two "
        f"models; a label is on prompt {mine!r} ({labels.models[0]}, …), a judged battle on {theirs!r} "
        f"({judged.models[0]}, …). Use the same ids and names in both."
    )


MOST_STRETCHED = 10.0


def _stretched(table: BattleTable) -> BattleTable:
    """Soft scores spread as wide as wins and losses are, about ½: scores near ½ would otherwise count for little.

    Whatever the judge's scores are, people's labels correct them; how they are scaled only decides what they save.
    """
    if table.score_a is None or np.isnan(table.score_a).all():
        return table
    size = float(np.sqrt(np.nanmean((2.0 * table.score_a - 1.0) ** 2)))
    return replace(table, score_a=0.5 + (table.score_a - 0.5) / max(size, 1.0 / MOST_STRETCHED))


def _shares(table: BattleTable, flip: NDArray[np.bool_], *, both_bad_is_tie: bool) -> Floats:
    """Outcomes as shares (won, lost, tied) of the pair's first model; all 0 where both were bad."""
    rows = np.zeros((len(table), 3))
    won, lost = table.outcome == Outcome.A, table.outcome == Outcome.B
    rows[:, 0], rows[:, 1], rows[:, 2] = won, lost, table.outcome == Outcome.TIE
    if both_bad_is_tie:
        rows[:, 2] += table.outcome == Outcome.BOTH_BAD
    if table.score_a is not None:
        soft = ~np.isnan(table.score_a)
        rows[soft] = np.column_stack([table.score_a, 1.0 - table.score_a, np.zeros(len(table))])[soft]
    rows[flip] = rows[flip][:, [1, 0, 2]]
    return rows


def _once_each(
    on: Ints, said: Floats, weight: Floats, voter: Ints | None
) -> tuple[Ints, Floats, Floats, Ints | None, int]:
    """Labels with those of one voter on one matchup as one, and how many were repeats."""
    if voter is None:
        return on, said, weight, None, 0
    key = on * (int(voter.max(initial=0)) + 1) + voter
    unknown = voter == OWN_CLUSTER
    key[unknown] = -1 - np.arange(int(unknown.sum()))
    _, first, group = np.unique(key, return_index=True, return_inverse=True)
    n = len(first)
    total = sum_by(group, weight, n)
    mean = np.column_stack([sum_by(group, weight * said[:, k], n) / total for k in range(3)])
    return on[first], mean, weight[first], voter[first], len(on) - n


def joined_by_labels(matched: MatchedLabels) -> NDArray[np.bool_]:
    """Which models people's labels join: the largest group, if there are several."""
    data, m = matched.data, len(matched.models)
    heard = data.said.sum(axis=1) > 0
    if not heard.any():
        raise RatingError("all labels say that both answers are bad: they tell nobody apart.")
    if not data.said[:, :2].any():
        raise RatingError("every label is a tie: there is nothing to tell the models apart by.")
    pair = np.unique(data.first[data.matchup[heard]] * m + data.second[data.matchup[heard]])
    met = PairCells(m, pair // m, pair % m, np.ones((len(pair), 3)), np.zeros_like(pair), 1, np.empty((len(pair), 0)))
    inside = np.zeros(m, dtype=bool)
    inside[islands(met)[0]] = True
    return inside


def among(matched: MatchedLabels, inside: NDArray[np.bool_]) -> LabelledMatchups:
    """The matchups, and labels, among some models alone."""
    data = matched.data
    kept = inside[data.first] & inside[data.second]
    code, place = np.cumsum(inside) - 1, np.cumsum(kept) - 1
    labels = kept[data.matchup]
    voter = data.voter
    return LabelledMatchups(
        n_models=int(inside.sum()),
        first=code[data.first[kept]],
        second=code[data.second[kept]],
        prompt=np.unique(data.prompt[kept], return_inverse=True)[1],
        judged=data.judged[kept],
        matchup=place[data.matchup[labels]],
        said=data.said[labels],
        weight=data.weight[labels],
        voter=None if voter is None else voter[labels],
    )


def check_labels(data: LabelledMatchups) -> None:
    """Refuse too few labels."""
    n = round(data.n_labelled)
    if n < FEWEST_LABELS:
        raise RatingError(
            f"{n} labelled {'matchup is' if n == 1 else 'matchups are'} too few to correct a judge by: {FEWEST_LABELS} "
            "is the least, and intervals are useful from about 15 a model. Add labels, or rate without people's."
        )


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
    result = fit_with_people(data, tie_model)
    return _Board(estimator, judge_board, matched, inside, data, result).build()


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
        result, names, level = self.found, self.names, self.estimator.level
        anchor, strength = self._anchor(), result.fit.parameters.strength
        weights = zero_weights(result.covariance.known, anchor)
        zero = 0.0 if weights is None else float(weights @ strength)
        half = half_widths(result.covariance, level, weights)
        sure = Certainty(strength, zero, (strength - half, strength + half))
        start = (CENTRE if self.estimator.anchor is None else self.estimator.anchor[1]) - POINTS_PER_LOGIT * zero
        low, high = rating_ends(sure, result.state, start, anchor)
        places = rank_intervals(strength, apart(result.covariance, level))
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
        result, alone = self.found, self.found.alone
        strength = result.people.parameters.strength
        weights = zero_weights(alone.known, anchor)
        zero = 0.0 if weights is None else float(weights @ strength)
        half = half_widths(alone, self.estimator.level, weights)
        start = (CENTRE if self.estimator.anchor is None else self.estimator.anchor[1]) - POINTS_PER_LOGIT * zero
        low, high = rating_ends(
            Certainty(strength, zero, (strength - half, strength + half)), result.state, start, anchor
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
        notes = [f"by people's labels {note}" if note else None for note in open_ends]
        return ["; ".join(filter(None, both)) or None for both in zip(notes, rough, strict=True)]

    def _details(self, entries: tuple[RatingEntry, ...]) -> dict[str, Any]:
        """The `people` section of a ratings file."""
        result, matched = self.found, self.matched
        share = result.information_from_people
        agreement, decided = self._agreement()
        return {
            "method": "prediction-powered",
            "lambda": result.weight,
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
            "saves": agreement is not None and agreement >= SAVES_FROM and result.weight > 0.0,
            "not_corrected": [name for name, kept in zip(matched.models, self.inside, strict=True) if not kept],
            "random_draw_p": result.random_draw_p,
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
        result = self.found
        by = f", {people['votes']:,} votes by {_count(people['voters'], 'voter')}" if people["voters"] else ""
        agreed = "no label names a winner where the judge does"
        if people["agreement"] is not None:
            agreed = f"the judge agrees with {100 * people['agreement']:.0f} % of them (n={people['agreement_n']:,})"
        lines = [
            f"on people's scale: {people['labels']:,} labelled matchups{by} correct {people['judged_matchups']:,} "
            f"judged ones; where both name a winner, {agreed}",
            f"{100 * people['information']['people']:.0f} % of the information is people's, "
            f"{100 * people['information']['judge']:.0f} % the judge's (λ {result.weight:.2f}): half the interval is "
            f"±{_points(people['half_width'])} points (median), with people's labels alone "
            f"±{_points(people['people_only_half_width'])}",
        ]
        if result.weight == 0.0:
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
        clusters = [*self.matched.remarks, *share_remarks(result.covariance, self.matched.columns, "labels")]
        return [*lines, *self._odd_draws(), *clusters]

    def _odd_draws(self) -> list[str]:
        """Sentences for labels that are no random draw, as far as that can be seen."""
        result, data, names = self.found, self.data, self.names
        lines = []
        if result.random_draw_p < NO_RANDOM_DRAW:
            worst = int(np.argmax(np.abs(result.departures)))
            more = "more" if result.departures[worst] > 0 else "less"
            what = f"ties {more} often" if worst >= len(names) else f"favours {names[worst]} {more}"
            lines.append(
                f"NOT a random draw: the judge {what} on the labelled matchups than on all "
                f"(p = {result.random_draw_p:.1g}), so the ratings are biased. Label matchups drawn at random"
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
