"""How many values a Parquet file says that it holds, for `tables`, which runs this file in a process of its own: Arrow
ends the process over some damaged columns. It imports nothing of tautcut, so that the process starts at once.

    python footer.py FILE

writes the number.
"""

from __future__ import annotations

import sys


def main(path: str) -> None:
    """Write the number of values to standard output."""
    import pyarrow.parquet as pq

    about = pq.read_metadata(path)
    groups = [about.row_group(number) for number in range(about.num_row_groups)]
    n_values = sum(group.column(j).num_values for group in groups for j in range(group.num_columns))
    sys.stdout.write(f"{n_values}")


if __name__ == "__main__":
    try:
        main(sys.argv[1])
    except Exception as error:  # noqa: BLE001 - whatever it is, it is told
        sys.stderr.write(f"{error}".strip() or type(error).__name__)
        sys.exit(1)
