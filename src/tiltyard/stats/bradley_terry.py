"""Bradley–Terry ratings by Newton's method on pair counts.

The chance that i beats j depends on θ_i − θ_j, the difference of their log-strengths (Bradley and Terry 1952,
Biometrika 39:324; Zermelo 1929). With a covariate vector z of the battle the difference is θ_i − θ_j + z·β: the slot
advantage and style controls. How ties enter is the `TieModel`'s business. The log-likelihood is concave, and Newton's
method needs about six steps: one dense solve each up to `DENSE_MODELS` models, above that conjugate gradients.
"""

from __future__ import annotations

from functools import cached_property

import msgspec
import numpy as np
from numpy.typing import NDArray

from tiltyard.errors import NotConverged, OptionValue, RatingError
from tiltyard.stats.comparisons import TIED, PairCells, sum_by
from tiltyard.stats.graph import Reach, half_win_prior, open_ends_of_a_lone_core, reach, ties_bounded
from tiltyard.stats.tie_models import CellSums, Curvature, Evaluation, TieModel
from tiltyard.types import Floats, Ints

DENSE_MODELS = 800
"""Above this many models the Newton step is solved by conjugate gradients (a dense solve grows with the cube)."""

MAX_STEPS = 60
STEP_TOLERANCE = 1e-7
"""Newton stops after a step in which no parameter moved by more than this: the next would be about its square."""

CG_TOLERANCE = 1e-9
CG_STEPS = 2000

MANY_CELLS = 1 << 17
"""Above this many pairs (some 500 models) the likelihood is computed piece by piece, ..."""
CELLS_AT_ONCE = 1 << 13
"""... so small that what is computed on the way stays in the processor's cache."""

UNEXPLAINED = 1e-8
"""A covariate of which less than this part is its own, not the models' or another covariate's, has no coefficient."""


class Parameters(msgspec.Struct, frozen=True, eq=False):
    """One point in parameter space: log-strengths, covariate coefficients, one tie parameter per group."""

    strength: Floats
    coefficient: Floats
    tie: Floats

    def delta(self, cells: PairCells) -> Floats:
        """The log-odds of every cell's first model."""
        delta = self.strength[cells.first] - self.strength[cells.second]
        return delta + cells.design @ self.coefficient if cells.design.shape[1] else delta

    def moved(self, step: Parameters, size: float) -> Parameters:
        return Parameters(
            self.strength + size * step.strength,
            self.coefficient + size * step.coefficient,
            self.tie + size * step.tie,
        )

    def largest(self) -> float:
        parts = (self.strength, self.coefficient, self.tie)
        return max(float(np.abs(part).max()) if part.size else 0.0 for part in parts)


class StrengthPrior(msgspec.Struct, frozen=True, eq=False):
    """Strengths are pulled towards the mean of those of the same `model`, as by a normal distribution.

    `model` says for every strength whose it is: the same for all where there is one mean. `precision` is that of the
    distribution, `spread` the variance that true strengths may have around their mean: what the pull is wrong by.
    """

    precision: float
    spread: float
    model: Ints

    def log_density(self, strength: Floats) -> float:
        return -0.5 * float(strength @ self.times(strength))

    def times(self, columns: Floats) -> Floats:
        """The precision times what each entry differs by from the mean of its model's, column by column."""
        return np.asarray(self.precision * (columns - self.means(columns)[self.model]))

    def means(self, columns: Floats) -> Floats:
        """The mean over each model's strengths."""
        order = np.argsort(self.model, kind="stable")
        ordered = self.model[order]
        starts = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))
        counts = np.diff(np.append(starts, len(ordered)))
        sums = np.add.reduceat(columns[order], starts, axis=0)
        result = np.zeros((int(self.model.max()) + 1, *columns.shape[1:]))
        result[ordered[starts]] = (sums.T / counts).T
        return result


