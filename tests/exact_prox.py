"""The prox of an outer step by a general convex solver: the oracle of the inner loop."""

from __future__ import annotations

import cvxpy as cp
import numpy as np

from tautcut.arrays import FloatArray
from tautcut.graph import Graph
from tautcut.kernels.reference import gradient_matrix
from tautcut.problem import Problem


def exact_prox(problem: Problem, G: FloatArray, scale: FloatArray) -> FloatArray:
    """argmin over C of Σ_r c_r T(f_r) + ½‖F − G‖², T with weights of mean one, as in the kernels."""
    graph = problem.graph
    K = gradient_matrix(Graph(graph.indptr, graph.indices, graph.scaled_weights()[0]))
    F = cp.Variable(G.shape)
    variation = cp.sum(cp.abs(K @ F) @ scale)
    fixed = np.flatnonzero(problem.is_labelled)
    constraints = [F >= 0, cp.sum(F, axis=1) == 1]
    if fixed.size:
        constraints.append(F[fixed] == np.eye(problem.n_clusters)[np.asarray(problem.labels)[fixed]])
    target = cp.Problem(cp.Minimize(variation + 0.5 * cp.sum_squares(F - G)), constraints)
    target.solve(solver=cp.CLARABEL, tol_gap_abs=1e-11, tol_gap_rel=1e-11, tol_feas=1e-11)
    return np.asarray(F.value)
