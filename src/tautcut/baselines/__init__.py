"""The methods that MTV is compared with, one file each, as scikit-learn estimators on a graph. They use the graph, the
Laplacian and (P), and never the solver that they are compared with.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tautcut.baselines.incres import INCRES
    from tautcut.baselines.lsd import LSD
    from tautcut.baselines.ncc_tv import NCCTV
    from tautcut.baselines.ncut import NormalisedCut
    from tautcut.baselines.nmfr import NMFR
    from tautcut.baselines.one_spectral import OneSpectral

# Loaded on first use, as the names of tautcut itself.
_HOME = {
    "INCRES": "incres",
    "LSD": "lsd",
    "NCCTV": "ncc_tv",
    "NMFR": "nmfr",
    "NormalisedCut": "ncut",
    "OneSpectral": "one_spectral",
}

__all__ = ["INCRES", "LSD", "NCCTV", "NMFR", "NormalisedCut", "OneSpectral"]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'tautcut.baselines' has no attribute {name!r}")
    return getattr(import_module(f"tautcut.baselines.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
