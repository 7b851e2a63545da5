"""The process in which LLVM runs: LLVM IR in, assembly or an object file out, until its standard input ends.

It is started by codegen.py as a script and imports nothing of minitile. LLVM aborts the whole process on what it cannot
select; then it is this one that dies, with LLVM's message on its standard error.

    request    a line of JSON {"cpu": …, "emit": "assembly" | "object", "bytes": n}, then n bytes of LLVM IR
    answer     a line of JSON {"ok": bool, "bytes": n}, then n bytes: the result, or what was wrong
"""

from __future__ import annotations

import json
import sys
from typing import Any

import llvmlite.binding as llvm

OPTIONS = ("--disable-promote-alloca-to-lds",)  # LDS is placed by the compiler that asks


def main() -> None:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    for option in OPTIONS:
        llvm.set_option("minitile", option)
    target = llvm.Target.from_triple("amdgcn-amd-amdhsa")
    machines: dict[str, Any] = {}
    source, sink = sys.stdin.buffer, sys.stdout.buffer
    while line := source.readline():
        request = json.loads(line)
        text = source.read(request["bytes"]).decode()
        cpu = request["cpu"]
        if cpu not in machines:
            machines[cpu] = target.create_target_machine(cpu=cpu, opt=3)
        try:
            module = llvm.parse_assembly(text)
            module.verify()
            assembly = request["emit"] == "assembly"
            result = machines[cpu].emit_assembly(module).encode() if assembly else machines[cpu].emit_object(module)
            ok = True
        except RuntimeError as error:
            result, ok = str(error).encode(), False
        sink.write(json.dumps({"ok": ok, "bytes": len(result)}).encode() + b"\n" + result)
        sink.flush()


if __name__ == "__main__":
    main()
