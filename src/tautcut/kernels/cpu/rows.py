"""Rows of F and P as SIMD registers inside Numba code.

A `Row` is one row of an array with R columns, held in a few LLVM vector registers: pieces of eight lanes and a
shorter last one. Numba's own loop over a compile-time R is unrolled to scalar code, about three times slower
(decision 0010). This module owns the type, its arithmetic and its loads and stores; it knows nothing of graphs.

All functions here are intrinsics: they exist only inside compiled functions. Widths are compile-time constants.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import partial, reduce
from math import gcd
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic, models, overload, register_model

# NaN and infinities keep their meaning; the order of additions is free, so that a row can be summed in a tree, and a
# product and a sum may be rounded as one.
_FLAGS = ("reassoc", "nsz", "arcp", "contract")
_LANES = 8  # lanes of a piece: float32 values in a register of 256 bits. LLVM splits wider pieces badly (decision 0010)
HALF = types.uint16  # the elements of an array of float16, as which Numba lets it pass: a processor only converts them
_LINE = 64  # bytes of a cache line
_PREFETCH = (0, 3, 1)  # arguments of LLVM's prefetch: for reading, into all levels of the cache, as data


def padded_width(n_columns: int) -> int:
    """The number of lanes that hold `n_columns` values: full pieces of eight, then a power of two."""
    full, rest = divmod(n_columns, _LANES)
    return full * _LANES + (1 << (rest - 1).bit_length() if rest else 0)


def _piece_widths(width: int) -> list[int]:
    """The lanes of each register of a row."""
    full, rest = divmod(width, _LANES)
    return [_LANES] * full + ([rest] if rest else [])


class Row(types.Type):
    """The Numba type of a row: `width` lanes of `dtype`."""

    def __init__(self, dtype: Any, width: int) -> None:
        self.dtype, self.width = dtype, width
        super().__init__(name=f"Row({dtype}, {width})")


@register_model(Row)
class _RowModel(models.PrimitiveModel):
    """What LLVM sees of a row: a struct of vectors."""

    def __init__(self, manager: Any, row: Row) -> None:
        element = manager.lookup(row.dtype).get_value_type()
        pieces = [ir.VectorType(element, lanes) for lanes in _piece_widths(row.width)]
        super().__init__(manager, row, ir.LiteralStructType(pieces))


def _pieces(builder: Any, value: Any) -> list[Any]:
    return [builder.extract_value(value, k) for k in range(len(value.type.elements))]


def _join(builder: Any, pieces: list[Any]) -> Any:
    value = ir.Constant(ir.LiteralStructType([piece.type for piece in pieces]), ir.Undefined)
    for k, piece in enumerate(pieces):
        value = builder.insert_value(value, piece, k)
    return value


def _vector_name(vector: Any) -> str:
    """How LLVM's intrinsics spell a vector type: v8f32."""
    return f"v{vector.count}f{32 if isinstance(vector.element, ir.FloatType) else 64}"


def _call(builder: Any, name: str, result: Any, args: list[Any], flags: tuple[str, ...] = ()) -> Any:
    """Call LLVM's intrinsic of this name."""
    signature = ir.FunctionType(result, [arg.type for arg in args])
    function = cgutils.get_or_insert_function(builder.module, signature, name)
    return builder.call(function, args, fastmath=flags)


def _addresses(context: Any, builder: Any, signature: Any, args: Any, row: Row) -> tuple[list[Any], int]:
    """Pointers to the pieces of a row, and their alignment: that of one value, as rows follow each other without gaps.

    The first two of `args` are a one- or two-dimensional C-ordered array, and the number of the row in it.
    """
    array_type, array = signature.args[0], args[0]
    index = context.cast(builder, args[1], signature.args[1], types.int64)
    view = context.make_array(array_type)(context, builder, array)
    start = builder.ptrtoint(view.data, ir.IntType(64))
    if array_type.ndim == 2:
        stride = cgutils.unpack_tuple(builder, view.strides, 2)[0]
        start = builder.add(start, builder.mul(stride, index))
    element = context.get_value_type(row.dtype)
    itemsize = context.get_abi_sizeof(element)
    pointers, offset = [], 0
    for lanes in _piece_widths(row.width):
        address = builder.add(start, ir.Constant(ir.IntType(64), offset * itemsize))
        pointers.append(builder.inttoptr(address, ir.VectorType(element, lanes).as_pointer()))
        offset += lanes
    return pointers, itemsize