class BradleyTerryFit(msgspec.Struct, frozen=True, eq=False, dict=True):
    """The maximum-likelihood point (strengths centred on 0), with the cells it was fitted to.

    `tied_groups` lists the groups that have a tie parameter: those in which a tie was seen. With a `prior` it is the
    point of the largest posterior density, and the information is that of battles and prior together.
    """

    parameters: Parameters
    cells: PairCells
    tie_model: TieModel
    tied_groups: NDArray[np.int64]
    log_likelihood: float
    steps: int
    prior: StrengthPrior | None = None

    @property
    def n_parameters(self) -> int:
        """Strengths, coefficients and tie parameters, in the order of every matrix here."""
        return int(self.cells.n_models + self.cells.design.shape[1] + len(self.tied_groups))

    @cached_property
    def evaluation(self) -> Evaluation:
        return _evaluate(self.cells, self.tie_model, self.parameters)

    def curvature(self) -> Curvature:
        return self.evaluation.curvature

    def information(self) -> Floats:
        """Minus the Hessian of the log-likelihood at the fit; singular only along a shift of all strengths."""
        return _with_prior(assemble(self.cells, self.curvature(), self.tied_groups), self.cells.n_models, self.prior)

    def inverse_information(self) -> Floats:
        """The inverse of `information` with strengths measured from their mean: the Fisher covariance."""
        return invert_centred(self.information(), self.cells.n_models)


def fit(
    cells: PairCells,
    tie_model: TieModel,
    *,
    start: Parameters | None = None,
    prior: StrengthPrior | None = None,
    fixed: Floats | None = None,
) -> BradleyTerryFit:
    """The maximum-likelihood fit. The cells must be joined both ways (see `graph`): otherwise there is none.

    With a `prior` there always is one, as far as strengths go. With `fixed` strengths only coefficients and tie
    parameters are fitted.
    """
    tied_groups = np.array([], dtype=np.int64)
    if tie_model.has_parameter:
        ties = sum_by(cells.group, cells.counts[:, TIED], cells.n_groups)
        tied_groups = np.flatnonzero(ties > 0)
    n_controls = cells.design.shape[1]
    if start is None and n_controls and len(cells) > MANY_CELLS and prior is None and fixed is None:
        plain = fit(cells.without_design(), tie_model).parameters  # near, and found by pair
        start = Parameters(plain.strength, np.zeros(n_controls), plain.tie)
    point = start or _start(cells, tie_model, tied_groups)
    if fixed is not None:
        point = Parameters(fixed, point.coefficient, point.tie)
    sums = CellSums.of(cells.counts)
    here = _evaluate(cells, tie_model, point, sums)
    _check_design(cells, here.curvature, prior, fixed)
    for steps in range(1, MAX_STEPS + 1):
        step = _newton_step(cells, here, tied_groups, point, prior, held=fixed is not None)
        point, here = _line_search(cells, tie_model, sums, point, here, step, prior)
        if step.largest() < STEP_TOLERANCE:
            strength = point.strength - point.strength.mean() if fixed is None else fixed
            best = Parameters(strength, point.coefficient, point.tie)
            return BradleyTerryFit(best, cells, tie_model, tied_groups, here.log_likelihood, steps, prior)
    raise NotConverged(_RAN_AWAY)


def fit_bounded(
    cells: PairCells, tie_model: TieModel, *, start: Parameters | None = None
) -> tuple[BradleyTerryFit, NDArray[np.int8]]:
    """The fit of any cells that join all models, with each model's `Reach`: unbounded ones get the half-win prior."""
    cells, state = bounded(cells)
    if tie_model.has_parameter and not ties_bounded(cells):
        raise NotConverged(_RAN_AWAY)
    return fit(cells, tie_model, start=start), state


def bounded(cells: PairCells) -> tuple[PairCells, NDArray[np.int8]]:
    """The cells with the half-win prior of those models that need it, and every model's `Reach`."""
    state = reach(cells)
    if (state != Reach.HELD).any():
        return half_win_prior(cells, state), open_ends_of_a_lone_core(cells, state)
    return cells, state


