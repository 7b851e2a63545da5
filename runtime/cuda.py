"""Launching on NVIDIA GPUs: cubins loaded once per CUDA context, and a launch path that costs little on the host.

A `Launcher` is one compiled kernel. Its launch path is one generated function: it evaluates the grid and the
parameters, packs them with the launch configuration into one buffer by one `struct` call, and calls `cuLaunchKernelEx`
through ctypes. That call takes four pointers, which ctypes passes on as they are when they are `byref`s made
beforehand: much less than `cuLaunchKernel`'s eleven numbers cost, or cuda-python. Everything that is not on that path
goes through cuda-python (`cuda.bindings.driver`). For

    grid (ceildiv(n, 128), 1, 1), block (128, 1, 1), parameters A, B (a tensor map of the tensor B) and n

the generated function reads

    def launch(values, place):
        v0, v1, v2, = values
        g0, g1, g2 = -(-v2 // 128), 1, 1
        if not (g0 and g1 and g2):
            return
        try:
            frame = pop()
        except IndexError:
            frame = new_frame()
        current(frame.context_at)
        loaded = find((frame.context.value, place.index))
        if loaded is None or place.kind != 'cuda':
            return first_launch(values, place)
        stream = place.stream()
        try:
            pack(frame.buffer, 0, g0, g1, g2, block, stream, frame.attributes,
                 v0, known1((v1, v2)) or encode1((v1, v2)), v2)
        except (error, OverflowError) as reason:
            explain_pack(values, reason)
        status = launch_kernel(frame.config, loaded.function, frame.params, None)
        push(frame)
        if status:
            explain_launch(status, (g0, g1, g2))

The caller's context is used when it is on the tensors' device, else that device's primary context for the one call; the
stream is the one that the tensors' framework uses at the moment.

Sources: CUDA driver API reference: Execution Control (`CUlaunchConfig`, `CUlaunchAttribute`), Context, Primary Context
and Module Management; CUDA C++ Programming Guide, compute capabilities (grid limits).
"""

from __future__ import annotations

import ctypes
import math
import struct
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any, NoReturn

from . import tensor_map
from .arrays import Place
from .errors import ArgumentError, DriverError, LaunchError, UnavailableError
from .launch_info import (
    LaunchInfo,
    Param,
    Slot,
    TensorMapParam,
    Values,
    compile_exprs,
    expr_source,
    param_layout,
)
from .launcher_base import BaseLauncher, Prepared, check_clusters, nothing

_INSTALL = "pip install 'minitile[cuda]' brings cuda-python; the driver itself comes with NVIDIA's driver package"
_STATIC_LIMIT = 48 * 1024


@dataclass(frozen=True, slots=True)
class DeviceInfo:
    """A CUDA device. `max_shared`: bytes of dynamic shared memory that one block may ask for."""

    index: int
    name: str
    capability: tuple[int, int]
    max_shared: int
    multiprocessors: int

    @property
    def arch(self) -> str:
        return "sm_{}{}".format(*self.capability)


@dataclass(frozen=True, slots=True)
class FunctionInfo:
    """What the driver says of a loaded kernel: registers per thread, local memory (spills and stack) in bytes per
    thread, static shared memory in bytes."""

    registers: int
    local: int
    shared: int


@dataclass(frozen=True, slots=True)
class JitOptions:
    """How the driver compiles PTX text: `opt_level` 0–4, `max_registers` per thread (None: the text's own limit)."""

    opt_level: int = 4
    line_info: bool = True
    max_registers: int | None = None


@cache
def driver() -> Any:
    """`cuda.bindings.driver`, initialised. Raises UnavailableError where it, the driver or a device is missing."""
    try:
        from cuda.bindings import driver as binding
    except ImportError as error:
        raise UnavailableError(f"cuda-python is not installed ({error})", _INSTALL) from None
    try:
        (status,) = binding.cuInit(0)
    except Exception as error:  # the binding's own, where it finds no libcuda
        raise UnavailableError(f"no CUDA driver: {error}", _INSTALL) from None
    if int(status) != 0:
        raise UnavailableError(f"the CUDA driver finds no usable device: {_name(binding, status)[1]}", _INSTALL)
    return binding


