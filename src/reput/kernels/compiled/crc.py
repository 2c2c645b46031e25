"""CRC-32 (the polynomial of zlib) of a stretch of memory.

Where the processor multiplies without carries, 16 bytes a step are folded into a 128-bit remainder (Gopal et
al., "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ"); what is left, and everything elsewhere,
goes eight bytes a step through tables. For a body of 130 bytes that is half the time of tables alone.
"""

from __future__ import annotations

import platform
from typing import Any

import llvmlite.binding
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from reput.kernels.compiled.jit import BYTES, entry_kernel, kernel
from reput.kernels.compiled.memory import address_of, byte_at, load_le32, load_le64

_BYTE = np.uint64(0xFF)
_LOW_32 = np.uint64(0xFFFFFFFF)
_FOLD_LOW, _FOLD_HIGH = 0x1751997D0, 0x0CCAA009E
"""x^(128+32) and x^(128-32) modulo the polynomial, bits reversed: the factors of the halves."""
_FOLD_FROM = 48
"""Below this many bytes the tables alone are faster."""


def _tables() -> np.ndarray:
    table = np.zeros((8, 256), dtype=np.uint32)
    for value in range(256):
        crc = value
        for _ in range(8):
            crc = crc >> 1 ^ (0xEDB88320 if crc & 1 else 0)
        table[0, value] = crc
    for row in range(1, 8):
        previous = table[row - 1]
        table[row] = previous >> 8 ^ table[0][previous & 0xFF]
    return table


_TABLE = _tables()


def _can_fold() -> bool:
    if platform.machine().lower() not in ("x86_64", "amd64"):
        return False
    return bool(dict(llvmlite.binding.get_host_cpu_features()).get("pclmul"))


CAN_FOLD = _can_fold()


def _fold_128(typing_context: Any, begin: Any, end: Any, crc: Any) -> Any:
    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        begin, end, crc = args
        word, half = ir.IntType(64), ir.IntType(32)
        vector = ir.VectorType(word, 2)
        multiply = builder.module.declare_intrinsic(
            "llvm.x86.pclmulqdq", [], fnty=ir.FunctionType(vector, [vector, vector, ir.IntType(8)])
        )
        factors = ir.Constant(vector, [_FOLD_LOW, _FOLD_HIGH])

        def load(address: Any) -> Any:
            return builder.load(builder.inttoptr(address, vector.as_pointer()), align=1)

        first = builder.insert_element(ir.Constant(vector, [0, 0]), crc, ir.Constant(half, 0))
        remainder = cgutils.alloca_once_value(builder, builder.xor(load(begin), first))
        at = cgutils.alloca_once_value(builder, builder.add(begin, ir.Constant(word, 16)))
        step = builder.append_basic_block("fold.step")
        body = builder.append_basic_block("fold.body")
        done = builder.append_basic_block("fold.done")
        builder.branch(step)
        builder.position_at_end(step)
        behind = builder.add(builder.load(at), ir.Constant(word, 16))
        builder.cbranch(builder.icmp_unsigned("<=", behind, end), body, done)
        builder.position_at_end(body)
        old = builder.load(remainder)
        low = builder.call(multiply, [old, factors, ir.Constant(ir.IntType(8), 0x00)])
        high = builder.call(multiply, [old, factors, ir.Constant(ir.IntType(8), 0x11)])
        builder.store(builder.xor(builder.xor(low, high), load(builder.load(at))), remainder)
        builder.store(behind, at)
        builder.branch(step)
        builder.position_at_end(done)
        final = builder.load(remainder)
        parts = [builder.extract_element(final, ir.Constant(half, n)) for n in (0, 1)]
        return context.make_tuple(builder, signature.return_type, [*parts, builder.load(at)])

    return types.Tuple((types.uint64, types.uint64, types.int64))(types.int64, types.int64, types.uint64), code


_fold_128 = intrinsic(_fold_128)


@kernel
def _eight(crc, word):
    """The CRC register after eight more bytes, given as a little-endian word."""
    word ^= crc
    return np.uint64(
        _TABLE[7, word & _BYTE]
        ^ _TABLE[6, word >> np.uint64(8) & _BYTE]
        ^ _TABLE[5, word >> np.uint64(16) & _BYTE]
        ^ _TABLE[4, word >> np.uint64(24) & _BYTE]
        ^ _TABLE[3, word >> np.uint64(32) & _BYTE]
        ^ _TABLE[2, word >> np.uint64(40) & _BYTE]
        ^ _TABLE[1, word >> np.uint64(48) & _BYTE]
        ^ _TABLE[0, word >> np.uint64(56)]
    )


@kernel
def _rest(crc, at, end):
    """The CRC register after the bytes in [at, end)."""
    while at + 8 <= end:
        crc = _eight(crc, load_le64(at))
        at += 8
    if at + 4 <= end:
        word = load_le32(at) ^ crc
        crc = np.uint64(
            _TABLE[3, word & _BYTE]
            ^ _TABLE[2, word >> np.uint64(8) & _BYTE]
            ^ _TABLE[1, word >> np.uint64(16) & _BYTE]
            ^ _TABLE[0, word >> np.uint64(24) & _BYTE]
        )
        at += 4
    while at < end:
        crc = np.uint64(_TABLE[0, (crc ^ np.uint64(byte_at(at))) & _BYTE]) ^ crc >> np.uint64(8)
        at += 1
    return crc


if CAN_FOLD:

    @kernel
    def crc32_at(begin, end):
        """CRC-32 of the bytes in [begin, end), the sign bit cleared as the peer stores it."""
        crc, at = _LOW_32, begin
        if end - begin >= _FOLD_FROM:
            low, high, at = _fold_128(begin, end, crc)
            crc = _eight(_eight(np.uint64(0), low), high)
        return np.int64(~_rest(crc, at, end) & np.uint64(0x7FFFFFFF))

else:

    @kernel
    def crc32_at(begin, end):
        """CRC-32 of the bytes in [begin, end), the sign bit cleared as the peer stores it."""
        return np.int64(~_rest(_LOW_32, begin, end) & np.uint64(0x7FFFFFFF))


@kernel
def crc32(buffer, begin, end):
    """CRC-32 of `buffer[begin:end]`, the sign bit cleared; the twin of `reput.formats.record.crc32`."""
    address = address_of(buffer)
    return crc32_at(address + begin, address + end)


@entry_kernel(BYTES)
def body_crc(body):
    """The CRC-32 of a body (Python's bytes), as a record holds it."""
    at = address_of(body)
    return crc32_at(at, at + len(body))
