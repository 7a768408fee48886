"""A judge's board corrected by people's labels on some of the judged matchups: `corrected_board`.

A label belongs to the judge's battles on the same prompt between the same two models, in either order.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from tiltyard.analysis.boards.bradley_terry import (
    CENTRE,
    REACH_NOTES,
    BradleyTerry,
    Certainty,
    apart,
    cluster_notes,
    error_arrays,
    interval_settings,
    rating_ends,
    share_remarks,
    zero_weights,
)
from tiltyard.analysis.boards.leaderboard import Leaderboard, RatingEntry, ordered_arrays, whole
from tiltyard.analysis.boards.preparation import (
    WEIGHT_ZERO,
    Selection,
    asked_clusters,
    choose_clusters,
    cluster_codes,
    select,
)
from tiltyard.analysis.boards.record import (
    AnchorFacts,
    BoardDetails,
    InformationShares,
    IntervalFacts,
    PeopleLabels,
    RecordedDraw,
)
from tiltyard.data.battles import MISSING, BattleTable, Outcome, Source
from tiltyard.errors import NoBattles, OptionError, OptionValue, RatingError
from tiltyard.stats import (
    OWN_CLUSTER,
    POINTS_PER_LOGIT,
    TIE_MODELS,
    Covariance,
    DrawCheck,
    LabelledMatchups,
    PairCells,
    PeopleFit,
    Reach,
    Trait,
    check_draw,
    fit_with_people,
    half_widths,
    islands,
    kinds,
    rank_intervals,
    sum_by,
)
from tiltyard.stats.ranks import ranks
from tiltyard.types import Bools, Floats, Ints

FEWEST_LABELS = 20
"""With fewer labelled matchups nothing is corrected."""

SAVES_FROM = 0.75
"""Below this agreement a judge saves no labels worth mentioning: at most (2 · 0.75 − 1)² = a quarter at it."""

NO_LABEL = "no label: on the judge's scale, not corrected; its interval says nothing about people"
APART_BY_LABELS = "its labels do not join it to the others: on the judge's scale, not corrected"

DRAW = ("draw_place", "draw_of")
"""Columns in which labels carry their draw."""

LENGTHS = ("len_a", "len_b")
KINDS = ("category", "subject", "prompt_source", "language", "difficulty")
"""Columns in which labelled matchups are held against all."""

WITHOUT = ("control", "slot", "shrink", "robustness", "anytime")
"""Options of Bradley–Terry that a corrected board does not have."""


MOST_STRETCHED = 10.0
"""Soft scores are spread by at most this factor."""


def check_correctable(estimator: BradleyTerry) -> None:
    """Refuse options that a board corrected by people's labels does not have."""
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


def by_judge(estimator: BradleyTerry) -> BradleyTerry:
    """The estimator of the judge's battles alone: voters, and the anchor, are people's."""
    selection = replace(estimator.selection, source="llm-judge")
    return replace(estimator, anchor=None, misfit=False, cluster="auto", selection=selection)


def corrected_board(judged: BattleTable, people: BattleTable, estimator: BradleyTerry) -> Leaderboard:
    """The board of the judge's battles, corrected by people's labels on some of them."""
    judge = by_judge(estimator).fit(judged)
    rated = np.isin(judged.models, judge.models)
    among = judged.take(rated[judged.model_a] & rated[judged.model_b])
    matched = _match(among, people, estimator.selection, estimator.cluster, judge)
    inside = _joined(matched.data)
    data = _among(matched.data, inside)
    n = round(data.n_labelled)
    if n < FEWEST_LABELS:
        raise RatingError(
            f"{n} labelled {'matchup is' if n == 1 else 'matchups are'} too few to correct a judge by: {FEWEST_LABELS} "
            "is the least, and intervals are useful from about 15 a model. Add labels, or rate without people's."
        )
    fit = fit_with_people(data, TIE_MODELS["half" if estimator.ties == "half" else "davidson"])
    return _build(estimator, judge, matched, inside, data, fit)


