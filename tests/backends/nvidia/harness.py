"""Thread IR built by hand, written as PTX, assembled, and run in the simulator.

`elementwise` makes a kernel of one warp or more in which each thread loads `count` elements of every input, computes,
and stores `count` elements of the result.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from minitile.backends.amd.assemble.codegen import generate
from minitile.backends.amd.emit.writer import write_llvm
from minitile.backends.nvidia.assemble import assemble
from minitile.backends.nvidia.emit.ptx import PtxModule
from minitile.backends.nvidia.emit.writer import write_ptx
from minitile.ir.builder import Builder
from minitile.ir.core import Block, Kernel, Value
from minitile.ir.ops import arith, thread
from minitile.ir.types import I32, TensorType, dtype, i64
from minitile.runtime.sim import run_gcn, run_ptx
from minitile.target import Target, parse_target
from tests.sim.ptx.gpu import Driver

Array = np.ndarray[Any, Any]
SM80 = parse_target("sm_80")
redirect: Target | None = None  # an AMD target: what `run` is given runs there instead


class Make(Builder):
    """A builder of a thread-stage kernel with `params` tensors (name -> dtype name) and i32 `dims`."""

    def __init__(self, params: dict[str, str], dims: Sequence[str] = (), threads: int = 32, **attrs: Any) -> None:
        tensors = {name: Value(TensorType(("n",), dtype(d)), name=name) for name, d in params.items()}
        self.tensors = tensors
        self.dims = {name: Value(I32, name=name) for name in dims}
        attrs = {"threads": threads, **attrs}
        self.kernel = Kernel("k", tuple(tensors.values()), self.dims, Block(), stage="thread", attrs=attrs)
        super().__init__(self.kernel.body)

    def thread(self) -> Value:
        return self.emit(thread.Special("tid.x")).result

    def element(self, name: str, index: Value) -> Value:
        """The address of an element of a tensor."""
        base = self.emit(thread.GlobalAddress(self.tensors[name])).result
        size = self.tensors[name].dtype.bytes
        return self.emit(arith.Add(base, self.mul(self.cast(index, i64), size))).result

    def load(self, name: str, index: Value, count: int = 1, width: int = 1, **more: Any) -> Value:
        d = self.tensors[name].dtype
        steps = range(count // width)
        op = thread.LoadMem(
            self.element(name, index),
            self.tensors[name],
            "global",
            d,
            count,
            tuple(0 for _ in steps),
            tuple(n * width * d.bytes for n in steps),
            width=width,
            **more,
        )
        return self.emit(op).result

    def store(self, name: str, index: Value, value: Value, width: int = 1, **more: Any) -> None:
        d = self.tensors[name].dtype
        steps = range(thread.count_of(value.type) // width)
        op = thread.StoreMem(
            self.element(name, index),
            value,
            self.tensors[name],
            "global",
            tuple(0 for _ in steps),
            tuple(n * width * d.bytes for n in steps),
            width=width,
            **more,
        )
        self.emit(op)

    def write(self, target: Target = SM80) -> PtxModule:
        return write_ptx(self.kernel, target)


def run(make: Make, *args: Any, target: Target = SM80, threads: int = 32, shared: int = 0, check: bool = True) -> str:
    """Write, assemble and run one CTA; arrays are changed in place. Returns the PTX text.

    It runs in the simulator, or on the GPU with MINITILE_GPU=1. With `redirect`, it is GCN assembly that is written and
    simulated."""
    if redirect is not None:
        return _run_gcn(make, redirect, args, threads, check)
    module = make.write(target)
    assemble(module.text, target.arch)
    if os.environ.get("MINITILE_GPU") == "1":
        gpu().run(module.text, module.entry, (1,), (threads,), args, shared)
        return module.text
    report = run_ptx(module.text, module.entry, (1,), (threads,), args, dynamic_shared=shared, check=check)
    assert not report.findings, f"{report.findings}\n{module.text}"
    return module.text


def _run_gcn(make: Make, target: Target, args: Sequence[Any], threads: int, check: bool) -> str:
    program = write_llvm(make.kernel, target)
    text = generate(program.text, target)
    report = run_gcn(text, program.entry, (1,), (threads,), args, check=check)
    assert not report.findings, f"{report.findings}\n{text}"
    return text


@functools.cache
def gpu() -> Driver:
    return Driver()


def elementwise(
    compute: Callable[..., Value],
    inputs: Sequence[tuple[str, Array]],
    out: str,
    count: int = 1,
    target: Target = SM80,
) -> Array:
    """compute(builder, *values) on arrays given with their dtype names; all of one length, a multiple of 32·count."""
    total = len(inputs[0][1])
    threads = total // count
    names = {f"x{n}_": d for n, (d, _) in enumerate(inputs)}
    make = Make({**names, "out": out}, threads=threads)
    index = make.mul(make.thread(), count)
    values = [make.load(name, index, count, width_of(d, count)) for name, d in names.items()]
    make.store("out", index, compute(make, *values), width_of(out, count))
    result = np.zeros(total, dtype(out).numpy)
    arrays = [np.ascontiguousarray(a, dtype(d).numpy) for d, a in inputs]
    # The simulator's buffers are bytes: it knows neither bf16 nor fp8.
    run(make, *[raw(a) for a in arrays], raw(result), target=target, threads=threads)
    return result


def raw(array: Array) -> Array:
    """The same memory as plain bytes."""
    return array.view(np.uint8)


def width_of(name: str, count: int) -> int:
    """The widest accesses that are aligned: all of a power of two, up to 16 bytes."""
    return min(count, 16 // dtype(name).bytes) if count & (count - 1) == 0 else 1
