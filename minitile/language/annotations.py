"""Hints, promises and prints: T.annotate_layout, T.use_swizzle, T.assume, T.print, …."""

from __future__ import annotations

import builtins
from typing import Any

from minitile.ir.core import Value
from minitile.ir.diagnostics import shown
from minitile.ir.ops import arith, control, tile
from minitile.ir.types import BOOL, i64
from minitile.language.memory import Memory, Region, as_region
from minitile.language.scalars import (
    Expr,
    constant_int,
    constant_value,
    operand_value,
    truth,
)
from minitile.language.tiles import regions, tile_scope
from minitile.language.tracing.context import Trace, current

MOST_BLOCKS = 32  # of a multiprocessor (CUDA C++ Programming Guide, "Technical Specifications per Compute Capability")


def annotate_layout(layouts: dict[Memory, Any]) -> None:
    """Fixes the layout of shared buffers, which the compiler otherwise chooses.

    Args:
        layouts: {buffer: layout}, a `minitile.layout.SharedLayout` of the buffer's shape and element size.

    Raises:
        LanguageError: what is no buffer of T.alloc_shared; a layout of another shape or element size.

    Example:
        ```py
        T.annotate_layout({A_shared: minitile.layout.swizzled((128, 64), 16)})
        T.copy(A[bx * 128, 0], A_shared)
        ```
    """
    trace = tile_scope("T.annotate_layout")
    for buffer, layout in layouts.items():
        op = buffer.value.op if isinstance(buffer, Memory) else None
        if not isinstance(op, tile.Alloc) or op.type_.space != "shared":
            raise trace.error(f"T.annotate_layout of {shown(buffer)}", "it is for buffers of T.alloc_shared")
        fits = (getattr(layout, "shape", None), getattr(layout, "element_bits", None))
        if fits != (op.type_.shape, op.type_.dtype.bits):
            raise trace.error(
                f"T.annotate_layout: {shown(layout)} is no layout of {buffer.describe()}",
                "give a SharedLayout of its shape and element size, see minitile.layout.shared",
            )
        op.layout = layout


def annotate_l2_hit_ratio(ratios: dict[Memory, float]) -> None:
    """Keeps a tensor in L2: of its accesses, a share stays in the part of L2 that is set aside for such; the others
    pass through.

    NVIDIA, from sm_80 on; elsewhere it says nothing. Lines stay there after the kernel, until
    `cuCtxResetPersistingL2Cache` or others like them push them out.

    Args:
        ratios: {tensor: ratio}, one tensor a launch; the ratio is over 0, up to 1.

    Raises:
        LanguageError: other memory, a ratio outside, a second tensor.

    Example:
        ```py
        T.annotate_l2_hit_ratio({B: 0.8})
        ```
    """
    trace = tile_scope("T.annotate_l2_hit_ratio")
    known = trace.attrs.get("l2_hit_ratio")
    for tensor, ratio in ratios.items():
        if not isinstance(tensor, Memory) or tensor.space != "global":
            raise trace.error(f"T.annotate_l2_hit_ratio of {shown(tensor)}", "it is for tensors of the signature")
        if not isinstance(ratio, (int, float)) or not 0 < ratio <= 1:
            raise trace.error(f"a hit ratio of {ratio!r} for {tensor.describe()}", "it is over 0, up to 1")
        if known is not None and known[0] != tensor.value.name:
            raise trace.error("T.annotate_l2_hit_ratio of two tensors", "a launch has one: choose the one read most")
        known = trace.attrs["l2_hit_ratio"] = (tensor.value.name, float(ratio))


def annotate_eviction_policy(policies: dict[Memory, str]) -> None:
    """A hint to L2 for all accesses of a tensor, element by element and by T.copy: its lines are to go first
    ("evict_first": read or written once) or last ("evict_last": read again soon). NVIDIA; elsewhere it says nothing.

    Where T.copy says otherwise itself, that counts.

    Args:
        policies: {tensor: policy}; "evict_normal" says nothing.

    Raises:
        LanguageError: other memory, another policy.

    Example:
        ```py
        T.annotate_eviction_policy({X: "evict_first", Y: "evict_first"})
        for i in T.Parallel(32):
            Y[bx * 32 + i, 0] = X[bx * 32 + i, 0]
        ```
    """
    trace = tile_scope("T.annotate_eviction_policy")
    for tensor, policy in policies.items():
        if not isinstance(tensor, Memory) or tensor.space != "global":
            raise trace.error(f"T.annotate_eviction_policy of {shown(tensor)}", "it is for tensors of the signature")
        if policy not in (*tile.EVICTIONS[1:], "evict_normal"):
            raise trace.error(
                f"a policy of {policy!r} for {tensor.describe()}", "evict_normal, evict_first or evict_last"
            )
        trace.evictions[tensor.value] = "" if policy == "evict_normal" else policy


