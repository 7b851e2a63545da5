"""The drivers that a generated source talks to: what differs between them, and the launch itself."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import ClassVar

from minitile.runtime.cuda import MOST_BLOCKS
from minitile.runtime.launch_info import LaunchInfo, TensorMapParam
from minitile.runtime.saved import Saved, capability_of
from minitile.tools.c import checks
from minitile.tools.c.expressions import c_expr
from minitile.tools.c.parameters import Names, declared


class Driver(ABC):
    """stream: what a stream's handle points to. where: the place into which a kernel is loaded. shared: the file of
    what all its kernels share. package, library: CMake's names. locals: variables of the launch function besides those
    of all, which `find` fills."""

    stream: ClassVar[str]
    where: ClassVar[str]
    shared: ClassVar[str]
    package: ClassVar[str]
    library: ClassVar[str]
    locals: ClassVar[str] = ""
    find: ClassVar[str] = "mt_function(&function)"

    @abstractmethod
    def macros(self, saved: Saved) -> dict[str, str | int]:
        """What `shared` is set up by."""

    @abstractmethod
    def most_blocks(self, axis: int, threads: int) -> str:
        """Of a grid, along an axis along which a block has so many threads."""

    @abstractmethod
    def launch(self, info: LaunchInfo, names: Names) -> Iterator[str]:
        """Statements, in a block of their own, after which the launch function has returned."""


class Cuda(Driver):
    stream, where = "struct CUstream_st", "CUDA's current context"
    shared, package, library = "cuda.c", "CUDAToolkit", "CUDA::cuda_driver"
    locals, find = ", device = 0", "mt_function(&function, &device)"

    def macros(self, saved: Saved) -> dict[str, str | int]:
        info = saved.launch
        (major, minor), only = capability_of(saved.arch)
        return {
            "MT_RUNS_ON(major, minor)": f"((major) == {major} && (minor) {'==' if only else '>='} {minor})",
            "MT_ONLY": int(only),
            "MT_CUBIN": int("cubin" in saved.images),
            "MT_PTX": int("ptx" in saved.images),
            "MT_MAPS": int(any(isinstance(p, TensorMapParam) for p in info.params)),
            "MT_WINDOW": int(info.window is not None),
            "MT_SHARED": info.dynamic_shared,
            "MT_CLUSTER": math.prod(info.cluster),
            "MT_REGISTERS": saved.jit.max_registers or 0,
            "MT_LEVEL": saved.jit.opt_level,
        }

    def most_blocks(self, axis: int, threads: int) -> str:
        return str(MOST_BLOCKS[axis])

    def launch(self, info: LaunchInfo, names: Names) -> Iterator[str]:
        values, lines = declared(info, names)
        yield f"void *params[{max(1, len(values))}];"
        attributes = list(_attributes(info, names))
        yield f"mt_attribute attributes[{max(1, len(attributes))}];"
        yield "mt_config config;"
        yield from lines
        yield checks.TOO_LARGE
        for i, (kind, _, _) in enumerate(values):
            yield f"params[{i}] = mt_aligned(&p{i});" if kind == "mt_map" else f"params[{i}] = (void *)&p{i};"
        yield "memset(attributes, 0, sizeof attributes);"
        for i, (number, statements) in enumerate(attributes):
            yield f"attributes[{i}].id = {number};"
            yield from (s.format(f"attributes[{i}].value") for s in statements)
        yield "memset(&config, 0, sizeof config);"
        for axis, extent in enumerate(info.block):
            yield f"config.grid[{axis}] = (unsigned)g{axis}, config.block[{axis}] = {extent};"
        yield "config.shared = MT_SHARED, config.stream = stream;"
        yield f"config.attributes = {'attributes' if attributes else '0'}, config.count = {len(attributes)};"
        yield "(void)device;"
        yield "status = mt_cuda.cuLaunchKernelEx(&config, function, params, 0);"
        yield 'return status ? mt_driver(status, "launching " MT_ENTRY) : 0;'


class Hip(Driver):
    stream, where = "struct ihipStream_t", "HIP's current device"
    shared, package, library = "hip.c", "hip", "hip::host"

    def macros(self, saved: Saved) -> dict[str, str | int]:
        return {}

    def most_blocks(self, axis: int, threads: int) -> str:
        return f"UINT32_MAX / {threads}"

    def launch(self, info: LaunchInfo, names: Names) -> Iterator[str]:
        values, lines = declared(info, names)
        fields = "".join(f"{kind}{'' if kind.endswith('*') else ' '}p{i}; " for i, (kind, _, _) in enumerate(values))
        yield f"struct {{ {fields or 'char nothing; '}}} kernarg;"
        last = f"p{len(values) - 1}"
        size = f"(size_t)((char *)&kernarg.{last} - (char *)&kernarg) + sizeof kernarg.{last}" if values else "0"
        yield "void *extra[5];"
        yield "size_t size;"
        yield from lines
        yield checks.TOO_LARGE
        yield "memset(&kernarg, 0, sizeof kernarg);"
        yield from (f"kernarg.p{i} = p{i};" for i in range(len(values)))
        yield f"size = {size};"
        yield "extra[0] = (void *)1, extra[1] = &kernarg, extra[2] = (void *)2, extra[3] = &size, extra[4] = (void *)3;"
        extents = ", ".join([*(f"(unsigned)g{axis}" for axis in range(3)), *map(str, info.block)])
        yield f"status = hipModuleLaunchKernel(function, {extents}, 0, stream, 0, extra);"
        yield 'return status ? mt_driver(status, "launching " MT_ENTRY) : 0;'


DRIVERS: Mapping[str, Driver] = {"cuda": Cuda(), "rocm": Hip()}  # by the kind of the devices


def _attributes(info: LaunchInfo, names: Names) -> Iterator[tuple[str, list[str]]]:
    """The launch's attributes: the number of each, and what sets it, of its value."""
    if info.window is not None:
        yield (
            "MT_LAUNCH_WINDOW",
            [
                "{{",
                "  int most = 0;",
                "  status = mt_cuda.cuDeviceGetAttribute(&most, MT_DEVICE_WINDOW, device);",
                '  if (status) return mt_driver(status, "asking for the window of L2");',
                f"  {{0}}.window.base = (const void *)(uintptr_t)({c_expr(info.window.start, names)});",
                f"  {{0}}.window.size = (size_t)mt_min({c_expr(info.window.size, names)}, most);",
                "}}",
                f"{{0}}.window.ratio = {info.window.ratio!r}f;",
                "{0}.window.hit = 2, {0}.window.miss = 1; /* persisting, streaming */",
            ],
        )
    if info.cluster != (1, 1, 1):
        yield "MT_LAUNCH_CLUSTER", [f"{{0}}.cluster[{axis}] = {extent};" for axis, extent in enumerate(info.cluster)]
    if info.cooperative:
        yield "MT_LAUNCH_COOPERATIVE", ["{0}.flag = 1;"]
    if info.early:
        yield "MT_LAUNCH_EARLY", ["{0}.flag = 1;"]
