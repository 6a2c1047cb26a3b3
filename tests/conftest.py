"""One hypothesis profile for the whole suite: the same examples on every machine, few enough to be quick."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

settings.register_profile(
    "tautcut",
    deadline=None,  # the first call of a kernel compiles it
    derandomize=True,
    max_examples=30,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("tautcut")
