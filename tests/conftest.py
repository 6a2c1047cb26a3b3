"""What the whole suite stands on, however it was started. One hypothesis profile: the same examples on every machine,
few enough to be quick; a machine with a GPU may not have hypothesis, and the tests that are meant for it do without.
And signals that are heard: a shell has what it runs in the background ignore them, and tests that interrupt would wait.
"""

from __future__ import annotations

import signal

for _name, _handler in (
    ("SIGINT", signal.default_int_handler),
    ("SIGTERM", signal.SIG_DFL),
    ("SIGHUP", signal.SIG_DFL),
):
    _number = getattr(signal, _name, None)
    if _number is not None and signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, _handler)

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
