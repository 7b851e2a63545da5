"""Launching on AMD GPUs: code objects loaded once per device, and a launch path that costs little on the host.

The same as cuda.py, with HIP's differences. HIP has no contexts to choose from but a current device for each thread; a
module belongs to the device that was current when it was loaded. The parameters are handed over as one packed buffer
(`extra` of hipModuleLaunchKernel), laid out as the kernarg segment: each naturally aligned. LDS is part of the code, so
a launch asks for none. For

    grid (ceildiv(n, 128), 1, 1), block (128, 1, 1), parameters A and n

the generated function reads

    def launch(values, place):
        v0, v1, = values
        g0, g1, g2 = -(-v1 // 128), 1, 1
        if not (g0 and g1 and g2):
            return
        try:
            frame = pop()
        except IndexError:
            frame = new_frame()
        current(frame.device_at)
        function = find(place.index)
        if function is None or frame.device.value != place.index or place.kind != 'rocm':
            return first_launch(values, place)
        stream = place.stream()
        try:
            pack(frame.buffer, 0, v0, v1)
        except (error, OverflowError) as reason:
            explain_pack(values, reason)
        status = launch_kernel(function, g0, g1, g2, 128, 1, 1, 0, stream, None, frame.extra)
        push(frame)
        if status:
            explain_launch(status, (g0, g1, g2))

Everything that is not on that path goes through hip-python. Where the process has a libamdhip64 already (torch for ROCm
brings its own), that one is used: streams and modules of two copies do not know each other.

Sources: HIP API reference: Module Management, Device Management, hipModuleLaunchKernel (`extra`, and the limit of 2^32
threads in a grid's dimension); LLVM, "User Guide for AMDGPU Backend", "Kernel Argument Segment".
"""

from __future__ import annotations

import ctypes
import os
import struct
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

from .arrays import Place
from .errors import ArgumentError, DriverError, LaunchError, UnavailableError
from .launch_info import LaunchInfo, Values, compile_exprs, param_layout
from .launcher_base import BaseLauncher, Prepared, nothing

_INSTALL = "pip install 'minitile[amd]' brings hip-python; the HIP runtime itself comes with ROCm or torch for ROCm"


@dataclass(frozen=True, slots=True)
class DeviceInfo:
    """A HIP device. `arch`: the processor, without features such as xnack."""

    index: int
    name: str
    arch: str
    compute_units: int


@dataclass(frozen=True, slots=True)
class FunctionInfo:
    """What HIP says of a loaded kernel: registers and scratch bytes of a lane, LDS bytes of a workgroup."""

    registers: int
    local: int
    shared: int


@cache
def driver() -> Any:
    """hip-python's `hip`, initialised. Raises UnavailableError where it, the HIP runtime or a device is missing."""
    try:
        from hip import hip as module
    except ImportError as error:
        raise UnavailableError(f"hip-python is not installed ({error})", _INSTALL) from None
    binding: Any = module
    try:
        with _root_of(next(iter(loaded_libraries()), None)):
            (status,) = binding.hipInit(0)
    except RuntimeError as error:  # what hip-python raises where it finds no library
        raise UnavailableError(f"no HIP runtime: {error}", _INSTALL) from None
    if int(status) != 0:
        raise UnavailableError(f"HIP finds no usable device: {_name(binding, status)[1]}", _INSTALL)
    found = loaded_libraries()
    if len(found) > 1:
        raise UnavailableError(
            f"two HIP runtimes are in this process: {', '.join(found)}", "import torch first, or set ROCM_PATH"
        )
    return binding


def loaded_libraries() -> list[str]:
    """The paths of the HIP runtimes that the process has in its memory: one at most, if all is well."""
    found: dict[str, None] = {}
    with suppress(OSError):
        for line in Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace").splitlines():
            path = line.partition("/")[2]
            if path.rpartition("/")[2].startswith("libamdhip64.so"):
                found[f"/{path}"] = None
    return list(found)