def available() -> bool:
    """Whether a CUDA device can be used here."""
    try:
        return device_count() > 0
    except LaunchError:
        return False


def _name(binding: Any, status: Any) -> tuple[str, str]:
    """The driver's name of a status and its text."""
    _, name = binding.cuGetErrorName(status)
    _, text = binding.cuGetErrorString(status)
    code = name.decode() if name else f"CUDA error {int(status)}"
    return code, f"{code} ({text.decode()})" if text else code


def call(function: str, *args: Any, doing: str = "") -> Any:
    """A driver call by name; its result, or a tuple of several. Raises DriverError with the driver's words."""
    binding = driver()
    status, *results = getattr(binding, function)(*args)
    if int(status) != 0:
        code, shown = _name(binding, status)
        raise DriverError(f"{doing or function} failed: {shown}", code)
    return results[0] if len(results) == 1 else tuple(results)


def device_count() -> int:
    return int(call("cuDeviceGetCount"))


@cache
def device_info(index: int) -> DeviceInfo:
    """The facts of device `index`."""
    device = call("cuDeviceGet", index)
    attribute = driver().CUdevice_attribute

    def ask(name: str) -> int:
        return int(call("cuDeviceGetAttribute", getattr(attribute, f"CU_DEVICE_ATTRIBUTE_{name}"), device))

    return DeviceInfo(
        index=index,
        name=call("cuDeviceGetName", 256, device).split(b"\0", 1)[0].decode(),
        capability=(ask("COMPUTE_CAPABILITY_MAJOR"), ask("COMPUTE_CAPABILITY_MINOR")),
        max_shared=ask("MAX_SHARED_MEMORY_PER_BLOCK_OPTIN"),
        multiprocessors=ask("MULTIPROCESSOR_COUNT"),
    )


def current_device_info() -> DeviceInfo | None:
    """The device of the current context, or device 0 where there is no context yet; None without a GPU."""
    if not available():
        return None
    context = call("cuCtxGetCurrent")
    return device_info(int(call("cuCtxGetDevice")) if int(context) else 0)


def device_of_pointer(pointer: int) -> int:
    """The index of the device that device memory at `pointer` belongs to; 0 for the null pointer of an empty array."""
    if pointer == 0:
        return 0
    which = driver().CUpointer_attribute.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
    return int(call("cuPointerGetAttribute", which, pointer, doing=f"asking which device {pointer:#x} is on"))


@cache
def largest_window(index: int) -> int:
    """The bytes that a launch's access policy window may have on device `index`."""
    which = driver().CUdevice_attribute.CU_DEVICE_ATTRIBUTE_MAX_ACCESS_POLICY_WINDOW_SIZE
    return int(call("cuDeviceGetAttribute", which, call("cuDeviceGet", index)))


def reserve_persisting(index: int) -> None:
    """Gives lines that are to stay in L2 as much of it as the device allows, in the current context, where that has
    none for them."""
    limit = driver().CUlimit.CU_LIMIT_PERSISTING_L2_CACHE_SIZE
    if not int(call("cuCtxGetLimit", limit)):
        which = driver().CUdevice_attribute.CU_DEVICE_ATTRIBUTE_MAX_PERSISTING_L2_CACHE_SIZE
        call("cuCtxSetLimit", limit, int(call("cuDeviceGetAttribute", which, call("cuDeviceGet", index))))


@cache
def _primary_context(index: int) -> Any:
    """Device `index`'s primary context, retained for the life of the process."""
    return call("cuDevicePrimaryCtxRetain", call("cuDeviceGet", index))


@cache
def _ctypes_driver() -> Any:
    """libcuda for the calls of the launch path. The driver is initialised and loaded by then. The two calls of every
    launch have no argument types, which ctypes would check again each time: they are given `byref`s and None."""
    driver()
    library: Any = ctypes.CDLL("libcuda.so.1")
    # It never waits, so there is no need to let go of the interpreter's lock for it.
    library.cuCtxGetCurrent = ctypes.PyDLL("libcuda.so.1").cuCtxGetCurrent
    tensor_map.declare(library)
    return library


