"""Pages that are run: the blocks of a tutorial, in the order of the page."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
TUTORIALS = ROOT / "docs" / "tutorials"

_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def run_page(page: Path, command: Callable[[Sequence[str]], None]) -> dict[str, Any]:
    """Run the Python of a page, and each line of its shell by `command`, without the word tautcut; the names that the
    Python leaves.
    """
    names: dict[str, Any] = {}
    blocks = _BLOCK.findall(page.read_text(encoding="utf-8"))
    assert {kind for kind, _ in blocks} <= {"python", "sh", "text"}
    for kind, text in blocks:
        if kind == "python":
            exec(compile(text, page.name, "exec"), names)
        elif kind == "sh":
            for line in text.splitlines():
                program, *words = shlex.split(line, comments=True)
                assert program == "tautcut", line
                command(words)
    return names