@contextmanager
def _root_of(library: str | None) -> Iterator[None]:
    """hip-python looks in ROCM_PATH/lib: for the while that is where the library lies, if there is one."""
    folder = Path(library).parent if library else None
    before = os.environ.get("ROCM_PATH")
    if folder is not None and folder.name == "lib":
        os.environ["ROCM_PATH"] = str(folder.parent)
    try:
        yield
    finally:
        if before is None:
            os.environ.pop("ROCM_PATH", None)
        else:
            os.environ["ROCM_PATH"] = before


@cache
def _ctypes_driver() -> Any:
    """The HIP runtime that hip-python has loaded, for the two calls of the launch path."""
    driver()
    path = next(iter(loaded_libraries()), "libamdhip64.so")
    library: Any = ctypes.CDLL(path)
    library.hipModuleLaunchKernel.argtypes = [
        ctypes.c_void_p,
        *[ctypes.c_uint] * 7,
        *[ctypes.c_void_p] * 3,
    ]
    # It never waits, so there is no need to let go of the interpreter's lock for it.
    library.hipGetDevice = ctypes.PyDLL(path).hipGetDevice
    return library


def available() -> bool:
    """Whether an AMD GPU can be used here."""
    try:
        return device_count() > 0
    except LaunchError:
        return False


def _name(binding: Any, status: Any) -> tuple[str, str]:
    """HIP's name of a status and its text."""
    code, text = (
        (found.decode() if isinstance(found, bytes) else str(found))
        for found in (binding.hipGetErrorName(status)[1], binding.hipGetErrorString(status)[1])
    )
    return code, f"{code} ({text})"


def call(function: str, *args: Any, doing: str = "") -> Any:
    """A HIP call by name; its result, or a tuple of several. Raises DriverError with HIP's words."""
    binding = driver()
    status, *results = getattr(binding, function)(*args)
    if int(status) != 0:
        code, shown = _name(binding, status)
        raise DriverError(f"{doing or function} failed: {shown}", code)
    return results[0] if len(results) == 1 else tuple(results)


def device_count() -> int:
    return int(call("hipGetDeviceCount"))


@cache
def device_info(index: int) -> DeviceInfo:
    """The facts of device `index`."""
    found = call("hipGetDeviceProperties", index)
    name, arch = (x.decode() if isinstance(x, bytes) else str(x) for x in (found.name, found.gcnArchName))
    return DeviceInfo(index, name, arch.partition(":")[0], int(found.multiProcessorCount))


def current_device_info() -> DeviceInfo | None:
    """The calling thread's device; None without an AMD GPU."""
    return device_info(int(call("hipGetDevice"))) if available() else None


def device_of_pointer(pointer: int) -> int:
    """The index of the device that memory at `pointer` belongs to; 0 for the null pointer of an empty array."""
    if pointer == 0:
        return 0
    return int(call("hipPointerGetAttributes", pointer, doing=f"asking which device {pointer:#x} is on").device)


class _Frame:
    """The memory of one launch in progress: packed parameters, `extra` that tells HIP of them, and a word for HIP to
    say the current device in."""

    __slots__ = ("_extra", "_size", "buffer", "device", "device_at", "extra")

    def __init__(self, size: int) -> None:
        self.buffer = ctypes.create_string_buffer(max(size, 1))
        self._size = ctypes.c_size_t(size)
        # HIP_LAUNCH_PARAM_BUFFER_POINTER, …_SIZE, …_END are 1, 2, 3.
        at, size_at = ctypes.addressof(self.buffer), ctypes.addressof(self._size)
        self._extra = (ctypes.c_void_p * 5)(1, at, 2, size_at, 3)
        self.extra = ctypes.c_void_p(ctypes.addressof(self._extra))
        self.device = ctypes.c_int()
        self.device_at = ctypes.byref(self.device)


