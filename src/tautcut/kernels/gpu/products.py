"""A sparse matrix times a dense block on the GPU, with sums in a fixed order: the same input gives the same bits, also
where rows are long. The library's product adds up the rows of hubs in an order of its own, another one each time.
"""
# mypy: ignore-errors

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton
import triton.language as tl

PIECE = 512  # entries of a row that one program adds up; a longer row is cut, and a second launch adds up its pieces
_TILE = 512  # numbers that a program adds up: one row of a wide block, some of a narrow one
_NARROWEST = 16  # columns of a program: Triton 3.6 cannot compile one


@triton.jit(do_not_specialize=["n_items", "width"])
def _add_up(
    firsts, lasts, rows, ends, values, X, Y, n_items, width, keep, scale, V: tl.constexpr, C: tl.constexpr
):  # fmt: skip
    """Y[row] = keep · Y[row] + scale · Σ values · X[ends] over the entries of V items, entry by entry."""
    item = tl.program_id(0) * V + tl.arange(0, V)
    column = tl.program_id(1) * C + tl.arange(0, C)[None, :]
    is_item, is_column = item < n_items, column < width
    first = tl.load(firsts + item, mask=is_item, other=0)
    count = tl.load(lasts + item, mask=is_item, other=0) - first
    total = tl.zeros([V, C], tl.float32)
    for step in range(0, tl.max(count, 0).to(tl.int32)):
        is_entry = step < count
        end = tl.load(ends + first + step, mask=is_entry, other=0)
        value = tl.load(values + first + step, mask=is_entry, other=0.0)
        x = tl.load(X + end[:, None] * width + column, mask=is_entry[:, None] & is_column, other=0.0)
        total += value[:, None] * x
    there = tl.load(rows + item, mask=is_item, other=0)[:, None] * width + column
    is_there = is_item[:, None] & is_column
    before = tl.load(Y + there, mask=is_there, other=0.0)
    tl.store(Y + there, keep * before + scale * total, mask=is_there)


@dataclass(frozen=True)
class _Items:
    """Runs of entries, and the rows to which their sums go."""

    firsts: torch.Tensor
    lasts: torch.Tensor
    rows: torch.Tensor
    ends: torch.Tensor
    values: torch.Tensor

    def add_up(self, X: torch.Tensor, Y: torch.Tensor, keep: float, scale: float) -> None:
        n, width = self.rows.numel(), X.shape[1]
        C = max(_NARROWEST, min(_TILE, triton.next_power_of_2(width)))
        V = _TILE // C
        _add_up[triton.cdiv(n, V), triton.cdiv(width, C)](
            self.firsts, self.lasts, self.rows, self.ends, self.values, X, Y, n, width, keep, scale, V=V, C=C
        )


class SparseMatrix:
    """A square sparse matrix on the GPU, by its CSR arrays."""

    def __init__(self, begins: torch.Tensor, ends: torch.Tensor, values: torch.Tensor) -> None:
        first, last = begins[:-1], begins[1:]
        is_long = last - first > PIECE
        short, long = (~is_long).nonzero()[:, 0], is_long.nonzero()[:, 0]
        self._whole = _Items(first[short], last[short], short, ends, values)
        self._pieces = self._joined = None
        if long.numel():
            counts = (last - first)[long].add(PIECE - 1).div(PIECE, rounding_mode="floor")
            after = counts.cumsum(0)
            owner = torch.repeat_interleave(long, counts)
            piece = torch.arange(owner.numel(), device=begins.device)
            begin = first[owner] + PIECE * (piece - torch.repeat_interleave(after - counts, counts))
            end = torch.minimum(begin + PIECE, last[owner])
            self._pieces = _Items(begin, end, piece, ends, values)
            self._joined = _Items(after - counts, after, long, piece, torch.ones_like(values[: piece.numel()]))

    def add_product(self, X: torch.Tensor, Y: torch.Tensor, *, keep: float, scale: float) -> None:
        """Y = keep · Y + scale · (this matrix) X, in one pass over each; overwrites Y."""
        self._whole.add_up(X, Y, keep, scale)
        if self._pieces is not None:
            sums = X.new_zeros((self._pieces.rows.numel(), X.shape[1]))
            self._pieces.add_up(X, sums, 0.0, 1.0)
            self._joined.add_up(sums, Y, keep, scale)
