"""One hypothesis profile for the whole suite: the same examples on every machine, few enough to be quick. A machine
with a GPU may not have hypothesis: the tests that are meant for it do without.
"""

from __future__ import annotations

try:
    from hypothesis import HealthCheck, settings
except ImportError:
    pass
else:
    settings.register_profile(
        "tautcut",
        deadline=None,  # the first call of a kernel compiles it
        derandomize=True,
        max_examples=30,
        suppress_health_check=[HealthCheck.too_slow],
    )
    settings.load_profile("tautcut")
