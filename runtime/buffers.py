"""Arrays in GPU memory and the timing of launches, with nothing but the CUDA driver: what the command line needs where
no framework is installed.

Sources: the CUDA driver API (memory management, event management); the CUDA Array Interface, version 3.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from . import cuda
from .arrays import Place

_PLACE = Place("cuda", 0)


class DeviceArray:
    """A copy of a NumPy array in the memory of device 0, freed with the object. Kernels take it through
    `__cuda_array_interface__`. Raises UnavailableError without a GPU, DriverError when the memory is not to be had."""

    def __init__(self, host: np.ndarray) -> None:
        host = np.ascontiguousarray(host)
        self.dtype, self.shape, self.nbytes = host.dtype, host.shape, host.nbytes
        with cuda.on_device(_PLACE):
            doing = f"allocating {self.nbytes} bytes on the GPU"
            self.pointer = int(cuda.call("cuMemAlloc", self.nbytes, doing=doing)) if self.nbytes else 0
            if self.nbytes:
                cuda.call("cuMemcpyHtoD", self.pointer, host.ctypes.data, self.nbytes)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {"data": (self.pointer, False), "shape": self.shape, "typestr": self.dtype.str, "version": 3}

    def to_host(self) -> np.ndarray:
        """What the array holds once all work queued on the device is done."""
        host = np.empty(self.shape, self.dtype)
        if self.nbytes:
            with cuda.on_device(_PLACE):
                cuda.call("cuCtxSynchronize", doing="waiting for the GPU")
                cuda.call("cuMemcpyDtoH", host.ctypes.data, self.pointer, self.nbytes)
        return host

    def __del__(self) -> None:
        if getattr(self, "pointer", 0):
            cuda.call("cuMemFree", self.pointer)
            self.pointer = 0


def time_launches(launch: Callable[[int], None], rounds: int) -> list[float]:
    """Milliseconds of GPU time of each of `rounds` launches; `launch` gets the stream (0, the legacy default one). Two
    launches before are not counted."""
    with cuda.on_device(_PLACE):
        for _ in range(2):
            launch(0)
        events = [cuda.call("cuEventCreate", 0) for _ in range(2 * rounds)]
        try:
            for start, end in zip(events[::2], events[1::2], strict=True):
                cuda.call("cuEventRecord", start, 0)
                launch(0)
                cuda.call("cuEventRecord", end, 0)
            cuda.call("cuCtxSynchronize", doing="waiting for the GPU")
            pairs = zip(events[::2], events[1::2], strict=True)
            return [float(cuda.call("cuEventElapsedTime", start, end)) for start, end in pairs]
        finally:
            for event in events:
                cuda.call("cuEventDestroy", event)
