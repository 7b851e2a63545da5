"""Running a few PTX instructions per thread, in the simulator, on a GPU, and through the assembler.

`kernel` wraps a body into an entry whose thread i loads element i of every input into a register of that name and
stores every output register; `simulate` runs it. `assemble` checks a text with nvJitLink where that is installed.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import numpy as np

from minitile.runtime.sim import Report, run_ptx

Arrays = dict[str, np.ndarray[Any, Any]]


def kernel(body: str, inputs: Mapping[str, Any], outputs: Mapping[str, str], target: str = "sm_80") -> str:
    """The text of an entry `k`; `outputs` maps register names to a type ("f32", "pred", ...)."""
    names = [*inputs, *outputs]
    version = "8.4" if target == "sm_89" else "8.0"
    lines = [f".version {version}\n.target {target}\n.address_size 64", ".visible .entry k("]
    lines.append(",\n".join(f"    .param .u64 p_{name}" for name in names) + "\n) {")
    lines.append("    .reg .b64 %base, %offset;\n    .reg .b32 %i, %word;\n    .reg .pred %pp;\n    .reg .b16 %half;")
    lines.append("    .reg .u32 %x<8>;\n    .reg .pred %q<8>;\n    .reg .b64 %y<8>;\n    .reg .b16 %h<8>;")
    sizes: dict[str, int] = {}
    for name, array in inputs.items():
        sizes[name] = array.dtype.itemsize
        lines.append(f"    .reg .b{8 * max(2, sizes[name])} {name};")
    for name, kind in outputs.items():
        bits = int("".join(c for c in kind.replace("x2", "") if c.isdigit())[-2:] or 0)
        sizes[name] = 4 if kind == "pred" else (2 * bits if kind.endswith("x2") else bits) // 8
        lines.append(f"    .reg .{'pred' if kind == 'pred' else f'b{8 * max(2, sizes[name])}'} {name};")
    lines.append("    mov.u32 %i, %ctaid.x;\n    mov.u32 %word, %ntid.x;\n    mul.lo.u32 %i, %i, %word;")
    lines.append("    mov.u32 %word, %tid.x;\n    add.u32 %i, %i, %word;")
    for name in inputs:
        kind = "u8" if sizes[name] == 1 else f"b{8 * sizes[name]}"
        lines.append(f"    ld.param.u64 %base, [p_{name}];\n    mul.wide.u32 %offset, %i, {sizes[name]};")
        lines.append(f"    add.u64 %base, %base, %offset;\n    ld.global.{kind} {name}, [%base];")
    lines.append(body)
    for name, kind in outputs.items():
        lines.append(f"    ld.param.u64 %base, [p_{name}];\n    mul.wide.u32 %offset, %i, {sizes[name]};")
        lines.append("    add.u64 %base, %base, %offset;")
        if kind == "pred":
            lines.append(f"    selp.b32 %word, 1, 0, {name};\n    st.global.b32 [%base], %word;")
        else:
            lines.append(f"    st.global.{'u8' if sizes[name] == 1 else f'b{8 * sizes[name]}'} [%base], {name};")
    lines.append("    ret;\n}\n")
    return "\n".join(lines)


_NUMPY = {"pred": "u4", "f32": "f4", "f64": "f8", "f16": "f2"}


def output_dtype(kind: str) -> np.dtype[Any]:
    """The array type that holds an output register."""
    if kind in _NUMPY:
        return np.dtype(_NUMPY[kind])
    bits = int("".join(c for c in kind.replace("x2", "") if c.isdigit())[-2:]) * (2 if kind.endswith("x2") else 1)
    return np.dtype(f"{'i' if kind[0] == 's' else 'u'}{bits // 8}")


def simulate(
    body: str, inputs: Mapping[str, Any], outputs: Mapping[str, str], target: str = "sm_80", **options: Any
) -> tuple[Arrays, Report]:
    """Run a body in the simulator; returns the outputs by name and the report."""
    text = kernel(body, inputs, outputs, target)
    count = len(next(iter(inputs.values())))
    block = min(count, options.pop("block", 128))
    results = {name: np.zeros(count, output_dtype(kind)) for name, kind in outputs.items()}
    report = run_ptx(text, "k", (count // block,), (block,), [*inputs.values(), *results.values()], **options)
    return results, report


@functools.cache
def assemble(text: str, target: str = "sm_80") -> str | None:
    """nvJitLink's complaint about a text, or None if it assembles or nvJitLink is not installed."""
    try:
        from cuda.bindings import nvjitlink
    except ImportError:
        return None
    handle = nvjitlink.create(1, [f"-arch={target}"])
    try:
        data = text.encode() + b"\0"
        nvjitlink.add_data(handle, nvjitlink.InputType.PTX, data, len(data), "text")
        nvjitlink.complete(handle)
    except nvjitlink.nvJitLinkError as problem:
        log = bytearray(nvjitlink.get_error_log_size(handle) + 1)
        nvjitlink.get_error_log(handle, log)
        return f"{problem}\n{log.decode(errors='replace')}"
    finally:
        nvjitlink.destroy(handle)
    return None
