"""The peers: how each is called, and FastChat's methods reimplemented, since FastChat itself is a web application.

A frame is pandas' with the columns model_a, model_b, winner. Peers are imported where they are used, so that a missing
one does not affect the others. `python -m bench.peers unbeaten|islands|misspelt` prints what they make of a small file
with something odd in it, in README's order and words; `make claims` holds README's table against that.
"""

from __future__ import annotations

import hashlib
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

ELO_PER_LOGIT = 400.0 / np.log(10.0)


def centred(names: Any, logits: Any) -> dict[str, float]:
    """Ratings around 1000 by name."""
    values = np.asarray(logits, dtype=np.float64)
    return dict(zip(list(names), (1000.0 + ELO_PER_LOGIT * (values - values.mean())).tolist(), strict=True))


# --- FastChat: distinct (model, model, result) rows with their counts, then L-BFGS on the logistic loss -------------


class FastChat:
    """The method of FastChat's `rating_systems` module, reimplemented: its current, faster way to fit and to bootstrap.

    Names to codes by pandas, rows to distinct rows by `numpy.unique`, ties as half a win, scipy's L-BFGS-B from zero
    with its tolerance 1e-6; a bootstrap round draws multinomial counts over the distinct rows and fits them again.
    """

    def __init__(self, frame: Any) -> None:
        import pandas

        codes, self.names = pandas.factorize(pandas.concat([frame["model_a"], frame["model_b"]]), sort=True)
        n = len(frame)
        rows = np.ones((n, 3), dtype=np.int32)
        rows[:, 0], rows[:, 1] = codes[:n], codes[n:]
        rows[(frame["winner"] == "model_a").to_numpy(), 2] = 2
        rows[(frame["winner"] == "model_b").to_numpy(), 2] = 0
        distinct, counts = np.unique(rows, axis=0, return_counts=True)
        self.pairs, self.score = distinct[:, :2], distinct[:, 2] / 2.0
        self.weight, self.n = counts.astype(np.float64), n

    def fit(self, weight: np.ndarray | None = None) -> np.ndarray:
        """Log-strengths for these counts."""
        return fit_by_lbfgs(self.pairs, self.score, self.weight if weight is None else weight, len(self.names))

    def drawn(self, rounds: int, seed: int = 0) -> np.ndarray:
        """Resampled counts, (rounds, distinct rows)."""
        share = self.weight / self.weight.sum()
        return np.random.default_rng(seed).multinomial(self.n, share, size=rounds) / self.n


def fit_by_lbfgs(
    pairs: np.ndarray, score: np.ndarray, weight: np.ndarray, m: int, features: np.ndarray | None = None
) -> np.ndarray:
    """Maximum likelihood by quasi-Newton steps, in FastChat's units of 400 points; returned in logits.

    With features, their coefficients follow the strengths (and there is no ridge, as no other library here has one).
    """
    from scipy.optimize import minimize
    from scipy.special import expit

    steepness = np.log(10.0)
    features = np.zeros((len(score), 0)) if features is None else features

    def loss(point: np.ndarray) -> tuple[float, np.ndarray]:
        chance = expit(steepness * (point[pairs[:, 0]] - point[pairs[:, 1]] + features @ point[m:]))
        value = -weight @ (score * np.log(chance) + (1.0 - score) * np.log(1.0 - chance))
        pull = steepness * weight * (chance - score)
        slope = np.zeros(len(point))
        np.add.at(slope, pairs, np.column_stack([pull, -pull]))
        slope[m:] = features.T @ pull
        return value, slope

    start, options = np.zeros(m + features.shape[1]), {"maxiter": 100, "gtol": 1e-6}
    return steepness * minimize(loss, start, jac=True, method="L-BFGS-B", options=options).x


def fastchat_style(frame: Any, columns: list[str]) -> tuple[Any, np.ndarray, np.ndarray]:
    """FastChat's style control, reimplemented: the loss row by row, with the style differences beside the models."""
    import pandas

    codes, names = pandas.factorize(pandas.concat([frame["model_a"], frame["model_b"]]), sort=True)
    score = frame["winner"].map({"model_a": 1.0, "model_b": 0.0, "tie": 0.5}).to_numpy(dtype=np.float64)
    point = fit_by_lbfgs(codes.reshape(2, -1).T, score, np.ones(len(score)), len(names), frame[columns].to_numpy())
    return names, point[: len(names)], point[len(names) :]