# CUlaunchConfig: gridDim; blockDim and sharedMemBytes; padding; hStream; attrs and numAttrs; padding. What is the same
# for every launch is packed as bytes made beforehand.
_CONFIG = "<3I16s4xQ12s4x"
_BLOCK = struct.Struct("<3II")
_ATTRIBUTES = struct.Struct("<QI")
_CONFIG_BYTES = struct.calcsize(_CONFIG)
# CUlaunchAttribute: id, 4 bytes of padding, a union of 64 bytes. CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION is 4,
# CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION is 6.
_CLUSTER_ATTRIBUTE = struct.Struct("<I4x3I52x")
_PORTABLE_CLUSTER = 8  # blocks, on any GPU that has clusters (CUDA C++ Programming Guide, "Thread Block Clusters")
_EARLY_ATTRIBUTE = struct.pack("<I4xi60x", 6, 1)
# CU_LAUNCH_ATTRIBUTE_COOPERATIVE is 2; a grid that does not fit is CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE.
_COOPERATIVE_ATTRIBUTE, _TOO_LARGE = struct.pack("<I4xi60x", 2, 1), 720
# CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW is 1: address, bytes, hit ratio, what hits and misses count as.
_WINDOW_ATTRIBUTE = struct.Struct("<I4xQQfii36x")
_WINDOW = struct.Struct("<QQ")
_WINDOW_AT = 8
_PERSISTING, _STREAMING = 2, 1  # CUaccessProperty
_FRAME_ALIGNMENT = 64  # a tensor map's


class _Opaque(ctypes.Structure):
    """What a handle points to: `byref` of one at a handle's address is the handle, ready for ctypes."""


def _handle(address: int) -> Any:
    return ctypes.byref(_Opaque.from_address(address))


class _Frame:
    """The memory of one launch in progress: configuration, packed parameters, pointers to each parameter, and a word
    for the driver to say the current context in."""

    __slots__ = ("attributes", "buffer", "config", "context", "context_at", "params", "window")

    def __init__(self, size: int, offsets: tuple[int, ...], attributes: bytes, count: int) -> None:
        memory = ctypes.create_string_buffer(size + _FRAME_ALIGNMENT)
        skipped = -ctypes.addressof(memory) % _FRAME_ALIGNMENT
        self.buffer = (ctypes.c_char * size).from_buffer(memory, skipped)
        start = ctypes.addressof(self.buffer)
        self.config = ctypes.byref(self.buffer)
        self.params = ctypes.byref((ctypes.c_void_p * max(1, len(offsets)))(*(start + at for at in offsets)))
        # The attributes, of which a window is the first.
        self.window = ctypes.create_string_buffer(attributes)
        self.attributes = _ATTRIBUTES.pack(ctypes.addressof(self.window) if count else 0, count)
        self.context = ctypes.c_void_p()
        self.context_at = ctypes.byref(self.context)


@dataclass(frozen=True, slots=True)
class _Loaded:
    """The kernel in one context: its function handle, ready for ctypes, the driver's facts, and what its JIT said."""

    function: Any
    info: FunctionInfo
    log: str


