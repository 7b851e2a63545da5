"""Kernel arguments as one types them on the command line.

f32[128,64]        a random array: standard normal, or small integers; bool: coin tosses
f32[128,64]=0.5    one filled with a number
i32=5              a number

To compile, no data is needed: a size may be a name (`f32[M,64]`: nothing is known of it), and numbers are left out.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from minitile.ir.diagnostics import MinitileError
from minitile.ir.types import DTYPES, DType
from minitile.jit import Spec
from minitile.language.math import dtype_of_name

_SPEC = re.compile(r"(?P<dtype>\w+)(?:\[(?P<shape>[\w,\s]*)\])?(?:=\S+)?")
_ARGUMENT = re.compile(r"(?P<dtype>\w+)(?:\[(?P<shape>[\d,\s]*)\])?(?:=(?P<value>\S+))?")


def parse_arguments(texts: Sequence[str], seed: int = 0) -> list[np.ndarray | np.generic]:
    """The arrays and numbers that `texts` stand for. Raises MinitileError for what cannot be read."""
    random = np.random.default_rng(seed)
    return [_parse(text, random) for text in texts]


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
    return Spec(tuple(int(e) if e.isdigit() else e for e in extents), dtype)


def only_entry(ptx: str) -> str:
    """The name of the one kernel in a PTX or AMD text. Raises MinitileError where there is none, or a choice."""
    names = re.findall(r"\.(?:entry|amdhsa_kernel)\s+([\w$%]+)", ptx)
    if len(names) != 1:
        found = f"the kernels {', '.join(names)}" if names else "no kernel"
        raise MinitileError(f"the text has {found}", hint="name one with --entry" if names else "")
    return str(names[0])


def _parse(text: str, random: np.random.Generator) -> np.ndarray | np.generic:
    found = _ARGUMENT.fullmatch(text)
    if not found or (found["shape"] is None and found["value"] is None):
        raise MinitileError(f"{text!r} is no argument", hint="write f32[128,64], f32[64]=0 or i32=5")
    dtype = _dtype(found["dtype"], text)
    value = None if found["value"] is None else _number(found["value"], dtype, text)
    if found["shape"] is None:
        assert value is not None
        return value
    try:
        shape = tuple(int(extent) for extent in found["shape"].split(",") if extent.strip())
    except ValueError:
        raise MinitileError(f"{found['shape']!r} is no shape in {text!r}") from None
    return _random(shape, dtype, random) if value is None else np.full(shape, value)


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