def annotate_min_blocks_per_sm(count: int) -> None:
    """The registers of a multiprocessor are to do for so many blocks: the assembler gives a thread no more than that
    leaves it, and spills what it cannot do without. Where copies are the business of threads of their own, these are
    one warp instead of four, if count is more than 1. NVIDIA; elsewhere it says nothing.

    Args:
        count: from 1 to 32: a Python int.

    Raises:
        LanguageError: another count; inside T.Parallel.

    Example:
        ```py
        T.annotate_min_blocks_per_sm(2)
        ```
    """
    trace = tile_scope("T.annotate_min_blocks_per_sm")
    blocks = constant_int(count, "count")
    if not 1 <= blocks <= MOST_BLOCKS:
        raise trace.error(f"T.annotate_min_blocks_per_sm({blocks})", f"a multiprocessor has 1 to {MOST_BLOCKS} blocks")
    trace.attrs["min_ctas"] = blocks


def hint_evictions(launch: control.Launch, policies: dict[Value, str]) -> None:
    """What the program says of tensors, for each of their accesses that has no hint of its own."""
    for op in launch.body.walk() if policies else ():
        if isinstance(op, tile.Load | tile.Store | tile.Copy) and not op.evict:
            found = (policies.get(access.mem, "") for access in op.accesses() if access.mem is not None)
            op.evict = next(filter(None, found), "")


def use_swizzle(panel_size: int = 8, order: str = "row", enable: bool = True, num_xcds: int = 1) -> None:
    """Block swizzle: visits the blocks of the grid in panels, so that neighbours in time share cache lines.

    Args:
        panel_size: how many rows (or columns) of blocks a panel has; at least 1.
        order: "row": panels of rows; "column": of columns; "hilbert": along the Hilbert order, which has no panels.
        enable: False: without effect.
        num_xcds: how many XCDs the GPU has, each with an L2 of its own, which get blocks in turn (8 on MI300X and
            MI355X); each then gets runs of panel_size² neighbouring blocks. In a persistent kernel, those of an XCD
            have neighbouring tiles in every turn but the last one, where tiles are fewer than blocks.

    Raises:
        LanguageError: another order or size; inside T.Parallel.

    Example:
        ```py
        T.use_swizzle(8)
        ```
    """
    trace = tile_scope("T.use_swizzle")
    size, xcds = constant_int(panel_size, "panel_size"), constant_int(num_xcds, "num_xcds")
    if size < 1 or order not in ("row", "column", "col", "hilbert"):
        expected = 'panel_size ≥ 1, order "row", "column" or "hilbert"'
        raise trace.error(f"T.use_swizzle({panel_size}, order={order!r})", expected)
    if xcds < 1:
        raise trace.error(f"T.use_swizzle(num_xcds={xcds})", "a GPU has at least one XCD")
    if enable:
        trace.attrs["rasterise"] = ("col" if order == "column" else order, size, xcds)


def profile(clocks: Memory) -> None:
    """Records when each turn of the kernel's loops begins, in cycles of the multiprocessor's clock, for the first block
    of the grid. It is for measuring a schedule (docs/schedule.md): a kernel with it is a little slower. NVIDIA.

    Each loop that has no other loop in it gets a row of `clocks`, in the order of the program as it is compiled; the
    compiled kernel's notes say which line a row is of. A warp that runs the loop fills its line of the row, as far as
    there is room; what it has run again (a loop in a loop) is overwritten. All else keeps its value.

    Args:
        clocks: a tensor of the signature, (rows, warps, turns) int64, which nothing else in the kernel uses.

    Raises:
        LanguageError: other memory; a second tensor.
        TargetError: AMD.

    Example:
        ```py
        @mt.kernel
        def doubled(X: T.Tensor((1024,), T.float32), clocks: T.Tensor((1, 4, 8), T.int64)):
            with T.Kernel(1, threads=128) as bx:
                T.profile(clocks)
                part = T.alloc_fragment((128,), T.float32)
                for i in range(8):
                    T.copy(X[i * 128], part)
                    for j in T.Parallel(128):
                        part[j] = part[j] * 2.0
                    T.copy(part, X[i * 128])
        ```
    """
    trace = tile_scope("T.profile")
    fits = isinstance(clocks, Memory) and clocks.space == "global" and clocks.value.dtype is i64
    if not fits or len(clocks.shape) != 3 or not all(isinstance(extent, int) for extent in clocks.static_shape):
        raise trace.error(f"T.profile of {shown(clocks)}", "a tensor of the signature: (rows, warps, turns) int64")
    if trace.attrs.setdefault("profile", clocks.value.name) != clocks.value.name:
        raise trace.error("T.profile of two tensors", "one has a row for each loop")


