"""Kernel arguments as one types them on the command line.

f32[128,64]        a random array: standard normal, or small integers; bool: coin tosses
f32[128,64]=0.5    one filled with a number
i32=5              a number
none               no tensor, where a kernel's parameter may be None
bf16[256,96]@64,32/64      a tensor map of such an array, for PTX: boxes of 64 × 32, swizzled by 64 bytes
bf16[2,256,64:64,128,1]@…  the same with strides, in elements

To compile, no data is needed: a size may be a name (`f32[M,64]`: nothing is known of it), and numbers are left out.
"""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from minitile.backends.registry import backend_of_text
from minitile.driver.jit import Spec
from minitile.ir.diagnostics import MinitileError
from minitile.ir.types import DTYPES, DType
from minitile.language.math import dtype_of_name
from minitile.runtime.sim import SimulationError, TensorMap

MAX_RANK = 16  # dimensions of an argument
_SPEC = re.compile(r"(?P<dtype>\w+)(?:\[(?P<shape>[\w,\s]*)\])?(?:=\S+)?")
_ARGUMENT = re.compile(
    r"(?P<dtype>\w+)(?:\[(?P<shape>[\d,\s]*)(?::(?P<strides>[\d,\s]*))?\])?"
    r"(?:@(?P<box>[\d,\s]+)(?:/(?P<swizzle>\d+))?)?(?:=(?P<value>\S+))?"
)


def whole(least: int, most: int) -> Callable[[str], int]:
    """What argparse takes as `type`: an integer between two bounds, both included."""

    def integer(text: str) -> int:
        if not re.fullmatch(r"[+-]?\d{1,20}", text.strip()) or not least <= int(text) <= most:
            raise argparse.ArgumentTypeError(f"{text[:40]!r} is no whole number from {least} to {most}")
        return int(text)

    return integer


seed = whole(0, (1 << 63) - 1)


def triple(text: str) -> tuple[int, int, int]:
    """`8`, `8,2` or `8,2,1`, as three positive numbers."""
    parts = [whole(1, (1 << 31) - 1)(part) for part in text.split(",")]
    if not 1 <= len(parts) <= 3:
        raise argparse.ArgumentTypeError(f"{text[:60]!r} is not one to three positive numbers")
    x, y, z = (*parts, 1, 1)[:3]
    return x, y, z


def parse_arguments(texts: Sequence[str], seed: int = 0, maps: bool = False) -> list[Any]:
    """The arrays and numbers that `texts` stand for; where `maps` allows it tensor maps, else None for an optional
    tensor. Raises MinitileError for what cannot be read."""
    random = np.random.default_rng(seed)
    return [None if text == "none" and not maps else _allocated(text, random, maps) for text in texts]


def parse_specs(texts: Sequence[str]) -> list[Spec]:
    """The tensors that `texts` describe; numbers among them are passed over. Raises MinitileError for what cannot be
    read."""
    return [found for text in texts if (found := _parse_spec(text)) is not None]


def _parse_spec(text: str) -> Spec | None:
    found = _SPEC.fullmatch(text)
    if not found:
        raise MinitileError(f"{text!r} is no tensor", hint="write bf16[8192,8192], or f32[M,64] for an unknown size")
    dtype = _dtype(found["dtype"], text)
    if found["shape"] is None:
        return None
    extents = [extent.strip() for extent in found["shape"].split(",") if extent.strip()]
    return Spec(tuple(_extents(e, text)[0] if e.isdigit() else e for e in extents), dtype)


def only_entry(text: str) -> str:
    """The name of the one kernel in an assembly text. Raises MinitileError where there is none, or a choice."""
    names = backend_of_text(text).entries(text)
    if len(names) != 1:
        found = f"the kernels {', '.join(names)}" if names else "no kernel"
        raise MinitileError(f"the text has {found}", hint="name one with --entry" if names else "")
    return names[0]


def _allocated(text: str, random: np.random.Generator, maps: bool) -> np.ndarray | np.generic | TensorMap:
    try:
        return _parse(text, random, maps)
    except MemoryError:
        raise MinitileError(f"there is not enough memory for {text!r}") from None


def _parse(text: str, random: np.random.Generator, maps: bool) -> np.ndarray | np.generic | TensorMap:
    found = _ARGUMENT.fullmatch(text)
    if not found or (found["shape"] is None and (found["value"] is None or found["box"] is not None)):
        raise MinitileError(f"{text!r} is no argument", hint="write f32[128,64], f32[64]=0 or i32=5")
    dtype = _dtype(found["dtype"], text)
    value = None if found["value"] is None else _number(found["value"], dtype, text)
    if found["shape"] is None:
        assert value is not None
        return value
    shape = _extents(found["shape"], text)
    if found["box"] is None and found["strides"] is None:
        return _random(shape, dtype, random) if value is None else np.full(shape, value)
    if not maps or found["box"] is None:
        where = "strides are" if found["box"] is None else "a tensor map is"
        raise MinitileError(f"{where} for the tensor maps of PTX texts only: {text!r}")
    array = _strided(shape, found["strides"], dtype, random, value, text)
    try:
        return TensorMap(array, _extents(found["box"], text), _extents(found["swizzle"] or "0", text)[0])
    except SimulationError as error:
        raise MinitileError(f"{text!r}: {error}") from None


def _extents(text: str, argument: str) -> tuple[int, ...]:
    parts = [extent.strip() for extent in text.split(",") if extent.strip()]
    if len(parts) > MAX_RANK or not all(re.fullmatch(r"\d{1,19}", part) for part in parts):
        raise MinitileError(f"{text[:60]!r} is no shape in {argument[:60]!r}", hint=f"up to {MAX_RANK} whole numbers")
    extents = tuple(map(int, parts))
    if math.prod(extents) >= 1 << 40:
        raise MinitileError(f"{argument[:60]!r} has {math.prod(extents)} elements")
    return extents


def _strided(
    shape: tuple[int, ...],
    strides: str | None,
    dtype: DType,
    random: np.random.Generator,
    value: np.generic | None,
    whole: str,
) -> np.ndarray:
    """An array with these strides, in elements; without any, a dense one."""
    steps = None if strides is None else _extents(strides, whole)
    if steps is None:
        return _random(shape, dtype, random) if value is None else np.full(shape, value)
    if len(steps) != len(shape) or not shape or 0 in shape:
        raise MinitileError(f"{whole!r} needs a stride for each of its {len(shape)} dimensions")
    size = 1 + sum((extent - 1) * step for extent, step in zip(shape, steps, strict=True))
    root = _random((size,), dtype, random) if value is None else np.full((size,), value)
    return np.ndarray(shape, root.dtype, root.view(np.uint8), 0, [step * root.itemsize for step in steps])


def _dtype(name: str, text: str) -> DType:
    try:
        return dtype_of_name(name)
    except MinitileError:
        raise MinitileError(f"unknown dtype {name!r} in {text!r}", hint=f"dtypes: {', '.join(DTYPES)}") from None


def _number(text: str, dtype: DType, whole: str) -> np.generic:
    try:
        number = float(text) if dtype.is_float else int(text, 0)
        return dtype.numpy.type(number)
    except (ValueError, OverflowError):
        raise MinitileError(f"{text!r} is no {dtype} in {whole!r}") from None


def _random(shape: tuple[int, ...], dtype: DType, random: np.random.Generator) -> np.ndarray:
    if dtype.is_float:
        return random.standard_normal(shape).astype(dtype.numpy)
    if dtype.kind == "bool":
        return random.integers(0, 2, shape).astype(bool)
    return random.integers(-8 if dtype.signed else 0, 8, shape).astype(dtype.numpy)
