"""The Arnold-Gokhale joint: the distribution whose conditionals are nearest to the model's.

For A = p(a|b) and B = p(b|a) it minimises, over joints q [I, J],

  f(q) = sum_b KL(A(.|b) || q(.|b)) + sum_a KL(B(.|a) || q(.|a))      (nats)

(Arnold & Gokhale 1998; Hennigen & Kim, arXiv 2305.15501). With W = A + B and the marginals
r_i = q(a_i), c_j = q(b_j) a minimum satisfies q = W / (1/r + 1/c); iterating that from the uniform
joint is the classical algorithm, whose steps never raise f but may be many.

We minimise in the marginals instead. Bounding each log r_i, log c_j by its tangent shows that

  min_q f(q) = min_{x, y}  sum_ij A_ij softplus(-z_ij) + B_ij softplus(z_ij) + constant,
  z_ij = x_i - y_j,   x = log r,   y = log c,

a logistic regression of "cell of A" against "cell of B" (coherent conditionals have
A / B = r / c, hence log-odds z), smooth and convex in I + J numbers; and f of the joint made from
(x, y) lies at most as far above its minimum as this function does. So the Newton decrement,
half of g' H^-1 g, estimates the distance from the minimum, and Newton needs about ten steps.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from mlm_consistency.analysis.divergences import conditional_divergences
from mlm_consistency.analysis.pair_tables import PairTables, log_normalize, log_sum_exp
from mlm_consistency.analysis.support import components
from mlm_consistency.errors import AnalysisError

OBJECTIVE_TOLERANCE = 1e-9
_DECREMENT = 1e-21  # far below the tolerance: the joint itself then has about 1e-10
_CHUNK_CELLS = 1 << 16  # tables are solved together in chunks that stay in the cache
_RIDGE = 1e-14  # relative; keeps blocks that touch only through tiny cells from swinging freely


@dataclass(frozen=True)
class ArnoldGokhale:
    """log_joint [..., I, J] nats; objective f(q) [...]; gap [...], the Newton estimate of
    f(q) - min f; steps, Newton steps of the slowest table."""

    log_joint: np.ndarray
    objective: np.ndarray
    gap: np.ndarray
    steps: int


def arnold_gokhale(tables: PairTables) -> np.ndarray:
    """log q [..., I, J] of `fit_arnold_gokhale`."""
    return fit_arnold_gokhale(tables).log_joint


def fit_arnold_gokhale(tables: PairTables, max_steps: int = 400) -> ArnoldGokhale:
    """The joint that minimises f, to `OBJECTIVE_TOLERANCE`, for every table of a batch.

    A cell is zero exactly where both conditionals are. Blocks of words that share no positive
    cell have free weights: they get the mass that the both-masked distributions put on them
    (their average, where both are given), else (I_block + J_block) / (I + J), which is what one
    classical step from the uniform joint gives.

    Raises:
      AnalysisError: for tables of a subset of the vocabulary (their rows are no distributions),
        or when a table misses the tolerance after `max_steps`.
    """
    if tables.subset:
        raise AnalysisError(
            "the Arnold-Gokhale joint needs conditionals that sum to one, and these tables are a "
            "subset of the vocabulary: normalise them over the subset first"
        )
    batch, (rows, columns) = tables.shape[:-2], tables.shape[-2:]
    log_a = tables.log_a_given_b.reshape(-1, rows, columns)
    log_b = tables.log_b_given_a.reshape(-1, rows, columns)
    log_w = np.logaddexp(log_a, log_b)
    labels = _block_labels(log_w)
    x, y = np.zeros(log_w.shape[:2]), np.zeros((log_w.shape[0], columns))
    gap, steps = np.zeros(log_w.shape[0]), 0
    chunk = max(1, _CHUNK_CELLS // (rows * columns))
    for start in range(0, log_w.shape[0], chunk):
        at = slice(start, start + chunk)
        if columns <= rows:  # the step eliminates x, so y should be the short side
            found = _minimise(np.exp(log_a[at]), np.exp(log_b[at]), labels[1][at], max_steps)
            x[at], y[at] = found[:2]
        else:
            first, second = (np.exp(np.swapaxes(t[at], 1, 2)) for t in (log_b, log_a))
            found = _minimise(first, second, labels[0][at], max_steps)
            y[at], x[at] = found[:2]
        gap[at], steps = found[2], max(steps, found[3])
    if (gap > OBJECTIVE_TOLERANCE).any():
        worst = int(gap.argmax())
        raise AnalysisError(
            f"Arnold-Gokhale: table {worst} is still {gap[worst]:.3g} nats from its minimum after "
            f"{max_steps} steps (tolerance {OBJECTIVE_TOLERANCE:g}): give more steps"
        )
    log_q = log_w - np.logaddexp(-x[:, :, None], -y[:, None, :])
    log_q = _weigh_blocks(log_q, labels, tables).reshape(*batch, rows, columns)
    return ArnoldGokhale(
        log_q, conditional_divergences(log_q, tables).objective, gap.reshape(batch), steps
    )


def fixed_point_step(log_joint: np.ndarray, tables: PairTables) -> np.ndarray:
    """One classical step q <- W / (1/r + 1/c), renormalised; never raises f. [..., I, J] nats."""
    log_w = np.logaddexp(tables.log_a_given_b, tables.log_b_given_a)
    r, c = log_sum_exp(log_joint, -1), log_sum_exp(log_joint, -2)
    return log_normalize(log_w - np.logaddexp(-r, -c), (-2, -1))


def _minimise(
    a: np.ndarray, b: np.ndarray, labels: np.ndarray, max_steps: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
    """Damped Newton on x [N, I], y [N, J] for A, B [N, I, J]; tables leave when they are done."""
    x, y = _warm_start(a, b)
    gap = np.full(a.shape[0], np.inf)
    live = np.arange(a.shape[0])
    step = 0
    while live.size and step < max_steps:
        step += 1
        at_a, at_b, at_x, at_y = a[live], b[live], x[live], y[live]
        dx, dy, slope = _newton_direction(at_a, at_b, at_x, at_y, labels[live])
        decrement = -0.5 * slope
        # Where the minimum lies at infinity (a word that one conditional rules out) the decrement
        # shrinks until rounding stops it; there is nothing to gain after that.
        stalled = (decrement < 1e-13) & (decrement > 0.5 * gap[live])
        gap[live] = np.minimum(gap[live], decrement)
        size = _step_sizes(at_a, at_b, at_x, at_y, dx, dy, slope)
        x[live] += size[:, None] * dx
        y[live] += size[:, None] * dy
        live = live[(decrement > _DECREMENT) & (size > 0) & ~stalled]
    return x, y, gap, step


def _warm_start(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """log marginals after three classical steps from the uniform joint."""
    w = a + b
    r = np.full(a.shape[:2], 1.0 / a.shape[1])
    c = np.full((a.shape[0], a.shape[2]), 1.0 / a.shape[2])
    for _ in range(3):
        q = w / (1.0 / r[:, :, None] + 1.0 / c[:, None, :])
        r, c = (np.maximum(q.sum(axis=axis), 1e-300) for axis in (2, 1))
    return np.log(r), np.log(c)


def _newton_direction(
    a: np.ndarray, b: np.ndarray, x: np.ndarray, y: np.ndarray, labels: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(dx [N, I], dy [N, J], slope [N] = g'd), by eliminating x from the Newton system.

    The function does not change when a whole block of x and y shifts, so the eliminated system is
    singular; adding one matrix of ones a block removes that without touching the solution.
    """
    z = x[:, :, None] - y[:, None, :]
    s, t = expit(z), expit(-z)
    residual = b * s - a * t
    gx, gy = residual.sum(axis=2), -residual.sum(axis=1)
    w = (a + b) * s * t
    hx, hy = w.sum(axis=2), w.sum(axis=1)
    scale = hy.mean(axis=1, keepdims=True) + 1e-300
    hx = hx + _RIDGE * scale
    scaled = w / hx[:, :, None]
    system = -np.swapaxes(w, 1, 2) @ scaled
    index = np.arange(y.shape[1])
    system[:, index, index] += hy + _RIDGE * scale
    system += (labels[:, :, None] == labels[:, None, :]) * scale[:, :, None]
    right = -gy - np.einsum("nij,ni->nj", scaled, gx)
    dy = np.linalg.solve(system, right[:, :, None])[:, :, 0]
    dx = (-gx + np.einsum("nij,nj->ni", w, dy)) / hx
    slope = np.einsum("ni,ni->n", gx, dx) + np.einsum("nj,nj->n", gy, dy)
    return dx, dy, np.minimum(slope, 0.0)