def _evaluate(cells: PairCells, tie_model: TieModel, point: Parameters, sums: CellSums | None = None) -> Evaluation:
    sums = sums or CellSums.of(cells.counts)
    if len(cells) <= MANY_CELLS:
        return tie_model.evaluate(point.delta(cells), point.tie[cells.group], sums)
    columns = np.empty((5, len(cells)))
    value = 0.0
    for start in range(0, len(cells), CELLS_AT_ONCE):
        piece = slice(start, start + CELLS_AT_ONCE)
        delta = point.strength[cells.first[piece]] - point.strength[cells.second[piece]]
        if cells.design.shape[1]:
            delta += cells.design[piece] @ point.coefficient
        part = CellSums(sums.n[piece], sums.net[piece], sums.tied[piece])
        result = tie_model.evaluate(delta, point.tie[cells.group[piece]], part)
        bend = result.curvature
        columns[:, piece] = result.by_delta, result.by_tie, bend.delta, bend.cross, bend.tie
        value += result.log_likelihood
    return Evaluation(value, columns[0], columns[1], Curvature(columns[2], columns[3], columns[4]))


def _start(cells: PairCells, tie_model: TieModel, tied_groups: NDArray[np.int64]) -> Parameters:
    """All models equal, ties as frequent as they were."""
    tie = np.full(cells.n_groups, tie_model.untied)
    for group in tied_groups:
        counts = (cells.counts if cells.n_groups == 1 else cells.counts[cells.group == group]).sum(axis=0)
        if counts[TIED] == counts.sum():
            raise RatingError(f"all {counts[TIED]:,.0f} battles of one source are ties: the tie model has no answer.")
        tie[group] = tie_model.start(counts[TIED] / counts.sum())
    return Parameters(np.zeros(cells.n_models), np.zeros(cells.design.shape[1]), tie)


def _line_search(
    cells: PairCells,
    tie_model: TieModel,
    sums: CellSums,
    point: Parameters,
    here: Evaluation,
    step: Parameters,
    prior: StrengthPrior | None,
) -> tuple[Parameters, Evaluation]:
    """The Newton step, halved until the likelihood (times the prior) does not fall (rounding apart)."""

    def value(at: Parameters, result: Evaluation) -> float:
        return result.log_likelihood + (0.0 if prior is None else prior.log_density(at.strength))

    lowest = value(point, here) - 1e-12 * (1.0 + abs(here.log_likelihood))
    for halvings in range(50):
        trial = point.moved(step, 0.5**halvings)
        if tie_model.valid(trial.tie):
            there = _evaluate(cells, tie_model, trial, sums)
            if value(trial, there) >= lowest:
                return trial, there
    return point, here


def _newton_step(
    cells: PairCells,
    here: Evaluation,
    tied_groups: NDArray[np.int64],
    point: Parameters,
    prior: StrengthPrior | None,
    *,
    held: bool,
) -> Parameters:
    """Where the second-order picture of the log-likelihood has its top; with `held`, strengths staying as they are."""
    m, q = cells.n_models, cells.design.shape[1]
    by_tie = sum_by(cells.group, here.by_tie, cells.n_groups)[tied_groups]
    gradient = np.concatenate([project(cells, here.by_delta), by_tie])
    if prior is not None:
        gradient[:m] -= prior.times(point.strength)
    if held:
        few = border(cells, here.curvature, tied_groups)[m:]
        step = np.concatenate([np.zeros(m), solve_centred(few, gradient[m:], 0)])
    elif m <= DENSE_MODELS:
        matrix = _with_prior(assemble(cells, here.curvature, tied_groups), m, prior)
        step = solve_centred(matrix, gradient, m)
    else:
        step = SparseInformation(cells, here.curvature, tied_groups, prior).solve(gradient)
    moved_tie = np.zeros(cells.n_groups)
    moved_tie[tied_groups] = step[m + q :]
    return Parameters(step[:m], step[m : m + q], moved_tie)


def _with_prior(matrix: Floats, n_models: int, prior: StrengthPrior | None) -> Floats:
    if prior is not None:
        matrix[:n_models, :n_models] += prior.times(np.eye(n_models))
    return matrix


