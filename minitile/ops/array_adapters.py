"""New arrays beside those of the caller, made by the caller's own framework: results and workspaces.

Nothing is imported here: a caller that passes a tensor of torch has torch.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from minitile.ir.diagnostics import LaunchArgumentError
from minitile.ir.types import DType
from minitile.runtime.arrays import is_jax, torch_tensors

_CPU = 1  # of DLPack's device types


class Frame(NamedTuple):
    """What a framework does for us.

    empty(shape, dtype, like): an array without contents where `like` is, on the stream that is current there.
    zeros(shape, dtype, like): the same, of zeros.
    like(x): a function that makes arrays of x's shape and dtype, without contents.
    transposed(x): the view of a matrix with rows and columns exchanged; turned(x): the same of a batch, whose last two
    dimensions are exchanged. whole(x): a row-major copy without gaps. finish(x): what the caller gets of an array that
    `empty` has made, where that is not the array itself.
    """

    empty: Callable[[tuple[int, ...], DType, Any], Any]
    zeros: Callable[[tuple[int, ...], DType, Any], Any]
    like: Callable[[Any], Callable[[], Any]]
    transposed: Callable[[Any], Any]
    turned: Callable[[Any], Any]
    whole: Callable[[Any], Any]
    finish: Callable[[Any], Any] | None = None


def frame_of(array: Any) -> Frame | None:
    """The frame for an array of torch, CuPy or NumPy, or of JAX on the CPU; None for any other."""
    torch, cupy, numpy, jax = (sys.modules.get(name) for name in ("torch", "cupy", "numpy", "jax"))
    if torch is not None and isinstance(array, torch.Tensor):
        return _torch(torch)
    if numpy is not None and isinstance(array, numpy.ndarray):
        return _numpy(numpy)
    if cupy is not None and isinstance(array, cupy.ndarray):
        return _numpy(cupy)
    if is_jax(array) and hasattr(array, "__dlpack_device__") and array.__dlpack_device__()[0] == _CPU:
        return _jax(jax)
    return None


def _torch(torch: Any) -> Frame:
    def empty(shape: tuple[int, ...], dtype: DType, like: Any) -> Any:
        return torch.empty(shape, dtype=torch_tensors().dtypes[dtype.name], device=like.device)

    def zeros(shape: tuple[int, ...], dtype: DType, like: Any) -> Any:
        return torch.zeros(shape, dtype=torch_tensors().dtypes[dtype.name], device=like.device)

    def like(x: Any) -> Callable[[], Any]:
        return partial(torch.empty, x.shape, dtype=x.dtype, device=x.device)

    def whole(x: Any) -> Any:
        return x.clone(memory_format=torch.contiguous_format)

    return Frame(empty, zeros, like, lambda x: x.t(), lambda x: x.transpose(-1, -2), whole)


def _jax(jax: Any) -> Frame:
    """JAX's arrays do not change: a result is NumPy's until it is whole."""
    import numpy

    return _numpy(numpy)._replace(finish=jax.numpy.asarray)


def _numpy(numpy: Any) -> Frame:
    def empty(shape: tuple[int, ...], dtype: DType, like: Any) -> Any:
        return numpy.empty(shape, dtype=dtype.numpy)

    def zeros(shape: tuple[int, ...], dtype: DType, like: Any) -> Any:
        return numpy.zeros(shape, dtype=dtype.numpy)

    def like(x: Any) -> Callable[[], Any]:
        return partial(numpy.empty, x.shape, x.dtype)

    return Frame(empty, zeros, like, lambda x: x.T, lambda x: x.swapaxes(-1, -2), lambda x: x.copy(order="C"))


def reshaped(array: Any, shape: tuple[int, ...]) -> Any:
    """The same memory under another shape. Raises LaunchArgumentError where there is no such view."""
    torch = sys.modules.get("torch")
    try:
        if torch is not None and isinstance(array, torch.Tensor):
            return array.view(shape)
        found = array.reshape(shape)
    except (ValueError, RuntimeError, TypeError) as error:
        raise LaunchArgumentError(
            f"an array of shape {tuple(array.shape)} has no view of shape {shape}: {error}"
        ) from None
    if isinstance(array, np.ndarray) and array.size and not np.may_share_memory(found, array):
        raise LaunchArgumentError(f"an array of shape {array.shape}, with gaps, has no view of shape {shape}")
    return found
