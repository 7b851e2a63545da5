"""Runs a kernel's text in the interpreter before and after passes; both must leave the same arrays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from minitile.ir.core import Kernel
from minitile.ir.parser import parse_kernel
from minitile.ir.verifier import verify
from minitile.target import DEFAULT, Target
from minitile.transforms.canonicalize.unroll import unroll
from minitile.transforms.manager import PassContext
from minitile.transforms.pipeline.software_pipeline import software_pipeline
from minitile.transforms.tile.mem2reg import mem2reg
from minitile.transforms.tile.tile_vectorize import tile_vectorize
from tests.tile_interpreter import interpret

TO_TILES = (unroll, tile_vectorize, mem2reg)
ALL = (*TO_TILES, software_pipeline)


def run(kernel: Kernel, arrays: Mapping[str, Any], scalars: Mapping[str, Any], landing: str = "late") -> dict[str, Any]:
    """The arrays as the kernel leaves them; the given ones stay."""
    copies = {name: array.copy() for name, array in arrays.items()}
    interpret(kernel, copies, scalars, landing)
    return copies


def agree(
    text: str, passes: tuple[Any, ...], arrays: Mapping[str, Any], *, target: Target = DEFAULT, **scalars: Any
) -> Kernel:
    """Check that the passes, one after the other, do not change what the kernel computes; the kernel after all."""
    kernel = parse_kernel(text)
    verify(kernel)
    expected = run(kernel, arrays, scalars)
    for transform in passes:
        transform(kernel, PassContext(target))
        verify(kernel)
        for landing in ("late", "early") if count(kernel, "async_copy") else ("late",):
            result = run(kernel, arrays, scalars, landing)
            for name, array in expected.items():
                np.testing.assert_array_equal(result[name], array, f"{name} after {transform.__name__}, {landing}")
    return kernel


def count(kernel: Kernel, mnemonic: str) -> int:
    return sum(op.mnemonic == mnemonic for op in kernel.walk())