class Launcher(BaseLauncher):
    """One compiled kernel that can be launched on any device it fits.

    `image` gives the code for a device: a cubin, or PTX text (bytes) for the driver's own JIT, as `jit` says. It is
    asked once per context. `compiled` is told what the JIT made of PTX (the device, the function's facts, the log)
    before it is launched, and may raise. Safe to use from several threads. Raises UnavailableError without a driver.
    """

    def __init__(
        self,
        info: LaunchInfo,
        image: Callable[[DeviceInfo], bytes],
        jit: JitOptions | None = None,
        compiled: Callable[[DeviceInfo, FunctionInfo, str], None] | None = None,
    ) -> None:
        super().__init__(info)
        self._image = image
        self._jit = jit or JitOptions()
        self._compiled = compiled
        self._library = _ctypes_driver()
        form, self._offsets = param_layout(info.params, _CONFIG_BYTES)
        self._pack = struct.Struct(_CONFIG + form)
        attributes = []
        if info.window is not None:
            attributes.append(_WINDOW_ATTRIBUTE.pack(1, 0, 0, info.window.ratio, _PERSISTING, _STREAMING))
        if info.cluster != (1, 1, 1):
            attributes.append(_CLUSTER_ATTRIBUTE.pack(4, *info.cluster))
        if info.cooperative:
            attributes.append(_COOPERATIVE_ATTRIBUTE)
        if info.early:
            attributes.append(_EARLY_ATTRIBUTE)
        self._attributes = b"".join(attributes), len(attributes)
        self._loaded: dict[tuple[int | None, int], _Loaded] = {}
        self._lock = threading.Lock()
        self._write()

    @classmethod
    def of_ptx(cls, info: LaunchInfo, ptx: str, jit: JitOptions | None = None) -> Launcher:
        """Any PTX text, compiled by the driver when it is first launched: as a whole program, so that setmaxnreg has
        its effect. `info.entry` names the kernel, `info.params` its parameters in order. For two pointers and a number

            info = LaunchInfo(
                entry="scale",
                args=(TensorArg("x", "f32", ("n",)), TensorArg("y", "f32", ("n",)), ScalarArg("a", "f32")),
                params=(
                    Param("x", "pointer", ("pointer", "x")),
                    Param("y", "pointer", ("pointer", "y")),
                    Param("a", "f32", ("scalar", "a")),
                    Param("n", "i32", ("dim", "n")),
                ),
                grid=(("ceildiv", ("dim", "n"), 128), 1, 1),
                block=(128, 1, 1),
            )
            scale = Launcher.of_ptx(info, text)
            scale(x, y, 2.0)                       # on the tensors' device and their framework's stream
            again = scale.prepare(x, y, 2.0)       # for timing: `again()` launches and does nothing else
        """
        return cls(info, lambda _: ptx.encode(), jit)

    def prepare(self, *args: Any) -> Prepared:
        """Everything that does not change, done once: the result launches on these very arrays when called."""
        values, place = self.bind(*args)
        frame = self._new_frame()
        config, params = frame.config, frame.params
        grid = compile_exprs(self.info.grid, self.slots)(values)
        if 0 in grid:
            return nothing
        self.check_memory(values)
        with on_device(place):
            function = self._load(place).function
            try:
                self._pack.pack_into(frame.buffer, 0, *self._fields(values, 0, frame, place))
            except (struct.error, OverflowError) as error:
                self._explain_pack(values, error)
        launch_kernel, current_stream, packed = self._library.cuLaunchKernelEx, place.stream, 0

        def prepared(stream: int | None = None) -> None:
            nonlocal packed
            if stream is None:
                stream = current_stream()
            if stream != packed:
                _pack_stream(
                    frame.buffer, _STREAM_AT, stream
                )  # (and the frame stays alive: its attributes are its own)
                packed = stream
            status = launch_kernel(config, function, params, None)
            if status:
                self._explain_launch(status, grid)

        return prepared

    def function_info(self, place: Place) -> FunctionInfo:
        """Registers, local and shared memory as the driver reports them for the code that runs at `place`."""
        with on_device(place):
            return self._load(place).info

    def jit_log(self, place: Place) -> str:
        """What the driver's JIT said when it compiled the code that runs at `place`; nothing of a cubin, or of text
        that it remembers from an earlier process."""
        with on_device(place):
            return self._load(place).log

    def _write(self) -> None:
        """`launch` and `_fields`, as in this module's text; what is packed is in the order of `_CONFIG`, then of the
        parameters."""
        info, names = self.info, self._names()
        scope: dict[str, Any] = {
            "block": _BLOCK.pack(*info.block, info.dynamic_shared),
            "current": self._library.cuCtxGetCurrent,
            "find": self._loaded.get,
            "launch_kernel": self._library.cuLaunchKernelEx,
        }
        window = "pass"
        if info.window is not None:
            start, size = expr_source(info.window.start, names), expr_source(info.window.size, names)
            window = f"pack_window(frame.window, {_WINDOW_AT}, {start}, min({size}, largest_window(place.index)))"
            scope |= {"pack_window": _WINDOW.pack_into, "largest_window": largest_window}
        self._compile(
            self._pack.pack_into,
            scope,
            find=["current(frame.context_at)", "loaded = find((frame.context.value, place.index))"],
            missing="loaded is None or place.kind != 'cuda'",
            before=window,
            head=["g0", "g1", "g2", "block", "stream", "frame.attributes"],
            call="launch_kernel(frame.config, loaded.function, frame.params, None)",
        )

    def _param_text(
        self, i: int, param: Param | TensorMapParam, names: Mapping[Slot, str], scope: dict[str, Any]
    ) -> str:
        """A tensor map is its bytes."""
        if isinstance(param, Param):
            return super()._param_text(i, param, names, scope)
        encoder = tensor_map.TensorMapEncoder(param, self.slots, self._library)
        scope |= {f"known{i}": encoder.known.get, f"encode{i}": encoder.encode}
        key = "".join(f"{names[slot]}, " for slot in encoder.slots)
        return f"known{i}(({key})) or encode{i}(({key}))"

    def _new_frame(self) -> _Frame:
        return _Frame(self._pack.size, self._offsets, *self._attributes)

    def _on_device(self, place: Place) -> AbstractContextManager[None]:
        return on_device(place)

    def _load(self, place: Place) -> _Loaded:
        """The kernel in the current context, which is on the place's device; loaded once for all threads."""
        context = int(call("cuCtxGetCurrent"))
        with self._lock:
            loaded = self._loaded.get((context, place.index))
            if loaded is None:
                device = device_info(place.index)
                image = self._image(device)
                function, log = load_function(image, self.info.entry, self.info.dynamic_shared, self._jit)
                if math.prod(self.info.cluster) > _PORTABLE_CLUSTER:
                    self._allow_large_cluster(function, device)
                if self.info.window is not None:
                    reserve_persisting(place.index)
                loaded = _Loaded(_handle(int(function)), function_info(function), log)
                if self._compiled is not None and is_text(image):
                    self._compiled(device, loaded.info, log)
                self._loaded[context, place.index] = loaded
            return loaded

    def _allow_large_cluster(self, function: Any, device: DeviceInfo) -> None:
        """Clusters of more blocks than every GPU has room for are asked for, and must fit: raises LaunchError."""
        info, count = self.info, math.prod(self.info.cluster)
        which = driver().CUfunction_attribute.CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED
        call("cuFuncSetAttribute", function, which, 1, doing=f"asking for clusters of {count} blocks for {info.entry}")
        frame = _Frame(_CONFIG_BYTES, (), _CLUSTER_ATTRIBUTE.pack(4, *info.cluster), 1)
        block = _BLOCK.pack(*info.block, info.dynamic_shared)
        struct.pack_into(_CONFIG, frame.buffer, 0, *info.cluster, block, 0, frame.attributes)
        fit = ctypes.c_int()
        handle = _handle(int(function))
        status = self._library.cuOccupancyMaxActiveClusters(ctypes.byref(fit), handle, frame.config)
        if status or not fit.value:
            threads, facts = math.prod(info.block), function_info(function)
            raise LaunchError(
                f"{info.entry} has clusters of {count} blocks, for which {device.name} has no room: {threads} threads "
                f"a block, {facts.registers} registers a thread, {info.dynamic_shared + facts.shared} bytes of shared "
                "memory",
                f"clusters of up to {_PORTABLE_CLUSTER} blocks fit wherever a block does; smaller blocks may leave "
                f"room for {count}",
            )

    def _explain_launch(self, status: int, grid: Values) -> NoReturn:
        check_grid(grid)
        check_clusters(grid, self.info.cluster)
        if self.info.cooperative and status == _TOO_LARGE:
            raise ArgumentError(
                f"{self.info.entry} waits for its whole grid (T.sync_grid), whose {math.prod(grid)} blocks do not run "
                "at the same time on this GPU",
                "launch as many blocks as there are multiprocessors, each with a loop over its tiles",
            )
        binding = driver()
        code, shown = _name(binding, binding.CUresult(status))
        raise DriverError(
            f"launching {self.info.entry} with grid {grid}, block {self.info.block} and "
            f"{self.info.dynamic_shared} bytes of dynamic shared memory failed: {shown}",
            code,
        )


