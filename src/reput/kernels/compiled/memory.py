"""Unaligned loads and stores on `uint8` buffers, as one machine instruction each.

Nothing here checks a bound: whoever calls has compared the position with the buffer's end first. numba
refuses big-endian arrays, and bytes put together one by one are not always merged into one load.
"""

from __future__ import annotations

import sys
from typing import Any

from llvmlite import ir
from numba import types
from numba.core.errors import TypingError
from numba.extending import intrinsic

assert sys.byteorder == "little", "the compiled kernels swap bytes for a little-endian machine"


def _address(context: Any, builder: Any, array_type: Any, array: Any, index: Any, llvm_type: Any) -> Any:
    data = context.make_array(array_type)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [index]), llvm_type.as_pointer())


def _check(buffer: Any) -> None:
    if not (isinstance(buffer, types.Array) and buffer.dtype == types.uint8 and buffer.layout == "C"):
        raise TypingError("a contiguous uint8 buffer is needed")


def _loader(bits: int, result: Any, swap: bool) -> Any:
    def load(typing_context: Any, buffer: Any, index: Any) -> Any:
        _check(buffer)

        def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            llvm_type = ir.IntType(bits)
            pointer = _address(context, builder, signature.args[0], args[0], args[1], llvm_type)
            value = builder.load(pointer, align=1)
            return builder.bswap(value) if swap else value

        return result(buffer, types.int64), code

    return intrinsic(load)


def _storer(bits: int, value_type: Any) -> Any:
    def store(typing_context: Any, buffer: Any, index: Any, value: Any) -> Any:
        _check(buffer)

        def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            llvm_type = ir.IntType(bits)
            pointer = _address(context, builder, signature.args[0], args[0], args[1], llvm_type)
            builder.store(builder.bswap(args[2]), pointer, align=1)
            return context.get_dummy_value()

        return types.void(buffer, types.int64, value_type), code

    return intrinsic(store)


load_be16 = _loader(16, types.int16, swap=True)
load_be32 = _loader(32, types.int32, swap=True)
load_be64 = _loader(64, types.int64, swap=True)
load_le32 = _loader(32, types.uint32, swap=False)
load_le64 = _loader(64, types.uint64, swap=False)
store_be32 = _storer(32, types.int32)
store_be64 = _storer(64, types.int64)


def _find_separators(typing_context: Any, buffer: Any, index: Any) -> Any:
    """A bit for each of the 32 bytes from `index` that is 0x01 or 0x02, the first byte lowest."""
    _check(buffer)

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        vector = ir.VectorType(ir.IntType(8), 32)
        pointer = _address(context, builder, signature.args[0], args[0], args[1], vector)
        data = builder.load(pointer, align=1)
        one = ir.Constant(vector, [1] * 32)
        two = ir.Constant(vector, [2] * 32)
        below = builder.icmp_unsigned("<", builder.sub(data, one), two)
        return builder.bitcast(below, ir.IntType(32))

    return types.uint32(buffer, types.int64), code


find_separators_32 = intrinsic(_find_separators)


def _count_trailing_zeros(typing_context: Any, value: Any) -> Any:
    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 0))

    return types.uint32(types.uint32), code


count_trailing_zeros = intrinsic(_count_trailing_zeros)
