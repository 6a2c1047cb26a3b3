"""The first sheet of a workbook as text, for `tables`, which runs this file in a process of its own: the library that
reads workbooks gives every cell of a sheet its room, down to the last one that is named, and ends the process where
there is not enough. It imports nothing of tautcut, so that the process starts at once.

    python workbook.py FILE BYTES

writes the names of the sheets, a line of JSON, and then the cells as CSV. BYTES is the memory that it may take.
"""

from __future__ import annotations

import contextlib
import csv
import io
import json
import sys

_OWN = 2**28  # bytes of address space that Python itself takes


def main(path: str, limit: int) -> None:
    """Write the sheet to standard output."""
    with contextlib.suppress(ImportError, ValueError, OSError):  # Windows has no such limit; another may be lower
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (limit + _OWN, resource.getrlimit(resource.RLIMIT_AS)[1]))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    from python_calamine import CalamineWorkbook

    book = CalamineWorkbook.from_path(path)
    out = io.TextIOWrapper(sys.stdout.buffer, encoding="utf-8", newline="", write_through=False)
    out.write(json.dumps(book.sheet_names) + "\n")
    csv.writer(out).writerows(book.get_sheet_by_index(0).iter_rows())  # dates as ISO writes them, numbers in full
    out.flush()


if __name__ == "__main__":
    try:
        main(sys.argv[1], int(sys.argv[2]))
    except BaseException as error:  # noqa: BLE001 - a panic of the library is no Exception; all of it is told
        sys.stderr.write(f"{error}".strip() or type(error).__name__)
        sys.exit(1)
