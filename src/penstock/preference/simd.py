"""Vector instructions for compiled loops: one comparison of 64 bytes, or of 4 or 8 numbers, at once.

Numba vectorises plain loops now and then; here the vector operation itself is written down, as LLVM IR, so that it is
there on every machine: one instruction with AVX-512, a few with AVX2 or NEON.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
Floats = NDArray[np.float64]


def _address(context: Any, builder: Any, kind: Any, array: Any, offset: Any, vector: Any) -> Any:
    """A pointer to a vector at an offset of a one-dimensional array."""
    data = context.make_array(kind)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [offset]), vector.as_pointer())


def _not_above(typing: Any, codes: Any, offset: Any, value: Any) -> Any:
    signature = types.uint64(codes, types.intp, types.uint8)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        vector = ir.VectorType(ir.IntType(8), 64)
        undefined = ir.Constant(vector, ir.Undefined)
        loaded = builder.load(
            _address(context, builder, signature.args[0], args[0], args[1], vector), align=1
        )
        first = builder.insert_element(undefined, args[2], ir.Constant(ir.IntType(32), 0))
        zeros = ir.Constant(ir.VectorType(ir.IntType(32), 64), [0] * 64)
        bound = builder.shuffle_vector(first, undefined, zeros)
        return builder.bitcast(builder.icmp_unsigned("<=", loaded, bound), ir.IntType(64))

    return signature, generate


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
not_above: Callable[[Bytes, int, int], int] = intrinsic(_not_above)
#: The place of the lowest set bit of a mask that is not zero.
lowest_bit: Callable[[int], int] = intrinsic(_lowest_bit)
#: (a, i, b, j) -> bit k is set if a[i + k] <= b[j + k], or <, for the next 4 or 8 numbers.
le4: Callable[[Floats, int, Floats, int], int] = intrinsic(_rows("<=", 4))
lt4: Callable[[Floats, int, Floats, int], int] = intrinsic(_rows("<", 4))
le8: Callable[[Floats, int, Floats, int], int] = intrinsic(_rows("<=", 8))
lt8: Callable[[Floats, int, Floats, int], int] = intrinsic(_rows("<", 8))