class Launcher(BaseLauncher):
    """One compiled kernel that can be launched on any device it fits.

    `image` gives the code object for a device; it is asked once per device. Safe to use from several threads. Raises
    UnavailableError without HIP.
    """

    def __init__(self, info: LaunchInfo, image: Callable[[DeviceInfo], bytes]) -> None:
        super().__init__(info)
        self._image = image
        self._library = _ctypes_driver()
        form, self.offsets = param_layout(info.params)
        self._pack = struct.Struct("<" + form)
        self._loaded: dict[int, Any] = {}
        self._modules: dict[int, Any] = {}
        self._lock = threading.Lock()
        block = ", ".join(map(str, info.block))
        self._compile(
            self._pack.pack_into,
            {
                "current": self._library.hipGetDevice,
                "find": self._loaded.get,
                "launch_kernel": self._library.hipModuleLaunchKernel,
            },
            find=["current(frame.device_at)", "function = find(place.index)"],
            missing="function is None or frame.device.value != place.index or place.kind != 'rocm'",
            call=f"launch_kernel(function, g0, g1, g2, {block}, 0, stream, None, frame.extra)",
        )

    def prepare(self, *args: Any) -> Prepared:
        """Everything that does not change, done once: the result launches on these very arrays when called."""
        values, place = self.bind(*args)
        grid = compile_exprs(self.info.grid, self.slots)(values)
        if 0 in grid:
            return nothing
        self.check_memory(values)
        frame = self._new_frame()
        with on_device(place):
            function = self._load(place)
        try:
            self._pack.pack_into(frame.buffer, 0, *self._fields(values, 0, frame, place))
        except (struct.error, OverflowError) as error:
            self._explain_pack(values, error)
        launch_kernel, current_stream, block = self._library.hipModuleLaunchKernel, place.stream, self.info.block

        def prepared(stream: int | None = None) -> None:
            if stream is None:
                stream = current_stream()
            with on_device(place):
                status = launch_kernel(function, *grid, *block, 0, stream, None, frame.extra)
            if status:
                self._explain_launch(status, grid)

        return prepared

    def function_info(self, place: Place) -> FunctionInfo:
        """Registers, scratch and LDS as HIP reports them for the code that runs at `place`."""
        with on_device(place):
            self._load(place)
            return function_info(self._modules[place.index][1])

    def _new_frame(self) -> _Frame:
        return _Frame(self._pack.size)

    def _on_device(self, place: Place) -> AbstractContextManager[None]:
        return on_device(place)

    def _load(self, place: Place) -> Any:
        """The kernel on the current device, which is the place's, as a handle for ctypes; loaded once for all
        threads."""
        with self._lock:
            loaded = self._loaded.get(place.index)
            if loaded is None:
                entry = self.info.entry
                image = self._image(device_info(place.index))
                module = call("hipModuleLoadData", image, doing=f"loading the code of {entry}")
                function = call("hipModuleGetFunction", module, entry.encode(), doing=f"finding the entry {entry}")
                self._modules[place.index] = module, function, image
                loaded = self._loaded[place.index] = int(function)
            return loaded

    def _explain_launch(self, status: int, grid: Values) -> NoReturn:
        check_grid(grid, self.info.block)
        binding = driver()
        code, shown = _name(binding, binding.hipError_t(status))
        raise DriverError(
            f"launching {self.info.entry} with grid {grid}, block {self.info.block} failed: {shown}", code
        )


_THREADS = 2**32  # HIP: a grid's dimension has fewer


def check_grid(grid: Sequence[int], block: Sequence[int]) -> None:
    """Raises ArgumentError for a grid that HIP does not launch."""
    for axis, blocks, threads in zip("xyz", grid, block, strict=True):
        if blocks * threads >= _THREADS:
            raise ArgumentError(
                f"the grid is {tuple(grid)} of {tuple(block)} threads: HIP launches fewer than 2^32 threads in {axis}"
            )


@contextmanager
def on_device(place: Place) -> Iterator[None]:
    """The place's device as the thread's current one for the while."""
    if place.kind != "rocm":
        raise ArgumentError(f"a kernel for AMD GPUs cannot work on tensors on {place}")
    before = int(call("hipGetDevice"))
    if before == place.index:
        yield
        return
    call("hipSetDevice", place.index)
    try:
        yield
    finally:
        call("hipSetDevice", before)


def function_info(function: Any) -> FunctionInfo:
    """HIP's facts of a loaded function."""
    attribute = driver().hipFunction_attribute

    def ask(name: str) -> int:
        return int(call("hipFuncGetAttribute", getattr(attribute, f"HIP_FUNC_ATTRIBUTE_{name}"), function))

    return FunctionInfo(ask("NUM_REGS"), ask("LOCAL_SIZE_BYTES"), ask("SHARED_SIZE_BYTES"))