@intrinsic(prefer_literal=True)
def load(typing_context: Any, array: Any, index: Any, width: Any) -> Any:
    """Row `index` of `array`; of halves, a row of float32."""
    kept = Row(array.dtype, width.literal_value)
    row = Row(types.float32, kept.width) if array.dtype == HALF else kept

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointers, alignment = _addresses(context, builder, signature, args, kept)
        pieces = [builder.load(pointer) for pointer in pointers]
        for piece in pieces:
            piece.align = alignment
        if array.dtype == HALF:
            halves = [builder.bitcast(piece, ir.VectorType(ir.HalfType(), piece.type.count)) for piece in pieces]
            pieces = [builder.fpext(half, ir.VectorType(ir.FloatType(), half.type.count)) for half in halves]
        return _join(builder, pieces)

    return row(array, index, width), generate


@intrinsic(prefer_literal=True)
def prefetch(typing_context: Any, array: Any, index: Any, width: Any) -> Any:
    """Ask for row `index` of `array`, all of it, to be in the cache soon."""
    row = Row(array.dtype, width.literal_value)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointers, itemsize = _addresses(context, builder, signature, args, row)
        byte = builder.bitcast(pointers[0], ir.IntType(8).as_pointer())
        kind = [ir.Constant(ir.IntType(32), value) for value in _PREFETCH]
        n_bytes = itemsize * row.width
        # Rows begin at multiples of what they have in common with a line; so much of their end is in one line.
        for offset in (*range(0, n_bytes - gcd(n_bytes, _LINE), _LINE), n_bytes - 1):
            line = builder.gep(byte, [ir.Constant(ir.IntType(64), offset)])
            _call(builder, "llvm.prefetch.p0", ir.VoidType(), [line, *kind])
        return context.get_dummy_value()

    return types.void(array, index, width), generate


@intrinsic
def entry(typing_context: Any, array: Any, index: Any) -> Any:
    """array[index] of a contiguous array, where no index is negative; to ask whether it is takes a while."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        view = context.make_array(signature.args[0])(context, builder, args[0])
        place = context.cast(builder, args[1], signature.args[1], types.intp)
        return builder.load(builder.gep(view.data, [place]))

    return array.dtype(array, index), generate


@intrinsic
def store(typing_context: Any, array: Any, index: Any, row: Any) -> Any:
    """Write a row to `array[index]`; to halves, rounded to the nearest."""
    kept = Row(array.dtype, row.width)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointers, alignment = _addresses(context, builder, signature, args, kept)
        for piece, pointer in zip(_pieces(builder, args[2]), pointers, strict=True):
            if array.dtype == HALF:
                half = builder.fptrunc(piece, ir.VectorType(ir.HalfType(), piece.type.count))
                piece = builder.bitcast(half, ir.VectorType(ir.IntType(16), piece.type.count))
            written = builder.store(piece, pointer)
            written.align = alignment
        return context.get_dummy_value()

    return types.void(array, index, row), generate


def _splat(builder: Any, value: Any, lanes: int) -> Any:
    """A vector whose lanes all hold `value`, in LLVM's idiom: put it into lane 0 and shuffle that lane everywhere."""
    undefined = ir.Constant(ir.VectorType(value.type, lanes), ir.Undefined)
    first = builder.insert_element(undefined, value, ir.Constant(ir.IntType(32), 0))
    return builder.shuffle_vector(first, undefined, ir.Constant(ir.VectorType(ir.IntType(32), lanes), [0] * lanes))


