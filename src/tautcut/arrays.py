"""The array types that signatures name. This module computes nothing."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

Array: TypeAlias = NDArray[Any]
FloatArray: TypeAlias = NDArray[np.float64]
SingleArray: TypeAlias = NDArray[np.float32]
RealArray: TypeAlias = NDArray[np.floating[Any]]  # in either precision
IntArray: TypeAlias = NDArray[np.int64]
IndexArray: TypeAlias = NDArray[np.intp]
BoolArray: TypeAlias = NDArray[np.bool_]
TextArray: TypeAlias = NDArray[np.str_]
SparseMatrix: TypeAlias = "sp.csr_matrix[np.float64]"
Features: TypeAlias = "NDArray[Any] | sp.csr_matrix[Any]"  # a row for each point
