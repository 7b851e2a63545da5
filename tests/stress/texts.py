"""What the stress commands compile: small texts for LLVM, nvJitLink and ptxas, and kernels told apart by their results.

The right result of a text is the digest of what a process that has no cache, and runs undisturbed, makes of it.
"""

from __future__ import annotations

import hashlib
import json
import linecache
from pathlib import Path

import numpy as np

import minitile as mt
from minitile.backends.amd.assemble import codegen
from minitile.backends.nvidia.assemble import AssembleOptions, needs_whole_program
from minitile.backends.nvidia.assemblers import find_ptxas
from minitile.backends.nvidia.program import assemble_cached
from minitile.target import TARGETS

VARIANTS = 24  # of each sort

KERNEL = """import minitile as mt
import minitile.language as T

@mt.kernel
def k(A: T.Tensor(("N",), T.float32), block=256):
    with T.Kernel(T.ceildiv(A.shape[0], block), threads=64) as b:
        i = T.alloc_fragment((block,), T.float32)
        T.copy(A[b * block], i)
        for j in T.Parallel(block):
            v = i[j]
            for _ in T.unroll({steps}):
                v = v * 0.5 + {n}.0
            i[j] = v
        T.copy(i, A[b * block])
"""

ROLES = """.version 8.0
.target sm_90a
.address_size 64
.visible .entry roles(.param .u64 out)
.reqntid 128
.minnctapersm 1
{{
.reg .b64 %p; .reg .b32 %t;
ld.param.u64 %p, [out];
setmaxnreg.dec.sync.aligned.u32 40;
mov.u32 %t, {n};
st.global.u32 [%p], %t;
ret;
}}
"""


def kernel(n: int, steps: int = 1) -> mt.Kernel:
    """Its own source, under a name of its own, each time."""
    name, text = f"<stress {n} {steps}>", KERNEL.format(n=n, steps=steps)
    linecache.cache[name] = len(text), None, text.splitlines(True), name
    space: dict = {"__name__": "stress"}
    exec(compile(text, name, "exec"), space)
    return space["k"]


def compiled(n: int, target: str, steps: int = 1) -> mt.CompiledKernel:
    return kernel(n, steps).compile(mt.spec((256,), "float32"), target=target)


def is_right(made: mt.CompiledKernel, n: int, steps: int = 1) -> bool:
    """Executed: what the code computes is this kernel's."""
    a = np.ones(256, np.float32)
    made.simulate(a, check=False)
    wanted = np.float32(1)
    for _ in range(steps):
        wanted = wanted * np.float32(0.5) + np.float32(n)
    return bool(np.allclose(a, wanted, rtol=1e-6))


def make(sort: str, text: str) -> str:
    """The digest of what becomes of a text, by way of the cache."""
    if sort == "cubin":
        arch = "sm_90a" if needs_whole_program(text) else "sm_80"
        done = assemble_cached(text, arch, AssembleOptions())
        return hashlib.sha256(done.cubin + f"{done.registers} {done.arch}".encode()).hexdigest()
    emit, target = sort.split()
    return hashlib.sha256(codegen.compiled(text, TARGETS[target], emit)).hexdigest()


def write(path: Path) -> None:
    """The texts with their right results, as JSON; run where MINITILE_CACHE=0."""
    found = []
    for n in range(VARIANTS):
        llvm = {target: compiled(n, target).asm["llvm"] for target in ("gfx942", "gfx950")}
        found += [("assembly gfx942", llvm["gfx942"]), ("object gfx950", llvm["gfx950"])]
        found.append(("cubin", compiled(n, "sm_80").asm["ptx"]))
        if find_ptxas(ROLES) is not None:
            found.append(("cubin", ROLES.format(n=n)))
    path.write_text(json.dumps([(sort, text, make(sort, text)) for sort, text in found]))


def read(path: Path) -> list[tuple[str, str, str]]:
    return [tuple(each) for each in json.loads(path.read_text())]
