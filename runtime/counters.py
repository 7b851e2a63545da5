"""Numbers in GPU memory that kernels find to be zeros and leave as zeros: counters of blocks that have ended.

Launches may share such counters only if none begins before the one in front has ended. So they are given out by what
keeps that order: the stream, by the number that no other stream of the process ever has (a handle may come back), and
the capture, if the stream is captured. What a CUDA graph was recorded with is then its own: no launch outside and no
other graph has it, nor a branch of the same graph that was another stream's; and an executable graph's launches wait
for each other. (A graph that is instantiated twice is not to run beside itself: it shares all of its memory.) They are
never given back, so that it does not matter when graphs and streams end: 4 KB for each, up to a limit.

The memory is the driver's, not the framework's: a tensor that stays alive behind a capture would hold the graph's pool,
and torch refuses some such graphs. It is allocated and cleared, and the driver waited for, with the thread's capture
mode relaxed: another stream's work, which a capture does not record.

Sources: CUDA driver API reference: cuStreamGetId (CUDA 12.0), cuStreamGetCaptureInfo_v2, cuGraphLaunch,
cuThreadExchangeStreamCaptureMode, cuMemsetD8Async.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from . import arrays, cuda
from .arrays import Place, Reading
from .errors import DriverError

COUNTERS = 1024  # of 32 bits, for each order of launches
_TOGETHER = 256  # orders that memory is allocated for at a time
_MOST = 16 * _TOGETHER  # orders of a device

Order = tuple[int, int]  # the stream's number; the capture's, or 0


@dataclass(frozen=True, slots=True)
class Counters:
    """COUNTERS zeros of i32, as an array of a kernel."""

    pointer: int
    place: Place


def _read(counters: Counters) -> Reading:
    return counters.pointer, (COUNTERS,), "i32", counters.place, True


arrays.readers[Counters] = _read

_given: dict[tuple[int, Order], Counters] = {}
_free: dict[int, list[int]] = {}  # addresses, by device
_lock = threading.Lock()


def counters_for(place: Place) -> Counters | None:
    """Those of the launches on the stream that is current at `place` now. None where there are none: the driver has no
    numbers for streams, or too many have asked."""
    if place.kind != "cuda":
        return None
    with cuda.on_device(place):
        order = order_of(place.stream())
        if order is None:
            return None
        found = _given.get((place.index, order))
        return found or _give(place, order)


def order_of(stream: int) -> Order | None:
    """What launches on a stream, of the current context, share with those that they are in order with."""
    library = cuda._ctypes_driver()
    number, capture, status = ctypes.c_uint64(), ctypes.c_uint64(), ctypes.c_int()
    try:
        get_id, get_capture = library.cuStreamGetId, library.cuStreamGetCaptureInfo_v2
    except AttributeError:
        return None
    handle = ctypes.c_void_p(stream)
    if get_id(handle, ctypes.byref(number)):
        return None
    if get_capture(handle, ctypes.byref(status), ctypes.byref(capture), None, None, None):
        return None
    if status.value > 1:  # the capture is invalid
        return None
    return number.value, capture.value + 1 if status.value else 0


def _give(place: Place, order: Order) -> Counters | None:
    with _lock:
        key = place.index, order
        if key in _given:
            return _given[key]
        free = _free.setdefault(place.index, [])
        if not free:
            if sum(index == place.index for index, _ in _given) >= _MOST:
                return None
            try:
                start = _zeros(4 * COUNTERS * _TOGETHER)
            except DriverError:
                return None
            free += [start + 4 * COUNTERS * i for i in range(_TOGETHER)]
        _given[key] = Counters(free.pop(), place)
        return _given[key]


def _zeros(size: int) -> int:
    """The address of so many bytes of zeros in the current context. Raises DriverError."""
    with _relaxed():
        stream = cuda.call("cuStreamCreate", 1)  # CU_STREAM_NON_BLOCKING
        try:
            pointer = int(cuda.call("cuMemAlloc", size))
            cuda.call("cuMemsetD8Async", pointer, 0, size, stream)
            cuda.call("cuStreamSynchronize", stream)
            return pointer
        finally:
            cuda.call("cuStreamDestroy", stream)


@contextmanager
def _relaxed() -> Iterator[Any]:
    """This thread may do what captures forbid."""
    mode = cuda.driver().CUstreamCaptureMode
    before = cuda.call("cuThreadExchangeStreamCaptureMode", mode.CU_STREAM_CAPTURE_MODE_RELAXED)
    try:
        yield
    finally:
        cuda.call("cuThreadExchangeStreamCaptureMode", before)
