"""Assembly for the gfx simulator: from LLVM IR through llvmlite, and from a few hand-written lines."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from minitile.runtime.sim import Report, run_gcn

ATTRIBUTES = (
    'nounwind "amdgpu-flat-work-group-size"="1,{threads}" "uniform-work-group-size"="true" "amdgpu-agpr-alloc"="0"'
)
SCHEDULES = ("lazy", "eager", "random")


@functools.cache
def assemble(ir: str, arch: str = "gfx950", level: int = 3, threads: int = 256) -> str:
    """LLVM's assembly of LLVM IR text; `#0` are the usual attributes of a kernel."""
    llvm = pytest.importorskip("llvmlite.binding")
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    header = 'target triple = "amdgcn-amd-amdhsa"\n'
    attributes = "attributes #0 = { " + ATTRIBUTES.format(threads=threads) + " }\n"
    module = llvm.parse_assembly(header + ir + attributes)
    module.verify()
    machine = llvm.Target.from_triple("amdgcn-amd-amdhsa").create_target_machine(
        cpu=arch, features="", opt=level, codemodel="small"
    )
    if level:
        options = llvm.create_pipeline_tuning_options(speed_level=level)
        builder = llvm.create_pass_builder(machine, options)
        builder.getModulePassManager().run(module, builder)
    return str(machine.emit_assembly(module))


_TEXT = """\
\t.amdgcn_target "amdgcn-amd-amdhsa--{arch}"
\t.text
k:
{body}
\ts_endpgm
\t.amdhsa_kernel k
\t\t.amdhsa_group_segment_fixed_size {lds}
\t\t.amdhsa_user_sgpr_count 2
\t\t.amdhsa_user_sgpr_kernarg_segment_ptr 1
\t\t.amdhsa_system_sgpr_workgroup_id_x 1
\t.end_amdhsa_kernel
\t.amdgpu_metadata
---
amdhsa.kernels:
  - .name: k
    .max_flat_workgroup_size: 1024
    .args:
{args}
...
\t.end_amdgpu_metadata
"""


def text_of(body: str, arguments: int, arch: str = "gfx950", lds: int = 0) -> str:
    """A kernel `k` of hand-written lines with pointer arguments; s[0:1] is the kernarg segment, s2 the workgroup."""
    args = "\n".join(
        f"      - .name: p{index}\n        .offset: {8 * index}\n        .size: 8\n        .value_kind: global_buffer"
        for index in range(arguments)
    )
    return _TEXT.format(arch=arch, body=body, lds=lds, args=args)


def lanes(
    body: str, inputs: Mapping[str, Any], outputs: Mapping[str, Any], arch: str = "gfx950", lds: int = 0, **options: Any
) -> tuple[dict[str, np.ndarray[Any, Any]], Report]:
    """Run lines in one wave or more: registers are loaded with a lane's element of each input (names like "v3" or
    "v[4:5]"), and after the body each output register is stored to an array of the given dtype."""
    count = len(next(iter(inputs.values())))
    lines = ["v_mov_b32 v250, v0", "s_mov_b64 s[90:91], s[0:1]"]
    arrays: list[np.ndarray[Any, Any]] = []
    for index, (register, values) in enumerate(inputs.items()):
        arrays.append(np.ascontiguousarray(values))
        size = arrays[-1].dtype.itemsize * (arrays[-1].shape[1] if arrays[-1].ndim > 1 else 1)
        lines += _address(index, size)
        lines.append(f"global_load_{_dwords(size)} {register}, v251, s[92:93]")
    lines += ["s_waitcnt vmcnt(0)", body]
    results = {}
    for index, (register, kind) in enumerate(outputs.items(), len(arrays)):
        dtype, width = kind if isinstance(kind, tuple) else (kind, 1)
        shape = (count, width) if width > 1 else (count,)
        results[register] = np.zeros(shape, dtype)
        size = np.dtype(dtype).itemsize * width
        lines += _address(index, size)
        lines.append(f"global_store_{_dwords(size)} v251, {register}, s[92:93]")
    text = text_of("\n".join(lines), len(inputs) + len(outputs), arch, lds)
    report = run_gcn(text, "k", (1,), (count,), [*arrays, *results.values()], **options)
    return results, report


def _address(index: int, size: int) -> list[str]:
    return [
        f"s_load_dwordx2 s[92:93], s[90:91], {8 * index}",
        "s_waitcnt lgkmcnt(0)",
        f"v_mul_u32_u24 v251, v250, {size}",
    ]


def _dwords(size: int) -> str:
    return {4: "dword", 8: "dwordx2", 12: "dwordx3", 16: "dwordx4"}[size]