def _step_sizes(
    a: np.ndarray, b: np.ndarray, x: np.ndarray, y: np.ndarray,
    dx: np.ndarray, dy: np.ndarray, slope: np.ndarray,
) -> np.ndarray:  # fmt: skip
    """Largest size 1, 1/2, 1/4, .. that lowers the function enough, [N]; 0 when none does.

    A direction that moves no log-odds by more than 0.5 is inside the region where a full Newton
    step is safe; there differences of the function are rounding, and nothing is compared.
    """
    z = x[:, :, None] - y[:, None, :]
    dz = dx[:, :, None] - dy[:, None, :]
    reach = np.where(a + b > 0, np.abs(dz), 0.0).max(axis=(1, 2))
    size = np.minimum(1.0, 8.0 / np.maximum(reach, 1e-300))
    todo = np.flatnonzero(reach > 0.5)
    if not todo.size:
        return size
    before = _value(a[todo], b[todo], z[todo])
    for _ in range(40):
        after = _value(a[todo], b[todo], z[todo] + size[todo, None, None] * dz[todo])
        noise = 1e-15 * (1.0 + np.abs(before))
        fails = ~(after <= before + 1e-4 * size[todo] * slope[todo] + noise)
        todo, before = todo[fails], before[fails]
        if not todo.size:
            return size
        size[todo] *= 0.5
    size[todo] = 0.0
    return size