def fastchat_elo_lanes(winners: np.ndarray, losers: np.ndarray, orders: np.ndarray, k: float, m: int) -> np.ndarray:
    """FastChat's bootstrap Elo, reimplemented: battle by battle, one array operation for all orders at once."""
    from scipy.special import expit

    lanes = np.arange(len(orders))
    ratings = np.zeros((len(orders), m))
    for battle in orders.T:
        i, j = winners[battle], losers[battle]
        won, lost = ratings[lanes, i], ratings[lanes, j]
        change = k * expit((lost - won) / ELO_PER_LOGIT)
        ratings[lanes, i] += change
        ratings[lanes, j] -= change
    return ratings


# --- arena-rank ----------------------------------------------------------------------------------------------------


def arena_rank_fit(frame: Any, intervals: bool) -> tuple[Any, np.ndarray, np.ndarray | None]:
    """Names, log-strengths and standard errors by arena-rank's documented calls."""
    from arena_rank.models.bradley_terry import BradleyTerry
    from arena_rank.utils.data_utils import PairDataset

    data = PairDataset.from_pandas(frame)
    model = BradleyTerry(n_competitors=data.n_competitors)
    if not intervals:
        model.fit(data)
        return data.competitors, np.asarray(model.params["ratings"]), None
    result = model.compute_ratings_and_cis(data)
    error = np.sqrt(np.asarray(result["variances"])) / ELO_PER_LOGIT
    return data.competitors, np.asarray(model.params["ratings"]), error


def arena_rank_rounds(frame: Any) -> Callable[[int], Any]:
    """One bootstrap round of arena-rank at a time: its own function for one round, without its pool of processes."""
    import jax
    from arena_rank.models.bradley_terry import BradleyTerry, fit_single_bootstrap_sample
    from arena_rank.utils.data_utils import PairDataset

    data = PairDataset.from_pandas(frame)
    model = BradleyTerry(n_competitors=data.n_competitors)
    total = data.counts.sum()

    def one(number: int) -> Any:
        key = jax.random.PRNGKey(number)
        shape = (1, data.counts.shape[0])
        counts = jax.random.multinomial(key, int(total), data.counts / total, shape=shape, dtype=model.dtype)
        return fit_single_bootstrap_sample(counts[0], model, data)

    return one


def arena_rank_style(frame: Any, columns: list[str]) -> tuple[Any, np.ndarray, np.ndarray]:
    """arena-rank with covariates; neither its ridge nor its reweighting, so that it answers the same question."""
    from arena_rank.models.contextual_bradley_terry import ContextualBradleyTerry
    from arena_rank.utils.data_utils import ContextualPairDataset

    data = ContextualPairDataset.from_pandas(frame, columns, reweighted=False, normalize_features=False)
    model = ContextualBradleyTerry(n_competitors=data.n_competitors, n_features=len(columns), reg=0.0)
    model.compute_ratings_and_cis(data)
    return data.competitors, np.asarray(model.params["ratings"]), np.asarray(model.params["coeffs"])


# --- evalica -------------------------------------------------------------------------------------------------------


def evalica_winners(frame: Any) -> list[Any]:
    """The winner column in evalica's spelling."""
    import evalica

    known = {"model_a": evalica.Winner.X, "model_b": evalica.Winner.Y, "tie": evalica.Winner.Draw}
    return frame["winner"].map(known).tolist()


def evalica_fit(frame: Any) -> dict[str, float]:
    """Ratings by evalica's Bradley–Terry with its default tolerance and limit."""
    import evalica

    result = evalica.bradley_terry(frame["model_a"], frame["model_b"], evalica_winners(frame))
    return centred(result.scores.index, np.log(result.scores.to_numpy()))


