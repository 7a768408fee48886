"""What a tie says about two models: three likelihoods with one interface.

Each has a name, the option's spelling; says whether each group of deciders has a tie parameter (`has_parameter`), what
it is where no tie was seen (`untied`), and where a search for it begins (`start`). It gives, for the difference `delta`
of two log-strengths and the group's tie parameter `tie`, the derivatives of the log-likelihood of a cell of battles, or
of one battle with each of the three results. In `gradient`, `delta` and the counts may carry a further axis behind the
cells (bootstrap rounds).

- `HALF`: a tie is half a win and half a loss. No tie parameter. The only one that takes soft outcomes.
- `DAVIDSON` (Davidson 1970, JASA 65:317): P(tie) is ν times the geometric mean of the two win probabilities; its
  parameter is ln ν. An exponential family, so the curvature does not depend on the results.
- `RAO_KUPPER` (Rao and Kupper 1967, JASA 62:194): a difference below a threshold is a tie; its parameter is
  ln η > 0, in which the log-likelihood is concave.
"""

from __future__ import annotations

import msgspec
import numpy as np

from tiltyard.types import Floats

FAR = 600.0
"""Log-odds beyond this are read as this: e^600 can still be divided by, and no battle is that certain."""


class CellSums(msgspec.Struct, frozen=True, eq=False):
    """What a likelihood needs of the counts: n = won + lost + tied, net = won − lost, and tied."""

    n: Floats
    net: Floats
    tied: Floats

    @classmethod
    def of(cls, counts: Floats) -> CellSums:
        won, lost, tied = counts[:, 0], counts[:, 1], counts[:, 2]
        return cls(won + lost + tied, won - lost, np.ascontiguousarray(tied))


class Curvature(msgspec.Struct, frozen=True, eq=False):
    """Minus the second derivatives of a cell's log-likelihood: by delta, by both, by the tie parameter."""

    delta: Floats
    cross: Floats
    tie: Floats


class Evaluation(msgspec.Struct, frozen=True, eq=False):
    """The log-likelihood of all cells, and its derivatives cell by cell."""

    log_likelihood: float
    by_delta: Floats
    by_tie: Floats
    curvature: Curvature


class ResultScores(msgspec.Struct, frozen=True, eq=False):
    """First derivatives of the log-likelihood of one comparison: arrays (cells, 3), a column per result."""

    delta: Floats
    tie: Floats


def sigmoid(x: Floats) -> Floats:
    """1 / (1 + exp(−x)), without overflow."""
    return np.asarray(0.5 * (1.0 + np.tanh(0.5 * x)))


def log_sigmoid(x: Floats) -> Floats:
    """ln(1 / (1 + exp(−x))), without overflow."""
    return np.asarray(np.minimum(x, 0.0) - np.log1p(np.exp(-np.abs(x))))


class Half(msgspec.Struct, frozen=True):
    """A tie is half a win and half a loss."""

    name: str = "half"
    has_parameter: bool = False
    untied: float = 0.0

    def start(self, tie_share: float) -> float:
        return 0.0

    def valid(self, tie: Floats) -> bool:
        return True

    def evaluate(self, delta: Floats, tie: Floats, sums: CellSums) -> Evaluation:
        """Binomial, with ties shared: ln P(first) = δ/2 − ln(2 cosh(δ/2))."""
        size = np.abs(delta)
        log_total = np.log1p(np.exp(-size)) + 0.5 * size
        advantage = np.tanh(0.5 * delta)
        zero = np.zeros_like(delta)
        value = 0.5 * sums.net @ delta - sums.n @ log_total
        curvature = Curvature(0.25 * sums.n * (1.0 - advantage * advantage), zero, zero)
        return Evaluation(float(value), 0.5 * (sums.net - sums.n * advantage), zero, curvature)

    def gradient(self, root_odds: Floats, tie: Floats, sums: CellSums) -> tuple[Floats, Floats]:
        """Half the net wins minus their expectation."""
        odds = root_odds * root_odds
        return 0.5 * (sums.net - sums.n * ((odds - 1.0) / (odds + 1.0))), np.zeros_like(sums.n)

    def result_scores(self, delta: Floats, tie: Floats) -> ResultScores:
        """1 − p, −p and ½ − p."""
        p = sigmoid(delta)
        scores = np.column_stack([1.0 - p, -p, 0.5 - p])
        return ResultScores(scores, np.zeros_like(scores))

    def chances(self, delta: Floats, tie: Floats) -> Floats:
        """Win or loss: how often battles tie is not part of the model."""
        p = sigmoid(delta)
        return np.column_stack([p, 1.0 - p, np.zeros_like(p)])


