"""What the process does in which LLVM runs (see minitile/driver/serve.py): LLVM IR in, assembly or an object file out.

It imports nothing of minitile. LLVM aborts the whole process on what it cannot select; then it is this one that ends,
with LLVM's message on its standard error.

    fields     {"cpu": …, "emit": "assembly" | "object"}; the data is LLVM IR
    result     assembly text, or an object file; LLVM's words where it refuses the text
"""

from __future__ import annotations

from typing import Any

import llvmlite.binding as llvm

OPTIONS = ("--disable-promote-alloca-to-lds",)  # LDS is placed by the compiler that asks
_machines: dict[str, Any] = {}  # by processor


def _target() -> Any:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    for option in OPTIONS:
        llvm.set_option("minitile", option)
    return llvm.Target.from_triple("amdgcn-amd-amdhsa")


TARGET = _target()


def answer(fields: dict[str, Any], data: bytes) -> bytes:
    cpu = fields["cpu"]
    if cpu not in _machines:
        _machines[cpu] = TARGET.create_target_machine(cpu=cpu, opt=3)
    module = llvm.parse_assembly(data.decode())
    module.verify()
    machine = _machines[cpu]
    result: bytes = (
        machine.emit_assembly(module).encode() if fields["emit"] == "assembly" else machine.emit_object(module)
    )
    return result