def evalica_rounds(frame: Any) -> Callable[[int], Any]:
    """Rounds as its bootstrap by percentiles makes them: rows drawn with replacement, fitted again. (Its default, BCa,
    leaves out every row once and never ends at these sizes.)"""
    import evalica

    xs, ys = frame["model_a"].to_numpy(dtype=object), frame["model_b"].to_numpy(dtype=object)
    winners, ones = np.array(evalica_winners(frame), dtype=np.uint8), np.ones(len(frame))

    def one(number: int) -> Any:
        drawn = np.random.default_rng(number).integers(len(xs), size=len(xs))
        return evalica.bradley_terry(xs[drawn], ys[drawn], list(winners[drawn]), weights=ones[drawn])

    return one


# --- One way to call them --------------------------------------------------------------------------------------------


def fitted(peer: str, frame: Any, *, intervals: bool = False) -> dict[str, float]:
    """Ratings by model of `arena-rank`, `evalica` or `FastChat's method`."""
    if peer == "arena-rank":
        return centred(*arena_rank_fit(frame, intervals)[:2])
    if peer == "evalica":
        return evalica_fit(frame)
    method = FastChat(frame)
    return centred(method.names, method.fit())


def rounds(peer: str, frame: Any) -> Callable[[int], Any]:
    """One bootstrap round of a peer at a time, without a pool of processes."""
    if peer == "arena-rank":
        return arena_rank_rounds(frame)
    if peer == "evalica":
        return evalica_rounds(frame)
    method = FastChat(frame)
    return lambda number: method.fit(method.drawn(1, number)[0])


# --- choix and the plain loop ----------------------------------------------------------------------------------------


def choix_fit(a: np.ndarray, b: np.ndarray, result: np.ndarray, m: int) -> np.ndarray:
    """Log-strengths by choix from a matrix of wins, ties as half a win; it has neither ties nor names nor intervals."""
    import choix

    won = np.bincount(a[result == 0] * m + b[result == 0], minlength=m * m).astype(np.float64)
    won += np.bincount(b[result == 1] * m + a[result == 1], minlength=m * m)
    tied = 0.5 * np.bincount(a[result == 2] * m + b[result == 2], minlength=m * m).reshape(m, m)
    return choix.ilsr_pairwise_dense(won.reshape(m, m) + tied + tied.T)


def plain_elo(winners: list[int], losers: list[int], order: list[int], k: float, m: int) -> list[float]:
    """Elo as a plain loop."""
    ratings = [0.0] * m
    for t in order:
        i, j = winners[t], losers[t]
        change = k * (1.0 - 1.0 / (1.0 + 10.0 ** ((ratings[j] - ratings[i]) / 400.0)))
        ratings[i] += change
        ratings[j] -= change
    return ratings


# --- What a user of a peer would write: a battle file in, ratings with intervals out --------------------------------


def rate_file(peer: str, path: str, n_rounds: int = 0) -> dict[str, float]:
    """Ratings of a file, read by pandas with its fastest engine; then so many rounds of a bootstrap."""
    import pandas

    frame = pandas.read_json(path, lines=True, engine="pyarrow")
    ratings = fitted(peer, frame, intervals=True)
    if n_rounds:
        one = rounds(peer, frame)
        np.array([one(number) for number in range(n_rounds)], dtype=object)
    return ratings


def read_columns(path: str) -> None:
    """What nobody can leave out: every column that ratings by prompt and voter need, read by DuckDB."""
    import duckdb

    names, source = ["model_a", "model_b", "winner", "source", "question_id"], f"'{path}'"
    if path.endswith(".jsonl"):
        names.append("voter")
        texts = ", ".join(f"{name}: 'VARCHAR'" for name in names)
        source = f"read_json({source}, format = 'newline_delimited', columns = {{{texts}}})"
    with duckdb.connect(config={"memory_limit": "384MB"}) as connection:
        connection.execute(f"SELECT {', '.join(f'max(hash({name}))' for name in names)} FROM {source}").fetchone()


def read_scores(path: str) -> None:
    """A column of scores with its prompts and categories, read and kept by DuckDB."""
    import duckdb

    columns = "columns = {id: 'VARCHAR', correct: 'DOUBLE', category: 'VARCHAR'}"
    with duckdb.connect() as connection:
        source = f"read_json('{path}', format = 'newline_delimited', {columns})"
        connection.execute(f"CREATE TEMP TABLE kept AS SELECT * FROM {source}")
        connection.execute("SELECT avg(correct) FROM kept").fetchone()


