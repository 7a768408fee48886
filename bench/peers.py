"""The peers: how each is called, and FastChat's methods reimplemented, since FastChat itself is a web application.

Every function takes a pandas frame with the columns model_a, model_b, winner. Peers are imported where they are used,
so that a missing one does not affect the others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

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


def fit_by_lbfgs(pairs: np.ndarray, score: np.ndarray, weight: np.ndarray, n_models: int) -> np.ndarray:
    """Maximum likelihood by quasi-Newton steps, in FastChat's units of 400 points; returned in logits."""
    from scipy.optimize import minimize
    from scipy.special import expit

    steepness = np.log(10.0)

    def loss(ratings: np.ndarray) -> tuple[float, np.ndarray]:
        chance = expit(steepness * (ratings[pairs[:, 0]] - ratings[pairs[:, 1]]))
        value = -weight @ (score * np.log(chance) + (1.0 - score) * np.log(1.0 - chance))
        pull = steepness * weight * (chance - score)
        slope = np.zeros(n_models)
        np.add.at(slope, pairs, np.column_stack([pull, -pull]))
        return value, slope

    options = {"maxiter": 100, "gtol": 1e-6}
    return steepness * minimize(loss, np.zeros(n_models), jac=True, method="L-BFGS-B", options=options).x


def fastchat_style(frame: Any, features: np.ndarray) -> tuple[Any, np.ndarray]:
    """FastChat's style control, reimplemented: the same loss row by row, with the style differences beside the models.

    Without its small ridge, so that it answers the same question as the others.
    """
    import pandas
    from scipy.optimize import minimize
    from scipy.special import expit

    codes, names = pandas.factorize(pandas.concat([frame["model_a"], frame["model_b"]]), sort=True)
    pairs, m = codes.reshape(2, -1).T, len(names)
    score = frame["winner"].map({"model_a": 1.0, "model_b": 0.0, "tie": 0.5}).to_numpy(dtype=np.float64)

    def loss(point: np.ndarray) -> tuple[float, np.ndarray]:
        chance = expit(point[pairs[:, 0]] - point[pairs[:, 1]] + features @ point[m:])
        value = -(score * np.log(chance) + (1.0 - score) * np.log(1.0 - chance)).sum()
        pull = chance - score
        slope = np.zeros(len(point))
        np.add.at(slope, pairs, np.column_stack([pull, -pull]))
        slope[m:] = features.T @ pull
        return value, slope

    start = np.zeros(m + features.shape[1])
    point = minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": 100, "gtol": 1e-6}).x
    return names, point


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


def evalica_bootstrap(frame: Any, rounds: int) -> Any:
    """evalica's bootstrap by percentiles; its default (BCa) leaves out every row once and never ends at this size."""
    import evalica

    return evalica.bootstrap(
        evalica.bradley_terry,
        frame["model_a"].tolist(),
        frame["model_b"].tolist(),
        evalica_winners(frame),
        n_resamples=rounds,
        bootstrap_method="percentile",
        random_state=0,
    )


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