MOST_BLOCKS = (2**31 - 1, 65535, 65535)  # CUDA C++ Programming Guide, compute capabilities


def check_grid(grid: Sequence[int]) -> None:
    """Raises ArgumentError for a grid that no GPU launches."""
    for axis, blocks, most in zip("xyz", grid, MOST_BLOCKS, strict=True):
        if blocks > most:
            raise ArgumentError(f"the grid is {tuple(grid)}: at most {most} blocks fit in {axis}")


_pack_stream = struct.Struct("<Q").pack_into
_STREAM_AT = struct.calcsize("<3I16s4x")


@contextmanager
def on_device(place: Place) -> Iterator[None]:
    """The current context if it is on the place's device, else that device's primary context for the while; a thread
    without any context gets it for good, as from the CUDA runtime."""
    if place.kind != "cuda":
        raise ArgumentError(f"a CUDA kernel cannot work on tensors on {place}")
    if not int(call("cuCtxGetCurrent")):
        call("cuCtxSetCurrent", _primary_context(place.index))
    if int(call("cuCtxGetDevice")) == place.index:
        yield
        return
    call("cuCtxPushCurrent", _primary_context(place.index))
    try:
        yield
    finally:
        call("cuCtxPopCurrent")


def is_text(image: bytes) -> bool:
    """Whether it is PTX rather than a cubin (an ELF file)."""
    return not image.startswith(b"\x7fELF")


