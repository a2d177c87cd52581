"""Vector instructions for compiled loops: one comparison of 64 bytes, or of 4 or 8 numbers, at once.

Numba vectorises plain loops now and then; here the vector operation itself is written down, as LLVM IR, so that it is
there on every machine: one instruction with AVX-512, a few with AVX2 or NEON.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]  # published without types
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from penstock.core.arrays import Bytes, Floats

Word = np.uint64

#: A counted loop in generated code (numba publishes no type for it).
_loop: Any = cgutils.for_range


def _compiled(generator: Callable[..., Any]) -> Any:
    """The generator as a function for compiled loops."""
    return intrinsic(generator)


def _address(context: Any, builder: Any, kind: Any, array: Any, offset: Any, vector: Any) -> Any:
    """A pointer to a vector at an offset of a one-dimensional array."""
    data = context.make_array(kind)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [offset]), vector.as_pointer())


def _not_above(typing: Any, codes: Any, offset: Any, value: Any) -> Any:
    signature = types.uint64(codes, types.intp, types.uint8)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        vector = ir.VectorType(ir.IntType(8), 64)
        address = _address(context, builder, signature.args[0], args[0], args[1], vector)
        bound = _spread(builder, vector, args[2])
        hit = builder.icmp_unsigned("<=", builder.load(address, align=1), bound)
        return builder.bitcast(hit, ir.IntType(64))

    return signature, generate


def _at_least(typing: Any, columns: Any, offset: Any, codes: Any, at: Any, depth: Any, least: Any) -> Any:
    signature = types.uint64(columns, types.intp, codes, types.intp, types.intp, types.uint8)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        byte, vector = ir.IntType(8), ir.VectorType(ir.IntType(8), 64)
        counts = builder.alloca(vector)
        builder.store(ir.Constant(vector, [0] * 64), counts)
        with _loop(builder, args[4]) as loop:
            column = builder.add(args[1], builder.mul(loop.index, ir.Constant(loop.index.type, 64)))
            loaded = builder.load(
                _address(context, builder, signature.args[0], args[0], column, vector), align=1
            )
            place = builder.add(args[3], loop.index)
            bound = builder.load(_address(context, builder, signature.args[2], args[2], place, byte))
            hit = builder.icmp_unsigned("<=", loaded, _spread(builder, vector, bound))
            builder.store(builder.add(builder.load(counts), builder.zext(hit, vector)), counts)
        enough = builder.icmp_unsigned(">=", builder.load(counts), _spread(builder, vector, args[5]))
        return builder.bitcast(enough, ir.IntType(64))

    return signature, generate


def _spread(builder: Any, vector: Any, value: Any) -> Any:
    """A vector of one value."""
    undefined = ir.Constant(vector, ir.Undefined)
    first = builder.insert_element(undefined, value, ir.Constant(ir.IntType(32), 0))
    zeros = ir.Constant(ir.VectorType(ir.IntType(32), vector.count), [0] * vector.count)
    return builder.shuffle_vector(first, undefined, zeros)


def _bits_set(typing: Any, mask: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.ctpop(args[0])

    return types.int64(types.uint64), generate


def _smallest(typing: Any, codes: Any, offset: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        byte, vector = ir.IntType(8), ir.VectorType(ir.IntType(8), 64)
        address = _address(context, builder, signature.args[0], args[0], args[1], vector)
        reduce = builder.module.globals.get("llvm.vector.reduce.umin.v64i8") or ir.Function(
            builder.module, ir.FunctionType(byte, [vector]), "llvm.vector.reduce.umin.v64i8"
        )
        return builder.call(reduce, [builder.load(address, align=1)])

    return types.uint8(codes, types.intp), generate


def _copied(width: int) -> Callable[..., Any]:
    def copy(typing: Any, target: Any, i: Any, source: Any, j: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            vector = ir.VectorType(ir.DoubleType(), width)
            to = _address(context, builder, signature.args[0], args[0], args[1], vector)
            source = _address(context, builder, signature.args[2], args[2], args[3], vector)
            builder.store(builder.load(source, align=8), to, align=8)
            return context.get_dummy_value()

        return types.none(target, types.intp, source, types.intp), generate

    return copy


def _upper_half(width: int) -> Callable[..., Any]:
    def bits(typing: Any, codes: Any, offset: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            vector = ir.VectorType(ir.IntType(8), width)
            address = _address(context, builder, signature.args[0], args[0], args[1], vector)
            half = ir.Constant(vector, [128] * width)
            mask = builder.icmp_unsigned(">=", builder.load(address, align=1), half)
            return builder.zext(builder.bitcast(mask, ir.IntType(width)), ir.IntType(64))

        return types.uint64(codes, types.intp), generate

    return bits


def _spread_out(typing: Any, columns: Any, i: Any, codes: Any, j: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        vector = ir.VectorType(ir.IntType(8), 4)
        source = _address(context, builder, signature.args[2], args[2], args[3], vector)
        loaded = builder.load(source, align=1)
        for lane in range(4):
            place = builder.add(args[1], ir.Constant(args[1].type, lane * 64))
            to = _address(context, builder, signature.args[0], args[0], place, ir.IntType(8))
            builder.store(builder.extract_element(loaded, ir.Constant(ir.IntType(32), lane)), to)
        return context.get_dummy_value()

    return types.none(columns, types.intp, codes, types.intp), generate


def _lowest_bit(typing: Any, mask: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.uint64), generate


def _rows(comparison: str, width: int) -> Callable[..., Any]:
    def compare(typing: Any, left: Any, left_offset: Any, right: Any, right_offset: Any) -> Any:
        signature = types.uint64(left, types.intp, right, types.intp)

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            vector = ir.VectorType(ir.DoubleType(), width)
            a = _address(context, builder, signature.args[0], args[0], args[1], vector)
            b = _address(context, builder, signature.args[2], args[2], args[3], vector)
            mask = builder.fcmp_ordered(comparison, builder.load(a, align=8), builder.load(b, align=8))
            return builder.zext(builder.bitcast(mask, ir.IntType(width)), ir.IntType(64))

        return signature, generate

    return compare


#: (codes, offset, value) -> bit i is set if codes[offset + i] <= value, i < 64.
not_above: Callable[[Bytes, int, int], Word] = _compiled(_not_above)
#: (columns, offset, codes, at, depth, least) -> bit i is set if columns[offset + 64 k + i] <= codes[at + k] for at
#: least so many k < depth.
at_least: Callable[[Bytes, int, Bytes, int, int, int], Word] = _compiled(_at_least)
#: (codes, offset) -> the smallest of the next 64 codes.
smallest_of: Callable[[Bytes, int], int] = _compiled(_smallest)
#: (codes, offset) -> bit i is set if codes[offset + i] >= 128, for the next 4 or 8 codes.
upper4: Callable[[Bytes, int], Word] = _compiled(_upper_half(4))
upper8: Callable[[Bytes, int], Word] = _compiled(_upper_half(8))
#: (columns, i, codes, j): write the next 4 codes from codes[j] to columns[i], columns[i + 64], ...
spread4: Callable[[Bytes, int, Bytes, int], None] = _compiled(_spread_out)
#: (a, i, b, j): copy the next 4 or 8 numbers from b[j] to a[i].
copy4: Callable[[Floats, int, Floats, int], None] = _compiled(_copied(4))
copy8: Callable[[Floats, int, Floats, int], None] = _compiled(_copied(8))
#: The place of the lowest set bit of a mask that is not zero; the number of set bits.
lowest_bit: Callable[[Word], int] = _compiled(_lowest_bit)
bits_set: Callable[[Word], int] = _compiled(_bits_set)
#: (a, i, b, j) -> bit k is set if a[i + k] <= b[j + k], or <, for the next 4 or 8 numbers.
le4: Callable[[Floats, int, Floats, int], Word] = _compiled(_rows("<=", 4))
lt4: Callable[[Floats, int, Floats, int], Word] = _compiled(_rows("<", 4))
le8: Callable[[Floats, int, Floats, int], Word] = _compiled(_rows("<=", 8))
lt8: Callable[[Floats, int, Floats, int], Word] = _compiled(_rows("<", 8))