class Davidson(msgspec.Struct, frozen=True):
    """P(first) : P(second) : P(tie) = e^{δ/2} : e^{−δ/2} : ν; the parameter is ln ν, −∞ where no tie was seen."""

    name: str = "davidson"
    has_parameter: bool = True
    untied: float = -np.inf

    def start(self, tie_share: float) -> float:
        """Among equals P(tie) = ν / (2 + ν)."""
        return float(np.log(2.0 * tie_share / (1.0 - tie_share)))

    def valid(self, tie: Floats) -> bool:
        return bool(np.all(tie < FAR))

    def _weights(self, delta: Floats, tie: Floats) -> tuple[Floats, Floats, Floats]:
        up = np.exp(np.clip(0.5 * delta, -0.5 * FAR, 0.5 * FAR))
        return up, 1.0 / up, np.exp(tie)

    def evaluate(self, delta: Floats, tie: Floats, sums: CellSums) -> Evaluation:
        """With T = e^{δ/2} + e^{−δ/2} + ν: ½·net·δ + tied·ln ν − n·ln T; the curvature is n times a covariance."""
        up, down, nu = self._weights(delta, tie)
        total = up + down + nu
        has_ties = np.isfinite(tie)
        value = 0.5 * sums.net @ delta + sums.tied[has_ties] @ tie[has_ties] - sums.n @ np.log(total)
        net, tied = (up - down) / total, nu / total
        n_tied = sums.n * tied
        curvature = Curvature(
            0.25 * (sums.n - n_tied - sums.n * net * net),
            -0.5 * n_tied * net,
            n_tied - n_tied * tied,
        )
        return Evaluation(float(value), 0.5 * (sums.net - sums.n * net), sums.tied - n_tied, curvature)

    def gradient(self, root_odds: Floats, tie: Floats, sums: CellSums) -> tuple[Floats, Floats]:
        """Observed minus expected: half the net wins, and the ties."""
        down, nu = 1.0 / root_odds, np.exp(tie)
        scaled = sums.n / (root_odds + down + nu)
        return 0.5 * (sums.net - scaled * (root_odds - down)), sums.tied - scaled * nu

    def result_scores(self, delta: Floats, tie: Floats) -> ResultScores:
        """Each result's statistics minus their expectation."""
        up, down, nu = self._weights(delta, tie)
        total = up + down + nu
        mean, tied = 0.5 * (up - down) / total, nu / total
        by_delta = np.column_stack([0.5 - mean, -0.5 - mean, -mean])
        return ResultScores(by_delta, np.column_stack([-tied, -tied, 1.0 - tied]))

    def chances(self, delta: Floats, tie: Floats) -> Floats:
        up, down, nu = self._weights(delta, tie)
        return np.column_stack([up, down, nu]) / (up + down + nu)[:, None]


class RaoKupper(msgspec.Struct, frozen=True):
    """P(first) = σ(δ − κ), P(second) = σ(−δ − κ), the rest is a tie; κ = ln η, 0 where no tie was seen."""

    name: str = "rao-kupper"
    has_parameter: bool = True
    untied: float = 0.0

    def start(self, tie_share: float) -> float:
        """Among equals P(tie) = (η − 1) / (η + 1)."""
        return float(np.log((1.0 + tie_share) / (1.0 - tie_share)))

    def valid(self, tie: Floats) -> bool:
        """Whether every threshold is positive (0 stands for no ties at all)."""
        return bool(np.all(tie >= 0.0)) and bool(np.all(tie < 0.5 * FAR))

    def evaluate(self, delta: Floats, tie: Floats, sums: CellSums) -> Evaluation:
        """Ln P(tie) = ln(e^{2κ} − 1) + ln P(first) + ln P(second): a tie is passing both thresholds."""
        first, second = self._passed(sums)
        tied = sums.tied > 0
        with np.errstate(divide="ignore"):
            excess = np.log(np.expm1(2.0 * tie[tied]))
        value = first @ log_sigmoid(delta - tie) + second @ log_sigmoid(-delta - tie) + sums.tied[tied] @ excess
        p, q, slope = sigmoid(delta - tie), sigmoid(-delta - tie), self._excess_slope(tie)
        up, down = first * (1.0 - p), second * (1.0 - q)
        bend_up, bend_down = up * p, down * q
        curvature = Curvature(
            bend_up + bend_down,
            bend_down - bend_up,
            bend_up + bend_down + sums.tied * slope * (slope - 2.0),
        )
        return Evaluation(float(value), up - down, sums.tied * slope - up - down, curvature)

    def gradient(self, root_odds: Floats, tie: Floats, sums: CellSums) -> tuple[Floats, Floats]:
        first, second = self._passed(sums)
        eta, odds = np.exp(tie), root_odds * root_odds
        up, down = first * (eta / (eta + odds)), second * (eta * odds / (1.0 + eta * odds))
        return up - down, sums.tied * self._excess_slope(tie) - up - down

    def result_scores(self, delta: Floats, tie: Floats) -> ResultScores:
        up, down = sigmoid(tie - delta), sigmoid(delta + tie)
        by_delta = np.column_stack([up, -down, up - down])
        return ResultScores(by_delta, np.column_stack([-up, -down, self._excess_slope(tie) - up - down]))

    def chances(self, delta: Floats, tie: Floats) -> Floats:
        """Beyond a threshold on either side, or between the two."""
        first, second = sigmoid(delta - tie), sigmoid(-delta - tie)
        return np.column_stack([first, second, 1.0 - first - second])

    @staticmethod
    def _passed(sums: CellSums) -> tuple[Floats, Floats]:
        """How often each side's threshold was passed: its wins and the ties."""
        return 0.5 * (sums.n + sums.net + sums.tied), 0.5 * (sums.n - sums.net + sums.tied)

    @staticmethod
    def _excess_slope(tie: Floats) -> Floats:
        """d/dκ ln(e^{2κ} − 1) = 2 / (1 − e^{−2κ}); 0 for the group that has no ties, where nothing multiplies it."""
        safe = np.where(tie > 0, tie, 1.0)
        return np.where(tie > 0, 2.0 / -np.expm1(-2.0 * safe), 0.0)


HALF = Half()
DAVIDSON = Davidson()
RAO_KUPPER = RaoKupper()

TieModel = Half | Davidson | RaoKupper
"""One way to read ties."""

TIE_MODELS: dict[str, TieModel] = {model.name: model for model in (DAVIDSON, RAO_KUPPER, HALF)}