def load_function(image: bytes, entry: str, dynamic_shared: int = 0, jit: JitOptions | None = None) -> tuple[Any, str]:
    """Loads a cubin, or PTX text for the driver's JIT, into the current context: its entry as a CUfunction, allowed to
    use `dynamic_shared` bytes, and the JIT's log. Raises DriverError; for PTX with the JIT's own words."""
    errors, infos = bytearray(8192), bytearray(65536)
    options: dict[str, Any] = {"ERROR_LOG_BUFFER": errors, "ERROR_LOG_BUFFER_SIZE_BYTES": len(errors)}
    if is_text(image):
        image += b"\0"
        options |= {"INFO_LOG_BUFFER": infos, "INFO_LOG_BUFFER_SIZE_BYTES": len(infos), "LOG_VERBOSE": 1}
        jit = jit or JitOptions()
        options |= {"OPTIMIZATION_LEVEL": jit.opt_level, "GENERATE_LINE_INFO": int(jit.line_info)}
        if jit.max_registers is not None:
            options["MAX_REGISTERS"] = jit.max_registers
    names = [getattr(driver().CUjit_option, f"CU_JIT_{name}") for name in options]
    values = list(options.values())
    try:
        module = call("cuModuleLoadDataEx", image, len(names), names, values, doing=f"loading the code of {entry}")
    except DriverError as error:
        said = _said(errors)
        raise DriverError(f"{error.message}\n{said}" if said else error.message, error.code) from None
    function = call("cuModuleGetFunction", module, entry.encode(), doing=f"finding the entry {entry}")
    if dynamic_shared > _STATIC_LIMIT:
        which = driver().CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        call(
            "cuFuncSetAttribute",
            function,
            which,
            dynamic_shared,
            doing=f"asking for {dynamic_shared} bytes of shared memory for {entry}",
        )
    return function, _said(infos)


def _said(log: bytearray) -> str:
    return log.split(b"\0", 1)[0].decode(errors="replace").strip()


def function_info(function: Any) -> FunctionInfo:
    """The driver's facts of a loaded function."""
    attribute = driver().CUfunction_attribute

    def ask(name: str) -> int:
        return int(call("cuFuncGetAttribute", getattr(attribute, f"CU_FUNC_ATTRIBUTE_{name}"), function))

    return FunctionInfo(ask("NUM_REGS"), ask("LOCAL_SIZE_BYTES"), ask("SHARED_SIZE_BYTES"))
