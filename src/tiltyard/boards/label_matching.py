"""People's labels and the judge's battles brought together: the same prompt, the same two models, in either order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tiltyard.battles.battle import Outcome, Source
from tiltyard.battles.table import MISSING, BattleTable
from tiltyard.boards.preparation import choose_clusters
from tiltyard.boards.selection import WEIGHT_ZERO, Selection, cluster_codes, select
from tiltyard.errors import NoBattles, OptionError, OptionValue, RatingError
from tiltyard.ratings.comparisons import OWN_CLUSTER, PairCells, sum_by
from tiltyard.ratings.graph import islands
from tiltyard.ratings.people_labels import LabelledMatchups
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
            'Add a column question_id, or name it with map={"prompt": "..."}.'
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
    found = judged.text_column("dimension")
    names = sorted({found.labels[code] for code in np.unique(found.codes) if code != MISSING})
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
    found = table.text_column("dimension")
    code = np.array([dimensions.get(text, -1) for text in found.labels] or [-1], dtype=np.int64)
    return np.where(found.codes == MISSING, -1, code[found.codes])


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
