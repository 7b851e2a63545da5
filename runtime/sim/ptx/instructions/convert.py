"""cvt: conversion between all types, with rounding and saturation (PTX ISA 8.0, 9.7.8.20, table 15)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...core.formats import FORMATS, encode, flush, to_integral
from ...core.scalars import DTYPES, SIZES, UNSIGNED, Array, some, where
from ..operands import Read, error, per_thread, read, write
from ..program import Linker
from ..syntax import Instruction
from ..table import Handler, instruction
from .alu_float import relu
from .alu_integer import apply

_MODES = {"rn": "rn", "rz": "rz", "rm": "rm", "rp": "rp", "rna": "rna"}
_INTEGRAL = {"rni": "rn", "rzi": "rz", "rmi": "rm", "rpi": "rp"}
# The NaN that a narrowing conversion gives; on an H200 f64 and bf16 sources keep their payload in f32.
_NAN = {"f16": 0x7FFF, "bf16": 0x7FFF, "e4m3": 0x7F, "e5m2": 0x7F}
_NAN32 = 0x7FFFFFFF
_TYPES = frozenset({*DTYPES, "tf32"})


@instruction("cvt")
def _convert(ins: Instruction, linker: Linker) -> Handler:
    types = [mod for mod in ins.mods if mod in _TYPES]
    if len(types) != 2:
        raise error(ins, f"unsupported conversion {ins.opcode}")
    result, source = types
    if result.endswith("x2"):
        return _convert_packed(ins, linker, result, source)
    function = _scalar(ins, result, source)
    target = "f32" if result == "tf32" else result
    if result == "tf32":
        target = "b32"
        inner = function
        function = lambda a: inner(a).view(np.uint32)  # noqa: E731
    return apply(function, [read(ins.operands[1], source, ins, linker)], write(ins.operands[0], target, ins, linker))


def _scalar(ins: Instruction, result: str, source: str) -> Callable[[Array], Array]:
    """One element's conversion."""
    from_float, to_float = source in FORMATS, result in FORMATS
    mode = next((_MODES[mod] for mod in ins.mods if mod in _MODES), "rn")
    integral = next((_INTEGRAL[mod] for mod in ins.mods if mod in _INTEGRAL), None)
    if from_float and to_float:
        function = _float_to_float(ins, result, source, mode, integral)
    elif from_float:
        function = _float_to_integer(result, source, integral or "rz")
    elif to_float:
        function = _integer_to_float(result, source, mode)
    else:
        function = _integer_to_integer(result, source, "sat" in ins.mods)
    if "ftz" in ins.mods and source == "f32":
        keep = function
        return lambda a: keep(flush(np.atleast_1d(a)))
    return function


def _float_to_float(
    ins: Instruction, result: str, source: str, mode: str, integral: str | None
) -> Callable[[Array], Array]:
    dtype = FORMATS[result].dtype
    satfinite = "satfinite" in ins.mods
    saturate, clamped, ftz = "sat" in ins.mods, "relu" in ins.mods, "ftz" in ins.mods
    narrows = FORMATS[result].mantissa < FORMATS[source].mantissa or FORMATS[result].emin > FORMATS[source].emin

    def function(a: Array) -> Array:
        value = np.atleast_1d(a)
        nan = value != value
        if integral:
            value = to_integral(value.astype(np.float64), integral)
        if narrows:
            wide = value.astype(np.float64)
            converted = encode(wide, result, mode, satfinite)
        else:
            converted = value.astype(np.float32).astype(dtype) if dtype.itemsize < 8 else value.astype(dtype)
        if saturate:
            zero, one = dtype.type(0), dtype.type(1)
            return where(converted > zero, where(converted < one, converted, one), zero)
        if clamped:
            converted = relu(converted)
        if ftz and result == "f32":
            converted = flush(converted)
        if (result in _NAN or (result == "f32" and (source == "f16" or integral))) and some(nan):
            word = UNSIGNED[dtype.itemsize]
            converted = np.where(nan, word.type(_NAN.get(result, _NAN32)).view(dtype), converted)
        return converted

    return function


