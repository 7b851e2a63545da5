"""What a compiled kernel came out as, for a person: `minitile compile --explain`.

gemm for sm_80
  launch       grid (N + 127) // 128 × (M + 127) // 128 × 1, block 128 × 1 × 1, 49152 bytes of shared memory
  arguments    A: bf16[M, K], B: bf16[N, K], C: bf16[M, N]
  compiled for M divisible by 128, …
  shared       A_shared at 0: 3 × 8192 bytes, 128x32 bf16, …
  roles        one warp copies by TMA, 256 threads compute    on sm_90a, where gemms are pipelined so
  schedule     loop of line 64: stages -2, 0; 512 …           which operation is how many iterations ahead (-) or
                                                              behind, its cycles, how busy each unit is expected
  note         not warp-specialised: …                        what the compiler did not do, and why
  assembled    234 registers per thread, 0 bytes spilled, cubin of 30568 bytes for sm_80 by nvJitLink 13.5
  instructions 64 mma.sync, 12 cp.async, …                    how often each stands in the PTX
  times        trace 7 ms, passes 35 ms (infer_layouts 9, …), ptx 6 ms, assemble 73 ms
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from minitile.ir.ops import roles, tile
from minitile.ir.parser import parse_kernel
from minitile.runtime.launch_info import TensorArg, show_expr
from minitile.transforms.schedule.cost import Turn, draw

if TYPE_CHECKING:
    from minitile.driver.jit import CompiledKernel


def explain(compiled: CompiledKernel) -> str:
    """The text. Assembles the kernel where an assembler is installed."""
    body = "\n".join(f"  {name:<12} {text}" for name, text in summary(compiled))
    return f"{compiled.launch_info.entry} for {compiled.target}\n{body}"


def summary(compiled: CompiledKernel) -> list[tuple[str, str]]:
    """The lines of the text, each as its name and what it says; a name may have several."""
    assembled = compiled.executable.program.summary()  # first: it adds its time to the others
    return [
        ("launch", _launch(compiled)),
        ("arguments", _arguments(compiled)),
        ("compiled for", _facts(compiled)),
        *(("shared", text) for text in _shared(compiled)),
        *(("roles", text) for text in _roles(compiled)),
        *(("schedule", text) for text in _turns(compiled)),
        *(("note", text) for text in compiled.notes),
        ("assembled", assembled),
        ("instructions", _instructions(compiled)),
        ("times", _times(compiled)),
    ]


def _launch(compiled: CompiledKernel) -> str:
    info = compiled.launch_info
    grid = " × ".join(show_expr(extent) for extent in info.grid)
    block = " × ".join(map(str, info.block))
    return f"grid {grid}, block {block}, {info.dynamic_shared} bytes of shared memory"


def _arguments(compiled: CompiledKernel) -> str:
    return ", ".join(
        f"{arg.name}: {arg.dtype}" + (f"[{', '.join(map(str, arg.shape))}]" if isinstance(arg, TensorArg) else "")
        for arg in compiled.launch_info.args
    )


def _facts(compiled: CompiledKernel) -> str:
    return ", ".join(map(show_expr, compiled.launch_info.facts)) or "any sizes"


def _shared(compiled: CompiledKernel) -> Iterator[str]:
    for op in parse_kernel(compiled.asm["thread_ir"], "<thread_ir>").walk():
        if isinstance(op, tile.Alloc) and op.type_.space == "shared":
            shape = "x".join(map(str, op.type_.shape))
            yield f"{op.result.name} at {op.offset}: {op.type_.versions} × {op.bytes} bytes, {shape} {op.type_.dtype}"


def _roles(compiled: CompiledKernel) -> Iterator[str]:
    for op in parse_kernel(compiled.asm["tile_ir"], "<tile_ir>").walk():
        if isinstance(op, roles.WarpSpecialized):
            threads = compiled.launch_info.block[0] - op.producer_threads
            one = f"one: {threads} threads compute, and one of their warps copies by TMA"
            yield f"one warp copies by TMA, {threads} threads compute" if op.producer_threads else one


def _turns(compiled: CompiledKernel) -> Iterator[str]:
    """The loops that were written by a schedule, found by compiling once more."""
    from minitile.driver.pipeline import compile_ir

    found: list[Turn] = []
    compile_ir(compiled.case.trace(), compiled.target, compiled.passes, turns=found)
    for turn in found:
        yield from draw(turn)


def _instructions(compiled: CompiledKernel) -> str:
    counts = compiled.backend.instructions(compiled.text)
    return ", ".join(f"{count} {name}" for name, count in counts.most_common()) or "none that touch memory"


def _times(compiled: CompiledKernel) -> str:
    slowest = sorted(compiled.pass_timings.items(), key=lambda item: -item[1])
    details = ", ".join(f"{name} {spent:.1f}" for name, spent in slowest[:5])
    stages = ", ".join(f"{name} {spent:.0f} ms" for name, spent in compiled.timings.items())
    return f"{stages}; of the passes: {details}"
