"""What a launch costs on the host: minitile's prepared launch and plain call beside Triton's, on one GPU.

    python benchmarks/launch.py [--out FILE.json]

The kernel is a vector add of three f32 tensors and a length, too small to keep the GPU busy, so that the host is what
is measured. A sample is the time of 500 launches divided by 500 (fewer than the driver queues before it blocks), with
the queue emptied before; samples of all variants alternate. Shown: the median and the least, in microseconds.

"driver alone" is cuLaunchKernelEx through ctypes and nothing else: what no launch from Python can do without; beside it
the same with the parameters in one buffer, on a stream of its own, and without letting go of the interpreter's lock.
"graph" is the replay of a CUDA graph of 20 launches, for one of them.

"prepared" is a launch with everything fixed, "plain call" all that a call does once it is known which kernel it is of,
"kernel's call" what users write, `add(a, b, c)`, and "binding only" the checking of the arguments.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import platform
import statistics
import time
from collections.abc import Callable
from typing import Any

import minitile
import minitile.language as T
from minitile.driver.dispatch import Dispatcher, Executable
from minitile.runtime.launch_info import LaunchInfo, Param, TensorArg

PTX = """.version 8.0
.target sm_80
.address_size 64
.visible .entry vector_add(.param .u64 a, .param .u64 b, .param .u64 c, .param .u32 n)
{
    .reg .pred %p;
    .reg .b32 %n, %i, %block, %width;
    .reg .b64 %a, %b, %c, %offset;
    .reg .f32 %x, %y;
    ld.param.u64 %a, [a];
    ld.param.u64 %b, [b];
    ld.param.u64 %c, [c];
    ld.param.u32 %n, [n];
    mov.u32 %block, %ctaid.x;
    mov.u32 %width, %ntid.x;
    mov.u32 %i, %tid.x;
    mad.lo.u32 %i, %block, %width, %i;
    setp.ge.u32 %p, %i, %n;
    @%p bra done;
    mul.wide.u32 %offset, %i, 4;
    add.s64 %a, %a, %offset;
    add.s64 %b, %b, %offset;
    add.s64 %c, %c, %offset;
    ld.global.f32 %x, [%a];
    ld.global.f32 %y, [%b];
    add.f32 %x, %x, %y;
    st.global.f32 [%c], %x;
done:
    ret;
}
"""
INFO = LaunchInfo(
    entry="vector_add",
    args=tuple(TensorArg(name, "f32", ("n",)) for name in "abc"),
    params=(*(Param(name, "pointer", ("pointer", name)) for name in "abc"), Param("n", "u32", ("dim", "n"))),
    grid=(("ceildiv", ("dim", "n"), 128), 1, 1),
    block=(128, 1, 1),
)
FACTS = (*(("divides", ("pointer", name), 16) for name in "abc"), ("divides", ("dim", "n"), 16))
LAUNCHES = 500


@minitile.kernel
def add(A: T.Tensor(("n",), T.float32), B: T.Tensor(("n",), T.float32), C: T.Tensor(("n",), T.float32)):
    with T.Kernel(T.ceildiv(A.shape[0], 128), threads=128) as bx:
        for i in T.Parallel(128):
            C[bx * 128 + i] = A[bx * 128 + i] + B[bx * 128 + i]


def main() -> None:
    parser = argparse.ArgumentParser(description="Host time of a launch, in microseconds.")
    parser.add_argument("--samples", type=int, default=20)
    parser.add_argument("--out", help="write the numbers here as JSON")
    args = parser.parse_args()

    import torch

    a, b, c = (torch.randn(1024, device="cuda") for _ in range(3))
    variants = ours(a, b, c) | products() | driver_alone(a, b, c) | triton(a, b, c)
    for name, launch in variants.items():
        c.zero_()
        torch.cuda.synchronize()
        launch()
        torch.cuda.synchronize()
        if not name.endswith(("binding only", "matmul")) and not torch.equal(c, a + b):
            raise SystemExit(f"{name}: wrong result")
    times = measure(variants, args.samples, torch.cuda.synchronize)

    width = max(map(len, times))
    print(f"{torch.cuda.get_device_name()}, {platform.processor() or platform.machine()}, torch {torch.__version__}")
    print(f"{'':<{width}}  median    least  (µs of host time for one launch)")
    for name, samples in times.items():
        print(f"{name:<{width}}  {statistics.median(samples):6.2f}   {min(samples):6.2f}")
    if args.out:
        found = {name: {"median": statistics.median(s), "least": min(s)} for name, s in times.items()}
        with open(args.out, "w", encoding="utf-8") as file:
            json.dump(
                {
                    "date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
                    "device": torch.cuda.get_device_name(),
                    "microseconds": found,
                },
                file,
                indent=2,
            )


def measure(
    variants: dict[str, Callable[[], Any]], samples: int, synchronize: Callable[[], None]
) -> dict[str, list[float]]:
    """Microseconds for one launch, by variant, one number a sample."""
    times: dict[str, list[float]] = {name: [] for name in variants}
    for _ in range(samples):
        for name, launch in variants.items():
            synchronize()
            start = time.perf_counter()
            count = LAUNCHES // IN_GRAPH if name.startswith("graph") else LAUNCHES
            for _ in range(count):
                launch()
            times[name].append((time.perf_counter() - start) / LAUNCHES * 1e6)
    return times


def ours(a: Any, b: Any, c: Any) -> dict[str, Callable[[], Any]]:
    compiled = Executable(INFO, PTX)
    call = Dispatcher(INFO.args, FACTS, lambda place, facts, exact: compiled).call
    return {
        "minitile, prepared": compiled.prepare(a, b, c),
        "minitile, plain call": lambda: call(a, b, c),
        "minitile, kernel's call": lambda: add(a, b, c),
        "minitile, binding only": lambda: compiled.launcher.bind(a, b, c),
    }


def products() -> dict[str, Callable[[], Any]]:
    """Calls of matmul on matrices too small to keep the GPU busy, with and without a result to write to."""
    import torch

    a, b, c = (torch.randn(128, 128, device="cuda", dtype=torch.bfloat16) for _ in range(3))
    return {
        "minitile, ops.matmul": lambda: minitile.ops.matmul(a, b, out=c),
        "minitile, ops.matmul, new result: matmul": lambda: minitile.ops.matmul(a, b),
        "torch: matmul": lambda: torch.matmul(a, b, out=c),
    }


IN_GRAPH = 20  # launches


class Extra(ctypes.Structure):
    """`extra` of a launch whose parameters lie in one buffer: CU_LAUNCH_PARAM_BUFFER_POINTER is 1,
    CU_LAUNCH_PARAM_BUFFER_SIZE 2, the end 0. The driver reads the size through a pointer, at each launch: it lies in
    this very memory, so that it lives as long."""

    _fields_ = (("words", ctypes.c_void_p * 5), ("size", ctypes.c_size_t))

    def __init__(self, start: int, size: int) -> None:
        super().__init__(size=size)
        self.words[:] = 1, start, 2, ctypes.addressof(self) + Extra.size.offset, 0


def driver_alone(a: Any, b: Any, c: Any) -> dict[str, Callable[[], Any]]:
    """The driver's call with everything prepared by hand, in a few forms, and the replay of a graph."""
    import torch

    from minitile.runtime import cuda

    launcher = Executable(INFO, PTX).launcher
    values, place = launcher.bind(a, b, c)
    with cuda.on_device(place):
        function = launcher._load(place).function
    library = launcher._library
    holding = ctypes.PyDLL("libcuda.so.1")
    own = torch.cuda.Stream()

    def frame(stream: int) -> Any:
        """Its `config` and `params` keep alive what they point to; there are no attributes."""
        made = launcher._new_frame()
        launcher._pack.pack_into(made.buffer, 0, *launcher._fields(values, stream, made, place))
        return made

    def of(call: Any, stream: int = 0) -> Callable[[], Any]:
        made = frame(stream)
        config, params = made.config, made.params
        return lambda: call(config, function, params, None)

    def buffered() -> Callable[[], Any]:
        made = frame(0)
        start = ctypes.addressof(made.buffer) + cuda._CONFIG_BYTES
        extra = Extra(start, launcher._pack.size - cuda._CONFIG_BYTES)
        config, pointed, call = made.config, ctypes.byref(extra), library.cuLaunchKernelEx
        return lambda: call(config, function, None, pointed)

    graph, prepared = torch.cuda.CUDAGraph(), launcher.prepare(a, b, c)
    with torch.cuda.graph(graph):
        for _ in range(IN_GRAPH):
            prepared()
    return {
        "driver alone": of(library.cuLaunchKernelEx),
        "driver alone, one buffer": buffered(),
        "driver alone, own stream": of(library.cuLaunchKernelEx, own.cuda_stream),
        "driver alone, lock held": of(holding.cuLaunchKernelEx),
        f"graph of {IN_GRAPH}": graph.replay,
    }


def triton(a: Any, b: Any, c: Any) -> dict[str, Callable[[], Any]]:
    """Triton's plain call, `kernel[grid](...)`; nothing where it is not installed."""
    global tl  # Triton looks names up in the module
    try:
        import triton
        import triton.language as tl
    except ImportError:
        return {}

    @triton.jit
    def vector_add(a, b, c, n, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
        at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        mask = at < n
        tl.store(c + at, tl.load(a + at, mask) + tl.load(b + at, mask), mask)

    n = a.numel()
    grid = (triton.cdiv(n, 128),)
    return {f"triton {triton.__version__}": lambda: vector_add[grid](a, b, c, n, BLOCK=128)}


if __name__ == "__main__":
    main()
