"""Text that holds nothing but numbers, lines of them with blanks between: what Matrix Market and METIS files are below
their first lines. It counts and checks the numbers before anything is allocated for them; what they mean is not its
business.
"""

from __future__ import annotations

import re
import warnings
from pathlib import Path

import numpy as np

from tautcut.arrays import FloatArray, IntArray
from tautcut.errors import InputError

_LETTERS = b"0123456789+-.eEinfatyINFATY \t\r\n\v\f"  # of numbers, of "nan" and "infinity", and blanks
_NUMBER = re.compile(rb"[+-]?(?:(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|inf(?:inity)?|nan)", re.IGNORECASE)
_BLOCK = 2**18  # bytes that are looked at together


def counts_by_line(text: bytes) -> IntArray:
    """How many words stand in each line, shape (n_lines,)."""
    found, begun, was_blank = [], 0, True
    for start in range(0, len(text), _BLOCK):
        letters = np.frombuffer(text, np.uint8, min(_BLOCK, len(text) - start), start)
        is_blank = letters <= ord(" ")
        begins = ~is_blank
        begins[1:] &= is_blank[:-1]
        begins[0] &= was_blank
        ends = np.flatnonzero(letters == ord("\n"))
        until = begins.cumsum(dtype=np.int32)
        counts = np.diff(until[ends], prepend=0, append=until[-1])
        counts[0] += begun
        found.append(counts[:-1])
        begun, was_blank = int(counts[-1]), bool(is_blank[-1])
    if text and not text.endswith(b"\n"):
        found.append(np.array([begun]))
    return np.concatenate(found, dtype=np.int64) if found else np.empty(0, dtype=np.int64)


def refuse_words(text: bytes, path: Path) -> None:
    """Refuse a text with letters that no number has; null bytes are among them."""
    odd = text.translate(None, _LETTERS)
    if odd:
        raise InputError(f"'{path}' must hold numbers below its first lines; found {chr(odd[0])!r}. Correct it.")


def numbers(text: bytes, counts: IntArray, path: Path) -> FloatArray:
    """All numbers of a text with so many words in its lines; every word has to be one."""
    refuse_words(text, path)
    if not counts.any():
        return np.empty(0)
    with warnings.catch_warnings():
        warnings.simplefilter("error", DeprecationWarning)  # an older NumPy stops where it understands no more
        try:
            values: FloatArray = np.fromstring(text, sep=" ")
        except (ValueError, DeprecationWarning):
            values = np.empty(0)
    if values.size != counts.sum():  # 1-2 are two to NumPy
        odd = next((word for line in text.split(b"\n") for word in line.split() if not _NUMBER.fullmatch(word)), b"")
        raise InputError(f"'{path}' must hold numbers; found {odd[:40].decode('latin-1')!r}. Correct it.")
    return values
