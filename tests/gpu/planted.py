"""Kernels with one fault each, to see that compute-sanitizer finds it here: a clean report means little otherwise.

    python tests/gpu/planted.py memcheck|racecheck|initcheck|synccheck

Launched the way minitile launches; run under the tool of that name by benchmarks/gpu_check.sh, which wants it to fail.
"""

from __future__ import annotations

import sys

from minitile.driver.dispatch import Executable
from minitile.runtime.launch_info import LaunchInfo, Param, TensorArg

HEAD = """.version 8.0
.target sm_80
.address_size 64
.visible .entry planted(.param .u64 x, .param .u64 y)
{
    .reg .pred %p;
    .reg .b32 %t, %at, %s;
    .reg .b64 %x, %y, %wide;
    .reg .f32 %v;
    .shared .align 4 .b8 words[512];
    ld.param.u64 %x, [x];
    ld.param.u64 %y, [y];
    mov.u32 %t, %tid.x;
    mul.wide.u32 %wide, %t, 4;
    add.s64 %x, %x, %wide;
    add.s64 %y, %y, %wide;
    mov.u32 %s, words;
    shl.b32 %at, %t, 2;
    add.u32 %at, %at, %s;
"""
FAULTS = {
    # A terabyte after the start of y.
    "memcheck": """
    add.s64 %y, %y, 1099511627776;
    mov.f32 %v, 0f3F800000;
    st.global.f32 [%y], %v;
""",
    # Each thread reads its neighbour's word; no barrier in between.
    "racecheck": """
    ld.global.f32 %v, [%x];
    st.shared.f32 [%at], %v;
    xor.b32 %at, %at, 256;
    ld.shared.f32 %v, [%at];
    st.global.f32 [%y], %v;
""",
    # y was allocated and nothing wrote it.
    "initcheck": """
    ld.global.f32 %v, [%y];
    st.global.f32 [%x], %v;
""",
    # The block's barrier: 48 threads come to one while the others wait at the next. (Threads that had exited would not
    # count as missing.)
    "synccheck": """
    setp.ge.u32 %p, %t, 48;
    mov.f32 %v, 0f3F800000;
    st.shared.f32 [%at], %v;
    @%p bra other;
    bar.sync 0;
other:
    ld.shared.f32 %v, [words];
    st.global.f32 [%y], %v;
    bar.sync 0;
""",
}
INFO = LaunchInfo(
    entry="planted",
    args=(TensorArg("x", "f32", (128,)), TensorArg("y", "f32", (1024,))),
    params=tuple(Param(name, "pointer", ("pointer", name)) for name in "xy"),
    grid=(1, 1, 1),
    block=(128, 1, 1),
)


def main(fault: str) -> None:
    import torch

    x = torch.ones(128).cuda()
    y = torch.empty(1024, device="cuda")
    Executable(INFO, HEAD + FAULTS[fault] + "    ret;\n}\n")(x, y)
    torch.cuda.synchronize()


if __name__ == "__main__":
    main(sys.argv[1])