def _float_to_integer(result: str, source: str, mode: str) -> Callable[[Array], Array]:
    """Out of range clamps; NaN becomes 0, or the top bit alone if 64 bits are involved (measured on an H200)."""
    dtype = DTYPES[result]
    info = np.iinfo(dtype)
    bits = UNSIGNED[dtype.itemsize]
    wide = dtype.itemsize == 8 or source == "f64"
    unknown = bits.type(1 << (8 * dtype.itemsize - 1) if wide else 0).view(dtype)

    def function(a: Array) -> Array:
        value = to_integral(np.atleast_1d(a).astype(np.float64), mode)
        inside = np.where(np.isnan(value) | (value >= float(info.max)) | (value <= float(info.min)), 0.0, value)
        whole = inside.astype(np.int64 if dtype.kind == "i" or dtype.itemsize < 8 else np.uint64).astype(dtype)
        whole = np.where(value >= float(info.max), dtype.type(info.max), whole)
        whole = np.where(value <= float(info.min), dtype.type(info.min), whole)
        return where(np.isnan(value), unknown, whole)

    return function


def _integer_to_float(result: str, source: str, mode: str) -> Callable[[Array], Array]:
    dtype = FORMATS[result].dtype
    if result in ("f32", "f64") and mode == "rn":
        return lambda a: a.astype(dtype)
    if SIZES[source] < 8:
        return lambda a: encode(np.atleast_1d(a).astype(np.float64), result, mode)
    return lambda a: encode(_sticky(np.atleast_1d(a)), result, mode)


def _sticky(value: Array) -> Array:
    """A 64-bit integer as a double rounded to odd, so that rounding it again is right."""
    near = value.astype(np.float64)
    limit = 2.0**63 if value.dtype.kind == "i" else 2.0**64
    back = np.where(near >= limit, value, np.minimum(near, np.nextafter(limit, 0)).astype(value.dtype))
    over = near >= limit
    bits = near.view(np.int64)
    odd = (bits & 1) == 1
    toward = np.where((over | (back > value)) == (near > 0), -1, 1)
    return np.where(((back != value) | over) & ~odd, bits + toward, bits).view(np.float64)


def _integer_to_integer(result: str, source: str, saturate: bool) -> Callable[[Array], Array]:
    dtype = DTYPES[result]
    if not saturate:
        return lambda a: a.astype(dtype)
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    have = np.iinfo(DTYPES[source])
    low, high = max(low, have.min), min(high, have.max)
    return lambda a: np.clip(a, DTYPES[source].type(low), DTYPES[source].type(high)).astype(dtype)


def _convert_packed(ins: Instruction, linker: Linker, result: str, source: str) -> Handler:
    """Two elements into one word: from two registers (the first operand goes to the upper half), or from a pair."""
    elem, half = result[:-2], SIZES[result] // 2
    base = source.removesuffix("x2")
    function = _scalar(ins, elem, base)
    word = UNSIGNED[2 * half]
    target = write(ins.operands[0], f"b{16 * half}", ins, linker)
    if source == base:
        high, low = (read(operand, source, ins, linker) for operand in ins.operands[1:3])
        readers = [low, high]

        def combine(low: Array, high: Array) -> Array:
            both = np.broadcast_arrays(np.atleast_1d(low), np.atleast_1d(high))
            pair = np.stack([function(each) for each in both], axis=1)
            return pair.view(word)[:, 0]

        return apply(combine, readers, target)
    pairs = read(ins.operands[1], f"b{8 * SIZES[source]}", ins, linker)
    stored = FORMATS[base].dtype
    pair_reader: Read = lambda m, sel: np.ascontiguousarray(  # noqa: E731
        per_thread(pairs(m, sel), sel)
    ).view(stored)
    return apply(lambda a: np.ascontiguousarray(function(a)).view(word), [pair_reader], target)
