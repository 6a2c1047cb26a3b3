"""The program `tautcut`, and `python -m tautcut`: the command line as a process of its own, which is deaf to nothing,
not even while it is being loaded.
"""

from __future__ import annotations

import os
import signal
from typing import NoReturn


def main() -> NoReturn:
    """Run the command line and leave."""
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):  # as tautcut.interrupts has them, which is not there yet
        one = getattr(signal, name, None)  # Windows has no SIGHUP
        if one is not None and signal.getsignal(one) is not signal.SIG_IGN:
            signal.signal(one, _leave)
    from tautcut.cli import program

    program()


def _leave(number: int, frame: object) -> NoReturn:
    """End the process: no command has begun."""
    try:
        os.write(2, b"tautcut: interrupted; nothing was written.\n")
    finally:
        os._exit(128 + number)


if __name__ == "__main__":
    main()
