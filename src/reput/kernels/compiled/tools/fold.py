"""Operations of the CRC-32 on sixteen bytes at once, for `reput.kernels.compiled.tools.crc`.

If the processor multiplies without carries, two multiplications move 16 bytes, one for each half. Bytes that come n
bits before others count in the CRC as their product with x^n, modulo the polynomial, counts in the others' place
(Gopal et al., "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ").
"""

from __future__ import annotations

import platform
from typing import Any

import numba
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.codegen import get_host_cpu_features
from numba.core.datamodel import models
from numba.extending import intrinsic, register_model

_POLYNOMIAL = 0xEDB88320
"""Bits reversed, as in all numbers here: the lowest bit is the highest power."""
SIZE = 16
MOST_STEPS = 7
_WORD, _BYTE = ir.IntType(64), ir.IntType(8)
_WORDS, _BYTES = ir.VectorType(_WORD, 2), ir.VectorType(_BYTE, SIZE)


def _can_fold() -> bool:
    if platform.machine().lower() not in ("x86_64", "amd64"):
        return False
    # The processor that numba compiles for; NUMBA_CPU_NAME may name another (generic has none of these features).
    given = numba.config.CPU_FEATURES  # type: ignore[attr-defined]  # set as it is loaded
    features = get_host_cpu_features() if given is None else given
    return {"+pclmul", "+ssse3"} <= set(features.split(","))


CAN_FOLD = _can_fold()


def _power(exponent: int) -> int:
    """x^exponent modulo the polynomial; one bit up, for a product of reversed numbers comes out one bit down."""
    value = 1 << 31
    for _ in range(exponent):
        value = value >> 1 ^ (_POLYNOMIAL if value & 1 else 0)
    return value << 1


def _reversed(value: int) -> int:
    return int(f"{value:033b}"[::-1], 2)


def _quotient() -> int:
    """x^64 divided by the polynomial."""
    divisor, rest, quotient = _reversed(_POLYNOMIAL << 1 | 1), 1 << 64, 0
    for bit in range(32, -1, -1):
        if rest >> (bit + 32) & 1:
            rest ^= divisor << bit
            quotient |= 1 << bit
    return _reversed(quotient)


_FACTORS = [(_power(8 * SIZE * steps + 32), _power(8 * SIZE * steps - 32)) for steps in range(1, MOST_STEPS + 1)]
"""Factors for the halves of bytes that move by n times 16 bytes."""
_TO_12, _TO_8 = _power(96), _power(64)
_BARRETT = _quotient(), _POLYNOMIAL << 1 | 1
_LAST_BYTES = bytes([0x80] * SIZE + [*range(SIZE)])
"""A mask for pshufb: its bytes from n on move the first n bytes to the end, with zeros before them."""


class _Sixteen(types.Type):
    """Sixteen bytes in a register."""

    def __init__(self) -> None:
        super().__init__(name="sixteen bytes")


sixteen = _Sixteen()


@register_model(_Sixteen)
class _SixteenModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, _WORDS)


def _multiply(builder: Any, first: Any, second: Any, halves: int) -> Any:
    kind = ir.FunctionType(_WORDS, [_WORDS, _WORDS, _BYTE])
    function = builder.module.declare_intrinsic("llvm.x86.pclmulqdq", [], fnty=kind)
    return builder.call(function, [first, second, ir.Constant(_BYTE, halves)])


def _word(builder: Any, vector: Any, place: int = 0) -> Any:
    return builder.extract_element(vector, ir.Constant(_WORD, place))


def _vector(builder: Any, word: Any) -> Any:
    return builder.insert_element(ir.Constant(_WORDS, [0, 0]), word, ir.Constant(_WORD, 0))


def _load(typing_context: Any, address: Any) -> Any:
    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.load(builder.inttoptr(args[0], _WORDS.as_pointer()), align=1)

    return sixteen(types.int64), code


def _with_register(typing_context: Any, data: Any, register: Any) -> Any:
    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.xor(args[0], _vector(builder, args[1]))

    return sixteen(sixteen, types.uint64), code


def _last_bytes(typing_context: Any, data: Any, count: Any) -> Any:
    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = ir.FunctionType(_BYTES, [_BYTES, _BYTES])
        shuffle = builder.module.declare_intrinsic("llvm.x86.ssse3.pshuf.b.128", [], fnty=kind)
        whole = ir.Constant(ir.ArrayType(_BYTE, len(_LAST_BYTES)), bytearray(_LAST_BYTES))
        table = cgutils.global_constant(builder.module, "fold.last_bytes", whole)
        place = builder.gep(table, [ir.Constant(_WORD, 0), args[1]])
        order = builder.load(builder.bitcast(place, _BYTES.as_pointer()), align=1)
        return builder.bitcast(builder.call(shuffle, [builder.bitcast(args[0], _BYTES), order]), _WORDS)

    return sixteen(sixteen, types.int64), code


def _add_moved(typing_context: Any, total: Any, data: Any, steps: Any) -> Any:
    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pairs = [ir.Constant(_WORDS, pair) for pair in _FACTORS]
        whole = ir.Constant(ir.ArrayType(_WORDS, len(pairs)), pairs)
        table = cgutils.global_constant(builder.module, "fold.factors", whole)
        place = builder.sub(args[2], ir.Constant(_WORD, 1))
        factors = builder.load(builder.gep(table, [ir.Constant(_WORD, 0), place]), align=SIZE)
        halves = (_multiply(builder, args[1], factors, which) for which in (0x00, 0x11))
        return builder.xor(args[0], builder.xor(*halves))

    return sixteen(sixteen, sixteen, types.int64), code


def _register_after(typing_context: Any, data: Any) -> Any:
    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        low_half, down = ir.Constant(_WORD, 0xFFFFFFFF), ir.Constant(_WORD, 32)
        # 16 bytes become 12 with the zeros in the place of the CRC, these become 8.
        twelve = _multiply(builder, args[0], ir.Constant(_WORDS, [_TO_12, 0]), 0x00)
        low = builder.xor(_word(builder, twelve), _word(builder, args[0], 1))
        eight = _multiply(builder, _vector(builder, builder.and_(low, low_half)), ir.Constant(_WORDS, [_TO_8, 0]), 0x00)
        between = builder.or_(builder.lshr(low, down), builder.shl(_word(builder, twelve, 1), down))
        value = builder.xor(_word(builder, eight), between)
        # What is left of them modulo the polynomial: Barrett's way, without a division.
        barrett = ir.Constant(_WORDS, _BARRETT)
        quotient = _multiply(builder, _vector(builder, builder.and_(value, low_half)), barrett, 0x00)
        quotient = builder.and_(_word(builder, quotient), low_half)
        product = _multiply(builder, _vector(builder, quotient), barrett, 0x10)
        return builder.lshr(builder.xor(value, _word(builder, product)), down)

    return types.uint64(sixteen), code


load_16 = intrinsic(_load)
"""The 16 bytes at an address."""

with_register = intrinsic(_with_register)
"""Add the CRC register to bytes, so that the CRC continues with them from a register of 0."""

last_bytes = intrinsic(_last_bytes)
"""Move the first n (1 to 16) bytes to the end, with zeros before them."""

add_moved = intrinsic(_add_moved)
"""Add to the first sixteen bytes the second, moved forward by n times 16 bytes into their place (1 to MOST_STEPS)."""

register_after = intrinsic(_register_after)
"""The CRC register after sixteen bytes, from a register of 0."""