def assume(condition: Any) -> None:
    """Promises that a condition holds: bounds checks that it makes needless are dropped. Nothing checks it.

    Args:
        condition: of run-time values.

    Raises:
        LanguageError: a condition that is known to be false.

    Example:
        ```py
        T.assume(N <= 128)
        for i, j in T.Parallel(32, 128):
            x[i, j] = T.if_then_else(j < N, X[bx * 32 + i, j], 0)
        T.copy(x, Y[bx * 32, 0])
        ```
    """
    if constant_value(condition) is None:
        current().b.emit(arith.Assume(truth(condition)))
    elif not constant_value(condition):
        raise current().error("T.assume of a condition that is false")


def device_assert(condition: Any, msg: str = "") -> None:
    """Stops the kernel (a trap) where the condition is false. In the simulator the error says `msg`; on NVIDIA GPUs it
    is printed.

    Args:
        condition: a scalar; numbers are compared with 0.
        msg: a Python string without zeros.

    Raises:
        LanguageError: another message.

    Example:
        ```py
        T.device_assert(I[tx] >= 0, "a negative index")
        ```
    """
    trace = current()
    value = truth(condition)
    assert value.type == BOOL
    trace.b.emit(tile.DeviceAssert(value, text=_message(trace, msg, "T.device_assert")))


def static_assert(condition: Any, msg: str = "") -> None:
    """Refuses to compile where the condition is false: for what a kernel demands of its compile-time parameters. It is
    looked at while the kernel is traced, in branches of run-time conditions too.

    Args:
        condition: known at compile time; true or false as in Python.
        msg: what the error says.

    Raises:
        LanguageError: the condition is false, or depends on run-time values.

    Example:
        ```py
        T.static_assert(A.shape[1] % 16 == 0, "rows are of whole instructions")
        ```
    """
    trace = current()
    number = constant_value(condition)
    if number is None and isinstance(condition, Expr | Memory | Region):
        raise trace.error(
            f"T.static_assert of {condition!r}, which is known at run time only",
            "use T.device_assert(condition, message), or T.assume(condition)",
        )
    if not (condition if number is None else number):
        raise trace.error(f"T.static_assert failed: {msg}" if msg else "T.static_assert failed")


def static_print(*values: Any, sep: str = " ") -> None:
    """Prints while the kernel is compiled, to standard output; nothing is left of it in the kernel. Python's `print`
    does the same. What is known at run time only is shown by its dtype, a buffer by its shape.

    A kernel is traced once for each specialisation, and once more where a call has to find out what it returns.

    Args:
        values: anything.
        sep: what stands between them.

    Example:
        ```py
        T.static_print("K =", A.shape[1])
        ```
    """
    current()
    known = [v if (number := constant_value(v)) is None else number for v in values]
    builtins.print(*known, sep=sep)


def _message(trace: Trace, msg: object, where: str) -> str:
    """A text that C's strings can hold: UTF-8, and no zero in it."""
    try:
        if isinstance(msg, str) and b"\0" not in msg.encode():
            return msg
    except UnicodeEncodeError:
        pass
    raise trace.error(f"the message of {where} is {shown(msg)}", "a string without zeros and lone surrogates")


_FORMATS = {"float": "%f", "int": "%d", "uint": "%u", "bool": "%d"}


@regions(slices=("obj",))
def print(obj: Any, msg: str = "") -> None:
    """Prints, for debugging: a run-time scalar once per block; a fragment, a shared buffer or a part of one element by
    element, each behind its indices in the tile. Not on AMD GPUs.

    Args:
        obj: a scalar, a fragment, a shared buffer, or a part of one.
        msg: what is printed in front.

    Raises:
        LanguageError: a tensor; a message with zeros.
        TargetError: an AMD target.

    Example:
        ```py
        T.print(M, "rows")
        T.copy(V[0], row)
        T.print(row)
        ```
    """
    trace = current()
    if trace.launch is None:
        raise trace.error("T.print outside T.Kernel")
    value = _printed(trace, obj) if isinstance(obj, (Memory, Region)) else operand_value(obj)
    said = _message(trace, msg, "T.print").replace("%", "%%")
    text = f"{said + ': ' if said else ''}{_FORMATS[value.dtype.kind]}\n"
    trace.b.emit(tile.Print((value,), text=text))


def _printed(trace: Trace, obj: Memory | Region) -> Value:
    region = as_region(obj, "T.print's argument")
    mem = region.memory
    if mem.space == "fragment" and not region.start and region.shape == mem.static_shape:
        return mem.value
    if mem.space != "shared":
        raise trace.error(
            f"T.print of {region.describe() if isinstance(obj, Region) else obj.describe()}",
            "print fragments, shared buffers and parts of these, or single elements in a serial loop",
        )
    shape = region.static("T.print")
    load = tile.Load(mem.value, region.offsets, shape=shape, dims=region.dims(len(shape)))
    return trace.b.emit(load).result
