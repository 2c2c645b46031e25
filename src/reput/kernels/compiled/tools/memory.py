"""Loads and stores at addresses, as one machine instruction each.

Inside the compiled kernels a place in a buffer is its address (int64): a helper that took the array itself
would cost more for passing it, counted references and all, than for its work. Nothing here checks a bound: the
caller has compared the address with the buffer's end first. The kernels that other packages call take arrays, and keep
them alive.

numba refuses big-endian arrays, and bytes put together one by one are not always merged into one load.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.errors import TypingError
from numba.extending import intrinsic

from reput.formats.layout import WORD_SIZE
from reput.formats.log.properties import NAME_VALUE_SEPARATOR, PROPERTY_SEPARATOR
from reput.kernels.compiled.tools.jit import kernel

assert sys.byteorder == "little", "the compiled kernels swap bytes for a little-endian machine"


def _pointer(builder: Any, address: Any, llvm_type: Any) -> Any:
    return builder.inttoptr(address, llvm_type.as_pointer())


def _address_of(typing_context: Any, array: Any) -> Any:
    if not (isinstance(array, (types.Array, types.Bytes)) and array.layout == "C"):
        raise TypingError("a contiguous array, or bytes, are needed")

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        return builder.ptrtoint(data, ir.IntType(64))

    return types.int64(array), code


def _loader(bits: int, result: Any, swap: bool) -> Any:
    def load(typing_context: Any, address: Any) -> Any:
        def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            value = builder.load(_pointer(builder, args[0], ir.IntType(bits)), align=1)
            value = builder.bswap(value) if swap else value
            if bits == result.bitwidth:
                return value
            wide = ir.IntType(result.bitwidth)
            return builder.sext(value, wide) if swap else builder.zext(value, wide)

        return result(types.int64), code

    return intrinsic(load)


def _storer(bits: int, value_type: Any, swap: bool = True) -> Any:
    def store(typing_context: Any, address: Any, value: Any) -> Any:
        def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            value = builder.bswap(args[1]) if swap else args[1]
            builder.store(value, _pointer(builder, args[0], ir.IntType(bits)), align=1)
            return context.get_dummy_value()

        return types.void(types.int64, value_type), code

    return intrinsic(store)


address_of = intrinsic(_address_of)
"""Address of an array's first element."""

byte_at = _loader(8, types.int64, swap=False)
load_be16 = _loader(16, types.int64, swap=True)
load_be32 = _loader(32, types.int64, swap=True)
load_be64 = _loader(64, types.int64, swap=True)
load_le32 = _loader(32, types.uint64, swap=False)
load_le64 = _loader(64, types.uint64, swap=False)
store_8 = _storer(8, types.uint8, swap=False)
store_32 = _storer(32, types.int32, swap=False)
store_64 = _storer(64, types.int64, swap=False)
store_be16 = _storer(16, types.int16)
store_be32 = _storer(32, types.int32)
store_be64 = _storer(64, types.int64)


def _publish_64(typing_context: Any, address: Any, value: Any) -> Any:
    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        builder.store_atomic(args[1], _pointer(builder, args[0], ir.IntType(64)), "release", 8)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), code


publish_64 = intrinsic(_publish_64)
"""Store a number at an aligned address; readers of it, in any process, also see everything stored before."""


@kernel
def word_address(record, place):
    """Return the address of a field of a record, by the number of its word, or of value `place` of an int64 array."""
    return record + WORD_SIZE * place


@kernel
def word(record, place):
    """Return a field of a record, by the number of its word, or number `place` of the int64 values at an address."""
    return np.int64(load_le64(word_address(record, place)))


@kernel
def set_word(record, place, value):
    """Set a field of a record, by the number of its word, or number `place` of the int64 values at an address."""
    store_64(word_address(record, place), value)


@kernel
def int32_at(address, row):
    """Return number `row` of the int32 values at an address."""
    return np.int64(np.int32(load_le32(address + 4 * row)))


def _copy_bytes(typing_context: Any, target: Any, source: Any, size: Any) -> Any:
    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        byte = ir.IntType(8)
        cgutils.raw_memcpy(builder, _pointer(builder, args[0], byte), _pointer(builder, args[1], byte), args[2], 1)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), code


copy_bytes = intrinsic(_copy_bytes)
"""Copy a number of bytes from the second address to the first; the stretches do not overlap."""


def _equal(value: int, count: int) -> Any:
    def mask(typing_context: Any, address: Any) -> Any:
        def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            vector = ir.VectorType(ir.IntType(8), count)
            data = builder.load(_pointer(builder, args[0], vector), align=1)
            equal = builder.icmp_unsigned("==", data, ir.Constant(vector, [value] * count))
            bits = builder.bitcast(equal, ir.IntType(count))
            return bits if count == 64 else builder.zext(bits, ir.IntType(64))

        return types.uint64(types.int64), code

    return intrinsic(mask)


separators_32 = _equal(PROPERTY_SEPARATOR, 32)
"""A bit for each of the 32 bytes at an address that is 0x02, the first byte lowest."""

separators_64 = _equal(PROPERTY_SEPARATOR, 64)
"""The same for 64 bytes."""

ones_64 = _equal(NAME_VALUE_SEPARATOR, 64)
"""A bit for each of the 64 bytes at an address that is 0x01, the first byte lowest."""

spaces_32 = _equal(0x20, 32)
"""A bit for each of the 32 bytes at an address that is a space, the first byte lowest."""

spaces_64 = _equal(0x20, 64)
"""The same for 64 bytes."""


def _equal_64(typing_context: Any, address: Any, value: Any) -> Any:
    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        vector, byte = ir.VectorType(ir.IntType(8), 64), builder.trunc(args[1], ir.IntType(8))
        data = builder.load(_pointer(builder, args[0], vector), align=1)
        one = builder.insert_element(ir.Constant(vector, ir.Undefined), byte, ir.Constant(ir.IntType(32), 0))
        places = ir.Constant(ir.VectorType(ir.IntType(32), 64), [0] * 64)
        wanted = builder.shuffle_vector(one, ir.Constant(vector, ir.Undefined), places)
        return builder.bitcast(builder.icmp_unsigned("==", data, wanted), ir.IntType(64))

    return types.uint64(types.int64, types.uint64), code


equal_64 = intrinsic(_equal_64)
"""A bit for each of the 64 bytes at an address that is the lowest byte of a number, the first byte lowest."""


def _trailing_zeros(typing_context: Any, value: Any) -> Any:
    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 0))

    return types.int64(types.uint64), code


trailing_zeros = intrinsic(_trailing_zeros)


def _bits_of(typing_context: Any, value: Any) -> Any:
    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.bitcast(args[0], ir.IntType(64))

    return types.int64(types.float64), code


bits_of = intrinsic(_bits_of)
"""The bits of a float64 as an int64."""


def _prefetch(typing_context: Any, address: Any) -> Any:
    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        byte_pointer, word = ir.IntType(8).as_pointer(), ir.IntType(32)
        function_type = ir.FunctionType(ir.VoidType(), [byte_pointer, word, word, word])
        function = builder.module.declare_intrinsic("llvm.prefetch", [byte_pointer], fnty=function_type)
        # Read, keep in all cache levels, data.
        kind = [ir.Constant(word, number) for number in (0, 3, 1)]
        builder.call(function, [_pointer(builder, args[0], ir.IntType(8)), *kind])
        return context.get_dummy_value()

    return types.void(types.int64), code


prefetch = intrinsic(_prefetch)
"""Ask for a cache line before it is needed; any address will do, nothing is read."""