def response(fit: BradleyTerryFit, contrast: Floats) -> Floats:
    """How each parameter moves with a score along `contrast`: the inverse information times it, in one solve."""
    right = np.zeros(fit.n_parameters)
    right[: len(contrast)] = contrast
    if fit.cells.n_models <= DENSE_MODELS:
        return solve_centred(fit.information(), right, fit.cells.n_models)
    return SparseInformation(fit.cells, fit.curvature(), fit.tied_groups, fit.prior).solve(right)


def project(cells: PairCells, by_delta: Floats) -> Floats:
    """Derivatives by delta (one per cell) as derivatives by strengths and coefficients."""
    m = cells.n_models
    strengths = sum_by(cells.first, by_delta, m) - sum_by(cells.second, by_delta, m)
    return np.concatenate([strengths, cells.design.T @ by_delta])


def assemble(cells: PairCells, weight: Curvature, tied_groups: NDArray[np.int64]) -> Floats:
    """The matrix Σ_c (x_c, e_c) W_c (x_c, e_c)ᵀ, x_c = (e_first − e_second, z), e_c the cell's tie group.

    With curvatures as weights it is the information matrix; with sums of squared scores, the middle of a sandwich.
    """
    m, q = cells.n_models, cells.design.shape[1]
    size = m + q + len(tied_groups)
    matrix = np.zeros((size, size))
    off = sum_by(cells.first * m + cells.second, weight.delta, m * m).reshape(m, m)
    off += off.T
    matrix[:m, :m] = np.diag(off.sum(axis=1)) - off
    side = border(cells, weight, tied_groups)
    matrix[:m, m:] = side[:m]
    matrix[m:, :m] = side[:m].T
    matrix[m:, m:] = side[m:]
    return matrix


def border(cells: PairCells, weight: Curvature, tied_groups: NDArray[np.int64]) -> Floats:
    """The columns of `assemble` that belong to coefficients and tie parameters."""
    q = cells.design.shape[1]
    columns = [project(cells, weight.delta * cells.design[:, k]) for k in range(q)]
    in_group = [(cells.group == group).astype(np.float64) for group in tied_groups]
    columns += [project(cells, mask * weight.cross) for mask in in_group]
    top = np.column_stack(columns) if columns else np.empty((cells.n_models, 0))
    bottom = np.zeros((len(tied_groups), q + len(tied_groups)))
    bottom[:, :q] = top[cells.n_models :, q:].T
    bottom[:, q:] = np.diag([float(mask @ weight.tie) for mask in in_group])
    return np.concatenate([top, bottom])


def _gauge(matrix: Floats, n_models: int) -> Floats:
    """The matrix with a shift of all strengths made as stiff as a typical strength, so that it can be inverted."""
    held = matrix.copy()
    if n_models:
        held[:n_models, :n_models] += np.trace(matrix[:n_models, :n_models]) / n_models**2
    return held


def solve_centred(matrix: Floats, right: Floats, n_models: int) -> Floats:
    """Solve with strengths measured from their mean."""
    try:
        return np.asarray(np.linalg.solve(_gauge(matrix, n_models), right), dtype=np.float64)
    except np.linalg.LinAlgError as error:
        raise NotConverged(_RAN_AWAY) from error


def invert_centred(matrix: Floats, n_models: int) -> Floats:
    """The pseudo-inverse in which strengths are measured from their mean."""
    try:
        inverse = np.linalg.inv(_gauge(matrix, n_models))
    except np.linalg.LinAlgError as error:
        raise NotConverged(_RAN_AWAY) from error
    inverse[:n_models] -= inverse[:n_models].mean(axis=0)
    inverse[:, :n_models] -= inverse[:, :n_models].mean(axis=1, keepdims=True)
    return 0.5 * (inverse + inverse.T)


_RAN_AWAY = (
    "Bradley–Terry did not converge: a model or covariate has no finite best value. "
    "Try another tie model, fewer controls, or more battles; or one row's weight exceeds all others by far: correct it."
)
_SINGULAR = (
    "the battles do not determine the answer: a control, or the slot, is constant, or equal to another one, or follows "
    "the models. Leave it out."
)