def _value(a: np.ndarray, b: np.ndarray, z: np.ndarray) -> np.ndarray:
    log_odds = np.logaddexp(0.0, -np.abs(z))
    return (a * (log_odds + np.maximum(-z, 0)) + b * (log_odds + np.maximum(z, 0))).sum(axis=(1, 2))


def _block_labels(log_w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Block of each word, [N, I] and [N, J]; all zero for tables without a zero cell."""
    row_labels = np.zeros(log_w.shape[:2], dtype=np.int64)
    column_labels = np.zeros((log_w.shape[0], log_w.shape[2]), dtype=np.int64)
    support = np.exp(log_w) > 0
    for n in np.flatnonzero(~support.all(axis=(1, 2))):
        _, row_labels[n], column_labels[n] = components(support[n])
    return row_labels, column_labels


def _weigh_blocks(
    log_q: np.ndarray, labels: tuple[np.ndarray, np.ndarray], tables: PairTables
) -> np.ndarray:
    """Normalises q and gives each block of words its weight."""
    log_q = log_normalize(log_q, (-2, -1))
    rows, columns = log_q.shape[1:]
    masses = [
        None if table is None else np.exp(table).reshape(log_q.shape[0], -1)
        for table in (tables.log_a_masked, tables.log_b_masked)
    ]
    for n in np.flatnonzero((labels[0] > 0).any(axis=1) | (labels[1] > 0).any(axis=1)):
        for block in range(int(labels[0][n].max()) + 1):
            in_rows, in_columns = labels[0][n] == block, labels[1][n] == block
            given = [
                mass[n][inside].sum()
                for mass, inside in zip(masses, (in_rows, in_columns), strict=True)
                if mass is not None
            ]
            weight = (
                float(np.mean(given)) if given
                else (in_rows.sum() + in_columns.sum()) / (rows + columns)
            )  # fmt: skip
            cells = np.ix_(in_rows, in_columns)
            with np.errstate(divide="ignore"):
                log_q[n][cells] += np.log(weight) - log_sum_exp(log_q[n][cells], (0, 1))
    return log_normalize(log_q, (-2, -1))
