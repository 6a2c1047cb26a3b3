"""Where 0.1.0 had its starts and the lock of Mt-KaHyPar: whoever still looks here finds them, and is told of the rooms
in which they are now. Nothing of ours imports it.
"""

from __future__ import annotations

import warnings
from typing import Any

from tautcut.search import kahypar, starts

_MOVED = {"_mt_kahypar_lock": kahypar._lock, "soften": starts.soften, "start_maker": starts.start_maker}


def __getattr__(name: str) -> Any:
    if name not in _MOVED:
        raise AttributeError(f"module 'tautcut.starts' has no attribute {name!r}")
    warnings.warn(f"{name} has moved: look in tautcut.search.", FutureWarning, stacklevel=2)
    return _MOVED[name]