def _check_design(cells: PairCells, weight: Curvature, prior: StrengthPrior | None, fixed: Floats | None) -> None:
    """Refuse covariates that strengths and other covariates already explain: rounding would pick any answer."""
    m, q = cells.n_models, cells.design.shape[1]
    if not q:
        return
    no_ties = np.array([], dtype=np.int64)
    side = border(cells, weight, no_ties)
    if fixed is not None:
        unexplained = side[m:]
    elif m <= DENSE_MODELS:
        pairs = _with_prior(assemble(cells, weight, no_ties), m, prior)[:m, :m]
        unexplained = side[m:] - side[:m].T @ solve_centred(pairs, side[:m], m)
    else:
        unexplained = SparseInformation(cells, weight, no_ties, prior).unexplained
    alone = np.sqrt(np.diag(side[m:]))
    if (alone == 0.0).any() or np.linalg.eigvalsh(unexplained / alone / alone[:, None])[0] < UNEXPLAINED:
        raise NotConverged(_SINGULAR)


class SparseInformation:
    """The information H of many models: a sparse matrix of pairs, and a border for the few other parameters.

    `diagonal` is H_ii of the strengths, `unexplained` what strengths leave of the other parameters' information.
    """

    def __init__(
        self,
        cells: PairCells,
        weight: Curvature,
        tied_groups: NDArray[np.int64],
        prior: StrengthPrior | None = None,
        *,
        tolerance: float = CG_TOLERANCE,
    ) -> None:
        from scipy.sparse import csr_array

        m = self.n_models = cells.n_models
        off = csr_array((weight.delta, (cells.first, cells.second)), shape=(m, m))
        self.pairs, self.prior, self.tolerance = csr_array(off + off.T), prior, tolerance
        self.pair_sums = np.maximum(self.pairs.sum(axis=1), 1e-300)
        self.diagonal = self.pair_sums if prior is None else self.pair_sums + prior.precision
        self.side = border(cells, weight, tied_groups)
        self.onto = self._strengths(self.side[:m])
        self.unexplained = np.asarray(self.side[m:] - self.side[:m].T @ self.onto)

    def solve(self, right: Floats) -> Floats:
        """H⁺ times each column, strengths measured from their mean."""
        m = self.n_models
        free = self._strengths(right[:m])
        if not self.side.shape[1]:
            return free
        try:
            few = np.linalg.solve(self.unexplained, right[m:] - self.side[:m].T @ free)
        except np.linalg.LinAlgError as error:
            raise NotConverged(_RAN_AWAY) from error
        return np.concatenate([free - self.onto @ few, few])

    def _strengths(self, right: Floats) -> Floats:
        """Strengths that explain each column, by conjugate gradients on all columns at once."""
        from scipy.sparse.linalg import LinearOperator, cg

        columns = right.reshape(self.n_models, -1)
        if not columns.size:
            return right.copy()

        def times(x: Floats) -> Floats:
            at = x.reshape(columns.shape)
            along = self.pair_sums[:, None] * at - self.pairs @ at
            return np.ravel(along if self.prior is None else along + self.prior.times(at))

        def preconditioned(x: Floats) -> Floats:
            return np.ravel(x.reshape(columns.shape) / self.diagonal[:, None])

        size = columns.size
        solved, failed = cg(
            LinearOperator((size, size), matvec=times, dtype=np.float64),
            np.ravel(columns - columns.mean(axis=0)),
            rtol=self.tolerance,
            atol=1e-14 * float(np.linalg.norm(self.pair_sums)),
            maxiter=CG_STEPS,
            M=LinearOperator((size, size), matvec=preconditioned, dtype=np.float64),
        )
        if failed:
            raise NotConverged(
                "conjugate gradients did not converge: the battles barely connect the models. Leave out models that "
                "have few battles with ",
                OptionValue("min_battles"),
                ".",
            )
        result = solved.reshape(columns.shape)
        return np.asarray((result - result.mean(axis=0)).reshape(right.shape))