def _splat_row(width: int) -> Any:
    """The code generator of a row of this width whose lanes all hold the first argument."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _join(builder, [_splat(builder, args[0], lanes) for lanes in _piece_widths(width)])

    return generate


@intrinsic(prefer_literal=True)
def full(typing_context: Any, value: Any, width: Any) -> Any:
    """A row of this width whose lanes all hold `value`."""
    return Row(value, width.literal_value)(value, width), _splat_row(width.literal_value)


@intrinsic
def spread(typing_context: Any, value: Any, row: Any) -> Any:
    """A row as wide as `row` whose lanes all hold `value`, for functions that do not know the width."""
    return Row(value, row.width)(value, row), _splat_row(row.width)


def _lanewise(emit: Callable[..., Any]) -> Any:
    """The code generator that applies `emit(builder, *pieces)` to rows piece by piece."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pieces = zip(*(_pieces(builder, arg) for arg in args), strict=True)
        return _join(builder, [emit(builder, *aligned) for aligned in pieces])

    return generate


def _binary(emit: Callable[..., Any]) -> Any:
    """A function of two rows of one type, which gives a third."""
    generate = _lanewise(emit)

    @intrinsic
    def apply(typing_context: Any, x: Any, y: Any) -> Any:
        return x(x, y), generate

    return apply


def _register_operator(symbol: Any, function: Any) -> None:
    """Let `symbol` between two rows mean `function`."""

    @overload(symbol)
    def choose(x: Any, y: Any) -> Any:
        def apply(x: Any, y: Any) -> Any:
            return function(x, y)

        return apply if isinstance(x, Row) and isinstance(y, Row) else None


def _larger(builder: Any, x: Any, y: Any) -> Any:
    return builder.select(builder.fcmp_ordered(">", x, y), x, y)


def _smaller(builder: Any, x: Any, y: Any) -> Any:
    return builder.select(builder.fcmp_ordered("<", x, y), x, y)


_register_operator(operator.add, _binary(lambda b, x, y: b.fadd(x, y, flags=_FLAGS)))
_register_operator(operator.sub, _binary(lambda b, x, y: b.fsub(x, y, flags=_FLAGS)))
_register_operator(operator.mul, _binary(lambda b, x, y: b.fmul(x, y, flags=_FLAGS)))

#: Lane-wise minimum and maximum of two rows.
minimum = _binary(_smaller)
maximum = _binary(_larger)


def _selection(comparison: str) -> Any:
    """A function of four rows: `a if x <comparison> y else c`, lane by lane."""
    generate = _lanewise(lambda b, x, y, a, c: b.select(b.fcmp_ordered(comparison, x, y), a, c))

    @intrinsic
    def apply(typing_context: Any, x: Any, y: Any, a: Any, c: Any) -> Any:
        return a(x, y, a, c), generate

    return apply


#: Lane-wise `a if x > y else c`, and the same for equality.
where_greater = _selection(">")
where_equal = _selection("==")


@intrinsic
def absolute(typing_context: Any, x: Any) -> Any:
    """Lane-wise |x|."""
    return x(x), _lanewise(lambda b, x: _call(b, f"llvm.fabs.{_vector_name(x.type)}", x.type, [x]))


def _to_double(builder: Any, x: Any) -> Any:
    if isinstance(x.type.element, ir.DoubleType):
        return x
    return builder.fpext(x, ir.VectorType(ir.DoubleType(), x.type.count))


@intrinsic
def widen(typing_context: Any, x: Any) -> Any:
    """The row in float64, for sums over many rows."""
    return Row(types.float64, x.width)(x), _lanewise(_to_double)


def _tree(builder: Any, pieces: list[Any], combine: Callable[[Any, Any], Any]) -> list[Any]:
    """Combine pieces of equal width, so that one reduction per width is left."""
    by_width: dict[int, Any] = {}
    for piece in pieces:
        lanes = piece.type.count
        by_width[lanes] = combine(by_width[lanes], piece) if lanes in by_width else piece
    return list(by_width.values())


@intrinsic
def total(typing_context: Any, x: Any) -> Any:
    """The sum of all lanes."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pieces = _tree(builder, _pieces(builder, args[0]), lambda a, c: builder.fadd(a, c, flags=_FLAGS))
        result = ir.Constant(pieces[0].type.element, 0.0)
        for piece in pieces:
            name = f"llvm.vector.reduce.fadd.{_vector_name(piece.type)}"
            result = _call(builder, name, piece.type.element, [result, piece], _FLAGS)
        return result

    return x.dtype(x), generate


@intrinsic
def largest(typing_context: Any, x: Any) -> Any:
    """The largest lane."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        flags = (*_FLAGS, "nnan")  # or LLVM compares lane by lane, to treat a NaN by the rules
        values = [
            _call(builder, f"llvm.vector.reduce.fmax.{_vector_name(piece.type)}", piece.type.element, [piece], flags)
            for piece in _tree(builder, _pieces(builder, args[0]), partial(_larger, builder))
        ]
        return reduce(partial(_larger, builder), values)

    return x.dtype(x), generate


