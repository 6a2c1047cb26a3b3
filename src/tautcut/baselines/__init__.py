"""The methods that MTV is compared with, one file each, as scikit-learn estimators on a graph. They use the graph, the
Laplacian and (P), and never the solver that they are compared with.
"""

from tautcut.baselines.incres import INCRES
from tautcut.baselines.lsd import LSD
from tautcut.baselines.ncc_tv import NCCTV
from tautcut.baselines.ncut import NormalisedCut
from tautcut.baselines.nmfr import NMFR
from tautcut.baselines.one_spectral import OneSpectral

__all__ = ["INCRES", "LSD", "NCCTV", "NMFR", "NormalisedCut", "OneSpectral"]
