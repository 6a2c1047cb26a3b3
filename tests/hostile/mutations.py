"""Small damage to a file: bytes, words, lines and numbers are changed, cut, doubled or put in. The same generator
does the same damage. A mutation knows no format.
"""

from __future__ import annotations

import gzip
import re
import struct
from collections.abc import Callable
from random import Random

WORDS = (
    "nan", "NaN", "inf", "-inf", "1e400", "-1e400", "1e308", "1e-320", "-1", "0", "-0", "1.5", "99999999999999999999",
    "9223372036854775807", "9223372036854775808", "2147483648", "4294967296", "0x10", "1_000", "٣", "²", "１２", "",
    '"', "'", '""', "=1+1", "@SUM(A1)", "\x00", "\ufeff", "\u2028", "\x85", "\x1b[31m", "é", "\U0001f600",
    "a" * 200_000, "1" * 5_000, "None", "true", "<", "&", "&amp;", "]]>", "%", "#", ",", ";", "\t", "id", "label",
    "source", "target", "-", "+", "1e", "e1", "1,5", "1 2", "\\", "%s", "{0}", "\r", "{", "}", "[", "]", "NA", "?",
    "2026-01-31", "1/2/2026", "12:30", "1 000,5", "€5", "50%",
)  # fmt: skip
_EXTREMES = (
    ("<i", -1), ("<i", 2**31 - 1), ("<I", 2**32 - 1), ("<q", -1), ("<q", 2**63 - 1), ("<q", 2**40), ("<i", 0),
    ("<q", 2**31),
)  # fmt: skip


def mutated(content: bytes, draw: Random, *, is_text: bool) -> bytes:
    """The content after one to three mutations, most of them of words where it is text."""
    for _ in range(draw.choice([1, 1, 1, 2, 3])):
        if is_text and draw.random() < 0.7:
            mutate = draw.choice(OF_TEXT)
            words = mutate(content.decode("utf-8", "surrogateescape"), draw)
            content = words.encode("utf-8", "surrogateescape")
        else:
            content = draw.choice(OF_BYTES)(content, draw)
    return content


def flip(content: bytes, draw: Random) -> bytes:
    """Some bytes become others, with a liking for the first 256, where headers are."""
    changed = bytearray(content)
    for _ in range(draw.choice([1, 1, 2, 4, 8, 32]) if changed else 0):
        i = draw.randrange(len(changed) if draw.random() < 0.6 else min(len(changed), 256))
        changed[i] = (
            changed[i] ^ (1 << draw.randrange(8)) if draw.random() < 0.5 else draw.choice([0, 1, 0x7F, 0x80, 0xFF])
        )
    return bytes(changed)


def truncate(content: bytes, draw: Random) -> bytes:
    return content[: draw.randrange(len(content) + 1)]


def cut(content: bytes, draw: Random) -> bytes:
    i, j = _span(content, draw)
    return content[:i] + content[j:]


def double(content: bytes, draw: Random) -> bytes:
    i, j = _span(content, draw)
    return content[:j] + content[i:j] + content[j:]


def _span(content: bytes, draw: Random) -> tuple[int, int]:
    i, j = sorted(draw.randrange(len(content) + 1) for _ in range(2))
    return i, j


def insert(content: bytes, draw: Random) -> bytes:
    i = draw.randrange(len(content) + 1)
    return content[:i] + draw.randbytes(draw.choice([1, 4, 64, 4096])) + content[i:]


def extreme(content: bytes, draw: Random) -> bytes:
    """A field of 4 or 8 bytes is set to an extreme."""
    if len(content) < 8:
        return content
    i, field = draw.randrange(len(content) - 7), struct.pack(*draw.choice(_EXTREMES))
    return content[:i] + field + content[i + len(field) :]


def replace_all(content: bytes, draw: Random) -> bytes:
    """Another file altogether, or the same one wrapped in something."""
    return draw.choice([
        b"", b"\n", b"\x00" * 1000, b"\xff\xfe" + "a,b\n1,2\n".encode("utf-16-le"), draw.randbytes(3000),
        b"\xef\xbb\xbf" + content, content.replace(b"\n", b"\r\n"), content.replace(b"\n", b"\r"),
        gzip.compress(content, mtime=0), b"PK\x03\x04" + content, content + b"\x00", b" " * 5000, b"\n" * 5000,
    ])  # fmt: skip


def words(text: str, draw: Random) -> str:
    parts = re.split(r"(\s+|,|;|\"|<|>|=)", text)
    for _ in range(draw.choice([1, 1, 1, 2, 5])):
        parts[draw.randrange(len(parts) if draw.random() < 0.6 else min(len(parts), 12))] = draw.choice(WORDS)
    return "".join(parts)


def lines(text: str, draw: Random) -> str:
    rows = text.split("\n")
    i, j = draw.randrange(len(rows)), draw.randrange(len(rows))
    shuffled = draw.sample(rows, len(rows))
    return "\n".join(
        draw.choice([
            rows[:i] + rows[i + 1 :],
            [*rows[:j], rows[i], *rows[j:]],
            shuffled,
            rows[:1],
            rows[1:],
            [*rows[:i], rows[i] + draw.choice(",\t ;") + draw.choice(WORDS), *rows[i + 1 :]],
            [*rows[:i], draw.choice(WORDS), *rows[i + 1 :]],
        ])
    )  # fmt: skip


def numbers(text: str, draw: Random) -> str:
    """One number becomes another, or a third of them do."""
    new = draw.choice(["nan", "-1", "0", "1e308", "1e-308", "7", "inf", "1e200"])
    found = list(re.finditer(r"\d+(\.\d+)?", text))
    if draw.random() < 0.5 or not found:
        return re.sub(r"(?<![\w.])\d+(\.\d+)?", lambda one: new if draw.random() < 0.3 else one.group(), text)
    one = draw.choice(found)
    return text[: one.start()] + new + text[one.end() :]


OF_BYTES: tuple[Callable[[bytes, Random], bytes], ...] = (
    flip, flip, flip, truncate, truncate, cut, double, insert, extreme, replace_all,
)  # fmt: skip
OF_TEXT: tuple[Callable[[str, Random], str], ...] = (words, words, lines, numbers)
