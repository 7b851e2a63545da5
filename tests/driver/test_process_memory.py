"""Compiling many different kernels in one process: what is kept of them has a bound."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = '''
import gc, importlib.util, sys
from pathlib import Path
import minitile as mt

TEXT = """import minitile as mt
import minitile.language as T

def helper(x):
    return x * {n}.0

@mt.kernel
def k(A: T.Tensor(("N",), T.float32), block=128):
    with T.Kernel(T.ceildiv(A.shape[0], block), threads=64) as b:
        i = T.alloc_fragment((block,), T.float32)
        T.copy(A[b * block], i)
        for j in T.Parallel(block):
            if i[j] > {n}.0 and i[j] < {n}.5:
                i[j] = helper(i[j])
        T.copy(i, A[b * block])
"""


def megabytes(process="self"):
    for line in Path(f"/proc/{process}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024


def compile_one(n):
    path = Path(sys.argv[2], f"m{n}.py")
    path.write_text(TEXT.format(n=n))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.k.compile(mt.spec((256,), "float32"), target=sys.argv[1])


def all_of_them():
    if sys.argv[1] == "sm_80":
        return megabytes()
    from minitile.backends.amd.assemble.codegen import _worker
    return megabytes() + megabytes(_worker().process.pid)


for n in range(200):  # what has a bound fills up
    compile_one(n)
gc.collect()
before = all_of_them()
for n in range(200, 1200):
    compile_one(n)
gc.collect()
print(all_of_them() - before)
'''


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read from /proc")
@pytest.mark.parametrize("target", ["sm_80", "gfx942"])
def test_a_thousand_kernels(target, tmp_path):
    """LLVM's process included: at most 15 MB more."""
    command = [sys.executable, "-c", SCRIPT, target, str(tmp_path)]
    environment = {**os.environ, "MINITILE_CACHE": "0"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=1200)
    assert float(done.stdout) <= 15, f"{done.stdout} MB more"