def _any(builder: Any, truths: Any) -> Any:
    """Whether any lane of a vector of truth values is true."""
    name = f"llvm.vector.reduce.or.v{truths.type.count}i1"
    return _call(builder, name, ir.IntType(1), [truths])


@intrinsic
def has_lane_between(typing_context: Any, x: Any, low: Any, high: Any) -> Any:
    """Whether any lane satisfies low < x ≤ high."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        answer = ir.Constant(ir.IntType(1), 0)
        for x, low, high in zip(*(_pieces(builder, arg) for arg in args), strict=True):
            inside = builder.and_(builder.fcmp_ordered(">", x, low), builder.fcmp_ordered("<=", x, high))
            answer = builder.or_(answer, _any(builder, inside))
        return answer

    return types.boolean(x, low, high), generate


@intrinsic
def are_above_alike(typing_context: Any, x: Any, y: Any, u: Any, v: Any) -> Any:
    """Whether x > y in exactly those lanes in which u > v."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        differ = ir.Constant(ir.IntType(1), 0)
        for x, y, u, v in zip(*(_pieces(builder, arg) for arg in args), strict=True):
            odd = builder.xor(builder.fcmp_ordered(">", x, y), builder.fcmp_ordered(">", u, v))
            differ = builder.or_(differ, _any(builder, odd))
        return builder.not_(differ)

    return types.boolean(x, y, u, v), generate


def _bits(builder: Any, answers: list[Any]) -> Any:
    """A bit for each lane of these vectors of truth values, the first lowest."""
    bits, begin = ir.Constant(ir.IntType(64), 0), 0
    for answer in answers:
        lanes = answer.type.count
        here = builder.zext(builder.bitcast(answer, ir.IntType(lanes)), ir.IntType(64))
        bits = builder.or_(bits, builder.shl(here, ir.Constant(ir.IntType(64), begin)))
        begin += lanes
    return bits


@intrinsic
def lanes_up_to(typing_context: Any, x: Any, high: Any) -> Any:
    """A bit for each lane, the first lowest: whether x ≤ high."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pieces = _pieces(builder, args[0])
        highs = [_splat(builder, args[1], piece.type.count) for piece in pieces]
        return _bits(builder, [builder.fcmp_ordered("<=", *pair) for pair in zip(pieces, highs, strict=True)])

    return types.int64(x, high), generate


@intrinsic
def lanes_above(typing_context: Any, x: Any, y: Any) -> Any:
    """A bit for each lane, the first lowest: whether x > y."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pairs = zip(*(_pieces(builder, arg) for arg in args), strict=True)
        return _bits(builder, [builder.fcmp_ordered(">", *pair) for pair in pairs])

    return types.int64(x, y), generate


@intrinsic
def first_equal(typing_context: Any, x: Any, y: Any) -> Any:
    """The number of the first lane in which both rows are equal; 0 if there is none."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        place, begin = ir.Constant(ir.IntType(64), 0), x.width
        pairs = list(zip(*(_pieces(builder, arg) for arg in args), strict=True))
        for one, other in reversed(pairs):  # from the last, so that an earlier one has the final say
            lanes = one.type.count
            begin -= lanes
            equal = builder.fcmp_ordered("==", one, other)
            mask = builder.zext(builder.bitcast(equal, ir.IntType(lanes)), ir.IntType(64))  # a bit per lane
            first = builder.cttz(mask, ir.Constant(ir.IntType(1), 0))
            is_here = builder.icmp_unsigned("!=", mask, ir.Constant(ir.IntType(64), 0))
            place = builder.select(is_here, builder.add(first, ir.Constant(ir.IntType(64), begin)), place)
        return place

    return types.int64(x, y), generate