class _Matched(msgspec.Struct, frozen=True, eq=False):
    """Judged matchups of `models` with the labels that are on them, and what was left out on the way.

    `columns` are what makes labels dependent, `remarks` what is to be said about it. `draw` is what the labels carry of
    their draw, `check` what they look like.
    """

    models: tuple[str, ...]
    data: LabelledMatchups
    columns: tuple[str, ...]
    left_out: dict[str, float]
    remarks: list[str]
    votes: float
    voters: int
    prompts: int
    draw: RecordedDraw | None
    check: DrawCheck


def _match(
    judged: BattleTable, people: BattleTable, selection: Selection, cluster: str, judge: Leaderboard
) -> _Matched:
    """The judge's rows as matchups, people's rows as labels on them.

    A matchup is one number: prompt, dimension where both sides have one, and pair in fixed order. A label whose prompt,
    dimension or model the judge never saw has −1.
    """
    for table, what in ((judged, "judged battles"), (people, "people's labels")):
        if "question_id" not in table.columns:
            raise OptionError(
                f"the {what} do not say which prompt they are about: labels are matched by prompt and models. "
                "Add a column question_id, or name it with ",
                OptionValue("map", {"prompt": "..."}),
                ".",
            )
    judged = select(judged, replace(selection, source="llm-judge", both_bad="separate")).table
    labels, left_out = _labels(people, selection)
    m, dimensions = len(judged.models), _dimensions(judged, labels)
    d = max(len(dimensions), 1)
    prompts = judged.text_column("question_id")
    prompt = prompts.codes.astype(np.int64)
    absent = prompt == MISSING  # a row without a prompt is a matchup of its own that no label is on
    prompt[absent] = len(prompts.labels) + np.arange(int(absent.sum()))

    def keys(prompt: Ints, dimension: Ints, a: Ints, b: Ints) -> Ints:
        return np.asarray(((prompt * d + dimension) * m + np.minimum(a, b)) * m + np.maximum(a, b))

    a, b = judged.model_a.astype(np.int64), judged.model_b.astype(np.int64)
    flipped = a > b
    matchup_key, matchup = np.unique(keys(prompt, _coded(judged, "dimension", dimensions), a, b), return_inverse=True)
    code_of = {name: code for code, name in enumerate(judged.models)}
    model = np.array([code_of.get(name, -1) for name in labels.models], dtype=np.int64)
    label_prompt = _coded(labels, "question_id", {text: code for code, text in enumerate(prompts.labels)})
    a, b = model[labels.model_a], model[labels.model_b]
    about = _coded(labels, "dimension", dimensions)
    label_key = np.where(np.minimum(label_prompt, about) < 0, -1, keys(label_prompt, about, a, b))
    label_key[np.minimum(a, b) < 0] = -1
    on = np.searchsorted(matchup_key, label_key).clip(max=len(matchup_key) - 1)
    known = (matchup_key[on] == label_key) & (label_key >= 0)
    if not known.any():
        mine, theirs = (table.text_column("question_id").labels[0] for table in (labels, judged))
        raise NoBattles(
            f"none of the {len(labels):,} labels is on a matchup that was judged. Labels are matched by prompt and the "
            f"two models; a label is on prompt {mine!r} ({labels.models[0]}, …), a judged battle on {theirs!r} "
            f"({judged.models[0]}, …). Use the same ids and names in both."
        )
    if not known.all():
        left_out["label on a matchup that was not judged"] = float(labels.weight[~known].sum())
    draw = _recorded_draw(labels, label_key)
    labels, on = labels.take(known), on[known].astype(np.int64)
    said = _shares(labels, (a > b)[known], both_bad_is_tie=selection.both_bad == "half")
    clusters = choose_clusters(labels, cluster)
    columns = clusters.columns
    voter = cluster_codes(labels, "voter").astype(np.int64) if "voter" in labels.columns else None
    on, said, weight, voter, repeated = _once_each(on, said, labels.weight, voter)
    if repeated:
        left_out["label repeated by the same voter (averaged)"] = float(repeated)
    n = len(matchup_key)
    shares = _shares(_stretched(judged), flipped, both_bad_is_tie=False)
    total = sum_by(matchup, judged.weight, n)
    pair, second = np.divmod(matchup_key, m)
    pair, first = np.divmod(pair, m)
    data = LabelledMatchups(
        n_models=m,
        first=first,
        second=second,
        prompt=np.unique(pair // d, return_inverse=True)[1] if "question_id" in columns else np.arange(n),
        judged=np.column_stack([sum_by(matchup, judged.weight * shares[:, k], n) / total for k in range(3)]),
        matchup=on,
        said=said,
        weight=weight / sum_by(on, weight, n)[on],
        voter=voter if "voter" in columns else None,
    )
    labelled = np.zeros(n, dtype=bool)
    labelled[on] = True
    traits = _traits(judged, matchup, data, judge)
    by_prompt = np.unique(pair // d, return_inverse=True)[1]
    return _Matched(
        models=judged.models,
        data=data,
        columns=("question_id" if "question_id" in columns else "matchup", *(("voter",) if "voter" in columns else ())),
        left_out=left_out,
        remarks=clusters.sentences("labels"),
        votes=float(labels.weight.sum()),
        voters=0 if voter is None else len(np.unique(voter[voter != OWN_CLUSTER])),
        prompts=len(np.unique(label_prompt[known])),
        draw=draw,
        check=check_draw(traits, labelled, np.random.default_rng(0), by_prompt),
    )


def _recorded_draw(labels: BattleTable, matchup: Ints) -> RecordedDraw | None:
    """What the labels carry of their draw: each its place in a random order, of how many; None if any has none."""
    if not labels.columns.keys() >= {*DRAW}:
        return None
    place, of = (labels.number_column(name) for name in DRAW)
    if not ((place >= 1.0) & (place <= of) & (place % 1.0 == 0.0) & (of < LARGEST_DRAW)).all():
        return None
    # Each dimension, and each sheet, has an order of its own.
    names = [name for name in ("dimension", "draw") if name in labels.columns]
    drawn = np.unique(
        np.column_stack([labels.text_column(name).codes for name in names] + [place, of, matchup]), axis=0
    )
    orders, order = np.unique(drawn[:, : len(names)], axis=0, return_inverse=True)
    order = np.asarray(order).ravel()
    if len(np.unique(np.column_stack([order, drawn[:, -3]]), axis=0)) < len(drawn):
        return None
    last = sum(int(drawn[order == k, -3].max()) for k in range(len(orders)))
    largest: dict[float, float] = {}
    for dimension, of_all in zip(
        drawn[:, 0] if "dimension" in names else [0.0] * len(drawn), drawn[:, -2], strict=True
    ):
        largest[dimension] = max(largest.get(dimension, 0.0), of_all)
    return RecordedDraw(of=int(sum(largest.values())), first=last, left_out=last - len(drawn))


LARGEST_DRAW = 1e9


def _traits(judged: BattleTable, matchup: Ints, data: LabelledMatchups, judge: Leaderboard) -> list[Trait]:
    """What is known of every judged matchup: what the judge said, who met, how long answers are, and of what kind."""
    n, lead = len(data.first), data.judged[:, 0] - data.judged[:, 1]
    rating = np.array([judge[name].rating if name in judge.models else np.nan for name in judged.models])
    gap = np.round(rating[data.first] - rating[data.second], 6)
    traits = [
        Trait("how often the judge finds a winner", np.abs(lead)),
        Trait("what the judge's favourite wins more than it loses", np.where(gap == 0.0, np.nan, lead * np.sign(gap))),
        Trait("how far apart the two are in the judge's ratings", np.abs(gap)),
    ]
    for code, name in enumerate(judged.models):
        is_first, is_second = data.first == code, data.second == code
        own = np.where(is_first, lead, np.where(is_second, -lead, np.nan))
        traits.append(Trait(f"what {name} wins more than it loses with the judge", own))
        traits.append(Trait(f"the share with {name}", (is_first | is_second) * 1.0))
    row = np.unique(matchup, return_index=True)[1]
    prompts = judged.text_column("question_id")
    used = sorted({prompts.labels[code] for code in np.unique(prompts.codes) if code != MISSING}, key=_in_order)
    place = {text: float(number) for number, text in enumerate(used, start=1)}
    places = np.array([*(place.get(text, np.nan) for text in prompts.labels), np.nan])
    traits.append(Trait("the place of the prompt in the order of ids", places[prompts.codes[row]]))
    len_a, len_b = (judged.columns.get(name) for name in LENGTHS)
    if isinstance(len_a, np.ndarray) and isinstance(len_b, np.ndarray):
        both = sum_by(matchup, len_a + len_b, n) / np.bincount(matchup)
        traits.append(Trait("the length of the two answers", both))
    for name in KINDS:
        if name in judged.columns:
            texts = judged.text_column(name)
            labels = (*texts.labels, None)  # the last is the one of a missing text, −1
            traits += kinds(name, [labels[code] for code in texts.codes[row].tolist()])
    return traits


def _in_order(text: str) -> list[tuple[int, str]]:
    """Sorts p2 before p10."""
    return [(int(part), "") if part.isdecimal() else (0, part) for part in re.split(r"(\d+)", text)]


def _coded(table: BattleTable, column: str, codes: Mapping[str, int]) -> Ints:
    """The codes of a column's texts, −1 for one that has none; all 0 where there are no codes."""
    if not codes:
        return np.zeros(len(table), dtype=np.int64)
    texts = table.text_column(column)
    code = np.array([*(codes.get(text, -1) for text in texts.labels), -1], dtype=np.int64)
    return np.asarray(code[texts.codes])


def _labels(people: BattleTable, selection: Selection) -> tuple[BattleTable, dict[str, float]]:
    """People's rows: of the dimension asked for, with a prompt, of a weight above 0."""
    left_out: dict[str, float] = {f"label: {reason}": count for reason, count in people.skipped.items()}

    def keep(mask: Bools, reason: str) -> None:
        nonlocal people
        if not mask.all():
            left_out[reason] = float(np.maximum(people.weight[~mask], 1.0).sum())
            people = people.take(mask)

    keep(people.source == Source.HUMAN.code, "label that is not a person's")
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


def _stretched(table: BattleTable) -> BattleTable:
    """Soft scores spread as wide as wins and losses are, about ½: scores near ½ would otherwise count for little.

    Whatever the judge's scores are, people's labels correct them; how they are scaled only decides what they save.
    """
    if table.score_a is None or np.isnan(table.score_a).all():
        return table
    size = float(np.sqrt(np.nanmean((2.0 * table.score_a - 1.0) ** 2)))
    return replace(table, score_a=0.5 + (table.score_a - 0.5) / max(size, 1.0 / MOST_STRETCHED))


def _shares(table: BattleTable, flip: Bools, *, both_bad_is_tie: bool) -> Floats:
    """Outcomes as shares (won, lost, tied) of the pair's first model; all 0 where both were bad."""
    rows = np.zeros((len(table), 3))
    won, lost = table.outcome == Outcome.A.code, table.outcome == Outcome.B.code
    rows[:, 0], rows[:, 1], rows[:, 2] = won, lost, table.outcome == Outcome.TIE.code
    if both_bad_is_tie:
        rows[:, 2] += table.outcome == Outcome.BOTH_BAD.code
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


def _joined(data: LabelledMatchups) -> Bools:
    """Which models people's labels join: the largest group, if there are several."""
    m = data.n_models
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


def _among(data: LabelledMatchups, inside: Bools) -> LabelledMatchups:
    """The matchups, and labels, among some models alone."""
    kept = inside[data.first] & inside[data.second]
    code, place = np.cumsum(inside) - 1, np.cumsum(kept) - 1
    labels = kept[data.matchup]
    return LabelledMatchups(
        n_models=int(inside.sum()),
        first=code[data.first[kept]],
        second=code[data.second[kept]],
        prompt=np.unique(data.prompt[kept], return_inverse=True)[1],
        judged=data.judged[kept],
        matchup=place[data.matchup[labels]],
        said=data.said[labels],
        weight=data.weight[labels],
        voter=None if data.voter is None else data.voter[labels],
    )


def _build(
    estimator: BradleyTerry,
    judge: Leaderboard,
    matched: _Matched,
    inside: Bools,
    data: LabelledMatchups,
    fit: PeopleFit,
) -> Leaderboard:
    """The board: the models that labels join, corrected, and the others on the judge's scale."""
    names = [name for name, kept in zip(matched.models, inside, strict=True) if kept]
    rows = _corrected(estimator, judge, names, data, fit, len(matched.models))
    move = float(np.mean([entry.rating - judge[name].rating for name, entry in rows.items()]))
    labelled = {*matched.data.first[matched.data.matchup].tolist(), *matched.data.second[matched.data.matchup].tolist()}
    for code in np.flatnonzero(~inside).tolist():
        entry = judge[matched.models[code]]
        rows[entry.model] = replace(
            entry,
            rating=entry.rating + move,
            ci_low=None if entry.ci_low is None else entry.ci_low + move,
            ci_high=None if entry.ci_high is None else entry.ci_high + move,
            rank_low=1,
            rank_high=len(matched.models),
            note=APART_BY_LABELS if code in labelled else NO_LABEL,
            extra={"judge_rating": entry.rating, "labels": 0},
        )
    rough = cluster_notes(fit.covariance, matched.columns, "labels")
    for name, state, note in zip(names, fit.state, rough, strict=True):
        bound = REACH_NOTES.get(Reach(state))
        notes = [f"by people's labels {bound}" if bound else None, note]
        rows[name] = replace(rows[name], note="; ".join(filter(None, notes)) or None)
    ordered = sorted(rows.values(), key=lambda entry: -entry.rating)
    places = ranks(np.array([entry.rating for entry in ordered])).tolist()
    entries = tuple(replace(entry, rank=int(place)) for entry, place in zip(ordered, places, strict=True))
    people = _details(matched, inside, data, fit, entries)
    remarks = [*_remarks(people, fit, matched)]
    remarks += [*matched.remarks, *share_remarks(fit.covariance, matched.columns, "labels")]
    interval = interval_settings(fit.covariance, matched.columns)
    return replace(
        judge,
        entries=entries,
        settings=msgspec.structs.replace(
            judge.settings,
            tie_model=fit.fit.tie_model.name,
            both_bad=estimator.selection.both_bad,
            anchor=None if estimator.anchor is None else AnchorFacts(*estimator.anchor),
            interval=IntervalFacts(kind="sandwich", level=estimator.level, anytime=False, **interval),
        ),
        left_out={**judge.left_out, **matched.left_out},
        remarks=tuple(remarks),
        details=BoardDetails(people=people),
        arrays=_arrays(estimator, names, fit.covariance, [entry.model for entry in entries]),
    )


def _arrays(
    estimator: BradleyTerry, names: list[str], covariance: Covariance, order: list[str]
) -> dict[str, NDArray[Any]]:
    """What the board hands out of its errors; NaN for models that no label joins."""
    anchor = None if estimator.anchor is None else names.index(estimator.anchor[0])
    zero = zero_weights(covariance.known, anchor)
    arrays = error_arrays(covariance, estimator.level, zero, half_widths(covariance, estimator.level, zero))
    padded = {name: np.pad(values, (0, 1), constant_values=np.nan) for name, values in arrays.items()}
    at = [names.index(name) if name in names else len(names) for name in order]
    return {"models": np.array(order), **ordered_arrays(padded, np.array(at))}


def _corrected(
    estimator: BradleyTerry,
    judge: Leaderboard,
    names: list[str],
    data: LabelledMatchups,
    fit: PeopleFit,
    models: int,
) -> dict[str, RatingEntry]:
    """The entries of models that people's labels join, with what these labels alone say of each."""
    anchor = None
    if estimator.anchor is not None:
        if estimator.anchor[0] not in names:
            raise OptionError(
                f"the anchor {estimator.anchor[0]!r} has no label that joins it to the others: anchor one of "
                f"{', '.join(names[:8])}."
            )
        anchor = names.index(estimator.anchor[0])

    def scaled(strength: Floats, covariance: Covariance) -> tuple[Floats, Any, Any]:
        weights = zero_weights(covariance.known, anchor)
        zero = 0.0 if weights is None else float(weights @ strength)
        half = half_widths(covariance, estimator.level, weights)
        start = (CENTRE if estimator.anchor is None else estimator.anchor[1]) - POINTS_PER_LOGIT * zero
        sure = Certainty(strength, zero, (strength - half, strength + half))
        return start + POINTS_PER_LOGIT * strength, *rating_ends(sure, fit.state, start, anchor)

    strength = fit.fit.parameters.strength
    rating, low, high = scaled(strength, fit.covariance)
    alone, alone_low, alone_high = scaled(fit.people.parameters.strength, fit.alone)
    places = rank_intervals(strength, apart(fit.covariance, estimator.level))
    first, second = data.first[data.matchup], data.second[data.matchup]
    labels = sum_by(first, data.weight, data.n_models) + sum_by(second, data.weight, data.n_models)
    return {
        name: replace(
            judge[name],
            rating=float(rating[i]),
            ci_low=low[i],
            ci_high=high[i],
            rank_low=int(places.low[i]),
            rank_high=int(places.high[i]) + models - len(names),
            extra={
                "judge_rating": judge[name].rating,
                "labels": whole(round(labels[i], 6)),
                "people_only_rating": float(alone[i]),
                "people_only_low": alone_low[i],
                "people_only_high": alone_high[i],
            },
        )
        for i, name in enumerate(names)
    }


def _details(
    matched: _Matched, inside: Bools, data: LabelledMatchups, fit: PeopleFit, entries: tuple[RatingEntry, ...]
) -> PeopleLabels:
    """The `people` section of a ratings file; agreement is over the labelled matchups where both name a winner."""
    n = len(data.first)
    people = np.column_stack([sum_by(data.matchup, data.weight * data.said[:, k], n) for k in range(3)])
    people_says, judge_says = (shares[:, 0] - shares[:, 1] for shares in (people, data.judged))
    decided = (people_says != 0.0) & (judge_says != 0.0)
    agreement = float((np.sign(people_says) == np.sign(judge_says))[decided].mean()) if decided.any() else None
    share = fit.information_from_people
    return PeopleLabels(
        method="prediction-powered",
        lambda_=fit.weight,
        labels=round(data.n_labelled),
        votes=whole(matched.votes),
        voters=matched.voters or None,
        prompts=matched.prompts,
        judged_matchups=n,
        agreement=agreement,
        agreement_n=int(decided.sum()),
        half_width=_median_half(entries, "ci_low", "ci_high"),
        people_only_half_width=_median_half(entries, "people_only_low", "people_only_high"),
        information=InformationShares(share, 1.0 - share),
        saves=agreement is not None and agreement >= SAVES_FROM and fit.weight > 0.0,
        not_corrected=[name for name, kept in zip(matched.models, inside, strict=True) if not kept],
        random_draw_p=matched.check.p,
        draw=matched.draw,
    )


def _remarks(people: PeopleLabels, fit: PeopleFit, matched: _Matched) -> list[str]:
    voters = people.voters
    by = f", {people.votes:,} votes by {voters:,} voter{'' if voters == 1 else 's'}" if voters else ""
    agreed = "no label names a winner where the judge does"
    if people.agreement is not None:
        agreed = f"the judge agrees with {100 * people.agreement:.0f} % of them (n={people.agreement_n:,})"
    half, alone = (
        "∞" if value is None else f"{value:.0f}" for value in (people.half_width, people.people_only_half_width)
    )
    lines = [
        f"on people's scale: {people.labels:,} labelled matchups{by} correct {people.judged_matchups:,} "
        f"judged ones; where both name a winner, {agreed}",
        f"{100 * people.information.people:.0f} % of the information is people's, "
        f"{100 * people.information.judge:.0f} % the judge's (λ {fit.weight:.2f}): half the interval is "
        f"±{half} points (median), with people's labels alone ±{alone}",
    ]
    if fit.weight == 0.0:
        why = "its verdicts on unlabelled matchups add nothing"
        if people.labels == people.judged_matchups:
            why = "every judged matchup is labelled"
        lines.append(f"the judge saves nothing here ({why}): the ratings are those of people's labels")
    elif not people.saves:
        lines.append(
            f"the judge saves little here (agreement below {100 * SAVES_FROM:.0f} %): more labels, not more "
            "verdicts, make the intervals narrower"
        )
    valid = "valid if the labelled matchups are a random draw of the judged ones, or of whole prompts"
    lines.append(valid if matched.draw is None else matched.draw.sentence(people.judged_matchups))
    return [*lines, matched.check.sentence("matchups")] if matched.check.alarms else lines


def _median_half(entries: tuple[RatingEntry, ...], low: str, high: str) -> float | None:
    """Half the median width of the corrected models' intervals; None where there is none."""
    rows = [entry.to_dict() for entry in entries if "people_only_rating" in entry.extra]
    widths = [row[high] - row[low] for row in rows if row[low] is not None and row[high] is not None]
    return 0.5 * float(np.median(widths)) if widths else None
