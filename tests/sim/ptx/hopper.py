"""Small sm_90a programs for the tests of the simulator's Hopper part: a frame around a body, and how to run it.

The frame has one entry `k` whose parameters are tensor maps (`map0`, ...), then pointers (`p0`, ...). Registers: `tid`,
`lane`, `warp`, `s` (the address of the dynamic shared memory `smem`), `bar` (of 16 mbarriers), `cta`, `rank`, scratch
`x<16>`, `v<16>`, `y<16>` (64 bits), predicates `lead` (thread 0), `p`, `q`, the pointers as `a0`, ... and the generic
addresses of the maps as `m0`, ...
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from minitile.runtime.sim import Report, TensorMap, run_ptx
from tests.sim.ptx.gpu import Driver
from tests.sim.ptx.harness import assemble

BARRIERS = 256  # bytes for mbarriers in front of the data


def frame(body: str, maps: int = 0, pointers: int = 1, registers: str = "", limits: str = "") -> str:
    """The text of an entry."""
    params = [f"    .param .align 64 .b8 map{i}[128]" for i in range(maps)]
    params += [f"    .param .u64 p{i}" for i in range(pointers)]
    listed = ",\n".join(params)
    places = "\n".join(f"    mov.b64 m{i}, map{i};\n    cvta.param.u64 m{i}, m{i};" for i in range(maps))
    loads = "\n".join(f"    ld.param.u64 a{i}, [p{i}];\n    cvta.to.global.u64 a{i}, a{i};" for i in range(pointers))
    return f""".version 8.6
.target sm_90a
.address_size 64
.extern .shared .align 1024 .b8 smem[];
.visible .entry k(
{listed}
) {limits} {{
    .shared .align 8 .b8 bars[{BARRIERS}];
    .reg .b32 tid, lane, warp, s, bar, cta, rank, x<16>, v<16>;
    .reg .b64 y<16>, a<8>, m<4>;
    .reg .pred lead, p, q, r;
    {registers}
    mov.u32 tid, %tid.x;
    mov.u32 lane, %laneid;
    shr.u32 warp, tid, 5;
    mov.u32 s, smem;
    mov.u32 bar, bars;
    mov.u32 cta, %ctaid.x;
    mov.u32 rank, %cluster_ctarank;
    setp.eq.u32 lead, tid, 0;
{places}
{loads}
{body}
    ret;
}}
"""


def simulate(text: str, args: Sequence[Any], block: int = 128, grid: int = 1, **options: Any) -> Report:
    """Run in the simulator. With MINITILE_GPU=1, and unless `gpu=False`, run on the GPU as well: results must agree,
    except in the arguments number `opaque`, whose bytes are each machine's own."""
    on_gpu = options.pop("gpu", True) and os.environ.get("MINITILE_GPU") == "1"
    shared, opaque = options.pop("shared", 32768), options.pop("opaque", ())
    copies = _copies(args) if on_gpu else []
    report = run_ptx(text, "k", (grid,), (block,), args, dynamic_shared=shared, **options)
    if on_gpu and not report.findings:
        Driver().run(text, "k", (grid,), (block,), copies, shared)
        for n, (mine, theirs) in enumerate(zip(args, copies, strict=True)):
            if n in opaque:
                continue
            if isinstance(mine, TensorMap):
                mine, theirs = mine.root, theirs.root
            np.testing.assert_array_equal(mine.view(np.uint8), theirs.view(np.uint8), err_msg="the GPU differs")
    return report


def _copies(args: Sequence[Any]) -> list[Any]:
    roots: dict[int, Any] = {}
    result: list[Any] = []
    for arg in args:
        root = arg.root if isinstance(arg, TensorMap) else arg
        twin = roots.setdefault(id(root), root.copy())
        if isinstance(arg, TensorMap):
            view = np.ndarray(
                arg.array.shape, arg.array.dtype, twin.view(np.uint8).data, arg.root_offset, arg.array.strides
            )
            twin = TensorMap(view, arg.box, arg.swizzle, arg.element_strides, arg.interleave, arg.oob_fill)
        result.append(twin)
    return result


def assembles(text: str) -> None:
    """Assert that nvJitLink takes the text, where it is installed."""
    assert assemble(text, "sm_90a") is None, assemble(text, "sm_90a")


def silent(report: Report) -> None:
    """Assert that nothing was found."""
    assert not report.findings, str(report.findings[0])


INIT = """    @lead mbarrier.init.shared::cta.b64 [bar], 1;
    @lead fence.mbarrier_init.release.cluster;
    bar.sync 0;
"""
WAIT = """WAIT{n}:
    mbarrier.try_wait.parity.shared::cta.b64 p, [bar], {parity};
    @!p bra WAIT{n};
"""


def wait(parity: int = 0, name: str = "") -> str:
    """Wait for the first barrier's phase of this parity."""
    return WAIT.format(n=name, parity=parity)


def dump(size: int, source: str = "s", target: str = "a0", threads: int = 128) -> str:
    """Copy `size` bytes of shared memory to a global pointer, 16 bytes a thread at a time."""
    lines = ["    shl.b32 x15, tid, 4;"]
    for start in range(0, size, 16 * threads):
        lines.append(f"    add.u32 x14, x15, {start};\n    setp.lt.u32 q, x14, {size};")
        lines.append(f"    add.u32 x13, x14, {source};\n    cvt.u64.u32 y15, x14;\n    add.u64 y15, y15, {target};")
        lines.append(
            "    @q ld.shared.v4.u32 {v0, v1, v2, v3}, [x13];\n    @q st.global.v4.u32 [y15], {v0, v1, v2, v3};"
        )
    return "\n".join(lines) + "\n"


def fill(size: int, source: str = "a0", target: str = "s", threads: int = 128) -> str:
    """Copy `size` bytes from a global pointer to shared memory."""
    lines = ["    shl.b32 x15, tid, 4;"]
    for start in range(0, size, 16 * threads):
        lines.append(f"    add.u32 x14, x15, {start};\n    setp.lt.u32 q, x14, {size};")
        lines.append(f"    add.u32 x13, x14, {target};\n    cvt.u64.u32 y15, x14;\n    add.u64 y15, y15, {source};")
        lines.append(
            "    @q ld.global.v4.u32 {v0, v1, v2, v3}, [y15];\n    @q st.shared.v4.u32 [x13], {v0, v1, v2, v3};"
        )
    return "\n".join(lines) + "\n"
