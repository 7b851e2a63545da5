"""A small kernel, written by hand, with its launch: c = a + b."""

from __future__ import annotations

from pathlib import Path

from minitile.runtime.launch_info import LaunchInfo, Param, TensorArg

PTX = Path(__file__).with_name("vector_add.ptx").read_text()
INFO = LaunchInfo(
    entry="vector_add",
    args=tuple(TensorArg(name, "f32", ("n",)) for name in "abc"),
    params=(*(Param(name, "pointer", ("pointer", name)) for name in "abc"), Param("n", "u32", ("dim", "n"))),
    grid=(("ceildiv", ("dim", "n"), 128), 1, 1),
    block=(128, 1, 1),
)
