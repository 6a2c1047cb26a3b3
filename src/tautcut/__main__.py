"""The program `tautcut`, and `python -m tautcut`: the command line as a process of its own, which at its end
does not wait for the threads that an interrupt has left behind.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import NoReturn

_INTERRUPTED = 130  # as in tautcut.cli.shell, which may not be there yet


def main() -> NoReturn:
    """Run the command line and leave."""
    try:
        from tautcut.cli import main as run

        run()
    except KeyboardInterrupt:  # before a command has begun
        sys.stderr.write("tautcut: interrupted; nothing was written.\n")
        _leave_at_once(_INTERRUPTED)
    except SystemExit as end:
        if end.code == _INTERRUPTED:
            _leave_at_once(_INTERRUPTED)
        raise


def _leave_at_once(code: int) -> NoReturn:
    """End the process without waiting for its threads: what they still compute is wanted by nobody."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError):  # nobody reads it any more
            stream.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