def hash_file(path: str) -> None:
    with Path(path).open("rb") as file:
        hashlib.file_digest(file, "sha256")


# --- Small files with something odd in them --------------------------------------------------------------------------

UNBEATEN = [("x", "y", "model_a")] * 20 + [("y", "z", "model_a"), ("z", "y", "model_a")] * 5
ISLANDS = [(a, b, "model_a") for a, b in ("ab", "ba", "cd", "dc")]
MISSPELT = [("a", "b", "model_a"), ("b", "a", "model_aa")]
AS_A_TIE = [("a", "b", "model_a"), ("b", "a", "tie")]


def _frame(rows: list[tuple[str, str, str]]) -> Any:
    import pandas

    return pandas.DataFrame(rows, columns=["model_a", "model_b", "winner"])


def _or_an_error(ask: Callable[[], str]) -> str:
    try:
        return ask()
    except Exception:  # whatever it raises is what its users meet
        return "an error"


def _choix_strengths(rows: list[tuple[str, str, str]]) -> np.ndarray:
    names = sorted({name for a, b, _ in rows for name in (a, b)})
    a, b = (np.array([names.index(row[side]) for row in rows]) for side in (0, 1))
    return choix_fit(a, b, np.zeros(len(rows), dtype=np.int64), len(names))


def _evalica_scores(rows: list[tuple[str, str, str]]) -> np.ndarray:
    import evalica

    frame = _frame(rows)
    result = evalica.bradley_terry(frame["model_a"], frame["model_b"], evalica_winners(frame))
    return np.asarray(result.scores, dtype=np.float64)


def _first(logits: np.ndarray) -> float:
    return float((1000.0 + ELO_PER_LOGIT * (logits - logits.mean()))[0])


def unbeaten() -> list[str]:
    """The model that won all of its battles: its rating, or what else is said."""
    frame, scores = _frame(UNBEATEN), _evalica_scores(UNBEATEN)
    _, logits, error = arena_rank_fit(frame, intervals=True)
    assert error is not None
    return [
        f"{_first(logits):,.0f} ± {ELO_PER_LOGIT * 1.96 * error[0]:.0f}",
        f"every score {scores[0]:.6f}" if np.ptp(scores) == 0.0 else f"score {scores[0]:g}",
        f"{_first(FastChat(frame).fit()):,.0f}",
        _or_an_error(lambda: f"{_first(_choix_strengths(UNBEATEN)):,.0f}"),
    ]


def islands() -> list[str]:
    """Two pairs of models that never met: whether all four get a rating on one scale."""
    frame = _frame(ISLANDS)
    ways: list[Callable[[], np.ndarray]] = [
        lambda: arena_rank_fit(frame, intervals=False)[1],
        lambda: _evalica_scores(ISLANDS),
        lambda: FastChat(frame).fit(),
        lambda: _choix_strengths(ISLANDS),
    ]

    def ranked(way: Callable[[], np.ndarray]) -> str:
        values = np.asarray(way())
        return "ranked" if np.isfinite(values).all() and len(values) == 4 else "not ranked"

    return [_or_an_error(lambda way=way: ranked(way)) for way in ways]


def misspelt() -> list[str]:
    """A winner that is none of the known words: whether it counts as a tie."""

    def compared(fit: Callable[[Any], np.ndarray]) -> str:
        return "a tie" if np.allclose(fit(_frame(MISSPELT)), fit(_frame(AS_A_TIE))) else "something else"

    def of_words() -> str:
        import evalica

        evalica.bradley_terry(["a", "b"], ["b", "a"], ["model_a", "model_aa"])
        return "read"

    words = _or_an_error(of_words)
    return [
        compared(lambda frame: arena_rank_fit(frame, intervals=False)[1]),
        "you map the labels" if words == "an error" else words,
        compared(lambda frame: FastChat(frame).fit()),
        "–",
    ]


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    print("\n".join({"unbeaten": unbeaten, "islands": islands, "misspelt": misspelt}[sys.argv[1]]()))
